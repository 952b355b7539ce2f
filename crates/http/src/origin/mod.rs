//! What a server answers, whatever version of HTTP carries it (RFC 9110).
//!
//! [`Origin`] holds a site in memory, with entity tags and dates made ready, and decides what a
//! request is answered with: which status, which fields, which octets of which representation. It
//! serves files as they are and as they were coded in advance; it codes nothing on the fly, runs
//! nothing and keeps no state between requests. Nothing is allocated for an answer.
//!
//! - [`target`]: forms of request targets, paths that cannot leave the root
//! - [`conditions`]: entity tags, dates, preconditions
//! - [`ranges`]: byte ranges and bounds on them
//! - [`encoding`]: choice of a content coding
//! - [`dress`]: which response fields, in which order

pub mod conditions;
pub mod date;
pub mod dress;
pub mod encoding;
mod index;
pub mod ranges;
mod render;
mod status;
pub mod target;
mod text;

use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Body, FileId, Instant, Site};

use conditions::{Lines, Preconditions, Single, Verdict};
use dress::{Dress, DressError, DressField};
use index::Index;
use ranges::{ByteRange, Ranges, Selection};
use target::Target;

pub use index::{RepresentationId, SiteError};
pub use render::{Dates, FieldSink, HopField, Segment};
pub use status::{Method, Status};

/// How an origin presents itself.
#[derive(Debug, Clone, Default)]
pub struct OriginConfig {
    /// Which response fields it sends.
    pub dress: Dress,
    /// Time since the Unix epoch at [`Instant::ZERO`], for `Date` and `Expires`.
    pub wall_clock: Duration,
    /// A path that takes POST and PUT, reads what comes and answers 204; for tests of request
    /// bodies. `None`: everything is read-only.
    pub discard: Option<String>,
}

/// Why an origin cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The dress.
    #[error("failed to put on the dress: {0}")]
    Dress(#[from] DressError),
    /// The site.
    #[error("failed to index the site: {0}")]
    Site(#[from] SiteError),
}

/// A site ready to be served. Shared by all connections.
#[derive(Debug)]
pub struct Origin {
    index: Index,
    fields: Vec<DressField>,
    wall_clock: Duration,
    discard: Option<Box<[u8]>>,
}

/// What of a request an origin looks at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The target.
    pub target: Target<'a>,
    /// The preconditions.
    pub preconditions: Preconditions<'a>,
    /// `Range`
    pub range: Single<'a>,
    /// `Accept-Encoding`
    pub accept_encoding: Lines<'a>,
}

/// What a request is answered with. Its fields and content are written by
/// [`Origin::write_fields`] and [`Origin::write_content`].
#[derive(Debug, Clone)]
pub struct Answer {
    status: Status,
    file: Option<FileId>,
    content: Content,
    /// Octets of the content, sent or not.
    length: u64,
    /// HEAD: fields as for GET, no content.
    head_only: bool,
    allow: Option<&'static str>,
}

#[derive(Debug, Clone)]
enum Content {
    /// None, and its length is stated where the status permits.
    Empty,
    /// The status line as plain text.
    StatusText,
    /// The same, for a range outside this representation.
    Unsatisfiable(RepresentationId),
    /// None, about this representation.
    NotModified(RepresentationId),
    Whole(RepresentationId),
    Part(RepresentationId, ByteRange),
    Parts(RepresentationId, Box<Ranges>),
}

impl Answer {
    /// A refusal: the status line as its content.
    pub fn refusal(status: Status) -> Answer {
        Answer {
            status,
            file: None,
            content: Content::StatusText,
            length: status.line().len() as u64 + 1,
            head_only: false,
            allow: None,
        }
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The file it is about, when the target names one.
    pub fn file(&self) -> Option<FileId> {
        self.file
    }

    /// Octets of content that are sent.
    pub fn sent_length(&self) -> u64 {
        if self.head_only || self.status.is_bodiless() {
            0
        } else {
            self.length
        }
    }

    /// Whether the content of the request would be taken, so that it is worth asking for.
    pub fn takes_content(&self) -> bool {
        !self.status.is_error()
    }

    fn empty(status: Status, allow: Option<&'static str>) -> Answer {
        Answer {
            content: Content::Empty,
            length: 0,
            allow,
            ..Answer::refusal(status)
        }
    }
}

const ALLOW_FILE: &str = "GET, HEAD, OPTIONS";
const ALLOW_DISCARD: &str = "OPTIONS, POST, PUT";
const ALLOW_ANY: &str = "GET, HEAD, OPTIONS, POST, PUT";

impl Origin {
    /// Indexes a site. Reads every octet of it once, for the entity tags.
    pub fn new(site: Arc<Site>, config: OriginConfig) -> Result<Origin, OriginError> {
        Ok(Origin {
            index: Index::new(site)?,
            fields: config.dress.complete()?,
            wall_clock: config.wall_clock,
            discard: config.discard.map(|path| path.into_bytes().into()),
        })
    }

    /// The site.
    pub fn site(&self) -> &Arc<Site> {
        self.index.site()
    }

    /// The octets of a representation.
    pub fn body(&self, id: RepresentationId) -> &Body {
        self.index.body(id)
    }

    /// Seconds since the Unix epoch at `now`.
    pub fn wall_clock(&self, now: Instant) -> u64 {
        (self.wall_clock + now.since(Instant::ZERO)).as_secs()
    }

    /// Decides what to answer. `scratch` is room for decoding paths; what it holds does not matter.
    pub fn decide(&self, request: &Request<'_>, scratch: &mut Vec<u8>) -> Answer {
        let mut answer = self.decide_content(request, scratch);
        answer.head_only = request.method == Method::Head;
        answer
    }

    fn decide_content(&self, request: &Request<'_>, scratch: &mut Vec<u8>) -> Answer {
        let path = match request.target {
            _ if request.method == Method::Unknown => {
                return Answer::refusal(Status::NOT_IMPLEMENTED);
            }
            Target::Asterisk => return Answer::empty(Status::OK, Some(ALLOW_ANY)),
            Target::Authority(_) => return not_allowed(ALLOW_FILE),
            Target::Path(path) => path,
        };
        let path = match target::canonical(path, scratch) {
            Ok(Some(path)) => path,
            Ok(None) => return Answer::refusal(Status::NOT_FOUND),
            Err(_) => return Answer::refusal(Status::BAD_REQUEST),
        };
        if self.discard.as_deref() == Some(path) {
            return match request.method {
                Method::Post | Method::Put => Answer::empty(Status::NO_CONTENT, None),
                Method::Options => Answer::empty(Status::OK, Some(ALLOW_DISCARD)),
                _ => not_allowed(ALLOW_DISCARD),
            };
        }
        let Some(file) = self.index.file(path) else {
            return Answer::refusal(Status::NOT_FOUND);
        };
        let answer = match request.method {
            Method::Get | Method::Head => self.represent(file, request),
            Method::Options => Answer::empty(Status::OK, Some(ALLOW_FILE)),
            _ => not_allowed(ALLOW_FILE),
        };
        Answer {
            file: Some(file),
            ..answer
        }
    }

    /// Answers a GET or HEAD for a file.
    fn represent(&self, file: FileId, request: &Request<'_>) -> Answer {
        let id = self.select(file, request);
        let validators = self.index.validators(id);
        match conditions::evaluate(&request.preconditions, &validators) {
            Verdict::Proceed => {}
            Verdict::Failed => return Answer::refusal(Status::PRECONDITION_FAILED),
            Verdict::NotModified => {
                return Answer {
                    content: Content::NotModified(id),
                    ..Answer::empty(Status::NOT_MODIFIED, None)
                };
            }
        }
        let length = self.index.representation(id).length;
        let whole = Answer {
            content: Content::Whole(id),
            length,
            ..Answer::empty(Status::OK, None)
        };
        let Some(field) = request.range.value() else {
            return whole;
        };
        if request.method != Method::Get
            || !conditions::range_applies(request.preconditions.if_range, &validators)
        {
            return whole;
        }
        let (content, length) = match ranges::select(field, length) {
            Selection::Whole => return whole,
            Selection::Unsatisfiable => {
                return Answer {
                    content: Content::Unsatisfiable(id),
                    ..Answer::refusal(Status::RANGE_NOT_SATISFIABLE)
                };
            }
            Selection::Part(range) => (Content::Part(id, range), range.length()),
            Selection::Parts(ranges) => {
                let length = self.parts_length(id, ranges.as_slice());
                (Content::Parts(id, ranges), length)
            }
        };
        Answer {
            content,
            length,
            ..Answer::empty(Status::PARTIAL_CONTENT, None)
        }
    }

    /// Selects the representation by content coding.
    fn select(&self, file: FileId, request: &Request<'_>) -> RepresentationId {
        let coded = || {
            self.index
                .representations(file)
                .filter_map(|(_, candidate)| Some((candidate.coding?, candidate.length)))
        };
        let chosen = encoding::choose(&request.accept_encoding, coded());
        self.index
            .representations(file)
            .find(|(_, candidate)| candidate.coding == chosen)
            .map(|(id, _)| id)
            .expect("the plain representation is always there, and chosen ones are listed")
    }
}

fn not_allowed(allow: &'static str) -> Answer {
    Answer {
        allow: Some(allow),
        ..Answer::refusal(Status::METHOD_NOT_ALLOWED)
    }
}

#[cfg(test)]
mod tests;
