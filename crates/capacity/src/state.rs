//! The state of the search for one promise.

use crate::evidence::{Counts, Evidence};
use crate::goal::Goal;
use crate::posterior::{Estimate, Observation};
use crate::promise::Promise;

/// Evidence, as a natural logarithm, from which a short trial is clear: about one wrong of twenty.
const CLEAR: f64 = 3.0;
/// The shortest trial that is clear, in seconds; half of it for a gross overload.
const SHORTEST: f64 = 2.0;
/// The share of bad exchanges of a gross overload.
const GROSS: f64 = 0.5;
/// Independent exchanges that a trial counts for whose latency rises towards the limit.
const RISING_WEIGHT: f64 = 8.0;
/// The least number of independent exchanges behind a certificate: fewer do not show their dispersion.
const LEAST_EFFECTIVE: f64 = 20.0;
/// Loads that differ by less than the width over this are the same test.
const SAME: f64 = 6.0;
/// The share of bad exchanges at which a server is overloaded throughout.
const THROUGHOUT: f64 = 0.98;

/// The state of the search for one promise.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) promise: Promise,
    pub(crate) observations: Vec<Observation>,
    /// The largest load that seemed to work, and the smallest that seemed to fail.
    pub(crate) seems: (Option<f64>, Option<f64>),
    /// The certified ends.
    pub(crate) works: Option<f64>,
    pub(crate) fails: Option<f64>,
    /// The last test of each end that is not certified: its load, and what its trials counted.
    pub(crate) open_tests: [Option<(f64, Counts)>; 2],
    /// How many loads were tested for each end.
    pub(crate) works_tests: u32,
    pub(crate) fails_tests: u32,
    /// Certified or clear failures below a load that works.
    pub(crate) failing_below: Vec<f64>,
    /// Why nothing more is tried.
    pub(crate) given_up: Option<String>,
    /// Whether that is because the generator cannot apply the load.
    pub(crate) is_beyond_the_generator: bool,
    pub(crate) located: u32,
}

/// An end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Works,
    Fails,
}

/// What a trial says so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More time is needed.
    Open,
    /// The end is certified.
    Certified,
    /// This load is not the end that was sought.
    Refuted,
}

impl State {
    pub(crate) fn new(promise: Promise) -> State {
        State {
            promise,
            observations: Vec::new(),
            seems: (None, None),
            works: None,
            fails: None,
            open_tests: [None; 2],
            works_tests: 0,
            fails_tests: 0,
            failing_below: Vec::new(),
            given_up: None,
            is_beyond_the_generator: false,
            located: 0,
        }
    }

    /// Whether the search for this promise is over.
    pub(crate) fn is_settled(&self, goal: &Goal) -> bool {
        self.given_up.is_some() || self.is_reached(goal)
    }

    pub(crate) fn is_reached(&self, goal: &Goal) -> bool {
        matches!((self.works, self.fails), (Some(works), Some(fails)) if goal.is_reached(works, fails))
    }

    /// Whether the latency rises so fast that the promise would be broken within the horizon.
    pub(crate) fn is_rising(&self, evidence: &Evidence, goal: &Goal) -> bool {
        match (evidence.rise, self.promise.limit) {
            (Some(rise), Some(limit)) => evidence.recent_latency + rise * goal.horizon > limit,
            _ => false,
        }
    }

    /// The trial as an observation for the posterior.
    pub(crate) fn observation(&self, load: f64, evidence: &Evidence, goal: &Goal) -> Observation {
        let effective = evidence.effective();
        let share = evidence.share();
        if self.is_rising(evidence, goal) && share < 0.5 {
            return Observation {
                load,
                effective: RISING_WEIGHT,
                share: 0.5,
            };
        }
        Observation {
            load,
            effective,
            share,
        }
    }

    /// Keeps what a trial saw.
    pub(crate) fn keep(&mut self, load: f64, evidence: &Evidence, goal: &Goal) {
        let observation = self.observation(load, evidence, goal);
        let is_bad = observation.share > self.promise.share;
        if evidence.fails > CLEAR && self.works.is_some_and(|works| load < works) {
            self.failing_below.push(load);
        }
        self.observations.push(observation);
        match is_bad {
            true => self.seems.1 = Some(self.seems.1.map_or(load, |before| before.min(load))),
            false => self.seems.0 = Some(self.seems.0.map_or(load, |before| before.max(load))),
        }
    }

    /// Where the capacity is, from all trials and one that is running.
    pub(crate) fn estimate(&self, running: Option<Observation>) -> Option<Estimate> {
        let mut observations = self.observations.clone();
        observations.extend(running);
        let loads = || observations.iter().map(|one| one.load);
        let (least, most) = (
            loads().fold(f64::INFINITY, f64::min),
            loads().fold(0.0, f64::max),
        );
        let (Some(good), Some(bad)) = self.seems else {
            return None;
        };
        let between = (good.min(bad) / 2.0, good.max(bad) * 1.5);
        let between = (between.0.max(least / 2.0), between.1.min(most * 1.5));
        // What is certified is not estimated again.
        let between = match (self.works, self.fails) {
            (Some(works), Some(fails)) if works < fails => (works, fails),
            (Some(works), None) if works < between.1 => (works, between.1),
            (None, Some(fails)) if fails > between.0 => (between.0, fails),
            _ => between,
        };
        Some(Estimate::of(&observations, between, self.promise.share))
    }

    /// Whether a short trial is clear: it works, or fails. A failure without a rising latency may be that of a cold
    /// server, so that it is clear only after some seconds.
    pub(crate) fn is_clear(&self, evidence: &Evidence, goal: &Goal) -> bool {
        if evidence.seconds < SHORTEST {
            let is_gross = evidence.share() > GROSS.max(2.0 * self.promise.share);
            return is_gross && evidence.seconds >= SHORTEST / 2.0 && evidence.rise.is_some();
        }
        let is_bad = evidence.fails > CLEAR && evidence.seconds >= goal.shortest_failing();
        is_bad || self.is_rising(evidence, goal) || evidence.works > CLEAR
    }

    /// What earlier trials counted of the same test.
    pub(crate) fn counted(&self, end: End, load: f64) -> Option<Counts> {
        let (at, counts) = self.open_tests[end as usize]?;
        (at == load).then_some(counts)
    }

    /// The load of the open test of an end, if it is about this one: its trials then add up.
    pub(crate) fn near_open_test(&self, end: End, load: f64, goal: &Goal) -> f64 {
        match self.open_tests[end as usize] {
            Some((at, _)) if (at / load - 1.0).abs() < goal.width / SAME => at,
            _ => load,
        }
    }

    /// The level of a test of an end at a load.
    pub(crate) fn level(&self, end: End, load: f64, goal: &Goal) -> f64 {
        let tests = match end {
            End::Works => self.works_tests,
            End::Fails => self.fails_tests,
        };
        goal.level(tests + u32::from(self.counted(end, load).is_none()))
    }

    /// Counts a test of an end, and keeps what it found.
    pub(crate) fn certify(&mut self, end: End, load: f64, evidence: &Evidence, is_certified: bool) {
        let earlier = self.counted(end, load);
        let tests = match end {
            End::Works => &mut self.works_tests,
            End::Fails => &mut self.fails_tests,
        };
        *tests += u32::from(earlier.is_none());
        let counts = evidence.counts().and(earlier.unwrap_or_default());
        self.open_tests[end as usize] = (!is_certified).then_some((load, counts));
        match end {
            _ if !is_certified => {}
            End::Works => self.works = Some(self.works.map_or(load, |before| before.max(load))),
            End::Fails => self.fails = Some(self.fails.map_or(load, |before| before.min(load))),
        }
    }

    /// Whether a trial certifies that its load works.
    pub(crate) fn works_at(&self, load: f64, evidence: &Evidence, goal: &Goal) -> Verdict {
        let all = evidence.after(
            self.counted(End::Works, load).unwrap_or_default(),
            &self.promise,
        );
        let is_short =
            evidence.seconds < goal.shortest_failing() || evidence.effective() < LEAST_EFFECTIVE;
        if all.fails > CLEAR && !is_short {
            return Verdict::Refuted;
        }
        let is_long =
            evidence.seconds >= goal.final_trial && evidence.effective() >= LEAST_EFFECTIVE;
        let needed = -libm::log(self.level(End::Works, load, goal));
        match is_long && all.works >= needed && !self.is_rising(evidence, goal) {
            true => Verdict::Certified,
            false => Verdict::Open,
        }
    }

    /// Whether a trial certifies that its load fails. `second_half` is what the second half of the trial says.
    pub(crate) fn fails_at(
        &self,
        load: f64,
        evidence: &Evidence,
        second_half: &Evidence,
        goal: &Goal,
    ) -> Verdict {
        let limit = self.promise.share;
        let is_long = evidence.seconds >= goal.shortest_failing();
        let earlier = self.counted(End::Fails, load);
        let all = evidence.after(earlier.unwrap_or_default(), &self.promise);
        // Both tests together have the level.
        let level = self.level(End::Fails, load, goal) / 2.0;
        let by_evidence = all.fails >= -libm::log(level) && evidence.effective() >= LEAST_EFFECTIVE;
        // The running share of one trial has the level; that of each of several would not.
        let by_share = earlier.is_none() && evidence.share() >= limit / level;
        // Where the limit of the share is so large that the share cannot reach that.
        let throughout = limit >= level
            && second_half.seconds >= goal.shortest_failing()
            && second_half.share() >= THROUGHOUT;
        if is_long && second_half.share() > limit && (by_evidence || by_share || throughout) {
            return Verdict::Certified;
        }
        match all.works > CLEAR + 2.0 && !self.is_rising(evidence, goal) && is_long {
            true => Verdict::Refuted,
            false => Verdict::Open,
        }
    }
}
