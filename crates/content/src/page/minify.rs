//! Minifies HTML: removes comments and repeated white space.

use std::ops::Range;

use crate::markup::{Markup, Unchanged, scan};
use crate::style_sheet::KeptWhiteSpace;

/// Elements that limit the scope of end tags: inside them, the end tag of an outer element is ignored (HTML, section
/// 13.2.4.2, "in scope").
const SCOPES: [&[u8]; 9] = [
    b"applet",
    b"caption",
    b"html",
    b"marquee",
    b"object",
    b"table",
    b"td",
    b"template",
    b"th",
];

/// Removes comments. Reduces each run of white space in text and between attributes to one space or line break, if a
/// browser shows no difference. Visible white space is preserved: in the elements of `kept`, and in elements that style
/// sheets in the document add. All white space is preserved if an attribute `style`, a style sheet from another host or
/// `xml:space` may make it visible.
///
/// Comments that a program may read are preserved: `<!--[if …]`, `<!--#…` (server-side includes), `<!-- ko …`
/// (Knockout) and `<!--!`. Scripts are unchanged. `style` is called for each style sheet in the document; it returns
/// the minified style sheet, or `None` to leave it unchanged.
///
/// # Errors
///
/// If the document has a construct whose extent depends on the element tree. The document should then be left
/// unchanged.
pub fn minify_html(
    html: &[u8],
    kept: &KeptWhiteSpace,
    mut style: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Unchanged> {
    let kept = kept_in(html, kept)?;
    let mut writer = Writer::new(html, &kept);
    scan(html, |markup| match markup {
        Markup::TagName(_) => {}
        Markup::Attribute { name, .. } => writer.gaps.push(name.start),
        Markup::Tag {
            element,
            is_end,
            whole,
        } => {
            writer.text_to(whole.start);
            writer.tag(whole);
            writer.note(element, is_end);
        }
        Markup::Text { element, content } => {
            let is_style = element.eq_ignore_ascii_case(b"style");
            let minified = match is_style {
                true => style(&html[content.clone()]),
                false => None,
            };
            // A less-than sign could end the element, or be markup inside SVG.
            let minified = minified.filter(|css| !css.contains(&b'<'));
            let text = minified.as_deref().unwrap_or(&html[content.clone()]);
            writer.verbatim(text, content.end);
        }
        Markup::Comment(comment) => {
            writer.text_to(comment.start);
            match writer.is_kept() || is_read(&html[comment.clone()]) {
                true => writer.verbatim(&html[comment.clone()], comment.end),
                false => writer.at = comment.end,
            }
        }
        Markup::Declaration(declaration) => {
            writer.text_to(declaration.start);
            writer.verbatim(&html[declaration.clone()], declaration.end);
        }
    })?;
    // A truncated tag is treated as text here, although a browser ignores it.
    let end = html.len();
    match writer.gaps.is_empty() {
        true => writer.text_to(end),
        false => writer.verbatim(&html[writer.at..], end),
    }
    Ok(writer.out)
}

/// Returns the elements with visible white space in this document.
fn kept_in(html: &[u8], kept: &KeptWhiteSpace) -> Result<KeptWhiteSpace, Unchanged> {
    let mut kept = kept.clone();
    let others = style_sheets(html, |css| kept.add_style_sheet(css))?;
    let mut everywhere = others && !kept.knows_other_hosts();
    scan(html, |markup| {
        if let Markup::Attribute { name, value, .. } = markup {
            let value = &html[value];
            match html[name].to_ascii_lowercase().as_slice() {
                // A character reference may hide the property name.
                b"style" if value.contains(&b'&') => everywhere = true,
                b"style" => kept.add_declarations(value),
                b"xml:space" => everywhere = true,
                _ => {}
            }
        }
    })?;
    Ok(match everywhere {
        true => KeptWhiteSpace::everywhere(),
        false => kept,
    })
}

/// Calls the function for each style sheet in the document. Returns whether the document loads style sheets from other
/// hosts.
///
/// # Errors
///
/// If the document has a construct whose extent depends on the element tree.
pub fn style_sheets(html: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, Unchanged> {
    let (mut is_style_sheet, mut is_elsewhere, mut others) = (false, false, false);
    scan(html, |markup| match markup {
        Markup::TagName(_) => (is_style_sheet, is_elsewhere) = (false, false),
        Markup::Attribute {
            element,
            name,
            value,
        } if element.eq_ignore_ascii_case(b"link") => {
            let value = &html[value];
            match html[name].to_ascii_lowercase().as_slice() {
                b"rel" => {
                    let words = value.to_ascii_lowercase();
                    is_style_sheet |= memchr::memmem::find(&words, b"stylesheet").is_some();
                }
                b"href" => {
                    is_elsewhere |= value.trim_ascii().starts_with(b"//") || value.contains(&b':');
                }
                _ => {}
            }
        }
        Markup::Tag { .. } => others |= is_style_sheet && is_elsewhere,
        Markup::Text { element, content } if element.eq_ignore_ascii_case(b"style") => {
            found(&html[content]);
        }
        _ => {}
    })?;
    Ok(others)
}

/// Returns whether a program may read the comment.
pub(super) fn is_read(comment: &[u8]) -> bool {
    let text = comment.strip_prefix(b"<!--").unwrap_or(comment);
    let word = text.trim_ascii_start();
    [b"[".as_slice(), b"<![", b"#", b"!"]
        .iter()
        .any(|begin| text.starts_with(begin))
        || [b"[if".as_slice(), b"ko ", b"/ko"]
            .iter()
            .any(|begin| word.starts_with(begin))
        || text.ends_with(b"<![endif]-->")
}

/// Writes the document.
struct Writer<'a> {
    html: &'a [u8],
    kept: &'a KeptWhiteSpace,
    out: Vec<u8>,
    /// The position up to which bytes were written.
    at: usize,
    /// The positions of the attribute names in the current tag.
    gaps: Vec<usize>,
    /// Whether the last byte is white space, so that further white space of the same text is removed.
    ends_in_space: bool,
    /// The open elements whose white space is preserved. The number counts the open inner elements that hide their end
    /// tags.
    open: Vec<(&'a [u8], usize)>,
}

impl<'a> Writer<'a> {
    fn new(html: &'a [u8], kept: &'a KeptWhiteSpace) -> Writer<'a> {
        Writer {
            html,
            kept,
            out: Vec::with_capacity(html.len()),
            at: 0,
            gaps: Vec::new(),
            ends_in_space: false,
            open: Vec::new(),
        }
    }

    fn is_kept(&self) -> bool {
        self.kept.is_everywhere() || !self.open.is_empty()
    }

    fn verbatim(&mut self, bytes: &[u8], end: usize) {
        self.out.extend_from_slice(bytes);
        (self.at, self.ends_in_space) = (end, false);
    }

    /// Writes the text up to `end`.
    fn text_to(&mut self, end: usize) {
        let text = &self.html[self.at..end];
        if self.is_kept() {
            if !text.is_empty() {
                self.verbatim(text, end);
            }
            return;
        }
        for &byte in text {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => {
                    let is_break = byte == b'\n' || byte == b'\r';
                    if !self.ends_in_space {
                        self.out.push(if is_break { b'\n' } else { b' ' });
                    } else if is_break && let Some(last) = self.out.last_mut() {
                        // White space with a line break is reduced to a line break (CSS Text, section 4.1.1).
                        *last = b'\n';
                    }
                    self.ends_in_space = true;
                }
                byte => {
                    self.out.push(byte);
                    self.ends_in_space = false;
                }
            }
        }
        self.at = end;
    }

    /// Writes a tag with one space between its attributes.
    fn tag(&mut self, whole: Range<usize>) {
        let html = self.html;
        for name in std::mem::take(&mut self.gaps) {
            let gap = spaces_before(html, self.at, name);
            if gap > 1 {
                self.verbatim(&html[self.at..name - gap], name);
                self.out.push(b' ');
            }
        }
        let close = whole.end - 1;
        let gap = spaces_before(html, self.at, close);
        self.verbatim(&html[self.at..close - gap], whole.end);
        self.out.push(b'>');
    }

    /// Updates the open elements.
    fn note(&mut self, element: &'a [u8], is_end: bool) {
        let is_scope = SCOPES.iter().any(|name| element.eq_ignore_ascii_case(name));
        if is_scope && let Some((_, scopes)) = self.open.last_mut() {
            match is_end {
                true => *scopes = scopes.saturating_sub(1),
                false => *scopes += 1,
            }
        }
        if !self.kept.is_kept_in(element) {
            return;
        }
        match is_end {
            false => self.open.push((element, 0)),
            true => {
                let place = self
                    .open
                    .iter()
                    .rposition(|(open, _)| open.eq_ignore_ascii_case(element));
                if let Some(place) = place
                    && self.open[place..].iter().all(|(_, scopes)| *scopes == 0)
                {
                    self.open.truncate(place);
                }
            }
        }
    }
}

/// Returns the white space that ends at `end` and does not start before `start`.
fn spaces_before(html: &[u8], start: usize, end: usize) -> usize {
    let text = &html[start..end];
    let is_space = |byte: &&u8| b" \t\n\r\x0c".contains(byte);
    text.iter().rev().take_while(is_space).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_texts::random_texts;

    fn minify(html: &str) -> String {
        let kept = KeptWhiteSpace::default();
        let minified = minify_html(html.as_bytes(), &kept, |_| None).unwrap();
        String::from_utf8(minified).unwrap()
    }

    #[test]
    fn comments_and_repeated_white_space_go() {
        for (before, after) in [
            ("<p>a  b\n   c</p>\n\n", "<p>a b\nc</p>\n"),
            ("a <!-- x --> b", "a b"),
            ("a<!-- x -->b", "ab"),
            ("a <!-- x -->\n b", "a\nb"),
            ("<p  class=x\n\tid='a  b' >", "<p class=x id='a  b'>"),
            ("<br  />x</p  >", "<br  />x</p>"),
            ("<a b= >", "<a b=>"),
            ("<!DOCTYPE  html>\n\n<html>", "<!DOCTYPE  html>\n<html>"),
            ("a  <b  c='", "a  <b  c='"),
            ("a  < b", "a < b"),
        ] {
            assert_eq!(minify(before), after, "{before}");
        }
    }

    #[test]
    fn white_space_that_is_shown_and_comments_that_are_read_stay() {
        for html in [
            "<pre>a  <b>b\n\n</b> <!-- x --> </pre>",
            "<pre><code>a  b</code>  c</pre>",
            "<textarea>a  b</textarea>",
            "<svg> <text>a  b</text>  </svg>",
            "<script>a  b // <p>  </script>",
            "<title>a  b</title>",
            "<!--[if IE]>  <p>  <![endif]-->",
            "<!--[if !IE]><!--><p><!--<![endif]-->",
            "<!--#include  file=x -->",
            "<!-- ko  if: x --><!-- /ko -->",
            "<p style='white-space:pre'>a  b",
            "<style>.x{white-space:pre}</style>a  b",
            "<pre><table></pre>a  b</table>",
            "<link rel=stylesheet href=http://other.test/x.css>a  b",
        ] {
            assert_eq!(minify(html), html);
        }
        let code = "<style>code{white-space:pre}</style><code>a  b</code> <p>";
        assert_eq!(minify(&code.replace("<p>", " <p>")), code);
        assert_eq!(minify("<pre>a  b</pre>  c"), "<pre>a  b</pre> c");
    }

    #[test]
    fn style_sheets_in_the_document_are_given_to_the_function() {
        let kept = KeptWhiteSpace::default();
        let html = b"<style> a </style><script> a </script><style>b</style>";
        let minified = minify_html(html, &kept, |css| match css {
            b" a " => Some(b"a".to_vec()),
            _ => Some(b"</style>".to_vec()),
        });
        let expected = b"<style>a</style><script> a </script><style>b</style>";
        assert_eq!(minified.unwrap(), expected);
    }

    #[test]
    fn a_second_pass_changes_nothing() {
        let alphabet = b"<>/!-='\" \n\tabPRE";
        let kept = KeptWhiteSpace::default();
        for html in random_texts(alphabet, 32, 20_000) {
            let once = minify_html(&html, &kept, |_| None).unwrap();
            assert!(once.len() <= html.len());
            let twice = minify_html(&once, &kept, |_| None).unwrap();
            assert_eq!(once, twice, "{:?}", String::from_utf8_lossy(&html));
        }
    }
}
