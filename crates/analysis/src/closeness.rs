//! How close our figures are to the published ones, against tolerances that the study states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tables::{Measured, RowResult, TableResult};

/// A tolerance: which figures should be how close.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// Its identifier.
    pub id: String,
    /// What is compared.
    pub title: String,
    /// The era whose figures should match the paper.
    pub era: String,
    /// The tables.
    pub tables: Vec<String>,
    /// The rows; empty: all published rows.
    #[serde(default)]
    pub rows: Vec<String>,
    /// The column.
    pub column: String,
    /// The row by which the others are divided before the comparison: our rows by our row, the published ones
    /// by the published row. Absent: figures are compared without division.
    pub relative_to: Option<String>,
    /// The largest accepted difference between ours and the published, in percent of the published.
    pub tolerance_pct: f64,
}

/// The explanation of figures that miss a tolerance.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The tolerance's identifier.
    pub acceptance: String,
    /// The tables that it applies to; empty: all.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The rows that it applies to; empty: all.
    #[serde(default)]
    pub rows: Vec<String>,
    /// The groups of columns that it applies to; empty: all.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The mechanism, with its evidence.
    pub text: String,
}

/// A tolerance and its comparisons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Closeness {
    /// Its identifier.
    pub id: String,
    /// What is compared.
    pub title: String,
    /// The era.
    pub era: String,
    /// The tolerance, in percent.
    pub tolerance_pct: f64,
    /// Every comparison.
    pub comparisons: Vec<Comparison>,
}

impl Closeness {
    /// Number of comparisons within the tolerance.
    pub fn within(&self) -> usize {
        self.comparisons.iter().filter(|c| c.is_within()).count()
    }

    /// Number of comparisons for which we measured a figure.
    pub fn measured(&self) -> usize {
        self.comparisons
            .iter()
            .filter(|c| c.off_pct.is_some())
            .count()
    }
}

/// One figure of ours compared with a published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The table.
    pub table: String,
    /// The heading of the row.
    pub row: String,
    /// The name of the group of columns.
    pub group: String,
    /// Our figure; `None` when it was not measured or is invalid.
    pub ours: Option<f64>,
    /// The published figure.
    pub published: f64,
    /// Whether the published figure was derived rather than printed.
    pub derived: bool,
    /// The difference between ours and the published, in percent of the published.
    pub off_pct: Option<f64>,
    /// The tolerance, in percent.
    pub tolerance_pct: f64,
    /// The explanation, when the comparison misses the tolerance.
    pub explanation: Option<String>,
}

impl Comparison {
    /// Whether our figure was measured and lies within the tolerance.
    pub fn is_within(&self) -> bool {
        // A difference of exactly the tolerance is within it, whatever the rounding of the division.
        self.off_pct
            .is_some_and(|off| off.abs() <= self.tolerance_pct * (1.0 + 1e-9))
    }
}

/// Compares the figures of tables as each tolerance defines it.
pub(crate) fn closeness(
    acceptance: &[Acceptance],
    explanations: &[Explanation],
    tables: &[TableResult],
) -> Vec<Closeness> {
    acceptance
        .iter()
        .map(|acceptance| Closeness {
            id: acceptance.id.clone(),
            title: acceptance.title.clone(),
            era: acceptance.era.clone(),
            tolerance_pct: acceptance.tolerance_pct,
            comparisons: acceptance
                .tables
                .iter()
                .filter_map(|id| {
                    tables
                        .iter()
                        .find(|table| table.id == *id && table.era == acceptance.era)
                })
                .flat_map(|table| compared(acceptance, explanations, table))
                .collect(),
        })
        .collect()
}

fn compared(
    acceptance: &Acceptance,
    explanations: &[Explanation],
    table: &TableResult,
) -> Vec<Comparison> {
    let Some(column) = table.column(&acceptance.column) else {
        return Vec::new();
    };
    let row = |label: &str| table.rows.iter().find(|row| row.label == label);
    let base = acceptance.relative_to.as_deref();
    let mut comparisons = Vec::new();
    for compared in &table.rows {
        let is_base = base == Some(compared.label.as_str());
        if is_base || !is_listed(&acceptance.rows, &compared.label) {
            continue;
        }
        for (place, (group, _)) in table.groups.iter().enumerate() {
            let (ours, published, derived) = figures(compared, place, column);
            let Some(mut published) = published else {
                continue;
            };
            let mut ours = ours;
            if let Some(base) = base {
                let Some(base) = row(base) else { continue };
                let (ours_base, published_base, _) = figures(base, place, column);
                let Some(published_base) = published_base else {
                    continue;
                };
                ours = ours.zip(ours_base).map(|(ours, base)| ours / base);
                published /= published_base;
            }
            let mut comparison = Comparison {
                table: table.id.clone(),
                row: compared.label.clone(),
                group: group.clone(),
                ours,
                published,
                derived,
                off_pct: ours.map(|ours| 100.0 * (ours / published - 1.0)),
                tolerance_pct: acceptance.tolerance_pct,
                explanation: None,
            };
            if comparison.off_pct.is_some() && !comparison.is_within() {
                comparison.explanation = explanation(acceptance, explanations, &comparison);
            }
            comparisons.push(comparison);
        }
    }
    comparisons
}

fn figures(row: &RowResult, group: usize, column: usize) -> (Option<f64>, Option<f64>, bool) {
    let datum = &row.data[group][column];
    let ours = match &datum.ours {
        Measured::Value { estimate, .. } => Some(estimate.value),
        _ => None,
    };
    let published = datum.published;
    (
        ours,
        published.map(|p| p.value),
        published.is_some_and(|p| p.derived),
    )
}

fn explanation(
    acceptance: &Acceptance,
    explanations: &[Explanation],
    comparison: &Comparison,
) -> Option<String> {
    let texts: Vec<&str> = explanations
        .iter()
        .filter(|explanation| {
            explanation.acceptance == acceptance.id
                && is_listed(&explanation.tables, &comparison.table)
                && is_listed(&explanation.rows, &comparison.row)
                && is_listed(&explanation.groups, &comparison.group)
        })
        .map(|explanation| explanation.text.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

fn is_listed(list: &[String], word: &str) -> bool {
    list.is_empty() || list.iter().any(|listed| listed == word)
}
