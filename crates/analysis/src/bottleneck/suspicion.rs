//! Suspected resources, from probes alone.
//!
//! Probes alone never name the bottleneck: a saturated resource may be the consequence of a shortage elsewhere.
//! The result is a list of suspicions, each with the perturbation that would confirm it.

mod host;
mod network;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::words::{percent, time};
use super::{Resource, Signals};

/// The utilisation from which a resource is saturated. It is below 1 because of the granularity of quotas and sampling.
const FULL: f64 = 0.95;
/// The utilisation from which bursts wait for the resource.
const NEARLY: f64 = 0.85;
/// Below this idle share, a machine has no CPU time left.
const EXHAUSTED: f64 = 0.05;
/// Below this idle share, threads that wake each other up may find no free processor.
const SCARCE: f64 = 0.25;
/// Above this share of time in which its processes wait for a processor, a host lacks CPU time.
const WAITED: f64 = 0.10;
/// The utilisation from which it is reported.
const MUCH: f64 = 0.70;

/// A resource that is suspected from the probes of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspicion {
    /// The resource.
    pub resource: Resource,
    /// The strength of the suspicion.
    pub confidence: Confidence,
    /// The evidence, as clauses without a full stop; the strongest first.
    pub evidence: Vec<String>,
    /// The perturbation that would confirm the suspicion.
    pub confirm: String,
}

/// How strongly the probes indicate that a resource is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// The evidence indicates the resource, but other causes have the same symptoms.
    Possible,
    /// The resource is saturated or nearly saturated, but another limit may be the cause.
    Likely,
    /// The resource is saturated, and no other explanation was found.
    Strong,
}

impl Confidence {
    /// The confidence as an adverb before *suspected*: `strongly`.
    pub const fn words(self) -> &'static str {
        match self {
            Confidence::Possible => "possibly",
            Confidence::Likely => "likely",
            Confidence::Strong => "strongly",
        }
    }
}

/// Returns the resources that are suspected from the probes of one load, or from the means of several loads. The
/// strongest suspicion comes first; among equal suspicions, the cause comes before its consequence.
pub fn suspect(signals: &Signals) -> Vec<Suspicion> {
    let seen = Seen::of(signals);
    let mut suspicions: Vec<Suspicion> = [
        seen.generator(),
        seen.cpu(),
        seen.one_core(),
        seen.link_rate(),
        seen.memory(),
        seen.disk_operations(),
        seen.disk_bytes(),
        seen.workers(),
        seen.backlog(),
        seen.round_trip(),
    ]
    .into_iter()
    .flatten()
    .collect();
    // A suspected limit weakens the suspicions of the server itself and of the load.
    let limit = suspicions
        .iter()
        .map(|suspicion| suspicion.confidence)
        .max();
    suspicions.extend(seen.server_itself(limit));
    suspicions.extend(seen.load(limit));
    suspicions.sort_by_key(|suspicion| std::cmp::Reverse(suspicion.confidence));
    suspicions
}

/// The mean time to a response's first byte beyond the round trip and the CPU time, and its share of the exchange time.
/// `None` if a time is missing.
pub(super) fn unexplained_wait(signals: &Signals) -> Option<(Duration, f64)> {
    let first_byte = signals.first_byte?;
    let explained = signals.round_trip? + signals.cpu_per_exchange.unwrap_or_default();
    let wait = first_byte.saturating_sub(explained);
    let whole = whole(signals)?;
    (!whole.is_zero()).then(|| (wait, wait.as_secs_f64() / whole.as_secs_f64()))
}

/// Whether the machine has no CPU time left although the host did not use its whole quota. The server then waits for a
/// processor that the generator, the path or other programs use.
pub(super) fn machine_is_saturated(signals: &Signals) -> bool {
    let used = signals.cpu_of_quota.unwrap_or(0.0);
    let idle = signals.machine_idle.unwrap_or(1.0);
    used < NEARLY && (idle < EXHAUSTED || idle < SCARCE && waited_for_processor(signals) > WAITED)
}

/// The share of time in which processes of the host waited for a processor that another program used. Throttling by the
/// host's own quota does not count.
pub(super) fn waited_for_processor(signals: &Signals) -> f64 {
    let throttled = signals.throttled_periods.unwrap_or(0.0);
    (signals.cpu_pressure.unwrap_or(0.0) - throttled).max(0.0)
}

/// The mean time of an exchange, as the sum of its phases. The connect time may be absent (persistent connections); the
/// time to the first byte and the transfer time are required.
fn whole(signals: &Signals) -> Option<Duration> {
    let known = signals.first_byte? + signals.transfer?;
    Some(known + signals.connect.unwrap_or_default() + signals.queue.unwrap_or_default())
}

/// Signals, with conclusions that several suspicions use.
struct Seen<'a> {
    signals: &'a Signals,
    /// The host's quota or one core has almost no CPU time left.
    is_computing: bool,
    /// The signals show that all workers are busy.
    workers_taken: bool,
    /// Files are read again after eviction from memory, while memory is full.
    has_refaults: bool,
}

impl Seen<'_> {
    fn of(signals: &Signals) -> Seen<'_> {
        let is_full = signals.memory_of_limit.is_some_and(|share| share >= 0.9);
        Seen {
            signals,
            is_computing: signals.cpu_of_quota.is_some_and(|share| share >= NEARLY)
                || signals.busiest_thread.is_some_and(|share| share >= NEARLY),
            workers_taken: share(signals.established, signals.worker_limit)
                .is_some_and(|share| share >= FULL),
            has_refaults: is_full && signals.refaults_per_s.is_some_and(|pages| pages >= 1.0),
        }
    }

    fn generator(&self) -> Option<Suspicion> {
        let busy = self.signals.generator_busy?;
        let confidence = by_use(busy)?;
        let evidence = vec![format!(
            "the generator's busiest thread was busy for {} of the time",
            percent(busy)
        )];
        let confirm = "more threads for the generator";
        Some(suspicion(
            Resource::Generator,
            confidence,
            evidence,
            confirm,
        ))
    }

    fn server_itself(&self, limit: Option<Confidence>) -> Option<Suspicion> {
        let signals = self.signals;
        let (wait, share) = unexplained_wait(signals)?;
        if share < 0.5 {
            return None;
        }
        // To the probes, waits for a processor, a disk or a worker look the same.
        let has_time =
            signals.cpu_of_quota.is_some_and(|used| used < MUCH) && !machine_is_saturated(signals);
        let confidence = match limit {
            Some(Confidence::Strong) => return None,
            Some(Confidence::Likely) => Confidence::Possible,
            _ if share >= 0.8 && has_time => Confidence::Strong,
            _ if has_time => Confidence::Likely,
            _ => Confidence::Possible,
        };
        let mut text = format!(
            "{} of the exchange time ({}) is a wait for the first byte, unexplained by the round trip and the processor",
            percent(share),
            time(wait)
        );
        if let Some(used) = signals.cpu_of_quota {
            let used = percent(used);
            text.push_str(&format!(", at a processor utilisation of {used}"));
        }
        Some(suspicion(
            Resource::ServerItself,
            confidence,
            vec![text],
            "relaxing any limit of the host does not increase throughput",
        ))
    }

    fn load(&self, limit: Option<Confidence>) -> Option<Suspicion> {
        let signals = self.signals;
        let answered = share(signals.achieved_per_s, signals.offered_per_s);
        let under_way = share(signals.concurrency, signals.users);
        let (by_signals, text) = match (answered, under_way) {
            (Some(share), _) if share >= 0.98 => (
                Confidence::Strong,
                format!("{} of the offered rate was answered", percent(share)),
            ),
            (None, Some(share)) if share < 0.5 => (
                Confidence::Strong,
                format!(
                    "users waited for responses for {} of the time, and paused for the rest",
                    percent(share)
                ),
            ),
            (None, Some(_)) => (
                Confidence::Possible,
                "nothing is saturated, and each user waits for a response before the next request"
                    .to_owned(),
            ),
            _ => return None,
        };
        let confidence = match limit {
            Some(Confidence::Strong) if by_signals == Confidence::Possible => return None,
            Some(Confidence::Strong) => Confidence::Possible,
            Some(Confidence::Likely) => by_signals.min(Confidence::Likely),
            _ => by_signals,
        };
        Some(suspicion(
            Resource::Load,
            confidence,
            vec![text],
            "more users or a higher rate: throughput grows in proportion, and latency does not",
        ))
    }
}

fn suspicion(
    resource: Resource,
    confidence: Confidence,
    evidence: Vec<String>,
    confirm: &str,
) -> Suspicion {
    Suspicion {
        resource,
        confidence,
        evidence,
        confirm: confirm.to_owned(),
    }
}

fn by_use(share: f64) -> Option<Confidence> {
    match share {
        full if full >= FULL => Some(Confidence::Strong),
        nearly if nearly >= NEARLY => Some(Confidence::Likely),
        much if much >= MUCH => Some(Confidence::Possible),
        _ => None,
    }
}

/// The quotient of a part and a whole, if both values are known and the whole is above zero.
fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0.0)?;
    Some(part? / whole)
}
