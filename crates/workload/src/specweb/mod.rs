//! The file sets of SPECweb96 and SPECweb99.
//!
//! A directory has 36 files: four classes with nine sizes each. For *n* from 1 to 9, the sizes are *n*/10, *n*, 10 *n*
//! and 100 *n* KiB. The classes get 35, 50, 14 and 1 of 100 requests, in this order.
//!
//! These are only the static files and their popularity. The benchmarks' rates, cookies and dynamic requests are not
//! implemented, and no result may be called a SPECweb result.

use crate::builder::Builder;
use crate::plan::{Choice, Weights};
use crate::workload::Workload;

/// Requests for each class, out of 100.
const CLASSES: [u64; 4] = [35, 50, 14, 1];
/// The popularity rank of each of the nine sizes of a class in SPECweb99.
const RANKS: [u64; 9] = [9, 6, 4, 2, 1, 3, 5, 7, 8];
/// The least common multiple of all ranks.
const ALL_RANKS: u64 = 2520;
/// The weight of the most popular directory.
const FIRST_DIRECTORY: u64 = 1_000_000;

/// Creates SPECweb96 with this number of directories. All directories are equally probable; all files of a class are
/// equally probable.
///
/// # Panics
/// If there are 2^32 / 36 directories or more.
pub fn specweb96(directories: u32) -> Workload {
    let note = "all files of a class are equally probable; this is an assumption, because the public figures do not state it";
    file_set("specweb96", directories, note, |_, class, _| CLASSES[class])
}

/// Creates the static part of SPECweb99 with this number of directories. The popularity of directories follows Zipf's
/// law; the popularity of files in a class follows Zipf's law over fixed ranks. Unconfirmed: no available document
/// contains the ranks.
///
/// # Panics
/// If there are 2^32 / 36 directories or more.
pub fn specweb99(directories: u32) -> Workload {
    let note = "unconfirmed: no available document states the popularity of SPECweb99's files";
    file_set("specweb99", directories, note, |directory, class, size| {
        CLASSES[class] * (ALL_RANKS / RANKS[size]) * (FIRST_DIRECTORY / (directory + 1))
    })
}

fn file_set(
    name: &str,
    directories: u32,
    note: &str,
    weight: impl Fn(u64, usize, usize) -> u64,
) -> Workload {
    let mut builder = Builder::default();
    let mut weights = Vec::new();
    for directory in 0..u64::from(directories) {
        for class in 0..CLASSES.len() {
            for size in 0..RANKS.len() {
                let bytes = (size as u64 + 1) * 1024 * 10u64.pow(class as u32) / 10;
                let path = format!("/dir{directory:05}/class{class}_{}", size + 1);
                let target = builder.file(&path, "text/html", bytes);
                builder.pages.push(&[target]);
                weights.push(weight(directory, class, size));
            }
        }
    }
    builder.notes.push(note.to_owned());
    let weights = Weights::new(weights).expect("every file has a weight");
    builder.finish(name, Choice::Weighted(weights), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PageId;

    fn weights(workload: &Workload) -> &Weights {
        match &workload.plan.choice {
            Choice::Weighted(weights) => weights,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the probability of sizes from `low` to below `high` KiB.
    fn share(workload: &Workload, low: u64, high: u64) -> f64 {
        let within = |&place: &usize| {
            let size = workload.files[place].size;
            (low * 1024..high * 1024).contains(&size)
        };
        (0..workload.files.len())
            .filter(within)
            .map(|place| weights(workload).probability(PageId(place as u32)))
            .sum()
    }

    #[test]
    fn classes_are_mixed_as_specweb96_says() {
        for workload in [specweb96(1), specweb96(20), specweb99(7)] {
            let classes = [
                (0, 1, 0.35),
                (1, 10, 0.5),
                (10, 100, 0.14),
                (100, 1000, 0.01),
            ];
            for (low, high, wanted) in classes {
                let got = share(&workload, low, high);
                assert!((got - wanted).abs() < 1e-9, "{low}..{high} KiB: {got}");
            }
        }
        let statistics = specweb96(20).statistics();
        assert_eq!(statistics.files, 20 * 36);
        // The mean size of each class is five times its step.
        let mean = 1024.0 * (0.35 * 0.5 + 0.5 * 5.0 + 0.14 * 50.0 + 0.01 * 500.0);
        let got = statistics.mean_request.unwrap();
        // Sizes of class 0 are rounded down to a byte.
        assert!((got - mean).abs() < 1.0, "{got} instead of {mean}");
    }

    #[test]
    fn specweb99_prefers_first_directories_and_middle_sizes() {
        let workload = specweb99(3);
        let of = |place| weights(&workload).probability(PageId(place));
        assert!((of(4) / of(0) - 9.0).abs() < 1e-9);
        assert!((of(4) / of(36 + 4) - 2.0).abs() < 1e-9);
        assert!((of(4) / of(72 + 4) - 3.0).abs() < 1e-5);
    }
}
