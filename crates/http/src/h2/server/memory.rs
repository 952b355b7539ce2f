//! Requests that come again, octet for octet, and the heads of their responses.
//!
//! A header block that leaves the table of HPACK as it is, read again by the same table, has the same
//! fields; so has one that is written. A client that asks for a file it has asked for before mostly
//! sends such a block, and what it is answered with is the same within one second. Both are then taken
//! from here: decoding, reading, looking up and encoding are left out.
//!
//! Only answers about files of a site in memory are kept, which never change, and only requests that
//! have come twice: those that come once cost no more than a look.

use fathometer_model::{Bytes, FileId};

use crate::h2::priority::Priority;
use crate::hpack::hash;
use crate::origin::{Answer, Method};

/// The longest header block that is kept, in octets.
const LONGEST: usize = 512;

/// What is known of a request.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub method: Method,
    pub file: Option<FileId>,
    pub target_hash: u64,
    pub request_fields: Bytes,
    /// What the request says of its priority.
    pub told: Option<Priority>,
    pub answer: Answer,
}

/// The head of a response.
#[derive(Debug, Default)]
struct Head {
    block: Vec<u8>,
    /// Under which state of the encoder's table it was written.
    generation: u64,
    /// In which second.
    second: u64,
    /// Octets of its fields before compression.
    fields: u64,
}

#[derive(Debug, Default)]
struct Entry {
    /// Hash of the request that came last to this place.
    seen: u64,
    block: Vec<u8>,
    /// Under which state of the decoder's table it was read.
    generation: u64,
    known: Option<Known>,
    head: Head,
    /// Counts what this entry has been about.
    subject: u32,
}

/// A request that is known, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    place: u32,
    subject: u32,
}

/// Requests and heads of one connection.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: Vec<Entry>,
    /// How many there may be: a power of two, or zero.
    most: usize,
}

impl Memory {
    /// Room for so many requests, rounded up to a power of two; for none with 0.
    pub fn new(most: u32) -> Memory {
        Memory {
            entries: Vec::new(),
            most: match most {
                0 => 0,
                most => most.next_power_of_two() as usize,
            },
        }
    }

    /// A request whose block this is, if it is known.
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

    /// What is known of it.
    pub fn known(&self, key: Key) -> Option<&Known> {
        self.entry(key)?.known.as_ref()
    }

    /// A request came that left the table as it is. Whether it has come before, so that it is worth
    /// [`learn`](Self::learn)ing.
    pub fn is_worth_learning(&mut self, block: &[u8]) -> bool {
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

    /// Takes down what is known of a request.
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

    /// The head of the response, and the octets of its fields, if it is known as it is to be written
    /// now.
    pub fn head(&self, key: Key, generation: u64, second: u64) -> Option<(&[u8], u64)> {
        let head = &self.entry(key)?.head;
        let fits = !head.block.is_empty() && head.generation == generation && head.second == second;
        fits.then_some((&head.block[..], head.fields))
    }

    /// Takes down the head of the response as it was written.
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

    /// Forgets everything and gives its memory back.
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
