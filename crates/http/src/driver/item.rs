//! The files of a page, and what is asked of them.

use fathometer_model::{Bytes, ExchangeRecord, Failure, Instant, Outcome};

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
    /// Whether the page needs it, as far as is known: a pushed file may never be named.
    pub(super) wanted: bool,
    pub(super) retries: u16,
    pub(super) resolved: Option<Resolved>,
    pub(super) sizer: Sizer,
    /// Octets of the file received in order from its first.
    pub(super) received: u64,
    /// The octets it is known to have.
    pub(super) complete: Option<u64>,
    /// What the cache will remember of the copy that is being received.
    pub(super) fresh: CacheEntry,
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
            retries: 0,
            resolved: None,
            sizer: Sizer::new(),
            received: 0,
            complete: None,
            fresh: CacheEntry::default(),
        }
    }

    pub(super) fn is_image(&self) -> bool {
        self.kind.is_image()
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
    Whole { conditional: bool },
    FirstPart { conditional: bool },
    Rest,
    Head,
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
