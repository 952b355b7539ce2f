//! Records the request streams that have arrived. QUIC may deliver streams in any order, and a priority may arrive
//! before its stream.

use std::collections::{BTreeSet, VecDeque};

use crate::h3::{Fault, Priority};

/// The maximum number of skipped stream IDs. QUIC permits far fewer concurrent streams.
const MOST_SKIPPED: usize = 10_000;
/// The maximum number of stored priorities for streams that have not arrived.
const MOST_PRIORITIES: usize = 64;

/// The request streams that have arrived, and the priorities of streams that have not arrived.
///
/// Invariants: a stream arrives once. `skipped` contains exactly the IDs below `next` that have not arrived. At most
/// [`MOST_PRIORITIES`] priorities are stored; a new one then replaces the oldest.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The lowest request stream ID above all IDs that have arrived.
    next: u64,
    skipped: BTreeSet<u64>,
    priorities: VecDeque<(u64, Priority)>,
}

impl Arrivals {
    /// The lowest request stream ID above all IDs that have arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Handles bytes or signals of a stream. Returns whether the stream arrives with them.
    ///
    /// # Errors
    /// If the client skips too many streams.
    pub fn arrive(&mut self, stream: u64) -> Result<bool, Fault> {
        if stream < self.next {
            return Ok(self.skipped.remove(&stream));
        }
        while self.next < stream {
            if self.skipped.len() >= MOST_SKIPPED {
                return Err(Fault::Flood);
            }
            self.skipped.insert(self.next);
            self.next += 4;
        }
        self.next = stream + 4;
        Ok(true)
    }

    /// Stores the priority of a stream that has not arrived. Does nothing for other streams.
    pub fn set_priority(&mut self, stream: u64, priority: Priority) {
        if stream < self.next && !self.skipped.contains(&stream) {
            return;
        }
        if self.priorities.len() >= MOST_PRIORITIES {
            self.priorities.pop_front();
        }
        self.priorities.push_back((stream, priority));
    }

    /// Removes and returns the last priority that was set for a stream. Called when the stream arrives.
    pub fn take_priority(&mut self, stream: u64) -> Option<Priority> {
        let mut priorities = self.priorities.iter();
        let place = priorities.rposition(|&(other, _)| other == stream)?;
        self.priorities.remove(place).map(|(_, priority)| priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urgency(urgency: u8) -> Priority {
        Priority {
            urgency,
            incremental: false,
        }
    }

    #[test]
    fn each_stream_arrives_once_in_any_order() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.arrive(8), Ok(true));
        assert_eq!(arrivals.next(), 12);
        assert_eq!(arrivals.arrive(8), Ok(false));
        assert_eq!(
            arrivals.arrive(0),
            Ok(true),
            "a skipped stream can arrive later"
        );
        assert_eq!(arrivals.arrive(0), Ok(false));
        assert_eq!(arrivals.arrive(4), Ok(true));
        assert_eq!(arrivals.arrive(12), Ok(true));
    }

    #[test]
    fn too_many_skipped_streams_are_a_fault() {
        let most = 4 * MOST_SKIPPED as u64;
        assert_eq!(Arrivals::default().arrive(most), Ok(true));
        assert_eq!(Arrivals::default().arrive(most + 4), Err(Fault::Flood));
    }

    #[test]
    fn the_last_priority_of_a_stream_that_has_not_arrived_is_kept() {
        let mut arrivals = Arrivals::default();
        arrivals.set_priority(4, urgency(1));
        arrivals.set_priority(4, urgency(2));
        assert_eq!(arrivals.arrive(4), Ok(true));
        arrivals.set_priority(4, urgency(5));
        assert_eq!(arrivals.take_priority(4), Some(urgency(2)));
        assert_eq!(arrivals.take_priority(0), None);
        arrivals.set_priority(0, urgency(3));
        for number in 0..MOST_PRIORITIES as u64 {
            arrivals.set_priority(8 + 4 * number, urgency(6));
        }
        assert_eq!(
            arrivals.take_priority(0),
            None,
            "the oldest priority was dropped"
        );
        assert_eq!(arrivals.take_priority(8), Some(urgency(6)));
    }
}
