//! GIF images of an exact size, which every decoder accepts. They cannot be compressed further, like the images of a
//! real page.
//!
//! A picture has a shaded background, a figure, and random noise in some pixels. Each noisy pixel makes the LZW data of
//! GIF89a slightly longer. Bisection finds the largest roughness (the share of noisy pixels) that leaves space for a
//! comment extension. The comment fills the remaining bytes exactly.

use fathometer_model::Seed;
use gif::{Encoder, Extension, Frame, Repeat};

use super::manifest::Kind;

/// Bytes of a comment extension without its text: introducer, label, block length, terminator.
const COMMENT_FRAME: usize = 4;
/// The longest text of one comment sub-block.
const COMMENT_TEXT: usize = 255;
/// The roughness at which every pixel is noisy.
const ROUGHEST: u16 = 1024;
/// The text of the comments, repeated as needed.
const COMMENT: &[u8] = b"Microscape test image, synthetic. ";

/// An image file and its attributes in the page.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    /// The file.
    pub gif: Vec<u8>,
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
}

/// The drawing before noise is added.
struct Canvas {
    width: u16,
    height: u16,
    /// Bits per pixel: 1 to 8.
    depth: u32,
    /// The pixels of each frame, row by row.
    frames: Vec<Vec<Pixel>>,
    seed: Seed,
}

/// The smooth and the noisy colour of a pixel, and the threshold between them.
struct Pixel {
    smooth: u8,
    rough: u8,
    /// The pixel is smooth below this roughness. A rougher picture therefore has all noisy pixels of a smoother
    /// picture.
    smooth_below: u16,
}

/// Creates an image of exactly `size` bytes.
///
/// Panics if `size` is too small for any image (below about 60 bytes). A test checks the sizes of the manifest.
pub(super) fn of_size(seed: Seed, kind: Kind, size: usize) -> Picture {
    let canvas = Canvas::for_size(seed, kind, size);
    // The roughness is the share of noisy pixels in 1024ths. The size does not grow at every step of the roughness, so
    // bisection finds one of several crossings, which is sufficient.
    let room = size - COMMENT_FRAME - 1;
    let (mut smooth, mut rough) = (0u16, ROUGHEST);
    let mut best = canvas.encode(smooth, &[]);
    assert!(
        best.len() <= room,
        "{size} bytes are too few for a picture of {}x{}",
        canvas.width,
        canvas.height
    );
    while rough - smooth > 1 {
        let middle = smooth.midpoint(rough);
        let encoded = canvas.encode(middle, &[]);
        if encoded.len() <= room {
            smooth = middle;
            best = encoded;
        } else {
            rough = middle;
        }
    }
    let text_length = comment_text_length(size - best.len());
    let text: Vec<u8> = COMMENT.iter().copied().cycle().take(text_length).collect();
    let gif = canvas.encode(smooth, &text);
    debug_assert_eq!(gif.len(), size);
    Picture {
        gif,
        width: canvas.width,
        height: canvas.height,
    }
}

/// Returns the length of the text for which a comment extension takes `total` bytes. A sub-block has up to 255 bytes of
/// text and one byte of overhead.
fn comment_text_length(total: usize) -> usize {
    let blocks_and_text = total - (COMMENT_FRAME - 1);
    let blocks = blocks_and_text.div_ceil(COMMENT_TEXT + 1);
    blocks_and_text - blocks
}

impl Canvas {
    /// Chooses dimensions and colour depth as typical in 1997 for a file of `size` bytes: bullets, then labels and
    /// buttons, then photographs. Animated images are advertisements.
    fn for_size(seed: Seed, kind: Kind, size: usize) -> Canvas {
        let (depth, frames) = match kind {
            Kind::Animated => (4, 5),
            Kind::Static => match size {
                0..200 => (1, 1),
                200..700 => (3, 1),
                700..2_000 => (4, 1),
                2_000..10_000 => (6, 1),
                _ => (7, 1),
            },
        };
        // All bytes except the pixels: header, palette, control block, descriptor, trailer.
        let fixed = 33 + (3usize << depth) + usize::from(frames) * 20;
        let data = size.saturating_sub(fixed + COMMENT_FRAME + 1).max(8);
        // The LZW data takes about two thirds of the raw bits of the pixels; advertisements compress further.
        let pixels = match kind {
            Kind::Animated => data * 8 * 3 / depth as usize / usize::from(frames),
            Kind::Static => data * 8 * 3 / (2 * depth as usize),
        };
        let shapes: &[(usize, usize)] = match kind {
            Kind::Animated => &[(468, 60)],
            Kind::Static if size < 200 => &[(1, 1), (5, 4), (2, 1)],
            Kind::Static if size < 2_000 => &[(4, 1), (5, 1), (3, 1), (7, 2)],
            Kind::Static => &[(4, 3), (3, 2), (5, 3), (2, 1)],
        };
        let (across, down) = shapes[(seed.draw(0) % shapes.len() as u64) as usize];
        let height = (pixels * down / across).isqrt().max(3);
        let width = (pixels / height).max(3);
        let seed = seed.stream("pixels");
        Canvas {
            width: width as u16,
            height: height as u16,
            depth,
            frames: (0..frames)
                .map(|frame| draw(seed, depth, width as u32, height as u32, frame))
                .collect(),
            seed,
        }
    }

    /// Encodes the file with this roughness, and with a comment unless its text is empty.
    fn encode(&self, roughness: u16, comment: &[u8]) -> Vec<u8> {
        let in_memory = "writing an image with a palette to memory does not fail";
        let mut encoder =
            Encoder::new(Vec::new(), self.width, self.height, &self.palette()).expect(in_memory);
        if self.frames.len() > 1 {
            // The NETSCAPE2.0 application extension: loop forever.
            encoder.set_repeat(Repeat::Infinite).expect(in_memory);
        }
        if !comment.is_empty() {
            encoder
                .write_raw_extension(Extension::Comment.into(), &[comment])
                .expect(in_memory);
        }
        for pixels in &self.frames {
            let indices: Vec<u8> = pixels
                .iter()
                .map(|pixel| {
                    if roughness < pixel.smooth_below {
                        pixel.smooth
                    } else {
                        pixel.rough
                    }
                })
                .collect();
            let mut frame = Frame::from_indexed_pixels(self.width, self.height, indices, None);
            // The delay, in hundredths of a second.
            frame.delay = if self.frames.len() > 1 { 50 } else { 0 };
            encoder.write_frame(&frame).expect(in_memory);
        }
        encoder.into_inner().expect(in_memory)
    }

    /// Creates a ramp of 2^depth colours between two colours that the seed determines.
    fn palette(&self) -> Vec<u8> {
        let colours = 1u32 << self.depth;
        let ends = self.seed.stream("palette").draw(0).to_le_bytes();
        (0..colours)
            .flat_map(|n| {
                (0..3).map(move |channel| {
                    let (from, to) = (u32::from(ends[channel]), u32::from(ends[channel + 3]));
                    ((from * (colours - 1 - n) + to * n) / (colours - 1)) as u8
                })
            })
            .collect()
    }
}

/// Draws one frame: a disc, which moves from frame to frame, over a diagonal gradient.
fn draw(seed: Seed, depth: u32, width: u32, height: u32, frame: u16) -> Vec<Pixel> {
    let colours = 1u32 << depth;
    let radius = height.min(width) / 3;
    let centre_x = (width / 2 + u32::from(frame) * width / 7) % width;
    let centre_y = height / 2;
    let mut pixels = Vec::with_capacity((width * height) as usize);
    for y in 0..height {
        for x in 0..width {
            let ground = (x + y) * (colours - 1) / (width + height - 1);
            let in_disc =
                x.abs_diff(centre_x).pow(2) + y.abs_diff(centre_y).pow(2) <= radius.pow(2);
            let smooth = if in_disc {
                colours - 1 - ground
            } else {
                ground
            };
            // The random number of a pixel depends on its frame and position.
            let place = (u64::from(frame) << 32) | u64::from(y * width + x);
            let draw = seed.draw(place);
            pixels.push(Pixel {
                smooth: smooth as u8,
                rough: (((draw >> 32) as u32) % colours) as u8,
                smooth_below: 1 + (draw as u16) % ROUGHEST,
            });
        }
    }
    pixels
}
