//! How much throughput and latency change with a step of a limit.
//!
//! The elasticity of throughput X to a limit L is d ln X / d ln L: 1 if 25 % more of the limit gives 25 % more
//! throughput, 0 if throughput does not change. A step of factor *f* that changes throughput from X to X′ estimates the
//! elasticity as ln(X′/X) / ln *f*. Each replicate gives one estimate, because both loads use the same random numbers.
//! The interval is Student's t over replicates.
//!
//! All elasticities are to *relief*: the elasticity to the round trip is an elasticity to 1/RTT. So for every resource, a
//! positive elasticity of throughput and a negative elasticity of latency mean that relief helps.
//!
//! Relieving a limit shows whether it limits now; squeezing it shows whether it is near. For example, relief of a
//! resource at 90 % utilisation gains nothing, but a squeeze by 20 % costs throughput. So if a relief was measured,
//! only the relief decides.
//!
//! Several limits are tested, and each may seem to have an effect by chance. So an effect counts only if the simultaneous
//! interval also shows it. The simultaneous intervals together have the coverage of one interval (Bonferroni,
//! [`simultaneous_level`]). This is also true for dependent intervals, as with shared baselines.
//!
//! No correction is needed to show that a limit has no effect. A verdict by elimination requires this result for every
//! other limit. It is wrong only if the result for the true bottleneck is wrong (an intersection-union test:
//! R. L. Berger, Technometrics 24, 1982).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::effect::{effect, reaches_a_limit};
use super::{Effect, Observation, Resource};
use crate::statistics::{Estimate, Interval, Intervals, Resolution, mean, simultaneous_level};

/// The resolution of a logarithm of throughput. Equal throughputs of all replicates are not exact: a window counts
/// whole exchanges, and some exchanges cross its start or end.
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
    /// The effect of the limit on throughput.
    pub effect: Effect,
    /// The effect of the limit on mean latency.
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
    /// The simultaneous interval of the elasticity of throughput, over all steps of all limits. `None` if `throughput`
    /// has no interval, and in records of versions that judged each limit separately.
    #[serde(default)]
    pub throughput_simultaneous: Option<Interval>,
    /// Elasticity of mean latency to relief.
    pub latency: Estimate,
    /// The simultaneous interval of the elasticity of mean latency.
    #[serde(default)]
    pub latency_simultaneous: Option<Interval>,
    /// Elasticity of the 98th percentile of latency to relief.
    pub latency_p98: Estimate,
}

impl Response {
    /// The relative change of throughput with this step: 0.23 means 23 % more.
    pub fn throughput_change(&self) -> Estimate {
        change(self.throughput, self.relief)
    }

    /// The relative change of mean latency with this step.
    pub fn latency_change(&self) -> Estimate {
        change(self.latency, self.relief)
    }

    /// Whether the resource may be the bottleneck, by the interval of throughput and the criteria of [`effect`].
    pub(super) fn may_limit(&self) -> bool {
        self.throughput
            .interval
            .is_none_or(|interval| reaches_a_limit(interval.high, self.relief))
    }

    /// The effect of this step on throughput.
    fn on_throughput(&self) -> Effect {
        effect(self.throughput, self.throughput_simultaneous, self.relief)
    }

    /// The effect of this step on mean latency. Less latency is better.
    fn on_latency(&self) -> Effect {
        let simultaneous = self.latency_simultaneous.map(negated);
        let latency = Estimate {
            value: -self.latency.value,
            interval: self.latency.interval.map(negated),
            ..self.latency
        };
        effect(latency, simultaneous, self.relief)
    }

    /// Whether the step relieved the limit.
    pub fn is_relief(&self) -> bool {
        self.relief > 0.0
    }
}

impl Elasticity {
    /// The step with the clearest effect on throughput: the relief with the largest elasticity or, if there is no relief,
    /// the squeeze with the largest elasticity.
    pub fn clearest(&self) -> Option<&Response> {
        let relieved = self.was_relieved();
        self.responses
            .iter()
            .filter(|response| response.is_relief() == relieved)
            .max_by(|a, b| a.throughput.value.total_cmp(&b.throughput.value))
    }

    /// The step with the clearest effect on mean latency, chosen as in [`Elasticity::clearest`].
    pub fn clearest_for_latency(&self) -> Option<&Response> {
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

    /// Whether the limit is near: a squeeze has the effect [`Effect::Limits`] on throughput.
    pub fn is_near(&self) -> bool {
        let squeezed = self
            .responses
            .iter()
            .filter(|response| !response.is_relief());
        squeezed
            .into_iter()
            .any(|response| response.on_throughput() == Effect::Limits)
    }
}

/// Returns the elasticity to each limit that was varied, in the order of [`Resource::ALL`].
///
/// Only valid observations with a throughput and a latency above zero count. A changed load is paired with the
/// baseline of the same replicate. Several observations of the same kind in one replicate (a baseline before and
/// after) are replaced by their geometric mean. `intervals` is the level of each interval, and the joint level of all
/// simultaneous intervals.
pub fn elasticities(observations: &[Observation], intervals: Intervals) -> Vec<Elasticity> {
    let levels = Levels {
        single: intervals,
        simultaneous: Intervals {
            level: simultaneous_level(intervals.level, comparisons(observations)),
        },
    };
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
                    response(levels, &baseline, &by_replicate(with), factor, relief)
                })
                .collect();
            responses.sort_by(|a, b| b.relief.total_cmp(&a.relief));
            if responses.is_empty() {
                return None;
            }
            let effect = strongest(&responses, Response::on_throughput);
            let on_latency = strongest(&responses, Response::on_latency);
            Some(Elasticity {
                resource,
                responses,
                effect,
                on_latency,
            })
        })
        .collect()
}

/// The number of distinct steps of all limits, including steps without a valid load.
pub fn comparisons(observations: &[Observation]) -> usize {
    let mut steps: Vec<(Resource, u64)> = observations
        .iter()
        .filter_map(|observation| observation.change)
        .map(|change| (change.resource, change.factor.to_bits()))
        .collect();
    steps.sort_unstable();
    steps.dedup();
    steps.len()
}

/// The level of a single interval, and the level of each simultaneous interval.
#[derive(Debug, Clone, Copy)]
struct Levels {
    single: Intervals,
    simultaneous: Intervals,
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

/// The factors by which a resource was varied, each with its relief.
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

/// The response to one step; `None` without a pair of loads.
fn response(
    levels: Levels,
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
        let single = levels.single.mean(&pairs, RESOLUTION)?.estimate;
        let simultaneous = levels.simultaneous.mean(&pairs, RESOLUTION)?.estimate;
        Some((single, simultaneous.interval))
    };
    let (throughput, throughput_simultaneous) = of(0)?;
    let (latency, latency_simultaneous) = of(1)?;
    let (latency_p98, _) = of(2)?;
    Some(Response {
        factor,
        relief,
        throughput,
        throughput_simultaneous,
        latency,
        latency_simultaneous,
        latency_p98,
    })
}

/// The strongest effect of the reliefs or, if there is no relief, of the squeezes.
fn strongest(responses: &[Response], effect: impl Fn(&Response) -> Effect) -> Effect {
    let relieved = responses.iter().any(Response::is_relief);
    responses
        .iter()
        .filter(|response| response.is_relief() == relieved)
        .map(effect)
        .max()
        .unwrap_or(Effect::Undecided)
}

fn negated(interval: Interval) -> Interval {
    Interval {
        low: -interval.high,
        high: -interval.low,
    }
}

/// Converts an elasticity to the relative change at a relief. The conversion is monotonic, so the ends of the interval
/// remain ends. They are swapped if the relief is negative.
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
