//! Our figures compared with the published figures, one line for each, with the tolerance.

use fathometer_model::digits::{significant, trimmed};
use maud::{Markup, html};

use crate::closeness::{Closeness, Comparison};
use crate::digest::Digest;
use crate::svg::{Scale, xy};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 16.0;

/// The section.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    html! {
        p.lead {
            "Each dot is one of our figures, relative to the published one; the band is the study's tolerance. "
            "Figures outside the tolerance are explained if the captures show the cause."
        }
        @for bar in &digest.closeness { (one(digest, bar)) }
    }
}

fn one(digest: &Digest<'_>, bar: &Closeness) -> Markup {
    let eras = digest.eras();
    let era = eras.iter().position(|era| *era == bar.era).unwrap_or(0);
    let scale = scale(bar);
    let mut explanations: Vec<&str> = Vec::new();
    for text in bar
        .comparisons
        .iter()
        .filter_map(|c| c.explanation.as_deref())
    {
        if !explanations.contains(&text) {
            explanations.push(text);
        }
    }
    html! {
        div.table {
            table.close {
                caption {
                    span.id { (bar.title) }
                    span class={ "tag era" (era) } { "era " (bar.era) }
                    span.n {
                        (bar.counts())
                        @if bar.measured() + bar.calibrated().1 > 0 {
                            " within ±" (bar.tolerance_pct) " %"
                        }
                    }
                }
                thead {
                    tr {
                        th scope="col" { "Table" }
                        th scope="col" { "Row" }
                        th scope="col" { "Visit" }
                        th.number scope="col" { "ours" }
                        th.number scope="col" { "published" }
                        th.number scope="col" { "off" }
                        td.strip { (axis(&scale)) }
                    }
                }
                tbody {
                    @for comparison in &bar.comparisons {
                        (row(comparison, &scale, &explanations))
                    }
                }
            }
            @for (index, text) in explanations.iter().enumerate() {
                p.footnote { sup { (index + 1) } " " (text) }
            }
        }
    }
}

fn row(comparison: &Comparison, scale: &Scale, explanations: &[&str]) -> Markup {
    let mark = comparison
        .explanation
        .as_deref()
        .and_then(|text| explanations.iter().position(|known| *known == text));
    html! {
        tr.miss[comparison.off_pct.is_some() && !comparison.is_within()] {
            td { (comparison.table) }
            td {
                (comparison.row)
                @if let Some(reason) = &comparison.calibrated {
                    " " span.tag title=(reason) { "calibrated" }
                }
            }
            td { (comparison.group) }
            td.number {
                @match comparison.ours {
                    Some(ours) => { (significant(ours)) }
                    None => span.missing { "–" },
                }
            }
            td.number {
                @if comparison.derived { span.derived { "~" } }
                (significant(comparison.published))
            }
            td.number {
                @if let Some(off) = comparison.off_pct { (signed(off)) " %" }
                @if let Some(mark) = mark { sup { (mark + 1) } }
            }
            td.strip {
                @if let Some(off) = comparison.off_pct {
                    (strip(off, comparison.tolerance_pct, comparison.is_within(), scale))
                }
            }
        }
    }
}

fn strip(off: f64, tolerance: f64, is_within: bool, scale: &Scale) -> Markup {
    let (low, high) = (scale.place(-tolerance), scale.place(tolerance));
    let x = scale.place(off);
    let middle = HEIGHT / 2.0;
    let class = if is_within {
        "dot holds"
    } else {
        "dot reversed"
    };
    html! {
        svg.strip viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } aria-hidden="true" {
            rect.band x=(xy(low)) width=(xy(high - low)) y="0" height=(HEIGHT) {}
            line.zero x1=(xy(scale.place(0.0))) x2=(xy(scale.place(0.0))) y1="0" y2=(HEIGHT) {}
            @if scale.is_beyond(off) {
                @let way = if off > 0.0 { "v8l6 -4z" } else { "v8l-6 -4z" };
                path class=(class) d={ "M" (xy(x)) " " (xy(middle - 4.0)) (way) } {}
            } @else {
                circle class=(class) cx=(xy(x)) cy=(xy(middle)) r="3.6" {}
            }
        }
    }
}

fn axis(scale: &Scale) -> Markup {
    html! {
        svg.strip.axis viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } aria-hidden="true" {
            @for tick in scale.ticks(5) {
                text.tick x=(xy(scale.place(tick))) y="11" text-anchor="middle" { (trimmed(tick)) "%" }
            }
        }
    }
}

/// A value with its sign and one decimal, without `-0.0`.
fn signed(value: f64) -> String {
    let tenths = (10.0 * value).round() / 10.0;
    format!("{:+.1}", if tenths == 0.0 { 0.0 } else { tenths })
}

/// The scale for the tolerance and almost all figures. A figure beyond the scale is drawn as an arrow.
fn scale(bar: &Closeness) -> Scale {
    let mut sizes: Vec<f64> = bar
        .comparisons
        .iter()
        .filter_map(|c| c.off_pct)
        .map(f64::abs)
        .collect();
    sizes.sort_by(f64::total_cmp);
    let most = sizes.get(sizes.len() * 9 / 10).copied().unwrap_or(0.0);
    let reach = (1.2 * most).clamp(1.6 * bar.tolerance_pct, 4.0 * bar.tolerance_pct);
    Scale::linear(-reach, reach, 12.0, WIDTH - 12.0)
}
