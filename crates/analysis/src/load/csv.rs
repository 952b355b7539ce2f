//! Comma-separated values (RFC 4180): two tables, each with a header line. pandas and DuckDB read them
//! without options.
//!
//! - [`summary`]: `metric,value,unit`, one figure per line, named as in the JSON summary, with the names of
//!   nested members joined by dots
//! - [`timeline`]: the timeline, one interval per line
//!
//! A value that could not be measured is an empty field.

use serde_json::Value;

use super::{LoadResult, Summary, Verdict};
use crate::csv::field;

/// All figures of the summary, one per line: `measured.phases.corrected.p99_ms,12.3,ms`. Texts (the URL, settings,
/// reasons for INVALID) are also lines, without a unit. The timeline and the targets are left out, because they are
/// separate tables.
pub fn summary(result: &LoadResult, slos: &[Verdict]) -> String {
    let summary = Summary::of(result).with_slos(slos.to_vec());
    let mut value = serde_json::to_value(&summary).expect("a summary is JSON");
    if let Some(members) = value.as_object_mut() {
        members.remove("timeline");
        members.remove("targets");
    }
    let mut text = String::from("metric,value,unit\n");
    lines(&mut text, "", &value);
    text
}

/// The timeline of the test, one line per interval.
pub fn timeline(result: &LoadResult) -> String {
    let mut text = String::from(
        "start_s,length_s,planned,completed,errors,received_bytes,connections,p50_ms,p90_ms,p99_ms,\
         max_ms,send_lag_p99_ms\n",
    );
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for interval in Summary::of(result).timeline {
        let fields = [
            interval.start_s.to_string(),
            interval.length_s.to_string(),
            interval.planned.to_string(),
            interval.completed.to_string(),
            interval.errors.to_string(),
            interval.received_bytes.to_string(),
            interval.connections.to_string(),
            optional(interval.p50_ms),
            optional(interval.p90_ms),
            optional(interval.p99_ms),
            optional(interval.max_ms),
            optional(interval.send_lag_p99_ms),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn lines(text: &mut String, name: &str, value: &Value) {
    let below = |member: &str| match name {
        "" => member.to_owned(),
        name => format!("{name}.{member}"),
    };
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                lines(text, &below(member), value);
            }
        }
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                lines(text, &below(&place.to_string()), value);
            }
        }
        Value::Null => line(text, name, ""),
        Value::String(value) => line(text, name, value),
        other => line(text, name, &other.to_string()),
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let unit = [
        ("bytes_per_s", "B/s"),
        ("per_s", "/s"),
        ("ms", "ms"),
        ("us", "us"),
        ("s", "s"),
        ("bytes", "B"),
        ("share", "1"),
        ("ratio", "1"),
    ]
    .into_iter()
    .find(|(suffix, _)| {
        let stem = name.strip_suffix(suffix);
        stem.is_some_and(|stem| stem.ends_with(['_', '.']))
    })
    .map_or("", |(_, unit)| unit);
    text.push_str(&format!("{},{},{unit}\n", field(name), field(value)));
}
