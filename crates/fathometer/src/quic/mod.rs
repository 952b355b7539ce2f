//! HTTP/3 on kernel sockets: hosts of the machines of QUIC (`fathometer_quic`) and HTTP/3
//! (`fathometer_http::h3`).
//!
//! - [`client`]: one connection with a socket of its own, for the loops of page retrievals and of load
//!   tests;
//! - [`server`]: loops that serve an origin.
//!
//! Neither adds policy: when a request is made and what is answered is decided by the machines. What is
//! decided here is what the kernel is asked for ([`Sockets`]), because the offloads make most of what
//! HTTP/3 costs and are factors of experiments.

pub mod client;
mod feed;
mod outbox;
pub mod server;

use std::fmt;
use std::str::FromStr;

use fathometer_sys::UdpOptions;
use fathometer_sys::udp::Received;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Those of TLS.
    #[error(transparent)]
    Tls(#[from] fathometer_tls::SettingsError),
    /// Those of the transport.
    #[error(transparent)]
    Transport(#[from] fathometer_quic::SettingsError),
}

/// HTTP/3's name in ALPN.
pub const ALPN: &[u8] = b"h3";

/// Memory for what the kernel has received and nobody has read, in octets.
const RECEIVE_BUFFER: u32 = 2 << 20;

/// What UDP sockets are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// Segmentation offload (GSO): datagrams of one length leave by one call.
    pub segmentation: bool,
    /// Datagrams of one call at most, with segmentation offload.
    pub segments: u8,
    /// Receive offload (GRO): datagrams that came together are received together.
    pub coalescing: bool,
    /// Whether ECN codepoints are sent and received.
    pub ecn: bool,
    /// `SO_RCVBUF`, in octets; `None` leaves the kernel's default, which bursts overflow easily.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, in octets; `None` leaves the kernel's default.
    pub send_buffer_bytes: Option<u32>,
}

/// All offloads, 10 datagrams a call, 2 MiB to receive into.
impl Default for Sockets {
    fn default() -> Sockets {
        Sockets {
            segmentation: true,
            segments: 10,
            coalescing: true,
            ecn: true,
            receive_buffer_bytes: Some(RECEIVE_BUFFER),
            send_buffer_bytes: None,
        }
    }
}

impl Sockets {
    /// The same with these offloads.
    #[must_use]
    pub fn offloaded(self, offload: UdpOffload) -> Sockets {
        Sockets {
            segmentation: matches!(offload, UdpOffload::On | UdpOffload::Send),
            coalescing: matches!(offload, UdpOffload::On | UdpOffload::Receive),
            ..self
        }
    }

    fn options(&self) -> UdpOptions {
        UdpOptions {
            segmentation: self.segmentation,
            coalescing: self.coalescing,
            ecn: self.ecn,
            packet_info: false,
            dont_fragment: true,
            reuse_port: false,
            receive_buffer_bytes: self.receive_buffer_bytes,
            send_buffer_bytes: self.send_buffer_bytes,
        }
    }

    /// Datagrams of one call on a socket that takes so many.
    fn segments_of(&self, socket: &fathometer_sys::UdpSocket) -> usize {
        usize::from(self.segments).clamp(1, socket.segments())
    }
}

/// Which offloads of UDP are used: a level of a factor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UdpOffload {
    /// Both, where the kernel and the device have them.
    #[default]
    On,
    /// Segmentation (GSO) alone: datagrams of one length leave by one call.
    Send,
    /// Coalescing (GRO) alone: datagrams that came together are received together.
    Receive,
    /// None: each datagram is sent by a call, and received into a buffer, of its own.
    Off,
}

impl UdpOffload {
    /// Every one.
    pub const ALL: [UdpOffload; 4] = [
        UdpOffload::On,
        UdpOffload::Send,
        UdpOffload::Receive,
        UdpOffload::Off,
    ];

    /// Its name in arguments and studies.
    pub const fn name(self) -> &'static str {
        match self {
            UdpOffload::On => "on",
            UdpOffload::Send => "send",
            UdpOffload::Receive => "receive",
            UdpOffload::Off => "off",
        }
    }
}

impl fmt::Display for UdpOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no offload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no offload of UDP: write on, send, receive or off")]
pub struct ParseUdpOffloadError(String);

impl FromStr for UdpOffload {
    type Err = ParseUdpOffloadError;

    fn from_str(text: &str) -> Result<UdpOffload, ParseUdpOffloadError> {
        let named = |one: &UdpOffload| one.name() == text;
        let one = UdpOffload::ALL.into_iter().find(named);
        one.ok_or_else(|| ParseUdpOffloadError(text.to_owned()))
    }
}

/// In how many pieces datagrams went to the kernel and came from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Batches {
    /// Calls that sent datagrams.
    pub send_calls: u64,
    /// Datagrams that they sent.
    pub sent: u64,
    /// Calls that received datagrams.
    pub receive_calls: u64,
    /// Buffers that they filled, each with one datagram or with several that came together.
    pub receive_buffers: u64,
    /// Datagrams in these.
    pub received: u64,
}

impl Batches {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Batches) -> Batches {
        Batches {
            send_calls: self.send_calls + other.send_calls,
            sent: self.sent + other.sent,
            receive_calls: self.receive_calls + other.receive_calls,
            receive_buffers: self.receive_buffers + other.receive_buffers,
            received: self.received + other.received,
        }
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Batches) -> Batches {
        Batches {
            send_calls: self.send_calls - earlier.send_calls,
            sent: self.sent - earlier.sent,
            receive_calls: self.receive_calls - earlier.receive_calls,
            receive_buffers: self.receive_buffers - earlier.receive_buffers,
            received: self.received - earlier.received,
        }
    }

    fn note_received(&mut self, received: &Received<'_>) {
        self.receive_buffers += 1;
        self.received += received.octets.len().div_ceil(received.segment.max(1)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_known_by_their_names_and_do_what_they_say() {
        for offload in UdpOffload::ALL {
            assert_eq!(offload.name().parse(), Ok(offload));
        }
        assert!("gso".parse::<UdpOffload>().is_err());
        let of = |offload| {
            let sockets = Sockets::default().offloaded(offload);
            (sockets.segmentation, sockets.coalescing)
        };
        assert_eq!(of(UdpOffload::On), (true, true));
        assert_eq!(of(UdpOffload::Send), (true, false));
        assert_eq!(of(UdpOffload::Receive), (false, true));
        assert_eq!(of(UdpOffload::Off), (false, false));
    }
}
