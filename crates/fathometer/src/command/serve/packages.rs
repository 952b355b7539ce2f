//! Arguments of `fathometer serve` about packages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Formats, Making, Packages, Shared};
use fathometer_model::Bytes;

use crate::command::Failure;
use fathometer_origin::{OriginStatistics, PackageFolder};
use fathometer_sys::stderr::say;

/// Arguments of `serve` about packages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packages")]
pub struct PackageArguments {
    /// Send all files of a page in one response to clients whose Accept field names a package or an archive. made:
    /// build packages in advance, and again when a file changes; on-the-fly: build them for each request
    #[arg(long, value_name = "WHEN")]
    packages: Option<Making>,
    /// File that lists the files of each page and of each folder, one package per line, as in `/index.html /style.css
    /// /logo.png` or `/set/ /set/1.gif /set/2.gif` [default: the files that the HTML of a page names]
    #[arg(long, value_name = "PLAN", requires = "packages")]
    package_plan: Option<PathBuf>,
    /// Formats to offer: object packages of version 2 and 1, tar and zip archives
    #[arg(long, value_name = "LIST", default_value_t = Formats::ALL)]
    package_formats: Formats,
    /// Put a file that several pages of the plan share into the package of each of these pages (repeated) or only into
    /// the package of the first page (once)
    #[arg(long, value_name = "HOW", default_value = "repeated")]
    package_shared: Shared,
    /// Also package the files of any folder without an index; this reveals the folder's contents to clients
    #[arg(long, requires = "packages")]
    package_folders: bool,
}

impl PackageArguments {
    /// Returns the origin's settings for packages.
    pub fn packages(&self) -> Result<Packages, Failure> {
        let plan = match &self.package_plan {
            None => Plan::default(),
            Some(path) => fs::read_to_string(path)
                .map_err(|error| error.to_string())
                .and_then(|text| text.parse::<Plan>().map_err(|error| error.to_string()))
                .map_err(|error| format!("failed to read {}: {error}", path.display()))?,
        };
        if self.package_shared == Shared::Once && plan.is_empty() {
            return Err(
                "--package-shared once needs --package-plan, which orders the pages".into(),
            );
        }
        Ok(Packages {
            making: self.packages.unwrap_or_default(),
            formats: self.package_formats,
            shared: self.package_shared,
            folders: self.package_folders,
            plan,
            ..Packages::default()
        })
    }

    /// Creates the folder that stores the packages of a folder's files, if packages are enabled.
    pub fn folder(&self) -> Result<Option<PackageFolder>, Failure> {
        if self.packages.unwrap_or_default() == Making::None {
            return Ok(None);
        }
        PackageFolder::temporary()
            .map(Some)
            .map_err(|error| format!("failed to create a folder for packages: {error}").into())
    }

    /// Prints the number of packages and archives that were sent.
    pub fn report(&self, statistics: &OriginStatistics) {
        if self.packages.is_some() {
            say(format_args!(
                "{} packages and archives were sent; {} files were opened, {} calls read from files",
                statistics.packages, statistics.disk_opens, statistics.disk_reads
            ));
        }
    }
}

/// Estimates the memory for packages made in advance, for a message to the operator.
pub fn memory_of(packages: &Packages, site: Bytes) -> Option<String> {
    (packages.making == Making::Made).then(|| {
        let formats = packages.formats.iter().count();
        format!(
            "packages and archives are built in advance in {formats} formats: about {} of additional memory",
            Bytes(site.0.saturating_mul(formats as u64))
        )
    })
}
