//! Proactive negotiation (RFC 9110 section 12.1): selects the best representation for the client, and
//! compresses it on the fly if none is stored.
//!
//! Without negotiation, an origin selects only among the stored representations of a resource. With negotiation:
//!
//! - `Compressor`: content without a stored coding is compressed, and stored in a bounded cache
//! - `dictionary`: content that the client already has is used to compress other content
//! - `images`: an image may be replaced by a file with the same name in another media type
//! - `Varies`: each response of a negotiated resource, whatever its status, lists the request fields that selected it
//! - a client that accepts no representation gets 406

mod compressor;
pub(super) mod dictionary;
#[cfg(test)]
mod dictionary_tests;
mod images;
mod kept;
mod memory;
mod options;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use fathometer_model::Instant;

use super::asked::Asked;
use super::conditions::{self, ETAG_LENGTH, Lines, Validators, Verdict};
use super::encoding::{self, Coding, Qualities};
use super::index::{digest, digest_words, etag_text};
use super::store::Lookup;
use super::{
    Answer, Content, Described, Located, Origin, Place, Request, Selected, Source, Status, Subject,
};
use compressor::{Advanced, Job, Joined, Recipe, SLICE};
use kept::CodedBody;

pub use compressor::{Compressor, Encoder, Encoders};
pub use dictionary::{Announcement, DictionaryError, DictionaryResource, LARGEST_DICTIONARY};
pub use options::{CompressionOptions, Levels};

/// Negotiation in addition to the stored codings.
#[derive(Debug, Clone, Default)]
pub struct Negotiation {
    /// Whether an image is replaced by an alternative in a media type that the client lists: `x.webp` and `x.avif` for
    /// `x.png`, `x.jpg` or `x.gif` in the same folder.
    pub images: bool,
    /// Compresses content on the fly.
    pub compressor: Option<Arc<Compressor>>,
    /// Resources whose content is a dictionary for the compressor. Clients use dictionaries only in secure contexts
    /// (RFC 9842 section 8). The list should be empty if neither TLS nor loopback protects the connection.
    pub dictionaries: Arc<[DictionaryResource]>,
}

impl Negotiation {
    /// Whether negotiation is enabled.
    pub(super) fn is_on(&self) -> bool {
        self.images || self.compressor.is_some()
    }
}

/// The request fields on which a response depends, for `Vary` (RFC 9110 section 12.5.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Varies {
    pub accept: bool,
    pub accept_encoding: bool,
    pub available_dictionary: bool,
}

impl Varies {
    /// Whether the response depends on no request field.
    pub fn is_empty(self) -> bool {
        self == Varies::default()
    }
}

/// A representation that is compressed on the fly.
#[derive(Debug, Clone)]
pub(super) struct Coded {
    /// The representation without a coding.
    plain: Selected,
    recipe: Recipe,
    etag: [u8; ETAG_LENGTH],
    /// The compressed content; `None` until the compression is complete. A response without content does not need it.
    body: Option<Arc<CodedBody>>,
}

/// An answer whose content is being compressed.
#[derive(Debug, Clone)]
pub(super) struct Compressing {
    asked: Asked,
    coded: Coded,
    length: u64,
    refuses_identity: bool,
    job: Option<Arc<Job>>,
}

impl Origin {
    /// Answers GET or HEAD for a resource with negotiated representations.
    pub(super) fn negotiate(
        &self,
        path: &[u8],
        source: Source,
        request: &Request<'_>,
        now: Instant,
    ) -> Answer {
        let mut varies = Varies::default();
        let better = match self.negotiation.images {
            true => self.negotiate_image(path, &source, request, &mut varies, now),
            false => None,
        };
        let (source, location) = match better {
            Some((source, location)) => (source, Some(location)),
            None => (source, None),
        };
        let mut answer = self.negotiate_coding(path, &source, request, &mut varies);
        answer.varies = varies;
        if !answer.status.is_error() {
            answer.location = location;
        }
        answer
    }

    fn negotiate_image(
        &self,
        path: &[u8],
        source: &Source,
        request: &Request<'_>,
        varies: &mut Varies,
        now: Instant,
    ) -> Option<(Source, Box<str>)> {
        let plain = self.plain(source);
        if !images::may_have_alternatives(self.describe_selected(&plain).content_type) {
            return None;
        }
        varies.accept = true;
        self.better_image(path, source, &request.accept, now)
    }

    fn negotiate_coding(
        &self,
        path: &[u8],
        source: &Source,
        request: &Request<'_>,
        varies: &mut Varies,
    ) -> Answer {
        let plain = self.plain(source);
        let of = self.describe_selected(&plain);
        let compressor = self.negotiation.compressor.as_deref();
        let compressor = compressor.filter(|all| all.options().covers(of.content_type, of.length));
        varies.accept_encoding = of.is_coded || compressor.is_some();
        let dictionaries = &self.negotiation.dictionaries;
        varies.available_dictionary =
            compressor.is_some() && dictionary::covers(dictionaries, path);
        // A file with a weak tag may change during compression without a change of the tag.
        let compressor = compressor.filter(|_| !request.no_transform && !of.validators.weak);
        let qualities = Qualities::of(&request.accept_encoding);
        let is_stored = |coding: Coding| self.stored(source, coding).is_some();
        let stored = self.all(source).filter_map(|selected| {
            let of = self.describe_selected(&selected);
            Some((of.coding?, of.length))
        });
        let dictionary = compressor
            .and(request.available_dictionary.value())
            .and_then(|field| dictionary::named(dictionaries, path, field));
        let levels = compressor
            .into_iter()
            .flat_map(|all| all.options().levels.iter());
        // Content is smallest when it is compressed with a dictionary.
        let with_dictionary = levels
            .clone()
            .filter_map(|(coding, _)| coding.with_dictionary().filter(|_| dictionary.is_some()))
            .zip(0..);
        // A stored representation needs no CPU time, so it is preferred. For the other codings, the order in the
        // options decides.
        let compressible = levels
            .filter(|&(coding, _)| !is_stored(coding))
            .enumerate()
            .map(|(place, (coding, _))| (coding, u64::MAX / 2 + place as u64));
        let chosen = encoding::choose(
            &qualities,
            with_dictionary.chain(stored).chain(compressible),
        );
        let refuses_identity = varies.accept_encoding && qualities.refuses_identity();
        match (chosen, compressor) {
            (None, _) if refuses_identity => Answer::refusal(Status::NOT_ACCEPTABLE),
            (None, _) => self.represent(Subject::File(plain), request),
            (Some(coding), compressor) => match (self.stored(source, coding), compressor) {
                (Some(selected), _) => self.represent(Subject::File(selected), request),
                (None, None) => self.represent(Subject::File(plain), request),
                (None, Some(compressor)) => {
                    let recipe = Recipe {
                        coding,
                        level: compressor.options().levels.of(coding).unwrap_or(0),
                        dictionary: dictionary.filter(|_| coding.needs_dictionary()).cloned(),
                    };
                    let coded = Coded::new(recipe, &of.validators, &plain);
                    let length = of.length;
                    self.compress(compressor, path, coded, (length, refuses_identity), request)
                }
            },
        }
    }

    /// The stored representation in a coding, if any.
    fn stored(&self, source: &Source, coding: Coding) -> Option<Selected> {
        self.all(source)
            .find(|selected| self.describe_selected(selected).coding == Some(coding))
    }

    /// Answers a request with a representation that is compressed on the fly. The answer is decided immediately if the
    /// content is cached or not needed.
    fn compress(
        &self,
        compressor: &Compressor,
        path: &[u8],
        mut coded: Coded,
        (length, refuses_identity): (u64, bool),
        request: &Request<'_>,
    ) -> Answer {
        let validators = self.describe_coded(&coded).validators;
        let verdict = conditions::evaluate(&request.preconditions, &validators);
        if verdict == Verdict::Proceed {
            coded.body = compressor.find(&coded.etag);
        }
        if verdict != Verdict::Proceed || coded.body.is_some() {
            if coded.body.is_some() && coded.recipe.dictionary.is_some() {
                compressor.count_with_dictionary();
            }
            return self.represent(coded.into(), request);
        }
        let request = Request {
            accept_encoding: Lines::default(),
            ..*request
        };
        let compressing = Compressing {
            asked: Asked::of(path, &request),
            coded,
            length,
            refuses_identity,
            job: None,
        };
        Answer {
            content: Content::Undecided(Box::new(compressing.into())),
            ..Answer::empty(Status::OK, None)
        }
    }

    /// Compresses one more slice for an answer. `None` if the answer needs another turn. If `patient` is false and
    /// other compressions must end first, the content is sent without a coding.
    pub(super) fn compress_on(
        &self,
        compressing: &mut Compressing,
        patient: bool,
        now: Instant,
    ) -> Option<Answer> {
        let Some(compressor) = &self.negotiation.compressor else {
            return Some(self.uncompressed(compressing));
        };
        let coded = &compressing.coded;
        let job = match compressing.job.take() {
            Some(job) => job,
            None => match compressor.join(&coded.etag, &coded.recipe, compressing.length) {
                Joined::Job(job) => job,
                Joined::Kept(body) => {
                    return Some(self.compressed(compressor, compressing, body));
                }
                Joined::Busy if patient => return None,
                Joined::Busy | Joined::Impossible => {
                    return Some(self.uncompressed(compressing));
                }
            },
        };
        let mut content = Plain {
            origin: self,
            selected: &coded.plain,
            length: compressing.length,
            path: &compressing.asked.path,
            now,
        };
        match compressor.advance(&job, &mut content) {
            Advanced::Running => {
                compressing.job = Some(job);
                None
            }
            Advanced::Whole(body) => Some(self.compressed(compressor, compressing, body)),
            Advanced::Failed => Some(self.uncompressed(compressing)),
        }
    }

    fn compressed(
        &self,
        compressor: &Compressor,
        compressing: &Compressing,
        body: Arc<CodedBody>,
    ) -> Answer {
        if compressing.coded.recipe.dictionary.is_some() {
            compressor.count_with_dictionary();
        }
        let coded = Coded {
            body: Some(body),
            ..compressing.coded.clone()
        };
        self.represent(coded.into(), &compressing.asked.request())
    }

    /// Returns the answer if the content cannot be compressed now.
    fn uncompressed(&self, compressing: &Compressing) -> Answer {
        if compressing.refuses_identity {
            return Answer::refusal(Status::SERVICE_UNAVAILABLE);
        }
        let plain = Subject::File(compressing.coded.plain.clone());
        self.represent(plain, &compressing.asked.request())
    }

    /// Values for the response fields of a representation that is compressed on the fly.
    pub(super) fn describe_coded<'a>(&'a self, coded: &'a Coded) -> Described<'a> {
        let plain = self.describe_selected(&coded.plain);
        Described {
            validators: Validators {
                etag: &coded.etag,
                ..plain.validators
            },
            coding: Some(coded.recipe.coding),
            length: coded.body.as_ref().map_or(0, |coded| coded.body.len().0),
            is_coded: true,
            ..plain
        }
    }
}

impl Coded {
    fn new(recipe: Recipe, of: &Validators<'_>, plain: &Selected) -> Coded {
        Coded {
            plain: plain.clone(),
            etag: tag(of, &recipe),
            recipe,
            body: None,
        }
    }

    /// The compressed content, if the compression is complete.
    pub fn content(&self) -> Option<&fathometer_model::Body> {
        self.body.as_ref().map(|coded| &coded.body)
    }
}

impl From<Coded> for Subject {
    fn from(coded: Coded) -> Subject {
        Subject::File(Selected(Place::Coded(Arc::new(coded))))
    }
}

/// Computes the entity tag of a compressed representation from all data that determine the bytes: the content, the
/// coding, the level, the dictionary, and the version of this program with its encoders. Therefore, a 304 response
/// needs no compression.
fn tag(plain: &Validators<'_>, recipe: &Recipe) -> [u8; ETAG_LENGTH] {
    let (words, _) = plain.etag[1..ETAG_LENGTH - 1].as_chunks::<8>();
    let [first, second] = [words[0], words[1]].map(u64::from_le_bytes);
    let version = digest(Some(recipe.coding), env!("CARGO_PKG_VERSION").as_bytes());
    let mut all = vec![first, second, version, recipe.level.into()];
    if let Some(dictionary) = &recipe.dictionary {
        let (words, _) = dictionary.hash().as_chunks::<8>();
        all.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
    }
    etag_text(digest_words(&all))
}

/// The content to compress, in the state that was looked up.
struct Plain<'a> {
    origin: &'a Origin,
    selected: &'a Selected,
    length: u64,
    path: &'a [u8],
    now: Instant,
}

impl compressor::Content for Plain<'_> {
    fn read(&mut self, offset: u64, sink: &mut dyn FnMut(&[u8]) -> bool) -> Option<u64> {
        let end = self.length.min(offset + SLICE);
        match self.origin.content_of(self.selected) {
            Located::Memory(body) => {
                let mut pieces = body.pieces_of(offset..end);
                pieces.all(&mut *sink).then_some(end - offset)
            }
            Located::File(file) => {
                let mut room = vec![0; (end - offset) as usize];
                let store = self.origin.store.as_deref()?;
                let read = store.read(file, offset, &mut room)?;
                sink(&room[..read]).then_some(read as u64)
            }
        }
    }

    fn is_unchanged(&mut self) -> bool {
        let Place::Stored(resource, variant) = &self.selected.0 else {
            return true;
        };
        if matches!(self.origin.content_of(self.selected), Located::Memory(_)) {
            return true;
        }
        // The bytes of an open file may change. The file's metadata was settled at the look-up, so every later change
        // also changes the tag.
        let found = self
            .origin
            .store
            .as_deref()
            .map(|store| store.find(self.path, self.now));
        match found {
            Some(Lookup::Found(found)) => {
                let (now, then) = (found.validators(0), resource.validators(*variant));
                now.etag == then.etag && !now.weak
            }
            _ => false,
        }
    }
}
