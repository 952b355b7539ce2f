//! The normal distribution and Student's t distribution, as far as bootstrap intervals need them.
//!
//! Sums and fractions are from Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), chapter 26.
//! Every term is positive, so no digits cancel. Quantiles are found by bisection: they are needed a few times
//! per interval, never in a loop over resamples.

use std::f64::consts::{PI, SQRT_2};

/// The probability that a standard normal variable is at most `x`.
///
/// The middle uses the series 26.2.11, and the tails use the continued fraction 26.2.14, so that small
/// probabilities keep their relative accuracy.
pub fn normal_cdf(x: f64) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    if x > 0.0 {
        return 1.0 - normal_cdf(-x);
    }
    let z = -x;
    let density = (-0.5 * z * z).exp() / (SQRT_2 * PI.sqrt());
    if z < 3.0 {
        let mut term = z;
        let mut sum = z;
        let mut odd = 1.0;
        while term > sum * 1e-18 {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        // Evaluated from the inside out; at z >= 3 this depth is beyond double precision.
        let fraction = (1..=120).rev().fold(z, |inner, k| z + f64::from(k) / inner);
        density / fraction
    }
}

/// The value that a standard normal variable stays below with probability `p`; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    bisect(-40.0, 0.0, |x| normal_cdf(x) < p)
}

/// The probability that a variable of Student's t distribution with `freedom` degrees of freedom is
/// at most `t`, by the finite sums 26.7.3 and 26.7.4.
///
/// # Panics
/// When `freedom` is zero.
pub fn student_t_cdf(t: f64, freedom: u32) -> f64 {
    assert!(
        freedom > 0,
        "Student's t has at least one degree of freedom"
    );
    let angle = (t.abs() / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let within = if freedom == 1 {
        2.0 * angle / PI
    } else {
        let odd = freedom % 2 == 1;
        let mut term = if odd { cosine } else { 1.0 };
        let mut sum = term;
        let mut k = if odd { 2 } else { 1 };
        while k + 1 < freedom - u32::from(odd) {
            // Odd: 2/3, 4/5, …; even: 1/2, 3/4, …, each with two more powers of the cosine.
            term *= f64::from(k) / f64::from(k + 1) * cosine * cosine;
            sum += term;
            k += 2;
        }
        if odd {
            2.0 / PI * (angle + sine * sum)
        } else {
            sine * sum
        }
    };
    if t < 0.0 {
        0.5 * (1.0 - within)
    } else {
        0.5 * (1.0 + within)
    }
}

/// The value that a variable of Student's t distribution stays below with probability `p`, for
/// 1e-6 < p < 1 - 1e-6.
pub fn student_t_quantile(p: f64, freedom: u32) -> f64 {
    bisect(-1e7, 1e7, |t| student_t_cdf(t, freedom) < p)
}

fn bisect(mut low: f64, mut high: f64, is_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
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

    // SciPy 1.17.1: scipy.stats.norm and scipy.stats.t.
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

    #[test]
    fn students_t_is_scipys() {
        close(student_t_quantile(0.975, 1), 12.706_204_736_174_694);
        close(student_t_quantile(0.975, 2), 4.302_652_729_749_462);
        close(student_t_quantile(0.975, 3), 3.182_446_305_283_707_8);
        close(student_t_quantile(0.975, 4), 2.776_445_105_197_793);
        close(student_t_quantile(0.025, 9), -2.262_157_162_798_205);
        close(student_t_cdf(-1.3, 7), 0.117_383_917_696_188_62);
    }
}
