//! Encoding of fields into field blocks.

use super::fixed::FixedMatch;
use super::table::{Match, SearchTable, entry_size};
use super::{DEFAULT_TABLE_SIZE, Indexing, hash, integer, static_table, string};

/// The encoder for one direction of a connection.
///
/// A block is written by [`begin`](Encoder::begin) and then [`encode`](Encoder::encode) for each field. Blocks
/// must be sent completely and in the order in which they were written, because each may change the peer's
/// table.
#[derive(Debug, Clone)]
pub struct Encoder {
    table: SearchTable,
    /// The maximum table size that this side uses, in bytes.
    max_table: u64,
    /// The table size from the next block on, in bytes.
    wanted: u64,
    /// The smallest table size that was set since the last block, in bytes.
    smallest: u64,
    generation: u64,
}

impl Encoder {
    /// Creates an encoder whose table never exceeds `max_table` bytes, counted as in RFC 7541; 0: no table. Until the
    /// peer's settings arrive, the table does not exceed 4096 bytes.
    pub fn new(max_table: u32) -> Encoder {
        let default = u64::from(DEFAULT_TABLE_SIZE);
        let wanted = default.min(u64::from(max_table));
        Encoder {
            table: SearchTable::new(default),
            max_table: u64::from(max_table),
            wanted,
            smallest: wanted,
            generation: 0,
        }
    }

    /// A number that changes whenever the table changes or its limit is set. If writing a block did not change
    /// the number, the same bytes may be sent again while the number is the same.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Applies the peer's limit on the table (SETTINGS_HEADER_TABLE_SIZE), from the next block on.
    pub fn set_table_limit(&mut self, limit: u32) {
        self.wanted = self.max_table.min(u64::from(limit));
        self.smallest = self.smallest.min(self.wanted);
        self.generation += 1;
    }

    /// Begins a block, with a size update if the size of the table changed.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let sizes = [self.smallest, self.wanted];
        for size in sizes {
            if size != self.table.table().capacity() {
                integer::encode(size, 5, 0b0010_0000, out);
                self.table.set_capacity(size);
                self.generation += 1;
            }
        }
        self.smallest = self.wanted;
    }

    /// Appends a field in the shortest form that the tables allow.
    pub fn encode(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let name_hash = hash::of(name);
        let in_static = static_table::FIELDS.find(name_hash, name, value);
        if let FixedMatch::Field(place) = in_static
            && indexing != Indexing::Never
        {
            return integer::encode(place as u64 + 1, 7, 0b1000_0000, out);
        }
        let in_table = self.table.find(name_hash, name, value, u64::MAX);
        if let Match::Field(number) = in_table
            && indexing != Indexing::Never
        {
            return integer::encode(self.index(number), 7, 0b1000_0000, out);
        }
        let name_index = match (in_static, in_table) {
            (FixedMatch::Field(place) | FixedMatch::Name(place), _) => place as u64 + 1,
            (FixedMatch::None, Match::Field(number) | Match::Name(number)) => self.index(number),
            (FixedMatch::None, Match::None) => 0,
        };
        let fits = entry_size(name, value) <= self.table.table().capacity();
        let (prefix, pattern) = match indexing {
            Indexing::Yes if fits => (6, 0b0100_0000),
            Indexing::Yes | Indexing::No => (4, 0),
            Indexing::Never => (4, 0b0001_0000),
        };
        integer::encode(name_index, prefix, pattern, out);
        if name_index == 0 {
            string::encode(name, 7, 0, out);
        }
        string::encode(value, 7, 0, out);
        if indexing == Indexing::Yes && fits {
            self.table.insert(name_hash, name, value);
            self.generation += 1;
        }
    }

    /// The current index of an entry of the dynamic table.
    fn index(&self, number: u64) -> u64 {
        static_table::LENGTH + (self.table.table().inserted() - number)
    }
}
