//! Transfers bytes between a state machine and its socket, with encryption.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::{Channel, ChannelError, ChannelSettings};
use crate::link::MAGIC;
use crate::secret::BINDING;

/// The number of bytes that are read at a time.
const BUFFER: usize = 64 * 1024;

/// The reason why a connection was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The peer or the system closed the connection.
    Closed(String),
    /// The peer is not a rank, or violates the protocol.
    Refused(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Ended::Closed(why) | Ended::Refused(why)) = self;
        f.write_str(why)
    }
}

/// Facts about received bytes.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The instant of the read.
    pub(super) at: Instant,
    /// The channel binding, returned once. The state machine must be bound to it before it receives the bytes.
    pub(super) binding: Option<[u8; BINDING]>,
}

/// The buffers for reading, shared by all connections.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    encrypted: Vec<u8>,
    /// The decrypted bytes of the peer.
    pub(super) plain: Vec<u8>,
}

/// A control connection: its socket and its encryption.
#[derive(Debug)]
pub(super) struct Wire {
    socket: TcpStream,
    channel: Channel,
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Wire {
    /// Creates one side of a new connection.
    ///
    /// # Errors
    /// If a system call fails, or if TLS cannot start.
    pub(super) fn new(
        socket: TcpStream,
        settings: &ChannelSettings,
        now: Instant,
    ) -> Result<Wire, String> {
        let ready = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_nonblocking(true));
        ready.map_err(|error| format!("the control connection failed: {error}"))?;
        let channel = Channel::new(settings, now).map_err(|error| error.to_string())?;
        Ok(Wire { socket, channel })
    }

    /// Reads once, into `buffers.plain`. `Ok(None)`: no bytes are available now.
    ///
    /// # Errors
    /// Returns the reason why the connection was closed.
    pub(super) fn read(
        &mut self,
        buffers: &mut Buffers,
        clock: Clock,
    ) -> Result<Option<Arrival>, Ended> {
        buffers.plain.clear();
        buffers.encrypted.resize(BUFFER, 0);
        let length = loop {
            match self.socket.read(&mut buffers.encrypted) {
                Ok(0) => return Err(self.ended("was closed")),
                Ok(read) => break read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.ended(&format!("failed ({error})"))),
            }
        };
        let at = clock.now();
        let bytes = &mut buffers.encrypted[..length];
        match self.channel.open(bytes, &mut buffers.plain, at) {
            Ok(binding) => Ok(Some(Arrival { at, binding })),
            Err(error) => {
                self.answer(&error);
                Err(Ended::Refused(error.to_string()))
            }
        }
    }

    /// Returns the error for a connection that ended. During the handshake, the peer may be a rank of a version without
    /// TLS.
    fn ended(&self, how: &str) -> Ended {
        let when = match self.channel.is_established() {
            true => "",
            false => " during the TLS handshake: is the other rank of the same version?",
        };
        Ended::Closed(format!("the control connection {how}{when}"))
    }

    /// Answers a peer whose connection is refused, if the peer can interpret the answer. Errors of sending are ignored.
    fn answer(&mut self, error: &ChannelError) {
        match error {
            // A rank without TLS interprets these bytes as another version, and reports that.
            ChannelError::Earlier => drop(self.socket.write_all(&MAGIC)),
            // The peer may be any program, so no answer is sent.
            ChannelError::NoTls => {}
            // The unsent bytes contain the TLS alert.
            ChannelError::Tls(_) | ChannelError::Unread => drop(self.send()),
        }
    }

    /// Writes as many bytes as the socket accepts, and removes them from `plain`.
    ///
    /// # Errors
    /// Returns the reason why the connection was closed.
    pub(super) fn write(&mut self, plain: &mut Vec<u8>) -> Result<(), Ended> {
        let mut sealed = 0;
        let written = loop {
            let taken = self.channel.seal(&plain[sealed..]);
            sealed += taken;
            match self.send() {
                // The remaining bytes must wait for the handshake or for the socket.
                Ok(is_sent) if !is_sent || taken == 0 => break Ok(()),
                Ok(_) => {}
                Err(why) => break Err(why),
            }
        };
        plain.drain(..sealed);
        written
    }

    /// Sends encrypted bytes. Returns whether the socket accepted all of them.
    fn send(&mut self) -> Result<bool, Ended> {
        loop {
            let output = self.channel.output();
            if output.is_empty() {
                return Ok(true);
            }
            match self.socket.write(output) {
                Ok(written) => self.channel.output_sent(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.ended(&format!("failed ({error})"))),
            }
        }
    }

    /// Whether encrypted bytes wait to be sent.
    pub(super) fn has_output(&self) -> bool {
        self.channel.has_output()
    }

    /// The numbers of bytes sent and received on the socket.
    pub(super) fn traffic(&self) -> (u64, u64) {
        self.channel.traffic()
    }

    /// Returns the poll events to wait for. `has_output`: the state machine has bytes to send.
    pub(super) fn interest(&self, has_output: bool) -> PollFlags {
        match has_output || self.has_output() {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        }
    }
}

/// Waits until a descriptor is ready, but no longer than `longest`.
pub(super) fn wait(descriptors: &mut [PollFd<'_>], longest: Duration) {
    let timeout = Timespec::try_from(longest).ok();
    // An interrupt or an error ends the wait like a time-out. The next read reports the error.
    let _ = poll(descriptors, timeout.as_ref());
}
