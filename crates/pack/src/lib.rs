//! Object packages on this host: building them from folders, and extracting them to folders.
//! [`fathometer_package`] defines the format; this crate handles files, pipes and signals.
//!
//! Packages are streamed. Only a buffer of file contents and the names of a folder's files are in memory. Packages and
//! extracted files appear under their names only when they are complete.
//!
//! Names within a package are request targets without the leading slash: the percent-encoded path of a file within its
//! folder ([`name`]). A package built here therefore uses the same names as the origin, and any folder can be packed
//! and extracted without changing a byte.

pub mod extract;
mod flow;
pub mod folder;
pub mod listing;
pub mod name;
pub mod output;
pub mod pack;
mod rename;
pub mod unpack;

use std::io;
use std::path::{Path, PathBuf};

use fathometer_package::{DecodeError, EncodeError};

pub use flow::Flow;

/// The reason why a package was not built, or not extracted completely. If the user can solve the problem, the message
/// says how.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A system call failed.
    #[error("failed to {doing} {path}: {error}", path = .path.display())]
    System {
        /// The failed action: `read`, `write`, ….
        doing: &'static str,
        /// The file or folder, or the name of the stream.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The input is not a package, is damaged or truncated, or exceeds the limits.
    #[error("{package} cannot be read{place}: {error}{advice}", advice = advice(.error))]
    Broken {
        /// The package, or the stream that contains it.
        package: String,
        /// The position, as ` after byte n`, or empty.
        place: String,
        /// The error in the package.
        error: DecodeError,
    },
    /// A file cannot be stored in a package.
    #[error("failed to pack {path}: {error}", path = .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: EncodeError,
    },
    /// A file changed while it was packed.
    #[error("{path} changed while it was packed: pack it again when it no longer changes", path = .0.display())]
    Changed(PathBuf),
    /// The destination already exists.
    #[error("{path} exists: give another folder, or --force to overwrite", path = .0.display())]
    Exists(PathBuf),
    /// The extracted size exceeds a limit: the package is a decompression bomb, or larger than expected.
    #[error("{path} and all later files are not extracted: {why}", path = .path.display())]
    Expands {
        /// The file that was being written.
        path: PathBuf,
        /// The limit, and the option that sets it.
        why: String,
    },
    /// Two files of the package have the same destination.
    #[error(
        "the package has two files for {path}: {name:?} and all later files are not extracted", path = .path.display()
    )]
    SamePath {
        /// The name of the second file.
        name: String,
        /// The destination.
        path: PathBuf,
    },
    /// A folder is needed, but the path is not a folder. Links are not followed.
    #[error("{path} must be a folder, but it is {what}: move it away", path = .path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
        /// The actual type: `a symbolic link`, ….
        what: &'static str,
    },
    /// The destination of a file is a folder.
    #[error("{path} is a folder, and the package has a file of that name: move the folder away", path = .0.display())]
    IsFolder(PathBuf),
    /// After percent-decoding, a name is not a valid relative path on this system.
    #[error(
        "the package has a file {name:?}, which is not below the folder: this file and all later files are not extracted"
    )]
    Climbs {
        /// The name.
        name: String,
    },
    /// The source cannot be packed.
    #[error("{0}")]
    Source(String),
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
    /// The reader of the package closed the pipe.
    #[error("the reader of {} closed it before the package was complete", .0.display())]
    ReaderClosed(PathBuf),
}

impl PackageError {
    /// Converts an error of the system to an error about a path.
    pub(crate) fn system(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> PackageError + use<> {
        let path = path.to_owned();
        move |error| PackageError::System { doing, path, error }
    }
}

/// Returns advice for a broken package.
fn advice(error: &DecodeError) -> &'static str {
    use fathometer_package::Class;
    match error.class() {
        Class::Unknown => "",
        Class::Truncated | Class::Damaged => "; fetch it again",
        Class::Malformed => "; the program that wrote it has a defect",
        Class::TooLarge => "; it exceeds the limits of this program",
    }
}
