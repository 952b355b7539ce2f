//! The thread of rank 0's connections.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::{Clock, SocketOptions, socket};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::event::{PollFd, PollFlags};

use super::transfer::{Buffers, Ended, Wire, wait};
use super::{
    Command, Event, SessionError, SessionOptions, Started, TURN, WholeLive, nonce, set, spawn,
};
use crate::channel::ChannelSettings;
use crate::coordinator::{Coordinator, CoordinatorEvent, Expected};
use crate::secret::Side;
use crate::whole::Whole;

/// The maximum number of connections that wait for `accept`.
const BACKLOG: u32 = 1024;

/// The time limit for sending the last bytes to another rank.
const FLUSH: Duration = Duration::from_secs(2);

pub(super) fn start(
    options: &SessionOptions,
    address: SocketAddr,
    clock: Clock,
) -> Result<Started, SessionError> {
    let listener = socket::listen(address, BACKLOG, &SocketOptions::default())
        .map_err(|source| SessionError::Listen { address, source })?;
    let tls = ChannelSettings::new(Side::RankZero, clock.realtime_of(Instant::ZERO))?;
    let mut test = [0; 8];
    test.copy_from_slice(&nonce()?[..8]);
    let expected = Expected {
        hello: options.hello.clone(),
        test: u64::from_le_bytes(test),
        rendezvous: options.rendezvous,
        silence: options.silence,
    };
    let machine = Coordinator::new(expected, options.secret.clone(), clock.now());
    let whole = Whole::new(options.facts);
    spawn("ranks", move |commands, sender, stop| {
        let mut host = RankZero {
            machine,
            whole,
            clock,
            listener: Some(listener),
            tls,
            wires: BTreeMap::new(),
            closing: BTreeMap::new(),
            next: 0,
            random: SystemRandom::new(),
            own_has_ended: false,
            until: None,
        };
        match host.serve((commands, sender), stop) {
            Ok(()) => {
                let _ = sender.send(Event::Done);
                Some(host.whole)
            }
            Err(why) => {
                set(stop);
                let _ = sender.send(Event::Lost(why));
                None
            }
        }
    })
}

struct RankZero {
    machine: Coordinator,
    whole: Whole,
    clock: Clock,
    /// The listener; `None` after all ranks have connected.
    listener: Option<TcpListener>,
    tls: ChannelSettings,
    wires: BTreeMap<u64, Wire>,
    /// Connections that are closed when their bytes are sent, or at this instant at the latest.
    closing: BTreeMap<u64, Instant>,
    next: u64,
    random: SystemRandom,
    own_has_ended: bool,
    /// The instant after which rank 0 stops waiting for the other ranks.
    until: Option<Instant>,
}

impl RankZero {
    /// Serves all connections until every rank has finished or is lost.
    fn serve(
        &mut self,
        (commands, sender): (&Receiver<Command>, &Sender<Event>),
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut buffers = Buffers::default();
        loop {
            let now = self.clock.now();
            loop {
                match commands.try_recv() {
                    Ok(command) => self.obey(command, now, stop)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Err("it has ended".to_owned()),
                }
            }
            self.machine.tick(now);
            if self.until.is_some_and(|until| now >= until) {
                self.machine.give_up("it did not end with the test");
            }
            self.handle_events(sender)?;
            while let Some(closed) = self.whole.close_next() {
                let live = Box::new(WholeLive::of(closed, &self.whole));
                let _ = sender.send(Event::Live(live));
            }
            self.write_all();
            if self.own_has_ended && self.machine.is_over() {
                self.flush();
                return Ok(());
            }
            let ready = self.wait();
            self.accept();
            self.read_all(&ready, &mut buffers);
        }
    }

    fn obey(&mut self, command: Command, now: Instant, stop: &AtomicBool) -> Result<(), String> {
        match command {
            Command::Ready => self.machine.ready(now),
            Command::Interval(bytes) => {
                let taken = self.whole.interval(0, bytes);
                taken.map_err(|error| error.to_string())?;
            }
            Command::Ended(record, until) => {
                let taken = self.whole.ended(0, &record);
                taken.map_err(|error| error.to_string())?;
                self.own_has_ended = true;
                self.until = until;
            }
            Command::Stop(why) => {
                set(stop);
                self.machine.stop(&why);
            }
            Command::Failed(why) => {
                self.machine.stop(&format!("rank 0 failed: {why}"));
                self.flush();
                return Err(why);
            }
            Command::Compare => {}
        }
        Ok(())
    }

    fn handle_events(&mut self, sender: &Sender<Event>) -> Result<(), String> {
        while let Some(event) = self.machine.event() {
            match event {
                CoordinatorEvent::Start(at) => {
                    self.listener = None;
                    let _ = sender.send(Event::Start(at, self.machine.test()));
                }
                CoordinatorEvent::Interval(rank, bytes) => {
                    if let Err(error) = self.whole.interval(rank, bytes) {
                        self.machine.give_up_rank(rank, &error.to_string());
                    }
                }
                CoordinatorEvent::Ended(rank, bytes) => {
                    if let Err(error) = self.whole.ended(rank, &bytes) {
                        let why = error.to_string();
                        self.whole.lost(rank, why.clone());
                        let _ = sender.send(Event::LostRank(rank, why));
                    }
                }
                CoordinatorEvent::Lost(rank, why) => {
                    self.whole.lost(rank, why.clone());
                    let _ = sender.send(Event::LostRank(rank, why));
                }
                CoordinatorEvent::Failed(why) => {
                    self.flush();
                    return Err(format!("the test did not start: {why}"));
                }
                CoordinatorEvent::Close(connection) => self.close(connection),
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        while self.machine.has_room()
            && let Some(listener) = &self.listener
        {
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // No connection is waiting for `accept`, or the connection has already failed.
                Err(_) => return,
            };
            let mut nonce = [0; crate::secret::NONCE];
            let (connection, now) = (self.next, self.clock.now());
            // If this fails, the socket is dropped and thereby closed.
            if self.random.fill(&mut nonce).is_ok()
                && let Ok(wire) = Wire::new(socket, &self.tls, now)
                && self.machine.accept(connection, nonce, now)
            {
                self.next += 1;
                self.wires.insert(connection, wire);
            }
        }
    }

    fn close(&mut self, connection: u64) {
        let until = self.clock.now() + FLUSH;
        self.closing.insert(connection, until);
    }

    /// Reads only from the connections that have bytes. Trying all connections would delay the answers to pings by a
    /// time that grows with the number of ranks.
    fn read_all(&mut self, ready: &[u64], buffers: &mut Buffers) {
        let mut ended = Vec::new();
        for &connection in ready {
            let Some(wire) = self.wires.get_mut(&connection) else {
                continue;
            };
            // The thread makes one read per connection and turn, so that no connection delays the others.
            match wire.read(buffers, self.clock) {
                Ok(Some(arrival)) => {
                    if let Some(binding) = arrival.binding {
                        self.machine.bind(connection, &binding);
                    }
                    let plain = &buffers.plain;
                    self.machine.receive(connection, plain, arrival.at);
                    // Answers to pings and to the handshake are sent at once.
                    if let Some(outbox) = self.machine.outbox(connection)
                        && let Err(why) = wire.write(outbox)
                    {
                        ended.push((connection, why));
                    }
                }
                Ok(None) => {}
                Err(why) => ended.push((connection, why)),
            }
        }
        self.remove(ended);
    }

    fn write_all(&mut self) {
        let mut ended = Vec::new();
        for (&connection, wire) in &mut self.wires {
            if let Some(outbox) = self.machine.outbox(connection)
                && let Err(why) = wire.write(outbox)
            {
                ended.push((connection, why));
            }
        }
        self.remove(ended);
        let (now, machine, wires) = (self.clock.now(), &mut self.machine, &self.wires);
        let is_over = |(connection, until): (&u64, &Instant)| {
            let outbox = machine.outbox(*connection);
            let is_sent = outbox.is_none_or(|outbox| outbox.is_empty())
                && wires.get(connection).is_none_or(|wire| !wire.has_output());
            (is_sent || now >= *until).then_some(*connection)
        };
        let over: Vec<u64> = self.closing.iter().filter_map(is_over).collect();
        for connection in over {
            self.closing.remove(&connection);
            self.wires.remove(&connection);
            self.machine.closed(connection, "it was closed");
        }
    }

    fn remove(&mut self, ended: Vec<(u64, Ended)>) {
        for (connection, why) in ended {
            self.wires.remove(&connection);
            self.machine.closed(connection, &why.to_string());
            self.closing.remove(&connection);
        }
    }

    /// Sends the unsent bytes to the other ranks, within a time limit.
    fn flush(&mut self) {
        let end = self.clock.now() + FLUSH;
        let mut buffers = Buffers::default();
        loop {
            while let Some(event) = self.machine.event() {
                if let CoordinatorEvent::Close(connection) = event {
                    self.close(connection);
                }
            }
            self.write_all();
            if self.closing.is_empty() || self.clock.now() >= end {
                return;
            }
            let ready = self.wait();
            self.read_all(&ready, &mut buffers);
        }
    }

    /// Waits for an event. Returns the connections that have bytes or are closed.
    fn wait(&mut self) -> Vec<u64> {
        let mut descriptors = Vec::with_capacity(self.wires.len() + 1);
        for (&connection, wire) in &self.wires {
            let outbox = self.machine.outbox(connection);
            let has_output = outbox.is_some_and(|outbox| !outbox.is_empty());
            descriptors.push(PollFd::new(wire, wire.interest(has_output)));
        }
        // When the number of connections is at its limit, a connection that waits for `accept` must not end the wait.
        if let Some(listener) = self.listener.as_ref().filter(|_| self.machine.has_room()) {
            descriptors.push(PollFd::new(listener, PollFlags::IN));
        }
        wait(&mut descriptors, TURN);
        let found = self.wires.keys().zip(&descriptors);
        found
            .filter(|(_, descriptor)| !descriptor.revents().is_empty())
            .map(|(&connection, _)| connection)
            .collect()
    }
}
