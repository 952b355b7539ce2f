//! Fields into blocks.

use super::fixed::FixedMatch;
use super::table::{Match, SearchTable, entry_size};
use super::{DEFAULT_TABLE_SIZE, Indexing, hash, integer, static_table, string};

/// One direction's encoder.
///
/// A block is written by [`begin`](Encoder::begin) and then [`encode`](Encoder::encode) for each
/// field. Blocks are sent in the order in which they were written, whole: the peer's table follows.
#[derive(Debug, Clone)]
pub struct Encoder {
    table: SearchTable,
    /// The largest table this side wants.
    max_table: u64,
    /// The table's size from the next block on.
    wanted: u64,
    /// The smallest size wanted since the last block.
    smallest: u64,
    generation: u64,
}

impl Encoder {
    /// An encoder whose table never takes more than `max_table` octets, as RFC 7541 counts them; with
    /// 0 there is none. Until the peer's settings are known it takes no more than 4096.
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

    /// A number that changes with the table and when its size is to be told at the next
    /// [`begin`](Self::begin): a block that was written under the present number, and by which it did
    /// not change, may be sent again as it is.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The peer said how large the table may be (SETTINGS_HEADER_TABLE_SIZE). It holds from the next
    /// block on.
    pub fn set_table_limit(&mut self, limit: u32) {
        self.wanted = self.max_table.min(u64::from(limit));
        self.smallest = self.smallest.min(self.wanted);
        self.generation += 1;
    }

    /// Begins a block: says how large the table is, where that changed.
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

    /// Appends a field, as short as the tables allow.
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

    /// The index of an entry of the dynamic table at this moment.
    fn index(&self, number: u64) -> u64 {
        static_table::LENGTH + (self.table.table().inserted() - number)
    }
}
