//! The socket of a client connection, with TLS if the policy has TLS.
//!
//! All bytes that the driver offers at one time form one flush. A flush becomes one write (over TLS: the records of one
//! turn), so only the client's own buffering determines the packets.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{ConnectionId, PageDriver, Protocol};
use fathometer_model::{Failure, Instant, TlsRecord};
use fathometer_sys::{Clock, socket};
use fathometer_tls::{ClientSettings, EarlyData, Resumption, Session, TlsFailure};

use super::ClientSockets;

/// Maximum number of successive reads from one connection before the loop handles other work.
const READS_IN_A_ROW: usize = 8;

/// The socket and the TLS session of one connection.
pub(super) struct Transport {
    stream: TcpStream,
    /// Whether the socket is connected.
    connected: bool,
    /// Whether the data has been read to its end.
    ended: bool,
    pub(super) wants_write: bool,
    /// Whether the poller has reported data that is not yet read completely.
    readable: bool,
    /// Whether to close the client's side when all data is written.
    ending: bool,
    tls: Option<Box<Tls>>,
    /// The error with which TLS failed, until the loop takes it.
    pub(super) tls_failure: Option<String>,
}

struct Tls {
    session: Session,
    begun: Instant,
    /// Data written before the handshake was complete. It is written again if the server rejects the early data.
    early: Vec<u8>,
    /// Whether the driver was notified that the handshake is complete.
    is_reported: bool,
}

impl Transport {
    /// Creates a transport on a socket that is connecting.
    pub(super) fn new(stream: TcpStream) -> Transport {
        Transport {
            stream,
            connected: false,
            ended: false,
            wants_write: false,
            readable: false,
            ending: false,
            tls: None,
            tls_failure: None,
        }
    }

    /// Checks the state of the connection attempt; returns whether the socket is connected.
    pub(super) fn handle_progress(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        sockets: &ClientSockets,
        now: Instant,
    ) -> io::Result<bool> {
        if self.connected {
            return Ok(true);
        }
        if let Some(failure) = connection_failure(&self.stream) {
            self.ended = true;
            driver.handle_failure(id, failure, now);
            return Ok(false);
        }
        if self.stream.peer_addr().is_err() {
            return Ok(false);
        }
        self.connected = true;
        self.wants_write = true;
        if let Some(quick) = sockets.quick_ack {
            socket::set_quick_ack(&self.stream, quick)?;
        }
        match sockets.tls.as_ref().filter(|_| driver.policy().tls) {
            None => driver.handle_connected(id, now),
            Some(settings) => self.begin_tls(id, driver, settings, now),
        }
        Ok(true)
    }

    fn begin_tls(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        settings: &Arc<ClientSettings>,
        now: Instant,
    ) {
        match Session::client(settings, driver.host_of(id), now) {
            Ok(session) => {
                let mut tls = Box::new(Tls {
                    session,
                    begun: now,
                    early: Vec::new(),
                    is_reported: false,
                });
                if tls.session.may_send_early() {
                    driver.handle_connected(id, now);
                    // The first requests are sent with the first bytes of the handshake.
                    while tls.take(id, driver, now) > 0 {}
                }
                self.tls = Some(tls);
            }
            Err(failure) => self.fail(id, driver, &failure, now),
        }
    }

    /// Writes pending bytes until the socket's buffer is full; returns whether any were written.
    pub(super) fn write(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        clock: Clock,
    ) -> bool {
        let mut progress = false;
        while self.connected && !self.ended && self.wants_write {
            let written = match &mut self.tls {
                None => {
                    let bytes = driver.transmit(id);
                    if bytes.is_empty() {
                        break;
                    }
                    self.stream.write(bytes)
                }
                Some(tls) => {
                    if !tls.session.wants_transmit() {
                        tls.take(id, driver, clock.now());
                    }
                    let bytes = tls.session.transmit();
                    if bytes.is_empty() {
                        break;
                    }
                    self.stream.write(bytes)
                }
            };
            match written {
                Ok(written) => {
                    progress = true;
                    match &mut self.tls {
                        None => driver.transmitted(id, written, clock.now()),
                        Some(tls) => tls.session.transmitted(written),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wants_write = false;
                }
                Err(error) => {
                    // Data that the peer sent before it closed the connection must still be read. The read also reports
                    // a reset.
                    if error.kind() != io::ErrorKind::BrokenPipe {
                        self.ended = true;
                        driver.handle_failure(id, socket::classify(&error), clock.now());
                        progress = true;
                    }
                    self.wants_write = false;
                }
            }
        }
        if self.ending && self.wants_write {
            self.ending = false;
            // Fails if the peer has reset the connection; this failure is harmless.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        progress
    }

    /// Records that the poller has reported data.
    pub(super) fn note_readable(&mut self) {
        self.readable = true;
    }

    /// Returns whether there may be unread data.
    pub(super) fn is_unread(&self) -> bool {
        self.connected && self.readable && !self.ended
    }

    /// Reads available data, up to the limit of one turn, and passes it to the driver.
    pub(super) fn read(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        buffer: &mut [u8],
        quick_ack: Option<bool>,
        clock: Clock,
    ) {
        for _ in 0..READS_IN_A_ROW {
            if self.ended {
                return;
            }
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.ended = true;
                    self.handle_eof(id, driver, clock.now());
                }
                Ok(length) => {
                    let failed = |quick| socket::set_quick_ack(&self.stream, quick).is_err();
                    if quick_ack.is_some_and(failed) {
                        self.ended = true;
                        driver.handle_failure(id, Failure::LocalLimit, clock.now());
                        return;
                    }
                    self.handle_data(id, driver, &mut buffer[..length], clock.now());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return;
                }
                Err(error) => {
                    self.ended = true;
                    driver.handle_failure(id, socket::classify(&error), clock.now());
                }
            }
        }
    }

    fn handle_data(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        mut bytes: &mut [u8],
        now: Instant,
    ) {
        let Some(tls) = &mut self.tls else {
            return driver.handle_data(id, bytes, now);
        };
        let failure = loop {
            match tls.session.open(&mut bytes, now) {
                Ok(Some(plain)) if tls.is_reported => driver.handle_data(id, plain, now),
                Ok(Some(plain)) => {
                    // The server may send data with the end of its handshake. The driver must first be notified
                    // that the connection is established.
                    let plain = plain.to_vec();
                    if let Err(failure) = tls.report(id, driver, now) {
                        break Some(failure);
                    }
                    driver.handle_data(id, &plain, now);
                }
                Ok(None) => break tls.report(id, driver, now).err(),
                Err(failure) => break Some(failure.into()),
            }
        };
        if let Some(failure) = failure {
            return self.refuse(id, driver, failure, now);
        }
        if tls.session.is_closed_by_peer() {
            self.ended = true;
            driver.handle_eof(id, now);
        }
    }

    /// Handles EOF from the server. Over TLS, an EOF without close_notify may be forged.
    fn handle_eof(&mut self, id: ConnectionId, driver: &mut PageDriver, now: Instant) {
        match &mut self.tls {
            None => driver.handle_eof(id, now),
            Some(tls) => match (tls.session.is_established(), tls.session.handle_eof()) {
                (_, Ok(())) => driver.handle_eof(id, now),
                (true, Err(_)) => driver.handle_cut(id, now),
                (false, Err(failure)) => self.fail(id, driver, &failure, now),
            },
        }
    }

    fn fail(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        failure: &TlsFailure,
        now: Instant,
    ) {
        let refused = Refused {
            failure: failure.failure(),
            message: failure.to_string(),
        };
        self.refuse(id, driver, refused, now);
    }

    /// Handles a failure of TLS: notifies the driver, and the server if the socket accepts the alert.
    fn refuse(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        refused: Refused,
        now: Instant,
    ) {
        self.ended = true;
        self.tls_failure = Some(refused.message);
        self.say_last_word();
        driver.handle_failure(id, refused.failure, now);
    }

    /// Closes the client's side when all data has been written.
    pub(super) fn shut_down(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.close();
        }
        self.ending = true;
    }

    /// Closes both sides.
    pub(super) fn close(mut self) {
        if self.connected && !self.ended {
            if let Some(tls) = &mut self.tls {
                tls.session.close();
            }
            self.say_last_word();
        }
    }

    /// Resets the connection.
    pub(super) fn abort(self) {
        let _ = socket::set_linger(&self.stream, Some(Duration::ZERO));
    }

    /// Writes the remaining bytes of TLS, without retrying.
    fn say_last_word(&mut self) {
        if let Some(tls) = &mut self.tls {
            let bytes = tls.session.transmit();
            if !bytes.is_empty() {
                let _ = self.stream.write(bytes);
            }
        }
    }
}

/// The reason for which TLS failed.
struct Refused {
    failure: Failure,
    message: String,
}

impl From<TlsFailure> for Refused {
    fn from(failure: TlsFailure) -> Refused {
        Refused {
            failure: failure.failure(),
            message: failure.to_string(),
        }
    }
}

impl Tls {
    /// Takes one flush of the driver, up to the available space; returns the number of bytes taken.
    fn take(&mut self, id: ConnectionId, driver: &mut PageDriver, now: Instant) -> usize {
        let bytes = driver.transmit(id);
        if bytes.is_empty() {
            return 0;
        }
        let taken = if self.session.is_established() {
            self.session.write(bytes)
        } else {
            let taken = self.session.early_write(bytes);
            self.early.extend_from_slice(&bytes[..taken]);
            taken
        };
        driver.transmitted(id, taken, now);
        taken
    }

    /// Notifies the driver, once, when the handshake is complete.
    fn report(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        now: Instant,
    ) -> Result<(), Refused> {
        if self.is_reported || !self.session.is_established() {
            return Ok(());
        }
        let Some(handshake) = self.session.handshake() else {
            return Ok(());
        };
        self.is_reported = true;
        let agreed = handshake.alpn.as_deref();
        check_protocol(driver.protocol_of(id), agreed)?;
        let protocol = agreed.map(|name| String::from_utf8_lossy(name).into_owned());
        let record = TlsRecord {
            begun: self.begun,
            finished: now,
            version: handshake.version.name().to_owned(),
            cipher_suite: handshake.cipher_suite.name().to_owned(),
            resumed: handshake.resumption != Resumption::Full,
            early_data: match handshake.early_data {
                EarlyData::NotTried => None,
                EarlyData::Accepted => Some(true),
                EarlyData::Rejected => Some(false),
            },
            round_trips: u32::from(handshake.round_trips),
            sent: handshake.sent,
            received: handshake.received,
            certificates: handshake.certificates,
        };
        let rejected = handshake.early_data == EarlyData::Rejected;
        driver.note_protection(id, protocol, record);
        driver.handle_connected(id, now);
        let early = std::mem::take(&mut self.early);
        if rejected {
            // The ticket limits the early data, so the data fits into the empty buffer.
            self.session.write(&early);
        }
        Ok(())
    }
}

/// Checks that ALPN negotiated the policy's protocol.
fn check_protocol(wanted: Protocol, agreed: Option<&[u8]>) -> Result<(), Refused> {
    if wanted.is_selected_by(agreed) {
        return Ok(());
    }
    let name = wanted.alpn();
    let instead = agreed.map_or("nothing".into(), String::from_utf8_lossy);
    Err(Refused {
        failure: Failure::TlsFailed,
        message: format!("the server does not support {name}: ALPN negotiated {instead}"),
    })
}

/// Returns the failure of a connection attempt, if there is one.
fn connection_failure(stream: &TcpStream) -> Option<Failure> {
    match stream.take_error() {
        Ok(None) => None,
        Ok(Some(error)) | Err(error) => Some(socket::classify(&error)),
    }
}
