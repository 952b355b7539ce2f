//! Waits with a time limit.

#![allow(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::time::{Duration, Instant};

/// Time limit of every wait of a test: longer than any of the operations takes.
pub const AT_LAST: Duration = Duration::from_secs(240);

/// Waits until `done` returns true; fails at the time limit.
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(AT_LAST, what, done);
}

/// Same as [`wait_until`], with a given time limit.
pub fn wait_within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(
            Instant::now() < end,
            "time limit reached while waiting until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
