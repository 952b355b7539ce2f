//! The program under test, and our origin with its log.

use std::fs;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fathometer_analysis::load::Summary;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::programs::{FATHOMETER, run};
use crate::support::serving;

/// The exit code and the output of the program.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Parses the summary that the program printed with `--json`.
    pub fn summary(&self) -> Summary {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }

    /// Same as [`Ended::summary`]. Also asserts this exit code, or code 3 if a busy machine made the result INVALID.
    pub fn ended_with(&self, code: i32) -> Summary {
        let summary = self.summary();
        let expected = if summary.validity.valid { code } else { 3 };
        let reasons = &summary.validity.reasons;
        assert_eq!(self.code, Some(expected), "{} {reasons:?}", self.err);
        summary
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// Runs `fathometer load` to its end.
pub fn load(url: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(FATHOMETER);
    command.args(["load", "--quiet", url]);
    if !arguments.contains(&"--against") {
        // The server's counts are compared with one window, so a noisy window must not be repeated.
        command.args(["--repeats", "0"]);
    }
    command.args(arguments);
    fathometer(&command)
}

/// Runs the program to its end.
pub fn fathometer(command: &Command) -> Ended {
    run(command).into()
}

/// Runs `fathometer merge` on the spools in a folder.
pub fn merged(spools: &Path) -> Ended {
    let mut command = Command::new(FATHOMETER);
    fathometer(command.arg("merge").arg(spools).arg("--json"))
}

/// Runs the test up to five times; returns the first valid result, or the last result. On a shared machine the
/// generator is sometimes late, which makes the result INVALID.
pub fn valid_if_possible(mut test: impl FnMut() -> Ended) -> Ended {
    for _ in 0..4 {
        let ended = test();
        if ended.code != Some(3) {
            return ended;
        }
    }
    test()
}

/// `fathometer serve` with a log, killed when dropped.
pub struct Origin {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    _folder: TempDir,
}

impl Origin {
    /// Serves a workload's site from memory, with one event loop, so the log is in the order of the responses.
    pub fn of(workload: &str, seed: u64) -> Origin {
        Origin::with(&["--site", workload, "--seed", &seed.to_string()])
    }

    /// Same as [`Origin::of`] without a seed, as a user starts the server.
    pub fn by_default(workload: &str) -> Origin {
        Origin::with(&["--site", workload])
    }

    /// Starts the server with these arguments of `serve`.
    pub fn with(arguments: &[&str]) -> Origin {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut child = Command::new(FATHOMETER)
            .args(["serve", "--listen", "127.0.0.1:0", "--threads", "1"])
            .args(arguments)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = serving::address(&mut BufReader::new(child.stdout.take().unwrap()));
        Origin {
            child,
            address,
            log,
            _folder: folder,
        }
    }

    /// The server's process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops the server; returns the requests in its log, such as `GET /a.html`.
    pub fn end(mut self) -> Vec<String> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        logged(&self.log)
    }

    /// Same as [`Origin::end`], sorted, because the requests of several clients have no fixed order.
    pub fn end_sorted(self) -> Vec<String> {
        let mut requests = self.end();
        requests.sort_unstable();
        requests
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the requests in an access log in the Common Log Format, such as `GET /a.html`.
pub fn logged(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    text.lines()
        // The connection that tested whether the server listens may be logged without a request.
        .filter(|line| line.contains(" HTTP/1."))
        .map(|line| {
            let request = line.split('"').nth(1).expect(line);
            request.rsplit_once(' ').expect(line).0.to_owned()
        })
        .collect()
}

/// Writes a file with this text to a folder; returns its path.
pub fn written(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
