//! Shows progress on stderr: a bar if stderr is a terminal, otherwise a line every ten seconds.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use fathometer_analysis::civil;
use fathometer_model::Instant;
use fathometer_sys::clock::Clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use fathometer_sys::stderr::say;

/// The interval between lines if stderr is not a terminal.
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

/// The share and the number of completed steps from which the remaining time is estimated.
const ESTIMATED_FROM: (f64, u64) = (0.02, 5);

impl Progress {
    /// Returns the progress of `total` steps. `what` is the plural name of a step, and `quiet` disables the display.
    pub fn new(total: u64, what: &str, clock: Clock, quiet: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let target = if quiet || !terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template(&format!(
            "{{bar:32}} {{pos}}/{{len}} {what}, {{elapsed}} elapsed, {{msg}}"
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

    /// Prints a line above the bar. The line remains when the bar is updated.
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

/// Returns the remaining time. It assumes that each remaining step takes as long as the mean of the completed steps.
/// Returns `None` if too few steps or all steps are complete.
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
        assert_eq!(
            left(seconds(20), 10, 1000),
            None,
            "the share of completed steps is too small"
        );
        assert_eq!(left(seconds(20), 100, 100), None, "nothing is left");
    }
}
