//! Child processes, tools and the served site.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::fs;
use std::io::{BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, run_well};
use crate::support::serving;

/// The page of the site.
pub const PAGE: &str = "microscape.html";
/// Number of images on the page.
pub const IMAGES: usize = 42;
/// Bytes of the page and its images.
pub const SITE_BYTES: u64 = 171_295;

/// Time limit for a server to start or to exit.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Microscape site as files.
pub struct SiteFolder {
    folder: TempDir,
}

impl SiteFolder {
    /// Writes the site with `fathometer site`. Other users may read the files, because servers drop their privileges.
    pub fn new() -> SiteFolder {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        run_well(
            Command::new(FATHOMETER)
                .args(["site", "microscape"])
                .arg(folder.path()),
        );
        SiteFolder { folder }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Reads the content of a file of the site.
    pub fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path().join(file.trim_start_matches('/'))).unwrap()
    }

    /// Returns the names of the images, as paths below the site.
    pub fn images(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path().join("images"))
            .unwrap()
            .map(|entry| format!("images/{}", entry.unwrap().file_name().to_string_lossy()))
            .collect();
        names.sort();
        assert_eq!(names.len(), IMAGES);
        names
    }
}

/// A server that runs until dropped.
pub struct Server {
    child: Child,
    /// The address that the server listens on.
    pub address: SocketAddr,
    scheme: &'static str,
    /// The folder of its files.
    folder: Option<TempDir>,
}

impl Server {
    /// Starts our origin, which serves a folder and prints the address that it listens on.
    pub fn origin(folder: &Path, arguments: &[&str]) -> Server {
        let mut child = Command::new(FATHOMETER)
            .arg("serve")
            .arg(folder)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let address = serving::address(&mut BufReader::new(child.stdout.take().unwrap()));
        Server {
            child,
            address,
            scheme: "http",
            folder: None,
        }
    }

    /// Same as [`Server::origin`], with TLS and a generated certificate. Clients must trust [`root`](Self::root).
    pub fn secure(folder: &Path, arguments: &[&str]) -> Server {
        let own = tempfile::tempdir().unwrap();
        let root = own.path().join("root.pem");
        let mut all = vec!["--tls", "--ca-out", root.to_str().unwrap()];
        all.extend(arguments);
        let mut server = Server::origin(folder, &all);
        server.scheme = "https";
        server.folder = Some(own);
        server
    }

    /// The file with the root certificate of a secure server.
    pub fn root(&self) -> PathBuf {
        self.folder.as_ref().unwrap().path().join("root.pem")
    }

    /// Starts a third-party server. `command` returns its command line for an address and a folder. If another program
    /// has taken the port, starts the server on another port.
    pub fn foreign(name: &str, command: impl Fn(SocketAddr, &Path) -> Command) -> Server {
        for _ in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            let address = free_address();
            let child = command(address, folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // In its own process group, so that its workers are killed with it.
                .process_group(0)
                .spawn()
                .unwrap();
            let mut server = Server {
                child,
                address,
                scheme: "http",
                folder: Some(folder),
            };
            if server.listens() {
                return server;
            }
        }
        panic!("{name} does not start");
    }

    /// Waits until the server accepts connections; returns false if it exited instead.
    fn listens(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Returns the URL of one of the server's files.
    pub fn url(&self, file: &str) -> String {
        let file = file.trim_start_matches('/');
        format!("{}://{}/{file}", self.scheme, self.address)
    }

    /// Sends SIGTERM; returns the exit status, or `None` if the server did not exit.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        let _ = kill_process(self.pid(), Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// The server's process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = matches!(self.child.try_wait(), Ok(None));
        if running && self.stop().is_none() {
            // Fails if the child leads no process group.
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The parts of a response to curl's `--include`.
pub struct Response {
    /// All heads, those of interim responses first, each without its empty line.
    pub heads: Vec<String>,
    /// The content.
    pub content: Vec<u8>,
}

impl Response {
    /// Parses the output of curl.
    pub fn parse(mut printed: &[u8]) -> Response {
        let mut heads = Vec::new();
        while printed.starts_with(b"HTTP/") {
            let end = printed
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
                .expect("a head ends in an empty line");
            heads.push(String::from_utf8(printed[..end].to_vec()).unwrap());
            printed = &printed[end + 4..];
            let code = heads.last().and_then(|head| head.split(' ').nth(1));
            if !code.is_some_and(|code| code.starts_with('1')) {
                break;
            }
        }
        Response {
            heads,
            content: printed.to_vec(),
        }
    }

    /// The status code of the last head.
    pub fn status(&self) -> u16 {
        let head = self.heads.last().expect("a head");
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The value of a field of the last head.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.heads
            .last()?
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// Decodes a zlib or gzip stream with Python.
pub fn inflate(python: &Path, coded: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = Command::new(python)
        .args([
            "-c",
            "import sys, zlib\n\
             sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read(), 47))",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut plain = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(coded).unwrap());
        stdout.read_to_end(&mut plain).unwrap();
    });
    assert!(child.wait().unwrap().success());
    plain
}
