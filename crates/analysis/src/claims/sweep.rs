//! Tests that use whole curves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::judge::{Bench, Measured, join};
use super::{Kind, Relation, Side};
use crate::resolution::{quotient, resolution};
use crate::run::Cell;
use crate::selection::{Selection, number};
use crate::statistics::{
    Basis, Estimate, Inference, Interval, Intervals, Scale, Sides, indices, mean, mean_at,
    simultaneous_level,
};
use crate::sweep::shape::{Knee, Pick, Place, slope, steadiness};
use crate::sweep::{NoCurve, levels};

/// Which curve a test uses, and which part of it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The numeric factor: every level that was measured is a point of the curve.
    pub along: String,
    /// A metric that divides the test's metric, level by level.
    pub over: Option<String>,
    /// A metric whose values replace the levels in a `slope`: the slope is then the cost of one more of it.
    pub per: Option<String>,
    /// The rule for the knee.
    pub knee: Option<Knee>,
    /// The levels that are used.
    #[serde(default)]
    pub at: Place,
    /// How the figures of several levels become one, for `at`, `identity` and `gain`.
    #[serde(default)]
    pub pick: Pick,
    /// The floor for values in a `gain`, in the metric's unit; a smaller value counts as this. Without it, a
    /// ratio to almost zero would be huge.
    pub floor: Option<f64>,
    /// The factors whose levels add up to the expected place of a `knee`; the estimate is the knee over that
    /// sum.
    #[serde(default)]
    pub relative_to: Vec<String>,
    /// The factor whose levels a `ranking` orders.
    pub among: Option<String>,
    /// Further factors. A `ranking` may also change between their levels.
    #[serde(default)]
    pub across: BTreeMap<String, Vec<String>>,
}

/// Whether a kind fits the description of its curves.
pub(super) fn check(kind: Kind, metric: &str, sweep: Option<&Sweep>) -> Result<(), String> {
    let word = format!("{kind:?}").to_lowercase();
    let Some(sweep) = sweep else {
        return match kind.is_sweep() {
            true => Err(format!("{word} of {metric} needs a sweep: {{ along = … }}")),
            false => Ok(()),
        };
    };
    let refuse = |is_wrong: bool, what: &str| match is_wrong {
        true => Err(format!("{word} of {metric} {what}")),
        false => Ok(()),
    };
    refuse(!kind.is_sweep(), "is not made of curves: it has no sweep")?;
    let needs_knee = matches!(kind, Kind::Knee | Kind::Bend) || sweep.at.needs_knee();
    refuse(
        needs_knee && sweep.knee.is_none(),
        "needs a knee: { of = METRIC }",
    )?;
    let is_off_grid = sweep.knee.as_ref().is_some_and(|k| !k.rule.is_level());
    refuse(
        is_off_grid && sweep.at == Place::Knee,
        "at the knee needs a knee that is a level, not where asymptotes cross",
    )?;
    refuse(
        sweep.floor.is_some() && kind != Kind::Gain,
        "has no floor: only a gain has",
    )?;
    refuse(
        sweep.per.is_some() && kind != Kind::Slope,
        "is not per anything: only a slope is",
    )?;
    refuse(
        !sweep.relative_to.is_empty() && kind != Kind::Knee,
        "is not relative_to anything: only a knee is",
    )?;
    refuse(
        sweep.among.is_some() != (kind == Kind::Ranking),
        "and among do not fit: a ranking, and nothing else, is among the levels of a factor",
    )?;
    refuse(
        !sweep.across.is_empty() && kind != Kind::Ranking,
        "is not across anything: only a ranking is",
    )?;
    let picks = matches!(kind, Kind::At | Kind::Identity | Kind::Gain);
    refuse(
        sweep.pick != Pick::Mean && !picks,
        "has nothing to pick: only at, identity and gain have",
    )
}

/// A curve with all its replicates.
struct Trace<'a> {
    xs: Vec<f64>,
    /// The numbers of the valid replicates at each level.
    numbers: Vec<Vec<u32>>,
    values: Vec<Vec<f64>>,
    over: Option<Vec<Vec<f64>>>,
    per: Option<Vec<Vec<f64>>>,
    of_knee: Option<Vec<Vec<f64>>>,
    first: &'a Cell,
    remark: String,
}

/// A curve of some of its replicates.
struct Drawn<'a> {
    xs: &'a [f64],
    /// The values that replace the levels where a slope is computed.
    per: Option<Vec<f64>>,
    ys: Vec<f64>,
    knee: Option<f64>,
}

impl Bench<'_> {
    /// Estimates the figure of a test from its curves.
    pub(super) fn sweep(&self, relation: &Relation, sweep: &Sweep, place: &Selection) -> Measured {
        if let Some(among) = &sweep.among {
            return self.ranking(relation, sweep, among, place);
        }
        let mut traces = Vec::new();
        for side in curves_of(relation) {
            match self.trace(&side, relation, sweep, place) {
                Ok(trace) => traces.push(trace),
                Err(problem) => return problem,
            }
        }
        let remark = traces
            .iter()
            .fold(String::new(), |all, trace| join(&all, &trace.remark));
        let expected = match self.expected(sweep, &traces[0]) {
            Ok(expected) => expected,
            Err(reason) => return Measured::Unusable(reason),
        };
        // The samples are indices of replicates at each level, the same for every metric.
        let samples: Vec<Vec<f64>> = traces
            .iter()
            .flat_map(|trace| &trace.numbers)
            .map(|numbers| indices(numbers.len()))
            .collect();
        let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let sides = Sides::of(traces.iter().flat_map(|trace| &trace.numbers));
        let figure = |drawn: &[&[f64]]| -> Result<f64, String> {
            let mut rest = drawn;
            let curves: Vec<Drawn<'_>> = traces
                .iter()
                .map(|trace| {
                    let (own, others) = rest.split_at(trace.xs.len());
                    rest = others;
                    trace.drawn(own, sweep)
                })
                .collect();
            figure(relation.kind, sweep, &curves, expected)
        };
        if let Err(reason) = figure(&samples) {
            // If the test estimates the knee itself, a missing knee makes the test unusable. If another figure
            // needs the knee, its condition did not occur.
            return match relation.kind {
                Kind::Knee => Measured::Unusable(reason),
                _ => Measured::Absent(reason),
            };
        }
        let statistic = |drawn: &[&[f64]]| figure(drawn).unwrap_or(f64::NAN);
        let intervals = self.inputs.intervals;
        let estimate = match jump(
            relation,
            sweep,
            &traces[0].xs,
            statistic(&samples),
            expected,
        ) {
            None => intervals.statistic(&samples, sides, scale(relation), quotient(), &statistic),
            Some(jump) => Some(by_replicates(
                intervals, &traces, jump, &statistic, &samples,
            )),
        };
        match estimate {
            Some(estimate) => Measured::Estimate(Box::new(estimate), sides, remark),
            None => Measured::Missing,
        }
    }

    /// The levels that a test looks at, where every curve has them. Empty where they are not known, for example
    /// because a curve has no knee.
    pub(super) fn levels_of(
        &self,
        relation: &Relation,
        sweep: &Sweep,
        place: &Selection,
    ) -> Vec<f64> {
        let mut curves = Vec::new();
        for side in curves_of(relation) {
            let Ok(trace) = self.trace(&side, relation, sweep, place) else {
                return Vec::new();
            };
            let samples: Vec<Vec<f64>> = trace.numbers.iter().map(|n| indices(n.len())).collect();
            let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
            let knee = trace.drawn(&samples, sweep).knee;
            curves.push((trace.xs, knee));
        }
        let knees: Vec<f64> = curves.iter().filter_map(|(_, knee)| *knee).collect();
        if sweep.at.needs_knee() && knees.len() < curves.len() {
            return Vec::new();
        }
        let ends = knees
            .iter()
            .copied()
            .reduce(f64::min)
            .zip(knees.iter().copied().reduce(f64::max));
        let Some((first, others)) = curves.split_first() else {
            return Vec::new();
        };
        let levels = sweep
            .at
            .levels(&first.0, ends)
            .into_iter()
            .map(|i| first.0[i]);
        levels
            .filter(|x| others.iter().all(|(xs, _)| xs.contains(x)))
            .collect()
    }

    /// The sum of the levels at which the knee is expected; 1 where no place is expected.
    fn expected(&self, sweep: &Sweep, trace: &Trace<'_>) -> Result<f64, String> {
        if sweep.relative_to.is_empty() {
            return Ok(1.0);
        }
        let mut sum = 0.0;
        for factor in &sweep.relative_to {
            let level = trace.first.key.level(factor);
            sum += level
                .and_then(number)
                .ok_or_else(|| format!("{factor} is not a number in {}", trace.first.key))?;
        }
        Ok(sum)
    }

    fn trace<'a>(
        &'a self,
        side: &Side,
        relation: &Relation,
        sweep: &Sweep,
        place: &Selection,
    ) -> Result<Trace<'a>, Measured> {
        let metric = side.metric.as_ref().unwrap_or(&relation.metric);
        let selection = place.with(&side.selection);
        let found = levels(&self.inputs, &selection, &sweep.along).map_err(no_curve)?;
        let mut remark = found.left_out.join("; ");
        let mut trace: Option<Trace<'a>> = None;
        for (x, cell) in found.cells {
            let Some(values) = Some(cell.values(metric)).filter(|v| !v.is_empty()) else {
                continue;
            };
            let same = |metric: &str| -> Result<Vec<f64>, Measured> {
                let others = cell.values(metric);
                if !values
                    .iter()
                    .map(|(n, _)| n)
                    .eq(others.iter().map(|(n, _)| n))
                {
                    let reason = format!("not every replicate of {} has {metric}", cell.key);
                    return Err(Measured::Unusable(reason));
                }
                Ok(others.into_iter().map(|(_, value)| value).collect())
            };
            if cell.valid().count() < cell.replicates.len() {
                let out = cell.replicates.len() - cell.valid().count();
                let all = cell.replicates.len();
                let text = format!("{} {x}: {out} of {all} replicates left out", sweep.along);
                remark = join(&remark, &text);
            }
            let over = sweep.over.as_deref().map(same).transpose()?;
            let per = sweep.per.as_deref().map(same).transpose()?;
            let of_knee = sweep.knee.as_ref().map(|k| same(&k.of)).transpose()?;
            let trace = trace.get_or_insert_with(|| Trace {
                xs: Vec::new(),
                numbers: Vec::new(),
                values: Vec::new(),
                over: over.is_some().then(Vec::new),
                per: per.is_some().then(Vec::new),
                of_knee: of_knee.is_some().then(Vec::new),
                first: cell,
                remark: String::new(),
            });
            trace.xs.push(x);
            trace.numbers.push(values.iter().map(|(n, _)| *n).collect());
            trace.values.push(values.iter().map(|(_, v)| *v).collect());
            if let (Some(all), Some(own)) = (&mut trace.over, over) {
                all.push(own);
            }
            if let (Some(all), Some(own)) = (&mut trace.per, per) {
                all.push(own);
            }
            if let (Some(all), Some(own)) = (&mut trace.of_knee, of_knee) {
                all.push(own);
            }
        }
        match trace {
            Some(trace) => Ok(Trace { remark, ..trace }),
            None if remark.is_empty() => Err(Measured::Missing),
            None => Err(Measured::Unusable(remark)),
        }
    }

    /// Whether two curves change their order. The intervals use the Bonferroni correction, so that all
    /// comparisons together err no more often than a single one would.
    fn ranking(
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
        let mut contests: BTreeMap<(&str, &str), Contest> = BTreeMap::new();
        for (one, other) in &pairs {
            let values = |side: &[(u32, f64)]| side.iter().map(|(_, v)| *v).collect::<Vec<f64>>();
            let numbers = |side: &[(u32, f64)]| side.iter().map(|(n, _)| *n).collect::<Vec<u32>>();
            let sides = Sides::of([&one.3, &other.3].map(|side| numbers(side)));
            let resolution = resolution(&relation.metric);
            let ratio = strict.ratio(&values(&one.3), &values(&other.3), sides, resolution);
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
            "no two change places".to_owned()
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

impl Trace<'_> {
    fn drawn(&self, places: &[&[f64]], sweep: &Sweep) -> Drawn<'_> {
        let means = |values: &[Vec<f64>]| -> Vec<f64> {
            values
                .iter()
                .zip(places)
                .map(|(values, places)| mean_at(values, places))
                .collect()
        };
        let mut ys = means(&self.values);
        if let Some(over) = &self.over {
            for (y, over) in ys.iter_mut().zip(means(over)) {
                *y /= over;
            }
        }
        let knee = sweep.knee.as_ref().zip(self.of_knee.as_ref());
        Drawn {
            xs: &self.xs,
            per: self.per.as_deref().map(means),
            ys,
            knee: knee.and_then(|(knee, values)| knee.rule.find(&self.xs, &means(values))),
        }
    }
}

/// The figure of a test, or the reason why these curves have none.
fn figure(kind: Kind, sweep: &Sweep, curves: &[Drawn<'_>], expected: f64) -> Result<f64, String> {
    let along = &sweep.along;
    let knees = match &sweep.knee {
        None => None,
        Some(knee) => {
            let found: Option<Vec<f64>> = curves.iter().map(|curve| curve.knee).collect();
            let found = found.ok_or_else(|| no_knee(knee, along, curves[0].xs))?;
            let low = found.iter().copied().fold(f64::INFINITY, f64::min);
            let high = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Some((low, high))
        }
    };
    let at = |curve: &Drawn<'_>, place: Place, least: usize| -> Result<Vec<usize>, String> {
        if matches!(place, Place::First | Place::Last) && curve.xs.len() < 2 {
            return Err(format!(
                "only {along} {} was measured: one level is neither the lowest nor the highest of several",
                curve.xs[0]
            ));
        }
        let levels = place.levels(curve.xs, knees);
        if levels.len() >= least {
            return Ok(levels);
        }
        let knee = knees.map_or(String::new(), |(low, _)| format!("; the knee is at {low}"));
        let least = if least > 1 { "fewer than two" } else { "no" };
        Err(format!("{least} {along} levels {place}{knee}"))
    };
    let part = |curve: &Drawn<'_>, place: Place| -> Result<(Vec<f64>, Vec<f64>), String> {
        let levels = at(curve, place, 2)?;
        Ok(levels
            .into_iter()
            .map(|i| (curve.xs[i], curve.ys[i]))
            .unzip())
    };
    // The ratio of two curves, level by level, at the levels that both have.
    let gains = |one: &Drawn<'_>, other: &Drawn<'_>| -> Result<Vec<f64>, String> {
        let floor = sweep.floor.unwrap_or(f64::NEG_INFINITY);
        let gains: Vec<f64> = at(one, sweep.at, 1)?
            .into_iter()
            .filter_map(|i| {
                let j = other.xs.iter().position(|x| *x == one.xs[i])?;
                Some(one.ys[i].max(floor) / other.ys[j].max(floor))
            })
            .collect();
        if gains.is_empty() {
            return Err(format!("no {along} level {} on both sides", sweep.at));
        }
        Ok(gains)
    };
    let one = &curves[0];
    match kind {
        Kind::Knee => match curves.get(1) {
            None => Ok(knees.map_or(f64::NAN, |(low, _)| low / expected)),
            Some(other) => ratio_of_knees(one, other, along),
        },
        Kind::At => {
            let values: Vec<f64> = at(one, sweep.at, 1)?.iter().map(|i| one.ys[*i]).collect();
            Ok(sweep.pick.of(&values))
        }
        Kind::Identity => {
            let levels = at(one, sweep.at, 1)?;
            let values: Vec<f64> = levels.iter().map(|i| one.ys[*i] / one.xs[*i]).collect();
            Ok(sweep.pick.of(&values))
        }
        Kind::Gain => Ok(sweep.pick.of(&gains(one, &curves[1])?)),
        Kind::Loss => {
            let loss = |one: usize| -> Result<f64, String> {
                Ok(1.0 - mean(&gains(&curves[one], &curves[one + 1])?))
            };
            let (left, right) = (loss(0)?, loss(2)?);
            if right <= 0.0 {
                return Err("the right side loses nothing against its baseline".to_owned());
            }
            Ok(left / right)
        }
        Kind::Trend => {
            let (_, ys) = part(one, sweep.at)?;
            Ok(ys[ys.len() - 1] / ys[0] - 1.0)
        }
        Kind::Monotone => Ok(steadiness(&part(one, sweep.at)?.1)),
        Kind::Slope => {
            let slope_of = |curve: &Drawn<'_>| -> Result<f64, String> {
                let levels = at(curve, sweep.at, 2)?;
                let of = |all: &[f64]| levels.iter().map(|i| all[*i]).collect::<Vec<f64>>();
                let xs = of(curve.per.as_deref().unwrap_or(curve.xs));
                Ok(slope(&xs, &of(&curve.ys)))
            };
            match curves.get(1) {
                None => slope_of(one),
                Some(other) => Ok(slope_of(one)? / slope_of(other)?),
            }
        }
        Kind::Bend => {
            let (past, before) = (part(one, Place::Past)?, part(one, Place::ToKnee)?);
            Ok(slope(&past.0, &past.1) / slope(&before.0, &before.1))
        }
        Kind::Crossing => crossing(one, &curves[1])
            .ok_or_else(|| format!("the curves do not cross along {along}")),
        Kind::Level
        | Kind::Difference
        | Kind::Ratio
        | Kind::Contrast
        | Kind::Distance
        | Kind::Ranking => Ok(f64::NAN),
    }
}

/// The knee of `one` over that of `other`. A curve that still rises at its last level has not shown its knee.
fn ratio_of_knees(one: &Drawn<'_>, other: &Drawn<'_>, along: &str) -> Result<f64, String> {
    let knee = |curve: &Drawn<'_>| -> Result<f64, String> {
        let last = curve.xs.last().copied();
        match curve.knee.filter(|knee| Some(*knee) != last) {
            Some(knee) => Ok(knee),
            None => Err(format!(
                "the curve still rises at {along} {}: its knee was not reached",
                last.unwrap_or(f64::NAN)
            )),
        }
    };
    Ok(knee(one)? / knee(other)?)
}

/// The level from which `one` stays below `other`, among the levels that both have, with straight lines between
/// them; `None` when there is no such level.
fn crossing(one: &Drawn<'_>, other: &Drawn<'_>) -> Option<f64> {
    let leads: Vec<(f64, f64)> = one
        .xs
        .iter()
        .zip(&one.ys)
        .filter_map(|(x, y)| {
            let place = other.xs.iter().position(|own| own == x)?;
            Some((*x, y - other.ys[place]))
        })
        .collect();
    let turns = leads.windows(2).rev().find_map(|pair| {
        let ((x0, lead0), (x1, lead1)) = (pair[0], pair[1]);
        (lead0 > 0.0 && lead1 <= 0.0).then(|| x0 + (x1 - x0) * lead0 / (lead0 - lead1))
    });
    turns.filter(|_| leads.last().is_some_and(|(_, lead)| *lead <= 0.0))
}

/// The sides whose curves a relation needs; each side of a loss is followed by its baseline.
fn curves_of(relation: &Relation) -> Vec<Side> {
    let mut sides = Vec::new();
    for side in relation.sides() {
        sides.push(side.clone());
        if let Some(baseline) = &relation.baseline {
            sides.push(Side {
                metric: side.metric.clone(),
                selection: side.selection.with(baseline),
            });
        }
    }
    sides
}

fn no_knee(knee: &Knee, along: &str, xs: &[f64]) -> String {
    use crate::sweep::shape::Rule;
    let last = xs[xs.len() - 1];
    match knee.rule {
        Rule::Above(value) => format!("{} is nowhere above {value}, up to {along} {last}", knee.of),
        _ => format!("{} is zero throughout: it has no knee", knee.of),
    }
}

fn no_curve(problem: NoCurve) -> Measured {
    match problem {
        NoCurve::NotMeasured => Measured::Missing,
        NoCurve::Ambiguous(factors) => {
            Measured::Unusable(format!("several cells differ in {}", factors.join(", ")))
        }
    }
}

/// The scale of a relation's estimate.
fn scale(relation: &Relation) -> Scale {
    match relation.kind {
        Kind::Gain | Kind::Loss | Kind::Identity | Kind::Slope => Scale::Logarithmic,
        _ => Scale::Linear,
    }
}

/// How a figure that jumps from one value to the next is estimated.
#[derive(Clone, Copy)]
struct Jump {
    scale: Scale,
    /// How far below and above it the true value may lie for certain, on that scale.
    slack: (f64, f64),
    range: Interval,
}

/// How a figure jumps; `None` when it is smooth.
fn jump(relation: &Relation, sweep: &Sweep, xs: &[f64], value: f64, expected: f64) -> Option<Jump> {
    match relation.kind {
        Kind::Knee if sweep.knee.as_ref().is_some_and(|knee| knee.rule.is_level()) => {
            // A knee lies between its level and the one before; of a ratio of knees, each does.
            let (scale, slack) = match relation.right {
                None => (Scale::Linear, (back(xs, value, expected), 0.0)),
                Some(_) => {
                    let step = widest_ratio(xs).ln();
                    (Scale::Logarithmic, (step, step))
                }
            };
            Some(Jump {
                scale,
                slack,
                range: POSITIVE,
            })
        }
        Kind::Crossing => Some(Jump {
            scale: Scale::Linear,
            slack: (0.0, 0.0),
            range: POSITIVE,
        }),
        Kind::Monotone => Some(Jump {
            scale: Scale::Linear,
            slack: (0.0, 0.0),
            range: Interval {
                low: -1.0,
                high: 1.0,
            },
        }),
        _ => None,
    }
}

/// How far a level is above the one before, each over what is expected; 0 for the first.
fn back(xs: &[f64], value: f64, expected: f64) -> f64 {
    let levels = xs.iter().rev().map(|x| x / expected);
    let before = levels
        .filter(|x| *x < value)
        .fold(f64::NEG_INFINITY, f64::max);
    // Less by a rounding error, so that the interval does not reach below the level itself.
    let gap = (value - before) * (1.0 - 1e-12);
    if before.is_finite() { gap } else { 0.0 }
}

/// The largest ratio of a level to the one before.
fn widest_ratio(xs: &[f64]) -> f64 {
    let ratios = xs
        .windows(2)
        .filter(|pair| pair[0] > 0.0)
        .map(|pair| pair[1] / pair[0]);
    ratios.fold(1.0, f64::max)
}

const POSITIVE: Interval = Interval {
    low: 0.0,
    high: f64::INFINITY,
};

/// The figure of all replicates, with the interval of the figures of single replicates: of those that every level
/// of every curve has.
fn by_replicates(
    intervals: Intervals,
    traces: &[Trace<'_>],
    jump: Jump,
    statistic: &dyn Fn(&[&[f64]]) -> f64,
    samples: &[&[f64]],
) -> Inference {
    let numbers = || traces.iter().flat_map(|trace| &trace.numbers);
    let shared = numbers().next().into_iter().flatten().copied();
    let shared = shared.filter(|number| numbers().all(|all| all.contains(number)));
    let of_replicates: Vec<f64> = shared
        .map(|number| {
            let places: Vec<[f64; 1]> = numbers()
                .map(|all| [all.iter().position(|own| *own == number).unwrap_or(0) as f64])
                .collect();
            let places: Vec<&[f64]> = places.iter().map(|place| &place[..]).collect();
            statistic(&places)
        })
        .collect();
    let value = statistic(samples);
    intervals.replications(value, &of_replicates, jump.scale, jump.slack, jump.range)
}

/// An interval that several comparisons gave, as if it were that of one estimate.
fn as_basis(estimate: &Estimate, interval: Interval, intervals: Intervals) -> Basis {
    let normal = Basis {
        n: estimate.n,
        centre: estimate.value.ln(),
        error: 0.0,
        freedom: 1.0,
        floor: 1.0,
        slack: (0.0, 0.0),
        logarithmic: true,
        range: POSITIVE,
    };
    // Half of it on the logarithmic scale, in units of what an error of 1 would give.
    let unit = (normal.interval(intervals.level).high / estimate.value).ln();
    let half = (estimate.value / interval.low)
        .max(interval.high / estimate.value)
        .ln();
    Basis {
        floor: half / unit,
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

/// One of the ranked values at one place: its level, the environment, the level of the numeric factor, and its
/// replicates.
type Standing = (String, String, f64, Vec<(u32, f64)>);

/// Two levels compared at several places, with the extremes of their ratio.
#[derive(Default)]
struct Contest {
    n: usize,
    /// The greatest ratio and the smallest ratio, each with its place.
    ends: Option<(f64, String, f64, String)>,
    /// The greatest and the smallest ratio that the intervals support, and those that they allow; `None` when a
    /// comparison has no interval.
    supported: Option<(f64, f64)>,
    allowed: Option<(f64, f64)>,
}

/// How far a pair changes its order; at most 1 when it does not.
struct Turn {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    places: (String, String),
}

impl Contest {
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

    fn drawn<'a>(xs: &'a [f64], ys: &[f64]) -> Drawn<'a> {
        Drawn {
            xs,
            per: None,
            ys: ys.to_vec(),
            knee: None,
        }
    }

    #[test]
    fn curves_cross_where_their_order_changes_for_good() {
        let xs = [0.0, 1.0, 50.0, 100.0];
        let flat = drawn(&xs, &[5.0, 400.0, 400.0, 400.0]);
        let rising = drawn(&xs, &[50.0, 60.0, 300.0, 500.0]);
        // `flat` is below at first, above from 1 on, and below again after 75.
        assert_eq!(crossing(&flat, &rising), Some(75.0));
        // In the other direction, `rising` falls below between 0 and 1 and does not stay below.
        assert_eq!(crossing(&rising, &flat), None);
        assert_eq!(crossing(&flat, &flat), None);
        let few = drawn(&xs[..3], &[50.0, 60.0, 300.0]);
        assert_eq!(crossing(&flat, &few), None);
    }
}
