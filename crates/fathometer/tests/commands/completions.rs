//! `fathometer completions`: completions as bash uses them, and the manual pages.

use std::fs;
use std::process::Command;

use crate::support::programs::{FATHOMETER, run_well, tool};

/// Returns the commands that `fathometer --help` lists.
fn commands() -> Vec<String> {
    let help = String::from_utf8(run_well(Command::new(FATHOMETER).arg("--help"))).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let Some(bash) = tool("bash") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fathometer");
    fs::write(
        &file,
        run_well(Command::new(FATHOMETER).args(["completions", "bash"])),
    )
    .unwrap();
    // Calls the completion function as bash does when a user presses Tab.
    let completed = |words: &[&str]| -> Vec<String> {
        let script = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                      _fathometer fathometer \"${COMP_WORDS[$COMP_CWORD]}\" \"${COMP_WORDS[$COMP_CWORD-1]}\"; \
                      printf '%s\\n' \"${COMPREPLY[@]}\"";
        let printed = run_well(
            Command::new(&bash)
                .args(["--norc", "-c", script])
                .arg(&file)
                .args(words),
        );
        let text = String::from_utf8(printed).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    let offered = completed(&["fathometer", ""]);
    for command in &commands {
        assert!(offered.contains(command), "{command} is not in {offered:?}");
    }
    assert_eq!(completed(&["fathometer", "bott"]), ["bottleneck"]);
    assert!(completed(&["fathometer", "load", "--conn"]).contains(&"--connections".to_owned()));
}

#[test]
fn hidden_commands_are_completed_by_no_shell() {
    let hidden = fathometer_lab::wire::receiver::ARGUMENT;
    for shell in ["bash", "zsh", "fish"] {
        let printed = run_well(Command::new(FATHOMETER).args(["completions", shell]));
        let text = String::from_utf8(printed).unwrap();
        assert!(text.contains("bottleneck"), "{shell}");
        assert!(!text.contains(hidden), "{shell}");
    }
}

#[test]
fn other_shells_have_completions() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let printed = run_well(Command::new(FATHOMETER).args(["completions", shell]));
        let text = String::from_utf8(printed).unwrap();
        assert!(text.contains("bottleneck") && text.contains("connections"));
    }
    let unknown = Command::new(FATHOMETER)
        .args(["completions", "ksh93"])
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    run_well(
        Command::new(FATHOMETER)
            .args(["completions", "--man"])
            .arg(folder.path()),
    );
    let names = ["fathometer".to_owned()].into_iter();
    let subcommands = ["cluster-slurm", "cluster-kubernetes"].map(str::to_owned);
    let names = names.chain(
        commands()
            .into_iter()
            .chain(subcommands)
            .map(|name| format!("fathometer-{name}")),
    );
    let mut count = 0;
    for name in names {
        let page = fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
        assert!(
            page.contains(".TH ") && page.contains(".SH NAME") && page.contains(".SH SYNOPSIS")
        );
        count += 1;
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), count);
    let nowhere = Command::new(FATHOMETER)
        .args(["completions", "--man", "/proc/nowhere"])
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--man"));
}
