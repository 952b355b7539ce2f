//! Computes verdicts from replicates.

use std::collections::BTreeSet;

use super::combine::{combine, groups};
use super::decide::{Bounds, contradicts_exactly};
use super::{
    Calibrated, Claim, ClaimResult, EraVerdict, Kind, Levels, Part, Relation, Side, Test,
    VariantResult, Verdict, Weaker,
};
use crate::inputs::Inputs;
use crate::machines::Matched;
use crate::published_claims::PublishedClaims;
use crate::resolution::resolution;
use crate::run::{Cell, CellState};
use crate::selection::{Selection, Unresolved, number};
use crate::statistics::{Inference, Sides, simultaneous_level};
use crate::sweep::shape::{Pick, Place};

/// Judges every claim in every era of the run.
pub(crate) fn judge(
    inputs: Inputs<'_>,
    claims: &[Claim],
    published: &PublishedClaims,
) -> Vec<ClaimResult> {
    let bench = Bench { inputs };
    let eras = inputs.run.levels("era");
    let in_eras = |claim: &Claim, tests: &[Test]| -> Vec<EraVerdict> {
        let calibrated = claim.calibrated.as_ref();
        let in_era = |era: &String| bench.tests(tests, era, calibrated);
        eras.iter().map(in_era).collect()
    };
    claims
        .iter()
        .map(|claim| {
            let row = claim.row.as_ref().and_then(|row| published.row(row));
            ClaimResult {
                id: claim.id.clone(),
                sentence: claim.sentence.clone(),
                published: claim.published.clone(),
                bound: row.map(|row| row.bound.clone()).unwrap_or_default(),
                calibrated: claim.calibrated.clone(),
                not_tested: claim.not_tested.clone(),
                eras: match claim.not_tested {
                    Some(_) => Vec::new(),
                    None => in_eras(claim, &claim.tests),
                },
                variants: claim
                    .variants
                    .iter()
                    .map(|variant| VariantResult {
                        name: variant.name.clone(),
                        reason: variant.reason.clone(),
                        date: variant.date.clone(),
                        eras: in_eras(claim, &variant.tests),
                    })
                    .collect(),
            }
        })
        .collect()
}

pub(super) struct Bench<'a> {
    pub(super) inputs: Inputs<'a>,
}

/// The result of measuring a relation in its cells.
pub(super) enum Measured {
    /// An estimate with remarks.
    Estimate(Box<Inference>, Sides, String),
    /// The cells exist, but their figures are invalid or incomplete.
    Unusable(String),
    /// A cell is missing.
    Missing,
    /// The cells exist, but the tested event did not occur in them.
    Absent(String),
}

impl Bench<'_> {
    /// The verdict on several tests, all of which must hold.
    fn tests(&self, tests: &[Test], era: &str, calibrated: Option<&Calibrated>) -> EraVerdict {
        let mut judged: Vec<Vec<Part>> = tests
            .iter()
            .map(|test| {
                let environments = self.environments(test, era).into_iter();
                environments
                    .flat_map(|environment| self.at_each_level(test, era, environment))
                    .collect()
            })
            .collect();
        for (test, parts) in tests.iter().zip(&mut judged) {
            for part in parts {
                part.calibrated =
                    calibrated.is_some_and(|c| c.concerns(&test.common, &part.environment));
                part.counts &= !part.calibrated;
            }
        }
        self.judge_together(tests, &mut judged);
        let counting = tests.iter().zip(&judged).filter(|(test, _)| test.counts);
        let all: Vec<_> = counting
            .flat_map(|(test, parts)| groups(parts, test.any.as_deref()))
            .collect();
        let verdict = combine(era, &all);
        EraVerdict {
            parts: judged.into_iter().flatten().collect(),
            ..verdict
        }
    }

    /// Judges the counted parts again at their simultaneous level.
    fn judge_together(&self, tests: &[Test], judged: &mut [Vec<Part>]) {
        let counts = |part: &&Part| part.counts && part.basis.is_some();
        let count = judged.iter().flatten().filter(counts).count();
        let level = simultaneous_level(self.inputs.intervals.level, count);
        for (test, parts) in tests.iter().zip(judged) {
            for part in parts.iter_mut().filter(|part| part.basis.is_some()) {
                part.simultaneous = part.basis.map(|basis| basis.interval(level));
                part.simultaneous_verdict = self.bounds(test, part).verdict(part.basis, level);
            }
        }
    }

    /// The parts of a test in one environment: one for each level of the curve that the test uses, or a single
    /// part if the test uses a whole curve or no curve.
    fn at_each_level(
        &self,
        test: &Test,
        era: &str,
        environment: Vec<(String, String)>,
    ) -> Vec<Part> {
        let place = place_of(test, era, &environment);
        let levels = match &test.relation.sweep {
            Some(sweep) if is_of_levels(test.relation.kind, sweep.at) => {
                self.levels_of(&test.relation, sweep, &place)
            }
            _ => Vec::new(),
        };
        if levels.is_empty() {
            return vec![self.part(test, era, environment)];
        }
        levels
            .into_iter()
            .map(|level| {
                let mut test = test.clone();
                let mut environment = environment.clone();
                if let Some(sweep) = &mut test.relation.sweep {
                    environment.push((sweep.along.clone(), level.to_string()));
                    sweep.at = Place::Level(level);
                    sweep.pick = Pick::Mean;
                    sweep.knee = None;
                }
                if let Some(Weaker::Relation(relation, _)) = &mut test.weaker
                    && let Some(sweep) = &mut relation.sweep
                {
                    sweep.at = Place::Level(level);
                }
                self.part(&test, era, environment)
            })
            .collect()
    }

    /// Every combination of a test's levels, each a list of factor and level.
    fn environments(&self, test: &Test, era: &str) -> Vec<Vec<(String, String)>> {
        let mut environments = vec![Vec::new()];
        for (factor, levels) in &test.each {
            let levels = match levels {
                Levels::Listed(levels) => levels.clone(),
                Levels::Measured(_) => self.measured_levels(test, era, factor),
            };
            if levels.is_empty() {
                continue;
            }
            environments = environments
                .into_iter()
                .flat_map(|environment: Vec<(String, String)>| {
                    let factor = factor.clone();
                    levels.iter().map(move |level| {
                        let mut longer = environment.clone();
                        longer.push((factor.clone(), level.clone()));
                        longer
                    })
                })
                .collect();
        }
        environments
    }

    /// The levels of a factor for which every side of the test has a cell. If no level has all sides, but the block
    /// varies the factor, the result is a level without a cell: the test then counts as not measured. If the block does
    /// not vary the factor, the result is empty.
    fn measured_levels(&self, test: &Test, era: &str, factor: &str) -> Vec<String> {
        let place = |side: &Side| test.common.with(&side.selection).at("era", era);
        let has_cell = |side: &Side, level: &str| {
            let selection = place(side).at(factor, level);
            self.inputs.cells(&selection).next().is_some()
        };
        let mut levels: Vec<String> = self
            .inputs
            .run
            .levels(factor)
            .into_iter()
            .filter(|level| test.relation.sides().all(|side| has_cell(side, level)))
            .collect();
        if levels.iter().all(|level| number(level).is_some()) {
            let value = |level: &String| number(level).unwrap_or_default();
            levels.sort_by(|a, b| value(a).total_cmp(&value(b)));
        }
        let mut blocks = test
            .relation
            .sides()
            .map(|side| place(side).block().to_owned());
        let is_varied = blocks.any(|block| {
            let mut cells = self
                .inputs
                .run
                .cells
                .iter()
                .filter(|cell| cell.block == block);
            cells.any(|cell| cell.key.level(factor).is_some())
        });
        if levels.is_empty() && is_varied {
            return vec!["*".to_owned()];
        }
        levels
    }

    fn part(&self, test: &Test, era: &str, environment: Vec<(String, String)>) -> Part {
        let place = place_of(test, era, &environment);
        self.inputs.forget();
        let mut part = Part {
            label: test.label.clone(),
            environment,
            kind: test.relation.kind,
            metric: test.relation.metric.clone(),
            holds: test.holds.clone(),
            weaker: match &test.weaker {
                Some(Weaker::Bound(bound)) => Some(bound.clone()),
                _ => None,
            },
            equal: Bounds::of(test, None).equal,
            n: 0,
            sides: Sides::Independent,
            value: None,
            interval: None,
            simultaneous: None,
            verdict: Verdict::NotTested,
            simultaneous_verdict: Verdict::NotTested,
            leaning: None,
            p_value: None,
            replicates_to_decide: None,
            remark: String::new(),
            counts: test.counts,
            calibrated: false,
            cells: BTreeSet::new(),
            basis: None,
            weaker_estimate: None,
        };
        match self.measure(&test.relation, &place) {
            Measured::Missing => part.remark = "not measured".to_owned(),
            Measured::Absent(reason) => part.remark = reason,
            Measured::Unusable(reason) => {
                part.verdict = Verdict::Undecided;
                part.simultaneous_verdict = Verdict::Undecided;
                part.remark = reason;
            }
            Measured::Estimate(inference, sides, remark) => {
                part.n = inference.estimate.n;
                part.sides = sides;
                part.value = Some(inference.estimate.value);
                part.interval = inference.estimate.interval;
                part.basis = inference.basis;
                if let Some(basis) = &mut part.basis
                    && contradicts_exactly(test, *basis)
                {
                    basis.floor = 0.0;
                    part.interval = Some(basis.interval(self.inputs.intervals.level));
                }
                part.remark = remark;
                if let Some(machines) = part.basis.and_then(|basis| basis.machines) {
                    let differ = format!(
                        "the machines differ: the sample is the means of {machines} machines"
                    );
                    part.remark = join(&part.remark, &differ);
                }
                if let Some(Weaker::Relation(relation, _)) = &test.weaker
                    && let Measured::Estimate(inference, ..) = self.measure(relation, &place)
                {
                    part.weaker_estimate = Some((inference.basis, inference.estimate.value));
                }
                self.decide(test, &mut part);
            }
        }
        part.cells = self.inputs.looked_up();
        part
    }

    /// The bounds of a test, with the estimates of one part.
    fn bounds<'t>(&self, test: &'t Test, part: &Part) -> Bounds<'t> {
        let mut bounds = Bounds::of(test, part.basis);
        bounds.weaker = test.weaker.as_ref().map(|weaker| match weaker {
            Weaker::Bound(bound) => (bound, part.value.map(|value| (part.basis, value))),
            Weaker::Relation(_, bound) => (bound, part.weaker_estimate),
        });
        bounds
    }

    fn decide(&self, test: &Test, part: &mut Part) {
        let Some(value) = part.value else { return };
        let bounds = self.bounds(test, part);
        let level = self.inputs.intervals.level;
        part.verdict = bounds.verdict(part.basis, level);
        part.simultaneous_verdict = part.verdict;
        let mut meant = part.verdict;
        if part.verdict == Verdict::Undecided {
            meant = bounds.leaning(value);
            part.leaning = (meant != Verdict::Undecided).then_some(meant);
            part.replicates_to_decide = bounds.replicates(meant, part.basis, level);
        }
        part.p_value = bounds.p_value(meant, part.basis);
        if part.interval.is_none() {
            let reason = match part.n {
                0 | 1 => "one replicate has no interval",
                _ => "the interval is not finite",
            };
            part.remark = join(&part.remark, reason);
        }
    }

    fn measure(&self, relation: &Relation, place: &Selection) -> Measured {
        if let Some(sweep) = &relation.sweep {
            return self.sweep(relation, sweep, place);
        }
        if relation.kind == Kind::Distance {
            return self.distance(relation, place);
        }
        if let (Kind::Contrast, Some(baseline)) = (relation.kind, &relation.baseline) {
            return self.contrast(relation, baseline, place);
        }
        let left = match self.values(&relation.left, relation, place) {
            Ok(values) => values,
            Err(problem) => return problem,
        };
        let Some(right) = &relation.right else {
            let matched = Matched::of(&self.inputs.run.info, &[left.values]);
            let metric = relation.left.metric.as_ref().unwrap_or(&relation.metric);
            let intervals = self.inputs.intervals.on(&matched.machines);
            return match intervals.mean(&matched.samples[0], resolution(metric)) {
                Some(estimate) => {
                    Measured::Estimate(Box::new(estimate), Sides::Independent, left.remark)
                }
                None => Measured::Missing,
            };
        };
        let right = match self.values(right, relation, place) {
            Ok(values) => values,
            Err(problem) => return problem,
        };
        // Common random numbers: replicate i of both cells used the same random numbers. So values are compared in
        // pairs if both cells have the same replicates.
        let remark = join(&left.remark, &right.remark);
        let matched = Matched::of(&self.inputs.run.info, &[left.values, right.values]);
        let (sides, resolution) = (matched.sides, resolution(&relation.metric));
        let intervals = self.inputs.intervals.on(&matched.machines);
        let [left, right] = matched.samples.as_slice() else {
            return Measured::Missing;
        };
        let estimate = match relation.kind {
            Kind::Ratio => intervals.ratio(left, right, sides, resolution),
            _ => intervals.difference(left, right, sides, resolution),
        };
        match estimate {
            Some(estimate) => Measured::Estimate(Box::new(estimate), sides, remark),
            None => Measured::Missing,
        }
    }

    /// The ratio of two cells divided by the same ratio at the levels of `baseline`. If all four cells have the same
    /// replicates, values are paired by replicate, because a replicate has the same conditions in all four cells.
    fn contrast(&self, relation: &Relation, baseline: &Selection, place: &Selection) -> Measured {
        let mut cells = Vec::new();
        for other in [None, Some(baseline)] {
            for side in relation.sides() {
                let side = Side {
                    metric: side.metric.clone(),
                    selection: match other {
                        Some(baseline) => side.selection.with(baseline),
                        None => side.selection.clone(),
                    },
                };
                match self.values(&side, relation, place) {
                    Ok(values) => cells.push(values),
                    Err(problem) => return problem,
                }
            }
        }
        let remark = cells
            .iter()
            .fold(String::new(), |all, cell| join(&all, &cell.remark));
        let cells: Vec<_> = cells.into_iter().map(|cell| cell.values).collect();
        let matched = Matched::of(&self.inputs.run.info, &cells);
        let (sides, samples) = (matched.sides, &matched.samples);
        let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let Ok(samples) = <[&[f64]; 4]>::try_from(samples) else {
            return Measured::Missing;
        };
        let intervals = self.inputs.intervals.on(&matched.machines);
        match intervals.contrast(samples, sides, resolution(&relation.metric)) {
            Some(estimate) => Measured::Estimate(Box::new(estimate), sides, remark),
            None => Measured::Missing,
        }
    }

    fn values(
        &self,
        side: &Side,
        relation: &Relation,
        place: &Selection,
    ) -> Result<Values, Measured> {
        let metric = side.metric.as_ref().unwrap_or(&relation.metric);
        let cell = self.cell(side, place)?;
        let remark = self.usable(cell)?;
        let values = cell.values(metric);
        match values.is_empty() {
            true => Err(Measured::Missing),
            false => Ok(Values { values, remark }),
        }
    }

    /// Remarks on the replicates of a cell, or the reason why none of them is usable.
    pub(super) fn usable(&self, cell: &Cell) -> Result<String, Measured> {
        match cell.state() {
            CellState::Invalid => Err(Measured::Unusable(format!(
                "{} is INVALID: {}",
                self.inputs.run.name(cell),
                cell.reasons().join("; ")
            ))),
            state => Ok(self.left_out(cell, state)),
        }
    }

    /// Returns the cell of a side. Levels of the side override levels of the environment, so that a test can compare
    /// levels of a factor.
    pub(super) fn cell(&self, side: &Side, place: &Selection) -> Result<&Cell, Measured> {
        let selection = place.with(&side.selection);
        match self.inputs.cell(&selection) {
            Ok(cell) => Ok(cell),
            Err(Unresolved::NotMeasured) => Err(Measured::Missing),
            Err(Unresolved::Ambiguous(factors)) => {
                let reason = format!("several cells differ in {}", factors.join(", "));
                Err(Measured::Unusable(reason))
            }
        }
    }

    fn left_out(&self, cell: &Cell, state: CellState) -> String {
        match state {
            CellState::PartlyValid => format!(
                "{} of {} replicates of {} are invalid and left out",
                cell.replicates.len() - cell.valid().count(),
                cell.replicates.len(),
                self.inputs.run.name(cell)
            ),
            _ => String::new(),
        }
    }
}

/// The measured values of one side of a comparison.
struct Values {
    values: Vec<(u32, f64)>,
    remark: String,
}

/// Whether a test uses one or more single levels of curves.
fn is_of_levels(kind: Kind, at: Place) -> bool {
    matches!(kind, Kind::At | Kind::Identity | Kind::Gain)
        && !matches!(
            at,
            Place::First | Place::Last | Place::Knee | Place::Level(_)
        )
}

/// The levels that both sides of a test share in one environment.
fn place_of(test: &Test, era: &str, environment: &[(String, String)]) -> Selection {
    let along = test.relation.sweep.as_ref().map(|sweep| &sweep.along);
    let levels = environment
        .iter()
        .filter(|(factor, _)| Some(factor) != along);
    levels.fold(
        test.common.clone().at("era", era),
        |place, (factor, level)| place.at(factor, level),
    )
}

pub(super) fn join(left: &str, right: &str) -> String {
    match (left.is_empty(), right.is_empty()) {
        (false, false) if left != right => format!("{left}; {right}"),
        (true, _) => right.to_owned(),
        _ => left.to_owned(),
    }
}
