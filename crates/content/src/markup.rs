//! A scanner of HTML. It finds tags, attributes, and the texts of scripts and style sheets, without building the
//! element tree.

use std::fmt;
use std::ops::Range;

/// Elements whose content is text up to the end tag, in a browser that runs scripts (HTML, section 13.2.6).
const TEXT_ELEMENTS: [&[u8]; 9] = [
    b"iframe",
    b"noembed",
    b"noframes",
    b"noscript",
    b"script",
    b"style",
    b"textarea",
    b"title",
    b"xmp",
];

/// The element without an end tag: all following content is text.
const PLAINTEXT: &[u8] = b"plaintext";

/// The reason why a document is left unchanged: from some position on, a tag cannot be distinguished from text without
/// building the element tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// A CDATA section is a comment in HTML and text in SVG.
    Cdata,
    /// `<!--` in a script may hide the script's end tag.
    CommentInScript,
    /// `<title/>` is an empty element in SVG and a start tag in HTML.
    SelfClosingText,
    /// `<base href>` changes the meaning of every URL.
    Base,
    /// In ISO-2022-JP, an escape character changes the bytes of tags into letters.
    ShiftedEncoding,
    /// A NUL character: the document is in UTF-16, or is not text. A browser drops the character in some places
    /// and replaces it in others (HTML, section 13.2.5).
    Nul,
}

impl fmt::Display for Unchanged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unchanged::Cdata => "it has a CDATA section",
            Unchanged::CommentInScript => "it has an HTML comment in a script",
            Unchanged::SelfClosingText => "it has an empty element that HTML reads as a start tag",
            Unchanged::Base => "it has a base element",
            Unchanged::ShiftedEncoding => "it has the escape character of ISO-2022-JP",
            Unchanged::Nul => "it has a NUL character (it is in UTF-16, or is not text)",
        })
    }
}

/// A finding of the scanner, as ranges of the document.
#[derive(Clone, Debug)]
pub(crate) enum Markup<'a> {
    /// The name of a start tag or end tag.
    TagName(Range<usize>),
    /// An attribute.
    Attribute {
        /// The name of the tag.
        element: &'a [u8],
        /// The name of the attribute.
        name: Range<usize>,
        /// The value without quotes; empty if the attribute has no value.
        value: Range<usize>,
    },
    /// A complete tag, from `<` to `>`. Reported after the tag's name and attributes. A tag that is truncated by the
    /// end of the document is not reported.
    Tag {
        /// The name of the tag.
        element: &'a [u8],
        /// Whether the tag is an end tag.
        is_end: bool,
        /// The range of the tag.
        whole: Range<usize>,
    },
    /// The content of an element that can only contain text. Reported after the start tag.
    Text {
        /// The name of the start tag.
        element: &'a [u8],
        /// The text.
        content: Range<usize>,
    },
    /// A comment, including its delimiters.
    Comment(Range<usize>),
    /// A document type, a processing instruction, or text that a browser ignores up to `>`.
    Declaration(Range<usize>),
}

/// Calls the function for all markup, in document order.
///
/// # Errors
///
/// If the document has a construct whose extent depends on the element tree.
pub(crate) fn scan<'a>(html: &'a [u8], mut found: impl FnMut(Markup<'a>)) -> Result<(), Unchanged> {
    if html.contains(&b'\x1b') {
        return Err(Unchanged::ShiftedEncoding);
    }
    if html.contains(&0) {
        return Err(Unchanged::Nul);
    }
    let mut at = 0;
    while let Some(open) = find(html, b"<", at) {
        let rest = &html[open..];
        at = if rest.starts_with(b"<!--") {
            let end = end_of_comment(html, open);
            found(Markup::Comment(open..end));
            end
        } else if rest.starts_with(b"<![CDATA[") {
            return Err(Unchanged::Cdata);
        } else {
            let is_end = rest.get(1) == Some(&b'/');
            let name = open + 1 + usize::from(is_end);
            match html.get(name) {
                Some(first) if first.is_ascii_alphabetic() => tag(html, &mut found, name, is_end)?,
                // In `</>` and `</ comment>`, the browser ignores the text up to `>`.
                Some(first) if is_end || b"!?".contains(first) => {
                    let end = after(html, b">", open);
                    found(Markup::Declaration(open..end));
                    end
                }
                _ => open + 1,
            }
        };
    }
    Ok(())
}

/// Scans one tag; `name` is the position of its name. Returns the position after the tag.
fn tag<'a>(
    html: &'a [u8],
    found: &mut impl FnMut(Markup<'a>),
    name: usize,
    is_end: bool,
) -> Result<usize, Unchanged> {
    let mut at = skip(html, name, |byte| !is_space(byte) && !b"/>".contains(&byte));
    found(Markup::TagName(name..at));
    let element = &html[name..at];
    loop {
        at = skip(html, at, is_space);
        match html.get(at) {
            None => return Ok(at),
            Some(b'>') => break,
            Some(b'/') => at += 1,
            Some(_) => {
                let start = at;
                // An initial `=` is part of the name.
                at = skip(html, at + 1, |byte| {
                    !is_space(byte) && !b"/>=".contains(&byte)
                });
                let name = start..at;
                let mut value = at..at;
                let equals = skip(html, at, is_space);
                if html.get(equals) == Some(&b'=') {
                    (value, at) = value_at(html, skip(html, equals + 1, is_space));
                }
                found(Markup::Attribute {
                    element,
                    name,
                    value,
                });
            }
        }
    }
    found(Markup::Tag {
        element,
        is_end,
        whole: name - 1 - usize::from(is_end)..at + 1,
    });
    let is = |name: &&[u8]| element.eq_ignore_ascii_case(name);
    if is_end || !(TEXT_ELEMENTS.iter().any(is) || is(&PLAINTEXT)) {
        return Ok(at + 1);
    }
    if html[at - 1] == b'/' {
        return Err(Unchanged::SelfClosingText);
    }
    if is(&PLAINTEXT) {
        return Ok(html.len());
    }
    let end = end_of_text(html, element, at + 1);
    let is_script = is(&b"script".as_slice());
    if is_script && find(&html[..end], b"<!--", at + 1).is_some() {
        return Err(Unchanged::CommentInScript);
    }
    found(Markup::Text {
        element,
        content: at + 1..end,
    });
    Ok(end)
}

/// Returns the position of the end tag of an element with text content, or the end of the document.
fn end_of_text(html: &[u8], element: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(end) = find(html, b"</", at) {
        let rest = &html[end + 2..];
        let same = rest.len() > element.len()
            && rest[..element.len()].eq_ignore_ascii_case(element)
            && (is_space(rest[element.len()]) || b"/>".contains(&rest[element.len()]));
        if same {
            return end;
        }
        at = end + 2;
    }
    html.len()
}

/// Returns the attribute value that begins at `at`, without its quotes, and the position at which the tag
/// continues.
fn value_at(html: &[u8], at: usize) -> (Range<usize>, usize) {
    let quote = match html.get(at) {
        Some(b'"') => b"\"",
        Some(b'\'') => b"'",
        _ => {
            let end = skip(html, at, |byte| !is_space(byte) && byte != b'>');
            return (at..end, end);
        }
    };
    match find(html, quote, at + 1) {
        Some(end) => (at + 1..end, end + 1),
        None => (html.len()..html.len(), html.len()),
    }
}

/// Returns the end of a comment. `<!-->` and `<!--->` are also comments (HTML, section 13.2.5.43).
pub(crate) fn end_of_comment(html: &[u8], open: usize) -> usize {
    // The dashes of `<!--` may also be the dashes of `-->`.
    let usual = after(html, b"-->", open + 2);
    // The search ends there; otherwise each comment would cause a search to the end of the document.
    after(&html[..usual], b"--!>", open + 4)
}

/// Returns the position after the next `end`, or the end of the document.
fn after(html: &[u8], end: &[u8], from: usize) -> usize {
    find(html, end, from).map_or(html.len(), |at| at + end.len())
}

fn find(html: &[u8], text: &[u8], from: usize) -> Option<usize> {
    let rest = html.get(from..)?;
    memchr::memmem::find(rest, text).map(|at| from + at)
}

fn skip(html: &[u8], from: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    let rest = html.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|&&byte| is_skipped(byte)).count()
}

fn is_space(byte: u8) -> bool {
    b" \t\n\r\x0c".contains(&byte)
}
