//! Reads the files of a folder, as the source of a package.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};

use super::{PackageError, name};

/// A folder whose files are packed.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// The files in a folder.
#[derive(Debug, Default)]
pub struct Files {
    /// The files: name in the package and path relative to the folder, in ascending order of the names.
    pub files: Vec<(String, PathBuf)>,
    /// The entries that are excluded, with the reason.
    pub left_out: Vec<String>,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> Result<Folder, PackageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| PackageError::system("open the folder", path)(error.into()))?;
        Ok(Folder {
            descriptor,
            path: path.to_owned(),
        })
    }

    /// Returns the path of a file in the folder, for messages.
    pub fn shown(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// Opens a regular file in the folder, without blocking if the file was replaced by a pipe. Also returns the
    /// metadata.
    pub fn file(&self, path: &Path) -> Result<(File, Metadata), PackageError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let open = || {
            let file = File::from(openat(&self.descriptor, path, flags, Mode::empty())?);
            let data = file.metadata()?;
            match data.is_file() {
                true => Ok((file, data)),
                false => Err(io::Error::other("it is not a regular file")),
            }
        };
        open().map_err(PackageError::system("open", &self.shown(path)))
    }

    /// Finds all regular files below the folder, and files within the folder to which symbolic links refer. Links to
    /// folders are not followed.
    pub fn files(&self) -> Result<Files, PackageError> {
        let mut found = Files::default();
        let root = self
            .path
            .canonicalize()
            .map_err(PackageError::system("open the folder", &self.path))?;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let whole = self.path.join(&folder);
            let failed = || PackageError::system("read the folder", &whole);
            for entry in fs::read_dir(&whole).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                let path = folder.join(entry.file_name());
                let kind = entry
                    .file_type()
                    .map_err(PackageError::system("examine", &self.shown(&path)))?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file()
                    || (kind.is_symlink() && stays_within(&root, &entry.path()))
                {
                    found
                        .files
                        .extend(name::of_path(&path).map(|name| (name, path)));
                } else {
                    let why = match kind.is_symlink() {
                        true => {
                            "a symbolic link that is broken, or refers to a folder or to a file outside"
                        }
                        false => "neither a file nor a folder",
                    };
                    let path = self.shown(&path);
                    found.left_out.push(format!("{} is {why}", path.display()));
                }
            }
        }
        found.files.sort();
        Ok(found)
    }
}

fn stays_within(root: &Path, link: &Path) -> bool {
    link.canonicalize()
        .is_ok_and(|real| real.starts_with(root) && real.is_file())
}
