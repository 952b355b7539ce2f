//! One connection's TLS.

mod established;
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
pub use fuzz::fuzz;
use handshaking::Handshaking;
use sizes::RecordSizes;
use writing::count_application;

/// Octets that may wait to be sent before [`Session::write`] takes no more.
const BUFFER: usize = 64 * 1024;

/// The TLS of one connection, for a client or a server, without I/O.
///
/// Its methods fall into four kinds:
///
/// - questions, which change nothing: [`is_established`](Session::is_established),
///   [`handshake`](Session::handshake), [`wants_transmit`](Session::wants_transmit) …
/// - what the host wants: [`write`](Session::write), [`early_write`](Session::early_write),
///   [`close`](Session::close);
/// - what happened to the transport: [`transmitted`](Session::transmitted),
///   [`handle_eof`](Session::handle_eof);
/// - [`open`](Session::open), which reads octets and gives plaintext, or [`receive`](Session::receive)
///   and [`read`](Session::read), which do the same with two copies more. After it look at
///   [`transmit`](Session::transmit), when it failed too: there may be an alert to send.
///
/// The handshake is rustls's; after it records are sealed and opened here (`ring`'s AEADs with the keys
/// that rustls hands over), because that saves copies: plaintext is written where it is sealed and
/// opened where it was read, and what a turn writes becomes one record. An exchange in HTTP/2's shape
/// (`cargo bench -p fathometer-tls`: 16 requests a write, answers of 1 KB, AES-256-GCM, AMD EPYC) takes
/// 165 ns of a client and 161 ns of a server; with rustls's buffered interface 234 and 215 ns, with its
/// unbuffered one 174 and 229 ns. With every answer in a record of its own it is 252 and 302 ns: that
/// [`transmit`](Session::transmit) joins them matters most.
///
/// Invariants: any split of the input gives the same plaintext and the same figures; what is written
/// between two calls of `transmit` leaves in as few records as hold it; nothing is given out after
/// `close_notify` or a failure; what a peer can make a session keep is bounded (one record or one
/// message of the handshake of at most 64 KiB), and so is what it can make it do without sending data.
pub struct Session {
    phase: Phase,
    /// A record, or a message of the handshake, of which a part came.
    incoming: Vec<u8>,
    /// Octets of `incoming` that rustls was shown already.
    shown: usize,
    /// Whether what is in `incoming` was given out and can go.
    incoming_given: bool,
    /// Data that came during the handshake, or that waits for `read`.
    plain: Vec<u8>,
    plain_read: usize,
    early: bool,
    /// Records to be sent, the last of which may be open.
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// Where the open record begins.
    filling: Option<usize>,
    /// Data written before there are keys.
    waiting: Vec<u8>,
    sizes: RecordSizes,
    sent: Traffic,
    received: Traffic,
    handshake: Option<Box<Handshake>>,
    client: bool,
    closed_by_peer: bool,
    closing: bool,
    failure: Option<TlsFailure>,
}

enum Phase {
    Handshaking(Box<Handshaking>),
    Established(Box<Established>),
    /// Failed: nothing more comes or goes.
    Over,
}

/// Where the next piece of plaintext is.
enum Piece<'i> {
    Input(&'i [u8]),
    Incoming(Range<usize>),
    Plain,
    None,
}

impl Session {
    /// A client's session with the server of this name or address. Its first flight is ready to be
    /// sent.
    ///
    /// # Errors
    ///
    /// When the name is none.
    pub fn client(
        settings: &Arc<ClientSettings>,
        name: &str,
        now: Instant,
    ) -> Result<Session, TlsFailure> {
        settings.clock.tell(now);
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

    /// A server's session with whoever connected.
    ///
    /// # Errors
    ///
    /// None that settings allow.
    pub fn server(settings: &Arc<ServerSettings>, now: Instant) -> Result<Session, TlsFailure> {
        settings.clock.tell(now);
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
            client,
            closed_by_peer: false,
            closing: false,
            failure: None,
        }
    }

    /// Whether the handshake is over and went well.
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Established(_))
    }

    /// What was agreed on, and what that cost; `None` until established.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_deref()
    }

    /// The protocol agreed on by ALPN; `None` when there is none, or not yet. It may be known before
    /// the session is established: whoever answers early data needs it.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.alpn(),
            _ => self.handshake.as_ref()?.alpn.as_deref(),
        }
    }

    /// Whether what is written leaves with the next [`transmit`](Session::transmit): once established,
    /// and before that where a server may answer early data.
    pub fn may_write(&self) -> bool {
        match &self.phase {
            Phase::Handshaking(handshaking) => handshaking.may_write && self.shown == 0,
            Phase::Established(_) => true,
            Phase::Over => false,
        }
    }

    /// What was made to be sent so far.
    pub fn sent(&self) -> &Traffic {
        &self.sent
    }

    /// What came so far, in whole records.
    pub fn received(&self) -> &Traffic {
        &self.received
    }

    /// Whether the peer said that it sends nothing more (`close_notify`).
    pub fn is_closed_by_peer(&self) -> bool {
        self.closed_by_peer
    }

    /// Why the session failed.
    pub fn failure(&self) -> Option<&TlsFailure> {
        self.failure.as_ref()
    }

    /// Whether the plaintext given out last came before the handshake was over, as a client's early
    /// data. It may be a replay: whoever answers it decides what is safe to do twice (RFC 8470).
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Takes octets of the transport and gives the next piece of plaintext in them, decrypted in
    /// place. To be called with what is left of the same input until it gives `None`: then all of it
    /// was taken, a part of a record being kept here.
    ///
    /// ```
    /// # use fathometer_model::Instant;
    /// # use fathometer_tls::{Session, TlsFailure};
    /// fn handle(session: &mut Session, read: &mut [u8], now: Instant) -> Result<usize, TlsFailure> {
    ///     let mut input = read;
    ///     let mut octets = 0;
    ///     while let Some(plain) = session.open(&mut input, now)? {
    ///         octets += plain.len(); // or hand it to a protocol machine
    ///     }
    ///     Ok(octets)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Once and for all; the alert for the peer is in [`transmit`](Session::transmit).
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
            // What `receive` kept and `read` did not take comes first.
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

    /// Takes octets of the transport, all of them, and keeps the plaintext for
    /// [`read`](Session::read). Simple, at the price of two copies.
    ///
    /// # Errors
    ///
    /// As [`open`](Session::open).
    pub fn receive(&mut self, ciphertext: &[u8], now: Instant) -> Result<usize, TlsFailure> {
        // What was not read yet must not be lost, and `open` begins by forgetting it.
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

    /// Copies plaintext that [`receive`](Session::receive) kept; gives how many octets, 0 when there
    /// are none.
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

    /// The transport ended.
    ///
    /// # Errors
    ///
    /// [`TlsFailure::Truncated`] unless the peer had said `close_notify`.
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

    /// Tells the time at which the next octets are written, for a server whose
    /// [first records](crate::FirstRecords) come again after a pause.
    pub fn note_time(&mut self, now: Instant) {
        // A record that is open stays as large as it was to be.
        if self.filling.is_none() {
            self.sizes.note_time(now);
        }
    }

    /// Writes plaintext; gives how many octets were taken. Fewer than given: 64 KiB wait to be sent, or
    /// nothing more can be. Before the session is established they wait for that.
    pub fn write(&mut self, plain: &[u8]) -> usize {
        let length = plain.len().min(self.writable());
        self.append(&plain[..length]);
        length
    }

    /// Writes several pieces of plaintext as one.
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

    /// How many octets [`write`](Session::write) would take.
    pub fn writable(&self) -> usize {
        if self.closing || matches!(self.phase, Phase::Over) {
            return 0;
        }
        let waiting = self.outgoing.len() - self.outgoing_sent + self.waiting.len();
        BUFFER.saturating_sub(waiting)
    }

    /// Octets for the transport. The record that was being filled is sealed, so that a host that
    /// writes all it has before it asks sends no more records than needed.
    pub fn transmit(&mut self) -> &[u8] {
        self.seal();
        &self.outgoing[self.outgoing_sent..]
    }

    /// So many octets of [`transmit`](Session::transmit) were handed to the transport.
    pub fn transmitted(&mut self, octets: usize) {
        self.outgoing_sent += octets;
        debug_assert!(self.outgoing_sent <= self.outgoing.len());
        if self.outgoing_sent >= self.outgoing.len() {
            self.outgoing.clear();
            self.outgoing_sent = 0;
        }
    }

    /// Whether [`transmit`](Session::transmit) would give something.
    pub fn wants_transmit(&self) -> bool {
        self.outgoing.len() > self.outgoing_sent || self.may_send_waiting()
    }

    /// Says that this side sends nothing more. What was written before leaves first.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.seal();
        self.closing = true;
        // Before there are keys the alert could not be told from an attacker's.
        self.say_alert(CLOSE_NOTIFY);
    }

    /// Whether early data can be written: a client whose settings allow it, that resumes a session
    /// whose server does, and that has heard nothing from the server yet.
    pub fn may_send_early(&self) -> bool {
        matches!(&self.phase, Phase::Handshaking(handshaking) if handshaking.may_send_early())
    }

    /// Writes early data; gives how many octets were taken, fewer than given when the server's limit
    /// is reached. It can be replayed by whoever recorded it, so it must be safe to do twice; and the
    /// server may refuse it ([`Handshake::early_data`]): then it has to be written again.
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

    /// Gives back the memory of empty buffers, for a connection that will be idle.
    pub fn rest(&mut self) {
        if std::mem::take(&mut self.incoming_given) {
            self.incoming.clear();
        }
        if let Phase::Established(established) = &mut self.phase {
            established.rest();
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

    /// Seals a record of any type and content, as only a peer that breaks the protocol would.
    fn inject(&mut self, kind: u8, content: &[u8]) {
        self.seal();
        if let Phase::Established(established) = &mut self.phase {
            established.say(&mut self.outgoing, kind, content);
        }
    }

    /// Nothing more comes or goes, but what was sealed.
    fn end(&mut self, failure: TlsFailure) {
        if let Some(start) = self.filling.take() {
            // What is in it is plaintext still.
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
