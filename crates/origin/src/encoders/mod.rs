//! The encoders for the origin's compression on the fly: zlib-rs, brotli and zstd.

mod brotli;

use std::io::Write;

use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::negotiation::{Encoder, Encoders};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use self::brotli::Brotli;

/// The encoders of zlib-rs, brotli and zstd.
#[derive(Debug, Clone, Copy, Default)]
pub struct LibraryEncoders;

impl Encoders for LibraryEncoders {
    fn start(
        &self,
        coding: Coding,
        level: u32,
        length: u64,
        dictionary: Option<&[u8]>,
    ) -> Option<Box<dyn Encoder>> {
        let output = Vec::new();
        Some(match coding {
            Coding::Deflate => Box::new(Zlib(ZlibEncoder::new(output, Compression::new(level)))),
            Coding::Gzip => Box::new(Gzip(GzEncoder::new(output, Compression::new(level)))),
            Coding::Brotli => Box::new(Brotli::new(level, length, None)),
            Coding::DictionaryBrotli => Box::new(Brotli::new(level, length, Some(dictionary?))),
            Coding::Zstd => Box::new(Zstd::new(level, length, None)?),
            Coding::DictionaryZstd => Box::new(Zstd::new(level, length, Some(dictionary?))?),
        })
    }
}

struct Zlib(ZlibEncoder<Vec<u8>>);
struct Gzip(GzEncoder<Vec<u8>>);
struct Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>);

/// The smallest Zstandard window, and the largest that every decoder supports (RFC 9842 section 5), as powers
/// of two.
const SMALLEST_WINDOW: u32 = 10;
const LARGEST_WINDOW: u32 = 23;

impl Zstd {
    fn new(level: u32, length: u64, dictionary: Option<&[u8]>) -> Option<Zstd> {
        let level = i32::try_from(level).ok()?;
        let output = Vec::new();
        let mut encoder = match dictionary {
            None => zstd::stream::write::Encoder::new(output, level),
            Some(dictionary) => {
                zstd::stream::write::Encoder::with_dictionary(output, level, dictionary)
            }
        }
        .ok()?;
        // The frame header states the content size, and the window is no larger than the content.
        encoder.set_pledged_src_size(Some(length)).ok()?;
        if dictionary.is_some() {
            // The dictionary can be referenced until the content is longer than the window.
            let window = u64::BITS - length.leading_zeros();
            let window = window.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
            encoder.window_log(window).ok()?;
        }
        Some(Zstd(encoder))
    }
}

impl Encoder for Zlib {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        self.0.finish().ok()
    }
}

impl Encoder for Gzip {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        self.0.finish().ok()
    }
}

impl Encoder for Zstd {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        self.0.finish().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn decoded(coding: Coding, coded: &[u8], dictionary: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let read = match coding {
            Coding::Deflate => flate2::read::ZlibDecoder::new(coded).read_to_end(&mut plain),
            Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut plain),
            Coding::Brotli => ::brotli::Decompressor::new(coded, 4096).read_to_end(&mut plain),
            Coding::Zstd => zstd::stream::read::Decoder::new(coded)
                .unwrap()
                .read_to_end(&mut plain),
            Coding::DictionaryBrotli => {
                let dictionary = dictionary.to_vec().into();
                ::brotli::Decompressor::new_with_custom_dict(coded, 4096, dictionary)
                    .read_to_end(&mut plain)
            }
            Coding::DictionaryZstd => {
                zstd::stream::read::Decoder::with_dictionary(coded, dictionary)
                    .unwrap()
                    .read_to_end(&mut plain)
            }
        };
        read.unwrap();
        plain
    }

    #[test]
    fn every_coding_is_decoded_and_depends_on_the_content_alone() {
        let text: Vec<u8> = (0..30_000_u32)
            .flat_map(|n| format!("<li>{}</li>", n.wrapping_mul(0x9e37_79b9) >> 20).into_bytes())
            .collect();
        let dictionary = &text[..100_000];
        let all = Coding::ALONE.into_iter().chain(Coding::WITH_DICTIONARY);
        for coding in all {
            let used = coding.needs_dictionary().then_some(dictionary);
            for length in [0, 1, 300, text.len()] {
                let content = &text[..length];
                let coded = |slice: usize| {
                    let mut encoder = LibraryEncoders
                        .start(coding, 3, length as u64, used)
                        .unwrap();
                    for bytes in content.chunks(slice) {
                        assert!(encoder.write(bytes));
                    }
                    encoder.finish().unwrap()
                };
                let whole = coded(usize::MAX);
                assert_eq!(
                    decoded(coding, &whole, dictionary),
                    content,
                    "{coding:?} {length}"
                );
                // Content that is compressed again after an eviction has the same entity tag, so it must be the same.
                assert_eq!(coded(32 * 1024), whole, "{coding:?} {length}");
            }
            let whole = {
                let mut encoder = LibraryEncoders
                    .start(coding, 3, text.len() as u64, used)
                    .unwrap();
                assert!(encoder.write(&text));
                encoder.finish().unwrap()
            };
            assert!(whole.len() < text.len() / 2, "{coding:?}: {}", whole.len());
        }
    }

    #[test]
    fn short_content_does_not_have_the_window_that_the_encoder_is_slow_with() {
        for quality in [1, 5, 6] {
            for dictionary in [None, Some(&[b'a'; 300][..])] {
                let coding = match dictionary {
                    None => Coding::Brotli,
                    Some(_) => Coding::DictionaryBrotli,
                };
                let encoder = LibraryEncoders.start(coding, quality, 300, dictionary);
                let mut encoder = encoder.unwrap();
                assert!(encoder.write(&[b'b'; 300]));
                let coded = encoder.finish().unwrap();
                // The first bits state the window; a zero bit states 16 (RFC 7932 section 9.1).
                assert_eq!(coded[0] & 1, 1, "quality {quality}: {:x}", coded[0]);
            }
        }
    }
}
