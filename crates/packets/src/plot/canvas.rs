//! Lines and text in SVG.

use std::fmt::Write;

const FONT: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// A panel: its position and the values at its edges. Time in seconds runs to the right, and sequence numbers
/// run upwards.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// The time at the right edge, in seconds.
    pub(super) time: f64,
    /// The sequence number at the top edge, in bytes.
    pub(super) bytes: f64,
}

impl Frame {
    pub(super) fn x(&self, seconds: f64) -> f64 {
        self.left + seconds / self.time * (self.right - self.left)
    }

    pub(super) fn y(&self, bytes: f64) -> f64 {
        self.bottom - bytes / self.bytes * (self.bottom - self.top)
    }
}

/// The role of a text, which determines its style.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text {
    Title,
    Subtitle,
    Legend,
    Axis,
    TickBelow,
    TickBefore,
}

/// An SVG under construction.
pub(super) struct Canvas {
    svg: String,
}

impl Canvas {
    /// Creates a white drawing area. Screen readers use the title and the description.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Canvas {
        let mut canvas = Canvas { svg: String::new() };
        canvas.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"{FONT}\" fill=\"none\">\n\
             <title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            escaped(title),
            escaped(description)
        ));
        canvas
    }

    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    pub(super) fn text(&mut self, x: f64, y: f64, kind: Text, text: &str) {
        let (size, weight, anchor, colour) = match kind {
            Text::Title => (15, "bold", "start", super::INK),
            Text::Subtitle => (11, "normal", "start", super::FAINT_INK),
            Text::Legend => (10, "normal", "start", super::INK),
            Text::Axis => (11, "normal", "middle", super::INK),
            Text::TickBelow => (10, "normal", "middle", super::INK),
            Text::TickBefore => (10, "normal", "end", super::INK),
        };
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{size}\" font-weight=\"{weight}\" \
             text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>\n",
            tenth(x),
            tenth(y),
            escaped(text)
        ));
    }

    /// Writes centred text that runs from bottom to top.
    pub(super) fn upright(&mut self, x: f64, y: f64, text: &str) {
        self.put(format_args!(
            "<text transform=\"translate({},{}) rotate(-90)\" font-size=\"11\" \
             text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
            tenth(x),
            tenth(y),
            super::INK,
            escaped(text)
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.put(format_args!(
            "<path d=\"M{} {}L{} {}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n",
            tenth(from.0),
            tenth(from.1),
            tenth(to.0),
            tenth(to.1)
        ));
    }

    pub(super) fn frame(&mut self, frame: &Frame) {
        self.put(format_args!(
            "<path d=\"M{left} {}V{bottom}H{}\" stroke=\"{}\" stroke-width=\"1\"/>\n",
            frame.top,
            frame.right,
            super::FAINT_INK,
            left = frame.left,
            bottom = frame.bottom,
        ));
    }

    /// Draws vertical bars between pairs of heights. A bar is at least as high as its width.
    pub(super) fn bars(&mut self, bars: impl Iterator<Item = (f64, f64, f64)>, colour: &str) {
        let mut path = String::new();
        let mut previous: Option<(f64, f64, f64)> = None;
        let mut draw = |(x, top, bottom): (f64, f64, f64)| {
            let middle = (top + bottom) / 2.0;
            let (top, bottom) = (top.min(middle - 1.2), bottom.max(middle + 1.2));
            let _ = write!(path, "M{} {}V{}", tenth(x), tenth(bottom), tenth(top));
        };
        for bar in bars {
            match &mut previous {
                // Bars with a gap below half a pixel are merged, so that graphs of many segments stay small.
                Some(last) if bar.0 - last.0 < 0.5 && (last.1 - bar.2).abs() < 0.5 => {
                    last.1 = bar.1.min(last.1);
                }
                _ => {
                    if let Some(last) = previous.replace(bar) {
                        draw(last);
                    }
                }
            }
        }
        if let Some(last) = previous {
            draw(last);
        }
        self.path(&path, colour, 2.4);
    }

    /// Draws a step line: its height is constant until the next point. Parts above the frame are left out.
    pub(super) fn steps(
        &mut self,
        points: impl Iterator<Item = (f64, f64)>,
        frame: &Frame,
        colour: &str,
        width: f64,
    ) {
        let mut path = String::new();
        let mut drawn: Option<(String, String)> = None;
        for (x, y) in points {
            if y < frame.top {
                if drawn.take().is_some() {
                    let _ = write!(path, "H{}V{}", tenth(x), tenth(frame.top));
                }
                continue;
            }
            let (x, y) = (tenth(x), tenth(y.min(frame.bottom)));
            match &drawn {
                None => drop(write!(path, "M{x} {y}")),
                Some((_, before)) if *before == y => {}
                Some((before, _)) if *before == x => drop(write!(path, "V{y}")),
                Some(_) => drop(write!(path, "H{x}V{y}")),
            }
            drawn = Some((x, y));
        }
        if let Some((x, _)) = drawn {
            let _ = write!(path, "H{x}");
        }
        self.path(&path, colour, width);
    }

    pub(super) fn ring(&mut self, x: f64, y: f64, colour: &str) {
        self.put(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"3.6\" stroke=\"{colour}\" stroke-width=\"1.2\"/>\n",
            tenth(x),
            tenth(y)
        ));
    }

    /// Draws a filled shape around a point.
    pub(super) fn shape(&mut self, x: f64, y: f64, corners: &[(f64, f64)], colour: &str) {
        let path = closed(x, y, corners);
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"{colour}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>\n"
        ));
    }

    /// Draws a filled shape with a title that appears beside the pointer.
    pub(super) fn titled_shape(
        &mut self,
        x: f64,
        y: f64,
        corners: &[(f64, f64)],
        colour: &str,
        title: &str,
    ) {
        let path = closed(x, y, corners);
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"{colour}\" stroke=\"#ffffff\" stroke-width=\"0.8\">\
             <title>{}</title></path>\n",
            escaped(title)
        ));
    }

    fn path(&mut self, path: &str, colour: &str, width: f64) {
        if !path.is_empty() {
            self.put(format_args!(
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{width}\" \
                 stroke-linejoin=\"round\"/>\n"
            ));
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.svg.write_fmt(text);
    }
}

/// Returns the path of a closed shape around a point.
fn closed(x: f64, y: f64, corners: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (n, corner) in corners.iter().enumerate() {
        let command = if n == 0 { 'M' } else { 'L' };
        let (x, y) = (tenth(x + corner.0), tenth(y + corner.1));
        // Writing to a string cannot fail.
        let _ = write!(path, "{command}{x} {y}");
    }
    path.push('Z');
    path
}

/// Formats a coordinate in its shortest form, rounded to tenths of a pixel.
fn tenth(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML does not allow other control characters, not even as character references.
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
