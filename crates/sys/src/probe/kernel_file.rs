//! Files of `/proc` that are opened once and read repeatedly.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Doing, Result};

/// A file whose text the kernel generates each time it is read from its beginning. A file below `/proc/thread-self/net`
/// always shows the namespace of the thread that opened it, even if another thread reads it.
#[derive(Debug)]
pub(super) struct KernelFile {
    file: File,
    /// The buffer for the text. It grows until the text fits with spare room.
    buffer: Vec<u8>,
}

impl KernelFile {
    pub(super) fn open(path: &str) -> Result<KernelFile> {
        Ok(KernelFile {
            file: File::open(path).doing(format!("open {path}"))?,
            buffer: vec![0; 4096],
        })
    }

    /// Opens a file that some kernels do not have.
    pub(super) fn open_if_there(path: &str) -> Option<KernelFile> {
        KernelFile::open(path).ok()
    }

    /// Reads the current text.
    pub(super) fn read(&mut self) -> io::Result<&str> {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let more = self.file.read_at(&mut self.buffer[filled..], filled as u64);
            match more {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        str::from_utf8(&self.buffer[..filled]).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// Reads the text of an optional file; empty if the file does not exist or cannot be read.
pub(super) fn text(file: &mut Option<KernelFile>) -> &str {
    file.as_mut()
        .and_then(|file| file.read().ok())
        .unwrap_or_default()
}

/// Returns the first number after this key in the line that starts with the key: `ctxt 123`.
pub(super) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let rest = rest.strip_prefix([' ', ':', '\t'])?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// Returns the difference between two readings of a counter; `None` if the counter decreased, that is, was reset.
pub(super) fn counted(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    now?.checked_sub(then?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_file_is_reread_from_one_descriptor() {
        let mut file = KernelFile::open("/proc/self/stat").unwrap();
        let first = file.read().unwrap().to_owned();
        assert!(first.starts_with(&format!("{} (", std::process::id())));
        assert!(first.ends_with('\n'));
        // This file is longer than one page, the maximum that the kernel returns per read.
        let mut long = KernelFile::open("/proc/self/smaps").unwrap();
        for _ in 0..20 {
            let text = long.read().unwrap();
            assert!(text.len() > 8192, "{}", text.len());
            assert!(text.trim_end().lines().last().unwrap().contains(':'));
        }
        assert!(long.buffer.len() < 10 << 20, "it has grown more than once");
    }

    #[test]
    fn keys_are_whole_words() {
        let text = "processes 5\nprocs_running 2\nVmRSS:\t  128 kB\n";
        assert_eq!(value(text, "processes"), Some(5));
        assert_eq!(value(text, "procs"), None);
        assert_eq!(value(text, "VmRSS"), Some(128));
        assert_eq!(value(text, "absent"), None);
        assert_eq!(counted(Some(5), Some(3)), Some(2));
        assert_eq!(counted(Some(3), Some(5)), None);
        assert_eq!(counted(None, Some(5)), None);
    }
}
