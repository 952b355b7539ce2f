//! The state that all parts of a loop share: the plan, the time, the timers and the tally.

use fathometer_model::Instant;
use fathometer_sys::Clock;

use super::exchange::Exchange;
use super::shared::Shared;
use super::tally::Tally;
use super::timers::{Timer, Timers};

/// The state that all parts of a loop share.
///
/// The time changes only in [`Context::tick`], so all effects of one event have the same instant.
pub(super) struct Context<'a> {
    pub(super) shared: &'a Shared,
    pub(super) timers: Timers,
    pub(super) tally: Tally,
    clock: Clock,
    now: Instant,
}

impl<'a> Context<'a> {
    pub(super) fn new(shared: &'a Shared, clock: Clock, tally: Tally) -> Context<'a> {
        Context {
            shared,
            timers: Timers::default(),
            tally,
            clock,
            now: Instant::ZERO,
        }
    }

    /// Reads the clock.
    pub(super) fn tick(&mut self) {
        self.now = self.clock.now();
    }

    /// Returns the last reading of the clock.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Reads the clock once, without changing [`Context::now`].
    pub(super) fn exact_time(&self) -> Instant {
        self.clock.now()
    }

    /// Removes and returns the next timer that is due.
    pub(super) fn due_timer(&mut self) -> Option<(Instant, Timer)> {
        self.timers.due(self.now)
    }

    /// Returns whether no further requests are planned.
    pub(super) fn is_planned_out(&self) -> bool {
        self.now >= self.tally.edges().end
            || self.shared.is_planned_out()
            || self.shared.is_stopped()
    }

    /// Returns the instant at which an exchange times out, in any state.
    pub(super) fn overdue_at(&self, exchange: &Exchange) -> Instant {
        exchange.overdue_at(self.shared.limits.timeout)
    }

    /// Returns whether an exchange has timed out.
    pub(super) fn is_overdue(&self, exchange: &Exchange) -> bool {
        exchange.is_overdue(self.now, self.shared.limits.timeout)
    }
}
