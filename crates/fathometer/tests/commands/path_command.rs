//! `fathometer path`, run as a user runs it.
//!
//! Needs the right to create network namespaces and TUN devices. Without it, each test prints a message and
//! passes, unless `FATHOMETER_REQUIRE_LAB=1`.

use std::process::{Child, Command, Output};

use crate::support::laboratory::possible;
use crate::support::waiting::wait_until;

fn path(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
    command.arg("path").args(arguments);
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_commands_output_and_exit_code_are_passed_on() {
    if !possible("the_commands_output_and_exit_code_are_passed_on") {
        return;
    }
    let script = "echo $FATHOMETER_CLIENT $FATHOMETER_SERVER $FATHOMETER_SERVER6; exit 9";
    let output = path(&["ideal", "--json", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(9), "{err}");
    assert_eq!(out, "10.77.0.1 10.77.0.2 fd77::2\n");
    let report: serde_json::Value = serde_json::from_str(err.trim()).expect(&err);
    assert_eq!(report["profile"]["name"], "ideal");
    assert_eq!(report["exit_code"], 9);
    assert_eq!(report["validity"]["reasons"], serde_json::json!([]));

    let killed = path(&["ideal", "--", "sh", "-c", "kill -KILL $$"])
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), Some(128 + 9), "{}", text(&killed).1);
}

/// Some supervisors start their programs with SIGCHLD ignored, and then the kernel reports no exit.
#[test]
fn the_exit_of_a_command_is_seen_although_the_program_was_started_without_sigchld() {
    if !possible("the_exit_of_a_command_is_seen_although_the_program_was_started_without_sigchld") {
        return;
    }
    let script = "trap '' CHLD; exec \"$0\" path ideal -- sh -c 'exit 9'";
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_fathometer"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output).1);
}

#[test]
fn the_far_side_answers_and_the_path_accounts_for_it() {
    if !possible("the_far_side_answers_and_the_path_accounts_for_it") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("path.pcapng");
    // No process listens there: the client's SYN crosses the path, and the server's kernel refuses it.
    let binary = env!("CARGO_BIN_EXE_fathometer");
    let arguments = [
        "dsl",
        "--json",
        "--capture",
        capture.to_str().unwrap(),
        "--",
    ];
    let output = path(&arguments)
        .args([binary, "fetch", "http://10.77.0.2:9/"])
        .output()
        .unwrap();
    let (_, err) = text(&output);
    assert_ne!(output.status.code(), Some(0), "{err}");
    let report = err.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(report).expect(&err);
    for direction in ["up", "down"] {
        let certificate = &report["path"][direction];
        assert!(certificate["packets_out"].as_u64() >= Some(1), "{err}");
        assert_eq!(
            certificate["packets_in"], certificate["packets_out"],
            "{err}"
        );
    }
    assert!(std::fs::metadata(&capture).unwrap().len() > 500);
}

#[test]
fn errors_of_the_path_command_say_what_to_do() {
    let unknown = path(&["nowhere", "--", "true"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown).1.contains("leucht15-tokyo"), "{unknown:?}");
    let usage = path(&["ideal"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    if !possible("errors_of_the_path_command_say_what_to_do") {
        return;
    }
    let missing = path(&["ideal", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing).1.contains("/no/such/program"), "{missing:?}");
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    if !possible("nothing_is_left_when_it_is_killed") {
        return;
    }
    // A number that no other program has among its arguments.
    let mark = format!("86{:07}", std::process::id());
    let script = format!("sleep {mark} & trap '' TERM HUP INT; sleep {mark}");
    let mut running = Killed(path(&["ideal", "--", "sh", "-c", &script]).spawn().unwrap());
    wait_until("both programs run", || alive(&mark) == 2);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    wait_until("both programs are gone", || alive(&mark) == 0);
}

/// A program that is killed when the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts the processes on this machine with the mark among their arguments.
fn alive(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .filter(|command| {
            let mut words = command.split(|&byte| byte == 0);
            words.next() == Some(b"sleep") && words.any(|word| word == mark.as_bytes())
        })
        .count()
}
