//! The effect of a limit, from the intervals of its elasticity.

use serde::{Deserialize, Serialize};

use crate::statistics::{Estimate, Interval};

/// The smallest elasticity with the effect [`Effect::Limits`]. The lower end of its interval must also be at least
/// [`LIMITS_LOW`].
const LIMITS: f64 = 0.5;
/// The smallest lower end of the elasticity's interval for [`Effect::Limits`]. Zero is too low a threshold: by chance
/// alone, three pairs are all above zero with probability 1/8.
const LIMITS_LOW: f64 = 0.25;
/// The smallest gain in throughput with the effect [`Effect::Limits`], for a step of any size. A large step may be
/// cheap, for example a backlog ten times as long.
const LIMITS_GAIN: f64 = 0.25;
/// The smallest lower end of the interval of that gain.
const LIMITS_GAIN_LOW: f64 = 0.1;
/// A limit has the effect [`Effect::Contributes`] if the lower end of the elasticity's interval is above this value.
/// Noise and common drift stay below it.
const CONTRIBUTES: f64 = 0.1;
/// The upper end of the elasticity's interval must be below this value for [`Effect::DoesNot`].
const NOT: f64 = 0.25;
/// The upper end of the interval of the gain must also be below this value for [`Effect::DoesNot`].
const NOT_GAIN: f64 = 0.12;

/// The effect of a limit on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Relief makes the figure worse. For example, more workers do so if memory is short.
    Harms,
    /// Relief has no effect, or a negligible one.
    DoesNot,
    /// The interval is too wide to decide.
    Undecided,
    /// Relief helps, but less than [`Effect::Limits`] requires.
    Contributes,
    /// Relief helps: the elasticity is at least 0.5, or the gain is at least 25 %.
    Limits,
}

impl Effect {
    /// The effect in words that follow the name of the resource, as in `limits`.
    pub const fn words(self) -> &'static str {
        match self {
            Effect::Harms => "harms when there is more",
            Effect::DoesNot => "does not limit",
            Effect::Undecided => "undecided",
            Effect::Contributes => "contributes",
            Effect::Limits => "limits",
        }
    }
}

/// Returns the effect that an elasticity shows. A positive elasticity means that relief helps. An effect must be shown
/// by the `simultaneous` interval. For the absence of an effect, the interval of the estimate alone is sufficient.
pub(super) fn effect(elasticity: Estimate, simultaneous: Option<Interval>, relief: f64) -> Effect {
    let Some(single) = elasticity.interval else {
        return Effect::Undecided;
    };
    let all = simultaneous.unwrap_or(single);
    // The relative gain of the figure from this relief. For a squeeze, it is the gain from undoing the squeeze.
    let gain = |elasticity: f64| gain(elasticity, relief);
    let in_proportion = elasticity.value >= LIMITS;
    let outright = gain(elasticity.value) >= LIMITS_GAIN;
    if in_proportion && all.low >= LIMITS_LOW
        || outright && gain(all.low) >= LIMITS_GAIN_LOW && all.low > 0.0
    {
        return Effect::Limits;
    }
    if in_proportion || outright {
        return Effect::Undecided;
    }
    if all.low > CONTRIBUTES {
        return Effect::Contributes;
    }
    if all.high < -CONTRIBUTES {
        return Effect::Harms;
    }
    if single.high < NOT && gain(single.high) < NOT_GAIN {
        return Effect::DoesNot;
    }
    Effect::Undecided
}

/// Whether an elasticity of this size satisfies [`LIMITS`] or [`LIMITS_GAIN`].
pub(super) fn reaches_a_limit(elasticity: f64, relief: f64) -> bool {
    elasticity >= LIMITS || gain(elasticity, relief) >= LIMITS_GAIN
}

/// The relative gain of the figure from this relief.
fn gain(elasticity: f64, relief: f64) -> f64 {
    (elasticity * relief.abs()).exp_m1()
}
