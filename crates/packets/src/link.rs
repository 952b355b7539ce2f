//! Finds the IP packet in a captured frame.

use super::capture::LinkType;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHERTYPE_PPPOE: u16 = 0x8864;
const ETHERTYPE_MACSEC: u16 = 0x88e5;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: [u16; 2] = [0x0281, 0x0283];

/// The reason why no IP packet was found in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoIpReason {
    /// The frame carries another protocol, or is truncated before the IP packet begins.
    NotIp,
    /// The frame has an encapsulation that may carry IP but is not decoded.
    Opaque(Opaque),
}

/// An encapsulation that may carry IP but is not decoded. The type is small, because it is returned for every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opaque {
    /// A pseudowire in MPLS.
    Pseudowire,
    /// MACsec, encrypted.
    Macsec,
    /// PPP with compressed headers.
    CompressedHeaders,
    /// PPP, compressed.
    CompressedPpp,
    /// PPP, encrypted.
    EncryptedPpp,
    /// IEEE 802.11, encrypted.
    EncryptedWireless,
    /// Fragments of IEEE 802.11.
    WirelessFragment,
    /// Aggregates (A-MSDU) of IEEE 802.11.
    Aggregate,
}

impl std::fmt::Display for Opaque {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Opaque::Pseudowire => "a pseudowire in MPLS",
            Opaque::Macsec => "MACsec, encrypted",
            Opaque::CompressedHeaders => "PPP with compressed headers",
            Opaque::CompressedPpp => "PPP, compressed",
            Opaque::EncryptedPpp => "PPP, encrypted",
            Opaque::EncryptedWireless => "IEEE 802.11, encrypted",
            Opaque::WirelessFragment => "fragments of IEEE 802.11",
            Opaque::Aggregate => "aggregates (A-MSDU) of IEEE 802.11",
        })
    }
}

type Found<'a> = Result<&'a [u8], NoIpReason>;

/// Returns the bytes of the IP packet (of any version) in a frame. `None` if the frame carries another protocol, is
/// truncated before the packet begins, or has an unsupported link type.
#[inline]
pub fn ip_packet(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    find(link, frame).ok()
}

/// Returns the IP packet in a frame, or the reason why no packet is found.
///
/// Supported link types: Ethernet, FDDI, Token Ring, IEEE 802.11 (alone and after the headers of radiotap, PPI, AVS and
/// Prism), ATM by RFC 2684, IP over IEEE 1394, PPP, Cisco HDLC, MPLS, raw IP, BSD loopback and both of Linux's cooked
/// formats. Supported encapsulations: VLAN tags, LLC and SNAP, PPPoE sessions, stacks of MPLS labels, and MACsec
/// without encryption.
#[inline]
pub fn find(link: LinkType, frame: &[u8]) -> Found<'_> {
    match link.0 {
        // Raw IP: the registered number, the numbers of two systems, and one number per IP version.
        101 | 12 | 14 | 228 | 229 => Ok(frame),
        1 => ethernet(frame),
        _ => find_elsewhere(link, frame),
    }
}

fn find_elsewhere(link: LinkType, frame: &[u8]) -> Found<'_> {
    match link.0 {
        9 | 50 => ppp(frame),
        // These link types have a direction byte before the frame.
        166 | 204 => ppp(from(frame, 1)?),
        51 => ppp(from(frame, 6)?),
        0 => {
            let family: [u8; 4] = *frame.first_chunk().ok_or(NoIpReason::NotIp)?;
            let little = u32::from_le_bytes(family);
            // The field has the byte order of the capturing host; every valid family is a small number.
            let family = if little > 0xffff {
                little.swap_bytes()
            } else {
                little
            };
            loopback(family, frame)
        }
        108 => {
            let family = frame.first_chunk().ok_or(NoIpReason::NotIp)?;
            loopback(u32::from_be_bytes(*family), frame)
        }
        113 => typed(u16_at(frame, 14)?, from(frame, 16)?),
        276 => typed(u16_at(frame, 0)?, from(frame, 20)?),
        104 => typed(u16_at(frame, 2)?, from(frame, 4)?),
        138 => typed(u16_at(frame, 16)?, from(frame, 18)?),
        219 => mpls(frame),
        11 => llc(frame),
        6 => token_ring(frame),
        10 => fddi(frame),
        105 => wireless(frame, false),
        119 => prism(frame),
        127 => radiotap(frame),
        163 => wireless(from(frame, u32_at(frame, 4)? as usize)?, false),
        192 => ppi(frame),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Whether [`ip_packet`] supports the link type.
pub fn is_known(link: LinkType) -> bool {
    matches!(
        link.0,
        0 | 1
            | 6
            | 9
            | 10
            | 11
            | 12
            | 14
            | 50
            | 51
            | 101
            | 104
            | 105
            | 108
            | 113
            | 119
            | 127
            | 138
            | 163
            | 166
            | 192
            | 204
            | 219
            | 228
            | 229
            | 276
    )
}

/// Returns the name of an unsupported link type that occurs in captures.
pub fn name(link: LinkType) -> Option<&'static str> {
    Some(match link.0 {
        3 => "AX.25",
        7 => "ARCnet",
        8 => "SLIP",
        107 => "Frame Relay",
        109 => "IPsec of BSD",
        117 => "the packet filter of OpenBSD",
        122 => "Fibre Channel",
        123 => "ATM of SunATM",
        143 => "DOCSIS",
        147..=162 => "private use",
        187 | 201 => "Bluetooth HCI",
        189 | 220 | 249 => "USB",
        195 | 230 => "IEEE 802.15.4",
        227 => "CAN",
        239 => "Linux netfilter log",
        251 => "Bluetooth Low Energy",
        252 => "Wireshark upper layers",
        253 => "Linux netlink",
        _ => return None,
    })
}

fn ethernet(frame: &[u8]) -> Found<'_> {
    let kind = u16_at(frame, 12)?;
    if kind >= 0x0600 {
        return typed(kind, &frame[14..]);
    }
    // The field contains a length instead of an EtherType.
    llc(&frame[14..])
}

fn typed(mut kind: u16, mut payload: &[u8]) -> Found<'_> {
    loop {
        if VLAN_TAGS.contains(&kind) {
            kind = u16_at(payload, 2)?;
            payload = &payload[4..];
        } else if kind == ETHERTYPE_MACSEC {
            (kind, payload) = macsec(payload)?;
        } else {
            break;
        }
    }
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(payload),
        ETHERTYPE_PPPOE => ppp(from(payload, 6)?),
        _ if ETHERTYPE_MPLS.contains(&kind) => mpls(payload),
        // The tag may be followed by a length instead of an EtherType.
        ..0x0600 => llc(payload),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Decodes an IEEE 802.2 header, with SNAP or with the SAP number of IP.
fn llc(payload: &[u8]) -> Found<'_> {
    match payload {
        // SNAP (RFC 1042), and the bridge-tunnel encapsulation of IEEE 802.1H.
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, rest @ ..] => typed(u16_at(rest, 0)?, from(rest, 2)?),
        [0x06, 0x06, 0x03, packet @ ..] => Ok(packet),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Decodes a stack of MPLS labels (RFC 3032). The first four bits after the stack determine the content (RFC 4928).
fn mpls(mut payload: &[u8]) -> Found<'_> {
    loop {
        let label: &[u8; 4] = payload.first_chunk().ok_or(NoIpReason::NotIp)?;
        let is_last = label[2] & 1 == 1;
        payload = &payload[4..];
        if is_last {
            break;
        }
    }
    match payload.first().map(|first| first >> 4) {
        Some(4 | 6) => Ok(payload),
        Some(0) => Err(NoIpReason::Opaque(Opaque::Pseudowire)),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Decodes IEEE 802.1AE: returns the content after the tag, if it is authenticated but not encrypted.
fn macsec(payload: &[u8]) -> Result<(u16, &[u8]), NoIpReason> {
    const CHANNEL: u8 = 0x20;
    const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
    let control = *payload.first().ok_or(NoIpReason::NotIp)?;
    if control & ENCRYPTED_OR_CHANGED != 0 {
        return Err(NoIpReason::Opaque(Opaque::Macsec));
    }
    let length = if control & CHANNEL != 0 { 14 } else { 6 };
    Ok((u16_at(payload, length)?, from(payload, length + 2)?))
}

fn ppp(frame: &[u8]) -> Found<'_> {
    let frame = match frame {
        // The address and control bytes of HDLC framing, which links may negotiate to omit.
        [0xff, 0x03, rest @ ..] => rest,
        _ => frame,
    };
    // A protocol number with an odd first byte was compressed to that byte.
    let (protocol, payload) = match frame {
        [first, rest @ ..] if first & 1 == 1 => (u16::from(*first), rest),
        [first, second, rest @ ..] => (u16::from_be_bytes([*first, *second]), rest),
        _ => return Err(NoIpReason::NotIp),
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => Ok(payload),
        _ if PPP_MPLS.contains(&protocol) => mpls(payload),
        // Compressed headers (RFC 1144 and RFC 2507 to 3095); compressed packets (RFC 1962).
        0x002d | 0x002f | 0x0003 | 0x0005 | 0x0061 => {
            Err(NoIpReason::Opaque(Opaque::CompressedHeaders))
        }
        0x00fd => Err(NoIpReason::Opaque(Opaque::CompressedPpp)),
        0x0053 => Err(NoIpReason::Opaque(Opaque::EncryptedPpp)),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Decodes FDDI: frame control and two addresses (ISO 9314-2), then LLC if the frame is an LLC frame.
fn fddi(frame: &[u8]) -> Found<'_> {
    match frame.first().map(|control| control & 0xf0) {
        Some(0x50 | 0xd0) => llc(from(frame, 13)?),
        _ => Err(NoIpReason::NotIp),
    }
}

/// Decodes Token Ring (IEEE 802.5): access and frame control, two addresses, and a source route if the source address
/// announces one.
fn token_ring(frame: &[u8]) -> Found<'_> {
    let (control, source) = (at(frame, 1)?, at(frame, 8)?);
    if control & 0xc0 != 0x40 {
        return Err(NoIpReason::NotIp);
    }
    let route = match source & 0x80 {
        0 => 0,
        _ => usize::from(at(frame, 14)? & 0x1f),
    };
    llc(from(frame, 14 + route)?)
}

/// Decodes a frame of IEEE 802.11, section 9.2. Some receivers pad its header to a multiple of four bytes.
fn wireless(frame: &[u8], padded: bool) -> Found<'_> {
    const DATA: u8 = 2;
    let (control, flags) = (at(frame, 0)?, at(frame, 1)?);
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    let carries_data = subtype & 0x4 == 0;
    if kind != DATA || !carries_data {
        return Err(NoIpReason::NotIp);
    }
    if flags & 0x40 != 0 {
        return Err(NoIpReason::Opaque(Opaque::EncryptedWireless));
    }
    let is_fragment = flags & 0x04 != 0 || at(frame, 22)? & 0x0f != 0;
    if is_fragment {
        return Err(NoIpReason::Opaque(Opaque::WirelessFragment));
    }
    let mut length = 24;
    if flags & 0x03 == 0x03 {
        length += 6;
    }
    let is_quality = subtype & 0x8 != 0;
    if is_quality {
        if at(frame, length)? & 0x80 != 0 {
            return Err(NoIpReason::Opaque(Opaque::Aggregate));
        }
        length += 2;
        if flags & 0x80 != 0 {
            length += 4;
        }
    }
    if padded {
        length = length.next_multiple_of(4);
    }
    llc(from(frame, length)?)
}

/// Decodes the radiotap header. It states its own length; the only other field read is the flag for padding of the
/// frame's header.
fn radiotap(frame: &[u8]) -> Found<'_> {
    let little = |at: usize| {
        let word = frame.get(at..at + 4)?.first_chunk()?;
        Some(u32::from_le_bytes(*word))
    };
    let length = usize::from(u16_at(frame, 2)?.swap_bytes());
    let first = little(4).ok_or(NoIpReason::NotIp)?;
    let (has_time, has_flags, has_more) = (first & 1 != 0, first & 2 != 0, first >> 31 == 1);
    let mut place = 8;
    if has_more {
        while little(place).ok_or(NoIpReason::NotIp)? >> 31 == 1 {
            place += 4;
        }
        place += 4;
    }
    if has_time {
        place = place.next_multiple_of(8) + 8;
    }
    let padded = has_flags && place < length && at(frame, place)? & 0x20 != 0;
    wireless(from(frame, length)?, padded)
}

/// Decodes Per-Packet Information: a header that states its own length and the link type of the content.
fn ppi(frame: &[u8]) -> Found<'_> {
    let length = usize::from(u16_at(frame, 2)?.swap_bytes());
    let link = u16_at(frame, 4)?.swap_bytes();
    match link {
        192 => Err(NoIpReason::NotIp),
        link => find(LinkType(link), from(frame, length)?),
    }
}

/// Decodes the Prism header, or the AVS header, which has the same link type number.
fn prism(frame: &[u8]) -> Found<'_> {
    let length = match u32_at(frame, 0)? {
        0x8021_1001 | 0x8021_1002 => u32_at(frame, 4)?,
        _ => {
            // The field has the byte order of the capturing host; every valid length is a small number.
            let length = u32_at(frame, 4)?;
            length.min(length.swap_bytes())
        }
    };
    wireless(from(frame, length as usize)?, false)
}

fn loopback(family: u32, frame: &[u8]) -> Found<'_> {
    // The family of IPv4 is 2 on all systems; each BSD has a different number for IPv6.
    match family {
        2 | 10 | 24 | 28 | 30 => Ok(&frame[4..]),
        _ => Err(NoIpReason::NotIp),
    }
}

fn from(bytes: &[u8], start: usize) -> Found<'_> {
    bytes.get(start..).ok_or(NoIpReason::NotIp)
}

fn at(bytes: &[u8], place: usize) -> Result<u8, NoIpReason> {
    bytes.get(place).copied().ok_or(NoIpReason::NotIp)
}

#[inline]
fn u16_at(bytes: &[u8], place: usize) -> Result<u16, NoIpReason> {
    let pair = bytes.get(place..place + 2).ok_or(NoIpReason::NotIp)?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

fn u32_at(bytes: &[u8], place: usize) -> Result<u32, NoIpReason> {
    let word = bytes.get(place..place + 4).ok_or(NoIpReason::NotIp)?;
    Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &[u8] = &[0x45, 1, 2, 3];

    fn framed(header: &[u8]) -> Vec<u8> {
        [header, PACKET].concat()
    }

    /// Builds the header of an IEEE 802.11 data frame: its first two bytes, the fields after the addresses, and SNAP.
    fn wireless_header(control: [u8; 2], more: &[u8]) -> Vec<u8> {
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        [&control[..], &[0; 22], more, &snap].concat()
    }

    #[test]
    fn every_known_link_gives_its_packet_and_no_cut_frame_panics() {
        let addresses = [0u8; 12];
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let radiotap = |flags: &[u8], frame: &[u8]| {
            let length = 8 + flags.len() as u8;
            let present = [if flags.is_empty() { 0 } else { 2 }, 0, 0, 0];
            [&[0, 0, length, 0], &present[..], flags, frame].concat()
        };
        let cases = [
            (101, framed(&[])),
            (228, framed(&[])),
            (1, framed(&[&addresses[..], &[0x08, 0]].concat())),
            (
                1,
                framed(&[&addresses[..], &[0x81, 0, 0, 7, 0x08, 0]].concat()),
            ),
            (
                1,
                framed(
                    &[
                        &addresses[..],
                        &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd],
                    ]
                    .concat(),
                ),
            ),
            (
                1,
                framed(&[&addresses[..], &[0, 32, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat()),
            ),
            (
                1,
                framed(&[&addresses[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0, 0x21]].concat()),
            ),
            (9, framed(&[0xff, 0x03, 0x00, 0x21])),
            (9, framed(&[0x21])),
            (9, framed(&[0x00, 0x57])),
            (0, framed(&[2, 0, 0, 0])),
            (108, framed(&[0, 0, 0, 30])),
            (113, framed(&[&[0u8; 14][..], &[0x08, 0]].concat())),
            (276, framed(&[&[0x08, 0][..], &[0u8; 18]].concat())),
            // A stack of two MPLS labels; IP without SNAP; a MACsec tag with and without a channel.
            (
                1,
                framed(&[&addresses[..], &[0x88, 0x47, 0, 1, 0, 9, 0, 2, 1, 9]].concat()),
            ),
            (1, framed(&[&addresses[..], &[0, 9, 6, 6, 3]].concat())),
            (
                1,
                framed(&[&addresses[..], &[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 8, 0]].concat()),
            ),
            (
                1,
                framed(
                    &[
                        &addresses[..],
                        &[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1],
                        &[0; 8],
                        &[8, 0],
                    ]
                    .concat(),
                ),
            ),
            (219, framed(&[0, 1, 1, 9])),
            (9, framed(&[0x02, 0x81, 0, 1, 1, 9])),
            (104, framed(&[0x0f, 0, 8, 0])),
            (10, framed(&[&[0x50][..], &addresses, &snap].concat())),
            (6, framed(&[&[0, 0x40][..], &addresses, &snap].concat())),
            (11, framed(&snap)),
            (105, framed(&wireless_header([0x08, 1], &[]))),
            (105, framed(&wireless_header([0x88, 1], &[0, 0]))),
            (105, framed(&wireless_header([0x88, 0x83], &[0; 12]))),
            (
                127,
                framed(&radiotap(&[], &wireless_header([0x08, 2], &[]))),
            ),
            (
                127,
                framed(&radiotap(
                    &[0x20],
                    &wireless_header([0x88, 2], &[0, 0, 0, 0]),
                )),
            ),
            (
                192,
                framed(
                    &[
                        &[0, 0, 8, 0, 105, 0, 0, 0][..],
                        &wireless_header([0x08, 1], &[]),
                    ]
                    .concat(),
                ),
            ),
        ];
        for (link, frame) in cases {
            let link = LinkType(link);
            assert!(is_known(link));
            assert_eq!(
                ip_packet(link, &frame),
                Some(PACKET),
                "{link:?} {frame:02x?}"
            );
            for cut in 0..frame.len() {
                let _ = ip_packet(link, &frame[..cut]);
            }
        }
    }

    #[test]
    fn what_may_hide_ip_is_named() {
        let opaque = |link, frame: &[u8]| match find(LinkType(link), frame) {
            Err(NoIpReason::Opaque(what)) => what.to_string(),
            found => panic!("{found:?}"),
        };
        let tagged = [&[0u8; 12][..], &[0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1, 9, 9]].concat();
        assert_eq!(opaque(1, &tagged), "MACsec, encrypted");
        let protected = wireless_header([0x08, 0x41], &[]);
        assert_eq!(opaque(105, &protected), "IEEE 802.11, encrypted");
        let beacon = wireless_header([0x80, 0], &[]);
        assert_eq!(find(LinkType(105), &beacon), Err(NoIpReason::NotIp));
        let wire = [&[0u8; 12][..], &[0x88, 0x47, 0, 0, 1, 9, 0, 0, 0, 0]].concat();
        assert_eq!(opaque(1, &wire), "a pseudowire in MPLS");
    }

    #[test]
    fn other_protocols_are_not_taken_for_ip() {
        let arp = [&[0u8; 12][..], &[0x08, 0x06, 0, 1]].concat();
        assert_eq!(ip_packet(LinkType(1), &arp), None);
        assert_eq!(ip_packet(LinkType(9), &[0xc0, 0x21, 1]), None);
        assert_eq!(ip_packet(LinkType(147), PACKET), None);
        assert!(!is_known(LinkType(147)));
    }
}
