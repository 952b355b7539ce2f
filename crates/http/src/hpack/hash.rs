//! The hash by which fields are found: quick on short texts, the same at compile time.
//!
//! It is not keyed. Who chooses the fields of a connection could make them collide, and would then
//! slow a search of at most as many entries as the dynamic table has.

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a name.
pub(crate) const fn of(text: &[u8]) -> u64 {
    with(0, text)
}

/// The hash of a value after that of its name.
pub(crate) const fn with(seed: u64, text: &[u8]) -> u64 {
    let mut hash = seed ^ (text.len() as u64).wrapping_mul(FACTOR);
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*word));
        rest = after;
    }
    let mut last = 0u64;
    while let Some((&octet, after)) = rest.split_first() {
        last = last << 8 | octet as u64;
        rest = after;
    }
    mix(hash ^ last)
}

/// Both halves of a product of 128 bits.
const fn mix(word: u64) -> u64 {
    let product = (word ^ FACTOR) as u128 * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}
