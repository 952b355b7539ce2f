//! The arrivals of an open loop: the instants at which sessions begin.
//!
//! [`Arrivals`] combines a rate over time ([`Profile`]) and a process that converts the rate into instants. Arrival *i*
//! depends only on rate, process and *i*. A load engine therefore executes the same plan with any number of threads,
//! and can compute the planned instant of each arrival. This module never waits.
//!
//! With N(t) the integral of the rate, the constant process places arrival *i* where N(t) = i. The Poisson process
//! places it where N(t) is the sum of i + 1 exponential random numbers with mean 1. This time change converts a Poisson
//! process of rate 1 into a Poisson process of any rate (Çinlar, "Introduction to Stochastic Processes", 1975, section
//! 4.7).
//!
//! Arrivals may come in batches of a fixed size; all arrivals of a batch come at the same instant
//! ([`Arrivals::in_batches`]). A batch has the instant of its first arrival, so the mean rate remains the rate of the
//! profile. The Poisson process sets the times between batches (a compound Poisson process with batches of fixed size).

mod rate_text;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Seed;

use crate::distribution::Law;

pub use rate_text::RateTextError;

/// A rate over time, in arrivals per second: pieces with a linear change of the rate, then a constant rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pieces: Vec<Piece>,
    /// The rate after the last piece.
    last: f64,
}

/// An interval in which a rate changes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// The length of the piece.
    pub length: Duration,
    /// The rate at the start of the piece, per second.
    pub from: f64,
    /// The rate at the end of the piece, per second.
    pub to: f64,
}

/// The reason why a profile is not valid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a rate of {0} per second is not valid: it must be finite and not negative")]
pub struct RateError(pub f64);

impl Profile {
    /// Creates a constant rate.
    pub fn constant(rate: f64) -> Result<Profile, RateError> {
        Profile::new(Vec::new(), rate)
    }

    /// Creates a profile of the pieces in sequence, then the rate `last` without end.
    pub fn new(pieces: Vec<Piece>, last: f64) -> Result<Profile, RateError> {
        let rates = pieces.iter().flat_map(|piece| [piece.from, piece.to]);
        match rates
            .chain([last])
            .find(|&rate| !(rate.is_finite() && rate >= 0.0))
        {
            Some(rate) => Err(RateError(rate)),
            None => Ok(Profile { pieces, last }),
        }
    }

    /// Creates a ramp from `from` to `to` within `length`, then `to` without end.
    pub fn ramp(from: f64, to: f64, length: Duration) -> Result<Profile, RateError> {
        Profile::new(vec![Piece { length, from, to }], to)
    }

    /// Creates a profile with each rate for its duration, the last rate without end. If there are no steps, the rate is
    /// zero.
    pub fn steps(steps: &[(f64, Duration)]) -> Result<Profile, RateError> {
        let last = steps.last().map_or(0.0, |&(rate, _)| rate);
        let piece = |&(rate, length)| Piece {
            length,
            from: rate,
            to: rate,
        };
        Profile::new(steps.iter().map(piece).collect(), last)
    }

    /// Returns the rate at a time.
    pub fn rate(&self, at: Duration) -> f64 {
        let mut start = Duration::ZERO;
        for piece in &self.pieces {
            if at < start + piece.length {
                let part = (at - start).as_secs_f64() / piece.length.as_secs_f64();
                return piece.from + (piece.to - piece.from) * part;
            }
            start += piece.length;
        }
        self.last
    }

    /// Returns the expected number of arrivals until a time: the integral of the rate.
    pub fn expected(&self, until: Duration) -> f64 {
        let mut left = until.as_secs_f64();
        let mut sum = 0.0;
        for piece in &self.pieces {
            let length = piece.length.as_secs_f64();
            if left < length {
                return sum + piece.from * left + piece.slope() * left * left / 2.0;
            }
            sum += piece.expected();
            left -= length;
        }
        sum + self.last * left
    }

    /// Returns the first time, in seconds, at which the expected number of arrivals reaches `count`. `None` if this
    /// number is never reached.
    pub fn time_of(&self, count: f64) -> Option<f64> {
        let mut left = count;
        let mut start = 0.0;
        for piece in &self.pieces {
            let expected = piece.expected();
            // An arrival at the end of a piece belongs to this piece. If it belonged to the next piece, a rate of zero
            // there would delay it.
            if left <= expected && expected > 0.0 {
                return Some(start + piece.time_of(left));
            }
            left -= expected;
            start += piece.length.as_secs_f64();
        }
        (self.last > 0.0).then(|| start + left.max(0.0) / self.last)
    }
}

impl Piece {
    fn slope(&self) -> f64 {
        (self.to - self.from) / self.length.as_secs_f64()
    }

    fn expected(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.length.as_secs_f64()
    }

    /// Returns the time within the piece at which the expected number of arrivals reaches `count`, which is at most the
    /// expected number of the piece.
    fn time_of(&self, count: f64) -> f64 {
        if count <= 0.0 {
            return 0.0;
        }
        // The root of from t + slope t^2 / 2 = count, in a form that is also precise for a small slope.
        let root = (self.from * self.from + 2.0 * self.slope() * count).max(0.0);
        let time = 2.0 * count / (self.from + root.sqrt());
        time.min(self.length.as_secs_f64())
    }
}

/// Prints, for example, `1000/s` and `0/s to 500/s in 10 s, then 500/s`.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            let seconds = piece.length.as_secs_f64();
            match piece.from == piece.to {
                true => write!(f, "{}/s for {seconds} s, then ", piece.from)?,
                false => write!(
                    f,
                    "{}/s to {}/s in {seconds} s, then ",
                    piece.from, piece.to
                )?,
            }
        }
        write!(f, "{}/s", self.last)
    }
}

/// The process that converts a rate into instants.
#[derive(Debug, Clone, PartialEq)]
enum Process {
    Constant(Profile),
    Poisson(Profile, Seed),
    Recorded(Arc<[Duration]>, f64),
}

/// The arrivals of an open loop: the instants at which sessions begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    process: Process,
    /// The number of arrivals at each instant.
    batch: NonZeroU32,
}

impl Arrivals {
    fn of(process: Process) -> Arrivals {
        Arrivals {
            process,
            batch: NonZeroU32::MIN,
        }
    }

    /// Creates evenly spaced arrivals at the profile's rate.
    pub fn constant(profile: Profile) -> Arrivals {
        Arrivals::of(Process::Constant(profile))
    }

    /// Creates independent arrivals: a Poisson process with the profile's rate.
    pub fn poisson(profile: Profile, seed: Seed) -> Arrivals {
        Arrivals::of(Process::Poisson(profile, seed.stream("arrivals")))
    }

    /// Groups the arrivals into batches of `batch` arrivals with the same mean rate. Recorded arrivals are not changed.
    pub fn in_batches(self, batch: NonZeroU32) -> Arrivals {
        match self.process {
            Process::Recorded(..) => self,
            process => Arrivals { process, batch },
        }
    }

    /// Creates arrivals at recorded times, in chronological order, with a replay speed factor of `speed`.
    pub fn recorded(times: Arc<[Duration]>, speed: f64) -> Result<Arrivals, RateError> {
        match speed.is_finite() && speed > 0.0 {
            true => Ok(Arrivals::of(Process::Recorded(times, speed))),
            false => Err(RateError(speed)),
        }
    }

    /// Returns the number of arrivals at each instant; `None` if arrivals are single.
    pub fn batch(&self) -> Option<NonZeroU32> {
        (self.batch > NonZeroU32::MIN).then_some(self.batch)
    }

    /// Returns the length of a recording at its replay speed; `None` for other arrivals, or if the length exceeds
    /// [`LONGEST`].
    pub fn recorded_length(&self) -> Option<Duration> {
        let Process::Recorded(times, speed) = &self.process else {
            return None;
        };
        let seconds = times.last().map_or(0.0, Duration::as_secs_f64) / speed;
        (seconds <= LONGEST.as_secs_f64()).then(|| Duration::from_secs_f64(seconds))
    }

    /// Returns all arrivals in order, from the first.
    pub fn schedule(&self) -> Schedule<'_> {
        Schedule {
            arrivals: self,
            next: 0,
            sum: 0.0,
        }
    }

    /// Returns the expected number of arrivals between two times; for a recording, the actual number.
    pub fn expected(&self, from: Duration, to: Duration) -> f64 {
        match &self.process {
            Process::Constant(profile) | Process::Poisson(profile, _) => {
                profile.expected(to) - profile.expected(from)
            }
            Process::Recorded(times, speed) => {
                let before = |end: Duration| {
                    let end = end.as_secs_f64() * speed;
                    times.partition_point(|time| time.as_secs_f64() < end)
                };
                before(to) as f64 - before(from) as f64
            }
        }
    }
}

/// Prints, for example, `constant 1000/s` and `Poisson 1000/s in batches of 64`.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Process::Constant(profile) => write!(f, "constant {profile}")?,
            Process::Poisson(profile, _) => write!(f, "Poisson {profile}")?,
            Process::Recorded(times, speed) if *speed == 1.0 => {
                write!(f, "{} as recorded", times.len())?;
            }
            Process::Recorded(times, speed) => {
                write!(
                    f,
                    "{} as recorded, replay speed factor {speed}",
                    times.len()
                )?;
            }
        }
        match self.batch() {
            None => Ok(()),
            Some(batch) => write!(f, " in batches of {batch}"),
        }
    }
}

/// Arrivals in sequence: the number of each arrival, and its time from the start.
#[derive(Debug, Clone)]
pub struct Schedule<'a> {
    arrivals: &'a Arrivals,
    next: u64,
    /// The sum of the exponential random numbers until now.
    sum: f64,
}

impl Iterator for Schedule<'_> {
    type Item = (u64, Duration);

    fn next(&mut self) -> Option<(u64, Duration)> {
        let number = self.next;
        let batch = u64::from(self.arrivals.batch.get());
        let (of_batch, place) = (number / batch, number % batch);
        let seconds = match &self.arrivals.process {
            Process::Constant(profile) => profile.time_of((of_batch * batch) as f64)?,
            Process::Poisson(profile, seed) => {
                if place == 0 {
                    let mean = batch as f64;
                    self.sum += Law::Exponential { mean }.sample(*seed, of_batch);
                }
                profile.time_of(self.sum)?
            }
            Process::Recorded(times, speed) => {
                times.get(usize::try_from(number).ok()?)?.as_secs_f64() / speed
            }
        };
        self.next += 1;
        // An arrival after more than a hundred years is omitted.
        (seconds < 3.2e9).then(|| (number, Duration::from_nanos((seconds * 1e9).round() as u64)))
    }

    /// Skips arrivals. Only the Poisson process must compute the skipped arrivals, because each arrival depends on the
    /// previous arrivals.
    fn nth(&mut self, n: usize) -> Option<(u64, Duration)> {
        match self.arrivals.process {
            Process::Poisson(..) => {
                for _ in 0..n {
                    self.next()?;
                }
            }
            _ => self.next += n as u64,
        }
        self.next()
    }
}

/// The longest recording that is replayed to its end: one year.
pub const LONGEST: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_speed_is_too_slow_or_too_fast_for_the_arithmetic() {
        let times: Arc<[Duration]> = [0, 1, 3].map(Duration::from_secs).into();
        let at = |speed| Arrivals::recorded(times.clone(), speed).unwrap();
        assert_eq!(at(2.0).recorded_length(), Some(Duration::from_millis(1500)));
        for speed in [1e-20, f64::MIN_POSITIVE, 5e-324] {
            assert_eq!(at(speed).recorded_length(), None);
            // Arrivals after more than a hundred years are omitted.
            assert_eq!(seconds(&at(speed), 9), [0.0]);
        }
        for speed in [1e20, f64::MAX] {
            assert_eq!(at(speed).recorded_length(), Some(Duration::ZERO));
            assert_eq!(seconds(&at(speed), 9), [0.0; 3]);
        }
        assert_eq!(
            Arrivals::constant(Profile::constant(1.0).unwrap()).recorded_length(),
            None
        );
    }

    fn seconds(arrivals: &Arrivals, most: usize) -> Vec<f64> {
        let times = arrivals.schedule().take(most);
        times.map(|(_, time)| time.as_secs_f64()).collect()
    }

    #[test]
    fn constant_arrivals_are_even_to_the_nanosecond_for_hours() {
        let arrivals = Arrivals::constant(Profile::constant(30_000.0).unwrap());
        let (number, time) = arrivals.schedule().nth(1_000_000_000).unwrap();
        assert_eq!(number, 1_000_000_000);
        assert_eq!(time, Duration::from_nanos(33_333_333_333_333));
        assert_eq!(seconds(&arrivals, 1), [0.0]);
        assert_eq!(arrivals.to_string(), "constant 30000/s");
    }

    #[test]
    fn the_number_of_arrivals_of_a_ramp_is_its_area() {
        let length = Duration::from_secs(10);
        for (from, to) in [(0.0, 500.0), (500.0, 0.0), (100.0, 300.0)] {
            let profile = Profile::ramp(from, to, length).unwrap();
            let arrivals = Arrivals::constant(profile.clone());
            let times = seconds(&arrivals, 10_000);
            for at in [1.0, 2.5, 5.0, 9.9] {
                let wanted = from * at + (to - from) * at * at / 20.0;
                let found = times.iter().filter(|&&time| time < at).count() as f64;
                assert!(
                    (found - wanted).abs() <= 1.0,
                    "from {from}/s to {to}/s, at {at}: {found} arrivals, {wanted} wanted"
                );
                let at = Duration::from_secs_f64(at);
                assert!((profile.expected(at) - wanted).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn steps_change_at_once_and_a_rate_of_zero_is_a_pause() {
        let second = Duration::from_secs(1);
        let steps = [(10.0, second), (0.0, 2 * second), (100.0, second)];
        let profile = Profile::steps(&steps).unwrap();
        assert_eq!(profile.rate(second / 2), 10.0);
        assert_eq!(profile.rate(2 * second), 0.0);
        assert_eq!(profile.rate(9 * second), 100.0);
        let times = seconds(&Arrivals::constant(profile), 30);
        assert!((times[9] - 0.9).abs() < 1e-9);
        assert!(
            times[10] <= 1.0 && (times[11] - 3.01).abs() < 1e-9,
            "{times:?}"
        );
        let ends = Profile::new(vec![], 0.0).unwrap();
        assert!(Arrivals::poisson(ends, Seed(1)).schedule().next().is_none());
        assert!(Profile::constant(f64::NAN).is_err() && Profile::constant(-1.0).is_err());
    }

    #[test]
    fn poisson_arrivals_vary_as_they_should() {
        let arrivals = Arrivals::poisson(Profile::constant(1000.0).unwrap(), Seed(3));
        let times = seconds(&arrivals, 100_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        // Three standard errors of 10^5 exponential random numbers: 1 % of the mean, 3 % of the variance.
        assert!((mean * 1000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance * 1e6 - 1.0).abs() < 0.03, "{variance}");
        // For counts per second, both the mean and the variance equal the rate.
        let mut counts = [0.0; 90];
        for time in &times {
            if let Some(count) = counts.get_mut(*time as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / 90.0;
        let variance = counts.iter().map(|c: &f64| (c - mean).powi(2)).sum::<f64>() / 89.0;
        // The standard deviation of the ratio is sqrt(2 / 89) = 0.15.
        assert!((variance / mean - 1.0).abs() < 0.45, "{variance} {mean}");
    }

    #[test]
    fn batches_keep_the_rate_and_each_has_one_instant() {
        let size = |size: u32| NonZeroU32::new(size).unwrap();
        let even = Arrivals::constant(Profile::constant(100.0).unwrap()).in_batches(size(4));
        assert_eq!(
            seconds(&even, 9),
            [0.0, 0.0, 0.0, 0.0, 0.04, 0.04, 0.04, 0.04, 0.08]
        );
        assert_eq!(even.to_string(), "constant 100/s in batches of 4");
        assert_eq!(even.schedule().nth(6).map(|(number, _)| number), Some(6));
        let profile = Profile::constant(1000.0).unwrap();
        let poisson = Arrivals::poisson(profile.clone(), Seed(3)).in_batches(size(16));
        let times = seconds(&poisson, 160_000);
        assert!(
            times
                .chunks(16)
                .all(|batch| batch.iter().all(|time| *time == batch[0]))
        );
        // Three standard errors of 10^4 exponential random numbers.
        let rate = 160_000.0 / times.last().unwrap();
        assert!((rate / 1000.0 - 1.0).abs() < 0.03, "{rate}");
        let single = Arrivals::poisson(profile, Seed(3));
        assert_eq!(single.clone().in_batches(size(1)), single);
    }

    #[test]
    fn recorded_times_can_be_played_faster() {
        let times: Arc<[Duration]> = (0..5).map(Duration::from_secs).collect();
        let arrivals = Arrivals::recorded(times, 2.0).unwrap();
        assert_eq!(seconds(&arrivals, 9), [0.0, 0.5, 1.0, 1.5, 2.0]);
        let (from, to) = (Duration::from_millis(500), Duration::from_millis(1600));
        assert_eq!(arrivals.expected(from, to), 3.0);
    }

    #[test]
    fn passing_over_arrivals_does_not_change_the_rest() {
        let profile = Profile::ramp(10.0, 1000.0, Duration::from_secs(3)).unwrap();
        let three = NonZeroU32::new(3).unwrap();
        for arrivals in [
            Arrivals::constant(profile.clone()),
            Arrivals::poisson(profile.clone(), Seed(8)),
            Arrivals::constant(profile.clone()).in_batches(three),
            Arrivals::poisson(profile, Seed(8)).in_batches(three),
        ] {
            let all: Vec<_> = arrivals.schedule().take(1000).collect();
            for stride in [1, 2, 3, 7] {
                for first in 0..stride {
                    let mine = arrivals.schedule().skip(first).step_by(stride);
                    let wanted = all.iter().copied().skip(first).step_by(stride);
                    assert!(mine.zip(wanted).all(|(mine, wanted)| mine == wanted));
                }
            }
        }
    }
}
