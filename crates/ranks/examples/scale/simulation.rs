//! A test of many ranks in virtual time: the state machines of all ranks, their connections through one link, and
//! rank 0 with the measured costs.
//!
//! A packet has up to 1448 bytes of messages, and 52 bytes of headers. TCP's congestion control, acknowledgements and
//! losses are not simulated. On a long path, large messages would need some additional round trips.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_path::{Direction, Link};
use fathometer_ranks::coordinator::{Coordinator, CoordinatorEvent, Expected};
use fathometer_ranks::member::{Member, MemberEvent};
use fathometer_ranks::message::{Hello, Message};
use fathometer_ranks::secret::NONCE;

use super::packet::{Content, HEADERS, Packet, send};
use super::scenario::{Found, Scenario};

/// The backlog: the maximum number of connections that wait for `accept`. The system drops further connection requests,
/// and their clients retry after a second.
const BACKLOG: usize = 1024;
const AGAIN: Duration = Duration::from_secs(1);
/// The maximum length of a ping's frame, in bytes. Frames of figures are longer.
const LONGEST_PING: usize = 100;
/// The period at which all state machines handle their time-outs.
const TURN: Duration = Duration::from_millis(10);
/// The number of intervals of the test. Each lasts one second.
const INTERVALS: u64 = 4;
/// The time limit of the simulation.
const END: Duration = Duration::from_secs(120);

/// An event at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A member requests a connection.
    Connect(u32),
    /// A member reports its next interval. After the last interval, it reports the end of its share.
    Interval(u32, u64),
    /// All state machines handle their time-outs.
    Turn,
}

struct World<'a> {
    scenario: &'a Scenario<'a>,
    now: Instant,
    coordinator: Coordinator,
    members: BTreeMap<u32, Member>,
    up: Link<Packet>,
    down: Link<Packet>,
    due: BinaryHeap<Reverse<(Instant, Due)>>,
    /// The connections that wait for `accept`.
    backlog: VecDeque<u32>,
    accepted: Vec<bool>,
    connections: u32,
    /// Bytes of accepted connections that rank 0 has not read.
    inbox: VecDeque<(u32, Vec<u8>)>,
    /// Bytes of connections that rank 0 has not accepted yet.
    early: BTreeMap<u32, Vec<u8>>,
    /// The number of merged intervals of each rank.
    merged: Vec<u64>,
    /// Whether rank 0 has pending messages to all ranks.
    is_for_all: bool,
    /// Bytes that rank 0 sends, and the instant at which its processor has written them.
    sent: VecDeque<(Instant, u32, Vec<u8>)>,
    /// The instant from which the processor of rank 0 is free.
    free: Instant,
    spent: Duration,
    start: Option<Instant>,
    /// The instant at which each rank sent its last ping.
    ping: BTreeMap<u32, Instant>,
    results: u32,
    found: Found,
}

/// Simulates a test until the test is complete, or until [`END`].
pub fn simulate(scenario: &Scenario<'_>) -> Found {
    let mut world = World::new(scenario);
    let begin = world.now;
    while !world.is_over() && world.now.since(begin) < END {
        world.step();
    }
    world.found.is_complete = world.is_over();
    let length = Duration::from_secs(INTERVALS).as_secs_f64();
    world.found.processor = world.spent.as_secs_f64() / length;
    world.found
}

fn hello(rank: u32, ranks: u32) -> Hello {
    Hello {
        rank,
        ranks,
        plan: [7; 32],
        version: "0.2.0".to_owned(),
        host: format!("node{rank:04}"),
    }
}

fn nonce(rank: u32) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[..4].copy_from_slice(&rank.to_le_bytes());
    nonce
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario<'a>) -> World<'a> {
        let now = Instant::from_nanos(1_000_000_000);
        let expected = Expected {
            hello: hello(0, scenario.ranks),
            test: 1,
            rendezvous: Duration::from_secs(60),
            silence: Duration::from_secs(5),
        };
        let mut coordinator = Coordinator::new(expected, scenario.secret.clone(), now);
        coordinator.ready(now);
        let connect = (1..scenario.ranks).map(|rank| Reverse((now, Due::Connect(rank))));
        let mut due: BinaryHeap<_> = connect.collect();
        due.push(Reverse((now, Due::Turn)));
        World {
            now,
            coordinator,
            members: BTreeMap::new(),
            up: Link::new(scenario.path, Direction::Up, Seed(1)),
            down: Link::new(scenario.path, Direction::Down, Seed(1)),
            due,
            backlog: VecDeque::new(),
            accepted: vec![false; scenario.ranks as usize],
            connections: 0,
            inbox: VecDeque::new(),
            early: BTreeMap::new(),
            merged: vec![0; scenario.ranks as usize],
            is_for_all: false,
            sent: VecDeque::new(),
            free: now,
            spent: Duration::ZERO,
            start: None,
            ping: BTreeMap::new(),
            results: 0,
            found: Found::default(),
            scenario,
        }
    }

    fn is_over(&self) -> bool {
        self.results + 1 == self.scenario.ranks
    }

    /// Advances to the next event.
    fn step(&mut self) {
        let has_input = self.has_input();
        let next = [
            self.up.next_due(),
            self.down.next_due(),
            self.sent.front().map(|(at, ..)| *at),
            self.due.peek().map(|Reverse((at, _))| *at),
            has_input.then_some(self.free),
        ];
        self.now = next
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.now)
            .max(self.now);
        while self.sent.front().is_some_and(|(at, ..)| *at <= self.now) {
            if let Some((_, rank, bytes)) = self.sent.pop_front() {
                send(&mut self.down, self.now, rank, &bytes);
            }
        }
        while self
            .due
            .peek()
            .is_some_and(|Reverse((at, _))| *at <= self.now)
        {
            if let Some(Reverse((_, due))) = self.due.pop() {
                self.act(due);
            }
        }
        while let Some(delivery) = self.up.deliver(self.now) {
            self.arrive_at_rank_0(delivery.payload);
        }
        while let Some(delivery) = self.down.deliver(self.now) {
            self.arrive_at_member(delivery.payload);
        }
        if self.free <= self.now && self.has_input() {
            self.turn_of_rank_0();
        }
    }

    fn has_input(&self) -> bool {
        !self.inbox.is_empty() || !self.backlog.is_empty() && self.coordinator.has_room()
    }

    fn act(&mut self, due: Due) {
        match due {
            Due::Connect(rank) => {
                let packet = Packet {
                    rank,
                    content: Content::Open,
                };
                self.up.arrive(self.now, HEADERS, packet);
            }
            Due::Interval(rank, number) => {
                let Some(member) = self.members.get_mut(&rank) else {
                    return;
                };
                if number < INTERVALS {
                    let figures = self.scenario.interval.1.to_vec();
                    member.send(&Message::Interval(figures));
                } else {
                    member.compare_again(self.now);
                }
                self.flush(rank);
            }
            Due::Turn => {
                self.coordinator.tick(self.now);
                self.free = self.free.max(self.handle_events(self.now));
                for rank in self.members.keys().copied().collect::<Vec<_>>() {
                    if let Some(member) = self.members.get_mut(&rank) {
                        member.tick(self.now);
                    }
                    self.flush(rank);
                }
                self.due.push(Reverse((self.now + TURN, Due::Turn)));
            }
        }
    }

    /// Sends the pending bytes of a member.
    fn flush(&mut self, rank: u32) {
        let Some(member) = self.members.get_mut(&rank) else {
            return;
        };
        let bytes = std::mem::take(member.outbox());
        if !bytes.is_empty() {
            if bytes.len() < LONGEST_PING {
                self.ping.insert(rank, self.now);
            }
            send(&mut self.up, self.now, rank, &bytes);
        }
    }

    fn arrive_at_rank_0(&mut self, packet: Packet) {
        match packet.content {
            Content::Open if self.backlog.len() >= BACKLOG => {
                let again = (self.now + AGAIN, Due::Connect(packet.rank));
                self.due.push(Reverse(again));
            }
            // The system of rank 0 answers the connection request.
            Content::Open => {
                self.backlog.push_back(packet.rank);
                self.down.arrive(self.now, HEADERS, packet);
            }
            Content::Bytes(bytes) if self.accepted[packet.rank as usize] => {
                self.inbox.push_back((packet.rank, bytes));
            }
            Content::Bytes(bytes) => self.early.entry(packet.rank).or_default().extend(bytes),
        }
    }

    fn arrive_at_member(&mut self, packet: Packet) {
        let (rank, now) = (packet.rank, self.now);
        match packet.content {
            Content::Open => {
                let hello = hello(rank, self.scenario.ranks);
                let secret = self.scenario.secret.clone();
                let silence = Duration::from_secs(5);
                let mut member = Member::new(hello, secret, nonce(rank), silence, now);
                member.ready(now);
                self.members.insert(rank, member);
            }
            Content::Bytes(bytes) => {
                if self.is_running()
                    && let Some(sent) = self.ping.get(&rank)
                {
                    self.found.ping = self.found.ping.max(now.since(*sent));
                }
                if let Some(member) = self.members.get_mut(&rank) {
                    member.receive(&bytes, now);
                }
            }
        }
        self.handle_member(rank);
        self.flush(rank);
    }

    fn handle_member(&mut self, rank: u32) {
        let Some(member) = self.members.get_mut(&rank) else {
            return;
        };
        while let Some(event) = member.event() {
            match event {
                MemberEvent::Start(at, _) => {
                    if let Some(clock) = member.clock() {
                        let worst = &mut self.found.uncertainty;
                        *worst = (*worst).max(clock.before.uncertainty);
                    }
                    for number in 0..=INTERVALS {
                        let at = at + Duration::from_secs(number + 1);
                        self.due.push(Reverse((at, Due::Interval(rank, number))));
                    }
                }
                MemberEvent::Compared(_) => {
                    // The length of a result: a result has more histograms, about as many bytes as the figures of three
                    // intervals.
                    let result = self.scenario.interval.1.repeat(3);
                    member.send(&Message::Ended(result));
                }
                _ => {}
            }
        }
    }

    /// Whether the load is running.
    fn is_running(&self) -> bool {
        let end = |start: Instant| start + Duration::from_secs(INTERVALS);
        self.start
            .is_some_and(|start| start <= self.now && self.now < end(start))
    }

    /// Simulates a turn of rank 0: accepts connections up to its limit, and reads from each connection that has bytes.
    fn turn_of_rank_0(&mut self) {
        let (costs, begin) = (self.scenario.costs, self.now);
        let mut at = begin + costs.poll * self.connections;
        while self.coordinator.has_room()
            && let Some(rank) = self.backlog.pop_front()
        {
            at += costs.accept + costs.handshake;
            self.coordinator.accept(rank.into(), nonce(rank), at);
            self.accepted[rank as usize] = true;
            self.connections += 1;
            let early = self.early.remove(&rank);
            self.inbox.extend(early.map(|bytes| (rank, bytes)));
        }
        for (rank, bytes) in std::mem::take(&mut self.inbox) {
            at += costs.read;
            self.coordinator.receive(rank.into(), &bytes, at);
            at = self.handle_events(at);
            let outbox = self.coordinator.outbox(rank.into());
            let answer = outbox.map(std::mem::take).unwrap_or_default();
            if !answer.is_empty() {
                at += costs.ping + costs.write;
                self.sent.push_back((at, rank, answer));
            }
        }
        if self.is_running() {
            self.spent += at.since(begin);
        }
        self.free = at;
        if std::mem::take(&mut self.is_for_all) {
            self.send_to_all(at);
        }
    }

    /// Sends the messages for all ranks that one event caused, such as the start.
    fn send_to_all(&mut self, mut at: Instant) {
        for rank in 1..self.scenario.ranks {
            let outbox = self.coordinator.outbox(rank.into());
            let bytes = outbox.map(std::mem::take).unwrap_or_default();
            if !bytes.is_empty() {
                at += self.scenario.costs.write;
                self.sent.push_back((at, rank, bytes));
            }
        }
        self.free = self.free.max(at);
    }

    /// Handles the events of rank 0. Returns the instant at which its processor has finished.
    fn handle_events(&mut self, mut at: Instant) -> Instant {
        let interval = self.scenario.interval.0;
        while let Some(event) = self.coordinator.event() {
            match event {
                CoordinatorEvent::Start(start) => {
                    self.start = Some(start);
                    self.is_for_all = true;
                    self.found.rendezvous = at.since(Instant::from_nanos(1_000_000_000));
                }
                CoordinatorEvent::Interval(rank, _) => {
                    at += interval.receive + interval.merge;
                    let merged = &mut self.merged[rank as usize];
                    *merged += 1;
                    let end = self.start.unwrap_or(at) + Duration::from_secs(*merged);
                    self.found.last_interval = self.found.last_interval.max(at.since(end));
                }
                CoordinatorEvent::Ended(..) => {
                    at += 3 * (interval.receive + interval.merge);
                    self.results += 1;
                    let end = self.start.unwrap_or(at) + Duration::from_secs(INTERVALS + 1);
                    self.found.last_result = self.found.last_result.max(at.since(end));
                }
                _ => {}
            }
        }
        at
    }
}
