//! Bar charts with intervals and published figures. A chart has one panel for each table, or one panel for each section
//! if a table has several.

use fathometer_model::digits::trimmed;
use maud::{Markup, html};

use super::evidence;
use super::stacked;
use crate::digest::Digest;
use crate::run::Cell;
use crate::statistics::Estimate;
use crate::study::Figure;
use crate::svg::{Scale, label_width, natural_width, xy};
use crate::tables::{Column, Datum, Measured, PublishedValue, RowResult, TableResult};

const PANEL: f64 = 276.0;
const PANEL_GAP: f64 = 28.0;
const TOP: f64 = 26.0;
const AXIS: f64 = 34.0;
const BAR: f64 = 9.0;
const BAR_GAP: f64 = 3.0;
const ROW_GAP: f64 = 12.0;

/// The charts at the beginning of the report.
pub(super) fn headline(digest: &Digest<'_>) -> Markup {
    let figures = |headline| {
        digest
            .study
            .figures
            .iter()
            .filter(move |figure| figure.headline == headline)
            .filter_map(|figure| match figure.stack.is_empty() {
                true => chart(digest, figure),
                false => stacked::chart(digest, figure),
            })
    };
    html! {
        @for chart in figures(true) { (chart) }
        @for chart in figures(false) { (chart) }
    }
}

/// One chart; `None` if none of its tables was measured.
fn chart(digest: &Digest<'_>, figure: &Figure) -> Option<Markup> {
    let mut panels: Vec<Found<'_>> = Vec::new();
    for id in &figure.tables {
        let tables = digest.measured_tables(id);
        let sections = sections(&tables);
        let title = digest.study.table(id)?.panel.as_str();
        match sections.len() {
            _ if tables.is_empty() => {}
            0 | 1 => panels.push(Found {
                title,
                section: None,
                tables,
            }),
            _ => panels.extend(sections.into_iter().map(|section| Found {
                title: section,
                section: Some(section),
                tables: tables.clone(),
            })),
        }
    }
    if panels.is_empty() {
        return None;
    }
    let eras = digest.eras();
    let rows = rows(&panels);
    let has_published = panels
        .iter()
        .flat_map(|panel| &panel.tables)
        .any(|table| table.has_published());
    let lane = BAR + BAR_GAP;
    let row_height = lane * eras.len() as f64 + ROW_GAP;
    let height = TOP + row_height * rows.len() as f64 + AXIS;
    let covered = digest.coverage_of_tables();
    let labels = label_width(rows.iter().map(String::as_str));
    let width = labels + panels.len() as f64 * (PANEL + PANEL_GAP);
    Some(html! {
        figure.chart.bars {
            h3 { (figure.title) }
            div.legend {
                @for (index, era) in eras.iter().enumerate() {
                    span data-era=(index) { i class={ "swatch era" (index) } {} "era " (era) }
                }
                @if let Some(covered) = &covered { span { i.whisker {} "interval that covers " (covered) } }
                @if has_published { span { i.diamond {} "published" } }
            }
            div.scroll {
                svg viewBox={ "0 0 " (xy(width)) " " (xy(height)) } role="img"
                    style=(natural_width(width))
                    aria-label={ (figure.title) ". The figures are in the tables below." } {
                    @for (place, row) in rows.iter().enumerate() {
                        text.row x=(xy(labels - 10.0)) text-anchor="end"
                            y=(xy(TOP + row_height * (place as f64 + 0.5) - ROW_GAP / 2.0 + 4.0)) {
                            (row)
                        }
                    }
                    @for (place, found) in panels.iter().enumerate() {
                        (Panel {
                            digest,
                            found,
                            figure,
                            eras: &eras,
                            rows: &rows,
                            left: labels + place as f64 * (PANEL + PANEL_GAP),
                            row_height,
                        }.draw())
                    }
                }
            }
            figcaption { (figure.caption) }
        }
    })
}

/// The content of a panel: all tables with one name (one for each era), or one section of these tables.
struct Found<'a> {
    title: &'a str,
    section: Option<&'a str>,
    tables: Vec<&'a TableResult>,
}

/// The sections of tables, in order.
fn sections<'a>(tables: &[&'a TableResult]) -> Vec<&'a str> {
    let mut sections: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        if !sections.contains(&row.section.as_str()) {
            sections.push(&row.section);
        }
    }
    sections
}

/// The rows of all panels. Their order is the order of the first panel that contains the row.
fn rows(panels: &[Found<'_>]) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let all = panels.iter().flat_map(|panel| &panel.tables);
    for row in all.flat_map(|table| &table.rows) {
        if !rows.contains(&row.brief) {
            rows.push(row.brief.clone());
        }
    }
    rows
}

struct Panel<'a> {
    digest: &'a Digest<'a>,
    found: &'a Found<'a>,
    figure: &'a Figure,
    eras: &'a [String],
    rows: &'a [String],
    left: f64,
    row_height: f64,
}

impl Panel<'_> {
    fn draw(&self) -> Markup {
        let scale = self.scale();
        let bottom = TOP + self.row_height * self.rows.len() as f64;
        html! {
            text.panel x=(xy(self.left)) y="14" { (self.found.title) }
            @for tick in scale.ticks(5) {
                line.grid x1=(xy(scale.place(tick))) x2=(xy(scale.place(tick)))
                    y1=(xy(TOP - 4.0)) y2=(xy(bottom)) {}
                text.tick x=(xy(scale.place(tick))) y=(xy(bottom + 14.0)) text-anchor="middle" {
                    (trimmed(tick))
                }
            }
            text.tick x=(xy(self.left)) y=(xy(bottom + 29.0)) { (self.figure.axis) }
            @for (place, row) in self.rows.iter().enumerate() {
                (self.row(row, TOP + self.row_height * place as f64, &scale))
            }
        }
    }

    fn row(&self, row: &str, top: f64, scale: &Scale) -> Markup {
        let lane = BAR + BAR_GAP;
        let published = self
            .found
            .tables
            .iter()
            .find_map(|table| self.datum(table, row)?.1.published);
        let lanes_end = top + lane * self.eras.len() as f64 - BAR_GAP;
        html! {
            @for (index, era) in self.eras.iter().enumerate() {
                @let table = self.found.tables.iter().find(|table| table.era == *era);
                @let found = table.and_then(|table| self.datum(table, row));
                @let cell = table.and_then(|table| self.cell(table, row));
                @let y = top + lane * index as f64;
                @match found {
                    Some((column, datum)) => {
                        @let bar = self.bar(column, datum, index, y, scale);
                        @match cell {
                            Some(cell) => a href={ "#" (evidence::anchor(self.digest, cell)) } { (bar) },
                            None => (bar),
                        }
                    }
                    None => {}
                }
            }
            @if let Some(published) = published {
                @let x = scale.place(published.value);
                @let middle = (top + lanes_end) / 2.0;
                line.published x1=(xy(x)) x2=(xy(x)) y1=(xy(top - 2.0)) y2=(xy(lanes_end + 2.0)) {}
                path.published d={ "M" (xy(x)) " " (xy(middle - 4.5)) "l4.5 4.5l-4.5 4.5l-4.5 -4.5z" } {}
            }
        }
    }

    fn bar(&self, column: &Column, datum: &Datum, era: usize, y: f64, scale: &Scale) -> Markup {
        let middle = y + BAR / 2.0;
        let note = |text: &str| {
            html! {
                text.absent x=(xy(self.left + 4.0)) y=(xy(y + BAR - 1.0)) { (text) }
            }
        };
        let estimate = match &datum.ours {
            Measured::Value { estimate, .. } => estimate,
            Measured::Invalid { .. } => return note("INVALID"),
            Measured::Ambiguous { .. } => return note("several cells"),
            Measured::Missing => return note("not measured"),
        };
        let end = scale.place(estimate.value);
        let reach = estimate.interval.map_or(end, |i| scale.place(i.high));
        // The position of the figure, which must not overlap the whisker or the published mark.
        let mark = datum.published.map(|p| scale.place(p.value) + 5.0);
        let clear = mark.filter(|mark| *mark > reach - 5.0 && *mark < reach + 44.0);
        let text = clear.unwrap_or(reach).max(reach) + 5.0;
        let label = format!("{}, era {}", self.found.title, self.eras[era]);
        html! {
            g data-era=(era) {
                title { (label) ": " (described(column, estimate, datum.published)) }
                rect class={ "bar era" (era) } x=(xy(self.left)) y=(xy(y))
                    width=(xy((end - self.left).max(0.5))) height=(xy(BAR)) {}
                @if let Some(interval) = estimate.interval {
                    @let (low, high) = (scale.place(interval.low), scale.place(interval.high));
                    path.whisker d={
                        "M" (xy(low)) " " (xy(middle)) "H" (xy(high))
                        "M" (xy(low)) " " (xy(middle - 3.0)) "v6M" (xy(high)) " " (xy(middle - 3.0)) "v6"
                    } {}
                }
                text.value x=(xy(text)) y=(xy(y + BAR - 0.5)) { (column.format(estimate.value)) }
            }
        }
    }

    fn line<'t>(&self, table: &'t TableResult, row: &str) -> Option<&'t RowResult> {
        let section = self.found.section;
        let is_here = |r: &&RowResult| section.is_none_or(|section| r.section == section);
        table.rows.iter().filter(is_here).find(|r| r.brief == row)
    }

    fn datum<'t>(&self, table: &'t TableResult, row: &str) -> Option<(&'t Column, &'t Datum)> {
        let group = table.group(&self.figure.group)?;
        let column = table.column(&self.figure.column)?;
        let row = self.line(table, row)?;
        Some((&table.columns[column], &row.data[group][column]))
    }

    fn cell(&self, table: &TableResult, row: &str) -> Option<&Cell> {
        let group = table.group(&self.figure.group)?;
        evidence::of_table(self.digest, table, self.line(table, row)?, group)
    }

    /// The scale of the axis: from zero to the largest figure, plus space for its digits. It starts at zero, because
    /// lengths must be proportional to values.
    fn scale(&self) -> Scale {
        let largest = self
            .found
            .tables
            .iter()
            .flat_map(|table| self.rows.iter().filter_map(|row| self.datum(table, row)))
            .flat_map(|(_, datum)| {
                let ours = match &datum.ours {
                    Measured::Value { estimate, .. } => {
                        Some(estimate.interval.map_or(estimate.value, |i| i.high))
                    }
                    _ => None,
                };
                ours.into_iter().chain(datum.published.map(|p| p.value))
            })
            .fold(0.0, f64::max);
        Scale::linear(0.0, largest * 1.22, self.left, self.left + PANEL)
    }
}

/// The text of a bar, as in `0.079 [0.070, 0.089], n = 5, published 0.08`.
fn described(column: &Column, estimate: &Estimate, published: Option<PublishedValue>) -> String {
    let mut text = column.format(estimate.value);
    if let Some(interval) = estimate.interval {
        let (low, high) = (column.format(interval.low), column.format(interval.high));
        text.push_str(&format!(" [{low}, {high}]"));
    }
    text.push_str(&format!(", n = {}", estimate.n));
    if let Some(published) = published {
        text.push_str(&format!(", published {}", column.format(published.value)));
    }
    text
}
