//! Tests of one driver against hand-written responses. Complete pages against the real origin are in
//! `tests/integration/pair`.

mod bundles;
mod services;

use std::time::Duration;

use fathometer_model::{CloseReason, Failure, Instant, Outcome};
use proptest::prelude::*;

use super::*;

/// A driver for `/`, and the current time.
struct Script {
    driver: PageDriver,
    now: Instant,
}

impl Script {
    fn new(policy: &str, options: Options) -> Script {
        Script::revisit(policy, options, Visit::First, ValidatorCache::new())
    }

    fn revisit(policy: &str, options: Options, visit: Visit, cache: ValidatorCache) -> Script {
        let now = Instant::ZERO;
        let policy = policy.parse().unwrap();
        let driver = PageDriver::new(policy, options, visit, "/".to_owned(), cache, now);
        Script { driver, now }
    }

    /// Returns the pending actions as text: `connect 0, close 1`.
    fn actions(&mut self) -> String {
        let mut actions = Vec::new();
        while let Some(action) = self.driver.poll_action() {
            actions.push(match action {
                Action::Connect(conn) => format!("connect {}", conn.0),
                Action::ShutdownWrite(conn) => format!("end {}", conn.0),
                Action::Close(conn) => format!("close {}", conn.0),
                Action::Abort(conn) => format!("abort {}", conn.0),
            });
        }
        actions.join(", ")
    }

    /// Establishes a connection. Returns the requests written to it.
    fn connect(&mut self, conn: u32) -> String {
        self.driver.handle_connected(ConnectionId(conn), self.now);
        self.written(conn)
    }

    /// Returns all bytes written to a connection.
    fn bytes(&mut self, conn: u32) -> String {
        let conn = ConnectionId(conn);
        let mut bytes = Vec::new();
        while !self.driver.transmit(conn).is_empty() {
            bytes.extend_from_slice(self.driver.transmit(conn));
            let length = self.driver.transmit(conn).len();
            self.driver.transmitted(conn, length, self.now);
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the request lines written to a connection, each with the bytes of its `Range` if there is one.
    fn written(&mut self, conn: u32) -> String {
        let text = self.bytes(conn);
        let lines = text.lines().filter_map(|line| {
            let request = line
                .strip_suffix(" HTTP/1.1")
                .or(line.strip_suffix(" HTTP/1.0"));
            request.or(line.strip_prefix("Range: "))
        });
        lines.collect::<Vec<_>>().join(" ")
    }

    fn answer(&mut self, conn: u32, response: &str) {
        let conn = ConnectionId(conn);
        self.driver.handle_data(conn, response.as_bytes(), self.now);
    }

    fn eof(&mut self, conn: u32) {
        self.driver.handle_eof(ConnectionId(conn), self.now);
    }

    fn fail(&mut self, conn: u32, failure: Failure) {
        self.driver
            .handle_failure(ConnectionId(conn), failure, self.now);
    }

    /// Waits for the driver's next time limit. Returns the length of the wait.
    fn wait(&mut self) -> Duration {
        let until = self.driver.poll_timeout().unwrap();
        let waited = until - self.now;
        self.now = until;
        self.driver.handle_timeout(self.now);
        waited
    }

    fn end(self) -> Retrieval {
        assert!(self.driver.is_finished());
        assert_eq!(self.driver.poll_timeout(), None);
        self.driver.finish(self.now)
    }
}

fn ok(content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: {length}\r\n\r\n{content}")
}

fn partial(range: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "HTTP/1.1 206 Partial Content\r\nETag: \"e\"\r\nContent-Range: bytes {range}\r\n\
         Content-Length: {length}\r\n\r\n{content}"
    )
}

fn outcomes(retrieval: &Retrieval) -> Vec<(&str, Outcome)> {
    let exchanges = retrieval.exchanges.iter();
    exchanges.map(|e| (e.target.as_str(), e.outcome)).collect()
}

const COMPLETE: Outcome = Outcome::Complete;

#[test]
fn a_truncated_response_is_requested_again() {
    let mut script = Script::new("h1.1", Options::default());
    assert_eq!(script.actions(), "connect 0");
    assert_eq!(script.connect(0), "GET /");
    let page = ok("<img src=a><img src=b>");
    script.answer(0, &page[..page.len() - 5]);
    script.eof(0);
    assert_eq!(script.actions(), "close 0, connect 1");
    assert_eq!(script.connect(1), "GET /");
    script.answer(1, &page);
    assert_eq!(script.written(1), "GET /a");
    script.answer(1, &ok("a"));
    assert_eq!(script.written(1), "GET /b");
    script.answer(1, &ok("b"));
    assert_eq!(script.actions(), "end 1");
    script.eof(1);
    assert_eq!(script.actions(), "close 1");
    let retrieval = script.end();
    let cut = Outcome::Failed(Failure::Truncated);
    assert_eq!(
        outcomes(&retrieval),
        [
            ("/", cut),
            ("/", COMPLETE),
            ("/a", COMPLETE),
            ("/b", COMPLETE)
        ]
    );
    assert_eq!(retrieval.counters.requests_retried, 1);
    assert_eq!(retrieval.counters.responses_lost, 1);
    assert!(retrieval.milestones.page_complete.is_some());
    let reasons: Vec<CloseReason> = retrieval.connections.iter().map(|c| c.close).collect();
    assert_eq!(reasons, [CloseReason::ServerEarly, CloseReason::Finished]);
}

#[test]
fn retries_of_a_file_are_limited() {
    let mut script = Script::new("h1.1", Options::default());
    for conn in 0..=3 {
        assert_eq!(script.connect(conn), "GET /", "{conn}");
        script.fail(conn, Failure::Reset);
    }
    let retrieval = script.end();
    let retried = ("/", Outcome::Retried(Failure::Reset));
    let failed = ("/", Outcome::Failed(Failure::Reset));
    assert_eq!(outcomes(&retrieval), [retried, retried, retried, failed]);
    assert_eq!(retrieval.failures, [("/".to_owned(), Failure::Reset)]);
    assert_eq!(retrieval.milestones.page_complete, None);
    assert_eq!(retrieval.counters.responses_lost, 4);
}

#[test]
fn refused_connections_and_tls_failures_are_not_retried() {
    for failure in [Failure::Refused, Failure::TlsFailed] {
        let mut script = Script::new("h1.0x4", Options::default());
        script.fail(0, failure);
        assert_eq!(script.actions(), "connect 0, close 0");
        let retrieval = script.end();
        assert_eq!(outcomes(&retrieval), [("/", Outcome::Failed(failure))]);
        let reason = CloseReason::Failed(failure);
        assert_eq!(retrieval.connections[0].close, reason);
        assert_eq!(retrieval.milestones.critical_complete, None);
    }
}

#[test]
fn a_broken_response_fails_only_its_file() {
    let mut script = Script::new("h1.1-pipeline", Options::default());
    script.connect(0);
    script.answer(0, &ok("<img src=a><img src=b>"));
    assert_eq!(script.written(0), "GET /a GET /b");
    script.answer(0, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n");
    assert_eq!(script.actions(), "connect 0, abort 0, connect 1");
    assert_eq!(script.connect(1), "GET /b");
    script.answer(1, &ok("b"));
    script.eof(1);
    assert_eq!(script.actions(), "end 1, close 1");
    let retrieval = script.end();
    assert_eq!(
        retrieval.failures,
        [("/a".to_owned(), Failure::BadResponse)]
    );
    let bad = Failure::BadResponse;
    assert_eq!(
        outcomes(&retrieval),
        [
            ("/", COMPLETE),
            ("/a", Outcome::Failed(bad)),
            ("/b", Outcome::Retried(bad)),
            ("/b", COMPLETE)
        ]
    );
}

#[test]
fn time_limits_hold_for_connecting_answering_and_closing() {
    let mut connecting = Script::new("h1.1", Options::default());
    assert_eq!(connecting.wait(), Duration::from_secs(60));
    assert_eq!(connecting.actions(), "connect 0, abort 0, connect 1");

    let mut answering = Script::new("h1.1", Options::default());
    answering.connect(0);
    assert_eq!(answering.wait(), Duration::from_secs(60));
    assert_eq!(answering.actions(), "connect 0, abort 0");
    let retrieval = answering.end();
    assert_eq!(
        outcomes(&retrieval),
        [("/", Outcome::Failed(Failure::TimedOut))]
    );

    let mut closing = Script::new("h1.1", Options::default());
    closing.connect(0);
    closing.answer(0, &ok(""));
    assert_eq!(closing.actions(), "connect 0, end 0");
    assert!(!closing.driver.is_finished());
    assert_eq!(closing.wait(), Duration::from_secs(2));
    assert_eq!(closing.actions(), "close 0");
    assert_eq!(closing.end().connections[0].close, CloseReason::Finished);
}

#[test]
fn a_full_pipeline_leaves_and_goes_on_answer_by_answer() {
    let mut script = Script::new("h1.1-pipeline2", Options::default());
    script.connect(0);
    script.answer(0, &ok("<img src=a><img src=b><img src=c><img src=a>"));
    assert_eq!(script.written(0), "GET /a GET /b");
    script.answer(0, &ok("a"));
    assert_eq!(script.written(0), "GET /c");
    script.answer(0, &ok("b"));
    script.answer(0, &ok("c"));
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(retrieval.counters.flushes_explicit, 1);
    assert_eq!(retrieval.counters.flushes_full, 2);
    assert_eq!(retrieval.exchanges.len(), 4);
}

#[test]
fn a_client_with_explicit_flushes_also_flushes_by_timer() {
    let mut script = Script::new("h1.1-pipeline", Options::default());
    script.connect(0);
    let page = ok("<img src=a><img src=b>");
    let (before, after) = page.split_at(page.len() - 11);
    script.answer(0, before);
    assert_eq!(script.written(0), "", "more references may follow");
    assert_eq!(script.wait(), Duration::from_millis(50));
    assert_eq!(script.written(0), "GET /a");
    script.answer(0, after);
    assert_eq!(script.written(0), "GET /b");
    let counters = script.driver.finish(script.now).counters;
    assert_eq!((counters.flushes_timer, counters.flushes_end), (1, 1));
}

#[test]
fn ranges_follow_the_servers_answers() {
    let options = || Options {
        first_range: fathometer_model::Bytes(4),
        ..Options::default()
    };
    let mut script = Script::new("h1.1-pipeline-ranges", options());
    script.connect(0);
    let images: String = ["a", "b", "c", "d", "e", "f"]
        .map(|n| format!("<img src={n}>"))
        .concat();
    script.answer(0, &ok(&format!("{images}<script src=s></script>")));
    assert_eq!(
        script.written(0).matches("bytes=0-3").count(),
        6,
        "the script is requested without a range"
    );
    // Responses for a to f: a file shorter than the range, a file of unknown length, a complete file, an empty
    // file, a wrong range, a file longer than the range.
    script.answer(0, &partial("0-2/3", "GIF"));
    script.answer(0, &partial("0-3/*", "GIF8"));
    script.answer(0, &ok("GIF89a\x01\0\x02\0;"));
    script.answer(
        0,
        "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
    );
    script.answer(0, &partial("2-5/9", "GIF8"));
    script.answer(0, &partial("0-3/6", "GIF8"));
    assert_eq!(script.written(0), "GET /b bytes=4- GET /e GET /f bytes=4-");
    script.answer(0, &ok("script"));
    // Responses in order: the file has no further bytes, a complete file, a part of a changed file.
    script.answer(
        0,
        "HTTP/1.1 416 No\r\nContent-Range: bytes */4\r\nContent-Length: 0\r\n\r\n",
    );
    script.answer(0, &ok("e"));
    script.answer(0, &partial("4-5/6", "xx").replace("\"e\"", "\"new\""));
    assert_eq!(script.written(0), "GET /f");
    script.answer(0, &ok("f"));
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(retrieval.failures, []);
    assert_eq!(retrieval.counters.requests_retried, 2);
    let c = retrieval.cache.get("/c").unwrap();
    let dimensions = Dimensions {
        width: 1,
        height: 2,
    };
    assert_eq!(c.dimensions, Some(dimensions));
}

#[test]
fn retries_of_a_short_part_are_limited() {
    let mut script = Script::new("h1.1-pipeline-ranges", Options::default());
    script.connect(0);
    script.answer(0, &ok("<img src=a>"));
    assert_eq!(script.written(0), "GET /a bytes=0-511");
    script.answer(0, &partial("0-511/9999", "GIF8"));
    for _ in 0..=3 {
        assert_eq!(script.written(0), "GET /a bytes=4-");
        script.answer(0, &partial("4-9998/9999", ""));
    }
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(
        retrieval.failures,
        [("/a".to_owned(), Failure::BadResponse)]
    );
}

fn cache() -> ValidatorCache {
    let mut cache = ValidatorCache::new();
    for (target, etag, html) in [("/", "\"e\"", "<img src=a>"), ("/a", "\"e\"", "")] {
        let entry = CacheEntry {
            etag: Some(etag.to_owned()),
            status: 200,
            html: html.as_bytes().to_vec(),
            ..CacheEntry::default()
        };
        cache.insert(target.to_owned(), entry);
    }
    cache
}

#[test]
fn head_requests_find_changed_files() {
    for (head, after) in [
        (
            "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 9\r\n\r\n",
            "",
        ),
        (
            "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n",
            "GET /a",
        ),
        ("HTTP/1.1 405 No\r\nContent-Length: 9\r\n\r\n", "GET /a"),
        ("HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n", ""),
    ] {
        let options = Options {
            revalidation: Revalidation::Head,
            ..Options::default()
        };
        let mut script = Script::revisit("h1.1", options, Visit::Revalidate, cache());
        assert_eq!(script.connect(0), "GET /");
        script.answer(0, &ok("<img src=a>"));
        assert_eq!(script.written(0), "HEAD /a");
        script.answer(0, head);
        assert_eq!(script.written(0), after, "{head}");
    }
}

#[test]
fn an_unrequested_304_is_a_bad_response() {
    let mut script = Script::new("h1.1", Options::default());
    for _ in 0..=3 {
        assert_eq!(script.connect(0), "GET /");
        script.answer(0, "HTTP/1.1 304 Not Modified\r\n\r\n");
    }
    script.eof(0);
    assert_eq!(
        script.end().failures,
        [("/".to_owned(), Failure::BadResponse)]
    );
}

#[test]
fn a_base_file_without_references_completes_the_page() {
    for response in [
        "HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\n<img src=a>",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\n<img src=a>",
        "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ] {
        let mut script = Script::new("h1.1x4", Options::default());
        script.connect(0);
        script.answer(0, response);
        script.eof(0);
        let retrieval = script.end();
        assert_eq!(outcomes(&retrieval), [("/", COMPLETE)]);
        assert!(retrieval.milestones.page_complete.is_some());
    }
}

#[test]
fn an_unknown_content_coding_is_the_servers_fault() {
    let mut script = Script::new("h1.1", Options::default());
    script.connect(0);
    script.answer(
        0,
        "HTTP/1.1 200 OK\r\nContent-Encoding: x-what\r\nContent-Length: 11\r\n\r\n<img src=a>",
    );
    script.eof(0);
    let retrieval = script.end();
    let bad = Failure::BadResponse;
    assert_eq!(outcomes(&retrieval), [("/", Outcome::Failed(bad))]);
    assert_eq!(retrieval.failures, [("/".to_owned(), bad)]);
}

#[test]
fn a_persistent_connection_that_the_server_ends_is_replaced() {
    let mut script = Script::new("h1.1x2", Options::default());
    script.connect(0);
    let page = ok("<img src=a><img src=b><img src=c>");
    let (before, after) = page.split_at(page.len() - 11);
    script.answer(0, before);
    assert_eq!(script.actions(), "connect 0, connect 1");
    assert_eq!(script.connect(1), "GET /a");
    let closing = ok("a").replacen("\r\n", "\r\nConnection: close\r\n", 1);
    script.answer(1, &closing);
    assert_eq!(script.actions(), "", "the server closes the connection");
    script.eof(1);
    assert_eq!(script.actions(), "close 1, connect 2");
    assert_eq!(script.connect(2), "GET /b");
    script.answer(0, after);
    assert_eq!(script.written(0), "GET /c");
    script.answer(0, &ok("c"));
    script.eof(0);
    script.answer(2, &ok("b"));
    script.eof(2);
    let retrieval = script.end();
    let reasons: Vec<CloseReason> = retrieval.connections.iter().map(|c| c.close).collect();
    let expected = [
        CloseReason::ServerIdle,
        CloseReason::ServerAsked,
        CloseReason::Finished,
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn unfinished_requests_of_a_stopped_retrieval_fail_as_local_aborts() {
    let mut script = Script::new("h1.1", Options::default());
    script.connect(0);
    script.answer(0, "HTTP/1.1 200 OK\r\n");
    assert!(!script.driver.is_finished());
    let retrieval = script.driver.finish(script.now);
    assert_eq!(
        outcomes(&retrieval),
        [("/", Outcome::Failed(Failure::LocalAbort))]
    );
    assert_eq!(retrieval.connections[0].close, CloseReason::Open);
    assert_eq!(retrieval.failures, [("/".to_owned(), Failure::LocalAbort)]);
}

#[test]
fn options_that_make_no_valid_request_fail_at_once() {
    let options = Options {
        headers: vec![("Bad Name".to_owned(), "x".to_owned())],
        ..Options::default()
    };
    let mut script = Script::new("h1.1", options);
    assert_eq!(script.actions(), "connect 0, close 0");
    assert_eq!(
        script.end().failures,
        [("/".to_owned(), Failure::LocalAbort)]
    );
}

proptest! {
    #[test]
    fn any_script_passes_the_fuzz_entry(
        start in any::<[u8; 3]>(),
        script in script(),
    ) {
        super::fuzz(&[&start[..], &script].concat());
    }

    #[test]
    fn any_script_with_bundles_passes_the_fuzz_entry(
        policy in 0u8..4,
        bundle in 0u8..6,
        start in any::<[u8; 2]>(),
        script in script(),
    ) {
        // Only policies of HTTP/1.x: the bundles among the responses are HTTP/1.x messages.
        let start = [policy | 16 | bundle << 5, start[0], start[1]];
        super::fuzz(&[&start[..], &script].concat());
    }
}

/// Operations of [`super::fuzz`], among them complete responses.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let mut responses: Vec<Vec<u8>> = [
        &b"HTTP/1.1 200 OK\r\nETag: \"b\"\r\nContent-Length: 20\r\n\r\n<img src=a><img src=d"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n<img src=a>",
        b"HTTP/1.0 200 OK\r\n\r\n<img src=a><img src=b>",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/20\r\nContent-Length: 10\r\n\r\nGIF89a\x01\0\x01\0",
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 10-19/20\r\nContent-Length: 10\r\n\r\n0123456789",
        b"HTTP/1.1 416 R\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 3\r\n\r\nabc",
        b"garbage",
        // HTTP/2: settings and their acknowledgement, then responses on streams 1, 3 and 5.
        b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0",
        b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01",
        b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x25\0\x01\0\0\0\x01<img src=a><script src=s></script>xxx",
        b"\0\0\x01\x01\x05\0\0\0\x01\x88",
        b"\0\0\x01\x01\x04\0\0\0\x03\x88\0\0\x02\0\x01\0\0\0\x03hi",
        b"\0\0\x01\x01\x05\0\0\0\x05\x8d",
        b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x07",
        b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
        // A push of /b with the page, and its response.
        b"\0\0\x1f\x05\x04\0\0\0\x01\0\0\0\x02\x82\x86\x01\x13www.microscape.test\x04\x02/b",
        b"\0\0\x01\x01\x05\0\0\0\x02\x88",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    responses.extend(bundles::some_responses());
    // Data that is too long for one operation is split into several operations.
    let data = (0u8..4, prop::sample::select(responses)).prop_map(|(conn, response)| {
        let parts = response.chunks(255);
        let parts = parts.map(|part| [&[conn << 3, part.len() as u8], part].concat());
        parts.collect::<Vec<_>>().concat()
    });
    let other = (0u8..4, 2u8..8).prop_map(|(conn, operation)| vec![conn << 3 | operation]);
    // Mostly, connections are established and their output is written.
    let proceed = (0u8..4).prop_map(|conn| vec![conn << 3 | 6, conn << 3 | 7]);
    let step = prop_oneof![4 => data, 2 => other, 6 => proceed];
    prop::collection::vec(step, 0..40).prop_map(|steps| steps.concat())
}

#[test]
fn a_response_without_a_length_is_not_ended_by_a_cut() {
    let mut script = Script::new("h1.1", Options::default());
    script.connect(0);
    script.answer(0, "HTTP/1.1 200 OK\r\n\r\nhalf");
    script.driver.handle_cut(ConnectionId(0), script.now);
    let first = &script.driver.exchanges[0].record;
    assert_ne!(first.outcome, Outcome::Complete);
}

#[test]
fn the_number_of_pushes_kept_is_bounded() {
    let mut script = Script::new("h2c-push", Options::default());
    let conn = ConnectionId(0);
    script.driver.handle_connected(conn, script.now);
    let mut bytes = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0".to_vec();
    for n in 1..=MOST_FILES as u32 + 500 {
        let stream = (2 * n).to_be_bytes();
        bytes.extend_from_slice(b"\0\0\x23\x05\x04\0\0\0\x01");
        bytes.extend_from_slice(&stream);
        bytes.extend_from_slice(b"\x82\x86\x01\x13www.microscape.test\x04\x06");
        bytes.extend_from_slice(format!("/{n:05}").as_bytes());
        bytes.extend_from_slice(b"\0\0\x01\x01\x05");
        bytes.extend_from_slice(&stream);
        bytes.push(0x88);
        script.driver.handle_data(conn, &bytes, script.now);
        bytes.clear();
        while !script.driver.transmit(conn).is_empty() {
            let length = script.driver.transmit(conn).len();
            script.driver.transmitted(conn, length, script.now);
        }
    }
    assert!(script.driver.items.len() <= MOST_FILES + 1);
    assert!(script.driver.items.len() > 100);
}
