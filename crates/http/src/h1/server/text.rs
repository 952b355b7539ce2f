//! What clients said of their requests, kept until the responses are sent: for logs.

/// What a log says of a request, as the client sent it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestText<'a> {
    /// The request line, or as much of the first line as came; empty when nothing came.
    pub line: &'a [u8],
    /// `Referer`; empty when absent.
    pub referer: &'a [u8],
    /// `User-Agent`; empty when absent.
    pub user_agent: &'a [u8],
}

/// The lengths of the three texts of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextLengths([u32; 3]);

impl TextLengths {
    fn total(self) -> usize {
        self.0.iter().map(|&length| length as usize).sum()
    }
}

/// Texts of requests, taken in the order in which they were kept.
#[derive(Debug, Default)]
pub(super) struct Texts {
    octets: Vec<u8>,
    taken: usize,
}

impl Texts {
    /// Octets that are kept.
    pub fn waiting(&self) -> u64 {
        (self.octets.len() - self.taken) as u64
    }

    pub fn keep(&mut self, texts: [&[u8]; 3]) -> TextLengths {
        if self.taken == self.octets.len() {
            self.octets.clear();
            self.taken = 0;
        }
        for text in texts {
            self.octets.extend_from_slice(text);
        }
        TextLengths(texts.map(|text| text.len() as u32))
    }

    /// Forgets what was kept last.
    pub fn forget(&mut self, last: TextLengths) {
        self.octets.truncate(self.octets.len() - last.total());
    }

    /// What is to be taken next.
    pub fn next(&self, lengths: TextLengths) -> RequestText<'_> {
        self.at(self.taken, lengths)
    }

    /// What was taken last.
    pub fn last(&self, lengths: TextLengths) -> RequestText<'_> {
        self.at(self.taken - lengths.total(), lengths)
    }

    fn at(&self, start: usize, lengths: TextLengths) -> RequestText<'_> {
        let mut rest = &self.octets[start..];
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

    /// Gives memory back that holds nothing.
    pub fn rest(&mut self) {
        if self.waiting() == 0 {
            *self = Texts::default();
        }
    }
}
