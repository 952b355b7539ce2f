//! Random conversations: no packet is lost or late, and no input bytes cause a panic.

use proptest::prelude::*;

use super::packets::*;
use super::*;

/// An event in a conversation.
#[derive(Debug, Clone)]
enum Step {
    Wait(u16),
    /// The peer sends a number of bytes; the flag states whether they arrive or are lost at first.
    PeerSends(u16, bool),
    /// The peer retransmits its first segment that has not arrived, or else its last segment.
    PeerRepeats,
    PeerProbes,
    PeerFinishes,
    HostSends(u16),
    /// The application at the host reads, and a closed window opens.
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

/// A model of a kernel that acknowledges every segment at once, and of its peer. Byte numbers start at 0.
#[derive(Debug, Default)]
struct Kernel {
    received: u32,
    read: u32,
    /// The right edge that was advertised last.
    edge: u32,
    sent: u32,
    finished: bool,
    /// The peer's segments: first byte, length, whether it carries FIN, whether it has arrived.
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

    /// Returns the kernel's packets and the arriving packets of a step, in order.
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
                // The peer acknowledges the packet.
                vec![packet, from_peer(self.peer_sent, self.sent)]
            }
        }
    }
}

/// The record of a conversation of several connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The packets that the kernel sent: time, connection, bytes.
    given: Vec<(Instant, usize, Vec<u8>)>,
    /// The packets that were forwarded to the path.
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
        let mut bytes = packet.build();
        if !packet.from_host {
            machine.inbound(&bytes);
            return;
        }
        // A unique number distinguishes packets, in the identification field (IPv4) or in the flow label (IPv6).
        let number = (seen.given.len() as u16).to_be_bytes();
        let at = if packet.version == 4 { 4 } else { 2 };
        bytes[at..at + 2].copy_from_slice(&number);
        seen.given.push((now, connection, bytes.clone()));
        if machine.outbound(now, &bytes) == Outbound::Forward {
            seen.left.push((now, connection, bytes));
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
                own.map(|(at, _, bytes)| (*at, bytes.clone())).collect()
            };
            let (given, left) = (of(&seen.given), of(&seen.left));
            // The forwarded packets are the kernel's packets, in the same order and without repetitions.
            let mut next = 0;
            let mut origins = Vec::new();
            for (at, bytes) in &left {
                let found = given[next..].iter().position(|packet| packet.1 == *bytes);
                prop_assert!(found.is_some(), "at {at:?}: a forwarded packet is late, or the kernel did not send it");
                next += found.unwrap() + 1;
                origins.push(next - 1);
            }
            for (number, (at, bytes)) in given.iter().enumerate() {
                let packet = Segment::parse(bytes).unwrap();
                let settled = left.iter().zip(&origins).find(|(_, origin)| **origin >= number);
                prop_assert!(settled.is_some(), "{packet:?} is lost");
                let ((when, _), origin) = settled.unwrap();
                // Each packet of the kernel is forwarded in time, or replaced in time by a packet that acknowledges at
                // least the same data.
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
    fn arbitrary_bytes_do_not_panic(
        packets in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..80), 0..4usize, any::<u16>()),
            0..40,
        ),
    ) {
        let mut lab = Lab::connected();
        lab.connect(1024, 6, &[2, 4, 5, 180]);
        let mut given = 0;
        for (inbound, mut bytes, shape, flags) in packets {
            // Random bytes are rarely valid TCP, so most packets begin with a valid header.
            let [low, high] = flags.to_le_bytes();
            let like = match shape {
                0 => Vec::new(),
                1 => from_host(0, 100).flags(low).build(),
                2 => from_host(0, 100).flags(ACK).version(6).build(),
                _ => from_peer(0, 0).flags(low).data(u32::from(high)).build(),
            };
            let keep = like.len().saturating_sub(usize::from(high) % 24);
            bytes.splice(..0, like[..keep].iter().copied());
            if inbound {
                lab.machine.inbound(&bytes);
            } else {
                given += usize::from(lab.machine.outbound(lab.now, &bytes) == Outbound::Held);
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
