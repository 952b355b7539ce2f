//! The differences between our figures and the published figures, compared with tolerances that the study states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tables::{Measured, RowResult, TableResult};

/// A tolerance: which figures are compared, and the largest accepted difference.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The identifier of the tolerance.
    pub id: String,
    /// The compared figures, in a few words.
    pub title: String,
    /// The era whose figures should match the paper.
    pub era: String,
    /// The tables that are compared.
    pub tables: Vec<String>,
    /// The rows that are compared; empty: all published rows.
    #[serde(default)]
    pub rows: Vec<String>,
    /// The column that is compared.
    pub column: String,
    /// The row by which the other rows of its section are divided before the comparison: our rows by our row, published
    /// rows by the published row. Absent: figures are compared without division.
    pub relative_to: Option<String>,
    /// The largest accepted difference between our figure and the published figure, in percent of the published
    /// figure.
    pub tolerance_pct: f64,
    /// Published figures with which a model was calibrated. They are shown, but counted separately.
    #[serde(default)]
    pub calibrated: Vec<CalibratedFigures>,
}

/// Published figures with which a model was calibrated. A small difference from them does not validate the model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedFigures {
    /// The tables; empty: all.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The rows; empty: all.
    #[serde(default)]
    pub rows: Vec<String>,
    /// The groups of columns; empty: all.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The use of these figures in a calibration.
    pub reason: String,
}

/// The explanation of figures that miss a tolerance.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The tolerance's identifier.
    pub acceptance: String,
    /// The tables that the explanation concerns; empty: all.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The rows that the explanation concerns; empty: all.
    #[serde(default)]
    pub rows: Vec<String>,
    /// The groups of columns that the explanation concerns; empty: all.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The mechanism that causes the difference, with its evidence.
    pub text: String,
}

/// A tolerance and its comparisons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Closeness {
    /// The identifier of the tolerance.
    pub id: String,
    /// The compared figures, in a few words.
    pub title: String,
    /// The era.
    pub era: String,
    /// The tolerance, in percent.
    pub tolerance_pct: f64,
    /// Every comparison.
    pub comparisons: Vec<Comparison>,
}

impl Closeness {
    /// Number of comparisons within the tolerance. Comparisons with figures that calibrated a model are excluded.
    pub fn within(&self) -> usize {
        let independent = self.comparisons.iter().filter(|c| c.calibrated.is_none());
        independent.filter(|c| c.is_within()).count()
    }

    /// Number of comparisons for which we measured a figure. Comparisons with figures that calibrated a model are
    /// excluded.
    pub fn measured(&self) -> usize {
        let independent = self.comparisons.iter().filter(|c| c.calibrated.is_none());
        independent.filter(|c| c.off_pct.is_some()).count()
    }

    /// Numbers of comparisons with figures that calibrated a model: the comparisons within the tolerance, and the
    /// measured comparisons.
    pub fn calibrated(&self) -> (usize, usize) {
        let measured = |c: &&Comparison| c.calibrated.is_some() && c.off_pct.is_some();
        let measured: Vec<_> = self.comparisons.iter().filter(measured).collect();
        let within = measured.iter().filter(|c| c.is_within()).count();
        (within, measured.len())
    }

    /// The number of comparisons within the tolerance, as in `7 of 8; calibrated: 2 of 2`; `not measured` without any
    /// measured figure.
    pub fn counts(&self) -> String {
        let independent =
            (self.measured() > 0).then(|| format!("{} of {}", self.within(), self.measured()));
        let calibrated = match self.calibrated() {
            (_, 0) => None,
            (within, measured) => Some(format!("calibrated: {within} of {measured}")),
        };
        let counts: Vec<String> = independent.into_iter().chain(calibrated).collect();
        match counts.is_empty() {
            true => "not measured".to_owned(),
            false => counts.join("; "),
        }
    }
}

/// One of our figures, compared with the published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The table.
    pub table: String,
    /// The heading of the row.
    pub row: String,
    /// The name of the group of columns.
    pub group: String,
    /// Our figure; `None` if it was not measured or is invalid.
    pub ours: Option<f64>,
    /// The published figure.
    pub published: f64,
    /// Whether the published figure is derived from printed figures, and not printed itself.
    pub derived: bool,
    /// The difference between our figure and the published figure, in percent of the published figure.
    pub off_pct: Option<f64>,
    /// The tolerance, in percent.
    pub tolerance_pct: f64,
    /// The explanation, if the comparison misses the tolerance.
    pub explanation: Option<String>,
    /// The use of the published figure in a calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<String>,
}

impl Comparison {
    /// Whether our figure was measured and lies within the tolerance.
    pub fn is_within(&self) -> bool {
        // A difference that equals the tolerance counts as within; the rounding of the division must not change this.
        self.off_pct
            .is_some_and(|off| off.abs() <= self.tolerance_pct * (1.0 + 1e-9))
    }
}

/// Compares the figures of tables with the published figures, for each tolerance.
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
    // Each section of a table has all rows, including the base row.
    let base_of = |compared: &RowResult, label: &str| {
        let mut rows = table.rows.iter();
        rows.find(|row| row.label == label && row.section == compared.section)
    };
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
                let Some(base) = base_of(compared, base) else {
                    continue;
                };
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
                calibrated: None,
            };
            comparison.calibrated = calibration(acceptance, &comparison);
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

fn calibration(acceptance: &Acceptance, comparison: &Comparison) -> Option<String> {
    let concerned = |figures: &&CalibratedFigures| {
        is_listed(&figures.tables, &comparison.table)
            && is_listed(&figures.rows, &comparison.row)
            && is_listed(&figures.groups, &comparison.group)
    };
    let found = acceptance.calibrated.iter().find(concerned)?;
    Some(found.reason.clone())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Estimate;
    use crate::tables::{Datum, PublishedValue};

    fn comparison(off_pct: Option<f64>, calibrated: bool) -> Comparison {
        Comparison {
            table: "T6".to_owned(),
            row: "HTTP/1.1".to_owned(),
            group: "first".to_owned(),
            ours: None,
            published: 1.0,
            derived: false,
            off_pct,
            tolerance_pct: 5.0,
            explanation: None,
            calibrated: calibrated.then(|| "the service time".to_owned()),
        }
    }

    fn counts(comparisons: Vec<Comparison>) -> String {
        let bar = Closeness {
            id: "seconds".to_owned(),
            title: String::new(),
            era: "1997".to_owned(),
            tolerance_pct: 5.0,
            comparisons,
        };
        bar.counts()
    }

    #[test]
    fn figures_that_calibrated_a_model_are_counted_apart() {
        let independent = [Some(1.0), Some(-9.0), None].map(|off| comparison(off, false));
        let calibrated = [Some(0.1), None].map(|off| comparison(off, true));
        assert_eq!(
            counts([&independent[..], &calibrated[..]].concat()),
            "1 of 2; calibrated: 1 of 1"
        );
        assert_eq!(counts(independent.to_vec()), "1 of 2");
        assert_eq!(counts(calibrated.to_vec()), "calibrated: 1 of 1");
        assert_eq!(counts(vec![comparison(None, false)]), "not measured");
    }

    #[test]
    fn the_base_of_a_row_is_that_of_its_section() {
        let row = |section: &str, label: &str, ours: f64, published: f64| RowResult {
            section: section.to_owned(),
            label: label.to_owned(),
            brief: label.to_owned(),
            in_the_paper: true,
            data: vec![vec![Datum {
                ours: Measured::Value {
                    estimate: Estimate {
                        n: 1,
                        value: ours,
                        interval: None,
                    },
                    footnote: None,
                },
                also: Vec::new(),
                published: Some(PublishedValue {
                    value: published,
                    derived: false,
                }),
                relative: None,
            }]],
        };
        let table = TableResult {
            groups: vec![("all".to_owned(), String::new())],
            rows: vec![
                row("40 users", "HTTP/1.0", 10.0, 100.0),
                row("40 users", "HTTP/1.1", 8.0, 80.0),
                row("280 users", "HTTP/1.0", 40.0, 200.0),
                row("280 users", "HTTP/1.1", 30.0, 150.0),
            ],
            ..TableResult::with_one_column()
        };
        let acceptance = Acceptance {
            id: "cpu".to_owned(),
            title: String::new(),
            era: "today".to_owned(),
            tables: vec!["T2".to_owned()],
            rows: Vec::new(),
            column: "CPU".to_owned(),
            relative_to: Some("HTTP/1.0".to_owned()),
            tolerance_pct: 1.0,
            calibrated: Vec::new(),
        };
        let found = compared(&acceptance, &[], &table);
        let ratios: Vec<_> = found.iter().map(|c| (c.ours, c.published)).collect();
        assert_eq!(ratios, [(Some(0.8), 0.8), (Some(0.75), 0.75)]);
    }
}
