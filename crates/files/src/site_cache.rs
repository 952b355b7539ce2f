//! Ensures that only a host's own memory limit evicts a site's pages from the page cache.
//!
//! On some virtual machines the kernel also evicts pages when no limit is reached: it pages out memory that was not
//! accessed for a minute (DAMON), so that the hypervisor can reclaim it. Mapped pages are exempt. Therefore the files
//! are mapped here during an experiment. [`Mapped`] explains why this does not exempt them from the host's limit.
//!
//! This takes some microseconds of CPU time per file and round, which are charged to this program and not to the host.

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

/// Maps the pages of a site that are in memory, until this value is dropped.
pub struct SiteCache {
    /// The thread ends when this sender is dropped.
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
                        // A failure is ignored: it only leaves this file unprotected.
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
