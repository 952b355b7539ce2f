//! The order of responses.
//!
//! [`Queues`] implements the order of RFC 9218 section 10, with one queue for each urgency. A response that is not
//! incremental stays at the front of its queue until it is complete. An incremental response moves to the back of its
//! queue after each turn, so incremental responses are interleaved. Within one urgency, pushes follow requested
//! responses, because a push must not delay its page.
//!
//! [`Schedule`] contains the queues. After the client has sent dependencies, it also contains the tree of RFC 7540.

use std::collections::VecDeque;

use super::config::Scheduling;
use super::streams::Slot;
use super::tree::Tree;
use crate::h2::StreamId;
use crate::h2::frame::Dependency;
use crate::message::Priority;

#[derive(Debug)]
pub(super) struct Schedule {
    scheduling: Scheduling,
    queues: Queues,
    tree: Option<Box<Tree>>,
    /// Promised streams, each with the stream on which it was promised; the latest is last. A tree that is created
    /// later includes them.
    promised: VecDeque<(StreamId, StreamId)>,
    /// The maximum number of streams in the tree.
    most_places: usize,
    /// Whether the client uses the priorities of RFC 9218.
    uses_rfc9218: bool,
}

impl Schedule {
    pub fn new(scheduling: Scheduling, most_places: usize) -> Schedule {
        Schedule {
            scheduling,
            queues: Queues::default(),
            tree: None,
            promised: VecDeque::new(),
            most_places,
            uses_rfc9218: false,
        }
    }

    /// Notes that the client uses RFC 9218, or has announced that it ignores the priorities of RFC 7540.
    pub fn note_rfc9218(&mut self) {
        self.uses_rfc9218 = true;
        if self.scheduling == Scheduling::AsAsked {
            self.tree = None;
        }
    }

    /// Applies a dependency that the client has sent.
    pub fn depend(&mut self, id: StreamId, dependency: Dependency) {
        let wanted = match self.scheduling {
            Scheduling::Tree => true,
            Scheduling::AsAsked => !self.uses_rfc9218,
            Scheduling::Urgency | Scheduling::InOrder | Scheduling::RoundRobin => false,
        };
        if !wanted {
            return;
        }
        let most_places = self.most_places;
        let (queues, promised) = (&self.queues, &self.promised);
        let tree = self.tree.get_or_insert_with(|| {
            let mut tree = Box::new(Tree::new(most_places));
            for &(id, on) in promised {
                tree.promise(id, on);
            }
            for entry in queues.levels.iter().flatten() {
                tree.add(entry.id, entry.slot);
            }
            tree
        });
        tree.place(id, dependency);
    }

    /// Notes that a stream was promised on another stream. The promised stream depends on the other one (RFC 7540
    /// section 5.3.5).
    pub fn promise(&mut self, id: StreamId, on: StreamId) {
        if let Some(tree) = &mut self.tree {
            tree.promise(id, on);
        }
        if self.promised.len() == self.most_places {
            self.promised.pop_front();
        }
        self.promised.push_back((id, on));
    }

    /// Whether the tree of RFC 7540 determines the order.
    pub fn is_by_tree(&self) -> bool {
        match self.scheduling {
            Scheduling::Tree => self.tree.is_some(),
            Scheduling::AsAsked => self.tree.is_some() && !self.uses_rfc9218,
            _ => false,
        }
    }

    /// Whether no response has anything to send.
    pub fn is_empty(&self) -> bool {
        self.queues.occupied == 0
    }

    /// Adds a response with output to send.
    pub fn add(&mut self, id: StreamId, slot: Slot, priority: Priority) {
        self.queues.add(id, slot, self.level(priority));
        if let Some(tree) = &mut self.tree {
            tree.add(id, slot);
        }
    }

    /// Removes a response that has no output to send, for now or permanently.
    pub fn remove(&mut self, id: StreamId, priority: Priority) {
        self.queues.remove(id, self.level(priority));
        if let Some(tree) = &mut self.tree {
            tree.remove(id);
        }
    }

    /// Selects the response to send next.
    pub fn next(&mut self) -> Option<Slot> {
        if self.is_by_tree()
            && let Some(tree) = &mut self.tree
        {
            return tree.next();
        }
        self.queues.first()
    }

    /// Notes that a response sent `bytes` bytes in its turn. The response may leave the schedule afterwards.
    pub fn turn_over(&mut self, id: StreamId, priority: Priority, bytes: u64) {
        self.queues.turn_over(id, self.level(priority));
        if let Some(tree) = &mut self.tree {
            tree.charge(id, bytes);
        }
    }

    /// The effective priority under the configured scheduling.
    fn level(&self, priority: Priority) -> Priority {
        match self.scheduling {
            Scheduling::AsAsked | Scheduling::Urgency | Scheduling::Tree => priority,
            Scheduling::InOrder | Scheduling::RoundRobin => Priority {
                incremental: self.scheduling == Scheduling::RoundRobin,
                ..Priority::default()
            },
        }
    }

    /// Frees unused memory. The client's dependencies are preserved.
    pub fn rest(&mut self) {
        self.queues = Queues::default();
        self.promised = VecDeque::new();
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: StreamId,
    slot: Slot,
    incremental: bool,
}

/// Two queues for each urgency: one for requested responses, one for pushes.
#[derive(Debug, Default)]
struct Queues {
    levels: [VecDeque<Entry>; 16],
    /// A bit set of the queues that are not empty.
    occupied: u16,
}

/// The index of a stream's queue.
fn level_of(id: StreamId, priority: Priority) -> usize {
    let urgency = priority.urgency.min(Priority::LEAST_URGENT);
    usize::from(2 * urgency) + usize::from(id.is_server())
}

impl Queues {
    fn add(&mut self, id: StreamId, slot: Slot, priority: Priority) {
        let place = level_of(id, priority);
        let level = &mut self.levels[place];
        let entry = Entry {
            id,
            slot,
            incremental: priority.incremental,
        };
        // Requests usually arrive in order, so the search starts at the back.
        let behind = level
            .iter()
            .rev()
            .position(|other| other.incremental || entry.incremental || other.id < id);
        level.insert(level.len() - behind.unwrap_or(level.len()), entry);
        self.occupied |= 1 << place;
    }

    fn remove(&mut self, id: StreamId, priority: Priority) {
        let place = level_of(id, priority);
        let level = &mut self.levels[place];
        match level.iter().position(|entry| entry.id == id) {
            Some(0) => drop(level.pop_front()),
            Some(at) => drop(level.remove(at)),
            None => debug_assert!(false, "the stream to remove is not in its queue"),
        }
        if level.is_empty() {
            self.occupied &= !(1 << place);
        }
    }

    fn first(&self) -> Option<Slot> {
        let level = self.levels.get(self.occupied.trailing_zeros() as usize)?;
        level.front().map(|entry| entry.slot)
    }

    /// Ends a turn of the first response of a queue.
    fn turn_over(&mut self, id: StreamId, priority: Priority) {
        let place = level_of(id, priority);
        let level = &mut self.levels[place];
        if level
            .front()
            .is_some_and(|first| first.incremental && first.id == id)
        {
            level.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests;
