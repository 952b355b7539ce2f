//! One connection of a loop: moves data between QUIC and the HTTP/3 state machine.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fathometer_http::h3::server::{Connection as Http, Limits, Served};
use fathometer_http::h3::{Action, ErrorCode};
use fathometer_model::Instant;
use fathometer_quic::{
    CloseKind, Closer, Connection as Quic, ConnectionKey, Endpoint, Event, ReadEnd,
};

use super::delivery::Delivery;
use crate::OriginStatistics;
use crate::access_log::{AccessLog, LoggedSession};
use crate::connection::Outcome;
use crate::timers::Alarm;
use fathometer_quic_sockets::feed::{FileBuffer, feed};

/// Maximum number of bytes read from one stream before other streams are read.
const READ_AT_ONCE: usize = 64 * 1024;

/// A connection.
pub(super) struct Open {
    pub http: Http,
    pub peer: SocketAddr,
    pub alarm: Alarm,
    /// Whether the connection is in the queue of connections to serve.
    pub is_due: bool,
    /// Whether the connection is in the queue of connections that wait for the socket.
    pub is_stalled: bool,
    /// Streams from which more may be read.
    unread: VecDeque<u64>,
    /// Streams from which the machine accepts no data at present.
    unwanted: Vec<u64>,
    /// The number of unidirectional streams that this side has opened and keeps open.
    own_streams: usize,
    /// The code with which to close the connection after all written data is delivered.
    closes_with: Option<ErrorCode>,
    is_closed: bool,
    /// The TLS session, once the handshake is complete.
    session: Option<LoggedSession>,
    delivery: Delivery,
    limits: Limits,
}

impl Open {
    pub fn new(http: Http, peer: SocketAddr, limits: Limits) -> Open {
        Open {
            http,
            peer,
            alarm: Alarm::default(),
            is_due: false,
            is_stalled: false,
            unread: VecDeque::new(),
            unwanted: Vec::new(),
            own_streams: 0,
            closes_with: None,
            is_closed: false,
            session: None,
            delivery: Delivery::default(),
            limits,
        }
    }

    /// Does all work that is possible without waiting, for one turn. Data to send is passed to QUIC.
    pub fn serve(
        &mut self,
        endpoint: &mut Endpoint,
        key: ConnectionKey,
        file_buffer: &mut FileBuffer,
        now: Instant,
        log: Option<&mut AccessLog>,
        statistics: &mut OriginStatistics,
    ) -> Outcome {
        let mut has_more = false;
        while let Some(event) = endpoint.poll_event(key) {
            match event {
                Event::Drained => return Outcome::Over,
                Event::Established(handshake) => {
                    statistics.handshakes += 1;
                    statistics.resumed += u64::from(handshake.resumed);
                    self.session = Some(LoggedSession::of_quic(&handshake));
                }
                event => self.handle(event, now),
            }
        }
        if self.http.poll_timeout().is_some_and(|due| due <= now) {
            self.http.handle_timeout(now);
        }
        if let Some(connection) = endpoint.get_mut(key) {
            self.read(connection, now);
            if !self.is_closed {
                let own_streams = &mut self.own_streams;
                let delivery = &mut self.delivery;
                has_more = feed(
                    &mut self.http,
                    connection,
                    file_buffer,
                    now,
                    |stream, pieces, taken, end| {
                        delivery.give(stream, taken as u64, end);
                        if pieces.is_empty()
                            && !end
                            && !fathometer_quic::stream::is_bidirectional(stream)
                        {
                            *own_streams += 1;
                        }
                    },
                );
            }
        }
        self.take_events(log, statistics);
        while let Some(action) = self.http.poll_action() {
            match (action, endpoint.get_mut(key)) {
                (Action::Close { code }, _) => self.closes_with = Some(code),
                (Action::Reset { stream, code }, Some(connection)) => {
                    self.reset(connection, stream, code.0);
                }
                (Action::StopSending { stream, code }, Some(connection)) => {
                    connection.stop(stream, code.0);
                }
                (_, None) => {}
            }
        }
        if self.http.is_finished() {
            self.closes_with.get_or_insert(ErrorCode::NO_ERROR);
        }
        self.close_when_delivered(endpoint, key, now);
        self.close_when_stalled(endpoint, key, now, statistics);
        // Sent responses may allow the machine to accept data again.
        let wanted_again = self
            .unwanted
            .iter()
            .any(|&stream| self.http.wants_data(stream));
        match has_more || wanted_again || !self.unread.is_empty() {
            true => Outcome::HasMore,
            false => Outcome::Waits,
        }
    }

    /// Closes the connection if the machine requests it: at once after an error, otherwise when the peer has
    /// acknowledged all responses.
    fn close_when_delivered(&mut self, endpoint: &mut Endpoint, key: ConnectionKey, now: Instant) {
        let Some(code) = self.closes_with.filter(|_| !self.is_closed) else {
            return;
        };
        let own_streams = self.own_streams;
        let is_delivered = endpoint
            .get_mut(key)
            .is_none_or(|connection| connection.sending_streams() <= own_streams);
        if code != ErrorCode::NO_ERROR || is_delivered {
            endpoint.close(key, code.0, "", now);
            self.is_closed = true;
        }
    }

    /// Closes the connection if its client acknowledges too little of the sent data.
    fn close_when_stalled(
        &mut self,
        endpoint: &mut Endpoint,
        key: ConnectionKey,
        now: Instant,
        statistics: &mut OriginStatistics,
    ) {
        let Some(connection) = endpoint.get_mut(key).filter(|_| !self.is_closed) else {
            return;
        };
        // A close waits until QUIC has delivered all data and the resets of streams.
        let certainly_waits = self.delivery.has_unfinished()
            || self.closes_with.is_some() && connection.sending_streams() > self.own_streams;
        let acknowledged = || connection.acknowledged();
        let is_stalled = self
            .delivery
            .is_stalled(certainly_waits, acknowledged, &self.limits, now);
        if is_stalled {
            statistics.stalled += 1;
            endpoint.close(
                key,
                ErrorCode::EXCESSIVE_LOAD.0,
                "too little is acknowledged",
                now,
            );
            self.is_closed = true;
        }
    }

    /// Returns the time at which HTTP/3 must be served, unless another event happens first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let delivery = self
            .delivery
            .deadline(&self.limits)
            .filter(|_| !self.is_closed);
        [delivery, self.http.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the connection is closed and only waits for late packets.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Logs the responses that were only partly sent when the connection ended.
    pub fn log_cut_short(
        &mut self,
        now: Instant,
        log: &mut AccessLog,
        statistics: &mut OriginStatistics,
    ) {
        while let Some((served, text)) = self.http.cut_short(now) {
            count(statistics, &served);
            log.note(self.peer, &served.exchange, &text, self.session);
        }
    }

    fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Opened { stream } | Event::Readable { stream } => self.unread.push_back(stream),
            Event::Writable { stream } => self.http.handle_writable(stream),
            Event::Stopped { stream, code } => {
                // QUIC has reset the stream (RFC 9000 section 3.5), so a reset by the machine has no effect.
                self.delivery.reset(stream);
                self.http.handle_stop_sending(stream, code, now);
            }
            Event::Finished { stream } => self.delivery.finish(stream),
            Event::Closed(closed) => {
                self.is_closed = true;
                match (closed.by, closed.kind) {
                    (Closer::Peer, CloseKind::Application) => {
                        self.http.handle_peer_close(closed.code, now);
                    }
                    _ => self.http.handle_failure(),
                }
            }
            // `serve` handles the other events.
            Event::Established(_) | Event::StreamsAvailable { .. } | Event::Drained => {}
        }
    }

    /// Resets a stream; QUIC then discards the data that the peer has not acknowledged.
    fn reset(&mut self, connection: &mut Quic, stream: u64, code: u64) {
        connection.reset(stream, code);
        self.delivery.reset(stream);
    }

    /// Reads available data, from each stream for one turn.
    fn read(&mut self, connection: &mut Quic, now: Instant) {
        let http = &mut self.http;
        self.unwanted.retain(|&stream| {
            let stays = !http.wants_data(stream);
            if !stays {
                self.unread.push_back(stream);
            }
            stays
        });
        for _ in 0..self.unread.len() {
            let Some(stream) = self.unread.pop_front() else {
                return;
            };
            if !self.http.wants_data(stream) {
                self.unwanted.push(stream);
                continue;
            }
            let http = &mut self.http;
            let end = connection.read(stream, READ_AT_ONCE, |bytes, _| {
                if !bytes.is_empty() {
                    http.handle_data(stream, bytes, now);
                }
            });
            match end {
                ReadEnd::Finished => self.http.handle_fin(stream, now),
                ReadEnd::Reset(code) => self.http.handle_reset(stream, code, now),
                ReadEnd::Full => self.unread.push_back(stream),
                ReadEnd::Blocked | ReadEnd::Closed => {}
            }
        }
    }

    fn take_events(&mut self, log: Option<&mut AccessLog>, statistics: &mut OriginStatistics) {
        match log {
            Some(log) => {
                while let Some((served, text)) = self.http.poll_event_with_text() {
                    count(statistics, &served);
                    log.note(self.peer, &served.exchange, &text, self.session);
                }
            }
            None => {
                while let Some(served) = self.http.poll_event() {
                    count(statistics, &served);
                }
            }
        }
    }
}

/// Counts a response that was completely handed to QUIC.
fn count(statistics: &mut OriginStatistics, served: &Served) {
    if served.reset.is_none() {
        statistics.responses += 1;
        statistics.content += served.exchange.body.0;
    }
}
