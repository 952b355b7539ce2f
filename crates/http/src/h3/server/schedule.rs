//! The order in which streams are sent (RFC 9218 section 10).

use std::collections::VecDeque;

use crate::h3::Priority;

/// Streams with bytes to send, by urgency.
///
/// Within one urgency, streams are in the order in which they were added. The first stream is sent until it has no more
/// bytes. If it is incremental, it is sent until its turn ends.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    queues: [VecDeque<u64>; 8],
}

impl Schedule {
    /// Iterates over the streams in sending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().flatten().copied()
    }

    /// Adds a stream that is not in the schedule.
    pub fn add(&mut self, stream: u64, priority: Priority) {
        self.queue(priority).push_back(stream);
    }

    /// Removes a stream if it is in the schedule.
    pub fn remove(&mut self, stream: u64, priority: Priority) {
        let queue = self.queue(priority);
        if queue.front() == Some(&stream) {
            queue.pop_front();
        } else {
            queue.retain(|&other| other != stream);
        }
    }

    /// Moves a stream to the end of its urgency, after its turn.
    pub fn rotate(&mut self, stream: u64, priority: Priority) {
        let queue = self.queue(priority);
        if queue.len() > 1 && queue.front() == Some(&stream) {
            queue.rotate_left(1);
        }
    }

    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }

    fn queue(&mut self, priority: Priority) -> &mut VecDeque<u64> {
        &mut self.queues[usize::from(priority.urgency.min(7))]
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
    fn urgent_streams_go_first_and_incremental_ones_take_turns() {
        let mut schedule = Schedule::default();
        for (stream, level) in [(0, 3), (4, 3), (8, 1), (12, 7), (16, 3)] {
            schedule.add(stream, urgency(level));
        }
        let order = |schedule: &Schedule| schedule.iter().collect::<Vec<_>>();
        assert_eq!(order(&schedule), [8, 0, 4, 16, 12]);
        schedule.rotate(0, urgency(3));
        assert_eq!(order(&schedule), [8, 4, 16, 0, 12]);
        schedule.rotate(0, urgency(3));
        assert_eq!(
            order(&schedule),
            [8, 4, 16, 0, 12],
            "only the first stream of an urgency is moved"
        );
        schedule.remove(16, urgency(3));
        schedule.remove(8, urgency(1));
        assert_eq!(order(&schedule), [4, 0, 12]);
        schedule.clear();
        assert_eq!(schedule.iter().next(), None);
    }
}
