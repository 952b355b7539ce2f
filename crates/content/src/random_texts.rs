//! Pseudo-random texts, for tests of properties that must be true for any input.

/// Returns texts of `length` bytes of the alphabet. They are the same in each run, because they come from a linear
/// congruential generator (Knuth's MMIX).
pub(crate) fn random_texts(
    alphabet: &[u8],
    length: usize,
    texts: usize,
) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 1_u64;
    let text = move |_| {
        let byte = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // The low bits have short periods.
            alphabet[(state >> 33) as usize % alphabet.len()]
        };
        (0..length).map(byte).collect::<Vec<u8>>()
    };
    (0..texts).map(text)
}
