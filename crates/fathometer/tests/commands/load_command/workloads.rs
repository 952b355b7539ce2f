//! Every workload from end to end, against our origin, which serves the site of the same workload.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use fathometer_analysis::load::Summary;
use fathometer_load::workload;
use fathometer_model::Seed;

use super::support::{Origin, fathometer, load, written};
use crate::support::programs::FATHOMETER;

const SEED: u64 = 7;

/// Loads the origin with a workload. Asserts that every response is complete, correct and of the planned size.
fn well(workload: &str, arguments: &[&str]) -> (Summary, Vec<String>) {
    let origin = Origin::of(workload, SEED);
    let seed = SEED.to_string();
    let fixed = [
        "--workload",
        workload,
        "--seed",
        &seed,
        "--json",
        "--targets",
    ];
    let ended = load(&origin.url(), &[&fixed[..], arguments].concat());
    let summary = ended.ended_with(0);
    let what = format!("{workload} {arguments:?}");
    let counts = &summary.measured.counts;
    assert!(counts.completed > 0, "{what}");
    assert_eq!(
        counts.planned, counts.completed,
        "{what}: {:?}",
        counts.failures
    );
    assert_eq!(
        counts.statuses["200"], counts.completed,
        "{what}: {:?}",
        counts.statuses
    );
    assert_eq!((counts.wrong_size, counts.pages_failed), (0, 0), "{what}");
    let logged = origin.end();
    assert_eq!(
        logged.len() as u64,
        counts.completed + counts.retried,
        "{what}"
    );
    (summary, logged)
}

#[test]
fn synthetic_workloads_are_answered_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(
        &folder,
        "list",
        "# a page of two files, and one alone\n/a.html 3 #2000 /a.gif #500\n/b.html 1 #9000\n",
    );
    for workload in [
        "webstone",
        &format!("webstone:{list}"),
        "specweb96",
        "pareto-4k",
    ] {
        let (summary, _) = well(workload, &["-c", "4", "-n", "1000"]);
        assert_eq!(summary.measured.counts.completed, 1000);
        assert_eq!(summary.measured.counts.connected, 4, "{workload}");
    }
}

/// One user fetches pages one after another; it requests each embedded file after the file that references it.
#[test]
fn pages_are_fetched_in_the_order_of_their_dependencies() {
    for (name, policy) in [
        ("today", "h1.1x6"),
        ("today", "h1.1"),
        ("leucht15-small", "h1.1x2"),
    ] {
        let plan = workload::load(name, Seed(SEED), &mut |_, _| {}).unwrap();
        let plan = plan.into_plan();
        let page = plan.pages.get(fathometer_workload::plan::PageId(0));
        let members: Vec<String> = page
            .members
            .iter()
            .map(|id| {
                let target = &plan.targets[id.0 as usize];
                format!("{} {}", target.method, target.path)
            })
            .collect();
        let count = 5 * members.len();
        let (_, logged) = well(
            name,
            &["-c", "1", "-n", &count.to_string(), "--policy", policy],
        );
        for fetched in logged.chunks(members.len()) {
            let place: BTreeMap<&str, usize> = fetched
                .iter()
                .enumerate()
                .map(|(place, request)| (request.as_str(), place))
                .collect();
            assert_eq!(place.len(), members.len(), "{name}: a member twice");
            assert_eq!(place[members[0].as_str()], 0, "{name}");
            for (member, &namer) in members.iter().zip(page.named_by).skip(1) {
                let namer = &members[namer as usize];
                assert!(
                    place[namer.as_str()] < place[member.as_str()],
                    "{name} {policy}: {member} before {namer}"
                );
            }
        }
        let deep = page.named_by.iter().any(|&namer| namer > 0);
        assert_eq!(deep, name == "today", "{name}");
    }
}

const POLICIES: [&str; 7] = [
    "h1.0",
    "h1.0x4",
    "h1.0-keepalive",
    "h1.1",
    "h1.1x2",
    "h1.1-pipeline",
    "h1.1-early-close",
];

#[test]
fn every_policy_is_answered_in_full() {
    for policy in POLICIES {
        let arguments = ["-c", "4", "-n", "600", "--policy", policy];
        let (summary, logged) = well("leucht15-small", &arguments);
        assert_eq!(summary.setup.policy, policy);
        assert_eq!(logged.len(), 600);
        let connections = summary.measured.counts.connected;
        let expected = match policy {
            "h1.0" | "h1.0x4" => 600..=600,
            "h1.1x2" => 5..=8,
            // One connection for each page's base file, and one for its embedded files.
            "h1.1-early-close" => 200..=410,
            _ => 4..=4,
        };
        assert!(expected.contains(&connections), "{policy}: {connections}");
    }
}

#[test]
fn user_equivalents_of_surge_are_answered_in_full() {
    let workload = "surge:files=200,requests=5000";
    // Twenty users start within 1 s, one every 50 ms, and each requests a page at once. If a busy machine delays the
    // last of them, a longer test runs.
    for (policy, times) in [
        ("h1.1", ["2s", "8s", "30s"]),
        ("h1.0x4", ["1s", "5s", "30s"]),
        ("h1.1-pipeline", ["1s", "5s", "30s"]),
    ] {
        let all_began = |summary: &Summary| summary.measured.counts.pages >= 19;
        let summary = times
            .into_iter()
            .map(|time| {
                let fixed = ["--ue", "20", "--drain", "50s", "-d", time];
                well(workload, &[&fixed[..], &["--policy", policy]].concat()).0
            })
            .find(all_began)
            .unwrap_or_else(|| panic!("{policy}: not all users started"));
        assert!(summary.measured.duration_s > 0.9);
    }
}

/// The server receives exactly the requests of a session file, including content.
#[test]
fn sessions_are_sent_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = written(
        &folder,
        "sessions",
        "/first.html think=0.05\n    /a.gif\n    /b.gif\n\
         /form method=POST contents=\"name=value&other=2\"\n/last.html\n",
    );
    let (address, requests) = recorder();
    let workload = format!("wsesslog:{sessions}");
    let ended = load(
        &format!("http://{address}/"),
        &["--workload", &workload, "-c", "1", "-n", "10", "--json"],
    );
    let summary = ended.ended_with(0);
    assert_eq!(summary.measured.counts.completed, 10);
    assert_eq!(summary.measured.bytes.request_bodies_bytes, 2 * 18);
    let requests = requests.lock().unwrap();
    let session = [
        "GET /first.html ",
        "GET /a.gif ",
        "GET /b.gif ",
        "POST /form name=value&other=2",
        "GET /last.html ",
    ];
    assert_eq!(*requests, [session, session].concat());
}

/// Starts a server that records the requests with their content, in order.
fn recorder() -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let mut input = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    input.extend_from_slice(&piece[..read]);
                    while let Some((request, length)) = whole_request(&input) {
                        seen.lock().unwrap().push(request);
                        input.drain(..length);
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        stream.write_all(answer).unwrap();
                    }
                }
            });
        }
    });
    (address, requests)
}

/// Returns the first request in the input and its length; `None` while the request is incomplete.
fn whole_request(input: &[u8]) -> Option<(String, usize)> {
    let end = input.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&input[..end]).unwrap();
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, length)| length.parse().unwrap());
    let content = std::str::from_utf8(input.get(end..end + length)?).unwrap();
    let (asked, _) = head.split_once(" HTTP/1.1\r\n").unwrap();
    Some((format!("{asked} {content}"), end + length))
}

#[test]
fn an_access_log_is_replayed_when_it_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let line = |second: u32, path: &str, size: u32| {
        format!("h - - [10/Oct/2000:13:55:{second:02} -0700] \"GET {path} HTTP/1.0\" 200 {size}\n")
    };
    let text = [
        line(30, "/a.html", 2326),
        line(31, "/b.gif", 100),
        line(33, "/a.html", 2326),
        line(40, "/c?x=1", 7000),
    ]
    .concat();
    let workload = format!("log:{}", written(&folder, "log", &text));
    // One connection keeps the order: no request can overtake a delayed request.
    let arguments = ["--speed", "10", "--arrivals", "recorded", "-c", "1"];
    let (summary, logged) = well(&workload, &arguments);
    let expected = ["/a.html", "/b.gif", "/a.html", "/c?x=1"].map(|path| format!("GET {path}"));
    assert_eq!(logged, expected);
    // Ten recorded seconds take one second. A busy machine may take a few seconds more, but less than the recorded
    // time.
    let duration = summary.measured.duration_s;
    assert!((1.0..10.0).contains(&duration), "{duration}");
    // A closed loop also sends the requests in recorded order.
    let (_, logged) = well(&workload, &["-c", "1", "-n", "8"]);
    assert_eq!(logged, [&expected[..], &expected[..]].concat());
}

#[test]
fn an_access_log_is_read_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        |path: &str| format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET {path} HTTP/1.0\" 200 10\n");
    let text = ["/a", "/b", "/a"].map(line).concat();
    let log = written(&folder, "log", &text);
    let origin = Origin::of(&format!("log:{log}"), SEED);
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "gzip -c \"$1\" | \"$2\" load -q \"$3\" --workload log:- -n 6 -c 1 --json",
            "sh",
        ])
        .args([&log, FATHOMETER, &origin.url()]);
    let summary = fathometer(&command).ended_with(0);
    assert_eq!(summary.measured.counts.completed, 6);
    assert_eq!(summary.measured.counts.statuses["200"], 6);
}

const ARCHIVE: &str = r#"{"log": {"version": "1.2",
  "pages": [{"id": "p", "startedDateTime": "2024-01-01T00:00:00.000Z"}],
  "entries": [
    {"pageref": "p", "startedDateTime": "2024-01-01T00:00:00.000Z", "time": 50,
     "request": {"method": "GET", "url": "http://h/page.html", "headers": []},
     "response": {"status": 200, "bodySize": 3000, "headers": [],
                  "content": {"size": 3000, "mimeType": "text/html"}}},
    {"pageref": "p", "startedDateTime": "2024-01-01T00:00:00.100Z", "time": 50,
     "_initiator": {"type": "parser", "url": "http://h/page.html"},
     "request": {"method": "GET", "url": "http://h/style.css", "headers": []},
     "response": {"status": 200, "bodySize": 800, "headers": [],
                  "content": {"size": 800, "mimeType": "text/css"}}},
    {"pageref": "p", "startedDateTime": "2024-01-01T00:00:00.200Z", "time": 50,
     "_initiator": {"type": "parser", "url": "http://h/style.css"},
     "request": {"method": "GET", "url": "http://h/picture.png", "headers": []},
     "response": {"status": 200, "bodySize": 1200, "headers": [],
                  "content": {"size": 1200, "mimeType": "image/png"}}}]}}"#;

#[test]
fn a_har_file_is_replayed_with_its_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let workload = format!("har:{}", written(&folder, "archive", ARCHIVE));
    let (summary, logged) = well(&workload, &["-c", "1", "-n", "30", "--policy", "h1.1x6"]);
    let page = ["GET /page.html", "GET /style.css", "GET /picture.png"];
    assert_eq!(logged, page.repeat(10));
    assert_eq!(summary.measured.counts.pages, 10);
    assert_eq!(summary.measured.bytes.content_bytes, 10 * 5000);
}

/// As in the README: a server and a load with the same workload and without a seed agree on every file.
#[test]
fn a_server_and_a_load_without_a_seed_have_the_same_files() {
    const WORKLOAD: &str = "surge:files=200,requests=5000";
    let origin = Origin::by_default(WORKLOAD);
    let ended = load(
        &origin.url(),
        &["--workload", WORKLOAD, "-n", "150", "-c", "4", "--json"],
    );
    let summary = ended.ended_with(0);
    let counts = &summary.measured.counts;
    assert_eq!(counts.statuses["200"], counts.completed);
    assert_eq!(counts.wrong_size, 0);
    assert_eq!(summary.setup.seed, workload::SEED);
    let sequence = summary.sequence.expect("the workload has a sequence");
    assert!(
        sequence.requested >= 50 && sequence.times < 1.0,
        "{sequence:?}"
    );
}

/// With another seed on one side, all files differ. The output states this first, and the result is INVALID for this
/// workload.
#[test]
fn a_server_with_other_files_is_named_first() {
    const WORKLOAD: &str = "surge:files=200,requests=5000";
    let origin = Origin::by_default(WORKLOAD);
    let arguments = [
        "--workload",
        WORKLOAD,
        "--seed",
        "1",
        "-n",
        "150",
        "-c",
        "4",
    ];
    let ended = load(&origin.url(), &arguments);
    assert_eq!(ended.code, Some(3), "{}", ended.out);
    let advice = ended
        .out
        .find("--seed on both sides")
        .or_else(|| ended.out.find("same --seed"));
    assert!(advice < ended.out.find("corrected"), "{}", ended.out);
    assert!(advice.is_some(), "{}", ended.out);
    let summary = load(&origin.url(), &[&arguments[..], &["--json"]].concat()).summary();
    assert!(!summary.validity.valid);
    assert!(summary.validity.reasons[0].contains("--seed"));
    assert!(
        summary.findings[0].contains("--seed"),
        "{:?}",
        summary.findings
    );
}

/// A short sequence starts again at its end, and the result reports that.
#[test]
fn a_sequence_that_restarts_is_reported() {
    const WORKLOAD: &str = "surge:files=20,requests=60";
    let origin = Origin::by_default(WORKLOAD);
    let ended = load(
        &origin.url(),
        &["--workload", WORKLOAD, "-n", "400", "-c", "2", "--json"],
    );
    let summary = ended.summary();
    let sequence = summary.sequence.expect("the workload has a sequence");
    assert!(sequence.times > 1.0, "{sequence:?}");
    let is_repeated = |finding: &String| finding.contains("is repeated");
    assert!(
        summary.findings.iter().any(is_repeated),
        "{:?}",
        summary.findings
    );
}
