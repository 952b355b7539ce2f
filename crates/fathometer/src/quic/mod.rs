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

use fathometer_sys::UdpOptions;

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
