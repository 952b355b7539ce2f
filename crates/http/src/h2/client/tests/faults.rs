//! Servers that violate the protocol.

use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure};

use super::*;
use crate::h2::error::Fault;
use crate::h2::flow::UpdateAt;
use crate::h2::frame::{FrameType, HEADER_LENGTH, Header};
use crate::h2::settings::id;

/// Sends the invalid frames of a server. The test messages contain the name of the fault.
type Offence = fn(&mut Bench);

fn raw(bench: &mut Bench, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream: StreamId::new(stream),
    };
    bench.wire.extend_from_slice(&header.bytes());
    bench.wire.extend_from_slice(payload);
}

#[test]
fn a_malformed_response_ends_only_its_stream() {
    let offences: [(&str, Offence); 14] = [
        ("no status", |b| b.headers(1, &[("a", "b")], true)),
        ("capitals", |b| {
            b.headers(1, &[(":status", "200"), ("A", "b")], true);
        }),
        ("connection", |b| {
            b.headers(1, &[(":status", "200"), ("connection", "close")], true);
        }),
        ("101", |b| b.headers(1, &[(":status", "101")], false)),
        ("an interim response that ends the stream", |b| {
            b.headers(1, &[(":status", "100")], true);
        }),
        ("content missing", |b| {
            b.headers(1, &[(":status", "200"), ("content-length", "1")], true);
        }),
        ("too little content", |b| {
            b.headers(1, &[(":status", "200"), ("content-length", "2")], false);
            b.data(1, b"a", true);
        }),
        ("too much content", |b| {
            b.headers(1, &[(":status", "200"), ("content-length", "1")], false);
            b.data(1, b"ab", true);
        }),
        ("a 204 with content", |b| {
            b.headers(1, &[(":status", "204")], false);
            b.data(1, b"a", true);
        }),
        ("trailers without END_STREAM", |b| {
            b.headers(1, &[(":status", "200")], false);
            b.headers(1, &[("a", "b")], false);
        }),
        ("trailers with a status", |b| {
            b.headers(1, &[(":status", "200")], false);
            b.headers(1, &[(":status", "200")], true);
        }),
        ("content missing before trailers", |b| {
            b.headers(1, &[(":status", "200"), ("content-length", "1")], false);
            b.headers(1, &[("a", "b")], true);
        }),
        ("too many interim responses", |b| {
            for _ in 0..17 {
                b.headers(1, &[(":status", "103")], false);
            }
        }),
        ("a window too wide", |b| {
            b.headers(1, &[(":status", "200")], false);
            write::window_update(&mut b.wire, StreamId::new(1), (1 << 31) - 1);
        }),
    ];
    for (name, offence) in offences {
        let mut bench = Bench::new(Config::default());
        bench.get("/a");
        bench.get("/b");
        offence(&mut bench);
        bench.headers(3, &[(":status", "204")], true);
        let log = bench.deliver();
        let failed: Vec<&String> = log
            .iter()
            .filter(|line| line.contains("bad-response"))
            .collect();
        assert_eq!(failed, ["failed 0 bad-response"], "{name}: {log:?}");
        assert_eq!(log.last().unwrap(), "end 1", "{name}: {log:?}");
        let code = match name {
            "a window too wide" => "FLOW_CONTROL_ERROR",
            _ => "PROTOCOL_ERROR",
        };
        let resets: Vec<String> = bench.written();
        assert!(
            resets.contains(&format!("reset 1 {code}")),
            "{name}: {resets:?}"
        );
        assert!(bench.client.can_request(), "{name}");
    }
}

#[test]
fn content_before_a_head_is_a_bad_response() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.data(1, b"a", false);
    assert_eq!(bench.deliver(), ["unanswered 0 bad-response sent"]);
    assert_eq!(bench.written(), ["reset 1 PROTOCOL_ERROR"]);
    // Frames in flight when the stream was reset are skipped.
    bench.headers(1, &[(":status", "200")], false);
    bench.data(1, b"a", true);
    assert!(bench.deliver().is_empty());
}

#[test]
fn faults_of_the_connection_end_it_with_their_code() {
    let offences: [(&str, Fault, Offence); 18] = [
        ("data on an idle stream", Fault::IdleStream, |b| {
            b.data(9, b"a", true);
        }),
        ("a response on an idle stream", Fault::IdleStream, |b| {
            b.headers(9, &[(":status", "200")], true);
        }),
        ("a reset of an idle stream", Fault::IdleStream, |b| {
            b.reset(9, ErrorCode::CANCEL);
        }),
        ("a window of an idle stream", Fault::IdleStream, |b| {
            write::window_update(&mut b.wire, StreamId::new(9), 1);
        }),
        ("data on an idle pushed stream", Fault::IdleStream, |b| {
            b.data(2, b"a", true);
        }),
        ("data after the end", Fault::ClosedStream, |b| {
            b.headers(1, &[(":status", "200")], true);
            b.data(1, b"a", true);
        }),
        ("a second response", Fault::ClosedStream, |b| {
            b.headers(1, &[(":status", "200")], true);
            b.headers(1, &[(":status", "200")], true);
        }),
        ("an invalid header block", Fault::Compression, |b| {
            raw(b, FrameType::HEADERS, 4, 1, &[0xff, 0xff]);
        }),
        ("an interrupted block", Fault::BlockInterrupted, |b| {
            raw(b, FrameType::HEADERS, 0, 1, &[0x88]);
            raw(b, FrameType::PING, 0, 0, &[0; 8]);
        }),
        (
            "CONTINUATION without a header block",
            Fault::UnexpectedContinuation,
            |b| {
                raw(b, FrameType::CONTINUATION, 4, 1, &[0x88]);
            },
        ),
        ("a frame too long", Fault::FrameTooLong, |b| {
            b.data(1, &[0; 16_385], true);
        }),
        ("push enabled by a server", Fault::BadSetting, |b| {
            b.settings(&[(id::ENABLE_PUSH, 1)]);
        }),
        (
            "an initial window above the maximum",
            Fault::BadInitialWindow,
            |b| {
                b.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 31)]);
            },
        ),
        (
            "a second acknowledgement",
            Fault::UnexpectedAcknowledgement,
            |b| {
                write::settings_acknowledged(&mut b.wire);
            },
        ),
        ("a window too wide", Fault::WindowOverflow, |b| {
            write::window_update(&mut b.wire, StreamId::CONNECTION, (1 << 31) - 1);
        }),
        ("a push that is not allowed", Fault::UnexpectedPush, |b| {
            b.promise(1, 2, &[(":method", "GET")]);
        }),
        ("a priority update", Fault::UnexpectedPriorityUpdate, |b| {
            write::priority_update(&mut b.wire, StreamId::new(1), b"u=1");
        }),
        ("a ping on a stream", Fault::WrongStreamZero, |b| {
            raw(b, FrameType::PING, 0, 1, &[0; 8]);
        }),
    ];
    for (name, fault, offence) in offences {
        let mut bench = Bench::new(Config::default());
        bench.get("/a");
        bench.get("/b");
        offence(&mut bench);
        // The client ignores all later input.
        bench.headers(3, &[(":status", "204")], true);
        let log = bench.deliver();
        let end = [
            "unanswered 1 bad-response sent last",
            "closed Failed(BadResponse)",
        ];
        assert_eq!(log[log.len() - 2..], end, "{name}: {log:?}");
        assert_eq!(
            bench.client.error().map(|error| error.why),
            Some(fault),
            "{name}"
        );
        let written = bench.written();
        let goodbye = format!("goaway 0 {}", fault.code());
        assert_eq!(written.last(), Some(&goodbye), "{name}: {written:?}");
        assert!(bench.client.request(line("GET", "/")).is_err());
        assert!(bench.deliver().is_empty(), "no event follows the close");
    }
}

#[test]
fn settings_come_first() {
    for offence in [
        (|b: &mut Bench| write::ping(&mut b.wire, false, [0; 8])) as Offence,
        |b| b.headers(1, &[(":status", "200")], true),
        |b| b.data(1, b"", true),
        |b| write::settings_acknowledged(&mut b.wire),
    ] {
        let mut bench = Bench::silent(Config::default());
        bench.ask("GET", "/");
        bench.written();
        offence(&mut bench);
        let log = bench.deliver();
        assert_eq!(
            log,
            [
                "unanswered 0 bad-response sent last",
                "closed Failed(BadResponse)"
            ]
        );
        assert_eq!(bench.client.error().unwrap().why, Fault::NoSettings);
        assert_eq!(bench.written(), ["goaway 0 PROTOCOL_ERROR"]);
    }
    let mut bench = Bench::silent(Config::default());
    bench
        .wire
        .extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(bench.deliver(), ["closed Failed(BadResponse)"]);
}

#[test]
fn floods_end_the_connection() {
    let floods: [(&str, Fault, Offence); 7] = [
        ("pings", Fault::AnswerFlood, |b| {
            write::ping(&mut b.wire, false, [0; 8]);
        }),
        ("settings", Fault::AnswerFlood, |b| b.settings(&[])),
        ("empty data", Fault::IdleFrames, |b| b.data(1, b"", false)),
        ("windows", Fault::IdleFrames, |b| {
            write::window_update(&mut b.wire, StreamId::new(1), 1);
        }),
        ("unknown frames", Fault::IdleFrames, |b| {
            raw(b, FrameType(0x99), 0, 1, b"abc");
        }),
        ("resets", Fault::IdleFrames, |b| {
            b.reset(3, ErrorCode::CANCEL);
        }),
        ("GOAWAY frames", Fault::IdleFrames, |b| {
            b.go_away(1, ErrorCode::NO_ERROR);
        }),
    ];
    for (name, fault, flood) in floods {
        let mut bench = Bench::new(Config {
            floods: Floods {
                answers: 20,
                idle: 100,
                ..Floods::default()
            },
            ..Config::default()
        });
        bench.get("/a");
        bench.get("/b");
        bench.headers(1, &[(":status", "200")], false);
        let most = match fault {
            Fault::AnswerFlood => 20,
            _ => 100,
        };
        // The count is reset after one second, and also when content arrives.
        for forgive in [
            (|b: &mut Bench| b.now += Duration::from_secs(1)) as Offence,
            |b| b.data(1, b"x", false),
        ] {
            for _ in 0..most - 1 {
                flood(&mut bench);
            }
            bench.deliver();
            bench.written();
            assert_eq!(bench.client.error(), None, "{name}");
            forgive(&mut bench);
        }
        for _ in 0..=most {
            flood(&mut bench);
        }
        let log = bench.deliver();
        let closed = CloseReason::Failed(Failure::TooLarge);
        assert_eq!(bench.client.close_reason(), Some(closed), "{name}: {log:?}");
        assert_eq!(bench.client.error().unwrap().why, fault, "{name}");
        let written = bench.written();
        assert_eq!(
            written.last().unwrap(),
            "goaway 0 ENHANCE_YOUR_CALM",
            "{name}"
        );
    }
}

#[test]
fn unsent_control_frames_are_bounded() {
    let mut bench = Bench::new(Config {
        floods: Floods {
            waiting: 200,
            ..Floods::default()
        },
        ..Config::default()
    });
    for _ in 0..12 {
        // At one frame per second, the frames are not a flood.
        bench.now += Duration::from_secs(1);
        write::ping(&mut bench.wire, false, [0; 8]);
        bench.deliver();
    }
    assert_eq!(bench.client.error().unwrap().why, Fault::OutputFlood);
    // If a server sends and does not read, window updates accumulate.
    let mut bench = Bench::new(Config {
        update_at: UpdateAt::Once,
        ..Config::default()
    });
    bench.get("/a");
    bench.headers(1, &[(":status", "200")], false);
    for _ in 0..3000 {
        bench.data(1, b"x", false);
    }
    bench.deliver();
    assert_eq!(bench.client.error().unwrap().why, Fault::OutputFlood);
    // If a server reads, it may send without a limit, even while other output waits.
    let mut bench = Bench::silent(Config {
        update_at: UpdateAt::Once,
        ..Config::default()
    });
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 30)]);
    write::window_update(&mut bench.wire, StreamId::CONNECTION, 1 << 30);
    bench.deliver();
    let request = bench.post(Content::Sized(500_000));
    bench.client.send_content(request, &[0; 500_000]).unwrap();
    bench.client.flush();
    bench.headers(1, &[(":status", "200")], false);
    for _ in 0..6000 {
        bench.data(1, b"x", false);
        bench.deliver();
        // Some output always remains.
        let taken = 2000.min(bench.client.transmit().len() - 1);
        bench.client.transmitted(taken, bench.now);
    }
    assert_eq!(
        bench.client.error(),
        None,
        "output that the transport took is not counted as waiting"
    );
}

#[test]
fn heads_are_bounded_before_and_after_decompression() {
    let limits = Limits {
        head: Bytes(1000),
        fields: 4,
        ..Limits::default()
    };
    let config = Config {
        limits,
        ..Config::default()
    };
    let long = "x".repeat(900);
    let mut bench = Bench::new(config);
    bench.get("/a");
    bench.get("/b");
    // The field is short as a table reference, but two references exceed the limit.
    bench.headers(1, &[(":status", "200"), ("a", &long)], true);
    bench.headers(3, &[(":status", "200"), ("a", &long), ("a", &long)], true);
    let log = bench.deliver();
    assert_eq!(log[2..], ["end 0", "begin 1", "failed 1 too-large"]);
    assert_eq!(bench.written(), ["reset 3 CANCEL"]);
    bench.get("/c");
    let many = [
        (":status", "200"),
        ("a", ""),
        ("b", ""),
        ("c", ""),
        ("d", ""),
        ("e", ""),
    ];
    bench.headers(5, &many[..5], true);
    bench.get("/d");
    bench.headers(7, &many, true);
    let log = bench.deliver();
    assert_eq!(log[2..], ["end 2", "begin 3", "failed 3 too-large"]);
    // A compressed block above the limit closes the connection, because the HPACK tables of the two sides would differ.
    bench.written();
    bench.get("/e");
    raw(&mut bench, FrameType::HEADERS, 0, 9, &[0; 600]);
    raw(&mut bench, FrameType::CONTINUATION, 0, 9, &[0; 600]);
    let log = bench.deliver();
    assert_eq!(log.last().unwrap(), "closed Failed(TooLarge)");
    assert_eq!(bench.client.error().unwrap().why, Fault::BlockTooLong);
}

#[test]
fn content_is_bounded() {
    let limits = Limits {
        body: Bytes(5),
        ..Limits::default()
    };
    let mut bench = Bench::new(Config {
        limits,
        ..Config::default()
    });
    bench.get("/a");
    bench.get("/b");
    bench.headers(1, &[(":status", "200"), ("content-length", "6")], false);
    bench.headers(3, &[(":status", "200")], false);
    bench.data(3, b"abcdefg", false);
    let log = bench.deliver();
    let expected = [
        "begin 0",
        "failed 0 too-large",
        "begin 1",
        "head 1 200",
        "content 1 abcde",
        "failed 1 too-large",
    ];
    assert_eq!(log, expected);
    assert_eq!(bench.written(), ["reset 1 CANCEL", "reset 3 CANCEL"]);
}

#[test]
fn a_stream_fault_found_by_the_frame_reader_ends_only_that_stream() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    raw(&mut bench, FrameType::WINDOW_UPDATE, 0, 1, &[0; 4]);
    assert_eq!(bench.deliver(), ["unanswered 0 bad-response sent"]);
    assert_eq!(bench.written(), ["reset 1 PROTOCOL_ERROR"]);
    assert_eq!(bench.client.close_reason(), None);
}

#[test]
fn a_header_alone_is_no_frame() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.headers(1, &[(":status", "200")], true);
    let wire = std::mem::take(&mut bench.wire);
    for piece in wire.chunks(1).take(HEADER_LENGTH) {
        let mut input = piece;
        assert_eq!(bench.client.poll(&mut input, bench.now), None);
    }
    let mut input = &wire[HEADER_LENGTH..];
    let begin = bench.client.poll(&mut input, bench.now);
    assert_eq!(
        begin,
        Some(Event::Begin {
            request: RequestId(0)
        })
    );
}
