//! A step ramp, as load tests usually apply it, for comparison. The load doubles until a step violates the SLO. Then
//! it rises from the last load that worked, in steps of the interval's width, until a step violates the SLO again.
//!
//! Each step lasts [`Goal::final_trial`] and is judged only by its share of bad exchanges, so the answer has no
//! stated confidence.

use crate::goal::Goal;
use crate::slo_limit::SloLimit;
use crate::trial::TrialSoFar;

/// A ramp in progress. The driver applies [`Ramp::next_load`] for [`Goal::final_trial`] and then calls [`Ramp::end`].
#[derive(Debug, Clone)]
pub struct Ramp {
    goal: Goal,
    slo: SloLimit,
    load: f64,
    works: Option<f64>,
    fails: Option<f64>,
    is_fine: bool,
}

impl Ramp {
    /// Creates a ramp for the capacity of an SLO.
    pub fn new(goal: Goal, slo: SloLimit) -> Ramp {
        Ramp {
            load: goal.start,
            goal,
            slo,
            works: None,
            fails: None,
            is_fine: false,
        }
    }

    /// Returns the next load; `None` if the ramp is finished.
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

    /// Records a finished step.
    pub fn end(&mut self, trial: &TrialSoFar) {
        let share = trial.evidence(0, &self.slo).share();
        match share <= self.slo.share {
            true => self.works = Some(self.load),
            false => self.fails = Some(self.load),
        }
    }

    /// The last load that worked and the first load that failed.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.works.zip(self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Bench, Kind, KnownServer};
    use fathometer_model::Seed;

    #[test]
    fn a_ramp_ends_at_the_capacity_of_a_token_bucket() {
        let planted = KnownServer::new(Kind::TokenBucket, Seed(3));
        for start in [planted.capacity / 3.0, 1.5 * planted.capacity] {
            let goal = Goal {
                start,
                ..Goal::default()
            };
            let mut bench = Bench::new(planted.clone(), Seed(1));
            let mut ramp = Ramp::new(goal, planted.slo.clone());
            let mut steps = 0;
            while let Some(load) = ramp.next_load() {
                let (trial, _) = bench.apply(load, 1.0, goal.final_trial, &mut |_| false);
                ramp.end(&trial);
                steps += 1;
                assert!(steps < 50);
            }
            let (works, fails) = ramp.interval().unwrap();
            assert!((fails / works - 1.02).abs() < 1e-9);
            // A step is shorter than the search's horizon: a slow growth of the queue is not detected.
            assert!(
                (0.95..1.05).contains(&(works / planted.capacity)),
                "works {works}, server {planted:?}"
            );
        }
    }
}
