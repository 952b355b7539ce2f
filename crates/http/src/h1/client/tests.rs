use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};
use proptest::prelude::*;

use super::*;

const NOW: Instant = Instant::ZERO;

/// Creates a connection with these requests written; the target is `/`.
fn asked(version: Version, methods: &[&str]) -> Connection {
    let mut connection = Connection::new(Config {
        depth: 10,
        ..Config::default()
    });
    for method in methods {
        connection
            .request(line(method, version))
            .unwrap()
            .send()
            .unwrap();
    }
    write_all(&mut connection, NOW);
    connection
}

fn line(method: &str, version: Version) -> RequestLine<'_> {
    RequestLine {
        method,
        target: "/",
        host: "h",
        version,
    }
}

fn write_all(connection: &mut Connection, now: Instant) -> Vec<u8> {
    connection.flush();
    let written = connection.transmit().to_vec();
    connection.transmitted(written.len(), now);
    written
}

/// Returns the events in short: `0<200 0=abc 0. closed:ServerIdle`.
fn poll(connection: &mut Connection, input: &[u8]) -> String {
    let mut input = input;
    let mut log = Vec::new();
    let mut content = Vec::new();
    while let Some(event) = connection.poll(&mut input, NOW) {
        if let Event::Content { bytes, .. } = event {
            content.extend_from_slice(bytes);
            continue;
        }
        if !content.is_empty() {
            log.push(format!("={}", String::from_utf8_lossy(&content)));
            content.clear();
        }
        log.push(match event {
            Event::Begin { .. } | Event::Content { .. } => continue,
            Event::Interim { request, status } => format!("{}~{status}", request.0),
            Event::SendContent { request } => format!("{}>", request.0),
            Event::Head { request } => format!("{}<{}", request.0, connection.head().status()),
            Event::End {
                request,
                persists: true,
                ..
            } => format!("{}.", request.0),
            Event::End { request, .. } => format!("{}!", request.0),
            Event::Failed {
                request, failure, ..
            } => format!("{}:{failure:?}", request.0),
            Event::Unanswered { request, sent, .. } => {
                format!("{}?{}", request.0, if sent { "" } else { "unsent" })
            }
            Event::Closed { reason } => format!("closed:{reason:?}"),
            other => panic!("not an event of HTTP/1.x: {other:?}"),
        });
    }
    if !content.is_empty() {
        log.push(format!("={}", String::from_utf8_lossy(&content)));
    }
    assert!(input.is_empty());
    log.join(" ")
}

fn eof(connection: &mut Connection) -> String {
    connection.handle_eof(NOW);
    poll(connection, b"")
}

#[test]
fn requests_are_written_as_asked_and_held_until_released() {
    let mut connection = Connection::new(Config {
        depth: 2,
        ..Config::default()
    });
    let mut request = connection.request(line("GET", Version::Http11)).unwrap();
    request
        .field("Accept", "*/*")
        .field_display("Range", format_args!("bytes=0-{}", 511));
    let queued = request.send().unwrap();
    let expected = b"GET / HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nRange: bytes=0-511\r\n\r\n";
    assert_eq!(queued.head, Bytes(expected.len() as u64));
    assert!(connection.transmit().is_empty());
    assert_eq!(connection.held(), queued.head);
    connection.release(Bytes(10));
    assert_eq!(connection.transmit(), &expected[..10]);
    connection.transmitted(4, NOW);
    assert_eq!(connection.transmit(), &expected[4..10]);
    assert_eq!(connection.first_unsent(), RequestId(1));
    connection.flush();
    assert_eq!(connection.transmit(), &expected[4..]);

    let keep = line("GET", Version::Http10KeepAlive);
    connection.request(keep).unwrap().send().unwrap();
    assert_eq!(
        connection.request(keep).err(),
        Some(SendError::PipelineFull)
    );
    let written = write_all(&mut connection, NOW);
    assert!(
        written.ends_with(b"\r\n\r\nGET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n")
    );
}

#[test]
fn invalid_requests_are_refused_and_write_nothing() {
    let mut connection = Connection::new(Config::default());
    let good = line("GET", Version::Http11);
    let error = |connection: &mut Connection, line: RequestLine<'_>, name: &str, value: &str| {
        let mut request = connection.request(line).unwrap();
        request.field(name, value);
        request.send().unwrap_err()
    };
    let target = |target| RequestLine { target, ..good };
    let method = |method| RequestLine { method, ..good };
    for (line, name, value, expected) in [
        (method("G T"), "A", "b", SendError::BadMethod),
        (method("CONNECT"), "A", "b", SendError::BadMethod),
        (target(""), "A", "b", SendError::BadTarget),
        (target("/ HTTP/1.1\r\nA: b"), "A", "b", SendError::BadTarget),
        (good, "A\r\nB", "b", SendError::BadField),
        (good, "A", "b\r\nC: d", SendError::BadField),
        (good, "Content-Length", "5", SendError::BadField),
        (
            RequestLine { host: "", ..good },
            "A",
            "b",
            SendError::BadField,
        ),
    ] {
        assert_eq!(error(&mut connection, line, name, value), expected);
        assert_eq!(connection.held(), Bytes(0));
        assert_eq!(connection.outstanding(), 0);
    }
    drop(connection.request(good).unwrap());
    assert_eq!(connection.held(), Bytes(0));
}

#[test]
fn every_framing_ends_where_it_should() {
    let mut connection = asked(
        Version::Http11,
        &["GET", "HEAD", "GET", "GET", "GET", "GET"],
    );
    let input = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\
        HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nde\r\n1\r\nf\r\n0\r\nA: b\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\nghi";
    assert_eq!(
        poll(&mut connection, input),
        "0<200 =abc 0. 1<200 1. 2<304 2. 3<204 3. 4<200 =def 4. 5<200 =ghi"
    );
    assert_eq!(eof(&mut connection), "5! closed:ServerAsked");
    assert_eq!(connection.close_reason(), Some(CloseReason::ServerAsked));
    assert_eq!(poll(&mut connection, b"HTTP/1.1 200 OK\r\n\r\n"), "");
}

#[test]
fn a_response_that_repeats_the_head_before_it_is_taken_in_one_step() {
    let mut connection = asked(Version::Http11, &["GET", "GET", "HEAD", "GET", "GET"]);
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let (head, _) = response.split_at(response.len() - 2);
    let ended = |request, content| {
        Some(Event::End {
            request: RequestId(request),
            received: Received {
                head: Bytes(head.len() as u64),
                fields: Bytes(head.len() as u64),
                body: Bytes(content),
                content: Bytes(content),
            },
            persists: true,
        })
    };
    // Without an earlier head, nothing is taken.
    let mut rest = &response[..];
    assert_eq!(connection.poll_whole(&mut rest, NOW), None);
    assert_eq!(poll(&mut connection, rest), "0<200 =hi 0.");
    // The bytes after the first response are left: the response to HEAD, and a part of another response.
    let several = [&response[..], head, &response[..20]].concat();
    let left = several.len() - response.len();
    rest = &several;
    assert_eq!(connection.poll_whole(&mut rest, NOW), ended(1, 2));
    assert_eq!(rest.len(), left);
    assert_eq!(connection.poll_whole(&mut rest, NOW), ended(2, 0));
    assert_eq!(connection.poll_whole(&mut rest, NOW), None);
    assert_eq!(poll(&mut connection, rest), "");
    assert_eq!(connection.poll_whole(&mut &response[20..], NOW), None);
    assert_eq!(poll(&mut connection, &response[20..]), "3<200 =hi 3.");
    // Another head, and a response after which the connection closes.
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(connection.poll_whole(&mut &last[..], NOW), None);
    let text = poll(&mut connection, last);
    assert_eq!(text, "4<200 =hi 4! closed:ServerAsked");
    assert_eq!(connection.poll_whole(&mut &last[..], NOW), None);
}

#[test]
fn bytes_are_counted_with_and_without_coding() {
    let mut connection = asked(Version::Http11, &["GET"]);
    let head =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = b"3\r\nabc\r\n0\r\n\r\n";
    let input = [&head[..], &body[..]].concat();
    let mut input = &input[..];
    let mut ends = Vec::new();
    while let Some(event) = connection.poll(&mut input, NOW) {
        if let Event::End { received, .. } = event {
            ends.push(received);
        }
    }
    let expected = Received {
        head: Bytes(head.len() as u64),
        fields: Bytes(head.len() as u64),
        body: Bytes(body.len() as u64),
        content: Bytes(3),
    };
    assert_eq!(ends, [expected]);
}

#[test]
fn persistence_follows_both_versions_rules() {
    let cases = [
        (
            Version::Http11,
            "HTTP/1.1 200 OK\r\nContent-Length: 0",
            true,
        ),
        (
            Version::Http11,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close",
            false,
        ),
        (
            Version::Http11,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: a, close",
            false,
        ),
        (
            Version::Http11,
            "HTTP/1.0 200 OK\r\nContent-Length: 0",
            false,
        ),
        (
            Version::Http11,
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive",
            true,
        ),
        (
            Version::Http10KeepAlive,
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive",
            true,
        ),
        (
            Version::Http10KeepAlive,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive",
            true,
        ),
        (
            Version::Http10KeepAlive,
            "HTTP/1.1 200 OK\r\nContent-Length: 0",
            false,
        ),
        (
            Version::Http10,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive",
            false,
        ),
    ];
    for (version, head, persists) in cases {
        let mut connection = asked(version, &["GET"]);
        let log = poll(&mut connection, format!("{head}\r\n\r\n").as_bytes());
        let expected = match persists {
            true => "0<200 0.",
            false => "0<200 0! closed:ServerAsked",
        };
        assert_eq!(log, expected, "{version:?} {head}");
        assert_eq!(connection.can_request(), persists);
    }
    // A body that the close delimits ends the connection, even if the fields request keep-alive.
    let mut connection = asked(Version::Http10KeepAlive, &["GET"]);
    poll(
        &mut connection,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nx",
    );
    assert_eq!(eof(&mut connection), "0! closed:ServerAsked");
}

#[test]
fn a_plain_http10_connection_takes_one_request() {
    let mut connection = asked(Version::Http10, &["GET"]);
    let again = connection.request(line("GET", Version::Http10)).err();
    assert_eq!(again, Some(SendError::Closed));
}

#[test]
fn unanswered_requests_are_distinguished_from_broken_ones() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    let mut early = asked(Version::Http11, &["GET", "GET", "POST"]);
    assert_eq!(poll(&mut early, whole.as_bytes()), "0<200 =a 0.");
    assert_eq!(eof(&mut early), "1? 2? closed:ServerEarly");

    let mut announced = asked(Version::Http11, &["GET", "GET"]);
    let closing = whole.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let log = poll(&mut announced, closing.as_bytes());
    assert_eq!(log, "0<200 =a 0! 1? closed:ServerEarly");

    let mut cut = asked(Version::Http11, &["GET", "GET"]);
    poll(&mut cut, &whole.as_bytes()[..30]);
    assert_eq!(eof(&mut cut), "0:Truncated 1? closed:ServerEarly");

    let mut reset = asked(Version::Http11, &["GET", "GET"]);
    let log = poll(&mut reset, format!("{whole}HTTP/1.1 2").as_bytes());
    assert_eq!(log, "0<200 =a 0.");
    reset.handle_failure(Failure::Reset, NOW);
    assert_eq!(poll(&mut reset, b""), "1:Reset closed:Failed(Reset)");

    let mut unsent = Connection::new(Config::default());
    unsent
        .request(line("GET", Version::Http11))
        .unwrap()
        .send()
        .unwrap();
    unsent.handle_failure(Failure::Refused, NOW);
    assert_eq!(poll(&mut unsent, b""), "0?unsent closed:Failed(Refused)");

    let mut idle = asked(Version::Http11, &["GET"]);
    poll(&mut idle, whole.as_bytes());
    assert_eq!(eof(&mut idle), "closed:ServerIdle");
}

#[test]
fn a_finished_client_closes_and_unanswered_requests_fail() {
    let mut connection = asked(Version::Http11, &["GET"]);
    poll(
        &mut connection,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
    connection.finish();
    assert_eq!(poll(&mut connection, b"late"), "closed:Finished");
    let mut giving_up = asked(Version::Http11, &["GET", "GET"]);
    poll(&mut giving_up, b"HTTP/1.1 200");
    giving_up.finish();
    assert_eq!(
        poll(&mut giving_up, b""),
        "0:LocalAbort 1? closed:Failed(LocalAbort)"
    );
}

#[test]
fn malformed_responses_are_reported_as_server_faults() {
    for input in [
        "SSH-2.0-x\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let mut connection = asked(Version::Http11, &["GET", "GET"]);
        let log = poll(&mut connection, input.as_bytes());
        assert!(
            log.ends_with("0:BadResponse 1? closed:Failed(BadResponse)"),
            "{log}"
        );
    }
    let mut unsolicited = asked(Version::Http11, &[]);
    assert_eq!(
        poll(&mut unsolicited, b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
        "closed:Failed(BadResponse)"
    );
}

#[test]
fn harmless_faults_are_tolerated() {
    let mut connection = asked(Version::Http11, &["GET", "GET"]);
    let input = b"HTTP/1.1 200\nContent-Length : 1\nX: a\n b\n\na\r\nHTTP/1.1 204\r\n\r\n\r\n";
    assert_eq!(poll(&mut connection, input), "0<200 =a 0. 1<204 1.");
}

#[test]
fn oversized_responses_are_refused() {
    let limits = Limits {
        head: Bytes(60),
        fields: 3,
        interim: 2,
        body: Bytes(4),
    };
    let outcome = |input: &str| {
        let mut connection = Connection::new(Config {
            limits,
            ..Config::default()
        });
        connection
            .request(line("GET", Version::Http11))
            .unwrap()
            .send()
            .unwrap();
        write_all(&mut connection, NOW);
        poll(&mut connection, input.as_bytes())
    };
    let ok = "HTTP/1.1 200 OK\r\n";
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    for (input, expected) in [
        (format!("{ok}X: {}\r\n\r\n", "y".repeat(60)), "0:TooLarge"),
        (format!("{ok}X: {}", "y".repeat(60)), "0:TooLarge"),
        (
            format!("{ok}A: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n"),
            "0:TooLarge",
        ),
        (format!("{ok}Content-Length: 5\r\n\r\n"), "0:TooLarge"),
        (format!("{ok}\r\nabcde"), "0<200 =abcd 0:TooLarge"),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n9\r\ncdefg"),
            "0<200 =abcd 0:TooLarge",
        ),
        (interim.repeat(3), "0~103 0~103 0:BadResponse"),
    ] {
        let log = outcome(&input);
        let reason = log.split(" closed").next().unwrap();
        assert_eq!(reason, expected, "{input}");
    }
    assert_eq!(
        outcome(&format!("{ok}Content-Length: 4\r\n\r\nabcd")),
        "0<200 =abcd 0."
    );
}

#[test]
fn content_waits_for_100_continue() {
    let mut connection = Connection::new(Config::default());
    let request = connection.request(line("POST", Version::Http11)).unwrap();
    request.send_with(Content::Chunked, true).unwrap();
    assert_eq!(
        connection.send_content(b"early"),
        Err(SendError::BadContent)
    );
    let head = write_all(&mut connection, NOW);
    assert!(head.ends_with(b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(
        poll(&mut connection, b"HTTP/1.1 100 Continue\r\n\r\n"),
        "0>"
    );
    connection.send_content(b"hello").unwrap();
    connection.send_content(b"").unwrap();
    connection.finish_content().unwrap();
    assert_eq!(write_all(&mut connection, NOW), b"5\r\nhello\r\n0\r\n\r\n");
    let created = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(poll(&mut connection, created), "0<201 0.");

    // No answer: the time limit expires.
    let request = connection.request(line("PUT", Version::Http11)).unwrap();
    request.send_with(Content::Sized(2), true).unwrap();
    assert_eq!(connection.poll_timeout(), None);
    write_all(&mut connection, NOW);
    let patience = NOW + Duration::from_secs(1);
    assert_eq!(connection.poll_timeout(), Some(patience));
    connection.handle_timeout(patience);
    assert_eq!(poll(&mut connection, b""), "1>");
    assert_eq!(connection.send_content(b"abc"), Err(SendError::BadContent));
    connection.send_content(b"ab").unwrap();
    assert_eq!(write_all(&mut connection, NOW), b"ab");
    assert_eq!(poll(&mut connection, created), "1<201 1.");

    // Refused: the content is not sent and the connection cannot continue.
    let request = connection.request(line("PUT", Version::Http11)).unwrap();
    request.send_with(Content::Sized(2), true).unwrap();
    write_all(&mut connection, NOW);
    let refused = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        poll(&mut connection, refused),
        "2<417 2! closed:ServerAsked"
    );
    assert_eq!(connection.send_content(b"ab"), Err(SendError::Closed));
}

#[test]
fn timeouts_start_when_a_request_is_first_in_the_pipeline() {
    let after = |seconds| NOW + Duration::from_secs(seconds);
    let timeouts = Timeouts {
        head: Some(Duration::from_secs(10)),
        idle: Some(Duration::from_secs(20)),
        total: Some(Duration::from_secs(40)),
        ..Timeouts::default()
    };
    let mut connection = Connection::new(Config {
        depth: 2,
        timeouts,
        ..Config::default()
    });
    for _ in 0..2 {
        connection
            .request(line("GET", Version::Http11))
            .unwrap()
            .send()
            .unwrap();
    }
    assert_eq!(connection.poll_timeout(), None);
    write_all(&mut connection, after(1));
    assert_eq!(connection.poll_timeout(), Some(after(11)));
    let mut head: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    while connection.poll(&mut head, after(5)).is_some() {}
    assert_eq!(connection.poll_timeout(), Some(after(25)));
    let mut content: &[u8] = b"a";
    while connection.poll(&mut content, after(24)).is_some() {}
    assert_eq!(connection.poll_timeout(), Some(after(41)));
    let mut content: &[u8] = b"b";
    while connection.poll(&mut content, after(30)).is_some() {}
    assert_eq!(connection.poll_timeout(), Some(after(40)));
    connection.handle_timeout(after(39));
    assert_eq!(poll(&mut connection, b""), "");
    connection.handle_timeout(after(40));
    assert_eq!(poll(&mut connection, b""), "1? closed:Failed(TimedOut)");
    assert_eq!(connection.poll_timeout(), None);
}

/// Pieces of responses that, put together at random, reach every state.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let fragments = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 304 N\r\n\r\n",
        "HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges; boundary=x\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 6\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "\r\n",
        "\n",
        "\r",
        "hello",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "--x\r\nContent-Range: bytes 0-1/2\r\n\r\n",
        "--x--\r\n",
        "X: y\r\n z\r\n",
    ]);
    prop::collection::vec(fragments, 0..20).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_split_of_any_input_gives_the_same_events(
        start in any::<[u8; 3]>(),
        input in soup(),
    ) {
        fuzz(&[&start[..], &input].concat());
    }

    #[test]
    fn any_bytes_pass_the_fuzz_entry(data in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzz(&data);
    }

    #[test]
    fn written_bytes_are_the_same_whatever_the_transport_takes(
        takes in prop::collection::vec(1usize..50, 1..40),
    ) {
        let mut whole = asked(Version::Http11, &[]);
        let mut pieces = asked(Version::Http11, &[]);
        let mut expected = Vec::new();
        let mut written = Vec::new();
        for taken in takes {
            for connection in [&mut whole, &mut pieces] {
                if connection.can_request() {
                    connection.request(line("GET", Version::Http11)).unwrap().send().unwrap();
                }
                connection.flush();
            }
            expected.extend(write_all(&mut whole, NOW));
            let offered = pieces.transmit();
            let taken = taken.min(offered.len());
            written.extend_from_slice(&offered[..taken]);
            pieces.transmitted(taken, NOW);
        }
        written.extend(write_all(&mut pieces, NOW));
        prop_assert_eq!(written, expected);
        prop_assert_eq!(pieces.first_unsent(), whole.first_unsent());
    }
}

#[test]
fn a_prepared_request_equals_the_written_one() {
    let fields = [("Accept".to_owned(), "*/*".to_owned())];
    for (method, version, content) in [
        ("GET", Version::Http11, None),
        ("HEAD", Version::Http10, None),
        ("POST", Version::Http10KeepAlive, Some(3)),
        ("PUT", Version::Http11, Some(0)),
    ] {
        let prepared =
            PreparedRequest::new(method, "example.org", version, &fields, content).unwrap();
        let config = Config {
            depth: 2,
            ..Config::default()
        };
        let (mut written, mut copied) = (Connection::new(config), Connection::new(config));
        for target in ["/a", "/b?c"] {
            let line = RequestLine {
                method,
                target,
                host: "example.org",
                version,
            };
            let wanted = written.request(line).map_err(drop).and_then(|mut request| {
                request.field("Accept", "*/*");
                request
                    .send_with(content.map_or(Content::None, Content::Sized), false)
                    .map_err(drop)
            });
            let queued = copied.request_prepared(&prepared, target).map_err(drop);
            assert_eq!(queued, wanted);
            if content == Some(3) && queued.is_ok() {
                written.send_content(b"abc").unwrap();
                copied.send_content(b"abc").unwrap();
            }
        }
        written.flush();
        copied.flush();
        assert_eq!(copied.transmit(), written.transmit());
        assert_eq!(copied.outstanding(), written.outstanding());
        let refused = copied.request_prepared(&prepared, "/a b");
        assert_eq!(refused, Err(SendError::BadTarget));
    }
    let bad = [("X".to_owned(), "a\r\nb".to_owned())];
    let refused = PreparedRequest::new("GET", "example.org", Version::Http11, &bad, None);
    assert_eq!(refused, Err(SendError::BadField));
}

#[test]
fn a_renewed_connection_is_like_a_new_one() {
    let now = Instant::ZERO;
    let prepared = PreparedRequest::new("GET", "h", Version::Http11, &[], None).unwrap();
    let mut connection = Connection::new(Config::default());
    for end in 0..4 {
        connection.request_prepared(&prepared, "/").unwrap();
        connection.flush();
        let written = connection.transmit().len();
        assert_eq!(connection.begun(), 0);
        connection.transmitted(written, now);
        assert_eq!((written, connection.begun()), (27, 1));
        let mut input: &[u8] = match end {
            0 => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            1 => b"HTTP/1.1 200 OK\r\nContent-Len",
            2 => b"nonsense",
            _ => b"",
        };
        while connection.poll(&mut input, now).is_some() {}
        connection.handle_eof(now);
        while connection.poll(&mut &b""[..], now).is_some() {}
        assert!(connection.close_reason().is_some());
        connection.renew();
        assert!(connection.can_request() && connection.transmit().is_empty());
    }
}
