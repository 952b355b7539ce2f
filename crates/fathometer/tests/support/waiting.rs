//! Waiting for what must come.

use std::time::{Duration, Instant};

/// Longer than anything takes that is waited for without being hurried, and no measure of anything.
pub const AT_LAST: Duration = Duration::from_secs(240);

/// Waits until `done` says so, and fails when it never does.
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(AT_LAST, what, done);
}

/// The same, with a limit of one's own.
pub fn wait_within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
