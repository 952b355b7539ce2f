//! Which resource limited a load.

use serde::{Deserialize, Serialize};

use super::{Effect, Elasticity, Resource, Response, Signals, Suspicion};

/// Which resource limited a load, with all that speaks for it and against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub outcome: Outcome,
    /// It in one sentence.
    pub summary: String,
    /// Every resource that was varied or suspected, what limits most first.
    pub ranking: Vec<Ranked>,
    /// What else must be said: where saturation and perturbation disagree, what was left out.
    pub remarks: Vec<String>,
    /// Observations it stands on.
    pub counts: Counts,
    /// Means of the valid baselines' signals.
    pub signals: Signals,
}

/// What became of the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// One resource limited.
    Limited {
        /// Which.
        resource: Resource,
        /// What says so.
        basis: Basis,
    },
    /// Several stand at the same height: taking from any of them costs, giving to one alone helps
    /// nothing.
    Together {
        /// Which, the nearest first.
        resources: Vec<Resource>,
    },
    /// The measurements do not tell.
    Undecided {
        /// Why not.
        reason: String,
    },
    /// The generator or the path may not be believed, so nothing is said of the server.
    Invalid {
        /// Why not, each once.
        reasons: Vec<String>,
    },
}

/// What a verdict stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// It was saturated, and throughput answered when it was varied.
    SaturationAndPerturbation,
    /// Throughput answered when it was varied; no probe had shown it saturated.
    Perturbation,
    /// Nothing that was varied limited, and the signals say this.
    Elimination,
}

/// One resource among those that came into question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Which.
    pub resource: Resource,
    /// What varying it did; `None` when it was not varied.
    pub elasticity: Option<Elasticity>,
    /// What the probes made suspect; `None` when nothing did.
    pub suspicion: Option<Suspicion>,
    /// Everything that is known of it, in sentences.
    pub evidence: Vec<String>,
}

/// Numbers of observations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Valid baselines.
    pub baselines: usize,
    /// Valid loads with a limit changed.
    pub changed: usize,
    /// Loads left out because generator or path was invalid.
    pub invalid: usize,
}

impl Verdict {
    /// Whether more repetitions are not needed: a resource is named, and how throughput answers to each
    /// limit that was varied is told, from at least so many pairs. Of a limit other than that which
    /// perturbation named it is enough that it is surely less.
    ///
    /// Whoever measures until this is so looks at the intervals more than once, and is misled by chance
    /// somewhat more often than by as many repetitions that were agreed on before.
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
        let interval = |elasticity: &Elasticity| elasticity.telling()?.throughput.interval;
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

    /// The resource that is named; `None` when none is.
    pub fn named(&self) -> Option<Resource> {
        match &self.outcome {
            Outcome::Limited { resource, .. } => Some(*resource),
            _ => None,
        }
    }
}
