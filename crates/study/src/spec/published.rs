//! The run of a study that is published, as its file states it.

use fathometer_analysis::run::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::MOST_REPLICATES;

/// The run that `--published` repeats: which cells of the study, and how often.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Whether levels and windows are those of the full mode; default: those of the quick mode.
    #[serde(default)]
    pub full: bool,
    /// Number of replicates of each cell; default: those of the mode.
    #[serde(default)]
    pub replicates: Option<u32>,
    /// Levels that cells must have, as in `path=wan`. Several levels of one factor are alternatives. Default: all cells
    /// of the mode.
    #[serde(default)]
    pub only: Vec<String>,
}

impl Published {
    /// The mode whose cells it measures.
    pub fn mode(&self) -> Mode {
        match self.full {
            true => Mode::Full,
            false => Mode::Quick,
        }
    }

    /// Factor and level of each entry of `only`.
    pub fn only(&self) -> Vec<(String, String)> {
        let split = |entry: &String| {
            let (factor, level) = entry.split_once('=')?;
            Some((factor.to_owned(), level.to_owned()))
        };
        self.only.iter().filter_map(split).collect()
    }

    /// Checks that every entry of `only` has a level, and that the number of replicates is possible.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(entry) = self.only.iter().find(|entry| !entry.contains('=')) {
            return Err(format!(
                "[published] has only = {entry:?}: write FACTOR=LEVEL, as in path=wan"
            ));
        }
        match self.replicates {
            Some(n) if n == 0 || n > MOST_REPLICATES => Err(format!(
                "[published] has {n} replicates: the number must be from 1 to {MOST_REPLICATES}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Study;
    use super::super::tests::STUDY;
    use super::*;

    fn with(published: &str) -> String {
        format!("{STUDY}\n[published]\n{published}\n")
    }

    #[test]
    fn the_published_run_names_its_mode_cells_and_replicates() {
        let text = with("full = true\nreplicates = 5\nonly = [\"path=lan\", \"block=main\"]");
        let published = Study::parse(&text).unwrap().published.unwrap();
        assert_eq!(published.mode(), Mode::Full);
        assert_eq!(published.replicates, Some(5));
        let only = published.only();
        assert_eq!(only[0], ("path".to_owned(), "lan".to_owned()));
        assert_eq!(only[1], ("block".to_owned(), "main".to_owned()));
    }

    #[test]
    fn a_published_run_that_cannot_be_run_is_refused() {
        for (published, wanted) in [
            ("only = [\"lan\"]", "FACTOR=LEVEL"),
            ("replicates = 0", "from 1 to 1000"),
            ("replicate = 2", "replicate"),
        ] {
            let error = Study::parse(&with(published)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
