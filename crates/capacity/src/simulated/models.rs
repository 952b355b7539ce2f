//! Models of the servers: from queueing theory, and deterministic ones.

use fathometer_model::Seed;

/// The state of a server.
#[derive(Debug, Clone)]
pub enum Model {
    /// Constant service times.
    Bucket(Bucket),
    /// Exponential service times at workers behind one queue.
    Pool {
        /// Each worker's rate per second.
        rate: f64,
        /// The time from which each worker is free.
        free: Vec<f64>,
        /// The round-trip time of the path in front of the server, in seconds.
        path: f64,
        /// Random draws of service times; `None` if they are constant.
        draws: Option<Seed>,
        /// Number of draws so far.
        count: u64,
    },
    /// Rejects requests for which a token bucket has no token, as nginx's `limit_req` with `nodelay`.
    Rejecting {
        /// Tokens per second.
        rate: f64,
        /// Maximum number of tokens.
        burst: f64,
        /// Number of tokens at the instant `at`.
        tokens: f64,
        /// The instant of `tokens`.
        at: f64,
    },
    /// Fails all requests at the start of each period, at any rate; above a rate, if there is one, it always fails.
    Outages {
        /// Seconds from the start of an outage to the start of the next.
        period: f64,
        /// Seconds of each outage.
        outage: f64,
        /// Seconds from the start of a period to the start of the search.
        phase: f64,
        /// The rate above which all requests fail.
        overload: Option<f64>,
        /// The offered rate.
        offered: f64,
    },
    /// Latencies and failures that depend on the offered rate alone.
    Rate {
        /// The capacity.
        capacity: f64,
        /// Mean latency at the capacity, in seconds.
        mean: f64,
        /// The exponent of the rate in the latency, or in the share of failures if `failing` is not 0.
        exponent: f64,
        /// The share of failures at the capacity; 0 if the latency grows instead.
        failing: f64,
        /// Random draws.
        draws: Seed,
        /// Number of draws so far.
        count: u64,
        /// The offered rate.
        offered: f64,
        /// The time at which the last response is complete.
        idle: f64,
    },
}

/// A queue with a constant service time.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    rate: f64,
    /// The time at which the last request leaves.
    last: f64,
    /// The slowdown factor in collapse; 1 for a bucket that never collapses.
    collapse: f64,
    collapsed: bool,
    /// Additional latency at the start of a trial, in seconds.
    cliff: f64,
    warm_from: f64,
    arrived: f64,
}

/// Number of waiting requests at which a server collapses.
const KNEE: f64 = 50.0;
/// Latency of a bucket without a queue, in seconds.
const BASE: f64 = 0.002;
const CLIFF: f64 = 3.0;

impl Bucket {
    pub(super) fn new(rate: f64) -> Bucket {
        Bucket {
            rate,
            last: 0.0,
            collapse: 1.0,
            collapsed: false,
            cliff: 0.0,
            warm_from: 0.0,
            arrived: -1e9,
        }
    }

    /// Creates a bucket with an additional latency, in seconds, after each pause.
    pub(super) fn cold(rate: f64, cliff: f64) -> Bucket {
        Bucket {
            cliff,
            ..Bucket::new(rate)
        }
    }

    /// Creates a bucket that is slower by the factor `collapse` above its knee.
    pub(super) fn collapsing(rate: f64, collapse: f64) -> Bucket {
        Bucket {
            collapse,
            ..Bucket::new(rate)
        }
    }

    fn respond(&mut self, at: f64) -> f64 {
        if at - self.arrived > 0.05 && self.cliff > 0.0 {
            self.warm_from = at + CLIFF;
        }
        self.arrived = at;
        let waiting = (self.last - at).max(0.0) * self.rate;
        self.collapsed =
            self.collapse > 1.0 && (waiting > KNEE || (self.collapsed && waiting > 0.0));
        let service = if self.collapsed { self.collapse } else { 1.0 } / self.rate;
        // A token is available 1/rate after the last request. A request that arrives later does not wait.
        self.last = self.last.max(at - 1.0 / self.rate) + service;
        let cold = if at < self.warm_from { self.cliff } else { 0.0 };
        (self.last - at).max(0.0) + BASE + cold
    }
}

impl Model {
    pub(super) fn bucket(rate: f64) -> Model {
        Model::Bucket(Bucket::new(rate))
    }

    pub(super) fn pool(rate: f64, workers: usize, path: f64, draws: Seed) -> Model {
        Model::Pool {
            rate,
            free: vec![0.0; workers],
            path,
            draws: Some(draws),
            count: 0,
        }
    }

    /// Creates workers with a constant service time.
    pub(super) fn workers(rate: f64, workers: usize) -> Model {
        Model::Pool {
            rate,
            free: vec![0.0; workers],
            path: 0.0,
            draws: None,
            count: 0,
        }
    }

    /// Creates a server whose latency grows with a power of the rate; at the capacity, the mean latency is `mean`
    /// seconds.
    pub(super) fn degrading(capacity: f64, mean: f64, exponent: f64, draws: Seed) -> Model {
        Model::Rate {
            capacity,
            mean,
            exponent,
            failing: 0.0,
            draws,
            count: 0,
            offered: 0.0,
            idle: 0.0,
        }
    }

    /// Creates a server whose share of failures grows with a power of the rate: `failing` is the share at the capacity.
    pub(crate) fn failing(
        capacity: f64,
        mean: f64,
        (failing, exponent): (f64, f64),
        draws: Seed,
    ) -> Model {
        Model::Rate {
            capacity,
            mean,
            exponent,
            failing,
            draws,
            count: 0,
            offered: 0.0,
            idle: 0.0,
        }
    }

    /// Sets the rate of a trial.
    pub fn begin(&mut self, rate: f64) {
        if let Model::Rate { offered, .. } | Model::Outages { offered, .. } = self {
            *offered = rate;
        }
    }

    /// Returns the latency of a request that arrives at an instant, in seconds, and whether it fails.
    pub fn respond(&mut self, at: f64) -> (f64, bool) {
        match self {
            Model::Bucket(bucket) => (bucket.respond(at), false),
            Model::Rejecting {
                rate,
                burst,
                tokens,
                at: before,
            } => {
                *tokens = (*tokens + (at - *before) * *rate).min(*burst);
                *before = at;
                let is_refused = *tokens < 1.0;
                *tokens -= if is_refused { 0.0 } else { 1.0 };
                (1e-3, is_refused)
            }
            Model::Outages {
                period,
                outage,
                phase,
                overload,
                offered,
            } => {
                let is_overload = overload.is_some_and(|most| *offered > most);
                (1e-3, is_overload || (at + *phase) % *period < *outage)
            }
            Model::Pool {
                rate,
                free,
                path,
                draws,
                count,
            } => {
                let service = draws.map_or(1.0, |draws| exponential(draws, *count)) / *rate;
                *count += 1;
                let first =
                    (1..free.len()).fold(0, |best, n| if free[n] < free[best] { n } else { best });
                free[first] = free[first].max(at) + service;
                (free[first] - at + *path, false)
            }
            Model::Rate {
                capacity,
                mean,
                exponent,
                failing,
                draws,
                count,
                offered,
                idle,
            } => {
                let growth = libm::pow(*offered / *capacity, *exponent);
                *count += 2;
                let slower = if *failing > 0.0 { 1.0 } else { growth };
                let latency = (*mean * slower * exponential(*draws, *count)).min(10.0);
                *idle = idle.max(at + latency);
                (latency, draws.uniform(*count + 1) < *failing * growth)
            }
        }
    }

    /// The time at which the last response is complete.
    pub fn idle_at(&self) -> f64 {
        match self {
            Model::Bucket(bucket) => bucket.last,
            Model::Rejecting { at, .. } => *at,
            Model::Outages { .. } => 0.0,
            Model::Pool { free, path, .. } => free.iter().copied().fold(0.0, f64::max) + path,
            Model::Rate { idle, .. } => *idle,
        }
    }
}

fn exponential(draws: Seed, count: u64) -> f64 {
    -libm::log(1.0 - draws.uniform(count))
}
