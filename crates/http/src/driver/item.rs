//! The files of a page, and what is asked of them.

use fathometer_model::{Bytes, Delivery, ExchangeRecord, Failure, Instant, Outcome};

use super::cache::CacheEntry;
use super::image::Sizer;
use super::kind::FileKind;

/// One file of the page.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) target: String,
    pub(super) kind: FileKind,
    /// Which of the page's hosts it is asked from.
    pub(super) host: u16,
    /// The item that named it; the base file was named by the user.
    pub(super) named_by: Option<usize>,
    pub(super) planned: Instant,
    /// Whether the page needs it, as far as is known: what comes unasked may never be named.
    pub(super) wanted: bool,
    pub(super) known_by: KnownBy,
    pub(super) retries: u16,
    pub(super) resolved: Option<Resolved>,
    /// When the first octet of what brought it was read.
    pub(super) started: Option<Instant>,
    /// How it came, once it can be used.
    pub(super) by: Option<Delivery>,
    pub(super) sizer: Sizer,
    /// Octets of the file received in order from its first.
    pub(super) received: u64,
    /// The octets it is known to have.
    pub(super) complete: Option<u64>,
    /// What the cache will remember of the copy that is being received.
    pub(super) fresh: CacheEntry,
}

/// How a file came to be known at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// The user, another file or a list named it.
    Name,
    Push,
    Bundle,
    /// It is no file: what a bundle of a list is asked for with.
    Folder,
}

/// When a file was done with, for good or ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) at: Instant,
    /// Octets that all connections had received by then.
    pub(super) octets: Bytes,
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

    /// Forgets what was received of the file: the first octet of a copy follows, of which the cache
    /// is to remember this.
    pub(super) fn begin_copy(&mut self, fresh: CacheEntry) {
        self.sizer = Sizer::new();
        self.received = 0;
        self.complete = None;
        self.fresh = fresh;
    }
}

/// A file and what to ask of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) item: usize,
    pub(super) ask: Ask,
}

/// What a request asks for.
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
    /// All files of the page or list at once.
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

/// What the response to a request is, once its head is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Unknown,
    /// The base file itself.
    Base,
    /// An embedded file, whole.
    Whole,
    /// A part of an embedded file.
    Part,
    /// There is nothing further of this file.
    Had,
    /// The copy in the cache is current.
    Current,
    /// The copy in the cache is not current, and the response does not bring a new one.
    Changed,
    /// A package or an archive of all files.
    Bundle,
    /// The copies of all files that a bundle brought earlier are current.
    BundleCurrent,
    /// Nothing that the driver still waits for.
    Passed,
    /// A bundle whose content was wrong within good HTTP.
    BrokenBundle(Failure),
    /// No copy of the file, and none to be had by asking again: an error status.
    Nothing,
    /// Not what was asked for: ask for the whole file.
    Unusable,
    /// The content was wrong within good HTTP.
    Broken(Failure),
}

/// A record of a request about to be queued.
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
        // Until it is known better: what it is when the retrieval is cut short.
        outcome: Outcome::Failed(Failure::LocalAbort),
        request_fields: None,
        response_fields: None,
        named_by: None,
        pushed: false,
    }
}
