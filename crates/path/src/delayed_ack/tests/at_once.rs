//! Segments that are acknowledged at once: gaps, FINs, duplicates, probes, and opening windows.

use super::packets::*;
use super::*;

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
    // After the gap is filled, acknowledgements wait for the tick again.
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
        // The application has read meanwhile, so the window differs and this is not an exact duplicate.
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
    // After the answer, later acknowledgements wait for the tick again.
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
        // Options after a malformed one are ignored.
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
        // With a window scale of 7, 23 units are 2944 bytes.
        if at_once {
            lab.passes(&from_host(0, 0).window(123));
        } else {
            lab.is_held(&from_host(0, 0).window(123));
        }
    }
}
