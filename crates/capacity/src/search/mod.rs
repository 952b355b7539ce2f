//! The search: which load is tried next, for how long, and when the answer is known.

mod joint;
mod propose;

use crate::evidence::Evidence;
use crate::goal::Goal;
use crate::outcome::{Answer, Outcome, PromiseOutcome};
use crate::promise::Promise;
use crate::state::{End, State, Verdict};
use crate::trial::{PromiseSeen, Purpose, TrialPlan, TrialRecord, TrialSoFar};

/// From here on, a test of an end is given up that would not be decided in time.
const PROJECT_FROM: f64 = 20.0;
/// A test of an end is looked at by the posterior from here on, and every so many seconds.
const RECONSIDER: f64 = 4.0;
/// How often an invalid trial is repeated.
const REPEATS: u32 = 1;
/// How often a trial is repeated that is invalid although a higher load was valid: the load is not the reason.
const MOST_REPEATS: u32 = 12;
/// How often the load is divided while no trial was valid.
const MOST_DESCENTS: u32 = 4;

/// A search that is under way; see the [crate] for how to drive it.
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
    /// The largest load to try, and why the generator cannot apply more.
    limit: Option<(f64, String)>,
    /// The part of it that was known before the first trial.
    ceiling: Option<(f64, String)>,
    /// How often the running trial repeats an invalid one.
    repeats: u32,
    /// How often the load was divided because no trial was valid.
    descents: u32,
    /// Why the search ended before its answers were known.
    stopped: Option<String>,
    recovers: Option<bool>,
    started_at: f64,
    ended: bool,
    /// Whether only the load is sought up to which all promises hold.
    is_joint: bool,
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
    /// Whether all of these reasons may be other work of the same machine.
    pub is_noise: bool,
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
            ceiling: None,
            repeats: 0,
            descents: 0,
            stopped: None,
            recovers: None,
            started_at: 0.0,
            ended: false,
            is_joint: false,
        }
    }

    /// The promises, in order.
    pub fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.states.iter().map(|state| &state.promise)
    }

    /// Limits the loads to what the generator can apply. A promise that holds there is answered as
    /// [`Answer::Invalid`], with this reason.
    pub fn limit_generator(&mut self, load: f64, reason: String) {
        self.limit = Some((load, reason));
        self.ceiling.clone_from(&self.limit);
    }

    /// Ends the search. Promises without an interval are inconclusive, for this reason.
    pub fn stop(&mut self, reason: String) {
        self.stopped.get_or_insert(reason);
    }

    /// The next trial at `now` seconds since the start of the search; `None`: the answer is known, or the budget spent.
    pub fn next_trial(&mut self, now: f64) -> Option<TrialPlan> {
        self.tested.iter_mut().for_each(|tested| *tested = false);
        self.reconsider = RECONSIDER;
        self.started_at = now;
        if now >= self.goal.budget {
            self.stop(format!("the budget of {} s is spent", self.goal.budget));
        }
        if self.stopped.is_some() {
            self.plan = None;
            return None;
        }
        if let Some(plan) = self.plan
            && self.repeats > 0
        {
            self.mark(plan.purpose, plan.promise, plan.load);
            return Some(plan);
        }
        self.plan = None;
        let plan = self
            .bracket()
            .or_else(|| self.narrow())
            .or_else(|| self.recovery());
        self.plan = plan;
        plan
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
            Purpose::Locate if self.is_joint => self.is_clear(trial, plan.promise, &plan),
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
            self.keep_invalid(&plan, ending);
            return;
        }
        self.repeats = 0;
        if self.descents > 0 && self.largest_valid(plan.load).is_none() {
            // The first valid trial. Those above may have been invalid because of noise: they are tried again, once.
            self.limit.clone_from(&self.ceiling);
        }
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

    /// An invalid trial is repeated, more often where other work of the machine may be the reason. If all of them are
    /// invalid, this load is beyond what the generator can send, unless a higher one was valid.
    fn keep_invalid(&mut self, plan: &TrialPlan, ending: &Ending) {
        let reason = ending.invalid.join("; ");
        let mut valid = self.records.iter().filter(|trial| trial.invalid.is_empty());
        let is_possible = valid.any(|trial| trial.load >= plan.load);
        let most = match plan.purpose {
            _ if is_possible => self.goal.noise_repeats.max(MOST_REPEATS),
            _ if !ending.is_noise => REPEATS,
            // Most trials that only bracket are far from the capacity.
            Purpose::Bracket => self.goal.noise_repeats.saturating_sub(1),
            _ => self.goal.noise_repeats,
        };
        if self.repeats < most {
            self.repeats += 1;
            return;
        }
        self.repeats = 0;
        if is_possible {
            let load = plan.load;
            self.stop(format!(
                "all {} trials at a load of {load:.1} were INVALID, although a higher load was valid: {reason}",
                most + 1
            ));
            return;
        }
        let limit = match self.largest_valid(plan.load) {
            Some(largest) => {
                // Between the two loads there may be more: the middle is the next to be tried.
                let middle = (largest * plan.load).sqrt();
                match plan.purpose == Purpose::Bracket && middle > 1.1 * largest {
                    true => middle,
                    false => largest,
                }
            }
            None if self.descents < MOST_DESCENTS && self.goal.lower(plan.load) < plan.load => {
                self.descents += 1;
                self.goal.lower(plan.load)
            }
            None => {
                self.stop(reason.clone());
                for state in &mut self.states {
                    state.is_beyond_the_generator = true;
                }
                plan.load
            }
        };
        self.limit = Some((limit, reason));
    }

    /// The largest load of a valid trial below `load`.
    fn largest_valid(&self, load: f64) -> Option<f64> {
        let valid = self.records.iter();
        let valid = valid.filter(|trial| trial.invalid.is_empty() && trial.load < load);
        valid.map(|trial| trial.load).max_by(f64::total_cmp)
    }

    /// The trials that ended, in order.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.records
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
        let valid_up_to = self.largest_valid(f64::INFINITY);
        let answer = match (&self.limit, state.works, state.fails) {
            (_, Some(works), Some(fails)) if state.is_reached(&self.goal) => {
                Answer::Interval { works, fails }
            }
            (Some((_, reason)), _, None) if state.is_beyond_the_generator => Answer::Invalid {
                valid_up_to,
                reason: reason.clone(),
            },
            (_, works, fails) => Answer::Inconclusive {
                works,
                fails,
                reason: state
                    .given_up
                    .as_ref()
                    .or(self.stopped.as_ref())
                    .map_or_else(
                        || {
                            match self.is_joint {
                                true => "another promise breaks first",
                                false => "the search ended before",
                            }
                            .to_owned()
                        },
                        String::clone,
                    ),
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
mod tests;
