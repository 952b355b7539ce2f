//! Limits on changes: `p99<+5%,errors<=+0`.
//!
//! Limits are separated by commas. Each limit is a metric of the comparison, an operator (`<`, `<=`, `>`, `>=`)
//! and a signed number. With `%` the limit is relative (percentage points for `errors` and `error_pct`); without `%`
//! it is an absolute change in the metric's unit.
//!
//! A limit is judged by the interval of the change: `kept` if the whole interval is within the limit, `broken` if
//! the whole interval is beyond the limit, and otherwise `undecided`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Change, Comparison, Scale};

/// Limits on the changes of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    limits: Vec<Limit>,
}

/// The verdict on a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateVerdict {
    /// The text of the limit.
    pub limit: String,
    /// Whether the limit is kept, broken or undecided.
    pub outcome: Outcome,
    /// The reason for an undecided verdict, if the interval alone does not show it.
    pub reason: Option<String>,
}

/// The outcome of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The whole interval is within the limit.
    Kept,
    /// The whole interval is beyond the limit.
    Broken,
    /// The interval contains the limit, or there is no interval.
    Undecided,
}

/// The error for a text that is not a gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a limit on a change: expected a metric, a comparison and a signed number, as in p99<+5% or errors<=+0"
)]
pub struct GateError {
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Limit {
    text: String,
    metric: String,
    /// Whether the bound is an upper bound; otherwise it is a lower bound.
    is_upper: bool,
    /// Whether the bound itself is within the limit.
    includes: bool,
    bound: f64,
    is_percent: bool,
}

impl Gate {
    /// Returns the verdicts on the limits, in the order of the gate's text.
    pub fn judge(&self, comparison: &Comparison) -> Vec<GateVerdict> {
        let limits = self.limits.iter();
        limits.map(|limit| limit.judge(comparison)).collect()
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Gate, GateError> {
        let limits = text.split(',').map(|limit| {
            parse(limit.trim()).ok_or_else(|| GateError {
                text: limit.trim().to_owned(),
            })
        });
        Ok(Gate {
            limits: limits.collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.limits.iter().map(|limit| &*limit.text).collect();
        f.write_str(&texts.join(","))
    }
}

fn parse(text: &str) -> Option<Limit> {
    let at = text.rfind(['<', '>'])?;
    let metric = text[..at].trim();
    let is_upper = text[at..].starts_with('<');
    let rest = &text[at + 1..];
    let (includes, rest) = match rest.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let rest = rest.trim();
    // The sign is required: without it, readers may mistake the number for a limit on the value itself.
    if metric.is_empty() || !rest.starts_with(['+', '-']) {
        return None;
    }
    let (number, is_percent) = match rest.strip_suffix('%') {
        Some(number) => (number.trim(), true),
        None => (rest, false),
    };
    let bound: f64 = number
        .parse()
        .ok()
        .filter(|bound: &f64| bound.is_finite())?;
    Some(Limit {
        text: text.to_owned(),
        metric: metric.to_owned(),
        is_upper,
        includes,
        bound: if is_percent { bound / 100.0 } else { bound },
        is_percent,
    })
}

impl Limit {
    fn judge(&self, comparison: &Comparison) -> GateVerdict {
        let verdict = |outcome, reason: Option<String>| GateVerdict {
            limit: self.text.clone(),
            outcome,
            reason,
        };
        let undecided = |reason: &str| verdict(Outcome::Undecided, Some(reason.to_owned()));
        if !comparison.invalid.is_empty() {
            return undecided("a result is INVALID");
        }
        let mut changes = comparison.changes.iter();
        let Some(change) = changes.find(|change| change.metric == self.metric) else {
            let mut missing = comparison.missing.iter();
            if let Some(it) = missing.find(|it| {
                it.what == self.metric || self.metric.starts_with(&format!("{}: ", it.what))
            }) {
                return undecided(&format!("{} has no value: {}", it.side, it.reason));
            }
            let names = comparison.changes.iter().map(|change| &*change.metric);
            let names: Vec<&str> = names.take(10).collect();
            return undecided(&format!(
                "metric {} is not on both sides; metrics on both sides: {}",
                self.metric,
                names.join(", ")
            ));
        };
        let Some(ends) = change.low.zip(change.high) else {
            return undecided(change.reason.as_deref().unwrap_or("it has no interval"));
        };
        // A share of zero has not grown. By the rule of three, its true value may still be above zero.
        let is_zero = change.scale == Scale::Difference && change.after == 0.0;
        if self.is_upper && self.bound >= 0.0 && is_zero {
            return verdict(Outcome::Kept, None);
        }
        let Some((low, high)) = self.scaled(change, ends) else {
            return undecided(&format!(
                "{} is 0 in {}, so it has no relative change; write the limit in {}, without %",
                self.metric, comparison.before, change.unit
            ));
        };
        let outcome = match (self.holds(low), self.holds(high)) {
            (true, true) => Outcome::Kept,
            (false, false) => Outcome::Broken,
            _ => Outcome::Undecided,
        };
        verdict(outcome, None)
    }

    /// The interval of the change in the unit of the bound; `None` for a relative change from zero. A bound in percent
    /// is stored as a share: 0.05 for 5 %.
    fn scaled(&self, change: &Change, (low, high): (f64, f64)) -> Option<(f64, f64)> {
        let times = |factor: f64| Some((low * factor, high * factor));
        match (change.scale, self.is_percent) {
            (Scale::Ratio, true) | (Scale::Difference, false) => Some((low, high)),
            (Scale::Ratio, false) => times(change.before),
            // Percentage points of a share.
            (Scale::Difference, true) if change.unit.is_empty() => Some((low, high)),
            (Scale::Difference, true) if change.unit == "%" => times(0.01),
            // A ratio metric that is compared by difference because a sample is zero.
            (Scale::Difference, true) => {
                (change.before > 0.0).then_some(())?;
                times(1.0 / change.before)
            }
        }
    }

    fn holds(&self, change: f64) -> bool {
        match (self.is_upper, self.includes) {
            (true, true) => change <= self.bound,
            (true, false) => change < self.bound,
            (false, true) => change >= self.bound,
            (false, false) => change > self.bound,
        }
    }
}
