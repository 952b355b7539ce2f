//! Third-party programs, and the files and settings of the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{ClientOptions, Identity, ServerOptions, Verification};
use tempfile::TempDir;

/// The name of every server in these tests.
pub const NAME: &str = "origin.test";

/// Finds a program; prints a message to stderr and returns `None` if it is not installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default();
    let found = folders
        .split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "{name} is required and not installed");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// A program that is stopped when dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a program with pipes for its input and output, and with a time-out of several minutes.
    pub fn start(program: &Path, arguments: &[&str]) -> Running {
        let child = Command::new("timeout")
            .args(["--kill-after=5", "300"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program `timeout` of coreutils starts");
        Running { child }
    }

    /// Writes to the program's input. The input stays open.
    pub fn say(&mut self, text: &[u8]) {
        use std::io::Write;
        let input = self.child.stdin.as_mut().expect("stdin is piped");
        input.write_all(text).unwrap();
        input.flush().unwrap();
    }

    pub fn stdout(&mut self) -> ChildStdout {
        self.child
            .stdout
            .take()
            .expect("stdout is piped and was not taken")
    }

    /// Waits for the program's exit; returns whether it succeeded, and its output.
    pub fn end(mut self) -> (bool, String) {
        use std::io::Read;
        drop(self.child.stdin.take());
        let mut printed = Vec::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_end(&mut printed).unwrap();
        }
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_end(&mut printed).unwrap();
        }
        let success = self.child.wait().unwrap().success();
        (success, String::from_utf8_lossy(&printed).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have exited already. `timeout` forwards this signal, but cannot forward SIGKILL.
        let pid = self.child.id().to_string();
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-TERM", &pid]).status();
        }
        let _ = self.child.wait();
    }
}

/// The wall-clock time at `Instant::ZERO` of these tests.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The laboratory's root, a certificate for [`NAME`], and the files with both.
pub struct Credentials {
    folder: TempDir,
    pub authority: Authority,
    pub identity: Identity,
}

impl Credentials {
    /// Returns the credentials that all tests share.
    pub fn get() -> &'static Credentials {
        static CREDENTIALS: OnceLock<Credentials> = OnceLock::new();
        CREDENTIALS.get_or_init(|| {
            let lifetime = Lifetime::around(unix_time(), Duration::from_secs(86_400));
            let authority = Authority::new(lifetime).unwrap();
            let request = Issue {
                intermediates: 1,
                ..Issue::new([NAME, "localhost", "127.0.0.1"])
            };
            let identity = authority.issue(&request).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let chain = identity.chain_pem();
            let (_, intermediates) = chain.split_once("END CERTIFICATE-----\n").unwrap();
            for (name, text) in [
                ("root.pem", authority.pem()),
                ("chain.pem", &chain),
                ("intermediates.pem", intermediates),
                ("key.pem", &identity.key_pem()),
            ] {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            Credentials {
                folder,
                authority,
                identity,
            }
        })
    }

    /// Returns the path of `root.pem`, `chain.pem`, `intermediates.pem` or `key.pem`.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn client_options(&self) -> ClientOptions {
        ClientOptions::new(Verification::Roots(self.authority.roots()), unix_time())
    }

    pub fn server_options(&self) -> ServerOptions {
        ServerOptions::new(self.identity.clone(), unix_time())
    }
}
