//! Fuzzing of a connection with arbitrary input.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

use super::{Config, Connection, Content, Event, Limits, Qpack, RequestId, RequestLine, Version};
use crate::h3::{Action, Direction};
use crate::qpack::EncoderPolicy;

/// An entry point for fuzzing. The first byte selects the requests, and the second the end of the connection. The
/// remaining bytes control the server, in pieces: one byte for the stream and the operation, one for the length, and
/// the data. Panics in these cases:
/// - the result depends on the split of the pieces;
/// - more content is reported than was sent;
/// - the order of events is invalid.
pub fn fuzz(data: &[u8]) {
    let Some((&[requests, end], script)) = data.split_first_chunk::<2>() else {
        return;
    };
    let whole = run(requests, end, script, usize::MAX);
    assert_eq!(whole, run(requests, end, script, 1));
    assert_eq!(whole, run(requests, end, script, 3));
    assert!(whole.content <= script.len());
}

/// The results of all requests of one connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    /// Log lines of each request, and of the connection.
    lines: BTreeMap<Option<RequestId>, Vec<String>>,
    content: usize,
}

struct Host {
    connection: Connection,
    log: Log,
    judges: BTreeMap<RequestId, Judge>,
    /// For each blocked stream: the bytes that were not read, and the bytes that arrived later.
    left: BTreeMap<u64, Vec<u8>>,
    /// Four times the number of unidirectional streams that the client has opened.
    own: u64,
    closed: bool,
    piece: usize,
    now: Instant,
}

/// Checks the order of a request's events.
#[derive(Debug, Default)]
struct Judge {
    begun: bool,
    head: bool,
    done: bool,
}

fn run(requests: u8, end: u8, script: &[u8], piece: usize) -> Log {
    let now = Instant::ZERO;
    let config = Config {
        streams: 4,
        qpack: Qpack {
            table: 400,
            blocked_streams: 2,
            encoder: EncoderPolicy {
                table: 200,
                may_block: true,
                outstanding: 3,
            },
        },
        reserved: requests & 0x80 != 0,
        limits: Limits {
            head: Bytes(400),
            fields: 8,
            interim: 2,
            body: Bytes(300),
        },
        ..Config::default()
    };
    let mut host = Host {
        connection: Connection::new(config, now),
        log: Log::default(),
        judges: BTreeMap::new(),
        left: BTreeMap::new(),
        own: 0,
        closed: false,
        piece,
        now,
    };
    for place in 0..=(requests & 3) {
        host.request(requests >> 2, place);
    }
    host.settle();
    let mut rest = script;
    while let Some((&[what, length], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        host.step(what, bytes);
    }
    match end % 4 {
        0 => host.connection.handle_failure(Failure::Reset, now),
        1 => host
            .connection
            .handle_peer_close(u64::from(end) + 0xff, now),
        2 => host
            .connection
            .handle_timeout(now + Duration::from_secs(3600)),
        _ => host.connection.finish(),
    }
    host.settle();
    assert!(host.closed || host.connection.close_reason().is_none());
    host.log
}

/// The streams on which input may arrive: request streams, the server's three critical streams, and others.
const STREAMS: [u64; 16] = [0, 4, 8, 12, 3, 7, 11, 15, 0, 4, 3, 7, 11, 1, 19, 16];

impl Host {
    fn request(&mut self, kind: u8, place: u8) {
        let line = RequestLine {
            method: if kind >> place & 1 == 1 {
                "HEAD"
            } else {
                "GET"
            },
            target: "/",
            host: "h",
            version: Version::Http11,
        };
        if let Ok(mut request) = self.connection.request(line) {
            request.field("x-a", "b");
            let sent = match kind & 0x10 {
                0 => request.send(),
                _ => request.send_with(Content::Sized(9), kind & 8 != 0),
            };
            assert!(sent.is_ok());
        }
    }

    fn step(&mut self, what: u8, bytes: &[u8]) {
        let stream = STREAMS[usize::from(what & 15)];
        let now = self.now;
        match what >> 4 {
            0..=9 => self.data(stream, bytes),
            10 | 11 if !self.left.contains_key(&stream) => self.connection.handle_fin(stream, now),
            12 => self
                .connection
                .handle_reset(stream, 0x100 + bytes.len() as u64, now),
            13 => self
                .connection
                .handle_stop_sending(stream & !3, bytes.len() as u64, now),
            14 => self
                .connection
                .cancel(RequestId(u32::from(what & 3)), Failure::LocalAbort, now),
            15 => self.request(what & 15, 0),
            _ => {}
        }
        self.settle();
    }

    fn data(&mut self, stream: u64, bytes: &[u8]) {
        if let Some(left) = self.left.get_mut(&stream) {
            left.extend_from_slice(bytes);
            return;
        }
        for (place, piece) in bytes.chunks(self.piece.min(bytes.len().max(1))).enumerate() {
            let mut input = piece;
            self.poll(stream, &mut input);
            if !input.is_empty() {
                let rest = bytes[place * self.piece..][piece.len() - input.len()..].to_vec();
                self.left.insert(stream, rest);
                return;
            }
        }
    }

    fn poll(&mut self, stream: u64, input: &mut &[u8]) {
        while let Some(event) = self.connection.poll(stream, input, self.now) {
            self.note(event);
        }
    }

    /// Performs all outstanding actions.
    fn settle(&mut self) {
        let now = self.now;
        loop {
            while let Some(event) = self.connection.poll_event(now) {
                self.note(event);
            }
            let Some(stream) = self.connection.poll_unblocked() else {
                break;
            };
            let left = self.left.remove(&stream).unwrap_or_default();
            let mut input = &left[..];
            self.poll(stream, &mut input);
            if !input.is_empty() {
                self.left.insert(stream, input.to_vec());
            }
        }
        while let Some(direction) = self.connection.wants_stream() {
            let stream = match direction {
                Direction::Unidirectional => {
                    self.own += 4;
                    self.own - 2
                }
                Direction::Bidirectional => u64::from(self.connection.opened()) * 4,
            };
            assert!(stream < 12 || direction == Direction::Bidirectional);
            self.connection.handle_opened(stream, now);
        }
        loop {
            let mut slices = [IoSlice::new(&[])];
            let Some(offer) = self.connection.transmit(&mut slices, 50) else {
                break;
            };
            assert!(offer.bytes > 0 || offer.end);
            assert_eq!(slices[0].len(), offer.bytes);
            let (stream, bytes) = (offer.stream, offer.bytes);
            self.connection.transmitted(stream, bytes, now);
        }
        while let Some(action) = self.connection.poll_action() {
            if let Action::Close { .. } = action {
                assert!(self.connection.close_reason().is_some());
            }
        }
    }

    fn note(&mut self, event: Event<'_>) {
        assert!(!self.closed, "event after `Closed`: {event:?}");
        let request = match event {
            Event::Begin { request }
            | Event::Interim { request, .. }
            | Event::SendContent { request }
            | Event::Head { request }
            | Event::Content { request, .. }
            | Event::Trailers { request }
            | Event::End { request, .. }
            | Event::Failed { request, .. }
            | Event::Unanswered { request, .. } => request,
            Event::Closed { reason } => {
                self.closed = true;
                assert_ne!(reason, CloseReason::Open);
                assert_eq!(self.connection.outstanding(), 0);
                assert_eq!(self.connection.close_reason(), Some(reason));
                self.line(None, format!("{event:?}"));
                return;
            }
            _ => return self.line(None, format!("{event:?}")),
        };
        let judge = self.judges.entry(request).or_default();
        assert!(!judge.done, "event after the end of the request: {event:?}");
        match event {
            Event::Begin { .. } => assert!(!std::mem::replace(&mut judge.begun, true)),
            Event::Head { .. } => {
                assert!(judge.begun && !std::mem::replace(&mut judge.head, true));
                let fields = self.connection.head().fields().count();
                self.line(Some(request), format!("{fields} fields"));
            }
            Event::Interim { .. } => assert!(judge.begun && !judge.head),
            Event::Content { bytes, .. } => {
                assert!(judge.head && !bytes.is_empty());
                self.log.content += bytes.len();
                return;
            }
            Event::Trailers { .. } => assert!(judge.head),
            Event::End { .. } => {
                assert!(judge.head);
                judge.done = true;
            }
            Event::Failed {
                failure, received, ..
            } => {
                assert!(judge.begun);
                judge.done = true;
                // The split of the input determines how much of a broken frame was parsed.
                let content = received.content;
                return self.line(Some(request), format!("{failure:?} {content}"));
            }
            Event::Unanswered { .. } => {
                assert!(!judge.begun);
                judge.done = true;
            }
            _ => {}
        }
        self.line(Some(request), format!("{event:?}"));
    }

    fn line(&mut self, request: Option<RequestId>, line: String) {
        self.log.lines.entry(request).or_default().push(line);
    }
}
