//! From replicates to verdicts.

use std::collections::BTreeMap;

use super::{
    Claim, ClaimResult, EraVerdict, Kind, Levels, Part, Position, Relation, Side, Test, Verdict,
    Weaker,
};
use crate::inputs::Inputs;
use crate::run::{Cell, CellState};
use crate::selection::{Selection, Unresolved, number};
use crate::statistics::{Estimate, Interval, Sides, mean};

/// Judges every claim in every era of the run.
pub(crate) fn judge(inputs: Inputs<'_>, claims: &[Claim]) -> Vec<ClaimResult> {
    let bench = Bench { inputs };
    let eras = inputs.run.levels("era");
    let era_verdict = |claim: &Claim, era: &String| bench.claim(claim, era);
    claims
        .iter()
        .map(|claim| ClaimResult {
            id: claim.id.clone(),
            sentence: claim.sentence.clone(),
            published: claim.published.clone(),
            not_tested: claim.not_tested.clone(),
            eras: match claim.not_tested {
                Some(_) => Vec::new(),
                None => eras.iter().map(|era| era_verdict(claim, era)).collect(),
            },
        })
        .collect()
}

pub(super) struct Bench<'a> {
    pub(super) inputs: Inputs<'a>,
}

/// What the cells of a relation yield.
pub(super) enum Measured {
    /// An estimate, and remarks on it.
    Estimate(Estimate, Sides, String),
    /// The cells exist, but their figures cannot be used.
    Unusable(String),
    /// A cell is missing.
    Missing,
    /// The cells exist, but the event that the test is about did not occur in them.
    Absent(String),
}

impl Bench<'_> {
    fn claim(&self, claim: &Claim, era: &str) -> EraVerdict {
        let mut parts = Vec::new();
        let mut verdicts = Vec::new();
        let mut leanings = Vec::new();
        for test in &claim.tests {
            let judged: Vec<Part> = self
                .environments(test, era)
                .into_iter()
                .map(|environment| self.part(test, era, environment))
                .collect();
            if test.counts {
                for group in groups(&judged, test.any.as_deref()) {
                    verdicts.push(combined(&group, test.any.is_some(), |part| part.verdict));
                    leanings.push(combined(&group, test.any.is_some(), |part| {
                        part.leaning.unwrap_or(part.verdict)
                    }));
                }
            }
            parts.extend(judged);
        }
        let verdict = conjunction(&verdicts);
        let leaning = conjunction(&leanings);
        EraVerdict {
            era: era.to_owned(),
            verdict,
            remark: remark(verdict, &verdicts),
            leaning: (leaning != verdict).then_some(leaning),
            parts,
        }
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

    /// The levels of a factor for which every side of the test has a cell. If there are none but the block
    /// varies the factor, the result is a level that no cell has, so that the test counts as not measured. If
    /// the block does not vary the factor, the result is empty.
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
        let mut place = test.common.clone().at("era", era);
        for (factor, level) in &environment {
            place = place.at(factor, level);
        }
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
            n: 0,
            sides: Sides::Independent,
            value: None,
            interval: None,
            verdict: Verdict::NotTested,
            leaning: None,
            remark: String::new(),
            counts: test.counts,
        };
        match self.measure(&test.relation, &place) {
            Measured::Missing => part.remark = "not measured".to_owned(),
            Measured::Absent(reason) => part.remark = reason,
            Measured::Unusable(reason) => {
                part.verdict = Verdict::Undecided;
                part.remark = reason;
            }
            Measured::Estimate(estimate, sides, remark) => {
                part.n = estimate.n;
                part.sides = sides;
                part.value = Some(estimate.value);
                part.interval = estimate.interval;
                part.remark = remark;
                self.decide(test, &place, &mut part);
            }
        }
        part
    }

    fn decide(&self, test: &Test, place: &Selection, part: &mut Part) {
        let Some(value) = part.value else { return };
        let weaker = test.weaker.as_ref().map(|weaker| match weaker {
            Weaker::Bound(bound) => (part.interval, value, bound),
            Weaker::Relation(relation, bound) => match self.measure(relation, place) {
                Measured::Estimate(estimate, ..) => (estimate.interval, estimate.value, bound),
                _ => (None, f64::NAN, bound),
            },
        });
        part.verdict = verdict(
            part.interval.map(|interval| test.holds.position(interval)),
            weaker.map(|(interval, _, bound)| interval.map(|i| bound.position(i))),
        );
        if part.verdict == Verdict::Undecided && value.is_finite() {
            let leaning = verdict(
                Some(test.holds.position(point(value))),
                weaker.map(|(_, value, bound)| Some(bound.position(point(value)))),
            );
            part.leaning = (leaning != Verdict::Undecided).then_some(leaning);
        }
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
            let values: Vec<f64> = left.values.iter().map(|(_, v)| *v).collect();
            return match self.inputs.bootstrap.mean(&values) {
                Some(estimate) => Measured::Estimate(estimate, Sides::Independent, left.remark),
                None => Measured::Missing,
            };
        };
        let right = match self.values(right, relation, place) {
            Ok(values) => values,
            Err(problem) => return problem,
        };
        // Common random numbers: replicate i of both cells used the same draws. So replicates are compared one
        // by one if both cells have the same replicates.
        let sides = Sides::of([&left, &right].map(Values::numbers));
        let remark = join(&left.remark, &right.remark);
        let left: Vec<f64> = left.values.iter().map(|(_, v)| *v).collect();
        let right: Vec<f64> = right.values.iter().map(|(_, v)| *v).collect();
        let estimate = match relation.kind {
            Kind::Ratio => self.inputs.bootstrap.ratio(&left, &right, sides),
            _ => self.inputs.bootstrap.difference(&left, &right, sides),
        };
        match estimate {
            Some(estimate) => Measured::Estimate(estimate, sides, remark),
            None => Measured::Missing,
        }
    }

    /// A ratio here over the same ratio at the levels of `baseline`. If all four cells have the same
    /// replicates, these are resampled together, because a replicate had the same conditions in each of the
    /// four.
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
        let sides = Sides::of(cells.iter().map(Values::numbers));
        let remark = cells
            .iter()
            .fold(String::new(), |all, cell| join(&all, &cell.remark));
        let samples: Vec<Vec<f64>> = cells
            .iter()
            .map(|cell| cell.values.iter().map(|(_, v)| *v).collect())
            .collect();
        let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let statistic = |drawn: &[&[f64]]| {
            (mean(drawn[0]) / mean(drawn[1])) / (mean(drawn[2]) / mean(drawn[3]))
        };
        match self.inputs.bootstrap.estimate(&samples, sides, &statistic) {
            Some(estimate) => Measured::Estimate(estimate, sides, remark),
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

    /// Remarks on a cell's replicates, or the reason why none can be used.
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

    /// The cell of a side. A side's own levels override those of the environment, so that a comparison across a
    /// factor is possible.
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

impl Values {
    /// The replicates' numbers.
    fn numbers(&self) -> Vec<u32> {
        self.values.iter().map(|(number, _)| *number).collect()
    }
}

fn point(value: f64) -> Interval {
    Interval {
        low: value,
        high: value,
    }
}

/// The verdict from the position of the interval relative to the bound and to the weaker one. For `weaker`, the
/// outer `None` means that there is no weaker bound, and the inner `None` that it could not be measured.
fn verdict(holds: Option<Position>, weaker: Option<Option<Position>>) -> Verdict {
    match (holds, weaker) {
        (None, _) => Verdict::Undecided,
        (Some(Position::Inside), _) => Verdict::Holds,
        (Some(Position::Outside), None) => Verdict::Reversed,
        (Some(Position::Across), None) | (_, Some(None)) => Verdict::Undecided,
        (_, Some(Some(Position::Inside))) => Verdict::HoldsWeaker,
        (_, Some(Some(Position::Across))) => Verdict::Undecided,
        (_, Some(Some(Position::Outside))) => Verdict::Reversed,
    }
}

/// Groups of alternative parts: parts that agree in every factor but `any`. Without `any`, each part is its own
/// group.
fn groups<'a>(parts: &'a [Part], any: Option<&str>) -> Vec<Vec<&'a Part>> {
    let Some(any) = any else {
        return parts.iter().map(|part| vec![part]).collect();
    };
    let mut groups: BTreeMap<Vec<&(String, String)>, Vec<&'a Part>> = BTreeMap::new();
    for part in parts {
        let rest = part.environment.iter().filter(|(f, _)| f != any).collect();
        groups.entry(rest).or_default().push(part);
    }
    groups.into_values().collect()
}

fn combined(parts: &[&Part], any: bool, verdict: impl Fn(&Part) -> Verdict) -> Verdict {
    let verdicts: Vec<Verdict> = parts.iter().map(|part| verdict(part)).collect();
    if any {
        // The verdicts are ordered from the best to the worst, with "not tested" last.
        verdicts.into_iter().min().unwrap_or(Verdict::NotTested)
    } else {
        conjunction(&verdicts)
    }
}

/// The worst verdict among the tested parts.
fn conjunction(verdicts: &[Verdict]) -> Verdict {
    verdicts
        .iter()
        .copied()
        .filter(|verdict| *verdict != Verdict::NotTested)
        .max()
        .unwrap_or(Verdict::NotTested)
}

fn remark(verdict: Verdict, verdicts: &[Verdict]) -> String {
    let count = |wanted: Verdict| verdicts.iter().filter(|v| **v == wanted).count();
    let missing = count(Verdict::NotTested);
    let tested = verdicts.len() - missing;
    let mut sentences = Vec::new();
    if verdict != Verdict::NotTested && count(verdict) < tested {
        let tally: Vec<String> = [
            Verdict::Holds,
            Verdict::HoldsWeaker,
            Verdict::Undecided,
            Verdict::Reversed,
        ]
        .into_iter()
        .filter(|v| count(*v) > 0)
        .map(|v| format!("{v} {}", count(v)))
        .collect();
        sentences.push(format!("of {tested} tests: {}", tally.join(", ")));
    }
    if missing > 0 && tested > 0 {
        sentences.push(format!("{missing} of {} not measured", verdicts.len()));
    }
    sentences.join("; ")
}

pub(super) fn join(left: &str, right: &str) -> String {
    match (left.is_empty(), right.is_empty()) {
        (false, false) if left != right => format!("{left}; {right}"),
        (true, _) => right.to_owned(),
        _ => left.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Bound;

    fn judged(holds: &str, weaker: Option<&str>, low: f64, high: f64) -> Verdict {
        let position = |text: &str| {
            let bound: Bound = text.parse().unwrap();
            bound.position(Interval { low, high })
        };
        verdict(
            Some(position(holds)),
            weaker.map(|text| Some(position(text))),
        )
    }

    #[test]
    fn an_interval_gives_the_strongest_verdict_it_supports() {
        let ratio = |low, high| judged(">= 2", Some("> 1"), low, high);
        assert_eq!(ratio(2.4, 2.6), Verdict::Holds);
        assert_eq!(ratio(1.9, 2.1), Verdict::HoldsWeaker);
        assert_eq!(ratio(1.2, 1.3), Verdict::HoldsWeaker);
        assert_eq!(ratio(0.9, 1.1), Verdict::Undecided);
        assert_eq!(ratio(0.9, 2.1), Verdict::Undecided);
        assert_eq!(ratio(0.8, 0.9), Verdict::Reversed);
    }

    #[test]
    fn without_a_weaker_bound_missing_it_is_a_reversal() {
        assert_eq!(judged("= 0", None, 0.0, 0.0), Verdict::Holds);
        assert_eq!(judged("= 0", None, 0.0, 0.4), Verdict::Undecided);
        assert_eq!(judged("= 0", None, 1.0, 2.0), Verdict::Reversed);
    }

    #[test]
    fn what_was_not_measured_decides_nothing() {
        assert_eq!(verdict(None, None), Verdict::Undecided);
        assert_eq!(
            verdict(Some(Position::Outside), Some(None)),
            Verdict::Undecided
        );
        use Verdict::{Holds, HoldsWeaker, NotTested, Reversed, Undecided};
        assert_eq!(conjunction(&[Holds, NotTested, HoldsWeaker]), HoldsWeaker);
        assert_eq!(conjunction(&[Reversed, Undecided]), Reversed);
        assert_eq!(conjunction(&[NotTested]), NotTested);
        assert_eq!(conjunction(&[]), NotTested);
    }
}
