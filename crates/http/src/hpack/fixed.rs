//! Static tables: fixed fields, found by a hash index that is built at compile time.

use super::hash;

/// A static table of `N` fields, whose names are indexed by `B` buckets.
#[derive(Debug)]
pub(crate) struct Fixed<const N: usize, const B: usize> {
    fields: [(&'static str, &'static str); N],
    /// One more than the index of the first field with a name; 0: no field.
    buckets: [u8; B],
    /// One more than the index of the next field with the same name; 0: no field.
    next: [u8; N],
}

/// The result of a search for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixedMatch {
    /// The field is in the table, at this index.
    Field(usize),
    /// Only its name is in the table; the first field with this name is at this index.
    Name(usize),
    /// Neither the field nor its name is in the table.
    None,
}

impl<const N: usize, const B: usize> Fixed<N, B> {
    /// Builds the table of these fields: at most 254, and at most one for each bucket.
    pub const fn new(fields: [(&'static str, &'static str); N]) -> Fixed<N, B> {
        assert!(N < 255 && B.is_power_of_two() && B >= N);
        let (mut buckets, mut next) = ([0; B], [0; N]);
        let mut place = 0;
        while place < N {
            let name = fields[place].0.as_bytes();
            let mut bucket = bucket::<B>(hash::of(name));
            loop {
                let first = buckets[bucket] as usize;
                if first == 0 {
                    buckets[bucket] = place as u8 + 1;
                    break;
                }
                if same(fields[first - 1].0.as_bytes(), name) {
                    let mut last = first - 1;
                    while next[last] > 0 {
                        last = next[last] as usize - 1;
                    }
                    next[last] = place as u8 + 1;
                    break;
                }
                bucket = (bucket + 1) % B;
            }
            place += 1;
        }
        Fixed {
            fields,
            buckets,
            next,
        }
    }

    /// The field at an index, counted from 0.
    pub fn field(&self, place: usize) -> Option<(&'static str, &'static str)> {
        self.fields.get(place).copied()
    }

    /// Searches for a field, given the hash of its name.
    pub fn find(&self, name_hash: u64, name: &[u8], value: &[u8]) -> FixedMatch {
        let mut bucket = bucket::<B>(name_hash);
        loop {
            let Some(first) = usize::from(self.buckets[bucket]).checked_sub(1) else {
                return FixedMatch::None;
            };
            if self.fields[first].0.as_bytes() == name {
                let mut place = first;
                loop {
                    if self.fields[place].1.as_bytes() == value {
                        return FixedMatch::Field(place);
                    }
                    match usize::from(self.next[place]).checked_sub(1) {
                        Some(next) => place = next,
                        None => return FixedMatch::Name(first),
                    }
                }
            }
            bucket = (bucket + 1) % B;
        }
    }
}

const fn bucket<const B: usize>(hash: u64) -> usize {
    (hash >> 32) as usize % B
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut place = 0;
    while place < one.len() {
        if one[place] != other[place] {
            return false;
        }
        place += 1;
    }
    true
}
