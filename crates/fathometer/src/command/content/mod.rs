//! `fathometer content`: what content codings, a shared dictionary, tags in lower case and other formats of images would
//! save on a site.

mod page;
#[cfg(feature = "images")]
mod pictures;
mod predicted;
mod source;
mod table;
mod treatment;
mod walk;
#[cfg(feature = "images")]
mod write;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_analysis::content_page::{ImagePair, Replaced};
use fathometer_content::Dictionary;
use fathometer_files::whole_file;
use fathometer_http::driver::Policy;
use fathometer_sys::Clock;

use self::source::{SiteFile, Source};
use self::table::{Report, Row};
use self::treatment::{Applied, Sums, Treatment};
use self::walk::NotRead;
use super::arguments::whole_seconds;
use super::load::security::SecurityArguments;
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
    /// Folder of the site (symbolic links in it are not followed), HTTP archive of a browser (HAR, with contents), or list
    /// of URLs to fetch, one on each line
    site: PathBuf,
    /// How many files to list, those with the largest saving first
    #[arg(long, default_value_t = 10)]
    files: usize,
    /// How many times to encode and decode each file, for the spread of the CPU time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    repeat: u8,
    /// Size in bytes above which a file is reported as an error and not treated
    #[arg(long, default_value_t = 64 << 20)]
    max_file: u64,
    /// Bytes to fetch of a list of URLs, in total
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    max_fetch: u64,
    /// Time limit of each URL of a list, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = whole_seconds)]
    timeout: Duration,
    /// Pixels, in all frames together, above which an image is reported as an error and not treated
    #[cfg(feature = "images")]
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_pixels: u64,
    /// Quality of the JPEG images that are encoded again, 1 to 100
    #[cfg(feature = "images")]
    #[arg(long, default_value_t = 75, value_parser = clap::value_parser!(u8).range(1..=100))]
    jpeg_quality: u8,
    /// Write a copy of the site with its images treated to this folder, which must be empty or not exist
    #[cfg(feature = "images")]
    #[arg(long, value_name = "FOLDER", conflicts_with = "report")]
    write: Option<PathBuf>,
    /// Treatments of the copy; of several, the smallest image is taken
    #[cfg(feature = "images")]
    #[arg(long, value_enum, value_delimiter = ',', requires = "write", default_values_t = [write::Treat::Gif, write::Treat::Png, write::Treat::Webp])]
    treat: Vec<write::Treat>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page with the images before and after: one HTML file, without scripts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Path over which to predict the packets and seconds of each page, as it is and by gzip 6: a name (see `fathometer
    /// list`) or a TOML file; repeatable. Needs a folder
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Connection policies of the predictions, in cleartext over TCP
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "h1.1x6,h2c",
        requires = "path"
    )]
    policy: Vec<Policy>,
    /// How many pages to predict, in the order of their paths
    #[arg(long, default_value_t = 10, requires = "path")]
    pages: usize,
    #[command(flatten)]
    security: SecurityArguments,
}

/// A file and the least bytes that a treatment of it alone needs: ordered by the bytes saved.
type FileSaving = (u64, PathBuf, u64, usize);

/// Treats all files and prints what each treatment saves.
pub fn run(arguments: &ContentArguments) -> Result<ExitCode, Failure> {
    #[cfg(feature = "images")]
    if let Some(out) = &arguments.write {
        return write::run(arguments, out);
    }
    predicted::check(arguments)?;
    let source = Source::open(arguments)?;
    let mut site = Site::new(arguments, &source);
    site.treat_files()?;
    if site.files == 0 && site.failed == 0 {
        let folder = arguments.site.display();
        return Err(usage(format!(
            "{folder} has no files; name the folder of a site"
        )));
    }
    site.share_dictionary()?;
    let images = site.shown_images();
    let replaced = site.proposals();
    let mut report = site.into_report(&replaced);
    report.predictions = predicted::predict_pages(arguments, report.bytes)?;
    if let Some(file) = &arguments.report {
        whole_file::write(file, page::page(&report, images, replaced).as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    let is_complete = report.files_failed == 0 && report.images_failed == 0;
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
    source: &'a Source,
    files: u64,
    failed: u64,
    skipped: u64,
    bytes: u64,
    treated: Vec<(Treatment, Sums)>,
    largest: BinaryHeap<Reverse<FileSaving>>,
    samples: Vec<Vec<u8>>,
    samples_bytes: usize,
    dictionary_bytes: Option<usize>,
    #[cfg(feature = "images")]
    pictures: pictures::Pictures,
    notes: Vec<String>,
}

impl<'a> Site<'a> {
    fn new(arguments: &'a ContentArguments, source: &'a Source) -> Site<'a> {
        let sums = || Sums::new(usize::from(arguments.repeat));
        Site {
            arguments,
            source,
            files: 0,
            failed: source.failed(),
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
            #[cfg(feature = "images")]
            pictures: pictures::Pictures::new(arguments),
            notes: Vec::new(),
        }
    }

    fn treat_files(&mut self) -> Result<(), Failure> {
        self.skipped = each_file(self.source, self.arguments, "codings", |file| match file {
            Ok(file) => self.treat(file),
            Err((path, error)) => {
                self.failed += 1;
                eprintln!("cannot read {}: {error}", path.display());
                Ok(())
            }
        })?;
        Ok(())
    }

    fn treat(&mut self, file: SiteFile) -> Result<(), Failure> {
        let repetitions = usize::from(self.arguments.repeat);
        let is_html = file.is_html();
        let bytes = file.content.len() as u64;
        let mut best = (bytes, usize::MAX);
        let mut strongest = Applied::default();
        for (index, (treatment, sums)) in self.treated.iter_mut().enumerate() {
            let applied = treatment.apply(&file.content, is_html, repetitions)?;
            best = best.min((sums.add(bytes, Some(&applied)), index));
            if treatment.is_strongest() {
                strongest = applied;
            }
        }
        self.files += 1;
        self.bytes += bytes;
        let codings_save = best.0 < bytes;
        let of_pictures = self.treat_picture(&file, &strongest);
        let first = self.treated.len();
        let of_pictures = of_pictures.map(|(bytes, index)| (bytes, first + index));
        best = best.min(of_pictures.unwrap_or(best));
        let saved = bytes - best.0;
        let SiteFile { path, content, .. } = file;
        if saved > 0 {
            self.largest.push(Reverse((saved, path, best.0, best.1)));
            if self.largest.len() > self.arguments.files {
                self.largest.pop();
            }
        }
        // A file that no coding makes smaller has nothing for a dictionary.
        if codings_save && self.samples_bytes + content.len() <= SAMPLES_BYTES {
            self.samples_bytes += content.len();
            self.samples.push(content);
        }
        Ok(())
    }

    /// Treats the file as an image if it is one. Returns the fewest bytes, and the index of that treatment.
    #[cfg(feature = "images")]
    fn treat_picture(&mut self, file: &SiteFile, strongest: &Applied) -> Option<(u64, usize)> {
        let result = self.pictures.treat(file, strongest);
        result.unwrap_or_else(|error| {
            eprintln!("cannot treat the image {}: {error}", file.path.display());
            None
        })
    }

    #[cfg(not(feature = "images"))]
    fn treat_picture(&mut self, _: &SiteFile, _: &Applied) -> Option<(u64, usize)> {
        None
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
        let repetitions = usize::from(self.arguments.repeat);
        let mut sums = Sums::new(repetitions);
        let mut bytes = 0;
        each_file(self.source, self.arguments, "dictionary", |file| {
            // A file that cannot be read was reported in the first pass.
            if let Ok(SiteFile { content, .. }) = file {
                let applied = treatment.apply(&content, false, repetitions)?;
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

    /// The images of the page, with the largest saving first.
    #[cfg(feature = "images")]
    fn shown_images(&mut self) -> Vec<ImagePair> {
        let (images, why) = self.pictures.take_shown();
        self.notes.extend(why);
        images
    }

    #[cfg(not(feature = "images"))]
    fn shown_images(&mut self) -> Vec<ImagePair> {
        Vec::new()
    }

    /// The images that HTML and CSS could replace, with the largest saving first.
    #[cfg(feature = "images")]
    fn proposals(&mut self) -> Vec<Replaced> {
        let (replaced, notes) = self.pictures.take_proposals();
        self.notes.extend(notes);
        replaced
    }

    #[cfg(not(feature = "images"))]
    fn proposals(&mut self) -> Vec<Replaced> {
        Vec::new()
    }

    #[cfg_attr(
        not(feature = "images"),
        expect(unused_mut, reason = "images are taken out of it")
    )]
    fn into_report(mut self, replaced: &[Replaced]) -> Report {
        // In the order of their indices; the dictionary, which is no treatment of single files, is the last.
        let single = treatment::of_single_files();
        let mut names: Vec<_> = single.iter().map(Treatment::name).collect();
        #[cfg(feature = "images")]
        names.extend(self.pictures.names());
        let largest = self.largest.into_sorted_vec();
        let mut treatments: Vec<_> = self
            .treated
            .into_iter()
            .map(|(treatment, sums)| Row::new(treatment.name(), self.bytes, sums))
            .collect();
        #[cfg(feature = "images")]
        let (images, images_failed, inlined) = (
            self.pictures.images,
            self.pictures.failed,
            self.pictures.take_inlined(),
        );
        #[cfg(not(feature = "images"))]
        let (images, images_failed, inlined) = (0, 0, None);
        #[cfg(feature = "images")]
        treatments.extend(self.pictures.into_rows(self.bytes));
        treatments.sort_by_key(|row| row.sums.bytes);
        Report {
            folder: self.arguments.site.display().to_string(),
            files: self.files,
            files_failed: self.failed,
            entries_skipped: self.skipped,
            skipped_entries: self.source.skipped_entries(),
            images,
            images_failed,
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
            inlined,
            predictions: Vec::new(),
            notes: self.notes,
        }
    }
}

/// Calls the function for each file, with lines of progress, and returns the entries that were skipped.
fn each_file(
    source: &Source,
    arguments: &ContentArguments,
    stage: &str,
    mut treat: impl FnMut(Result<SiteFile, NotRead>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let clock = Clock::start();
    let (mut reported, mut files) = (clock.now(), 0_u64);
    source.each(arguments.max_file, |file| {
        treat(file)?;
        files += 1;
        if clock.now().since(reported) >= PROGRESS {
            eprintln!("{stage}: {files} files");
            reported = clock.now();
        }
        Ok(())
    })
}
