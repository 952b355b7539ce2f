//! What was measured of one server at several numbers of users.

use std::collections::BTreeMap;

use fathometer_model::Bandwidth;
use fathometer_queueing::{PerSecond, Seconds};

/// One measurement: a replicate of a study, or a result of a load test.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Exchanges per second.
    pub throughput: PerSecond,
    /// The mean latency of an exchange.
    pub response: Seconds,
    /// Measured percentiles: the latency by the percentage of exchanges that do not exceed it.
    pub percentiles: BTreeMap<u32, Seconds>,
    /// Processor time per time of the server's host, in cores.
    pub busy: f64,
    /// Bytes of packets per exchange in both directions, if they were counted.
    pub wire_bytes: Option<f64>,
}

/// All measurements with one number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The number of users.
    pub users: u32,
    /// The measurements; at least one.
    pub readings: Vec<Reading>,
}

impl Load {
    /// The mean of a figure over the readings.
    pub fn mean(&self, figure: impl Fn(&Reading) -> f64) -> f64 {
        self.readings.iter().map(figure).sum::<f64>() / self.readings.len() as f64
    }

    /// The mean throughput.
    pub fn throughput(&self) -> PerSecond {
        PerSecond(self.mean(|reading| reading.throughput.0))
    }

    /// The mean latency.
    pub fn response(&self) -> Seconds {
        Seconds(self.mean(|reading| reading.response.0))
    }

    /// The mean of a percentile, if all readings have it.
    pub fn percentile(&self, percent: u32) -> Option<Seconds> {
        let values: Option<Vec<f64>> = self
            .readings
            .iter()
            .map(|reading| reading.percentiles.get(&percent).map(|time| time.0))
            .collect();
        let values = values?;
        Some(Seconds(values.iter().sum::<f64>() / values.len() as f64))
    }
}

/// One server under several loads, all else equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The levels that distinguish it, as in `server=nginx workload=almeida-a`.
    pub name: String,
    /// Its loads by ascending number of users.
    pub loads: Vec<Load>,
    /// The processor that the server may use, in cores.
    pub cores: f64,
    /// The period of a quota on that processor; `None`: it has whole cores.
    pub quota_period: Option<Seconds>,
    /// The rate of the link, if known.
    pub link: Option<Bandwidth>,
    /// The round trip time of the path without load, if known.
    pub round_trip: Option<Seconds>,
    /// What a reader must know about it, one sentence each.
    pub notes: Vec<String>,
}

impl Series {
    /// The highest mean throughput.
    pub fn highest(&self) -> PerSecond {
        let rates = self.loads.iter().map(|load| load.throughput().0);
        PerSecond(rates.fold(0.0, f64::max))
    }

    /// The loads whose throughput is at most this share of the highest one.
    pub fn up_to(&self, share: f64) -> Vec<Load> {
        let limit = share * self.highest().0;
        let loads = self.loads.iter();
        loads
            .filter(|load| load.throughput().0 <= limit)
            .cloned()
            .collect()
    }

    /// The percentile beyond the median that the readings have; 99 when they have none.
    pub fn tail(&self) -> u32 {
        let has = |percent: &u32| {
            self.loads
                .iter()
                .all(|load| load.percentile(*percent).is_some())
        };
        [99, 98, 95].into_iter().find(has).unwrap_or(99)
    }
}

/// The standard deviation of a figure of one reading relative to the mean of its load, pooled over loads; 0 without
/// replicates.
pub fn pooled_deviation(loads: &[Load], figure: impl Fn(&Reading) -> f64) -> f64 {
    let mut squares = 0.0;
    let mut freedom = 0;
    for load in loads {
        let mean = load.mean(&figure);
        for reading in &load.readings {
            let deviation = figure(reading) / mean - 1.0;
            squares += deviation * deviation;
        }
        freedom += load.readings.len() - 1;
    }
    match freedom {
        0 => 0.0,
        _ => (squares / freedom as f64).sqrt(),
    }
}
