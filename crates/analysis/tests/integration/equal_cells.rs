//! A/A tests over synthetic runs: equal cells, and a planted difference between copies.

use std::collections::BTreeMap;
use std::fs;

use fathometer_analysis::digest::Digest;
use fathometer_analysis::equal_cells::{CopyComparison, CopyVerdict, EqualCells};
use fathometer_analysis::ledger::{JudgedRun, Ledger};
use fathometer_analysis::run::{Cell, Mode, Run};
use fathometer_analysis::statistics::{Intervals, LEVEL, Sides};
use fathometer_analysis::study::StudyData;
use fathometer_analysis::{summary, terminal};
use fathometer_model::{CellKey, ReplicateRecord, Seed};

use crate::common::{self, Fixture, run_info, write_report};

/// Returns a run with some cells of the main block and two pairs of equal cells.
fn with_copies(replicates: u32) -> Fixture {
    let mut fixture = Fixture::whole(Mode::Full, replicates);
    fixture.keep(|r| r.block == "main" && r.cell.level("path") == Some("lan"));
    for copy in ["a", "b"] {
        for (policy, path) in [("h1.0x4", "lan"), ("h1.1-pipeline", "wan")] {
            let levels = [
                ("policy", policy),
                ("coding", "identity"),
                ("visit", "first"),
                ("path", path),
                ("server", "httpd"),
                ("era", "today"),
                ("copy", copy),
            ];
            fixture.cell("a-a", &levels, replicates);
        }
    }
    fixture.info.replicates_planned = Some(fixture.records.len() as u64);
    fixture
}

/// Makes the second copies of a policy slower.
fn plant(fixture: &mut Fixture, policy: &str, factor: f64) {
    let is_planted = |r: &&mut ReplicateRecord| {
        r.cell.level("copy") == Some("b") && r.cell.level("policy") == Some(policy)
    };
    for record in fixture.records.iter_mut().filter(is_planted) {
        *record.metrics.get_mut("elapsed_s").unwrap() *= factor;
    }
}

fn digest<T>(fixture: &Fixture, look: impl FnOnce(&Digest<'_>) -> T) -> T {
    let study = common::study();
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    look(&Digest::of(folder.path(), &study).unwrap())
}

fn equal_cells(fixture: &Fixture) -> EqualCells {
    digest(fixture, |digest| digest.equal_cells.clone()).unwrap()
}

fn is_planted(comparison: &CopyComparison) -> bool {
    comparison.metric == "elapsed_s" && comparison.cell.level("policy") == Some("h1.0x4")
}

#[test]
fn a_planted_difference_between_copies_is_reported_and_equal_copies_are_not() {
    let plain = equal_cells(&with_copies(5));
    let mut fixture = with_copies(5);
    plant(&mut fixture, "h1.0x4", 1.2);
    let planted = equal_cells(&fixture);
    // Two pairs of cells, each compared by time and by packets.
    assert_eq!(
        (plain.count.compared, plain.count.different),
        (4, 0),
        "{plain:#?}"
    );
    assert_eq!((planted.count.compared, planted.count.different), (4, 1));
    assert_eq!(planted.count.different_together, 1);
    for (one, other) in plain.comparisons.iter().zip(&planted.comparisons) {
        assert_eq!((one.n, one.sides), (5, Sides::Paired));
        assert_eq!(one.copies, ["a", "b"]);
        assert_eq!(one.cell.level("copy"), None);
        if is_planted(one) {
            assert_eq!(other.verdict, CopyVerdict::Different);
            let (before, after) = (one.ratio.unwrap(), other.ratio.unwrap());
            assert!(
                (after / before - 1.2).abs() < 1e-9,
                "before {before}, after {after}"
            );
        } else {
            assert_eq!(one.verdict, other.verdict);
            assert_eq!(one.interval, other.interval);
        }
    }
}

#[test]
fn copies_without_an_interval_are_shown_and_not_counted() {
    let equal = equal_cells(&with_copies(1));
    assert_eq!((equal.count.compared, equal.comparisons.len()), (0, 4));
    assert_eq!(
        (equal.count.expected_at_most, equal.count.p_value),
        (0, 1.0)
    );
    for comparison in &equal.comparisons {
        assert!(comparison.ratio.is_some() && comparison.interval.is_none());
        assert_eq!(comparison.verdict, CopyVerdict::Undecided);
    }
    // If every replicate of a copy is INVALID, nothing can be compared.
    let mut fixture = with_copies(3);
    for record in &mut fixture.records {
        if record.cell.level("copy") == Some("b") {
            record.validity.invalidate("late");
        }
    }
    assert_eq!(digest(&fixture, |digest| digest.equal_cells.clone()), None);
}

/// Returns a run with ten pairs of equal cells, which have one metric with independent noise.
fn noise(run: u64) -> Run {
    let draws = Seed(20).stream("equal cells").child(run);
    let mut cells: BTreeMap<CellKey, Vec<ReplicateRecord>> = BTreeMap::new();
    let mut fixture = Fixture {
        info: run_info(Mode::Full),
        records: Vec::new(),
    };
    for users in 0..10 {
        for copy in ["a", "b"] {
            let levels = [("ues", users.to_string()), ("copy", copy.to_owned())];
            let levels = levels.each_ref().map(|(f, l)| (*f, l.as_str()));
            fixture.cell("a-a", &levels, 5);
        }
    }
    for (place, mut record) in (0u64..).zip(fixture.records) {
        let sum: f64 = (0..12).map(|i| draws.uniform(12 * place + i)).sum();
        record.metrics = [("exchanges_per_s".to_owned(), 100.0 + 5.0 * (sum - 6.0))].into();
        cells.entry(record.cell.clone()).or_default().push(record);
    }
    let cell = |(key, replicates)| Cell {
        block: "a-a".to_owned(),
        key,
        replicates,
    };
    Run {
        folder: "run".into(),
        info: fixture.info,
        cells: cells.into_iter().map(cell).collect(),
        plots: Vec::new(),
        warnings: Vec::new(),
        repeated: 0,
        has_sweeps: false,
    }
}

#[test]
fn noise_that_the_replicates_have_is_reported_in_one_comparison_of_twenty() {
    let runs = 200;
    let (mut compared, mut different, mut together, mut above) = (0, 0, 0, 0);
    for run in 0..runs {
        let count = EqualCells::of(&noise(run), Intervals { level: LEVEL })
            .unwrap()
            .count;
        compared += count.compared;
        different += count.different;
        together += usize::from(count.different_together > 0);
        above += usize::from(count.is_above_chance());
        assert_eq!(count.expected_at_most, 2);
    }
    assert_eq!(compared, 2000);
    // Expected: 100 differences, with a standard deviation of 10. At the simultaneous level, 5 % of the runs have a
    // difference. At most 1.2 % of the runs have more differences than the bound.
    assert!((70..=130).contains(&different), "{different}");
    assert!(together <= 20, "{together}");
    assert!(above <= 8, "{above}");
}

/// Returns the tables, claims and curves of a run as JSON.
fn figures(fixture: &Fixture) -> [serde_json::Value; 3] {
    digest(fixture, |digest| {
        let summary = summary::json(digest);
        ["tables", "claims", "curves"].map(|member| summary[member].clone())
    })
}

#[test]
fn tables_and_claims_use_the_first_copy_in_every_block() {
    let plain = Fixture::whole(Mode::Full, 2);
    let mut doubled = Fixture {
        info: plain.info.clone(),
        records: Vec::new(),
    };
    for record in &plain.records {
        for (copy, factor) in [("a", 1.0), ("b", 3.0)] {
            let mut record = record.clone();
            record.cell.0.insert("copy".to_owned(), copy.to_owned());
            for value in record.metrics.values_mut() {
                *value *= factor;
            }
            doubled.records.push(record);
        }
    }
    let [tables, claims, curves] = figures(&plain);
    assert!(claims.as_array().unwrap().len() > 10);
    assert_eq!(figures(&doubled), [tables, claims, curves]);
}

#[test]
fn the_screen_lists_equal_cells_and_counts_their_differences() {
    let mut fixture = with_copies(5);
    plant(&mut fixture, "h1.0x4", 1.2);
    let text = digest(&fixture, terminal::render);
    let (_, section) = text.split_once("\nA/A: ").unwrap();
    let (section, _) = section.split_once("\n\n").unwrap();
    assert!(section.lines().all(|line| line.chars().count() <= 110));
    insta::assert_snapshot!(section);
}

#[test]
fn the_report_and_the_summary_have_the_equal_cells() {
    let mut fixture = with_copies(5);
    plant(&mut fixture, "h1.0x4", 1.2);
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let page = fs::read_to_string(write_report(folder.path(), &common::study())).unwrap();
    let (_, section) = page.split_once("<section id=\"equal-cells\">").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert!(section.contains("1 of 4 comparisons of equal cells reports a difference"));
    assert_eq!(section.matches("different</strong>").count(), 1);
    let summary = fs::read_to_string(folder.path().join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let equal = &summary["equal_cells"];
    assert_eq!(
        (&equal["compared"], &equal["different"]),
        (&4.into(), &1.into())
    );
    assert_eq!(equal["comparisons"].as_array().unwrap().len(), 4);
    assert_eq!(equal["comparisons"][0]["block"], "a-a");
}

#[test]
fn a_run_without_equal_cells_says_nothing_of_them() {
    let fixture = Fixture::whole(Mode::Quick, 2);
    let (text, summary) = digest(&fixture, |digest| {
        (terminal::render(digest), summary::json(digest))
    });
    assert!(!text.contains("A/A") && summary.get("equal_cells").is_none());
}

#[test]
fn the_ledger_has_a_line_for_each_run_with_equal_cells() {
    let study: StudyData = common::study();
    let judged = |fixture: &Fixture, name: &str| {
        let folder = tempfile::tempdir().unwrap();
        fixture.write(folder.path());
        JudgedRun::of(name, &Run::load(folder.path()).unwrap(), &study)
    };
    let mut without = with_copies(3);
    without.keep(|record| record.block == "main");
    let runs = [
        judged(&with_copies(3), "with-copies"),
        judged(&without, "without"),
    ];
    let ledger = Ledger::of(&[("nielsen97".to_owned(), &study)], &runs);
    assert_eq!(ledger.equal_cells.len(), 1);
    for text in [ledger.markdown("../runs"), ledger.terminal()] {
        let (_, section) = text.split_once("qual cells measured twice").unwrap();
        let (section, _) = section.split_once("tudies measured twice").unwrap();
        assert!(section.contains("with-copies"), "{section}");
        assert!(
            section.contains("of 4 comparisons of equal cells"),
            "{section}"
        );
        assert!(!section.contains("without"), "{section}");
    }
    let other = Ledger::of(&[("nielsen97".to_owned(), &study)], &runs[1..]);
    assert!(!other.markdown("../runs").contains("A/A"));
    assert!(
        !serde_json::to_string(&other)
            .unwrap()
            .contains("equal_cells")
    );
}
