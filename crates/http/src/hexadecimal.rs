//! Decodes the hexadecimal dumps of the RFCs' examples, for tests.

/// Decodes hexadecimal digits; ignores all other characters, such as spaces and line ends.
pub(crate) fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal
        .chars()
        .filter_map(|c| Some(c.to_digit(16)? as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
