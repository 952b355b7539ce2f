//! Runs that are interrupted and resumed, and runs whose output no process reads.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::place::{Place, Running, SHORT, measured};
use crate::support::laboratory::possible;
use crate::support::waiting::{AT_LAST, wait_until};

/// Starts a study of the smallest cells, with so many replicates that it does not finish during the test.
fn long(place: &Place) -> Running {
    let mut arguments = vec!["study", "nielsen97", "--quiet", "--replicates", "500"];
    let run = place.run();
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(SHORT.iter().flat_map(|level| ["--only", level]));
    let mut running = place.fathometer(&arguments);
    wait_until("a replicate is recorded", || {
        running.assert_alive();
        measured(&run)
    });
    running
}

fn resume(place: &Place) -> Running {
    let run = place.run();
    let mut arguments = vec!["study", "nielsen97", "--quiet", "--resume"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(SHORT.iter().flat_map(|level| ["--only", level]));
    place.fathometer(&arguments)
}

#[test]
fn a_study_ends_although_nothing_can_be_printed() {
    if !possible("a_study_ends_although_nothing_can_be_printed") {
        return;
    }
    let place = Place::new();
    let run = place.run();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" >/dev/full 2>/dev/full"]);
    command.arg(env!("CARGO_BIN_EXE_fathometer"));
    command.args(["study", "nielsen97", "--output", run.to_str().unwrap()]);
    command.args(SHORT.iter().flat_map(|level| ["--only", level]));
    let ended = place.start(command).ended();
    // Another test covers a stdout that accepts no data; this test accepts any exit code.
    assert!(ended.code.is_some());
    let info = fs::read_to_string(run.join("run.json")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert!(info["finished"].is_f64(), "{info}");
    place.assert_report();
}

#[test]
fn a_second_program_on_the_same_run_is_refused() {
    if !possible("a_second_program_on_the_same_run_is_refused") {
        return;
    }
    let place = Place::new();
    let mut first = long(&place);
    let pid = format!("process {} on ", first.pid());
    let second = resume(&place).ended();
    second.assert_failed(&[place.run().to_str().unwrap(), &pid, "--output"]);
    first.assert_alive();
    // The kernel releases the lock when the first program exits, even if it is killed.
    first.signal(Signal::KILL);
    assert_eq!(first.ended().code, None);
    resume(&place).ended_within(AT_LAST).assert_measured();
    assert_folders_differ(&place.run());
}

#[test]
fn attempts_before_a_resume_are_counted_and_keep_their_folders() {
    if !possible("attempts_before_a_resume_are_counted_and_keep_their_folders") {
        return;
    }
    let place = Place::new();
    let run = place.run();
    place
        .study("nielsen97", &SHORT, &run)
        .ended_within(AT_LAST)
        .assert_measured();
    // Edits the records: one replicate was INVALID twice when the run was interrupted.
    let records = run.join("replicates.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    let mut lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.retain(|line| !line["folder"].as_str().unwrap().contains("-again"));
    // All other replicates become valid, so that only this one is repeated.
    for line in &mut lines {
        line["validity"]["reasons"] = serde_json::json!([]);
    }
    let mut first = lines.remove(0);
    first["validity"]["reasons"] = serde_json::json!(["noise"]);
    let mut second = first.clone();
    let folder = first["folder"].as_str().unwrap().to_owned();
    second["folder"] = format!("{folder}-again1").into();
    let capture = |folder: &str| run.join(folder).join("capture.pcapng");
    let again = format!("{folder}-again1");
    fs::create_dir_all(run.join(&again)).unwrap();
    fs::write(capture(&again), "the second attempt's").unwrap();
    let before: String = [first, second]
        .iter()
        .chain(&lines)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&records, &before).unwrap();

    resume(&place).ended_within(AT_LAST).assert_measured();
    let after = fs::read_to_string(&records).unwrap();
    assert!(after.starts_with(&before), "{after}");
    let next: serde_json::Value =
        serde_json::from_str(after[before.len()..].lines().next().unwrap()).unwrap();
    assert_eq!(next["folder"], format!("{folder}-again2"));
    assert_eq!(
        fs::read_to_string(capture(&again)).unwrap(),
        "the second attempt's"
    );
    assert_folders_differ(&run);
}

#[test]
fn what_a_killed_run_leaves_is_removed_on_demand() {
    if !possible("what_a_killed_run_leaves_is_removed_on_demand") {
        return;
    }
    let place = Place::new();
    let mut running = long(&place);
    let in_use = place.fathometer(&["doctor", "--clean"]).ended();
    assert!(in_use.out.contains("in use"), "{}", in_use.out);
    assert_ne!(place.temporary_folders(), Vec::<PathBuf>::new());
    running.signal(Signal::KILL);
    assert_eq!(running.ended().code, None);
    wait_until("the killed run's servers are gone", || {
        place.processes().is_empty()
    });
    let left = place.temporary_folders();
    assert_ne!(left, Vec::<PathBuf>::new());
    let cleaned = place.fathometer(&["doctor", "--clean"]).ended();
    for folder in left {
        let line = format!("removed {}", folder.display());
        assert!(cleaned.out.contains(&line), "{line}: {}", cleaned.out);
    }
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_run_in_another_pid_namespace_keeps_its_temporary_folders() {
    if !possible("a_run_in_another_pid_namespace_keeps_its_temporary_folders") {
        return;
    }
    let place = Place::new();
    // The process ID of the program in its own namespace differs from its process ID here.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]);
    command.arg(env!("CARGO_BIN_EXE_fathometer"));
    command.args(["study", "nielsen97", "--quiet", "--replicates", "500"]);
    command.args(["--output", place.run().to_str().unwrap()]);
    command.args(SHORT.iter().flat_map(|level| ["--only", level]));
    let mut running = place.start(command);
    let mut ended = None;
    wait_until("a replicate is recorded", || {
        if !running.is_alive() {
            ended = Some(running.ended());
        }
        ended.is_some() || measured(&place.run())
    });
    if let Some(ended) = ended {
        assert!(!measured(&place.run()), "ended early: {}", ended.err);
        return eprintln!("SKIPPED, a PID namespace is not available: {}", ended.err);
    }
    let before: BTreeSet<PathBuf> = place.temporary_folders().into_iter().collect();
    let next = place.path().join("next");
    place
        .study("nielsen97", &SHORT, &next)
        .ended_within(AT_LAST)
        .assert_measured();
    // The site's folder exists as long as the run.
    let after: BTreeSet<PathBuf> = place.temporary_folders().into_iter().collect();
    assert!(!before.is_disjoint(&after), "{before:?} {after:?}");
    for record in fs::read_to_string(place.run().join("replicates.ndjson"))
        .unwrap()
        .lines()
    {
        assert!(!record.contains("No such file"), "{record}");
    }
}

#[test]
fn a_run_without_a_record_does_not_say_that_something_was_kept() {
    if !possible("a_run_without_a_record_does_not_say_that_something_was_kept") {
        return;
    }
    let place = Place::new();
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/nielsen97/study.toml");
    let text = fs::read_to_string(paper).unwrap();
    let study = place.path().join("study.toml");
    let broken = text.replace("nodelay = \"on\"", "nodelay = \"perhaps\"");
    assert_ne!(broken, text);
    fs::write(&study, broken).unwrap();
    let ended = place
        .study(
            study.to_str().unwrap(),
            &["block=main", "path=lan"],
            &place.run(),
        )
        .ended();
    ended.assert_failed(&["perhaps"]);
    let records = fs::read_to_string(place.run().join("replicates.ndjson"));
    assert_eq!(records.unwrap_or_default(), "");
    assert!(!ended.err.contains("are kept"), "{}", ended.err);
}

/// Asserts that no two records of a run name the same folder.
fn assert_folders_differ(run: &Path) {
    let mut seen = BTreeSet::new();
    for line in fs::read_to_string(run.join("replicates.ndjson"))
        .unwrap()
        .lines()
    {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let folder = record["folder"].as_str().unwrap().to_owned();
        assert!(seen.insert(folder.clone()), "{folder} twice");
    }
}
