//! The state machine of rank 0's control connections, without I/O.
//!
//! Rank 0 waits for all other ranks, starts the test when all ranks are ready, receives their figures, and detects lost
//! ranks. A connection from any other program uses bounded time and memory, and has no effect on the test.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fathometer_model::Instant;

use crate::limits::{is_host, printable};
use crate::link::{Link, LinkError};
use crate::message::{Hello, Message};
use crate::secret::{BINDING, NONCE, Secret, Side};

/// The time within which a connection must identify its rank.
pub const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of connections that have not identified their rank yet.
pub const MAX_UNIDENTIFIED: usize = 64;

/// The maximum number of unsent bytes of a connection. It is much larger than the messages of rank 0. Only a peer that
/// sends pings without reading the answers exceeds it.
pub const MOST_UNSENT: usize = 64 << 10;

/// The time from the readiness of the last rank to the start. It is long enough for every rank to receive the start
/// message in time.
const LEAD: Duration = Duration::from_millis(100);
/// The time that is added to the lead for each rank.
const LEAD_OF_RANK: Duration = Duration::from_micros(200);

/// An event for the caller, which does the I/O of rank 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// The test starts at this instant.
    Start(Instant),
    /// The figures of a rank in one interval.
    Interval(u32, Vec<u8>),
    /// The result of a rank.
    Ended(u32, Vec<u8>),
    /// A rank was lost during the test, for this reason.
    Lost(u32, String),
    /// The test does not start. Only [`CoordinatorEvent::Close`] follows.
    Failed(String),
    /// The caller must close this connection after its bytes are sent.
    Close(u64),
}

/// The values that rank 0 expects from the members.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The expected first message of a member. The rank and the host are not compared.
    pub hello: Hello,
    /// The number of this test, chosen at random.
    pub test: u64,
    /// The maximum time to wait for all ranks.
    pub rendezvous: Duration,
    /// The time without a message after which a rank is lost.
    pub silence: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Rank 0 waits until all ranks are ready.
    Gathering,
    Running,
    Failed,
}

#[derive(Debug)]
struct Peer {
    link: Link,
    /// The rank of the peer; `None` until the peer has identified itself.
    rank: Option<u32>,
    since: Instant,
    last_heard: Instant,
    is_closing: bool,
}

#[derive(Debug, Default, Clone)]
struct Rank {
    connection: Option<u64>,
    host: String,
    is_ready: bool,
    /// Whether the rank's result has arrived or the rank is lost.
    is_over: bool,
}

/// The control connections of rank 0.
#[derive(Debug)]
pub struct Coordinator {
    expected: Expected,
    secret: Secret,
    stage: Stage,
    began: Instant,
    /// All ranks, beginning with rank 0.
    ranks: Vec<Rank>,
    peers: BTreeMap<u64, Peer>,
    events: VecDeque<CoordinatorEvent>,
    /// The reason why the last connection before the start was closed; the error about missing ranks quotes it.
    last_refusal: Option<String>,
}

impl Coordinator {
    /// Creates the coordinator. It waits for the ranks of a test from `now`.
    pub fn new(expected: Expected, secret: Secret, now: Instant) -> Coordinator {
        let ranks = vec![Rank::default(); expected.hello.ranks.max(1) as usize];
        Coordinator {
            expected,
            secret,
            stage: Stage::Gathering,
            began: now,
            ranks,
            peers: BTreeMap::new(),
            events: VecDeque::new(),
            last_refusal: None,
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<CoordinatorEvent> {
        self.events.pop_front()
    }

    /// The unsent bytes of a connection. The caller removes sent bytes from the front.
    pub fn outbox(&mut self, connection: u64) -> Option<&mut Vec<u8>> {
        Some(self.peers.get_mut(&connection)?.link.outbox())
    }

    /// Whether every other rank has sent its result or is lost.
    pub fn is_over(&self) -> bool {
        self.ranks.iter().skip(1).all(|rank| rank.is_over)
    }

    /// Whether another connection may be accepted now. Further connections wait in the backlog.
    pub fn has_room(&self) -> bool {
        let strangers = self.peers.values().filter(|peer| peer.rank.is_none());
        strangers.count() < MAX_UNIDENTIFIED
    }

    /// Adds an accepted connection. Returns false if there are too many connections; the caller must then close it.
    pub fn accept(&mut self, connection: u64, nonce: [u8; NONCE], now: Instant) -> bool {
        if !self.has_room() {
            return false;
        }
        let peer = Peer {
            link: Link::new(Side::RankZero, self.secret.clone(), nonce),
            rank: None,
            since: now,
            last_heard: now,
            is_closing: false,
        };
        self.peers.insert(connection, peer);
        true
    }

    /// Binds a connection to its TLS session. Must be called before the first byte of the connection.
    pub fn bind(&mut self, connection: u64, binding: &[u8; BINDING]) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.link.bind(binding);
        }
    }

    /// Processes bytes of a connection. They were read at the instant `now`.
    pub fn receive(&mut self, connection: u64, bytes: &[u8], now: Instant) {
        let peer = self.peers.get_mut(&connection);
        // Bytes that arrive after a connection has ended are ignored.
        let Some(peer) = peer.filter(|peer| !peer.is_closing) else {
            return;
        };
        peer.link.receive(bytes);
        loop {
            let Some(peer) = self.peers.get_mut(&connection) else {
                return;
            };
            if peer.is_closing {
                return;
            }
            match peer.link.message() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    peer.last_heard = now;
                    self.handle(connection, message, now);
                }
                Err(error) => return self.end(connection, &error.to_string()),
            }
        }
    }

    fn handle(&mut self, connection: u64, message: Message, now: Instant) {
        let rank = self.peers.get(&connection).and_then(|peer| peer.rank);
        let Some(rank) = rank else {
            return match message {
                Message::Hello(hello) => self.introduce(connection, hello),
                _ => self.end(connection, "its first message does not identify its rank"),
            };
        };
        match message {
            Message::Ping { sent } => {
                let read = now.as_nanos();
                self.send(connection, &Message::Pong { sent, read });
            }
            Message::Ready => {
                self.ranks[rank as usize].is_ready = true;
                self.start_if_ready(now);
            }
            Message::Interval(bytes) if self.stage == Stage::Running => {
                self.events
                    .push_back(CoordinatorEvent::Interval(rank, bytes));
            }
            Message::Ended(bytes) if self.stage == Stage::Running => {
                self.ranks[rank as usize].is_over = true;
                self.events.push_back(CoordinatorEvent::Ended(rank, bytes));
                self.send(connection, &Message::Done);
                self.close(connection);
            }
            Message::Failed(why) => {
                let why = printable(&why);
                self.end(connection, &format!("its share of the test failed: {why}"));
            }
            _ => self.end(connection, "it sent an unexpected message"),
        }
    }

    /// Handles the first message of a connection, which identifies its rank.
    fn introduce(&mut self, connection: u64, hello: Hello) {
        let expected = &self.expected.hello;
        let ranks = expected.ranks;
        let (rank, host) = (hello.rank, hello.host);
        if !is_host(&host) || !is_host(&hello.version) {
            let why = "the host name or the version is malformed".to_owned();
            return self.refuse(connection, why);
        }
        let name = format!("rank {rank} on {host}");
        if self.stage != Stage::Gathering {
            let why = "the test is running, and a rank cannot join it".to_owned();
            return self.refuse(connection, why);
        }
        let why = if hello.ranks != ranks {
            let theirs = hello.ranks;
            Some(format!(
                "{name} was started with {theirs} ranks, but rank 0 with {ranks}"
            ))
        } else if rank == 0 || rank >= ranks {
            Some(format!(
                "{name} is not one of the ranks 1 to {}",
                ranks.saturating_sub(1)
            ))
        } else if hello.version != expected.version {
            let (theirs, ours) = (hello.version, &expected.version);
            Some(format!(
                "{name} is version {theirs}, and rank 0 is version {ours}"
            ))
        } else if hello.plan != expected.plan {
            Some(format!(
                "{name} has another plan than rank 0: give every rank the same options, seed, workload and files"
            ))
        } else {
            None
        };
        if let Some(why) = why {
            self.refuse(connection, why.clone());
            return self.fail(why);
        }
        let known = &mut self.ranks[rank as usize];
        if known.connection.is_some() {
            let why = format!(
                "there are two ranks {rank}: on {} and on {host}",
                known.host
            );
            return self.refuse(connection, why);
        }
        *known = Rank {
            connection: Some(connection),
            host,
            ..Rank::default()
        };
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.rank = Some(rank);
        }
        self.send(connection, &Message::Welcome);
    }

    /// Records that the event loops of rank 0 are ready.
    pub fn ready(&mut self, now: Instant) {
        self.ranks[0].is_ready = true;
        self.start_if_ready(now);
    }

    fn start_if_ready(&mut self, now: Instant) {
        if self.stage != Stage::Gathering || !self.ranks.iter().all(|rank| rank.is_ready) {
            return;
        }
        self.stage = Stage::Running;
        let at = now + LEAD + LEAD_OF_RANK * self.ranks.len() as u32;
        self.events.push_back(CoordinatorEvent::Start(at));
        let start = Message::Start {
            at: at.as_nanos(),
            test: self.expected.test,
        };
        self.tell_all(&start);
    }

    /// Ends the test early on every rank. Before the start, the test fails.
    pub fn stop(&mut self, why: &str) {
        match self.stage {
            Stage::Gathering => self.fail(why.to_owned()),
            Stage::Running => self.tell_all(&Message::Stop),
            Stage::Failed => {}
        }
    }

    fn tell_all(&mut self, message: &Message) {
        let of = |rank: &Rank| rank.connection.filter(|_| !rank.is_over);
        let connections: Vec<u64> = self.ranks.iter().filter_map(of).collect();
        for connection in connections {
            self.send(connection, message);
        }
    }

    /// Records that a connection was closed.
    pub fn closed(&mut self, connection: u64, why: &str) {
        // A member checks the proof of rank 0 first. It closes the connection if the proof is wrong.
        let peer = self.peers.get(&connection);
        match peer.is_some_and(|peer| peer.link.waits_for_proof()) {
            true => self.end(connection, &format!("{why}: {}", LinkError::Secret)),
            false => self.end(connection, why),
        }
        self.peers.remove(&connection);
    }

    /// The number of this test.
    pub fn test(&self) -> u64 {
        self.expected.test
    }

    /// Marks a rank as lost because its figures cannot be used.
    pub fn give_up_rank(&mut self, rank: u32, why: &str) {
        if let Some(connection) = self
            .ranks
            .get(rank as usize)
            .and_then(|rank| rank.connection)
        {
            self.end(connection, why);
        }
    }

    /// Marks all ranks that have not finished as lost.
    pub fn give_up(&mut self, why: &str) {
        let of = |rank: &Rank| rank.connection.filter(|_| !rank.is_over);
        let connections: Vec<u64> = self.ranks.iter().filter_map(of).collect();
        for connection in connections {
            self.end(connection, why);
        }
    }

    /// Closes a connection. If the test is running and the connection belongs to a rank, this rank is lost.
    fn end(&mut self, connection: u64, why: &str) {
        let Some(peer) = self.peers.get(&connection).filter(|peer| !peer.is_closing) else {
            return;
        };
        let rank = peer.rank;
        self.close(connection);
        let Some(number) = rank else {
            self.last_refusal = Some(why.to_owned());
            return;
        };
        let rank = &mut self.ranks[number as usize];
        match self.stage {
            // The launcher may restart the rank before the test starts.
            Stage::Gathering => {
                *rank = Rank::default();
                self.last_refusal = Some(format!("rank {number}: {why}"));
            }
            Stage::Running if !rank.is_over => {
                rank.is_over = true;
                let event = CoordinatorEvent::Lost(number, why.to_owned());
                self.events.push_back(event);
            }
            _ => {}
        }
    }

    fn refuse(&mut self, connection: u64, why: String) {
        self.send(connection, &Message::Refused(why.clone()));
        self.last_refusal = Some(why);
        self.close(connection);
    }

    fn fail(&mut self, why: String) {
        if self.stage == Stage::Failed {
            return;
        }
        let refused = Message::Refused(format!("the test did not start: {why}"));
        self.tell_all(&refused);
        self.stage = Stage::Failed;
        self.events.push_back(CoordinatorEvent::Failed(why));
        for connection in self.peers.keys().copied().collect::<Vec<_>>() {
            self.close(connection);
        }
    }

    fn close(&mut self, connection: u64) {
        if let Some(peer) = self.peers.get_mut(&connection)
            && !peer.is_closing
        {
            peer.is_closing = true;
            self.events.push_back(CoordinatorEvent::Close(connection));
        }
    }

    fn send(&mut self, connection: u64, message: &Message) {
        let peer = self.peers.get_mut(&connection);
        let Some(peer) = peer.filter(|peer| !peer.is_closing) else {
            return;
        };
        match peer.link.send(message) {
            Err(error) => self.end(connection, &error.to_string()),
            Ok(()) if peer.link.outbox().len() > MOST_UNSENT => {
                self.end(connection, "it does not read the messages of rank 0");
            }
            Ok(()) => {}
        }
    }

    /// Handles all time-outs that are due.
    pub fn tick(&mut self, now: Instant) {
        let silence = self.expected.silence;
        let late = |(&connection, peer): (&u64, &Peer)| {
            let is_late = match peer.rank {
                None => now.since(peer.since) >= IDENTIFY_TIMEOUT,
                Some(_) => now.since(peer.last_heard) >= silence,
            };
            (is_late && !peer.is_closing).then_some((connection, peer.rank))
        };
        let late: Vec<(u64, Option<u32>)> = self.peers.iter().filter_map(late).collect();
        for (connection, rank) in late {
            match rank {
                None => self.end(connection, "a connection did not identify its rank in time"),
                Some(_) => self.end(connection, &format!("it sent no message for {silence:?}")),
            }
        }
        if self.stage == Stage::Gathering && now.since(self.began) >= self.expected.rendezvous {
            self.fail(self.missing());
        }
    }

    /// Returns the error about the ranks that are missing at the end of the rendezvous.
    fn missing(&self) -> String {
        let there = |rank: &&Rank| rank.connection.is_some();
        let ranks = self.ranks.len();
        let found = 1 + self.ranks.iter().skip(1).filter(there).count();
        let time = self.expected.rendezvous;
        let mut why = if found == ranks {
            let not_ready = self.ranks.iter().position(|rank| !rank.is_ready);
            format!(
                "rank {} was not ready within {time:?}",
                not_ready.unwrap_or(0)
            )
        } else {
            let missing = self.ranks.iter().enumerate().skip(1);
            let missing = missing.filter(|(_, rank)| rank.connection.is_none());
            let numbers: Vec<String> = missing.take(10).map(|(n, _)| n.to_string()).collect();
            format!(
                "only {found} of {ranks} ranks connected within {time:?}; the first missing ranks: {}",
                numbers.join(", ")
            )
        };
        if let Some(stranger) = &self.last_refusal {
            why.push_str(&format!("; the last refused connection: {stranger}"));
        }
        why.push_str("; check that all ranks start, or set a longer --rendezvous-timeout");
        why
    }
}
