//! The pass over a capture: assigns every packet to its class, its direction and its connection.

use std::collections::{BTreeMap, HashMap};

use fathometer_model::{Bytes, Instant};

use super::Options;
use super::capture::{CaptureError, Format, Integrity, Interface, LinkType, Record};
use super::class::{Class, ClassCounts};
use super::connection::{Connection, SegmentRelation};
use super::connection_summary::{Direction, DirectionSummary};
use super::flow::{FlowKey, FlowMap};
use super::link::{self, NoIpReason, Opaque};
use super::list::ConnectionList;
use super::parse::{Endpoint, IcmpKind, IpPacket, Parsed, Segment, Transport};
use super::quantiles::Quantiles;
use super::sent::{self, CauseId, Causes, Tally};
use super::store::Store;
use super::summary::{
    Accounting, IdleGap, InterfaceSummary, OtherCounts, PacketSummary, Repetition, RunSummary,
    SentSummary,
};
use super::tap::{PathComment, TapRole};
use super::time_sequence::{Recorder, TimeSequence, Transmission};

/// Maximum length of each result list that grows with the errors in the capture.
const LIST_LIMIT: usize = 10_000;
/// Maximum number of host pairs with a stored client. In every other pair, the host with the lower address counts as
/// the client of packets without ports.
const HOST_LIMIT: usize = 65_536;
/// Backward steps of the time stamps up to this length, in nanoseconds, cause no note: several writers of one file
/// interleave.
const BACKWARDS_LIMIT: u64 = 1_000_000;

/// Counts packets one at a time.
#[derive(Debug)]
pub(super) struct Accountant<'a> {
    options: &'a Options,
    idle_threshold: u64,
    train_gap: u64,
    /// Indexed by interface; an entry is created at the interface's first packet.
    taps: Vec<Option<Tap>>,
    origin: Option<u64>,
    first: Option<u64>,
    last: Option<u64>,
    classes: ClassCounts,
    other: OtherCounts,
    /// Packets other than TCP, by direction.
    plain: [DirectionSummary; 2],
    undirected: u64,
    flows: FlowMap<u32>,
    /// The flow of the last packet: a cache, because successive packets often belong to the same flow.
    recent: Option<(FlowKey, u32)>,
    connections: Store,
    /// For each UDP flow, whether the first end in its key is the client.
    datagrams: FlowMap<bool>,
    /// Number of frames per encapsulation that may carry IP but is not decoded.
    opaque: BTreeMap<Opaque, u64>,
    /// Number of packets from a host to itself whose direction is unknown.
    one_host: u64,
    /// The client of each pair of hosts, for packets without ports.
    hosts: HashMap<(Endpoint, Endpoint), Endpoint>,
    rtt: [Quantiles; 2],
    trains: RunSummary,
    runs: RunSummary,
    run: (u32, u64),
    idle_gaps: Vec<IdleGap>,
    idle_gaps_unlisted: u64,
    causes: Causes,
    tallies: [Tally; 2],
    repetitions: Vec<Repetition>,
    recorder: Option<Recorder>,
    without_time: u64,
    /// The largest backward step between time stamps, in nanoseconds.
    backwards: u64,
}

/// The state of an interface.
#[derive(Debug)]
struct Tap {
    link: LinkType,
    role: Option<TapRole>,
    counted: bool,
    packets: u64,
    drops: HashMap<CauseId, u64>,
}

/// The properties of a packet that are determined before its connection is found.
struct Arrival<'a> {
    time: u64,
    role: Option<TapRole>,
    ip: &'a IpPacket,
    segment: &'a Segment,
    class: Class,
    dropped: Option<CauseId>,
}

impl<'a> Accountant<'a> {
    pub(super) fn new(options: &'a Options) -> Accountant<'a> {
        let nanoseconds = |time: std::time::Duration| time.as_nanos().min(u64::MAX.into()) as u64;
        Accountant {
            options,
            idle_threshold: nanoseconds(options.idle_threshold),
            train_gap: nanoseconds(options.train_gap),
            taps: Vec::new(),
            origin: None,
            first: None,
            last: None,
            classes: ClassCounts::default(),
            other: OtherCounts::default(),
            plain: Default::default(),
            undirected: 0,
            flows: FlowMap::default(),
            datagrams: FlowMap::default(),
            opaque: BTreeMap::new(),
            one_host: 0,
            recent: None,
            connections: Store::default(),
            hosts: HashMap::new(),
            rtt: Default::default(),
            trains: RunSummary::default(),
            runs: RunSummary::default(),
            run: (u32::MAX, 0),
            idle_gaps: Vec::new(),
            idle_gaps_unlisted: 0,
            causes: Causes::default(),
            tallies: Default::default(),
            repetitions: Vec::new(),
            recorder: (options.time_sequences > 0)
                .then(|| Recorder::new(options.time_sequences, options.time_sequence_points)),
            without_time: 0,
            backwards: 0,
        }
    }

    /// Counts one packet of the file.
    #[inline]
    pub(super) fn observe(&mut self, record: &Record<'_>) {
        let mut comment = PathComment::default();
        // Most packets of this program's captures have a comment, but few were dropped. The byte search avoids parsing
        // the other comments.
        if record.mentions(b"drop=") {
            for text in record.comments() {
                comment.read(text);
            }
        }
        let dropped = comment.drop.map(|cause| self.causes.id(cause));
        let tap = self.tap(record.interface_index, record.interface);
        tap.packets += 1;
        if let Some(cause) = dropped {
            *tap.drops.entry(cause).or_default() += 1;
        }
        let (role, link) = (tap.role, tap.link);
        let sends = role.is_some_and(TapRole::is_sender);
        // A packet with a drop comment at a tap where packets leave the path never arrived.
        let vanished = dropped.is_some() && role.is_some_and(|role| !role.is_sender());
        let counted = tap.counted && !vanished;

        let stamp = match record.time {
            Some(time) => time,
            None => {
                self.without_time += u64::from(counted);
                self.origin.unwrap_or_default() + self.last.unwrap_or_default()
            }
        };
        let origin = *self.origin.get_or_insert(stamp);
        let time = stamp.saturating_sub(origin);
        if !counted && !sends && !vanished {
            return;
        }
        let parsed = match link::find(link, record.data) {
            Ok(packet) => {
                let before = record.data.len() - packet.len();
                Parsed::parse(packet, record.original_length.saturating_sub(before as u32))
            }
            Err(hidden) => {
                if let (true, NoIpReason::Opaque(what)) = (counted, hidden) {
                    *self.opaque.entry(what).or_default() += 1;
                }
                Parsed::NotIp
            }
        };
        let class = Class::of(&parsed);
        if counted {
            self.count(time, &parsed, class, role);
        }
        let Parsed::Ip(ip) = &parsed else {
            return;
        };
        let Transport::Tcp(segment) = &ip.transport else {
            return;
        };
        if class == Class::Other {
            return;
        }
        let arrival = Arrival {
            time,
            role,
            ip,
            segment,
            class,
            dropped,
        };
        let index = self.connection(&arrival);
        if sends || vanished {
            self.transmit(&arrival, index, vanished);
        }
        if counted {
            self.follow(&arrival, index);
        }
    }

    /// Returns the result and the requested time sequences.
    pub(super) fn finish(
        mut self,
        format: Format,
        integrity: Integrity,
        interfaces: &[Interface],
    ) -> (Accounting, Vec<TimeSequence>) {
        for (index, interface) in interfaces.iter().enumerate() {
            self.tap(index, interface);
        }
        self.runs.add(self.run.1);
        // Connections that appear only at uncounted taps have no figures. They are left out, so the other connections
        // get new indices.
        let mut places = Vec::with_capacity(self.connections.len());
        let mut connections = ConnectionList::default();
        let [mut up, mut down] = std::mem::take(&mut self.plain);
        let mut headless = 0;
        for tracked in std::mem::take(&mut self.connections).drain() {
            let connection = tracked.connection;
            places.push(connections.len() as u32);
            self.trains.add(connection.train);
            if !connection.is_counted() {
                continue;
            }
            headless += u64::from(connection.is_scale_unknown());
            let summary = connection.summary();
            up.absorb(&summary.up);
            down.absorb(&summary.down);
            connections.push(summary);
        }
        let (notes, sent) = (self.notes(interfaces, headless), self.sees_senders());
        for gap in &mut self.idle_gaps {
            gap.connection = places[gap.connection as usize];
        }
        for repetition in &mut self.repetitions {
            repetition.connection = places[repetition.connection as usize];
        }
        let sequences = match self.recorder.take() {
            Some(recorder) => recorder.finish(&places, &connections, self.causes.names()),
            None => Vec::new(),
        };
        up.rtt = self.rtt[Direction::Up as usize].summary();
        down.rtt = self.rtt[Direction::Down as usize].summary();
        let accounting = Accounting {
            format,
            integrity,
            notes,
            taps: self.options.taps.clone(),
            interfaces: self.interface_summaries(interfaces),
            origin_unix_ns: self.origin.unwrap_or_default(),
            first: self.first.map(Instant::from_nanos),
            last: self.last.map(Instant::from_nanos),
            classes: self.classes,
            other: self.other,
            up,
            down,
            undirected: self.undirected,
            trains: self.trains,
            runs: self.runs,
            sent: sent.then(|| SentSummary {
                up: self.tallies[Direction::Up as usize].summary(&self.causes),
                down: self.tallies[Direction::Down as usize].summary(&self.causes),
                repetitions: std::mem::take(&mut self.repetitions),
            }),
            idle_gaps: self.idle_gaps,
            idle_gaps_unlisted: self.idle_gaps_unlisted,
            connections,
        };
        (accounting, sequences)
    }

    /// Fails if the accounting needs more memory than its limit.
    pub(super) fn check_memory(&self) -> Result<(), CaptureError> {
        let recorder = self.recorder.as_ref().map_or(0, Recorder::memory);
        let flows = self.flows.memory() + self.datagrams.memory();
        if self.connections.memory() + flows + recorder <= self.options.memory.0 {
            return Ok(());
        }
        Err(CaptureError::Memory {
            packets: self.taps.iter().flatten().map(|tap| tap.packets).sum(),
            connections: self.connections.len() as u64,
            limit: self.options.memory,
        })
    }

    #[inline]
    fn tap(&mut self, index: usize, interface: &Interface) -> &mut Tap {
        if self.taps.get(index).is_none_or(Option::is_none) {
            self.add_tap(index, interface);
        }
        // `add_tap` has just created a missing entry.
        self.taps[index].as_mut().expect("the tap is there")
    }

    #[cold]
    fn add_tap(&mut self, index: usize, interface: &Interface) {
        if index >= self.taps.len() {
            self.taps.resize_with(index + 1, || None);
        }
        let name = interface.name.as_deref();
        self.taps[index] = Some(Tap {
            role: name.and_then(TapRole::of),
            counted: self.options.taps.counts(name),
            link: interface.link,
            packets: 0,
            drops: HashMap::new(),
        });
    }

    /// Updates the counts that apply to every packet, TCP or not.
    #[inline]
    fn count(&mut self, time: u64, parsed: &Parsed, class: Class, role: Option<TapRole>) {
        self.classes.count(class);
        if let Some(last) = self.last.filter(|last| time < *last) {
            self.backwards = self.backwards.max(last - time);
        }
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(Some(time));
        if class == Class::Other {
            self.count_other(time, parsed, role);
        }
    }

    fn count_other(&mut self, time: u64, parsed: &Parsed, role: Option<TapRole>) {
        let ip = match parsed {
            Parsed::Ip(ip) => ip,
            Parsed::NotIp => {
                self.other.not_ip += 1;
                self.undirected += 1;
                return;
            }
            Parsed::Malformed => {
                self.other.malformed += 1;
                self.undirected += 1;
                return;
            }
        };
        match ip.transport {
            Transport::Udp => self.other.udp += 1,
            Transport::Icmp(_) => self.other.icmp += 1,
            Transport::Fragment => self.other.fragments += 1,
            Transport::Tcp(_) | Transport::MalformedTcp => self.other.odd_tcp += 1,
            Transport::Other => self.other.other_ip += 1,
        }
        let direction = match role {
            Some(role) if role.is_up() => Direction::Up,
            Some(_) => Direction::Down,
            None => self.direction_of(ip),
        };
        let figures = &mut self.plain[direction as usize];
        let at = Instant::from_nanos(time);
        figures.classes.count(Class::Other);
        figures.ip_bytes += Bytes(u64::from(ip.length));
        figures.first.get_or_insert(at);
        figures.last = figures.last.max(Some(at));
    }

    /// Returns the direction of a packet other than TCP, at a tap whose role does not determine the direction.
    ///
    /// The client of a UDP flow is determined at the flow's first datagram. Other packets have only addresses. If both
    /// addresses are the same (loopback), only the content of the packet determines the direction.
    fn direction_of(&mut self, ip: &IpPacket) -> Direction {
        let (source, destination) = (ip.source, ip.destination);
        let hosts = [source.without_port(), destination.without_port()];
        let has_ports = (source.port(), destination.port()) != (0, 0);
        let goes_up = if matches!(ip.transport, Transport::Udp) && has_ports {
            let key = FlowKey::of(ip);
            let is_low = key.is_low(source);
            let low_is_client = self.datagrams.get(&key).unwrap_or_else(|| {
                let is_client = opens_flow(source, destination);
                let low_is_client = is_low == is_client;
                self.datagrams.insert(key, low_is_client);
                self.client_of(hosts[0], hosts[1], hosts[usize::from(!is_client)]);
                low_is_client
            });
            is_low == low_is_client
        } else if hosts[0] == hosts[1] {
            match ip.transport {
                Transport::Icmp(IcmpKind::Request) => true,
                Transport::Icmp(IcmpKind::Reply) => false,
                _ => {
                    self.one_host += 1;
                    true
                }
            }
        } else {
            self.client_of(hosts[0], hosts[1], hosts[0]) == hosts[0]
        };
        match goes_up {
            true => Direction::Up,
            false => Direction::Down,
        }
    }

    /// Returns the client of two hosts: the host that was first stored as the client.
    fn client_of(&mut self, one: Endpoint, other: Endpoint, client: Endpoint) -> Endpoint {
        let pair = (one.min(other), one.max(other));
        if self.hosts.len() >= HOST_LIMIT && !self.hosts.contains_key(&pair) {
            return pair.0;
        }
        *self.hosts.entry(pair).or_insert(client)
    }

    /// Returns the connection of a segment; creates the connection if it does not exist.
    #[inline]
    fn connection(&mut self, arrival: &Arrival<'_>) -> u32 {
        let key = FlowKey::of(arrival.ip);
        let known = match self.recent {
            Some((recent, index)) if recent == key => Some(index),
            _ => self.flows.get(&key),
        };
        if let Some(index) = known {
            let connection = &self.connections.at(index).connection;
            let direction = connection.direction(arrival.ip.source);
            let sequence = arrival.segment.sequence;
            if !connection.is_succeeded_by(direction, arrival.class, sequence) {
                self.recent = Some((key, index));
                return index;
            }
        }
        self.begin(key, arrival)
    }

    #[cold]
    fn begin(&mut self, key: FlowKey, arrival: &Arrival<'_>) -> u32 {
        let (source, destination) = (arrival.ip.source, arrival.ip.destination);
        let opened_by_source = match (arrival.class, arrival.role) {
            (Class::Syn, _) => true,
            (Class::SynAck, _) => false,
            (_, Some(role)) => role.is_up(),
            (_, None) => source.port() >= destination.port(),
        };
        let (client, server) = match opened_by_source {
            true => (source, destination),
            false => (destination, source),
        };
        self.client_of(
            client.without_port(),
            server.without_port(),
            client.without_port(),
        );
        let index = self.connections.add(Connection::new(client, server));
        self.flows.insert(key, index);
        self.recent = Some((key, index));
        index
    }

    /// Records a packet that a sender put into the path.
    fn transmit(&mut self, arrival: &Arrival<'_>, index: u32, vanished: bool) {
        let tracked = self.connections.just_used(index);
        let direction = tracked.connection.direction(arrival.ip.source);
        let transmissions = tracked.transmissions.get_or_insert_default();
        let transmissions = &mut transmissions[direction as usize];
        let sent = Transmission {
            connection: index,
            time: arrival.time,
            direction,
            sequence: arrival.segment.sequence,
            length: sent::occupied(arrival.segment),
            dropped: arrival.dropped,
            repeated: None,
        };
        if let (true, Some(cause)) = (vanished, arrival.dropped) {
            transmissions.drop_later(arrival.segment, cause);
            record(&mut self.recorder, &sent);
            return;
        }
        tracked
            .connection
            .note_opening(direction, arrival.class, arrival.segment.sequence);
        let repeated = transmissions.transmit(arrival.segment, arrival.dropped);
        record(&mut self.recorder, &Transmission { repeated, ..sent });
        let Some(repeated) = repeated else {
            return;
        };
        self.tallies[direction as usize].count(repeated);
        if self.repetitions.len() < LIST_LIMIT {
            self.repetitions.push(Repetition {
                connection: index,
                direction,
                at: Instant::from_nanos(arrival.time),
                cause: repeated.0.map(|cause| self.causes.name(cause).to_owned()),
            });
        }
    }

    /// Records a packet of a connection at the counted tap.
    #[inline]
    fn follow(&mut self, arrival: &Arrival<'_>, index: u32) {
        let Arrival {
            time,
            ip,
            segment,
            class,
            ..
        } = *arrival;
        let connection = &mut self.connections.just_used(index).connection;
        let direction = connection.direction(ip.source);
        let observed = connection.observe(time, direction, ip, segment, class);
        if let Some((gap, after)) = observed.gap {
            if gap > self.train_gap {
                self.trains.add(std::mem::take(&mut connection.train));
                connection.trains += 1;
            }
            if gap > self.idle_threshold {
                if self.idle_gaps.len() < LIST_LIMIT {
                    self.idle_gaps.push(IdleGap {
                        connection: index,
                        start: Instant::from_nanos(time - gap),
                        duration_ns: gap,
                        after,
                        ended_by: PacketSummary {
                            direction,
                            class,
                            retransmission: observed.novelty == SegmentRelation::Repeated,
                        },
                    });
                } else {
                    self.idle_gaps_unlisted += 1;
                }
            }
        }
        connection.train += 1;
        if let Some(rtt) = observed.rtt {
            self.rtt[direction.opposite() as usize].add(rtt);
        }
        if self.run.0 == index {
            self.run.1 += 1;
        } else {
            self.runs.add(self.run.1);
            self.run = (index, 1);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record(index, time, direction, class, &observed);
        }
    }

    /// Whether the capture was taken where the packets of both hosts enter the path.
    fn sees_senders(&self) -> bool {
        let sees = |role| self.taps.iter().flatten().any(|tap| tap.role == Some(role));
        sees(TapRole::ClientSends) && sees(TapRole::ServerSends)
    }

    fn interface_summaries(&self, interfaces: &[Interface]) -> Vec<InterfaceSummary> {
        let summary = |(tap, interface): (&Tap, &Interface)| InterfaceSummary {
            name: interface.name.clone(),
            link: interface.link,
            packets: tap.packets,
            counted: tap.counted,
            lost: interface.lost,
            drops: tap
                .drops
                .iter()
                .map(|(cause, count)| (self.causes.name(*cause).to_owned(), *count))
                .collect(),
        };
        self.taps
            .iter()
            .flatten()
            .zip(interfaces)
            .map(summary)
            .collect()
    }

    fn notes(&self, interfaces: &[Interface], headless: u64) -> Vec<String> {
        let mut notes = Vec::new();
        let named = |interface: &Interface| {
            let name = interface.name.as_deref();
            name.map_or_else(|| "an interface".to_owned(), |name| format!("{name:?}"))
        };
        for interface in interfaces.iter().filter(|interface| interface.lost > 0) {
            notes.push(format!(
                "the capture itself lost {} packets at {}: every figure is a lower bound",
                interface.lost,
                named(interface)
            ));
        }
        let counted: Vec<&Tap> = self
            .taps
            .iter()
            .flatten()
            .filter(|tap| tap.counted)
            .collect();
        if counted.is_empty() && self.taps.iter().flatten().any(|tap| tap.packets > 0) {
            notes.push(format!(
                "no packet was counted: the capture has no interface {:?}",
                self.options.taps.to_string()
            ));
        }
        if counted.len() > 1 && counted.iter().any(|tap| tap.role.is_none()) {
            notes.push(format!(
                "{} interfaces are counted together: a packet that passed two of them counts twice",
                counted.len()
            ));
        }
        let foreign = |tap: &&&Tap| tap.packets > 0 && !link::is_known(tap.link);
        for tap in counted.iter().filter(foreign) {
            let LinkType(number) = tap.link;
            let name = link::name(tap.link).map(|name| format!(" ({name})"));
            notes.push(format!(
                "{} packets of link type {number}{} cannot be decoded and count as other",
                tap.packets,
                name.unwrap_or_default()
            ));
        }
        if self.without_time > 0 {
            notes.push(format!(
                "{} packets have no time stamp and get the time of the previous packet",
                self.without_time
            ));
        }
        for (what, count) in &self.opaque {
            notes.push(format!(
                "{count} frames of {what} cannot be decoded and count as not IP"
            ));
        }
        if self.one_host > 0 {
            notes.push(format!(
                "{} packets go from a host to itself without ports: their direction is unknown, and they \
                 count as up",
                self.one_host
            ));
        }
        if self.backwards > BACKWARDS_LIMIT {
            notes.push(format!(
                "time goes backwards by up to {:.3} ms: the packets are not in time order",
                self.backwards as f64 / 1e6
            ));
        }
        match headless {
            0 => {}
            count => notes.push(format!(
                "the opening of {count} connections is not in the capture: the scale factors of \
                 their windows are unknown"
            )),
        }
        notes
    }
}

/// Records a drop or a retransmission, if time sequences are recorded.
#[inline]
fn record(recorder: &mut Option<Recorder>, sent: &Transmission) {
    if let Some(recorder) = recorder
        && sent.length > 0
    {
        recorder.transmit(sent);
    }
}

/// Whether the sender of a flow's first captured datagram is the flow's client. A sender on a system port (RFC 6335)
/// counts as the server if the other port is not a system port: the request preceded the capture.
fn opens_flow(source: Endpoint, destination: Endpoint) -> bool {
    const SYSTEM_PORTS: u16 = 1024;
    source.port() >= SYSTEM_PORTS || destination.port() < SYSTEM_PORTS
}
