//! The queue before a link.

use std::collections::VecDeque;

use fathometer_model::{Bytes, Instant};
use serde::Serialize;

use crate::fate::Fate;

/// The packets that wait for the link. The packet being serialised is excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// The number of packets.
    pub packets: u32,
    /// The sum of the IP packets' lengths, in bytes.
    pub bytes: Bytes,
}

/// The maximum length of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    Packets(usize),
    Bytes(u64),
}

impl Limit {
    /// Whether the queue has room for a packet of this length.
    pub(crate) fn admits<P>(self, line: &WaitingLine<P>, length: u32) -> bool {
        match self {
            Limit::Packets(packets) => line.packets.len() < packets,
            Limit::Bytes(bytes) => line.bytes + u64::from(length) <= bytes,
        }
    }
}

/// A packet that waits for the link.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) arrived: Instant,
    pub(crate) index: u64,
    pub(crate) length: u32,
    pub(crate) fate: Fate,
    pub(crate) payload: P,
}

/// Packets that wait for the link, in order of arrival.
#[derive(Debug)]
pub(crate) struct WaitingLine<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P> WaitingLine<P> {
    pub(crate) fn with_room(packets: usize) -> WaitingLine<P> {
        WaitingLine {
            packets: VecDeque::with_capacity(packets),
            bytes: 0,
        }
    }

    /// Returns the number of packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the packet that is serialised next.
    pub(crate) fn front(&self) -> Option<&Waiting<P>> {
        self.packets.front()
    }

    /// Returns the IP bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.length);
        Some(packet)
    }

    pub(crate) fn push(&mut self, packet: Waiting<P>) {
        self.bytes += u64::from(packet.length);
        self.packets.push_back(packet);
    }

    pub(crate) fn depth(&self) -> Depth {
        Depth {
            packets: self.packets.len() as u32,
            bytes: Bytes(self.bytes),
        }
    }
}
