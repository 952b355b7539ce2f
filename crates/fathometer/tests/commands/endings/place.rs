//! A folder for a test, and the programs started in it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::waiting::wait_within;

/// Time limit of a prompt exit: long enough for a busy machine, shorter than a page on a modem line.
const SOON: Duration = Duration::from_secs(45);

/// The smallest study: two cells with two replicates each, in less than a second.
pub const SHORT: [&str; 3] = ["block=quickack", "path=lan", "era=today"];

/// A folder for one test. Every process that the test started has the path of this folder in its environment, so the
/// path identifies these processes.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        // Servers under test run as other users and read files there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        Place { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    pub fn temporary_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temporary()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
        command.args(arguments);
        command
    }

    pub fn start(&self, mut command: Command) -> Running {
        let output = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(output.path().join(name)).unwrap();
        let child = command
            .env("TMPDIR", self.temporary())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Running { child, output }
    }

    pub fn fathometer(&self, arguments: &[&str]) -> Running {
        self.start(self.command(arguments))
    }

    pub fn study(&self, name: &str, only: &[&str], output: &Path) -> Running {
        let mut arguments = vec!["study", name, "--quiet"];
        arguments.extend(["--output", output.to_str().unwrap()]);
        arguments.extend(only.iter().flat_map(|level| ["--only", level]));
        self.fathometer(&arguments)
    }

    /// Returns the command lines of all live processes that this test started.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("TMPDIR={}", self.temporary().display());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| {
                let environment = fs::read(process.path().join("environ")).ok()?;
                environment
                    .split(|&byte| byte == 0)
                    .any(|word| word == mark.as_bytes())
                    .then(|| fs::read(process.path().join("cmdline")).unwrap_or_default())
            })
            .map(|command| String::from_utf8_lossy(&command).replace('\0', " "))
            .collect()
    }

    pub fn assert_report(&self) {
        let run = self.run();
        let _ = fs::remove_file(run.join("report.html"));
        let report = self.fathometer(&["report", run.to_str().unwrap()]).ended();
        assert_eq!(report.code, Some(0), "{}", report.err);
        assert!(report.out.contains("Validity:"), "{}", report.out);
        assert!(run.join("report.html").is_file());
    }
}

/// A program that is stopped when the test fails.
pub struct Running {
    child: Child,
    output: TempDir,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whether the program is still running. Checks the state of the child, because the environment in `/proc` is empty
    /// for a moment after the start.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Asserts that the program is still running.
    pub fn assert_alive(&mut self) {
        assert!(self.is_alive(), "ended early");
    }

    /// Waits for a program that was interrupted or cannot continue; it must exit soon.
    pub fn ended(&mut self) -> Ended {
        self.ended_within(SOON)
    }

    /// Waits for a program that exits without being interrupted.
    pub fn ended_within(&mut self, limit: Duration) -> Ended {
        let mut status = None;
        wait_within(limit, "the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let text = |name: &str| {
            let bytes = fs::read(self.output.path().join(name)).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ended {
            code: status.and_then(|status| status.code()),
            out: text("out"),
            err: text("err"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a program; `code` is `None` if a signal killed it.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Asserts exit code 1, and one message that contains all of `expected`.
    pub fn assert_failed(&self, expected: &[&str]) {
        self.assert_ended(1, expected);
    }

    /// Asserts that the program refused the command line with these words.
    pub fn assert_refused(&self, expected: &[&str]) {
        self.assert_ended(2, expected);
    }

    fn assert_ended(&self, code: i32, expected: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        for expected in expected {
            assert!(
                self.err.contains(expected),
                "{expected:?} is not in: {}",
                self.err
            );
        }
    }

    /// Asserts that the run completed. On a busy machine packets may be late and cells invalid (exit code 3),
    /// which these tests do not check.
    pub fn assert_measured(&self) {
        assert!(
            matches!(self.code, Some(0 | 3)),
            "{:?} {}",
            self.code,
            self.err
        );
    }
}

/// Returns the number of lines in a run's replicate file; each line must be JSON.
pub fn whole_lines(run: &Path) -> usize {
    let text = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let lines: Result<Vec<serde_json::Value>, _> = text.lines().map(serde_json::from_str).collect();
    lines.expect(&text).len()
}

/// Whether a run has recorded a replicate.
pub fn measured(run: &Path) -> bool {
    fs::read(run.join("replicates.ndjson")).is_ok_and(|text| text.contains(&b'\n'))
}
