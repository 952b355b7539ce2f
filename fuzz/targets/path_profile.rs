//! Path profiles: no text makes the parser panic, and an accepted profile gives a link that conserves packets
//! and delivers them in order of time.

#![no_main]

use fathometer_model::{Instant, Seed};
use fathometer_path::{Arrival, Direction, Link, Profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(profile) = Profile::from_toml(text, "fuzz.toml") else {
        return;
    };
    for direction in [Direction::Up, Direction::Down] {
        carry(&profile, direction);
    }
});

/// Sends packets through one direction until each was delivered or dropped.
fn carry(profile: &Profile, direction: Direction) {
    const PACKETS: usize = 64;
    let mut link = Link::new(profile, direction, Seed(1));
    // How often each packet was delivered, and how often it was dropped.
    let mut delivered = [0u32; PACKETS];
    let mut dropped = [0u32; PACKETS];
    let mut now = Instant::ZERO;
    for packet in 0..PACKETS {
        now = Instant::from_nanos(packet as u64 * 1_000_000);
        let bytes = vec![packet as u8; 40 + 20 * packet];
        if let Arrival::Dropped(lost) = link.arrive(now, bytes.len() as u32, bytes) {
            dropped[number(&lost.payload)] += 1;
        }
    }
    // A packet may leave the link, be due, and be due a second time as a duplicate; twice that.
    for _ in 0..6 * PACKETS {
        let Some(due) = link.next_due() else { break };
        // Packets that were due while others still arrived are late, as on a busy host.
        now = now.max(due);
        while let Some(packet) = link.deliver(now) {
            assert!(packet.scheduled <= now, "delivered before its time");
            delivered[number(&packet.payload)] += 1;
        }
        while let Some(lost) = link.poll_drop() {
            dropped[number(&lost.payload)] += 1;
        }
    }
    assert_eq!(link.in_transit(), 0, "packets stayed on the way");
    for packet in 0..PACKETS {
        match (delivered[packet], dropped[packet]) {
            (1..=2, 0) | (0, 1) => {}
            fate => panic!("packet {packet} (delivered, dropped): {fate:?}"),
        }
    }
}

/// The number of a packet, which each of its bytes is.
fn number(packet: &[u8]) -> usize {
    usize::from(packet[0])
}
