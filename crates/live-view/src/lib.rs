//! The live view of `fathometer load`: the progress of a load test on stderr.
//!
//! On a terminal it is a full screen of charts. The screen is redrawn once per interval and removed at the end
//! of the test; the closing screen is printed to stdout. There are two reasons for a full screen instead of a
//! few lines below the prompt. Such lines can be positioned only by querying the terminal through stdout, which
//! may be a file. And only a full screen is correct after the window is resized. Without a terminal, the view
//! prints a plain line from time to time.
//!
//! The view reads no clock and no keys: its caller passes the data and decides when to draw. Ctrl-C remains a
//! signal. The memory of the view is bounded, however long the test is.

mod draw;
mod history;
mod lines;
mod screen;
mod text;

use std::io::Write as _;
use std::time::Duration;

use fathometer_analysis::load::{Counts, Interval};
use fathometer_sys::terminal;

use self::history::History;
use self::lines::Lines;
use self::screen::Screen;

/// The kind of progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Charts on a terminal.
    Terminal,
    /// A line from time to time.
    Lines,
    /// No progress.
    Quiet,
}

impl Kind {
    /// Returns the best kind for stderr: charts on a terminal that this program may use, otherwise lines; nothing if
    /// `quiet` is set.
    pub fn detect(quiet: bool) -> Kind {
        if quiet {
            Kind::Quiet
        } else if terminal::is_in_foreground() {
            Kind::Terminal
        } else {
            Kind::Lines
        }
    }
}

/// The data about a test that are known before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The URL and the load, such as `http://127.0.0.1:8080/ · h1.1 · 64 users`.
    pub title: String,
    /// The length of warm-up and measured window together, if the test has a time limit.
    pub total: Option<Duration>,
    /// The number of exchanges, if the test is limited by a count.
    pub exchanges: Option<u64>,
    /// Whether the test is an open loop. The offered rate is then shown next to the achieved rate.
    pub open_loop: bool,
}

/// A phase of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured window.
    WarmUp,
    /// The measured window.
    Steady,
    /// After the measured window, waiting for exchanges in flight.
    Drain,
}

impl Phase {
    /// `warm-up`, `steady` or `drain`.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::WarmUp => "warm-up",
            Phase::Steady => "steady",
            Phase::Drain => "drain",
        }
    }
}

/// The data that a test reports once per interval.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The time since the start of the warm-up.
    pub elapsed: Duration,
    /// The current phase.
    pub phase: Phase,
    /// The interval that has just ended.
    pub last: &'a Interval,
    /// The counts since the start.
    pub so_far: &'a Counts,
    /// All warnings about the figures. New warnings are appended to the earlier warnings.
    pub warnings: &'a [String],
}

/// Shows the progress of a test. The terminal is restored on drop.
#[derive(Debug)]
pub struct LoadView {
    state: State,
    output: Output,
}

/// The data that are shown, for all kinds of output.
#[derive(Debug)]
struct State {
    outline: Outline,
    phase: Phase,
    elapsed: Duration,
    history: History,
    last: Option<Interval>,
    so_far: Counts,
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Output {
    Terminal(Box<Screen>),
    Lines(Lines),
    Quiet,
}

impl LoadView {
    /// Creates a view of a test that is about to start. If the terminal cannot be used, the view prints lines.
    pub fn new(kind: Kind, outline: Outline) -> LoadView {
        let mut view = LoadView {
            state: State::new(outline),
            output: match kind {
                Kind::Terminal => match Screen::enter() {
                    Ok(screen) => Output::Terminal(Box::new(screen)),
                    Err(_) => Output::Lines(Lines::new()),
                },
                Kind::Lines => Output::Lines(Lines::new()),
                Kind::Quiet => Output::Quiet,
            },
        };
        if let Output::Terminal(screen) = &mut view.output {
            screen.draw(|frame| draw::draw(frame, &view.state));
        }
        view
    }

    /// Shows the progress of the test.
    pub fn update(&mut self, reading: &Reading<'_>) {
        self.state.update(reading);
        match &mut self.output {
            Output::Terminal(screen) => screen.draw(|frame| draw::draw(frame, &self.state)),
            Output::Lines(lines) => {
                let text = lines.update(&self.state);
                // If stderr is closed, the error cannot be shown anywhere.
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
            Output::Quiet => {}
        }
    }

    /// Ends the view and restores the terminal.
    pub fn finish(self) {
        drop(self);
    }
}

impl State {
    fn new(outline: Outline) -> State {
        State {
            outline,
            phase: Phase::WarmUp,
            elapsed: Duration::ZERO,
            history: History::new(),
            last: None,
            so_far: Counts::default(),
            warnings: Vec::new(),
        }
    }

    fn update(&mut self, reading: &Reading<'_>) {
        self.elapsed = reading.elapsed;
        self.phase = reading.phase;
        self.history.push(reading.last);
        self.last = Some(reading.last.clone());
        self.so_far.clone_from(reading.so_far);
        self.warnings.clear();
        self.warnings.extend_from_slice(reading.warnings);
    }

    /// The progress of the test, from 0 to 1; `None` if it is unknown.
    fn progress(&self) -> Option<f64> {
        let done = match (self.outline.total, self.outline.exchanges) {
            (Some(total), _) if !total.is_zero() => self.elapsed.div_duration_f64(total),
            (_, Some(exchanges)) if exchanges > 0 => {
                let ended = self.so_far.completed + self.so_far.failed();
                ended as f64 / exchanges as f64
            }
            _ => return None,
        };
        Some(done.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests;
