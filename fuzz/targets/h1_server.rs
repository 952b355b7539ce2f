//! The origin's HTTP/1 connection: any split of a client's bytes gives the same output. The output contains
//! only well-formed responses within the limits, and nothing after the close.
//!
//! The first byte of an input selects the settings of the server; the rest is the data from the client.

#![no_main]

use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathometer_fuzz::Pieces;
use fathometer_http::h1::server::{
    Action, CloseManner, CloseReason, Coalesce, Connection, Limits, Served, ServerConfig,
};
use fathometer_http::origin::{Method, Origin, OriginConfig};
use fathometer_model::{Bytes, ContentCoding, File, FileId, Instant, Page, Site};
use libfuzzer_sys::fuzz_target;

/// Largest request content that the server accepts, in bytes.
const LONGEST_BODY: u64 = 200;

/// Most time-outs until a connection ends.
const LONGEST_WAIT: usize = 10_000;

/// The interim response to a client that waits before it sends content.
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

fuzz_target!(|input: &[u8]| {
    let Some((&setup, rest)) = input.split_first() else {
        return;
    };
    let pieces = Pieces::new(rest);
    let config = config(setup);
    let whole = serve(&config, std::iter::once(pieces.bytes));
    judge(&config, &whole);
    let cut = serve(&config, pieces.cut(60));
    assert_eq!(whole.output, cut.output, "a split changed the output");
    assert_eq!(whole.close, cut.close, "a split changed the close");
    let bytes = serve(&config, pieces.bytes.chunks(1));
    assert_eq!(whole.output, bytes.output, "a split changed the output");
    assert_eq!(whole.close, bytes.close, "a split changed the close");
});

/// The results of a connection.
struct Outcome {
    output: Vec<u8>,
    served: Vec<Served>,
    close: Option<CloseReason>,
    requests: u32,
}

fn origin() -> Arc<Origin> {
    static ORIGIN: OnceLock<Arc<Origin>> = OnceLock::new();
    let make = || {
        let file = |path: &str, content_type: &str, body: &[u8]| File {
            path: path.to_owned(),
            content_type: content_type.to_owned().into(),
            body: body.into(),
            encoded: Vec::new(),
            last_modified: 867_153_600,
        };
        let mut page = file("/index.html", "text/html", &b"<img src=a.gif>".repeat(20));
        page.encoded = vec![(ContentCoding::Deflate, b"coded".as_slice().into())];
        let site = Site {
            name: "fuzz".to_owned(),
            files: vec![
                page,
                file("/a.gif", "image/gif", b"GIF89a"),
                file("/b", "a/b", b""),
            ],
            pages: vec![Page {
                base: FileId(0),
                embedded: vec![FileId(1)],
                named_by: Vec::new(),
            }],
        };
        let config = OriginConfig {
            discard: Some("/sink".to_owned()),
            ..OriginConfig::default()
        };
        Arc::new(Origin::new(Arc::new(site), config).expect("a site that can be served"))
    };
    Arc::clone(ORIGIN.get_or_init(make))
}

fn config(setup: u8) -> Arc<ServerConfig> {
    Arc::new(ServerConfig {
        limits: Limits {
            head: Bytes(600),
            fields: 12,
            target: Bytes(80),
            body: Bytes(LONGEST_BODY),
            backlog: Bytes(700),
            ..Limits::default()
        },
        keep_alive: setup & 1 == 0,
        max_requests_per_connection: (setup & 2 != 0).then_some(3),
        close: match setup & 4 {
            0 => CloseManner::HalfThenDrain,
            _ => CloseManner::Full,
        },
        coalesce: match setup >> 3 & 3 {
            0 => Coalesce::EachResponse,
            1 => Coalesce::UntilInputDrained,
            _ => Coalesce::UntilInputWouldBlock,
        },
        output_buffer: Bytes(u64::from(setup >> 5) * 150),
        service_time: match setup >> 5 {
            6 => Duration::from_millis(10),
            _ => Duration::ZERO,
        },
        connection_time: Duration::from_millis(if setup & 1 == 0 { 0 } else { 5 }),
        events: true,
        request_text: setup & 2 != 0,
        // After an upgrade, another machine handles the input, with its own fuzz target.
        upgrade: false,
    })
}

/// Runs one connection from its first byte to its end.
fn serve<'a>(config: &Arc<ServerConfig>, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut now = Instant::ZERO;
    let mut connection = Connection::new(origin(), Arc::clone(config), now);
    let mut outcome = Outcome {
        output: Vec::new(),
        served: Vec::new(),
        close: None,
        requests: 0,
    };
    let mut closed = false;
    for piece in pieces {
        connection.handle_data(piece, now);
        drain(&mut connection, &mut outcome, &mut closed, now);
    }
    connection.handle_eof(now);
    drain(&mut connection, &mut outcome, &mut closed, now);
    // What remains are time limits, each of which passes once, and the service times of requests. Together
    // there are fewer than this.
    for _ in 0..LONGEST_WAIT {
        let Some(at) = connection.poll_timeout() else {
            break;
        };
        now = now.max(at);
        connection.handle_timeout(now);
        drain(&mut connection, &mut outcome, &mut closed, now);
    }
    assert!(connection.is_finished(), "it never ends");
    outcome.close = connection.close_reason();
    outcome.requests = connection.requests();
    outcome
}

/// Takes all output, some of it in small writes.
fn drain(connection: &mut Connection, outcome: &mut Outcome, closed: &mut bool, now: Instant) {
    loop {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = connection.transmit(&mut slices);
        let offered: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
        if offered.is_empty() {
            assert_eq!(filled, 0, "a write of nothing");
            break;
        }
        assert!(!*closed, "output after the close");
        let taken = match outcome.output.len() % 3 {
            0 => offered.len(),
            _ => offered.len().div_ceil(2),
        };
        outcome.output.extend_from_slice(&offered[..taken]);
        connection.transmitted(taken, now);
    }
    while let Some(served) = connection.poll_event() {
        outcome.served.push(served);
    }
    while let Some(action) = connection.poll_action() {
        assert!(
            !*closed || action != Action::ShutdownWrite,
            "the same half closed twice"
        );
        *closed = true;
    }
}

/// Parses the output with the help of the events.
fn judge(config: &ServerConfig, outcome: &Outcome) {
    if let Some(most) = config.max_requests_per_connection {
        assert!(outcome.requests <= most, "more requests than the limit");
    }
    assert!(outcome.close.is_some(), "a close without a reason");
    let mut rest = &outcome.output[..];
    for served in &outcome.served {
        // For content that is too long, the bytes received together with the first excess byte count too.
        assert!(
            served.request_body.0 <= LONGEST_BODY || served.status == 413,
            "{served:?}"
        );
        let (head, after) = rest.split_at(served.head.0 as usize);
        let (_, after) = after.split_at(served.body.0 as usize);
        judge_head(head, served);
        rest = after;
    }
    // A client may receive 100 (Continue) and then send nothing more.
    let truncated = outcome.close == Some(CloseReason::ClientTruncated);
    assert!(
        rest.is_empty() || (truncated && rest == CONTINUE.as_bytes()),
        "{} bytes of no response",
        rest.len()
    );
    if let Some(CloseReason::Refused(refusal)) = outcome.close {
        let last = outcome.served.last().expect("a refusal is an answer");
        assert_eq!(
            last.status,
            refusal.status().code(),
            "an answer after a refusal"
        );
    }
}

/// A head has lines of the correct form, ends with an empty line, and states the length of the content.
fn judge_head(head: &[u8], served: &Served) {
    let head = std::str::from_utf8(head).expect("a head is ASCII");
    let final_head = head.strip_prefix(CONTINUE).unwrap_or(head);
    let lines = final_head
        .strip_suffix("\r\n\r\n")
        .expect("a head ends in an empty line");
    let mut lines = lines.split("\r\n");
    let status_line = lines.next().expect("a status line");
    assert!(
        status_line.starts_with(&format!("HTTP/1.1 {} ", served.status)),
        "{status_line:?} for {}",
        served.status
    );
    let mut length = None;
    for line in lines {
        assert!(!line.contains(['\r', '\n']), "{line:?}");
        let (name, value) = line
            .split_once(": ")
            .expect("a field has a name and a value");
        assert!(!name.is_empty() && !name.contains(' '), "{line:?}");
        if name.eq_ignore_ascii_case("content-length") {
            assert!(length.is_none(), "two lengths");
            length = Some(value.parse::<u64>().expect("a length is a number"));
        }
    }
    let has_content = served.method != Method::Head && !matches!(served.status, 204 | 304);
    if has_content {
        assert_eq!(
            length,
            Some(served.body.0),
            "the length is not what follows"
        );
    } else {
        assert_eq!(served.body.0, 0, "content where there may be none");
    }
}
