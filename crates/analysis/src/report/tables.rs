//! Tables as HTML: our figures with the interval, figures of other servers, and the paper's figures with the ratio.

use fathometer_model::digits::significant;
use maud::{Markup, html};

use super::evidence;
use crate::digest::Digest;
use crate::tables::{Column, Datum, Measured, RowResult, TableResult};

/// The paper's tables, and a note on tables that the study does not have.
pub(super) fn of_the_paper(digest: &Digest<'_>) -> Markup {
    html! {
        @if !digest.study.layouts.is_empty() { p.lead {
            @if !digest.study.about.columns.is_empty() { (digest.study.about.columns) ". " }
            @if let Some(covered) = digest.coverage_of_tables() {
                "Our figures are followed by the longer half of the interval, which covers " (covered)
                ", unless all its shown digits are zero. "
            }
            "The paper's figures are followed by the ratio of ours to the paper's. Figures of the paper marked "
            span.derived { "~" } " are derived from its printed figures. Rows in italics are not in the paper."
            @if digest.study.layouts.iter().any(|layout| layout.relative_to.is_some()) {
                " In a table with rel., each row is divided by the row that the table names: our figures by ours, the "
                "paper's by the paper's. These ratios can be compared; they are followed by our ratio divided by the paper's. "
                "The absolute figures come from different machines and cannot be compared."
            }
        } }
        (tables(digest, true))
        @let missing = missing(digest);
        @if !missing.is_empty() {
            h3 { "Tables of the paper that this study does not have" }
            ul {
                @for (id, reason) in missing {
                    li { strong { (id) } ": " (reason) }
                }
            }
        }
    }
}

/// The study's own tables.
pub(super) fn of_ours(digest: &Digest<'_>) -> Markup {
    tables(digest, false)
}

fn missing<'a>(digest: &'a Digest<'_>) -> Vec<(&'a str, &'a str)> {
    let mut missing = digest.unmeasured_tables();
    missing.retain(|(id, _)| digest.study.table(id).is_some_and(|t| t.of_the_paper));
    missing
}

fn tables(digest: &Digest<'_>, of_the_paper: bool) -> Markup {
    html! {
        @for table in &digest.study.tables {
            @if table.of_the_paper == of_the_paper {
                @for (index, result) in digest.measured_tables(&table.id).into_iter().enumerate() {
                    (one(digest, result, index, era_place(digest, &result.era)))
                }
            }
        }
    }
}

fn era_place(digest: &Digest<'_>, era: &str) -> usize {
    let eras = digest.eras();
    eras.iter().position(|known| known == era).unwrap_or(0)
}

fn one(digest: &Digest<'_>, table: &TableResult, index: usize, era: usize) -> Markup {
    let id = format!("{}-{}", table.id, table.era);
    let widths = Widths::of(table);
    html! {
        div.table id=(id) data-of-era=(table.era) {
            table.figures style=(widths.table) {
                caption {
                    span.id { (table.id) }
                    @if index == 0 { " " (table.title) }
                    @if let Some(base) = &table.relative_to { span.n { "rel. to " (base) } }
                    span class={ "tag era" (era) } { "era " (table.era) }
                    @if let Some((fewest, most)) = table.replicates {
                        span.n {
                            "n = " (fewest)
                            @if most > fewest { " to " (most) }
                        }
                    }
                }
                colgroup {
                    col style=(widths.label);
                    col style=(widths.kind);
                    @for _ in 0..table.groups.len() * table.columns.len() {
                        col style=(widths.value);
                        col style=(widths.aside);
                    }
                }
                thead {
                    @if table.has_named_groups() {
                        tr {
                            td colspan="2" {}
                            @for (_, label) in &table.groups {
                                th.group scope="colgroup" colspan=(2 * table.columns.len()) {
                                    (label)
                                }
                            }
                        }
                    }
                    tr {
                        td colspan="2" {}
                        @for _ in &table.groups {
                            @for (place, column) in table.columns.iter().enumerate() {
                                th.first[place == 0] scope="col" { (column.label) }
                                td {}
                            }
                        }
                    }
                }
                @for (place, row) in table.rows.iter().enumerate() {
                    @let is_new = place == 0 || table.rows[place - 1].section != row.section;
                    @if is_new && !row.section.is_empty() {
                        tbody.section {
                            tr {
                                th scope="rowgroup"
                                    colspan=(2 + 2 * table.groups.len() * table.columns.len()) {
                                    (row.section)
                                }
                            }
                        }
                    }
                    (body(digest, table, row))
                }
            }
            @for (index, note) in table.footnotes.iter().enumerate() {
                p.footnote { sup { (index + 1) } " " (note) }
            }
            @if !table.note.is_empty() && index == 0 { p.footnote { (table.note) } }
        }
    }
}

/// Column widths in percent. They are the same for all tables of the same shape, so that the figures of several eras
/// and servers are aligned on the page.
struct Widths {
    table: String,
    label: String,
    kind: String,
    value: String,
    aside: String,
}

impl Widths {
    fn of(table: &TableResult) -> Widths {
        const LABEL: f64 = 16.5;
        const KIND: f64 = 4.6;
        const WIDEST: f64 = 11.0;
        let metrics = (table.groups.len() * table.columns.len()) as f64;
        let each = ((100.0 - LABEL - KIND) / metrics).min(WIDEST);
        // A table with many columns has narrow columns with short figures.
        let share = if table.columns.len() > 4 { 0.52 } else { 0.57 };
        let whole = LABEL + KIND + each * metrics;
        let percent = |width: f64| format!("width:{:.2}%", 100.0 * width / whole);
        Widths {
            table: format!("width:{whole:.2}%"),
            label: percent(LABEL),
            kind: percent(KIND),
            value: percent(each * share),
            aside: percent(each * (1.0 - share)),
        }
    }
}

fn body(digest: &Digest<'_>, table: &TableResult, row: &RowResult) -> Markup {
    let also: Vec<(usize, &String)> = table
        .also
        .iter()
        .enumerate()
        .filter(|(place, _)| {
            let mut data = row.data.iter().flatten();
            data.any(|datum| datum.also[*place] != Measured::Missing)
        })
        .collect();
    let has = |has: &dyn Fn(&Datum) -> bool| row.data.iter().flatten().any(has);
    let has_published = has(&|d| d.published.is_some());
    let has_ratio = has(&|d| d.relative.is_some_and(|r| r.ours.is_some()));
    let has_published_ratio = has(&|d| d.relative.is_some_and(|r| r.published.is_some()));
    let lines = [has_published, has_ratio, has_published_ratio];
    let lines = 1 + also.len() + lines.into_iter().filter(|has| *has).count();
    let is_extra = table.has_published() && !row.in_the_paper;
    let needs_kind = !table.also.is_empty() || table.has_published();
    html! {
        tbody.extra[is_extra] {
            tr.ours {
                th.label scope="row" rowspan=(lines) { (row.label) }
                td.kind { @if needs_kind { "ours" } }
                (own_cells(digest, table, row))
            }
            @for (place, label) in also {
                tr.also {
                    td.kind { (label) }
                    (cells(table, row, &|column, datum| ours(column, &datum.also[place])))
                }
            }
            @if has_published {
                tr.paper {
                    td.kind { "paper" }
                    (cells(table, row, &|column, datum| {
                        published(column, datum, table.relative_to.is_some())
                    }))
                }
            }
            @if has_ratio {
                tr.ours.relative {
                    td.kind { "rel." }
                    (cells(table, row, &|_, datum| relative(datum)))
                }
            }
            @if has_published_ratio {
                tr.paper {
                    td.kind { "paper" }
                    (cells(table, row, &|_, datum| published_relative(datum)))
                }
            }
        }
    }
}

/// Our figures, each with a link to its cell.
fn own_cells(digest: &Digest<'_>, table: &TableResult, row: &RowResult) -> Markup {
    html! {
        @for (place, group) in row.data.iter().enumerate() {
            @let cell = evidence::of_table(digest, table, row, place);
            @for (place, (column, datum)) in table.columns.iter().zip(group).enumerate() {
                @let (value, aside) = ours(column, &datum.ours);
                td.value.first[place == 0] {
                    @match cell {
                        Some(cell) => a href={ "#" (evidence::anchor(digest, cell)) } { (value) },
                        None => (value),
                    }
                }
                td.aside { (aside) }
            }
        }
    }
}

fn cells(
    table: &TableResult,
    row: &RowResult,
    show: &dyn Fn(&Column, &Datum) -> (Markup, Markup),
) -> Markup {
    html! {
        @for group in &row.data {
            @for (place, (column, datum)) in table.columns.iter().zip(group).enumerate() {
                @let (value, aside) = show(column, datum);
                td.value.first[place == 0] { (value) }
                td.aside { (aside) }
            }
        }
    }
}

fn ours(column: &Column, measured: &Measured) -> (Markup, Markup) {
    match measured {
        Measured::Value { estimate, footnote } => (
            html! { (column.format(estimate.value)) },
            html! {
                @if let Some(half) = column.spread(estimate) { "±" (half) }
                @if let Some(footnote) = footnote { sup { (footnote) } }
            },
        ),
        Measured::Invalid { footnote } => (
            html! { strong.invalid { "INVALID" } },
            html! { sup { (footnote) } },
        ),
        Measured::Ambiguous { footnote } => (html! { "?" }, html! { sup { (footnote) } }),
        Measured::Missing => (
            html! { span.missing title="not measured" { "–" } },
            html! {},
        ),
    }
}

/// The ratio to the table's reference row, with three significant digits in every column.
fn relative(datum: &Datum) -> (Markup, Markup) {
    let Some(ratio) = datum.relative.and_then(|relative| relative.ours) else {
        return (html! {}, html! {});
    };
    let half = ratio.half_length().filter(|half| *half >= 0.0005);
    let spread = half.map(significant);
    (
        html! { (significant(ratio.value)) },
        html! { @if let Some(half) = spread { "±" (half) } },
    )
}

fn published_relative(datum: &Datum) -> (Markup, Markup) {
    let Some(relative) = datum.relative else {
        return (html! {}, html! {});
    };
    (
        html! { @if let Some(ratio) = relative.published { (significant(ratio)) } },
        html! { @if let Some(ratio) = relative.ratio() { "×" (format!("{ratio:.2}")) } },
    )
}

fn published(column: &Column, datum: &Datum, is_relative: bool) -> (Markup, Markup) {
    let Some(published) = datum.published else {
        return (html! {}, html! {});
    };
    (
        html! {
            @if published.derived { span.derived { "~" } }
            (column.format(published.value))
        },
        html! {
            @if let Some(ratio) = datum.ratio().filter(|_| !is_relative) {
                "×" (format!("{ratio:.2}"))
            }
        },
    )
}
