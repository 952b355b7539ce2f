//! The effect of a limit, from the intervals of its elasticity.

use serde::{Deserialize, Serialize};

use crate::statistics::{Estimate, Interval};

/// A limit has the effect [`Effect::Limits`] if its elasticity is at least this and its interval
/// lies above [`LIMITS_LOW`].
const LIMITS: f64 = 0.5;
/// The lower end of the elasticity's interval must be at least this. Three pairs that differ only at random
/// are all above zero with probability 1/8, so an interval above zero is not enough.
const LIMITS_LOW: f64 = 0.25;
/// A limit also has this effect if a step of any size raises throughput by at least this share. A large step
/// may be cheap, for example a backlog ten times as long.
const LIMITS_GAIN: f64 = 0.25;
/// The lower end of the interval of that gain must be at least this.
const LIMITS_GAIN_LOW: f64 = 0.1;
/// A limit contributes if the lower end of the elasticity's interval is above this; noise and common drift
/// stay below.
const CONTRIBUTES: f64 = 0.1;
/// A limit has no effect if the interval of its elasticity lies below this and that of the gain
/// below [`NOT_GAIN`].
const NOT: f64 = 0.25;
/// The upper end of the gain from the step must be below this.
const NOT_GAIN: f64 = 0.12;

/// The effect of a limit on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Relief makes the figure worse, as more workers do if memory is short.
    Harms,
    /// Relief has no effect, or almost none.
    DoesNot,
    /// The interval is too wide to decide.
    Undecided,
    /// Relief helps, but less than for [`Effect::Limits`].
    Contributes,
    /// Relief helps: the elasticity is at least one half, or the gain is at least a quarter.
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

/// The effect that an elasticity shows. A positive elasticity means that relief helps. The `simultaneous`
/// interval must show that there is an effect; the interval of the estimate alone is sufficient to show that
/// there is none.
pub(super) fn effect(elasticity: Estimate, simultaneous: Option<Interval>, relief: f64) -> Effect {
    let Some(single) = elasticity.interval else {
        return Effect::Undecided;
    };
    let all = simultaneous.unwrap_or(single);
    // The relative gain of the figure from this relief. For a squeeze: the gain from undoing the squeeze.
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

/// Whether an elasticity of this size means that the resource limits, by either criterion of [`effect`].
pub(super) fn reaches_a_limit(elasticity: f64, relief: f64) -> bool {
    elasticity >= LIMITS || gain(elasticity, relief) >= LIMITS_GAIN
}

/// The relative gain of the figure from this relief.
fn gain(elasticity: f64, relief: f64) -> f64 {
    (elasticity * relief.abs()).exp_m1()
}
