//! What treatments of a whole site save: content codings, a shared dictionary, tags in lower case, minification, joined files
//! and other formats of images; what its pages take over a path; and a treated copy of it.
//!
//! [`analyse`] reads a folder, an HTTP archive or a list of URLs, and [`copy()`] writes the treated copy of a folder. The
//! treatments of one file are those of `fathometer-content`.

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

/// Why a site was not treated: a message that says what to do. It is a [`UsageError`], or the error of a lower crate, which
/// says itself whether it is one of usage.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Options that are wrong, regardless of the machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

fn usage(message: impl Into<String>) -> Failure {
    Box::new(UsageError(message.into()))
}

/// Writes one line of progress, or the reason why a file cannot be treated.
pub type Say = fn(fmt::Arguments<'_>);

/// Makes the options of TLS, when a URL of a list needs them.
pub type TlsOptions<'a> = &'a dyn Fn(Clock) -> Result<ClientOptions, Failure>;

/// What is treated, and within which limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the site, HTTP archive with contents, or list of URLs.
    pub site: PathBuf,
    /// How many files to list, those with the largest saving first.
    pub files: usize,
    /// How many times each file is encoded and decoded.
    pub repeat: u8,
    /// Bytes above which a file is an error and not treated.
    pub max_file: u64,
    /// Bytes to fetch of a list of URLs, in total.
    pub max_fetch: u64,
    /// Time limit of each URL of a list.
    pub timeout: Duration,
    /// Whether options of TLS are stated, which have no effect without a list of URLs: an error then.
    pub is_tls_stated: bool,
    /// Pixels, in all frames together, above which an image is an error and not treated.
    #[cfg(feature = "images")]
    pub max_pixels: u64,
    /// Quality of the JPEG images that are encoded again, 1 to 100.
    #[cfg(feature = "images")]
    pub jpeg_quality: u8,
    /// Whether still images are also encoded as AVIF.
    #[cfg(feature = "avif")]
    pub avif: bool,
    /// Whether [`Analysis::page`] shows images before and after.
    pub shows_images: bool,
    /// Paths over which the pages are predicted: names or TOML files.
    pub paths: Vec<String>,
    /// Connection policies of the predictions.
    pub policies: Vec<Policy>,
    /// How many pages to predict, in the order of their paths.
    pub pages: usize,
    /// Where messages go.
    pub say: Say,
}

/// What the treatments of a site save.
#[derive(Debug)]
pub struct Analysis {
    /// The figures. Its `Display` is a table.
    pub report: Report,
    images: Vec<ImagePair>,
    replaced: Vec<Replaced>,
}

impl Analysis {
    /// The figures as a page: HTML in one file, without scripts. The images of the page are not kept: another one has none.
    pub fn page(&mut self) -> String {
        let images = std::mem::take(&mut self.images);
        page::page(&self.report, images, std::mem::take(&mut self.replaced))
    }
}

/// Treats all files of a site.
///
/// # Errors
///
/// When the options are wrong, and when the site cannot be read. Files that cannot be read or treated are counted in the
/// report, and reported through [`Options::say`].
pub fn analyse(options: &Options, tls: TlsOptions<'_>) -> Result<Analysis, Failure> {
    predicted::check(options)?;
    let source = Source::open(options, tls)?;
    let mut site = Site::new(options, &source);
    site.treat_files()?;
    if site.files == 0 && site.failed == 0 {
        let folder = options.site.display();
        return Err(usage(format!(
            "{folder} has no files; name the folder of a site"
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
