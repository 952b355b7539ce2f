//! Sweeps: metrics as functions of a numeric factor.
//!
//! If a study varies a factor such as the number of clients over many levels, each combination of the other factors
//! gives one curve. A study defines figures of curves ([`Curve`]), which are estimated from a run ([`CurveResult`]).
//! [`shape`] computes the features of a curve that claims use; [`csv_text`] exports the curves.
//!
//! A level without a valid replicate is left out of its curve, with a remark. The missing value is not interpolated.

mod build;
mod by_users;
mod export;
pub(crate) mod family;
pub mod shape;

use fathometer_model::digits::significant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use build::build;
pub(crate) use by_users::by_users;
pub use export::csv_text;

use crate::inputs::Inputs;
use crate::run::{Cell, CellState};
use crate::selection::{Selection, differing_factors, number};
use crate::statistics::Estimate;
use shape::Knee;

/// A figure of curves, as a study describes it: panels with the same quantity on the horizontal axis.
///
/// That quantity is a numeric factor, whose levels are the points. There are two other kinds of panel. A panel of
/// a family of metrics (`cwnd_le_*_pct`) shows the distribution of one cell, with the steps as points. A panel
/// with [`Panel::per`] has the means of another metric on the horizontal axis in place of the levels.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The identifier: the paper's (`F1`), or one of the study.
    pub id: String,
    /// The title of the figure.
    pub title: String,
    /// The numeric factor on the horizontal axis. If every panel shows a family, it is a name for the steps.
    pub along: String,
    /// The label of the horizontal axis, as in `concurrent clients`.
    pub axis: String,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
    /// The factor whose levels are the lines.
    pub series: String,
    /// The levels that all cells of the figure share.
    #[serde(default)]
    pub select: Selection,
    /// The panels.
    #[serde(rename = "panel")]
    pub panels: Vec<Panel>,
    /// The published figures that are shown beside the curves.
    #[serde(default)]
    pub published: Vec<PublishedNote>,
    /// A description of the figure.
    #[serde(default)]
    pub caption: String,
    /// A note for readers, for example that the paper prints the curve but no numbers.
    #[serde(default)]
    pub note: String,
    /// Whether the figure is from the paper.
    #[serde(default)]
    pub of_the_paper: bool,
}

/// One metric of a [`Curve`].
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// A title of a few words.
    pub title: String,
    /// The metric, or a family of metrics.
    pub metric: String,
    /// The unit of the metric, as in `kB/s`.
    pub unit: String,
    /// A metric whose means replace the levels on the horizontal axis. A straight line is fitted to the points by
    /// least squares; its slope is the cost of one more unit of this metric.
    pub per: Option<String>,
    /// The levels of this panel, in addition to the figure's levels.
    #[serde(default)]
    pub select: Selection,
    /// The rule for the knees of the lines; absent if knees are not marked.
    pub knee: Option<Knee>,
    /// Whether the line y = x is drawn.
    #[serde(default)]
    pub identity: bool,
}

/// Published figures of one metric, for all its variants.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedNote {
    /// The published metric.
    pub metric: String,
    /// The meaning of the figures, as in `throughput greatest at`.
    pub text: String,
    /// Whether the figures are levels of the horizontal axis, which are drawn as vertical lines.
    #[serde(default)]
    pub line: bool,
}

/// A figure of curves in one era, estimated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveResult {
    /// The identifier of the figure.
    pub id: String,
    /// The title of the figure.
    pub title: String,
    /// The era.
    pub era: String,
    /// The numeric factor on the horizontal axis.
    pub along: String,
    /// The label of the horizontal axis.
    pub axis: String,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// A description of the figure.
    pub caption: String,
    /// A note for readers.
    pub note: String,
    /// Whether the figure is one of the paper's.
    pub of_the_paper: bool,
    /// The panels.
    pub panels: Vec<PanelResult>,
    /// The published figures that are shown beside the curves.
    pub published: Vec<PublishedLine>,
}

impl CurveResult {
    /// Whether the run has any value for the figure.
    pub fn is_measured(&self) -> bool {
        self.points().next().is_some()
    }

    /// Every point of every line.
    pub fn points(&self) -> impl Iterator<Item = &CurvePoint> {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.flat_map(|line| &line.points)
    }

    /// The fewest and the most replicates of a point; `None` if nothing was measured.
    pub fn replicates(&self) -> Option<(usize, usize)> {
        let n = || self.points().filter_map(|p| Some(p.estimate?.n));
        Some((n().min()?, n().max()?))
    }

    /// Remarks about points, each once, with the lines and levels to which it applies: `h1.0 clients 1, 4; h1.1 clients
    /// 1`.
    pub fn remarks(&self) -> Vec<(&str, String)> {
        let mut remarks: Vec<(&str, Places<'_>)> = Vec::new();
        for panel in &self.panels {
            let points = panel.lines.iter().flat_map(|line| {
                let points = line.points.iter();
                points.map(|point| (&*line.series, point.level, &*point.remark))
            });
            let left_out = panel.left_out.iter();
            let left_out = left_out.map(|it| (&*it.series, it.level, &*it.remark));
            for (series, level, remark) in points.chain(left_out) {
                if remark.is_empty() {
                    continue;
                }
                let levels = entry(entry(&mut remarks, remark), series);
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
        }
        let text = |(series, levels): (&str, Vec<f64>)| {
            let levels: Vec<String> = levels.iter().map(f64::to_string).collect();
            format!("{series} {} {}", self.along, levels.join(", "))
        };
        let remarks = remarks.into_iter();
        remarks
            .map(|(remark, places)| {
                let places: Vec<String> = places.into_iter().map(text).collect();
                (remark, places.join("; "))
            })
            .collect()
    }
}

/// Levels with a remark, grouped by series.
type Places<'a> = Vec<(&'a str, Vec<f64>)>;

/// Returns the value of a key, and adds the key if it is missing. The list keeps its keys in the order of addition.
fn entry<'v, 'k, T: Default>(list: &'v mut Vec<(&'k str, T)>, key: &'k str) -> &'v mut T {
    let place = list.iter().position(|(known, _)| *known == key);
    let place = place.unwrap_or_else(|| {
        list.push((key, T::default()));
        list.len() - 1
    });
    &mut list[place].1
}

/// One metric of a [`CurveResult`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PanelResult {
    /// The title of the panel.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// The unit of the metric.
    pub unit: String,
    /// The quantity on the horizontal axis: the factor, the family of metrics, or the metric.
    pub along: String,
    /// Whether the line y = x is drawn.
    pub identity: bool,
    /// One line for each measured level of the factor whose levels are the lines.
    pub lines: Vec<Line>,
    /// INVALID cells without a point. In a panel with [`Panel::per`], a cell without valid replicates has no position
    /// on the horizontal axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutLevel>,
}

/// A level of a line that has no point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOutLevel {
    /// The line's level of the factor whose levels are the lines.
    pub series: String,
    /// The level of the numeric factor.
    pub level: f64,
    /// The reason.
    pub remark: String,
}

/// One line of a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The line's level of the factor whose levels are the lines.
    pub series: String,
    /// The index of the level among the factor's levels, from 0. A level has the same colour and marker in all
    /// figures.
    pub place: usize,
    /// The points of the line, in ascending order of levels.
    pub points: Vec<CurvePoint>,
    /// The knee of the means, if the panel marks knees and the line has a knee.
    pub knee: Option<f64>,
    /// The straight line through the points, if the panel has [`Panel::per`].
    pub fit: Option<Fit>,
}

impl Line {
    /// The series with the slope of its fit, as in `h1.0 378 [350, 402]`; `None` without a fit.
    pub fn slope_text(&self) -> Option<String> {
        let slope = self.fit?.slope;
        let mut text = format!("{} {}", self.series, significant(slope.value));
        if let Some(interval) = slope.interval {
            let (low, high) = (significant(interval.low), significant(interval.high));
            text.push_str(&format!(" [{low}, {high}]"));
        }
        Some(text)
    }
}

/// A straight line fitted by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// The value of the line at zero.
    pub intercept: f64,
    /// The slope of the line. `n` is the smallest number of replicates of a level.
    pub slope: Estimate,
}

/// One point of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The position of the point on the horizontal axis.
    pub x: f64,
    /// The level of the numeric factor. It equals `x` unless the panel has [`Panel::per`].
    pub level: f64,
    /// The mean over valid replicates; `None` without valid replicates.
    pub estimate: Option<Estimate>,
    /// The reason why the point is missing or has fewer replicates than planned; empty otherwise.
    pub remark: String,
}

/// Published figures beside a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedLine {
    /// The meaning of the figures.
    pub text: String,
    /// Each figure with its variant (empty if the paper names none).
    pub figures: Vec<(String, f64)>,
    /// The unit of the figures.
    pub unit: String,
    /// Whether the figures are levels of the horizontal axis.
    pub line: bool,
}

impl PublishedLine {
    /// The figures in a sentence, as in `throughput greatest at: WebSite 10, Emwac 20 clients`.
    pub fn sentence(&self) -> String {
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|(variant, value)| format!("{variant} {value}").trim_start().to_owned())
            .collect();
        format!("{}: {} {}", self.text, figures.join(", "), self.unit)
    }
}

/// The cells of a curve in ascending order of levels, and remarks on the levels that were left out.
pub(crate) struct Levels<'a> {
    pub cells: Vec<(f64, &'a Cell)>,
    /// One remark for each level whose cell is invalid.
    pub left_out: Vec<String>,
}

/// The reason why there is no curve.
pub(crate) enum NoCurve {
    /// The run has no such cells.
    NotMeasured,
    /// Several cells have the same level, and differ in these factors.
    Ambiguous(Vec<String>),
}

/// The valid and partly valid cells of a selection along a numeric factor. Levels that are not numbers are not
/// part of a curve.
pub(crate) fn levels<'a>(
    inputs: &Inputs<'a>,
    selection: &Selection,
    along: &str,
) -> Result<Levels<'a>, NoCurve> {
    let mut found: Vec<(f64, &'a Cell)> = inputs
        .cells(selection)
        .filter_map(|cell| Some((number(cell.key.level(along)?)?, cell)))
        .collect();
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    if let Some(twins) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let factors = differing_factors(&[twins[0].1, twins[1].1]);
        return Err(NoCurve::Ambiguous(factors));
    }
    if found.is_empty() {
        return Err(NoCurve::NotMeasured);
    }
    let (bad, cells): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(_, cell)| cell.state() == CellState::Invalid);
    let left_out = bad
        .into_iter()
        .map(|(x, cell)| format!("{along} {x} is INVALID: {}", cell.reasons().join("; ")))
        .collect();
    Ok(Levels { cells, left_out })
}
