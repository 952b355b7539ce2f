//! SIGINT, SIGTERM and SIGHUP. The first signal requests an orderly exit. A further signal at least [`GRACE`] later
//! ends the program at once. Signals in between have no effect: `timeout`, terminals and supervisors may signal a
//! program twice, and a second Ctrl-C should not discard the results of an orderly exit. A signal that was ignored when
//! the program started stays ignored. Programs that reopen a log on SIGHUP use [`HangUps`].

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Doing, Result, check};
use crate::terminal;

/// The time after the first signal during which further signals have no effect.
pub const GRACE: Duration = Duration::from_secs(1);

static RAISED: AtomicBool = AtomicBool::new(false);
/// The time of the first signal, in nanoseconds of the monotonic clock; 0 before it.
static RAISED_AT: AtomicU64 = AtomicU64::new(0);
static EVENT: AtomicI32 = AtomicI32::new(-1);
static HANG_UPS: AtomicI32 = AtomicI32::new(-1);
static INSTALLING: Mutex<()> = Mutex::new(());

/// Whether a signal has requested the program's exit. Copies share the same state.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt {
    event: BorrowedFd<'static>,
}

impl Interrupt {
    /// Installs the signal handlers. Calling it again has no effect.
    pub fn install() -> Result<Interrupt> {
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|lock| lock.into_inner());
        if EVENT.load(Ordering::SeqCst) < 0 {
            make_event(&EVENT)?;
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                catch(signal)?;
            }
        }
        // SAFETY: the descriptor was made above and is never closed.
        let event = unsafe { BorrowedFd::borrow_raw(EVENT.load(Ordering::SeqCst)) };
        Ok(Interrupt { event })
    }

    /// Whether a signal has arrived.
    pub fn is_raised(self) -> bool {
        RAISED.load(Ordering::SeqCst)
    }
}

/// The descriptor is readable from the first signal on, permanently, so that every loop that polls it is woken.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event
    }
}

/// Whether SIGHUP has arrived, for programs that reopen their log on SIGHUP. Copies share the same state.
#[derive(Debug, Clone, Copy)]
pub struct HangUps {
    event: BorrowedFd<'static>,
}

impl HangUps {
    /// Installs a handler for SIGHUP, which then no longer requests an exit. The handler is installed even if SIGHUP was
    /// ignored, because a program under nohup may have to reopen its log too. Calling it again has no effect.
    pub fn install() -> Result<HangUps> {
        // Installs the handlers for exit first, so that they cannot replace this handler.
        Interrupt::install()?;
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|lock| lock.into_inner());
        if HANG_UPS.load(Ordering::SeqCst) < 0 {
            make_event(&HANG_UPS)?;
            handle_by(libc::SIGHUP, note_hang_up)?;
        }
        // SAFETY: the descriptor was made above and is never closed.
        let event = unsafe { BorrowedFd::borrow_raw(HANG_UPS.load(Ordering::SeqCst)) };
        Ok(HangUps { event })
    }

    /// Whether SIGHUP has arrived since the last call.
    pub fn take(self) -> bool {
        let mut count = [0; 8];
        matches!(rustix::io::read(self.event, &mut count), Ok(8))
    }
}

/// The descriptor is readable after a signal until the signal is [taken](HangUps::take).
impl AsFd for HangUps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event
    }
}

/// Makes the kernel report the exit of children. Some supervisors start programs with SIGCHLD ignored; such a program gets
/// neither the signal nor an exit status (POSIX, `wait`). Call it before the first child is started.
///
/// # Errors
/// If the system call fails, which does not happen in practice.
pub fn report_children() -> Result<()> {
    // SAFETY: the default action of SIGCHLD runs no code.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    check(if before == libc::SIG_ERR { -1 } else { 0 })
        .doing("enable notification of exited children")
        .map(drop)
}

fn make_event(place: &AtomicI32) -> Result<()> {
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .doing("make an event descriptor")?;
    // Never closed, because a handler may use it at any moment.
    place.store(event.into_raw_fd(), Ordering::SeqCst);
    Ok(())
}

fn catch(signal: libc::c_int) -> Result<()> {
    // SAFETY: sigaction is plain data for which zero is a value.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the action; the variable outlives the call.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) })
        .doing(format!("read the action of signal {signal}"))?;
    // The signal was ignored deliberately, by nohup or by a shell for a background job.
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    handle_by(signal, handle)
}

fn handle_by(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: sigaction is plain data for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handlers only do what signal-safety(7) allows.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })
        .doing(format!("catch signal {signal}"))
        .map(drop)
}

extern "C" fn handle(signal: libc::c_int) {
    let now = monotonic();
    // A signal that interrupts the handler of the first signal is always within the grace period.
    let first = RAISED_AT.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    if !RAISED.swap(true, Ordering::SeqCst) {
        return notify(&EVENT);
    }
    if first.is_err_and(|first| now.saturating_sub(first) >= GRACE.as_nanos() as u64) {
        terminal::restore();
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(128 + signal) }
    }
}

/// Returns the nanoseconds of the monotonic clock, never zero. Only does what signal-safety(7) allows.
fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime is async-signal-safe, and the variable outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64).max(1)
}

extern "C" fn note_hang_up(_signal: libc::c_int) {
    notify(&HANG_UPS);
}

/// Makes an event's descriptor readable. Only does what signal-safety(7) allows.
fn notify(event: &AtomicI32) {
    // The interrupted code may be about to read errno, so its value is restored.
    // SAFETY: the location is the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let one = 1u64.to_ne_bytes();
    // SAFETY: write is async-signal-safe, and the descriptor is never closed. It cannot fail: the
    // counter is not near its limit.
    unsafe {
        libc::write(event.load(Ordering::SeqCst), one.as_ptr().cast(), one.len());
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
    fn a_signal_after_the_grace_ends_the_program_and_one_within_does_not() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signal::tests::child_of_the_test_of_two_signals"])
            .env("FATHOMETER_TEST_TWICE", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        // SIGINT arrived within the grace period, so the status is from SIGTERM.
        assert_eq!(status.code(), Some(128 + libc::SIGTERM));
    }

    #[test]
    fn hang_ups_are_noted_and_do_not_end_the_program() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signal::tests::hung_up"])
            .env("FATHOMETER_TEST_HANG_UPS", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0));
    }

    /// Not a test by itself: the program that the test above runs.
    #[test]
    fn hung_up() {
        if std::env::var_os("FATHOMETER_TEST_HANG_UPS").is_some() {
            let hang_ups = HangUps::install().unwrap();
            let interrupt = Interrupt::install().unwrap();
            assert!(!hang_ups.take());
            for _ in 0..2 {
                // SAFETY: raises signals whose handler was just installed.
                unsafe {
                    libc::raise(libc::SIGHUP);
                    libc::raise(libc::SIGHUP);
                }
                assert!(hang_ups.take() && !hang_ups.take());
            }
            assert!(!interrupt.is_raised());
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGTERM) };
            assert!(interrupt.is_raised() && !hang_ups.take());
        }
    }

    /// Not a test by itself: the program that a test above runs.
    #[test]
    fn child_of_the_test_of_two_signals() {
        if std::env::var_os("FATHOMETER_TEST_TWICE").is_some() {
            Interrupt::install().unwrap();
            // SAFETY: raises signals whose handler was just installed.
            unsafe {
                libc::raise(libc::SIGTERM);
                libc::raise(libc::SIGTERM);
                libc::raise(libc::SIGINT);
            }
            std::thread::sleep(GRACE + Duration::from_millis(10));
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGTERM) };
            unreachable!("outlived the last signal");
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
