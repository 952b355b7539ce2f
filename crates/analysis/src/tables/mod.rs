//! Tables: a paper's own, with the published figures beside ours, and those of side blocks.
//!
//! A table's data say which cell stands in which place ([`Table`], [`Layout`]); [`build`] looks the
//! cells up in a run and estimates them ([`TableResult`]). How a table looks is for
//! [`terminal`](crate::terminal) and [`report`](crate::report).

mod build;

use serde::{Deserialize, Serialize};

pub use build::build;

use crate::run::Cell;
use crate::statistics::Estimate;
use crate::study::Selection;

/// A shape that tables share: columns, in groups, and rows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Its name.
    pub name: String,
    /// The columns of each group.
    #[serde(rename = "column")]
    pub columns: Vec<Column>,
    /// The groups of columns.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// The rows.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
    /// Parts of the table, each of which has all rows: loads, as in 40 users. None: the rows stand once.
    #[serde(default, rename = "section")]
    pub sections: Vec<Section>,
    /// The heading of the row that others of its section are shown relative to as well, where figures
    /// of two machines can be compared by their ratios alone.
    pub relative_to: Option<String>,
}

/// A part of a table that has all its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its heading.
    pub label: String,
    /// Its levels.
    #[serde(default)]
    pub select: Selection,
    /// The published environment, where neither the group nor the table names it.
    pub environment: Option<String>,
}

/// A column: a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its heading, as in `Pa`.
    pub label: String,
    /// The metric.
    pub metric: String,
    /// A metric that is added to it, replicate by replicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus: Option<String>,
    /// The name of the published metric, after the group's prefix; absent when none was published.
    pub published: Option<String>,
    /// What the published figures are multiplied by to have our unit, as in a million; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_times: Option<f64>,
    /// The heading of a row: figures are shown in percent of that row's, as are the published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of: Option<String>,
    /// Digits after the point; absent: three significant digits, as for times.
    pub decimals: Option<u8>,
    /// Whether it belongs in the short form of the table.
    #[serde(default)]
    pub brief: bool,
}

impl Column {
    /// Its values over a cell's valid replicates, with the replicates' numbers.
    pub(crate) fn values(&self, cell: &Cell) -> Vec<(u32, f64)> {
        let mut values = cell.values(&self.metric);
        if let Some(plus) = &self.plus {
            let others = cell.values(plus);
            values.retain_mut(|(number, value)| {
                let other = others.iter().find(|(other, _)| other == number);
                *value += other.map_or(0.0, |(_, more)| *more);
                other.is_some()
            });
        }
        values
    }

    /// A value as this column shows it.
    pub fn format(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals(value))
    }

    /// The longer half of an estimate's interval to as many digits after the point as the estimate
    /// itself has; `None` when there is no interval, and when these digits are all zero.
    pub fn spread(&self, estimate: &Estimate) -> Option<String> {
        let text = format!(
            "{:.*}",
            self.decimals(estimate.value),
            estimate.half_length()?
        );
        let is_zero = text.bytes().all(|digit| matches!(digit, b'0' | b'.'));
        (!is_zero).then_some(text)
    }

    fn decimals(&self, value: f64) -> usize {
        self.decimals.map_or_else(|| decimals(value), usize::from)
    }
}

/// Three significant digits, at most three after the point: `63.8`, `4.17`, `0.094`, `1204`.
pub fn significant(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    }
}

/// A group of columns, as in the first retrieval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The word that charts name it by.
    pub key: String,
    /// Its heading.
    pub label: String,
    /// Its levels.
    #[serde(default)]
    pub select: Selection,
    /// What stands before the published metric's name, as in `first.`.
    #[serde(default)]
    pub prefix: String,
    /// What stands behind the names of the rows in the published figures, as in ` 4KB`.
    #[serde(default)]
    pub suffix: String,
    /// The published environment, where the table does not name it.
    pub environment: Option<String>,
}

/// A row, as in a policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its heading.
    pub label: String,
    /// A shorter heading, where space is short.
    pub brief: Option<String>,
    /// Its name in the published figures; absent: the paper has no such row.
    pub variant: Option<String>,
    /// Its levels.
    #[serde(default)]
    pub select: Selection,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name: the paper's (`T6`), or one of ours.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// A title of a word or two, for the panel of a chart.
    #[serde(default)]
    pub panel: String,
    /// The name of its [`Layout`].
    pub layout: Option<String>,
    /// Why the study has no such table.
    pub absent: Option<String>,
    /// The levels that all its cells share.
    #[serde(default)]
    pub select: Selection,
    /// The environment of its published figures.
    pub environment: Option<String>,
    /// The paper's name for it, where it is a part of one of the paper's tables.
    pub part_of: Option<String>,
    /// The same cells of other servers, as in a real one beside ours.
    #[serde(default)]
    pub also: Vec<Also>,
    /// What a reader should know.
    #[serde(default)]
    pub note: String,
    /// Whether it is one of the paper's tables, rather than one of ours.
    #[serde(default)]
    pub of_the_paper: bool,
}

/// The same cells at other levels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// What to call them.
    pub label: String,
    /// The levels that differ.
    pub select: Selection,
}

/// A table with its figures, in one era.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableResult {
    /// Its name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The era.
    pub era: String,
    /// What a reader should know.
    pub note: String,
    /// Whether it is one of the paper's.
    pub of_the_paper: bool,
    /// The columns of each group.
    pub columns: Vec<Column>,
    /// The headings of the groups, with the words that charts name them by.
    pub groups: Vec<(String, String)>,
    /// What the other servers are called.
    pub also: Vec<String>,
    /// The heading of the row that others are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<String>,
    /// The rows.
    pub rows: Vec<RowResult>,
    /// Remarks that figures refer to by number, from 1.
    pub footnotes: Vec<String>,
    /// The fewest and the most replicates behind a figure; `None` when nothing was measured.
    pub replicates: Option<(usize, usize)>,
}

impl TableResult {
    /// Whether the run has anything for it.
    pub fn is_measured(&self) -> bool {
        let is_there = |value: &Measured| !matches!(value, Measured::Missing);
        self.data()
            .any(|datum| is_there(&datum.ours) || datum.also.iter().any(is_there))
    }

    /// Whether anything in it was published.
    pub fn has_published(&self) -> bool {
        self.data().any(|datum| datum.published.is_some())
    }

    /// Whether its columns stand in groups that have headings.
    pub fn has_named_groups(&self) -> bool {
        self.groups.iter().any(|(_, label)| !label.is_empty())
    }

    /// Whether a published figure in it was derived rather than printed.
    pub fn has_derived(&self) -> bool {
        self.data()
            .any(|datum| datum.published.is_some_and(|p| p.derived))
    }

    /// The place of a group.
    pub fn group(&self, key: &str) -> Option<usize> {
        self.groups.iter().position(|(k, _)| k == key)
    }

    /// The place of a column.
    pub fn column(&self, label: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.label == label)
    }

    fn data(&self) -> impl Iterator<Item = &Datum> {
        self.rows.iter().flat_map(|row| row.data.iter().flatten())
    }
}

/// A row with its figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowResult {
    /// The heading of its section; empty where the table has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// Its heading.
    pub label: String,
    /// A shorter one.
    pub brief: String,
    /// Whether the paper has this row in its tables.
    pub in_the_paper: bool,
    /// By group and column.
    pub data: Vec<Vec<Datum>>,
}

impl RowResult {
    /// Whether there is anything to show: a figure of ours or of the paper's.
    pub fn is_empty(&self) -> bool {
        self.data.iter().flatten().all(|datum| {
            datum.published.is_none()
                && datum.ours == Measured::Missing
                && datum.also.iter().all(|also| *also == Measured::Missing)
        })
    }
}

/// One place of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Datum {
    /// What we measured.
    pub ours: Measured,
    /// What we measured on the other servers.
    pub also: Vec<Measured>,
    /// What was published.
    pub published: Option<PublishedValue>,
    /// Both over those of the row that the table is relative to; absent in that row, and where there is
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
}

/// A place of a table over the same place of another row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Relative {
    /// Ours over ours.
    pub ours: Option<Estimate>,
    /// The published over the published.
    pub published: Option<f64>,
}

impl Relative {
    /// Our ratio over the published.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours?.value / self.published.filter(|published| *published != 0.0)?)
    }
}

impl Datum {
    /// Ours over the published.
    pub fn ratio(&self) -> Option<f64> {
        match (&self.ours, self.published) {
            (Measured::Value { estimate, .. }, Some(published)) if published.value != 0.0 => {
                Some(estimate.value / published.value)
            }
            _ => None,
        }
    }
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedValue {
    /// The figure.
    pub value: f64,
    /// Whether the paper does not print it and it was worked out from what it prints.
    pub derived: bool,
}

/// What was measured for one place of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// A mean over valid replicates.
    Value {
        /// The mean.
        estimate: Estimate,
        /// A footnote, from 1.
        footnote: Option<usize>,
    },
    /// Figures that may not be believed.
    Invalid {
        /// The reason, as a footnote from 1.
        footnote: usize,
    },
    /// Several cells stand in this place.
    Ambiguous {
        /// What tells them apart, as a footnote from 1.
        footnote: usize,
    },
    /// Nothing.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_significant_digits() {
        for (value, text) in [
            (0.0941, "0.094"),
            (0.99961, "1.00"),
            (4.168, "4.17"),
            (9.996, "10.0"),
            (63.84, "63.8"),
            (99.96, "100"),
            (1204.4, "1204"),
            (-0.25, "-0.250"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
