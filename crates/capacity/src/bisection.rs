//! Plain bisection with the same guarantee, to compare with: each load is tested until it is certified as working or as
//! failing, at a level that all tests together keep.

use crate::evidence::Evidence;
use crate::goal::Goal;
use crate::promise::Promise;
use crate::state::{State, Verdict};
use crate::trial::TrialSoFar;

/// Tests that the level is divided by: from a bracket of a factor of two to 2 % there are six, and some before.
const TESTS: f64 = 12.0;

/// A bisection under way. The driver applies [`Bisection::next_load`], asks [`Bisection::look`] and then calls
/// [`Bisection::end`].
#[derive(Debug, Clone)]
pub struct Bisection {
    goal: Goal,
    state: State,
    works: Option<f64>,
    fails: Option<f64>,
    load: f64,
}

impl Bisection {
    /// A bisection for the capacity of a promise.
    pub fn new(goal: Goal, promise: Promise) -> Bisection {
        let level = (1.0 - goal.confidence) / TESTS;
        // The first level of this goal is that of each test.
        let first = Goal {
            confidence: 0.0,
            ..goal
        }
        .level(1);
        Bisection {
            load: goal.start,
            goal: Goal {
                confidence: 1.0 - level / first,
                ..goal
            },
            state: State::new(promise),
            works: None,
            fails: None,
        }
    }

    /// The next load; `None`: the interval is narrow enough.
    pub fn next_load(&mut self) -> Option<f64> {
        self.load = match (self.works, self.fails) {
            (None, None) => self.goal.start,
            (Some(works), None) => 2.0 * works,
            (None, Some(fails)) => fails / 2.0,
            (Some(works), Some(fails)) if self.goal.is_reached(works, fails) => return None,
            (Some(works), Some(fails)) => (works * fails).sqrt(),
        };
        Some(self.load)
    }

    /// The interval.
    pub fn interval(&self) -> (Option<f64>, Option<f64>) {
        (self.works, self.fails)
    }

    /// Whether the trial may end.
    pub fn look(&self, trial: &TrialSoFar) -> bool {
        self.verdict(trial).is_some()
    }

    fn verdict(&self, trial: &TrialSoFar) -> Option<bool> {
        let evidence = trial.evidence(0, &self.state.promise);
        if self.state.works_at(self.load, &evidence, &self.goal) == Verdict::Certified {
            return Some(true);
        }
        let slots = trial.series[0].until(trial.known(&self.state.promise));
        let second_half = Evidence::of(&slots[slots.len() / 2..], &self.state.promise);
        let fails = self
            .state
            .fails_at(self.load, &evidence, &second_half, &self.goal)
            == Verdict::Certified;
        fails.then_some(false)
    }

    /// Takes a trial that ended. One that is undecided after the longest time goes by its share.
    pub fn end(&mut self, trial: &TrialSoFar) {
        let decided = self.verdict(trial).unwrap_or_else(|| {
            let evidence = trial.evidence(0, &self.state.promise);
            evidence.share() <= self.state.promise.share
                && !self.state.is_rising(&evidence, &self.goal)
        });
        match decided {
            true => self.works = Some(self.load),
            false => self.fails = Some(self.load),
        }
    }
}
