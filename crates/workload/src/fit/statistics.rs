//! Test statistics: the distance between generated numbers and a law, and the probability of a distance this large by
//! chance.

use super::special;

/// The largest vertical distance between a law and the empirical distribution.
///
/// Values are given in ascending order, each with its count, P(X < x) and P(X <= x) of the law. These two probabilities
/// are equal for a continuous law. If they differ (whole numbers, caps), the p-value is too large, never too small.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KolmogorovSmirnov {
    /// The number of values.
    pub n: u64,
    /// The distance, from 0 to 1.
    pub distance: f64,
}

impl KolmogorovSmirnov {
    /// Computes the statistic of (count, P(X < x), P(X <= x)) for ascending x. If there are no values, the distance is
    /// 0.
    pub fn new(values: impl Iterator<Item = (u64, f64, f64)> + Clone) -> KolmogorovSmirnov {
        let n: u64 = values.clone().map(|(times, ..)| times).sum();
        let share = |count: u64| count as f64 / n as f64;
        let (mut count, mut distance) = (0, 0.0f64);
        for (times, below, at_most) in values {
            if times > 0 {
                distance = distance.max((share(count) - below).abs());
                count += times;
                distance = distance.max((share(count) - at_most).abs());
            }
        }
        KolmogorovSmirnov { n, distance }
    }

    /// Computes the statistic of single values in ascending order, for a continuous law.
    pub fn of_sorted(values: &[f64], cdf: impl Fn(f64) -> f64) -> KolmogorovSmirnov {
        debug_assert!(values.is_sorted());
        KolmogorovSmirnov::new(values.iter().map(|&x| {
            let probability = cdf(x);
            (1, probability, probability)
        }))
    }

    /// Returns the probability of a distance at least this large if the values are independent and follow the law.
    pub fn p_value(&self) -> f64 {
        match self.n {
            0 => 1.0,
            n => special::kolmogorov_tail(self.distance, n as f64),
        }
    }
}

/// Computes the Anderson-Darling statistic A2 of values in ascending order for a continuous law. A2 gives the tails
/// more weight than the Kolmogorov-Smirnov distance. It is infinite if a value is impossible under the law.
pub fn anderson_darling(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    debug_assert!(sorted.is_sorted());
    let n = sorted.len() as f64;
    let (mut sum, mut last) = (0.0, sorted.len());
    for (place, &x) in sorted.iter().enumerate() {
        last -= 1;
        let odd = (2 * place + 1) as f64;
        let mirrored = (2 * last + 1) as f64;
        let probability = cdf(x);
        sum += odd * libm::log(probability) + mirrored * libm::log1p(-probability);
    }
    -n - sum / n
}

/// Returns the probability of an A2 at least this large, for many values.
pub fn anderson_darling_p_value(a2: f64) -> f64 {
    special::anderson_darling_tail(a2)
}

/// Pearson's chi-square of counts against expected counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    /// The statistic.
    pub value: f64,
    /// The number of cells minus one.
    pub degrees: u32,
    /// The sum of (observed - expected) / expected: K of Pederson and Johnson.
    relative: f64,
    /// The total count.
    n: f64,
}

impl ChiSquare {
    /// Computes the statistic of (observed, expected) cells, in order. Adjacent cells are merged until each has an
    /// expected count of at least five, because the limiting distribution requires this.
    pub fn new(cells: impl IntoIterator<Item = (u64, f64)>) -> ChiSquare {
        let mut pooled: Vec<(f64, f64)> = Vec::new();
        for (observed, expected) in cells {
            match pooled.last_mut() {
                Some(last) if last.1 < 5.0 => {
                    last.0 += observed as f64;
                    last.1 += expected;
                }
                _ => pooled.push((observed as f64, expected)),
            }
        }
        if pooled.len() > 1 && pooled[pooled.len() - 1].1 < 5.0 {
            let rest = pooled.pop().expect("there are two");
            let last = pooled.last_mut().expect("there was another");
            last.0 += rest.0;
            last.1 += rest.1;
        }
        let relative = |&(observed, expected): &(f64, f64)| (observed - expected) / expected;
        ChiSquare {
            value: pooled
                .iter()
                .map(|cell| relative(cell) * (cell.0 - cell.1))
                .sum(),
            degrees: (pooled.len() as u32).saturating_sub(1),
            relative: pooled.iter().map(relative).sum(),
            n: pooled.iter().map(|cell| cell.0).sum(),
        }
    }

    /// Returns the probability of a value at least this large under the intended law.
    pub fn p_value(&self) -> f64 {
        special::chi_square_tail(self.value, self.degrees)
    }

    /// Returns the discrepancy lambda^2 of Pederson and Johnson, (chi^2 - K - degrees) / (n - 1). It measures the
    /// distance from a law, independently of the number of values, and is about 0 for the right law. The authors of
    /// SURGE selected their laws by this discrepancy. It has no p-value, so it is not a test.
    pub fn discrepancy(&self) -> f64 {
        (self.value - self.relative - f64::from(self.degrees)) / (self.n - 1.0)
    }
}

/// Computes Pederson and Johnson's lambda^2 of values against a law, over cells of equal probability.
pub fn discrepancy(probabilities: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = probabilities.len();
    // The number of cells follows the rule of thumb of Mann and Wald.
    let cells = (2.0 * libm::pow(n as f64, 0.4)).ceil().max(2.0) as usize;
    let mut observed = vec![0u64; cells];
    for probability in probabilities {
        observed[((probability * cells as f64) as usize).min(cells - 1)] += 1;
    }
    let expected = n as f64 / cells as f64;
    ChiSquare::new(observed.into_iter().map(|count| (count, expected))).discrepancy()
}

/// Computes the slope of log count against log rank by least squares: -1 for Zipf's law. `counts` are in descending
/// order; zeros are omitted. `None` if there are fewer than two counts.
pub fn zipf_slope(counts: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (rank, count) in (1u64..).zip(counts).take_while(|&(_, count)| count > 0) {
        let (rank, count) = (libm::log(rank as f64), libm::log(count as f64));
        n += 1.0;
        x += rank;
        y += count;
        xx += rank * rank;
        xy += rank * count;
    }
    (n > 1.0).then(|| (n * xy - x * y) / (n * xx - x * x))
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;

    fn draws(n: u64) -> Vec<f64> {
        let mut draws: Vec<f64> = (0..n).map(|n| Seed(5).uniform(n)).collect();
        draws.sort_by(f64::total_cmp);
        draws
    }

    #[test]
    fn distances_equal_those_computed_by_hand() {
        // Four values against the uniform law: the distance is largest just below 0.9.
        let distance = KolmogorovSmirnov::of_sorted(&[0.1, 0.2, 0.6, 0.9], |x| x);
        assert!((distance.distance - 0.3).abs() < 1e-12);
        // A law with two values, which the counts match exactly.
        let coin = [(50, 0.0, 0.5), (50, 0.5, 1.0)];
        let distance = KolmogorovSmirnov::new(coin.into_iter());
        assert_eq!((distance.n, distance.distance), (100, 0.0));
        assert_eq!(distance.p_value(), 1.0);
        let none = KolmogorovSmirnov::of_sorted(&[], |x| x);
        assert_eq!((none.distance, none.p_value()), (0.0, 1.0));
    }

    #[test]
    fn the_right_law_passes_and_a_slightly_wrong_one_does_not() {
        let draws = draws(10_000);
        let bent = |x: f64| libm::pow(x, 1.1);
        assert!(KolmogorovSmirnov::of_sorted(&draws, |x| x).p_value() > 0.01);
        assert!(KolmogorovSmirnov::of_sorted(&draws, bent).p_value() < 0.001);
        assert!(anderson_darling_p_value(anderson_darling(&draws, |x| x)) > 0.01);
        assert!(anderson_darling_p_value(anderson_darling(&draws, bent)) < 0.001);
        assert_eq!(
            anderson_darling(&draws, |x| (x - 0.5).max(0.0)),
            f64::INFINITY
        );
        assert!(discrepancy(draws.iter().copied()) < 0.003);
        assert!(discrepancy(draws.iter().map(|&x| libm::pow(x, 1.5))) > 0.05);
    }

    #[test]
    fn cells_are_pooled_until_five_are_expected() {
        let cells = [(3, 2.0), (4, 4.0), (20, 20.0), (2, 1.0), (1, 1.0)];
        let chi = ChiSquare::new(cells);
        // The merged cells are (7, 6) and (20 + 3, 20 + 2).
        assert_eq!(chi.degrees, 1);
        assert!((chi.value - (1.0 / 6.0 + 1.0 / 22.0)).abs() < 1e-12);
        assert!(
            (chi.discrepancy() - (chi.value - 1.0 / 6.0 - 1.0 / 22.0 - 1.0) / 29.0).abs() < 1e-12
        );
        assert_eq!(ChiSquare::new([(3, 3.0)]).p_value(), 1.0);
    }

    #[test]
    fn zipfs_law_has_slope_minus_one() {
        let slope = zipf_slope((1..=1000u64).map(|rank| 1_000_000_000 / rank)).unwrap();
        assert!((slope + 1.0).abs() < 1e-6);
        assert_eq!(zipf_slope([5, 0].into_iter()), None);
    }
}
