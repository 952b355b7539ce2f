//! The data built into the binary: papers, path profiles, eras, servers under test.
//!
//! A path on disk always takes precedence over an embedded file, so that a user's own profile or study does not
//! require a rebuild.

use std::fs;
use std::path::Path;

use crate::nearest;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Returns the text of an embedded file, by its path in the repository (`paths/ppp.toml`).
pub fn embedded(name: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(path, _)| *path == name)
        .map(|(_, text)| *text)
}

/// Returns the names of the embedded items of a folder: `paths` has `lan`, `ppp`, …; `papers` has `nielsen97`, ….
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

/// Why a named item is not available.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The name is neither the path of a file nor the name of a built-in item.
    #[error(
        "there is no {what} named {name:?}: give the path of a TOML file, or one of {known}{hint}"
    )]
    Unknown {
        /// The kind of item (`path profile`).
        what: &'static str,
        /// The given name.
        name: String,
        /// The nearest known name as a question (`did you mean …?`), or an empty text.
        hint: String,
        /// The known names.
        known: String,
    },
    /// The file exists but cannot be read.
    #[error("failed to read {path}: {error}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

impl DataError {
    /// Whether this is a usage error: the given name is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, DataError::Unknown { .. })
    }

    /// Returns the error for an unknown name, which lists the known names.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> DataError {
        DataError::Unknown {
            what,
            name: name.to_owned(),
            hint: nearest::suggestion(name, known.clone()),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}

/// Whether a name is the path of a file or folder, not the name of an item.
pub fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// Reads the text of the item `name` of `folder`. If `name` ends in `.toml` or contains a slash, reads that file on
/// disk, otherwise the embedded file.
pub fn load(folder: &str, what: &'static str, name: &str) -> Result<String, DataError> {
    if is_path(name) {
        return fs::read_to_string(Path::new(name)).map_err(|error| DataError::Unreadable {
            path: name.to_owned(),
            error,
        });
    }
    embedded(&format!("{folder}/{name}.toml"))
        .map(str::to_owned)
        .ok_or_else(|| DataError::unknown(what, name, names(folder).into_iter()))
}
