//! A cache of repeated requests (identical byte for byte) and of the heads of their responses.
//!
//! If a header block leaves the HPACK table unchanged, decoding the block again with the same table gives the same
//! fields. The same is true for encoding. A repeated request is usually such a block, and the response head stays the
//! same within one second. The cache then replaces decoding, parsing, the look-up and encoding.
//!
//! Only answers with in-memory files of a site are cached, because they never change. Only requests that arrived twice
//! are cached, so a request that arrives once costs only one look-up.

use fathometer_model::{Bytes, FileId};

use crate::hpack::hash;
use crate::message::Priority;
use crate::origin::{Answer, Method};

/// The maximum length of a cached header block, in bytes.
const LONGEST: usize = 512;

/// The cached result of a request.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub method: Method,
    pub file: Option<FileId>,
    pub target_hash: u64,
    pub request_fields: Bytes,
    /// The priority that the request signals.
    pub signalled: Option<Priority>,
    pub answer: Answer,
}

/// The head of a response.
#[derive(Debug, Default)]
struct Head {
    block: Vec<u8>,
    /// The generation of the encoder's table when the head was written.
    generation: u64,
    /// The second in which the head was written.
    second: u64,
    /// The size of the head's fields before compression, in bytes.
    fields: u64,
}

#[derive(Debug, Default)]
struct Entry {
    /// The hash of the last request that mapped to this entry.
    seen: u64,
    block: Vec<u8>,
    /// The generation of the decoder's table when the request was cached.
    generation: u64,
    known: Option<Known>,
    head: Head,
    /// The number of requests that have been cached in this entry.
    subject: u32,
}

/// A reference to a cached request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    place: u32,
    subject: u32,
}

/// The cached requests and heads of one connection.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: Vec<Entry>,
    /// The maximum number of entries: a power of two, or zero.
    most: usize,
}

impl Memory {
    /// Creates a cache of `most` entries, rounded up to a power of two. With 0, nothing is cached.
    pub fn new(most: u32) -> Memory {
        Memory {
            entries: Vec::new(),
            most: match most {
                0 => 0,
                most => most.next_power_of_two() as usize,
            },
        }
    }

    /// Finds the cached request with this header block.
    pub fn find(&self, block: &[u8], generation: u64) -> Option<Key> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.place(hash::of(block));
        let entry = &self.entries[place];
        let is_known =
            entry.known.is_some() && entry.generation == generation && entry.block == block;
        is_known.then_some(Key {
            place: place as u32,
            subject: entry.subject,
        })
    }

    /// The cached result.
    pub fn known(&self, key: Key) -> Option<&Known> {
        self.entry(key)?.known.as_ref()
    }

    /// Notes a request that left the HPACK table unchanged. Returns whether it arrived before, so that
    /// [`learn`](Self::learn) should cache it.
    pub fn was_seen_before(&mut self, block: &[u8]) -> bool {
        if self.most == 0 || block.len() > LONGEST {
            return false;
        }
        if self.entries.is_empty() {
            self.entries.resize_with(self.most, Entry::default);
        }
        let hash = hash::of(block);
        let place = self.place(hash);
        std::mem::replace(&mut self.entries[place].seen, hash) == hash
    }

    /// Caches the result of a request.
    pub fn learn(&mut self, block: &[u8], generation: u64, known: Known) -> Key {
        let place = self.place(hash::of(block));
        let entry = &mut self.entries[place];
        entry.block.clear();
        entry.block.extend_from_slice(block);
        entry.generation = generation;
        entry.known = Some(known);
        entry.head.block.clear();
        entry.subject = entry.subject.wrapping_add(1);
        Key {
            place: place as u32,
            subject: entry.subject,
        }
    }

    /// The cached head of the response and the size of its fields; `None` if the cached head is no longer valid.
    pub fn head(&self, key: Key, generation: u64, second: u64) -> Option<(&[u8], u64)> {
        let head = &self.entry(key)?.head;
        let fits = !head.block.is_empty() && head.generation == generation && head.second == second;
        fits.then_some((&head.block[..], head.fields))
    }

    /// Caches the head of a response.
    pub fn learn_head(
        &mut self,
        key: Key,
        block: &[u8],
        fields: u64,
        generation: u64,
        second: u64,
    ) {
        let entry = &mut self.entries[key.place as usize];
        if entry.subject == key.subject {
            let head = &mut entry.head;
            head.block.clear();
            head.block.extend_from_slice(block);
            head.fields = fields;
            head.generation = generation;
            head.second = second;
        }
    }

    /// Drops all entries and frees the memory.
    pub fn rest(&mut self) {
        self.entries = Vec::new();
    }

    fn entry(&self, key: Key) -> Option<&Entry> {
        let entry = self.entries.get(key.place as usize)?;
        (entry.subject == key.subject).then_some(entry)
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.most - 1)
    }
}
