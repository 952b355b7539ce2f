//! A session during its handshake. rustls receives one record at a time. The session can thus count each record by its
//! kind, and rustls decrypts no record after the handshake.

use std::sync::Arc;

use fathometer_model::Bytes;
use rustls::client::{EarlyDataError, UnbufferedClientConnection};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion, SignatureScheme};

use super::established::{Established, Kernel};
use super::exporter::{BINDING, channel_binding};
use super::hello::{CLIENT_HELLO, Hello};
use super::record::{APPLICATION_DATA, HANDSHAKE, HEADER};
use crate::settings::{Clock, Noted, take_noted};
use crate::{CipherSuite, EarlyData, Group, Handshake, Resumption, TlsFailure, Version};

/// The number of bytes that a TLS 1.3 record adds to its content: header, content type and authentication tag.
const OVERHEAD: usize = HEADER + 1 + 16;
/// The length in bytes of a record with EndOfEarlyData. No other record of the handshake has this length.
const END_OF_EARLY_DATA: usize = OVERHEAD + 4;
/// The maximum length in bytes of a record that contains only the client's Finished.
const LARGEST_FINISHED: usize = OVERHEAD + 4 + 48;

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

pub(super) struct Handshaking {
    connection: Connection,
    pub(super) clock: Arc<Clock>,
    /// The ClientHello, after it was sent or received.
    hello: Option<Hello>,
    client_hellos: u32,
    noted: Noted,
    /// Whether the server's tickets contain the sessions.
    stateless: bool,
    asks_for_certificate: bool,
    may_send_early: bool,
    early_accepted: bool,
    /// Whether data may be written before the handshake is complete.
    pub(super) may_write: bool,
}

/// The results of a complete handshake.
pub(super) struct Finished {
    pub established: Established,
    pub handshake: Handshake,
    /// The channel binding, if it was requested.
    pub binding: Option<[u8; BINDING]>,
}

/// The effects of one record.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Whether the data in the record is early data.
    pub early: bool,
    /// Whether the record has application data, even if it cannot be decrypted.
    pub application: bool,
    /// Whether the record is `close_notify`.
    pub closed: bool,
    /// The number of bytes at the front of the buffer that were consumed.
    pub consumed: usize,
    /// Whether the record must not be passed to rustls again.
    pub forget: bool,
}

/// The next action after a state was handled.
enum Next {
    Again,
    Closed,
    Write,
    Wait,
}

impl Handshaking {
    pub(super) fn client(connection: UnbufferedClientConnection, clock: Arc<Clock>) -> Handshaking {
        Handshaking::new(Connection::Client(connection), clock)
    }

    pub(super) fn server(
        connection: UnbufferedServerConnection,
        clock: Arc<Clock>,
        stateless: bool,
        asks_for_certificate: bool,
    ) -> Handshaking {
        Handshaking {
            stateless,
            asks_for_certificate,
            ..Handshaking::new(Connection::Server(connection), clock)
        }
    }

    fn new(connection: Connection, clock: Arc<Clock>) -> Handshaking {
        Handshaking {
            connection,
            clock,
            hello: None,
            client_hellos: 0,
            noted: Noted::default(),
            stateless: false,
            asks_for_certificate: false,
            may_send_early: false,
            early_accepted: false,
            may_write: false,
        }
    }

    /// Writes the client's first flight.
    pub(super) fn start(&mut self, out: &mut Vec<u8>) -> Result<(), TlsFailure> {
        let Connection::Client(connection) = &mut self.connection else {
            return Ok(());
        };
        loop {
            match connection.process_tls_records(&mut []).state? {
                ConnectionState::EncodeTlsData(data) => encode(data, out),
                ConnectionState::TransmitTlsData(mut transmit) => {
                    // When this state is marked as done, no more early data can be written. Therefore, it is marked
                    // only after the server has answered.
                    self.may_send_early = transmit.may_encrypt_early_data().is_some();
                    if !self.may_send_early {
                        transmit.done();
                    }
                    break;
                }
                _ => break,
            }
        }
        self.hello = Hello::read(out);
        Ok(())
    }

    /// Whether early data may be written now.
    pub(super) fn may_send_early(&self) -> bool {
        self.may_send_early
    }

    /// Writes early data in records of at most `record_size` bytes. Returns the number of bytes and the number of
    /// records.
    pub(super) fn early_write(
        &mut self,
        plain: &[u8],
        record_size: usize,
        out: &mut Vec<u8>,
    ) -> (usize, u64) {
        let Connection::Client(connection) = &mut self.connection else {
            return (0, 0);
        };
        let status = connection.process_tls_records(&mut []);
        let Ok(ConnectionState::TransmitTlsData(mut transmit)) = status.state else {
            return (0, 0);
        };
        let Some(mut early) = transmit.may_encrypt_early_data() else {
            return (0, 0);
        };
        let (mut taken, mut records) = (0, 0);
        for piece in plain.chunks(record_size) {
            let start = out.len();
            out.resize(start + piece.len() + OVERHEAD, 0);
            let written: Result<usize, EarlyDataError> = early.encrypt(piece, &mut out[start..]);
            let written = written.unwrap_or(0);
            out.truncate(start + written);
            let content = written.saturating_sub(OVERHEAD);
            taken += content;
            records += u64::from(content > 0);
            if content < piece.len() {
                break;
            }
        }
        (taken, records)
    }

    /// Writes data before the handshake is complete, if permitted. Returns the number of bytes and the number of
    /// records.
    pub(super) fn write(
        &mut self,
        plain: &[u8],
        record_size: usize,
        out: &mut Vec<u8>,
    ) -> (usize, u64) {
        match &mut self.connection {
            Connection::Client(connection) => write_to(
                connection.process_tls_records(&mut []),
                plain,
                record_size,
                out,
            ),
            Connection::Server(connection) => write_to(
                connection.process_tls_records(&mut []),
                plain,
                record_size,
                out,
            ),
        }
    }

    /// Passes the records in `incoming` to rustls. The last record is new and begins at `new`. Appends the bytes to
    /// send to `out`, and received data to `plain`.
    ///
    /// # Errors
    ///
    /// If the handshake fails. The alert for the peer is then appended to `out`.
    pub(super) fn record(
        &mut self,
        incoming: &mut [u8],
        new: usize,
        out: &mut Vec<u8>,
        plain: &mut Vec<u8>,
    ) -> Result<Step, TlsFailure> {
        let kind = incoming[new];
        let length = incoming.len() - new;
        self.may_send_early = false;
        self.look_at_hello(incoming, new);
        let mut step = Step::default();
        let had = plain.len();
        // Discards values from QUIC connections on this thread, because QUIC connections do not collect them.
        take_noted();
        let outcome = self.drive(incoming, out, plain, &mut step);
        let noted = take_noted();
        self.noted.scheme = noted.scheme.or(self.noted.scheme);
        self.noted.certificates = noted.certificates.or(self.noted.certificates);
        self.noted.exporter = noted.exporter.or(self.noted.exporter);
        if let Err(error) = outcome {
            self.say_last_words(out);
            return Err(error.into());
        }
        step.application = plain.len() > had;
        self.early_accepted |= step.early;
        if kind == APPLICATION_DATA && !step.application && self.is_handshaking() {
            self.unreadable(length, &mut step);
        }
        Ok(step)
    }

    /// The protocol that ALPN selected, as soon as it is available.
    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.common().alpn_protocol()
    }

    /// Whether the handshake is in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Takes the keys from rustls after the handshake. Returns the keys and the negotiated parameters. `sent` and
    /// `received` are the sizes of the handshake.
    pub(super) fn finish(self, sent: Bytes, received: Bytes) -> Result<Finished, TlsFailure> {
        let handshake = self.figures(sent, received)?;
        let secret = self.noted.exporter.as_ref();
        let binding = secret.and_then(|secret| channel_binding(handshake.cipher_suite, secret));
        let tls13 = handshake.version == Version::Tls13;
        let suite = self.common().negotiated_cipher_suite();
        let key_limit = suite.map_or(u64::MAX, |suite| match suite {
            rustls::SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            rustls::SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        });
        let (secrets, kernel) = match self.connection {
            Connection::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Client(kernel))
            }
            Connection::Server(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Server(kernel))
            }
        };
        let established = Established::new(
            kernel,
            self.clock,
            tls13,
            &secrets.tx,
            &secrets.rx,
            key_limit,
        )
        .ok_or_else(unknown)?;
        Ok(Finished {
            established,
            handshake,
            binding,
        })
    }

    fn drive(
        &mut self,
        incoming: &mut [u8],
        out: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        step: &mut Step,
    ) -> Result<(), Error> {
        self.may_write = false;
        loop {
            let rest = &mut incoming[step.consumed..];
            let (discard, next) = match &mut self.connection {
                Connection::Client(connection) => {
                    let status = connection.process_tls_records(rest);
                    (status.discard, deal_with(status.state, out, plain))
                }
                Connection::Server(connection) => {
                    let status = connection.process_tls_records(rest);
                    let next = match status.state {
                        Ok(ConnectionState::ReadEarlyData(mut early)) => {
                            step.early = true;
                            while let Some(record) = early.next_record() {
                                plain.extend_from_slice(record?.payload);
                            }
                            Ok(Next::Again)
                        }
                        state => deal_with(state, out, plain),
                    };
                    (status.discard, next)
                }
            };
            step.consumed += discard;
            match next? {
                Next::Again => {}
                Next::Closed => step.closed = true,
                Next::Write => {
                    self.may_write = true;
                    return Ok(());
                }
                Next::Wait => return Ok(()),
            }
        }
    }

    /// Records the ClientHello that a server receives.
    fn look_at_hello(&mut self, incoming: &[u8], new: usize) {
        if !matches!(self.connection, Connection::Server(_)) || incoming[new] != HANDSHAKE {
            return;
        }
        if new == 0 && incoming.get(HEADER) == Some(&CLIENT_HELLO) {
            self.client_hellos += 1;
        }
        if self.hello.is_none() {
            self.hello = Hello::read(incoming);
        }
    }

    /// Handles an encrypted record that contained no readable data and did not complete the handshake. It is either
    /// part of the client's last flight, or rejected early data that the server cannot decrypt.
    fn unreadable(&mut self, length: usize, step: &mut Step) {
        let offered = self.hello.as_ref().is_some_and(|hello| hello.early_data);
        let server = matches!(self.connection, Connection::Server(_));
        if !server || !offered || self.asks_for_certificate {
            return;
        }
        let read = step.consumed > 0 && self.client_hellos == 1;
        if read && length == END_OF_EARLY_DATA {
            self.early_accepted = true;
            return;
        }
        step.application = true;
        // Otherwise, rustls would try to decrypt the record again with each later record, and count it each time
        // against the limit of early data. Therefore, a record that cannot be part of Finished is dropped.
        step.forget = step.consumed == 0 && length > LARGEST_FINISHED;
    }

    /// Writes the alert that rustls has for the peer after a failure. The remaining input is not passed to rustls
    /// again.
    fn say_last_words(&mut self, out: &mut Vec<u8>) {
        while self.common().wants_write() {
            let written = match &mut self.connection {
                Connection::Client(connection) => {
                    encode_only(connection.process_tls_records(&mut []).state, out)
                }
                Connection::Server(connection) => {
                    encode_only(connection.process_tls_records(&mut []).state, out)
                }
            };
            if !written {
                return;
            }
        }
    }

    fn common(&self) -> &CommonState {
        match &self.connection {
            Connection::Client(connection) => connection,
            Connection::Server(connection) => connection,
        }
    }

    fn figures(&self, sent: Bytes, received: Bytes) -> Result<Handshake, TlsFailure> {
        let common = self.common();
        let client = matches!(self.connection, Connection::Client(_));
        let hello = self.hello.clone().unwrap_or_default();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
            Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
            _ => return Err(unknown()),
        };
        let suite = common.negotiated_cipher_suite().and_then(CipherSuite::of);
        let full = common.handshake_kind() != Some(HandshakeKind::Resumed);
        let tickets = if client { hello.ticket } else { self.stateless };
        let resumption = match version {
            _ if full => Resumption::Full,
            Version::Tls13 => Resumption::Psk,
            Version::Tls12 if tickets => Resumption::Ticket,
            Version::Tls12 => Resumption::SessionId,
        };
        // In TLS 1.2, an encrypted handshake record may look like a ClientHello, so the count is not reliable.
        let hello_retry = self.client_hellos > 1 && version == Version::Tls13;
        let early_data = match (hello.early_data, self.early_accepted && !hello_retry) {
            (false, _) => EarlyData::NotTried,
            (true, true) => EarlyData::Accepted,
            (true, false) => EarlyData::Rejected,
        };
        let waits_for_finished = client && version == Version::Tls12 && full;
        let certificates = match full {
            false => Bytes(0),
            true => self.noted.certificates.unwrap_or_default(),
        };
        Ok(Handshake {
            version,
            cipher_suite: suite.ok_or_else(unknown)?,
            group: common.negotiated_key_exchange_group().and_then(Group::of),
            signature_scheme: self.noted.scheme.filter(|_| full).map(scheme_name),
            resumption,
            early_data,
            alpn: common.alpn_protocol().map(<[u8]>::to_vec),
            server_name: hello.server_name,
            sent,
            received,
            certificates,
            round_trips: match early_data {
                EarlyData::Accepted => 0,
                _ => 1 + u8::from(hello_retry) + u8::from(waits_for_finished),
            },
            hello_retry,
        })
    }

    /// Detects a second ClientHello, or EndOfEarlyData, in the records that a client sends. EndOfEarlyData is the only
    /// sign that the server accepted early data.
    pub(super) fn look_at_sent(&mut self, record: &[u8]) {
        if !matches!(self.connection, Connection::Client(_)) {
            return;
        }
        if record[0] == HANDSHAKE && record.get(HEADER) == Some(&CLIENT_HELLO) {
            self.client_hellos += 1;
        }
        if record[0] == APPLICATION_DATA && record.len() == END_OF_EARLY_DATA {
            self.early_accepted = true;
        }
    }
}

/// Handles the states that the client and the server have in common.
fn deal_with<Data>(
    state: Result<ConnectionState<'_, '_, Data>, Error>,
    out: &mut Vec<u8>,
    plain: &mut Vec<u8>,
) -> Result<Next, Error> {
    Ok(match state? {
        ConnectionState::EncodeTlsData(data) => {
            encode(data, out);
            Next::Again
        }
        ConnectionState::TransmitTlsData(transmit) => {
            transmit.done();
            Next::Again
        }
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                plain.extend_from_slice(record?.payload);
            }
            Next::Again
        }
        ConnectionState::PeerClosed => Next::Closed,
        ConnectionState::WriteTraffic(_) => Next::Write,
        _ => Next::Wait,
    })
}

fn encode_only<Data>(
    state: Result<ConnectionState<'_, '_, Data>, Error>,
    out: &mut Vec<u8>,
) -> bool {
    match state {
        Ok(ConnectionState::EncodeTlsData(data)) => {
            encode(data, out);
            true
        }
        _ => false,
    }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        match data.encode(&mut out[start..]) {
            Ok(_) | Err(EncodeError::AlreadyEncoded) => return,
            Err(EncodeError::InsufficientSize(needed)) => {
                out.resize(start + needed.required_size, 0);
            }
        }
    }
}

fn write_to<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &[u8],
    record_size: usize,
    out: &mut Vec<u8>,
) -> (usize, u64) {
    let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else {
        return (0, 0);
    };
    let (mut taken, mut records) = (0, 0);
    for piece in plain.chunks(record_size) {
        let start = out.len();
        let mut room = piece.len() + OVERHEAD;
        loop {
            out.resize(start + room, 0);
            match traffic.encrypt(piece, &mut out[start..]) {
                Ok(written) => {
                    out.truncate(start + written);
                    break;
                }
                Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
                Err(EncryptError::EncryptExhausted) => {
                    out.truncate(start);
                    return (taken, records);
                }
            }
        }
        taken += piece.len();
        records += 1;
    }
    (taken, records)
}

/// Returns the name of a signature scheme from RFC 8446 section 4.2.3.
fn scheme_name(scheme: SignatureScheme) -> &'static str {
    match u16::from(scheme) {
        0x0401 => "rsa_pkcs1_sha256",
        0x0501 => "rsa_pkcs1_sha384",
        0x0601 => "rsa_pkcs1_sha512",
        0x0403 => "ecdsa_secp256r1_sha256",
        0x0503 => "ecdsa_secp384r1_sha384",
        0x0603 => "ecdsa_secp521r1_sha512",
        0x0804 => "rsa_pss_rsae_sha256",
        0x0805 => "rsa_pss_rsae_sha384",
        0x0806 => "rsa_pss_rsae_sha512",
        0x0807 => "ed25519",
        _ => "unknown signature scheme",
    }
}

fn unknown() -> TlsFailure {
    TlsFailure::Local("rustls negotiated an unsupported version or cipher suite".to_owned())
}
