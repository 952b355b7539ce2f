//! Builds the cells of a study from the factorial designs of its blocks. Excluded cells are left out.

use std::collections::{BTreeMap, BTreeSet};

use fathometer_analysis::run::{LeftOut, Mode};
use fathometer_model::CellKey;

use super::{KEY_FACTORS, SpecError, Study};

/// One cell of the design.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The block of the cell.
    pub block: String,
    /// The cell's levels, as a run records them.
    pub key: CellKey,
    /// The level of every factor of the study, including defaults.
    pub levels: BTreeMap<String, String>,
    /// The number of replicates.
    pub replicates: u32,
}

impl Cell {
    /// Returns the level of a factor. Every factor has a level, because the study's defaults are complete.
    pub fn level(&self, factor: &str) -> &str {
        self.levels.get(factor).map_or("", String::as_str)
    }

    /// Returns the policy and the server of a second load, which runs at the same time on the same host. They are in
    /// the level of the factor `beside`, as in `h2@nghttpd`. Returns `None` if the study lacks this factor, or if its
    /// level has no `@`, as in `none`.
    pub fn beside(&self) -> Option<(&str, &str)> {
        self.level("beside").split_once('@')
    }

    /// Returns the levels that each server of the cell must support: the levels of the cell, and the levels of the
    /// second load.
    pub fn asked(&self) -> Vec<BTreeMap<String, String>> {
        let mut asked = vec![self.levels.clone()];
        asked.extend(self.beside().map(|(policy, server)| {
            let mut levels = self.levels.clone();
            levels.insert("policy".to_owned(), policy.to_owned());
            levels.insert("server".to_owned(), server.to_owned());
            levels
        }));
        asked
    }

    /// Returns the cell as an entry of the list of cells that are not measured.
    pub fn left_out(&self, reason: impl Into<String>) -> LeftOut {
        LeftOut {
            block: self.block.clone(),
            cell: self.key.clone(),
            reason: reason.into(),
        }
    }

    /// Returns the names of the cell's servers.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let beside = self.beside().map(|(_, server)| server);
        std::iter::once(self.level("server")).chain(beside)
    }

    /// Returns the cell's folder name, which consists of the block and the levels. It is valid on any file system.
    pub fn folder(&self) -> String {
        folder_of(&self.block, &self.key)
    }
}

/// Returns the folder name of a cell in a block.
pub fn folder_of(block: &str, key: &CellKey) -> String {
    let levels: Vec<String> = key
        .0
        .iter()
        // A level may be a file path, so slashes are escaped.
        .map(|(factor, level)| format!("{factor}={}", level.replace('/', "%2F")))
        .collect();
    format!("{block}/{}", levels.join(","))
}

impl Study {
    /// Returns all cells of a mode, in the order of the file.
    pub fn cells(&self, mode: Mode) -> Result<Vec<Cell>, SpecError> {
        let base = self.base(mode);
        let mut cells = Vec::new();
        for block in &self.blocks {
            let mut factors = block.factors.clone();
            let mut exclude = block.exclude.clone();
            if mode == Mode::Published && !block.published.is_empty() {
                factors.extend(block.published.clone());
            } else if base == Mode::Quick {
                factors.extend(block.quick.clone());
                exclude.extend(block.exclude_quick.clone());
            }
            for assignment in crossing(&factors) {
                let mut levels = self.defaults.clone();
                levels.extend(assignment.clone());
                if exclude.iter().any(|pattern| matches(pattern, &levels)) {
                    continue;
                }
                let path = &levels["path"];
                let replicates = match block.replicates.get(base.name()) {
                    Some(&n) => n,
                    None => self.replicates_on(path, base.name())?,
                };
                let key = levels
                    .iter()
                    .filter(|(factor, _)| {
                        KEY_FACTORS.contains(&factor.as_str()) || assignment.contains_key(*factor)
                    })
                    .map(|(factor, level)| (factor.clone(), level.clone()))
                    .collect();
                cells.push(Cell {
                    block: block.name.clone(),
                    key: CellKey(key),
                    levels,
                    replicates,
                });
            }
        }
        // Two cells with the same folder would remove and read the files of each other.
        let mut folders = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !folders.insert(cell.folder())) {
            return Err(self.nonsense(format!(
                "the cell {} is defined twice: write each level of a factor once, and give each block its own name",
                twice.folder()
            )));
        }
        Ok(cells)
    }
}

fn crossing(factors: &BTreeMap<String, Vec<String>>) -> Vec<BTreeMap<String, String>> {
    let mut product = vec![BTreeMap::new()];
    for (factor, levels) in factors {
        product = product
            .iter()
            .flat_map(|assignment| {
                levels.iter().map(move |level| {
                    let mut assignment = assignment.clone();
                    assignment.insert(factor.clone(), level.clone());
                    assignment
                })
            })
            .collect();
    }
    product
}

fn matches(pattern: &BTreeMap<String, String>, levels: &BTreeMap<String, String>) -> bool {
    pattern.iter().all(|(factor, wanted)| {
        levels
            .get(factor)
            .is_some_and(|level| wanted.split('|').any(|w| w.trim() == level))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::STUDY;
    use super::*;

    #[test]
    fn a_block_is_the_crossing_of_its_factors_less_its_exclusions() {
        let study = Study::parse(STUDY).unwrap();
        let cells = study.cells(Mode::Quick).unwrap();
        assert_eq!(cells.len(), 6 + 1);
        assert_eq!(
            cells.iter().filter(|c| c.level("policy") == "h1.0").count(),
            2
        );
        let nagle = cells.last().unwrap();
        assert_eq!(nagle.key.level("nodelay"), Some("off"));
        assert_eq!(nagle.replicates, 3);
        assert_eq!(cells[0].key.level("nodelay"), None);
        assert_eq!(cells[0].level("nodelay"), "on");
    }

    #[test]
    fn a_cell_with_a_load_beside_asks_two_servers_for_a_policy_each() {
        let text = STUDY
            .replace(
                "nodelay = \"on\" }",
                "nodelay = \"on\", beside = \"none\" }",
            )
            .replace(
                "nodelay = [\"on\", \"off\"]",
                "beside = [\"none\", \"h2@nghttpx\"]",
            )
            .replace("exclude_quick = [{ nodelay = \"on\" }]", "");
        let cells = Study::parse(&text).unwrap().cells(Mode::Quick).unwrap();
        let [.., alone, beside] = cells.as_slice() else {
            panic!("{cells:?}");
        };
        assert_eq!(alone.beside(), None);
        assert_eq!(alone.asked(), std::slice::from_ref(&alone.levels));
        assert_eq!(beside.beside(), Some(("h2", "nghttpx")));
        assert_eq!(
            beside.servers().collect::<Vec<_>>(),
            ["embedded", "nghttpx"]
        );
        let asked = beside.asked();
        assert_eq!(asked[0]["policy"], "h1.1");
        assert_eq!(asked[1]["policy"], "h2");
        assert_eq!(asked[1]["server"], "nghttpx");
        assert_eq!(asked[1]["path"], "lan");
    }

    #[test]
    fn a_level_that_is_a_path_is_one_part_of_the_folder() {
        let key = CellKey([("server".to_owned(), "../mine/server.toml".to_owned())].into());
        assert_eq!(
            folder_of("main", &key),
            "main/server=..%2Fmine%2Fserver.toml"
        );
    }

    #[test]
    fn cells_that_are_defined_twice_are_refused() {
        let twice = STUDY.replace("[\"h1.1\", \"h1.0\"]", "[\"h1.1\", \"h1.1\"]");
        let one_name = STUDY.replace("name = \"nagle\"", "name = \"main\"").replace(
            "factors = { nodelay",
            "factors = { policy = [\"h1.1\"], path = [\"lan\"], visit = [\"first\"], server = [\"a\", \"a\"], \
             nodelay",
        );
        for study in [twice, one_name] {
            let study = Study::parse(&study).unwrap();
            let error = study.cells(Mode::Quick).unwrap_err().to_string();
            assert!(error.contains("defined twice"), "{error}");
        }
    }
}
