//! Printing that never panics. The macros of this module replace `println!` and similar macros of the standard library
//! in the whole crate.
//!
//! A failure to write to stderr is ignored, and the message is lost. A failure to write to stdout makes the command
//! fail, but only at the end, after all other output is written; the error is printed then. If the reader of a pipe
//! closes it early (`| head`), that is not an error.

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

/// Writes to stdout, unless an earlier write failed.
pub fn to_stdout(text: fmt::Arguments<'_>) {
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    if failed.is_none() {
        *failed = io::stdout().lock().write_fmt(text).err();
    }
}

/// Writes to stderr; a failure is ignored.
pub fn to_stderr(text: fmt::Arguments<'_>) {
    // A single write, so that lines of several threads and programs do not mix.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Writes another program's output to stdout, unless an earlier write failed.
pub fn bytes_to_stdout(bytes: &[u8]) {
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    if failed.is_none() {
        let mut stdout = io::stdout().lock();
        *failed = stdout.write_all(bytes).and_then(|()| stdout.flush()).err();
    }
}

/// Writes another program's output to stderr; a failure is ignored.
pub fn bytes_to_stderr(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// Returns the exit code of the program: `code`, or 1 if output to stdout could not be written.
pub fn finish(code: ExitCode) -> ExitCode {
    let flushed = io::stdout().flush().err();
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    match failed.take().or(flushed) {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            to_stderr(format_args!(
                "fathometer: failed to write to stdout: {error}; the output is incomplete\n"
            ));
            ExitCode::from(1)
        }
        _ => code,
    }
}
