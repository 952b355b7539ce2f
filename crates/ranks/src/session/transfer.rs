//! Bytes between a machine and its socket.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes read at a time.
const BUFFER: usize = 64 * 1024;

/// Reads once. `Ok(None)`: there is nothing to read now.
///
/// # Errors
/// Why the connection has ended.
pub(super) fn read(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>, String> {
    buffer.resize(BUFFER, 0);
    loop {
        return match socket.read(buffer) {
            Ok(0) => Err("the control connection was closed".to_owned()),
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(format!("the control connection failed: {error}")),
        };
    }
}

/// Writes what the socket takes, and removes it from `bytes`.
///
/// # Errors
/// Why the connection has ended.
pub(super) fn write(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), String> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(written) => drop(bytes.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the control connection failed: {error}")),
        }
    }
    Ok(())
}

/// What to wait for on a socket.
pub(super) fn interest(has_output: bool) -> PollFlags {
    match has_output {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    }
}

/// Waits until a descriptor is ready, or for `longest`.
pub(super) fn wait(descriptors: &mut [PollFd<'_>], longest: Duration) {
    let timeout = Timespec::try_from(longest).ok();
    // An interrupt or an error ends the wait, as a time-out does; reading then shows an error.
    let _ = poll(descriptors, timeout.as_ref());
}
