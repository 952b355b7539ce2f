//! `fathometer content`: what content codings, a shared dictionary, tags in lower case and other formats of images would
//! save on a site.

mod concatenation;
#[cfg(feature = "images")]
mod inlining;
mod joined;
mod minified;
mod page;
mod page_files;
#[cfg(feature = "images")]
mod pictures;
mod place;
mod predicted;
mod site;
mod small_images;
mod source;
#[cfg(feature = "images")]
mod sprites;
mod table;
mod treatment;
mod walk;
#[cfg(feature = "images")]
mod write;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_files::whole_file;
use fathometer_http::driver::Policy;

use self::site::Site;
use self::source::Source;
use super::arguments::whole_seconds;
use super::load::security::SecurityArguments;
use super::{Failure, usage};

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
    /// Also encode still images as AVIF (lossy), which takes seconds of CPU time for each megapixel and repetition
    #[cfg(feature = "avif")]
    #[arg(long, conflicts_with = "write")]
    avif: bool,
    /// Write a treated copy of the site to this folder, which must be empty or not exist
    #[cfg(feature = "images")]
    #[arg(long, value_name = "FOLDER", conflicts_with = "report")]
    write: Option<PathBuf>,
    /// Treatments of the copy; of several for an image, the smallest result is taken
    #[cfg(feature = "images")]
    #[arg(long, value_enum, value_delimiter = ',', requires = "write", default_values_t = [write::Treat::Gif, write::Treat::Png, write::Treat::Webp])]
    treat: Vec<write::Treat>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page with the images before and after: one HTML file, without scripts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Path over which to predict the packets and seconds of each page, as it is, by gzip 6, and with joined files: a name
    /// (see `fathometer list`) or a TOML file; repeatable. Needs a folder
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
    let (mut report, joined) = site.into_report(&replaced)?;
    report.predictions = predicted::predict_pages(arguments, report.bytes, &joined)?;
    if let Some(file) = &arguments.report {
        whole_file::write(file, page::page(&report, images, replaced).as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    let is_complete = report.incomplete().is_empty();
    match arguments.json {
        true => println!("{:#}", serde_json::to_value(&report)?),
        false => print!("{report}"),
    }
    Ok(match is_complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}
