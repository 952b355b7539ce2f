//! The figure of a test: a function of one or more curves.

use super::super::Kind;
use super::Sweep;
use crate::statistics::mean;
use crate::sweep::shape::{Knee, Place, Rule, slope, steadiness};

/// A curve computed from some of its replicates.
pub(super) struct Drawn<'a> {
    pub(super) xs: &'a [f64],
    /// The values that replace the levels when a slope is computed.
    pub(super) per: Option<Vec<f64>>,
    pub(super) ys: Vec<f64>,
    pub(super) knee: Option<f64>,
}

/// The figure of a test, or the reason why these curves have none.
pub(super) fn figure(
    kind: Kind,
    sweep: &Sweep,
    curves: &[Drawn<'_>],
    expected: f64,
) -> Result<f64, String> {
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
                "only {along} {} was measured: the test needs several levels",
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
    // The ratios of two curves at the levels that both curves have.
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
                return Err("the right side has no loss against its baseline".to_owned());
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

/// The ratio of the knee of `one` to the knee of `other`. A curve that still rises at its last level has not reached
/// its knee.
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

/// The level from which `one` stays below `other`, with straight lines between the levels that both have;
/// `None` when there is no such level.
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

fn no_knee(knee: &Knee, along: &str, xs: &[f64]) -> String {
    let last = xs[xs.len() - 1];
    match knee.rule {
        Rule::Above(value) => format!("{} is never above {value} up to {along} {last}", knee.of),
        _ => format!("{} is zero throughout: it has no knee", knee.of),
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
        // `flat` is below `rising` at first, above it from 1 on, and below it again after 75.
        assert_eq!(crossing(&flat, &rising), Some(75.0));
        // In the other direction, `rising` drops below `flat` between 0 and 1, but does not stay below it.
        assert_eq!(crossing(&rising, &flat), None);
        assert_eq!(crossing(&flat, &flat), None);
        let few = drawn(&xs[..3], &[50.0, 60.0, 300.0]);
        assert_eq!(crossing(&flat, &few), None);
    }
}
