//! Tests of frames that change streams and the connection, and of errors for frames in the wrong state.

use fathometer_model::Bytes;

use super::tests::{Got, Host, data, origin, raw, reset, window};
use super::*;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::flow::UpdateAt;
use crate::h2::frame::{Dependency, FrameType, flags};
use crate::h2::settings::id;

fn host() -> Host {
    Host::new(ServerConfig::default())
}

fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    write::settings(&mut out, entries.iter().copied());
    out
}

fn priority(stream: u32, on: u32) -> Vec<u8> {
    let dependency = Dependency {
        on: StreamId::new(on),
        exclusive: false,
        weight: 15,
    };
    raw(FrameType::PRIORITY, 0, stream, &dependency.bytes())
}

#[test]
fn idle_streams_accept_only_priorities() {
    for frame in [
        data(1, b"x", false),
        reset(1, ErrorCode::CANCEL),
        window(1, 1),
        data(2, b"x", false),
        window(2, 1),
        reset(2, ErrorCode::CANCEL),
    ] {
        host().send(&frame).assert_refused(Fault::IdleStream);
    }
    let mut host = host();
    host.send(priority(5, 3));
    host.send(raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1"));
    assert_eq!(host.take(), []);
    host.send(raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x02u=1"));
    host.assert_refused(Fault::IdleStream);
}

#[test]
fn a_half_closed_stream_takes_no_more_of_a_message() {
    for is_data in [true, false] {
        let mut host = host();
        let request = host.get(1, "/long");
        host.send(&request).take();
        host.send(priority(1, 3)).send(window(1, 5));
        assert_eq!(host.take(), []);
        let more = match is_data {
            true => data(1, b"x", true),
            false => host.headers(1, &[("a", "b")], true),
        };
        host.send(&more).assert_reset(1, ErrorCode::STREAM_CLOSED);
        // Frames that the client sent before it received the reset are allowed.
        let more = host.headers(1, &[("c", "d")], true);
        host.send(data(1, b"x", true)).send(&more);
        host.send(window(1, 5)).send(reset(1, ErrorCode::CANCEL));
        assert_eq!(host.take(), []);
        let request = host.get_with(3, "/empty", &[("c", "d")]);
        host.send(&request);
        assert_eq!(
            host.statuses(),
            [(3, "200".to_owned())],
            "the HPACK tables are synchronised"
        );
    }
}

#[test]
fn an_ended_stream_takes_no_more_of_a_message() {
    for is_data in [true, false] {
        let mut host = host();
        let request = host.get(1, "/a");
        host.send(&request).take();
        host.send(window(1, 5)).send(reset(1, ErrorCode::CANCEL));
        host.send(priority(1, 3));
        assert_eq!(host.take(), []);
        let more = match is_data {
            true => data(1, b"x", true),
            false => host.headers(1, &[("a", "b")], true),
        };
        host.send(&more).assert_refused(Fault::ClosedStream);
    }
}

#[test]
fn a_stream_that_the_client_reset_takes_no_more_of_a_message() {
    for is_data in [true, false] {
        let mut host = host();
        let request = host.post(1, &[]);
        host.send(&request).send(reset(1, ErrorCode::CANCEL));
        host.send(window(1, 5)).send(reset(1, ErrorCode::CANCEL));
        let more = match is_data {
            true => data(1, b"x", true),
            false => host.headers(1, &[("a", "b")], true),
        };
        host.send(&more).assert_reset(1, ErrorCode::STREAM_CLOSED);
    }
}

#[test]
fn streams_are_numbered_upwards_and_odd() {
    let mut even = host();
    let request = even.get(2, "/a");
    even.send(&request).assert_refused(Fault::BadStreamNumber);
    let mut lower = host();
    let requests = [lower.get(5, "/a"), lower.get(3, "/a")].concat();
    lower.send(&requests).assert_refused(Fault::BadStreamNumber);
}

#[test]
fn no_more_streams_are_open_than_allowed() {
    let mut config = ServerConfig::default();
    config.limits.streams = 2;
    let mut host = Host::new(config);
    let requests = [host.post(1, &[]), host.post(3, &[]), host.post(5, &[])].concat();
    host.send(&requests)
        .assert_reset(5, ErrorCode::REFUSED_STREAM);
    host.send(data(1, b"", true)).take();
    let request = host.get(7, "/a");
    host.send(&request);
    assert_eq!(host.statuses(), [(7, "200".to_owned())]);
}

#[test]
fn the_preface_comes_first_and_settings_next() {
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.send("GET / HTTP/1.1\r\n")
        .assert_refused(Fault::BadPreface);
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.send(PREFACE).send(raw(FrameType::PING, 0, 0, &[0; 8]));
    host.assert_refused(Fault::NoSettings);
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.send(PREFACE)
        .send(raw(FrameType::SETTINGS, flags::ACK, 0, &[]));
    host.assert_refused(Fault::NoSettings);
}

#[test]
fn settings_and_pings_are_answered_and_judged() {
    let mut host = host();
    host.send(settings(&[(id::MAX_CONCURRENT_STREAMS, 3), (0xeeee, 9)]));
    host.send(raw(FrameType::PING, 0, 0, b"12345678"));
    host.send(raw(FrameType::PING, flags::ACK, 0, b"12345678"));
    assert_eq!(
        host.take(),
        [Got::Acknowledged, Got::Ping(true, *b"12345678")]
    );
    host.send(raw(FrameType::SETTINGS, flags::ACK, 0, &[]));
    host.assert_refused(Fault::UnexpectedAcknowledgement);
    for (entry, fault) in [
        ((id::ENABLE_PUSH, 2), Fault::BadSetting),
        ((id::INITIAL_WINDOW_SIZE, 1 << 31), Fault::BadInitialWindow),
        ((id::MAX_FRAME_SIZE, 1), Fault::BadSetting),
    ] {
        self::host().send(settings(&[entry])).assert_refused(fault);
    }
}

#[test]
fn clients_do_not_push() {
    let mut host = host();
    let request = host.get(1, "/long");
    host.send(&request);
    let promise = raw(
        FrameType::PUSH_PROMISE,
        flags::END_HEADERS,
        1,
        &[0, 0, 0, 2],
    );
    host.send(&promise).assert_refused(Fault::UnexpectedPush);
}

#[test]
fn malformed_requests_end_only_their_stream() {
    let mut host = host();
    let request = host.headers(1, &[(":method", "GET"), (":path", "/")], true);
    host.send(&request)
        .assert_reset(1, ErrorCode::PROTOCOL_ERROR);
    let request = host.get_with(3, "/a", &[("", "x")]);
    host.send(&request)
        .assert_reset(3, ErrorCode::PROTOCOL_ERROR);
    let request = host.get_with(5, "/a", &[("connection", "close")]);
    host.send(&request)
        .assert_reset(5, ErrorCode::PROTOCOL_ERROR);
    let request = host.get(7, "/a");
    host.send(&request);
    assert_eq!(host.statuses(), [(7, "200".to_owned())]);
    let garbage = raw(FrameType::HEADERS, flags::END_HEADERS, 9, &[0xff; 20]);
    host.send(&garbage).assert_refused(Fault::Compression);
}

#[test]
fn streams_do_not_depend_on_themselves() {
    host()
        .send(priority(1, 1))
        .assert_refused(Fault::SelfDependency);
    let mut open = host();
    let request = open.get(1, "/long");
    open.send(&request).take();
    open.send(priority(1, 1))
        .assert_reset(1, ErrorCode::PROTOCOL_ERROR);
    let mut host = host();
    let mut request = host.get(3, "/a");
    request[4] |= flags::PRIORITY;
    request[2] += 5;
    request.splice(9..9, [0, 0, 0, 3, 7]);
    host.send(&request)
        .assert_reset(3, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn trailers_end_a_request_and_have_no_pseudo_fields() {
    for (fields, end, code) in [
        (("grpc", "1"), true, None),
        (("grpc", "1"), false, Some(ErrorCode::PROTOCOL_ERROR)),
        ((":path", "/"), true, Some(ErrorCode::PROTOCOL_ERROR)),
        (("Upper", "1"), true, Some(ErrorCode::PROTOCOL_ERROR)),
    ] {
        let mut host = host();
        let request = host.post(1, &[]);
        let trailers = host.headers(1, &[fields], end);
        host.send([request, data(1, b"content", false), trailers].concat());
        match code {
            None => {
                assert_eq!(host.statuses(), [(1, "204".to_owned())]);
                assert_eq!(host.served[0].exchange.request_body, Bytes(7));
            }
            Some(code) => host.assert_reset(1, code),
        }
    }
}

#[test]
fn content_must_have_its_announced_length() {
    for (announced, sent, fits) in [
        ("7", "content", true),
        ("6", "content", false),
        ("8", "content", false),
        ("0", "", true),
    ] {
        let mut host = host();
        let request = host.post(1, &[("content-length", announced)]);
        host.send([request, data(1, sent.as_bytes(), true)].concat());
        match fits {
            true => assert_eq!(host.statuses(), [(1, "204".to_owned())]),
            false => host.assert_reset(1, ErrorCode::PROTOCOL_ERROR),
        }
    }
    let mut host = host();
    let request = host.get_with(1, "/a", &[("content-length", "3")]);
    host.send(&request)
        .assert_reset(1, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn discarded_content_returns_its_window() {
    let config = ServerConfig {
        receive: ReceiveWindows {
            stream: 100,
            connection: 65_535,
            update: UpdateAt::Percent(50),
        },
        ..ServerConfig::default()
    };
    let mut host = Host::new(config);
    let request = host.post(1, &[]);
    host.send([request, data(1, &[0; 49], false)].concat());
    assert_eq!(host.take(), []);
    host.send(data(1, &[0; 1], false));
    assert_eq!(host.take(), [Got::Window(1, 50)]);
    let padded = [&[20][..], &[7; 10], &[0; 20]].concat();
    host.send(raw(FrameType::DATA, flags::PADDED, 1, &padded));
    host.send(data(1, &[0; 19], false));
    assert_eq!(
        host.take(),
        [Got::Window(1, 50)],
        "padding counts against the window"
    );
    host.send(data(1, &[0; 101], false));
    host.assert_reset(1, ErrorCode::FLOW_CONTROL_ERROR);
    // Content that arrives after the reset counts against the connection's window, and is returned to the window.
    for _ in 0..4 {
        host.send(data(1, &[0; 16_000], false));
    }
    assert_eq!(host.take(), [Got::Window(0, 100 + 101 + 3 * 16_000)]);
    host.send(data(1, &[0; 16_384], false).repeat(2));
    assert!(matches!(host.take()[..], [Got::Window(0, _)]));
    // If the content is not returned to the window, the connection's window runs out.
    let mut config = ServerConfig::default();
    config.receive.update = UpdateAt::Never;
    config.receive.connection = 0;
    let mut host = Host::new(config);
    let request = host.post(1, &[]);
    host.send(&request)
        .send(data(1, &[0; 16_000], false).repeat(4));
    assert_eq!(host.take(), []);
    host.send(data(1, &[0; 1536], false))
        .assert_refused(Fault::WindowExceeded);
}

#[test]
fn a_smaller_window_applies_once_acknowledged() {
    let mut config = ServerConfig::default();
    config.receive.stream = 10;
    let mut host = Host::fresh(config, origin());
    let mut out = PREFACE.to_vec();
    out.extend(settings(&[]));
    let request = host.post(1, &[]);
    host.send([out, request, data(1, &[0; 20], false)].concat());
    assert!(!host.got.iter().any(|got| matches!(got, Got::Reset(..))));
    host.send(raw(FrameType::SETTINGS, flags::ACK, 0, &[]))
        .take();
    let request = host.post(3, &[]);
    host.send([request, data(3, &[0; 20], false)].concat());
    host.assert_reset(3, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn windows_do_not_overflow_and_follow_settings() {
    let greatest = (1 << 31) - 1;
    host()
        .send(window(0, greatest))
        .assert_refused(Fault::WindowOverflow);
    let mut host = host();
    let request = host.get(1, "/long");
    host.send(settings(&[(id::INITIAL_WINDOW_SIZE, 10)])).take();
    host.send(&request);
    assert_eq!(host.content(1).len(), 10);
    host.send(settings(&[(id::INITIAL_WINDOW_SIZE, 3)]))
        .send(window(1, 8));
    assert_eq!(
        host.content(1).len(),
        11,
        "the increment of 8 raises the window from -7 to 1"
    );
    host.send(settings(&[(id::INITIAL_WINDOW_SIZE, 5)]));
    assert_eq!(host.content(1).len(), 13);
    host.take();
    host.send([window(1, greatest), window(1, 100)].concat())
        .assert_reset(1, ErrorCode::FLOW_CONTROL_ERROR);
    let request = host.get(3, "/long");
    host.send(&request).send(window(3, greatest - 5)).take();
    host.send(settings(&[(id::INITIAL_WINDOW_SIZE, 80_000)]));
    host.assert_refused(Fault::WindowOverflow);
}

#[test]
fn expect_continue_gets_100_before_the_content() {
    let mut host = host();
    let request = host.post(1, &[("expect", "100-continue")]);
    host.send(&request);
    assert_eq!(
        host.take(),
        [Got::Head(1, vec![(":status".into(), "100".into())], false)]
    );
    host.send(data(1, b"content", true));
    assert_eq!(host.statuses(), [(1, "204".to_owned())]);
    let fields = [
        (":method", "PUT"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/a"),
        ("expect", "100-continue"),
    ];
    host.take();
    let request = host.headers(3, &fields, false);
    host.send(&request);
    assert_eq!(host.statuses(), [(3, "405".to_owned())]);
    assert_eq!(host.got.last(), Some(&Got::Reset(3, ErrorCode::NO_ERROR)));
    host.take();
    host.send(data(3, b"all the same", true));
    assert_eq!(host.take(), []);
}

#[test]
fn connect_is_refused_at_once() {
    let mut host = host();
    let connect = host.headers(1, &[(":method", "CONNECT"), (":authority", "a:1")], false);
    host.send(&connect);
    assert_eq!(host.statuses(), [(1, "405".to_owned())]);
    assert_eq!(host.got.last(), Some(&Got::Reset(1, ErrorCode::NO_ERROR)));
}

#[test]
fn oversized_content_is_answered_and_no_longer_read() {
    let mut config = ServerConfig::default();
    config.limits.body = Bytes(10);
    let mut host = Host::new(config);
    let request = host.post(1, &[]);
    host.send([request, data(1, &[0; 11], false)].concat());
    assert_eq!(host.statuses(), [(1, "413".to_owned())]);
    assert_eq!(host.got.last(), Some(&Got::Reset(1, ErrorCode::NO_ERROR)));
    host.take();
    let request = host.post(3, &[("content-length", "11")]);
    host.send(&request);
    assert_eq!(host.statuses(), [(3, "413".to_owned())]);
    host.take();
    let long = "a".repeat(16_000);
    let request = host.get_with(5, "/a", &[("x", &long), ("y", &long[..500])]);
    host.send(&request);
    assert_eq!(host.statuses(), [(5, "431".to_owned())]);
    assert!(host.connection.is_idle());
    assert_eq!(host.served.len(), 3);
}

#[test]
fn head_that_is_refused_has_no_content() {
    let long = format!("/{}", "a".repeat(40));
    let limits = Limits {
        target: Bytes(20),
        fields: 6,
        body: Bytes(4),
        head: Bytes(1000),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let big = "b".repeat(1000);
    let too_large = [("a", &*big)];
    type Fields<'a> = &'a [(&'a str, &'a str)];
    let table: [(&str, Fields<'_>, &str); 6] = [
        ("/a#b", &[], "400"),
        (&long, &[], "414"),
        ("/a", &[("content-length", "5")], "413"),
        ("/a", &[("expect", "wonders")], "417"),
        ("/a", &[("a", "b"), ("c", "d"), ("e", "f")], "431"),
        ("/a", &too_large, "431"),
    ];
    for (path, more, status) in table {
        for method in ["HEAD", "GET"] {
            let mut host = Host::new(config.clone());
            let mut fields = vec![
                (":method", method),
                (":scheme", "http"),
                (":authority", "example.org"),
                (":path", path),
            ];
            fields.extend(more);
            let request = host.headers(1, &fields, status != "413");
            host.send(request);
            assert_eq!(host.statuses(), [(1, status.to_owned())], "{more:?}");
            let is_empty = host.content(1).is_empty();
            assert_eq!(is_empty, method == "HEAD", "{method} {status}");
        }
    }
    // If the fields are cut off before the method, the method may be HEAD.
    let mut host = Host::new(config);
    let request = host.headers(1, &[("a", &*big), (":method", "HEAD")], true);
    host.send(request);
    assert_eq!(host.statuses(), [(1, "431".to_owned())]);
    assert!(host.content(1).is_empty());
}

#[test]
fn a_smaller_window_is_given_back_to_streams_that_were_open_before() {
    let mut config = ServerConfig::default();
    config.receive.stream = 100;
    let mut host = Host::fresh(config, origin());
    let mut out = PREFACE.to_vec();
    out.extend(settings(&[]));
    let request = host.post(1, &[]);
    host.send([out, request].concat());
    host.send(raw(FrameType::SETTINGS, flags::ACK, 0, &[]))
        .take();
    host.send(data(1, &[0; 100], false));
    assert_eq!(host.take(), [Got::Window(1, 100)]);
}
