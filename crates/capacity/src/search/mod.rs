//! The search: chooses the load and the duration of the next trial, and ends when the answer is known.

mod descent;
mod joint;
mod propose;

use crate::evidence::Evidence;
use crate::goal::Goal;
use crate::outcome::{Answer, Outcome, SloOutcome};
use crate::slo_limit::SloLimit;
use crate::state::{End, State, Verdict};
use crate::trial::{Purpose, SloResult, TrialPlan, TrialRecord, TrialSoFar};

/// After this time, in seconds, a test of an end is abandoned if its longest time would not suffice for a decision.
const PROJECT_FROM: f64 = 20.0;
/// Seconds of a test of an end after which the posterior is evaluated, and again after each further interval of this
/// length.
const RECONSIDER: f64 = 4.0;
/// Maximum number of repeats of an invalid trial.
const REPEATS: u32 = 1;
/// Maximum number of repeats of an invalid trial if a trial at a higher load was valid: the load is then not the cause.
const MOST_REPEATS: u32 = 12;
/// Maximum number of divisions of the load while no trial was valid.
const MOST_DESCENTS: u32 = 4;

/// A search in progress; see the [crate] for how to drive it.
#[derive(Debug, Clone)]
pub struct Search {
    goal: Goal,
    states: Vec<State>,
    records: Vec<TrialRecord>,
    plan: Option<TrialPlan>,
    /// Whether the running trial tests an end for each SLO.
    tested: Vec<bool>,
    /// Whether the running trial ends only with its certificate, or at its longest time.
    is_last_test: bool,
    /// Measured seconds of the running trial at which the posterior is evaluated again.
    reconsider: f64,
    /// Loads to try before those that the posterior proposes: near the throughput of an overload.
    proposed: Vec<f64>,
    /// The largest load to try, and the reason why the generator cannot apply more.
    limit: Option<(f64, String)>,
    /// The limit that was set before the first trial.
    ceiling: Option<(f64, String)>,
    /// Number of repeats of the running trial, because it was invalid.
    repeats: u32,
    /// Number of divisions of the load, because no trial was valid.
    descents: u32,
    /// The reason why the search ended without an answer for each SLO.
    stopped: Option<String>,
    recovers: Option<bool>,
    started_at: f64,
    ended: bool,
    /// Whether the search is for the highest load at which all SLOs are met.
    is_joint: bool,
}

/// Facts about a finished trial.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Completed exchanges per second, if known.
    pub achieved: Option<f64>,
    /// Median and 99th percentile of the latency in milliseconds, if known.
    pub latency_ms: Option<[f64; 2]>,
    /// The reasons why the trial does not count; empty if the trial is valid.
    pub invalid: Vec<String>,
    /// Whether other work of the same machine may be the cause of all these reasons.
    pub is_noise: bool,
}

impl Search {
    /// Creates a search for the capacities of these SLOs.
    ///
    /// # Panics
    /// If there is no SLO.
    pub fn new(goal: Goal, slos: Vec<SloLimit>) -> Search {
        assert!(!slos.is_empty(), "a search needs an SLO");
        let count = slos.len();
        Search {
            goal,
            states: slos.into_iter().map(State::new).collect(),
            records: Vec::new(),
            plan: None,
            tested: vec![false; count],
            is_last_test: false,
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

    /// The SLOs, in order.
    pub fn slos(&self) -> impl Iterator<Item = &SloLimit> {
        self.states.iter().map(|state| &state.slo)
    }

    /// Limits the loads to the highest load that the generator can apply. An SLO that is met at this limit is answered
    /// as [`Answer::Invalid`], with this reason.
    pub fn set_generator_limit(&mut self, load: f64, reason: String) {
        self.limit = Some((load, reason));
        self.ceiling.clone_from(&self.limit);
    }

    /// Ends the search. SLOs without an interval are inconclusive, for this reason.
    pub fn stop(&mut self, reason: String) {
        self.stopped.get_or_insert(reason);
    }

    /// Returns the next trial at `now` seconds since the start of the search; `None` if the answer is known or the
    /// budget is spent.
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
            self.mark(plan.purpose, plan.slo, plan.load);
            return Some(plan);
        }
        self.plan = None;
        self.is_last_test = false;
        let plan = self
            .bracket()
            .or_else(|| self.narrow())
            .or_else(|| self.recovery());
        self.plan = plan;
        plan
    }

    /// Whether the running trial may end, given its measurements so far.
    pub fn look(&mut self, trial: &TrialSoFar) -> bool {
        let Some(plan) = self.plan else {
            return true;
        };
        if trial.seconds >= plan.longest {
            return true;
        }
        match plan.purpose {
            Purpose::Locate if self.is_joint => self.is_clear(trial, plan.slo, &plan),
            Purpose::Bracket | Purpose::Locate => {
                (0..self.states.len()).all(|place| self.is_clear(trial, place, &plan))
            }
            Purpose::Recovery => self.is_clear(trial, plan.slo, &plan),
            Purpose::Works | Purpose::Fails => self.is_tested(trial, &plan),
        }
    }

    fn is_clear(&self, trial: &TrialSoFar, place: usize, plan: &TrialPlan) -> bool {
        let state = &self.states[place];
        let evidence = trial.evidence(place, &state.slo);
        // Without a latency limit, an exchange counts as good or bad only after the timeout.
        let known = match state.slo.limit {
            Some(_) => trial.seconds,
            None => trial.known(&state.slo),
        };
        // A bracketing trial without a bad exchange is clear enough.
        let is_spotless = plan.purpose == Purpose::Bracket
            && evidence.bad == 0
            && evidence.rise.is_none()
            && state.is_spotless_enough(plan.load, evidence.effective());
        state.is_clear(&evidence, &self.goal) || (is_spotless && known >= 2.0)
    }

    fn is_tested(&mut self, trial: &TrialSoFar, plan: &TrialPlan) -> bool {
        let state = &self.states[plan.slo];
        let evidence = trial.evidence(plan.slo, &state.slo);
        match self.verdict(trial, plan.slo, plan, &evidence) {
            Verdict::Certified => return true,
            _ if self.is_last_test => return false,
            Verdict::Refuted => return true,
            Verdict::Open => {}
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
            let (other, purpose) = self.end_to_test(plan.slo, estimate.median);
            (purpose != plan.purpose || other != plan.load)
                && gained * plan.longest < needed * trial.seconds
        };
        match works {
            true if is_rising => trial.seconds >= self.goal.final_trial,
            true => below > 0.6 || is_hopeless,
            // A rising latency needs some time until it violates the SLO.
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
        let slots = trial.series[place].until(trial.known(&state.slo));
        let second_half = Evidence::of(&slots[slots.len() / 2..], &state.slo);
        state.fails_at(plan.load, evidence, &second_half, &self.goal)
    }

    /// Records a finished trial.
    pub fn end(&mut self, trial: &TrialSoFar, ending: &Ending) {
        let Some(plan) = self.plan else {
            return;
        };
        let evidence: Vec<Evidence> = (0..self.states.len())
            .map(|place| trial.evidence(place, &self.states[place].slo))
            .collect();
        let seen = evidence
            .iter()
            .zip(&self.states)
            .map(|(one, state)| SloResult {
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
            slos: seen.collect(),
        });
        if !ending.invalid.is_empty() {
            self.keep_invalid(&plan, ending);
            return;
        }
        self.repeats = 0;
        if self.descents > 0 && self.largest_valid(plan.load).is_none() {
            // The first valid trial. Higher loads may have been invalid because of noise, so they are tried again,
            // once.
            self.limit.clone_from(&self.ceiling);
        }
        for (place, one) in evidence.iter().enumerate() {
            if self.tested[place] {
                self.certify(trial, place, &plan, one);
            }
            self.states[place].keep(plan.load, one, &self.goal);
        }
        if plan.purpose == Purpose::Recovery {
            let one = &evidence[plan.slo];
            let state = &self.states[plan.slo];
            self.recovers =
                Some(one.share() <= state.slo.share || !state.is_clear(one, &self.goal));
        }
        if let (Purpose::Bracket, Some(achieved)) = (plan.purpose, ending.achieved)
            && !self.goal.whole
            && achieved < 0.9 * plan.load
        {
            // The throughput of an overloaded server is usually close to its capacity.
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

    /// Repeats an invalid trial, more often if other work of the machine may be the reason. If all repeats are invalid,
    /// the generator cannot send this load, unless a higher load was valid.
    fn keep_invalid(&mut self, plan: &TrialPlan, ending: &Ending) {
        let reason = ending.invalid.join("; ");
        let mut valid = self.records.iter().filter(|trial| trial.invalid.is_empty());
        let is_possible = valid.any(|trial| trial.load >= plan.load);
        let most = match plan.purpose {
            _ if is_possible => self.goal.noise_repeats.max(MOST_REPEATS),
            _ if !ending.is_noise => REPEATS,
            // Bracketing trials are repeated less often: most of them are far from the capacity.
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
                // The generator's limit may lie between the two loads: the middle is tried next.
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
                    state.exceeds_generator = true;
                }
                plan.load
            }
        };
        self.limit = Some((self.goal.possible(limit), reason));
    }

    /// Returns the largest load of a valid trial below `load`.
    fn largest_valid(&self, load: f64) -> Option<f64> {
        let valid = self.records.iter();
        let valid = valid.filter(|trial| trial.invalid.is_empty() && trial.load < load);
        valid.map(|trial| trial.load).max_by(f64::total_cmp)
    }

    /// The finished trials, in order.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.records
    }

    /// Returns the outcome so far; `seconds` is the time since the start of the search.
    pub fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            slos: self.states.iter().map(|state| self.found(state)).collect(),
            recovers: self.recovers,
            seconds,
            trials: self.records.clone(),
        }
    }

    fn found(&self, state: &State) -> SloOutcome {
        let valid_up_to = self.largest_valid(f64::INFINITY);
        let answer = match (&self.limit, state.works, state.fails) {
            (_, Some(works), Some(fails)) if state.is_reached(&self.goal) => {
                Answer::Interval { works, fails }
            }
            (Some((_, reason)), _, None) if state.exceeds_generator => Answer::Invalid {
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
                                true => "another SLO is violated first",
                                false => "the search ended before",
                            }
                            .to_owned()
                        },
                        String::clone,
                    ),
            },
        };
        SloOutcome {
            slo: state.slo.text.clone(),
            answer,
            estimate: state.estimate(None).map(|estimate| estimate.median),
            attempts: state.works_tests.max(state.fails_tests),
            failing_below: state.failing_below.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
