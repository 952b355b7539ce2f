//! The encoders of still images.

use image_webp::{ColorType, EncodingError, WebPEncoder};
use oxipng::{Options, RawImage, StripChunks};

use super::{ImageError, Limits, Picture};

/// The PNG chunks that a browser uses. Text, times and histograms are removed.
const DISPLAYED: [[u8; 4]; 12] = [
    *b"acTL", *b"cHRM", *b"cICP", *b"cLLI", *b"eXIf", *b"fcTL", *b"fdAT", *b"gAMA", *b"iCCP",
    *b"mDCV", *b"pHYs", *b"sRGB",
];

/// Encodes the first frame as PNG, with oxipng.
pub(super) fn png(picture: &Picture) -> Result<Vec<u8>, ImageError> {
    if picture.icc.is_some() || picture.has_other_colours {
        return Err(ImageError::NotApplicable("it states its colour space"));
    }
    RawImage::new(
        picture.width,
        picture.height,
        oxipng::ColorType::RGBA,
        oxipng::BitDepth::Eight,
        picture.frames[0].rgba.clone(),
    )
    .and_then(|image| image.create_optimized_png(&Options::default()))
    .map_err(failed)
}

/// Optimises a PNG: better filters, palette and compression; chunks that browsers ignore are removed.
pub(super) fn optimised_png(content: &[u8], limits: Limits) -> Result<Vec<u8>, ImageError> {
    let options = Options {
        strip: StripChunks::Keep(DISPLAYED.into_iter().collect()),
        max_decompressed_size: Some(limits.bytes()),
        ..Options::default()
    };
    oxipng::optimize_from_memory(content, &options).map_err(failed)
}

/// Encodes the first frame as lossless WebP.
pub(super) fn webp(picture: &Picture) -> Result<Vec<u8>, ImageError> {
    if picture.has_other_colours || picture.exif.is_some() {
        return Err(ImageError::NotApplicable(
            "it states its colour space or has EXIF metadata",
        ));
    }
    let pixels = picture.pixels();
    let is_opaque = pixels.iter().all(|pixel| pixel[3] == 255);
    let is_grey = pixels.iter().all(|&[r, g, b, _]| r == g && g == b);
    let (color, samples): (_, Vec<u8>) = match (is_opaque, is_grey) {
        (true, true) => (ColorType::L8, pixels.iter().map(|pixel| pixel[0]).collect()),
        (true, false) => {
            let samples = pixels.iter().flat_map(|&[r, g, b, _]| [r, g, b]);
            (ColorType::Rgb8, samples.collect())
        }
        (false, _) => (ColorType::Rgba8, picture.frames[0].rgba.clone()),
    };
    let mut coded = Vec::new();
    let mut encoder = WebPEncoder::new(&mut coded);
    if let Some(profile) = &picture.icc {
        encoder.set_icc_profile(profile.clone());
    }
    match encoder.encode(&samples, picture.width, picture.height, color) {
        Ok(()) => Ok(coded),
        Err(EncodingError::InvalidDimensions) => Err(ImageError::NotApplicable(
            "WebP has at most 16384 pixels in a row or column",
        )),
        Err(error) => Err(failed(error)),
    }
}

/// Encodes the first frame as a progressive JPEG with optimised Huffman tables. Below quality 90, colours are
/// subsampled 4:2:0.
pub(super) fn jpeg(picture: &Picture, quality: u8) -> Result<Vec<u8>, ImageError> {
    let too_large =
        |_| ImageError::NotApplicable("JPEG has at most 65535 pixels in a row or column");
    let width = u16::try_from(picture.width).map_err(too_large)?;
    let height = u16::try_from(picture.height).map_err(too_large)?;
    let mut coded = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut coded, quality);
    encoder.set_progressive(true);
    encoder.set_optimized_huffman_tables(true);
    if let Some(profile) = &picture.icc {
        encoder.add_icc_profile(profile).map_err(failed)?;
    }
    if let Some(exif) = &picture.exif {
        encoder.add_exif_metadata(exif).map_err(failed)?;
    }
    let pixels = picture.pixels();
    let encoded = match pixels.iter().all(|&[r, g, b, _]| r == g && g == b) {
        true => {
            let grey: Vec<u8> = pixels.iter().map(|pixel| pixel[0]).collect();
            encoder.encode(&grey, width, height, jpeg_encoder::ColorType::Luma)
        }
        false => {
            let rgba = &picture.frames[0].rgba;
            encoder.encode(rgba, width, height, jpeg_encoder::ColorType::Rgba)
        }
    };
    encoded.map_err(failed)?;
    Ok(coded)
}

/// Converts the error of a library.
pub(super) fn failed(error: impl std::fmt::Display) -> ImageError {
    ImageError::Encoder(error.to_string())
}
