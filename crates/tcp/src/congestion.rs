//! The congestion window: slow start with HyStart, CUBIC, Reno.

use std::time::Duration;

use fathometer_model::Instant;

use crate::settings::Congestion;

/// The minimum window, in segments, for which HyStart is active.
const HYSTART_WINDOW: u64 = 16;
/// Acknowledgements with at most this time between them form a train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// The number of round-trip samples that HyStart needs in a round.
const SAMPLES: u32 = 8;
/// CUBIC's factor for the window after a loss (RFC 9438 section 4.6), as Linux rounds it.
const CUBIC_BETA: (u64, u64) = (717, 1024);
/// CUBIC's constant C, in segments per second cubed (RFC 9438 section 5).
const CUBIC_C: f64 = 0.4;

/// A congestion window, in segments.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    algorithm: Congestion,
    pub(crate) size: u64,
    pub(crate) threshold: u64,
    /// Segments acknowledged in congestion avoidance that have not enlarged the window yet.
    credit: u64,
    round: Round,
    cubic: Cubic,
}

/// HyStart's state for the current round trip.
#[derive(Debug, Clone)]
struct Round {
    end: u64,
    start: Instant,
    last: Instant,
    least: Option<Duration>,
    samples: u32,
    found: bool,
}

/// CUBIC's curve since the last loss.
#[derive(Debug, Clone, Default)]
struct Cubic {
    epoch: Option<Instant>,
    last_maximum: u64,
    origin: u64,
    /// The time until the curve reaches its origin, in seconds.
    inflection: f64,
    /// The window of Reno under the same conditions, and the acknowledged segments that have not enlarged it yet.
    reno: u64,
    reno_credit: u64,
    least_round_trip: Duration,
}

impl Window {
    pub(crate) fn new(algorithm: Congestion, initial: u32, now: Instant) -> Window {
        Window {
            algorithm,
            size: u64::from(initial.max(1)),
            threshold: u64::MAX >> 1,
            credit: 0,
            round: Round {
                end: 0,
                start: now,
                last: now,
                least: None,
                samples: 0,
                found: false,
            },
            cubic: Cubic::default(),
        }
    }

    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Records a round-trip sample. `next` is the next sequence number to be sent.
    pub(crate) fn sample(&mut self, sample: Duration, acknowledged: u64, next: u64, now: Instant) {
        if self.algorithm != Congestion::Cubic {
            return;
        }
        let least = &mut self.cubic.least_round_trip;
        if least.is_zero() || sample < *least {
            *least = sample;
        }
        let least = *least;
        if self.round.found || !self.is_in_slow_start() || self.size < HYSTART_WINDOW {
            return;
        }
        self.begin_round(acknowledged, next, now);
        let round = &mut self.round;
        if now.since(round.last) <= TRAIN_GAP {
            round.last = now;
            // Half of the shortest round-trip time, after adding 1 ms for acknowledgements that the host coalesces.
            if now.since(round.start) > (least + Duration::from_millis(1)) / 2 {
                round.found = true;
            }
        }
        round.least = Some(round.least.map_or(sample, |least| least.min(sample)));
        if round.samples < SAMPLES {
            round.samples += 1;
        } else {
            let tolerance = (least / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
            round.found |= round.least.is_some_and(|now| now > least + tolerance);
        }
        if round.found {
            self.threshold = self.size;
        }
    }

    fn begin_round(&mut self, acknowledged: u64, next: u64, now: Instant) {
        let round = &mut self.round;
        if acknowledged > round.end {
            round.start = now;
            round.last = now;
            round.end = next;
            round.least = None;
            round.samples = 0;
        }
    }

    /// Grows the window for newly acknowledged segments. The caller has checked that the window was used.
    pub(crate) fn grow(&mut self, mut segments: u64, now: Instant) {
        if self.is_in_slow_start() {
            let step = segments.min(self.threshold - self.size);
            self.size += step;
            segments -= step;
        }
        if segments == 0 {
            return;
        }
        let per_step = match self.algorithm {
            Congestion::Reno => self.size,
            Congestion::Cubic => self.cubic.segments_per_step(self.size, segments, now),
        };
        self.credit += segments;
        while self.credit >= per_step.max(1) {
            self.credit -= per_step.max(1);
            self.size += 1;
        }
    }

    /// Returns the slow-start threshold after a loss. CUBIC also records the current window as its last maximum.
    pub(crate) fn reduced(&mut self) -> u64 {
        match self.algorithm {
            Congestion::Reno => (self.size / 2).max(2),
            Congestion::Cubic => {
                let (part, whole) = CUBIC_BETA;
                self.cubic.epoch = None;
                // Fast convergence (RFC 9438 section 4.7).
                self.cubic.last_maximum = match self.size < self.cubic.last_maximum {
                    true => self.size * (whole + part) / (2 * whole),
                    false => self.size,
                };
                (self.size * part / whole).max(2)
            }
        }
    }

    /// Reduces the window after idle time: halves it for each elapsed time-out, down to the initial window.
    pub(crate) fn restart(&mut self, idle: Duration, timeout: Duration, initial: u32) {
        let least = self.size.min(u64::from(initial));
        self.threshold = self.threshold.max(self.size * 3 / 4);
        let mut left = idle;
        while let Some(rest) = left.checked_sub(timeout).filter(|rest| !rest.is_zero()) {
            if self.size <= least {
                break;
            }
            self.size >>= 1;
            left = rest;
        }
        self.size = self.size.max(least);
    }

    /// Resets CUBIC's curve and HyStart's round, after a time-out.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.cubic = Cubic::default();
        self.round.found = false;
        self.round.samples = 0;
        self.round.least = None;
        self.round.start = now;
        self.round.last = now;
    }
}

impl Cubic {
    /// Returns the number of acknowledged segments that enlarge the window by one.
    fn segments_per_step(&mut self, window: u64, segments: u64, now: Instant) -> u64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.reno = window;
            self.reno_credit = 0;
            self.origin = window.max(self.last_maximum);
            self.inflection = ((self.origin - window) as f64 / CUBIC_C).cbrt();
            now
        });
        let time = (now.since(epoch) + self.least_round_trip).as_secs_f64() - self.inflection;
        let target = self.origin as f64 + CUBIC_C * time * time * time;
        let mut count = match target > window as f64 {
            true => window as f64 / (target - window as f64),
            false => 100.0 * window as f64,
        };
        if self.last_maximum == 0 {
            count = count.min(20.0);
        }
        // The Reno-friendly region (RFC 9438 section 4.3).
        self.reno_credit += segments;
        let (part, whole) = CUBIC_BETA;
        let step = (window * (whole + part) / 3 / (whole - part)).max(1);
        while self.reno_credit > step {
            self.reno_credit -= step;
            self.reno += 1;
        }
        if self.reno > window {
            count = count.min(window as f64 / (self.reno - window) as f64);
        }
        count.max(2.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn slow_start_grows_by_what_is_acknowledged() {
        let mut window = Window::new(Congestion::Cubic, 10, Instant::ZERO);
        window.grow(10, ms(90));
        assert_eq!(window.size, 20);
    }

    #[test]
    fn a_round_whose_least_delay_rises_ends_slow_start() {
        let mut window = Window::new(Congestion::Cubic, 20, Instant::ZERO);
        window.sample(Duration::from_millis(90), 1, 1, ms(90));
        for n in 0..9 {
            window.sample(Duration::from_millis(110), 2 + n, 50, ms(200 + 3 * n));
        }
        assert_eq!(window.threshold, 20);
    }

    #[test]
    fn a_loss_leaves_seven_tenths_of_the_window_and_the_curve_returns_to_it() {
        let mut window = Window::new(Congestion::Cubic, 100, Instant::ZERO);
        window.threshold = window.reduced();
        window.size = window.threshold;
        assert_eq!(window.size, 70);
        let mut now = Instant::ZERO;
        // RFC 9438: the time to the old window is the cube root of 30 / 0.4, 4.2 s.
        while window.size < 100 {
            now += Duration::from_millis(100);
            window.grow(window.size, now);
            assert!(now < ms(6000));
        }
        assert!(now > ms(3000), "{now:?}");
    }
}
