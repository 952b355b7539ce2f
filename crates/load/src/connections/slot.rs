//! A slot for a connection: its socket, its TLS session (if any), its protocol state machine and its
//! exchanges.

use std::net::TcpStream;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_tls::Session;

use super::super::frames::Counted;
use super::super::shared::Limits;
use super::super::tally::ConnectionEnd;
use super::super::timers::{Deadline, NEVER};
use super::in_flight::InFlight;
use super::machine::Machine;

/// The maximum number of concurrent streams before the server has announced its limit. Servers should permit at least
/// 100 (RFC 9113 section 6.5.2).
const STREAMS_AT_FIRST: usize = 100;

/// The idle time after which a connection frees its buffers.
const SHRINK_AFTER: Duration = Duration::from_secs(5);

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is no connection.
    Free,
    /// Waiting for the TCP or QUIC handshake.
    Connecting,
    /// Waiting for the TLS handshake.
    Securing,
    /// Carrying exchanges, or ready for them.
    Open,
    /// Finished; waiting for the server to close first, so that the local port is free at once.
    Lingering,
}

/// The protection of the bytes of a connection.
pub(super) enum Protection {
    /// Cleartext.
    None,
    /// TLS.
    Tls(Box<Session>),
    /// TLS whose session is in use while the decrypted data is handled. Nothing can be written during this time.
    Lent,
}

/// The user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// All sessions of an open loop.
    Pool,
    /// The user with this index in a closed loop.
    User(u32),
    /// No user: the connection carries no further request.
    Nothing,
}

/// The action for a connection whose timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// No action while the connection's state stays the same.
    Nothing,
    /// Another check at this instant.
    Again(Instant),
    /// Closes the connection: the server announced that it would close, but did not.
    StopLingering,
    /// Closes the connection: it was idle for too long.
    CloseIdle,
    /// Times out some exchanges of the connection.
    TimeOutExchanges,
    /// Fails the connection: it was not established within the time limit, or not before its first exchange timed out.
    FailToConnect,
}

/// A slot for one connection at a time. The state machine keeps its memory between connections.
///
/// A connection carries requests between `established` and its last event, and has no owner after that. `exchanges` are
/// those that were passed to the connection and have not ended.
pub(super) struct Slot {
    pub(super) state: State,
    /// The TCP socket; `None` for QUIC, because the QUIC client has a UDP socket.
    pub(super) stream: Option<TcpStream>,
    pub(super) protection: Protection,
    pub(super) machine: Machine,
    pub(super) exchanges: InFlight,
    /// The number of connections that this slot has had. It identifies events of earlier connections.
    pub(super) generation: u32,
    /// The number of the connection in the whole test.
    pub(super) number: u32,
    pub(super) owner: Owner,
    /// The index of the connection's host in the policy.
    pub(super) host: u16,
    /// The time at which the connection was opened.
    pub(super) opened: Instant,
    /// The time at which the TCP handshake was complete and TLS began.
    pub(super) reached: Instant,
    /// The time from which the connection could carry requests; zero before it is established.
    pub(super) established: Instant,
    /// The time at which data was last read from the connection.
    pub(super) last_received: Instant,
    /// CPU time of the TLS handshake.
    pub(super) handshake_time: Duration,
    /// The number of the machine's bytes that were sent as early data, and the time at which they were sent.
    pub(super) early: Option<(usize, Instant)>,
    /// The time at which the connection was established, or at which its last exchange ended.
    pub(super) free_since: Instant,
    /// Whether the connection could take no further request at the last check.
    pub(super) is_full: bool,
    /// The time at which the connection was established, or at which it could last take requests again after it was
    /// full. A request that is passed to the connection could not be sent on it earlier.
    pub(super) room_since: Instant,
    /// The time at which the connection stops waiting for the server to close.
    pub(super) linger_until: Instant,
    /// The time of the next check ([`Slot::check`]).
    pub(super) deadline: Deadline,
    /// The number of exchanges completed on this connection.
    pub(super) served: u32,
    /// The number of requests that the connection may still carry; counts down only if there is a limit.
    pub(super) left: u32,
    /// Whether the kernel's send buffer is full.
    pub(super) blocked: bool,
    /// Whether the server has closed its side.
    pub(super) peer_closed: bool,
    /// Whether the server has announced its limit on concurrent streams.
    pub(super) has_peer_limit: bool,
    /// How the connection ended; set if the machine finishes while its input is still borrowed.
    pub(super) ending: Option<ConnectionEnd>,
    /// The maximum number of concurrent exchanges since frames were last counted.
    pub(super) most_streams: u32,
    /// Frames that the tally already includes.
    pub(super) counted: Counted,
    /// Whether the connection is in the queue of connections to write.
    pub(super) dirty: bool,
    /// Whether the connection is in the queue of connections to read.
    pub(super) unread: bool,
}

impl Slot {
    pub(super) fn new(machine: Machine) -> Slot {
        Slot {
            state: State::Free,
            stream: None,
            protection: Protection::None,
            machine,
            exchanges: InFlight::default(),
            generation: 0,
            number: 0,
            owner: Owner::Nothing,
            host: 0,
            opened: Instant::ZERO,
            reached: Instant::ZERO,
            established: Instant::ZERO,
            last_received: Instant::ZERO,
            handshake_time: Duration::ZERO,
            early: None,
            free_since: Instant::ZERO,
            is_full: false,
            room_since: Instant::ZERO,
            linger_until: Instant::ZERO,
            deadline: Deadline::default(),
            served: 0,
            left: u32::MAX,
            blocked: false,
            peer_closed: false,
            has_peer_limit: false,
            ending: None,
            most_streams: 0,
            counted: Counted::default(),
            dirty: false,
            unread: false,
        }
    }

    /// Starts a new connection, which may carry `left` requests.
    pub(super) fn begin(&mut self, number: u32, owner: Owner, host: u16, left: u32, now: Instant) {
        self.state = State::Connecting;
        self.number = number;
        self.owner = owner;
        self.host = host;
        self.opened = now;
        self.established = Instant::ZERO;
        self.is_full = false;
        self.room_since = Instant::ZERO;
        self.handshake_time = Duration::ZERO;
        self.early = None;
        self.served = 0;
        self.left = left;
        self.blocked = false;
        self.peer_closed = false;
        self.has_peer_limit = false;
        self.ending = None;
        self.counted = Counted::default();
        self.most_streams = 0;
    }

    /// Frees the slot; the caller has closed the socket.
    pub(super) fn end(&mut self) {
        self.state = State::Free;
        self.protection = Protection::None;
        self.generation = self.generation.wrapping_add(1);
        self.machine.renew();
    }

    pub(super) fn is_established(&self) -> bool {
        self.established > Instant::ZERO
    }

    /// Returns whether a request may be passed to the connection now.
    pub(super) fn has_room(&self) -> bool {
        matches!(
            self.state,
            State::Open | State::Connecting | State::Securing
        ) && self.left > 0
            && self.machine.can_request()
            && (self.has_peer_limit
                || self.exchanges.len() < STREAMS_AT_FIRST
                || !self.machine.multiplexes())
    }

    /// Records that a request was passed to the connection.
    pub(super) fn note_request(&mut self) {
        self.is_full = !self.has_room();
    }

    /// Records that an exchange has ended, or that the server has changed its limit on streams. If the connection was
    /// not full before, requests that wait now did not wait for the server, so their send lag is caused by the
    /// generator.
    pub(super) fn note_room(&mut self, now: Instant) {
        let is_full = !self.has_room();
        if self.is_full && !is_full {
            self.room_since = now;
        }
        self.is_full = is_full;
    }

    /// Returns whether the connection itself has failed, and not only one of its streams: the server has sent nothing
    /// for a whole time-out. The time that a request waited before it was sent is not counted.
    pub(super) fn is_dead(&self, now: Instant, timeout: Duration) -> bool {
        self.exchanges.oldest().is_some_and(|oldest| {
            let waits = now.since(oldest.sent_at());
            oldest.is_sent() && self.last_received <= oldest.sent_at() && waits >= timeout / 2
        })
    }

    /// Returns the action for a connection whose timer is due. Frees unused memory if the connection has been idle for
    /// long.
    ///
    /// The timer is set again after each idle time, even if the connection is busy. This avoids a timer for every
    /// exchange.
    pub(super) fn check(&mut self, now: Instant, limits: &Limits) -> Check {
        let oldest = self.exchanges.oldest_plan();
        let overdue_at = oldest.map(|planned| planned + limits.timeout);
        let until = match self.state {
            State::Free => return Check::Nothing,
            State::Connecting | State::Securing => {
                (self.opened + limits.connect_timeout).min(overdue_at.unwrap_or(NEVER))
            }
            State::Lingering => self.linger_until,
            State::Open => match overdue_at {
                Some(overdue_at) => overdue_at,
                None => {
                    let shrinks = self.free_since + SHRINK_AFTER;
                    let ends = limits.keep_alive.map(|time| self.free_since + time);
                    if shrinks <= now {
                        self.shrink();
                    }
                    match ends {
                        None if shrinks <= now => return Check::Nothing,
                        None => shrinks,
                        Some(ends) if shrinks <= now => ends,
                        Some(ends) => ends.min(shrinks),
                    }
                }
            },
        };
        match self.state {
            _ if until > now && self.exchanges.is_empty() => Check::Again(until),
            _ if until > now => Check::Again(until.min(now + idle_time(limits))),
            State::Lingering => Check::StopLingering,
            State::Open if self.exchanges.is_empty() => Check::CloseIdle,
            State::Open => Check::TimeOutExchanges,
            _ => Check::FailToConnect,
        }
    }

    /// Frees unused memory of a connection that will be idle for long.
    pub(super) fn shrink(&mut self) {
        self.machine.shrink();
        self.exchanges.shrink();
        if let Protection::Tls(tls) = &mut self.protection {
            tls.free_buffers();
        }
    }
}

/// Returns the idle time after which a connection frees memory or is closed.
pub(super) fn idle_time(limits: &Limits) -> Duration {
    limits
        .keep_alive
        .map_or(SHRINK_AFTER, |ends| ends.min(SHRINK_AFTER))
}

#[cfg(test)]
mod tests {
    use fathometer_http::client::{Config, Connection, PreparedRequest};
    use fathometer_http::driver::Policy;

    use super::super::super::exchange::Exchange;
    use super::*;

    const LIMITS: Limits = Limits {
        timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(10),
        keep_alive: Some(Duration::from_secs(15)),
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Creates a connection that was opened after 100 seconds.
    fn connecting() -> Slot {
        let mut slot = Slot::new(Machine::Quic(None));
        slot.begin(1, Owner::Pool, 0, u32::MAX, at(100));
        slot
    }

    /// Creates a connection that was established after 101 seconds and has been idle since.
    fn open() -> Slot {
        let mut slot = connecting();
        slot.state = State::Open;
        slot.established = at(101);
        slot.free_since = at(101);
        slot
    }

    fn with_exchange(mut slot: Slot, planned: u64) -> Slot {
        slot.exchanges
            .push(Exchange::planned(at(planned), 0, 0, 0, 0));
        slot
    }

    #[test]
    fn connecting_ends_at_its_limit_or_when_an_exchange_times_out() {
        let mut slot = connecting();
        assert_eq!(slot.check(at(109), &LIMITS), Check::Again(at(110)));
        assert_eq!(slot.check(at(110), &LIMITS), Check::FailToConnect);
        let mut slot = with_exchange(connecting(), 78);
        assert_eq!(slot.check(at(107), &LIMITS), Check::Again(at(108)));
        assert_eq!(slot.check(at(108), &LIMITS), Check::FailToConnect);
    }

    #[test]
    fn an_idle_connection_is_shrunk_and_closed_when_its_time_is_over() {
        let mut slot = open();
        assert_eq!(slot.check(at(102), &LIMITS), Check::Again(at(106)));
        assert_eq!(slot.check(at(106), &LIMITS), Check::Again(at(116)));
        assert_eq!(slot.check(at(116), &LIMITS), Check::CloseIdle);
        let forever = Limits {
            keep_alive: None,
            ..LIMITS
        };
        assert_eq!(slot.check(at(105), &forever), Check::Again(at(106)));
        assert_eq!(slot.check(at(106), &forever), Check::Nothing);
        let short = Limits {
            keep_alive: Some(Duration::from_secs(2)),
            ..LIMITS
        };
        assert_eq!(slot.check(at(102), &short), Check::Again(at(103)));
        assert_eq!(slot.check(at(103), &short), Check::CloseIdle);
    }

    #[test]
    fn a_busy_connection_is_checked_after_each_idle_time_until_an_exchange_times_out() {
        let mut slot = with_exchange(open(), 110);
        assert_eq!(slot.check(at(111), &LIMITS), Check::Again(at(116)));
        assert_eq!(slot.check(at(136), &LIMITS), Check::Again(at(140)));
        assert_eq!(slot.check(at(140), &LIMITS), Check::TimeOutExchanges);
    }

    #[test]
    fn a_lingering_connection_is_closed_and_a_free_place_needs_nothing() {
        let mut slot = open();
        slot.state = State::Lingering;
        slot.linger_until = at(102);
        assert_eq!(slot.check(at(101), &LIMITS), Check::Again(at(102)));
        assert_eq!(slot.check(at(102), &LIMITS), Check::StopLingering);
        slot.end();
        assert_eq!(slot.check(at(103), &LIMITS), Check::Nothing);
    }

    #[test]
    fn a_response_gives_room_only_to_a_connection_that_was_full() {
        let policy: Policy = "h1.1-pipeline2".parse().unwrap();
        let config = Config {
            depth: 2,
            ..Config::default()
        };
        let shape = PreparedRequest::new(policy.protocol, "GET", "localhost", &[], None).unwrap();
        let connection = Connection::new(policy.protocol, &config).unwrap();
        let mut slot = Slot::new(Machine::Stream(connection));
        slot.begin(1, Owner::Pool, 0, u32::MAX, at(100));
        slot.state = State::Open;
        slot.room_since = at(101);
        let request = |slot: &mut Slot| {
            slot.machine.request(&shape, "/", None).unwrap();
            slot.note_request();
        };
        let answer = |slot: &mut Slot, now| {
            let sent = slot.machine.transmit().len();
            slot.machine.transmitted(sent, now);
            let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            while slot.machine.poll(&mut input, now).is_some() {}
            slot.note_room(now);
            slot.room_since
        };
        request(&mut slot);
        assert_eq!(answer(&mut slot, at(110)), at(101), "it had room");
        request(&mut slot);
        request(&mut slot);
        assert!(!slot.has_room());
        assert_eq!(answer(&mut slot, at(120)), at(120), "it was full");
        assert_eq!(answer(&mut slot, at(130)), at(120), "it had room");
    }

    #[test]
    fn a_connection_is_dead_that_was_silent_for_half_the_time_limit_after_a_request_left() {
        let mut exchange = Exchange::planned(at(110), 0, 0, 0, 0);
        exchange.leaves(at(130));
        let mut slot = open();
        slot.exchanges.push(exchange);
        slot.last_received = at(120);
        assert!(!slot.is_dead(at(144), LIMITS.timeout));
        assert!(slot.is_dead(at(145), LIMITS.timeout));
        slot.last_received = at(131);
        assert!(!slot.is_dead(at(145), LIMITS.timeout));
        assert!(!with_exchange(open(), 110).is_dead(at(200), LIMITS.timeout));
    }
}
