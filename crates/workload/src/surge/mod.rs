//! SURGE: a workload that follows seven measured laws of Web use simultaneously.
//!
//! P. Barford and M. Crovella, "Generating representative workloads for network and server performance evaluation"
//! (SIGMETRICS '98), and in the later version, "A performance evaluation of Hyper Text Transfer Protocols" (Boston
//! University, 1998). This module determines:
//!
//! - the sizes of base files, of files embedded in them, and of single files;
//! - the number of requests for each file (Zipf's law);
//! - the popularity of each file, so that the sizes of *requested* files follow their own law;
//! - the files of each page;
//! - one global sequence of pages, whose stack distances are lognormal;
//! - pauses and session lengths.
//!
//! [`plan`] generates it in six [`Stage`]s and tests each stage against its law: [`Surge::report`]. The number of users
//! is not part of the workload. This module does not wait or send requests.
//!
//! The papers are easily misread in these points:
//!
//! - The 7 % of base files in the tail are a mixing weight; a continuous density would give another share.
//! - The body of the law of request sizes is not renormalised at the cut.
//! - The most popular pages have the fewest embedded files.
//! - The lognormal law of the stack distances is of the *decimal* logarithm.
//! - The density of the inverse Gaussian law is misprinted in the paper.

use std::fmt;
use std::panic::resume_unwind;

use fathometer_model::{Bytes, Seed};
use serde::{Deserialize, Serialize};

use crate::distribution::{LawError, Mixture};
use crate::fit::FitReport;
use crate::plan::{PageId, Pages, TargetId};

mod goodness;
mod locality;
mod matching;
mod pacing;
mod parameters;
mod popularity;
mod references;
mod site;
mod stack;
mod stack_distances;
mod target;

pub use parameters::{
    BodyForm, Locality, LocalitySetting, PageOrder, Parameters, References, RequestSizes, Shares,
};
pub use stack_distances::StackDistances;

/// A step of the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Sizes of all files.
    Sizes,
    /// The number of requests for the file of each rank.
    Popularity,
    /// The rank of each file.
    Matching,
    /// The files of each page.
    Pages,
    /// The order of the page requests.
    Locality,
    /// The tests of all stages against their laws.
    Fit,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 6] = [
        Stage::Sizes,
        Stage::Popularity,
        Stage::Matching,
        Stage::Pages,
        Stage::Locality,
        Stage::Fit,
    ];

    /// Returns the name of the stage in progress messages.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Sizes => "file sizes",
            Stage::Popularity => "popularity",
            Stage::Matching => "matching sizes and popularity",
            Stage::Pages => "pages",
            Stage::Locality => "temporal locality",
            Stage::Fit => "goodness of fit",
        }
    }
}

/// The role of a file in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The base file of a page that has embedded files.
    Base,
    /// A file that is embedded in pages.
    Embedded,
    /// A file that is a page of its own.
    Single,
}

/// One file of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurgeFile {
    /// The role of the file in a page.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: Bytes,
    /// The part of its kind's size law from which the size was drawn.
    pub part: u8,
    /// The number of requests that the popularity of the file implies. Pages share embedded files, so the actual number
    /// of requests may be larger or smaller.
    pub references: u32,
}

/// A complete workload in memory: about 50 bytes per file and 4 bytes per page request.
#[derive(Debug, Clone)]
pub struct Surge {
    /// The parameters of the workload.
    pub parameters: Parameters,
    /// The seed of the workload.
    pub seed: Seed,
    /// All files: base files, then embedded files, then single files.
    pub files: Vec<SurgeFile>,
    /// All pages. Page *n* has base file *n*; the pages of single files follow, in the order of the files. A target is
    /// the index of a file in `files`.
    pub pages: Pages,
    /// The pages in the order in which all users together request them.
    pub sequence: Vec<PageId>,
    /// The stack distances of the sequence.
    pub distances: StackDistances,
    /// Number of requests for the most popular file.
    pub top_count: u64,
    /// Totals and means.
    pub summary: Summary,
    /// The test of each stage against its law.
    pub report: FitReport,
}

/// Totals and means of a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Mean size of a file in bytes.
    pub mean_size: f64,
    /// Median size of a file in bytes.
    pub median_size: u64,
    /// Size of the largest file in bytes.
    pub largest_size: u64,
    /// Number of pages, including single files.
    pub pages: u64,
    /// Mean number of files per page.
    pub files_a_page: f64,
    /// Median number of files per page.
    pub median_files_a_page: u64,
    /// Mean number of files per page request.
    pub files_a_requested_page: f64,
    /// Number of page requests in the sequence.
    pub page_requests: u64,
    /// Number of file requests in the sequence.
    pub file_requests: u64,
    /// Bytes of all requested files.
    pub requested_bytes: u64,
    /// Number of file requests that the popularity implies.
    pub references: u64,
    /// Number of page requests that the popularity implies: the length of the sequence including its discarded end.
    pub planned_page_requests: u64,
    /// The position after which no request for a popular page follows, as a share of the whole sequence including its
    /// discarded end. The popular pages together have half of all requests. `None`: some of these requests remain at
    /// the end of the sequence.
    pub popular_used_up: Option<f64>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "files             {} ({} B)", self.files, self.bytes)?;
        writeln!(
            f,
            "file size         mean {:.0} B, median {} B, largest {} B",
            self.mean_size, self.median_size, self.largest_size
        )?;
        writeln!(
            f,
            "pages             {}, {:.2} files each (median {}); {:.2} each weighted by requests",
            self.pages, self.files_a_page, self.median_files_a_page, self.files_a_requested_page
        )?;
        write!(
            f,
            "sequence          {} pages, {} requests, {} B",
            self.page_requests, self.file_requests, self.requested_bytes
        )
    }
}

/// The reason why a workload cannot be generated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SurgeError {
    /// The parameters contradict each other.
    #[error("a SURGE workload's parameters are invalid: {rule}")]
    Parameter {
        /// The rule that is violated.
        rule: &'static str,
    },
    /// A law is not defined for its parameters.
    #[error("a law of the SURGE workload is not defined")]
    Law(#[from] LawError),
    /// No page remains when the files are divided into kinds.
    #[error("too few files ({files}): at least one must be a page")]
    TooFewFiles {
        /// The requested number of files.
        files: u32,
    },
    /// No page would be requested.
    #[error("with {requests} requests no page would be requested")]
    NoRequests {
        /// The requested number of requests.
        requests: u64,
    },
    /// The number of requests exceeds the range of the counters.
    #[error("too many requests ({references}): at most {}", u32::MAX)]
    TooManyRequests {
        /// The number of requests that the popularity implies.
        references: u128,
    },
}

/// Generates a workload, and calls `progress` with the current stage and the completed share of that stage,
/// from 0 to 1. The same parameters and seed give the same workload on every machine.
pub fn plan(
    parameters: &Parameters,
    seed: Seed,
    progress: &mut dyn FnMut(Stage, f64),
) -> Result<Surge, SurgeError> {
    parameters.check()?;
    let kinds = Kinds::of(parameters);
    if kinds.base + kinds.single == 0 {
        return Err(SurgeError::TooFewFiles {
            files: parameters.files,
        });
    }

    progress(Stage::Sizes, 0.0);
    let sizes = file_sizes(parameters, kinds, seed);

    progress(Stage::Popularity, 0.0);
    let ranks = u64::from(parameters.files);
    let top_count = parameters
        .top_count
        .unwrap_or_else(|| popularity::top_for(ranks, parameters.requests));
    let references = popularity::total(top_count, ranks);
    if references > u128::from(u32::MAX) {
        return Err(SurgeError::TooManyRequests { references });
    }
    let counts: Vec<u64> = (1..=ranks)
        .map(|rank| popularity::count(top_count, rank))
        .collect();

    progress(Stage::Matching, 0.0);
    let counts = matching::assign(&sizes, &counts, &parameters.request_sizes);
    let files: Vec<SurgeFile> = (0..)
        .zip(sizes.into_iter().zip(counts))
        .map(|(file, (size, references))| SurgeFile {
            kind: kinds.kind(file),
            size: Bytes(size),
            part: kinds.part(parameters, file),
            references: references as u32,
        })
        .collect();

    progress(Stage::Pages, 0.0);
    let numbers = references::draw(
        &parameters.references,
        kinds.base,
        seed.stream("surge.references"),
    );
    let page_references = page_references(&files, kinds);
    let mut surge = Surge {
        parameters: parameters.clone(),
        seed,
        files,
        pages: Pages::new(),
        sequence: Vec::new(),
        distances: StackDistances::default(),
        top_count,
        summary: Summary::default(),
        report: FitReport::default(),
    };
    let (pages, left) = make_pages(parameters, &surge.files, kinds, numbers.clone());
    surge.pages = pages;
    // Generating the sequence takes longest, so the stages that do not depend on it are tested in parallel.
    #[expect(
        clippy::disallowed_methods,
        reason = "the threads do not wait for resources, and the plan does not depend on their order"
    )]
    let (made, of_files) = std::thread::scope(|scope| {
        let others = scope.spawn(|| goodness::of_files(&surge, kinds));
        let made = locality::sequence(&parameters.locality, &page_references, seed, |done| {
            progress(Stage::Locality, done);
        });
        let others = others.join();
        (made, others.unwrap_or_else(|panic| resume_unwind(panic)))
    });

    if made.pages.is_empty() {
        return Err(SurgeError::NoRequests {
            requests: parameters.requests,
        });
    }

    progress(Stage::Fit, 0.0);
    surge.sequence = made.pages;
    surge.distances = made.distances;
    let served = match_again(&mut surge, kinds);
    surge.summary = goodness::summary(&surge);
    surge.summary.planned_page_requests = made.facts.steps;
    surge.report = goodness::report(
        &surge,
        kinds,
        of_files,
        &goodness::Made {
            numbers: &numbers,
            left: &left,
            drawn: &made.drawn,
            locality: made.facts,
            served,
        },
    );
    progress(Stage::Fit, 1.0);
    Ok(surge)
}

/// Matches the sizes of each kind to its files a second time, by the requests of the sequence. The result is used if
/// the sizes of requested files are then nearer to their law.
///
/// This is needed because a page request also requests all embedded files of the page. So the sequence requests files
/// more or less often than their popularity implies.
fn match_again(surge: &mut Surge, kinds: Kinds) -> goodness::Served {
    let requests = goodness::file_requests(surge);
    let unavoidable = goodness::unavoidable(&requests);
    let before = goodness::size_distance(surge, |file| requests[file].into());
    let kept = goodness::Served {
        distance: before,
        unavoidable,
        moved: false,
    };
    if before.distance <= unavoidable + goodness::REQUEST_ALLOWANCE {
        return kept;
    }
    let (sizes, parts): (Vec<u64>, Vec<u8>) = surge
        .files
        .iter()
        .map(|file| (file.size.0, file.part))
        .unzip();
    let (base, paged) = (kinds.base as usize, (kinds.base + kinds.embedded) as usize);
    let ranges = [0..base, base..paged, paged..sizes.len()];
    let by_kind: Vec<(&[u64], &[u32])> = ranges
        .iter()
        .map(|range| (&sizes[range.clone()], &requests[range.clone()]))
        .collect();
    let places = matching::assign_sizes(&by_kind, &surge.parameters.request_sizes);
    for (range, places) in ranges.into_iter().zip(places) {
        for (file, place) in range.clone().zip(places) {
            let from = range.start + place as usize;
            surge.files[file].size = Bytes(sizes[from]);
            surge.files[file].part = parts[from];
        }
    }
    let after = goodness::size_distance(surge, |file| requests[file].into());
    if after.distance < before.distance {
        return goodness::Served {
            distance: after,
            moved: true,
            ..kept
        };
    }
    for (file, (size, part)) in surge.files.iter_mut().zip(sizes.into_iter().zip(parts)) {
        (file.size, file.part) = (Bytes(size), part);
    }
    kept
}

/// The number of files of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kinds {
    base: u32,
    embedded: u32,
    single: u32,
}

impl Kinds {
    /// Computes the numbers by rounding the shares.
    fn of(parameters: &Parameters) -> Kinds {
        let files = parameters.files;
        let share = |share: f64| ((f64::from(files) * share).round() as u32).min(files);
        let base = share(parameters.shares.base);
        let paged = share(parameters.shares.base + parameters.shares.embedded);
        Kinds {
            base,
            embedded: paged - base,
            single: files - paged,
        }
    }

    /// Returns the part of its kind's size law from which the size of a file was drawn.
    fn part(self, parameters: &Parameters, file: u32) -> u8 {
        let (law, first) = match self.kind(file) {
            Kind::Base => (&parameters.base_sizes, 0),
            Kind::Embedded => (&parameters.embedded_sizes, self.base),
            Kind::Single => (&parameters.single_sizes, self.base + self.embedded),
        };
        let part = law.part_of(u64::from(file - first));
        let place = law.parts().iter().position(|other| other == part);
        place.unwrap_or(0) as u8
    }

    fn kind(self, file: u32) -> Kind {
        if file < self.base {
            Kind::Base
        } else if file < self.base + self.embedded {
            Kind::Embedded
        } else {
            Kind::Single
        }
    }
}

/// Generates the sizes of all files, rounded down to whole bytes.
fn file_sizes(parameters: &Parameters, kinds: Kinds, seed: Seed) -> Vec<u64> {
    let draw = |files: u32, law: &Mixture, name: &str| {
        let seed = seed.stream(name);
        let smallest = parameters.smallest.0;
        let law = law.clone();
        (0..u64::from(files)).map(move |file| (law.sample(seed, file) as u64).max(smallest))
    };
    draw(kinds.base, &parameters.base_sizes, "surge.sizes.base")
        .chain(draw(
            kinds.embedded,
            &parameters.embedded_sizes,
            "surge.sizes.embedded",
        ))
        .chain(draw(
            kinds.single,
            &parameters.single_sizes,
            "surge.sizes.single",
        ))
        .collect()
}

/// Returns the number of requests for each page, which is the number for its base file.
fn page_references(files: &[SurgeFile], kinds: Kinds) -> Vec<u32> {
    let (base, rest) = files.split_at(kinds.base as usize);
    let single = &rest[kinds.embedded as usize..];
    let pages = base.iter().chain(single);
    pages.map(|file| file.references).collect()
}

/// Generates the pages. Also returns the embedded files' references that no page uses.
fn make_pages(
    parameters: &Parameters,
    files: &[SurgeFile],
    kinds: Kinds,
    mut numbers: Vec<u32>,
) -> (Pages, Vec<i64>) {
    let references: Vec<u32> = files.iter().map(|file| file.references).collect();
    let (base, rest) = references.split_at(kinds.base as usize);
    let embedded = &rest[..kinds.embedded as usize];
    // Pages are generated in the order of popularity and stored in the order of their files.
    let mut ends = Vec::with_capacity(base.len());
    let mut members: Vec<u32> = Vec::new();
    let mut range_of = vec![0u32; base.len()];
    let order = parameters.references.order;
    let left = references::embed(base, embedded, &mut numbers, order, |page, files| {
        range_of[page as usize] = ends.len() as u32;
        members.extend_from_slice(files);
        ends.push(members.len());
    });
    let mut pages = Pages::new();
    let mut targets = Vec::new();
    for (file, &range) in (0..).zip(&range_of) {
        let range = range as usize;
        let start = range.checked_sub(1).map_or(0, |before| ends[before]);
        targets.clear();
        targets.push(TargetId(file));
        let embedded = members[start..ends[range]].iter();
        targets.extend(embedded.map(|file| TargetId(kinds.base + file)));
        pages.push(&targets);
    }
    for file in 0..kinds.single {
        pages.push(&[TargetId(kinds.base + kinds.embedded + file)]);
    }
    (pages, left)
}
