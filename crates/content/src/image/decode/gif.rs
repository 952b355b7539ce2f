//! Decodes GIF, still and animated.

use std::num::NonZeroU64;

use gif::{ColorOutput, DecodeOptions, DisposalMethod, MemoryLimit, Repeat};

use super::malformed;
use crate::image::canvas::{Blend, Canvas, Dispose, Rectangle};
use crate::image::{Frame, ImageError, Limits, Picture};

pub(super) fn decode(content: &[u8], limits: Limits) -> Result<Picture, ImageError> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    // Browsers enlarge the canvas for a frame outside the canvas, in different ways. Such a file is refused.
    options.check_frame_consistency(true);
    let bytes = NonZeroU64::new(limits.bytes() as u64).unwrap_or(NonZeroU64::MIN);
    options.set_memory_limit(MemoryLimit::Bytes(bytes));
    let mut decoder = options.read_info(content).map_err(malformed)?;
    let (width, height) = (u32::from(decoder.width()), u32::from(decoder.height()));
    limits.check(width, height, 1)?;
    let mut canvas = Canvas::new(width, height);
    let mut frames = Vec::new();
    while let Some(frame) = decoder.read_next_frame().map_err(malformed)? {
        let count = u32::try_from(frames.len() + 1).unwrap_or(u32::MAX);
        limits.check(width, height, count)?;
        let at = Rectangle {
            left: frame.left.into(),
            top: frame.top.into(),
            width: frame.width.into(),
            height: frame.height.into(),
        };
        if at.width == 0 || at.height == 0 {
            return Err(ImageError::Malformed("a frame has no pixels".to_owned()));
        }
        let dispose = match frame.dispose {
            DisposalMethod::Any | DisposalMethod::Keep => Dispose::Keep,
            DisposalMethod::Background => Dispose::Clear,
            DisposalMethod::Previous => Dispose::Restore,
        };
        let rgba = canvas.show(&frame.buffer, at, Blend::Over, dispose);
        let delay = (frame.delay, 100);
        frames.push(Frame { rgba, delay });
    }
    if frames.is_empty() {
        return Err(ImageError::Malformed("it has no frame".to_owned()));
    }
    Ok(Picture {
        width,
        height,
        frames,
        // The extension counts the repetitions after the first play.
        plays: match decoder.repeat() {
            Repeat::Infinite => 0,
            Repeat::Finite(repetitions) => u32::from(repetitions) + 1,
        },
        icc: None,
        exif: None,
        has_other_colours: decoder.icc_profile().is_some(),
    })
}
