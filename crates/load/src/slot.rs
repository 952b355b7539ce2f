//! A place for a connection: its socket, its TLS session (if any), its protocol machine and its exchanges.

use std::collections::VecDeque;
use std::net::TcpStream;

use fathometer_http::client::RequestId;
use fathometer_tls::Session;

use super::frames::Counted;
use super::machine::Machine;

/// Streams that a connection uses before the server has announced its limit. RFC 9113 section 6.5.2 recommends
/// that servers allow no fewer.
const STREAMS_AT_FIRST: usize = 100;

/// One exchange in flight. Times are nanoseconds of the clock; zero: not yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    /// Its request, as the connection numbers it.
    pub(super) request: RequestId,
    pub(super) planned: u64,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) first_byte: u64,
    pub(super) target: u32,
    pub(super) page: u32,
    /// The index of its user in the loop.
    pub(super) user: u32,
    /// Bytes of the request's head.
    pub(super) head: u32,
    /// Bytes of the request's fields before compression.
    pub(super) fields: u32,
    /// Bytes of the request's content.
    pub(super) content: u64,
    /// Its index in the page.
    pub(super) member: u16,
    pub(super) status: u16,
    /// It is a retry.
    pub(super) retried: bool,
    /// It timed out, and its stream was cancelled for that.
    pub(super) overdue: bool,
}

impl Exchange {
    /// An exchange that was planned for a member of a page and is not yet requested.
    pub(super) fn planned(
        planned: u64,
        user: u32,
        page: u32,
        member: u16,
        target: u32,
    ) -> Exchange {
        Exchange {
            request: RequestId::default(),
            planned,
            due: 0,
            sent: 0,
            first_byte: 0,
            target,
            page,
            user,
            head: 0,
            fields: 0,
            content: 0,
            member,
            status: 0,
            retried: false,
            overdue: false,
        }
    }
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is no connection.
    Free,
    /// Waiting for the handshake of TCP, or of QUIC.
    Connecting,
    /// Waiting for the handshake of TLS.
    Securing,
    /// Carrying exchanges.
    Open,
    /// Done; waiting for the server to close first, so that the local port is free at once.
    Lingering,
}

/// Which side ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// This side, with nothing more to request.
    Client,
    /// The server, or this side because the server announced it.
    Server,
    /// Neither: it failed.
    Failure,
}

/// What protects the bytes of a connection.
pub(super) enum Protection {
    /// Nothing.
    None,
    /// TLS.
    Tls(Box<Session>),
    /// TLS, taken out while the data that it opened is handled: nothing can be written.
    Lent,
}

/// The owner of connections that all sessions share.
pub(super) const POOL: u32 = u32::MAX;

/// A place for connections, one after another. The machine keeps its memory.
pub(super) struct Slot {
    pub(super) state: State,
    /// Its socket; `None` for QUIC, which has a socket of its own.
    pub(super) stream: Option<TcpStream>,
    pub(super) protection: Protection,
    pub(super) machine: Machine,
    /// In the order of their requests, in whatever order they are answered.
    pub(super) exchanges: VecDeque<Exchange>,
    /// Counts the connections in this slot, so that events of an earlier one are recognised.
    pub(super) generation: u32,
    /// The number of the connection in the whole test.
    pub(super) number: u32,
    /// The user it belongs to, or [`POOL`].
    pub(super) owner: u32,
    /// Which of the policy's hosts it goes to.
    pub(super) host: u16,
    /// When it was opened.
    pub(super) opened: u64,
    /// When TCP was established, and TLS began.
    pub(super) reached: u64,
    /// When it could carry requests; zero: not yet.
    pub(super) established: u64,
    /// When data was last read from it.
    pub(super) heard: u64,
    /// CPU time that the TLS handshake has taken, in nanoseconds.
    pub(super) handshake_time: u64,
    /// Bytes of the machine that were sent as early data, and when.
    pub(super) early: Option<(usize, u64)>,
    /// When it could take a further request.
    pub(super) free_since: u64,
    /// When the server last allowed more streams.
    pub(super) room_since: u64,
    /// When it stops waiting for the server to close.
    pub(super) linger_until: u64,
    /// When its timer is due; zero: no timer.
    pub(super) armed_at: u64,
    /// Exchanges completed on this connection.
    pub(super) served: u32,
    /// Requests that it may still carry; counts down only where there is a limit.
    pub(super) left: u32,
    /// The kernel's buffer is full.
    pub(super) blocked: bool,
    /// The server has closed its side.
    pub(super) closed_there: bool,
    /// The server has announced how many streams it allows.
    pub(super) knows_server: bool,
    /// How it ended; set when the machine is done while its input is still borrowed.
    pub(super) ending: Option<End>,
    /// The most exchanges in flight on it at a time since frames were last counted.
    pub(super) most_streams: u32,
    /// Frames that are already in the tally.
    pub(super) counted: Counted,
    /// It is on the list of those with something to write.
    pub(super) dirty: bool,
    /// It is in the queue of those with more to read.
    pub(super) unread: bool,
    /// It is on the list of those that can take a request.
    pub(super) listed: bool,
}

impl Slot {
    pub(super) fn new(machine: Machine) -> Slot {
        Slot {
            state: State::Free,
            stream: None,
            protection: Protection::None,
            machine,
            exchanges: VecDeque::new(),
            generation: 0,
            number: 0,
            owner: POOL,
            host: 0,
            opened: 0,
            reached: 0,
            established: 0,
            heard: 0,
            handshake_time: 0,
            early: None,
            free_since: 0,
            room_since: 0,
            linger_until: 0,
            armed_at: 0,
            served: 0,
            left: u32::MAX,
            blocked: false,
            closed_there: false,
            knows_server: false,
            ending: None,
            most_streams: 0,
            counted: Counted::default(),
            dirty: false,
            unread: false,
            listed: false,
        }
    }

    /// The earliest planned instant of its exchanges.
    pub(super) fn oldest_plan(&self) -> Option<u64> {
        self.exchanges.iter().map(|exchange| exchange.planned).min()
    }

    /// Whether a request may be given to it now.
    pub(super) fn has_room(&self) -> bool {
        matches!(
            self.state,
            State::Open | State::Connecting | State::Securing
        ) && self.left > 0
            && self.machine.can_request()
            && (self.knows_server
                || self.exchanges.len() < STREAMS_AT_FIRST
                || !self.machine.multiplexes())
    }

    /// Frees unused memory, for a connection that will be idle for long.
    pub(super) fn shrink(&mut self) {
        self.machine.shrink();
        if self.exchanges.is_empty() {
            self.exchanges = VecDeque::new();
        }
        if let Protection::Tls(tls) = &mut self.protection {
            tls.free_buffers();
        }
    }

    /// The index of a request's exchange. HTTP/1.x answers in order, and HTTP/2 nearly.
    pub(super) fn place_of(&self, request: RequestId) -> Option<usize> {
        match self.exchanges.front() {
            Some(oldest) if oldest.request == request => Some(0),
            _ => self
                .exchanges
                .binary_search_by_key(&request, |exchange| exchange.request)
                .ok(),
        }
    }

    /// Returns the exchange of a request.
    pub(super) fn exchange(&mut self, request: RequestId) -> Option<&mut Exchange> {
        let place = self.place_of(request)?;
        self.exchanges.get_mut(place)
    }

    /// Removes the exchange of a request, which has ended.
    pub(super) fn take(&mut self, request: RequestId) -> Option<Exchange> {
        match self.place_of(request)? {
            0 => self.exchanges.pop_front(),
            place => self.exchanges.remove(place),
        }
    }
}
