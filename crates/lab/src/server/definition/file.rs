//! Reads the file of a definition, and merges it over the definitions on which it is based.

use std::fs;
use std::path::Path;

use super::DefinitionError;
use crate::data::{self, DataError, is_path};

/// Reads a definition, and merges it over the definition on which it is based. Adds the files that were read to
/// `texts`.
pub(super) fn table(
    name: &str,
    texts: &mut Vec<(String, String)>,
) -> Result<toml::Table, DefinitionError> {
    let file = file_of(name);
    let text = if is_path(name) {
        fs::read_to_string(&file).map_err(|error| DataError::Unreadable {
            path: file.clone(),
            error,
        })?
    } else {
        data::embedded(&file).map(str::to_owned).ok_or_else(|| {
            let known = data::names("servers");
            DataError::unknown("server", name, known.into_iter())
        })?
    };
    let mut own: toml::Table = toml::from_str(&text).map_err(|error| DefinitionError::Syntax {
        file: file.clone(),
        error,
    })?;
    texts.push((file.clone(), text));
    if is_path(name) {
        // Names are relative to this file. They are resolved here, because later code does not have the folder.
        if let Some(toml::Value::String(other)) = own.get_mut("based_on") {
            *other = seen_from(&file, other);
        }
        if let Some(toml::Value::String(other)) = behind_of(&mut own) {
            *other = seen_from(&file, other);
        }
    }
    let Some(base) = own.get("based_on").and_then(toml::Value::as_str) else {
        return Ok(own);
    };
    if texts.iter().any(|(before, _)| *before == file_of(base)) {
        return Err(DefinitionError::Nonsense {
            file,
            reason: "it is based on itself".to_owned(),
        });
    }
    let mut merged = table(base, texts)?;
    overlay(&mut merged, own);
    Ok(merged)
}

/// Returns the file that contains the definition of this name.
pub(super) fn file_of(name: &str) -> String {
    match is_path(name) {
        false => format!("servers/{name}/server.toml"),
        true if Path::new(name).is_dir() => {
            Path::new(name).join("server.toml").display().to_string()
        }
        true => name.to_owned(),
    }
}

/// Returns the value of `behind`: the name of the program behind this program.
fn behind_of(own: &mut toml::Table) -> Option<&mut toml::Value> {
    own.get_mut("program")?.as_table_mut()?.get_mut("behind")
}

/// Resolves a reference to another server in a definition on disk. The reference is a path relative to the definition's
/// folder, or the name of a server in a sibling folder. Any other name refers to a built-in server. A definition's own
/// name also refers to the built-in server, because a definition may change the built-in definition of the same name.
fn seen_from(file: &str, other: &str) -> String {
    let Some(folder) = Path::new(file).parent() else {
        return other.to_owned();
    };
    let path = match is_path(other) {
        true => folder.join(other),
        false => folder.join("..").join(other).join("server.toml"),
    };
    // Canonical paths reveal a definition that is based on itself.
    let Ok(path) = path.canonicalize() else {
        return other.to_owned();
    };
    let is_itself = Path::new(file)
        .canonicalize()
        .is_ok_and(|file| file == path);
    match is_itself && !is_path(other) {
        true => other.to_owned(),
        false => path.display().to_string(),
    }
}

/// Merges `above` into `below`: nested tables are merged, and other values of `above` replace the values of `below`.
fn overlay(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}
