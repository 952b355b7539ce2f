//! Records the lateness of deliveries in a histogram of constant size.
//!
//! Each power of two has 32 linear buckets. So the relative error of a quantile is at most 1/32. The maximum is exact.

/// The number of linear buckets per power of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (65 - STEP_BITS as usize) * STEPS as usize;

/// A histogram of nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    maximum: u64,
}

impl Lateness {
    pub(super) fn new() -> Lateness {
        Lateness {
            buckets: vec![0; BUCKETS],
            count: 0,
            maximum: 0,
        }
    }

    pub(super) fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.maximum = self.maximum.max(nanos);
    }

    /// Returns the upper bound of the bucket that contains this quantile; 0 without deliveries.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(place).min(self.maximum);
            }
        }
        0
    }

    pub(super) fn maximum(&self) -> u64 {
        self.maximum
    }
}

fn bucket(nanos: u64) -> usize {
    let octave = (nanos | (STEPS - 1)).ilog2() + 1 - STEP_BITS;
    let within = nanos >> octave.saturating_sub(1);
    if octave == 0 {
        nanos as usize
    } else {
        (u64::from(octave) * STEPS + (within & (STEPS - 1))) as usize
    }
}

fn upper_bound(place: usize) -> u64 {
    let (octave, within) = (place as u64 / STEPS, place as u64 % STEPS);
    if octave == 0 {
        within
    } else {
        let width = octave - 1;
        (((STEPS + within) as u128 + 1) << width).saturating_sub(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_values_in_order_and_finely() {
        let mut values: Vec<u64> = (0..2000).collect();
        values.extend((0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + power / 3]
        }));
        values.push(u64::MAX);
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) <= bucket(pair[1]), "{pair:?}");
        }
        for value in values {
            let place = bucket(value);
            assert!(place < BUCKETS, "{value}");
            let upper = upper_bound(place);
            assert!(
                upper >= value,
                "{value} ns exceeds its bucket's upper bound {upper} ns"
            );
            assert!(
                upper - value <= value / STEPS,
                "{value} ns: the upper bound {upper} ns of its bucket is too large"
            );
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut lateness = Lateness::new();
        assert_eq!((lateness.quantile(0.5), lateness.maximum()), (0, 0));
        for value in 1..=10_000 {
            lateness.record(value * 10);
        }
        assert_eq!(lateness.maximum(), 100_000);
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = lateness.quantile(share) as f64;
            assert!(
                (exact..=exact * 33.0 / 32.0).contains(&found),
                "{share}: {found}"
            );
        }
    }
}
