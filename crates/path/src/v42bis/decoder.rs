//! Decodes the bytes on the line to characters.

use super::bits::BitReader;
use super::matching::Matching;
use super::{CONTROL_CODEWORDS, Escape, FIRST_CODEWORD_BITS, Parameters, command, control};

/// Input that no encoder with the same parameters sends. The modems close their connection after such an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A codeword without a string in the dictionary.
    #[error("the dictionary has no string for codeword {0}")]
    UnknownCodeword(u16),
    /// A STEPUP beyond the longest codeword of the dictionary.
    #[error("a STEPUP makes codewords longer than {0} bits")]
    StepUp(u32),
    /// A command of the transparent mode that is reserved.
    #[error("command {0} after an escape character is reserved")]
    ReservedCommand(u8),
}

/// The decoder of one direction. It starts in transparent mode.
///
/// Its state is bounded: the dictionary, and less than two bytes of input. A byte of input gives at most one string
/// of output, which is at most 250 bytes. Any split of the input gives the same output.
#[derive(Debug, Clone)]
pub struct Decoder {
    parameters: Parameters,
    matching: Matching,
    compressed: bool,
    escape: Escape,
    /// Whether the last character was an escape character, in transparent mode.
    escaped: bool,
    reader: BitReader,
    /// The current size of codewords, in bits (C2).
    codeword_bits: u32,
    failure: Option<DecodeError>,
}

impl Decoder {
    /// Creates a decoder in the state after the modems have connected.
    pub fn new(parameters: Parameters) -> Decoder {
        Decoder {
            parameters,
            matching: Matching::new(parameters),
            compressed: false,
            escape: Escape::default(),
            escaped: false,
            reader: BitReader::default(),
            codeword_bits: FIRST_CODEWORD_BITS,
            failure: None,
        }
    }

    /// Decodes bytes of the line and appends the characters to `output`. After an error, `output` contains the
    /// characters before the error, and every later call returns the same error.
    pub fn decode(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), DecodeError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let result = self.decode_all(input, output);
        self.failure = result.err();
        result
    }

    fn decode_all(&mut self, mut input: &[u8], output: &mut Vec<u8>) -> Result<(), DecodeError> {
        loop {
            if self.compressed {
                let Some(codeword) = self.reader.read(self.codeword_bits, &mut input) else {
                    return Ok(());
                };
                self.take_codeword(codeword, output)?;
            } else {
                let Some((&byte, rest)) = input.split_first() else {
                    return Ok(());
                };
                input = rest;
                self.take_byte(byte, output)?;
            }
        }
    }

    fn take_codeword(&mut self, codeword: u16, output: &mut Vec<u8>) -> Result<(), DecodeError> {
        match codeword {
            control::ETM => {
                self.reader.align();
                self.compressed = false;
            }
            control::FLUSH => self.reader.align(),
            control::STEPUP => {
                let longest = self.parameters.longest_codeword_bits();
                if self.codeword_bits == longest {
                    return Err(DecodeError::StepUp(longest));
                }
                self.codeword_bits += 1;
            }
            CONTROL_CODEWORDS.. => {
                let start = output.len();
                if !self.matching.take_codeword(codeword, output) {
                    output.truncate(start);
                    return Err(DecodeError::UnknownCodeword(codeword));
                }
                for &character in &output[start..] {
                    self.escape.occurs(character);
                }
            }
        }
        Ok(())
    }

    /// Takes a byte in transparent mode.
    fn take_byte(&mut self, byte: u8, output: &mut Vec<u8>) -> Result<(), DecodeError> {
        let character = if std::mem::take(&mut self.escaped) {
            match byte {
                command::ECM => {
                    self.matching.end();
                    self.compressed = true;
                    return Ok(());
                }
                command::EID => self.escape.0,
                command::RESET => {
                    *self = Decoder::new(self.parameters);
                    return Ok(());
                }
                reserved => return Err(DecodeError::ReservedCommand(reserved)),
            }
        } else if byte == self.escape.0 {
            self.escaped = true;
            return Ok(());
        } else {
            byte
        };
        self.escape.occurs(character);
        self.matching.take(character);
        output.push(character);
        Ok(())
    }
}
