//! The ranks of a load test that ran on several machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lines::line;
use super::quantity::{count, seconds, three_digits};
use crate::text::{Align, Grid};

/// One rank of a test: its figures in the measured window, and its clock relative to the clock of rank 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankFigures {
    /// The number of the rank, from 0.
    pub rank: u32,
    /// The name of the rank's machine.
    pub host: String,
    /// The reason why the rank was lost; `null` for a rank that finished normally.
    pub lost: Option<String>,
    /// Planned exchanges.
    pub planned: u64,
    /// Completed exchanges.
    pub completed: u64,
    /// Failures, and responses with a status of 400 and above.
    pub errors: u64,
    /// Median of the corrected latency.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the corrected latency.
    pub p99_ms: Option<f64>,
    /// 99th percentile of the send lag.
    pub send_lag_p99_ms: Option<f64>,
    /// CPU time; `null` for a lost rank.
    pub cpu_s: Option<f64>,
    /// Clock of rank 0 minus the rank's clock, before the test.
    pub clock_offset_s: Option<f64>,
    /// The largest possible error of that offset.
    pub clock_uncertainty_ms: Option<f64>,
    /// The drift of the clocks during the test that exceeds their uncertainty.
    pub clock_drift_ms: Option<f64>,
    /// The largest possible difference between the start of this rank and the start of rank 0.
    pub start_skew_ms: Option<f64>,
    /// Bytes per second on the rank's control connection, in both directions, until the rank finished.
    pub control_bytes_per_s: Option<f64>,
}

/// The line of the screen about ranks; empty for a test on one machine.
pub(super) fn summary(ranks: &[RankFigures]) -> String {
    if ranks.is_empty() {
        return String::new();
    }
    let lost = ranks.iter().filter(|rank| rank.lost.is_some());
    let most =
        |of: fn(&RankFigures) -> Option<f64>| ranks.iter().filter_map(of).fold(0.0, f64::max);
    let lost = match lost.count() {
        0 => String::new(),
        some => format!(", {some} of them lost"),
    };
    let text = format!(
        "{}{lost}; start skew at most {}, clock drift {}; control traffic {} kB/s per rank",
        ranks.len(),
        seconds(most(|rank| rank.start_skew_ms) / 1e3),
        seconds(most(|rank| rank.clock_drift_ms) / 1e3),
        three_digits(most(|rank| rank.control_bytes_per_s) / 1e3),
    );
    line("ranks", &text)
}

/// The table of ranks; empty for a test on one machine.
pub(super) fn table(ranks: &[RankFigures]) -> String {
    if ranks.is_empty() {
        return String::new();
    }
    let mut columns = vec![Align::Right, Align::Left];
    columns.extend([Align::Right; 10]);
    let mut grid = Grid::new(columns, Vec::new());
    let heads = [
        "rank", "host", "planned", "done", "errors", "p50 ms", "p99 ms", "lag ms", "CPU s",
        "skew ms", "drift ms", "kB/s",
    ];
    grid.line(heads.map(str::to_owned).to_vec());
    for rank in ranks {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), three_digits);
        let host = match &rank.lost {
            Some(_) => format!("{} (lost)", rank.host),
            None => rank.host.clone(),
        };
        let mut fields = vec![rank.rank.to_string(), host];
        fields.extend([rank.planned, rank.completed, rank.errors].map(count));
        fields.extend(
            [
                rank.p50_ms,
                rank.p99_ms,
                rank.send_lag_p99_ms,
                rank.cpu_s,
                rank.start_skew_ms,
                rank.clock_drift_ms,
                rank.control_bytes_per_s.map(|bytes| bytes / 1e3),
            ]
            .map(shown),
        );
        grid.line(fields);
    }
    format!("\n{}", grid.render())
}
