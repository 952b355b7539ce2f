//! Inputs of the targets of V.42bis.

use fathometer_path::v42bis::Parameters;

/// The parameters that the first two bytes of an input choose, and the rest of it. Dictionaries are small, so that
/// they are full soon.
pub fn parameters(input: &[u8]) -> (Parameters, &[u8]) {
    let (head, rest) = input.split_at(input.len().min(2));
    let byte = |place: usize| head.get(place).copied().unwrap_or_default();
    let codewords = 512 + 7 * u16::from(byte(0));
    let longest = 6 + byte(1) % 245;
    let parameters = Parameters::new(codewords, longest).expect("they are within the ranges");
    (parameters, rest)
}
