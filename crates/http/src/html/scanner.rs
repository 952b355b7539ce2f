//! The incremental reference scanner: a tokeniser based on the tokeniser of the HTML standard (section 13.2.5). It
//! contains only the states that determine the start and end of tags, attributes, comments and raw text.

use memchr::memchr;

/// The longest attribute value that is considered, in bytes before its character references are decoded. A
/// longer reference is not returned.
pub const LONGEST_VALUE: usize = 8 * 1024;

/// A reference to a file that a browser fetches without user action to show the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'s> {
    /// The element that contains the reference.
    pub kind: ReferenceKind,
    /// The reference with its character references decoded. It is not resolved, and is in the character
    /// encoding of the document.
    pub value: &'s [u8],
}

/// The element of a page that refers to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// `<img src>`.
    Image,
    /// `<body background>`.
    Background,
    /// `<input type=image src>`.
    ImageInput,
    /// `<link rel=stylesheet href>`.
    StyleSheet,
    /// `<script src>`, which blocks the parsing of the document.
    Script,
    /// `<script src>` with `async` or `defer`, which blocks nothing.
    LaterScript,
    /// `<frame src>` or `<iframe src>`.
    Frame,
    /// `<base href>`: not a file, but the base of later references.
    Base,
}

impl ReferenceKind {
    /// Whether the file is expected to be an image, on whose dimensions the layout depends.
    pub const fn is_image(self) -> bool {
        matches!(
            self,
            ReferenceKind::Image | ReferenceKind::Background | ReferenceKind::ImageInput
        )
    }
}

/// Scans HTML that arrives in pieces.
///
/// Call [`scan`](Scanner::scan) with each piece until it returns `None`. The end of the document needs no call:
/// an unfinished tag refers to no file.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    /// Whether the current tag is an end tag.
    closing: bool,
    tag: Word,
    attribute: Word,
    /// The use of the current attribute value; `None` if it is not needed.
    wanted: Option<Wanted>,
    /// The current attribute value, collected if `wanted` is set.
    value: Vec<u8>,
    /// The address found in the current tag.
    address: Vec<u8>,
    has_address: bool,
    /// Whether `rel` contains `stylesheet`, or `type` is `image`. If the attribute is repeated, the first one
    /// counts.
    qualifies: Option<bool>,
    /// Whether the current tag has `async` or `defer`.
    later: bool,
}

/// The state of the scanner between two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// After `<`.
    TagOpen,
    /// After `</`.
    EndTagOpen,
    TagName,
    BeforeAttribute,
    AttributeName,
    AfterAttributeName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
    /// After `<!`.
    Declaration,
    /// After `<!-`.
    DeclarationDash,
    /// Up to the next `>`.
    Bogus,
    /// After `<!--`.
    CommentStart,
    /// After `<!---`.
    CommentStartDash,
    Comment,
    CommentDash,
    /// After `--` within a comment.
    CommentEnd,
    /// After `--!` within a comment.
    CommentEndBang,
    /// Within an element whose content is not markup.
    Raw(&'static [u8]),
    RawLess(&'static [u8]),
    /// After `</` and this many bytes of the element's name.
    RawEnd(&'static [u8], u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Address,
    Qualifier,
}

/// Elements whose content is text up to their own end tag.
const RAW_ELEMENTS: [&[u8]; 8] = [
    b"script",
    b"style",
    b"textarea",
    b"title",
    b"xmp",
    b"iframe",
    b"noembed",
    b"noframes",
];

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    /// Creates a scanner at the start of a document.
    pub const fn new() -> Scanner {
        Scanner {
            state: State::Text,
            closing: false,
            tag: Word::EMPTY,
            attribute: Word::EMPTY,
            wanted: None,
            value: Vec::new(),
            address: Vec::new(),
            has_address: false,
            qualifies: None,
            later: false,
        }
    }

    /// Consumes bytes from the front of `input` up to the end of the next tag that refers to a file. Returns `None`
    /// if the input is used up and no such tag was found.
    pub fn scan(&mut self, input: &mut &[u8]) -> Option<Reference<'_>> {
        while let Some((&byte, rest)) = input.split_first() {
            if let Some(skipped) = self.skippable(input) {
                *input = &input[skipped..];
                continue;
            }
            *input = rest;
            if self.step(byte) {
                let kind = self.end_of_tag();
                if let Some(kind) = kind {
                    let length = decode_character_references(&mut self.address);
                    return Some(Reference {
                        kind,
                        value: &self.address[..length],
                    });
                }
            }
        }
        None
    }

    /// Returns the number of bytes at the start of `input` that cannot change the state; `None` if the first byte may
    /// change it.
    fn skippable(&self, input: &[u8]) -> Option<usize> {
        let end = match self.state {
            State::Text | State::Raw(_) => b'<',
            State::Comment => b'-',
            State::Bogus => b'>',
            State::Quoted(quote) if self.wanted.is_none() => quote,
            _ => return None,
        };
        let length = memchr(end, input).unwrap_or(input.len());
        (length > 0).then_some(length)
    }

    /// Processes one byte. Returns whether it ended a tag.
    fn step(&mut self, byte: u8) -> bool {
        self.state = match self.state {
            State::Text if byte == b'<' => State::TagOpen,
            State::Text => State::Text,
            State::TagOpen => match byte {
                b'/' => State::EndTagOpen,
                b'!' => State::Declaration,
                b'?' => State::Bogus,
                b'<' => State::TagOpen,
                _ if byte.is_ascii_alphabetic() => self.begin_tag(false, byte),
                _ => State::Text,
            },
            State::EndTagOpen => match byte {
                b'>' => State::Text,
                _ if byte.is_ascii_alphabetic() => self.begin_tag(true, byte),
                _ => State::Bogus,
            },
            State::TagName => match byte {
                b'>' => return true,
                b'/' => State::BeforeAttribute,
                _ if is_space(byte) => State::BeforeAttribute,
                _ => {
                    self.tag.push(byte);
                    State::TagName
                }
            },
            State::BeforeAttribute => match byte {
                b'>' => return true,
                b'/' => State::BeforeAttribute,
                _ if is_space(byte) => State::BeforeAttribute,
                _ => self.begin_attribute(byte),
            },
            State::AttributeName => match byte {
                b'>' => return true,
                b'/' => State::BeforeAttribute,
                b'=' => self.begin_value(),
                _ if is_space(byte) => State::AfterAttributeName,
                _ => {
                    self.attribute.push(byte);
                    State::AttributeName
                }
            },
            State::AfterAttributeName => match byte {
                b'>' => return true,
                b'/' => State::BeforeAttribute,
                b'=' => self.begin_value(),
                _ if is_space(byte) => State::AfterAttributeName,
                _ => self.begin_attribute(byte),
            },
            State::BeforeValue => match byte {
                b'>' => return true,
                b'"' | b'\'' => State::Quoted(byte),
                _ if is_space(byte) => State::BeforeValue,
                _ => {
                    self.push_value(byte);
                    State::Unquoted
                }
            },
            State::Quoted(quote) if byte == quote => self.end_value(),
            State::Quoted(quote) => {
                self.push_value(byte);
                State::Quoted(quote)
            }
            State::Unquoted => match byte {
                b'>' => {
                    self.end_value();
                    return true;
                }
                _ if is_space(byte) => self.end_value(),
                _ => {
                    self.push_value(byte);
                    State::Unquoted
                }
            },
            State::Declaration
            | State::DeclarationDash
            | State::Bogus
            | State::CommentStart
            | State::CommentStartDash
            | State::Comment
            | State::CommentDash
            | State::CommentEnd
            | State::CommentEndBang => step_declaration(self.state, byte),
            State::Raw(name) if byte == b'<' => State::RawLess(name),
            State::Raw(name) => State::Raw(name),
            State::RawLess(name) => match byte {
                b'/' => State::RawEnd(name, 0),
                b'<' => State::RawLess(name),
                _ => State::Raw(name),
            },
            State::RawEnd(name, matched) => match name.get(usize::from(matched)) {
                Some(&expected) if byte.to_ascii_lowercase() == expected => {
                    State::RawEnd(name, matched + 1)
                }
                None if byte == b'>' => State::Text,
                None if byte == b'/' || is_space(byte) => {
                    self.closing = true;
                    State::BeforeAttribute
                }
                _ if byte == b'<' => State::RawLess(name),
                _ => State::Raw(name),
            },
        };
        false
    }

    fn begin_tag(&mut self, closing: bool, byte: u8) -> State {
        self.closing = closing;
        self.tag = Word::EMPTY;
        self.tag.push(byte);
        self.attribute = Word::EMPTY;
        self.has_address = false;
        self.qualifies = None;
        self.later = false;
        State::TagName
    }

    fn begin_attribute(&mut self, byte: u8) -> State {
        self.note_attribute();
        self.attribute = Word::EMPTY;
        self.attribute.push(byte);
        State::AttributeName
    }

    /// Handles an attribute whose presence alone matters, when its name has ended.
    fn note_attribute(&mut self) {
        self.later |= matches!(self.attribute.as_bytes(), b"async" | b"defer");
    }

    fn begin_value(&mut self) -> State {
        let wanted = match (self.tag.as_bytes(), self.attribute.as_bytes()) {
            _ if self.closing => None,
            (b"img" | b"input" | b"script" | b"frame" | b"iframe", b"src")
            | (b"body", b"background")
            | (b"link" | b"base", b"href") => Some(Wanted::Address),
            (b"link", b"rel") | (b"input", b"type") => Some(Wanted::Qualifier),
            _ => None,
        };
        // If two attributes have the same name, the first counts.
        self.wanted = wanted.filter(|wanted| match wanted {
            Wanted::Address => !self.has_address,
            Wanted::Qualifier => self.qualifies.is_none(),
        });
        self.value.clear();
        State::BeforeValue
    }

    fn push_value(&mut self, byte: u8) {
        // One byte beyond the limit marks the value as too long.
        if self.wanted.is_some() && self.value.len() <= LONGEST_VALUE {
            self.value.push(byte);
        }
    }

    fn end_value(&mut self) -> State {
        match self.wanted.take() {
            Some(Wanted::Address) => {
                self.has_address = true;
                std::mem::swap(&mut self.value, &mut self.address);
            }
            Some(Wanted::Qualifier) => {
                let wanted: &[u8] = match self.tag.as_bytes() {
                    b"link" => b"stylesheet",
                    _ => b"image",
                };
                let mut words = self.value.split(|&byte| is_space(byte));
                self.qualifies = Some(words.any(|word| word.eq_ignore_ascii_case(wanted)));
            }
            None => {}
        }
        State::BeforeAttribute
    }

    /// Ends the current tag: sets the next state, and returns the kind of reference in the tag.
    fn end_of_tag(&mut self) -> Option<ReferenceKind> {
        self.state = State::Text;
        if self.closing {
            return None;
        }
        self.note_attribute();
        let tag = self.tag.as_bytes();
        if let Some(&raw) = RAW_ELEMENTS.iter().find(|&&raw| raw == tag) {
            self.state = State::Raw(raw);
        }
        let qualifies = self.qualifies == Some(true);
        let kind = match tag {
            b"img" => ReferenceKind::Image,
            b"body" => ReferenceKind::Background,
            b"input" if qualifies => ReferenceKind::ImageInput,
            b"link" if qualifies => ReferenceKind::StyleSheet,
            b"script" if self.later => ReferenceKind::LaterScript,
            b"script" => ReferenceKind::Script,
            b"frame" | b"iframe" => ReferenceKind::Frame,
            b"base" => ReferenceKind::Base,
            _ => return None,
        };
        (self.has_address && self.address.len() <= LONGEST_VALUE).then_some(kind)
    }
}

/// Returns the next state, from `<!` to the end of a comment or declaration.
fn step_declaration(state: State, byte: u8) -> State {
    match (state, byte) {
        (State::Declaration, b'-') => State::DeclarationDash,
        (State::DeclarationDash, b'-') => State::CommentStart,
        (State::Declaration | State::DeclarationDash | State::Bogus, b'>') => State::Text,
        (State::Declaration | State::DeclarationDash | State::Bogus, _) => State::Bogus,
        (State::CommentStart, b'-') => State::CommentStartDash,
        (State::CommentStart | State::CommentStartDash, b'>') => State::Text,
        (State::CommentStartDash | State::CommentDash, b'-') => State::CommentEnd,
        (State::Comment | State::CommentEndBang, b'-') => State::CommentDash,
        (State::CommentEnd, b'-') => State::CommentEnd,
        (State::CommentEnd, b'!') => State::CommentEndBang,
        (State::CommentEnd | State::CommentEndBang, b'>') => State::Text,
        _ => State::Comment,
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

/// A name in lower case, stored up to the length of the longest name that matters.
#[derive(Debug, Clone, Copy)]
struct Word {
    bytes: [u8; Word::LONGEST],
    length: usize,
}

impl Word {
    const LONGEST: usize = 12;
    const EMPTY: Word = Word {
        bytes: [0; Word::LONGEST],
        length: 0,
    };

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte.to_ascii_lowercase();
        }
        self.length = self.length.saturating_add(1);
    }

    /// The name; empty if it is longer than any name that matters.
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Decodes numeric references and `amp`, `lt`, `gt`, `quot`, `apos` in place. Returns the length of the result,
/// which is never longer than the input.
fn decode_character_references(text: &mut [u8]) -> usize {
    let mut read = 0;
    let mut written = 0;
    while read < text.len() {
        if text[read] == b'&'
            && let Some((character, length)) = character_reference(&text[read..])
        {
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8).as_bytes();
            text[written..written + utf8.len()].copy_from_slice(utf8);
            written += utf8.len();
            read += length;
        } else {
            text[written] = text[read];
            written += 1;
            read += 1;
        }
    }
    written
}

/// Returns the character reference at the start of `text`, which begins with `&`, and its length.
fn character_reference(text: &[u8]) -> Option<(char, usize)> {
    if let [b'&', b'#', rest @ ..] = text {
        let (radix, digits, before) = match rest {
            [b'x' | b'X', digits @ ..] => (16, digits, 3),
            digits => (10, digits, 2),
        };
        let count = digits
            .iter()
            .take_while(|&&byte| char::from(byte).is_digit(radix))
            .count();
        if count == 0 {
            return None;
        }
        let code = digits[..count].iter().fold(0u32, |code, &byte| {
            let digit = char::from(byte).to_digit(radix).unwrap_or(0);
            code.saturating_mul(radix).saturating_add(digit)
        });
        let character = char::from_u32(code)
            .filter(|&character| character != '\0')
            .unwrap_or(char::REPLACEMENT_CHARACTER);
        let semicolon = usize::from(digits.get(count) == Some(&b';'));
        return Some((character, before + count + semicolon));
    }
    const NAMES: [(&[u8], char); 5] = [
        (b"&amp", '&'),
        (b"&lt", '<'),
        (b"&gt", '>'),
        (b"&quot", '"'),
        (b"&apos", '\''),
    ];
    let &(name, character) = NAMES.iter().find(|(name, _)| text.starts_with(name))?;
    match text.get(name.len()) {
        Some(b';') => Some((character, name.len() + 1)),
        // In `?a=1&lt=2` and `&ltx`, the standard recognises no character reference.
        Some(&next) if next == b'=' || next.is_ascii_alphanumeric() => None,
        _ if character == '\'' => None,
        _ => Some((character, name.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    /// Returns the references in the pieces, in the form `Image:a.gif Script:b.js`.
    fn scan(pieces: &[&[u8]]) -> String {
        let mut scanner = Scanner::new();
        let mut found = String::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(reference) = scanner.scan(&mut input) {
                let value = String::from_utf8_lossy(reference.value);
                write!(found, "{:?}:{value} ", reference.kind).unwrap();
            }
            assert!(input.is_empty());
        }
        found.trim_end().to_owned()
    }

    #[test]
    fn every_kind_of_reference_is_found_in_document_order() {
        let html = br#"<!DOCTYPE html><HTML><head><base href="/x/">
            <link rel="alternate StyleSheet" href=a.css><LINK REL=next HREF=no.html>
            <script type=x src='b.js'></script></head><BODY BGCOLOR=#fff BACKGROUND="bg.gif">
            <p><IMG WIDTH=1 SRC="c.gif"><img src=d.gif/><img alt="<img src=no.gif>" src = e.gif >
            <input type=text src=no.gif><input src=f.gif type=IMAGE><frame src=g.html>
            <iframe src=h.html></iframe><a href=no.html>x</a><imgx src=no.gif>"#;
        assert_eq!(
            scan(&[html]),
            "Base:/x/ StyleSheet:a.css Script:b.js Background:bg.gif Image:c.gif Image:d.gif/ \
             Image:e.gif ImageInput:f.gif Frame:g.html Frame:h.html"
        );
    }

    #[test]
    fn non_blocking_scripts_are_distinguished() {
        let html = b"<script src=a></script><script defer src=b></script><script src=c async>\
            </script><script async='' src=d></script><script data-async src=e></script>\
            <script src=\"defer\"></script><img defer src=f>";
        assert_eq!(
            scan(&[html]),
            "Script:a LaterScript:b LaterScript:c LaterScript:d Script:e Script:defer Image:f"
        );
    }

    #[test]
    fn comments_and_raw_text_hide_what_they_contain() {
        for html in [
            "<!-- <img src=a> --><img src=b>",
            "<!--><img src=b>",
            "<!---><img src=b>",
            "<!-- a -- > <img src=a> --!><img src=b>",
            "<script>if (a</b/) '<img src=a></scripty>'</SCRIPT ><img src=b>",
            "<style><img src=a></style\n><img src=b>",
            "<title><img src=a></title><img src=b>",
            "<textarea></<img src=a></textarea/><img src=b>",
            "<? <img src=a><img src=b>",
            "</ <img src=a><img src=b>",
            "<!x <img src=a><img src=b>",
            "<xmp><</xm></xmp><img src=b>",
        ] {
            assert_eq!(scan(&[html.as_bytes()]), "Image:b", "{html}");
        }
        // Text that only looks like markup does not hide references.
        assert_eq!(
            scan(&[b"a < b <<img src=a><3 <img src=b>"]),
            "Image:a Image:b"
        );
    }

    #[test]
    fn values_end_where_the_standard_says() {
        assert_eq!(scan(&[b"<img src=>x"]), "");
        assert_eq!(scan(&[b"<img src>x"]), "");
        assert_eq!(scan(&[b"<img src=\"\">"]), "Image:");
        assert_eq!(scan(&[b"<img src='a\"b'>"]), "Image:a\"b");
        assert_eq!(scan(&[b"<img src=\"a>b\">"]), "Image:a>b");
        assert_eq!(scan(&[b"<img src=\"a\"src=b>"]), "Image:a");
        assert_eq!(scan(&[b"<img\n\tsrc\r\n=\x0ca\tx>"]), "Image:a");
        assert_eq!(scan(&[b"<img =src=a src=b>"]), "Image:b");
        assert_eq!(scan(&[b"</img src=a>"]), "");
        assert_eq!(scan(&[b"<img src=a"]), "");
    }

    #[test]
    fn character_references_are_decoded() {
        assert_eq!(
            scan(&[b"<img src='a&amp;b&#38;c&#x26;d&lt;&quot;&apos;e&amp'>"]),
            "Image:a&b&c&d<\"'e&"
        );
        assert_eq!(
            scan(&[b"<img src='?a&lt=1&ampx&#;&#x;&nope;&'>"]),
            "Image:?a&lt=1&ampx&#;&#x;&nope;&"
        );
        assert_eq!(
            scan(&["<img src='&#233;&#xe9&#0;&#99999999999;&#xd800;'>".as_bytes()]),
            "Image:éé\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn memory_stays_bounded_and_endless_values_are_dropped() {
        let mut html = b"<img src=".to_vec();
        html.extend(std::iter::repeat_n(b'a', 3 * LONGEST_VALUE));
        html.extend_from_slice(b"><img src=b><");
        html.extend(std::iter::repeat_n(b'x', 3 * LONGEST_VALUE));
        let mut scanner = Scanner::new();
        let mut input = &html[..];
        let value = scanner.scan(&mut input).map(|found| found.value.to_vec());
        assert_eq!(value, Some(b"b".to_vec()));
        assert!(scanner.scan(&mut input).is_none());
        assert!(scanner.value.capacity() + scanner.address.capacity() <= 8 * LONGEST_VALUE);
    }

    /// Fragments that reach every state when they are combined at random.
    fn soup() -> impl Strategy<Value = Vec<u8>> {
        let fragments = prop::sample::select(vec![
            "<",
            ">",
            "/",
            "!",
            "-",
            "--",
            "=",
            "\"",
            "'",
            " ",
            "\n",
            "&amp;",
            "&#",
            "x",
            "img",
            "src",
            "<img src=",
            "<script>",
            "</script",
            "<script src=a>",
            "<!--",
            "-->",
            "<input type=image ",
            "<link rel=stylesheet href=",
            "<base href=/b/>",
            "<BODY background=",
            "é",
            "<title>",
            "</title>",
        ]);
        prop::collection::vec(fragments, 0..40).prop_map(|parts| parts.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn any_split_yields_the_same_references(html in soup(), cuts in prop::collection::vec(0usize..160, 0..6)) {
            let whole = scan(&[&html]);
            let bytes: Vec<&[u8]> = html.chunks(1).collect();
            prop_assert_eq!(&scan(&bytes), &whole);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(html.len())).collect();
            cuts.push(html.len());
            cuts.sort_unstable();
            let mut start = 0;
            let pieces: Vec<&[u8]> = cuts.into_iter().map(|cut| {
                let piece = &html[start..cut];
                start = cut;
                piece
            }).collect();
            prop_assert_eq!(&scan(&pieces), &whole);
        }

        #[test]
        fn any_bytes_pass_the_fuzz_entry(data in prop::collection::vec(any::<u8>(), 0..200)) {
            crate::html::fuzz(&data);
        }
    }
}
