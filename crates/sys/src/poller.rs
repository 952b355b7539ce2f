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
    /// The kernel has `epoll_pwait2`, which is told nanoseconds (Linux 5.11).
    precise: bool,
}

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
            precise: true,
        })
    }

    /// Watches a socket until it is closed. Whatever it is ready for already is told by the next
    /// wait.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
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
        if self.precise && matches!(&result, Err(e) if e.raw_os_error() == Some(libc::ENOSYS)) {
            self.precise = false;
            result = self.wait_once(timeout);
        }
        match result {
            Ok(ready) => self.ready = ready as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("wait for sockets"),
        }
        Ok(self.ready)
    }

    fn wait_once(&mut self, timeout: Option<Duration>) -> io::Result<libc::c_int> {
        let most = libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX);
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        if !self.precise || timeout.is_none_or(|timeout| timeout.is_zero()) {
            // Rounded down: a wait that ends early is made again, one that ends late is late.
            let milliseconds = timeout.map_or(-1, |timeout| {
                libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX)
            });
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
        for precise in [true, false] {
            let mut poller = Poller::new(1).unwrap();
            poller.precise = precise;
            let begin = Instant::now();
            assert_eq!(poller.wait(Some(Duration::from_micros(2500))).unwrap(), 0);
            assert!(begin.elapsed() >= Duration::from_millis(2));
        }
    }
}
