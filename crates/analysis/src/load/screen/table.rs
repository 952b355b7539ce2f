//! The table of phases: one row for each phase, in h2load's layout.

use super::super::quantity::{count, time};
use super::super::{Distribution, Window, rates};
use crate::text::{Align, Grid};

/// The explanation of the rows.
pub(super) const NOTE: &str = "\
corrected: from the planned instant, as a user waits, to the last byte. uncorrected: from the
request's first byte, as most tools count; it misses requests that a stall held back. queue: waiting
for a connection, a delay of the server; send lag: the generator's own delay.
";

/// The table of phases in a window.
pub(super) fn render(window: &Window) -> String {
    let latency = &window.latency;
    let mut aligns = vec![Align::Left];
    aligns.resize(10, Align::Right);
    let mut grid = Grid::new(aligns, Vec::new());
    let header = [
        "", "min", "max", "median", "p95", "p99", "mean", "sd", "±sd", "count",
    ];
    grid.line(apart(header.map(str::to_owned).to_vec()));
    let mut row = |name: &str, times: &Distribution| grid.line(apart(phase(name, times)));
    row("corrected", &latency.corrected);
    row("uncorrected", &latency.uncorrected);
    row("queue", &latency.queue);
    row("send lag", &latency.send_lag);
    row("connect", &latency.connect);
    if !latency.tls.is_empty() {
        row("TLS", &latency.tls);
    }
    row("first byte", &latency.first_byte);
    row("transfer", &latency.transfer);
    if rates::has_pages(window) {
        row("page", &latency.page);
    }
    if !latency.failed.is_empty() {
        row("failed", &latency.failed);
    }
    grid.render()
}

/// Inserts an empty column between figures, to separate a unit from the next figure.
fn apart(mut fields: Vec<String>) -> Vec<String> {
    for field in fields.iter_mut().skip(2) {
        field.insert(0, ' ');
    }
    fields
}

fn phase(name: &str, times: &Distribution) -> Vec<String> {
    let figures = || {
        Some([
            time(times.min()?),
            time(times.max()?),
            time(times.quantile(0.50)?),
            time(times.quantile(0.95)?),
            time(times.quantile(0.99)?),
            time(times.mean()?),
            time(times.standard_deviation()?),
            format!("{:.0}%", 100.0 * times.within_one_deviation()?),
        ])
    };
    let mut line = vec![name.to_owned()];
    line.extend(figures().unwrap_or_else(|| std::array::from_fn(|_| "–".to_owned())));
    line.push(count(times.count()));
    line
}
