//! Packages and archives of what an origin serves: all files of a page, or of a folder, in one response
//! (fujinoki03).
//!
//! A package is a representation of its page, chosen by `Accept` (proactive negotiation, RFC 9110 section
//! 12.1): whoever does not name its media type gets the page. It has an entity tag made of those of its
//! members, and preconditions, ranges and HEAD work on it as on any representation.
//!
//! It is *made* in advance and kept, in memory or as a file of the host's store, or composed *on the fly*
//! of its head and of the files where they are, which are not copied. That gives way to others that the same
//! host serves: files are looked up some a turn, before the answer is decided, and each is read once for its
//! checksum, while it is sent first, a slice a turn. What is kept is made in one turn, and so is a zip archive,
//! whose every file begins with its checksum. A client that says
//! what it has (`Package-Have`) gets a delta, composed likewise: files that it lacks, and entries without
//! content for the others.
//!
//! What is [dynamic](super::dynamic) has no size beforehand. Packages of version 2 that are composed on
//! the fly have it among their files, behind those that need not be waited for; all others leave it
//! out, and clients ask for it by itself.
//!
//! - `accept`: what a client wants
//! - `group`: which files go into a package, in which order
//! - `gather`: those files as they are at the moment
//! - `compose`: pieces of a package
//! - `shelf`: packages that were made, and when they are to be made again

mod accept;
mod compose;
mod gather;
mod group;
mod shelf;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::companions::Plan;
use crate::package::Version;

pub(super) use compose::{Composed, read};
pub(super) use group::INDEX;
pub(super) use shelf::{Packager, Undecided};

/// How an origin packages what it serves. By default it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packages {
    /// Whether, and when.
    pub making: Making,
    /// What is offered. With [`Making::Made`] each page costs its size in each of them.
    pub formats: Formats,
    /// Where files go that several pages share.
    pub shared: Shared,
    /// Whether a folder without an index, which no plan names, is a package of the files in it. Whoever
    /// asks for it then learns their names. Only where there is a store.
    pub folders: bool,
    /// Which files go with which page, and which are in which folder. A site's own pages and folders need
    /// not be named. Where a store's plan is empty, what the HTML of a page names goes with it.
    pub plan: Plan,
    /// For how long a package that was made is served before its members are looked at again.
    pub fresh: Duration,
}

impl Default for Packages {
    fn default() -> Packages {
        Packages {
            making: Making::None,
            formats: Formats::ALL,
            shared: Shared::Repeated,
            folders: false,
            plan: Plan::default(),
            fresh: Duration::from_secs(1),
        }
    }
}

/// When packages are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Making {
    /// There are none.
    #[default]
    None,
    /// In advance. They are kept, and made again when a member changes.
    Made,
    /// For each request, of what the files are at that time.
    OnTheFly,
}

/// Where files go that several pages share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Shared {
    /// Into the package of each page.
    #[default]
    Repeated,
    /// Into the package of the first page alone, in the order of the plan or the site.
    Once,
}

/// What all files of a page are sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// An object package.
    Package(Version),
    /// A tar archive.
    Tar,
    /// A zip archive.
    Zip,
}

/// A set of formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Formats {
    /// Object packages of version 2.
    pub two: bool,
    /// Object packages of version 1.
    pub one: bool,
    /// tar
    pub tar: bool,
    /// zip
    pub zip: bool,
}

impl Format {
    const COUNT: usize = 4;

    /// All of them, the preferred first.
    pub const ALL: [Format; Format::COUNT] = [
        Format::Package(Version::Two),
        Format::Package(Version::One),
        Format::Tar,
        Format::Zip,
    ];

    /// Its `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Package(version) => version.content_type(),
            Format::Tar => "application/x-tar",
            Format::Zip => "application/zip",
        }
    }

    /// The word for it in a list of formats.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Package(Version::Two) => "2",
            Format::Package(Version::One) => "1",
            Format::Tar => "tar",
            Format::Zip => "zip",
        }
    }

    /// The extension of its files.
    const fn extension(self) -> &'static str {
        match self {
            Format::Package(_) => crate::package::EXTENSION,
            Format::Tar => "tar",
            Format::Zip => "zip",
        }
    }

    /// Its place among all.
    const fn place(self) -> usize {
        match self {
            Format::Package(Version::Two) => 0,
            Format::Package(Version::One) => 1,
            Format::Tar => 2,
            Format::Zip => 3,
        }
    }
}

impl Formats {
    /// All.
    pub const ALL: Formats = Formats {
        two: true,
        one: true,
        tar: true,
        zip: true,
    };

    /// One alone.
    pub const fn only(format: Format) -> Formats {
        Formats {
            two: matches!(format, Format::Package(Version::Two)),
            one: matches!(format, Format::Package(Version::One)),
            tar: matches!(format, Format::Tar),
            zip: matches!(format, Format::Zip),
        }
    }

    /// Whether this one is among them.
    pub const fn has(self, format: Format) -> bool {
        match format {
            Format::Package(Version::Two) => self.two,
            Format::Package(Version::One) => self.one,
            Format::Tar => self.tar,
            Format::Zip => self.zip,
        }
    }

    /// Those that are among them, the preferred first.
    pub fn iter(self) -> impl Iterator<Item = Format> {
        Format::ALL
            .into_iter()
            .filter(move |format| self.has(*format))
    }
}

/// Words apart by commas: `2` and `1` for the versions of packages, `tar`, `zip`.
impl FromStr for Formats {
    type Err = String;

    fn from_str(text: &str) -> Result<Formats, String> {
        let mut formats = Formats {
            two: false,
            one: false,
            tar: false,
            zip: false,
        };
        for word in text.split(',') {
            match word.trim() {
                "2" => formats.two = true,
                "1" => formats.one = true,
                "tar" => formats.tar = true,
                "zip" => formats.zip = true,
                other => {
                    return Err(format!(
                        "{other:?} is no format: give some of 2, 1, tar and zip"
                    ));
                }
            }
        }
        Ok(formats)
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Format::word).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Making {
    type Err = String;

    fn from_str(text: &str) -> Result<Making, String> {
        match text {
            "none" => Ok(Making::None),
            "made" => Ok(Making::Made),
            "on-the-fly" => Ok(Making::OnTheFly),
            _ => Err("give none, made or on-the-fly".to_owned()),
        }
    }
}

impl FromStr for Shared {
    type Err = String;

    fn from_str(text: &str) -> Result<Shared, String> {
        match text {
            "repeated" => Ok(Shared::Repeated),
            "once" => Ok(Shared::Once),
            _ => Err("give repeated or once".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod turn_tests;
