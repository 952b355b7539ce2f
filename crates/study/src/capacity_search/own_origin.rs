//! The server of a calibration: this program's origin. It has the protocol and the response size of the server under
//! test.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use fathometer_files::scratch::Scratch;
use fathometer_model::Bytes;
use fathometer_sys::sched;

/// The maximum length of the name of the origin's file. File systems limit this length.
const LONGEST_NAME: usize = 200;

/// The settings of the origin.
#[derive(Debug, Clone, Copy)]
pub struct OriginOptions<'a> {
    /// Whether connections use TLS.
    pub is_secure: bool,
    /// Whether connections use QUIC.
    pub is_over_quic: bool,
    /// The workload whose site the origin serves; `None` for a single file.
    pub workload: Option<&'a str>,
    /// The seed of the workload.
    pub seed: u64,
    /// The URL of the file at the server under test. The request to the origin has the same length as a request for
    /// this URL.
    pub url: &'a str,
    /// The size of the file.
    pub response: Bytes,
}

/// The reason why the origin does not start.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// A program or a file cannot be used.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The program exited before it listened.
    #[error(
        "the origin of the calibration does not start: check `fathometer serve`, or use --no-calibration"
    )]
    NotListening,
}

/// A process of `fathometer serve` on a free port. Dropping the value kills the process.
pub struct OwnOrigin {
    child: Child,
    /// The pipe from which the line with the address is read. It is open until the origin exits.
    output: BufReader<ChildStdout>,
    /// The URL of requests to the origin.
    pub url: String,
    _folder: Option<Scratch>,
}

impl OwnOrigin {
    /// Starts the origin.
    ///
    /// # Errors
    /// If the program cannot be started, or does not listen.
    pub fn start(options: OriginOptions<'_>) -> Result<OwnOrigin, OriginError> {
        let mut command = Command::new(std::env::current_exe()?);
        // The generator uses the other half of the processors.
        let threads = sched::processors().map_or(1, |processors| processors.len().div_ceil(2));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--threads"])
            .arg(threads.to_string());
        if options.is_secure {
            command.arg("--tls");
        }
        if options.is_over_quic {
            command.arg("--http3");
        }
        let (folder, path) = match options.workload {
            Some(workload) => {
                command.args(["--site", workload, "--seed", &options.seed.to_string()]);
                (None, String::new())
            }
            None => {
                // The request has the same length as a request to the server under test.
                let path = options.url.splitn(4, '/').nth(3).map_or(0, str::len);
                let name = "x".repeat(path.clamp(1, LONGEST_NAME));
                let folder = with_file(&name, options.response)?;
                command.arg(folder.path());
                (Some(folder), name)
            }
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().ok_or(OriginError::NotListening)?;
        let mut origin = OwnOrigin {
            child,
            output: BufReader::new(output),
            url: String::new(),
            _folder: folder,
        };
        let mut line = String::new();
        origin.output.read_line(&mut line)?;
        let base = line
            .split_whitespace()
            .last()
            .ok_or(OriginError::NotListening)?;
        origin.url = format!("{base}{path}");
        Ok(origin)
    }
}

impl Drop for OwnOrigin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a folder with one file.
fn with_file(name: &str, size: Bytes) -> io::Result<Scratch> {
    let folder = Scratch::new()?;
    let content = vec![b'x'; size.0.min(MOST_CONTENT) as usize];
    fs::write(folder.path().join(name), content)?;
    Ok(folder)
}

/// The maximum size of the origin's file, in bytes.
const MOST_CONTENT: u64 = 64 << 20;
