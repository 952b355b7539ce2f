//! The requests of a server's connection that are processed one after another.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;

/// Requests that wait or are in processing, in order, each with the time at which its processing ends. `K` is
/// the key of a request.
///
/// Invariant: requests finish in order. A request is added once.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    requests: VecDeque<(K, Instant)>,
    /// The time at which all work is finished.
    until: Instant,
}

impl<K: Copy + PartialEq> WorkQueue<K> {
    /// Creates an empty queue.
    pub fn new(now: Instant) -> WorkQueue<K> {
        WorkQueue {
            requests: VecDeque::new(),
            until: now,
        }
    }

    /// Whether no request is in processing.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request whose processing takes this long.
    pub fn add(&mut self, key: K, time: Duration, now: Instant) {
        self.until = self.until.max(now) + time;
        self.requests.push_back((key, self.until));
    }

    /// The time at which the processing of the first request ends.
    pub fn next(&self) -> Option<Instant> {
        self.requests.front().map(|&(_, until)| until)
    }

    /// Removes the first request if its processing has ended.
    pub fn take_done(&mut self, now: Instant) -> Option<K> {
        let &(key, until) = self.requests.front()?;
        if until > now {
            return None;
        }
        self.requests.pop_front();
        Some(key)
    }

    /// Returns the last removed request to the front of the queue, to be processed again.
    pub fn repeat(&mut self, key: K, at: Instant) {
        self.requests.push_front((key, at));
    }

    /// Removes a request, if it is there.
    pub fn remove(&mut self, key: K) {
        self.requests.retain(|&(other, _)| other != key);
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        self.requests.clear();
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.requests.is_empty() {
            self.requests = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_processed_one_after_another() {
        let second = Duration::from_secs(1);
        let start = Instant::ZERO;
        let [a, b, c] = [1, 3, 5];
        let mut work = WorkQueue::new(start);
        for key in [a, b, c] {
            work.add(key, second, start);
        }
        assert_eq!(work.take_done(start), None);
        assert_eq!(work.next(), Some(start + second));
        assert_eq!(work.take_done(start + second), Some(a));
        work.repeat(a, start + second);
        work.remove(b);
        assert_eq!(work.take_done(start + 3 * second), Some(a));
        assert_eq!(
            work.take_done(start + 3 * second),
            Some(c),
            "its end time did not change"
        );
        assert!(work.is_empty());
        let later = start + 9 * second;
        work.add(b, second, later);
        assert_eq!(
            work.next(),
            Some(later + second),
            "processing starts at once"
        );
    }
}
