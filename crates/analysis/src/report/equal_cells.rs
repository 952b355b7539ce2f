//! The A/A tests of a run.

use maud::{Markup, html};

use crate::digest::Digest;
use crate::equal_cells::{CopyComparison, CopyVerdict};
use crate::statistics::Sides;

/// The section; empty for a run without equal cells.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    html! {
        @if let Some(equal) = &digest.equal_cells {
            p {
                "The two cells of each row are equal: their levels differ only in a label, which has no effect. They are "
                "compared by the method of claims. Every reported difference is a false alarm, so this table shows the rate of "
                "false alarms in this run."
            }
            p { strong { (equal.count.sentence()) } }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "Cell" }
                            th scope="col" { "Metric" }
                            th.number scope="col" { "n" }
                            th.number scope="col" { "Second over first" }
                            th.number scope="col" { "Interval" }
                            th scope="col" { "Verdict" }
                        }
                    }
                    tbody { @for comparison in &equal.comparisons { (row(comparison)) } }
                }
            }
            p {
                "The bound is from the binomial distribution. It is exact for independent comparisons, but the metrics of "
                "a pair depend on each other: a number above the bound is a hint, not a proof, that the intervals of this "
                "run are too narrow."
            }
        }
    }
}

fn row(comparison: &CopyComparison) -> Markup {
    html! {
        tr {
            th scope="row" {
                (comparison.name)
                @if comparison.name != comparison.block { " (" (comparison.block) ")" }
            }
            td { code { (comparison.metric) } }
            td.number {
                (comparison.n)
                @if comparison.sides == Sides::Independent { ", not paired" }
            }
            td.number { (comparison.ratio_text()) }
            td.number {
                @match comparison.ends_text() {
                    Some([low, high]) => (format!("{low} to {high}")),
                    None => "none",
                }
            }
            td {
                @match comparison.verdict {
                    CopyVerdict::Different => strong.invalid { "different" },
                    verdict => (verdict.word()),
                }
            }
        }
    }
}
