//! The coverage of intervals from few replicates.
//!
//! No resample leaves the range of its sample. The range of n values misses the centre of a symmetric
//! distribution when all of them fall on one side, with probability 2^(1-n): half the time at n = 2. So an
//! interval of a nominal level covers at most 1 - 2^(1-n), whatever its method. From five replicates on it
//! covers somewhat less, because an expanded percentile lies within the range.

/// The largest coverage of an interval from 2, 3, 4, 5 or 6 replicates: up to 4 the bound, above that the
/// simulated coverage for the mean of a normal distribution. For a skewed distribution it is up to 6 points
/// lower.
const MOST: [f64; 5] = [0.5, 0.75, 0.87, 0.92, 0.93];

/// The share of intervals from `n` replicates that cover the true value, at a nominal `level`; `None` with
/// fewer than two replicates, which give no interval.
pub fn coverage(n: usize, level: f64) -> Option<f64> {
    let place = n.checked_sub(2)?;
    Some(MOST.get(place).map_or(level, |most| most.min(level)))
}

/// The coverage of several intervals in words, each given by its number of replicates: `95 %`, `about 50 %`,
/// `about 50 % to 95 %`. `None` when there is no interval.
pub fn coverage_text(replicates: impl IntoIterator<Item = usize>, level: f64) -> Option<String> {
    let covered = replicates.into_iter().filter_map(|n| coverage(n, level));
    let percents = covered.map(|share| (share * 100.0).round() as u32);
    let (least, most) = percents.fold((u32::MAX, 0), |(least, most), percent| {
        (least.min(percent), most.max(percent))
    });
    let nominal = (level * 100.0).round() as u32;
    match (least, most) {
        (u32::MAX, _) => None,
        (least, _) if least >= nominal => Some(format!("{nominal} %")),
        (least, most) if least == most => Some(format!("about {least} %")),
        (least, most) => Some(format!("about {least} % to {most} %")),
    }
}

/// The smallest number of replicates whose intervals cover the nominal level.
pub fn enough_replicates(level: f64) -> usize {
    (2..64)
        .find(|&n| coverage(n, level).is_some_and(|share| share >= level))
        .unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::super::{Bootstrap, Sides};
    use super::*;

    /// How often an interval of the mean, or of the difference of two paired samples, covers the truth.
    fn simulated(n: u64, paired: bool) -> f64 {
        let source = Seed(7).stream("coverage of few");
        let trials = 1_500;
        // A sum of twelve uniforms is nearly normal, with mean 6 and deviation 1.
        let value = |place: u64| {
            let first = place * 12;
            (first..first + 12).map(|m| source.uniform(m)).sum::<f64>()
        };
        let covered = (0..trials).filter(|trial| {
            let sample = |side: u64| -> Vec<f64> {
                (0..n)
                    .map(|place| value((trial * 2 + side) * n + place))
                    .collect()
            };
            let bootstrap = Bootstrap {
                resamples: 1_000,
                ..Bootstrap::new(source.child(*trial))
            };
            let (estimate, truth) = match paired {
                true => {
                    let estimate = bootstrap.difference(&sample(0), &sample(1), Sides::Paired);
                    (estimate, 0.0)
                }
                false => (bootstrap.mean(&sample(0)), 6.0),
            };
            estimate.unwrap().interval.unwrap().contains(truth)
        });
        covered.count() as f64 / trials as f64
    }

    #[test]
    fn what_is_claimed_is_what_intervals_cover() {
        for n in 2..=8 {
            let claimed = coverage(n, 0.95).unwrap();
            for paired in [false, true] {
                let found = simulated(n as u64, paired);
                let slack = 0.035;
                assert!(
                    (found - claimed).abs() < slack,
                    "n = {n}: claimed {claimed}, found {found}"
                );
            }
        }
    }

    #[test]
    fn coverage_in_words_is_never_above_the_level() {
        let text = |replicates: &[usize]| coverage_text(replicates.iter().copied(), 0.95);
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[0, 1]), None);
        assert_eq!(text(&[2, 1]).unwrap(), "about 50 %");
        assert_eq!(text(&[3]).unwrap(), "about 75 %");
        assert_eq!(text(&[4]).unwrap(), "about 87 %");
        assert_eq!(text(&[5]).unwrap(), "about 92 %");
        assert_eq!(text(&[7, 30]).unwrap(), "95 %");
        assert_eq!(text(&[2, 30]).unwrap(), "about 50 % to 95 %");
        assert_eq!(enough_replicates(0.95), 7);
        assert_eq!(enough_replicates(0.5), 2);
        assert_eq!(coverage(usize::MAX, 0.95), Some(0.95));
    }
}
