//! Acknowledgements that wait for the tick, and the events that end the wait.

use super::packets::*;
use super::*;

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
fn bytes_count_even_when_the_program_has_not_read_yet() {
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
    // `connect` asserts this for the connecting side. On the other side the third packet is inbound, and the
    // SYN-ACK has already acknowledged.
    let mut lab = Lab::new();
    lab.gets(&from_peer(0, 0).syn(SYN, &[2, 4, 5, 180]));
    lab.passes(&from_host(0, 0).syn(SYN | ACK, &[2, 4, 5, 180]));
    lab.gets(&from_peer(0, 0));
    lab.gets(&from_peer(0, 0).data(200));
    lab.is_held(&from_host(0, 200));
}
