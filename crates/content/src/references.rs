//! Rewrites references to files in HTML and CSS, for files that get new names.
//!
//! URLs are used as written. A URL is left unchanged if its meaning is uncertain: if it contains a character reference,
//! a backslash, or non-ASCII bytes, which depend on the encoding of the document.

use std::ops::Range;

use crate::markup::{Markup, Unchanged, scan};

/// A document with its references rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The document.
    pub content: Vec<u8>,
    /// The number of references that were rewritten.
    pub references: u64,
    /// The URLs of elements that state the hash of their file (`integrity`). Browsers reject such a file if it changes.
    pub hashed: Vec<String>,
    /// Whether an element states the hash of a file whose URL cannot be read with certainty.
    pub hashes_unknown: bool,
}

/// The attributes whose value is one URL of a file to show or to open. The element `*` means any element.
const URL_ATTRIBUTES: [(&str, &str); 12] = [
    ("*", "background"),
    ("*", "poster"),
    ("*", "src"),
    ("*", "xlink:href"),
    ("a", "href"),
    ("area", "href"),
    ("feimage", "href"),
    ("image", "href"),
    ("link", "href"),
    ("object", "data"),
    ("source", "src"),
    ("use", "href"),
];

/// The elements whose `type` states the format of the file. A browser does not request formats that it cannot show
/// (HTML, sections 4.2.4 and 4.8.2).
const TYPED_ELEMENTS: [&[u8]; 3] = [b"link", b"object", b"source"];

/// Replaces each URL for which the function returns another URL, in attributes and in the document's style sheets. If
/// an element states the format of its images (`type`), either the format and all URLs change, or none of them. The
/// `<img>` of a `<picture>` is unchanged if an earlier `source` states its format, because this `<img>` is for browsers
/// that cannot show that format. All other bytes are unchanged.
///
/// # Errors
///
/// If the document cannot be scanned without building its element tree, or has a `base`, which changes the meaning of
/// URLs. The document must then be left unchanged.
pub fn rewrite_html(
    html: &[u8],
    mut rename: impl FnMut(&str) -> Option<String>,
) -> Result<Rewritten, Unchanged> {
    let mut changes = Changes::default();
    let mut has_base = false;
    let mut out = Rewritten::default();
    let mut tag = OpenTag::default();
    let mut picture = Picture::Outside;
    scan(html, |markup| match markup {
        Markup::TagName(name) => {
            tag.close(html, &mut changes, &mut out);
            let is_start = name.start > 0 && html[name.start - 1] == b'<';
            let element = &html[name];
            if element.eq_ignore_ascii_case(b"picture") {
                picture = match is_start {
                    true => Picture::Inside,
                    false => Picture::Outside,
                };
            }
            tag = OpenTag {
                element,
                changes: changes.list.len(),
                is_fallback: picture == Picture::InsideTyped
                    && element.eq_ignore_ascii_case(b"img"),
                ..OpenTag::default()
            };
        }
        Markup::Tag { .. } | Markup::Comment(_) | Markup::Declaration(_) => {}
        Markup::Text { element, content } => {
            tag.close(html, &mut changes, &mut out);
            if element.eq_ignore_ascii_case(b"style") {
                urls_of_css(html, content, &mut |url| {
                    changes.replace(html, url, &mut rename);
                });
            }
        }
        Markup::Attribute {
            element,
            name,
            value,
        } => {
            let name = html[name].to_ascii_lowercase();
            let is =
                |text: &str, of: &[u8]| text == "*" || of.eq_ignore_ascii_case(text.as_bytes());
            has_base |= is("base", element) && name == b"href";
            tag.note(html, &name, value.clone());
            if picture == Picture::Inside && is("source", element) && name == b"type" {
                picture = Picture::InsideTyped;
            }
            // With a character reference, the value differs from the written text.
            if html[value.clone()].contains(&b'&') {
                // The value may be a URL that is not changed.
                tag.urls += 1;
                return;
            }
            match name.as_slice() {
                b"style" => {
                    urls_of_css(html, value, &mut |url| {
                        changes.replace(html, url, &mut rename);
                    });
                }
                b"srcset" | b"imagesrcset" => {
                    for url in candidates(html, value) {
                        tag.urls += 1;
                        changes.replace(html, url, &mut rename);
                    }
                }
                _ => {
                    let is_url = URL_ATTRIBUTES
                        .iter()
                        .any(|&(of, attribute)| is(of, element) && is(attribute, &name));
                    if is_url {
                        tag.urls += 1;
                        changes.replace(html, trimmed(html, value), &mut rename);
                    }
                }
            }
        }
    })?;
    tag.close(html, &mut changes, &mut out);
    if has_base {
        return Err(Unchanged::Base);
    }
    out.references = (changes.list.len() - changes.formats) as u64;
    out.content = changes.apply(html);
    Ok(out)
}

/// Replaces each URL of a style sheet for which the function returns another URL. All other bytes are
/// unchanged.
pub fn rewrite_css(css: &[u8], mut rename: impl FnMut(&str) -> Option<String>) -> Rewritten {
    let mut changes = Changes::default();
    urls_of_css(css, 0..css.len(), &mut |url| {
        changes.replace(css, url, &mut rename);
    });
    Rewritten {
        references: changes.list.len() as u64,
        content: changes.apply(css),
        ..Rewritten::default()
    }
}

/// The start tag whose attributes are being read.
#[derive(Debug, Default)]
struct OpenTag<'a> {
    element: &'a [u8],
    /// The number of changes before the tag.
    changes: usize,
    /// The number of URLs in the tag.
    urls: usize,
    /// The position of the value of `type`.
    format: Option<Range<usize>>,
    states_hash: bool,
    /// The URL of the file whose hash the tag may state; `Some(None)` if the URL cannot be read with certainty.
    hashed: Option<Option<&'a str>>,
    /// Whether the tag is an `<img>` for browsers that cannot show the other formats of its `<picture>`.
    is_fallback: bool,
}

/// The position relative to a `<picture>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    Outside,
    Inside,
    /// After a `source` that states its format.
    InsideTyped,
}

impl<'a> OpenTag<'a> {
    /// Records an attribute.
    fn note(&mut self, html: &'a [u8], name: &[u8], value: Range<usize>) {
        match name {
            b"integrity" => self.states_hash = true,
            b"type" => drop(self.format.get_or_insert(value)),
            b"href" | b"src" | b"xlink:href" => {
                let url = html[value].trim_ascii();
                let is_certain = url.is_ascii() && !url.iter().any(|byte| b"&\\".contains(byte));
                let url = str::from_utf8(url).ok().filter(|_| is_certain);
                // If two attributes refer to files, the valid attribute depends on the element.
                self.hashed = Some(url.filter(|_| self.hashed.is_none()));
            }
            b"imagesrcset" => self.hashed = Some(None),
            _ => {}
        }
    }

    /// Finishes the tag after its last attribute.
    fn close(&mut self, html: &[u8], changes: &mut Changes, out: &mut Rewritten) {
        let tag = std::mem::take(self);
        if tag.states_hash {
            match tag.hashed {
                Some(Some(url)) => out.hashed.push(url.to_owned()),
                Some(None) => out.hashes_unknown = true,
                None => {}
            }
        }
        let is_changed = changes.list.len() > tag.changes;
        if is_changed && tag.is_fallback {
            changes.list.truncate(tag.changes);
            return;
        }
        let format = tag.format.filter(|format| {
            let text = html[format.clone()].trim_ascii_start();
            text.len() >= 6 && text[..6].eq_ignore_ascii_case(b"image/")
        });
        let is_typed = TYPED_ELEMENTS
            .iter()
            .any(|element| tag.element.eq_ignore_ascii_case(element));
        if let Some(format) = format
            && is_changed
            && is_typed
        {
            changes.state_format(tag.changes, tag.urls, format);
        }
    }
}

/// Returns the media type of an image with this URL, by its extension.
fn media_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit_once('.')?.1 {
        "png" => Some("image/png"),
        "webp" => Some("image/webp"),
        "avif" => Some("image/avif"),
        _ => None,
    }
}

/// The changed ranges with their new texts, in ascending order.
#[derive(Debug, Default)]
struct Changes {
    list: Vec<(Range<usize>, String)>,
    /// The number of changes that are formats (`type`) and not URLs.
    formats: usize,
}

impl Changes {
    fn replace(
        &mut self,
        content: &[u8],
        url: Range<usize>,
        rename: &mut impl FnMut(&str) -> Option<String>,
    ) {
        let written = &content[url.clone()];
        if !written.is_ascii() || written.contains(&b'\\') {
            return;
        }
        let renamed = std::str::from_utf8(written).ok().and_then(rename);
        self.list.extend(renamed.map(|renamed| (url, renamed)));
    }

    /// Changes the stated format to the format of the changed URLs, which follow the first `from` changes. If one of
    /// the `urls` of the tag is unchanged, or their formats differ, all of them remain unchanged.
    fn state_format(&mut self, from: usize, urls: usize, format: Range<usize>) {
        let changed = &self.list[from..];
        let new = changed.first().and_then(|(_, url)| media_type(url));
        let is_alike = changed.iter().all(|(_, url)| media_type(url) == new);
        match new.filter(|_| is_alike && changed.len() == urls) {
            Some(new) => {
                self.list.push((format, new.to_owned()));
                self.list[from..].sort_by_key(|(range, _)| range.start);
                self.formats += 1;
            }
            None => self.list.truncate(from),
        }
    }

    fn apply(self, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(content.len());
        let mut at = 0;
        for (range, text) in self.list {
            out.extend_from_slice(&content[at..range.start]);
            out.extend_from_slice(text.as_bytes());
            at = range.end;
        }
        out.extend_from_slice(&content[at..]);
        out
    }
}

/// Calls the function for the text in each `url(…)` of a style sheet, except in comments and strings (CSS
/// Syntax, section 4.3.6).
fn urls_of_css(content: &[u8], css: Range<usize>, found: &mut dyn FnMut(Range<usize>)) {
    let end = css.end;
    let mut at = css.start;
    while at < end {
        let rest = &content[at..end];
        let is_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-_\\".contains(byte) || *byte > 127;
        at += match rest[0] {
            b'/' if rest.starts_with(b"/*") => {
                memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4)
            }
            quote @ (b'"' | b'\'') => length_of_string(rest, quote),
            _ if is_name(&rest[0]) => {
                let name = rest.iter().take_while(|byte| is_name(byte)).count();
                match rest[..name].eq_ignore_ascii_case(b"url") && rest.get(name) == Some(&b'(') {
                    true => {
                        let inside = &rest[name + 1..];
                        let (url, length) = url_token(inside);
                        let start = at + name + 1;
                        if let Some(url) = url {
                            found(start + url.start..start + url.end);
                        }
                        name + 1 + length
                    }
                    false => name,
                }
            }
            _ => 1,
        };
    }
}

/// Returns the length of the string that begins with this quote. The string ends at the next quote or, if there is
/// none, at the end of the line.
fn length_of_string(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'\\' => at += 1,
            b'\n' => break,
            _ if byte == quote => break,
            _ => {}
        }
    }
    at.min(text.len())
}

/// Reads the URL after `url(`. Returns the URL, and the length up to the position after `)`.
fn url_token(inside: &[u8]) -> (Option<Range<usize>>, usize) {
    let start = inside
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    match inside.get(start) {
        Some(&quote @ (b'"' | b'\'')) => {
            let length = length_of_string(&inside[start..], quote);
            let is_closed = length > 1 && inside[start + length - 1] == quote;
            (
                is_closed.then(|| start + 1..start + length - 1),
                start + length,
            )
        }
        _ => match inside.iter().position(|&byte| byte == b')') {
            Some(end) => {
                let spaces = inside[start..end].iter().rev();
                let spaces = spaces.take_while(|byte| byte.is_ascii_whitespace()).count();
                (Some(start..end - spaces), end + 1)
            }
            None => (None, inside.len()),
        },
    }
}

/// Returns the URLs of a `srcset` (HTML, section 4.8.4.2.1).
fn candidates(content: &[u8], value: Range<usize>) -> Vec<Range<usize>> {
    let mut urls = Vec::new();
    let mut at = value.start;
    let count = |from: usize, is: &dyn Fn(u8) -> bool| {
        let rest = &content[from..value.end];
        from + rest.iter().take_while(|&&byte| is(byte)).count()
    };
    loop {
        at = count(at, &|byte| byte.is_ascii_whitespace() || byte == b',');
        if at == value.end {
            return urls;
        }
        let end = count(at, &|byte| !byte.is_ascii_whitespace());
        let commas = content[at..end]
            .iter()
            .rev()
            .take_while(|&&byte| byte == b',')
            .count();
        urls.push(at..end - commas);
        // A descriptor ends at the next comma; there is no descriptor if the URL ended with a comma.
        at = match commas {
            0 => count(end, &|byte| byte != b','),
            _ => end,
        };
    }
}

/// Removes surrounding spaces from the range.
fn trimmed(content: &[u8], value: Range<usize>) -> Range<usize> {
    let text = &content[value.clone()];
    let before = text.len() - text.trim_ascii_start().len();
    let length = text.trim_ascii().len();
    value.start + before..value.start + before + length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_texts::random_texts;

    /// Appends `.png` to URLs that end in `.gif`.
    fn rename(url: &str) -> Option<String> {
        url.ends_with(".gif").then(|| format!("{url}.png"))
    }

    fn html(before: &str) -> (String, u64) {
        let rewritten = rewrite_html(before.as_bytes(), rename).unwrap();
        (
            String::from_utf8(rewritten.content).unwrap(),
            rewritten.references,
        )
    }

    #[test]
    fn urls_of_html_are_rewritten_and_nothing_else() {
        for (before, after, count) in [
            (
                "<IMG SRC=a.gif ALT=a.gif>",
                "<IMG SRC=a.gif.png ALT=a.gif>",
                1,
            ),
            ("<img src=' a.gif '>", "<img src=' a.gif.png '>", 1),
            (
                "<body background=\"/b.gif\">b.gif",
                "<body background=\"/b.gif.png\">b.gif",
                1,
            ),
            ("<!-- <img src=a.gif> -->", "<!-- <img src=a.gif> -->", 0),
            (
                "<script>x='a.gif'</script>",
                "<script>x='a.gif'</script>",
                0,
            ),
            (
                "<a href=a.gif><q cite=a.gif>",
                "<a href=a.gif.png><q cite=a.gif>",
                1,
            ),
            ("<img src='a&amp;.gif'>", "<img src='a&amp;.gif'>", 0),
            ("<img src='\u{e9}.gif'>", "<img src='\u{e9}.gif'>", 0),
            (
                "<img srcset='a.gif 1x, b.gif 2x,c.gif'>",
                "<img srcset='a.gif.png 1x, b.gif.png 2x,c.gif.png'>",
                3,
            ),
            (
                "<img srcset=' a.gif, b.gif'>",
                "<img srcset=' a.gif.png, b.gif.png'>",
                2,
            ),
            (
                "<p style=\"background: url('a.gif')\">",
                "<p style=\"background: url('a.gif.png')\">",
                1,
            ),
            (
                "<style>p { background: url( a.gif ) }</style><p>url(a.gif)",
                "<style>p { background: url( a.gif.png ) }</style><p>url(a.gif)",
                1,
            ),
        ] {
            assert_eq!(html(before), (after.to_owned(), count), "{before}");
        }
    }

    #[test]
    fn documents_whose_urls_mean_something_else_are_left() {
        let refused = rewrite_html(b"<base href=/x/><img src=a.gif>", rename);
        assert_eq!(refused, Err(Unchanged::Base));
        assert!(rewrite_html(b"<base target=x><img src=a.gif>", rename).is_ok());
    }

    #[test]
    fn files_whose_hash_is_stated_are_named() {
        for (html, hashed, unknown) in [
            (
                "<link href=' a.css ' integrity=x><img src=b>",
                vec!["a.css"],
                false,
            ),
            (
                "<script INTEGRITY=x src=a.js></script>",
                vec!["a.js"],
                false,
            ),
            ("<link href='a&amp;b' integrity=x>", vec![], true),
            ("<link href=\u{e9} integrity=x>", vec![], true),
            ("<link href=a><p integrity=x>", vec![], false),
        ] {
            let read = rewrite_html(html.as_bytes(), |_| None).unwrap();
            assert_eq!(
                (read.hashed, read.hashes_unknown),
                (hashed.into_iter().map(str::to_owned).collect(), unknown),
                "{html}"
            );
        }
    }

    #[test]
    fn a_stated_format_changes_with_the_urls_or_both_stay() {
        for (before, after, count) in [
            (
                "<source type=image/gif srcset=a.gif>",
                "<source type=image/png srcset=a.gif.png>",
                1,
            ),
            (
                "<source srcset='a.gif, b.gif 2x' type='image/gif'>",
                "<source srcset='a.gif.png, b.gif.png 2x' type='image/png'>",
                2,
            ),
            (
                "<source srcset='a.gif, b.webp 2x' type='image/gif'>",
                "<source srcset='a.gif, b.webp 2x' type='image/gif'>",
                0,
            ),
            (
                "<picture><source type=image/webp srcset=a.webp><img src=a.gif></picture><img src=a.gif>",
                "<picture><source type=image/webp srcset=a.webp><img src=a.gif></picture><img src=a.gif.png>",
                1,
            ),
            (
                "<picture><source media=print srcset=b.gif><img src=a.gif></picture>",
                "<picture><source media=print srcset=b.gif.png><img src=a.gif.png></picture>",
                2,
            ),
        ] {
            assert_eq!(html(before), (after.to_owned(), count), "{before}");
        }
    }

    #[test]
    fn urls_of_css_are_rewritten_outside_of_comments_and_strings() {
        for (before, after) in [
            ("a{b:url(a.gif)}", "a{b:url(a.gif.png)}"),
            (
                "a{b:URL( \"a.gif\" ) url('b.gif')}",
                "a{b:URL( \"a.gif.png\" ) url('b.gif.png')}",
            ),
            ("/* url(a.gif) */ b{}", "/* url(a.gif) */ b{}"),
            ("a{content:'url(a.gif)'}", "a{content:'url(a.gif)'}"),
            ("a{b:my-url(a.gif)}", "a{b:my-url(a.gif)}"),
            ("a{b:url(a\\.gif)}", "a{b:url(a\\.gif)}"),
            ("a{b:url(a.gif", "a{b:url(a.gif"),
            ("a{b:url('a.gif", "a{b:url('a.gif"),
            (
                "a{b:'broken\n;c:url(a.gif)}",
                "a{b:'broken\n;c:url(a.gif.png)}",
            ),
        ] {
            let rewritten = rewrite_css(before.as_bytes(), rename);
            assert_eq!(
                String::from_utf8(rewritten.content).unwrap(),
                after,
                "{before}"
            );
        }
    }

    #[test]
    fn any_bytes_are_rewritten_without_a_panic_and_unchanged_without_names() {
        let alphabet = b"<>/=\"' urlsci(),*\\mg\n";
        for text in random_texts(alphabet, 24, 20_000) {
            let text = [b"<img srcset=".as_slice(), &text].concat();
            assert_eq!(rewrite_html(&text, |_| None).unwrap().content, text);
            assert_eq!(rewrite_css(&text, |_| None).content, text);
        }
    }
}
