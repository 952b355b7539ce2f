//! The results of a retrieval.

use fathometer_model::{
    Bytes, ConnectionRecord, ExchangeRecord, Failure, FileArrival, Instant, ServiceRecord,
};

use super::cache::ValidatorCache;

/// The retrieval of a page, from the first connection to the last.
#[derive(Debug, Clone)]
pub struct Retrieval {
    /// Every request that was passed to a connection, in that order.
    pub exchanges: Vec<ExchangeRecord>,
    /// Every connection, in the order in which they were requested.
    pub connections: Vec<ConnectionRecord>,
    /// The files that the page needed, or the list named, in the order in which they became usable.
    pub files: Vec<FileArrival>,
    /// The result of the request for a bundle of all files; `None` if the policy uses no bundles or there was
    /// no response.
    pub bundle: Option<BundleAnswer>,
    /// The updated cache.
    pub cache: ValidatorCache,
    /// The time of each milestone.
    pub milestones: Milestones,
    /// The bytes received until each milestone.
    pub bytes: ByteCounts,
    /// Counts of events.
    pub counters: Counters,
    /// The files that could not be retrieved, and why. Empty for a page retrieved completely. (A file that the
    /// server answered with an error status counts as retrieved: its status is in its record.)
    pub failures: Vec<(String, Failure)>,
    /// The announcements and failures of alternative services, in order; empty unless the policy uses such
    /// services.
    pub services: Vec<ServiceRecord>,
}

/// The result of a request for all files at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleAnswer {
    /// The package or archive arrived completely. Files that were omitted because the client has them are not
    /// counted.
    Whole {
        /// The files.
        files: u64,
    },
    /// All files of an earlier bundle are current.
    Current,
    /// The server has no bundle: the response was the page itself, or an error.
    Refused,
    /// The bundle was cut off or malformed. Its complete files are used; the other files were requested one by one.
    Broken {
        /// The kind of failure.
        failure: Failure,
        /// The failure as text; empty when the connection failed.
        reason: String,
    },
}

/// The times of the milestones of a page; `None` for those that were not reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones {
    /// The first byte of the base file's response was read; in HTTP/2 its complete head.
    pub base_first_byte: Option<Instant>,
    /// The base file was read completely, or found current.
    pub base_complete: Option<Instant>,
    /// The first byte of the first request for an embedded file was passed to the transport.
    pub first_image_request_sent: Option<Instant>,
    /// Requests were flushed for the second time: the first batch is the request for the base file,
    /// the second the first requests for embedded files.
    pub second_batch_sent: Option<Instant>,
    /// The dimensions of every image in the page were known, so that the page could be laid out. Files that
    /// turned out not to be images do not count.
    pub sizes_known: Option<Instant>,
    /// The last file without which the page cannot be shown or read was finished: the base file, style sheets,
    /// scripts that block the document, fonts.
    pub critical_complete: Option<Instant>,
    /// Every file was read completely or found current, and every script was executed. If files come in a
    /// bundle, the bundle was finished as well. `None` if references were left out.
    pub page_complete: Option<Instant>,
}

/// Bytes read from all connections until some of the [`Milestones`]. Heads and frames are included, TLS
/// overhead is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// Up to the end of the retrieval.
    pub received: Bytes,
    /// Up to the end of the read that returned the first byte of the base file's response.
    pub base_first_byte: Option<Bytes>,
    /// Up to the end of the base file.
    pub base_complete: Option<Bytes>,
    /// Up to the end of the last critical file.
    pub critical_complete: Option<Bytes>,
    /// Up to the end of the page.
    pub page_complete: Option<Bytes>,
}

/// Counts of events during a retrieval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Explicit flushes: after the request for the base file, and after every request without pipelining.
    pub flushes_explicit: u32,
    /// Flushes of a full buffer, or of a full pipeline.
    pub flushes_full: u32,
    /// Flushes by the timer.
    pub flushes_timer: u32,
    /// Flushes because no further request was possible.
    pub flushes_end: u32,
    /// Requests retried.
    pub requests_retried: u32,
    /// Responses that were outstanding or in progress when the connection ended.
    pub responses_lost: u32,
    /// References to other origins, which were not followed.
    pub references_elsewhere: u32,
    /// References to files beyond [`MOST_FILES`](super::MOST_FILES), which were not followed.
    pub references_left_out: u32,
    /// Files that were requested because of a preload, before a file of the page named them.
    pub preloads: u32,
    /// Pushes that the server promised.
    pub pushes_promised: u32,
    /// Promised pushes that were refused or cancelled, because the file was in the cache or was already requested.
    pub pushes_refused: u32,
    /// Promised pushes that were accepted and that the page needed.
    pub pushes_used: u32,
    /// Promised pushes that were accepted and that no file of the page named.
    pub pushes_unused: u32,
    /// Complete files of a bundle that no file of the page named.
    pub bundled_unused: u32,
    /// Files that were requested one by one because a requested bundle did not contain them.
    pub bundle_missed: u32,
}

impl Counters {
    /// Flushes of all causes.
    pub fn flushes(&self) -> u32 {
        self.flushes_explicit + self.flushes_full + self.flushes_timer + self.flushes_end
    }
}
