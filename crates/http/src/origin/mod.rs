//! The answers of a server to requests, for all versions of HTTP (RFC 9110).
//!
//! [`Origin`] has a site in memory, with precomputed entity tags and dates, or looks up resources in a [`store`]. It
//! decides the answer to a request: the status, the fields and the representation. It serves files without a coding and
//! in precomputed codings. It executes no programs. Between requests, it stores no state except content that was
//! compressed on the fly, if enabled. An answer allocates no memory, unless its content is compressed on the fly or
//! generated during sending.
//!
//! - [`target`]: the forms of request targets; paths cannot leave the root
//! - [`conditions`]: entity tags, dates, preconditions
//! - [`ranges`]: byte ranges and limits on them
//! - [`encoding`]: the selection of a content coding
//! - [`negotiation`]: compression on the fly, with or without dictionaries; images in several media types
//! - [`persona`]: server personas: the fields of responses and their order
//! - [`store`]: resources that are looked up when they are requested
//! - [`companions`]: the files of a page, for server push, Early Hints and packages
//! - [`packages`]: all files of a page in one response
//! - [`dynamic`]: content that is generated during sending

mod asked;
pub mod companions;
pub mod conditions;
pub mod date;
mod decide;
pub mod dynamic;
pub mod encoding;
mod index;
mod live;
pub mod negotiation;
pub mod packages;
pub mod persona;
pub mod ranges;
mod render;
mod status;
pub mod store;
pub mod target;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::{Body, FileId, Instant, Site};

use companions::{Companion, PageId, Plan, Table};
use conditions::{Lines, Preconditions, Single, Validators};
use encoding::Coding;
use index::{Index, RepresentationId};
use live::{Dynamic, DynamicError, Live};
use negotiation::{Coded, Compressing, Negotiation, Varies};
use packages::{Composed, Packager, Packages, Undecided};
use persona::{FieldValue, Persona, PersonaError, PersonaField};
use ranges::{ByteRange, Ranges};
use store::{FileHandle, Resource, Store, Stored, Work};
use target::Target;

pub use index::SiteError;
pub use render::{Dates, FieldSink, HopField, Segment};
pub use status::{Method, Status};

/// The configuration of an origin.
#[derive(Debug, Clone, Default)]
pub struct OriginConfig {
    /// The server persona, which determines the response fields.
    pub persona: Persona,
    /// The time since the Unix epoch at [`Instant::ZERO`], for `Date` and `Expires`.
    pub wall_clock: Duration,
    /// A path that accepts POST and PUT, discards the content and answers 204, for tests of request content. `None`:
    /// all resources are read-only.
    pub discard: Option<String>,
    /// The files that may be pushed with each page, if the protocol supports push and the client permits it.
    pub push: Plan,
    /// The files that are announced before each page with 103 (Early Hints).
    pub early_hints: Plan,
    /// The rules for packages: all files of a page in one response, for clients that request a package.
    pub packages: Packages,
    /// Resources whose content is generated for each request.
    pub dynamic: Vec<Dynamic>,
    /// Negotiation in addition to stored codings.
    pub negotiation: Negotiation,
}

/// The reason why an origin cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The server persona is invalid.
    #[error("failed to apply the server persona: {0}")]
    Persona(#[from] PersonaError),
    /// The site is invalid.
    #[error("failed to index the site: {0}")]
    Site(#[from] SiteError),
    /// A dynamic resource is invalid.
    #[error(transparent)]
    Dynamic(#[from] DynamicError),
}

/// A site or store with its configuration. All connections share it.
#[derive(Debug)]
pub struct Origin {
    index: Index,
    store: Option<Box<dyn Store>>,
    fields: Vec<PersonaField>,
    /// The time since the Unix epoch at [`Instant::ZERO`], in nanoseconds.
    wall_clock: AtomicU64,
    discard: Option<Box<[u8]>>,
    companions: Table,
    packager: Option<Box<Packager>>,
    negotiation: Negotiation,
    nothing: Body,
    dynamic: Vec<Arc<Dynamic>>,
}

/// The parts of a request that an origin uses.
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
    /// `Accept`
    pub accept: Lines<'a>,
    /// `Accept-Encoding`
    pub accept_encoding: Lines<'a>,
    /// `Available-Dictionary` (RFC 9842 section 2.2)
    pub available_dictionary: Single<'a>,
    /// `Package-Have`
    pub package_have: Single<'a>,
    /// `Cache-Control: no-transform`: content is not compressed on the fly.
    pub no_transform: bool,
}

/// The answer to a request. [`Origin::write_fields`] writes its fields, and [`Origin::write_content`] its
/// content.
#[derive(Debug, Clone)]
pub struct Answer {
    status: Status,
    file: Option<FileId>,
    content: Content,
    /// The length of the content in bytes, even if the content is not sent.
    length: u64,
    /// HEAD: the same fields as for GET, and no content.
    head_only: bool,
    allow: Option<&'static str>,
    /// With 301: the new address. Otherwise: the address of the selected representation, if it differs from the
    /// request's address.
    location: Option<Box<str>>,
    /// The page of the answer. Set only if the answer is a complete page with companions.
    page: Option<PageId>,
    /// Whether a different `Accept` field might have selected a different representation.
    negotiated: bool,
    /// The request fields that selected the representation, if it is [negotiated](negotiation).
    varies: Varies,
    /// The index in the [dictionaries](Negotiation::dictionaries), if the resource is a dictionary.
    dictionary: Option<u16>,
    /// Whether the answer is a package and states the address of its page.
    names_base: bool,
}

/// The representation in an answer.
#[derive(Debug, Clone)]
pub struct Selected(Place);

#[derive(Debug, Clone)]
enum Place {
    Indexed(RepresentationId),
    Stored(Arc<Resource>, u8),
    Coded(Arc<Coded>),
}

impl Selected {
    /// Selects the first representation of a resource.
    fn of_resource(resource: Arc<Resource>) -> Selected {
        Selected(Place::Stored(resource, 0))
    }
}

/// The source of an answer's content.
#[derive(Debug, Clone)]
enum Subject {
    /// One representation of a file.
    File(Selected),
    /// A package of files.
    Composed(Arc<Composed>),
    /// Content that is generated for the request.
    Live(Live),
}

/// The location of the bytes of a representation.
#[derive(Debug, Clone, Copy)]
pub enum Located<'a> {
    /// In memory.
    Memory(&'a Body),
    /// In a file, behind a descriptor of the caller.
    File(&'a FileHandle),
}

/// Values for the response fields of a representation.
struct Described<'a> {
    validators: Validators<'a>,
    coding: Option<Coding>,
    length: u64,
    content_type: &'a [u8],
    /// Whether the resource has representations in content codings.
    is_coded: bool,
    /// Whether the content depends on the files that the client already has (`Package-Have`).
    by_have: bool,
}

/// A resource of the site or of the store.
enum Source {
    Indexed(FileId),
    Stored(Arc<Resource>),
}

#[derive(Debug, Clone)]
enum Content {
    /// No content. The length is stated if the status permits it.
    Empty,
    /// The status line as plain text.
    StatusText,
    /// The status line as plain text, for a range that is outside the representation.
    Unsatisfiable(Subject),
    /// No content; the fields describe this representation.
    NotModified(Subject),
    Whole(Subject),
    Part(Subject, ByteRange),
    Parts(Subject, Box<Ranges>),
    /// The complete content, generated during sending.
    Flowing(Subject),
    /// Not decided yet.
    Undecided(Box<Pending>),
}

/// The reason why an answer is not decided yet.
#[derive(Debug, Clone)]
enum Pending {
    /// The files of a package are being looked up.
    Package(Undecided),
    /// The content is being compressed.
    Compressing(Compressing),
}

impl From<Undecided> for Pending {
    fn from(undecided: Undecided) -> Pending {
        Pending::Package(undecided)
    }
}

impl From<Compressing> for Pending {
    fn from(compressing: Compressing) -> Pending {
        Pending::Compressing(compressing)
    }
}

/// The time from the end of a turn to the next turn. It is the smallest unit of time; other responses have their turns
/// in between.
pub(crate) const NEXT_TURN: Duration = Duration::from_nanos(1);

/// The maximum number of file bytes that are read for a response in one turn, if other responses wait.
const READ_IN_A_TURN: u64 = 64 * 1024;

/// The fixed cost of a file look-up, in bytes. It is added to the bytes read.
const COST_OF_A_FILE: u64 = 4 * 1024;

impl Origin {
    /// Whether the persona announces the time for which an idle connection stays open.
    pub fn announces_keep_alive(&self) -> bool {
        self.fields
            .iter()
            .any(|field| field.value == FieldValue::KeepAlive)
    }
}

impl Answer {
    /// Creates a refusal for a request that was not [decided](Origin::decide). A response to HEAD has no content,
    /// whatever its status (RFC 9110 section 9.3.2). `None`: the method could not be parsed. It may have been HEAD, so
    /// the response has no content.
    pub fn refusal_of(method: Option<Method>, status: Status) -> Answer {
        match method {
            None => Answer::empty(status, None),
            Some(method) => Answer {
                head_only: method == Method::Head,
                ..Answer::refusal(status)
            },
        }
    }

    /// Creates a refusal whose content is the status line.
    fn refusal(status: Status) -> Answer {
        Answer {
            status,
            file: None,
            content: Content::StatusText,
            length: status.line().len() as u64 + 1,
            head_only: false,
            allow: None,
            location: None,
            page: None,
            negotiated: false,
            varies: Varies::default(),
            dictionary: None,
            names_base: false,
        }
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The file of the site that the target identifies, if any.
    pub fn file(&self) -> Option<FileId> {
        self.file
    }

    /// The number of content bytes that are sent.
    pub fn sent_length(&self) -> u64 {
        if self.head_only || self.status.is_bodiless() {
            0
        } else {
            self.length
        }
    }

    /// Whether the answer needs further turns before it is decided; see [`Origin::go_on`].
    pub fn is_undecided(&self) -> bool {
        matches!(self.content, Content::Undecided(_))
    }

    /// Whether the content length is unknown until the content ends; see [`Origin::flow`].
    pub fn is_open(&self) -> bool {
        matches!(self.content, Content::Flowing(_))
    }

    /// Whether the client should send the content of the request, because the content would be accepted.
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

impl Origin {
    /// Indexes a site. Reads all files once for the entity tags, and builds the packages that are built in advance.
    pub fn new(site: Arc<Site>, config: OriginConfig) -> Result<Origin, OriginError> {
        Origin::with(site, None, config)
    }

    fn with(
        site: Arc<Site>,
        store: Option<Box<dyn Store>>,
        config: OriginConfig,
    ) -> Result<Origin, OriginError> {
        for dynamic in &config.dynamic {
            dynamic.check()?;
        }
        let dynamic = config.dynamic.into_iter().map(Arc::new).collect();
        let index = Index::new(site)?;
        let mut companions = Table::new(config.push, config.early_hints);
        if let Some(path) = index.root_page(&mut Vec::new()) {
            companions.alias(b"/", path);
        }
        let mut origin = Origin {
            index,
            store,
            fields: config.persona.complete()?,
            wall_clock: AtomicU64::new(whole_nanoseconds(config.wall_clock)),
            discard: config.discard.map(|path| path.into_bytes().into()),
            companions,
            packager: None,
            negotiation: config.negotiation,
            nothing: Body::from(Vec::new()),
            dynamic,
        };
        origin.packager = Packager::new(config.packages, &origin).map(Box::new);
        if origin.store.is_none() {
            origin.prepare(Instant::ZERO);
        }
        Ok(origin)
    }

    /// Creates an origin for a store instead of a site. Connections on several threads may share the origin if the
    /// store supports that. [`prepare`](Origin::prepare) builds the packages that are built in advance.
    pub fn of_store(store: Box<dyn Store>, config: OriginConfig) -> Result<Origin, OriginError> {
        let nothing = Site {
            name: String::new(),
            files: Vec::new(),
            pages: Vec::new(),
        };
        Origin::with(Arc::new(nothing), Some(store), config)
    }

    /// The site; empty if the origin has a store instead.
    pub fn site(&self) -> &Arc<Site> {
        self.index.site()
    }

    /// The location of the bytes of a representation.
    pub fn content_of<'a>(&'a self, selected: &'a Selected) -> Located<'a> {
        match &selected.0 {
            Place::Indexed(id) => Located::Memory(self.index.body(*id)),
            Place::Stored(resource, variant) => {
                match resource.variants()[*variant as usize].bytes() {
                    Stored::Memory(body) => Located::Memory(body),
                    Stored::File(file) => Located::File(file),
                }
            }
            // Content is sent only after its compression is complete.
            Place::Coded(coded) => Located::Memory(coded.content().unwrap_or(&self.nothing)),
        }
    }

    /// The number of packages and archives that were sent since the last call.
    pub fn take_packages(&self) -> u64 {
        self.packager
            .as_ref()
            .map_or(0, |packager| packager.take_sent())
    }

    /// The disk operations of the store since the last call.
    pub fn take_work(&self) -> Work {
        self.store
            .as_ref()
            .map_or_else(Work::default, |store| store.take_work())
    }

    /// The files that may be pushed with the answer. Empty unless the answer is a complete page for GET.
    pub fn pushed_with(&self, answer: &Answer) -> &[Companion] {
        answer.page.map_or(&[], |page| self.companions.pushed(page))
    }

    /// Whether any page has early hints.
    pub fn hints_early(&self) -> bool {
        self.companions.hints_early()
    }

    /// The value of the `Link` field in 103 (Early Hints) before this answer; `None` if there are no hints.
    pub fn early_hints(&self, answer: &Answer) -> Option<&[u8]> {
        self.companions.link(answer.page?)
    }

    /// The time at `now` in seconds since the Unix epoch.
    pub fn wall_clock(&self, now: Instant) -> u64 {
        let at_zero = Duration::from_nanos(self.wall_clock.load(Ordering::Relaxed));
        (at_zero + now.since(Instant::ZERO)).as_secs()
    }

    /// Sets the time since the Unix epoch at [`Instant::ZERO`], after a step of the wall clock. `Date` must state the
    /// time of the server's clock (RFC 9110 section 6.6.1).
    pub fn set_wall_clock(&self, at_zero: Duration) {
        let nanoseconds = whole_nanoseconds(at_zero);
        self.wall_clock.store(nanoseconds, Ordering::Relaxed);
    }
}

/// The time in nanoseconds; a `u64` is enough for five centuries.
fn whole_nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
