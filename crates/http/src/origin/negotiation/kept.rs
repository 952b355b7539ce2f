//! A cache of compressed bodies. The least recently used body is evicted first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fathometer_model::Body;

use super::memory::Share;
use crate::origin::conditions::ETAG_LENGTH;

/// The entity tag of a compressed representation, which identifies its bytes.
pub(super) type Key = [u8; ETAG_LENGTH];

/// The bytes of a compressed representation. They count as used memory until the last response with them has ended.
#[derive(Debug)]
pub(in crate::origin) struct CodedBody {
    pub body: Body,
    _share: Share,
}

impl CodedBody {
    /// Creates a body from its header and its content. `share` covers the bytes and the cache entry.
    pub fn new(header: &[u8], content: &[u8], mut share: Share) -> CodedBody {
        share.shrink((header.len() + content.len()) as u64 + ENTRY);
        let body = match header {
            [] => Body::from(content),
            header => Body::from([header, content].concat()),
        };
        CodedBody {
            body,
            _share: share,
        }
    }
}

/// The approximate memory of a cache entry in bytes, without the body.
pub(super) const ENTRY: u64 = 512;

/// The bodies by their entity tags.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: HashMap<Key, (Arc<CodedBody>, u64)>,
    /// The keys of the entries, ordered by the number of the last use.
    order: BTreeMap<u64, Key>,
    uses: u64,
}

impl Kept {
    /// Finds the body with this tag, which becomes the most recently used body.
    pub fn find(&mut self, key: &Key) -> Option<Arc<CodedBody>> {
        let (body, last) = self.entries.get_mut(key)?;
        self.order.remove(last);
        self.uses += 1;
        *last = self.uses;
        self.order.insert(self.uses, *key);
        Some(Arc::clone(body))
    }

    pub fn insert(&mut self, key: Key, body: Arc<CodedBody>) {
        self.uses += 1;
        if let Some((_, last)) = self.entries.insert(key, (body, self.uses)) {
            self.order.remove(&last);
        }
        self.order.insert(self.uses, key);
    }

    /// Evicts the least recently used body that no response uses. The eviction of a body in use would not release
    /// memory. Returns whether a body was evicted.
    pub fn evict(&mut self) -> bool {
        for _ in 0..self.order.len() {
            let Some((last, key)) = self.order.pop_first() else {
                return false;
            };
            let in_use = self
                .entries
                .get(&key)
                .is_some_and(|(body, _)| Arc::strong_count(body) > 1);
            if !in_use {
                self.entries.remove(&key);
                return true;
            }
            // Marks a body in use as just used, so that later calls do not examine it again.
            self.uses = self.uses.max(last) + 1;
            if let Some((_, last)) = self.entries.get_mut(&key) {
                *last = self.uses;
            }
            self.order.insert(self.uses, key);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    fn key(n: u8) -> Key {
        [n; ETAG_LENGTH]
    }

    #[test]
    fn the_least_recently_used_body_is_evicted_unless_it_is_in_use() {
        let memory = Memory::of(1 << 20);
        let mut kept = Kept::default();
        for n in 0..3 {
            let share = memory.take(10_000).unwrap();
            kept.insert(key(n), Arc::new(CodedBody::new(b"", &[n; 100], share)));
        }
        assert_eq!(memory.used(), 3 * (100 + ENTRY));
        let in_use = kept.find(&key(1)).unwrap();
        drop(kept.find(&key(0)));
        assert!(kept.evict());
        assert!(
            kept.find(&key(2)).is_none(),
            "body 2 was used least recently"
        );
        assert!(kept.evict());
        assert!(
            kept.find(&key(0)).is_none(),
            "body 1 is in use, so body 0 is evicted"
        );
        assert!(!kept.evict());
        assert_eq!(memory.used(), 100 + ENTRY);
        drop(in_use);
        assert!(kept.evict());
        assert_eq!((kept.entries.len(), memory.used()), (0, 0));
        assert!(kept.order.is_empty() && !kept.evict());
    }

    #[test]
    fn a_body_is_replaced_by_one_with_the_same_tag() {
        let memory = Memory::of(1 << 20);
        let mut kept = Kept::default();
        for length in [100, 200] {
            let share = memory.take(1000).unwrap();
            kept.insert(
                key(0),
                Arc::new(CodedBody::new(b"head", &vec![0; length - 4], share)),
            );
        }
        assert_eq!((kept.entries.len(), kept.order.len()), (1, 1));
        assert_eq!(memory.used(), 200 + ENTRY);
    }
}
