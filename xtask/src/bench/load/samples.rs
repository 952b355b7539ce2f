//! Latencies that clients report, and their percentiles.

use std::collections::BTreeMap;

/// The percentiles that are compared.
pub(super) const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The number of samples by latency. All latencies of a map have the same unit.
pub(super) type Samples = BTreeMap<u64, u64>;

/// Returns the percentiles; each is the smallest sample that at least this share of the samples does not exceed.
pub(super) fn quantiles(samples: &Samples) -> Option<[f64; 4]> {
    let all: u64 = samples.values().sum();
    (all > 0).then(|| {
        QUANTILES.map(|quantile| {
            let wanted = ((quantile * all as f64).ceil() as u64).max(1);
            let mut below = 0;
            let at = samples.iter().find(|(_, count)| {
                below += **count;
                below >= wanted
            });
            at.map_or(0.0, |(&value, _)| value as f64)
        })
    })
}

/// Removes the samples that wrk added to its histogram, in microseconds. For each latency, wrk also counts the
/// latency minus multiples of `expected`, as long as the result is above `expected`.
pub(super) fn without_correction(corrected: &Samples, expected: u64) -> Samples {
    let mut measured = corrected.clone();
    if expected == 0 {
        return measured;
    }
    // Each latency only added smaller samples. In descending order, each count is therefore already the measured count
    // when the loop reaches it.
    let largest: Vec<u64> = measured
        .keys()
        .rev()
        .copied()
        .take_while(|&value| value >= 2 * expected)
        .collect();
    for value in largest {
        let count = measured.get(&value).copied().unwrap_or(0);
        let mut added = value - expected;
        while count > 0 && added > expected {
            if let Some(samples) = measured.get_mut(&added) {
                *samples = samples.saturating_sub(count);
            }
            added -= expected;
        }
    }
    measured.retain(|_, count| *count > 0);
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_wrk_adds_are_removed() {
        let measured: Samples = [(600, 900), (640, 80), (1300, 15), (1900, 3), (6000, 2)].into();
        let expected = 620;
        // Adds samples as `stats_correct` of wrk does.
        let mut corrected = measured.clone();
        for (&value, &count) in measured.range(2 * expected..) {
            let mut added = value - expected;
            while added > expected {
                *corrected.entry(added).or_default() += count;
                added -= expected;
            }
        }
        assert_eq!(corrected.values().sum::<u64>(), 1000 + 15 + 2 * 3 + 2 * 8);
        assert_eq!(without_correction(&corrected, expected), measured);
        assert_eq!(without_correction(&measured, 10_000), measured);
        assert_eq!(
            quantiles(&measured).unwrap(),
            [600.0, 600.0, 1300.0, 6000.0]
        );
        assert_eq!(quantiles(&Samples::new()), None);
    }
}
