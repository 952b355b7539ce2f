//! The paths of the programs and files of the bench.

use std::path::PathBuf;

use fathometer_sys::Interrupt;

/// The programs and files with which clients run.
pub(super) struct Place {
    /// The program under test.
    pub(super) ours: PathBuf,
    /// The client built on quic-go; `None` when it cannot be built.
    pub(super) quic_go: Option<PathBuf>,
    /// The bare loop in C; `None` when it cannot be built.
    pub(super) bare: Option<PathBuf>,
    /// The processor that clients run on.
    pub(super) processor: usize,
    /// The folder of all files.
    pub(super) folder: PathBuf,
    /// Whether the user has interrupted the bench.
    pub(super) interrupt: Interrupt,
}

/// Returns the path of a program, if it is installed.
pub(super) fn installed(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .map(|path| path.display().to_string())
}
