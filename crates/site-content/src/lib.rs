//! Computes how much treatments of a whole site save: content codings, a shared dictionary, lower-case tags,
//! minification, joined files and other image formats. Also predicts the load time of pages over a network path, and
//! writes a treated copy of the site.
//!
//! [`analyse`] reads a folder, an HTTP archive or a list of URLs, and [`copy()`] writes the treated copy of a
//! folder. The treatments of single files are in `fathometer-content`.

mod concatenation;
#[cfg(feature = "images")]
mod copy;
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

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fathometer_analysis::content_page::{ImagePair, Replaced};
use fathometer_http::driver::Policy;
use fathometer_sys::Clock;
use fathometer_tls::ClientOptions;

#[cfg(feature = "images")]
pub use self::copy::{Treat, Written, copy};
pub use self::predicted::PagePrediction;
use self::site::Site;
use self::source::Source;
pub use self::table::{Distortion, FileRow, Inlined, ReplacedRow, Report, Row};
pub use self::treatment::Sums;

/// The reason why a site was not treated, as a message that says what to do. It is a [`UsageError`], or an error of
/// another crate that states whether it is a usage error.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Options that are invalid on every machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

fn usage(message: impl Into<String>) -> Failure {
    Box::new(UsageError(message.into()))
}

/// Writes one line of progress, or the reason why a file cannot be treated.
pub type Say = fn(fmt::Arguments<'_>);

/// Creates the TLS options when a URL of a list needs them.
pub type TlsOptions<'a> = &'a dyn Fn(Clock) -> Result<ClientOptions, Failure>;

/// The site to treat, and the limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the site, an HTTP archive with contents, or a list of URLs.
    pub site: PathBuf,
    /// The number of files to list, in descending order of their savings.
    pub files: usize,
    /// The number of times that each file is encoded and decoded.
    pub repeat: u8,
    /// The largest file in bytes. A larger file is reported as an error and is not treated.
    pub max_file: u64,
    /// The maximum number of bytes to fetch for a list of URLs, in total.
    pub max_fetch: u64,
    /// The time limit for each URL of a list.
    pub timeout: Duration,
    /// Whether TLS options were given. Without a list of URLs they have no effect, so they are an error.
    pub is_tls_stated: bool,
    /// The maximum number of pixels of an image, in all frames together. A larger image is reported as an error and is
    /// not treated.
    #[cfg(feature = "images")]
    pub max_pixels: u64,
    /// The quality of re-encoded JPEG images, 1 to 100.
    #[cfg(feature = "images")]
    pub jpeg_quality: u8,
    /// Whether still images are also encoded as AVIF.
    #[cfg(feature = "avif")]
    pub avif: bool,
    /// Whether [`Analysis::page`] shows images before and after treatment.
    pub shows_images: bool,
    /// The paths over which the pages are predicted: names or TOML files.
    pub paths: Vec<String>,
    /// The connection policies of the predictions.
    pub policies: Vec<Policy>,
    /// The number of pages to predict, in the order of their paths.
    pub pages: usize,
    /// The function that receives messages.
    pub say: Say,
}

/// The savings by treatments of a site.
#[derive(Debug)]
pub struct Analysis {
    /// The figures. `Display` prints them as a table.
    pub report: Report,
    images: Vec<ImagePair>,
    replaced: Vec<Replaced>,
}

impl Analysis {
    /// Creates the HTML page with the figures, in one file without scripts. The images are moved into the page: a
    /// second call returns a page without images.
    pub fn page(&mut self) -> String {
        let images = std::mem::take(&mut self.images);
        page::page(&self.report, images, std::mem::take(&mut self.replaced))
    }
}

/// Treats all files of a site.
///
/// # Errors
///
/// If the options are invalid or the site cannot be read. Files that cannot be read or treated are counted in
/// the report, and reported through [`Options::say`].
pub fn analyse(options: &Options, tls: TlsOptions<'_>) -> Result<Analysis, Failure> {
    predicted::check(options)?;
    let source = Source::open(options, tls)?;
    let mut site = Site::new(options, &source);
    site.treat_files()?;
    if site.files == 0 && site.failed == 0 {
        let folder = options.site.display();
        return Err(usage(format!(
            "{folder} has no files; use the folder of a site"
        )));
    }
    site.share_dictionary()?;
    let images = site.shown_images();
    let replaced = site.proposals();
    let (mut report, joined) = site.into_report(&replaced)?;
    report.predictions = predicted::predict_pages(options, report.bytes, &joined)?;
    Ok(Analysis {
        report,
        images,
        replaced,
    })
}
