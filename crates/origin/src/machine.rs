//! The protocol state machine of a connection, for HTTP/1 and HTTP/2.

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_http::h1::server::{FilePart, RequestText, Served, Upgrade};
use fathometer_http::origin::Origin;
use fathometer_http::{h1, h2};
use fathometer_model::Instant;

use super::protocols::Protocols;

pub(super) use fathometer_http::h1::server::Action;

/// Maximum number of slices handed to the kernel in one call.
pub(super) const SLICES: usize = 64;

/// A protocol state machine. The HTTP/1 machine is not boxed, because it is smaller and more frequent.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum Machine {
    Http1(h1::server::Connection),
    Http2(Box<h2::server::Connection>),
}

/// The state that all connections of a loop share.
#[derive(Debug)]
pub(super) struct Common {
    pub origin: Arc<Origin>,
    pub protocols: Protocols,
}

impl Common {
    /// Creates the machine of a new connection: for HTTP/1 if that is enabled, otherwise for HTTP/2.
    pub fn machine(&self, now: Instant) -> Machine {
        match &self.protocols.http1 {
            Some(config) => Machine::Http1(h1::server::Connection::new(
                Arc::clone(&self.origin),
                Arc::clone(config),
                now,
            )),
            None => self
                .http2(now)
                .expect("an origin serves at least one version"),
        }
    }

    /// Creates an HTTP/2 machine, if HTTP/2 is enabled.
    pub fn http2(&self, now: Instant) -> Option<Machine> {
        let config = self.protocols.http2.as_ref()?;
        let connection =
            h2::server::Connection::new(Arc::clone(&self.origin), Arc::clone(config), now);
        Some(Machine::Http2(Box::new(connection)))
    }

    /// Creates the HTTP/2 machine that replaces an HTTP/1 machine after an upgrade. The response to the upgrade is
    /// already sent.
    pub fn upgraded(&self, upgrade: &Upgrade, now: Instant) -> Option<Machine> {
        let config = self.protocols.http2.as_ref()?;
        let mut connection = h2::server::Connection::from_upgrade(
            Arc::clone(&self.origin),
            Arc::clone(config),
            upgrade,
            now,
        );
        connection.handle_data(&upgrade.rest, now);
        Some(Machine::Http2(Box::new(connection)))
    }
}

/// A response that was handed to the kernel, complete unless its stream was reset.
#[derive(Debug)]
pub(super) struct Handed {
    pub exchange: Served,
    pub whole: bool,
    pub pushed: bool,
}

impl From<Served> for Handed {
    fn from(exchange: Served) -> Handed {
        Handed {
            exchange,
            whole: true,
            pushed: false,
        }
    }
}

impl From<h2::server::Served> for Handed {
    fn from(served: h2::server::Served) -> Handed {
        Handed {
            exchange: served.exchange,
            whole: served.reset.is_none(),
            pushed: served.pushed,
        }
    }
}

/// Calls a method of either machine.
macro_rules! either {
    ($machine:expr, $connection:ident => $call:expr) => {
        match $machine {
            Machine::Http1($connection) => $call,
            Machine::Http2($connection) => $call,
        }
    };
}

/// These methods forward to the machines' methods of the same names.
impl Machine {
    pub fn is_http2(&self) -> bool {
        matches!(self, Machine::Http2(_))
    }

    pub fn wants_data(&self) -> bool {
        either!(self, connection => connection.wants_data())
    }

    pub fn handle_data(&mut self, data: &[u8], now: Instant) {
        either!(self, connection => connection.handle_data(data, now));
    }

    pub fn handle_eof(&mut self, now: Instant) {
        either!(self, connection => connection.handle_eof(now));
    }

    pub fn handle_failure(&mut self) {
        either!(self, connection => connection.handle_failure());
    }

    pub fn handle_truncated_file(&mut self) {
        either!(self, connection => connection.handle_truncated_file());
    }

    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        either!(self, connection => connection.transmit(slices))
    }

    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        either!(self, connection => connection.transmit_file())
    }

    pub fn more_follows(&self) -> bool {
        either!(self, connection => connection.more_follows())
    }

    pub fn transmitted(&mut self, count: usize, now: Instant) {
        either!(self, connection => connection.transmitted(count, now));
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        either!(self, connection => connection.poll_action())
    }

    pub fn poll_event(&mut self) -> Option<Handed> {
        either!(self, connection => connection.poll_event().map(Handed::from))
    }

    pub fn poll_event_with_text(&mut self) -> Option<(Handed, RequestText<'_>)> {
        either!(self, connection => {
            let (served, text) = connection.poll_event_with_text()?;
            Some((served.into(), text))
        })
    }

    /// Returns a response that was cut short. Call it until it returns `None`, because several streams may be
    /// cut short.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Handed, RequestText<'_>)> {
        either!(self, connection => {
            let (served, text) = connection.cut_short(now)?;
            Some((served.into(), text))
        })
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        either!(self, connection => connection.poll_timeout())
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        either!(self, connection => connection.handle_timeout(now));
    }

    pub fn transport_moved(&mut self, at: Instant) {
        either!(self, connection => connection.transport_moved(at));
    }

    pub fn announce_end(&mut self) {
        either!(self, connection => connection.announce_end());
    }

    pub fn end(&mut self, now: Instant) {
        either!(self, connection => connection.end(now));
    }

    pub fn is_sending(&self) -> bool {
        either!(self, connection => connection.is_sending())
    }

    pub fn waits_since(&self) -> Option<Instant> {
        either!(self, connection => connection.waits_since())
    }

    pub fn rest(&mut self) {
        either!(self, connection => connection.rest());
    }

    pub fn is_finished(&self) -> bool {
        either!(self, connection => connection.is_finished())
    }
}
