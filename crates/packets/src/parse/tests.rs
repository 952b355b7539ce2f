use super::*;
use crate::synthetic::{Conversation, ip_packet};

fn addresses(version: u8) -> (SocketAddr, SocketAddr) {
    let pair = match version {
        4 => ("10.0.0.1:1025", "10.0.0.2:80"),
        _ => ("[fd00::1]:1025", "[fd00::2]:80"),
    };
    (pair.0.parse().unwrap(), pair.1.parse().unwrap())
}

fn plain(version: u8, payload: u16) -> Vec<u8> {
    let (client, server) = addresses(version);
    Conversation::new(client, server, (1, 2))
        .up(Flags::ACK, payload)
        .ip_packet()
}

fn parsed(packet: &[u8]) -> IpPacket {
    match Parsed::parse(packet, packet.len() as u32) {
        Parsed::Ip(ip) => ip,
        other => panic!("{other:?}"),
    }
}

fn tcp(packet: &[u8]) -> Segment {
    match parsed(packet).transport {
        Transport::Tcp(segment) => segment,
        other => panic!("{other:?}"),
    }
}

/// Inserts extension headers between the IPv6 header and its content.
fn extended(packet: &[u8], first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[6] = first;
    let length = u16::from_be_bytes([packet[4], packet[5]]) + extensions.len() as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet.splice(40..40, extensions.iter().copied());
    packet
}

#[test]
fn both_versions_give_addresses_ports_and_lengths() {
    for (version, headers) in [(4, 20), (6, 40)] {
        let packet = plain(version, 100);
        let ip = parsed(&packet);
        let (client, server) = addresses(version);
        assert_eq!(SocketAddr::from(ip.source), client);
        assert_eq!(SocketAddr::from(ip.destination), server);
        assert_eq!((ip.header_length, ip.length), (headers, headers + 120));
        let segment = tcp(&packet);
        assert_eq!((segment.sequence, segment.acknowledgement), (1, 2));
        assert_eq!((segment.header_length, segment.payload_length), (20, 100));
        assert_eq!((segment.flags, segment.window), (Flags::ACK, 8_760));
    }
}

#[test]
fn lengths_come_from_headers_not_from_what_was_kept() {
    let mut packet = plain(4, 1_000);
    let whole = tcp(&packet);
    // Link-layer padding after the packet does not count.
    packet.extend([0; 6]);
    assert_eq!(tcp(&packet), whole);
    // The header must be captured up to its window field.
    assert_eq!(tcp(&packet[..36]), whole);
    assert_eq!(parsed(&packet[..35]).transport, Transport::MalformedTcp);
    assert_eq!(Parsed::parse(&packet[..19], 1_040), Parsed::Malformed);
}

#[test]
fn a_packet_that_the_interface_segments_has_its_length_on_the_link() {
    for version in [4, 6] {
        let mut packet = plain(version, 2_000);
        let length = if version == 4 { 2 } else { 4 };
        packet[length..length + 2].fill(0);
        assert_eq!(tcp(&packet).payload_length, 2_000);
    }
}

#[test]
fn options_of_ipv4_are_header() {
    let mut packet = plain(4, 10);
    packet[0] = 0x46;
    packet[3] += 4;
    packet.splice(20..20, [1, 1, 1, 0]);
    let ip = parsed(&packet);
    assert_eq!((ip.header_length, ip.length), (24, 54));
    assert_eq!(tcp(&packet).payload_length, 10);
    packet[0] = 0x44;
    assert_eq!(Parsed::parse(&packet, 54), Parsed::Malformed);
}

#[test]
fn fragments_are_fragments_first_and_last() {
    for (more, offset) in [(0x20, 0), (0x20, 5), (0, 5)] {
        let mut packet = plain(4, 10);
        packet[6..8].copy_from_slice(&[more, offset]);
        assert_eq!(parsed(&packet).transport, Transport::Fragment);
    }
    let packet = plain(6, 10);
    for (bits, fragment) in [(0x0001u16, true), (0x0008, true), (0x0006, false)] {
        let [high, low] = bits.to_be_bytes();
        let packet = extended(&packet, 44, &[6, 0, high, low, 0, 0, 0, 9]);
        assert_eq!(parsed(&packet).transport == Transport::Fragment, fragment);
        if !fragment {
            assert_eq!(tcp(&packet).payload_length, 10);
            assert_eq!(parsed(&packet).header_length, 48);
        }
    }
}

#[test]
fn extension_headers_are_walked() {
    let extensions = [
        &[60u8, 0, 1, 4, 0, 0, 0, 0][..],
        &[51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[6, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
    ]
    .concat();
    let packet = extended(&plain(6, 10), 0, &extensions);
    let ip = parsed(&packet);
    assert_eq!(ip.header_length, 80);
    assert_eq!(tcp(&packet).payload_length, 10);
    for cut in 40..packet.len() {
        let _ = Parsed::parse(&packet[..cut], packet.len() as u32);
    }
}

#[test]
fn options_of_tcp_are_understood() {
    let options = |bytes: &[u8]| tcp_options(bytes);
    let syn = options(&[
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ]);
    assert_eq!(
        syn,
        TcpOptions {
            maximum_segment_size: Some(1_460),
            window_scale: Some(7),
            sack_permitted: true,
            sack_blocks: 0,
            timestamps: true,
        }
    );
    assert!(options(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0]).timestamps);
    assert_eq!(
        options(&[[1, 1, 5, 18].as_slice(), &[0; 16]].concat()).sack_blocks,
        2
    );
    assert_eq!(options(&[3, 3, 200]).window_scale, Some(14));
    // The end of the list, an invalid option or truncation stops the parser.
    for bytes in [&[0, 4, 2][..], &[4, 0], &[4, 1], &[8, 10, 0], &[2]] {
        assert_eq!(options(bytes), TcpOptions::default());
    }
}

#[test]
fn an_invalid_tcp_header_is_counted_separately() {
    for offset in [0x40, 0xf0] {
        let mut packet = plain(4, 10);
        packet[32] = offset;
        assert_eq!(parsed(&packet).transport, Transport::MalformedTcp);
    }
}

#[test]
fn other_protocols_are_named() {
    let (client, server) = addresses(4);
    let transport = |protocol| parsed(&ip_packet(client, server, protocol, &[0; 8])).transport;
    assert_eq!(transport(17), Transport::Udp);
    assert_eq!(transport(1), Transport::Icmp(IcmpKind::Reply));
    assert_eq!(transport(47), Transport::Other);
}
