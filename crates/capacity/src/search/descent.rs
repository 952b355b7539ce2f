//! Lowers the load while no load meets an SLO, and ends where no lower load is likely to meet it.
//!
//! At a low load a short trial has few exchanges, and a server that fails intermittently may answer all of them. Such a
//! trial therefore counts as meeting the SLO only if it is unlikely at the next higher load's share of bad exchanges.

use super::Search;
use crate::goal::GROWTH;
use crate::state::{LEAST_EFFECTIVE, State};
use crate::trial::{Purpose, TrialPlan, TrialRecord};

/// Loads below this share of the first load are not tried.
const LEAST: f64 = 1e-4;
/// A trial without a bad exchange counts as meeting the SLO only if it is unlikely at the next higher load's share of
/// bad exchanges: its probability there is at most e^-4, 2 %.
const UNLIKELY: f64 = 4.0;
/// The share of bad exchanges is compared between loads that differ at least by this factor.
const APART: f64 = GROWTH * GROWTH;
/// The odds of a bad exchange count as constant if the odds at lower loads are at least this share of those at higher
/// loads.
const SAME_ODDS: f64 = 0.5;
/// A trial with at least this share of bad exchanges is an overload. Overloads are not compared, because their shares
/// are about the same at several loads.
const OVERLOAD: f64 = 0.5;
/// Maximum number of trials that try to certify a violation at one load.
const MOST_TRIALS: usize = 2;
/// The minimum number of exchanges, and the minimum number of bad exchanges, at lower loads for a comparison of the
/// shares.
const LEAST_EXCHANGES: f64 = 20.0;
const LEAST_BAD: f64 = 3.0;
/// The shares of bad exchanges are compared after this number of refuted tests at loads that seemed to work.
const REFUTED: u32 = 3;
/// At most this number of loads is listed in a message.
const MOST_LISTED: usize = 4;

/// Counts of all valid trials for one SLO, at one load or at all loads up to that load.
#[derive(Debug, Clone, Copy)]
struct AtLoad {
    load: f64,
    exchanges: f64,
    bad: f64,
}

impl AtLoad {
    fn and(self, other: AtLoad) -> AtLoad {
        AtLoad {
            load: self.load.max(other.load),
            exchanges: self.exchanges + other.exchanges,
            bad: self.bad + other.bad,
        }
    }

    fn share(self) -> f64 {
        self.bad / self.exchanges.max(1.0)
    }

    /// The odds of a bad exchange; half an exchange is added to each count, so that they are finite.
    fn odds(self) -> f64 {
        (self.bad + 0.5) / (self.exchanges - self.bad + 0.5)
    }

    fn describe(self) -> String {
        format!("{:.1} % at {}", 100.0 * self.share(), digits(self.load))
    }
}

impl State {
    /// Whether a trial with this number of independent exchanges and no bad exchange counts as meeting the SLO.
    pub(super) fn is_spotless_enough(&self, load: f64, exchanges: f64) -> bool {
        exchanges > 0.0 && exchanges >= self.spotless_exchanges(load)
    }

    /// Returns the smallest number of exchanges for which a trial without a bad exchange is unlikely. The assumed share
    /// of bad exchanges is the share at the lowest load that seems to fail. Returns 0 if `load` is not below that load.
    fn spotless_exchanges(&self, load: f64) -> f64 {
        let Some(failing) = self.seems.1.filter(|failing| load < *failing) else {
            return 0.0;
        };
        let seen = self.observations.iter().filter(|one| one.load == failing);
        let share = seen.map(|one| one.share).fold(self.slo.share, f64::max);
        UNLIKELY / -libm::log(1.0 - share.min(0.999))
    }
}

impl Search {
    /// Returns the next trial for an SLO that seems to be violated at every tried load. `smallest` is the lowest tried
    /// load. Returns `None` if the search for this SLO is given up.
    pub(super) fn descend(&mut self, place: usize, smallest: f64) -> Option<TrialPlan> {
        let next = self.goal.lower(smallest);
        let is_possible =
            next < smallest && next >= self.goal.start * LEAST && self.is_long_enough(next);
        let shares = self.constant_shares(place);
        if is_possible && shares.is_none() {
            let longest = self.longest_descending(place, smallest, next);
            return Some(self.plan_of(next, Purpose::Bracket, place, longest));
        }
        if let Some(plan) = self.certify_violation(place, smallest) {
            return Some(plan);
        }
        self.states[place].given_up = Some(match shares {
            Some(shares) => self.without_capacity(&shares),
            None => {
                let unit = self.goal.unit();
                format!("the SLO was violated at {smallest:.3} {unit}, the smallest load tried")
            }
        });
        None
    }

    /// Ends the search for an SLO if loads seemed to work by chance: several loads were tested, no tested load met the
    /// SLO, and the share of bad exchanges does not fall with the load. A test of a much lower load checks the share,
    /// and the violation is then certified. Returns the next trial, and whether the search for this SLO has ended.
    pub(super) fn end_without_capacity(&mut self, place: usize) -> (Option<TrialPlan>, bool) {
        let state = &self.states[place];
        if state.works.is_some() || state.works_tests < REFUTED {
            return (None, false);
        }
        let Some(highest) = self.highest(place) else {
            return (None, false);
        };
        let Some(shares) = self.constant_shares(place) else {
            return (self.far_below(place, highest), false);
        };
        // A lower load is the better bound. At a higher load, more exchanges show the violation.
        for load in [self.lowest_tested().unwrap_or(highest), highest] {
            if self.states[place].fails.is_none()
                && let Some(plan) = self.certify_violation(place, load)
            {
                return (Some(plan), false);
            }
        }
        self.states[place].given_up = Some(self.without_capacity(&shares));
        (None, true)
    }

    /// Returns a test of a load far below all others, unless there was such a test. The load meets the SLO, or the test
    /// shows that the share of bad exchanges does not fall with the load.
    fn far_below(&mut self, place: usize, highest: f64) -> Option<TrialPlan> {
        let tested = self.lowest_tested()?;
        let load = self.goal.possible((highest / APART).min(tested / GROWTH));
        let is_far = load <= highest / APART && load < tested && self.is_long_enough(load);
        if self.states[place].works_tests > REFUTED || !is_far {
            return None;
        }
        self.mark(Purpose::Works, place, load);
        Some(self.plan_of(load, Purpose::Works, place, self.goal.longest_trial))
    }

    /// The lowest load of all valid tests that a load works.
    fn lowest_tested(&self) -> Option<f64> {
        let is_test = |one: &&TrialRecord| one.purpose == Purpose::Works && one.invalid.is_empty();
        let tested = self.records.iter().filter(is_test);
        tested.map(|trial| trial.load).reduce(f64::min)
    }

    /// Whether the longest trial has enough exchanges at a load for a certificate.
    fn is_long_enough(&self, load: f64) -> bool {
        self.goal.whole || load * self.goal.longest_trial >= 2.0 * LEAST_EFFECTIVE
    }

    /// Returns a trial to certify the violation of an SLO at a load. `None` if the violation is certified, or if the
    /// load had the maximum number of trials.
    pub(super) fn certify_violation(&mut self, place: usize, load: f64) -> Option<TrialPlan> {
        let is_certified = self.states[place].fails.is_some_and(|at| at <= load);
        let trials = self.records.iter().filter(|trial| {
            trial.purpose == Purpose::Fails && trial.invalid.is_empty() && trial.load == load
        });
        if is_certified || trials.count() >= MOST_TRIALS {
            return None;
        }
        self.mark(Purpose::Fails, place, load);
        self.is_last_test = true;
        Some(self.plan_of(load, Purpose::Fails, place, self.goal.longest_trial))
    }

    /// Returns the highest load of a valid trial that is not an overload.
    pub(super) fn highest(&self, place: usize) -> Option<f64> {
        let mut seen = self.at_loads(place).into_iter();
        seen.find(|one| one.share() < OVERLOAD).map(|one| one.load)
    }

    fn without_capacity(&self, shares: &str) -> String {
        let unit = self.goal.unit();
        format!(
            "the share of bad exchanges does not fall with the load ({shares} {unit}), so that no lower load is likely \
             to meet the SLO"
        )
    }

    /// Returns, as text, the shares of bad exchanges at all loads below an overload. `None` if the shares fall with the
    /// load.
    fn constant_shares(&self, place: usize) -> Option<String> {
        let mut seen = self.at_loads(place);
        seen.retain(|one| one.share() < OVERLOAD);
        let highest = *seen.first()?;
        let is_low = |one: &&AtLoad| highest.load >= APART * one.load * (1.0 - 1e-9);
        let low = seen.iter().filter(is_low).copied().reduce(AtLoad::and)?;
        let high = seen.iter().filter(|one| !is_low(one)).copied();
        let high = high.reduce(AtLoad::and)?;
        let is_constant = low.exchanges >= LEAST_EXCHANGES
            && low.bad >= LEAST_BAD - 0.5
            && low.share() > self.states[place].slo.share
            && low.odds() >= SAME_ODDS * high.odds();
        if !is_constant {
            return None;
        }
        Some(match seen.len() <= MOST_LISTED {
            true => {
                let each: Vec<String> = seen.into_iter().map(AtLoad::describe).collect();
                each.join(", ")
            }
            false => format!(
                "{:.1} % above {at}, {:.1} % at {at} and less",
                100.0 * high.share(),
                100.0 * low.share(),
                at = digits(low.load)
            ),
        })
    }

    /// Returns the counts of valid trials for an SLO at each load, from the highest load to the lowest.
    fn at_loads(&self, place: usize) -> Vec<AtLoad> {
        let mut seen: Vec<AtLoad> = Vec::new();
        for trial in self.records.iter().filter(|one| one.invalid.is_empty()) {
            let result = trial.slos[place];
            let exchanges = result.exchanges as f64;
            let bad = result.bad_share * exchanges;
            match seen.iter_mut().find(|one| one.load == trial.load) {
                Some(at) => (at.exchanges, at.bad) = (at.exchanges + exchanges, at.bad + bad),
                None => seen.push(AtLoad {
                    load: trial.load,
                    exchanges,
                    bad,
                }),
            }
        }
        seen.sort_by(|a, b| b.load.total_cmp(&a.load));
        seen
    }

    /// Duration of the longest trial at a lower load: long enough for a trial without a bad exchange to count, at a
    /// rate in proportion to the load.
    fn longest_descending(&self, place: usize, smallest: f64, next: f64) -> f64 {
        let needed = self.states[place].spotless_exchanges(next);
        let last = self.records.iter().rev();
        let mut last = last.filter(|one| one.invalid.is_empty() && one.load == smallest);
        let rate = last.next().map_or(0.0, |trial| {
            trial.slos[place].exchanges as f64 / trial.measured_s.max(1.0)
        });
        let rate = rate * next / smallest;
        // A fifth more, because the outcomes of exchanges in flight at the end are unknown.
        let seconds = 1.2 * needed / rate.max(f64::MIN_POSITIVE);
        seconds.clamp(self.longest_short(), self.goal.longest_trial)
    }
}

/// Formats a load with three significant digits.
fn digits(load: f64) -> String {
    let places = (2.0 - libm::floor(libm::log10(load.max(1e-9)))).clamp(0.0, 6.0) as usize;
    let text = format!("{load:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;
    use crate::goal::Goal;
    use crate::outcome::{Answer, Outcome};
    use crate::simulated::{Arrivals, Bench, Kind, KnownServer, Model};
    use crate::slo_limit::SloLimit;

    /// Returns a server that fails this share of the exchanges at any load.
    fn failing(share: f64, seed: u64) -> KnownServer {
        KnownServer {
            slo: SloLimit {
                text: "errors<1%".to_owned(),
                limit: None,
                share: 0.01,
            },
            capacity: 0.0,
            arrivals: Arrivals::Poisson,
            model: Model::failing(1000.0, 1e-3, (share, 0.0), Seed(seed)),
            ..KnownServer::new(Kind::Fails, Seed(seed))
        }
    }

    fn search(planted: &KnownServer, goal: Goal, seed: u64) -> Outcome {
        let mut bench = Bench::new(planted.clone(), Seed(seed));
        let mut search = Search::new(goal, vec![planted.slo.clone()]);
        bench.run(&mut search);
        search.outcome(bench.now)
    }

    #[test]
    fn a_share_of_failures_that_does_not_fall_with_the_load_gives_a_bound_and_its_reason() {
        let (mut bounds, mut seconds) = (0, Vec::new());
        for seed in 0..60 {
            let share = [0.03, 0.06, 0.2][seed as usize % 3];
            let outcome = search(&failing(share, seed), Goal::default(), seed);
            match &outcome.slos[0].answer {
                Answer::Inconclusive {
                    works: None,
                    fails: Some(fails),
                    reason,
                } if reason.contains("does not fall with the load") => {
                    assert!(*fails <= 100.0, "{reason}");
                    bounds += 1;
                }
                Answer::Inconclusive { works: None, .. } => {}
                other => panic!("seed {seed}: {other:?}"),
            }
            seconds.push(outcome.seconds);
        }
        seconds.sort_by(f64::total_cmp);
        assert!(bounds >= 59, "{bounds} of 60");
        assert!(seconds[30] < 100.0, "{seconds:?}");
    }

    #[test]
    fn failures_in_bursts_give_a_bound_and_never_an_interval() {
        let goal = Goal {
            most: 20_000.0,
            ..Goal::default()
        };
        let mut bounds = 0;
        for seed in 0..20 {
            let planted = KnownServer {
                model: Model::Outages {
                    period: 10.0,
                    outage: 0.7,
                    phase: seed as f64 / 2.0,
                    overload: None,
                    offered: 0.0,
                },
                ..failing(0.0, seed)
            };
            match &search(&planted, goal, seed).slos[0].answer {
                // All trials fit between two outages.
                Answer::Inconclusive { reason, .. } if reason.contains("largest load tried") => {}
                Answer::Inconclusive {
                    works: None,
                    fails: Some(_),
                    ..
                } => bounds += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(bounds >= 15, "{bounds} of 20");
    }

    #[test]
    fn failures_in_bursts_of_a_server_with_a_capacity_give_a_bound() {
        for seed in 0..10 {
            let planted = KnownServer {
                model: Model::Outages {
                    period: 10.0,
                    outage: 0.7,
                    phase: seed as f64,
                    overload: Some(2000.0),
                    offered: 0.0,
                },
                ..failing(0.0, seed)
            };
            let outcome = search(&planted, Goal::default(), seed);
            assert!(
                matches!(
                    outcome.slos[0].answer,
                    Answer::Inconclusive {
                        works: None,
                        fails: Some(_),
                        ..
                    }
                ),
                "seed {seed}: {outcome:?}"
            );
        }
    }

    #[test]
    fn a_server_that_always_fails_has_a_bound_at_the_smallest_load() {
        let outcome = search(&failing(1.0, 1), Goal::default(), 1);
        assert!(
            matches!(&outcome.slos[0].answer, Answer::Inconclusive { works: None, fails: Some(fails), reason }
                if *fails < 1.0 && reason.contains("smallest load")),
            "{outcome:?}"
        );
        let users = Goal {
            whole: true,
            start: 4.0,
            ..Goal::default()
        };
        let outcome = search(&failing(1.0, 1), users, 1);
        assert!(
            matches!(
                outcome.slos[0].answer,
                Answer::Inconclusive {
                    works: None,
                    fails: Some(1.0),
                    ..
                }
            ),
            "{outcome:?}"
        );
    }

    #[test]
    fn an_overload_at_the_first_loads_is_no_constant_share() {
        for (seed, start) in [(1, 5e4), (2, 2e5), (3, 1e6)] {
            let planted = KnownServer::new(Kind::WorkerPool, Seed(seed));
            let goal = Goal {
                start,
                most: 1e7,
                ..Goal::default()
            };
            let outcome = search(&planted, goal, seed);
            match outcome.slos[0].answer {
                Answer::Interval { works, fails } => {
                    assert!(works <= planted.capacity && planted.capacity <= fails);
                }
                ref other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn loads_have_three_digits() {
        let texts = [100.0, 25.0, 6.25, 1.5625, 0.390625, 12345.6].map(digits);
        assert_eq!(texts, ["100", "25", "6.25", "1.56", "0.391", "12346"]);
    }
}
