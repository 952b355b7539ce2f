//! A packed encoding of values in memory.

use serde::{Deserialize, Serialize};

/// Encodes a value. A number takes as many bytes as it needs.
pub(super) fn packed<T: Serialize>(value: &T) -> Box<[u8]> {
    // Encoding these fixed types into a growable buffer cannot fail.
    let bytes = postcard::to_allocvec(value).expect("a value of these types can be encoded");
    bytes.into_boxed_slice()
}

/// Decodes a value that [`packed`] encoded.
pub(super) fn unpacked<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> T {
    postcard::from_bytes(bytes).expect("a value that this program encoded can be decoded")
}
