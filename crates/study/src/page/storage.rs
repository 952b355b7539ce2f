//! Prepares the server's page cache for the start of a visit: it contains all files of a set, or none of them.
//!
//! "Cold" means that the cache lacks the contents of the requested sets' files and of the packages built from them. The
//! kernel may still cache their names and disk locations. Layers below the file system (a hypervisor, a controller) may
//! also have a cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_http::driver::PageList;
use fathometer_model::Validity;

use super::site::Version;
use fathometer_files::site_folder::{self, SiteFolderError};

/// Returns the files of the sets, and the files below the folder of packages.
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

/// Reads all of these files into the page cache.
pub(super) fn warm(files: &[PathBuf]) -> Result<(), SiteFolderError> {
    files
        .iter()
        .try_for_each(|path| site_folder::remember_file(path))
}

/// Evicts these files from the page cache. Invalidates the replicate if a page remains cached.
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
            "{kept} pages of the server's files could not be evicted from memory (limit 0): check that their file \
             system is on a disk"
        ));
    }
    Ok(())
}
