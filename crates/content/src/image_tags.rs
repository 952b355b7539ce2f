//! Finds the images that a document shows with `<img>`: their position, their alternative text, and the bytes of the
//! tag.

use std::ops::Range;

use crate::markup::{Markup, Unchanged, scan};

/// An `<img>` with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageTag<'a> {
    /// The value of `src` as written in the document, without surrounding spaces.
    pub source: &'a str,
    /// The value of `alt` as written in the document, with its character references; `None` without the attribute.
    pub alt: Option<&'a str>,
    /// The value of `width` as written in the document.
    pub width: Option<&'a str>,
    /// The value of `height` as written in the document.
    pub height: Option<&'a str>,
    /// Whether the tag is outside of `<picture>` and has no attribute that may change the rendering. The permitted
    /// attributes are `src`, `alt`, `width`, `height` and `border=0`.
    pub is_plain: bool,
    /// Whether a browser may show another file than the source: the tag has a `srcset`, or is inside a `<picture>`.
    pub has_alternatives: bool,
    /// The position of the value of `src` in the document, including its quotes.
    pub source_start: usize,
    /// The length of the value of `src` in bytes, including its quotes.
    pub source_bytes: usize,
    /// The length of the tag in bytes, from `<` to `>`.
    pub bytes: usize,
}

/// Calls the function for each `<img>`, in document order. Tags are skipped if their source or text is not
/// UTF-8, or if their source has a character reference.
///
/// # Errors
///
/// If a tag cannot be distinguished from text without building the element tree; the function has then been called for
/// the earlier tags. Also if the document has a `base`, which changes the meaning of all sources.
pub fn image_tags<'a>(
    html: &'a [u8],
    mut found: impl FnMut(ImageTag<'a>),
) -> Result<(), Unchanged> {
    let mut open: Option<Open> = None;
    let mut has_base = false;
    let mut is_in_picture = false;
    let result = scan(html, |markup| match markup {
        Markup::TagName(name) => {
            close(html, open.take(), &mut found);
            let is_start = name.start > 0 && html[name.start - 1] == b'<';
            let element = &html[name.clone()];
            if element.eq_ignore_ascii_case(b"picture") {
                is_in_picture = is_start;
            } else if is_start && element.eq_ignore_ascii_case(b"img") {
                open = Some(Open {
                    start: name.start - 1,
                    end: name.end,
                    is_plain: !is_in_picture,
                    has_alternatives: is_in_picture,
                    values: [const { None }; 4],
                });
            }
        }
        Markup::Attribute {
            element,
            name,
            value,
        } => {
            has_base |= element.eq_ignore_ascii_case(b"base")
                && html[name.clone()].eq_ignore_ascii_case(b"href");
            if let Some(open) = &mut open {
                open.end = value.end.max(name.end);
                let name = html[name].to_ascii_lowercase();
                open.has_alternatives |= name == b"srcset";
                match ATTRIBUTES.iter().position(|known| known.as_bytes() == name) {
                    // If two attributes have the same name, the first one is valid.
                    Some(place) => drop(open.values[place].get_or_insert(value)),
                    None => open.is_plain &= name == b"border" && &html[value] == b"0",
                }
            }
        }
        Markup::Text { .. } => close(html, open.take(), &mut found),
        Markup::Tag { .. } | Markup::Comment(_) | Markup::Declaration(_) => {}
    });
    close(html, open, &mut found);
    match has_base {
        true => Err(Unchanged::Base),
        false => result,
    }
}

/// The attributes that are read.
const ATTRIBUTES: [&str; 4] = ["src", "alt", "width", "height"];

/// A tag whose attributes are being read.
struct Open {
    start: usize,
    end: usize,
    is_plain: bool,
    has_alternatives: bool,
    /// The values of [`ATTRIBUTES`].
    values: [Option<Range<usize>>; 4],
}

fn close<'a>(html: &'a [u8], open: Option<Open>, found: &mut impl FnMut(ImageTag<'a>)) {
    let Some(open) = open else { return };
    // Only a quote, spaces and slashes can follow the last value.
    let Some(end) = memchr::memchr(b'>', &html[open.end..]) else {
        return;
    };
    let text = |range: Range<usize>| std::str::from_utf8(&html[range]).ok();
    let (source_start, source_bytes) = open.values[0].clone().map_or((0, 0), |value| {
        let is_quoted = value.start > 0 && matches!(html[value.start - 1], b'"' | b'\'');
        match is_quoted {
            true => (value.start - 1, value.len() + 2),
            false => (value.start, value.len()),
        }
    });
    let [source, alt, width, height] = open.values.map(|value| value.and_then(text));
    let Some(source) = source else { return };
    let source = source.trim_ascii();
    if source.is_empty() || source.contains('&') {
        return;
    }
    found(ImageTag {
        source,
        alt,
        width,
        height,
        is_plain: open.is_plain,
        has_alternatives: open.has_alternatives,
        source_start,
        source_bytes,
        bytes: open.end + end + 1 - open.start,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(html: &str) -> Vec<ImageTag<'_>> {
        let mut tags = Vec::new();
        image_tags(html.as_bytes(), |tag| tags.push(tag)).unwrap();
        tags
    }

    #[test]
    fn tags_have_their_bytes_and_texts() {
        let html = "<p><IMG SRC=a.gif><img alt='a &amp; b > c' src=\" b.gif \" />text<img src=c.gif alt src=d.gif\n>";
        let found = tags(html);
        let expected = [
            ("a.gif", None, "<IMG SRC=a.gif>".len()),
            (
                "b.gif",
                Some("a &amp; b > c"),
                "<img alt='a &amp; b > c' src=\" b.gif \" />".len(),
            ),
            ("c.gif", Some(""), "<img src=c.gif alt src=d.gif\n>".len()),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|tag| (tag.source, tag.alt, tag.bytes))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sizes_are_read_and_other_attributes_are_noted() {
        let found =
            tags("<img WIDTH=1 height='2%' border=0 src=a><img src=b border=1><img src=c class=x>");
        let sources: Vec<_> = found.iter().map(|tag| tag.source_bytes).collect();
        assert_eq!(sources, [1, 1, 1]);
        assert_eq!(tags("<img src=' a.gif'>")[0].source_bytes, 8);
        let sizes: Vec<_> = found
            .iter()
            .map(|tag| (tag.width, tag.height, tag.is_plain))
            .collect();
        let expected = [
            (Some("1"), Some("2%"), true),
            (None, None, false),
            (None, None, false),
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_tag_with_other_files_to_select_is_noted() {
        let found = tags(
            "<img src=a><picture><source srcset=x><img src=b></picture><img src=c><img src=d srcset='e 2x'>",
        );
        let found: Vec<_> = found
            .iter()
            .map(|tag| (tag.source, tag.has_alternatives, tag.is_plain))
            .collect();
        let expected = [
            ("a", false, true),
            ("b", true, false),
            ("c", false, true),
            ("d", true, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_tags_and_texts_have_no_image() {
        for html in [
            "<imgx src=a><a href=a.gif></a></img src=a>",
            "<script>'<img src=a>'</script><!-- <img src=a> -->",
            "<img alt=x><img src=''><img src='a&amp;b'>",
            "<img src=a",
        ] {
            assert_eq!(tags(html), [], "{html}");
        }
        let base = image_tags(b"<base href=/x/><img src=a>", |_| {});
        assert_eq!(base, Err(Unchanged::Base));
        assert!(image_tags(b"<img src=a><![CDATA[", |tag| assert_eq!(tag.source, "a")).is_err());
    }
}
