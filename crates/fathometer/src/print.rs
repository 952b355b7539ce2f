//! Printing that never panics. The macros here stand in front of the standard library's of the same names: in the
//! whole crate `println!` and its kin go through this module.
//!
//! A stderr that takes nothing is no reason to stop: what was to be told there is lost. A stdout that takes nothing
//! makes the command fail, but only when it is over and all else that it leaves has been written, and with the cause.
//! Where the reader of a pipe has seen enough (`| head`), nothing is wrong.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;

/// The first failure to write to stdout.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

macro_rules! print {
    ($($arguments:tt)*) => {
        $crate::print::to_stdout(format_args!($($arguments)*))
    };
}

macro_rules! println {
    () => {
        $crate::print::to_stdout(format_args!("\n"))
    };
    ($($arguments:tt)*) => {
        $crate::print::to_stdout(format_args!("{}\n", format_args!($($arguments)*)))
    };
}

macro_rules! eprint {
    ($($arguments:tt)*) => {
        $crate::print::to_stderr(format_args!($($arguments)*))
    };
}

macro_rules! eprintln {
    () => {
        $crate::print::to_stderr(format_args!("\n"))
    };
    ($($arguments:tt)*) => {
        $crate::print::to_stderr(format_args!("{}\n", format_args!($($arguments)*)))
    };
}

/// Writes to stdout, unless that has failed before.
pub fn to_stdout(text: fmt::Arguments<'_>) {
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    if failed.is_none() {
        *failed = io::stdout().lock().write_fmt(text).err();
    }
}

/// Writes to stderr, if that takes it.
pub fn to_stderr(text: fmt::Arguments<'_>) {
    // In one piece, so that lines of several threads and programs stay whole.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// The end of the program: what it ends with, but 1 where what it printed could not be written.
pub fn finish(code: ExitCode) -> ExitCode {
    let flushed = io::stdout().flush().err();
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    match failed.take().or(flushed) {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            to_stderr(format_args!(
                "fathometer: failed to write to stdout: {error}; what was to be printed there is incomplete\n"
            ));
            ExitCode::from(1)
        }
        _ => code,
    }
}
