//! TLS between a socket and a protocol state machine.
//!
//! The output of a machine in one turn is encrypted into as few records as possible, which are written with as
//! few calls as possible. Bytes of files pass through memory here, because they must be encrypted. Early data
//! is handled like other data: no request to this origin changes any state, so a replayed request does no harm
//! (RFC 8470).

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use fathometer_http::h1::server::FilePart;
use fathometer_model::Instant;
use fathometer_sys::socket;
use fathometer_tls::{EarlyData, Handshake, Resumption, Session, TlsFailure};
use mio::net::TcpStream;
use rustix::io::Errno;

use super::OriginStatistics;
use super::machine::{Machine, SLICES};

/// Number of bytes of a file that are read at a time.
const FILE_BYTES: usize = 64 * 1024;
/// The time limit of a handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(20);
/// The time limit for sending the last bytes of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The TLS session of one connection.
#[derive(Debug)]
pub(super) struct Secure {
    session: Session,
    phase: Phase,
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The handshake must be complete by `until`.
    Handshake {
        until: Instant,
    },
    Open,
    /// This side closes after all data is sent.
    Ending,
    /// This side has closed.
    Ended,
    /// Both sides close after all data is sent, or at `until`.
    Closing {
        until: Instant,
    },
    /// The transport accepts no more data, so remaining data cannot be sent.
    Lost,
}

/// The result of a call to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Bytes were moved.
    Moved,
    /// No bytes could be moved.
    Still,
    /// The transport is closed, or the peer violated TLS.
    Failed,
}

impl Secure {
    pub fn new(session: Session, now: Instant) -> Secure {
        let until = now + HANDSHAKE_WITHIN;
        Secure {
            session,
            phase: Phase::Handshake { until },
        }
    }

    /// Whether the handshake is incomplete; input must then be passed to [`shake_hands`](Self::shake_hands).
    pub fn is_shaking_hands(&self) -> bool {
        matches!(self.phase, Phase::Handshake { .. })
    }

    /// Processes input while the handshake is incomplete; afterwards early data can be [read](Self::read).
    pub fn shake_hands(
        &mut self,
        input: &[u8],
        statistics: &mut OriginStatistics,
        now: Instant,
    ) -> Result<(), TlsFailure> {
        self.session.receive(input, now)?;
        if self.session.is_established() {
            self.phase = Phase::Open;
            statistics.handshakes += 1;
            if let Some(handshake) = self.session.handshake() {
                let resumed = handshake.resumption != Resumption::Full;
                let early = handshake.early_data == EarlyData::Accepted;
                statistics.resumed += u64::from(resumed);
                statistics.early += u64::from(early);
            }
        }
        Ok(())
    }

    /// Reads bytes that arrived with the handshake.
    pub fn read(&mut self, bytes: &mut [u8]) -> usize {
        self.session.read(bytes)
    }

    /// Whether HTTP/2 was negotiated, once that is decided; `by_default` if the client used no ALPN.
    pub fn agreed_on_http2(&self, by_default: bool) -> Option<bool> {
        match self.session.alpn() {
            Some(protocol) => Some(protocol == b"h2"),
            None => (!self.is_shaking_hands()).then_some(by_default),
        }
    }

    /// The negotiated parameters, once the handshake is complete.
    pub fn handshake(&self) -> Option<&Handshake> {
        self.session.handshake()
    }

    /// Decrypts the next bytes of the input in place.
    pub fn open<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b mut [u8],
        now: Instant,
    ) -> Result<Option<&'a [u8]>, TlsFailure> {
        self.session.open(input, now)
    }

    /// Whether the client has closed its side.
    pub fn is_closed_by_peer(&self) -> bool {
        self.session.is_closed_by_peer()
    }

    /// Handles a failure of TLS: sends its alert, then closes both sides.
    pub fn fail(&mut self, now: Instant) {
        if self.phase != Phase::Lost {
            let until = now + CLOSE_TIMEOUT;
            self.phase = Phase::Closing { until };
        }
    }

    /// Closes this side after all data is sent.
    pub fn end(&mut self) {
        self.session.close();
        if self.phase != Phase::Lost {
            self.phase = Phase::Ending;
        }
    }

    /// Closes both sides after all data is sent, or after a time limit.
    pub fn close(&mut self, now: Instant) {
        self.session.close();
        self.fail(now);
    }

    /// Whether this side must be closed now because all data is sent; true only once.
    pub fn has_ended(&mut self) -> bool {
        let ended = self.phase == Phase::Ending && !self.session.wants_transmit();
        if ended {
            self.phase = Phase::Ended;
        }
        ended
    }

    /// Whether both sides close as soon as all data is sent.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing { .. })
    }

    /// Whether the connection can be closed: all data is sent, no data can be sent, or the time limit is
    /// reached.
    pub fn has_closed(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closing { until } => !self.session.wants_transmit() || until <= now,
            Phase::Handshake { until } => until <= now,
            Phase::Lost => true,
            Phase::Open | Phase::Ending | Phase::Ended => false,
        }
    }

    /// The time limit of the handshake or of the closing. The connection must be processed at this time even without
    /// input.
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Handshake { until } | Phase::Closing { until } => Some(until),
            Phase::Open | Phase::Ending | Phase::Ended | Phase::Lost => None,
        }
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.session.free_buffers();
    }

    /// Encrypts output of the machine, at most the amount for one call, and writes it to the socket. `writable` becomes
    /// false when the socket accepts no more. Bytes of files pass through `files`, and `reads` counts the calls that
    /// read them.
    pub fn write(
        &mut self,
        stream: &TcpStream,
        machine: &mut Machine,
        (files, reads): (&mut Vec<u8>, &mut u64),
        writable: &mut bool,
        bytes_left: &mut u64,
        now: Instant,
    ) -> Flow {
        let mut flow = Flow::Still;
        while *writable {
            if self.may_seal() && self.seal(machine, (files, reads), bytes_left, now) {
                flow = Flow::Moved;
            }
            let sealed = self.session.transmit();
            if sealed.is_empty() {
                break;
            }
            match socket::send(stream, sealed, false) {
                Ok(Some(sent)) => {
                    self.session.transmitted(sent);
                    flow = Flow::Moved;
                }
                Ok(None) => *writable = false,
                Err(_) => {
                    *writable = false;
                    self.phase = Phase::Lost;
                    return Flow::Failed;
                }
            }
        }
        flow
    }

    /// Whether data of the machine may be sent. This is so once the handshake is complete. Earlier, only responses to
    /// early data may be sent: if they waited for the client's Finished message, early data would save no time.
    fn may_seal(&self) -> bool {
        match self.phase {
            Phase::Open => true,
            Phase::Handshake { .. } => self.session.may_write(),
            Phase::Ending | Phase::Ended | Phase::Closing { .. } | Phase::Lost => false,
        }
    }

    /// Encrypts the output of the machine, up to the available space.
    fn seal(
        &mut self,
        machine: &mut Machine,
        (files, reads): (&mut Vec<u8>, &mut u64),
        bytes_left: &mut u64,
        now: Instant,
    ) -> bool {
        let mut moved = false;
        while *bytes_left > 0 && self.session.writable() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = machine.transmit(&mut slices);
            self.session.note_time(now);
            let taken = if count > 0 {
                self.session.write_vectored(&slices[..count])
            } else if let Some(part) = machine.transmit_file() {
                files.resize(FILE_BYTES, 0);
                *reads += 1;
                let room = files.len().min(self.session.writable());
                match read_part(&part, &mut files[..room]) {
                    Ok(bytes) if !bytes.is_empty() => self.session.write(bytes),
                    _ => {
                        machine.handle_truncated_file();
                        return true;
                    }
                }
            } else {
                break;
            };
            if taken == 0 {
                break;
            }
            machine.transmitted(taken, now);
            *bytes_left = bytes_left.saturating_sub(taken as u64);
            moved = true;
        }
        moved
    }
}

/// Reads the beginning of a part of a file, at most the length of `room`; returns no bytes at the end of the file.
fn read_part<'b>(part: &FilePart<'_>, room: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let Some(file) = part.file.descriptor::<OwnedFd>() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let most = usize::try_from(part.length).unwrap_or(usize::MAX);
    let length = room.len().min(most);
    let room = &mut room[..length];
    loop {
        match rustix::io::pread(file.as_fd(), &mut *room, part.offset) {
            Ok(read) => return Ok(&room[..read]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
