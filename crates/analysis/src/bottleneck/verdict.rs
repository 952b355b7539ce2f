//! The verdict: which resource limited a load.

use serde::{Deserialize, Serialize};

use super::{Effect, Elasticity, Resource, Response, Signals, Suspicion};
use crate::statistics::{LEVEL, simultaneous_level};

/// The resource that limited a load, with all evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub summary: String,
    /// Every resource that was varied or suspected, the strongest limit first.
    pub ranking: Vec<Ranked>,
    /// Further remarks: disagreements between saturation and perturbation, and excluded observations.
    pub remarks: Vec<String>,
    /// The numbers of observations on which the verdict is based.
    pub counts: Counts,
    /// Means of the signals of the valid baselines.
    pub signals: Signals,
    /// The level of each interval, as in 0.95. It is also the joint level of all simultaneous intervals.
    #[serde(default = "default_level")]
    pub level: f64,
    /// The number of steps of all limits, each with a simultaneous interval; 0 in verdicts of versions that judged each
    /// limit separately.
    #[serde(default)]
    pub comparisons: usize,
}

/// The level of verdicts whose file does not state a level.
const fn default_level() -> f64 {
    LEVEL
}

/// A level in percent, rounded down. Levels of early looks are close to 1, and "100 %" would be wrong.
fn in_percent(level: f64) -> String {
    format!("{} %", (1000.0 * level).floor() / 10.0)
}

/// The result of the judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// One resource is the bottleneck.
    Limited {
        /// The resource.
        resource: Resource,
        /// The evidence.
        basis: Basis,
    },
    /// Several limits are equally close: a squeeze of any of them costs throughput, and relief of only one does not
    /// help.
    Together {
        /// The resources, the closest limit first.
        resources: Vec<Resource>,
    },
    /// The measurements allow no decision.
    Undecided {
        /// The reason.
        reason: String,
    },
    /// The generator or the path was invalid, so there is no verdict about the server.
    Invalid {
        /// The reasons, each once.
        reasons: Vec<String>,
    },
}

/// The kind of evidence behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The resource was saturated, and throughput changed when it was varied.
    SaturationAndPerturbation,
    /// Throughput changed when the resource was varied, but no probe showed that it was saturated.
    Perturbation,
    /// No varied limit was the cause, and the signals point to this resource.
    Elimination,
}

/// A resource that was varied or suspected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// The resource.
    pub resource: Resource,
    /// The effect of its variation; `None` if the resource was not varied.
    pub elasticity: Option<Elasticity>,
    /// The suspicion from the probes; `None` if the resource is not suspected.
    pub suspicion: Option<Suspicion>,
    /// All evidence about the resource, in sentences.
    pub evidence: Vec<String>,
}

/// Numbers of observations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Valid baselines.
    pub baselines: usize,
    /// Valid loads with a changed limit.
    pub changed: usize,
    /// Loads that were excluded because the generator or the path was invalid.
    pub invalid: usize,
}

impl Verdict {
    /// The level of the intervals in words, as in `95 %`.
    pub(super) fn level_text(&self) -> String {
        in_percent(self.level)
    }

    /// A sentence about the simultaneous interval that an effect must also satisfy; `None` if only one limit was
    /// varied.
    pub(super) fn simultaneous_text(&self) -> Option<String> {
        let each = in_percent(simultaneous_level(self.level, self.comparisons));
        (self.comparisons > 1).then(|| {
            format!(
                "An effect counts only if its {each} interval shows it too; the joint level of all {} steps is then \
                 {}.",
                self.comparisons,
                self.level_text()
            )
        })
    }

    /// Whether the verdict needs no more replicates. A resource must be named, and the effect of each varied limit on
    /// throughput must be decided, from at least `pairs` pairs. If the perturbations named a limit, it is sufficient
    /// for any other limit that its interval lies below the interval of the named limit.
    ///
    /// A measurement that repeats until this is true evaluates the intervals several times (sequential analysis). So
    /// the level of each evaluation must be [`Looks::level`].
    ///
    /// [`Looks::level`]: crate::statistics::Looks::level
    pub fn is_settled(&self, pairs: usize) -> bool {
        let Some(named) = self.named() else {
            return false;
        };
        let elasticities = || self.ranking.iter().filter_map(|r| r.elasticity.as_ref());
        let found = elasticities().find(|elasticity| {
            elasticity.resource == named
                && named.is_a_limit()
                && elasticity.effect == Effect::Limits
        });
        let interval = |elasticity: &Elasticity| elasticity.clearest()?.throughput.interval;
        let is_less = |elasticity: &Elasticity| {
            let (found, other) = (found.and_then(interval), interval(elasticity));
            found
                .zip(other)
                .is_some_and(|(found, other)| other.high < found.low)
        };
        elasticities().all(|elasticity| {
            let enough = |response: &Response| response.throughput.n >= pairs;
            elasticity.responses.iter().all(enough)
                && (elasticity.effect != Effect::Undecided || is_less(elasticity))
        })
    }

    /// The resource that the verdict names; `None` when it names none.
    pub fn named(&self) -> Option<Resource> {
        match &self.outcome {
            Outcome::Limited { resource, .. } => Some(*resource),
            _ => None,
        }
    }
}
