//! Users with few rights.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::loads;
use super::place::{Ended, Place, SHORT};
use crate::support::waiting::AT_LAST;

#[test]
fn without_rights_a_study_runs_or_fails_with_the_reason() {
    let place = Place::new();
    let doctor = as_user(&place, &["doctor"]);
    let able = doctor.code == Some(0);
    assert!(able || doctor.code == Some(1), "{}", doctor.err);
    assert!(!doctor.err.contains("panicked"), "{}", doctor.err);
    let judgement = if able {
        "experiments can be run here"
    } else {
        "experiments cannot be run here"
    };
    assert!(doctor.out.contains(judgement), "{}", doctor.out);
    let json = as_user(&place, &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect(&json.out);
    assert_eq!(json["experiments_possible"], able);

    let run = place.run();
    let mut arguments = vec!["study", "nielsen97", "--quiet"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(SHORT.iter().flat_map(|level| ["--only", level]));
    let study = as_user(&place, &arguments);
    if able {
        study.assert_measured();
        assert!(run.join("report.html").is_file());
    } else {
        assert_told_what_helps(&study);
    }
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
}

#[test]
fn without_rights_a_study_is_planned_and_a_wrong_command_line_is_a_usage_error() {
    let place = Place::new();
    let plan = as_user(&place, &["study", "almeida96", "--plan"]);
    assert_eq!(plan.code, Some(0), "{}", plan.err);
    assert!(
        plan.out.starts_with("almeida96, quick mode"),
        "{}",
        plan.out
    );
    let wrong = as_user(&place, &["study", "almeida96", "--only", "path=nowhere"]);
    wrong.assert_refused(&["path=nowhere"]);
}

#[test]
fn without_rights_to_limit_hosts_a_run_states_that_or_fails_with_the_reason() {
    let place = Place::new();
    let run = place.run();
    let mut arguments = vec!["study", "almeida96", "--quiet", "--replicates", "1"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(loads::SHORT.iter().flat_map(|level| ["--only", level]));
    let study = as_user(&place, &arguments);
    if study.code == Some(1) {
        assert_told_what_helps(&study);
    } else {
        study.assert_measured();
        let info = fs::read_to_string(run.join("run.json")).unwrap();
        assert!(info.contains("limit"), "{info}");
    }
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
}

#[test]
fn servers_run_as_the_only_user_of_a_namespace() {
    // Each of these servers sets the user of its processes in a different way.
    let studies: [(&str, &str, &[&str]); 3] = [
        ("protocols-today", "nginx", &["policy=h2"]),
        ("protocols-today", "h2o", &["policy=h2"]),
        (
            "nielsen97",
            "httpd",
            &["policy=h1.1", "path=lan", "era=today"],
        ),
    ];
    for (study, server, only) in studies {
        let place = Place::new();
        let run = place.run();
        let mut command = Command::new("unshare");
        command
            .args([
                "--user",
                "--map-root-user",
                env!("CARGO_BIN_EXE_fathometer"),
            ])
            .args(["study", study, "--quiet", "--replicates", "1"]);
        command.arg("--only").arg(format!("server={server}"));
        for level in only {
            command.args(["--only", level]);
        }
        command.arg("--output").arg(&run);
        let ended = place.start(command).ended_within(AT_LAST);
        let records = fs::read_to_string(run.join("replicates.ndjson"));
        let Ok(records) = records else {
            // This server is not installed here, or user namespaces are not allowed.
            assert_ne!(ended.code, Some(101), "{}", ended.err);
            continue;
        };
        // On a busy machine a replicate may be late, but the server still runs.
        assert!(
            !records.contains("before it accepted connections"),
            "{records}"
        );
        assert!(!records.is_empty(), "{}", ended.err);
    }
}

/// Asserts that the message states the remedy for the missing right.
fn assert_told_what_helps(study: &Ended) {
    study.assert_failed(&[]);
    let helps = ["as root", "modprobe", "sysctl", "chmod"];
    let helped = helps.iter().any(|help| study.err.contains(help));
    assert!(helped, "{}", study.err);
}

/// Runs the program as a user without rights: the current user, or `nobody` if the current user is root.
fn as_user(place: &Place, arguments: &[&str]) -> Ended {
    let command = match rustix::process::geteuid().is_root() {
        true => as_nobody(place, arguments),
        false => place.command(arguments),
    };
    // Without a raised priority, packets are late and replicates are repeated.
    place.start(command).ended_within(AT_LAST)
}

fn as_nobody(place: &Place, arguments: &[&str]) -> Command {
    const NOBODY: u32 = 65_534;
    // This user may lack access to the build folder.
    let program = place.path().join("fathometer");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_fathometer"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for folder in [place.path(), &place.temporary()] {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let mut command = Command::new(program);
    command.args(arguments).gid(NOBODY).uid(NOBODY);
    command
}
