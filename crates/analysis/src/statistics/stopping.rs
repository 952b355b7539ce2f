//! Planned looks: evaluation of verdicts before all replicates are measured (sequential analysis).
//!
//! If a run is evaluated after every replicate and stops when a 95 % interval decides, far more than 5 % of its
//! verdicts are wrong. So the looks are planned, and each look spends a part of the allowed error. The probability that
//! any interval misses the true value is at most the sum of the probabilities of all looks (Bonferroni). So the error
//! of the whole run stays within the allowed error, under any dependence of the looks.
//!
//! The error that each look spends follows the rule of O'Brien and Fleming as a spending function: little at early
//! looks, almost all at the last look (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical
//! trials", Biometrika 70, 1983). The boundaries of Lan and DeMets use the joint distribution of the looks and are less
//! strict. The boundaries here do not need the joint distribution, which has no simple form for Student's t with few
//! replicates.

use super::distributions::{normal_cdf, normal_quantile};

/// Planned looks at the verdicts, each after a number of replicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks {
    after: Vec<u32>,
}

impl Looks {
    /// Looks after 3, 5, 8, 12 … replicates. Each number is about 1.5 times the previous one, and the last is `most`.
    pub fn up_to(most: u32) -> Looks {
        let mut after = Vec::new();
        let mut next = 3;
        while next < most {
            after.push(next);
            next += (next / 2).max(2);
        }
        after.push(most.max(2));
        Looks { after }
    }

    /// Looks after these numbers of replicates, in ascending order.
    ///
    /// # Panics
    /// When the list is empty or not ascending.
    pub fn at(after: Vec<u32>) -> Looks {
        assert!(
            !after.is_empty() && after.is_sorted_by(|a, b| a < b),
            "{after:?}"
        );
        Looks { after }
    }

    /// The numbers of replicates after which the verdicts are evaluated, in ascending order.
    pub fn after(&self) -> &[u32] {
        &self.after
    }

    /// The level of the intervals at a look (counted from 0). With these levels, all looks together have the level
    /// `level`.
    ///
    /// # Panics
    /// When there is no such look.
    pub fn level(&self, look: usize, level: f64) -> f64 {
        let most = f64::from(self.after[self.after.len() - 1]);
        let spent = |replicates: u32| spent(f64::from(replicates) / most, 1.0 - level);
        let before = look
            .checked_sub(1)
            .map_or(0.0, |look| spent(self.after[look]));
        1.0 - (spent(self.after[look]) - before)
    }
}

/// The error that is spent until this share of the replicates is measured: 2 - 2 Phi(z / sqrt(share)).
fn spent(share: f64, error: f64) -> f64 {
    let quantile = normal_quantile(0.5 * error);
    2.0 * normal_cdf(quantile / share.sqrt())
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::super::{Intervals, Resolution};
    use super::*;

    #[test]
    fn the_levels_of_all_looks_add_up_to_the_whole() {
        let looks = Looks::up_to(36);
        assert_eq!(looks.after(), [3, 5, 7, 10, 15, 22, 33, 36]);
        let mut errors = (0..8).map(|look| 1.0 - looks.level(look, 0.95));
        assert!((errors.clone().sum::<f64>() - 0.05).abs() < 1e-9);
        assert!(errors.clone().next().unwrap() < 1e-6);
        assert!(errors.next_back().unwrap() < 0.05);
        assert_eq!(Looks::up_to(2).after(), [2]);
        assert!((Looks::up_to(2).level(0, 0.95) - 0.95).abs() < 1e-12);
    }

    #[test]
    fn stopping_at_the_first_decision_keeps_the_error_where_single_intervals_do_not() {
        // There is no difference, so a decision for either side is wrong.
        let draws = Seed(1983).stream("stopping");
        let looks = Looks::up_to(36);
        let trials = 1_500;
        let (mut planned, mut naive) = (0, 0);
        for trial in 0..trials {
            let draws = draws.child(trial);
            let sample: Vec<f64> = (0..36)
                .map(|i| (0..12).map(|k| draws.uniform(i * 12 + k)).sum::<f64>() - 6.0)
                .collect();
            let wrong = |level: &dyn Fn(usize) -> f64| {
                (0..looks.after().len()).any(|look| {
                    let seen = &sample[..looks.after()[look] as usize];
                    let all = Intervals { level: 0.0 };
                    let mean = all.mean(seen, Resolution::default()).unwrap();
                    mean.basis.unwrap().p_value(0.0) < 1.0 - level(look)
                })
            };
            planned += u32::from(wrong(&|look| looks.level(look, 0.95)));
            naive += u32::from(wrong(&|_| 0.95));
        }
        let share = |count: u32| f64::from(count) / trials as f64;
        assert!(share(planned) <= 0.06, "{}", share(planned));
        assert!(share(naive) > 0.1, "{}", share(naive));
    }
}
