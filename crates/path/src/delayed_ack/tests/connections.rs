//! Several connections, and the opening and closing of connections.

use super::packets::*;
use super::*;

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
    // A packet that replaces the held packet keeps the position in the queue.
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
    // The kernel ignores an RST outside the window.
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
        // The kernel's answer to the retransmitted FIN belongs to no tracked connection.
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
fn the_oldest_connection_is_evicted_and_its_held_packet_leaves_at_once() {
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
    // The connection is not tracked now, so its packets are forwarded.
    lab.passes(&from_host(0, 200).port(1024));
    lab.tick();
    lab.releases(&from_host(0, 100).port(1025));
    lab.holds_nothing();
}

#[test]
fn a_port_used_again_is_a_new_connection() {
    let mut lab = Lab::connected();
    lab.is_held(&from_host(0, 100));
    // A retransmitted SYN does not open a new connection.
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
