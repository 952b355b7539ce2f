//! Curves as text: one line for each series, with some levels as numbers and all levels as a sparkline.

use fathometer_model::digits::significant;

use super::WIDTH;
use crate::sweep::{CurveResult, Line, PanelResult};
use crate::text::{Align, Grid, hanging, wrap};

/// Number of levels that are shown as numbers.
const SHOWN: usize = 8;
const TITLE: usize = 17;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A figure of curves in one era. The era is named if there are several eras.
pub(super) fn full(curve: &CurveResult, name_era: bool) -> String {
    let mut heading = format!("{}: {}", curve.id, curve.title);
    if name_era {
        heading.push_str(&format!(", era {}", curve.era));
    }
    match curve.replicates() {
        Some((fewest, most)) if fewest < most => {
            heading.push_str(&format!(", n = {fewest} to {most}"));
        }
        Some((n, _)) => heading.push_str(&format!(", n = {n}")),
        None => {}
    }
    let mut text = hanging("", &heading, WIDTH);
    let levels = levels(curve);
    let shown = shown(&levels);
    let mut aligns = vec![Align::Left; 2];
    aligns.extend(vec![Align::Right; shown.len()]);
    aligns.push(Align::Left);
    let mut grid = Grid::new(aligns, vec![2]);
    let mut header = vec![String::new(), curve.along.clone()];
    header.extend(shown.iter().map(f64::to_string));
    grid.line(header);
    for panel in &curve.panels {
        let mut labels = wrap(&format!("{}, {}", panel.title, panel.unit), TITLE).into_iter();
        let greatest = greatest(panel);
        for line in &panel.lines {
            let mut fields = vec![labels.next().unwrap_or_default(), line.series.clone()];
            fields.extend(shown.iter().map(|x| figure(panel, line, *x)));
            fields.push(picture(line, &levels, greatest));
            grid.line(fields);
        }
        for label in labels.filter(|_| !panel.lines.is_empty()) {
            grid.line(vec![label]);
        }
    }
    text.push_str(&grid.render());
    if shown.len() < levels.len() {
        let (shown, all) = (shown.len(), levels.len());
        text.push_str(&format!("{shown} of {all} levels are shown as numbers\n"));
    }
    for panel in &curve.panels {
        let knees: Vec<String> = panel
            .lines
            .iter()
            .filter_map(|line| Some(format!("{} at {}", line.series, knee(line.knee?))))
            .collect();
        if !knees.is_empty() {
            let head = format!("Knee, {}: ", panel.title);
            text.push_str(&hanging(&head, &knees.join(", "), WIDTH));
        }
    }
    for panel in &curve.panels {
        let slopes = panel.lines.iter().filter_map(|line| line.slope_text());
        let slopes: Vec<String> = slopes.collect();
        if !slopes.is_empty() {
            let head = format!(
                "Slope, {}, {} per {}: ",
                panel.title, panel.unit, panel.along
            );
            text.push_str(&hanging(&head, &slopes.join("; "), WIDTH));
        }
    }
    for published in curve.published.iter().filter(|p| !p.figures.is_empty()) {
        text.push_str(&hanging("Paper: ", &published.sentence(), WIDTH));
    }
    text.push_str(&remarks(curve));
    if !curve.note.is_empty() {
        text.push_str(&hanging("Note: ", &curve.note, WIDTH));
    }
    text
}

/// The legend of the signs.
pub(super) fn legend() -> String {
    hanging(
        "",
        "Means over valid replicates; the report and curves.csv contain the intervals. The small charts show every \
         level, from zero to the largest value of the panel; - is not measured, INV is INVALID.",
        WIDTH,
    )
}

/// All levels of all lines.
fn levels(curve: &CurveResult) -> Vec<f64> {
    let left_out = curve.panels.iter().flat_map(|panel| &panel.left_out);
    let points = curve.points().map(|point| point.level);
    let mut levels: Vec<f64> = points.chain(left_out.map(|it| it.level)).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

/// At most `SHOWN` levels, evenly spaced, with the first and the last level.
fn shown(levels: &[f64]) -> Vec<f64> {
    if levels.len() <= SHOWN {
        return levels.to_vec();
    }
    let last = levels.len() - 1;
    let place = |i: usize| (i * last + (SHOWN - 1) / 2) / (SHOWN - 1);
    (0..SHOWN).map(|i| levels[place(i)]).collect()
}

fn figure(panel: &PanelResult, line: &Line, x: f64) -> String {
    let Some(point) = line.points.iter().find(|point| point.level == x) else {
        let mut left_out = panel.left_out.iter();
        let is_left_out = left_out.any(|it| it.series == line.series && it.level == x);
        return if is_left_out { "INV" } else { "-" }.to_owned();
    };
    match point.estimate {
        Some(estimate) if estimate.value == 0.0 => "0".to_owned(),
        Some(estimate) => significant(estimate.value),
        None => "INV".to_owned(),
    }
}

fn picture(line: &Line, levels: &[f64], greatest: f64) -> String {
    let block = |x: &f64| {
        let point = line.points.iter().find(|point| point.level == *x);
        let Some(estimate) = point.and_then(|point| point.estimate) else {
            return ' ';
        };
        let share = (estimate.value / greatest).clamp(0.0, 1.0);
        BLOCKS[(share * (BLOCKS.len() - 1) as f64).round() as usize]
    };
    levels.iter().map(block).collect()
}

/// The largest mean of a panel; 1 if no mean is above zero.
fn greatest(panel: &PanelResult) -> f64 {
    let points = panel.lines.iter().flat_map(|line| &line.points);
    let most = points
        .filter_map(|point| Some(point.estimate?.value))
        .fold(0.0, f64::max);
    if most > 0.0 { most } else { 1.0 }
}

fn knee(x: f64) -> String {
    if x.fract() == 0.0 {
        return x.to_string();
    }
    significant(x)
}

/// The remarks about points, and the points to which they apply.
fn remarks(curve: &CurveResult) -> String {
    let mut text = String::new();
    for (remark, places) in curve.remarks() {
        text.push_str(&hanging(&format!("{remark}: "), &places, WIDTH));
    }
    text
}
