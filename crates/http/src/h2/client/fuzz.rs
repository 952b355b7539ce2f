//! Fuzzing of a connection with arbitrary input.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::{Bytes, Failure, Instant};

use super::{
    Config, Connection, Content, Event, Floods, Limits, Push, RequestId, RequestLine, Timeouts,
};
use crate::exchange::Version;
use crate::h2::StreamId;
use crate::h2::error::ErrorCode;
use crate::h2::flow::UpdateAt;
use crate::h2::frame::{FrameType, Header, flags, write};
use crate::h2::settings::Settings;
use crate::hpack::{Encoder, Indexing};

/// An entry point for fuzzing. The first byte selects the requests and the configuration, the second the position at
/// which the input is split, and the third the end of the connection. The fourth selects whether the remaining bytes
/// are raw server output or a script of frames, which finds more errors. Panics in these cases:
/// - the whole, split and byte-by-byte input give different results;
/// - content is reported that was not in the input;
/// - the order of events is wrong;
/// - the connection buffers more data than its limits allow.
pub fn fuzz(data: &[u8]) {
    let Some((&[requests, cut, end, kind], rest)) = data.split_first_chunk::<4>() else {
        return;
    };
    let wire = match kind % 4 {
        0 => rest.to_vec(),
        _ => script(rest),
    };
    let input = &wire[..];
    let whole = run(requests, &[input], end);
    // A script can expand to more than 256 bytes, so the split position is scaled to its length.
    let cut = usize::from(cut) * (input.len() + 1) / 256;
    assert_eq!(whole, run(requests, &[&input[..cut], &input[cut..]], end));
    if input.len() <= 4096 {
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(whole, run(requests, &bytes, end));
    }
    assert!(whole.content <= input.len());
}

/// Builds frames from a script; a few bytes select the type, stream and contents of each frame.
fn script(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(4096);
    if input.first().is_some_and(|first| first & 1 == 0) {
        write::settings(&mut out, std::iter::empty());
    }
    let mut rest = input;
    while let Some((&[what, stream, with], after)) = rest.split_first_chunk::<3>() {
        rest = after;
        let on = StreamId::new(u32::from(stream % 16));
        let ends = with & 1 == 1;
        match what % 16 {
            0..=4 => {
                let carrier = match what & 0x40 {
                    0 => write::Carrier::Headers {
                        end_stream: ends,
                        dependency: None,
                    },
                    _ => write::Carrier::Push {
                        promised: StreamId::new(u32::from(with % 16)),
                    },
                };
                let fields = FIELDS[usize::from(with >> 1) % FIELDS.len()];
                let size = if what & 0x80 == 0 { 16_384 } else { 7 };
                write::header_block(&mut out, on, carrier, size, |out| {
                    encoder.begin(out);
                    for (name, value) in fields {
                        let indexing = match what & 0x20 {
                            0 => Indexing::Yes,
                            _ => Indexing::No,
                        };
                        encoder.encode(name.as_bytes(), value.as_bytes(), indexing, out);
                    }
                });
            }
            5..=8 => {
                let length = rest.len().min(usize::from(with >> 1));
                let (content, after) = rest.split_at(length);
                rest = after;
                write::data_header(&mut out, on, length as u32, ends);
                out.extend_from_slice(content);
            }
            9 => write::settings(
                &mut out,
                [(u16::from(stream), u32::from(with) << 8)].into_iter(),
            ),
            10 => write::settings_acknowledged(&mut out),
            11 => write::ping(&mut out, ends, [with; 8]),
            12 => write::reset(&mut out, on, ErrorCode(u32::from(with % 16))),
            13 => write::window_update(&mut out, on, u32::from(with) << (stream >> 4)),
            14 => write::go_away(&mut out, on, ErrorCode(u32::from(with % 3)), b""),
            _ => {
                // An arbitrary frame: the type, flags, stream and payload come from the input.
                let length = rest.len().min(usize::from(with % 32));
                let (payload, after) = rest.split_at(length);
                rest = after;
                let header = Header {
                    length: length as u32,
                    kind: FrameType(what >> 4),
                    flags: with & (flags::PADDED | flags::END_HEADERS | flags::END_STREAM),
                    stream: on,
                };
                write::header(&mut out, header);
                out.extend_from_slice(payload);
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The fields for the header blocks of a script.
const FIELDS: [&[(&str, &str)]; 14] = [
    &[(":status", "200")],
    &[(":status", "200"), ("content-length", "5")],
    &[(":status", "204"), ("server", "x"), ("date", "today")],
    &[(":status", "404"), ("content-length", "0")],
    &[(":status", "100")],
    &[(":status", "103"), ("link", "</a>; rel=preload")],
    &[(":status", "304"), ("etag", "\"a\"")],
    &[("trailer", "x")],
    &[(":status", "200"), ("Server", "x")],
    &[(":status", "200"), ("connection", "close")],
    &[(":status", "200"), ("content-length", "400")],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "h"),
        (":path", "/p"),
    ],
    &[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "h"),
        (":path", "/p"),
    ],
    &[],
];

/// The results of all requests of one connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    lines: Vec<String>,
    content: usize,
}

fn config(requests: u8) -> Config {
    Config {
        streams: 4,
        settings: Settings {
            max_concurrent_streams: Some(2),
            initial_window_size: if requests & 0x80 == 0 { 65_535 } else { 100 },
            ..Settings::default()
        },
        update_at: if requests & 0x80 == 0 {
            UpdateAt::Percent(50)
        } else {
            UpdateAt::Once
        },
        push: match requests >> 5 & 3 {
            0 => Push::Disabled,
            1 => Push::Refused,
            _ => Push::Accepted,
        },
        most_pushes: 3,
        limits: Limits {
            head: Bytes(400),
            fields: 8,
            interim: 2,
            body: Bytes(300),
        },
        timeouts: Timeouts::default(),
        floods: Floods {
            answers: 30,
            idle: 60,
            waiting: 2000,
        },
        ..Config::default()
    }
}

fn run(requests: u8, pieces: &[&[u8]], end: u8) -> Log {
    let mut now = Instant::from_nanos(1);
    let mut connection = Connection::new(config(requests));
    let mut judge = Judge::default();
    let asked = queue(&mut connection, requests, &mut judge);
    // The transport does not take all output: a part of the last request or the whole request remains.
    connection.flush();
    let offered = connection.transmit().len();
    let kept = if requests & 0x10 == 0 { 0 } else { 5 };
    connection.transmitted(offered - kept, now);
    let mut log = Log::default();
    for piece in pieces {
        drain(&mut connection, piece, now, &mut log, &mut judge);
    }
    if end & 0x10 != 0 {
        let request = RequestId(u32::from(end >> 5) % asked.max(1));
        connection.cancel(request, Failure::LocalAbort, now);
        drain(&mut connection, &[], now, &mut log, &mut judge);
    }
    match end % 5 {
        0 => connection.handle_eof(now),
        1 => connection.handle_failure(Failure::Reset, now),
        2 => {
            now += Duration::from_secs(3600);
            connection.handle_timeout(now);
        }
        3 => connection.finish(),
        _ => {
            let written = connection.transmit().len();
            connection.transmitted(written, now);
            drain(&mut connection, &[], now, &mut log, &mut judge);
            connection.renew();
            judge = Judge::default();
            queue(&mut connection, requests, &mut judge);
            connection.finish();
        }
    }
    drain(&mut connection, &[], now, &mut log, &mut judge);
    assert!(judge.closed || connection.close_reason().is_none());
    if judge.closed {
        assert!(
            judge.states.is_empty(),
            "requests without a final event: {judge:?}"
        );
    }
    log
}

/// Queues one to four requests of mixed kinds; returns their number.
fn queue(connection: &mut Connection, requests: u8, judge: &mut Judge) -> u32 {
    let count = u32::from(requests & 3) + 1;
    for place in 0..count {
        let uploads = requests >> 2 & 3 == 3 && place % 2 == 0;
        let head = requests >> 2 & 3 == 1 && place % 2 == 0;
        let line = RequestLine {
            method: match (uploads, head) {
                (true, _) => "POST",
                (_, true) => "HEAD",
                _ => "GET",
            },
            target: "/",
            host: "h",
            version: Version::Http11,
        };
        let request = connection
            .request(line)
            .expect("four requests are below the limit");
        let sent = match uploads {
            true => request.send_with(Content::Sized(30_000), place == 0),
            false => request.send(),
        };
        let request = sent.expect("the request is valid").request;
        assert_eq!(request, RequestId(place));
        judge.states.insert(request, State::Asked);
        if uploads && place > 0 {
            let taken = connection.send_content(request, &[b'u'; 30_000]);
            assert_eq!(taken, Ok(()));
        }
    }
    count
}

/// The progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    Begun,
    Content,
    Trailers,
}

/// Checks the order of events.
#[derive(Debug, Default)]
struct Judge {
    states: BTreeMap<RequestId, State>,
    closed: bool,
}

impl Judge {
    fn state(&mut self, request: RequestId) -> &mut State {
        let found = self.states.get_mut(&request);
        found.unwrap_or_else(|| panic!("{request:?} has already ended or was never sent"))
    }

    fn check(&mut self, connection: &Connection, event: &Event<'_>) {
        assert!(!self.closed, "an event after the close: {event:?}");
        match *event {
            Event::Begin { request } => {
                let state = self.state(request);
                assert_eq!(std::mem::replace(state, State::Begun), State::Asked);
            }
            Event::Interim { request, .. } => assert_eq!(*self.state(request), State::Begun),
            Event::SendContent { request } => {
                assert!(!request.is_pushed() && *self.state(request) != State::Trailers);
            }
            Event::Head { request } => {
                let state = self.state(request);
                assert_eq!(std::mem::replace(state, State::Content), State::Begun);
                assert!((200..=999).contains(&connection.head().status()));
            }
            Event::Content { request, bytes } => {
                assert!(*self.state(request) == State::Content && !bytes.is_empty());
            }
            Event::Trailers { request } => {
                let state = self.state(request);
                assert_eq!(std::mem::replace(state, State::Trailers), State::Content);
            }
            Event::End { request, .. } => {
                let state = *self.state(request);
                assert!(matches!(state, State::Content | State::Trailers));
                self.states.remove(&request);
            }
            Event::Failed { request, .. } => {
                assert!(*self.state(request) != State::Asked);
                self.states.remove(&request);
            }
            Event::Unanswered { request, .. } => {
                assert_eq!(*self.state(request), State::Asked);
                self.states.remove(&request);
            }
            Event::Promised {
                request, accepted, ..
            } => {
                assert!(request.is_pushed() && !self.states.contains_key(&request));
                if accepted {
                    self.states.insert(request, State::Asked);
                    let promise = connection.promise().expect("the promise was read");
                    assert_eq!(promise.authority, "h");
                }
            }
            Event::Alternatives { request } => {
                let (origin, value) = connection.alternatives();
                assert!(origin.is_ascii() && value.is_ascii());
                assert_eq!(origin.is_empty(), request.is_some());
                if let Some(request) = request {
                    self.state(request);
                }
            }
            Event::Settings | Event::Pong { .. } | Event::GoAway { .. } => {}
            Event::Closed { reason } => {
                self.closed = true;
                assert_eq!(
                    connection.outstanding() + connection.outstanding_pushes(),
                    0
                );
                assert_eq!(connection.close_reason(), Some(reason));
            }
        }
        let outstanding = connection.outstanding() + connection.outstanding_pushes();
        assert!(
            outstanding <= self.states.len(),
            "more exchanges are outstanding than were reported"
        );
    }
}

fn drain(
    connection: &mut Connection,
    piece: &[u8],
    now: Instant,
    log: &mut Log,
    judge: &mut Judge,
) {
    let mut input = piece;
    while let Some(event) = connection.poll(&mut input, now) {
        judge.check(connection, &event);
        match event {
            Event::Content { bytes, .. } => {
                log.content += bytes.len();
                continue;
            }
            // The split of the input determines how much of a broken frame was examined.
            Event::Failed {
                request,
                failure,
                received,
                persists,
            } => {
                let content = received.content;
                log.lines
                    .push(format!("{request:?} {failure:?} {content} {persists}"));
                continue;
            }
            _ => log.lines.push(format!("{event:?}")),
        }
    }
    assert!(input.is_empty());
    // The limit: four windows of content, and the connection's own frames.
    assert!(connection.transmit().len() < 130_000);
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;

    /// A short random search; the fuzzer searches longer and is guided by coverage.
    #[test]
    fn random_scripts_give_the_same_events_at_any_split() {
        for number in 0..4000 {
            let seed = Seed(number);
            let length = 4 + seed.draw(0) % 120;
            let input: Vec<u8> = (1..=length).map(|place| seed.draw(place) as u8).collect();
            fuzz(&input);
        }
    }
}
