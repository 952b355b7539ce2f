//! What was measured of one load: with the limits as they are, or with one of them changed.

use std::time::Duration;

use fathometer_model::{Bytes, Validity};
use serde::{Deserialize, Serialize};

use super::Resource;

/// One limit, multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which one.
    pub resource: Resource,
    /// By how much: 1.25 is a quarter more of it. Above zero, finite, and not 1. It is the factor
    /// that was really applied (a backlog of 5 raised to 6 is 1.2). For [`Resource::RoundTrip`] it
    /// multiplies the time, so that 0.8 is the relief; for [`Resource::Load`], users or rate.
    pub factor: f64,
}

impl Change {
    /// The natural logarithm of the factor, positive when the change is a relief: more of what one
    /// wants more of, less of the round trip. `None` when the factor is no change.
    pub fn relief(self) -> Option<f64> {
        let logarithm = self.factor.ln();
        let relief = match self.resource.less_is_better() {
            true => -logarithm,
            false => logarithm,
        };
        (relief.is_finite() && relief != 0.0).then_some(relief)
    }
}

/// One load, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Which limit was changed; `None` for the load as it is (the baseline).
    pub change: Option<Change>,
    /// Which repetition. Observations of the same number had the same random numbers, and are
    /// compared with each other.
    pub replicate: u32,
    /// Exchanges a second that were answered without an error.
    pub throughput_per_s: f64,
    /// Octets of useful content a second.
    pub goodput_octets_per_s: f64,
    /// Mean corrected latency.
    #[serde(with = "seconds")]
    pub latency_mean: Duration,
    /// Its 98th percentile.
    #[serde(with = "seconds")]
    pub latency_p98: Duration,
    /// Share of exchanges that failed or had a status of 400 and above, 0 to 1.
    pub errors: f64,
    /// What the probes saw meanwhile.
    pub signals: Signals,
    /// Whether generator and path may be believed.
    pub validity: Validity,
}

/// What probes say of the measured window. `None` is what nobody could tell, never zero.
///
/// Shares are from 0 to 1. Rates are means over the window; lengths of queues and numbers of
/// connections are means of what was sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signals {
    /// Processor time that the host may use, in cores: its quota, or the number of its processors.
    pub cpu_quota_cores: Option<f64>,
    /// Share of that which it used.
    pub cpu_of_quota: Option<f64>,
    /// Share of the quota's periods in which it had used it up.
    pub throttled_periods: Option<f64>,
    /// Processor time of the server's busiest thread, as a share of one core.
    pub busiest_thread: Option<f64>,
    /// Processor time of the host for each exchange.
    #[serde(with = "optional_seconds")]
    pub cpu_per_exchange: Option<Duration>,
    /// Share of the time in which something in the host waited for a processor (PSI, some).
    pub cpu_pressure: Option<f64>,
    /// Share of the processor time of the whole machine that nothing used: neither the host nor the
    /// generator, the path or other programs.
    pub machine_idle: Option<f64>,

    /// The host's limit of memory.
    pub memory_limit: Option<Bytes>,
    /// Share of that in use, page cache included. A page cache fills whatever there is: that this
    /// is 1 says little by itself.
    pub memory_of_limit: Option<f64>,
    /// Pages of files read again that had been in memory, a second.
    pub refaults_per_s: Option<f64>,
    /// Octets paged in from disks, a second.
    pub page_in_bytes_per_s: Option<f64>,
    /// Page faults that waited for a disk, a second.
    pub major_faults_per_s: Option<f64>,
    /// Share of the time in which something in the host waited for memory (PSI, some).
    pub memory_pressure: Option<f64>,

    /// Octets read from the disk, a second.
    pub disk_read_bytes_per_s: Option<f64>,
    /// How many may be.
    pub disk_bytes_limit_per_s: Option<f64>,
    /// Read operations, a second.
    pub disk_reads_per_s: Option<f64>,
    /// How many there may be.
    pub disk_reads_limit_per_s: Option<f64>,
    /// Share of the time in which the disk had something to do.
    pub disk_busy: Option<f64>,
    /// Share of the time in which something in the host waited for a disk (PSI, some).
    pub io_pressure: Option<f64>,

    /// Share of its capacity that the link towards the server carried.
    pub link_up: Option<f64>,
    /// Share of its capacity that the link towards the clients carried.
    pub link_down: Option<f64>,
    /// Packets a second that the path's queues dropped because they were full.
    pub queue_drops_per_s: Option<f64>,
    /// Segments sent again, as a share of those sent.
    pub retransmitted: Option<f64>,
    /// The idle path's round trip.
    #[serde(with = "optional_seconds")]
    pub round_trip: Option<Duration>,
    /// Rate of a connection while it sends, as a share of what its window allows: window by round
    /// trip. Near 1, the window is what holds it up.
    pub rate_of_window: Option<f64>,
    /// Share of its busy time in which a sender waited for the peer's receive window.
    pub receive_window_limited: Option<f64>,
    /// Share of its busy time in which a sender waited for room in its send buffer.
    pub send_buffer_limited: Option<f64>,

    /// Connections a second that found the accept queue full.
    pub listen_overflows_per_s: Option<f64>,
    /// Connections that waited to be accepted.
    pub accept_queue: Option<f64>,
    /// How many may wait.
    pub backlog: Option<f64>,
    /// Connections that were established, those that waited to be accepted left out.
    pub established: Option<f64>,
    /// How many connections or requests the server works on at once.
    pub worker_limit: Option<f64>,

    /// Share of exchanges that were refused or reset.
    pub refused: Option<f64>,
    /// Share of exchanges that timed out.
    pub timed_out: Option<f64>,

    /// Mean time from the plan's instant to a free connection, connecting left out.
    #[serde(with = "optional_seconds")]
    pub queue: Option<Duration>,
    /// Mean time that an exchange spent on connecting (of all, also those that did not connect).
    #[serde(with = "optional_seconds")]
    pub connect: Option<Duration>,
    /// Mean time from a request's first octet to its response's.
    #[serde(with = "optional_seconds")]
    pub first_byte: Option<Duration>,
    /// Mean time from a response's first octet to its last.
    #[serde(with = "optional_seconds")]
    pub transfer: Option<Duration>,

    /// 99th percentile of the generator's own lateness.
    #[serde(with = "optional_seconds")]
    pub send_lag_p99: Option<Duration>,
    /// Share of the window in which the generator's busiest thread did not wait.
    pub generator_busy: Option<f64>,
    /// Exchanges under way on average (Little's Load Factor).
    pub concurrency: Option<f64>,
    /// Users of a closed loop.
    pub users: Option<f64>,
    /// The rate that an open loop asked for, in exchanges a second.
    pub offered_per_s: Option<f64>,
    /// The rate that was achieved, in exchanges a second.
    pub achieved_per_s: Option<f64>,
}

impl Signals {
    /// The means of several loads' signals, each over those that have it.
    pub fn mean<'a>(of: impl IntoIterator<Item = &'a Signals>) -> Signals {
        let all: Vec<&Signals> = of.into_iter().collect();
        let number = |field: fn(&Signals) -> Option<f64>| {
            let values: Vec<f64> = all.iter().filter_map(|s| field(s)).collect();
            (!values.is_empty()).then(|| crate::statistics::mean(&values))
        };
        macro_rules! numbers {
            ($($field:ident),*) => { Signals { $($field: number(|s| s.$field),)* ..times(&all) } };
        }
        numbers!(
            cpu_quota_cores,
            cpu_of_quota,
            throttled_periods,
            busiest_thread,
            cpu_pressure,
            machine_idle,
            memory_of_limit,
            refaults_per_s,
            page_in_bytes_per_s,
            major_faults_per_s,
            memory_pressure,
            disk_read_bytes_per_s,
            disk_bytes_limit_per_s,
            disk_reads_per_s,
            disk_reads_limit_per_s,
            disk_busy,
            io_pressure,
            link_up,
            link_down,
            queue_drops_per_s,
            retransmitted,
            rate_of_window,
            receive_window_limited,
            send_buffer_limited,
            listen_overflows_per_s,
            accept_queue,
            backlog,
            established,
            worker_limit,
            refused,
            timed_out,
            generator_busy,
            concurrency,
            users,
            offered_per_s,
            achieved_per_s
        )
    }
}

/// The means of what is no plain number; the rest is absent.
fn times(all: &[&Signals]) -> Signals {
    let time = |field: fn(&Signals) -> Option<Duration>| {
        let values: Vec<Duration> = all.iter().filter_map(|s| field(s)).collect();
        let sum: Duration = values.iter().sum();
        (!values.is_empty()).then(|| sum / values.len() as u32)
    };
    let limits: Vec<u64> = all.iter().filter_map(|s| Some(s.memory_limit?.0)).collect();
    Signals {
        memory_limit: (!limits.is_empty())
            .then(|| Bytes(limits.iter().sum::<u64>() / limits.len() as u64)),
        cpu_per_exchange: time(|s| s.cpu_per_exchange),
        round_trip: time(|s| s.round_trip),
        queue: time(|s| s.queue),
        connect: time(|s| s.connect),
        first_byte: time(|s| s.first_byte),
        transfer: time(|s| s.transfer),
        send_lag_p99: time(|s| s.send_lag_p99),
        ..Signals::default()
    }
}

/// Times as seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(Error::custom)
    }
}

/// Times as seconds, `null` when absent.
mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs_f64()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(from)?
            .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relief_has_the_sign_of_what_helps() {
        let relief = |resource, factor| Change { resource, factor }.relief();
        assert_eq!(relief(Resource::Cpu, 1.25), Some(1.25f64.ln()));
        assert!(relief(Resource::Cpu, 0.8).unwrap() < 0.0);
        assert!(relief(Resource::RoundTrip, 0.8).unwrap() > 0.0);
        assert!(relief(Resource::RoundTrip, 2.0).unwrap() < 0.0);
        for factor in [1.0, 0.0, -2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(relief(Resource::Cpu, factor), None, "{factor}");
        }
    }

    #[test]
    fn means_are_over_those_that_have_it_and_absent_stays_absent() {
        let first = Signals {
            cpu_of_quota: Some(0.9),
            memory_limit: Some(Bytes(100)),
            connect: Some(Duration::from_millis(10)),
            ..Signals::default()
        };
        let second = Signals {
            cpu_of_quota: Some(0.7),
            memory_limit: Some(Bytes(100)),
            ..Signals::default()
        };
        let mean = Signals::mean([&first, &second]);
        assert!((mean.cpu_of_quota.unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(mean.memory_limit, Some(Bytes(100)));
        assert_eq!(mean.connect, Some(Duration::from_millis(10)));
        assert_eq!(mean.link_up, None);
        assert_eq!(Signals::mean([]), Signals::default());
    }

    #[test]
    fn files_have_seconds_and_null() {
        let signals = Signals {
            connect: Some(Duration::from_millis(1500)),
            ..Signals::default()
        };
        let json = serde_json::to_value(signals).unwrap();
        assert_eq!(json["connect"], 1.5);
        assert!(json["transfer"].is_null());
        assert_eq!(serde_json::from_value::<Signals>(json).unwrap(), signals);
        // Whoever writes such a file leaves out what it does not know.
        assert_eq!(
            serde_json::from_str::<Signals>("{}").unwrap(),
            Signals::default()
        );
    }
}
