//! Lines of the final screen: a head and a text.

use crate::text::wrap;

/// Width of the screen in columns.
pub(super) const WIDTH: usize = 100;
/// Width in columns of the heads.
pub(super) const HEAD: usize = 14;
/// Replaces a space at which a line must not be broken; it does not occur in texts.
const GLUE: char = '\u{1f}';

/// A head and a text whose further lines are indented below its first one.
pub(super) fn line(head: &str, text: &str) -> String {
    let mut out = String::new();
    for (place, line) in wrap(&glued(text), WIDTH - HEAD).iter().enumerate() {
        let head = if place == 0 { head } else { "" };
        let line = line.replace(GLUE, " ");
        out.push_str(&format!("{head:<HEAD$}{line}\n"));
    }
    out
}

/// Replaces every space after a digit, so that no line is broken there: a number stays together with its
/// thousands and its unit.
fn glued(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    for character in text.chars() {
        let is_bound = character == ' ' && glued.ends_with(|c: char| c.is_ascii_digit());
        glued.push(if is_bound { GLUE } else { character });
    }
    glued
}
