//! Derives a verdict from an estimate and the bounds.
//!
//! A level supports a verdict if the interval of that level lies on one side of the relevant bounds. An interval inside
//! `[low, high]` excludes both ends. This corresponds to the two one-sided tests of equivalence (D. J. Schuirmann, "A
//! comparison of the two one-sided tests procedure and the power approach", Journal of Pharmacokinetics and
//! Biopharmaceutics 15, 1987). Here each test uses the level of the two-sided interval, which is stricter than
//! Schuirmann's.

use super::{Bound, Kind, Position, Relation, Test, Verdict};
use crate::resolution::{is_count, quotient, resolution};
use crate::statistics::{Basis, Interval, Resolution};

/// The ratios that count as equal, if the test states no range.
pub(crate) const EQUAL_RATIO: &str = "0.971..1.03";

/// The basis of the interval, if any, and the estimate.
type BasisAndValue = (Option<Basis>, f64);

/// The bounds of a test in one environment.
pub(super) struct Bounds<'a> {
    pub(super) holds: Bound,
    /// The weaker bound and its estimate. The inner `None` means that the estimate could not be measured.
    pub(super) weaker: Option<(&'a Bound, Option<BasisAndValue>)>,
    pub(super) equal: Option<Bound>,
}

impl<'a> Bounds<'a> {
    /// The bounds of a test, without the weaker bound, because its estimate is not available yet.
    pub(super) fn of(test: &Test, basis: Option<Basis>) -> Bounds<'a> {
        let is_exact = basis.is_some_and(|basis| basis.error == 0.0 && basis.floor == 0.0);
        Bounds {
            holds: match is_exact {
                true => test.holds.clone(),
                // A count equals a claimed number if they differ by less than one, so `= 0` means none.
                false => test.holds.resolved(resolution_of(&test.relation)),
            },
            weaker: None,
            equal: equal(test),
        }
    }

    /// The verdict that the interval of this level supports.
    pub(super) fn verdict(&self, basis: Option<Basis>, level: f64) -> Verdict {
        let of = |basis: Option<Basis>| basis.map(|basis| basis.interval(level));
        let weaker = self.weaker.as_ref().map(|(bound, estimate)| {
            let interval = estimate.and_then(|(basis, _)| of(basis));
            interval.map(|interval| bound.position(interval))
        });
        self.decide(of(basis), weaker)
    }

    /// The verdict from the estimate alone, without its interval.
    pub(super) fn leaning(&self, value: f64) -> Verdict {
        let point = |value: f64| Interval {
            low: value,
            high: value,
        };
        let weaker = self.weaker.as_ref().map(|(bound, estimate)| {
            let value = estimate.map(|(_, value)| value).filter(|v| v.is_finite());
            value.map(|value| bound.position(point(value)))
        });
        self.decide(Some(point(value)).filter(|_| value.is_finite()), weaker)
    }

    /// For `weaker`, the outer `None` means that there is no weaker bound; the inner `None` means that its estimate
    /// could not be measured.
    fn decide(&self, interval: Option<Interval>, weaker: Option<Option<Position>>) -> Verdict {
        let Some(interval) = interval else {
            return Verdict::Undecided;
        };
        let holds = self.holds.position(interval);
        if holds == Position::Inside {
            return Verdict::Holds;
        }
        let is_equal = |equal: &Bound| equal.position(interval) == Position::Inside;
        if self.equal.as_ref().is_some_and(is_equal) {
            return Verdict::Equal;
        }
        match (holds, weaker) {
            (Position::Outside, None) => Verdict::Reversed,
            (_, None | Some(None) | Some(Some(Position::Across))) => Verdict::Undecided,
            (_, Some(Some(Position::Inside))) => Verdict::HoldsWeaker,
            (_, Some(Some(Position::Outside))) => Verdict::Reversed,
        }
    }

    /// The values that the intervals must exclude to support a verdict, each with the basis of its interval.
    fn excluded(&self, verdict: Verdict, basis: Option<Basis>) -> Vec<(Basis, f64)> {
        let ends = |bound: &Bound| {
            let ends = [bound.low, bound.high];
            ends.into_iter()
                .filter(|end| end.is_finite())
                .collect::<Vec<f64>>()
        };
        let weaker = self.weaker.as_ref().and_then(|(bound, estimate)| {
            let (basis, _) = (*estimate)?;
            Some((basis?, *bound))
        });
        let (basis, ends) = match (verdict, weaker) {
            (Verdict::Holds, _) => (basis, ends(&self.holds)),
            (Verdict::Equal, _) => (basis, self.equal.as_ref().map(ends).unwrap_or_default()),
            (Verdict::HoldsWeaker, Some((basis, bound))) => (Some(basis), ends(bound)),
            (Verdict::Reversed, Some((basis, bound))) => (Some(basis), nearest(bound, basis)),
            (Verdict::Reversed, None) => (
                basis,
                basis.map(|b| nearest(&self.holds, b)).unwrap_or_default(),
            ),
            _ => (None, Vec::new()),
        };
        let basis = basis.into_iter();
        basis
            .flat_map(|basis| ends.iter().map(move |end| (basis, *end)))
            .collect()
    }

    /// The p-value of the verdict: the smallest probability of error at which the intervals support the verdict.
    pub(super) fn p_value(&self, verdict: Verdict, basis: Option<Basis>) -> Option<f64> {
        let excluded = self.excluded(verdict, basis);
        excluded
            .iter()
            .map(|(basis, value)| basis.p_value(*value))
            .reduce(f64::max)
    }

    /// The approximate number of replicates that the verdict needs.
    pub(super) fn replicates(
        &self,
        verdict: Verdict,
        basis: Option<Basis>,
        level: f64,
    ) -> Option<u64> {
        let excluded = self.excluded(verdict, basis);
        if excluded.is_empty() {
            return None;
        }
        let needed = excluded
            .iter()
            .map(|(basis, value)| basis.replicates_to_exclude(*value, level));
        needed.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }
}

/// Whether a count exactly contradicts a claimed number (`= 0`): every replicate has the same whole number, and this
/// number differs from the claimed one.
///
/// A count has no rounding error, so each such replicate contradicts the claim. In two other cases the error cannot be
/// below the resolution. Replicates that agree with the claim do not prove it. Ordered bounds (`>= 1`) concern a mean,
/// about which few replicates show little.
pub(super) fn contradicts_exactly(test: &Test, basis: Basis) -> bool {
    let (holds, kind) = (&test.holds, test.relation.kind);
    matches!(kind, Kind::Level | Kind::Difference)
        && test.relation.sweep.is_none()
        && is_count(metric_of(&test.relation))
        && holds.low == holds.high
        && basis.error == 0.0
        && basis.centre.fract() == 0.0
        && basis.centre != holds.low
}

/// The metric of a relation's estimate.
fn metric_of(relation: &Relation) -> &str {
    match relation.kind {
        Kind::Level => relation.left.metric.as_ref().unwrap_or(&relation.metric),
        _ => &relation.metric,
    }
}

/// The resolution of a relation's estimate. If the estimate has the metric's unit, it is the metric's resolution.
/// Otherwise it is the resolution of a quotient, because a ratio of counts is not a count.
fn resolution_of(relation: &Relation) -> Resolution {
    match relation.kind {
        Kind::Level | Kind::Difference | Kind::At => resolution(metric_of(relation)),
        _ => quotient(),
    }
}

/// The end of a bound that is nearest to an estimate outside the bound.
fn nearest(bound: &Bound, basis: Basis) -> Vec<f64> {
    let centre = if basis.logarithmic {
        basis.centre.exp()
    } else {
        basis.centre
    };
    let ends = [bound.low, bound.high]
        .into_iter()
        .filter(|end| end.is_finite());
    let nearest = ends.min_by(|a, b| (a - centre).abs().total_cmp(&(b - centre).abs()));
    nearest.into_iter().collect()
}

/// The range in which the sides count as equal; `None` if the claim itself permits equality.
fn equal(test: &Test) -> Option<Bound> {
    let default = || {
        EQUAL_RATIO
            .parse()
            .ok()
            .filter(|_| is_ratio(&test.relation))
    };
    let equal = test.equal.clone().or_else(default)?;
    let neutral = if is_ratio(&test.relation) { 1.0 } else { 0.0 };
    (!test.holds.contains(neutral)).then_some(equal)
}

/// Whether a value of 1 means that the two sides are equal.
fn is_ratio(relation: &Relation) -> bool {
    match relation.kind {
        Kind::Ratio | Kind::Contrast | Kind::Gain | Kind::Loss => true,
        Kind::Slope => relation.right.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Intervals, Resolution};

    const EXACT: Resolution = Resolution {
        absolute: 0.0,
        relative: 0.0,
    };

    fn bounds<'a>(holds: &str, weaker: Option<&'a Bound>, equal: Option<&str>) -> Bounds<'a> {
        Bounds {
            holds: holds.parse().unwrap(),
            weaker: weaker.map(|bound| (bound, None)),
            equal: equal.map(|text| text.parse().unwrap()),
        }
    }

    fn judged(holds: &str, weaker: Option<&str>, low: f64, high: f64) -> Verdict {
        let weaker: Option<Bound> = weaker.map(|text| text.parse().unwrap());
        let bounds = bounds(holds, weaker.as_ref(), Some(EQUAL_RATIO));
        let interval = Interval { low, high };
        let weaker = weaker.as_ref().map(|bound| Some(bound.position(interval)));
        bounds.decide(Some(interval), weaker)
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
        // Sides that differ by less than 3 % are equal.
        assert_eq!(ratio(0.98, 1.02), Verdict::Equal);
        assert_eq!(ratio(1.01, 1.02), Verdict::Equal);
        assert_eq!(ratio(0.98, 0.99), Verdict::Equal);
        assert_eq!(ratio(0.98, 1.04), Verdict::Undecided);
    }

    #[test]
    fn equality_of_a_ratio_of_counts_is_not_equality_of_counts() {
        let bound = |kind: &str, sides: &str| {
            let text = format!(
                r#"{{"label": "", "kind": "{kind}", "metric": "packets", "holds": "= 1", {sides}}}"#
            );
            let test: Test = serde_json::from_str(&text).unwrap();
            let bound = Bounds::of(&test, None).holds;
            (bound.low, bound.high)
        };
        assert_eq!(bound("level", r#""left": {}"#), (0.0, 2.0));
        let (low, high) = bound("ratio", r#""left": {}, "right": {"policy": "h2"}"#);
        assert!((low - 0.999).abs() < 1e-9 && (high - 1.001).abs() < 1e-9);
    }

    #[test]
    fn without_a_weaker_bound_missing_it_is_a_reversal() {
        assert_eq!(judged("> 5", None, 6.0, 7.0), Verdict::Holds);
        assert_eq!(judged("> 5", None, 4.0, 6.0), Verdict::Undecided);
        assert_eq!(judged("> 5", None, 3.0, 4.0), Verdict::Reversed);
    }

    #[test]
    fn a_weaker_bound_that_was_not_measured_decides_nothing() {
        let weaker: Bound = "> 1".parse().unwrap();
        let bounds = bounds(">= 2", Some(&weaker), None);
        assert_eq!(bounds.verdict(None, 0.95), Verdict::Undecided);
        let interval = Interval {
            low: 0.1,
            high: 0.2,
        };
        assert_eq!(
            bounds.decide(Some(interval), Some(None)),
            Verdict::Undecided
        );
    }

    #[test]
    fn the_p_value_is_the_level_at_which_the_verdict_ends() {
        let sample = [2.4, 2.6, 2.5, 2.7];
        let mean = Intervals::default().mean(&sample, EXACT).unwrap();
        let bounds = bounds("2..3", None, None);
        let p = bounds.p_value(Verdict::Holds, mean.basis).unwrap();
        assert!(p > 1e-4 && p < 0.05, "{p}");
        assert_eq!(bounds.verdict(mean.basis, 1.0 - 1.01 * p), Verdict::Holds);
        assert_eq!(
            bounds.verdict(mean.basis, 1.0 - 0.99 * p),
            Verdict::Undecided
        );
        let far = Intervals::default().mean(&[1.0, 1.1, 1.2], EXACT).unwrap();
        let p = bounds.p_value(Verdict::Reversed, far.basis).unwrap();
        assert_eq!(bounds.verdict(far.basis, 1.0 - 1.01 * p), Verdict::Reversed);
        assert_eq!(
            bounds.verdict(far.basis, 1.0 - 0.99 * p),
            Verdict::Undecided
        );
    }
}
