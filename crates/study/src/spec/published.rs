//! The table `[published]`: the published run of a study.

use fathometer_analysis::run::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::MOST_REPLICATES;

/// The run that `--published` repeats: which cells of the study, and how often.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Whether levels, windows and replicates are those of full mode; default: those of quick mode. `published` of a block
    /// replaces the levels of the block, and the entry `published` of a value by mode replaces this value.
    #[serde(default)]
    pub full: bool,
    /// The number of replicates of each cell; default: that of the mode.
    #[serde(default)]
    pub replicates: Option<u32>,
    /// Levels that cells must have, as in `path=wan`. Several levels of one factor are alternatives. Default: all cells
    /// of the mode.
    #[serde(default)]
    pub only: Vec<String>,
}

impl Published {
    /// Returns the mode whose values apply if the file has none for the published run.
    pub fn base(&self) -> Mode {
        match self.full {
            true => Mode::Full,
            false => Mode::Quick,
        }
    }

    /// Returns the factor and the level of each entry of `only`.
    pub fn only(&self) -> Vec<(String, String)> {
        let split = |entry: &String| {
            let (factor, level) = entry.split_once('=')?;
            Some((factor.to_owned(), level.to_owned()))
        };
        self.only.iter().filter_map(split).collect()
    }

    /// Checks that every entry of `only` has a level, and that the number of replicates is in range.
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
        assert_eq!(published.base(), Mode::Full);
        assert_eq!(published.replicates, Some(5));
        let only = published.only();
        assert_eq!(only[0], ("path".to_owned(), "lan".to_owned()));
        assert_eq!(only[1], ("block".to_owned(), "main".to_owned()));
    }

    #[test]
    fn levels_for_the_published_run_replace_those_of_quick_mode_and_its_exclusions() {
        let quick = with("replicates = 5");
        let own = quick.replace(
            "exclude_quick = [{ nodelay = \"on\" }]",
            "exclude_quick = [{ nodelay = \"on\" }]\nquick = { nodelay = [\"on\"] }\npublished = { nodelay = [\"on\", \"off\"] }",
        );
        assert_ne!(own, quick);
        let cells = |text: &str, mode| {
            let cells = Study::parse(text).unwrap().cells(mode).unwrap();
            let nagle = cells.into_iter().filter(|cell| cell.block == "nagle");
            nagle
                .map(|cell| cell.level("nodelay").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(cells(&own, Mode::Quick), [""; 0]);
        assert_eq!(cells(&own, Mode::Published), ["on", "off"]);
        assert_eq!(cells(&quick, Mode::Published), ["off"]);
    }

    #[test]
    fn a_level_for_the_published_run_of_a_factor_that_does_not_vary_is_refused() {
        let text = STUDY.replace(
            "replicates = { quick = 3, full = 5 }",
            "published = { path = [\"wan\"] }",
        );
        let error = Study::parse(&text).unwrap_err().to_string();
        assert!(error.contains("\"path\" in the published run"), "{error}");
    }

    #[test]
    fn windows_of_the_published_run_are_its_own_or_those_of_its_base() {
        let of = |full: bool, window: &str| {
            let load = format!(
                "[load]\nduration_s = {window}\nwarm_up_s = {{ quick = 0, full = 1 }}\ntimeout_s = 1\ncpu_quota = 0\n\
                 shed_at = 1\ngenerator_busy_pct = 85\nsend_lag_p99_us = 1000\n[published]\nfull = {full}\n"
            );
            let text = STUDY.replace(
                "[[block]]\n        name = \"main\"",
                &format!("{load}[[block]]\nname = \"main\""),
            );
            let study = Study::parse(&text).unwrap();
            let load = study.load_of("main").unwrap();
            std::time::Duration::from(load.duration_s.of(Mode::Published)).as_secs()
        };
        assert_eq!(of(false, "{ quick = 2, full = 20 }"), 2);
        assert_eq!(of(true, "{ quick = 2, full = 20 }"), 20);
        assert_eq!(of(true, "{ quick = 2, full = 20, published = 5 }"), 5);
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
