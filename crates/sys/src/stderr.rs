//! Messages on stderr.

use std::fmt;
use std::io::Write as _;

/// Writes a line to stderr. Errors (stderr is closed, or its disk is full) are ignored, so that the measurement
/// continues.
pub fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
