//! The TLS of one connection.

mod established;
mod exporter;
mod fuzz;
mod handshaking;
mod hello;
mod reading;
mod record;
mod sizes;
#[cfg(test)]
mod tests;
mod writing;

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use fathometer_model::Instant;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use crate::certificate::server_name;
use crate::{ClientSettings, Handshake, ServerSettings, TlsFailure, Traffic};
use established::{CLOSE_NOTIFY, Established};
use exporter::BINDING;
pub use fuzz::fuzz;
use handshaking::Handshaking;
use sizes::RecordSizes;
use writing::count_application;

/// The number of bytes waiting to be sent at which [`Session::write`] stops accepting data.
const BUFFER: usize = 64 * 1024;

/// The TLS of one connection, for a client or a server, without I/O.
///
/// The methods are in four groups:
///
/// - queries, which do not change the session: [`is_established`](Session::is_established),
///   [`handshake`](Session::handshake), [`wants_transmit`](Session::wants_transmit) …
/// - requests of the host: [`write`](Session::write), [`early_write`](Session::early_write),
///   [`close`](Session::close);
/// - events of the transport: [`transmitted`](Session::transmitted), [`handle_eof`](Session::handle_eof);
/// - [`open`](Session::open), which reads bytes and returns plaintext, or [`receive`](Session::receive) and
///   [`read`](Session::read), which do the same with two more copies. After these methods, also after an error, check
///   [`transmit`](Session::transmit): there may be an alert to send.
///
/// rustls performs the handshake. Afterwards this type seals and opens records with `ring`'s AEADs and the keys that
/// rustls exports. This saves copies: plaintext is sealed where it was written and opened where it was read, and all
/// writes of a turn become one record. The CPU time per exchange with HTTP/2's pattern, client and server
/// (`cargo bench -p fathometer-tls`: 16 requests per write, answers of 1 KB, AES-256-GCM, AMD EPYC):
///
/// - this type: 165 and 161 ns;
/// - rustls's buffered interface: 234 and 215 ns;
/// - rustls's unbuffered interface: 174 and 229 ns;
/// - this type with a separate record for each answer: 252 and 302 ns. Joining the answers in
///   [`transmit`](Session::transmit) has the largest effect.
///
/// Invariants:
///
/// - Any split of the input gives the same plaintext and the same figures.
/// - Data written between two calls of `transmit` is sent in the fewest possible records.
/// - No plaintext is returned after `close_notify` or a failure.
/// - The memory that a peer can make a session keep is bounded (one record, or one handshake message of at most
///   64 KiB). The work that a peer can cause without sending data is bounded too.
pub struct Session {
    phase: Phase,
    /// The received part of an incomplete record or handshake message.
    incoming: Vec<u8>,
    /// The number of bytes of `incoming` that were already passed to rustls.
    shown: usize,
    /// Whether the contents of `incoming` were returned by `open` and can be removed.
    incoming_given: bool,
    /// Data received during the handshake, or waiting for `read`.
    plain: Vec<u8>,
    plain_read: usize,
    early: bool,
    /// Records to send. The last record may be open, that is, not sealed yet.
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// The start of the open record in `outgoing`.
    filling: Option<usize>,
    /// Data written before keys are available.
    waiting: Vec<u8>,
    sizes: RecordSizes,
    sent: Traffic,
    received: Traffic,
    handshake: Option<Box<Handshake>>,
    binding: Option<Box<[u8; BINDING]>>,
    client: bool,
    closed_by_peer: bool,
    closing: bool,
    failure: Option<TlsFailure>,
}

enum Phase {
    Handshaking(Box<Handshaking>),
    Established(Box<Established>),
    /// The session has failed: it neither sends nor receives.
    Over,
}

/// The location of the next piece of plaintext.
enum Piece<'i> {
    Input(&'i [u8]),
    Incoming(Range<usize>),
    Plain,
    None,
}

impl Session {
    /// Creates a client's session with the server of this name or address. The first flight is ready to be sent.
    ///
    /// # Errors
    ///
    /// If `name` is neither a host name nor an address.
    pub fn client(
        settings: &Arc<ClientSettings>,
        name: &str,
        now: Instant,
    ) -> Result<Session, TlsFailure> {
        settings.clock.set(now);
        let server = server_name(name).ok_or_else(|| TlsFailure::BadName(name.to_owned()))?;
        let connection = UnbufferedClientConnection::new(settings.config.clone(), server)?;
        let handshaking = Handshaking::client(connection, settings.clock.clone());
        let mut session = Session::new(handshaking, RecordSizes::alike(settings.record_size), true);
        if let Phase::Handshaking(handshaking) = &mut session.phase {
            handshaking.start(&mut session.outgoing)?;
        }
        session.count_sent(0, false);
        Ok(session)
    }

    /// Creates a server's session with a client.
    ///
    /// # Errors
    ///
    /// Never with valid settings.
    pub fn server(settings: &Arc<ServerSettings>, now: Instant) -> Result<Session, TlsFailure> {
        settings.clock.set(now);
        let connection = UnbufferedServerConnection::new(settings.config.clone())?;
        let handshaking = Handshaking::server(
            connection,
            settings.clock.clone(),
            settings.stateless,
            settings.asks_for_certificate,
        );
        let sizes = RecordSizes::new(settings.record_size, settings.first_records);
        Ok(Session::new(handshaking, sizes, false))
    }

    fn new(handshaking: Handshaking, sizes: RecordSizes, client: bool) -> Session {
        Session {
            phase: Phase::Handshaking(Box::new(handshaking)),
            incoming: Vec::new(),
            shown: 0,
            incoming_given: false,
            plain: Vec::new(),
            plain_read: 0,
            early: false,
            outgoing: Vec::new(),
            outgoing_sent: 0,
            filling: None,
            waiting: Vec::new(),
            sizes,
            sent: Traffic::default(),
            received: Traffic::default(),
            handshake: None,
            binding: None,
            client,
            closed_by_peer: false,
            closing: false,
            failure: None,
        }
    }

    /// Whether the handshake has succeeded.
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Established(_))
    }

    /// The negotiated parameters and the cost of the handshake; `None` until established.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_deref()
    }

    /// The channel binding `tls-exporter` (RFC 9266): 32 bytes that are the same on both sides of a session and differ
    /// between sessions. A protocol that authenticates the peer by a shared secret includes them in its proofs. Then a
    /// man in the middle, who has one session with each side, cannot forward the proofs. Without such a protocol, a
    /// session [without verification](crate::Verification::Off) resists only passive eavesdroppers.
    ///
    /// `None` until established, if it was not [requested](crate::ClientOptions::channel_binding), and in TLS 1.2,
    /// where the value is not unique without an extension (RFC 9266 section 4).
    pub fn channel_binding(&self) -> Option<&[u8; BINDING]> {
        self.binding.as_deref()
    }

    /// The protocol negotiated by ALPN; `None` if there is none, or not yet. It may be available before the session is
    /// established, because a server that answers early data needs it.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.alpn(),
            _ => self.handshake.as_ref()?.alpn.as_deref(),
        }
    }

    /// Whether written data is sent with the next [`transmit`](Session::transmit): after the handshake, and also before
    /// its end if a server may answer early data.
    pub fn may_write(&self) -> bool {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.may_write && self.shown == 0,
            Phase::Established(_) => true,
            Phase::Over => false,
        }
    }

    /// The records produced for sending so far.
    pub fn sent(&self) -> &Traffic {
        &self.sent
    }

    /// The complete records received so far.
    pub fn received(&self) -> &Traffic {
        &self.received
    }

    /// Whether the peer has announced that it sends no more data (`close_notify`).
    pub fn is_closed_by_peer(&self) -> bool {
        self.closed_by_peer
    }

    /// Why the session failed.
    pub fn failure(&self) -> Option<&TlsFailure> {
        self.failure.as_ref()
    }

    /// Whether the latest returned plaintext is a client's early data, received before the handshake was complete.
    /// Early data may be a replay: the server decides which requests are safe to execute twice (RFC 8470).
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Reads bytes of the transport and returns the next piece of their plaintext, decrypted in place. Call it with the
    /// rest of the same input until it returns `None`: then all bytes are consumed, and the session keeps an incomplete
    /// record.
    ///
    /// ```
    /// # use fathometer_model::Instant;
    /// # use fathometer_tls::{Session, TlsFailure};
    /// fn handle(session: &mut Session, read: &mut [u8], now: Instant) -> Result<usize, TlsFailure> {
    ///     let mut input = read;
    ///     let mut bytes = 0;
    ///     while let Some(plain) = session.open(&mut input, now)? {
    ///         bytes += plain.len(); // or hand it to a protocol machine
    ///     }
    ///     Ok(bytes)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the session fails, and on every later call. [`transmit`](Session::transmit) returns the alert for the peer.
    pub fn open<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Option<&'s [u8]>, TlsFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.incoming_given {
            self.incoming.clear();
            self.incoming_given = false;
        }
        let piece = if self.plain_read < self.plain.len() {
            // Data kept by `receive` and not taken by `read` comes first.
            Ok(Piece::Plain)
        } else {
            self.plain.clear();
            self.plain_read = 0;
            self.next_piece(input, now)
        };
        match piece {
            Ok(Piece::Input(plain)) => Ok(Some(plain)),
            Ok(Piece::Incoming(range)) => Ok(Some(&self.incoming[range])),
            Ok(Piece::Plain) => {
                let start = std::mem::replace(&mut self.plain_read, self.plain.len());
                Ok(Some(&self.plain[start..]))
            }
            Ok(Piece::None) => Ok(None),
            Err(failure) => {
                self.end(failure.clone());
                Err(failure)
            }
        }
    }

    /// Reads all given bytes of the transport, and keeps the plaintext for [`read`](Session::read). This is simpler
    /// than [`open`](Session::open), but needs two more copies.
    ///
    /// # Errors
    ///
    /// The same as for [`open`](Session::open).
    pub fn receive(&mut self, ciphertext: &[u8], now: Instant) -> Result<usize, TlsFailure> {
        // Keeps unread data, which `open` would discard first.
        let mut kept = std::mem::take(&mut self.plain);
        kept.drain(..std::mem::take(&mut self.plain_read));
        let mut copy = ciphertext.to_vec();
        let mut input = &mut copy[..];
        let outcome = loop {
            match self.open(&mut input, now) {
                Ok(Some(plain)) => kept.extend_from_slice(plain),
                Ok(None) => break Ok(ciphertext.len()),
                Err(failure) => break Err(failure),
            }
        };
        self.plain = kept;
        outcome
    }

    /// Copies plaintext that [`receive`](Session::receive) kept. Returns the number of bytes, 0 if there is no
    /// plaintext.
    pub fn read(&mut self, plain: &mut [u8]) -> usize {
        let kept = &self.plain[self.plain_read..];
        let length = kept.len().min(plain.len());
        plain[..length].copy_from_slice(&kept[..length]);
        self.plain_read += length;
        if self.plain_read == self.plain.len() {
            self.plain.clear();
            self.plain_read = 0;
        }
        length
    }

    /// Handles the end of the transport's input.
    ///
    /// # Errors
    ///
    /// [`TlsFailure::Truncated`] unless the peer has sent `close_notify`.
    pub fn handle_eof(&mut self) -> Result<(), TlsFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.closed_by_peer {
            return Ok(());
        }
        self.end(TlsFailure::Truncated);
        Err(TlsFailure::Truncated)
    }

    /// Sets the time of the next write, for a server whose [first records](crate::FirstRecords) start again after a
    /// pause.
    pub fn note_time(&mut self, now: Instant) {
        // The record that is being filled keeps its size.
        if self.filling.is_none() {
            self.sizes.note_time(now);
        }
    }

    /// Writes plaintext; returns the number of bytes taken. The number is lower than the length of `plain` if 64 KiB
    /// wait to be sent, or if the session is closed. Before the session is established, the data waits.
    pub fn write(&mut self, plain: &[u8]) -> usize {
        let length = plain.len().min(self.writable());
        self.append(&plain[..length]);
        length
    }

    /// Writes several pieces of plaintext in order.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> usize {
        let mut taken = 0;
        for piece in pieces {
            let length = self.write(piece);
            taken += length;
            if length < piece.len() {
                break;
            }
        }
        taken
    }

    /// The number of bytes that [`write`](Session::write) would take.
    pub fn writable(&self) -> usize {
        if self.closing || matches!(self.phase, Phase::Over) {
            return 0;
        }
        let waiting = self.outgoing.len() - self.outgoing_sent + self.waiting.len();
        BUFFER.saturating_sub(waiting)
    }

    /// Returns the bytes for the transport. Seals the open record: to send few records, write all data before this
    /// call.
    pub fn transmit(&mut self) -> &[u8] {
        self.seal();
        &self.outgoing[self.outgoing_sent..]
    }

    /// Reports that this number of bytes of [`transmit`](Session::transmit) was passed to the transport.
    pub fn transmitted(&mut self, bytes: usize) {
        self.outgoing_sent += bytes;
        debug_assert!(self.outgoing_sent <= self.outgoing.len());
        if self.outgoing_sent >= self.outgoing.len() {
            self.outgoing.clear();
            self.outgoing_sent = 0;
        }
    }

    /// Whether [`transmit`](Session::transmit) would return any bytes.
    pub fn wants_transmit(&self) -> bool {
        self.outgoing.len() > self.outgoing_sent || self.may_send_waiting()
    }

    /// Announces that this side sends no more data (`close_notify`). Data written before is sent first.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.seal();
        self.closing = true;
        // Without keys no alert is sent: an unencrypted alert could also come from an attacker.
        self.say_alert(CLOSE_NOTIFY);
    }

    /// Whether early data can be written: the client's settings and the resumed session permit it, and no data from the
    /// server has arrived yet.
    pub fn may_send_early(&self) -> bool {
        matches!(&self.phase, Phase::Handshaking(handshaking) if handshaking.may_send_early())
    }

    /// Writes early data; returns the number of bytes taken. The number is lower than the length of `plain` if the
    /// server's limit is reached. An attacker can record and replay early data, so it must be safe to execute twice.
    /// If the server rejects it ([`Handshake::early_data`]), it must be written again.
    pub fn early_write(&mut self, plain: &[u8]) -> usize {
        let Phase::Handshaking(handshaking) = &mut self.phase else {
            return 0;
        };
        if !handshaking.may_send_early() {
            return 0;
        }
        let start = self.outgoing.len();
        let (taken, records) =
            handshaking.early_write(plain, self.sizes.largest(), &mut self.outgoing);
        count_application(&mut self.sent, self.outgoing.len() - start, taken, records);
        taken
    }

    /// Frees the memory of empty buffers, for a connection that will be idle.
    pub fn free_buffers(&mut self) {
        if std::mem::take(&mut self.incoming_given) {
            self.incoming.clear();
        }
        if let Phase::Established(established) = &mut self.phase {
            established.free_buffer();
        }
        for buffer in [
            &mut self.incoming,
            &mut self.outgoing,
            &mut self.waiting,
            &mut self.plain,
        ] {
            if buffer.is_empty() {
                *buffer = Vec::new();
            }
        }
    }

    /// Seals a record of any type and content, to imitate a faulty peer in tests.
    fn inject(&mut self, kind: u8, content: &[u8]) {
        self.seal();
        if let Phase::Established(established) = &mut self.phase {
            established.say(&mut self.outgoing, kind, content);
        }
    }

    /// Ends the session: only records that are already sealed are still sent.
    fn end(&mut self, failure: TlsFailure) {
        if let Some(start) = self.filling.take() {
            // The open record still contains plaintext.
            self.outgoing.truncate(start);
        }
        self.waiting.clear();
        self.phase = Phase::Over;
        self.failure = Some(failure);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("client", &self.client)
            .field("established", &self.is_established())
            .field("handshake", &self.handshake)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}
