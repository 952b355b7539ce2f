//! Simulation of whole designs: a fixed number of replicates, and stopping at planned looks. Samples have a planted
//! effect. The simulation estimates the power (trials that find the effect) and the rate of wrong verdicts.
//!
//! A design compares two cells with paired replicates, and decides when the interval of their ratio excludes 1.

use fathometer_model::Seed;
use serde::Serialize;

use super::distributions::{normal_cdf, student_t_quantile};
use super::{Intervals, LEVEL, Looks, Resolution, Sides, adjusted};

/// The planted effects: the ratio of the two cells minus 1.
pub const EFFECTS: [f64; 5] = [0.0, 0.01, 0.02, 0.05, 0.1];

/// The largest number of replicates of a design with planned looks.
pub const MOST: u32 = 36;

/// The number of claims of the simulated ledger, which is the number of claims of the five papers.
pub const CLAIMS: usize = 69;

/// Replicates of each claim of the simulated ledger.
const REPLICATES_OF_A_CLAIM: usize = 5;

/// The relative standard deviation of a value. Near-constant counts have a different one ([`Noise`]).
const NOISE: f64 = 0.02;

/// Distributions of replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// The logarithm is normal with a standard deviation of 0.02.
    Normal,
    /// The logarithm is exponential with a standard deviation of 0.02: skewness 2.
    Skewed,
    /// Counts near 100: a standard deviation of 0.3, rounded to whole numbers.
    NearConstant,
}

impl Noise {
    /// All distributions.
    pub const ALL: [Noise; 3] = [Noise::Normal, Noise::Skewed, Noise::NearConstant];

    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Noise::Normal => "normal, 2 %",
            Noise::Skewed => "skewed, 2 %",
            Noise::NearConstant => "near-constant counts",
        }
    }

    fn resolution(self) -> Resolution {
        match self {
            Noise::NearConstant => Resolution {
                absolute: 1.0,
                relative: 0.0,
            },
            _ => Resolution::default(),
        }
    }

    /// A sample of one cell around `centre`.
    fn sample(self, draws: Seed, n: u32, centre: f64) -> Vec<f64> {
        let value = |i: u64| match self {
            Noise::Normal => centre * (NOISE * normal(draws, i)).exp(),
            Noise::Skewed => {
                let exponential = -(1.0 - draws.uniform(2 * i)).ln();
                centre * (NOISE * (exponential - 1.0)).exp()
            }
            Noise::NearConstant => (centre + 0.3 * normal(draws, i)).round(),
        };
        (0..u64::from(n)).map(value).collect()
    }
}

/// A standard normal random number, by the Box-Muller transform.
pub(super) fn normal(draws: Seed, i: u64) -> f64 {
    let radius = (-2.0 * (1.0 - draws.uniform(2 * i)).ln()).sqrt();
    radius * (std::f64::consts::TAU * draws.uniform(2 * i + 1)).cos()
}

/// The stopping rule of a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// After this number of replicates.
    Fixed(u32),
    /// At the first planned look whose interval excludes 1. Each look has its own level.
    Planned,
    /// As `Planned`, but each look at 95 %. This program does not use this design; it is simulated for comparison.
    Uncorrected,
}

impl Design {
    /// All simulated designs.
    pub const ALL: [Design; 5] = [
        Design::Fixed(5),
        Design::Fixed(12),
        Design::Fixed(MOST),
        Design::Planned,
        Design::Uncorrected,
    ];

    /// The name in a table.
    pub fn name(self) -> String {
        match self {
            Design::Fixed(n) => format!("fixed, n = {n}"),
            Design::Planned => format!("planned looks, up to {MOST}"),
            Design::Uncorrected => format!("looks at 95 % each, up to {MOST}"),
        }
    }

    /// The looks of the design: the number of replicates, and the error probability of the look.
    fn looks(self) -> Vec<(usize, f64)> {
        let looks = Looks::up_to(MOST);
        let after = looks.after().iter();
        match self {
            Design::Fixed(n) => vec![(n as usize, 1.0 - LEVEL)],
            Design::Planned => after
                .enumerate()
                .map(|(look, n)| (*n as usize, 1.0 - looks.level(look, LEVEL)))
                .collect(),
            Design::Uncorrected => after.map(|n| (*n as usize, 1.0 - LEVEL)).collect(),
        }
    }

    /// The theoretical power for normal replicates. It is exact for a fixed number of replicates. For planned looks it
    /// is the power of the best single look, which is a lower bound for the whole design. `None` if no power is stated.
    pub fn stated_power(self, noise: Noise, effect: f64) -> Option<f64> {
        if noise != Noise::Normal || self == Design::Uncorrected || effect == 0.0 {
            return None;
        }
        // The logarithm of the ratio of a pair has twice the variance of the logarithm of a value.
        let shift = (1.0 + effect).ln() / (NOISE * std::f64::consts::SQRT_2);
        let powers = self.looks().into_iter();
        powers
            .map(|(n, error)| power(shift, n, error))
            .reduce(f64::max)
    }
}

/// The probability that the interval of the mean of `n` normal values lies above 0. The true mean is `shift` standard
/// deviations. The probability is the tail of the noncentral t distribution, integrated over the sample's standard
/// deviation (Johnson and Kotz, "Continuous Univariate Distributions" 2, 1995, 31.2).
fn power(shift: f64, n: usize, error: f64) -> f64 {
    const STEPS: u32 = 4_000;
    let freedom = (n - 1) as f64;
    let quantile = -student_t_quantile(0.5 * error, freedom);
    let centre = shift * (n as f64).sqrt();
    let (mut sum, mut all) = (0.0, 0.0);
    for step in 1..STEPS {
        // The ratio of the sample's standard deviation to the true one, and its density without the normalising factor.
        let s = 4.0 * f64::from(step) / f64::from(STEPS);
        let density = ((freedom - 1.0) * s.ln() - 0.5 * freedom * (s * s - 1.0)).exp();
        sum += density * normal_cdf(centre - quantile * s);
        all += density;
    }
    sum / all
}

/// The results of the trials of one design.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DesignRow {
    /// The distribution.
    pub noise: Noise,
    /// The stopping rule of the design.
    pub design: Design,
    /// The planted effect.
    pub effect: f64,
    /// The share of trials that find an effect in the planted direction. If no effect is planted, the upward direction
    /// counts.
    pub found: f64,
    /// The share of trials with a wrong verdict: an effect in the wrong direction, or any effect if none is planted.
    pub wrong: f64,
    /// The stated power ([`Design::stated_power`]).
    pub stated: Option<f64>,
    /// The mean number of replicates.
    pub replicates: f64,
}

/// The results of ledgers in which no claim is true.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NullLedgers {
    /// Whether all claims compare with the same cell.
    pub share_a_cell: bool,
    /// Mean number of wrong verdicts per ledger, if each claim is judged alone.
    pub alone: f64,
    /// Mean number of wrong verdicts per ledger that stand.
    pub standing: f64,
    /// The share of ledgers in which at least one wrong verdict stands.
    pub ledgers: f64,
}

/// Tables of the simulated designs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DesignTables {
    /// The seed of the random numbers.
    pub seed: Seed,
    /// Number of trials for each row of `designs`.
    pub trials: u32,
    /// The number of simulated ledgers of each kind.
    pub ledgers: u32,
    /// One row for each distribution, effect and design.
    pub designs: Vec<DesignRow>,
    /// One row for independent claims, and one for claims that share a cell.
    pub null_ledgers: Vec<NullLedgers>,
}

impl DesignTables {
    /// Simulates `trials` samples for each row, and a quarter as many ledgers. `rate` is the false discovery rate of
    /// the ledgers.
    pub fn simulate(seed: Seed, trials: u32, rate: f64) -> DesignTables {
        let mut designs = Vec::new();
        for noise in Noise::ALL {
            for effect in EFFECTS {
                designs.extend(rows(
                    seed.stream("designs").stream(noise.name()),
                    noise,
                    effect,
                    trials,
                ));
            }
        }
        let ledgers = (trials / 4).max(1);
        let null_ledgers = [false, true];
        let null_ledgers = null_ledgers.map(|share| null_ledgers_of(seed, ledgers, share, rate));
        DesignTables {
            seed,
            trials,
            ledgers,
            designs,
            null_ledgers: null_ledgers.to_vec(),
        }
    }

    /// The row of a design.
    pub fn get(&self, noise: Noise, design: Design, effect: f64) -> Option<&DesignRow> {
        let mut rows = self.designs.iter();
        rows.find(|row| row.noise == noise && row.design == design && row.effect == effect)
    }

    /// Formats both tables as Markdown, with shares in percent.
    pub fn markdown(&self) -> String {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let mut text = String::from(
            "| data | effect | design | found | stated power | wrong | mean replicates |\n|---|---|---|---|---|---|---|\n",
        );
        for row in &self.designs {
            let stated = match (row.stated, row.design) {
                (None, _) => "none".to_owned(),
                (Some(power), Design::Planned) => format!("at least {}", percent(power)),
                (Some(power), _) => percent(power),
            };
            let found = match row.effect == 0.0 {
                true => "none".to_owned(),
                false => percent(row.found),
            };
            text.push_str(&format!(
                "| {} | {:.0} % | {} | {found} | {stated} | {} | {:.1} |\n",
                row.noise.name(),
                row.effect * 100.0,
                row.design.name(),
                percent(row.wrong),
                row.replicates,
            ));
        }
        text.push_str(&format!(
            "\n| ledgers of {CLAIMS} claims, none true | wrong alone, expected | wrong alone, found | wrong that stand, \
             found | ledgers with one that stands, at most | found |\n|---|---|---|---|---|---|\n"
        ));
        for row in &self.null_ledgers {
            text.push_str(&format!(
                "| {} | {:.2} | {:.2} | {:.3} | 5.0 | {} |\n",
                match row.share_a_cell {
                    true => "all compare with one cell",
                    false => "independent",
                },
                CLAIMS as f64 * (1.0 - LEVEL),
                row.alone,
                row.standing,
                percent(row.ledgers),
            ));
        }
        text
    }
}

/// The rows of all designs, from the same samples.
fn rows(draws: Seed, noise: Noise, effect: f64, trials: u32) -> Vec<DesignRow> {
    let looks: Vec<_> = Design::ALL.map(Design::looks).into();
    // For each design: the number of trials that found the effect, the number of wrong trials, and the sum of
    // replicates.
    let mut sums = vec![(0u32, 0u32, 0usize); looks.len()];
    let draws = draws.child((effect * 1_000.0).round() as u64);
    for trial in 0..u64::from(trials) {
        let draws = draws.child(trial);
        let other = noise.sample(draws.child(0), MOST, 100.0);
        let one = noise.sample(draws.child(1), MOST, 100.0 * (1.0 + effect));
        // The p-value and the direction after each number of replicates. They are computed only at looks.
        let mut seen = vec![None; MOST as usize + 1];
        for (looks, (found, wrong, replicates)) in looks.iter().zip(&mut sums) {
            let mut made = 0;
            for &(n, error) in looks {
                made = n;
                let (p, up) = *seen[n].get_or_insert_with(|| judged(noise, &one[..n], &other[..n]));
                if p < error {
                    *found += u32::from(up);
                    *wrong += u32::from(effect == 0.0 || !up);
                    break;
                }
            }
            *replicates += made;
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(trials);
    let designs = Design::ALL.into_iter().zip(sums);
    designs
        .map(|(design, (found, wrong, replicates))| DesignRow {
            noise,
            design,
            effect,
            found: share(found),
            wrong: share(wrong),
            stated: design.stated_power(noise, effect),
            replicates: replicates as f64 / f64::from(trials),
        })
        .collect()
}

/// The p-value of the hypothesis of no effect, and whether the ratio is above 1.
fn judged(noise: Noise, one: &[f64], other: &[f64]) -> (f64, bool) {
    // The p-value needs less computation than the interval.
    let none = Intervals { level: 0.0 };
    let ratio = none.ratio(one, other, Sides::Paired, noise.resolution());
    let basis = ratio.and_then(|ratio| ratio.basis);
    basis.map_or((1.0, false), |basis| {
        (basis.p_value(1.0), basis.centre > 0.0)
    })
}

/// Simulates ledgers without a true claim, and judges them by the ledger's own procedure.
fn null_ledgers_of(seed: Seed, ledgers: u32, share_a_cell: bool, rate: f64) -> NullLedgers {
    let draws = seed.stream("null ledgers").child(u64::from(share_a_cell));
    let n = REPLICATES_OF_A_CLAIM as u32;
    let (mut alone, mut standing, mut with_any) = (0, 0, 0);
    for ledger in 0..u64::from(ledgers) {
        let draws = draws.child(ledger);
        let sample = |cell: u64| Noise::Normal.sample(draws.child(cell), n, 100.0);
        let p_values: Vec<f64> = (1..=CLAIMS as u64)
            .map(|claim| {
                let other = if share_a_cell {
                    0
                } else {
                    claim + CLAIMS as u64
                };
                judged(Noise::Normal, &sample(claim), &sample(other)).0
            })
            .collect();
        alone += p_values.iter().filter(|p| **p < 1.0 - LEVEL).count();
        let stand = adjusted(&p_values).into_iter().filter(|p| *p <= rate);
        let stand = stand.count();
        standing += stand;
        with_any += usize::from(stand > 0);
    }
    let mean = |count: usize| count as f64 / f64::from(ledgers);
    NullLedgers {
        share_a_cell,
        alone: mean(alone),
        standing: mean(standing),
        ledgers: mean(with_any),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_keep_their_error_and_their_power() {
        let tables = DesignTables::simulate(Seed(1983), 1_000, 0.05);
        // Three standard errors of 1 000 trials are 2.1 percentage points at a share of 5 %, and at most 4.8 points at
        // other shares.
        for noise in Noise::ALL {
            let planned = tables.get(noise, Design::Planned, 0.0).unwrap();
            assert!(planned.wrong <= 0.071, "{planned:?}");
        }
        let naive = tables.get(Noise::Normal, Design::Uncorrected, 0.0).unwrap();
        assert!(naive.wrong > 0.1, "{naive:?}");
        let normal = tables.designs.iter().filter(|r| r.noise == Noise::Normal);
        let mut stated = 0;
        for row in normal.filter(|row| row.stated.is_some()) {
            let power = row.stated.unwrap();
            stated += 1;
            assert!(row.found > power - 0.048, "{row:?}");
            if matches!(row.design, Design::Fixed(_)) {
                assert!(row.found < power + 0.048, "{row:?}");
            }
        }
        assert_eq!(stated, 16);
        // Designs stop early if the effect is large.
        let planned = tables.get(Noise::Normal, Design::Planned, 0.1).unwrap();
        assert!(planned.replicates < 12.0, "{planned:?}");
        for ledgers in &tables.null_ledgers {
            assert!((2.0..5.0).contains(&ledgers.alone), "{ledgers:?}");
            // A wrong verdict stands in at most 5 % of the 250 ledgers.
            assert!(ledgers.ledgers <= 0.05, "{ledgers:?}");
        }
    }
}
