//! Converts the result of a search into the metrics of a replicate.

use std::collections::BTreeMap;

use fathometer_analysis::bottleneck::GaveOut;
use fathometer_analysis::gave_out_first;
use fathometer_capacity::{Answer, Goal, Outcome, SloOutcome};
use fathometer_model::digits::grouped;
use serde_json::json;

use super::exhausted::{Host, TrialWindow};
use crate::spec::LoadUnit;

/// The outcome of a replicate's search.
pub(super) struct Answered {
    of: LoadUnit,
    goal: Goal,
    outcome: Outcome,
    /// The measured window of each trial.
    windows: Vec<TrialWindow>,
    /// The resource that was exhausted first between the two ends of the interval, if it was determined.
    gave_out: Option<GaveOut>,
    /// The interval of the capacity, or the reasons why there is no interval.
    found: Result<Interval, Vec<String>>,
}

/// The interval of the capacity. Every SLO holds at `works`, and at least one SLO is violated at `fails`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    works: f64,
    fails: f64,
}

impl Answered {
    pub(super) fn new(
        of: LoadUnit,
        goal: Goal,
        outcome: Outcome,
        windows: Vec<TrialWindow>,
    ) -> Answered {
        let found = interval(of, &goal, &outcome.slos);
        Answered {
            of,
            goal,
            outcome,
            windows,
            gave_out: None,
            found,
        }
    }

    /// Determines the resource that was exhausted first between the two ends, if there is an interval.
    pub(super) fn judge(&mut self, host: &Host<'_>) {
        let Ok(Interval { works, fails }) = self.found else {
            return;
        };
        let windows = self.window(works).zip(self.window(fails));
        self.gave_out = windows.and_then(|(works, fails)| host.gave_out(works, fails));
    }

    /// Returns the index of the longest valid trial of a load.
    fn longest(&self, load: f64) -> Option<usize> {
        let trials = self.outcome.trials.iter().enumerate();
        let same = trials.filter(|(_, trial)| trial.load == load && trial.invalid.is_empty());
        let longest = same.max_by(|a, b| a.1.measured_s.total_cmp(&b.1.measured_s))?;
        Some(longest.0)
    }

    /// Returns the index of the longest valid trial at the lower end; `None` without an interval.
    fn at_works(&self) -> Option<usize> {
        self.longest(self.found.as_ref().ok()?.works)
    }

    fn window(&self, load: f64) -> Option<&TrialWindow> {
        self.windows.get(self.longest(load)?)
    }

    /// Returns the window of the longest valid trial at the lower end.
    pub(super) fn window_at_works(&self) -> Option<&TrialWindow> {
        self.windows.get(self.at_works()?)
    }

    /// Returns the reasons why there is no capacity. There are none if there is a capacity.
    pub(super) fn reasons(&self) -> &[String] {
        match &self.found {
            Ok(_) => &[],
            Err(reasons) => reasons,
        }
    }

    /// Returns the metrics. Without an interval, the capacity is unknown, and only the metrics of the search are
    /// returned.
    pub(super) fn metrics(&self) -> BTreeMap<String, f64> {
        let trials = &self.outcome.trials;
        let measured: f64 = trials.iter().map(|trial| trial.measured_s).sum();
        let mut metrics = vec![
            ("capacity_trials", trials.len() as f64),
            ("capacity_trials_s", measured),
            ("capacity_search_s", self.outcome.seconds),
        ];
        if let Ok(Interval { works, fails }) = self.found {
            metrics.extend([
                ("capacity", (works * fails).sqrt()),
                ("capacity_works", works),
                ("capacity_fails", fails),
            ]);
            let recovers = self.outcome.recovers;
            metrics.extend(recovers.map(|yes| ("capacity_recovers", f64::from(u8::from(yes)))));
            let p99 = self.at_works().and_then(|place| trials[place].latency_ms);
            metrics.extend(p99.map(|[_, p99]| ("capacity_works_p99_ms", p99)));
        }
        let named = metrics.into_iter();
        let named = named.map(|(name, value)| (name.to_owned(), value));
        let judged = self.gave_out.iter().flat_map(gave_out_first::metrics);
        named.chain(judged).collect()
    }

    /// Returns the answer as JSON, without the trials, which are in a separate file.
    pub(super) fn to_json(&self) -> String {
        let interval = self.found.as_ref().ok();
        let value = json!({
            "unit": match self.of {
                LoadUnit::Rate => "per_s",
                LoadUnit::Users => "users",
            },
            "works": interval.map(|interval| interval.works),
            "fails": interval.map(|interval| interval.fails),
            "reasons": self.reasons(),
            "goal": {
                "width": self.goal.width,
                // The confidence for each single SLO.
                "confidence": self.goal.confidence,
                "warm_up_s": self.goal.warm_up,
                "final_trial_s": self.goal.final_trial,
                "longest_trial_s": self.goal.longest_trial,
                "horizon_s": self.goal.horizon,
                "budget_s": self.goal.budget,
            },
            "slos": self.outcome.slos,
            "recovers": self.outcome.recovers,
            "gave_out": self.gave_out,
            "seconds": self.outcome.seconds,
        });
        let mut text = format!("{value:#}");
        text.push('\n');
        text
    }
}

/// Computes the interval of the load up to which every SLO holds.
///
/// The lower end requires a certified load that works for every SLO. It is the lowest of these loads, because only up
/// to this load is every SLO certified to hold. The upper end requires a certified load that fails for at least one
/// SLO. It is the lowest of these loads, because one SLO is violated there.
fn interval(of: LoadUnit, goal: &Goal, slos: &[SloOutcome]) -> Result<Interval, Vec<String>> {
    let load = |load: f64| in_words(of, load);
    let not_monotone = slos.iter().filter_map(|slo| {
        let lower: Vec<String> = slo.failing_below.iter().map(|at| load(*at)).collect();
        (!lower.is_empty()).then(|| {
            format!(
                "no capacity: {} is not monotone: it was also violated at the lower load {}",
                slo.slo,
                lower.join(", ")
            )
        })
    });
    let reasons: Vec<String> = not_monotone.collect();
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let each = || slos.iter().map(|slo| ends(&slo.answer));
    let works = each().map(|(works, _)| works).collect::<Option<Vec<f64>>>();
    let works = works.map(|each| each.into_iter().fold(f64::INFINITY, f64::min));
    let fails = each().filter_map(|(_, fails)| fails).reduce(f64::min);
    match works.zip(fails) {
        Some((works, fails)) if works < fails && goal.is_reached(works, fails) => {
            Ok(Interval { works, fails })
        }
        _ => Err(slos.iter().filter_map(|slo| without(of, slo)).collect()),
    }
}

/// Returns the certified ends of an answer.
fn ends(answer: &Answer) -> (Option<f64>, Option<f64>) {
    match answer {
        Answer::Interval { works, fails } => (Some(*works), Some(*fails)),
        Answer::Inconclusive { works, fails, .. } => (*works, *fails),
        Answer::Invalid { .. } => (None, None),
    }
}

/// Returns the reason why an SLO has no interval; `None` if it has an interval.
fn without(of: LoadUnit, slo: &SloOutcome) -> Option<String> {
    let load = |load: f64| in_words(of, load);
    let name = &slo.slo;
    match &slo.answer {
        Answer::Interval { .. } => None,
        Answer::Inconclusive {
            works,
            fails,
            reason,
        } => {
            let bound = |at: &Option<f64>, what: &str| match at {
                Some(at) => format!("{what} at {}", load(*at)),
                None => format!("no load that {what}"),
            };
            Some(format!(
                "no capacity: {name}: {reason}; certified: {}, {}",
                bound(works, "works"),
                bound(fails, "fails")
            ))
        }
        Answer::Invalid {
            valid_up_to,
            reason,
        } => Some(match valid_up_to {
            Some(valid) => format!(
                "no capacity: {name} held up to {}; at higher loads, the generator was the limit: {reason}",
                load(*valid)
            ),
            None => format!("no capacity: {name}: no trial was valid at any load: {reason}"),
        }),
    }
}

/// Formats a load, as in `1 234/s` or `57 users`.
fn in_words(of: LoadUnit, load: f64) -> String {
    match of {
        LoadUnit::Users => format!("{} users", grouped(load.round() as i64)),
        LoadUnit::Rate if load >= 1000.0 => format!("{}/s", grouped(load.round() as i64)),
        LoadUnit::Rate => format!("{load:.1}/s"),
    }
}

#[cfg(test)]
mod tests {
    use fathometer_capacity::Search;
    use fathometer_capacity::simulated::{Bench, Kind, KnownServer};
    use fathometer_model::Seed;

    use super::*;

    /// Runs a search in virtual time on a server of known capacity. Returns the answer of the search as in a replicate,
    /// and the known capacity.
    fn searched(kind: Kind, goal: Goal) -> (Answered, f64) {
        let planted = KnownServer::new(kind, Seed(3));
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(goal, vec![planted.slo.clone()]);
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        (
            Answered::new(LoadUnit::Rate, goal, outcome, Vec::new()),
            planted.capacity,
        )
    }

    #[test]
    fn the_capacity_is_the_geometric_mean_of_ends_that_contain_the_true_one() {
        let goal = Goal {
            width: 0.05,
            ..Goal::default()
        };
        for kind in [Kind::TokenBucket, Kind::Collapses, Kind::Fails] {
            let (answered, truth) = searched(kind, goal);
            let metrics = answered.metrics();
            let (works, fails) = (metrics["capacity_works"], metrics["capacity_fails"]);
            assert!(works <= truth && truth <= fails, "{works} {truth} {fails}");
            assert!(fails <= 1.0501 * works, "{works} {fails}");
            let squared = metrics["capacity"] * metrics["capacity"];
            assert!((squared / (works * fails) - 1.0).abs() < 1e-12);
            let trials = &answered.outcome.trials;
            assert_eq!(metrics["capacity_trials"], trials.len() as f64);
            assert!(metrics["capacity_trials_s"] < metrics["capacity_search_s"]);
            assert!(answered.reasons().is_empty());
            let json: serde_json::Value = serde_json::from_str(&answered.to_json()).unwrap();
            assert_eq!(
                (&json["works"], &json["unit"]),
                (&works.into(), &"per_s".into())
            );
        }
    }

    #[test]
    fn a_search_whose_budget_is_spent_has_a_reason_and_no_number() {
        let goal = Goal {
            budget: 10.0,
            ..Goal::default()
        };
        let (answered, _) = searched(Kind::TokenBucket, goal);
        let [reason] = answered.reasons() else {
            panic!("{:?}", answered.reasons());
        };
        assert!(
            reason.contains("the budget of 10 s is spent") && reason.contains("no load that fails"),
            "{reason}"
        );
        let metrics = answered.metrics();
        let names: Vec<&str> = metrics.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["capacity_search_s", "capacity_trials", "capacity_trials_s"]
        );
    }

    #[test]
    fn a_slo_that_holds_as_far_as_the_generator_goes_has_no_capacity() {
        let planted = KnownServer::new(Kind::TokenBucket, Seed(3));
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let goal = Goal::default();
        let mut search = Search::new(goal, vec![planted.slo]);
        search.set_generator_limit(500.0, "the generator is slow".to_owned());
        bench.run(&mut search);
        let answered = Answered::new(LoadUnit::Rate, goal, search.outcome(bench.now), Vec::new());
        let [reason] = answered.reasons() else {
            panic!("{:?}", answered.reasons());
        };
        assert!(
            reason.contains("held up to 500.0/s") && reason.contains("the generator is slow"),
            "{reason}"
        );
        assert!(!answered.metrics().contains_key("capacity"));
    }

    fn slo(text: &str, answer: Answer) -> SloOutcome {
        SloOutcome {
            slo: text.to_owned(),
            answer,
            estimate: None,
            attempts: 1,
            failing_below: Vec::new(),
        }
    }

    fn inconclusive(works: Option<f64>, fails: Option<f64>) -> Answer {
        Answer::Inconclusive {
            works,
            fails,
            reason: "a reason".to_owned(),
        }
    }

    #[test]
    fn of_several_slos_the_one_that_breaks_first_has_the_capacity() {
        let goal = Goal {
            width: 0.05,
            ..Goal::default()
        };
        let of = |slos: &[SloOutcome]| interval(LoadUnit::Users, &goal, slos);
        let latency = slo(
            "p99<100ms",
            Answer::Interval {
                works: 100.0,
                fails: 104.0,
            },
        );
        let errors = |answer| slo("errors<1%", answer);
        let found = Ok(Interval {
            works: 100.0,
            fails: 104.0,
        });
        let later = Answer::Interval {
            works: 150.0,
            fails: 155.0,
        };
        assert_eq!(of(&[latency.clone(), errors(later)]), found);
        // If an SLO is certified to hold at the load where the other SLO is violated, it needs no load at which it is
        // violated.
        let holds = errors(inconclusive(Some(120.0), None));
        assert_eq!(of(&[holds, latency.clone()]), found);
        // Without such a certified load, the lower end is unknown or too far from the upper end.
        for works in [None, Some(80.0)] {
            let reasons = of(&[latency.clone(), errors(inconclusive(works, None))]).unwrap_err();
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains("errors<1%: a reason"), "{reasons:?}");
        }
        let mut twice = latency;
        twice.failing_below = vec![12.0];
        let reasons = of(&[twice]).unwrap_err();
        assert!(
            reasons[0].contains("not monotone") && reasons[0].contains("12 users"),
            "{reasons:?}"
        );
    }
}
