//! The terminal on stderr: changes its settings for a screen that redraws itself, and restores them.
//!
//! Two settings are changed. Echo is off, because keys are not read. The suspend key is disabled, because a suspended
//! measurement is invalid. Ctrl-C still sends a signal. A second Ctrl-C, which ends the program at once, restores the
//! terminal first. Only SIGKILL leaves the terminal unrestored.

use std::io::{IsTerminal as _, stderr};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::error::{Doing, Result, check};

/// The state needed to restore the terminal; null if it is not taken.
static TAKEN: AtomicPtr<Taken> = AtomicPtr::new(ptr::null_mut());

struct Taken {
    settings: libc::termios,
    last_output: &'static [u8],
}

/// Whether stderr is a terminal that can move its cursor, and this program is in the foreground. The kernel would stop a
/// background program that changes the settings.
pub fn is_in_foreground() -> bool {
    let able = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    able && stderr().is_terminal() && tcgetpgrp(stderr()).is_ok_and(|group| group == getpgrp())
}

/// Takes the terminal. When the terminal is restored, `last_output` is written before the settings are restored.
pub fn take(last_output: &'static [u8]) -> Result<()> {
    // SAFETY: termios is plain data for which zero is a value.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the settings outlive the call.
    check(unsafe { libc::tcgetattr(libc::STDERR_FILENO, &raw mut settings) })
        .doing("read the terminal's settings")?;
    let mut silent = settings;
    silent.c_lflag &= !libc::ECHO;
    silent.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
    // SAFETY: as above.
    check(unsafe { libc::tcsetattr(libc::STDERR_FILENO, libc::TCSANOW, &raw const silent) })
        .doing("change the terminal's settings")?;
    // Never freed, because a signal handler may be about to use it. A program takes its terminal once or twice.
    let taken = Box::into_raw(Box::new(Taken {
        settings,
        last_output,
    }));
    TAKEN.store(taken, Ordering::SeqCst);
    Ok(())
}

/// Whether the terminal is taken.
pub fn is_taken() -> bool {
    !TAKEN.load(Ordering::SeqCst).is_null()
}

/// Restores the terminal. Has no effect if it is not taken. Async-signal-safe.
pub fn restore() {
    let taken = TAKEN.swap(ptr::null_mut(), Ordering::SeqCst);
    if taken.is_null() {
        return;
    }
    // SAFETY: the pointer came from a Box that is never freed, and no other code uses it any more. write and tcsetattr
    // are async-signal-safe; their errors are ignored.
    unsafe {
        let Taken {
            settings,
            last_output,
        } = &*taken;
        libc::write(
            libc::STDERR_FILENO,
            last_output.as_ptr().cast(),
            last_output.len(),
        );
        // Discards the keys that were pressed since, because they were not meant for the shell.
        libc::tcsetattr(libc::STDERR_FILENO, libc::TCSAFLUSH, settings);
    }
}
