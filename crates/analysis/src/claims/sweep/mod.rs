//! Tests that use whole curves.
//!
//! [`trace`] reads the curves with all their replicates from a run. [`figure`] computes the figure of a test from the
//! means of replicates. Discrete figures have a special interval ([`jump`]). A ranking compares many curves pair by
//! pair ([`ranking`]).

mod figure;
mod jump;
mod ranking;
mod trace;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::judge::{Bench, Measured, join};
use super::{Kind, Relation};
use crate::machines;
use crate::resolution::quotient;
use crate::selection::{Selection, number};
use crate::statistics::{Scale, Sides, indices};
use crate::sweep::shape::{Knee, Pick, Place};
use figure::{Drawn, figure};
use jump::{by_replicates, jump};
use trace::{Trace, curves_of};

/// The curve of a test, and the part of the curve that the test uses.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The numeric factor: every level that was measured is a point of the curve.
    pub along: String,
    /// A metric that divides the test's metric, level by level.
    pub over: Option<String>,
    /// A metric whose values replace the levels in a `slope`: the slope is then the cost of one more unit of that
    /// metric.
    pub per: Option<String>,
    /// The rule for the knee.
    pub knee: Option<Knee>,
    /// The levels of the curve that are used.
    #[serde(default)]
    pub at: Place,
    /// The rule that combines the figures of several levels, for `at`, `identity` and `gain`.
    #[serde(default)]
    pub pick: Pick,
    /// The floor for values in a `gain`, in the metric's unit; smaller values count as the floor. Without a floor, a
    /// ratio to almost zero would be huge.
    pub floor: Option<f64>,
    /// The factors whose levels add up to the expected level of a `knee`; the estimate is the knee divided by this sum.
    #[serde(default)]
    pub relative_to: Vec<String>,
    /// The factor whose levels a `ranking` orders.
    pub among: Option<String>,
    /// Further factors. A `ranking` may also change between their levels.
    #[serde(default)]
    pub across: BTreeMap<String, Vec<String>>,
}

/// Checks that a sweep has the members that its kind of estimate needs, and no others.
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
    refuse(
        !kind.is_sweep(),
        "cannot have a sweep: it does not use curves",
    )?;
    let needs_knee = matches!(kind, Kind::Knee | Kind::Bend) || sweep.at.needs_knee();
    refuse(
        needs_knee && sweep.knee.is_none(),
        "needs a knee: { of = METRIC }",
    )?;
    let is_off_grid = sweep.knee.as_ref().is_some_and(|k| !k.rule.is_level());
    refuse(
        is_off_grid && sweep.at == Place::Knee,
        "at the knee needs a rule whose knee is a level: share or above, and not bounds",
    )?;
    refuse(
        sweep.floor.is_some() && kind != Kind::Gain,
        "cannot have a floor: only a gain can",
    )?;
    refuse(
        sweep.per.is_some() && kind != Kind::Slope,
        "cannot have per: only a slope can",
    )?;
    refuse(
        !sweep.relative_to.is_empty() && kind != Kind::Knee,
        "cannot have relative_to: only a knee can",
    )?;
    refuse(
        sweep.among.is_some() != (kind == Kind::Ranking),
        "needs among if it is a ranking, and cannot have it otherwise",
    )?;
    refuse(
        !sweep.across.is_empty() && kind != Kind::Ranking,
        "cannot have across: only a ranking can",
    )?;
    let picks = matches!(kind, Kind::At | Kind::Identity | Kind::Gain);
    refuse(
        sweep.pick != Pick::Mean && !picks,
        "cannot have pick: only at, identity and gain can",
    )
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
        let info = &self.inputs.run.info;
        let numbers: Vec<Vec<u32>> = traces.iter().flat_map(|t| t.numbers.clone()).collect();
        if let Some(shared) = machines::shared(info, &numbers) {
            traces.iter_mut().for_each(|trace| trace.keep(&shared));
            if shared.is_empty() {
                let reason = "no replicate is valid at every level of the curves";
                return Measured::Unusable(reason.to_owned());
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
            // If the test estimates the knee, a missing knee makes the test unusable. If another figure depends on the
            // knee, the tested event did not occur.
            return match relation.kind {
                Kind::Knee => Measured::Unusable(reason),
                _ => Measured::Absent(reason),
            };
        }
        let statistic = |drawn: &[&[f64]]| figure(drawn).unwrap_or(f64::NAN);
        let intervals = self.inputs.intervals;
        let machines = machines::machines(info, &traces[0].numbers[0]);
        let estimate = match jump(
            relation,
            sweep,
            &traces[0].xs,
            statistic(&samples),
            expected,
        ) {
            None => intervals.on(&machines).statistic(
                &samples,
                sides,
                scale(relation),
                quotient(),
                &statistic,
            ),
            Some(jump) => Some(by_replicates(
                &self.inputs,
                &traces,
                jump,
                &statistic,
                &samples,
            )),
        };
        match estimate {
            Some(estimate) => Measured::Estimate(Box::new(estimate), sides, remark),
            None => Measured::Missing,
        }
    }

    /// The levels that a test uses and that every curve has. Empty if the levels are unknown, for example because a
    /// curve has no knee.
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

    /// The sum of the levels at which the knee is expected; 1 if the test states no expected knee.
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
}

/// The scale of a relation's estimate.
fn scale(relation: &Relation) -> Scale {
    match relation.kind {
        Kind::Gain | Kind::Loss | Kind::Identity | Kind::Slope => Scale::Logarithmic,
        _ => Scale::Linear,
    }
}
