//! The coverage of intervals, by simulation. Samples are drawn from distributions with known true values and from real
//! cells. The coverage is the share of intervals that contain the true value.

use fathometer_model::Seed;
use serde::Serialize;

use super::distributions::normal_quantile;
use super::{Inference, Intervals, Resolution, Scale, Sides, mean, quantile_interval};

/// The simulated numbers of replicates.
pub const SIZES: [usize; 5] = [2, 3, 5, 8, 20];

/// The true ratio of the two sides of a comparison.
const RATIO: f64 = 1.2;

/// Distributions of replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Normal: mean 100, standard deviation 10.
    Normal,
    /// Lognormal: the logarithm has a standard deviation of 0.5, and the skewness is 1.75.
    Skewed,
    /// Student's t with 3 degrees of freedom, centre 100 and scale 5; its kurtosis is infinite.
    HeavyTailed,
    /// Counts near 100: normal with a standard deviation of 0.3, rounded to whole numbers.
    NearConstant,
    /// Values that are drawn from the replicates of real cells.
    RealCells,
}

impl Data {
    /// All distributions.
    pub const ALL: [Data; 5] = [
        Data::Normal,
        Data::Skewed,
        Data::HeavyTailed,
        Data::NearConstant,
        Data::RealCells,
    ];

    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Data::Normal => "normal",
            Data::Skewed => "skewed (lognormal)",
            Data::HeavyTailed => "heavy-tailed (Student, 3 degrees of freedom)",
            Data::NearConstant => "near-constant counts",
            Data::RealCells => "real cells, resampled",
        }
    }
}

/// Figures whose intervals are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The mean of a cell.
    Mean,
    /// The difference of two independent cells.
    Difference,
    /// The ratio of two independent cells.
    Ratio,
    /// The ratio of two cells whose replicates share half of their variance.
    PairedRatio,
    /// The ratio of the mean ratios at two levels, by the jackknife.
    Jackknife,
    /// The median of a cell, by order statistics.
    Median,
}

impl Figure {
    /// All figures.
    pub const ALL: [Figure; 6] = [
        Figure::Mean,
        Figure::Difference,
        Figure::Ratio,
        Figure::PairedRatio,
        Figure::Jackknife,
        Figure::Median,
    ];

    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Mean => "mean",
            Figure::Difference => "difference",
            Figure::Ratio => "ratio",
            Figure::PairedRatio => "ratio, paired",
            Figure::Jackknife => "ratio of means of two levels, jackknife",
            Figure::Median => "median, order statistics",
        }
    }
}

/// The coverage of one figure's intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coverage {
    /// The distribution.
    pub data: Data,
    /// The figure.
    pub figure: Figure,
    /// The number of replicates.
    pub n: usize,
    /// The share of 95 % intervals that contain the true value; `None` if samples of this size have no interval.
    pub covered: Option<f64>,
}

/// A table of coverage at the level of 95 %.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoverageTable {
    /// The seed of the random numbers.
    pub seed: Seed,
    /// Number of samples for each entry.
    pub trials: u32,
    /// The number of real cells that are resampled.
    pub real_cells: usize,
    /// One row for each distribution, figure and number of replicates.
    pub rows: Vec<Coverage>,
}

impl CoverageTable {
    /// Runs the simulation. `real` contains the values of cells with many replicates. If it is empty, the rows of real
    /// cells are left out.
    pub fn simulate(seed: Seed, trials: u32, real: &[Vec<f64>]) -> CoverageTable {
        let mut rows = Vec::new();
        for data in Data::ALL {
            if data == Data::RealCells && real.is_empty() {
                continue;
            }
            for figure in Figure::ALL {
                for n in SIZES {
                    let source = Source {
                        data,
                        real,
                        draws: seed
                            .stream(data.name())
                            .stream(figure.name())
                            .child(n as u64),
                    };
                    rows.push(Coverage {
                        data,
                        figure,
                        n,
                        covered: source.coverage(figure, n, trials),
                    });
                }
            }
        }
        CoverageTable {
            seed,
            trials,
            real_cells: real.len(),
            rows,
        }
    }

    /// The entry for a distribution, a figure and a number of replicates.
    pub fn get(&self, data: Data, figure: Figure, n: usize) -> Option<f64> {
        let same = |row: &&Coverage| row.data == data && row.figure == figure && row.n == n;
        self.rows.iter().find(same)?.covered
    }

    /// Formats the table as Markdown, with coverage in percent.
    pub fn markdown(&self) -> String {
        let sizes = SIZES.map(|n| format!("n = {n}")).join(" | ");
        let mut text = format!("| data | figure | {sizes} |\n|---|---|---|---|---|---|---|\n");
        for data in Data::ALL {
            for figure in Figure::ALL {
                let entries = SIZES.map(|n| match self.get(data, figure, n) {
                    Some(covered) => format!("{:.1}", covered * 100.0),
                    None => "none".to_owned(),
                });
                let is_there = self.rows.iter().any(|row| row.data == data);
                if is_there {
                    text.push_str(&format!(
                        "| {} | {} | {} |\n",
                        data.name(),
                        figure.name(),
                        entries.join(" | ")
                    ));
                }
            }
        }
        text
    }
}

struct Source<'a> {
    data: Data,
    real: &'a [Vec<f64>],
    draws: Seed,
}

/// The distribution of the values in one trial.
struct Trial<'a> {
    data: Data,
    /// The centre of the first side.
    centre: f64,
    cell: &'a [f64],
    draws: Seed,
}

impl Source<'_> {
    fn coverage(&self, figure: Figure, n: usize, trials: u32) -> Option<f64> {
        let covered = (0..u64::from(trials)).map(|trial| self.trial(trial).covers(figure, n));
        let covered: Vec<bool> = covered.collect::<Option<_>>()?;
        Some(covered.iter().filter(|covered| **covered).count() as f64 / covered.len() as f64)
    }

    fn trial(&self, trial: u64) -> Trial<'_> {
        let draws = self.draws.child(trial);
        let cell = match self.data {
            Data::RealCells => {
                let place = draws.stream("cell").uniform(0) * self.real.len() as f64;
                &self.real[place as usize][..]
            }
            _ => &[],
        };
        Trial {
            data: self.data,
            // A random centre between two counts.
            centre: 100.0 + draws.stream("centre").uniform(0),
            cell,
            draws,
        }
    }
}

impl Trial<'_> {
    fn resolution(&self) -> Resolution {
        match self.data {
            Data::NearConstant => Resolution {
                absolute: 1.0,
                relative: 0.0,
            },
            _ => Resolution {
                absolute: 0.0,
                relative: 1e-3,
            },
        }
    }

    /// A sample around `times` times the centre.
    fn sample(&self, side: u64, n: usize, times: f64) -> Vec<f64> {
        let draws = self.draws.child(side);
        (0..n as u64).map(|i| self.value(draws, i, times)).collect()
    }

    fn value(&self, draws: Seed, i: u64, times: f64) -> f64 {
        let normal = |k: u64| {
            // The Box-Muller transform.
            let radius = (-2.0 * (1.0 - draws.uniform(16 * i + 2 * k)).ln()).sqrt();
            radius * (std::f64::consts::TAU * draws.uniform(16 * i + 2 * k + 1)).cos()
        };
        match self.data {
            Data::Normal => times * (100.0 + 10.0 * normal(0)),
            Data::Skewed => times * (0.5 * normal(0)).exp(),
            Data::HeavyTailed => {
                let squares: f64 = (1..4).map(|k| normal(k).powi(2)).sum();
                times * (100.0 + 5.0 * normal(0) / (squares / 3.0).sqrt())
            }
            Data::NearConstant => (times * self.centre + 0.3 * normal(0)).round(),
            Data::RealCells => {
                let place = draws.uniform(16 * i) * self.cell.len() as f64;
                times * self.cell[place as usize]
            }
        }
    }

    fn true_mean(&self) -> f64 {
        match self.data {
            Data::Normal | Data::HeavyTailed => 100.0,
            Data::Skewed => 0.125f64.exp(),
            Data::NearConstant => self.centre,
            Data::RealCells => mean(self.cell),
        }
    }

    fn true_median(&self) -> f64 {
        match self.data {
            Data::Normal | Data::HeavyTailed => 100.0,
            Data::Skewed => 1.0,
            Data::NearConstant => self.centre,
            Data::RealCells => {
                let mut sorted = self.cell.to_vec();
                sorted.sort_by(f64::total_cmp);
                super::quantile_of_sorted(&sorted, 0.5)
            }
        }
    }

    /// Whether the interval contains the true value; `None` if there is no interval.
    fn covers(&self, figure: Figure, n: usize) -> Option<bool> {
        use Sides::{Independent, Paired};
        // The p-value of the true value shows whether the interval contains it, and needs less computation than the
        // interval.
        let all = Intervals { level: 0.0 };
        let resolution = self.resolution();
        let contains = |inference: Option<Inference>, truth: f64| {
            Some(inference?.basis?.p_value(truth) >= 0.05)
        };
        let one = || self.sample(0, n, 1.0);
        let other = |times: f64| self.sample(1, n, times);
        match figure {
            Figure::Mean => contains(all.mean(&one(), resolution), self.true_mean()),
            Figure::Difference => {
                let difference = all.difference(&other(RATIO), &one(), Independent, resolution);
                contains(difference, (RATIO - 1.0) * self.true_mean())
            }
            Figure::Ratio => contains(
                all.ratio(&other(RATIO), &one(), Independent, resolution),
                RATIO,
            ),
            Figure::PairedRatio => {
                let (one, other) = (self.shared(one(), n), self.shared(other(RATIO), n));
                contains(all.ratio(&other, &one, Paired, resolution), RATIO)
            }
            Figure::Jackknife => {
                let sides = [0, 1, 2, 3].map(|side| {
                    let times = if side < 2 { RATIO } else { 1.0 };
                    self.sample(side, n, times)
                });
                let sides = [&sides[0][..], &sides[1][..], &sides[2][..], &sides[3][..]];
                let ratio =
                    |s: &[&[f64]]| 0.5 * (mean(s[0]) / mean(s[2]) + mean(s[1]) / mean(s[3]));
                let scale = Scale::Logarithmic;
                contains(
                    all.statistic(&sides, Paired, scale, resolution, &ratio),
                    RATIO,
                )
            }
            Figure::Median => {
                let interval = quantile_interval(&one(), 0.5, 0.95)?.interval;
                Some(interval.contains(self.true_median()))
            }
        }
    }

    /// Multiplies a sample by random factors that both sides of a pair share. The logarithm of a factor has a standard
    /// deviation of 0.1. Counts are not multiplied, because they would have to be rounded again.
    fn shared(&self, sample: Vec<f64>, n: usize) -> Vec<f64> {
        if self.data == Data::NearConstant {
            return sample;
        }
        let draws = self.draws.stream("shared");
        let factor = |i: usize| (0.1 * normal_quantile(draws.uniform(i as u64).max(1e-12))).exp();
        let factors = (0..n).map(factor);
        sample
            .iter()
            .zip(factors)
            .map(|(value, factor)| value * factor)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_what_they_say_where_they_are_exact() {
        let table = CoverageTable::simulate(Seed(1908), 1_500, &[]);
        // Three standard errors of 1 500 trials are 1.7 %.
        for figure in [Figure::Mean, Figure::Ratio, Figure::PairedRatio] {
            for n in SIZES {
                let covered = table.get(Data::Normal, figure, n).unwrap();
                // Welch's t is conservative for two pairs.
                let most = if figure == Figure::Ratio { 0.99 } else { 0.967 };
                assert!(
                    (0.933..most).contains(&covered),
                    "{figure:?}, n = {n}: {covered}"
                );
            }
        }
        for n in SIZES {
            let skewed = table.get(Data::Skewed, Figure::PairedRatio, n).unwrap();
            assert!((0.933..0.967).contains(&skewed), "n = {n}: {skewed}");
            let constant = table.get(Data::NearConstant, Figure::Mean, n).unwrap();
            assert!(constant > 0.92, "n = {n}: {constant}");
        }
        // A sample of five values has no 95 % interval for the median.
        assert_eq!(table.get(Data::Normal, Figure::Median, 5), None);
        assert!(table.get(Data::HeavyTailed, Figure::Median, 8).unwrap() > 0.95);
    }
}
