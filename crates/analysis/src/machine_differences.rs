//! The differences between the machines of a merged run.
//!
//! The module computes, for each metric, the ratio of a machine's mean to the mean of all machines. Means are
//! geometric, over the cells that every machine measured, and all cells have the same weight. In comparisons between
//! cells these differences cancel, because all cells of a replicate ran on one machine. In means of single cells they
//! do not cancel.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::METRICS;
use crate::run::Run;
use crate::statistics::mean;

/// The differences between the machines in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineDifference {
    /// The metric.
    pub metric: String,
    /// The number of cells with valid replicates on every machine.
    pub cells: usize,
    /// The ratio of the machine's values to the mean of all machines, by rank.
    pub ratios: BTreeMap<u32, f64>,
    /// The standard deviation of replicates on one machine, in percent of the value, pooled over cells and machines;
    /// `None` if no machine has two replicates of a cell.
    pub within_pct: Option<f64>,
    /// The largest difference between two machines in one cell, in percent.
    pub largest_pct: f64,
}

impl MachineDifference {
    /// The difference between the machines with the largest and the smallest values, in percent.
    pub fn range_pct(&self) -> f64 {
        percent_between(self.ratios.values().copied())
    }
}

fn percent_between(ratios: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = ratios.clone().fold(f64::NEG_INFINITY, f64::max);
    let least = ratios.fold(f64::INFINITY, f64::min);
    100.0 * (most / least - 1.0)
}

/// Returns the differences in each metric of the run; empty in a run of one machine.
pub fn of_run(run: &Run) -> Vec<MachineDifference> {
    if run.info.machines.len() < 2 {
        return Vec::new();
    }
    let metrics = METRICS.iter().map(|(metric, ..)| *metric);
    metrics
        .filter_map(|metric| of_metric(run, metric))
        .collect()
}

fn of_metric(run: &Run, metric: &str) -> Option<MachineDifference> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    let (mut cells, mut largest) = (0usize, 0f64);
    let (mut squares, mut freedom) = (0.0, 0usize);
    for cell in &run.cells {
        let mut machines: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (replicate, value) in cell.values(metric) {
            let own = machines.entry(run.info.machine_of(replicate)).or_default();
            own.push(value.ln());
        }
        let is_positive = machines.values().flatten().all(|value| value.is_finite());
        if !is_positive || machines.len() < run.info.machines.len() {
            continue;
        }
        let means: BTreeMap<u32, f64> = machines.iter().map(|(m, v)| (*m, mean(v))).collect();
        let centre = mean(&means.values().copied().collect::<Vec<f64>>());
        for (machine, own) in &means {
            *sums.entry(*machine).or_default() += own - centre;
            let values = &machines[machine];
            squares += values.iter().map(|v| (v - own).powi(2)).sum::<f64>();
            freedom += values.len() - 1;
        }
        largest = largest.max(percent_between(means.values().map(|mean| mean.exp())));
        cells += 1;
    }
    (cells > 0).then(|| MachineDifference {
        metric: metric.to_owned(),
        cells,
        ratios: sums
            .into_iter()
            .map(|(machine, sum)| (machine, (sum / cells as f64).exp()))
            .collect(),
        within_pct: (freedom > 0).then(|| 100.0 * (squares / freedom as f64).sqrt()),
        largest_pct: largest,
    })
}
