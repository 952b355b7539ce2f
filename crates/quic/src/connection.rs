//! One connection: its streams, its events and its figures.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes as Buffer;
use fathometer_model::{Bytes, Instant};
use quinn_proto::{
    ClosedStream, Dir, EndpointEvent, FinishError, ReadError, StreamEvent, StreamId, VarInt,
    WriteError,
};

use crate::budget::Budget;
use crate::congestion::acknowledged;
use crate::event::{Closed, Event};
use crate::half_open::Serial;
use crate::handshake::{EarlyData, Handshake, RoundTrips, Volume};
use crate::session::Agreed;
use crate::statistics::Statistics;
use crate::stream;

/// The maximum number of bytes that one call of [`Connection::write`] takes. Each call copies its bytes, and a copy of
/// bytes that do not fit is wasted.
const MOST_WRITTEN: usize = 64 * 1024;

/// The reason why a stream cannot be written or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Flow control or the send window permits no more data; [`Event::Writable`] reports when data can be written.
    #[error("the stream is blocked by flow control")]
    Blocked,
    /// The peer has stopped the stream (STOP_SENDING). When [`Event::Stopped`] has reported this, the stream is reset and
    /// closed.
    #[error("the peer has stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was never opened, is closed, or can be written only by the peer.
    #[error("the stream is closed")]
    Closed,
}

/// The end of a read of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// No more data has arrived yet; [`Event::Readable`] reports new data.
    Blocked,
    /// The requested amount was read; more data may be available.
    Full,
    /// All data were read, up to the end of the stream.
    Finished,
    /// The peer has reset the stream.
    Reset(u64),
    /// The stream was never opened, is closed, or can be written only by this side.
    Closed,
}

/// A connection of an [`Endpoint`](crate::Endpoint).
pub struct Connection {
    pub(crate) machine: quinn_proto::Connection,
    begun: Instant,
    sent: Volume,
    received: Volume,
    trips: RoundTrips,
    handshake: Option<Handshake>,
    pub(crate) events: VecDeque<Event>,
    /// The final event for the endpoint, stored until all other events were taken.
    drained: Option<EndpointEvent>,
    pub(crate) is_touched: bool,
    /// The handshake of a server's connection, while it is in progress.
    pub(crate) half_open: Option<Serial>,
    /// The limit on the bytes sent before the peer's address is validated.
    budget: Option<Budget>,
    /// The bytes that may wait for acknowledgement, as granted by the endpoint; 0 for clients.
    pub(crate) granted: u64,
    /// The number of unidirectional streams that this side has opened.
    own_streams: usize,
    is_established: bool,
    is_closed: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("established", &self.is_established)
            .field("closed", &self.is_closed)
            .field("sent", &self.sent)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(machine: quinn_proto::Connection, now: Instant) -> Connection {
        let trips = RoundTrips::new(machine.side().is_server());
        Connection {
            machine,
            begun: now,
            sent: Volume::default(),
            received: Volume::default(),
            trips,
            handshake: None,
            events: VecDeque::new(),
            drained: None,
            is_touched: false,
            half_open: None,
            budget: None,
            granted: 0,
            own_streams: 0,
            is_established: false,
            is_closed: false,
        }
    }

    /// Whether the handshake is complete on this side.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed || self.machine.is_closed()
    }

    /// Whether data written now can be sent before the handshake is complete (0-RTT).
    pub fn can_send_early(&self) -> bool {
        !self.is_established && self.machine.has_0rtt() && !self.is_closed()
    }

    /// The figures of the handshake, once it is complete.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_ref()
    }

    /// Returns the figures since the start.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(&self.machine.stats(), self.sent, self.received)
    }

    /// The peer's address.
    pub fn peer(&self) -> std::net::SocketAddr {
        self.machine.remote_address()
    }

    /// Opens a stream; `None` if the peer currently permits no more streams, or the connection is closed.
    pub fn open(&mut self, bidirectional: bool) -> Option<u64> {
        let opened = self.machine.streams().open(direction(bidirectional))?;
        self.own_streams += usize::from(!bidirectional);
        Some(opened.into())
    }

    /// Returns the bytes of packets that the peer has acknowledged on the current path. The count restarts at 0 when
    /// the peer migrates. The call takes more CPU time than reading a counter.
    pub fn acknowledged(&self) -> Bytes {
        Bytes(acknowledged(self.machine.congestion_state()))
    }

    /// Returns the congestion window in bytes; 0 if only this side's unidirectional streams have data to send.
    pub(crate) fn used_window(&mut self) -> u64 {
        match self.sending_streams() > self.own_streams {
            true => self.machine.congestion_state().window(),
            false => 0,
        }
    }

    /// The number of streams on which this side has data that the peer has not acknowledged.
    pub fn sending_streams(&mut self) -> usize {
        self.machine.streams().send_streams()
    }

    /// Writes bytes of the pieces, in order, until there is no more room; at most 64 KiB in one call. Returns the
    /// number of bytes taken, which is 0 only for empty pieces.
    pub fn write(&mut self, stream: u64, pieces: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        if !self.may_write(stream) {
            return Err(StreamError::Closed);
        }
        let mut taken = Vec::with_capacity(
            pieces
                .iter()
                .map(|piece| piece.len())
                .sum::<usize>()
                .min(MOST_WRITTEN),
        );
        for piece in pieces {
            let room = MOST_WRITTEN - taken.len();
            taken.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        self.write_bytes(stream, Buffer::from(taken))
    }

    fn write_bytes(&mut self, stream: u64, bytes: Buffer) -> Result<usize, StreamError> {
        if !self.may_write(stream) {
            return Err(StreamError::Closed);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = self.send(stream).write_chunks(&mut [bytes]);
        match written {
            Ok(written) => Ok(written.bytes),
            Err(WriteError::Blocked) => Err(StreamError::Blocked),
            Err(WriteError::Stopped(code)) => Err(StreamError::Stopped(code.into_inner())),
            Err(WriteError::ClosedStream) => Err(StreamError::Closed),
        }
    }

    /// Finishes a stream: no data can be written after the data written so far.
    pub fn finish(&mut self, stream: u64) -> Result<(), StreamError> {
        if !self.may_write(stream) {
            return Err(StreamError::Closed);
        }
        self.send(stream).finish().map_err(|error| match error {
            FinishError::Stopped(code) => StreamError::Stopped(code.into_inner()),
            FinishError::ClosedStream => StreamError::Closed,
        })
    }

    /// Resets a stream: unsent data is not sent. Has no effect on a closed stream.
    pub fn reset(&mut self, stream: u64, code: u64) {
        if self.may_write(stream) {
            // Fails for closed streams, for which there is nothing to do.
            let _: Result<(), ClosedStream> = self.send(stream).reset(number(code));
        }
    }

    /// Sends STOP_SENDING for a stream, and discards the received data of the stream.
    pub fn stop(&mut self, stream: u64, code: u64) {
        if self.may_read(stream) {
            // Fails for closed streams, as above.
            let _: Result<(), ClosedStream> = self
                .machine
                .recv_stream(identifier(stream))
                .stop(number(code));
        }
    }

    /// Sets a stream's priority among this side's streams; higher priorities are sent first.
    pub fn set_priority(&mut self, stream: u64, priority: i32) {
        if self.may_write(stream) {
            // Fails for closed streams, as above.
            let _: Result<(), ClosedStream> = self.send(stream).set_priority(priority);
        }
    }

    /// Reads a stream in order and passes the data to `sink`, at most `most` bytes. The second argument of `sink` is
    /// true for the last piece of the stream. If the end arrives without data, the last piece is empty.
    pub fn read(&mut self, stream: u64, most: usize, mut sink: impl FnMut(&[u8], bool)) -> ReadEnd {
        if !self.may_read(stream) {
            return ReadEnd::Closed;
        }
        let mut stream = self.machine.recv_stream(identifier(stream));
        let Ok(mut chunks) = stream.read(true) else {
            return ReadEnd::Closed;
        };
        // One piece is held back, so that the last piece can be marked.
        let mut held = Buffer::new();
        let mut read = 0;
        let end = loop {
            if read >= most {
                break ReadEnd::Full;
            }
            match chunks.next(most - read) {
                Ok(Some(chunk)) => {
                    if !held.is_empty() {
                        sink(&held, false);
                    }
                    read += chunk.bytes.len();
                    held = chunk.bytes;
                }
                Ok(None) => {
                    sink(&held, true);
                    held = Buffer::new();
                    break ReadEnd::Finished;
                }
                Err(ReadError::Blocked) => break ReadEnd::Blocked,
                Err(ReadError::Reset(code)) => break ReadEnd::Reset(code.into_inner()),
            }
        };
        if !held.is_empty() {
            sink(&held, false);
        }
        // Any new flow control credit is sent with the next transmission.
        let _ = chunks.finalize();
        end
    }

    pub(crate) fn note_received(&mut self, bytes: usize, is_retry: bool) {
        self.received.add(1, bytes);
        if let Some(budget) = &mut self.budget {
            budget.received(bytes);
        }
        if !self.is_established {
            self.trips.received(bytes, is_retry);
        }
    }

    pub(crate) fn note_sent(&mut self, datagrams: u64, bytes: usize) {
        self.sent.add(datagrams, bytes);
        if let Some(budget) = &mut self.budget {
            budget.sent(bytes);
        }
        if !self.is_established {
            self.trips.sent(bytes);
        }
    }

    /// Applies the limit for an unvalidated peer address.
    pub(crate) fn hold_to_budget(&mut self) {
        let agreed = self.machine.crypto_session().handshake_data();
        let agreed = agreed.and_then(|data| data.downcast::<Agreed>().ok());
        self.budget = agreed.map(|agreed| Budget::new(agreed.is_peer_shown));
    }

    /// Returns the number of datagrams that may be sent now, at most `segments`.
    pub(crate) fn datagrams_allowed(&mut self, segments: usize) -> usize {
        if self.budget.as_ref().is_some_and(Budget::is_over) {
            self.budget = None;
        }
        let most = usize::from(self.machine.current_mtu());
        match &self.budget {
            None => segments,
            Some(budget) => segments.min(budget.left() / most),
        }
    }

    /// Checks whether the data just received has completed the handshake.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.is_established || self.machine.is_handshaking() || self.machine.is_closed() {
            return;
        }
        self.is_established = true;
        let session = self.machine.crypto_session();
        let agreed = session
            .handshake_data()
            .and_then(|data| data.downcast::<Agreed>().ok())
            .map_or_else(Agreed::default, |agreed| *agreed);
        let early_data = match self.machine.has_0rtt() {
            _ if self.machine.side().is_server() => EarlyData::None,
            false => EarlyData::None,
            true if self.machine.accepted_0rtt() => EarlyData::Accepted,
            true => EarlyData::Rejected,
        };
        let handshake = Handshake {
            took: now.since(self.begun),
            sent: self.sent,
            received: self.received,
            round_trips: self.trips.count(),
            protocol: agreed.protocol,
            server_name: agreed.server_name,
            resumed: agreed.resumed,
            cipher_suite: agreed.cipher_suite,
            certificates: Bytes(agreed.certificates),
            early_data,
        };
        self.handshake = Some(handshake);
    }

    /// Returns the next event, converted from `quinn-proto`. The endpoint reports `Drained`.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.machine.poll()? {
                quinn_proto::Event::Connected => {
                    if let Some(handshake) = &self.handshake {
                        return Some(Event::Established(handshake.clone()));
                    }
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    if !self.is_closed {
                        self.is_closed = true;
                        return Some(Event::Closed(Closed::of(reason, self.is_established)));
                    }
                }
                quinn_proto::Event::Stream(event) => match event {
                    StreamEvent::Opened { dir } => {
                        while let Some(stream) = self.machine.streams().accept(dir) {
                            let stream = u64::from(stream);
                            self.events.push_back(Event::Opened { stream });
                        }
                    }
                    StreamEvent::Readable { id } => {
                        return Some(Event::Readable { stream: id.into() });
                    }
                    StreamEvent::Writable { id } => {
                        return Some(Event::Writable { stream: id.into() });
                    }
                    StreamEvent::Finished { id } => {
                        return Some(Event::Finished { stream: id.into() });
                    }
                    StreamEvent::Stopped { id, error_code } => {
                        // RFC 9000 section 3.5: a stopped stream is reset, with the peer's code. A finished stream may
                        // have data that are not sent yet, so such a stream is reset too.
                        self.reset(id.into(), error_code.into_inner());
                        return Some(Event::Stopped {
                            stream: id.into(),
                            code: error_code.into_inner(),
                        });
                    }
                    StreamEvent::Available { dir } => {
                        return Some(Event::StreamsAvailable {
                            bidirectional: dir == Dir::Bi,
                        });
                    }
                },
                // The negotiated protocol is reported with the handshake, and unreliable datagrams are not
                // supported.
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => {}
            }
        }
    }

    pub(crate) fn close(&mut self, code: u64, reason: &str, now: Instant) {
        if self.is_closed() {
            return;
        }
        let words = Buffer::copy_from_slice(reason.as_bytes());
        let at = crate::timeline::to_machine(now);
        self.machine.close(at, number(code), words);
        self.is_closed = true;
        let closed = Closed::by_us(code, reason.to_owned());
        self.events.push_back(Event::Closed(closed));
    }

    /// Keeps the final event for the endpoint.
    pub(crate) fn hold_drained(&mut self, event: EndpointEvent) {
        self.drained = Some(event);
    }

    pub(crate) fn take_drained(&mut self) -> Option<EndpointEvent> {
        self.drained.take()
    }

    fn send(&mut self, stream: u64) -> quinn_proto::SendStream<'_> {
        self.machine.send_stream(identifier(stream))
    }

    fn is_ours(&self, stream: u64) -> bool {
        stream::is_clients(stream) == self.machine.side().is_client()
    }

    fn may_write(&self, stream: u64) -> bool {
        VarInt::from_u64(stream).is_ok()
            && (stream::is_bidirectional(stream) || self.is_ours(stream))
    }

    fn may_read(&self, stream: u64) -> bool {
        VarInt::from_u64(stream).is_ok()
            && (stream::is_bidirectional(stream) || !self.is_ours(stream))
    }
}

/// Converts the ID of a stream that was checked to be valid.
fn identifier(stream: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(stream).unwrap_or(VarInt::MAX))
}

/// Converts an error code of the application protocol; a value that is too large becomes the maximum.
fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn direction(bidirectional: bool) -> Dir {
    match bidirectional {
        true => Dir::Bi,
        false => Dir::Uni,
    }
}
