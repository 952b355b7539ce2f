//! Sparse counts as bits: the compact and exact form in which ranks send histograms.
//!
//! The number of entries comes first (16 bits). Each entry is a distance and a count minus one, both in Rice codes
//! (Rice, "Some practical universal noiseless coding techniques", JPL Publication 79-22, 1979): the quotient by 2^k in
//! unary, then the k low bits. The parameter k is computed from the previous values, as in JPEG-LS (ITU-T T.87, A.3),
//! so no code table is sent. Neighbouring buckets with similar counts take a few bits each. Numbers are written with
//! the lowest bit first.

use std::fmt;

/// Values with at least this quotient use an escape code: as many ones as this number, the length of the value in bits
/// (6 bits), and the value.
const LONGEST_UNARY: u32 = 20;

/// The largest k. A code without an escape must fit into one word of the reader.
const LARGEST_K: u32 = 32;

/// The number of empty buckets before a bucket, and the count of the bucket, which is above zero.
pub(super) type Entry = (u32, u64);

/// The error for bytes that are not packed counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackedError {
    /// The bytes end within an entry.
    Short,
    /// Bytes follow the last entry.
    Long,
    /// A number exceeds the range of its type.
    Range,
}

impl fmt::Display for PackedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PackedError::Short => "the counts end within an entry",
            PackedError::Long => "bytes follow the counts",
            PackedError::Range => "a count is too large",
        })
    }
}

/// Writes entries, at most 2^16 - 1 of them.
pub(super) fn pack(entries: &[Entry]) -> Vec<u8> {
    let mut bits = BitWriter::default();
    bits.put(entries.len() as u64, 16);
    let (mut distances, mut counts) = (Mean::default(), Mean::default());
    for &(distance, count) in entries {
        bits.put_rice(distance.into(), &mut distances);
        bits.put_rice(count.saturating_sub(1), &mut counts);
    }
    bits.finish()
}

/// Reads the output of [`pack`], and passes each entry to `take`, which may reject it. Allocates no memory.
pub(super) fn unpack<E>(bytes: &[u8], mut take: impl FnMut(Entry) -> Result<(), E>) -> Result<(), E>
where
    E: From<PackedError>,
{
    let mut bits = BitReader { bytes, at: 0 };
    let entries = bits.take(16)?;
    let (mut distances, mut counts) = (Mean::default(), Mean::default());
    for _ in 0..entries {
        let distance = bits.take_rice(&mut distances)?;
        let distance = u32::try_from(distance).map_err(|_| PackedError::Range)?;
        let count = bits.take_rice(&mut counts)?.checked_add(1);
        take((distance, count.ok_or(PackedError::Range)?))?;
    }
    if bits.at.div_ceil(8) != bytes.len() {
        return Err(PackedError::Long.into());
    }
    Ok(())
}

/// A running mean of recent values, in sixteenths.
#[derive(Default)]
struct Mean(u64);

impl Mean {
    /// The k with the shortest codes for a geometric distribution with this mean. It is the next power of two above the
    /// mean times ln 2, or 0 if that product is below one.
    fn k(&self) -> u32 {
        let scaled = self.0 * 11 / 256;
        (u64::BITS - scaled.leading_zeros()).min(LARGEST_K)
    }

    fn add(&mut self, value: u64) {
        self.0 = self.0 - self.0.div_ceil(16) + value.min(1 << LARGEST_K);
    }
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// The bits that do not yet fill a byte, and their number.
    word: u64,
    held: u32,
}

impl BitWriter {
    /// Writes the `length` low bits of a value. `length` is at most 56, and the other bits of the value must be zero.
    fn put(&mut self, value: u64, length: u32) {
        self.word |= value << self.held;
        self.held += length;
        while self.held >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.held -= 8;
        }
    }

    fn put_rice(&mut self, value: u64, mean: &mut Mean) {
        let k = mean.k();
        let quotient = value >> k;
        if quotient < LONGEST_UNARY.into() {
            let quotient = quotient as u32;
            self.put((1 << quotient) - 1, quotient + 1);
            self.put(value & ((1 << k) - 1), k);
        } else {
            let length = u64::BITS - value.leading_zeros();
            self.put((1 << LONGEST_UNARY) - 1, LONGEST_UNARY);
            self.put(u64::from(length) - 1, 6);
            self.put(value & 0xffff_ffff, length.min(32));
            self.put(value >> 32, length.saturating_sub(32));
        }
        mean.add(value);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.held > 0 {
            self.bytes.push(self.word as u8);
        }
        self.bytes
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// The position of the next bit.
    at: usize,
}

impl BitReader<'_> {
    /// Returns the next bits, at least 57. Bits after the end of the bytes are zero.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => {
                let mut chunk = [0; 8];
                chunk[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(chunk)
            }
        };
        word >> (self.at % 8)
    }

    fn skip(&mut self, length: u32) -> Result<(), PackedError> {
        self.at += length as usize;
        match self.at <= 8 * self.bytes.len() {
            true => Ok(()),
            false => Err(PackedError::Short),
        }
    }

    /// Reads `length` bits, at most 56.
    fn take(&mut self, length: u32) -> Result<u64, PackedError> {
        let value = self.peek() & ((1 << length) - 1);
        self.skip(length)?;
        Ok(value)
    }

    fn take_rice(&mut self, mean: &mut Mean) -> Result<u64, PackedError> {
        let (k, word) = (mean.k(), self.peek());
        let quotient = word.trailing_ones();
        let value = if quotient < LONGEST_UNARY {
            self.skip(quotient + 1 + k)?;
            let low = word >> (quotient + 1) & ((1 << k) - 1);
            u64::from(quotient) << k | low
        } else {
            self.skip(LONGEST_UNARY)?;
            let length = self.take(6)? as u32 + 1;
            let low = self.take(length.min(32))?;
            low | self.take(length.saturating_sub(32))? << 32
        };
        mean.add(value);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(bytes: &[u8]) -> Result<Vec<Entry>, PackedError> {
        let mut entries = Vec::new();
        unpack(bytes, |entry| {
            entries.push(entry);
            Ok::<(), PackedError>(())
        })?;
        Ok(entries)
    }

    /// Entries of all sizes, in an order that a running mean predicts poorly.
    fn entries(count: u64) -> Vec<Entry> {
        let seed = fathometer_model::Seed(7);
        (0..count)
            .map(|n| {
                let distance = seed.draw(4 * n) as u32 >> (seed.draw(4 * n + 1) % 32);
                let count = seed.draw(4 * n + 2) >> (seed.draw(4 * n + 3) % 64);
                (distance, count.max(1))
            })
            .collect()
    }

    #[test]
    fn packed_counts_of_all_sizes_are_read_as_they_were() {
        let mut all = entries(5000);
        all.extend([(0, 1), (u32::MAX, u64::MAX), (0, 1), (0, u64::MAX), (3, 2)]);
        for length in [0, 1, 2, 100, all.len()] {
            let packed = pack(&all[..length]);
            assert_eq!(unpacked(&packed).unwrap(), all[..length], "{length}");
        }
    }

    #[test]
    fn neighbouring_counts_alike_take_few_bits() {
        let dense: Vec<Entry> = (0..1000).map(|n| (0, 8 + n % 3)).collect();
        let bits = 8 * pack(&dense).len();
        assert!(bits < 6 * dense.len(), "{bits}");
        let ones: Vec<Entry> = (0..1000).map(|_| (0, 1)).collect();
        // 16 bits for the number of entries, then two bits for each entry.
        assert_eq!(pack(&ones).len(), 2 + 250);
    }

    #[test]
    fn bytes_that_are_cut_off_extended_or_arbitrary_are_refused_or_read_within_bounds() {
        let packed = pack(&entries(50));
        for length in 0..packed.len() {
            assert_eq!(unpacked(&packed[..length]), Err(PackedError::Short));
        }
        let longer = [&packed[..], &[0]].concat();
        assert_eq!(unpacked(&longer), Err(PackedError::Long));
        assert_eq!(unpacked(&[1]), Err(PackedError::Short));
        // A count of 2^64 or a distance of 2^32 is out of range.
        let beyond = |distance: u64, count: u64| {
            let (mut bits, mut mean) = (BitWriter::default(), Mean::default());
            bits.put(1, 16);
            bits.put_rice(distance, &mut mean);
            bits.put_rice(count, &mut Mean::default());
            bits.finish()
        };
        assert_eq!(unpacked(&beyond(0, u64::MAX)), Err(PackedError::Range));
        assert_eq!(unpacked(&beyond(1 << 32, 0)), Err(PackedError::Range));
        let seed = fathometer_model::Seed(9);
        for n in 0..2000 {
            let bytes: Vec<u8> = (0..n % 40)
                .map(|place| seed.child(n).draw(place) as u8)
                .collect();
            // Each entry takes at least two bits.
            if let Ok(entries) = unpacked(&bytes) {
                assert!(entries.len() <= 4 * bytes.len());
            }
        }
    }
}
