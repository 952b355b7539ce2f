//! The charts of the page, as SVG without scripts.

use std::time::Duration;

use fathometer_model::digits::{grouped, trimmed};
use maud::{Markup, html};

use crate::load::summary::IntervalSummary;
use crate::load::{Distribution, Summary};
use crate::svg::{Scale, xy};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 16.0;
/// On a narrow screen the chart keeps its size, and the figure scrolls.
const SCROLLS: &str = "overflow-x: auto";
const READABLE: &str = "min-width: 36rem";
/// The number of classes of the distribution.
const CLASSES: usize = 120;

/// A line of a panel: its label, its series number (which selects the colour), and its points.
struct Line {
    label: &'static str,
    series: usize,
    points: Vec<(f64, f64)>,
}

/// Latency percentiles and rates over time; empty if nothing was measured.
pub(super) fn over_time(summary: &Summary) -> Markup {
    let of = |label, series, value: fn(&IntervalSummary) -> Option<f64>| Line {
        label,
        series,
        points: points(summary, value),
    };
    let latency = [
        of("p50", 0, |i| i.p50_ms),
        of("p90", 2, |i| i.p90_ms),
        of("p99", 1, |i| i.p99_ms),
        of("max", 4, |i| i.max_ms),
    ];
    let rates = [
        of("completed", 0, |i| Some(i.completed as f64 / i.length_s)),
        of("planned", 2, |i| Some(i.planned as f64 / i.length_s)),
        of("errors", 4, |i| Some(i.errors as f64 / i.length_s)),
    ];
    html! {
        (panel("Latency, ms (log scale)", summary, &latency, true))
        (panel("Exchanges per second", summary, &rates, false))
        @if summary.warm_up.is_some() || summary.drain.is_some() {
            p.remark { "The shaded seconds are warm-up and drain, which are not in the figures." }
        }
    }
}

/// Open connections over time.
pub(super) fn connections(summary: &Summary) -> Markup {
    let line = Line {
        label: "open",
        series: 0,
        points: points(summary, |i| Some(i.connections as f64)),
    };
    panel("Open connections", summary, &[line], false)
}

fn points(summary: &Summary, value: fn(&IntervalSummary) -> Option<f64>) -> Vec<(f64, f64)> {
    let intervals = summary.timeline.iter();
    intervals
        .filter_map(|i| Some((i.start_s + i.length_s / 2.0, value(i)?)))
        .collect()
}

fn panel(title: &str, summary: &Summary, lines: &[Line], is_log: bool) -> Markup {
    const HEIGHT: f64 = 220.0;
    let (top, bottom) = (10.0, HEIGHT - 26.0);
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|p| p.1))
    };
    let most = values().fold(0.0, f64::max);
    let least = values()
        .filter(|value| *value > 0.0)
        .fold(f64::INFINITY, f64::min);
    let (Some(last), true) = (summary.timeline.last(), !is_log || least.is_finite()) else {
        return html! {};
    };
    let end = last.start_s + last.length_s;
    let x = Scale::linear(0.0, end, LEFT, WIDTH - RIGHT);
    let y = match is_log {
        true => Scale::logarithmic_around(least, most, bottom, top),
        false => Scale::linear(0.0, 1.05 * most, bottom, top),
    };
    let start = summary
        .warm_up
        .as_ref()
        .map_or(0.0, |window| window.duration_s);
    let stop = start + summary.measured.duration_s;
    html! {
        figure.curve.chart style=(SCROLLS) {
            h3 { (title) }
            (legend(lines))
            svg style=(READABLE) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) {
                @for (from, to) in [(0.0, start), (stop, end)] {
                    @if to > from {
                        rect.band x=(xy(x.place(from))) y=(top) width=(xy(x.place(to) - x.place(from)))
                            height=(bottom - top) {}
                    }
                }
                (grid(&x, &y, (top, bottom), " s"))
                @for line in lines {
                    path.line.{ "series" (line.series) } d=(path(&line.points, &x, &y)) {}
                    @if line.points.len() == 1 {
                        circle.point.{ "series" (line.series) } r="3" cx=(xy(x.place(line.points[0].0)))
                            cy=(xy(y.place(line.points[0].1))) {}
                    }
                }
            }
        }
    }
}

fn legend(lines: &[Line]) -> Markup {
    html! {
        div.legend {
            @for line in lines {
                span { i.swatch.{ "part" (line.series) } {} (line.label) }
            }
        }
    }
}

fn path(points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let mut text = String::new();
    for (place, (at, value)) in points.iter().enumerate() {
        text.push(if place == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", xy(x.place(*at)), xy(y.place(*value))));
    }
    text
}

fn grid(x: &Scale, y: &Scale, (top, bottom): (f64, f64), unit: &str) -> Markup {
    html! {
        @for tick in y.ticks(6) {
            @let at = y.place(tick);
            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(xy(at)) y2=(xy(at)) {}
            text.tick x=(LEFT - 6.0) y=(xy(at + 3.5)) text-anchor="end" { (label(tick)) }
        }
        @for tick in x.ticks(8) {
            @let at = x.place(tick);
            line.grid x1=(xy(at)) x2=(xy(at)) y1=(top) y2=(bottom) {}
            text.tick x=(xy(at)) y=(bottom + 15.0) text-anchor="middle" { (label(tick)) (unit) }
        }
    }
}

/// The share of exchanges by latency, on a logarithmic axis, with its percentiles.
pub(super) fn distribution(times: &Distribution) -> Markup {
    const HEIGHT: f64 = 260.0;
    const MARKS: [(&str, f64); 5] = [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
        ("max", 1.0),
    ];
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let (Some(least), Some(most)) = (times.min(), times.max()) else {
        return html! {};
    };
    let (least, most) = (millis(least).max(1e-6), millis(most).max(1e-6));
    let (top, bottom) = (30.0, HEIGHT - 26.0);
    let x = Scale::logarithmic_around(least, most, LEFT, WIDTH - RIGHT);
    let mut classes = [0u64; CLASSES];
    let width = (WIDTH - RIGHT - LEFT) / CLASSES as f64;
    for (nanos, number) in times.recorded() {
        let at = (x.place(nanos as f64 / 1e6) - LEFT) / width;
        classes[(at.max(0.0) as usize).min(CLASSES - 1)] += number;
    }
    let share = |number: u64| 100.0 * number as f64 / times.count() as f64;
    let highest = share(classes.iter().copied().max().unwrap_or(0));
    // The axis of shares starts low enough to show a single exchange.
    let y = Scale::logarithmic_around(share(1).min(highest), highest, bottom, top);
    html! {
        figure.curve.chart style=(SCROLLS) {
            h3 { "Share of exchanges by latency, % (both scales logarithmic)" }
            svg style=(READABLE) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Distribution of the latency" {
                (grid(&x, &y, (top, bottom), " ms"))
                @for (place, number) in classes.iter().enumerate() {
                    @if *number > 0 {
                        @let at = y.place(share(*number));
                        rect.bar.era1 x=(xy(LEFT + place as f64 * width)) y=(xy(at)) width=(xy(width))
                            height=(xy((bottom - at).max(1.0))) {}
                    }
                }
                @for (place, (name, quantile)) in MARKS.iter().enumerate() {
                    @if let Some(time) = times.quantile(*quantile) {
                        @let at = x.place(millis(time));
                        line.published x1=(xy(at)) x2=(xy(at)) y1=(top - 8.0) y2=(bottom) {}
                        text.value x=(xy(at)) y=(if place % 2 == 0 { 10.0 } else { 20.0 })
                            text-anchor=(if at > WIDTH - 60.0 { "end" } else { "middle" }) { (name) }
                    }
                }
            }
            figcaption {
                "From the planned instant to the last byte. "
                (grouped(times.count())) " exchanges in " (CLASSES) " classes of latency. Lines mark percentiles."
            }
        }
    }
}

/// Horizontal bars with their counts.
pub(super) fn bars(title: &str, counts: &[(String, u64)]) -> Markup {
    const ROW: f64 = 20.0;
    const NAMES: f64 = 130.0;
    let most = counts.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let x = Scale::linear(0.0, most as f64, NAMES, WIDTH - 130.0);
    html! {
        figure.chart style=(SCROLLS) {
            h3 { (title) }
            @if counts.is_empty() {
                p { "No exchange ended." }
            } @else {
                svg style=(READABLE) viewBox={ "0 0 " (WIDTH) " " (ROW * counts.len() as f64) } role="img" aria-label=(title) {
                    @for (place, (name, number)) in counts.iter().enumerate() {
                        @let top = ROW * place as f64;
                        @let end = x.place(*number as f64);
                        text x=(NAMES - 8.0) y=(top + 14.0) text-anchor="end" { (name) }
                        rect.bar.era1 x=(NAMES) y=(top + 3.0) width=(xy((end - NAMES).max(1.0))) height=(ROW - 6.0) {}
                        text.value x=(xy(end + 6.0)) y=(top + 14.0) { (grouped(number)) }
                    }
                }
            }
        }
    }
}

fn label(value: f64) -> String {
    match value {
        large if large >= 1000.0 => grouped(large.round() as i64),
        small if small > 0.0 && small < 0.001 => format!("{small:.0e}"),
        value => trimmed(value),
    }
}
