//! The destination of a package: stdout, or a file that appears only when it is complete.

use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fathometer_sys::Interrupt;
use rustix::fs::CWD;
use rustix::io::Errno;

use super::PackageError;
use super::flow::{CHUNK, Flow};
use super::rename::rename;

/// A package that is being written. Its file is removed if the value is dropped before it is
/// [finished](Output::finish).
#[derive(Debug)]
pub struct Output {
    flow: Flow,
    /// Device and inode of the file that is being written, and of the file that will be replaced.
    identities: Vec<(u64, u64)>,
    buffer: Vec<u8>,
    written: u64,
    file: Option<NewFile>,
}

/// A file with a temporary name until it is complete.
#[derive(Debug)]
struct NewFile {
    now: PathBuf,
    then: PathBuf,
    overwrite: bool,
    renamed: bool,
}

impl Output {
    /// Writes to stdout, unless stdout is a terminal.
    pub fn stdout(interrupt: Interrupt) -> Result<Output, PackageError> {
        let flow = Flow::stdout(interrupt)?;
        if flow.is_terminal() {
            return Err(PackageError::Source(
                "stdout is a terminal: give --output FILE, or redirect stdout to a file or a pipe"
                    .to_owned(),
            ));
        }
        Ok(Output::to(flow, None))
    }

    /// Writes to a temporary file, which gets the name `path` when it is complete.
    pub fn file(
        path: &Path,
        overwrite: bool,
        interrupt: Interrupt,
    ) -> Result<Output, PackageError> {
        if path.is_dir() {
            return Err(PackageError::IsFolder(path.to_owned()));
        }
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(PackageError::Exists(path.to_owned()));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        // File names are limited to 255 bytes, including the suffix below.
        if name.len() > 200 {
            name = "package".into();
        }
        name.push(format!(".{}.partial", std::process::id()));
        let now = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&now)
            .map_err(PackageError::system("make", &now))?;
        let new = NewFile {
            now,
            then: path.to_owned(),
            overwrite,
            renamed: false,
        };
        Ok(Output::to(Flow::new(file, path, interrupt)?, Some(new)))
    }

    fn to(flow: Flow, file: Option<NewFile>) -> Output {
        let replaced = file.as_ref().map(|file| file.then.metadata());
        let known = [Some(flow.descriptor().metadata()), replaced];
        let identities = known.into_iter().flatten().flatten();
        Output {
            identities: identities.map(|data| (data.dev(), data.ino())).collect(),
            flow,
            buffer: Vec::with_capacity(CHUNK),
            written: 0,
            file,
        }
    }

    /// Returns the path for messages.
    pub fn path(&self) -> &Path {
        self.flow.path()
    }

    /// Returns whether this is the output file, or the file that the output will replace.
    pub fn is(&self, other: &Metadata) -> bool {
        self.identities.contains(&(other.dev(), other.ino()))
    }

    /// Returns the number of bytes until now.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes these bytes, possibly through the buffer.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackageError> {
        let is_large = bytes.len() >= CHUNK / 2;
        if is_large || self.buffer.len() + bytes.len() > CHUNK {
            self.flush()?;
        }
        if is_large {
            self.flow.write(bytes)?;
            self.written += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes the buffered bytes.
    pub fn flush(&mut self) -> Result<(), PackageError> {
        self.flow.write(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the remaining bytes, and renames the file to its final name. Returns the number of bytes of the
    /// package.
    pub fn finish(mut self) -> Result<u64, PackageError> {
        self.flush()?;
        if let Some(file) = &mut self.file {
            file.rename()?;
        }
        Ok(self.written)
    }
}

impl NewFile {
    fn rename(&mut self) -> Result<(), PackageError> {
        let (now, then) = (self.now.as_os_str(), self.then.as_os_str());
        match rename(CWD, now, then, self.overwrite) {
            Err(Errno::EXIST) => return Err(PackageError::Exists(self.then.clone())),
            result => {
                result.map_err(|error| PackageError::system("write", &self.then)(error.into()))?;
            }
        }
        self.renamed = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.renamed {
            // If this file cannot be removed, its name marks it as incomplete.
            let _ = fs::remove_file(&self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.objp");
        let interrupt = Interrupt::install().unwrap();
        let mut output = Output::file(&path, false, interrupt).unwrap();
        output.write(b"package").unwrap();
        fs::write(&path, "another").unwrap();
        let error = output.finish().unwrap_err();
        assert!(matches!(error, PackageError::Exists(_)), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
