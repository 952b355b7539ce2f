//! A/A tests: cells of a run that differ only in a label, compared as claims compare cells.
//!
//! The label is the level of the factor [`COPY`], which has no effect on the measurement. So a difference between
//! two copies is noise. The intervals cover the noise between replicates, but no other noise. If there is other noise,
//! too many comparisons report a difference.
//!
//! The method is that of claims about a ratio: replicates are paired, the interval has the run's level, and all
//! comparisons together have a simultaneous level (Bonferroni). The number of differences is compared with the binomial
//! distribution, which is exact for independent comparisons. The metrics of a pair depend on each other, so a number
//! above the bound is a hint and not a proof.

use std::collections::BTreeMap;

use fathometer_model::CellKey;
use fathometer_model::digits::significant;
use serde::Serialize;

use crate::claims::{Bound, EQUAL_RATIO, Position};
use crate::machines::Matched;
use crate::resolution::resolution;
use crate::run::{Cell, Run, without};
use crate::selection::{COPY, FIRST_COPY};
use crate::statistics::distributions::{binomial_quantile, binomial_tail};
use crate::statistics::{Basis, Interval, Intervals, Sides, simultaneous_level};

/// The smallest probability that chance alone gives at most [`EqualCellsCount::expected_at_most`] differences between
/// equal cells.
const CONFIDENCE: f64 = 0.95;

/// The compared metrics of page retrievals, loads and capacity searches. Metrics that a run lacks are skipped.
pub const METRICS: [&str; 10] = [
    "elapsed_s",
    "packets",
    "ip_bytes",
    "client_cpu_s",
    "server_cpu_s",
    "exchanges_per_s",
    "response_mean_ms",
    "latency_p99_ms",
    "cpu_us_per_exchange",
    "capacity",
];

/// The verdict on two copies of a cell in one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyVerdict {
    /// The interval of the ratio excludes 1: a false alarm.
    Different,
    /// The interval contains 1 and lies within the margin of equality that claims use.
    Equal,
    /// The interval contains 1 and extends beyond the margin, or there is no interval.
    Undecided,
}

impl CopyVerdict {
    /// The verdict as the screen shows it.
    pub const fn word(self) -> &'static str {
        match self {
            CopyVerdict::Different => "DIFFERENT",
            CopyVerdict::Equal => "equal",
            CopyVerdict::Undecided => "undecided",
        }
    }

    fn of(interval: Option<Interval>) -> CopyVerdict {
        let Some(interval) = interval else {
            return CopyVerdict::Undecided;
        };
        let margin: Option<Bound> = EQUAL_RATIO.parse().ok();
        let is_inside = |margin: Bound| margin.position(interval) == Position::Inside;
        match (interval.contains(1.0), margin.is_some_and(is_inside)) {
            (false, _) => CopyVerdict::Different,
            (true, true) => CopyVerdict::Equal,
            (true, false) => CopyVerdict::Undecided,
        }
    }
}

/// Two copies of a cell, compared in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyComparison {
    /// The block of the study.
    pub block: String,
    /// The levels that both cells have.
    pub cell: CellKey,
    /// The name of both cells in the run: their levels of the factors that vary in the block.
    pub name: String,
    /// The labels of the denominator and of the numerator.
    pub copies: [String; 2],
    /// The metric.
    pub metric: String,
    /// Number of replicates; if the cells have different numbers, the smaller one.
    pub n: usize,
    /// Whether replicates were compared in pairs.
    pub sides: Sides,
    /// The ratio of the second copy to the first; `None` if the ratio is not finite.
    pub ratio: Option<f64>,
    /// The interval of the ratio, at the level of the run.
    pub interval: Option<Interval>,
    /// The interval of the ratio at the simultaneous level of all comparisons.
    pub simultaneous: Option<Interval>,
    /// The verdict from the interval.
    pub verdict: CopyVerdict,
}

impl CopyComparison {
    /// The ratio as text; empty if it is not finite.
    pub fn ratio_text(&self) -> String {
        self.ratio.map(ratio_text).unwrap_or_default()
    }

    /// The ends of the interval as text.
    pub fn ends_text(&self) -> Option<[String; 2]> {
        let interval = self.interval?;
        Some([interval.low, interval.high].map(ratio_text))
    }
}

/// The text of a ratio. Ratios near 1 need three decimals; an interval of two replicates may end at millions.
fn ratio_text(ratio: f64) -> String {
    match ratio.abs() < 10.0 {
        true => format!("{ratio:.3}"),
        false => significant(ratio),
    }
}

/// The number of comparisons of equal cells that report a difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EqualCellsCount {
    /// The level of each interval.
    pub level: f64,
    /// Comparisons with an interval.
    pub compared: usize,
    /// Comparisons that report a difference.
    pub different: usize,
    /// Comparisons that report a difference at the simultaneous level of all comparisons.
    pub different_together: usize,
    /// Chance alone gives at most this number of differences with a probability of 95 % or more (binomial distribution).
    pub expected_at_most: u64,
    /// The probability that chance alone gives at least as many differences (binomial distribution).
    pub p_value: f64,
}

impl EqualCellsCount {
    /// The result in one or two sentences.
    pub fn sentence(&self) -> String {
        let percent = format!("{:.1}", 100.0 * self.level);
        let percent = percent.trim_end_matches(".0");
        match self.compared {
            0 => "Equal cells were not compared: each needs two valid replicates.".to_owned(),
            compared => format!(
                "{} of {compared} comparisons of equal cells {} a difference; at {percent} % up to {} are expected by \
                 chance. At the simultaneous level of all: {}.",
                self.different,
                if self.different == 1 {
                    "reports"
                } else {
                    "report"
                },
                self.expected_at_most,
                self.different_together,
            ),
        }
    }

    /// Whether there are more differences than chance explains.
    pub fn is_above_chance(&self) -> bool {
        self.different as u64 > self.expected_at_most
    }

    fn of(comparisons: &[CopyComparison], level: f64) -> EqualCellsCount {
        let compared = comparisons.iter().filter(|one| one.interval.is_some());
        let compared = compared.count();
        let excludes = |interval: Option<Interval>| interval.is_some_and(|i| !i.contains(1.0));
        let different = comparisons.iter().filter(|one| excludes(one.interval));
        let different = different.count();
        let together = comparisons.iter().filter(|one| excludes(one.simultaneous));
        let error = 1.0 - level;
        EqualCellsCount {
            level,
            compared,
            different,
            different_together: together.count(),
            expected_at_most: binomial_quantile(CONFIDENCE, compared as u64, error),
            p_value: binomial_tail(different as u64, compared as u64, error),
        }
    }
}

/// The A/A tests of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EqualCells {
    /// The number of comparisons that report a difference.
    #[serde(flatten)]
    pub count: EqualCellsCount,
    /// Every comparison, in the order of cells and [`METRICS`].
    pub comparisons: Vec<CopyComparison>,
}

impl EqualCells {
    /// Compares the copies of each cell of a run; `None` if no cell has two copies with figures.
    pub fn of(run: &Run, intervals: Intervals) -> Option<EqualCells> {
        let mut judged: Vec<(CopyComparison, Option<Basis>)> = pairs(run)
            .into_iter()
            .flat_map(|pair| {
                let metrics = METRICS.iter();
                metrics.filter_map(move |metric| compared(run, intervals, &pair, metric))
            })
            .collect();
        if judged.is_empty() {
            return None;
        }
        let count = judged.iter().filter(|(_, basis)| basis.is_some()).count();
        let together = simultaneous_level(intervals.level, count);
        for (comparison, basis) in &mut judged {
            comparison.simultaneous = basis.map(|basis| basis.interval(together));
        }
        let comparisons: Vec<CopyComparison> = judged.into_iter().map(|(one, _)| one).collect();
        Some(EqualCells {
            count: EqualCellsCount::of(&comparisons, intervals.level),
            comparisons,
        })
    }
}

/// Two cells that differ only in [`COPY`], and their common levels.
struct Pair<'a> {
    shared: CellKey,
    first: &'a Cell,
    second: &'a Cell,
}

/// Pairs of the first copy with each other copy.
fn pairs(run: &Run) -> Vec<Pair<'_>> {
    let mut copies: BTreeMap<(&str, CellKey), Vec<&Cell>> = BTreeMap::new();
    for cell in &run.cells {
        if cell.key.level(COPY).is_some() {
            let key = (cell.block.as_str(), without(&cell.key, COPY));
            copies.entry(key).or_default().push(cell);
        }
    }
    let mut pairs = Vec::new();
    for ((_, shared), cells) in copies {
        let Some((first, others)) = cells.split_first() else {
            continue;
        };
        pairs.extend(others.iter().map(|second| Pair {
            shared: shared.clone(),
            first,
            second,
        }));
    }
    pairs
}

/// A metric of two copies, and the basis of its interval; `None` if a cell has no figure.
fn compared(
    run: &Run,
    intervals: Intervals,
    pair: &Pair<'_>,
    metric: &str,
) -> Option<(CopyComparison, Option<Basis>)> {
    let values = [pair.second, pair.first].map(|cell| cell.values(metric));
    if values.iter().any(Vec::is_empty) {
        return None;
    }
    let matched = Matched::of(&run.info, &values);
    let [second, first] = matched.samples.as_slice() else {
        return None;
    };
    let sides = matched.sides;
    let inference =
        intervals
            .on(&matched.machines)
            .ratio(second, first, sides, resolution(metric))?;
    let estimate = inference.estimate;
    let label = |cell: &Cell| cell.key.level(COPY).unwrap_or(FIRST_COPY).to_owned();
    let comparison = CopyComparison {
        block: pair.first.block.clone(),
        cell: pair.shared.clone(),
        name: run.name_without(pair.first, COPY),
        copies: [label(pair.first), label(pair.second)],
        metric: metric.to_owned(),
        n: estimate.n,
        sides,
        ratio: Some(estimate.value).filter(|ratio| ratio.is_finite()),
        interval: estimate.interval,
        simultaneous: None,
        verdict: CopyVerdict::of(estimate.interval),
    };
    Some((comparison, inference.basis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(
        interval: Option<(f64, f64)>,
        simultaneous: Option<(f64, f64)>,
    ) -> CopyComparison {
        let interval_of = |ends: (f64, f64)| Interval {
            low: ends.0,
            high: ends.1,
        };
        let interval = interval.map(interval_of);
        CopyComparison {
            block: "a-a".to_owned(),
            cell: CellKey(BTreeMap::new()),
            name: String::new(),
            copies: ["a", "b"].map(str::to_owned),
            metric: "packets".to_owned(),
            n: 5,
            sides: Sides::Paired,
            ratio: Some(1.0),
            interval,
            simultaneous: simultaneous.map(interval_of),
            verdict: CopyVerdict::of(interval),
        }
    }

    #[test]
    fn an_interval_without_one_is_a_difference_and_a_narrow_one_with_it_is_equal() {
        let verdict = |low, high| comparison(Some((low, high)), None).verdict;
        assert_eq!(verdict(1.001, 1.002), CopyVerdict::Different);
        assert_eq!(verdict(0.5, 0.999), CopyVerdict::Different);
        assert_eq!(verdict(0.98, 1.02), CopyVerdict::Equal);
        assert_eq!(verdict(0.9, 1.02), CopyVerdict::Undecided);
        assert_eq!(comparison(None, None).verdict, CopyVerdict::Undecided);
    }

    #[test]
    fn differences_are_counted_beside_those_that_chance_gives() {
        let same = || comparison(Some((0.98, 1.02)), Some((0.97, 1.03)));
        let mut comparisons: Vec<CopyComparison> = (0..19).map(|_| same()).collect();
        comparisons.push(comparison(Some((1.1, 1.3)), Some((0.99, 1.4))));
        comparisons.push(comparison(None, None));
        let count = EqualCellsCount::of(&comparisons, 0.95);
        assert_eq!((count.compared, count.different), (20, 1));
        assert_eq!((count.different_together, count.expected_at_most), (0, 3));
        assert!((count.p_value - (1.0 - 0.95f64.powi(20))).abs() < 1e-12);
        assert!(!count.is_above_chance());
        assert_eq!(
            count.sentence(),
            "1 of 20 comparisons of equal cells reports a difference; at 95 % up to 3 are expected by chance. At the \
             simultaneous level of all: 0."
        );
        let single = EqualCellsCount::of(&[comparison(None, None)], 0.95);
        assert!(single.sentence().contains("not compared"), "{single:?}");
    }
}
