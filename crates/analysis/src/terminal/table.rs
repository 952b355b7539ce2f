//! Tables as text.

use fathometer_model::digits::significant;

use super::WIDTH;
use crate::statistics::Estimate;
use crate::tables::{Column, Datum, Measured, RowResult, TableResult};
use crate::text::{Align, Grid, hanging, superscript, wrap};

const LABEL: usize = 21;

/// A table of one era with all figures: ours, the interval, other servers, the paper's figure, the ratio.
pub(super) fn full(table: &TableResult) -> String {
    let heading = format!("{}, era {}{}", title(table), table.era, replicates(table));
    let mut text = hanging("", &heading, WIDTH);
    let width = table.columns.len();
    let columns = 2 + width * table.groups.len();
    let mut aligns = vec![Align::Left; 2];
    aligns.resize(columns, Align::Right);
    let starts: Vec<usize> = (0..table.groups.len()).map(|g| 2 + g * width).collect();
    let mut grid = Grid::new(aligns, starts.clone());
    let spans = starts.iter().zip(&table.groups);
    if table.has_named_groups() {
        grid.spans(spans.map(|(s, (_, l))| (*s, width, l.clone())).collect());
    }
    let mut header = vec![String::new(); 2];
    for _ in &table.groups {
        header.extend(
            table
                .columns
                .iter()
                .map(|column| format!("{} ", column.label)),
        );
    }
    grid.line(header);
    let mut section = "";
    for row in &table.rows {
        if row.section != section {
            section = &row.section;
            grid.line(vec![format!("{section}:")]);
        }
        let mut label = row.label.clone();
        if table.has_published() && !row.in_the_paper {
            label.push('*');
        }
        let mut labels = wrap(&label, LABEL).into_iter();
        let lines = lines(table, row);
        for (kind, fields) in lines {
            let mut line = vec![labels.next().unwrap_or_default(), kind];
            line.extend(fields);
            grid.line(line);
        }
        for rest in labels {
            grid.line(vec![rest]);
        }
    }
    text.push_str(&grid.render());
    if table.has_published() && table.rows.iter().any(|row| !row.in_the_paper) {
        text.push_str("* not in the paper\n");
    }
    footnotes(&mut text, table);
    if !table.note.is_empty() {
        text.push_str(&hanging("", &table.note, WIDTH));
    }
    text
}

/// The lines of a row, each as its kind and its fields.
fn lines(table: &TableResult, row: &RowResult) -> Vec<(String, Vec<String>)> {
    let mut lines = Vec::new();
    let of = |field: &dyn Fn(&Column, &Datum) -> String| -> Vec<String> {
        row.data
            .iter()
            .flat_map(|group| table.columns.iter().zip(group))
            .map(|(column, datum)| field(column, datum))
            .collect()
    };
    let is_blank = |fields: &[String]| fields.iter().all(|f| f.trim().is_empty());
    let push = |lines: &mut Vec<_>, kind: &str, fields: Vec<String>| {
        if !is_blank(&fields) {
            lines.push((kind.to_owned(), fields));
        }
    };
    push(&mut lines, "ours", of(&|c, d| measured(c, &d.ours)));
    push(&mut lines, "±", of(&|c, d| spread(c, &d.ours)));
    for (place, label) in table.also.iter().enumerate() {
        let fields = of(&|column, datum| measured(column, &datum.also[place]));
        if fields.iter().any(|field| field.trim() != "–") {
            push(&mut lines, label, fields);
        }
    }
    push(&mut lines, "paper", of(&published));
    let twofold = |ratio: Option<f64>| ratio.map_or(String::new(), |r| format!("{r:.2} "));
    let three = |value: Option<f64>| value.map_or(String::new(), |v| significant(v) + " ");
    if table.relative_to.is_none() {
        push(&mut lines, "ratio", of(&|_, d| twofold(d.ratio())));
        return lines;
    }
    let ours = |datum: &Datum| datum.relative.and_then(|r| r.ours);
    push(
        &mut lines,
        "rel",
        of(&|_, d| three(ours(d).map(|e| e.value))),
    );
    push(
        &mut lines,
        "±",
        of(&|_, d| three(ours(d).and_then(shown_half))),
    );
    push(
        &mut lines,
        "paper",
        of(&|_, d| three(d.relative.and_then(|r| r.published))),
    );
    push(
        &mut lines,
        "ratio",
        of(&|_, d| twofold(d.relative.and_then(|r| r.ratio()))),
    );
    lines
}

/// The short form of a table over all eras: the most important columns, with the paper's figures beside each era.
pub(super) fn brief(eras: &[&TableResult]) -> String {
    let first = eras[0];
    let columns: Vec<usize> = (0..first.columns.len())
        .filter(|c| first.columns[*c].brief)
        .collect();
    let is_published = eras.iter().any(|table| table.has_published());
    let sources = eras.len() + usize::from(is_published);
    let group_width = sources * columns.len();
    let mut aligns = vec![Align::Left];
    aligns.resize(1 + group_width * first.groups.len(), Align::Right);
    let starts: Vec<usize> = (0..first.groups.len())
        .map(|g| 1 + g * group_width)
        .collect();
    let mut grid = Grid::new(aligns, starts.clone());
    let spans = starts.iter().zip(&first.groups);
    if first.has_named_groups() {
        grid.spans(
            spans
                .map(|(s, (_, l))| (*s, group_width, l.clone()))
                .collect(),
        );
    }
    let mut names: Vec<String> = eras.iter().map(|table| table.era.clone()).collect();
    names.extend(is_published.then(|| "paper".to_owned()));
    let mut sub = Vec::new();
    for start in &starts {
        for (place, name) in names.iter().enumerate() {
            sub.push((start + place * columns.len(), columns.len(), name.clone()));
        }
    }
    grid.spans(sub);
    let mut header = vec![String::new()];
    for _ in 0..first.groups.len() * sources {
        header.extend(
            columns
                .iter()
                .map(|c| format!("{} ", first.columns[*c].label)),
        );
    }
    grid.line(header);
    // Eras may have different rows. The list is their union, in the order in which the rows first occur.
    let mut labels: Vec<&RowResult> = Vec::new();
    let is_same = |one: &RowResult, other: &RowResult| {
        one.label == other.label && one.section == other.section
    };
    for row in eras.iter().flat_map(|table| &table.rows) {
        let is_base = first.relative_to.as_ref() == Some(&row.label);
        if !is_base && !labels.iter().any(|known| is_same(known, row)) {
            labels.push(row);
        }
    }
    let mut section = "";
    for row in labels {
        if row.section != section {
            section = &row.section;
            grid.line(vec![format!("{section}:")]);
        }
        let mut line = vec![row.brief.clone()];
        if is_published && !row.in_the_paper {
            line[0].push('*');
        }
        for group in 0..first.groups.len() {
            for table in eras {
                let found = table.rows.iter().find(|r| is_same(r, row));
                let base = table.rows.iter().find(|r| {
                    r.section == row.section && table.relative_to.as_ref() == Some(&r.label)
                });
                for column in &columns {
                    line.push(found.map_or("– ".to_owned(), |found| {
                        let datum = |row: &RowResult| row.data[group][*column].clone();
                        let base = base.map(datum);
                        brief_ours(table, *column, &datum(found), base.as_ref())
                    }));
                }
            }
            if is_published {
                for column in &columns {
                    line.push(brief_published(first, *column, &row.data[group][*column]));
                }
            }
        }
        grid.line(line);
    }
    let mut text = format!("{}{}\n{}", title(first), replicates(first), grid.render());
    for table in eras {
        footnotes(&mut text, table);
    }
    text
}

/// The longer half of a ratio's interval; `None` if the shown digits are all zero.
fn shown_half(ratio: Estimate) -> Option<f64> {
    ratio.half_length().filter(|half| *half >= 0.0005)
}

/// The field of our figure in the short form. A relative table shows only ratios. A missing ratio shows the reason,
/// either from its row or from the reference row `base`.
fn brief_ours(table: &TableResult, column: usize, datum: &Datum, base: Option<&Datum>) -> String {
    let shown = |figure: &Measured| measured(&table.columns[column], figure);
    let Some(relative) = datum.relative else {
        return shown(&datum.ours);
    };
    if let Some(ratio) = relative.ours {
        return significant(ratio.value) + " ";
    }
    let figures = [Some(datum), base].into_iter().flatten();
    let mut unusable = figures.filter_map(|datum| match &datum.ours {
        figure @ (Measured::Invalid { .. } | Measured::Ambiguous { .. }) => Some(figure),
        Measured::Value { .. } | Measured::Missing => None,
    });
    unusable.next().map_or("– ".to_owned(), shown)
}

fn brief_published(table: &TableResult, column: usize, datum: &Datum) -> String {
    match datum.relative {
        None => published(&table.columns[column], datum),
        Some(relative) => relative
            .published
            .map_or(String::new(), |ratio| significant(ratio) + " "),
    }
}

/// The legend of the headings of a study's columns and of the marks in its tables.
///
/// `covered` is the coverage of the tables' intervals.
pub(super) fn legend(
    columns: &str,
    covered: Option<&str>,
    is_relative: bool,
    is_quick: bool,
) -> String {
    let interval = covered.map(|covered| {
        format!("± longer half of the interval, which covers {covered}, where the digits show it")
    });
    let mut parts = vec![columns];
    if !is_quick {
        parts.extend(interval.as_deref());
        parts.push("ratio: ours over the paper's");
    }
    if is_relative {
        parts.push(
            "rel: ratio to the row named in the title, ours to ours and the paper's to the paper's",
        );
    }
    parts.extend(["– not measured", "~ derived from printed figures"]);
    parts.push("* not in the paper");
    parts.retain(|part| !part.is_empty());
    hanging("", &format!("{}.", parts.join("; ")), WIDTH)
}

fn title(table: &TableResult) -> String {
    let base = table.relative_to.as_ref();
    let base = base.map_or(String::new(), |base| format!(", rel. to {base}"));
    format!("{}: {}{base}", table.id, table.title)
}

fn replicates(table: &TableResult) -> String {
    match table.replicates {
        None => String::new(),
        Some((fewest, most)) if fewest == most => format!(", n = {fewest}"),
        Some((fewest, most)) => format!(", n = {fewest} to {most}"),
    }
}

/// The text of a figure. Every field ends with a space or with a footnote mark, so that digits are aligned.
fn measured(column: &Column, measured: &Measured) -> String {
    match measured {
        Measured::Value { estimate, footnote } => {
            let mark = footnote.map_or(" ".to_owned(), superscript);
            format!("{}{mark}", column.format(estimate.value))
        }
        Measured::Invalid { footnote } => format!("INVALID{}", superscript(*footnote)),
        Measured::Ambiguous { footnote } => format!("?{}", superscript(*footnote)),
        Measured::Missing => "– ".to_owned(),
    }
}

fn published(column: &Column, datum: &Datum) -> String {
    datum.published.map_or(String::new(), |published| {
        let mark = if published.derived { "~" } else { "" };
        format!("{mark}{} ", column.format(published.value))
    })
}

fn spread(column: &Column, measured: &Measured) -> String {
    match measured {
        Measured::Value { estimate, .. } => {
            column.spread(estimate).map_or(String::new(), |s| s + " ")
        }
        _ => String::new(),
    }
}

fn footnotes(text: &mut String, table: &TableResult) {
    for (index, note) in table.footnotes.iter().enumerate() {
        let head = format!("{} era {}: ", superscript(index + 1), table.era);
        text.push_str(&hanging(&head, note, WIDTH));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Relative;

    #[test]
    fn a_ratio_of_an_invalid_cell_is_shown_as_invalid() {
        let table = TableResult {
            relative_to: Some("HTTP/1.0".to_owned()),
            ..TableResult::with_one_column()
        };
        let datum = |ours: Measured, ratio: Option<f64>| Datum {
            ours,
            also: Vec::new(),
            published: None,
            relative: Some(Relative {
                ours: ratio.map(|value| Estimate {
                    n: 1,
                    value,
                    interval: None,
                }),
                published: None,
            }),
        };
        let value = || Measured::Value {
            estimate: Estimate {
                n: 1,
                value: 40.0,
                interval: None,
            },
            footnote: None,
        };
        let invalid = || Measured::Invalid { footnote: 2 };
        let shown = |ours: Measured, ratio, base: Measured| {
            brief_ours(&table, 0, &datum(ours, ratio), Some(&datum(base, None)))
        };
        assert_eq!(shown(value(), Some(0.8), value()), "0.800 ");
        assert_eq!(shown(invalid(), None, value()), "INVALID²");
        assert_eq!(shown(value(), None, invalid()), "INVALID²");
        assert_eq!(shown(Measured::Missing, None, value()), "– ");
    }
}
