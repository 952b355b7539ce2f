//! Corrections for several intervals and several verdicts.

/// The level of each of `count` intervals for which all intervals together have the coverage `level`, under any
/// dependence: O. J. Dunn, "Multiple comparisons among means", Journal of the American Statistical Association 56
/// (1961), after Bonferroni.
pub fn simultaneous_level(level: f64, count: usize) -> f64 {
    1.0 - (1.0 - level) / count.max(1) as f64
}

/// Decides which findings stand if the expected share of wrong findings among them may be at most `rate`, under any
/// dependence of the findings: Y. Benjamini and D. Yekutieli, "The control of the false discovery rate in multiple
/// testing under dependency", The Annals of Statistics 29 (2001). The result has the order of the p-values.
pub fn benjamini_yekutieli(p_values: &[f64], rate: f64) -> Vec<bool> {
    adjusted(p_values).into_iter().map(|p| p <= rate).collect()
}

/// The smallest false discovery rate at which each finding stands, in the order of the p-values.
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let harmonic: f64 = (1..=m).map(|i| 1.0 / i as f64).sum();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; m];
    let mut least: f64 = 1.0;
    for (rank, place) in order.into_iter().enumerate().rev() {
        least = least.min(p_values[place] * m as f64 * harmonic / (rank + 1) as f64);
        adjusted[place] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values from SciPy 1.17.1: scipy.stats.false_discovery_control(p_values, method='by').
    #[test]
    fn adjusted_p_values_are_scipys() {
        let p_values = [
            0.041, 0.008, 0.039, 0.001, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216,
        ];
        let scipys = [
            0.246_033_333_333_333_33,
            0.117_158_730_158_730_16,
            0.246_033_333_333_333_33,
            0.029_289_682_539_682_54,
            0.246_033_333_333_333_33,
            0.292_896_825_396_825_4,
            0.309_633_786_848_072_5,
            0.632_657_142_857_142_9,
            0.632_657_142_857_142_9,
            0.632_657_142_857_142_9,
        ];
        for (ours, theirs) in adjusted(&p_values).into_iter().zip(scipys) {
            assert!((ours - theirs).abs() < 1e-12, "{ours} against {theirs}");
        }
        let stands = benjamini_yekutieli(&p_values, 0.05);
        assert_eq!(stands.iter().filter(|stands| **stands).count(), 1);
        assert!(stands[3]);
        assert!(benjamini_yekutieli(&[], 0.05).is_empty());
    }

    #[test]
    fn each_of_several_intervals_is_wider() {
        assert_eq!(simultaneous_level(0.95, 1), 0.95);
        assert!((simultaneous_level(0.95, 5) - 0.99).abs() < 1e-12);
        assert_eq!(simultaneous_level(0.95, 0), 0.95);
    }
}
