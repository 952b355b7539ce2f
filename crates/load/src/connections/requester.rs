//! The interface between connections and the part of a loop that makes requests.

use fathometer_model::Instant;

use super::super::context::Context;
use super::super::exchange::Exchange;
use super::slot::Owner;

/// The part of a loop that decides what to request. [`Connections`](super::Connections) reports to it the events that
/// concern a user.
///
/// Every exchange that was passed to a connection is returned once, by [`retry`](Self::retry) or by
/// [`has_ended`](Self::has_ended), unless the test ends first.
pub(crate) trait Requester {
    /// Returns the number, in the whole test, of the user of an exchange.
    fn number(&self, exchange: &Exchange) -> u32;

    /// Called when a connection can carry requests.
    fn has_connected(&mut self, owner: Owner);

    /// Called when a connection could not be established; its user then pauses.
    fn has_not_connected(&mut self, owner: Owner, now: Instant);

    /// Called when a connection is closed, or accepts no more requests.
    fn has_lost(&mut self, owner: Owner, place: u32);

    /// Called when a shared connection can take a request.
    fn offer(&mut self, place: u32, is_idle: bool);

    /// Called when a connection may take more requests than before.
    fn has_room(&mut self, owner: Owner);

    /// Returns an exchange, which must be sent on another connection.
    fn retry(&mut self, exchange: Exchange);

    /// Closes the past intervals of the timeline. Called before the end of an exchange is counted.
    fn close_past_intervals(&mut self, context: &mut Context<'_>);

    /// Called when an exchange has ended, successfully or not.
    fn has_ended(&mut self, context: &mut Context<'_>, exchange: &Exchange, complete: bool);
}
