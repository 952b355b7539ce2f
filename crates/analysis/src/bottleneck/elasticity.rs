//! How much throughput and latency answer to a step of a limit.
//!
//! The elasticity of throughput X to a limit L is d ln X / d ln L: 1 when a quarter more of it
//! gives a quarter more throughput, 0 when it gives nothing. A step of factor *f* that changes
//! throughput from X to X′ estimates it as ln(X′/X) / ln *f*, in every replicate by itself, since
//! both loads had the same random numbers; the interval is the bootstrap's over replicates.
//!
//! All elasticities are to *relief*: the round trip's is to 1/RTT. So whatever the resource, a
//! positive elasticity of throughput and a negative one of latency mean that giving it helps.
//!
//! A limit that is relieved tells whether it limits now; one that is squeezed tells whether it is
//! near. A resource used to 90 % gives nothing for more of it, and takes throughput for a fifth
//! less: so where there is a relief, it alone decides.

use std::collections::BTreeMap;

use fathometer_model::Seed;
use serde::{Deserialize, Serialize};

use super::{Observation, Resource};
use crate::statistics::{Bootstrap, Estimate, Interval, mean};

/// An elasticity from here on limits ...
const LIMITS: f64 = 0.5;
/// ... provided that its interval ends above this: three pairs that differ at random lie above zero
/// together once in eight times.
const LIMITS_LOW: f64 = 0.25;
/// As does a step that gives this much more throughput, however large the step was: a backlog of
/// ten times the length is a small thing to give.
const LIMITS_GAIN: f64 = 0.25;
/// Provided that it is surely this much.
const LIMITS_GAIN_LOW: f64 = 0.1;
/// An interval that ends above this contributes; noise and common drift stay below.
const CONTRIBUTES: f64 = 0.1;
/// An interval that ends below this does not limit ...
const NOT: f64 = 0.25;
/// ... provided that the step can have changed the figure by no more than this.
const NOT_GAIN: f64 = 0.12;

/// What steps of one limit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    /// The limit.
    pub resource: Resource,
    /// A step each, the largest relief first.
    pub responses: Vec<Response>,
    /// What it is to throughput.
    pub effect: Effect,
    /// What it is to mean latency.
    pub on_latency: Effect,
}

/// What one step of one limit did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// What the limit was multiplied by.
    pub factor: f64,
    /// Its logarithm, positive for a relief.
    pub relief: f64,
    /// Elasticity of throughput to relief; `n` is the number of pairs.
    pub throughput: Estimate,
    /// Elasticity of mean latency to relief.
    pub latency: Estimate,
    /// Elasticity of the 98th percentile of latency to relief.
    pub latency_p98: Estimate,
}

/// What a limit is to a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Relief makes it worse: more workers than there is memory for.
    Harms,
    /// Relief gives nothing, or next to it.
    DoesNot,
    /// The interval is too wide to tell.
    Undecided,
    /// Relief gives something, less than half in proportion.
    Contributes,
    /// Relief gives half in proportion and more, or a quarter outright.
    Limits,
}

impl Effect {
    /// In words, after the resource: `limits`.
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

    /// Whether the limit was relieved.
    pub fn is_relief(&self) -> bool {
        self.relief > 0.0
    }
}

impl Elasticity {
    /// The step that tells most of throughput: the relief with the largest elasticity, or without a
    /// relief the squeeze with the largest.
    pub fn telling(&self) -> Option<&Response> {
        let relieved = self.was_relieved();
        self.responses
            .iter()
            .filter(|response| response.is_relief() == relieved)
            .max_by(|a, b| a.throughput.value.total_cmp(&b.throughput.value))
    }

    /// The step that tells most of mean latency, chosen as [`Elasticity::telling`] is.
    pub fn latency_telling(&self) -> Option<&Response> {
        let relieved = self.was_relieved();
        self.responses
            .iter()
            .filter(|response| response.is_relief() == relieved)
            .min_by(|a, b| a.latency.value.total_cmp(&b.latency.value))
    }

    /// Whether it was given more of, as opposed to less only.
    pub fn was_relieved(&self) -> bool {
        self.responses.iter().any(Response::is_relief)
    }

    /// Whether a squeeze of it took throughput, in proportion by half and more.
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
/// Only valid observations with a throughput and a latency above zero count, and of those only
/// pairs of a changed load and a baseline of the same replicate. Several observations of one kind
/// in one replicate (a baseline before and after) count as their geometric mean. `seed` is that of
/// the resampling.
pub fn elasticities(observations: &[Observation], seed: Seed) -> Vec<Elasticity> {
    let usable: Vec<&Observation> = observations
        .iter()
        .filter(|observation| is_usable(observation))
        .collect();
    let baseline = by_replicate(usable.iter().copied().filter(|o| o.change.is_none()));
    Resource::ALL
        .into_iter()
        .filter_map(|resource| {
            let bootstrap = Bootstrap::new(seed.stream(resource.name()));
            let mut responses: Vec<Response> = factors(&usable, resource)
                .into_iter()
                .filter_map(|(factor, relief)| {
                    let with = usable.iter().copied().filter(|observation| {
                        observation.change.is_some_and(|change| {
                            change.resource == resource && change.factor == factor
                        })
                    });
                    response(&bootstrap, &baseline, &by_replicate(with), factor, relief)
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

/// Logarithms of throughput, mean latency and its 98th percentile.
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

/// The steps that a resource was varied by, with their relief.
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

/// `None` when there is no pair.
fn response(
    bootstrap: &Bootstrap,
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
        bootstrap.mean(&pairs.collect::<Vec<f64>>())
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

/// What an elasticity says, positive meaning that relief helps.
fn effect(elasticity: Estimate, relief: f64) -> Effect {
    let Some(interval) = elasticity.interval else {
        return Effect::Undecided;
    };
    // What the figure gains when the limit is relieved by this much. For a squeeze: what it had
    // before, over what it has now.
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

/// The relative change that an elasticity means at a relief. Growing, so ends stay ends, or change
/// places when the relief is negative.
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
