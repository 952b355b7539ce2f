//! The canvas on which the frames of GIF and APNG are drawn, according to their specifications.

/// The position and size of a frame, inside the canvas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
}

/// The method of drawing a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blend {
    /// The pixel replaces the underlying pixel.
    Source,
    /// The pixel is blended over the underlying pixel.
    Over,
}

/// The treatment of the frame's rectangle before the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispose {
    /// The rectangle is left unchanged.
    Keep,
    /// The rectangle becomes transparent, as in browsers. It does not get the background colour of GIF.
    Clear,
    /// The rectangle is restored to its content before the frame.
    Restore,
}

/// The visible pixels.
#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    rgba: Vec<u8>,
}

impl Canvas {
    /// Creates a transparent canvas.
    pub fn new(width: u32, height: u32) -> Canvas {
        let (width, height) = (width as usize, height as usize);
        let rgba = vec![0; width * height * 4];
        Canvas { width, rgba }
    }

    /// Draws a frame, returns the visible pixels, and prepares the canvas for the next frame. In the result, blended
    /// transparent pixels have no colour.
    pub fn show(&mut self, frame: &[u8], at: Rectangle, blend: Blend, dispose: Dispose) -> Vec<u8> {
        let before = (dispose == Dispose::Restore).then(|| self.rgba.clone());
        let row_bytes = at.width as usize * 4;
        for (row, source) in frame
            .chunks_exact(row_bytes)
            .take(at.height as usize)
            .enumerate()
        {
            let target = self.row(at, row);
            match blend {
                Blend::Source => target.copy_from_slice(source),
                Blend::Over => {
                    for (below, above) in target.chunks_exact_mut(4).zip(source.chunks_exact(4)) {
                        over(below, above);
                    }
                }
            }
        }
        let shown = self.rgba.clone();
        match before {
            Some(before) => self.rgba = before,
            None if dispose == Dispose::Clear => {
                for row in 0..at.height as usize {
                    self.row(at, row).fill(0);
                }
            }
            None => {}
        }
        shown
    }

    fn row(&mut self, at: Rectangle, row: usize) -> &mut [u8] {
        let start = ((at.top as usize + row) * self.width + at.left as usize) * 4;
        &mut self.rgba[start..start + at.width as usize * 4]
    }
}

/// Blends a pixel over another pixel (PNG, third edition, section 13.16), rounded to the nearest value.
fn over(below: &mut [u8], above: &[u8]) {
    match above[3] {
        0 => {}
        255 => below.copy_from_slice(above),
        alpha => {
            let (a, b) = (
                u32::from(alpha) * 255,
                u32::from(below[3]) * (255 - u32::from(alpha)),
            );
            let sum = a + b;
            for channel in 0..3 {
                let mixed = u32::from(above[channel]) * a + u32::from(below[channel]) * b;
                below[channel] = ((mixed + sum / 2) / sum) as u8;
            }
            below[3] = ((sum + 127) / 255) as u8;
        }
    }
}
