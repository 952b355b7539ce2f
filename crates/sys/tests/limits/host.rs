//! A group, a shell in it and a cold file, for the tests.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fathometer_sys::cgroup::{BlockDevice, Group, Limits};

/// The time limit of a step, longer than any step takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Creates the group, or prints the reason why it is not available.
pub fn group(name: &str, limits: &Limits) -> Option<Group> {
    match Group::create(name, limits) {
        Ok(group) => Some(group),
        Err(error) => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "limits are required: {error}");
            eprintln!("SKIPPED, no such limit on this machine: {error}");
            None
        }
    }
}

/// A shell inside a group, which is killed when the test ends.
pub struct Shell {
    pub child: Child,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn start(group: &Group) -> Shell {
        let mut command = Command::new("sh");
        group.place(&mut command).unwrap();
        Shell::of(command)
    }

    pub fn start_outside() -> Shell {
        Shell::of(Command::new("sh"))
    }

    fn of(mut command: Command) -> Shell {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Shell {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Lets the shell run a line and returns the last line of its output.
    pub fn run(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}; echo '<done>'").unwrap();
        let mut last = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the shell exited"
            );
            if line == "<done>\n" {
                return last;
            }
            last = line.trim_end().to_owned();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A file that is on a disk and not in the page cache.
pub struct ColdFile {
    pub path: PathBuf,
}

pub fn cold_file(name: &str, size: u64) -> Option<ColdFile> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if let Err(error) = BlockDevice::of_path(directory) {
        eprintln!("SKIPPED, no disk: {error}");
        return None;
    }
    let path = directory.join(format!("cold-{name}-{}", std::process::id()));
    let mut file = File::create(&path).unwrap();
    let cold = ColdFile { path };
    for n in 0..size >> 20 {
        file.write_all(&vec![n as u8; 1 << 20]).unwrap();
    }
    // Dirty pages cannot be evicted from memory.
    file.sync_all().unwrap();
    // SAFETY: a call on an open descriptor.
    let dropped = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(dropped, 0);
    Some(cold)
}

impl Drop for ColdFile {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}
