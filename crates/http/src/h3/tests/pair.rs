//! A client and a server state machine, connected by streams. Tests control the delivery of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;

use fathometer_model::{Body, CloseReason, Failure, File, Instant, Site};

use crate::h3::client::{self, Event, Received, RequestId, RequestLine, Version};
use crate::h3::server::{self, Served, ServerConfig};
use crate::h3::{Action, Direction, ErrorCode};
use crate::origin::{Origin, OriginConfig};

/// The length of `/big` in bytes.
pub(super) const BIG: usize = 100_000;

fn origin() -> Arc<Origin> {
    let file = |path: &str, length: usize| File {
        path: path.to_owned(),
        content_type: "text/css".into(),
        body: Body::from(content(length)),
        encoded: Vec::new(),
        last_modified: 800_000_000,
    };
    let files = vec![
        file("/", 500),
        file("/a", 1),
        file("/big", BIG),
        file("/empty", 0),
    ];
    let site = Site {
        name: "test".to_owned(),
        files,
        pages: Vec::new(),
    };
    let config = OriginConfig {
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).unwrap())
}

pub(super) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

/// The result of a request.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Exchange {
    pub status: Option<u16>,
    pub interims: Vec<u16>,
    pub fields: Vec<(String, String)>,
    pub content: Vec<u8>,
    pub received: Option<Received>,
    pub failure: Option<(Failure, bool)>,
}

pub(super) struct Pair {
    pub client: client::Connection,
    pub server: server::Connection,
    pub exchanges: BTreeMap<RequestId, Exchange>,
    pub closed: Option<CloseReason>,
    pub other: Vec<String>,
    pub served: Vec<Served>,
    /// The streams whose bytes are held back. `pipes` has the undelivered bytes of each stream, and whether the stream
    /// ended.
    pub held: BTreeSet<u64>,
    pub pipes: BTreeMap<u64, (Vec<u8>, bool)>,
    /// The stream of each sent piece of a response, in order.
    pub order: Vec<u64>,
    /// The maximum number of bytes of one stream that are moved in one step.
    pub at_once: usize,
    pub own: [u64; 2],
    pub close: Option<ErrorCode>,
    /// Whether the server closes the connection after everything is delivered.
    pub closes: bool,
    pub now: Instant,
}

impl Pair {
    pub fn new(client: client::Config, server: &ServerConfig) -> Pair {
        let now = Instant::ZERO;
        let server = ServerConfig {
            events: true,
            ..server.clone()
        };
        Pair {
            client: client::Connection::new(client, now),
            server: server::Connection::new(origin(), Arc::new(server), now),
            exchanges: BTreeMap::new(),
            closed: None,
            other: Vec::new(),
            served: Vec::new(),
            held: BTreeSet::new(),
            pipes: BTreeMap::new(),
            order: Vec::new(),
            at_once: usize::MAX,
            own: [2, 3],
            close: None,
            closes: false,
            now,
        }
    }

    /// Like [`plain`](Self::plain), but the server has the given origin.
    pub fn of(origin: Arc<Origin>) -> Pair {
        let config = Arc::new(ServerConfig::default());
        let mut pair = Pair::plain();
        pair.server = server::Connection::new(origin, config, pair.now);
        pair
    }

    pub fn plain() -> Pair {
        Pair::new(client::Config::default(), &ServerConfig::default())
    }

    pub fn get(&mut self, target: &str, fields: &[(&str, &str)]) -> client::Queued {
        self.ask("GET", target, fields)
    }

    pub fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> client::Queued {
        let line = RequestLine {
            method,
            target,
            host: "origin.example",
            version: Version::Http11,
        };
        let mut request = self.client.request(line).unwrap();
        for (name, value) in fields {
            request.field(name, value);
        }
        request.send().unwrap()
    }

    /// Delivers bytes in both directions until no undelivered bytes remain.
    pub fn run(&mut self) -> &mut Pair {
        while self.up() | self.down() | self.act() {}
        if self.closes && self.held.is_empty() {
            self.closes = false;
            let code = ErrorCode::NO_ERROR;
            self.close.get_or_insert(code);
            self.client.handle_peer_close(code.0, self.now);
            self.events();
        }
        self
    }

    /// Delivers bytes from the client to the server.
    pub fn up(&mut self) -> bool {
        let mut moved = false;
        while self.client.wants_stream().is_some() {
            let stream = match self.client.wants_stream() {
                Some(Direction::Unidirectional) => {
                    self.own[0] += 4;
                    self.own[0] - 4
                }
                _ => u64::from(self.client.opened()) * 4,
            };
            self.client.handle_opened(stream, self.now);
            moved = true;
        }
        loop {
            let mut slices = [IoSlice::new(&[])];
            let Some(offer) = self.client.transmit(&mut slices, self.at_once) else {
                break;
            };
            let (stream, end) = (offer.stream, offer.end);
            let pipe = self.pipes.entry(stream).or_default();
            pipe.0.extend_from_slice(&slices[0]);
            pipe.1 = end;
            let bytes = offer.bytes;
            self.client.transmitted(stream, bytes, self.now);
            moved = true;
            if !self.held.contains(&stream) {
                self.deliver_up(stream);
            }
        }
        moved
    }

    pub fn deliver_up(&mut self, stream: u64) {
        let Some((bytes, end)) = self.pipes.remove(&stream) else {
            return;
        };
        self.server.handle_data(stream, &bytes, self.now);
        if end {
            self.server.handle_fin(stream, self.now);
        }
    }

    /// Delivers bytes from the server to the client.
    pub fn down(&mut self) -> bool {
        let mut moved = false;
        while self.server.wants_stream().is_some() {
            self.server.handle_opened(self.own[1], self.now);
            self.own[1] += 4;
            moved = true;
        }
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let Some(offer) = self.server.transmit(&mut slices, self.at_once) else {
                break;
            };
            let (stream, end) = (offer.stream, offer.end);
            // Request streams are bidirectional. The key of the pipe to the client differs from the key of the pipe to
            // the server.
            let pipe = self.pipes.entry(stream | DOWN).or_default();
            for slice in &slices[..offer.slices] {
                pipe.0.extend_from_slice(slice);
            }
            pipe.1 = end;
            if stream % 4 == 0 && self.order.last() != Some(&stream) {
                self.order.push(stream);
            }
            let bytes = offer.bytes;
            self.server.transmitted(stream, bytes, self.now);
            moved = true;
            if !self.held.contains(&stream) {
                self.deliver_down(stream);
            }
        }
        while let Some(served) = self.server.poll_event() {
            self.served.push(served);
        }
        moved | self.events()
    }

    pub fn deliver_down(&mut self, stream: u64) {
        let Some((bytes, end)) = self.pipes.remove(&(stream | DOWN)) else {
            return;
        };
        let mut input = &bytes[..];
        while let Some(event) = self.client.poll(stream, &mut input, self.now) {
            note(
                &mut self.exchanges,
                &mut self.other,
                &mut self.closed,
                event,
            );
            if let Event::Head { request } = event {
                let fields = self.client.head().fields();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let fields = fields.map(|(n, v)| (text(n), text(v))).collect();
                let exchange = self.exchanges.entry(request).or_default();
                exchange.status = Some(self.client.head().status());
                exchange.fields = fields;
            }
        }
        if !input.is_empty() {
            let rest = input.to_vec();
            self.pipes.insert(stream | DOWN, (rest, end));
            self.held.insert(stream);
        } else if end {
            self.client.handle_fin(stream, self.now);
        }
        while let Some(stream) = self.client.poll_unblocked() {
            self.held.remove(&stream);
            self.pipes.entry(stream | DOWN).or_default();
            self.deliver_down(stream);
        }
        self.events();
    }

    pub fn events(&mut self) -> bool {
        let mut moved = false;
        while let Some(event) = self.client.poll_event(self.now) {
            note(
                &mut self.exchanges,
                &mut self.other,
                &mut self.closed,
                event,
            );
            moved = true;
        }
        moved
    }

    /// Performs the transport actions of both sides.
    pub fn act(&mut self) -> bool {
        let mut moved = false;
        while let Some(action) = self.client.poll_action() {
            moved = true;
            match action {
                Action::Reset { stream, code } => {
                    self.pipes.remove(&stream);
                    self.server.handle_reset(stream, code.0, self.now);
                }
                Action::StopSending { stream, code } => {
                    self.server.handle_stop_sending(stream, code.0, self.now);
                }
                Action::Close { code } => {
                    self.close = Some(code);
                    self.server.handle_peer_close(code.0, self.now);
                }
            }
        }
        while let Some(action) = self.server.poll_action() {
            moved = true;
            match action {
                Action::Reset { stream, code } => {
                    self.pipes.remove(&(stream | DOWN));
                    self.client.handle_reset(stream, code.0, self.now);
                }
                Action::StopSending { stream, code } => {
                    self.client.handle_stop_sending(stream, code.0, self.now);
                }
                Action::Close { code } if code == ErrorCode::NO_ERROR => self.closes = true,
                Action::Close { code } => {
                    self.close = Some(code);
                    self.client.handle_peer_close(code.0, self.now);
                }
            }
        }
        moved | self.events()
    }

    pub fn release(&mut self, stream: u64) {
        self.held.remove(&stream);
        self.deliver_up(stream);
        self.deliver_down(stream);
    }
}

/// Marks the key of the pipe from the server to the client on a bidirectional stream.
pub(super) const DOWN: u64 = 1 << 63;

fn note(
    exchanges: &mut BTreeMap<RequestId, Exchange>,
    other: &mut Vec<String>,
    closed: &mut Option<CloseReason>,
    event: Event<'_>,
) {
    match event {
        Event::Interim { request, status } => {
            exchanges.entry(request).or_default().interims.push(status);
        }
        Event::Content { request, bytes } => {
            exchanges.entry(request).or_default().content.extend(bytes);
        }
        Event::End {
            request, received, ..
        } => exchanges.entry(request).or_default().received = Some(received),
        Event::Failed {
            request, failure, ..
        } => exchanges.entry(request).or_default().failure = Some((failure, true)),
        Event::Unanswered {
            request,
            failure,
            sent,
            ..
        } => exchanges.entry(request).or_default().failure = Some((failure, sent)),
        Event::Closed { reason } => {
            assert_eq!(closed.replace(reason), None);
        }
        Event::Begin { .. } | Event::Head { .. } => {}
        event => other.push(format!("{event:?}")),
    }
}
