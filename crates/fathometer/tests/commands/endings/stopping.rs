//! Studies that add replicates where a verdict is undecided: `--precision` and `--budget`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::place::{Ended, Place};
use crate::support::laboratory::possible;
use crate::support::waiting::AT_LAST;

/// Writes the study of `study --new` with only one path. Its lateness limits are high, so that a busy machine passes.
fn study(place: &Place) {
    let new = place.fathometer(&["study", "--new", "mine"]).ended();
    assert_eq!(new.code, Some(0), "{}", new.err);
    let path = place.path().join("mine/study.toml");
    let text = fs::read_to_string(&path).unwrap();
    let changed = text
        .replace(r#"path = ["lan", "office"]"#, r#"path = ["lan"]"#)
        .replace(
            "# lan = { lateness_p99_us = 1000, lateness_max_us = 20000, deadline_s = 60 }",
            "lan = { lateness_p99_us = 10000000, lateness_max_us = 10000000, deadline_s = 600 }",
        );
    assert_ne!(text, changed);
    fs::write(&path, changed).unwrap();
}

fn run(place: &Place, more: &[&str]) -> Ended {
    let run = place.run();
    let mut arguments = vec![
        "study",
        "mine",
        "--quiet",
        "--output",
        run.to_str().unwrap(),
    ];
    arguments.extend(more);
    place.fathometer(&arguments).ended_within(AT_LAST)
}

fn info(place: &Place) -> Value {
    let text = fs::read_to_string(place.run().join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the number of replicates of each cell.
fn replicates(place: &Place) -> Vec<usize> {
    let text = fs::read_to_string(place.run().join("replicates.ndjson")).unwrap();
    let mut cells: BTreeMap<String, BTreeMap<u64, ()>> = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let cell = cells.entry(record["cell"].to_string()).or_default();
        cell.insert(record["replicate"].as_u64().unwrap(), ());
    }
    cells.values().map(BTreeMap::len).collect()
}

#[test]
fn replicates_are_added_until_figures_are_as_precise_as_asked_for() {
    if !possible("replicates_are_added_until_figures_are_as_precise_as_asked_for") {
        return;
    }
    let place = Place::new();
    study(&place);
    // Times on a busy machine may differ by more than the precision; bytes do not.
    let path = place.path().join("mine/tables.toml");
    let times = fs::read_to_string(&path).unwrap();
    let bytes = times.replace("\"elapsed_s\"", "\"ip_bytes\"");
    assert_ne!(times, bytes);
    fs::write(&path, bytes).unwrap();
    // With a maximum of three replicates there is one planned look, at a level of 95 %.
    let ended = run(&place, &["--precision", "99%", "--replicates", "3"]);
    ended.assert_measured();
    assert_eq!(replicates(&place), [3, 3]);
    let stopping = &info(&place)["stopping"];
    assert_eq!(stopping["looks"], serde_json::json!([3]));
    let reason = stopping["ended"].as_str().unwrap();
    assert!(reason.starts_with("all verdicts are decided"), "{reason}");
    let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("This is look 1 of at most 1"), "{words}");
}

#[test]
fn the_most_replicates_and_the_budget_end_a_run_and_resuming_goes_on() {
    if !possible("the_most_replicates_and_the_budget_end_a_run_and_resuming_goes_on") {
        return;
    }
    let place = Place::new();
    study(&place);
    let design = ["--precision", "0.0001%", "--replicates", "5"];
    let ended = run(&place, &[&design[..], &["--budget", "1ms"]].concat());
    ended.assert_measured();
    assert_eq!(replicates(&place), [3, 3]);
    let reason = info(&place)["stopping"]["ended"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains("would exceed the budget"), "{reason}");

    let other = run(
        &place,
        &["--resume", "--precision", "1%", "--replicates", "5"],
    );
    other.assert_failed(&["--precision 0.0001 %", "--precision 1 %"]);
    let fixed = run(&place, &["--resume", "--replicates", "5"]);
    fixed.assert_failed(&["a fixed number of replicates"]);
    assert_eq!(replicates(&place), [3, 3]);

    let resumed = run(&place, &[&["--resume"], &design[..]].concat());
    resumed.assert_measured();
    assert_eq!(replicates(&place), [5, 5]);
    let stopping = info(&place)["stopping"].clone();
    assert_eq!(stopping["look"], 1);
    let reason = stopping["ended"].as_str().unwrap();
    assert!(
        reason.contains("after 5 replicates, the maximum"),
        "{reason}"
    );
    assert!(
        resumed.err.contains("more replicates of 2 cells"),
        "{}",
        resumed.err
    );
}

#[test]
fn a_precision_is_a_share() {
    let place = Place::new();
    for wrong in ["0", "100%", "5 kg", "-3%"] {
        let precision = format!("--precision={wrong}");
        let ended = place
            .fathometer(&["study", "nielsen97", &precision])
            .ended();
        assert_eq!(ended.code, Some(2), "{}", ended.err);
    }
}
