//! What of a set of files is in the server's memory when a visit begins: all of it, or nothing.
//!
//! Cold means the contents of files: of the sets that will be asked for and of the packages made of
//! them. Their names and places on the disk stay known to the kernel, and whatever lies beneath the disk (a
//! hypervisor, a controller) may have its own memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_http::driver::PageList;
use fathometer_model::Validity;

use super::site::Version;
use crate::site_folder::{self, SiteFolderError};

/// The files of sets, and those below the folder of packages.
pub(super) fn files(
    site: &Version,
    sets: &[Arc<PageList>],
    packages: Option<&Path>,
) -> Result<Vec<PathBuf>, SiteFolderError> {
    let targets = sets.iter().flat_map(|set| &set.files);
    let mut files: Vec<PathBuf> = targets
        .map(|target| site.folder.join(site_folder::name_of(target)))
        .collect();
    if let Some(packages) = packages {
        files.extend(site_folder::files_below(packages)?);
    }
    Ok(files)
}

/// Has all of these files in memory.
pub(super) fn warm(files: &[PathBuf]) -> Result<(), SiteFolderError> {
    files
        .iter()
        .try_for_each(|path| site_folder::remember_file(path))
}

/// Has nothing of these files in memory; says so where the system keeps some of it.
pub(super) fn chill(files: &[PathBuf], validity: &mut Validity) -> Result<(), SiteFolderError> {
    for path in files {
        site_folder::forget_file(path)?;
    }
    let mut kept = 0;
    for path in files {
        kept += site_folder::pages_in_memory(path)?;
    }
    if kept > 0 {
        validity.invalidate(format!(
            "{kept} pages of the server's files stayed in memory (limit 0): is their file system in memory?"
        ));
    }
    Ok(())
}
