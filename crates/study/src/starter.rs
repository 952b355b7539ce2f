//! Writes the starting point of a new study: a folder with a commented study that runs without changes.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fathometer_lab::data;

/// The files of the folder. In their text, the study's name replaces [`NAME`].
const FILES: [(&str, &str); 5] = [
    ("study.toml", include_str!("starter/study.toml")),
    ("tables.toml", include_str!("starter/tables.toml")),
    ("claims.toml", include_str!("starter/claims.toml")),
    ("figures.csv", include_str!("starter/figures.csv")),
    (
        "paths/office.toml",
        include_str!("starter/paths/office.toml"),
    ),
];

/// The placeholder for the study's name.
const NAME: &str = "NAME";

/// The reason why a starting point could not be written.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The name is not valid as the name of a study.
    #[error(
        "{0:?} cannot be the name of a study: write letters, digits, hyphens and underscores, as in my-study"
    )]
    Name(String),
    /// A built-in study has this name.
    #[error("{0:?} is the name of a built-in study; choose another name")]
    BuiltIn(String),
    /// A file or folder with this path exists.
    #[error("{path} exists already; choose another name, or remove it", path = .0.display())]
    Exists(PathBuf),
    /// A file could not be written.
    #[error("cannot write {path}: {error}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl StarterError {
    /// Whether this is a usage error: the given name cannot be used.
    pub fn is_usage(&self) -> bool {
        matches!(self, StarterError::Name(_) | StarterError::BuiltIn(_))
    }
}

/// Writes a new study to a new folder. The folder's name is the study's name. No file is overwritten.
///
/// # Errors
/// When the name cannot be used, the folder exists already, or a file cannot be written.
pub fn write(folder: &Path) -> Result<(), StarterError> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_allowed)
    });
    let Some(name) = name else {
        return Err(StarterError::Name(folder.display().to_string()));
    };
    if data::names("papers").contains(&name) {
        return Err(StarterError::BuiltIn(name.to_owned()));
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => StarterError::Exists(path),
            _ => StarterError::Write { path, error },
        }
    };
    // The call fails if the path exists, so that no file of the user is changed.
    fs::create_dir(folder).map_err(failed(folder))?;
    for (file, text) in FILES {
        let path = folder.join(file);
        let parent = path.parent().expect("the file is below the folder");
        fs::create_dir_all(parent).map_err(failed(parent))?;
        let mut options = fs::OpenOptions::new();
        let mut written = options
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(failed(&path))?;
        let text = text.replace(NAME, name);
        written.write_all(text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::StudyFiles;
    use fathometer_analysis::run::Mode;
    use fathometer_lab::catalog::Item;

    #[test]
    fn a_new_study_is_complete_and_refers_to_its_own_path() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("my-study");
        write(&folder).unwrap();
        let files = StudyFiles::of(folder.to_str().unwrap()).unwrap();
        let study = files.study().unwrap();
        assert_eq!(study.name, "my-study");
        assert_eq!(study.cells(Mode::Quick).unwrap().len(), 4);
        assert_eq!(study.cells(Mode::Full).unwrap().len(), 4);
        let data = files.data().unwrap().unwrap();
        assert_eq!((data.tables.len(), data.claims.len()), (1, 1));
        let office = files.catalog().find(Item::Path, "office").unwrap();
        let text = fs::read_to_string(&office).unwrap();
        fathometer_path::Profile::from_toml(&text, &office).unwrap();
        for (file, _) in FILES {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.contains(NAME), "{file}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_a_name_must_be_free() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mine");
        write(&folder).unwrap();
        fs::write(folder.join("study.toml"), "edited").unwrap();
        assert!(matches!(write(&folder), Err(StarterError::Exists(_))));
        let kept = fs::read_to_string(folder.join("study.toml")).unwrap();
        assert_eq!(kept, "edited");
        let built_in = place.path().join("nielsen97");
        assert!(matches!(write(&built_in), Err(StarterError::BuiltIn(_))));
        for wrong in ["..", "a b", "-x", "a/é"] {
            let folder = place.path().join(wrong);
            assert!(
                matches!(write(&folder), Err(StarterError::Name(_))),
                "{wrong}"
            );
        }
        assert!(!place.path().join("nielsen97").exists());
    }
}
