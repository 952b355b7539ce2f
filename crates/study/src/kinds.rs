//! The kinds of studies. Checks a study's file against its kind.

use std::collections::BTreeMap;

use fathometer_lab::nearest;

use super::common;
use super::experiment::Experiment;
use super::factor::AnyFactor;
use super::load::{CAPACITY, LOAD, SWEEP};
use super::page::PAGE;
use super::spec::{Block, Key, SpecError, Study};

/// Every kind of study. A new kind is added only here.
pub static ALL: &[&dyn Experiment] = &[&PAGE, &LOAD, &SWEEP, &CAPACITY];

/// Returns the experiment of a study.
///
/// # Errors
/// When its `kind` is unknown.
pub fn of(study: &Study) -> Result<&'static dyn Experiment, SpecError> {
    let found = ALL.iter().find(|kind| kind.name() == study.kind);
    found.copied().ok_or_else(|| {
        let names = ALL.iter().map(|kind| kind.name());
        let known: Vec<&str> = names.clone().collect();
        study.nonsense(format!(
            "kind = {:?} is unknown: it can be {}{}",
            study.kind,
            known.join(" or "),
            nearest::suggestion(&study.kind, names)
        ))
    })
}

/// Returns the factors of a kind of study: the common factors of all kinds, and its own factors.
pub fn factors(experiment: &dyn Experiment) -> impl Iterator<Item = &'static dyn AnyFactor> {
    let of_all = common::FACTORS.iter().copied();
    of_all.chain(experiment.factors())
}

/// Checks a study against its kind: the kind has every factor, the factor's parser accepts every level, and there are
/// no tables of other kinds.
///
/// Names of paths, eras, servers and workloads are checked when the run loads them.
///
/// # Errors
/// When a factor, level or table is unknown; the error suggests the nearest known name.
pub fn check(study: &Study) -> Result<(), SpecError> {
    let experiment = of(study)?;
    only_keys_of(experiment, study)
        .and_then(|()| experiment.check(study))
        .map_err(|reason| study.nonsense(reason))?;
    let known: BTreeMap<&str, &dyn AnyFactor> = factors(experiment)
        .map(|factor| (factor.name(), factor))
        .collect();
    let level = |place: &str, factor: &str, level: &str| {
        let Some(found) = known.get(factor) else {
            return Err(study.nonsense(format!(
                "{place} has {factor:?}, which is not a factor of studies of kind = {:?}: the factors are {}{}",
                study.kind,
                known.keys().copied().collect::<Vec<_>>().join(", "),
                nearest::suggestion(factor, known.keys().copied())
            )));
        };
        found
            .check(level)
            .map_err(|error| study.nonsense(format!("{place}: {error}")))
    };
    for (factor, default) in &study.defaults {
        level("[defaults]", factor, default)?;
    }
    for block in &study.blocks {
        let place = format!("block {:?}", block.name);
        let tables = [&block.factors, &block.quick, &block.published];
        for (factor, levels) in tables.into_iter().flatten() {
            for each in levels {
                level(&place, factor, each)?;
            }
        }
        exclusions(study, block)?;
    }
    Ok(())
}

/// Checks that the file has no keys that only other kinds of studies have, because a run would ignore them.
fn only_keys_of(experiment: &dyn Experiment, study: &Study) -> Result<(), String> {
    let is_foreign = |key: &&Key| !experiment.keys().contains(key);
    let Some(foreign) = study.keys().iter().find(is_foreign).copied() else {
        return Ok(());
    };
    let kinds: Vec<String> = ALL
        .iter()
        .filter(|kind| kind.keys().contains(&foreign))
        .map(|kind| format!("{:?}", kind.name()))
        .collect();
    Err(format!(
        "it has {foreign}, which only a study with kind = {} has; this study has kind = {:?}: remove it, or change the kind",
        kinds.join(" or "),
        study.kind
    ))
}

/// Checks that each level of a block's exclusions occurs in a cell of the block: a misspelt level would exclude no
/// cell.
fn exclusions(study: &Study, block: &Block) -> Result<(), SpecError> {
    for (factor, pattern) in block.exclude.iter().chain(&block.exclude_quick).flatten() {
        let tables = [&block.factors, &block.quick, &block.published];
        let varied = tables.map(|table| table.get(factor));
        let mut levels: Vec<&str> = varied
            .into_iter()
            .flatten()
            .flatten()
            .map(String::as_str)
            .collect();
        if levels.is_empty() {
            levels.extend(study.defaults.get(factor).map(String::as_str));
        }
        for alternative in pattern.split('|').map(str::trim) {
            if !levels.contains(&alternative) {
                return Err(study.nonsense(format!(
                    "block {:?} excludes {factor}={alternative}, but no cell of the block has this level: {factor} can be {}{}",
                    block.name,
                    levels.join(", "),
                    nearest::suggestion(alternative, levels.iter().copied())
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use fathometer_analysis::run::Mode;
    use fathometer_lab::data;

    const STUDY: &str = r#"
        name = "small"
        title = "A small study"
        workload = "microscape"
        defaults = { policy = "h1.1", coding = "identity", visit = "first", path = "lan", era = "today", server = "embedded", nodelay = "on" }
        replicates = { quick = { lan = 1 } }
        side_by_side = {}
        limits = {}
        client = { host = "www", fields = [], first_range = 256 }
        [[block]]
        name = "main"
        purpose = "all"
        factors = { policy = ["h1.1", "h2"], nodelay = ["on", "off"] }
        exclude = [{ policy = "h2", nodelay = "off" }]
    "#;

    fn refusal(from: &str, to: &str) -> String {
        assert!(STUDY.contains(from), "{from}");
        let study = Study::parse(&STUDY.replacen(from, to, 1)).unwrap();
        check(&study).expect_err(to).to_string()
    }

    #[test]
    fn every_shipped_study_is_accepted_by_its_kind() {
        for name in data::names("papers") {
            let text = data::embedded(&format!("papers/{name}/study.toml")).unwrap();
            let study = Study::parse(text).unwrap();
            check(&study).unwrap();
            for mode in [Mode::Quick, Mode::Full, Mode::Published] {
                let cells = study.cells(mode).unwrap();
                assert!(!cells.is_empty(), "{name}");
                let lanes: BTreeSet<&str> = cells.iter().map(|cell| study.lane(cell)).collect();
                assert_eq!(lanes.len() == 1, study.load.is_some(), "{name}: {lanes:?}");
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest_known_one() {
        check(&Study::parse(STUDY).unwrap()).unwrap();
        for (from, to, nearest) in [
            (
                "title =",
                "kind = \"lood\"\ntitle =",
                "did you mean \"load\"?",
            ),
            (
                "nodelay = \"on\" }",
                "nodelay = \"on\", no_delay = \"on\" }",
                "did you mean \"nodelay\"?",
            ),
            (
                "visit = \"first\"",
                "visit = \"frist\"",
                "did you mean \"first\"?",
            ),
            (
                "\"h1.1\", \"h2\"",
                "\"h1.1\", \"h2-pusj\"",
                "did you mean \"h2-push\"?",
            ),
            (
                "nodelay = [\"on\", \"off\"]",
                "nodelay = [\"on\", \"of\"]",
                "did you mean \"off\"?",
            ),
            (
                "exclude = [{ policy = \"h2\"",
                "exclude = [{ policy = \"h22\"",
                "did you mean \"h2\"?",
            ),
            (
                "purpose = \"all\"",
                "purpose = \"all\"\nquick = { policy = [\"h2-pusj\"] }",
                "did you mean \"h2-push\"?",
            ),
            (
                "purpose = \"all\"",
                "purpose = \"all\"\npublished = { nodelay = [\"of\"] }",
                "did you mean \"off\"?",
            ),
        ] {
            let error = refusal(from, to);
            assert!(error.contains(nearest), "{error}");
            assert!(error.contains("small"), "{error}");
        }
    }

    #[test]
    fn studies_of_every_kind_may_measure_a_cell_twice() {
        for kind in ALL {
            let copy = factors(*kind).find(|factor| factor.name() == "copy");
            let copy = copy.unwrap_or_else(|| panic!("{}", kind.name()));
            assert_eq!(copy.absent(), Some("a"));
            assert!(copy.is_closed() && copy.check("b").is_ok() && copy.check("c").is_err());
        }
        let twice = STUDY.replace("nodelay = \"on\" }", "nodelay = \"on\", copy = \"a\" }");
        let twice = twice.replace("policy = [\"h1.1\", \"h2\"]", "copy = [\"a\", \"b\"]");
        let twice = twice.replace("exclude = [{ policy = \"h2\", nodelay = \"off\" }]", "");
        let study = Study::parse(&twice).unwrap();
        check(&study).unwrap();
        let cells = study.cells(Mode::Quick).unwrap();
        let copies: Vec<&str> = cells.iter().map(|cell| cell.level("copy")).collect();
        assert_eq!(copies, ["a", "a", "b", "b"]);
    }

    #[test]
    fn a_table_of_another_kind_is_refused() {
        let error = refusal("title =", "kind = \"load\"\ntitle =");
        assert!(error.contains("[load]"), "{error}");
        let error = refusal(
            "purpose = \"all\"",
            "purpose = \"all\"\nload = { shed_at = 1 }",
        );
        assert!(error.contains("only a study with kind"), "{error}");
        let sweep = "[sweep]\nusers = [1]\nrounds = { quick = 1, full = 1 }";
        let with_sweep = format!("{sweep}\n[[block]]");
        let error = refusal("[[block]]", &with_sweep);
        assert!(
            error.contains("a table [sweep], which only a study with kind = \"sweep\" has"),
            "{error}"
        );
        let error = refusal("nodelay = \"on\" }", "nodelay = \"on\", ues = \"1\" }");
        assert!(error.contains("ues"), "{error}");
    }

    #[test]
    fn every_kind_refuses_the_keys_of_other_kinds() {
        const TABLES: [(Key, &str); 7] = [
            (Key::Captures, "captures = \"all\""),
            (Key::SnapLength, "snap_length = 128"),
            (Key::Accounts, "accounts = true"),
            (
                Key::Load,
                "[load]\nduration_s = { quick = 1, full = 1 }\nwarm_up_s = { quick = 1, full = 1 }\ntimeout_s = 1\n\
                 cpu_quota = 0\nshed_at = 1\ngenerator_busy_pct = 85\nsend_lag_p99_us = 1000",
            ),
            (
                Key::Sweep,
                "[sweep]\nusers = [1]\nrounds = { quick = 1, full = 1 }",
            ),
            (
                Key::Capacity,
                "[capacity]\nslo = [\"p99<1s\"]\nof = \"users\"\nstart = 1\nmost = 100\nwidth_pct = { quick = 5, full = 5 }\n\
                 budget_s = { quick = 60, full = 60 }",
            ),
            (
                Key::Plots,
                "[[plot]]\ntitle = \"a\"\ncaption = \"b\"\ncell = {}",
            ),
        ];
        for kind in ALL {
            for (key, text) in TABLES {
                let (before, after) = match text.starts_with('[') {
                    true => ("", format!("{text}\n[[block]]")),
                    false => (text, "[[block]]".to_owned()),
                };
                let text = STUDY.replace("[[block]]", &after);
                let text = format!("kind = {:?}\n{before}\n{text}", kind.name());
                let study = Study::parse(&text).unwrap();
                assert_eq!(study.keys(), [key]);
                let result = only_keys_of(*kind, &study);
                assert_eq!(result.is_ok(), kind.keys().contains(&key), "{result:?}");
            }
        }
    }

    #[test]
    fn factors_of_a_kind_have_one_name_each_and_accept_their_own_words() {
        for kind in ALL {
            let mut names = std::collections::BTreeSet::new();
            for factor in factors(*kind) {
                assert!(names.insert(factor.name()), "{}", factor.name());
                for word in factor.words().into_iter().chain(factor.absent()) {
                    factor.check(word).unwrap();
                }
                assert!(factor.meaning().ends_with('.'), "{}", factor.name());
            }
        }
    }
}
