//! Fuzzing of a connection with arbitrary input.

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

use super::byteranges::{Parts, boundary};
use super::{Config, Connection, Content, Event, Limits, RequestId, RequestLine, Version};

/// An entry point for fuzzing. The first byte selects the requests, the second the position of the cut, and the third
/// the end of the connection. The other bytes are the server's data. Panics in these cases:
/// - whole, cut and byte-by-byte input give different results, with responses taken in one step or not;
/// - content is reported that was not in the input;
/// - the order of events is wrong.
pub fn fuzz(data: &[u8]) {
    let Some((&[requests, cut, end], input)) = data.split_first_chunk::<3>() else {
        return;
    };
    let whole = run(requests, &[input], end, Steps::Many);
    let cut = usize::from(cut).min(input.len());
    let cut = [&input[..cut], &input[cut..]];
    assert_eq!(whole, run(requests, &cut, end, Steps::Many));
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(whole, run(requests, &bytes, end, Steps::Many));
    assert_eq!(whole, run(requests, &[input], end, Steps::Few));
    assert_eq!(whole, run(requests, &cut, end, Steps::Few));
    assert!(whole.content <= input.len());
}

/// Whether responses are taken in one step where that is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    Many,
    Few,
}

/// The results of all requests of one connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    lines: Vec<String>,
    content: usize,
}

fn run(requests: u8, pieces: &[&[u8]], end: u8, steps: Steps) -> Log {
    let now = Instant::ZERO;
    let limits = Limits {
        head: Bytes(400),
        fields: 8,
        interim: 2,
        body: Bytes(300),
    };
    let mut connection = Connection::new(Config {
        depth: 4,
        limits,
        ..Config::default()
    });
    queue(&mut connection, requests);
    connection.flush();
    let written = connection.transmit().len();
    connection.transmitted(written, now);
    let mut log = Log::default();
    let mut judge = Judge::default();
    for piece in pieces {
        drain(&mut connection, piece, steps, &mut log, &mut judge);
    }
    match end % 4 {
        0 => connection.handle_eof(now),
        1 => connection.handle_failure(Failure::Reset, now),
        2 => connection.handle_timeout(now + std::time::Duration::from_secs(3600)),
        _ => connection.finish(),
    }
    drain(&mut connection, &[], steps, &mut log, &mut judge);
    assert!(judge.closed || connection.close_reason().is_none());
    log
}

/// Queues one to four requests of mixed kinds.
fn queue(connection: &mut Connection, requests: u8) {
    let version = match requests >> 6 {
        0 => Version::Http10,
        1 => Version::Http10KeepAlive,
        _ => Version::Http11,
    };
    for place in 0..=(requests & 3) {
        let kind = requests >> 2 & 15;
        let head = kind >> place & 1 == 1;
        let line = RequestLine {
            method: if head { "HEAD" } else { "GET" },
            target: "/",
            host: "h",
            version,
        };
        if let Ok(request) = connection.request(line) {
            let upload = kind == 6 && version == Version::Http11 && !head;
            let sent = match upload {
                true => request.send_with(Content::Chunked, true),
                false => request.send(),
            };
            assert!(sent.is_ok());
        }
    }
}

/// Checks the order of events.
#[derive(Debug, Default)]
struct Judge {
    next: u32,
    begun: bool,
    head: bool,
    closed: bool,
    parts: Option<Parts>,
}

fn drain(
    connection: &mut Connection,
    piece: &[u8],
    steps: Steps,
    log: &mut Log,
    judge: &mut Judge,
) {
    let now = Instant::ZERO;
    let mut input = piece;
    loop {
        if steps == Steps::Few
            && let Some(end) = connection.poll_whole(&mut input, now)
        {
            let Event::End {
                request, received, ..
            } = end
            else {
                panic!("not an end: {end:?}");
            };
            judge.hear(connection, Event::Begin { request }, log);
            judge.hear(connection, Event::Head { request }, log);
            log.content += received.content.0 as usize;
            judge.hear(connection, end, log);
            continue;
        }
        let Some(event) = connection.poll(&mut input, now) else {
            break;
        };
        judge.hear(connection, event, log);
    }
    assert!(input.is_empty());
}

impl Judge {
    fn hear(&mut self, connection: &Connection, event: Event<'_>, log: &mut Log) {
        assert!(!self.closed, "an event after the close: {event:?}");
        let current = RequestId(self.next);
        match event {
            Event::Begin { request } => {
                assert!(request == current && !self.begun);
                self.begun = true;
            }
            Event::Interim { request, .. } | Event::SendContent { request } => {
                assert!(request >= current && !(self.head && request == current));
            }
            Event::Head { request } => {
                assert!(request == current && self.begun && !self.head);
                self.head = true;
                let content_type = connection.head().field("content-type");
                let boundary = content_type.and_then(boundary);
                self.parts = boundary.map(|boundary| Parts::new(boundary, &Limits::default()));
                let fields = connection.head().fields().count();
                log.lines.push(format!("{fields} fields"));
            }
            Event::Content { request, bytes } => {
                assert!(request == current && self.head && !bytes.is_empty());
                log.content += bytes.len();
                let mut bytes = bytes;
                if let Some(parts) = &mut self.parts {
                    while let Ok(Some(_)) = parts.read(&mut bytes) {}
                }
                return;
            }
            Event::End { request, .. } => {
                assert!(request == current && self.head);
                self.next += 1;
                (self.begun, self.head) = (false, false);
            }
            Event::Failed {
                request,
                failure,
                received,
                persists,
            } => {
                assert!(request == current && self.begun && !persists);
                self.next += 1;
                (self.begun, self.head) = (false, false);
                // The number of examined bytes of a broken head or chunk depends on the split.
                let content = received.content;
                log.lines.push(format!("{request:?} {failure:?} {content}"));
                return;
            }
            Event::Unanswered { request, .. } => {
                assert!(request == current && !self.begun);
                self.next += 1;
            }
            Event::Closed { reason } => {
                self.closed = true;
                assert_ne!(reason, CloseReason::Open);
                assert_eq!(connection.outstanding(), 0);
                assert!(connection.transmit().is_empty());
                assert_eq!(connection.close_reason(), Some(reason));
            }
            Event::Trailers { .. }
            | Event::Promised { .. }
            | Event::Settings
            | Event::Pong { .. }
            | Event::Alternatives { .. }
            | Event::GoAway { .. } => panic!("not an event of HTTP/1.x: {event:?}"),
        }
        log.lines.push(format!("{event:?}"));
    }
}
