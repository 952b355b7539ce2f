//! Tests of invalid client input, of input that arrives byte by byte, and of time limits.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, Instant};
use proptest::prelude::*;

use super::*;
use crate::h3::{Action, ErrorCode, Fault};
use crate::hexadecimal::bytes;
use crate::origin::Method;
use crate::qpack;

const NOW: Instant = Instant::ZERO;
/// A HEADERS frame with `GET https://h/`.
const GET: &str = "01 08 0000 d1 d7 c1 500168";

fn connection() -> Connection {
    with(ServerConfig::default())
}

fn with(config: ServerConfig) -> Connection {
    let mut connection = Connection::new(fuzz::origin(), Arc::new(config), NOW);
    for stream in [3, 7, 11] {
        connection.handle_opened(stream, NOW);
    }
    connection
}

fn feed(connection: &mut Connection, stream: u64, hexadecimal: &str) {
    connection.handle_data(stream, &bytes(hexadecimal), NOW);
}

/// Takes all offered bytes. Returns the bytes sent on `stream`, and whether the stream ended.
fn sent(connection: &mut Connection, stream: u64) -> (Vec<u8>, bool) {
    let mut all = (Vec::new(), false);
    loop {
        let mut slices = [IoSlice::new(&[]); 8];
        let Some(offer) = connection.transmit(&mut slices, usize::MAX) else {
            return all;
        };
        if offer.stream == stream {
            for slice in &slices[..offer.slices] {
                all.0.extend_from_slice(slice);
            }
            all.1 = offer.end;
        }
        let (stream, taken) = (offer.stream, offer.bytes);
        connection.transmitted(stream, taken, NOW);
    }
}

/// The static table index of the response's `:status` field.
fn status(connection: &mut Connection, stream: u64) -> Option<u8> {
    let (bytes, end) = sent(connection, stream);
    assert!(end, "the response ends");
    // The HEADERS frame starts with type, length (one or two bytes) and prefix; then `:status` follows.
    let start = if bytes[1] & 0xc0 == 0 { 4 } else { 5 };
    (bytes[start] & 0xc0 == 0xc0).then(|| bytes[start] & 0x3f)
}

#[test]
fn a_request_is_answered() {
    let mut connection = connection();
    feed(&mut connection, 2, "00 0400");
    feed(&mut connection, 0, GET);
    assert_eq!(connection.requests(), 0, "the request is not complete");
    connection.handle_fin(0, NOW);
    assert_eq!(connection.requests(), 1);
    let (bytes, end) = sent(&mut connection, 0);
    assert!(end && bytes.ends_with(b"\x00\x05hello"));
    // The first field is `:status: 200` of the static table.
    assert_eq!(bytes[0], 1);
    assert!(bytes.windows(3).any(|three| three == [0, 0, 0xd9]));
    assert!(connection.is_idle());
    assert_eq!(connection.poll_action(), None);
}

#[test]
fn faults_end_the_connection_with_their_codes() {
    for (stream, input, fault) in [
        (2, "00 0000", Fault::MissingSettings),
        (2, "00 0400 0400", Fault::UnexpectedFrame),
        (2, "00 0400 0000", Fault::UnexpectedFrame),
        (2, "00 0400 0100", Fault::UnexpectedFrame),
        (2, "00 0400 0500", Fault::UnexpectedFrame),
        (2, "00 0400 0800", Fault::UnexpectedFrame),
        (2, "00 0400 0d0105 0d0104", Fault::BadIdentifier),
        (2, "00 0400 030100", Fault::BadIdentifier),
        (2, "00 0400 0d0105 030106", Fault::BadIdentifier),
        (2, "00 0400 0d00", Fault::MalformedFrame),
        (2, "00 0400 0d0200 00", Fault::MalformedFrame),
        (2, "00 0400 070104 070105", Fault::BadIdentifier),
        (2, "00 0400 800f0700 00", Fault::MalformedFrame),
        (2, "00 0400 800f0700 0102", Fault::BadIdentifier),
        (2, "00 0400 800f0701 0102", Fault::BadIdentifier),
        (2, "00 0400 800f0700 5001", Fault::Flood),
        (2, "00 0402 0500", Fault::BadSettings),
        (2, "01", Fault::ForbiddenStream),
        (0, "0000", Fault::UnexpectedFrame),
        (0, "0300", Fault::UnexpectedFrame),
        (0, "0400", Fault::UnexpectedFrame),
        (0, "0500", Fault::UnexpectedFrame),
        (0, "0700", Fault::UnexpectedFrame),
        (0, "0d00", Fault::UnexpectedFrame),
        (0, "0900", Fault::UnexpectedFrame),
        (
            0,
            "0101 00",
            Fault::Qpack(qpack::Error::Section(qpack::Fault::Truncated)),
        ),
        (
            2,
            "02 3fffff03",
            Fault::Qpack(qpack::Error::EncoderStream(qpack::Fault::TableTooLarge)),
        ),
        (
            2,
            "03 84",
            Fault::Qpack(qpack::Error::DecoderStream(qpack::Fault::UnknownSection)),
        ),
    ] {
        for cut in [1, 100] {
            let mut connection = connection();
            for piece in bytes(input).chunks(cut) {
                connection.handle_data(stream, piece, NOW);
            }
            let reason = Some(CloseReason::Fault(fault));
            assert_eq!(connection.close_reason(), reason, "{input}");
            let close = Action::Close { code: fault.code() };
            assert_eq!(connection.poll_action(), Some(close));
            assert!(connection.is_finished());
            assert!(connection.transmit(&mut [], 1).is_none());
        }
    }
    for (first, second) in [("00 0400", "00"), ("02", "02"), ("03", "03")] {
        let mut connection = connection();
        feed(&mut connection, 2, first);
        feed(&mut connection, 6, second);
        let reason = CloseReason::Fault(Fault::RepeatedStream);
        assert_eq!(connection.close_reason(), Some(reason));
    }
    let critical = Some(CloseReason::Fault(Fault::ClosedCriticalStream));
    let mut ended = connection();
    feed(&mut ended, 2, "00 0400");
    ended.handle_fin(2, NOW);
    assert_eq!(ended.close_reason(), critical);
    let mut refused = connection();
    refused.handle_stop_sending(3, 0, NOW);
    assert_eq!(refused.close_reason(), critical);
    let mut cut = connection();
    feed(&mut cut, 0, &format!("{GET} 0005 61"));
    cut.handle_fin(0, NOW);
    let reason = CloseReason::Fault(Fault::MalformedFrame);
    assert_eq!(cut.close_reason(), Some(reason));
}

#[test]
fn malformed_requests_are_reset() {
    // Requests without `:path`, with a name in capitals, with a wrong content length, and an empty stream.
    for (input, code) in [
        ("01 07 0000 d1 d7 500168", ErrorCode::MESSAGE_ERROR),
        (
            "01 0c 0000 d1 d7 c1 500168 2158 0179",
            ErrorCode::MESSAGE_ERROR,
        ),
        (
            "01 0b 0000 d1 d7 c1 500168 540135 0001 61",
            ErrorCode::MESSAGE_ERROR,
        ),
        (
            "01 0b 0000 d1 d7 c1 500168 540130 0001 61",
            ErrorCode::MESSAGE_ERROR,
        ),
        (
            "01 08 0000 d1 d7 c1 500168 01 03 0000d9",
            ErrorCode::MESSAGE_ERROR,
        ),
        ("", ErrorCode::REQUEST_INCOMPLETE),
        ("21 00", ErrorCode::REQUEST_INCOMPLETE),
    ] {
        let mut connection = connection();
        feed(&mut connection, 0, input);
        connection.handle_fin(0, NOW);
        let reset = Action::Reset { stream: 0, code };
        assert_eq!(connection.poll_action(), Some(reset), "{input}");
        assert!(connection.is_idle());
        // The next request is answered.
        feed(&mut connection, 4, GET);
        connection.handle_fin(4, NOW);
        assert_eq!(status(&mut connection, 4), Some(25));
    }
}

#[test]
fn oversized_requests_are_refused() {
    let limits = Limits {
        section: Bytes(300),
        fields: 6,
        target: Bytes(20),
        body: Bytes(4),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        events: true,
        ..ServerConfig::default()
    };
    let long = format!("01 20 0000 d1 d7 5117 2f{} 500168", "61".repeat(22));
    let many = format!("01 14 0000 d1 d7 c1 500168 {}", "2178 0179".repeat(3));
    for (input, status) in [
        ("01 412d 00", 431),
        (&*many, 431),
        (&*long, 414),
        ("01 0b 0000 d1 d7 c1 500168 540139", 413),
        ("01 08 0000 d1 d7 c1 500168 0005 6161616161", 413),
    ] {
        let mut connection = with(config.clone());
        feed(&mut connection, 0, input);
        let (_, end) = sent(&mut connection, 0);
        assert!(end, "{input}");
        let served = connection.poll_event().unwrap();
        assert_eq!(served.exchange.status, status, "{input}");
        let code = ErrorCode::NO_ERROR;
        let stop = Action::StopSending { stream: 0, code };
        assert_eq!(connection.poll_action(), Some(stop));
        // Further input on this stream is ignored.
        feed(&mut connection, 0, "0000 0000");
        connection.handle_reset(0, code.0, NOW);
        assert!(connection.is_idle() && connection.close_reason().is_none());
    }
}

#[test]
fn head_that_is_refused_has_no_content() {
    let limits = Limits {
        section: Bytes(300),
        fields: 6,
        target: Bytes(20),
        body: Bytes(4),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        events: true,
        request_text: true,
        ..ServerConfig::default()
    };
    let long = format!("01 20 0000 METHOD d7 5117 2f{} 500168", "61".repeat(22));
    let many = format!("01 14 0000 METHOD d7 c1 500168 {}", "2178 0179".repeat(3));
    // 32 bytes are added to the size of each field.
    let too_large = format!("01 30 0000 METHOD d7 c1 500168 {}", "2178 0179".repeat(10));
    for (input, status) in [
        ("01 0c 0000 METHOD d7 5103 2f2361 500168 0000", 400),
        (&*many, 431),
        (&*too_large, 431),
        (&*long, 414),
        ("01 0b 0000 METHOD d7 c1 500168 540139", 413),
        ("01 08 0000 METHOD d7 c1 500168 0005 6161616161", 413),
    ] {
        for (method, token) in [("d2", Method::Head), ("d1", Method::Get)] {
            let mut connection = with(config.clone());
            feed(&mut connection, 0, &input.replace("METHOD", method));
            let (bytes, end) = sent(&mut connection, 0);
            assert!(end, "{input}");
            let has_content = bytes.ends_with(b"\n");
            assert_eq!(has_content, token == Method::Get, "{input}");
            let (served, text) = connection.poll_event_with_text().unwrap();
            let exchange = served.exchange;
            assert_eq!((exchange.method, exchange.status), (token, status));
            assert_eq!(exchange.body.0 > 0, has_content);
            let line = String::from_utf8_lossy(text.line).into_owned();
            assert!(line.starts_with(token.token().unwrap()), "{line}");
        }
    }
    // If the method was not read, it may have been HEAD.
    let mut connection = with(config);
    feed(&mut connection, 0, "01 412d 00");
    let (bytes, end) = sent(&mut connection, 0);
    assert!(end && !bytes.ends_with(b"\n"));
    let (served, _) = connection.poll_event_with_text().unwrap();
    assert_eq!(
        (served.exchange.status, served.exchange.body),
        (431, Bytes(0))
    );
}

#[test]
fn floods_end_the_connection() {
    let flood = Some(CloseReason::Fault(Fault::Flood));
    let mut frames = connection();
    frames.handle_data(0, &[0x21, 0].repeat(10_001), NOW);
    assert_eq!(frames.close_reason(), flood);
    let mut resets = connection();
    for number in 0..10_001 {
        feed(&mut resets, number * 4, GET);
        resets.handle_reset(number * 4, 0x10c, NOW);
        while resets.poll_action().is_some() {}
        sent(&mut resets, 0);
    }
    assert_eq!(resets.close_reason(), flood);
    let mut gaps = connection();
    feed(&mut gaps, 400_000, GET);
    assert_eq!(gaps.close_reason(), flood);
    let mut control = connection();
    feed(&mut control, 2, "00 0400");
    control.handle_data(2, &bytes("800f0700 0100").repeat(10_001), NOW);
    assert_eq!(control.close_reason(), flood);
    // If a client does not read acknowledgements, the connection closes before many of them accumulate.
    let mut deaf = connection();
    deaf.handle_blocked(11);
    feed(&mut deaf, 6, "02 3fe11f 4161 0162");
    for number in 0..40_000 {
        if deaf.close_reason().is_some() {
            break;
        }
        feed(&mut deaf, number * 4, "01 09 0200 d1 d7 c1 500168 80");
        deaf.handle_fin(number * 4, NOW);
        sent(&mut deaf, 0);
    }
    assert_eq!(deaf.close_reason(), flood);
}

#[test]
fn streams_may_come_in_any_order() {
    let mut connection = connection();
    for stream in [8, 0, 4] {
        feed(&mut connection, stream, GET);
        connection.handle_fin(stream, NOW);
        assert_eq!(status(&mut connection, stream), Some(25));
    }
    // Finished streams cannot be opened again.
    feed(&mut connection, 0, GET);
    connection.handle_fin(0, NOW);
    assert_eq!(connection.requests(), 3);
    assert!(connection.is_idle());
}

#[test]
fn a_priority_may_come_before_its_request() {
    let mut connection = connection();
    feed(&mut connection, 2, "00 0400 800f0700 07 04 753d302c2069");
    feed(&mut connection, 4, GET);
    let priority = crate::h3::Priority {
        urgency: 0,
        incremental: true,
    };
    assert_eq!(connection.priority(4), priority);
}

#[test]
fn time_limits_end_requests_and_connections() {
    let limits = Limits {
        idle: Duration::from_secs(30),
        request: Duration::from_secs(5),
        send: Duration::from_secs(10),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        events: true,
        ..ServerConfig::default()
    };
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let mut idle = with(config.clone());
    assert_eq!(idle.poll_timeout(), Some(at(30)));
    idle.handle_timeout(at(29));
    assert_eq!(idle.close_reason(), None);
    idle.handle_timeout(at(30));
    assert_eq!(idle.close_reason(), Some(CloseReason::IdleTimeout));

    let mut slow = with(config.clone());
    feed(&mut slow, 0, "01");
    assert_eq!(slow.poll_timeout(), Some(at(5)));
    slow.handle_timeout(at(5));
    assert!(sent(&mut slow, 0).1);
    assert_eq!(slow.poll_event().unwrap().exchange.status, 408);

    let mut deaf = with(config);
    feed(&mut deaf, 0, GET);
    deaf.handle_fin(0, NOW);
    deaf.handle_blocked(0);
    assert!(sent(&mut deaf, 0).0.is_empty());
    assert_eq!(deaf.poll_timeout(), Some(at(10)));
    deaf.handle_timeout(at(10));
    let code = ErrorCode::REQUEST_CANCELLED;
    assert_eq!(deaf.poll_action(), Some(Action::Reset { stream: 0, code }));
    assert!(deaf.is_idle());
}

#[test]
fn a_slow_server_works_on_one_request_after_the_other() {
    let at = |milliseconds| NOW + Duration::from_millis(milliseconds);
    let limits = Limits {
        request: Duration::from_millis(15),
        ..Limits::default()
    };
    let mut slow = with(ServerConfig {
        service_time: Duration::from_millis(10),
        connection_time: Duration::from_millis(5),
        limits,
        ..ServerConfig::default()
    });
    feed(&mut slow, 2, "00 0400");
    for stream in [0, 4] {
        feed(&mut slow, stream, GET);
        slow.handle_fin(stream, NOW);
    }
    assert_eq!(
        slow.poll_timeout(),
        Some(at(15)),
        "`connection_time` is added"
    );
    slow.handle_timeout(at(14));
    assert!(sent(&mut slow, 0).0.is_empty());
    slow.handle_timeout(at(15));
    assert!(sent(&mut slow, 0).0.ends_with(b"hello"));
    // The wait exceeds the client's time limit, but the server causes it, so no time-out occurs.
    assert_eq!(slow.poll_timeout(), Some(at(25)));
    slow.handle_timeout(at(25));
    assert!(sent(&mut slow, 4).0.ends_with(b"hello"));
    assert_eq!(slow.requests(), 2);
    assert!(slow.is_idle());
    // A cancelled request is not answered. It delays other requests only by its own processing time.
    feed(&mut slow, 8, GET);
    slow.handle_fin(8, at(30));
    slow.handle_stop_sending(8, 0x10c, at(31));
    assert!(slow.is_idle());
    feed(&mut slow, 12, GET);
    slow.handle_fin(12, at(32));
    assert_eq!(slow.poll_timeout(), Some(at(40)));
    slow.handle_timeout(at(50));
    assert!(sent(&mut slow, 12).0.ends_with(b"hello"));
}

#[test]
fn the_connection_time_is_added_once() {
    let mut slow = with(ServerConfig {
        service_time: Duration::from_millis(10),
        connection_time: Duration::from_millis(5),
        ..ServerConfig::default()
    });
    feed(&mut slow, 2, "00 0400");
    for stream in [0, 4] {
        feed(&mut slow, stream, GET);
        slow.handle_fin(stream, NOW);
        if stream == 0 {
            slow.handle_stop_sending(stream, 0x10c, NOW);
        }
    }
    slow.handle_timeout(NOW + Duration::from_millis(25));
    assert!(sent(&mut slow, 4).0.ends_with(b"hello"));
}

#[test]
fn a_client_that_reads_nothing_is_not_read() {
    let limits = Limits {
        backlog: Bytes(500),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let mut connection = with(config);
    for stream in (0..40).step_by(4) {
        feed(&mut connection, stream, GET);
        connection.handle_fin(stream, NOW);
    }
    assert!(!connection.wants_data(40));
    assert!(connection.wants_data(2), "the control stream is still read");
    sent(&mut connection, 0);
    assert!(connection.wants_data(40));
}

#[test]
fn records_have_the_text_of_requests() {
    let config = ServerConfig {
        events: true,
        request_text: true,
        ..ServerConfig::default()
    };
    let mut connection = with(config);
    // A GET request with `referer: r` and `user-agent: u`.
    feed(
        &mut connection,
        0,
        "01 0f 0000 d1 d7 c1 500168 5d0172 5f500175",
    );
    connection.handle_fin(0, NOW);
    sent(&mut connection, 0);
    let (served, text) = connection.poll_event_with_text().unwrap();
    assert_eq!(
        (text.line, text.referer, text.user_agent),
        (&b"GET / HTTP/3"[..], &b"r"[..], &b"u"[..])
    );
    assert_eq!(
        (served.exchange.status, served.exchange.body),
        (200, Bytes(5))
    );
    assert_eq!(served.exchange.request_head, Bytes(17));
    assert_eq!(served.reset, None);
    // An exchange that ends before its response is complete.
    feed(&mut connection, 4, GET);
    connection.handle_fin(4, NOW);
    let mut slices = [IoSlice::new(&[]); 4];
    let all = connection.transmit(&mut slices, usize::MAX).unwrap().bytes;
    connection.transmitted(4, all - 2, NOW);
    connection.handle_failure();
    let (served, _) = connection.cut_short(NOW).unwrap();
    assert_eq!(
        (served.exchange.body, served.body_frames),
        (Bytes(3), Bytes(5))
    );
    assert!(served.reset.is_some());
    assert!(connection.cut_short(NOW).is_none());
}

proptest! {
    #[test]
    fn any_input_passes_the_fuzz_entry(input in prop::collection::vec(any::<u8>(), 0..400)) {
        super::fuzz(&input);
    }

    /// Sends well-formed frames first, so that the arbitrary input is parsed in several states.
    #[test]
    fn any_input_after_a_valid_start_passes_the_fuzz_entry(
        setup in any::<u8>(),
        pieces in prop::collection::vec((0u8..=255, prop::sample::select(vec![
            GET, "01 09 0000 d1 d7 510261 62 500168", "0002 6869", "00 0400", "00 0404 0140 64 0705",
            "02 3f69 4161 0162", "01 09 0200 80 d1 d7 c1 500168", "800f0700 0204 75", "070104", "21 00",
            "00", "03", "01", "4161 0163", "0005 6162", "01 05 0000 2178 0179", "84", "44", "01",
        ])), 0..24),
    ) {
        let mut input = vec![setup];
        for (what, piece) in pieces {
            let piece = bytes(piece);
            input.extend([what, piece.len() as u8]);
            input.extend(piece);
        }
        super::fuzz(&input);
    }
}

#[test]
fn a_decided_request_with_slow_content_is_answered_without_it() {
    let at = |milliseconds| NOW + Duration::from_millis(milliseconds);
    let mut slow = connection();
    // `POST https://h/`, which the server refuses, and the header of a DATA frame of 60 000 bytes.
    feed(&mut slow, 0, "01 08 0000 d4 d7 c1 500168");
    feed(&mut slow, 0, "00 8000ea60");
    for step in 1..=4 {
        slow.handle_data(0, b"x", at(step * 250));
        assert_eq!(slow.requests(), 0);
    }
    let due = slow.poll_timeout().unwrap();
    assert!(due <= at(1_100), "{due:?}");
    slow.handle_timeout(due);
    let (bytes, end) = sent(&mut slow, 0);
    assert!(end && String::from_utf8_lossy(&bytes).contains("405"));
    let code = ErrorCode::NO_ERROR;
    assert_eq!(
        slow.poll_action(),
        Some(Action::StopSending { stream: 0, code })
    );
    assert!(slow.is_idle());
}

#[test]
fn a_response_waits_for_its_turn_as_long_as_others_are_taken() {
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let mut connection = connection();
    for stream in [3, 7, 11] {
        connection.handle_blocked(stream);
    }
    for stream in [0, 4] {
        feed(&mut connection, stream, GET);
        connection.handle_fin(stream, NOW);
    }
    // The client takes the first response byte by byte, for longer than the time limit of a stalled response.
    for step in 1..=3 {
        let mut slices = [IoSlice::new(&[]); 8];
        let offer = connection.transmit(&mut slices, 1).unwrap();
        let (stream, taken) = (offer.stream, offer.bytes);
        assert_eq!((stream, taken), (0, 1));
        connection.transmitted(stream, taken, at(50 * step));
        connection.handle_timeout(at(50 * step));
    }
    assert_eq!(connection.poll_action(), None, "no response is aborted");
    connection.handle_timeout(at(150 + 60));
    assert!(connection.is_idle(), "both responses are aborted");
}

#[test]
fn a_stream_whose_trailers_wait_for_the_table_is_not_read() {
    let mut connection = connection();
    feed(&mut connection, 2, "00 0400");
    feed(&mut connection, 0, GET);
    assert!(connection.wants_data(0));
    // Trailers that refer to entry 0 of the dynamic table, which has not arrived.
    feed(&mut connection, 0, "01 03 020080");
    assert!(!connection.wants_data(0));
    // The instructions that set the capacity to 4096 and insert the entry `abc: a`.
    feed(&mut connection, 6, "02 3fe11f 43616263 0161");
    assert!(connection.wants_data(0));
}
