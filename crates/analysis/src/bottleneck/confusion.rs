//! The confusion table: how often the verdicts named the known limits correctly.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::words::percent;
use super::{Outcome, Resource, Verdict};
use crate::csv::field;
use crate::text::{Align, Grid, hanging};

/// The outcome of a verdict, as a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// One resource.
    Resource(Resource),
    /// Several resources together.
    Together,
    /// No resource: undecided.
    Undecided,
    /// No resource: the measurements are invalid.
    Invalid,
}

impl Named {
    /// The name in tables: the resource's name, or `together`, `undecided`, `invalid`.
    pub const fn name(self) -> &'static str {
        match self {
            Named::Resource(resource) => resource.name(),
            Named::Together => "together",
            Named::Undecided => "undecided",
            Named::Invalid => "invalid",
        }
    }
}

impl Verdict {
    /// Returns the table column in which the verdict is counted.
    pub fn as_named(&self) -> Named {
        match &self.outcome {
            Outcome::Limited { resource, .. } => Named::Resource(*resource),
            Outcome::Together { .. } => Named::Together,
            Outcome::Undecided { .. } => Named::Undecided,
            Outcome::Invalid { .. } => Named::Invalid,
        }
    }
}

/// Counts of verdicts, by planted limit and by column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    rows: Vec<Row>,
}

/// One set-up whose limit is known by construction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    setup: String,
    planted: Resource,
    named: Vec<Named>,
}

impl Confusion {
    /// A table without rows.
    pub fn new() -> Confusion {
        Confusion::default()
    }

    /// Counts a verdict on a set-up. Set-ups appear in the order in which they were first recorded.
    pub fn record(&mut self, setup: &str, planted: Resource, named: Named) {
        let same = |row: &&mut Row| row.setup == setup && row.planted == planted;
        match self.rows.iter_mut().find(same) {
            Some(row) => row.named.push(named),
            None => self.rows.push(Row {
                setup: setup.to_owned(),
                planted,
                named: vec![named],
            }),
        }
    }

    /// Number of verdicts that named the planted limit, and number of all verdicts.
    pub fn right(&self) -> (usize, usize) {
        let all = self.rows.iter().map(|row| row.named.len()).sum();
        (self.rows.iter().map(Row::right).sum(), all)
    }

    /// Number of verdicts that named a resource other than the planted one, or several resources together. Undecided
    /// and invalid verdicts do not count.
    pub fn wrong(&self) -> usize {
        let wrong = |row: &Row| {
            let others = row.named.iter().filter(|named| match named {
                Named::Resource(resource) => *resource != row.planted,
                Named::Together => true,
                Named::Undecided | Named::Invalid => false,
            });
            others.count()
        };
        self.rows.iter().map(wrong).sum()
    }

    /// Formats the table as text. If the names of the columns do not fit into `width`, numbers replace them.
    pub fn text(&self, width: usize) -> String {
        let columns = self.columns();
        let mut aligns = vec![Align::Left, Align::Left];
        aligns.resize(2 + columns.len(), Align::Right);
        let mut grid = Grid::new(aligns, Vec::new());
        let long: usize = columns.iter().map(|column| column.name().len() + 1).sum();
        let longest = |part: fn(&Row) -> usize| self.rows.iter().map(part).max().unwrap_or(0);
        let heads =
            longest(|row| row.setup.chars().count()) + longest(|row| row.planted.name().len()) + 2;
        let numbered = heads + long > width;
        let mut header = vec!["set-up".to_owned(), "planted".to_owned()];
        header.extend(
            columns
                .iter()
                .enumerate()
                .map(|(place, column)| match numbered {
                    true => (place + 1).to_string(),
                    false => column.name().to_owned(),
                }),
        );
        grid.line(header);
        for row in &self.rows {
            let mut line = vec![row.setup.clone(), row.planted.name().to_owned()];
            line.extend(columns.iter().map(|column| match row.count(*column) {
                0 => "·".to_owned(),
                count => count.to_string(),
            }));
            grid.line(line);
        }
        let mut text = grid.render();
        if numbered {
            let names: Vec<String> = columns
                .iter()
                .enumerate()
                .map(|(place, column)| format!("{} {}", place + 1, column.name()))
                .collect();
            text.push_str(&hanging("named: ", &names.join(", "), width));
        }
        text.push_str(&hanging("", &self.sentence(), width));
        text
    }

    /// The table as CSV: `setup,planted,named,count`, one line for each combination that occurred.
    pub fn csv(&self) -> String {
        let mut text = "setup,planted,named,count\r\n".to_owned();
        let columns = self.columns();
        for row in &self.rows {
            let setup = field(&row.setup);
            for column in columns.iter().filter(|column| row.count(**column) > 0) {
                text.push_str(&format!(
                    "{setup},{},{},{}\r\n",
                    row.planted,
                    column.name(),
                    row.count(*column)
                ));
            }
        }
        text
    }

    /// The table as HTML, in the report's style.
    pub fn html(&self) -> Markup {
        let columns = self.columns();
        html! {
            div.table {
                table.cells {
                    thead {
                        tr {
                            th { "set-up" }
                            th { "planted" }
                            @for column in &columns { th.number { (column.name()) } }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                th { (row.setup) }
                                td { (row.planted.name()) }
                                @for column in &columns {
                                    td.number {
                                        @match row.count(*column) {
                                            0 => span.missing { "·" },
                                            count => span.mark.(row.class(*column)) { (count) },
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            p.remark { (self.sentence()) }
        }
    }

    fn sentence(&self) -> String {
        let (right, all) = self.right();
        if all == 0 {
            return "No verdict.".to_owned();
        }
        format!(
            "{right} of {all} verdicts named the known limit ({}), {} named another resource.",
            percent(right as f64 / all as f64),
            self.wrong()
        )
    }

    /// The columns with at least one verdict, and the columns of all planted resources. So the table always contains
    /// its diagonal.
    fn columns(&self) -> Vec<Named> {
        let planted = self.rows.iter().map(|row| Named::Resource(row.planted));
        let named = self.rows.iter().flat_map(|row| row.named.iter().copied());
        let mut columns: Vec<Named> = planted.chain(named).collect();
        columns.sort();
        columns.dedup();
        columns
    }
}

impl Row {
    fn count(&self, column: Named) -> usize {
        self.named.iter().filter(|named| **named == column).count()
    }

    fn right(&self) -> usize {
        self.count(Named::Resource(self.planted))
    }

    /// The CSS class of the report for a count in this column.
    fn class(&self, column: Named) -> &'static str {
        match column {
            Named::Resource(resource) if resource == self.planted => "holds",
            Named::Resource(_) | Named::Together => "reversed",
            Named::Undecided | Named::Invalid => "undecided",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Confusion {
        let mut table = Confusion::new();
        let cpu = Named::Resource(Resource::Cpu);
        table.record("a fifth of a core", Resource::Cpu, cpu);
        table.record("a fifth of a core", Resource::Cpu, cpu);
        let disk = Named::Resource(Resource::DiskOperations);
        table.record("memory, \"small\"", Resource::Memory, disk);
        table.record("memory, \"small\"", Resource::Memory, Named::Undecided);
        table
    }

    #[test]
    fn what_is_undecided_is_neither_right_nor_wrong() {
        assert_eq!(table().right(), (2, 4));
        assert_eq!(table().wrong(), 1);
    }

    #[test]
    fn text_numbers_its_columns_when_they_do_not_fit() {
        insta::assert_snapshot!(format!(
            "{}
{}",
            table().text(100),
            table().text(48)
        ));
    }

    #[test]
    fn csv_is_read_back() {
        let records = crate::csv::records(&table().csv()).unwrap();
        assert_eq!(
            records,
            [
                ["setup", "planted", "named", "count"],
                ["a fifth of a core", "cpu", "cpu", "2"],
                ["memory, \"small\"", "memory", "disk-operations", "1"],
                ["memory, \"small\"", "memory", "undecided", "1"],
            ]
        );
    }

    #[test]
    fn html_marks_what_is_wrong() {
        let html = table().html().into_string();
        assert!(
            html.contains("<span class=\"mark holds\">2</span>"),
            "{html}"
        );
        assert!(
            html.contains("<span class=\"mark reversed\">1</span>"),
            "{html}"
        );
        assert!(html.contains("&quot;small&quot;"), "{html}");
    }
}
