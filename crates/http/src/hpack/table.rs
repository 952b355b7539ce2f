//! The dynamic table (RFC 7541 sections 2.3.2 and 4), for HPACK and QPACK and for both sides.
//!
//! Entries are numbered from 0 in the order of their insertion and keep their numbers, as in QPACK; HPACK
//! counts backwards from the newest entry. Names and values are in one buffer. The buffer is compacted when at
//! least half of its bytes belong to evicted entries, so that it allocates nothing once it has grown.

use std::collections::VecDeque;

use super::hash;

/// The overhead of an entry in addition to its bytes (RFC 7541 section 4.1).
pub(crate) const ENTRY_OVERHEAD: u64 = 32;

/// Returns the size of a field as an entry of the table, in bytes.
pub(crate) fn entry_size(name: &[u8], value: &[u8]) -> u64 {
    name.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD
}

/// Entries up to a capacity. The oldest entries are evicted first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    text: Vec<u8>,
    /// The size in bytes of all entries before the first entry in `text`.
    base: u64,
    entries: VecDeque<Entry>,
    /// The number of entries inserted so far.
    inserted: u64,
    size: u64,
    capacity: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The size in bytes of all entries before this entry.
    start: u64,
    name: u32,
    value: u32,
}

impl Table {
    /// Creates an empty table.
    pub fn new(capacity: u64) -> Table {
        Table {
            capacity,
            ..Table::default()
        }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The size of all entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of entries inserted so far, which is also the number of the next entry.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The number of the oldest entry that is still in the table.
    pub fn oldest(&self) -> u64 {
        self.inserted - self.entries.len() as u64
    }

    /// Returns the size of all entries that are older than this entry.
    pub fn older_size(&self, number: u64) -> u64 {
        let oldest = self.oldest();
        let place = number.saturating_sub(oldest);
        match (self.entries.front(), self.entries.get(place as usize)) {
            (Some(first), Some(entry)) => entry.start - first.start + place * ENTRY_OVERHEAD,
            _ => self.size,
        }
    }

    /// Changes the capacity and evicts the oldest entries that no longer fit.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        while self.size > capacity {
            self.evict();
        }
    }

    /// Returns the name and the value of an entry.
    pub fn entry(&self, number: u64) -> Option<(&[u8], &[u8])> {
        let place = usize::try_from(number.checked_sub(self.oldest())?).ok()?;
        let entry = self.entries.get(place)?;
        let start = (entry.start - self.base) as usize;
        let name_end = start + entry.name as usize;
        let end = name_end + entry.value as usize;
        Some((&self.text[start..name_end], &self.text[name_end..end]))
    }

    /// Inserts a field, and evicts as many of the oldest entries as necessary. Returns whether the field was
    /// inserted: a field that is larger than the capacity only empties the table.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> bool {
        let size = entry_size(name, value);
        while self.size > 0 && self.size + size > self.capacity {
            self.evict();
        }
        if size > self.capacity {
            return false;
        }
        let (start, end) = self.live();
        if start > 0 && start >= end - start {
            self.text.copy_within(start..end, 0);
            self.text.truncate(end - start);
            self.base += start as u64;
        }
        let start = self.base + self.text.len() as u64;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        // Both are below the capacity, which fits 32 bits.
        self.entries.push_back(Entry {
            start,
            name: name.len() as u32,
            value: value.len() as u32,
        });
        self.inserted += 1;
        self.size += size;
        true
    }

    /// Evicts the oldest entry.
    pub fn evict(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.size -= u64::from(entry.name) + u64::from(entry.value) + ENTRY_OVERHEAD;
        }
    }

    /// Returns the part of `text` that belongs to entries.
    fn live(&self) -> (usize, usize) {
        let end = self.text.len();
        let start = self
            .entries
            .front()
            .map_or(end, |entry| (entry.start - self.base) as usize);
        (start, end)
    }

    /// The memory for names and values in bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.text.capacity()
    }
}

/// A table with an index by name and by field, for encoders.
///
/// Entries with the same hash are chained from the newest to the oldest. An evicted entry is older than all
/// others. A search therefore stops at the first evicted entry, and eviction never changes a chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchTable {
    table: Table,
    links: VecDeque<Link>,
    /// For each chain, one more than the number of its newest entry. The number of chains is a power of two, or
    /// zero before the first entry.
    by_field: Vec<u64>,
    by_name: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    field_hash: u64,
    name_hash: u64,
    /// One more than the number of the next older entry in the chain.
    older_field: u64,
    older_name: u64,
}

/// The result of a search for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// The entry with this number equals the field.
    Field(u64),
    /// Only the name of the entry with this number is equal.
    Name(u64),
    /// No entry has this name.
    None,
}

const LEAST_BUCKETS: usize = 64;

impl SearchTable {
    /// Creates an empty table.
    pub fn new(capacity: u64) -> SearchTable {
        SearchTable {
            table: Table::new(capacity),
            ..SearchTable::default()
        }
    }

    /// The table without its index.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Changes the capacity and evicts the oldest entries that no longer fit.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.table.set_capacity(capacity);
        self.forget_dropped(0);
    }

    /// Inserts a field, as [`Table::insert`] does.
    pub fn insert(&mut self, name_hash: u64, name: &[u8], value: &[u8]) -> bool {
        let number = self.table.inserted();
        let is_there = self.table.insert(name, value);
        self.forget_dropped(usize::from(is_there));
        if !is_there {
            return false;
        }
        if self.links.len() >= self.by_field.len() {
            self.grow();
        }
        let field_hash = hash::with(name_hash, value);
        let link = self.chain(number, field_hash, name_hash);
        self.links.push_back(link);
        true
    }

    /// Returns the newest entry below `below` that equals the field; otherwise the newest entry below `below` with the
    /// same name.
    pub fn find(&self, name_hash: u64, name: &[u8], value: &[u8], below: u64) -> Match {
        if self.links.is_empty() {
            return Match::None;
        }
        let field_hash = hash::with(name_hash, value);
        let mask = self.by_field.len() - 1;
        let oldest = self.table.oldest();
        let mut at = self.by_field[field_hash as usize & mask];
        while at > oldest {
            let number = at - 1;
            let link = &self.links[(number - oldest) as usize];
            if number < below
                && link.field_hash == field_hash
                && self.table.entry(number) == Some((name, value))
            {
                return Match::Field(number);
            }
            at = link.older_field;
        }
        let mut at = self.by_name[name_hash as usize & mask];
        while at > oldest {
            let number = at - 1;
            let link = &self.links[(number - oldest) as usize];
            if number < below
                && link.name_hash == name_hash
                && self
                    .table
                    .entry(number)
                    .is_some_and(|(other, _)| other == name)
            {
                return Match::Name(number);
            }
            at = link.older_name;
        }
        Match::None
    }

    /// Drops the links of evicted entries. The newest `unlinked` entries have no links yet.
    fn forget_dropped(&mut self, unlinked: usize) {
        let linked = (self.table.inserted() - self.table.oldest()) as usize - unlinked;
        let dropped = self.links.len() - linked;
        self.links.drain(..dropped);
    }

    /// Adds an entry at the start of its chains.
    fn chain(&mut self, number: u64, field_hash: u64, name_hash: u64) -> Link {
        let mask = self.by_field.len() - 1;
        let newest = |chains: &mut Vec<u64>, hash: u64| {
            std::mem::replace(&mut chains[hash as usize & mask], number + 1)
        };
        Link {
            field_hash,
            name_hash,
            older_field: newest(&mut self.by_field, field_hash),
            older_name: newest(&mut self.by_name, name_hash),
        }
    }

    /// Doubles the number of chains.
    fn grow(&mut self) {
        let buckets = (self.by_field.len() * 2).max(LEAST_BUCKETS);
        self.by_field.clear();
        self.by_field.resize(buckets, 0);
        self.by_name.clear();
        self.by_name.resize(buckets, 0);
        // If an entry was just inserted, it has no link yet.
        let first = self.table.oldest();
        for place in 0..self.links.len() {
            let Link {
                field_hash,
                name_hash,
                ..
            } = self.links[place];
            self.links[place] = self.chain(first + place as u64, field_hash, name_hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_drops_the_oldest_and_moves_its_text_together() {
        let mut table = Table::new(100);
        for round in 0u32..1000 {
            let name = format!("n{round}");
            assert!(table.insert(name.as_bytes(), b"0123456789"));
            assert!(table.size() <= 100);
            let newest = table.inserted() - 1;
            assert_eq!(
                table.entry(newest),
                Some((name.as_bytes(), &b"0123456789"[..]))
            );
            assert_eq!(table.entry(newest + 1), None);
        }
        assert_eq!(table.oldest(), 998);
        assert_eq!(table.entry(997), None);
        assert!(table.memory() <= 256, "{}", table.memory());
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = Table::new(64);
        assert!(table.insert(b"a", b"b"));
        assert!(!table.insert(&[b'x'; 40], b""));
        assert_eq!((table.size(), table.inserted(), table.oldest()), (0, 1, 1));
        assert!(table.insert(b"c", b"d"));
        assert_eq!(table.entry(1), Some((&b"c"[..], &b"d"[..])));
        table.set_capacity(0);
        assert_eq!(table.size(), 0);
        assert!(!table.insert(b"", b""));
    }

    type Field<'a> = (&'a [u8], &'a [u8]);

    proptest! {
        /// Compares with a search without an index.
        #[test]
        fn inserted_entries_are_found(
            steps in prop::collection::vec((0u8..40, 0u8..4, 0u8..20), 1..400),
            capacity in 0u64..4000,
        ) {
            let mut search = SearchTable::new(capacity);
            for (name, value, step) in steps {
                let name = format!("name-{name}");
                let (name, value) = (name.as_bytes(), [value]);
                if step == 0 {
                    search.set_capacity(capacity / 2);
                } else if step == 1 {
                    search.set_capacity(capacity);
                }
                let below = search.table().inserted() - u64::from(step).min(search.table().inserted());
                let table = search.table();
                let newest = |is: &dyn Fn(Field<'_>) -> bool| {
                    (table.oldest()..below).rev().find(|&n| is(table.entry(n).unwrap()))
                };
                let expected = match newest(&|field| field == (name, &value[..])) {
                    Some(number) => Match::Field(number),
                    None => newest(&|field| field.0 == name).map_or(Match::None, Match::Name),
                };
                let name_hash = hash::of(name);
                prop_assert_eq!(search.find(name_hash, name, &value, below), expected);
                search.insert(name_hash, name, &value);
            }
        }
    }
}
