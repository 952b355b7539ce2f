//! Strings, coded or as they are (RFC 7541 section 5.2), as HPACK and QPACK write them.

use super::integer;
use crate::huffman;

/// Appends a string: coded where that is not longer. Its length has a prefix of `prefix` bits, the bit
/// above them says whether it is coded, and `pattern` is above that.
pub(crate) fn encode(text: &[u8], prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_length(text);
    if coded <= text.len() && !text.is_empty() {
        integer::encode(coded as u64, prefix, pattern | 1 << prefix, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len() as u64, prefix, pattern, out);
        out.extend_from_slice(text);
    }
}

/// A string as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    octets: &'a [u8],
    is_coded: bool,
}

impl Written<'_> {
    /// Octets as they are written.
    pub fn length(self) -> u64 {
        self.octets.len() as u64
    }

    /// Appends its text.
    pub fn append_to(self, out: &mut Vec<u8>) -> Result<(), huffman::Invalid> {
        if self.is_coded {
            huffman::decode(self.octets, out)
        } else {
            out.extend_from_slice(self.octets);
            Ok(())
        }
    }
}

/// Reads the string that `input` starts with, its length in a prefix of `prefix` bits. Returns it and
/// how many octets it takes, its length among them.
///
/// # Errors
/// The length and whether it is a sensible one, when the string is not there whole.
pub(crate) fn read(input: &[u8], prefix: u32) -> Result<(Written<'_>, usize), Missing> {
    let (length, start) = match integer::decode(input, prefix) {
        Ok(Some((length, start))) => (length, start),
        Ok(None) => return Err(Missing::Length),
        Err(integer::TooLarge) => return Err(Missing::TooLong),
    };
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| start.checked_add(length));
    match end.and_then(|end| Some((input.get(start..end)?, end))) {
        Some((octets, end)) => {
            let is_coded = input[0] & 1 << prefix != 0;
            Ok((Written { octets, is_coded }, end))
        }
        None => Err(Missing::Octets(length)),
    }
}

/// What of a string is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its length is not there whole.
    Length,
    /// Its length is no number of octets.
    TooLong,
    /// Its length is there, and fewer octets.
    Octets(u64),
}
