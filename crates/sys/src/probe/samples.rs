//! The readings of a sampler in time order, and the differences between them.

use std::time::Duration;

use fathometer_model::Instant;
use serde::{Deserialize, Serialize};

use super::network::Network;
use super::process_tree::ProcessTree;
use super::system::System;
use crate::cgroup::Usage;

/// One reading of all sources, or the difference of two readings ([`Step`]). A source that was not or could not be read is
/// `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The start of the reading; for a difference, the start of the later reading.
    pub at: Instant,
    /// The duration of the reading. All figures were read within this time, except congestion windows and proportional
    /// memory ([`Sampler`](super::Sampler)).
    pub took: Duration,
    /// The machine.
    pub system: Option<System>,
    /// Programs, in the order of [`Names::trees`].
    pub trees: Vec<Option<ProcessTree>>,
    /// Hosts, in the order of [`Names::networks`].
    pub networks: Vec<Option<Network>>,
    /// Groups, in the order of [`Names::groups`].
    pub groups: Vec<Option<Usage>>,
}

/// The subjects of the readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Programs.
    pub trees: Vec<String>,
    /// Hosts.
    pub networks: Vec<String>,
    /// Groups.
    pub groups: Vec<String>,
}

/// All readings of a sampler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The time between readings at the end of sampling: the planned period times a power of two (1 or more).
    pub period: Duration,
    /// The subjects of the readings.
    pub names: Names,
    /// The readings in time order. The first reading was taken at the start, the last reading at the end.
    pub readings: Vec<Sample>,
    /// The number of periods without a reading, because the thread was late or readings took too much CPU time.
    pub missed: u64,
    /// The cost of all readings.
    pub cost: Cost,
    /// The reasons why sources could not be read: one entry per source, for its first failure.
    pub failures: Vec<String>,
}

/// The cost of a sampler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The CPU time of all threads of the sampler.
    pub cpu: Duration,
    /// The number of readings taken, including discarded readings.
    pub readings: u64,
    /// The longest duration of a reading, by the wall clock.
    pub longest: Duration,
    /// The number of answers about congestion windows and proportional memory that arrived too late for their reading,
    /// because the lock was held.
    #[serde(default)]
    pub late: u64,
}

/// The difference between two readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The earlier reading's time.
    pub from: Instant,
    /// The later reading's time.
    pub to: Instant,
    /// The differences of counters, and the later values of all other figures. A figure that only one of the readings has
    /// is `None`.
    pub change: Sample,
}

impl Step {
    /// Returns the time between the two readings.
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Converts a count of this step to a rate per second; `None` if no time has passed.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let seconds = self.length().as_secs_f64();
        (seconds > 0.0).then(|| count as f64 / seconds)
    }

    /// Converts a time of this step, such as CPU time or pressure, to seconds per second: 1 is one processor.
    pub fn share(&self, time: Duration) -> Option<f64> {
        let seconds = self.length().as_secs_f64();
        (seconds > 0.0).then(|| time.as_secs_f64() / seconds)
    }
}

impl Samples {
    /// Iterates over the differences between each reading and the next.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.readings
            .windows(2)
            .map(|pair| pair[1].step_from(&pair[0]))
    }

    /// Returns the difference between the first and the last reading.
    pub fn whole(&self) -> Option<Step> {
        match self.readings.as_slice() {
            [first, .., last] => Some(last.step_from(first)),
            _ => None,
        }
    }

    /// Returns the difference between the last reading at or before `from` and the first reading at or after `to`, for a
    /// measured window. It exceeds the window by up to one period at each end. Expensive sources are included only if both
    /// readings have them.
    pub fn between(&self, from: Instant, to: Instant) -> Option<Step> {
        let first = self.readings.iter().rev().find(|r| r.at <= from)?;
        let last = self.readings.iter().find(|r| r.at >= to)?;
        (first.at < last.at).then(|| last.step_from(first))
    }

    /// Returns the difference between the first reading at or after `from` and the last reading at or before `to`. The
    /// difference contains no time outside of the window. `None` if the window does not contain two readings.
    pub fn within(&self, from: Instant, to: Instant) -> Option<Step> {
        let first = self.readings.iter().find(|r| r.at >= from)?;
        let last = self.readings.iter().rev().find(|r| r.at <= to)?;
        (first.at < last.at).then(|| last.step_from(first))
    }

    /// Integrates a figure over a window of time. The unit is the figure's unit times seconds: a number of connections
    /// becomes connection seconds.
    ///
    /// Uses the trapezoidal rule: between two readings the figure changes linearly, also at the ends of the window,
    /// which rarely coincide with a reading. Readings without the figure are skipped. Returns `None` if the window is
    /// empty, or if no value exists at or before its start or at or after its end.
    pub fn integral(
        &self,
        from: Instant,
        to: Instant,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        if from >= to {
            return None;
        }
        let mut values = self
            .readings
            .iter()
            .filter_map(|reading| Some((reading.at, figure(reading)?)));
        let mut before = values.next().filter(|(at, _)| *at <= from)?;
        let mut sum = 0.0;
        for after in values {
            let (start, end) = (before.0.max(from), after.0.min(to));
            if start < end {
                let mean = (on_line(before, after, start) + on_line(before, after, end)) / 2.0;
                sum += mean * end.since(start).as_secs_f64();
            }
            before = after;
            if after.0 >= to {
                return Some(sum);
            }
        }
        None
    }

    /// Returns the mean of a figure over a window of time, in the figure's unit; `None` as for
    /// [`integral`](Self::integral).
    pub fn mean_of(
        &self,
        from: Instant,
        to: Instant,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let sum = self.integral(from, to, figure)?;
        Some(sum / to.since(from).as_secs_f64())
    }
}

impl Sample {
    /// Returns the difference to an earlier reading.
    pub fn step_from(&self, earlier: &Sample) -> Step {
        Step {
            from: earlier.at,
            to: self.at,
            change: Sample {
                at: self.at,
                took: self.took,
                system: both(&self.system, &earlier.system, System::since),
                trees: each(&self.trees, &earlier.trees, ProcessTree::since),
                networks: each(&self.networks, &earlier.networks, Network::since),
                groups: each(&self.groups, &earlier.groups, Usage::since),
            },
        }
    }
}

fn both<T>(now: &Option<T>, then: &Option<T>, since: fn(&T, &T) -> T) -> Option<T> {
    Some(since(now.as_ref()?, then.as_ref()?))
}

fn each<T>(now: &[Option<T>], then: &[Option<T>], since: fn(&T, &T) -> T) -> Vec<Option<T>> {
    let pairs = now.iter().zip(then);
    pairs.map(|(now, then)| both(now, then, since)).collect()
}

/// Interpolates linearly between two values.
fn on_line(before: (Instant, f64), after: (Instant, f64), at: Instant) -> f64 {
    let whole = after.0.since(before.0).as_secs_f64();
    if whole <= 0.0 {
        return after.1;
    }
    let part = at.since(before.0).as_secs_f64() / whole;
    before.1 + part * (after.1 - before.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds readings at these milliseconds, with this many established connections.
    fn samples(established: &[(u64, Option<u64>)]) -> Samples {
        let reading = |&(at, established): &(u64, Option<u64>)| {
            let mut network = Network::default();
            network.tcp.established = established;
            Sample {
                at: ms(at),
                networks: vec![Some(network)],
                ..Sample::default()
            }
        };
        Samples {
            period: Duration::from_millis(100),
            names: Names::default(),
            readings: established.iter().map(reading).collect(),
            missed: 0,
            cost: Cost::default(),
            failures: Vec::new(),
        }
    }

    fn ms(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    fn established(sample: &Sample) -> Option<f64> {
        let network = sample.networks.first()?.as_ref()?;
        network.tcp.established.map(|count| count as f64)
    }

    fn near(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-9 * wanted.max(1.0))
    }

    #[test]
    fn a_step_within_a_window_has_nothing_from_outside_and_one_between_covers_it() {
        let samples = samples(&[(0, None), (100, None), (200, None), (300, None)]);
        let within = samples.within(ms(50), ms(250)).unwrap();
        assert_eq!((within.from, within.to), (ms(100), ms(200)));
        let between = samples.between(ms(50), ms(250)).unwrap();
        assert_eq!((between.from, between.to), (ms(0), ms(300)));
        // A step needs two readings.
        assert!(samples.within(ms(150), ms(250)).is_none());
    }

    #[test]
    fn the_integral_of_a_constant_is_the_constant_times_the_window() {
        let samples = samples(&[
            (0, Some(8)),
            (130, Some(8)),
            (950, Some(8)),
            (2000, Some(8)),
        ]);
        let connection_seconds = samples.integral(ms(100), ms(1600), established);
        assert!(near(connection_seconds, 12.0), "{connection_seconds:?}");
        assert!(near(samples.mean_of(ms(100), ms(1600), established), 8.0));
        // A window between two readings.
        assert!(near(samples.integral(ms(960), ms(970), established), 0.08));
    }

    #[test]
    fn a_ramp_is_met_exactly_wherever_the_window_begins_and_ends() {
        let ramp: Vec<(u64, Option<u64>)> = (0..=40).map(|n| (n * 50, Some(n * 5))).collect();
        let samples = samples(&ramp);
        // 100 more connections per second: the integral of 100 t.
        for (from, to) in [(0, 2000), (13, 1987), (50, 100), (51, 99), (700, 701)] {
            let found = samples.integral(ms(from), ms(to), established);
            let (from, to) = (from as f64 / 1e3, to as f64 / 1e3);
            let exact = 50.0 * (to * to - from * from);
            assert!(near(found, exact), "{found:?}, not {exact}");
        }
        assert!(near(samples.mean_of(ms(500), ms(1500), established), 100.0));
    }

    #[test]
    fn readings_without_the_figure_are_skipped() {
        let samples = samples(&[
            (0, None),
            (100, Some(10)),
            (200, None),
            (300, Some(30)),
            (400, None),
        ]);
        assert!(near(samples.integral(ms(100), ms(300), established), 4.0));
        assert_eq!(samples.integral(ms(50), ms(300), established), None);
        assert_eq!(samples.integral(ms(100), ms(301), established), None);
        assert_eq!(samples.integral(ms(200), ms(200), established), None);
        assert_eq!(samples.mean_of(ms(300), ms(200), established), None);
        let nothing = |_: &Sample| None;
        assert_eq!(samples.integral(ms(100), ms(300), nothing), None);
    }

    #[test]
    fn a_step_function_is_met_to_half_a_period() {
        // 20 connections from 500 to 1500 ms, read every 10 ms: 20 connection seconds.
        let steps: Vec<(u64, Option<u64>)> = (0..=200)
            .map(|n| (n * 10, Some(if (50..150).contains(&n) { 20 } else { 0 })))
            .collect();
        let samples = samples(&steps);
        let found = samples.integral(ms(0), ms(2000), established).unwrap();
        assert!((found - 20.0).abs() <= 2.0 * 20.0 * 0.005, "{found}");
    }
}
