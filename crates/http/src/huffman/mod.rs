//! The Huffman code of HPACK and QPACK (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols. The
//! lengths alone therefore define the code, and all tables are built from them at compile time. The decoder
//! looks up ten bits at once, which covers the codes of most text. It finds longer codes by comparing with the
//! last code of each length.

mod code;

use code::{CODES, LONG, LOOK_UP_BITS, SHORT, SYMBOLS};

/// The end-of-string symbol, which must not occur in a string.
const END_OF_STRING: u16 = 256;

/// Invalid Huffman code: padding longer than seven bits or not all ones, or the end-of-string symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a string is not valid Huffman code")]
pub struct Invalid;

/// Returns the length of a text in bytes after encoding, including padding.
pub fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&byte| usize::from(CODES[usize::from(byte)].1))
        .sum();
    bits.div_ceil(8)
}

/// Appends the code of a text, padded with ones.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    // The bits still to be written are the last `waiting` bits of `bits`, always fewer than 32.
    let (mut bits, mut waiting) = (0u64, 0u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        let length = u32::from(length);
        bits = bits << length | u64::from(code);
        waiting += length;
        if waiting >= 32 {
            waiting -= 32;
            out.extend_from_slice(&((bits >> waiting) as u32).to_be_bytes());
        }
    }
    let padding = waiting.wrapping_neg() % 8;
    bits = bits << padding | ((1 << padding) - 1);
    waiting += padding;
    while waiting > 0 {
        waiting -= 8;
        out.push((bits >> waiting) as u8);
    }
}

/// Decodes a string and appends its text. Five bytes of code give at most eight bytes of text.
///
/// # Errors
/// If the input is not valid Huffman code; `out` then contains a part of the text.
pub fn decode(mut coded: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    out.reserve(coded.len() * 8 / 5);
    // The next bits are the first `waiting` bits of `bits`; the bits after them are zeros.
    let (mut bits, mut waiting) = (0u64, 0u32);
    loop {
        if let Some(word) = coded.first_chunk::<8>() {
            let taken = (63 - waiting) / 8;
            let word = u64::from_be_bytes(*word) >> (64 - 8 * taken) << (64 - 8 * taken);
            bits |= word >> waiting;
            waiting += 8 * taken;
            coded = &coded[taken as usize..];
        } else {
            while waiting <= 56
                && let Some((&byte, rest)) = coded.split_first()
            {
                bits |= u64::from(byte) << (56 - waiting);
                waiting += 8;
                coded = rest;
            }
        }
        // A code has at most 30 bits: while input is left, decode only when that many bits are available.
        let enough = if coded.is_empty() { 1 } else { 30 };
        while waiting >= enough {
            let (symbol, length) = next(bits);
            if length > waiting {
                break;
            }
            if symbol == END_OF_STRING {
                return Err(Invalid);
            }
            out.push(symbol as u8);
            bits <<= length;
            waiting -= length;
        }
        if coded.is_empty() {
            // The remaining bits must be padding: fewer than eight bits, all ones, like the start of the
            // end-of-string symbol.
            let ones = (bits.leading_ones()) >= waiting;
            return if waiting < 8 && ones {
                Ok(())
            } else {
                Err(Invalid)
            };
        }
    }
}

/// Returns the symbol whose code is at the start of `bits`, and the length of that code.
fn next(bits: u64) -> (u16, u32) {
    let short = SHORT[(bits >> (64 - LOOK_UP_BITS)) as usize];
    if short.length > 0 {
        return (u16::from(short.symbol), u32::from(short.length));
    }
    let start = (bits >> 32) as u32;
    // The upper bound of the last group is 32 ones, so that a group is always found.
    let group = LONG
        .iter()
        .find(|group| start <= group.last)
        .unwrap_or(&LONG[LONG.len() - 1]);
    let length = u32::from(group.length);
    let place = (start - group.first) >> (32 - length);
    let symbol = SYMBOLS[usize::from(group.place) + place as usize];
    (symbol, length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_length(text));
        out
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, Invalid> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 appendices C.4 and C.6.
        let examples: [(&[u8], &[u8]); 4] = [
            (
                b"www.example.com",
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ],
            ),
            (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (b"302", &[0x64, 0x02]),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ];
        for (text, code) in examples {
            assert_eq!(coded(text), code);
            assert_eq!(decoded(code).unwrap(), text);
        }
    }

    #[test]
    fn every_byte_has_its_code() {
        for byte in 0..=255u8 {
            for around in [&b""[..], b"a", b"abcdefgh", b"\x00\xff"] {
                let text = [around, &[byte], around].concat();
                assert_eq!(decoded(&coded(&text)).unwrap(), text);
            }
        }
        // Appendix B: the codes of two symbols.
        assert_eq!(coded(&[0]), [0xff, 0xc7]);
        assert_eq!(coded(&[22]), [0xff, 0xff, 0xff, 0xfb]);
    }

    #[test]
    fn padding_is_ones_and_less_than_a_byte() {
        assert_eq!(decoded(&[]).unwrap(), b"");
        // The code of "0" is five zero bits.
        assert_eq!(decoded(&[0b0000_0111]).unwrap(), b"0");
        for bad in [
            &[0b0000_0110][..],
            &[0b0000_0111, 0xff],
            &[0xff],
            &[0xff, 0xff, 0xff],
            // The end-of-string symbol, alone and after text.
            &[0xff, 0xff, 0xff, 0xff],
            &[0b0000_0111, 0xff, 0xff, 0xff, 0xff],
            // The first half of a long code.
            &[0xff, 0xc0],
        ] {
            assert_eq!(decoded(bad), Err(Invalid), "{bad:x?}");
        }
    }

    proptest! {
        #[test]
        fn encoded_text_is_decoded_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&coded(&text)).unwrap(), text);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(code in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(text) = decoded(&code) {
                prop_assert!(text.len() <= code.len() * 8 / 5);
                prop_assert_eq!(coded(&text), code);
            }
        }
    }
}
