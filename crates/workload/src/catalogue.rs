//! The catalogue of workloads, by name.

use std::io;
use std::time::Duration;

use fathometer_model::Seed;

use crate::builder::Builder;
use crate::fault::Fault;
use crate::microscape::{self, Variant};
use crate::workload::{Content, Workload};
use crate::{access_log, har, httperf, leucht, pareto, specweb, synthetic, today, webstone};

/// The options of a workload besides its name.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of random choices.
    pub seed: Seed,
    /// The number of directories of the SPECweb file sets, with 36 files each.
    pub directories: u32,
    /// The pause after each burst for which an httperf session file sets no pause.
    pub think: Duration,
    /// The host of a HAR file whose requests are replayed; `None`: the host of the file's first request.
    pub host: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: Seed(1998),
            directories: 10,
            think: Duration::ZERO,
            host: None,
        }
    }
}

/// The workload does not exist, or its file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The name is unknown.
    #[error("unknown workload {name:?}: use one of {}", NAMES.join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The file cannot be read.
    #[error("failed to read {file}")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file was read, but its content is invalid.
    #[error("{file}: {fault}")]
    File {
        /// The file.
        file: String,
        /// The error in the content.
        fault: Fault,
    },
    /// An option is outside the range for which the workload is defined.
    #[error("{0}")]
    Option(&'static str),
}

/// The names that [`by_name`] accepts; `FILE` is a placeholder for a file name.
pub const NAMES: &[&str] = &[
    "microscape",
    "microscape-upper-case",
    "microscape-mixed-case",
    "microscape-css",
    "microscape-png",
    "microscape-css-png",
    "webstone",
    "almeida-a",
    "almeida-b",
    "almeida-300k",
    "specweb96",
    "specweb99",
    "pareto-4k",
    "pareto-16k",
    "pareto-32k",
    "pareto-256k",
    "pareto-1024k",
    "leucht15-small",
    "leucht15-medium",
    "leucht15-large",
    "today",
    "webstone:FILE",
    "wsesslog:FILE",
    "log:FILE",
    "har:FILE",
];

/// Generates the workload with this name. `read` returns the text of a file. It is called once, and only if the name
/// contains a file name. It may replace bytes that are invalid UTF-8.
pub fn by_name(
    name: &str,
    options: &Options,
    read: impl FnOnce(&str) -> io::Result<String>,
) -> Result<Workload, WorkloadError> {
    if let Some((kind, file)) = name.split_once(':') {
        let parse: fn(&str, &str, &Options) -> Result<Workload, Fault> = match kind {
            "webstone" => |name, text, _| webstone::parse(name, text),
            "wsesslog" => |name, text, options| httperf::parse(name, text, options.think),
            "log" => |name, text, _| access_log::parse(name, text),
            "har" => |name, text, options| har::parse(name, text, options.host.as_deref()),
            _ => return Err(unknown(name)),
        };
        let text = read(file).map_err(|source| WorkloadError::Read {
            file: file.to_owned(),
            source,
        })?;
        return parse(name, &text, options).map_err(|fault| WorkloadError::File {
            file: file.to_owned(),
            fault,
        });
    }
    let directories = || match options.directories {
        0 => Err(WorkloadError::Option(
            "a SPECweb site has at least one directory",
        )),
        1..=10_000 => Ok(options.directories),
        _ => Err(WorkloadError::Option(
            "a SPECweb site has at most 10 000 directories",
        )),
    };
    Ok(match name {
        "microscape" => of_microscape(Variant::LowerCase),
        "microscape-upper-case" => of_microscape(Variant::UpperCase),
        "microscape-mixed-case" => of_microscape(Variant::MixedCase),
        "microscape-css" => of_microscape(Variant::StyleSheet),
        "microscape-png" => of_microscape(Variant::Png),
        "microscape-css-png" => of_microscape(Variant::StyleSheetAndPng),
        "webstone" => webstone::standard(),
        "almeida-a" => webstone::almeida_a(),
        "almeida-b" => webstone::almeida_b(),
        "almeida-300k" => webstone::almeida_300k(),
        "specweb96" => specweb::specweb96(directories()?),
        "specweb99" => specweb::specweb99(directories()?),
        "pareto-4k" => pareto::group(pareto::Group::Mean4, options.seed),
        "pareto-16k" => pareto::group(pareto::Group::Mean16, options.seed),
        "pareto-32k" => pareto::group(pareto::Group::Mean32, options.seed),
        "pareto-256k" => pareto::group(pareto::Group::Mean256, options.seed),
        "pareto-1024k" => pareto::group(pareto::Group::Mean1024, options.seed),
        "leucht15-small" => leucht::page(leucht::Size::Small),
        "leucht15-medium" => leucht::page(leucht::Size::Medium),
        "leucht15-large" => leucht::page(leucht::Size::Large),
        "today" => today::page(),
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> WorkloadError {
    WorkloadError::Unknown {
        name: name.to_owned(),
    }
}

/// Generates the page of nielsen97. Sizes and paths are the same for every seed.
fn of_microscape(variant: Variant) -> Workload {
    let mut builder = Builder::default();
    let mut members = Vec::new();
    for file in microscape::site(Seed(0), variant).files {
        let content_type = match file.path.ends_with(".mng") {
            true => "video/x-mng",
            false => synthetic::type_of(&file.path),
        };
        members.push(builder.file(&file.path, content_type, file.body.len().0));
    }
    let mut workload = builder.one_page(variant.site_name(), &members, None);
    workload.content = Content::Microscape(variant);
    workload
}

#[cfg(test)]
mod tests;
