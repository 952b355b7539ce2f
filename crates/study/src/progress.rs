//! Progress on stderr: a bar on a terminal, a line from time to time elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use fathometer_analysis::civil;
use fathometer_model::Instant;
use fathometer_sys::clock::Clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use fathometer_sys::stderr::say;

/// Interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of a run, shared by all its workers.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    total: u64,
    clock: Clock,
    started: Instant,
    last_line: Option<Mutex<Instant>>,
}

/// The least part of all steps, and the least number, from which the time that is left is estimated.
const ESTIMATED_FROM: (f64, u64) = (0.02, 5);

impl Progress {
    /// Progress over `total` steps; `what` is the plural name of a step, and `quiet` disables the display.
    pub fn new(total: u64, what: &str, clock: Clock, quiet: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let target = if quiet || !terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template(&format!(
            "{{bar:32}} {{pos}}/{{len}} {what}, {{elapsed}} gone, {{msg}}"
        ))
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        if terminal && !quiet {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Progress {
            bar,
            total,
            clock,
            started: clock.now(),
            last_line: (!terminal && !quiet).then(|| Mutex::new(clock.now())),
        }
    }

    /// Completes a step.
    pub fn step(&self, message: &str) {
        self.bar.inc(1);
        let now = self.clock.now();
        let done = self.bar.position();
        let left = left(now.since(self.started), done, self.total);
        let message = match left {
            Some(left) => format!(
                "{message}, about {} left",
                civil::duration(left.as_secs_f64())
            ),
            None => message.to_owned(),
        };
        self.bar.set_message(message.clone());
        if let Some(last) = &self.last_line {
            let mut last = last
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if now.since(*last) >= LINE_EVERY || done == self.total {
                *last = now;
                say(format_args!(
                    "{done} of {} done after {:.0} s, {message}",
                    self.total,
                    now.as_secs_f64()
                ));
            }
        }
    }

    /// Prints a permanent line above the bar.
    pub fn note(&self, text: &str) {
        if self.last_line.is_some() {
            say(format_args!("{text}"));
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How long the other steps take if they take as long as those that are done; `None` if too few are done, or all.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let (share, count) = ESTIMATED_FROM;
    let is_known = done >= count && done as f64 >= share * total as f64 && done < total;
    is_known.then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(20), 10, 100), Some(seconds(180)));
        assert_eq!(left(seconds(20), 4, 100), None, "too few steps");
        assert_eq!(left(seconds(20), 10, 1000), None, "too small a part");
        assert_eq!(left(seconds(20), 100, 100), None, "nothing is left");
    }
}
