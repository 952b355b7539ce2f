//! Runs the server of one replicate, over TCP, and also over QUIC if the policy uses HTTP/3.
//!
//! Sets of files are served from the disk, and each request opens its file again. A page is served from memory.
//! Packages and archives are stored in a separate folder, which is removed with the server.

use std::path::Path;

use fathometer_model::Bytes;
use fathometer_sys::usage::ThreadClock;

use super::place::Place;
use super::quic;
use super::site::Version;
use crate::experiment::ReplicateError;
use fathometer_files::scratch::Scratch;
use fathometer_lab::server::{self, Content, Running, ServerError, ServerReport, Storage};
use fathometer_origin::OriginStatistics;
use fathometer_origin::folder::Bounds;
use fathometer_origin::http3::Service;

/// The bounds of a cache that stores nothing between requests, so that every request opens its file.
const NOTHING_KEPT: Bounds = Bounds {
    bytes: 0,
    descriptors: 0,
};

/// A running server.
pub(super) struct Serving {
    running: Running,
    over_quic: Option<Service>,
    packages: Option<Scratch>,
}

impl Serving {
    /// Starts the cell's server for one version of its site.
    pub(super) fn start(place: &Place<'_>, site: &Version) -> Result<Serving, ReplicateError> {
        let levels = place.levels;
        let is_sets = levels.page.is_sets();
        let packages = is_sets
            .then(Scratch::new)
            .transpose()
            .map_err(ServerError::from)?;
        let content = Content {
            site: &site.site,
            folder: &site.folder,
            push: &levels.push,
            early_hints: &levels.early_hints,
            packages: &levels.packages,
            storage: match &packages {
                None => Storage::Memory,
                Some(scratch) => Storage::Disk {
                    bounds: NOTHING_KEPT,
                    packages_in: Some(scratch.path()),
                },
            },
        };
        let mut definition = place.setup.definition.clone();
        if let Some(embedded) = definition
            .embedded
            .as_mut()
            .filter(|_| levels.policy.alt_svc)
        {
            embedded.announce_http3(place.access.port());
        }
        let running = server::start_with_access(
            &definition,
            place.setup.installed,
            place.host,
            content,
            levels.demands,
            place.access,
            place.clock,
        )?;
        let is_ours = place.setup.definition.program.is_none();
        let over_quic = match place.access.credentials() {
            Some(credentials) if is_ours && levels.policy.protocol.is_over_quic() => {
                Some(quic::serve(place, content, credentials)?)
            }
            // Other programs serve HTTP/3 without a separate origin.
            _ => None,
        };
        Ok(Serving {
            running,
            over_quic,
            packages,
        })
    }

    /// Returns the folder of packages, if packages are stored.
    pub(super) fn packages_in(&self) -> Option<&Path> {
        self.packages.as_ref().map(Scratch::path)
    }

    /// Returns the number of responses whose last byte was passed to the kernel; `None` if the server is a program.
    pub(super) fn responses(&self) -> Option<u64> {
        match &self.over_quic {
            Some(service) => Some(service.responses()),
            None => self.running.responses(),
        }
    }

    /// Returns the threads of the server; empty if the server is a program.
    pub(super) fn threads(&self) -> Vec<ThreadClock> {
        let over_tcp = self.running.thread();
        let over_quic = self.over_quic.iter().flat_map(Service::threads);
        over_tcp.into_iter().chain(over_quic).collect()
    }

    /// Returns the number of bytes that these threads have read from storage.
    pub(super) fn storage_read(&self) -> Option<Bytes> {
        let threads = self.threads();
        let read: Option<Vec<Bytes>> = threads.iter().map(|t| t.storage_read()).collect();
        let read = read.filter(|read| !read.is_empty())?;
        Some(read.into_iter().fold(Bytes(0), |sum, bytes| sum + bytes))
    }

    /// Stops the server and returns its report, which covers both transports.
    pub(super) fn stop(self) -> Result<ServerReport, ReplicateError> {
        let over_quic = match self.over_quic {
            None => None,
            Some(service) => {
                service.stop();
                Some(service.join()?)
            }
        };
        let mut report = self.running.stop()?;
        if let Some(over_quic) = over_quic {
            let over_tcp = report.origin.unwrap_or_default();
            report.origin = Some(OriginStatistics::and(over_tcp, over_quic));
        }
        Ok(report)
    }
}
