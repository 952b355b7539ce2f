//! The figures of a workload: its files, its pages, and its mean response size.

use std::collections::BTreeMap;
use std::fmt;

use fathometer_model::Bytes;
use serde::Serialize;

use crate::plan::{Choice, PageId, Plan};
use crate::workload::Workload;

/// The figures of a workload. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// The number of files.
    pub files: u64,
    /// Bytes of all files.
    pub total: Bytes,
    /// Mean size of a file in bytes; 0 if there are no files.
    pub mean: f64,
    /// Median size of a file in bytes; for an even number of files, the mean of the two middle sizes.
    pub median: f64,
    /// Bytes of the largest file.
    pub max: Bytes,
    /// Files and bytes by media type.
    pub by_type: BTreeMap<String, TypeStatistics>,
    /// The number of pages.
    pub pages: u64,
    /// Mean number of files per page, each page counted once.
    pub mean_files_per_page: f64,
    /// Mean number of requests per page, weighted by the number of requests for each page.
    pub mean_requests_per_page: f64,
    /// Mean number of content bytes per response, weighted by the number of requests for each file. Only requests whose
    /// response has a known size are included; `None` if there are none.
    pub mean_request: Option<f64>,
}

/// Files of one media type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TypeStatistics {
    /// The number of files.
    pub files: u64,
    /// The sum of their sizes.
    pub total: Bytes,
}

impl Workload {
    /// Returns the figures of this workload.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self)
    }
}

impl Statistics {
    /// Returns the figures of `workload`.
    pub fn of(workload: &Workload) -> Statistics {
        let mut sizes: Vec<u64> = workload.files.iter().map(|file| file.size).collect();
        sizes.sort_unstable();
        let total: u64 = sizes.iter().sum();
        let mut by_type: BTreeMap<String, TypeStatistics> = BTreeMap::new();
        for file in &workload.files {
            let of_type = by_type.entry(file.content_type.to_owned()).or_default();
            of_type.files += 1;
            of_type.total += Bytes(file.size);
        }
        let median = match sizes.len() {
            0 => 0.0,
            n => (sizes[(n - 1) / 2] as f64 + sizes[n / 2] as f64) / 2.0,
        };
        let requests = Requests::of(&workload.plan);
        Statistics {
            files: sizes.len() as u64,
            total: Bytes(total),
            mean: total as f64 / (sizes.len().max(1)) as f64,
            median,
            max: Bytes(sizes.last().copied().unwrap_or(0)),
            by_type,
            pages: workload.plan.pages.len() as u64,
            mean_files_per_page: requests.members / (workload.plan.pages.len().max(1)) as f64,
            mean_requests_per_page: match requests.pages > 0.0 {
                true => requests.all / requests.pages,
                false => 0.0,
            },
            mean_request: (requests.sized > 0.0).then(|| requests.bytes / requests.sized),
        }
    }
}

/// Sums over the pages of a plan, weighted by the number of requests for each page.
struct Requests {
    /// The members of all pages, unweighted.
    members: f64,
    pages: f64,
    all: f64,
    /// The number of requests whose response has a known size.
    sized: f64,
    bytes: f64,
}

impl Requests {
    fn of(plan: &Plan) -> Requests {
        let mut sums = Requests {
            members: 0.0,
            pages: 0.0,
            all: 0.0,
            sized: 0.0,
            bytes: 0.0,
        };
        for (page, weight) in (0..).map(PageId).zip(weights(plan)) {
            let members = plan.pages.get(page).members;
            sums.members += members.len() as f64;
            sums.pages += weight;
            sums.all += weight * members.len() as f64;
            for member in members {
                if let Some(size) = plan.targets[member.0 as usize].size {
                    sums.sized += weight;
                    sums.bytes += weight * size.as_f64();
                }
            }
        }
        sums
    }
}

/// Returns the weight of each page: its count in one pass of the sequence, or its probability.
fn weights(plan: &Plan) -> Vec<f64> {
    let mut weights = vec![0.0; plan.pages.len()];
    match &plan.choice {
        Choice::Sequence(pages) => {
            for page in pages.iter() {
                weights[page.0 as usize] += 1.0;
            }
        }
        Choice::Weighted(choice) => {
            for (page, weight) in (0..).map(PageId).zip(&mut weights) {
                *weight = choice.probability(page);
            }
        }
        Choice::Scripts(scripts) => {
            for (page, _) in scripts.iter().flat_map(|script| &script.steps) {
                weights[page.0 as usize] += 1.0;
            }
        }
    }
    weights
}

/// Prints one line per figure, with its name.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "files             {} ({} B)", self.files, self.total.0)?;
        writeln!(
            f,
            "file size         mean {:.0} B, median {:.0} B, largest {} B",
            self.mean, self.median, self.max.0
        )?;
        for (content_type, of_type) in &self.by_type {
            let (files, total) = (of_type.files, of_type.total.0);
            writeln!(f, "  {content_type:<15} {files} ({total} B)")?;
        }
        write!(
            f,
            "pages             {}, {:.2} files each; {:.2} requests each, weighted by requests",
            self.pages, self.mean_files_per_page, self.mean_requests_per_page
        )?;
        if let Some(mean) = self.mean_request {
            write!(f, "\nrequest           {mean:.0} B of content on average")?;
        }
        Ok(())
    }
}
