//! Tests of page retrievals that are exported for other programs from the records of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fathometer_analysis::digest::Digest;
use fathometer_analysis::report::{Captured, SequenceGraph, write_digest_with};
use fathometer_analysis::retrieval_trace::{chrome_trace, http_archive};
use fathometer_analysis::run::{Mode, Run};
use serde_json::Value;

use crate::common::{self, Fixture, write_report};

/// Two pipelined exchanges, and one exchange without a response. The last line is truncated, as in a killed run.
const EXCHANGES: &str = r#"
{"exchange":0,"connection":0,"method":"GET","target":"/a","planned":1000000,"sent":3000000,"first_byte":5000000,"last_byte":9000000,"request_head":100,"request_body":0,"response_head":200,"response_body":3000,"status":200,"outcome":{"outcome":"complete"}}
{"exchange":1,"connection":0,"method":"GET","target":"/b","planned":3000000,"sent":4000000,"first_byte":9000000,"last_byte":9500000,"request_head":100,"request_body":0,"response_head":200,"response_body":40,"status":304,"outcome":{"outcome":"complete"},"named_by":"/a"}
{"exchange":2,"connection":0,"method":"GET","target":"/c","planned":4000000,"sent":null,"first_byte":null,"last_byte":null,"request_head":0,"request_body":0,"response_head":0,"response_body":0,"status":null,"outcome":{"outcome":"failed","failure":"reset"}}
{"exchange":3,"conn"#;
const CONNECTIONS: &str = r#"{"connection":0,"opened":1000000,"established":3000000,"closed":9600000,"exchanges":2,"sent":200,"received":3440,"close":{"reason":"finished"}}
"#;

/// Returns a run whose first replicate has records of exchanges.
pub fn run() -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::whole(Mode::Quick, 1);
    fixture.records.truncate(2);
    for record in &mut fixture.records {
        record.started = 951_782_400.0;
    }
    let kept = folder.path().join(&fixture.records[0].folder);
    fixture.write(folder.path());
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("exchanges.ndjson"), EXCHANGES.trim_start()).unwrap();
    fs::write(kept.join("connections.ndjson"), CONNECTIONS).unwrap();
    let run = Run::load(folder.path()).unwrap();
    (folder, run)
}

#[test]
fn slices_of_a_thread_are_nested_and_have_their_times() {
    let (_folder, run) = run();
    let trace: Value = serde_json::from_str(&chrome_trace(&run).unwrap()).unwrap();
    let mut threads: BTreeMap<u64, Vec<(f64, f64, String)>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        if event["ph"] == "X" {
            let (from, length) = (
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            );
            let name = event["name"].as_str().unwrap().to_owned();
            let thread = threads.entry(event["tid"].as_u64().unwrap()).or_default();
            thread.push((from, from + length, name));
        }
    }
    let is = |thread: u64, name: &str, from: f64, to: f64| {
        threads[&thread].contains(&(from, to, name.to_owned()))
    };
    assert!(is(0, "connect", 1_000.0, 3_000.0), "{threads:?}");
    assert!(is(0, "GET /a", 3_000.0, 9_000.0) && is(0, "wait", 3_000.0, 5_000.0));
    assert!(is(1, "GET /b", 4_000.0, 9_500.0) && is(1, "receive", 9_000.0, 9_500.0));
    for slices in threads.values() {
        for (from, to, _) in slices {
            for (other_from, other_to, _) in slices {
                let overlap = from < other_from && other_from < to && to < other_to;
                assert!(!overlap, "{slices:?}");
            }
        }
    }
}

#[test]
fn an_archive_has_a_page_with_the_times_of_its_entries() {
    let (_folder, run) = run();
    let archive: Value = serde_json::from_str(&http_archive(&run).unwrap()).unwrap();
    let log = &archive["log"];
    assert_eq!(log["pages"].as_array().unwrap().len(), 1);
    assert_eq!(
        log["pages"][0]["startedDateTime"],
        "2000-02-29T00:00:00.001000Z"
    );
    assert_eq!(log["pages"][0]["pageTimings"]["onLoad"], 8.5);
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    for entry in &entries[..2] {
        let timings = &entry["timings"];
        let sum: f64 = ["blocked", "send", "wait", "receive"]
            .iter()
            .map(|phase| timings[phase].as_f64().unwrap())
            .sum();
        assert_eq!(entry["time"].as_f64().unwrap(), sum);
    }
    assert_eq!(entries[1]["response"]["status"], 304);
    assert_eq!(entries[2]["response"]["status"], 0);
}

#[test]
fn the_report_draws_a_waterfall_with_causes() {
    let (folder, _run) = run();
    let page = fs::read_to_string(write_report(folder.path(), &common::study())).unwrap();
    let (_, section) = page.split_once("<section id=\"waterfalls\">").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert_eq!(section.matches("<details class=\"waterfall\" ").count(), 1);
    // The replicate in the list of all cells links to the waterfall.
    assert!(section.contains("id=\"waterfall-0\""));
    assert!(page.contains("<a href=\"#waterfall-0\">waterfall and packets</a>"));
    // The connection is opened first. The second request waits behind the first request. The path of the synthetic run
    // has no round trip, so the wait for the first byte is unknown.
    for title in [
        "/a: round trip, 0.000 to 2.00 ms",
        "/a: unknown, 2.00 to 8.00 ms",
        "/b: head of line, 2.00 to 3.00 ms",
        "/b: head of line, 4.00 to 8.00 ms",
    ] {
        assert!(section.contains(title), "{title}: {section}");
    }
    assert!(section.contains("exchanges.ndjson\">exchanges</a>"));
    assert!(section.contains("pauses of the sender are unknown"));
}

#[test]
fn the_graph_of_a_replicates_packets_is_drawn_beside_its_waterfall() {
    let (folder, _run) = run();
    let study = common::study();
    let digest = Digest::of(folder.path(), &study).unwrap();
    let captured = |points| {
        move |replicate: &Path| {
            // The records of this replicate are in the requested folder.
            assert!(replicate.join("exchanges.ndjson").is_file());
            Some(Captured {
                senders: Vec::new(),
                graph: Some(SequenceGraph {
                    svg: "<svg xmlns=\"http://www.w3.org/2000/svg\"><path d=\"M0 0V9\"/></svg>"
                        .to_owned(),
                    panels: serde_json::json!([{"title": "From the server </script>"}]),
                    points,
                    notes: vec!["Aggregated.".to_owned()],
                }),
            })
        }
    };
    let page = |points| {
        let whole = std::cell::RefCell::new(String::new());
        write_digest_with(&digest, &captured(points), &|path, text| {
            if path.ends_with("report.html") {
                *whole.borrow_mut() = text.to_owned();
            }
            Ok(())
        })
        .unwrap();
        whole.into_inner()
    };
    let few = page(1_000);
    let (_, figure) = few.split_once("<figure class=\"sequence\">").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    assert!(
        figure.contains("<svg><path d=\"M0 0V9\"/></svg>"),
        "{figure}"
    );
    assert!(figure.contains("Aggregated.") && !figure.contains("server </script>"));
    assert!(few.contains("How to read a time-sequence graph"));
    // A report has at most 300 000 points, and states the number of graphs that it leaves out.
    let many = page(300_001);
    assert!(!many.contains("<figure class=\"sequence\">"));
    assert!(
        many.contains("1 time-sequence graphs are left out: a report has at most 300000 points")
    );
}
