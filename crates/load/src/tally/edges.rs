//! The windows of a test: warm-up, measured window, drain.

use std::time::Duration;

use fathometer_model::Instant;

use super::super::nanos::Nanos;

/// The edges of the windows, in chronological order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edges {
    pub(crate) start: Instant,
    /// The beginning of the measured window.
    pub(crate) measured: Instant,
    /// The end of the measured window; [`NEVER`](crate::timers::NEVER) if it is not known in advance.
    pub(crate) end: Instant,
}

/// The index of the measured window.
pub(super) const MEASURED: usize = 1;

impl Edges {
    /// Returns the index of the window that contains an instant: warm-up, measured, drain.
    pub(super) fn window(&self, at: Instant) -> usize {
        usize::from(at >= self.measured) + usize::from(at >= self.end)
    }

    /// Returns the part of a period in each window.
    pub(super) fn parts(&self, from: Instant, to: Instant) -> [Duration; 3] {
        let warm_up = Nanos::between(from, to.min(self.measured).max(from));
        let measured = self.measured_time(from, to);
        let drain = Nanos::between(from, to) - warm_up - measured;
        [warm_up, measured, drain].map(Duration::from)
    }

    /// Returns the part of a period in the measured window.
    pub(crate) fn measured_part(&self, from: Instant, to: Instant) -> Duration {
        self.measured_time(from, to).into()
    }

    fn measured_time(&self, from: Instant, to: Instant) -> Nanos {
        let from = from.max(self.measured);
        Nanos::between(from, to.min(self.end).max(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn edges(start: u64, measured: u64, end: u64) -> Edges {
        Edges {
            start: at(start),
            measured: at(measured),
            end: at(end),
        }
    }

    #[test]
    fn a_period_is_divided_among_the_windows() {
        let edges = edges(0, 10, 30);
        for (from, to, parts) in [
            (0, 40, [10, 20, 10]),
            (2, 7, [5, 0, 0]),
            (7, 12, [3, 2, 0]),
            (10, 30, [0, 20, 0]),
            (29, 31, [0, 1, 1]),
            (35, 35, [0, 0, 0]),
            (35, 39, [0, 0, 4]),
        ] {
            let parts = parts.map(Duration::from_nanos);
            assert_eq!(edges.parts(at(from), at(to)), parts, "{from} to {to}");
        }
    }

    #[test]
    fn an_instant_belongs_to_one_window() {
        let edges = edges(5, 10, 20);
        let windows = [5, 9, 10, 19, 20, 99].map(|nanos| edges.window(at(nanos)));
        assert_eq!(windows, [0, 0, 1, 1, 2, 2]);
        let measured = |from, to| edges.measured_part(at(from), at(to)).as_nanos();
        assert_eq!(measured(5, 12), 2);
        assert_eq!(measured(12, 25), 8);
        assert_eq!(measured(1, 9), 0);
    }
}
