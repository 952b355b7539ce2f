//! How a loop spends its time: the time spent waiting, and the CPU time used.

use std::time::Duration;

use fathometer_analysis::load::WorkerHealth;
use fathometer_model::Instant;
use fathometer_sys::usage::ProcessorTime;

use super::tally::Edges;

/// The time of a loop within the measured window.
///
/// A loop alternates between waiting and working. Delays and busy-waits are included in the time spent waiting.
#[derive(Debug)]
pub(super) struct Activity {
    edges: Edges,
    /// The time at which the last wait ended.
    woken: Instant,
    waited: Duration,
    /// The part of `waited` in which the wake-up was delayed.
    delayed: Duration,
    /// The part of `waited` spent busy-waiting for planned instants.
    busy_waited: Duration,
    longest_turn: Duration,
    /// The CPU time at the beginning and at the end of the measured window.
    begin: Option<ProcessorTime>,
    end: Option<ProcessorTime>,
}

impl Activity {
    /// Creates an empty record; the test begins with the first edge.
    pub(super) fn new(edges: Edges) -> Activity {
        Activity {
            edges,
            woken: edges.start,
            waited: Duration::ZERO,
            delayed: Duration::ZERO,
            busy_waited: Duration::ZERO,
            longest_turn: Duration::ZERO,
            begin: None,
            end: None,
        }
    }

    /// Records that a wait begins.
    pub(super) fn waits(&mut self, now: Instant) {
        let turn = self.edges.measured_part(self.woken, now);
        self.longest_turn = self.longest_turn.max(turn);
    }

    /// Records a busy-wait, which is part of a wait.
    pub(super) fn busy_waited(&mut self, from: Instant, to: Instant) {
        self.busy_waited += self.edges.measured_part(from, to);
    }

    /// Records the end of a wait. `is_delay`: the wake-up was delayed.
    pub(super) fn wakes(&mut self, began: Instant, now: Instant, is_delay: bool) {
        let part = self.edges.measured_part(began, now);
        self.waited += part;
        if is_delay {
            self.delayed += part;
        }
        self.woken = now;
    }

    /// Returns the edge of the measured window that has passed since the last call, if any. The CPU time is read at
    /// each edge.
    pub(super) fn passed_edge(
        &mut self,
        now: Instant,
        processor_time: impl Fn() -> ProcessorTime,
    ) -> Option<Instant> {
        let mut passed = None;
        for (at, reading) in [
            (self.edges.measured, &mut self.begin),
            (self.edges.end, &mut self.end),
        ] {
            if reading.is_none() && now >= at {
                *reading = Some(processor_time());
                passed = Some(at);
            }
        }
        passed
    }

    /// Returns the CPU time within the window, once the loop has finished at `now`.
    pub(super) fn processor(
        &mut self,
        now: Instant,
        processor_time: impl Fn() -> ProcessorTime,
    ) -> ProcessorTime {
        self.passed_edge(now, &processor_time);
        let end = self.end.unwrap_or_else(processor_time);
        self.begin
            .map_or_else(ProcessorTime::default, |begin| end.since(begin))
    }

    /// Computes the health of the loop, for a window of this length.
    pub(super) fn health(
        &self,
        measured: Duration,
        rest_latency_ratio: Option<f64>,
        wake_up_latency: Option<Duration>,
    ) -> WorkerHealth {
        let share = |time: Duration| time.as_nanos() as f64 / measured.as_nanos().max(1) as f64;
        WorkerHealth {
            busy: (1.0 - share(self.waited)).clamp(0.0, 1.0),
            longest_turn: self.longest_turn,
            rested: share(self.delayed).min(1.0),
            rest_latency_ratio,
            busy_waited: self.busy_waited,
            wake_up_latency,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Creates a measured window from 100 to 200.
    fn activity() -> Activity {
        Activity::new(Edges {
            start: at(50),
            measured: at(100),
            end: at(200),
        })
    }

    #[test]
    fn only_the_time_within_the_measured_window_counts() {
        let mut activity = activity();
        for (waits, wakes, is_delay) in [(60, 120, false), (130, 150, true), (190, 260, false)] {
            activity.waits(at(waits));
            activity.busy_waited(at(waits), at(wakes - 5));
            activity.wakes(at(waits), at(wakes), is_delay);
        }
        let health = activity.health(Duration::from_nanos(100), Some(1.5), None);
        assert!((health.busy - 0.5).abs() < 1e-9, "{health:?}");
        assert!((health.rested - 0.2).abs() < 1e-9, "{health:?}");
        assert_eq!(health.busy_waited, Duration::from_nanos(15 + 15 + 10));
        assert_eq!(health.longest_turn, Duration::from_nanos(40));
        assert_eq!(health.rest_latency_ratio, Some(1.5));
    }

    #[test]
    fn a_loop_that_has_nothing_left_to_do_waits_until_the_end() {
        let mut activity = activity();
        // This loop finishes at 120; the last loop of the test finishes at 180.
        activity.waits(at(120));
        activity.wakes(at(120), at(180), false);
        let health = activity.health(Duration::from_nanos(80), None, None);
        assert!((health.busy - 0.25).abs() < 1e-9, "{health:?}");
        // The last loop finishes when the test ends.
        activity.wakes(at(180), at(180), false);
        assert_eq!(
            activity.health(Duration::from_nanos(80), None, None),
            health
        );
    }

    #[test]
    fn processor_time_is_read_at_the_edges_of_the_window() {
        let user = Cell::new(0);
        let read = || {
            user.set(user.get() + 7);
            ProcessorTime {
                user: Duration::from_nanos(user.get()),
                system: Duration::ZERO,
            }
        };
        let mut activity = activity();
        assert_eq!(activity.passed_edge(at(99), read), None);
        assert_eq!(activity.passed_edge(at(100), read), Some(at(100)));
        assert_eq!(activity.passed_edge(at(150), read), None);
        assert_eq!(activity.passed_edge(at(210), read), Some(at(200)));
        assert_eq!(
            activity.processor(at(300), read).user,
            Duration::from_nanos(7)
        );
        assert_eq!(user.get(), 14);
    }

    #[test]
    fn a_test_that_ends_early_has_the_processor_time_until_then() {
        let reading = |nanos| ProcessorTime {
            user: Duration::from_nanos(nanos),
            system: Duration::ZERO,
        };
        let mut before = activity();
        assert_eq!(before.processor(at(60), || reading(5)).user, Duration::ZERO);
        let mut within = activity();
        within.passed_edge(at(100), || reading(5));
        let user = within.processor(at(150), || reading(9)).user;
        assert_eq!(user, Duration::from_nanos(4));
    }
}
