//! Decodes still WebP.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::malformed;
use crate::image::{Frame, ImageError, Limits, Picture};

pub(super) fn decode(content: &[u8], limits: Limits) -> Result<Picture, ImageError> {
    let mut decoder = WebPDecoder::new(Cursor::new(content)).map_err(malformed)?;
    decoder.set_memory_limit(limits.bytes());
    let (width, height) = decoder.dimensions();
    limits.check(width, height, 1)?;
    if decoder.is_animated() {
        return Err(ImageError::NotApplicable("it is an animation in WebP"));
    }
    let size = decoder
        .output_buffer_size()
        .ok_or_else(|| malformed("it is too large"))?;
    let mut decoded = vec![0; size];
    decoder.read_image(&mut decoded).map_err(malformed)?;
    let rgba = match decoder.has_alpha() {
        true => decoded,
        false => {
            let (pixels, _) = decoded.as_chunks();
            pixels
                .iter()
                .flat_map(|&[r, g, b]| [r, g, b, 255])
                .collect()
        }
    };
    Ok(Picture {
        width,
        height,
        frames: vec![Frame {
            rgba,
            delay: (0, 1),
        }],
        plays: 0,
        icc: decoder.icc_profile().map_err(malformed)?,
        exif: decoder.exif_metadata().map_err(malformed)?,
        has_other_colours: false,
    })
}
