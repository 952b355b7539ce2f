use std::time::Duration;

use fathometer_model::{Bytes, File, Page, Site};

use super::*;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::frame::write::Carrier;
use crate::h2::frame::{Frame, FrameType, Header, Reader, flags};
use crate::hpack::{Encoder, Indexing};
use crate::origin::OriginConfig;
use crate::origin::persona::Persona;

/// A frame in the form that tests compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    /// HEADERS: stream, fields, end of stream.
    Head(u32, Vec<(String, String)>, bool),
    /// DATA: stream, content, end of stream.
    Data(u32, Vec<u8>, bool),
    Reset(u32, ErrorCode),
    GoAway(u32, ErrorCode),
    Settings(Vec<(u16, u32)>),
    Acknowledged,
    Ping(bool, [u8; 8]),
    Window(u32, u32),
    /// PUSH_PROMISE: stream, promised stream, fields.
    Push(u32, u32, Vec<(String, String)>),
}

/// A server connection, a simulated client, and the output.
pub(super) struct Host {
    pub connection: Connection,
    pub now: Instant,
    pub encoder: Encoder,
    decoder: Decoder,
    reader: Reader,
    /// The bytes of each write by the server.
    pub writes: Vec<Vec<u8>>,
    pub got: Vec<Got>,
    pub actions: Vec<Action>,
    pub served: Vec<Served>,
}

pub(super) fn site() -> Arc<Site> {
    let file = |path: &str, content_type: &str, body: Vec<u8>| File {
        path: path.to_owned(),
        content_type: content_type.to_owned().into(),
        body: body.into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    Arc::new(Site {
        name: "test".to_owned(),
        files: vec![
            file("/index.html", "text/html", b"<html>".to_vec()),
            file("/a", "text/plain", b"aaaa".to_vec()),
            file("/b", "text/plain", vec![b'b'; 1000]),
            file("/long", "text/plain", vec![b'l'; 100_000]),
            file("/empty", "text/plain", Vec::new()),
        ],
        pages: vec![Page {
            base: fathometer_model::FileId(0),
            embedded: vec![fathometer_model::FileId(1)],
            named_by: Vec::new(),
        }],
    })
}

pub(super) fn origin() -> OriginConfig {
    OriginConfig {
        persona: Persona::minimal(),
        wall_clock: Duration::from_secs(784_111_777),
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    }
}

impl Host {
    /// Creates a connection and exchanges the preface and settings.
    pub fn new(config: ServerConfig) -> Host {
        let mut host = Host::fresh(config, origin());
        host.greet(&[]);
        host
    }

    /// Creates a connection that has received no bytes.
    pub fn fresh(mut config: ServerConfig, origin: OriginConfig) -> Host {
        config.events = true;
        let origin = Arc::new(Origin::new(site(), origin).unwrap());
        let connection = Connection::new(origin, Arc::new(config), Instant::ZERO);
        Host::of(connection)
    }

    pub fn of(connection: Connection) -> Host {
        Host {
            connection,
            now: Instant::ZERO,
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096, 1 << 20),
            reader: Reader::new(frame::Limits::default()),
            writes: Vec::new(),
            got: Vec::new(),
            actions: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Sends the preface and the client's settings, acknowledges the server's settings, and drops the output.
    pub fn greet(&mut self, settings: &[(u16, u32)]) -> &mut Host {
        let mut out = PREFACE.to_vec();
        write::settings(&mut out, settings.iter().copied());
        write::settings_acknowledged(&mut out);
        self.send(&out);
        assert!(matches!(self.got[0], Got::Settings(_)), "{:?}", self.got);
        assert_eq!(self.got.last(), Some(&Got::Acknowledged));
        self.got.clear();
        self.writes.clear();
        self
    }

    /// Passes input to the server without reading the output.
    pub fn push(&mut self, data: impl AsRef<[u8]>) -> &mut Host {
        self.connection.handle_data(data.as_ref(), self.now);
        self
    }

    /// Takes all output that may be sent, in steps of at most `most` bytes.
    pub fn write(&mut self, most: usize) -> &mut Host {
        loop {
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = self.connection.transmit(&mut slices);
            if filled == 0 {
                break;
            }
            let mut bytes: Vec<u8> = slices[..filled]
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            bytes.truncate(most);
            self.connection.transmitted(bytes.len(), self.now);
            self.read(&bytes);
            self.writes.push(bytes);
        }
        self.actions.extend(self.connection.poll_action());
        while let Some(served) = self.connection.poll_event() {
            self.served.push(served);
        }
        self
    }

    pub fn send(&mut self, data: impl AsRef<[u8]>) -> &mut Host {
        self.push(data).write(usize::MAX)
    }

    pub fn eof(&mut self) -> &mut Host {
        self.connection.handle_eof(self.now);
        self.write(usize::MAX)
    }

    /// Advances the time and handles time-outs.
    pub fn wait(&mut self, time: Duration) -> &mut Host {
        let end = self.now + time;
        while let Some(at) = self.connection.poll_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.connection.handle_timeout(self.now);
            self.write(usize::MAX);
        }
        self.now = end;
        self
    }

    /// Builds a HEADERS frame with the whole header block.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end_stream: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let carrier = Carrier::Headers {
            end_stream,
            dependency: None,
        };
        write::header_block(&mut out, StreamId::new(stream), carrier, 16_384, |out| {
            self.encoder.begin(out);
            for (name, value) in fields {
                self.encoder
                    .encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, out);
            }
        });
        out
    }

    pub fn get_with(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let mut fields = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "example.org"),
            (":path", path),
        ];
        fields.extend(more);
        self.headers(stream, &fields, true)
    }

    pub fn get(&mut self, stream: u32, path: &str) -> Vec<u8> {
        self.get_with(stream, path, &[])
    }

    /// Builds the head of a POST request whose content follows.
    pub fn post(&mut self, stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
        let mut fields = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "example.org"),
            (":path", "/discard"),
        ];
        fields.extend(more);
        self.headers(stream, &fields, false)
    }

    fn read(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while let Some(frame) = self.reader.read(&mut input) {
            let mut decode = |block: &[u8]| {
                let mut fields = FieldBlock::default();
                self.decoder.decode(block, &mut fields).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let fields = fields.iter();
                fields
                    .map(|(name, value)| (text(name), text(value)))
                    .collect()
            };
            let got = match frame.unwrap() {
                Frame::Data(piece) => {
                    if let (false, Some(Got::Data(_, content, end))) =
                        (piece.first, self.got.last_mut())
                    {
                        content.extend_from_slice(piece.content);
                        *end = piece.end_stream;
                        continue;
                    }
                    Got::Data(
                        piece.stream.number(),
                        piece.content.to_vec(),
                        piece.end_stream,
                    )
                }
                Frame::Headers(block) => {
                    Got::Head(block.stream.number(), decode(block.block), block.end_stream)
                }
                Frame::Push { promised, block } => Got::Push(
                    block.stream.number(),
                    promised.number(),
                    decode(block.block),
                ),
                Frame::Reset { stream, code } => Got::Reset(stream.number(), code),
                Frame::GoAway { last, code, .. } => Got::GoAway(last.number(), code),
                Frame::Settings(list) => Got::Settings(list.iter().collect()),
                Frame::SettingsAcknowledged => Got::Acknowledged,
                Frame::Ping {
                    acknowledges,
                    payload,
                } => Got::Ping(acknowledges, payload),
                Frame::WindowUpdate { stream, increment } => {
                    Got::Window(stream.number(), increment)
                }
                other => panic!("{other:?}"),
            };
            self.got.push(got);
        }
    }

    /// Removes and returns the output since the last call.
    pub fn take(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.got)
    }

    /// The stream and status of each response, in order.
    pub fn statuses(&self) -> Vec<(u32, String)> {
        let heads = self.got.iter().filter_map(|got| match got {
            Got::Head(stream, fields, _) => Some((*stream, fields[0].1.clone())),
            _ => None,
        });
        heads.collect()
    }

    /// The stream of each DATA frame, in order.
    pub fn order(&self) -> Vec<u32> {
        let frames = self.got.iter().filter_map(|got| match got {
            Got::Data(stream, ..) => Some(*stream),
            _ => None,
        });
        frames.collect()
    }

    /// The content sent on a stream.
    pub fn content(&self, id: u32) -> Vec<u8> {
        let frames = self.got.iter().filter_map(|got| match got {
            Got::Data(stream, content, _) if *stream == id => Some(&content[..]),
            _ => None,
        });
        frames.flatten().copied().collect()
    }

    /// Checks that the connection ended because of `fault`, with GOAWAY and a closed sending side.
    #[track_caller]
    pub fn assert_refused(&mut self, fault: Fault) {
        assert_eq!(
            self.connection.close_reason(),
            Some(CloseReason::Refused(fault)),
            "{:?}",
            self.got
        );
        let code = fault.code();
        assert!(
            matches!(self.got.last(), Some(Got::GoAway(_, given)) if *given == code),
            "{:?}",
            self.got
        );
        assert_eq!(self.actions, [Action::ShutdownWrite]);
    }

    /// Checks that the stream was reset with this code, and that the connection is still open.
    #[track_caller]
    pub fn assert_reset(&mut self, stream: u32, code: ErrorCode) {
        assert_eq!(self.take(), [Got::Reset(stream, code)]);
        assert_eq!(self.connection.close_reason(), None);
    }
}

/// Builds a frame with the given payload.
pub(super) fn raw(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream: StreamId::new(stream),
    };
    write::header(&mut out, header);
    out.extend_from_slice(payload);
    out
}

pub(super) fn data(stream: u32, content: &[u8], end_stream: bool) -> Vec<u8> {
    let flags = if end_stream { flags::END_STREAM } else { 0 };
    raw(FrameType::DATA, flags, stream, content)
}

pub(super) fn window(stream: u32, increment: u32) -> Vec<u8> {
    raw(
        FrameType::WINDOW_UPDATE,
        0,
        stream,
        &increment.to_be_bytes(),
    )
}

pub(super) fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    raw(FrameType::RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

#[test]
fn a_connection_starts_with_settings_and_answers_requests() {
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.write(usize::MAX);
    let Got::Settings(settings) = &host.got[0] else {
        panic!("{:?}", host.got);
    };
    assert!(settings.contains(&(3, 100)) && settings.contains(&(6, 16_384)));
    assert_eq!(host.got[1], Got::Window(0, 1024 * 1024 - 65_535));
    host.greet(&[]);
    let requests = [
        host.get(1, "/a"),
        host.get(3, "/empty"),
        host.get(5, "/none"),
    ]
    .concat();
    host.send(&requests);
    assert_eq!(
        host.writes.len(),
        1,
        "the responses to one read are sent in one write"
    );
    let statuses = [(1, "200"), (3, "200"), (5, "404")];
    assert_eq!(
        host.statuses(),
        statuses.map(|(stream, status)| (stream, status.to_owned()))
    );
    let Got::Head(1, fields, false) = &host.got[0] else {
        panic!("{:?}", host.got);
    };
    let has = |name: &str, value: &str| fields.contains(&(name.to_owned(), value.to_owned()));
    assert!(
        has("content-length", "4") && has("content-type", "text/plain"),
        "{fields:?}"
    );
    assert_eq!(host.got[1], Got::Data(1, b"aaaa".to_vec(), true));
    assert!(
        matches!(host.got[2], Got::Head(3, _, true)),
        "no content, no DATA"
    );
    assert_eq!(host.connection.requests(), 3);
    assert!(host.connection.is_idle());
}

#[test]
fn responses_are_counted_to_the_byte() {
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/b");
    host.send(&request);
    let [served] = host.served[..] else {
        panic!("{:?}", host.served);
    };
    assert_eq!(served.stream, StreamId::new(1));
    assert_eq!(served.exchange.status, 200);
    assert_eq!(served.exchange.request_head.0, request.len() as u64);
    let plain = ":methodGET:schemehttp:authorityexample.org:path/b".len();
    assert_eq!(served.request_fields.0, plain as u64);
    assert_eq!(served.exchange.body, Bytes(1000));
    assert_eq!(served.body_frames, Bytes(1009));
    let total: usize = host.writes.iter().map(Vec::len).sum();
    assert_eq!(
        served.exchange.head + served.body_frames,
        Bytes(total as u64)
    );
    let Got::Head(_, fields, _) = &host.got[0] else {
        panic!("{:?}", host.got);
    };
    let bytes: usize = fields
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert_eq!(served.head_fields, Bytes(bytes as u64));
    assert_eq!(served.reset, None);
}

#[test]
fn long_content_goes_as_far_as_the_windows_allow() {
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/long");
    host.send(&request);
    assert_eq!(host.content(1).len(), 65_535);
    host.send(window(1, 100_000));
    assert_eq!(
        host.content(1).len(),
        65_535,
        "the connection's window is full"
    );
    host.send(window(0, 10));
    assert_eq!(host.content(1).len(), 65_545);
    let request = host.get(3, "/empty");
    host.send(&request);
    assert_eq!(
        host.statuses().len(),
        2,
        "a response without content needs no window"
    );
    let request = host.get(5, "/a");
    host.send(window(0, 34_455)).send(&request);
    assert_eq!(host.content(1).len(), 100_000);
    assert_eq!(
        host.got.last(),
        Some(&Got::Head(5, host_fields(&host, 5), false))
    );
    host.send(window(0, 4));
    assert_eq!(host.got.last(), Some(&Got::Data(5, b"aaaa".to_vec(), true)));
    assert!(host.connection.is_idle());
    assert_eq!(host.served.len(), 3);
}

fn host_fields(host: &Host, id: u32) -> Vec<(String, String)> {
    let found = host.got.iter().find_map(|got| match got {
        Got::Head(stream, fields, _) if *stream == id => Some(fields.clone()),
        _ => None,
    });
    found.unwrap()
}
