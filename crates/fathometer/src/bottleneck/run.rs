//! The trials: the set-up as it is, and with one limit after another changed by a step, again and
//! again.
//!
//! Either as often as was asked for, an invalid trial being made again; or until the verdict is settled
//! ([`Repetitions`]).
//!
//! All trials of a replicate have the same random numbers: what users ask for, when, and what the path
//! does to their packets. Their order is drawn anew for every replicate, so that what the machine does
//! besides falls on all of them alike.

use std::sync::Mutex;

use fathometer_analysis::bottleneck::{Change, Observation, Outcome, Resource, judge};
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_sys::Clock;
use fathometer_sys::cgroup::AppliedLimit;
use serde::{Deserialize, Serialize};

use super::setup::{How, Setup};
use super::signals;
use crate::command::Failure;
use crate::progress::Progress;
use crate::trial::{Measured, TrialError};

/// How often a trial that turned out invalid is made again, where the number of repetitions is fixed.
const SECOND_CHANCES: u32 = 2;

/// How often every trial is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// So often. What turns out invalid is made again at once, a few times.
    Fixed(u32),
    /// Until the verdict is settled ([`Verdict::is_settled`]), and between so often and so often. What
    /// turns out invalid is left out: the next repetition makes up for it, at another moment. A verdict
    /// that is invalid after one repetition more than the least ends it too: this machine is not to be
    /// measured on now.
    ///
    /// [`Verdict::is_settled`]: fathometer_analysis::bottleneck::Verdict::is_settled
    UntilSettled {
        /// The fewest, 2 at least.
        least: u32,
        /// The most.
        most: u32,
    },
}

impl Repetitions {
    /// The most that there may be.
    pub const fn most(self) -> u32 {
        match self {
            Repetitions::Fixed(count) => count,
            Repetitions::UntilSettled { most, .. } => most,
        }
    }

    /// The fewest after which there may be an end, where that is open.
    pub const fn least(self) -> Option<u32> {
        match self {
            Repetitions::Fixed(_) => None,
            Repetitions::UntilSettled { least, .. } => Some(least),
        }
    }

    /// How often a trial that turns out invalid is made again at once.
    const fn second_chances(self) -> u32 {
        match self {
            Repetitions::Fixed(_) => SECOND_CHANCES,
            Repetitions::UntilSettled { .. } => 0,
        }
    }

    /// Whether nothing more is to be learnt after so many.
    fn are_enough(self, made: u32, observations: &[Observation], seed: Seed) -> bool {
        let Some(least) = self.least().filter(|least| made >= *least) else {
            return false;
        };
        let verdict = judge(observations, seed);
        if made > least && matches!(verdict.outcome, Outcome::Invalid { .. }) {
            return true;
        }
        // Of what was never valid there is no elasticity.
        let known = |change: Change| {
            let mut ranking = verdict.ranking.iter();
            ranking.any(|r| r.resource == change.resource && r.elasticity.is_some())
        };
        let mut changes = observations.iter().filter_map(|seen| seen.change);
        verdict.is_settled(least as usize) && changes.all(known)
    }
}

/// What is to be found out.
#[derive(Debug, Clone)]
pub struct Request {
    /// Of what.
    pub setup: Setup,
    /// The resources that are to be varied, if they can be.
    pub resources: Vec<Resource>,
    /// What limits are multiplied by, above 1.
    pub step: f64,
    /// Repetitions of every trial.
    pub repetitions: Repetitions,
    /// Where everything random comes from.
    pub seed: Seed,
    /// No progress.
    pub quiet: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Every trial, in the order in which they were made, those that are invalid included.
    pub observations: Vec<Observation>,
    /// What was not varied.
    pub skipped: Vec<Skipped>,
    /// The limits of the host as they read back.
    pub limits: Vec<AppliedLimit>,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// A resource that was not varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    pub resource: Resource,
    /// Why not.
    pub reason: String,
}

/// All resources that can be varied.
pub fn resources() -> Vec<Resource> {
    let all = Resource::ALL.into_iter();
    all.filter(|resource| resource.can_be_varied()).collect()
}

/// A set-up as it is, or with one limit changed.
struct Variant {
    setup: Setup,
    change: Option<Change>,
}

/// Makes all trials. `record` is given each as it ends.
pub fn explore(
    request: &Request,
    interrupted: &(dyn Fn() -> bool + Sync),
    record: &mut dyn FnMut(&Observation) -> Result<(), Failure>,
) -> Result<Findings, Failure> {
    let _awake = fathometer_sys::awake::in_a_guest(&fathometer_sys::Machine::read());
    let mut findings = Findings::default();
    let mut variants = vec![Variant {
        setup: request.setup.clone(),
        change: None,
    }];
    let mut trials = Trials {
        request,
        interrupted,
        record,
        building: Mutex::new(()),
        clock: Clock::start(),
    };
    // What cannot be run at all is told before anything else is tried.
    let Some(pilot) = trials.make(&variants[0], 0, &mut findings.observations)? else {
        findings.interrupted = true;
        return Ok(findings);
    };
    findings.limits.clone_from(&pilot.limits);
    for resource in &request.resources {
        match variant(request, *resource, &pilot) {
            Ok(variant) => variants.push(variant),
            Err(reason) => findings.skipped.push(Skipped {
                resource: *resource,
                reason,
            }),
        }
    }
    let repetitions = request.repetitions;
    let total = variants.len() as u64 * u64::from(repetitions.most());
    let progress = Progress::new(total, "trials", trials.clock, request.quiet);
    progress.step("as it is");
    for replicate in 0..repetitions.most() {
        if repetitions.are_enough(replicate, &findings.observations, request.seed) {
            break;
        }
        for place in order(variants.len(), request.seed, replicate) {
            if (replicate, place) == (0, 0) {
                continue;
            }
            let variant = &variants[place];
            if trials
                .make(variant, replicate, &mut findings.observations)?
                .is_none()
            {
                findings.interrupted = true;
                progress.finish();
                return Ok(findings);
            }
            progress.step(&variant.to_string());
        }
    }
    progress.finish();
    Ok(findings)
}

/// The set-up with this resource changed: relieved where that can be, else squeezed.
fn variant(request: &Request, resource: Resource, pilot: &Measured) -> Result<Variant, String> {
    let used = usage(pilot);
    if resource == Resource::OneCore
        && let Some(cores) = used.cores.filter(|cores| *cores > 1.0)
    {
        return Err(format!(
            "the host uses {cores:.2} cores: one slow core among them cannot be made"
        ));
    }
    let setup = &request.setup;
    let vary = |how| setup.varied(resource, request.step, how);
    let varied = match resource {
        // Nobody can make a core faster than it is.
        Resource::OneCore => vary(How::Squeezed),
        _ => vary(How::Relieved).or_else(|reason| vary(How::Squeezed).map_err(|_| reason)),
    };
    let (setup, change) = varied.map_err(|reason| match (resource, used.memory) {
        (Resource::Memory, Some(memory)) => format!("{reason}; {memory} in use"),
        _ => reason,
    })?;
    Ok(Variant {
        setup,
        change: Some(change),
    })
}

/// What the host used in a trial.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    cores: Option<f64>,
    memory: Option<Bytes>,
}

fn usage(measured: &Measured) -> Used {
    let step = measured.samples.between(measured.from, measured.to);
    let group = step.as_ref().and_then(|step| {
        let group = step.change.groups.first()?.as_ref()?;
        Some((step, group))
    });
    group.map_or_else(Used::default, |(step, group)| Used {
        cores: group.cpu.and_then(|cpu| step.share(cpu.total)),
        memory: group.memory.current,
    })
}

/// The places of so many variants in the order that a replicate tries them in.
fn order(count: usize, seed: Seed, replicate: u32) -> Vec<usize> {
    let draws = seed.stream("order").child(u64::from(replicate));
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|place| draws.draw(*place as u64));
    places
}

struct Trials<'a> {
    request: &'a Request,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    record: &'a mut dyn FnMut(&Observation) -> Result<(), Failure>,
    building: Mutex<()>,
    clock: Clock,
}

impl Trials<'_> {
    /// Makes one trial, and maybe again when it is invalid; `None` when the user wants to end.
    fn make(
        &mut self,
        variant: &Variant,
        replicate: u32,
        observations: &mut Vec<Observation>,
    ) -> Result<Option<Measured>, Failure> {
        // Common random numbers: none of this depends on what is changed.
        let seed = self.request.seed.child(u64::from(replicate));
        for chance in 0.. {
            let trial = variant.setup.trial(seed, self.clock)?;
            let measured = match trial.run(&self.building, self.interrupted) {
                Ok(measured) => measured,
                Err(TrialError::Interrupted) => return Ok(None),
                Err(error) => return Err(format!("{variant}: {error}").into()),
            };
            let observation =
                signals::observation(&variant.setup, variant.change, replicate, &measured);
            (self.record)(&observation)?;
            let valid = observation.validity.is_valid();
            observations.push(observation);
            if valid || chance == self.request.repetitions.second_chances() {
                return Ok(Some(measured));
            }
        }
        unreachable!("the last chance returns")
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.change {
            None => write!(f, "as it is"),
            Some(change) => write!(f, "{} x {:.3}", change.resource, change.factor),
        }
    }
}

/// A moment in universal time, in seconds, for records.
pub fn now() -> f64 {
    Clock::start().realtime_of(Instant::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replicate_has_all_variants_in_an_order_of_its_own() {
        let orders: Vec<Vec<usize>> = (0..4).map(|n| order(7, Seed(1), n)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
        assert_eq!(order(7, Seed(1), 2), orders[2]);
    }
}
