//! Estimates of discrete figures, such as a knee, which is always one of the measured levels. These figures are not
//! normally distributed.

use super::super::{Kind, Relation};
use super::Sweep;
use super::trace::Trace;
use crate::inputs::Inputs;
use crate::machines;
use crate::statistics::{Inference, Interval, Scale};

/// The properties of a discrete figure.
#[derive(Clone, Copy)]
pub(super) struct Jump {
    scale: Scale,
    /// The largest possible distance of the true value below and above the figure, on that scale.
    slack: (f64, f64),
    range: Interval,
}

/// The properties of a discrete figure; `None` for a continuous figure.
pub(super) fn jump(
    relation: &Relation,
    sweep: &Sweep,
    xs: &[f64],
    value: f64,
    expected: f64,
) -> Option<Jump> {
    match relation.kind {
        Kind::Knee if sweep.knee.as_ref().is_some_and(|knee| knee.rule.is_level()) => {
            // The true knee lies between the level of the knee and the previous level. In a ratio of knees, both are
            // uncertain.
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

/// The distance from the previous level to this level, divided by the expected value; 0 for the first level.
fn back(xs: &[f64], value: f64, expected: f64) -> f64 {
    let levels = xs.iter().rev().map(|x| x / expected);
    let before = levels
        .filter(|x| *x < value)
        .fold(f64::NEG_INFINITY, f64::max);
    // Reduced by more than a rounding error, so that the interval excludes the previous level.
    let gap = (value - before) * (1.0 - 1e-12);
    if before.is_finite() { gap } else { 0.0 }
}

/// The largest ratio of a level to its previous level.
fn widest_ratio(xs: &[f64]) -> f64 {
    let ratios = xs
        .windows(2)
        .filter(|pair| pair[0] > 0.0)
        .map(|pair| pair[1] / pair[0]);
    ratios.fold(1.0, f64::max)
}

pub(super) const POSITIVE: Interval = Interval {
    low: 0.0,
    high: f64::INFINITY,
};

/// Computes the figure from all replicates. Its interval is computed from the figures of single replicates, for
/// replicates that exist at every level of every curve.
pub(super) fn by_replicates(
    inputs: &Inputs<'_>,
    traces: &[Trace<'_>],
    jump: Jump,
    statistic: &dyn Fn(&[&[f64]]) -> f64,
    samples: &[&[f64]],
) -> Inference {
    let numbers = || traces.iter().flat_map(|trace| &trace.numbers);
    let shared = numbers().next().into_iter().flatten().copied();
    let shared: Vec<u32> = shared
        .filter(|number| numbers().all(|all| all.contains(number)))
        .collect();
    let machines = machines::machines(&inputs.run.info, &shared);
    let of_replicates: Vec<f64> = shared
        .into_iter()
        .map(|number| {
            let places: Vec<[f64; 1]> = numbers()
                .map(|all| [all.iter().position(|own| *own == number).unwrap_or(0) as f64])
                .collect();
            let places: Vec<&[f64]> = places.iter().map(|place| &place[..]).collect();
            statistic(&places)
        })
        .collect();
    let value = statistic(samples);
    let intervals = inputs.intervals.on(&machines);
    intervals.replications(value, &of_replicates, jump.scale, jump.slack, jump.range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_may_lie_as_far_below_its_level_as_the_level_before() {
        let xs = [1.0, 2.0, 8.0, 16.0];
        assert!((back(&xs, 8.0, 1.0) - 6.0).abs() < 1e-9);
        assert!((back(&xs, 4.0, 2.0) - 3.0).abs() < 1e-9);
        assert_eq!(
            back(&xs, 1.0, 1.0),
            0.0,
            "there is no level before the first"
        );
    }

    #[test]
    fn the_widest_step_of_a_curve_is_a_ratio() {
        assert_eq!(widest_ratio(&[1.0, 2.0, 8.0, 16.0]), 4.0);
        // A step from 0 has no ratio and is ignored.
        assert_eq!(widest_ratio(&[0.0, 2.0, 3.0]), 1.5);
        assert_eq!(widest_ratio(&[5.0]), 1.0);
    }
}
