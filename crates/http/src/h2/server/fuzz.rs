//! Fuzzing of a server connection with arbitrary input.

use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathometer_model::{Bytes, File, FileId, Instant, Page, Site};

use super::{
    Allowance, CloseReason, Connection, FieldIndexing, Heads, Scheduling, Served, ServerConfig,
    Writes,
};
use crate::exchange::Action;
use crate::field_block::FieldBlock;
use crate::h2::error::ErrorCode;
use crate::h2::flow::UpdateAt;
use crate::h2::frame::{self, Frame, FrameType, Header, Reader, flags, write};
use crate::h2::{PREFACE, StreamId};
use crate::hpack::{Decoder, Encoder, Indexing};
use crate::origin::{Origin, OriginConfig};

/// The maximum number of time-outs before a connection ends.
const LONGEST_WAIT: usize = 1000;

/// An entry point for fuzzing. The first byte selects the server's configuration, and the second the position at which
/// the input is split. The third selects whether the remaining bytes are raw client output or a script of frames, which
/// finds more errors. Panics in these cases:
/// - the whole, split and byte-by-byte input give different results;
/// - the output is not a valid sequence of HTTP/2 frames;
/// - a window is exceeded;
/// - output follows the close;
/// - the connection does not end.
pub fn fuzz(data: &[u8]) {
    let Some((&[setup, cut, kind], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let wire = match kind % 4 {
        0 => rest.to_vec(),
        _ => script(rest),
    };
    let input = &wire[..];
    let config = config(setup);
    let whole = run(&config, [input].into_iter());
    let cut = usize::from(cut) * (input.len() + 1) / 256;
    let (before, after) = input.split_at(cut);
    assert_eq!(whole, run(&config, [before, after].into_iter()));
    if input.len() <= 4096 {
        assert_eq!(whole, run(&config, input.chunks(1)));
    }
    judge(&whole.output);
}

/// The results of a connection.
#[derive(Debug, PartialEq)]
struct Outcome {
    output: Vec<u8>,
    served: Vec<Served>,
    close: Option<CloseReason>,
    requests: u32,
}

fn config(setup: u8) -> Arc<ServerConfig> {
    let mut config = ServerConfig {
        events: true,
        scheduling: match setup & 3 {
            0 => Scheduling::AsAsked,
            1 => Scheduling::Urgency,
            2 => Scheduling::Tree,
            _ => Scheduling::RoundRobin,
        },
        indexing: match setup >> 2 & 3 {
            0 => FieldIndexing::Shared,
            1 => FieldIndexing::All,
            _ => FieldIndexing::Nothing,
        },
        remembered: u32::from(setup >> 4 & 1) * 4,
        max_requests_per_connection: (setup >> 5 & 1 == 1).then_some(3),
        ..ServerConfig::default()
    };
    let framing = &mut config.framing;
    // Otherwise, the number of frames queued before the remaining input arrives would depend on the split.
    framing.ahead = Bytes(0);
    framing.data = 100;
    framing.copied = 60;
    if setup >> 6 & 1 == 1 {
        framing.writes = Writes::EachFrame;
        framing.heads = Heads::AtOnce;
    }
    if setup >> 7 == 1 {
        config.service_time = Duration::from_millis(10);
        config.connection_time = Duration::from_millis(5);
        config.receive.update = UpdateAt::Once;
    }
    config.receive.stream = 300;
    let limits = &mut config.limits;
    let few = Allowance {
        burst: 20,
        per_second: 1,
    };
    (limits.resets, limits.provoked_resets) = (few, few);
    (limits.answers, limits.idle_frames) = (few, few);
    limits.streams = 6;
    limits.head = Bytes(600);
    limits.block = 900;
    limits.continuations = 3;
    limits.fields = 12;
    limits.body = Bytes(200);
    limits.target = Bytes(80);
    Arc::new(config)
}

fn origin() -> Arc<Origin> {
    static ORIGIN: OnceLock<Arc<Origin>> = OnceLock::new();
    let make = || {
        let file = |path: &str, body: Vec<u8>| File {
            path: path.to_owned(),
            content_type: "text/html".into(),
            body: body.into(),
            encoded: Vec::new(),
            last_modified: 867_153_600,
        };
        let site = Site {
            name: "fuzz".to_owned(),
            files: vec![
                file("/index.html", b"<img src=/a>".to_vec()),
                file("/a", vec![b'a'; 350]),
                file("/long", vec![b'l'; 90_000]),
                file("/empty", Vec::new()),
            ],
            pages: vec![Page {
                base: FileId(0),
                embedded: vec![FileId(1)],
                named_by: Vec::new(),
            }],
        };
        let config = OriginConfig {
            discard: Some("/sink".to_owned()),
            push: "/index.html /a /empty".parse().unwrap_or_default(),
            early_hints: "/a /empty".parse().unwrap_or_default(),
            ..OriginConfig::default()
        };
        // The site is built in this function, so an error is a bug in this file.
        Arc::new(Origin::new(Arc::new(site), config).expect("the site is valid"))
    };
    Arc::clone(ORIGIN.get_or_init(make))
}

/// Runs one connection from its first byte to its end.
fn run<'a>(config: &Arc<ServerConfig>, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut now = Instant::ZERO;
    let mut connection = Connection::new(origin(), Arc::clone(config), now);
    let mut outcome = Outcome {
        output: Vec::new(),
        served: Vec::new(),
        close: None,
        requests: 0,
    };
    for piece in pieces {
        connection.handle_data(piece, now);
    }
    let mut closed = false;
    drain(&mut connection, &mut outcome, &mut closed, now);
    connection.handle_eof(now);
    drain(&mut connection, &mut outcome, &mut closed, now);
    for _ in 0..LONGEST_WAIT {
        let Some(at) = connection.poll_timeout() else {
            break;
        };
        now = now.max(at);
        connection.handle_timeout(now);
        drain(&mut connection, &mut outcome, &mut closed, now);
    }
    assert!(connection.is_finished(), "the connection did not end");
    while connection.cut_short(now).is_some() {}
    outcome.close = connection.close_reason();
    assert!(
        outcome.close.is_some(),
        "a closed connection has no close reason"
    );
    outcome.requests = connection.requests();
    if let Some(most) = config.max_requests_per_connection {
        assert!(outcome.requests <= most, "more requests than the limit");
    }
    outcome
}

/// Takes all output, some of it in small writes.
fn drain(connection: &mut Connection, outcome: &mut Outcome, closed: &mut bool, now: Instant) {
    loop {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = connection.transmit(&mut slices);
        let offered: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
        if offered.is_empty() {
            assert_eq!(filled, 0, "an empty write is offered");
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
        assert!(!*closed || action != Action::ShutdownWrite);
        *closed = true;
    }
}

/// Checks the output as a client does.
fn judge(output: &[u8]) {
    let mut reader = Reader::new(frame::Limits {
        block: 1 << 20,
        ..frame::Limits::default()
    });
    let mut decoder = Decoder::new(u32::MAX, u64::MAX);
    let mut ended = std::collections::HashSet::new();
    let mut headed = std::collections::HashSet::new();
    let mut content = 0_u64;
    let mut input = output;
    while let Some(frame) = reader.read(&mut input) {
        match frame.expect("frames are well-formed") {
            Frame::Headers(block) => {
                let mut fields = FieldBlock::default();
                assert_eq!(decoder.decode(block.block, &mut fields), Ok(()));
                let status = fields.get(":status").expect("a head has a status");
                assert!(
                    !ended.contains(&block.stream),
                    "a head after the end of the stream"
                );
                assert!(
                    !headed.contains(&block.stream),
                    "two final heads on one stream"
                );
                if status[0] != b'1' {
                    headed.insert(block.stream);
                }
                if block.end_stream {
                    ended.insert(block.stream);
                }
            }
            Frame::Data(piece) => {
                assert!(headed.contains(&piece.stream), "content before the head");
                assert!(
                    !ended.contains(&piece.stream),
                    "content after the end of the stream"
                );
                content += piece.content.len() as u64;
                if piece.end_stream {
                    ended.insert(piece.stream);
                }
            }
            Frame::Push { promised, block } => {
                let mut fields = FieldBlock::default();
                assert_eq!(decoder.decode(block.block, &mut fields), Ok(()));
                assert!(promised.is_server() && !ended.contains(&block.stream));
            }
            Frame::Reset { stream, .. } => {
                ended.insert(stream);
            }
            _ => {}
        }
    }
    assert!(reader.is_between_frames(), "the output ends within a frame");
    // A script grants only a few windows of at most 2^24 bytes.
    assert!(content < 1 << 40);
}

/// Builds frames from a script; three bytes select the type, stream and contents of each frame.
fn script(input: &[u8]) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    let mut encoder = Encoder::new(4096);
    write::settings(&mut out, std::iter::empty());
    write::settings_acknowledged(&mut out);
    let mut next = 1;
    let mut rest = input;
    while let Some((&[what, on, with], after)) = rest.split_first_chunk::<3>() {
        rest = after;
        let mut id = u32::from(on % 16);
        let ends = with & 1 == 1;
        if what % 16 <= 5 && on & 0x80 == 0 {
            id = next;
            next += 2;
        }
        let stream = StreamId::new(id);
        match what % 16 {
            0..=5 => {
                let paths = [
                    "/index.html",
                    "/a",
                    "/long",
                    "/empty",
                    "/sink",
                    "/none",
                    "",
                    "*",
                ];
                let path = paths[usize::from(with >> 1 & 7)];
                let posts = path == "/sink" || !ends;
                let start = out.len();
                let carrier = write::Carrier::Headers {
                    end_stream: ends,
                    dependency: (what & 0x20 != 0).then(|| frame::Dependency {
                        on: StreamId::new(u32::from(on >> 3 & 15)),
                        exclusive: on & 1 == 1,
                        weight: with,
                    }),
                };
                let most = if what & 0x40 == 0 { 16_384 } else { 11 };
                write::header_block(&mut out, stream, carrier, most, |out| {
                    encoder.begin(out);
                    let mut add = |name: &str, value: &str| {
                        encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, out);
                    };
                    add(":method", if posts { "POST" } else { "GET" });
                    add(":scheme", "http");
                    add(":authority", "h");
                    add(":path", path);
                    match with >> 4 {
                        1 => add("priority", "u=1, i"),
                        2 => add("content-length", "7"),
                        3 => add("expect", "100-continue"),
                        4 => add("range", "bytes=1-3, 5-9"),
                        5 => add("connection", "close"),
                        6 => add("x", &"y".repeat(700)),
                        7 => add("", "z"),
                        _ => {}
                    }
                });
                if what & 0x80 != 0 && with & 8 != 0 {
                    out.truncate(start + (out.len() - start) / 2);
                }
            }
            6 | 7 => {
                let kind = FrameType::DATA;
                let padded = what & 0x20 != 0;
                let flags = u8::from(ends) | if padded { flags::PADDED } else { 0 };
                raw(
                    &mut out,
                    kind,
                    flags,
                    stream,
                    &vec![with >> 5; usize::from(with)],
                );
            }
            8 => write::reset(&mut out, stream, ErrorCode(with.into())),
            9 | 10 => {
                let increment = u32::from(with) << (what >> 4);
                write::window_update(&mut out, stream, increment);
            }
            11 => write::ping(&mut out, ends, [with; 8]),
            12 => {
                let values = [0, 1, u32::from(with), 70_000, 1 << 24, u32::MAX];
                let value = values[usize::from(what >> 4) % 6];
                write::settings(&mut out, [(u16::from(on % 10), value)].into_iter());
            }
            13 => write::priority_update(&mut out, stream, &[b'u', b'=', b'0' + with % 10]),
            14 => write::priority(
                &mut out,
                stream,
                frame::Dependency {
                    on: StreamId::new(u32::from(with & 15)),
                    exclusive: ends,
                    weight: with,
                },
            ),
            _ => {
                let length = usize::from(with) % after.len().max(1);
                let payload = &after[..length.min(after.len())];
                raw(&mut out, FrameType(on), what, stream, payload);
            }
        }
    }
    out
}

/// Appends a frame with an arbitrary payload.
fn raw(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: StreamId, payload: &[u8]) {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    write::header(out, header);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;
    use proptest::prelude::*;

    /// A short fuzzing run with fixed seeds.
    #[test]
    fn seeded_inputs_give_the_same_output_at_any_split() {
        for round in 0..300_u64 {
            let seed = Seed(round);
            let length = 3 + 3 * (seed.draw(0) % 40);
            let bytes: Vec<u8> = (1..=length).map(|place| seed.draw(place) as u8).collect();
            super::fuzz(&bytes);
        }
    }

    proptest! {
        #[test]
        fn any_input_gives_the_same_output_at_any_split(
            bytes in prop::collection::vec(any::<u8>(), 3..160)
        ) {
            super::fuzz(&bytes);
        }
    }
}
