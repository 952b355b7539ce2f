//! The exchanges in flight on one connection.

use std::collections::VecDeque;
use std::collections::vec_deque::{Drain, Iter};
use std::ops::Range;
use std::time::Duration;

use fathometer_http::client::RequestId;
use fathometer_model::Instant;

use super::super::exchange::Exchange;

/// Exchanges in flight, in the order of their requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight(VecDeque<Exchange>);

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> Iter<'_, Exchange> {
        self.0.iter()
    }

    /// Returns the exchange of the oldest request.
    pub(super) fn oldest(&self) -> Option<&Exchange> {
        self.0.front()
    }

    /// Returns the earliest planned instant.
    pub(super) fn oldest_plan(&self) -> Option<Instant> {
        self.0.iter().map(Exchange::planned_at).min()
    }

    /// Adds the exchange of the newest request.
    pub(super) fn push(&mut self, exchange: Exchange) {
        self.0.push_back(exchange);
    }

    /// Returns the index of a request's exchange. Responses arrive in the order of requests in HTTP/1.x, and nearly in
    /// this order in HTTP/2.
    fn index_of(&self, request: RequestId) -> Option<usize> {
        match self.0.front() {
            Some(oldest) if oldest.request() == request => Some(0),
            _ => self
                .0
                .binary_search_by_key(&request, Exchange::request)
                .ok(),
        }
    }

    /// Returns the exchange of a request.
    pub(super) fn get_mut(&mut self, request: RequestId) -> Option<&mut Exchange> {
        let index = self.index_of(request)?;
        self.0.get_mut(index)
    }

    /// Removes and returns the exchange of a request that has ended.
    pub(super) fn take(&mut self, request: RequestId) -> Option<Exchange> {
        match self.index_of(request)? {
            0 => self.0.pop_front(),
            index => self.0.remove(index),
        }
    }

    /// Records that the unsent requests could be sent from `from` on.
    pub(super) fn could_leave(&mut self, from: Instant) {
        self.could_leave_from_request(RequestId::default(), from);
    }

    /// Like [`InFlight::could_leave`], for request `first` and later requests.
    pub(super) fn could_leave_from_request(&mut self, first: RequestId, from: Instant) {
        let later = self.0.iter_mut().filter(|e| e.request() >= first);
        later.for_each(|exchange| exchange.could_leave(from));
    }

    /// Records that the first bytes of these requests were handed to the kernel at `now`. Reports the exchanges whose
    /// first attempt this is, the newest first.
    pub(super) fn leave(
        &mut self,
        begun: Range<RequestId>,
        now: Instant,
        mut report: impl FnMut(&Exchange),
    ) {
        if begun.is_empty() {
            return;
        }
        // These requests are the newest, apart from unsent requests.
        for exchange in self.0.iter_mut().rev() {
            if exchange.request() >= begun.end {
                continue;
            }
            if exchange.request() < begun.start {
                break;
            }
            if exchange.leaves(now) {
                report(exchange);
            }
        }
    }

    /// Marks the exchanges that have timed out, and returns their requests.
    pub(super) fn time_out(&mut self, now: Instant, timeout: Duration) -> Vec<RequestId> {
        let overdue = self.0.iter_mut().filter(|e| e.is_overdue(now, timeout));
        overdue
            .map(|exchange| {
                exchange.times_out();
                exchange.request()
            })
            .collect()
    }

    pub(super) fn drain(&mut self) -> Drain<'_, Exchange> {
        self.0.drain(..)
    }

    /// Frees the memory if there are no exchanges.
    pub(super) fn shrink(&mut self) {
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use fathometer_http::client::Queued;
    use fathometer_model::Bytes;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Creates four requests, numbered from 3, planned at 40, 30, 20 and 10.
    fn in_flight() -> InFlight {
        let mut in_flight = InFlight::default();
        for place in 0..4 {
            let planned = at(40 - 10 * u64::from(place));
            let mut exchange = Exchange::planned(planned, 0, 0, 0, place);
            let queued = Queued {
                request: RequestId(3 + place),
                head: Bytes(1),
                fields: Bytes(1),
            };
            exchange.queued(&queued, Bytes(0));
            in_flight.push(exchange);
        }
        in_flight
    }

    #[test]
    fn exchanges_are_found_in_whatever_order_they_are_answered() {
        let mut in_flight = in_flight();
        assert_eq!(in_flight.oldest_plan(), Some(at(10)));
        for request in [5, 3, 6, 4] {
            let request = RequestId(request);
            assert_eq!(in_flight.get_mut(request).unwrap().request(), request);
            assert_eq!(in_flight.take(request).unwrap().request(), request);
            assert!(in_flight.take(request).is_none());
        }
        assert!(in_flight.is_empty() && in_flight.oldest_plan().is_none());
    }

    #[test]
    fn the_requests_that_have_begun_are_reported_once() {
        let mut in_flight = in_flight();
        let mut sent = |from, to, now| {
            let mut sent = Vec::new();
            let begun = RequestId(from)..RequestId(to);
            in_flight.leave(begun, at(now), |e| sent.push(e.request().0));
            sent
        };
        assert!(sent(3, 3, 50).is_empty());
        assert_eq!(sent(3, 5, 50), [4, 3]);
        assert_eq!(sent(4, 6, 60), [5]);
        let instants: Vec<u64> = in_flight.iter().map(|e| e.sent_at().as_nanos()).collect();
        assert_eq!(instants, [50, 50, 60, 0]);
        in_flight.could_leave(at(70));
        in_flight.could_leave_from_request(RequestId(7), at(90));
        let due: Vec<u64> = in_flight.iter().map(|e| e.due_at().as_nanos()).collect();
        assert_eq!(due, [0, 0, 0, 70]);
    }

    #[test]
    fn overdue_exchanges_are_marked() {
        let mut in_flight = in_flight();
        let overdue = in_flight.time_out(at(120), Duration::from_nanos(100));
        assert_eq!(overdue, [RequestId(5), RequestId(6)]);
        let marked = in_flight.iter().filter(|e| e.has_timed_out()).count();
        assert_eq!(marked, 2);
    }
}
