//! A workload: a plan, its files, and notes about them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, FileId, Page, Seed, Site};

use crate::fault::Fault;
use crate::microscape::{self, Variant};
use crate::plan::{Choice, PageId, Pages, Plan, Sessions, Target, TargetId};
use crate::statistics::Statistics;
use crate::synthetic::{self, FileSpec};
use crate::{access_log, har, httperf, leucht, pareto, specweb, today, webstone};

/// The size in bytes of a file without a size in the workload.
pub const UNKNOWN_SIZE: u64 = 1024;

/// The requests, and the files that answer them.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The requests and the order in which users send them.
    pub plan: Plan,
    /// The files for the plan's targets, each path once. Targets have no file if their method is neither GET
    /// nor HEAD, or if the source shows that the file does not exist.
    pub files: Vec<FileSpec>,
    /// Choices made where the workload's source leaves them open, and omissions. Whole sentences without a
    /// full stop, to be printed with the results.
    pub notes: Vec<String>,
    /// Lines or entries of the workload's source that are not requested: their number, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The source of the files' bytes.
    pub content: Content,
}

/// The source of the bytes of a workload's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// From [`synthetic::site`].
    Synthetic,
    /// From [`microscape::site`].
    Microscape(Variant),
}

impl Workload {
    /// The site that answers the plan's requests. `ratio` is the fraction to which DEFLATE reduces synthetic
    /// texts; the usual value is [`synthetic::TEXT_RATIO`].
    pub fn site(&self, ratio: f64, seed: Seed) -> Site {
        match self.content {
            Content::Microscape(variant) => microscape::site(seed, variant),
            Content::Synthetic => synthetic::site(
                self.plan.name.clone(),
                self.files.clone(),
                self.pages(),
                ratio,
                seed,
            ),
        }
    }

    /// The workload's figures.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self)
    }

    /// The plan's pages as pages of files.
    fn pages(&self) -> Vec<Page> {
        let places: HashMap<Vec<u8>, FileId> = self
            .files
            .iter()
            .zip(0..)
            .filter_map(|(file, id)| Some((file_key(&file.path)?, FileId(id))))
            .collect();
        let file_of = |target: TargetId| {
            let key = file_key(&self.plan.targets[target.0 as usize].path)?;
            places.get(&key).copied()
        };
        (0..self.plan.pages.len() as u32)
            .filter_map(|page| {
                let targets = self.plan.pages.get(PageId(page));
                let base = file_of(targets.members[0])?;
                let mut page = Page {
                    base,
                    embedded: Vec::new(),
                    named_by: Vec::new(),
                };
                if targets.members.len() == 1 {
                    return Some(page);
                }
                // The index of each member among the embedded files; `None` for the base and for members
                // without a file.
                let mut place_of: Vec<Option<u16>> = vec![None];
                let mut seen = HashMap::from([(base, None)]);
                for (place, &member) in targets.members.iter().enumerate().skip(1) {
                    let Some(file) = file_of(member) else {
                        place_of.push(None);
                        continue;
                    };
                    let new = u16::try_from(page.embedded.len()).ok();
                    let at = *seen.entry(file).or_insert(new);
                    place_of.push(at);
                    if at == new && new.is_some() {
                        page.embedded.push(file);
                        let by = targets.named_by.get(place).copied().unwrap_or(0);
                        page.named_by.push(place_of[usize::from(by)]);
                    }
                }
                if page.named_by.iter().all(Option::is_none) {
                    page.named_by = Vec::new();
                }
                Some(page)
            })
            .collect()
    }
}

/// The options of a workload besides its name.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of random choices.
    pub seed: Seed,
    /// Directories of the SPECweb file sets, 36 files each.
    pub directories: u32,
    /// The pause after a burst of an httperf session that sets none.
    pub think: Duration,
    /// The host whose requests of a HAR file are replayed; `None`: the host of its first request.
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
    #[error("there is no workload named {name:?}: there are {}", NAMES.join(", "))]
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
        /// What is wrong with it.
        fault: Fault,
    },
    /// An option is outside the range for which the workload is defined.
    #[error("{0}")]
    Option(&'static str),
}

/// The names that [`by_name`] accepts; `FILE` stands for the name of a file.
pub const NAMES: &[&str] = &[
    "microscape",
    "microscape-mixed-case",
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

/// The workload of this name. `read` returns the text of a file; it is called once, and only for a name that
/// contains a file. Bytes of a file that are not UTF-8 may be replaced.
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
        "microscape-mixed-case" => of_microscape(Variant::MixedCase),
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

/// The page of nielsen97. Sizes and paths are the same for every seed.
fn of_microscape(variant: Variant) -> Workload {
    let mut builder = Builder::default();
    let mut members = Vec::new();
    for file in microscape::site(Seed(0), variant).files {
        let content_type = synthetic::type_of(&file.path);
        members.push(builder.file(&file.path, content_type, file.body.len().0));
    }
    let mut workload = builder.one_page(variant.site_name(), &members, None);
    workload.content = Content::Microscape(variant);
    workload
}

/// Collects targets and files, each once.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub targets: Vec<Target>,
    pub pages: Pages,
    pub files: Vec<FileSpec>,
    pub notes: Vec<String>,
    pub skipped: BTreeMap<String, u64>,
    target_ids: HashMap<TargetKey, TargetId>,
    file_places: HashMap<Vec<u8>, usize>,
    /// Whether the size of each file is known.
    sized: Vec<bool>,
    /// The size of the response to each request target, its query included; `None` where it varied.
    target_sizes: HashMap<String, Option<u64>>,
}

/// Method, path, content and its type: requests that agree in all of these are the same target.
type TargetKey = (String, String, Option<Arc<[u8]>>, Option<Arc<str>>);

impl Builder {
    /// Adds a request, unless an equal one exists, and returns it.
    pub fn target(&mut self, method: &str, path: &str, content: Option<Arc<[u8]>>) -> TargetId {
        self.target_with_type(method, path, content, None)
    }

    /// The same with the type of its content.
    pub fn target_with_type(
        &mut self,
        method: &str,
        path: &str,
        content: Option<Arc<[u8]>>,
        content_type: Option<Arc<str>>,
    ) -> TargetId {
        let key = (method.to_owned(), path.to_owned(), content, content_type);
        if let Some(&id) = self.target_ids.get(&key) {
            return id;
        }
        let id = TargetId(self.targets.len() as u32);
        self.targets.push(Target {
            method: method.to_owned().into(),
            content: key.2.clone(),
            content_type: key.3.clone(),
            ..Target::get(path, None)
        });
        self.target_ids.insert(key, id);
        id
    }

    /// Adds a file for a path, with its size if known. Of several sizes the largest is used.
    pub fn add_file(&mut self, path: &str, content_type: &'static str, size: Option<u64>) {
        let Some(key) = file_key(path) else {
            return;
        };
        let place = *self.file_places.entry(key).or_insert_with(|| {
            self.files.push(FileSpec {
                path: without_query(path).to_owned(),
                content_type,
                size: UNKNOWN_SIZE,
            });
            self.sized.push(false);
            self.files.len() - 1
        });
        let Some(size) = size else {
            return;
        };
        // Only while it is always the same: a response that varies has no expected size.
        self.target_sizes
            .entry(path.to_owned())
            .and_modify(|known| *known = known.filter(|&known| known == size))
            .or_insert(Some(size));
        let file = &mut self.files[place];
        file.size = match self.sized[place] {
            true => file.size.max(size),
            false => size,
        };
        self.sized[place] = true;
    }

    /// A GET for a file of known size.
    pub fn file(&mut self, path: &str, content_type: &'static str, size: u64) -> TargetId {
        self.add_file(path, content_type, Some(size));
        self.target("GET", path, None)
    }

    /// A workload that requests one page repeatedly.
    pub fn one_page(
        mut self,
        name: &str,
        members: &[TargetId],
        named_by: Option<&[u16]>,
    ) -> Workload {
        let page = match named_by {
            Some(named_by) => self.pages.push_with_dependencies(members, named_by),
            None => self.pages.push(members),
        };
        self.finish(name, Choice::Sequence([page].into()), None)
    }

    /// The workload. Users continue without a pause or an end, unless sessions were recorded.
    pub fn finish(
        mut self,
        name: &str,
        choice: Choice,
        recorded: Option<Arc<[Duration]>>,
    ) -> Workload {
        for target in &mut self.targets {
            target.size = match &*target.method {
                "HEAD" => Some(Bytes(0)),
                "GET" => self
                    .target_sizes
                    .get(&target.path)
                    .copied()
                    .flatten()
                    .map(Bytes),
                _ => None,
            };
        }
        let several = self.target_sizes.iter().filter(|(path, size)| {
            let place = file_key(path).and_then(|key| self.file_places.get(&key).copied());
            place.is_some_and(|place| **size != Some(self.files[place].size))
        });
        let several = several.count();
        if several > 0 {
            self.notes.push(format!(
                "{several} request targets have another size than others of the same path, or several: a site made of \
                 this workload has one file for each path, of the largest size"
            ));
        }
        let unknown = self.sized.iter().filter(|&&sized| !sized).count();
        if unknown > 0 {
            self.notes.push(format!(
                "the sizes of {unknown} files are not known: any size is accepted, and a site made of this workload has \
                 them with {UNKNOWN_SIZE} B"
            ));
        }
        let sessions = Sessions {
            pages: recorded
                .is_some()
                .then_some(crate::distribution::Law::Fixed(1.0)),
            off: None,
        };
        Workload {
            plan: Plan {
                name: name.to_owned(),
                targets: self.targets,
                pages: self.pages,
                choice,
                sessions,
                recorded,
            },
            files: self.files,
            notes: self.notes,
            skipped: self.skipped,
            content: Content::Synthetic,
        }
    }
}

/// The path of the file that answers a request for `target`: without the query.
fn without_query(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// The bytes of the file path in a target. `None` for a path that a site cannot have: with dot segments, or
/// that cannot be decoded.
fn file_key(target: &str) -> Option<Vec<u8>> {
    let path = without_query(target);
    if !is_origin_form(path) {
        return None;
    }
    let mut key = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        match (digit()? * 16 + digit()?) as u8 {
            0 | b'/' => return None,
            byte => key.push(byte),
        }
    }
    let is_dots = |segment: &[u8]| segment == b"." || segment == b"..";
    (!key.split(|&byte| byte == b'/').any(is_dots)).then_some(key)
}

/// Whether a request can have this target: RFC 9112 section 3.2.1, leniently.
pub(crate) fn is_origin_form(target: &str) -> bool {
    target.starts_with('/')
        && target
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Whether this is a method: a token of RFC 9110 section 5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests;
