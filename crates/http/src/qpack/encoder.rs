//! Encoding of fields into field sections and encoder instructions.

use std::collections::VecDeque;

use super::{Error, Fault, Indexing, most_entries, static_table};
use crate::hpack::fixed::FixedMatch;
use crate::hpack::hash;
use crate::hpack::integer;
use crate::hpack::string;
use crate::hpack::table::{Match, SearchTable, entry_size};

/// The use of the dynamic table by an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderPolicy {
    /// The largest dynamic table that the encoder uses, in bytes, even if the peer permits more; 0: no table.
    pub table: u32,
    /// Whether the encoder refers to entries before the peer has acknowledged them. Sections become smaller,
    /// but a lost packet may block streams that lost no packet. The encoder never blocks more streams than the
    /// peer permits.
    pub may_block: bool,
    /// The maximum number of sections that wait for an acknowledgement. Further sections do not use the dynamic table.
    pub outstanding: u32,
}

/// A table of 4096 bytes, no blocking, 256 sections.
impl Default for EncoderPolicy {
    fn default() -> EncoderPolicy {
        EncoderPolicy {
            table: 4096,
            may_block: false,
            outstanding: 256,
        }
    }
}

impl EncoderPolicy {
    /// No dynamic table.
    pub const OFF: EncoderPolicy = EncoderPolicy {
        table: 0,
        may_block: false,
        outstanding: 0,
    };
}

/// The encoder for one direction of a connection.
///
/// A field section is written by [`begin`](Encoder::begin), [`encode`](Encoder::encode) for each field, and
/// [`finish`](Encoder::finish). Send the output of [`write_instructions`](Encoder::write_instructions) before
/// that section, because the peer may need it to decode the section.
#[derive(Debug, Clone)]
pub struct Encoder {
    policy: EncoderPolicy,
    table: SearchTable,
    /// The maximum table capacity that the peer permits, in bytes. Required insert counts are encoded modulo twice the
    /// maximum number of entries in such a table.
    max_capacity: u64,
    max_blocked: u64,
    /// The number of entries that the peer has acknowledged.
    known: u64,
    /// Sections with references that are not acknowledged, oldest first.
    outstanding: VecDeque<Outstanding>,
    /// The number of these sections that refer to unacknowledged entries.
    at_risk: u64,
    section: Section,
    /// Instructions for the peer.
    instructions: Vec<u8>,
    /// An incomplete instruction of the peer.
    partial: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    stream: u64,
    /// One more than the number of the newest entry that the section refers to.
    required: u64,
    /// The oldest entry that the section refers to.
    oldest: u64,
}

/// The field section that is being written.
#[derive(Debug, Clone, Default)]
struct Section {
    stream: u64,
    base: u64,
    /// One more than the number of the newest entry that the section refers to; 0: no entry.
    required: u64,
    oldest: u64,
    /// Whether the section may refer to acknowledged entries.
    may_refer: bool,
    /// Whether the section may refer to unacknowledged entries.
    may_block: bool,
    lines: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder that uses no dynamic table until [`handle_settings`](Self::handle_settings) is called.
    pub fn new(policy: EncoderPolicy) -> Encoder {
        Encoder {
            policy,
            table: SearchTable::new(0),
            max_capacity: 0,
            max_blocked: 0,
            known: 0,
            outstanding: VecDeque::new(),
            at_risk: 0,
            section: Section::default(),
            instructions: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Applies the peer's settings, which arrive once: the maximum table capacity (SETTINGS_QPACK_MAX_TABLE_CAPACITY)
    /// and the number of streams that may be blocked (SETTINGS_QPACK_BLOCKED_STREAMS).
    pub fn handle_settings(&mut self, max_capacity: u64, max_blocked: u64) {
        self.max_capacity = max_capacity;
        self.max_blocked = max_blocked;
        let capacity = max_capacity.min(u64::from(self.policy.table));
        if capacity != self.table.table().capacity() {
            self.table.set_capacity(capacity);
            integer::encode(capacity, 5, 0b0010_0000, &mut self.instructions);
        }
    }

    /// Reads bytes of the peer's decoder stream. The bytes may be split anywhere.
    ///
    /// # Errors
    /// Every error must close the connection.
    pub fn handle_instructions(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        let mut rest = &partial[..];
        while let Some(&first) = rest.first() {
            let prefix = if first & 0b1000_0000 != 0 { 7 } else { 6 };
            match integer::decode(rest, prefix) {
                Ok(Some((value, length))) => {
                    self.learn(first, value).map_err(Error::DecoderStream)?;
                    rest = &rest[length..];
                }
                Ok(None) => break,
                Err(integer::TooLarge) => {
                    return Err(Error::DecoderStream(Fault::IntegerTooLarge));
                }
            }
        }
        let used = partial.len() - rest.len();
        partial.drain(..used);
        self.partial = partial;
        Ok(())
    }

    /// Begins a field section for a stream.
    pub fn begin(&mut self, stream: u64) {
        let room = (self.outstanding.len() as u64) < u64::from(self.policy.outstanding);
        let may_refer = room && self.table.table().capacity() > 0;
        let section = &mut self.section;
        section.stream = stream;
        section.base = self.table.table().inserted();
        section.required = 0;
        section.oldest = u64::MAX;
        section.may_refer = may_refer;
        // Two sections of one stream count twice: the count of blocked streams may be too high, but never too
        // low.
        section.may_block = may_refer && self.policy.may_block && self.at_risk < self.max_blocked;
        section.lines.clear();
    }

    /// Adds a field in the shortest form that the tables and the policy allow.
    pub fn encode(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        let name_hash = hash::of(name);
        let in_static = static_table::FIELDS.find(name_hash, name, value);
        if let FixedMatch::Field(place) = in_static
            && indexing != Indexing::Never
        {
            return integer::encode(place as u64, 6, 0b1100_0000, &mut self.section.lines);
        }
        let name_in_static = match in_static {
            FixedMatch::Field(place) | FixedMatch::Name(place) => Some(place as u64),
            FixedMatch::None => None,
        };
        if !self.section.may_refer {
            return self.literal(name_in_static, None, (name, value), indexing);
        }
        let mut in_table = self.table.find(name_hash, name, value, u64::MAX);
        if indexing == Indexing::Yes && !matches!(in_table, Match::Field(_)) {
            let named = match in_table {
                Match::Field(number) | Match::Name(number) => Some(number),
                Match::None => None,
            };
            if self.insert(name_hash, name_in_static, named, (name, value)) {
                in_table = Match::Field(self.table.table().inserted() - 1);
            }
        } else if let Match::Field(number) = in_table
            && indexing != Indexing::Never
            && self.is_draining(number)
        {
            in_table = Match::Field(self.duplicate(name_hash, number, name, value));
        }
        if !self.section.may_block && self.newest(in_table) >= Some(self.known) {
            in_table = self.table.find(name_hash, name, value, self.known);
        }
        match in_table {
            Match::Field(number) if indexing != Indexing::Never => {
                self.refer(number);
                let section = &mut self.section;
                match section.base.checked_sub(number + 1) {
                    Some(index) => integer::encode(index, 6, 0b1000_0000, &mut section.lines),
                    None => {
                        let index = number - section.base;
                        integer::encode(index, 4, 0b0001_0000, &mut section.lines);
                    }
                }
            }
            Match::Field(number) | Match::Name(number) => {
                self.literal(name_in_static, Some(number), (name, value), indexing);
            }
            Match::None => self.literal(name_in_static, None, (name, value), indexing),
        }
    }

    /// Ends the field section and appends it to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let section = &self.section;
        if section.required == 0 {
            out.extend_from_slice(&[0, 0]);
        } else {
            let range = 2 * most_entries(self.max_capacity);
            integer::encode(section.required % range + 1, 8, 0, out);
            match section.base.checked_sub(section.required) {
                Some(delta) => integer::encode(delta, 7, 0, out),
                None => {
                    let delta = section.required - section.base - 1;
                    integer::encode(delta, 7, 0b1000_0000, out);
                }
            }
            self.outstanding.push_back(Outstanding {
                stream: section.stream,
                required: section.required,
                oldest: section.oldest,
            });
            self.at_risk += u64::from(section.required > self.known);
        }
        out.extend_from_slice(&section.lines);
    }

    /// Whether there are instructions for the peer's decoder.
    pub fn has_instructions(&self) -> bool {
        !self.instructions.is_empty()
    }

    /// Appends the instructions for the peer's decoder.
    pub fn write_instructions(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.instructions);
    }

    /// The number of sections that wait for an acknowledgement.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Carries out one decoder instruction (RFC 9204 section 4.4).
    fn learn(&mut self, first: u8, value: u64) -> Result<(), Fault> {
        match first & 0b1100_0000 {
            0b0000_0000 => {
                let known = self.known + value;
                if value == 0 || known > self.table.table().inserted() {
                    return Err(Fault::BadIncrement);
                }
                self.known = known;
            }
            0b0100_0000 => self.outstanding.retain(|section| section.stream != value),
            _ => {
                let place = self
                    .outstanding
                    .iter()
                    .position(|section| section.stream == value);
                let section = place.and_then(|place| self.outstanding.remove(place));
                let required = section.ok_or(Fault::UnknownSection)?.required;
                self.known = self.known.max(required);
            }
        }
        self.count_risks();
        Ok(())
    }

    fn count_risks(&mut self) {
        let risky = |section: &&Outstanding| section.required > self.known;
        self.at_risk = self.outstanding.iter().filter(risky).count() as u64;
    }

    /// Records that the section refers to an entry.
    fn refer(&mut self, number: u64) {
        self.section.required = self.section.required.max(number + 1);
        self.section.oldest = self.section.oldest.min(number);
    }

    fn newest(&self, found: Match) -> Option<u64> {
        match found {
            Match::Field(number) | Match::Name(number) => Some(number),
            Match::None => None,
        }
    }

    /// Whether an entry of this size can be inserted: all entries that it evicts must be acknowledged, and no
    /// unacknowledged section may refer to them (RFC 9204 section 2.1.1).
    fn has_room(&self, size: u64) -> bool {
        let table = self.table.table();
        let need = (table.size() + size).saturating_sub(table.capacity());
        if need == 0 {
            return true;
        }
        if size > table.capacity() {
            return false;
        }
        let referred = self.outstanding.iter().map(|section| section.oldest);
        let kept = referred.fold(self.known, u64::min).min(self.section.oldest);
        // All entries older than `kept` may be evicted.
        kept >= table.inserted() || table.older_size(kept) >= need
    }

    /// Inserts a field if there is room for it.
    fn insert(
        &mut self,
        name_hash: u64,
        name_in_static: Option<u64>,
        named: Option<u64>,
        (name, value): (&[u8], &[u8]),
    ) -> bool {
        if !self.has_room(entry_size(name, value)) {
            return false;
        }
        let out = &mut self.instructions;
        match (name_in_static, named) {
            (Some(place), _) => integer::encode(place, 6, 0b1100_0000, out),
            (None, Some(number)) => {
                let index = self.table.table().inserted() - 1 - number;
                integer::encode(index, 6, 0b1000_0000, out);
            }
            (None, None) => string::encode(name, 5, 0b0100_0000, out),
        }
        string::encode(value, 7, 0, out);
        self.table.insert(name_hash, name, value)
    }

    /// Whether an entry is among the oldest, so that references to it would soon prevent insertions.
    fn is_draining(&self, number: u64) -> bool {
        let table = self.table.table();
        let quarter = table.capacity() / 4;
        table.older_size(number) < quarter && table.size() > table.capacity() - quarter
    }

    /// Duplicates an entry if there is room. Returns the number of the entry to refer to.
    fn duplicate(&mut self, name_hash: u64, number: u64, name: &[u8], value: &[u8]) -> u64 {
        // The search returned the newest equal entry, so no newer duplicate waits for acknowledgement.
        if !self.has_room(entry_size(name, value)) {
            return number;
        }
        let index = self.table.table().inserted() - 1 - number;
        integer::encode(index, 5, 0, &mut self.instructions);
        self.table.insert(name_hash, name, value);
        self.table.table().inserted() - 1
    }

    /// Writes a field as a literal, with a reference to its name if there is one.
    fn literal(
        &mut self,
        name_in_static: Option<u64>,
        named: Option<u64>,
        (name, value): (&[u8], &[u8]),
        indexing: Indexing,
    ) {
        let never = indexing == Indexing::Never;
        if let (None, Some(number)) = (name_in_static, named) {
            self.refer(number);
        }
        let section = &mut self.section;
        let out = &mut section.lines;
        match (name_in_static, named) {
            (Some(place), _) => {
                integer::encode(place, 4, 0b0101_0000 | u8::from(never) << 5, out);
            }
            (None, Some(number)) => match section.base.checked_sub(number + 1) {
                Some(index) => integer::encode(index, 4, 0b0100_0000 | u8::from(never) << 5, out),
                None => integer::encode(number - section.base, 3, u8::from(never) << 3, out),
            },
            (None, None) => string::encode(name, 3, 0b0010_0000 | u8::from(never) << 4, out),
        }
        string::encode(value, 7, 0, out);
    }
}
