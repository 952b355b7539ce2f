//! Tests for two curves that change their order.

use std::collections::BTreeMap;

use super::super::Relation;
use super::super::judge::{Bench, Measured, join};
use super::Sweep;
use super::jump::POSITIVE;
use crate::machines::Matched;
use crate::resolution::resolution;
use crate::selection::Selection;
use crate::statistics::{
    Basis, Estimate, Inference, Interval, Intervals, Sides, simultaneous_level,
};

impl Bench<'_> {
    /// Tests whether two curves change their order. The intervals use the Bonferroni correction, so that all
    /// comparisons together have the error rate of a single comparison.
    pub(super) fn ranking(
        &self,
        relation: &Relation,
        sweep: &Sweep,
        among: &str,
        place: &Selection,
    ) -> Measured {
        let mut cells: Vec<Standing> = Vec::new();
        let mut remark = String::new();
        for environment in combinations(&sweep.across) {
            for level in &self.inputs.factors[among].levels {
                let mut side = relation.left.clone();
                for (factor, level) in &environment {
                    side.selection = side.selection.at(factor, level);
                }
                side.selection = side.selection.at(among, level);
                match self.trace(&side, relation, sweep, place) {
                    Ok(trace) => {
                        remark = join(&remark, &trace.remark);
                        let words: Vec<&str> =
                            environment.iter().map(|(_, l)| l.as_str()).collect();
                        let words = words.join(" ");
                        let points = trace.xs.iter().zip(&trace.numbers).zip(&trace.values);
                        cells.extend(points.map(|((x, numbers), values)| {
                            let pairs = numbers.iter().copied().zip(values.iter().copied());
                            (level.clone(), words.clone(), *x, pairs.collect())
                        }));
                    }
                    Err(Measured::Missing) => {}
                    Err(problem) => return problem,
                }
            }
        }
        let mut pairs = Vec::new();
        for (index, one) in cells.iter().enumerate() {
            for other in &cells[index + 1..] {
                if one.0 != other.0 && one.1 == other.1 && one.2 == other.2 {
                    pairs.push((one, other));
                }
            }
        }
        if pairs.is_empty() {
            return Measured::Missing;
        }
        let strict = Intervals {
            level: simultaneous_level(self.inputs.intervals.level, pairs.len()),
        };
        let mut contests: BTreeMap<(&str, &str), PairwiseComparison> = BTreeMap::new();
        for (one, other) in &pairs {
            let both = [one.3.clone(), other.3.clone()];
            let matched = Matched::of(&self.inputs.run.info, &both);
            let [left, right] = matched.samples.as_slice() else {
                continue;
            };
            let resolution = resolution(&relation.metric);
            let strict = strict.on(&matched.machines);
            let ratio = strict.ratio(left, right, matched.sides, resolution);
            let ratio = ratio.map(|ratio| ratio.estimate);
            let Some(ratio) = ratio.filter(|ratio| ratio.value > 0.0 && ratio.value.is_finite())
            else {
                continue;
            };
            let place = format!("{} {} {}", one.1, sweep.along, one.2);
            let contest = contests.entry((&one.0, &other.0)).or_default();
            contest.note(ratio, place.trim());
        }
        let best = contests
            .iter()
            .filter_map(|(names, contest)| Some((names, contest.turn()?)))
            .max_by(|(_, a), (_, b)| {
                let key = |turn: &Turn| (turn.low.unwrap_or(0.0), turn.value);
                key(a)
                    .partial_cmp(&key(b))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        let Some(((one, other), turn)) = best else {
            return Measured::Missing;
        };
        let words = if turn.value > 1.0 {
            format!(
                "{one} is above {other} at {}, {other} above {one} at {}",
                turn.places.0, turn.places.1
            )
        } else {
            "no two change their order".to_owned()
        };
        let estimate = Estimate {
            n: contests.values().map(|c| c.n).min().unwrap_or(0),
            value: turn.value,
            interval: turn
                .low
                .zip(turn.high)
                .map(|(low, high)| Interval { low, high }),
        };
        let estimate = Inference {
            basis: estimate
                .interval
                .map(|interval| as_basis(&estimate, interval, self.inputs.intervals)),
            estimate,
        };
        Measured::Estimate(
            Box::new(estimate),
            Sides::Independent,
            join(&words, &remark),
        )
    }
}

/// Converts an interval from several comparisons to the basis of one estimate.
fn as_basis(estimate: &Estimate, interval: Interval, intervals: Intervals) -> Basis {
    let normal = Basis {
        n: estimate.n,
        centre: estimate.value.ln(),
        error: 0.0,
        freedom: 1.0,
        floor: 1.0,
        machines: None,
        slack: (0.0, 0.0),
        logarithmic: true,
        range: POSITIVE,
    };
    // Half of the interval on the logarithmic scale, divided by the half length for an error of 1.
    let unit = (normal.interval(intervals.level).high / estimate.value).ln();
    let half = (estimate.value / interval.low)
        .max(interval.high / estimate.value)
        .ln();
    Basis {
        floor: half / unit,
        machines: None,
        ..normal
    }
}

fn combinations(across: &BTreeMap<String, Vec<String>>) -> Vec<Vec<(String, String)>> {
    across
        .iter()
        .fold(vec![Vec::new()], |all, (factor, levels)| {
            all.into_iter()
                .flat_map(|shorter: Vec<(String, String)>| {
                    levels.iter().map(move |level| {
                        let mut longer = shorter.clone();
                        longer.push((factor.clone(), level.clone()));
                        longer
                    })
                })
                .collect()
        })
}

/// One of the ranked values: its level, the environment, the level of the numeric factor, and the values of its
/// replicates.
type Standing = (String, String, f64, Vec<(u32, f64)>);

/// Two levels that are compared in several environments, with the extremes of their ratio.
#[derive(Default)]
struct PairwiseComparison {
    n: usize,
    /// The greatest and the smallest ratio, each with the environment in which it occurs.
    ends: Option<(f64, String, f64, String)>,
    /// The greatest and the smallest ratio that the intervals prove, and the greatest and the smallest ratio that they
    /// permit; `None` if no comparison has an interval.
    supported: Option<(f64, f64)>,
    allowed: Option<(f64, f64)>,
}

/// The extent to which a pair of curves changes its order; at most 1 if the order does not change.
struct Turn {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    places: (String, String),
}

impl PairwiseComparison {
    fn note(&mut self, ratio: Estimate, place: &str) {
        self.n = if self.n == 0 {
            ratio.n
        } else {
            self.n.min(ratio.n)
        };
        let (value, place) = (ratio.value, place.to_owned());
        self.ends = Some(match self.ends.take() {
            None => (value, place.clone(), value, place),
            Some((most, _, least, least_at)) if value > most => (value, place, least, least_at),
            Some((most, at, least, _)) if value < least => (most, at, value, place),
            Some(ends) => ends,
        });
        if let Some(interval) = ratio.interval {
            let (most, least) = self.supported.unwrap_or((0.0, f64::INFINITY));
            self.supported = Some((most.max(interval.low), least.min(interval.high)));
            let (most, least) = self.allowed.unwrap_or((0.0, f64::INFINITY));
            self.allowed = Some((most.max(interval.high), least.min(interval.low)));
        }
    }

    fn turn(&self) -> Option<Turn> {
        let (most, most_at, least, least_at) = self.ends.clone()?;
        let smaller = |(most, least): (f64, f64)| most.min(1.0 / least);
        Some(Turn {
            value: smaller((most, least)),
            low: self.supported.map(smaller),
            high: self.allowed.map(smaller),
            places: (most_at, least_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, low: f64, high: f64) -> Estimate {
        Estimate {
            n: 3,
            value,
            interval: Some(Interval { low, high }),
        }
    }

    #[test]
    fn a_pair_changes_its_order_by_the_smaller_of_its_two_leads() {
        let mut contest = PairwiseComparison::default();
        contest.note(ratio(2.0, 1.8, 2.2), "at 1");
        let turn = contest.turn().unwrap();
        assert!((turn.value - 0.5).abs() < 1e-12, "one place is no change");
        contest.note(ratio(0.8, 0.7, 0.9), "at 2");
        contest.note(ratio(1.5, 1.4, 1.6), "at 3");
        let turn = contest.turn().unwrap();
        assert!((turn.value - 1.25).abs() < 1e-12);
        assert_eq!(turn.places, ("at 1".to_owned(), "at 2".to_owned()));
        assert!((turn.low.unwrap() - 1.0 / 0.9).abs() < 1e-12);
        assert!((turn.high.unwrap() - 1.0 / 0.7).abs() < 1e-12);
    }

    #[test]
    fn environments_are_all_combinations_of_levels() {
        let levels = |all: &[&str]| all.iter().map(|&level| level.to_owned()).collect();
        let across = BTreeMap::from([
            ("era".to_owned(), levels(&["1997", "today"])),
            ("path".to_owned(), levels(&["lan", "wan"])),
        ]);
        let names: Vec<String> = combinations(&across)
            .iter()
            .map(|environment| {
                let levels: Vec<&str> = environment.iter().map(|(_, l)| l.as_str()).collect();
                levels.join(" ")
            })
            .collect();
        assert_eq!(names, ["1997 lan", "1997 wan", "today lan", "today wan"]);
        assert_eq!(combinations(&BTreeMap::new()).len(), 1);
    }
}
