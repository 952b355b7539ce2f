//! Comparison of runs over several machines, with the machine as a blocking factor.
//!
//! Each machine of a run measures some of the replicates. Two runs on the same machines are compared machine by
//! machine: differences in speed between machines affect both sides and cancel. The change on a machine is the
//! difference between the means of the two sides, and the change of the metric is the mean over machines.
//!
//! The error follows the same rule as in the analysis of one run (see `statistics::spread`). An F test at the level
//! 0.25 tests whether the changes of the machines differ more than the spread within machines explains. If they do, the
//! sample is the changes of the machines; otherwise, the sample is all replicates.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::Interval;
use crate::statistics::distributions::f_tail;
use crate::statistics::{mean, student_t_quantile};

/// The level of the preliminary test (Bancroft 1964).
const PRELIMINARY: f64 = 0.25;

/// A machine that measured a part of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideMachine {
    /// The rank of the machine in the run.
    pub rank: u32,
    /// The identity of the machine's kernel since its last boot (`boot_id`); empty if it is unknown.
    pub kernel: String,
}

/// A machine of the first side, and the machine of the second side with which it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinePair {
    /// The rank in the first run.
    pub before: u32,
    /// The rank in the second run.
    pub after: u32,
    /// Whether both machines are the same running kernel; otherwise they have the same rank.
    pub same_kernel: bool,
}

/// A rule that decides whether two machines are compared with each other.
type Rule = fn(&SideMachine, &SideMachine) -> bool;

/// Whether two machines are the same running kernel.
fn is_same(one: &SideMachine, other: &SideMachine) -> bool {
    !one.kernel.is_empty() && one.kernel == other.kernel
}

/// Pairs the machines of two sides: machines with the same running kernel first, then machines with the same rank.
/// Returns no pairs if one side has only one machine.
pub(super) fn pairs(before: &[SideMachine], after: &[SideMachine]) -> Vec<MachinePair> {
    let mut found: Vec<MachinePair> = Vec::new();
    let rules: [Rule; 3] = [
        |one, other| is_same(one, other) && one.rank == other.rank,
        is_same,
        |one, other| one.rank == other.rank,
    ];
    for rule in rules {
        for one in before {
            let is_free = |other: &&SideMachine| {
                let mut taken = found.iter();
                !taken.any(|pair| pair.before == one.rank || pair.after == other.rank)
            };
            if let Some(other) = after.iter().filter(is_free).find(|other| rule(one, other)) {
                found.push(MachinePair {
                    before: one.rank,
                    after: other.rank,
                    same_kernel: is_same(one, other),
                });
            }
        }
    }
    found.sort_by_key(|pair| pair.before);
    found
}

/// The samples of a side, with the machine of each sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnMachines<'a> {
    pub(super) samples: &'a [f64],
    pub(super) machines: &'a [u32],
}

impl OnMachines<'_> {
    fn by_machine(&self) -> BTreeMap<u32, Vec<f64>> {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (sample, machine) in self.samples.iter().zip(self.machines) {
            groups.entry(*machine).or_default().push(*sample);
        }
        groups
    }
}

/// The samples of a metric on the machines that measured it on both sides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocks {
    /// The means of both sides, for each machine.
    means: Vec<(f64, f64)>,
    /// For each machine 1/n + 1/m, with the sample sizes n and m of the two sides.
    weights: Vec<f64>,
    /// The sum of squares within machines and sides, and its degrees of freedom.
    within: (f64, f64),
    /// The number of samples of each side.
    pub(super) samples: (usize, usize),
}

impl Blocks {
    /// Groups the samples by machine; `None` if no machine has samples on both sides.
    pub(super) fn of(
        before: OnMachines<'_>,
        after: OnMachines<'_>,
        pairs: &[MachinePair],
    ) -> Option<Blocks> {
        let (left, right) = (before.by_machine(), after.by_machine());
        let mut blocks = Blocks {
            means: Vec::new(),
            weights: Vec::new(),
            within: (0.0, 0.0),
            samples: (0, 0),
        };
        for pair in pairs {
            let (Some(a), Some(b)) = (left.get(&pair.before), right.get(&pair.after)) else {
                continue;
            };
            blocks.means.push((mean(a), mean(b)));
            blocks
                .weights
                .push(1.0 / a.len() as f64 + 1.0 / b.len() as f64);
            for group in [a, b] {
                let own = mean(group);
                blocks.within.0 += group.iter().map(|x| (x - own).powi(2)).sum::<f64>();
                blocks.within.1 += group.len() as f64 - 1.0;
            }
            blocks.samples.0 += a.len();
            blocks.samples.1 += b.len();
        }
        (!blocks.means.is_empty()).then_some(blocks)
    }

    /// The mean over machines of the first side, and of the second side.
    pub(super) fn sides(&self) -> (f64, f64) {
        let side =
            |of: fn(&(f64, f64)) -> f64| mean(&self.means.iter().map(of).collect::<Vec<_>>());
        (side(|means| means.0), side(|means| means.1))
    }

    /// The standard deviation of the samples within a machine and side; `None` without spread.
    pub(super) fn deviation(&self) -> Option<f64> {
        let (squares, freedom) = self.within;
        (squares > 0.0 && freedom > 0.0).then(|| (squares / freedom).sqrt())
    }

    /// The interval of the change, and the number of machines if the sample is their changes. `None` for a single
    /// machine with a single sample on each side.
    pub(super) fn interval(&self, level: f64) -> Option<(Interval, Option<usize>)> {
        let machines = self.means.len();
        let (k, weight) = (machines as f64, mean(&self.weights));
        let changes: Vec<f64> = self.means.iter().map(|(a, b)| b - a).collect();
        let shift = mean(&changes);
        let (squares, freedom) = self.within;
        let deviations = changes.iter().map(|change| (change - shift).powi(2));
        let between: f64 = deviations.clone().sum::<f64>() / (k - 1.0);
        let differs = machines > 1
            && match freedom > 0.0 && squares > 0.0 {
                true => {
                    let expected = squares / freedom * weight;
                    f_tail(between / expected, k - 1.0, freedom) < PRELIMINARY
                }
                false => freedom == 0.0 || between > 0.0,
            };
        let (error, freedom) = if differs {
            ((between / k).sqrt(), k - 1.0)
        } else {
            // The deviations of the changes, scaled so that they estimate the same variance.
            let scaled = deviations.zip(&self.weights).map(|(d, weight)| d / weight);
            let all = freedom + k - 1.0;
            if all <= 0.0 {
                return None;
            }
            let variance = (squares + scaled.sum::<f64>()) / all;
            ((variance * weight / k).sqrt(), all)
        };
        let reach = match error > 0.0 {
            true => student_t_quantile(0.5 + level / 2.0, freedom) * error,
            false => 0.0,
        };
        let interval = Interval {
            low: shift - reach,
            high: shift + reach,
        };
        reach
            .is_finite()
            .then_some((interval, differs.then_some(machines)))
    }
}
