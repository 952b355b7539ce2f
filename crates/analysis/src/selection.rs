//! Selections of cells: a block and some levels of factors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::{Cell, Run};

/// The default block of a selection.
pub const MAIN_BLOCK: &str = "main";

/// A factor whose level is only a label: cells that differ only in this factor are equal.
pub const COPY: &str = "copy";

/// The copy that claims, tables and curves use. A cell without the factor [`COPY`] also counts as this copy.
pub const FIRST_COPY: &str = "a";

/// A factor of the study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// The levels of the factor.
    pub levels: Vec<String>,
    /// The default level, used for a cell of the main block or a selection that names no level of the factor.
    pub default: Option<String>,
}

/// Levels of factors, and a block. In a study's file it is a table, `{ policy = "h1.1", visit = "first" }`. The block
/// is another entry of this table (`block = "nagle"`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Selection {
    /// The block; [`MAIN_BLOCK`] when absent.
    pub block: Option<String>,
    /// The levels by factor.
    pub levels: BTreeMap<String, String>,
}

impl From<BTreeMap<String, String>> for Selection {
    fn from(mut levels: BTreeMap<String, String>) -> Selection {
        Selection {
            block: levels.remove("block"),
            levels,
        }
    }
}

impl From<Selection> for BTreeMap<String, String> {
    fn from(selection: Selection) -> BTreeMap<String, String> {
        let mut levels = selection.levels;
        if let Some(block) = selection.block {
            levels.insert("block".to_owned(), block);
        }
        levels
    }
}

/// The reason why a selection does not identify a single cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// The run has no matching cell.
    NotMeasured,
    /// The run has several matching cells, which differ in these factors.
    Ambiguous(Vec<String>),
}

impl Selection {
    /// Combines two selections. The block and the levels of `other` take precedence.
    pub fn with(&self, other: &Selection) -> Selection {
        let mut merged = self.clone();
        if other.block.is_some() {
            merged.block.clone_from(&other.block);
        }
        for (factor, level) in &other.levels {
            merged.levels.insert(factor.clone(), level.clone());
        }
        merged
    }

    /// Adds one level to this selection.
    pub fn at(mut self, factor: &str, level: &str) -> Selection {
        self.levels.insert(factor.to_owned(), level.to_owned());
        self
    }

    /// The selected block.
    pub fn block(&self) -> &str {
        self.block.as_deref().unwrap_or(MAIN_BLOCK)
    }

    /// Every cell that matches.
    pub(crate) fn matching<'a>(
        &self,
        run: &'a Run,
        factors: &BTreeMap<String, Factor>,
    ) -> impl Iterator<Item = &'a Cell> {
        run.cells.iter().filter(|cell| self.agrees(cell, factors))
    }

    /// Returns the only cell that matches.
    ///
    /// In the main block, a factor that the selection does not name must have its default level. So in an unfinished
    /// run, another cell cannot be mistaken for the selected cell. A side block varies few factors: there, a factor
    /// that the selection does not name may have any level. Only the factor [`COPY`] must have its default level in
    /// every block.
    ///
    /// # Errors
    /// When the run has no matching cell, or several.
    pub(crate) fn resolve<'a>(
        &self,
        run: &'a Run,
        factors: &BTreeMap<String, Factor>,
    ) -> Result<&'a Cell, Unresolved> {
        let found: Vec<&'a Cell> = self.matching(run, factors).collect();
        match found.as_slice() {
            [] => Err(Unresolved::NotMeasured),
            [cell] => Ok(cell),
            several => Err(Unresolved::Ambiguous(differing_factors(several))),
        }
    }

    fn agrees(&self, cell: &Cell, factors: &BTreeMap<String, Factor>) -> bool {
        if cell.block != self.block() {
            return false;
        }
        // A copy other than the first matches only if the selection names the copy.
        if !self.levels.contains_key(COPY) && cell.key.level(COPY).is_some_and(|l| l != FIRST_COPY)
        {
            return false;
        }
        let default = |factor: &str| factors.get(factor)?.default.as_deref();
        let named = self.levels.iter().all(|(factor, level)| {
            cell.key.level(factor).or_else(|| default(factor)) == Some(level)
        });
        let rest_is_default = || {
            cell.key.0.iter().all(|(factor, level)| {
                self.levels.contains_key(factor) || default(factor).is_none_or(|d| d == level)
            })
        };
        named && (self.block() != MAIN_BLOCK || rest_is_default())
    }
}

/// The factors in which cells differ.
pub(crate) fn differing_factors(cells: &[&Cell]) -> Vec<String> {
    let mut factors: Vec<String> = cells
        .iter()
        .flat_map(|cell| cell.key.0.keys().cloned())
        .collect();
    factors.sort();
    factors.dedup();
    factors.retain(|factor| {
        cells
            .iter()
            .any(|cell| cell.key.level(factor) != cells[0].key.level(factor))
    });
    factors
}

/// The value of a numeric level: a number (`32`), a number with a unit (16 for `16M`), or the last setting of a level
/// (43 for `microscape:files=43`).
pub(crate) fn number(level: &str) -> Option<f64> {
    let setting = level.rsplit('=').next().unwrap_or(level);
    let value: f64 = setting.parse().or_else(|_| bare(setting).parse()).ok()?;
    value.is_finite().then_some(value)
}

/// The unit of a numeric level: empty, or for example `M` in `16M`.
pub(crate) fn unit(level: &str) -> &str {
    &level[bare(level).len()..]
}

fn bare(level: &str) -> &str {
    level.trim_end_matches(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{number, unit};

    #[test]
    fn levels_are_numbers_with_or_without_a_unit() {
        assert_eq!((number("32"), unit("32")), (Some(32.0), ""));
        assert_eq!((number("16M"), unit("16M")), (Some(16.0), "M"));
        let group = "pareto:mean=256k";
        assert_eq!((number(group), unit(group)), (Some(256.0), "k"));
        assert_eq!((number("200ops"), unit("200ops")), (Some(200.0), "ops"));
        assert_eq!(number("1e3"), Some(1000.0));
        let setting = "microscape:files=43";
        assert_eq!((number(setting), unit(setting)), (Some(43.0), ""));
        for word in ["none", "h1.1", "inf", "NaN", "almeida-300k", "h1.1x2", ""] {
            assert_eq!(number(word), None, "{word}");
        }
    }
}
