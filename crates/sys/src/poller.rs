//! Waiting for many sockets at once: edge-triggered epoll, with time-outs in nanoseconds.
//!
//! A socket is added once, for all events, and never changed. Readiness is reported when it begins, and the caller must
//! remember it until a call would block. This saves one or two system calls per message, compared with registering
//! interest each time. A closed descriptor is removed automatically.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use fathometer_model::Instant;

use crate::error::{Doing, Result, check};

/// Watches sockets for one thread.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
    timing: Timing,
    /// A timer descriptor that the epoll instance watches.
    timer: Option<OwnedFd>,
    /// The instant to which [`Poller::wait_coarsely`] has set the timer; `None` if the timer is not set.
    set_until: Option<Instant>,
}

/// The method of setting the time-out of a wait.
#[derive(Debug, PartialEq, Eq)]
enum Timing {
    /// With `epoll_pwait2`, which takes nanoseconds (Linux 5.11).
    Nanoseconds,
    /// With the timer descriptor, if the kernel has no `epoll_pwait2`.
    Timer,
    /// With `epoll_wait`, rounded down to milliseconds, if there is no timer descriptor either.
    Milliseconds,
}

/// The token of the timer descriptor; sockets must not use it.
const TIMER: u64 = u64::MAX;

/// The readiness of one socket, as reported by a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token with which the socket was added.
    pub token: u64,
    /// Whether data, the end of the stream or an error can be read.
    pub readable: bool,
    /// Whether data can be written.
    pub writable: bool,
    /// Whether the peer has closed its side, or the connection failed: reading reaches an end.
    pub ended: bool,
}

impl Poller {
    /// Creates a poller whose waits report up to `most` sockets at a time. Sets the timer slack of the calling thread to
    /// 1 ns, so that its waits end on time.
    pub fn new(most: usize) -> Result<Poller> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .doing("set the timer slack to 1 ns")?;
        // SAFETY: no pointers; the new descriptor gets its owner here.
        let epoll = unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).doing("make an epoll")?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Poller {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; most.max(1)],
            ready: 0,
            timing: Timing::Nanoseconds,
            timer: None,
            set_until: None,
        })
    }

    /// Watches a socket until it is closed. The next wait reports its current readiness. Any token except the
    /// largest number may be used.
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

    /// Waits until a socket is ready or `timeout` has passed. `None` waits without a time limit. Returns the number of ready
    /// sockets, which is 0 also if a signal ended the wait.
    ///
    /// The kernel may extend a wait by 0.1 % of its length.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<usize> {
        self.ready = 0;
        let mut result = self.wait_once(timeout);
        // A sandbox may reject an unknown system call as not permitted.
        let unknown = [Some(libc::ENOSYS), Some(libc::EPERM)];
        if matches!(&result, Err(error) if unknown.contains(&error.raw_os_error())) {
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

    /// Like [`Poller::wait`], for a long wait that may end early. If an earlier call has set the timer to an instant before
    /// the end of this wait, this wait ends at that instant.
    ///
    /// A separate timer for each wait would take about 2 % of the CPU time of a loop with frequent wake-ups: the
    /// timer would be set and removed each time and would almost never expire. `now` is the instant of the call, by a
    /// clock that runs like `CLOCK_MONOTONIC`.
    pub fn wait_coarsely(&mut self, now: Instant, timeout: Duration) -> Result<usize> {
        let end = now + timeout;
        if self
            .set_until
            .is_none_or(|until| until <= now || until > end)
        {
            if self.timing != Timing::Nanoseconds || !self.has_timer() {
                return self.wait(Some(timeout));
            }
            let timer = self.timer.as_ref().expect("it was just made");
            set_timer(timer, timeout).doing("set a timer")?;
            self.set_until = Some(end);
        }
        self.wait(None)
    }

    fn wait_once(&mut self, timeout: Option<Duration>) -> io::Result<libc::c_int> {
        let most = libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX);
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let milliseconds = match (timeout, &self.timing, &self.timer) {
            (None, _, _) => Some(-1),
            (Some(Duration::ZERO), _, _) => Some(0),
            (Some(timeout), Timing::Timer, Some(timer)) => {
                set_timer(timer, timeout)?;
                Some(-1)
            }
            // Rounded down: a wait that ends early is repeated, but a wait that ends late cannot be corrected.
            (Some(timeout), Timing::Milliseconds | Timing::Timer, _) => {
                Some(libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX))
            }
            (Some(_), Timing::Nanoseconds, _) => None,
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
        // SAFETY: as above; the time outlives the call, and no signal mask is passed.
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

    /// Switches to the timer descriptor, or to milliseconds if it is not available.
    fn use_timer(&mut self) {
        self.set_until = None;
        self.timing = match self.has_timer() {
            true => Timing::Timer,
            false => Timing::Milliseconds,
        };
    }

    /// Creates the timer descriptor if it does not exist. Returns whether it exists afterwards.
    fn has_timer(&mut self) -> bool {
        if self.timer.is_none() {
            // SAFETY: no pointers; the new descriptor gets its owner here.
            let timer = unsafe {
                check(libc::timerfd_create(
                    libc::CLOCK_MONOTONIC,
                    libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
                ))
                .map(|fd| OwnedFd::from_raw_fd(fd))
            };
            self.timer = timer.ok().filter(|timer| self.watch(timer, TIMER).is_ok());
        }
        self.timer.is_some()
    }

    /// Removes the timer descriptor from the list of ready sockets. Returns the new length of the list.
    fn without_timer(&mut self, ready: usize) -> usize {
        let of_timer = |event: &libc::epoll_event| event.u64 == TIMER;
        match self.events[..ready].iter().position(of_timer) {
            Some(place) => {
                self.set_until = None;
                self.events.copy_within(place + 1..ready, place);
                ready - 1
            }
            None => ready,
        }
    }

    /// Sleeps without being woken by sockets. The next wait reports all sockets that became ready during the sleep. A
    /// signal ends the sleep early.
    pub fn sleep(&self, time: Duration) {
        let time = rustix::thread::Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // Errors need no handling: a shorter sleep is harmless.
        let _ = rustix::thread::nanosleep(&time);
    }

    /// Returns the readiness of the socket at index `place` of the last wait.
    ///
    /// # Panics
    /// If fewer sockets were ready.
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

/// Sets a timer descriptor to become ready after `time`.
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
    // SAFETY: the descriptor is open, the times outlive the call, and the old times are not requested.
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
    use std::time::Instant as StdInstant;

    #[test]
    fn readiness_is_reported_once_when_it_begins() {
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
    fn a_sleep_is_not_interrupted_and_later_reports_all_ready_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut poller = Poller::new(8).unwrap();
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        server.write_all(b"x").unwrap();
        let begin = StdInstant::now();
        poller.sleep(Duration::from_micros(2500));
        assert!(begin.elapsed() >= Duration::from_micros(2500));
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
        assert!(poller.ready(0).readable);
    }

    #[test]
    fn a_wait_without_a_socket_lasts_until_its_timeout() {
        for least in [2500, 2000] {
            let mut poller = Poller::new(1).unwrap();
            if least == 2000 {
                poller.timing = Timing::Milliseconds;
            }
            let begin = StdInstant::now();
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
        assert_eq!(poller.timing, Timing::Timer);
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        // The wait lasts as long as requested, also below a millisecond.
        for micros in [300, 2500] {
            let (begin, wait) = (StdInstant::now(), Duration::from_micros(micros));
            assert_eq!(poller.wait(Some(wait)).unwrap(), 0);
            assert!(begin.elapsed() >= wait);
        }
        // A socket ends the wait. A timer that fires at the same time is not reported as a ready socket.
        server.write_all(b"x").unwrap();
        assert_eq!(poller.wait(Some(Duration::from_secs(60))).unwrap(), 1);
        assert_eq!(poller.ready(0).token, 7);
        set_timer(poller.timer.as_ref().unwrap(), Duration::from_nanos(1)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        server.write_all(b"y").unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
        assert_eq!(poller.ready(0).token, 7);
    }

    #[test]
    fn coarse_waits_share_a_timer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut poller = Poller::new(8).unwrap();
        poller.add(&client, 7).unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        let begin = StdInstant::now();
        let now = |begin: StdInstant| Instant::ZERO + begin.elapsed();
        // A socket ends the first wait. The second wait is longer, but ends when the first wait would have ended.
        server.write_all(b"x").unwrap();
        let short = Duration::from_millis(30);
        assert_eq!(poller.wait_coarsely(now(begin), short).unwrap(), 1);
        assert_eq!(poller.ready(0).token, 7);
        let set = poller.set_until;
        let long = Duration::from_secs(60);
        assert_eq!(poller.wait_coarsely(now(begin), long).unwrap(), 0);
        assert!(set.is_some() && begin.elapsed() >= short && begin.elapsed() < long);
        assert_eq!(poller.set_until, None);
        // A shorter wait sets the timer again.
        server.write_all(b"y").unwrap();
        assert_eq!(poller.wait_coarsely(now(begin), long).unwrap(), 1);
        let again = StdInstant::now();
        assert_eq!(poller.wait_coarsely(now(begin), short).unwrap(), 0);
        assert!(again.elapsed() >= short && again.elapsed() < long);
    }
}
