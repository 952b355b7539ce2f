//! One connection of the client below its machine: a socket, and TLS on it where the policy wants it.
//!
//! What the driver offers at one time is one flush: it becomes one write, with TLS the records of one
//! turn, so that the network sees the client's buffering and no other.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{ConnectionId, PageDriver, Protocol};
use fathometer_model::{Failure, Instant, TlsRecord};
use fathometer_sys::{Clock, socket};
use fathometer_tls::{ClientSettings, EarlyData, Resumption, Session, TlsFailure};

use super::ClientSockets;

/// One connection's socket and TLS.
pub(super) struct Transport {
    stream: TcpStream,
    /// The socket is connected.
    connected: bool,
    /// Nothing more can be read.
    ended: bool,
    pub(super) wants_write: bool,
    /// The client's side is to be ended when all is written.
    ending: bool,
    tls: Option<Box<Tls>>,
    /// What TLS failed on, in words, until it is taken.
    pub(super) tls_failure: Option<String>,
}

struct Tls {
    session: Session,
    begun: Instant,
    /// What was written before the handshake was over: to be written again if the server refuses it.
    early: Vec<u8>,
    /// The driver knows that the handshake is over.
    told: bool,
}

impl Transport {
    /// Begins with a socket that is being connected.
    pub(super) fn new(stream: TcpStream) -> Transport {
        Transport {
            stream,
            connected: false,
            ended: false,
            wants_write: false,
            ending: false,
            tls: None,
            tls_failure: None,
        }
    }

    /// Looks whether the socket is connected by now; says so.
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
                    told: false,
                });
                if tls.session.may_send_early() {
                    driver.handle_connected(id, now);
                    // The first requests go along with the first octets of the handshake.
                    while tls.take(id, driver, now) > 0 {}
                }
                self.tls = Some(tls);
            }
            Err(failure) => self.fail(id, driver, &failure, now),
        }
    }

    /// Writes what there is to write, as far as the socket takes it; tells whether anything was.
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
                    // What the peer sent before it went is still to be read: a reset shows there.
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
            // A peer that has reset the connection meanwhile makes this fail, harmlessly.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        progress
    }

    /// Reads all there is and hands it over.
    pub(super) fn read_all(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        buffer: &mut [u8],
        quick_ack: Option<bool>,
        clock: Clock,
    ) {
        while !self.ended {
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
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
        mut octets: &mut [u8],
        now: Instant,
    ) {
        let Some(tls) = &mut self.tls else {
            return driver.handle_data(id, octets, now);
        };
        let failure = loop {
            match tls.session.open(&mut octets, now) {
                Ok(Some(plain)) if tls.told => driver.handle_data(id, plain, now),
                Ok(Some(plain)) => {
                    // What a server says along with the end of its handshake is for a connection that
                    // is known to be established.
                    let plain = plain.to_vec();
                    if let Err(failure) = tls.tell(id, driver, now) {
                        break Some(failure);
                    }
                    driver.handle_data(id, &plain, now);
                }
                Ok(None) => break tls.tell(id, driver, now).err(),
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

    /// The server has ended its side. Whether it said so within TLS as well does not matter here:
    /// HTTP tells by itself whether a message is whole.
    fn handle_eof(&mut self, id: ConnectionId, driver: &mut PageDriver, now: Instant) {
        match &mut self.tls {
            Some(tls) if !tls.session.is_established() => match tls.session.handle_eof() {
                Err(failure) => self.fail(id, driver, &failure, now),
                Ok(()) => driver.handle_eof(id, now),
            },
            _ => driver.handle_eof(id, now),
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
            words: failure.to_string(),
        };
        self.refuse(id, driver, refused, now);
    }

    /// TLS cannot go on: tells the server why, as far as the socket takes it, and the driver.
    fn refuse(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        refused: Refused,
        now: Instant,
    ) {
        self.ended = true;
        self.tls_failure = Some(refused.words);
        self.say_last_word();
        driver.handle_failure(id, refused.failure, now);
    }

    /// Ends the client's side when all has been written.
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

    /// Offers what TLS has left to say to the socket once.
    fn say_last_word(&mut self) {
        if let Some(tls) = &mut self.tls {
            let bytes = tls.session.transmit();
            if !bytes.is_empty() {
                let _ = self.stream.write(bytes);
            }
        }
    }
}

/// Why TLS cannot go on.
struct Refused {
    failure: Failure,
    words: String,
}

impl From<TlsFailure> for Refused {
    fn from(failure: TlsFailure) -> Refused {
        Refused {
            failure: failure.failure(),
            words: failure.to_string(),
        }
    }
}

impl Tls {
    /// Takes one flush of the driver in, as far as there is room for it; says how many octets.
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

    /// Tells the driver when the handshake is over, once.
    fn tell(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        now: Instant,
    ) -> Result<(), Refused> {
        if self.told || !self.session.is_established() {
            return Ok(());
        }
        let Some(handshake) = self.session.handshake() else {
            return Ok(());
        };
        self.told = true;
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
            // It is at most what a ticket allows, and fits what is empty.
            self.session.write(&early);
        }
        Ok(())
    }
}

/// Whether what ALPN settled is what the policy speaks. HTTP/1.x needs no ALPN.
fn check_protocol(wanted: Protocol, agreed: Option<&[u8]>) -> Result<(), Refused> {
    let name = wanted.alpn();
    let fits = match (wanted, agreed) {
        (Protocol::Http1(_), None) => true,
        (_, agreed) => agreed == Some(name.as_bytes()),
    };
    if fits {
        return Ok(());
    }
    let instead = agreed.map_or("nothing".into(), String::from_utf8_lossy);
    Err(Refused {
        failure: Failure::TlsFailed,
        words: format!("the server does not speak {name}: ALPN settled on {instead}"),
    })
}

/// The failure of a connection attempt that has ended badly.
fn connection_failure(stream: &TcpStream) -> Option<Failure> {
    match stream.take_error() {
        Ok(None) => None,
        Ok(Some(error)) | Err(error) => Some(socket::classify(&error)),
    }
}
