//! Workloads by name, as used by all commands.
//!
//! `fathometer-workload` generates them and reads no files. This module reads the files that names such as
//! `log:access.log` contain, and adds these workloads:
//!
//! - SURGE, with parameters in the name (`surge:files=5000,requests=1000000`)
//! - pages of the first files of Microscape (`microscape:files=8`)
//! - the groups of Fujinoki et al. by the mean file size (`pareto:mean=4k`, the same as `pareto-4k` but
//!   with a number for the axis of a curve)

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use fathometer_model::{Seed, Site};
use fathometer_packets::capture::Zstd;
use fathometer_workload::catalogue::{self, Options, WorkloadError};
use fathometer_workload::fit::FitReport;
use fathometer_workload::plan::{PageId, Pages, Plan};
use fathometer_workload::surge::{
    self, BodyForm, Locality, LocalitySetting, PageOrder, Parameters, Stage, Surge, SurgeError,
};
use fathometer_workload::synthetic::TEXT_RATIO;
use fathometer_workload::workload::Workload;
use flate2::read::MultiGzDecoder;

/// A loaded workload.
#[derive(Debug)]
pub enum Loaded {
    /// Any workload except SURGE.
    Plain(Box<Workload>),
    /// SURGE, which is defined by distributions; its data are checked against them.
    Surge(Box<Surge>),
}

/// The reason why a workload could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The name, its file, or the file's content is invalid.
    #[error("{}", with_cause(.0))]
    Workload(#[from] WorkloadError),
    /// SURGE's parameters are invalid.
    #[error(transparent)]
    Surge(#[from] SurgeError),
    /// A parameter in the name is invalid.
    #[error("{name}: {fault}")]
    Name {
        /// The name.
        name: String,
        /// The error in the name.
        fault: String,
    },
}

impl LoadError {
    /// Returns whether the name is invalid, and not the file in the name.
    pub fn is_usage(&self) -> bool {
        match self {
            LoadError::Workload(WorkloadError::Unknown { .. } | WorkloadError::Option(_))
            | LoadError::Surge(_)
            | LoadError::Name { .. } => true,
            LoadError::Workload(WorkloadError::Read { .. } | WorkloadError::File { .. }) => false,
        }
    }
}

fn with_cause(error: &WorkloadError) -> String {
    match error {
        WorkloadError::Unknown { name } => format!(
            "unknown workload {name:?}: use one of {}",
            names().join(", ")
        ),
        WorkloadError::Read { file, source } => format!("failed to read {file}: {source}"),
        other => other.to_string(),
    }
}

const SURGE: &str = "surge";
const MICROSCAPE: &str = "microscape";
const PARETO: &str = "pareto";
const SIGMETRICS: &str = "surge-sigmetrics98";

/// The default seed of a workload, the same for every command. So a server and a load test with the same workload use
/// the same files.
pub const SEED: u64 = 1997;

/// Default number of files and requests of a SURGE workload: the number of files in the paper's main experiments, and
/// enough requests for several hundred users in an hour.
const FILES: u32 = 2000;
const REQUESTS: u64 = 500_000;

/// Returns the valid names, for messages and help.
pub fn names() -> Vec<String> {
    let others = catalogue::NAMES.iter().copied();
    others
        .chain([SURGE, SIGMETRICS])
        .map(str::to_owned)
        .collect()
}

/// Loads a workload by name. Calls `progress` with the name and the completed share (0 to 1) of long stages.
pub fn load(
    name: &str,
    seed: Seed,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Loaded, LoadError> {
    let (word, settings) = name.split_once(':').unwrap_or((name, ""));
    if word == SURGE || word == SIGMETRICS {
        let parameters = parameters(word, settings).map_err(|fault| LoadError::Name {
            name: name.to_owned(),
            fault,
        })?;
        let mut report = |stage: Stage, share: f64| progress(stage.name(), share);
        let surge = surge::plan(&parameters, seed, &mut report)?;
        return Ok(Loaded::Surge(Box::new(surge)));
    }
    if word == MICROSCAPE && !settings.is_empty() {
        let page = first_files_of_microscape(name, settings, seed)?;
        return Ok(Loaded::Plain(Box::new(page)));
    }
    if word == PARETO {
        return Ok(Loaded::Plain(Box::new(group_by_mean(
            name, settings, seed,
        )?)));
    }
    let options = Options {
        seed,
        ..Options::default()
    };
    let workload = catalogue::by_name(name, &options, text_of)?;
    Ok(Loaded::Plain(Box::new(workload)))
}

/// Maximum size of a workload's file after decompression: ten million lines of a log, at about 200 bytes per line.
const MOST_TEXT: u64 = 2 << 30;

/// Reads the text of a file, or of standard input for `-`. Text that begins like gzip (RFC 1952) or Zstandard (RFC
/// 8878) is decompressed, regardless of the file name.
fn text_of(file: &str) -> io::Result<String> {
    let input: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin().lock()),
        file => Box::new(File::open(file)?),
    };
    let mut input = BufReader::new(input);
    let mut text = Vec::new();
    let head = input.fill_buf()?;
    let mut unpacked: Box<dyn Read> = match head {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd::open(input)?),
        _ => Box::new(input),
    };
    unpacked
        .by_ref()
        .take(MOST_TEXT + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MOST_TEXT {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "it has more than {} GiB of text; use a part of the file",
                MOST_TEXT >> 30
            ),
        ));
    }
    // A log may contain any bytes from clients, so invalid UTF-8 is replaced.
    Ok(match String::from_utf8(text) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Creates a group of Fujinoki et al., selected by its mean file size.
fn group_by_mean(name: &str, settings: &str, seed: Seed) -> Result<Workload, LoadError> {
    let known: Vec<&str> = catalogue::NAMES
        .iter()
        .filter_map(|name| name.strip_prefix(PARETO)?.strip_prefix('-'))
        .collect();
    let mean = settings.strip_prefix("mean=").filter(|m| known.contains(m));
    let mean = mean.ok_or_else(|| LoadError::Name {
        name: name.to_owned(),
        fault: format!("use mean=SIZE; the sizes are {}", known.join(", ")),
    })?;
    let options = Options {
        seed,
        ..Options::default()
    };
    let group = format!("{PARETO}-{mean}");
    let mut workload = catalogue::by_name(&group, &options, |file| {
        Err(std::io::Error::other(format!("{file} is not needed")))
    })?;
    workload.plan.name = name.to_owned();
    Ok(workload)
}

/// Creates Microscape's page with only its first files, including the base, so that pages differ only in their number
/// of files.
fn first_files_of_microscape(
    name: &str,
    settings: &str,
    seed: Seed,
) -> Result<Workload, LoadError> {
    let fault = |fault: String| LoadError::Name {
        name: name.to_owned(),
        fault,
    };
    let number = settings
        .strip_prefix("files=")
        .ok_or_else(|| fault(format!("unknown setting {settings:?}: use files=N")))?;
    let options = Options {
        seed,
        ..Options::default()
    };
    let mut workload = catalogue::by_name(MICROSCAPE, &options, |file| {
        Err(std::io::Error::other(format!("{file} is not needed")))
    })?;
    let members = workload.plan.pages.get(PageId(0)).members.to_vec();
    let files = number
        .parse::<usize>()
        .ok()
        .filter(|files| (1..=members.len()).contains(files))
        .ok_or_else(|| {
            let most = members.len();
            fault(format!("files must be 1 to {most}, not {number:?}"))
        })?;
    workload.plan.pages = Pages::new();
    workload.plan.pages.push(&members[..files]);
    workload.plan.name = name.to_owned();
    Ok(workload)
}

fn parameters(word: &str, settings: &str) -> Result<Parameters, String> {
    let (mut files, mut requests) = (FILES, REQUESTS);
    let (mut order, mut form, mut locality) = (None, None, None);
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let known = "use files=N, requests=N, order=popular-fewest|random, form=as-is|renormalised and \
         locality=original|law";
        let Some((key, value)) = setting.split_once('=') else {
            return Err(format!(
                "{setting:?} is not of the form NAME=VALUE: {known}"
            ));
        };
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{key} must be a number, not {value:?}"))
        };
        match (key, value) {
            ("files", _) => {
                files = u32::try_from(number()?).map_err(|_| format!("too many files: {value}"))?;
            }
            ("requests", _) => requests = number()?,
            ("order", "popular-fewest") => order = Some(PageOrder::PopularFewest),
            ("order", "random") => order = Some(PageOrder::Random),
            ("form", "as-is") => form = Some(BodyForm::AsIs),
            ("form", "renormalised") => form = Some(BodyForm::Renormalised),
            ("locality", "original") => locality = Some(LocalitySetting::Original),
            ("locality", "law") => locality = Some(LocalitySetting::Law),
            _ => return Err(format!("unknown setting {setting:?}: {known}")),
        }
    }
    let mut parameters = match word {
        SIGMETRICS => Parameters::sigmetrics98(files, requests),
        _ => Parameters::barford98(files, requests),
    };
    parameters.references.order = order.unwrap_or(parameters.references.order);
    parameters.request_sizes.form = form.unwrap_or(parameters.request_sizes.form);
    parameters.locality = locality.map_or(parameters.locality, Locality::of);
    Ok(parameters)
}

impl Loaded {
    /// Returns the site to serve for this workload.
    pub fn site(&self, seed: Seed) -> Site {
        match self {
            Loaded::Plain(workload) => workload.site(TEXT_RATIO, seed.stream("workload")),
            Loaded::Surge(surge) => surge.site(TEXT_RATIO),
        }
    }

    /// Returns notes for the user, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Loaded::Plain(workload) => workload.notes.clone(),
            Loaded::Surge(surge) => surge.parameters.notes(),
        }
    }

    /// Returns the number of lines or entries of the workload's source that are not requested, by reason.
    pub fn skipped(&self) -> BTreeMap<String, u64> {
        match self {
            Loaded::Plain(workload) => workload.skipped.clone(),
            Loaded::Surge(_) => BTreeMap::new(),
        }
    }

    /// Compares the workload's data with its distributions, if it has distributions.
    pub fn fit(&self) -> Option<&FitReport> {
        match self {
            Loaded::Plain(_) => None,
            Loaded::Surge(surge) => Some(&surge.report),
        }
    }

    /// Returns the workload's figures as text.
    pub fn figures(&self) -> String {
        match self {
            Loaded::Plain(workload) => workload.statistics().to_string(),
            Loaded::Surge(surge) => surge.summary.to_string(),
        }
    }

    /// Returns the workload's figures as JSON.
    pub fn figures_json(&self) -> serde_json::Result<serde_json::Value> {
        match self {
            Loaded::Plain(workload) => serde_json::to_value(workload.statistics()),
            Loaded::Surge(surge) => serde_json::to_value(surge.summary),
        }
    }

    /// Returns the workload's plan of requests.
    pub fn into_plan(self) -> Plan {
        match self {
            Loaded::Plain(workload) => workload.plan,
            Loaded::Surge(surge) => surge.into_plan(),
        }
    }
}

/// Creates a short description of a workload.
pub fn describe(name: &str) -> String {
    match name.split_once(':').map_or(name, |(word, _)| word) {
        "webstone" if name.contains(':') => "pages and weights of a WebStone file list".to_owned(),
        "wsesslog" => "sessions of an httperf session file".to_owned(),
        "log" => "an access log (Common or Combined Log Format), replayed".to_owned(),
        "har" => "the pages of a HAR file, with their dependencies".to_owned(),
        SIGMETRICS => {
            "SURGE with the parameters of SIGMETRICS '98, unconfirmed; settings as for surge"
                .to_owned()
        }
        SURGE => "SURGE (Barford and Crovella 1998); also \
             surge:files=2000,requests=500000,order=random,form=renormalised,locality=law"
            .to_owned(),
        PARETO => "a group of Fujinoki et al., selected by mean file size".to_owned(),
        MICROSCAPE if name.contains(':') => "the first N files of Microscape's page".to_owned(),
        _ => match load(name, Seed(1), &mut |_, _| {}) {
            Ok(Loaded::Plain(workload)) => {
                let statistics = workload.statistics();
                format!(
                    "{} files of {}, {} pages of {:.1} files",
                    statistics.files,
                    statistics.total,
                    statistics.pages,
                    statistics.mean_files_per_page
                )
            }
            Ok(Loaded::Surge(_)) => String::new(),
            Err(error) => error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(name: &str) -> Result<Loaded, LoadError> {
        load(name, Seed(1), &mut |_, _| {})
    }

    #[test]
    fn a_group_has_its_mean_in_its_name() {
        let sizes = |name: &str| -> Vec<u64> {
            let site = quiet(name).unwrap().site(Seed(1));
            site.files.iter().map(|file| file.body.len().0).collect()
        };
        assert_eq!(sizes("pareto:mean=16k"), sizes("pareto-16k"));
        let error = quiet("pareto:mean=17k").unwrap_err().to_string();
        assert!(error.contains("4k, 16k, 32k, 256k, 1024k"), "{error}");
    }

    #[test]
    fn surge_takes_its_parameters_from_the_name() {
        let loaded = quiet("surge:files=200,requests=5000,order=random,locality=law").unwrap();
        let Loaded::Surge(surge) = &loaded else {
            panic!("it is SURGE");
        };
        assert_eq!(surge.parameters.locality.setting, LocalitySetting::Law);
        assert_eq!(loaded.site(Seed(1)).files.len(), 200);
        assert!(loaded.fit().is_some());
        for (name, place) in [
            ("surge:file=1", "\"file=1\""),
            ("surge:files=many", "\"many\""),
            ("surge:files", "\"files\""),
            ("surge:files=1,requests=0", "page"),
            ("microscape:files=0", "1 to 43"),
            ("microscape:images=3", "files=N"),
            ("nothing", "\"nothing\""),
            ("log:/no/such/file", "/no/such/file"),
        ] {
            let error = quiet(name).unwrap_err().to_string();
            assert!(error.contains(place), "{name}: {error}");
        }
    }

    #[test]
    fn a_log_may_be_compressed() {
        use std::io::Write;

        let line =
            |n: u32| format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET /{n} HTTP/1.1\" 200 5\n");
        let text: String = (0..100).map(line).collect();
        let folder = tempfile::tempdir().unwrap();
        // Two gzip members, as in concatenated files of logrotate.
        let mut gzip = Vec::new();
        for part in [&text[..1000], &text[1000..]] {
            let mut encoder =
                flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::default());
            encoder.write_all(part.as_bytes()).unwrap();
            encoder.finish().unwrap();
        }
        // Two frames, as in concatenated files.
        let zstandard = [&text[..1000], &text[1000..]].map(|part| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(part.as_bytes(), level)
        });
        let zstandard = zstandard.concat();
        for (name, bytes) in [
            ("plain", text.as_bytes()),
            ("gzip", &gzip),
            ("zstd", &zstandard),
        ] {
            let file = folder.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            let loaded = quiet(&format!("log:{}", file.display())).unwrap();
            assert!(loaded.skipped().is_empty(), "{name}");
            assert_eq!(loaded.into_plan().targets.len(), 100, "{name}");
        }
        let file = folder.path().join("cut");
        std::fs::write(&file, &gzip[..gzip.len() / 2]).unwrap();
        let error = quiet(&format!("log:{}", file.display())).unwrap_err();
        assert!(error.to_string().contains("failed to read"), "{error}");
    }

    #[test]
    fn microscape_can_have_fewer_files() {
        let members = |name: &str| {
            let plan = quiet(name).unwrap().into_plan();
            plan.pages.get(PageId(0)).members.to_vec()
        };
        let whole = members("microscape");
        assert_eq!(whole.len(), 43);
        assert_eq!(members("microscape:files=43"), whole);
        assert_eq!(members("microscape:files=8"), whole[..8]);
        // All files of the page are served.
        let site = quiet("microscape:files=1").unwrap().site(Seed(1));
        assert_eq!(site.files.len(), 43);
    }

    #[test]
    fn everything_that_is_listed_can_be_described() {
        for name in names() {
            assert!(!describe(&name).contains("unknown workload"), "{name}");
        }
    }
}
