//! A limit on the open connections of all event loops together.
//!
//! The kernel distributes connections over the loops by hash, not evenly. With a share of the limit for each loop,
//! some loops would refuse connections while others have room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fathometer_quic::SharedLimit;

/// The number of open connections of all loops, and its limits.
pub struct ConnectionLimit {
    /// While this many connections are open, further connections wait; over QUIC they are refused.
    most: usize,
    /// While this many connections are open, further connections are reset; over QUIC they are refused.
    shed_above: usize,
    open: AtomicUsize,
    /// Whether a loop waits until some loop closes a connection.
    is_awaited: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

/// The decision on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The connection is counted, and must be [released](ConnectionLimit::release) when it is closed.
    Admitted,
    /// The connection must be reset.
    Shed,
    /// The connection must wait.
    Full,
}

impl ConnectionLimit {
    /// Creates a limit with no open connections. If `shed_above` is `None`, no connection is reset.
    pub fn new(most: usize, shed_above: Option<usize>) -> ConnectionLimit {
        ConnectionLimit {
            most: most.max(1),
            shed_above: shed_above.unwrap_or(usize::MAX),
            open: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            wakers: Mutex::default(),
        }
    }

    /// Adds a loop; `wake` makes it check the limit.
    pub(crate) fn add_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wakers().push(Box::new(wake));
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Whether the next connection must wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.open() >= self.most
    }

    /// Decides on a new connection.
    pub(crate) fn admit(&self) -> Admission {
        let most = self.most.min(self.shed_above);
        let counted = self
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
                (open < most).then_some(open + 1)
            });
        match counted {
            Ok(_) => Admission::Admitted,
            Err(open) if open >= self.shed_above => Admission::Shed,
            Err(_) => Admission::Full,
        }
    }

    /// Records that an admitted connection is closed.
    pub(crate) fn release(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        if self.is_awaited.swap(false, Ordering::AcqRel) {
            self.wake_all();
        }
    }

    /// Makes the loops close connections that have waited long for their clients, and wakes the caller's loop when
    /// a connection is closed.
    pub(crate) fn request_room(&self) {
        self.is_awaited.store(true, Ordering::Release);
        // The caller's loop wakes too: a connection may have been closed just before the line above.
        self.wake_all();
    }

    /// Whether a loop waits until a connection is closed.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    fn wake_all(&self) {
        self.wakers().iter().for_each(|wake| wake());
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Fn() + Send + Sync>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionLimit")
            .field("most", &self.most)
            .field("shed_above", &self.shed_above)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl SharedLimit for ConnectionLimit {
    fn admit(&self) -> bool {
        match ConnectionLimit::admit(self) {
            Admission::Admitted => true,
            Admission::Shed => false,
            // The client's next attempt may then succeed.
            Admission::Full => {
                self.request_room();
                false
            }
        }
    }

    fn release(&self) {
        ConnectionLimit::release(self);
    }

    fn is_full(&self) -> bool {
        self.open() >= self.most - self.most / 64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn connections_are_admitted_up_to_the_limit_and_then_wait() {
        let limit = Arc::new(ConnectionLimit::new(100, None));
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&woken);
        limit.add_waker(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let threads = [0; 2].map(|_| {
            let limit = Arc::clone(&limit);
            std::thread::spawn(move || {
                (0..80)
                    .filter(|_| limit.admit() == Admission::Admitted)
                    .count()
            })
        });
        let admitted: usize = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!((admitted, limit.open()), (100, 100));
        assert!(limit.must_wait());
        limit.request_room();
        assert!(limit.is_awaited());
        limit.release();
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        assert!(!limit.is_awaited() && !limit.must_wait());
        limit.release();
        assert_eq!(woken.load(Ordering::Relaxed), 2, "no loop waits");
    }

    #[test]
    fn connections_above_the_lower_limit_are_reset() {
        let limit = ConnectionLimit::new(100, Some(2));
        let decisions = [(); 3].map(|()| ConnectionLimit::admit(&limit));
        assert_eq!(
            decisions,
            [Admission::Admitted, Admission::Admitted, Admission::Shed]
        );
        assert!(!limit.must_wait());
    }
}
