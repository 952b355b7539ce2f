//! Stores contents temporarily on disk instead of in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::PackageError;

/// An unnamed file to which contents are written one after another. The system removes it after its last use.
#[derive(Debug)]
pub struct Spool {
    file: Arc<File>,
    folder: PathBuf,
    length: u64,
}

/// A content in a spool.
#[derive(Debug, Clone)]
pub struct Spooled {
    file: Arc<File>,
    first: u64,
    length: u64,
}

impl Spool {
    /// Creates a spool in the system's temporary folder.
    pub fn new() -> Result<Spool, PackageError> {
        let folder = std::env::temp_dir();
        let file = create(&folder).map_err(PackageError::system("make a file in", &folder))?;
        Ok(Spool {
            file: Arc::new(file),
            folder,
            length: 0,
        })
    }

    /// Adds a content.
    pub fn push(&mut self, content: &[u8]) -> Result<Spooled, PackageError> {
        self.file
            .write_all_at(content, self.length)
            .map_err(PackageError::system("write to", &self.folder))?;
        let spooled = Spooled {
            file: Arc::clone(&self.file),
            first: self.length,
            length: content.len() as u64,
        };
        self.length += spooled.length;
        Ok(spooled)
    }
}

impl Spooled {
    /// Reads bytes from `offset` on, up to the length of `room`; returns 0 at the end.
    pub fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = room.len().min(left);
        self.file.read_at(&mut room[..most], self.first + offset)
    }
}

/// Creates a file without a name.
fn create(folder: &std::path::Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(file.into()),
        // The file system does not support O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let path = folder.join(format!(".fathometer-{}.spool", std::process::id()));
    let file = openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    unlinkat(CWD, &path, rustix::fs::AtFlags::empty())?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_by_themselves() {
        let mut spool = Spool::new().unwrap();
        let contents: Vec<Spooled> = [&b"first"[..], b"", b"second"]
            .into_iter()
            .map(|content| spool.push(content).unwrap())
            .collect();
        drop(spool);
        let mut room = [0; 4];
        assert_eq!(contents[0].read_at(&mut room, 3).unwrap(), 2);
        assert_eq!(&room[..2], b"st");
        assert_eq!(contents[1].read_at(&mut room, 0).unwrap(), 0);
        assert_eq!(contents[2].read_at(&mut room, 0).unwrap(), 4);
        assert_eq!(&room, b"seco");
        assert_eq!(contents[2].read_at(&mut room, 9).unwrap(), 0);
    }
}
