//! Waiting for descriptors, for an absolute deadline, or to be woken, whichever comes first.
//!
//! `ppoll` takes nanoseconds but lets a timer slip by the thread's slack, 50 µs unless told
//! otherwise; a [`Waiter`] sets the slack to 1 ns. What remains is the time to be scheduled again,
//! which a short spin before the deadline hides at the price of a processor.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::Clock;
use crate::error::{Doing, Result};

/// How many descriptors one wait can watch, besides the waker.
pub const MOST_SOURCES: usize = 15;

/// Waits on behalf of one thread.
#[derive(Debug)]
pub struct Waiter {
    clock: Clock,
    spin: Duration,
    wake: Arc<OwnedFd>,
}

/// Ends the wait of a [`Waiter`] from another thread, or from another process that was handed its
/// descriptor. Clones wake the same waiter.
#[derive(Debug, Clone)]
pub struct Waker {
    wake: Arc<OwnedFd>,
}

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read, or the end.
    Read,
    /// Something can be written.
    Write,
    /// Either.
    Both,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The time at which the wait ended.
    pub now: Instant,
    /// A [`Waker`] ended it, or had been used before it began.
    pub woken: bool,
    readable: u16,
    writable: u16,
}

impl Readiness {
    /// Whether the source at this place of the list can be read, has ended or has failed.
    pub fn readable(&self, place: usize) -> bool {
        self.readable & (1 << place) != 0
    }

    /// Whether the source at this place of the list can be written or has failed.
    pub fn writable(&self, place: usize) -> bool {
        self.writable & (1 << place) != 0
    }

    /// Whether nothing but the deadline ended the wait.
    pub fn timed_out(&self) -> bool {
        !self.woken && self.readable == 0 && self.writable == 0
    }
}

impl Waiter {
    /// A waiter for the calling thread, whose timer slack becomes 1 ns.
    pub fn new(clock: Clock) -> Result<Waiter> {
        Waiter::woken_by(clock, Waker::new()?)
    }

    /// The same, with a waker that exists already.
    pub fn woken_by(clock: Clock, waker: Waker) -> Result<Waiter> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .doing("set the timer slack to 1 ns")?;
        Ok(Waiter {
            clock,
            spin: Duration::ZERO,
            wake: waker.wake,
        })
    }

    /// Lets the last `spin` before a deadline be spent polling without sleeping.
    pub fn with_spin(mut self, spin: Duration) -> Waiter {
        self.spin = spin;
        self
    }

    /// A handle by which other threads end this waiter's wait.
    pub fn waker(&self) -> Waker {
        Waker {
            wake: Arc::clone(&self.wake),
        }
    }

    /// Waits until a source is ready, the deadline has passed, or a waker was used.
    ///
    /// A deadline in the past polls once without sleeping. Without a deadline it waits for as long
    /// as it takes. Signals do not end it.
    ///
    /// # Panics
    /// With more than [`MOST_SOURCES`] sources.
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
            let timeout = left.map(|left| timespec(left.saturating_sub(self.spin)));
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
    /// A waker of a waiter that is yet to be made ([`Waiter::woken_by`]).
    pub fn new() -> Result<Waker> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .doing("make an event descriptor")?;
        Ok(Waker {
            wake: Arc::new(wake),
        })
    }

    /// Ends the waiter's wait, or its next one when it is not waiting. Safe to use any number of
    /// times; several uses may end one wait.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the waiter is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl From<OwnedFd> for Waker {
    /// A waker that was made elsewhere.
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
    fn a_wait_ends_at_or_after_its_deadline_and_says_so() {
        let clock = Clock::start();
        for spin in [0, 100] {
            let mut waiter = Waiter::new(clock)
                .unwrap()
                .with_spin(Duration::from_micros(spin));
            let deadline = clock.now() + Duration::from_micros(1500);
            let ready = waiter.wait(&[], Some(deadline)).unwrap();
            assert!(ready.timed_out());
            assert!(ready.now >= deadline);
        }
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
