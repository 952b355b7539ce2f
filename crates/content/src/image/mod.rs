//! Images: converts them to other formats or re-encodes them, with the same pixels or with a stated distortion.
//!
//! Files are untrusted: every decoder runs with [`Limits`], and the panic of a decoder is an error of the file.

mod apng;
#[cfg(any(feature = "avif", test))]
mod avif;
mod canvas;
mod decode;
mod encode;
#[cfg(any(feature = "avif", test))]
mod exif;
mod picture;
mod replacement;
mod sprite;
mod ssim;
mod treatment;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use picture::{Frame, Picture};
pub use replacement::{Band, Replacement, TextShape};
pub use sprite::{Sprite, by_palette};
pub use ssim::{SSIM_DEFINITION, ssim};
pub use treatment::{Encoded, Image, ImageTreatment};

/// A format of images, determined by the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// GIF 87a and 89a.
    Gif,
    /// PNG and APNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
    /// AVIF, a still image or a sequence.
    Avif,
}

impl Format {
    /// Returns the format of a file, determined by its first bytes as in browsers (MIME Sniffing, section 6.1).
    pub fn of(content: &[u8]) -> Option<Format> {
        match content {
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Format::Gif),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Format::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Format::Webp),
            [_, _, _, _, b'f', b't', b'y', b'p', ..] if is_avif(content) => Some(Format::Avif),
            _ => None,
        }
    }

    /// Returns the media type of the format (IANA).
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Gif => "image/gif",
            Format::Png => "image/png",
            Format::Jpeg => "image/jpeg",
            Format::Webp => "image/webp",
            Format::Avif => "image/avif",
        }
    }

    /// Returns the format that a file name's extension indicates.
    pub fn of_extension(extension: &str) -> Option<Format> {
        match extension.to_ascii_lowercase().as_str() {
            "gif" => Some(Format::Gif),
            "png" | "apng" => Some(Format::Png),
            "jpg" | "jpeg" | "jpe" | "jfif" => Some(Format::Jpeg),
            "webp" => Some(Format::Webp),
            "avif" => Some(Format::Avif),
            _ => None,
        }
    }
}

/// The maximum number of bytes that are read from a file type box.
const LARGEST_FILE_TYPE_BOX: u32 = 1024;

/// Returns whether the file type box at the beginning of a file contains a brand of AVIF, as its major brand or as a
/// compatible brand (ISO/IEC 14496-12, section 4.3; AVIF 1.1, section 6).
fn is_avif(content: &[u8]) -> bool {
    let (words, _) = content.as_chunks::<4>();
    let Some((&length, words)) = words.split_first() else {
        return false;
    };
    // The words of the box after its length. Longer lists of brands do not occur in practice.
    let length = u32::from_be_bytes(length).min(LARGEST_FILE_TYPE_BOX) as usize / 4;
    let brands = words.iter().take(length.saturating_sub(1)).enumerate();
    // The first word is the type of the box, the third is the minor version.
    brands
        .filter(|(at, _)| ![0, 2].contains(at))
        .any(|(_, brand)| brand == b"avif" || brand == b"avis")
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Format::Gif => "GIF",
            Format::Png => "PNG",
            Format::Jpeg => "JPEG",
            Format::Webp => "WebP",
            Format::Avif => "AVIF",
        })
    }
}

/// The limits of a decoder. The memory of a decoder is proportional to the number of pixels.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of pixels in all frames together.
    pub pixels: u64,
    /// The maximum number of frames of an animation.
    pub frames: u32,
}

impl Limits {
    /// Refuses a canvas that is too large, before its memory is allocated.
    fn check(self, width: u32, height: u32, frames: u32) -> Result<(), ImageError> {
        if width == 0 || height == 0 {
            return Err(ImageError::Malformed("it has no pixels".to_owned()));
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels.saturating_mul(u64::from(frames)) > self.pixels {
            return Err(ImageError::TooLarge {
                width,
                height,
                frames,
                limit: self.pixels,
            });
        }
        if frames > self.frames {
            return Err(ImageError::TooManyFrames(self.frames));
        }
        Ok(())
    }

    /// Returns the bytes of all pixels, plus additional rows for the decoder.
    fn bytes(self) -> usize {
        let bytes = self.pixels.saturating_mul(4).saturating_add(1 << 20);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// The reason why an image is not treated.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The decoder refused the image.
    #[error("the image is malformed: {0}")]
    Malformed(String),
    /// The file name indicates another format than the content. Depending on the server's fields, a browser uses the
    /// bytes or does not show such an image.
    #[error("its name indicates {named}, its first bytes indicate {}", .found.map_or("no image".to_owned(), |found| found.to_string()))]
    Mislabelled {
        /// The format that the name indicates.
        named: Format,
        /// The format of the content, if it is an image.
        found: Option<Format>,
    },
    /// The image has more pixels than permitted.
    #[error(
        "{frames} frames of {width} x {height} pixels are more than {limit} pixels (--max-pixels)"
    )]
    TooLarge {
        /// The number of pixels in a row.
        width: u32,
        /// The number of rows.
        height: u32,
        /// The number of frames.
        frames: u32,
        /// The maximum number of pixels in all frames together.
        limit: u64,
    },
    /// The animation has more frames than permitted.
    #[error("the animation has more than {0} frames")]
    TooManyFrames(u32),
    /// The treatment cannot preserve a property of the image. The image itself is valid.
    #[error("not treated: {0}")]
    NotApplicable(&'static str),
    /// An encoder failed.
    #[error("the encoder failed: {0}")]
    Encoder(String),
    /// A library panicked on the image.
    #[error("the image library panicked: {0}")]
    Panicked(String),
    /// A lossless treatment changed the image, which is a defect of this program.
    #[error("{0} changes the image: please report it")]
    Changed(String),
}

/// Calls a library with an untrusted image. A panic in the library becomes an error of the image, so that the
/// other files are still treated.
fn guarded<T>(work: impl FnOnce() -> Result<T, ImageError>) -> Result<T, ImageError> {
    // This is unwind-safe, because only the result is used after a panic.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let message = message.unwrap_or_else(|| "panic without a message".to_owned());
        Err(ImageError::Panicked(message))
    })
}

#[cfg(test)]
mod tests;
