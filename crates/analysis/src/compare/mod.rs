//! The comparison of two results: load tests, studies and bottleneck runs.
//!
//! A [`Side`] is a result that is ready for comparison: metrics with their samples, settings that must agree, and facts
//! that may differ. [`Comparison::of`] compares each metric that both sides have. `docs/compare.md` describes the
//! method, its sources and its limits.
//!
//! - [`of_load`], [`of_loads`], [`of_run`]: create sides from saved results
//! - [`interval`]: computes intervals
//! - [`Gate`]: limits on changes, for a CI job
//! - [`power`]: estimates the power of a comparison by simulation
//! - [`screen`]: shows the comparison on a terminal

mod blocks;
mod gate;
pub mod interval;
mod load_side;
pub mod power;
mod run_side;
pub mod screen;
mod side;

use blocks::{Blocks, OnMachines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use blocks::{MachinePair, SideMachine};
pub use gate::{Gate, GateError, GateVerdict, Outcome};
pub use load_side::{of_load, of_loads};
pub(crate) use run_side::METRICS;
pub use run_side::of_run;
pub use side::{Better, Metric, Scale, Side};

/// The format version of a comparison as JSON.
pub const FORMAT: u32 = 1;

/// The simultaneous level of all intervals of a comparison.
pub const LEVEL: f64 = 0.95;

/// The relation between the samples of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Sample n of one side was measured next to sample n of the other side (ABBA order).
    Paired,
    /// The sides were measured one after the other: the intervals do not contain the machine's drift between
    /// them.
    Separate,
}

/// The verdict on a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval of the change is on the good side of zero.
    Better,
    /// The interval of the change is on the bad side of zero.
    Worse,
    /// The interval of the change excludes zero, and neither direction is better.
    Different,
    /// The interval of the change contains zero and lies within the margin of equality.
    Equal,
    /// The interval of the change contains zero and extends beyond the margin, or there is no interval.
    Undecided,
}

impl Verdict {
    /// The verdict as the screen shows it.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Different => "different",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A setting or fact in which the sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The setting or fact that differs, as in `policy` or `machine kernel`.
    pub what: String,
    /// The value on the first side; `null` if that side has no value.
    pub before: Option<String>,
    /// The value on the second side; `null` if that side has no value.
    pub after: Option<String>,
    /// Whether results with different values cannot be compared.
    pub incomparable: bool,
}

/// A metric on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The name of the metric, as gates use it.
    pub metric: String,
    /// The unit; empty for a share.
    pub unit: String,
    /// The first side's value: the geometric mean of its samples, or their arithmetic mean if `scale` is
    /// `difference`.
    pub before: f64,
    /// The second side's value.
    pub after: f64,
    /// The number of samples of the first side.
    pub samples_before: usize,
    /// The number of samples of the second side.
    pub samples_after: usize,
    /// `ratio`: the change is relative (0.05 is 5 %). `difference`: it is absolute, in the metric's unit.
    pub scale: Scale,
    /// The change from the first side to the second.
    pub change: f64,
    /// The lower end of the interval of the change, at the simultaneous level of the comparison; `null` without
    /// an interval.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
    /// The change in standard deviations of a sample (Cohen's d, on the scale of `scale`); `null` without spread.
    pub effect_size: Option<f64>,
    /// The number of machines, if their changes differ and are therefore the sample; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<usize>,
    /// The verdict on the metric.
    pub verdict: Verdict,
    /// The reason why there is no interval.
    pub reason: Option<String>,
}

/// A metric or cell that one side lacks, or INVALID replicates or results that are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The name of the metric, of a cell with all of its metrics, or of INVALID replicates or results.
    pub what: String,
    /// The name of the side that lacks the metric or cell.
    pub side: String,
    /// Whether the first side lacks the metric or cell.
    pub is_before: bool,
    /// The reason why the side lacks the metric or cell.
    pub reason: String,
}

/// A comparison of two results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The format version of this comparison: 1.
    pub format: u32,
    /// The name of the first side.
    pub before: String,
    /// The name of the second side.
    pub after: String,
    /// Reasons why a side is INVALID. With any reason, there are no verdicts.
    pub invalid: Vec<String>,
    /// The settings and facts in which the sides differ.
    pub differences: Vec<Difference>,
    /// The relation between the samples of the two sides.
    pub design: Design,
    /// For two runs over several machines: each machine of the first run with its machine of the second run; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachinePair>,
    /// The simultaneous level of all intervals.
    pub level: f64,
    /// The margin of equality, 0 to 1. Values are equal if the whole interval of their relative change lies within the
    /// margin.
    pub margin: f64,
    /// Every metric that both sides have.
    pub changes: Vec<Change>,
    /// Metrics and cells that are not compared because a side lacks them.
    pub missing: Vec<Missing>,
    /// The verdicts on the gate's limits, if there is a gate.
    pub gate: Vec<GateVerdict>,
}

impl Comparison {
    /// Compares two sides. `margin` is the share within which values are equal, above 0.
    ///
    /// [`LEVEL`] is the simultaneous level of all intervals (Bonferroni). So at most 5 % of the comparisons between two
    /// results of the same server report any change.
    pub fn of(before: &Side, after: &Side, design: Design, margin: f64) -> Comparison {
        let pairs: Vec<(&Metric, &Metric)> = before
            .metrics
            .iter()
            .filter_map(|metric| {
                let same = |other: &&Metric| other.name == metric.name;
                Some((metric, after.metrics.iter().find(same)?))
            })
            .collect();
        let tested = pairs
            .iter()
            .filter(|(a, b)| a.samples.len() > 1 && b.samples.len() > 1)
            .count();
        let level = 1.0 - (1.0 - LEVEL) / tested.max(1) as f64;
        let invalid: Vec<String> = [before, after]
            .into_iter()
            .flat_map(|side| {
                let named = |reason: &String| format!("{}: {reason}", side.name);
                side.invalid.iter().map(named)
            })
            .collect();
        let is_valid = invalid.is_empty();
        let machines = match design {
            Design::Paired => Vec::new(),
            Design::Separate => blocks::pairs(&before.machines, &after.machines),
        };
        let changes = pairs
            .into_iter()
            .map(|(a, b)| change(a, b, (design, &machines), level, margin, is_valid))
            .collect();
        Comparison {
            format: FORMAT,
            before: before.name.clone(),
            after: after.name.clone(),
            invalid,
            differences: side::differences(before, after),
            design,
            machines,
            level: LEVEL,
            margin,
            changes,
            missing: side::missing(before, after),
            gate: Vec::new(),
        }
    }

    /// Whether the sides agree in all settings that a comparison requires.
    pub fn is_comparable(&self) -> bool {
        self.differences.iter().all(|it| !it.incomparable)
    }

    /// The comparison as JSON, with a line end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("names are strings");
        text.push('\n');
        text
    }

    /// The JSON Schema of comparisons in this format.
    pub fn schema() -> String {
        let mut schema = schemars::schema_for!(Comparison);
        schema.insert("title".to_owned(), "Fathometer comparison".into());
        let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        text.push('\n');
        text
    }
}

/// Compares one metric, with an interval at this level.
fn change<'a>(
    a: &'a Metric,
    b: &'a Metric,
    (design, machines): (Design, &[MachinePair]),
    level: f64,
    margin: f64,
    is_valid: bool,
) -> Change {
    let is_ratio = a.scale == Scale::Ratio
        && a.samples
            .iter()
            .chain(&b.samples)
            .all(|sample| *sample > 0.0);
    let scaled = |metric: &Metric| -> Vec<f64> {
        let samples = metric.samples.iter();
        samples
            .map(|s| if is_ratio { s.ln() } else { *s })
            .collect()
    };
    let (left, right) = (scaled(a), scaled(b));
    let on = |samples, metric: &'a Metric| OnMachines {
        samples,
        machines: &metric.machines,
    };
    let blocks = Blocks::of(on(&left, a), on(&right, b), machines);
    let mut of_machines = None;
    let interval = match design {
        _ if !machines.is_empty() => {
            let found = blocks.as_ref().and_then(|blocks| blocks.interval(level));
            found.map(|(interval, machines)| {
                of_machines = machines;
                interval
            })
        }
        Design::Paired if a.is_series => interval::paired_series(&left, &right, level),
        Design::Paired => interval::paired(&left, &right, level),
        Design::Separate if a.is_series => interval::series(&left, &right, level),
        Design::Separate => interval::independent(&left, &right, level),
    };
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    let natural = |value: f64| if is_ratio { value.exp() } else { value };
    let relative = |value: f64| if is_ratio { value.exp_m1() } else { value };
    let (before, after) = match &blocks {
        Some(blocks) => blocks.sides(),
        None => (mean(&left), mean(&right)),
    };
    let shift = after - before;
    // Equal samples also have an error: a reading differs from the true value by up to half the resolution.
    let floor = |metric: &Metric, samples: &[f64]| -> f64 {
        let centre = natural(mean(samples));
        let deviation = metric.instrument.deviation(centre);
        if is_ratio {
            deviation / centre
        } else {
            deviation
        }
    };
    let floor = floor(a, &left).hypot(floor(b, &right));
    let interval = interval.map(|i| interval::no_narrower(i, floor, level));
    // If all samples of a share or count are zero, the true value may still be above zero. So the metric's resolution
    // extends the interval.
    let open = |metric: &Metric, samples: &[f64]| -> f64 {
        let never = metric.scale == Scale::Difference && samples.iter().all(|s| *s == 0.0);
        if never { metric.resolution } else { 0.0 }
    };
    let interval = interval.map(|i| interval::widened(i, open(a, &left), open(b, &right)));
    let ends = interval.map(|i| (relative(i.low), relative(i.high)));
    // The margin of a share is not relative: it is the resolution of the measurement.
    let margin = match a.scale {
        Scale::Ratio if is_ratio => margin,
        Scale::Ratio => margin * before.abs(),
        Scale::Difference => {
            let unit = if a.unit == "%" { 100.0 } else { 1.0 };
            (margin * unit).min(3.0 * (a.resolution + b.resolution))
        }
    };
    let verdict = match ends {
        Some((low, high)) if is_valid && (low > 0.0 || high < 0.0) => match a.better {
            Better::Neither => Verdict::Different,
            Better::Higher if low > 0.0 => Verdict::Better,
            Better::Lower if high < 0.0 => Verdict::Better,
            Better::Higher | Better::Lower => Verdict::Worse,
        },
        Some((low, high)) if is_valid && low >= -margin && high <= margin => Verdict::Equal,
        _ => Verdict::Undecided,
    };
    let (spread, samples) = match &blocks {
        Some(blocks) => (blocks.deviation(), blocks.samples),
        None => {
            let spread = interval::pooled_deviation(&left, &right);
            (spread, (left.len(), right.len()))
        }
    };
    Change {
        metric: a.name.clone(),
        unit: a.unit.to_owned(),
        before: natural(before),
        after: natural(after),
        samples_before: samples.0,
        samples_after: samples.1,
        scale: if is_ratio {
            Scale::Ratio
        } else {
            Scale::Difference
        },
        change: relative(shift),
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
        effect_size: spread.map(|spread| shift / spread),
        machines: of_machines,
        verdict,
        reason: match ends {
            Some(_) => None,
            None if !machines.is_empty() && blocks.is_none() => {
                Some("no machine has valid replicates on both sides".to_owned())
            }
            None => Some(a.no_interval.to_owned()),
        },
    }
}

#[cfg(test)]
mod blocks_tests;
#[cfg(test)]
mod tests;
