//! Plain bisection with the same guarantee, as a baseline: each load is tested until it is certified as working or as
//! failing. All tests together share the error level.

use crate::evidence::Evidence;
use crate::goal::Goal;
use crate::slo_limit::SloLimit;
use crate::state::{State, Verdict};
use crate::trial::TrialSoFar;

/// The number of tests that share the error level: six tests narrow a bracket from a factor of two to 2 %, and six
/// tests find the bracket.
const TESTS: f64 = 12.0;

/// A bisection in progress. The driver applies [`Bisection::next_load`], calls [`Bisection::look`] until it returns
/// true, and then calls [`Bisection::end`].
#[derive(Debug, Clone)]
pub struct Bisection {
    goal: Goal,
    state: State,
    works: Option<f64>,
    fails: Option<f64>,
    load: f64,
}

impl Bisection {
    /// Creates a bisection for the capacity of an SLO.
    pub fn new(goal: Goal, slo: SloLimit) -> Bisection {
        let level = (1.0 - goal.confidence) / TESTS;
        // With this confidence, `Goal::level(1)` is the error level of each test.
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
            state: State::new(slo),
            works: None,
            fails: None,
        }
    }

    /// Returns the next load; `None` if the interval is narrow enough.
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

    /// The largest load that works and the smallest load that fails; `None` if not found yet.
    pub fn interval(&self) -> (Option<f64>, Option<f64>) {
        (self.works, self.fails)
    }

    /// Whether the trial may end.
    pub fn look(&self, trial: &TrialSoFar) -> bool {
        self.verdict(trial).is_some()
    }

    fn verdict(&self, trial: &TrialSoFar) -> Option<bool> {
        let evidence = trial.evidence(0, &self.state.slo);
        if self.state.works_at(self.load, &evidence, &self.goal) == Verdict::Certified {
            return Some(true);
        }
        let slots = trial.series[0].until(trial.known(&self.state.slo));
        let second_half = Evidence::of(&slots[slots.len() / 2..], &self.state.slo);
        let fails = self
            .state
            .fails_at(self.load, &evidence, &second_half, &self.goal)
            == Verdict::Certified;
        fails.then_some(false)
    }

    /// Records a finished trial. If a trial is undecided at its maximum duration, its observed share of bad exchanges
    /// decides.
    pub fn end(&mut self, trial: &TrialSoFar) {
        let decided = self.verdict(trial).unwrap_or_else(|| {
            let evidence = trial.evidence(0, &self.state.slo);
            evidence.share() <= self.state.slo.share && !self.state.is_rising(&evidence, &self.goal)
        });
        match decided {
            true => self.works = Some(self.load),
            false => self.fails = Some(self.load),
        }
    }
}
