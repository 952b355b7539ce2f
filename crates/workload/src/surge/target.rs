//! The target of the realised stack distances: the published law, or the original program's output.

use crate::distribution::Law;

use super::parameters::LocalitySetting;
use super::stack_distances::StackDistances;

/// Known points of the stack distances in the original program's output, with 5000 files in 3100 pages and 452 279
/// requests. A point has a number of pages, and the share of distances below this number. The quartiles are 7, 38 and
/// 226; 4.6 % of the distances are 0. LRU caches of 100 and 1000 pages miss 36.8 % and 7.7 % of the requests, including
/// the first requests of pages (1.1 %).
const ORIGINAL: [(f64, f64); 7] = [
    (1.0, 0.046),
    (8.0, 0.25),
    (39.0, 0.50),
    (100.0, 0.639),
    (227.0, 0.75),
    (1000.0, 0.933),
    (3100.0, 1.0),
];

/// The target distribution of realised distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    setting: LocalitySetting,
    law: Law,
    /// Upper bound of the distances.
    reach: f64,
}

/// The deviation of distances from their target in both directions, as one-sided Kolmogorov-Smirnov distances.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Signed {
    /// The deviation towards shorter distances: the hit ratio of caches is larger than with the target.
    pub(super) shorter: f64,
    /// The deviation towards longer distances.
    pub(super) longer: f64,
}

impl Signed {
    /// Returns the larger of the two deviations.
    pub(super) fn size(self) -> f64 {
        self.shorter.max(self.longer)
    }

    /// Returns the larger of the two deviations; the sign is positive if distances are too short.
    pub(super) fn value(self) -> f64 {
        match self.shorter >= self.longer {
            true => self.shorter,
            false => -self.longer,
        }
    }
}

impl Target {
    /// Creates the target of distances below `reach`.
    pub(super) fn new(setting: LocalitySetting, law: Law, reach: f64) -> Target {
        Target {
            setting,
            law,
            reach,
        }
    }

    /// Returns the share of distances below `x`.
    fn below(&self, x: f64) -> f64 {
        let whole = |x: f64| match self.setting {
            LocalitySetting::Law => self.law.cdf(x),
            LocalitySetting::Original => original_below(x),
        };
        if x >= self.reach {
            return 1.0;
        }
        whole(x) / whole(self.reach)
    }

    /// Returns the smallest distance that at least the share `p` of all distances does not exceed.
    pub(super) fn quantile(&self, p: f64) -> f64 {
        let (mut low, mut high) = (0u64, self.reach as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.below(middle as f64 + 1.0) >= p {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low as f64
    }

    /// Computes the deviation of distances from this target. For the published law it is over all distances; for the
    /// original program's output it is at the known points.
    pub(super) fn distance(&self, distances: &StackDistances) -> Signed {
        let total = distances.total().max(1) as f64;
        let mut signed = Signed::default();
        let mut sum = 0;
        let mut known = ORIGINAL.iter().map(|&(x, _)| x as u64).peekable();
        for (next, &count) in (1u64..).zip(&distances.counts) {
            sum += count;
            if self.setting == LocalitySetting::Original && known.next_if_eq(&next).is_none() {
                continue;
            }
            let difference = sum as f64 / total - self.below(next as f64);
            signed.shorter = signed.shorter.max(difference);
            signed.longer = signed.longer.max(-difference);
        }
        signed
    }
}

/// Returns the share of the original program's distances below `x`, interpolated between the known points by the
/// logarithm of the distance.
fn original_below(x: f64) -> f64 {
    let after = ORIGINAL.iter().position(|&(place, _)| x < place);
    match after {
        None => 1.0,
        Some(0) => 0.0,
        Some(after) => {
            let [(low, below), (high, at_most)] = [ORIGINAL[after - 1], ORIGINAL[after]];
            let part = libm::log(x / low) / libm::log(high / low);
            below + part * (at_most - below)
        }
    }
}
