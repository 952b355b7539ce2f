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
    parse("test", text, false).unwrap_err().to_string()
}

#[test]
fn a_log_is_replayed_at_its_pace() {
    let workload = parse("test", LOG, false).unwrap();
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
            .any(|note| note.starts_with("1 requests had a content"))
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
fn a_truncated_last_line_is_a_fault_with_its_place_or_is_counted() {
    let whole = LOG.trim_end();
    let last = whole.rfind('\n').unwrap() + 1;
    // Wherever it is cut, except within the number at its very end, where no reader could tell.
    for end in last + 1..whole.len() - 1 {
        let cut = &whole[..end];
        let fault = fault(cut);
        assert!(fault.starts_with("line 6, column "), "{fault}");
        let workload = parse("test", cut, true).unwrap();
        assert_eq!(
            workload.notes[0],
            "1 lines that could not be read are left out, the first of them line 6"
        );
        let Choice::Sequence(sequence) = &workload.plan.choice else {
            panic!()
        };
        assert_eq!(sequence.len(), 5);
    }
}

#[test]
fn faults_name_their_place() {
    assert_eq!(
        fault("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 2x0 1"),
        "line 1, column 53: expected a status of three digits, found \"2x0\""
    );
    assert_eq!(
        fault("h - - [yesterday] \"GET / HTTP/1.0\" 200 1"),
        "line 1, column 8: expected a stamp like 10/Oct/2000:13:55:36 -0700, found \"yesterday\""
    );
    assert_eq!(
        fault("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 408 -"),
        "line 1, column 37: expected a request like GET / HTTP/1.1, found \"-\""
    );
    assert_eq!(
        fault("\n\n"),
        "the log has no request: expected at least one"
    );
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,120}(\n\\PC{0,60}){0,3}") {
        let _ = parse("test", &text, false);
        let _ = parse("test", &text, true);
    }

    #[test]
    fn damaged_logs_are_no_trouble(place in 0usize..LOG.len(), octet in "\\PC") {
        let (before, after) = (LOG.get(..place), LOG.get(place + 1..));
        if let (Some(before), Some(after)) = (before, after) {
            let text = format!("{before}{octet}{after}");
            let _ = parse("test", &text, false);
            prop_assert!(parse("test", &text, true).is_ok());
        }
    }
}
