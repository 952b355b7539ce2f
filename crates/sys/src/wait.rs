//! Waiting for descriptors, for an absolute deadline, or for a wake-up, whichever comes first.
//!
//! `ppoll` takes nanoseconds, but may return late by the thread's timer slack, 50 µs by default. A [`Waiter`] sets the
//! slack to 1 ns. The remaining delay is the time until the thread is scheduled.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::Clock;
use crate::error::{Doing, Result};

/// The largest number of descriptors in one wait, besides the waker.
pub const MOST_SOURCES: usize = 15;

/// Lets one thread wait.
#[derive(Debug)]
pub struct Waiter {
    clock: Clock,
    wake: Arc<OwnedFd>,
}

/// Ends the wait of a [`Waiter`] from another thread, or from another process that has received the descriptor. Clones
/// wake the same waiter.
#[derive(Debug, Clone)]
pub struct Waker {
    wake: Arc<OwnedFd>,
}

/// The events to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Data can be read, or the end of the stream was reached.
    Read,
    /// Data can be written.
    Write,
    /// Data can be read or written.
    Both,
}

/// The events that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The time at which the wait ended.
    pub now: Instant,
    /// Whether a [`Waker`] ended the wait, or was used before the wait began.
    pub woken: bool,
    readable: u16,
    writable: u16,
}

impl Readiness {
    /// Whether the source at this index of the list can be read, has reached its end, or has failed.
    pub fn readable(&self, place: usize) -> bool {
        self.readable & (1 << place) != 0
    }

    /// Whether the source at this index of the list can be written or has failed.
    pub fn writable(&self, place: usize) -> bool {
        self.writable & (1 << place) != 0
    }

    /// Whether only the deadline ended the wait.
    pub fn timed_out(&self) -> bool {
        !self.woken && self.readable == 0 && self.writable == 0
    }
}

impl Waiter {
    /// Creates a waiter for the calling thread, and sets the thread's timer slack to 1 ns.
    pub fn new(clock: Clock) -> Result<Waiter> {
        Waiter::with_waker(clock, Waker::new()?)
    }

    /// Creates a waiter with an existing waker.
    pub fn with_waker(clock: Clock, waker: Waker) -> Result<Waiter> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .doing("set the timer slack to 1 ns")?;
        Ok(Waiter {
            clock,
            wake: waker.wake,
        })
    }

    /// Returns a handle with which other threads end this waiter's wait.
    pub fn waker(&self) -> Waker {
        Waker {
            wake: Arc::clone(&self.wake),
        }
    }

    /// Waits until a source is ready, the deadline has passed, or a waker is used.
    ///
    /// With a deadline in the past, polls once without sleeping. Without a deadline, the wait has no time limit. Signals
    /// do not end the wait.
    ///
    /// # Panics
    /// If there are more than [`MOST_SOURCES`] sources.
    pub fn wait(
        &mut self,
        sources: &[(BorrowedFd<'_>, Interest)],
        deadline: Option<Instant>,
    ) -> Result<Readiness> {
        assert!(sources.len() <= MOST_SOURCES, "{} sources", sources.len());
        let mut fds: [PollFd<'_>; MOST_SOURCES + 1] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN));
        for (slot, &(fd, interest)) in fds[1..].iter_mut().zip(sources) {
            *slot = PollFd::from_borrowed_fd(fd, interest.flags());
        }
        let fds = &mut fds[..=sources.len()];
        loop {
            let now = self.clock.now();
            let left = deadline.map(|deadline| deadline.since(now));
            let timeout = left.map(timespec);
            let ready = match poll(fds, timeout.as_ref()) {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error).doing("wait for descriptors"),
            };
            let now = self.clock.now();
            if ready > 0 || deadline.is_some_and(|deadline| now >= deadline) {
                return self.readiness(fds, now);
            }
        }
    }

    fn readiness(&self, fds: &[PollFd<'_>], now: Instant) -> Result<Readiness> {
        let mut readiness = Readiness {
            now,
            woken: !fds[0].revents().is_empty(),
            readable: 0,
            writable: 0,
        };
        if readiness.woken {
            drain(&self.wake).doing("read an event descriptor")?;
        }
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        for (place, fd) in fds[1..].iter().enumerate() {
            if fd.revents().intersects(PollFlags::IN | broken) {
                readiness.readable |= 1 << place;
            }
            if fd.revents().intersects(PollFlags::OUT | broken) {
                readiness.writable |= 1 << place;
            }
        }
        Ok(readiness)
    }
}

impl Waker {
    /// Creates a waker for a waiter that is created later ([`Waiter::with_waker`]).
    pub fn new() -> Result<Waker> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .doing("make an event descriptor")?;
        Ok(Waker {
            wake: Arc::new(wake),
        })
    }

    /// Ends the current wait of the waiter, or the next wait if it is not waiting. Several calls may end only one wait.
    pub fn wake(&self) {
        // This can fail only if the counter is full, and then the waiter wakes anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl From<OwnedFd> for Waker {
    /// Wraps a waker's descriptor that another thread or process created.
    fn from(wake: OwnedFd) -> Waker {
        Waker {
            wake: Arc::new(wake),
        }
    }
}

impl Interest {
    fn flags(self) -> PollFlags {
        match self {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
            Interest::Both => PollFlags::IN | PollFlags::OUT,
        }
    }
}

fn drain(event: &OwnedFd) -> io::Result<()> {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_or_after_its_deadline_and_reports_it() {
        let clock = Clock::start();
        let mut waiter = Waiter::new(clock).unwrap();
        let deadline = clock.now() + Duration::from_micros(1500);
        let ready = waiter.wait(&[], Some(deadline)).unwrap();
        assert!(ready.timed_out());
        assert!(ready.now >= deadline);
    }

    #[test]
    fn a_descriptor_or_a_waker_ends_a_wait_without_deadline() {
        let clock = Clock::start();
        let mut waiter = Waiter::new(clock).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let sources = [
            (writer.as_fd(), Interest::Read),
            (reader.as_fd(), Interest::Read),
        ];
        rustix::io::write(&writer, b"x").unwrap();
        let ready = waiter.wait(&sources, None).unwrap();
        assert_eq!(
            (ready.readable(0), ready.readable(1), ready.woken),
            (false, true, false)
        );
        let waker = waiter.waker();
        let thread = std::thread::spawn(move || {
            waker.wake();
            waker.wake();
        });
        thread.join().unwrap();
        let ready = waiter.wait(&sources[..1], None).unwrap();
        assert!(ready.woken && !ready.timed_out());
        let ready = waiter.wait(&sources[..1], Some(clock.now())).unwrap();
        assert!(ready.timed_out(), "the waker was used up");
    }

    #[test]
    fn the_slack_of_the_thread_is_gone() {
        let _waiter = Waiter::new(Clock::start()).unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }
}
