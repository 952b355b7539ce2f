//! The cache of a served folder: small files in memory, large files as open descriptors.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_files::site_folder::media_type;
use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::store::{FileHandle, Resource, Stored, Variant};
use fathometer_model::{Body, Instant};
use rustix::fs;
use rustix::io::Errno;

use super::{Bounds, SMALL};
use crate::root::{Found, Identity, Opened};

/// The approximate memory of an entry in bytes, without its content.
const ENTRY: u64 = 512;

/// Maximum number of attempts to read a small file that changes while it is read.
const READS: usize = 3;

/// The cached entries. Eviction uses the clock algorithm: a hand moves round the entries and evicts the first
/// entry that was not requested since the hand last passed it.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) places: HashMap<Arc<[u8]>, usize>,
    pub(super) entries: Vec<Entry>,
    hand: usize,
    pub(super) bytes: u64,
    pub(super) descriptors: usize,
}

impl Cache {
    /// Returns the entry of a path, and marks the entry as used.
    pub(super) fn entry(&mut self, path: &[u8]) -> Option<&mut Entry> {
        let place = *self.places.get(path)?;
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(entry)
    }

    /// Adds the entry of a path that is not in the cache.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.descriptors += entry.descriptors;
        self.places
            .insert(Arc::clone(&entry.path), self.entries.len());
        self.entries.push(entry);
    }

    /// Removes the entry of a path, if there is one.
    pub(super) fn remove(&mut self, path: &[u8]) {
        if let Some(&place) = self.places.get(path) {
            self.remove_at(place);
        }
    }

    fn remove_at(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.bytes -= entry.bytes;
        self.descriptors -= entry.descriptors;
        self.places.remove(&entry.path);
        if let Some(moved) = self.entries.get(place)
            && let Some(at) = self.places.get_mut(&moved.path)
        {
            *at = place;
        }
    }

    /// Evicts entries until the others are within the bounds.
    pub(super) fn keep_within(&mut self, bounds: Bounds) {
        while !self.entries.is_empty() {
            let too_many_bytes = self.bytes > bounds.bytes;
            if !too_many_bytes && self.descriptors <= bounds.descriptors {
                return;
            }
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let entry = &mut self.entries[self.hand];
            let helps = too_many_bytes || entry.descriptors > 0;
            if helps && !entry.used {
                self.remove_at(self.hand);
            } else {
                entry.used &= !helps;
                self.hand += 1;
            }
        }
    }
}

/// A path and the files found there.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Arc<[u8]>,
    pub(super) resource: Arc<Resource>,
    /// The identity of the file of each representation.
    pub(super) identities: Vec<Identity>,
    /// Whether an entity tag is still weak and will become strong.
    unsettled: bool,
    /// Whether a file in memory changed so shortly before it was read that its times may not show a later
    /// change. Such a file is read again at each check.
    pub(super) may_differ: bool,
    /// The time at which the entry was last checked.
    pub(super) looked_at: Instant,
    /// Whether the entry was requested since the eviction hand last passed it.
    used: bool,
    pub(super) bytes: u64,
    pub(super) descriptors: usize,
}

impl Entry {
    /// Reads the small files that were found at a path, and keeps large files open.
    pub(super) fn read(
        path: &[u8],
        found: Found,
        wall_clock: Duration,
        now: Instant,
        reads: &AtomicU64,
    ) -> io::Result<Entry> {
        let modified = u64::try_from(found.plain.identity.modified.0).unwrap_or(0);
        let content_type = media_type(&found.name);
        let mut entry = Entry {
            path: path.into(),
            resource: Arc::new(Resource::new(
                content_type,
                modified,
                vec![Variant::memory(None, Body::from(Vec::new()))],
            )),
            identities: Vec::with_capacity(1 + found.coded.len()),
            unsettled: false,
            may_differ: false,
            looked_at: now,
            used: true,
            bytes: ENTRY + path.len() as u64,
            descriptors: 0,
        };
        let coded = found
            .coded
            .into_iter()
            .map(|(coding, opened)| (Some(coding), opened));
        let mut variants = Vec::with_capacity(1 + coded.len());
        for (coding, opened) in std::iter::once((None, found.plain)).chain(coded) {
            let (variant, identity) = read(coding, opened, wall_clock, reads)?;
            match variant.bytes() {
                Stored::Memory(body) => {
                    entry.bytes += body.len().0;
                    entry.may_differ |= !identity.is_settled(wall_clock);
                }
                Stored::File(_) => {
                    entry.descriptors += 1;
                    entry.unsettled |= !identity.is_settled(wall_clock);
                }
            }
            variants.push(variant);
            entry.identities.push(identity);
        }
        entry.resource = Arc::new(Resource::new(content_type, modified, variants));
        Ok(entry)
    }

    /// Keeps the resource of an earlier entry with the same times, if the whole resource is in memory and its content
    /// is equal.
    pub(super) fn keep_if_same(&mut self, earlier: Arc<Resource>) {
        let variants = earlier.variants().iter().zip(self.resource.variants());
        let is_same = variants
            .map(|(one, other)| (one.bytes(), other.bytes()))
            .all(|pair| match pair {
                (Stored::Memory(one), Stored::Memory(other)) => one.bytes() == other.bytes(),
                _ => false,
            });
        if is_same {
            self.resource = earlier;
        }
    }

    /// Whether the times of the files show no change since this entry was made.
    pub(super) fn is_still(&self, found: &Found, wall_clock: Duration) -> bool {
        let files = std::iter::once((None, &found.plain)).chain(
            found
                .coded
                .iter()
                .map(|(coding, opened)| (Some(*coding), opened)),
        );
        let variants = self.resource.variants();
        variants.len() == 1 + found.coded.len()
            && files.zip(variants).zip(&self.identities).all(
                |(((coding, opened), variant), identity)| {
                    variant.coding() == coding && opened.identity == *identity
                },
            )
            && !(self.unsettled
                && self
                    .identities
                    .iter()
                    .all(|identity| identity.is_settled(wall_clock)))
    }

    /// Whether the open files are unchanged.
    pub(super) fn descriptors_are_still(&self) -> bool {
        self.resource
            .variants()
            .iter()
            .zip(&self.identities)
            .all(|(variant, identity)| match variant.bytes() {
                Stored::Memory(_) => true,
                Stored::File(file) => file
                    .descriptor::<OwnedFd>()
                    .is_some_and(|file| Identity::now(file) == Some(*identity)),
            })
    }
}

/// Reads a small file; keeps the descriptor of a larger file.
fn read(
    coding: Option<Coding>,
    opened: Opened,
    wall_clock: Duration,
    reads: &AtomicU64,
) -> io::Result<(Variant, Identity)> {
    let Opened { file, mut identity } = opened;
    for _ in 0..READS {
        if identity.size > SMALL {
            break;
        }
        let mut bytes = vec![0; identity.size as usize];
        let mut length = 0;
        while length < bytes.len() {
            reads.fetch_add(1, Ordering::Relaxed);
            match rustix::io::pread(&file, &mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let after = Identity::of(&fs::fstat(&file)?);
        if after == identity && length == bytes.len() {
            return Ok((Variant::memory(coding, Body::from(bytes)), identity));
        }
        identity = after;
    }
    let tag = identity.tag(coding, wall_clock);
    let file = FileHandle::new(Arc::new(file));
    Ok((Variant::file(coding, identity.size, tag, file), identity))
}
