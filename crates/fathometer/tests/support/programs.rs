//! Programs that tests run: the one under test, and others of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program under test.
pub const FATHOMETER: &str = env!("CARGO_BIN_EXE_fathometer");

/// Finds the path of a program; `None`, with a message on stderr, if the program is not installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default();
    let found = folders
        .split(':')
        .chain(["/usr/sbin", "/usr/local/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "{name} is required and not installed");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// Runs a program to its end, with a time limit of some minutes; returns its output.
pub fn run(command: &Command) -> Output {
    let mut bounded = Command::new("timeout");
    bounded
        .args(["--kill-after=5", "300"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    bounded.output().expect("coreutils' timeout runs")
}

/// Same as [`run`], for a program that must succeed; returns its standard output.
pub fn run_well(command: &Command) -> Vec<u8> {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}
