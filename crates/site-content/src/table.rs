//! The result of `content`, as JSON and as a table.

use std::fmt;

use fathometer_analysis::content_page::Replaced;
use serde::Serialize;

use super::predicted::{self, PagePrediction};
use super::treatment::Sums;

/// The savings by treatments of a site.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The site: a folder, an archive or a list.
    pub folder: String,
    /// Files that were treated.
    pub files: u64,
    /// The number of files and folders that could not be read.
    pub files_failed: u64,
    /// The number of entries that are not files of the site.
    pub entries_skipped: u64,
    /// The kind of these entries.
    #[serde(skip)]
    pub skipped_entries: &'static str,
    /// The number of images among the files, by their first bytes or their names.
    pub images: u64,
    /// The number of images that could not be treated: they are malformed, exceed a limit, or have another format than
    /// their name indicates.
    pub images_failed: u64,
    /// The number of style sheets that are not minified because they have an error.
    pub style_sheets_failed: u64,
    /// The bytes of the original files.
    pub bytes: u64,
    /// The bytes of the shared dictionary, which are included in its row.
    pub dictionary_bytes: Option<usize>,
    /// The treatments, those with the largest savings first.
    pub treatments: Vec<Row>,
    /// The files with the largest savings, each with the treatment that gives the smallest result.
    pub largest_savings: Vec<FileRow>,
    /// The images that HTML and CSS could replace, in descending order of their savings. These are proposals, and not
    /// included in any row.
    pub replacements: Vec<ReplacedRow>,
    /// The savings by small images as `data:` URLs. They are not included in any row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inlined: Option<Inlined>,
    /// The packets and seconds of pages, if a path was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<PagePrediction>,
    /// The reasons for missing results.
    pub notes: Vec<String>,
}

/// The savings by one treatment on the whole site.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the treatment.
    pub treatment: String,
    /// The share of the site's bytes that the treatment saves.
    pub saved_share: f64,
    /// The sums of the treatment.
    #[serde(flatten)]
    pub sums: Sums,
    /// The number of images to which the treatment was applied; absent for treatments of all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// The number of requests saved in first visits of all documents together; absent for treatments of single
    /// files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_saved: Option<u64>,
    /// The distortion of a lossy treatment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distortion: Option<Distortion>,
}

/// The distortion of images by a lossy treatment.
#[derive(Debug, Serialize)]
pub struct Distortion {
    /// The mean SSIM of the images.
    pub ssim_mean: f64,
    /// The lowest SSIM of an image.
    pub ssim_least: f64,
    /// The number of images with an SSIM value; smaller images than one window have none.
    pub images: u64,
    /// The definition of the SSIM.
    pub definition: &'static str,
}

/// A file with a large saving.
#[derive(Debug, Serialize)]
pub struct FileRow {
    /// The path of the file; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The original size in bytes.
    pub bytes: u64,
    /// The treatment that makes it smallest.
    pub treatment: String,
    /// The size after this treatment, in bytes.
    pub treated_bytes: u64,
}

/// An image that HTML and CSS could replace, which would save one request.
#[derive(Debug, Serialize)]
pub struct ReplacedRow {
    /// Its path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Whether all pixels are preserved.
    pub exact: bool,
    /// The number of tags that show the image.
    pub tags: u64,
    /// The bytes of the image and of these tags.
    pub bytes: u64,
    /// The bytes of the HTML and CSS that replace all these tags.
    pub replaced_bytes: u64,
    /// The HTML and CSS that replace one tag.
    pub html: String,
}

/// Small images with a single tag, as `data:` URLs in this tag. All pixels are preserved. Each image saves one request.
#[derive(Debug, Default, Serialize)]
pub struct Inlined {
    /// The number of images.
    pub images: u64,
    /// The largest image that is inlined, in bytes.
    pub limit_bytes: usize,
    /// The bytes of these images and of their tags.
    pub bytes: u64,
    /// The bytes of the tags with `data:` URLs.
    pub inlined_bytes: u64,
}

impl fmt::Display for Inlined {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} images of at most {} bytes that one <img> shows, as data: URLs in the HTML: {} requests fewer, {} -> {} bytes \
             before any content coding, the same pixels",
            self.images, self.limit_bytes, self.images, self.bytes, self.inlined_bytes
        )
    }
}

impl ReplacedRow {
    /// Returns the row of a proposal.
    pub fn of(replaced: &Replaced) -> ReplacedRow {
        ReplacedRow {
            path: replaced.path.clone(),
            exact: replaced.is_exact,
            tags: replaced.tags,
            bytes: replaced.bytes_before,
            replaced_bytes: replaced.bytes_after,
            html: replaced.html.clone(),
        }
    }
}

impl Row {
    /// Creates a row for a site of `bytes` bytes.
    pub fn new(treatment: String, bytes: u64, sums: Sums) -> Row {
        let saved_share = match bytes {
            0 => 0.0,
            _ => 1.0 - sums.bytes as f64 / bytes as f64,
        };
        Row {
            treatment,
            saved_share,
            sums,
            images: None,
            requests_saved: None,
            distortion: None,
        }
    }
}

impl Report {
    /// Returns the result in sentences: the largest saving, and the saving by the usual setting.
    pub fn answers(&self) -> Vec<String> {
        let best = self.treatments.first().map(|best| {
            format!(
                "The largest saving on this site is {:.1} % of {} bytes in {} files, by {}.",
                best.saved_share * 100.0,
                self.bytes,
                self.files,
                best.treatment
            )
        });
        let usual = self.treatments.iter().find(|row| row.treatment == "gzip 6");
        let usual = usual.map(|usual| {
            format!(
                "gzip 6, the usual setting, saves {:.1} %.",
                usual.saved_share * 100.0
            )
        });
        best.into_iter().chain(usual).collect()
    }

    /// Returns the number of times that each file was encoded and decoded.
    pub fn repetitions(&self) -> usize {
        let rows = self.treatments.iter();
        rows.map(|row| row.sums.encode_s.len()).max().unwrap_or(0)
    }

    /// Returns the reasons for missing results, and the number of skipped entries.
    pub fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.entries_skipped > 0 {
            let skipped = self.entries_skipped;
            notes.push(format!("{skipped} {} were skipped", self.skipped_entries));
        }
        notes
    }

    /// Describes the files that could not be read or treated.
    pub fn incomplete(&self) -> Vec<String> {
        let mut incomplete = Vec::new();
        if self.files_failed > 0 {
            let failed = self.files_failed;
            incomplete.push(format!("{failed} files or folders could not be read"));
        }
        if self.images_failed > 0 {
            let (failed, images) = (self.images_failed, self.images);
            incomplete.push(format!(
                "{failed} of {images} images could not be treated as images"
            ));
        }
        if self.style_sheets_failed > 0 {
            let failed = self.style_sheets_failed;
            incomplete.push(format!("{failed} style sheets could not be minified"));
        }
        incomplete
    }
}

/// Formats the median, the minimum and the maximum in milliseconds; `-` without a measurement.
pub fn spread(seconds: &[f64]) -> String {
    if seconds.is_empty() {
        return "-".to_owned();
    }
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ms = |at: usize| sorted[at] * 1e3;
    let last = sorted.len() - 1;
    format!("{:.1} [{:.1}, {:.1}]", ms(last / 2), ms(0), ms(last))
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for answer in self.answers() {
            writeln!(out, "{answer}")?;
        }
        writeln!(
            out,
            "\n{:<58} {:>12} {:>7} {:>8}  {:<26} decode, ms CPU",
            "treatment", "bytes", "saved", "smaller", "encode, ms CPU"
        )?;
        for row in &self.treatments {
            writeln!(
                out,
                "{:<60} {:>12} {:>5.1} % {:>8}  {:<26} {}",
                row.treatment,
                row.sums.bytes,
                row.saved_share * 100.0,
                row.sums.files_smaller,
                spread(&row.sums.encode_s),
                spread(&row.sums.decode_s)
            )?;
        }
        writeln!(
            out,
            "\nBytes are exact and include bodies only. If a treatment does not make a file smaller, its original size is counted.\n\
             CPU times are of all files: median [least, greatest] of {} repetitions.",
            self.repetitions()
        )?;
        if let Some(bytes) = self.dictionary_bytes {
            writeln!(
                out,
                "The dictionary's row includes its {bytes} bytes once. It was trained on these files and saves less on other files."
            )?;
        }
        for row in &self.treatments {
            if let Some(requests) = row.requests_saved {
                writeln!(
                    out,
                    "{}: {requests} fewer requests in first visits of all documents.",
                    row.treatment
                )?;
            }
            if let Some(distortion) = &row.distortion {
                writeln!(
                    out,
                    "{} changes pixels. SSIM of {} images: mean {:.4}, lowest {:.4} ({}).",
                    row.treatment,
                    distortion.images,
                    distortion.ssim_mean,
                    distortion.ssim_least,
                    distortion.definition
                )?;
            }
        }
        if !self.largest_savings.is_empty() {
            writeln!(out, "\nlargest savings")?;
        }
        for file in &self.largest_savings {
            let (path, before, after) = (&file.path, file.bytes, file.treated_bytes);
            writeln!(
                out,
                "{path}: {before} -> {after} bytes by {}",
                file.treatment
            )?;
        }
        if !self.replacements.is_empty() {
            let all = &self.replacements;
            let exact = all.iter().filter(|row| row.exact).count();
            let sum = |bytes: fn(&ReplacedRow) -> u64| all.iter().map(bytes).sum::<u64>();
            writeln!(
                out,
                "\nHTML and CSS could replace {} images, {exact} of them pixel by pixel: {} requests fewer, {} -> {} bytes.\n\
                 These are proposals, not in the rows above; --report and --json show the HTML and CSS.",
                all.len(),
                all.len(),
                sum(|row| row.bytes),
                sum(|row| row.replaced_bytes)
            )?;
        }
        if let Some(inlined) = &self.inlined {
            writeln!(out, "\n{inlined}.")?;
        }
        predicted::write_table(&self.predictions, out)?;
        for note in self.all_notes() {
            writeln!(out, "note: {note}")?;
        }
        for what in self.incomplete() {
            writeln!(out, "INCOMPLETE: {what}")?;
        }
        Ok(())
    }
}
