use std::net::SocketAddr;

use fathometer_model::Bytes;
use proptest::prelude::*;

use super::parse::Flags;
use super::summary::{PacketSummary, Repetitions};
use super::synthetic::{CaptureWriter, Conversation, SegmentPlan, ip_packet};
use super::time_sequence::{MarkKind, SegmentKind};
use super::*;

const ACK: Flags = Flags::ACK;
const FIN_ACK: Flags = Flags(0x11);
const MS: u64 = 1_000_000;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn conversation(initial: (u32, u32)) -> Conversation {
    Conversation::new(address("10.0.0.1:1025"), address("10.0.0.2:80"), initial)
}

/// Builds a capture at one tap from packets with times in milliseconds.
fn capture(packets: &[(u64, SegmentPlan)]) -> Vec<u8> {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 101)]);
    for (time, plan) in packets {
        writer.packet(0, time * MS, &plan.ip_packet(), None);
    }
    writer.into_bytes()
}

fn accounted(packets: &[(u64, SegmentPlan)]) -> Accounting {
    account(&capture(packets)[..], &Options::default()).unwrap()
}

/// Opens a connection with segments at 0, 90 and 90 ms: the client's view of a path with a round-trip time of 90 ms.
fn opened(conversation: &mut Conversation) -> Vec<(u64, SegmentPlan)> {
    let [syn, syn_ack, ack] = conversation.open();
    vec![(0, syn), (90, syn_ack), (90, ack)]
}

/// Builds one page over one connection that both sides close; the server's sequence numbers wrap around.
fn page() -> Vec<(u64, SegmentPlan)> {
    let mut talk = conversation((1_000, u32::MAX - 2_000));
    let mut packets = opened(&mut talk);
    packets.push((91, talk.up(ACK | Flags::PSH, 300)));
    packets.push((190, talk.down(ACK, 1_460)));
    packets.push((191, talk.down(ACK, 1_460)));
    packets.push((192, talk.up(ACK, 0)));
    packets.push((282, talk.down(FIN_ACK, 500)));
    packets.push((283, talk.up(ACK, 0)));
    packets.push((284, talk.up(FIN_ACK, 0)));
    packets.push((374, talk.down(ACK, 0)));
    packets
}

#[test]
fn a_page_is_accounted_for_to_the_byte() {
    let accounting = accounted(&page());
    assert_eq!(accounting.packets(), 11);
    let of = |class| accounting.classes.of(class);
    assert_eq!(of(Class::Syn), 1);
    assert_eq!(of(Class::SynAck), 1);
    assert_eq!(of(Class::PureAck), 4);
    assert_eq!(of(Class::Data), 3);
    assert_eq!(of(Class::DataFin), 1);
    assert_eq!(of(Class::BareFin), 1);
    assert_eq!(of(Class::Rst) + of(Class::Other), 0);
    assert_eq!((accounting.up.packets(), accounting.down.packets()), (6, 5));
    assert_eq!(accounting.up.payload_bytes, Bytes(300));
    assert_eq!(accounting.down.payload_bytes, Bytes(3_420));
    assert_eq!(accounting.down.unique_payload_bytes, Bytes(3_420));
    // 11 headers of 40 bytes, and the MSS option in two of them.
    assert_eq!(accounting.ip_bytes(), Bytes(3_720 + 11 * 40 + 8));
    let rule = 440.0 / 4_160.0;
    assert!((accounting.overhead_by_rule().unwrap() - rule).abs() < 1e-12);
    assert!((accounting.overhead().unwrap() - 448.0 / 4_168.0).abs() < 1e-12);
    assert_eq!(accounting.down.mss, Some(1_460));
    assert_eq!(accounting.down.outstanding_max, Bytes(2_920));

    assert_eq!(accounting.connections.len(), 1);
    let connection = accounting.connections.get(0).unwrap();
    assert_eq!(connection.client, address("10.0.0.1:1025"));
    assert_eq!(connection.ending, Ending::Closed);
    assert_eq!(connection.idle_max_ns, 99 * MS);
    // The SYN, the request (acknowledged by the response) and the FIN give a round-trip time of the path.
    let rtt = connection.up.rtt.unwrap();
    assert_eq!((rtt.samples, rtt.min_ns, rtt.max_ns), (3, 90 * MS, 99 * MS));
    assert_eq!(rtt.median_ns, 90e6);
    assert_eq!(accounting.trains.count, 1);
    assert_eq!(accounting.runs.longest, 11);
}

#[test]
fn idle_gaps_say_what_ended_them() {
    let accounting = accounted(&page());
    let gaps: Vec<(u64, u64)> = accounting
        .idle_gaps
        .iter()
        .map(|gap| (gap.start.as_nanos() / MS, gap.duration_ns / MS))
        .collect();
    assert_eq!(gaps, [(0, 90), (91, 99), (192, 90), (284, 90)]);
    let happening = |class, direction| PacketSummary {
        direction,
        class,
        retransmission: false,
    };
    assert_eq!(
        accounting.idle_gaps[2].after,
        happening(Class::PureAck, Direction::Up)
    );
    assert_eq!(
        accounting.idle_gaps[2].ended_by,
        happening(Class::DataFin, Direction::Down)
    );
}

#[test]
fn repetitions_and_reordering_are_told_apart() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    let first = talk.down(ACK, 1_000);
    let second = talk.down(ACK, 1_000);
    let third = talk.down(ACK, 1_000);
    packets.push((100, first.clone()));
    packets.push((101, third));
    packets.push((102, second));
    // Retransmissions: first half of the first segment, then the first segment with a part of the second segment.
    packets.push((
        300,
        SegmentPlan {
            payload: 500,
            ..first.clone()
        },
    ));
    packets.push((
        301,
        SegmentPlan {
            payload: 1_100,
            ..first
        },
    ));
    let accounting = accounted(&packets);
    let down = &accounting.down;
    assert_eq!(down.out_of_order_packets, 1);
    assert_eq!(down.retransmitted_packets, 2);
    assert_eq!(down.retransmitted_bytes, Bytes(1_600));
    assert_eq!(down.unique_payload_bytes, Bytes(3_000));
    assert_eq!(down.payload_bytes, Bytes(4_600));
    assert_eq!(accounting.connections.get(0).unwrap().ending, Ending::Open);
}

#[test]
fn by_karns_rule_a_repetition_gives_no_round_trip() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    let request = talk.up(ACK, 100);
    packets.push((100, request.clone()));
    packets.push((3_100, request));
    packets.push((3_150, talk.down(ACK, 0)));
    packets.push((3_160, talk.up(ACK, 100)));
    packets.push((3_250, talk.down(ACK, 0)));
    let rtt = accounted(&packets).up.rtt.unwrap();
    assert_eq!((rtt.samples, rtt.min_ns, rtt.max_ns), (2, 90 * MS, 90 * MS));
}

#[test]
fn an_acknowledgement_that_fills_a_hole_gives_no_round_trip() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    let lost = talk.up(ACK, 100);
    packets.push((100, lost.clone()));
    packets.push((101, talk.up(ACK, 100)));
    packets.push((300, lost));
    // The acknowledgement of this segment also fills the hole, so it gives no round-trip time.
    packets.push((301, talk.up(ACK, 100)));
    packets.push((390, talk.down(ACK, 0)));
    assert_eq!(accounted(&packets).up.rtt.unwrap().samples, 1);
}

#[test]
fn duplicate_acknowledgements_need_outstanding_data_and_the_same_window() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    let before = talk.up(ACK, 0);
    packets.push((95, before.clone()));
    packets.push((100, talk.down(ACK, 1_000)));
    packets.push((101, before.clone()));
    packets.push((102, before.clone()));
    packets.push((
        103,
        SegmentPlan {
            window: 9_000,
            ..before.clone()
        },
    ));
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2].to_vec();
    packets.push((
        104,
        SegmentPlan {
            window: 9_001,
            options: sack,
            ..before
        },
    ));
    assert_eq!(accounted(&packets).up.duplicate_acks, 3);
}

#[test]
fn keep_alives_and_window_probes_are_not_repetitions() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    packets.push((100, talk.down(ACK, 1_000)));
    packets.push((101, talk.up(ACK, 0)));
    let mut keep_alive = talk.down(ACK, 0);
    keep_alive.sequence = keep_alive.sequence.wrapping_sub(1);
    packets.push((5_000, keep_alive.clone()));
    packets.push((
        5_001,
        SegmentPlan {
            payload: 1,
            ..keep_alive.clone()
        },
    ));
    packets.push((
        5_002,
        SegmentPlan {
            window: 0,
            ..talk.up(ACK, 0)
        },
    ));
    packets.push((6_000, keep_alive));
    packets.push((
        7_000,
        SegmentPlan {
            payload: 1,
            ..talk.down(ACK, 0)
        },
    ));
    let accounting = accounted(&packets);
    assert_eq!(accounting.down.keep_alives, 2);
    assert_eq!(accounting.down.zero_window_probes, 2);
    assert_eq!(accounting.down.retransmitted_packets, 0);
    assert_eq!(accounting.down.unique_payload_bytes, Bytes(1_000));
    assert_eq!(accounting.up.zero_windows, 1);
    assert_eq!(accounting.up.window_min, Some(Bytes(0)));
}

#[test]
fn windows_are_scaled_only_when_both_sides_offered_it() {
    let offer = vec![2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2];
    for (server_offers, most) in [(true, 8_760 << 7), (false, 8_760)] {
        let mut talk = conversation((5, 9));
        talk.offer.clone_from(&offer);
        let mut packets = opened(&mut talk);
        if !server_offers {
            packets[1].1.options = vec![2, 4, 5, 0xb4];
        }
        packets.push((100, talk.up(ACK, 10)));
        let accounting = accounted(&packets);
        assert_eq!(accounting.up.window_max, Some(Bytes(most)));
        assert_eq!(accounting.up.window_scale, Some(7));
        assert!(accounting.up.sack_permitted);
    }
}

#[test]
fn a_new_syn_on_the_same_ports_is_another_connection() {
    let mut packets = page();
    let mut again = conversation((77, 99));
    packets.extend(
        opened(&mut again)
            .into_iter()
            .map(|(time, plan)| (time + 2_000, plan)),
    );
    // The retransmitted SYN belongs to the same connection.
    let syn = packets[11].1.clone();
    packets.push((2_500, syn));
    packets.push((2_600, again.down(Flags::RST | ACK, 0)));
    let accounting = accounted(&packets);
    assert_eq!(accounting.connections.len(), 2);
    assert_eq!(
        accounting.connections.get(0).unwrap().ending,
        Ending::Closed
    );
    assert_eq!(
        accounting.connections.get(1).unwrap().ending,
        Ending::Reset(Direction::Down)
    );
    assert_eq!(
        accounting
            .connections
            .get(1)
            .unwrap()
            .up
            .retransmitted_packets,
        1
    );
    assert_eq!(accounting.connections.get(1).unwrap().packets(), 5);
    assert_eq!(accounting.median_packets(), Some(8.0));
}

#[test]
fn a_reset_after_both_fins_does_not_unclose() {
    let mut packets = page();
    let mut reset = packets.last().unwrap().1.clone();
    reset.flags = Flags::RST;
    packets.push((400, reset));
    let accounting = accounted(&packets);
    assert_eq!(
        accounting.connections.get(0).unwrap().ending,
        Ending::Closed
    );
    assert_eq!(accounting.classes.of(Class::Rst), 1);
}

#[test]
fn a_connection_without_its_opening_goes_towards_the_lower_port() {
    let mut talk = conversation((5, 9));
    talk.open();
    let accounting = accounted(&[(0, talk.down(ACK, 100)), (1, talk.up(ACK, 0))]);
    let connection = accounting.connections.get(0).unwrap();
    assert_eq!(connection.server, address("10.0.0.2:80"));
    assert!(!connection.opening_seen);
    assert!(
        accounting
            .notes
            .iter()
            .any(|note| note.contains("opening of 1 "))
    );
}

#[test]
fn a_long_gap_separates_packet_trains() {
    let mut talk = conversation((5, 9));
    let mut packets = opened(&mut talk);
    packets.push((1_000, talk.up(ACK, 10)));
    packets.push((1_100, talk.down(ACK, 10)));
    let accounting = accounted(&packets);
    assert_eq!((accounting.trains.count, accounting.trains.longest), (2, 3));
    assert_eq!(accounting.trains.mean(), Some(2.5));
    assert_eq!(accounting.connections.get(0).unwrap().trains, 2);
}

/// Builds a capture at the path's four taps, 45 ms apart. The second of two responses is lost once and retransmitted
/// twice; the second retransmission is spurious. Two ACKs are lost.
fn four_taps() -> Vec<u8> {
    let mut talk = conversation((5, 9));
    let syn = talk.up(Flags::SYN, 0);
    let syn_ack = talk.down(Flags::SYN | ACK, 0);
    let ack = talk.up(ACK, 0);
    let request = talk.up(ACK, 100);
    let first = talk.down(ACK, 1_000);
    let second = talk.down(ACK, 1_000);
    let done = talk.up(ACK, 0);
    let full = Some("queue_packets=9 queue_bytes=9360 drop=queue-full");
    let sent = [
        (0, syn, None),
        (45, syn_ack, None),
        (90, ack, Some("drop=loss queue_packets=0")),
        (91, request, None),
        (140, first, None),
        (141, second.clone(), full),
        (350, second.clone(), None),
        (400, done.clone(), Some("drop=loss")),
        (650, second, None),
        (700, done, None),
    ];
    let mut packets = Vec::new();
    for (time, plan, comment) in sent {
        let up = plan.source == talk.client;
        let (enters, leaves) = if up { (0, 1) } else { (2, 3) };
        packets.push((time, enters, plan.ip_packet(), comment));
        if comment.is_none() {
            packets.push((time + 45, leaves, plan.ip_packet(), None));
        }
    }
    packets.sort_by_key(|packet| packet.0);
    let taps = ["client.tx", "server.rx", "server.tx", "client.rx"];
    let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, 101)));
    for (time, tap, packet, comment) in packets {
        writer.packet(tap, time * MS, &packet, comment);
    }
    writer.into_bytes()
}

#[test]
fn the_clients_side_is_counted_and_repetitions_are_explained() {
    let bytes = four_taps();
    let accounting = account(&bytes[..], &Options::default()).unwrap();
    // Five packets leave the client, including dropped packets; four packets arrive at the client.
    assert_eq!(accounting.packets(), 9);
    assert_eq!((accounting.up.packets(), accounting.down.packets()), (5, 4));
    // The second response arrives at the client twice; the server sent it three times.
    assert_eq!(accounting.down.retransmitted_packets, 1);
    let sent = accounting.sent.as_ref().unwrap();
    assert_eq!(sent.up, Repetitions::default());
    assert_eq!(sent.down.lost.get("queue-full"), Some(&1));
    assert_eq!(sent.down.spurious, 1);
    let causes: Vec<Option<&str>> = sent
        .repetitions
        .iter()
        .map(|repetition| repetition.cause.as_deref())
        .collect();
    assert_eq!(causes, [Some("queue-full"), None]);
    let metrics = accounting.metrics();
    assert_eq!(metrics["retransmissions"], 2.0);
    assert_eq!(metrics["retransmissions_lost"], 1.0);
    assert_eq!(metrics["drops"], 3.0);
    assert_eq!(metrics["drops_queue_full"], 1.0);
}

#[test]
fn the_servers_side_and_all_sides_count_otherwise() {
    let bytes = four_taps();
    let packets = |taps| {
        let options = Options {
            taps,
            ..Options::default()
        };
        let accounting = account(&bytes[..], &options).unwrap();
        assert_eq!(accounting.connections.len(), 1);
        (accounting.up.packets(), accounting.down.packets())
    };
    assert_eq!(packets(TapChoice::Server), (3, 5));
    assert_eq!(packets(TapChoice::All), (8, 9));
    assert_eq!(
        packets(TapChoice::Interface("server.rx".to_owned())),
        (3, 0)
    );
}

#[test]
fn a_drop_after_queueing_is_an_event_and_not_a_packet() {
    let taps = [
        "client.tx",
        "server.rx",
        "server.tx",
        "client.rx",
        "up.drop",
        "down.drop",
    ];
    let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, 101)));
    let mut talk = conversation((5, 9));
    for plan in talk.open() {
        let tap = if plan.source == talk.client { 0 } else { 2 };
        writer.packet(tap, 0, &plan.ip_packet(), Some("packet=0"));
    }
    let request = talk.up(ACK, 100).ip_packet();
    writer.packet(0, 10 * MS, &request, Some("packet=2 queue_packets=9"));
    writer.packet(
        4,
        30 * MS,
        &request,
        Some("packet=2 queue_packets=4 drop=codel"),
    );
    writer.packet(0, 300 * MS, &request, Some("packet=3"));
    writer.packet(0, 900 * MS, &request, Some("packet=4"));
    for (taps, packets) in [(TapChoice::Client, 5), (TapChoice::All, 6)] {
        let options = Options {
            taps,
            ..Options::default()
        };
        let accounting = account(writer.bytes(), &options).unwrap();
        assert_eq!(accounting.packets(), packets);
        let sent = accounting.sent.unwrap();
        assert_eq!(sent.up.lost.get("codel"), Some(&1));
        assert_eq!(sent.up.spurious, 1);
    }
}

#[test]
fn what_is_no_tcp_stands_in_the_partition_too() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 101)]);
    let (one, other) = (address("10.0.0.1:0"), address("10.0.0.2:0"));
    let tcp = conversation((1, 1)).up(Flags::SYN, 0).ip_packet();
    writer.packet(0, 0, &tcp, None);
    writer.packet(0, 1, &ip_packet(other, one, 17, &[0; 8]), None);
    writer.packet(0, 2, &ip_packet(one, other, 1, &[0; 8]), None);
    let mut fragment = tcp.clone();
    fragment[6] = 0x20;
    writer.packet(0, 3, &fragment, None);
    writer.packet(0, 4, &ip_packet(one, other, 6, &[0; 10]), None);
    writer.packet(
        0,
        5,
        &ip_packet(
            one,
            other,
            6,
            &[&tcp[20..32], &[0x50, 0, 0, 0, 0, 0, 0, 0]].concat(),
        ),
        None,
    );
    writer.packet(0, 6, &ip_packet(one, other, 132, &[0; 8]), None);
    writer.packet(0, 7, &[0x45, 0], None);
    let accounting = account(writer.bytes(), &Options::default()).unwrap();
    let other = accounting.other;
    assert_eq!((other.udp, other.icmp, other.fragments), (1, 1, 1));
    assert_eq!((other.odd_tcp, other.other_ip, other.malformed), (2, 1, 1));
    assert_eq!(accounting.classes.of(Class::Other), other.total());
    assert_eq!(accounting.packets(), 8);
    assert_eq!(accounting.connection_packets(), 1);
    // The UDP datagram goes to the host that opened the connection.
    assert_eq!((accounting.up.packets(), accounting.down.packets()), (6, 1));
    assert_eq!(accounting.undirected, 1);
}

#[test]
fn datagrams_go_up_or_down_by_flow_also_where_both_ends_are_one_host() {
    let datagram = |from: &str, to: &str| {
        let (from, to) = (address(from), address(to));
        let header = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        ip_packet(from, to, 17, &[&header[..], &[0, 8, 0, 0]].concat())
    };
    let directions = |packets: &[Vec<u8>]| {
        let mut writer = CaptureWriter::pcapng(&[("lo", 101)]);
        for (n, packet) in packets.iter().enumerate() {
            writer.packet(0, n as u64, packet, None);
        }
        let accounting = account(writer.bytes(), &Options::default()).unwrap();
        assert_eq!(accounting.undirected, 0);
        (accounting.up.packets(), accounting.down.packets())
    };
    for [client, server] in [
        ["127.0.0.1:4433", "127.0.0.1:50000"],
        ["127.0.0.1:50000", "127.0.0.1:4433"],
        ["[::1]:50000", "[::1]:4433"],
        ["10.0.0.1:50000", "10.0.0.2:4433"],
    ] {
        let mut packets = vec![datagram(client, server); 15];
        packets.extend(vec![datagram(server, client); 20]);
        assert_eq!(directions(&packets), (15, 20), "{client}");
    }
    // Two flows between the same hosts, opened from opposite sides.
    let packets = [
        datagram("10.0.0.1:50000", "10.0.0.2:53"),
        datagram("10.0.0.2:50000", "10.0.0.1:53"),
        datagram("10.0.0.2:53", "10.0.0.1:50000"),
    ];
    assert_eq!(directions(&packets), (2, 1));
    // The capture began after the query.
    let answer = datagram("10.0.0.2:53", "10.0.0.1:50000");
    assert_eq!(directions(&[answer]), (0, 1));
}

#[test]
fn echoes_of_a_host_to_itself_have_directions() {
    let loopback = address("127.0.0.1:0");
    let mut writer = CaptureWriter::pcapng(&[("lo", 101)]);
    for kind in [8, 0, 8, 0, 3] {
        let message = [kind, 0, 0, 0, 0, 0, 0, 0];
        writer.packet(0, 0, &ip_packet(loopback, loopback, 1, &message), None);
    }
    let accounting = account(writer.bytes(), &Options::default()).unwrap();
    assert_eq!((accounting.up.packets(), accounting.down.packets()), (3, 2));
    let is_noted = |note: &String| note.starts_with("1 packets go from a host to itself");
    assert!(
        accounting.notes.iter().any(is_noted),
        "{:?}",
        accounting.notes
    );
}

#[test]
fn a_capture_that_exceeds_the_memory_limit_is_refused() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 101)]);
    for n in 0..20_000u32 {
        let [high, middle, low, _] = (n << 8).to_be_bytes();
        let client = SocketAddr::from(([10, high, middle, low], 1_025));
        let mut talk = Conversation::new(client, address("10.255.0.1:80"), (n, 1));
        writer.packet(0, u64::from(n), &talk.up(Flags::SYN, 0).ip_packet(), None);
    }
    let within = |memory| {
        let options = Options {
            memory: Bytes(memory),
            ..Options::default()
        };
        account(writer.bytes(), &options)
    };
    assert_eq!(within(64 << 20).unwrap().connections.len(), 20_000);
    let error = within(4 << 20).unwrap_err();
    let CaptureError::Memory {
        packets,
        connections,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((packets, connections), (20_000, 20_000));
}

#[test]
fn many_holes_repeat_nothing() {
    // Half of the segments were not captured. Later segments fill the holes, and then one segment is repeated.
    let mut talk = conversation((1, 1));
    let mut packets = opened(&mut talk);
    let segments: Vec<SegmentPlan> = (0..8_000).map(|_| talk.down(ACK, 10)).collect();
    packets.extend(segments.iter().step_by(2).map(|plan| (100, plan.clone())));
    let late = segments.iter().skip(1).step_by(2);
    packets.extend(late.map(|plan| (200, plan.clone())));
    let accounting = accounted(&packets);
    assert_eq!(accounting.down.retransmitted_packets, 0);
    // The last segment is above all other segments, so it is new.
    assert_eq!(accounting.down.out_of_order_packets, 3_999);
    packets.push((300, segments[0].clone()));
    let accounting = accounted(&packets);
    assert_eq!(accounting.down.retransmitted_packets, 1);
    assert_eq!(accounting.down.unique_payload_bytes, Bytes(80_000));
}

#[test]
fn time_sequences_are_relative_to_the_syn() {
    let options = Options {
        time_sequences: 5,
        ..Options::default()
    };
    let mut packets = page();
    let repeated = packets[4].1.clone();
    packets.push((500, repeated));
    let (_, sequences) = account_with_sequences(&capture(&packets)[..], &options).unwrap();
    let [sequence] = &sequences[..] else {
        panic!("{} sequences", sequences.len());
    };
    let down = &sequence.down;
    let segments: Vec<(u64, u64, SegmentKind)> = down
        .segments
        .iter()
        .map(|s| (s.start, s.end, s.kind))
        .collect();
    assert_eq!(
        segments,
        [
            (0, 1, SegmentKind::New),
            (1, 1_461, SegmentKind::New),
            (1_461, 2_921, SegmentKind::New),
            (2_921, 3_422, SegmentKind::New),
            (1, 1_461, SegmentKind::Repeated),
        ]
    );
    let numbers: Vec<u64> = down.acknowledgements.iter().map(|point| point.1).collect();
    assert_eq!(numbers, [1, 1, 2_921, 3_422, 3_422]);
    assert_eq!(down.window_edges[2].1, 2_921 + 8_760);
    let marks: Vec<MarkKind> = down.marks.iter().map(|mark| mark.kind).collect();
    assert_eq!(marks, [MarkKind::Syn, MarkKind::Fin]);
    assert_eq!(down.end(), 3_422);
}

#[test]
fn drops_and_retransmissions_of_the_path_are_in_the_sequences_of_either_tap() {
    for taps in [TapChoice::Client, TapChoice::Server] {
        let options = Options {
            taps,
            time_sequences: 5,
            ..Options::default()
        };
        let (_, sequences) = account_with_sequences(&four_taps()[..], &options).unwrap();
        let sequence = &sequences[0];
        let name = |cause: u16| sequence.causes[usize::from(cause)].as_str();
        let down = &sequence.down;
        let drops: Vec<_> = down
            .drops
            .iter()
            .map(|d| (d.at.as_nanos() / MS, d.start, d.end, name(d.cause)))
            .collect();
        // Times count from the SYN.
        assert_eq!(drops, [(141, 1_001, 2_001, "queue-full")]);
        let repeats: Vec<_> = down
            .repeats
            .iter()
            .map(|r| (r.at.as_nanos() / MS, r.start, r.after.map(name)))
            .collect();
        assert_eq!(
            repeats,
            [(350, 1_001, Some("queue-full")), (650, 1_001, None)]
        );
        // Only acknowledgements were lost towards the server; they occupy no sequence numbers.
        assert!(sequence.up.drops.is_empty());
    }
}

#[test]
fn a_long_capture_is_merged_and_not_cut() {
    let mut talk = conversation((7, 9));
    let mut packets: Vec<(u64, SegmentPlan)> = Vec::new();
    for plan in talk.open() {
        packets.push((packets.len() as u64, plan));
    }
    for n in 0..2_000 {
        packets.push((10 + n, talk.down(ACK, 100)));
    }
    let options = Options {
        time_sequences: 1,
        time_sequence_points: 500,
        ..Options::default()
    };
    let (_, sequences) = account_with_sequences(&capture(&packets)[..], &options).unwrap();
    let down = &sequences[0].down;
    assert!(down.segments.len() <= 500, "{}", down.segments.len());
    assert!(down.merged.is_some());
    // 2000 segments of 100 bytes after the SYN: the last byte is included.
    assert_eq!(down.end(), 200_001);
    assert_eq!(
        down.segments.iter().map(|s| s.end - s.start).sum::<u64>(),
        200_001
    );
}

#[test]
fn the_accounting_goes_through_json_and_back() {
    let accounting = account(&four_taps()[..], &Options::default()).unwrap();
    let text = serde_json::to_string(&accounting).unwrap();
    let back: Accounting = serde_json::from_str(&text).unwrap();
    assert_eq!(back, accounting);
}

#[test]
fn the_metrics_sum_as_they_promise() {
    let metrics = account(&four_taps()[..], &Options::default())
        .unwrap()
        .metrics();
    let classes: f64 = Class::ALL
        .iter()
        .map(|class| metrics[&format!("packets_{}", class.metric())])
        .sum();
    assert_eq!(classes, metrics["packets"]);
    assert_eq!(
        metrics["packets_up"] + metrics["packets_down"],
        metrics["packets"]
    );
    assert_eq!(metrics["duration_s"], 0.7);
    assert_eq!(metrics["rtt_median_ms"], 92.0);
    assert!(metrics.values().all(|value| value.is_finite()));
}

#[test]
fn an_empty_capture_has_figures_too() {
    let accounting = account(CaptureWriter::pcapng(&[]).bytes(), &Options::default()).unwrap();
    assert_eq!(accounting.packets(), 0);
    assert_eq!(accounting.overhead(), None);
    assert!(accounting.metrics().values().all(|value| value.is_finite()));
    assert!(accounting.table("empty", true).contains("0 packets"));
}

#[test]
fn the_table_of_a_small_capture() {
    insta::assert_snapshot!(accounted(&page()).table("page.pcapng", true));
}

#[test]
fn the_table_of_a_capture_with_four_taps() {
    let accounting = account(&four_taps()[..], &Options::default()).unwrap();
    insta::assert_snapshot!(accounting.table("four-taps.pcapng", false));
}

/// Generates the segments of a random conversation.
fn arbitrary_segments() -> impl Strategy<Value = Vec<(bool, u8, u16, u32, u32, u16)>> {
    let sequence = prop_oneof![0u32..5_000, (u32::MAX - 5_000)..=u32::MAX, any::<u32>()];
    let segment = (
        any::<bool>(),
        any::<u8>(),
        prop_oneof![Just(0u16), Just(1), 0u16..2_000],
        sequence.clone(),
        sequence,
        any::<u16>(),
    );
    prop::collection::vec(segment, 0..80)
}

proptest! {
    #[test]
    fn any_segments_keep_the_sums(segments in arbitrary_segments()) {
        let talk = conversation((0, 0));
        let mut writer = CaptureWriter::pcapng(&[("client.tx", 101), ("server.tx", 101)]);
        let mut payload_bytes = 0;
        for (n, (up, flags, payload, sequence, acknowledgement, window)) in segments.iter().enumerate() {
            let (source, destination) = match up {
                true => (talk.client, talk.server),
                false => (talk.server, talk.client),
            };
            let plan = SegmentPlan {
                source,
                destination,
                sequence: *sequence,
                acknowledgement: *acknowledgement,
                flags: Flags(*flags),
                window: *window,
                options: Vec::new(),
                payload: *payload,
            };
            payload_bytes += u64::from(*payload);
            writer.packet(0, n as u64 * MS, &plan.ip_packet(), None);
        }
        let options = Options { time_sequences: 100, ..Options::default() };
        let (accounting, _) = account_with_sequences(writer.bytes(), &options).unwrap();
        prop_assert_eq!(accounting.packets(), segments.len() as u64);
        prop_assert_eq!(accounting.classes.of(Class::Other), accounting.other.total());
        prop_assert_eq!(accounting.payload_bytes(), Bytes(payload_bytes));
        for direction in Direction::BOTH {
            let figures = accounting.direction(direction);
            let parts = figures.unique_payload_bytes + figures.retransmitted_bytes;
            prop_assert!(parts <= figures.payload_bytes);
        }
        prop_assert_eq!(accounting.trains.packets, accounting.connection_packets());
        prop_assert_eq!(accounting.runs.packets, accounting.connection_packets());
        accounting.table("any", true);
    }

    #[test]
    fn no_input_causes_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        beginning in 0..3,
    ) {
        let mut file = match beginning {
            0 => CaptureWriter::pcap(1, false, false).into_bytes(),
            1 => CaptureWriter::pcapng(&[("client.tx", 1)]).into_bytes(),
            _ => Vec::new(),
        };
        file.extend(bytes);
        let _ = account(&file[..], &Options::default());
    }

    #[test]
    fn no_damage_to_a_capture_causes_a_panic(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = four_taps();
        for (place, value) in places {
            *place.get_mut(&mut bytes) = value;
        }
        let kept = cut.index(bytes.len() + 1);
        let options = Options { time_sequences: 100, ..Options::default() };
        let _ = account_with_sequences(&bytes[..kept], &options);
    }
}
