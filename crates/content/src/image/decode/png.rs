//! Decodes PNG and APNG.

use std::io::Cursor;

use png::{BitDepth, BlendOp, ColorType, Decoder, DisposeOp, Transformations};

use super::malformed;
use crate::image::canvas::{Blend, Canvas, Dispose, Rectangle};
use crate::image::{Frame, ImageError, Limits, Picture};

pub(super) fn decode(content: &[u8], limits: Limits) -> Result<Picture, ImageError> {
    let bytes = limits.bytes();
    let mut decoder = Decoder::new_with_limits(Cursor::new(content), png::Limits { bytes });
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(malformed)?;
    let info = reader.info();
    let (width, height) = (info.width, info.height);
    let count = info
        .animation_control
        .map_or(1, |control| control.num_frames);
    limits.check(width, height, count)?;
    if info.bit_depth == BitDepth::Sixteen {
        return Err(ImageError::NotApplicable("it has 16 bits per sample"));
    }
    if info.animation_control.is_some() && info.frame_control.is_none() {
        return Err(ImageError::NotApplicable(
            "its first image is not part of its animation",
        ));
    }
    let plays = info
        .animation_control
        .map_or(0, |control| control.num_plays);
    let has_other_colours = info.coding_independent_code_points.is_some()
        || (info.srgb.is_none() && (info.gama_chunk.is_some() || info.chrm_chunk.is_some()));
    let icc = info.icc_profile.as_ref().map(|profile| profile.to_vec());
    let mut canvas = Canvas::new(width, height);
    let mut frames = Vec::new();
    let size = reader
        .output_buffer_size()
        .ok_or_else(|| malformed("it is too large"))?;
    let mut buffer = vec![0; size];
    for _ in 0..count {
        let output = reader.next_frame(&mut buffer).map_err(malformed)?;
        let rows = &buffer[..output.buffer_size()];
        let rgba = match output.color_type {
            ColorType::Rgba => rows.to_vec(),
            ColorType::GrayscaleAlpha => {
                let (grey, _) = rows.as_chunks();
                grey.iter()
                    .flat_map(|&[grey, alpha]| [grey, grey, grey, alpha])
                    .collect()
            }
            other => return Err(malformed(format!("its colours were decoded as {other:?}"))),
        };
        let whole = Rectangle {
            left: 0,
            top: 0,
            width,
            height,
        };
        let (at, blend, dispose, delay) = match reader.info().frame_control {
            None => (whole, Blend::Source, Dispose::Keep, (0, 1)),
            Some(control) => (
                Rectangle {
                    left: control.x_offset,
                    top: control.y_offset,
                    width: control.width,
                    height: control.height,
                },
                match control.blend_op {
                    BlendOp::Source => Blend::Source,
                    BlendOp::Over => Blend::Over,
                },
                match control.dispose_op {
                    DisposeOp::None => Dispose::Keep,
                    DisposeOp::Background => Dispose::Clear,
                    DisposeOp::Previous if frames.is_empty() => Dispose::Clear,
                    DisposeOp::Previous => Dispose::Restore,
                },
                match control.delay_den {
                    0 => (control.delay_num, 100),
                    denominator => (control.delay_num, denominator),
                },
            ),
        };
        let rgba = canvas.show(&rgba, at, blend, dispose);
        frames.push(Frame { rgba, delay });
    }
    // Chunks may also follow the pixels.
    reader.finish().map_err(malformed)?;
    let exif = reader
        .info()
        .exif_metadata
        .as_ref()
        .map(|exif| exif.to_vec());
    Ok(Picture {
        width,
        height,
        frames,
        plays,
        icc,
        exif,
        has_other_colours,
    })
}
