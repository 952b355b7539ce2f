//! One side of a comparison.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::SideMachine;
use super::{Difference, Missing};
use crate::resolution::quotient;
use crate::statistics::Resolution;

/// A result that is ready for comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// The name of the side, from the name of its file.
    pub name: String,
    /// The reasons why the side is INVALID; empty if it is valid.
    pub invalid: Vec<String>,
    /// Settings that must agree, by name.
    pub settings: BTreeMap<String, String>,
    /// Facts that may differ and are reported, by name.
    pub facts: BTreeMap<String, String>,
    /// The metrics of the side.
    pub metrics: Vec<Metric>,
    /// Cells without a valid replicate, each with the reason.
    pub without: BTreeMap<String, String>,
    /// INVALID replicates or results that are left out, because others are valid, each with the reason.
    pub left_out: BTreeMap<String, String>,
    /// The machines of a run over several machines; empty for one machine.
    pub machines: Vec<SideMachine>,
}

/// A metric with its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The name of the metric, the same on both sides.
    pub name: String,
    /// The unit of the metric.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// How changes are expressed.
    pub scale: Scale,
    /// The samples: blocks of time, runs or replicates.
    pub samples: Vec<f64>,
    /// The rank of the machine of each sample; empty for one machine.
    pub machines: Vec<u32>,
    /// Whether the samples are consecutive blocks of time, which may be correlated.
    pub is_series: bool,
    /// The smallest mean that the side can distinguish from zero, in the metric's unit. It matters only if all samples
    /// are zero.
    pub resolution: f64,
    /// The resolution of the instrument, which sets a minimum length of the interval.
    pub instrument: Resolution,
    /// The reason to report if the metric has no interval.
    pub no_interval: &'static str,
}

impl Metric {
    /// A metric with independent samples whose change is a ratio.
    pub fn ratio(
        name: &str,
        unit: &'static str,
        better: Better,
        samples: Vec<f64>,
        no_interval: &'static str,
    ) -> Metric {
        Metric {
            name: name.to_owned(),
            unit,
            better,
            scale: Scale::Ratio,
            samples,
            machines: Vec::new(),
            is_series: false,
            resolution: 0.0,
            instrument: quotient(),
            no_interval,
        }
    }
}

/// Which direction of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither direction is better.
    Neither,
}

/// The scale of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Relative to the first side.
    Ratio,
    /// In the unit of the metric.
    Difference,
}

/// Cells without a valid replicate, INVALID replicates that are left out, and metrics that only one side has.
pub(super) fn missing(before: &Side, after: &Side) -> Vec<Missing> {
    let mut found = Vec::new();
    for (side, other, is_before) in [(before, after, false), (after, before, true)] {
        for (what, reason) in &other.left_out {
            found.push(Missing {
                what: what.clone(),
                side: other.name.clone(),
                is_before,
                reason: reason.clone(),
            });
        }
        for (cell, reason) in &other.without {
            found.push(Missing {
                what: cell.clone(),
                side: other.name.clone(),
                is_before,
                reason: format!("no valid replicate: {reason}"),
            });
        }
        for metric in &side.metrics {
            let is_of_cell = |cell: &String| metric.name.starts_with(&format!("{cell}: "));
            if other.metrics.iter().all(|it| it.name != metric.name)
                && !other.without.keys().any(is_of_cell)
            {
                found.push(Missing {
                    what: metric.name.clone(),
                    side: other.name.clone(),
                    is_before,
                    reason: "not measured".to_owned(),
                });
            }
        }
    }
    found.sort_by_key(|it| !it.is_before);
    found
}

/// The settings and facts in which the sides differ. Those that make the sides incomparable come first.
pub(super) fn differences(before: &Side, after: &Side) -> Vec<Difference> {
    let mut found = Vec::new();
    for (incomparable, a, b) in [
        (true, &before.settings, &after.settings),
        (false, &before.facts, &after.facts),
    ] {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let (before, after) = (a.get(name).cloned(), b.get(name).cloned());
            if before != after {
                found.push(Difference {
                    what: name.clone(),
                    before,
                    after,
                    incomparable,
                });
            }
        }
    }
    found
}
