//! Ensures that only a host's own memory limit evicts a site's pages from the page cache.
//!
//! Some machines evict pages although no limit is reached: kernels of guests whose hypervisor reclaims memory page
//! out memory that was not accessed for a minute (DAMON). Mapped pages are exempt. Therefore the files are
//! mapped here during an experiment. [`Mapped`] explains why this does not exempt them from the host's limit.
//!
//! This takes CPU time of this program that is not charged to the host: some microseconds per file and round.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathometer_sys::page_cache::Mapped;

use crate::site_folder::{SiteFolderError, files_below};

/// The period at which new pages are mapped. Kernels look for pages to reclaim at intervals of seconds.
const PERIOD: Duration = Duration::from_millis(250);

/// The maximum number of mapped files: a process may have about 65,000 mappings (`vm.max_map_count`). A site with
/// more files is not protected; the host's accounting still detects evictions by other causes.
const MOST_FILES: usize = 16_384;

/// Keeps a site's pages mapped while they are in memory, until it is dropped.
pub struct SiteCache {
    /// The thread ends when this is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SiteCache {
    /// Starts to protect the files below `folder`.
    pub fn follow(folder: &Path) -> Result<SiteCache, SiteFolderError> {
        let paths = files_below(folder)?;
        let mut files = Vec::new();
        if paths.len() <= MOST_FILES {
            for path in paths {
                let failed = |error: io::Error| SiteFolderError::System {
                    doing: "map",
                    path: path.clone(),
                    error,
                };
                let file = File::open(&path).map_err(failed)?;
                files.extend(Mapped::new(&file).map_err(|error| failed(io::Error::other(error)))?);
            }
        }
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("site cache".to_owned())
            .spawn(move || {
                let mut room = Vec::new();
                while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    for file in &files {
                        // If this fails, only the protection is missing.
                        let _ = file.follow(&mut room);
                    }
                }
            })
            .map_err(|error| SiteFolderError::System {
                doing: "start a thread for",
                path: folder.to_owned(),
                error,
            })?;
        Ok(SiteCache {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for SiteCache {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and no measurement depends on its result.
            let _ = thread.join();
        }
    }
}
