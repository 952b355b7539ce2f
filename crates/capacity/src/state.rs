//! The state of the search for one SLO.

use crate::evidence::{Counts, Evidence};
use crate::goal::Goal;
use crate::posterior::{Estimate, Observation};
use crate::slo_limit::SloLimit;

/// Evidence, as a natural logarithm, at which a short trial is clear: about one in twenty is then wrong.
const CLEAR: f64 = 3.0;
/// The shortest trial that can be clear, in seconds; half of this time for a gross overload.
const SHORTEST: f64 = 2.0;
/// The share of bad exchanges of a gross overload.
const GROSS: f64 = 0.5;
/// A trial whose latency rises towards the limit counts as this many independent exchanges.
const RISING_WEIGHT: f64 = 8.0;
/// The smallest number of independent exchanges for a certificate: fewer exchanges do not show their dispersion.
pub(crate) const LEAST_EFFECTIVE: f64 = 20.0;
/// Loads that differ by less than the width divided by this number belong to the same test.
const SAME: f64 = 6.0;
/// From this share of bad exchanges on, a server counts as overloaded during a whole trial.
const THROUGHOUT: f64 = 0.98;

/// The state of the search for one SLO.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) slo: SloLimit,
    pub(crate) observations: Vec<Observation>,
    /// The largest load that seemed to work, and the smallest that seemed to fail.
    pub(crate) seems: (Option<f64>, Option<f64>),
    /// The certified ends.
    pub(crate) works: Option<f64>,
    pub(crate) fails: Option<f64>,
    /// The last test of each end that is not certified: its load, and the counts of its trials.
    pub(crate) open_tests: [Option<(f64, Counts)>; 2],
    /// The number of loads that were tested for each end.
    pub(crate) works_tests: u32,
    pub(crate) fails_tests: u32,
    /// Loads that failed, certified or clearly, below a load that works.
    pub(crate) failing_below: Vec<f64>,
    /// The reason why the search for this SLO was given up.
    pub(crate) given_up: Option<String>,
    /// Whether the search was given up because the generator cannot apply the load.
    pub(crate) exceeds_generator: bool,
    pub(crate) located: u32,
}

/// An end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Works,
    Fails,
}

/// The verdict of a trial so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More time is needed.
    Open,
    /// The end is certified.
    Certified,
    /// The evidence is against this end.
    Refuted,
}

impl State {
    pub(crate) fn new(slo: SloLimit) -> State {
        State {
            slo,
            observations: Vec::new(),
            seems: (None, None),
            works: None,
            fails: None,
            open_tests: [None; 2],
            works_tests: 0,
            fails_tests: 0,
            failing_below: Vec::new(),
            given_up: None,
            exceeds_generator: false,
            located: 0,
        }
    }

    /// Whether the search for this SLO is finished.
    pub(crate) fn is_settled(&self, goal: &Goal) -> bool {
        self.given_up.is_some() || self.is_reached(goal)
    }

    pub(crate) fn is_reached(&self, goal: &Goal) -> bool {
        matches!((self.works, self.fails), (Some(works), Some(fails)) if goal.is_reached(works, fails))
    }

    /// Whether the latency rises so fast that the SLO would be violated within the horizon.
    pub(crate) fn is_rising(&self, evidence: &Evidence, goal: &Goal) -> bool {
        match (evidence.rise, self.slo.limit) {
            (Some(rise), Some(limit)) => evidence.recent_latency + rise * goal.horizon > limit,
            _ => false,
        }
    }

    /// Returns the trial as an observation for the posterior.
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

    /// Records the results of a trial.
    pub(crate) fn keep(&mut self, load: f64, evidence: &Evidence, goal: &Goal) {
        let observation = self.observation(load, evidence, goal);
        let is_bad = observation.share > self.slo.share;
        if evidence.fails > CLEAR && self.works.is_some_and(|works| load < works) {
            self.failing_below.push(load);
        }
        self.observations.push(observation);
        match is_bad {
            true => self.seems.1 = Some(self.seems.1.map_or(load, |before| before.min(load))),
            false => self.seems.0 = Some(self.seems.0.map_or(load, |before| before.max(load))),
        }
    }

    /// Estimates the capacity from all finished trials and a running one.
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
        // The estimate is between the certified ends.
        let between = match (self.works, self.fails) {
            (Some(works), Some(fails)) if works < fails => (works, fails),
            (Some(works), None) if works < between.1 => (works, between.1),
            (None, Some(fails)) if fails > between.0 => (between.0, fails),
            _ => between,
        };
        Some(Estimate::of(&observations, between, self.slo.share))
    }

    /// Whether a short trial is clear: it works, or fails. A failure without a rising latency may be caused by a cold
    /// server, so it is clear only after some seconds.
    pub(crate) fn is_clear(&self, evidence: &Evidence, goal: &Goal) -> bool {
        if evidence.seconds < SHORTEST {
            let is_gross = evidence.share() > GROSS.max(2.0 * self.slo.share);
            return is_gross && evidence.seconds >= SHORTEST / 2.0 && evidence.rise.is_some();
        }
        let is_bad = evidence.fails > CLEAR && evidence.seconds >= goal.shortest_failing();
        is_bad || self.is_rising(evidence, goal) || evidence.works > CLEAR
    }

    /// Returns the counts of earlier trials of the same test.
    pub(crate) fn counted(&self, end: End, load: f64) -> Option<Counts> {
        let (at, counts) = self.open_tests[end as usize]?;
        (at == load).then_some(counts)
    }

    /// Returns the load of the open test of an end, if it is close to `load`, so that the trials add up; else `load`.
    pub(crate) fn near_open_test(&self, end: End, load: f64, goal: &Goal) -> f64 {
        match self.open_tests[end as usize] {
            Some((at, _)) if (at / load - 1.0).abs() < goal.width / SAME => at,
            _ => load,
        }
    }

    /// Returns the error level of a test of an end at a load.
    pub(crate) fn level(&self, end: End, load: f64, goal: &Goal) -> f64 {
        let tests = match end {
            End::Works => self.works_tests,
            End::Fails => self.fails_tests,
        };
        goal.level(tests + u32::from(self.counted(end, load).is_none()))
    }

    /// Counts a test of an end, and records its result.
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
            &self.slo,
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

    /// Whether a trial certifies that its load fails. `second_half` is the evidence of the second half of the trial.
    pub(crate) fn fails_at(
        &self,
        load: f64,
        evidence: &Evidence,
        second_half: &Evidence,
        goal: &Goal,
    ) -> Verdict {
        let limit = self.slo.share;
        let is_long = evidence.seconds >= goal.shortest_failing();
        let earlier = self.counted(End::Fails, load);
        let all = evidence.after(earlier.unwrap_or_default(), &self.slo);
        // The two tests below share the level.
        let level = self.level(End::Fails, load, goal) / 2.0;
        let by_evidence = all.fails >= -libm::log(level) && evidence.effective() >= LEAST_EFFECTIVE;
        // The bound of the running share is valid for a single trial, not for several trials together.
        let by_share = earlier.is_none() && evidence.share() >= limit / level;
        // For limits so large that the share cannot reach `limit / level`.
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
