use fathometer_model::Seed;
use proptest::prelude::*;

use super::*;

const LOG: &str = "\
192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /logo.gif HTTP/1.0\" 200 2326
192.0.2.2 - - [10/Oct/2000:20:55:38 +0000] \"GET /a.html?q=1 HTTP/1.1\" 200 500 \"-\" \"agent \\\"x\\\" 1\"
192.0.2.2 - - [10/Oct/2000:20:55:36 +0000] \"POST /form HTTP/1.1\" 302 -
192.0.2.2 - - [10/Oct/2000:20:55:38 +0000] \"GET /logo.gif HTTP/1.1\" 304 0 \"http://x/\" \"a\" 17 extra
192.0.2.2 - a b [10/Oct/2000:20:55:38 +0000] \"GET http://host/gone HTTP/1.1\" 404 209
192.0.2.2 - - [10/Oct/2000:20:55:38 +0000] \"HEAD /a.html HTTP/1.1\" 200 0
";

fn fault(text: &str) -> String {
    parse("test", text).unwrap_err().to_string()
}

#[test]
fn a_log_is_replayed_at_its_pace() {
    let workload = parse("test", LOG).unwrap();
    let plan = &workload.plan;
    let Choice::Sequence(sequence) = &plan.choice else {
        panic!("{:?}", plan.choice);
    };
    let requests: Vec<String> = sequence
        .iter()
        .map(|&page| {
            let target = plan.pages.get(page).members[0];
            let target = &plan.targets[target.0 as usize];
            format!("{} {}", target.method, target.path)
        })
        .collect();
    assert_eq!(
        requests,
        [
            "GET /logo.gif",
            "POST /form",
            "GET /a.html?q=1",
            "GET /logo.gif",
            "GET /gone",
            "HEAD /a.html"
        ]
    );
    let instants: Vec<u128> = plan
        .recorded
        .as_ref()
        .unwrap()
        .iter()
        .map(Duration::as_millis)
        .collect();
    assert_eq!(instants, [0, 500, 2000, 2250, 2500, 2750]);
    let files: Vec<(&str, u64)> = workload
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.size))
        .collect();
    assert_eq!(files, [("/logo.gif", 2326), ("/a.html", 500)]);
    assert_eq!(workload.site(0.3, Seed(1)).files.len(), 2);
    assert!(
        workload
            .notes
            .iter()
            .any(|note| note.starts_with("1 requests had content that the log does not contain"))
    );
}

#[test]
fn stamps_are_read_in_any_zone() {
    assert_eq!(seconds("01/Jan/1970:00:00:00 +0000"), Some(0));
    assert_eq!(seconds("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
    assert_eq!(seconds("29/Feb/2024:23:59:59 +0130"), Some(1_709_245_799));
    for wrong in [
        "29/Feb/2023:00:00:00 +0000",
        "10/Okt/2000:13:55:36 -0700",
        "10/Oct/2000:13:55 -0700",
        "10/Oct/2000:13:55:36 0700",
        "10/Oct/2000:13:55:36",
        "",
    ] {
        assert_eq!(seconds(wrong), None, "{wrong}");
    }
}

#[test]
fn a_truncated_last_line_is_skipped_and_counted() {
    let whole = LOG.trim_end();
    let last = whole.rfind('\n').unwrap() + 1;
    // The text is truncated at every position except within the last number, where the truncation cannot be detected.
    for end in last + 1..whole.len() - 1 {
        let workload = parse("test", &whole[..end]).unwrap();
        let skipped: Vec<(&str, u64)> = workload
            .skipped
            .iter()
            .map(|(what, &n)| (what.as_str(), n))
            .collect();
        assert_eq!(skipped, [("a truncated last line", 1)]);
        let note = &workload.notes[0];
        assert!(
            note.starts_with("1 lines are skipped: 1 with a truncated last line"),
            "{note}"
        );
        assert!(note.contains("the first: line 6, column "), "{note}");
        let Choice::Sequence(sequence) = &workload.plan.choice else {
            panic!()
        };
        assert_eq!(sequence.len(), 5);
    }
}

fn line(request: &str, rest: &str) -> String {
    format!("h - - [10/Oct/2000:13:55:36 -0700] \"{request}\" {rest}\n")
}

/// Log lines of clients that do not use HTTP, or that use a part of HTTP that cannot be replayed.
#[test]
fn odd_lines_are_skipped_and_counted_by_reason() {
    let log = [
        line("GET /a HTTP/1.1", "200 5"),
        line("-", "408 0"),
        line("-", "400 0"),
        line("\\x16\\x03\\x01\\x02", "400 157"),
        line("OPTIONS * HTTP/1.0", "200 -"),
        line("CONNECT a.example:443 HTTP/1.1", "405 0"),
        line("GET /a b.html HTTP/1.1", "404 0"),
        line("GET /caf\u{fffd} HTTP/1.1", "404 0"),
        line("GET /caf\\xE9 HTTP/1.1", "404 0"),
        line("GET /nothing HTTP/1.1", "000 0"),
        line("hello", "400 0"),
        "no log at all\n".to_owned(),
    ]
    .concat();
    let workload = parse("test", &log).unwrap();
    let skipped: Vec<(&str, u64)> = workload
        .skipped
        .iter()
        .map(|(what, &n)| (what.as_str(), n))
        .collect();
    assert_eq!(
        skipped,
        [
            ("CONNECT", 1),
            ("OPTIONS *", 1),
            ("TLS on a cleartext port", 1),
            ("a target with spaces", 1),
            (
                "a target with spaces, control bytes or bytes beyond ASCII",
                2
            ),
            ("an unknown log format", 1),
            ("no request (\"-\")", 2),
            ("no status", 1),
            ("not an HTTP request line", 1),
        ]
    );
    assert_eq!(workload.plan.targets.len(), 1);
    assert!(
        workload.notes[0].starts_with("11 lines are skipped: "),
        "{}",
        workload.notes[0]
    );
}

#[test]
fn escapes_of_the_log_are_undone() {
    let log = [
        line("GET /a\\x22b\\x5c HTTP/1.1", "200 5"),
        line("GET /q?x=\\\"1\\\"&y=\\\\ HTTP/1.1", "200 5"),
        line("GET /%22 HTTP/1.1", "200 5"),
    ]
    .concat();
    let workload = parse("test", &log).unwrap();
    let paths: Vec<&str> = workload
        .plan
        .targets
        .iter()
        .map(|t| t.path.as_str())
        .collect();
    assert_eq!(paths, ["/a\"b\\", "/q?x=\"1\"&y=\\", "/%22"]);
}

/// A dynamic API responds to each query with a different size, and to the same query with several sizes.
#[test]
fn sizes_are_those_of_whole_targets_and_never_invented() {
    let log = [
        line("GET /api?a=1 HTTP/1.1", "200 100"),
        line("GET /api?a=2 HTTP/1.1", "200 200"),
        line("GET /api?a=3 HTTP/1.1", "200 300"),
        line("GET /api?a=3 HTTP/1.1", "200 301"),
        line("GET /seen HTTP/1.1", "304 0"),
    ]
    .concat();
    let workload = parse("test", &log).unwrap();
    let sizes: Vec<Option<u64>> = workload
        .plan
        .targets
        .iter()
        .map(|t| t.size.map(|size| size.0))
        .collect();
    assert_eq!(sizes, [Some(100), Some(200), None, None]);
    // The site has a file for each path.
    let files: Vec<(&str, u64)> = workload
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.size))
        .collect();
    assert_eq!(files, [("/api", 301), ("/seen", 1024)]);
}

#[test]
fn faults_name_their_place() {
    assert_eq!(
        fault("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 2x0 1"),
        "line 1, column 53: none of the 1 lines can be replayed; the first error: expected a status of three digits, \
         found \"2x0\""
    );
    assert_eq!(
        fault("h - - [yesterday] \"GET / HTTP/1.0\" 200 1"),
        "line 1, column 8: none of the 1 lines can be replayed; the first error: expected a time stamp like \
         10/Oct/2000:13:55:36 -0700, found \"yesterday\""
    );
    assert_eq!(
        fault("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 408 -"),
        "line 1, column 37: none of the 1 lines can be replayed; the first error: expected a request like GET / \
         HTTP/1.1, found \"-\""
    );
    assert_eq!(
        fault("\n\n"),
        "the log has no request: expected at least one"
    );
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,120}(\n\\PC{0,60}){0,3}") {
        let _ = parse("test", &text);
    }

    #[test]
    fn damaged_logs_do_not_panic(place in 0usize..LOG.len(), byte in "\\PC") {
        let (before, after) = (LOG.get(..place), LOG.get(place + 1..));
        if let (Some(before), Some(after)) = (before, after) {
            let text = format!("{before}{byte}{after}");
            prop_assert!(parse("test", &text).is_ok());
        }
    }
}
