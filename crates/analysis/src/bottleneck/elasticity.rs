//! How much throughput and latency change with a step of a limit.
//!
//! The elasticity of throughput X to a limit L is d ln X / d ln L: 1 when 25 % more of the limit gives 25 %
//! more throughput, 0 when it gives nothing. A step of factor *f* that changes throughput from X to X′
//! estimates it as ln(X′/X) / ln *f*. Each replicate gives one estimate, because both loads used the same
//! random numbers. The interval is Student's t over replicates.
//!
//! All elasticities are to *relief*: that of the round trip is to 1/RTT. So for every resource, a positive
//! elasticity of throughput and a negative one of latency mean that relief helps.
//!
//! Relieving a limit shows whether it limits now; squeezing it shows whether it is near. For example, relief of
//! a resource that is used to 90 % gains nothing, but a squeeze by a fifth costs throughput. So where a relief
//! was measured, it alone decides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Observation, Resource};
use crate::statistics::{Estimate, Interval, Intervals, Resolution, mean};

/// A resource limits if its elasticity is at least this ...
const LIMITS: f64 = 0.5;
/// ... and the lower end of its interval is at least this, because three pairs that differ only at random are
/// all above zero with probability 1/8.
const LIMITS_LOW: f64 = 0.25;
/// A step that gives at least this much more throughput limits too, however large the step was: a backlog ten
/// times as long is cheap to provide.
const LIMITS_GAIN: f64 = 0.25;
/// The lower end of that gain's interval must be at least this.
const LIMITS_GAIN_LOW: f64 = 0.1;
/// A limit contributes when the lower end of its interval is above this; noise and common drift stay below.
const CONTRIBUTES: f64 = 0.1;
/// A limit has no effect when the upper end of its interval is below this, ...
const NOT: f64 = 0.25;
/// ... and the upper end of the gain from this step is below this.
const NOT_GAIN: f64 = 0.12;

/// Throughputs that agree in all replicates are not exact: a window counts whole exchanges, and a share of them began
/// before it or ends after it.
const RESOLUTION: Resolution = Resolution {
    absolute: 0.001,
    relative: 0.0,
};

/// The effects of the steps of one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    /// The limit.
    pub resource: Resource,
    /// One response for each step, the largest relief first.
    pub responses: Vec<Response>,
    /// Its effect on throughput.
    pub effect: Effect,
    /// Its effect on mean latency.
    pub on_latency: Effect,
}

/// The effect of one step of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The factor that multiplied the limit.
    pub factor: f64,
    /// The natural logarithm of the factor, positive for a relief.
    pub relief: f64,
    /// Elasticity of throughput to relief; `n` is the number of pairs.
    pub throughput: Estimate,
    /// Elasticity of mean latency to relief.
    pub latency: Estimate,
    /// Elasticity of the 98th percentile of latency to relief.
    pub latency_p98: Estimate,
}

/// The effect of a limit on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Relief makes the figure worse, as with more workers than memory allows.
    Harms,
    /// Relief has no effect, or almost none.
    DoesNot,
    /// The interval is too wide to decide.
    Undecided,
    /// Relief helps, but by less than half in proportion.
    Contributes,
    /// Relief helps by at least half in proportion, or by at least a quarter in total.
    Limits,
}

impl Effect {
    /// The effect in words that follow the resource: `limits`.
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

impl Response {
    /// The relative change of throughput with this step: 0.23 is 23 % more.
    pub fn throughput_change(&self) -> Estimate {
        change(self.throughput, self.relief)
    }

    /// The relative change of mean latency with this step.
    pub fn latency_change(&self) -> Estimate {
        change(self.latency, self.relief)
    }

    /// Whether the interval leaves it possible that the limit limits, by either criterion of [`effect`].
    pub(super) fn may_limit(&self) -> bool {
        self.throughput.interval.is_none_or(|interval| {
            let gain = (interval.high * self.relief.abs()).exp_m1();
            interval.high >= LIMITS || gain >= LIMITS_GAIN
        })
    }

    /// Whether the limit was relieved.
    pub fn is_relief(&self) -> bool {
        self.relief > 0.0
    }
}

impl Elasticity {
    /// The step that shows most about throughput: the relief with the largest elasticity; without a relief, the
    /// squeeze with the largest elasticity.
    pub fn telling(&self) -> Option<&Response> {
        let relieved = self.was_relieved();
        self.responses
            .iter()
            .filter(|response| response.is_relief() == relieved)
            .max_by(|a, b| a.throughput.value.total_cmp(&b.throughput.value))
    }

    /// The step that shows most about mean latency, chosen as in [`Elasticity::telling`].
    pub fn latency_telling(&self) -> Option<&Response> {
        let relieved = self.was_relieved();
        self.responses
            .iter()
            .filter(|response| response.is_relief() == relieved)
            .min_by(|a, b| a.latency.value.total_cmp(&b.latency.value))
    }

    /// Whether any step relieved the limit.
    pub fn was_relieved(&self) -> bool {
        self.responses.iter().any(Response::is_relief)
    }

    /// Whether a squeeze of the limit reduced throughput by at least half in proportion.
    pub fn is_near(&self) -> bool {
        let squeezed = self
            .responses
            .iter()
            .filter(|response| !response.is_relief());
        squeezed
            .into_iter()
            .any(|response| effect(response.throughput, response.relief) == Effect::Limits)
    }
}

/// The elasticity to each limit that was varied, in the order of [`Resource::ALL`].
///
/// Only valid observations with a throughput and a latency above zero count. Of those, only pairs of a changed
/// load and a baseline of the same replicate count. Several observations of one kind in one replicate (a
/// baseline before and after) count as their geometric mean. `intervals` has the level of the intervals.
pub fn elasticities(observations: &[Observation], intervals: Intervals) -> Vec<Elasticity> {
    let usable: Vec<&Observation> = observations
        .iter()
        .filter(|observation| is_usable(observation))
        .collect();
    let baseline = by_replicate(usable.iter().copied().filter(|o| o.change.is_none()));
    Resource::ALL
        .into_iter()
        .filter_map(|resource| {
            let mut responses: Vec<Response> = factors(&usable, resource)
                .into_iter()
                .filter_map(|(factor, relief)| {
                    let with = usable.iter().copied().filter(|observation| {
                        observation.change.is_some_and(|change| {
                            change.resource == resource && change.factor == factor
                        })
                    });
                    response(intervals, &baseline, &by_replicate(with), factor, relief)
                })
                .collect();
            responses.sort_by(|a, b| b.relief.total_cmp(&a.relief));
            if responses.is_empty() {
                return None;
            }
            let effect = strongest(&responses, |r| effect(r.throughput, r.relief));
            let on_latency = strongest(&responses, |r| self::effect(negated(r.latency), r.relief));
            Some(Elasticity {
                resource,
                responses,
                effect,
                on_latency,
            })
        })
        .collect()
}

/// Logarithms of throughput, mean latency and the 98th percentile of latency.
type Logarithms = [f64; 3];

fn is_usable(observation: &Observation) -> bool {
    observation.validity.is_valid() && logarithms(observation).iter().all(|v| v.is_finite())
}

fn logarithms(observation: &Observation) -> Logarithms {
    [
        observation.throughput_per_s.ln(),
        observation.latency_mean.as_secs_f64().ln(),
        observation.latency_p98.as_secs_f64().ln(),
    ]
}

fn by_replicate<'a>(
    observations: impl Iterator<Item = &'a Observation>,
) -> BTreeMap<u32, Logarithms> {
    let mut all: BTreeMap<u32, Vec<Logarithms>> = BTreeMap::new();
    for observation in observations {
        let of_replicate = all.entry(observation.replicate).or_default();
        of_replicate.push(logarithms(observation));
    }
    let means = |several: Vec<Logarithms>| -> Logarithms {
        std::array::from_fn(|part| mean(&several.iter().map(|all| all[part]).collect::<Vec<_>>()))
    };
    all.into_iter()
        .map(|(replicate, several)| (replicate, means(several)))
        .collect()
}

/// The factors by which a resource was varied, with their relief.
fn factors(observations: &[&Observation], resource: Resource) -> Vec<(f64, f64)> {
    let mut factors: Vec<(f64, f64)> = observations
        .iter()
        .filter_map(|observation| observation.change)
        .filter(|change| change.resource == resource)
        .filter_map(|change| Some((change.factor, change.relief()?)))
        .collect();
    factors.sort_by(|a, b| a.0.total_cmp(&b.0));
    factors.dedup();
    factors
}

/// The response to one step; `None` when there is no pair.
fn response(
    intervals: Intervals,
    baseline: &BTreeMap<u32, Logarithms>,
    changed: &BTreeMap<u32, Logarithms>,
    factor: f64,
    relief: f64,
) -> Option<Response> {
    let of = |part: usize| {
        let pairs = changed.iter().filter_map(|(replicate, changed)| {
            let baseline = baseline.get(replicate)?;
            Some((changed[part] - baseline[part]) / relief)
        });
        let pairs: Vec<f64> = pairs.collect();
        Some(intervals.mean(&pairs, RESOLUTION)?.estimate)
    };
    Some(Response {
        factor,
        relief,
        throughput: of(0)?,
        latency: of(1)?,
        latency_p98: of(2)?,
    })
}

/// The strongest effect among reliefs, or among squeezes where nothing was relieved.
fn strongest(responses: &[Response], effect: impl Fn(&Response) -> Effect) -> Effect {
    let relieved = responses.iter().any(Response::is_relief);
    responses
        .iter()
        .filter(|response| response.is_relief() == relieved)
        .map(effect)
        .max()
        .unwrap_or(Effect::Undecided)
}

/// The effect that an elasticity shows. A positive elasticity means that relief helps.
fn effect(elasticity: Estimate, relief: f64) -> Effect {
    let Some(interval) = elasticity.interval else {
        return Effect::Undecided;
    };
    // The gain of the figure when the limit is relieved by this much. For a squeeze: the value before it over
    // the value after it.
    let gain = |elasticity: f64| (elasticity * relief.abs()).exp_m1();
    let in_proportion = elasticity.value >= LIMITS;
    let outright = gain(elasticity.value) >= LIMITS_GAIN;
    if in_proportion && interval.low >= LIMITS_LOW
        || outright && gain(interval.low) >= LIMITS_GAIN_LOW && interval.low > 0.0
    {
        return Effect::Limits;
    }
    if in_proportion || outright {
        return Effect::Undecided;
    }
    if interval.low > CONTRIBUTES {
        return Effect::Contributes;
    }
    if interval.high < -CONTRIBUTES {
        return Effect::Harms;
    }
    if interval.high < NOT && gain(interval.high) < NOT_GAIN {
        return Effect::DoesNot;
    }
    Effect::Undecided
}

fn negated(estimate: Estimate) -> Estimate {
    Estimate {
        value: -estimate.value,
        interval: estimate.interval.map(|interval| Interval {
            low: -interval.high,
            high: -interval.low,
        }),
        ..estimate
    }
}

/// The relative change that an elasticity means at a relief. It is monotonic, so the ends of the interval stay
/// ends; they change places when the relief is negative.
fn change(elasticity: Estimate, relief: f64) -> Estimate {
    let of = |elasticity: f64| (elasticity * relief).exp_m1();
    Estimate {
        n: elasticity.n,
        value: of(elasticity.value),
        interval: elasticity.interval.map(|interval| {
            let (a, b) = (of(interval.low), of(interval.high));
            Interval {
                low: a.min(b),
                high: a.max(b),
            }
        }),
    }
}
