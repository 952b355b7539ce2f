//! What was measured of one server at several numbers of users.

use std::collections::BTreeMap;

use fathometer_model::Bandwidth;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::page_cache::{DiskUse, LEAST_READS, PageCache};
use crate::scenario::{Change, Scenario};

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
    /// The share of exchanges that failed.
    pub errors: f64,
    /// What an exchange takes at the disk, if it was measured.
    pub disk: Option<DiskUse>,
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
    /// Whether the measured latencies are those of all exchanges: windows that are shorter than some exchanges leave these out.
    pub has_all_latencies: bool,
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

/// What a network is fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct FitData {
    /// Loads in a steady state.
    pub loads: Vec<Load>,
    /// Short bursts of many users. Only the processor time of their exchanges is used: what a server needs for an exchange
    /// among many, which light loads hardly show.
    pub bursts: Vec<Load>,
    /// What exchanges cost that find many others, as batches show it at a light load.
    pub batches: Option<Batches>,
}

impl FitData {
    /// The loads, the bursts and the batches: all that determines the processor time of an exchange.
    pub fn all(&self) -> Vec<Load> {
        let steady = self.loads.iter().chain(&self.bursts);
        let batches = self.batches.as_ref().map(|batches| &batches.load);
        steady.chain(batches).cloned().collect()
    }
}

/// The further exchanges of the largest batches, beyond those of the next smaller ones. The first exchanges of a batch find the
/// server idle and cost more than those of a saturated server; the difference between two sizes is free of that.
#[derive(Debug, Clone, PartialEq)]
pub struct Batches {
    /// The sizes of the batches that are used.
    pub sizes: Vec<u32>,
    /// The size of the smaller ones; 0: there are none, and the whole batch is used.
    pub from: u32,
    /// The size of the larger ones.
    pub to: u32,
    /// The larger batches; the processor time is that of their further exchanges.
    pub load: Load,
}

impl Batches {
    /// The further exchanges of the largest of these loads; `None` without one. The number of users of a load is the size of its
    /// batches.
    ///
    /// # Errors
    /// When a measurement has no processor time for them.
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
            // A replicate has both sizes, and their noise is the same.
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
                "batches of {} exchanges take no more processor time than those of {from}: measure longer, or other sizes",
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

/// Which of the measured loads are fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Those whose throughput is at most this share of the highest measured one.
    pub up_to: f64,
    /// Of these, only loads with these numbers of users; empty: all.
    pub users: Vec<u32>,
    /// The numbers of users of bursts, of which only the processor time of an exchange is used.
    pub bursts: Vec<u32>,
    /// The sizes of batches, of which the two largest are used; empty: all batches up to that share, or none if `users` are
    /// named.
    pub batches: Vec<u32>,
}

impl Default for Selection {
    /// All steady loads and all batches.
    fn default() -> Selection {
        Selection {
            up_to: 1.0,
            users: Vec::new(),
            bursts: Vec::new(),
            batches: Vec::new(),
        }
    }
}

/// How the server admits exchanges, as far as it is known. Light loads do not show it: it is configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admission {
    /// The most exchanges that the server processes at a time; `None`: no limit is known.
    pub workers: Option<u32>,
    /// The listen backlog: how many connections may wait for a worker; `None`: the kernel's usual limit,
    /// [`USUAL_BACKLOG`].
    pub backlog: Option<u32>,
    /// After what time a client gives up, if it does.
    pub timeout: Option<Seconds>,
    /// The part of the delay of an exchange before it needs a worker: round trips of the path.
    pub before: Seconds,
    /// Each exchange has a connection of its own: half of `before` is its handshake.
    pub connects: bool,
    /// Users keep their connections, and `workers` limits connections: further users have none.
    pub keeps_connections: bool,
}

/// `net.core.somaxconn` of Linux since 5.4, which limits every backlog.
pub const USUAL_BACKLOG: u32 = 4096;

/// Loads of which a larger share of the exchanges failed are not fitted.
pub(crate) const MOST_ERRORS: f64 = 0.01;

/// Whether a policy has a connection for each exchange: `h1.0`, and `h1.0x4`.
pub(crate) fn is_connection_each(policy: &str) -> bool {
    policy.starts_with("h1.0")
}

/// The round trips before an exchange needs a worker: that of its own connection, and that of request and response.
pub(crate) fn before(round_trip: Seconds, has_own_connection: bool) -> Seconds {
    let trips = if has_own_connection { 2.0 } else { 1.0 };
    Seconds(trips * round_trip.0)
}

/// The limits of a server in a scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The workers.
    pub workers: u32,
    /// Connections that may wait for one.
    pub backlog: u32,
    /// After what time a client gives up, if it does.
    pub timeout: Option<Seconds>,
    /// The part of the delay of an exchange before it needs a worker.
    pub before: Seconds,
    /// Half of that is the handshake of a connection.
    pub connects: bool,
}

impl Limits {
    /// Connections that may wait for a worker. Linux queues one more than the backlog states (`sk_acceptq_is_full` of
    /// include/net/sock.h compares by "greater").
    pub fn queued(&self) -> u32 {
        self.backlog.saturating_add(1)
    }

    /// How many exchanges the server and its accept queue hold.
    pub fn room(&self) -> u32 {
        self.workers.saturating_add(self.queued())
    }
}

impl Admission {
    /// The workers in a scenario; `None`: no limit is known.
    pub fn workers(&self, scenario: &Scenario) -> Option<u32> {
        match (self.workers, scenario.workers) {
            (Some(measured), _) => Some(scenario.workers(measured)),
            (None, Some(Change::Value(workers))) => Some(workers),
            (None, _) => None,
        }
    }

    /// The backlog in a scenario.
    pub fn backlog(&self, scenario: &Scenario) -> u32 {
        scenario.backlog(self.backlog.unwrap_or(USUAL_BACKLOG))
    }

    /// The limits in a scenario that have an effect on this number of users; `None`: each of them has a worker.
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

    /// The most users that have a connection in a scenario; `None`: no limit is known.
    pub fn most_users(&self, scenario: &Scenario) -> Option<u32> {
        self.workers(scenario).filter(|_| self.keeps_connections)
    }

    /// Why a scenario cannot be predicted; `None`: it can.
    pub fn refusal(&self, scenario: &Scenario) -> Option<String> {
        let is_factor = |change: Option<Change<u32>>| matches!(change, Some(Change::Times(_)));
        let is_known = self.workers(scenario).is_some();
        if is_factor(scenario.workers) && !is_known {
            return Some(
                "a light load does not show how many workers the server has; state them with --workers N".to_owned(),
            );
        }
        if scenario.backlog.is_some() && !is_known {
            return Some(
                "a backlog has no effect as long as there is a worker for each exchange; state the workers with --workers N"
                    .to_owned(),
            );
        }
        None
    }
}

/// How a quota of a processor is granted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaTimes {
    /// The period in which the quota may be used.
    pub period: Seconds,
    /// How much processor time of earlier periods may be used later.
    pub burst: Seconds,
}

/// One server under several loads, all else equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The levels that distinguish it, as in `server=nginx workload=almeida-a`.
    pub name: String,
    /// Its loads by ascending number of users.
    pub loads: Vec<Load>,
    /// Open loops whose exchanges arrive in batches, by ascending size, which is their number of users.
    pub batches: Vec<Load>,
    /// The processor that the server may use, in cores.
    pub cores: f64,
    /// How that processor is granted as a quota; `None`: whole cores.
    pub quota: Option<QuotaTimes>,
    /// The rate of the link, if known.
    pub link: Option<Bandwidth>,
    /// The round trip time of the path without load, if known.
    pub round_trip: Option<Seconds>,
    /// The probabilities that a response takes no round trip more than that of its request, one more, and so on, by slow start;
    /// empty: not known.
    pub further_trips: Vec<f64>,
    /// The server's definition, if it is known: the level of the factor `server`.
    pub server: Option<String>,
    /// How the server admits exchanges.
    pub admission: Admission,
    /// The page cache of the server's host, or why it is not known.
    pub page_cache: Result<PageCache, String>,
    /// Loads of which too many exchanges failed to be fitted; predictions are compared with them.
    pub failing: Vec<Load>,
    /// What a reader must know about it, one sentence each.
    pub notes: Vec<String>,
}

impl Series {
    /// The highest mean throughput.
    pub fn highest(&self) -> PerSecond {
        let rates = self.loads.iter().map(|load| load.throughput().0);
        PerSecond(rates.fold(0.0, f64::max))
    }

    /// The loads with which predictions are compared. Without known workers the model has no reason for failures, and loads
    /// with too many of them are left out.
    pub fn measured(&self) -> impl Iterator<Item = &Load> {
        let failing = self.failing.iter();
        let failing = failing.filter(|_| self.admission.workers.is_some());
        self.loads.iter().chain(failing)
    }

    /// The selected loads.
    ///
    /// # Errors
    /// When a number of users or a size of batches was not measured.
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

/// What an exchange takes at the disk: the mean over the readings of these loads; nothing when one has none.
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
