//! Determines the resource that was exhausted first in a replicate, by the rules of `fathometer capacity --probe`. The
//! laboratory's probes also know the server's processes and the limits of its host and its path.

use fathometer_analysis::bottleneck::{GaveOut, Signals, gave_out};
use fathometer_analysis::load::{LoadResult, signals_of_clients};
use fathometer_lab::trial::window_of;
use fathometer_lab::wire::PacketCounts;
use fathometer_model::Instant;
use fathometer_path::Profile;
use fathometer_sys::Clock;
use fathometer_sys::probe::Samples;

use crate::host_signals::{self, KnownLimits};

/// The measured window of a trial, and the figures of the trial's clients.
#[derive(Debug, Clone)]
pub(super) struct TrialWindow {
    pub(super) from: Instant,
    pub(super) to: Instant,
    clients: Signals,
    /// The share of completed exchanges with a status of 400 or above.
    refused: f64,
}

impl TrialWindow {
    /// Returns the window of a trial's result. `clock` must have the same origin as the times of the probes.
    pub(super) fn of(result: &LoadResult, clock: Clock) -> TrialWindow {
        let (from, to) = window_of(result, clock);
        let counts = &result.measured.counts;
        TrialWindow {
            from,
            to,
            clients: signals_of_clients(result),
            refused: counts.status_errors() as f64 / counts.completed.max(1) as f64,
        }
    }
}

/// The observations of the server's host and of the path over the whole search.
pub(super) struct Host<'a> {
    pub(super) limits: KnownLimits,
    pub(super) profile: &'a Profile,
    pub(super) samples: &'a Samples,
    pub(super) packets: Option<&'a PacketCounts>,
}

impl Host<'_> {
    /// Returns the resource that was exhausted first between the trial that works and the trial that fails. Returns
    /// `None` if the probes do not cover both trials.
    pub(super) fn gave_out(&self, works: &TrialWindow, fails: &TrialWindow) -> Option<GaveOut> {
        let (at_works, at_fails) = (self.signals(works)?, self.signals(fails)?);
        Some(gave_out(&at_works, &at_fails, fails.refused))
    }

    /// Returns the signals of the clients, the host and the path in the window.
    fn signals(&self, window: &TrialWindow) -> Option<Signals> {
        let step = self.samples.between(window.from, window.to)?;
        let mut signals = window.clients;
        host_signals::of_probes(&mut signals, &self.limits, self.samples, &step);
        let packets = self.packets.map(|all| all.between(window.from, window.to));
        let length = window.to.since(window.from);
        host_signals::of_path(&mut signals, self.profile, packets.as_ref(), length);
        Some(signals)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathometer_analysis::bottleneck::Resource;
    use fathometer_lab::wire::counts::Course;
    use fathometer_sys::cgroup::{CpuUsage, Usage};
    use fathometer_sys::probe::Sample;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Returns one reading per second of a host that uses `first` cores for four seconds and then `second` cores.
    fn used(first: f64, second: f64) -> Samples {
        let reading = |second_of: u64| {
            let used =
                first * second_of.min(4) as f64 + second * second_of.saturating_sub(4) as f64;
            let usage = Usage {
                cpu: Some(CpuUsage {
                    total: Duration::from_secs_f64(used),
                    periods: Some(100 * second_of),
                    throttled_periods: Some(0),
                    ..CpuUsage::default()
                }),
                ..Usage::default()
            };
            Sample {
                at: at(second_of),
                groups: vec![Some(usage)],
                ..Sample::default()
            }
        };
        Samples {
            readings: (0..=8).map(reading).collect(),
            ..Samples::default()
        }
    }

    fn window(from: u64, to: u64) -> TrialWindow {
        TrialWindow {
            from: at(from),
            to: at(to),
            clients: Signals {
                achieved_per_s: Some(100.0),
                ..Signals::default()
            },
            refused: 0.0,
        }
    }

    fn profile() -> Profile {
        let text = "name = \"small\"\nsource = \"none\"\n[both]\npropagation = \"5ms\"\nrate = \"1Mbit/s\"";
        Profile::from_toml(text, "small").unwrap()
    }

    fn half_a_core() -> KnownLimits {
        KnownLimits {
            cores: 0.5,
            has_quota: true,
            ..KnownLimits::default()
        }
    }

    #[test]
    fn a_quota_that_only_the_failing_trial_uses_up_gave_out_first() {
        let (profile, samples) = (profile(), used(0.3, 0.497));
        let host = Host {
            limits: half_a_core(),
            profile: &profile,
            samples: &samples,
            packets: None,
        };
        let found = host.gave_out(&window(1, 3), &window(5, 7)).unwrap();
        assert_eq!(found.resource, Some(Resource::Cpu), "{found:?}");
        let first = &found.figures[0];
        let near = |found: Option<f64>, share: f64| (found.unwrap() - share).abs() < 1e-9;
        assert!(
            near(first.works, 0.6) && near(first.fails, 0.994),
            "{first:?}"
        );
        // The CPU time of an exchange: 0.3 cores at 100 exchanges per second.
        let each = host.signals(&window(1, 3)).unwrap().cpu_per_exchange;
        assert_eq!(each.map(|each| each.as_micros()), Some(3000));
        // If the two trials are swapped, no resource is exhausted.
        let found = host.gave_out(&window(5, 7), &window(1, 3)).unwrap();
        assert_eq!(found.resource, None, "{found:?}");
        let beyond = host.gave_out(&window(1, 3), &window(7, 9));
        assert_eq!(beyond, None, "the probes do not cover this window");
    }

    #[test]
    fn a_link_that_sends_all_the_time_gave_out_first() {
        let (profile, samples) = (profile(), used(0.1, 0.1));
        // From the fifth second, the path carries 125 000 bytes per second, which is 1 Mbit/s.
        let mut down = Course::new(at(0));
        for packet in 0..500u64 {
            let instant = at(5) + Duration::from_millis(8 * packet);
            down.count(instant, &[0; 1000]);
        }
        let packets = PacketCounts {
            up: Course::new(at(0)),
            down,
        };
        let host = Host {
            limits: half_a_core(),
            profile: &profile,
            samples: &samples,
            packets: Some(&packets),
        };
        let found = host.gave_out(&window(1, 3), &window(5, 7)).unwrap();
        assert_eq!(found.resource, Some(Resource::LinkRate), "{found:?}");
    }
}
