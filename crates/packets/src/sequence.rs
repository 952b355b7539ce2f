//! Sequence numbers: unwraps 32-bit numbers to 64 bits, and stores sets of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Returns the 64-bit number closest to `reference` whose lower half is `sequence`.
#[inline]
pub(super) fn unwrap(reference: u64, sequence: u32) -> u64 {
    let distance = sequence.wrapping_sub(reference as u32) as i32;
    reference.wrapping_add_signed(i64::from(distance))
}

/// Returns the first reference of a sequence space: at least 2^32, so that earlier sequence numbers stay positive.
#[inline]
pub(super) fn first_reference(sequence: u32) -> u64 {
    1 << 32 | u64::from(sequence)
}

/// A set of sequence numbers, as ranges that neither overlap nor touch.
///
/// The set is exact: its memory grows with the number of holes, which [`SequenceSet::holes`] returns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SequenceSet {
    /// The highest range; empty if the set is empty. In-order segments extend only this range.
    top: (u64, u64),
    /// All ranges below `top`: start and end.
    lower: BTreeMap<u64, u64>,
}

impl SequenceSet {
    /// Returns the number of members in `start..end`.
    pub(super) fn covered(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let within = |range: (u64, u64)| range.1.min(end).saturating_sub(range.0.max(start));
        let below = self.lower.range(..end).rev().map(|(from, to)| (*from, *to));
        let below: u64 = below.take_while(|range| range.1 > start).map(within).sum();
        below + within(self.top)
    }

    /// Adds the numbers in `start..end`.
    #[inline]
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        // The segment is in order, which is by far the most common case.
        if self.top.1 == start && self.top.0 < start {
            self.top.1 = end;
            return;
        }
        self.insert_anywhere(start, end);
    }

    /// Returns the approximate heap memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        // A node of the tree has room for eleven ranges and is two thirds full on average.
        self.holes() as u64 * 32
    }

    fn holes(&self) -> usize {
        self.lower.len()
    }

    fn insert_anywhere(&mut self, mut start: u64, mut end: u64) {
        let is_empty = self.top.0 == self.top.1;
        if is_empty {
            self.top = (start, end);
            return;
        }
        if start > self.top.1 {
            let below = std::mem::replace(&mut self.top, (start, end));
            self.lower.insert(below.0, below.1);
            return;
        }
        // The new range absorbs the ranges that it overlaps or touches.
        while let Some((from, to)) = self.lower.range(..=end).next_back() {
            let (from, to) = (*from, *to);
            if to < start {
                break;
            }
            start = start.min(from);
            end = end.max(to);
            self.lower.remove(&from);
        }
        if end >= self.top.0 {
            self.top = (start.min(self.top.0), end.max(self.top.1));
        } else {
            self.lower.insert(start, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unwrapping_goes_on_through_the_wrap_and_back() {
        let reference = first_reference(0xffff_fff0);
        assert_eq!(unwrap(reference, 0x10), reference + 0x20);
        assert_eq!(unwrap(reference + 0x20, 0xffff_fff0), reference);
        assert_eq!(unwrap(first_reference(0), u32::MAX), (1 << 32) - 1);
    }

    #[test]
    fn a_set_with_many_holes_stays_exact() {
        let mut set = SequenceSet::default();
        for n in 0..5_000 {
            set.insert(n * 10, n * 10 + 1);
        }
        assert_eq!(set.holes(), 4_999);
        assert_eq!(set.covered(0, 100), 10);
        assert_eq!(set.covered(0, 50_000), 5_000);
        for n in 0..4_999 {
            set.insert(n * 10 + 1, n * 10 + 10);
        }
        assert_eq!((set.holes(), set.top), (0, (0, 49_991)));
    }

    proptest! {
        #[test]
        fn a_set_behaves_as_a_table_of_flags(
            ranges in prop::collection::vec((0u64..200, 0u64..40), 0..60),
            question in (0u64..200, 0u64..60),
        ) {
            let mut set = SequenceSet::default();
            let mut flags = [false; 300];
            for (start, length) in ranges {
                set.insert(start, start + length);
                flags[start as usize..(start + length) as usize].fill(true);
            }
            let (start, length) = question;
            let expected = flags[start as usize..(start + length) as usize]
                .iter()
                .filter(|flag| **flag)
                .count();
            prop_assert_eq!(set.covered(start, start + length), expected as u64);
            let ranges: Vec<(u64, u64)> =
                set.lower.iter().map(|(from, to)| (*from, *to)).chain([set.top]).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
