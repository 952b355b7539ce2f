//! Stacked bars: their parts add up to a figure. Each section of a table has one panel.

use fathometer_model::digits::trimmed;
use maud::{Markup, html};

use crate::digest::Digest;
use crate::study::Figure;
use crate::svg::{Scale, label_width, natural_width, xy};
use crate::tables::{Measured, RowResult, TableResult};

const PANEL: f64 = 250.0;
const PANEL_GAP: f64 = 22.0;
const TOP: f64 = 26.0;
const AXIS: f64 = 34.0;
const BAR: f64 = 12.0;
const BAR_GAP: f64 = 3.0;
const ROW_GAP: f64 = 10.0;
/// The number of styles of parts; further parts repeat the styles in order.
const LOOKS: usize = 6;

/// One chart; `None` if none of its tables was measured.
pub(super) fn chart(digest: &Digest<'_>, figure: &Figure) -> Option<Markup> {
    let tables: Vec<&TableResult> = figure
        .tables
        .iter()
        .flat_map(|id| digest.measured_tables(id))
        .collect();
    if tables.is_empty() {
        return None;
    }
    let distinct = |word: fn(&RowResult) -> &str| -> Vec<&str> {
        let mut words: Vec<&str> = Vec::new();
        for row in tables.iter().flat_map(|table| &table.rows) {
            if !words.contains(&word(row)) {
                words.push(word(row));
            }
        }
        words
    };
    let (sections, rows) = (distinct(|row| &row.section), distinct(|row| &row.brief));
    let lane = BAR + BAR_GAP;
    let row_height = lane * tables.len() as f64 + ROW_GAP;
    let bottom = TOP + row_height * rows.len() as f64;
    let labels = label_width(rows.iter().copied());
    let width = labels + sections.len() as f64 * (PANEL + PANEL_GAP);
    Some(html! {
        figure.chart.stacked {
            h3 { (figure.title) }
            div.legend {
                @for (place, part) in figure.stack.iter().enumerate() {
                    span { i class={ "swatch part" (place % LOOKS) } {} (part) }
                }
                @if tables.len() > 1 {
                    span {
                        "from above: "
                        (tables.iter().map(|t| format!("era {}", t.era)).collect::<Vec<_>>().join(", "))
                    }
                }
            }
            div.scroll {
                svg viewBox={ "0 0 " (xy(width)) " " (xy(bottom + AXIS)) } role="img"
                    style=(natural_width(width))
                    aria-label={ (figure.title) ". The figures are in the tables below." } {
                    @for (place, row) in rows.iter().enumerate() {
                        text.row x=(xy(labels - 10.0)) text-anchor="end"
                            y=(xy(TOP + row_height * (place as f64 + 0.5) - ROW_GAP / 2.0 + 4.0)) {
                            (row)
                        }
                    }
                    @for (place, section) in sections.iter().enumerate() {
                        @let left = labels + place as f64 * (PANEL + PANEL_GAP);
                        @let scale = scale(figure, &tables, section, left);
                        text.panel x=(xy(left)) y="14" { (section) }
                        @for tick in scale.ticks(4) {
                            line.grid x1=(xy(scale.place(tick))) x2=(xy(scale.place(tick)))
                                y1=(xy(TOP - 4.0)) y2=(xy(bottom)) {}
                            text.tick x=(xy(scale.place(tick))) y=(xy(bottom + 14.0))
                                text-anchor="middle" { (trimmed(tick)) }
                        }
                        text.tick x=(xy(left)) y=(xy(bottom + 29.0)) { (figure.axis) }
                        @for (index, row) in rows.iter().enumerate() {
                            @for (lane_index, table) in tables.iter().enumerate() {
                                @let y = TOP + row_height * index as f64 + lane * lane_index as f64;
                                (bar(figure, table, section, row, y, &scale))
                            }
                        }
                    }
                }
            }
            figcaption { (figure.caption) }
        }
    })
}

fn bar(
    figure: &Figure,
    table: &TableResult,
    section: &str,
    row: &str,
    y: f64,
    scale: &Scale,
) -> Markup {
    let left = scale.place(0.0);
    let Some(whole) = value(figure, table, section, row, &figure.column) else {
        return html! {
            text.absent x=(xy(left + 4.0)) y=(xy(y + BAR - 2.0)) { "not measured" }
        };
    };
    let mut sum = 0.0;
    let parts: Vec<(f64, f64)> = figure
        .stack
        .iter()
        .map(|part| {
            let from = sum;
            sum += value(figure, table, section, row, part).unwrap_or(0.0);
            (scale.place(from), scale.place(sum))
        })
        .collect();
    html! {
        @for (place, (from, to)) in parts.iter().enumerate() {
            rect class={ "part" (place % LOOKS) } x=(xy(*from)) y=(xy(y)) width=(xy(to - from))
                height=(xy(BAR)) {}
        }
        text.value x=(xy(scale.place(whole.max(sum)) + 4.0)) y=(xy(y + BAR - 2.0)) {
            (format!("{whole:.0}"))
        }
    }
}

fn value(
    figure: &Figure,
    table: &TableResult,
    section: &str,
    row: &str,
    column: &str,
) -> Option<f64> {
    let is_row = |found: &&RowResult| found.section == section && found.brief == row;
    let row = table.rows.iter().find(is_row)?;
    let datum = &row.data[table.group(&figure.group)?][table.column(column)?];
    match &datum.ours {
        Measured::Value { estimate, .. } => Some(estimate.value),
        _ => None,
    }
}

/// The scale from zero to the largest bar of a section, plus space for its digits. Each section has its own scale, so
/// that the parts are visible even at low load.
fn scale(figure: &Figure, tables: &[&TableResult], section: &str, left: f64) -> Scale {
    let largest = tables
        .iter()
        .flat_map(|table| table.rows.iter().map(move |row| (table, row)))
        .filter_map(|(table, row)| value(figure, table, section, &row.brief, &figure.column))
        .fold(0.0, f64::max);
    Scale::linear(0.0, largest * 1.2, left, left + PANEL)
}
