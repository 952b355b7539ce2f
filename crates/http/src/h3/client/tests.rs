//! Tests of invalid server input, of input that arrives byte by byte, and of time limits.

use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};
use proptest::prelude::*;

use super::*;
use crate::h3::{Action, ErrorCode, Fault};
use crate::hexadecimal::bytes;
use crate::qpack;

const NOW: Instant = Instant::ZERO;

/// Creates a connection whose own streams are open and which has two requests in flight; the second is HEAD.
fn connection() -> Connection {
    let mut connection = Connection::new(Config::default(), NOW);
    for method in ["GET", "HEAD"] {
        let line = RequestLine {
            method,
            target: "/",
            host: "h",
            version: Version::Http11,
        };
        connection.request(line).unwrap().send().unwrap();
    }
    for stream in [2, 6, 10, 0, 4] {
        connection.handle_opened(stream, NOW);
    }
    loop {
        let mut slices = [std::io::IoSlice::new(&[])];
        let Some(offer) = connection.transmit(&mut slices, usize::MAX) else {
            return connection;
        };
        let (stream, taken) = (offer.stream, offer.bytes);
        connection.transmitted(stream, taken, NOW);
    }
}

/// Passes bytes of a stream to the connection; returns all events.
fn feed(connection: &mut Connection, stream: u64, hexadecimal: &str) -> Vec<String> {
    let bytes = bytes(hexadecimal);
    let mut input = &bytes[..];
    let mut events = Vec::new();
    while let Some(event) = connection.poll(stream, &mut input, NOW) {
        events.push(format!("{event:?}"));
    }
    events
}

fn drain(connection: &mut Connection) -> Vec<Event<'static>> {
    std::iter::from_fn(|| connection.poll_event(NOW)).collect()
}

/// A HEADERS frame with `:status: 200`.
const OK: &str = "01 03 0000d9";
/// A HEADERS frame with the trailer `x: y`.
const TRAILERS: &str = "01 06 0000 2178 0179";

#[test]
fn faults_end_the_connection_with_their_codes() {
    let settings = "00 0400";
    for (stream, input, fault) in [
        (3, "00 0000", Fault::MissingSettings),
        (3, "00 0700", Fault::MissingSettings),
        (3, "00 0400 0400", Fault::UnexpectedFrame),
        (3, "00 0400 0000", Fault::UnexpectedFrame),
        (3, "00 0400 0100", Fault::UnexpectedFrame),
        (3, "00 0400 0500", Fault::UnexpectedFrame),
        (3, "00 0400 0d0100", Fault::UnexpectedFrame),
        (3, "00 0400 0200", Fault::UnexpectedFrame),
        (3, "00 0400 0900", Fault::UnexpectedFrame),
        (3, "00 0400 800f0700 0100", Fault::UnexpectedFrame),
        (3, "00 0400 0700", Fault::MalformedFrame),
        (3, "00 0400 070200 00", Fault::MalformedFrame),
        (3, "00 0400 070101", Fault::BadIdentifier),
        (3, "00 0400 070104 070108", Fault::BadIdentifier),
        (3, "00 0400 030100", Fault::BadIdentifier),
        (3, "00 0400 07 5001", Fault::Flood),
        (3, "00 0402 0200", Fault::BadSettings),
        (3, "00 0404 0100 0101", Fault::BadSettings),
        (3, "00 0401 01", Fault::MalformedFrame),
        (3, "01 00", Fault::BadIdentifier),
        (1, "00", Fault::ForbiddenStream),
        (0, "0000", Fault::UnexpectedFrame),
        (0, "0300", Fault::UnexpectedFrame),
        (0, "0400", Fault::UnexpectedFrame),
        (0, "0700", Fault::UnexpectedFrame),
        (0, "0d00", Fault::UnexpectedFrame),
        (0, "0600", Fault::UnexpectedFrame),
        (0, "0500", Fault::BadIdentifier),
        (
            0,
            "01 03 0000d9 01 06 0000 2178 0179 0000",
            Fault::UnexpectedFrame,
        ),
        (
            0,
            "01 03 0000d9 01 06 0000 2178 0179 0100",
            Fault::UnexpectedFrame,
        ),
        (
            0,
            "0100",
            Fault::Qpack(qpack::Error::Section(qpack::Fault::Truncated)),
        ),
        (
            3,
            "02 3fffff03",
            Fault::Qpack(qpack::Error::EncoderStream(qpack::Fault::TableTooLarge)),
        ),
        (
            3,
            "03 00",
            Fault::Qpack(qpack::Error::DecoderStream(qpack::Fault::BadIncrement)),
        ),
    ] {
        for cut in [1, usize::MAX] {
            let mut connection = connection();
            for piece in bytes(input).chunks(cut.min(100)) {
                let mut piece = piece;
                while connection.poll(stream, &mut piece, NOW).is_some() {}
            }
            assert_eq!(connection.fault(), Some(fault), "{input}");
            let close = Action::Close { code: fault.code() };
            assert_eq!(connection.poll_action(), Some(close), "{input}");
            assert_eq!(connection.outstanding(), 0);
            assert!(matches!(
                connection.close_reason(),
                Some(CloseReason::Failed(_))
            ));
            assert!(fault.code().name().is_some());
        }
    }
    // Two streams of the same critical type.
    for (first, second) in [(settings, "00"), ("02", "02"), ("03", "03")] {
        let mut connection = connection();
        feed(&mut connection, 3, first);
        feed(&mut connection, 7, second);
        assert_eq!(connection.fault(), Some(Fault::RepeatedStream));
    }
}

#[test]
fn a_bidirectional_stream_of_the_server_ends_the_connection_however_it_ends() {
    let ended = |end: fn(&mut Connection)| {
        let mut connection = connection();
        end(&mut connection);
        connection.fault()
    };
    let fault = Some(Fault::ForbiddenStream);
    assert_eq!(ended(|connection| connection.handle_fin(1, NOW)), fault);
    assert_eq!(
        ended(|connection| connection.handle_reset(1, 0, NOW)),
        fault
    );
}

#[test]
fn critical_streams_do_not_end() {
    for kind in ["00 0400", "02", "03"] {
        let mut ended = connection();
        feed(&mut ended, 3, kind);
        ended.handle_fin(3, NOW);
        assert_eq!(ended.fault(), Some(Fault::ClosedCriticalStream));
        let mut reset = connection();
        feed(&mut reset, 3, kind);
        reset.handle_reset(3, 0x100, NOW);
        assert_eq!(reset.fault(), Some(Fault::ClosedCriticalStream));
    }
    for own in [2, 6, 10] {
        let mut refused = connection();
        refused.handle_stop_sending(own, 0x100, NOW);
        assert_eq!(refused.fault(), Some(Fault::ClosedCriticalStream));
    }
    // Streams of other types may end, before or after their type is complete.
    let mut connection = connection();
    connection.handle_fin(3, NOW);
    feed(&mut connection, 7, "40");
    connection.handle_reset(7, 0, NOW);
    feed(&mut connection, 11, "21 616263");
    let refused = Action::StopSending {
        stream: 11,
        code: ErrorCode::STREAM_CREATION_ERROR,
    };
    assert_eq!(connection.poll_action(), Some(refused));
    connection.handle_fin(11, NOW);
    assert_eq!(connection.fault(), None);
}

#[test]
fn unknown_streams_and_frames_are_ignored() {
    let mut connection = connection();
    let events = feed(
        &mut connection,
        3,
        "00 0405 21 07 405f 09 21 02 6162 405f 00",
    );
    assert_eq!(events, ["Settings"]);
    let input = format!("21 02 6162 {OK} 4040 00 0002 6869 21 00 {TRAILERS} 405f 01 00");
    let events = feed(&mut connection, 0, &input);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event.split(' ').next().unwrap())
        .collect();
    assert_eq!(kinds, ["Begin", "Head", "Content", "Trailers"]);
    assert_eq!(connection.trailers().get("x"), Some(&b"y"[..]));
    connection.handle_fin(0, NOW);
    let expected = Received {
        head: Bytes(5 + 8),
        fields: Bytes(10 + 2),
        body: Bytes(4),
        content: Bytes(2),
    };
    let end = Event::End {
        request: RequestId(0),
        received: expected,
        persists: true,
    };
    assert_eq!(drain(&mut connection), [end]);
}

#[test]
fn malformed_responses_end_only_their_stream() {
    // Heads: `:status: 200` with `content-length: 5`; the same with `content-length: 0`; `:status: 20`; a name in
    // capitals.
    let length = "01 06 0000d9 540135";
    for (stream, input, fin) in [
        (0, "01 03 0000c1".to_owned(), false),
        (0, "01 07 0000 5f0902 3230".to_owned(), false),
        (0, "01 07 0000d9 2158 0179".to_owned(), false),
        (0, "01 04 0000 d9d9".to_owned(), false),
        (0, format!("{length} 0006 616263646566"), false),
        (0, format!("{length} 0004 61626364"), true),
        (0, format!("{OK} 01 03 0000d9"), false),
        (4, format!("{OK} 0001 61"), false),
    ] {
        let mut connection = connection();
        feed(&mut connection, stream, &input);
        if fin {
            connection.handle_fin(stream, NOW);
        }
        assert_eq!(connection.fault(), None, "{input}");
        let code = ErrorCode::MESSAGE_ERROR;
        assert_eq!(
            connection.poll_action(),
            Some(Action::StopSending { stream, code }),
            "{input}"
        );
        assert_eq!(connection.outstanding(), 1);
        drain(&mut connection);
        // Further input on this stream is skipped.
        assert!(feed(&mut connection, stream, "0001 61").is_empty());
        connection.handle_fin(stream, NOW);
        assert!(connection.accepts_requests());
    }
    // A response to HEAD announces the content length that a response to GET would have.
    let mut connection = connection();
    feed(&mut connection, 4, length);
    connection.handle_fin(4, NOW);
    assert!(matches!(drain(&mut connection)[..], [Event::End { .. }]));
}

#[test]
fn a_stream_that_ends_early_is_a_failure() {
    let mut connection = connection();
    connection.handle_fin(0, NOW);
    let nothing = Event::Unanswered {
        request: RequestId(0),
        failure: Failure::ClosedEarly,
        sent: true,
        idempotent: true,
        persists: true,
    };
    assert_eq!(drain(&mut connection), [nothing]);
    feed(&mut connection, 4, "01 04 0000 ff00");
    connection.handle_fin(4, NOW);
    let events = drain(&mut connection);
    assert!(matches!(
        events[..],
        [Event::Failed {
            failure: Failure::Truncated,
            ..
        }]
    ));
    // A stream that ends within a frame is a protocol violation.
    let mut connection = self::connection();
    feed(&mut connection, 0, &format!("{OK} 0005 61"));
    connection.handle_fin(0, NOW);
    assert_eq!(connection.fault(), Some(Fault::MalformedFrame));
}

#[test]
fn resets_determine_whether_a_request_may_be_retried() {
    let mut connection = connection();
    connection.handle_reset(0, ErrorCode::REQUEST_REJECTED.0, NOW);
    connection.handle_reset(4, ErrorCode::INTERNAL_ERROR.0, NOW);
    let events = drain(&mut connection);
    let unanswered = |request, sent| Event::Unanswered {
        request: RequestId(request),
        failure: Failure::StreamReset,
        sent,
        idempotent: true,
        persists: true,
    };
    assert_eq!(events, [unanswered(0, false), unanswered(1, true)]);
}

#[test]
fn goaway_returns_unprocessed_requests() {
    let mut connection = connection();
    let events = feed(&mut connection, 3, "00 0400 070104");
    assert!(
        events[1].starts_with("GoAway { last: Some(RequestId(0))"),
        "{events:?}"
    );
    assert!(events[2].starts_with("Unanswered { request: RequestId(1)"));
    assert!(events[2].contains("sent: false"));
    assert!(!connection.can_request());
    feed(&mut connection, 0, OK);
    connection.handle_fin(0, NOW);
    let events = drain(&mut connection);
    assert!(matches!(
        events[0],
        Event::End {
            persists: false,
            ..
        }
    ));
    let reason = CloseReason::ServerAsked;
    assert_eq!(events[1..], [Event::Closed { reason }]);
    let close = Action::Close {
        code: ErrorCode::NO_ERROR,
    };
    assert_eq!(connection.poll_action(), Some(close));
    assert!(feed(&mut connection, 0, OK).is_empty());
}

#[test]
fn close_codes_of_the_server_give_close_reasons() {
    for (code, reason) in [
        (0x100, CloseReason::ServerEarly),
        (0x1f * 9 + 0x21, CloseReason::ServerEarly),
        (0x102, CloseReason::Failed(Failure::GoneAway)),
    ] {
        let mut connection = connection();
        connection.handle_peer_close(code, NOW);
        let events = drain(&mut connection);
        assert_eq!(events.len(), 3);
        assert_eq!(events[2], Event::Closed { reason });
        assert_eq!(connection.poll_action(), None);
    }
}

#[test]
fn responses_are_bounded() {
    let limits = Limits {
        head: Bytes(100),
        fields: 2,
        interim: 1,
        body: Bytes(4),
    };
    let small = || {
        let mut connection = connection();
        connection.config.limits = limits;
        connection
    };
    for input in [
        "01 4065 00".to_owned(),
        "01 0f 0000d9 2178 0179 2178 0179 2178 0179".to_owned(),
        format!("{OK} 01 0e 0000 2178 0179 2178 0179 2178 0179"),
        format!("{OK} 0005 6162636465"),
        "01 03 0000d8 01 03 0000d8".to_owned(),
    ] {
        let mut connection = small();
        let events = feed(&mut connection, 0, &input);
        let last = events.last().unwrap();
        assert!(last.contains("TooLarge"), "{input}: {events:?}");
        assert_eq!(connection.fault(), None);
    }
    // The limit applies to the number of fields in each section, without `:status`.
    let mut bounded = small();
    let fields = "2178 0179 2178 0179";
    let events = feed(
        &mut bounded,
        0,
        &format!("01 0b 0000d9 {fields} 01 0a 0000 {fields}"),
    );
    assert!(
        events[1].contains("Head") && events[2].contains("Trailers"),
        "{events:?}"
    );
    // Too many frames of unknown types.
    let mut connection = connection();
    let flood = [0x21, 0].repeat(10_001);
    let mut input = &flood[..];
    while connection.poll(0, &mut input, NOW).is_some() {}
    assert_eq!(connection.fault(), Some(Fault::Flood));
}

#[test]
fn time_limits_end_single_requests_and_silence_everything() {
    let mut connection = connection();
    let timeouts = Timeouts {
        head: Some(Duration::from_secs(5)),
        idle: Some(Duration::from_secs(60)),
        total: Some(Duration::from_secs(20)),
        expect_continue: Duration::from_secs(1),
    };
    connection.config.timeouts = timeouts;
    assert_eq!(
        connection.poll_timeout(),
        Some(NOW + Duration::from_secs(5))
    );
    feed(&mut connection, 4, OK);
    connection.handle_timeout(NOW + Duration::from_secs(4));
    assert!(drain(&mut connection).is_empty());
    connection.handle_timeout(NOW + Duration::from_secs(5));
    let events = drain(&mut connection);
    assert!(matches!(
        events[..],
        [Event::Unanswered {
            request: RequestId(0),
            failure: Failure::TimedOut,
            persists: true,
            ..
        }]
    ));
    assert_eq!(
        connection.poll_timeout(),
        Some(NOW + Duration::from_secs(20))
    );
    connection.handle_timeout(NOW + Duration::from_secs(60));
    let events = drain(&mut connection);
    let reason = CloseReason::Failed(Failure::TimedOut);
    assert_eq!(events[1], Event::Closed { reason });
    assert_eq!(connection.poll_timeout(), None);
}

#[test]
fn requests_are_checked_and_bounded() {
    let config = Config {
        streams: 1,
        ..Config::default()
    };
    let mut connection = Connection::new(config, NOW);
    let line = |method, target, host| RequestLine {
        method,
        target,
        host,
        version: Version::Http11,
    };
    for (bad, error) in [
        (line("CONNECT", "/", "h"), SendError::BadMethod),
        (line("G T", "/", "h"), SendError::BadMethod),
        (line("GET", "/ ", "h"), SendError::BadTarget),
        (line("GET", "", "h"), SendError::BadTarget),
        (line("GET", "/", ""), SendError::BadField),
        (line("GET", "/", "user@h"), SendError::BadField),
    ] {
        assert_eq!(connection.request(bad).unwrap().send(), Err(error));
    }
    for (name, value) in [
        ("Connection", "close"),
        ("te", "gzip"),
        ("expect", "x"),
        ("x", " y"),
        ("x", "a\nb"),
        (":path", "/"),
    ] {
        let mut request = connection.request(line("GET", "/", "h")).unwrap();
        request.field(name, value);
        assert_eq!(request.send(), Err(SendError::BadField), "{name}");
    }
    assert_eq!(connection.first_unsent(), RequestId(0));
    connection
        .request(line("GET", "/", "h"))
        .unwrap()
        .send()
        .unwrap();
    assert!(!connection.can_request() && connection.accepts_requests());
    let full = connection.request(line("GET", "/", "h")).map(|_| ());
    assert_eq!(full, Err(SendError::PipelineFull));
    connection.finish();
    let closed = connection.request(line("GET", "/", "h")).map(|_| ());
    assert_eq!(closed, Err(SendError::Closed));
    // The state machine can be used for another connection.
    connection.renew(NOW);
    assert!(connection.can_request());
    assert!(drain(&mut connection).is_empty());
    let queued = connection.request(line("GET", "/", "h")).unwrap().send();
    assert_eq!(queued.unwrap().request, RequestId(0));
}

proptest! {
    #[test]
    fn any_input_passes_the_fuzz_entry(input in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&input);
    }

    /// Sends well-formed frames first, so that the arbitrary input is parsed in several states.
    #[test]
    fn any_input_after_a_valid_start_passes_the_fuzz_entry(
        requests in any::<u8>(),
        end in any::<u8>(),
        pieces in prop::collection::vec((0u8..=255, prop::sample::select(vec![
            OK, TRAILERS, "0002 6869", "01 03 0000d8", "00 0400", "02 3f69 4161 0162", "01 03 0200 80",
            "070104", "21 00", "00", "03", "01", "4161 0163", "0005 6162",
        ])), 0..20),
    ) {
        let mut input = vec![requests, end];
        for (what, piece) in pieces {
            let piece = bytes(piece);
            input.extend([what, piece.len() as u8]);
            input.extend(piece);
        }
        fuzz(&input);
    }
}
