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
    /// Datagrams not sent because no program listens at the peer's port.
    pub refused: u64,
    /// Datagrams not sent because memory, a route or a permission was missing.
    pub others: u64,
}

/// The result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendProgress {
    /// The socket has taken everything.
    Clear,
    /// The socket's buffer is full; [`Outbox::resume`] sends the remaining datagrams.
    Blocked,
    /// No socket listens at the peer's port.
    Refused,
}

/// The datagrams to send next, and the datagrams that the socket has not accepted.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The bytes that [`Outbox::send`] will send; empty before they are filled in.
    pub bytes: Vec<u8>,
    unsent: Option<(Transmit, usize)>,
    /// The datagrams that were not sent.
    pub losses: LocalLosses,
    /// The number of system calls that sent datagrams.
    pub calls: u64,
    /// The number of datagrams sent, excluding the losses above.
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

    /// Sends the remaining datagrams after the socket was full.
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
        mut start: usize,
    ) -> io::Result<SendProgress> {
        let segment = transmit.segment.unwrap_or(self.bytes.len()).max(1);
        loop {
            let sent = socket.send(&Datagrams {
                to: transmit.to,
                from: transmit.from,
                ecn: Ecn::from_bits(transmit.ecn),
                segment: transmit.segment,
                bytes: &self.bytes[start..],
            })?;
            let taken = match sent {
                Sent::Whole => self.bytes.len() - start,
                Sent::Blocked { taken } | Sent::Lost { taken, .. } => taken,
            };
            let datagrams = taken.div_ceil(segment);
            self.datagrams += datagrams as u64;
            self.calls += datagrams.div_ceil(socket.segments()) as u64;
            start += taken;
            match sent {
                Sent::Whole => {
                    self.bytes.clear();
                    return Ok(SendProgress::Clear);
                }
                Sent::Blocked { .. } => {
                    self.unsent = Some((transmit, start));
                    return Ok(SendProgress::Blocked);
                }
                Sent::Lost {
                    loss: Loss::Refused,
                    ..
                } => {
                    self.losses.refused += (self.bytes.len() - start).div_ceil(segment) as u64;
                    self.bytes.clear();
                    return Ok(SendProgress::Refused);
                }
                Sent::Lost { loss, rejected, .. } => {
                    let datagrams = rejected.div_ceil(segment) as u64;
                    match loss {
                        Loss::TooLarge => self.losses.too_large += datagrams,
                        _ => self.losses.others += datagrams,
                    }
                    start += rejected;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use fathometer_sys::UdpOptions;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// The time limit of a step, longer than any step takes.
    const PATIENCE: Timespec = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };

    fn transmit(to: SocketAddr, segment: Option<usize>) -> Transmit {
        Transmit {
            to,
            from: None,
            ecn: 0,
            segment,
        }
    }

    #[test]
    fn datagrams_that_the_kernel_rejects_are_losses_and_not_sent() {
        let options = UdpOptions::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let peer = UdpSocket::bind(any, &options).unwrap();
        let socket = UdpSocket::bind(any, &options).unwrap();
        let mut outbox = Outbox {
            bytes: vec![7; 2_500],
            ..Outbox::default()
        };
        let sent = outbox.send(&socket, transmit(peer.local_address(), Some(1_000)));
        assert_eq!(sent.unwrap(), SendProgress::Clear);
        assert_eq!(
            (outbox.datagrams, outbox.losses),
            (3, LocalLosses::default())
        );
        // No datagram can be sent to port 0.
        outbox.bytes = vec![7; 2_500];
        let sent = outbox.send(&socket, transmit(any, Some(1_000)));
        assert_eq!(sent.unwrap(), SendProgress::Clear);
        outbox.bytes = vec![7; 65_508];
        let sent = outbox.send(&socket, transmit(peer.local_address(), None));
        assert_eq!(sent.unwrap(), SendProgress::Clear);
        let losses = LocalLosses {
            too_large: 1,
            refused: 0,
            others: 3,
        };
        assert_eq!((outbox.datagrams, outbox.losses), (3, losses));
        assert!(outbox.bytes.is_empty());
    }

    #[test]
    fn datagrams_to_a_port_without_a_listener_are_losses() {
        let options = UdpOptions::default();
        let gone = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let to = gone.local_address();
        drop(gone);
        let socket = UdpSocket::connect(to, None, &options).unwrap();
        let mut outbox = Outbox::default();
        let mut given = 0;
        loop {
            outbox.bytes = vec![7; 100];
            given += 2;
            let sent = outbox.send(&socket, transmit(to, Some(50)));
            if sent.unwrap() == SendProgress::Refused {
                break;
            }
            // The kernel reports at the next call that these datagrams were refused.
            let mut fds = [PollFd::new(&socket, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&PATIENCE)), Ok(1));
        }
        let refused = outbox.losses.refused;
        assert!((1..=2).contains(&refused), "{refused}");
        assert_eq!(outbox.datagrams + refused, given);
        assert_eq!((outbox.losses.too_large, outbox.losses.others), (0, 0));
    }
}
