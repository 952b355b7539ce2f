//! Runs over several machines: the machine that measured a replicate, and samples of several cells matched by
//! replicate.
//!
//! A study over N machines is split by replicates: the machine of rank r measures the replicates r, r + N, r + 2N … of
//! every cell. So all cells of a replicate are measured on one machine, and the machine is a blocking factor: a
//! difference in speed between machines affects both sides of a comparison and cancels.

use crate::run::RunInfo;
use crate::statistics::Sides;

impl RunInfo {
    /// The rank of the machine that measured a replicate; 0 in a run of one machine.
    pub fn machine_of(&self, replicate: u32) -> u32 {
        let ranks = self.machines.first().map_or(1, |first| first.share.ranks);
        replicate % ranks.max(1)
    }

    /// The ranks whose parts are missing from a merged run.
    pub fn missing_ranks(&self) -> Vec<u32> {
        let ranks = self.machines.first().map_or(0, |first| first.share.ranks);
        let is_there = |rank: &u32| self.machines.iter().any(|m| m.share.rank == *rank);
        (0..ranks).filter(|rank| !is_there(rank)).collect()
    }
}

/// Samples of several cells, matched for a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matched {
    /// The values of each cell, in the order of their replicates.
    pub(crate) samples: Vec<Vec<f64>>,
    /// Whether the values with the same index belong to the same replicate.
    pub(crate) sides: Sides,
    /// The machine of each replicate; empty in a run of one machine.
    pub(crate) machines: Vec<u32>,
}

impl Matched {
    /// Matches values with the numbers of their replicates.
    ///
    /// On one machine, cells with different replicates are independent samples. On several machines, a replicate that
    /// is missing in one cell is left out. Otherwise the machines would have different weights on the two sides, and a
    /// difference between machines would appear as a difference between cells.
    pub(crate) fn of(info: &RunInfo, cells: &[Vec<(u32, f64)>]) -> Matched {
        let numbers: Vec<Vec<u32>> = cells.iter().map(|cell| numbers_of(cell)).collect();
        let shared = shared(info, &numbers);
        let is_kept = |number: &u32| shared.as_ref().is_none_or(|all| all.contains(number));
        let kept = |cell: &Vec<(u32, f64)>| -> Vec<(u32, f64)> {
            let kept = cell.iter().filter(|(number, _)| is_kept(number));
            kept.copied().collect()
        };
        let cells: Vec<Vec<(u32, f64)>> = cells.iter().map(kept).collect();
        Matched {
            sides: Sides::of(cells.iter().map(|cell| numbers_of(cell))),
            machines: cells
                .first()
                .map(|first| machines(info, &numbers_of(first)))
                .unwrap_or_default(),
            samples: cells
                .iter()
                .map(|cell| cell.iter().map(|(_, value)| *value).collect())
                .collect(),
        }
    }
}

fn numbers_of(cell: &[(u32, f64)]) -> Vec<u32> {
    cell.iter().map(|(number, _)| *number).collect()
}

/// The replicates that all samples have. `None` if no replicate must be left out, because the run has one machine or
/// all samples have the same replicates.
pub(crate) fn shared(info: &RunInfo, samples: &[Vec<u32>]) -> Option<Vec<u32>> {
    let (first, others) = samples.split_first()?;
    if info.machines.is_empty() || others.iter().all(|other| other == first) {
        return None;
    }
    let is_shared = |number: &&u32| others.iter().all(|other| other.contains(number));
    Some(first.iter().filter(is_shared).copied().collect())
}

/// The machine of each replicate, as input for intervals; empty in a run of one machine.
pub(crate) fn machines(info: &RunInfo, replicates: &[u32]) -> Vec<u32> {
    match info.machines.is_empty() {
        true => Vec::new(),
        false => replicates
            .iter()
            .map(|replicate| info.machine_of(*replicate))
            .collect(),
    }
}

/// Removes the values of all replicates that are not in `shared`. `numbers` contains the replicate of each value.
pub(crate) fn keep(shared: &[u32], numbers: &[u32], values: &mut Vec<f64>) {
    let mut numbers = numbers.iter();
    values.retain(|_| numbers.next().is_some_and(|number| shared.contains(number)));
}
