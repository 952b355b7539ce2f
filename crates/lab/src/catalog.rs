//! The catalog in which the names of a study are looked up: first the study's folder, then the data built into the
//! program.
//!
//! A study's folder may contain `paths/NAME.toml`, `eras/NAME.toml` and `servers/NAME/server.toml`. The level `NAME`
//! then refers to that file. A level with a slash or the ending `.toml` is a path. Paths, also of workload files
//! (`log:FILE`), are relative to the study's folder. If the study's folder has no such file, they are relative to the
//! current directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::data::{self, DataError};

/// A kind of item that a study names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A path profile.
    Path,
    /// An era.
    Era,
    /// A server under test.
    Server,
}

impl Item {
    fn folder(self) -> &'static str {
        match self {
            Item::Path => "paths",
            Item::Era => "eras",
            Item::Server => "servers",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Item::Path => "path profile",
            Item::Era => "era",
            Item::Server => "server",
        }
    }

    /// Returns the path of an item, relative to the folder of all items of its kind.
    fn file(self, name: &str) -> PathBuf {
        match self {
            Item::Path | Item::Era => PathBuf::from(format!("{name}.toml")),
            Item::Server => Path::new(name).join("server.toml"),
        }
    }
}

/// The folders in which names are looked up.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    own: Option<PathBuf>,
}

impl Catalog {
    /// A catalog of the built-in data only.
    pub fn built_in() -> Catalog {
        Catalog::default()
    }

    /// A catalog of a study's folder and the built-in data.
    pub fn of(folder: &Path) -> Catalog {
        Catalog {
            own: Some(folder.to_owned()),
        }
    }

    /// Returns the reference with which an item is loaded ([`data::load`], [`Era::load`](crate::era::Era::load),
    /// [`Definition::load`](crate::server::definition::Definition::load)): the path of its file, or the name of a
    /// built-in item.
    ///
    /// # Errors
    /// When neither the study's folder nor the built-in data has an item of this name.
    pub fn find(&self, item: Item, name: &str) -> Result<String, DataError> {
        if data::is_path(name) {
            return Ok(self.path(name));
        }
        let own = self.own.as_ref().map(|own| own.join(item.folder()));
        let file = own.as_ref().map(|own| own.join(item.file(name)));
        if let Some(file) = file.filter(|file| file.is_file()) {
            return Ok(file.display().to_string());
        }
        let built_in = data::names(item.folder());
        if built_in.contains(&name) {
            return Ok(name.to_owned());
        }
        let mut known: Vec<String> = own.map(|own| names_in(&own)).unwrap_or_default();
        known.extend(built_in.into_iter().map(str::to_owned));
        let known = known.iter().map(String::as_str);
        Err(DataError::unknown(item.title(), name, known))
    }

    /// Returns a workload's name. For `log:FILE`, the path of the file is resolved.
    pub fn workload(&self, name: &str) -> String {
        match name.split_once(':') {
            Some((kind, file)) => format!("{kind}:{}", self.path(file)),
            None => name.to_owned(),
        }
    }

    /// Resolves the path of a file that the study names: in the study's folder, if the file exists there.
    fn path(&self, name: &str) -> String {
        let own = self.own.as_ref().map(|own| own.join(name));
        match own.filter(|path| path.exists()) {
            Some(path) => path.display().to_string(),
            None => name.to_owned(),
        }
    }
}

/// Returns the names of the items in a folder.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| name.strip_suffix(".toml").unwrap_or(&name).to_owned())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_the_studys_folder_takes_precedence_over_a_built_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path.display().to_string()
        };
        let office = write("paths/office.toml");
        let lan = write("paths/lan.toml");
        let server = write("servers/mine/server.toml");
        let log = write("access.log");
        let catalog = Catalog::of(folder.path());
        assert_eq!(catalog.find(Item::Path, "office").unwrap(), office);
        assert_eq!(catalog.find(Item::Path, "lan").unwrap(), lan);
        assert_eq!(catalog.find(Item::Path, "wan").unwrap(), "wan");
        assert_eq!(catalog.find(Item::Server, "mine").unwrap(), server);
        assert_eq!(catalog.find(Item::Path, "./paths/office.toml").unwrap(), {
            let path = folder.path().join("./paths/office.toml");
            path.display().to_string()
        });
        assert_eq!(catalog.find(Item::Era, "no/such").unwrap(), "no/such");
        assert_eq!(catalog.workload("log:access.log"), format!("log:{log}"));
        assert_eq!(catalog.workload("surge:files=9"), "surge:files=9");
        assert_eq!(catalog.workload("microscape"), "microscape");
        let built_in = Catalog::built_in();
        assert_eq!(built_in.find(Item::Path, "lan").unwrap(), "lan");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_of_both_places() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("paths")).unwrap();
        fs::write(folder.path().join("paths/office.toml"), "").unwrap();
        let catalog = Catalog::of(folder.path());
        for (name, nearest) in [("ofice", "office"), ("wann", "wan")] {
            let error = catalog.find(Item::Path, name).unwrap_err().to_string();
            assert!(
                error.contains(&format!("did you mean {nearest:?}?")),
                "{error}"
            );
            assert!(error.contains("office, "), "{error}");
        }
    }
}
