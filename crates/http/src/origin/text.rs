//! Numbers and texts in fixed buffers, without memory allocation.

/// A decimal number.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    digits: [u8; 20],
    start: u8,
}

impl Decimal {
    /// Formats `number` as digits, without leading zeros.
    pub fn new(number: u64) -> Decimal {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        let mut rest = number;
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Decimal {
            digits,
            start: start as u8,
        }
    }

    /// The digits as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start as usize..]
    }
}

/// Formats a number as sixteen lower-case hexadecimal digits.
pub fn hexadecimal(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (60 - 4 * place) & 15) as usize];
    }
    digits
}

/// A byte buffer of fixed size. Bytes that do not fit are dropped.
#[derive(Debug, Clone, Copy)]
pub struct FixedText<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> FixedText<N> {
    /// Creates an empty text.
    pub fn new() -> FixedText<N> {
        FixedText {
            bytes: [0; N],
            length: 0,
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) -> &mut FixedText<N> {
        let fitting = bytes.len().min(N - self.length);
        self.bytes[self.length..self.length + fitting].copy_from_slice(&bytes[..fitting]);
        self.length += fitting;
        self
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            let text = number.to_string();
            assert_eq!(Decimal::new(number).as_bytes(), text.as_bytes());
            assert_eq!(
                hexadecimal(number)[..],
                format!("{number:016x}").into_bytes()
            );
        }
    }
}
