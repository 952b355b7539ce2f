//! One connection of a loop: its socket, its protocol state machine, and TLS between them if it is used.

use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fathometer_http::h2;
use fathometer_model::Instant;
use fathometer_sys::{socket, tcp_info};
use fathometer_tls::{Session, TlsFailure};
use mio::event::Event;
use mio::net::TcpStream;

use super::OriginStatistics;
use super::access_log::{AccessLog, LoggedSession};
use super::machine::{Action, Common, Machine, SLICES};
use super::secure::{Flow, Secure};
use super::timers::Alarm;
use fathometer_sys::stderr::say;

/// Slices of at most this many bytes in total are copied into one slice, because a short copy is cheaper than
/// the kernel's handling of a list.
const COPY_LIMIT: usize = 4 * 1024;
/// Maximum number of reads and writes of a connection before other connections are served.
const TURN: usize = 32;
/// Maximum number of bytes of files that a connection may send in one turn; with TLS, of all bytes.
const TURN_BYTES: u64 = 1024 * 1024;
/// Maximum number of bytes of early data that are processed at a time.
const EARLY_BYTES: usize = 4 * 1024;

/// Buffers that the connections of a loop share; one connection uses them at a time.
pub(super) struct Buffers {
    read: Box<[u8]>,
    write: [u8; COPY_LIMIT],
    /// Buffer for bytes of files, allocated when it is first needed.
    files: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            read: vec![0; 64 * 1024].into(),
            write: [0; COPY_LIMIT],
            files: Vec::new(),
        }
    }
}

/// The state of a connection after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The connection waits for an event of its socket, a datagram, or its timer.
    Waits,
    /// The connection needs another turn.
    HasMore,
    /// The connection is closed.
    Over,
}

/// A connection.
pub(super) struct Open {
    pub stream: TcpStream,
    peer: SocketAddr,
    machine: Machine,
    secure: Option<Box<Secure>>,
    /// The number of bytes of the HTTP/2 preface that have arrived, while it is undecided whether the
    /// connection is HTTP/2.
    undecided: Option<u8>,
    pub readable: bool,
    writable: bool,
    /// Whether the peer has closed its side; data may still be left to read.
    ended: bool,
    pub alarm: Alarm,
    pub served_at: Instant,
    /// Whether the buffers were freed since the connection was last served.
    pub rested: bool,
}

/// State of the loop that a connection uses for one turn.
pub(super) struct Lent<'a> {
    pub common: &'a Common,
    pub buffers: &'a mut Buffers,
    pub log: Option<&'a mut AccessLog>,
    pub statistics: &'a mut OriginStatistics,
}

impl Open {
    /// Creates the state of an accepted connection; `None` if TLS cannot create a session for the connection.
    pub fn new(stream: TcpStream, peer: SocketAddr, common: &Common, now: Instant) -> Option<Open> {
        let protocols = &common.protocols;
        let secure = match &protocols.tls {
            None => None,
            Some(settings) => Some(Box::new(Secure::new(
                Session::server(settings, now).ok()?,
                now,
            ))),
        };
        let sniffs = secure.is_none() && protocols.http1.is_some() && protocols.http2.is_some();
        Some(Open {
            stream,
            peer,
            machine: common.machine(now),
            secure,
            undecided: sniffs.then_some(0),
            readable: true,
            writable: true,
            ended: false,
            alarm: Alarm::default(),
            served_at: Instant::ZERO,
            rested: false,
        })
    }

    /// Whether the connection is known to be HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.machine.is_http2()
    }

    /// Records the readiness that the poll reported.
    pub fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_error();
        self.writable |= event.is_writable();
        self.ended |= event.is_read_closed() || event.is_error();
    }

    /// Does all work that is possible without waiting, for one turn.
    pub fn serve(&mut self, lent: &mut Lent<'_>, now: Instant) -> Outcome {
        let mut bytes_left = TURN_BYTES;
        for _ in 0..TURN {
            let mut progress = self.write(lent, now, &mut bytes_left);
            self.take_events(lent);
            while let Some(action) = self.machine.poll_action() {
                progress = true;
                if self.carry_out(action, lent, now) == Outcome::Over {
                    return Outcome::Over;
                }
            }
            if let Some(secure) = &mut self.secure {
                if secure.has_ended() {
                    let _ = self.stream.shutdown(Shutdown::Write);
                    progress = true;
                }
                if secure.has_closed(now) {
                    return Outcome::Over;
                }
                if secure.is_closing() {
                    // Remaining data is written until the socket is full, and later when the socket accepts
                    // more.
                    if self.writable {
                        continue;
                    }
                    return Outcome::Waits;
                }
            }
            if self.machine.is_finished() {
                return Outcome::Over;
            }
            if bytes_left == 0 {
                return Outcome::HasMore;
            }
            if self.readable && self.machine.wants_data() {
                progress |= self.read(lent, now);
            }
            if !progress {
                return Outcome::Waits;
            }
        }
        Outcome::HasMore
    }

    fn carry_out(&mut self, action: Action, lent: &mut Lent<'_>, now: Instant) -> Outcome {
        match (action, &mut self.secure) {
            (Action::ShutdownWrite, Some(secure)) => secure.end(),
            (Action::ShutdownWrite, None) => {
                // Fails if the peer has reset the connection; there is then nothing left to close.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
            (Action::Close, Some(secure)) => secure.close(now),
            (Action::Close, None) => return Outcome::Over,
            (Action::Abort, _) => {
                let _ = socket::set_linger(&self.stream, Some(Duration::ZERO));
                return Outcome::Over;
            }
            (Action::Upgrade, _) => {
                let Machine::Http1(connection) = &mut self.machine else {
                    return Outcome::Over;
                };
                let upgraded = connection
                    .take_upgrade()
                    .and_then(|upgrade| lent.common.upgraded(&upgrade, now));
                match upgraded {
                    Some(machine) => self.machine = machine,
                    None => return Outcome::Over,
                }
                lent.statistics.http2 += 1;
            }
        }
        Outcome::HasMore
    }

    /// Returns the time at which the connection must be served, unless another event happens first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let secure = self.secure.as_ref().and_then(|secure| secure.deadline());
        match (self.machine.poll_timeout(), secure) {
            (Some(machine), Some(secure)) => Some(machine.min(secure)),
            (machine, secure) => machine.or(secure),
        }
    }

    /// Handles timeouts that are due at `now`. The connection must be served afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        // A client that reads nothing acknowledges probes of its closed window, and a host that is down
        // acknowledges nothing; neither counts as progress of the transport.
        if self.machine.is_sending()
            && let Ok(info) = tcp_info(&self.stream)
        {
            let still = info.since_data_sent.max(info.since_acknowledged);
            let moved = now.since(Instant::ZERO).saturating_sub(still);
            self.machine.transport_moved(Instant::ZERO + moved);
        }
        self.machine.handle_timeout(now);
    }

    /// The time since which the connection has waited for its client; `None` if it does not wait.
    pub fn waits_since(&self) -> Option<Instant> {
        self.machine.waits_since()
    }

    /// Whether the client has not yet taken all available data.
    pub fn is_sending(&self) -> bool {
        self.machine.is_sending()
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.machine.rest();
        if let Some(secure) = &mut self.secure {
            secure.rest();
        }
    }

    /// Announces that the server is shutting down. Requests that have arrived but are not read yet are still in
    /// flight.
    pub fn announce_end(&mut self) {
        self.machine.announce_end();
        self.readable = true;
    }

    /// Ends the connection, because the server shuts down.
    pub fn end(&mut self, now: Instant) {
        self.machine.end(now);
    }

    /// Logs the responses that were only partly sent when the connection ended.
    pub fn log_cut_short(&mut self, now: Instant, log: &mut AccessLog) {
        let session = self.session();
        while let Some((served, text)) = self.machine.cut_short(now) {
            log.note(self.peer, &served.exchange, &text, session);
        }
    }

    /// The TLS session, for the log; `None` without TLS.
    fn session(&self) -> Option<LoggedSession> {
        let secure = self.secure.as_ref()?;
        secure.handshake().map(LoggedSession::of)
    }

    fn take_events(&mut self, lent: &mut Lent<'_>) {
        let statistics = &mut *lent.statistics;
        match lent.log.as_deref_mut() {
            Some(log) => {
                let session = self.session();
                while let Some((served, text)) = self.machine.poll_event_with_text() {
                    statistics.count(&served);
                    log.note(self.peer, &served.exchange, &text, session);
                }
            }
            None => {
                while let Some(served) = self.machine.poll_event() {
                    statistics.count(&served);
                }
            }
        }
    }

    /// Writes the bytes that may be sent now.
    fn write(&mut self, lent: &mut Lent<'_>, now: Instant, bytes_left: &mut u64) -> bool {
        let (buffers, reads) = (&mut *lent.buffers, &mut lent.statistics.disk_reads);
        let Some(secure) = &mut self.secure else {
            return self.write_clear(&mut buffers.write, reads, now, bytes_left);
        };
        let flow = secure.write(
            &self.stream,
            &mut self.machine,
            (&mut buffers.files, reads),
            &mut self.writable,
            bytes_left,
            now,
        );
        match flow {
            Flow::Moved => true,
            Flow::Still => false,
            Flow::Failed => {
                self.machine.handle_failure();
                true
            }
        }
    }

    fn write_clear(
        &mut self,
        together: &mut [u8],
        reads: &mut u64,
        now: Instant,
        bytes_left: &mut u64,
    ) -> bool {
        let mut progress = false;
        while self.writable {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.machine.transmit(&mut slices);
            let sent = if count > 0 {
                let more = self.machine.more_follows();
                send(&self.stream, &slices[..count], more, together)
            } else if let Some(part) = self.machine.transmit_file() {
                let length = part.length.min(*bytes_left);
                if length == 0 {
                    break;
                }
                *reads += 1;
                let sent = match part.file.descriptor::<OwnedFd>() {
                    Some(file) => socket::send_file(&self.stream, file, part.offset, length),
                    None => Err(io::ErrorKind::InvalidInput.into()),
                };
                match sent {
                    Ok(Some(0)) => {
                        self.machine.handle_truncated_file();
                        return true;
                    }
                    // Fewer bytes than requested can mean the end of the file or a full socket; the next call
                    // shows which.
                    Ok(Some(written)) => *bytes_left -= written as u64,
                    _ => {}
                }
                sent
            } else {
                break;
            };
            match sent {
                Ok(Some(written)) => {
                    progress = true;
                    self.machine.transmitted(written, now);
                }
                Ok(None) => self.writable = false,
                Err(_) => {
                    self.writable = false;
                    self.machine.handle_failure();
                    progress = true;
                }
            }
        }
        progress
    }

    fn read(&mut self, lent: &mut Lent<'_>, now: Instant) -> bool {
        let buffer = &mut lent.buffers.read[..];
        match self.stream.read(buffer) {
            Ok(0) => {
                self.readable = false;
                self.take_end(now);
            }
            Ok(length) => {
                // A read that did not fill the buffer has emptied the socket, and the poll reports later data.
                // The poll does not report an end again, so an end that was reported must be read.
                self.readable = length == buffer.len() || self.ended;
                if self.secure.is_some() {
                    let input = &mut buffer[..length];
                    self.take_sealed(input, lent.common, lent.statistics, now);
                } else {
                    self.take(&buffer[..length], lent.common, lent.statistics, now);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return false;
            }
            Err(_) => {
                self.readable = false;
                self.machine.handle_failure();
            }
        }
        true
    }

    /// Handles bytes received in cleartext.
    fn take(
        &mut self,
        data: &[u8],
        common: &Common,
        statistics: &mut OriginStatistics,
        now: Instant,
    ) {
        let Some(matched) = self.undecided else {
            self.machine.handle_data(data, now);
            return;
        };
        let (before, after) = h2::PREFACE.split_at(usize::from(matched));
        let length = data.len().min(after.len());
        if data[..length] != after[..length] {
            self.undecided = None;
            self.machine.handle_data(before, now);
            self.machine.handle_data(data, now);
        } else if length < after.len() {
            self.undecided = Some(matched + length as u8);
        } else {
            self.undecided = None;
            self.go_on_in_http2(common, statistics, now);
            self.machine.handle_data(h2::PREFACE, now);
            self.machine.handle_data(&data[length..], now);
        }
    }

    /// Handles bytes received over TLS. They are decrypted in place.
    fn take_sealed(
        &mut self,
        mut input: &mut [u8],
        common: &Common,
        statistics: &mut OriginStatistics,
        now: Instant,
    ) {
        let Some(secure) = &mut self.secure else {
            return;
        };
        if secure.is_shaking_hands() {
            if let Err(failure) = secure.shake_hands(input, statistics, now) {
                return self.fail(&failure, statistics, now);
            }
            let by_default = common.protocols.http1.is_none();
            let http2 = secure.agreed_on_http2(by_default).unwrap_or(by_default);
            if http2 && !self.machine.is_http2() {
                self.go_on_in_http2(common, statistics, now);
            }
            return self.take_early(now);
        }
        loop {
            match secure.open(&mut input, now) {
                Ok(Some(plain)) => self.machine.handle_data(plain, now),
                Ok(None) => break,
                Err(failure) => return self.fail(&failure, statistics, now),
            }
        }
        if secure.is_closed_by_peer() {
            self.machine.handle_eof(now);
        }
    }

    /// Handles bytes received with the handshake (early data).
    fn take_early(&mut self, now: Instant) {
        let Some(secure) = &mut self.secure else {
            return;
        };
        let mut early = [0; EARLY_BYTES];
        loop {
            match secure.read(&mut early) {
                0 => break,
                length => self.machine.handle_data(&early[..length], now),
            }
        }
        if secure.is_closed_by_peer() {
            self.machine.handle_eof(now);
        }
    }

    /// Handles EOF from the client.
    fn take_end(&mut self, now: Instant) {
        if let Some(matched) = self.undecided.take() {
            self.machine
                .handle_data(&h2::PREFACE[..usize::from(matched)], now);
        }
        self.machine.handle_eof(now);
    }

    /// Handles a failure of TLS: the peer violated the protocol, or refused the handshake.
    fn fail(&mut self, failure: &TlsFailure, statistics: &mut OriginStatistics, now: Instant) {
        if let Some(secure) = &mut self.secure {
            if secure.is_shaking_hands() {
                statistics.handshakes_failed += 1;
                if statistics.handshakes_failed == 1 {
                    say(format_args!(
                        "a handshake of {} failed: {failure}",
                        self.peer
                    ));
                }
            }
            secure.fail(now);
        }
        self.machine.handle_failure();
    }

    fn go_on_in_http2(&mut self, common: &Common, statistics: &mut OriginStatistics, now: Instant) {
        if let Some(machine) = common.http2(now) {
            self.machine = machine;
            statistics.http2 += 1;
        }
    }
}

fn send(
    stream: &TcpStream,
    slices: &[IoSlice<'_>],
    more: bool,
    together: &mut [u8],
) -> io::Result<Option<usize>> {
    if let [slice] = slices {
        return socket::send(stream, slice, more);
    }
    let total: usize = slices.iter().map(|slice| slice.len()).sum();
    if total > together.len() {
        return socket::send_vectored(stream, slices, more);
    }
    let mut filled = 0;
    for slice in slices {
        together[filled..filled + slice.len()].copy_from_slice(slice);
        filled += slice.len();
    }
    socket::send(stream, &together[..filled], more)
}
