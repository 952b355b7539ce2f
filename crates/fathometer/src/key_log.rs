//! Files of key logs, from which Wireshark decrypts a capture.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fathometer_tls::KeyLogSink;

/// A file that secrets are written to. Whoever reads it can read everything: it is for laboratories.
#[derive(Debug)]
pub struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Appends to a file, which is made, for its owner alone, when there is none.
    pub fn open(path: &Path) -> io::Result<Arc<KeyLogFile>> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        Ok(Arc::new(KeyLogFile(Mutex::new(file))))
    }

    /// The file that the variable `SSLKEYLOGFILE` names, if it names one.
    pub fn of_environment() -> Option<io::Result<Arc<KeyLogFile>>> {
        let path = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty())?;
        Some(KeyLogFile::open(Path::new(&path)))
    }
}

impl KeyLogSink for KeyLogFile {
    fn line(&self, line: &str) {
        let line = format!("{line}\n");
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written must not end what is logged.
        let _ = file.write_all(line.as_bytes());
    }
}
