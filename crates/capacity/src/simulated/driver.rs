//! Applies trials to a simulated server, in virtual time.

use fathometer_model::Seed;

use super::arrivals::Arrivals;
use super::servers::KnownServer;
use crate::search::{Ending, Search};
use crate::slo_limit::SloLimit;
use crate::trial::TrialSoFar;

/// Minimum time between two calls of [`Search::look`], in seconds.
const LOOK: f64 = 0.25;
/// Time between two trials, in seconds: connections are closed and opened.
const BETWEEN: f64 = 0.2;

/// A simulated server with a virtual clock.
#[derive(Debug, Clone)]
pub struct Bench {
    planted: KnownServer,
    /// SLOs that are searched in addition to the server's own SLO.
    also: Vec<SloLimit>,
    seed: Seed,
    trials: u64,
    /// Seconds since the start of the search.
    pub now: f64,
}

impl Bench {
    /// Creates a server at the start of a search; the seed determines when requests arrive.
    pub fn new(planted: KnownServer, seed: Seed) -> Bench {
        Bench {
            planted,
            also: Vec::new(),
            seed: seed.stream("arrivals"),
            trials: 0,
            now: 0.0,
        }
    }

    /// Adds further SLOs, which follow the server's own SLO in the search.
    #[must_use]
    pub fn with(self, also: Vec<SloLimit>) -> Bench {
        Bench { also, ..self }
    }

    /// Applies a load until `stop` returns true or the measured time has passed, then waits until the server is idle.
    /// Returns the measurements, and the rate of completed exchanges.
    pub fn apply(
        &mut self,
        load: f64,
        warm_up: f64,
        longest: f64,
        stop: &mut dyn FnMut(&TrialSoFar) -> bool,
    ) -> (TrialSoFar, f64) {
        let KnownServer {
            slo,
            arrivals,
            model,
            ..
        } = &mut self.planted;
        self.trials += 1;
        let draws = self.seed.child(self.trials);
        model.begin(load);
        let mut trial = TrialSoFar::new(1 + self.also.len(), 0.0);
        let measured = self.now + warm_up;
        let mut ended = Vec::new();
        let (mut count, mut at, mut look) = (0u64, self.now, measured + LOOK);
        loop {
            let gap = match arrivals {
                Arrivals::Constant => 1.0,
                Arrivals::Poisson => -libm::log(1.0 - draws.uniform(count)),
            };
            count += 1;
            at += gap / load;
            while at >= look {
                trial.seconds = look - measured;
                if trial.seconds >= longest || stop(&trial) {
                    break;
                }
                look += LOOK.max(0.02 * trial.seconds);
            }
            if at >= look {
                break;
            }
            let (latency, failed) = model.respond(at);
            if at >= measured {
                let slos = std::iter::once(&*slo).chain(&self.also);
                for (series, slo) in trial.series.iter_mut().zip(slos) {
                    series.record(slo, at - measured, latency, failed);
                }
            }
            ended.push(at + latency);
        }
        let end = measured + trial.seconds;
        let completed = ended
            .iter()
            .filter(|&&time| (measured..end).contains(&time))
            .count();
        self.now = end.max(model.idle_at()) + BETWEEN;
        (trial, completed as f64 / (end - measured))
    }

    /// Runs a search to its end.
    pub fn run(&mut self, search: &mut Search) {
        while let Some(plan) = search.next_trial(self.now) {
            let (trial, achieved) =
                self.apply(plan.load, plan.warm_up, plan.longest, &mut |trial| {
                    search.look(trial)
                });
            search.end(
                &trial,
                &Ending {
                    achieved: Some(achieved),
                    ..Ending::default()
                },
            );
        }
    }
}
