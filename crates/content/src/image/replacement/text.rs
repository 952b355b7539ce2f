//! Recognises text in an image by its colours and its shapes.
//!
//! The background is flat. Every other pixel is a mixture of the background colour and one ink colour, as in the smooth
//! edges of glyphs. The ink forms lines of similar height. Each line has several shapes of similar size, separated by
//! gaps.

use std::fmt::Write as _;

use super::super::Picture;
use super::{css_color, visible};

/// The largest width and height in pixels. Larger images are treated as drawings.
const LARGEST: u32 = 2_000;
/// The smallest and largest height of a line of text, in pixels.
const LINE_HEIGHT: std::ops::RangeInclusive<u32> = 6..=100;
/// The minimum number of shapes in a line. With fewer shapes, a line cannot be recognised as text.
const FEWEST_SHAPES: usize = 3;
/// The minimum for the mean number of strokes that a row of text crosses. Drawings have fewer strokes in one line.
const MANY_STROKES: f64 = 6.0;
/// The largest distance of a pixel's channel from the straight line between background and ink.
const TOLERANCE: i32 = 24;

/// Text that was found in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextShape {
    width: u32,
    height: u32,
    background: [u8; 4],
    ink: [u8; 4],
    /// The first row and the number of rows of each line.
    lines: Vec<(u32, u32)>,
    is_bold: bool,
}

/// The coverage by ink of each pixel, from 0 to 255.
struct Coverage {
    width: usize,
    ink: Vec<u8>,
}

impl TextShape {
    /// Finds text in the image.
    pub(super) fn of(picture: &Picture) -> Option<TextShape> {
        let (width, height) = (picture.width, picture.height);
        if width > LARGEST || height > LARGEST || width < height / 2 {
            return None;
        }
        let pixels: Vec<[u8; 4]> = picture
            .pixels()
            .iter()
            .map(|&pixel| visible(pixel))
            .collect();
        let background = background(&pixels, width as usize)?;
        let ink = ink(&pixels, background)?;
        let coverage = Coverage {
            width: width as usize,
            ink: pixels
                .iter()
                .map(|&pixel| covered(pixel, background, ink))
                .collect::<Option<_>>()?,
        };
        let marked = coverage.ink.iter().filter(|&&ink| ink >= 128).count();
        // In an image of text, ink covers 1 % to 40 % of the pixels.
        if marked * 100 < pixels.len() || marked * 100 > pixels.len() * 40 {
            return None;
        }
        let lines = coverage.lines();
        let tallest = lines.iter().map(|line| line.1).max()?;
        let is_text = lines.iter().all(|&line| {
            LINE_HEIGHT.contains(&line.1) && line.1 * 2 >= tallest && coverage.is_text(line)
        });
        is_text.then(|| TextShape {
            width,
            height,
            background,
            ink,
            is_bold: coverage.stroke(&lines) > 0.16,
            lines,
        })
    }

    /// Returns the width and the height in pixels.
    pub(super) fn size(&self) -> [u32; 2] {
        [self.width, self.height]
    }

    /// Returns the element with this text, which must already be escaped.
    pub(super) fn html(&self, text: &str) -> String {
        let (_, ink_height) = self.lines[0];
        let has_descender = text.contains(['g', 'j', 'p', 'q', 'y', 'Q', ',', ';']);
        // In common fonts, ascenders are 0.73 em high and descenders 0.21 em deep.
        let em = f64::from(ink_height) / if has_descender { 0.94 } else { 0.73 };
        let pitch = match self.lines.as_slice() {
            [(first, _), .., (last, _)] => f64::from(last - first) / (self.lines.len() - 1) as f64,
            _ => f64::from(self.height),
        };
        let mut style = format!(
            "display:inline-block;width:{}px;height:{}px;overflow:hidden",
            self.width, self.height
        );
        if self.background[3] != 0 {
            let _ = write!(style, ";background:{}", css_color(self.background));
        }
        let weight = if self.is_bold { "bold " } else { "" };
        let _ = write!(
            style,
            ";color:{};font:{weight}{em:.0}px/{pitch:.0}px sans-serif;text-align:center",
            css_color(self.ink)
        );
        format!("<span style=\"{style}\">{text}</span>")
    }
}

/// Returns the colour of nearly all border pixels.
fn background(pixels: &[[u8; 4]], width: usize) -> Option<[u8; 4]> {
    let rows = pixels.len() / width;
    let edge = |index: usize| {
        let (row, column) = (index / width, index % width);
        row == 0 || row + 1 == rows || column == 0 || column + 1 == width
    };
    let edge: Vec<[u8; 4]> = (0..pixels.len())
        .filter(|&index| edge(index))
        .map(|index| pixels[index])
        .collect();
    // The algorithm of Boyer and Moore finds the majority candidate, which is then counted.
    let (mut candidate, mut votes) = (edge[0], 0_usize);
    for &pixel in &edge {
        match (votes, pixel == candidate) {
            (0, _) => (candidate, votes) = (pixel, 1),
            (_, true) => votes += 1,
            (_, false) => votes -= 1,
        }
    }
    // The palette of a GIF may have two nearly equal colours where the image has one.
    let is_same = |pixel: &&[u8; 4]| (0..4).all(|at| pixel[at].abs_diff(candidate[at]) <= 4);
    let same = edge.iter().filter(is_same).count();
    let is_flat = same * 100 >= edge.len() * 95 && matches!(candidate[3], 0 | 255);
    is_flat.then_some(candidate)
}

/// Returns the opaque colour that is farthest from the background.
fn ink(pixels: &[[u8; 4]], background: [u8; 4]) -> Option<[u8; 4]> {
    let distance = |pixel: &[u8; 4]| -> i32 {
        let channel = |at: usize| (i32::from(pixel[at]) - i32::from(background[at])).pow(2);
        (0..3).map(channel).sum()
    };
    let opaque = pixels
        .iter()
        .filter(|pixel| pixel[3] == 255 && **pixel != background);
    let ink = *match background[3] {
        // On a transparent background any opaque colour may be the ink. The first colour is used, and the others are
        // compared with it.
        0 => opaque.clone().next()?,
        _ => opaque.max_by_key(|pixel| distance(pixel))?,
    };
    // Legible text has a minimum contrast.
    (background[3] == 0 || distance(&ink) >= 60 * 60).then_some(ink)
}

/// Returns the share of ink, from 0 to 255, whose mixture with the background gives this pixel. `None` if no mixture
/// does.
fn covered(pixel: [u8; 4], background: [u8; 4], ink: [u8; 4]) -> Option<u8> {
    let of = |color: [u8; 4], at: usize| i32::from(color[at]);
    if background[3] == 0 {
        // On a transparent background the coverage is the alpha value.
        let is_ink = (0..3).all(|at| (of(pixel, at) - of(ink, at)).abs() <= TOLERANCE);
        return (pixel[3] == 0 || is_ink).then_some(pixel[3]);
    }
    let along: i32 = (0..3)
        .map(|at| (of(pixel, at) - of(background, at)) * (of(ink, at) - of(background, at)))
        .sum();
    let whole: i32 = (0..3)
        .map(|at| (of(ink, at) - of(background, at)).pow(2))
        .sum();
    let share = f64::from(along.clamp(0, whole)) / f64::from(whole);
    let is_between = pixel[3] == 255
        && (0..3).all(|at| {
            let between = f64::from(of(ink, at) - of(background, at));
            let expected = f64::from(of(background, at)) + share * between;
            (f64::from(of(pixel, at)) - expected).abs() <= f64::from(TOLERANCE)
        });
    is_between.then_some((share * 255.0).round() as u8)
}

impl Coverage {
    fn is_ink(&self, row: u32, column: usize) -> bool {
        self.ink[row as usize * self.width + column] >= 96
    }

    /// Returns the runs of consecutive rows with ink.
    fn lines(&self) -> Vec<(u32, u32)> {
        let mut lines: Vec<(u32, u32)> = Vec::new();
        let mut is_open = false;
        for row in 0..(self.ink.len() / self.width) as u32 {
            let has_ink = (0..self.width).any(|column| self.is_ink(row, column));
            match (has_ink, is_open) {
                (true, true) => {
                    if let Some(line) = lines.last_mut() {
                        line.1 += 1;
                    }
                }
                (true, false) => lines.push((row, 1)),
                (false, _) => {}
            }
            is_open = has_ink;
        }
        lines
    }

    /// Returns whether the line has several shapes, has no shape much wider than high, and has rows that cross several
    /// strokes.
    fn is_text(&self, (top, height): (u32, u32)) -> bool {
        let has_ink = |column: usize| (top..top + height).any(|row| self.is_ink(row, column));
        let mut widths = Vec::new();
        let mut is_open = false;
        for column in 0..self.width {
            let inked = has_ink(column);
            match (inked, is_open) {
                (true, true) => {
                    if let Some(width) = widths.last_mut() {
                        *width += 1;
                    }
                }
                (true, false) => widths.push(1_u32),
                (false, _) => {}
            }
            is_open = inked;
        }
        let strokes: usize = (top..top + height).map(|row| self.runs(row).count()).sum();
        let strokes_per_row = strokes as f64 / f64::from(height);
        // If letters touch each other, a word is one shape with many strokes.
        let is_narrow = widths.iter().all(|&width| width <= height * 4);
        let has_many_strokes = strokes_per_row >= MANY_STROKES;
        // Bars and rules consist of equal shapes.
        let (least, most) = (widths.iter().min(), widths.iter().max());
        let is_varied = least != most || strokes_per_row.fract() > 0.05;
        widths.len() >= FEWEST_SHAPES
            && (is_narrow || has_many_strokes)
            && is_varied
            && strokes_per_row >= 0.5 * widths.len() as f64
    }

    /// Returns the lengths of the runs of ink in a row.
    fn runs(&self, row: u32) -> impl Iterator<Item = usize> {
        let start = row as usize * self.width;
        self.ink[start..start + self.width]
            .chunk_by(|a, b| (*a >= 96) == (*b >= 96))
            .filter(|run| run[0] >= 96)
            .map(<[u8]>::len)
    }

    /// Returns the median length of a run of ink, relative to the line height.
    fn stroke(&self, lines: &[(u32, u32)]) -> f64 {
        let mut lengths: Vec<usize> = lines
            .iter()
            .flat_map(|&(top, height)| (top..top + height).flat_map(|row| self.runs(row)))
            .collect();
        lengths.sort_unstable();
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        median as f64 / lines.first().map_or(1.0, |line| f64::from(line.1))
    }
}
