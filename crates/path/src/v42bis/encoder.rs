//! Encodes characters to the bytes on the line.

use super::bits::BitWriter;
use super::matching::Matching;
use super::{CHARACTER_BITS, Escape, FIRST_CODEWORD_BITS, Parameters, command, control};

/// The number of characters after which the encoder compares the two modes.
const PERIOD: u32 = 256;
/// The bits of a change to compressed mode: an escape character and a command.
const CHANGE_BITS: u32 = 2 * CHARACTER_BITS;

/// The encoder of one direction. It starts in transparent mode.
///
/// **The test of compressibility.** After each 256 characters, the encoder compares the bits that these characters
/// took, or would have taken, in each mode. It leaves the compressed mode if that mode took more bits. It leaves
/// the transparent mode if that mode took more bits than the compressed mode and the change of mode together.
///
/// Its state is bounded: the dictionary, and less than a byte of output. Any split of the input gives the same
/// output.
#[derive(Debug, Clone)]
pub struct Encoder {
    parameters: Parameters,
    matching: Matching,
    compressed: bool,
    escape: Escape,
    writer: BitWriter,
    /// The current size of codewords, in bits (C2).
    codeword_bits: u32,
    period: Period,
}

/// The number of characters since the last comparison, and the bits that they take in each mode.
#[derive(Debug, Clone, Default)]
struct Period {
    characters: u32,
    transparent_bits: u32,
    compressed_bits: u32,
}

impl Encoder {
    /// Creates an encoder in the state after the modems have connected.
    pub fn new(parameters: Parameters) -> Encoder {
        Encoder {
            parameters,
            matching: Matching::new(parameters),
            compressed: false,
            escape: Escape::default(),
            writer: BitWriter::default(),
            codeword_bits: FIRST_CODEWORD_BITS,
            period: Period::default(),
        }
    }

    /// Encodes characters. The last characters may stay in the encoder until more characters or [`Encoder::flush`].
    pub fn encode(&mut self, input: &[u8], output: &mut Vec<u8>) {
        for &character in input {
            if self.period.characters == PERIOD {
                self.choose_mode(output);
            }
            self.take(character, output);
        }
    }

    /// Writes all pending characters, and completes the last byte of the output.
    pub fn flush(&mut self, output: &mut Vec<u8>) {
        if !self.compressed {
            return;
        }
        self.end_string(output);
        if !self.writer.is_aligned() {
            self.write(control::FLUSH, output);
            self.period.compressed_bits += self.writer.align(output);
        }
    }

    fn take(&mut self, character: u8, output: &mut Vec<u8>) {
        let ended = self.matching.take(character);
        if self.compressed {
            if let Some(codeword) = ended {
                self.write_string(codeword, output);
            }
        } else {
            output.push(character);
            if let Some(codeword) = ended {
                let bits = u16::BITS - codeword.leading_zeros();
                self.period.compressed_bits += bits.max(self.codeword_bits);
            }
        }
        self.period.characters += 1;
        self.period.transparent_bits += CHARACTER_BITS;
        if self.escape.occurs(character) {
            self.period.transparent_bits += CHARACTER_BITS;
            if !self.compressed {
                output.push(command::EID);
            }
        }
    }

    /// Compares both modes over the last period (section 7.8).
    fn choose_mode(&mut self, output: &mut Vec<u8>) {
        let period = std::mem::take(&mut self.period);
        if self.compressed {
            if period.compressed_bits > period.transparent_bits {
                self.enter_transparent_mode(output);
            }
        } else if period.compressed_bits + CHANGE_BITS < period.transparent_bits {
            self.enter_compressed_mode(output);
        }
    }

    fn enter_transparent_mode(&mut self, output: &mut Vec<u8>) {
        self.end_string(output);
        self.write(control::ETM, output);
        self.writer.align(output);
        self.compressed = false;
        self.period = Period::default();
    }

    fn enter_compressed_mode(&mut self, output: &mut Vec<u8>) {
        // The characters of the string so far were sent one by one.
        self.matching.end();
        output.extend([self.escape.0, command::ECM]);
        self.compressed = true;
    }

    fn end_string(&mut self, output: &mut Vec<u8>) {
        if let Some(codeword) = self.matching.end() {
            self.write_string(codeword, output);
        }
    }

    /// Writes a string's codeword, after as many STEPUPs as it needs (section 7.4).
    fn write_string(&mut self, codeword: u16, output: &mut Vec<u8>) {
        while u32::from(codeword) >> self.codeword_bits > 0 {
            self.write(control::STEPUP, output);
            self.codeword_bits += 1;
        }
        debug_assert!(self.codeword_bits <= self.parameters.longest_codeword_bits());
        self.write(codeword, output);
    }

    fn write(&mut self, codeword: u16, output: &mut Vec<u8>) {
        self.writer.write(codeword, self.codeword_bits, output);
        self.period.compressed_bits += self.codeword_bits;
    }
}
