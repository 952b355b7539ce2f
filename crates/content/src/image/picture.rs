//! A decoded image: what a browser shows, frame by frame.

/// A decoded image.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The frames, each as the whole canvas that is shown. A still image has one.
    pub frames: Vec<Frame>,
    /// How often an animation is played; 0: without end.
    pub plays: u32,
    /// The ICC profile.
    pub icc: Option<Vec<u8>>,
    /// The EXIF metadata, without a header of its format: it may turn the image.
    pub exif: Option<Vec<u8>>,
    /// Whether the meaning of colours is stated in another way than by an ICC profile (gamma, chromaticities, cICP).
    pub has_other_colours: bool,
}

/// One frame of an animation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Red, green, blue and alpha of each pixel, row by row.
    pub rgba: Vec<u8>,
    /// How long it is shown: numerator and denominator, in seconds. Not 0 in the denominator.
    pub delay: (u16, u16),
}

impl Picture {
    /// Whether it is an animation.
    pub fn is_animated(&self) -> bool {
        self.frames.len() > 1
    }

    /// Whether both show the same: all pixels of all frames, and the times of an animation.
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

    /// The pixels of the first frame.
    pub(super) fn pixels(&self) -> &[[u8; 4]] {
        pixels(&self.frames[0].rgba)
    }
}

/// Bytes as pixels; bytes behind the last whole pixel are left out.
pub(super) fn pixels(rgba: &[u8]) -> &[[u8; 4]] {
    rgba.as_chunks().0
}
