//! Content codings of RFC 9110 section 8.4.1. They are applied once when a site is built, as on a server that stores
//! precompressed files.

use std::io::Write;

use fathometer_model::ContentCoding;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// Encodes `body` with `coding`, at zlib's default level (6). The gzip header contains no time stamp and no file name,
/// so equal bodies give equal bytes.
pub fn encode(coding: ContentCoding, body: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    let in_memory = "writing to memory does not fail";
    match coding {
        ContentCoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).expect(in_memory);
            encoder.finish().expect(in_memory)
        }
        ContentCoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).expect(in_memory);
            encoder.finish().expect(in_memory)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::{GzDecoder, ZlibDecoder};

    use super::*;

    #[test]
    fn both_codings_decode_to_the_body() {
        let body = b"a page, a page, a page and its pictures".repeat(50);
        let mut decoded = Vec::new();
        ZlibDecoder::new(&encode(ContentCoding::Deflate, &body)[..])
            .read_to_end(&mut decoded)
            .unwrap();
        assert_eq!(decoded, body);
        decoded.clear();
        GzDecoder::new(&encode(ContentCoding::Gzip, &body)[..])
            .read_to_end(&mut decoded)
            .unwrap();
        assert_eq!(decoded, body);
    }

    #[test]
    fn coding_twice_gives_the_same_bytes() {
        for coding in [ContentCoding::Deflate, ContentCoding::Gzip] {
            assert_eq!(encode(coding, b"stable"), encode(coding, b"stable"));
        }
    }
}
