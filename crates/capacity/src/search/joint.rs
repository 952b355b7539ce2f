//! Searches for the highest load at which all SLOs are met together.
//!
//! Such a search ends when the SLO that is violated first has its interval, and every other SLO is certified to be
//! met at the lower end. The loads that violate the other SLOs are not searched for.

use super::Search;
use crate::state::State;
use crate::trial::{Purpose, TrialPlan};

impl Search {
    /// Makes the search find the highest load at which all SLOs are met, instead of the capacity of each SLO.
    #[must_use]
    pub fn jointly(mut self) -> Search {
        self.is_joint = true;
        self
    }

    /// The certified ends for all SLOs together: every SLO is met at the lower end, and an SLO is violated at the upper
    /// end.
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

    /// Whether another SLO seems to be violated at a load that was tried. The search then needs no load that violates
    /// this SLO.
    pub(super) fn another_seems_to_fail(&self, place: usize) -> bool {
        let mut others = self.states.iter().enumerate();
        self.is_joint && others.any(|(other, state)| other != place && state.seems.1.is_some())
    }

    /// Whether a test that a load works should also test the load for this SLO.
    pub(super) fn tests_jointly(&self, state: &State, load: f64) -> bool {
        let seems_to_fail = state.seems.1.is_some_and(|bad| bad <= load);
        self.is_joint
            && state.given_up.is_none()
            && !seems_to_fail
            && state.works.is_none_or(|works| works < load)
    }

    /// Returns a test of another SLO at the lower end of the interval of the SLO that is violated first. `None` if
    /// there is no such interval yet, or if another SLO is likely to be violated below this end.
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
    use crate::simulated::{Bench, Kind, KnownServer};
    use crate::slo_limit::SloLimit;

    const GOAL: Goal = Goal {
        width: 0.05,
        confidence: 0.95,
        start: 100.0,
        most: 1e5,
        whole: false,
        warm_up: 1.0,
        final_trial: 10.0,
        longest_trial: 120.0,
        timeout: 0.0,
        horizon: 300.0,
        budget: 3600.0,
        noise_repeats: 3,
    };

    fn slo(text: &str, limit: Option<f64>, share: f64) -> SloLimit {
        SloLimit {
            text: text.to_owned(),
            limit,
            share,
        }
    }

    /// Runs a search for the SLO of the server and the SLOs of `also`.
    fn search(planted: &KnownServer, also: Vec<SloLimit>, is_joint: bool) -> (Outcome, f64) {
        let mut slos = vec![planted.slo.clone()];
        slos.extend(also.iter().cloned());
        let mut bench = Bench::new(planted.clone(), Seed(1)).with(also);
        let search = Search::new(GOAL, slos);
        let mut search = if is_joint { search.jointly() } else { search };
        bench.run(&mut search);
        (search.outcome(bench.now), bench.now)
    }

    /// Returns two minima over all SLOs: of the certified loads that work, and of the certified loads that fail.
    fn ends(outcome: &Outcome) -> (f64, f64) {
        let (mut works, mut fails) = (f64::INFINITY, f64::INFINITY);
        for slo in &outcome.slos {
            match slo.answer {
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
                ref other => panic!("{}: {other:?}", slo.slo),
            }
        }
        (works, fails)
    }

    #[test]
    fn a_slo_that_never_breaks_needs_no_load_at_which_it_does() {
        let planted = KnownServer::new(Kind::TokenBucket, Seed(3));
        let errors = || vec![slo("errors<0.1%", None, 0.001)];
        let (outcome, seconds) = search(&planted, errors(), true);
        let (works, fails) = ends(&outcome);
        assert!(
            works <= planted.capacity && planted.capacity <= fails && fails <= 1.0501 * works,
            "{outcome:?}"
        );
        assert!(
            matches!(&outcome.slos[1].answer, Answer::Inconclusive { fails: None, reason, .. }
                if reason.contains("another SLO")),
            "{outcome:?}"
        );
        assert_eq!(outcome.recovers, Some(true));
        // A search for each capacity raises the load to the largest load.
        let (each, in_all) = search(&planted, errors(), false);
        let greatest =
            |outcome: &Outcome| outcome.trials.iter().map(|t| t.load).fold(0.0, f64::max);
        assert!(greatest(&each) == GOAL.most && greatest(&outcome) < 20.0 * planted.capacity);
        assert!(seconds < in_all, "joint {seconds} s, separate {in_all} s");
    }

    #[test]
    fn the_slo_that_breaks_first_is_found_wherever_it_stands() {
        let mut planted = KnownServer::new(Kind::DegradesSlowly, Seed(3));
        // Latencies of the server grow with the third power of the rate. For half the limit, the capacity is therefore
        // smaller by the cube root of two.
        let limit = planted.slo.limit.unwrap();
        let half = slo("p99<half", Some(limit / 2.0), 0.01);
        let tight = planted.capacity / libm::cbrt(2.0);
        for is_first in [false, true] {
            let mut other = half.clone();
            if is_first {
                std::mem::swap(&mut planted.slo, &mut other);
            }
            let (outcome, _) = search(&planted, vec![other], true);
            let (works, fails) = ends(&outcome);
            assert!(
                works <= tight && tight <= fails && fails <= 1.0501 * works,
                "works {works}, capacity {tight}, fails {fails}: {outcome:?}"
            );
        }
    }
}
