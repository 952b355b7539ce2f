//! The self-test: searches on servers whose capacity is known, and how often the interval contains it.

use std::fmt::Write as _;

use fathometer_model::Seed;
use serde::Serialize;

use crate::bisection::Bisection;
use crate::goal::Goal;
use crate::outcome::Answer;
use crate::search::Search;
use crate::simulated::{Bench, KINDS, Kind, Planted};

/// One search on a server whose capacity is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Searched {
    /// The kind of the server.
    pub kind: Kind,
    /// The capacity.
    pub capacity: f64,
    /// The lower and the upper bound; `None`: inconclusive.
    pub interval: Option<(f64, f64)>,
    /// Virtual seconds.
    pub seconds: f64,
    /// Virtual seconds of plain bisection with the same guarantee.
    pub bisection_seconds: f64,
}

impl Searched {
    /// Runs the `number`-th search on a kind of server.
    pub fn run(kind: Kind, goal: Goal, seed: Seed, number: u64) -> Searched {
        let seed = seed.stream(kind.name()).child(number);
        let planted = Planted::new(kind, seed);
        let mut bench = Bench::new(planted.clone(), seed);
        let mut search = Search::new(goal, vec![planted.promise.clone()]);
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        let interval = match outcome.promises[0].answer {
            Answer::Interval { works, fails } => Some((works, fails)),
            _ => None,
        };
        let mut by_bisection = Bench::new(planted.clone(), seed.stream("bisection"));
        let mut bisection = Bisection::new(goal, planted.promise.clone());
        while let Some(load) = bisection.next_load() {
            let (trial, _) =
                by_bisection.apply(load, goal.warm_up, goal.longest_trial, &mut |trial| {
                    bisection.look(trial)
                });
            bisection.end(&trial);
        }
        Searched {
            kind,
            capacity: planted.capacity,
            interval,
            seconds: bench.now,
            bisection_seconds: by_bisection.now,
        }
    }

    /// Whether the interval contains the capacity; `None` without an interval.
    pub fn contains(&self) -> Option<bool> {
        let (works, fails) = self.interval?;
        Some(works <= self.capacity && self.capacity <= fails)
    }
}

/// What searches on one kind of server, or on all, found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The kind of server.
    pub server: String,
    /// Searches.
    pub searches: usize,
    /// Searches that gave an interval.
    pub answered: usize,
    /// Of these, intervals that contain the capacity.
    pub contain: usize,
    /// Median and 90th percentile of the relative width.
    pub width: [f64; 2],
    /// Median and 90th percentile of the virtual seconds of a search.
    pub seconds: [f64; 2],
    /// Median virtual seconds of plain bisection.
    pub bisection_seconds: f64,
}

impl Row {
    /// The row of some searches.
    pub fn of(server: &str, searches: &[Searched]) -> Row {
        let widths = searches
            .iter()
            .filter_map(|one| one.interval.map(|(works, fails)| fails / works - 1.0));
        let widths = sorted(widths);
        let seconds = sorted(searches.iter().map(|one| one.seconds));
        let bisection = sorted(searches.iter().map(|one| one.bisection_seconds));
        Row {
            server: server.to_owned(),
            searches: searches.len(),
            answered: widths.len(),
            contain: searches
                .iter()
                .filter(|one| one.contains() == Some(true))
                .count(),
            width: [quantile(&widths, 0.5), quantile(&widths, 0.9)],
            seconds: [quantile(&seconds, 0.5), quantile(&seconds, 0.9)],
            bisection_seconds: quantile(&bisection, 0.5),
        }
    }

    /// The share of time that a search saves against bisection.
    pub fn saved(&self) -> f64 {
        1.0 - self.seconds[0] / self.bisection_seconds
    }
}

/// All rows: one for each kind of server, and one for all.
pub fn rows(searches: &[Searched]) -> Vec<Row> {
    let of = |kind: Kind| -> Vec<Searched> {
        searches
            .iter()
            .filter(|one| one.kind == kind)
            .copied()
            .collect()
    };
    let each = KINDS.iter().map(|&kind| Row::of(kind.name(), &of(kind)));
    let each = each.filter(|row| row.searches > 0);
    each.chain([Row::of("all", searches)]).collect()
}

/// Whether the searches agree with a confidence: so few intervals that contain the capacity have a probability of at
/// least 0.1 % if each contains it with this probability, and at most one search of twenty gave no interval.
pub fn covers(searches: &[Searched], confidence: f64) -> bool {
    let row = Row::of("all", searches);
    20 * row.answered >= 19 * row.searches && row.contain >= least_hits(row.answered, confidence)
}

/// The smallest number of hits among `all` that is not too small: fewer have a probability of less than 0.1 % if each is
/// a hit with this probability (binomial distribution).
fn least_hits(all: usize, hit: f64) -> usize {
    let mut log = all as f64 * libm::log(1.0 - hit);
    let mut sum = 0.0;
    for hits in 0..all {
        sum += libm::exp(log);
        if sum > 0.001 {
            return hits;
        }
        log += libm::log((all - hits) as f64 / (hits + 1) as f64 * hit / (1.0 - hit));
    }
    all
}

/// The table for people.
pub fn text(searches: &[Searched]) -> String {
    let mut text = format!(
        "{:<24} {:>8} {:>9} {:>17} {:>15} {:>15} {:>10} {:>6}\n",
        "server",
        "searches",
        "answered",
        "contain the truth",
        "width p50, p90",
        "time p50, p90",
        "bisection",
        "saved"
    );
    for row in rows(searches) {
        let contained = 100.0 * row.contain as f64 / row.answered.max(1) as f64;
        let _ = writeln!(
            text,
            "{:<24} {:>8} {:>9} {:>15.1} % {:>6.2} %, {:>3.2} % {:>5.0} s, {:>4.0} s {:>8.0} s {:>4.0} %",
            row.server,
            row.searches,
            row.answered,
            contained,
            100.0 * row.width[0],
            100.0 * row.width[1],
            row.seconds[0],
            row.seconds[1],
            row.bisection_seconds,
            100.0 * row.saved()
        );
    }
    text
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    let place = (quantile * sorted.len() as f64).ceil() as usize;
    sorted
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_bound_is_that_of_tables() {
        // P(X <= 14) = 0.00033 and P(X <= 15) = 0.0026 for n = 20.
        assert_eq!(least_hits(20, 0.95), 15);
    }

    #[test]
    fn intervals_contain_the_capacity_as_often_as_stated() {
        let quick = [
            Kind::TokenBucket,
            Kind::Collapses,
            Kind::DegradesSlowly,
            Kind::Fails,
            Kind::WarmUpCliff,
        ];
        let all = quick
            .iter()
            .flat_map(|&kind| (0..6).map(move |number| (kind, number)));
        let all = all.chain([(Kind::WorkerPool, 0)]);
        let searches: Vec<Searched> = all
            .map(|(kind, number)| Searched::run(kind, Goal::default(), Seed(1), number))
            .collect();
        let row = Row::of("all", &searches);
        let table = text(&searches);
        assert!(covers(&searches, 0.95), "{table}");
        assert!(row.width[1] <= 0.02 + 1e-9, "{table}");
        assert!(row.seconds[0] < 180.0, "{table}");
        assert!(row.saved() >= 0.4, "{table}");
    }
}
