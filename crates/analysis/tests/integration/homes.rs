//! Exports of page retrievals against the published structure of their formats, judged by a validator that is not ours
//! (Python's `jsonschema`).

#![expect(clippy::disallowed_types, reason = "the validator is a process")]

use std::io::Write;
use std::process::{Command, Stdio};

use fathometer_analysis::retrieval_trace::{chrome_trace, http_archive};
use serde_json::{Value, json};

use crate::retrieval_trace::run;

/// The members that HAR 1.2 requires, and their types (<http://www.softwareishard.com/blog/har-12-spec/>).
const ARCHIVE: &str = include_str!("homes/har-1.2.schema.json");
/// The Trace Event Format: a JSON object with the events of the kinds that we write.
const TRACE: &str = include_str!("homes/trace-event.schema.json");

/// Prints the faults of each document by a schema as JSON.
const JUDGE: &str = r#"
import json, sys
import jsonschema
schema, documents = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
faults = lambda one: [f"{e.json_path}: {e.message[:300]}" for e in validator.iter_errors(one)]
print(json.dumps([faults(one) for one in documents]))
"#;

/// What is wrong with each document; `None` without Python's `jsonschema`, which `FATHOMETER_REQUIRE_TOOLS` requires.
fn faults(schema: &str, documents: &[Value]) -> Option<Vec<Vec<String>>> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let spawned = Command::new("python3")
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let output = spawned.and_then(|mut python| {
        let text = json!([schema, documents]).to_string();
        let mut input = python.stdin.take().unwrap();
        let written = input.write_all(text.as_bytes());
        drop(input);
        let output = python.wait_with_output();
        written.and(output)
    });
    match output {
        Ok(output) if output.status.success() => {
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        _ => {
            let required =
                std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
            assert!(
                !required,
                "this test needs Python with jsonschema (Debian: python3-jsonschema)"
            );
            eprintln!("not tested: Python has no jsonschema");
            None
        }
    }
}

/// A copy without the member at a JSON pointer.
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
    // The validator finds what is missing.
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
