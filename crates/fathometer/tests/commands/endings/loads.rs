//! Studies of loads, whose servers run in control groups. When the program is killed, its control groups stay;
//! the next such study removes them.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::place::{Place, Running, measured, whole_lines};
use crate::support::laboratory::possible;
use crate::support::waiting::{AT_LAST, wait_until};

/// Two cells, each with two replicates: one with our server, one with another server if this machine has it.
const CELLS: [&str; 5] = [
    "block=main",
    "workload=almeida-a",
    "clients=8",
    "server=httpd",
    "server=embedded",
];

/// A cell that takes only a few seconds to measure.
pub const SHORT: [&str; 4] = [
    "block=main",
    "workload=almeida-a",
    "clients=2",
    "server=embedded",
];

#[test]
fn the_groups_of_a_killed_load_study_are_removed_by_a_command_of_another_kind() {
    if !possible("the_groups_of_a_killed_load_study_are_removed_by_a_command_of_another_kind") {
        return;
    }
    let place = Place::new();
    let mut running = place.study("almeida96", &CELLS, &place.run());
    wait_until("its host has a group", || {
        running.assert_alive();
        !groups_of(running.pid()).is_empty()
    });
    running.signal(Signal::KILL);
    assert_eq!(running.ended().code, None);
    wait_until("the killed run's servers are gone", || {
        place.processes().is_empty()
    });
    // This study creates no groups itself. A command of another test may already have removed these groups, because
    // every command removes such groups.
    let next = place.path().join("next");
    place
        .study("nielsen97", &super::place::SHORT, &next)
        .ended_within(AT_LAST)
        .assert_measured();
    assert_eq!(groups_of(running.pid()), Vec::<PathBuf>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_load_study_leaves_groups_without_members_until_the_next_one() {
    if !possible("a_killed_load_study_leaves_groups_without_members_until_the_next_one") {
        return;
    }
    let place = Place::new();
    let mut killed = Vec::new();
    // The moments: during the set-up of the laboratory, during the server's warm-up, and after the first cell.
    let moments: [(&str, Moment); 3] = [
        ("its host has a group", |_, running| {
            !groups_of(running.pid()).is_empty()
        }),
        ("a server is at work", |place, _| serving(place)),
        ("a replicate is written", |place, _| measured(&place.run())),
    ];
    for (moment, come) in moments {
        let _ = fs::remove_dir_all(place.run());
        let mut running = place.study("almeida96", &CELLS, &place.run());
        wait_until(moment, || {
            running.assert_alive();
            come(&place, &running)
        });
        running.signal(Signal::KILL);
        assert_eq!(running.ended().code, None);
        wait_until("the killed run's servers are gone", || {
            place.processes().is_empty()
        });
        nothing_but_groups_is_left(&place);
        for group in groups_of(running.pid()) {
            assert_eq!(members(&group), "", "{moment}: {}", group.display());
        }
        killed.push(running.pid());
    }
    assert!(whole_lines(&place.run()) >= 1);
    place.assert_report();

    let next = place.path().join("next");
    let mut running = place.study("almeida96", &SHORT, &next);
    running.ended_within(AT_LAST).assert_measured();
    killed.push(running.pid());
    for pid in killed {
        assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
    }
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn an_interrupted_load_study_takes_everything_down_and_can_be_read() {
    if !possible("an_interrupted_load_study_takes_everything_down_and_can_be_read") {
        return;
    }
    let place = Place::new();
    let mut running = place.study("almeida96", &CELLS, &place.run());
    wait_until(
        "a replicate is recorded and a server is running again",
        || {
            running.assert_alive();
            measured(&place.run()) && serving(&place)
        },
    );
    assert_ne!(groups_of(running.pid()), Vec::<PathBuf>::new());
    running.signal(Signal::INT);
    let ended = running.ended();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("interrupted"), "{}", ended.err);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert_eq!(groups_of(running.pid()), Vec::<PathBuf>::new());
    nothing_but_groups_is_left(&place);
    assert!(whole_lines(&place.run()) >= 1);
    place.assert_report();
}

/// Whether a study has reached a moment.
type Moment = fn(&Place, &Running) -> bool;

fn serving(place: &Place) -> bool {
    let servers = ["server.conf", " serve "];
    let processes = place.processes();
    processes
        .iter()
        .any(|command| servers.iter().any(|server| command.contains(server)))
}

/// Asserts that no process and no mount of the study is left. A namespace and its devices exist only as long as a
/// process, an open file or a mount references the namespace.
fn nothing_but_groups_is_left(place: &Place) {
    assert_eq!(place.processes(), Vec::<String>::new());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = place.path().to_str().unwrap();
    for mount in mounts.lines() {
        assert!(!mount.contains(ours), "{mount}");
        assert!(!mount.contains(" - nsfs "), "{mount}");
    }
}

/// Returns the control groups that a process created, found by name: `fathometer-`, PID namespace, process id.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut found = Vec::new();
    for mount in mounts.lines() {
        let (place, kind) = mount.split_once(" - ").expect("a kind of file system");
        if kind.starts_with("cgroup") {
            let point = place.split(' ').nth(4).expect("a mount point");
            groups_below(Path::new(point), &pid.to_string(), &mut found);
        }
    }
    found
}

fn groups_below(folder: &Path, pid: &str, found: &mut Vec<PathBuf>) {
    // The folder may have been removed since it was listed.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut words = name.split('-');
        if words.next() == Some("fathometer") && words.nth(1) == Some(pid) {
            found.push(path);
        } else {
            groups_below(&path, pid, found);
        }
    }
}

/// Reads the processes in a group; empty if a study of another test has just removed the group.
fn members(group: &Path) -> String {
    fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default()
}
