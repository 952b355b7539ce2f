//! SIGINT, SIGTERM and SIGHUP: the first asks the program to end well, the second ends it. A signal
//! that was ignored when the program started stays ignored.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Doing, Result, check};
use crate::terminal;

static RAISED: AtomicBool = AtomicBool::new(false);
static EVENT: AtomicI32 = AtomicI32::new(-1);
static INSTALLING: Mutex<()> = Mutex::new(());

/// Knows whether the user has asked the program to end. Copies know the same.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt {
    event: BorrowedFd<'static>,
}

impl Interrupt {
    /// Catches the signals from now on. Calling it again changes nothing.
    pub fn install() -> Result<Interrupt> {
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|lock| lock.into_inner());
        if EVENT.load(Ordering::SeqCst) < 0 {
            let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .doing("make an event descriptor")?;
            // It stays open for as long as the program: a handler may use it at any moment.
            EVENT.store(event.into_raw_fd(), Ordering::SeqCst);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                catch(signal)?;
            }
        }
        // SAFETY: the descriptor was made above and is never closed.
        let event = unsafe { BorrowedFd::borrow_raw(EVENT.load(Ordering::SeqCst)) };
        Ok(Interrupt { event })
    }

    /// Whether a signal has come.
    pub fn is_raised(self) -> bool {
        RAISED.load(Ordering::SeqCst)
    }
}

/// Readable from the first signal on, and for good: every loop that polls it sees it.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event
    }
}

fn catch(signal: libc::c_int) -> Result<()> {
    // SAFETY: sigaction is plain data for which zero is a value.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the variable outlives the call.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) })
        .doing(format!("ask about signal {signal}"))?;
    // Whoever started the program under nohup, or in the background, meant it.
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing but what signal-safety(7) allows.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })
        .doing(format!("catch signal {signal}"))
        .map(drop)
}

extern "C" fn handle(signal: libc::c_int) {
    if RAISED.swap(true, Ordering::SeqCst) {
        terminal::give_back();
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(128 + signal) }
    }
    // errno belongs to the code that was interrupted.
    // SAFETY: the location is the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let one = 1u64.to_ne_bytes();
    // SAFETY: write is async-signal-safe, and the descriptor is never closed. It cannot fail: the
    // counter is not near its limit.
    unsafe {
        libc::write(EVENT.load(Ordering::SeqCst), one.as_ptr().cast(), one.len());
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_signal_is_seen_by_every_poll_from_then_on() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_raised());
        assert!(!readable(interrupt));
        // SAFETY: raises a signal whose handler was just installed.
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(interrupt.is_raised());
        assert!(readable(interrupt) && readable(interrupt));
        assert!(readable(Interrupt::install().unwrap()));
    }

    #[test]
    fn the_second_signal_ends_the_program_at_once() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signal::tests::interrupted_twice"])
            .env("FATHOMETER_TEST_TWICE", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(128 + libc::SIGTERM));
    }

    /// Not a test by itself: the program of the test above.
    #[test]
    fn interrupted_twice() {
        if std::env::var_os("FATHOMETER_TEST_TWICE").is_some() {
            Interrupt::install().unwrap();
            // SAFETY: raises signals whose handler was just installed.
            unsafe {
                libc::raise(libc::SIGTERM);
                libc::raise(libc::SIGTERM);
            }
            unreachable!("outlived the second signal");
        }
    }

    fn readable(interrupt: Interrupt) -> bool {
        let mut fd = libc::pollfd {
            fd: interrupt.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd, which outlives the call.
        unsafe { libc::poll(&raw mut fd, 1, 0) == 1 }
    }
}
