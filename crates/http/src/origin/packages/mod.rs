//! Packages and archives: all files of a page, or of a folder, in one response (fujinoki03).
//!
//! A package is a representation of its page, selected by `Accept` (proactive negotiation, RFC 9110 section 12.1). A
//! client that does not list the media type of packages gets the page. The entity tag of a package is derived from the
//! tags of its members. Preconditions, ranges and HEAD work as for any representation.
//!
//! A package can be built *in advance* and stored, in memory or as a file of the caller's store. Alternatively, it is
//! composed *on the fly* from its head and the files, without a copy of the files. The composition takes several turns,
//! so that the server can serve other responses in between. Before the answer is decided, a few files are looked up per
//! turn. Each file is read once for its checksum, one slice per turn, when it is first sent. Packages that are built in
//! advance are built in one turn. Zip archives are also built in one turn, because a zip entry starts with its
//! checksum. A client that lists its files (`Package-Have`) gets a delta, which is also composed on the fly. A delta
//! contains the missing files, and entries without content for the files that the client has.
//!
//! The length of [dynamic](super::dynamic) content is not known in advance. Packages of version 2 that are composed on
//! the fly include dynamic content after all files. All other packages omit dynamic content, and clients request it
//! separately.
//!
//! - `accept`: the formats that a client accepts
//! - `group`: the files of a package and their order
//! - `gather`: the look-up of these files
//! - `parts`: the result of the look-up
//! - `compose`: the pieces of a package
//! - `cache`: stored packages, and the rule for rebuilding them

mod accept;
mod cache;
mod compose;
mod gather;
mod group;
mod parts;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::companions::Plan;
use fathometer_package::Version;

pub(super) use accept::quality_of;
pub(super) use cache::{Packager, Undecided};
pub(super) use compose::{Composed, read};

/// The rules for the packages of an origin. The default is no packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packages {
    /// The time at which packages are built.
    pub making: Making,
    /// The offered formats. With [`Making::Made`], each page takes memory or disk space for each format.
    pub formats: Formats,
    /// The treatment of files that several pages share.
    pub shared: Shared,
    /// Whether a folder without an index and without an entry in the plan is available as a package of its files. Such
    /// a package reveals the names of the files. Applies only to a store.
    pub folders: bool,
    /// The members of each page and of each folder. Pages and folders of a site need not be listed. If the plan of a
    /// store is empty, the references in the HTML of a page define its members.
    pub plan: Plan,
    /// The time for which a package is served before its members are checked again.
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

/// The time at which packages are built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Making {
    /// Never.
    #[default]
    None,
    /// In advance. The packages are stored, and rebuilt when a member changes.
    Made,
    /// At each request, from the current files.
    OnTheFly,
}

/// The treatment of files that several pages share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Shared {
    /// The file is a member of the package of each page.
    #[default]
    Repeated,
    /// The file is a member only of the first page's package, in the order of the plan or the site.
    Once,
}

/// The format of a package.
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
pub struct Formats([bool; Format::COUNT]);

impl Format {
    const COUNT: usize = 4;

    /// All formats, in order of preference.
    pub const ALL: [Format; Format::COUNT] = [
        Format::Package(Version::Two),
        Format::Package(Version::One),
        Format::Tar,
        Format::Zip,
    ];

    /// The `Content-Type` of the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Package(version) => version.content_type(),
            Format::Tar => "application/x-tar",
            Format::Zip => "application/zip",
        }
    }

    /// The name of the format in an option's list of formats.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Package(Version::Two) => "2",
            Format::Package(Version::One) => "1",
            Format::Tar => "tar",
            Format::Zip => "zip",
        }
    }

    /// The extension of files with this format.
    const fn extension(self) -> &'static str {
        match self {
            Format::Package(_) => fathometer_package::EXTENSION,
            Format::Tar => "tar",
            Format::Zip => "zip",
        }
    }

    /// The index of the format in [`ALL`](Self::ALL).
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
    /// All formats.
    pub const ALL: Formats = Formats([true; Format::COUNT]);

    /// Returns the set that contains only this format.
    pub fn only(format: Format) -> Formats {
        [format].into_iter().collect()
    }

    /// Whether the set contains this format.
    pub const fn has(self, format: Format) -> bool {
        self.0[format.place()]
    }

    /// The formats in the set, in order of preference.
    pub fn iter(self) -> impl Iterator<Item = Format> {
        Format::ALL
            .into_iter()
            .filter(move |format| self.has(*format))
    }
}

impl FromIterator<Format> for Formats {
    fn from_iter<I: IntoIterator<Item = Format>>(formats: I) -> Formats {
        let mut set = Formats([false; Format::COUNT]);
        for format in formats {
            set.0[format.place()] = true;
        }
        set
    }
}

/// The text form is a list of words separated by commas: `2` and `1` for the versions of packages, `tar`, `zip`.
impl FromStr for Formats {
    type Err = String;

    fn from_str(text: &str) -> Result<Formats, String> {
        let format = |word: &str| {
            let mut formats = Format::ALL.into_iter();
            formats
                .find(|format| format.word() == word.trim())
                .ok_or_else(|| {
                    let word = word.trim();
                    format!("{word:?} is not a format: use 2, 1, tar or zip")
                })
        };
        text.split(',').map(format).collect()
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
            _ => Err("use none, made or on-the-fly".to_owned()),
        }
    }
}

impl FromStr for Shared {
    type Err = String;

    fn from_str(text: &str) -> Result<Shared, String> {
        match text {
            "repeated" => Ok(Shared::Repeated),
            "once" => Ok(Shared::Once),
            _ => Err("use repeated or once".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod turn_tests;
