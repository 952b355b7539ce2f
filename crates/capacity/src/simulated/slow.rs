//! The servers of the self-test on sockets: the same models, slow enough that a small machine and its timers serve them
//! with its processors idle, and with wider promises, so that a search needs few exchanges. Queues with random arrivals
//! are left out: at some hundred requests a second a promise of 2 % width takes them more than a quarter of an hour.

use fathometer_model::Seed;

use super::arrivals::Arrivals;
use super::models::{Bucket, Model};
use super::servers::{Kind, Planted};
use crate::promise::Promise;

/// The kinds that are hosted on sockets.
pub const SOCKET_KINDS: [Kind; 5] = [
    Kind::TokenBucket,
    Kind::Workers,
    Kind::Collapses,
    Kind::DegradesSlowly,
    Kind::Fails,
];

/// Workers of the pools.
const WORKERS: usize = 8;

impl Planted {
    /// A server of a kind for sockets; the seed decides how fast it is.
    ///
    /// # Panics
    /// If the kind is none of [`SOCKET_KINDS`].
    pub fn on_sockets(kind: Kind, seed: Seed) -> Planted {
        let speed = libm::exp2(seed.stream("speed").uniform(0));
        let service = seed.stream("service");
        let rate = 400.0 * speed;
        let promise = |limit: Option<f64>, share: f64| Promise {
            text: match limit {
                Some(limit) => format!("p{:.0}<{:.1}ms", 100.0 * (1.0 - share), 1e3 * limit),
                None => format!("errors<{:.0}%", 100.0 * share),
            },
            limit,
            share,
        };
        let (capacity, promise, arrivals, model) = match kind {
            Kind::TokenBucket => (
                rate,
                promise(Some(0.05), 0.01),
                Arrivals::Constant,
                Model::Bucket(Bucket::new(rate)),
            ),
            Kind::Collapses => (
                rate,
                promise(Some(0.15), 0.01),
                Arrivals::Constant,
                Model::Bucket(Bucket::collapsing(rate, 3.0)),
            ),
            Kind::Workers => (
                rate,
                promise(Some(0.06), 0.01),
                Arrivals::Constant,
                Model::workers(rate / WORKERS as f64, WORKERS),
            ),
            Kind::DegradesSlowly => {
                let (limit, share) = (0.05, 0.1);
                // An exponential latency exceeds the limit with this probability if its mean is this.
                let mean = limit / -libm::log(share);
                (
                    rate,
                    promise(Some(limit), share),
                    Arrivals::Constant,
                    Model::degrading(rate, mean, 6.0, service),
                )
            }
            Kind::Fails => (
                rate,
                promise(None, 0.02),
                Arrivals::Constant,
                Model::failing(rate, 0.002, (0.02, 30.0), service),
            ),
            Kind::MM1 | Kind::WorkerPool | Kind::WarmUpCliff | Kind::BehindPath => {
                unreachable!("{} is not hosted on sockets", kind.name())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Goal;
    use crate::outcome::Answer;
    use crate::search::Search;
    use crate::simulated::Bench;

    #[test]
    fn searches_of_the_slow_servers_are_short_and_right() {
        let goal = Goal {
            final_trial: 5.0,
            longest_trial: 60.0,
            ..Goal::default()
        };
        for kind in SOCKET_KINDS {
            let planted = Planted::on_sockets(kind, Seed(5));
            let mut bench = Bench::new(planted.clone(), Seed(6));
            let mut search = Search::new(goal, vec![planted.promise.clone()]);
            bench.run(&mut search);
            let outcome = search.outcome(bench.now);
            println!("{} {:.0} s", kind.name(), bench.now);
            match outcome.promises[0].answer {
                Answer::Interval { works, fails } => assert!(
                    works <= planted.capacity && planted.capacity <= fails,
                    "{}: {works} {} {fails}",
                    kind.name(),
                    planted.capacity
                ),
                ref other => panic!("{}: {other:?} after {:.0} s", kind.name(), bench.now),
            }
            assert!(bench.now < 400.0, "{}: {:.0} s", kind.name(), bench.now);
        }
    }
}
