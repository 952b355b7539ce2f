//! The only real clock of the program: `CLOCK_MONOTONIC`, counted from a run's origin.
//!
//! A [`Clock`] is only an origin: it is copied to every thread of a run, and all copies give the same time.
//! `CLOCK_MONOTONIC` is slewed by NTP but never stepped, and is the clock of timers.

use std::time::Duration;

use fathometer_model::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The number of attempts to read the offset of the two clocks.
const PAIRS: usize = 16;

/// The origin from which instants are counted, and the wall-clock time of that origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    origin: u64,
    realtime_at_origin: Duration,
}

impl Clock {
    /// Creates a clock whose origin is now.
    ///
    /// The wall-clock time of the origin is accurate to about the time between two clock readings, some tens of
    /// nanoseconds. The attempt with the shortest time between its readings is used.
    pub fn start() -> Clock {
        let mut best = u64::MAX;
        let mut offset = 0i128;
        for _ in 0..PAIRS {
            let before = nanoseconds(ClockId::Monotonic);
            let wall = nanoseconds(ClockId::Realtime);
            let after = nanoseconds(ClockId::Monotonic);
            let took = after - before;
            if took < best {
                best = took;
                offset = i128::from(wall) - i128::from(before + took / 2);
            }
        }
        let origin = nanoseconds(ClockId::Monotonic);
        let realtime = (i128::from(origin) + offset).max(0) as u64;
        Clock {
            origin,
            realtime_at_origin: Duration::from_nanos(realtime),
        }
    }

    /// Returns the current time.
    #[inline]
    pub fn now(self) -> Instant {
        Instant::from_nanos(nanoseconds(ClockId::Monotonic).saturating_sub(self.origin))
    }

    /// Returns the wall-clock time of an instant, since the Unix epoch, computed from the wall-clock time of the origin.
    /// Later steps of the wall clock have no effect.
    pub fn realtime_of(self, instant: Instant) -> Duration {
        self.realtime_at_origin + Duration::from_nanos(instant.as_nanos())
    }

    /// Returns the wall-clock time of the origin, since the Unix epoch, computed from the current wall clock. It differs
    /// from `realtime_of(Instant::ZERO)` by the steps of the wall clock since the origin.
    pub fn realtime_of_origin_now(self) -> Duration {
        let elapsed = Duration::from_nanos(self.now().as_nanos());
        Duration::from_nanos(nanoseconds(ClockId::Realtime)).saturating_sub(elapsed)
    }
}

/// Returns the time of the clock that the kernel uses for file time stamps, since the Unix epoch. It advances in ticks of
/// some milliseconds, and steps with the wall clock.
pub fn file_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::RealtimeCoarse))
}

/// Returns the CPU time used so far by the calling thread, user and system.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::ThreadCPUTime))
}

/// Returns the CPU time used so far by all threads of this process, user and system.
pub fn process_cpu_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::ProcessCPUTime))
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_one_origin_and_never_run_backwards() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let elsewhere = std::thread::spawn(move || clock.now()).join().unwrap();
        assert!(elsewhere >= last);
        assert!(clock.now() >= elsewhere);
    }

    #[test]
    fn the_wall_clock_agrees_with_the_system() {
        let clock = Clock::start();
        let before = std::time::SystemTime::now();
        let ours = clock.realtime_of(clock.now());
        let after = std::time::SystemTime::now();
        let epoch = std::time::UNIX_EPOCH;
        // A millisecond tolerates a slewing wall clock, but not a wrong formula.
        let slack = Duration::from_millis(1);
        assert!(ours + slack >= before.duration_since(epoch).unwrap());
        assert!(ours <= after.duration_since(epoch).unwrap() + slack);
        // The wall clock has not been stepped since.
        let stands = clock.realtime_of_origin_now();
        let started = clock.realtime_of(Instant::ZERO);
        assert!(stands.abs_diff(started) < Duration::from_secs(1));
        assert_eq!(
            clock.realtime_of(Instant::from_nanos(5)),
            clock.realtime_of(Instant::ZERO) + Duration::from_nanos(5)
        );
    }
}
