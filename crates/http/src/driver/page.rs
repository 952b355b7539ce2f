//! The page driver: its state, what is told to it and what it answers.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{
    Bytes, CloseReason, Failure, FileArrival, Instant, ServiceRecord, TlsRecord,
};

use super::base::BaseFile;
use super::cache::ValidatorCache;
use super::item::{Exchange, Item, Job, KnownBy};
use super::kind::FileKind;
use super::link::{Link, LinkState};
use super::machine::Machine;
use super::options::{Options, Visit};
use super::policy::Policy;
use super::retrieval::{BundleAnswer, Counters, Milestones, Octets, Retrieval};
use super::unbundle::Bundling;

/// A connection of one retrieval: they are numbered from 0 in the order they are asked for, and the
/// number is [`ConnectionRecord::connection`](fathometer_model::ConnectionRecord::connection).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What the host of the driver is to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open it for [`PageDriver::protocol_of`] (and to [`PageDriver::port_of`], where that names one), and
    /// report [`PageDriver::handle_connected`] or [`PageDriver::handle_failure`]. Where
    /// the policy wants TLS it is connected when that may carry requests; the name to ask for is
    /// [`PageDriver::host_of`].
    Connect(ConnectionId),
    /// End the client's side (send FIN, with TLS after its closure alert) and go on reading.
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
    /// The names of the hosts that the page's files are spread over; the base file is on the first.
    pub(super) host_names: Vec<String>,
    /// The base file is the first, or what a bundle of a list is asked for with; embedded files follow
    /// in the order they were found.
    pub(super) items: Vec<Item>,
    pub(super) known: HashMap<String, usize>,
    /// What is to be asked as soon as a connection takes it.
    pub(super) queue: VecDeque<Job>,
    /// What is to be asked again, before the queue.
    pub(super) again: VecDeque<Job>,
    pub(super) links: Vec<Link>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) base: Option<BaseFile>,
    /// The base file is dealt with: no further reference can be found in it.
    pub(super) base_done: bool,
    /// Scripts that are being executed, one after another, each with its end.
    pub(super) executions: VecDeque<(Instant, usize)>,
    /// Items that the page needs and that are neither done nor failed.
    pub(super) unresolved: usize,
    /// Exchanges that wait for the first part of an image.
    pub(super) first_parts: usize,
    /// A connection ended unannounced and left requests unanswered: do not pipeline on the next one
    /// before it has answered (RFC 9112 section 9.3.2).
    pub(super) distrust: bool,
    pub(super) bundling: Bundling,
    /// Items that are not asked for while they may be in a bundle that is under way.
    pub(super) withheld: Vec<usize>,
    pub(super) bundle_answer: Option<BundleAnswer>,
    /// Items in the order in which they could be used.
    pub(super) arrivals: Vec<usize>,
    pub(super) page_end: Option<Instant>,
    pub(super) actions: VecDeque<Action>,
    pub(super) milestones: Milestones,
    pub(super) octets: Octets,
    pub(super) counters: Counters,
    pub(super) failures: Vec<(String, Failure)>,
    /// What became known and what became of alternative services.
    pub(super) services: Vec<ServiceRecord>,
}

impl PageDriver {
    /// A driver that is about to retrieve the page at `base_target`, or the list of
    /// [`Options::list`]. With [`Visit::First`] the cache is not asked, and filled all the same.
    pub fn new(
        policy: Policy,
        options: Options,
        visit: Visit,
        base_target: String,
        cache: ValidatorCache,
        start: Instant,
    ) -> PageDriver {
        let host_names = options.host_names(&policy);
        let mut driver = PageDriver {
            policy,
            options,
            visit,
            cache,
            host_names,
            items: Vec::new(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            again: VecDeque::new(),
            links: Vec::new(),
            exchanges: Vec::new(),
            base: None,
            base_done: false,
            executions: VecDeque::new(),
            unresolved: 0,
            first_parts: 0,
            distrust: false,
            bundling: Bundling::Over,
            withheld: Vec::new(),
            bundle_answer: None,
            arrivals: Vec::new(),
            page_end: None,
            actions: VecDeque::new(),
            milestones: Milestones::default(),
            octets: Octets::default(),
            counters: Counters::default(),
            failures: Vec::new(),
            services: Vec::new(),
        };
        driver.recall_services(start);
        match driver.options.list.clone() {
            None => driver.want(base_target, FileKind::Document, None, start),
            Some(list) => driver.want_list(&list, start),
        }
        driver.advance(start);
        driver
    }

    /// The name of the host that a connection leads to, as its requests say it, without a port: what
    /// TLS asks for.
    pub fn host_of(&self, conn: ConnectionId) -> &str {
        let link = self.links.get(conn.0 as usize);
        let host = link.map_or(0, |link| usize::from(link.host));
        without_port(&self.host_names[host])
    }

    /// The policy it follows.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Says that a connection is established and can carry requests.
    pub fn handle_connected(&mut self, conn: ConnectionId, now: Instant) {
        if let Some(link) = self.links.get_mut(conn.0 as usize)
            && matches!(link.state, LinkState::Connecting { .. })
        {
            link.state = LinkState::Open;
            link.record.established = Some(now);
        }
        self.advance(now);
    }

    /// Notes how a connection is protected and what is spoken on it (by its name in ALPN), for the
    /// records alone.
    pub fn note_protection(
        &mut self,
        conn: ConnectionId,
        protocol: Option<String>,
        tls: TlsRecord,
    ) {
        if let Some(link) = self.links.get_mut(conn.0 as usize) {
            link.record.protocol = protocol;
            link.record.tls = Some(tls);
        }
    }

    /// Takes what was read from a connection.
    pub fn handle_data(&mut self, conn: ConnectionId, bytes: &[u8], now: Instant) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place)
            && link.state != LinkState::Closed
        {
            link.record.received += Bytes(bytes.len() as u64);
            self.octets.received += Bytes(bytes.len() as u64);
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

    fn ended(&mut self, conn: ConnectionId, now: Instant, tell: impl FnOnce(&mut Machine)) {
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
        let place = conn.0 as usize;
        let link = &mut self.links[place];
        link.machine.transmitted(octets, now);
        link.record.sent += Bytes(octets as u64);
        if let Some(flush) = link.flushes.front_mut() {
            *flush -= octets;
            if *flush == 0 {
                link.flushes.pop_front();
            }
        }
        self.note_sent(place, now);
        let draining = matches!(self.links[place].state, LinkState::Draining { .. });
        if draining && self.transmit(conn).is_empty() {
            self.part(place, now);
        }
    }

    /// Notes which requests have had their first octet handed to the transport.
    pub(super) fn note_sent(&mut self, place: usize, now: Instant) {
        let link = &mut self.links[place];
        let sent = (link.machine.first_unsent().0 as usize).min(link.exchanges.len());
        for &exchange in link.exchanges.get(link.sent..sent).unwrap_or_default() {
            let exchange = &mut self.exchanges[exchange];
            exchange.record.sent = Some(now);
            let first = exchange.job.item == 0 || self.options.list.is_some();
            if !first {
                self.milestones.first_image_request_sent.get_or_insert(now);
            }
        }
        link.sent = link.sent.max(sent);
    }

    /// The next thing to do with a connection, in the order decided.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether there is something to do with a connection.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// What may be written to a connection now: the octets of one flush, or what is left of it.
    /// Empty while it is not established, and when nothing was flushed. What a protocol says of its own
    /// accord (acknowledgements, windows, a last word) leaves without a flush.
    pub fn transmit(&self, conn: ConnectionId) -> &[u8] {
        let Some(link) = self.links.get(conn.0 as usize) else {
            return &[];
        };
        let released = match link.state {
            LinkState::Open => link.machine.transmit(),
            LinkState::Draining { .. } if link.parting.is_some() => link.machine.transmit(),
            _ => return &[],
        };
        if link.multiplexes() {
            return released;
        }
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
        let executed = self.executions.front().map(|&(end, _)| end);
        of_links.chain(idle).chain(executed).min()
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
            if item.resolved.is_none() && item.wanted && item.known_by != KnownBy::Folder {
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
        self.note_critical();
        self.counters.pushes_unused = self.unused(KnownBy::Push);
        self.counters.bundled_unused = self.unused(KnownBy::Bundle);
        Retrieval {
            files: self.arrived(),
            bundle: self.bundle_answer,
            exchanges: self.exchanges.into_iter().map(|e| e.record).collect(),
            connections: self.links.into_iter().map(|link| link.record).collect(),
            cache: self.cache,
            milestones: self.milestones,
            octets: self.octets,
            counters: self.counters,
            failures: self.failures,
            services: self.services,
        }
    }

    /// The files that can be used and are needed, in order.
    fn arrived(&self) -> Vec<FileArrival> {
        let items = self.arrivals.iter().map(|&place| &self.items[place]);
        let needed = items.filter(|item| item.wanted);
        let arrival = |item: &Item| {
            Some(FileArrival {
                target: item.target.clone(),
                octets: Bytes(item.received),
                started: item.started?,
                usable: item.resolved?.at,
                read: item.resolved?.octets,
                by: item.by?,
            })
        };
        needed.filter_map(arrival).collect()
    }

    /// Files that came this way and that nothing of the page named.
    fn unused(&self, known_by: KnownBy) -> u32 {
        let items = self.items.iter();
        items
            .filter(|item| !item.wanted && item.known_by == known_by)
            .count() as u32
    }

    /// Finds out when the last critical file was there, which is known only now that no further one can
    /// turn up.
    fn note_critical(&mut self) {
        let needed = || self.items.iter().filter(|item| item.wanted);
        let critical = || needed().filter(|item| item.kind.is_critical());
        let failed = |item: &Item| {
            self.failures
                .iter()
                .any(|(target, _)| *target == item.target)
        };
        let is_missing = |item: &Item| item.resolved.is_none() || failed(item);
        if self.page_end.is_none() || critical().any(is_missing) {
            return;
        }
        let last = critical().filter_map(|item| item.resolved);
        if let Some(last) = last.max_by_key(|resolved| resolved.at) {
            self.milestones.critical_complete = Some(last.at);
            self.octets.critical_complete = Some(last.octets);
        }
    }

    /// Does whatever has become possible. Every input ends here.
    pub(super) fn advance(&mut self, now: Instant) {
        loop {
            self.end_executions(now);
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
        if self.unresolved > 0 || !self.executions.is_empty() || self.bundling.is_open() {
            return false;
        }
        self.page_end.get_or_insert(now);
        let is_whole = self.failures.is_empty() && self.counters.references_left_out == 0;
        if is_whole && self.milestones.page_complete.is_none() {
            self.milestones.page_complete = Some(now);
            self.octets.page_complete = Some(self.octets.received);
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
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// `host[:port]` without its port. An IPv6 address keeps its brackets off, as TLS wants it.
pub(super) fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
