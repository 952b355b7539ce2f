//! The time that a loop may busy-wait before a planned instant.
//!
//! A sleeping thread runs again one wake-up latency after the instant of its timer: 2 µs on bare metal, 15 µs on a
//! virtual machine whose processor the hypervisor has to start. So a loop wakes one median wake-up latency before the
//! planned instant, and busy-waits for the remaining time. It never busy-waits for longer than this latency: a sleep
//! uses about as much CPU time, so a longer busy-wait would use more than sleeping. The latency is measured before the
//! test and tracked during it ([`WakeUps`]).
//!
//! A loop that busy-waits occupies a processor that a server on the same machine may need. A loop cannot detect this
//! itself, so [`Spare`] reads the kernel's figures for all threads of the machine every [`PERIOD`]. If threads have
//! waited for a processor, no loop busy-waits for one second. This pause doubles each time that threads have waited
//! again. No loop busy-waits before the first reading, or if there are as many loops as processors. If the kernel has
//! no such figures, the number of runnable threads is compared with the number of processors.

use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_sys::machine::Contention;
use fathometer_sys::poller::Poller;

use super::LoadError;

/// The number of sleeps that measure the wake-up latency before a test, and the length of each.
const SLEEPS: usize = 32;
const SLEEP: Duration = Duration::from_micros(50);

/// The step of the estimate: the estimate divided by the first number, but at least the second value.
const STEP: (u32, Duration) = (32, Duration::from_nanos(50));

/// The time between two readings of contention.
pub(super) const PERIOD: Duration = Duration::from_millis(50);

/// The maximum share of a period for which threads may have waited for a processor; above it, processors are short.
const SHORT: f64 = 0.05;

/// The time without busy-waiting after processors were short: the initial value and the maximum.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

/// The median wake-up latency of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WakeUps {
    median: Duration,
}

impl WakeUps {
    /// Measures the wake-up latency with short sleeps of the calling thread, about 2 ms in total.
    pub(super) fn measure(clock: Clock) -> Result<WakeUps, LoadError> {
        let mut poller = Poller::new(1)?;
        let mut latencies = Vec::with_capacity(SLEEPS);
        for _ in 0..SLEEPS {
            let before = clock.now();
            poller.wait(Some(SLEEP))?;
            let latency = clock.now().since(before).saturating_sub(SLEEP);
            latencies.push(latency);
        }
        Ok(WakeUps::of(latencies))
    }

    fn of(mut latencies: Vec<Duration>) -> WakeUps {
        latencies.sort_unstable();
        let middle = latencies.get(latencies.len() / 2);
        WakeUps {
            median: middle.copied().unwrap_or(Duration::ZERO),
        }
    }

    /// Records that a sleep was `latency` too long. The estimate moves one step towards `latency`, and so converges to
    /// the median of recent sleeps. An outlier has no more weight than any other sleep.
    pub(super) fn took(&mut self, latency: Duration) {
        let step = (self.median / STEP.0).max(STEP.1);
        self.median = match latency > self.median {
            true => self.median + step.min(latency - self.median),
            false => self.median - step.min(self.median - latency),
        };
    }

    pub(super) fn median(&self) -> Duration {
        self.median
    }

    /// Returns the time before a planned instant at which the loop stops sleeping; `longest` is the limit in the
    /// options.
    pub(super) fn spin(&self, longest: Duration, has_spare: bool) -> Duration {
        match has_spare {
            true => self.median.min(longest),
            false => Duration::ZERO,
        }
    }
}

/// Determines whether the machine has an unused processor for busy-waiting.
#[derive(Debug)]
pub(super) struct Spare {
    processors: usize,
    loops: usize,
    /// The last reading, and its instant.
    last: Option<(Instant, Contention)>,
    /// No loop busy-waits before this instant.
    until: Instant,
    pause: Duration,
}

impl Spare {
    pub(super) fn new(processors: usize, loops: usize) -> Spare {
        Spare {
            processors,
            loops,
            last: None,
            until: Instant::ZERO,
            pause: PAUSE.0,
        }
    }

    /// Returns whether the next reading is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|(at, _)| now.since(at) >= PERIOD)
    }

    /// Takes a reading and returns whether loops may busy-wait until the next reading.
    pub(super) fn read(&mut self, now: Instant, reading: Option<Contention>) -> bool {
        let before = self.last;
        self.last = reading.map(|reading| (now, reading));
        let is_short = match (before, reading) {
            (_, None) => return false,
            (Some((at, Contention::Waited(then))), Some(Contention::Waited(waited))) => {
                let period = now.since(at).as_secs_f64();
                waited.saturating_sub(then).as_secs_f64() > SHORT * period
            }
            (_, Some(Contention::Runnable(threads))) => threads as usize > self.processors,
            // The kernel reports a running total, so a rate needs two readings.
            (_, Some(Contention::Waited(_))) => return false,
        };
        if is_short {
            self.pause = match self.until {
                Instant::ZERO => PAUSE.0,
                until if now >= until + self.pause => PAUSE.0,
                // Processors were short again as soon as busy-waiting was resumed.
                until if now >= until => (self.pause * 2).min(PAUSE.1),
                _ => self.pause,
            };
            self.until = now + self.pause;
        }
        now >= self.until && self.loops < self.processors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn waited(millis: u64) -> Option<Contention> {
        Some(Contention::Waited(Duration::from_millis(millis)))
    }

    #[test]
    fn a_loop_busy_waits_for_the_median_wake_up_latency_and_not_longer() {
        let micros = Duration::from_micros;
        let mut latencies = vec![micros(14); 31];
        latencies.push(micros(4_000));
        let wake_ups = WakeUps::of(latencies);
        assert_eq!(wake_ups.spin(micros(50), true), micros(14));
        assert_eq!(wake_ups.spin(micros(5), true), micros(5));
        assert_eq!(wake_ups.spin(micros(50), false), Duration::ZERO);
        assert_eq!(wake_ups.spin(Duration::ZERO, true), Duration::ZERO);
        assert_eq!(WakeUps::of(Vec::new()).median(), Duration::ZERO);
    }

    #[test]
    fn the_estimate_follows_the_median_and_no_single_sleep() {
        let nanos = Duration::from_nanos;
        let mut wake_ups = WakeUps::of(vec![nanos(40_000)]);
        // Three of four sleeps are at most 3.5 µs too long; every fourth is 1 ms too long.
        for number in 0..2000 {
            wake_ups.took(match number % 4 {
                0 => nanos(1_000_000),
                odd => nanos(2_000 + odd * 500),
            });
        }
        let median = wake_ups.median().as_nanos();
        assert!((2_400..4_000).contains(&median), "{median}");
        // The machine becomes slower.
        for _ in 0..2000 {
            wake_ups.took(nanos(30_000));
        }
        assert_eq!(wake_ups.median(), Duration::from_micros(30));
        for _ in 0..2000 {
            wake_ups.took(Duration::ZERO);
        }
        assert_eq!(wake_ups.median(), Duration::ZERO);
    }

    #[test]
    fn no_loop_busy_waits_before_the_machine_had_a_processor_to_spare() {
        let mut spare = Spare::new(2, 1);
        assert!(spare.is_due(millis(10)));
        assert!(!spare.read(millis(10), waited(5_000)));
        assert!(!spare.is_due(millis(50)));
        assert!(spare.is_due(millis(60)));
        assert!(spare.read(millis(60), waited(5_001)));
        // There is no busy-waiting if the kernel has no figures, or if there are as many loops as processors.
        assert!(!Spare::new(2, 1).read(millis(10), None));
        let mut full = Spare::new(2, 2);
        full.read(millis(10), waited(0));
        assert!(!full.read(millis(60), waited(0)));
    }

    #[test]
    fn where_threads_wait_for_a_processor_no_loop_busy_waits_for_a_time_that_doubles() {
        let mut spare = Spare::new(2, 1);
        let mut total = 0;
        // The server needs both processors: while a loop busy-waits, the server waits for a quarter of that time.
        let mut spinning = 0;
        let mut may = false;
        for step in 0..2400 {
            if may {
                total += 12;
                spinning += 1;
            }
            may = spare.read(millis(50 * step), waited(total));
        }
        // In two minutes, busy-waiting is retried for one period after 1, 2, 4, 8, 16, 16 … seconds.
        assert!((7..=12).contains(&spinning), "{spinning}");
        // The server has stopped: busy-waiting begins again and is not stopped.
        let begin = 50 * 2400;
        let free = (0..2000).filter(|step| spare.read(millis(begin + 50 * step), waited(total)));
        assert!(free.count() > 2000 - 16 * 20 - 2);
    }

    #[test]
    fn without_pressure_the_threads_that_are_runnable_are_compared_with_the_processors() {
        let mut spare = Spare::new(2, 1);
        assert!(spare.read(millis(0), Some(Contention::Runnable(2))));
        assert!(!spare.read(millis(50), Some(Contention::Runnable(3))));
        assert!(!spare.read(millis(900), Some(Contention::Runnable(1))));
        assert!(spare.read(millis(1100), Some(Contention::Runnable(1))));
    }
}
