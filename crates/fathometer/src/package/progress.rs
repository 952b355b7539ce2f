//! How far packing or unpacking is, on stderr: nothing for the first two seconds, then a line that is
//! written over on a terminal, and one now and then elsewhere.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use fathometer_model::{Bytes, Instant};
use fathometer_sys::Clock;

/// What takes less says nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a terminal's line is written.
const ON_TERMINAL: Duration = Duration::from_millis(250);
/// How often a line is written elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Tells of the way.
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

/// How much there is to do.
#[derive(Debug, Clone, Copy)]
pub enum All {
    /// So many files.
    Files(u64),
    /// So many octets.
    Octets(u64),
}

impl Progress {
    /// Starts now. `done` is the word for what is behind, `all` what there is to do where that is known.
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

    /// So many files and octets are behind. To be called often; it mostly looks at the clock.
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
        // Whoever closed stderr does not want to know.
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

    /// Takes the line away again.
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
