//! Curves as comma-separated values, one point per line.

use super::CurveResult;
use crate::csv::field;

const HEADER: &str = "figure,panel,metric,unit,era,series,factor,level,n,mean,low,high,remark\r\n";

/// The curves as CSV (RFC 4180), with a header and one line for each point. The columns `low` and `high` are the
/// interval of `mean`. All three are empty for a point without a valid replicate. `low` and `high` are empty for a
/// point with only one valid replicate. Numbers have full precision.
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
                    text.push_str(&fields.each_ref().map(|text| field(text)).join(","));
                    text.push_str("\r\n");
                }
            }
        }
    }
    text
}
