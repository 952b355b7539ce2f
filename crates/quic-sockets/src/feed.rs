//! Moves bytes from an HTTP/3 state machine into the streams of a QUIC connection.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use fathometer_http::h1::server::FilePart;
use fathometer_http::h3::{self, Direction, Priority, Transmit};
use fathometer_model::Instant;
use fathometer_quic::{Connection, StreamError};

/// The maximum number of slices offered to a stream at a time.
const SLICES: usize = 16;
/// The maximum number of bytes offered to a stream at a time.
const AT_ONCE: usize = 64 * 1024;
/// The number of bytes that a connection may take before other connections are served.
const TURN: usize = 512 * 1024;

/// The sending methods that the state machines of client and server have in common.
pub trait Http3Machine {
    /// Returns the kind of stream to open next for the machine, if any.
    fn wants_stream(&self) -> Option<Direction>;
    /// Handles a stream that was opened for the machine.
    fn handle_opened(&mut self, stream: u64, now: Instant);
    /// Returns the next bytes to send, at most `most`: in `slices`, or as a part of a file.
    fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<Transmit<'a>>;
    /// Records that a stream took `bytes` bytes.
    fn transmitted(&mut self, stream: u64, bytes: usize, now: Instant);
    /// Handles a stream that takes no bytes now.
    fn handle_blocked(&mut self, stream: u64);
    /// Returns the priority of a stream.
    fn priority(&self, stream: u64) -> Priority;
    /// Handles a file that has fewer bytes than announced.
    fn handle_truncated_file(&mut self, stream: u64, now: Instant);
}

/// Implements the methods of [`Http3Machine`] that both machines have under the same names.
macro_rules! own_methods {
    () => {
        fn wants_stream(&self) -> Option<Direction> {
            self.wants_stream()
        }

        fn handle_opened(&mut self, stream: u64, now: Instant) {
            self.handle_opened(stream, now);
        }

        fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<Transmit<'a>> {
            self.transmit(slices, most)
        }

        fn transmitted(&mut self, stream: u64, bytes: usize, now: Instant) {
            self.transmitted(stream, bytes, now);
        }

        fn handle_blocked(&mut self, stream: u64) {
            self.handle_blocked(stream);
        }

        fn priority(&self, stream: u64) -> Priority {
            self.priority(stream)
        }
    };
}

impl Http3Machine for h3::client::Connection {
    own_methods!();

    /// Does nothing: clients send no files.
    fn handle_truncated_file(&mut self, _: u64, _: Instant) {}
}

impl Http3Machine for h3::server::Connection {
    own_methods!();

    fn handle_truncated_file(&mut self, stream: u64, now: Instant) {
        self.handle_truncated_file(stream, now);
    }
}

/// Opens the streams that the machine needs, and writes the machine's data to the connection, within flow control and
/// for at most one turn. Returns whether the turn ended before all data were written.
///
/// `watch` is called for every opened stream, and for all bytes that a stream takes: with the stream, the slices,
/// the number of bytes taken, and whether the stream ends with them.
pub fn feed<M: Http3Machine>(
    machine: &mut M,
    connection: &mut Connection,
    file_buffer: &mut FileBuffer,
    now: Instant,
    mut watch: impl FnMut(u64, &[IoSlice<'_>], usize, bool),
) -> bool {
    while let Some(direction) = machine.wants_stream() {
        let Some(stream) = connection.open(direction == Direction::Bidirectional) else {
            break;
        };
        machine.handle_opened(stream, now);
        connection.set_priority(stream, urgency(stream, machine.priority(stream)));
        watch(stream, &[], 0, false);
    }
    let mut given = 0;
    while given < TURN {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let Some(next) = machine.transmit(&mut slices, AT_ONCE) else {
            return false;
        };
        let (stream, end) = (next.stream, next.end);
        // A bidirectional stream has the priority of its request from its first byte on. Later changes
        // (PRIORITY_UPDATE) are applied here too.
        if fathometer_quic::stream::is_bidirectional(stream) {
            connection.set_priority(stream, urgency(stream, machine.priority(stream)));
        }
        let (offered, written) = match next.file {
            Some(part) => match read_file(&part, file_buffer) {
                0 => {
                    machine.handle_truncated_file(stream, now);
                    continue;
                }
                read => {
                    let piece = [IoSlice::new(&file_buffer.bytes[..read])];
                    let written = connection.write(stream, &piece);
                    if let Ok(taken) = written {
                        watch(stream, &piece, taken, end && taken as u64 == part.length);
                    }
                    (part.length, written)
                }
            },
            None => {
                let pieces = &slices[..next.slices];
                let written = match next.bytes {
                    0 => Ok(0),
                    _ => connection.write(stream, pieces),
                };
                if let Ok(taken) = written {
                    watch(stream, pieces, taken, end && taken == next.bytes);
                }
                (next.bytes as u64, written)
            }
        };
        match written {
            Ok(taken) => {
                let is_whole = taken as u64 == offered;
                if end && is_whole {
                    // Fails if the peer has stopped the stream, which an event reports.
                    let _ = connection.finish(stream);
                }
                given += taken;
                machine.transmitted(stream, taken, now);
                if taken == 0 && !is_whole {
                    machine.handle_blocked(stream);
                }
            }
            Err(StreamError::Blocked | StreamError::Stopped(_) | StreamError::Closed) => {
                // An event reports that the peer has stopped the stream or that it is closed.
                machine.handle_blocked(stream);
            }
        }
    }
    true
}

/// A buffer for file contents, allocated at the first read.
#[derive(Debug, Default)]
pub struct FileBuffer {
    bytes: Vec<u8>,
    /// The number of system calls that read files.
    pub reads: u64,
}

/// Reads the beginning of a part of a file. Returns the number of bytes, or 0 if nothing can be read.
fn read_file(part: &FilePart<'_>, buffer: &mut FileBuffer) -> usize {
    buffer.bytes.resize(AT_ONCE, 0);
    let most = usize::try_from(part.length)
        .unwrap_or(usize::MAX)
        .min(AT_ONCE);
    let Some(file) = part.file.descriptor::<OwnedFd>() else {
        return 0;
    };
    loop {
        buffer.reads += 1;
        match rustix::io::pread(file, &mut buffer.bytes[..most], part.offset) {
            Ok(read) => return read,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 0,
        }
    }
}

/// Converts an RFC 9218 priority to QUIC's priority of a stream, where higher values are sent first. Within one
/// urgency, responses that are not incremental are sent first, one after the other. Incremental responses follow
/// and take turns.
fn urgency(stream: u64, priority: Priority) -> i32 {
    const WITHIN: i32 = 1 << 24;
    if !fathometer_quic::stream::is_bidirectional(stream) {
        return i32::MAX;
    }
    let base = (7 - i32::from(priority.urgency.min(7))) * WITHIN;
    match priority.incremental {
        true => base,
        false => base + WITHIN - 1 - ((stream >> 2) % (WITHIN as u64 - 1)) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_by_urgency_then_one_by_one_then_in_turns() {
        let of = |stream, urgency_of, incremental| {
            let priority = Priority {
                urgency: urgency_of,
                incremental,
            };
            urgency(stream, priority)
        };
        let order = [
            of(3, 0, false),
            of(0, 0, false),
            of(8, 3, false),
            of(12, 3, false),
            of(0, 3, true),
            of(0, 4, false),
            of(0, 7, true),
        ];
        assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{order:?}");
        assert_eq!(of(0, 3, true), of(4, 3, true));
        assert!(of(u64::MAX - 3, 7, false) >= 0);
    }
}
