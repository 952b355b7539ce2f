//! The content codings of HTTP, each with its levels.

use std::fmt;
use std::io::{self, Read as _, Write as _};

use brotli::enc::BrotliEncoderParams;

/// A content coding at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip` (RFC 1952), level 1 to 9, by zlib-rs.
    Gzip(u32),
    /// `br` (RFC 7932), quality 0 to 11, window of 4 MiB.
    Brotli(u32),
    /// `zstd` (RFC 8878), level 1 to 19. At these levels the window stays within the 8 MiB that RFC 9659
    /// permits.
    Zstd(i32),
}

/// A coding failed.
#[derive(Debug, thiserror::Error)]
pub enum CodingError {
    /// The encoder or decoder reported an error.
    #[error("{coding}: {cause}")]
    Failed {
        /// The coding and its level.
        coding: String,
        /// The error of the library.
        #[source]
        cause: io::Error,
    },
    /// The decoded content is longer than permitted.
    #[error("{coding}: the content is longer than {limit} bytes")]
    TooLong {
        /// The coding and its level.
        coding: String,
        /// The limit in bytes.
        limit: usize,
    },
}

impl fmt::Display for Coding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coding::Gzip(level) => write!(out, "gzip {level}"),
            Coding::Brotli(quality) => write!(out, "brotli {quality}"),
            Coding::Zstd(level) => write!(out, "zstd {level}"),
        }
    }
}

impl Coding {
    /// Encodes the content.
    ///
    /// # Errors
    ///
    /// If the library fails.
    pub fn encode(self, content: &[u8]) -> Result<Vec<u8>, CodingError> {
        self.try_encode(content).map_err(|cause| self.failed(cause))
    }

    fn try_encode(self, content: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Coding::Gzip(level) => {
                let level = flate2::Compression::new(level);
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(content)?;
                encoder.finish()
            }
            Coding::Brotli(quality) => {
                let parameters = BrotliEncoderParams {
                    quality: quality as i32,
                    lgwin: 22,
                    size_hint: content.len(),
                    ..BrotliEncoderParams::default()
                };
                let mut coded = Vec::new();
                brotli::BrotliCompress(&mut &content[..], &mut coded, &parameters)?;
                Ok(coded)
            }
            Coding::Zstd(level) => zstd::bulk::compress(content, level),
        }
    }

    /// Decodes content of at most `limit` bytes. Memory is bounded by the limit and the window of the coding,
    /// for any input.
    ///
    /// # Errors
    ///
    /// If the input is malformed or truncated, or if its content is longer than the limit.
    pub fn decode(self, coded: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
        let content = self
            .try_decode(coded, limit)
            .map_err(|cause| self.failed(cause))?;
        if content.len() > limit {
            let coding = self.to_string();
            return Err(CodingError::TooLong { coding, limit });
        }
        Ok(content)
    }

    fn try_decode(self, coded: &[u8], limit: usize) -> io::Result<Vec<u8>> {
        // One additional byte shows whether the content exceeds the limit.
        let most = limit as u64 + 1;
        let mut content = Vec::new();
        match self {
            Coding::Gzip(_) => flate2::read::MultiGzDecoder::new(coded)
                .take(most)
                .read_to_end(&mut content)?,
            Coding::Brotli(_) => brotli::Decompressor::new(coded, 4096)
                .take(most)
                .read_to_end(&mut content)?,
            Coding::Zstd(_) => {
                let mut decoder = zstd::stream::read::Decoder::new(coded)?;
                decoder.window_log_max(23)?;
                decoder.take(most).read_to_end(&mut content)?
            }
        };
        Ok(content)
    }

    fn failed(self, cause: io::Error) -> CodingError {
        let coding = self.to_string();
        CodingError::Failed { coding, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODINGS: [Coding; 3] = [Coding::Gzip(9), Coding::Brotli(9), Coding::Zstd(19)];

    #[test]
    fn a_decompression_bomb_ends_at_the_limit() {
        let zeros = vec![0; 1 << 24];
        for coding in CODINGS {
            let coded = coding.encode(&zeros).unwrap();
            assert!(coded.len() < 20_000, "{coding}: {}", coded.len());
            let refused = coding.decode(&coded, 1000);
            assert!(
                matches!(refused, Err(CodingError::TooLong { limit: 1000, .. })),
                "{coding}: {refused:?}"
            );
            assert_eq!(coding.decode(&coded, zeros.len()).unwrap(), zeros);
        }
    }

    #[test]
    fn cut_off_and_malformed_inputs_are_errors() {
        let text = b"Once upon a midnight dreary, while I pondered, weak and weary".repeat(20);
        for coding in CODINGS {
            let coded = coding.encode(&text).unwrap();
            assert!(
                coding
                    .decode(&coded[..coded.len() / 2], text.len())
                    .is_err()
            );
            assert!(coding.decode(b"\xff\xfe not coded", text.len()).is_err());
        }
    }

    #[test]
    fn empty_contents_are_coded_too() {
        for coding in CODINGS {
            let coded = coding.encode(b"").unwrap();
            assert_eq!(coding.decode(&coded, 0).unwrap(), b"");
        }
    }
}
