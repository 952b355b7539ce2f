//! The terminal that stderr is: taken for a view that redraws itself, given back in any case.
//!
//! Of its settings two are changed: keys are not shown, as nobody reads them, and the key that
//! suspends does nothing, as a measurement that stops for a while has measured nothing. Ctrl-C
//! remains the signal that it is; the second one, which ends the program at once, gives the
//! terminal back before. Only SIGKILL does not.

use std::io::{IsTerminal as _, stderr};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::error::{Doing, Result, check};

/// What gives it back; null when it is not taken.
static TAKEN: AtomicPtr<Taken> = AtomicPtr::new(ptr::null_mut());

struct Taken {
    settings: libc::termios,
    farewell: &'static [u8],
}

/// Whether stderr is a terminal that can move its cursor, and this program is in front of it: one
/// in the background would be stopped for changing its settings.
pub fn is_ours() -> bool {
    let able = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    able && stderr().is_terminal() && tcgetpgrp(stderr()).is_ok_and(|group| group == getpgrp())
}

/// Takes the terminal. `farewell` is what is written to it when it is given back, before its
/// settings are restored.
pub fn take(farewell: &'static [u8]) -> Result<()> {
    // SAFETY: termios is plain data for which zero is a value.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the settings outlive the call.
    check(unsafe { libc::tcgetattr(libc::STDERR_FILENO, &raw mut settings) })
        .doing("ask for the terminal's settings")?;
    let mut silent = settings;
    silent.c_lflag &= !libc::ECHO;
    silent.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
    // SAFETY: as above.
    check(unsafe { libc::tcsetattr(libc::STDERR_FILENO, libc::TCSANOW, &raw const silent) })
        .doing("change the terminal's settings")?;
    // Not freed: a handler may be about to use it. A program takes its terminal once or twice.
    let taken = Box::into_raw(Box::new(Taken { settings, farewell }));
    TAKEN.store(taken, Ordering::SeqCst);
    Ok(())
}

/// Whether it is taken.
pub fn is_taken() -> bool {
    !TAKEN.load(Ordering::SeqCst).is_null()
}

/// Gives it back; does nothing when that has been done. Does nothing that a signal handler must
/// not.
pub fn give_back() {
    let taken = TAKEN.swap(ptr::null_mut(), Ordering::SeqCst);
    if taken.is_null() {
        return;
    }
    // SAFETY: it came from a Box that is never freed, and nobody else has it any more. write and
    // tcsetattr are async-signal-safe, and what they fail at cannot be helped.
    unsafe {
        let Taken { settings, farewell } = &*taken;
        libc::write(
            libc::STDERR_FILENO,
            farewell.as_ptr().cast(),
            farewell.len(),
        );
        // Keys pressed meanwhile were meant for the view and not for the shell behind it.
        libc::tcsetattr(libc::STDERR_FILENO, libc::TCSAFLUSH, settings);
    }
}
