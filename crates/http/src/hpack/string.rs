//! Strings, Huffman-coded or literal (RFC 7541 section 5.2), as HPACK and QPACK write them.

use super::integer;
use crate::huffman;

/// Appends a string, Huffman-coded if the code is not longer than the text. The first byte contains, from the high
/// bits: `pattern`, the Huffman bit, and the `prefix` bits of the length.
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

/// A string in its encoded form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl Written<'_> {
    /// The length of the encoded form in bytes.
    pub fn length(self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends the decoded text.
    pub fn append_to(self, out: &mut Vec<u8>) -> Result<(), huffman::Invalid> {
        if self.is_coded {
            huffman::decode(self.bytes, out)
        } else {
            out.extend_from_slice(self.bytes);
            Ok(())
        }
    }
}

/// Reads the string at the start of `input`, whose length has a prefix of `prefix` bits. Returns the string,
/// and the number of bytes read, including the length.
///
/// # Errors
/// If the string is incomplete or its length is too large.
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
        Some((bytes, end)) => {
            let is_coded = input[0] & 1 << prefix != 0;
            Ok((Written { bytes, is_coded }, end))
        }
        None => Err(Missing::Bytes(length)),
    }
}

/// The reason why a string cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its length is incomplete.
    Length,
    /// Its length is too large.
    TooLong,
    /// The string has this length in bytes, but fewer bytes have arrived.
    Bytes(u64),
}
