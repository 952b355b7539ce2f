//! Sends datagrams of a QUIC connection to a socket.

use std::io;

use fathometer_quic::Transmit;
use fathometer_sys::UdpSocket;
use fathometer_sys::udp::{Datagrams, Ecn, Loss, Sent};

/// Datagrams that the kernel reported as not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalLosses {
    /// Datagrams that are larger than the link permits, usually MTU probes.
    pub too_large: u64,
    /// Datagrams not sent for lack of memory, route or permission.
    pub others: u64,
}

/// The result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendProgress {
    /// The socket has taken everything.
    Clear,
    /// The socket's buffer is full; the rest is kept for [`Outbox::resume`].
    Blocked,
    /// No socket listens at the peer's port.
    Refused,
}

/// The datagrams to send next, and the rest that did not fit into the socket.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The bytes that [`Outbox::send`] will send; empty before they are filled in.
    pub bytes: Vec<u8>,
    unsent: Option<(Transmit, usize)>,
    /// The datagrams that were not sent.
    pub losses: LocalLosses,
    /// The number of system calls that sent datagrams.
    pub calls: u64,
    /// The number of datagrams sent.
    pub datagrams: u64,
}

impl Outbox {
    /// Whether datagrams wait for room in the socket.
    pub fn is_blocked(&self) -> bool {
        self.unsent.is_some()
    }

    /// Sends the datagrams in `bytes`, which is empty afterwards unless the socket is full.
    ///
    /// # Errors
    /// If the socket fails, that is, for errors that do not concern a single datagram.
    pub fn send(&mut self, socket: &UdpSocket, transmit: Transmit) -> io::Result<SendProgress> {
        self.send_from(socket, transmit, 0)
    }

    /// Sends the rest after the socket was full.
    ///
    /// # Errors
    /// As for [`Outbox::send`].
    pub fn resume(&mut self, socket: &UdpSocket) -> io::Result<SendProgress> {
        match self.unsent.take() {
            Some((transmit, start)) => self.send_from(socket, transmit, start),
            None => Ok(SendProgress::Clear),
        }
    }

    fn send_from(
        &mut self,
        socket: &UdpSocket,
        transmit: Transmit,
        start: usize,
    ) -> io::Result<SendProgress> {
        let sent = socket.send(&Datagrams {
            to: transmit.to,
            from: transmit.from,
            ecn: Ecn::from_bits(transmit.ecn),
            segment: transmit.segment,
            bytes: &self.bytes[start..],
        })?;
        let taken = match sent {
            Sent::Blocked { taken } => taken,
            _ => self.bytes.len() - start,
        };
        let segment = transmit.segment.unwrap_or(self.bytes.len()).max(1);
        let datagrams = taken.div_ceil(segment);
        self.datagrams += datagrams as u64;
        self.calls += datagrams.div_ceil(socket.segments()) as u64;
        match sent {
            Sent::Blocked { taken } => {
                self.unsent = Some((transmit, start + taken));
                return Ok(SendProgress::Blocked);
            }
            Sent::Lost(Loss::Refused) => {
                self.bytes.clear();
                return Ok(SendProgress::Refused);
            }
            Sent::Lost(Loss::TooLarge) => self.losses.too_large += 1,
            Sent::Lost(_) => self.losses.others += 1,
            Sent::Whole => {}
        }
        self.bytes.clear();
        Ok(SendProgress::Clear)
    }
}
