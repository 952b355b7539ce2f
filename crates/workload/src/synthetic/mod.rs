//! Synthetic content: files of an exact size with valid bytes of their type.
//!
//! A site of a million files and 20 GB must fit into memory. A file's bytes are therefore slices of a few shared pools,
//! and take a few hundred bytes of memory regardless of the file's size. The bytes are:
//!
//! | type | bytes |
//! |---|---|
//! | HTML, CSS, JavaScript, JSON, SVG, plain text | valid text that DEFLATE reduces to the stated ratio |
//! | GIF, PNG, JPEG, WebP | images that decode, of noise that no coding compresses |
//! | any other type, including fonts and archives | noise |
//!
//! Images are small pictures. Their other bytes are in parts of the format without pixels (comments, private chunks).
//! The bytes of an image smaller than [`smallest`] are noise.
//!
//! The same specifications and seed give the same bytes on every machine. The stated ratio is for DEFLATE with its
//! window of 32 KiB. A coding with a window of 1 MB or more further compresses files longer than a pool, because it
//! detects that the pool repeats.

mod image;
mod pool;
mod text;

use std::cell::OnceCell;
use std::sync::Arc;

use fathometer_model::{Body, File, FileId, Page, Seed, SharedSlice, Site};

use crate::content::noise;
use image::{Gifs, Jpegs, WebPs};
pub(crate) use image::{Pngs, mng};
use text::{Language, Texts};

/// The default fraction to which DEFLATE reduces a text: about the value for HTML, style sheets and scripts on the Web.
pub const TEXT_RATIO: f64 = 0.30;

/// 1 January 2025, 00:00:00 GMT, in seconds since the Unix epoch: the date of every file.
const LAST_MODIFIED: u64 = 1_735_689_600;
/// Bytes of the pool of noise.
const NOISE: usize = 1 << 20;
/// Files up to this number of bytes are stored in a single block of memory.
const WHOLE: u64 = 256;

/// A file to be generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// The path of the file, as required by [`File::path`].
    pub path: String,
    /// The media type of the file; it determines the kind of bytes.
    pub content_type: &'static str,
    /// The size of the file in bytes.
    pub size: u64,
}

/// Generates the files of these specifications, in the same order, without references between them.
///
/// `ratio` is the fraction to which DEFLATE reduces a text. Texts of 20 kB and more meet it within 0.02, for ratios
/// from 0.02 to 0.60. In shorter texts the header of the coding takes a larger share.
pub fn files(specs: impl IntoIterator<Item = FileSpec>, ratio: f64, seed: Seed) -> Vec<File> {
    let maker = Maker::new(ratio, seed);
    specs
        .into_iter()
        .zip(0..)
        .map(|(spec, index)| {
            let body = maker.make(index, &spec, []);
            file(spec, body)
        })
        .collect()
}

/// Generates a site of these files and pages. The files are as in [`files`]. In addition, if a file refers to other
/// files of a page ([`Page::named_by`]), it contains these references if its type permits: HTML to any type, style
/// sheets to fonts and images, scripts and SVG to images.
///
/// References are written in document order. A reference that does not fit into the file is omitted; the file to which
/// it refers is still part of the page.
///
/// # Panics
///
/// If a page contains a file that does not exist.
pub fn site(
    name: impl Into<String>,
    specs: Vec<FileSpec>,
    pages: Vec<Page>,
    ratio: f64,
    seed: Seed,
) -> Site {
    let maker = Maker::new(ratio, seed);
    let references = References::of(&pages);
    let bodies: Vec<Body> = specs
        .iter()
        .zip(0u32..)
        .map(|(spec, index)| {
            let named = references.of_file(FileId(index)).map(|id| {
                let named = &specs[id.0 as usize];
                (named.path.as_str(), named.content_type)
            });
            maker.make(u64::from(index), spec, named)
        })
        .collect();
    let files = specs
        .into_iter()
        .zip(bodies)
        .map(|(spec, body)| file(spec, body))
        .collect();
    Site {
        name: name.into(),
        files,
        pages,
    }
}

/// Returns the size of the smallest valid file of this type; 0 if any size is valid.
pub fn smallest(content_type: &str) -> u64 {
    match content_type {
        "image/gif" => image::SMALLEST_GIF,
        "image/png" => image::SMALLEST_PNG,
        "image/jpeg" => image::SMALLEST_JPEG,
        "image/webp" => image::SMALLEST_WEBP,
        _ => 0,
    }
}

/// Returns the media type for a path's extension: `application/octet-stream` for an unknown extension, `text/html` if
/// the path has no extension.
pub fn type_of(path: &str) -> &'static str {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((_, extension)) = name.rsplit_once('.') else {
        return "text/html";
    };
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" | "shtml" | "php" | "asp" | "aspx" | "jsp" | "cgi" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" | "map" => "application/json",
        "txt" | "text" | "md" | "csv" => "text/plain",
        "svg" => "image/svg+xml",
        "gif" => "image/gif",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        _ => "application/octet-stream",
    }
}

fn file(spec: FileSpec, body: Body) -> File {
    File {
        path: spec.path,
        content_type: spec.content_type.into(),
        body,
        encoded: Vec::new(),
        last_modified: LAST_MODIFIED,
    }
}

/// Pairs of files, sorted by the first: the referring file, and the file to which it refers.
struct References(Vec<(FileId, FileId)>);

impl References {
    fn of(pages: &[Page]) -> References {
        let mut references = Vec::new();
        for page in pages {
            for (place, &named) in page.embedded.iter().enumerate() {
                let by = page.named_by.get(place).copied().flatten();
                let by = by.map_or(page.base, |by| page.embedded[usize::from(by)]);
                references.push((by, named));
            }
        }
        // The sort is stable, so references of a file remain in document order.
        references.sort_by_key(|&(by, _)| by);
        references.dedup();
        References(references)
    }

    fn of_file(&self, by: FileId) -> impl Iterator<Item = FileId> {
        let start = self.0.partition_point(|&(other, _)| other < by);
        let rest = self.0[start..].iter();
        rest.take_while(move |&&(other, _)| other == by)
            .map(|&(_, named)| named)
    }
}

/// Generates bodies; each pool is generated when a body first needs it.
struct Maker {
    ratio: f64,
    seed: Seed,
    noise: OnceCell<Arc<[u8]>>,
    texts: [OnceCell<Texts>; 6],
    gifs: OnceCell<Gifs>,
    pngs: OnceCell<Pngs>,
    jpegs: OnceCell<Jpegs>,
    webps: OnceCell<WebPs>,
}

impl Maker {
    fn new(ratio: f64, seed: Seed) -> Maker {
        Maker {
            ratio,
            seed: seed.stream("workload.synthetic"),
            noise: OnceCell::new(),
            texts: Default::default(),
            gifs: OnceCell::new(),
            pngs: OnceCell::new(),
            jpegs: OnceCell::new(),
            webps: OnceCell::new(),
        }
    }

    fn make<'a>(
        &self,
        index: u64,
        spec: &FileSpec,
        named: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Body {
        let essence = spec.content_type.split(';').next().unwrap_or_default();
        let size = spec.size;
        let body = match essence {
            "text/plain" => self.text(Language::Plain, index, size, named),
            "text/html" => self.text(Language::Html, index, size, named),
            "text/css" => self.text(Language::Css, index, size, named),
            "text/javascript" | "application/javascript" => {
                self.text(Language::Script, index, size, named)
            }
            "application/json" => self.text(Language::Json, index, size, named),
            "image/svg+xml" => self.text(Language::Svg, index, size, named),
            _ => self.image_or_noise(index, essence, size),
        };
        match body.len().0 {
            1..=WHOLE => Body::from(&*body.bytes()),
            _ => body,
        }
    }

    fn text<'a>(
        &self,
        language: Language,
        index: u64,
        size: u64,
        named: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Body {
        self.texts[language as usize]
            .get_or_init(|| Texts::new(language, self.seed.stream(language.name()), self.ratio))
            .make(index, size, named)
    }

    fn image_or_noise(&self, index: u64, essence: &str, size: u64) -> Body {
        let is_image = size >= smallest(essence);
        let seed = self.seed.stream(essence);
        match essence {
            "image/gif" if is_image => self.gifs.get_or_init(|| Gifs::new(seed)).make(index, size),
            "image/png" if is_image => self.pngs.get_or_init(|| Pngs::new(seed)).make(index, size),
            "image/jpeg" if is_image => {
                let jpegs = self.jpegs.get_or_init(|| Jpegs::new(seed));
                jpegs.make(index, size)
            }
            // The length in the file header has 32 bits.
            "image/webp" if is_image && size < u64::from(u32::MAX) => {
                let webps = self.webps.get_or_init(|| WebPs::new(seed, self.noise()));
                webps.make(index, size)
            }
            _ => {
                let own = self.seed.stream("noise").child(index);
                let mut stretches: Vec<SharedSlice> = Vec::new();
                let start = own.draw(0) as usize % NOISE;
                pool::append_cyclic(&mut stretches, &self.noise(), start, size);
                Body::composed(stretches)
            }
        }
    }

    fn noise(&self) -> Arc<[u8]> {
        let seed = self.seed.stream("noise");
        self.noise.get_or_init(|| noise(seed, NOISE).into()).clone()
    }
}

#[cfg(test)]
mod tests;
