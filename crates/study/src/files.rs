//! The files of a study: the study itself, and the files that define its tables, claims and figures.
//!
//! A study given by name is built into the program. A study given by path is read together with the files in its
//! folder, never with the built-in files of a study of the same name. Its files are copied into the run (`study/`), so
//! that `fathometer report` uses the same files later.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathometer_analysis::run::RunInfo;
use fathometer_analysis::study::{StudyData, StudySources};

use super::kinds;
use super::spec::{SpecError, Study};
use crate::run_folder::{RunFolder, WriteError};
use fathometer_files::sha256;
use fathometer_lab::catalog::Catalog;
use fathometer_lab::data::{self, DataError};
use fathometer_lab::nearest::with_suggestion;

/// The name of the study's own file in its folder and in a run.
const STUDY: &str = "study.toml";

/// The files that define a study's tables, claims and published figures. A study has either all of these files or none.
const JUDGING: [&str; 3] = ["tables.toml", "claims.toml", "figures.csv"];

/// The folder in a run for the files of a study given by path.
const KEPT: &str = "study";

/// The files of a study as text.
#[derive(Debug, Clone)]
pub struct StudyFiles {
    /// `study.toml`.
    study: String,
    /// The files of [`JUDGING`], in the same order; `None` if the study has no such files.
    judging: Option<[String; 3]>,
    /// The file `claims-published.csv` of a built-in study, if this file exists.
    published_claims: Option<String>,
    /// The folder from which the files were read; `None` for a built-in study.
    folder: Option<PathBuf>,
}

/// The reason why a study's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The study does not exist or cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// `study.toml` is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A file exists but cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Some of the files for tables, claims and figures are missing.
    #[error(
        "{folder} has {there} but not {missing}: a study needs all of them or none; add the missing files, or move \
         the study to its own folder",
        folder = folder.display()
    )]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// The files that exist.
        there: String,
        /// The files that are missing.
        missing: String,
    },
    /// The files are malformed, or contradict each other.
    #[error(
        "cannot judge the study by the files in {folder}: {error}; correct the file, or move the study to its \
         own folder",
        folder = folder.display(),
        error = with_suggestion(error)
    )]
    Judging {
        /// The folder.
        folder: PathBuf,
        /// The cause, with the name of the file.
        error: fathometer_analysis::Error,
    },
}

impl FilesError {
    /// Whether this is a usage error: the given name is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, FilesError::Data(error) if error.is_usage())
    }
}

impl StudyFiles {
    /// Reads the built-in study of this name, the study in this file, or the `study.toml` of this folder.
    ///
    /// A name is a path if it contains a slash, ends in `.toml`, or is the name of an existing file. The name of a
    /// folder with a `study.toml` is also a path, unless a built-in study has the same name.
    ///
    /// # Errors
    /// When there is no such study, or one of its files cannot be used.
    pub fn of(name: &str) -> Result<StudyFiles, FilesError> {
        let known = data::names("papers");
        let given = Path::new(name);
        let in_folder = given.join(STUDY);
        let is_folder = in_folder.is_file() && !known.contains(&name);
        if !(data::is_path(name) || given.is_file() || is_folder) {
            return StudyFiles::embedded(name).ok_or_else(|| {
                FilesError::Data(DataError::unknown("study", name, known.into_iter()))
            });
        }
        let path = match given.is_dir() {
            true => in_folder.as_path(),
            false => given,
        };
        let study = fs::read_to_string(path).map_err(|error| FilesError::Unreadable {
            path: path.to_owned(),
            error,
        })?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let files = StudyFiles::with_judging(study, folder)?;
        files.data()?;
        Ok(files)
    }

    /// Returns the study's files of a run: the copy in the run, or otherwise the built-in study of the same name.
    ///
    /// # Errors
    /// When the run's own files cannot be read.
    pub fn of_run(run: &Path, info: &RunInfo) -> Result<Option<StudyFiles>, FilesError> {
        let folder = run.join(KEPT);
        let path = folder.join(STUDY);
        match fs::read_to_string(&path) {
            Ok(study) => StudyFiles::with_judging(study, &folder).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(StudyFiles::embedded(&info.study))
            }
            Err(error) => Err(FilesError::Unreadable { path, error }),
        }
    }

    fn embedded(name: &str) -> Option<StudyFiles> {
        let file = |file: &str| data::embedded(&format!("papers/{name}/{file}")).map(str::to_owned);
        let [tables, claims, figures] = JUDGING.map(file);
        Some(StudyFiles {
            study: file(STUDY)?,
            published_claims: file("claims-published.csv"),
            judging: tables
                .zip(claims)
                .zip(figures)
                .map(|((tables, claims), figures)| [tables, claims, figures]),
            folder: None,
        })
    }

    fn with_judging(study: String, folder: &Path) -> Result<StudyFiles, FilesError> {
        let mut texts = Vec::new();
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for name in JUDGING {
            let path = folder.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => {
                    there.push(name);
                    texts.push(text);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(name),
                Err(error) => return Err(FilesError::Unreadable { path, error }),
            }
        }
        let judging = match <[String; 3]>::try_from(texts) {
            Ok(texts) => Some(texts),
            Err(none) if none.is_empty() => None,
            Err(_) => {
                return Err(FilesError::Incomplete {
                    folder: folder.to_owned(),
                    there: there.join(" and "),
                    missing: missing.join(" and "),
                });
            }
        };
        Ok(StudyFiles {
            study,
            judging,
            published_claims: None,
            folder: Some(folder.to_owned()),
        })
    }

    /// Parses the study and checks it against its kind.
    ///
    /// # Errors
    /// When the file is malformed, or contains an unknown factor or level.
    pub fn study(&self) -> Result<Study, SpecError> {
        let study = Study::parse(&self.study)?;
        kinds::check(&study)?;
        Ok(study)
    }

    /// Parses the tables, claims and figures; `None` if the study has no such files.
    ///
    /// # Errors
    /// When the files are malformed or contradict each other.
    pub fn data(&self) -> Result<Option<StudyData>, FilesError> {
        let Some([tables, claims, figures]) = &self.judging else {
            return Ok(None);
        };
        let sources = StudySources {
            tables,
            claims,
            figures,
        };
        let folder = || self.folder.clone().unwrap_or_else(|| "papers".into());
        StudyData::parse(sources)
            .and_then(|data| match &self.published_claims {
                Some(text) => data.with_published_claims(text),
                None => Ok(data),
            })
            .map(Some)
            .map_err(|error| FilesError::Judging {
                folder: folder(),
                error,
            })
    }

    /// Returns the catalog in which the names of the study are looked up.
    pub fn catalog(&self) -> Catalog {
        self.folder
            .as_deref()
            .map_or_else(Catalog::built_in, Catalog::of)
    }

    /// Returns the SHA-256 of each file, by name.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        self.texts()
            .map(|(name, text)| (name.to_owned(), sha256::of(text.as_bytes())))
            .collect()
    }

    /// Copies the files into the run, unless they are built in.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep(&self, run: &RunFolder) -> Result<(), WriteError> {
        if self.folder.is_none() {
            return Ok(());
        }
        run.subfolder(KEPT)?;
        self.texts()
            .try_for_each(|(name, text)| run.write(&format!("{KEPT}/{name}"), text.as_bytes()))
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let judging = self.judging.iter().flat_map(|texts| {
            let names = JUDGING.iter().copied();
            names.zip(texts.iter().map(String::as_str))
        });
        std::iter::once((STUDY, self.study.as_str())).chain(judging)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded(file: &str) -> &'static str {
        data::embedded(&format!("papers/nielsen97/{file}")).unwrap()
    }

    /// Copies a paper's study to a separate folder, and adds these files.
    fn copy(beside: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let study = folder.path().join("mine.toml");
        fs::write(&study, embedded(STUDY)).unwrap();
        for (name, text) in beside {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let name = study.to_str().unwrap().to_owned();
        (folder, name)
    }

    #[test]
    fn a_study_given_by_path_is_judged_by_the_files_beside_it_alone() {
        let (_folder, name) = copy(&[]);
        let alone = StudyFiles::of(&name).unwrap();
        assert_eq!(alone.study().unwrap().name, "nielsen97");
        assert!(alone.data().unwrap().is_none());
        let claims = embedded("claims.toml").replace("id = \"N01\"", "id = \"MINE\"");
        let (_folder, name) = copy(&[
            ("tables.toml", embedded("tables.toml")),
            ("claims.toml", &claims),
            ("figures.csv", embedded("figures.csv")),
        ]);
        let judged = StudyFiles::of(&name).unwrap();
        let data = judged.data().unwrap().unwrap();
        assert!(data.claims.iter().any(|claim| claim.id == "MINE"));
        let (ours, theirs) = (
            judged.hashes(),
            StudyFiles::of("nielsen97").unwrap().hashes(),
        );
        assert_eq!(ours["study.toml"], theirs["study.toml"]);
        assert_ne!(ours["claims.toml"], theirs["claims.toml"]);
    }

    #[test]
    fn a_folder_is_its_study_and_a_misspelt_name_is_refused_with_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().to_str().unwrap();
        let error = StudyFiles::of(name).unwrap_err().to_string();
        assert!(error.contains("study.toml"), "{error}");
        let text = embedded(STUDY).replace("name = \"nielsen97\"", "name = \"mine\"");
        fs::write(folder.path().join(STUDY), text).unwrap();
        let files = StudyFiles::of(name).unwrap();
        assert_eq!(files.study().unwrap().name, "mine");
        let error = StudyFiles::of("nielson97").unwrap_err().to_string();
        assert!(error.contains("did you mean \"nielsen97\"?"), "{error}");
    }

    #[test]
    fn files_beside_a_study_that_cannot_be_used_are_refused_by_name() {
        let (_folder, name) = copy(&[("claims.toml", "claim = 7")]);
        let error = StudyFiles::of(&name).unwrap_err().to_string();
        assert!(error.contains("claims.toml"), "{error}");
        assert!(error.contains("tables.toml and figures.csv"), "{error}");
        let whole = [
            ("tables.toml", embedded("tables.toml")),
            ("claims.toml", embedded("claims.toml")),
            ("figures.csv", embedded("figures.csv")),
        ];
        for (broken, text) in [("claims.toml", "claim = 7"), ("figures.csv", "a,b\n1,2\n")] {
            let beside = whole.map(|(name, good)| (name, if name == broken { text } else { good }));
            let (folder, name) = copy(&beside);
            let error = StudyFiles::of(&name).unwrap_err().to_string();
            assert!(error.contains(broken), "{error}");
            let folder = folder.path().display().to_string();
            assert!(error.contains(&folder), "{error}");
        }
    }

    #[test]
    fn a_run_keeps_the_files_of_a_study_that_does_not_come_with_the_program() {
        let (_folder, name) = copy(&[]);
        let place = tempfile::tempdir().unwrap();
        let run = RunFolder::create(place.path().join("run")).unwrap();
        StudyFiles::of("nielsen97").unwrap().keep(&run).unwrap();
        assert!(!run.path().join(KEPT).exists());
        StudyFiles::of(&name).unwrap().keep(&run).unwrap();
        assert_eq!(
            fs::read_to_string(run.path().join("study/study.toml")).unwrap(),
            embedded(STUDY)
        );
    }
}
