//! Zstandard with a dictionary that the files of a site share (RFC 9842, coding `dcz`).

use crate::CodingError;

/// The bytes that precede the content of each `dcz` response: magic number, size, and SHA-256 of the dictionary
/// (RFC 9842, section 5).
pub const DCZ_HEADER_BYTES: usize = 40;

/// A trained dictionary and its compression level.
#[derive(Clone, Debug)]
pub struct Dictionary {
    bytes: Vec<u8>,
    level: i32,
}

impl Dictionary {
    /// Trains a dictionary of at most `most` bytes with the samples.
    ///
    /// # Errors
    ///
    /// If there are too few samples, or the samples are too small: zstd requires several samples with more bytes than
    /// the dictionary.
    pub fn train(samples: &[Vec<u8>], most: usize, level: i32) -> Result<Dictionary, CodingError> {
        let bytes = zstd::dict::from_samples(samples, most).map_err(failed("train"))?;
        Ok(Dictionary { bytes, level })
    }

    /// Returns the dictionary, which a client must fetch once.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Encodes the content as one Zstandard frame, without the header of [`DCZ_HEADER_BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// If the library fails.
    pub fn encode(&self, content: &[u8]) -> Result<Vec<u8>, CodingError> {
        zstd::bulk::Compressor::with_dictionary(self.level, &self.bytes)
            .and_then(|mut compressor| compressor.compress(content))
            .map_err(failed("encode"))
    }

    /// Decodes a frame with at most `limit` bytes of content.
    ///
    /// # Errors
    ///
    /// If the frame is malformed, needs another dictionary, or has more content.
    pub fn decode(&self, coded: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
        zstd::bulk::Decompressor::with_dictionary(&self.bytes)
            .and_then(|mut decompressor| decompressor.decompress(coded, limit))
            .map_err(failed("decode"))
    }
}

fn failed(step: &'static str) -> impl Fn(std::io::Error) -> CodingError {
    move |cause| CodingError::Failed {
        coding: format!("zstd with a dictionary ({step})"),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coding;

    /// Returns pages with a common frame and different texts.
    pub(super) fn pages() -> Vec<Vec<u8>> {
        (0..200_u64)
            .map(|page| {
                let own: String = (0..30)
                    .map(|word| format!("{:x} ", page.wrapping_mul(0x9e37_79b9).rotate_left(word)))
                    .collect();
                let frame =
                    "<nav class=\"main-menu\"><a href=\"/products/index.html\">Products</a></nav>";
                format!("<!doctype html><title>{page}</title>{frame}<p>{own}</p>").into_bytes()
            })
            .collect()
    }

    #[test]
    fn a_dictionary_saves_what_pages_share_and_decodes_only_with_itself() {
        let pages = pages();
        let dictionary = Dictionary::train(&pages, 4096, 19).unwrap();
        assert!(dictionary.bytes().len() <= 4096);
        for page in &pages {
            let coded = dictionary.encode(page).unwrap();
            assert!(coded.len() < Coding::Zstd(19).encode(page).unwrap().len());
            assert_eq!(&dictionary.decode(&coded, page.len()).unwrap(), page);
            assert!(dictionary.decode(&coded, page.len() - 1).is_err());
            assert!(Coding::Zstd(19).decode(&coded, page.len()).is_err());
        }
    }

    #[test]
    fn too_few_samples_are_an_error() {
        assert!(Dictionary::train(&[b"one".to_vec()], 4096, 19).is_err());
    }
}
