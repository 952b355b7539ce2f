//! The servers of the self-test on real sockets: the same models at low rates, so that a small machine can run them
//! by timers, with mostly idle processors. Their SLOs allow a larger share of bad exchanges, so that a search needs few
//! exchanges. Queues with random arrivals are omitted: at a few hundred requests per second, an interval of 2 %
//! width takes more than a quarter of an hour.

use fathometer_model::Seed;

use super::arrivals::Arrivals;
use super::models::{Bucket, Model};
use super::servers::{Kind, KnownServer};
use crate::slo_limit::SloLimit;

/// The kinds that run on real sockets.
pub const SOCKET_KINDS: [Kind; 5] = [
    Kind::TokenBucket,
    Kind::Workers,
    Kind::Collapses,
    Kind::DegradesSlowly,
    Kind::Fails,
];

/// Number of workers in each pool.
const WORKERS: usize = 8;

impl KnownServer {
    /// Creates a server of a kind for sockets; the seed determines its speed.
    ///
    /// # Panics
    /// If the kind is not in [`SOCKET_KINDS`].
    pub fn on_sockets(kind: Kind, seed: Seed) -> KnownServer {
        let speed = libm::exp2(seed.stream("speed").uniform(0));
        let service = seed.stream("service");
        let rate = 400.0 * speed;
        let slo = |limit: Option<f64>, share: f64| SloLimit {
            text: match limit {
                Some(limit) => format!("p{:.0}<{:.1}ms", 100.0 * (1.0 - share), 1e3 * limit),
                None => format!("errors<{:.0}%", 100.0 * share),
            },
            limit,
            share,
        };
        let (capacity, slo, arrivals, model) = match kind {
            Kind::TokenBucket => (
                rate,
                slo(Some(0.05), 0.01),
                Arrivals::Constant,
                Model::Bucket(Bucket::new(rate)),
            ),
            Kind::Collapses => (
                rate,
                slo(Some(0.15), 0.01),
                Arrivals::Constant,
                Model::Bucket(Bucket::collapsing(rate, 3.0)),
            ),
            Kind::Workers => (
                rate,
                slo(Some(0.06), 0.01),
                Arrivals::Constant,
                Model::workers(rate / WORKERS as f64, WORKERS),
            ),
            Kind::DegradesSlowly => {
                let (limit, share) = (0.05, 0.1);
                // With this mean, an exponential latency exceeds the limit with this probability.
                let mean = limit / -libm::log(share);
                (
                    rate,
                    slo(Some(limit), share),
                    Arrivals::Constant,
                    Model::degrading(rate, mean, 6.0, service),
                )
            }
            Kind::Fails => (
                rate,
                slo(None, 0.02),
                Arrivals::Constant,
                Model::failing(rate, 0.002, (0.02, 30.0), service),
            ),
            Kind::MM1 | Kind::WorkerPool | Kind::WarmUpCliff | Kind::BehindPath => {
                unreachable!("{} is not hosted on sockets", kind.name())
            }
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
            let planted = KnownServer::on_sockets(kind, Seed(5));
            let mut bench = Bench::new(planted.clone(), Seed(6));
            let mut search = Search::new(goal, vec![planted.slo.clone()]);
            bench.run(&mut search);
            let outcome = search.outcome(bench.now);
            println!("{} {:.0} s", kind.name(), bench.now);
            match outcome.slos[0].answer {
                Answer::Interval { works, fails } => assert!(
                    works <= planted.capacity && planted.capacity <= fails,
                    "{}: works {works}, capacity {}, fails {fails}",
                    kind.name(),
                    planted.capacity
                ),
                ref other => panic!("{}: {other:?} after {:.0} s", kind.name(), bench.now),
            }
            assert!(bench.now < 400.0, "{}: {:.0} s", kind.name(), bench.now);
        }
    }
}
