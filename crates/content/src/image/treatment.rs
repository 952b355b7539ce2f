//! The treatments of images.

use std::borrow::Cow;
use std::fmt;

#[cfg(feature = "avif")]
use super::avif;
use super::{Format, ImageError, Limits, Picture, apng, decode, encode, guarded, ssim};

/// A file, and its decoded image.
#[derive(Debug)]
pub struct Image<'a> {
    format: Format,
    content: &'a [u8],
    picture: Picture,
    limits: Limits,
}

impl<'a> Image<'a> {
    /// Decodes the file, in the format that its first bytes indicate.
    ///
    /// # Errors
    ///
    /// If the file is malformed, exceeds the limits, or has a property that no treatment preserves.
    pub fn decode(
        format: Format,
        content: &'a [u8],
        limits: Limits,
    ) -> Result<Image<'a>, ImageError> {
        let picture = decode::decode(format, content, limits)?;
        Ok(Image {
            format,
            content,
            picture,
            limits,
        })
    }

    /// Returns the decoded image.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }
}

/// A treated image.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The file.
    pub file: Vec<u8>,
    /// The pixels that decoders show, as reported by the encoder; set only if this program has no decoder for the
    /// format.
    shown: Option<Picture>,
}

impl Encoded {
    /// Wraps a file that this program can decode.
    fn decodable(file: Vec<u8>) -> Encoded {
        Encoded { file, shown: None }
    }
}

/// A treatment of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageTreatment {
    /// Converts a still GIF to PNG, with oxipng.
    GifToPng,
    /// Converts an animated GIF to APNG.
    GifToApng,
    /// Optimises PNG and APNG with oxipng: removes chunks that browsers ignore, and interlacing.
    OptimisePng,
    /// Converts a still GIF or PNG to lossless WebP.
    ToWebp,
    /// Re-encodes a JPEG with this quality, 1 to 100. Lossy.
    Jpeg(u8),
    /// Converts a still GIF, PNG or JPEG to AVIF. Lossy.
    #[cfg(feature = "avif")]
    ToAvif,
}

impl ImageTreatment {
    /// Returns whether the treatment applies to images of this kind.
    pub fn applies_to(self, image: &Image<'_>) -> bool {
        let is_animated = image.picture.is_animated();
        match self {
            ImageTreatment::GifToPng => image.format == Format::Gif && !is_animated,
            ImageTreatment::GifToApng => image.format == Format::Gif && is_animated,
            ImageTreatment::OptimisePng => image.format == Format::Png,
            ImageTreatment::ToWebp => {
                matches!(image.format, Format::Gif | Format::Png) && !is_animated
            }
            ImageTreatment::Jpeg(_) => image.format == Format::Jpeg,
            #[cfg(feature = "avif")]
            ImageTreatment::ToAvif => {
                matches!(image.format, Format::Gif | Format::Png | Format::Jpeg) && !is_animated
            }
        }
    }

    /// Returns whether all pixels are preserved.
    pub fn is_lossless(self) -> bool {
        match self {
            ImageTreatment::GifToPng
            | ImageTreatment::GifToApng
            | ImageTreatment::OptimisePng
            | ImageTreatment::ToWebp => true,
            ImageTreatment::Jpeg(_) => false,
            #[cfg(feature = "avif")]
            ImageTreatment::ToAvif => false,
        }
    }

    /// Returns whether this program has a decoder for the format. If it has none, the encoder reports the pixels that
    /// decoders show, and there is no decoding time.
    pub fn has_decoder(self) -> bool {
        self.format() != Format::Avif
    }

    /// Returns the format of the result.
    pub fn format(self) -> Format {
        match self {
            ImageTreatment::GifToPng | ImageTreatment::GifToApng | ImageTreatment::OptimisePng => {
                Format::Png
            }
            ImageTreatment::ToWebp => Format::Webp,
            ImageTreatment::Jpeg(_) => Format::Jpeg,
            #[cfg(feature = "avif")]
            ImageTreatment::ToAvif => Format::Avif,
        }
    }

    /// Returns the treated file, which may be larger than the original.
    ///
    /// # Errors
    ///
    /// [`ImageError::NotApplicable`] if the treatment cannot preserve a property of the image; other errors if
    /// an encoder fails.
    pub fn encode(self, image: &Image<'_>) -> Result<Encoded, ImageError> {
        let picture = &image.picture;
        let file = |file: Result<Vec<u8>, ImageError>| file.map(Encoded::decodable);
        guarded(|| match self {
            ImageTreatment::GifToPng => file(encode::png(picture)),
            ImageTreatment::GifToApng => file(apng::apng(picture)),
            ImageTreatment::OptimisePng => file(encode::optimised_png(image.content, image.limits)),
            ImageTreatment::ToWebp => file(encode::webp(picture)),
            ImageTreatment::Jpeg(quality) => file(encode::jpeg(picture, quality)),
            #[cfg(feature = "avif")]
            ImageTreatment::ToAvif => avif::avif(picture).map(|(file, shown)| Encoded {
                file,
                shown: Some(shown),
            }),
        })
    }

    /// Decodes a treated image, or returns the image that the encoder reported.
    ///
    /// # Errors
    ///
    /// If the decoder refuses the file.
    pub fn decode<'e>(
        self,
        image: &Image<'_>,
        treated: &'e Encoded,
    ) -> Result<Cow<'e, Picture>, ImageError> {
        if let Some(shown) = &treated.shown {
            return Ok(Cow::Borrowed(shown));
        }
        decode::decode(self.format(), &treated.file, image.limits).map(Cow::Owned)
    }

    /// Compares the decoded result with the image. For a lossy treatment, returns the [`ssim`], if the image is at
    /// least as large as the window.
    ///
    /// # Errors
    ///
    /// If a lossless treatment changed a pixel, the time of a frame, or the number of plays.
    pub fn distortion(
        self,
        image: &Image<'_>,
        treated: &Picture,
    ) -> Result<Option<f64>, ImageError> {
        if !self.is_lossless() {
            return Ok(ssim(&image.picture, treated));
        }
        match image.picture.shows_the_same(treated) {
            true => Ok(None),
            false => Err(ImageError::Changed(self.to_string())),
        }
    }
}

impl fmt::Display for ImageTreatment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageTreatment::GifToPng => out.write_str("GIF to PNG"),
            ImageTreatment::GifToApng => out.write_str("animated GIF to APNG"),
            ImageTreatment::OptimisePng => out.write_str("PNG optimised"),
            ImageTreatment::ToWebp => out.write_str("GIF and PNG to lossless WebP"),
            ImageTreatment::Jpeg(quality) => write!(out, "JPEG again, quality {quality} (lossy)"),
            #[cfg(feature = "avif")]
            ImageTreatment::ToAvif => out.write_str("still images to AVIF (lossy)"),
        }
    }
}
