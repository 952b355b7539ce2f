//! Tests of runs over several machines with known differences between the machines.

use std::collections::BTreeMap;

use fathometer_analysis::claims::{EraVerdict, Part};
use fathometer_analysis::digest::Digest;
use fathometer_analysis::run::{MeasuringMachine, Mode, StudyShare};
use fathometer_analysis::statistics::Sides;
use fathometer_analysis::study::StudyData;
use fathometer_analysis::terminal;
use fathometer_model::ReplicateRecord;

use crate::common::{self, Fixture};

/// Returns a run of the main block in one era with six replicates. The run is merged from `ranks` machines if
/// `is_merged`, and is from one machine otherwise.
fn run_of(ranks: u32, is_merged: bool) -> Fixture {
    let mut fixture = Fixture::whole(Mode::Full, 6);
    fixture.keep(|r| r.block == "main" && r.cell.level("era") == Some("1997"));
    let machine = |rank: u32| MeasuringMachine {
        share: StudyShare {
            rank,
            ranks,
            replicates: 0,
            design: String::new(),
            boot_id: String::new(),
        },
        facts: BTreeMap::from([("cpu".to_owned(), format!("processor {rank}"))]),
        command: Vec::new(),
        started: 1_795_289_940.0,
        finished: Some(1_795_290_940.0),
    };
    if is_merged {
        fixture.info.machines = (0..ranks).map(machine).collect();
        fixture.info.machine.remove("cpu");
    }
    fixture
}

fn scale(fixture: &mut Fixture, factor: impl Fn(&ReplicateRecord) -> f64) {
    for record in &mut fixture.records {
        let factor = factor(record);
        *record.metrics.get_mut("elapsed_s").unwrap() *= factor;
    }
}

fn with<T>(fixture: &Fixture, study: &StudyData, look: impl Fn(&Digest<'_>) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    look(&Digest::of(folder.path(), study).unwrap())
}

fn claim(fixture: &Fixture, study: &StudyData, claim: &str) -> EraVerdict {
    with(fixture, study, |digest| {
        let result = digest.claims.iter().find(|c| c.id == claim).unwrap();
        result.eras[0].clone()
    })
}

/// Returns the first part of a claim that compares elapsed times.
fn part(verdict: &EraVerdict) -> &Part {
    let mut parts = verdict.parts.iter();
    parts
        .find(|part| part.metric == "elapsed_s" && part.interval.is_some())
        .unwrap()
}

#[test]
fn a_machine_that_is_slower_in_all_cells_changes_no_comparison() {
    let study = common::study();
    let plain = run_of(3, false);
    let mut merged = run_of(3, true);
    scale(&mut merged, |r| [1.0, 1.5, 0.7][r.replicate as usize % 3]);
    let (one, three) = (claim(&plain, &study, "N03"), claim(&merged, &study, "N03"));
    assert_eq!(one.verdict, three.verdict);
    let (one, three) = (part(&one), part(&three));
    assert_eq!((one.n, one.sides), (three.n, three.sides));
    let (one, three) = (one.interval.unwrap(), three.interval.unwrap());
    assert!(
        (one.low / three.low - 1.0).abs() < 0.02,
        "one machine {one:?}, three machines {three:?}"
    );
    assert!(
        (one.high / three.high - 1.0).abs() < 0.02,
        "one machine {one:?}, three machines {three:?}"
    );

    // The digest has the differences: 1.5 and 0.7 divided by the geometric mean of all machines.
    let differences = with(&merged, &study, |digest| digest.machine_differences.clone());
    let elapsed = differences
        .iter()
        .find(|d| d.metric == "elapsed_s")
        .unwrap();
    let mean = (1.5f64 * 0.7).cbrt();
    for (rank, factor) in [1.0, 1.5, 0.7].into_iter().enumerate() {
        let ratio = elapsed.ratios[&(rank as u32)];
        assert!((ratio * mean / factor - 1.0).abs() < 0.03, "{elapsed:?}");
    }
    assert!((elapsed.range_pct() - 114.0).abs() < 7.0, "{elapsed:?}");
    assert!(elapsed.within_pct.unwrap() < 3.0, "{elapsed:?}");
    let text = with(&merged, &study, terminal::render);
    assert!(
        text.contains("Machines: ratio of each machine to the mean of all machines"),
        "{text}"
    );
    assert!(text.contains("rank 2"), "{text}");
    assert!(with(&plain, &study, |digest| digest
        .machine_differences
        .is_empty()));
}

#[test]
fn machines_that_differ_in_a_comparison_are_its_sample() {
    let study = common::study();
    let mut merged = run_of(3, true);
    // The serial policy is slower by a different factor on each machine.
    let serial = |r: &ReplicateRecord| r.cell.level("policy") == Some("h1.1");
    scale(&mut merged, |r| match serial(r) {
        true => [1.0, 1.4, 0.8][r.replicate as usize % 3],
        false => 1.0,
    });
    let verdict = claim(&merged, &study, "N03");
    let of_machines = part(&verdict);
    assert!(
        of_machines
            .remark
            .contains("sample is the means of 3 machines"),
        "{of_machines:?}"
    );
    // Without the machines, the intervals of the same records are too narrow.
    merged.info.machines.clear();
    let verdict = claim(&merged, &study, "N03");
    let of_replicates = part(&verdict);
    assert!(of_replicates.remark.is_empty(), "{of_replicates:?}");
    let width = |part: &Part| {
        let interval = part.interval.unwrap();
        (interval.high / interval.low).ln()
    };
    assert!(width(of_machines) > 1.5 * width(of_replicates));
}

#[test]
fn replicates_without_a_partner_are_left_out_of_comparisons_between_machines() {
    let study = common::study();
    let invalidate = |fixture: &mut Fixture| {
        let cells = [
            ("policy", "h1.1"),
            ("path", "wan"),
            ("server", "embedded-jigsaw"),
        ];
        fixture.invalidate(&cells, &[1], "noise");
        scale(fixture, |r| [1.0, 3.0, 1.0][r.replicate as usize % 3]);
    };
    let wan = |verdict: &EraVerdict| -> Vec<(usize, Sides, f64)> {
        let parts = verdict.parts.iter().filter(|part| {
            part.metric == "elapsed_s" && part.remark.contains("invalid") && part.value.is_some()
        });
        parts
            .map(|part| (part.n, part.sides, part.value.unwrap()))
            .collect()
    };
    let mut merged = run_of(3, true);
    invalidate(&mut merged);
    let parts = wan(&claim(&merged, &study, "N03"));
    assert!(!parts.is_empty());
    for (n, sides, _) in &parts {
        assert_eq!((*n, *sides), (5, Sides::Paired));
    }
    // On one machine the sides are independent samples, and the missing slow replicate changes the ratio.
    let mut plain = run_of(3, false);
    invalidate(&mut plain);
    let unmatched = wan(&claim(&plain, &study, "N03"));
    assert_eq!(unmatched[0].1, Sides::Independent);
    assert!(
        (parts[0].2 / unmatched[0].2 - 1.0).abs() > 0.1,
        "three machines {parts:?}, one machine {unmatched:?}"
    );
}

#[test]
fn a_missing_machine_is_named_and_the_report_has_the_facts_of_all_others() {
    let study = common::study();
    let mut merged = run_of(3, true);
    merged.info.machines.remove(1);
    merged.keep(|r| r.replicate % 3 != 1);
    let text = with(&merged, &study, terminal::render);
    assert!(
        text.contains("Missing: the parts of 1 of 3 machines (rank 1)"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    merged.write(folder.path());
    let page = std::fs::read_to_string(common::write_report(folder.path(), &study)).unwrap();
    for told in [
        "2 machines",
        "processor 0",
        "processor 2",
        "Differences between the machines",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let summary = std::fs::read_to_string(folder.path().join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["machines"]["missing_ranks"], serde_json::json!([1]));
}
