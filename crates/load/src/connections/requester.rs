//! What connections report, and to which part of a loop.

use fathometer_model::Instant;

use super::super::context::Context;
use super::super::exchange::Exchange;
use super::slot::Owner;

/// The part of a loop that decides what is requested. [`Connections`](super::Connections) report to it what
/// concerns a user.
///
/// Every exchange that was given to a connection comes back once, by [`retry`](Self::retry) or by
/// [`has_ended`](Self::has_ended), unless the test ends first.
pub(crate) trait Requester {
    /// The number in the whole test of the user of an exchange.
    fn number(&self, exchange: &Exchange) -> u32;

    /// A connection can be used.
    fn has_connected(&mut self, owner: Owner);

    /// A connection could not be established: its user waits a little.
    fn has_not_connected(&mut self, owner: Owner, now: Instant);

    /// A connection has ended, or carries nothing more.
    fn has_lost(&mut self, owner: Owner, place: u32);

    /// A shared connection can take a request.
    fn offer(&mut self, place: u32, is_idle: bool);

    /// A connection may take more than before.
    fn has_room(&mut self, owner: Owner);

    /// An exchange is to be given to another connection.
    fn retry(&mut self, exchange: Exchange);

    /// Closes the intervals of the timeline that are over; called before an end is counted.
    fn close_past_intervals(&mut self, context: &mut Context<'_>);

    /// An exchange has ended, complete or not.
    fn has_ended(&mut self, context: &mut Context<'_>, exchange: &Exchange, complete: bool);
}
