//! HTTP/3 on kernel sockets: what hosts of the machines of QUIC (`fathometer_quic`) and HTTP/3
//! (`fathometer_http::h3`) share. The host of servers is in `fathometer-origin`, that of clients in `fathometer-load`.
//!
//! - [`feed`]: from a machine into streams;
//! - [`outbox`]: from a connection into a socket.
//!
//! A host adds no policy: the machines decide when a request is made and what the response is. This crate
//! decides the socket options ([`Sockets`]), because the offloads determine most of the CPU time of HTTP/3 and
//! are factors of experiments.

pub mod feed;
pub mod outbox;

use std::fmt;
use std::str::FromStr;

use fathometer_sys::UdpOptions;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The TLS settings.
    #[error(transparent)]
    Tls(#[from] fathometer_tls::SettingsError),
    /// The transport settings.
    #[error(transparent)]
    Transport(#[from] fathometer_quic::SettingsError),
}

/// Memory for datagrams that the kernel has received and that are not read yet, in bytes.
const RECEIVE_BUFFER: u32 = 2 << 20;

/// The options of UDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// Segmentation offload (GSO): one call sends several datagrams of the same length.
    pub segmentation: bool,
    /// The most datagrams per call, with segmentation offload.
    pub segments: u8,
    /// Receive offload (GRO): datagrams that arrived together are received together.
    pub coalescing: bool,
    /// Whether ECN codepoints are sent and received.
    pub ecn: bool,
    /// `SO_RCVBUF`, in bytes; `None`: the kernel's default, which bursts overflow easily.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, in bytes; `None`: the kernel's default.
    pub send_buffer_bytes: Option<u32>,
}

/// All offloads, 10 datagrams per call, a receive buffer of 2 MiB.
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

    /// The options of a socket that is not shared.
    pub fn options(&self) -> UdpOptions {
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

    /// Datagrams per call, limited by what the socket supports.
    pub fn segments_of(&self, socket: &fathometer_sys::UdpSocket) -> usize {
        usize::from(self.segments).clamp(1, socket.segments())
    }
}

/// The UDP offloads in use: a level of a factor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UdpOffload {
    /// Both, where the kernel and the device have them.
    #[default]
    On,
    /// Segmentation (GSO) only: one call sends several datagrams of the same length.
    Send,
    /// Coalescing (GRO) only: datagrams that arrived together are received together.
    Receive,
    /// None: each datagram is sent by a call of its own, and received into a buffer of its own.
    Off,
}

impl UdpOffload {
    /// All of them.
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

/// A text that is not the name of an offload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a UDP offload: write on, send, receive or off")]
pub struct ParseUdpOffloadError(String);

impl FromStr for UdpOffload {
    type Err = ParseUdpOffloadError;

    fn from_str(text: &str) -> Result<UdpOffload, ParseUdpOffloadError> {
        let named = |one: &UdpOffload| one.name() == text;
        let one = UdpOffload::ALL.into_iter().find(named);
        one.ok_or_else(|| ParseUdpOffloadError(text.to_owned()))
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
