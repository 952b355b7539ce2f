//! A study's data: its tables, the published figures, the claims, and the tolerances for a comparison. They are parsed from
//! texts, because the data of the papers are compiled into the program.
//!
//! A new paper needs only new data files, and no change of the code.

mod check;
mod printed;
mod results;

pub use printed::Printed;
pub use results::Open;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use crate::Error;
use crate::claims::Claim;
use crate::closeness::{Acceptance, Explanation};
use crate::published::Published;
use crate::published_claims::PublishedClaims;
use crate::run::Run;
use crate::selection::Factor;
use crate::sweep::{Curve, by_users};
use crate::tables::{Column, Layout, Table};

const TABLES: &str = "tables.toml";
const CLAIMS: &str = "claims.toml";

/// The texts of a study: the content of the files in `papers/<key>/`.
#[derive(Debug, Clone, Copy)]
pub struct StudySources<'a> {
    /// `tables.toml`: factors, metrics, layouts, tables, curves, figures, acceptance, definitions.
    pub tables: &'a str,
    /// `claims.toml`.
    pub claims: &'a str,
    /// `figures.csv`: the published figures.
    pub figures: &'a str,
}

/// A study's data, checked for consistency.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyData {
    /// The description of the study.
    pub about: About,
    /// The factors that the study varies.
    pub factors: BTreeMap<String, Factor>,
    /// The metrics that the study measures, by name. If there are any, tables, curves and claims may use only these.
    pub metrics: BTreeMap<String, String>,
    /// Layouts that tables share.
    pub layouts: Vec<Layout>,
    /// The tables of the study.
    pub tables: Vec<Table>,
    /// The curves of the study.
    pub curves: Vec<Curve>,
    /// The columns of the list of all cells. If empty, the list shows packets and seconds.
    pub cell_columns: Vec<Column>,
    /// The charts of the study.
    pub figures: Vec<Figure>,
    /// The tolerances for the differences between our figures and the published ones.
    pub acceptance: Vec<Acceptance>,
    /// The explanations of figures that miss a tolerance.
    pub explanations: Vec<Explanation>,
    /// The definitions of terms.
    pub definitions: Vec<Definition>,
    /// All tables and figures in the paper; empty for a study without a paper.
    pub printed: Vec<Printed>,
    /// The published figures.
    pub published: Published,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The claims as they were published; may be empty.
    pub published_claims: PublishedClaims,
}

/// The description of a study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The short name of the study.
    pub name: String,
    /// The paper's title.
    pub title: String,
    /// Authors, venue, year.
    pub citation: String,
    /// The question that the study answers, one sentence; may be empty.
    #[serde(default)]
    pub question: String,
    /// The measurements of the study, in a few sentences.
    pub summary: String,
    /// The meaning of the headings of the tables' columns, in a line or two.
    #[serde(default)]
    pub columns: String,
}

/// A chart: one column of some tables, with one panel for each table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The heading of the chart.
    pub title: String,
    /// A description of the chart.
    pub caption: String,
    /// The tables, in the order of the panels.
    pub tables: Vec<String>,
    /// The group of columns.
    pub group: String,
    /// The column.
    pub column: String,
    /// The columns whose figures add up to the bar: each column is a part of the bar, and a panel shows one section of the
    /// tables. Empty: bars have one part, and there is one panel for each table.
    #[serde(default)]
    pub stack: Vec<String>,
    /// The label of the axis, as in `seconds`.
    pub axis: String,
    /// Whether the chart is at the beginning of the report; otherwise it is at the end.
    #[serde(default)]
    pub headline: bool,
}

/// The definition of a term.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The term.
    pub term: String,
    /// The meaning of the term.
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TablesFile {
    /// The description of the study.
    study: About,
    /// The factors that tables and claims name, with their levels.
    factor: BTreeMap<String, Factor>,
    /// The metrics that tables and claims name, with their meaning. Empty: metrics are not checked.
    #[serde(default)]
    metrics: BTreeMap<String, String>,
    /// Layouts that tables share.
    #[serde(default)]
    layout: Vec<Layout>,
    /// The tables.
    #[serde(default)]
    table: Vec<Table>,
    /// The figures of curves.
    #[serde(default)]
    curve: Vec<Curve>,
    /// The columns of the list of all cells.
    #[serde(default)]
    cell_column: Vec<Column>,
    /// The charts.
    #[serde(default)]
    figure: Vec<Figure>,
    /// The tolerances for the differences between our figures and the published ones.
    #[serde(default)]
    acceptance: Vec<Acceptance>,
    /// The explanations of figures that miss a tolerance.
    #[serde(default)]
    explanation: Vec<Explanation>,
    /// The definitions of terms.
    #[serde(default)]
    definition: Vec<Definition>,
    /// All tables and figures in the paper, each with its counterpart or the reason why it has none.
    #[serde(default)]
    printed: Vec<Printed>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    /// The claims.
    claim: Vec<Claim>,
}

impl StudyData {
    /// The JSON Schemas of `tables.toml` and `claims.toml`.
    pub fn schemas() -> [Schema; 2] {
        let generator = || SchemaSettings::default().into_generator();
        [
            generator().into_root_schema_for::<TablesFile>(),
            generator().into_root_schema_for::<ClaimsFile>(),
        ]
    }

    /// Parses a study's texts and checks them against each other.
    ///
    /// # Errors
    /// When a text does not have its format, or names a factor, level, layout, table, row, group or column that
    /// is not declared. The message names the file and lists the valid names.
    pub fn parse(sources: StudySources<'_>) -> Result<StudyData, Error> {
        let file: TablesFile =
            toml::from_str(sources.tables).map_err(|e| Error::study(TABLES, e.to_string()))?;
        let claims: ClaimsFile =
            toml::from_str(sources.claims).map_err(|e| Error::study(CLAIMS, e.to_string()))?;
        let study = StudyData {
            about: file.study,
            factors: file.factor,
            metrics: file.metrics,
            layouts: file.layout,
            tables: file.table,
            curves: file.curve,
            cell_columns: file.cell_column,
            figures: file.figure,
            acceptance: file.acceptance,
            explanations: file.explanation,
            definitions: file.definition,
            printed: file.printed,
            published: Published::parse(sources.figures)?,
            claims: claims.claim,
            published_claims: PublishedClaims::default(),
        };
        study.check()?;
        Ok(study)
    }

    /// Adds the text of `claims-published.csv`, which contains the claims as they were published.
    ///
    /// # Errors
    /// When the text does not have its format, a row has no claim, or a claim names a row that does not exist.
    pub fn with_published_claims(mut self, text: &str) -> Result<StudyData, Error> {
        let published = PublishedClaims::parse(text)?;
        for claim in &self.claims {
            if let Some(row) = claim
                .row
                .as_ref()
                .filter(|row| published.row(row).is_none())
            {
                let message = format!("claim {}: no published claim is called {row:?}", claim.id);
                return Err(Error::study(CLAIMS, message));
            }
        }
        for row in &published.rows {
            if !self
                .claims
                .iter()
                .any(|claim| claim.row.as_ref() == Some(&row.id))
            {
                let message = format!(
                    "the published claim {} has no claim with row = {:?}",
                    row.id, row.id
                );
                return Err(Error::study(CLAIMS, message));
            }
        }
        self.published_claims = published;
        Ok(self)
    }

    /// The data for a study without these files. Every cell is listed, with these columns. Loads have curves by the
    /// number of users, and there are no verdicts.
    pub fn without_paper(run: &Run, cell_columns: Vec<Column>) -> StudyData {
        let (factors, curves) = by_users(run);
        StudyData {
            about: About {
                name: run.info.study.clone(),
                title: run.info.title.clone(),
                citation: String::new(),
                question: String::new(),
                summary: String::new(),
                columns: String::new(),
            },
            factors,
            metrics: BTreeMap::new(),
            layouts: Vec::new(),
            tables: Vec::new(),
            curves,
            cell_columns,
            figures: Vec::new(),
            acceptance: Vec::new(),
            explanations: Vec::new(),
            definitions: Vec::new(),
            printed: Vec::new(),
            published: Published::default(),
            claims: Vec::new(),
            published_claims: PublishedClaims::default(),
        }
    }

    /// The table with this id.
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: StudySources<'_> = StudySources {
        tables: include_str!("../../../../papers/nielsen97/tables.toml"),
        claims: include_str!("../../../../papers/nielsen97/claims.toml"),
        figures: include_str!("../../../../papers/nielsen97/figures.csv"),
    };

    #[test]
    fn the_papers_data_agree_with_each_other() {
        let study = StudyData::parse(SOURCES).unwrap();
        let ids: Vec<&str> = study.claims.iter().map(|claim| claim.id.as_str()).collect();
        let all: Vec<String> = (1..=20).map(|n| format!("N{n:02}")).collect();
        assert_eq!(ids, all);
        // Every row of the paper's tables has its published figures.
        for table in study.tables.iter().filter(|t| t.environment.is_some()) {
            let environment = table.environment.as_deref().unwrap();
            let layout = table.layout_of(&study.layouts);
            let published = table.part_of.as_ref().unwrap_or(&table.id);
            let mut found = 0;
            for row in &layout.rows {
                for group in &layout.groups {
                    for column in &layout.columns {
                        let (Some(variant), Some(name)) = (&row.variant, &column.published) else {
                            continue;
                        };
                        let metric = format!("{}{name}", group.prefix);
                        let figure = study
                            .published
                            .find(published, environment, variant, &metric);
                        found += usize::from(figure.is_some_and(|f| f.value.is_some()));
                    }
                }
            }
            // A table that is part of a printed table has only some of the printed rows.
            if table.part_of.is_some() {
                assert!(found > 0, "{}", table.id);
                continue;
            }
            // PPP environments have three rows, the others have four. Each row has two visits with four figures each.
            let rows = if environment.ends_with("PPP") { 3 } else { 4 };
            assert_eq!(found, rows * 2 * 4, "{}", table.id);
        }
    }

    #[test]
    fn the_load_studys_data_agree_with_each_other() {
        let study = StudyData::parse(StudySources {
            tables: include_str!("../../../../papers/almeida96/tables.toml"),
            claims: include_str!("../../../../papers/almeida96/claims.toml"),
            figures: include_str!("../../../../papers/almeida96/figures.csv"),
        })
        .unwrap();
        let ids: Vec<&str> = study.claims.iter().map(|claim| claim.id.as_str()).collect();
        let all: Vec<String> = (1..=10).map(|n| format!("A{n:02}")).collect();
        assert_eq!(ids, all);
        for figure in 1..=6 {
            let id = format!("F{figure}");
            assert!(study.curves.iter().any(|curve| curve.id == id), "{id}");
        }
        // The metrics that a load study records for each replicate. The check above ensures that the study names no
        // other metric.
        let metrics: Vec<&str> = study.metrics.keys().map(String::as_str).collect();
        assert_eq!(
            metrics,
            [
                "clients",
                "connections_per_s",
                "context_switches_per_s",
                "cpu_interrupt_pct",
                "cpu_server_process_pct",
                "cpu_server_system_pct",
                "cpu_server_user_pct",
                "cpu_total_pct",
                "disk_busy_pct",
                "disk_read_kB_per_s",
                "disk_reads_per_s",
                "error_pct",
                "errors_per_s",
                "exchanges_per_s",
                "generator_busy_pct",
                "generator_send_lag_p99_us",
                "interrupts_per_s",
                "listen_overflows_per_s",
                "littles_load_factor",
                "major_faults_per_s",
                "memory_pss_kB",
                "memory_rss_kB",
                "packets_per_s",
                "page_cache_kB",
                "response_mean_ms",
                "response_p50_ms",
                "response_p98_ms",
                "throughput_kB_per_s",
            ]
        );
        every_level_is_declared(
            &study,
            include_str!("../../../../papers/almeida96/study.toml"),
        );
    }

    /// Asserts that every level in the design (`study.toml`) is declared, if its factor is declared.
    fn every_level_is_declared(study: &StudyData, design: &str) {
        let design: toml::Table = toml::from_str(design).unwrap();
        for block in design["block"].as_array().unwrap() {
            for part in ["factors", "quick", "published"] {
                let factors = block.get(part).and_then(toml::Value::as_table);
                for (factor, levels) in factors.into_iter().flatten() {
                    for level in levels.as_array().unwrap() {
                        let level = level.as_str().unwrap().to_owned();
                        let known = &study.factors[factor].levels;
                        assert!(known.contains(&level), "{factor} {level}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_packaging_studys_data_agree_with_each_other() {
        let study = StudyData::parse(StudySources {
            tables: include_str!("../../../../papers/fujinoki03/tables.toml"),
            claims: include_str!("../../../../papers/fujinoki03/claims.toml"),
            figures: include_str!("../../../../papers/fujinoki03/figures.csv"),
        })
        .unwrap();
        let ids: Vec<&str> = study.claims.iter().map(|claim| claim.id.as_str()).collect();
        let all: Vec<String> = (1..=10).map(|n| format!("F{n:02}")).collect();
        assert_eq!(ids, all);
        // The figures of the paper's tables 3 to 7 are in the right places.
        for (id, rows) in [
            ("T3", 3),
            ("T4", 3),
            ("T5", 3),
            ("T6", 3),
            ("T7", 2),
            ("T7-cpu", 3),
        ] {
            let table = study.table(id).unwrap();
            let environment = table.environment.as_deref().unwrap();
            let published = table.part_of.as_deref().unwrap_or(id);
            let layout = table.layout_of(&study.layouts);
            for column in layout.columns.iter().filter(|c| c.published.is_some()) {
                let metric = column.published.as_deref().unwrap();
                let found = layout.groups.iter().flat_map(|group| {
                    let variants = layout.rows.iter().filter_map(|row| row.variant.as_ref());
                    variants.map(move |variant| format!("{variant}{}", group.suffix))
                });
                let found = found.filter(|variant| {
                    let found = study
                        .published
                        .find(published, environment, variant, metric);
                    found.is_some_and(|figure| figure.value.is_some())
                });
                // For HTTP/1.0 relative to itself, the paper prints only the CPU time of the server.
                let rows = match metric {
                    "client_cpu_rel_http10" => 2,
                    _ => rows,
                };
                assert_eq!(found.count(), 3 * rows, "{id} {metric}");
            }
        }
        every_level_is_declared(
            &study,
            include_str!("../../../../papers/fujinoki03/study.toml"),
        );
    }

    #[test]
    fn what_is_not_declared_is_named_with_what_is() {
        let broken = |from: &str, to: &str| {
            let tables = SOURCES.tables.replacen(from, to, 1);
            let sources = StudySources {
                tables: &tables,
                ..SOURCES
            };
            StudyData::parse(sources).unwrap_err().to_string()
        };
        let error = broken("policy = \"h1.0x4\"", "polcy = \"h1.0x4\"");
        assert!(
            error.contains("no factor is called \"polcy\"; there are buffer,"),
            "{error}"
        );
        let error = broken("policy = \"h1.0x4\"", "policy = \"h1.0x5\"");
        assert!(
            error.contains("no level of policy is called \"h1.0x5\""),
            "{error}"
        );
        let error = broken("layout = \"policies\"", "layout = \"polices\"");
        assert!(error.contains("no layout is called"), "{error}");
        let error = broken("tolerance_pct = 5", "tolerance = 5");
        assert!(error.contains("unknown field `tolerance`"), "{error}");
        let error = broken("column = \"Sec\"", "column = \"sec\"");
        assert!(error.contains("there are Pa, Bytes, Sec, %ov"), "{error}");
    }

    #[test]
    fn a_misspelt_claim_is_refused() {
        let broken = |from: &str, to: &str| {
            let claims = SOURCES.claims.replacen(from, to, 1);
            let sources = StudySources {
                claims: &claims,
                ..SOURCES
            };
            StudyData::parse(sources).unwrap_err().to_string()
        };
        let error = broken("weaker = \"> 1\"", "weeker = \"> 1\"");
        assert!(error.contains("unknown field `weeker`"), "{error}");
        let error = broken("holds = \">= 2\"", "holds = \"about 2\"");
        assert!(error.contains("is not a bound"), "{error}");
        let error = broken("right = { policy = \"h1.1-pipeline\" }\n", "");
        assert!(
            error.contains("must have a left and a right side"),
            "{error}"
        );
    }
}
