//! Resources that are looked up by path when they are requested.
//!
//! A [`Store`] looks up a canonical path synchronously, as a local disk permits. It returns a [`Resource`] with its
//! representations. Each representation is in memory or behind a descriptor of the caller. An answer owns its resource,
//! so later changes in the store do not affect a response that has begun.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use fathometer_model::{Body, Instant};

use super::conditions::{ETAG_LENGTH, Modified, Validators};
use super::date::{DATE_LENGTH, format_date};
use super::encoding::Coding;
use super::index::{digest, digest_words, etag_text};
use fathometer_package::Checksum;

/// The source of resources that the site of an [`Origin`](super::Origin) does not contain.
///
/// Only [packages](super::packages) need methods other than [`find`](Store::find). A store without packages need not
/// implement these methods.
pub trait Store: fmt::Debug + Send + Sync {
    /// Looks up the resource at a canonical path ([`target::canonical`](super::target::canonical)): decoded, absolute,
    /// and without dot segments. The path may contain any byte except NUL.
    fn find(&self, path: &[u8], now: Instant) -> Lookup;

    /// Looks up the current resource, even if `find` may return a cached one.
    fn look(&self, path: &[u8], now: Instant) -> Lookup {
        self.find(path, now)
    }

    /// Returns a value that identifies the current state of a path, without opening the file. `None` if there is no
    /// resource, or if its state cannot be determined.
    fn state(&self, _path: &[u8]) -> Option<u64> {
        None
    }

    /// Returns the targets of the files in a folder, sorted by name. The path of a folder ends in a slash. `None` if
    /// there is no such folder, or if it has more than `most` files.
    fn list(&self, _folder: &[u8], _most: usize) -> Option<Vec<String>> {
        None
    }

    /// Reads bytes of a file in this store, starting at `offset`, until the buffer is full or the file ends. Returns
    /// the number of bytes; `None` if the read fails.
    fn read(&self, _file: &FileHandle, _offset: u64, _room: &mut [u8]) -> Option<usize> {
        None
    }

    /// Stores `length` bytes under a name (a word without slashes). An earlier entry with this name is replaced.
    /// `write` passes the bytes in pieces to its argument, stops if the argument returns false, and returns whether it
    /// passed all bytes. Returns whether the bytes were stored.
    fn keep(&self, _name: &str, _length: u64, _write: &mut WriteAll<'_>) -> bool {
        false
    }

    /// Looks up the resource that is stored under a name.
    fn kept(&self, _name: &str, _now: Instant) -> Lookup {
        Lookup::Missing
    }

    /// Removes the resource stored under a name.
    fn forget(&self, _name: &str) {}

    /// The disk operations since the last call.
    fn take_work(&self) -> Work {
        Work::default()
    }
}

/// A function that passes all bytes to its argument; see [`Store::keep`].
pub type WriteAll<'w> = dyn FnMut(&mut dyn FnMut(&[u8]) -> bool) -> bool + 'w;

/// The disk operations of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of opened files.
    pub opens: u64,
    /// The number of calls that read bytes of a file.
    pub reads: u64,
}

/// The result of a look-up.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// A resource.
    Found(Arc<Resource>),
    /// A folder with an index. The request omitted the final slash.
    Folder,
    /// There is no resource, or the store must not reveal that it exists.
    Missing,
    /// A resource that must not be read.
    Forbidden,
    /// The resource is currently not available, because the server is out of descriptors or memory.
    Overloaded,
}

/// A resource and its representations, in the state that was looked up.
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
    coding: Option<Coding>,
    length: u64,
    etag: EntityTag,
    bytes: Stored,
    checksum: OnceLock<Checksum>,
}

/// The location of the bytes of a representation.
#[derive(Debug, Clone)]
pub enum Stored {
    /// In memory.
    Memory(Body),
    /// In a file behind a descriptor of the caller, starting at its first byte.
    File(FileHandle),
}

/// A descriptor that only the caller can use. All clones share the descriptor, which is closed when the last clone is
/// dropped.
#[derive(Clone)]
pub struct FileHandle(Arc<dyn Any + Send + Sync>);

/// An entity tag (RFC 9110 section 8.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag {
    text: [u8; ETAG_LENGTH],
    weak: bool,
}

impl Resource {
    /// Creates a resource. `last_modified` is in seconds since the Unix epoch.
    ///
    /// # Panics
    /// If the content type is invalid in a field, or if there are more than 255 representations. Also if the first
    /// representation has a content coding, or another representation has none.
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

    /// Creates a resource in memory with a known entity tag. `etag` is the opaque part of the tag, in quotes.
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
            bytes: Stored::Memory(body),
            checksum: OnceLock::new(),
        };
        Resource::new(content_type, 0, vec![variant])
    }

    /// The representations. The representation without a coding comes first.
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
    /// Creates a representation in memory.
    pub fn memory(coding: Option<Coding>, body: Body) -> Variant {
        Variant {
            coding,
            length: body.len().0,
            etag: EntityTag::of_content(coding, &body),
            bytes: Stored::Memory(body),
            checksum: OnceLock::new(),
        }
    }

    /// Creates a representation of `length` bytes behind a descriptor.
    pub fn file(coding: Option<Coding>, length: u64, etag: EntityTag, file: FileHandle) -> Variant {
        Variant {
            coding,
            length,
            etag,
            bytes: Stored::File(file),
            checksum: OnceLock::new(),
        }
    }

    /// The content coding of the representation.
    pub fn coding(&self) -> Option<Coding> {
        self.coding
    }

    /// The length of the representation in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The location of the representation's bytes.
    pub fn bytes(&self) -> &Stored {
        &self.bytes
    }

    /// The checksum of the bytes, if already computed.
    pub(super) fn checksum(&self) -> &OnceLock<Checksum> {
        &self.checksum
    }
}

impl FileHandle {
    /// Wraps a descriptor.
    pub fn new<T: Any + Send + Sync>(descriptor: Arc<T>) -> FileHandle {
        FileHandle(descriptor)
    }

    /// The descriptor; `None` if it has another type.
    pub fn descriptor<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Whether two handles share a descriptor.
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
    /// Creates the tag of bytes in a content coding. The tag is strong: different bytes have the same tag with a
    /// probability of 2^-64.
    pub fn of_content(coding: Option<Coding>, body: &Body) -> EntityTag {
        EntityTag {
            text: etag_text(digest(coding, &body.bytes())),
            weak: false,
        }
    }

    /// Creates the tag of a file that is too large to be read for a tag. The tag is derived from the file's identity,
    /// size and change time.
    ///
    /// The tag is strong only if `settled` is true: every later change of the file must then change at least one of
    /// these values (RFC 9110 section 8.8.1). A file that changed within the last tick of its time stamp clock is not
    /// settled, because it may change again within that tick.
    pub fn of_metadata(words: &[u64], settled: bool) -> EntityTag {
        EntityTag {
            text: etag_text(digest_words(words)),
            weak: !settled,
        }
    }
}

/// Computes a 64-bit digest of words, for [`Store::state`]. Different words have the same digest with a probability of
/// 2^-64.
pub fn digest_of(words: &[u64]) -> u64 {
    digest_words(words)
}

/// The format of the `ETag` field.
impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.weak {
            f.write_str("W/")?;
        }
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}
