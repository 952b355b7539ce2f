//! That nobody but a host's own limit takes a site's pages from memory.
//!
//! Page cache of a host under test is meant to be lost to that host's limit, and to nothing else. Some
//! machines take it of their own: guests of a hypervisor that wants memory back, whose kernel pages out
//! what nobody has read for a minute (DAMON). That spares what is mapped, so the files are mapped here
//! while they are experimented with; see [`Mapped`] for why this does not keep them from the limit.
//!
//! It costs processor time of this program, which is not accounted to the host: some microseconds a
//! file and round.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathometer_sys::page_cache::Mapped;

use crate::site_folder::{SiteFolderError, files_below};

/// The period at which new pages are looked for. Kernels look for pages to take at periods of seconds.
const PERIOD: Duration = Duration::from_millis(250);

/// A program may have some 65 000 mappings (`vm.max_map_count`). A site of more files goes without, and what
/// is taken from it is found out from the host's accounts as ever.
const MOST_FILES: usize = 16_384;

/// Follows a site's pages in memory while it lives.
pub struct SiteCache {
    /// Dropped, the thread ends.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SiteCache {
    /// Begins to follow the files below `folder`.
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
                        // Refused, a page is where it would be without this.
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
            // It does not panic, and whether it did is nothing that a measurement rests on.
            let _ = thread.join();
        }
    }
}
