//! The answer of a run and its certainty, in sentences.

use maud::{Markup, html};

use crate::claims::{ClaimResult, Verdict};
use crate::digest::Digest;

/// The largest number of claims that are named; if there are more, they are only counted.
const NAMED: usize = 8;

/// The answer, one sentence for each era.
pub(super) fn answer(digest: &Digest<'_>) -> Markup {
    let measured: usize = digest.closeness.iter().map(|bar| bar.measured()).sum();
    let within: usize = digest.closeness.iter().map(|bar| bar.within()).sum();
    html! {
        @if digest.validity.replicates == 0 {
            p { "Nothing was measured." }
        } @else {
            @for era in digest.eras() { (of_claims(digest, &era)) }
            @if measured > 0 {
                p {
                    a href="#close" { strong { (within) " of " (measured) } }
                    " published figures that were measured are within their tolerance."
                }
            }
            @if !digest.claims.is_empty() && !is_any_tested(digest) {
                p {
                    "This run tests none of the claims: " a href="#cells" { "the figures of its cells" } " are the result."
                }
            }
            @if digest.claims.is_empty() {
                p {
                    "This study has no claims to judge: " a href="#cells" { "the figures of its cells" } " are the result."
                }
            }
        }
    }
}

fn is_any_tested(digest: &Digest<'_>) -> bool {
    let mut verdicts = digest.claims.iter().flat_map(|claim| &claim.eras);
    verdicts.any(|era| era.verdict != Verdict::NotTested)
}

/// The certainty of the answer: replicates, coverage of the intervals, A/A tests, validity.
pub(super) fn certainty(digest: &Digest<'_>) -> Markup {
    let valid = digest.run.cells.iter().map(|cell| cell.valid().count());
    let valid = || valid.clone().filter(|n| *n > 0);
    html! {
        @if let (Some(fewest), Some(most)) = (valid().min(), valid().max()) {
            p {
                "n = " strong { (fewest) @if fewest < most { " to " (most) } }
                " valid replicates of each cell."
                @if let Some(covered) = digest.coverage_of_claims() {
                    " The intervals behind the verdicts cover the true value " (covered) " of the time."
                }
            }
        }
        @if let Some(stopping) = &digest.run.info.stopping { p { (stopping.sentence()) } }
        @if let Some(caveat) = digest.coverage_caveat() { p { strong { (caveat) } } }
        @if let Some(equal) = &digest.equal_cells {
            p { a href="#equal-cells" { "A/A" } ": " (equal.count.sentence()) }
        }
        p { (of_validity(digest)) " " a href="#validity" { "Validity" } }
    }
}

/// The verdicts on the claims in one era; empty when no claim was tested.
fn of_claims(digest: &Digest<'_>, era: &str) -> Markup {
    let of = |wanted: Verdict| -> Vec<&ClaimResult> {
        let claims = digest.claims.iter();
        let is_wanted = |claim: &&ClaimResult| {
            let mut eras = claim.eras.iter();
            eras.any(|verdict| verdict.era == era && verdict.verdict == wanted)
        };
        claims.filter(is_wanted).collect()
    };
    let holds = of(Verdict::Holds).len();
    let others: Vec<(Vec<&ClaimResult>, &str, &str)> = [
        (
            of(Verdict::HoldsWeaker),
            "holds with a smaller amount",
            "hold with a smaller amount",
        ),
        (
            of(Verdict::Equal),
            "shows no difference",
            "show no difference",
        ),
        (of(Verdict::Reversed), "is reversed", "are reversed"),
        (of(Verdict::Undecided), "is undecided", "are undecided"),
    ]
    .into_iter()
    .filter(|(claims, ..)| !claims.is_empty())
    .collect();
    let tested = holds
        + others
            .iter()
            .map(|(claims, ..)| claims.len())
            .sum::<usize>();
    html! {
        @if tested > 0 {
            p {
                "With the TCP of the era " (era) ", "
                a href="#claims" { strong { (holds) " of " (tested) } }
                " tested " (if tested == 1 { "claim" } else { "claims" }) " "
                (if holds == 1 { "holds" } else { "hold" })
                @for (claims, one, many) in &others {
                    "; " (claims.len()) " " (if claims.len() == 1 { one } else { many })
                    " (" (names(claims)) ")"
                }
                "."
            }
        }
    }
}

fn names(claims: &[&ClaimResult]) -> Markup {
    html! {
        @for (place, claim) in claims.iter().take(NAMED).enumerate() {
            @if place > 0 { ", " }
            a href={ "#" (claim.id) } { (claim.id) }
        }
        @if claims.len() > NAMED { " and " (claims.len() - NAMED) " more" }
    }
}

fn of_validity(digest: &Digest<'_>) -> String {
    let summary = &digest.validity;
    let mut text = match summary.cells_invalid + summary.cells_partly_valid {
        0 => format!("All {} cells are valid", summary.cells),
        _ => format!(
            "INVALID cells, which have no figures: {} of {}; cells that lost some replicates: {}",
            summary.cells_invalid, summary.cells, summary.cells_partly_valid
        ),
    };
    text.push_str(&match summary.replicates_repeated {
        0 => "; no replicate was repeated.".to_owned(),
        1 => format!(
            "; 1 of {} replicates was repeated, as its first attempt was invalid.",
            summary.replicates
        ),
        repeated => format!(
            "; {repeated} of {} replicates were repeated, as their first attempts were invalid.",
            summary.replicates
        ),
    });
    if let (Some(planned), false) = (summary.replicates_planned, summary.is_complete()) {
        text.push_str(&format!(
            " The run is not complete: {} of {planned} replicates are recorded.",
            summary.replicates
        ));
    }
    text
}
