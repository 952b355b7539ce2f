//! From a frame as captured to the IP packet in it.

use super::capture::LinkType;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE: u16 = 0x8864;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// The octets of the IP packet in a frame, whatever its version; `None` when the frame carries
/// something else, is cut before the packet begins, or is of a link type not known here.
///
/// Known: Ethernet (with VLAN tags, SNAP and PPPoE sessions), PPP, raw IP, BSD loopback and both
/// of Linux's cooked formats.
#[inline]
pub fn ip_packet(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    match link.0 {
        // Raw IP: as registered, as two systems number it in their own files, and by version.
        101 | 12 | 14 | 228 | 229 => Some(frame),
        1 => ethernet(frame),
        9 | 50 => ppp(frame),
        0 => {
            let family: [u8; 4] = frame.get(..4)?.try_into().ok()?;
            let little = u32::from_le_bytes(family);
            // Written in the byte order of the capturing host; a family is a small number.
            let family = if little > 0xffff {
                little.swap_bytes()
            } else {
                little
            };
            loopback(family, frame)
        }
        108 => loopback(u32::from_be_bytes(frame.get(..4)?.try_into().ok()?), frame),
        113 => typed(u16_at(frame, 14)?, frame.get(16..)?),
        276 => typed(u16_at(frame, 0)?, frame.get(20..)?),
        _ => None,
    }
}

/// Whether [`ip_packet`] knows the link type.
pub fn is_known(link: LinkType) -> bool {
    matches!(
        link.0,
        0 | 1 | 9 | 12 | 14 | 50 | 101 | 108 | 113 | 228 | 229 | 276
    )
}

fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    let kind = u16_at(frame, 12)?;
    if kind >= 0x0600 {
        return typed(kind, &frame[14..]);
    }
    // A length instead of a type: the type may follow a SNAP header.
    match frame.get(14..20)? {
        [0xaa, 0xaa, 0x03, 0, 0, 0] => typed(u16_at(frame, 20)?, &frame[22..]),
        _ => None,
    }
}

fn typed(mut kind: u16, mut payload: &[u8]) -> Option<&[u8]> {
    while VLAN_TAGS.contains(&kind) {
        kind = u16_at(payload, 2)?;
        payload = &payload[4..];
    }
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(payload),
        ETHERTYPE_PPPOE => ppp(payload.get(6..)?),
        _ => None,
    }
}

fn ppp(frame: &[u8]) -> Option<&[u8]> {
    let frame = match frame {
        // Address and control of HDLC framing, left out on links that negotiated so.
        [0xff, 0x03, rest @ ..] => rest,
        _ => frame,
    };
    // A protocol number with an odd first octet was compressed to that octet.
    let (protocol, payload) = match frame {
        [first, rest @ ..] if first & 1 == 1 => (u16::from(*first), rest),
        [first, second, rest @ ..] => (u16::from_be_bytes([*first, *second]), rest),
        _ => return None,
    };
    matches!(protocol, PPP_IPV4 | PPP_IPV6).then_some(payload)
}

fn loopback(family: u32, frame: &[u8]) -> Option<&[u8]> {
    // IPv4 is 2 everywhere; each BSD chose its own number for IPv6.
    matches!(family, 2 | 10 | 24 | 28 | 30).then(|| &frame[4..])
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    let pair = octets.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &[u8] = &[0x45, 1, 2, 3];

    fn framed(header: &[u8]) -> Vec<u8> {
        [header, PACKET].concat()
    }

    #[test]
    fn every_known_link_gives_its_packet_and_no_cut_frame_panics() {
        let addresses = [0u8; 12];
        let cases: [(u16, Vec<u8>); 14] = [
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
    fn other_protocols_are_not_taken_for_ip() {
        let arp = [&[0u8; 12][..], &[0x08, 0x06, 0, 1]].concat();
        assert_eq!(ip_packet(LinkType(1), &arp), None);
        assert_eq!(ip_packet(LinkType(9), &[0xc0, 0x21, 1]), None);
        assert_eq!(ip_packet(LinkType(147), PACKET), None);
        assert!(!is_known(LinkType(147)));
    }
}
