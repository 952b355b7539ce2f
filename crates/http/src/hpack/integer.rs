//! Integers with a prefix (RFC 7541 section 5.1), as HPACK and QPACK write them.

/// The largest integer that is accepted: the largest QUIC integer. No valid integer of either format is larger.
const LARGEST: u64 = (1 << 62) - 1;

/// An integer above [`LARGEST`], or an integer in more bytes than [`LARGEST`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Appends an integer. The first byte has `pattern` above its last `prefix` bits (1 to 8).
pub(crate) fn encode(value: u64, prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let most = (1u64 << prefix) - 1;
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | rest as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads the integer at the start of `input`, in the last `prefix` bits of the first byte and the bytes that
/// follow. Returns the integer and its length in bytes, or `None` when it is incomplete.
///
/// # Errors
/// If the integer is too large.
pub(crate) fn decode(input: &[u8], prefix: u32) -> Result<Option<(u64, usize)>, TooLarge> {
    let Some(&first) = input.first() else {
        return Ok(None);
    };
    let most = (1u64 << prefix) - 1;
    let start = u64::from(first) & most;
    if start < most {
        return Ok(Some((start, 1)));
    }
    let mut value = start;
    for (place, &byte) in input[1..].iter().enumerate() {
        // Nine bytes contain 63 bits: a tenth byte is refused even if all its bits are zero.
        if place == 9 {
            return Err(TooLarge);
        }
        value += u64::from(byte & 0x7f) << (7 * place);
        if value > LARGEST {
            return Err(TooLarge);
        }
        if byte & 0x80 == 0 {
            return Ok(Some((value, place + 2)));
        }
    }
    if input.len() > 10 {
        return Err(TooLarge);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 appendix C.1.
        for (value, prefix, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b1010]),
            (42, 8, &[0b10_1010]),
        ] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(&out, prefix), Ok(Some((value, bytes.len()))));
        }
    }

    #[test]
    fn endless_and_oversized_integers_are_refused() {
        assert_eq!(decode(&[], 5), Ok(None));
        assert_eq!(decode(&[0x1f], 5), Ok(None));
        assert_eq!(decode(&[0x1f, 0x80, 0x80], 5), Ok(None));
        // Bytes with only zero bits may follow, but not without limit.
        assert_eq!(decode(&[0x1f, 0x80, 0x80, 0x00], 5), Ok(Some((31, 4))));
        assert_eq!(decode(&[0xff; 16], 8), Err(TooLarge));
        let endless = [&[0x1f][..], &[0x80; 12]].concat();
        assert_eq!(decode(&endless, 5), Err(TooLarge));
    }

    proptest! {
        #[test]
        fn encoded_integers_are_decoded_back(value in 0..=LARGEST, prefix in 1u32..=8, shift in 0u32..62) {
            let value = value >> shift;
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            prop_assert_eq!(decode(&out, prefix), Ok(Some((value, out.len()))));
            for end in 0..out.len() {
                prop_assert_eq!(decode(&out[..end], prefix), Ok(None));
            }
        }
    }
}
