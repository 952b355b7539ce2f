//! Progress of packing or unpacking on stderr: nothing in the first two seconds, then a line that is
//! overwritten on a terminal, or a line from time to time elsewhere.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use fathometer_model::{Bytes, Instant};
use fathometer_sys::Clock;

/// No progress is shown before this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of updates on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(250);
/// Interval of lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Shows the progress.
#[derive(Debug)]
pub struct Progress {
    clock: Clock,
    /// `packed`, `unpacked`, ….
    done: &'static str,
    all: Option<All>,
    terminal: bool,
    next: Instant,
    shown: bool,
}

/// The total amount of work.
#[derive(Debug, Clone, Copy)]
pub enum All {
    /// Number of files.
    Files(u64),
    /// Number of bytes.
    Octets(u64),
}

impl Progress {
    /// Starts now. `done` is the word for completed work, and `all` the total, if known.
    pub fn new(done: &'static str, all: Option<All>) -> Progress {
        let clock = Clock::start();
        Progress {
            clock,
            done,
            all,
            terminal: io::stderr().is_terminal(),
            next: clock.now() + PATIENCE,
            shown: false,
        }
    }

    /// Reports the number of completed files and bytes. May be called often: usually it only reads the clock.
    pub fn tell(&mut self, files: u64, octets: u64) {
        let now = self.clock.now();
        if now < self.next {
            return;
        }
        self.next = now
            + if self.terminal {
                ON_TERMINAL
            } else {
                ELSEWHERE
            };
        let text = self.text(files, octets, now);
        // A closed stderr is ignored.
        let _ = match self.terminal {
            true => write!(io::stderr(), "\r\x1b[K{text}"),
            false => writeln!(io::stderr(), "{text}"),
        };
        self.shown = true;
    }

    fn text(&self, files: u64, octets: u64, now: Instant) -> String {
        let mut text = format!("{files} files, {} {}", Bytes(octets), self.done);
        let (part, of) = match self.all {
            Some(All::Files(all)) => (files, all),
            Some(All::Octets(all)) => (octets, all),
            None => (0, 0),
        };
        if of > 0 {
            let percent = 100.0 * (part as f64 / of as f64).min(1.0);
            let _ = write!(text, " ({percent:.0} %)");
        }
        let seconds = now.as_secs_f64();
        let rate = Bytes((octets as f64 / seconds.max(1e-9)) as u64);
        let _ = write!(text, ", {seconds:.0} s, {rate}/s");
        text
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if self.shown && self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_fast() {
        let progress = Progress::new("packed", Some(All::Files(200)));
        let now = Instant::from_nanos(4_000_000_000);
        assert_eq!(
            progress.text(50, 2_000_000_000, now),
            "50 files, 2.00 GB packed (25 %), 4 s, 500.00 MB/s"
        );
        let progress = Progress::new("read", None);
        assert_eq!(
            progress.text(1, 400, now),
            "1 files, 400 B read, 4 s, 100 B/s"
        );
    }
}
