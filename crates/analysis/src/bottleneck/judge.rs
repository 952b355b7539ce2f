//! The judgement: from observations to a verdict.

use std::cmp::Ordering;

use super::suspicion::{machine_is_saturated, unexplained_wait, waited_for_processor};
use super::words::{self, capital, list, percent};
use super::{
    Basis, Confidence, Counts, Effect, Elasticity, Observation, Outcome, Ranked, Resource,
    Response, Signals, Suspicion, Verdict, comparisons, elasticities, suspect,
};
use crate::statistics::{Estimate, Intervals};

/// Judges which resource limited a load, from loads with unchanged limits (baselines) and loads with one limit changed.
/// `intervals` is the level of the intervals. An effect of a limit counts only at the simultaneous level of all limits.
/// So the verdict has the error rate of one interval ([`Elasticity`]).
///
/// The checks run in this order:
///
/// 1. No baseline is valid, or more baselines are invalid than valid: invalid.
/// 2. A limit is named if its relief raises throughput. If only a squeeze was possible, the limit must also be
///    saturated. Of several such limits, the one with the largest elasticity is named. If a cause and its consequence
///    cannot be distinguished, the cause is named.
/// 3. A squeeze of any of several limits costs throughput, and relief of only one does not help: together.
/// 4. An interval is too wide, or a saturated resource was not varied: undecided.
/// 5. Otherwise, the remaining candidate is named by elimination.
pub fn judge(observations: &[Observation], intervals: Intervals) -> Verdict {
    let counts = Counts::of(observations);
    let baselines = observations.iter().filter(|o| o.change.is_none());
    let signals = Signals::mean(
        baselines
            .filter(|observation| observation.validity.is_valid())
            .map(|observation| &observation.signals),
    );
    let case = Case {
        elasticities: elasticities(observations, intervals),
        suspicions: suspect(&signals),
        signals,
    };
    let outcome = invalid(observations, &counts).unwrap_or_else(|| case.outcome());
    let mut verdict = Verdict {
        summary: String::new(),
        ranking: case.ranking(&outcome),
        remarks: case.remarks(&outcome),
        outcome,
        counts,
        signals,
        level: intervals.level,
        comparisons: comparisons(observations),
    };
    verdict.remarks.extend(doubts(observations, &counts));
    if matches!(verdict.outcome, Outcome::Invalid { .. }) {
        verdict.ranking.clear();
        verdict.remarks.clear();
    }
    verdict.summary = summary(&verdict);
    verdict
}

impl Counts {
    fn of(observations: &[Observation]) -> Counts {
        let mut counts = Counts::default();
        for observation in observations {
            match (observation.validity.is_valid(), observation.change) {
                (false, _) => counts.invalid += 1,
                (true, None) => counts.baselines += 1,
                (true, Some(_)) => counts.changed += 1,
            }
        }
        counts
    }
}

/// The reason why the observations allow no verdict; `None` if they allow one.
fn invalid(observations: &[Observation], counts: &Counts) -> Option<Outcome> {
    let refused: Vec<&Observation> = observations
        .iter()
        .filter(|o| o.change.is_none() && !o.validity.is_valid())
        .collect();
    if refused.is_empty() || refused.len() < counts.baselines {
        return None;
    }
    let mut reasons: Vec<String> = Vec::new();
    for reason in refused.iter().flat_map(|o| &o.validity.reasons) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    Some(Outcome::Invalid { reasons })
}

/// Reasons to doubt the observations.
fn doubts(observations: &[Observation], counts: &Counts) -> Vec<String> {
    let mut doubts = Vec::new();
    if counts.invalid > 0 {
        doubts.push(format!(
            "{} of {} trials were excluded: their generator or path was INVALID",
            counts.invalid,
            observations.len()
        ));
    }
    let errors: Vec<f64> = observations
        .iter()
        .filter(|o| o.change.is_none() && o.validity.is_valid())
        .map(|o| o.errors)
        .collect();
    let errors = crate::statistics::mean(&errors);
    if errors >= 0.01 {
        doubts.push(format!(
            "{} of the exchanges failed; throughput counts the others",
            percent(errors)
        ));
    }
    doubts
}

/// The evidence, and the conclusions from it.
struct Case {
    signals: Signals,
    suspicions: Vec<Suspicion>,
    elasticities: Vec<Elasticity>,
}

impl Case {
    fn outcome(&self) -> Outcome {
        if self.elasticities.is_empty() {
            return undecided(match self.suspicions.first() {
                Some(first) => format!(
                    "no limit was varied; {} suspected from the probes: the {}; to decide: {}",
                    first.confidence.words(),
                    first.resource.noun(),
                    first.confirm
                ),
                None => "no limit was varied, and the probes indicate no bottleneck".to_owned(),
            });
        }
        self.limiting()
            .or_else(|| self.together())
            .or_else(|| self.starved())
            .or_else(|| self.unclear())
            .unwrap_or_else(|| self.by_elimination())
    }

    /// The limit that the perturbations name; `None` if they name no limit.
    fn limiting(&self) -> Option<Outcome> {
        let mut candidates: Vec<&Elasticity> = self.limits_that(|elasticity| {
            elasticity.effect == Effect::Limits
                && (elasticity.was_relieved() || self.is_at_its_limit(elasticity))
        });
        candidates.sort_by(|a, b| stronger(a, b));
        let strongest = candidates.first()?;
        let found = strongest.resource;
        if let Some(noise) = self.noise_like(strongest) {
            return Some(undecided(noise));
        }
        let resource = self.renamed(found);
        let basis = match self.confidence(resource) >= Some(Confidence::Likely) {
            true => Basis::SaturationAndPerturbation,
            false => Basis::Perturbation,
        };
        Some(Outcome::Limited { resource, basis })
    }

    /// Whether a resource that was only squeezed is also at its limit without the squeeze. The evidence is either the
    /// probes, or a throughput that fell almost in proportion. (At utilisation u, a squeeze by f leaves f/u of the
    /// throughput. So an elasticity of 0.75 at a step of 1.5 means a utilisation of 90 %.)
    fn is_at_its_limit(&self, squeezed: &Elasticity) -> bool {
        let in_proportion = |response: &Response| response.throughput.value >= 0.75;
        match self.confidence(squeezed.resource) {
            Some(Confidence::Likely | Confidence::Strong) => true,
            Some(Confidence::Possible) => squeezed.clearest().is_some_and(in_proportion),
            None => false,
        }
    }

    /// The reason why an elasticity may be noise: relief of another resource reduced throughput by at least as much,
    /// although that relief cannot do harm.
    fn noise_like(&self, found: &Elasticity) -> Option<String> {
        let size = found.clearest()?.throughput.value;
        let harm = self
            .elasticities
            .iter()
            .filter(|e| e.effect == Effect::Harms && !e.resource.can_harm())
            .find(|e| e.clearest().is_some_and(|r| -r.throughput.value >= size))?;
        Some(format!(
            "the {} seems to be the bottleneck ({}), but {}, which is noise of the same size: more replicates or a larger step \
             would decide",
            found.resource.noun(),
            described(found),
            described(harm)
        ))
    }

    /// The resource to name. If a server computes on one thread, more workers help because they use other cores. Then
    /// the limit is the core, and not the number of workers.
    fn renamed(&self, resource: Resource) -> Resource {
        let core = self.confidence(Resource::OneCore);
        match resource {
            Resource::Workers if core >= Some(Confidence::Likely) => Resource::OneCore,
            other => other,
        }
    }

    /// Several limits that are equally close.
    fn together(&self) -> Option<Outcome> {
        let mut shared = self.limits_that(|elasticity| {
            elasticity.effect == Effect::Contributes && elasticity.was_relieved()
        });
        // The elasticities to all resources add up to 1. A sum below 0.5 for the varied limits means that most of the
        // effect is due to something that was not varied.
        let values = shared
            .iter()
            .filter_map(|e| Some(e.clearest()?.throughput.value));
        if shared.len() < 2 || values.sum::<f64>() < 0.5 {
            shared = self.limits_that(|elasticity| {
                elasticity.effect <= Effect::DoesNot && elasticity.is_near()
            });
        }
        if shared.len() < 2 {
            return None;
        }
        shared.sort_by(|a, b| stronger(a, b));
        let resources = shared
            .iter()
            .map(|elasticity| elasticity.resource)
            .collect();
        Some(Outcome::Together { resources })
    }

    /// The processors of the machine were saturated, and not by the host alone. No step of the host's limits can show
    /// this, so elimination would wrongly name the server itself.
    fn starved(&self) -> Option<Outcome> {
        if !machine_is_saturated(&self.signals) {
            return None;
        }
        let idle = percent(self.signals.machine_idle?);
        let used = percent(self.signals.cpu_of_quota?);
        let waited = percent(waited_for_processor(&self.signals));
        Some(undecided(format!(
            "the processors of this machine are saturated ({idle} idle) while the host uses {used} of its quota and \
             waits for a processor for {waited} of the time: the generator, the path or other programs use the \
             rest. Set a smaller quota (--cpu), so that the host's own limit is reached first, or run on a machine \
             with more processors or less other load"
        )))
    }

    /// The reason why a verdict by elimination would be unsafe.
    fn unclear(&self) -> Option<Outcome> {
        for elasticity in self.limits_that(|elasticity| elasticity.effect == Effect::Undecided) {
            let (resource, clearest) = (elasticity.resource, elasticity.clearest()?);
            let far = clearest.may_limit();
            let is_clear =
                elasticity.was_relieved() || self.confidence(resource) >= Some(Confidence::Likely);
            if far && is_clear {
                let all = Estimate {
                    interval: clearest.throughput_simultaneous,
                    ..clearest.throughput
                };
                return Some(undecided(format!(
                    "the elasticity to the {} is {} at the level of all limits, n = {}: too wide to decide; use more \
                     replicates or a larger step",
                    resource.noun(),
                    words::elasticity(&all),
                    all.n
                )));
            }
        }
        if let [only] = self.limits_that(|e| e.effect == Effect::Contributes)[..]
            && only.was_relieved()
            && self.confidence(only.resource) >= Some(Confidence::Likely)
        {
            return Some(undecided(format!(
                "the {} is saturated and contributes; the other limiting resource was not varied",
                only.resource.noun()
            )));
        }
        for suspicion in &self.suspicions {
            let resource = suspicion.resource;
            let varied = self.elasticity(resource);
            match (suspicion.confidence, varied) {
                (Confidence::Strong, Some(varied))
                    if resource.is_a_limit() && varied.effect <= Effect::DoesNot =>
                {
                    return Some(undecided(format!(
                        "the {} looks saturated ({}), but {}",
                        resource.noun(),
                        suspicion.evidence[0],
                        described(varied)
                    )));
                }
                (Confidence::Likely, None) if resource.is_a_limit() => {
                    return Some(undecided(format!(
                        "the {} is probably the bottleneck but was not varied; to decide: {}",
                        resource.noun(),
                        suspicion.confirm
                    )));
                }
                _ => {}
            }
        }
        None
    }

    /// The verdict by elimination: no varied resource is the bottleneck.
    fn by_elimination(&self) -> Outcome {
        let named = |resource| Outcome::Limited {
            resource,
            basis: match self
                .elasticity(resource)
                .map(|elasticity| elasticity.effect)
            {
                Some(Effect::Limits) if self.suspicion(resource).is_some() => {
                    Basis::SaturationAndPerturbation
                }
                Some(Effect::Limits) => Basis::Perturbation,
                _ => Basis::Elimination,
            },
        };
        let saturated = |suspicion: &&Suspicion| {
            suspicion.confidence == Confidence::Strong
                && suspicion.resource.is_a_limit()
                && self.elasticity(suspicion.resource).is_none()
        };
        if let Some(suspicion) = self.suspicions.iter().find(saturated) {
            return named(suspicion.resource);
        }
        let waits = unexplained_wait(&self.signals).is_some_and(|(_, share)| share >= 0.5);
        let paused = self.confidence(Resource::Load) == Some(Confidence::Strong);
        match self.elasticity(Resource::Load).map(|load| load.effect) {
            // More users raise throughput: either the load offers too little, or each request waits in the server.
            Some(Effect::Limits | Effect::Contributes) if waits && !paused => {
                named(Resource::ServerItself)
            }
            Some(Effect::Limits | Effect::Contributes) => named(Resource::Load),
            // More users do not raise throughput, and no limit of the host is the cause.
            Some(Effect::DoesNot | Effect::Harms) => named(Resource::ServerItself),
            Some(Effect::Undecided) | None if paused => named(Resource::Load),
            Some(Effect::Undecided) | None if waits => named(Resource::ServerItself),
            Some(Effect::Undecided) | None => undecided(
                "no varied limit has an effect, and neither the phases of an exchange nor a varied load show whether the \
                 server or the load is the bottleneck"
                    .to_owned(),
            ),
        }
    }

    fn ranking(&self, outcome: &Outcome) -> Vec<Ranked> {
        let named: Vec<Resource> = match outcome {
            Outcome::Limited { resource, .. } => vec![*resource],
            Outcome::Together { resources } => resources.clone(),
            Outcome::Undecided { .. } | Outcome::Invalid { .. } => Vec::new(),
        };
        let mut ranking: Vec<Ranked> = Resource::ALL
            .into_iter()
            .filter_map(|resource| {
                let elasticity = self.elasticity(resource).cloned();
                let suspicion = self.suspicion(resource).cloned();
                if elasticity.is_none() && suspicion.is_none() && !named.contains(&resource) {
                    return None;
                }
                let mut evidence: Vec<String> = suspicion
                    .iter()
                    .flat_map(|suspicion| suspicion.evidence.clone())
                    .collect();
                let responses = elasticity.iter().flat_map(|e| &e.responses);
                evidence.extend(responses.map(|r| words::response(resource, r)));
                Some(Ranked {
                    resource,
                    elasticity,
                    suspicion,
                    evidence,
                })
            })
            .collect();
        let place = |ranked: &Ranked| {
            let place = named
                .iter()
                .position(|resource| *resource == ranked.resource);
            place.unwrap_or(named.len())
        };
        let effect = |ranked: &Ranked| ranked.elasticity.as_ref().map(|e| e.effect);
        let value = |ranked: &Ranked| {
            let clearest = ranked.elasticity.as_ref().and_then(Elasticity::clearest);
            clearest.map_or(f64::NEG_INFINITY, |response| response.throughput.value)
        };
        let confidence = |ranked: &Ranked| ranked.suspicion.as_ref().map(|s| s.confidence);
        ranking.sort_by(|a, b| {
            place(a)
                .cmp(&place(b))
                .then(effect(b).cmp(&effect(a)))
                .then(value(b).total_cmp(&value(a)))
                .then(confidence(b).cmp(&confidence(a)))
        });
        ranking
    }

    /// Remarks to show with the verdict.
    fn remarks(&self, outcome: &Outcome) -> Vec<String> {
        let mut remarks = Vec::new();
        let named = match outcome {
            Outcome::Limited { resource, .. } => Some(*resource),
            _ => None,
        };
        for suspicion in &self.suspicions {
            let resource = suspicion.resource;
            let Some(varied) = self.elasticity(resource) else {
                continue;
            };
            if suspicion.confidence >= Confidence::Likely
                && varied.effect <= Effect::DoesNot
                && named.is_some_and(|named| named != resource)
            {
                remarks.push(format!(
                    "saturation and perturbation disagree about the {}: {}, but {}",
                    resource.noun(),
                    suspicion.evidence[0],
                    described(varied)
                ));
            }
        }
        if let Outcome::Limited {
            resource,
            basis: Basis::Perturbation,
        } = outcome
            && resource.is_a_limit()
        {
            remarks.push(format!(
                "no probe showed saturation of the {}; only the perturbation shows its effect",
                resource.noun()
            ));
        }
        remarks.extend(self.cause_and_victim(named));
        if named == Some(Resource::OneCore)
            && let Some(workers) = self.elasticity(Resource::Workers)
            && workers.effect == Effect::Limits
        {
            remarks.push(format!(
                "{}: more workers compute on more cores, so the bottleneck is the speed of one core, not the number of \
                 workers",
                described(workers)
            ));
        }
        if let Some(named) = named {
            let others = self.limits_that(|elasticity| {
                elasticity.effect >= Effect::Contributes
                    && elasticity.was_relieved()
                    && elasticity.resource != named
                    && self.renamed(elasticity.resource) != named
            });
            for other in others {
                remarks.push(format!(
                    "{}, so this resource {} as well",
                    described(other),
                    other.effect.words()
                ));
            }
        }
        // Limits that raise throughput are already reported, with their effect on latency.
        let latency: Vec<String> = self
            .limits_that(|elasticity| elasticity.on_latency >= Effect::Contributes)
            .into_iter()
            .filter(|e| !(e.effect >= Effect::Contributes && e.was_relieved()))
            .filter(|elasticity| Some(elasticity.resource) != named)
            .filter_map(|e| {
                Some(words::latency_response(
                    e.resource,
                    e.clearest_for_latency()?,
                ))
            })
            .collect();
        if !latency.is_empty() {
            remarks.push(format!(
                "limits that change only latency: {}",
                list(&latency)
            ));
        }
        for harm in self
            .elasticities
            .iter()
            .filter(|e| e.effect == Effect::Harms)
        {
            remarks.push(match harm.resource.can_harm() {
                true => format!("{}: more is worse", described(harm)),
                false => format!(
                    "{}, which is noise that the intervals do not cover",
                    described(harm)
                ),
            });
        }
        remarks
    }

    fn cause_and_victim(&self, named: Option<Resource>) -> Option<String> {
        const DISK: [Resource; 2] = [Resource::DiskOperations, Resource::DiskBytes];
        let suspected = |resource| self.suspicion(resource).is_some();
        match named? {
            Resource::Memory if DISK.into_iter().any(suspected) => Some(
                "the disk is busy because the files do not fit in memory: memory is the cause"
                    .to_owned(),
            ),
            disk if DISK.contains(&disk) && suspected(Resource::Memory) => Some(
                "the disk is read because the files do not fit in memory; at this step, a faster disk helps more \
                 than memory"
                    .to_owned(),
            ),
            Resource::Workers if suspected(Resource::Backlog) => Some(
                "the accept queue is full because all workers are busy; a longer queue would only add waiting time"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn elasticity(&self, resource: Resource) -> Option<&Elasticity> {
        self.elasticities.iter().find(|e| e.resource == resource)
    }

    fn suspicion(&self, resource: Resource) -> Option<&Suspicion> {
        self.suspicions.iter().find(|s| s.resource == resource)
    }

    fn confidence(&self, resource: Resource) -> Option<Confidence> {
        Some(self.suspicion(resource)?.confidence)
    }

    /// The limits of host, server and network that satisfy the condition.
    fn limits_that(&self, is: impl Fn(&Elasticity) -> bool) -> Vec<&Elasticity> {
        self.elasticities
            .iter()
            .filter(|elasticity| elasticity.resource.is_a_limit() && is(elasticity))
            .collect()
    }
}

/// Orders limits by strength, the stronger first. A relief is stronger evidence than a squeeze. If two limits cannot be
/// distinguished, the cause comes before its consequence. Otherwise the larger elasticity comes first.
fn stronger(a: &Elasticity, b: &Elasticity) -> Ordering {
    let by_relief = b.was_relieved().cmp(&a.was_relieved());
    let (Some(first), Some(second)) = (a.clearest(), b.clearest()) else {
        return by_relief;
    };
    let by_cause = match overlap(first, second) {
        true => is_victim(a.resource, b.resource).cmp(&is_victim(b.resource, a.resource)),
        false => Ordering::Equal,
    };
    let by_value = second.throughput.value.total_cmp(&first.throughput.value);
    by_relief.then(by_cause).then(by_value)
}

/// Whether a shortage of `a` may only be the consequence of a shortage of `b`.
fn is_victim(a: Resource, b: Resource) -> bool {
    match b {
        Resource::Memory => matches!(a, Resource::DiskOperations | Resource::DiskBytes),
        Resource::Workers => a == Resource::Backlog,
        _ => false,
    }
}

fn overlap(a: &Response, b: &Response) -> bool {
    match (a.throughput.interval, b.throughput.interval) {
        (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
        _ => true,
    }
}

fn described(elasticity: &Elasticity) -> String {
    let response = elasticity
        .clearest()
        .map(|r| words::response(elasticity.resource, r));
    response.unwrap_or_default()
}

/// The evidence for a resource that is named by elimination: the effects of varying the other resources.
fn eliminated(verdict: &Verdict, named: Resource) -> Vec<String> {
    let varied = || {
        let ranking = verdict.ranking.iter();
        let others = ranking.filter(|ranked| ranked.resource != named);
        others.filter_map(|ranked| ranked.elasticity.as_ref())
    };
    let limits: Vec<&Elasticity> = varied().filter(|e| e.resource.is_a_limit()).collect();
    let nouns = |of: &[&Elasticity]| -> String {
        let nouns: Vec<String> = of
            .iter()
            .map(|e| format!("the {}", e.resource.noun()))
            .collect();
        list(&nouns)
    };
    let differ: Vec<&Elasticity> = limits
        .iter()
        .filter(|elasticity| elasticity.effect >= Effect::Contributes)
        .copied()
        .collect();
    let mut parts = vec![match (limits.is_empty(), differ.is_empty()) {
        (true, _) => "no limit of the host was varied".to_owned(),
        (false, true) => "none of the varied limits makes a difference".to_owned(),
        (false, false) => format!("of the varied limits only {} contributes", nouns(&differ)),
    }];
    let load = varied().filter(|elasticity| elasticity.resource == Resource::Load);
    parts.extend(
        load.filter(|load| load.effect >= Effect::Contributes)
            .map(described),
    );
    parts
}

fn undecided(reason: String) -> Outcome {
    Outcome::Undecided { reason }
}

fn summary(verdict: &Verdict) -> String {
    let first = |resource: Resource| -> Vec<String> {
        let ranked = verdict.ranking.iter().find(|r| r.resource == resource);
        let Some(ranked) = ranked else {
            return Vec::new();
        };
        let seen = ranked.suspicion.iter().map(|s| s.evidence[0].clone());
        seen.chain(ranked.elasticity.iter().map(described))
            .collect()
    };
    match &verdict.outcome {
        Outcome::Limited { resource, basis } => {
            let mut parts = first(*resource);
            if *basis == Basis::Elimination {
                parts.extend(eliminated(verdict, *resource));
            }
            let head = match resource {
                Resource::Load => {
                    "no resource of the host limited the throughput; the offered load did"
                        .to_owned()
                }
                other => format!("the {} limited the load", other.noun()),
            };
            match parts.is_empty() {
                true => capital(&head),
                false => format!("{}: {}", capital(&head), parts.join("; ")),
            }
        }
        Outcome::Together { resources } => {
            let nouns: Vec<String> = resources
                .iter()
                .map(|r| format!("the {}", r.noun()))
                .collect();
            format!(
                "{} limited the load together, and none of them alone",
                capital(&list(&nouns))
            )
        }
        Outcome::Undecided { reason } => format!("Undecided: {reason}"),
        Outcome::Invalid { reasons } => format!("INVALID, so no verdict: {}", reasons.join("; ")),
    }
}
