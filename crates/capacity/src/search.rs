//! The search: which load is tried next, for how long, and when the answer is known.

use crate::evidence::Evidence;
use crate::goal::Goal;
use crate::outcome::{Answer, Outcome, PromiseOutcome};
use crate::promise::Promise;
use crate::state::{End, State, Verdict};
use crate::trial::{PromiseSeen, Purpose, TrialPlan, TrialRecord, TrialSoFar};

/// Growth of the load while the capacity is not bracketed.
const GROWTH: f64 = 4.0;
/// The longest short trial, in seconds.
const LONGEST_SHORT: f64 = 6.0;
/// From here on, a test of an end is given up that would not be decided in time.
const PROJECT_FROM: f64 = 20.0;
/// Short trials that narrow the estimate, at most.
const MOST_LOCATING: u32 = 16;
/// A test of an end is looked at by the posterior from here on, and every so many seconds.
const RECONSIDER: f64 = 4.0;
/// Tests of ends of one promise, at most.
const MOST_TESTS: u32 = 24;
/// Loads below this share of the first are not tried.
const LEAST: f64 = 1e-4;

/// A search that is under way; see the [crate](crate) for how to drive it.
#[derive(Debug, Clone)]
pub struct Search {
    goal: Goal,
    states: Vec<State>,
    records: Vec<TrialRecord>,
    plan: Option<TrialPlan>,
    /// Promises whose end is tested by the running trial.
    tested: Vec<bool>,
    /// When the posterior is asked again.
    reconsider: f64,
    /// Loads that are tried before the posterior proposes any: near the throughput of an overload.
    proposed: Vec<f64>,
    /// The loads up to which trials were valid, and why those above were not.
    limit: Option<(f64, String)>,
    /// Whether the running trial repeats an invalid one.
    is_repeat: bool,
    recovers: Option<bool>,
    started_at: f64,
    ended: bool,
}

/// How a trial ended.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Completed exchanges per second, if known.
    pub achieved: Option<f64>,
    /// Median and 99th percentile of the latency in milliseconds, if known.
    pub latency_ms: Option<[f64; 2]>,
    /// Why it is no trial of the server; empty: it is valid.
    pub invalid: Vec<String>,
}

impl Search {
    /// A search for the capacities of these promises.
    ///
    /// # Panics
    /// Without a promise.
    pub fn new(goal: Goal, promises: Vec<Promise>) -> Search {
        assert!(!promises.is_empty(), "a search needs a promise");
        let count = promises.len();
        Search {
            goal,
            states: promises.into_iter().map(State::new).collect(),
            records: Vec::new(),
            plan: None,
            tested: vec![false; count],
            reconsider: 0.0,
            proposed: Vec::new(),
            limit: None,
            is_repeat: false,
            recovers: None,
            started_at: 0.0,
            ended: false,
        }
    }

    /// The promises, in order.
    pub fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.states.iter().map(|state| &state.promise)
    }

    /// The next trial at `now` seconds since the start of the search; `None`: the answer is known, or the budget spent.
    pub fn next_trial(&mut self, now: f64) -> Option<TrialPlan> {
        self.tested.iter_mut().for_each(|tested| *tested = false);
        self.reconsider = RECONSIDER;
        self.started_at = now;
        if let Some(plan) = self.plan
            && self.is_repeat
        {
            self.mark(plan.purpose, plan.promise, plan.load);
            return Some(plan);
        }
        self.plan = None;
        if now >= self.goal.budget {
            return None;
        }
        let plan = self
            .bracket()
            .or_else(|| self.narrow())
            .or_else(|| self.recovery());
        self.plan = plan;
        plan
    }

    fn plan_of(&self, load: f64, purpose: Purpose, promise: usize, longest: f64) -> TrialPlan {
        TrialPlan {
            load: self.goal.possible(load),
            purpose,
            promise,
            warm_up: self.goal.warm_up,
            longest,
        }
    }

    /// Growth until each promise has a load that seems to work and one that seems to fail.
    fn bracket(&mut self) -> Option<TrialPlan> {
        let tried = || {
            self.records
                .iter()
                .filter(|trial| trial.invalid.is_empty())
                .map(|trial| trial.load)
        };
        let largest = tried().fold(0.0, f64::max);
        let smallest = tried().fold(f64::INFINITY, f64::min);
        let most = self
            .limit
            .as_ref()
            .map_or(self.goal.most, |(limit, _)| *limit);
        for place in 0..self.states.len() {
            if self.states[place].given_up.is_some() {
                continue;
            }
            let short = |load| self.plan_of(load, Purpose::Bracket, place, self.longest_short());
            match self.states[place].seems {
                (None, None) => return Some(short(self.goal.start.min(most))),
                (Some(_), None) if largest < most * 0.999 => {
                    let next = if largest * GROWTH > most {
                        most
                    } else {
                        largest * GROWTH
                    };
                    return Some(short(next));
                }
                (Some(good), None) => {
                    let unit = if self.goal.whole {
                        "users"
                    } else {
                        "requests per second"
                    };
                    let reason =
                        format!("the promise was kept at {good:.0} {unit}, the largest load tried");
                    self.states[place].given_up = Some(reason);
                }
                (None, Some(_)) => {
                    let next = self.goal.possible(smallest / GROWTH);
                    if next < smallest && next >= self.goal.start * LEAST {
                        return Some(short(next));
                    }
                    let reason =
                        format!("the promise was broken at {smallest:.3}, the smallest load tried");
                    self.states[place].given_up = Some(reason);
                }
                (Some(_), Some(_)) => {}
            }
        }
        None
    }

    /// The longest short trial: the limit must be able to show.
    fn longest_short(&self) -> f64 {
        LONGEST_SHORT + 2.0 * self.longest_limit()
    }

    fn longest_limit(&self) -> f64 {
        self.states
            .iter()
            .filter_map(|state| state.promise.limit)
            .fold(0.0, f64::max)
    }

    /// A trial that narrows the interval of the first promise that is not settled, the lowest capacity first.
    fn narrow(&mut self) -> Option<TrialPlan> {
        loop {
            let estimates = self
                .states
                .iter()
                .enumerate()
                .filter(|(_, state)| !state.is_settled(&self.goal));
            let estimates =
                estimates.filter_map(|(place, state)| Some((place, state.estimate(None)?)));
            let (place, estimate) = estimates.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
            let width = self.goal.width;
            let state = &mut self.states[place];
            let is_wide = estimate.range.1 / estimate.range.0 > 1.0 + width;
            let has_room = !self.goal.whole || estimate.range.1 - estimate.range.0 > 1.0;
            if state.works.is_none()
                && state.fails.is_none()
                && is_wide
                && has_room
                && state.located < MOST_LOCATING
            {
                state.located += 1;
                let range = (estimate.range.0 * 0.9, estimate.range.1 * 1.1);
                let proposed = self
                    .proposed
                    .pop()
                    .filter(|load| (range.0..range.1).contains(load));
                let load = proposed.unwrap_or(estimate.median);
                return Some(self.plan_of(load, Purpose::Locate, place, self.longest_short()));
            }
            let tests = state.works_tests + state.fails_tests;
            if tests >= MOST_TESTS {
                state.given_up = Some(format!("{tests} tests of its ends did not settle it"));
                continue;
            }
            let (load, purpose) = self.end_to_test(place, estimate.median);
            if let Some((limit, reason)) = &self.limit
                && load > *limit
            {
                self.states[place].given_up = Some(reason.clone());
                continue;
            }
            self.mark(purpose, place, load);
            return Some(self.plan_of(load, purpose, place, self.goal.longest_trial));
        }
    }

    /// Which end is tested, at which load. An open test is continued if it is at about this load.
    fn end_to_test(&self, place: usize, median: f64) -> (f64, Purpose) {
        let (load, purpose) = self.best_end(place, median);
        let state = &self.states[place];
        let (end, other) = match purpose {
            Purpose::Works => (End::Works, state.fails),
            _ => (End::Fails, state.works),
        };
        let open = state.near_open_test(end, load, &self.goal);
        // Together with the certified end, it must be narrow enough.
        let fits = other.is_none_or(|other| self.goal.is_reached(other.min(open), other.max(open)));
        (self.goal.possible(if fits { open } else { load }), purpose)
    }

    /// The ends lie symmetrically around the median, unless one is certified and
    /// still fits it.
    fn best_end(&self, place: usize, median: f64) -> (f64, Purpose) {
        let state = &self.states[place];
        let (wide, half) = (1.0 + self.goal.width, (1.0 + self.goal.width).sqrt());
        // The other end may come this near to the median.
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
            // The estimate has moved below what is certified: the certificate counts, and the other end is next to it.
            Some(works) if load <= works => (fails_end(works), Purpose::Fails),
            _ => (load, Purpose::Works),
        }
    }

    /// Marks the promises whose end is tested by a trial: the one that it is about, and others of which it is the end
    /// that they need next.
    fn mark(&mut self, purpose: Purpose, place: usize, load: f64) {
        let (works, fails) = (purpose == Purpose::Works, purpose == Purpose::Fails);
        if !works && !fails {
            return;
        }
        for other in 0..self.states.len() {
            let state = &self.states[other];
            let needs = other == place || {
                !state.is_settled(&self.goal)
                    && match (purpose, state.works) {
                        (Purpose::Works, None) => state.estimate(None).is_some_and(|estimate| {
                            load < estimate.median
                                && estimate.median < load * (1.0 + self.goal.width)
                        }),
                        (Purpose::Fails, Some(works)) => {
                            load > works && self.goal.is_reached(works, load)
                        }
                        _ => false,
                    }
            };
            self.tested[other] = needs;
        }
    }

    /// A short trial at a load that works, after the overloads.
    fn recovery(&mut self) -> Option<TrialPlan> {
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

    /// Whether the running trial may end, after what was measured so far.
    pub fn look(&mut self, trial: &TrialSoFar) -> bool {
        let Some(plan) = self.plan else {
            return true;
        };
        if trial.seconds >= plan.longest {
            return true;
        }
        match plan.purpose {
            Purpose::Bracket | Purpose::Locate => {
                (0..self.states.len()).all(|place| self.is_clear(trial, place, &plan))
            }
            Purpose::Recovery => self.is_clear(trial, plan.promise, &plan),
            Purpose::Works | Purpose::Fails => self.is_tested(trial, &plan),
        }
    }

    fn is_clear(&self, trial: &TrialSoFar, place: usize, plan: &TrialPlan) -> bool {
        let state = &self.states[place];
        let evidence = trial.evidence(place, &state.promise);
        // While the bracket grows, a trial without any bad exchange is clear enough.
        let is_spotless =
            plan.purpose == Purpose::Bracket && evidence.bad == 0 && evidence.rise.is_none();
        state.is_clear(&evidence, &self.goal)
            || (is_spotless && evidence.exchanges > 0 && trial.seconds >= 2.0)
    }

    fn is_tested(&mut self, trial: &TrialSoFar, plan: &TrialPlan) -> bool {
        let state = &self.states[plan.promise];
        let evidence = trial.evidence(plan.promise, &state.promise);
        if self.verdict(trial, plan.promise, plan, &evidence) != Verdict::Open {
            return true;
        }
        let is_rising = state.is_rising(&evidence, &self.goal);
        if trial.seconds < self.reconsider {
            return false;
        }
        self.reconsider = trial.seconds + RECONSIDER;
        let Some(estimate) =
            state.estimate(Some(state.observation(plan.load, &evidence, &self.goal)))
        else {
            return false;
        };
        let below = estimate.below(plan.load);
        let works = plan.purpose == Purpose::Works;
        let is_hopeless = trial.seconds >= PROJECT_FROM && {
            let end = if works { End::Works } else { End::Fails };
            let level = state.level(end, plan.load, &self.goal) / if works { 1.0 } else { 2.0 };
            let needed = -libm::log(level) + Evidence::START;
            let gained = if works {
                evidence.works
            } else {
                evidence.fails
            } + Evidence::START;
            // Evidence grows in proportion to time. Another test helps only if it is at another load.
            let (other, purpose) = self.end_to_test(plan.promise, estimate.median);
            (purpose != plan.purpose || other != plan.load)
                && gained * plan.longest < needed * trial.seconds
        };
        match works {
            true if is_rising => trial.seconds >= self.goal.final_trial,
            true => below > 0.6 || is_hopeless,
            // A rise needs its time until it breaks the promise.
            false => !is_rising && (below < 0.4 || is_hopeless),
        }
    }

    fn verdict(
        &self,
        trial: &TrialSoFar,
        place: usize,
        plan: &TrialPlan,
        evidence: &Evidence,
    ) -> Verdict {
        let state = &self.states[place];
        if plan.purpose == Purpose::Works {
            return state.works_at(plan.load, evidence, &self.goal);
        }
        let slots = trial.series[place].until(trial.known(&state.promise));
        let second_half = Evidence::of(&slots[slots.len() / 2..], &state.promise);
        state.fails_at(plan.load, evidence, &second_half, &self.goal)
    }

    /// Takes a trial that ended.
    pub fn end(&mut self, trial: &TrialSoFar, ending: &Ending) {
        let Some(plan) = self.plan else {
            return;
        };
        let evidence: Vec<Evidence> = (0..self.states.len())
            .map(|place| trial.evidence(place, &self.states[place].promise))
            .collect();
        let seen = evidence
            .iter()
            .zip(&self.states)
            .map(|(one, state)| PromiseSeen {
                exchanges: one.exchanges,
                bad_share: one.share(),
                dispersion: one.dispersion,
                warm_up_s: one.warm_up,
                rising: state.is_rising(one, &self.goal),
            });
        self.records.push(TrialRecord {
            load: plan.load,
            purpose: plan.purpose,
            at_s: self.started_at,
            measured_s: trial.seconds,
            achieved_per_s: ending.achieved,
            latency_ms: ending.latency_ms,
            invalid: ending.invalid.clone(),
            promises: seen.collect(),
        });
        if !ending.invalid.is_empty() {
            self.keep_invalid(&plan, &ending.invalid);
            return;
        }
        self.is_repeat = false;
        for (place, one) in evidence.iter().enumerate() {
            if self.tested[place] {
                self.certify(trial, place, &plan, one);
            }
            self.states[place].keep(plan.load, one, &self.goal);
        }
        if plan.purpose == Purpose::Recovery {
            let one = &evidence[plan.promise];
            let state = &self.states[plan.promise];
            self.recovers =
                Some(one.share() <= state.promise.share || !state.is_clear(one, &self.goal));
        }
        if let (Purpose::Bracket, Some(achieved)) = (plan.purpose, ending.achieved)
            && !self.goal.whole
            && achieved < 0.9 * plan.load
        {
            // A server in overload completes what it can: usually that is near its capacity.
            self.proposed = vec![1.03 * achieved, 0.96 * achieved];
        }
    }

    fn certify(&mut self, trial: &TrialSoFar, place: usize, plan: &TrialPlan, evidence: &Evidence) {
        let is_certified = self.verdict(trial, place, plan, evidence) == Verdict::Certified;
        let end = if plan.purpose == Purpose::Works {
            End::Works
        } else {
            End::Fails
        };
        self.states[place].certify(end, plan.load, evidence, is_certified);
    }

    /// An invalid trial is repeated once. A second one is the limit of the generator, or of the machine.
    fn keep_invalid(&mut self, plan: &TrialPlan, reasons: &[String]) {
        if !self.is_repeat {
            self.is_repeat = true;
            return;
        }
        self.is_repeat = false;
        let valid = self
            .records
            .iter()
            .filter(|trial| trial.invalid.is_empty() && trial.load < plan.load);
        let largest = valid.map(|trial| trial.load).fold(0.0, f64::max);
        // Between the two loads there may be more: the middle is the next to be tried.
        let middle = (largest * plan.load).sqrt();
        let limit = if plan.purpose == Purpose::Bracket && middle > 1.1 * largest {
            middle
        } else {
            largest
        };
        self.limit = Some((limit, reasons.join("; ")));
    }

    /// What was found so far; `seconds` is the time since the start of the search.
    pub fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            promises: self.states.iter().map(|state| self.found(state)).collect(),
            recovers: self.recovers,
            seconds,
            trials: self.records.clone(),
        }
    }

    fn found(&self, state: &State) -> PromiseOutcome {
        let answer = match (&self.limit, state.works, state.fails) {
            (_, Some(works), Some(fails)) if state.is_reached(&self.goal) => {
                Answer::Interval { works, fails }
            }
            (Some((limit, reason)), _, None) => Answer::Invalid {
                valid_up_to: *limit,
                reason: reason.clone(),
            },
            (_, works, fails) => Answer::Inconclusive {
                works,
                fails,
                reason: state
                    .given_up
                    .clone()
                    .unwrap_or_else(|| "the search ended before".to_owned()),
            },
        };
        PromiseOutcome {
            promise: state.promise.text.clone(),
            answer,
            estimate: state.estimate(None).map(|estimate| estimate.median),
            attempts: state.works_tests.max(state.fails_tests),
            failing_below: state.failing_below.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Bench, Kind, Planted};
    use fathometer_model::Seed;

    fn planted() -> Planted {
        Planted::new(Kind::TokenBucket, Seed(3))
    }

    fn interval(outcome: &Outcome) -> (f64, f64) {
        match outcome.promises[0].answer {
            Answer::Interval { works, fails } => (works, fails),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_interval_has_the_width_that_was_asked_for_and_certified_ends() {
        let planted = planted();
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(
            Goal {
                width: 0.05,
                ..Goal::default()
            },
            vec![planted.promise.clone()],
        );
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        let (works, fails) = interval(&outcome);
        assert!(
            works < planted.capacity && planted.capacity < fails && fails <= 1.0501 * works,
            "{outcome:?}"
        );
        for (end, purpose) in [(works, Purpose::Works), (fails, Purpose::Fails)] {
            assert!(
                outcome
                    .trials
                    .iter()
                    .any(|trial| trial.load == end && trial.purpose == purpose)
            );
        }
        assert_eq!(outcome.recovers, Some(true));
    }

    #[test]
    fn a_search_without_time_left_keeps_what_it_has() {
        let planted = planted();
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(
            Goal {
                budget: 30.0,
                ..Goal::default()
            },
            vec![planted.promise],
        );
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        assert!(
            matches!(
                &outcome.promises[0].answer,
                Answer::Inconclusive { fails: None, .. }
            ),
            "{outcome:?}"
        );
        assert!(outcome.promises[0].estimate.is_some());
    }

    #[test]
    fn a_server_that_bears_the_largest_load_has_no_upper_bound() {
        let planted = planted();
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(
            Goal {
                most: 500.0,
                ..Goal::default()
            },
            vec![planted.promise],
        );
        bench.run(&mut search);
        let answer = &search.outcome(bench.now).promises[0].answer;
        assert!(
            matches!(answer, Answer::Inconclusive { reason, .. } if reason.contains("500")),
            "{answer:?}"
        );
    }

    #[test]
    fn a_generator_with_a_lower_limit_yields_no_capacity() {
        let planted = planted();
        let limit = 0.7 * planted.capacity;
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(Goal::default(), vec![planted.promise]);
        while let Some(plan) = search.next_trial(bench.now) {
            let (trial, achieved) =
                bench.apply(plan.load, plan.warm_up, plan.longest, &mut |trial| {
                    search.look(trial)
                });
            let invalid = match plan.load > limit {
                true => vec!["the generator was late".to_owned()],
                false => Vec::new(),
            };
            let ending = Ending {
                achieved: Some(achieved),
                latency_ms: None,
                invalid,
            };
            search.end(&trial, &ending);
            assert!(bench.now < 1000.0, "the search does not end");
        }
        let outcome = search.outcome(bench.now);
        match &outcome.promises[0].answer {
            Answer::Invalid {
                valid_up_to,
                reason,
            } => {
                assert!(
                    *valid_up_to <= limit && *valid_up_to > 0.2 * limit,
                    "{outcome:?}"
                );
                assert!(reason.contains("generator"));
            }
            other => panic!("{other:?}"),
        }
    }
}
