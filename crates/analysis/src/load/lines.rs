//! Lines of the final screen: a heading and a text.

use crate::text::wrap;

/// Width of the screen in columns.
pub(super) const WIDTH: usize = 100;
/// Width of the headings in columns.
pub(super) const HEAD: usize = 14;
/// A placeholder for a space at which a line must not be broken. It does not occur in texts.
const GLUE: char = '\u{1f}';

/// Formats a heading and a text. Further lines are indented to the start of the text.
pub(super) fn line(head: &str, text: &str) -> String {
    let mut out = String::new();
    for (place, line) in wrap(&glued(text), WIDTH - HEAD).iter().enumerate() {
        let head = if place == 0 { head } else { "" };
        let line = line.replace(GLUE, " ");
        out.push_str(&format!("{head:<HEAD$}{line}\n"));
    }
    out
}

/// Protects every space after a digit from a line break. So a number is never separated from its digit groups and its
/// unit.
fn glued(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    for character in text.chars() {
        let is_bound = character == ' ' && glued.ends_with(|c: char| c.is_ascii_digit());
        glued.push(if is_bound { GLUE } else { character });
    }
    glued
}
