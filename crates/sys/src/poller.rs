//! Waiting for many sockets at once: epoll, edge-triggered, with waits of nanoseconds.
//!
//! A socket is added once, for everything, and never changed: readiness is told when it begins, and
//! it is the caller's to remember it until a call would have blocked. That saves a system call or
//! two for every message compared with asking anew each time. A closed descriptor leaves by itself.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::{Doing, Result, check};

/// Watches sockets on behalf of one thread.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
    timing: Timing,
}

/// How a wait is given its length.
#[derive(Debug)]
enum Timing {
    /// By `epoll_pwait2`, which takes nanoseconds (Linux 5.11).
    Nanoseconds,
    /// By a timer descriptor that the epoll watches, where the kernel has no `epoll_pwait2`.
    Timer(OwnedFd),
    /// By `epoll_wait`, rounded down to milliseconds, where there is no timer descriptor either.
    Milliseconds,
}

/// The token of the timer descriptor; no socket may have it.
const TIMER: u64 = u64::MAX;

/// What a wait told of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What the socket was added with.
    pub token: u64,
    /// Something can be read, or an end or a failure can be learnt by reading.
    pub readable: bool,
    /// Something can be written.
    pub writable: bool,
    /// The peer has ended its side, or the connection failed: reading comes to an end.
    pub ended: bool,
}

impl Poller {
    /// A poller whose waits report up to `most` sockets at a time. The timer slack of the calling
    /// thread becomes 1 ns, so that its waits end when they should.
    pub fn new(most: usize) -> Result<Poller> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .doing("set the timer slack to 1 ns")?;
        // SAFETY: no pointers; the descriptor is owned from here on.
        let epoll = unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).doing("make an epoll")?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Poller {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; most.max(1)],
            ready: 0,
            timing: Timing::Nanoseconds,
        })
    }

    /// Watches a socket until it is closed. Whatever it is ready for already is told by the next
    /// wait. Every token but the largest number is free.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        debug_assert_ne!(token, TIMER);
        self.watch(socket, token)
    }

    fn watch(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: token,
        };
        let (epoll, socket) = (self.epoll.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open and the event outlives the call.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) })
            .map(drop)
    }

    /// Waits until a socket is ready or `timeout` has passed, and returns how many are ready; zero
    /// also when a signal ended the wait. `None` waits for as long as it takes.
    ///
    /// The kernel lets a wait run over by a thousandth of its length.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<usize> {
        self.ready = 0;
        let mut result = self.wait_once(timeout);
        if matches!(&result, Err(e) if e.raw_os_error() == Some(libc::ENOSYS)) {
            self.use_timer();
            result = self.wait_once(timeout);
        }
        match result {
            Ok(ready) => self.ready = self.without_timer(ready as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("wait for sockets"),
        }
        Ok(self.ready)
    }

    fn wait_once(&mut self, timeout: Option<Duration>) -> io::Result<libc::c_int> {
        let most = libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX);
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let milliseconds = match (timeout, &self.timing) {
            (None, _) => Some(-1),
            (Some(Duration::ZERO), _) => Some(0),
            (Some(timeout), Timing::Timer(timer)) => {
                set_timer(timer, timeout)?;
                Some(-1)
            }
            // Rounded down: a wait that ends early is made again, one that ends late is late.
            (Some(timeout), Timing::Milliseconds) => {
                Some(libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX))
            }
            (Some(_), Timing::Nanoseconds) => None,
        };
        if let Some(milliseconds) = milliseconds {
            // SAFETY: `events` has room for `most`, and outlives the call.
            return check(unsafe { libc::epoll_wait(epoll, events, most, milliseconds) });
        }
        let timeout = timeout.unwrap_or_default();
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        let no_mask: *const libc::sigset_t = std::ptr::null();
        // SAFETY: as above; the time outlives the call, and no mask of signals is given.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll,
                events,
                most,
                &raw const timeout,
                no_mask,
                0,
            )
        };
        check(ready as libc::c_int)
    }

    /// Waits by a timer descriptor from now on.
    fn use_timer(&mut self) {
        // SAFETY: no pointers; the descriptor is owned from here on.
        let timer = unsafe {
            check(libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
            ))
            .map(|fd| OwnedFd::from_raw_fd(fd))
        };
        self.timing = match timer {
            Ok(timer) if self.watch(&timer, TIMER).is_ok() => Timing::Timer(timer),
            _ => Timing::Milliseconds,
        };
    }

    /// Takes the timer descriptor out of what is ready.
    fn without_timer(&mut self, ready: usize) -> usize {
        let of_timer = |event: &libc::epoll_event| event.u64 == TIMER;
        match self.events[..ready].iter().position(of_timer) {
            Some(place) => {
                self.events.copy_within(place + 1..ready, place);
                ready - 1
            }
            None => ready,
        }
    }

    /// Sleeps without being woken by sockets: what becomes ready meanwhile the next wait tells together. A signal
    /// ends it early.
    pub fn rest(&self, time: Duration) {
        let time = rustix::thread::Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // Whatever ended it, there is nothing to be done about it.
        let _ = rustix::thread::nanosleep(&time);
    }

    /// What the last wait told of its `place`-th socket.
    ///
    /// # Panics
    /// When there were not so many.
    pub fn ready(&self, place: usize) -> Ready {
        assert!(place < self.ready, "only {} are ready", self.ready);
        let event = self.events[place];
        let has = |flags: libc::c_int| event.events & flags as u32 != 0;
        let ended = has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR);
        Ready {
            token: event.u64,
            readable: has(libc::EPOLLIN) || ended,
            writable: has(libc::EPOLLOUT) || has(libc::EPOLLERR),
            ended,
        }
    }
}

/// Lets a timer descriptor become ready after a time, and not before.
fn set_timer(timer: &OwnedFd, time: Duration) -> io::Result<()> {
    let never = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let once = libc::itimerspec {
        it_interval: never,
        it_value: libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos() as _,
        },
    };
    // SAFETY: the descriptor is open, the times outlive the call, and the old ones are not asked for.
    check(unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const once, std::ptr::null_mut())
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    fn readiness_is_told_once_when_it_begins() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut poller = Poller::new(8).unwrap();
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        let ready = poller.ready(0);
        assert_eq!((ready.token, ready.writable), (7, true));
        assert!(!ready.readable && !ready.ended);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 0);
        server.write_all(b"x").unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        assert!(poller.ready(0).readable);
        assert_eq!(poller.wait(Some(Duration::from_micros(10))).unwrap(), 0);
        client.read_exact(&mut [0]).unwrap();
        drop(server);
        assert_eq!(poller.wait(None).unwrap(), 1);
        assert!(poller.ready(0).ended);
        drop(client);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 0);
    }

    #[test]
    fn nothing_ends_a_rest_and_what_came_meanwhile_is_told_after_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut poller = Poller::new(8).unwrap();
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        server.write_all(b"x").unwrap();
        let begin = Instant::now();
        poller.rest(Duration::from_micros(2500));
        assert!(begin.elapsed() >= Duration::from_micros(2500));
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
        assert!(poller.ready(0).readable);
    }

    #[test]
    fn a_wait_without_a_socket_lasts_as_long_as_asked() {
        for least in [2500, 2000] {
            let mut poller = Poller::new(1).unwrap();
            if least == 2000 {
                poller.timing = Timing::Milliseconds;
            }
            let begin = Instant::now();
            assert_eq!(poller.wait(Some(Duration::from_micros(2500))).unwrap(), 0);
            assert!(begin.elapsed() >= Duration::from_micros(least));
        }
    }

    #[test]
    fn a_kernel_without_exact_waits_has_a_timer_instead() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut poller = Poller::new(8).unwrap();
        poller.use_timer();
        assert!(matches!(poller.timing, Timing::Timer(_)));
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        // It lasts as long as asked, also where that is less than a millisecond.
        for micros in [300, 2500] {
            let (begin, wait) = (Instant::now(), Duration::from_micros(micros));
            assert_eq!(poller.wait(Some(wait)).unwrap(), 0);
            assert!(begin.elapsed() >= wait);
        }
        // A socket ends it, and a timer that fires beside a socket is nobody's readiness.
        server.write_all(b"x").unwrap();
        assert_eq!(poller.wait(Some(Duration::from_secs(60))).unwrap(), 1);
        assert_eq!(poller.ready(0).token, 7);
        set_timer(
            match &poller.timing {
                Timing::Timer(timer) => timer,
                _ => unreachable!(),
            },
            Duration::from_nanos(1),
        )
        .unwrap();
        std::thread::sleep(Duration::from_millis(2));
        server.write_all(b"y").unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
        assert_eq!(poller.ready(0).token, 7);
    }
}
