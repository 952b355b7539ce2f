//! Messages on stderr.

use std::fmt;
use std::io::Write as _;

/// Writes a line to stderr. A failure (stderr is closed, or on a full disk) is ignored, so that the measurement
/// continues.
pub fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
