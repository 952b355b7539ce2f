//! The live view of `fathometer load`, on stderr.
//!
//! On a terminal it is a full screen of charts that redraws itself once an interval and goes
//! without a trace when the test is over: what is to stay is the closing screen, on stdout. It is a
//! screen of its own, and not a few lines below the prompt, because those can be placed only by
//! asking the terminal through stdout, which may be a file, and because only a screen survives a
//! change of the window's size exactly. Elsewhere it is a plain line now and then.
//!
//! The view reads no clock and no key: it shows what it is given, when it is given it. Ctrl-C stays
//! the signal that it is. It holds a bounded amount of memory however long the test.

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

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Charts on a terminal.
    Terminal,
    /// A line now and then.
    Lines,
    /// Not at all.
    Quiet,
}

impl Kind {
    /// What suits stderr: charts where it is a terminal that this program may use, else lines;
    /// nothing when `quiet`.
    pub fn detect(quiet: bool) -> Kind {
        if quiet {
            Kind::Quiet
        } else if terminal::is_ours() {
            Kind::Terminal
        } else {
            Kind::Lines
        }
    }
}

/// What is known of a test before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// What is asked of whom, as in `http://127.0.0.1:8080/ · h1.1 · 64 users`.
    pub title: String,
    /// Length of warm-up and steady state together, when it is a time that was asked for.
    pub total: Option<Duration>,
    /// Exchanges asked for, when it was a count.
    pub exchanges: Option<u64>,
    /// Whether requests come when they come: then the offered rate is shown beside the achieved
    /// one.
    pub open_loop: bool,
}

/// A part of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured window.
    WarmUp,
    /// The measured window.
    Steady,
    /// What was still under way at its end.
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

/// What a test tells of itself once an interval.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Time since the start of the warm-up.
    pub elapsed: Duration,
    /// Where the test is.
    pub phase: Phase,
    /// The interval that has just ended.
    pub last: &'a Interval,
    /// Everything counted since the start.
    pub so_far: &'a Counts,
    /// Every reason known so far not to believe the figures. One that was given stays, and new ones
    /// come after it.
    pub warnings: &'a [String],
}

/// Shows the course of a test. Dropping it gives the terminal back.
#[derive(Debug)]
pub struct LoadView {
    state: State,
    output: Output,
}

/// All that is shown, whatever shows it.
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
    /// A view of a test that is about to start. A terminal that refuses is written lines.
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

    /// Shows what has come of the test.
    pub fn update(&mut self, reading: &Reading<'_>) {
        self.state.update(reading);
        match &mut self.output {
            Output::Terminal(screen) => screen.draw(|frame| draw::draw(frame, &self.state)),
            Output::Lines(lines) => {
                let text = lines.update(&self.state);
                // Nobody is left to be told that stderr is gone.
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
            Output::Quiet => {}
        }
    }

    /// Ends the view: the terminal is as it was before.
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

    /// How far the test is, 0 to 1; `None` when nobody can say.
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
