//! Variable-length integers (RFC 9000 section 16).

/// The maximum value.
pub(crate) const LARGEST: u64 = (1 << 62) - 1;

/// The number of bytes in the shortest encoding of an integer.
pub(crate) const fn length(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of an integer of at most 62 bits.
pub(crate) fn write(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= LARGEST);
    match length(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Reads the integer at the start of `input`. Returns the value and its length in bytes; `None` if the input is
/// incomplete.
pub(crate) fn read(input: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (input.first()? >> 6);
    let bytes = input.get(..length)?;
    let value = bytes
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte));
    // The first two bits encode the length.
    Some((value & (LARGEST >> (62 - (8 * length - 2))), length))
}

/// Removes an integer from the front of `input` and returns it; `None` if the input is incomplete.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let (value, length) = read(input)?;
    *input = &input[length..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_integers_are_read_back() {
        let edges = [
            0,
            0x3f,
            0x40,
            0x3fff,
            0x4000,
            0x3fff_ffff,
            0x4000_0000,
            LARGEST,
        ];
        for value in edges {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!(out.len(), length(value));
            assert_eq!(read(&out), Some((value, out.len())));
            for end in 0..out.len() {
                assert_eq!(read(&out[..end]), None);
            }
        }
        // Examples from RFC 9000 appendix A.1.
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(read(&long), Some((151_288_809_941_952_652, 8)));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(read(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(
            read(&[0x40, 0x25]),
            Some((37, 2)),
            "an encoding longer than necessary is valid"
        );
    }
}
