//! Object packages: all files of a page in one response, each usable the moment it has arrived
//! (fujinoki03; the format is specified in `docs/object-package.md`).
//!
//! An [`Encoder`] says what is written around the contents of the files and never sees more of a file
//! than it is shown; a [`Decoder`] takes a package in pieces of any length and tells the start, the data
//! and the end of each file at the earliest octet. Neither keeps contents. Version 1 is the layout of
//! the paper, whose table stands in front of all contents; in version 2 what is known of a file travels
//! with it.
//!
//! What files are in a package, where they go and who may have them is not decided here, and the content
//! coding of a file is neither put on nor taken off.

mod checks;
mod decoder;
mod encoder;
mod entry;
mod error;
mod fuzz;
pub mod have;
mod layout;
mod limits;
pub mod name;
mod roll;

pub use decoder::{Decoder, Event};
pub use encoder::{Encoder, Framing, Piece};
pub use entry::{Attributes, Checksum, Entry};
pub use error::{Class, DecodeError, EncodeError};
pub use fuzz::{fuzz_decoder, fuzz_round_trip};
pub use limits::Limits;

/// The media type of a package of either version, without its parameter.
pub const MEDIA_TYPE: &str = "application/vnd.fathometer.object-package";

/// The extension of a package's file name, without its dot.
pub const EXTENSION: &str = "objp";

/// The request field in which a client says what it has ([`have::Keys`]).
pub const HAVE_FIELD: &str = "Package-Have";

/// A version of the format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// The layout of the paper: names, sizes and attributes of all files, then their contents.
    One,
    /// What is known of a file travels with it.
    #[default]
    Two,
}

impl Version {
    /// What the header says.
    pub const fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    /// The version that a header means by `number`.
    pub const fn of_number(number: u8) -> Option<Version> {
        match number {
            1 => Some(Version::One),
            2 => Some(Version::Two),
            _ => None,
        }
    }

    /// `Content-Type` of a package of this version.
    pub const fn content_type(self) -> &'static str {
        match self {
            Version::One => "application/vnd.fathometer.object-package;version=1",
            Version::Two => "application/vnd.fathometer.object-package;version=2",
        }
    }
}
