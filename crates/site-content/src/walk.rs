//! Iterates over the regular files below a folder, one at a time.

use std::fs::{self, File, ReadDir};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The deepest nesting of folders that is read. Each open folder needs a file descriptor.
const DEEPEST: usize = 100;

/// An iteration over a folder. Memory depends on the depth of the folder, not on the number of its files. Symbolic
/// links are not followed, so the iteration always ends.
#[derive(Debug)]
pub struct Walk {
    open: Vec<(PathBuf, ReadDir)>,
    /// The number of symbolic links and other entries that are neither files nor folders.
    pub skipped: u64,
}

/// A file or folder that was not read, and the reason.
pub type NotRead = (PathBuf, io::Error);

impl Walk {
    /// Starts at the folder, which may be a symbolic link.
    pub fn begin(folder: &Path) -> io::Result<Walk> {
        let open = vec![(folder.to_owned(), fs::read_dir(folder)?)];
        Ok(Walk { open, skipped: 0 })
    }
}

impl Iterator for Walk {
    type Item = Result<PathBuf, NotRead>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (folder, entries) = self.open.last_mut()?;
            let entry = match entries.next() {
                None => {
                    self.open.pop();
                    continue;
                }
                // The kernel would report the same error again, so the iteration of this folder ends.
                Some(Err(error)) => {
                    let folder = folder.clone();
                    self.open.pop();
                    return Some(Err((folder, error)));
                }
                Some(Ok(entry)) => entry,
            };
            let path = entry.path();
            match entry.file_type() {
                Err(error) => return Some(Err((path, error))),
                Ok(kind) if kind.is_file() => return Some(Ok(path)),
                Ok(kind) if kind.is_dir() => {
                    if self.open.len() == DEEPEST {
                        let why = format!("it is more than {DEEPEST} folders deep");
                        return Some(Err((path, io::Error::other(why))));
                    }
                    match fs::read_dir(&path) {
                        Ok(entries) => self.open.push((path, entries)),
                        Err(error) => return Some(Err((path, error))),
                    }
                }
                Ok(_) => self.skipped += 1,
            }
        }
    }
}

/// Reads a file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // A file may grow while it is read, so the size in its metadata is not a limit.
    File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let why = format!("it is longer than {most} bytes (--max-file)");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed_and_deep_folders_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        std::os::unix::fs::symlink(folder.path(), deep.join("loop")).unwrap();
        fs::write(deep.join("page"), "x").unwrap();
        for _ in 0..DEEPEST {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("too-deep"), "x").unwrap();
        let mut walk = Walk::begin(folder.path()).unwrap();
        let (found, failed): (Vec<_>, Vec<_>) = walk.by_ref().partition(Result::is_ok);
        assert_eq!(found.len(), 1);
        assert_eq!(failed.len(), 1);
        assert_eq!(walk.skipped, 1);
    }

    #[test]
    fn a_file_over_the_limit_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(
            read(&file, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
