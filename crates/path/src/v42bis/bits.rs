//! Codewords as bits: least significant bits first, in both the codeword and the byte.

/// Bits that do not fill a byte yet.
#[derive(Debug, Clone, Default)]
pub(super) struct BitWriter {
    bits: u32,
    count: u32,
}

impl BitWriter {
    /// Writes a codeword of `size` bits, at most 16.
    pub(super) fn write(&mut self, codeword: u16, size: u32, output: &mut Vec<u8>) {
        self.bits |= u32::from(codeword) << self.count;
        self.count += size;
        while self.count >= 8 {
            output.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    /// Whether the last byte is complete.
    pub(super) fn is_aligned(&self) -> bool {
        self.count == 0
    }

    /// Completes the last byte with zero bits. Returns the number of added bits.
    pub(super) fn align(&mut self, output: &mut Vec<u8>) -> u32 {
        let missing = (8 - self.count) % 8;
        self.write(0, missing, output);
        missing
    }
}

/// Bits that were read from the input and are not part of a codeword yet.
#[derive(Debug, Clone, Default)]
pub(super) struct BitReader {
    bits: u32,
    count: u32,
}

impl BitReader {
    /// Reads a codeword of `size` bits, at most 16, from the input. Returns `None` if the input ends before the codeword.
    pub(super) fn read(&mut self, size: u32, input: &mut &[u8]) -> Option<u16> {
        while self.count < size {
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            self.bits |= u32::from(byte) << self.count;
            self.count += 8;
        }
        let codeword = self.bits & ((1 << size) - 1);
        self.bits >>= size;
        self.count -= size;
        Some(codeword as u16)
    }

    /// Discards the remaining bits of the last byte: fewer than eight bits, because no byte is read early.
    pub(super) fn align(&mut self) {
        *self = BitReader::default();
    }
}
