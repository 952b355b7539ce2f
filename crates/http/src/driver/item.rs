//! The files of a page, and the requests for them.

use fathometer_model::{Bytes, Delivery, ExchangeRecord, Failure, Instant, Outcome};

use super::cache::CacheEntry;
use super::image::Sizer;
use super::kind::FileKind;

/// One file of the page.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) target: String,
    pub(super) kind: FileKind,
    /// The index of the page's host from which the file is requested.
    pub(super) host: u16,
    /// The item that names this file; `None` for the base file, which the user names.
    pub(super) named_by: Option<usize>,
    pub(super) planned: Instant,
    /// Whether the page needs the file. A pushed or bundled file may never be named.
    pub(super) wanted: bool,
    pub(super) known_by: KnownBy,
    pub(super) retries: u16,
    pub(super) resolved: Option<Resolved>,
    /// The time at which the first byte of the response with the file was read.
    pub(super) started: Option<Instant>,
    /// The way in which the file was delivered; `None` until the file can be used.
    pub(super) by: Option<Delivery>,
    pub(super) sizer: Sizer,
    /// Bytes of the file received in order from the start.
    pub(super) received: u64,
    /// The length of the complete file, if known.
    pub(super) complete: Option<u64>,
    /// The cache entry for the copy that is being received.
    pub(super) fresh: CacheEntry,
}

/// The event by which a file first became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// The user, another file or a list named the file.
    Name,
    Push,
    Bundle,
    /// Not a file, but the target of the request for a list's bundle.
    Folder,
}

/// When a file was resolved, successfully or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) at: Instant,
    /// Bytes that all connections had received at that time.
    pub(super) bytes: Bytes,
}

impl Item {
    pub(super) fn new(target: String, kind: FileKind, planned: Instant) -> Item {
        Item {
            target,
            kind,
            host: 0,
            named_by: None,
            planned,
            wanted: true,
            known_by: KnownBy::Name,
            retries: 0,
            resolved: None,
            started: None,
            by: None,
            sizer: Sizer::new(),
            received: 0,
            complete: None,
            fresh: CacheEntry::default(),
        }
    }

    pub(super) fn is_image(&self) -> bool {
        self.kind.is_image()
    }

    /// Resets the received part of the file. The first byte of a copy follows; `fresh` is the cache entry for
    /// that copy.
    pub(super) fn begin_copy(&mut self, fresh: CacheEntry) {
        self.sizer = Sizer::new();
        self.received = 0;
        self.complete = None;
        self.fresh = fresh;
    }
}

/// A file and the kind of request for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) item: usize,
    pub(super) ask: Ask,
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Whole {
        conditional: bool,
    },
    FirstPart {
        conditional: bool,
    },
    Rest,
    Head,
    /// Requests all files of the page or list at once.
    Bundle {
        conditional: bool,
    },
}

/// A request that was given to a connection, or a push that was accepted.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) record: ExchangeRecord,
    pub(super) job: Job,
    pub(super) meaning: Meaning,
}

/// The meaning of a response, known when its head has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Unknown,
    /// The base file itself.
    Base,
    /// A complete embedded file.
    Whole,
    /// A part of an embedded file.
    Part,
    /// The client already has all remaining bytes of this file.
    Had,
    /// The copy in the cache is current.
    Current,
    /// The copy in the cache is not current, and the response does not contain a new one.
    Changed,
    /// A package or an archive of all files.
    Bundle,
    /// The copies of all files of an earlier bundle are current.
    BundleCurrent,
    /// A response that the driver no longer needs.
    Passed,
    /// A bundle with wrong content in a valid HTTP message.
    BrokenBundle(Failure),
    /// An error status: there is no copy of the file, and a retry would not help.
    Nothing,
    /// A response that does not match the request: request the complete file.
    Unusable,
    /// Wrong content in a valid HTTP message.
    Broken(Failure),
}

/// Creates a record of a request about to be queued.
pub(super) fn new_record(
    exchange: usize,
    connection: usize,
    method: &str,
    item: &Item,
) -> ExchangeRecord {
    ExchangeRecord {
        exchange: exchange as u32,
        connection: connection as u32,
        method: method.to_owned(),
        target: item.target.clone(),
        planned: item.planned,
        sent: None,
        first_byte: None,
        last_byte: None,
        request_head: Bytes(0),
        request_body: Bytes(0),
        response_head: Bytes(0),
        response_body: Bytes(0),
        status: None,
        // The outcome if the retrieval is aborted before the response ends.
        outcome: Outcome::Failed(Failure::LocalAbort),
        request_fields: None,
        response_fields: None,
        named_by: None,
        pushed: false,
    }
}
