//! The table `[capacity]`: the search of a capacity study in each cell.

use std::time::Duration;

use fathometer_analysis::load::Slo;
use fathometer_analysis::run::Mode;
use fathometer_capacity::series::SLOT;
use fathometer_capacity::{Goal, SloLimit};
use fathometer_model::quantity::{Percent, PositiveTimeSpan, Ratio};
use schemars::JsonSchema;
use serde::Deserialize;

use super::ByMode;
use crate::capacity_search::{ArrivalProcess, CONNECTIONS, Demand};
use crate::quantities;

/// The range of the loads that a file may contain for a search.
const LOADS: (f64, f64) = (1e-3, 1e7);

/// The capacity search of each cell: the load, the SLOs, and the width of the interval that contains the capacity.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The unit of the load.
    pub of: LoadUnit,
    /// Lists of SLOs, as in `p99<100ms,errors<0.1%`. The search finds the capacity for each SLO.
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub slo: Vec<SloList>,
    /// The largest relative width of the interval from the highest load that works to the lowest load that fails, in
    /// percent.
    #[schemars(with = "ByMode<quantities::PercentNumber>")]
    pub width_pct: ByMode<Percent>,
    /// The minimum probability that the interval contains the capacity, in percent.
    #[serde(default = "confidence")]
    #[schemars(with = "quantities::PercentNumber")]
    pub confidence_pct: Percent,
    /// The time after which the search begins no further trial, in seconds. A replicate that needs longer is INVALID.
    #[schemars(with = "ByMode<quantities::PositiveTime>")]
    pub budget_s: ByMode<PositiveTimeSpan>,
    /// The maximum length of a trial, in seconds. It is extended to the final trial plus the time until the outcome of
    /// every exchange is known.
    #[serde(default = "longest_trial")]
    #[schemars(with = "quantities::PositiveTime")]
    pub longest_trial_s: PositiveTimeSpan,
    /// The load of the first trial; default: 100 requests per second, 4 users.
    #[serde(default)]
    #[schemars(with = "Option<quantities::RatioNumber>")]
    pub start: Option<Ratio>,
    /// The largest load that is tried; default: 1000000 requests per second, 10000 users.
    #[serde(default)]
    #[schemars(with = "Option<quantities::RatioNumber>")]
    pub most: Option<Ratio>,
    /// The arrival process of an open loop.
    #[serde(default)]
    pub arrivals: ArrivalProcess,
    /// The maximum number of connections of an open loop; default: 512, and up to 8192 if exchanges wait for a free
    /// connection.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
}

/// The unit of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadUnit {
    /// Arrivals per second of an open loop.
    Rate,
    /// Users of a closed loop, with the pauses of the factor `loop`.
    Users,
}

/// A list of SLOs, parsed from its text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct SloList(Vec<SloLimit>);

impl TryFrom<String> for SloList {
    type Error = String;

    fn try_from(text: String) -> Result<SloList, String> {
        let slo = text
            .parse::<Slo>()
            .map_err(|error| format!("the SLO {text:?} cannot be read: {error}"))?;
        let slos = SloLimit::of(&slo)
            .map_err(|error| format!("the SLO {text:?} cannot be searched: {error}"))?;
        Ok(SloList(slos))
    }
}

fn confidence() -> Percent {
    Percent::try_from(95.0).expect("95 is a number of percent")
}

fn longest_trial() -> PositiveTimeSpan {
    PositiveTimeSpan::try_from(120.0).expect("two minutes are a time")
}

impl Capacity {
    /// Returns the SLOs of all lists, in order.
    pub fn slos(&self) -> Vec<SloLimit> {
        self.slo.iter().flat_map(|list| list.0.clone()).collect()
    }

    /// Returns the kind of load that a search applies.
    pub fn demand(&self) -> Demand {
        match self.of {
            LoadUnit::Rate => Demand::Rate {
                arrivals: self.arrivals,
                connections: self.connections.unwrap_or(CONNECTIONS.0),
                most_connections: self.connections.unwrap_or(CONNECTIONS.1),
            },
            LoadUnit::Users => Demand::UserEquivalents,
        }
    }

    /// Returns the goal of a search. `warm_up` is the length of each trial's warm-up. A trial that shows that a load
    /// works lasts at least `final_trial`. An exchange fails after `timeout`. The goal's confidence applies to a single
    /// SLO, so that all SLOs together have the confidence of the study.
    pub fn goal(
        &self,
        mode: Mode,
        warm_up: Duration,
        final_trial: Duration,
        timeout: Duration,
    ) -> Goal {
        let share = |percent: Percent| percent.value() / 100.0;
        let seconds = |time: PositiveTimeSpan| Duration::from(time).as_secs_f64();
        let whole = self.of == LoadUnit::Users;
        let (start, most) = if whole { (4.0, 10_000.0) } else { (100.0, 1e6) };
        let final_trial = final_trial.as_secs_f64();
        let slos = self.slos();
        let goal = Goal {
            width: share(self.width_pct.of(mode)),
            // Bonferroni correction: the error probabilities of the SLOs add up.
            confidence: 1.0 - (1.0 - share(self.confidence_pct)) / slos.len().max(1) as f64,
            start: self.start.map_or(start, Ratio::value),
            most: self.most.map_or(most, Ratio::value),
            whole,
            // The warm-up is rounded up, so that the measured window begins at a slot.
            warm_up: (warm_up.as_secs_f64() / SLOT).ceil() * SLOT,
            final_trial,
            timeout: timeout.as_secs_f64(),
            budget: seconds(self.budget_s.of(mode)),
            ..Goal::default()
        };
        // A shorter trial could not certify that a load works.
        let least = final_trial + goal.longest_wait(&slos);
        Goal {
            longest_trial: seconds(self.longest_trial_s).max(least),
            ..goal
        }
    }

    /// Checks the conditions that the types of the keys do not check.
    ///
    /// # Errors
    /// If a search with these values is impossible. The text names the key.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("[capacity] {what}"));
        if self.slo.is_empty() {
            return wrong("slo has no SLO: write one, as in slo = [\"p99<100ms\"]");
        }
        let inside = |percent: Percent| percent.value() > 0.0 && percent.value() < 100.0;
        let widths = [Mode::Quick, Mode::Full, Mode::Published].map(|mode| self.width_pct.of(mode));
        if !widths.into_iter().all(inside) {
            return wrong("width_pct must be above 0 and below 100");
        }
        if !inside(self.confidence_pct) {
            return wrong("confidence_pct must be above 0 and below 100");
        }
        if self.connections == Some(0) {
            return wrong("connections must be at least 1");
        }
        let loads = [self.start, self.most].into_iter().flatten();
        let mut loads = loads.map(Ratio::value);
        if !loads.all(|load| (LOADS.0..=LOADS.1).contains(&load)) {
            return wrong("start and most can be from 0.001 to 10000000");
        }
        match (self.of, self.arrivals, self.connections) {
            (LoadUnit::Users, ArrivalProcess::Poisson, _) | (LoadUnit::Users, _, Some(_)) => {
                wrong("arrivals and connections apply only to an open loop: set of = \"rate\"")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        of = "rate"
        slo = ["p99<100ms,errors<0.1%", "p50<20ms"]
        width_pct = { quick = 10, full = 2 }
        budget_s = { quick = 60, full = 600 }
    "#;

    fn table(changes: &[(&str, &str)]) -> Result<Capacity, String> {
        let text = changes.iter().fold(TABLE.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let table: Capacity = toml::from_str(&text).map_err(|error| error.to_string())?;
        table.check()?;
        Ok(table)
    }

    #[test]
    fn the_goal_of_a_search_has_the_width_of_the_mode_and_the_trials_of_the_load() {
        let table = table(&[]).unwrap();
        let texts: Vec<String> = table.slos().into_iter().map(|p| p.text).collect();
        assert_eq!(texts, ["p99<100ms", "errors<0.1%", "p50<20ms"]);
        let seconds = Duration::from_secs_f64;
        let goal = table.goal(Mode::Quick, seconds(0.32), seconds(4.0), seconds(1.0));
        assert_eq!(goal.width, 0.1);
        // Each of the three SLOs has a third of the error probability of 5 %.
        assert!((goal.confidence - (1.0 - 0.05 / 3.0)).abs() < 1e-12);
        assert_eq!((goal.start, goal.most, goal.whole), (100.0, 1e6, false));
        assert_eq!((goal.final_trial, goal.longest_trial), (4.0, 120.0));
        assert_eq!((goal.timeout, goal.budget), (1.0, 60.0));
        // Without a latency limit, the outcome is known only after the timeout. So a trial is longer than the timeout.
        let goal = table.goal(Mode::Quick, seconds(0.32), seconds(4.0), seconds(150.0));
        assert_eq!(goal.longest_trial, 154.0);
        // The length of the warm-up is a whole number of slots, and at least as long as requested.
        assert!(goal.warm_up >= 0.32 && goal.warm_up < 0.32 + SLOT);
        assert_eq!(
            table
                .goal(Mode::Full, seconds(1.0), seconds(4.0), seconds(1.0))
                .width,
            0.02
        );
    }

    #[test]
    fn users_are_searched_in_a_closed_loop() {
        let seconds = Duration::from_secs_f64;
        let users = table(&[("\"rate\"", "\"users\"")]).unwrap();
        assert_eq!(users.demand(), Demand::UserEquivalents);
        let goal = users.goal(Mode::Full, Duration::ZERO, seconds(10.0), seconds(1.0));
        assert_eq!((goal.start, goal.most, goal.whole), (4.0, 1e4, true));
        let rate = table(&[("of =", "connections = 7\narrivals = \"poisson\"\nof =")]).unwrap();
        assert_eq!(
            rate.demand(),
            Demand::Rate {
                arrivals: ArrivalProcess::Poisson,
                connections: 7,
                most_connections: 7
            }
        );
    }

    #[test]
    fn values_without_meaning_are_refused_by_the_name_of_their_key() {
        for (from, to, named) in [
            ("quick = 10", "quick = 0", "width_pct"),
            ("full = 2 }", "full = 100 }", "width_pct"),
            ("of =", "confidence_pct = 100\nof =", "confidence_pct"),
            ("of =", "start = 1e-5\nof =", "start"),
            ("of =", "most = 1e8\nof =", "most"),
            ("of =", "connections = 0\nof =", "connections"),
            ("\"p99<100ms,errors<0.1%\", \"p50<20ms\"", "", "slo"),
            ("p50<20ms", "mean<20ms", "mean<20ms"),
            ("p50<20ms", "p50<", "p50<"),
            ("\"rate\"", "\"users\"\narrivals = \"poisson\"", "open loop"),
            ("\"rate\"", "\"users\"\nconnections = 5", "open loop"),
        ] {
            let error = table(&[(from, to)]).expect_err(to);
            assert!(error.contains(named), "{to}: {error}");
        }
    }
}
