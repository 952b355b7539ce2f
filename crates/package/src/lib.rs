//! Many files in one: object packages (fujinoki03; the format is specified in `docs/object-package.md`), and
//! tar and zip archives for comparison ([`archive`]). In an object package, each file is usable as soon as it
//! has arrived.
//!
//! An [`Encoder`] writes a package except for the contents of the files, and reads only the content that is passed to
//! it. A [`Decoder`] reads a package in pieces of any length, and reports the start, the data and the end of each file
//! as early as possible. Neither stores contents. Version 1 is the layout of the paper, with a table before all
//! contents. In version 2, each file comes with its own metadata.
//!
//! This crate does not select, store or protect the files of a package. It does not apply or remove content codings.

pub mod archive;
mod checks;
mod decoder;
mod encoder;
mod entry;
mod error;
pub mod have;
mod layout;
mod limits;
pub mod name;
mod roll;

pub use decoder::{Decoder, Event};
pub use encoder::{Encoder, Framing, Piece};
pub use entry::{Attributes, Checksum, Entry};
pub use error::{Class, DecodeError, EncodeError};
pub use limits::Limits;

/// The media type of a package of either version, without its parameter.
pub const MEDIA_TYPE: &str = "application/vnd.fathometer.object-package";

/// The extension of a package's file name, without its dot.
pub const EXTENSION: &str = "objp";

/// The request field in which a client lists the files that it has ([`have::Keys`]).
pub const HAVE_FIELD: &str = "Package-Have";

/// A version of the format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// The layout of the paper: names, sizes and attributes of all files, then their contents.
    One,
    /// Each file comes with its own metadata.
    #[default]
    Two,
}

impl Version {
    /// Returns the version number in the header.
    pub const fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    /// Returns the version with this number in the header.
    pub const fn of_number(number: u8) -> Option<Version> {
        match number {
            1 => Some(Version::One),
            2 => Some(Version::Two),
            _ => None,
        }
    }

    /// Returns the `Content-Type` of a package of this version.
    pub const fn content_type(self) -> &'static str {
        match self {
            Version::One => "application/vnd.fathometer.object-package;version=1",
            Version::Two => "application/vnd.fathometer.object-package;version=2",
        }
    }
}
