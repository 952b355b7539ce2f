//! Tests of the client connection with hand-written frames.

mod alternatives;
mod close;
mod exchange;
mod faults;
mod flow;
mod push;

use fathometer_model::Instant;

use super::*;
use crate::exchange::Version;
use crate::field_block::FieldBlock;
use crate::h2::error::ErrorCode;
use crate::h2::frame::{self, Frame, Reader, write};
use crate::h2::{PREFACE, StreamId};
use crate::hpack::{Decoder, Encoder, Indexing};

/// A connection, and a simulated server that the test controls.
struct Bench {
    client: Connection,
    now: Instant,
    encoder: Encoder,
    /// Bytes that the server has written and the client has not read.
    wire: Vec<u8>,
    reader: Reader,
    decoder: Decoder,
}

impl Bench {
    /// Creates a bench on which both sides have sent settings and the server has acknowledged the client's settings.
    fn new(config: Config) -> Bench {
        let mut bench = Bench::silent(config);
        bench.settings(&[]);
        write::settings_acknowledged(&mut bench.wire);
        assert_eq!(bench.deliver(), ["settings"]);
        bench.written();
        bench
    }

    /// Creates a bench whose server has read the client's preface and has sent nothing.
    fn silent(config: Config) -> Bench {
        let limits = frame::Limits {
            frame: 1 << 20,
            ..frame::Limits::default()
        };
        let mut bench = Bench {
            client: Connection::new(config),
            now: Instant::from_nanos(1_000_000_000),
            encoder: Encoder::new(4096),
            wire: Vec::new(),
            reader: Reader::new(limits),
            decoder: Decoder::new(4096, u64::MAX),
        };
        assert!(bench.client.transmit().starts_with(PREFACE));
        bench.client.transmitted(PREFACE.len(), bench.now);
        bench
    }

    fn ask(&mut self, method: &str, target: &str) -> RequestId {
        let request = self.client.request(line(method, target)).unwrap();
        let queued = request.send().unwrap();
        self.client.flush();
        queued.request
    }

    /// Sends a request; the server reads it.
    fn get(&mut self, target: &str) -> RequestId {
        let request = self.ask("GET", target);
        let written = self.written();
        assert!(written[0].contains(target), "{written:?}");
        request
    }

    fn post(&mut self, content: Content) -> RequestId {
        let request = self.client.request(line("POST", "/form")).unwrap();
        request.send_with(content, false).unwrap().request
    }

    fn settings(&mut self, settings: &[(u16, u32)]) {
        write::settings(&mut self.wire, settings.iter().copied());
    }

    fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end_stream: bool) {
        let carrier = write::Carrier::Headers {
            end_stream,
            dependency: None,
        };
        self.block(stream, carrier, fields);
    }

    fn promise(&mut self, stream: u32, promised: u32, fields: &[(&str, &str)]) {
        let promised = StreamId::new(promised);
        self.block(stream, write::Carrier::Push { promised }, fields);
    }

    fn block(&mut self, stream: u32, carrier: write::Carrier, fields: &[(&str, &str)]) {
        let encoder = &mut self.encoder;
        write::header_block(
            &mut self.wire,
            StreamId::new(stream),
            carrier,
            16_384,
            |out| {
                encoder.begin(out);
                for (name, value) in fields {
                    encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, out);
                }
            },
        );
    }

    fn data(&mut self, stream: u32, content: &[u8], end_stream: bool) {
        let stream = StreamId::new(stream);
        write::data_header(&mut self.wire, stream, content.len() as u32, end_stream);
        self.wire.extend_from_slice(content);
    }

    fn reset(&mut self, stream: u32, code: ErrorCode) {
        write::reset(&mut self.wire, StreamId::new(stream), code);
    }

    fn go_away(&mut self, last: u32, code: ErrorCode) {
        write::go_away(&mut self.wire, StreamId::new(last), code, b"why not");
    }

    /// Passes the server's bytes to the client; returns the client's events as text.
    fn deliver(&mut self) -> Vec<String> {
        let wire = std::mem::take(&mut self.wire);
        let mut log = Vec::new();
        let mut input = &wire[..];
        while let Some(event) = self.client.poll(&mut input, self.now) {
            log.push(told(&self.client, &event));
        }
        assert!(input.is_empty());
        log
    }

    /// Passes the bytes that the client may transmit to the server; returns the frames as text.
    fn written(&mut self) -> Vec<String> {
        let bytes = self.client.transmit().to_vec();
        self.client.transmitted(bytes.len(), self.now);
        let mut input = &bytes[..];
        let mut log = Vec::new();
        while let Some(frame) = self.reader.read(&mut input) {
            log.push(match frame.unwrap() {
                Frame::Headers(block) => {
                    let mut fields = FieldBlock::default();
                    self.decoder.decode(block.block, &mut fields).unwrap();
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let list = fields
                        .iter()
                        .map(|(n, v)| format!("{}={}", text(n), text(v)));
                    let list: Vec<String> = list.collect();
                    let end = if block.end_stream { " end" } else { "" };
                    format!("headers {} {}{end}", block.stream.number(), list.join(" "))
                }
                Frame::Data(piece) => {
                    let end = if piece.end_stream { " end" } else { "" };
                    format!(
                        "data {} {}{end}",
                        piece.stream.number(),
                        piece.content.len()
                    )
                }
                Frame::Reset { stream, code } => format!("reset {} {code}", stream.number()),
                Frame::Settings(list) => format!("settings {:?}", list.iter().collect::<Vec<_>>()),
                Frame::SettingsAcknowledged => "settings ack".to_owned(),
                Frame::Ping {
                    acknowledges,
                    payload,
                } => {
                    format!("ping {acknowledges} {}", u64::from_be_bytes(payload))
                }
                Frame::GoAway { last, code, .. } => format!("goaway {} {code}", last.number()),
                Frame::WindowUpdate { stream, increment } => {
                    format!("window {} {increment}", stream.number())
                }
                Frame::PriorityUpdate { stream, field } => {
                    let field = String::from_utf8_lossy(field);
                    format!("priority {} {field}", stream.number())
                }
                other => format!("{other:?}"),
            });
        }
        assert!(self.reader.is_between_frames());
        log
    }
}

fn line<'a>(method: &'a str, target: &'a str) -> RequestLine<'a> {
    RequestLine {
        method,
        target,
        host: "example.org",
        version: Version::Http11,
    }
}

/// Formats an event as a short text.
fn told(client: &Connection, event: &Event<'_>) -> String {
    let number = |request: &RequestId| match request.is_pushed() {
        true => format!("p{}", request.0 & 0xffff),
        false => request.0.to_string(),
    };
    match event {
        Event::Begin { request } => format!("begin {}", number(request)),
        Event::Interim { request, status } => format!("interim {} {status}", number(request)),
        Event::SendContent { request } => format!("go ahead {}", number(request)),
        Event::Head { request } => format!("head {} {}", number(request), client.head().status()),
        Event::Content { request, bytes } => {
            format!(
                "content {} {}",
                number(request),
                String::from_utf8_lossy(bytes)
            )
        }
        Event::Trailers { request } => {
            format!("trailers {} {}", number(request), client.trailers().len())
        }
        Event::End {
            request, persists, ..
        } => {
            format!(
                "end {}{}",
                number(request),
                if *persists { "" } else { " last" }
            )
        }
        Event::Failed {
            request,
            failure,
            persists,
            ..
        } => {
            let last = if *persists { "" } else { " last" };
            format!("failed {} {}{last}", number(request), failure.name())
        }
        Event::Unanswered {
            request,
            failure,
            sent,
            persists,
            ..
        } => {
            let last = if *persists { "" } else { " last" };
            let sent = if *sent { " sent" } else { "" };
            format!(
                "unanswered {} {}{sent}{last}",
                number(request),
                failure.name()
            )
        }
        Event::Promised {
            request,
            parent,
            accepted,
        } => {
            let refused = if *accepted { "" } else { " refused" };
            format!(
                "promised {} by {}{refused}",
                number(request),
                number(parent)
            )
        }
        Event::Settings => "settings".to_owned(),
        Event::Alternatives { request } => {
            let (origin, value) = client.alternatives();
            let request = request.map(|request| format!("{} ", number(&request)));
            format!(
                "alternatives {}{origin:?} {value}",
                request.unwrap_or_default()
            )
        }
        Event::Pong { payload } => format!("pong {}", u64::from_be_bytes(*payload)),
        Event::GoAway { last, code } => {
            format!(
                "goaway {} {}",
                last.map_or("none".to_owned(), |last| number(&last)),
                ErrorCode(*code)
            )
        }
        Event::Closed { reason } => format!("closed {reason:?}"),
    }
}
