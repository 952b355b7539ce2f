//! Events in the order of their time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The slot of an exchange in the table of exchanges in flight, and the number of the exchange in the simulation, from
/// 1. The number distinguishes the exchange from earlier exchanges in the same slot, whose events are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExchangeId {
    pub(super) place: usize,
    pub(super) use_number: u64,
}

/// An event of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The think time of a user ends, or an exchange arrives from outside.
    Begin,
    /// A server of a station finishes an exchange.
    Served(usize, ExchangeId),
    /// A shared station finishes its next exchange, unless its customers have changed since.
    SharedServed(usize, u64),
    /// A connection is retried.
    Retry(ExchangeId),
    /// A client gives up.
    Timeout(ExchangeId),
}

#[derive(Debug, PartialEq)]
struct Scheduled {
    at: f64,
    number: u64,
    event: Event,
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest event is the greatest; of events at the same time, the event that was scheduled first.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        let by_time = other.at.total_cmp(&self.at);
        by_time.then(other.number.cmp(&self.number))
    }
}

/// The future events.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Scheduled>,
    number: u64,
}

impl Agenda {
    /// Schedules an event at a time, in seconds.
    pub(super) fn add(&mut self, at: f64, event: Event) {
        self.number += 1;
        self.heap.push(Scheduled {
            at,
            number: self.number,
            event,
        });
    }

    /// The next event and its time.
    pub(super) fn next(&mut self) -> Option<(f64, Event)> {
        self.heap
            .pop()
            .map(|scheduled| (scheduled.at, scheduled.event))
    }
}
