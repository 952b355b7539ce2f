//! The limit of descriptors per process, which control groups do not have.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use fathometer_sys::Namespace;
use fathometer_sys::cgroup::{Group, Limits};
use fathometer_sys::error::Error;
use fathometer_sys::process::Session;

use crate::host::{PATIENCE, Shell, group};

fn descriptors(number: u64) -> Limits {
    Limits {
        descriptors: Some(number),
        ..Limits::default()
    }
}

#[test]
fn a_program_and_its_children_have_no_more_descriptors_than_they_may() {
    let Some(group) = group("descriptors", &descriptors(20)) else {
        return;
    };
    let mut shell = Shell::start(&group);
    assert_eq!(shell.run("ulimit -n; ulimit -Hn"), "20");
    // `tee` has all of its files open at once, and at least three more.
    let open = |files: usize| {
        let files = ["/dev/null"; 20][..files].join(" ");
        format!("tee {files} </dev/null 2>/dev/null && echo open || echo refused")
    };
    assert_eq!(shell.run(&open(8)), "open");
    assert_eq!(shell.run(&open(18)), "refused");
    let applied = group.verify_process(shell.child.id()).unwrap();
    assert_eq!(applied.len(), 1);
    assert!(applied[0].holds, "{applied:?}");
    assert_eq!(
        (applied[0].what.as_str(), applied[0].got.as_str()),
        ("RLIMIT_NOFILE", "20")
    );
    // A process outside the group does not have the limit, which is detected.
    let other = Shell::start_outside();
    let applied = group.verify_process(other.child.id()).unwrap();
    assert!(!applied[0].holds, "{applied:?}");
    drop(shell);
    assert!(group.verify_process(u32::MAX / 2).is_err());
    drop(other);
}

#[test]
fn a_program_in_a_namespace_has_the_limit_as_well() {
    let Some(group) = group("descriptors", &descriptors(50)) else {
        return;
    };
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => return eprintln!("SKIPPED, no lab on this machine: {error}"),
    };
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Hn; read line"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    group.place(&mut command).unwrap();
    let mut process = namespace.command(command, Session::Own).unwrap();
    let mut said = String::new();
    let output = process.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "50\n");
    let applied = group.verify_process(process.pid()).unwrap();
    assert!(applied[0].holds, "{applied:?}");
    drop(process.stdin.take());
    process.wait_for(PATIENCE).unwrap();
}

#[test]
fn no_descriptors_and_too_many_are_refused_with_the_reason() {
    for (number, reason) in [(0, "to start"), (u64::MAX / 2, "more than")] {
        let error = Group::create("descriptors", &descriptors(number)).unwrap_err();
        assert!(matches!(error, Error::NoLimit { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
