//! A place for a connection: its socket, its protocol machine and the exchanges on it.

use std::collections::VecDeque;
use std::net::TcpStream;

use fathometer_http::h1::client::{Config, Connection};

/// One exchange under way. Times are nanoseconds of the clock; zero: not yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) planned: u64,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) first_byte: u64,
    pub(super) target: u32,
    pub(super) page: u32,
    /// The place of its user in the loop.
    pub(super) user: u32,
    /// Octets of its head.
    pub(super) head: u32,
    /// Octets of its content.
    pub(super) content: u64,
    /// Its place in the page.
    pub(super) member: u16,
    pub(super) status: u16,
    /// It has been asked before, on a connection that ended.
    pub(super) retried: bool,
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: there is no connection.
    Free,
    /// Waiting for the handshake.
    Connecting,
    /// Exchanging.
    Open,
    /// Done; waiting for the server to close first, so that the local port is free at once.
    Lingering,
}

/// Who ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// This side, having no more to ask.
    Client,
    /// The server, or this side because the server said that it would.
    Server,
    /// Nobody in order.
    Failure,
}

/// The owner of a connection that belongs to nobody in particular.
pub(super) const POOL: u32 = u32::MAX;

/// A place for a connection, used by one after another. The machine keeps its memory.
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) stream: Option<TcpStream>,
    pub(super) machine: Connection,
    pub(super) exchanges: VecDeque<Exchange>,
    /// Counts the connections that were here, so that news of an old one is known as such.
    pub(super) generation: u32,
    /// The number of the connection in the whole test.
    pub(super) number: u32,
    /// The user it belongs to, or [`POOL`].
    pub(super) owner: u32,
    /// When it was asked for.
    pub(super) opened: u64,
    /// When it was there; zero: not yet.
    pub(super) established: u64,
    /// When it could take a further request.
    pub(super) free_since: u64,
    /// When lingering ends.
    pub(super) linger_until: u64,
    /// When its timer is due; zero when there is none.
    pub(super) armed_at: u64,
    /// Exchanges completed on this connection.
    pub(super) served: u32,
    /// Requests that it may still be given; it counts down where there is a limit.
    pub(super) left: u32,
    /// The kernel's buffer is full.
    pub(super) blocked: bool,
    /// The server has closed its side.
    pub(super) closed_there: bool,
    /// It is on the list of those with something to write.
    pub(super) dirty: bool,
    /// It is on the list of those that can take a request.
    pub(super) listed: bool,
}

impl Slot {
    pub(super) fn new(config: Config) -> Slot {
        Slot {
            state: State::Free,
            stream: None,
            machine: Connection::new(config),
            exchanges: VecDeque::new(),
            generation: 0,
            number: 0,
            owner: POOL,
            opened: 0,
            established: 0,
            free_since: 0,
            linger_until: 0,
            armed_at: 0,
            served: 0,
            left: u32::MAX,
            blocked: false,
            closed_there: false,
            dirty: false,
            listed: false,
        }
    }

    /// Whether a request may be given to it now.
    pub(super) fn has_room(&self) -> bool {
        matches!(self.state, State::Open | State::Connecting)
            && self.left > 0
            && self.machine.can_request()
    }
}
