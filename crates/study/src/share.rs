//! The share of a study that one of several machines measures.
//!
//! A study is split by replicates, not by cells, because a study compares cells. If cells ran on different machines,
//! the effect of a factor could not be separated from the effect of the machines. Therefore each machine measures whole
//! replicates of all cells, and the machine is a blocking factor of the analysis. Replicate i belongs to rank i mod N,
//! for N machines. Each machine computes its share from its rank and N. Replicates have the same numbers and seeds as
//! on a single machine.

use fathometer_analysis::run::StudyShare;
use fathometer_files::sha256;
use fathometer_load::Share;
use fathometer_model::ReplicateRecord;
use serde::Serialize;

use crate::schedule::Job;
use crate::spec::Cell;

/// The reason why a study cannot be split between these machines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// A cell has fewer replicates than there are machines.
    #[error(
        "each of {ranks} machines measures whole replicates of all cells, but {cell} has only {replicates}: set \
         --replicates to at least {ranks}, or use fewer ranks"
    )]
    TooFewReplicates {
        /// The number of machines.
        ranks: u32,
        /// The cell.
        cell: String,
        /// The number of the cell's replicates.
        replicates: u32,
    },
    /// The number of replicates depends on verdicts, which require the replicates of all machines.
    #[error(
        "--precision and --budget add replicates by the verdicts of the whole run, but each machine has only a \
         share of it: use --replicates"
    )]
    Stopping,
}

/// A record with the rank of the machine that measured the replicate. The runs of shares, and merged runs, consist of
/// such records.
#[derive(Debug, Serialize)]
pub(crate) struct OfMachine<'a> {
    /// The replicate's record.
    #[serde(flatten)]
    pub(crate) record: &'a ReplicateRecord,
    /// The rank of the machine.
    pub(crate) machine: u32,
}

/// Returns the boot ID of the kernel, or an empty text if it cannot be read. The ID is random at each boot, and is the
/// same in all containers of a machine.
pub(crate) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Returns the share of a rank. `cells` are all cells of the design, including cells that this machine cannot run.
///
/// # Errors
/// When a cell has fewer replicates than there are ranks.
pub(crate) fn share_of(
    place: Share,
    cells: &[Cell],
    boot_id: String,
) -> Result<StudyShare, ShareError> {
    let ranks = place.ranks();
    if let Some(cell) = cells.iter().find(|cell| cell.replicates < ranks) {
        return Err(ShareError::TooFewReplicates {
            ranks,
            cell: cell.folder(),
            replicates: cell.replicates,
        });
    }
    let mut lines: Vec<String> = cells
        .iter()
        .map(|cell| format!("{} {}\n", cell.folder(), cell.replicates))
        .collect();
    lines.sort_unstable();
    Ok(StudyShare {
        rank: place.rank(),
        ranks,
        replicates: cells.iter().map(|cell| u64::from(cell.replicates)).sum(),
        design: sha256::of(lines.concat().as_bytes()),
        boot_id,
    })
}

/// Whether this machine runs a replicate.
pub(crate) fn is_run_here(share: Option<&StudyShare>, replicate: u32) -> bool {
    share.is_none_or(|share| share.has(replicate))
}

/// Returns the number of replicates of these cells that this machine runs.
pub(crate) fn planned(share: Option<&StudyShare>, cells: &[Cell]) -> u32 {
    let of = |cell: &Cell| (0..cell.replicates).filter(|replicate| is_run_here(share, *replicate));
    cells.iter().map(|cell| of(cell).count() as u32).sum()
}

/// Removes the jobs that do not belong to a share.
pub(crate) fn keep<'a>(
    share: Option<&StudyShare>,
    lanes: impl Iterator<Item = &'a mut std::collections::VecDeque<Job>>,
) {
    lanes.for_each(|jobs| jobs.retain(|job| is_run_here(share, job.replicate)));
}

/// Returns a note for the run of a share.
pub(crate) fn note(share: &StudyShare) -> String {
    let StudyShare { rank, ranks, .. } = share;
    format!(
        "this is the share of rank {rank} of {ranks} machines: replicates {rank}, {}, … of every cell; merge the runs of \
         all ranks: fathometer merge RUN… --output RUN",
        rank + ranks
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fathometer_model::{CellKey, Seed};

    use super::*;
    use crate::schedule;

    fn cells(replicates: u32) -> Vec<Cell> {
        ["a", "b", "c"]
            .map(|policy| {
                let levels = [("path", "lan"), ("policy", policy)];
                let levels: BTreeMap<String, String> = levels
                    .map(|(factor, level)| (factor.to_owned(), level.to_owned()))
                    .into();
                Cell {
                    block: "main".to_owned(),
                    key: CellKey(levels.clone()),
                    levels,
                    replicates,
                }
            })
            .into()
    }

    fn share(rank: u32, ranks: u32, replicates: u32) -> StudyShare {
        let place = Share::new(rank, ranks).unwrap();
        share_of(place, &cells(replicates), String::new()).unwrap()
    }

    /// Returns the jobs of a rank in their order, as pairs of cell and replicate.
    fn jobs(share: Option<&StudyShare>, replicates: u32) -> Vec<(String, u32)> {
        let mut lanes = schedule::lanes(&cells(replicates), Seed(7), |cell| cell.level("path"));
        keep(share, lanes.values_mut());
        let jobs = lanes["lan"].iter();
        jobs.map(|job| (job.cell.folder(), job.replicate)).collect()
    }

    #[test]
    fn the_shares_are_the_study_without_overlap_in_the_order_of_one_machine() {
        let whole = jobs(None, 7);
        for ranks in [2, 3, 7] {
            let mut seen = BTreeSet::new();
            for rank in 0..ranks {
                let share = share(rank, ranks, 7);
                let own = jobs(Some(&share), 7);
                assert_eq!(own.len() as u32, planned(Some(&share), &cells(7)));
                let expected: Vec<_> = whole.iter().filter(|job| own.contains(job)).collect();
                assert_eq!(own.iter().collect::<Vec<_>>(), expected);
                // A rank runs a replicate in every cell or in no cell.
                for (_, replicate) in &own {
                    let cells = own.iter().filter(|(_, other)| other == replicate);
                    assert_eq!(cells.count(), 3);
                }
                own.into_iter().for_each(|job| assert!(seen.insert(job)));
            }
            assert_eq!(seen.len(), whole.len());
        }
    }

    #[test]
    fn a_design_with_other_replicates_or_cells_is_another() {
        assert_eq!(share(0, 2, 4).design, share(1, 2, 4).design);
        assert_ne!(share(0, 2, 4).design, share(0, 2, 5).design);
        let place = Share::new(0, 2).unwrap();
        let fewer = share_of(place, &cells(4)[..2], String::new()).unwrap();
        assert_ne!(fewer.design, share(0, 2, 4).design);
        assert_eq!((fewer.replicates, share(0, 2, 4).replicates), (8, 12));
    }

    #[test]
    fn more_machines_than_replicates_are_refused() {
        let error = share_of(Share::new(0, 3).unwrap(), &cells(2), String::new()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("--replicates") && error.contains("has only 2"),
            "{error}"
        );
    }
}
