//! The measurements of one server at several numbers of users.

use std::collections::BTreeMap;

use fathometer_model::Bandwidth;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::page_cache::{DiskUse, LEAST_READS, PageCache};
use crate::scenario::{Change, Scenario};

/// One measurement: a replicate of a study, or a result of a load test.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The throughput.
    pub throughput: PerSecond,
    /// The mean latency of an exchange.
    pub response: Seconds,
    /// The measured percentiles of the latency, by the percentage.
    pub percentiles: BTreeMap<u32, Seconds>,
    /// The CPU time of the server's host per unit of time, in cores.
    pub busy: f64,
    /// The share of exchanges that failed.
    pub errors: f64,
    /// The disk use of an exchange, if it was measured.
    pub disk: Option<DiskUse>,
    /// The bytes of packets per exchange in both directions, if they were counted.
    pub wire_bytes: Option<f64>,
}

/// All measurements with one number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The number of users.
    pub users: u32,
    /// The measurements; at least one.
    pub readings: Vec<Reading>,
    /// Whether the measured latencies cover all exchanges. A window that is shorter than some exchanges does not contain their
    /// latencies.
    pub has_all_latencies: bool,
}

impl Load {
    /// Returns the mean of a figure over the readings.
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

    /// Returns the mean of a percentile, if all readings have it.
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

/// The measurements to which a network is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct FitData {
    /// Loads in a steady state.
    pub loads: Vec<Load>,
    /// Short bursts of many users. Only the CPU time per exchange is used: the time of an exchange among many
    /// exchanges, which light loads hardly show.
    pub bursts: Vec<Load>,
    /// The CPU time of an exchange among many at a light mean load, from batches.
    pub batches: Option<Batches>,
}

impl FitData {
    /// The loads, the bursts and the batches, which together determine the CPU time of an exchange.
    pub fn all(&self) -> Vec<Load> {
        let steady = self.loads.iter().chain(&self.bursts);
        let batches = self.batches.as_ref().map(|batches| &batches.load);
        steady.chain(batches).cloned().collect()
    }
}

/// The further exchanges of the largest batches: the difference between the largest and the second largest size. The
/// first exchanges of a batch find the server idle and need more CPU time than exchanges at a saturated server. In the
/// difference between two sizes, this effect cancels.
#[derive(Debug, Clone, PartialEq)]
pub struct Batches {
    /// The sizes of the batches that are used.
    pub sizes: Vec<u32>,
    /// The size of the smaller batches; 0 if there are no smaller batches, so that the whole larger batch is used.
    pub from: u32,
    /// The size of the larger batches.
    pub to: u32,
    /// The load of the larger batches, with the CPU time of the further exchanges.
    pub load: Load,
}

impl Batches {
    /// Returns the further exchanges of the largest of these loads; `None` if there are no loads. The number of users
    /// of a load is the size of its batches.
    ///
    /// # Errors
    /// When the further exchanges of a measurement have no positive CPU time.
    fn of(loads: &[&Load]) -> Result<Option<Batches>, PredictError> {
        let mut loads = loads.to_vec();
        loads.sort_by_key(|load| load.users);
        let Some(large) = loads.pop() else {
            return Ok(None);
        };
        let small = loads.pop();
        let demand = |reading: &Reading| reading.busy / reading.throughput.0;
        let further = |large_demand: f64, small_demand: f64| match small {
            None => large_demand,
            Some(small) => {
                let (to, from) = (f64::from(large.users), f64::from(small.users));
                (to * large_demand - from * small_demand) / (to - from)
            }
        };
        let with = |reading: &Reading, demand: f64| Reading {
            busy: demand * reading.throughput.0,
            ..reading.clone()
        };
        let readings: Vec<Reading> = match small {
            // A replicate has both sizes, with the same noise.
            Some(small) if small.readings.len() == large.readings.len() => {
                let pairs = large.readings.iter().zip(&small.readings);
                let each =
                    pairs.map(|(large, small)| with(large, further(demand(large), demand(small))));
                each.collect()
            }
            Some(small) => {
                let mean = further(large.mean(demand), small.mean(demand));
                let first = large.readings.iter().take(1);
                first.map(|reading| with(reading, mean)).collect()
            }
            None => large.readings.clone(),
        };
        let from = small.map_or(0, |small| small.users);
        if readings.iter().any(|reading| reading.busy <= 0.0) {
            return Err(PredictError::Unusable(format!(
                "batches of {} exchanges take no more CPU time than batches of {from}: measure longer, or other sizes",
                large.users
            )));
        }
        Ok(Some(Batches {
            sizes: small.iter().map(|_| from).chain([large.users]).collect(),
            from,
            to: large.users,
            load: Load {
                readings,
                ..large.clone()
            },
        }))
    }
}

/// The measured loads that are fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The largest throughput of a fitted load, as a share of the highest measured throughput.
    pub up_to: f64,
    /// The numbers of users of the fitted loads; empty for all.
    pub users: Vec<u32>,
    /// The numbers of users of bursts. Of a burst, only the CPU time of an exchange is used.
    pub bursts: Vec<u32>,
    /// The sizes of batches; the two largest are used. Empty for all batches with a throughput up to `up_to`, or for no
    /// batches if `users` is not empty.
    pub batches: Vec<u32>,
}

impl Default for Selection {
    /// Returns all steady loads and all batches.
    fn default() -> Selection {
        Selection {
            up_to: 1.0,
            users: Vec::new(),
            bursts: Vec::new(),
            batches: Vec::new(),
        }
    }
}

/// The known limits of the server's concurrency. Light loads do not show these limits, which are configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admission {
    /// The maximum number of exchanges that the server processes at a time; `None` if no limit is known.
    pub workers: Option<u32>,
    /// The listen backlog: the number of connections that may wait for a worker; `None` for the kernel's usual limit,
    /// [`USUAL_BACKLOG`].
    pub backlog: Option<u32>,
    /// The time-out of a client; `None` if clients do not give up.
    pub timeout: Option<Seconds>,
    /// The part of an exchange's delay before it needs a worker: round trips of the path.
    pub before: Seconds,
    /// Whether each exchange has its own connection; half of `before` is then the handshake.
    pub connects: bool,
    /// Whether users keep their connections. `workers` then limits the number of users that have a connection.
    pub keeps_connections: bool,
}

/// `net.core.somaxconn` of Linux since 5.4, which limits every backlog.
pub const USUAL_BACKLOG: u32 = 4096;

/// The largest share of failed exchanges of a load that is fitted.
pub(crate) const MOST_ERRORS: f64 = 0.01;

/// Whether a policy opens a connection for each exchange, as `h1.0` and `h1.0x4` do.
pub(crate) fn is_connection_each(policy: &str) -> bool {
    policy.starts_with("h1.0")
}

/// Returns the time before an exchange needs a worker: a round trip for its own connection, if it has one, and a round
/// trip for request and response.
pub(crate) fn before(round_trip: Seconds, has_own_connection: bool) -> Seconds {
    let trips = if has_own_connection { 2.0 } else { 1.0 };
    Seconds(trips * round_trip.0)
}

/// The limits of a server in a scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The number of workers.
    pub workers: u32,
    /// The number of connections that may wait for a worker.
    pub backlog: u32,
    /// The time-out of a client; `None` if clients do not give up.
    pub timeout: Option<Seconds>,
    /// The part of an exchange's delay before it needs a worker.
    pub before: Seconds,
    /// Whether half of `before` is the handshake of a connection.
    pub connects: bool,
}

impl Limits {
    /// The number of connections that may wait for a worker. Linux queues one connection more than the backlog
    /// (`sk_acceptq_is_full` of include/net/sock.h compares with "greater").
    pub fn queued(&self) -> u32 {
        self.backlog.saturating_add(1)
    }

    /// The number of exchanges for which the server and its accept queue have room.
    pub fn room(&self) -> u32 {
        self.workers.saturating_add(self.queued())
    }
}

impl Admission {
    /// Returns the number of workers in a scenario; `None` if no limit is known.
    pub fn workers(&self, scenario: &Scenario) -> Option<u32> {
        match (self.workers, scenario.workers) {
            (Some(measured), _) => Some(scenario.workers(measured)),
            (None, Some(Change::Value(workers))) => Some(workers),
            (None, _) => None,
        }
    }

    /// Returns the backlog in a scenario.
    pub fn backlog(&self, scenario: &Scenario) -> u32 {
        scenario.backlog(self.backlog.unwrap_or(USUAL_BACKLOG))
    }

    /// Returns the limits in a scenario, if they affect this number of users; `None` if there is a worker for each
    /// user.
    pub fn limits(&self, scenario: &Scenario, users: u32) -> Option<Limits> {
        let workers = self.workers(scenario)?;
        (workers < users && !self.keeps_connections).then_some(Limits {
            workers,
            backlog: self.backlog(scenario),
            timeout: self.timeout,
            before: self.before,
            connects: self.connects,
        })
    }

    /// Returns the maximum number of users that have a connection in a scenario; `None` if no limit is known.
    pub fn most_users(&self, scenario: &Scenario) -> Option<u32> {
        self.workers(scenario).filter(|_| self.keeps_connections)
    }

    /// Returns the reason why a scenario cannot be predicted; `None` if it can.
    pub fn refusal(&self, scenario: &Scenario) -> Option<String> {
        let is_factor = |change: Option<Change<u32>>| matches!(change, Some(Change::Times(_)));
        let is_known = self.workers(scenario).is_some();
        if is_factor(scenario.workers) && !is_known {
            return Some(
                "a light load does not show how many workers the server has; set --workers N"
                    .to_owned(),
            );
        }
        if scenario.backlog.is_some() && !is_known {
            return Some(
                "a backlog has no effect as long as there is a worker for each exchange; set the workers with --workers N"
                    .to_owned(),
            );
        }
        None
    }
}

/// The period and the burst of a CPU quota.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaTimes {
    /// The period in which the quota may be used.
    pub period: Seconds,
    /// The unused CPU time of earlier periods that may be used later.
    pub burst: Seconds,
}

/// The measurements of one server under several loads, with all other conditions equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The levels that distinguish the series from others, as in `server=nginx workload=almeida-a`.
    pub name: String,
    /// The loads, by ascending number of users.
    pub loads: Vec<Load>,
    /// Open loops whose exchanges arrive in batches, by ascending batch size, which is in [`Load::users`].
    pub batches: Vec<Load>,
    /// Whether the readings have the server's CPU time; if not, their `busy` is 0.
    pub has_processor_time: bool,
    /// The CPU capacity that the server may use, in cores.
    pub cores: f64,
    /// The CPU quota of the server; `None` for whole cores.
    pub quota: Option<QuotaTimes>,
    /// The rate of the link, if known.
    pub link: Option<Bandwidth>,
    /// The round-trip time of the path without load, if known.
    pub round_trip: Option<Seconds>,
    /// The probabilities that slow start adds 0, 1, 2, … round trips to a response; empty if unknown.
    pub further_trips: Vec<f64>,
    /// The name of the server's definition (the level of the factor `server`), if known.
    pub server: Option<String>,
    /// The known limits of the server's concurrency.
    pub admission: Admission,
    /// The page cache of the server's host, or the reason why it is unknown.
    pub page_cache: Result<PageCache, String>,
    /// Loads with too many failed exchanges for a fit; predictions are compared with them.
    pub failing: Vec<Load>,
    /// Notes for the reader about the series, one sentence each.
    pub notes: Vec<String>,
}

impl Series {
    /// The highest mean throughput.
    pub fn highest(&self) -> PerSecond {
        let rates = self.loads.iter().map(|load| load.throughput().0);
        PerSecond(rates.fold(0.0, f64::max))
    }

    /// The loads with which predictions are compared. If the workers are unknown, the model does not predict failures, and
    /// loads with too many failures are left out.
    pub fn measured(&self) -> impl Iterator<Item = &Load> {
        let failing = self.failing.iter();
        let failing = failing.filter(|_| self.admission.workers.is_some());
        self.loads.iter().chain(failing)
    }

    /// Returns the selected loads, bursts and batches.
    ///
    /// # Errors
    /// When a selected number of users or batch size was not measured.
    pub fn fit_data(&self, selection: &Selection) -> Result<FitData, PredictError> {
        let Selection {
            up_to,
            users,
            bursts,
            batches,
        } = selection;
        let is_among = |loads: &[Load], users: u32| loads.iter().any(|load| load.users == users);
        let named = users.iter().chain(bursts);
        if let Some(users) = named.copied().find(|&users| !is_among(&self.loads, users)) {
            return Err(PredictError::Unusable(format!(
                "no load of {users} users can be fitted: it was not measured, or is not valid"
            )));
        }
        if let Some(size) = batches
            .iter()
            .copied()
            .find(|&size| !is_among(&self.batches, size))
        {
            return Err(PredictError::Unusable(format!(
                "no load of batches of {size} exchanges can be fitted: it was not measured, or is not valid"
            )));
        }
        let limit = up_to * self.highest().0;
        let is_light = |load: &Load| *up_to >= 1.0 || load.throughput().0 <= limit;
        let is_fitted = |load: &&Load| {
            load.has_all_latencies
                && is_light(load)
                && (users.is_empty() || users.contains(&load.users))
                && !bursts.contains(&load.users)
        };
        let is_burst = |load: &&Load| bursts.contains(&load.users);
        let is_batch = |load: &&Load| match batches.is_empty() {
            true => users.is_empty() && is_light(load),
            false => batches.contains(&load.users),
        };
        Ok(FitData {
            loads: self.loads.iter().filter(is_fitted).cloned().collect(),
            bursts: self.loads.iter().filter(is_burst).cloned().collect(),
            batches: Batches::of(&self.batches.iter().filter(is_batch).collect::<Vec<_>>())?,
        })
    }

    /// The highest of the percentiles 99, 98 and 95 that all loads have; 99 if they have none of these.
    pub fn tail(&self) -> u32 {
        let has = |percent: &u32| {
            self.loads
                .iter()
                .all(|load| load.percentile(*percent).is_some())
        };
        [99, 98, 95].into_iter().find(has).unwrap_or(99)
    }
}

/// Returns the mean disk use of an exchange over the readings of these loads; zero if a reading has no disk use.
pub fn disk_use(loads: &[Load]) -> DiskUse {
    let readings = loads.iter().flat_map(|load| &load.readings);
    let uses: Option<Vec<DiskUse>> = readings.map(|reading| reading.disk).collect();
    let uses = uses.unwrap_or_default();
    let count = uses.len().max(1) as f64;
    let reads = uses.iter().map(|disk| disk.reads).sum::<f64>() / count;
    let time = uses.iter().map(|disk| disk.time.0).sum::<f64>() / count;
    match reads >= LEAST_READS {
        true => DiskUse {
            reads,
            time: Seconds(time),
        },
        false => DiskUse::default(),
    }
}

/// Returns the standard deviation of a figure of a reading, relative to the mean of its load and pooled over loads; 0
/// without replicates.
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
