//! Tests of the documentation that is the output of commands: `docs/ledger.md` and the table of `docs/statistics.md`.
//! With `FATHOMETER_UPDATE_PAGES` set, the tests write both.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fathometer_analysis::claims::Verdict;
use fathometer_analysis::ledger::{FALSE_DISCOVERIES, JudgedRun, Ledger};
use fathometer_analysis::real_cells::{real_cells, run_folders};
use fathometer_analysis::run::Run;
use fathometer_analysis::statistics::designs::DesignTables;
use fathometer_analysis::statistics::simulation::CoverageTable;
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_model::Seed;

/// The studies in `papers`.
const STUDIES: [&str; 6] = [
    "almeida96",
    "barford98",
    "fujinoki03",
    "leucht15",
    "nielsen97",
    "protocols-today",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn papers() -> Vec<(String, StudyData)> {
    let paper = |name: &str| {
        let file = |file: &str| fs::read_to_string(root().join("papers").join(name).join(file));
        let [tables, claims, figures] =
            ["tables.toml", "claims.toml", "figures.csv"].map(|name| file(name).unwrap());
        let data = StudyData::parse(StudySources {
            tables: &tables,
            claims: &claims,
            figures: &figures,
        });
        // A study without a paper has no published claims.
        let study = match file("claims-published.csv") {
            Ok(published) => data.unwrap().with_published_claims(&published).unwrap(),
            Err(_) => data.unwrap(),
        };
        (name.to_owned(), study)
    };
    STUDIES.map(paper).into()
}

fn ledger(folders: &[PathBuf]) -> Ledger {
    let papers = papers();
    let runs = folders.iter().filter_map(|folder| {
        let run = Run::load(folder).unwrap();
        let (_, study) = papers.iter().find(|(paper, _)| *paper == run.info.study)?;
        let name = folder.file_name()?.to_string_lossy();
        Some(JudgedRun::of(&name, &run, study))
    });
    let runs: Vec<JudgedRun<'_>> = runs.collect();
    let papers: Vec<(String, &StudyData)> = papers
        .iter()
        .map(|(name, study)| (name.clone(), study))
        .collect();
    Ledger::of(&papers, &runs)
}

/// The ledger of all published runs. Several tests share this ledger, because judging the runs takes long.
static PUBLISHED: LazyLock<Ledger> =
    LazyLock::new(|| ledger(&run_folders(&root().join("runs/published")).unwrap()));

#[test]
fn the_ledger_page_is_what_the_command_prints_and_has_every_claim() {
    let ledger = &*PUBLISHED;
    let mut claims: Vec<&str> = ledger.rows.iter().map(|row| row.claim.as_str()).collect();
    claims.dedup();
    assert_eq!(claims.len(), 69);
    for row in &ledger.rows {
        assert_eq!(
            row.not_tested.is_some(),
            row.run.is_empty(),
            "{}",
            row.claim
        );
    }
    let path = root().join("docs/ledger.md");
    let page = ledger.markdown("../runs/published");
    if std::env::var_os("FATHOMETER_UPDATE_PAGES").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == page,
        "docs/ledger.md is stale: run fathometer ledger --markdown > docs/ledger.md"
    );
}

/// For each paper, its number of tables and its number of figures.
const PRINTED: [(&str, u32, u32); 5] = [
    ("nielsen97", 11, 1),
    ("barford98", 10, 13),
    ("almeida96", 1, 6),
    ("leucht15", 3, 16),
    ("fujinoki03", 8, 14),
];

#[test]
fn every_table_and_figure_of_the_papers_has_a_counterpart_or_a_reason() {
    let ledger = &*PUBLISHED;
    for (paper, tables, figures) in PRINTED {
        let own = || ledger.counterparts.iter().filter(|one| one.paper == paper);
        let numbers = (1..=tables).map(|n| format!("T{n}"));
        for id in numbers.chain((1..=figures).map(|n| format!("F{n}"))) {
            assert_eq!(own().filter(|one| one.id == id).count(), 1, "{paper} {id}");
        }
        for one in own() {
            assert!(one.run.is_some() != one.absent.is_some(), "{one:?}");
            assert!(one.run.is_none() || !one.here.is_empty(), "{one:?}");
            assert_ne!(one.absent.as_deref(), Some("not measured"), "{one:?}");
        }
    }
}

#[test]
fn every_softened_bound_stands_beside_the_published_one() {
    let papers = papers();
    for id in ["L05", "B19", "N12", "F09", "A07", "N06", "B09", "B13"] {
        let mut claims = papers.iter().flat_map(|(_, study)| &study.claims);
        let claim = claims.find(|claim| claim.id == id).unwrap();
        assert!(!claim.variants.is_empty(), "{id}");
        for variant in &claim.variants {
            assert_ne!(claim.tests, variant.tests, "{id}");
            assert!(
                variant.reason.len() > 20 && variant.date.len() == 10,
                "{id}"
            );
        }
    }
}

/// A published run with enough decided claims for these tests.
const RUN: &str = "2026-11-22-2-core-vm-fujinoki03";

/// Copies the records of [`RUN`].
fn copy_to(copy: &Path) {
    fs::create_dir(copy).unwrap();
    for file in ["run.json", "replicates.ndjson"] {
        let original = root().join("runs/published").join(RUN).join(file);
        fs::copy(original, copy.join(file)).unwrap();
    }
}

/// Makes packages twenty times as slow in the records of a copy.
fn slow_packages_down(copy: &Path) {
    let path = copy.join("replicates.ndjson");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        if record["cell"]["policy"] == "h1.1-package"
            && let Some(time) = record["metrics"]["server_response_s"].as_f64()
        {
            record["metrics"]["server_response_s"] = serde_json::json!(time * 20.0);
        }
        record.to_string() + "\n"
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
}

#[test]
fn a_figure_that_is_changed_in_a_copied_run_changes_the_verdict() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join(RUN);
    copy_to(&copy);
    let verdict = || -> (Verdict, Option<Verdict>) {
        let ledger = ledger(std::slice::from_ref(&copy));
        let row = ledger
            .rows
            .into_iter()
            .find(|row| row.claim == "F01")
            .unwrap();
        (row.verdict, row.leaning)
    };
    let before = verdict();
    slow_packages_down(&copy);
    assert_ne!(before, verdict());
}

#[test]
fn a_run_that_was_repeated_is_compared_with_the_later_one_and_has_no_rows() {
    let place = tempfile::tempdir().unwrap();
    let later = place.path().join("later");
    copy_to(&later);
    slow_packages_down(&later);
    let path = later.join("run.json");
    let mut info: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for edge in ["started", "finished"] {
        info[edge] = serde_json::json!(info[edge].as_f64().unwrap() + 86_400.0);
    }
    fs::write(&path, info.to_string()).unwrap();
    let ledger = ledger(&[root().join("runs/published").join(RUN), later]);
    let mut runs = ledger.rows.iter().map(|row| row.run.as_str());
    assert!(runs.all(|run| run.is_empty() || run == "later"));
    let [repeat] = &ledger.repeats[..] else {
        panic!("{:?}", ledger.repeats);
    };
    assert_eq!(repeat.runs, [RUN, "later"]);
    let tests = &repeat.tests;
    assert!(tests.same > 10 && tests.decided == tests.same + tests.differences.len());
    let mut differences = tests.differences.iter();
    assert!(differences.any(|difference| difference.what.starts_with("F01, era today")));
}

#[test]
fn the_page_has_the_tables_that_the_command_prints() {
    let cells = real_cells(&root().join("runs/published")).unwrap();
    let table = CoverageTable::simulate(Seed(1908), 2_000, &cells).markdown();
    let designs = DesignTables::simulate(Seed(1908), 2_000, FALSE_DISCOVERIES).markdown();
    let path = root().join("docs/statistics.md");
    let mut page = fs::read_to_string(&path).unwrap();
    for (option, table) in [("coverage", table), ("stopping", designs)] {
        if std::env::var_os("FATHOMETER_UPDATE_PAGES").is_some() {
            let (open, close) = (
                format!("<!-- {option} -->\n"),
                format!("<!-- /{option} -->\n"),
            );
            let (head, rest) = page.split_once(&open).unwrap();
            let (_, tail) = rest.split_once(&close).unwrap();
            page = format!("{head}{open}{table}{close}{tail}");
            fs::write(&path, &page).unwrap();
        }
        assert!(
            page.contains(&table),
            "docs/statistics.md is stale: its table is the output of fathometer statistics --{option}"
        );
    }
}

/// Returns the claim, era and verdict of each bracket in docs/findings.md, as in `[N01 1997: holds]`.
fn brackets(text: &str) -> Vec<(String, String, String)> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let inside = words
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'));
    let named = inside.filter_map(|(inside, _)| {
        let (row, verdict) = inside.split_once(": ")?;
        let (claim, era) = row.split_once(' ')?;
        Some((claim.to_owned(), era.to_owned(), verdict.to_owned()))
    });
    named.collect()
}

#[test]
fn each_finding_is_a_verdict_of_the_ledger_that_stands() {
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let (findings, ledger) = (page("findings.md"), page("ledger.md"));
    let named = brackets(&findings);
    assert!(named.len() > 30, "{named:?}");
    let has = |(claim, era, verdict): &(String, String, String)| {
        ledger.lines().any(|row| {
            row.starts_with(&format!("| **{claim}** "))
                && row.contains(&format!(" | {era} | **{verdict}, stands**"))
        })
    };
    let wrong: Vec<_> = named.iter().filter(|found| !has(found)).collect();
    assert!(wrong.is_empty(), "not in docs/ledger.md: {wrong:?}");
    // docs/findings.md must list every verdict that the ledger marks as `stands`.
    let standing = ledger.lines().filter(|row| row.contains(", stands**"));
    let left_out: Vec<&str> = standing
        .filter(|row| {
            !named.iter().any(|(claim, era, _)| {
                row.starts_with(&format!("| **{claim}** ")) && row.contains(&format!(" | {era} | "))
            })
        })
        .collect();
    assert!(
        left_out.is_empty(),
        "not in docs/findings.md: {left_out:#?}"
    );
}
