//! Interactive charts: the script, its data as JSON blocks in the page, and the policy that allows only this script.
//!
//! The script is optional: without it, every figure is a static SVG.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::evidence::{self, LineCells};
use crate::digest::Digest;
use crate::statistics::Estimate;
use crate::sweep::{CurveResult, Line, PanelResult};

/// The chart library, and its licence text, which each copy must contain.
const LIBRARY: [&str; 2] = [
    include_str!("vendor/uplot/LICENSE"),
    include_str!("vendor/uplot/uPlot.iife.min.js"),
];
/// The style sheet of the chart library.
pub(super) const STYLE: &str = include_str!("vendor/uplot/uPlot.min.css");
/// The scripts of this program, in order.
const SCRIPTS: [&str; 5] = [
    include_str!("script/charts.js"),
    include_str!("script/bars.js"),
    include_str!("script/cells.js"),
    include_str!("script/details.js"),
    SEQUENCES,
];
/// The script of time-sequence graphs.
const SEQUENCES: &str = include_str!("script/sequences.js");

/// The script of a report, from which the policy computes its hash.
pub(super) struct Script {
    text: String,
}

impl Script {
    /// The script of every report.
    pub(super) fn new() -> Script {
        let [licence, library] = LIBRARY;
        let own = SCRIPTS.concat();
        let text = format!("/* uPlot:\n{licence}*/\n{library}\n{own}");
        Script { text }
    }

    /// The script of a page that has only time-sequence graphs.
    pub(super) fn of_sequences() -> Script {
        let text = SEQUENCES.to_owned();
        Script { text }
    }

    /// The content security policy of a page that runs only this script and loads nothing. Plots are embedded images.
    pub(super) fn policy(&self) -> String {
        let hash = digest(&SHA256, self.text.as_bytes());
        format!(
            "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; img-src data:; \
             script-src 'sha256-{}'",
            BASE64_STANDARD.encode(hash.as_ref())
        )
    }

    /// The script element, which is placed at the end of the page.
    pub(super) fn element(&self) -> Markup {
        html! { script { (PreEscaped(&self.text)) } }
    }
}

/// A block of data for the script, inside its figure.
pub(super) fn data(value: &Value) -> Markup {
    // Text from the run must not close the element.
    let text = value.to_string().replace('<', "\\u003c");
    html! { script.data type="application/json" { (PreEscaped(text)) } }
}

/// The panels of a curve. Each point is `[x, mean, low, high, n, cell]`, where `cell` is the identifier of the cell's
/// row in the list of all cells. `errors` contains the instrument's error at each position of each panel. `published`
/// contains the published levels of the horizontal axis with their variants.
pub(super) fn of_curve(
    digest: &Digest<'_>,
    curve: &CurveResult,
    panels: &[(usize, &PanelResult)],
    errors: &[Vec<(f64, f64)>],
    published: &[(f64, String)],
) -> Markup {
    let series = |place: usize, panel: &PanelResult| -> Vec<Value> {
        let cells = |line: &Line| LineCells::of(digest, curve, place, &line.series);
        let lines = panel.lines.iter();
        lines
            .map(|line| series(digest, line, cells(line).as_ref()))
            .collect()
    };
    let panels: Vec<Value> = panels
        .iter()
        .zip(errors)
        .map(|((place, panel), errors)| {
            let mut points = panel.lines.iter().flat_map(|line| &line.points);
            json!({
                "title": panel.title, "unit": panel.unit, "axis": curve.axis,
                "logarithmic": curve.logarithmic && points.all(|point| point.x > 0.0),
                "identity": panel.identity, "published": published,
                "series": series(*place, panel),
                "errors": errors.iter().map(|(x, error)| [*x, short(*error)]).collect::<Vec<_>>(),
            })
        })
        .collect();
    data(&Value::Array(panels))
}

fn series(digest: &Digest<'_>, line: &Line, cells: Option<&LineCells<'_>>) -> Value {
    let points: Vec<Value> = line
        .points
        .iter()
        .map(|point| {
            let cell = cells.and_then(|cells| cells.of_point(point));
            let cell = cell.map(|cell| evidence::anchor(digest, cell));
            let Some(Estimate {
                value, interval, n, ..
            }) = point.estimate
            else {
                return json!([point.x, null, null, null, 0, cell]);
            };
            let ends = interval.map(|interval| (short(interval.low), short(interval.high)));
            let (low, high) = ends.unzip();
            json!([point.x, short(value), low, high, n, cell])
        })
        .collect();
    let knee = line.points.iter().find(|point| Some(point.x) == line.knee);
    let knee = knee.and_then(|point| Some([point.x, point.estimate?.value]));
    let fit = line.fit.map(|fit| {
        let [first, last] = [line.points.first(), line.points.last()]
            .map(|point| point.map_or(0.0, |point| point.x));
        let height = |x: f64| fit.intercept + fit.slope.value * x;
        [first, height(first), last, height(last)]
    });
    json!({"name": line.series, "place": line.place, "points": points, "knee": knee, "fit": fit})
}

/// The value with seven significant digits, which exceeds the resolution of a chart.
fn short(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(text: &str) -> String {
        let hash = digest(&SHA256, text.as_bytes());
        hash.as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn the_library_is_the_one_that_the_list_names() {
        let list = include_str!("vendor/README.md");
        for (text, file) in [(LIBRARY[1], "uPlot.iife.min.js"), (STYLE, "uPlot.min.css")] {
            let line = format!("{}  uplot/{file}", hexadecimal(text));
            assert!(list.contains(&line), "{line}");
        }
    }

    #[test]
    fn no_text_ends_a_script_early() {
        let script = Script::new();
        assert!(!script.text.contains("</"), "an end tag in the script");
        assert!(!script.text.contains("<!--"));
        // The licence must not close the comment that contains it.
        assert_eq!(LIBRARY[0].find("*/"), None);
        let block = data(&json!({"name": "</script><script>alert(1)</script>"})).into_string();
        assert_eq!(block.matches('<').count(), 2, "{block}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.123_456_789), 0.123_456_8);
        assert_eq!(short(1e9), 1e9);
    }
}
