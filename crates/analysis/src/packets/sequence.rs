//! Sequence numbers: from 32 bits that wrap to 64 bits that do not, and sets of them.

/// The 64-bit number closest to `reference` whose lower half is `sequence`.
#[inline]
pub(super) fn unwrap(reference: u64, sequence: u32) -> u64 {
    let distance = sequence.wrapping_sub(reference as u32) as i32;
    reference.wrapping_add_signed(i64::from(distance))
}

/// The reference that a sequence space begins with: high enough that nothing within half of the
/// 32-bit space before it falls below zero.
#[inline]
pub(super) fn first_reference(sequence: u32) -> u64 {
    1 << 32 | u64::from(sequence)
}

/// The most separate ranges that a set holds. Real connections stay far below: each hole is a
/// packet on its way.
const RANGE_LIMIT: usize = 1_024;

/// A set of sequence numbers as sorted ranges that neither overlap nor touch.
///
/// Beyond [`RANGE_LIMIT`] ranges the lowest hole is taken as filled, so that memory is bounded
/// whatever a file holds.
#[derive(Debug, Clone, Default)]
pub(super) struct SequenceSet {
    ranges: Vec<(u64, u64)>,
}

impl SequenceSet {
    /// How many numbers from `start` to before `end` are in the set.
    pub(super) fn covered(&self, start: u64, end: u64) -> u64 {
        let first = self.ranges.partition_point(|range| range.1 <= start);
        self.ranges[first..]
            .iter()
            .take_while(|range| range.0 < end)
            .map(|range| range.1.min(end) - range.0.max(start))
            .sum()
    }

    /// Puts the numbers from `start` to before `end` into the set.
    #[inline]
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        match self.ranges.last_mut() {
            // In order: by far the most common.
            Some(last) if last.1 == start => last.1 = end,
            _ => self.insert_anywhere(start, end),
        }
    }

    fn insert_anywhere(&mut self, start: u64, end: u64) {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let past = self.ranges.partition_point(|range| range.0 <= end);
        let mut merged = (start, end);
        if first < past {
            merged.0 = merged.0.min(self.ranges[first].0);
            merged.1 = merged.1.max(self.ranges[past - 1].1);
        }
        self.ranges.splice(first..past, [merged]);
        if self.ranges.len() > RANGE_LIMIT {
            let lowest = self.ranges.remove(0);
            self.ranges[0].0 = lowest.0;
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
    fn a_set_with_too_many_holes_fills_the_lowest() {
        let mut set = SequenceSet::default();
        for n in 0..5_000 {
            set.insert(n * 10, n * 10 + 1);
        }
        assert_eq!(set.ranges.len(), RANGE_LIMIT);
        assert_eq!(set.covered(0, 100), 100);
        assert_eq!(set.covered(49_980, 50_000), 2);
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
            prop_assert!(set.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
