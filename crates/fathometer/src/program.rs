//! Which program is started where a process of our own is needed: a server in a host with limits, or
//! what receives a host's packets.

use std::path::PathBuf;
use std::sync::OnceLock;

static OURS: OnceLock<PathBuf> = OnceLock::new();

/// Names the `fathometer` program for processes of our own, once. A program that uses this as a library,
/// as tests do, must: it is not one that serves or receives.
pub fn is_at(program: PathBuf) {
    OURS.get_or_init(|| program);
}

/// The program. Unless it was named it is the one that asks, whose file may have been replaced or removed
/// since it started.
pub(crate) fn ours() -> PathBuf {
    let own = || std::env::current_exe().ok().filter(|path| path.exists());
    let named = OURS.get().cloned().or_else(own);
    named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
