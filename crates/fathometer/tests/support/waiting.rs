//! Waiting for what must come soon.

use std::time::{Duration, Instant};

/// Long enough for a busy machine, short of what a page takes on a modem line.
pub const SOON: Duration = Duration::from_secs(30);

/// Waits until `done` says so, and fails when it does not say so soon.
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(SOON, what, done);
}

/// The same, with a limit of one's own.
pub fn wait_within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
