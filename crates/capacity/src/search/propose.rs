//! Chooses the next trial.

use crate::goal::GROWTH;
use crate::search::Search;
use crate::state::End;
use crate::trial::{Purpose, TrialPlan};

/// The longest short trial, in seconds, if the outcome of an exchange is known at once.
const LONGEST_SHORT: f64 = 6.0;
/// Maximum number of short trials that narrow the estimate.
const MOST_LOCATING: u32 = 16;
/// Maximum number of tests of ends of one SLO.
const MOST_TESTS: u32 = 24;

impl Search {
    pub(super) fn plan_of(
        &self,
        load: f64,
        purpose: Purpose,
        slo: usize,
        longest: f64,
    ) -> TrialPlan {
        TrialPlan {
            load: self.goal.possible(load),
            purpose,
            slo,
            warm_up: self.goal.warm_up,
            longest,
        }
    }

    /// Changes the load until each SLO has a load that seems to work and a load that seems to fail.
    pub(super) fn bracket(&mut self) -> Option<TrialPlan> {
        let tried = || {
            self.records
                .iter()
                .filter(|trial| trial.invalid.is_empty())
                .map(|trial| trial.load)
        };
        let largest = tried().fold(0.0, f64::max);
        let smallest = tried().fold(f64::INFINITY, f64::min);
        let limit = self.limit.as_ref().map(|(limit, _)| *limit);
        // Rounded to a possible load, so that the search can reach it.
        let most = self.goal.possible(limit.unwrap_or(self.goal.most));
        for place in 0..self.states.len() {
            if self.states[place].given_up.is_some() {
                continue;
            }
            let short = |load| self.plan_of(load, Purpose::Bracket, place, self.longest_short());
            match self.states[place].seems {
                (None, None) => return Some(short(self.goal.start.min(most))),
                (Some(_), None) if self.another_seems_to_fail(place) => {}
                (Some(_), None) if largest < most * 0.999 => {
                    let next = if largest * GROWTH > most {
                        most
                    } else {
                        largest * GROWTH
                    };
                    return Some(short(next));
                }
                (Some(good), None) => {
                    let unit = self.goal.unit();
                    let reason =
                        format!("the SLO was met at {good:.0} {unit}, the largest load tried");
                    let state = &mut self.states[place];
                    state.given_up = Some(reason);
                    // If the largest load is below the generator's limit, the user has set it.
                    state.exceeds_generator = limit.is_some_and(|limit| limit <= self.goal.most);
                }
                (None, Some(_)) => {
                    if let Some(plan) = self.descend(place, smallest) {
                        return Some(plan);
                    }
                }
                (Some(_), Some(_)) => {}
            }
        }
        None
    }

    /// Duration of the longest short trial: long enough to show latencies above the limit, or timeouts.
    pub(super) fn longest_short(&self) -> f64 {
        let longest = LONGEST_SHORT + 2.0 * self.goal.longest_wait(self.slos());
        longest.min(self.goal.longest_trial)
    }

    /// Returns a trial that narrows the interval of the unsettled SLO with the lowest estimated capacity.
    pub(super) fn narrow(&mut self) -> Option<TrialPlan> {
        loop {
            if self.is_joint && self.is_jointly_reached() {
                return None;
            }
            if self.is_joint
                && let Some(plan) = self.join()
            {
                return Some(plan);
            }
            let estimates = self
                .states
                .iter()
                .enumerate()
                .filter(|(_, state)| !state.is_settled(&self.goal));
            let estimates =
                estimates.filter_map(|(place, state)| Some((place, state.estimate(None)?)));
            let (place, estimate) = estimates.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
            let width = self.goal.width;
            let state = &self.states[place];
            let is_wide = estimate.range.1 / estimate.range.0 > 1.0 + width;
            let has_room = !self.goal.whole || estimate.range.1 - estimate.range.0 > 1.0;
            if state.works.is_none()
                && state.fails.is_none()
                && is_wide
                && has_room
                && state.located < MOST_LOCATING
            {
                let range = (estimate.range.0 * 0.9, estimate.range.1 * 1.1);
                let proposed = self
                    .proposed
                    .pop()
                    .filter(|load| (range.0..range.1).contains(load));
                let load = proposed.unwrap_or(estimate.median);
                if self.exceeds_generator(place, load) {
                    continue;
                }
                self.states[place].located += 1;
                return Some(self.plan_of(load, Purpose::Locate, place, self.longest_short()));
            }
            match self.end_without_capacity(place) {
                (Some(plan), _) => return Some(plan),
                (None, true) => continue,
                (None, false) => {}
            }
            if self.has_no_tests_left(place) {
                continue;
            }
            if let Some(plan) = self.last_bound(place) {
                return Some(plan);
            }
            let (load, purpose) = self.end_to_test(place, estimate.median);
            if self.exceeds_generator(place, load) {
                continue;
            }
            self.mark(purpose, place, load);
            return Some(self.plan_of(load, purpose, place, self.goal.longest_trial));
        }
    }

    /// Returns a test of the highest load if an SLO has only one test left and no certified end. The answer then has a
    /// bound.
    fn last_bound(&mut self, place: usize) -> Option<TrialPlan> {
        let state = &self.states[place];
        let tests = state.works_tests + state.fails_tests;
        if tests + 1 < MOST_TESTS || state.works.is_some() || state.fails.is_some() {
            return None;
        }
        let highest = self.highest(place)?;
        self.certify_violation(place, highest)
    }

    /// Whether an SLO has used up its tests; the search for it is then given up.
    pub(super) fn has_no_tests_left(&mut self, place: usize) -> bool {
        let state = &mut self.states[place];
        let tests = state.works_tests + state.fails_tests;
        if tests >= MOST_TESTS {
            state.given_up = Some(format!("{tests} tests of its ends gave no decision"));
        }
        tests >= MOST_TESTS
    }

    /// Whether the generator cannot apply a load that an SLO needs; the search for this SLO is then given up.
    fn exceeds_generator(&mut self, place: usize, load: f64) -> bool {
        let Some((limit, reason)) = &self.limit else {
            return false;
        };
        let is_beyond = self.goal.possible(load) > *limit;
        if is_beyond {
            self.states[place].given_up = Some(reason.clone());
            self.states[place].exceeds_generator = true;
        }
        is_beyond
    }

    /// Returns the end to test, and its load. An open test of this end is continued if it is at about this load.
    pub(super) fn end_to_test(&self, place: usize, median: f64) -> (f64, Purpose) {
        let (load, purpose) = self.best_end(place, median);
        let state = &self.states[place];
        let (end, other) = match purpose {
            Purpose::Works => (End::Works, state.fails),
            _ => (End::Fails, state.works),
        };
        let open = state.near_open_test(end, load, &self.goal);
        // The interval between this load and the certified end must be narrow enough.
        let fits = other.is_none_or(|other| self.goal.is_reached(other.min(open), other.max(open)));
        (self.goal.possible(if fits { open } else { load }), purpose)
    }

    /// Returns the next end to test. The ends are symmetric around the median, unless a certified end fits the median.
    fn best_end(&self, place: usize, median: f64) -> (f64, Purpose) {
        let state = &self.states[place];
        let (wide, half) = (1.0 + self.goal.width, (1.0 + self.goal.width).sqrt());
        // The smallest distance of the other end from the median, as a factor.
        let near = half.powf(0.6);
        let works_end = |fails: f64| match self.goal.whole {
            true => (fails / wide).ceil().min(fails - 1.0).max(1.0),
            false => fails / wide,
        };
        let fails_end = |works: f64| match self.goal.whole {
            true => (works * wide).floor().max(works + 1.0),
            false => works * wide,
        };
        if let Some(works) = state.works
            && fails_end(works) >= median * near
        {
            return (fails_end(works), Purpose::Fails);
        }
        if let Some(fails) = state.fails
            && works_end(fails) <= median / near
            && state.works.is_none_or(|works| works_end(fails) > works)
        {
            return (works_end(fails), Purpose::Works);
        }
        let load = median / half;
        let load = if self.goal.whole {
            load.floor().max(1.0)
        } else {
            load
        };
        match state.works {
            // The estimate is below a load that is certified to work. The certificate takes precedence, and the upper
            // end is tested next to that load.
            Some(works) if load <= works => (fails_end(works), Purpose::Fails),
            _ => (load, Purpose::Works),
        }
    }

    /// Marks the SLOs for which a trial tests an end: the SLO of the trial, and other SLOs that need the same end
    /// next.
    pub(super) fn mark(&mut self, purpose: Purpose, place: usize, load: f64) {
        let (works, fails) = (purpose == Purpose::Works, purpose == Purpose::Fails);
        if !works && !fails {
            return;
        }
        for other in 0..self.states.len() {
            let state = &self.states[other];
            let needs = other == place || (works && self.tests_jointly(state, load)) || {
                !state.is_settled(&self.goal)
                    && match (purpose, state.works) {
                        (Purpose::Works, None) => state.estimate(None).is_some_and(|estimate| {
                            load < estimate.median
                                && estimate.median < load * (1.0 + self.goal.width)
                        }),
                        (Purpose::Fails, Some(works)) => {
                            load > works && self.goal.is_reached(works, load)
                        }
                        (Purpose::Fails, None) => state.seems == (None, Some(load)),
                        _ => false,
                    }
            };
            self.tested[other] = needs;
        }
    }

    /// Returns a short trial at a load that works, after the overloads.
    pub(super) fn recovery(&mut self) -> Option<TrialPlan> {
        if self.ended {
            return None;
        }
        self.ended = true;
        let certified = self.states.iter().enumerate();
        let certified = certified.filter(|(_, state)| state.is_reached(&self.goal));
        let (place, works) = certified
            .filter_map(|(place, state)| Some((place, state.works?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(self.plan_of(works, Purpose::Recovery, place, self.longest_short()))
    }
}
