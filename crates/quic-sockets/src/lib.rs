//! HTTP/3 on kernel sockets: the code that server and client share around the state machines of QUIC
//! (`fathometer_quic`) and HTTP/3 (`fathometer_http::h3`). The server is in `fathometer-origin`, the client in
//! `fathometer-load`.
//!
//! - [`feed`]: moves bytes from an HTTP/3 state machine into QUIC streams;
//! - [`outbox`]: sends datagrams of a QUIC connection to a socket.
//!
//! This crate adds no policy: the state machines decide the times of requests and the responses. This crate sets the
//! socket options ([`Sockets`]), because the offloads determine most of the CPU time of HTTP/3 and are factors of
//! experiments.

pub mod feed;
pub mod outbox;

use std::fmt;
use std::str::FromStr;

use fathometer_sys::UdpOptions;

/// The reason why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The TLS settings are invalid.
    #[error(transparent)]
    Tls(#[from] fathometer_tls::SettingsError),
    /// The transport settings are invalid.
    #[error(transparent)]
    Transport(#[from] fathometer_quic::SettingsError),
}

/// The default receive buffer, for datagrams that the program has not read yet, in bytes.
const RECEIVE_BUFFER: u32 = 2 << 20;

/// The options of UDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// Segmentation offload (GSO): one call sends several datagrams of the same length.
    pub segmentation: bool,
    /// The largest number of datagrams per call, with segmentation offload.
    pub segments: u8,
    /// Receive offload (GRO): one call receives datagrams that arrived together.
    pub coalescing: bool,
    /// Whether ECN codepoints are sent and received.
    pub ecn: bool,
    /// `SO_RCVBUF`, in bytes; `None`: the kernel's default, which overflows easily in bursts.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, in bytes; `None`: the kernel's default.
    pub send_buffer_bytes: Option<u32>,
}

/// The default: all offloads, 10 datagrams per call, a receive buffer of 2 MiB.
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
    /// Returns the same options with these offloads.
    #[must_use]
    pub fn offloaded(self, offload: UdpOffload) -> Sockets {
        Sockets {
            segmentation: matches!(offload, UdpOffload::On | UdpOffload::Send),
            coalescing: matches!(offload, UdpOffload::On | UdpOffload::Receive),
            ..self
        }
    }

    /// Returns the options of a socket that is not shared.
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

    /// Returns the number of datagrams per call, which is 1 if the socket does not support segmentation.
    pub fn segments_of(&self, socket: &fathometer_sys::UdpSocket) -> usize {
        usize::from(self.segments).clamp(1, socket.segments())
    }
}

/// The UDP offloads in use: a level of a factor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UdpOffload {
    /// Both, if the kernel and the device support them.
    #[default]
    On,
    /// Segmentation (GSO) only: one call sends several datagrams of the same length.
    Send,
    /// Coalescing (GRO) only: one call receives datagrams that arrived together.
    Receive,
    /// None: each datagram is sent by its own call, and received into its own buffer.
    Off,
}

impl UdpOffload {
    /// All levels.
    pub const ALL: [UdpOffload; 4] = [
        UdpOffload::On,
        UdpOffload::Send,
        UdpOffload::Receive,
        UdpOffload::Off,
    ];

    /// Returns the name in arguments and studies.
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

/// The text is not the name of an offload.
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
