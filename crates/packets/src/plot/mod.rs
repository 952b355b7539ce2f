//! Time-sequence graphs as static SVG, for screen and paper.
//!
//! Two panels share the time axis: the upper panel shows the server's segments, the lower panel the client's. Each
//! segment is a bar from its first to its last sequence number. The line below the bars shows the acknowledged numbers;
//! the line above shows the end of the receiver's window. Several connections are stacked: each starts at the end of
//! the connection opened before it. A page that is fetched over many connections is therefore also a single staircase.
//!
//! The graph is self-contained: no script, no style sheet, no identifiers that could clash on a page with
//! several graphs. Important elements differ in shape as well as in colour.
//!
//! [`data`] provides the same graph as data, for an interactive viewer.

mod axis;
mod canvas;
pub mod data;

use std::collections::BTreeMap;

use fathometer_model::Instant;
use fathometer_model::digits::significant;

use self::axis::Axis;
use self::canvas::{Canvas, Frame, Text};
use super::connection_summary::Direction;
use super::time_sequence::{DirectionSequence, MarkKind, SegmentKind, TimeSequence};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 744.0;
const UPPER: (f64, f64) = (64.0, 270.0);
const LOWER: (f64, f64) = (300.0, 376.0);

const INK: &str = "#222222";
const FAINT_INK: &str = "#666666";
const GRID: &str = "#e6e6e6";
const SEGMENT: [&str; 2] = ["#174f8a", "#4f93cc"];
const REPEATED: &str = "#c62828";
const OUT_OF_ORDER: &str = "#e07b00";
const PROBE: &str = "#7b1fa2";
const ACKNOWLEDGED: &str = "#5aa45f";
const WINDOW: &str = "#b9a26a";

/// Maximum number of connections for which marks have their full size.
const FEW: usize = 6;
/// Maximum number of segments of one kind for which each segment has a ring.
const RINGS: usize = 300;
/// Maximum number of drops of a direction that the drawing marks. The description counts all drops.
const DROPS: usize = 1000;

/// Draws the connections of a page. Returns `None` if there is nothing to draw.
pub fn time_sequences(sequences: &[TimeSequence], title: &str) -> Option<String> {
    let drawing = Drawing::of(sequences)?;
    let mut canvas = Canvas::new(WIDTH, HEIGHT, title, &drawing.description());
    canvas.text(LEFT - 50.0, 22.0, Text::Title, title);
    canvas.text(LEFT - 50.0, 40.0, Text::Subtitle, &drawing.description());
    drawing.draw_panel(&mut canvas, Direction::Down, UPPER);
    drawing.draw_panel(&mut canvas, Direction::Up, LOWER);
    drawing.draw_time_axis(&mut canvas);
    drawing.draw_legend(&mut canvas);
    Some(canvas.finish())
}

/// The connections to draw, in the order in which they were opened.
struct Drawing<'a> {
    sequences: Vec<&'a TimeSequence>,
    start: Instant,
    time: Axis,
}

impl<'a> Drawing<'a> {
    fn of(sequences: &'a [TimeSequence]) -> Option<Drawing<'a>> {
        let mut sequences: Vec<&TimeSequence> =
            sequences.iter().filter(|s| begin(s).is_some()).collect();
        sequences.sort_by_key(|sequence| begin(sequence));
        let start = sequences.first().copied().and_then(begin)?;
        let end = sequences.iter().copied().filter_map(end).max()?;
        Some(Drawing {
            sequences,
            start,
            time: Axis::new(end.since(start).as_secs_f64(), 8),
        })
    }

    fn description(&self) -> String {
        let seconds = self.time.most;
        let (first, rest) = (self.sequences[0], self.sequences.len() - 1);
        let bytes = |direction| -> u64 {
            self.sequences
                .iter()
                .map(|s| payload(s.direction(direction)))
                .sum()
        };
        let connections = match rest {
            0 => format!("{} to {}", first.client, first.server),
            rest => format!("{} connections to {}", rest + 1, first.server),
        };
        let dropped = match dropped(self.sequences.iter().copied()) {
            counts if counts.is_empty() => String::new(),
            counts => format!("; dropped by the path: {}", counts.join(", ")),
        };
        let merged = match self.sequences.iter().filter_map(|s| s.merged()).max() {
            None => String::new(),
            Some(bin) => format!(
                "; aggregated: points within {} µs are merged",
                significant(bin.as_secs_f64() * 1e6)
            ),
        };
        format!(
            "{connections}: {} B down, {} B up, {seconds:.3} s{dropped}{merged}",
            bytes(Direction::Down),
            bytes(Direction::Up)
        )
    }

    fn draw_panel(&self, canvas: &mut Canvas, direction: Direction, (top, bottom): (f64, f64)) {
        let total: u64 = self
            .sequences
            .iter()
            .map(|s| s.direction(direction).extent())
            .sum();
        let ticks = if bottom - top > 100.0 { 6 } else { 3 };
        let bytes = Axis::new(total.max(1) as f64, ticks);
        let frame = Frame {
            left: LEFT,
            right: RIGHT,
            top,
            bottom,
            time: self.time.span(),
            // The margin keeps the last bar away from the frame.
            bytes: total.max(1) as f64 * 1.04,
        };
        self.draw_grid(canvas, &frame, &bytes);
        let name = match direction {
            Direction::Down => "from server",
            Direction::Up => "from client",
        };
        let unit = bytes.unit("B", "kB", "MB");
        canvas.upright(16.0, (top + bottom) / 2.0, &format!("{name}, {unit}"));
        let mut below = 0;
        let alone = self.sequences.len() == 1;
        for (n, sequence) in self.sequences.iter().enumerate() {
            let one = sequence.direction(direction);
            let stack = Stack {
                frame: &frame,
                start: self.start,
                below,
            };
            if alone {
                stack.draw_steps(canvas, &one.window_edges, WINDOW, 1.0);
            }
            stack.draw_steps(canvas, &one.acknowledgements, ACKNOWLEDGED, 1.0);
            stack.draw_segments(canvas, one, SEGMENT[n % 2]);
            stack.draw_marks(canvas, one, self.sequences.len());
            stack.draw_drops(canvas, one, &sequence.causes);
            below += one.extent();
        }
    }

    fn draw_grid(&self, canvas: &mut Canvas, frame: &Frame, bytes: &Axis) {
        for (value, label) in bytes.ticks() {
            let y = frame.y(value);
            if y < frame.top {
                continue;
            }
            canvas.line((frame.left, y), (frame.right, y), GRID, 1.0);
            canvas.text(frame.left - 7.0, y + 3.5, Text::TickBefore, &label);
        }
        for (value, _) in self.time.ticks() {
            let x = frame.x(value);
            canvas.line((x, frame.top), (x, frame.bottom), GRID, 1.0);
        }
        canvas.frame(frame);
    }

    fn draw_time_axis(&self, canvas: &mut Canvas) {
        let frame = Frame {
            left: LEFT,
            right: RIGHT,
            top: LOWER.0,
            bottom: LOWER.1,
            time: self.time.span(),
            bytes: 1.0,
        };
        for (value, label) in self.time.ticks() {
            let x = frame.x(value);
            canvas.line((x, LOWER.1), (x, LOWER.1 + 4.0), FAINT_INK, 1.0);
            canvas.text(x, LOWER.1 + 17.0, Text::TickBelow, &label);
        }
        let unit = self.time.unit("s", "1000 s", "million s");
        let middle = (LEFT + RIGHT) / 2.0;
        canvas.text(middle, LOWER.1 + 35.0, Text::Axis, &format!("time, {unit}"));
    }

    /// Draws the legend of the elements that occur, from right to left.
    fn draw_legend(&self, canvas: &mut Canvas) {
        let both = || {
            let sequences = self.sequences.iter();
            sequences.flat_map(|sequence| [&sequence.up, &sequence.down])
        };
        let has = |kind| both().any(|one| one.segments.iter().any(|s| s.kind == kind));
        let mark = |name, kind, shown| {
            let occurs = both().any(|one| one.marks.iter().any(|mark| mark.kind == kind));
            (name, Entry::Mark(kind), shown && occurs)
        };
        let alone = self.sequences.len() == 1;
        let has_drops = both().any(|one| !one.drops.is_empty());
        let entries: [(&str, Entry, bool); 12] = [
            ("segment", Entry::Bar(SEGMENT[0]), true),
            (
                "repeated",
                Entry::Ringed(REPEATED),
                has(SegmentKind::Repeated),
            ),
            (
                "out of order",
                Entry::Ringed(OUT_OF_ORDER),
                has(SegmentKind::OutOfOrder),
            ),
            ("dropped by the path", Entry::Drop, has_drops),
            ("probe", Entry::Bar(PROBE), has(SegmentKind::Probe)),
            ("acknowledged", Entry::Line(ACKNOWLEDGED), true),
            mark("duplicate ACK", MarkKind::DuplicateAcknowledgement, alone),
            ("window", Entry::Line(WINDOW), alone),
            mark("closed window", MarkKind::ZeroWindow, true),
            mark("SYN", MarkKind::Syn, true),
            mark("FIN", MarkKind::Fin, true),
            mark("RST", MarkKind::Reset, true),
        ];
        let mut x = LEFT;
        for (name, entry, _) in entries.iter().filter(|entry| entry.2) {
            let y = UPPER.0 - 9.0;
            entry.draw(canvas, x + 6.0, y);
            canvas.text(x + 16.0, y + 3.5, Text::Legend, name);
            x += 28.0 + 5.2 * name.len() as f64;
        }
    }
}

/// An entry of the legend.
enum Entry {
    Bar(&'static str),
    Line(&'static str),
    Ringed(&'static str),
    Mark(MarkKind),
    Drop,
}

impl Entry {
    fn draw(&self, canvas: &mut Canvas, x: f64, y: f64) {
        match self {
            Entry::Bar(colour) => canvas.line((x, y - 5.0), (x, y + 5.0), colour, 2.4),
            Entry::Line(colour) => canvas.line((x - 7.0, y), (x + 7.0, y), colour, 1.6),
            Entry::Ringed(colour) => {
                canvas.line((x, y - 3.0), (x, y + 3.0), colour, 2.4);
                canvas.ring(x, y, colour);
            }
            Entry::Mark(kind) => draw_mark(canvas, *kind, x, y, 4.0),
            Entry::Drop => draw_drop(canvas, x, y, "dropped by the path"),
        }
    }
}

/// The position of one connection in a panel.
struct Stack<'a> {
    frame: &'a Frame,
    start: Instant,
    /// The total height of the connections below, in sequence numbers.
    below: u64,
}

impl Stack<'_> {
    fn x(&self, at: Instant) -> f64 {
        self.frame.x(at.since(self.start).as_secs_f64())
    }

    fn y(&self, sequence: u64) -> f64 {
        self.frame.y(self.below as f64 + sequence as f64)
    }

    fn draw_segments(&self, canvas: &mut Canvas, one: &DirectionSequence, colour: &str) {
        let kinds = [
            (SegmentKind::New, colour),
            (SegmentKind::OutOfOrder, OUT_OF_ORDER),
            (SegmentKind::Probe, PROBE),
            (SegmentKind::Repeated, REPEATED),
        ];
        for (kind, colour) in kinds {
            let segments = one.segments.iter().filter(|segment| segment.kind == kind);
            let bars = segments.clone().map(|segment| {
                (
                    self.x(segment.at),
                    self.y(segment.end),
                    self.y(segment.start),
                )
            });
            canvas.bars(bars, colour);
            let ringed = matches!(kind, SegmentKind::Repeated | SegmentKind::OutOfOrder);
            if !ringed || segments.clone().count() > RINGS {
                continue;
            }
            for segment in segments {
                let middle = (self.y(segment.start) + self.y(segment.end)) / 2.0;
                canvas.ring(self.x(segment.at), middle, colour);
            }
        }
    }

    /// Draws a step line; parts above the panel are left out.
    fn draw_steps(&self, canvas: &mut Canvas, points: &[(Instant, u64)], colour: &str, width: f64) {
        let points = points
            .iter()
            .map(|(at, sequence)| (self.x(*at), self.y(*sequence)));
        canvas.steps(points, self.frame, colour, width);
    }

    /// Draws the drops of the path, up to [`DROPS`].
    fn draw_drops(&self, canvas: &mut Canvas, one: &DirectionSequence, causes: &[String]) {
        for dropped in one.drops.iter().take(DROPS) {
            let cause = cause_name(causes, dropped.cause);
            let middle = (self.y(dropped.start) + self.y(dropped.end)) / 2.0;
            let title = format!("dropped: {cause}");
            draw_drop(canvas, self.x(dropped.at), middle, &title);
        }
    }

    fn draw_marks(&self, canvas: &mut Canvas, one: &DirectionSequence, connections: usize) {
        let size = if connections <= FEW { 4.0 } else { 2.2 };
        for mark in &one.marks {
            let (x, y) = (self.x(mark.at), self.y(mark.sequence).max(self.frame.top));
            match mark.kind {
                MarkKind::DuplicateAcknowledgement if connections > 1 => {}
                kind => draw_mark(canvas, kind, x, y, size),
            }
        }
    }
}

fn draw_drop(canvas: &mut Canvas, x: f64, y: f64, title: &str) {
    let corners = [(-3.6, -3.2), (3.6, -3.2), (0.0, 3.8)];
    canvas.titled_shape(x, y, &corners, REPEATED, title);
}

fn draw_mark(canvas: &mut Canvas, kind: MarkKind, x: f64, y: f64, size: f64) {
    match kind {
        MarkKind::Syn => {
            let corners = [(-size, size), (size, size), (0.0, -size)];
            canvas.shape(x, y, &corners, INK);
        }
        MarkKind::Fin => {
            let half = size * 0.85;
            let corners = [(-half, -half), (half, -half), (half, half), (-half, half)];
            canvas.shape(x, y, &corners, INK);
        }
        MarkKind::Reset => {
            canvas.line((x - size, y - size), (x + size, y + size), REPEATED, 2.0);
            canvas.line((x - size, y + size), (x + size, y - size), REPEATED, 2.0);
        }
        MarkKind::ZeroWindow => canvas.line((x, y - size), (x, y + size), WINDOW, 3.0),
        MarkKind::DuplicateAcknowledgement => {
            canvas.line((x, y - 0.7 * size), (x, y + 0.7 * size), ACKNOWLEDGED, 1.2);
        }
    }
}

/// Returns the name of a drop's cause.
fn cause_name(causes: &[String], cause: u16) -> &str {
    causes
        .get(usize::from(cause))
        .map_or("unknown", |name| name)
}

/// Lists the numbers of dropped segments by direction and cause, such as `3 down (queue-full)`.
fn dropped<'a>(sequences: impl Iterator<Item = &'a TimeSequence>) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for sequence in sequences {
        for (name, one) in [("down", &sequence.down), ("up", &sequence.up)] {
            for (cause, count) in &one.drop_counts {
                let cause = cause_name(&sequence.causes, *cause);
                *counts.entry((name, cause)).or_default() += count;
            }
        }
    }
    counts
        .into_iter()
        .map(|((name, cause), count)| format!("{count} {name} ({cause})"))
        .collect()
}

/// Returns the time of a connection's first event.
fn begin(sequence: &TimeSequence) -> Option<Instant> {
    events(sequence).min()
}

/// Returns the time of a connection's last event.
fn end(sequence: &TimeSequence) -> Option<Instant> {
    events(sequence).max()
}

fn events(sequence: &TimeSequence) -> impl Iterator<Item = Instant> + '_ {
    [&sequence.up, &sequence.down].into_iter().flat_map(|one| {
        let segments = one.segments.iter().map(|segment| segment.at);
        let points = one.acknowledgements.iter().map(|point| point.0);
        segments
            .chain(points)
            .chain(one.marks.iter().map(|mark| mark.at))
            .chain(one.drops.iter().map(|dropped| dropped.at))
    })
}

/// Returns the bytes of the stream, without SYN and FIN.
fn payload(one: &DirectionSequence) -> u64 {
    let mark = |kind| u64::from(one.marks.iter().any(|mark| mark.kind == kind));
    one.end()
        .saturating_sub(mark(MarkKind::Syn) + mark(MarkKind::Fin))
}

#[cfg(test)]
mod tests;
