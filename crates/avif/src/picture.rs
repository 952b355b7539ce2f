//! Encodes a picture as a file.

use crate::container::Contents;
use crate::encoder::{self, ALPHA_QUANTIZER, QUANTIZER};
use crate::error::Error;
use crate::planes::Planes;

/// A still picture.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// Red, green, blue and alpha of each pixel, row by row.
    pub rgba: &'a [u8],
    /// The ICC profile, which is copied into the file; without it the colours are sRGB.
    pub icc: Option<&'a [u8]>,
    /// The EXIF metadata without the header of an image format; copied into the file. Browsers ignore the EXIF
    /// orientation in an AVIF.
    pub exif: Option<&'a [u8]>,
}

/// An encoded AVIF picture.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The file.
    pub file: Vec<u8>,
    /// Red, green, blue and alpha of each pixel, row by row, as decoders show them (except for rounding). The colours
    /// of transparent pixels are undefined.
    pub rgba: Vec<u8>,
}

impl Picture<'_> {
    /// Encodes the picture. Samples have 8 bits; colours have the full resolution (4:4:4). A grey picture has one
    /// plane, unless its profile has three channels. A picture with transparency also has an alpha plane.
    ///
    /// # Errors
    ///
    /// If the number of pixels does not match the size, AVIF does not support the size or the profile, or the
    /// encoder fails.
    pub fn encode(&self) -> Result<Encoded, Error> {
        let (pixels, rest) = self.rgba.as_chunks::<4>();
        let expected = u64::from(self.width) * u64::from(self.height);
        if pixels.len() as u64 != expected || !rest.is_empty() || expected == 0 {
            return Err(Error::Pixels {
                pixels: pixels.len(),
                width: self.width,
                height: self.height,
            });
        }
        let size = (self.width as usize, self.height as usize);
        let mut planes = Planes::of(pixels, size.0);
        match self.icc.map(space_of) {
            Some(Some(b"RGB ")) => planes.add_colours(),
            None => {}
            Some(Some(b"GRAY")) if planes.colour.len() == 1 => {}
            Some(_) => return Err(Error::Profile),
        }
        let meaning = encoder::meaning(self.icc.is_none());
        let colour = encoder::encode(&planes.colour, size, QUANTIZER, Some(meaning))?;
        let alpha = match planes.alpha {
            Some(alpha) => Some(encoder::encode(&[alpha], size, ALPHA_QUANTIZER, None)?),
            None => None,
        };
        let contents = Contents {
            width: self.width,
            height: self.height,
            colour: &colour,
            alpha: alpha.as_ref(),
            icc: self.icc,
            exif: self.exif,
        };
        let file = contents.file()?;
        let shown = Planes {
            colour: colour.planes,
            alpha: alpha.and_then(|alpha| alpha.planes.into_iter().next()),
        };
        let rgba = shown.rgba();
        Ok(Encoded { file, rgba })
    }
}

/// Returns the colour space of an ICC profile (ICC.1:2022, section 7.2.8).
fn space_of(icc: &[u8]) -> Option<&[u8; 4]> {
    icc.get(16..20)?.try_into().ok()
}
