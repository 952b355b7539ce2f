//! An HTTP/3 connection to a server, with its own UDP socket, for any event loop.
//!
//! An [`Http3Client`] never blocks. The event loop registers the socket once, edge-triggered, for reading
//! and writing, and then makes these calls in this order:
//!
//! 1. [`handle_ready`](Http3Client::handle_ready) with the readiness that the poll reported;
//! 2. [`receive`](Http3Client::receive);
//! 3. [`poll_event`](Http3Client::poll_event) until `None`, with new requests to [`http`](Http3Client::http) at
//!    any time;
//! 4. [`flush`](Http3Client::flush);
//! 5. [`poll_timeout`](Http3Client::poll_timeout); at that time    [`handle_timeout`](Http3Client::handle_timeout), and
//!    events and a flush again.
//!
//! After [`connect`](Http3Client::connect) only a flush is needed.
//!
//! Early data (0-RTT) is sent if the TLS settings allow it and there is a ticket. If the server rejects and
//! so discards the early data, the client sends the same bytes again, on streams with the same numbers; the
//! HTTP/3 state machine is not affected.

mod early;
mod incoming;
mod settings;
mod windows;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fathometer_http::client::Event as HttpEvent;
use fathometer_http::h3::client::Connection as Http;
use fathometer_http::h3::{Action, ErrorCode};
use fathometer_model::{Failure, Instant, Seed};
use fathometer_quic::{
    CloseKind, Closed, Closer, ConnectionKey, EarlyData, Endpoint, Event as QuicEvent, Handshake,
    QlogWriter, Statistics,
};
use fathometer_sys::udp::{Batches, ReceiveBuffer};
use fathometer_sys::{UdpSocket, socket};

use early::{EarlyWrites, ReducedLimit};
use fathometer_quic_sockets::feed::{FileBuffer, feed};
use fathometer_quic_sockets::outbox::{LocalLosses, Outbox, SendProgress};
use incoming::{Detached, Incoming};
use windows::Windows;

pub use settings::ClientSettings;

/// The number of receive calls of one turn, after which other connections are handled.
const TURN: usize = 8;

/// An event of a connection.
#[derive(Debug)]
pub enum Event<'a> {
    /// The handshake is complete. If early data was sent, responses may have arrived earlier.
    Established(&'a Handshake),
    /// An event of the HTTP/3 state machine. Its event `Closed` precedes [`Event::Closed`].
    Http(HttpEvent<'a>),
    /// The connection has ended. This is the last event. Call [`Http3Client::flush`] once more to send the
    /// remaining datagrams; then drop the client.
    Closed(&'a Closed),
}

/// An HTTP/3 connection to a server.
pub struct Http3Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    key: ConnectionKey,
    http: Http,
    settings: Arc<ClientSettings>,
    outbox: Outbox,
    readable: bool,
    writable: bool,
    incoming: Incoming,
    /// Data sent before the handshake was complete. It is sent again if the server rejects it.
    early: Option<EarlyWrites>,
    /// Whether all unsent data waits for the handshake, even if early data is possible.
    waits_for_handshake: bool,
    closed: Option<Closed>,
    /// Whether all events were taken, including the last event.
    is_over: bool,
    overflowed: u32,
    received: Batches,
    handshake: Option<Handshake>,
    statistics: Statistics,
    /// The windows granted to the server; `None` if waits for windows are not recorded.
    windows: Option<Box<Windows>>,
}

/// An event without its borrowed data.
enum Step {
    Established,
    Http(Detached),
    Closed,
}

impl std::fmt::Debug for Http3Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http3Client")
            .field("local", &self.socket.local_address())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl AsFd for Http3Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Http3Client {
    /// Begins a connection, in the calling thread's network namespace. Nothing is sent before [`flush`](Self::flush).
    /// `name` is the server's name in its certificate. `source` sets the local address and, unless zero, the local
    /// port. `qlog` gets the connection's qlog (JSON-SEQ).
    pub fn connect(
        settings: &Arc<ClientSettings>,
        server: SocketAddr,
        source: Option<SocketAddr>,
        name: &str,
        seed: Seed,
        qlog: Option<QlogWriter>,
        now: Instant,
    ) -> io::Result<Http3Client> {
        let socket = UdpSocket::connect(server, source, &settings.sockets.options())?;
        settings.tls.set_time(now);
        let length = settings.transport.identifier_length;
        // Servers distinguish connections by the first connection identifiers that clients choose at random. Two
        // clients that use the same seed at the same time differ in address or port, so the seed includes both.
        let seed = seed.stream(&socket.local_address().to_string());
        let mut endpoint = Endpoint::client(length, socket.is_unfragmented(), seed);
        let key = endpoint
            .connect(
                &settings.quic_tls,
                &settings.transport,
                server,
                name,
                qlog,
                now,
            )
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let can_send_early = endpoint
            .get(key)
            .is_some_and(fathometer_quic::Connection::can_send_early);
        Ok(Http3Client {
            socket,
            endpoint,
            key,
            http: Http::new(settings.http, now),
            settings: Arc::clone(settings),
            outbox: Outbox::default(),
            readable: false,
            writable: true,
            incoming: Incoming::default(),
            early: can_send_early.then(EarlyWrites::default),
            waits_for_handshake: false,
            closed: None,
            is_over: false,
            overflowed: 0,
            received: Batches::default(),
            handshake: None,
            statistics: Statistics::default(),
            windows: None,
        })
    }

    /// Records the readiness that the poll reported.
    pub fn handle_ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Receives datagrams, for one turn. Returns whether more may be ready.
    pub fn receive(&mut self, buffer: &mut ReceiveBuffer, now: Instant) -> bool {
        if !self.is_established() {
            self.settings.tls.set_time(now);
        }
        for _ in 0..TURN {
            if !self.readable {
                return false;
            }
            match self.socket.receive(buffer) {
                Ok(None) => self.readable = false,
                Ok(Some(more)) => {
                    // A call that did not fill the buffer has emptied the socket; the poll reports later datagrams.
                    self.readable = more;
                    self.received.receive_calls += 1;
                    for received in buffer.iter() {
                        self.received.note_received(&received);
                        self.endpoint.handle_datagrams(
                            received.from,
                            None,
                            received.ecn.bits(),
                            received.segment,
                            received.bytes,
                            now,
                        );
                    }
                    self.overflowed = buffer.overflowed().unwrap_or(self.overflowed);
                }
                Err(error) => {
                    self.readable = false;
                    self.fail(socket::classify(&error), &error.to_string(), now);
                }
            }
        }
        self.readable
    }

    /// Returns the HTTP/3 state machine, to which requests may be passed at any time. They are sent by the next
    /// [`flush`](Self::flush), or as soon as the handshake is complete.
    pub fn http(&mut self) -> &mut Http {
        &mut self.http
    }

    /// Returns the HTTP/3 state machine, for reading its state.
    pub fn http_ref(&self) -> &Http {
        &self.http
    }

    /// Returns whether requests made now can be sent before the handshake is complete (0-RTT).
    pub fn can_send_early(&self) -> bool {
        self.early.is_some() && !self.waits_for_handshake
    }

    /// Delays all unsent data until the handshake is complete, because early data may be replayed, which is not safe
    /// for every request.
    pub fn wait_for_handshake(&mut self) {
        self.waits_for_handshake = true;
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event<'_>> {
        Some(match self.advance(now)? {
            Step::Established => Event::Established(self.handshake.as_ref()?),
            Step::Http(Detached::Event(event)) => Event::Http(event),
            Step::Http(Detached::Content {
                request,
                start,
                length,
            }) => Event::Http(HttpEvent::Content {
                request,
                bytes: self.incoming.content(start, length),
            }),
            Step::Closed => Event::Closed(self.closed.as_ref()?),
        })
    }

    /// Sends everything that may be sent now.
    pub fn flush(&mut self, now: Instant) {
        self.act(now);
        loop {
            let has_more = self.feed(now);
            if !self.transmit(now) || !has_more {
                return;
            }
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called if there is no earlier event.
    /// The time changes with every event. With pacing, it may be only microseconds later.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let quic = self.endpoint.poll_timeout(self.key);
        [quic, self.http.poll_timeout()].into_iter().flatten().min()
    }

    /// Handles timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(self.key, now);
        if self.http.poll_timeout().is_some_and(|due| due <= now) {
            self.http.handle_timeout(now);
        }
    }

    /// Closes the connection; the next [`flush`](Self::flush) notifies the server. Unanswered requests fail as
    /// aborted by this client.
    pub fn close(&mut self, now: Instant) {
        self.close_with(ErrorCode::NO_ERROR, now);
    }

    /// Returns the figures of the handshake, once it is complete.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_ref()
    }

    /// Returns the statistics from the start until now, or until the connection ended.
    pub fn statistics(&self) -> Statistics {
        match self.endpoint.get(self.key) {
            Some(connection) => connection.statistics(),
            None => self.statistics,
        }
    }

    /// Returns the number of datagrams that the kernel discarded because this client did not read them in time. The
    /// path did not cause these losses.
    pub fn overflowed(&self) -> u32 {
        self.overflowed
    }

    /// Returns the number of system calls and buffers that have carried datagrams until now.
    pub fn batches(&self) -> Batches {
        Batches {
            send_calls: self.outbox.calls,
            sent: self.outbox.datagrams,
            ..self.received
        }
    }

    /// Returns the numbers of datagrams that the kernel did not send.
    pub fn local_losses(&self) -> LocalLosses {
        self.outbox.losses
    }

    /// Returns whether the connection has ended, even if some of its events are not yet taken.
    pub fn has_ended(&self) -> bool {
        self.closed.is_some()
    }

    /// Returns the reason for which the connection failed; `None` if it has not failed, or if this client closed it.
    pub fn failure(&self) -> Option<Failure> {
        self.closed.as_ref()?.failure
    }

    /// Returns whether the connection is established.
    pub fn is_established(&self) -> bool {
        self.handshake.is_some()
    }

    /// Returns the local address and port.
    pub fn local_address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    /// Advances the connection until there is an event.
    fn advance(&mut self, now: Instant) -> Option<Step> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(event) = self.incoming.poll(&mut self.http, now) {
                return Some(Step::Http(event));
            }
            if let Some(event) = self.http.poll_event(now) {
                return Some(Step::Http(Detached::Event(event)));
            }
            self.act(now);
            if self.incoming.resume_parked(&mut self.http) || self.read_next(now) {
                continue;
            }
            match self.endpoint.poll_event(self.key) {
                Some(event) => {
                    if let Some(step) = self.handle(event, now) {
                        return Some(step);
                    }
                }
                None if self.closed.is_some() => {
                    self.is_over = true;
                    return Some(Step::Closed);
                }
                None => return None,
            }
        }
    }

    /// Reads the next stream that may have data. Returns whether it had data.
    fn read_next(&mut self, now: Instant) -> bool {
        let windows = self.windows.as_deref_mut();
        let connection = self.endpoint.get_mut(self.key);
        connection.is_some_and(|connection| self.incoming.read_next(connection, windows, now))
    }

    /// Handles an event of the connection.
    fn handle(&mut self, event: QuicEvent, now: Instant) -> Option<Step> {
        match event {
            QuicEvent::Established(handshake) => {
                let early = self.early.take();
                if handshake.early_data == EarlyData::Rejected {
                    self.resend(early.unwrap_or_default(), now);
                }
                self.handshake = Some(handshake);
                return Some(Step::Established);
            }
            QuicEvent::Opened { stream } | QuicEvent::Readable { stream } => {
                self.incoming.note_readable(stream);
            }
            QuicEvent::Writable { stream } => self.http.handle_writable(stream),
            QuicEvent::Stopped { stream, code } => {
                self.http.handle_stop_sending(stream, code, now);
            }
            // The next flush opens the streams that are now allowed.
            QuicEvent::StreamsAvailable { .. } | QuicEvent::Finished { .. } => {}
            QuicEvent::Closed(closed) => self.note_closed(closed, now),
            QuicEvent::Drained => {}
        }
        None
    }

    fn note_closed(&mut self, closed: Closed, now: Instant) {
        match (closed.by, closed.kind) {
            (Closer::Peer, CloseKind::Application) => self.http.handle_peer_close(closed.code, now),
            // The negotiated idle timeout has ended a connection without requests.
            (Closer::Silence, _) if self.is_established() && self.http.outstanding() == 0 => {
                self.http.handle_peer_close(ErrorCode::NO_ERROR.0, now);
            }
            _ => {
                let failure = closed.failure.unwrap_or(Failure::LocalAbort);
                self.http.handle_failure(failure, now);
            }
        }
        self.statistics = self.statistics();
        self.closed.get_or_insert(closed);
    }

    /// Performs the machine's actions on streams and on the connection.
    fn act(&mut self, now: Instant) {
        while let Some(action) = self.http.poll_action() {
            let connection = self.endpoint.get_mut(self.key);
            match (action, connection) {
                (Action::Reset { stream, code }, Some(connection)) => {
                    connection.reset(stream, code.0);
                }
                (Action::StopSending { stream, code }, Some(connection)) => {
                    connection.stop(stream, code.0);
                    self.incoming.discard(stream);
                    if let Some(windows) = &mut self.windows {
                        windows.end(stream);
                    }
                }
                (Action::Close { code }, _) => self.close_with(code, now),
                (_, None) => {}
            }
        }
    }

    fn close_with(&mut self, code: ErrorCode, now: Instant) {
        self.endpoint.close(self.key, code.0, "", now);
    }

    /// Handles a failure of the transport.
    fn fail(&mut self, failure: Failure, why: &str, now: Instant) {
        if self.closed.is_some() {
            return;
        }
        // The server program has exited, so its connection state is lost.
        let failure = match failure {
            Failure::Refused if self.is_established() => Failure::Reset,
            other => other,
        };
        self.note_closed(
            Closed {
                by: Closer::Peer,
                kind: CloseKind::None,
                code: 0,
                reason: why.to_owned(),
                failure: Some(failure),
            },
            now,
        );
    }

    /// Resends early data that the server has rejected.
    fn resend(&mut self, early: EarlyWrites, now: Instant) {
        let Some(connection) = self.endpoint.get_mut(self.key) else {
            return;
        };
        if let Err(ReducedLimit) = early.resend(connection) {
            self.fail(
                Failure::BadResponse,
                "the server reduced a limit that it had granted for early data",
                now,
            );
        }
    }

    /// Passes the output of the HTTP/3 state machine to QUIC, for one turn. Returns whether output remains.
    fn feed(&mut self, now: Instant) -> bool {
        if self.closed.is_some() {
            return false;
        }
        let may_send = self.handshake.is_some() || self.can_send_early();
        let Some(connection) = self.endpoint.get_mut(self.key).filter(|_| may_send) else {
            return false;
        };
        let early = &mut self.early;
        feed(
            &mut self.http,
            connection,
            &mut FileBuffer::default(),
            now,
            |stream, pieces, taken, end| {
                if let Some(early) = early {
                    early.record(stream, pieces, taken, end);
                }
            },
        )
    }

    /// Sends the datagrams of QUIC. Returns whether the socket can take more.
    fn transmit(&mut self, now: Instant) -> bool {
        if !self.writable {
            return false;
        }
        let mut sent = self.outbox.resume(&self.socket);
        loop {
            match sent {
                Ok(SendProgress::Clear) => {}
                Ok(SendProgress::Blocked) => {
                    self.writable = false;
                    return false;
                }
                Ok(SendProgress::Refused) => {
                    self.fail(
                        Failure::Refused,
                        "no program listens on the server's port",
                        now,
                    );
                    return false;
                }
                Err(error) => {
                    self.fail(socket::classify(&error), &error.to_string(), now);
                    return false;
                }
            }
            let segments = self.settings.sockets.segments_of(&self.socket);
            let bytes = &mut self.outbox.bytes;
            let Some(transmit) = self.endpoint.poll_transmit(self.key, segments, bytes, now) else {
                return true;
            };
            if let Some(windows) = &mut self.windows {
                windows.sent(now);
            }
            sent = self.outbox.send(&self.socket, transmit);
        }
    }
}
