//! Decodes JPEG.

use jpeg_decoder::{Decoder, PixelFormat};

use super::malformed;
use crate::image::{Frame, ImageError, Limits, Picture};

pub(super) fn decode(content: &[u8], limits: Limits) -> Result<Picture, ImageError> {
    let mut decoder = Decoder::new(content);
    decoder.set_max_decoding_buffer_size(limits.bytes());
    decoder.read_info().map_err(malformed)?;
    let info = decoder
        .info()
        .ok_or_else(|| malformed("it has no header"))?;
    let (width, height) = (u32::from(info.width), u32::from(info.height));
    limits.check(width, height, 1)?;
    match info.pixel_format {
        PixelFormat::L8 | PixelFormat::RGB24 => {}
        PixelFormat::L16 => return Err(ImageError::NotApplicable("it has 16 bits per sample")),
        PixelFormat::CMYK32 => return Err(ImageError::NotApplicable("its colours are CMYK")),
    }
    let decoded = decoder.decode().map_err(malformed)?;
    let rgba: Vec<u8> = match info.pixel_format {
        PixelFormat::L8 => decoded
            .iter()
            .flat_map(|&grey| [grey, grey, grey, 255])
            .collect(),
        _ => {
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
        icc: decoder.icc_profile(),
        exif: decoder.exif_data().map(<[u8]>::to_vec),
        has_other_colours: false,
    })
}
