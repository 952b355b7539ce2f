//! Runs the trials: the unchanged set-up, and variants in which one limit is varied by a step, in several replicates.
//!
//! Either the number of replicates is fixed, and invalid trials are repeated, or trials continue until the verdict is
//! settled ([`Repetitions`]).
//!
//! All trials of a replicate use common random numbers for the users' requests, their times, and the path's treatment of
//! packets. Each replicate has its own random order of trials, so that other activity of the machine affects all variants
//! equally.

use std::sync::Mutex;

use fathometer_analysis::bottleneck::{Change, Observation, Outcome, Resource, judge};
use fathometer_analysis::statistics::{Intervals, LEVEL, Looks};
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_sys::Clock;
use fathometer_sys::cgroup::AppliedLimit;
use serde::{Deserialize, Serialize};

use super::error::SearchError;
use super::setup::{How, Setup};
use super::signals;
use crate::progress::Progress;
use fathometer_lab::trial::{Measured, TrialError};

/// The maximum number of repeats of an invalid trial if the number of replicates is fixed.
const SECOND_CHANCES: u32 = 2;

/// The number of replicates of every trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// A fixed number of replicates. An invalid trial is repeated immediately, at most twice.
    Fixed(u32),
    /// Replicates until the verdict is settled ([`Verdict::is_settled`]) at one of the planned [`Looks`]. The error
    /// probability of the intervals is divided among the looks. An invalid trial is not repeated: the next replicate
    /// replaces it later. The search also ends if the verdict is still invalid after the first look, because the
    /// machine is then too noisy to measure.
    ///
    /// [`Verdict::is_settled`]: fathometer_analysis::bottleneck::Verdict::is_settled
    UntilSettled {
        /// The maximum number of replicates.
        most: u32,
    },
}

impl Repetitions {
    /// The maximum number of replicates.
    pub const fn most(self) -> u32 {
        match self {
            Repetitions::Fixed(count) => count,
            Repetitions::UntilSettled { most } => most,
        }
    }

    /// The planned looks at the verdict. `None` if the number of replicates is fixed.
    fn looks(self) -> Option<Looks> {
        match self {
            Repetitions::Fixed(_) => None,
            Repetitions::UntilSettled { most } => Some(Looks::up_to(most)),
        }
    }

    /// The minimum number of replicates. `None` if the number of replicates is fixed.
    pub fn least(self) -> Option<u32> {
        Some(self.looks()?.after()[0])
    }

    /// The intervals of a verdict after `made` replicates: the intervals of the last look, or of the first look if no
    /// look has happened yet.
    pub fn intervals(self, made: u32) -> Intervals {
        let level = self.looks().map_or(LEVEL, |looks| {
            let passed = looks.after().partition_point(|after| *after <= made);
            looks.level(passed.saturating_sub(1), LEVEL)
        });
        Intervals { level }
    }

    /// The maximum number of immediate repeats of an invalid trial.
    const fn second_chances(self) -> u32 {
        match self {
            Repetitions::Fixed(_) => SECOND_CHANCES,
            Repetitions::UntilSettled { .. } => 0,
        }
    }

    /// Whether the search needs no further replicates.
    fn are_enough(self, made: u32, observations: &[Observation]) -> bool {
        let Some(looks) = self.looks() else {
            return false;
        };
        let least = looks.after()[0];
        if made < least {
            return false;
        }
        let verdict = judge(observations, self.intervals(made));
        if matches!(verdict.outcome, Outcome::Invalid { .. }) {
            return made > least;
        }
        if !looks.after().contains(&made) {
            return false;
        }
        // The elasticity is unknown without a valid trial.
        let known = |change: Change| {
            let mut ranking = verdict.ranking.iter();
            ranking.any(|r| r.resource == change.resource && r.elasticity.is_some())
        };
        let mut changes = observations.iter().filter_map(|seen| seen.change);
        verdict.is_settled(least as usize) && changes.all(known)
    }
}

/// A search to run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The set-up to examine.
    pub setup: Setup,
    /// The resources to vary, if possible.
    pub resources: Vec<Resource>,
    /// The factor by which limits are varied, above 1.
    pub step: f64,
    /// The number of replicates of every trial.
    pub repetitions: Repetitions,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Whether progress is hidden.
    pub quiet: bool,
}

/// The result of all trials.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Every trial, including invalid ones, in the order of execution.
    pub observations: Vec<Observation>,
    /// The resources that were not varied.
    pub skipped: Vec<Skipped>,
    /// The limits of the host, as read back from the kernel.
    pub limits: Vec<AppliedLimit>,
    /// Whether the user interrupted the search.
    pub interrupted: bool,
}

/// A resource that was not varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The resource.
    pub resource: Resource,
    /// The reason.
    pub reason: String,
}

/// All resources that can be varied.
pub fn resources() -> Vec<Resource> {
    let all = Resource::ALL.into_iter();
    all.filter(|resource| resource.can_be_varied()).collect()
}

/// The unchanged set-up, or a copy with one varied limit.
struct Variant {
    setup: Setup,
    change: Option<Change>,
}

/// Runs all trials. Passes each observation to `record` when its trial ends.
pub fn explore(
    request: &Request,
    interrupted: &(dyn Fn() -> bool + Sync),
    record: &mut dyn FnMut(&Observation) -> Result<(), SearchError>,
) -> Result<Findings, SearchError> {
    let _awake = fathometer_sys::awake::in_a_guest(&fathometer_sys::Machine::read(), false);
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
    // If the set-up cannot run at all, this error is returned before any other trial.
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
    progress.step("unchanged");
    for replicate in 0..repetitions.most() {
        if repetitions.are_enough(replicate, &findings.observations) {
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

/// Returns the set-up with this resource varied. The resource is relieved if possible, otherwise squeezed.
fn variant(request: &Request, resource: Resource, pilot: &Measured) -> Result<Variant, String> {
    let used = usage(pilot);
    if resource == Resource::OneCore
        && let Some(cores) = used.cores.filter(|cores| *cores > 1.0)
    {
        return Err(format!(
            "the host uses {cores:.2} cores, and a single core cannot be slowed down"
        ));
    }
    let setup = &request.setup;
    let vary = |how| setup.varied(resource, request.step, how);
    let varied = match resource {
        // One core cannot be made faster, only slower.
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

/// The resource usage of the host in a trial.
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

/// Returns the random order of `count` variants in a replicate.
fn order(count: usize, seed: Seed, replicate: u32) -> Vec<usize> {
    let draws = seed.stream("order").child(u64::from(replicate));
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|place| draws.draw(*place as u64));
    places
}

struct Trials<'a> {
    request: &'a Request,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    record: &'a mut dyn FnMut(&Observation) -> Result<(), SearchError>,
    building: Mutex<()>,
    clock: Clock,
}

impl Trials<'_> {
    /// Runs a trial. Repeats an invalid trial if repeats are allowed. Returns `None` if the user interrupts the trial.
    fn make(
        &mut self,
        variant: &Variant,
        replicate: u32,
        observations: &mut Vec<Observation>,
    ) -> Result<Option<Measured>, SearchError> {
        // Common random numbers: the seed does not depend on the varied resource.
        let seed = self.request.seed.child(u64::from(replicate));
        for chance in 0.. {
            let trial = variant.setup.trial(seed, self.clock)?;
            let measured = match trial.run(&self.building, self.interrupted) {
                Ok(measured) => measured,
                Err(TrialError::Interrupted) => return Ok(None),
                Err(error) => {
                    return Err(SearchError::Trial {
                        variant: variant.to_string(),
                        error: Box::new(error),
                    });
                }
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
        unreachable!("the last attempt returns")
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.change {
            None => write!(f, "unchanged"),
            Some(change) => write!(f, "{} x {:.3}", change.resource, change.factor),
        }
    }
}

/// Returns the Unix time in seconds, for records.
pub fn now() -> f64 {
    Clock::start().realtime_of(Instant::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_numbers_of_replicates_are_judged_at_planned_looks_alone() {
        let open = Repetitions::UntilSettled { most: 5 };
        assert_eq!(open.least(), Some(3));
        let looks = Looks::up_to(5);
        let level = |made| open.intervals(made).level;
        assert_eq!(level(1), looks.level(0, LEVEL));
        assert_eq!(level(3), looks.level(0, LEVEL));
        assert_eq!(level(4), looks.level(0, LEVEL));
        assert_eq!(level(5), looks.level(1, LEVEL));
        // The error probabilities of all looks add up to the error probability of one interval of the default level.
        assert!(((1.0 - level(3)) + (1.0 - level(5)) - (1.0 - LEVEL)).abs() < 1e-12);
        let fixed = Repetitions::Fixed(2);
        assert_eq!((fixed.least(), fixed.intervals(2).level), (None, LEVEL));
    }

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
