//! Analyses one site: all files with all treatments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::time::Duration;

use fathometer_analysis::content_page::{ImagePair, Replaced};
use fathometer_content::{Coding, Dictionary, KeptWhiteSpace};
use fathometer_sys::Clock;

use super::joined::{self, Joined};
use super::minified::{self, Minifiable, NotMinified};
use super::page_files::{JoinedSite, PageFiles};
#[cfg(feature = "images")]
use super::pictures;
#[cfg(not(feature = "images"))]
use super::small_images::SmallImages;
use super::source::{SiteFile, Source};
use super::table::{self, Report, Row};
use super::treatment::{self, Applied, FileCosts, Minified, Sums, Text, Treatment};
use super::walk::NotRead;
use super::{Failure, Options};

/// The size of a dictionary in bytes: the default of the `zstd` program.
const DICTIONARY_BYTES: usize = 112_640;
/// The number of bytes with which a dictionary is trained: a hundred times its size, as zstd recommends.
const SAMPLES_BYTES: usize = 100 * DICTIONARY_BYTES;
/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// A file and its smallest size after a single treatment, ordered by the bytes saved.
type FileSaving = (u64, PathBuf, u64, usize);

/// The state of one analysis. Its memory is bounded: files are treated one at a time, and only the samples of the
/// dictionary and the list of files are stored.
pub struct Site<'a> {
    options: &'a Options,
    source: &'a Source,
    pub files: u64,
    pub failed: u64,
    skipped: u64,
    bytes: u64,
    kept_white_space: KeptWhiteSpace,
    style_sheets_failed: u64,
    documents_left: u64,
    treated: Vec<(Treatment, Sums)>,
    largest: BinaryHeap<Reverse<FileSaving>>,
    samples: Vec<Vec<u8>>,
    samples_bytes: usize,
    dictionary_bytes: Option<usize>,
    page_files: PageFiles,
    #[cfg(feature = "images")]
    pictures: pictures::Pictures,
    notes: Vec<String>,
}

impl<'a> Site<'a> {
    pub fn new(options: &'a Options, source: &'a Source) -> Site<'a> {
        let sums = || Sums::new(usize::from(options.repeat));
        Site {
            options,
            source,
            files: 0,
            failed: source.failed(),
            skipped: 0,
            bytes: 0,
            kept_white_space: source.kept_white_space(options.max_file),
            style_sheets_failed: 0,
            documents_left: 0,
            treated: treatment::of_single_files()
                .into_iter()
                .map(|one| (one, sums()))
                .collect(),
            largest: BinaryHeap::new(),
            samples: Vec::new(),
            samples_bytes: 0,
            dictionary_bytes: None,
            page_files: PageFiles::new(&options.site),
            #[cfg(feature = "images")]
            pictures: pictures::Pictures::new(options),
            notes: Vec::new(),
        }
    }

    pub fn treat_files(&mut self) -> Result<(), Failure> {
        self.skipped = each_file(self.source, self.options, "codings", |file| match file {
            Ok(file) => self.treat(file),
            Err((path, error)) => {
                self.failed += 1;
                let path = path.display();
                (self.options.say)(format_args!("cannot read {path}: {error}"));
                Ok(())
            }
        })?;
        Ok(())
    }

    fn treat(&mut self, file: SiteFile) -> Result<(), Failure> {
        let repetitions = usize::from(self.options.repeat);
        let bytes = file.content.len() as u64;
        let mut best = (bytes, usize::MAX);
        let minified = self.minify(&file);
        let text = Text {
            content: &file.content,
            is_html: file.is_html(),
        };
        let mut costs = FileCosts {
            bytes,
            ..FileCosts::default()
        };
        let mut coded: Vec<(Coding, Applied)> = Vec::new();
        for (index, (treatment, sums)) in self.treated.iter_mut().enumerate() {
            let same = treatment.same_as(text, minified.as_ref());
            let same = coded.iter().find(|(coding, _)| Some(*coding) == same);
            let applied = match same {
                Some((_, applied)) => Applied::clone(applied),
                None => treatment.apply(text, minified.as_ref(), repetitions)?,
            };
            if let Treatment::Coded(coding) = treatment {
                coded.push((*coding, applied.clone()));
            }
            best = best.min((sums.add(bytes, Some(&applied)), index));
            if let Some(place) = treatment.place_in(&mut costs) {
                *place = applied;
            }
        }
        self.files += 1;
        self.bytes += bytes;
        let codings_save = best.0 < bytes;
        let of_pictures = self.treat_picture(&file, &mut costs);
        let first = self.treated.len();
        let of_pictures = of_pictures.map(|(bytes, index)| (bytes, first + index));
        best = best.min(of_pictures.unwrap_or(best));
        let saved = bytes - best.0;
        self.page_files.note(&file, costs);
        let SiteFile { path, content, .. } = file;
        if saved > 0 {
            self.largest.push(Reverse((saved, path, best.0, best.1)));
            if self.largest.len() > self.options.files {
                self.largest.pop();
            }
        }
        // A file that no coding makes smaller is of no use for a dictionary.
        if codings_save && self.samples_bytes + content.len() <= SAMPLES_BYTES {
            self.samples_bytes += content.len();
            self.samples.push(content);
        }
        Ok(())
    }

    /// Minifies the file if it is a document or a style sheet. An error in a style sheet is reported.
    fn minify(&mut self, file: &SiteFile) -> Option<Minified> {
        let kind = if file.is_html() {
            Minifiable::Html
        } else if file.is_css() {
            Minifiable::Css
        } else {
            return None;
        };
        let repetitions = usize::from(self.options.repeat);
        let kept = &self.kept_white_space;
        match minified::minify_repeatedly(kind, &file.content, kept, repetitions) {
            Ok(minified) => Some(minified),
            Err(NotMinified::Document(_)) => {
                self.documents_left += 1;
                None
            }
            Err(error) => {
                self.style_sheets_failed += 1;
                let path = file.path.display();
                (self.options.say)(format_args!("cannot minify {path}: {error}"));
                None
            }
        }
    }

    /// Treats the file if it is an image. Returns the smallest number of bytes, and the index of the treatment with
    /// this result.
    #[cfg(feature = "images")]
    fn treat_picture(&mut self, file: &SiteFile, costs: &mut FileCosts) -> Option<(u64, usize)> {
        let result = self.pictures.treat(file, costs);
        result.unwrap_or_else(|error| {
            let path = file.path.display();
            (self.options.say)(format_args!("cannot treat the image {path}: {error}"));
            None
        })
    }

    #[cfg(not(feature = "images"))]
    fn treat_picture(&mut self, _: &SiteFile, _: &mut FileCosts) -> Option<(u64, usize)> {
        None
    }

    /// Trains a dictionary on the site and treats all files with it, in a second pass.
    pub fn share_dictionary(&mut self) -> Result<(), Failure> {
        // The dictionary has at most a tenth of the bytes of the samples. A dictionary with all samples would only move
        // their bytes.
        let most = DICTIONARY_BYTES.min(self.samples_bytes / 10);
        let samples = std::mem::take(&mut self.samples);
        let dictionary = match Dictionary::train(&samples, most, 19) {
            Ok(dictionary) => dictionary,
            Err(error) => {
                self.notes.push(format!(
                    "no shared dictionary: the site is too small for training: {error}"
                ));
                return Ok(());
            }
        };
        drop(samples);
        let dictionary_bytes = dictionary.bytes().len();
        let treatment = Treatment::Shared(dictionary);
        let repetitions = usize::from(self.options.repeat);
        let mut sums = Sums::new(repetitions);
        let mut bytes = 0;
        each_file(self.source, self.options, "dictionary", |file| {
            // The first pass has reported files that cannot be read.
            if let Ok(SiteFile { content, .. }) = file {
                let text = Text {
                    content: &content,
                    is_html: false,
                };
                let applied = treatment.apply(text, None, repetitions)?;
                bytes += content.len() as u64;
                sums.add(content.len() as u64, Some(&applied));
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

    /// Returns the images shown in the HTML page, in descending order of their savings.
    #[cfg(feature = "images")]
    pub fn shown_images(&mut self) -> Vec<ImagePair> {
        let (images, why) = self.pictures.take_shown();
        self.notes.extend(why);
        images
    }

    #[cfg(not(feature = "images"))]
    pub fn shown_images(&mut self) -> Vec<ImagePair> {
        Vec::new()
    }

    /// Returns the images that HTML and CSS could replace, in descending order of their savings.
    #[cfg(feature = "images")]
    pub fn proposals(&mut self) -> Vec<Replaced> {
        let (replaced, notes) = self.pictures.take_proposals();
        self.notes.extend(notes);
        replaced
    }

    #[cfg(not(feature = "images"))]
    pub fn proposals(&mut self) -> Vec<Replaced> {
        Vec::new()
    }

    /// Returns the report, and the files of joined sites for the predictions.
    pub fn into_report(
        mut self,
        replaced: &[Replaced],
    ) -> Result<(Report, Vec<JoinedSite>), Failure> {
        // The rows are in the order of the treatments' indices. The dictionary is last, because it is not a treatment
        // of single files.
        let single = treatment::of_single_files();
        let names = single.iter().map(Treatment::name);
        #[cfg(feature = "images")]
        let names = names.chain(self.pictures.names());
        let names: Vec<_> = names.collect();
        let largest = self.largest.into_sorted_vec();
        let mut treatments: Vec<_> = self
            .treated
            .into_iter()
            .map(|(treatment, sums)| Row::new(treatment.name(), self.bytes, sums))
            .collect();
        #[cfg(feature = "images")]
        let (images, images_failed, small) = (
            self.pictures.images,
            self.pictures.failed,
            self.pictures.take_small(),
        );
        #[cfg(not(feature = "images"))]
        let (images, images_failed, small) = (0, 0, SmallImages);
        #[cfg(feature = "images")]
        treatments.extend(self.pictures.into_rows(self.bytes));
        let repetitions = usize::from(self.options.repeat);
        let as_it_is = Sums {
            bytes: self.bytes,
            ..Sums::new(repetitions)
        };
        let bases = |name: &str| match name {
            "" => Some(as_it_is.clone()),
            name => treatments
                .iter()
                .find(|row| row.treatment == name)
                .map(|row| row.sums.clone()),
        };
        let inputs = joined::Inputs {
            page_files: &self.page_files,
            bases: &bases,
            kept: &self.kept_white_space,
            site_bytes: self.bytes,
            repetitions,
            retains_files: !self.options.paths.is_empty(),
        };
        let joined = Joined::of(&inputs, small)?;
        treatments.extend(joined.rows);
        self.notes.extend(joined.notes);
        treatments.sort_by_key(|row| row.sums.bytes);
        if self.documents_left > 0 {
            let left = self.documents_left;
            self.notes.push(format!(
                "{left} documents are not minified: only a full HTML parser could distinguish their tags from text"
            ));
        }
        let report = Report {
            folder: self.options.site.display().to_string(),
            files: self.files,
            files_failed: self.failed,
            entries_skipped: self.skipped,
            skipped_entries: self.source.skipped_entries(),
            images,
            images_failed,
            style_sheets_failed: self.style_sheets_failed,
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
            replacements: replaced.iter().map(table::ReplacedRow::of).collect(),
            inlined: joined.inlined,
            predictions: Vec::new(),
            notes: self.notes,
        };
        Ok((report, joined.sites))
    }
}

/// Calls the function for each file, and reports progress. Returns the number of skipped entries.
fn each_file(
    source: &Source,
    options: &Options,
    stage: &str,
    mut treat: impl FnMut(Result<SiteFile, NotRead>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let clock = Clock::start();
    let (mut reported, mut files) = (clock.now(), 0_u64);
    source.each(options.max_file, |file| {
        treat(file)?;
        files += 1;
        if clock.now().since(reported) >= PROGRESS {
            (options.say)(format_args!("{stage}: {files} files"));
            reported = clock.now();
        }
        Ok(())
    })
}
