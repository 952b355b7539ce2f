//! The measurements of one load, with unchanged limits or with one limit changed.

use std::time::Duration;

use fathometer_model::{Bytes, Validity};
use serde::{Deserialize, Serialize};

use super::Resource;

/// The multiplication of one limit by a factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The limit.
    pub resource: Resource,
    /// The factor that was applied: 1.25 is 25 % more. A backlog that is raised from 5 to 6 has the factor
    /// 1.2. It is above zero, finite, and not 1. For [`Resource::RoundTrip`] it multiplies the time, so 0.8
    /// is a relief; for [`Resource::Load`] it multiplies users or rate.
    pub factor: f64,
}

impl Change {
    /// The natural logarithm of the factor, positive when the change is a relief: more of the resource, or a
    /// shorter round trip. `None` when the factor is not a valid change.
    pub fn relief(self) -> Option<f64> {
        let logarithm = self.factor.ln();
        let relief = match self.resource.less_is_better() {
            true => -logarithm,
            false => logarithm,
        };
        (relief.is_finite() && relief != 0.0).then_some(relief)
    }
}

/// The measurements of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The limit that was changed; `None` for the unchanged load (the baseline).
    pub change: Option<Change>,
    /// The number of the replicate. Observations with the same number used the same random numbers and are
    /// compared with each other.
    pub replicate: u32,
    /// Exchanges per second that completed without an error.
    pub throughput_per_s: f64,
    /// Bytes of useful content per second.
    // Records of older versions use this name.
    #[serde(alias = "goodput_octets_per_s")]
    pub goodput_bytes_per_s: f64,
    /// Mean corrected latency.
    #[serde(with = "seconds")]
    pub latency_mean: Duration,
    /// 98th percentile of corrected latency.
    #[serde(with = "seconds")]
    pub latency_p98: Duration,
    /// Share of exchanges that failed or had a status of 400 and above, 0 to 1.
    pub errors: f64,
    /// The measurements of the probes during the load.
    pub signals: Signals,
    /// Whether the generator and the path were valid.
    pub validity: Validity,
}

/// Measurements of the probes during the measured window. `None` means not available; it never stands for zero.
///
/// Shares are from 0 to 1. Rates are means over the window. Queue lengths and numbers of connections are means
/// of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signals {
    /// CPU time available to the host, in cores: its quota, or the number of its processors.
    pub cpu_quota_cores: Option<f64>,
    /// Share of the available CPU time that the host used.
    pub cpu_of_quota: Option<f64>,
    /// Share of the quota's periods in which the host used up the quota.
    pub throttled_periods: Option<f64>,
    /// CPU time of the server's busiest thread, as a share of one core.
    pub busiest_thread: Option<f64>,
    /// CPU time of the host per exchange.
    #[serde(with = "optional_seconds")]
    pub cpu_per_exchange: Option<Duration>,
    /// Share of the time in which a task of the host waited for a processor (PSI, some).
    pub cpu_pressure: Option<f64>,
    /// Share of the whole machine's CPU time that was idle, that is, not used by the host, the generator,
    /// the path or other programs.
    pub machine_idle: Option<f64>,

    /// The host's memory limit.
    pub memory_limit: Option<Bytes>,
    /// Share of the memory limit in use, including the page cache. A page cache fills all available memory, so
    /// a value of 1 alone is weak evidence.
    pub memory_of_limit: Option<f64>,
    /// Pages of files per second that were read again after eviction from memory (refaults).
    pub refaults_per_s: Option<f64>,
    /// Bytes per second paged in from disks.
    pub page_in_bytes_per_s: Option<f64>,
    /// Page faults per second that waited for a disk.
    pub major_faults_per_s: Option<f64>,
    /// Share of the time in which a task of the host waited for memory (PSI, some).
    pub memory_pressure: Option<f64>,

    /// Bytes per second read from the disk.
    pub disk_read_bytes_per_s: Option<f64>,
    /// The limit of bytes per second read from the disk.
    pub disk_bytes_limit_per_s: Option<f64>,
    /// Read operations per second.
    pub disk_reads_per_s: Option<f64>,
    /// The limit of read operations per second.
    pub disk_reads_limit_per_s: Option<f64>,
    /// Share of the time in which the disk was busy.
    pub disk_busy: Option<f64>,
    /// Share of the time in which a task of the host waited for a disk (PSI, some).
    pub io_pressure: Option<f64>,

    /// Utilisation of the link towards the server, as a share of its capacity.
    pub link_up: Option<f64>,
    /// Utilisation of the link towards the clients, as a share of its capacity.
    pub link_down: Option<f64>,
    /// Packets per second that the path's queues dropped because they were full.
    pub queue_drops_per_s: Option<f64>,
    /// Retransmitted segments as a share of the segments sent.
    pub retransmitted: Option<f64>,
    /// The round-trip time of the idle path.
    #[serde(with = "optional_seconds")]
    pub round_trip: Option<Duration>,
    /// The sending rate of a connection, as a share of the rate that its window allows (window divided by round
    /// trip). Near 1, the window limits the connection.
    pub rate_of_window: Option<f64>,
    /// Share of a sender's busy time in which it waited for the peer's receive window.
    pub receive_window_limited: Option<f64>,
    /// Share of a sender's busy time in which it waited for room in its send buffer.
    pub send_buffer_limited: Option<f64>,

    /// Connections per second that found the accept queue full.
    pub listen_overflows_per_s: Option<f64>,
    /// Mean number of connections that waited to be accepted.
    pub accept_queue: Option<f64>,
    /// The longest accept queue that the server allows.
    pub backlog: Option<f64>,
    /// Mean number of established connections, without those that waited to be accepted.
    pub established: Option<f64>,
    /// The number of connections or requests that the server can work on at the same time.
    pub worker_limit: Option<f64>,

    /// Share of exchanges that were refused or reset.
    pub refused: Option<f64>,
    /// Share of exchanges that timed out.
    pub timed_out: Option<f64>,

    /// Mean time from the planned instant until a connection is free, without the time to connect.
    #[serde(with = "optional_seconds")]
    pub queue: Option<Duration>,
    /// Mean time that an exchange spent on connecting, over all exchanges, including those that opened no
    /// connection.
    #[serde(with = "optional_seconds")]
    pub connect: Option<Duration>,
    /// Mean time from the first byte of a request to the first byte of its response.
    #[serde(with = "optional_seconds")]
    pub first_byte: Option<Duration>,
    /// Mean time from the first byte of a response to its last byte.
    #[serde(with = "optional_seconds")]
    pub transfer: Option<Duration>,

    /// 99th percentile of the generator's send lag.
    #[serde(with = "optional_seconds")]
    pub send_lag_p99: Option<Duration>,
    /// Share of the window in which the generator's busiest thread did not wait.
    pub generator_busy: Option<f64>,
    /// Mean number of exchanges in flight (Little's Load Factor).
    pub concurrency: Option<f64>,
    /// Number of users of a closed loop.
    pub users: Option<f64>,
    /// The offered rate of an open loop, in exchanges per second.
    pub offered_per_s: Option<f64>,
    /// The achieved rate, in exchanges per second.
    pub achieved_per_s: Option<f64>,
}

impl Signals {
    /// The means of the signals of several loads. Each mean includes the loads that have the signal.
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

/// The means of the times and of the memory limit; all other signals are `None`.
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

/// Times in seconds.
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

/// Times in seconds, `null` when absent.
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
        // Other programs that write such a file may leave out unknown signals.
        assert_eq!(
            serde_json::from_str::<Signals>("{}").unwrap(),
            Signals::default()
        );
    }
}
