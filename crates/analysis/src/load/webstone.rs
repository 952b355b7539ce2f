//! The report with WebStone's names, for comparison with results of that benchmark (1995 to 1998).
//!
//! As in WebStone, a megabit is 1024 · 1024 bits, throughput counts headers and content of responses, and
//! the error level is errors over connections. The report states two differences. WebStone truncated the sum of
//! response times and the test time to whole seconds before the division; this report does not. If a plan defines the
//! instants of requests, the times are corrected times.

use super::lines::WIDTH;
use super::screen;
use super::{LoadResult, LoopKind, quantity, rates};
use crate::text::{Align, Grid, hanging};

const BITS_PER_MEGABIT: f64 = 1024.0 * 1024.0;

/// The report.
pub fn render(result: &LoadResult) -> String {
    let window = &result.measured;
    let counts = &window.counts;
    let seconds = window.duration.as_secs_f64();
    let per_second = |number: f64| match seconds > 0.0 {
        true => format!("{:.2}", number / seconds),
        false => "not measured".to_owned(),
    };
    let times = &window.latency.corrected;
    let (clients, name) = match &result.setup.kind {
        LoopKind::Closed { users } => (*users, "Total number of clients"),
        LoopKind::Open { connections, .. } => (*connections, "Total number of connections"),
    };
    let bits = 8.0 * window.ended.received.as_f64() / BITS_PER_MEGABIT;
    let errors = window.ended.failed + window.ended.status_errors;
    let pages = match rates::has_pages(window) {
        true => counts.pages,
        false => counts.completed,
    };
    let not_measured = || "not measured".to_owned();

    let mut grid = Grid::new(vec![Align::Left, Align::Right, Align::Left], vec![1, 2]);
    let mut line = |name: &str, value: String, unit: &str| {
        grid.line(vec![name.to_owned(), value, unit.to_owned()]);
    };
    line(name, quantity::count(clients), "");
    line("Test time", format!("{seconds:.3}"), "s");
    line(
        "Server connection rate",
        per_second(window.ended.connected as f64),
        "connections/s",
    );
    line("Server error rate", per_second(errors as f64), "err/s");
    line("Server throughput", per_second(bits), "Mbit/s");
    line(
        "Little's Load Factor",
        rates::load_factor(window).map_or_else(not_measured, |factor| format!("{factor:.2}")),
        "",
    );
    line(
        "Average response time",
        times.mean().map_or_else(not_measured, |mean| {
            format!("{:.3}", mean.as_secs_f64() * 1e3)
        }),
        "ms",
    );
    line(
        "Error Level",
        match counts.connects {
            0 => not_measured(),
            connects => {
                let all = counts.errors() + counts.unfinished;
                format!("{:.4}", 100.0 * all as f64 / connects as f64)
            }
        },
        "%",
    );
    line(
        "Average client throughput",
        per_second(bits / f64::from(clients.max(1))),
        "Mbit/s",
    );
    line(
        "Sum of client response times",
        format!("{:.3}", times.sum().as_secs_f64()),
        "s",
    );
    line("Total pages read", quantity::count(pages), "");

    let mut text = String::new();
    if let Some(reasons) = screen::invalid(result) {
        text.push_str(&reasons);
        text.push('\n');
    }
    text.push_str(&grid.render());
    text.push('\n');
    let notes = "1 Mbit is 1024 · 1024 bits of response headers and content. Little's Load Factor is the \
                 sum of response times over the test time, neither truncated to whole seconds as \
                 WebStone did.";
    text.push_str(&hanging("", notes, WIDTH));
    let level = "Error Level is 100 · errors / connections attempted, as in WebStone: with connections that \
                 carry many exchanges it can exceed 100 %.";
    text.push_str(&hanging("", level, WIDTH));
    text.push_str(&screen::remarks(result));
    text
}
