use std::time::Duration;

use fathometer_analysis::load::{Counts, Interval};
use fathometer_model::{Bytes, Failure};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::lines::Lines;
use super::{Outline, Phase, Reading, State, draw};

/// A test of half a minute that stalls once.
struct Example {
    counts: Counts,
    intervals: Vec<Interval>,
}

impl Example {
    fn new(seconds: u64) -> Example {
        let micros = Duration::from_micros;
        let intervals = (0..seconds)
            .map(|n| {
                let stalls = n == 11;
                Interval {
                    start: Duration::from_secs(n),
                    length: Duration::from_secs(1),
                    planned: 10_400,
                    completed: if stalls {
                        2_900
                    } else {
                        9_800 + 97 * (n * 5 % 7)
                    },
                    errors: 0,
                    received: Bytes(1_000_000),
                    latency: [
                        Some(micros(1_150 + 10 * (n % 3))),
                        Some(micros(2_300)),
                        Some(micros(if stalls {
                            950_000
                        } else {
                            4_100 + 90 * (n % 5)
                        })),
                        Some(micros(if stalls { 1_400_000 } else { 21_000 })),
                    ],
                    connections: 64,
                    send_lag_p99: Some(micros(38)),
                }
            })
            .collect();
        Example {
            counts: Counts::default(),
            intervals,
        }
    }

    /// Passes the reading of every interval to `hear`; the last readings have warnings.
    fn tell(&mut self, warnings: &[String], mut hear: impl FnMut(&Reading<'_>)) {
        let count = self.intervals.len();
        for (n, interval) in self.intervals.iter().enumerate() {
            self.counts.completed += interval.completed;
            *self.counts.statuses.entry(200).or_default() += interval.completed;
            if n == 11 {
                self.counts.failures.insert(Failure::TimedOut, 37);
                self.counts.failures.insert(Failure::Reset, 4);
                self.counts.statuses.insert(503, 12);
            }
            hear(&Reading {
                elapsed: interval.start + interval.length,
                phase: match n {
                    0..5 => Phase::WarmUp,
                    5..30 => Phase::Steady,
                    _ => Phase::Drain,
                },
                last: interval,
                so_far: &self.counts,
                warnings: if n + 2 >= count { warnings } else { &[] },
            });
        }
    }
}

fn outline() -> Outline {
    Outline {
        title: "http://127.0.0.1:8080/ · h1.1 · 64 connections".to_owned(),
        total: Some(Duration::from_secs(35)),
        exchanges: None,
        open_loop: true,
    }
}

fn screen(outline: Outline, seconds: u64, warnings: &[&str], width: u16, height: u16) -> String {
    let mut state = State::new(outline);
    let warnings: Vec<String> = warnings.iter().map(|text| (*text).to_owned()).collect();
    Example::new(seconds).tell(&warnings, |reading| state.update(reading));
    rendered(&state, width, height)
}

fn rendered(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

const LAGGING: &str = "send lag p99 was 4.2 ms, limit 1 ms: the generator could not keep up";

#[test]
fn a_usual_terminal_shows_both_charts() {
    insta::assert_snapshot!(screen(outline(), 27, &[], 80, 24));
}

#[test]
fn a_large_terminal_shows_more_of_the_same() {
    insta::assert_snapshot!(screen(outline(), 31, &[LAGGING], 120, 40));
}

#[test]
fn a_small_terminal_shows_sparklines_and_still_every_warning() {
    insta::assert_snapshot!(screen(outline(), 27, &[LAGGING], 40, 12));
}

#[test]
fn the_first_screen_has_no_figures() {
    let closed = Outline {
        open_loop: false,
        ..outline()
    };
    insta::assert_snapshot!(rendered(&State::new(closed), 80, 24));
}

#[test]
fn progress_is_shown_toward_a_number_of_exchanges() {
    let counted = Outline {
        total: None,
        exchanges: Some(1_000_000),
        open_loop: false,
        ..outline()
    };
    let shown = screen(counted, 20, &[], 60, 12);
    let line = shown.lines().nth(1).unwrap();
    assert!(line.contains("20 s, 194 "), "{line}");
    assert!(line.contains("of 1 000 000"), "{line}");
    let [done, left] = ['━', '─'].map(|bar| line.matches(bar).count());
    assert!(done > 0 && left > 2 * done, "{line}");
}

/// Any window size must work, even while the window is being resized.
#[test]
fn no_size_is_too_small() {
    let mut state = State::new(outline());
    let warnings = [LAGGING.to_owned()];
    for seconds in [0, 1, 2, 31] {
        Example::new(seconds).tell(&warnings, |reading| state.update(reading));
        for width in [1, 2, 5, 20, 59, 60, 61, 200] {
            for height in [1, 2, 3, 4, 5, 9, 17, 18, 19, 60] {
                rendered(&state, width, height);
            }
        }
    }
}

#[test]
fn each_progress_line_covers_the_time_since_the_last_one() {
    let mut state = State::new(outline());
    let mut lines = Lines::new();
    let mut said = String::new();
    Example::new(31).tell(&[LAGGING.to_owned()], |reading| {
        state.update(reading);
        said += &lines.update(&state);
    });
    insta::assert_snapshot!(said);
}
