//! A verdict as a section of a report, and as a separate page. It shows the bottleneck, the elasticities as points with
//! their intervals, and the measurements of the probes.

use maud::{Markup, html};

use super::words::{elasticity, factor};
use super::{Basis, Confusion, Effect, Outcome, Ranked, Response, Suspicion, Verdict};
use crate::page;
use crate::statistics::Estimate;
use crate::svg::xy;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 16.0;
const MARGIN: f64 = 12.0;
/// The range of elasticities that the scale shows; a value outside this range is drawn as an arrow.
const SHOWN: (f64, f64) = (-1.25, 1.25);

/// A page of several verdicts, each under a title, followed by the confusion table when there is one.
pub fn page(title: &str, verdicts: &[(String, &Verdict)], confusion: Option<&Confusion>) -> String {
    let body = html! {
        header { h1 { (title) } }
        main {
            @if let Some(confusion) = confusion {
                section id="confusion" {
                    h2 { "Planted and named" }
                    (confusion.html())
                }
            }
            @for (place, (name, verdict)) in verdicts.iter().enumerate() {
                section id={ "verdict-" (place + 1) } {
                    h2 { (name) }
                    (section(verdict))
                }
            }
        }
    };
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    page::page(title, policy, &body).into_string()
}

/// One verdict, without a heading.
pub fn section(verdict: &Verdict) -> Markup {
    let varied: Vec<&Ranked> = verdict
        .ranking
        .iter()
        .filter(|ranked| ranked.elasticity.is_some())
        .collect();
    let suspicions = verdict.ranking.iter().filter_map(|r| r.suspicion.as_ref());
    let suspicions: Vec<&Suspicion> = suspicions.collect();
    html! {
        p.lead { (badge(&verdict.outcome)) " " (verdict.summary) "." }
        @if let Outcome::Limited { resource, .. } = &verdict.outcome {
            dl.facts {
                dt { "means" } dd { (resource.meaning()) }
                dt { "to do" } dd { (resource.advice()) }
            }
        }
        @if !varied.is_empty() { (elasticities(&varied, verdict)) }
        @if !suspicions.is_empty() { (probes(&suspicions)) }
        @if !verdict.remarks.is_empty() {
            ul.remark {
                @for remark in &verdict.remarks { li { (remark) } }
            }
        }
    }
}

fn badge(outcome: &Outcome) -> Markup {
    let (class, word) = match outcome {
        Outcome::Limited { resource, basis } => match basis {
            Basis::SaturationAndPerturbation | Basis::Perturbation => ("holds", resource.name()),
            Basis::Elimination => ("weaker", resource.name()),
        },
        Outcome::Together { .. } => ("weaker", "together"),
        Outcome::Undecided { .. } => ("undecided", "undecided"),
        Outcome::Invalid { .. } => ("reversed", "INVALID"),
    };
    html! { span.badge.(class) { (word) } }
}

fn elasticities(varied: &[&Ranked], verdict: &Verdict) -> Markup {
    html! {
        div.table {
            table.close {
                caption { "Elasticities to relief" }
                thead {
                    tr {
                        th { "limit" }
                        th.number { "step" }
                        th.number { "of throughput" }
                        td.strip { (axis()) }
                        th.number { "of latency" }
                        td.strip { (axis()) }
                        th.number { "n" }
                        th { "" }
                    }
                }
                tbody {
                    @for ranked in varied {
                        @if let Some(of) = &ranked.elasticity {
                            @for (place, response) in of.responses.iter().enumerate() {
                                (row(ranked, response, (place == 0).then_some(of.effect)))
                            }
                        }
                    }
                }
            }
        }
        p.remark {
            "1: throughput changes in proportion; 0: no change. Each elasticity is for a larger limit; for the round \
             trip it is for a shorter one. A line is the " (verdict.level_text()) " interval (Student's t) over replicates \
             with common random numbers."
            @if let Some(simultaneous) = verdict.simultaneous_text() { " " (simultaneous) }
        }
    }
}

fn row(ranked: &Ranked, response: &Response, effect: Option<Effect>) -> Markup {
    html! {
        tr {
            td { @if effect.is_some() { (ranked.resource.name()) } }
            td.number { (factor(response.factor)) }
            td.number { (elasticity(&response.throughput)) }
            td.strip { (strip(&response.throughput)) }
            td.number { (elasticity(&response.latency)) }
            td.strip { (strip(&response.latency)) }
            td.number { (response.throughput.n) }
            td { @if let Some(effect) = effect { (effect.words()) } }
        }
    }
}

fn probes(suspicions: &[&Suspicion]) -> Markup {
    html! {
        h3 { "Measurements of the probes in the unchanged trial" }
        dl.facts {
            @for suspicion in suspicions {
                dt { (suspicion.resource.name()) ", " (suspicion.confidence.words()) }
                dd { (suspicion.evidence.join("; ")) }
            }
        }
    }
}

/// A bar from zero to the estimate, with its interval.
fn strip(estimate: &Estimate) -> Markup {
    let (zero, x) = (place(0.0), place(estimate.value));
    let middle = HEIGHT / 2.0;
    html! {
        svg.strip viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } aria-hidden="true" {
            rect.bar.era1 x=(xy(zero.min(x))) width=(xy((x - zero).abs())) y="5" height="6" {}
            line.zero x1=(xy(zero)) x2=(xy(zero)) y1="0" y2=(HEIGHT) {}
            @if let Some(interval) = estimate.interval {
                @let (low, high) = (place(interval.low), place(interval.high));
                path.whisker d={
                    "M" (xy(low)) " " (middle - 3.0) "v6m0 -3H" (xy(high)) "m0 -3v6"
                } {}
            }
            @if estimate.value < SHOWN.0 {
                path.dot.era1 d={ "M" (xy(x)) " " (middle - 4.0) "v8l-6 -4z" } {}
            } @else if estimate.value > SHOWN.1 {
                path.dot.era1 d={ "M" (xy(x)) " " (middle - 4.0) "v8l6 -4z" } {}
            }
        }
    }
}

fn axis() -> Markup {
    html! {
        svg.strip.axis viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } aria-hidden="true" {
            @for (value, label) in [(-1.0, "−1"), (0.0, "0"), (1.0, "1")] {
                text.tick x=(xy(place(value))) y="12" text-anchor="middle" { (label) }
            }
        }
    }
}

fn place(value: f64) -> f64 {
    let (low, high) = SHOWN;
    let share = (value.clamp(low, high) - low) / (high - low);
    MARGIN + share * (WIDTH - 2.0 * MARGIN)
}
