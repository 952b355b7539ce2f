//! The program file for child processes: a server in a host with limits, or a receiver of a host's packets.

use std::path::PathBuf;
use std::sync::OnceLock;

static OURS: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the `fathometer` program, once. A program that uses this crate as a library, such as a test, must
/// call this, because its own executable has no commands that serve or receive.
pub fn is_at(program: PathBuf) {
    OURS.get_or_init(|| program);
}

/// Returns the path of the program. The default is the executable of this process, which may have been replaced or
/// removed since the start.
pub(crate) fn ours() -> PathBuf {
    let own = || std::env::current_exe().ok().filter(|path| path.exists());
    let named = OURS.get().cloned().or_else(own);
    named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
