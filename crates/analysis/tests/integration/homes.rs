//! Tests that other programs read the results: pandas, the Python client of Prometheus and, for traces, the performance
//! panel of Chromium's developer tools. Python's `jsonschema` validates exported page retrievals against schemas of
//! their formats.

#![expect(clippy::disallowed_types, reason = "other programs are processes")]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use fathometer_analysis::load::{Interval, csv, prometheus};
use fathometer_analysis::retrieval_trace::{chrome_trace, http_archive};
use fathometer_analysis::run::Mode;
use serde_json::{Value, json};

use crate::browser::chromium;
use crate::browser::devtools::DevTools;
use crate::common::Fixture;
use crate::load::formats::{Sample, exposition};
use crate::load::sample;
use crate::retrieval_trace::run;

/// The schema of HAR 1.2: required members and their types (<http://www.softwareishard.com/blog/har-12-spec/>).
const ARCHIVE: &str = include_str!("homes/har-1.2.schema.json");
/// The schema of the Trace Event Format, for the kinds of events that Fathometer writes.
const TRACE: &str = include_str!("homes/trace-event.schema.json");

/// A Python script that lists the schema violations of each document.
const JUDGE: &str = r#"
import jsonschema
schema, documents = given
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
faults = lambda one: [f"{e.json_path}: {e.message[:300]}" for e in validator.iter_errors(one)]
answer = [faults(one) for one in documents]
"#;

/// Runs a Python script with the variable `given` and returns its variable `answer`; `None` if a module is missing.
/// With `FATHOMETER_REQUIRE_TOOLS=1`, panics instead of returning `None`. `packages` names the Debian packages of the
/// modules.
fn in_python(script: &str, given: &Value, packages: &str) -> Option<Value> {
    // A missing module is reported separately from errors of the script.
    let script = format!(
        "import json, sys\ngiven = json.load(sys.stdin)\ntry:\n{}\nexcept ModuleNotFoundError:\n    sys.exit(77)\n\
         print(json.dumps(answer))\n",
        script
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    );
    let spawned = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let output = spawned.and_then(|mut python| {
        let mut input = python.stdin.take().unwrap();
        let written = input.write_all(given.to_string().as_bytes());
        drop(input);
        let output = python.wait_with_output();
        written.and(output)
    });
    match output {
        Ok(output) if output.status.success() => {
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        Ok(output) if output.status.code() != Some(77) => panic!("{}", output.status),
        _ => {
            let required =
                std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
            assert!(!required, "this test needs the Debian packages {packages}");
            eprintln!("not tested: Python lacks {packages}");
            None
        }
    }
}

/// Returns the schema violations of each document.
fn faults(schema: &str, documents: &[Value]) -> Option<Vec<Vec<String>>> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let faults = in_python(JUDGE, &json!([schema, documents]), "python3-jsonschema")?;
    Some(serde_json::from_value(faults).unwrap())
}

/// Returns a copy of the document in which the object at a JSON pointer lacks a member.
fn without(document: &Value, object: &str, member: &str) -> Value {
    let mut copy = document.clone();
    let object = copy.pointer_mut(object).unwrap().as_object_mut().unwrap();
    assert!(object.remove(member).is_some(), "no {member}");
    copy
}

#[test]
fn an_archive_has_the_structure_of_har() {
    let (_folder, run) = run();
    let archive: Value = serde_json::from_str(&http_archive(&run).unwrap()).unwrap();
    let mut wrong_date = archive.clone();
    wrong_date["log"]["pages"][0]["startedDateTime"] = json!("yesterday");
    let documents = [
        archive.clone(),
        without(&archive, "/log/entries/0/timings", "wait"),
        without(&archive, "/log/entries/1/response/content", "mimeType"),
        without(&archive, "/log", "creator"),
        wrong_date,
    ];
    let Some(faults) = faults(ARCHIVE, &documents) else {
        return;
    };
    assert_eq!(faults[0], [""; 0]);
    // The validator finds the missing members.
    for (faults, place) in faults[1..].iter().zip([
        "$.log.entries[0].timings",
        "$.log.entries[1].response.content",
        "$.log",
        "$.log.pages[0].startedDateTime",
    ]) {
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(place), "{faults:?}");
    }
}

#[test]
fn a_trace_has_the_structure_of_the_trace_event_format() {
    let (_folder, run) = run();
    let trace: Value = serde_json::from_str(&chrome_trace(&run).unwrap()).unwrap();
    let place = |kind: &str| {
        let mut events = trace["traceEvents"].as_array().unwrap().iter();
        events.position(|event| event["ph"] == kind).unwrap()
    };
    let slice = format!("/traceEvents/{}", place("X"));
    let name = format!("/traceEvents/{}/args", place("M"));
    let mut unknown = trace.clone();
    unknown["traceEvents"][0]["ph"] = json!("?");
    let documents = [
        trace.clone(),
        without(&trace, &slice, "dur"),
        without(&trace, &name, "name"),
        unknown,
    ];
    let Some(faults) = faults(TRACE, &documents) else {
        return;
    };
    assert_eq!(faults[0], [""; 0]);
    for faults in &faults[1..] {
        assert!(!faults.is_empty());
    }
}

/// A Python script that parses Prometheus texts into samples: names, labels and values.
const SAMPLES: &str = r#"
from prometheus_client.parser import text_string_to_metric_families
samples = lambda text: [[s.name, sorted(s.labels.items()), s.value]
                        for family in text_string_to_metric_families(text) for s in family.samples]
answer = [samples(text) for text in given]
"#;

#[test]
fn the_client_of_prometheus_reads_the_samples_that_were_written() {
    let texts: Vec<String> = sample::all()
        .iter()
        .map(|(_, result)| prometheus::render(result))
        .collect();
    let Some(theirs) = in_python(SAMPLES, &json!(texts), "python3-prometheus-client") else {
        return;
    };
    for (text, theirs) in texts.iter().zip(theirs.as_array().unwrap()) {
        let sorted = |mut sample: Sample| {
            sample.1.sort();
            sample
        };
        let mut theirs: Vec<Sample> = serde_json::from_value(theirs.clone()).unwrap();
        let families = exposition(text).into_values();
        let mut ours: Vec<Sample> = families
            .flat_map(|(_, samples)| samples)
            .map(sorted)
            .collect();
        let order = |a: &Sample, b: &Sample| (&a.0, &a.1).cmp(&(&b.0, &b.1));
        theirs.sort_by(order);
        ours.sort_by(order);
        assert!(!ours.is_empty());
        assert_eq!(ours, theirs);
    }
}

/// A Python script that computes the mean of a metric by policy, and the column sums of a timeline.
const FRAMES: &str = r#"
import io
import pandas
records, timeline = given
frame = pandas.json_normalize(pandas.read_json(records, lines=True).to_dict("records"))
means = frame.groupby("cell.policy")["metrics.packets"].mean().to_dict()
columns = pandas.read_csv(io.StringIO(timeline))
answer = [len(frame), means, columns[["planned", "completed", "errors"]].sum().astype(float).tolist()]
"#;

#[test]
fn pandas_reads_replicates_and_timelines_with_their_totals() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::whole(Mode::Quick, 2);
    fixture.write(folder.path());
    let result = sample::stalled();
    let records = folder.path().join("replicates.ndjson");
    let given = json!([records, csv::timeline(&result)]);
    let Some(frames) = in_python(FRAMES, &given, "python3-pandas") else {
        return;
    };
    assert_eq!(frames[0], fixture.records.len());
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for record in &fixture.records {
        let packets = record.metrics["packets"];
        let sum = sums
            .entry(record.cell.level("policy").unwrap())
            .or_default();
        *sum = (sum.0 + packets, sum.1 + 1.0);
    }
    let means = frames[1].as_object().unwrap();
    assert_eq!(means.len(), sums.len());
    for (policy, (sum, count)) in sums {
        let mean = means[policy].as_f64().unwrap();
        assert!((mean - sum / count).abs() < 1e-6, "{policy}: {mean}");
    }
    let sum = |of: fn(&Interval) -> u64| result.timeline.iter().map(of).sum::<u64>() as f64;
    let sums = [sum(|i| i.planned), sum(|i| i.completed), sum(|i| i.errors)];
    assert_eq!(frames[2], json!(sums));
}

/// Opens a trace in the performance panel and returns the slices of its flame chart. A slice has a name, a start and a
/// length in milliseconds, a level below the first level of its track, and the name of the track.
const SHOW: &str = r#"
const { TimelinePanel } = await import("./panels/timeline/timeline.js");
const turn = () => new Promise(done => setTimeout(done, 25));
// There is no panel before the front end has opened it.
let panel;
for (let turns = 0; turns < 1000 && !panel; turns += 1) {
  try { panel = TimelinePanel.TimelinePanel.instance(); } catch { await turn(); }
}
await panel.loadFromFile(new File([TRACE], "trace.json"));
const chart = panel.getFlameChart();
const provider = chart.getMainDataProvider?.() ?? chart.mainDataProvider;
for (let turns = 0; turns < 1000 && !provider.timelineData()?.entryLevels.length; turns += 1) await turn();
const data = provider.timelineData();
const slices = [...data.entryLevels].map((level, index) => {
  const track = data.groups.findLast(group => group.startLevel <= level);
  return [provider.entryTitle(index), data.entryStartTimes[index], data.entryTotalTimes[index], level - track.startLevel, track.name];
});
return { slices, tracks: data.groups.map(group => group.name) };
"#;

#[test]
fn a_trace_opens_in_the_performance_panel_of_chromium_with_all_its_slices() {
    let Some(chromium) = chromium() else { return };
    let (folder, run) = run();
    let text = chrome_trace(&run).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let script = format!("const TRACE = {};{SHOW}", json!(text));
    let shown = DevTools::start(&chromium, folder.path()).in_front_end(&script);
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |event: &Value, kind: &str| {
        events
            .iter()
            .find(|e| e["ph"] == "M" && e["name"] == kind && e["tid"] == event["tid"])
            .map(|e| e["args"]["name"].as_str().unwrap().to_owned())
    };
    // Names, starts, lengths and threads; times in nanoseconds.
    let nanos = |value: &Value, unit: f64| (value.as_f64().unwrap() * unit).round() as u64;
    let mut ours: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| {
            let thread = named(event, "thread_name").unwrap();
            let times = (nanos(&event["ts"], 1e3), nanos(&event["dur"], 1e3));
            (event["name"].as_str().unwrap().to_owned(), times, thread)
        })
        .collect();
    let mut theirs: Vec<_> = shown["slices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slice| {
            let track = slice[4].as_str().unwrap();
            // The name of a track is the name of its thread, followed by a number in brackets.
            let thread = track.rsplit_once(" (").map_or(track, |(name, _)| name);
            let times = (nanos(&slice[1], 1e6), nanos(&slice[2], 1e6));
            (
                slice[0].as_str().unwrap().to_owned(),
                times,
                thread.to_owned(),
            )
        })
        .collect();
    ours.sort();
    theirs.sort();
    assert!(ours.len() >= 7, "{ours:?}");
    assert_eq!(ours, theirs);
    // The flame chart shows phases below their exchange.
    let level = |name: &str| {
        let mut slices = shown["slices"].as_array().unwrap().iter();
        slices.find(|slice| slice[0] == name).unwrap()[3].clone()
    };
    assert_eq!((level("GET /b"), level("wait")), (json!(0), json!(1)));
}
