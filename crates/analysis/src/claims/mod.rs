//! Claims: testable sentences of a paper, as data, and their verdicts.
//!
//! A claim has tests, and holds if all its tests hold. A test compares a metric of two cells, or of one cell with a
//! bound, in several environments. Its verdict in an environment follows from an interval over replicates:
//!
//! - *holds*: the whole interval lies within the stated bound;
//! - *holds weaker*: the interval lies within the weaker bound, which has the same direction but not the amount;
//! - *equal*: the bound states a difference, and the interval lies within a margin around no difference;
//! - *reversed*: the interval lies wholly outside the weaker bound (or the only bound);
//! - *undecided*: the interval lies across a bound, there are fewer than two replicates, or cells are invalid;
//! - *not tested*: nothing was measured for the test.
//!
//! If a study varies a numeric factor, a test may use the whole curve instead ([`Sweep`]): its knee, its levels
//! before and after the knee, its slopes, its rank among other curves. A test that uses several levels of a
//! curve is judged at each level, like a test in several environments.
//!
//! Each environment is first judged alone, and then all environments are judged together (`combine`). A claim
//! may have other interpretations beside the published one ([`Variant`]), which are judged in the same way.
//!
//! Judging uses only recorded replicates. The study defines the measurements.

mod bound;
mod combine;
mod decide;
mod distance;
mod judge;
mod sweep;
mod verdict;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bound::{Bound, ParseBoundError, Position};
pub(crate) use decide::EQUAL_RATIO;
pub(crate) use judge::judge;
pub use sweep::Sweep;
pub use verdict::{ClaimResult, EraVerdict, Part, VariantResult, Verdict};

use crate::selection::Selection;
use crate::sweep::family::is_family;

/// A claim of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The identifier of the claim, such as `N01`.
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// The value from the paper's own figures.
    pub published: String,
    /// The row of `claims-published.csv` that the claim tests; absent if the claim is not from that list.
    pub row: Option<String>,
    /// The cells that validate nothing, because a model was calibrated with their published figures.
    pub calibrated: Option<Calibrated>,
    /// The tests of the published claim, all of which must hold.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
    /// Other interpretations of the claim.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// The reason why the claim has no tests.
    pub not_tested: Option<String>,
}

/// Cells whose published figures calibrated a model. They are judged and shown, but do not count towards
/// verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// The calibrated model, and the figures that calibrated it.
    pub reason: String,
    /// The levels of the calibrated cells, by factor.
    pub levels: BTreeMap<String, Vec<String>>,
}

impl Calibrated {
    /// Whether the calibrated cells include the cells of a test in an environment. `common` contains the levels that
    /// all cells of the test share; levels of the environment override them.
    pub fn concerns(&self, common: &Selection, environment: &[(String, String)]) -> bool {
        self.levels.iter().all(|(factor, levels)| {
            let own = environment.iter().find(|(own, _)| own == factor);
            let level = own.map(|(_, level)| level);
            let level = level.or_else(|| common.levels.get(factor));
            level.is_some_and(|level| levels.contains(level))
        })
    }
}

/// Another interpretation of a claim, judged beside the published one.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The interpretation, in a few words.
    pub name: String,
    /// The reason for this interpretation.
    pub reason: String,
    /// The date when the variant was added, as in `2026-11-25`.
    pub date: String,
    /// The tests of the variant, all of which must hold.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
}

impl Claim {
    /// The tests of the claim and of its variants.
    fn all_tests(&self) -> impl Iterator<Item = &Test> {
        let of_variants = self.variants.iter().flat_map(|variant| &variant.tests);
        self.tests.iter().chain(of_variants)
    }

    /// Every relation in the tests, including the weaker ones.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.all_tests().flat_map(|test| {
            let weaker = match &test.weaker {
                Some(Weaker::Relation(relation, _)) => Some(relation.as_ref()),
                _ => None,
            };
            [Some(&test.relation), weaker].into_iter().flatten()
        })
    }

    /// Every selection that the claim uses.
    pub(crate) fn selections(&self) -> Vec<Selection> {
        let mut selections = Vec::new();
        for test in self.all_tests() {
            selections.push(test.common.clone());
            for (factor, levels) in &test.each {
                if let Levels::Listed(levels) = levels {
                    for level in levels {
                        selections.push(Selection::default().at(factor, level));
                    }
                }
            }
        }
        for relation in self.relations() {
            selections.extend(relation.sides().map(|side| side.selection.clone()));
            selections.extend(relation.baseline.clone());
            for (factor, levels) in relation.sweep.iter().flat_map(|sweep| &sweep.across) {
                let levels = levels.iter();
                selections.extend(levels.map(|level| Selection::default().at(factor, level)));
            }
        }
        selections
    }
}

/// One condition that must hold in each of its environments.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "TestText")]
#[schemars(with = "TestText")]
pub struct Test {
    /// What is compared, in a few words.
    pub label: String,
    /// What the test estimates.
    pub relation: Relation,
    /// Levels that both sides share.
    pub common: Selection,
    /// The environments: every combination of these factors' levels.
    pub each: BTreeMap<String, Levels>,
    /// A factor of `each`, or the factor of the sweep, for which one level that holds is sufficient.
    pub any: Option<String>,
    /// The range in which the estimate must lie.
    pub holds: Bound,
    /// The weaker form of the claim, which is judged when the bound is missed.
    pub weaker: Option<Weaker>,
    /// The range in which the two sides count as equal. The default is within 3 % for a ratio, and no range for
    /// other estimates.
    pub equal: Option<Bound>,
    /// Whether the test counts towards the verdict; otherwise it is shown for comparison only.
    pub counts: bool,
}

/// A quantity that is estimated from one or two cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// The kind of estimate.
    pub kind: Kind,
    /// The metric of sides that do not name one.
    pub metric: String,
    /// The cell of a level, the numerator of a ratio, or the minuend of a difference.
    pub left: Side,
    /// The denominator of a ratio, or the subtrahend of a difference.
    pub right: Option<Side>,
    /// The levels of the reference: of the baseline of a loss, or of the other ratio of a contrast.
    pub baseline: Option<Selection>,
    /// The part of the curve that is used; absent if single cells are compared.
    pub sweep: Option<Sweep>,
}

/// The computation of an estimate from cells. Means are over valid replicates.
///
/// From `Knee` on, the estimate is computed from curves, as a [`Sweep`] describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The mean of one cell.
    Level,
    /// The mean of one cell minus the mean of another.
    Difference,
    /// The mean of one cell divided by the mean of another.
    Ratio,
    /// A ratio divided by the same ratio at the levels of the `baseline`. Below 1, the ratio is smaller than at the
    /// baseline.
    Contrast,
    /// The distance between two distributions, from 0 to 1: the greatest difference of their cumulative shares
    /// (Kolmogorov-Smirnov), at the steps for which the records have shares. The metric is a family of shares
    /// in percent, such as `cwnd_le_*_pct`.
    Distance,
    /// The level of the numeric factor at the knee of a curve; for two curves, the ratio of their knees.
    Knee,
    /// The values of a curve at some levels.
    At,
    /// The values of a curve divided by the levels themselves: 1 where the curve is y = x.
    Identity,
    /// The ratio of two curves at each level.
    Gain,
    /// The value at the last of some levels divided by the value at the first, minus 1.
    Trend,
    /// A measure of how steadily a curve rises over some levels: Kendall's tau-b, from -1 to 1.
    Monotone,
    /// The ratio of the slopes of two curves, each by least squares over some levels. For a single curve, it is the
    /// slope.
    Slope,
    /// The loss of one curve against its baseline, divided by the loss of another curve against its own baseline. A
    /// loss is 1 minus the mean ratio to the baseline over some levels.
    Loss,
    /// The slope of a curve after its knee, divided by its slope up to the knee.
    Bend,
    /// The level from which the first curve stays below the second: the last change of their order, with
    /// straight lines between the levels.
    Crossing,
    /// The extent to which the order of several curves reverses between levels or environments. If each curve of a pair
    /// leads at some level or in some environment, the figure is the smaller of the two leads, as a ratio. It is at
    /// most 1 if no pair changes its order.
    Ranking,
}

impl Kind {
    /// Whether the estimate is computed from curves.
    pub fn is_sweep(self) -> bool {
        !matches!(
            self,
            Kind::Level | Kind::Difference | Kind::Ratio | Kind::Contrast | Kind::Distance
        )
    }
}

/// One side of a comparison: levels, and a `metric` if it differs from the metric of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<String, String>")]
#[schemars(with = "BTreeMap<String, String>")]
pub struct Side {
    /// The side's own metric.
    pub metric: Option<String>,
    /// The side's cell.
    pub selection: Selection,
}

impl From<BTreeMap<String, String>> for Side {
    fn from(mut words: BTreeMap<String, String>) -> Side {
        Side {
            metric: words.remove("metric"),
            selection: Selection::from(words),
        }
    }
}

/// The levels of a factor that form environments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Levels {
    /// The listed levels; a level that was not measured is reported.
    Listed(Vec<String>),
    /// `"*"`: every level for which the run has all sides.
    Measured(Asterisk),
}

/// The word `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Asterisk {
    /// `*`
    #[serde(rename = "*")]
    Asterisk,
}

/// The weaker form of a claim whose bound is missed.
#[derive(Debug, Clone, PartialEq)]
pub enum Weaker {
    /// The same estimate within a wider bound.
    Bound(Bound),
    /// Another relation within its own bound.
    Relation(Box<Relation>, Bound),
}

impl Relation {
    /// The one or two sides of the relation.
    pub(crate) fn sides(&self) -> impl Iterator<Item = &Side> {
        [Some(&self.left), self.right.as_ref()]
            .into_iter()
            .flatten()
    }

    fn new(text: RelationText) -> Result<Relation, String> {
        let RelationText {
            kind,
            metric,
            left,
            right,
            baseline,
            sweep,
            ..
        } = text;
        let sides = match kind {
            Kind::Difference
            | Kind::Ratio
            | Kind::Contrast
            | Kind::Distance
            | Kind::Gain
            | Kind::Loss
            | Kind::Crossing => 2..=2,
            Kind::Slope | Kind::Knee => 1..=2,
            Kind::Level
            | Kind::At
            | Kind::Identity
            | Kind::Trend
            | Kind::Monotone
            | Kind::Bend
            | Kind::Ranking => 1..=1,
        };
        if kind == Kind::Level && right.is_some() {
            return Err(format!("a level of {metric} must not have a right side"));
        }
        if *sides.end() == 1 && right.is_some() {
            return Err(format!("one curve of {metric} must not have a right side"));
        }
        if *sides.start() == 2 && (left.is_none() || right.is_none()) {
            return Err(format!(
                "a comparison of {metric} must have a left and a right side"
            ));
        }
        if baseline.is_some() != matches!(kind, Kind::Loss | Kind::Contrast) {
            return Err(format!(
                "{metric}: a loss and a contrast need a baseline, and no other kind can have one"
            ));
        }
        if (kind == Kind::Distance) != is_family(&metric) {
            return Err(format!(
                "{metric}: a distance needs a family of metrics, with a * in its name, and no other kind can have one"
            ));
        }
        sweep::check(kind, &metric, sweep.as_ref())?;
        Ok(Relation {
            kind,
            metric,
            left: left.unwrap_or_default(),
            right,
            baseline,
            sweep,
        })
    }
}

/// The serialised form of a [`Test`], which rejects unknown members.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestText {
    label: String,
    kind: Kind,
    metric: String,
    left: Option<Side>,
    right: Option<Side>,
    baseline: Option<Selection>,
    sweep: Option<Sweep>,
    #[serde(default)]
    common: Selection,
    #[serde(default)]
    each: BTreeMap<String, Levels>,
    any: Option<String>,
    holds: Bound,
    weaker: Option<WeakerText>,
    equal: Option<Bound>,
    #[serde(default = "yes")]
    counts: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum WeakerText {
    Bound(Bound),
    Relation(Box<RelationText>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RelationText {
    kind: Kind,
    metric: String,
    left: Option<Side>,
    right: Option<Side>,
    baseline: Option<Selection>,
    sweep: Option<Sweep>,
    holds: Bound,
}

impl TryFrom<TestText> for Test {
    type Error = String;
    fn try_from(text: TestText) -> Result<Test, String> {
        let any = text.any.as_ref();
        let along = text.sweep.as_ref().map(|sweep| &sweep.along);
        let is_known = |factor: &&String| {
            text.each.contains_key(*factor) || along.is_some_and(|along| along == *factor)
        };
        if let Some(factor) = any.filter(|factor| !is_known(factor)) {
            return Err(format!(
                "{:?}: any = {factor:?} must be a factor of each, or the factor of the sweep",
                text.label
            ));
        }
        let weaker = match text.weaker {
            None => None,
            Some(WeakerText::Bound(bound)) => Some(Weaker::Bound(bound)),
            Some(WeakerText::Relation(weaker)) => {
                let holds = weaker.holds.clone();
                Some(Weaker::Relation(Box::new(Relation::new(*weaker)?), holds))
            }
        };
        let relation = Relation::new(RelationText {
            kind: text.kind,
            metric: text.metric,
            left: text.left,
            right: text.right,
            baseline: text.baseline,
            sweep: text.sweep,
            holds: text.holds.clone(),
        })
        .map_err(|error| format!("{:?}: {error}", text.label))?;
        Ok(Test {
            label: text.label,
            relation,
            common: text.common,
            each: text.each,
            any: text.any,
            holds: text.holds,
            weaker,
            equal: text.equal,
            counts: text.counts,
        })
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_calibrated_by_the_levels_of_its_test_and_of_its_environment() {
        let calibrated = Calibrated {
            reason: String::new(),
            levels: [
                ("server".to_owned(), vec!["embedded".to_owned()]),
                ("path".to_owned(), vec!["wan".to_owned()]),
            ]
            .into(),
        };
        let common = Selection::default().at("server", "embedded");
        let at = |factor: &str, level: &str| (factor.to_owned(), level.to_owned());
        assert!(calibrated.concerns(&common, &[at("path", "wan")]));
        assert!(!calibrated.concerns(&common, &[at("path", "lan")]));
        assert!(!calibrated.concerns(&common, &[]));
        let other = [at("path", "wan"), at("server", "httpd")];
        assert!(!calibrated.concerns(&common, &other));
    }
}
