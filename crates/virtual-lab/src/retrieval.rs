//! The event loop in virtual time.

use std::time::Duration;

use fathometer_http::driver::{PageDriver, ValidatorCache, Visit};
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_path::{Arrival, Direction, Link};
use fathometer_tcp::{Counters, Endpoint};

use crate::client::{self, Client};
use crate::packet::Packet;
use crate::prediction::{Extrapolation, Packets, Prediction, Scenario, Unsupported, check};
use crate::server::Server;

/// Predicts the first visit to a page.
///
/// # Errors
/// If the path or the policy is not in the model.
pub fn predict(scenario: &Scenario<'_>) -> Result<Prediction, Unsupported> {
    check(scenario)?;
    let driver = PageDriver::new(
        scenario.policy,
        scenario.options.clone(),
        Visit::First,
        scenario.page.clone(),
        ValidatorCache::default(),
        Instant::ZERO,
    );
    let mut world = World {
        scenario,
        now: Instant::ZERO,
        driver,
        clients: Vec::new(),
        servers: Vec::new(),
        up: Way::new(scenario, Direction::Up),
        down: Way::new(scenario, Direction::Down),
        client_turn: Some(Instant::ZERO),
        server_turn: None,
    };
    world.run();
    Ok(world.result())
}

/// One direction of the path, and its packet counts.
struct Way {
    link: Link<Packet>,
    packets: Packets,
}

impl Way {
    fn new(scenario: &Scenario<'_>, direction: Direction) -> Way {
        Way {
            // Nothing on the path is random, so the seed has no effect.
            link: Link::new(scenario.path, direction, Seed(0)),
            packets: Packets::default(),
        }
    }

    fn send(&mut self, packet: Packet, at: Instant) {
        let length = packet.segment.wire_length();
        self.packets.count += 1;
        self.packets.bytes += Bytes(u64::from(length));
        if matches!(self.link.arrive(at, length, packet), Arrival::Dropped(_)) {
            self.packets.dropped += 1;
        }
    }

    fn deliver(&mut self, now: Instant) -> Option<Packet> {
        let delivered = self.link.deliver(now).map(|delivery| delivery.payload);
        while self.link.poll_drop().is_some() {
            self.packets.dropped += 1;
        }
        delivered
    }
}

struct World<'a> {
    scenario: &'a Scenario<'a>,
    now: Instant,
    driver: PageDriver,
    clients: Vec<Client>,
    servers: Vec<(Endpoint, Server)>,
    up: Way,
    down: Way,
    /// The time of the client program's next turn, if one is due.
    client_turn: Option<Instant>,
    server_turn: Option<Instant>,
}

impl World<'_> {
    fn run(&mut self) {
        let deadline = Instant::ZERO + self.scenario.deadline;
        loop {
            self.step();
            match self.next_event() {
                Some(next) if next <= deadline => self.now = self.now.max(next),
                _ => return,
            }
        }
    }

    /// Handles all events that are due now.
    fn step(&mut self) {
        let now = self.now;
        let packet = self.scenario.hosts.packet;
        while let Some(packet) = self.up.deliver(now) {
            if let Some((endpoint, _)) = self.servers.get_mut(packet.connection) {
                endpoint.handle_segment(&packet.segment, now);
            }
        }
        while let Some(packet) = self.down.deliver(now) {
            if let Some(client) = self.clients.get_mut(packet.connection) {
                client.endpoint.handle_segment(&packet.segment, now);
            }
        }
        for client in &mut self.clients {
            expire(&mut client.endpoint, now);
        }
        for (endpoint, _) in &mut self.servers {
            expire(endpoint, now);
        }
        self.take_turns();
        for (place, client) in self.clients.iter_mut().enumerate() {
            if place == self.servers.len() {
                let settings = self.scenario.server.clone();
                self.servers
                    .push((Endpoint::listen(settings), Server::new()));
            }
            send(&mut self.up, place, &mut client.endpoint, now + packet);
        }
        for (place, (endpoint, _)) in self.servers.iter_mut().enumerate() {
            send(&mut self.down, place, endpoint, now + packet);
        }
    }

    /// Runs the turns of the client and server programs that are due.
    fn take_turns(&mut self) {
        let (now, hosts) = (self.now, self.scenario.hosts);
        let is_late = self.driver.poll_timeout().is_some_and(|due| due <= now);
        if is_late || self.clients.iter().any(Client::is_ready) {
            self.client_turn.get_or_insert(now + hosts.client_turn);
        }
        if self.client_turn.is_some_and(|due| due <= now) {
            self.client_turn = None;
            client::take_in(&mut self.driver, &mut self.clients, now);
            let settings = &self.scenario.client;
            client::put_out(&mut self.driver, &mut self.clients, settings, now);
        }
        let is_ready = |(endpoint, server): &(Endpoint, Server)| {
            server.is_ready(endpoint) || server.poll_timeout().is_some_and(|due| due <= now)
        };
        if self.servers.iter().any(is_ready) {
            self.server_turn.get_or_insert(now + hosts.server_turn);
        }
        if self.server_turn.is_some_and(|due| due <= now) {
            self.server_turn = None;
            for (endpoint, server) in &mut self.servers {
                server.serve(endpoint, self.scenario, now);
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let now = self.now;
        let clients = self
            .clients
            .iter()
            .filter_map(|client| client.endpoint.poll_timeout());
        let servers = self
            .servers
            .iter()
            .flat_map(|(endpoint, server)| [endpoint.poll_timeout(), server.poll_timeout()]);
        let others = [
            self.up.link.next_due(),
            self.down.link.next_due(),
            self.client_turn,
            self.server_turn,
            self.driver.poll_timeout(),
        ];
        let all = clients
            .chain(servers.flatten())
            .chain(others.into_iter().flatten());
        // An event that is due but was not handled waits for another event.
        all.filter(|&due| due > now).min()
    }

    fn result(self) -> Prediction {
        let (mut client, mut server) = (Counters::default(), Counters::default());
        for one in &self.clients {
            client = sum(client, one.endpoint.counters());
        }
        for (endpoint, _) in &self.servers {
            server = sum(server, endpoint.counters());
        }
        let retrieval = self.driver.finish(self.now);
        let page_time: Option<Duration> = retrieval
            .milestones
            .page_complete
            .map(|end| end.since(Instant::ZERO));
        let dropped = self.up.packets.dropped + self.down.packets.dropped;
        let undone = client.undone + server.undone;
        let timeouts = (client.timeouts + server.timeouts).saturating_sub(undone);
        let extrapolations = [
            (dropped > 0, Extrapolation::Dropped(dropped)),
            (timeouts > 0, Extrapolation::TimedOut(timeouts)),
            (page_time.is_none(), Extrapolation::Unfinished),
        ];
        Prediction {
            page_time,
            up: self.up.packets,
            down: self.down.packets,
            client,
            server,
            extrapolations: extrapolations
                .into_iter()
                .filter_map(|(applies, extrapolation)| applies.then_some(extrapolation))
                .collect(),
            retrieval,
        }
    }
}

fn expire(endpoint: &mut Endpoint, now: Instant) {
    if endpoint.poll_timeout().is_some_and(|due| due <= now) {
        endpoint.handle_timeout(now);
    }
}

fn send(way: &mut Way, connection: usize, endpoint: &mut Endpoint, at: Instant) {
    while let Some(segment) = endpoint.poll_transmit() {
        way.send(
            Packet {
                connection,
                segment,
            },
            at,
        );
    }
}

fn sum(one: Counters, other: Counters) -> Counters {
    Counters {
        retransmissions: one.retransmissions + other.retransmissions,
        timeouts: one.timeouts + other.timeouts,
        probes: one.probes + other.probes,
        losses: one.losses + other.losses,
        undone: one.undone + other.undone,
    }
}
