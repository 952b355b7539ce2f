//! Requests and their responses.

use fathometer_model::Bytes;

use super::*;
use crate::exchange::Queued;
use crate::h2::flow::MAX_WINDOW;
use crate::h2::frame::FrameType;
use crate::h2::settings::{Settings, id};

#[test]
fn preface_settings_and_first_requests_are_sent_together() {
    let mut bench = Bench::silent(Config {
        settings: Settings {
            initial_window_size: MAX_WINDOW,
            header_table_size: 0,
            max_frame_size: 1 << 20,
            no_rfc7540_priorities: true,
            ..Settings::default()
        },
        connection_window: MAX_WINDOW,
        ..Config::default()
    });
    bench.ask("GET", "/a");
    bench.ask("GET", "/b");
    let written = bench.written();
    let told = [
        (id::HEADER_TABLE_SIZE, 0),
        (id::ENABLE_PUSH, 0),
        (id::INITIAL_WINDOW_SIZE, MAX_WINDOW),
        (id::MAX_FRAME_SIZE, 1 << 20),
        (id::NO_RFC7540_PRIORITIES, 1),
    ];
    assert_eq!(written[0], format!("settings {told:?}"));
    assert_eq!(written[1], format!("window 0 {}", MAX_WINDOW - 65_535));
    let head = ":method=GET :scheme=https :authority=example.org :path=";
    assert_eq!(written[2], format!("headers 1 {head}/a end"));
    assert_eq!(written[3], format!("headers 3 {head}/b end"));
    assert_eq!(bench.client.first_unsent(), RequestId(2));
}

#[test]
fn requests_may_wait_for_the_servers_settings() {
    let mut bench = Bench::silent(Config {
        start: Start::AwaitSettings,
        ..Config::default()
    });
    assert!(bench.client.accepts_requests() && !bench.client.can_request());
    let refused = bench.client.request(line("GET", "/")).map(drop);
    assert_eq!(refused.unwrap_err(), SendError::PipelineFull);
    bench.settings(&[(id::MAX_CONCURRENT_STREAMS, 1)]);
    assert_eq!(bench.deliver(), ["settings"]);
    bench.ask("GET", "/");
    assert!(
        !bench.client.can_request(),
        "the server allows one concurrent request"
    );
}

#[test]
fn responses_may_be_in_any_order_and_interleaved() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.get("/b");
    bench.headers(3, &[(":status", "200"), ("content-length", "4")], false);
    bench.headers(1, &[(":status", "404")], false);
    bench.data(3, b"on", false);
    bench.data(1, b"no", true);
    bench.data(3, b"ly", true);
    let log = bench.deliver();
    let expected = [
        "begin 1",
        "head 1 200",
        "begin 0",
        "head 0 404",
        "content 1 on",
        "content 0 no",
        "end 0",
        "content 1 ly",
        "end 1",
    ];
    assert_eq!(log, expected);
    assert_eq!(bench.client.outstanding(), 0);
    assert!(bench.client.can_request());
}

#[test]
fn a_stream_that_ends_makes_room_for_the_next() {
    let mut bench = Bench::new(Config {
        streams: 2,
        ..Config::default()
    });
    bench.get("/a");
    bench.get("/b");
    assert!(!bench.client.can_request());
    bench.headers(1, &[(":status", "204")], true);
    assert_eq!(bench.deliver(), ["begin 0", "head 0 204", "end 0"]);
    assert!(bench.client.can_request());
    assert_eq!(bench.get("/c"), RequestId(2));
}

#[test]
fn interim_responses_trailers_and_responses_without_content() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.headers(1, &[(":status", "103"), ("link", "</style>")], false);
    bench.headers(1, &[(":status", "200"), ("content-length", "3")], false);
    bench.data(1, b"abc", false);
    bench.headers(1, &[("checksum", "1"), ("more", "2")], true);
    let log = bench.deliver();
    let expected = [
        "begin 0",
        "interim 0 103",
        "head 0 200",
        "content 0 abc",
        "trailers 0 2",
        "end 0",
    ];
    assert_eq!(log, expected);
    bench.ask("HEAD", "/a");
    bench.written();
    bench.get("/b");
    bench.headers(3, &[(":status", "200"), ("content-length", "3")], true);
    bench.headers(5, &[(":status", "304"), ("content-length", "3")], true);
    let log = bench.deliver();
    assert_eq!(
        log,
        [
            "begin 1",
            "head 1 200",
            "end 1",
            "begin 2",
            "head 2 304",
            "end 2"
        ]
    );
}

#[test]
fn fields_of_an_interim_response_can_be_read() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.headers(1, &[(":status", "103"), ("link", "</style>")], false);
    bench.deliver();
    assert_eq!(bench.client.head().field("Link"), Some(&b"</style>"[..]));
    assert_eq!(bench.client.head().fields().count(), 1);
}

#[test]
fn bytes_are_counted_as_they_are_on_the_wire() {
    let mut bench = Bench::new(Config::default());
    let mut request = bench.client.request(line("GET", "/a")).unwrap();
    request.field("Accept", "*/*").field_display("x-number", 7);
    let Queued { head, fields, .. } = request.send().unwrap();
    bench.client.flush();
    assert_eq!(head, Bytes(bench.client.transmit().len() as u64));
    let names = ":method:scheme:authority:pathacceptx-number";
    let values = "GEThttpsexample.org/a*/*7";
    assert_eq!(fields, Bytes((names.len() + values.len()) as u64));
    bench.written();
    let start = bench.wire.len();
    bench.headers(1, &[(":status", "100")], false);
    bench.headers(1, &[(":status", "200"), ("x", "y")], false);
    let head = bench.wire.len() - start;
    bench.data(1, b"abc", false);
    // Five bytes of content and four bytes of padding; the padding length precedes them.
    let header = frame::Header {
        length: 10,
        kind: FrameType::DATA,
        flags: frame::flags::PADDED,
        stream: StreamId::new(1),
    };
    bench.wire.extend_from_slice(&header.bytes());
    bench.wire.extend_from_slice(b"\x04defgh\0\0\0\0");
    let body = bench.wire.len() - start - head;
    bench.headers(1, &[("t", "u")], true);
    let all = bench.wire.len();
    let wire = std::mem::take(&mut bench.wire);
    let mut input = &wire[..];
    let mut content = Vec::new();
    let mut end = None;
    while let Some(event) = bench.client.poll(&mut input, bench.now) {
        match event {
            Event::Content { bytes, .. } => content.extend_from_slice(bytes),
            Event::End { received, .. } => end = Some(received),
            _ => {}
        }
    }
    assert_eq!(content, b"abcdefgh");
    let expected = Received {
        head: Bytes((all - body) as u64),
        fields: Bytes(10 + 10 + 2 + 2),
        body: Bytes(body as u64),
        content: Bytes(8),
    };
    assert_eq!(end, Some(expected));
    let received = bench.client.received();
    assert_eq!(received.frames(FrameType::HEADERS), 3);
    assert_eq!(received.frames(FrameType::DATA), 2);
    assert_eq!(received.bytes(FrameType::DATA), Bytes(body as u64));
    assert_eq!(received.frames(FrameType::SETTINGS), 2);
    let sent = bench.client.sent();
    assert_eq!(
        (
            sent.frames(FrameType::HEADERS),
            sent.frames(FrameType::SETTINGS)
        ),
        (1, 2)
    );
}

#[test]
fn a_repeated_request_takes_few_bytes() {
    for index_targets in [false, true] {
        let mut bench = Bench::new(Config {
            index_targets,
            ..Config::default()
        });
        let fields = [("User-Agent".to_owned(), "fathometer/1".to_owned())];
        let prepared = PreparedRequest::new("GET", "example.org", &fields, None).unwrap();
        let first = bench
            .client
            .request_prepared(&prepared, "/index.htm")
            .unwrap();
        let again = bench
            .client
            .request_prepared(&prepared, "/index.htm")
            .unwrap();
        assert_eq!(first.fields, again.fields);
        let compressed = again.head.0 - 9;
        assert!(
            compressed <= if index_targets { 5 } else { 14 },
            "{compressed}"
        );
        bench.client.flush();
        let written = bench.written();
        let head = ":method=GET :scheme=https :authority=example.org :path=/index.htm";
        for (place, stream) in [(0, 1), (1, 3)] {
            let expected = format!("headers {stream} {head} user-agent=fathometer/1 end");
            assert_eq!(written[place], expected);
        }
        let mut plain = bench.client.request(line("GET", "/index.htm")).unwrap();
        plain.field("User-Agent", "fathometer/1");
        assert_eq!(
            plain.send().unwrap().fields,
            first.fields,
            "both requests have the same field size"
        );
    }
}

#[test]
fn invalid_requests_are_refused_and_write_nothing() {
    let mut bench = Bench::new(Config::default());
    for (method, target, host, name, value, error) in [
        ("G T", "/", "h", "x", "y", SendError::BadMethod),
        ("CONNECT", "/", "h", "x", "y", SendError::BadMethod),
        ("GET", "", "h", "x", "y", SendError::BadTarget),
        ("GET", "/ ", "h", "x", "y", SendError::BadTarget),
        ("GET", "/", "", "x", "y", SendError::BadField),
        ("GET", "/", "a@h", "x", "y", SendError::BadField),
        ("GET", "/", "h", "x y", "y", SendError::BadField),
        ("GET", "/", "h", ":path", "/", SendError::BadField),
        ("GET", "/", "h", "x", "a\r\nb", SendError::BadField),
        ("GET", "/", "h", "x", " a", SendError::BadField),
        ("GET", "/", "h", "Connection", "close", SendError::BadField),
        (
            "GET",
            "/",
            "h",
            "Transfer-Encoding",
            "chunked",
            SendError::BadField,
        ),
        ("GET", "/", "h", "Keep-Alive", "5", SendError::BadField),
        ("GET", "/", "h", "TE", "gzip", SendError::BadField),
        ("GET", "/", "h", "Content-Length", "5", SendError::BadField),
    ] {
        let version = Version::Http11;
        let line = RequestLine {
            method,
            target,
            host,
            version,
        };
        let mut request = bench.client.request(line).unwrap();
        request.field(name, value);
        assert_eq!(
            request.send().unwrap_err(),
            error,
            "{method} {target} {host} {name}"
        );
        let fields = [(name.to_owned(), value.to_owned())];
        if target == "/" {
            let prepared = PreparedRequest::new(method, host, &fields, None);
            assert_eq!(prepared.unwrap_err(), error);
        }
    }
    drop(bench.client.request(line("GET", "/")).unwrap());
    assert_eq!(
        (bench.client.held(), bench.client.outstanding()),
        (Bytes(0), 0)
    );
    assert_eq!(bench.get("/a"), RequestId(0));
}

#[test]
fn connection_frames_overtake_held_requests() {
    let mut bench = Bench::new(Config::default());
    bench
        .client
        .request(line("GET", "/a"))
        .unwrap()
        .send()
        .unwrap();
    bench
        .client
        .request(line("GET", "/b"))
        .unwrap()
        .send()
        .unwrap();
    write::ping(&mut bench.wire, false, 7u64.to_be_bytes());
    bench.settings(&[(id::MAX_CONCURRENT_STREAMS, 9)]);
    assert_eq!(bench.deliver(), ["settings"]);
    assert_eq!(bench.written(), ["ping true 7", "settings ack"]);
    assert_eq!(bench.client.first_unsent(), RequestId(0));
    assert!(
        bench.client.release(Bytes(1)).0 > 9,
        "a whole frame is released"
    );
    assert_eq!(bench.written().len(), 1);
    assert_eq!(bench.client.first_unsent(), RequestId(1));
    // The encoder must not shrink its table before the blocks compressed with it are sent.
    bench.settings(&[(id::HEADER_TABLE_SIZE, 0)]);
    bench.deliver();
    assert!(bench.written().is_empty());
    bench.client.flush();
    assert_eq!(bench.written()[1], "settings ack");
}

#[test]
fn a_smaller_header_table_is_respected() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.settings(&[(id::HEADER_TABLE_SIZE, 0)]);
    bench.deliver();
    assert_eq!(bench.written(), ["settings ack"]);
    bench.decoder.set_table_limit(0);
    // The decoder requires the size update. An empty table has no entries to refer to.
    bench.get("/b");
    bench.get("/c");
}

#[test]
fn pings_are_sent_by_a_flush() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.client.ping(5u64.to_be_bytes());
    assert!(bench.client.transmit().is_empty());
    bench.client.flush();
    assert_eq!(bench.written(), ["ping false 5"]);
    write::ping(&mut bench.wire, true, 5u64.to_be_bytes());
    write::ping(&mut bench.wire, true, 6u64.to_be_bytes());
    assert_eq!(
        bench.deliver(),
        ["pong 5"],
        "an answer without a PING is not reported"
    );
}

#[test]
fn heads_repeated_by_reference_are_read_once_and_counted_each_time() {
    let mut bench = Bench::new(Config::default());
    let fields = [(":status", "200"), ("server", "x"), ("content-length", "0")];
    for number in 0..4 {
        bench.get("/a");
        bench.headers(2 * number + 1, &fields, true);
        // A different request between two equal requests must not be confused with them.
        bench.get("/b");
        let log = bench.deliver();
        assert_eq!(log[1], format!("head {number} 200"), "{log:?}");
        assert_eq!(bench.client.head().field("server"), Some(&b"x"[..]));
        assert_eq!(bench.client.head().content_length(), Some(0));
    }
    bench.headers(9, &[(":status", "404")], true);
    bench.headers(11, &fields, true);
    bench.headers(13, &[(":status", "404")], true);
    let log = bench.deliver();
    let heads: Vec<&String> = log.iter().filter(|line| line.starts_with("head")).collect();
    assert_eq!(heads, ["head 4 404", "head 5 200", "head 6 404"]);
}

#[test]
fn a_renewed_connection_is_like_a_new_one() {
    let mut bench = Bench::new(Config::default());
    bench.get("/a");
    bench.settings(&[
        (id::INITIAL_WINDOW_SIZE, 1),
        (id::MAX_CONCURRENT_STREAMS, 1),
    ]);
    bench.go_away(0, ErrorCode::NO_ERROR);
    bench.deliver();
    bench.client.renew();
    bench.reader = Reader::new(frame::Limits::default());
    bench.decoder = Decoder::new(4096, u64::MAX);
    bench.encoder = Encoder::new(4096);
    assert_eq!(bench.client.close_reason(), None);
    assert!(bench.client.transmit().starts_with(PREFACE));
    bench.client.transmitted(PREFACE.len(), bench.now);
    assert_eq!(bench.get_after_settings("/b"), RequestId(0));
    bench.settings(&[]);
    bench.headers(1, &[(":status", "204")], true);
    assert_eq!(
        bench.deliver(),
        ["settings", "begin 0", "head 0 204", "end 0"]
    );
}

impl Bench {
    /// Sends a request after the client's settings were sent.
    fn get_after_settings(&mut self, target: &str) -> RequestId {
        let request = self.ask("GET", target);
        let written = self.written();
        assert!(written[0].starts_with("settings") && written[1].contains(target));
        request
    }
}
