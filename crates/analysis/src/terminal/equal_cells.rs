//! The A/A tests of a run.

use super::WIDTH;
use crate::digest::Digest;
use crate::equal_cells::CopyComparison;
use crate::text::hanging;

/// The pairs of equal cells with one line for each metric, and the number of comparisons that report a difference;
/// empty for a run without equal cells.
pub(super) fn lines(digest: &Digest<'_>) -> String {
    let Some(equal) = &digest.equal_cells else {
        return String::new();
    };
    let mut text =
        String::from("A/A: equal cells measured twice, the second divided by the first\n");
    let mut before: Option<&CopyComparison> = None;
    for comparison in &equal.comparisons {
        let is_of = |other: &CopyComparison| {
            (&other.block, &other.cell, &other.copies)
                == (&comparison.block, &comparison.cell, &comparison.copies)
        };
        if !before.is_some_and(is_of) {
            text.push_str(&hanging("  ", &comparison.name, WIDTH));
        }
        text.push_str(&line(comparison));
        before = Some(comparison);
    }
    text.push_str(&hanging("", &equal.count.sentence(), WIDTH));
    text
}

/// A comparison as in `elapsed_s  n = 5  1.002 [0.991, 1.012]  equal`.
fn line(comparison: &CopyComparison) -> String {
    let interval = comparison.ends_text();
    let interval = interval.map(|[low, high]| format!("[{low}, {high}]"));
    let n = format!("n = {}", comparison.n);
    format!(
        "    {:19}  {n:6} {:>7} {:16}  {}\n",
        comparison.metric,
        comparison.ratio_text(),
        interval.unwrap_or_default(),
        comparison.verdict.word(),
    )
}
