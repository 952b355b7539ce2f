//! One side of one TLS connection.

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

/// The number of waiting bytes at which [`Session::write`] stops accepting data.
const BUFFER: usize = 64 * 1024;

/// One side of one TLS connection, without I/O.
///
/// The methods form four groups:
///
/// - queries, which do not change the session: [`is_established`](Session::is_established),
///   [`handshake`](Session::handshake), [`wants_transmit`](Session::wants_transmit) …
/// - requests of the host: [`write`](Session::write), [`early_write`](Session::early_write),
///   [`close`](Session::close);
/// - events of the transport: [`transmitted`](Session::transmitted), [`handle_eof`](Session::handle_eof);
/// - [`open`](Session::open), which reads bytes and returns plaintext. [`receive`](Session::receive) and
///   [`read`](Session::read) do the same with two more copies. After these methods, even after an error, call
///   [`transmit`](Session::transmit): an alert may have to be sent.
///
/// rustls performs the handshake. Afterwards, this type seals and opens records with `ring`'s AEADs and the keys that
/// rustls exports. Plaintext is sealed and opened in place, without a copy, and all writes of a turn become one record.
/// CPU time per exchange of the client and of the server, with the write pattern of HTTP/2 (`cargo bench -p
/// fathometer-tls`: 16 requests per write, answers of 1 KB, AES-256-GCM, AMD EPYC):
///
/// - this type: 165 and 161 ns;
/// - rustls's buffered interface: 234 and 215 ns;
/// - rustls's unbuffered interface: 174 and 229 ns;
/// - this type with a separate record for each answer: 252 and 302 ns. Joining the answers in one record
///   ([`transmit`](Session::transmit)) thus has the largest effect.
///
/// Invariants:
///
/// - Any split of the input gives the same plaintext and the same counts.
/// - Data written between two calls of `transmit` is sent in the fewest possible records.
/// - No plaintext is returned after `close_notify` or a failure.
/// - The memory that a peer can occupy in a session is bounded: one record, or one handshake message of at most 64 KiB.
///   The work that a peer can cause without sending data is also bounded.
pub struct Session {
    phase: Phase,
    /// The received part of an incomplete record or handshake message.
    incoming: Vec<u8>,
    /// The number of bytes in `incoming` that were already passed to rustls.
    shown: usize,
    /// Whether `open` returned the contents of `incoming`, so that they can be removed.
    incoming_given: bool,
    /// Data that was received during the handshake, or that waits for `read`.
    plain: Vec<u8>,
    plain_read: usize,
    early: bool,
    /// Records to send. The last record may be open (not sealed yet).
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// The start of the open record in `outgoing`.
    filling: Option<usize>,
    /// Data that was written before keys were available.
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
    /// The session has failed. It neither sends nor receives.
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
    /// Creates a client's session with the server `name` (a host name or an IP address). The first flight is ready to
    /// be sent.
    ///
    /// # Errors
    ///
    /// If `name` is neither a host name nor an IP address.
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

    /// The negotiated parameters and the cost of the handshake; `None` before the session is established.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_deref()
    }

    /// The channel binding `tls-exporter` (RFC 9266): 32 bytes that are the same on both sides of a session and differ
    /// between sessions. A protocol that authenticates the peer with a shared secret includes the channel binding in
    /// its proofs. A man in the middle has a different session with each side, and so cannot forward the proofs.
    /// Without such a protocol, a session [without verification](crate::Verification::Off) resists only passive
    /// eavesdroppers.
    ///
    /// `None` before the session is established, if the binding was not
    /// [requested](crate::ClientOptions::channel_binding), and in TLS 1.2. In TLS 1.2, the value is not unique without
    /// an extension (RFC 9266 section 4).
    pub fn channel_binding(&self) -> Option<&[u8; BINDING]> {
        self.binding.as_deref()
    }

    /// The protocol that ALPN selected; `None` if there is none, or not yet. It may be available before the session is
    /// established, because a server needs it to answer early data.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.alpn(),
            _ => self.handshake.as_ref()?.alpn.as_deref(),
        }
    }

    /// Whether written data is sent with the next [`transmit`](Session::transmit). True after the handshake. Also true
    /// before its end if the server may answer early data.
    pub fn may_write(&self) -> bool {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.may_write && self.shown == 0,
            Phase::Established(_) => true,
            Phase::Over => false,
        }
    }

    /// The records that were produced for sending so far.
    pub fn sent(&self) -> &Traffic {
        &self.sent
    }

    /// The complete records that were received so far.
    pub fn received(&self) -> &Traffic {
        &self.received
    }

    /// Whether the peer has announced that it sends no more data (`close_notify`).
    pub fn is_closed_by_peer(&self) -> bool {
        self.closed_by_peer
    }

    /// The reason for the failure of the session; `None` if the session has not failed.
    pub fn failure(&self) -> Option<&TlsFailure> {
        self.failure.as_ref()
    }

    /// Whether the last returned plaintext is early data, which a client sends before the handshake is complete. Early
    /// data may be a replay. The server decides which requests are safe to execute twice (RFC 8470).
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Reads bytes from the transport and returns the next piece of plaintext, decrypted in place. Call `open` with the
    /// remaining input until it returns `None`. All bytes are then consumed, and the session has stored an incomplete
    /// record, if any.
    ///
    /// ```
    /// # use fathometer_model::Instant;
    /// # use fathometer_tls::{Session, TlsFailure};
    /// fn handle(session: &mut Session, read: &mut [u8], now: Instant) -> Result<usize, TlsFailure> {
    ///     let mut input = read;
    ///     let mut bytes = 0;
    ///     while let Some(plain) = session.open(&mut input, now)? {
    ///         bytes += plain.len(); // or pass it to a state machine
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
            // Data that `receive` stored and `read` has not taken comes first.
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

    /// Reads all given bytes from the transport, and stores the plaintext for [`read`](Session::read). This is simpler
    /// than [`open`](Session::open), but needs two more copies.
    ///
    /// # Errors
    ///
    /// The same as for [`open`](Session::open).
    pub fn receive(&mut self, ciphertext: &[u8], now: Instant) -> Result<usize, TlsFailure> {
        // Saves unread data, which `open` would discard.
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

    /// Copies plaintext that [`receive`](Session::receive) stored. Returns the number of bytes; 0 if there is no
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
    /// [`TlsFailure::Truncated`] if the peer has not sent `close_notify`.
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

    /// Sets the time of the next write, for a server whose [small first records](crate::FirstRecords) start again after
    /// a pause.
    pub fn note_time(&mut self, now: Instant) {
        // The size limit of an open record does not change.
        if self.filling.is_none() {
            self.sizes.note_time(now);
        }
    }

    /// Writes plaintext; returns the number of bytes accepted. Fewer bytes than given are accepted if 64 KiB wait to be
    /// sent, or if the session is closed. Before the session is established, the data waits.
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

    /// The number of bytes that [`write`](Session::write) would accept.
    pub fn writable(&self) -> usize {
        if self.closing || matches!(self.phase, Phase::Over) {
            return 0;
        }
        let waiting = self.outgoing.len() - self.outgoing_sent + self.waiting.len();
        BUFFER.saturating_sub(waiting)
    }

    /// Returns the bytes for the transport, and seals the open record. To send few records, write all data before this
    /// call.
    pub fn transmit(&mut self) -> &[u8] {
        self.seal();
        &self.outgoing[self.outgoing_sent..]
    }

    /// Notes that the transport took the first `bytes` bytes that [`transmit`](Session::transmit) returned.
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

    /// Announces that this side sends no more data (`close_notify`). Earlier data is sent first.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.seal();
        self.closing = true;
        // Without keys, no alert is sent, because an unencrypted alert could also come from an attacker.
        self.say_alert(CLOSE_NOTIFY);
    }

    /// Whether early data can be written: the client's settings and the resumed session permit early data, and no data
    /// from the server has arrived yet.
    pub fn may_send_early(&self) -> bool {
        matches!(&self.phase, Phase::Handshaking(handshaking) if handshaking.may_send_early())
    }

    /// Writes early data; returns the number of bytes accepted. Fewer bytes than given are accepted if the server's
    /// limit is reached. An attacker can record and replay early data, so the data must be safe to execute twice. If
    /// the server rejects it ([`Handshake::early_data`]), the data must be written again.
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

    /// Seals a record with any type and content. Tests use it to imitate a faulty peer.
    fn inject(&mut self, kind: u8, content: &[u8]) {
        self.seal();
        if let Phase::Established(established) = &mut self.phase {
            established.say(&mut self.outgoing, kind, content);
        }
    }

    /// Ends the session. Only records that are already sealed are still sent.
    fn end(&mut self, failure: TlsFailure) {
        if let Some(start) = self.filling.take() {
            // The open record contains plaintext, so it is removed.
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
