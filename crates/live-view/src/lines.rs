//! Progress without a terminal: a plain line from time to time.

use std::fmt::Write as _;
use std::time::Duration;

use super::history::Point;
use super::{Phase, State, text};

/// The shortest and the longest time between two lines. Lines are frequent at first, when a user watches, and rare in a
/// long test.
const MIN_INTERVAL: Duration = Duration::from_secs(2);
const MAX_INTERVAL: Duration = Duration::from_secs(30);

/// The lines to print next.
#[derive(Debug)]
pub(super) struct Lines {
    /// The intervals since the last line, merged.
    since: Option<Point>,
    printed_at: Duration,
    phase: Phase,
    warned: usize,
}

impl Lines {
    pub(super) fn new() -> Lines {
        Lines {
            since: None,
            printed_at: Duration::ZERO,
            phase: Phase::WarmUp,
            warned: 0,
        }
    }

    /// Returns the lines to print now, each with its line end; usually none. A line covers the time since the previous
    /// line: the rate over that time, the largest value of each percentile in any interval, and all errors since the
    /// start.
    pub(super) fn update(&mut self, state: &State) -> String {
        let mut printed = String::new();
        let Some(last) = &state.last else {
            return printed;
        };
        let point = Point::from(last);
        match &mut self.since {
            Some(since) => since.extend(&point),
            None => self.since = Some(point),
        }
        let due = (self.printed_at / 10).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let due = state.elapsed >= self.printed_at + due || state.phase != self.phase;
        if let (true, Some(since)) = (due, self.since.take_if(|_| due)) {
            self.printed_at = state.elapsed;
            self.phase = state.phase;
            let [median, _, p99, _] = since.latency.map(text::maybe);
            let offered = match state.outline.open_loop {
                true => format!(" of {}", text::rate(since.offered())),
                false => String::new(),
            };
            let errors = text::count(state.so_far.errors());
            // Writing to a String does not fail.
            let _ = writeln!(
                printed,
                "{}  {}  {}{offered}  p50 {median}  p99 {p99}  errors {errors}",
                text::clock(state.elapsed),
                state.phase.name(),
                text::rate(since.achieved()),
            );
        }
        for warning in state.warnings.iter().skip(self.warned) {
            let _ = writeln!(printed, "INVALID: {warning}");
        }
        self.warned = self.warned.max(state.warnings.len());
        printed
    }
}
