//! The claims with their verdicts. Every interval is drawn with its bounds.

use fathometer_model::digits::{significant, trimmed};
use maud::{Markup, html};

use crate::claims::{Bound, ClaimResult, Kind, Part, Verdict};
use crate::digest::Digest;
use crate::svg::{Scale, xy};

const WIDTH: f64 = 260.0;
const LANE: f64 = 9.0;

/// The section.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    let eras = digest.eras();
    let (shown, untested): (Vec<&ClaimResult>, Vec<&ClaimResult>) =
        digest.claims.iter().partition(|claim| has_figures(claim));
    html! {
        p.lead {
            "A claim holds when the whole interval over replicates lies in the shaded bound, in every "
            "environment. It holds weaker when the interval lies beyond the dashed line: the direction is right, but the "
            "amount is not."
            @if let Some(covered) = digest.coverage_of_claims() {
                " These intervals cover the true value " (covered) " of the time."
            }
        }
        @if let Some(caveat) = digest.coverage_caveat() { p.lead { (caveat) } }
        (overview(digest, &eras))
        @for claim in shown { (one(claim, &eras)) }
        @if !untested.is_empty() {
            h3 { "Not tested" }
            dl.facts {
                @for claim in untested {
                    dt id=(claim.id) { (claim.id) }
                    dd {
                        (claim.sentence) " "
                        span.remark { (claim.not_tested.as_deref().unwrap_or("This run has no figures for it.")) }
                    }
                }
            }
        }
    }
}

/// Whether the run has a figure for any test of a claim.
fn has_figures(claim: &ClaimResult) -> bool {
    let variants = claim.variants.iter().flat_map(|variant| &variant.eras);
    let mut parts = claim.eras.iter().chain(variants).flat_map(|era| &era.parts);
    claim.not_tested.is_none() && parts.any(|part| part.value.is_some() || part.n > 0)
}

fn overview(digest: &Digest<'_>, eras: &[String]) -> Markup {
    html! {
        div.scroll {
            table.overview {
                thead {
                    tr {
                        th scope="col" { "Claim" }
                        @for (index, era) in eras.iter().enumerate() {
                            th scope="col" { span class={ "tag era" (index) } { "era " (era) } }
                        }
                        th scope="col" { "Sentence" }
                    }
                }
                tbody {
                    @for claim in &digest.claims {
                        tr {
                            th scope="row" {
                                a href={ "#" (claim.id) } { (claim.id) }
                            }
                            @for era in eras {
                                td { (badge(claim, era)) }
                            }
                            td { (claim.sentence) }
                        }
                    }
                }
            }
        }
    }
}

fn badge(claim: &ClaimResult, era: &str) -> Markup {
    match claim.eras.iter().find(|verdict| verdict.era == era) {
        Some(verdict) => html! {
            span class={ "badge " (class(verdict.verdict)) } { (verdict.text()) }
        },
        None => html! { span class={ "badge " (class(Verdict::NotTested)) } { "not tested" } },
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::HoldsWeaker => "weaker",
        Verdict::Equal => "equal",
        Verdict::Undecided => "undecided",
        Verdict::Reversed => "reversed",
        Verdict::NotTested => "untested",
    }
}

fn one(claim: &ClaimResult, eras: &[String]) -> Markup {
    let mut labels: Vec<&str> = Vec::new();
    for part in claim.eras.iter().flat_map(|era| &era.parts) {
        if !labels.contains(&part.label.as_str()) {
            labels.push(&part.label);
        }
    }
    html! {
        article.claim id=(claim.id) {
            h3 { span.id { (claim.id) } " " (claim.sentence) }
            p.verdicts {
                @for (index, era) in eras.iter().enumerate() {
                    span class={ "tag era" (index) } { "era " (era) } " " (badge(claim, era)) " "
                }
                span.published { "paper: " (claim.published) }
            }
            @for verdict in claim.eras.iter().filter(|verdict| !verdict.remark.is_empty()) {
                p.remark { "era " (verdict.era) ": " (verdict.remark) "." }
            }
            @for variant in &claim.variants {
                p.remark {
                    "Read otherwise since " (variant.date) ", " (variant.name) ": "
                    @for verdict in &variant.eras {
                        "era " (verdict.era) " "
                        span class={ "badge " (class(verdict.verdict)) } { (verdict.text()) } " "
                    }
                    (variant.reason)
                }
            }
            @for label in labels { div.scroll { (test(claim, label, eras)) } }
        }
    }
}

/// One test, with one row for each environment. All eras share the axis.
fn test(claim: &ClaimResult, label: &str, eras: &[String]) -> Markup {
    let part = |era: &String, environment: &str| {
        let verdict = claim.eras.iter().find(|verdict| verdict.era == *era)?;
        verdict
            .parts
            .iter()
            .find(|part| part.label == label && part.environment_text() == environment)
    };
    let all: Vec<&Part> = claim
        .eras
        .iter()
        .flat_map(|era| &era.parts)
        .filter(|part| part.label == label)
        .collect();
    let mut environments: Vec<String> = Vec::new();
    for part in &all {
        let environment = part.environment_text();
        if !environments.contains(&environment) {
            environments.push(environment);
        }
    }
    // An era without cells for a test has no rows if another era has rows.
    let is_named = |environment: &String| !environment.split(' ').any(|level| level == "*");
    if environments.iter().any(is_named) {
        environments.retain(is_named);
    }
    let scale = scale(&all);
    let height = LANE * eras.len().max(1) as f64 + 5.0;
    html! {
        table.test {
            thead {
                tr {
                    th scope="col" {
                        (label) " " span.bound { (bound(&all[0].holds)) }
                        @if !all[0].counts { span.remark { " (shown, does not decide)" } }
                    }
                    td.strip { (axis(&scale)) }
                    @for (index, era) in eras.iter().enumerate() {
                        th.number scope="col" { span class={ "tag era" (index) } { "era " (era) } }
                        td {}
                    }
                    th.number scope="col" { "n" }
                }
            }
            tbody {
                @for environment in &environments {
                    @let parts: Vec<Option<&Part>> =
                        eras.iter().map(|era| part(era, environment)).collect();
                    tr {
                        th scope="row" { (environment) }
                        td.strip { (strip(&parts, &scale, height)) }
                        @for part in &parts { (figures(*part)) }
                        td.number { (replicates(&parts)) }
                    }
                    (remarks(&parts, eras))
                }
            }
        }
    }
}

/// The text of a bound, with mathematical symbols.
fn bound(bound: &Bound) -> String {
    let text = bound.to_string();
    text.replace(">=", "≥")
        .replace("<=", "≤")
        .replace("..", " to ")
}

fn figures(part: Option<&Part>) -> Markup {
    let Some(part) = part else {
        return html! { td.number {} td {} };
    };
    html! {
        td.number {
            @match part.value {
                Some(value) => (significant(value)),
                None => span.missing { "–" },
            }
            @if let Some(interval) = part.interval {
                " " span.interval {
                    "[" (significant(interval.low)) ", " (significant(interval.high)) "]"
                }
            }
        }
        td {
            span class={ "mark " (class(part.verdict)) } { (part.verdict) }
            @if let Some(leaning) = part.leaning { span.remark { " (" (leaning) "?)" } }
        }
    }
}

fn replicates(parts: &[Option<&Part>]) -> String {
    let n = parts.iter().flatten().map(|part| part.n).filter(|n| *n > 0);
    match (n.clone().min(), n.max()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest}–{most}"),
        (Some(n), _) => n.to_string(),
        _ => String::new(),
    }
}

fn remarks(parts: &[Option<&Part>], eras: &[String]) -> Markup {
    html! {
        @for (part, era) in parts.iter().zip(eras) {
            // The row of a part that was not measured already shows this.
            @let is_told = |part: &&Part| part.remark.is_empty() || part.remark == "not measured";
            @if let Some(part) = part.filter(|part| !is_told(part) && part.n != 1) {
                tr.remark { td colspan="7" { "era " (era) ": " (part.remark) } }
            }
        }
    }
}

fn strip(parts: &[Option<&Part>], scale: &Scale, height: f64) -> Markup {
    let Some(first) = parts.iter().flatten().next() else {
        return html! {};
    };
    let (low, high) = (end(scale, first.holds.low), end(scale, first.holds.high));
    html! {
        svg.strip viewBox={ "0 0 " (WIDTH) " " (height) } aria-hidden="true" {
            rect.band x=(xy(low)) width=(xy((high - low).max(1.5))) y="0" height=(xy(height)) {}
            @if let Some(weaker) = &first.weaker {
                @for edge in edges(weaker) {
                    line.weaker x1=(xy(scale.place(edge))) x2=(xy(scale.place(edge)))
                        y1="0" y2=(xy(height)) {}
                }
            }
            @for (index, part) in parts.iter().enumerate() {
                @if let Some((part, value)) = part.and_then(|part| Some((part, part.value?))) {
                    @let y = 2.5 + LANE * (index as f64 + 0.5);
                    @if let Some(interval) = part.interval {
                        line class={ "reach era" (index) } y1=(xy(y)) y2=(xy(y))
                            x1=(xy(scale.place(interval.low))) x2=(xy(scale.place(interval.high))) {}
                    }
                    circle class={ "dot era" (index) } cx=(xy(scale.place(value))) cy=(xy(y)) r="3" {}
                }
            }
        }
    }
}

fn axis(scale: &Scale) -> Markup {
    html! {
        svg.strip.axis viewBox={ "0 0 " (WIDTH) " 14" } aria-hidden="true" {
            @for tick in scale.ticks(4) {
                text.tick x=(xy(scale.place(tick))) y="10" text-anchor="middle" { (trimmed(tick)) }
            }
        }
    }
}

fn edges(bound: &Bound) -> impl Iterator<Item = f64> {
    [bound.low, bound.high]
        .into_iter()
        .filter(|v| v.is_finite())
}

fn end(scale: &Scale, value: f64) -> f64 {
    match value {
        f64::INFINITY => WIDTH,
        f64::NEG_INFINITY => 0.0,
        value => scale.place(value),
    }
}

/// The scale from the smallest to the largest value in a test's rows. It is logarithmic if all parts compare ratios.
fn scale(parts: &[&Part]) -> Scale {
    let mut values: Vec<f64> = Vec::new();
    for part in parts {
        values.extend(edges(&part.holds));
        values.extend(part.weaker.iter().flat_map(edges));
        values.extend(part.value);
        values.extend(part.interval.iter().flat_map(|i| [i.low, i.high]));
    }
    values.retain(|value| value.is_finite());
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if parts.iter().all(|part| {
        matches!(
            part.kind,
            Kind::Ratio | Kind::Contrast | Kind::Gain | Kind::Ranking
        )
    }) && low > 0.0
    {
        let room = (high / low).max(1.1).powf(0.08);
        return Scale::logarithmic(low / room, high * room, 10.0, WIDTH - 10.0);
    }
    let room = ((high - low) * 0.08).max(1e-3);
    Scale::linear(low - room, high + room, 10.0, WIDTH - 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::STYLE;

    #[test]
    fn every_verdict_has_a_class_of_its_own() {
        let all = Verdict::ALL;
        for (index, verdict) in all.into_iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(class(verdict), class(*other));
            }
            assert!(STYLE.contains(&format!(".badge.{}", class(verdict))));
        }
    }
}
