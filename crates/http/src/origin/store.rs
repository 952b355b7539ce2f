//! Resources that are not in memory from the start: what a host finds for a path when it is asked.
//!
//! A [`Store`] is asked with a canonical path and answers at once, as a local disk can. What it gives
//! is a [`Resource`] with its representations, each in memory or behind a descriptor of the host's.
//! An answer holds on to the resource it was made from: what a store says later does not change a
//! response that was begun.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use fathometer_model::{Body, ContentCoding, Instant};

use super::conditions::Validators;
use super::date::{DATE_LENGTH, format_date};
use super::index::{digest, digest_words, etag_text};

/// Where an [`Origin`](super::Origin) looks for a path that its site does not have.
pub trait Store: fmt::Debug + Send + Sync {
    /// What is at a canonical path ([`target::canonical`](super::target::canonical)): decoded, from the
    /// root, without dot segments. The path may hold any octet but NUL.
    fn find(&self, path: &[u8], now: Instant) -> Lookup;
}

/// What is at a path.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// A resource.
    Found(Arc<Resource>),
    /// A folder that has an index, named without the slash at its end.
    Folder,
    /// Nothing, or nothing that is to be known of.
    Missing,
    /// Something that may not be read.
    Forbidden,
    /// It cannot be said at the moment: the host is out of descriptors or memory.
    Overloaded,
}

/// A resource and its representations as they were when they were looked at.
#[derive(Debug)]
pub struct Resource {
    content_type: Cow<'static, str>,
    last_modified: u64,
    last_modified_text: [u8; DATE_LENGTH],
    variants: Box<[Variant]>,
}

/// One representation of a resource.
#[derive(Debug)]
pub struct Variant {
    coding: Option<ContentCoding>,
    length: u64,
    etag: EntityTag,
    octets: Stored,
}

/// Where the octets of a representation are.
#[derive(Debug, Clone)]
pub enum Stored {
    /// In memory.
    Memory(Body),
    /// Behind a descriptor of the host's, from its first octet on.
    File(FileHandle),
}

/// A descriptor that only the host knows the meaning of. Clones are the same descriptor, which stays
/// open for as long as one of them is there.
#[derive(Clone)]
pub struct FileHandle(Arc<dyn Any + Send + Sync>);

/// An entity tag (RFC 9110 section 8.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag {
    text: [u8; super::conditions::ETAG_LENGTH],
    weak: bool,
}

impl Resource {
    /// A resource. `last_modified` is in seconds since the Unix epoch.
    ///
    /// # Panics
    /// When the content type could not stand in a field, when there is not exactly one
    /// representation without a content coding and that one first, or when there are more than 255.
    pub fn new(
        content_type: impl Into<Cow<'static, str>>,
        last_modified: u64,
        variants: Vec<Variant>,
    ) -> Resource {
        let content_type = content_type.into();
        assert!(
            !content_type.is_empty()
                && content_type.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{content_type:?} is not a media type"
        );
        assert!(
            variants.len() <= 255
                && variants
                    .iter()
                    .enumerate()
                    .all(|(place, variant)| (place == 0) == variant.coding.is_none())
                && !variants.is_empty(),
            "the representation without a coding comes first"
        );
        Resource {
            content_type,
            last_modified,
            last_modified_text: format_date(last_modified),
            variants: variants.into(),
        }
    }

    /// Its representations, the one without a content coding first.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    pub(super) fn content_type(&self) -> &[u8] {
        self.content_type.as_bytes()
    }

    pub(super) fn validators(&self, variant: u8) -> Validators<'_> {
        let etag = &self.variants[variant as usize].etag;
        Validators {
            etag: &etag.text,
            weak: etag.weak,
            last_modified: self.last_modified,
            last_modified_text: &self.last_modified_text,
        }
    }
}

impl Variant {
    /// A representation in memory.
    pub fn memory(coding: Option<ContentCoding>, body: Body) -> Variant {
        Variant {
            coding,
            length: body.len().0,
            etag: EntityTag::of_content(coding, &body),
            octets: Stored::Memory(body),
        }
    }

    /// A representation of `length` octets behind a descriptor.
    pub fn file(
        coding: Option<ContentCoding>,
        length: u64,
        etag: EntityTag,
        file: FileHandle,
    ) -> Variant {
        Variant {
            coding,
            length,
            etag,
            octets: Stored::File(file),
        }
    }

    /// Its content coding.
    pub fn coding(&self) -> Option<ContentCoding> {
        self.coding
    }

    /// Its octets' number.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its octets.
    pub fn octets(&self) -> &Stored {
        &self.octets
    }
}

impl FileHandle {
    /// Hands a descriptor over.
    pub fn new<T: Any + Send + Sync>(descriptor: Arc<T>) -> FileHandle {
        FileHandle(descriptor)
    }

    /// The descriptor again; `None` when it is of another type.
    pub fn descriptor<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Whether two handles are one.
    pub fn is(&self, other: &FileHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileHandle")
    }
}

impl EntityTag {
    /// The tag of octets under a coding: strong, because other octets have another one but for a
    /// chance of 2^-64.
    pub fn of_content(coding: Option<ContentCoding>, body: &Body) -> EntityTag {
        EntityTag {
            text: etag_text(digest(coding, &body.bytes())),
            weak: false,
        }
    }

    /// The tag of octets that are too many to be read for it, from what tells one state of a file
    /// from another: which file it is, its size, when it changed.
    ///
    /// Such a tag is strong only when it is `settled`: when no later change could leave all of it as
    /// it is (RFC 9110 section 8.8.1). A file that changed within the last tick of the clock that
    /// stamps it may change again within that tick.
    pub fn of_metadata(words: &[u64], settled: bool) -> EntityTag {
        EntityTag {
            text: etag_text(digest_words(words)),
            weak: !settled,
        }
    }
}
