//! The page driver: its state, what is told to it and what it answers.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{
    Bytes, CloseReason, ConnectionRecord, ExchangeRecord, Failure, Instant, Outcome,
};

use super::base::BaseFile;
use super::cache::{CacheEntry, ValidatorCache};
use super::image::Sizer;
use super::options::{CloseManner, Options, Visit};
use super::policy::Policy;
use super::retrieval::{Counters, Milestones, Retrieval};
use crate::h1::client::{Config, Connection};
use crate::html::ReferenceKind;

/// A connection of one retrieval: they are numbered from 0 in the order they are asked for, and the
/// number is [`ConnectionRecord::connection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What the host of the driver is to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open it, and report [`PageDriver::handle_connected`] or [`PageDriver::handle_failure`].
    Connect(ConnectionId),
    /// End the client's side (send FIN) and go on reading.
    ShutdownWrite(ConnectionId),
    /// Close it and forget it. Every connection that was asked for ends in exactly one `Close` or
    /// `Abort`, failed ones included.
    Close(ConnectionId),
    /// Reset it and forget it: the server broke the rules or a time limit.
    Abort(ConnectionId),
}

/// Retrieves one page over as many connections as the policy says. See the [module](super) for how
/// to drive it.
#[derive(Debug)]
pub struct PageDriver {
    pub(super) policy: Policy,
    pub(super) options: Options,
    pub(super) visit: Visit,
    pub(super) cache: ValidatorCache,
    /// The base file is the first; embedded files follow in the order they were found.
    pub(super) items: Vec<Item>,
    pub(super) known: HashMap<String, usize>,
    /// What is to be asked as soon as a connection takes it.
    pub(super) queue: VecDeque<Job>,
    /// What is to be asked again, before the queue.
    pub(super) again: VecDeque<Job>,
    pub(super) links: Vec<Link>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) base: Option<BaseFile>,
    /// The base file is dealt with: no further reference can be found.
    pub(super) base_done: bool,
    /// Items that are neither done nor failed.
    pub(super) unresolved: usize,
    /// Exchanges that wait for the first part of an image.
    pub(super) first_parts: usize,
    /// A connection ended unannounced and left requests unanswered: do not pipeline on the next one
    /// before it has answered (RFC 9112 section 9.3.2).
    pub(super) distrust: bool,
    pub(super) page_end: Option<Instant>,
    pub(super) actions: VecDeque<Action>,
    pub(super) milestones: Milestones,
    pub(super) counters: Counters,
    pub(super) failures: Vec<(String, Failure)>,
}

/// One file of the page.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) target: String,
    /// `None` for the base file.
    pub(super) kind: Option<ReferenceKind>,
    pub(super) planned: Instant,
    pub(super) retries: u16,
    pub(super) resolved: bool,
    pub(super) sizer: Sizer,
    /// Octets of the file received in order from its first.
    pub(super) received: u64,
    /// The octets it is known to have.
    pub(super) complete: Option<u64>,
    /// What the cache will remember of the copy that is being received.
    pub(super) fresh: CacheEntry,
}

impl Item {
    pub(super) fn new(target: String, kind: Option<ReferenceKind>, planned: Instant) -> Item {
        Item {
            target,
            kind,
            planned,
            retries: 0,
            resolved: false,
            sizer: Sizer::new(),
            received: 0,
            complete: None,
            fresh: CacheEntry::default(),
        }
    }

    pub(super) fn is_image(&self) -> bool {
        self.kind.is_some_and(ReferenceKind::is_image)
    }
}

/// A file and what to ask of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) item: usize,
    pub(super) ask: Ask,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Whole { conditional: bool },
    FirstPart { conditional: bool },
    Rest,
    Head,
}

/// A request that was given to a connection.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) record: ExchangeRecord,
    pub(super) job: Job,
    pub(super) meaning: Meaning,
}

/// What the response to a request is, once its head is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Unknown,
    /// The base file itself.
    Base,
    /// An embedded file, whole.
    Whole,
    /// A part of an embedded file.
    Part,
    /// There is nothing further of this file.
    Had,
    /// The copy in the cache is current.
    Current,
    /// The copy in the cache is not current, and the response does not bring a new one.
    Changed,
    /// No copy of the file, and none to be had by asking again: an error status.
    Nothing,
    /// Not what was asked for: ask for the whole file.
    Unusable,
    /// The content was wrong within good HTTP.
    Broken(Failure),
}

/// One connection: the machine, and what the driver knows besides.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) machine: Connection,
    pub(super) state: LinkState,
    /// The exchange of each request, by its number on the connection.
    pub(super) exchanges: Vec<usize>,
    /// How many of them have had their first octet handed to the transport.
    pub(super) sent: usize,
    /// The sizes of flushes not yet handed over whole: each is offered by itself.
    pub(super) flushes: VecDeque<usize>,
    /// When held octets leave at the latest.
    pub(super) flush_by: Option<Instant>,
    /// Whether held octets include a request that stands for itself and is no rest of a file.
    pub(super) holds_primary: bool,
    pub(super) holds_base: bool,
    /// Not to be pipelined on before its first answer.
    pub(super) cautious: bool,
    pub(super) record: ConnectionRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Connecting {
        until: Option<Instant>,
    },
    Open,
    /// Done with; waiting for the server's end.
    Draining {
        until: Instant,
    },
    Closed,
}

impl Link {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, LinkState::Connecting { .. } | LinkState::Open)
    }
}

impl PageDriver {
    /// A driver that is about to retrieve the page at `base_target`. With [`Visit::First`] the
    /// cache is not asked, and filled all the same.
    pub fn new(
        policy: Policy,
        options: Options,
        visit: Visit,
        base_target: String,
        cache: ValidatorCache,
        start: Instant,
    ) -> PageDriver {
        let mut driver = PageDriver {
            policy,
            options,
            visit,
            cache,
            items: Vec::new(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            again: VecDeque::new(),
            links: Vec::new(),
            exchanges: Vec::new(),
            base: None,
            base_done: false,
            unresolved: 0,
            first_parts: 0,
            distrust: false,
            page_end: None,
            actions: VecDeque::new(),
            milestones: Milestones::default(),
            counters: Counters::default(),
            failures: Vec::new(),
        };
        driver.want(base_target, None, start);
        driver.advance(start);
        driver
    }

    /// Says that a connection is established.
    pub fn handle_connected(&mut self, conn: ConnectionId, now: Instant) {
        if let Some(link) = self.links.get_mut(conn.0 as usize)
            && matches!(link.state, LinkState::Connecting { .. })
        {
            link.state = LinkState::Open;
            link.record.established = Some(now);
        }
        self.advance(now);
    }

    /// Takes what was read from a connection.
    pub fn handle_data(&mut self, conn: ConnectionId, bytes: &[u8], now: Instant) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place)
            && link.state != LinkState::Closed
        {
            link.record.received += Bytes(bytes.len() as u64);
            if link.is_live() {
                self.pump(place, bytes, now);
                self.after_pump(place, false, now);
            }
        }
        self.advance(now);
    }

    /// Says that the server has ended its side of a connection.
    pub fn handle_eof(&mut self, conn: ConnectionId, now: Instant) {
        self.ended(conn, now, |machine| machine.handle_eof(now));
    }

    /// Says that a connection failed, or could not be established.
    pub fn handle_failure(&mut self, conn: ConnectionId, failure: Failure, now: Instant) {
        self.ended(conn, now, |machine| machine.handle_failure(failure, now));
    }

    fn ended(&mut self, conn: ConnectionId, now: Instant, tell: impl FnOnce(&mut Connection)) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place) {
            if link.is_live() {
                tell(&mut link.machine);
                self.pump(place, &[], now);
                self.after_pump(place, true, now);
            } else {
                self.close(place, Action::Close(conn), now);
            }
        }
        self.advance(now);
    }

    /// Acts on every time limit that has passed. Spurious calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        for place in 0..self.links.len() {
            let conn = ConnectionId(place as u32);
            let link = &mut self.links[place];
            match link.state {
                LinkState::Connecting { until: Some(until) } if until <= now => {
                    link.machine.handle_failure(Failure::TimedOut, now);
                }
                LinkState::Draining { until } if until <= now => {
                    self.close(place, Action::Close(conn), now);
                    continue;
                }
                LinkState::Draining { .. } | LinkState::Closed => continue,
                _ => link.machine.handle_timeout(now),
            }
            self.pump(place, &[], now);
            self.after_pump(place, false, now);
            self.flush_by_timer(place, now);
        }
        self.advance(now);
    }

    /// Says that a connection's transport took the first `octets` of what
    /// [`transmit`](Self::transmit) gave.
    ///
    /// # Panics
    /// When that is more than it gave.
    pub fn transmitted(&mut self, conn: ConnectionId, octets: usize, now: Instant) {
        assert!(octets <= self.transmit(conn).len(), "more than was offered");
        if octets == 0 {
            return;
        }
        let link = &mut self.links[conn.0 as usize];
        link.machine.transmitted(octets, now);
        link.record.sent += Bytes(octets as u64);
        if let Some(flush) = link.flushes.front_mut() {
            *flush -= octets;
            if *flush == 0 {
                link.flushes.pop_front();
            }
        }
        let sent = link.machine.first_unsent().0 as usize;
        for &exchange in &link.exchanges[link.sent..sent] {
            let exchange = &mut self.exchanges[exchange];
            exchange.record.sent = Some(now);
            if exchange.job.item != 0 {
                self.milestones.first_image_request_sent.get_or_insert(now);
            }
        }
        link.sent = sent;
    }

    /// The next thing to do with a connection, in the order decided.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What may be written to a connection now: the octets of one flush, or what is left of it.
    /// Empty while it is not established, and when nothing was flushed.
    pub fn transmit(&self, conn: ConnectionId) -> &[u8] {
        let link = match self.links.get(conn.0 as usize) {
            Some(link) if link.state == LinkState::Open => link,
            _ => return &[],
        };
        let released = link.machine.transmit();
        let flush = link.flushes.front().copied().unwrap_or(0);
        &released[..flush.min(released.len())]
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_links = self.links.iter().filter_map(|link| match link.state {
            LinkState::Connecting { until } => earliest(until, link.flush_by),
            LinkState::Open => earliest(link.machine.poll_timeout(), link.flush_by),
            LinkState::Draining { until } => Some(until),
            LinkState::Closed => None,
        });
        let idle = self.close_at().filter(|_| self.has_live_links());
        of_links.chain(idle).min()
    }

    /// Whether the page is dealt with and every connection is closed.
    pub fn is_finished(&self) -> bool {
        self.page_end.is_some()
            && self
                .links
                .iter()
                .all(|link| link.state == LinkState::Closed)
    }

    /// What came of it. What is not finished is recorded as given up by the client, and connections
    /// that are still there as open.
    pub fn finish(mut self, now: Instant) -> Retrieval {
        for item in &self.items {
            if !item.resolved {
                let failure = (item.target.clone(), Failure::LocalAbort);
                self.failures.push(failure);
            }
        }
        for link in &mut self.links {
            if link.is_live() {
                link.record.close = CloseReason::Open;
            } else if link.record.closed.is_none() {
                link.record.closed = Some(now);
            }
        }
        Retrieval {
            exchanges: self.exchanges.into_iter().map(|e| e.record).collect(),
            connections: self.links.into_iter().map(|link| link.record).collect(),
            cache: self.cache,
            milestones: self.milestones,
            counters: self.counters,
            failures: self.failures,
        }
    }

    /// Adds a file to the page, unless it is there already.
    pub(super) fn want(&mut self, target: String, kind: Option<ReferenceKind>, now: Instant) {
        if self.known.contains_key(&target) || self.items.len() > super::MOST_FILES {
            return;
        }
        let item = self.items.len();
        self.known.insert(target.clone(), item);
        self.items.push(Item::new(target, kind, now));
        self.unresolved += 1;
        let ask = self.first_ask(item);
        self.queue.push_back(Job { item, ask });
    }

    /// Does whatever has become possible. Every input ends here.
    fn advance(&mut self, now: Instant) {
        loop {
            self.dispatch(now);
            self.flush(now);
            // Closing a connection can fail requests and so make room for others.
            if !self.settle(now) {
                return;
            }
        }
    }

    /// Ends the retrieval when nothing is left to ask. Whether that changed anything.
    fn settle(&mut self, now: Instant) -> bool {
        if self.unresolved > 0 {
            return false;
        }
        self.page_end.get_or_insert(now);
        if self.failures.is_empty() {
            self.milestones.page_complete.get_or_insert(now);
        }
        if self.close_at().is_none_or(|at| now < at) {
            return false;
        }
        let mut changed = false;
        for place in 0..self.links.len() {
            if self.links[place].is_live() {
                self.links[place].machine.finish();
                self.pump(place, &[], now);
                self.after_pump(place, false, now);
                changed = true;
            }
        }
        changed
    }

    /// When persistent connections are closed, once that is known.
    fn close_at(&self) -> Option<Instant> {
        let wait = match self.policy.early_close {
            true => std::time::Duration::ZERO,
            false => self.options.idle_wait,
        };
        self.page_end.map(|end| end + wait)
    }

    fn has_live_links(&self) -> bool {
        self.links.iter().any(Link::is_live)
    }

    /// Opens one more connection.
    pub(super) fn open_link(&mut self, now: Instant) -> usize {
        let place = self.links.len();
        let config = Config {
            depth: self.policy.pipeline.unwrap_or(1),
            limits: self.options.limits,
            timeouts: self.options.timeouts,
        };
        let until = self.options.connect_timeout.map(|limit| now + limit);
        self.links.push(Link {
            machine: Connection::new(config),
            state: LinkState::Connecting { until },
            exchanges: Vec::new(),
            sent: 0,
            flushes: VecDeque::new(),
            flush_by: None,
            holds_primary: false,
            holds_base: false,
            cautious: self.distrust,
            record: ConnectionRecord {
                connection: place as u32,
                opened: now,
                established: None,
                closed: None,
                exchanges: 0,
                sent: Bytes(0),
                received: Bytes(0),
                close: CloseReason::Open,
            },
        });
        let conn = ConnectionId(place as u32);
        self.actions.push_back(Action::Connect(conn));
        place
    }

    /// Closes the transport when the machine is done with it.
    fn after_pump(&mut self, place: usize, ended: bool, now: Instant) {
        let link = &mut self.links[place];
        let Some(reason) = link.machine.close_reason() else {
            return;
        };
        let conn = ConnectionId(place as u32);
        let was_open = link.state == LinkState::Open;
        link.record.close = reason;
        link.flush_by = None;
        self.distrust = match reason {
            CloseReason::ServerEarly => ended,
            CloseReason::Failed(_) => true,
            _ => self.distrust,
        };
        if ended {
            return self.close(place, Action::Close(conn), now);
        }
        match (reason, self.options.close) {
            (CloseReason::Failed(_), _) => self.close(place, Action::Abort(conn), now),
            (_, CloseManner::Half) if was_open => {
                if reason == CloseReason::Finished {
                    self.actions.push_back(Action::ShutdownWrite(conn));
                }
                let until = now + self.options.close_wait;
                self.links[place].state = LinkState::Draining { until };
            }
            _ => self.close(place, Action::Close(conn), now),
        }
    }

    fn close(&mut self, place: usize, action: Action, now: Instant) {
        let link = &mut self.links[place];
        if link.state != LinkState::Closed {
            link.state = LinkState::Closed;
            link.record.closed = Some(now);
            self.actions.push_back(action);
        }
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// A record of a request about to be queued.
pub(super) fn new_record(
    exchange: usize,
    connection: usize,
    method: &str,
    item: &Item,
    head: Bytes,
) -> ExchangeRecord {
    ExchangeRecord {
        exchange: exchange as u32,
        connection: connection as u32,
        method: method.to_owned(),
        target: item.target.clone(),
        planned: item.planned,
        sent: None,
        first_byte: None,
        last_byte: None,
        request_head: head,
        request_body: Bytes(0),
        response_head: Bytes(0),
        response_body: Bytes(0),
        status: None,
        // Until it is known better: what it is when the retrieval is cut short.
        outcome: Outcome::Failed(Failure::LocalAbort),
    }
}
