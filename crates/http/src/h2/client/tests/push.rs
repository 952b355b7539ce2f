//! Promises and pushed responses.

use fathometer_model::Failure;

use super::*;
use crate::h2::error::Fault;
use crate::h2::settings::Settings;

const STYLE: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "example.org"),
    (":path", "/style"),
];

fn accepting() -> Config {
    Config {
        push: Push::Accepted,
        ..Config::default()
    }
}

#[test]
fn a_push_is_a_response_of_its_own() {
    let mut bench = Bench::new(accepting());
    bench.get("/a");
    bench.promise(1, 2, &STYLE);
    assert_eq!(bench.deliver(), ["promised p1 by 0"]);
    let promise = bench.client.promise().unwrap();
    assert_eq!((promise.method, promise.target), ("GET", "/style"));
    assert_eq!(
        (
            bench.client.outstanding(),
            bench.client.outstanding_pushes()
        ),
        (1, 1)
    );
    bench.headers(1, &[(":status", "200")], true);
    bench.headers(2, &[(":status", "200"), ("content-length", "2")], false);
    bench.data(2, b"ab", true);
    let expected = [
        "begin 0",
        "head 0 200",
        "end 0",
        "begin p1",
        "head p1 200",
        "content p1 ab",
        "end p1",
    ];
    assert_eq!(bench.deliver(), expected);
    assert_eq!(bench.client.outstanding_pushes(), 0);
}

#[test]
fn pushes_can_be_refused_by_setting_and_by_hand() {
    let mut bench = Bench::new(Config {
        push: Push::Refused,
        ..Config::default()
    });
    bench.get("/a");
    bench.promise(1, 2, &STYLE);
    bench.headers(2, &[(":status", "200")], false);
    bench.data(2, b"on its way", true);
    assert_eq!(bench.deliver(), ["promised p1 by 0 refused"]);
    assert_eq!(bench.written(), ["reset 2 CANCEL"]);
    let mut bench = Bench::new(accepting());
    bench.get("/a");
    bench.promise(1, 4, &STYLE);
    bench.deliver();
    bench
        .client
        .cancel(RequestId::pushed(2), Failure::LocalAbort, bench.now);
    assert_eq!(bench.deliver(), ["unanswered p2 local-abort sent"]);
    assert_eq!(bench.written(), ["reset 4 CANCEL"]);
    bench.headers(4, &[(":status", "200")], true);
    assert!(bench.deliver().is_empty());
}

#[test]
fn forbidden_promises_are_reset() {
    let with = |place: usize, name: &'static str, value: &'static str| {
        let mut fields = STYLE.to_vec();
        fields[place] = (name, value);
        fields
    };
    for fields in [
        with(0, ":method", "POST"),
        with(1, ":scheme", "http"),
        with(2, ":authority", "elsewhere.org"),
        with(3, ":status", "200"),
        [&STYLE[..], &[("content-length", "5")]].concat(),
        [&STYLE[..], &[("connection", "close")]].concat(),
    ] {
        let mut bench = Bench::new(accepting());
        bench.get("/a");
        bench.promise(1, 2, &fields);
        bench.headers(1, &[(":status", "204")], true);
        let log = bench.deliver();
        assert_eq!(log, ["begin 0", "head 0 204", "end 0"], "{fields:?}");
        assert_eq!(bench.written(), ["reset 2 PROTOCOL_ERROR"], "{fields:?}");
    }
}

#[test]
fn promises_are_bounded() {
    let mut bench = Bench::new(Config {
        settings: Settings {
            max_concurrent_streams: Some(1),
            ..Settings::default()
        },
        most_pushes: 2,
        ..accepting()
    });
    bench.get("/a");
    for promised in [2, 4, 6] {
        bench.promise(1, promised, &STYLE);
    }
    let log = bench.deliver();
    assert_eq!(
        log,
        [
            "promised p1 by 0",
            "promised p2 by 0",
            "promised p3 by 0 refused"
        ]
    );
    assert_eq!(bench.written(), ["reset 6 REFUSED_STREAM"]);
    // Two pushes are promised; only one may be in flight.
    bench.headers(2, &[(":status", "200")], false);
    bench.headers(4, &[(":status", "200")], false);
    let log = bench.deliver();
    assert_eq!(
        log,
        ["begin p1", "head p1 200", "unanswered p2 too-large sent"]
    );
    assert_eq!(bench.written(), ["reset 4 REFUSED_STREAM"]);
}

#[test]
fn promises_must_be_in_order_and_on_requests() {
    for (fault, on, promised) in [
        (Fault::BadStreamNumber, 1, 3),
        (Fault::BadStreamNumber, 1, 2),
        (Fault::IdleStream, 9, 4),
        (Fault::UnexpectedPush, 2, 4),
    ] {
        let mut bench = Bench::new(accepting());
        bench.get("/a");
        bench.promise(1, 2, &STYLE);
        bench.promise(on, promised, &STYLE);
        bench.deliver();
        assert_eq!(bench.client.error().map(|error| error.why), Some(fault));
        assert!(bench.written().last().unwrap().starts_with("goaway "));
    }
    let mut bench = Bench::new(accepting());
    bench.get("/a");
    bench.headers(1, &[(":status", "204")], true);
    bench.promise(1, 2, &STYLE);
    bench.deliver();
    assert_eq!(bench.client.error().unwrap().why, Fault::ClosedStream);
}

#[test]
fn a_promise_on_a_cancelled_request_is_cancelled() {
    let mut bench = Bench::new(accepting());
    let request = bench.get("/a");
    bench.client.cancel(request, Failure::LocalAbort, bench.now);
    bench.promise(1, 2, &STYLE);
    bench.headers(2, &[(":status", "200")], true);
    assert_eq!(bench.deliver(), ["unanswered 0 local-abort sent"]);
    assert_eq!(bench.written(), ["reset 1 CANCEL", "reset 2 CANCEL"]);
}

#[test]
fn a_draining_connection_waits_for_promised_responses() {
    let mut bench = Bench::new(accepting());
    bench.get("/a");
    bench.promise(1, 2, &STYLE);
    bench.go_away(1, ErrorCode::NO_ERROR);
    bench.headers(1, &[(":status", "204")], true);
    bench.deliver();
    assert_eq!(bench.client.close_reason(), None);
    bench.headers(2, &[(":status", "204")], true);
    let log = bench.deliver();
    assert_eq!(
        log,
        [
            "begin p1",
            "head p1 204",
            "end p1 last",
            "closed ServerAsked"
        ]
    );
}
