//! Lines of the final screen: a heading and a text.

use crate::text::wrap;

/// Width of the screen in columns.
pub(super) const WIDTH: usize = 100;
/// Width of the headings in columns.
pub(super) const HEAD: usize = 14;
/// Stands for a space at which a line must not be broken; it does not occur in texts.
const GLUE: char = '\u{1f}';

/// A heading and a text; further lines are indented to the start of the text.
pub(super) fn line(head: &str, text: &str) -> String {
    let mut out = String::new();
    for (place, line) in wrap(&glued(text), WIDTH - HEAD).iter().enumerate() {
        let head = if place == 0 { head } else { "" };
        let line = line.replace(GLUE, " ");
        out.push_str(&format!("{head:<HEAD$}{line}\n"));
    }
    out
}

/// Protects every space after a digit from a line break, so that a number stays together with its groups
/// of digits and its unit.
fn glued(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    for character in text.chars() {
        let is_bound = character == ' ' && glued.ends_with(|c: char| c.is_ascii_digit());
        glued.push(if is_bound { GLUE } else { character });
    }
    glued
}
