//! The connections of one UDP socket.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use fathometer_model::{Instant, Seed};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, EndpointEvent,
    Incoming, ServerConfig,
};

use crate::connection::Connection;
use crate::connection_key::ConnectionKey;
use crate::event::Event;
use crate::half_open::Handshakes;
use crate::handshake::is_retry;
use crate::identifiers::Identifiers;
use crate::memory::SendMemory;
use crate::session::VERSION;
use crate::settings::{ClientTls, HalfOpen, Qlog, QlogWriter, ServerSettings, TransportSettings};
use crate::settings_error::SettingsError;
use crate::timeline::{TokenTime, from_machine, to_machine};

/// The largest UDP payload that peers may send, in bytes.
const LARGEST_RECEIVED: u16 = 65_527;
/// The maximum number of responses without a connection that wait to be sent. Further responses are dropped, as on a
/// network.
const MOST_RESPONSES: usize = 1024;

/// Datagrams to send. Their bytes are in the buffer that was passed with the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: SocketAddr,
    /// The source address, if it is known.
    pub from: Option<IpAddr>,
    /// The two ECN bits for the IP header (RFC 3168).
    pub ecn: u8,
    /// The length of each datagram in bytes, if there are several; the last may be shorter.
    pub segment: Option<usize>,
}

/// Counters of an endpoint's reactions to connection attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Accepted attempts.
    pub accepted: u64,
    /// Attempts refused because the maximum number of connections was open, or the endpoint no longer accepts.
    pub refused: u64,
    /// Attempts answered with a Retry, for address validation.
    pub retried: u64,
    /// Attempts that failed because the first packet was invalid.
    pub failed: u64,
    /// Handshakes abandoned before they were complete, to make room for other handshakes.
    pub given_up: u64,
    /// Responses dropped because too many responses waited.
    pub responses_dropped: u64,
}

/// The reason why a connection cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The server's name is invalid.
    #[error("{0:?} is not a valid server name")]
    Name(String),
    /// The server's address is not valid as a destination.
    #[error("cannot connect to {0}")]
    Address(SocketAddr),
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No connection IDs are left: their length is too short for the number of connections.
    #[error("no connection IDs are left; use longer connection IDs")]
    NoIdentifiers,
}

/// A limit on open connections that several endpoints share.
pub trait SharedLimit: Send + Sync {
    /// Counts a new connection; returns false if it must be refused.
    fn admit(&self) -> bool;
    /// Records that a connection that was admitted is removed.
    fn release(&self);
    /// Whether nearly all connections of the limit are open.
    fn is_full(&self) -> bool;
}

/// The connections of one UDP socket, without the socket.
pub struct Endpoint {
    machine: quinn_proto::Endpoint,
    identifiers: Identifiers,
    connections: Vec<Option<Box<Connection>>>,
    open: usize,
    touched: VecDeque<ConnectionKey>,
    responses: VecDeque<(Transmit, Vec<u8>)>,
    scratch: Vec<u8>,
    token_time: Arc<TokenTime>,
    validates_addresses: bool,
    most_connections: usize,
    shared_limit: Option<Arc<dyn SharedLimit>>,
    /// Limits on the unacknowledged data of a server's connections; clients have no limit.
    memory: Option<SendMemory>,
    half_open: HalfOpen,
    handshakes: Handshakes,
    is_accepting: bool,
    counts: EndpointCounts,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("open", &self.open)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Creates a client's endpoint. `identifier_length` must be the same as in [`TransportSettings`]; with 0, the endpoint
    /// can have only one connection to each peer. `unfragmented` states that datagrams are never fragmented; otherwise
    /// the endpoint does not probe the path's MTU.
    pub fn client(identifier_length: u8, unfragmented: bool, seed: Seed) -> Endpoint {
        let identifiers = Identifiers::new(seed.stream("quic.ids"), identifier_length.into());
        let config = endpoint_config(&identifiers);
        let machine =
            quinn_proto::Endpoint::new(config, None, unfragmented, Some(random_state(seed)));
        Endpoint::with(machine, identifiers, Arc::default(), false, usize::MAX)
    }

    /// Creates an endpoint that accepts connections.
    pub fn server(
        mut settings: ServerSettings,
        unfragmented: bool,
        seed: Seed,
    ) -> Result<Endpoint, SettingsError> {
        let identifiers = Identifiers::new(
            seed.stream("quic.ids"),
            settings.transport.identifier_length.into(),
        );
        let qlog = settings.qlog.take().map(|writer| Qlog {
            writer,
            title: "server".to_owned(),
        });
        let transport = Arc::new(settings.transport.build(qlog)?);
        let token_time = Arc::new(TokenTime::default());
        let mut server = ServerConfig::with_crypto(settings.crypto()?);
        server
            .transport_config(transport)
            .migration(settings.migration)
            .time_source(Arc::clone(&token_time) as Arc<dyn quinn_proto::TimeSource>);
        let machine = quinn_proto::Endpoint::new(
            endpoint_config(&identifiers),
            Some(Arc::new(server)),
            unfragmented,
            Some(random_state(seed)),
        );
        let memory = SendMemory::new(settings.waiting, settings.transport.send_window.0);
        Ok(Endpoint {
            memory: Some(memory),
            half_open: settings.half_open,
            ..Endpoint::with(
                machine,
                identifiers,
                token_time,
                settings.validates_addresses,
                settings.most_connections,
            )
        })
    }

    fn with(
        machine: quinn_proto::Endpoint,
        identifiers: Identifiers,
        token_time: Arc<TokenTime>,
        validates_addresses: bool,
        most_connections: usize,
    ) -> Endpoint {
        Endpoint {
            machine,
            identifiers,
            connections: Vec::new(),
            open: 0,
            touched: VecDeque::new(),
            responses: VecDeque::new(),
            scratch: Vec::new(),
            token_time,
            validates_addresses,
            most_connections,
            shared_limit: None,
            memory: None,
            half_open: HalfOpen::default(),
            handshakes: Handshakes::default(),
            is_accepting: true,
            counts: EndpointCounts::default(),
        }
    }

    /// Makes further accepted connections count towards a shared limit too.
    pub fn share_limit(&mut self, limit: Arc<dyn SharedLimit>) {
        self.shared_limit = Some(limit);
    }

    /// Starts a connection. Its first datagram can be sent immediately.
    pub fn connect(
        &mut self,
        tls: &ClientTls,
        transport: &TransportSettings,
        server: SocketAddr,
        name: &str,
        qlog: Option<QlogWriter>,
        now: Instant,
    ) -> Result<ConnectionKey, ConnectError> {
        let qlog = qlog.map(|writer| Qlog {
            writer,
            title: name.to_owned(),
        });
        let mut config = ClientConfig::new(Arc::clone(&tls.session) as _);
        config.transport_config(Arc::new(transport.build(qlog)?));
        // The server's connection ID until it has chosen one: 8 to 20 unpredictable bytes.
        let first = self.identifiers.with_length(crate::identifiers::LONGEST);
        config.initial_dst_cid_provider(Arc::new(move || first.draw()));
        let connected = self.machine.connect(to_machine(now), config, server, name);
        let (handle, machine) = connected.map_err(|error| {
            use quinn_proto::ConnectError as Error;
            match error {
                Error::InvalidServerName(name) => ConnectError::Name(name),
                Error::InvalidRemoteAddress(address) => ConnectError::Address(address),
                Error::CidsExhausted
                | Error::EndpointStopping
                | Error::NoDefaultClientConfig
                | Error::UnsupportedVersion => ConnectError::NoIdentifiers,
            }
        })?;
        Ok(self.add(handle, Connection::new(machine, now)))
    }

    /// Handles datagrams that arrived together from one sender: `segment` bytes each (the last may have fewer),
    /// with the ECN bits of their IP headers.
    pub fn handle_datagrams(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        ecn: u8,
        segment: usize,
        bytes: &[u8],
        now: Instant,
    ) {
        let ecn = EcnCodepoint::from_bits(ecn & 0b11);
        // Streams keep slices of this memory, without another copy.
        let mut rest = BytesMut::from(bytes);
        while !rest.is_empty() {
            let one = rest.split_to(segment.clamp(1, rest.len()));
            self.handle_datagram(from, to, ecn, one, now);
        }
    }

    fn handle_datagram(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        now: Instant,
    ) {
        self.token_time.set(now);
        let length = datagram.len();
        let is_retry = is_retry(&datagram);
        self.scratch.clear();
        let at = to_machine(now);
        let event = self
            .machine
            .handle(at, from, to, ecn, datagram, &mut self.scratch);
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let key = key(handle);
                let Some(connection) = self.get_mut(key) else {
                    return;
                };
                connection.note_received(length, is_retry);
                connection.machine.handle_event(event);
                connection.look(now);
                if connection.is_established() || connection.is_closed() {
                    let ended = connection.half_open.take();
                    self.end_handshake(ended.is_some());
                }
                self.grant(key);
                self.touch(key);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, length, now),
            Some(DatagramEvent::Response(response)) => self.respond(&response),
        }
    }

    /// Returns the next connection that has changed. Each changed connection is returned once.
    pub fn poll_touched(&mut self) -> Option<ConnectionKey> {
        loop {
            let key = self.touched.pop_front()?;
            if let Some(connection) = self.get_mut(key) {
                connection.is_touched = false;
                return Some(key);
            }
        }
    }

    /// Returns the next response without a connection, and appends its bytes to `buffer`.
    pub fn poll_response(&mut self, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, bytes) = self.responses.pop_front()?;
        buffer.extend_from_slice(&bytes);
        Some(transmit)
    }

    /// Returns a connection.
    pub fn get(&self, key: ConnectionKey) -> Option<&Connection> {
        self.connections.get(key.0 as usize)?.as_deref()
    }

    /// Returns a connection, for reading and writing.
    pub fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.connections.get_mut(key.0 as usize)?.as_deref_mut()
    }

    /// Returns the next event of a connection.
    pub fn poll_event(&mut self, key: ConnectionKey) -> Option<Event> {
        let connection = self.connections.get_mut(key.0 as usize)?.as_deref_mut()?;
        let handle = ConnectionHandle(key.0 as usize);
        while let Some(event) = connection.machine.poll_endpoint_events() {
            if event.is_drained() {
                // The endpoint gets this event later, because the event frees the slot and other events are still
                // waiting.
                connection.hold_drained(event);
            } else if let Some(answer) = self.machine.handle_event(handle, event) {
                connection.machine.handle_event(answer);
            }
        }
        if let Some(event) = connection.next_event() {
            return Some(event);
        }
        let event = connection.take_drained()?;
        self.machine.handle_event(handle, event);
        self.forget(key);
        Some(Event::Drained)
    }

    /// Appends the next datagrams of a connection to `buffer`, which should be empty: at most `segments` datagrams of
    /// equal length; the last may be shorter.
    pub fn poll_transmit(
        &mut self,
        key: ConnectionKey,
        segments: usize,
        buffer: &mut Vec<u8>,
        now: Instant,
    ) -> Option<Transmit> {
        let connection = self.get_mut(key)?;
        let segments = connection.datagrams_allowed(segments.max(1));
        if segments == 0 {
            return None;
        }
        let at = to_machine(now);
        let transmit = connection.machine.poll_transmit(at, segments, buffer)?;
        let datagrams = match transmit.segment_size {
            None => 1,
            Some(segment) => transmit.size.div_ceil(segment) as u64,
        };
        connection.note_sent(datagrams, transmit.size);
        Some(ours(&transmit))
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout) for a connection. Any other call for
    /// this connection may change the result.
    pub fn poll_timeout(&mut self, key: ConnectionKey) -> Option<Instant> {
        self.get_mut(key)?.machine.poll_timeout().map(from_machine)
    }

    /// Handles the timers of a connection that are due at `now`, if any.
    pub fn handle_timeout(&mut self, key: ConnectionKey, now: Instant) {
        if let Some(connection) = self.get_mut(key) {
            connection.machine.handle_timeout(to_machine(now));
        }
    }

    /// Closes a connection immediately: unacknowledged data may be lost. The code and the reason belong to the
    /// application protocol.
    pub fn close(&mut self, key: ConnectionKey, code: u64, reason: &str, now: Instant) {
        if let Some(connection) = self.get_mut(key) {
            connection.close(code, reason, now);
        }
    }

    /// Stops accepting new connections.
    pub fn stop_accepting(&mut self) {
        self.is_accepting = false;
    }

    /// The number of connections, including closed connections that are not drained.
    pub fn connections(&self) -> usize {
        self.open
    }

    /// Returns the counters of the reactions to connection attempts.
    pub fn counts(&self) -> EndpointCounts {
        self.counts
    }

    fn accept(&mut self, incoming: Incoming, length: usize, now: Instant) {
        self.scratch.clear();
        if !self.is_accepting || self.open >= self.most_connections {
            return self.refuse(incoming);
        }
        let is_shown = incoming.remote_address_validated();
        let is_crowded = self.handshakes.count() >= self.half_open.retry_from;
        if (self.validates_addresses || is_crowded) && !is_shown {
            // Fails only if the client has already answered a Retry.
            match self.machine.retry(incoming, &mut self.scratch) {
                Ok(response) => {
                    self.counts.retried += 1;
                    self.respond(&response);
                }
                Err(error) => {
                    self.counts.failed += 1;
                    self.machine.ignore(error.into_incoming());
                }
            }
            return;
        }
        if let Some(limit) = &self.shared_limit
            && !limit.admit()
        {
            return self.refuse(incoming);
        }
        self.give_up_old(now);
        let accepted = self
            .machine
            .accept(incoming, to_machine(now), &mut self.scratch, None);
        match accepted {
            Ok((handle, machine)) => {
                self.counts.accepted += 1;
                let mut connection = Connection::new(machine, now);
                if !is_shown {
                    connection.hold_to_budget();
                }
                connection.note_received(length, false);
                connection.look(now);
                let is_half_open = !connection.is_established();
                let key = self.add(handle, connection);
                if is_half_open {
                    let serial = self.handshakes.begin(key, now);
                    if let Some(connection) = self.get_mut(key) {
                        connection.half_open = Some(serial);
                    }
                }
                self.grant(key);
                self.touch(key);
            }
            Err(error) => {
                self.counts.failed += 1;
                self.release();
                if let Some(response) = error.response {
                    self.respond(&response);
                }
            }
        }
    }

    fn refuse(&mut self, incoming: Incoming) {
        self.counts.refused += 1;
        let response = self.machine.refuse(incoming, &mut self.scratch);
        self.respond(&response);
    }

    fn release(&self) {
        if let Some(limit) = &self.shared_limit {
            limit.release();
        }
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection) -> ConnectionKey {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(Box::new(connection));
        self.open += 1;
        key(handle)
    }

    fn end_handshake(&mut self, was_in_progress: bool) {
        if was_in_progress {
            self.handshakes.end();
        }
    }

    /// Abandons the oldest handshakes while too many are in progress. While new clients must send a Retry token, also
    /// abandons handshakes that take too long.
    fn give_up_old(&mut self, now: Instant) {
        loop {
            let connections = &self.connections;
            let oldest = self.handshakes.oldest(|key, serial| {
                let connection = connections.get(key.0 as usize);
                connection
                    .and_then(Option::as_deref)
                    .is_some_and(|connection| connection.half_open == Some(serial))
            });
            let Some((key, begun)) = oldest else {
                return;
            };
            let count = self.handshakes.count();
            let is_late =
                count >= self.half_open.retry_from && now.since(begun) >= self.half_open.within;
            if count < self.half_open.most && !is_late {
                return;
            }
            self.counts.given_up += 1;
            self.abandon(key);
        }
    }

    /// Abandons a connection silently: it sends no more packets, not even a close. [`Event::Drained`] follows the events
    /// that are waiting.
    pub fn abandon(&mut self, key: ConnectionKey) {
        let Some(connection) = self.get_mut(key) else {
            return;
        };
        connection.hold_drained(EndpointEvent::drained());
        let was_half_open = connection.half_open.take().is_some();
        self.end_handshake(was_half_open);
        self.touch(key);
    }

    /// Whether at least 63/64 of the maximum number of connections are open, or the shared limit is full.
    pub fn is_full(&self) -> bool {
        self.open >= self.most_connections - self.most_connections / 64
            || self
                .shared_limit
                .as_ref()
                .is_some_and(|limit| limit.is_full())
    }

    /// Frees the slot of a connection.
    fn forget(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections[key.0 as usize].take() else {
            return;
        };
        self.open -= 1;
        self.release();
        self.end_handshake(connection.half_open.is_some());
        if let Some(memory) = &mut self.memory {
            memory.give_back(connection.granted);
        }
    }

    /// Sets the limit on a connection's unacknowledged data.
    fn grant(&mut self, key: ConnectionKey) {
        let open = self.open;
        let place = self.connections.get_mut(key.0 as usize);
        if let Some(memory) = &mut self.memory
            && let Some(connection) = place.and_then(Option::as_deref_mut)
        {
            let window = connection.used_window();
            let granted = memory.grant(connection.granted, window, open);
            if granted != connection.granted {
                connection.granted = granted;
                connection.machine.set_send_window(granted);
            }
        }
    }

    fn touch(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.get_mut(key)
            && !connection.is_touched
        {
            connection.is_touched = true;
            self.touched.push_back(key);
        }
    }

    fn respond(&mut self, response: &quinn_proto::Transmit) {
        if self.responses.len() >= MOST_RESPONSES {
            self.counts.responses_dropped += 1;
            return;
        }
        let bytes = self.scratch[..response.size].to_vec();
        self.responses.push_back((ours(response), bytes));
    }
}

/// Creates the configuration that all connections of an endpoint share.
fn endpoint_config(identifiers: &Identifiers) -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::default();
    let identifiers = identifiers.clone();
    config
        .cid_generator(move || Box::new(identifiers.clone()))
        .supported_versions(vec![VERSION])
        // Programs that decode captures recognise QUIC by the fixed bit.
        .grease_quic_bit(false);
    if config.max_udp_payload_size(LARGEST_RECEIVED).is_err() {
        unreachable!("65527 bytes is a valid UDP payload size");
    }
    Arc::new(config)
}

fn random_state(seed: Seed) -> [u8; 32] {
    let stream = seed.stream("quic.endpoint");
    let mut state = [0; 32];
    for (n, word) in state.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&stream.draw(n as u64).to_le_bytes());
    }
    state
}

fn key(handle: ConnectionHandle) -> ConnectionKey {
    ConnectionKey(handle.0 as u32)
}

fn ours(transmit: &quinn_proto::Transmit) -> Transmit {
    Transmit {
        to: transmit.destination,
        from: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        segment: transmit.segment_size,
    }
}
