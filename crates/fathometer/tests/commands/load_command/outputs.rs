//! Third-party readers of each format can read the output files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use fathometer_analysis::load::Summary;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use super::support::{load, written};
use crate::support::programs::{run, tool};
use crate::support::scripted_server::{Answer, Server};

const ASKED: u64 = 400;

/// Starts a server with a small page, a larger page and a missing page.
fn server() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/small.html" => Answer::Whole(100),
        "/large.html" => Answer::Whole(20_000),
        _ => Answer::Status(404),
    })
}

const LIST: &str = "/small.html 5 #100\n/large.html 3 #20000\n/missing.html 2 #50\n";

#[test]
fn every_format_is_printed() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let workload = format!("webstone:{}", written(&folder, "list", LIST));
    let url = format!("http://{}/", server.address);
    for (format, words) in [
        (
            "screen",
            &["rate ", "latency ", "errors ", "corrected "][..],
        ),
        (
            "webstone",
            &[
                "Server connection rate",
                "Little's Load Factor",
                "Error Level",
            ],
        ),
        ("json", &["\"measured\"", "\"littles_load_factor\""]),
        (
            "csv",
            &["metric,value,unit", "measured.counts.completed,400,"],
        ),
        ("timeline", &["start_s,length_s,planned"]),
        (
            "hdr",
            &["#[Histogram log format version 1.3]", "Tag=corrected,"],
        ),
        ("prometheus", &["# TYPE ", "fathometer_load_info{"]),
    ] {
        let arguments = ["--workload", &workload, "-c", "4", "-n", "400", "--targets"];
        let ended = load(&url, &[&arguments[..], &["--format", format]].concat());
        // Three tenths of the requests get 404: a finding, but not a failure of the test.
        assert!(matches!(ended.code, Some(0 | 3)), "{format}: {}", ended.err);
        for word in words {
            assert!(ended.out.contains(word), "{format}: {word}: {}", ended.out);
        }
        assert!(ended.out.ends_with('\n'), "{format}");
    }
}

/// All files of one test contain the same figures.
#[test]
fn every_file_is_saved_and_read_by_others() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let workload = format!("webstone:{}", written(&folder, "list", LIST));
    let names = [
        "it.json",
        "it.csv",
        "it.timeline.csv",
        "it.hlog",
        "it.prom",
        "it.txt",
        "it.parquet",
    ];
    let paths: Vec<String> = names
        .iter()
        .map(|name| folder.path().join(name).display().to_string())
        .collect();
    let mut arguments = vec!["--workload", &workload, "-c", "4", "-n", "400"];
    arguments.extend(["--targets", "--slo", "p99<10s,errors<50%"]);
    arguments.extend(paths.iter().flat_map(|path| ["--save", path]));
    let ended = load(&format!("http://{}/", server.address), &arguments);
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("it.txt"), ended.out);

    let json = read("it.json");
    let summary = judged(&json, &folder.path().join("it.json"));
    let counts = &summary.measured.counts;
    assert_eq!((counts.planned, counts.completed), (ASKED, ASKED));
    assert_eq!(counts.statuses["404"], counts.status_errors);
    let targets = summary.targets.iter();
    let targets: BTreeMap<&str, u64> = targets
        .map(|target| (target.target.as_str(), target.completed + target.failed))
        .collect();
    let failed: u64 = summary.targets.iter().map(|target| target.failed).sum();
    assert_eq!(
        (targets["GET /missing.html"], failed),
        (failed, counts.status_errors)
    );

    let csv = read("it.csv");
    let figures: BTreeMap<&str, &str> = csv.lines().filter_map(|l| l.split_once(',')).collect();
    let corrected = summary.measured.phases.corrected.as_ref().unwrap();
    assert_eq!(figures["measured.counts.completed"], "400,");
    assert_eq!(
        figures["measured.phases.corrected.p99_ms"],
        format!("{},ms", Value::from(corrected.p99_ms))
    );
    let timeline = read("it.timeline.csv");
    let planned = timeline.lines().skip(1).map(|line| {
        let figure = line.split(',').nth(2).unwrap();
        figure.parse::<u64>().unwrap()
    });
    assert_eq!(planned.sum::<u64>(), ASKED);

    let histograms = histograms(read("it.hlog").as_bytes());
    assert_eq!(histograms["corrected"].len(), ASKED);
    assert_eq!(histograms["uncorrected"].len(), ASKED);
    let found = histograms["corrected"].value_at_quantile(0.99) as f64 / 1e6;
    let apart = (found - corrected.p99_ms).abs() / found;
    assert!(apart < 0.002, "{found} {}", corrected.p99_ms);

    let samples = samples(&read("it.prom"));
    let of_status = |status: &str| -> f64 {
        samples
            .iter()
            .filter(|(name, _)| name.contains(&format!("\"{status}\"")))
            .map(|(_, value)| *value)
            .sum()
    };
    assert_eq!(of_status("404"), counts.status_errors as f64);
    assert_eq!(of_status("200"), counts.statuses["200"] as f64);

    let rows = parquet_rows(&folder.path().join("it.parquet"));
    assert_eq!(rows.len() as u64, ASKED);
    let mut by_target: BTreeMap<String, u64> = BTreeMap::new();
    for row in &rows {
        let Field::Str(target) = &row["target"] else {
            panic!("{row:?}");
        };
        *by_target.entry(target.clone()).or_default() += 1;
        let status = match target.as_str() {
            "GET /missing.html" => "404",
            _ => "200",
        };
        assert_eq!(row["status"].to_string(), status, "{row:?}");
        assert_eq!(row["outcome"], Field::Str("complete".to_owned()));
        let time = |name: &str| row[name].to_string().parse::<u64>().unwrap();
        assert!(time("planned_ns") <= time("sent_ns"));
        assert!(time("sent_ns") <= time("last_byte_ns"));
    }
    for (target, count) in targets {
        assert_eq!(by_target[target], count, "{target}");
    }
    let names: BTreeSet<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), paths.len() + 1, "{names:?}");
}

/// One load with a warm-up, error statuses and truncated responses: every format reports the same figures.
#[test]
fn all_formats_agree_on_one_load() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/small.html" => Answer::Whole(100),
        "/large.html" => Answer::Whole(20_000),
        // A truncated response: its head, and a third of its content.
        "/cut.html" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n";
            Answer::Last([&head[..], &[b'x'; 3_000]].concat())
        }
        _ => Answer::Status(404),
    });
    let folder = tempfile::tempdir().unwrap();
    let list = "/small.html 5 #100\n/large.html 3 #20000\n/missing.html 1 #50\n/cut.html 1 #9000\n";
    let workload = format!("webstone:{}", written(&folder, "list", list));
    let names = ["it.json", "it.csv", "it.hlog", "it.prom", "it.parquet"];
    let paths = names.map(|name| folder.path().join(name).display().to_string());
    let mut arguments = vec!["--workload", &workload, "-c", "4", "-d", "600ms"];
    arguments.extend(["--warmup", "300ms"]);
    arguments.extend(paths.iter().flat_map(|path| ["--save", path]));
    let ended = load(&format!("http://{}/", server.address), &arguments);
    assert!(matches!(ended.code, Some(0 | 3 | 4)), "{}", ended.err);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();

    let json: Value = serde_json::from_str(&read("it.json")).unwrap();
    let measured = &json["measured"];
    let number = |value: &Value| value.as_u64().unwrap();
    let completed = number(&measured["counts"]["completed"]);
    let failures = measured["counts"]["failures"].as_object().unwrap();
    let failed: u64 = failures.values().map(number).sum();
    let counts = &measured["bytes"];
    assert!(completed > 50 && failed > 5, "{completed} {failed}");

    // The phase of a row, and its time since the start of the window, show whether the summary covers the row.
    let rows = parquet_rows(&folder.path().join("it.parquet"));
    let long = |row: &BTreeMap<String, Field>, name: &str| match row[name] {
        Field::Long(value) => value,
        ref other => panic!("{name}: {other:?}"),
    };
    let is = |row: &BTreeMap<String, Field>, name: &str, word: &str| {
        row[name] == Field::Str(word.to_owned())
    };
    for row in &rows {
        let since = long(row, "since_measured_ns");
        assert_eq!(is(row, "phase", "warm-up"), since < 0, "{row:?}");
        assert!(is(row, "phase", "drain") || since < 600_000_000, "{row:?}");
    }
    assert!(rows.iter().any(|row| is(row, "phase", "warm-up")));
    let rows: Vec<_> = rows
        .iter()
        .filter(|row| is(row, "phase", "measured") && !is(row, "outcome", "retried"))
        .collect();
    let whole: Vec<_> = rows
        .iter()
        .filter(|row| is(row, "outcome", "complete"))
        .collect();
    assert_eq!(whole.len() as u64, completed);
    let of_status = |status: &str| {
        let found = whole
            .iter()
            .filter(|row| row["status"].to_string() == status);
        found.count() as u64
    };
    let bytes = |rows: &mut dyn Iterator<Item = &&BTreeMap<String, Field>>, name: &str| -> u64 {
        rows.map(|row| long(row, name) as u64).sum()
    };
    let heads = bytes(&mut whole.iter().copied(), "response_head_bytes");
    let bodies = bytes(&mut whole.iter().copied(), "response_body_bytes");
    let mut broken = rows.iter().filter(|row| !is(row, "outcome", "complete"));
    let broken: Vec<_> = broken.by_ref().collect();
    let partial = bytes(&mut broken.iter().copied(), "response_head_bytes")
        + bytes(&mut broken.iter().copied(), "response_body_bytes");
    assert_eq!(heads, number(&counts["response_heads_bytes"]));
    assert_eq!(bodies, number(&counts["response_bodies_bytes"]));
    assert_eq!(partial, number(&counts["failed_responses_bytes"]));
    assert!(partial >= failed * 3_000, "{partial} of {failed}");
    let statuses = &measured["counts"]["statuses"];
    assert_eq!(of_status("404"), number(&statuses["404"]));
    assert_eq!(of_status("200"), number(&statuses["200"]));

    let csv = read("it.csv");
    let figure = |name: &str| -> u64 {
        let line = csv
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name},")));
        line.unwrap().split(',').next().unwrap().parse().unwrap()
    };
    assert_eq!(figure("measured.counts.completed"), completed);
    assert_eq!(figure("measured.bytes.response_bodies_bytes"), bodies);
    assert_eq!(figure("measured.bytes.failed_responses_bytes"), partial);

    let samples = samples(&read("it.prom"));
    let sum = |words: &[&str]| -> u64 {
        let found = samples.iter();
        let found = found.filter(|(name, _)| words.iter().all(|word| name.contains(word)));
        found.map(|(_, value)| *value as u64).sum()
    };
    let part = |part: &str| {
        let part = format!("part=\"{part}\"");
        sum(&["bytes_total{", "direction=\"response\"", &part])
    };
    assert_eq!(
        (part("head"), part("body"), part("failed")),
        (heads, bodies, partial)
    );
    assert_eq!(sum(&["\"404\""]), of_status("404"));

    // The latencies include failed exchanges.
    let histograms = histograms(read("it.hlog").as_bytes());
    let all = number(&measured["phases"]["corrected"]["count"]);
    assert_eq!(histograms["corrected"].len(), all);
    let latencies = rows
        .iter()
        .map(|row| long(row, "last_byte_ns") - long(row, "planned_ns"));
    let mut latencies: Vec<i64> = latencies.collect();
    latencies.sort_unstable();
    assert_eq!(latencies.len() as u64, all);
    for quantile in [0.5, 0.9, 0.99] {
        let rank = (quantile * all as f64).ceil() as usize - 1;
        let (exact, of_log) = (
            latencies[rank],
            histograms["corrected"].value_at_quantile(quantile),
        );
        let apart = (of_log as f64 / exact as f64 - 1.0).abs();
        assert!(
            apart < 0.002,
            "quantile {quantile}: {of_log} ns in it.hlog, {exact} ns exact"
        );
        let name = format!("p{}_ms", quantile * 100.0);
        let reported = measured["phases"]["corrected"][&name].as_f64().unwrap() * 1e6;
        let apart = (reported / exact as f64 - 1.0).abs();
        assert!(
            apart < 0.002,
            "{name}: {reported} ns in the summary, {exact} ns exact"
        );
    }
}

/// Parses a summary with the types that generate the schema, which allow no other members. If a third-party
/// validator is installed, it validates the summary too.
fn judged(json: &str, file: &Path) -> Summary {
    let summary: Summary = serde_json::from_str(json).unwrap();
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_value(&summary).unwrap(), value);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/load.schema.json");
    // The order of members depends on the features of the JSON library, which other crates may enable.
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let published = fs::read_to_string(&schema).unwrap();
    assert_eq!(value(&published), value(&Summary::schema()));
    if let Some(python) = tool("python3") {
        let judge = run(Command::new(python)
            .args(["-c", JUDGE])
            .arg(&schema)
            .arg(file));
        match judge.status.code() {
            Some(0) => {}
            Some(77) => {
                eprintln!("SKIPPED: no jsonschema for python3 (Debian: python3-jsonschema)");
            }
            _ => panic!("{}", String::from_utf8_lossy(&judge.stderr)),
        }
    }
    summary
}

const JUDGE: &str = "\
import json, sys
try:
    import jsonschema
except ImportError:
    sys.exit(77)
schema, value = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(value)
";

/// Reads the histograms of a log, by tag.
fn histograms(log: &[u8]) -> BTreeMap<String, Histogram<u64>> {
    let mut deserializer = Deserializer::new();
    let mut found = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        let LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        let bytes = decoded(interval.encoded_histogram());
        let histogram = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
        found.insert(interval.tag().unwrap().as_str().to_owned(), histogram);
    }
    found
}

/// Decodes Base64 with padding (RFC 4648, section 4).
fn decoded(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values: Vec<u32> = text
        .trim_end_matches('=')
        .bytes()
        .map(|letter| alphabet.iter().position(|a| *a == letter).unwrap() as u32)
        .collect();
    let groups = values.chunks(4).flat_map(|group| {
        let bits = (0..4).fold(0, |bits, place| {
            bits << 6 | group.get(place).copied().unwrap_or(0)
        });
        let [_, bytes @ ..] = bits.to_be_bytes();
        bytes.into_iter().take(group.len() - 1)
    });
    groups.collect()
}

/// Checks Prometheus text and returns its samples: every metric has a type before its samples, and no sample appears
/// twice.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut typed = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram", "summary"].contains(&kind));
            assert!(typed.insert(name.to_owned()), "{name} is typed twice");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let metric = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|ending| metric.strip_suffix(ending))
            .chain([metric])
            .any(|family| typed.contains(family));
        assert!(family, "{line}");
        let value = value.replace("+Inf", "inf").parse().expect(line);
        let twice = samples.insert(name.to_owned(), value).is_some();
        assert!(!twice, "{line}");
    }
    assert!(samples.len() > 20);
    samples
}

/// Reads the rows of a Parquet file, by column.
pub fn parquet_rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let by_column = |row: Row| {
        let columns = row.get_column_iter();
        columns
            .map(|(name, field)| (name.clone(), field.clone()))
            .collect()
    };
    rows.map(|row| by_column(row.unwrap())).collect()
}
