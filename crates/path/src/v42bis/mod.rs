//! ITU-T Recommendation V.42bis (1990): the data compression of modems, as a stream encoder and a stream decoder.
//!
//! Both sides keep a dictionary of strings. The encoder replaces the longest string in the dictionary by its codeword
//! and adds that string plus one character to its dictionary; the decoder makes the same addition when it has the
//! next codeword. Three properties distinguish the code from LZW:
//!
//! - **Codewords grow on request.** They start at 9 bits. The control codeword STEPUP adds a bit, up to the size
//!   that the dictionary needs.
//! - **Entries are recovered.** A full dictionary is not reset: the next entry that is not a prefix of a longer
//!   string is deleted and reused.
//! - **Two modes.** In the transparent mode, characters are sent without compression, and both sides still extend their
//!   dictionaries. In the compressed mode, codewords are sent. The encoder changes to the mode that a test predicts to
//!   take fewer bits. The recommendation leaves that test to the implementation; [`Encoder`] describes ours.
//!
//! Codewords are sent with the least significant bit first, and fill each byte from its least significant bit. The
//! procedures run on top of an error-correcting protocol (V.42), so the decoder gets every byte once and in order.
//!
//! ```
//! use fathometer_path::v42bis::{Decoder, Encoder, Parameters};
//!
//! let parameters = Parameters::new(2048, 32).unwrap();
//! let (mut encoder, mut decoder) = (Encoder::new(parameters), Decoder::new(parameters));
//! let text = b"<td><img src=dot.gif></td>".repeat(100);
//! let (mut line, mut received) = (Vec::new(), Vec::new());
//! encoder.encode(&text, &mut line);
//! encoder.flush(&mut line);
//! decoder.decode(&line, &mut received).unwrap();
//! assert_eq!(received, text);
//! assert!(line.len() < text.len() / 3);
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod bits;
mod decoder;
mod dictionary;
mod encoder;
mod matching;

pub use decoder::{DecodeError, Decoder};
pub use encoder::Encoder;

/// The character size in bits (N3).
const CHARACTER_BITS: u32 = 8;
/// The number of control codewords (N6).
const CONTROL_CODEWORDS: u16 = 3;
/// The first codeword of a string of two characters or more (N5).
const FIRST_STRING: u16 = CONTROL_CODEWORDS + 256;
/// The initial size of codewords: one bit more than a character.
const FIRST_CODEWORD_BITS: u32 = CHARACTER_BITS + 1;
/// The increment of the escape character, modulo 256, each time that it occurs in the data.
const ESCAPE_STEP: u8 = 51;

/// The control codewords of the compressed mode.
mod control {
    /// Enter transparent mode.
    pub(super) const ETM: u16 = 0;
    /// The rest of this byte is padding.
    pub(super) const FLUSH: u16 = 1;
    /// The codewords that follow are one bit longer.
    pub(super) const STEPUP: u16 = 2;
}

/// The commands of the transparent mode, each after an escape character.
mod command {
    /// Enter compressed mode.
    pub(super) const ECM: u8 = 0;
    /// The escape character itself.
    pub(super) const EID: u8 = 1;
    /// Return to the initial state.
    pub(super) const RESET: u8 = 2;
}

/// The parameters that two modems negotiate when they connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", try_from = "Text")]
pub struct Parameters {
    codewords: u16,
    longest_string: u8,
}

/// The parameters in a file. Their defaults are the recommendation's.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    /// The size of the dictionary in codewords (P1).
    #[serde(default = "least_codewords")]
    #[schemars(range(min = 512))]
    codewords: u16,
    /// The length of the longest string in the dictionary, in characters (P2).
    #[serde(default = "shortest_longest_string")]
    #[schemars(range(min = 6, max = 250))]
    longest_string: u8,
}

fn least_codewords() -> u16 {
    512
}

fn shortest_longest_string() -> u8 {
    6
}

impl TryFrom<Text> for Parameters {
    type Error = &'static str;

    fn try_from(text: Text) -> Result<Parameters, &'static str> {
        Parameters::new(text.codewords, text.longest_string)
            .ok_or("V.42bis has 512 to 65535 codewords, and a longest string of 6 to 250")
    }
}

impl Parameters {
    /// Creates parameters. `codewords` is the size of the dictionary (P1), control codewords and single characters
    /// included: 512 to 65535. `longest_string` is the length of its longest string, in characters (P2): 6 to 250.
    /// Returns `None` for values outside of these ranges.
    pub fn new(codewords: u16, longest_string: u8) -> Option<Parameters> {
        (codewords >= 512 && (6..=250).contains(&longest_string)).then_some(Parameters {
            codewords,
            longest_string,
        })
    }

    /// Returns the size of the dictionary (P1).
    pub fn codewords(self) -> u16 {
        self.codewords
    }

    /// Returns the length of the longest string in the dictionary, in characters (P2).
    pub fn longest_string(self) -> u8 {
        self.longest_string
    }

    /// Returns the size of the longest codeword in bits (N1).
    fn longest_codeword_bits(self) -> u32 {
        u16::BITS - (self.codewords - 1).leading_zeros()
    }
}

/// The character that introduces a command in transparent mode. It changes each time that it occurs in the data,
/// in both modes, so that no data can make every character an escape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Escape(u8);

impl Escape {
    /// Returns whether a character of the data is the escape character; if so, changes the escape character.
    fn occurs(&mut self, character: u8) -> bool {
        let occurs = character == self.0;
        if occurs {
            self.0 = self.0.wrapping_add(ESCAPE_STEP);
        }
        occurs
    }
}

#[cfg(test)]
mod tests;
