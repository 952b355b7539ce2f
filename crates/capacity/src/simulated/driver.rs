//! Applies trials to a simulated server, in virtual time.

use fathometer_model::Seed;

use super::arrivals::Arrivals;
use super::servers::Planted;
use crate::promise::Promise;
use crate::search::{Ending, Search};
use crate::trial::TrialSoFar;

/// Seconds between two looks at a trial, at least.
const LOOK: f64 = 0.25;
/// Seconds that a trial needs besides its load: connections are closed and opened.
const BETWEEN: f64 = 0.2;

/// A server with a clock.
#[derive(Debug, Clone)]
pub struct Bench {
    planted: Planted,
    /// Promises that are searched besides that of the server.
    also: Vec<Promise>,
    seed: Seed,
    trials: u64,
    /// Seconds since the start of the search.
    pub now: f64,
}

impl Bench {
    /// A server at the start of a search; the seed decides when requests arrive.
    pub fn new(planted: Planted, seed: Seed) -> Bench {
        Bench {
            planted,
            also: Vec::new(),
            seed: seed.stream("arrivals"),
            trials: 0,
            now: 0.0,
        }
    }

    /// The same with further promises, which the search has after that of the server.
    #[must_use]
    pub fn with(self, also: Vec<Promise>) -> Bench {
        Bench { also, ..self }
    }

    /// Applies a load until `stop` returns true or the measured time is over, then waits until the server is idle.
    /// Returns what was measured, and the rate at which exchanges completed.
    pub fn apply(
        &mut self,
        load: f64,
        warm_up: f64,
        longest: f64,
        stop: &mut dyn FnMut(&TrialSoFar) -> bool,
    ) -> (TrialSoFar, f64) {
        let Planted {
            promise,
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
                let promises = std::iter::once(&*promise).chain(&self.also);
                for (series, promise) in trial.series.iter_mut().zip(promises) {
                    series.record(promise, at - measured, latency, failed);
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
