//! The normal distribution, Student's t, F and the binomial distribution, for intervals and counts.
//!
//! Numbers in parentheses are formulas of Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964). Quantiles
//! are computed by bisection, which is fast enough: an interval needs only a few quantiles.

use std::f64::consts::FRAC_1_SQRT_2;

use libm::lgamma;

/// The probability that a standard normal variable is at most `x`. The relative error is small even for small
/// probabilities.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The quantile of the standard normal distribution at probability `p`; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p == 0.5 {
        return 0.0;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    bisect(-40.0, 0.0, |x| normal_cdf(x) < p)
}

/// The probability that a variable of Student's t distribution with `freedom` degrees of freedom is at most `t`, by the
/// incomplete beta function (26.7.1). The degrees of freedom may be fractional, as in the approximation of Welch and
/// Satterthwaite.
///
/// # Panics
/// When `freedom` is not above zero.
pub fn student_t_cdf(t: f64, freedom: f64) -> f64 {
    assert!(freedom > 0.0, "the degrees of freedom must be above 0");
    if t.is_nan() {
        return f64::NAN;
    }
    let tail = 0.5 * incomplete_beta(0.5 * freedom, 0.5, t * t, freedom);
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// The quantile of Student's t distribution at probability `p`; infinite at 0 and 1.
pub fn student_t_quantile(p: f64, freedom: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p == 0.5 {
        return 0.0;
    }
    if p > 0.5 {
        return -student_t_quantile(1.0 - p, freedom);
    }
    let mut low = -1.0;
    while student_t_cdf(low, freedom) > p && low > -1e300 {
        low *= 4.0;
    }
    bisect(low, 0.0, |t| student_t_cdf(t, freedom) < p)
}

/// The probability that a variable of the F distribution with these degrees of freedom is above `ratio` (26.6.2).
///
/// # Panics
/// When a number of degrees of freedom is not above zero.
pub fn f_tail(ratio: f64, numerator: f64, denominator: f64) -> f64 {
    assert!(
        numerator > 0.0 && denominator > 0.0,
        "the degrees of freedom must be above 0"
    );
    if ratio.is_nan() {
        return f64::NAN;
    }
    let ratio = ratio.max(0.0);
    incomplete_beta(
        0.5 * denominator,
        0.5 * numerator,
        numerator * ratio,
        denominator,
    )
}

/// The probability that a binomial variable with `trials` trials is at least `least` (26.5.24).
pub fn binomial_tail(least: u64, trials: u64, probability: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if least > trials {
        return 0.0;
    }
    let others = (trials - least + 1) as f64;
    incomplete_beta(least as f64, others, 1.0 - probability, probability)
}

/// The smallest number that a binomial variable exceeds with a probability of at most `1 - covered`.
pub fn binomial_quantile(covered: f64, trials: u64, probability: f64) -> u64 {
    let is_enough = |most: &u64| binomial_tail(most + 1, trials, probability) <= 1.0 - covered;
    (0..trials).find(is_enough).unwrap_or(trials)
}

/// The regularised incomplete beta function at x = b / (b + a). The arguments are `a` and `b`, so that neither x
/// nor `1 - x` loses digits. The continued fraction is 8.17.22 of the NIST Digital Library of Mathematical Functions,
/// evaluated by the method of Lentz.
fn incomplete_beta(p: f64, q: f64, a: f64, b: f64) -> f64 {
    let (x, y) = (b / (a + b), a / (a + b));
    if y <= 0.0 {
        return 1.0;
    }
    if x <= 0.0 {
        return 0.0;
    }
    let front = (lgamma(p + q) - lgamma(p) - lgamma(q) + p * x.ln() + q * y.ln()).exp();
    if x < (p + 1.0) / (p + q + 2.0) {
        front * beta_fraction(p, q, x) / p
    } else {
        1.0 - front * beta_fraction(q, p, y) / q
    }
}

fn beta_fraction(p: f64, q: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guarded = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guarded(1.0 - (p + q) * x / (p + 1.0));
    let mut fraction = d;
    for step in 1..2_000 {
        let m = f64::from(step);
        let even = m * (q - m) * x / ((p + 2.0 * m - 1.0) * (p + 2.0 * m));
        let odd = -(p + m) * (p + q + m) * x / ((p + 2.0 * m) * (p + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / guarded(1.0 + term * d);
            c = guarded(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-16 * fraction.abs() {
            break;
        }
    }
    fraction
}

fn bisect(mut low: f64, mut high: f64, is_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle == low || middle == high {
            break;
        }
        if is_low(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ours: f64, theirs: f64) {
        let error = ((ours - theirs) / theirs).abs();
        assert!(error < 1e-9, "{ours} against {theirs}");
    }

    // Expected values from SciPy 1.17.1: scipy.stats.norm and scipy.stats.t.
    #[test]
    fn the_normal_distribution_is_scipys() {
        close(normal_cdf(-1.0), 0.158_655_253_931_457_07);
        close(normal_cdf(-2.999), 0.001_354_336_533_727_105_7);
        close(normal_cdf(-3.001), 0.001_345_472_825_084_965_3);
        close(normal_cdf(-17.97), 1.673_573_806_880_084_7e-72);
        close(normal_cdf(2.5), 0.993_790_334_674_223_8);
        close(normal_quantile(0.025), -1.959_963_984_540_054_5);
        close(normal_quantile(0.9), 1.281_551_565_544_600_4);
        assert_eq!(normal_cdf(0.0), 0.5);
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    }

    // Expected values from SciPy 1.17.1: scipy.stats.t.ppf(p, df) and scipy.stats.t.cdf(t, df).
    #[test]
    fn students_t_is_scipys() {
        close(student_t_quantile(0.975, 1.0), 12.706_204_736_174_694);
        close(student_t_quantile(0.975, 2.0), 4.302_652_729_749_462);
        close(student_t_quantile(0.975, 3.0), 3.182_446_305_283_707_8);
        close(student_t_quantile(0.975, 4.0), 2.776_445_105_197_793);
        close(student_t_quantile(0.025, 9.0), -2.262_157_162_798_205);
        close(student_t_cdf(-1.3, 7.0), 0.117_383_917_696_188_62);
        close(student_t_quantile(0.975, 1.37), 6.885_073_156_641_705);
        close(student_t_quantile(0.9995, 2.6), 16.847_996_972_107_59);
        close(student_t_quantile(0.975, 17.25), 2.107_488_737_428_334_4);
        close(student_t_quantile(0.99999, 1.0), 31_830.988_608_051_957);
        close(student_t_quantile(0.975, 400.5), 1.965_904_894_968_302_5);
        close(student_t_cdf(-0.001, 1.5), 0.499_659_265_113_359_9);
        close(student_t_cdf(-40.0, 3.3), 7.529_443_640_899_681e-6);
        close(student_t_cdf(2.0, 250.75), 0.976_710_568_208_296_8);
        close(student_t_cdf(-300.0, 1.0), 0.001_061_029_024_220_485_7);
        assert_eq!(student_t_cdf(0.0, 2.5), 0.5);
        assert_eq!(student_t_quantile(1.0, 2.5), f64::INFINITY);
    }

    #[test]
    fn the_binomial_distribution_is_the_sum_of_its_terms() {
        for (trials, probability) in [(1u64, 0.05), (12, 0.05), (40, 0.003), (300, 0.05)] {
            let mut term = (1.0f64 - probability).powi(trials as i32);
            let mut below = 0.0;
            for least in 0..=trials {
                let tail = binomial_tail(least, trials, probability);
                assert!((tail - (1.0 - below)).abs() < 1e-9, "{least} of {trials}");
                below += term;
                let more = (trials - least) as f64 / (least + 1) as f64;
                term *= more * probability / (1.0 - probability);
            }
            assert_eq!(binomial_tail(trials + 1, trials, probability), 0.0);
        }
        close(binomial_tail(3, 3, 0.5), 0.125);
    }

    #[test]
    fn chance_exceeds_the_binomial_quantile_rarely_and_no_smaller_number_would_do() {
        // In 12 trials, the probabilities of 0, 1 and 2 successes are 0.540, 0.341 and 0.099.
        assert_eq!(binomial_quantile(0.95, 12, 0.05), 2);
        assert_eq!(binomial_quantile(0.95, 1, 0.05), 0);
        assert_eq!(binomial_quantile(0.95, 0, 0.05), 0);
        for trials in [5, 60, 200] {
            let most = binomial_quantile(0.95, trials, 0.05);
            assert!(binomial_tail(most + 1, trials, 0.05) <= 0.05);
            assert!(binomial_tail(most, trials, 0.05) > 0.05);
        }
    }
}
