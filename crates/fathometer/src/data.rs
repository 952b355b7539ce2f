//! The data that the binary carries: papers, path profiles, eras, servers under test.
//!
//! A file named by a path on disk always wins over an embedded one, so that a user's own profile
//! or study needs no rebuilding.

use std::fs;
use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The text of an embedded file, by its path in the repository (`paths/ppp.toml`).
pub fn embedded(name: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(path, _)| *path == name)
        .map(|(_, text)| *text)
}

/// The names of the embedded items of a folder: `paths` gives `lan`, `ppp`, …; `papers` gives
/// `nielsen97`, ….
pub fn names(folder: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES
        .iter()
        .filter_map(|(path, _)| path.strip_prefix(folder)?.strip_prefix('/'))
        .map(|rest| rest.split_once('/').map_or(rest, |(name, _)| name))
        .map(|name| name.strip_suffix(".toml").unwrap_or(name))
        .filter(|name| !name.ends_with(".md"))
        .collect();
    names.dedup();
    names
}

/// Why a named item could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Neither a file on disk nor a built-in name.
    #[error("there is no {what} named {name:?}: give the path of a TOML file, or one of {known}")]
    Unknown {
        /// What was looked for (`path profile`).
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// The file is there and cannot be read.
    #[error("failed to read {path}: {error}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// The text of the item `name` of `folder`: a file on disk when `name` ends in `.toml` or has a
/// slash in it, else the embedded one.
pub fn load(folder: &str, what: &'static str, name: &str) -> Result<String, DataError> {
    if name.ends_with(".toml") || name.contains('/') {
        return fs::read_to_string(Path::new(name)).map_err(|error| DataError::Unreadable {
            path: name.to_owned(),
            error,
        });
    }
    embedded(&format!("{folder}/{name}.toml"))
        .map(str::to_owned)
        .ok_or_else(|| DataError::Unknown {
            what,
            name: name.to_owned(),
            known: names(folder).join(", "),
        })
}
