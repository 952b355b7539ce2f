//! Searches for the load up to which all promises hold together.
//!
//! Such a search ends when the promise that breaks first has its interval and every other one is certified to hold at the
//! lower end. Where the others break does not matter, and is not looked for.

use super::Search;
use crate::state::State;
use crate::trial::{Purpose, TrialPlan};

impl Search {
    /// Searches the load up to which all promises hold together, instead of the capacity of each promise.
    #[must_use]
    pub fn jointly(mut self) -> Search {
        self.is_joint = true;
        self
    }

    /// The certified ends of all promises together: every promise holds at the first, and one is broken at the second.
    fn joint_ends(&self) -> (Option<f64>, Option<f64>) {
        let works = self.states.iter().map(|state| state.works);
        let works = works.reduce(|a, b| Some(a?.min(b?))).flatten();
        let fails = self.states.iter().filter_map(|state| state.fails);
        (works, fails.reduce(f64::min))
    }

    /// Whether the answer of a joint search is known.
    pub(super) fn is_jointly_reached(&self) -> bool {
        let (works, fails) = self.joint_ends();
        let ends = works.zip(fails);
        ends.is_some_and(|(works, fails)| works < fails && self.goal.is_reached(works, fails))
    }

    /// Whether another promise seems to break at a load that was tried, so that this one need not.
    pub(super) fn another_seems_to_fail(&self, place: usize) -> bool {
        let mut others = self.states.iter().enumerate();
        self.is_joint && others.any(|(other, state)| other != place && state.seems.1.is_some())
    }

    /// Whether a trial that tests whether its load works should test it for this promise, too.
    pub(super) fn tests_jointly(&self, state: &State, load: f64) -> bool {
        let seems_to_fail = state.seems.1.is_some_and(|bad| bad <= load);
        self.is_joint
            && state.given_up.is_none()
            && !seems_to_fail
            && state.works.is_none_or(|works| works < load)
    }

    /// The test whether another promise holds at the lower end of the one that breaks first; `None`: that one has no
    /// interval yet, or another one is likely to break below it.
    pub(super) fn join(&mut self) -> Option<TrialPlan> {
        let reached = self.states.iter().filter(|s| s.is_reached(&self.goal));
        let works = reached.filter_map(|s| s.works).reduce(f64::min)?;
        let place = self.states.iter().position(|state| {
            let is_open = state.works.is_none_or(|certified| certified < works);
            let is_lower = state.estimate(None).is_some_and(|at| at.median < works);
            is_open && !is_lower && state.given_up.is_none()
        })?;
        if self.has_no_tests_left(place) {
            return None;
        }
        self.mark(Purpose::Works, place, works);
        Some(self.plan_of(works, Purpose::Works, place, self.goal.longest_trial))
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;
    use crate::goal::Goal;
    use crate::outcome::{Answer, Outcome};
    use crate::promise::Promise;
    use crate::simulated::{Bench, Kind, Planted};

    const GOAL: Goal = Goal {
        width: 0.05,
        confidence: 0.95,
        start: 100.0,
        most: 1e5,
        whole: false,
        warm_up: 1.0,
        final_trial: 10.0,
        longest_trial: 120.0,
        horizon: 300.0,
        budget: 3600.0,
        noise_repeats: 3,
    };

    fn promise(text: &str, limit: Option<f64>, share: f64) -> Promise {
        Promise {
            text: text.to_owned(),
            limit,
            share,
        }
    }

    /// A search for these promises, the first of which is that of the server.
    fn search(planted: &Planted, also: Vec<Promise>, is_joint: bool) -> (Outcome, f64) {
        let mut promises = vec![planted.promise.clone()];
        promises.extend(also.iter().cloned());
        let mut bench = Bench::new(planted.clone(), Seed(1)).with(also);
        let search = Search::new(GOAL, promises);
        let mut search = if is_joint { search.jointly() } else { search };
        bench.run(&mut search);
        (search.outcome(bench.now), bench.now)
    }

    /// The least certified load that works, over all promises, and the least that fails.
    fn ends(outcome: &Outcome) -> (f64, f64) {
        let (mut works, mut fails) = (f64::INFINITY, f64::INFINITY);
        for promise in &outcome.promises {
            match promise.answer {
                Answer::Interval { works: w, fails: f } => {
                    works = works.min(w);
                    fails = fails.min(f);
                }
                Answer::Inconclusive {
                    works: Some(w),
                    fails: f,
                    ..
                } => {
                    works = works.min(w);
                    fails = fails.min(f.unwrap_or(f64::INFINITY));
                }
                ref other => panic!("{}: {other:?}", promise.promise),
            }
        }
        (works, fails)
    }

    #[test]
    fn a_promise_that_never_breaks_needs_no_load_at_which_it_does() {
        let planted = Planted::new(Kind::TokenBucket, Seed(3));
        let errors = || vec![promise("errors<0.1%", None, 0.001)];
        let (outcome, seconds) = search(&planted, errors(), true);
        let (works, fails) = ends(&outcome);
        assert!(
            works <= planted.capacity && planted.capacity <= fails && fails <= 1.0501 * works,
            "{outcome:?}"
        );
        assert!(
            matches!(&outcome.promises[1].answer, Answer::Inconclusive { fails: None, reason, .. }
                if reason.contains("another promise")),
            "{outcome:?}"
        );
        assert_eq!(outcome.recovers, Some(true));
        // The search for each capacity grows the load to the largest.
        let (each, in_all) = search(&planted, errors(), false);
        let greatest =
            |outcome: &Outcome| outcome.trials.iter().map(|t| t.load).fold(0.0, f64::max);
        assert!(greatest(&each) == GOAL.most && greatest(&outcome) < 20.0 * planted.capacity);
        assert!(seconds < in_all, "{seconds} {in_all}");
    }

    #[test]
    fn the_promise_that_breaks_first_is_found_wherever_it_stands() {
        let mut planted = Planted::new(Kind::DegradesSlowly, Seed(3));
        // Its latencies grow with the third power of the rate: half the limit is kept up to a rate that is smaller by the
        // third root of two.
        let limit = planted.promise.limit.unwrap();
        let half = promise("p99<half", Some(limit / 2.0), 0.01);
        let tight = planted.capacity / libm::cbrt(2.0);
        for is_first in [false, true] {
            let mut other = half.clone();
            if is_first {
                std::mem::swap(&mut planted.promise, &mut other);
            }
            let (outcome, _) = search(&planted, vec![other], true);
            let (works, fails) = ends(&outcome);
            assert!(
                works <= tight && tight <= fails && fails <= 1.0501 * works,
                "{works} {tight} {fails}: {outcome:?}"
            );
        }
    }
}
