//! The chunked transfer coding (RFC 9112 section 7.1), encoder and decoder, over caller-owned buffers.
//!
//! Chunk extensions and trailer fields are checked against their grammar, limited in size, and ignored: no code
//! here uses them (section 7.1.1: a recipient ignores extensions that it does not recognise).
//!
//! Chunk-size lines end in CRLF for every recipient: section 2.2 allows a bare LF only after the start line and
//! after fields. A lenient decoder accepts a bare LF in the trailer section, whose lines are fields.

use super::syntax::Strictness;
use crate::message::fields::is_token_byte;

/// Limits on framing; the decoder refuses a body that exceeds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkedLimits {
    /// Bytes of all chunk extensions in one message, including their semicolons. (A limit per chunk would let a
    /// sender of one-byte chunks use up that limit for every byte.)
    pub extensions: u32,
    /// Bytes of the trailer section.
    pub trailers: u32,
}

impl Default for ChunkedLimits {
    fn default() -> ChunkedLimits {
        ChunkedLimits {
            extensions: 16 * 1024,
            trailers: 16 * 1024,
        }
    }
}

/// The reason why a chunked body is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ChunkedError {
    /// A chunk size that is not a hexadecimal number.
    #[error("a chunk size is not a hexadecimal number")]
    BadSize,
    /// A chunk size of more than sixteen digits.
    #[error("a chunk size has more than sixteen digits")]
    SizeTooLong,
    /// A line that does not end in CRLF.
    #[error("a line of the chunked coding does not end in CR LF")]
    BadLineEnd,
    /// Chunk data that is not followed by CRLF, so the data are longer than the stated size.
    #[error("the data of a chunk are longer than its size")]
    DataTooLong,
    /// The text after a chunk size is not `;NAME` or `;NAME=VALUE`, where VALUE is a token or a quoted string.
    #[error("the text after a chunk size is not a chunk extension")]
    BadExtension,
    /// More than [`ChunkedLimits::extensions`].
    #[error("chunk extensions are too long")]
    ExtensionsTooLong,
    /// A trailer line that is not a field line.
    #[error("a trailer line is not a field line")]
    BadTrailer,
    /// More than [`ChunkedLimits::trailers`].
    #[error("trailers are too long")]
    TrailersTooLong,
}

/// Decodes a chunked body that arrives in pieces of any size.
#[derive(Debug, Clone)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes left of the current chunk; while its size is read, the size so far.
    remaining: u64,
    extensions_left: u32,
    trailers_left: u32,
    strictness: Strictness,
}

/// The decoder's state, named after the element to which the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    /// White space after a size or an extension: only another extension may follow.
    BeforeSemicolon,
    BeforeExtensionName,
    ExtensionName,
    AfterExtensionName,
    BeforeExtensionValue,
    ExtensionValue,
    ExtensionString,
    /// After a backslash within quotes.
    ExtensionEscape,
    ExtensionStringEnd,
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Done,
    Failed(ChunkedError),
}

impl State {
    /// Whether the line of a chunk size may end in this state.
    fn ends_size_line(self) -> bool {
        matches!(
            self,
            State::Size { .. }
                | State::ExtensionName
                | State::ExtensionValue
                | State::ExtensionStringEnd
        )
    }

    /// Returns the state after a byte that follows a chunk size: `chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "="
    /// BWS chunk-ext-val ] )`.
    fn after_extension_byte(self, byte: u8) -> Result<State, ChunkedError> {
        let is_blank = matches!(byte, b' ' | b'\t');
        Ok(match (self, byte) {
            (
                State::Size { .. }
                | State::BeforeSemicolon
                | State::ExtensionName
                | State::AfterExtensionName
                | State::ExtensionValue
                | State::ExtensionStringEnd,
                b';',
            ) => State::BeforeExtensionName,
            (State::ExtensionName, _) if is_blank => State::AfterExtensionName,
            (
                State::Size { .. }
                | State::BeforeSemicolon
                | State::ExtensionValue
                | State::ExtensionStringEnd,
                _,
            ) if is_blank => State::BeforeSemicolon,
            (
                State::BeforeExtensionName
                | State::AfterExtensionName
                | State::BeforeExtensionValue,
                _,
            ) if is_blank => self,
            (State::BeforeExtensionName | State::ExtensionName, _) if is_token_byte(byte) => {
                State::ExtensionName
            }
            (State::ExtensionName | State::AfterExtensionName, b'=') => State::BeforeExtensionValue,
            (State::BeforeExtensionValue | State::ExtensionValue, _) if is_token_byte(byte) => {
                State::ExtensionValue
            }
            (State::BeforeExtensionValue, b'"') => State::ExtensionString,
            (State::ExtensionString, b'"') => State::ExtensionStringEnd,
            (State::ExtensionString, b'\\') => State::ExtensionEscape,
            (State::ExtensionString | State::ExtensionEscape, _)
                if is_blank || byte > b' ' && byte != 0x7f =>
            {
                State::ExtensionString
            }
            (State::Size { .. }, _) => return Err(ChunkedError::BadSize),
            _ => return Err(ChunkedError::BadExtension),
        })
    }
}

/// The result of one call of [`ChunkedDecoder::decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Bytes of the input that were consumed, `data` included.
    pub consumed: usize,
    /// Bytes of the body; empty if the input contained only framing.
    pub data: &'a [u8],
}

impl ChunkedDecoder {
    /// Creates a decoder at the start of a body.
    pub fn new(strictness: Strictness, limits: ChunkedLimits) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::Size { digits: 0 },
            remaining: 0,
            extensions_left: limits.extensions,
            trailers_left: limits.trailers,
            strictness,
        }
    }

    /// Whether the last chunk and the trailer section have been read. Nothing is consumed after that.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads framing up to the next piece of data, and the available part of that piece. Call `decode` again with
    /// the remaining input until the input is used up or [`is_done`](Self::is_done). An error is final.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, ChunkedError> {
        let mut consumed = 0;
        while consumed < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let rest = &input[consumed..];
                let length = usize::try_from(self.remaining)
                    .unwrap_or(usize::MAX)
                    .min(rest.len());
                self.remaining -= length as u64;
                if self.remaining == 0 {
                    self.state = State::DataCarriageReturn;
                }
                return Ok(Decoded {
                    consumed: consumed + length,
                    data: &rest[..length],
                });
            }
            match self.step(input[consumed]) {
                Ok(state) => self.state = state,
                Err(error) => {
                    self.state = State::Failed(error);
                    return Err(error);
                }
            }
            consumed += 1;
        }
        Ok(Decoded {
            consumed,
            data: &[],
        })
    }

    /// Processes one byte of framing and returns the next state.
    fn step(&mut self, byte: u8) -> Result<State, ChunkedError> {
        let lenient = self.strictness == Strictness::Lenient;
        Ok(match (self.state, byte) {
            (State::Size { digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == 16 {
                    return Err(ChunkedError::SizeTooLong);
                }
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    _ => (byte | 0x20) - b'a' + 10,
                };
                // Sixteen hexadecimal digits fill 64 bits and cannot overflow.
                self.remaining = self.remaining << 4 | u64::from(digit);
                State::Size { digits: digits + 1 }
            }
            (State::Size { digits: 0 }, _) => return Err(ChunkedError::BadSize),
            (state, b'\r') if state.ends_size_line() => State::SizeLineFeed,
            (state, b'\n') if state.ends_size_line() => return Err(ChunkedError::BadLineEnd),
            (
                State::Size { .. }
                | State::BeforeSemicolon
                | State::BeforeExtensionName
                | State::ExtensionName
                | State::AfterExtensionName
                | State::BeforeExtensionValue
                | State::ExtensionValue
                | State::ExtensionString
                | State::ExtensionEscape
                | State::ExtensionStringEnd,
                _,
            ) => {
                let next = self.state.after_extension_byte(byte)?;
                self.spend_extension()?;
                next
            }
            (State::SizeLineFeed, b'\n') => self.size_line_end(),
            (State::DataCarriageReturn, b'\r') => State::DataLineFeed,
            (State::DataCarriageReturn, _) => return Err(ChunkedError::DataTooLong),
            (State::DataLineFeed, b'\n') => State::Size { digits: 0 },
            (State::TrailerStart, b'\r') => State::LastLineFeed,
            (State::TrailerStart, b'\n') if lenient => State::Done,
            (State::TrailerStart, b'\n') => return Err(ChunkedError::BadLineEnd),
            (State::TrailerStart | State::TrailerName, _) if is_token_byte(byte) => {
                self.spend_trailer()?;
                State::TrailerName
            }
            (State::TrailerName, b':') => {
                self.spend_trailer()?;
                State::TrailerValue
            }
            (State::TrailerStart | State::TrailerName, _) => {
                return Err(ChunkedError::BadTrailer);
            }
            (State::TrailerValue, b'\r') => State::TrailerLineFeed,
            (State::TrailerValue, b'\n') if lenient => State::TrailerStart,
            (State::TrailerValue, b'\n') => return Err(ChunkedError::BadLineEnd),
            (State::TrailerValue, _) => {
                if byte < b' ' && byte != b'\t' || byte == 0x7f {
                    return Err(ChunkedError::BadTrailer);
                }
                self.spend_trailer()?;
                State::TrailerValue
            }
            (State::TrailerLineFeed, b'\n') => State::TrailerStart,
            (State::LastLineFeed, b'\n') => State::Done,
            (
                State::SizeLineFeed
                | State::DataLineFeed
                | State::TrailerLineFeed
                | State::LastLineFeed,
                _,
            ) => return Err(ChunkedError::BadLineEnd),
            (State::Failed(error), _) => return Err(error),
            (State::Data | State::Done, _) => unreachable!("data and the end are not framing"),
        })
    }

    fn size_line_end(&mut self) -> State {
        if self.remaining == 0 {
            State::TrailerStart
        } else {
            State::Data
        }
    }

    fn spend_extension(&mut self) -> Result<(), ChunkedError> {
        self.extensions_left = self
            .extensions_left
            .checked_sub(1)
            .ok_or(ChunkedError::ExtensionsTooLong)?;
        Ok(())
    }

    fn spend_trailer(&mut self) -> Result<(), ChunkedError> {
        self.trailers_left = self
            .trailers_left
            .checked_sub(1)
            .ok_or(ChunkedError::TrailersTooLong)?;
        Ok(())
    }
}

/// The line before the data of a chunk: its size and CRLF. Send [`CHUNK_END`] after the data.
#[derive(Debug, Clone, Copy)]
pub struct ChunkHead {
    line: [u8; 18],
    start: u8,
}

impl ChunkHead {
    /// Creates the line for a chunk of `size` bytes; `None` for zero, because a chunk of size zero ends the body.
    pub fn new(size: u64) -> Option<ChunkHead> {
        if size == 0 {
            return None;
        }
        let mut line = *b"................\r\n";
        let mut start = 16;
        let mut rest = size;
        while rest > 0 {
            start -= 1;
            line[start] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        Some(ChunkHead {
            line,
            start: start as u8,
        })
    }

    /// The bytes of the line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.line[self.start as usize..]
    }
}

/// The bytes after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(
        decoder: &mut ChunkedDecoder,
        mut input: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<usize, ChunkedError> {
        let whole = input.len();
        while !input.is_empty() && !decoder.is_done() {
            let decoded = decoder.decode(input)?;
            body.extend_from_slice(decoded.data);
            input = &input[decoded.consumed..];
        }
        Ok(whole - input.len())
    }

    fn strict(input: &[u8]) -> Result<(Vec<u8>, usize, bool), ChunkedError> {
        run(input, Strictness::Strict)
    }

    fn run(input: &[u8], strictness: Strictness) -> Result<(Vec<u8>, usize, bool), ChunkedError> {
        let mut decoder = ChunkedDecoder::new(strictness, ChunkedLimits::default());
        let mut body = Vec::new();
        let consumed = decode(&mut decoder, input, &mut body)?;
        Ok((body, consumed, decoder.is_done()))
    }

    #[test]
    fn chunk_heads_extensions_and_trailers_are_removed() {
        let coded = b"4;a=\"b\"\r\nWiki\r\n0006\r\npedia \r\n0;z\r\nX: y\r\nZ:\r\n\r\nGET";
        let (body, consumed, done) = strict(coded).unwrap();
        assert_eq!(body, b"Wikipedia ");
        assert_eq!(consumed, coded.len() - 3);
        assert!(done);
    }

    #[test]
    fn ambiguous_sizes_and_line_ends_are_refused() {
        let cases: [(&[u8], ChunkedError); 15] = [
            (b"\r\n", ChunkedError::BadSize),
            (b" 4\r\n", ChunkedError::BadSize),
            (b"0x4\r\n", ChunkedError::BadSize),
            (b"+4\r\n", ChunkedError::BadSize),
            (b"-1\r\n", ChunkedError::BadSize),
            (b"4_0\r\n", ChunkedError::BadSize),
            (b"00000000000000004\r\n", ChunkedError::SizeTooLong),
            (b"4\nWiki\r\n", ChunkedError::BadLineEnd),
            (b"4\rWiki\r\n", ChunkedError::BadLineEnd),
            (b"4;a\nWiki\r\n", ChunkedError::BadLineEnd),
            (b"4x\r\nWiki\r\n", ChunkedError::BadSize),
            (b"4\r\nWikiX\r\n", ChunkedError::DataTooLong),
            (b"4\r\nWiki\n", ChunkedError::DataTooLong),
            (b"0\r\n\n", ChunkedError::BadLineEnd),
            (b"0\r\nno colon\r\n", ChunkedError::BadTrailer),
        ];
        for (coded, error) in cases {
            assert_eq!(strict(coded), Err(error), "{coded:?}");
        }
    }

    #[test]
    fn extensions_must_match_their_grammar() {
        let extensions: [(&str, bool); 34] = [
            ("", true),
            (";a", true),
            (" ;a=b", true),
            ("\t ; \ta \t= \tb", true),
            (";a;b=c;d=\"e\"", true),
            (";a=\"b\" ;c", true),
            (";a=b ; c", true),
            (";a ;b", true),
            (";a=\"\"", true),
            (";a=\"b;c=\\\"d\\\\ \t\"", true),
            (";a=\"\\\t\"", true),
            (";a=\"\u{e9}\"", true),
            (";!#$%&'*+-.^_`|~=1", true),
            (" ", false),
            ("\t", false),
            (" a", false),
            (";", false),
            ("; ", false),
            (";;a", false),
            (";a ", false),
            (";a=", false),
            (";a= ", false),
            (";a=b ", false),
            (";a=\"b\" ", false),
            (";a=\"b", false),
            (";a=\"b\\\"", false),
            (";a=\"b\"c", false),
            (";a=b\"c\"", false),
            (";a=\"\u{1}\"", false),
            (";a=\"\\\u{7f}\"", false),
            (";a=b=c", false),
            (";=b", false),
            (";a b", false),
            (";\u{e9}", false),
        ];
        for (extension, legal) in extensions {
            for strictness in [Strictness::Strict, Strictness::Lenient] {
                let coded = format!("5{extension}\r\nhello\r\n0{extension}\r\n\r\n");
                let expected = (b"hello".to_vec(), coded.len(), true);
                let decoded = run(coded.as_bytes(), strictness);
                assert_eq!(decoded.is_ok(), legal, "{extension:?}: {decoded:?}");
                if legal {
                    assert_eq!(decoded, Ok(expected), "{extension:?}");
                }
            }
        }
        // A line end within quotes is invalid.
        for end in ["\r", "\n", "\r\n"] {
            for strictness in [Strictness::Strict, Strictness::Lenient] {
                let coded = format!("5;a=\"{end}hello\r\n0\r\n\r\n");
                let decoded = run(coded.as_bytes(), strictness);
                assert_eq!(decoded, Err(ChunkedError::BadExtension), "{end:?}");
            }
        }
    }

    #[test]
    fn a_lenient_decoder_accepts_bare_line_feeds_in_trailers_only() {
        let coded = b"4;a\r\nWiki\r\n0\r\nX: y\nZ: z\r\n\n";
        let whole = (b"Wiki".to_vec(), coded.len(), true);
        assert_eq!(run(coded, Strictness::Lenient), Ok(whole));
        assert_eq!(strict(coded), Err(ChunkedError::BadLineEnd));
        let bare: [(&[u8], ChunkedError); 4] = [
            (b"4\nWiki\r\n", ChunkedError::BadLineEnd),
            (b"4;a\nWiki\r\n", ChunkedError::BadLineEnd),
            (b"4\r\nWiki\n", ChunkedError::DataTooLong),
            (b"0\n\r\n", ChunkedError::BadLineEnd),
        ];
        for (coded, error) in bare {
            assert_eq!(run(coded, Strictness::Lenient), Err(error), "{coded:?}");
        }
        // White space between a size and the end of its line is not in the grammar (section 7.1.1).
        let tricks: [&[u8]; 5] = [b" 4\r\n", b"4\rW", b"4\r\nWikiX", b"4 \r\n", b"4\t\n"];
        for coded in tricks {
            assert!(run(coded, Strictness::Lenient).is_err(), "{coded:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded_over_the_whole_body() {
        let limits = ChunkedLimits {
            extensions: 7,
            trailers: 5,
        };
        let outcome = |coded: &[u8]| {
            let mut decoder = ChunkedDecoder::new(Strictness::Strict, limits);
            decode(&mut decoder, coded, &mut Vec::new()).map(|_| decoder.is_done())
        };
        assert_eq!(outcome(b"1;abc\r\nx\r\n0;de\r\nA: b\r\n\r\n"), Ok(true));
        assert_eq!(
            outcome(b"1;abc\r\nx\r\n1;def\r\nx\r\n"),
            Err(ChunkedError::ExtensionsTooLong)
        );
        assert_eq!(
            outcome(b"0\r\nA:b\r\nC:d\r\n\r\n"),
            Err(ChunkedError::TrailersTooLong)
        );
    }

    #[test]
    fn chunk_heads_are_plain_hexadecimal() {
        assert_eq!(ChunkHead::new(255).unwrap().as_bytes(), b"ff\r\n");
        assert_eq!(
            ChunkHead::new(u64::MAX).unwrap().as_bytes(),
            b"ffffffffffffffff\r\n"
        );
        assert!(ChunkHead::new(0).is_none());
    }

    proptest! {
        #[test]
        fn encoded_content_is_decoded_at_any_split(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..30), 0..6),
            cuts in prop::collection::vec(0usize..200, 0..10),
        ) {
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend_from_slice(ChunkHead::new(chunk.len() as u64).unwrap().as_bytes());
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(CHUNK_END);
            }
            coded.extend_from_slice(LAST_CHUNK);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(coded.len())).collect();
            cuts.sort_unstable();
            cuts.push(coded.len());
            let mut decoder = ChunkedDecoder::new(Strictness::Strict, ChunkedLimits::default());
            let mut body = Vec::new();
            let mut start = 0;
            for cut in cuts {
                let consumed = decode(&mut decoder, &coded[start..cut], &mut body).unwrap();
                prop_assert_eq!(consumed, cut - start);
                start = cut;
            }
            prop_assert!(decoder.is_done());
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn any_bytes_give_the_same_result_at_any_split(
            bytes in prop::collection::vec(prop::sample::select(&b"0123a;:=\"\\\r\n \tX"[..]), 0..40),
            cut in 0usize..40,
        ) {
            for strictness in [Strictness::Strict, Strictness::Lenient] {
                let whole = run(&bytes, strictness);
                let cut = cut.min(bytes.len());
                let mut decoder = ChunkedDecoder::new(strictness, ChunkedLimits::default());
                let mut body = Vec::new();
                let split = decode(&mut decoder, &bytes[..cut], &mut body)
                    .and_then(|first| Ok(first + decode(&mut decoder, &bytes[cut..], &mut body)?));
                prop_assert_eq!(split.map(|consumed| (body, consumed, decoder.is_done())), whole);
            }
        }
    }
}
