//! Resources that are not in memory from the start: what a host finds for a path when it is asked.
//!
//! A [`Store`] is asked with a canonical path and answers at once, as a local disk can. What it gives
//! is a [`Resource`] with its representations, each in memory or behind a descriptor of the host's.
//! An answer holds on to the resource it was made from: what a store says later does not change a
//! response that was begun.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use fathometer_model::{Body, ContentCoding, Instant};

use super::conditions::{ETAG_LENGTH, Modified, Validators};
use super::date::{DATE_LENGTH, format_date};
use super::index::{digest, digest_words, etag_text};
use crate::package::Checksum;

/// Where an [`Origin`](super::Origin) looks for a path that its site does not have.
///
/// All but [`find`](Store::find) is for [packages](super::packages), and a store that has none need not
/// have it.
pub trait Store: fmt::Debug + Send + Sync {
    /// What is at a canonical path ([`target::canonical`](super::target::canonical)): decoded, from the
    /// root, without dot segments. The path may hold any octet but NUL.
    fn find(&self, path: &[u8], now: Instant) -> Lookup;

    /// The same as it is now, even where what is found may be as it was a moment ago.
    fn look(&self, path: &[u8], now: Instant) -> Lookup {
        self.find(path, now)
    }

    /// What tells the present state of a path from others, without opening anything. `None` when nothing
    /// is there, or that cannot be said.
    fn state(&self, _path: &[u8]) -> Option<u64> {
        None
    }

    /// The targets of the files in a folder, whose path ends in a slash, in the order of their names.
    /// `None` when there is no such folder, or there are more than `most`.
    fn list(&self, _folder: &[u8], _most: usize) -> Option<Vec<String>> {
        None
    }

    /// Reads octets of a file of this store, from `offset` on: as many as there are, but no more than
    /// there is room for. `None` when that failed.
    fn read(&self, _file: &FileHandle, _offset: u64, _room: &mut [u8]) -> Option<usize> {
        None
    }

    /// Keeps `length` octets under a name, a word without slashes, in place of what had it. `write` hands
    /// them piece by piece to what it is given, until that says no, and tells whether it handed over all
    /// of them. Returns whether they are kept.
    fn keep(&self, _name: &str, _length: u64, _write: &mut WriteAll<'_>) -> bool {
        false
    }

    /// What is kept under a name.
    fn kept(&self, _name: &str, _now: Instant) -> Lookup {
        Lookup::Missing
    }

    /// Keeps it no longer.
    fn forget(&self, _name: &str) {}

    /// What was done with the disk since this was asked last.
    fn take_work(&self) -> Work {
        Work::default()
    }
}

/// What writes all octets to what it is given; see [`Store::keep`].
pub type WriteAll<'w> = dyn FnMut(&mut dyn FnMut(&[u8]) -> bool) -> bool + 'w;

/// What a store did with its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Files opened.
    pub opens: u64,
    /// Calls that read octets of a file.
    pub reads: u64,
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
    checksum: OnceLock<Checksum>,
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
    text: [u8; ETAG_LENGTH],
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

    /// Octets in memory whose entity tag is known: its opaque part, in quotes.
    pub(super) fn whole(
        content_type: &'static str,
        etag: [u8; ETAG_LENGTH],
        body: Body,
    ) -> Resource {
        let etag = EntityTag {
            text: etag,
            weak: false,
        };
        let variant = Variant {
            coding: None,
            length: body.len().0,
            etag,
            octets: Stored::Memory(body),
            checksum: OnceLock::new(),
        };
        Resource::new(content_type, 0, vec![variant])
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
            modified: Some(Modified {
                second: self.last_modified,
                text: &self.last_modified_text,
            }),
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
            checksum: OnceLock::new(),
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
            checksum: OnceLock::new(),
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

    /// The checksum of its octets, once somebody has computed it.
    pub(super) fn checksum(&self) -> &OnceLock<Checksum> {
        &self.checksum
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

/// 64 bits of some words: others for other words, but for a chance of 2^-64. For what a store says of a
/// [state](Store::state).
pub fn digest_of(words: &[u64]) -> u64 {
    digest_words(words)
}

/// As in its field.
impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.weak {
            f.write_str("W/")?;
        }
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}
