//! Studies of pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::place::{Place, Running, SHORT, measured, whole_lines};
use crate::small_disk::SmallDisk;
use crate::support::laboratory::possible;
use crate::support::waiting::{AT_LAST, wait_until};

#[test]
fn an_interrupted_run_is_a_run_that_can_be_read() {
    if !possible("an_interrupted_run_is_a_run_that_can_be_read") {
        return;
    }
    let place = Place::new();
    let mut running = under_way(&place);
    running.signal(Signal::INT);
    let ended = running.ended();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("interrupted"), "{}", ended.err);
    assert!(ended.err.contains("report.html"), "{}", ended.err);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert!(whole_lines(&place.run()) >= 1);
    assert!(place.run().join("report.html").is_file());
    place.assert_report();
}

#[test]
fn a_killed_run_leaves_no_process_and_the_next_run_tidies_up() {
    if !possible("a_killed_run_leaves_no_process_and_the_next_run_tidies_up") {
        return;
    }
    let place = Place::new();
    let mut running = under_way(&place);
    running.signal(Signal::KILL);
    assert_eq!(running.ended().code, None);
    wait_until("the killed run's servers are gone", || {
        place.processes().is_empty()
    });
    assert!(whole_lines(&place.run()) >= 1);
    place.assert_report();
    // The killed run could not remove its folder. Without that folder, the rest of the test would prove nothing.
    assert_ne!(place.temporary_folders(), Vec::<PathBuf>::new());
    let next = place.path().join("next");
    place
        .study("nielsen97", &SHORT, &next)
        .ended_within(AT_LAST)
        .assert_measured();
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_run_is_resumed_where_it_stopped() {
    if !possible("a_killed_run_is_resumed_where_it_stopped") {
        return;
    }
    let cells = [
        "block=main",
        "path=lan",
        "server=embedded-apache",
        "visit=first",
        "era=today",
    ];
    let place = Place::new();
    let run = place.run();
    let records = || fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let mut running = place.study("nielsen97", &cells, &run);
    wait_until("a replicate is recorded", || {
        running.assert_alive();
        measured(&run)
    });
    running.signal(Signal::KILL);
    assert_eq!(running.ended().code, None);
    let before = records();
    // The last line may be incomplete.
    let before = &before[..=before.rfind('\n').unwrap()];

    let mut arguments = vec!["study", "nielsen97", "--quiet", "--resume"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(cells.iter().flat_map(|level| ["--only", level]));
    let mut resumed = place.fathometer(&arguments);
    resumed.ended_within(AT_LAST).assert_measured();
    let after = records();
    assert!(after.starts_with(before), "{before}{after}");
    assert!(after.len() > before.len(), "nothing was left to do");
    // All replicates exist, and no valid one was repeated.
    let info = fs::read_to_string(run.join("run.json")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let mut valid = BTreeMap::new();
    for line in after.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let reasons = record["validity"]["reasons"].as_array().unwrap();
        // An invalid replicate is repeated in a folder next to it.
        let folder = record["folder"].as_str().unwrap();
        let folder = folder.split("-again").next().unwrap().to_owned();
        let earlier = valid.insert(folder, reasons.is_empty());
        assert_ne!(earlier, Some(true), "{line}");
    }
    assert_eq!(info["replicates_planned"], valid.len());
    assert_eq!(place.processes(), Vec::<String>::new());
    place.assert_report();
}

#[test]
fn an_existing_folder_is_not_changed() {
    if !possible("an_existing_folder_is_not_changed") {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.run()).unwrap();
    // The folder looks like the result of an earlier run, which must not count as the result of this run.
    let lines = place.run().join("replicates.ndjson");
    fs::write(&lines, "{}\n").unwrap();
    let ended = place.study("nielsen97", &SHORT, &place.run()).ended();
    ended.assert_failed(&[place.run().to_str().unwrap(), "--output"]);
    assert!(!ended.err.contains("are kept"), "{}", ended.err);
    assert_eq!(fs::read_to_string(&lines).unwrap(), "{}\n");
    assert_eq!(fs::read_dir(place.run()).unwrap().count(), 1);

    let below_a_file = lines.join("run");
    let ended = place.study("nielsen97", &SHORT, &below_a_file).ended();
    ended.assert_failed(&[
        lines.to_str().unwrap(),
        "a part of the path is a file",
        "--output",
    ]);
    assert_eq!(fs::read_to_string(&lines).unwrap(), "{}\n");

    // Not even root can create folders in /proc.
    let ended = place
        .study("nielsen97", &SHORT, Path::new("/proc/run"))
        .ended();
    ended.assert_failed(&["/proc/run"]);
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_measured() {
    if !possible("a_full_disk_ends_the_run_and_keeps_what_was_measured") {
        return;
    }
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk"), "6m") else {
        return;
    };
    let run = disk.0.join("run");
    // The disk has room for several captures of the LAN. These captures fill the disk while pages are in flight on the
    // modem line; those retrievals must be stopped, too.
    let mut running = place.study("nielsen97", &["block=main", "path=lan", "path=ppp"], &run);
    let ended = running.ended_within(AT_LAST);
    ended.assert_failed(&["disk", "free some"]);
    assert!(ended.err.contains("fathometer report"), "{}", ended.err);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert!(whole_lines(&run) >= 1);

    // Without room for its files the report is still printed.
    fs::write(disk.0.join("rest"), vec![0; 6 << 20]).unwrap_err();
    let full = place.fathometer(&["report", run.to_str().unwrap()]).ended();
    assert_eq!(full.code, Some(0), "{}", full.err);
    assert!(full.err.contains("was not written"), "{}", full.err);
    assert!(full.out.contains("Validity:"), "{}", full.out);
    fs::remove_file(disk.0.join("rest")).unwrap();
    fs::remove_dir_all(run.join("cells")).unwrap();
    let room = place.fathometer(&["report", run.to_str().unwrap()]).ended();
    assert_eq!(room.code, Some(0), "{}", room.err);
    assert!(run.join("report.html").is_file());
}

#[test]
fn an_unknown_study_or_level_is_refused_with_the_known_ones() {
    let place = Place::new();
    let usage = place
        .fathometer(&["study", "nielsen97", "--wibble"])
        .ended();
    assert_eq!(usage.code, Some(2), "{}", usage.err);
    assert!(usage.err.contains("--wibble"), "{}", usage.err);
    let usage = place.study("nielsen97", &["pathwan"], &place.run()).ended();
    assert_eq!(usage.code, Some(2), "{}", usage.err);
    assert!(usage.err.contains("FACTOR=LEVEL"), "{}", usage.err);
    if !possible("an_unknown_study_or_level_is_refused_with_the_known_ones") {
        return;
    }
    let unknown = place.fathometer(&["study", "nielsen98"]).ended();
    unknown.assert_refused(&["nielsen98", "nielsen97"]);
    let era = place
        .fathometer(&["study", "nielsen97", "--era", "1850"])
        .ended();
    era.assert_refused(&["era=1850", "1997", "today"]);
    for (only, expected) in [
        (&["colour=blue"][..], &["colour", "policy", "block"][..]),
        (&["block=cellar"], &["block=cellar", "main", "nagle"]),
        (&["path=moon"], &["path=moon", "lan", "ppp", "wan"]),
        // An unknown level next to a valid one is still an error.
        (&["path=lan", "path=moon"], &["path=moon", "lan"]),
        (
            &["block=flush", "path=ppp"],
            &["block=flush", "path=ppp", "no cell has all"],
        ),
    ] {
        let ended = place.study("nielsen97", only, &place.run()).ended();
        ended.assert_refused(expected);
        assert!(!place.run().exists(), "{only:?}");
    }
}

#[test]
fn a_full_temporary_folder_is_reported_with_the_variable_to_set() {
    let place = Place::new();
    fs::remove_dir(place.temporary()).unwrap();
    let Some(_disk) = SmallDisk::mount(&place.temporary(), "64k") else {
        return;
    };
    let ended = place.fathometer(&["bottleneck", "--quiet"]).ended();
    ended.assert_failed(&["No space left", "TMPDIR"]);
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

/// Starts a study and waits until a replicate is recorded and servers are running, including httpd if this machine has
/// it.
fn under_way(place: &Place) -> Running {
    let only = [
        "block=main",
        "path=wan",
        "server=httpd",
        "server=embedded-apache",
    ];
    let mut running = place.study("nielsen97", &only, &place.run());
    let doctor = place.fathometer(&["doctor", "--json"]).ended();
    let doctor: serde_json::Value = serde_json::from_str(&doctor.out).expect(&doctor.out);
    let httpd = doctor["abilities"]
        .as_array()
        .unwrap()
        .iter()
        .any(|ability| ability["name"] == "httpd" && ability["able"] == true);
    wait_until("the study has started", || {
        running.assert_alive();
        let serving = place
            .processes()
            .iter()
            .any(|command| command.contains("server.conf"));
        measured(&place.run()) && (serving || !httpd)
    });
    running
}
