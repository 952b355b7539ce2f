//! The files to treat: the files of a folder, the responses of an HTTP archive, or the files of a list of URLs.

mod archive;
mod list;
mod retrieve;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathometer_content::KeptWhiteSpace;

use crate::walk::{self, NotRead, Walk};
use crate::{Failure, Options, Say, TlsOptions, usage};

/// The largest archive or list in bytes. The limit exists because the whole input is read into memory.
const LARGEST_INPUT: u64 = 1 << 30;

/// The source of the files.
#[derive(Debug)]
pub enum Source {
    /// A folder, which is read several times.
    Folder(PathBuf),
    /// An archive or a list, whose files are in memory.
    Held(Held),
}

/// Files in memory.
#[derive(Debug, Default)]
pub struct Held {
    files: Vec<SiteFile>,
    failed: u64,
    skipped: u64,
}

/// A file of the site.
#[derive(Clone, Debug)]
pub struct SiteFile {
    /// The path or URL of the file.
    pub path: PathBuf,
    /// The content of the file, without content coding.
    pub content: Vec<u8>,
    /// The media type of the response, in lower case and without parameters; `None` for a file of a folder.
    pub media_type: Option<String>,
}

impl Source {
    /// Opens the source that the options name. Reads the files of an archive, or fetches the files of a list. Reports
    /// the errors of single files.
    pub fn open(options: &Options, tls: TlsOptions<'_>) -> Result<Source, Failure> {
        let site = &options.site;
        let shown = site.display();
        let metadata =
            fs::metadata(site).map_err(|error| format!("cannot read {shown}: {error}"))?;
        if metadata.is_dir() {
            refuse_tls(options)?;
            return Ok(Source::Folder(site.clone()));
        }
        let text = walk::read(site, LARGEST_INPUT)
            .and_then(|bytes| {
                String::from_utf8(bytes)
                    .map_err(|_| io::Error::other("it is not UTF-8 text; use a folder"))
            })
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        let without_mark = text.trim_start_matches('\u{feff}');
        let held = match without_mark.trim_start().starts_with('{') {
            true => {
                refuse_tls(options)?;
                archive::read(&text, options.max_file, options.say)
                    .map_err(|fault| usage(format!("{shown} is not an HTTP archive: {fault}")))?
            }
            false => list::fetch(&text, options, tls)?,
        };
        if held.files.is_empty() {
            return Err(format!("no file of {shown} has content").into());
        }
        Ok(Source::Held(held))
    }

    /// Calls the function for each file, and for each file or folder that cannot be read. Returns the number of
    /// entries that are not files.
    pub fn each(
        &self,
        max_file: u64,
        mut treat: impl FnMut(Result<SiteFile, NotRead>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let folder = match self {
            Source::Folder(folder) => folder,
            Source::Held(held) => {
                for file in &held.files {
                    treat(Ok(file.clone()))?;
                }
                return Ok(held.skipped);
            }
        };
        let mut walk = Walk::begin(folder)
            .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
        for path in walk.by_ref() {
            treat(path.and_then(|path| match walk::read(&path, max_file) {
                Ok(content) => Ok(SiteFile {
                    path,
                    content,
                    media_type: None,
                }),
                Err(error) => Err((path, error)),
            }))?;
        }
        Ok(walk.skipped)
    }

    /// Returns the elements whose white space is visible according to the site's style sheets. Style sheets that cannot
    /// be read are reported when they are treated.
    pub fn kept_white_space(&self, max_file: u64) -> KeptWhiteSpace {
        let mut kept = KeptWhiteSpace::default();
        match self {
            Source::Folder(folder) => {
                let walk = Walk::begin(folder).into_iter().flatten();
                for path in walk.filter_map(Result::ok).filter(|path| is_css(path)) {
                    match walk::read(&path, max_file) {
                        Ok(css) => kept.add_style_sheet(&css),
                        Err(_) => kept = KeptWhiteSpace::everywhere(),
                    }
                }
                kept
            }
            Source::Held(held) => {
                let sheets = held.files.iter().filter(|file| file.is_css());
                sheets.for_each(|file| kept.add_style_sheet(&file.content));
                // A missing style sheet may make any white space visible.
                match held.failed {
                    0 => kept.with_other_hosts(),
                    _ => KeptWhiteSpace::everywhere(),
                }
            }
        }
    }

    /// Returns the number of files that were reported as missing when the source was opened.
    pub fn failed(&self) -> u64 {
        match self {
            Source::Folder(_) => 0,
            Source::Held(held) => held.failed,
        }
    }

    /// Returns the kind of entries that [`Source::each`] skips.
    pub fn skipped_entries(&self) -> &'static str {
        match self {
            Source::Folder(_) => "links and special files",
            Source::Held(_) => "entries that are not files (other methods, schemes and statuses)",
        }
    }
}

/// Refuses TLS options without a list of URLs, because they would have no effect.
fn refuse_tls(options: &Options) -> Result<(), Failure> {
    match options.is_tls_stated {
        true => Err(usage("TLS options need a list of URLs")),
        false => Ok(()),
    }
}

impl SiteFile {
    /// Returns whether the file is HTML according to its media type or name, and is not a mislabelled binary file.
    pub fn is_html(&self) -> bool {
        let is_named = match &self.media_type {
            Some(media_type) => media_type == "text/html",
            None => {
                let extension = self.path.extension().unwrap_or_default();
                extension.eq_ignore_ascii_case("html") || extension.eq_ignore_ascii_case("htm")
            }
        };
        is_named && !self.content.contains(&0)
    }

    /// Returns whether the file is a style sheet, according to its media type or name.
    pub fn is_css(&self) -> bool {
        match &self.media_type {
            Some(media_type) => media_type == "text/css",
            None => is_css(&self.path),
        }
    }

    /// Returns whether the file is a script, according to its media type or name.
    pub fn is_script(&self) -> bool {
        match &self.media_type {
            Some(media_type) => media_type.ends_with("/javascript"),
            None => self
                .path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("js")),
        }
    }

    /// Returns the path whose extension indicates an image format. It is empty for a URL, because browsers identify
    /// images from servers by their bytes (MIME Sniffing, section 8.1).
    #[cfg(feature = "images")]
    pub fn name(&self) -> &std::path::Path {
        match self.media_type {
            Some(_) => std::path::Path::new(""),
            None => &self.path,
        }
    }
}

/// Returns whether the file name is the name of a style sheet.
pub fn is_css(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("css"))
}

impl Held {
    /// Adds a file, or reports why it cannot be treated.
    fn add(&mut self, url: &str, file: Result<SiteFile, String>, say: Say) {
        match file {
            Ok(file) => self.files.push(file),
            Err(why) => {
                self.failed += 1;
                say(format_args!("cannot treat {url}: {why}"));
            }
        }
    }
}
