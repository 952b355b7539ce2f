//! The fields of a TCP segment that delayed acknowledgements depend on, parsed from a raw IP packet (RFC 791,
//! RFC 8200, RFC 9293).
//!
//! Fragments, IPv6 extension headers and inconsistent packets are not parsed. Checksums are not verified: the
//! path does not corrupt packets, and the kernel verifies them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// An address and a port.
pub(super) type Endpoint = (IpAddr, u16);

/// The parsed fields of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// The sequence number of the first byte, or of the SYN.
    pub(super) sequence: u32,
    /// The acknowledgement number; `None` without the ACK flag.
    pub(super) acknowledgement: Option<u32>,
    /// The window field of the header, before scaling.
    pub(super) window: u16,
    /// The number of data bytes.
    pub(super) data: u32,
    pub(super) fin: bool,
    pub(super) rst: bool,
    /// The options of a SYN; `None` if the segment is not a SYN.
    pub(super) syn: Option<Offer>,
    /// Whether ACK is the only flag and there are no data.
    pub(super) is_pure_ack: bool,
}

/// The options of a SYN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// The largest segment that the sender accepts (MSS), in bytes of data.
    pub(super) largest_segment: Option<u16>,
    /// The shift of the sender's windows; it applies only if both sides offer one.
    pub(super) window_shift: Option<u8>,
    pub(super) timestamps: bool,
}

impl Segment {
    /// Parses a raw IP packet; `None` if it is not a complete TCP segment, or is not supported.
    pub(super) fn parse(packet: &[u8]) -> Option<Segment> {
        let (source, destination, tcp) = match packet.first()? >> 4 {
            4 => parse_v4(packet)?,
            6 => parse_v6(packet)?,
            _ => return None,
        };
        let header: &[u8; 20] = tcp.first_chunk()?;
        let header_length = usize::from(header[12] >> 4) * 4;
        let options = tcp.get(20..header_length)?;
        let flags = header[13];
        let data = (tcp.len() - header_length) as u32;
        let reserved = header[12] & 0x0f;
        Some(Segment {
            source: (source, u16::from_be_bytes([header[0], header[1]])),
            destination: (destination, u16::from_be_bytes([header[2], header[3]])),
            sequence: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            acknowledgement: (flags & ACK != 0)
                .then(|| u32::from_be_bytes([header[8], header[9], header[10], header[11]])),
            window: u16::from_be_bytes([header[14], header[15]]),
            data,
            fin: flags & FIN != 0,
            rst: flags & RST != 0,
            syn: (flags & SYN != 0).then(|| Offer::parse(options)),
            is_pure_ack: flags == ACK && reserved == 0 && data == 0,
        })
    }

    /// Returns the sequence number after the data, SYN and FIN.
    pub(super) fn end(&self) -> u32 {
        self.sequence
            .wrapping_add(self.data)
            .wrapping_add(u32::from(self.syn.is_some()))
            .wrapping_add(u32::from(self.fin))
    }
}

impl Offer {
    /// Parses the options of a SYN, up to the first malformed option.
    fn parse(mut options: &[u8]) -> Offer {
        let mut offer = Offer::default();
        loop {
            let length = match options {
                [] | [0, ..] => return offer,
                [1, ..] => 1,
                [_, length, ..] if (2..=options.len()).contains(&usize::from(*length)) => {
                    usize::from(*length)
                }
                _ => return offer,
            };
            match options[..length] {
                [2, 4, high, low] => offer.largest_segment = Some(u16::from_be_bytes([high, low])),
                // RFC 7323, section 2.3: a shift above 14 counts as 14.
                [3, 3, shift] => offer.window_shift = Some(shift.min(14)),
                [8, 10, ..] => offer.timestamps = true,
                _ => {}
            }
            options = &options[length..];
        }
    }
}

fn parse_v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total_length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // All bits except "don't fragment": the fragment offset, and "more fragments".
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    if header_length < 20 || fragment != 0 || header[9] != TCP {
        return None;
    }
    let source: [u8; 4] = *header[12..].first_chunk()?;
    let destination: [u8; 4] = *header[16..].first_chunk()?;
    Some((
        Ipv4Addr::from(source).into(),
        Ipv4Addr::from(destination).into(),
        packet.get(header_length..total_length)?,
    ))
}

fn parse_v6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let payload_length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[6] != TCP {
        return None;
    }
    let source: [u8; 16] = *header[8..].first_chunk()?;
    let destination: [u8; 16] = *header[24..].first_chunk()?;
    Some((
        Ipv6Addr::from(source).into(),
        Ipv6Addr::from(destination).into(),
        packet.get(40..40 + payload_length)?,
    ))
}
