//! The folder of a copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::not_written;
use crate::{Failure, usage};

/// Checks the destination, and creates a temporary folder in which the copy is written until it is complete.
pub fn prepare(folder: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let shown = out.display();
    match fs::read_dir(out) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(usage(format!("{shown} is not empty; use a new folder")));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(usage(format!("cannot write to {shown}: {error}"))),
    }
    let Some(name) = out.file_name() else {
        return Err(usage(format!(
            "{shown} has no folder name; use a new folder"
        )));
    };
    let mut name = name.to_owned();
    name.push(".incomplete");
    let partial = out.with_file_name(name);
    fs::create_dir(&partial).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let left = partial.display();
            usage(format!(
                "{left} remains from an interrupted copy; remove it"
            ))
        }
        _ => not_written(&partial, &error),
    })?;
    let is_inside = || -> io::Result<bool> {
        Ok(fs::canonicalize(&partial)?.starts_with(fs::canonicalize(folder)?))
    };
    match is_inside() {
        Ok(false) => Ok(partial),
        Ok(true) => {
            fs::remove_dir(&partial)?;
            Err(usage(format!(
                "{shown} is inside the site; use a folder outside"
            )))
        }
        Err(error) => {
            fs::remove_dir(&partial)?;
            let folder = folder.display();
            Err(format!("cannot read the folder {folder}: {error}").into())
        }
    }
}
