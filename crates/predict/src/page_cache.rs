//! The page cache of a server's host: the share of requests whose file is cached, and the disk time of the other
//! requests.
//!
//! Hit ratios come from Che's approximation (`fathometer_queueing::cache`) with the popularity of the workload's files.
//! Linux evicts by two lists, not strictly in LRU order, and also caches data other than the files of the site.
//! Therefore the measured reads are scaled by the ratio of the model's reads after and before a change. The model's
//! reads are used directly only if a run has no disk reads.

use fathometer_model::Bytes;
use fathometer_queueing::Seconds;
use fathometer_queueing::cache::{CachedFile, least_recently_used};
use fathometer_workload::catalogue;
use fathometer_workload::plan::{Choice, PageId, Plan};
use fathometer_workload::workload::Workload;

use crate::scenario::{Change, Scenario};

/// The maximum number of bytes of a file that Linux reads at once: `read_ahead_kb` of a block device.
const READ_AHEAD: u64 = 128 << 10;
/// The size of a page of the page cache, in bytes.
const PAGE: u64 = 4096;
/// Fewer reads per exchange than this count as no reads.
pub(crate) const LEAST_READS: f64 = 0.01;

/// The disk use of an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskUse {
    /// The number of reads per exchange.
    pub reads: f64,
    /// The time of these reads at the disk, without queueing.
    pub time: Seconds,
}

/// The page cache of a series, and the time of a disk read.
#[derive(Debug, Clone, PartialEq)]
pub struct PageCache {
    /// The files of the workload; popularities are shares of the requests.
    pub files: Vec<CachedFile>,
    /// The limit of the host's memory; `None` if it has no limit.
    pub limit: Option<Bytes>,
    /// The measured mean size of the page cache.
    pub cache: Bytes,
    /// The memory of the host that is not page cache.
    pub other: Bytes,
    /// The time of a read at a disk with a limit of reads per second; `None` if the disk has no limit.
    pub read_time: Option<Seconds>,
}

/// The effect of a page cache of a given size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cached {
    /// The size of the page cache.
    pub cache: Bytes,
    /// The share of requests whose file is in memory, by the model.
    pub hits: f64,
    /// The number of disk reads per exchange.
    pub reads: f64,
}

impl PageCache {
    /// Returns the page cache in a scenario, and the time of an exchange at the disk. `measured` is the measured disk
    /// use.
    ///
    /// # Errors
    /// When the scenario's memory is not possible, or when the run does not show the time of a disk read.
    pub fn of(&self, scenario: &Scenario, measured: DiskUse) -> Result<(Cached, Seconds), String> {
        let before = self.modelled(self.cache);
        let is_full = before.reads >= LEAST_READS;
        let Some(cache) = self.changed(scenario, is_full)? else {
            let unchanged = Cached {
                reads: measured.reads,
                ..before
            };
            return Ok((unchanged, measured.time));
        };
        let mut after = self.modelled(cache);
        if measured.reads > 0.0 && is_full {
            after.reads *= measured.reads / before.reads;
        }
        if after.reads < LEAST_READS {
            return Ok((after, Seconds(0.0)));
        }
        let time = match measured.reads > 0.0 {
            true => Some(Seconds(measured.time.0 / measured.reads)),
            false => self.read_time,
        };
        let Some(time) = time else {
            return Err(
                "the run has no disk reads and its disk has no limit, so the time of a read is unknown; measure \
                 with less memory (factor memory), or with a limit of the disk (factor disk)"
                    .to_owned(),
            );
        };
        Ok((after, Seconds(after.reads * time.0)))
    }

    /// Returns the size of the page cache after a change of the memory; `None` if the memory does not change. `is_full`
    /// says whether the page cache was too small for all files.
    fn changed(&self, scenario: &Scenario, is_full: bool) -> Result<Option<Bytes>, String> {
        let memory = match (scenario.memory, self.limit) {
            (None, _) => return Ok(None),
            (Some(Change::Value(memory)), _) => memory.0,
            (Some(Change::Times(factor)), Some(limit)) => {
                Bytes((limit.0 as f64 * factor).round() as u64)
            }
            (Some(Change::Times(_)), None) => {
                return Err(
                    "the host has no limit of memory to multiply; write an amount, as in memory=64M".to_owned(),
                );
            }
        };
        // If the page cache is full, all other memory is the limit minus the page cache.
        let limit = self.limit.filter(|_| is_full);
        let other = limit.map_or(self.other.0, |limit| limit.0.saturating_sub(self.cache.0));
        match memory.0 > other {
            true => Ok(Some(Bytes(memory.0 - other))),
            false => Err(format!(
                "{memory} is less than the memory that the server uses without its page cache, {}",
                Bytes(other)
            )),
        }
    }

    /// Che's approximation for a page cache of this size.
    fn modelled(&self, cache: Bytes) -> Cached {
        // Without any requests there is no solution, and there are no misses.
        let (time, hits) = least_recently_used(&self.files, cache)
            .map_or((f64::INFINITY, 1.0), |found| {
                (found.characteristic.0, found.hits)
            });
        let missed = self.files.iter().filter(|file| file.popularity > 0.0);
        let reads = missed.map(|file| {
            let each = file.size.0.div_ceil(READ_AHEAD) as f64;
            file.popularity * (-file.popularity * time).exp() * each
        });
        Cached {
            cache,
            hits,
            reads: reads.sum(),
        }
    }
}

/// Returns the files of a built-in workload with their popularity and their size in memory; `None` if there is no such
/// workload.
pub fn files(name: &str) -> Option<Vec<CachedFile>> {
    let requested = requested(name)?.into_iter();
    let in_memory = |file: CachedFile| CachedFile {
        size: Bytes(file.size.0.div_ceil(PAGE) * PAGE),
        ..file
    };
    Some(requested.map(in_memory).collect())
}

/// Returns the files of a built-in workload with their popularity and size.
pub(crate) fn requested(name: &str) -> Option<Vec<CachedFile>> {
    let no_file = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let workload = catalogue::by_name(name, &catalogue::Options::default(), no_file).ok()?;
    Some(popularities(&workload))
}

/// Returns the targets whose size is known, each with its share of the requests.
fn popularities(workload: &Workload) -> Vec<CachedFile> {
    let plan = &workload.plan;
    let mut requests = vec![0.0; plan.targets.len()];
    for (page, weight) in pages(plan) {
        for target in plan.pages.get(page).members {
            requests[target.0 as usize] += weight;
        }
    }
    let sum: f64 = requests.iter().sum();
    let each = plan.targets.iter().zip(requests);
    each.filter_map(|(target, requests)| {
        Some(CachedFile {
            popularity: requests / sum,
            size: target.size?,
        })
    })
    .collect()
}

/// Returns the pages with their weights.
fn pages(plan: &Plan) -> Vec<(PageId, f64)> {
    match &plan.choice {
        Choice::Weighted(weights) => (0..plan.pages.len() as u32)
            .map(|page| (PageId(page), weights.probability(PageId(page))))
            .collect(),
        Choice::Sequence(sequence) => sequence.iter().map(|&page| (page, 1.0)).collect(),
        Choice::Scripts(scripts) => {
            let steps = scripts.iter().flat_map(|script| &script.steps);
            steps.map(|&(page, _)| (page, 1.0)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hundred files of 1 MiB each, requested equally often: a cache with room for k files has a hit ratio of
    /// k %.
    fn uniform(limit: Option<u64>, cache: u64, read_time: Option<f64>) -> PageCache {
        let file = CachedFile {
            popularity: 0.01,
            size: Bytes(1 << 20),
        };
        PageCache {
            files: vec![file; 100],
            limit: limit.map(|mebibytes| Bytes(mebibytes << 20)),
            cache: Bytes(cache << 20),
            other: Bytes(4 << 20),
            read_time: read_time.map(Seconds),
        }
    }

    fn of(
        cache: &PageCache,
        scenario: &str,
        measured: (f64, f64),
    ) -> Result<(Cached, Seconds), String> {
        let measured = DiskUse {
            reads: measured.0,
            time: Seconds(measured.1),
        };
        cache.of(&scenario.parse().unwrap(), measured)
    }

    #[test]
    fn measured_reads_are_scaled_by_the_misses_of_the_model() {
        // The page cache has 25 of 29 MiB. There are 6.6 measured reads of 128 KiB, and 6 reads by the model.
        let cache = uniform(Some(29), 25, None);
        let (found, disk) = of(&cache, "users=1x", (6.6, 0.0132)).unwrap();
        assert!(
            (found.hits - 0.25).abs() < 1e-6 && found.reads == 6.6,
            "{found:?}"
        );
        assert_eq!(disk, Seconds(0.0132));
        for scenario in ["memory=58M", "memory=2x"] {
            let (found, disk) = of(&cache, scenario, (6.6, 0.0132)).unwrap();
            assert_eq!(found.cache, Bytes(54 << 20));
            assert!((found.reads - 6.6 * 46.0 / 75.0).abs() < 1e-6, "{found:?}");
            assert!((disk.0 - 0.0132 * 46.0 / 75.0).abs() < 1e-8);
        }
        // All files fit.
        let (found, disk) = of(&cache, "memory=1G", (6.6, 0.0132)).unwrap();
        assert_eq!((found.hits, found.reads, disk), (1.0, 0.0, Seconds(0.0)));
    }

    #[test]
    fn a_run_without_reads_needs_the_limit_of_the_disk() {
        let nothing = (0.0, 0.0);
        for unlimited in [uniform(None, 104, None), uniform(Some(1024), 104, None)] {
            let error = of(&unlimited, "memory=54M", nothing).unwrap_err();
            assert!(error.contains("the time of a read is unknown"), "{error}");
            let error = of(&unlimited, "memory=4M", nothing).unwrap_err();
            assert!(error.contains("than the memory that the server"), "{error}");
            assert!(of(&unlimited, "memory=2G", nothing).is_ok());
        }
        let error = of(&uniform(None, 104, None), "memory=2x", nothing).unwrap_err();
        assert!(error.contains("memory=64M"), "{error}");
        // 50 MiB, and 10 ms for each of four reads.
        let limited = uniform(None, 104, Some(0.01));
        let (found, disk) = of(&limited, "memory=54M", nothing).unwrap();
        assert!((found.reads - 4.0).abs() < 1e-6, "{found:?}");
        assert!((disk.0 - 0.04).abs() < 1e-8);
    }

    #[test]
    fn popularities_are_those_of_the_workload() {
        let files = files("almeida-300k").unwrap();
        let sum: f64 = files.iter().map(|file| file.popularity).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert_eq!(files.len(), 180);
        let size: u64 = files.iter().map(|file| file.size.0).sum();
        assert!((50_000_000..60_000_000).contains(&size), "{size}");
        assert!(super::files("surge").is_none());
        assert!(super::files("log:access.log").is_none());
    }
}
