//! The state of the request for all files of a page at once.

use fathometer_model::Instant;

use super::bundle::Bundle;
use super::reader::Reader;
use crate::client::Head;

/// The progress of the request for all files at once.
#[derive(Debug)]
pub(super) enum Bundling {
    /// There is no such request, or its response is finished.
    Over,
    /// No response has arrived so far.
    Awaited,
    /// The response is arriving.
    Arriving(Box<Arriving>),
}

impl Bundling {
    /// Whether the bundle may still deliver files.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Bundling::Over)
    }
}

/// A bundle that is arriving.
#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) reader: Reader,
    pub(super) bundle: Bundle,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// The target of the base file within the bundle, if the page was requested by another target.
    pub(super) page: Option<String>,
    pub(super) begun: Instant,
    /// The item whose content is arriving; `None` if that content is not needed.
    pub(super) current: Option<usize>,
    pub(super) members: Vec<String>,
    /// The number of files with content, so far.
    pub(super) files: u64,
    /// The length of the bundle in bytes, if the response gives it.
    pub(super) length: Option<u64>,
    /// Bytes received.
    pub(super) received: u64,
}

impl Arriving {
    pub(super) fn new(bundle: Bundle, head: Head<'_>, begun: Instant) -> Arriving {
        let text = |value: Option<&str>| value.map(str::to_owned);
        Arriving {
            reader: Reader::new(bundle),
            bundle,
            etag: text(head.etag()),
            last_modified: text(head.last_modified()),
            page: text(head.text("content-location")),
            begun,
            current: None,
            members: Vec::new(),
            files: 0,
            length: head.content_length(),
            received: 0,
        }
    }
}
