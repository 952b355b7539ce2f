//! Kinds of servers, their SLOs, and their capacities, which have a closed form.

use fathometer_model::Seed;
use serde::Serialize;

use super::arrivals::Arrivals;
use super::models::{Bucket, Model};
use crate::slo_limit::SloLimit;

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
    /// Serves in constant time until 50 requests wait, then three times slower until no request waits.
    Collapses,
    /// Latencies grow with the third power of the rate; there is no queue.
    DegradesSlowly,
    /// The share of failed requests grows with the 30th power of the rate.
    Fails,
    /// A token bucket that is slow for the first 3 s after each pause.
    WarmUpCliff,
    /// The worker pool behind a path with a round-trip time of 80 ms.
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
    /// The name of the kind in tables.
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

/// A server with its SLO and its capacity.
#[derive(Debug, Clone)]
pub struct KnownServer {
    /// The kind of server.
    pub kind: Kind,
    /// The SLO of the server.
    pub slo: SloLimit,
    /// The largest rate, per second, at which the SLO is met.
    pub capacity: f64,
    /// The arrival process.
    pub arrivals: Arrivals,
    /// The model of the server.
    pub model: Model,
}

/// Number of workers in the pool.
const WORKERS: usize = 16;
const PATH: f64 = 0.08;

impl KnownServer {
    /// Creates a server of a kind; the seed determines its speed.
    pub fn new(kind: Kind, seed: Seed) -> KnownServer {
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
                    Model::Bucket(Bucket::cold(rate, 0.3)),
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
                // The time in an M/M/1 system is exponential; its rate is the service rate minus the arrival rate
                // (Kleinrock 1975).
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
        let slo = match limit {
            Some(limit) => SloLimit {
                text: format!("p99<{:.3}ms", 1e3 * limit),
                limit: Some(limit),
                share: 0.01,
            },
            None => SloLimit {
                text: "errors<0.1%".to_owned(),
                limit: None,
                share: 0.001,
            },
        };
        KnownServer {
            kind,
            slo,
            capacity,
            arrivals,
            model,
        }
    }
}

/// Returns the arrival rate at which a share of the requests spends more than `limit` seconds in an M/M/c system.
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

/// Returns the probability of a time above `limit` in an M/M/c system: the waiting time, which is exponential with the
/// probability of Erlang's C formula, plus the service time.
fn slower_in_pool(arrivals: f64, rate: f64, workers: usize, limit: f64) -> f64 {
    let offered = arrivals / rate;
    // Erlang's B formula, computed by its recursion, gives C.
    let blocked = (1..=workers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocked / (1.0 - (offered / workers as f64) * (1.0 - blocked));
    let left = rate * workers as f64 - arrivals;
    let (service, waiting) = (libm::exp(-rate * limit), libm::exp(-left * limit));
    (1.0 - waits) * service + waits * (left * service - rate * waiting) / (left - rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Bench;

    /// Returns the share of bad exchanges in a trial of this many seconds; `load` is a share of the capacity.
    fn bad_share(kind: Kind, load: f64, seconds: f64) -> f64 {
        let planted = KnownServer::new(kind, Seed(4));
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
    fn the_slo_holds_below_the_capacity_and_breaks_above() {
        for kind in KINDS {
            let limit = KnownServer::new(kind, Seed(4)).slo.share;
            let (below, above) = (bad_share(kind, 0.97, 60.0), bad_share(kind, 1.03, 60.0));
            assert!(
                below < limit && above > limit,
                "{}: bad share {below} below the capacity, {above} above it, limit {limit}",
                kind.name()
            );
        }
    }

    #[test]
    fn the_share_at_the_capacity_of_a_queue_is_the_slo() {
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
