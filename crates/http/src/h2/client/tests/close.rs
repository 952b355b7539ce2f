//! Early ends of connections and requests.

use std::time::Duration;

use fathometer_model::{CloseReason, Failure};

use super::*;
use crate::h2::settings::id;

#[test]
fn refused_streams_may_be_retried() {
    let mut bench = Bench::new(Config::default());
    for target in ["/a", "/b", "/c"] {
        bench.get(target);
    }
    bench.reset(1, ErrorCode::REFUSED_STREAM);
    bench.reset(3, ErrorCode::INTERNAL_ERROR);
    bench.headers(5, &[(":status", "200")], false);
    bench.data(5, b"ab", false);
    bench.reset(5, ErrorCode::CANCEL);
    let expected = [
        "unanswered 0 stream-reset",
        "unanswered 1 stream-reset sent",
        "begin 2",
        "head 2 200",
        "content 2 ab",
        "failed 2 stream-reset",
    ];
    assert_eq!(bench.deliver(), expected);
    assert!(bench.written().is_empty(), "a reset is not answered");
    assert!(bench.client.can_request());
}

#[test]
fn a_reset_after_a_complete_response_is_ignored() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.headers(1, &[(":status", "204")], true);
    bench.reset(1, ErrorCode::NO_ERROR);
    assert_eq!(bench.deliver(), ["begin 0", "head 0 204", "end 0"]);
    assert_eq!(bench.client.close_reason(), None);
}

#[test]
fn the_connection_drains_after_goaway() {
    let mut bench = Bench::new(Config::default());
    for target in ["/a", "/b", "/c"] {
        bench.get(target);
    }
    bench.headers(3, &[(":status", "200")], false);
    bench.go_away(0x7fff_ffff, ErrorCode::NO_ERROR);
    let log = bench.deliver();
    assert_eq!(log, ["begin 1", "head 1 200", "goaway 1073741823 NO_ERROR"]);
    assert!(!bench.client.accepts_requests() && bench.client.outstanding() == 3);
    bench.go_away(3, ErrorCode::NO_ERROR);
    assert_eq!(
        bench.deliver(),
        ["goaway 1 NO_ERROR", "unanswered 2 gone-away last"]
    );
    bench.headers(1, &[(":status", "204")], true);
    bench.data(3, b"", true);
    let log = bench.deliver();
    let end = [
        "begin 0",
        "head 0 204",
        "end 0 last",
        "end 1 last",
        "closed ServerAsked",
    ];
    assert_eq!(log, end);
}

#[test]
fn goaway_with_an_error_leaves_all_requests_unanswered() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.get("/b");
    bench.go_away(0, ErrorCode::ENHANCE_YOUR_CALM);
    let expected = [
        "goaway none ENHANCE_YOUR_CALM",
        "unanswered 0 gone-away last",
        "unanswered 1 gone-away last",
        "closed Failed(GoneAway)",
    ];
    assert_eq!(bench.deliver(), expected);
}

#[test]
fn the_end_of_the_connection_ends_every_request_once() {
    let mut bench = Bench::new(Config::default());
    for target in ["/a", "/b", "/c"] {
        bench.get(target);
    }
    bench.ask("GET", "/d");
    bench.headers(3, &[(":status", "200")], false);
    bench.deliver();
    bench.client.handle_eof(bench.now);
    let expected = [
        "unanswered 0 closed-early sent last",
        "failed 1 truncated last",
        "unanswered 2 closed-early sent last",
        "unanswered 3 closed-early last",
        "closed ServerEarly",
    ];
    assert_eq!(bench.deliver(), expected);
    assert!(bench.client.transmit().is_empty());
    for (asks, reason) in [
        (false, CloseReason::ServerIdle),
        (true, CloseReason::ServerEarly),
    ] {
        let mut bench = Bench::new(Config::default());
        if asks {
            bench.get("/a");
        }
        bench.client.handle_eof(bench.now);
        bench.deliver();
        assert_eq!(bench.client.close_reason(), Some(reason));
    }
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.client.handle_failure(Failure::Reset, bench.now);
    assert_eq!(
        bench.deliver(),
        ["unanswered 0 reset sent last", "closed Failed(Reset)"]
    );
    assert!(bench.client.transmit().is_empty());
}

#[test]
fn a_finished_client_sends_goaway_if_configured() {
    for send_go_away in [false, true] {
        let mut bench = Bench::new(Config {
            send_go_away,
            ..Config::default()
        });
        bench.get("/a");
        bench.client.finish();
        let log = bench.deliver();
        assert_eq!(
            log,
            ["unanswered 0 local-abort sent last", "closed Finished"]
        );
        let go_away: &[&str] = if send_go_away {
            &["goaway 0 NO_ERROR"]
        } else {
            &[]
        };
        assert_eq!(bench.written(), go_away);
        assert!(bench.deliver().is_empty());
    }
}

#[test]
fn one_request_can_be_cancelled() {
    let mut bench = Bench::new(Config::default());
    let (first, second) = (bench.get("/a"), bench.get("/b"));
    bench.headers(1, &[(":status", "200")], false);
    bench.deliver();
    bench.client.cancel(first, Failure::LocalAbort, bench.now);
    bench.client.cancel(first, Failure::LocalAbort, bench.now);
    bench.client.cancel(second, Failure::TimedOut, bench.now);
    assert_eq!(
        bench.deliver(),
        ["failed 0 local-abort", "unanswered 1 timed-out sent"]
    );
    assert_eq!(bench.written(), ["reset 1 CANCEL", "reset 3 CANCEL"]);
    // Late content on the reset stream counts only towards the connection's window.
    bench.data(1, b"late", true);
    bench.headers(3, &[(":status", "200")], true);
    assert!(bench.deliver().is_empty());
    assert!(bench.client.can_request());
}

#[test]
fn a_request_cancelled_before_it_was_sent_is_reset_after_its_head() {
    let mut bench = Bench::new(Config::default());
    let request = bench
        .client
        .request(line("GET", "/a"))
        .unwrap()
        .send()
        .unwrap()
        .request;
    bench.client.cancel(request, Failure::LocalAbort, bench.now);
    assert_eq!(bench.deliver(), ["unanswered 0 local-abort"]);
    assert!(bench.written().is_empty());
    bench.client.flush();
    let written = bench.written();
    assert!(written[0].starts_with("headers 1 "));
    assert_eq!(written[1..], ["reset 1 CANCEL"]);
}

#[test]
fn a_timeout_ends_only_its_request() {
    let timeouts = Timeouts {
        head: Some(Duration::from_secs(5)),
        idle: None,
        total: Some(Duration::from_secs(20)),
        ..Timeouts::default()
    };
    let mut bench = Bench::new(Config {
        timeouts,
        ..Config::default()
    });
    let start = bench.now;
    assert_eq!(bench.client.poll_timeout(), None, "no time limit is set");
    bench.get("/a");
    bench.now = start + Duration::from_secs(2);
    bench.get("/b");
    bench.headers(1, &[(":status", "200")], false);
    bench.deliver();
    for (after, expected) in [
        (5, &[][..]),
        (7, &["unanswered 1 timed-out sent"]),
        (20, &["failed 0 timed-out"]),
    ] {
        bench.now = start + Duration::from_secs(after);
        assert_eq!(bench.client.poll_timeout(), Some(bench.now));
        bench.client.handle_timeout(bench.now);
        assert_eq!(bench.deliver(), expected);
    }
    assert_eq!(bench.written(), ["reset 3 CANCEL", "reset 1 CANCEL"]);
    assert_eq!(bench.client.poll_timeout(), None);
    bench.get("/c");
    assert_eq!(
        bench.client.poll_timeout(),
        Some(bench.now + Duration::from_secs(5))
    );
}

#[test]
fn silence_ends_the_connection() {
    let timeouts = Timeouts {
        head: None,
        total: None,
        idle: Some(Duration::from_secs(5)),
        ..Timeouts::default()
    };
    let mut bench = Bench::new(Config {
        timeouts,
        ..Config::default()
    });
    bench.get("/a");
    bench.now += Duration::from_secs(4);
    write::ping(&mut bench.wire, false, [0; 8]);
    bench.deliver();
    bench.written();
    bench.now += Duration::from_secs(5);
    bench.client.handle_timeout(bench.now);
    let log = bench.deliver();
    assert_eq!(
        log,
        [
            "unanswered 0 timed-out sent last",
            "closed Failed(TimedOut)"
        ]
    );
    assert_eq!(bench.written(), ["goaway 0 NO_ERROR"]);
}

#[test]
fn settings_must_be_acknowledged_in_time() {
    let mut bench = Bench::silent(Config::default());
    bench.settings(&[(id::MAX_CONCURRENT_STREAMS, 5)]);
    bench.deliver();
    bench.written();
    let by = bench.client.poll_timeout().unwrap();
    assert_eq!(by, bench.now + Duration::from_secs(30));
    bench.now = by;
    bench.client.handle_timeout(by);
    assert_eq!(bench.deliver(), ["closed Failed(TimedOut)"]);
    assert_eq!(bench.written(), ["goaway 0 SETTINGS_TIMEOUT"]);
}
