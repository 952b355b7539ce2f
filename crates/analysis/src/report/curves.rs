//! Line charts of metrics against a numeric factor, with intervals.

use fathometer_model::digits::trimmed;
use maud::{Markup, html};

use super::evidence::{self, LineCells};
use super::instrument;
use super::live;
use crate::digest::Digest;
use crate::run::Cell;
use crate::svg::{REM, Scale, xy};
use crate::sweep::{CurveResult, Line, PanelResult};

const PANEL: f64 = 300.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 38.0;
const RIGHT: f64 = 14.0;
/// The largest magnification of a chart. It limits the size of a single panel relative to two panels in a row.
const LARGEST: f64 = 1.35;
/// The number of panels in a row.
const ACROSS: usize = 2;
/// The number of line styles; further lines repeat the styles in order.
const LOOKS: usize = 6;

/// The section.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    let name_era = digest.eras().len() > 1;
    let missing: Vec<&str> = digest
        .study
        .curves
        .iter()
        .filter(|curve| {
            digest
                .measured_curves()
                .all(|measured| measured.id != curve.id)
        })
        .map(|curve| curve.id.as_str())
        .collect();
    html! {
        p.lead {
            "Means over valid replicates, with the interval shaded where there are at least two. A ring "
            "marks a line's knee. Every point is in " a href="curves.csv" { "curves.csv" } "."
        }
        @for curve in digest.measured_curves() { (figure(digest, curve, name_era)) }
        @if !missing.is_empty() {
            p.remark { "Not measured in this run: " (missing.join(", ")) "." }
        }
    }
}

fn figure(digest: &Digest<'_>, curve: &CurveResult, name_era: bool) -> Markup {
    let level = digest.intervals.level;
    let panels: Vec<(usize, &PanelResult)> = curve
        .panels
        .iter()
        .enumerate()
        .filter(|(_, panel)| !panel.lines.is_empty())
        .collect();
    let errors: Vec<Vec<(f64, f64)>> = panels
        .iter()
        .map(|(place, _)| instrument::of_panel(digest, curve, *place))
        .collect();
    let rows = panels.len().div_ceil(ACROSS);
    let columns = panels.len().min(ACROSS);
    let (step, drop) = (LEFT + PANEL + RIGHT, TOP + HEIGHT + BOTTOM);
    let (width, height) = (step * columns as f64, drop * rows as f64);
    let largest = xy(width * LARGEST / REM);
    let mut estimates = curve.points().filter_map(|point| point.estimate);
    let covered = estimates
        .any(|estimate| estimate.interval.is_some())
        .then(|| format!("{} %", (level * 100.0).round()));
    // A table may have the same name as a curve.
    let kind = digest.study.table(&curve.id).map_or("", |_| "curve-");
    let id = format!("{kind}{}-{}", curve.id, curve.era);
    html! {
        figure.chart.curve id=(id) data-of-era=(curve.era) {
            h3 {
                span.id { (curve.id) } " " (curve.title)
                @if name_era { " " span.tag { "era " (curve.era) } }
                @if let Some((fewest, most)) = curve.replicates() {
                    " " span.n {
                        "n = " (fewest) @if fewest < most { " to " (most) }
                    }
                }
            }
            div.legend {
                @for (series, place) in series(curve) {
                    span data-series=(series) { (sample(place)) (series) }
                }
                @if let Some(covered) = covered {
                    span { i.swatch.reach {} "interval that covers " (covered) }
                }
                @if curve.published.iter().any(|p| p.line) {
                    span { i.dashes {} "published" }
                }
                @if errors.iter().flatten().any(|(_, error)| *error > 0.0) {
                    span { i.swatch.instrument {} "instrument's error" }
                }
            }
            div.scroll {
                svg viewBox={ "0 0 " (xy(width)) " " (xy(height)) }
                    style={
                        "max-width:" (largest) "rem;min-width:min(46rem," (largest) "rem);--rows:" (rows)
                    }
                    role="img"
                    aria-label={ (curve.title) ". The figures are in curves.csv." } {
                    @for (index, (_, panel)) in panels.iter().enumerate() {
                        (Frame::new(
                            curve,
                            panel,
                            &errors[index],
                            (index % ACROSS) as f64 * step + LEFT,
                            (index / ACROSS) as f64 * drop + TOP,
                        ).draw())
                    }
                }
            }
            (live::of_curve(digest, curve, &panels, &errors, &published_levels(curve)))
            figcaption {
                (curve.caption)
                @for panel in &curve.panels {
                    @let slopes: Vec<String> =
                        panel.lines.iter().filter_map(Line::slope_text).collect();
                    @if !slopes.is_empty() {
                        " " (panel.title) ", slope in " (panel.unit) " for each: "
                        (slopes.join("; ")) "."
                    }
                }
                @for published in curve.published.iter().filter(|p| !p.figures.is_empty()) {
                    " " span.published { "Paper: " (published.sentence()) "." }
                }
                @if !curve.note.is_empty() { " " (curve.note) }
            }
            @for (remark, places) in curve.remarks() {
                p.footnote { (remark) ": " (places) }
            }
            (instrument::sentence(digest, curve))
            (cells(digest, curve))
        }
    }
}

/// Links to the cells of the points, by series.
fn cells(digest: &Digest<'_>, curve: &CurveResult) -> Markup {
    let mut found: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for (place, panel) in curve.panels.iter().enumerate() {
        for line in &panel.lines {
            let Some(cells) = LineCells::of(digest, curve, place, &line.series) else {
                continue;
            };
            let known = found.iter().position(|(series, _)| *series == line.series);
            let known = known.unwrap_or_else(|| {
                found.push((&line.series, Vec::new()));
                found.len() - 1
            });
            for cell in line.points.iter().filter_map(|point| cells.of_point(point)) {
                if !found[known].1.contains(&cell) {
                    found[known].1.push(cell);
                }
            }
        }
    }
    let count: usize = found.iter().map(|(_, cells)| cells.len()).sum();
    html! {
        @if count > 0 {
            details.sources {
                summary { "Cells of this figure: " (count) }
                @for (series, cells) in found {
                    p {
                        (series) ": "
                        @for (index, cell) in cells.iter().enumerate() {
                            @if index > 0 { ", " }
                            a href={ "#" (evidence::anchor(digest, cell)) } {
                                (cell.key.level(&curve.along).unwrap_or("cell"))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The series of all panels, with their indices.
fn series(curve: &CurveResult) -> Vec<(&str, usize)> {
    let mut series: Vec<(&str, usize)> = Vec::new();
    for line in curve.panels.iter().flat_map(|panel| &panel.lines) {
        if !series.iter().any(|(known, _)| *known == line.series) {
            series.push((&line.series, line.place));
        }
    }
    series.sort_by_key(|(_, place)| *place);
    series
}

fn sample(place: usize) -> Markup {
    html! {
        svg.sample viewBox="0 0 26 10" aria-hidden="true" {
            line class={ "line series" (place % LOOKS) } x1="1" x2="25" y1="5" y2="5" {}
            (mark(place, 13.0, 5.0))
        }
    }
}

/// A mark that differs by shape, so that lines can be distinguished without colour.
fn mark(place: usize, x: f64, y: f64) -> Markup {
    let class = format!("point series{}", place % LOOKS);
    let (x0, y0) = (xy(x), xy(y));
    let path = match place % LOOKS {
        0 => return html! { circle class=(class) cx=(x0) cy=(y0) r="2.8" {} },
        1 => format!("M{} {}h5v5h-5z", xy(x - 2.5), xy(y - 2.5)),
        2 => format!("M{x0} {}l3.2 5.4h-6.4z", xy(y - 3.2)),
        3 => format!("M{x0} {}l3.4 3.4l-3.4 3.4l-3.4 -3.4z", xy(y - 3.4)),
        4 => format!("M{x0} {}l3.2 -5.4h-6.4z", xy(y + 3.2)),
        _ => format!("M{} {}h6v2h-6z", xy(x - 3.0), xy(y - 1.0)),
    };
    html! { path class=(class) d=(path) {} }
}

/// A panel at its position.
struct Frame<'a> {
    curve: &'a CurveResult,
    panel: &'a PanelResult,
    /// The instrument's error at each position, in the unit of the panel.
    errors: &'a [(f64, f64)],
    x: Scale,
    y: Scale,
    left: f64,
    top: f64,
}

impl<'a> Frame<'a> {
    fn new(
        curve: &'a CurveResult,
        panel: &'a PanelResult,
        errors: &'a [(f64, f64)],
        left: f64,
        top: f64,
    ) -> Frame<'a> {
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let widest = points().map(|point| point.x).fold(0.0, f64::max);
        let highest = points()
            .filter_map(|point| {
                let estimate = point.estimate?;
                Some(
                    estimate
                        .interval
                        .map_or(estimate.value, |i| i.high.max(estimate.value)),
                )
            })
            .fold(0.0, f64::max);
        let lowest = points()
            .filter_map(|point| Some(point.estimate?.value))
            .fold(0.0, f64::min);
        let highest = if highest > lowest {
            highest
        } else {
            lowest + 1.0
        };
        let narrowest = points().map(|point| point.x).fold(widest, f64::min);
        let x = if curve.logarithmic && narrowest > 0.0 {
            Scale::logarithmic(narrowest, widest, left, left + PANEL)
        } else {
            Scale::linear(0.0, widest * 1.03, left, left + PANEL)
        };
        Frame {
            curve,
            panel,
            errors,
            x,
            y: Scale::linear(
                lowest,
                lowest + (highest - lowest) * 1.06,
                top + HEIGHT,
                top,
            ),
            left,
            top,
        }
    }

    fn draw(&self) -> Markup {
        let (right, bottom) = (self.left + PANEL, self.top + HEIGHT);
        html! {
            text.panel x=(xy(self.left - LEFT + 6.0)) y=(xy(self.top - 10.0)) {
                (self.panel.title) tspan.unit { ", " (self.panel.unit) }
            }
            @for tick in self.y.ticks(4) {
                line.grid x1=(xy(self.left)) x2=(xy(right))
                    y1=(xy(self.y.place(tick))) y2=(xy(self.y.place(tick))) {}
                text.tick x=(xy(self.left - 5.0)) y=(xy(self.y.place(tick) + 3.5)) text-anchor="end" {
                    (trimmed(tick))
                }
            }
            @for tick in self.columns() {
                line.grid x1=(xy(self.x.place(tick))) x2=(xy(self.x.place(tick)))
                    y1=(xy(bottom)) y2=(xy(bottom + 4.0)) {}
                text.tick x=(xy(self.x.place(tick))) y=(xy(bottom + 15.0)) text-anchor="middle" {
                    (trimmed(tick))
                }
            }
            text.tick x=(xy(right)) y=(xy(bottom + 29.0)) text-anchor="end" { (self.curve.axis) }
            (self.published())
            @if self.panel.identity { (self.identity()) }
            (self.instrument())
            @for line in self.panel.lines.iter().filter(|line| line.fit.is_none()) {
                (self.reach(line))
            }
            @for line in &self.panel.lines { (self.line(line)) }
        }
    }

    /// The ticks of the horizontal axis. On a logarithmic axis they are at the points: the points are few, and each is
    /// usually twice the previous one.
    fn columns(&self) -> Vec<f64> {
        let points = self.panel.lines.iter().flat_map(|line| &line.points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        match self.curve.logarithmic && places.len() <= 8 {
            true => places,
            false => self.x.ticks(6),
        }
    }

    /// Published levels of the horizontal axis.
    fn published(&self) -> Markup {
        let mut lines = published_levels(self.curve);
        lines.retain(|(x, _)| !self.x.is_beyond(*x));
        html! {
            @for (index, (x, names)) in lines.iter().enumerate() {
                @let at = self.x.place(*x);
                line.paper x1=(xy(at)) x2=(xy(at)) y1=(xy(self.top)) y2=(xy(self.top + HEIGHT)) {}
                text.paper x=(xy(at + 3.0)) y=(xy(self.top + HEIGHT - 15.0 - 11.0 * index as f64)) { (names) }
            }
        }
    }

    /// The instrument's error as an area above the axis, behind the data. An invisible area means that the error is
    /// below the resolution of the drawing.
    fn instrument(&self) -> Markup {
        let (Some(first), Some(last)) = (self.errors.first(), self.errors.last()) else {
            return html! {};
        };
        let floor = self.y.place(0.0);
        let ends = [
            corner(self.x.place(last.0), floor),
            corner(self.x.place(first.0), floor),
        ];
        let edge = self.errors.iter();
        let edge = edge.map(|(x, error)| corner(self.x.place(*x), self.y.place(*error)));
        let corners: Vec<String> = edge.chain(ends).collect();
        html! { polygon.instrument points=(corners.join(" ")) {} }
    }

    fn identity(&self) -> Markup {
        let ends = |value: f64| (xy(self.x.place(value)), xy(self.y.place(value)));
        let mut end = 0.0;
        for line in &self.panel.lines {
            end = line.points.iter().map(|p| p.x).fold(end, f64::max);
        }
        // The line ends at the end of the shorter axis.
        if self.y.is_beyond(end) {
            end = self.y.ticks(20).last().copied().unwrap_or(0.0);
        }
        let ((x1, y1), (x2, y2)) = (ends(0.0), ends(end));
        html! { line.identity x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} }
    }

    /// The shaded intervals of a line. Each sequence of neighbouring points with intervals is one area.
    fn reach(&self, line: &Line) -> Markup {
        let class = format!("reach series{}", line.place % LOOKS);
        let intervals = line.points.iter().map(|point| {
            let interval = point.estimate.and_then(|estimate| estimate.interval)?;
            Some((
                self.x.place(point.x),
                self.y.place(interval.low),
                self.y.place(interval.high),
            ))
        });
        let intervals: Vec<Option<(f64, f64, f64)>> = intervals.collect();
        html! {
            @for stretch in intervals.split(Option::is_none).filter(|stretch| stretch.len() > 1) {
                @let up = stretch.iter().flatten().map(|(x, _, high)| corner(*x, *high));
                @let back = stretch.iter().rev().flatten().map(|(x, low, _)| corner(*x, *low));
                polygon class=(class) points=(up.chain(back).collect::<Vec<_>>().join(" ")) {}
            }
        }
    }

    /// A line with its marks and its knee. The line is interrupted at missing levels.
    fn line(&self, line: &Line) -> Markup {
        let places: Vec<Option<(f64, f64)>> = line
            .points
            .iter()
            .map(|point| Some((self.x.place(point.x), self.y.place(point.estimate?.value))))
            .collect();
        let class = format!("line series{}", line.place % LOOKS);
        // Points with a fitted line are not ordered by a factor, so they are not connected.
        let is_joined = line.fit.is_none();
        html! {
            (self.fit(line))
            @for stretch in places.split(Option::is_none).filter(|s| is_joined && s.len() > 1) {
                @let corners = stretch.iter().flatten().map(|(x, y)| corner(*x, *y));
                polyline class=(class) points=(corners.collect::<Vec<_>>().join(" ")) {}
            }
            @for (x, y) in places.iter().flatten() { (mark(line.place, *x, *y)) }
            @if let Some((x, y)) = self.knee(line) {
                circle class={ "knee series" (line.place % LOOKS) } cx=(xy(x)) cy=(xy(y)) r="6.5" {}
            }
            @for (point, place) in line.points.iter().zip(&places) {
                @if place.is_none() {
                    text.absent x=(xy(self.x.place(point.x))) y=(xy(self.top + HEIGHT - 4.0))
                        text-anchor="middle" { "INVALID" }
                }
            }
        }
    }

    /// The fitted line, cut to the range of the points and of the panel.
    fn fit(&self, line: &Line) -> Markup {
        let Some(fit) = line.fit else {
            return html! {};
        };
        let height = |x: f64| fit.intercept + fit.slope.value * x;
        let ends = |pick: fn(f64, f64) -> f64, from: f64| {
            line.points.iter().map(|point| point.x).fold(from, pick)
        };
        let (x1, x2) = (ends(f64::min, f64::INFINITY), ends(f64::max, 0.0));
        html! {
            line class={ "line fit series" (line.place % LOOKS) }
                x1=(xy(self.x.place(x1))) y1=(xy(self.y.place(height(x1))))
                x2=(xy(self.x.place(x2))) y2=(xy(self.y.place(height(x2)))) {}
        }
    }

    fn knee(&self, line: &Line) -> Option<(f64, f64)> {
        let point = line
            .points
            .iter()
            .find(|point| Some(point.x) == line.knee)?;
        Some((self.x.place(point.x), self.y.place(point.estimate?.value)))
    }
}

/// Published levels of the horizontal axis, each with the variants that it concerns.
fn published_levels(curve: &CurveResult) -> Vec<(f64, String)> {
    let figures = curve.published.iter().filter(|p| p.line);
    let mut lines: Vec<(f64, String)> = Vec::new();
    for (variant, x) in figures.flat_map(|published| &published.figures) {
        match lines.iter_mut().find(|(known, _)| known == x) {
            Some((_, names)) => names.push_str(&format!(", {variant}")),
            None => lines.push((*x, variant.clone())),
        }
    }
    lines
}

fn corner(x: f64, y: f64) -> String {
    format!("{},{}", xy(x), xy(y))
}
