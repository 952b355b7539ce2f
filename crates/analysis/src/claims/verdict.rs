//! Verdicts on claims, and what they rest on.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bound, Calibrated, Kind};
use crate::selection::number;
use crate::statistics::{Basis, Interval, Sides};

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds as stated.
    Holds,
    /// The claim holds in direction, but not in amount.
    HoldsWeaker,
    /// The claim states a difference, and the two sides are equal within a margin.
    Equal,
    /// The figures do not decide.
    Undecided,
    /// The figures contradict the claim.
    Reversed,
    /// Nothing was measured.
    NotTested,
}

impl Verdict {
    /// Every verdict, the best first.
    pub const ALL: [Verdict; 6] = [
        Verdict::Holds,
        Verdict::HoldsWeaker,
        Verdict::Equal,
        Verdict::Undecided,
        Verdict::Reversed,
        Verdict::NotTested,
    ];

    /// Whether the figures decide.
    pub fn is_decided(self) -> bool {
        !matches!(self, Verdict::Undecided | Verdict::NotTested)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::HoldsWeaker => "holds weaker",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
            Verdict::Reversed => "reversed",
            Verdict::NotTested => "not tested",
        })
    }
}

/// The result of judging a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimResult {
    /// Its identifier.
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// The value that the paper's own figures give.
    pub published: String,
    /// The bound as it was published; empty where the claim is not from a paper's list.
    pub bound: String,
    /// The cells whose figures validate nothing.
    pub calibrated: Option<Calibrated>,
    /// The reason why it was not tested at all.
    pub not_tested: Option<String>,
    /// The verdict in each era.
    pub eras: Vec<EraVerdict>,
    /// The verdicts on other readings of the claim.
    pub variants: Vec<VariantResult>,
}

/// The result of judging another reading of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantResult {
    /// The reading, in a few words.
    pub name: String,
    /// Why the claim is also read like this.
    pub reason: String,
    /// When it was added, as in `2026-11-25`.
    pub date: String,
    /// The verdict in each era.
    pub eras: Vec<EraVerdict>,
}

/// The result of judging a claim in one era.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EraVerdict {
    /// The era.
    pub era: String,
    /// The verdict.
    pub verdict: Verdict,
    /// In how many places it has which verdict, if not the same in all, and what was not measured; empty when
    /// there is nothing to add.
    pub remark: String,
    /// The verdict from the estimates without their intervals, if it differs from the verdict.
    pub leaning: Option<Verdict>,
    /// The largest probability of error at which the verdict, or the leaning of one that is undecided, would
    /// not stand: its p-value. `None` when nothing was measured.
    pub p_value: Option<f64>,
    /// About how many replicates of each cell would decide; `None` when it is decided, or no number would.
    pub replicates_to_decide: Option<u64>,
    /// Each test in each environment.
    pub parts: Vec<Part>,
}

impl EraVerdict {
    /// `undecided (holds?)`: the verdict, and the verdict that the estimates alone would give.
    pub fn text(&self) -> String {
        match self.leaning {
            Some(leaning) => format!("{} ({leaning}?)", self.verdict),
            None => self.verdict.to_string(),
        }
    }
}

/// A test in one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// The test's label.
    pub label: String,
    /// The environment's levels, in the order of the factors' names.
    pub environment: Vec<(String, String)>,
    /// The kind of estimate.
    pub kind: Kind,
    /// The metric.
    pub metric: String,
    /// The bound of the claim.
    pub holds: Bound,
    /// The weaker bound on the same estimate, if there is one.
    pub weaker: Option<Bound>,
    /// The range in which the two sides count as equal, if they can.
    pub equal: Option<Bound>,
    /// Number of replicates; 0 when nothing was measured.
    pub n: usize,
    /// Whether replicates were compared in pairs.
    pub sides: Sides,
    /// The estimate.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Its interval at the level at which all intervals of the claim in this era cover together.
    pub simultaneous: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict from the simultaneous interval.
    pub simultaneous_verdict: Verdict,
    /// The verdict from the estimate without its interval.
    pub leaning: Option<Verdict>,
    /// The largest probability of error at which the verdict, or the leaning, would not stand.
    pub p_value: Option<f64>,
    /// About how many replicates would decide; `None` when it is decided, or no number would.
    pub replicates_to_decide: Option<u64>,
    /// Remarks: why it is undecided, which replicates were left out.
    pub remark: String,
    /// Whether it counts towards the verdict on the claim.
    pub counts: bool,
    /// Whether a model was calibrated with the published figures of these cells, so that they validate nothing.
    pub calibrated: bool,
    /// The places in the run's list of the cells that were looked at.
    #[serde(skip)]
    pub cells: BTreeSet<usize>,
    /// What the interval rests on.
    #[serde(skip)]
    pub basis: Option<Basis>,
    /// The estimate of a weaker relation and what it rests on.
    #[serde(skip)]
    pub(super) weaker_estimate: Option<(Option<Basis>, f64)>,
}

impl Part {
    /// Whether more replicates could decide it.
    pub fn is_open(&self) -> bool {
        self.simultaneous_verdict == Verdict::Undecided
    }

    /// `lan embedded-apache`, `httpd ues 140`, or an empty text. A number is shown with its factor's name,
    /// because it means nothing alone.
    pub fn environment_text(&self) -> String {
        let levels = self
            .environment
            .iter()
            .map(|(factor, level)| match number(level) {
                Some(_) => format!("{factor} {level}"),
                None => level.clone(),
            });
        levels.collect::<Vec<_>>().join(" ")
    }
}
