//! A verdict as text for the terminal, readable without colour. It shows the bottleneck, the remedy, the effect of
//! every step, and the measurements of the probes.

use std::cmp::Reverse;

use super::words::{factor, signed};
use super::{Basis, Outcome, Ranked, Resource, Suspicion, Verdict};
use crate::statistics::Estimate;
use crate::text::{Align, Grid, columns_of, hanging};

/// The smallest width of a screen with a table, in columns.
const LEAST: usize = 68;
/// The smallest width of a table with a latency column.
const MIDDLE: usize = 80;
/// The smallest width of a table with a scale.
const ROOMY: usize = 100;
/// Width of a scale in columns.
const SCALE: usize = 21;
/// The lower end of the scale of elasticities.
const FROM: f64 = -0.25;
/// The upper end of the scale; a value beyond it is drawn as an arrow.
const TO: f64 = 1.25;

/// The whole screen, in lines of at most `width` columns; widths below 68 count as 68.
pub fn render(verdict: &Verdict, width: usize) -> String {
    let width = width.max(LEAST);
    let mut text = hanging("", &verdict.summary, width);
    match &verdict.outcome {
        Outcome::Limited { resource, basis } => {
            let basis = match basis {
                Basis::SaturationAndPerturbation => "known from saturation and from perturbation",
                Basis::Perturbation => "known from perturbation alone",
                Basis::Elimination => "known by elimination",
            };
            let meaning = format!("{} ({basis})", resource.meaning());
            text.push_str(&hanging("  means    ", &meaning, width));
            text.push_str(&hanging("  to do    ", resource.advice(), width));
        }
        Outcome::Invalid { .. } => return text,
        Outcome::Together { .. } | Outcome::Undecided { .. } => {}
    }
    let varied: Vec<&Ranked> = verdict
        .ranking
        .iter()
        .filter(|ranked| ranked.elasticity.is_some())
        .collect();
    if !varied.is_empty() {
        text.push('\n');
        text.push_str(&table(&varied, width));
        let mut note =
            "Each limit was changed alone, n times, alternating with the unchanged trial"
                .to_owned();
        note.push_str(&format!(
            "; in brackets its {} interval, by Student's t over the pairs.",
            verdict.level_text()
        ));
        if let Some(simultaneous) = verdict.simultaneous_text() {
            note.push(' ');
            note.push_str(&simultaneous);
        }
        let scale = " The scale is the elasticity of throughput: at 0 the limit does not matter, at 1 \
                     throughput follows it in proportion.";
        let note = match width >= ROOMY {
            true => format!("{note}{scale}"),
            false => note,
        };
        text.push_str(&hanging("", &note, width));
    }
    let suspicions = verdict.ranking.iter().filter_map(|r| r.suspicion.as_ref());
    let mut suspicions: Vec<&Suspicion> = suspicions.collect();
    // The sort is stable: among equal suspicions, the suspicion of the named resource stays first.
    suspicions.sort_by_key(|suspicion| Reverse(suspicion.confidence));
    if !suspicions.is_empty() {
        text.push_str("\nsuspected from the probes, before any limit was varied\n");
        for suspicion in suspicions {
            text.push_str(&suspected(suspicion, width));
        }
    }
    if !verdict.remarks.is_empty() {
        text.push('\n');
        for remark in &verdict.remarks {
            text.push_str(&hanging("  - ", remark, width));
        }
    }
    text
}

fn suspected(suspicion: &Suspicion, width: usize) -> String {
    let head = format!(
        "  {:<16}{:<10}",
        suspicion.resource.name(),
        suspicion.confidence.words()
    );
    // This heading is longer than [`hanging`] accepts, so the lines are indented here.
    let indent = columns_of(&head);
    let mut text = String::new();
    let lines = crate::text::wrap(&suspicion.evidence.join("; "), width - indent);
    for (place, line) in lines.iter().enumerate() {
        match place {
            0 => text.push_str(&head),
            _ => text.extend(std::iter::repeat_n(' ', indent)),
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn table(varied: &[&Ranked], width: usize) -> String {
    let has_latency = width >= MIDDLE;
    let has_scale = width >= ROOMY;
    let mut aligns = vec![Align::Left, Align::Right, Align::Left];
    let mut header = vec!["limit", "step", " throughput"];
    if has_latency {
        aligns.push(Align::Right);
        header.push("latency");
    }
    aligns.extend([Align::Right, Align::Left, Align::Left]);
    header.extend([" n", ""]);
    let mut header: Vec<String> = header.into_iter().map(str::to_owned).collect();
    if has_scale {
        header.push(ruler());
    }
    let mut grid = Grid::new(aligns, Vec::new());
    grid.line(header);
    for ranked in varied {
        let Some(of) = &ranked.elasticity else {
            continue;
        };
        for (place, response) in of.responses.iter().enumerate() {
            let (name, effect) = match place {
                0 => (ranked.resource.name(), words(ranked.resource, of.effect)),
                _ => ("", ""),
            };
            let mut line = vec![
                name.to_owned(),
                factor(response.factor),
                format!(" {}", signed(&response.throughput_change())),
            ];
            if has_latency {
                let latency = Estimate {
                    interval: None,
                    ..response.latency_change()
                };
                line.push(signed(&latency));
            }
            line.extend([format!(" {}", response.throughput.n), effect.to_owned()]);
            if has_scale {
                line.push(scale(&response.throughput));
            }
            grid.line(line);
        }
    }
    grid.render()
}

fn words(resource: Resource, effect: super::Effect) -> &'static str {
    match (resource, effect) {
        // If more users get more throughput, the server is not the limit.
        (Resource::Load, super::Effect::Limits) => "gets more",
        (Resource::Load, super::Effect::DoesNot) => "gets no more",
        (_, super::Effect::Harms) => "harms",
        (_, effect) => effect.words(),
    }
}

/// The line above the scales, with the digits 0 and 1 at the positions of these elasticities.
fn ruler() -> String {
    let mut line = vec![' '; SCALE];
    for (value, mark) in [(0.0, '0'), (1.0, '1')] {
        line[place(value)] = mark;
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}

fn place(value: f64) -> usize {
    let share = ((value - FROM) / (TO - FROM)).clamp(0.0, 1.0);
    (share * (SCALE - 1) as f64).round() as usize
}

/// Draws an interval as a line and its estimate as a point, over a mark at zero.
fn scale(estimate: &Estimate) -> String {
    let mut line = vec![' '; SCALE];
    line[place(0.0)] = '┊';
    line[place(1.0)] = '┊';
    if let Some(interval) = estimate.interval {
        line[place(interval.low)..=place(interval.high)].fill('─');
    }
    line[place(estimate.value)] = match estimate.value {
        low if low < FROM => '◂',
        high if high > TO => '▸',
        _ => '●',
    };
    line.into_iter().collect::<String>().trim_end().to_owned()
}
