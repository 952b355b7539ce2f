//! The page driver: its state, its inputs and its outputs.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{
    Bytes, CloseReason, Failure, FileArrival, Instant, ServiceRecord, TlsRecord,
};

use super::action::{Action, ConnectionId};
use super::base::BaseFile;
use super::bundling::Bundling;
use super::cache::ValidatorCache;
use super::item::{Exchange, Item, Job, KnownBy};
use super::kind::FileKind;
use super::link::{Link, LinkState};
use super::machine::Machine;
use super::options::{Options, Visit};
use super::policy::Policy;
use super::retrieval::{BundleAnswer, ByteCounts, Counters, Milestones, Retrieval};

/// Retrieves one page over the connections of the policy. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct PageDriver {
    pub(super) policy: Policy,
    pub(super) options: Options,
    pub(super) visit: Visit,
    pub(super) cache: ValidatorCache,
    /// The names of the hosts over which the page's files are spread; the base file is on the first.
    pub(super) host_names: Vec<String>,
    /// The first item is the base file, or the folder of a list's bundle. Embedded files follow in the order in
    /// which they were found.
    pub(super) items: Vec<Item>,
    pub(super) known: HashMap<String, usize>,
    /// Requests to be sent as soon as a connection accepts them.
    pub(super) queue: VecDeque<Job>,
    /// Requests to be retried; they are sent before those in `queue`.
    pub(super) again: VecDeque<Job>,
    pub(super) links: Vec<Link>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) base: Option<BaseFile>,
    /// Whether the base file is finished, so that no further reference can be found in it.
    pub(super) base_done: bool,
    /// Scripts in execution, each with the time at which it ends. They are executed one after another.
    pub(super) executions: VecDeque<(Instant, usize)>,
    /// Number of items that the page needs and that are neither resolved nor failed.
    pub(super) unresolved: usize,
    /// Number of exchanges that wait for the first part of an image.
    pub(super) first_parts: usize,
    /// Whether a connection closed without notice and left requests unanswered. The next connection is then not
    /// pipelined before its first response (RFC 9112 section 9.3.2).
    pub(super) avoid_pipelining: bool,
    pub(super) bundling: Bundling,
    /// Items that are not requested while a bundle in flight may contain them.
    pub(super) withheld: Vec<usize>,
    pub(super) bundle_answer: Option<BundleAnswer>,
    /// Items in the order in which they became usable.
    pub(super) arrivals: Vec<usize>,
    pub(super) page_end: Option<Instant>,
    pub(super) actions: VecDeque<Action>,
    pub(super) milestones: Milestones,
    pub(super) bytes: ByteCounts,
    pub(super) counters: Counters,
    pub(super) failures: Vec<(String, Failure)>,
    /// Events of alternative services.
    pub(super) services: Vec<ServiceRecord>,
}

impl PageDriver {
    /// Creates a driver for the page at `base_target`, or for the list [`Options::list`]. With [`Visit::First`] the
    /// cache is filled but not used.
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
            avoid_pipelining: false,
            bundling: Bundling::Over,
            withheld: Vec::new(),
            bundle_answer: None,
            arrivals: Vec::new(),
            page_end: None,
            actions: VecDeque::new(),
            milestones: Milestones::default(),
            bytes: ByteCounts::default(),
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

    /// The name of the host to which a connection leads, without a port: the server name for TLS.
    pub fn host_of(&self, conn: ConnectionId) -> &str {
        let link = self.links.get(conn.0 as usize);
        let host = link.map_or(0, |link| usize::from(link.host));
        without_port(&self.host_names[host])
    }

    /// The connection policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Notes that a connection is established and can carry requests.
    pub fn handle_connected(&mut self, conn: ConnectionId, now: Instant) {
        if let Some(link) = self.links.get_mut(conn.0 as usize)
            && matches!(link.state, LinkState::Connecting { .. })
        {
            link.state = LinkState::Open;
            link.record.established = Some(now);
        }
        self.advance(now);
    }

    /// Records the TLS parameters of a connection and its protocol (ALPN name). They are used only in records.
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

    /// Takes the bytes read from a connection.
    pub fn handle_data(&mut self, conn: ConnectionId, bytes: &[u8], now: Instant) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place)
            && link.state != LinkState::Closed
        {
            link.record.received += Bytes(bytes.len() as u64);
            self.bytes.received += Bytes(bytes.len() as u64);
            if link.is_live() {
                self.pump(place, bytes, now);
                self.after_pump(place, false, now);
            }
        }
        self.advance(now);
    }

    /// Notes that the server has closed its side of a connection.
    pub fn handle_eof(&mut self, conn: ConnectionId, now: Instant) {
        self.ended(conn, now, |machine| machine.handle_eof(now));
    }

    /// Like [`handle_eof`](Self::handle_eof), for a TLS connection that ended without close_notify, which an attacker
    /// can also cause. An HTTP/1 response in progress then counts as truncated, even if the end of the connection
    /// delimits it (RFC 9112 section 9.8).
    pub fn handle_cut(&mut self, conn: ConnectionId, now: Instant) {
        let exchanges = &self.exchanges;
        let is_answering = self.links.get(conn.0 as usize).is_some_and(|link| {
            let records = link.exchanges.iter().map(|&place| &exchanges[place].record);
            let mut begun = records.filter(|record| record.first_byte.is_some());
            !link.multiplexes() && begun.any(|record| record.last_byte.is_none())
        });
        match is_answering {
            true => self.handle_failure(conn, Failure::Truncated, now),
            false => self.handle_eof(conn, now),
        }
    }

    /// Notes that a connection failed, or could not be established.
    pub fn handle_failure(&mut self, conn: ConnectionId, failure: Failure, now: Instant) {
        self.ended(conn, now, |machine| machine.handle_failure(failure, now));
    }

    fn ended(&mut self, conn: ConnectionId, now: Instant, handle: impl FnOnce(&mut Machine)) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place) {
            if link.is_live() {
                handle(&mut link.machine);
                self.pump(place, &[], now);
                self.after_pump(place, true, now);
            } else {
                self.close(place, Action::Close(conn), now);
            }
        }
        self.advance(now);
    }

    /// Handles every time limit that has passed. Spurious calls do nothing.
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

    /// Notes that a connection's transport took the first `bytes` bytes that [`transmit`](Self::transmit)
    /// returned.
    ///
    /// # Panics
    /// If `bytes` is larger than the slice that `transmit` returned.
    pub fn transmitted(&mut self, conn: ConnectionId, bytes: usize, now: Instant) {
        assert!(
            bytes <= self.transmit(conn).len(),
            "more bytes were sent than offered"
        );
        if bytes == 0 {
            return;
        }
        let place = conn.0 as usize;
        let link = &mut self.links[place];
        link.machine.transmitted(bytes, now);
        link.record.sent += Bytes(bytes as u64);
        if let Some(flush) = link.flushes.front_mut() {
            *flush -= bytes;
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

    /// Records the requests whose first byte has been passed to the transport.
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

    /// Takes the next action, in the order in which the actions were decided.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether there are actions.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Returns the bytes that may be written to a connection now: one flush, or the remaining bytes of a flush. Empty
    /// if the connection is not established or nothing was flushed. The protocol's own frames (acknowledgements,
    /// windows, a final GOAWAY) are sent without a flush.
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

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), unless another event happens first.
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

    /// Whether the page is finished and every connection is closed.
    pub fn is_finished(&self) -> bool {
        self.page_end.is_some()
            && self
                .links
                .iter()
                .all(|link| link.state == LinkState::Closed)
    }

    /// Ends the retrieval and returns the result. Unfinished exchanges are recorded as aborted by the client, and
    /// remaining connections as open.
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
            bytes: self.bytes,
            counters: self.counters,
            failures: self.failures,
            services: self.services,
        }
    }

    /// Returns the files that became usable and are needed, in order.
    fn arrived(&self) -> Vec<FileArrival> {
        let items = self.arrivals.iter().map(|&place| &self.items[place]);
        let needed = items.filter(|item| item.wanted);
        let arrival = |item: &Item| {
            Some(FileArrival {
                target: item.target.clone(),
                bytes: Bytes(item.received),
                started: item.started?,
                usable: item.resolved?.at,
                read: item.resolved?.bytes,
                by: item.by?,
            })
        };
        needed.filter_map(arrival).collect()
    }

    /// The number of files that became known by `known_by` and that no file of the page named.
    fn unused(&self, known_by: KnownBy) -> u32 {
        let items = self.items.iter();
        items
            .filter(|item| !item.wanted && item.known_by == known_by)
            .count() as u32
    }

    /// Records when the last critical file arrived. This is certain only when no further file can be found.
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
            self.bytes.critical_complete = Some(last.bytes);
        }
    }

    /// Starts everything that has become possible. Every input calls this last.
    pub(super) fn advance(&mut self, now: Instant) {
        loop {
            self.end_executions(now);
            self.dispatch(now);
            self.flush(now);
            // Closing a connection can fail requests, and thus free a connection for other requests.
            if !self.settle(now) {
                return;
            }
        }
    }

    /// Ends the retrieval if no request is left. Returns whether anything changed.
    fn settle(&mut self, now: Instant) -> bool {
        if self.unresolved > 0 || !self.executions.is_empty() || self.bundling.is_open() {
            return false;
        }
        self.page_end.get_or_insert(now);
        let is_whole = self.failures.is_empty() && self.counters.references_left_out == 0;
        if is_whole && self.milestones.page_complete.is_none() {
            self.milestones.page_complete = Some(now);
            self.bytes.page_complete = Some(self.bytes.received);
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

    /// Returns the time at which persistent connections are closed, if it is known.
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

/// Returns the host of `host[:port]`. An IPv6 address is returned without brackets, as TLS requires.
pub(super) fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
