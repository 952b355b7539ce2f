//! Tables of the paper, with the published figures beside ours, and tables of side blocks.
//!
//! The data of a table define which cell of a run each position shows ([`Table`], [`Layout`]). The figures are then
//! estimated from a run ([`TableResult`]). The terminal and the report define the appearance of a table.

mod build;

use fathometer_model::digits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use build::{build, figures};

use crate::run::Cell;
use crate::selection::Selection;
use crate::statistics::Estimate;

/// A layout that several tables share: columns, in groups, and rows.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The name of the layout.
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
    /// Parts of the table, each with all rows, for example the part for a load of 40 users. Empty: the table has
    /// only one part.
    #[serde(default, rename = "section")]
    pub sections: Vec<Section>,
    /// The heading of the reference row. The other rows of a section are also shown as ratios to this row. Absolute
    /// figures of two machines cannot be compared, but these ratios can.
    pub relative_to: Option<String>,
}

/// A part of a table, with all rows of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading of the section.
    pub label: String,
    /// The levels of the section.
    #[serde(default)]
    pub select: Selection,
    /// The published environment, if neither the group nor the table names one.
    pub environment: Option<String>,
}

/// A column, which shows a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The heading of the column, as in `Pa`.
    pub label: String,
    /// The metric.
    pub metric: String,
    /// A metric that is added to the first metric in each replicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus: Option<String>,
    /// The name of the published metric, without the group's prefix; absent if no figure was published.
    pub published: Option<String>,
    /// The factor that converts published figures to our unit, for example a million; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_times: Option<f64>,
    /// The heading of the reference row: our figures are shown in percent of our figure in that row, published
    /// figures in percent of the published one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of: Option<String>,
    /// Digits after the decimal point. Absent: three significant digits, as for times.
    pub decimals: Option<u8>,
    /// Whether the column appears in the short form of the table.
    #[serde(default)]
    pub brief: bool,
}

impl Column {
    /// The values of the column over a cell's valid replicates, each with the number of its replicate.
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

    /// A value in this column's format.
    pub fn format(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals(value))
    }

    /// The longer half of an estimate's interval, with as many decimals as the estimate. `None` if there is no
    /// interval, or if all digits are zero.
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
        let decimals = self.decimals.map(usize::from);
        decimals.unwrap_or_else(|| digits::decimals(value))
    }
}

/// A group of columns, for example the columns of the first retrieval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The identifier of the group, which charts use.
    pub key: String,
    /// The heading of the group.
    pub label: String,
    /// The levels of the group.
    #[serde(default)]
    pub select: Selection,
    /// The prefix of the published metric's name, as in `first.`.
    #[serde(default)]
    pub prefix: String,
    /// The suffix that the rows' names have in the published figures, as in ` 4KB`.
    #[serde(default)]
    pub suffix: String,
    /// The published environment, if the table does not name one.
    pub environment: Option<String>,
}

/// A row, for example a policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The heading of the row.
    pub label: String,
    /// A shorter heading, for narrow output.
    pub brief: Option<String>,
    /// The name of the row in the published figures; absent if the row is not in the paper.
    pub variant: Option<String>,
    /// The levels of the row.
    #[serde(default)]
    pub select: Selection,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The identifier: the paper's (`T6`), or one of the study.
    pub id: String,
    /// The title of the table.
    pub title: String,
    /// A title of a word or two, for the panel of a chart.
    #[serde(default)]
    pub panel: String,
    /// The name of the table's [`Layout`].
    pub layout: Option<String>,
    /// The reason why the study does not have this table.
    pub absent: Option<String>,
    /// The levels that all cells of the table share.
    #[serde(default)]
    pub select: Selection,
    /// The environment of the published figures.
    pub environment: Option<String>,
    /// The paper's name of the whole table, if this table is one of its parts.
    pub part_of: Option<String>,
    /// The same cells with other servers, for example with a real server beside ours.
    #[serde(default)]
    pub also: Vec<Also>,
    /// A note for readers.
    #[serde(default)]
    pub note: String,
    /// Whether the table is from the paper.
    #[serde(default)]
    pub of_the_paper: bool,
}

impl Table {
    /// The layout of this table.
    ///
    /// # Panics
    /// When `layouts` does not contain it.
    pub(crate) fn layout_of<'l>(&self, layouts: &'l [Layout]) -> &'l Layout {
        layouts
            .iter()
            .find(|layout| Some(layout.name.as_str()) == self.layout.as_deref())
            .expect("a table that is shown names a layout of its study")
    }
}

/// The same cells at other levels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// The label of these levels.
    pub label: String,
    /// The levels that differ.
    pub select: Selection,
}

/// A table with its figures in one era.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableResult {
    /// The identifier of the table.
    pub id: String,
    /// The title of the table.
    pub title: String,
    /// The era.
    pub era: String,
    /// A note for readers.
    pub note: String,
    /// Whether the table is one of the paper's.
    pub of_the_paper: bool,
    /// The columns of each group.
    pub columns: Vec<Column>,
    /// The headings of the groups, with the identifiers that charts use.
    pub groups: Vec<(String, String)>,
    /// The names of the other servers.
    pub also: Vec<String>,
    /// The heading of the reference row, to which the other rows are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<String>,
    /// The rows.
    pub rows: Vec<RowResult>,
    /// Footnotes, to which figures refer by number, from 1.
    pub footnotes: Vec<String>,
    /// The fewest and the most replicates of a figure; `None` if nothing was measured.
    pub replicates: Option<(usize, usize)>,
}

impl TableResult {
    /// A table of the paper for tests, with a column `CPU` and without rows.
    #[cfg(test)]
    pub(crate) fn with_one_column() -> TableResult {
        let column = r#"{"label": "CPU", "metric": "cpu_total_pct"}"#;
        TableResult {
            id: "T2".to_owned(),
            title: String::new(),
            era: "today".to_owned(),
            note: String::new(),
            of_the_paper: true,
            columns: vec![serde_json::from_str(column).unwrap()],
            groups: Vec::new(),
            also: Vec::new(),
            relative_to: None,
            rows: Vec::new(),
            footnotes: Vec::new(),
            replicates: None,
        }
    }

    /// Whether the run has any figure for the table.
    pub fn is_measured(&self) -> bool {
        let is_there = |value: &Measured| !matches!(value, Measured::Missing);
        self.data()
            .any(|datum| is_there(&datum.ours) || datum.also.iter().any(is_there))
    }

    /// The number of our figures in the table.
    pub(crate) fn figures(&self) -> usize {
        let is_there = |datum: &&Datum| datum.ours != Measured::Missing;
        self.data().filter(is_there).count()
    }

    /// Whether the table has any published figure.
    pub fn has_published(&self) -> bool {
        self.data().any(|datum| datum.published.is_some())
    }

    /// Whether the groups of columns have headings.
    pub fn has_named_groups(&self) -> bool {
        self.groups.iter().any(|(_, label)| !label.is_empty())
    }

    /// The index of a group.
    pub fn group(&self, key: &str) -> Option<usize> {
        self.groups.iter().position(|(k, _)| k == key)
    }

    /// The index of a column.
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
    /// The heading of the section; empty if the table has no sections.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// The heading of the row.
    pub label: String,
    /// A shorter heading.
    pub brief: String,
    /// Whether the paper's tables have this row.
    pub in_the_paper: bool,
    /// The figures, by group and column.
    pub data: Vec<Vec<Datum>>,
}

impl RowResult {
    /// Whether the row has neither our figures nor the paper's.
    pub fn is_empty(&self) -> bool {
        self.data.iter().flatten().all(|datum| {
            datum.published.is_none()
                && datum.ours == Measured::Missing
                && datum.also.iter().all(|also| *also == Measured::Missing)
        })
    }
}

/// One position in a table: a row and a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Datum {
    /// Our figure.
    pub ours: Measured,
    /// Our figures for the other servers.
    pub also: Vec<Measured>,
    /// The published figure.
    pub published: Option<PublishedValue>,
    /// Both figures divided by the figures of the reference row; absent in that row, and without a reference row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
}

/// The ratio of a figure in a table to the figure of another row in the same column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Relative {
    /// The ratio of our figures.
    pub ours: Option<Estimate>,
    /// The ratio of the published figures.
    pub published: Option<f64>,
}

impl Relative {
    /// Our ratio divided by the published ratio.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours?.value / self.published.filter(|published| *published != 0.0)?)
    }
}

impl Datum {
    /// Our figure divided by the published figure.
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
    /// Whether the figure is derived: it is not printed in the paper, but follows from printed figures.
    pub derived: bool,
}

/// Our figure at a position in a table.
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
    /// Invalid figures.
    Invalid {
        /// The reason, as a footnote from 1.
        footnote: usize,
    },
    /// Several cells match this position.
    Ambiguous {
        /// The factors in which the cells differ, as a footnote from 1.
        footnote: usize,
    },
    /// No figure.
    Missing,
}
