//! Sweeps: metrics as functions of a numeric factor.
//!
//! A study that varies a factor such as the number of clients over many levels is read as curves, one
//! for each combination of its other factors. [`build`] estimates the curves that a study wants shown
//! ([`Curve`]); [`shape`] is what can be asked of one, as claims do; [`csv_text`] exports them.
//!
//! A level without a valid replicate is left out of its curve and said to be; nothing is interpolated
//! in its place.

mod build;
mod export;
pub(crate) mod family;
pub mod shape;

use serde::{Deserialize, Serialize};

pub use build::build;
pub use export::csv_text;

use crate::run::{Cell, CellState, Run};
use crate::statistics::Estimate;
use crate::study::{Selection, StudyData};
use crate::tables::significant;
use shape::Knee;

/// A figure of curves, as a study describes it: panels with the same quantity on the horizontal axis.
///
/// That is a numeric factor, whose levels are the points. A panel may be of a family of metrics instead
/// (`cwnd_le_*_pct`), whose steps are the points of one cell's distribution; or it may have a
/// metric in place of the levels ([`Panel::per`]).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Its name: the paper's (`F1`), or one of ours.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The numeric factor on the horizontal axis; a word for the steps where every panel is of a family.
    pub along: String,
    /// What that axis counts, as in `concurrent clients`.
    pub axis: String,
    /// Whether equal ratios are equally far apart on that axis.
    #[serde(default)]
    pub logarithmic: bool,
    /// The factor whose levels are the lines.
    pub series: String,
    /// The levels that all its cells share.
    #[serde(default)]
    pub select: Selection,
    /// The panels.
    #[serde(rename = "panel")]
    pub panels: Vec<Panel>,
    /// Which published figures stand beside it.
    #[serde(default)]
    pub published: Vec<PublishedNote>,
    /// What is to be seen in it.
    #[serde(default)]
    pub caption: String,
    /// What a reader should know, as that the paper prints the curve and no numbers.
    #[serde(default)]
    pub note: String,
    /// Whether it is one of the paper's figures, rather than one of ours.
    #[serde(default)]
    pub of_the_paper: bool,
}

/// One metric of a [`Curve`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// A title of a few words.
    pub title: String,
    /// The metric, or a family of metrics.
    pub metric: String,
    /// Its unit, as in `kB/s`.
    pub unit: String,
    /// A metric whose means stand on the horizontal axis in place of the levels. A straight line of least
    /// squares is fitted to the points: what one more of it costs.
    pub per: Option<String>,
    /// Levels of its own.
    #[serde(default)]
    pub select: Selection,
    /// Where its lines have their knees, to be marked.
    pub knee: Option<Knee>,
    /// Whether the line y = x is drawn.
    #[serde(default)]
    pub identity: bool,
}

/// Published figures of one metric, of all its variants.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedNote {
    /// The published metric.
    pub metric: String,
    /// What the figures say, as in `throughput greatest at`.
    pub text: String,
    /// Whether the figures are levels of the horizontal axis, and are drawn there.
    #[serde(default)]
    pub line: bool,
}

/// A figure of curves, estimated, in one era.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveResult {
    /// Its name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The era.
    pub era: String,
    /// The numeric factor on the horizontal axis.
    pub along: String,
    /// What that axis counts.
    pub axis: String,
    /// Whether equal ratios are equally far apart on that axis.
    pub logarithmic: bool,
    /// What is to be seen in it.
    pub caption: String,
    /// What a reader should know.
    pub note: String,
    /// Whether it is one of the paper's.
    pub of_the_paper: bool,
    /// The panels.
    pub panels: Vec<PanelResult>,
    /// The published figures beside it.
    pub published: Vec<PublishedLine>,
}

impl CurveResult {
    /// Whether the run has anything for it.
    pub fn is_measured(&self) -> bool {
        self.points().next().is_some()
    }

    /// Every point of every line.
    pub fn points(&self) -> impl Iterator<Item = &CurvePoint> {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.flat_map(|line| &line.points)
    }

    /// The fewest and the most replicates behind a point; `None` when nothing was measured.
    pub fn replicates(&self) -> Option<(usize, usize)> {
        let n = || self.points().filter_map(|p| Some(p.estimate?.n));
        Some((n().min()?, n().max()?))
    }

    /// What is odd about points, each remark once, with where it applies: `h1.0 clients 1, 4; h1.1
    /// clients 1`.
    pub fn remarks(&self) -> Vec<(&str, String)> {
        let mut remarks: Vec<(&str, Places<'_>)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            for point in line.points.iter().filter(|point| !point.remark.is_empty()) {
                let places = entry(&mut remarks, point.remark.as_str());
                let levels = entry(places, line.series.as_str());
                if !levels.contains(&point.level) {
                    levels.push(point.level);
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

/// Levels at which something is to be said, by series.
type Places<'a> = Vec<(&'a str, Vec<f64>)>;

/// What belongs to a key, in the order in which keys came.
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
    /// Its title.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// What is on its horizontal axis: the factor, the family of metrics, or the metric.
    pub along: String,
    /// Whether the line y = x is drawn.
    pub identity: bool,
    /// A line for each level of the series' factor that was measured.
    pub lines: Vec<Line>,
}

/// One line of a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The level of the series' factor.
    pub series: String,
    /// The place of that level among the factor's, from 0: the same level looks the same everywhere.
    pub place: usize,
    /// Its points, by ascending level.
    pub points: Vec<CurvePoint>,
    /// Its knee in the means, where the panel wants it marked and there is one.
    pub knee: Option<f64>,
    /// The straight line through its points, where the panel is per a metric.
    pub fit: Option<Fit>,
}

impl Line {
    /// `h1.0 378 [350, 402]`: the slope of its fit, where it has one.
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

/// A straight line of least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// Its height at zero.
    pub intercept: f64,
    /// Its slope; `n` is of the level with the fewest replicates.
    pub slope: Estimate,
}

/// One point of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// The level of the numeric factor: its place, but where a panel is per a metric.
    pub level: f64,
    /// The mean over valid replicates; `None` when there are none.
    pub estimate: Option<Estimate>,
    /// Why it is missing or stands on fewer replicates than were made; empty otherwise.
    pub remark: String,
}

/// Published figures, beside a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedLine {
    /// What they say.
    pub text: String,
    /// Each with its variant (empty where the paper names none).
    pub figures: Vec<(String, f64)>,
    /// Their unit.
    pub unit: String,
    /// Whether they are levels of the horizontal axis.
    pub line: bool,
}

impl PublishedLine {
    /// `throughput greatest at: WebSite 10, Emwac 20 clients`.
    pub fn sentence(&self) -> String {
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|(variant, value)| format!("{variant} {value}").trim_start().to_owned())
            .collect();
        format!("{}: {} {}", self.text, figures.join(", "), self.unit)
    }
}

/// The cells of a curve by ascending level, and what was left out.
pub(crate) struct Levels<'a> {
    pub cells: Vec<(f64, &'a Cell)>,
    /// Levels whose cells are invalid, a remark each.
    pub left_out: Vec<String>,
}

/// Why there is no curve.
pub(crate) enum NoCurve {
    /// The run has no such cells.
    NotMeasured,
    /// Several cells stand at one level: the factors that tell them apart.
    Ambiguous(Vec<String>),
}

/// The cells that a selection means along a numeric factor, those with a valid replicate; levels that
/// are no numbers are not levels of a curve.
pub(crate) fn levels<'a>(
    run: &'a Run,
    study: &StudyData,
    selection: &Selection,
    along: &str,
) -> Result<Levels<'a>, NoCurve> {
    let mut found: Vec<(f64, &'a Cell)> = selection
        .matching(run, &study.factors)
        .filter_map(|cell| Some((number(cell.key.level(along)?)?, cell)))
        .collect();
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    if let Some(twins) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let factors = crate::study::differing_factors(&[twins[0].1, twins[1].1]);
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

/// A level that is a number, alone (`32`), with a unit behind it (16 of `16M`), or as the last setting of
/// a word (43 of `microscape:files=43`).
pub(crate) fn number(level: &str) -> Option<f64> {
    let setting = level.rsplit('=').next().unwrap_or(level);
    let value: f64 = setting.parse().or_else(|_| bare(setting).parse()).ok()?;
    value.is_finite().then_some(value)
}

/// The unit behind a level that is a number: nothing, or as in `16M`.
pub(crate) fn unit(level: &str) -> &str {
    &level[bare(level).len()..]
}

fn bare(level: &str) -> &str {
    level.trim_end_matches(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{number, unit};

    #[test]
    fn levels_are_numbers_with_or_without_a_unit() {
        assert_eq!((number("32"), unit("32")), (Some(32.0), ""));
        assert_eq!((number("16M"), unit("16M")), (Some(16.0), "M"));
        let group = "pareto:mean=256k";
        assert_eq!((number(group), unit(group)), (Some(256.0), "k"));
        assert_eq!((number("200ops"), unit("200ops")), (Some(200.0), "ops"));
        assert_eq!(number("1e3"), Some(1000.0));
        let setting = "microscape:files=43";
        assert_eq!((number(setting), unit(setting)), (Some(43.0), ""));
        for word in ["none", "h1.1", "inf", "NaN", "almeida-300k", "h1.1x2", ""] {
            assert_eq!(number(word), None, "{word}");
        }
    }
}
