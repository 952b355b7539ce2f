//! One side of a comparison.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::SideMachine;
use super::{Difference, Missing};
use crate::resolution::quotient;
use crate::statistics::Resolution;

/// A result in the form that is compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// Its name, as in the file's.
    pub name: String,
    /// Why it is INVALID; empty when it is valid.
    pub invalid: Vec<String>,
    /// What must agree, by name.
    pub settings: BTreeMap<String, String>,
    /// What may differ and is reported, by name.
    pub facts: BTreeMap<String, String>,
    /// Its metrics.
    pub metrics: Vec<Metric>,
    /// Cells without a valid replicate, and why.
    pub without: BTreeMap<String, String>,
    /// The machines of a run over several; empty for one machine.
    pub machines: Vec<SideMachine>,
}

/// A metric with its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name, the same on both sides.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// How changes are expressed.
    pub scale: Scale,
    /// The samples: blocks of time, runs or replicates.
    pub samples: Vec<f64>,
    /// The rank of the machine of each sample; empty for one machine.
    pub machines: Vec<u32>,
    /// Whether they are consecutive blocks of time, which may be correlated.
    pub is_series: bool,
    /// The smallest mean that the side can distinguish from zero, in the unit: for events that never happened.
    pub resolution: f64,
    /// The smallest change of a sample that the instrument shows: no interval is narrower.
    pub instrument: Resolution,
    /// Why there is no interval, if there is none.
    pub no_interval: &'static str,
}

impl Metric {
    /// A metric whose change is a ratio, and whose samples are independent.
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
    /// A change is neither.
    Neither,
}

/// How a change is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Relative to the first side.
    Ratio,
    /// Absolute.
    Difference,
}

/// Cells without a valid replicate, and metrics that only one side has.
pub(super) fn missing(before: &Side, after: &Side) -> Vec<Missing> {
    let mut found = Vec::new();
    for (side, other, is_before) in [(before, after, false), (after, before, true)] {
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

/// What the sides do not share; what makes them incomparable comes first.
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
