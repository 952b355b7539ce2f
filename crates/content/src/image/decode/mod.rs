//! The image decoders, all with limits.

mod gif;
mod jpeg;
mod png;
mod webp;

use super::{Format, ImageError, Limits, Picture, guarded};

/// Decodes a file of the format.
pub(super) fn decode(
    format: Format,
    content: &[u8],
    limits: Limits,
) -> Result<Picture, ImageError> {
    guarded(|| match format {
        Format::Gif => gif::decode(content, limits),
        Format::Png => png::decode(content, limits),
        Format::Jpeg => jpeg::decode(content, limits),
        Format::Webp => webp::decode(content, limits),
        Format::Avif => Err(ImageError::NotApplicable(
            "it is AVIF, which this program does not decode",
        )),
    })
}

/// Converts the error of a library.
fn malformed(error: impl std::fmt::Display) -> ImageError {
    ImageError::Malformed(error.to_string())
}
