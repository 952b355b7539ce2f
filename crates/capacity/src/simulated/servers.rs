//! The servers. Each is a model from queueing theory, or a deterministic machine, whose capacity has a closed form.

use fathometer_model::Seed;
use serde::Serialize;

use super::arrivals::Arrivals;
use crate::promise::Promise;

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One request leaves every 1/c seconds; c is the capacity.
    TokenBucket,
    /// Exponential service times at one worker.
    MM1,
    /// Exponential service times at 16 workers behind one queue.
    WorkerPool,
    /// Constant service times at 16 workers behind one queue; 8 on sockets.
    Workers,
    /// Serves in constant time until 50 requests wait, and three times slower from then on until none waits.
    Collapses,
    /// Latencies that grow with the third power of the rate; nothing waits.
    DegradesSlowly,
    /// Fails more and more requests: the share grows with the 30th power of the rate.
    Fails,
    /// A token bucket that is slow for the first 3 s after each pause.
    WarmUpCliff,
    /// The worker pool behind a path of 80 ms.
    BehindPath,
}

/// All kinds.
pub const KINDS: [Kind; 8] = [
    Kind::TokenBucket,
    Kind::MM1,
    Kind::WorkerPool,
    Kind::Collapses,
    Kind::DegradesSlowly,
    Kind::Fails,
    Kind::WarmUpCliff,
    Kind::BehindPath,
];

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TokenBucket => "token bucket",
            Kind::MM1 => "M/M/1",
            Kind::WorkerPool => "M/M/16",
            Kind::Workers => "workers, constant time",
            Kind::Collapses => "collapses past its knee",
            Kind::DegradesSlowly => "degrades slowly",
            Kind::Fails => "fails more and more",
            Kind::WarmUpCliff => "warm-up cliff",
            Kind::BehindPath => "M/M/16 behind 80 ms",
        }
    }
}

/// A server with its promise and its capacity.
#[derive(Debug, Clone)]
pub struct Planted {
    /// What it is.
    pub kind: Kind,
    /// The promise.
    pub promise: Promise,
    /// The largest rate at which the promise holds, per second.
    pub capacity: f64,
    /// How requests arrive.
    pub arrivals: Arrivals,
    /// Its machine.
    pub model: Model,
}

/// Workers of the pool.
const WORKERS: usize = 16;
const PATH: f64 = 0.08;

impl Planted {
    /// A server of a kind; the seed decides how fast it is.
    pub fn new(kind: Kind, seed: Seed) -> Planted {
        // Speeds differ by a factor of up to two, so that no load of a search is special.
        let speed = libm::exp2(seed.stream("speed").uniform(0));
        let service = seed.stream("service");
        let (capacity, limit, arrivals, model) = match kind {
            Kind::TokenBucket => {
                let rate = 1000.0 * speed;
                (rate, Some(0.05), Arrivals::Constant, Model::bucket(rate))
            }
            Kind::WarmUpCliff => {
                let rate = 1000.0 * speed;
                (
                    rate,
                    Some(0.05),
                    Arrivals::Constant,
                    Model::Bucket(Bucket {
                        cliff: 0.3,
                        ..Bucket::new(rate)
                    }),
                )
            }
            Kind::Collapses => {
                let rate = 1000.0 * speed;
                (
                    rate,
                    Some(0.1),
                    Arrivals::Constant,
                    Model::Bucket(Bucket::collapsing(rate, 3.0)),
                )
            }
            Kind::MM1 => {
                let rate = 20_000.0 * speed;
                let limit = 100.0 / rate;
                // The time in an M/M/1 system is exponential with the rate that is left (Kleinrock 1975).
                let capacity = rate - libm::log(100.0) / limit;
                (
                    capacity,
                    Some(limit),
                    Arrivals::Poisson,
                    Model::pool(rate, 1, 0.0, service),
                )
            }
            Kind::Workers => {
                let rate = 100.0 * speed;
                let model = Model::workers(rate, WORKERS);
                (rate * WORKERS as f64, Some(0.05), Arrivals::Constant, model)
            }
            Kind::WorkerPool | Kind::BehindPath => {
                let rate = 1200.0 * speed;
                let limit = 7.0 / rate;
                let path = if kind == Kind::BehindPath { PATH } else { 0.0 };
                let capacity = capacity_of_pool(rate, WORKERS, limit, 0.01);
                (
                    capacity,
                    Some(limit + path),
                    Arrivals::Poisson,
                    Model::pool(rate, WORKERS, path, service),
                )
            }
            Kind::DegradesSlowly => {
                let capacity = 3000.0 * speed;
                let limit = 0.05;
                // An exponential latency has its 99th percentile at ln 100 times its mean.
                let mean = limit / libm::log(100.0);
                let model = Model::degrading(capacity, mean, 3.0, service);
                (capacity, Some(limit), Arrivals::Poisson, model)
            }
            Kind::Fails => {
                let capacity = 5000.0 * speed;
                let model = Model::failing(capacity, 1e-3, (0.001, 30.0), service);
                (capacity, None, Arrivals::Constant, model)
            }
        };
        let promise = match limit {
            Some(limit) => Promise {
                text: format!("p99<{:.3}ms", 1e3 * limit),
                limit: Some(limit),
                share: 0.01,
            },
            None => Promise {
                text: "errors<0.1%".to_owned(),
                limit: None,
                share: 0.001,
            },
        };
        Planted {
            kind,
            promise,
            capacity,
            arrivals,
            model,
        }
    }
}

/// The rate at which a share of the requests spends more than `limit` in an M/M/c system.
fn capacity_of_pool(rate: f64, workers: usize, limit: f64, share: f64) -> f64 {
    let all = rate * workers as f64;
    let (mut low, mut high) = (0.0, all * (1.0 - 1e-9));
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match slower_in_pool(middle, rate, workers, limit) > share {
            true => high = middle,
            false => low = middle,
        }
    }
    low
}

/// The probability of a longer time than `limit` in an M/M/c system: waiting is exponential with the probability of
/// Erlang's C formula, and service follows.
fn slower_in_pool(arrivals: f64, rate: f64, workers: usize, limit: f64) -> f64 {
    let offered = arrivals / rate;
    // Erlang's B formula, by its recursion, gives C.
    let blocked = (1..=workers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocked / (1.0 - (offered / workers as f64) * (1.0 - blocked));
    let left = rate * workers as f64 - arrivals;
    let (service, waiting) = (libm::exp(-rate * limit), libm::exp(-left * limit));
    (1.0 - waits) * service + waits * (left * service - rate * waiting) / (left - rate)
}

/// The state of a server.
#[derive(Debug, Clone)]
pub enum Model {
    /// Constant service times.
    Bucket(Bucket),
    /// Exponential service times at workers behind one queue.
    Pool {
        /// Each worker's rate per second.
        rate: f64,
        /// When each worker is free.
        free: Vec<f64>,
        /// The round-trip time in front of it.
        path: f64,
        /// Draws of service times; `None`: they are constant.
        draws: Option<Seed>,
        /// Their number so far.
        count: u64,
    },
    /// Refuses what a token bucket has no token for, as nginx's `limit_req` with `nodelay`.
    Refusing {
        /// Tokens a second.
        rate: f64,
        /// The most tokens.
        burst: f64,
        /// Tokens at an instant.
        tokens: f64,
        /// That instant.
        at: f64,
    },
    /// Latencies and failures that depend on the offered rate alone.
    Rate {
        /// The capacity.
        capacity: f64,
        /// Mean latency there, in seconds.
        mean: f64,
        /// The power with which latency (or, where there are failures, their share) grows.
        exponent: f64,
        /// The share of failures there; 0: latency grows instead.
        failing: f64,
        /// Draws.
        draws: Seed,
        /// Their number so far.
        count: u64,
        /// The rate that is offered.
        offered: f64,
        /// When the last response is complete.
        idle: f64,
    },
}

/// A queue with a constant service time.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    rate: f64,
    /// When the last request leaves.
    last: f64,
    /// How many times slower it is in collapse; 1: never.
    collapse: f64,
    collapsed: bool,
    /// Additional latency at the start of a trial, in seconds.
    cliff: f64,
    warm_from: f64,
    arrived: f64,
}

/// Waiting requests from which on a server collapses.
const KNEE: f64 = 50.0;
/// Latency of a bucket that nothing waits for.
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

    /// A bucket that is slower by a factor from its knee on.
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
        // A token is there after 1/rate: a request that arrives later than that after the last one does not wait.
        self.last = self.last.max(at - 1.0 / self.rate) + service;
        let cold = if at < self.warm_from { self.cliff } else { 0.0 };
        (self.last - at).max(0.0) + BASE + cold
    }
}

impl Model {
    fn bucket(rate: f64) -> Model {
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

    /// Workers with a constant service time.
    pub(super) fn workers(rate: f64, workers: usize) -> Model {
        Model::Pool {
            rate,
            free: vec![0.0; workers],
            path: 0.0,
            draws: None,
            count: 0,
        }
    }

    /// Latencies that grow with a power of the rate: `mean` seconds at the capacity.
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

    /// A share of failures that grows with a power of the rate: the share at the capacity, and the power.
    pub(super) fn failing(
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

    /// Tells the server the rate of a trial.
    pub fn begin(&mut self, rate: f64) {
        if let Model::Rate { offered, .. } = self {
            *offered = rate;
        }
    }

    /// The latency of a request that arrives at an instant, in seconds, and whether it fails.
    pub fn respond(&mut self, at: f64) -> (f64, bool) {
        match self {
            Model::Bucket(bucket) => (bucket.respond(at), false),
            Model::Refusing {
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

    /// When the last response is complete.
    pub fn idle_at(&self) -> f64 {
        match self {
            Model::Bucket(bucket) => bucket.last,
            Model::Refusing { at, .. } => *at,
            Model::Pool { free, path, .. } => free.iter().copied().fold(0.0, f64::max) + path,
            Model::Rate { idle, .. } => *idle,
        }
    }
}

fn exponential(draws: Seed, count: u64) -> f64 {
    -libm::log(1.0 - draws.uniform(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Bench;

    /// The share of bad exchanges at a share of the capacity, in a trial of this many seconds.
    fn bad_share(kind: Kind, load: f64, seconds: f64) -> f64 {
        let planted = Planted::new(kind, Seed(4));
        let load = load * planted.capacity;
        let mut bench = Bench::new(planted, Seed(9));
        let trial = bench.apply(load, 5.0, seconds, &mut |_| false).0;
        let (all, bad) = trial.series[0]
            .slots
            .iter()
            .fold((0u64, 0u64), |sum, slot| {
                (
                    sum.0 + u64::from(slot.planned),
                    sum.1 + u64::from(slot.over[0]),
                )
            });
        bad as f64 / all as f64
    }

    #[test]
    fn the_promise_holds_below_the_capacity_and_breaks_above() {
        for kind in KINDS {
            let limit = Planted::new(kind, Seed(4)).promise.share;
            let (below, above) = (bad_share(kind, 0.97, 60.0), bad_share(kind, 1.03, 60.0));
            assert!(
                below < limit && above > limit,
                "{}: {below} {limit} {above}",
                kind.name()
            );
        }
    }

    #[test]
    fn the_share_at_the_capacity_of_a_queue_is_the_promise() {
        for kind in [Kind::MM1, Kind::WorkerPool, Kind::DegradesSlowly] {
            let share = bad_share(kind, 1.0, 150.0);
            assert!(
                (0.0075..0.0135).contains(&share),
                "{}: {share}",
                kind.name()
            );
        }
    }
}
