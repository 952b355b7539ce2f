//! `fathometer content`: what content codings, a shared dictionary and tags in lower case would save on a site.

mod table;
mod treatment;
mod walk;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_content::Dictionary;
use fathometer_sys::Clock;

use self::table::{Report, Row};
use self::treatment::{Sums, Treatment};
use self::walk::{NotRead, Walk};
use super::{Failure, usage};

/// Bytes of a dictionary: the default of the `zstd` program.
const DICTIONARY_BYTES: usize = 112_640;
/// Bytes of files that a dictionary is trained on: a hundred times its size, as zstd advises.
const SAMPLES_BYTES: usize = 100 * DICTIONARY_BYTES;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// Arguments of `content`.
#[derive(Debug, Args)]
pub struct ContentArguments {
    /// Folder of the site. Symbolic links in it are not followed
    folder: PathBuf,
    /// How many files to list, those with the largest saving first
    #[arg(long, default_value_t = 10)]
    files: usize,
    /// How many times to encode and decode each file, for the spread of the CPU time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    repeat: u8,
    /// Size in bytes above which a file is reported as an error and not treated
    #[arg(long, default_value_t = 64 << 20)]
    max_file: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A file and the least bytes that a treatment of it alone needs: ordered by the bytes saved.
type FileSaving = (u64, PathBuf, u64, usize);

/// Treats all files and prints what each treatment saves.
pub fn run(arguments: &ContentArguments) -> Result<ExitCode, Failure> {
    let mut site = Site::new(arguments);
    site.treat_files()?;
    if site.files == 0 && site.failed == 0 {
        let folder = arguments.folder.display();
        return Err(usage(format!(
            "{folder} has no files; name the folder of a site"
        )));
    }
    site.share_dictionary()?;
    let is_complete = site.failed == 0;
    let report = site.into_report();
    match arguments.json {
        true => println!("{:#}", serde_json::to_value(&report)?),
        false => print!("{report}"),
    }
    Ok(match is_complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// The state of one analysis. Its memory is bounded: files are handled one at a time, and only the samples of the
/// dictionary and the files to list are kept.
struct Site<'a> {
    arguments: &'a ContentArguments,
    files: u64,
    failed: u64,
    skipped: u64,
    bytes: u64,
    treated: Vec<(Treatment, Sums)>,
    largest: BinaryHeap<Reverse<FileSaving>>,
    samples: Vec<Vec<u8>>,
    samples_bytes: usize,
    dictionary_bytes: Option<usize>,
    notes: Vec<String>,
}

impl<'a> Site<'a> {
    fn new(arguments: &'a ContentArguments) -> Site<'a> {
        let sums = || Sums::new(usize::from(arguments.repeat));
        Site {
            arguments,
            files: 0,
            failed: 0,
            skipped: 0,
            bytes: 0,
            treated: treatment::of_single_files()
                .into_iter()
                .map(|one| (one, sums()))
                .collect(),
            largest: BinaryHeap::new(),
            samples: Vec::new(),
            samples_bytes: 0,
            dictionary_bytes: None,
            notes: Vec::new(),
        }
    }

    /// Calls the function for each file that can be read, and returns the entries that were skipped.
    fn each_file(
        arguments: &ContentArguments,
        stage: &str,
        mut treat: impl FnMut(Result<(PathBuf, Vec<u8>), NotRead>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let clock = Clock::start();
        let (mut reported, mut files) = (clock.now(), 0_u64);
        let folder = &arguments.folder;
        let mut walk = Walk::begin(folder)
            .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
        for path in walk.by_ref() {
            let file = path.and_then(|path| match walk::read(&path, arguments.max_file) {
                Ok(content) => Ok((path, content)),
                Err(error) => Err((path, error)),
            });
            treat(file)?;
            files += 1;
            if clock.now().since(reported) >= PROGRESS {
                eprintln!("{stage}: {files} files");
                reported = clock.now();
            }
        }
        Ok(walk.skipped)
    }

    fn treat_files(&mut self) -> Result<(), Failure> {
        self.skipped = Self::each_file(self.arguments, "codings", |file| {
            let (path, content) = match file {
                Ok(file) => file,
                Err((path, error)) => {
                    self.failed += 1;
                    eprintln!("cannot read {}: {error}", path.display());
                    return Ok(());
                }
            };
            self.treat(path, content)
        })?;
        Ok(())
    }

    fn treat(&mut self, path: PathBuf, content: Vec<u8>) -> Result<(), Failure> {
        let is_html = is_html(&path, &content);
        let mut best = (content.len() as u64, usize::MAX);
        for (index, (treatment, sums)) in self.treated.iter_mut().enumerate() {
            best = best.min((treatment.apply(&content, is_html, sums)?, index));
        }
        self.files += 1;
        self.bytes += content.len() as u64;
        let saved = content.len() as u64 - best.0;
        if saved > 0 {
            self.largest.push(Reverse((saved, path, best.0, best.1)));
            if self.largest.len() > self.arguments.files {
                self.largest.pop();
            }
            // A file that no coding makes smaller has nothing for a dictionary.
            if self.samples_bytes + content.len() <= SAMPLES_BYTES {
                self.samples_bytes += content.len();
                self.samples.push(content);
            }
        }
        Ok(())
    }

    /// Trains a dictionary on the site and treats all files with it, in a second pass.
    fn share_dictionary(&mut self) -> Result<(), Failure> {
        // At most a tenth of the samples: a dictionary with all of them in it would only move the bytes.
        let most = DICTIONARY_BYTES.min(self.samples_bytes / 10);
        let samples = std::mem::take(&mut self.samples);
        let dictionary = match Dictionary::train(&samples, most, 19) {
            Ok(dictionary) => dictionary,
            Err(error) => {
                self.notes.push(format!(
                    "no shared dictionary, the site is too small for one: {error}"
                ));
                return Ok(());
            }
        };
        drop(samples);
        let dictionary_bytes = dictionary.bytes().len();
        let treatment = Treatment::Shared(dictionary);
        let mut sums = Sums::new(usize::from(self.arguments.repeat));
        let mut bytes = 0;
        Self::each_file(self.arguments, "dictionary", |file| {
            // A file that cannot be read was reported in the first pass.
            if let Ok((_, content)) = file {
                bytes += content.len() as u64;
                treatment.apply(&content, false, &mut sums)?;
            }
            Ok(())
        })?;
        if bytes != self.bytes {
            self.notes
                .push("no shared dictionary: the site changed during the analysis".to_owned());
            return Ok(());
        }
        sums.bytes += dictionary_bytes as u64;
        self.dictionary_bytes = Some(dictionary_bytes);
        self.treated.push((treatment, sums));
        Ok(())
    }

    fn into_report(self) -> Report {
        let names: Vec<_> = self.treated.iter().map(|(one, _)| one.name()).collect();
        let largest = self.largest.into_sorted_vec();
        let mut treatments: Vec<_> = self
            .treated
            .into_iter()
            .map(|(treatment, sums)| Row::new(treatment.name(), self.bytes, sums))
            .collect();
        treatments.sort_by_key(|row| row.sums.bytes);
        Report {
            folder: self.arguments.folder.display().to_string(),
            files: self.files,
            files_failed: self.failed,
            entries_skipped: self.skipped,
            bytes: self.bytes,
            dictionary_bytes: self.dictionary_bytes,
            treatments,
            largest_savings: largest
                .into_iter()
                .map(|Reverse((saved, path, bytes, treatment))| table::FileRow {
                    path: path.display().to_string(),
                    bytes: bytes + saved,
                    treatment: names[treatment].clone(),
                    treated_bytes: bytes,
                })
                .collect(),
            notes: self.notes,
        }
    }
}

/// Whether the file is HTML by its name, and no mislabelled binary.
fn is_html(path: &Path, content: &[u8]) -> bool {
    let extension = path.extension().unwrap_or_default();
    let is_named = extension.eq_ignore_ascii_case("html") || extension.eq_ignore_ascii_case("htm");
    is_named && !content.contains(&0)
}
