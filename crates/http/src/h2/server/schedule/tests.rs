use super::*;
use crate::h2::server::streams::Streams;

/// A schedule with streams, each of which needs several turns.
struct Bench {
    schedule: Schedule,
    streams: Streams,
    /// For each stream: number, slot, priority, remaining turns.
    waiting: Vec<(u32, Slot, Priority, u32)>,
}

fn urgency(urgency: u8) -> Priority {
    Priority {
        urgency,
        incremental: false,
    }
}

fn incremental(urgency: u8) -> Priority {
    Priority {
        urgency,
        incremental: true,
    }
}

impl Bench {
    fn new(scheduling: Scheduling) -> Bench {
        Bench {
            schedule: Schedule::new(scheduling, 20),
            streams: Streams::default(),
            waiting: Vec::new(),
        }
    }

    fn add(&mut self, number: u32, priority: Priority, turns: u32) -> &mut Bench {
        let id = StreamId::new(number);
        let slot = self.streams.open(id, 0, 0, fathometer_model::Instant::ZERO);
        self.schedule.add(id, slot, priority);
        self.waiting.push((number, slot, priority, turns));
        self
    }

    fn depend(&mut self, number: u32, on: u32, weight: u8) -> &mut Bench {
        let dependency = Dependency {
            on: StreamId::new(on),
            exclusive: false,
            weight,
        };
        self.schedule.depend(StreamId::new(number), dependency);
        self
    }

    /// Runs turns of 1000 bytes until all streams are complete; returns the stream of each turn.
    fn run(&mut self) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(slot) = self.schedule.next() {
            let place = self
                .waiting
                .iter()
                .position(|entry| entry.1 == slot)
                .unwrap();
            let (number, _, priority, turns) = &mut self.waiting[place];
            order.push(*number);
            *turns -= 1;
            let id = StreamId::new(*number);
            self.schedule.turn_over(id, *priority, 1000);
            if *turns == 0 {
                self.schedule.remove(id, *priority);
                self.waiting.remove(place);
            }
        }
        assert!(self.waiting.is_empty());
        order
    }
}

#[test]
fn urgent_streams_go_first_and_equal_ones_in_order() {
    let mut bench = Bench::new(Scheduling::Urgency);
    bench
        .add(1, urgency(3), 2)
        .add(3, urgency(0), 2)
        .add(5, urgency(3), 1)
        .add(7, urgency(7), 1);
    bench.add(9, urgency(2), 1);
    assert_eq!(bench.run(), [3, 3, 9, 1, 1, 5, 7]);
}

#[test]
fn incremental_streams_take_turns() {
    let mut bench = Bench::new(Scheduling::Urgency);
    bench
        .add(1, incremental(3), 3)
        .add(3, incremental(3), 2)
        .add(5, incremental(3), 1);
    assert_eq!(bench.run(), [1, 3, 5, 1, 3, 1]);
    bench
        .add(11, incremental(3), 3)
        .add(13, urgency(3), 2)
        .add(15, incremental(1), 2);
    assert_eq!(bench.run(), [15, 15, 11, 13, 13, 11, 11]);
}

#[test]
fn a_late_stream_takes_its_place_in_order() {
    let mut bench = Bench::new(Scheduling::Urgency);
    bench
        .add(5, urgency(3), 1)
        .add(7, urgency(3), 1)
        .add(3, urgency(3), 1);
    assert_eq!(bench.run(), [3, 5, 7]);
}

#[test]
fn other_schedules_ignore_the_clients_priorities() {
    let mut bench = Bench::new(Scheduling::InOrder);
    bench
        .depend(3, 1, 7)
        .add(1, incremental(7), 2)
        .add(3, urgency(0), 2);
    assert_eq!(bench.run(), [1, 1, 3, 3]);
    let mut bench = Bench::new(Scheduling::RoundRobin);
    bench.add(1, urgency(7), 2).add(3, urgency(0), 3);
    assert_eq!(bench.run(), [1, 3, 1, 3, 3]);
}

#[test]
fn the_tree_is_used_only_without_rfc_9218_priorities() {
    let mut bench = Bench::new(Scheduling::AsAsked);
    bench
        .add(1, urgency(3), 1)
        .add(3, urgency(3), 1)
        .depend(1, 3, 0);
    assert!(bench.schedule.is_by_tree());
    assert_eq!(bench.run(), [3, 1]);
    bench.schedule.note_rfc9218();
    bench
        .add(5, urgency(3), 1)
        .add(7, urgency(0), 1)
        .depend(7, 5, 0);
    assert!(!bench.schedule.is_by_tree());
    assert_eq!(bench.run(), [7, 5]);
    let mut told = Bench::new(Scheduling::Tree);
    told.schedule.note_rfc9218();
    told.add(1, urgency(0), 1)
        .add(3, urgency(3), 1)
        .depend(1, 3, 0);
    assert_eq!(told.run(), [3, 1]);
}

#[test]
fn weights_share_and_parents_go_first() {
    let mut bench = Bench::new(Scheduling::Tree);
    bench.depend(1, 0, 29).depend(3, 0, 9);
    bench.add(1, urgency(3), 30).add(3, urgency(3), 10);
    let order = bench.run();
    for end in [8, 16, 24, 32] {
        let ones = order[..end].iter().filter(|&&number| number == 1).count();
        assert!(ones.abs_diff(end * 3 / 4) <= 1, "{order:?}");
    }
    // Two groups of equal weight, represented by streams 5 and 7. One group has one stream, the other has two.
    let mut bench = Bench::new(Scheduling::Tree);
    bench.depend(5, 0, 15).depend(7, 0, 15);
    bench.depend(9, 5, 15).depend(11, 7, 15).depend(13, 7, 15);
    bench
        .add(9, urgency(3), 4)
        .add(11, urgency(3), 2)
        .add(13, urgency(3), 2);
    assert_eq!(bench.run(), [9, 11, 9, 13, 9, 11, 9, 13]);
    // A parent precedes all its dependents.
    let mut bench = Bench::new(Scheduling::Tree);
    bench.depend(1, 0, 15).depend(3, 1, 255).depend(5, 3, 255);
    bench
        .add(5, urgency(3), 2)
        .add(3, urgency(3), 2)
        .add(1, urgency(3), 2);
    assert_eq!(bench.run(), [1, 1, 3, 3, 5, 5]);
}

#[test]
fn exclusive_dependencies_are_inserted_and_cycles_resolved() {
    let mut bench = Bench::new(Scheduling::Tree);
    bench.depend(1, 0, 15).depend(3, 1, 15).depend(5, 1, 15);
    let exclusive = Dependency {
        on: StreamId::new(1),
        exclusive: true,
        weight: 15,
    };
    bench.schedule.depend(StreamId::new(7), exclusive);
    bench
        .add(3, urgency(3), 1)
        .add(5, urgency(3), 1)
        .add(7, urgency(3), 2);
    assert_eq!(bench.run(), [7, 7, 3, 5]);
    // 1 <- 7 <- {3, 5}: when 1 becomes dependent on 5, 5 first moves to the parent of 1 (section 5.3.3).
    bench.depend(1, 5, 15);
    bench
        .add(1, urgency(3), 1)
        .add(5, urgency(3), 1)
        .add(3, urgency(3), 1);
    assert_eq!(bench.run(), [5, 1, 3]);
}

#[test]
fn a_tree_is_bounded_and_forgets_the_idle() {
    let mut bench = Bench::new(Scheduling::Tree);
    bench.add(1, urgency(3), 2);
    for number in 1..1000 {
        bench.depend(2 * number + 1, 2 * number - 1, 15);
    }
    bench.add(1999, urgency(3), 1);
    assert_eq!(bench.run(), [1, 1, 1999]);
}

#[test]
fn promised_streams_follow_requested_ones() {
    // This is true for any priority of the page and any order of arrival.
    for page in [urgency(3), incremental(3)] {
        let mut bench = Bench::new(Scheduling::AsAsked);
        bench
            .add(2, urgency(3), 2)
            .add(4, urgency(3), 1)
            .add(3, page, 3);
        assert_eq!(bench.run(), [3, 3, 3, 2, 2, 4]);
    }
    let mut bench = Bench::new(Scheduling::AsAsked);
    bench.add(2, urgency(2), 1).add(3, urgency(3), 1);
    assert_eq!(bench.run(), [2, 3], "unless the client sets another order");
}

#[test]
fn promised_streams_depend_on_their_page() {
    for tree_first in [true, false] {
        let mut bench = Bench::new(Scheduling::Tree);
        if tree_first {
            bench.depend(1, 0, 15);
        }
        let (page, first, second) = (StreamId::new(1), StreamId::new(2), StreamId::new(4));
        bench.schedule.promise(first, page);
        bench.schedule.promise(second, page);
        bench
            .add(2, urgency(3), 2)
            .add(4, urgency(3), 2)
            .add(1, urgency(3), 3);
        if !tree_first {
            bench.depend(5, 0, 15);
        }
        assert_eq!(bench.run(), [1, 1, 1, 2, 4, 2, 4]);
    }
}

#[test]
fn a_full_tree_forgets_no_stream_with_something_to_send() {
    let mut bench = Bench::new(Scheduling::Tree);
    bench.depend(1, 0, 15);
    for number in 0..30 {
        bench.add(2 * number + 1, urgency(3), 1);
    }
    assert_eq!(bench.run().len(), 30);
}
