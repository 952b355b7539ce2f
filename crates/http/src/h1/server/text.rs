//! Texts of requests for logs, stored until the responses are sent.

use crate::exchange::RequestText;

/// The lengths of the three texts of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextLengths([u32; 3]);

impl TextLengths {
    fn total(self) -> usize {
        self.0.iter().map(|&length| length as usize).sum()
    }
}

/// Texts of requests, taken in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    taken: usize,
}

/// Taken texts are removed from the buffer when they reach this many bytes.
const COMPACT_AT: usize = 16 * 1024;

impl Texts {
    /// The number of stored bytes that were not taken.
    pub fn waiting(&self) -> u64 {
        (self.bytes.len() - self.taken) as u64
    }

    pub fn keep(&mut self, texts: [&[u8]; 3]) -> TextLengths {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken >= COMPACT_AT {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        for text in texts {
            self.bytes.extend_from_slice(text);
        }
        TextLengths(texts.map(|text| text.len() as u32))
    }

    /// Removes the text added last.
    pub fn forget(&mut self, last: TextLengths) {
        self.bytes.truncate(self.bytes.len() - last.total());
    }

    /// Returns the text taken last.
    pub fn last(&self, lengths: TextLengths) -> RequestText<'_> {
        let mut rest = &self.bytes[self.taken - lengths.total()..];
        let [line, referer, user_agent] = lengths.0.map(|length| {
            let (text, after) = rest.split_at(length as usize);
            rest = after;
            text
        });
        RequestText {
            line,
            referer,
            user_agent,
        }
    }

    pub fn take(&mut self, lengths: TextLengths) {
        self.taken += lengths.total();
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.waiting() == 0 {
            *self = Texts::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_texts_are_removed_even_while_one_waits() {
        let line = [b'x'; 1000];
        let mut texts = Texts::default();
        let mut before = texts.keep([&line[..], &[], &[]]);
        for _ in 0..10_000 {
            let next = texts.keep([&line[..], &[], &[]]);
            texts.take(before);
            before = next;
        }
        assert!(texts.bytes.len() < 50_000);
    }
}
