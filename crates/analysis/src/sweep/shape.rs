//! The shape of a curve: its knee, its rise and its fall. The functions take the levels, in ascending order, and the
//! value at each level. They do not model noise: for an interval, the jackknife evaluates them without each replicate.
//!
//! *The knee* is the point after which more load gives little more throughput: R. Jain, "The Art of Computer
//! Systems Performance Analysis" (1991), section 3.3, "knee capacity". The meaning of "little" is a
//! convention. [`Rule`] has three conventions, and a figure that depends on the convention names its rule.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::selection::number;
use crate::statistics::mean;

/// The default share of a curve's maximum that counts as saturated.
pub const SATURATED: f64 = 0.95;

/// The rule for a curve's knee, as in `{ of = "connections_per_s", share = 0.95 }`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "KneeText")]
#[schemars(with = "KneeText")]
pub struct Knee {
    /// The metric of the curve.
    pub of: String,
    /// The rule.
    pub rule: Rule,
}

/// A rule that determines the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The smallest level at which the curve reaches this share of its maximum. The true knee lies between that
    /// level and the previous level.
    Share(f64),
    /// The onset: the smallest level at which the curve is above this value. The true onset also lies between
    /// that level and the previous level.
    Above(f64),
    /// The intersection of the two asymptotes of a closed system: the maximum divided by the value for one
    /// client (P. J. Denning and J. P. Buzen, "The Operational Analysis of Queueing Network Models", ACM
    /// Computing Surveys 10 (1978), "saturation point" N*). It need not be a level of the sweep.
    Bounds,
}

impl Rule {
    /// The knee of a curve; `None` if the curve has no knee.
    pub fn find(self, xs: &[f64], ys: &[f64]) -> Option<f64> {
        let most = ys.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = |wanted: &dyn Fn(f64) -> bool| {
            let place = ys.iter().position(|y| wanted(*y))?;
            Some(xs[place])
        };
        match self {
            Rule::Share(share) if most > 0.0 => first(&|y| y >= share * most),
            Rule::Share(_) => None,
            Rule::Above(value) => first(&|y| y > value),
            Rule::Bounds => {
                let alone = ys.first().copied().filter(|y| *y > 0.0)? / xs[0];
                Some(most / alone)
            }
        }
    }

    /// Whether the knee of this rule is always a level of the sweep.
    pub fn is_level(self) -> bool {
        !matches!(self, Rule::Bounds)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KneeText {
    of: String,
    share: Option<f64>,
    above: Option<f64>,
    #[serde(default)]
    bounds: bool,
}

impl TryFrom<KneeText> for Knee {
    type Error = String;
    fn try_from(text: KneeText) -> Result<Knee, String> {
        let rule = match (text.share, text.above, text.bounds) {
            (None, None, false) => Rule::Share(SATURATED),
            (Some(share), None, false) if share > 0.0 && share <= 1.0 => Rule::Share(share),
            (Some(share), None, false) => {
                return Err(format!(
                    "a knee at {share} of the maximum: the share must be above 0 and at most 1"
                ));
            }
            (None, Some(above), false) => Rule::Above(above),
            (None, None, true) => Rule::Bounds,
            _ => {
                return Err(format!(
                    "the knee of {}: set only one of share, above and bounds",
                    text.of
                ));
            }
        };
        Ok(Knee { of: text.of, rule })
    }
}

/// A selection of levels of a curve.
///
/// Written as a word (`all`, `first`, `last`, `knee`, `below`, `rise`, `to-knee`, `past`), one level
/// (`32`) or a range with its ends (`16..64`, `16..`, `..16`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum Place {
    /// All levels.
    #[default]
    All,
    /// The smallest level.
    First,
    /// The largest level.
    Last,
    /// The level of the knee.
    Knee,
    /// The levels below the knee.
    Below,
    /// The levels up to half the knee, where the curve does not yet bend.
    Rise,
    /// The levels up to and including the knee.
    ToKnee,
    /// The levels from the knee on.
    Past,
    /// One level.
    Level(f64),
    /// The levels from one level to another, both included.
    Range(f64, f64),
}

impl Place {
    /// Whether the selection depends on a knee.
    pub fn needs_knee(self) -> bool {
        use Place::{Below, Knee, Past, Rise, ToKnee};
        matches!(self, Knee | Below | Rise | ToKnee | Past)
    }

    /// The indices of the selected levels. `knees` contains the smallest and the largest knee of the compared curves. A
    /// level counts as below the knee if it is below both, and as past the knee if it is past both.
    pub fn levels(self, xs: &[f64], knees: Option<(f64, f64)>) -> Vec<usize> {
        let (low, high) = knees.unwrap_or((f64::NAN, f64::NAN));
        let is_meant = |x: f64| match self {
            Place::All => true,
            Place::First => x == xs[0],
            Place::Last => x == xs[xs.len() - 1],
            Place::Knee => x == high,
            Place::Below => x < low,
            Place::Rise => x <= 0.5 * low,
            Place::ToKnee => x <= low,
            Place::Past => x >= high,
            Place::Level(level) => x == level,
            Place::Range(from, to) => from <= x && x <= to,
        };
        (0..xs.len()).filter(|i| is_meant(xs[*i])).collect()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::All => f.write_str("at all levels"),
            Place::First => f.write_str("at the first level"),
            Place::Last => f.write_str("at the last level"),
            Place::Knee => f.write_str("at the knee"),
            Place::Below => f.write_str("below the knee"),
            Place::Rise => f.write_str("up to half the knee"),
            Place::ToKnee => f.write_str("up to the knee"),
            Place::Past => f.write_str("past the knee"),
            Place::Level(level) => write!(f, "at {level}"),
            Place::Range(from, to) => match (from.is_finite(), to.is_finite()) {
                (true, true) => write!(f, "from {from} to {to}"),
                (true, false) => write!(f, "from {from}"),
                _ => write!(f, "up to {to}"),
            },
        }
    }
}

/// The error for a text that is not a selection of levels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a place of a curve: write all, first, last, knee, below, rise, to-knee, past, a level \
     (32) or a range (16..64, 16.., ..16)"
)]
pub struct ParsePlaceError(String);

impl FromStr for Place {
    type Err = ParsePlaceError;
    fn from_str(text: &str) -> Result<Place, ParsePlaceError> {
        let error = || ParsePlaceError(text.to_owned());
        let end = |text: &str, open: f64| match text {
            "" => Ok(open),
            text => number(text).ok_or_else(error),
        };
        Ok(match text {
            "all" => Place::All,
            "first" => Place::First,
            "last" => Place::Last,
            "knee" => Place::Knee,
            "below" => Place::Below,
            "rise" => Place::Rise,
            "to-knee" => Place::ToKnee,
            "past" => Place::Past,
            _ => match text.split_once("..") {
                Some((from, to)) => {
                    let (from, to) = (end(from, f64::NEG_INFINITY)?, end(to, f64::INFINITY)?);
                    if from > to || (from.is_infinite() && to.is_infinite()) {
                        return Err(error());
                    }
                    Place::Range(from, to)
                }
                None => Place::Level(number(text).ok_or_else(error)?),
            },
        })
    }
}

impl TryFrom<String> for Place {
    type Error = ParsePlaceError;
    fn try_from(text: String) -> Result<Place, ParsePlaceError> {
        text.parse()
    }
}

/// The rule that combines the figures of several levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// The mean of the figures.
    #[default]
    Mean,
    /// The smallest figure: if it meets a lower bound, all figures meet it.
    Least,
    /// The largest figure.
    Greatest,
}

impl Pick {
    /// Combines one or more values to a single figure.
    pub fn of(self, values: &[f64]) -> f64 {
        match self {
            Pick::Mean => mean(values),
            Pick::Least => values.iter().copied().fold(f64::INFINITY, f64::min),
            Pick::Greatest => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// The slope of the straight line by least squares; NaN with fewer than two levels.
pub fn slope(xs: &[f64], ys: &[f64]) -> f64 {
    let (x0, y0) = (mean(xs), mean(ys));
    let products: f64 = xs.iter().zip(ys).map(|(x, y)| (x - x0) * (y - y0)).sum();
    let squares: f64 = xs.iter().map(|x| (x - x0).powi(2)).sum();
    if squares == 0.0 {
        return f64::NAN;
    }
    products / squares
}

/// A measure of how steadily a curve rises: Kendall's tau-b of levels and values (M. G. Kendall, "The Treatment of Ties
/// in Ranking Problems", Biometrika 33 (1945)). It is 1 if every value is above all previous values, -1 if every value
/// is below all previous values, and 0 for a flat curve; NaN with fewer than two levels.
pub fn steadiness(ys: &[f64]) -> f64 {
    let n = ys.len();
    if n < 2 {
        return f64::NAN;
    }
    let (mut balance, mut untied) = (0.0, 0.0);
    for later in 1..n {
        for earlier in 0..later {
            let step = ys[later] - ys[earlier];
            if step != 0.0 {
                balance += step.signum();
                untied += 1.0;
            }
        }
    }
    if untied == 0.0 {
        return 0.0;
    }
    let pairs = (n * (n - 1) / 2) as f64;
    balance / (untied * pairs).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const XS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    /// A closed system without queueing: linear up to its asymptote, then constant.
    fn throughput(knee: f64) -> Vec<f64> {
        XS.iter().map(|x| 50.0 * x.min(knee)).collect()
    }

    #[test]
    fn a_knee_is_where_the_curve_bends() {
        let ys = throughput(8.0);
        assert_eq!(Rule::Share(SATURATED).find(&XS, &ys), Some(8.0));
        assert_eq!(Rule::Bounds.find(&XS, &ys), Some(8.0));
        // If the true knee lies between two levels, this rule returns the first saturated level. The intersection of
        // the asymptotes is exact.
        let ys = throughput(11.0);
        assert_eq!(Rule::Share(SATURATED).find(&XS, &ys), Some(16.0));
        assert_eq!(Rule::Bounds.find(&XS, &ys), Some(11.0));
        assert_eq!(Rule::Above(0.0).find(&XS, &[0.0; 7]), None);
        let errors = [0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 40.0];
        assert_eq!(Rule::Above(1.0).find(&XS, &errors), Some(32.0));
        assert_eq!(Rule::Share(SATURATED).find(&XS, &[0.0; 7]), None);
    }

    #[test]
    fn places_are_levels() {
        let place = |text: &str| -> Vec<f64> {
            let place: Place = text.parse().unwrap();
            let levels = place.levels(&XS, Some((8.0, 16.0)));
            levels.into_iter().map(|i| XS[i]).collect()
        };
        assert_eq!(place("below"), [1.0, 2.0, 4.0]);
        assert_eq!(place("rise"), [1.0, 2.0, 4.0]);
        assert_eq!(place("to-knee"), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(place("knee"), [16.0]);
        assert_eq!(place("past"), [16.0, 32.0, 64.0]);
        assert_eq!(place("first"), [1.0]);
        assert_eq!(place("last"), [64.0]);
        assert_eq!(place("32"), [32.0]);
        assert_eq!(place("..4"), [1.0, 2.0, 4.0]);
        assert_eq!(place("32.."), [32.0, 64.0]);
        assert_eq!(place("3..16"), [4.0, 8.0, 16.0]);
        assert_eq!(place("33"), [] as [f64; 0]);
        for wrong in ["", "top", "..", "8..4", "NaN", "inf"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn slopes_and_steadiness_are_those_worked_by_hand() {
        // The sum of products is 33.2, and the sum of squares is 148.8. Of the ten pairs, six rise, three fall and one
        // is tied.
        let xs = [1.0, 2.0, 4.0, 8.0, 16.0];
        let ys = [3.0, 2.0, 2.0, 7.0, 5.0];
        assert!((slope(&xs, &ys) - 33.2 / 148.8).abs() < 1e-12);
        assert!((steadiness(&ys) - 3.0 / 90f64.sqrt()).abs() < 1e-12);
        assert_eq!(steadiness(&[4.0, 3.0, 1.0]), -1.0);
        assert_eq!(steadiness(&[4.0, 4.0]), 0.0);
        assert!(slope(&[1.0], &[1.0]).is_nan() && steadiness(&[1.0]).is_nan());
    }

    proptest! {
        #[test]
        fn a_knee_found_by_share_is_a_level_and_saturated(
            ys in prop::collection::vec(0.1f64..1e6, 7)
        ) {
            let knee = Rule::Share(SATURATED).find(&XS, &ys).unwrap();
            let place = XS.iter().position(|x| *x == knee).unwrap();
            let most = ys.iter().copied().fold(0.0, f64::max);
            prop_assert!(ys[place] >= SATURATED * most);
            prop_assert!(ys[..place].iter().all(|y| *y < SATURATED * most));
        }
    }
}
