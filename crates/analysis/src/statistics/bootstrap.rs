//! Bootstrap intervals for means, differences and ratios of means.
//!
//! B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993); for few replicates,
//! T. C. Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69
//! (2015).
//!
//! With n replicates no resample leaves the range of the sample. So, whatever the method, an interval from n
//! values covers the centre of a symmetric distribution with probability at most 1 - 2^(1-n): 50 % at n = 2,
//! 94 % at n = 5. Reports state n and the coverage ([`coverage`](super::coverage)).

use fathometer_model::Seed;
use serde::{Deserialize, Serialize};

use super::distributions::{normal_cdf, normal_quantile, student_t_quantile};
use super::{Estimate, Interval, LEVEL, Sides, mean, quantile_of_sorted};

/// How an interval is computed from the distribution of the resampled statistic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// Its quantiles at the nominal level (Efron and Tibshirani, chapter 13). Too short for few replicates: at
    /// n = 5 a nominal 95 % covers about 83 %.
    Percentile,
    /// Its quantiles further out, so that the interval of a mean is as wide as Student's (Hesterberg, section
    /// 4.1: "expanded percentile"). For two unpaired sides, the smaller n is used.
    #[default]
    ExpandedPercentile,
    /// Bias-corrected and accelerated (Efron and Tibshirani, section 14.3, with the acceleration of several
    /// samples as in SciPy's `bootstrap`). Better for skewed statistics, but for few replicates as short as the
    /// percentile interval.
    Bca,
}

/// The indices of a sample, for statistics that use the same resampled replicates of several metrics:
/// [`mean_at`] gives the mean of a metric at the drawn indices.
pub(crate) fn indices(size: usize) -> Vec<f64> {
    (0..size).map(|index| index as f64).collect()
}

/// The mean of the values at drawn [`indices`].
pub(crate) fn mean_at(values: &[f64], drawn: &[f64]) -> f64 {
    let drawn: Vec<f64> = drawn.iter().map(|index| values[*index as usize]).collect();
    mean(&drawn)
}

/// The settings of the resampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// The seed of all draws.
    pub seed: Seed,
    /// The number of resamples; at least 1.
    pub resamples: u32,
    /// The nominal level of the interval, as in 0.95.
    pub level: f64,
    /// How the interval is computed.
    pub method: IntervalMethod,
}

impl Bootstrap {
    /// 10 000 resamples, level 0.95, expanded percentiles.
    pub fn new(seed: Seed) -> Bootstrap {
        Bootstrap {
            seed,
            resamples: 10_000,
            level: LEVEL,
            method: IntervalMethod::default(),
        }
    }

    /// The mean of one sample; `None` when the sample is empty.
    pub fn mean(&self, sample: &[f64]) -> Option<Estimate> {
        self.estimate(&[sample], Sides::Independent, &|sides| mean(sides[0]))
    }

    /// The mean of `left` minus the mean of `right`; `None` when a side is empty.
    pub fn difference(&self, left: &[f64], right: &[f64], sides: Sides) -> Option<Estimate> {
        self.estimate(&[left, right], sides, &|sides| {
            mean(sides[0]) - mean(sides[1])
        })
    }

    /// The mean of `numerator` over the mean of `denominator`; `None` when a side is empty.
    pub fn ratio(&self, numerator: &[f64], denominator: &[f64], sides: Sides) -> Option<Estimate> {
        self.estimate(&[numerator, denominator], sides, &|sides| {
            mean(sides[0]) / mean(sides[1])
        })
    }

    /// Any statistic of one or more samples; `None` when a sample is empty.
    ///
    /// # Panics
    /// When the sides are paired and differ in length.
    pub fn estimate(
        &self,
        samples: &[&[f64]],
        sides: Sides,
        statistic: &dyn Fn(&[&[f64]]) -> f64,
    ) -> Option<Estimate> {
        let n = samples.iter().map(|sample| sample.len()).min()?;
        if n == 0 {
            return None;
        }
        let paired = sides == Sides::Paired && samples.len() > 1;
        assert!(
            !paired || samples.iter().all(|sample| sample.len() == n),
            "paired samples have the same length"
        );
        let value = statistic(samples);
        let interval = (n > 1 && value.is_finite())
            .then(|| self.interval(samples, n, paired, value, statistic))
            .flatten();
        Some(Estimate { n, value, interval })
    }

    fn interval(
        &self,
        samples: &[&[f64]],
        n: usize,
        paired: bool,
        value: f64,
        statistic: &dyn Fn(&[&[f64]]) -> f64,
    ) -> Option<Interval> {
        let constant = |sample: &&[f64]| sample.iter().all(|v| *v == sample[0]);
        if samples.iter().all(constant) {
            return Some(Interval {
                low: value,
                high: value,
            });
        }
        let mut resampled = self.resampled(samples, paired, statistic);
        if resampled.iter().any(|v| !v.is_finite()) {
            return None;
        }
        resampled.sort_by(f64::total_cmp);
        let tail = 0.5 * (1.0 - self.level);
        let (low, high) = match self.method {
            IntervalMethod::Percentile => (tail, 1.0 - tail),
            IntervalMethod::ExpandedPercentile => {
                let outer = expanded_tail(tail, n);
                (outer, 1.0 - outer)
            }
            IntervalMethod::Bca => {
                let acceleration = acceleration(samples, paired, statistic);
                bca_tails(&resampled, value, acceleration, tail)?
            }
        };
        Some(Interval {
            low: quantile_of_sorted(&resampled, low),
            high: quantile_of_sorted(&resampled, high),
        })
    }

    fn resampled(
        &self,
        samples: &[&[f64]],
        paired: bool,
        statistic: &dyn Fn(&[&[f64]]) -> f64,
    ) -> Vec<f64> {
        let streams: Vec<Seed> = (0..samples.len() as u64)
            .map(|side| {
                self.seed
                    .stream("bootstrap")
                    .child(if paired { 0 } else { side })
            })
            .collect();
        let mut drawn: Vec<Vec<f64>> = samples.iter().map(|s| vec![0.0; s.len()]).collect();
        (0..u64::from(self.resamples))
            .map(|resample| {
                for ((sample, draws), stream) in samples.iter().zip(&mut drawn).zip(&streams) {
                    let n = sample.len() as u64;
                    for (i, draw) in draws.iter_mut().enumerate() {
                        let bits = stream.draw(resample * n + i as u64);
                        // The high word of the product: an index below n, uniform to 1 in 2^64 / n.
                        let index = (u128::from(bits) * u128::from(n)) >> 64;
                        *draw = sample[index as usize];
                    }
                }
                let sides: Vec<&[f64]> = drawn.iter().map(Vec::as_slice).collect();
                statistic(&sides)
            })
            .collect()
    }
}

/// The tail probability at which the quantile of a bootstrap distribution lies as far out as Student's
/// quantile. The bootstrap's standard error is too small by the factor sqrt((n-1)/n), and its tails are those
/// of the normal distribution.
fn expanded_tail(tail: f64, n: usize) -> f64 {
    let n = n as f64;
    let student = student_t_quantile(tail, n - 1.0);
    normal_cdf((n / (n - 1.0)).sqrt() * student)
}

/// The two quantiles at which the sorted resamples are read for a bias-corrected and accelerated interval.
/// `None` when all resamples fall on one side of the value, because the bias then has no estimate.
fn bca_tails(resampled: &[f64], value: f64, acceleration: f64, tail: f64) -> Option<(f64, f64)> {
    // Resamples that hold the sample in another order differ from it only by rounding. With few replicates they
    // are a large part of all resamples, so they count as equal.
    let rounding = 1e-12
        * value
            .abs()
            .max(resampled[resampled.len() - 1] - resampled[0]);
    let below = resampled.partition_point(|v| *v < value - rounding);
    let not_above = resampled.partition_point(|v| *v <= value + rounding);
    let bias = normal_quantile((below + not_above) as f64 / (2 * resampled.len()) as f64);
    if !bias.is_finite() {
        return None;
    }
    let moved = |tail: f64| {
        let z = bias + normal_quantile(tail);
        normal_cdf(bias + z / (1.0 - acceleration * z))
    };
    Some((moved(tail), moved(1.0 - tail)))
}

/// The acceleration from the jackknife. Each side is weighted by its size. In paired sides, the jackknife
/// leaves out one pair at a time.
fn acceleration(samples: &[&[f64]], paired: bool, statistic: &dyn Fn(&[&[f64]]) -> f64) -> f64 {
    let without = |side: usize, index: usize| -> f64 {
        let kept: Vec<Vec<f64>> = samples
            .iter()
            .enumerate()
            .map(|(other, sample)| {
                let mut sample = sample.to_vec();
                if paired || other == side {
                    sample.remove(index);
                }
                sample
            })
            .collect();
        let sides: Vec<&[f64]> = kept.iter().map(Vec::as_slice).collect();
        statistic(&sides)
    };
    let families = if paired { 1 } else { samples.len() };
    let (mut cubes, mut squares) = (0.0, 0.0);
    for (side, sample) in samples.iter().enumerate().take(families) {
        let n = sample.len();
        let left_out: Vec<f64> = (0..n).map(|index| without(side, index)).collect();
        let centre = mean(&left_out);
        for value in left_out {
            let influence = (n - 1) as f64 * (centre - value) / n as f64;
            cubes += influence.powi(3);
            squares += influence.powi(2);
        }
    }
    if squares == 0.0 {
        return 0.0;
    }
    cubes / (6.0 * squares.powf(1.5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEFT: [f64; 5] = [6.64, 6.41, 6.93, 6.52, 6.70];
    const RIGHT: [f64; 5] = [4.17, 4.09, 4.31, 4.02, 4.22];
    const SKEWED: [f64; 8] = [1.0, 1.2, 0.9, 1.1, 3.9, 1.3, 0.8, 2.2];

    fn bootstrap(method: IntervalMethod) -> Bootstrap {
        Bootstrap {
            resamples: 100_000,
            method,
            ..Bootstrap::new(Seed(1997))
        }
    }

    fn close(estimate: Option<Estimate>, value: f64, low: f64, high: f64) {
        let estimate = estimate.unwrap();
        let interval = estimate.interval.unwrap();
        // The draws have noise. Besides, the resampled mean of five values takes discrete values, so a quantile
        // may fall on one of two neighbouring points.
        let slack = 0.03 * (high - low);
        assert!((estimate.value - value).abs() < 1e-9, "{estimate:?}");
        assert!((interval.low - low).abs() < slack, "{estimate:?}");
        assert!((interval.high - high).abs() < slack, "{estimate:?}");
    }

    #[test]
    fn intervals_are_scipys() {
        // SciPy 1.17.1, scipy.stats.bootstrap with 400 000 resamples. The expanded ones are NumPy quantiles of
        // its bootstrap distribution at norm.cdf(sqrt(n/(n-1)) * t.ppf(0.025, n-1)).
        use Sides::{Independent, Paired};
        let percentile = bootstrap(IntervalMethod::Percentile);
        close(percentile.mean(&LEFT), 6.64, 6.498, 6.802);
        close(percentile.mean(&SKEWED), 1.55, 1.0125, 2.3);
        let ratio = 1.595_386_833_253_243_7;
        close(
            percentile.ratio(&LEFT, &RIGHT, Independent),
            ratio,
            1.546_875,
            1.647_030,
        );
        close(
            percentile.ratio(&LEFT, &RIGHT, Paired),
            ratio,
            1.579_808,
            1.610_808,
        );
        close(
            percentile.difference(&LEFT, &RIGHT, Independent),
            2.478,
            2.306,
            2.66,
        );
        let bca = bootstrap(IntervalMethod::Bca);
        // From all 3125 resamples, enumerated in whole hundredths; SciPy's own 6.512 comes from rounding among
        // resamples that equal the mean.
        close(bca.mean(&LEFT), 6.64, 6.502, 6.826);
        close(bca.mean(&SKEWED), 1.55, 1.075, 2.6375);
        close(
            bca.ratio(&LEFT, &RIGHT, Independent),
            ratio,
            1.548_187,
            1.648_357,
        );
        close(
            bca.ratio(&LEFT, &RIGHT, Paired),
            ratio,
            1.579_655,
            1.610_178,
        );
        close(
            bca.ratio(&SKEWED, &RIGHT, Independent),
            0.372_417_107_160_019_2,
            0.260_292,
            0.636_659,
        );
        close(
            bca.difference(&LEFT, &RIGHT, Independent),
            2.478,
            2.314,
            2.672,
        );
        let expanded = bootstrap(IntervalMethod::ExpandedPercentile);
        close(expanded.mean(&LEFT), 6.64, 6.432, 6.884);
        close(expanded.mean(&SKEWED), 1.55, 0.95, 2.575);
        close(
            expanded.ratio(&LEFT, &RIGHT, Independent),
            ratio,
            1.522_599,
            1.675_503,
        );
    }

    #[test]
    fn expanded_intervals_cover_a_mean_where_plain_ones_do_not() {
        // Samples of five from a normal distribution (the sum of twelve uniforms), mean zero.
        let source = Seed(5).stream("coverage");
        let trials = 600;
        let covered = |method| {
            (0..trials)
                .filter(|trial| {
                    let sample: Vec<f64> = (0..5)
                        .map(|i| {
                            let first = (trial * 5 + i) * 12;
                            (first..first + 12).map(|n| source.uniform(n)).sum::<f64>() - 6.0
                        })
                        .collect();
                    let bootstrap = Bootstrap {
                        resamples: 2_000,
                        method,
                        ..Bootstrap::new(source.child(*trial))
                    };
                    let estimate = bootstrap.mean(&sample).unwrap();
                    estimate.interval.unwrap().contains(0.0)
                })
                .count() as f64
                / trials as f64
        };
        let plain = covered(IntervalMethod::Percentile);
        let expanded = covered(IntervalMethod::ExpandedPercentile);
        assert!((0.77..0.88).contains(&plain), "{plain}");
        assert!((0.90..0.97).contains(&expanded), "{expanded}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        let bootstrap = Bootstrap::new(Seed(1));
        assert_eq!(bootstrap.mean(&[]), None);
        let single = bootstrap.mean(&[4.2]).unwrap();
        assert_eq!((single.n, single.value, single.interval), (1, 4.2, None));
        // A denominator that can be resampled to zero gives no interval rather than a wrong one.
        let ratio = bootstrap.ratio(&[1.0, 2.0], &[0.0, 1.0], Sides::Independent);
        assert_eq!(ratio.unwrap().interval, None);
    }

    #[test]
    fn replicates_that_agree_give_a_point() {
        let estimate = Bootstrap::new(Seed(1)).mean(&[0.1; 5]).unwrap();
        assert_eq!(
            estimate.interval,
            Some(Interval {
                low: 0.1,
                high: 0.1
            })
        );
    }

    fn samples() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        (2usize..8).prop_flat_map(|n| {
            (
                prop::collection::vec(0.5f64..100.0, n),
                prop::collection::vec(0.5f64..100.0, n),
            )
        })
    }

    fn small(method: IntervalMethod) -> Bootstrap {
        Bootstrap {
            resamples: 400,
            method,
            ..Bootstrap::new(Seed(3))
        }
    }

    proptest! {
        #[test]
        fn an_interval_of_a_mean_stays_in_the_sample((sample, _) in samples()) {
            let estimate = small(IntervalMethod::ExpandedPercentile).mean(&sample).unwrap();
            let interval = estimate.interval.unwrap();
            let (low, high) = sample
                .iter()
                .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
            prop_assert!(low - 1e-9 <= interval.low);
            prop_assert!(interval.low <= interval.high);
            prop_assert!(interval.high <= high + 1e-9);
        }

        #[test]
        fn expanding_only_widens((left, right) in samples()) {
            let plain = small(IntervalMethod::Percentile).ratio(&left, &right, Sides::Paired);
            let wide = small(IntervalMethod::ExpandedPercentile).ratio(&left, &right, Sides::Paired);
            let (plain, wide) = (plain.unwrap().interval.unwrap(), wide.unwrap().interval.unwrap());
            prop_assert!(wide.low <= plain.low && plain.high <= wide.high);
        }

        #[test]
        fn swapping_paired_sides_mirrors_a_difference((left, right) in samples()) {
            let bootstrap = small(IntervalMethod::Percentile);
            let there = bootstrap.difference(&left, &right, Sides::Paired).unwrap();
            let back = bootstrap.difference(&right, &left, Sides::Paired).unwrap();
            let (there, back) = (there.interval.unwrap(), back.interval.unwrap());
            prop_assert!((there.low + back.high).abs() < 1e-9);
            prop_assert!((there.high + back.low).abs() < 1e-9);
        }

        #[test]
        fn what_pairs_share_cancels((sample, _) in samples(), shift in 1.0f64..10.0) {
            // The same noise on both sides: the paired difference is exact.
            let shifted: Vec<f64> = sample.iter().map(|v| v + shift).collect();
            let estimate = small(IntervalMethod::Percentile)
                .difference(&shifted, &sample, Sides::Paired)
                .unwrap();
            let interval = estimate.interval.unwrap();
            prop_assert!((interval.high - interval.low).abs() < 1e-9);
            prop_assert!((estimate.value - shift).abs() < 1e-9);
        }

        #[test]
        fn the_same_seed_gives_the_same_interval((left, right) in samples(), seed: u64) {
            let one = Bootstrap { resamples: 100, ..Bootstrap::new(Seed(seed)) };
            prop_assert_eq!(
                one.ratio(&left, &right, Sides::Independent),
                one.ratio(&left, &right, Sides::Independent)
            );
        }
    }
}
