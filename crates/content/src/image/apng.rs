//! Encodes animations as APNG (PNG, third edition, section 10).
//!
//! Each frame is the smallest rectangle with all changes. Unchanged pixels in the rectangle are transparent if this
//! makes the animation smaller. Up to 256 colours are stored as a palette. oxipng then compresses each frame again.

use std::collections::BTreeSet;

use png::{BitDepth, BlendOp, ColorType, Compression, Encoder, Filter};

use super::canvas::Rectangle;
use super::encode::failed;
use super::picture::pixels;
use super::{ImageError, Picture};

/// The transparent pixel, which leaves the underlying pixel visible.
const CLEAR: [u8; 4] = [0; 4];

/// Encodes all frames.
pub(super) fn apng(picture: &Picture) -> Result<Vec<u8>, ImageError> {
    if picture.icc.is_some() || picture.has_other_colours || picture.exif.is_some() {
        return Err(ImageError::NotApplicable(
            "it states its colour space or has EXIF metadata",
        ));
    }
    let mut smallest: Option<Vec<u8>> = None;
    for leaves_pixels_out in [false, true] {
        let coded = encode(picture, leaves_pixels_out)?;
        let coded = oxipng::optimize_from_memory(&coded, &oxipng::Options::default());
        let coded = coded.map_err(failed)?;
        if smallest
            .as_ref()
            .is_none_or(|smallest| coded.len() < smallest.len())
        {
            smallest = Some(coded);
        }
    }
    smallest.ok_or(ImageError::NotApplicable("it has no frame"))
}

fn encode(picture: &Picture, leaves_pixels_out: bool) -> Result<Vec<u8>, ImageError> {
    let palette = Palette::of(picture, leaves_pixels_out);
    let mut coded = Vec::new();
    let mut encoder = Encoder::new(&mut coded, picture.width, picture.height);
    encoder.set_compression(Compression::High);
    match &palette {
        Some(palette) => {
            encoder.set_color(ColorType::Indexed);
            encoder.set_depth(palette.depth());
            encoder.set_filter(Filter::NoFilter);
            let colours = palette.colours.iter().flat_map(|&[_, r, g, b]| [r, g, b]);
            encoder.set_palette(colours.collect::<Vec<_>>());
            let alphas = palette.colours.iter().map(|colour| colour[0]);
            let alphas: Vec<_> = alphas.take_while(|&alpha| alpha < 255).collect();
            if !alphas.is_empty() {
                encoder.set_trns(alphas);
            }
        }
        None => {
            encoder.set_color(ColorType::Rgba);
            encoder.set_depth(BitDepth::Eight);
        }
    }
    let count = u32::try_from(picture.frames.len()).map_err(failed)?;
    encoder.set_animated(count, picture.plays).map_err(failed)?;
    let mut writer = encoder.write_header().map_err(failed)?;
    let mut before: Option<&[u8]> = None;
    for frame in &picture.frames {
        let change = Change::between(before, &frame.rgba, picture, leaves_pixels_out);
        let samples = match &palette {
            Some(palette) => palette.samples(&change),
            None => change.pixels.concat(),
        };
        let at = change.at;
        writer.reset_frame_position().map_err(failed)?;
        writer
            .set_frame_dimension(at.width, at.height)
            .map_err(failed)?;
        writer.set_frame_position(at.left, at.top).map_err(failed)?;
        writer
            .set_frame_delay(frame.delay.0, frame.delay.1)
            .map_err(failed)?;
        writer.set_blend_op(change.blend).map_err(failed)?;
        writer.write_image_data(&samples).map_err(failed)?;
        before = Some(&frame.rgba);
    }
    writer.finish().map_err(failed)?;
    Ok(coded)
}

/// The pixels that a frame draws.
struct Change {
    at: Rectangle,
    blend: BlendOp,
    pixels: Vec<[u8; 4]>,
}

impl Change {
    fn between(
        before: Option<&[u8]>,
        after: &[u8],
        picture: &Picture,
        leaves_pixels_out: bool,
    ) -> Change {
        let (width, height) = (picture.width, picture.height);
        let after = pixels(after);
        let Some(before) = before.map(pixels) else {
            let at = Rectangle {
                left: 0,
                top: 0,
                width,
                height,
            };
            return Change {
                at,
                blend: BlendOp::Source,
                pixels: after.to_vec(),
            };
        };
        let at = changed(before, after, width);
        let inside = |all: &[[u8; 4]]| -> Vec<[u8; 4]> {
            let rows = all.chunks_exact(width as usize);
            let rows = rows.skip(at.top as usize).take(at.height as usize);
            let columns = at.left as usize..(at.left + at.width) as usize;
            rows.flat_map(|row| row[columns.clone()].iter().copied())
                .collect()
        };
        let (old, new) = (inside(before), inside(after));
        let is_drawable = |(old, new): (&[u8; 4], &[u8; 4])| old == new || new[3] == 255;
        if leaves_pixels_out && old.iter().zip(&new).all(is_drawable) {
            let drawn = old.iter().zip(&new);
            let drawn = drawn.map(|(old, &new)| if *old == new { CLEAR } else { new });
            let pixels = drawn.collect();
            return Change {
                at,
                blend: BlendOp::Over,
                pixels,
            };
        }
        Change {
            at,
            blend: BlendOp::Source,
            pixels: new,
        }
    }
}

/// Returns the smallest rectangle with all changes; one pixel if there are none.
fn changed(before: &[[u8; 4]], after: &[[u8; 4]], width: u32) -> Rectangle {
    let (mut left, mut right) = (u32::MAX, 0);
    let (mut top, mut bottom) = (u32::MAX, 0);
    let rows = before
        .chunks_exact(width as usize)
        .zip(after.chunks_exact(width as usize));
    for (y, (before, after)) in (0_u32..).zip(rows) {
        for (x, _) in (0_u32..)
            .zip(before.iter().zip(after))
            .filter(|(_, (a, b))| a != b)
        {
            (left, right) = (left.min(x), right.max(x));
            (top, bottom) = (top.min(y), bottom.max(y));
        }
    }
    match left {
        u32::MAX => Rectangle {
            left: 0,
            top: 0,
            width: 1,
            height: 1,
        },
        _ => Rectangle {
            left,
            top,
            width: right - left + 1,
            height: bottom - top + 1,
        },
    }
}

/// The colours of an animation: alpha, red, green and blue. They are in ascending order, so transparent colours come
/// first and the list of alpha values is short.
struct Palette {
    colours: Vec<[u8; 4]>,
}

impl Palette {
    /// Creates the palette, if there are at most 256 colours.
    fn of(picture: &Picture, with_clear: bool) -> Option<Palette> {
        let mut colours = BTreeSet::new();
        if with_clear {
            colours.insert(CLEAR);
        }
        for frame in &picture.frames {
            let mut last = None;
            for &[r, g, b, alpha] in pixels(&frame.rgba) {
                // Long runs of one colour are common; a run needs only one insertion.
                if last == Some([alpha, r, g, b]) {
                    continue;
                }
                last = Some([alpha, r, g, b]);
                colours.insert([alpha, r, g, b]);
                if colours.len() > 256 {
                    return None;
                }
            }
        }
        let colours = colours.into_iter().collect();
        Some(Palette { colours })
    }

    fn depth(&self) -> BitDepth {
        match self.colours.len() {
            0..=2 => BitDepth::One,
            3..=4 => BitDepth::Two,
            5..=16 => BitDepth::Four,
            _ => BitDepth::Eight,
        }
    }

    /// Returns the palette indices of the pixels, packed row by row with the first pixel in the high bits.
    fn samples(&self, change: &Change) -> Vec<u8> {
        let bits = self.depth() as usize;
        let index = |&[r, g, b, alpha]: &[u8; 4]| {
            let colour = [alpha, r, g, b];
            let found = self.colours.binary_search(&colour);
            // Every colour is in the palette, because these frames define the palette.
            found.unwrap_or_else(|place| place) as u8
        };
        change
            .pixels
            .chunks_exact(change.at.width as usize)
            .flat_map(|row| row.chunks(8 / bits))
            .map(|pixels| {
                let places = (1..).map(|place| 8 - place * bits);
                pixels
                    .iter()
                    .zip(places)
                    .fold(0, |byte, (pixel, place)| byte | (index(pixel) << place))
            })
            .collect()
    }
}
