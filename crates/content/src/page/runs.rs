//! Finds runs of consecutive style sheets or scripts in a document, and replaces each run by one file.

use std::ops::Range;

use super::minify::is_read;
use crate::markup::{Markup, Unchanged, end_of_comment, scan};

/// The kind of the files in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunKind {
    /// `<link rel=stylesheet>`.
    StyleSheets,
    /// `<script src>`.
    Scripts,
}

/// At least two consecutive files that a document loads in the same way. Only white space and comments are between
/// their tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The kind of the files.
    pub kind: RunKind,
    /// The URLs as written in the document, without surrounding spaces.
    pub urls: Vec<&'a str>,
    /// The tags of each file.
    tags: Vec<Range<usize>>,
    /// The range of the first URL's value.
    first: Range<usize>,
}

/// A file of a run.
struct Part<'a> {
    kind: RunKind,
    url: &'a str,
    value: Range<usize>,
    tags: Range<usize>,
    /// The attributes that determine the loading of the file: all except the URL, sorted.
    attributes: Vec<(Vec<u8>, &'a [u8])>,
}

/// Finds the runs of a document, in order. Files with attributes that have other effects than loading in order are in
/// no run: `async`, `integrity`, `title`, `id` and similar ones.
///
/// # Errors
///
/// If a tag cannot be distinguished from text, or the document has a `base`. The document should then be left
/// unchanged.
pub fn runs(html: &[u8]) -> Result<Vec<Run<'_>>, Unchanged> {
    let mut reader = Reader {
        html,
        ..Reader::default()
    };
    scan(html, |markup| reader.read(markup))?;
    reader.finish_run();
    match reader.has_base {
        true => Err(Unchanged::Base),
        false => Ok(reader.runs),
    }
}

/// Replaces each of these runs in the document by one URL. `joined` must contain the result of [`runs`] in the same
/// order; `None` leaves a run unchanged.
pub fn join_runs(html: &[u8], joined: &[(Run<'_>, Option<String>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(html.len());
    let mut at = 0;
    for (run, url) in joined {
        let Some(url) = url else { continue };
        // A value without quotes now needs quotes, because the new URL may end with a slash or contain other special
        // characters.
        let is_quoted = run.first.start > 0 && matches!(html[run.first.start - 1], b'"' | b'\'');
        let quote = if is_quoted { "" } else { "\"" };
        out.extend_from_slice(&html[at..run.first.start]);
        out.extend_from_slice(format!("{quote}{url}{quote}").as_bytes());
        out.extend_from_slice(&html[run.first.end..run.tags[0].end]);
        at = run.tags.last().map_or(at, |tags| tags.end);
    }
    out.extend_from_slice(&html[at..]);
    out
}

/// The attributes of one tag, with the ranges of their values.
type Attributes<'a> = Vec<(Vec<u8>, Range<usize>)>;

#[derive(Default)]
struct Reader<'a> {
    html: &'a [u8],
    attributes: Attributes<'a>,
    /// The start tag of a script; its text and its end tag follow.
    script: Option<Part<'a>>,
    parts: Vec<Part<'a>>,
    runs: Vec<Run<'a>>,
    has_base: bool,
}

impl<'a> Reader<'a> {
    fn read(&mut self, markup: Markup<'a>) {
        match markup {
            Markup::TagName(_) => self.attributes.clear(),
            Markup::Attribute {
                element,
                name,
                value,
            } => {
                let name = self.html[name].to_ascii_lowercase();
                self.has_base |= element.eq_ignore_ascii_case(b"base") && name == b"href";
                self.attributes.push((name, value));
            }
            Markup::Tag {
                element,
                is_end,
                whole,
            } => self.tag(element, is_end, whole),
            Markup::Text { content, .. } => {
                // A script with text does more than load a file.
                let is_empty = self.html[content].trim_ascii().is_empty();
                self.script = self.script.take().filter(|_| is_empty);
            }
            Markup::Declaration(_) => self.finish_run(),
            Markup::Comment(comment) => {
                // The effect of a comment that a program reads may depend on its position, so the comment must not be
                // removed.
                if is_read(&self.html[comment]) {
                    self.finish_run();
                }
            }
        }
    }

    fn tag(&mut self, element: &'a [u8], is_end: bool, whole: Range<usize>) {
        if is_end && let Some(mut script) = self.script.take() {
            script.tags.end = whole.end;
            self.add(script);
            return;
        }
        let part = match is_end {
            false => self.part(element, whole),
            true => None,
        };
        match part {
            Some(part) if part.kind == RunKind::Scripts => self.script = Some(part),
            Some(part) => self.add(part),
            None => self.finish_run(),
        }
    }

    /// Returns the file that the start tag loads.
    fn part(&mut self, element: &[u8], tags: Range<usize>) -> Option<Part<'a>> {
        let kind = match element.to_ascii_lowercase().as_slice() {
            b"link" => RunKind::StyleSheets,
            b"script" => RunKind::Scripts,
            _ => return None,
        };
        let html = self.html;
        let mut url = None;
        let mut attributes = Vec::new();
        let mut is_style_sheet = false;
        for (name, range) in std::mem::take(&mut self.attributes) {
            let value = html[range.clone()].trim_ascii();
            if attributes.iter().any(|(other, _)| *other == name) {
                return None;
            }
            match (kind, name.as_slice()) {
                (RunKind::StyleSheets, b"href") | (RunKind::Scripts, b"src") => {
                    if url.is_some() {
                        return None;
                    }
                    url = Some((range, value));
                    continue;
                }
                (RunKind::StyleSheets, b"rel") if value.eq_ignore_ascii_case(b"stylesheet") => {
                    is_style_sheet = true;
                    continue;
                }
                (RunKind::StyleSheets, b"type") if value.eq_ignore_ascii_case(b"text/css") => {
                    continue;
                }
                (RunKind::Scripts, b"type") if value.eq_ignore_ascii_case(b"text/javascript") => {
                    continue;
                }
                (RunKind::StyleSheets, b"media") | (RunKind::Scripts, b"defer") => {}
                _ => return None,
            }
            attributes.push((name, value));
        }
        let (value, url) = url?;
        let is_certain =
            url.is_ascii() && !url.is_empty() && !url.iter().any(|byte| b"&\\\"'".contains(byte));
        if !is_certain || (kind == RunKind::StyleSheets && !is_style_sheet) {
            return None;
        }
        attributes.sort();
        Some(Part {
            kind,
            url: str::from_utf8(url).ok()?,
            value,
            tags,
            attributes,
        })
    }

    fn add(&mut self, part: Part<'a>) {
        if let Some(last) = self.parts.last() {
            let is_adjacent = is_blank(&self.html[last.tags.end..part.tags.start]);
            let is_alike = (last.kind, &last.attributes) == (part.kind, &part.attributes);
            if !(is_adjacent && is_alike) {
                self.finish_run();
            }
        }
        self.parts.push(part);
    }

    fn finish_run(&mut self) {
        self.script = None;
        let parts = std::mem::take(&mut self.parts);
        let [first, _, ..] = parts.as_slice() else {
            return;
        };
        self.runs.push(Run {
            kind: first.kind,
            first: first.value.clone(),
            urls: parts.iter().map(|part| part.url).collect(),
            tags: parts.into_iter().map(|part| part.tags).collect(),
        });
    }
}

/// Returns whether the text contains only white space and comments.
fn is_blank(html: &[u8]) -> bool {
    let mut rest = html.trim_ascii_start();
    while rest.starts_with(b"<!--") {
        rest = rest[end_of_comment(rest, 0)..].trim_ascii_start();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(html: &str) -> (Vec<Vec<String>>, String) {
        let found = runs(html.as_bytes()).unwrap();
        let urls = found
            .iter()
            .map(|run| run.urls.iter().map(|&url| url.to_owned()).collect())
            .collect();
        let replaced: Vec<_> = found
            .into_iter()
            .enumerate()
            .map(|(number, run)| (run, Some(format!("j{number}"))))
            .collect();
        let html = join_runs(html.as_bytes(), &replaced);
        (urls, String::from_utf8(html).unwrap())
    }

    #[test]
    fn files_that_follow_each_other_become_one() {
        let (urls, html) = joined(
            "<link rel=stylesheet href=a.css>\n<!-- x --> <LINK REL='StyleSheet' type=text/css HREF=' b.css '><p>\
             <script src='a.js'></script> <script src=b.js type=text/javascript> </script>\n<script src=c.js></script>!",
        );
        assert_eq!(urls, [vec!["a.css", "b.css"], vec!["a.js", "b.js", "c.js"]]);
        assert_eq!(
            html,
            "<link rel=stylesheet href=\"j0\"><p><script src='j1'></script>!"
        );
    }

    #[test]
    fn files_that_are_loaded_in_different_ways_stay() {
        for html in [
            "<link rel=stylesheet href=a><p><link rel=stylesheet href=b>",
            "<link rel=stylesheet href=a> x <link rel=stylesheet href=b>",
            "<link rel=stylesheet href=a media=print><link rel=stylesheet href=b>",
            "<link rel=stylesheet href=a title=x><link rel=stylesheet href=b title=x>",
            "<link rel=icon href=a><link rel=icon href=b>",
            "<link rel=stylesheet href=a integrity=x><link rel=stylesheet href=b integrity=x>",
            "<script src=a async></script><script src=b async></script>",
            "<script src=a type=module></script><script src=b type=module></script>",
            "<script src=a></script><script>x</script><script src=b></script>",
            "<script src=a>x</script><script src=b>y</script>",
            "<script src=a></script><script src=b defer></script>",
            "<link rel=stylesheet href=a><!--[if IE]><p><![endif]--><link rel=stylesheet href=b>",
            "<link rel=stylesheet href=a><!--#include file=x --><link rel=stylesheet href=b>",
            "<link rel=stylesheet href=a><!--> x --><link rel=stylesheet href=b>",
            "<link rel=stylesheet href='a&amp;b'><link rel=stylesheet href=c>",
            "<link rel=stylesheet href=a href=x><link rel=stylesheet href=c>",
        ] {
            assert_eq!(joined(html), (Vec::new(), html.to_owned()));
        }
        let one =
            "<link rel=stylesheet href=a media=print><link rel=stylesheet media=print href=b>";
        assert_eq!(
            joined(one).1,
            "<link rel=stylesheet href=\"j0\" media=print>"
        );
    }

    #[test]
    fn documents_whose_urls_mean_something_else_are_left() {
        assert_eq!(runs(b"<base href=/x/>"), Err(Unchanged::Base));
    }
}
