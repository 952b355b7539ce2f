//! Object packages on this host: made of folders, pages and HTTP archives, and taken apart into
//! folders. The format is [`fathometer_http::package`]'s; here are files, pipes and signals.
//!
//! A package streams: of files there is never more in memory than a buffer, of a folder the names, of an
//! HTTP archive one content.
//! What is written appears under its name when it is whole, and not before: packages as well as the
//! files that come out of them.
//!
//! Names within a package are those of request targets, without the slash in front: the path of a
//! file within its folder, percent-encoded ([`name`]). So a package made here names files as the
//! origin does, and any folder goes into one and comes back, octet by octet.

pub mod extract;
mod flow;
pub mod har;
pub mod name;
pub mod output;
pub mod pack;
pub mod progress;
pub mod source;
mod spool;
pub mod unpack;

use std::io;
use std::path::{Path, PathBuf};

use fathometer_http::package::{DecodeError, EncodeError};

pub use flow::Flow;

/// Why a package was not made, or not wholly taken apart. Each says what to do where something can be
/// done.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The system refused.
    #[error("failed to {doing} {path}: {error}", path = .path.display())]
    System {
        /// `read`, `write`, ….
        doing: &'static str,
        /// The file or folder, or the stream by its name.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The package is none, is damaged, cut short, or beyond what is taken.
    #[error("{package} cannot be read{place}: {error}{advice}", advice = advice(.error))]
    Broken {
        /// The package, or the stream that it comes from.
        package: String,
        /// Behind what, as ` behind octet n`, or nothing.
        place: String,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A file cannot be packed.
    #[error("failed to pack {path}: {error}", path = .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        error: EncodeError,
    },
    /// A file is not as long as it was when it was looked at.
    #[error("{path} changed while it was packed: pack it again when it is left alone", path = .0.display())]
    Changed(PathBuf),
    /// There is something already where a file is to be written.
    #[error("{path} exists: give another folder, or --force to overwrite", path = .0.display())]
    Exists(PathBuf),
    /// What is written is more than may be: the package is a bomb, or larger than expected.
    #[error("{path} is left out, and all behind it: {why}", path = .path.display())]
    Expands {
        /// The file that was being written.
        path: PathBuf,
        /// Which bound, and the option that moves it.
        why: String,
    },
    /// Two files of the package belong to the same place.
    #[error(
        "the package has two files for {path}: {name:?} is left out, and all behind it", path = .path.display()
    )]
    SamePath {
        /// The name of the second.
        name: String,
        /// Where.
        path: PathBuf,
    },
    /// Something that is no folder is where a folder is needed, and is not followed.
    #[error("{path} is in the way: it is {what}, where a folder is needed", path = .path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// `a symbolic link`, ….
        what: &'static str,
    },
    /// A folder is where a file is to be written.
    #[error("{path} is a folder, and a file is to be written there: move it away", path = .0.display())]
    IsFolder(PathBuf),
    /// A name that no file of this system can have once its percent-encoding is taken off.
    #[error(
        "the package names a file {name:?}, which would not be below the folder: it is left out, and all behind it"
    )]
    Climbs {
        /// The name.
        name: String,
    },
    /// What is to be packed cannot be, as a whole.
    #[error("{0}")]
    Source(String),
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// Whoever read the package went away.
    #[error("whoever reads {} went away before the package was complete", .0.display())]
    ReaderGone(PathBuf),
}

impl PackageError {
    /// What the system said, as an error about a path.
    pub(crate) fn system(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> PackageError + use<> {
        let path = path.to_owned();
        move |error| PackageError::System { doing, path, error }
    }
}

/// What can be done about a broken package.
fn advice(error: &DecodeError) -> &'static str {
    use fathometer_http::package::Class;
    match error.class() {
        Class::Unknown => "",
        Class::Truncated | Class::Damaged => "; get it again",
        Class::Malformed => "; whoever made it made it wrong",
        Class::TooLarge => "; it is not read, to keep within bounds",
    }
}
