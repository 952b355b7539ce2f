//! Chooses the connection for an exchange: a connection of the user in a closed loop, a shared connection in an open
//! loop.

use fathometer_model::{Failure, Instant};

use super::super::connections::{Connections, Owner};
use super::open::OpenLoop;
use super::user::{Choice, User};

/// The slot of a connection for an exchange, or the reason why none could be opened; `None` if no connection is free at
/// present.
pub(super) type Found = Option<Result<u32, Failure>>;

/// Finds a connection of the user to a host. `place` is the index of the user.
pub(super) fn own(
    user: &mut User,
    place: u32,
    connections: &mut Connections<'_>,
    host: u16,
) -> Found {
    let policy = &connections.context.shared.policy;
    let most = u32::from(policy.connections.max(1));
    let in_turn = policy.pipeline.is_some() || policy.protocol.multiplexes();
    let is_there = |connection| connections.host(connection) == host;
    let has_room = |connection| connections.has_room(connection);
    let own = &mut user.connections;
    match own.choose(most, in_turn, is_there, has_room) {
        Choice::Use(connection) => Some(Ok(connection)),
        Choice::Wait => None,
        Choice::Open => {
            let opened = connections.open(Owner::User(place), host);
            if let Ok(connection) = opened {
                own.push(connection);
            }
            Some(opened)
        }
    }
}

/// Finds a shared connection for an exchange. If none is free, the session of the user at index `place` waits.
pub(super) fn shared(
    open: &mut OpenLoop<'_>,
    user: &mut User,
    place: u32,
    connections: &mut Connections<'_>,
    planned: Instant,
) -> Found {
    let policy = &connections.context.shared.policy;
    let most = u32::from(policy.connections.max(1)) * u32::from(connections.context.shared.depth());
    user.is_at_limit = user.in_flight >= most;
    if user.is_at_limit {
        return None;
    }
    let has_room = |connection| connections.has_room(connection);
    let is_idle = |connection| connections.in_flight(connection) == 0;
    let found = match open.pool.choose(has_room, is_idle) {
        Choice::Use(connection) => Ok(connection),
        Choice::Open => connections
            .open(Owner::Pool, 0)
            .inspect(|_| open.pool.opened()),
        Choice::Wait => {
            if !std::mem::replace(&mut user.waiting, true) {
                open.wait(planned, place);
            }
            return None;
        }
    };
    if let Ok(connection) = found
        && policy.early_close
    {
        let used = (connection, connections.number(connection));
        if !user.used.contains(&used) {
            user.used.push(used);
        }
    }
    Some(found)
}
