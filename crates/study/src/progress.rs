//! Progress on stderr: a bar on a terminal, a line from time to time elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

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
    last_line: Option<Mutex<Instant>>,
}

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
            last_line: (!terminal && !quiet).then(|| Mutex::new(clock.now())),
        }
    }

    /// Completes a step.
    pub fn step(&self, message: &str) {
        self.bar.inc(1);
        self.bar.set_message(message.to_owned());
        if let Some(last) = &self.last_line {
            let now = self.clock.now();
            let mut last = last
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if now.since(*last) >= LINE_EVERY || self.bar.position() == self.total {
                *last = now;
                say(format_args!(
                    "{} of {} done after {:.0} s, {message}",
                    self.bar.position(),
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
