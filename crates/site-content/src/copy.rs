//! Writes a treated copy of a site.

mod documents;
mod hashes;
mod names;
mod place;
mod written;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use fathometer_content::KeptWhiteSpace;
use fathometer_content::image::{Format, Image, ImageError, ImageTreatment, Limits};

use self::hashes::Hashes;
use self::names::Names;
use self::place::prepare;
pub use self::written::Written;
use super::concatenation::Concatenations;
use super::inlining::Inlining;
use super::pictures::{MOST_FRAMES, format_of};
use super::source::Source;
use super::sprites::Sprites;
use super::walk::{self, Walk};
use super::{Failure, Options, usage};

/// A treatment of the files in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treat {
    /// GIF to PNG, animated GIF to APNG (lossless).
    Gif,
    /// PNG optimised (lossless).
    Png,
    /// GIF and PNG to WebP (lossless).
    Webp,
    /// JPEG re-encoded (lossy).
    Jpeg,
    /// Still images to AVIF (lossy).
    #[cfg(feature = "avif")]
    Avif,
    /// HTML and style sheets minified.
    Minify,
    /// Consecutive style sheets or consecutive scripts of a document, joined into one file.
    Concat,
    /// Small images that appear in the same documents, joined into one PNG (lossless).
    Sprite,
    /// Small images with a single tag, as `data:` URLs in this tag (lossless).
    Inline,
}

/// Writes a treated copy of a site, a folder, to the folder `out`, which must be empty or not exist. If several
/// treatments apply to an image, the smallest result is used.
///
/// # Errors
///
/// If the options are invalid, or a file cannot be read or written. The incomplete copy is then removed.
pub fn copy(options: &Options, treatments: &[Treat], out: &Path) -> Result<Written, Failure> {
    if !options.site.is_dir() {
        let site = options.site.display();
        return Err(usage(format!(
            "{site} is not a folder: only folders can be copied"
        )));
    }
    let partial = prepare(&options.site, out)?;
    let finished = SiteCopy::new(options, treatments, &partial)
        .whole()
        .and_then(|written| {
            // Some file systems report a full disk only when data is synchronised.
            rustix::fs::syncfs(File::open(&partial)?)
                .map_err(|error| not_written(&partial, &error.into()))?;
            fs::rename(&partial, out).map_err(|error| not_written(out, &error))?;
            Ok(written)
        });
    let mut written = match finished {
        Ok(written) => written,
        Err(error) => {
            // The first error is returned, even if removal fails: the name of a remaining folder shows that it is
            // incomplete.
            drop(fs::remove_dir_all(&partial));
            return Err(error);
        }
    };
    written.folder = options.site.display().to_string();
    written.out = out.display().to_string();
    Ok(written)
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    format!("cannot write {path}: {error}; no copy was made").into()
}

/// A copy in progress.
struct SiteCopy<'a> {
    options: &'a Options,
    root: &'a Path,
    out: &'a Path,
    limits: Limits,
    treatments: Vec<ImageTreatment>,
    names: Names,
    /// The elements whose white space is preserved; `None` without minification.
    kept_white_space: Option<KeptWhiteSpace>,
    /// The files to join; `None` without concatenation.
    concatenations: Option<Concatenations>,
    /// The small images; `None` without sprites.
    sprites: Option<Sprites>,
    /// The small images; `None` without inlining.
    inlining: Option<Inlining>,
    /// Whether a style sheet of the site may change the rendering of images.
    are_images_styled: bool,
    /// The files whose hashes documents state.
    hashes: Hashes,
    written: Written,
}

/// The files of one pass. Documents are read first, because they may state the hashes of other files. Images are
/// written before style sheets and documents, because these contain the names of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    ReadCss,
    ReadHtml,
    Others,
    Css,
    Html,
}

impl Pass {
    /// All passes, in their order.
    const ALL: [Pass; 5] = [
        Pass::ReadCss,
        Pass::ReadHtml,
        Pass::Others,
        Pass::Css,
        Pass::Html,
    ];
}

impl<'a> SiteCopy<'a> {
    fn new(options: &'a Options, chosen: &[Treat], out: &'a Path) -> SiteCopy<'a> {
        let mut treatments = Vec::new();
        for treat in chosen {
            match treat {
                Treat::Gif => {
                    treatments.extend([ImageTreatment::GifToPng, ImageTreatment::GifToApng]);
                }
                Treat::Png => treatments.push(ImageTreatment::OptimisePng),
                Treat::Webp => treatments.push(ImageTreatment::ToWebp),
                Treat::Jpeg => treatments.push(ImageTreatment::Jpeg(options.jpeg_quality)),
                #[cfg(feature = "avif")]
                Treat::Avif => treatments.push(ImageTreatment::ToAvif),
                Treat::Minify | Treat::Concat | Treat::Sprite | Treat::Inline => {}
            }
        }
        let has = |treat| chosen.contains(&treat);
        let source = || Source::Folder(options.site.clone());
        SiteCopy {
            options,
            root: &options.site,
            out,
            limits: Limits {
                pixels: options.max_pixels,
                frames: MOST_FRAMES,
            },
            treatments,
            names: Names::default(),
            kept_white_space: has(Treat::Minify)
                .then(|| source().kept_white_space(options.max_file)),
            concatenations: has(Treat::Concat).then(Concatenations::default),
            sprites: has(Treat::Sprite).then(Sprites::default),
            inlining: has(Treat::Inline).then(Inlining::default),
            are_images_styled: false,
            hashes: Hashes::default(),
            written: Written::default(),
        }
    }

    /// Copies the whole site.
    fn whole(mut self) -> Result<Written, Failure> {
        for pass in Pass::ALL {
            let mut walk = Walk::begin(self.root).map_err(|error| {
                format!("cannot read the folder {}: {error}", self.root.display())
            })?;
            for path in walk.by_ref() {
                let path = path.map_err(|(path, error)| not_read(&path, &error))?;
                match (kind_of(&path), pass) {
                    (Kind::Css, Pass::ReadCss) => self.read_style_sheet(&path)?,
                    (Kind::Html, Pass::ReadHtml) => self.read_document(&path)?,
                    (Kind::Html, Pass::Html)
                    | (Kind::Css, Pass::Css)
                    | (Kind::Other, Pass::Others) => self.copy(&path, pass)?,
                    _ => {}
                }
            }
            self.written.entries_skipped = walk.skipped;
            match pass {
                Pass::Others => self.make_sprites()?,
                Pass::Css => self.concatenate()?,
                Pass::ReadCss | Pass::ReadHtml | Pass::Html => {}
            }
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
        let content = match walk::read(path, self.options.max_file) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                // Copies the file unchanged, without reading it into memory.
                let bytes =
                    fs::copy(path, &target).map_err(|error| not_written(&target, &error))?;
                self.count(bytes, bytes);
                return Ok(());
            }
            Err(error) => return Err(not_read(path, &error)),
        };
        let bytes = content.len() as u64;
        let rewritten = match pass {
            Pass::Html => self.html(path, &place, &content),
            // The URLs in the style sheet still refer to the original files.
            Pass::Css | Pass::Others if self.hashes.may_state(&place) => {
                self.written.files_hashed += 1;
                content
            }
            Pass::Css => self.css(path, &place, &content),
            Pass::ReadCss | Pass::ReadHtml => content,
            Pass::Others => return self.copy_other(path, &place, &target, &content),
        };
        write(&target, &rewritten)?;
        self.count(bytes, rewritten.len() as u64);
        Ok(())
    }

    /// Copies a file that is not a document. Treats the file if it is an image.
    fn copy_other(
        &mut self,
        path: &Path,
        place: &Path,
        target: &Path,
        content: &[u8],
    ) -> Result<(), Failure> {
        let bytes = content.len() as u64;
        let treated = match self.smallest(path, place, content) {
            Ok(treated) => {
                let file = treated
                    .as_ref()
                    .map_or(content, |(_, file)| file.as_slice());
                self.note_inlined(place, file);
                treated
            }
            Err(error) => {
                self.written.images_failed += 1;
                let path = path.display();
                (self.options.say)(format_args!("{path}: copied unchanged: {error}"));
                None
            }
        };
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
                    Format::Avif => ".avif",
                    Format::Gif | Format::Png | Format::Jpeg => ".png",
                };
                let (Some(renamed), false) = (
                    names::with_suffix(place, suffix),
                    names::with_suffix(path, suffix).is_some_and(|path| path.exists()),
                ) else {
                    // The site already has a file with this name, or the name cannot be used in a reference.
                    write(target, content)?;
                    self.count(bytes, bytes);
                    return Ok(());
                };
                // References in scripts and from other sites still have the old name.
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

    /// Records the image that the copy contains, which may be inlined into a document.
    fn note_inlined(&mut self, place: &Path, file: &[u8]) {
        if let (Some(inlining), Some(place), Some(format)) =
            (&mut self.inlining, place.to_str(), Format::of(file))
        {
            inlining.note_image(place.to_owned(), format.media_type(), file);
        }
    }

    /// Returns the smallest result of the image treatments, if it is smaller than the file.
    fn smallest(
        &mut self,
        path: &Path,
        place: &Path,
        content: &[u8],
    ) -> Result<Option<(Format, Vec<u8>)>, ImageError> {
        let Some(format) = format_of(path, content)? else {
            return Ok(None);
        };
        if matches!(format, Format::Webp | Format::Avif) {
            return Ok(None);
        }
        let image = match Image::decode(format, content, self.limits) {
            Ok(image) => image,
            Err(ImageError::NotApplicable(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let (Some(sprites), Some(place)) = (&mut self.sprites, place.to_str()) {
            sprites.note_image(place.to_owned(), image.picture(), content.len());
        }
        let mut smallest: Option<(Format, Vec<u8>)> = None;
        let applying = self.treatments.iter().filter(|one| one.applies_to(&image));
        for treatment in applying {
            let treated = match treatment.encode(&image) {
                Ok(treated) => treated,
                Err(ImageError::NotApplicable(_)) => continue,
                Err(error) => return Err(error),
            };
            treatment.distortion(&image, &*treatment.decode(&image, &treated)?)?;
            let least = smallest
                .as_ref()
                .map_or(content.len(), |(_, least)| least.len());
            if treated.file.len() < least {
                smallest = Some((treatment.format(), treated.file));
            }
        }
        Ok(smallest)
    }

    fn count(&mut self, bytes: u64, treated: u64) {
        self.written.bytes += bytes;
        self.written.treated_bytes += treated;
    }
}

/// The kind of a file, determined by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Html,
    Css,
    Other,
}

fn kind_of(path: &Path) -> Kind {
    let extension = path.extension().unwrap_or_default();
    let extension = extension.to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "html" | "htm" | "xhtml" => Kind::Html,
        "css" => Kind::Css,
        _ => Kind::Other,
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
