//! Tests of rank 0 and members in virtual time, over connections with a delay.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::Instant;

use crate::coordinator::{Coordinator, CoordinatorEvent, Expected, MOST_UNSENT};
use crate::member::{Member, MemberEvent};
use crate::message::{Hello, Message};
use crate::secret::{NONCE, Secret};

const SILENCE: Duration = Duration::from_secs(5);
const RENDEZVOUS: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_micros(200);

fn secret() -> Secret {
    Secret::new(b"a secret of the tests").unwrap()
}

fn hello(rank: u32, ranks: u32) -> Hello {
    Hello {
        rank,
        ranks,
        plan: [7; 32],
        version: "1".to_owned(),
        host: format!("node{rank}"),
    }
}

/// Rank 0 and members. The clock of member N is N seconds ahead of rank 0's clock.
struct World {
    now: Instant,
    delay: Duration,
    coordinator: Coordinator,
    members: BTreeMap<u32, Member>,
    /// Bytes in flight: the time of arrival, the member, whether the bytes go to rank 0, and the bytes.
    flying: Vec<(Instant, u32, bool, Vec<u8>)>,
    /// The members that cannot communicate.
    cut: Vec<u32>,
    events: Vec<CoordinatorEvent>,
    member_events: BTreeMap<u32, Vec<MemberEvent>>,
}

impl World {
    fn new(ranks: u32, delay: Duration) -> World {
        let now = Instant::from_nanos(10_000_000_000);
        let expected = Expected {
            hello: hello(0, ranks),
            test: 5,
            rendezvous: RENDEZVOUS,
            silence: SILENCE,
        };
        World {
            now,
            delay,
            coordinator: Coordinator::new(expected, secret(), now),
            members: BTreeMap::new(),
            flying: Vec::new(),
            cut: Vec::new(),
            events: Vec::new(),
            member_events: BTreeMap::new(),
        }
    }

    fn clock(&self, rank: u32) -> Instant {
        self.now + Duration::from_secs(rank.into())
    }

    fn join(&mut self, hello: Hello) {
        let rank = hello.rank;
        let nonce = [rank as u8; NONCE];
        let member = Member::new(hello, secret(), nonce, SILENCE, self.clock(rank));
        assert!(self.coordinator.accept(rank.into(), [99; NONCE], self.now));
        self.members.insert(rank, member);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            let arrives = self.now + self.delay;
            let due = self.now;
            let (arrived, flying) = std::mem::take(&mut self.flying)
                .into_iter()
                .partition(|&(at, ..)| at <= due);
            self.flying = flying;
            let arrived: Vec<(Instant, u32, bool, Vec<u8>)> = arrived;
            for (_, rank, to_rank_0, bytes) in arrived {
                if self.cut.contains(&rank) {
                    continue;
                }
                let clock = self.clock(rank);
                match (to_rank_0, self.members.get_mut(&rank)) {
                    (true, _) => self.coordinator.receive(rank.into(), &bytes, self.now),
                    (false, Some(member)) => member.receive(&bytes, clock),
                    (false, None) => {}
                }
            }
            self.coordinator.tick(self.now);
            for rank in self.members.keys().copied().collect::<Vec<_>>() {
                let clock = self.clock(rank);
                let member = self.members.get_mut(&rank).unwrap();
                member.tick(clock);
                let there = std::mem::take(member.outbox());
                self.member_events
                    .entry(rank)
                    .or_default()
                    .extend(std::iter::from_fn(|| member.event()));
                let back = self.coordinator.outbox(rank.into()).map(std::mem::take);
                for (to_rank_0, bytes) in [(true, there), (false, back.unwrap_or_default())] {
                    if !bytes.is_empty() {
                        self.flying.push((arrives, rank, to_rank_0, bytes));
                    }
                }
            }
            while let Some(event) = self.coordinator.event() {
                self.events.push(event);
            }
        }
    }

    /// Returns two ranks whose test has started, with the start of each as an instant of rank 0's clock.
    fn started(delay: Duration) -> (World, Instant, Instant) {
        let mut world = World::new(2, delay);
        world.join(hello(1, 2));
        world.run(Duration::from_secs(1));
        let (now, clock) = (world.now, world.clock(1));
        world.coordinator.ready(now);
        world.members.get_mut(&1).unwrap().ready(clock);
        world.run(Duration::from_secs(2));
        let Some(&CoordinatorEvent::Start(at)) = world.events.first() else {
            panic!("{:?}", world.events);
        };
        let own = world.member_events[&1]
            .iter()
            .find_map(|event| match event {
                MemberEvent::Start(at, 5) => Some(*at),
                _ => None,
            });
        let own = Instant::from_nanos(own.unwrap().as_nanos() - 1_000_000_000);
        world.events.clear();
        (world, at, own)
    }

    fn of(&self, rank: u32) -> &[MemberEvent] {
        self.member_events.get(&rank).map_or(&[], Vec::as_slice)
    }
}

#[test]
fn ranks_start_together_although_their_clocks_differ() {
    for delay in [50, 1_000, 20_000].map(Duration::from_micros) {
        let (world, at, own) = World::started(delay);
        let skew = at.since(own).max(own.since(at));
        let clock = world.members[&1].clock().unwrap();
        assert!(skew <= clock.before.uncertainty, "{skew:?}");
        // The simulation advances in steps. It delays a message by up to one step at each of three points.
        assert!(clock.before.uncertainty <= delay + 3 * STEP);
        assert_eq!(clock.drift, Duration::ZERO);
    }
}

#[test]
fn a_member_may_be_ready_before_it_is_connected() {
    let mut world = World::new(2, STEP);
    world.join(hello(1, 2));
    let (now, clock) = (world.now, world.clock(1));
    world.members.get_mut(&1).unwrap().ready(clock);
    world.coordinator.ready(now);
    world.run(Duration::from_millis(500));
    let started = |event: &MemberEvent| matches!(event, MemberEvent::Start(..));
    assert!(world.of(1).iter().any(started), "{:?}", world.member_events);
}

#[test]
fn figures_and_the_result_arrive_and_the_member_may_exit() {
    let (mut world, ..) = World::started(STEP);
    let clock = world.clock(1);
    let member = world.members.get_mut(&1).unwrap();
    member.send(&Message::Interval(vec![1]));
    member.send(&Message::Interval(vec![2]));
    member.compare_again(clock);
    world.run(Duration::from_millis(100));
    assert!(
        matches!(world.of(1).last(), Some(MemberEvent::Compared(record)) if record.after.is_some())
    );
    let member = world.members.get_mut(&1).unwrap();
    member.send(&Message::Ended(vec![3]));
    world.run(Duration::from_millis(10));
    assert_eq!(world.of(1).last(), Some(&MemberEvent::Done));
    assert_eq!(
        world.events,
        [
            CoordinatorEvent::Interval(1, vec![1]),
            CoordinatorEvent::Interval(1, vec![2]),
            CoordinatorEvent::Ended(1, vec![3]),
            CoordinatorEvent::Close(1),
        ]
    );
    assert!(world.coordinator.is_over());
    // The connection is then closed; rank 0 must not report a loss.
    world.coordinator.closed(1, "it ended");
    assert_eq!(world.coordinator.event(), None);
}

#[test]
fn silence_is_a_loss_on_both_sides_and_a_delay_of_two_seconds_is_none() {
    let (mut world, ..) = World::started(STEP);
    // A rank that reports often still receives answers from rank 0.
    for interval in 0..12 {
        let member = world.members.get_mut(&1).unwrap();
        member.send(&Message::Interval(vec![interval]));
        world.run(Duration::from_millis(700));
    }
    assert!(matches!(world.of(1).last(), Some(MemberEvent::Start(..))));
    assert_eq!(std::mem::take(&mut world.events).len(), 12);
    world.delay = Duration::from_secs(2);
    world.run(Duration::from_secs(10));
    assert_eq!(world.events, []);
    world.cut = vec![1];
    world.run(SILENCE + Duration::from_secs(3));
    let lost = "it sent no message for 5s".to_owned();
    assert_eq!(
        world.events,
        [CoordinatorEvent::Close(1), CoordinatorEvent::Lost(1, lost)]
    );
    assert!(world.coordinator.is_over());
    let lost = "rank 0 sent no message for 5s".to_owned();
    assert_eq!(world.of(1).last(), Some(&MemberEvent::Lost(lost)));
}

#[test]
fn a_rank_that_asks_for_the_time_and_reads_no_answer_is_given_up_with_bounded_memory() {
    let (mut world, ..) = World::started(STEP);
    let member = world.members.get_mut(&1).unwrap();
    let mut most = 0;
    for sent in 0..5000 {
        member.send(&Message::Ping { sent });
        let bytes = std::mem::take(member.outbox());
        world.coordinator.receive(1, &bytes, world.now);
        most = most.max(world.coordinator.outbox(1).unwrap().len());
    }
    assert!(most < MOST_UNSENT + 200, "{most}");
    let why = "it does not read the messages of rank 0".to_owned();
    assert_eq!(world.coordinator.event(), Some(CoordinatorEvent::Close(1)));
    assert_eq!(
        world.coordinator.event(),
        Some(CoordinatorEvent::Lost(1, why))
    );
    assert_eq!(world.coordinator.event(), None);
}

#[test]
fn a_connection_that_ends_is_a_loss_once() {
    let (mut world, ..) = World::started(STEP);
    world.coordinator.closed(1, "reset");
    world.coordinator.closed(1, "reset");
    world.coordinator.give_up("late");
    let events: Vec<_> = std::iter::from_fn(|| world.coordinator.event()).collect();
    let lost = CoordinatorEvent::Lost(1, "reset".to_owned());
    assert_eq!(events, [CoordinatorEvent::Close(1), lost]);
}

#[test]
fn fewer_ranks_than_declared_start_nothing() {
    let mut world = World::new(3, STEP);
    world.join(hello(1, 3));
    world.run(Duration::from_secs(1));
    world.coordinator.ready(world.now);
    // The simulation runs in steps of one second, so that heartbeats are sent.
    for _ in 0..60 {
        world.run(Duration::from_millis(10));
        world.now += Duration::from_millis(990);
    }
    let failed = world.events.iter().find_map(|event| match event {
        CoordinatorEvent::Failed(why) => Some(why.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    assert!(
        failed.contains("only 2 of 3 ranks") && failed.contains(": 2;"),
        "{failed}"
    );
    world.run(Duration::from_millis(10));
    assert!(
        matches!(world.of(1).last(), Some(MemberEvent::Lost(why)) if why.contains("did not start"))
    );
}

#[test]
fn a_rank_of_another_test_is_refused_and_the_test_does_not_start() {
    type Change = fn(&mut Hello);
    let changes: [(Change, &str); 4] = [
        (|hello| hello.plan = [8; 32], "another plan"),
        (|hello| hello.version = "2".to_owned(), "version 2"),
        (|hello| hello.ranks = 4, "with 4 ranks, but rank 0 with"),
        (|hello| hello.rank = 7, "not one of the ranks 1 to 2"),
    ];
    for (change, why) in changes {
        let mut world = World::new(3, STEP);
        let mut hello = hello(1, 3);
        change(&mut hello);
        let rank = hello.rank;
        world.join(hello);
        world.run(Duration::from_millis(10));
        assert!(
            matches!(world.of(rank).last(), Some(MemberEvent::Lost(member_events)) if member_events.contains(why)),
            "{why}: {:?}",
            world.member_events
        );
        let failed = |event: &CoordinatorEvent| matches!(event, CoordinatorEvent::Failed(member_events) if member_events.contains(why));
        assert!(world.events.iter().any(failed), "{why}: {:?}", world.events);
    }
}

#[test]
fn a_second_rank_of_the_same_number_and_a_late_one_are_refused_alone() {
    let (mut world, ..) = World::started(STEP);
    let late = hello(1, 2);
    let mut second = Member::new(late, secret(), [5; NONCE], SILENCE, world.now);
    assert!(world.coordinator.accept(50, [6; NONCE], world.now));
    for _ in 0..4 {
        let bytes = std::mem::take(second.outbox());
        world.coordinator.receive(50, &bytes, world.now);
        let bytes = world.coordinator.outbox(50).map(std::mem::take);
        second.receive(&bytes.unwrap(), world.now);
    }
    assert!(matches!(second.event(), Some(MemberEvent::Lost(why)) if why.contains("cannot join")),);
    assert_eq!(world.coordinator.event(), Some(CoordinatorEvent::Close(50)));
    assert!(!world.coordinator.is_over());
}

#[test]
fn strangers_are_bounded_in_number_and_time() {
    let mut world = World::new(2, STEP);
    for connection in 100..164 {
        assert!(world.coordinator.accept(connection, [1; NONCE], world.now));
    }
    assert!(!world.coordinator.accept(164, [1; NONCE], world.now));
    world
        .coordinator
        .receive(100, b"GET / HTTP/1.1\r\n\r\n", world.now);
    assert_eq!(
        world.coordinator.event(),
        Some(CoordinatorEvent::Close(100))
    );
    world.now += Duration::from_secs(5);
    world.coordinator.tick(world.now);
    let closed = std::iter::from_fn(|| world.coordinator.event()).count();
    assert_eq!(closed, 63);
    for connection in 100..164 {
        world.coordinator.closed(connection, "closed");
    }
    assert!(world.coordinator.accept(165, [1; NONCE], world.now));
}

#[test]
fn a_start_that_is_far_away_and_a_host_that_is_no_name_are_refused() {
    let (mut world, ..) = World::started(Duration::from_micros(100));
    let clock = world.clock(1);
    let member = world.members.get_mut(&1).unwrap();
    let start = |at| Message::Start { at, test: 5 };
    member.handle(start(world.now.as_nanos() + 50_000_000_000), clock);
    assert!(matches!(member.event(), Some(MemberEvent::Start(..))));
    member.handle(start(u64::MAX), clock);
    let Some(MemberEvent::Lost(why)) = member.event() else {
        panic!("the start was accepted");
    };
    assert!(why.contains("too far in the future"), "{why}");
    for host in ["x".repeat(256), "a\u{1b}[2J".to_owned()] {
        let mut world = World::new(2, Duration::from_micros(100));
        world.join(Hello {
            host,
            ..hello(1, 2)
        });
        world.run(Duration::from_millis(10));
        let member_events = world.of(1);
        let [MemberEvent::Lost(why)] = member_events else {
            panic!("{member_events:?}");
        };
        assert!(why.contains("is malformed"), "{why}");
        // The rank can still connect, after a connection with its number was refused.
        assert!(
            world
                .events
                .iter()
                .all(|e| !matches!(e, CoordinatorEvent::Failed(_)))
        );
    }
}
