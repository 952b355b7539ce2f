//! One screen of a test, drawn into the available space.
//!
//! Information that is shown by colour is also shown by words or by order.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph, Sparkline};

use super::history::Point;
use super::{Phase, State, text};

const ACHIEVED: Color = Color::Green;
const OFFERED: Color = Color::DarkGray;
const PERCENTILES: [(&str, Color); 4] = [
    ("p50", Color::Green),
    ("p90", Color::Cyan),
    ("p99", Color::Yellow),
    ("max", Color::Red),
];
const WRONG: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);

/// The numbers of rows and columns from which on charts are drawn instead of sparklines.
const ROOM_FOR_CHARTS: (u16, u16) = (18, 60);
/// The columns left of the charts, so that the time axes of both charts are aligned.
const AXIS_COLUMNS: usize = 9;

/// Draws the whole state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let charts = area.height >= ROOM_FOR_CHARTS.0 && area.width >= ROOM_FOR_CHARTS.1;
    let notes = notes(state, usize::from(area.width));
    let wanted = notes.len() as u16;
    // The number of rows for warnings is limited, so that the charts remain visible.
    let most = if charts { area.height / 3 } else { 6 };
    let [head, course, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(wanted.min(most)),
    ])
    .areas(area);
    draw_head(frame, head, state);
    if charts {
        let [rate, latency] =
            Layout::vertical([Constraint::Fill(2), Constraint::Fill(3)]).areas(course);
        draw_rate(frame, rate, state);
        draw_latency(frame, latency, state);
    } else {
        draw_small(frame, course, state);
    }
    frame.render_widget(Paragraph::new(notes), foot);
}

/// The title, and the progress of the test.
fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [title, bar] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(
        Line::from(Span::styled(state.outline.title.as_str(), bold)),
        title,
    );

    let phase = format!("{:8}", state.phase.name());
    let times = match (state.outline.total, state.outline.exchanges) {
        _ if state.phase == Phase::Drain => text::clock(state.elapsed),
        (Some(total), _) => format!(
            "{}, {} left",
            text::clock(state.elapsed),
            // Rounded, so that the remaining and the elapsed time add up at every whole second.
            text::clock(total.saturating_sub(state.elapsed) + Duration::from_millis(500)),
        ),
        (None, Some(exchanges)) => format!(
            "{}, {} of {}",
            text::clock(state.elapsed),
            text::count(state.so_far.completed + state.so_far.failed()),
            text::count(exchanges),
        ),
        (None, None) => text::clock(state.elapsed),
    };
    let room = usize::from(bar.width).saturating_sub(phase.len() + 1 + times.chars().count() + 1);
    let (done, left) = match state.progress() {
        Some(done) => {
            let done = (done * room as f64) as usize;
            (done, room - done)
        }
        None => (0, 0),
    };
    let line = Line::from(vec![
        Span::styled(phase, bold),
        Span::raw(" "),
        Span::styled("━".repeat(done), Style::new().fg(ACHIEVED)),
        Span::styled("─".repeat(left), FAINT),
        Span::raw(if done + left > 0 { " " } else { "" }),
        Span::raw(times),
    ]);
    frame.render_widget(line, bar);
}

fn draw_rate(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [head, chart] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(rate_line(state), head);
    let points = state.history.points();
    let achieved: Vec<(f64, f64)> = points.iter().map(|p| (p.middle(), p.achieved())).collect();
    let offered: Vec<(f64, f64)> = points.iter().map(|p| (p.middle(), p.offered())).collect();
    let top = achieved
        .iter()
        .chain(if state.outline.open_loop {
            offered.as_slice()
        } else {
            &[]
        })
        .map(|(_, rate)| *rate)
        .fold(1.0, f64::max);
    let top = round_up(top);
    let mut datasets = Vec::new();
    if state.outline.open_loop {
        datasets.push(dataset(&offered, OFFERED));
    }
    datasets.push(dataset(&achieved, ACHIEVED));
    let labels = [0.0, top / 2.0, top].map(text::rate);
    draw_chart(frame, chart, state, datasets, ([0.0, top], labels), false);
}

/// Draws the corrected latency on a logarithmic axis, because its percentiles differ by orders of magnitude.
fn draw_latency(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [head, chart] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(latency_line(state, area.width), head);
    let lines: Vec<Vec<(f64, f64)>> = (0..PERCENTILES.len())
        .map(|percentile| {
            let points = state.history.points().iter();
            points
                .filter_map(|point| Some((point.middle(), logarithm(point.latency[percentile]?))))
                .collect()
        })
        .collect();
    let values = || lines.iter().flatten().map(|(_, value)| *value);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low > high {
        // No exchange has ended yet: any range is suitable, such as one around a millisecond.
        (-4.0, -2.0)
    } else if high - low < 0.3 {
        // A flat line is drawn in the middle.
        (low - 0.15, high + 0.15)
    } else {
        (low, high)
    };
    let labels = [low, f64::midpoint(low, high), high]
        .map(|value| text::time(Duration::from_secs_f64(10f64.powf(value))));
    // The median is drawn last, so that it is visible where lines meet.
    let datasets = lines
        .iter()
        .zip(PERCENTILES)
        .rev()
        .map(|(line, (_, colour))| dataset(line, colour))
        .collect();
    // Both charts have the same time axis, which is below the lower chart.
    draw_chart(frame, chart, state, datasets, ([low, high], labels), true);
}

fn dataset(points: &[(f64, f64)], colour: Color) -> Dataset<'_> {
    Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(colour))
        .data(points)
}

fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    datasets: Vec<Dataset<'_>>,
    (bounds, labels): ([f64; 2], [String; 3]),
    time_axis: bool,
) {
    // In a chart of two rows, three labels would overlap.
    let labels: Vec<Line<'_>> = labels
        .into_iter()
        .enumerate()
        .filter(|(n, _)| area.height >= 4 || *n != 1)
        .map(|(_, label)| Line::from(format!("{label:>AXIS_COLUMNS$}")))
        .collect();
    // A single point would be a line of length zero at the edge.
    let end = state.history.end().as_secs_f64().max(1.0);
    let mut time = Axis::default().style(FAINT).bounds([0.0, end]);
    if time_axis {
        time = time.labels(["0 s".to_owned(), text::clock(state.history.end())]);
    }
    let chart = Chart::new(datasets)
        .x_axis(time)
        .y_axis(Axis::default().style(FAINT).bounds(bounds).labels(labels));
    frame.render_widget(chart, area);
}

/// Draws two sparklines if there is no room for axes.
fn draw_small(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [rate, rates, latency, latencies] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(rate_line(state), rate);
    draw_sparkline(frame, rates, state, ACHIEVED, Point::achieved);
    frame.render_widget(latency_line(state, area.width), latency);
    let (_, colour) = PERCENTILES[2];
    draw_sparkline(frame, latencies, state, colour, |point| {
        point.latency[2].map_or(0.0, |p99| p99.as_secs_f64())
    });
}

/// Draws the latest points, one for each column.
fn draw_sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    colour: Color,
    value: impl Fn(&Point) -> f64,
) {
    let points = state.history.points();
    let shown = &points[points.len().saturating_sub(usize::from(area.width))..];
    let top = shown.iter().map(&value).fold(0.0, f64::max);
    // Bars have integer lengths: a thousandth of the highest is finer than any character.
    let bars = shown.iter().map(|point| match top > 0.0 {
        true => (value(point) / top * 1000.0) as u64,
        false => 0,
    });
    let sparkline = Sparkline::default()
        .data(bars)
        .max(1000)
        .style(Style::new().fg(colour));
    frame.render_widget(sparkline, area);
}

fn rate_line(state: &State) -> Line<'static> {
    let point = state.last.as_ref().map(Point::from);
    let rate = |of: fn(&Point) -> f64| {
        point
            .as_ref()
            .map_or("-".to_owned(), |point| text::rate(of(point)))
    };
    let mut spans = vec![Span::styled(
        format!("achieved {}", rate(Point::achieved)),
        Style::new().fg(ACHIEVED),
    )];
    if state.outline.open_loop {
        spans.push(Span::styled(
            format!("  offered {}", rate(Point::offered)),
            FAINT,
        ));
    }
    Line::from(spans)
}

/// Returns the percentiles of the last interval. If there is not enough space, the label and the 90th percentile are
/// omitted.
fn latency_line(state: &State, width: u16) -> Line<'static> {
    let latency = state.last.as_ref().map_or([None; 4], |last| last.latency);
    let line = |head: &'static str, left_out: &str| {
        let mut line = Line::from(head);
        for ((name, colour), time) in PERCENTILES.into_iter().zip(latency) {
            if name != left_out {
                let text = format!("{name} {}  ", text::maybe(time));
                line.push_span(Span::styled(text, Style::new().fg(colour)));
            }
        }
        line
    };
    let whole = line("corrected latency  ", "");
    if whole.width() <= usize::from(width) + 2 {
        whole
    } else {
        line("", "p90")
    }
}

/// Returns all warnings about the figures, errors by class, and counts, in lines of at most `width` columns.
fn notes(state: &State, width: usize) -> Vec<Line<'static>> {
    let last = state.last.as_ref();
    let counts = format!(
        "completed {}   connections {}   send lag p99 {}",
        text::count(state.so_far.completed),
        text::count(last.map_or(0, |last| last.connections)),
        text::maybe(last.and_then(|last| last.send_lag_p99)),
    );
    let errors = text::errors(&state.so_far);
    // The most severe first, because the end is cut off if there is not enough space.
    let mut lines = Vec::new();
    for warning in &state.warnings {
        lines.extend(wrapped("INVALID ", warning, width));
    }
    if errors.is_empty() {
        lines.push(Line::from("errors 0"));
    } else {
        let total = format!("errors {}: ", text::count(state.so_far.errors()));
        lines.extend(wrapped(&total, &errors.join(", "), width));
    }
    lines.extend(wrapped("", &counts, width));
    lines
}

/// Wraps `text` between words, after the highlighted `head`.
fn wrapped(head: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut line = Line::from(Span::styled(head.to_owned(), WRONG));
    for word in text.split_inclusive(' ') {
        let word = Span::raw(word.to_owned());
        let long = line.width() + Span::raw(word.content.trim_end()).width() > width;
        if long && line.width() > 0 {
            lines.push(std::mem::take(&mut line));
        }
        line.push_span(word);
    }
    lines.push(line);
    lines
}

/// Returns the logarithm of a time in seconds. Times shorter than a nanosecond count as a nanosecond.
fn logarithm(time: Duration) -> f64 {
    time.max(Duration::from_nanos(1)).as_secs_f64().log10()
}

/// Rounds up to a quarter of a power of ten, so that the axis is stable while the rate varies.
fn round_up(value: f64) -> f64 {
    let step = 10f64.powf(value.log10().floor()) / 4.0;
    (value / step).ceil() * step
}
