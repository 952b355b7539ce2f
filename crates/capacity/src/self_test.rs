//! The self-test: searches on servers with a known capacity, and the share of intervals that contain the capacity.

use std::fmt::Write as _;

use fathometer_model::Seed;
use serde::Serialize;

use crate::bisection::Bisection;
use crate::goal::Goal;
use crate::outcome::Answer;
use crate::ramp::Ramp;
use crate::search::Search;
use crate::simulated::{Bench, Kind, KnownServer};

/// One search on a server with a known capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SearchResult {
    /// The server's name in tables.
    pub server: &'static str,
    /// The capacity; `None` if the server has no capacity, so that an interval is an error.
    pub capacity: Option<f64>,
    /// Whether no load meets the SLO. The search then has to certify a load that fails.
    pub no_load_works: bool,
    /// The lower and the upper bound; `None`: inconclusive.
    pub interval: Option<(f64, f64)>,
    /// The smallest certified load that fails, if there is no interval.
    pub fails_at: Option<f64>,
    /// Duration of the search in seconds; virtual seconds in virtual time.
    pub seconds: f64,
    /// Duration of plain bisection with the same guarantee, in seconds, if it was run.
    pub bisection_seconds: Option<f64>,
    /// The result of a step ramp, if it was run.
    pub ramp: Option<RampResult>,
}

/// The result of a step ramp.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RampResult {
    /// Duration of the ramp in seconds.
    pub seconds: f64,
    /// Whether the capacity is between its last two steps.
    pub contains: bool,
}

impl SearchResult {
    /// Runs the `number`-th search on a kind of server.
    pub fn run(kind: Kind, goal: Goal, seed: Seed, number: u64) -> SearchResult {
        let seed = seed.stream(kind.name()).child(number);
        let planted = KnownServer::new(kind, seed);
        let mut bench = Bench::new(planted.clone(), seed);
        let mut search = Search::new(goal, vec![planted.slo.clone()]);
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        let (interval, fails_at) = bounds(&outcome.slos[0].answer);
        let mut by_bisection = Bench::new(planted.clone(), seed.stream("bisection"));
        let mut bisection = Bisection::new(goal, planted.slo.clone());
        while let Some(load) = bisection.next_load() {
            let (trial, _) =
                by_bisection.apply(load, goal.warm_up, goal.longest_trial, &mut |trial| {
                    bisection.look(trial)
                });
            bisection.end(&trial);
        }
        SearchResult {
            server: kind.name(),
            capacity: Some(planted.capacity),
            no_load_works: false,
            interval,
            fails_at,
            seconds: bench.now,
            bisection_seconds: Some(by_bisection.now),
            ramp: None,
        }
    }

    /// Runs the same search, and a step ramp for comparison.
    pub fn with_ramp(kind: Kind, goal: Goal, seed: Seed, number: u64) -> SearchResult {
        let searched = SearchResult::run(kind, goal, seed, number);
        let seed = seed.stream(kind.name()).child(number);
        let planted = KnownServer::new(kind, seed);
        let mut bench = Bench::new(planted.clone(), seed.stream("ramp"));
        let mut ramp = Ramp::new(goal, planted.slo.clone());
        while let Some(load) = ramp.next_load() {
            let (trial, _) = bench.apply(load, goal.warm_up, goal.final_trial, &mut |_| false);
            ramp.end(&trial);
        }
        let contains = |(works, fails)| works <= planted.capacity && planted.capacity <= fails;
        SearchResult {
            ramp: Some(RampResult {
                seconds: bench.now,
                contains: ramp.interval().is_some_and(contains),
            }),
            ..searched
        }
    }

    /// Whether the interval contains the capacity; `None` without an interval.
    pub fn contains(&self) -> Option<bool> {
        let (works, fails) = self.interval?;
        let is_between = |capacity| works <= capacity && capacity <= fails;
        Some(self.capacity.is_some_and(is_between))
    }
}

/// Returns the interval of an answer or, if there is no interval, the certified load that fails.
pub fn bounds(answer: &Answer) -> (Option<(f64, f64)>, Option<f64>) {
    match answer {
        Answer::Interval { works, fails } => (Some((*works, *fails)), None),
        Answer::Inconclusive { fails, .. } => (None, *fails),
        Answer::Invalid { .. } => (None, None),
    }
}

/// The results of the searches on one kind of server, or on all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The kind of server.
    pub server: String,
    /// Number of searches.
    pub searches: usize,
    /// Number of searches that gave an interval.
    pub answered: usize,
    /// Number of these intervals that contain the capacity.
    pub contain: usize,
    /// Number of searches that certified a load that fails, where no load meets the SLO; `None`: some load does.
    pub bounded: Option<usize>,
    /// Median and 90th percentile of the relative width.
    pub width: [f64; 2],
    /// Median and 90th percentile of the duration of a search, in seconds.
    pub seconds: [f64; 2],
    /// Median duration of plain bisection in seconds, if it was run.
    pub bisection_seconds: Option<f64>,
    /// Median duration of a step ramp in seconds, if it was run.
    pub ramp_seconds: Option<f64>,
    /// Number of ramps whose last two steps contain the capacity.
    pub ramp_contain: Option<usize>,
}

impl Row {
    /// Summarises some searches.
    pub fn of(server: &str, searches: &[SearchResult]) -> Row {
        let widths = searches
            .iter()
            .filter_map(|one| one.interval.map(|(works, fails)| fails / works - 1.0));
        let widths = sorted(widths);
        let seconds = sorted(searches.iter().map(|one| one.seconds));
        let bisection = sorted(searches.iter().filter_map(|one| one.bisection_seconds));
        let ramps: Vec<RampResult> = searches.iter().filter_map(|one| one.ramp).collect();
        let ramp = sorted(ramps.iter().map(|ramp| ramp.seconds));
        Row {
            server: server.to_owned(),
            searches: searches.len(),
            answered: widths.len(),
            contain: searches
                .iter()
                .filter(|one| one.contains() == Some(true))
                .count(),
            bounded: searches
                .iter()
                .all(|one| one.no_load_works)
                .then(|| searches.iter().filter(|one| one.fails_at.is_some()).count()),
            width: [quantile(&widths, 0.5), quantile(&widths, 0.9)],
            seconds: [quantile(&seconds, 0.5), quantile(&seconds, 0.9)],
            bisection_seconds: (!bisection.is_empty()).then(|| quantile(&bisection, 0.5)),
            ramp_seconds: (!ramp.is_empty()).then(|| quantile(&ramp, 0.5)),
            ramp_contain: (!ramps.is_empty())
                .then(|| ramps.iter().filter(|ramp| ramp.contains).count()),
        }
    }

    /// The share of time that a search saves compared with bisection.
    pub fn saved(&self) -> Option<f64> {
        Some(1.0 - self.seconds[0] / self.bisection_seconds?)
    }
}

/// Returns one row for each server, in the order of its first search, and one row for all servers with a capacity.
pub fn rows(searches: &[SearchResult]) -> Vec<Row> {
    let mut servers: Vec<&'static str> = Vec::new();
    for one in searches {
        if !servers.contains(&one.server) {
            servers.push(one.server);
        }
    }
    let of = |server: &str| -> Vec<SearchResult> {
        let of_server = searches.iter().filter(|one| one.server == server);
        of_server.copied().collect()
    };
    let each = servers.iter().map(|server| Row::of(server, &of(server)));
    each.chain([Row::of("all", &with_capacity(searches))])
        .collect()
}

/// Returns the searches that have a capacity to find.
fn with_capacity(searches: &[SearchResult]) -> Vec<SearchResult> {
    let all = searches.iter().filter(|one| one.capacity.is_some());
    all.copied().collect()
}

/// Whether the searches are consistent with a confidence:
///
/// - enough intervals contain the capacity (`least_hits`);
/// - with a capacity, at most one search of twenty gave no interval;
/// - without a capacity, no search gave an interval;
/// - if no load meets the SLO, every search certified a load that fails.
pub fn covers(searches: &[SearchResult], confidence: f64) -> bool {
    let row = Row::of("all", &with_capacity(searches));
    let is_false = |one: &SearchResult| {
        (one.capacity.is_none() && one.interval.is_some())
            || (one.no_load_works && one.fails_at.is_none())
    };
    20 * row.answered >= 19 * row.searches
        && row.contain >= least_hits(row.answered, confidence)
        && !searches.iter().any(is_false)
}

/// Returns the smallest plausible number of hits among `all` searches. If each search is a hit with probability `hit`,
/// fewer hits have a probability of less than 0.1 % (binomial distribution).
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

/// Returns the table as text.
pub fn text(searches: &[SearchResult]) -> String {
    let mut text = format!(
        "{:<24} {:>8} {:>9} {:>17} {:>15} {:>15} {:>10} {:>6} {:>8} {:>7}\n",
        "server",
        "searches",
        "answered",
        "contain the truth",
        "width p50, p90",
        "time p50, p90",
        "bisection",
        "saved",
        "ramp",
        "right"
    );
    let seconds = |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.0} s"));
    let percent = |share: Option<f64>| {
        share.map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share))
    };
    for row in rows(searches) {
        let contained = match (row.answered, row.bounded) {
            (0, None) => "–".to_owned(),
            (0, Some(bounded)) => format!("upper bound: {bounded}"),
            (answered, _) => format!("{:.1} %", 100.0 * row.contain as f64 / answered as f64),
        };
        let width = match row.answered {
            0 => "–".to_owned(),
            _ => format!(
                "{:.2} %, {:.2} %",
                100.0 * row.width[0],
                100.0 * row.width[1]
            ),
        };
        let right = row
            .ramp_contain
            .map(|right| right as f64 / row.searches as f64);
        let _ = writeln!(
            text,
            "{:<24} {:>8} {:>9} {:>17} {:>15} {:>5.0} s, {:>4.0} s {:>10} {:>6} {:>8} {:>7}",
            row.server,
            row.searches,
            row.answered,
            contained,
            width,
            row.seconds[0],
            row.seconds[1],
            seconds(row.bisection_seconds),
            percent(row.saved()),
            seconds(row.ramp_seconds),
            percent(right)
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

    /// A search whose interval contains the capacity.
    const RIGHT: SearchResult = SearchResult {
        server: "token bucket",
        capacity: Some(1010.0),
        no_load_works: false,
        interval: Some((1000.0, 1020.0)),
        fails_at: None,
        seconds: 50.0,
        bisection_seconds: None,
        ramp: None,
    };

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
        let searches: Vec<SearchResult> = all
            .map(|(kind, number)| SearchResult::run(kind, Goal::default(), Seed(1), number))
            .collect();
        let row = Row::of("all", &searches);
        let table = text(&searches);
        assert!(covers(&searches, 0.95), "{table}");
        assert!(row.width[1] <= 0.02 + 1e-9, "{table}");
        assert!(row.seconds[0] < 180.0, "{table}");
        assert!(row.saved() >= Some(0.4), "{table}");
    }

    #[test]
    fn an_interval_where_there_is_no_capacity_is_an_error() {
        let control = SearchResult {
            server: "slow generator",
            capacity: None,
            ..RIGHT
        };
        let silent = SearchResult {
            interval: None,
            ..control
        };
        assert!(covers(&[RIGHT, silent], 0.95));
        assert!(!covers(&[RIGHT, control], 0.95));
        let rows = rows(&[RIGHT, silent]);
        assert_eq!(
            (rows[1].searches, rows[1].answered, rows[2].searches),
            (1, 0, 1)
        );
        assert!(text(&[RIGHT, silent]).contains("slow generator"));
    }

    #[test]
    fn no_bound_where_no_load_works_is_an_error() {
        let unbounded = SearchResult {
            server: "fails always",
            capacity: None,
            no_load_works: true,
            interval: None,
            ..RIGHT
        };
        let bounded = SearchResult {
            fails_at: Some(6.25),
            ..unbounded
        };
        assert!(covers(&[RIGHT, bounded], 0.95));
        assert!(!covers(&[RIGHT, unbounded], 0.95));
        assert_eq!(rows(&[RIGHT, bounded, unbounded])[1].bounded, Some(1));
        assert!(text(&[RIGHT, bounded]).contains("upper bound: 1"));
    }
}
