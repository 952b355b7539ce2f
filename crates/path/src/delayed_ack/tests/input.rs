//! Input of `DelayedAck`: packets that cannot be parsed, the clock, and the seed.

use super::packets::*;
use super::*;

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
            // No header length, UDP, more fragments, a fragment offset, and a data offset that is too small or too
            // large.
            strange.extend([changed(0, 0x44), changed(9, 17)]);
            strange.extend([changed(6, 0x20), changed(7, 1)]);
            strange.extend([changed(32, 0x40), changed(32, 0x60)]);
        } else {
            // An extension header, a jumbogram, and a data offset that is too small or too large.
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
    // Six standard deviations of a binomial distribution with n = 1000 and p = 1/2.
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
        // Packets 7.3 ms apart: all phases of the tick occur equally often.
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
