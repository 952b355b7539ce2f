//! The link in virtual time: each test defines a path, packets, and the instants at which they must be
//! delivered.

use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_path::{Arrival, Delivery, Direction, DropReason, Link, Profile, predict};
use proptest::prelude::*;

fn profile(text: &str) -> Profile {
    let text = format!("name = \"test\"\nsource = \"a test\"\n[both]\n{text}");
    Profile::from_toml(&text, "test").unwrap()
}

/// A packet's number, as the payload of a packet whose bytes do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number(u64);

impl AsRef<[u8]> for Number {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

fn link(text: &str, seed: u64) -> Link<Number> {
    Link::new(&profile(text), Direction::Up, Seed(seed))
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// Calls the link whenever it is due, and returns all deliveries.
fn drain<P>(link: &mut Link<P>) -> Vec<Delivery<P>> {
    let mut delivered = Vec::new();
    while let Some(due) = link.next_due() {
        while let Some(packet) = link.deliver(due) {
            delivered.push(packet);
        }
    }
    assert_eq!(link.in_transit(), 0);
    delivered
}

#[test]
fn an_idle_link_adds_serialisation_and_propagation() {
    let mut link = link(
        "rate = \"10Mbit/s\"\npropagation = \"45ms\"\nframing = \"ethernet\"",
        1,
    );
    link.arrive(at(7), 1500, Number(0));
    // 1538 bytes at 10 Mbit/s: 1230.4 us.
    let due = Instant::from_nanos(7_000 + 1_230_400 + 45_000_000);
    assert_eq!(link.next_due(), Some(due));
    assert_eq!(link.deliver(Instant::from_nanos(due.as_nanos() - 1)), None);
    let packet = link.deliver(due).unwrap();
    assert_eq!((packet.index, packet.scheduled, packet.copies), (0, due, 1));
    assert_eq!(link.next_due(), None);
}

#[test]
fn packets_back_to_back_leave_at_the_links_pace_without_drift() {
    // 40 bytes at 28.8 kbit/s take 11 111 111 ns and one ninth: nine packets take exactly 100 ms.
    let mut link = link("rate = \"28.8kbit/s\"\nqueue = { packets = 1000 }", 1);
    for n in 0..900 {
        link.arrive(at(0), 40, Number(n));
    }
    let delivered = drain(&mut link);
    for (n, packet) in delivered.iter().enumerate() {
        let exact = (n as u64 + 1) * 100_000_000;
        assert_eq!(packet.scheduled.as_nanos(), exact.div_ceil(9), "packet {n}");
    }
    assert_eq!(delivered.len(), 900);
}

#[test]
fn packets_in_propagation_do_not_occupy_the_queue() {
    let mut link = link(
        "rate = \"10Mbit/s\"\npropagation = \"1s\"\nqueue = { packets = 1 }",
        1,
    );
    // One packet arrives every 1.25 ms and takes 1.2 ms: no packet waits, and 800 are in propagation at the same time.
    for n in 0..800 {
        let arrival = link.arrive(at(n * 1250), 1500, Number(n));
        assert!(
            matches!(arrival, Arrival::Accepted { depth, .. } if depth.packets == 0),
            "{arrival:?}"
        );
    }
    assert_eq!(link.in_transit(), 800);
}

#[test]
fn drop_tail_counts_what_waits_and_not_what_is_clocked_out() {
    let mut by_packets = link("rate = \"10Mbit/s\"\nqueue = { packets = 3 }", 1);
    let kept: Vec<bool> = (0..6)
        .map(|n| {
            matches!(
                by_packets.arrive(at(0), 1500, Number(n)),
                Arrival::Accepted { .. }
            )
        })
        .collect();
    assert_eq!(kept, [true, true, true, true, false, false]);
    // One packet has left the queue, so the queue has room for one packet.
    assert!(matches!(
        by_packets.arrive(at(1200), 40, Number(6)),
        Arrival::Accepted { .. }
    ));
    assert!(matches!(
        by_packets.arrive(at(1200), 40, Number(7)),
        Arrival::Dropped(d) if d.reason == DropReason::QueueFull && d.depth.packets == 3
            && d.depth.bytes.0 == 3040 && d.index == 7 && d.payload == Number(7)
    ));

    let mut by_bytes = link("rate = \"10Mbit/s\"\nqueue = { bytes = 3100 }", 1);
    let kept: Vec<bool> = [1500, 1500, 1500, 1500, 40, 100]
        .into_iter()
        .map(|length| {
            matches!(
                by_bytes.arrive(at(0), length, Number(0)),
                Arrival::Accepted { .. }
            )
        })
        .collect();
    assert_eq!(kept, [true, true, true, false, true, false]);
}

#[test]
fn a_link_without_a_rate_only_delays() {
    let mut link = link("propagation = \"3ms\"\nqueue = { packets = 1 }", 1);
    for n in 0..100 {
        link.arrive(at(5), 1500, Number(n));
    }
    let delivered = drain(&mut link);
    assert_eq!(delivered.len(), 100);
    assert!(delivered.iter().all(|packet| packet.scheduled == at(3005)));
    assert!(delivered.iter().map(|packet| packet.payload.0).eq(0..100));
}

#[test]
fn codel_drops_by_the_control_law() {
    // Packets of 1 ms arrive twice as fast as the link sends: the delay at the head of the queue stays above 5 ms.
    let mut link = link(
        "rate = \"10Mbit/s\"\nqueue = { codel = { packets = 100000 } }",
        1,
    );
    for n in 0..1200 {
        link.arrive(at(n * 500), 1250, Number(n));
    }
    let first_above = 11; // the packet that leaves the queue at 11 ms came at 5.5 ms, and waited 5.5
    let drops: Vec<f64> = std::iter::from_fn(|| link.poll_drop())
        .map(|drop| {
            assert_eq!(drop.reason, DropReason::Codel);
            drop.at.as_secs_f64() * 1000.0
        })
        .collect();
    // The first drop is one interval after the delay exceeded the target; later drops are interval / sqrt(count) apart.
    // The link acts once per packet, so a drop is up to 1 ms late.
    let mut expected = f64::from(first_above) + 100.0;
    for (n, drop) in drops.iter().enumerate() {
        assert!(
            (expected - 1.0..=expected + 1.0).contains(drop),
            "drop {n} at {drop} ms, expected {expected} ms"
        );
        expected += 100.0 / (n as f64 + 1.0).sqrt();
    }
    // 111, 211, 281.7, 339.4, 389.4, 434.1, 475.0, 512.8, 548.1, 581.4 ms.
    assert_eq!(drops.len(), 10);
}

#[test]
fn codel_keeps_the_delay_near_its_target_where_drop_tail_does_not() {
    // A source that halves its rate at each drop and adds one packet per round trip.
    let worst = |queue: &str| {
        let mut link = link(&format!("rate = \"10Mbit/s\"\nqueue = {queue}"), 1);
        let (mut window, mut sent, mut now) = (10.0f64, 0u64, 0u64);
        let mut waits = Vec::new();
        for _ in 0..400 {
            let mut lost = false;
            for _ in 0..window as u64 {
                lost |= matches!(
                    link.arrive(at(now), 1250, Number(sent)),
                    Arrival::Dropped(_)
                );
                sent += 1;
            }
            now += 20_000;
            while let Some(packet) = link.deliver(at(now)) {
                waits.push(packet.scheduled.since(packet.arrived));
            }
            lost |= std::iter::from_fn(|| link.poll_drop()).count() > 0;
            window = if lost { window / 2.0 } else { window + 1.0 };
        }
        let tail = &mut waits[sent as usize / 2..];
        tail.sort_unstable();
        tail[tail.len() / 2]
    };
    let codel = worst("{ codel = { packets = 1000 } }");
    let drop_tail = worst("{ packets = 1000 }");
    assert!(codel < Duration::from_millis(30), "{codel:?}");
    assert!(drop_tail > Duration::from_millis(100), "{drop_tail:?}");
}

#[test]
fn loss_and_drop_list_take_what_was_predicted() {
    let text = "rate = \"10Mbit/s\"\nloss = { independent = 0.1 }\ndrop-list = [5, \"100-109\"]";
    let (profile, mut link) = (profile(text), link(text, 42));
    let predicted = predict(&profile.up, Direction::Up, Seed(42), 2000);
    for (n, fate) in predicted.iter().enumerate() {
        let reason = match link.arrive(at(n as u64 * 2000), 1500, Number(n as u64)) {
            Arrival::Accepted { .. } => None,
            Arrival::Dropped(dropped) => Some(dropped.reason),
        };
        assert_eq!(reason, fate.lost, "packet {n}");
    }
}

#[test]
fn a_lost_packet_takes_no_link_time() {
    let mut link = link("rate = \"10Mbit/s\"\ndrop-list = [0]", 1);
    link.arrive(at(0), 1500, Number(0));
    link.arrive(at(0), 1500, Number(1));
    assert_eq!(link.next_due(), Some(at(1200)));
}

#[test]
fn jitter_keeps_the_order_unless_reordering_is_enabled() {
    let jitter = |reorders: bool| {
        let mut link = link(
            &format!(
                "propagation = \"10ms\"\njitter = {{ distribution = \"uniform\", \
                 amount = \"5ms\", reorders = {reorders} }}"
            ),
            3,
        );
        for n in 0..200 {
            link.arrive(at(n * 100), 100, Number(n));
        }
        drain(&mut link)
    };
    let in_order = jitter(false);
    assert!(in_order.iter().map(|packet| packet.payload.0).eq(0..200));
    assert!(in_order.is_sorted_by_key(|packet| packet.scheduled));
    let reordered = jitter(true);
    assert!(!reordered.is_sorted_by_key(|packet| packet.payload));
    assert!(reordered.is_sorted_by_key(|packet| packet.scheduled));
    for packet in reordered {
        let delay = packet.scheduled.since(packet.arrived);
        assert!((10_000..15_000).contains(&delay.as_micros()), "{delay:?}");
    }
}

#[test]
fn a_packet_held_back_delays_no_other_packet() {
    // Packet 0 has an additional delay of 100 ms; later packets wait only for the link.
    let mut link = link(
        "rate = \"10Mbit/s\"\nreorder = { probability = 1, extra = \"100ms\" }",
        1,
    );
    link.arrive(at(0), 1250, Number(0));
    assert_eq!(link.next_due(), Some(at(101_000)));
    link.arrive(at(0), 1250, Number(1));
    // The host must call the link when the link is free, because a waiting packet may overtake packet 0.
    assert_eq!(link.next_due(), Some(at(1000)));
    assert_eq!(drain(&mut link).len(), 2);
}

#[test]
fn duplicates_are_announced_with_their_packet() {
    let mut link = link("duplicate = 1", 1);
    link.arrive(at(0), 100, Number(9));
    assert_eq!(drain(&mut link)[0].copies, 2);
}

#[test]
fn a_clock_that_steps_back_counts_as_stopped() {
    let mut link = link("rate = \"10Mbit/s\"", 1);
    link.arrive(at(5000), 1250, Number(0));
    link.arrive(at(4000), 1250, Number(1));
    let delivered = drain(&mut link);
    assert_eq!(delivered[1].arrived, at(5000));
    assert_eq!(delivered[1].scheduled, at(7000));
}

/// Computes reference times in integer arithmetic: Lindley's recursion with a fraction.
fn reference(rate: u64, arrivals: &[(u64, u32)]) -> Vec<u64> {
    let mut free = 0u128; // in units of 1 / rate nanoseconds
    arrivals
        .iter()
        .map(|&(arrival, length)| {
            let start = free.max(u128::from(arrival) * u128::from(rate));
            free = start + u128::from(length) * 8 * 1_000_000_000;
            free.div_ceil(u128::from(rate)) as u64
        })
        .collect()
}

proptest! {
    #[test]
    fn departures_equal_the_recursion_whenever_the_host_looks(
        rate in 1u64..2_000_000_000,
        gaps in prop::collection::vec((0u64..3_000_000, 20u32..1500, any::<bool>()), 1..80),
    ) {
        let mut link = link(&format!("rate = \"{rate}bit/s\"\nqueue = {{ packets = 1000 }}"), 1);
        let mut now = 0;
        let mut arrivals = Vec::new();
        let mut departures = Vec::new();
        for (n, (gap, length, look)) in gaps.into_iter().enumerate() {
            now += gap;
            if look {
                while let Some(packet) = link.deliver(Instant::from_nanos(now)) {
                    departures.push(packet.scheduled.as_nanos());
                }
            }
            link.arrive(Instant::from_nanos(now), length, Number(n as u64));
            arrivals.push((now, length));
        }
        departures.extend(drain(&mut link).iter().map(|packet| packet.scheduled.as_nanos()));
        prop_assert_eq!(departures, reference(rate, &arrivals));
    }

    #[test]
    fn every_packet_ends_once_and_its_chance_is_the_seeds(
        seed in any::<u64>(),
        packets in prop::collection::vec((0u64..2_000, 40u32..1500), 1..200),
        codel in any::<bool>(),
    ) {
        let queue = if codel {
            "{ codel = { target = \"1ms\", interval = \"5ms\", packets = 20 } }"
        } else {
            "{ packets = 5 }"
        };
        let text = format!(
            "rate = \"5Mbit/s\"\npropagation = \"10ms\"\nqueue = {queue}\nduplicate = 0.1\n\
             loss = {{ gilbert-elliott = {{ p = 0.05, r = 0.5 }} }}\n\
             jitter = {{ distribution = \"normal\", amount = \"4ms\", reorders = true }}\n\
             reorder = {{ probability = 0.1, extra = \"20ms\" }}"
        );
        let mut link = link(&text, seed);
        link.keep_log();
        let mut ended = vec![0u32; packets.len()];
        let mut now = 0;
        for (n, &(gap, length)) in packets.iter().enumerate() {
            now += gap;
            if let Arrival::Dropped(dropped) = link.arrive(at(now), length, Number(n as u64)) {
                ended[dropped.payload.0 as usize] += 1;
            }
        }
        for packet in drain(&mut link) {
            prop_assert_eq!(packet.index, packet.payload.0);
            prop_assert!(packet.scheduled >= packet.arrived);
            ended[packet.payload.0 as usize] += 1;
        }
        while let Some(dropped) = link.poll_drop() {
            ended[dropped.payload.0 as usize] += 1;
        }
        prop_assert!(ended.iter().all(|&times| times == 1));
        let predicted = predict(&profile(&text).up, Direction::Up, Seed(seed), packets.len() as u64);
        prop_assert_eq!(link.log(), &predicted[..]);
    }
}
