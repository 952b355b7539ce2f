//! Range requests (RFC 9110 section 14), with limits on their cost.
//!
//! The response to many or overlapping ranges may be more expensive than the complete representation. Therefore, two
//! ranges are merged if they overlap, touch, or have a gap smaller than the head of a part. A request for more than
//! [`MAX_RANGES`] ranges gets the complete representation.

use crate::message::fields;

/// The maximum number of ranges in a request. The Range field of a request with more ranges is ignored.
pub const MAX_RANGES: usize = 16;

/// The minimum gap between two separate ranges. With a smaller gap, the head of a separate part would be larger than
/// the gap.
const MIN_GAP: u64 = 80;

/// The bytes of a representation from `first` (inclusive) to `end` (exclusive). Never empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub first: u64,
    /// The position after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The number of bytes in the range.
    pub const fn length(self) -> u64 {
        self.end - self.first
    }
}

/// At most [`MAX_RANGES`] ranges, in the order in which they were requested.
#[derive(Debug, Clone, Copy)]
pub struct Ranges {
    ranges: [ByteRange; MAX_RANGES],
    count: usize,
}

impl Ranges {
    /// The ranges.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges[..self.count]
    }

    /// Adds a range. It is merged with all ranges that it overlaps or nearly touches, at the position of the first of
    /// them.
    fn add(&mut self, mut range: ByteRange) {
        let mut place = self.count;
        let mut kept = 0;
        for at in 0..self.count {
            let other = self.ranges[at];
            let apart = range.first > other.end.saturating_add(MIN_GAP)
                || other.first > range.end.saturating_add(MIN_GAP);
            if apart {
                self.ranges[kept] = other;
                kept += 1;
            } else {
                range.first = range.first.min(other.first);
                range.end = range.end.max(other.end);
                place = place.min(kept);
            }
        }
        let place = place.min(kept);
        self.ranges.copy_within(place..kept, place + 1);
        self.ranges[place] = range;
        self.count = kept + 1;
    }
}

/// The meaning of a Range field.
#[derive(Debug, Clone)]
pub enum Selection {
    /// Ignore the field, because it has another unit, is invalid, or has too many ranges.
    Whole,
    /// Send this range.
    Part(ByteRange),
    /// Send these ranges (at least two). Only this case allocates memory, and few clients use it.
    Parts(Box<Ranges>),
    /// 416: none of the ranges is within the representation.
    Unsatisfiable,
}

/// Evaluates a Range field for a representation of `length` bytes.
pub fn select(field: &[u8], length: u64) -> Selection {
    read(field, length).unwrap_or(Selection::Whole)
}

fn read(field: &[u8], length: u64) -> Option<Selection> {
    let equals = field.iter().position(|&byte| byte == b'=')?;
    let (unit, set) = (&field[..equals], &field[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut asked = 0;
    let mut ranges = Ranges {
        ranges: [ByteRange::default(); MAX_RANGES],
        count: 0,
    };
    for text in fields::list(set) {
        asked += 1;
        if asked > MAX_RANGES {
            return None;
        }
        if let Some(range) = range(text, length)? {
            ranges.add(range);
        }
    }
    match ranges.as_slice() {
        _ if asked == 0 => None,
        [] => Some(Selection::Unsatisfiable),
        [range] => Some(Selection::Part(*range)),
        _ => Some(Selection::Parts(Box::new(ranges))),
    }
}

/// Parses one range. Returns `None` if it is malformed, and `Some(None)` if it is outside the representation.
fn range(text: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = text.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&text[..dash], &text[dash + 1..]);
    let (first, end) = match (first, last) {
        ([], suffix) => (length.saturating_sub(position(suffix)?), length),
        (first, []) => (position(first)?, length),
        (first, last) => {
            let (first, last) = (position(first)?, position(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(length))
        }
    };
    Some((first < end).then_some(ByteRange { first, end }))
}

/// Parses a position. Positions of 2^64 or more are reduced to the maximum.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(fields::decimal(digits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the selected ranges. `None` is the whole representation; an empty list is 416.
    fn selected(field: &str, length: u64) -> Option<Vec<(u64, u64)>> {
        match select(field.as_bytes(), length) {
            Selection::Whole => None,
            Selection::Unsatisfiable => Some(Vec::new()),
            Selection::Part(range) => Some(vec![(range.first, range.end)]),
            Selection::Parts(ranges) => Some(
                ranges
                    .as_slice()
                    .iter()
                    .map(|range| (range.first, range.end))
                    .collect(),
            ),
        }
    }

    type Expected = Option<&'static [(u64, u64)]>;

    #[test]
    fn ranges_of_a_thousand_bytes() {
        let table: [(&str, Expected); 24] = [
            ("bytes=0-99", Some(&[(0, 100)])),
            ("Bytes=0-0", Some(&[(0, 1)])),
            ("bytes=900-", Some(&[(900, 1000)])),
            ("bytes=900-5000", Some(&[(900, 1000)])),
            ("bytes=-100", Some(&[(900, 1000)])),
            ("bytes=-5000", Some(&[(0, 1000)])),
            ("bytes=0-99999999999999999999999", Some(&[(0, 1000)])),
            ("bytes=1000-", Some(&[])),
            ("bytes=-0", Some(&[])),
            ("bytes=2000-3000, 99999999999999999999999-", Some(&[])),
            ("bytes=0-9, 5000-", Some(&[(0, 10)])),
            ("bytes=500-509, 0-9", Some(&[(500, 510), (0, 10)])),
            ("bytes=0-9, 10-19", Some(&[(0, 20)])),
            ("bytes=0-9, 50-59", Some(&[(0, 60)])),
            ("bytes=0-9,500-509,5-20", Some(&[(0, 21), (500, 510)])),
            ("bytes=0-9,200-209,400-409,8-401", Some(&[(0, 410)])),
            ("bytes=0-,0-,0-", Some(&[(0, 1000)])),
            ("bytes=9-0", None),
            ("bytes=a-b", None),
            ("bytes=+1-2", None),
            ("bytes=", None),
            ("bytes=-", None),
            ("bytes 0-9", None),
            ("lines=0-9", None),
        ];
        for (field, expected) in table {
            assert_eq!(
                selected(field, 1000),
                expected.map(<[_]>::to_vec),
                "{field}"
            );
        }
    }

    #[test]
    fn too_many_ranges_are_ignored() {
        let set = |count: usize| {
            let ranges: Vec<String> = (0..count)
                .map(|n| format!("{}-{}", n * 1000, n * 1000))
                .collect();
            format!("bytes={}", ranges.join(","))
        };
        assert_eq!(
            selected(&set(MAX_RANGES), 1_000_000).map(|ranges| ranges.len()),
            Some(MAX_RANGES)
        );
        assert_eq!(selected(&set(MAX_RANGES + 1), 1_000_000), None);
    }

    #[test]
    fn no_range_is_satisfiable_in_an_empty_representation() {
        for field in ["bytes=0-", "bytes=-5", "bytes=0-0"] {
            assert_eq!(selected(field, 0), Some(Vec::new()), "{field}");
        }
    }

    proptest! {
        #[test]
        fn joined_ranges_cover_the_request_and_never_overlap(
            asked in prop::collection::vec((0u64..3000, 0u64..200), 1..MAX_RANGES),
            length in 1u64..3000,
        ) {
            let texts: Vec<String> = asked
                .iter()
                .map(|(first, more)| format!("{first}-{}", first + more))
                .collect();
            let ranges = selected(&format!("bytes={}", texts.join(",")), length).unwrap();
            let covers = |byte| ranges.iter().filter(|(first, end)| (*first..*end).contains(&byte)).count();
            for byte in 0..length {
                let wanted = asked.iter().any(|(first, more)| (*first..=first + more).contains(&byte));
                prop_assert!(covers(byte) <= 1);
                prop_assert!(!wanted || covers(byte) == 1);
            }
            prop_assert!(ranges.iter().all(|(first, end)| first < end && *end <= length));
        }
    }
}
