//! The wall clock, which may be stepped while a server runs.
//!
//! State machines count time from an origin, on a clock that is never stepped. `Date`, `Expires` and the access log use
//! the wall clock. An active loop compares the two clocks every 100 ms.

use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_model::Instant;
use fathometer_sys::Clock;

use super::access_log::AccessLog;

/// The time between two comparisons of the clocks by an active loop.
const EVERY: Duration = Duration::from_millis(100);

/// A smaller difference is not a step, because the two clocks are not read at the same moment.
const STEP: Duration = Duration::from_millis(10);

/// The wall clock at the last comparison.
#[derive(Debug)]
pub(crate) struct WallClock {
    clock: Clock,
    next: Instant,
    /// Time since the Unix epoch at the origin of the monotonic clock.
    at_zero: Duration,
}

impl WallClock {
    pub fn new(clock: Clock) -> WallClock {
        WallClock {
            clock,
            next: Instant::ZERO,
            at_zero: clock.realtime_of(Instant::ZERO),
        }
    }

    /// Adjusts the dates and log entries of a loop to the wall clock. Call it before the loop handles its
    /// events.
    pub fn follow(&mut self, now: Instant, origin: &Origin, log: Option<&mut AccessLog>) {
        if now >= self.next {
            self.next = now + EVERY;
            self.set(self.clock.realtime_of_origin_now(), origin, log);
        }
    }

    fn set(&mut self, at_zero: Duration, origin: &Origin, log: Option<&mut AccessLog>) {
        if at_zero.abs_diff(self.at_zero) < STEP {
            return;
        }
        self.at_zero = at_zero;
        origin.set_wall_clock(at_zero);
        if let Some(log) = log {
            log.set_wall_clock(at_zero);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fathometer_http::h1::server::{RequestText, Served};
    use fathometer_http::origin::{Method, OriginConfig};
    use fathometer_model::{Bytes, Site};

    use super::*;
    use crate::{LogFile, LogFormat};

    #[test]
    fn steps_reach_dates_and_the_log() {
        let clock = Clock::start();
        let started = clock.realtime_of(Instant::ZERO);
        let nothing = Site {
            name: String::new(),
            files: Vec::new(),
            pages: Vec::new(),
        };
        let config = OriginConfig {
            wall_clock: started,
            ..OriginConfig::default()
        };
        let origin = Origin::new(Arc::new(nothing), config).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = LogFile::open(&path, LogFormat::Common).unwrap();
        let mut log = AccessLog::new(Arc::new(file), clock);
        let mut wall = WallClock::new(clock);
        let served = Served {
            method: Method::Get,
            file: None,
            target_hash: 0,
            status: 200,
            request_head: Bytes(0),
            request_body: Bytes(0),
            head: Bytes(0),
            body: Bytes(0),
            received: Instant::ZERO,
            at: Instant::ZERO,
        };
        let hours = |count: u64| Duration::from_secs(count * 3600);
        let mut times = Vec::new();
        for at_zero in [started, started + hours(2), started - hours(3), started] {
            wall.set(at_zero, &origin, Some(&mut log));
            assert_eq!(origin.wall_clock(Instant::ZERO), at_zero.as_secs());
            let peer = "127.0.0.1:1".parse().unwrap();
            log.note(peer, &served, &RequestText::default(), None);
            log.flush();
            let text = std::fs::read_to_string(&path).unwrap();
            let line = text.lines().last().unwrap();
            times.push(line.split(['[', ']']).nth(1).unwrap().to_owned());
        }
        let expected: Vec<String> = [started, started + hours(2), started - hours(3), started]
            .iter()
            .map(|time| {
                let date = fathometer_http::origin::date::format_date(time.as_secs());
                String::from_utf8(date[17..25].to_vec()).unwrap()
            })
            .collect();
        for (time, expected) in times.iter().zip(expected) {
            assert!(time.contains(&format!(":{expected} ")), "{time} {expected}");
        }
        // A difference below `STEP` does not change the time; otherwise the logged second could go backwards.
        wall.set(started + STEP / 2, &origin, None);
        assert_eq!(wall.at_zero, started);
        // The system's own clock, which is not stepped here.
        wall.follow(clock.now(), &origin, None);
        assert!(wall.at_zero.abs_diff(started) < Duration::from_secs(1));
    }
}
