//! The error of the instrument, for comparison with an effect: the lateness of packets on the path, and the send lag of
//! the load generator.

use fathometer_model::digits::significant;
use maud::{Markup, html};

use super::evidence::LineCells;
use crate::digest::Digest;
use crate::run::Cell;
use crate::sweep::{CurvePoint, CurveResult, PanelResult};

/// The metric of load studies for the 99th percentile of the generator's send lag.
const SEND_LAG: &str = "generator_send_lag_p99_us";

/// The instrument's error in one cell: the largest error of the cell's valid replicates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct InstrumentError {
    /// The 99th percentile of the path's lateness, in seconds.
    pub(super) lateness_s: f64,
    /// The 99th percentile of the send lag, in seconds; zero if the lag was not measured.
    pub(super) send_lag_s: f64,
}

impl InstrumentError {
    /// The error of a cell.
    pub(super) fn of(cell: &Cell) -> InstrumentError {
        let ways = cell.valid().flat_map(|r| [&r.path.up, &r.path.down]);
        let late = ways.map(|way| way.lateness_p99_ns).max().unwrap_or(0);
        let lags = cell.valid().filter_map(|r| r.metrics.get(SEND_LAG));
        InstrumentError {
            lateness_s: late as f64 / 1e9,
            send_lag_s: lags.copied().fold(0.0, f64::max) / 1e6,
        }
    }

    /// The sum of both errors: a request may be sent late, and its packets may also be delivered late.
    pub(super) fn total_s(self) -> f64 {
        self.lateness_s + self.send_lag_s
    }

    fn worst(self, other: InstrumentError) -> InstrumentError {
        InstrumentError {
            lateness_s: self.lateness_s.max(other.lateness_s),
            send_lag_s: self.send_lag_s.max(other.send_lag_s),
        }
    }
}

/// The factor from a metric's unit to seconds. `None` if late packets do not change the metric, because it is not a
/// time, or because it is a CPU time.
fn seconds_of(metric: &str, unit: &str) -> Option<f64> {
    match unit {
        _ if metric.starts_with("cpu_") => None,
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "µs" => Some(1e-6),
        _ => None,
    }
}

/// The points of a panel that belong to a single cell, each with the error of this cell.
fn of_points<'c>(
    digest: &Digest<'_>,
    curve: &'c CurveResult,
    place: usize,
) -> Vec<(&'c CurvePoint, InstrumentError)> {
    let mut found = Vec::new();
    for line in &curve.panels[place].lines {
        if let Some(cells) = LineCells::of(digest, curve, place, &line.series) {
            let cell = |point| Some((point, InstrumentError::of(cells.of_point(point)?)));
            found.extend(line.points.iter().filter_map(cell));
        }
    }
    found
}

/// The error at each position of a panel, in the unit of the panel. Several lines give the largest error. Empty if the
/// unit is not a time.
pub(super) fn of_panel(digest: &Digest<'_>, curve: &CurveResult, place: usize) -> Vec<(f64, f64)> {
    let panel: &PanelResult = &curve.panels[place];
    let Some(unit) = seconds_of(&panel.metric, &panel.unit) else {
        return Vec::new();
    };
    let mut errors: Vec<(f64, f64)> = Vec::new();
    for (point, error) in of_points(digest, curve, place) {
        let error = error.total_s() / unit;
        match errors.iter_mut().find(|(x, _)| *x == point.x) {
            Some((_, worst)) => *worst = worst.max(error),
            None => errors.push((point.x, error)),
        }
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    errors
}

/// A sentence with the largest error of a curve's cells. It also states the largest ratio of an error to a mean time of
/// the same cell.
pub(super) fn sentence(digest: &Digest<'_>, curve: &CurveResult) -> Markup {
    let mut worst = InstrumentError::default();
    let mut share: Option<f64> = None;
    for (place, panel) in curve.panels.iter().enumerate() {
        for (point, error) in of_points(digest, curve, place) {
            worst = worst.worst(error);
            let mean = point.estimate.map(|estimate| estimate.value);
            let unit = seconds_of(&panel.metric, &panel.unit);
            if let (Some(unit), Some(mean)) = (unit, mean.filter(|m| *m > 0.0)) {
                let of_mean = error.total_s() / (mean * unit);
                share = Some(share.unwrap_or(0.0).max(of_mean));
            }
        }
    }
    let millis = |seconds: f64| significant(1e3 * seconds);
    html! {
        @if worst.total_s() > 0.0 {
            p.footnote {
                "Instrument: packets at most " (millis(worst.lateness_s)) " ms late at the 99th percentile of a replicate"
                @if worst.send_lag_s > 0.0 {
                    ", requests at most " (millis(worst.send_lag_s)) " ms"
                }
                @if let Some(share) = share {
                    "; together at most " (significant(100.0 * share)) " % of a mean of the same cell"
                }
                "."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathometer_model::{
        CellKey, DirectionCertificate, PathCertificate, ReplicateRecord, Validity,
    };

    use super::*;

    fn replicate(late_ns: u64, lag_us: f64, reasons: &[&str]) -> ReplicateRecord {
        let down = DirectionCertificate {
            lateness_p99_ns: late_ns,
            ..DirectionCertificate::default()
        };
        ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey::default(),
            replicate: 0,
            seed: 1,
            order: 0,
            started: 0.0,
            metrics: BTreeMap::from([(SEND_LAG.to_owned(), lag_us)]),
            path: PathCertificate {
                down,
                ..PathCertificate::default()
            },
            validity: Validity {
                reasons: reasons.iter().map(|r| (*r).to_owned()).collect(),
            },
            folder: String::new(),
        }
    }

    #[test]
    fn the_error_of_a_cell_is_that_of_its_worst_valid_replicate() {
        let cell = Cell {
            block: "main".to_owned(),
            key: CellKey::default(),
            replicates: vec![
                replicate(50_000, 200.0, &[]),
                replicate(80_000, 100.0, &[]),
                replicate(9_000_000, 9e6, &["late"]),
            ],
        };
        let error = InstrumentError::of(&cell);
        assert_eq!(
            error,
            InstrumentError {
                lateness_s: 80e-6,
                send_lag_s: 200e-6
            }
        );
        assert!((error.total_s() - 280e-6).abs() < 1e-12);
    }

    #[test]
    fn only_times_are_compared_with_the_error() {
        assert_eq!(seconds_of("response_mean_ms", "ms"), Some(1e-3));
        assert_eq!(seconds_of("exchanges_per_s", "1/s"), None);
        assert_eq!(seconds_of("cwnd_le_8_pct", "% of samples"), None);
        assert_eq!(seconds_of("cpu_us_per_exchange", "µs"), None);
    }
}
