//! A host with its [`DelayedAck`], and one file of tests for each group of rules.

mod at_once;
mod connections;
mod conversation;
mod input;
mod packets;
mod waiting;

use self::packets::{ACK, Packet, SYN, from_host, from_peer};
use super::*;

const TICK: Duration = Duration::from_millis(200);
const CLOCK: DelayedAckClock = DelayedAckClock {
    tick: TICK,
    segments: 2,
};
const FULL: u32 = 1460;

/// A host with its [`DelayedAck`].
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

    /// Connects a host with segments of 1460 bytes, 50 ms after a tick.
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

    /// Delivers the next full segment of the peer, and returns the kernel's acknowledgement.
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

    /// Advances to the next tick.
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
