//! TLS key log files, which Wireshark needs to decrypt a capture.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fathometer_tls::KeyLogSink;

/// A key log file. It is for laboratories only: a reader of the file can decrypt all traffic.
#[derive(Debug)]
pub struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Opens a file for appending. A new file is readable only by its owner.
    pub fn open(path: &Path) -> io::Result<Arc<KeyLogFile>> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        Ok(Arc::new(KeyLogFile(Mutex::new(file))))
    }

    /// Opens the file that the environment variable `SSLKEYLOGFILE` names; `None` if the variable is not set.
    pub fn of_environment() -> Option<io::Result<Arc<KeyLogFile>>> {
        let path = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty())?;
        Some(KeyLogFile::open(Path::new(&path)))
    }
}

impl KeyLogSink for KeyLogFile {
    fn line(&self, line: &str) {
        let line = format!("{line}\n");
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A failure to write the log must not end the connection.
        let _ = file.write_all(line.as_bytes());
    }
}
