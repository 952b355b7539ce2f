//! The result of `content`, as JSON and as a table.

use std::fmt;

use fathometer_analysis::content_page::Replaced;
use serde::Serialize;

use super::predicted::{self, PagePrediction};
use super::treatment::Sums;

/// What the treatments of a site save.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The site: a folder, an archive or a list.
    pub folder: String,
    /// Files that were treated.
    pub files: u64,
    /// Files and folders that could not be read.
    pub files_failed: u64,
    /// Entries that are no files of the site.
    pub entries_skipped: u64,
    /// What these are.
    #[serde(skip)]
    pub skipped_entries: &'static str,
    /// Images among the files, by their first bytes or their names.
    pub images: u64,
    /// Images that could not be treated: malformed, beyond a limit, or of another format than their name says.
    pub images_failed: u64,
    /// Style sheets that are not minified, because they have a fault.
    pub style_sheets_failed: u64,
    /// Bytes of the files as they are.
    pub bytes: u64,
    /// Bytes of the shared dictionary, which are part of its row.
    pub dictionary_bytes: Option<usize>,
    /// The treatments, with the largest saving first.
    pub treatments: Vec<Row>,
    /// The files with the largest savings, each with the treatment that makes it smallest.
    pub largest_savings: Vec<FileRow>,
    /// Images that HTML and CSS could replace, with the largest saving first: proposals, which are in no row.
    pub replacements: Vec<ReplacedRow>,
    /// What small images save as `data:` URLs, which is in no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inlined: Option<Inlined>,
    /// Packets and seconds of pages, if a path was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<PagePrediction>,
    /// What is not in the result, with the reason.
    pub notes: Vec<String>,
}

/// What one treatment saves on the whole site.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the treatment.
    pub treatment: String,
    /// Share of the site's bytes that it saves.
    pub saved_share: f64,
    /// Its sums.
    #[serde(flatten)]
    pub sums: Sums,
    /// The images that it was applied to; not for treatments of all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// Requests fewer of first visits of all documents together; not for treatments of single files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_saved: Option<u64>,
    /// The distortion of a lossy treatment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distortion: Option<Distortion>,
}

/// The distortion of the images that a lossy treatment made.
#[derive(Debug, Serialize)]
pub struct Distortion {
    /// Mean of the images' SSIM.
    pub ssim_mean: f64,
    /// The least SSIM of an image.
    pub ssim_least: f64,
    /// Images that it was computed of: those that have at least one window.
    pub images: u64,
    /// What was computed.
    pub definition: &'static str,
}

/// A file with a large saving.
#[derive(Debug, Serialize)]
pub struct FileRow {
    /// Its path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Its bytes as it is.
    pub bytes: u64,
    /// The treatment that makes it smallest.
    pub treatment: String,
    /// Its bytes then.
    pub treated_bytes: u64,
}

/// An image that HTML and CSS could replace. That saves one request.
#[derive(Debug, Serialize)]
pub struct ReplacedRow {
    /// Its path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Whether every pixel stays.
    pub exact: bool,
    /// Tags that show it.
    pub tags: u64,
    /// Bytes of the image and of these tags.
    pub bytes: u64,
    /// Bytes of the HTML and CSS in place of all these tags.
    pub replaced_bytes: u64,
    /// The HTML and CSS in place of one tag.
    pub html: String,
}

/// The small images that one tag shows, as `data:` URLs in it. Every pixel stays. Each saves one request.
#[derive(Debug, Default, Serialize)]
pub struct Inlined {
    /// The images.
    pub images: u64,
    /// The largest image that counts, in bytes.
    pub limit_bytes: usize,
    /// Bytes of these images and of their tags.
    pub bytes: u64,
    /// Bytes of the tags with `data:` URLs.
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
    /// The row of a proposal.
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
    /// A row of a site of so many bytes.
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
    /// The answer, a sentence each: the largest saving, and that of the usual setting.
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

    /// How often each file was encoded and decoded.
    pub fn repetitions(&self) -> usize {
        let rows = self.treatments.iter();
        rows.map(|row| row.sums.encode_s.len()).max().unwrap_or(0)
    }

    /// What is not in the result, with the reason, and the links that were skipped.
    pub fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.entries_skipped > 0 {
            let skipped = self.entries_skipped;
            notes.push(format!("{skipped} {} were skipped", self.skipped_entries));
        }
        notes
    }

    /// What could not be read or treated.
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

/// The median, the least and the greatest, in milliseconds; `-` without a measurement.
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
            "\nBytes are exact, of bodies only. A file that a treatment does not make smaller counts as it is.\n\
             CPU times are of all files: median [least, greatest] of {} repetitions.",
            self.repetitions()
        )?;
        if let Some(bytes) = self.dictionary_bytes {
            writeln!(
                out,
                "The dictionary's row contains its own {bytes} bytes once. It was trained on these files; others gain less."
            )?;
        }
        for row in &self.treatments {
            if let Some(requests) = row.requests_saved {
                writeln!(
                    out,
                    "{}: {requests} requests fewer in first visits of all documents.",
                    row.treatment
                )?;
            }
            if let Some(distortion) = &row.distortion {
                writeln!(
                    out,
                    "{} changes pixels. SSIM of {} images: mean {:.4}, least {:.4} ({}).",
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
