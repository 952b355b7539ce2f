//! Curves as comma-separated values, a point a line.

use super::CurveResult;

const HEADER: &str = "figure,panel,metric,unit,era,series,factor,level,n,mean,low,high,remark\r\n";

/// The curves as CSV (RFC 4180), a header and a line for each point: `mean` with the interval from
/// `low` to `high`, all empty where the point has no valid replicate, and the interval where it has
/// one alone. Numbers have every digit that they were computed with.
pub fn csv_text(curves: &[CurveResult]) -> String {
    let mut text = HEADER.to_owned();
    for curve in curves {
        for panel in &curve.panels {
            for line in &panel.lines {
                for point in &line.points {
                    let number =
                        |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
                    let interval = point.estimate.and_then(|e| e.interval);
                    let fields = [
                        curve.id.clone(),
                        panel.title.clone(),
                        panel.metric.clone(),
                        panel.unit.clone(),
                        curve.era.clone(),
                        line.series.clone(),
                        panel.along.clone(),
                        point.x.to_string(),
                        point.estimate.map_or(0, |e| e.n).to_string(),
                        number(point.estimate.map(|e| e.value)),
                        number(interval.map(|i| i.low)),
                        number(interval.map(|i| i.high)),
                        point.remark.clone(),
                    ];
                    text.push_str(&fields.map(field).join(","));
                    text.push_str("\r\n");
                }
            }
        }
    }
    text
}

fn field(text: String) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}
