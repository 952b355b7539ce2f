//! The coverage of the intervals of runs over several machines, by simulation.
//!
//! Two cells are compared by their ratio. The true ratio describes all machines of a kind. The ratio of each machine
//! varies around the true ratio, and the ratio of each replicate varies around the ratio of its machine. Three rules
//! are applied to the same samples: the rule of this program ([`OnMachines`](super::OnMachines)), all replicates as one
//! sample, and the machines' means as one sample.

use fathometer_model::Seed;
use serde::Serialize;

use super::designs::normal;
use super::{Intervals, Resolution, Sides, mean};

/// The standard deviation of the logarithm of the ratio, between replicates on one machine.
const NOISE: f64 = 0.02;

/// The true ratio.
const RATIO: f64 = 1.2;

/// The designs: the number of machines, and the number of replicates on each machine.
pub const DESIGNS: [(u32, u32); 7] = [(2, 2), (2, 5), (2, 15), (3, 3), (4, 2), (4, 5), (8, 5)];

/// The standard deviation of the ratio between machines, divided by the standard deviation between replicates on one
/// machine.
pub const DIFFERENCES: [f64; 4] = [0.0, 0.5, 1.0, 3.0];

/// The rules that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The rule of this program, with a preliminary test.
    Tested,
    /// All replicates as one sample. This program does not use this rule for several machines; it is simulated for
    /// comparison.
    Replicates,
    /// The machines' means as one sample. This program does not use this rule alone; it is simulated for comparison.
    Means,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 3] = [Rule::Tested, Rule::Replicates, Rule::Means];
}

/// The coverage of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Covered {
    /// The share of intervals that contain the true ratio.
    pub share: f64,
    /// The median half length of the intervals, relative to the ratio.
    pub half_length: f64,
}

/// One design with one difference between machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineRow {
    /// Number of machines.
    pub machines: u32,
    /// Number of replicates on each machine.
    pub replicates: u32,
    /// The difference between machines, as in [`DIFFERENCES`].
    pub difference: f64,
    /// The coverage of each rule, in the order of [`Rule::ALL`].
    pub rules: [Covered; 3],
}

/// The coverage of all designs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineCoverage {
    /// The seed of the random numbers.
    pub seed: Seed,
    /// Samples for each row.
    pub trials: u32,
    /// The rows, by design and difference.
    pub rows: Vec<MachineRow>,
}

impl MachineCoverage {
    /// Simulates `trials` samples for each row.
    pub fn simulate(seed: Seed, trials: u32) -> MachineCoverage {
        let draws = seed.stream("machines");
        let rows = DESIGNS
            .iter()
            .flat_map(|design| {
                DIFFERENCES
                    .iter()
                    .map(move |difference| (design, difference))
            })
            .enumerate()
            .map(
                |(place, (&(machines, replicates), &difference))| MachineRow {
                    machines,
                    replicates,
                    difference,
                    rules: covered(
                        draws.child(place as u64),
                        (machines, replicates),
                        difference,
                        trials,
                    ),
                },
            );
        MachineCoverage {
            seed,
            trials,
            rows: rows.collect(),
        }
    }

    /// Formats the table as Markdown, with shares in percent.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| machines x replicates | difference | this program | half length | all replicates | half length | \
             machines' means | half length |\n|---|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            text.push_str(&format!(
                "| {} x {} | {} |",
                row.machines, row.replicates, row.difference
            ));
            for rule in row.rules {
                let percent = |share: f64| format!(" {:.1} |", 100.0 * share);
                text.push_str(&percent(rule.share));
                text.push_str(&percent(rule.half_length));
            }
            text.push('\n');
        }
        text
    }
}

fn covered(
    draws: Seed,
    (machines, replicates): (u32, u32),
    difference: f64,
    trials: u32,
) -> [Covered; 3] {
    let mut hits = [0u32; 3];
    let mut lengths = [const { Vec::new() }; 3];
    for trial in 0..u64::from(trials) {
        let (ratios, of) = sample(draws.child(trial), machines, replicates, difference);
        let means: Vec<f64> = (0..machines)
            .map(|machine| {
                let own = ratios.iter().zip(&of).filter(|(_, of)| **of == machine);
                let logarithms: Vec<f64> = own.map(|(ratio, _)| ratio.ln()).collect();
                mean(&logarithms).exp()
            })
            .collect();
        let samples: [(&[f64], &[u32]); 3] = [(&ratios, &of), (&ratios, &[]), (&means, &[])];
        for (rule, (sample, machines)) in samples.into_iter().enumerate() {
            let ones = vec![1.0; sample.len()];
            let ratio = Intervals::default().on(machines).ratio(
                sample,
                &ones,
                Sides::Paired,
                Resolution::default(),
            );
            let estimate = ratio.map(|ratio| ratio.estimate);
            let Some((estimate, interval)) = estimate.and_then(|e| Some((e, e.interval?))) else {
                continue;
            };
            hits[rule] += u32::from(interval.contains(RATIO));
            let half: f64 = 0.5 * (interval.high - interval.low) / estimate.value;
            lengths[rule].push(half);
        }
    }
    let mut rules = [Covered::default(); 3];
    for ((rule, hits), mut lengths) in rules.iter_mut().zip(hits).zip(lengths) {
        lengths.sort_by(f64::total_cmp);
        rule.share = f64::from(hits) / f64::from(trials);
        rule.half_length = lengths.get(lengths.len() / 2).copied().unwrap_or(f64::NAN);
    }
    rules
}

/// The ratios of all replicates, and the machine of each replicate.
fn sample(draws: Seed, machines: u32, replicates: u32, difference: f64) -> (Vec<f64>, Vec<u32>) {
    let (own, noise) = (draws.child(0), draws.child(1));
    let of: Vec<u32> = (0..machines * replicates).map(|r| r % machines).collect();
    let ratio = |(replicate, machine): (usize, &u32)| {
        let apart = difference * NOISE * normal(own, u64::from(*machine));
        RATIO * (apart + NOISE * normal(noise, replicate as u64)).exp()
    };
    (of.iter().enumerate().map(ratio).collect(), of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_several_machines_cover_what_the_documentation_states() {
        let table = MachineCoverage::simulate(Seed(1964), 400);
        for row in &table.rows {
            let [tested, replicates, means] = row.rules;
            // Three standard errors of 400 trials are 3.3 percentage points at 95 %, and 5.4 points at 85 %.
            assert!(means.share > 0.917, "{row:?}");
            let least = match row.machines {
                2 => 0.85,
                3 => 0.91,
                _ => 0.93,
            };
            assert!(tested.share > least - 0.054, "{row:?}");
            if row.difference == 0.0 {
                assert!(tested.share > 0.917, "{row:?}");
            }
            // The coverage is never lower than with all replicates as one sample. With few machines that agree, the
            // intervals are much shorter than intervals of the machines' means.
            assert!(tested.share >= replicates.share, "{row:?}");
            if row.difference == 0.0 && row.machines == 2 {
                assert!(tested.half_length < 0.6 * means.half_length, "{row:?}");
            }
        }
    }
}
