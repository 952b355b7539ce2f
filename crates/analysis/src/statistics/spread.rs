//! The standard error of a mean, from replicates of one machine or of several.
//!
//! # Several machines
//!
//! The machine is a random block: a verdict applies to all machines of this kind, and not only to the measured
//! machines. If the machines differ, replicates of one machine are not independent, and a t interval of all replicates
//! would miss the true value too often. If the machines agree, this t interval is valid and has more degrees of
//! freedom. A preliminary test decides (T. A. Bancroft, "Analysis and inference for incompletely specified models
//! involving the use of preliminary test(s) of significance", Biometrics 20, 1964, who recommends the level 0.25):
//!
//! - The test is an F test of the means of machines against the spread within machines, at the level 0.25.
//! - If it is not significant, the sample is all replicates.
//! - If it is significant, the sample is the machines' means. For k machines, their standard error has k - 1 degrees of
//!   freedom.
//!
//! With one replicate on each machine, both cases are the same. [`super::machine_coverage`] simulates the coverage.

use std::collections::BTreeMap;

use super::distributions::f_tail;
use super::{mean, standard_deviation};

/// The level of the preliminary test.
const PRELIMINARY: f64 = 0.25;

/// The error of the mean of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// The standard error.
    pub(super) error: f64,
    /// The degrees of freedom of the standard error.
    pub(super) freedom: f64,
    /// The number of machines, if the sample is the machines' means; `None` if the sample is the replicates.
    pub(super) machines: Option<usize>,
}

/// The error of the mean of a sample whose value i was measured on machine `machines[i]`; `None` with fewer than two
/// values. If `machines` is empty, the sample is the replicates.
pub(super) fn spread_of_sample(values: &[f64], machines: &[u32]) -> Option<Spread> {
    let deviation = standard_deviation(values)?;
    let of_machines = (machines.len() == values.len()).then(|| between_machines(values, machines));
    of_machines.flatten().or_else(|| {
        let variance = deviation * deviation / values.len() as f64;
        satterthwaite(&[(variance, values.len())])
    })
}

/// The standard error of a sum of independent means and its degrees of freedom, from the variance of each mean and the
/// number of its values: F. E. Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics
/// Bulletin 2 (1946).
pub(super) fn satterthwaite(variances: &[(f64, usize)]) -> Option<Spread> {
    let sum: f64 = variances.iter().map(|(variance, _)| variance).sum();
    let fewest = variances.iter().map(|(_, n)| n.saturating_sub(1)).min()?;
    if fewest == 0 {
        return None;
    }
    let below: f64 = variances
        .iter()
        .map(|(variance, n)| variance * variance / (n - 1) as f64)
        .sum();
    // The sum is zero if every variance is zero or its square underflows.
    let freedom = match below > 0.0 {
        true => sum * sum / below,
        false => fewest as f64,
    };
    Some(Spread {
        error: sum.sqrt(),
        freedom: freedom.max(fewest as f64),
        machines: None,
    })
}

/// The error from the means of machines; `None` if the machines do not differ, or if the samples cannot show whether
/// they differ.
fn between_machines(values: &[f64], machines: &[u32]) -> Option<Spread> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (value, machine) in values.iter().zip(machines) {
        groups.entry(*machine).or_default().push(*value);
    }
    let (n, k) = (values.len() as f64, groups.len() as f64);
    if groups.len() < 2 || groups.len() == values.len() {
        return None;
    }
    let centre = mean(values);
    let (mut between, mut within, mut squares) = (0.0, 0.0, 0.0);
    for group in groups.values() {
        let own = mean(group);
        let size = group.len() as f64;
        between += size * (own - centre).powi(2);
        within += group.iter().map(|value| (value - own).powi(2)).sum::<f64>();
        squares += size * size;
    }
    let (between, within) = (between / (k - 1.0), within / (n - k));
    let differs = match within > 0.0 {
        true => f_tail(between / within, k - 1.0, n - k) < PRELIMINARY,
        false => between > 0.0,
    };
    // Machines with more replicates have a larger weight in the mean than in the mean square.
    let unequal = (squares / n * (k - 1.0) / (n - squares / n)).max(1.0);
    differs.then(|| Spread {
        error: (between / n * unequal).sqrt(),
        freedom: k - 1.0,
        machines: Some(groups.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_machines_and_with_one_replicate_of_each_it_is_students() {
        let values = [4.0, 4.4, 4.1, 4.3];
        let plain = spread_of_sample(&values, &[]).unwrap();
        assert!((plain.freedom - 3.0).abs() < 1e-12);
        assert_eq!(spread_of_sample(&values, &[0, 1, 2, 3]), Some(plain));
        assert_eq!(spread_of_sample(&values, &[0, 0, 0, 0]), Some(plain));
        assert_eq!(spread_of_sample(&values[..1], &[0]), None);
    }

    // Expected values from SciPy 1.17.1: f_oneway([1.0, 1.1, 0.9], [1.05, 0.95, 1.02]).pvalue is 0.9214. For the other
    // groups it is 3.5e-4.
    #[test]
    fn machines_that_agree_are_one_sample_and_machines_that_differ_are_the_sample() {
        let machines = [0, 1, 0, 1, 0, 1];
        let alike = [1.0, 1.05, 1.1, 0.95, 0.9, 1.02];
        let spread = spread_of_sample(&alike, &machines).unwrap();
        assert!((spread.freedom - 5.0).abs() < 1e-12 && spread.machines.is_none());
        let apart = [1.0, 1.55, 1.1, 1.45, 0.9, 1.52];
        let spread = spread_of_sample(&apart, &machines).unwrap();
        assert_eq!((spread.freedom, spread.machines), (1.0, Some(2)));
        // The standard error of the mean of two machines, whose means are 1.0 and 1.506667.
        assert!((spread.error - 0.253_333_333).abs() < 1e-8, "{spread:?}");
    }

    #[test]
    fn counts_that_are_constant_on_each_machine_and_differ_are_not_certain() {
        let spread = spread_of_sample(&[10.0, 12.0, 10.0, 12.0], &[0, 1, 0, 1]).unwrap();
        assert_eq!((spread.error, spread.freedom), (1.0, 1.0));
        let equal = spread_of_sample(&[10.0; 4], &[0, 1, 0, 1]).unwrap();
        assert_eq!((equal.error, equal.freedom), (0.0, 3.0));
    }

    #[test]
    fn a_machine_with_more_replicates_never_makes_the_error_smaller() {
        let values = [1.0, 2.0, 1.0, 2.0, 1.0];
        let spread = spread_of_sample(&values, &[0, 1, 0, 1, 0]).unwrap();
        // The variance of the weighted mean of two machines is 13 / 25 of the variance between machines, which is their
        // sum of squares divided by 2.4.
        let between = 3.0 * 0.4f64.powi(2) + 2.0 * 0.6f64.powi(2);
        let exact = (between / 2.4 * 13.0 / 25.0).sqrt();
        assert!((spread.error - exact).abs() < 1e-12, "{spread:?} {exact}");
    }
}
