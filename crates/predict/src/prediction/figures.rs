//! The figures of a prediction.

use serde::Serialize;

use crate::law::Law;

/// A figure with its prediction interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The prediction.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The measured figure at the same load, and the error of the prediction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The mean over the replicates.
    pub measured: f64,
    /// The error as a share: predicted divided by measured, minus 1.
    pub error_share: f64,
    /// Whether the measured mean is within the prediction interval.
    pub within: bool,
}

/// The workers and the accept queue at one number of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkersRow {
    /// The busy share of the workers.
    pub busy_share: f64,
    /// The mean number of connections in the accept queue.
    pub waiting: f64,
    /// The number of SYNs that find the accept queue full, per exchange.
    pub overflows_per_exchange: f64,
    /// The share of exchanges that fail because the accept queue is full: the client or TCP gives up.
    pub errors_share: f64,
    /// The share of exchanges that failed for any reason, if the load was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_measured_share: Option<f64>,
}

/// The predictions for one number of users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The number of users.
    pub users: u32,
    /// Whether the load was used for the fit.
    pub fitted: bool,
    /// Whether the load was a burst, of which only the CPU time was used.
    pub burst: bool,
    /// Whether the throughput or the number of users is larger than in all fitted loads.
    pub extrapolated: bool,
    /// The number of completed exchanges per second.
    pub throughput_per_s: Figure,
    /// The asymptotic upper bound of the throughput.
    pub bound_per_s: f64,
    /// The mean latency of completed exchanges.
    pub mean_ms: Figure,
    /// The median latency.
    pub p50_ms: Figure,
    /// The latency at the prediction's `tail_percent`.
    pub tail_ms: Figure,
    /// The busy share of the processor.
    pub processor_share: f64,
    /// The busy share of the link; absent if its rate is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_share: Option<f64>,
    /// The busy share of the disk; absent if there are no disk reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_share: Option<f64>,
    /// The workers; absent if their number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersRow>,
    /// The station with the highest utilisation; the workers only if no station that they wait for is saturated.
    pub bottleneck: &'static str,
    /// Whether that station is saturated.
    pub saturated: bool,
    /// The throughput, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_compared: Option<Compared>,
    /// The mean latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_compared: Option<Compared>,
    /// The tail latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_compared: Option<Compared>,
}

/// The effect of a scenario at one number of users, compared with the measured server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The number of users before the change of the scenario.
    pub users: u32,
    /// The change of the throughput as a share.
    pub throughput_share: Figure,
    /// The change of the mean latency as a share.
    pub mean_share: Figure,
}

/// The workers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkersModel {
    /// The number of workers in this scenario.
    pub count: u32,
    /// The listen backlog in this scenario.
    pub backlog: u32,
    /// The time for which an exchange holds a worker without queueing.
    pub held_ms: f64,
    /// The time-out of a client; absent if clients do not give up, or if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// The page cache of the server's host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageCacheModel {
    /// The size of the page cache in this scenario.
    pub bytes: u64,
    /// The share of requests whose file is in memory, by Che's approximation.
    pub hits_share: f64,
    /// The number of disk reads per exchange.
    pub reads_per_exchange: f64,
    /// The time of an exchange at the disk, without queueing.
    pub disk_ms: f64,
}

/// All predictions for a series and a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The name of the series.
    pub series: String,
    /// The scenario: the differences from the measurement.
    pub scenario: String,
    /// The law of the CPU time.
    pub law: Law,
    /// The number of other laws that pass the check; they widen the intervals.
    pub other_laws: usize,
    /// The reasons why laws were rejected.
    pub rejected: Vec<String>,
    /// The fitted time of an exchange outside the processor, the link and the disk.
    pub delay_ms: f64,
    /// The think time of a user.
    pub think_ms: f64,
    /// The server's CPU capacity in this scenario, in cores.
    pub cores: f64,
    /// The page cache; absent if there are no disk reads and the memory does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheModel>,
    /// The workers; absent if their number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersModel>,
    /// The residual of the CPU time and its limit, as shares.
    pub residual_busy: [f64; 2],
    /// The residual of the throughput and its limit, as shares.
    pub residual_throughput: [f64; 2],
    /// The residual of the mean latency and its limit, as shares.
    pub residual_mean: [f64; 2],
    /// The numbers of users of the fitted loads.
    pub fitted_users: Vec<u32>,
    /// The numbers of users of the bursts.
    pub burst_users: Vec<u32>,
    /// The sizes of the batches.
    pub batch_sizes: Vec<u32>,
    /// The number of fitted replicates or results, including bursts and batches.
    pub fitted_readings: usize,
    /// The number of users from which exchanges queue: where the asymptotes of the throughput cross.
    pub crossing_users: f64,
    /// The percentile of `tail_ms`.
    pub tail_percent: u32,
    /// The predictions by number of users.
    pub rows: Vec<Row>,
    /// The effect of the scenario at the largest measured number of users; absent if the scenario has no changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}
