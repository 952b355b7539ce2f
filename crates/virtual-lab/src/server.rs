//! The origin's end of a connection: the protocol state machine over the model of TCP.

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_http::h1::server::Action;
use fathometer_http::{h1, h2};
use fathometer_model::Instant;
use fathometer_tcp::{Endpoint, Read};

use crate::prediction::Scenario;

/// The maximum number of slices that the origin writes in one call.
const SLICES: usize = 64;
/// The maximum number of bytes that the origin reads in one call.
const READ: usize = 64 * 1024;

/// The protocol state machine of a connection. As in the origin, the first bytes select HTTP/1 or HTTP/2.
#[derive(Debug)]
enum Machine {
    Undecided,
    Http1(Box<h1::server::Connection>),
    Http2(Box<h2::server::Connection>),
}

/// Calls a method of the current state machine. Returns the default if there is no state machine yet.
macro_rules! either {
    ($machine:expr, $default:expr, $connection:ident => $call:expr) => {
        match $machine {
            Machine::Undecided => $default,
            Machine::Http1($connection) => $call,
            Machine::Http2($connection) => $call,
        }
    };
}

/// The server's side of a connection.
#[derive(Debug)]
pub(crate) struct Server {
    machine: Machine,
    begin: Vec<u8>,
    /// Whether the socket is closed. A closed socket is neither read nor written.
    is_over: bool,
    ended: bool,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server {
            machine: Machine::Undecided,
            begin: Vec::new(),
            is_over: false,
            ended: false,
        }
    }

    /// Whether the next turn has data to read or to write.
    pub(crate) fn is_ready(&self, endpoint: &Endpoint) -> bool {
        let has_news = endpoint.unread() > 0 || endpoint.is_readable() && !self.ended;
        !self.is_over
            && endpoint.is_established()
            && (has_news || self.is_waiting_to_write(endpoint))
    }

    fn is_waiting_to_write(&self, endpoint: &Endpoint) -> bool {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let waits = either!(&self.machine, 0, machine => machine.transmit(&mut slices)) > 0;
        waits && endpoint.is_writable()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.is_over {
            true => None,
            false => either!(&self.machine, None, machine => machine.poll_timeout()),
        }
    }

    /// Runs the protocol until it would block. A reset is not in the model: the connection is closed instead.
    pub(crate) fn serve(&mut self, endpoint: &mut Endpoint, scenario: &Scenario<'_>, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            either!(&mut self.machine, (), machine => machine.handle_timeout(now));
        }
        while !self.is_over {
            let mut progress = self.write(endpoint, now);
            while either!(&mut self.machine, None, machine => machine.poll_event().map(drop))
                .is_some()
            {}
            while let Some(action) =
                either!(&mut self.machine, None, machine => machine.poll_action())
            {
                progress = true;
                endpoint.close(now);
                self.is_over |= action != Action::ShutdownWrite;
            }
            if either!(&self.machine, false, machine => machine.is_finished()) {
                endpoint.close(now);
                self.is_over = true;
                return;
            }
            progress |= self.read(endpoint, scenario, now);
            if !progress {
                return;
            }
        }
    }

    fn write(&mut self, endpoint: &mut Endpoint, now: Instant) -> bool {
        let mut progress = false;
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = either!(&self.machine, 0, machine => machine.transmit(&mut slices));
            if count == 0 {
                return progress;
            }
            let more = either!(&self.machine, false, machine => machine.more_follows());
            let bytes: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|part| part.to_vec())
                .collect();
            let written = endpoint.write(&bytes, more, now);
            if written == 0 {
                return progress;
            }
            progress = true;
            either!(&mut self.machine, (), machine => machine.transmitted(written, now));
        }
    }

    fn read(&mut self, endpoint: &mut Endpoint, scenario: &Scenario<'_>, now: Instant) -> bool {
        if !either!(&self.machine, true, machine => machine.wants_data()) || self.ended {
            return false;
        }
        match endpoint.read(READ, now) {
            Read::Data(bytes) => self.take(&bytes, scenario, now),
            Read::End => {
                self.ended = true;
                self.take_end(scenario, now);
            }
            Read::WouldBlock => return false,
        }
        true
    }

    fn take(&mut self, bytes: &[u8], scenario: &Scenario<'_>, now: Instant) {
        if !matches!(self.machine, Machine::Undecided) {
            return either!(&mut self.machine, (), machine => machine.handle_data(bytes, now));
        }
        self.begin.extend_from_slice(bytes);
        let begin = std::mem::take(&mut self.begin);
        let compared = begin.len().min(h2::PREFACE.len());
        if begin[..compared] != h2::PREFACE[..compared] {
            self.begin_http1(scenario, now);
        } else if compared < h2::PREFACE.len() {
            self.begin = begin;
            return;
        } else {
            let (origin, config) = (Arc::clone(&scenario.origin), Arc::clone(&scenario.http2));
            let machine = h2::server::Connection::new(origin, config, now);
            self.machine = Machine::Http2(Box::new(machine));
        }
        either!(&mut self.machine, (), machine => machine.handle_data(&begin, now));
    }

    fn take_end(&mut self, scenario: &Scenario<'_>, now: Instant) {
        if matches!(self.machine, Machine::Undecided) {
            self.begin_http1(scenario, now);
        }
        either!(&mut self.machine, (), machine => machine.handle_eof(now));
    }

    fn begin_http1(&mut self, scenario: &Scenario<'_>, now: Instant) {
        let (origin, config) = (Arc::clone(&scenario.origin), Arc::clone(&scenario.http1));
        let machine = h1::server::Connection::new(origin, config, now);
        self.machine = Machine::Http1(Box::new(machine));
    }
}
