//! The waits of a loop: sleeping, busy-waiting before a planned instant, or delaying a wake-up so that several
//! responses are read together.

use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::poller::Poller;

use super::LoadError;
use super::activity::Activity;
use super::coalescing::Coalescing;
use super::context::Context;
use super::spin::WakeUps;

/// The longest wait, which is also the longest delay before a loop detects a stop.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The length from which waits are shortened, because the kernel may exceed a wait by a thousandth of its length. The
/// next wait is short enough to be exact.
const LONG_WAIT: Duration = Duration::from_millis(2);

/// The settings of busy-waiting before planned instants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spin {
    /// The limit in the options.
    pub(super) longest: Duration,
    /// `None` if the loop never busy-waits.
    pub(super) wake_ups: Option<WakeUps>,
}

/// The events for which a loop waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wake {
    /// The next planned instant: a timer or an arrival.
    pub(super) planned: Instant,
    /// The next instant at which the loop has work; not after `planned`.
    pub(super) at: Instant,
    /// Whether a connection has unread data, so that the loop must not wait.
    pub(super) has_unread: bool,
    /// The number of exchanges that have ended and the number in flight, if wake-ups may be delayed.
    pub(super) exchanges: Option<(u64, u64)>,
}

/// The sockets that were ready after a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken {
    pub(super) ready: usize,
    pub(super) was_delayed: bool,
}

/// Waits for sockets. The loop runs at each planned instant if the wake-up latency allows it, and never sleeps while
/// there is unread data.
pub(super) struct Waiting {
    spin: Spin,
    coalescing: Coalescing,
    pub(super) activity: Activity,
}

impl Waiting {
    /// Creates the state; wake-ups are delayed by at most `longest_delay`. Zero: no delays.
    pub(super) fn new(spin: Spin, longest_delay: Duration, activity: Activity) -> Waiting {
        Waiting {
            spin,
            coalescing: Coalescing::new(longest_delay),
            activity,
        }
    }

    /// Waits for sockets, until `wake` at the latest.
    pub(super) fn wait(
        &mut self,
        context: &mut Context<'_>,
        poller: &mut Poller,
        wake: &Wake,
    ) -> Result<Woken, LoadError> {
        let before = context.now();
        let wake_ups = self.spin.wake_ups.filter(|_| wake.at == wake.planned);
        let spin = wake_ups.map_or(Duration::ZERO, |wake_ups| {
            wake_ups.spin(self.spin.longest, context.shared.has_spare())
        });
        let mut wait = sleep_length(before, wake, spin);
        self.activity.waits(before);
        let delay = wake.exchanges.map_or(Duration::ZERO, |(ended, in_flight)| {
            self.coalescing.length(before, ended, in_flight)
        });
        let mut ready = 0;
        let mut was_delayed = false;
        if !delay.is_zero() && delay <= wait {
            ready = poller.wait(Some(Duration::ZERO))?;
            if ready == 0 {
                poller.sleep(delay);
                was_delayed = true;
                // After a delay, data has nearly always arrived. If not, the clock must be read again.
                ready = poller.wait(Some(Duration::ZERO))?;
                if ready == 0 {
                    context.tick();
                    wait = sleep_length(context.now(), wake, spin);
                }
            }
        }
        if ready > 0 {
            context.tick();
        } else if wait.is_zero() {
            ready = self.busy_wait(context, poller, wake)?;
        } else {
            ready = self.sleep(context, poller, wait)?;
        }
        self.activity.wakes(before, context.now(), was_delayed);
        Ok(Woken { ready, was_delayed })
    }

    /// Sleeps until sockets are ready, or for `wait`. Returns the number of ready sockets.
    fn sleep(
        &mut self,
        context: &mut Context<'_>,
        poller: &mut Poller,
        wait: Duration,
    ) -> Result<usize, LoadError> {
        let begin = context.now();
        let ready = match wait < LONG_WAIT {
            true => poller.wait(Some(wait))?,
            false => poller.wait_coarsely(begin, wait)?,
        };
        context.tick();
        let waited = context.now().since(begin);
        // The timer of an earlier, longer wait may end this wait early.
        if ready == 0
            && waited >= wait
            && wait < LONG_WAIT
            && let Some(wake_ups) = &mut self.spin.wake_ups
        {
            wake_ups.took(waited - wait);
        }
        Ok(ready)
    }

    /// Polls the sockets until some are ready, or until `wake`; polls only once if there is unread data.
    /// Returns the number of ready sockets.
    fn busy_wait(
        &mut self,
        context: &mut Context<'_>,
        poller: &mut Poller,
        wake: &Wake,
    ) -> Result<usize, LoadError> {
        let begin = context.now();
        loop {
            let ready = poller.wait(Some(Duration::ZERO))?;
            context.tick();
            if ready > 0 || context.now() >= wake.at || wake.has_unread {
                if begin < wake.at && !wake.has_unread {
                    self.activity.busy_waited(begin, context.now());
                }
                return Ok(ready);
            }
        }
    }

    /// Returns the ratio of the mean latencies with and without delays; `None` before the first comparison.
    pub(super) fn rest_latency_ratio(&self) -> Option<f64> {
        self.coalescing.latency_ratio()
    }

    /// Returns the median wake-up latency, if it is tracked.
    pub(super) fn wake_up_latency(&self) -> Option<Duration> {
        self.spin.wake_ups.map(|wake_ups| wake_ups.median())
    }
}

/// Returns the time to sleep, if the loop may busy-wait for the last `spin` before the instant.
fn sleep_length(now: Instant, wake: &Wake, spin: Duration) -> Duration {
    if wake.has_unread {
        return Duration::ZERO;
    }
    let wait = wake.at.since(now).min(LONGEST_WAIT);
    match wait < LONG_WAIT {
        true => wait.saturating_sub(spin),
        false => wait - wait / 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(5_000_000_000);

    fn wake(after: Duration) -> Wake {
        Wake {
            planned: NOW + after,
            at: NOW + after,
            has_unread: false,
            exchanges: None,
        }
    }

    #[test]
    fn a_sleep_ends_before_the_instant_by_the_time_that_is_spent_busy_waiting() {
        let micros = Duration::from_micros;
        let sleep = |after, spin| sleep_length(NOW, &wake(micros(after)), micros(spin));
        assert_eq!(sleep(500, 0), micros(500));
        assert_eq!(sleep(500, 60), micros(440));
        assert_eq!(sleep(50, 60), Duration::ZERO);
        // The second part of the wait, which is exact, contains the busy-wait.
        assert_eq!(sleep(2_560, 60), micros(2_550));
        assert_eq!(sleep(3_600_000_000, 0), LONGEST_WAIT - LONGEST_WAIT / 256);
    }

    #[test]
    fn there_is_no_sleep_where_there_is_something_to_read_or_to_do() {
        let unread = Wake {
            has_unread: true,
            ..wake(Duration::from_secs(1))
        };
        assert_eq!(sleep_length(NOW, &unread, Duration::ZERO), Duration::ZERO);
        let past = Wake {
            at: Instant::ZERO,
            ..wake(Duration::ZERO)
        };
        assert_eq!(sleep_length(NOW, &past, Duration::ZERO), Duration::ZERO);
    }
}
