// tidy: long-file: one rule a test, with the builder of packets that all of them share.

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(200);
const CLOCK: DelayedAckClock = DelayedAckClock {
    tick: TICK,
    segments: 2,
};
const FULL: u32 = 1460;
const WINDOW: u16 = 8760;
/// The first octet of each side's data. The peer's numbers soon wrap around.
const HOST: u32 = 70_000;
const PEER: u32 = u32::MAX - 2000;

/// A packet to build: by default an empty ACK of the host to the peer in version 4.
#[derive(Debug, Clone)]
struct Packet {
    version: u8,
    from_host: bool,
    /// The host's port, by which connections differ.
    port: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    data: u32,
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// `host` and `peer` count octets from the first of each side.
fn from_host(host: u32, peer: u32) -> Packet {
    Packet {
        version: 4,
        from_host: true,
        port: 1024,
        sequence: HOST.wrapping_add(host),
        acknowledgement: PEER.wrapping_add(peer),
        flags: ACK,
        window: WINDOW,
        options: Vec::new(),
        data: 0,
    }
}

fn from_peer(peer: u32, host: u32) -> Packet {
    Packet {
        from_host: false,
        sequence: PEER.wrapping_add(peer),
        acknowledgement: HOST.wrapping_add(host),
        ..from_host(0, 0)
    }
}

impl Packet {
    fn data(self, data: u32) -> Packet {
        Packet { data, ..self }
    }

    fn flags(self, flags: u8) -> Packet {
        Packet { flags, ..self }
    }

    fn window(self, window: u16) -> Packet {
        Packet { window, ..self }
    }

    fn port(self, port: u16) -> Packet {
        Packet { port, ..self }
    }

    fn version(self, version: u8) -> Packet {
        Packet { version, ..self }
    }

    /// A SYN, whose number is the one before the first octet.
    fn syn(self, flags: u8, options: &[u8]) -> Packet {
        Packet {
            sequence: self.sequence.wrapping_sub(1),
            options: options.to_vec(),
            flags,
            ..self
        }
    }

    fn build(&self) -> Vec<u8> {
        let (host, peer) = ([self.port, 80], [80, self.port]);
        let ports = if self.from_host { host } else { peer };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = Vec::new();
        tcp.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.resize(tcp.len() + self.data as usize, b'x');
        let (source, destination) = if self.from_host { (1, 2) } else { (2, 1) };
        let mut packet = Vec::new();
        if self.version == 4 {
            packet.extend([0x45, 0]);
            packet.extend((20 + tcp.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            packet.extend([10, 0, 0, source, 10, 0, 0, destination]);
        } else {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, 64]);
            for last in [source, destination] {
                packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        }
        packet.extend(tcp);
        packet
    }
}

/// A host with its machine.
struct Lab {
    machine: DelayedAck,
    now: Instant,
}

impl Lab {
    fn new() -> Lab {
        let machine = DelayedAck::new(CLOCK, Seed(1997));
        let now = Instant::ZERO + machine.phase + Duration::from_millis(50);
        Lab { machine, now }
    }

    /// A host, 50 ms after a tick, that has connected with segments of 1460 octets.
    fn connected() -> Lab {
        let mut lab = Lab::new();
        lab.connect(1024, 4, &[2, 4, 5, 180]);
        lab
    }

    fn connect(&mut self, port: u16, version: u8, options: &[u8]) {
        let syn = from_host(0, 0).syn(SYN, options);
        self.passes(&syn.port(port).version(version));
        let answer = from_peer(0, 0).syn(SYN | ACK, options);
        self.gets(&answer.port(port).version(version));
        self.passes(&from_host(0, 0).port(port).version(version));
    }

    fn gets(&mut self, packet: &Packet) {
        assert!(!packet.from_host);
        self.machine.inbound(&packet.build());
    }

    /// The next full segment of the peer, and the kernel's acknowledgement.
    fn gets_full(&mut self, peer: u32) -> Packet {
        self.gets(&from_peer(peer, 0).data(FULL));
        from_host(0, peer + FULL)
    }

    #[track_caller]
    fn passes(&mut self, packet: &Packet) {
        let outbound = self.machine.outbound(self.now, &packet.build());
        assert_eq!(outbound, Outbound::Forward, "{packet:?}");
    }

    #[track_caller]
    fn is_held(&mut self, packet: &Packet) {
        let outbound = self.machine.outbound(self.now, &packet.build());
        assert_eq!(outbound, Outbound::Held, "{packet:?}");
    }

    /// Goes on to the next tick.
    fn tick(&mut self) {
        self.now = next_tick(self.now, self.machine.phase, TICK);
    }

    #[track_caller]
    fn releases(&mut self, packet: &Packet) {
        assert_eq!(
            self.machine.release(self.now).map(<[u8]>::to_vec),
            Some(packet.build())
        );
    }

    #[track_caller]
    fn releases_nothing(&mut self) {
        assert_eq!(self.machine.release(self.now), None);
    }

    #[track_caller]
    fn holds_nothing(&mut self) {
        assert_eq!((self.machine.held(), self.machine.next_due()), (0, None));
    }
}

#[test]
fn the_first_segment_is_acknowledged_at_the_next_tick() {
    for version in [4, 6] {
        let mut lab = Lab::new();
        lab.connect(1024, version, &[2, 4, 5, 180]);
        lab.gets(&from_peer(0, 0).data(FULL).version(version));
        let acknowledgement = from_host(0, FULL).version(version);
        lab.is_held(&acknowledgement);
        let tick = Instant::ZERO + lab.machine.phase + TICK;
        assert_eq!(lab.machine.next_due(), Some(tick));
        lab.now = Instant::from_nanos(tick.as_nanos() - 1);
        lab.releases_nothing();
        lab.now = tick;
        lab.releases(&acknowledgement);
        lab.releases_nothing();
        lab.holds_nothing();
    }
}

#[test]
fn the_second_full_segment_is_acknowledged_at_once() {
    let mut lab = Lab::connected();
    for pair in 0..5 {
        let first = lab.gets_full(2 * pair * FULL);
        lab.is_held(&first);
        let second = lab.gets_full((2 * pair + 1) * FULL);
        lab.passes(&second);
        lab.holds_nothing();
    }
}

#[test]
fn octets_count_even_when_the_program_has_not_read_yet() {
    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 2919).window(WINDOW - 2919));
    lab.passes(&from_host(0, 2920).window(WINDOW - 2920));
}

#[test]
fn an_acknowledgement_at_a_tick_begins_the_count_anew() {
    let mut lab = Lab::connected();
    let first = lab.gets_full(0);
    lab.is_held(&first);
    lab.tick();
    lab.releases(&first);
    let second = lab.gets_full(FULL);
    lab.is_held(&second);
    let third = lab.gets_full(2 * FULL);
    lab.passes(&third);
}

#[test]
fn two_small_segments_wait_and_the_later_acknowledgement_takes_the_place_of_the_earlier() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
    let due = lab.machine.next_due();
    lab.gets(&from_peer(100, 0).data(100));
    lab.is_held(&from_host(0, 200));
    assert_eq!(lab.machine.next_due(), due);
    lab.tick();
    lab.releases(&from_host(0, 200));
    lab.releases_nothing();
}

#[test]
fn data_carry_the_held_acknowledgement() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
    lab.passes(&from_host(0, 100).data(300).flags(ACK | PSH));
    lab.holds_nothing();
}

#[test]
fn data_that_say_less_do_not_take_the_place_of_what_is_held() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
    lab.passes(&from_host(0, 0).data(300));
    lab.passes(&from_host(300, 100).data(300).window(WINDOW - 1));
    lab.tick();
    lab.releases(&from_host(0, 100));
}

#[test]
fn an_acknowledgement_that_a_later_one_overtook_passes_and_changes_nothing() {
    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 200));
    lab.passes(&from_host(0, 100));
    lab.tick();
    lab.releases(&from_host(0, 200));
    lab.passes(&from_host(0, 0).data(10));
    lab.is_held(&from_host(10, 200 + 2 * FULL - 1));
}

#[test]
fn data_and_flags_never_wait() {
    let mut lab = Lab::connected();
    for flags in [ACK | PSH, ACK | FIN, ACK | ECE, ACK | SYN, 0] {
        lab.gets(&from_peer(0, 0).data(100));
        lab.passes(&from_host(0, 100).flags(flags));
    }
    lab.passes(&from_host(0, 100).data(1));
}

#[test]
fn the_third_packet_of_the_handshake_does_not_wait() {
    // `connect` asserts it at the side that connects; at the other side it is an inbound packet,
    // and SYN-ACK has acknowledged already.
    let mut lab = Lab::new();
    lab.gets(&from_peer(0, 0).syn(SYN, &[2, 4, 5, 180]));
    lab.passes(&from_host(0, 0).syn(SYN | ACK, &[2, 4, 5, 180]));
    lab.gets(&from_peer(0, 0));
    lab.gets(&from_peer(0, 0).data(200));
    lab.is_held(&from_host(0, 200));
}

#[test]
fn a_duplicate_acknowledgement_leaves_at_once_in_place_of_the_held_one() {
    let mut lab = Lab::connected();
    let first = lab.gets_full(0);
    lab.is_held(&first);
    for ahead in 2..5 {
        lab.gets(&from_peer(ahead * FULL, 0).data(FULL));
        lab.passes(&first);
        lab.holds_nothing();
    }
}

#[test]
fn a_segment_that_fills_a_gap_is_acknowledged_at_once() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(100, 0).data(100));
    lab.passes(&from_host(0, 0));
    lab.gets(&from_peer(0, 0).data(100));
    lab.passes(&from_host(0, 200));
    // Afterwards all is as before.
    lab.gets(&from_peer(200, 0).data(100));
    lab.is_held(&from_host(0, 300));
}

#[test]
fn all_that_lies_behind_gaps_is_acknowledged_at_once() {
    let mut lab = Lab::connected();
    for ahead in [100, 300] {
        lab.gets(&from_peer(ahead, 0).data(100));
        lab.passes(&from_host(0, 0));
    }
    lab.gets(&from_peer(0, 0).data(100));
    lab.passes(&from_host(0, 200));
    lab.gets(&from_peer(200, 0).data(100));
    lab.passes(&from_host(0, 400));
}

#[test]
fn an_acknowledgement_of_the_peer_that_overtook_its_data_makes_no_gap() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(100, 0));
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
}

#[test]
fn what_was_given_to_the_kernel_before_a_gap_waits_until_the_gap_is_answered() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.gets(&from_peer(200, 0).data(100));
    lab.is_held(&from_host(0, 100));
    lab.passes(&from_host(0, 100));
    lab.holds_nothing();
}

#[test]
fn the_acknowledgement_of_a_fin_leaves_at_once() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
    lab.gets(&from_peer(100, 0).flags(ACK | FIN));
    lab.passes(&from_host(0, 101));
    lab.holds_nothing();
}

#[test]
fn keep_alives_and_retransmissions_are_answered_at_once() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100));
    lab.tick();
    lab.releases(&from_host(0, 100));
    for again in [
        from_peer(99, 0),
        from_peer(99, 0).data(1),
        from_peer(0, 0).data(100),
    ] {
        lab.gets(&again);
        // The program has read meanwhile, so this is no exact repetition.
        lab.passes(&from_host(0, 100).window(WINDOW + 1));
        lab.gets(&again);
        lab.passes(&from_host(0, 100).window(WINDOW + 1));
    }
}

#[test]
fn a_probe_of_the_window_is_answered_at_once() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.is_held(&from_host(0, 100).window(0));
    lab.gets(&from_peer(100, 0).data(1));
    lab.passes(&from_host(0, 100).window(10));
    // Once answered, what follows waits again.
    lab.is_held(&from_host(0, 100).window(20));
}

#[test]
fn a_window_that_opens_by_two_segments_is_announced_at_once_and_one_that_opens_less_waits() {
    let mut lab = Lab::connected();
    lab.gets(&from_peer(0, 0).data(100));
    lab.passes(&from_host(0, 100).window(0).data(10));
    lab.is_held(&from_host(10, 100).window(2919));
    lab.passes(&from_host(10, 100).window(2920));
    lab.holds_nothing();
}

#[test]
fn half_the_receive_buffer_is_enough() {
    let mut lab = Lab::new();
    let syn = from_host(0, 0).syn(SYN, &[2, 4, 5, 180]);
    lab.passes(&syn.window(2000));
    lab.gets(&from_peer(0, 0).syn(SYN | ACK, &[2, 4, 5, 180]));
    lab.passes(&from_host(0, 0).window(2000));
    lab.gets(&from_peer(0, 0).data(999));
    lab.is_held(&from_host(0, 999).window(2000));
    lab.gets(&from_peer(999, 0).data(1));
    lab.passes(&from_host(0, 1000).window(2000));
}

#[test]
fn a_full_segment_is_the_smaller_offer_without_time_stamps() {
    let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
    let cases: [(Vec<u8>, Vec<u8>, u32); 5] = [
        (vec![2, 4, 5, 180], vec![2, 4, 4, 0], 1024),
        (vec![], vec![2, 4, 5, 180], 536),
        (
            [&[2, 4, 5, 180], &timestamps[..]].concat(),
            [&[1, 1], &timestamps[..], &[2, 4, 5, 180]].concat(),
            1448,
        ),
        (
            [&[2, 4, 5, 180], &timestamps[..]].concat(),
            vec![2, 4, 5, 180],
            1460,
        ),
        // What follows a broken option is not known.
        (vec![2, 4, 5, 180], vec![3, 0, 2, 4, 5, 180], 536),
    ];
    for (host, peer, full) in cases {
        let mut lab = Lab::new();
        lab.passes(&from_host(0, 0).syn(SYN, &host));
        lab.gets(&from_peer(0, 0).syn(SYN | ACK, &peer));
        lab.passes(&from_host(0, 0));
        lab.gets(&from_peer(0, 0).data(2 * full - 1));
        lab.is_held(&from_host(0, 2 * full - 1));
        lab.gets(&from_peer(2 * full - 1, 0).data(1));
        lab.passes(&from_host(0, 2 * full));
    }
}

#[test]
fn windows_are_scaled_when_both_sides_offer_it() {
    for (peer_offers, at_once) in [(true, true), (false, false)] {
        let mut lab = Lab::new();
        let offer = [2, 4, 5, 180, 3, 3, 7];
        lab.passes(&from_host(0, 0).syn(SYN, &offer));
        let answer = if peer_offers { &offer[..] } else { &offer[..4] };
        lab.gets(&from_peer(0, 0).syn(SYN | ACK, answer));
        lab.passes(&from_host(0, 0).window(100));
        // 23 more is 2944 octets more when scaled.
        if at_once {
            lab.passes(&from_host(0, 0).window(123));
        } else {
            lab.is_held(&from_host(0, 0).window(123));
        }
    }
}

#[test]
fn connections_share_the_tick_and_leave_in_the_order_of_holding() {
    let mut lab = Lab::connected();
    lab.connect(1025, 6, &[2, 4, 5, 180]);
    lab.connect(1026, 4, &[2, 4, 5, 180]);
    let first = from_host(0, 100).port(1026);
    let second = from_host(0, 100).port(1024);
    let third = from_host(0, 100).port(1025).version(6);
    lab.is_held(&first);
    lab.is_held(&second);
    lab.now += Duration::from_millis(149);
    lab.is_held(&third);
    // Replaced, it keeps its turn.
    let first = from_host(0, 150).port(1026);
    lab.is_held(&first);
    assert_eq!(lab.machine.held(), 3);
    lab.now += Duration::from_millis(1);
    lab.releases(&first);
    lab.releases(&second);
    lab.releases(&third);
    lab.releases_nothing();
}

#[test]
fn what_comes_at_a_tick_waits_for_the_next() {
    let mut lab = Lab::connected();
    lab.tick();
    lab.is_held(&from_host(0, 100));
    assert_eq!(lab.machine.next_due(), Some(lab.now + TICK));
}

#[test]
fn a_reset_ends_what_is_held() {
    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 100));
    // Outside the window the kernel does not believe it.
    lab.gets(&from_peer(20_000, 0).flags(RST));
    assert_eq!(lab.machine.held(), 1);
    lab.gets(&from_peer(100, 0).flags(RST));
    lab.holds_nothing();

    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 100));
    lab.passes(&from_host(0, 100).flags(RST | ACK));
    lab.holds_nothing();
    assert!(lab.machine.connections.is_empty());
}

#[test]
fn a_connection_is_forgotten_when_both_fins_are_acknowledged() {
    for host_is_first in [true, false] {
        let mut lab = Lab::connected();
        let host_finishes = |lab: &mut Lab, peer| {
            lab.passes(&from_host(0, peer).flags(ACK | FIN));
            assert_eq!(lab.machine.connections.len(), 1);
            lab.gets(&from_peer(peer, 1));
        };
        let peer_finishes = |lab: &mut Lab, host| {
            lab.gets(&from_peer(0, host).flags(ACK | FIN));
            assert_eq!(lab.machine.connections.len(), 1);
            lab.passes(&from_host(host, 1));
        };
        if host_is_first {
            host_finishes(&mut lab, 0);
            peer_finishes(&mut lab, 1);
        } else {
            peer_finishes(&mut lab, 0);
            host_finishes(&mut lab, 1);
        }
        assert!(lab.machine.connections.is_empty() && lab.machine.ages.is_empty());
        // The kernel's answer to the FIN sent again is nobody's any more.
        lab.passes(&from_host(1, 1));
    }
}

#[test]
fn data_still_wait_after_the_host_has_finished() {
    let mut lab = Lab::connected();
    lab.passes(&from_host(0, 0).flags(ACK | FIN));
    lab.gets(&from_peer(0, 1).data(100));
    lab.is_held(&from_host(1, 100));
}

#[test]
fn the_oldest_connection_gives_way_and_what_it_held_leaves_at_once() {
    let mut lab = Lab::new();
    lab.machine.bound = 2;
    for port in [1024, 1025] {
        lab.connect(port, 4, &[2, 4, 5, 180]);
        lab.is_held(&from_host(0, 100).port(port));
    }
    lab.connect(1026, 4, &[2, 4, 5, 180]);
    assert_eq!(lab.machine.next_due(), Some(lab.now));
    lab.releases(&from_host(0, 100).port(1024));
    lab.releases_nothing();
    // Unknown now, it passes.
    lab.passes(&from_host(0, 200).port(1024));
    lab.tick();
    lab.releases(&from_host(0, 100).port(1025));
    lab.holds_nothing();
}

#[test]
fn a_port_used_again_is_a_new_connection() {
    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 100));
    // The same SYN again is not.
    lab.passes(&from_host(0, 0).syn(SYN, &[2, 4, 5, 180]));
    lab.gets(&from_peer(0, 0).syn(SYN | ACK, &[2, 4, 5, 180]));
    assert_eq!(lab.machine.held(), 1);
    lab.passes(&from_host(500, 0).syn(SYN, &[2, 4, 5, 180]));
    lab.holds_nothing();
    lab.gets(&from_peer(900, 500).syn(SYN | ACK, &[2, 4, 5, 180]));
    lab.passes(&from_host(500, 900));
    lab.gets(&from_peer(900, 500).data(100));
    lab.is_held(&from_host(500, 1000));
}

#[test]
fn connections_that_began_unseen_pass() {
    let mut lab = Lab::new();
    lab.gets(&from_peer(0, 0).data(100));
    lab.passes(&from_host(0, 100));
    assert!(lab.machine.connections.is_empty());
}

#[test]
fn what_is_not_understood_passes() {
    for version in [4, 6] {
        let mut lab = Lab::new();
        lab.connect(1024, version, &[2, 4, 5, 180]);
        let whole = from_host(0, 100).version(version).build();
        let mut strange = Vec::new();
        strange.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
        let changed = |at: usize, value: u8| {
            let mut packet = whole.clone();
            packet[at] = value;
            packet
        };
        strange.push(changed(0, 0x50));
        if version == 4 {
            // No header length, UDP, more fragments, an offset, a data offset too small, too large.
            strange.extend([changed(0, 0x44), changed(9, 17)]);
            strange.extend([changed(6, 0x20), changed(7, 1)]);
            strange.extend([changed(32, 0x40), changed(32, 0x60)]);
        } else {
            // An extension header, a jumbogram, a data offset too small, too large.
            strange.extend([changed(6, 44), changed(5, 0)]);
            strange.extend([changed(52, 0x40), changed(52, 0x60)]);
        }
        for packet in &strange {
            assert_eq!(lab.machine.outbound(lab.now, packet), Outbound::Forward);
        }
        assert_eq!(lab.machine.outbound(lab.now, &whole), Outbound::Held);
    }
}

#[test]
fn the_clock_is_read_from_text() {
    let read = |text: &str| toml::from_str::<DelayedAckClock>(text);
    assert_eq!(read("tick = '200ms'\nsegments = 2").unwrap(), CLOCK);
    for wrong in [
        "tick = '200ms'",
        "tick = 200\nsegments = 2",
        "tick = '0ms'\nsegments = 2",
        "tick = '200ms'\nsegments = 0",
        "tick = '200ms'\nsegments = 2\nphase = '1ms'",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let text = serde_json::to_string(&CLOCK).unwrap();
    assert_eq!(text, r#"{"tick":"200ms","segments":2}"#);
}

#[test]
fn the_phase_lies_within_a_tick_and_is_the_seeds_own() {
    let phase = |seed| DelayedAck::new(CLOCK, Seed(seed)).phase;
    let mut early = 0;
    for seed in 0..1000 {
        assert!(phase(seed) < TICK && phase(seed) == phase(seed));
        early += u32::from(phase(seed) < TICK / 2);
    }
    // Binomial with 1000 and 1/2: six standard deviations.
    assert!((405..=595).contains(&early), "{early} of 1000");
    let shown = format!("{:?}", DelayedAck::new(CLOCK, Seed(1)));
    assert!(shown.contains(&format!("phase: {:?}", phase(1))), "{shown}");
}

#[test]
fn an_acknowledgement_held_at_a_random_time_waits_half_a_tick_on_average() {
    let mut machine = DelayedAck::new(CLOCK, Seed(3));
    let mut waited = Duration::ZERO;
    for n in 0..1000u32 {
        let port = 1024 + n as u16;
        // 7.3 ms apart: every part of the tick is met as often.
        let now = Instant::ZERO + Duration::from_micros(7300) * n;
        while machine.release(now).is_some() {}
        for (from_peer, packet) in [
            (false, from_host(0, 0).syn(SYN, &[])),
            (true, from_peer(0, 0).syn(SYN | ACK, &[])),
            (false, from_host(0, 0)),
            (false, from_host(0, 10)),
        ] {
            let packet = packet.port(port).build();
            if from_peer {
                machine.inbound(&packet);
            } else {
                machine.outbound(now, &packet);
            }
        }
        let last = machine.waiting.last_key_value().unwrap().1.0;
        waited += last - now;
    }
    let mean = waited / 1000;
    assert!((mean.as_millis() as i64 - 100).abs() < 3, "{mean:?}");
}

/// What happens in a conversation.
#[derive(Debug, Clone)]
enum Step {
    Wait(u16),
    /// The peer sends octets that arrive, or are lost at first.
    PeerSends(u16, bool),
    /// The peer sends again all that was sent after the last octet without a gap, or before it.
    PeerRepeats,
    PeerProbes,
    PeerFinishes,
    HostSends(u16),
    /// The program at the host reads, and a window that was closed opens.
    HostReads,
    HostFinishes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..120u16).prop_map(Step::Wait),
        6 => (prop_oneof![1..FULL as u16, Just(FULL as u16)], prop::bool::weighted(0.85))
            .prop_map(|(length, arrives)| Step::PeerSends(length, arrives)),
        2 => Just(Step::PeerRepeats),
        1 => Just(Step::PeerProbes),
        1 => Just(Step::PeerFinishes),
        2 => (1..FULL as u16).prop_map(Step::HostSends),
        2 => Just(Step::HostReads),
        1 => Just(Step::HostFinishes),
    ]
}

/// A kernel that acknowledges every segment at once, with its peer. Octets count from the first.
#[derive(Debug, Default)]
struct Kernel {
    received: u32,
    read: u32,
    /// The right edge that was announced last.
    edge: u32,
    sent: u32,
    finished: bool,
    /// What the peer sent: first octet, length, whether it carries FIN, whether it has arrived.
    segments: Vec<(u32, u32, bool, bool)>,
    peer_sent: u32,
    peer_finished: bool,
}

impl Kernel {
    fn packet(&mut self) -> Packet {
        self.edge = self.edge.max(self.read + u32::from(WINDOW));
        from_host(self.sent, self.received).window(self.edge.saturating_sub(self.received) as u16)
    }

    fn arrives(&mut self, index: usize) -> [Packet; 2] {
        self.segments[index].3 = true;
        while let Some(next) = self
            .segments
            .iter()
            .find(|segment| segment.0 == self.received && segment.3 && segment.1 > 0)
        {
            self.received += next.1;
        }
        let (first, length, fin, _) = self.segments[index];
        let flags = if fin { ACK | FIN } else { ACK };
        let sent = from_peer(first, self.sent).data(length - u32::from(fin));
        [sent.flags(flags), self.packet()]
    }

    /// The packets of a step, in order.
    fn step(&mut self, step: &Step) -> Vec<Packet> {
        match *step {
            Step::Wait(_) => Vec::new(),
            Step::PeerSends(length, arrives) => {
                let length = u32::from(length);
                let room = (self.received + u32::from(WINDOW)).min(self.edge);
                if self.peer_finished || self.peer_sent + length > room {
                    return Vec::new();
                }
                self.segments.push((self.peer_sent, length, false, false));
                self.peer_sent += length;
                if arrives {
                    self.arrives(self.segments.len() - 1).to_vec()
                } else {
                    Vec::new()
                }
            }
            Step::PeerRepeats => {
                let missing = self.segments.iter().position(|segment| !segment.3);
                let again = missing.or(self.segments.len().checked_sub(1));
                again.map_or(Vec::new(), |index| self.arrives(index).to_vec())
            }
            Step::PeerProbes => {
                let probe = from_peer(self.received, self.sent);
                let sequence = probe.sequence.wrapping_sub(1);
                vec![Packet { sequence, ..probe }, self.packet()]
            }
            Step::PeerFinishes => {
                if mem::replace(&mut self.peer_finished, true) {
                    return Vec::new();
                }
                self.segments.push((self.peer_sent, 1, true, false));
                self.peer_sent += 1;
                self.arrives(self.segments.len() - 1).to_vec()
            }
            Step::HostSends(length) => {
                if self.finished {
                    return Vec::new();
                }
                let packet = self.packet().data(u32::from(length));
                self.sent += u32::from(length);
                vec![packet]
            }
            Step::HostReads => {
                let closed = 2 * self.edge.saturating_sub(self.received) <= u32::from(WINDOW);
                self.read = self.received;
                if closed {
                    vec![self.packet()]
                } else {
                    Vec::new()
                }
            }
            Step::HostFinishes => {
                if mem::replace(&mut self.finished, true) {
                    return Vec::new();
                }
                let packet = self.packet().flags(ACK | FIN);
                self.sent += 1;
                // The peer acknowledges it.
                vec![packet, from_peer(self.peer_sent, self.sent)]
            }
        }
    }
}

/// What was seen of a conversation of several connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// What the kernel gave: when, which connection, octets.
    given: Vec<(Instant, usize, Vec<u8>)>,
    /// What left.
    left: Vec<(Instant, usize, Vec<u8>)>,
}

fn converse(seed: u64, steps: &[(usize, Step)]) -> Seen {
    let mut machine = DelayedAck::new(CLOCK, Seed(seed));
    let mut seen = Seen::default();
    let mut now = Instant::ZERO;
    let version = |connection: usize| if connection == 2 { 6 } else { 4 };
    let port = |connection: usize| 1024 + connection as u16;
    let connection_of = |packet: &[u8]| {
        let tcp = if packet[0] >> 4 == 4 { 20 } else { 40 };
        usize::from(u16::from_be_bytes([packet[tcp], packet[tcp + 1]]) - 1024)
    };
    let give = |machine: &mut DelayedAck, seen: &mut Seen, now, packet: Packet, connection| {
        let packet = packet.port(port(connection)).version(version(connection));
        let mut octets = packet.build();
        if !packet.from_host {
            machine.inbound(&octets);
            return;
        }
        // A number of its own, as identification or in the flow label: no two are the same.
        let number = (seen.given.len() as u16).to_be_bytes();
        let at = if packet.version == 4 { 4 } else { 2 };
        octets[at..at + 2].copy_from_slice(&number);
        seen.given.push((now, connection, octets.clone()));
        if machine.outbound(now, &octets) == Outbound::Forward {
            seen.left.push((now, connection, octets));
        }
    };
    let options = [2, 4, 5, 180];
    let mut kernels: [Kernel; 3] = Default::default();
    for (connection, kernel) in kernels.iter_mut().enumerate() {
        let syn = from_host(0, 0).syn(SYN, &options);
        let answer = from_peer(0, 0).syn(SYN | ACK, &options);
        for packet in [syn, answer, kernel.packet()] {
            give(&mut machine, &mut seen, now, packet, connection);
        }
    }
    let end = (0, Step::Wait(200));
    for (connection, step) in steps.iter().chain([&end]) {
        if let Step::Wait(millis) = step {
            let until = now + Duration::from_millis(u64::from(*millis));
            while let Some(due) = machine.next_due().filter(|due| *due <= until) {
                let packet = machine.release(due).expect("something is due").to_vec();
                let connection = connection_of(&packet);
                seen.left.push((due, connection, packet));
            }
            now = until;
        }
        for packet in kernels[*connection].step(step) {
            give(&mut machine, &mut seen, now, packet, *connection);
        }
    }
    assert_eq!(machine.held(), 0);
    seen
}

proptest! {
    #[test]
    fn acknowledgements_are_conserved_and_reach_the_peer_within_one_tick(
        seed: u64,
        steps in prop::collection::vec((0..3usize, step()), 0..120),
    ) {
        let seen = converse(seed, &steps);
        for connection in 0..3 {
            let of = |packets: &[(Instant, usize, Vec<u8>)]| -> Vec<(Instant, Vec<u8>)> {
                let own = packets.iter().filter(|packet| packet.1 == connection);
                own.map(|(at, _, octets)| (*at, octets.clone())).collect()
            };
            let (given, left) = (of(&seen.given), of(&seen.left));
            // What leaves is what was given, in that order, nothing twice.
            let mut next = 0;
            let mut origins = Vec::new();
            for (at, octets) in &left {
                let found = given[next..].iter().position(|packet| packet.1 == *octets);
                prop_assert!(found.is_some(), "at {at:?} left what was not given, or late");
                next += found.unwrap() + 1;
                origins.push(next - 1);
            }
            for (number, (at, octets)) in given.iter().enumerate() {
                let packet = Segment::parse(octets).unwrap();
                let settled = left.iter().zip(&origins).find(|(_, origin)| **origin >= number);
                prop_assert!(settled.is_some(), "{packet:?} is lost");
                let ((when, _), origin) = settled.unwrap();
                // A given number leaves itself, or a later packet that says as much; in time.
                prop_assert!(*when <= *at + TICK, "{packet:?} waits too long");
                if !packet.is_pure_ack {
                    prop_assert_eq!(*origin, number);
                    prop_assert_eq!(*when, *at);
                }
                let settling = Segment::parse(&given[*origin].1).unwrap();
                if let Some(acknowledgement) = packet.acknowledgement {
                    prop_assert!(settling.acknowledgement.unwrap().wrapping_sub(acknowledgement) < 1 << 31);
                }
            }
        }
    }

    #[test]
    fn the_same_seed_and_packets_give_the_same(
        seed: u64,
        steps in prop::collection::vec((0..3usize, step()), 0..60),
    ) {
        prop_assert_eq!(converse(seed, &steps), converse(seed, &steps));
    }

    #[test]
    fn no_octets_make_it_fail(
        packets in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..80), 0..4usize, any::<u16>()),
            0..40,
        ),
    ) {
        let mut lab = Lab::connected();
        lab.connect(1024, 6, &[2, 4, 5, 180]);
        let mut given = 0;
        for (inbound, mut octets, shape, flags) in packets {
            // Random octets alone are hardly ever TCP: most begin like it.
            let [low, high] = flags.to_le_bytes();
            let like = match shape {
                0 => Vec::new(),
                1 => from_host(0, 100).flags(low).build(),
                2 => from_host(0, 100).flags(ACK).version(6).build(),
                _ => from_peer(0, 0).flags(low).data(u32::from(high)).build(),
            };
            let keep = like.len().saturating_sub(usize::from(high) % 24);
            octets.splice(..0, like[..keep].iter().copied());
            if inbound {
                lab.machine.inbound(&octets);
            } else {
                given += usize::from(lab.machine.outbound(lab.now, &octets) == Outbound::Held);
            }
        }
        lab.tick();
        let mut released = 0;
        while lab.machine.release(lab.now).is_some() {
            released += 1;
        }
        prop_assert!(released <= given);
        lab.holds_nothing();
    }
}
