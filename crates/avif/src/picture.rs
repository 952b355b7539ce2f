//! A picture as a file.

use crate::container::Contents;
use crate::encoder::{self, ALPHA_QUANTIZER, QUANTIZER};
use crate::error::Error;
use crate::planes::Planes;

/// A still picture.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Red, green, blue and alpha of each pixel, row by row.
    pub rgba: &'a [u8],
    /// The meaning of the colours; sRGB without it. It becomes part of the file as it is.
    pub icc: Option<&'a [u8]>,
    /// Metadata without a header of its own, which becomes part of the file as it is. Browsers do not turn an AVIF by it.
    pub exif: Option<&'a [u8]>,
}

/// A picture as AVIF.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The file.
    pub file: Vec<u8>,
    /// Red, green, blue and alpha of each pixel, row by row, as decoders show them: each sample to within rounding. The
    /// colours of transparent pixels have no meaning.
    pub rgba: Vec<u8>,
}

impl Picture<'_> {
    /// Encodes the picture. Samples have 8 bits, colours the full resolution (4:4:4). A picture without colours has one
    /// plane, unless its profile has three; a transparent one has a plane of alpha.
    ///
    /// # Errors
    ///
    /// If there is another number of pixels than the size says, AVIF cannot have the size or the profile, or the encoder
    /// fails.
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

/// The colour space of an ICC profile (ICC.1:2022, section 7.2.8).
fn space_of(icc: &[u8]) -> Option<&[u8; 4]> {
    icc.get(16..20)?.try_into().ok()
}
