//! A step ramp, to compare with: what load tests usually do. The load doubles until a step breaks the promise, then it
//! rises from the last load that worked, in steps of the width of the interval, until a step breaks the promise again.
//!
//! Each step lasts [`Goal::final_trial`] and is judged by its share of bad exchanges alone, so that the answer has no
//! stated confidence.

use crate::goal::Goal;
use crate::promise::Promise;
use crate::trial::TrialSoFar;

/// A ramp under way. The driver applies [`Ramp::next_load`] for [`Goal::final_trial`] and then calls [`Ramp::end`].
#[derive(Debug, Clone)]
pub struct Ramp {
    goal: Goal,
    promise: Promise,
    load: f64,
    works: Option<f64>,
    fails: Option<f64>,
    is_fine: bool,
}

impl Ramp {
    /// A ramp for the capacity of a promise.
    pub fn new(goal: Goal, promise: Promise) -> Ramp {
        Ramp {
            load: goal.start,
            goal,
            promise,
            works: None,
            fails: None,
            is_fine: false,
        }
    }

    /// The next load; `None`: the ramp is over.
    pub fn next_load(&mut self) -> Option<f64> {
        if self.is_fine && self.fails.is_some() {
            return None;
        }
        self.load = match (self.works, self.fails) {
            (None, None) => self.goal.start,
            (None, Some(fails)) => fails / 2.0,
            (Some(works), None) if !self.is_fine => 2.0 * works,
            (Some(works), _) => {
                self.is_fine = true;
                self.fails = None;
                works * (1.0 + self.goal.width)
            }
        };
        Some(self.load)
    }

    /// Takes a step that ended.
    pub fn end(&mut self, trial: &TrialSoFar) {
        let share = trial.evidence(0, &self.promise).share();
        match share <= self.promise.share {
            true => self.works = Some(self.load),
            false => self.fails = Some(self.load),
        }
    }

    /// The last load that worked and the first that did not.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.works.zip(self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Bench, Kind, Planted};
    use fathometer_model::Seed;

    #[test]
    fn a_ramp_ends_at_the_capacity_of_a_token_bucket() {
        let planted = Planted::new(Kind::TokenBucket, Seed(3));
        for start in [planted.capacity / 3.0, 1.5 * planted.capacity] {
            let goal = Goal {
                start,
                ..Goal::default()
            };
            let mut bench = Bench::new(planted.clone(), Seed(1));
            let mut ramp = Ramp::new(goal, planted.promise.clone());
            let mut steps = 0;
            while let Some(load) = ramp.next_load() {
                let (trial, _) = bench.apply(load, 1.0, goal.final_trial, &mut |_| false);
                ramp.end(&trial);
                steps += 1;
                assert!(steps < 50);
            }
            let (works, fails) = ramp.interval().unwrap();
            assert!((fails / works - 1.02).abs() < 1e-9);
            // A step is shorter than the search's horizon: a slow growth of the queue is not seen.
            assert!(
                (0.95..1.05).contains(&(works / planted.capacity)),
                "{works} {planted:?}"
            );
        }
    }
}
