//! What a retrieval leaves behind.

use fathometer_model::{
    Bytes, ConnectionRecord, ExchangeRecord, Failure, FileArrival, Instant, ServiceRecord,
};

use super::cache::ValidatorCache;

/// A page's retrieval from its first connection to its last.
#[derive(Debug, Clone)]
pub struct Retrieval {
    /// Every request that was given to a connection, in that order.
    pub exchanges: Vec<ExchangeRecord>,
    /// Every connection, in the order they were asked for.
    pub connections: Vec<ConnectionRecord>,
    /// The files that the page needed, or the list named, in the order in which they could be used.
    pub files: Vec<FileArrival>,
    /// What came of asking for all of them at once; `None` when the policy does not, or it never came
    /// to an answer.
    pub bundle: Option<BundleAnswer>,
    /// The cache, brought up to date.
    pub cache: ValidatorCache,
    /// When what was reached.
    pub milestones: Milestones,
    /// How much had arrived by then.
    pub octets: Octets,
    /// How often what happened.
    pub counters: Counters,
    /// The files that could not be had, and why. Empty for a page retrieved whole. (A file that the
    /// server answered with an error status was had: its status is in its record.)
    pub failures: Vec<(String, Failure)>,
    /// What became known of alternative services, and what became of them, in order; empty unless the
    /// policy looks for them.
    pub services: Vec<ServiceRecord>,
}

/// What a request for a page's files at once came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleAnswer {
    /// The package or archive came whole, with so many files in it, those that the client was told to
    /// keep not counted.
    Whole {
        /// The files.
        files: u64,
    },
    /// The files that an earlier one brought are all current.
    Current,
    /// The server has none: what came was the page itself, or an error.
    Refused,
    /// It broke off, or was not what it said it was. What was whole is kept; the rest was asked for
    /// singly.
    Broken {
        /// What kind of failure it was.
        failure: Failure,
        /// The failure in words; empty when it was the connection's.
        reason: String,
    },
}

/// Points in time on the way to a page; `None` for what was not reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones {
    /// The first octet of the base file's response was read; in HTTP/2 its whole head.
    pub base_first_byte: Option<Instant>,
    /// The base file was read whole, or found current.
    pub base_complete: Option<Instant>,
    /// The first octet of the first request for an embedded file was handed to the transport.
    pub first_image_request_sent: Option<Instant>,
    /// Requests were flushed for the second time: the first batch is the request for the base file,
    /// the second the first requests for embedded files.
    pub second_batch_sent: Option<Instant>,
    /// The dimensions of every image in the page were known, so that the page could be laid out.
    /// Images that turned out to be none do not count.
    pub sizes_known: Option<Instant>,
    /// The last file without which the page cannot be shown or read was done with: the base file,
    /// style sheets, scripts that hold up the document, fonts.
    pub critical_complete: Option<Instant>,
    /// Every file was read whole or found current, and every script executed. Where files come in a
    /// bundle, that was at its end as well. `None` where references were left out.
    pub page_complete: Option<Instant>,
}

/// Octets read from all connections until some of the [`Milestones`], heads and frames included,
/// protection (TLS) not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Octets {
    /// In all.
    pub received: Bytes,
    /// Up to and with the read that brought the first octet of the base file's response.
    pub base_first_byte: Option<Bytes>,
    /// Likewise for the base file.
    pub base_complete: Option<Bytes>,
    /// Likewise for the last critical file.
    pub critical_complete: Option<Bytes>,
    /// Likewise for the page.
    pub page_complete: Option<Bytes>,
}

/// Counts of what happened during a retrieval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flushes by the client's own decision: after the request for the base file, and of every
    /// request when there is no pipelining.
    pub flushes_explicit: u32,
    /// Flushes of a full buffer, or of a full pipeline.
    pub flushes_full: u32,
    /// Flushes by the timer.
    pub flushes_timer: u32,
    /// Flushes because no further request could come up.
    pub flushes_end: u32,
    /// Requests asked again.
    pub requests_retried: u32,
    /// Responses that the server owed or had begun when the connection ended.
    pub responses_lost: u32,
    /// References to other origins, which were not followed.
    pub references_elsewhere: u32,
    /// References to files beyond [`MOST_FILES`](super::MOST_FILES), which were not followed.
    pub references_left_out: u32,
    /// Files that were asked for because of a preload, before anything else named them.
    pub preloads: u32,
    /// Pushes that the server promised.
    pub pushes_promised: u32,
    /// Of these, those that were refused or given up: the file was in the cache or had been asked for.
    pub pushes_refused: u32,
    /// Of these, those accepted that the page turned out to need.
    pub pushes_used: u32,
    /// Of these, those accepted that nothing of the page named.
    pub pushes_unused: u32,
    /// Files of a bundle that were whole and that nothing of the page named.
    pub bundled_unused: u32,
    /// Files that were asked for singly because a bundle that was asked for did not bring them.
    pub bundle_missed: u32,
}

impl Counters {
    /// Flushes of all causes.
    pub fn flushes(&self) -> u32 {
        self.flushes_explicit + self.flushes_full + self.flushes_timer + self.flushes_end
    }
}
