//! Verdicts on claims, and their basis.

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
    /// The figures are not sufficient for a decision.
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

    /// Whether the verdict is a decision.
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
    /// The identifier of the claim.
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// The value from the paper's own figures.
    pub published: String,
    /// The bound as it was published; empty if the claim is not from a paper's list.
    pub bound: String,
    /// The cells that do not validate the claim, because a model was calibrated with their published figures.
    pub calibrated: Option<Calibrated>,
    /// The reason why the claim has no tests.
    pub not_tested: Option<String>,
    /// The verdict in each era.
    pub eras: Vec<EraVerdict>,
    /// The verdicts on other interpretations of the claim.
    pub variants: Vec<VariantResult>,
}

/// The result of judging another interpretation of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantResult {
    /// The interpretation, in a few words.
    pub name: String,
    /// The reason for this interpretation.
    pub reason: String,
    /// The date when the variant was added, as in `2026-11-25`.
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
    /// The number of environments with each verdict if the verdicts differ, and the number of environments that were
    /// not measured; otherwise empty.
    pub remark: String,
    /// The verdict from the estimates without their intervals, if the verdict is undecided and the estimates would
    /// decide.
    pub leaning: Option<Verdict>,
    /// The p-value: the smallest probability of error at which the figures support the verdict. For an undecided
    /// verdict, it is the p-value of the leaning. `None` if nothing was measured.
    pub p_value: Option<f64>,
    /// The approximate number of replicates of each cell that would decide; `None` if the verdict is decided, or no
    /// number would decide.
    pub replicates_to_decide: Option<u64>,
    /// Each test in each environment.
    pub parts: Vec<Part>,
}

impl EraVerdict {
    /// The verdict and the leaning, as in `undecided (holds?)`.
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
    /// The range in which the two sides count as equal; `None` if the test cannot find them equal.
    pub equal: Option<Bound>,
    /// Number of replicates; 0 when nothing was measured.
    pub n: usize,
    /// Whether replicates were compared in pairs.
    pub sides: Sides,
    /// The estimate.
    pub value: Option<f64>,
    /// The interval of the estimate.
    pub interval: Option<Interval>,
    /// The interval of the estimate at the simultaneous level of the claim's intervals in this era.
    pub simultaneous: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict from the simultaneous interval.
    pub simultaneous_verdict: Verdict,
    /// The verdict from the estimate without its interval.
    pub leaning: Option<Verdict>,
    /// The p-value: the smallest probability of error at which the figures support the verdict or, if the verdict is
    /// undecided, the leaning.
    pub p_value: Option<f64>,
    /// The approximate number of replicates that would decide; `None` if the verdict is decided, or no number would
    /// decide.
    pub replicates_to_decide: Option<u64>,
    /// Remarks: the reason for an undecided verdict, and the replicates that were left out.
    pub remark: String,
    /// Whether the part counts towards the verdict on the claim.
    pub counts: bool,
    /// Whether a model was calibrated with the published figures of these cells. Such cells validate nothing.
    pub calibrated: bool,
    /// The indices of the used cells in the run's list of cells.
    #[serde(skip)]
    pub cells: BTreeSet<usize>,
    /// The basis of the interval.
    #[serde(skip)]
    pub basis: Option<Basis>,
    /// The estimate of a weaker relation, and its basis.
    #[serde(skip)]
    pub(super) weaker_estimate: Option<(Option<Basis>, f64)>,
}

impl Part {
    /// Whether more replicates could decide the part.
    pub fn is_open(&self) -> bool {
        self.simultaneous_verdict == Verdict::Undecided
    }

    /// The environment as in `lan embedded-apache` or `httpd ues 140`; may be empty. A number is preceded by the name
    /// of its factor.
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
