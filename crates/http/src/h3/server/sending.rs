//! The queued output of all streams, and the order in which it is sent.

use super::schedule::Schedule;
use super::stream::Stream;
use crate::h3::Priority;

/// The streams with bytes to send, and the size of the text that waits in them.
///
/// Invariants: `backlog` is the sum of the waiting text in all streams whose output was queued with
/// [`queue`](Self::queue). A stream is in the schedule if and only if [`Stream::scheduled`] is set.
#[derive(Debug, Default)]
pub(super) struct Sending {
    schedule: Schedule,
    /// The size of the text that waits in all streams, in bytes.
    backlog: u64,
}

impl Sending {
    /// The size of the text that waits in all streams, in bytes. Content in the memory of the origin is not text.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The size of the text that waits in all other streams, in bytes.
    pub fn backlog_of_others(&self, open: &Stream) -> u64 {
        self.backlog - open.output.text_waiting()
    }

    /// Iterates over the streams in sending order.
    pub fn order(&self) -> impl Iterator<Item = u64> + '_ {
        self.schedule.iter()
    }

    /// Queues output on a stream. The caller adds the stream to the schedule when the output may be sent.
    pub fn queue<R>(&mut self, open: &mut Stream, write: impl FnOnce(&mut Stream) -> R) -> R {
        let before = open.output.text_waiting();
        let result = write(open);
        self.backlog += open.output.text_waiting() - before;
        result
    }

    /// Adds a stream to the schedule, unless already scheduled.
    pub fn add(&mut self, stream: u64, open: &mut Stream) {
        if !open.scheduled {
            open.scheduled = true;
            self.schedule.add(stream, open.priority);
        }
    }

    /// Changes the priority of a stream.
    pub fn reprioritize(&mut self, stream: u64, open: &mut Stream, priority: Priority) {
        let before = std::mem::replace(&mut open.priority, priority);
        if open.scheduled && before.urgency != priority.urgency {
            self.schedule.remove(stream, before);
            self.schedule.add(stream, priority);
        }
    }

    /// Notes that the transport took bytes of a stream. If the stream is incremental, its turn has ended. Returns
    /// whether all output of the stream was taken.
    pub fn transmitted(
        &mut self,
        stream: u64,
        open: &mut Stream,
        bytes: u64,
        takes_turns: bool,
    ) -> bool {
        let before = open.output.text_waiting();
        open.output.transmitted(bytes);
        self.backlog -= before - open.output.text_waiting();
        if open.output.is_empty() {
            open.scheduled = false;
            self.schedule.remove(stream, open.priority);
            return true;
        }
        if takes_turns {
            self.schedule.rotate(stream, open.priority);
        }
        false
    }

    /// Removes a closed stream. Its output is not sent.
    pub fn remove(&mut self, stream: u64, open: &mut Stream) {
        open.scheduled = false;
        self.schedule.remove(stream, open.priority);
        self.backlog -= open.output.text_waiting();
    }

    /// Removes all streams.
    pub fn clear(&mut self) {
        self.schedule.clear();
        self.backlog = 0;
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Instant;

    use super::*;

    fn stream(id: u64) -> Stream {
        Stream::new(id, Instant::ZERO)
    }

    fn queue(sending: &mut Sending, id: u64, open: &mut Stream, length: usize) {
        sending.queue(open, |open| {
            open.output
                .write(|text| text.resize(text.len() + length, b'x'));
        });
        sending.add(id, open);
    }

    fn order(sending: &Sending) -> Vec<u64> {
        sending.order().collect()
    }

    #[test]
    fn the_backlog_is_the_text_of_all_streams() {
        let mut sending = Sending::default();
        let (mut a, mut b) = (stream(0), stream(4));
        queue(&mut sending, 0, &mut a, 10);
        queue(&mut sending, 4, &mut b, 5);
        queue(&mut sending, 0, &mut a, 1);
        assert_eq!(sending.backlog(), 16);
        assert_eq!(sending.backlog_of_others(&a), 5);
        assert_eq!(order(&sending), [0, 4], "each stream is scheduled once");
        assert!(!sending.transmitted(0, &mut a, 10, false));
        assert_eq!(sending.backlog(), 6);
        assert!(sending.transmitted(0, &mut a, 1, false));
        assert!(!a.scheduled);
        assert_eq!((order(&sending), sending.backlog()), (vec![4], 5));
        sending.remove(4, &mut b);
        assert_eq!((order(&sending), sending.backlog()), (vec![], 0));
    }

    #[test]
    fn streams_take_turns_and_move_with_their_urgency() {
        let mut sending = Sending::default();
        let (mut a, mut b) = (stream(0), stream(4));
        queue(&mut sending, 0, &mut a, 10);
        queue(&mut sending, 4, &mut b, 10);
        sending.transmitted(0, &mut a, 1, true);
        assert_eq!(order(&sending), [4, 0]);
        sending.transmitted(4, &mut b, 1, false);
        assert_eq!(
            order(&sending),
            [4, 0],
            "a stream that is not incremental keeps its position"
        );
        let urgent = Priority {
            urgency: 0,
            ..a.priority
        };
        sending.reprioritize(0, &mut a, urgent);
        assert_eq!(order(&sending), [0, 4]);
        assert_eq!(a.priority, urgent);
    }
}
