//! Parses the headers of an IP packet.
//!
//! Lengths come from the headers, not from the number of captured bytes. Therefore a capture with only the first 96
//! bytes of each packet gives the same figures as a capture of whole packets. The parser supports IPv4 (RFC 791) with
//! options, IPv6 (RFC 8200) with extension headers, and TCP (RFC 9293) with the options that the accounting uses. It
//! does not verify checksums, because captures on a host contain packets whose checksum the interface has not computed
//! yet. It does not reassemble fragments, and it does not decode packets inside packets (tunnels, the packet quoted in
//! an ICMP error).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;

/// An address and a port. IPv4 addresses are stored as IPv4-mapped IPv6 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The upper and the lower 64 bits; a `u128` would double the size because of its alignment.
    address: [u64; 2],
    port: u16,
}

impl Endpoint {
    /// Returns the port.
    pub fn port(self) -> u16 {
        self.port
    }

    /// Returns the address as IPv4, if it is an IPv4 address.
    #[inline]
    pub(super) fn ipv4(self) -> Option<u32> {
        let [upper, lower] = self.address;
        (upper == 0 && lower >> 32 == 0xffff).then_some(lower as u32)
    }

    /// Returns the address with port 0.
    pub(super) fn without_port(self) -> Endpoint {
        Endpoint { port: 0, ..self }
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(endpoint: Endpoint) -> SocketAddr {
        let [upper, lower] = endpoint.address;
        let address = Ipv6Addr::from_bits(u128::from(upper) << 64 | u128::from(lower));
        let address = address
            .to_ipv4_mapped()
            .map_or(IpAddr::V6(address), IpAddr::V4);
        SocketAddr::new(address, endpoint.port)
    }
}

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// An IP packet with a valid header.
    Ip(IpPacket),
    /// The frame carries no IP packet.
    NotIp,
    /// The frame is marked as IP, but its IP header is incomplete or invalid.
    Malformed,
}

/// An IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPacket {
    /// The sender's address; the port is 0 unless the packet is TCP or UDP.
    pub source: Endpoint,
    /// The receiver's address; the port is 0 unless the packet is TCP or UDP.
    pub destination: Endpoint,
    /// Length of the packet including its header, in bytes.
    pub length: u32,
    /// Length of the IP header including options or extension headers, in bytes.
    pub header_length: u32,
    /// The transport protocol.
    pub transport: Transport,
}

/// The transport protocol of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp,
    /// ICMP or ICMPv6.
    Icmp(IcmpKind),
    /// A fragment. This includes the first fragment, because its transport header describes the whole packet.
    Fragment,
    /// A TCP segment whose header is incomplete or invalid.
    MalformedTcp,
    /// Another protocol.
    Other,
}

/// The role of an ICMP message in a request-reply pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// A request for an echo, a time stamp or an address mask.
    Request,
    /// A reply to a request.
    Reply,
    /// An error, a neighbour-discovery message, or a message whose type was not captured.
    Other,
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (of the SYN, if set).
    pub sequence: u32,
    /// Acknowledgement number; valid with [`Flags::ACK`].
    pub acknowledgement: u32,
    /// The control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// Length of the TCP header including options, in bytes.
    pub header_length: u32,
    /// Length of the payload in bytes.
    pub payload_length: u32,
    /// The captured options.
    pub options: TcpOptions,
}

/// The lower eight control bits of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Flags = Flags(0x01);
    /// Sequence numbers begin here.
    pub const SYN: Flags = Flags(0x02);
    /// The connection is aborted.
    pub const RST: Flags = Flags(0x04);
    /// The receiver should deliver the data to the application.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(0x10);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The options of a TCP header that the accounting uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size, on a SYN.
    pub maximum_segment_size: Option<u16>,
    /// Window scale (a shift), on a SYN.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements are offered, on a SYN.
    pub sack_permitted: bool,
    /// Number of selective acknowledgement blocks.
    pub sack_blocks: u8,
    /// Whether time stamps are present.
    pub timestamps: bool,
}

impl Parsed {
    /// Parses an IP packet. `original_length`, the packet's length on the link, is used only if the IP header does not
    /// state the length.
    #[inline]
    pub fn parse(packet: &[u8], original_length: u32) -> Parsed {
        let parsed = match packet.first().map(|first| first >> 4) {
            Some(4) => ipv4(packet, original_length),
            Some(6) => ipv6(packet, original_length),
            _ => None,
        };
        parsed.map_or(Parsed::Malformed, Parsed::Ip)
    }
}

#[inline]
fn ipv4(packet: &[u8], original_length: u32) -> Option<IpPacket> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let header_length = usize::from(fixed[0] & 0x0f) * 4;
    if header_length < 20 || packet.len() < header_length {
        return None;
    }
    let length = match u16::from_be_bytes([fixed[2], fixed[3]]) {
        // The length is 0 in a packet that the interface will segment.
        0 => original_length,
        length => u32::from(length),
    };
    if length < header_length as u32 {
        return None;
    }
    let more_or_offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff;
    let source = u32::from_be_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]);
    let destination = u32::from_be_bytes([fixed[16], fixed[17], fixed[18], fixed[19]]);
    let mut ip = IpPacket {
        source: mapped(source),
        destination: mapped(destination),
        length,
        header_length: header_length as u32,
        transport: Transport::Fragment,
    };
    if more_or_offset == 0 {
        transport(&mut ip, fixed[9], &packet[header_length..]);
    }
    Some(ip)
}

fn ipv6(packet: &[u8], original_length: u32) -> Option<IpPacket> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let length = match u16::from_be_bytes([fixed[4], fixed[5]]) {
        // The length is 0 in a jumbogram and in a packet that the interface will segment.
        0 => original_length.max(40),
        length => u32::from(length) + 40,
    };
    let address = |at: usize| {
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&fixed[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        Endpoint {
            address: [half(at), half(at + 8)],
            port: 0,
        }
    };
    let mut ip = IpPacket {
        source: address(8),
        destination: address(24),
        length,
        header_length: 40,
        transport: Transport::Other,
    };
    let mut protocol = fixed[6];
    let mut at = 40;
    loop {
        // Computes the length of the extension header that `protocol` announces.
        let units = |unit: usize, extra: usize| {
            packet
                .get(at + 1)
                .map(|length| (usize::from(*length) + extra) * unit)
        };
        let extension = match protocol {
            // Hop-by-hop options, routing, destination options, mobility, host identity and shim headers.
            0 | 43 | 60 | 135 | 139 | 140 => units(8, 1),
            // The authentication header counts in units of four bytes.
            51 => units(4, 2),
            44 => {
                let Some(header) = packet.get(at..at + 8) else {
                    ip.transport = Transport::Fragment;
                    return Some(ip);
                };
                // A fragment header with offset 0 and no more fragments marks a whole packet (RFC 6946).
                if u16::from_be_bytes([header[2], header[3]]) & 0xfff9 != 0 {
                    ip.transport = Transport::Fragment;
                    return Some(ip);
                }
                Some(8)
            }
            _ => {
                ip.header_length = at as u32;
                if ip.header_length <= ip.length {
                    transport(&mut ip, protocol, packet.get(at..).unwrap_or_default());
                }
                return Some(ip);
            }
        };
        let (Some(extension), Some(next)) = (extension, packet.get(at)) else {
            return Some(ip);
        };
        protocol = *next;
        at += extension;
    }
}

fn mapped(address: u32) -> Endpoint {
    Endpoint {
        address: [0, 0xffff_0000_0000 | u64::from(address)],
        port: 0,
    }
}

#[inline]
fn transport(ip: &mut IpPacket, protocol: u8, payload: &[u8]) {
    ip.transport = match protocol {
        PROTOCOL_TCP => match segment(payload, ip.length - ip.header_length) {
            Some(segment) => {
                ip.source.port = u16::from_be_bytes([payload[0], payload[1]]);
                ip.destination.port = u16::from_be_bytes([payload[2], payload[3]]);
                Transport::Tcp(segment)
            }
            None => Transport::MalformedTcp,
        },
        PROTOCOL_UDP => {
            if let Some(ports) = payload.first_chunk::<4>() {
                ip.source.port = u16::from_be_bytes([ports[0], ports[1]]);
                ip.destination.port = u16::from_be_bytes([ports[2], ports[3]]);
            }
            Transport::Udp
        }
        PROTOCOL_ICMP => Transport::Icmp(match payload.first() {
            Some(8 | 13 | 15 | 17) => IcmpKind::Request,
            Some(0 | 14 | 16 | 18) => IcmpKind::Reply,
            _ => IcmpKind::Other,
        }),
        PROTOCOL_ICMPV6 => Transport::Icmp(match payload.first() {
            Some(128) => IcmpKind::Request,
            Some(129) => IcmpKind::Reply,
            _ => IcmpKind::Other,
        }),
        _ => Transport::Other,
    };
}

/// Parses a TCP header at the beginning of `bytes`; `length` is the original length of header and payload. The header
/// must be captured up to the window field; later fields are optional.
#[inline]
fn segment(bytes: &[u8], length: u32) -> Option<Segment> {
    let fixed: &[u8; 16] = bytes.first_chunk()?;
    let header_length = u32::from(fixed[12] >> 4) * 4;
    if header_length < 20 || header_length > length {
        return None;
    }
    let options = bytes
        .get(20..bytes.len().min(header_length as usize))
        .unwrap_or_default();
    Some(Segment {
        sequence: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        acknowledgement: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        flags: Flags(fixed[13]),
        window: u16::from_be_bytes([fixed[14], fixed[15]]),
        header_length,
        payload_length: length - header_length,
        options: tcp_options(options),
    })
}

#[inline]
fn tcp_options(mut bytes: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    // Fast path for the options of nearly every segment today: two bytes of padding and a time stamp.
    if bytes.len() == 12 && bytes[..4] == [1, 1, 8, 10] {
        options.timestamps = true;
        return options;
    }
    loop {
        bytes = match bytes {
            [1, rest @ ..] => rest,
            [kind @ (2..), length @ (2..), ..] if usize::from(*length) <= bytes.len() => {
                let (option, rest) = bytes.split_at(usize::from(*length));
                match (*kind, &option[2..]) {
                    (2, [high, low]) => {
                        options.maximum_segment_size = Some(u16::from_be_bytes([*high, *low]));
                    }
                    // RFC 7323: a shift above 14 is treated as 14.
                    (3, [shift]) => options.window_scale = Some((*shift).min(14)),
                    (4, []) => options.sack_permitted = true,
                    (5, blocks) => options.sack_blocks = (blocks.len() / 8) as u8,
                    (8, [_, _, _, _, _, _, _, _]) => options.timestamps = true,
                    _ => {}
                }
                rest
            }
            // The end of the list, or an invalid option: parsing stops.
            _ => return options,
        };
    }
}

#[cfg(test)]
mod tests;
