//! The groups of files of Fujinoki et al. (2003): ten sets of a hundred text files, with sizes from a bounded Pareto
//! law of shape 0.63 and a mean of 4, 16 or 32 KB. Two further groups, with means of 256 KB and 1 MB, are not in the
//! paper. They test whether its findings are valid for larger sizes.
//!
//! A set has a hundred files in every group, because the effect of packaging depends on their number. The two larger
//! groups have only four and two sets, because ten sets would take 0.25 GB and 1 GB on disk.
//!
//! The paper states neither bound of the law. Here the largest size is a thousand times the smallest. Together with the
//! mean, this ratio determines both bounds: about 200 B to 200 kB for the first group. The sizes of a group are the
//! law's quantiles at evenly spaced probabilities, distributed over its sets at random, so the group has the law's
//! mean. The mean of random sizes would differ from the law's mean by up to a tenth.

use fathometer_model::Seed;

use crate::builder::Builder;
use crate::content::Draws;
use crate::distribution::Law;
use crate::plan::{Choice, PageId, TargetId};
use crate::workload::Workload;

/// The tail index, alpha.
const SHAPE: f64 = 0.63;
/// The ratio of the largest to the smallest size.
const SPREAD: f64 = 1000.0;
/// The number of files of a set.
const FILES: usize = 100;

/// A group, by the mean size of its files in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// 4 KiB.
    Mean4,
    /// 16 KiB.
    Mean16,
    /// 32 KiB.
    Mean32,
    /// 256 KiB, not in the paper.
    Mean256,
    /// 1 MiB, not in the paper.
    Mean1024,
}

impl Group {
    const fn kibibytes(self) -> u32 {
        match self {
            Group::Mean4 => 4,
            Group::Mean16 => 16,
            Group::Mean32 => 32,
            Group::Mean256 => 256,
            Group::Mean1024 => 1024,
        }
    }

    /// Returns the number of sets of the group, each a page.
    pub const fn sets(self) -> usize {
        match self {
            Group::Mean4 | Group::Mean16 | Group::Mean32 => 10,
            Group::Mean256 => 4,
            Group::Mean1024 => 2,
        }
    }

    /// Returns the law of the group's sizes in bytes.
    pub fn law(self) -> Law {
        let spanning = |low| Law::BoundedPareto {
            low,
            high: low * SPREAD,
            shape: SHAPE,
        };
        // The mean is proportional to the smallest size.
        let mean = spanning(1.0).mean().expect("a bounded law has a mean");
        spanning(f64::from(self.kibibytes() * 1024) / mean)
    }
}

/// Creates the group's sets, one page per set; pages are requested round-robin. `seed` assigns the sizes to sets.
pub fn group(group: Group, seed: Seed) -> Workload {
    let law = group.law();
    let count = group.sets() * FILES;
    let mut sizes: Vec<u64> = (0..count)
        .map(|n| law.quantile((n as f64 + 0.5) / count as f64).round() as u64)
        .collect();
    let mut draws = Draws::new(seed.stream("workload.pareto"));
    for last in (1..sizes.len()).rev() {
        sizes.swap(last, draws.below(last + 1));
    }
    let mut builder = Builder::default();
    let mut pages = Vec::new();
    for (set, sizes) in sizes.chunks(FILES).enumerate() {
        let members: Vec<TargetId> = sizes
            .iter()
            .enumerate()
            .map(|(n, &size)| {
                let path = format!("/set{set}/file{n:02}.txt");
                builder.file(&path, "text/plain", size)
            })
            .collect();
        pages.push(builder.pages.push(&members));
    }
    if let Law::BoundedPareto { low, high, .. } = law {
        builder.notes.push(format!(
            "bounded Pareto, alpha {SHAPE}, k {low:.1} B, p {high:.0} B: p = 1000 k was \
             chosen for this program, because the paper prints neither"
        ));
    }
    if group.sets() < Group::Mean4.sets() {
        builder.notes.push(format!(
            "{} sets of {FILES} files: the paper has no group of this size; its own groups have ten sets each",
            group.sets()
        ));
    }
    let name = format!("pareto-{}k", group.kibibytes());
    let pages: Vec<PageId> = pages;
    builder.finish(&name, Choice::Sequence(pages.into()), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_mean_and_its_bounds() {
        for (wanted, kibibytes) in [
            (Group::Mean4, 4.0),
            (Group::Mean16, 16.0),
            (Group::Mean32, 32.0),
            (Group::Mean256, 256.0),
            (Group::Mean1024, 1024.0),
        ] {
            let law = wanted.law();
            // The mean by the formula for the bounded Pareto law.
            let Law::BoundedPareto { low, high, shape } = law else {
                panic!("{law:?}");
            };
            let mean = shape * low.powf(shape) / (1.0 - (low / high).powf(shape))
                * (high.powf(1.0 - shape) - low.powf(1.0 - shape))
                / (1.0 - shape);
            assert!((mean / 1024.0 / kibibytes - 1.0).abs() < 1e-9, "{mean}");

            let workload = group(wanted, Seed(1));
            let statistics = workload.statistics();
            let sets = wanted.sets();
            let made = (statistics.files as usize, statistics.pages as usize);
            assert_eq!(made, (sets * FILES, sets));
            assert_eq!(statistics.mean_requests_per_page, 100.0);
            // With fewer quantiles, a smaller part of the tail is included.
            let realised = statistics.mean / 1024.0 / kibibytes;
            let short = if sets == 10 { 0.01 } else { 0.03 };
            assert!((realised - 1.0).abs() < short, "{realised}");
            assert!(statistics.max.0 as f64 <= high.ceil());
        }
    }

    #[test]
    fn sets_differ_with_the_seed_and_are_pinned() {
        let sizes = |seed| -> Vec<u64> {
            let workload = group(Group::Mean4, Seed(seed));
            workload
                .files
                .iter()
                .map(|file| file.size)
                .take(5)
                .collect()
        };
        assert_ne!(sizes(1), sizes(2));
        assert_eq!(sizes(1), [305, 760, 209, 1451, 273]);
    }
}
