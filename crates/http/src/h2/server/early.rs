//! Priorities that arrive before the requests to which they apply (RFC 9218 section 7.1).

use std::collections::VecDeque;

use crate::h2::StreamId;
use crate::message::Priority;

/// Priorities of streams that are not open yet.
///
/// Invariant: the list has at most `most` entries, and at most one for each stream. When it is full, a new entry
/// replaces the oldest one.
#[derive(Debug)]
pub(super) struct EarlyPriorities {
    entries: VecDeque<(StreamId, Priority)>,
    most: usize,
}

impl EarlyPriorities {
    pub fn new(most: usize) -> EarlyPriorities {
        EarlyPriorities {
            entries: VecDeque::new(),
            most,
        }
    }

    /// Sets the priority of a stream.
    pub fn set(&mut self, id: StreamId, priority: Priority) {
        self.entries.retain(|&(other, _)| other != id);
        if self.entries.len() >= self.most {
            self.entries.pop_front();
        }
        self.entries.push_back((id, priority));
    }

    /// Removes and returns the priority of a stream that opens. Drops the priorities of lower streams, which can no
    /// longer open.
    pub fn take(&mut self, id: StreamId) -> Option<Priority> {
        if self.entries.is_empty() {
            return None;
        }
        let found = self.entries.iter().find(|&&(other, _)| other == id);
        let priority = found.map(|&(_, priority)| priority);
        self.entries.retain(|&(other, _)| other > id);
        priority
    }

    /// Drops all entries and frees the memory.
    pub fn rest(&mut self) {
        self.entries = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_waits_for_its_stream_and_not_for_a_lower_one() {
        let [first, second] = [0, 1].map(|urgency| Priority {
            urgency,
            incremental: false,
        });
        let id = StreamId::new;
        let mut early = EarlyPriorities::new(2);
        assert_eq!(early.take(id(1)), None);
        early.set(id(3), first);
        early.set(id(5), first);
        early.set(id(5), second);
        assert_eq!(early.take(id(5)), Some(second));
        assert_eq!(early.take(id(3)), None, "lower streams can no longer open");
        for number in [7, 9, 11] {
            early.set(id(number), first);
        }
        assert_eq!(early.take(id(7)), None, "the oldest entry was dropped");
        assert_eq!(early.take(id(9)), Some(first));
    }
}
