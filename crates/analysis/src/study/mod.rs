//! A study's data: what its tables look like, what was published, what is claimed, and how close
//! is close. Read from texts, because the program carries its papers with it.
//!
//! Adding a paper means writing these three files and touches no code.

mod published;
mod selection;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use published::{Published, PublishedFigure};
pub use selection::{Factor, MAIN_BLOCK, Selection, Unresolved};

use crate::Error;
use crate::claims::Claim;
use crate::closeness::{Acceptance, Explanation};
use crate::tables::{Layout, Table};

const TABLES: &str = "tables.toml";
const CLAIMS: &str = "claims.toml";

/// The texts of a study, as they stand in `papers/<key>/`.
#[derive(Debug, Clone, Copy)]
pub struct StudySources<'a> {
    /// `tables.toml`: factors, layouts, tables, figures, acceptance, definitions.
    pub tables: &'a str,
    /// `claims.toml`.
    pub claims: &'a str,
    /// `figures.csv`: what was published.
    pub figures: &'a str,
}

/// A study's data, checked against itself.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyData {
    /// What study this is.
    pub about: About,
    /// What it varies.
    pub factors: BTreeMap<String, Factor>,
    /// Shapes that tables share.
    pub layouts: Vec<Layout>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its charts.
    pub figures: Vec<Figure>,
    /// How close our figures should come to the published ones.
    pub acceptance: Vec<Acceptance>,
    /// What explains a figure that does not.
    pub explanations: Vec<Explanation>,
    /// What the words mean.
    pub definitions: Vec<Definition>,
    /// What was published.
    pub published: Published,
    /// What is claimed.
    pub claims: Vec<Claim>,
}

/// What study this is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its short name.
    pub name: String,
    /// The paper's title.
    pub title: String,
    /// Authors, venue, year.
    pub citation: String,
    /// What is measured, in a few sentences.
    pub summary: String,
}

/// A chart: one column of some tables, a panel each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// What is to be seen in it.
    pub caption: String,
    /// The tables, in the order of the panels.
    pub tables: Vec<String>,
    /// The group of columns.
    pub group: String,
    /// The column.
    pub column: String,
    /// What the axis counts, as in `seconds`.
    pub axis: String,
    /// Whether it opens the report rather than closing it.
    #[serde(default)]
    pub headline: bool,
}

/// What a word means.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The word.
    pub term: String,
    /// Its meaning.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TablesFile {
    study: About,
    factor: BTreeMap<String, Factor>,
    layout: Vec<Layout>,
    table: Vec<Table>,
    #[serde(default)]
    figure: Vec<Figure>,
    #[serde(default)]
    acceptance: Vec<Acceptance>,
    #[serde(default)]
    explanation: Vec<Explanation>,
    #[serde(default)]
    definition: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    claim: Vec<Claim>,
}

impl StudyData {
    /// Reads a study's texts and checks them against each other.
    ///
    /// # Errors
    /// When a text is not of its form, or names a factor, level, layout, table, row, group or column
    /// that is not declared. The message names the file and says what is known.
    pub fn parse(sources: StudySources<'_>) -> Result<StudyData, Error> {
        let file: TablesFile =
            toml::from_str(sources.tables).map_err(|e| Error::study(TABLES, e.to_string()))?;
        let claims: ClaimsFile =
            toml::from_str(sources.claims).map_err(|e| Error::study(CLAIMS, e.to_string()))?;
        let study = StudyData {
            about: file.study,
            factors: file.factor,
            layouts: file.layout,
            tables: file.table,
            figures: file.figure,
            acceptance: file.acceptance,
            explanations: file.explanation,
            definitions: file.definition,
            published: Published::parse(sources.figures)?,
            claims: claims.claim,
        };
        study.check()?;
        Ok(study)
    }

    /// The layout of a table.
    ///
    /// # Panics
    /// When the table is not of this study.
    pub fn layout(&self, table: &Table) -> &Layout {
        self.layouts
            .iter()
            .find(|layout| Some(layout.name.as_str()) == table.layout.as_deref())
            .expect("a table that is shown names a layout of its study")
    }

    /// The table with this id.
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    fn check(&self) -> Result<(), Error> {
        for table in &self.tables {
            self.check_table(table)?;
        }
        for figure in &self.figures {
            let place = format!("figure {:?}", figure.title);
            let columns = [figure.column.as_str()];
            self.check_cells(&place, &figure.tables, &[], &[&figure.group], &columns)?;
        }
        for acceptance in &self.acceptance {
            let place = format!("acceptance {:?}", acceptance.id);
            let mut rows: Vec<&str> = acceptance.rows.iter().map(String::as_str).collect();
            rows.extend(acceptance.relative_to.as_deref());
            let columns = [acceptance.column.as_str()];
            self.check_cells(&place, &acceptance.tables, &rows, &[], &columns)?;
        }
        for explanation in &self.explanations {
            let place = format!("explanation {:?}", explanation.text);
            let known = self.acceptance.iter().map(|a| a.id.as_str());
            known_word(TABLES, &place, "acceptance", &explanation.acceptance, known)?;
        }
        for claim in &self.claims {
            let place = format!("claim {}", claim.id);
            if claim.tests.is_empty() == claim.not_tested.is_none() {
                let message = format!("{place}: has either tests or a reason why it has none");
                return Err(Error::study(CLAIMS, message));
            }
            for selection in claim.selections() {
                self.check_selection(CLAIMS, &place, &selection)?;
            }
        }
        Ok(())
    }

    fn check_table(&self, table: &Table) -> Result<(), Error> {
        let place = format!("table {:?}", table.id);
        let layout = match (&table.layout, &table.absent) {
            (None, Some(_)) => return Ok(()),
            (Some(name), None) => {
                let known = self.layouts.iter().map(|layout| layout.name.as_str());
                known_word(TABLES, &place, "layout", name, known)?;
                self.layout(table)
            }
            _ => {
                let message = format!("{place}: has either a layout or a reason why it is absent");
                return Err(Error::study(TABLES, message));
            }
        };
        let selections = [&table.select]
            .into_iter()
            .chain(table.also.iter().map(|also| &also.select))
            .chain(layout.groups.iter().map(|group| &group.select))
            .chain(layout.rows.iter().map(|row| &row.select));
        for selection in selections {
            self.check_selection(TABLES, &place, selection)?;
        }
        Ok(())
    }

    fn check_cells(
        &self,
        place: &str,
        tables: &[String],
        rows: &[&str],
        groups: &[&str],
        columns: &[&str],
    ) -> Result<(), Error> {
        for id in tables {
            let shown = self.tables.iter().filter(|table| table.layout.is_some());
            known_word(TABLES, place, "table", id, shown.map(|t| t.id.as_str()))?;
            let table = self.table(id).expect("just found");
            let layout = self.layout(table);
            let place = format!("{place}, table {id:?}");
            for row in rows {
                let known = layout.rows.iter().map(|row| row.label.as_str());
                known_word(TABLES, &place, "row", row, known)?;
            }
            for group in groups {
                let known = layout.groups.iter().map(|group| group.key.as_str());
                known_word(TABLES, &place, "group", group, known)?;
            }
            for column in columns {
                let known = layout.columns.iter().map(|column| column.label.as_str());
                known_word(TABLES, &place, "column", column, known)?;
            }
        }
        Ok(())
    }

    fn check_selection(
        &self,
        file: &'static str,
        place: &str,
        selection: &Selection,
    ) -> Result<(), Error> {
        for (factor, level) in &selection.levels {
            let known = self.factors.keys().map(String::as_str);
            known_word(file, place, "factor", factor, known)?;
            let levels = &self.factors[factor].levels;
            let known = levels.iter().map(String::as_str);
            known_word(file, place, &format!("level of {factor}"), level, known)?;
        }
        Ok(())
    }
}

fn known_word<'a>(
    file: &'static str,
    place: &str,
    what: &str,
    word: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Error> {
    if known.clone().any(|k| k == word) {
        return Ok(());
    }
    let known: Vec<&str> = known.collect();
    let message = format!(
        "{place}: no {what} is called {word:?}; there are {}",
        known.join(", ")
    );
    Err(Error::study(file, message))
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
        // Every row of the paper's tables finds its published figures.
        for table in study.tables.iter().filter(|t| t.environment.is_some()) {
            assert!(study.published.has_table(&table.id), "{}", table.id);
            let environment = table.environment.as_deref().unwrap();
            let layout = study.layout(table);
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
                            .find(&table.id, environment, variant, &metric);
                        found += usize::from(figure.is_some_and(|f| f.value.is_some()));
                    }
                }
            }
            // Three rows over a modem, four elsewhere; two visits; four figures each.
            let rows = if environment.ends_with("PPP") { 3 } else { 4 };
            assert_eq!(found, rows * 2 * 4, "{}", table.id);
        }
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
        assert!(error.contains("has a left and a right side"), "{error}");
    }
}
