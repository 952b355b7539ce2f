//! `fathometer content DIR --write OUT`: a copy of the site with its images treated.

mod names;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use fathometer_content::image::{Format, Image, ImageError, ImageTreatment, Limits};
use fathometer_content::{Rewritten, Unchanged, rewrite_css, rewrite_html};
use serde::Serialize;

use self::names::Names;
use super::pictures::{MOST_FRAMES, format_of};
use super::walk::{self, Walk};
use super::{ContentArguments, Failure, usage};

/// The treatments of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Treat {
    /// GIF to PNG, animated GIF to APNG (lossless)
    Gif,
    /// PNG optimised (lossless)
    Png,
    /// GIF and PNG to WebP (lossless)
    Webp,
    /// JPEG encoded again (lossy)
    Jpeg,
}

/// What was written.
#[derive(Debug, Default, Serialize)]
struct Written {
    folder: String,
    out: String,
    /// Files of the site.
    files: u64,
    /// Their bytes, and those of the files that replace them.
    bytes: u64,
    treated_bytes: u64,
    /// Images that are smaller, and of these the ones with a new name.
    images_treated: u64,
    images_renamed: u64,
    /// Images that could not be treated, and were copied.
    images_failed: u64,
    /// Links and special files, which are not in the copy.
    entries_skipped: u64,
    /// References in HTML and CSS to the new names.
    references: u64,
    /// Documents that were copied as they are, because their references cannot be read with certainty.
    documents_left: u64,
}

/// Writes the copy and prints what it saves.
pub fn run(arguments: &ContentArguments, out: &Path) -> Result<ExitCode, Failure> {
    if !arguments.site.is_dir() {
        let site = arguments.site.display();
        return Err(usage(format!(
            "{site} is no folder: only a folder can be copied"
        )));
    }
    let partial = prepare(&arguments.site, out)?;
    let finished = SiteCopy::new(arguments, &partial)
        .whole()
        .and_then(|written| {
            // Some file systems report a full disk only here.
            rustix::fs::syncfs(File::open(&partial)?)
                .map_err(|error| not_written(&partial, &error.into()))?;
            fs::rename(&partial, out).map_err(|error| not_written(out, &error))?;
            Ok(written)
        });
    let mut written = match finished {
        Ok(written) => written,
        Err(error) => {
            // The first error counts: the folder is named as incomplete if it stays.
            drop(fs::remove_dir_all(&partial));
            return Err(error);
        }
    };
    written.folder = arguments.site.display().to_string();
    written.out = out.display().to_string();
    match arguments.json {
        true => println!("{:#}", serde_json::to_value(&written)?),
        false => print!("{written}"),
    }
    Ok(match written.images_failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(3),
    })
}

/// Checks the folder of the copy, and makes the one that it is written to before it is whole.
fn prepare(folder: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let shown = out.display();
    match fs::read_dir(out) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(usage(format!("{shown} is not empty; name a new folder")));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(usage(format!("cannot write to {shown}: {error}"))),
    }
    let Some(name) = out.file_name() else {
        return Err(usage(format!("{shown} has no name; name a new folder")));
    };
    let mut name = name.to_owned();
    name.push(".incomplete");
    let partial = out.with_file_name(name);
    fs::create_dir(&partial).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let left = partial.display();
            usage(format!(
                "{left} exists, of a copy that was stopped; remove it"
            ))
        }
        _ => not_written(&partial, &error),
    })?;
    let is_inside = || -> io::Result<bool> {
        Ok(fs::canonicalize(&partial)?.starts_with(fs::canonicalize(folder)?))
    };
    match is_inside() {
        Ok(false) => Ok(partial),
        Ok(true) => {
            fs::remove_dir(&partial)?;
            Err(usage(format!(
                "{shown} is inside of the site; name a folder outside"
            )))
        }
        Err(error) => {
            fs::remove_dir(&partial)?;
            let folder = folder.display();
            Err(format!("cannot read the folder {folder}: {error}").into())
        }
    }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    format!("cannot write {path}: {error}; no copy was made").into()
}

/// A copy in progress.
struct SiteCopy<'a> {
    arguments: &'a ContentArguments,
    root: &'a Path,
    out: &'a Path,
    limits: Limits,
    treatments: Vec<ImageTreatment>,
    names: Names,
    /// Whether a document states the hash of a file.
    states_integrity: bool,
    written: Written,
}

/// The files that one pass handles: images first, so that documents are written with the new names; style sheets last,
/// because a document may state their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Others,
    Html,
    Css,
}

impl<'a> SiteCopy<'a> {
    fn new(arguments: &'a ContentArguments, out: &'a Path) -> SiteCopy<'a> {
        let mut treatments = Vec::new();
        for treat in &arguments.treat {
            match treat {
                Treat::Gif => {
                    treatments.extend([ImageTreatment::GifToPng, ImageTreatment::GifToApng]);
                }
                Treat::Png => treatments.push(ImageTreatment::OptimisePng),
                Treat::Webp => treatments.push(ImageTreatment::ToWebp),
                Treat::Jpeg => treatments.push(ImageTreatment::Jpeg(arguments.jpeg_quality)),
            }
        }
        SiteCopy {
            arguments,
            root: &arguments.site,
            out,
            limits: Limits {
                pixels: arguments.max_pixels,
                frames: MOST_FRAMES,
            },
            treatments,
            names: Names::default(),
            states_integrity: false,
            written: Written::default(),
        }
    }

    /// Copies the whole site.
    fn whole(mut self) -> Result<Written, Failure> {
        for pass in [Pass::Others, Pass::Html, Pass::Css] {
            let mut walk = Walk::begin(self.root).map_err(|error| {
                format!("cannot read the folder {}: {error}", self.root.display())
            })?;
            for path in walk.by_ref() {
                let path = path.map_err(|(path, error)| not_read(&path, &error))?;
                if pass_of(&path) == pass {
                    self.copy(&path, pass)?;
                }
            }
            self.written.entries_skipped = walk.skipped;
        }
        Ok(self.written)
    }

    fn copy(&mut self, path: &Path, pass: Pass) -> Result<(), Failure> {
        let place = path.strip_prefix(self.root)?.to_owned();
        let target = self.out.join(&place);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
        }
        self.written.files += 1;
        let content = match walk::read(path, self.arguments.max_file) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                // Copied as it is, without being in memory.
                let bytes =
                    fs::copy(path, &target).map_err(|error| not_written(&target, &error))?;
                self.count(bytes, bytes);
                return Ok(());
            }
            Err(error) => return Err(not_read(path, &error)),
        };
        let bytes = content.len() as u64;
        let rewritten = match pass {
            Pass::Others => return self.copy_other(path, &place, &target, &content),
            Pass::Html => rewrite_html(&content, |url| self.names.renamed(&place, url)),
            // With the hash of this style sheet in a document, it must stay. The old names stay, too.
            Pass::Css if self.states_integrity => Ok(as_it_is(&content)),
            Pass::Css => Ok(rewrite_css(&content, |url| self.names.renamed(&place, url))),
        };
        let rewritten = rewritten.unwrap_or_else(|why: Unchanged| {
            self.written.documents_left += 1;
            eprintln!("{}: copied as it is, {why}", path.display());
            as_it_is(&content)
        });
        self.states_integrity |= rewritten.states_integrity;
        self.written.references += rewritten.references;
        write(&target, &rewritten.content)?;
        self.count(bytes, rewritten.content.len() as u64);
        Ok(())
    }

    /// Copies a file that is no document, with its image treated.
    fn copy_other(
        &mut self,
        path: &Path,
        place: &Path,
        target: &Path,
        content: &[u8],
    ) -> Result<(), Failure> {
        let bytes = content.len() as u64;
        let treated = self.smallest(path, content).unwrap_or_else(|error| {
            self.written.images_failed += 1;
            eprintln!("{}: copied as it is: {error}", path.display());
            None
        });
        let Some((format, treated)) = treated else {
            write(target, content)?;
            self.count(bytes, bytes);
            return Ok(());
        };
        let is_renamed = Format::of(content) != Some(format);
        match is_renamed {
            false => write(target, &treated)?,
            true => {
                let suffix = match format {
                    Format::Webp => ".webp",
                    _ => ".png",
                };
                let (Some(renamed), false) = (
                    names::with_suffix(place, suffix),
                    names::with_suffix(path, suffix).is_some_and(|path| path.exists()),
                ) else {
                    // The site has a file of that name, or the name cannot be a reference.
                    write(target, content)?;
                    self.count(bytes, bytes);
                    return Ok(());
                };
                // References in scripts and from other sites keep the old name.
                write(target, content)?;
                write(&self.out.join(renamed), &treated)?;
                self.names.rename(place, suffix);
                self.written.images_renamed += 1;
            }
        }
        self.written.images_treated += 1;
        self.count(bytes, treated.len() as u64);
        Ok(())
    }

    /// The smallest image of the treatments, if it is smaller than the file.
    fn smallest(
        &self,
        path: &Path,
        content: &[u8],
    ) -> Result<Option<(Format, Vec<u8>)>, ImageError> {
        let Some(format) = format_of(path, content)? else {
            return Ok(None);
        };
        if format == Format::Webp {
            return Ok(None);
        }
        let image = match Image::decode(format, content, self.limits) {
            Ok(image) => image,
            Err(ImageError::NotApplicable(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut smallest: Option<(Format, Vec<u8>)> = None;
        let applying = self.treatments.iter().filter(|one| one.applies_to(&image));
        for treatment in applying {
            let treated = match treatment.encode(&image) {
                Ok(treated) => treated,
                Err(ImageError::NotApplicable(_)) => continue,
                Err(error) => return Err(error),
            };
            let decoded = treatment.decode(&image, &treated)?;
            treatment.distortion(&image, &decoded)?;
            let least = smallest
                .as_ref()
                .map_or(content.len(), |(_, least)| least.len());
            if treated.len() < least {
                smallest = Some((treatment.format(), treated));
            }
        }
        Ok(smallest)
    }

    fn count(&mut self, bytes: u64, treated: u64) {
        self.written.bytes += bytes;
        self.written.treated_bytes += treated;
    }
}

fn as_it_is(content: &[u8]) -> Rewritten {
    Rewritten {
        content: content.to_vec(),
        ..Rewritten::default()
    }
}

fn pass_of(path: &Path) -> Pass {
    let extension = path.extension().unwrap_or_default();
    let extension = extension.to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "html" | "htm" | "xhtml" => Pass::Html,
        "css" => Pass::Css,
        _ => Pass::Others,
    }
}

/// Writes a new file.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    File::create_new(path)
        .and_then(|mut file| file.write_all(content))
        .map_err(|error| not_written(path, &error))
}

fn not_read(path: &Path, error: &io::Error) -> Failure {
    format!("cannot read {}: {error}; no copy was made", path.display()).into()
}

impl std::fmt::Display for Written {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let saved = match self.bytes {
            0 => 0.0,
            bytes => 100.0 - 100.0 * self.treated_bytes as f64 / bytes as f64,
        };
        writeln!(
            out,
            "{} is a copy of {} that saves {saved:.1} % of its bytes: {} -> {} in {} files.",
            self.out, self.folder, self.bytes, self.treated_bytes, self.files
        )?;
        writeln!(
            out,
            "{} images are smaller; {} of them have a new name, which {} references use.",
            self.images_treated, self.images_renamed, self.references
        )?;
        if self.documents_left > 0 {
            let left = self.documents_left;
            writeln!(out, "note: {left} documents were copied as they are")?;
        }
        if self.entries_skipped > 0 {
            let skipped = self.entries_skipped;
            writeln!(
                out,
                "note: {skipped} links and special files are not in the copy"
            )?;
        }
        if self.images_failed > 0 {
            let failed = self.images_failed;
            writeln!(
                out,
                "INCOMPLETE: {failed} images could not be treated, and were copied"
            )?;
        }
        Ok(())
    }
}
