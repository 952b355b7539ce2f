//! Tables as text.

use super::WIDTH;
use crate::tables::{Column, Datum, Measured, RowResult, TableResult};
use crate::text::{Align, Grid, hanging, superscript, wrap};

const LABEL: usize = 21;

/// A table of one era with everything: ours, its interval, other servers, the paper, the ratio.
pub(super) fn full(table: &TableResult) -> String {
    let mut text = format!("{}, era {}{}\n", title(table), table.era, replicates(table));
    let width = table.columns.len();
    let columns = 2 + width * table.groups.len();
    let mut aligns = vec![Align::Left; 2];
    aligns.resize(columns, Align::Right);
    let starts: Vec<usize> = (0..table.groups.len()).map(|g| 2 + g * width).collect();
    let mut grid = Grid::new(aligns, starts.clone());
    let spans = starts.iter().zip(&table.groups);
    grid.spans(spans.map(|(s, (_, l))| (*s, width, l.clone())).collect());
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
    for row in &table.rows {
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

/// The lines of a row: what kind each is, and its fields.
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
    push(
        &mut lines,
        "ratio",
        of(&|_, datum| datum.ratio().map_or(String::new(), |r| format!("{r:.2} "))),
    );
    lines
}

/// A table of all eras, short: the columns that matter most, each era beside the paper.
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
    grid.spans(
        spans
            .map(|(s, (_, l))| (*s, group_width, l.clone()))
            .collect(),
    );
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
    // Eras may differ in which rows they have: the union, in the order of the first that has each.
    let mut labels: Vec<&RowResult> = Vec::new();
    for row in eras.iter().flat_map(|table| &table.rows) {
        if !labels.iter().any(|known| known.label == row.label) {
            labels.push(row);
        }
    }
    for row in labels {
        let mut line = vec![row.brief.clone()];
        if is_published && !row.in_the_paper {
            line[0].push('*');
        }
        for group in 0..first.groups.len() {
            for table in eras {
                let found = table.rows.iter().find(|r| r.label == row.label);
                for column in &columns {
                    line.push(found.map_or("– ".to_owned(), |found| {
                        measured(&table.columns[*column], &found.data[group][*column].ours)
                    }));
                }
            }
            if is_published {
                for column in &columns {
                    line.push(published(
                        &first.columns[*column],
                        &row.data[group][*column],
                    ));
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

/// What the marks in the tables mean.
pub(super) fn legend(is_quick: bool) -> String {
    let spread = if is_quick {
        ""
    } else {
        " ± longer half of the 95 % interval, where the digits show it; ratio: ours over the paper's;"
    };
    let text = format!(
        "Pa packets both ways; Bytes of TCP payload; Sec seconds; %ov share of 40-octet TCP/IP headers;{spread} \
         – not measured; ~ derived from the published bytes and overhead; * not in the paper."
    );
    hanging("", &text, WIDTH)
}

fn title(table: &TableResult) -> String {
    format!("{}: {}", table.id, table.title)
}

fn replicates(table: &TableResult) -> String {
    match table.replicates {
        None => String::new(),
        Some((fewest, most)) if fewest == most => format!(", n = {fewest}"),
        Some((fewest, most)) => format!(", n = {fewest} to {most}"),
    }
}

/// Every field ends in a space or in its footnote's mark, so that digits stand under digits.
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
