//! One connection of a loop: its socket, its machine, and what passes between them.

use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fathometer_http::h1::server::{Action, Connection};
use fathometer_model::Instant;
use fathometer_sys::socket;
use mio::event::Event;
use mio::net::TcpStream;

use super::OriginStatistics;
use super::access_log::AccessLog;
use super::timers::Alarm;

/// Slices handed to the kernel in one call.
const SLICES: usize = 64;
/// Pieces that are together no longer than this are put together: one short copy is cheaper than
/// the kernel's handling of a list.
const PUT_TOGETHER: usize = 4 * 1024;
/// Reads and writes that a connection may do before others have their turn.
const TURN: usize = 32;
/// Octets of files that it may send before.
const TURN_OCTETS: u64 = 1024 * 1024;

/// Memory that the connections of a loop use in turn.
pub(super) struct Buffers {
    read: Box<[u8]>,
    write: [u8; PUT_TOGETHER],
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            read: vec![0; 64 * 1024].into(),
            write: [0; PUT_TOGETHER],
        }
    }
}

/// What a connection wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// To hear of its socket, or its alarm.
    Waits,
    /// Another turn.
    HasMore,
    /// Nothing any more.
    Over,
}

/// A connection.
pub(super) struct Open {
    pub stream: TcpStream,
    peer: SocketAddr,
    pub machine: Connection,
    pub readable: bool,
    writable: bool,
    /// The peer's half has ended, behind what can still be read.
    ended: bool,
    pub alarm: Alarm,
    pub served_at: Instant,
    /// Whether its buffers were given back since it was served.
    pub rested: bool,
}

impl Open {
    pub fn new(stream: TcpStream, peer: SocketAddr, machine: Connection) -> Open {
        Open {
            stream,
            peer,
            machine,
            readable: true,
            writable: true,
            ended: false,
            alarm: Alarm::default(),
            served_at: Instant::ZERO,
            rested: false,
        }
    }

    /// Takes note of what the poll said.
    pub fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_error();
        self.writable |= event.is_writable();
        self.ended |= event.is_read_closed() || event.is_error();
    }

    /// Moves on as far as it goes without waiting, for one turn.
    pub fn serve(
        &mut self,
        buffers: &mut Buffers,
        now: Instant,
        mut log: Option<&mut AccessLog>,
        statistics: &mut OriginStatistics,
    ) -> Outcome {
        let mut octets_left = TURN_OCTETS;
        for _ in 0..TURN {
            let mut progress = self.write(&mut buffers.write, now, &mut octets_left);
            self.take_events(log.as_deref_mut(), statistics);
            while let Some(action) = self.machine.poll_action() {
                progress = true;
                match action {
                    Action::ShutdownWrite => {
                        // Fails when the peer has reset the connection: there is nothing left to end.
                        let _ = self.stream.shutdown(Shutdown::Write);
                    }
                    Action::Close => return Outcome::Over,
                    Action::Abort => {
                        let _ = socket::set_linger(&self.stream, Some(Duration::ZERO));
                        return Outcome::Over;
                    }
                }
            }
            if self.machine.is_finished() {
                return Outcome::Over;
            }
            if octets_left == 0 {
                return Outcome::HasMore;
            }
            if self.readable && self.machine.wants_data() {
                progress |= self.read(&mut buffers.read, now);
            }
            if !progress {
                return Outcome::Waits;
            }
        }
        Outcome::HasMore
    }

    /// Notes the response that was handed over in part when the connection ended, if there is one.
    pub fn log_cut_short(&mut self, now: Instant, log: &mut AccessLog) {
        if let Some((served, text)) = self.machine.cut_short(now) {
            log.note(self.peer, &served, &text);
        }
    }

    fn take_events(&mut self, log: Option<&mut AccessLog>, statistics: &mut OriginStatistics) {
        match log {
            Some(log) => {
                while let Some((served, text)) = self.machine.poll_event_with_text() {
                    statistics.responses += 1;
                    statistics.content += served.body.0;
                    log.note(self.peer, &served, &text);
                }
            }
            None => {
                while let Some(served) = self.machine.poll_event() {
                    statistics.responses += 1;
                    statistics.content += served.body.0;
                }
            }
        }
    }

    /// Writes what may go.
    fn write(&mut self, together: &mut [u8], now: Instant, octets_left: &mut u64) -> bool {
        let mut progress = false;
        while self.writable {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.machine.transmit(&mut slices);
            let sent = if count > 0 {
                let more = self.machine.more_follows();
                send(&self.stream, &slices[..count], more, together)
            } else if let Some(part) = self.machine.transmit_file() {
                let length = part.length.min(*octets_left);
                if length == 0 {
                    break;
                }
                let sent = match part.file.descriptor::<OwnedFd>() {
                    Some(file) => socket::send_file(&self.stream, file, part.offset, length),
                    None => Err(io::ErrorKind::InvalidInput.into()),
                };
                match sent {
                    Ok(Some(0)) => {
                        self.machine.handle_truncated_file();
                        return true;
                    }
                    // Fewer than asked for may have been all the file has, and not all that fits:
                    // only the next call tells.
                    Ok(Some(written)) => *octets_left -= written as u64,
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

    fn read(&mut self, buffer: &mut [u8], now: Instant) -> bool {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.readable = false;
                self.machine.handle_eof(now);
            }
            Ok(length) => {
                // Less than there was room for is all there was; what comes later is told. Of an end
                // that has come with it nothing more is told.
                self.readable = length == buffer.len() || self.ended;
                self.machine.handle_data(&buffer[..length], now);
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
