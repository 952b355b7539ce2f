//! HTTP/3 connections, whose state machines belong to the caller of the driver. The driver passes requests to
//! the caller, and the caller passes the events of the machines back.

use fathometer_model::{Bytes, Failure, Instant};

use super::action::ConnectionId;
use super::link::LinkState;
use super::machine::HostedRequest;
use super::page::PageDriver;
use crate::client::{Event, Head, Queued, RequestId, SendError, WindowWait};

impl PageDriver {
    /// Takes the next request to send on an HTTP/3 connection. Report the result by
    /// [`handle_queued`](Self::handle_queued).
    pub fn take_request(&mut self, conn: ConnectionId) -> Option<HostedRequest> {
        let link = self.links.get_mut(conn.0 as usize)?;
        match link.is_live() {
            true => link.machine.hosted_mut()?.take(),
            false => None,
        }
    }

    /// Takes the next request to cancel on an HTTP/3 connection, with the failure that the caller's machine must then
    /// report.
    pub fn take_cancelled(&mut self, conn: ConnectionId) -> Option<(RequestId, Failure)> {
        let link = self.links.get_mut(conn.0 as usize)?;
        match link.is_live() {
            true => link.machine.hosted_mut()?.take_cancelled(),
            false => None,
        }
    }

    /// Reports the size on the wire of a request that was taken, or the reason why it could not be sent.
    pub fn handle_queued(
        &mut self,
        conn: ConnectionId,
        request: RequestId,
        queued: Result<Queued, SendError>,
        now: Instant,
    ) {
        let place = conn.0 as usize;
        let Some(exchange) = self
            .links
            .get(place)
            .and_then(|link| link.exchange(request))
        else {
            return;
        };
        match queued {
            Ok(queued) => {
                let record = &mut self.exchanges[exchange].record;
                record.request_head = queued.head;
                record.request_fields = Some(queued.fields);
            }
            Err(_) => {
                let event = Event::Unanswered {
                    request,
                    failure: Failure::LocalAbort,
                    sent: false,
                    idempotent: true,
                    persists: true,
                };
                self.handle_hosted(conn, event, None, now);
            }
        }
    }

    /// Handles an event of the state machine of an HTTP/3 connection. `head` is the head of an `Interim` or `Head`
    /// event.
    pub fn handle_hosted(
        &mut self,
        conn: ConnectionId,
        event: Event<'_>,
        head: Option<Head<'_>>,
        now: Instant,
    ) {
        let place = conn.0 as usize;
        if let Some(link) = self.links.get_mut(place)
            && link.is_live()
            && let Some(hosted) = link.machine.hosted_mut()
        {
            hosted.note(&event, head);
            self.handle_event(place, event, now);
            self.pump(place, &[], now);
            self.after_pump(place, false, now);
        }
        self.advance(now);
    }

    /// Reports how long the server of an HTTP/3 connection waited for flow-control windows of this client.
    pub fn handle_window_waits(&mut self, conn: ConnectionId, waits: Vec<WindowWait>) {
        let place = conn.0 as usize;
        if place < self.links.len() {
            self.note_window_waits(place, waits);
        }
    }

    /// Reports the progress of an HTTP/3 connection: the first request of which no byte has been sent yet, and
    /// the total bytes sent and received.
    pub fn handle_progress(
        &mut self,
        conn: ConnectionId,
        first_unsent: RequestId,
        sent: Bytes,
        received: Bytes,
        now: Instant,
    ) {
        let place = conn.0 as usize;
        let Some(link) = self.links.get_mut(place) else {
            return;
        };
        let Some(hosted) = link.machine.hosted_mut() else {
            return;
        };
        hosted.handle_sent(first_unsent);
        self.bytes.received += received - link.record.received.min(received);
        link.record.sent = sent;
        link.record.received = received;
        if link.state != LinkState::Closed {
            self.note_sent(place, now);
        }
    }
}
