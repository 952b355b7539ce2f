//! The string-matching procedure (sections 6.3 and 6.4). The encoder runs it in both modes, the decoder only in
//! transparent mode.

use super::Parameters;
use super::dictionary::{Dictionary, NONE};

/// A dictionary and the string that is being matched.
#[derive(Debug, Clone)]
pub(super) struct Matching {
    dictionary: Dictionary,
    /// The longest match so far; [`NONE`] before the first character.
    string: u16,
    /// The previous string, until the next character is appended to it as a new entry; otherwise [`NONE`].
    ended: u16,
    /// The entry that the end of the last string created. The decoder does not have it yet when it needs the next
    /// codeword, so the next string must not match it.
    fresh: Option<u16>,
}

impl Matching {
    pub(super) fn new(parameters: Parameters) -> Matching {
        Matching {
            dictionary: Dictionary::new(parameters),
            string: NONE,
            ended: NONE,
            fresh: None,
        }
    }

    /// Takes the next character. Returns the codeword of the string that ends before this character, if any.
    pub(super) fn take(&mut self, character: u8) -> Option<u16> {
        let mut before = None;
        if self.string != NONE {
            let longer = self.dictionary.longer(self.string, character);
            if let Some(longer) = longer.filter(|&longer| Some(longer) != self.fresh) {
                self.string = longer;
                return None;
            }
            before = self.end();
        }
        self.begin_with(character);
        self.string = Dictionary::root(character);
        before
    }

    /// Ends the current string. Returns its codeword; `None` if there is no current string.
    pub(super) fn end(&mut self) -> Option<u16> {
        if self.string == NONE {
            return None;
        }
        self.ended = std::mem::replace(&mut self.string, NONE);
        Some(self.ended)
    }

    /// Takes a string that was received as a codeword, and appends its characters to `output`. Returns whether the
    /// dictionary has the codeword.
    pub(super) fn take_codeword(&mut self, codeword: u16, output: &mut Vec<u8>) -> bool {
        if !self.dictionary.contains(codeword) {
            return false;
        }
        let start = output.len();
        self.dictionary.spell(codeword, output);
        self.begin_with(output[start]);
        self.ended = codeword;
        // The addition may have deleted the string. An encoder matches a string after the same deletion.
        self.dictionary.contains(codeword)
    }

    /// Begins a new string with this character, and adds the previous string plus this character to the dictionary.
    fn begin_with(&mut self, character: u8) {
        let ended = std::mem::replace(&mut self.ended, NONE);
        if ended != NONE {
            self.fresh = self.dictionary.add(ended, character);
        }
    }
}
