//! Waiting for what must come soon.

use std::time::{Duration, Instant};

/// Long enough for a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Waits until `done` says so, and fails when it does not say so soon.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
