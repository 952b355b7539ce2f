//! The centre of a sample with outliers.

/// The Hodges-Lehmann estimate: the median of the means of all pairs of values, including pairs of a value with itself
/// (J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34,
/// 1963). It tolerates up to 29 % of outliers. On normal data its variance is 1.05 times the variance of the mean; for
/// the median, this factor is 1.57. `None` if the sample is empty. Time and memory are quadratic in the size of the
/// sample.
pub fn pseudo_median(sample: &[f64]) -> Option<f64> {
    let of_pairs = |(place, first): (usize, &f64)| {
        let first = *first;
        let others = sample[place..].iter();
        others.map(move |second| 0.5 * (first + second))
    };
    let mut means: Vec<f64> = sample.iter().enumerate().flat_map(of_pairs).collect();
    means.sort_by(f64::total_cmp);
    let upper = *means.get(means.len() / 2)?;
    Some(match means.len() % 2 {
        0 => 0.5 * (means[means.len() / 2 - 1] + upper),
        _ => upper,
    })
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::super::distributions::normal_quantile;
    use super::*;

    #[test]
    fn it_is_the_median_of_the_means_of_pairs() {
        // The means of pairs are 1, 1.5, 2, 3, 3.5, 5. The expected value is from R: wilcox.test(c(1, 2, 5), conf.int =
        // TRUE).
        assert_eq!(pseudo_median(&[5.0, 1.0, 2.0]), Some(2.5));
        assert_eq!(pseudo_median(&[7.0]), Some(7.0));
        assert_eq!(pseudo_median(&[]), None);
    }

    #[test]
    fn outliers_do_not_carry_it_away() {
        let sample = [10.0, 10.2, 9.8, 10.1, 9.9, 1000.0, 1e6];
        assert!((pseudo_median(&sample).unwrap() - 10.0).abs() < 0.3);
    }

    #[test]
    fn it_varies_less_than_the_median() {
        let seed = Seed(1963);
        let (mut of_pairs, mut of_medians) = (0.0, 0.0);
        for sample in 0..2_000 {
            let draws = seed.child(sample);
            let unit = |place: u64| (draws.draw(place) >> 11) as f64 / (1u64 << 53) as f64;
            let mut values: Vec<f64> = (0..15)
                .map(|place| normal_quantile(unit(place).max(1e-12)))
                .collect();
            of_pairs += pseudo_median(&values).unwrap().powi(2);
            values.sort_by(f64::total_cmp);
            of_medians += values[7].powi(2);
        }
        let ratio = of_pairs / of_medians;
        assert!((0.6..0.8).contains(&ratio), "{ratio}");
    }
}
