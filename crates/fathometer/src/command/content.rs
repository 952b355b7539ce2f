//! `fathometer content`: the bytes that content codings, a shared dictionary, lower-case tags and other image formats
//! would save on a site.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
#[cfg(feature = "images")]
use clap::ValueEnum;
use fathometer_files::whole_file;
use fathometer_http::driver::Policy;
use fathometer_site_content::{self as site_content, Options};
use serde::Serialize;

use super::Failure;
use super::arguments::whole_seconds;
use super::load::security::SecurityArguments;

/// Arguments of `content`.
#[derive(Debug, Args)]
pub struct ContentArguments {
    /// The site: a folder (symbolic links in it are not followed), a browser's HTTP archive (HAR with contents), or a
    /// list of URLs to fetch, one per line
    site: PathBuf,
    /// Number of files to list, largest saving first
    #[arg(long, default_value_t = 10)]
    files: usize,
    /// Number of times that each file is encoded and decoded, to show the spread of the CPU time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    repeat: u8,
    /// Largest file to treat, in bytes; a larger file is reported as an error
    #[arg(long, default_value_t = 64 << 20)]
    max_file: u64,
    /// Total limit of the bytes that are fetched for a list of URLs
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    max_fetch: u64,
    /// Time limit of each URL of a list, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = whole_seconds)]
    timeout: Duration,
    /// Largest image to treat, in pixels of all its frames; a larger image is reported as an error
    #[cfg(feature = "images")]
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_pixels: u64,
    /// JPEG quality of images that are encoded again, 1 to 100
    #[cfg(feature = "images")]
    #[arg(long, default_value_t = 75, value_parser = clap::value_parser!(u8).range(1..=100))]
    jpeg_quality: u8,
    /// Also encode still images as AVIF (lossy), which takes seconds of CPU time per megapixel and repetition
    #[cfg(feature = "avif")]
    #[arg(long, conflicts_with = "write")]
    avif: bool,
    /// Write a treated copy of the site to this folder, which must be empty or not exist
    #[cfg(feature = "images")]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["report", "path"])]
    write: Option<PathBuf>,
    /// Treatments of the copy; if several apply to an image, the smallest result is written
    #[cfg(feature = "images")]
    #[arg(long, value_enum, value_delimiter = ',', requires = "write", default_values_t = [Treat::Gif, Treat::Png, Treat::Webp])]
    treat: Vec<Treat>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Also write an HTML page with the images before and after: a single file without scripts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Network path for which the packets and time of each page are predicted: unchanged, with gzip 6, and with joined
    /// files. A name (see `fathometer list`) or a TOML file; may be given several times. The site must be a folder
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Connection policies for the predictions, in cleartext over TCP
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "h1.1x6,h2c",
        requires = "path"
    )]
    policy: Vec<Policy>,
    /// Number of pages to predict, in the order of their URL paths
    #[arg(long, default_value_t = 10, requires = "path")]
    pages: usize,
    #[command(flatten)]
    security: SecurityArguments,
}

/// The treatments of a copy.
#[cfg(feature = "images")]
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Treat {
    /// GIF to PNG, animated GIF to APNG (lossless)
    Gif,
    /// PNG optimised (lossless)
    Png,
    /// GIF and PNG to WebP (lossless)
    Webp,
    /// JPEG encoded again (lossy)
    Jpeg,
    /// Still images to AVIF (lossy; slow: seconds of CPU time for each megapixel)
    #[cfg(feature = "avif")]
    Avif,
    /// HTML and style sheets minified: no comments, no repeated white space, short CSS values
    Minify,
    /// Consecutive style sheets, or scripts, of a document joined into one file
    Concat,
    /// Small images that the same documents use, combined into one PNG, a sprite (lossless)
    Sprite,
    /// Small images that a single tag uses, inlined there as `data:` URLs (lossless)
    Inline,
}

#[cfg(feature = "images")]
impl From<Treat> for site_content::Treat {
    fn from(treat: Treat) -> site_content::Treat {
        match treat {
            Treat::Gif => site_content::Treat::Gif,
            Treat::Png => site_content::Treat::Png,
            Treat::Webp => site_content::Treat::Webp,
            Treat::Jpeg => site_content::Treat::Jpeg,
            #[cfg(feature = "avif")]
            Treat::Avif => site_content::Treat::Avif,
            Treat::Minify => site_content::Treat::Minify,
            Treat::Concat => site_content::Treat::Concat,
            Treat::Sprite => site_content::Treat::Sprite,
            Treat::Inline => site_content::Treat::Inline,
        }
    }
}

impl ContentArguments {
    fn options(&self) -> Options {
        Options {
            site: self.site.clone(),
            files: self.files,
            repeat: self.repeat,
            max_file: self.max_file,
            max_fetch: self.max_fetch,
            timeout: self.timeout,
            is_tls_stated: self.security.are_given(),
            #[cfg(feature = "images")]
            max_pixels: self.max_pixels,
            #[cfg(feature = "images")]
            jpeg_quality: self.jpeg_quality,
            #[cfg(feature = "avif")]
            avif: self.avif,
            shows_images: self.report.is_some(),
            paths: self.path.clone(),
            policies: self.policy.clone(),
            pages: self.pages,
            say: |line| eprintln!("{line}"),
        }
    }

    fn print(&self, result: &(impl Serialize + Display)) -> Result<(), Failure> {
        match self.json {
            true => println!("{:#}", serde_json::to_value(result)?),
            false => print!("{result}"),
        }
        Ok(())
    }
}

/// Treats all files and prints the savings of each treatment, or writes a treated copy.
pub fn run(arguments: &ContentArguments) -> Result<ExitCode, Failure> {
    let options = arguments.options();
    #[cfg(feature = "images")]
    if let Some(out) = &arguments.write {
        let treatments: Vec<_> = arguments.treat.iter().map(|&treat| treat.into()).collect();
        let written = site_content::copy(&options, &treatments, out)?;
        arguments.print(&written)?;
        return Ok(code(
            written.images_failed + written.style_sheets_failed == 0,
        ));
    }
    let mut analysis = site_content::analyse(&options, &|clock| arguments.security.options(clock))?;
    if let Some(file) = &arguments.report {
        whole_file::write(file, analysis.page().as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    arguments.print(&analysis.report)?;
    Ok(code(analysis.report.incomplete().is_empty()))
}

fn code(is_complete: bool) -> ExitCode {
    match is_complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    }
}
