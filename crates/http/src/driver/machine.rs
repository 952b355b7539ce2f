//! The state machine of a connection: it belongs to the driver or, for HTTP/3, to the driver's caller.

use std::collections::{BTreeSet, VecDeque};

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

use crate::client::{
    Connection, Event, Head, Queued, RequestId, RequestLine, SendError, WindowWait,
};
use crate::field_block::FieldBlock;
use crate::h2;

/// The state machine of one connection.
#[derive(Debug)]
pub(super) enum Machine {
    /// The driver's machine, which turns requests into the bytes of one transport.
    Own(Box<Connection>),
    /// An HTTP/3 machine uses many QUIC streams, so the driver's caller owns it. This variant records the requests to
    /// send and the requests in flight.
    Hosted(Hosted),
}

/// A request that the caller of the driver must send on a connection of HTTP/3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedRequest {
    /// The number of the request on the connection. The caller's machine numbers requests from 0 as well.
    pub request: RequestId,
    /// The method.
    pub method: String,
    /// The target.
    pub target: String,
    /// The host, with its port if it has one.
    pub host: String,
    /// Names and values of the fields.
    pub fields: Vec<(String, String)>,
}

/// The driver's record of a machine that belongs to its caller.
#[derive(Debug)]
pub(super) struct Hosted {
    waiting: VecDeque<HostedRequest>,
    /// The maximum number of requests in flight.
    streams: usize,
    next: RequestId,
    /// The requests that were passed to the caller and are not finished.
    owed: BTreeSet<RequestId>,
    first_unsent: RequestId,
    /// Requests that the caller must cancel, each with the failure to report.
    cancelled: VecDeque<(RequestId, Failure)>,
    status: u16,
    fields: FieldBlock,
    /// The reason why the connection closed, and the failure of its unfinished requests.
    end: Option<(CloseReason, Failure)>,
    is_closed: bool,
}

impl Hosted {
    pub(super) fn new(streams: u32) -> Hosted {
        Hosted {
            waiting: VecDeque::new(),
            streams: streams as usize,
            next: RequestId(0),
            owed: BTreeSet::new(),
            first_unsent: RequestId(0),
            cancelled: VecDeque::new(),
            status: 0,
            fields: FieldBlock::default(),
            end: None,
            is_closed: false,
        }
    }

    /// Takes the next request to send.
    pub(super) fn take(&mut self) -> Option<HostedRequest> {
        self.waiting.pop_front().filter(|_| self.end.is_none())
    }

    /// Takes the next request to cancel.
    pub(super) fn take_cancelled(&mut self) -> Option<(RequestId, Failure)> {
        self.cancelled.pop_front().filter(|_| self.end.is_none())
    }

    pub(super) fn handle_sent(&mut self, first_unsent: RequestId) {
        self.first_unsent = self.first_unsent.max(first_unsent).min(self.next);
    }

    /// Records an event of the caller's machine, before the driver handles it.
    pub(super) fn note(&mut self, event: &Event<'_>, head: Option<Head<'_>>) {
        match *event {
            Event::Head { .. } | Event::Interim { .. } => {
                self.fields.clear();
                if let Some(head) = head {
                    self.status = head.status();
                    for (name, value) in head.fields() {
                        self.fields.push(name, value);
                    }
                }
            }
            Event::End { request, .. }
            | Event::Failed { request, .. }
            | Event::Unanswered { request, .. } => {
                self.owed.remove(&request);
            }
            Event::Closed { reason } => {
                let failure = match reason {
                    CloseReason::Failed(failure) => failure,
                    _ => Failure::ClosedEarly,
                };
                self.end_with(reason, failure);
            }
            _ => {}
        }
    }

    fn end_with(&mut self, reason: CloseReason, failure: Failure) {
        self.end.get_or_insert((reason, failure));
    }

    fn poll<'i>(&mut self) -> Option<Event<'i>> {
        let (reason, failure) = self.end.filter(|_| !self.is_closed)?;
        if let Some(request) = self.owed.pop_first() {
            return Some(Event::Unanswered {
                request,
                failure,
                sent: request < self.first_unsent,
                idempotent: true,
                persists: false,
            });
        }
        self.is_closed = true;
        Some(Event::Closed { reason })
    }
}

/// Forwards a call to a machine of the driver; for a hosted machine, evaluates `$instead`.
macro_rules! own {
    ($machine:expr, $own:ident => $call:expr, $hosted:ident => $instead:expr) => {
        match $machine {
            Machine::Own($own) => $call,
            Machine::Hosted($hosted) => $instead,
        }
    };
}

impl Machine {
    /// Returns the server's waits for HTTP/2 flow-control windows since the last call.
    pub(super) fn take_window_waits(&mut self) -> Vec<WindowWait> {
        match self {
            Machine::Own(connection) => match &mut **connection {
                Connection::Http2(connection) => connection.take_window_waits(),
                Connection::Http1(_) => Vec::new(),
            },
            Machine::Hosted(_) => Vec::new(),
        }
    }

    pub(super) const fn multiplexes(&self) -> bool {
        match self {
            Machine::Own(connection) => connection.is_http2(),
            Machine::Hosted(_) => true,
        }
    }

    pub(super) fn http2(&self) -> Option<&h2::client::Connection> {
        own!(self, own => own.http2(), _hosted => None)
    }

    pub(super) fn hosted_mut(&mut self) -> Option<&mut Hosted> {
        own!(self, _own => None, hosted => Some(hosted))
    }

    pub(super) fn accepts_requests(&self) -> bool {
        own!(self, own => own.accepts_requests(), hosted => hosted.end.is_none())
    }

    pub(super) fn can_request(&self) -> bool {
        own!(self, own => own.can_request(),
            hosted => hosted.end.is_none() && hosted.owed.len() < hosted.streams)
    }

    pub(super) fn outstanding(&self) -> usize {
        own!(self, own => own.outstanding(), hosted => hosted.owed.len())
    }

    pub(super) fn first_unsent(&self) -> RequestId {
        own!(self, own => own.first_unsent(), hosted => hosted.first_unsent)
    }

    /// Sends a request with these fields. For a hosted machine, the result is reported later.
    pub(super) fn ask(
        &mut self,
        line: RequestLine<'_>,
        fields: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Option<Queued>, SendError> {
        match self {
            Machine::Own(own) => {
                let mut request = own.request(line)?;
                for (name, value) in fields {
                    request.field(&name, &value);
                }
                request.send().map(Some)
            }
            Machine::Hosted(hosted) => {
                let request = hosted.next;
                hosted.next = RequestId(request.0 + 1);
                hosted.owed.insert(request);
                hosted.waiting.push_back(HostedRequest {
                    request,
                    method: line.method.to_owned(),
                    target: line.target.to_owned(),
                    host: line.host.to_owned(),
                    fields: fields.into_iter().collect(),
                });
                Ok(None)
            }
        }
    }

    pub(super) fn cancel(&mut self, request: RequestId, failure: Failure, now: Instant) {
        own!(self, own => own.cancel(request, failure, now),
            hosted => hosted.cancelled.push_back((request, failure)));
    }

    pub(super) fn held(&self) -> Bytes {
        own!(self, own => own.held(), _hosted => Bytes(0))
    }

    pub(super) fn release(&mut self, bytes: Bytes) -> Bytes {
        own!(self, own => own.release(bytes), _hosted => Bytes(0))
    }

    pub(super) fn transmit(&self) -> &[u8] {
        own!(self, own => own.transmit(), _hosted => &[])
    }

    pub(super) fn transmitted(&mut self, bytes: usize, now: Instant) {
        own!(self, own => own.transmitted(bytes, now), _hosted => {});
    }

    pub(super) fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        own!(self, own => own.poll(input, now), hosted => hosted.poll())
    }

    pub(super) fn handle_eof(&mut self, now: Instant) {
        own!(self, own => own.handle_eof(now),
            hosted => hosted.end_with(CloseReason::ServerEarly, Failure::ClosedEarly));
    }

    pub(super) fn handle_failure(&mut self, failure: Failure, now: Instant) {
        own!(self, own => own.handle_failure(failure, now),
            hosted => hosted.end_with(CloseReason::Failed(failure), failure));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        own!(self, own => own.handle_timeout(now), _hosted => {});
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        own!(self, own => own.poll_timeout(), _hosted => None)
    }

    pub(super) fn finish(&mut self) {
        own!(self, own => own.finish(),
            hosted => hosted.end_with(CloseReason::Finished, Failure::LocalAbort));
    }

    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        own!(self, own => own.close_reason(),
            hosted => hosted.end.filter(|_| hosted.is_closed).map(|(reason, _)| reason))
    }

    /// The alternative services announced in the last frame: the origin (empty for the origin of the request)
    /// and the value of the field.
    pub(super) fn alternatives(&self) -> Option<(&str, &str)> {
        match self {
            Machine::Own(own) => own.http2().map(h2::client::Connection::alternatives),
            Machine::Hosted(_) => None,
        }
    }

    pub(super) fn head(&self) -> Head<'_> {
        own!(self, own => own.head(), hosted => Head::new(hosted.status, &hosted.fields))
    }
}
