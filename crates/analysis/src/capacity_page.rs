//! The page of a capacity search: one HTML file without scripts, and without requests to the outside.
//!
//! The answers come first, then the curves over the load: latency, completed exchanges, and the share of exchanges
//! that violate an SLO.

use fathometer_model::digits::{grouped, trimmed};
use maud::{Markup, html};

use crate::page;
use crate::svg::{Scale, xy};

/// The content security policy: the page loads nothing, because styles and drawings are inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 26.0;

/// The result of a capacity search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CapacityReport {
    /// The server's URL.
    pub url: String,
    /// The kind of load, and the settings of the search, as names and values.
    pub facts: Vec<(String, String)>,
    /// The unit of loads, as in `requests/s`.
    pub unit: String,
    /// One sentence for each SLO, and whether the search found its interval.
    pub answers: Vec<(String, bool)>,
    /// A point for each load, in ascending order.
    pub points: Vec<LoadPoint>,
    /// The ends of the intervals, each as a load and a label.
    pub ends: Vec<(f64, String)>,
    /// The load at the knee of the curve; `None` if the curve has no knee.
    pub knee: Option<f64>,
}

/// The measurements of the trials at one load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LoadPoint {
    /// The load, above zero.
    pub load: f64,
    /// Median and 99th percentile of the latency in milliseconds.
    pub latency_ms: Option<[f64; 2]>,
    /// Completed exchanges per second.
    pub completed_per_s: Option<f64>,
    /// The largest share of exchanges that violate one SLO, 0 to 1.
    pub bad_share: f64,
}

/// Returns the whole page.
pub fn render(report: &CapacityReport) -> String {
    let latency = |place: usize| -> Vec<(f64, f64)> {
        let of = |point: &LoadPoint| Some((point.load, point.latency_ms?[place]));
        report.points.iter().filter_map(of).collect()
    };
    let completed = report.points.iter();
    let completed = completed.filter_map(|point| Some((point.load, point.completed_per_s?)));
    let bad = report
        .points
        .iter()
        .map(|point| (point.load, 100.0 * point.bad_share));
    let body = html! {
        header {
            p.kicker { "Capacity" }
            h1 { (report.url) }
            @for (answer, is_found) in &report.answers {
                @let (class, word) = if *is_found { ("holds", "found") } else { ("undecided", "no answer") };
                p.answer { span.badge.(class) { (word) } " " (answer) }
            }
            dl.facts {
                @for (name, value) in &report.facts { dt { (name) } dd { (value) } }
            }
        }
        main {
            section {
                h2 { "The curve" }
                (panel(report, "Latency, ms (log scale)", &[("p50", 0, latency(0)), ("p99", 1, latency(1))], true))
                (panel(report, "Completed exchanges per second", &[("completed", 0, completed.collect())], false))
                (panel(report, "Exchanges that violate an SLO, %", &[("broken", 4, bad.collect())], false))
                p.remark {
                    "Each point is a load; vertical lines are the ends of the intervals."
                    @if report.knee.is_some() {
                        " The dashed line is the knee: the load with the largest power, which is the throughput of \
                         exchanges that meet the SLOs, over the median latency (Kleinrock 1979)."
                    }
                }
            }
            section {
                h2 { "All loads" }
                (table(report))
            }
        }
        footer {
            "Made by fathometer " (env!("CARGO_PKG_VERSION")) ". "
            code { "fathometer capacity --json" } " has the same figures for programs."
        }
    };
    page::page(&format!("Capacity of {}", report.url), POLICY, &body).into_string()
}

/// A line: its label, its series number for the colour, and its points.
type Line = (&'static str, usize, Vec<(f64, f64)>);

fn panel(report: &CapacityReport, title: &str, lines: &[Line], is_log: bool) -> Markup {
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.2.iter().map(|point| point.1))
    };
    let most = values().fold(0.0, f64::max);
    let least = values()
        .filter(|value| *value > 0.0)
        .fold(f64::INFINITY, f64::min);
    let (Some(first), Some(last)) = (report.points.first(), report.points.last()) else {
        return html! {};
    };
    if is_log && !least.is_finite() {
        return html! {};
    }
    let x = Scale::logarithmic_around(first.load, last.load, LEFT, WIDTH - RIGHT);
    let y = match is_log {
        true => Scale::logarithmic_around(least, most, BOTTOM, TOP),
        false => Scale::linear(0.0, 1.05 * most, BOTTOM, TOP),
    };
    html! {
        figure.curve.chart style="overflow-x: auto" {
            h3 { (title) }
            div.legend {
                @for (label, series, _) in lines { span { i.swatch.{ "part" (series) } {} (label) } }
            }
            svg style="min-width: 36rem" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) {
                @for value in y.ticks(4) {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(xy(y.place(value))) y2=(xy(y.place(value))) {}
                    text.tick x=(LEFT - 6.0) y=(xy(y.place(value) + 4.0)) text-anchor="end" { (label(value)) }
                }
                @for value in x.ticks(8) {
                    text.tick x=(xy(x.place(value))) y=(HEIGHT - 8.0) text-anchor="middle" { (label(value)) }
                }
                @for (load, end) in &report.ends {
                    line.published x1=(xy(x.place(*load))) x2=(xy(x.place(*load))) y1=(TOP) y2=(BOTTOM) {
                        title { (end) }
                    }
                }
                @if let Some(load) = report.knee {
                    line.grid x1=(xy(x.place(load))) x2=(xy(x.place(load))) y1=(TOP) y2=(BOTTOM)
                        style="stroke-dasharray: 6 4; stroke-width: 2" {
                        title { "knee" }
                    }
                }
                @for (_, series, points) in lines {
                    path.line.{ "series" (series) } d=(path(points, &x, &y)) {}
                    @for (load, value) in points {
                        circle.point.{ "series" (series) } r="2.5" cx=(xy(x.place(*load))) cy=(xy(y.place(*value))) {}
                    }
                }
            }
        }
    }
}

fn path(points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let mut text = String::new();
    for (place, (load, value)) in points.iter().enumerate() {
        text.push(if place == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", xy(x.place(*load)), xy(y.place(*value))));
    }
    text
}

fn label(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => grouped(value.round() as i64),
        value => trimmed(value),
    }
}

fn table(report: &CapacityReport) -> Markup {
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    html! {
        div.table { table {
            thead {
                tr {
                    th { (report.unit) } th { "completed/s" } th { "p50 ms" } th { "p99 ms" } th { "broken, %" } th {}
                }
            }
            tbody {
                @for point in &report.points {
                    tr {
                        td { (format!("{:.1}", point.load)) }
                        td { (figure(point.completed_per_s)) }
                        td { (figure(point.latency_ms.map(|latency| latency[0]))) }
                        td { (figure(point.latency_ms.map(|latency| latency[1]))) }
                        td { (format!("{:.2}", 100.0 * point.bad_share)) }
                        td {
                            @for (_, end) in report.ends.iter().filter(|(load, _)| *load == point.load) { (end) " " }
                        }
                    }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_first_and_ends_are_marked() {
        let point = |load: f64, p99: f64| LoadPoint {
            load,
            latency_ms: Some([1.0, p99]),
            completed_per_s: Some(load),
            bad_share: 0.001,
        };
        let page = render(&CapacityReport {
            url: "http://server/?a=<b>".to_owned(),
            unit: "requests/s".to_owned(),
            answers: vec![("p99<100ms: works at 1000 requests/s".to_owned(), true)],
            points: vec![point(100.0, 2.0), point(1000.0, 50.0), point(1020.0, 200.0)],
            ends: vec![(1000.0, "p99<100ms works".to_owned())],
            knee: Some(100.0),
            ..CapacityReport::default()
        });
        let places = [
            "works at 1000",
            "The curve",
            "<svg",
            "All loads",
            "p99&lt;100ms works </td>",
        ];
        let mut before = 0;
        for place in places {
            let at = page[before..]
                .find(place)
                .unwrap_or_else(|| panic!("{place} is missing or too early"));
            before += at;
        }
        assert!(page.contains("?a=&lt;b&gt;") && !page.contains("<script"));
        assert_eq!(page.matches("<title>knee</title>").count(), 3);
        assert!(page.contains("Kleinrock"));
    }

    #[test]
    fn a_search_without_a_trial_has_a_page() {
        assert!(render(&CapacityReport::default()).contains("Capacity"));
    }
}
