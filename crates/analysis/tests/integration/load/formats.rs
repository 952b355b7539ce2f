//! Tests of the export formats, with parsers that follow the format specifications.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::{Slo, csv, hdr, prometheus};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::sample;

#[test]
fn tables_of_comma_separated_values() {
    let result = sample::broken();
    let slo: Slo = "p98<100ms,errors<0.1%".parse().unwrap();
    let summary = csv::summary(&result, &slo.judge(&result));
    let lines: BTreeMap<&str, &str> = summary
        .lines()
        .filter_map(|line| line.split_once(','))
        .collect();
    assert!(summary.starts_with("metric,value,unit\n"));
    assert_eq!(lines.len(), summary.lines().count(), "a name twice");
    assert_eq!(lines["measured.counts.failures.timed-out"], "80,");
    assert_eq!(lines["measured.rates.goodput_bytes_per_s"], "9200000.0,B/s");
    assert_eq!(lines["measured.phases.page.max_ms"], "10000.0,ms");
    assert_eq!(lines["generator.cpu_user_s"], "0.06,s");
    assert_eq!(lines["setup.workload"], "\"webstone, \"\"heavy\"\"\",");
    assert_eq!(lines["slos.0.met"], "false,");
    insta::assert_snapshot!("summary_csv", summary);

    let summary = csv::summary(&sample::multiplexed(), &[]);
    for line in [
        "measured.tls.resumed,16,",
        "measured.tls.cpu_per_handshake_us,250.0,us",
        "measured.bytes.response_savings_share,0.75,1",
        "measured.http2.received.data.bytes,10330000,B",
        "measured.http2.most_streams,16,",
        "measured.phases.tls.max_ms,1.54,ms",
    ] {
        assert!(summary.lines().any(|l| l == line), "{line}: {summary}");
    }

    let timeline = csv::timeline(&sample::stalled());
    let widths: Vec<_> = timeline
        .lines()
        .map(|line| line.split(',').count())
        .collect();
    assert_eq!(widths, [12; 13]);
    insta::assert_snapshot!("timeline_csv", timeline);
}

#[test]
fn the_histogram_log_holds_the_histograms() {
    let result = sample::stalled();
    let mut log = Vec::new();
    hdr::write(&result, &mut log).unwrap();
    let text = String::from_utf8(log.clone()).unwrap();
    let head: Vec<_> = text.lines().take(5).collect();
    assert_eq!(
        head,
        [
            "#[Histogram log format version 1.3]",
            "#[Fathometer 0.1.0: http://127.0.0.1:8080/ h1.1, values in nanoseconds]",
            "#[StartTime: 1795289940.250 (seconds since epoch), 2026-11-21 19:39 UTC]",
            "#[BaseTime: 1795289940.250 (seconds since epoch)]",
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
        ]
    );
    let mut deserializer = Deserializer::new();
    let mut found = BTreeMap::new();
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        assert_eq!(interval.start_timestamp(), Duration::from_secs(2));
        assert_eq!(interval.duration(), Duration::from_secs(10));
        let bytes = decoded(interval.encoded_histogram());
        let histogram: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
        found.insert(interval.tag().unwrap().as_str().to_owned(), histogram);
    }
    let tags: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(
        tags,
        [
            "connect",
            "corrected",
            "first-byte",
            "queue",
            "send-lag",
            "transfer",
            "uncorrected"
        ]
    );
    let latency = &result.measured.latency;
    assert_eq!(found["corrected"], latency.corrected.histogram());
    assert_eq!(found["queue"], latency.queue.histogram());
}

#[test]
fn reasons_against_a_result_are_in_its_histogram_log() {
    let mut log = Vec::new();
    hdr::write(&sample::broken(), &mut log).unwrap();
    let text = String::from_utf8(log).unwrap();
    assert_eq!(text.matches("#[INVALID: ").count(), 2);
}

/// Decodes base64 with padding (RFC 4648 section 4).
fn decoded(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = alphabet.iter().position(|a| *a == letter).unwrap();
        bits = (bits << 6 | value as u32) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// A sample: name, labels and value.
pub type Sample = (String, Vec<(String, String)>, f64);

/// Parses the text format 0.0.4 strictly: every sample belongs to the family that was declared last, and a
/// family is declared once, with help and type.
pub fn exposition(text: &str) -> BTreeMap<String, (String, Vec<Sample>)> {
    let mut families: BTreeMap<String, (String, Vec<Sample>)> = BTreeMap::new();
    let mut helped = String::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').unwrap().0.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, helped);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let before = families.insert(name.to_owned(), (kind.to_owned(), Vec::new()));
            assert!(before.is_none(), "{line}");
            current = name.to_owned();
        } else {
            let sample = sample_of(line);
            let (kind, samples) = families.get_mut(&current).unwrap();
            let suffix = sample.0.strip_prefix(&current).unwrap();
            match kind.as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                "counter" => assert!(suffix.is_empty() && current.ends_with("_total"), "{line}"),
                _ => assert_eq!(suffix, "", "{line}"),
            }
            samples.push(sample);
        }
    }
    families
}

fn sample_of(line: &str) -> Sample {
    let name_end = line.find(['{', ' ']).unwrap();
    let name = &line[..name_end];
    assert!(
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
        "{line}"
    );
    let mut rest = &line[name_end..];
    let mut labels = Vec::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at + 1,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, plain) => value.push(plain),
                }
            };
            labels.push((label.to_owned(), value));
            match after[end..].strip_prefix(',') {
                Some(next) => inside = next,
                None => {
                    rest = after[end..].strip_prefix('}').unwrap();
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
    (name.to_owned(), labels, value)
}

#[test]
fn the_exposition_is_well_formed_and_its_histograms_add_up() {
    for (name, mut result) in sample::all() {
        result.setup.workload = "a \"b\"\\c\nd".to_owned();
        let text = prometheus::render(&result);
        assert!(!text.contains("NaN"), "{name}");
        let families = exposition(&text);
        let (_, info) = &families["fathometer_load_info"];
        let workload = info[0].1.iter().find(|(label, _)| label == "workload");
        assert_eq!(workload.unwrap().1, result.setup.workload);
        let valid = families["fathometer_load_valid"].1[0].2;
        assert_eq!(valid == 1.0, result.validity.is_valid());
        let (_, phases) = &families["fathometer_load_phase_seconds"];
        let mut counts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, labels, value) in phases {
            if name.ends_with("_bucket") {
                counts.entry(&labels[0].1).or_default().push(*value);
                let in_order = ["phase", "le"].iter().zip(labels).all(|(a, (b, _))| a == b);
                assert!(in_order);
            }
        }
        for (phase, counts) in &counts {
            assert!(counts.is_sorted(), "{name} {phase}: {counts:?}");
            let count = phases
                .iter()
                .find(|(name, labels, _)| name.ends_with("_count") && labels[0].1 == **phase);
            assert_eq!(counts.last(), Some(&count.unwrap().2));
        }
        assert_eq!(counts.is_empty(), name == "nothing");
    }
}

#[test]
fn buckets_hold_what_their_bounds_say() {
    let result = sample::stalled();
    let families = exposition(&prometheus::render(&result));
    let (_, phases) = &families["fathometer_load_phase_seconds"];
    let bucket = |phase: &str, le: &str| {
        phases
            .iter()
            .find(|(_, labels, _)| {
                let labels: Vec<_> = labels.iter().map(|(_, value)| value.as_str()).collect();
                labels == [phase, le]
            })
            .unwrap()
            .2
    };
    // 9 001 exchanges did not queue; the others waited 1, 2 … 999 ms.
    assert_eq!(bucket("queue", "0.00001"), 9_001.0);
    assert_eq!(bucket("queue", "0.1"), 9_101.0);
    assert_eq!(bucket("queue", "1"), 10_000.0);
    let sum = phases
        .iter()
        .find(|(name, labels, _)| name.ends_with("_sum") && labels[0].1 == "queue");
    assert!((sum.unwrap().2 - 499.5).abs() < 1e-9);
    assert!(!families.contains_key("fathometer_load_tls_handshakes_total"));
    let families = exposition(&prometheus::render(&sample::multiplexed()));
    for (family, wanted) in [
        ("tls_handshakes_total", 64.0),
        ("tls_early_data_total", 16.0),
        ("tls_agreed_total", 64.0),
        ("header_field_bytes_total", 2_640_000.0),
        ("frames_total", 30_656.0),
        ("most_streams", 16.0),
    ] {
        let (_, samples) = &families[&format!("fathometer_load_{family}")];
        let sum: f64 = samples.iter().map(|(_, _, value)| value).sum();
        assert_eq!(sum, wanted, "{family}");
    }
    insta::assert_snapshot!("prometheus", prometheus::render(&sample::broken()));
}
