//! The power of a comparison, by simulation from recorded noise. Both sides are drawn with replacement from the
//! replicates of one real cell, and one side is changed by a known share.

use std::path::Path;

use fathometer_model::Seed;
use serde::Serialize;

use super::{Better, Comparison, Design, Metric, Side, Verdict};
use crate::Error;
use crate::real_cells::cells_with;

/// Planted changes in percent; the first value plants no change.
pub const PLANTED: [f64; 5] = [0.0, 1.0, 2.0, 5.0, 10.0];

/// Numbers of samples of each side.
pub const SIZES: [usize; 4] = [3, 5, 10, 20];

/// The recorded values of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// The metric.
    pub metric: String,
    /// The values of each cell that has many replicates.
    pub cells: Vec<Vec<f64>>,
}

/// Reads the noise of the compared metrics from the runs in a folder.
///
/// # Errors
/// When a run cannot be read.
pub fn noise_of(runs: &Path) -> Result<Vec<Noise>, Error> {
    let metrics = [
        ("rate", "exchanges_per_s"),
        ("cpu", "cpu_us_per_exchange"),
        ("p50", "response_p50_ms"),
        ("p99", "response_p99_ms"),
    ];
    let noise = metrics.map(|(metric, recorded)| {
        let mut cells = cells_with(runs, &[recorded])?;
        // Changes are ratios, so all values must be above zero.
        cells.retain(|cell| cell.iter().all(|value| *value > 0.0));
        Ok(Noise {
            metric: metric.to_owned(),
            cells,
        })
    });
    noise.into_iter().collect()
}

/// The power of comparisons in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Power {
    /// The metric.
    pub metric: String,
    /// Number of cells from which values were drawn.
    pub cells: usize,
    /// Median of the cells' coefficients of variation, in percent.
    pub noise_percent: f64,
    /// Number of samples of each side.
    pub n: usize,
    /// The share of comparisons that found a change, for each of [`PLANTED`].
    pub found: Vec<f64>,
}

/// The table of false alarms and power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerTable {
    /// The seed of the random numbers.
    pub seed: Seed,
    /// Number of simulated comparisons for each entry.
    pub trials: u32,
    /// One row for each metric and number of samples.
    pub rows: Vec<Power>,
}

impl PowerTable {
    /// Runs the simulation. Metrics without a cell are left out.
    pub fn simulate(seed: Seed, trials: u32, noise: &[Noise]) -> PowerTable {
        let mut rows = Vec::new();
        for noise in noise.iter().filter(|noise| !noise.cells.is_empty()) {
            for n in SIZES {
                let draws = seed.stream(&noise.metric).child(n as u64);
                let share = |(place, percent): (usize, f64)| {
                    let draws = draws.child(place as u64);
                    let found = (0..u64::from(trials))
                        .filter(|trial| is_found(noise, n, percent, draws.child(*trial)));
                    found.count() as f64 / f64::from(trials.max(1))
                };
                rows.push(Power {
                    metric: noise.metric.clone(),
                    cells: noise.cells.len(),
                    noise_percent: 100.0 * variation(&noise.cells),
                    n,
                    found: PLANTED.into_iter().enumerate().map(share).collect(),
                });
            }
        }
        PowerTable { seed, trials, rows }
    }

    /// The table as Markdown, in percent.
    pub fn markdown(&self) -> String {
        let planted = PLANTED.map(|percent| match percent {
            0.0 => "no change (false alarms)".to_owned(),
            _ => format!("+{percent} %"),
        });
        let mut text = format!(
            "| metric | cells | noise | n | {} |\n|---|---|---|---|---|---|---|---|---|\n",
            planted.join(" | ")
        );
        for row in &self.rows {
            let found = row
                .found
                .iter()
                .map(|share| format!("{:.1}", 100.0 * share));
            text.push_str(&format!(
                "| {} | {} | {:.2} % | {} | {} |\n",
                row.metric,
                row.cells,
                row.noise_percent,
                row.n,
                found.collect::<Vec<_>>().join(" | ")
            ));
        }
        text
    }
}

/// Simulates one comparison; returns whether it finds a change.
fn is_found(noise: &Noise, n: usize, percent: f64, draws: Seed) -> bool {
    let cell = draws.stream("cell").uniform(0) * noise.cells.len() as f64;
    let cell = &noise.cells[cell as usize];
    let side = |name: &str, factor: f64| {
        let draws = draws.stream(name);
        let value = |place: u64| factor * cell[(draws.uniform(place) * cell.len() as f64) as usize];
        let samples = (0..n as u64).map(value).collect();
        Side {
            name: name.to_owned(),
            metrics: vec![Metric::ratio(
                &noise.metric,
                "",
                Better::Lower,
                samples,
                "none",
            )],
            ..Side::default()
        }
    };
    let (before, after) = (side("before", 1.0), side("after", 1.0 + percent / 100.0));
    let comparison = Comparison::of(&before, &after, Design::Separate, 0.03);
    matches!(
        comparison.changes[0].verdict,
        Verdict::Better | Verdict::Worse
    )
}

/// The median of the cells' coefficients of variation.
fn variation(cells: &[Vec<f64>]) -> f64 {
    let of = |cell: &Vec<f64>| {
        let mean = crate::statistics::mean(cell);
        Some(crate::statistics::standard_deviation(cell)? / mean)
    };
    let mut all: Vec<f64> = cells.iter().filter_map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_alarms_keep_the_level_and_power_grows_with_the_change() {
        // Evenly spaced values around 100, with a standard deviation of about 1 %.
        let cell: Vec<f64> = (0..40).map(|i| 98.3 + 3.4 * f64::from(i) / 39.0).collect();
        let noise = |metric: &str, cells| Noise {
            metric: metric.to_owned(),
            cells,
        };
        let noise = [noise("p50", vec![cell]), noise("p99", Vec::new())];
        let table = PowerTable::simulate(Seed(5), 600, &noise);
        assert_eq!(table.rows.len(), SIZES.len());
        for row in &table.rows {
            assert!(row.found[0] <= 0.075, "{row:?}");
            assert!(row.found.is_sorted_by(|a, b| a <= &(b + 0.05)), "{row:?}");
        }
        // A change of 2 standard deviations, 10 samples: power 98.8 % by the noncentral t distribution.
        let ten = &table.rows[2];
        assert!((0.96..=1.0).contains(&ten.found[2]), "{ten:?}");
        // A change of 1 standard deviation: power 56 %.
        assert!((0.48..=0.64).contains(&ten.found[1]), "{ten:?}");
        let text = table.markdown();
        assert!(
            text.contains("| p50 | 1 | 1.0") && !text.contains("p99"),
            "{text}"
        );
    }
}
