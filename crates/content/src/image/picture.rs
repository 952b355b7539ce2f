//! A decoded image: the frames that a browser shows.

/// A decoded image.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// The frames, each with all pixels of the visible canvas. A still image has one frame.
    pub frames: Vec<Frame>,
    /// The number of times that an animation is played; 0: without end.
    pub plays: u32,
    /// The ICC profile.
    pub icc: Option<Vec<u8>>,
    /// The EXIF metadata, without the header of the image format. The metadata may rotate the image.
    pub exif: Option<Vec<u8>>,
    /// Whether the file states the colour space without an ICC profile (gAMA, cHRM, cICP).
    pub has_other_colours: bool,
}

/// One frame of an animation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Red, green, blue and alpha of each pixel, row by row.
    pub rgba: Vec<u8>,
    /// The display time of the frame, in seconds: numerator and denominator. The denominator is not 0.
    pub delay: (u16, u16),
}

impl Picture {
    /// Returns whether the image is an animation.
    pub fn is_animated(&self) -> bool {
        self.frames.len() > 1
    }

    /// Returns whether both images look the same: all pixels of all frames, and the display times of an animation.
    pub fn shows_the_same(&self, other: &Picture) -> bool {
        let seconds = |a: &Frame, b: &Frame| {
            let product = |x: (u16, u16), y: (u16, u16)| u32::from(x.0) * u32::from(y.1);
            product(a.delay, b.delay) == product(b.delay, a.delay)
        };
        let is_animated = self.is_animated();
        (self.width, self.height) == (other.width, other.height)
            && self.frames.len() == other.frames.len()
            && (!is_animated || self.plays == other.plays)
            && self
                .frames
                .iter()
                .zip(&other.frames)
                .all(|(a, b)| a.rgba == b.rgba && (!is_animated || seconds(a, b)))
    }

    /// Returns the pixels of the first frame.
    pub(super) fn pixels(&self) -> &[[u8; 4]] {
        pixels(&self.frames[0].rgba)
    }
}

/// Converts the bytes to pixels. Bytes after the last complete pixel are ignored.
pub(super) fn pixels(rgba: &[u8]) -> &[[u8; 4]] {
    rgba.as_chunks().0
}
