//! Counts of whole numbers in HdrHistogram's buckets, with three significant digits.
//!
//! A load generator counts about ten numbers per exchange, so counting must be cheap: it takes a shift, an addition and
//! an index into a vector. A [`Histogram`] of the same numbers has the same counts, because its buckets are the same.
//! Below [`BUCKETS`], each number has its own bucket. Above, each octave has half as many buckets, which are twice as
//! wide as in the previous octave.

use std::fmt;

use hdrhistogram::Histogram;
use serde::de::{self, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::packed::{Entry, PackedError, pack, unpack};

/// Significant decimal digits of a counted number.
pub(super) const DIGITS: u8 = 3;

/// Number of buckets of width one, for the smallest numbers: the smallest power of two that is at least two times
/// 10^[`DIGITS`], as in HdrHistogram. It is two to the power of [`LOG_BUCKETS`].
const BUCKETS: u64 = 1 << LOG_BUCKETS;
const LOG_BUCKETS: u32 = 11;

/// Number of buckets in each octave.
const OCTAVE: usize = BUCKETS as usize / 2;

/// The count of each bucket.
#[derive(Debug, Clone, Default)]
pub(super) struct Buckets {
    /// The counts of whole octaves.
    counts: Vec<u64>,
    total: u64,
}

impl Buckets {
    /// Preallocates counts for numbers up to `most`. A larger number makes the vector grow.
    pub(super) fn with_room(most: u64) -> Buckets {
        Buckets {
            counts: vec![0; room_for(most)],
            total: 0,
        }
    }

    /// Resets all counts, but does not free the memory.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The sum of all counts.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts a number.
    #[inline]
    pub(super) fn count(&mut self, number: u64) {
        self.total += 1;
        match self.counts.get_mut(place_of(number)) {
            Some(count) => *count += 1,
            None => self.grow_and_count(number),
        }
    }

    #[cold]
    fn grow_and_count(&mut self, number: u64) {
        self.counts.resize(room_for(number), 0);
        self.counts[place_of(number)] += 1;
    }

    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Buckets) {
        let used = other.used();
        if self.counts.len() < used {
            self.counts.resize(used.next_multiple_of(OCTAVE), 0);
        }
        for (to, from) in self.counts.iter_mut().zip(&other.counts) {
            *to += from;
        }
        self.total += other.total;
    }

    /// Number of buckets up to and including the last non-empty bucket.
    fn used(&self) -> usize {
        let last = self.counts.iter().rposition(|&count| count > 0);
        last.map_or(0, |last| last + 1)
    }

    /// Whether the first non-empty bucket contains `least`, the last contains `greatest`, and `least` is not above
    /// `greatest`.
    pub(super) fn are_between(&self, least: u64, greatest: u64) -> bool {
        let first = self.counts.iter().position(|&count| count > 0);
        let last = self.used().checked_sub(1);
        let places = (Some(place_of(least)), Some(place_of(greatest)));
        least <= greatest && (first, last) == places
    }

    /// The largest number of the bucket in which the fraction `quantile` (0 to 1) of all counts is reached. For the
    /// fraction 0, it is the smallest number of the first non-empty bucket. Zero if nothing was counted.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let wanted = (quantile.min(1.0) * self.total as f64).ceil() as u64;
        let mut reached = 0;
        let place = self.counts.iter().position(|&count| {
            reached += count;
            reached >= wanted.max(1)
        });
        match place {
            None => 0,
            Some(place) if quantile == 0.0 => least_of(place),
            Some(place) => most_of(place),
        }
    }

    /// The sum of the counts from the bucket of `low` to the bucket of `high`.
    pub(super) fn between(&self, low: u64, high: u64) -> u64 {
        let end = self.counts.len().min(place_of(high) + 1);
        let counts = self.counts.get(place_of(low)..end).unwrap_or_default();
        counts.iter().sum()
    }

    /// The non-empty buckets, each as its largest number and its count.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts
            .filter(|&(_, count)| count > 0)
            .map(|(place, count)| (most_of(place), count))
    }

    /// Converts the counts to a histogram.
    pub(super) fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(DIGITS).expect("3 digits are allowed");
        histogram.auto(true);
        for (number, count) in self.recorded() {
            histogram
                .record_n(number, count)
                .expect("an automatic histogram grows to any value");
        }
        histogram
    }
}

/// Writes each non-empty bucket as the number of empty buckets before it, and its count. Binary formats receive packed
/// counts.
impl Serialize for Buckets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut next = 0;
        let counts = self.counts.iter().copied().enumerate();
        let counted: Vec<Entry> = counts
            .filter(|&(_, count)| count > 0)
            .map(|(place, count)| {
                let distance = (place - next) as u32;
                next = place + 1;
                (distance, count)
            })
            .collect();
        match serializer.is_human_readable() {
            true => counted.serialize(serializer),
            false => serializer.serialize_bytes(&pack(&counted)),
        }
    }
}

impl<'de> Deserialize<'de> for Buckets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Buckets, D::Error> {
        if !deserializer.is_human_readable() {
            return deserializer.deserialize_bytes(PackedBuckets);
        }
        let mut filling = Filling::default();
        for entry in Vec::<Entry>::deserialize(deserializer)? {
            filling.add(entry).map_err(D::Error::custom)?;
        }
        Ok(filling.buckets)
    }
}

/// Reads packed buckets.
struct PackedBuckets;

impl Visitor<'_> for PackedBuckets {
    type Value = Buckets;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("packed counts")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Buckets, E> {
        let mut filling = Filling::default();
        let filled = unpack(bytes, |entry| filling.add(entry));
        filled.map_err(E::custom)?;
        Ok(filling.buckets)
    }
}

/// The buckets of which a part was read.
#[derive(Default)]
struct Filling {
    buckets: Buckets,
    next: usize,
}

impl Filling {
    fn add(&mut self, (distance, count): Entry) -> Result<(), BucketsError> {
        let place = self.next.saturating_add(distance as usize);
        if place > place_of(u64::MAX) {
            return Err(BucketsError::Place);
        }
        if count == 0 {
            return Err(BucketsError::Empty);
        }
        let Buckets { counts, total } = &mut self.buckets;
        *total = total.checked_add(count).ok_or(BucketsError::Total)?;
        if counts.len() <= place {
            counts.resize((place + 1).next_multiple_of(OCTAVE), 0);
        }
        counts[place] = count;
        self.next = place + 1;
        Ok(())
    }
}

/// The error for counts that cannot be read.
enum BucketsError {
    Place,
    Empty,
    Total,
    Packed(PackedError),
}

impl From<PackedError> for BucketsError {
    fn from(error: PackedError) -> BucketsError {
        BucketsError::Packed(error)
    }
}

impl fmt::Display for BucketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BucketsError::Place => "a bucket index is out of range",
            BucketsError::Empty => "a bucket has no count",
            BucketsError::Total => "the sum of the counts overflows",
            BucketsError::Packed(error) => return error.fmt(f),
        })
    }
}

/// The index of a number's bucket.
#[inline]
fn place_of(number: u64) -> usize {
    let octave = (number | (BUCKETS - 1)).ilog2() + 1 - LOG_BUCKETS;
    octave as usize * OCTAVE + (number >> octave) as usize
}

/// The number of buckets from zero to the end of the octave of this number.
fn room_for(number: u64) -> usize {
    (place_of(number) + 1).next_multiple_of(OCTAVE)
}

/// The smallest number of a bucket.
fn least_of(place: usize) -> u64 {
    let octave = octave_of(place);
    ((place - octave as usize * OCTAVE) as u64) << octave
}

/// The largest number of a bucket.
fn most_of(place: usize) -> u64 {
    least_of(place) + ((1 << octave_of(place)) - 1)
}

/// The exponent of the power of two that is the width of a bucket.
fn octave_of(place: usize) -> u32 {
    (place / OCTAVE).saturating_sub(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers around each change of the bucket width, and other numbers.
    fn numbers() -> impl Iterator<Item = u64> {
        let edges = (0..63).flat_map(|power| {
            let edge = 1u64 << power;
            [edge - 1, edge, edge + 1, edge + edge / 3]
        });
        edges.chain([0, 999, 2047, 2048, 2049, 123_456_789, u64::MAX / 2])
    }

    #[test]
    fn buckets_are_those_of_a_histogram_of_three_digits() {
        let mut histogram = Histogram::<u64>::new(DIGITS).unwrap();
        histogram.auto(true);
        let mut buckets = Buckets::with_room(5);
        for number in numbers() {
            histogram.record(number).unwrap();
            buckets.count(number);
            let place = place_of(number);
            assert_eq!(least_of(place), histogram.lowest_equivalent(number));
            assert_eq!(most_of(place), histogram.highest_equivalent(number));
        }
        assert_eq!(buckets.histogram(), histogram);
        assert_eq!(buckets.total(), histogram.len());
        let recorded = histogram.iter_recorded();
        let recorded = recorded.map(|v| (v.value_iterated_to(), v.count_at_value()));
        assert!(buckets.recorded().eq(recorded));
        for per_mille in 0..=1000 {
            let quantile = f64::from(per_mille) / 1000.0;
            let expected = histogram.value_at_quantile(quantile);
            assert_eq!(buckets.quantile(quantile), expected, "{quantile}");
        }
        for low in numbers() {
            for high in numbers().filter(|&high| high >= low) {
                let expected = histogram.count_between(low, high);
                assert_eq!(buckets.between(low, high), expected, "{low} to {high}");
            }
        }
    }

    #[test]
    fn there_is_room_as_far_as_was_asked_and_more_when_it_is_needed() {
        let mut small = Buckets::with_room(1_000_000);
        let room = small.counts.len();
        for number in 0..=1_000_000 {
            small.count(number);
        }
        assert_eq!(small.counts.len(), room);
        let mut large = small.clone();
        large.count(u64::MAX);
        assert!(large.counts.len() > room);
        small.add(&large);
        assert_eq!(small.total(), 2_000_003);
        assert_eq!(small.quantile(1.0), u64::MAX);
        // Adding empty buckets allocates no memory.
        large.clear();
        large.count(7);
        let mut small = Buckets::with_room(1);
        small.add(&large);
        assert_eq!(small.counts.len(), OCTAVE);
        assert_eq!(small.between(8, u64::MAX), 0);
    }
}
