//! The hash function of the field tables: fast on short texts, and usable at compile time.
//!
//! The function has no key. An attacker who chooses the fields of a connection can make them collide. A search
//! is then slower, but visits at most as many entries as the dynamic table has.

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the hash of a name.
pub(crate) const fn of(text: &[u8]) -> u64 {
    with(0, text)
}

/// Returns the hash of a value, seeded with the hash of its name.
pub(crate) const fn with(seed: u64, text: &[u8]) -> u64 {
    let mut hash = seed ^ (text.len() as u64).wrapping_mul(FACTOR);
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*word));
        rest = after;
    }
    let mut last = 0u64;
    while let Some((&byte, after)) = rest.split_first() {
        last = last << 8 | byte as u64;
        rest = after;
    }
    mix(hash ^ last)
}

/// Combines both halves of a 128-bit product.
const fn mix(word: u64) -> u64 {
    let product = (word ^ FACTOR) as u128 * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}
