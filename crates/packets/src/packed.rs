//! The packed form of values in memory.

use serde::{Deserialize, Serialize};

/// A value in the encoded form: a number takes as many bytes as it needs.
pub(super) fn packed<T: Serialize>(value: &T) -> Box<[u8]> {
    // The types are fixed and the memory can grow, so the encoder has no other reason to fail.
    let bytes = postcard::to_allocvec(value).expect("a value of these types can be encoded");
    bytes.into_boxed_slice()
}

/// The value that [`packed`] encoded.
pub(super) fn unpacked<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> T {
    postcard::from_bytes(bytes).expect("what this program encoded can be decoded")
}
