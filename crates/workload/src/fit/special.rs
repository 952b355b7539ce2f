//! Tail probabilities of the limiting distributions of test statistics.

/// Returns P(Q > `chi_square`) with `degrees` degrees of freedom.
pub(super) fn chi_square_tail(chi_square: f64, degrees: u32) -> f64 {
    if chi_square <= 0.0 || degrees == 0 {
        return 1.0;
    }
    upper_gamma(f64::from(degrees) / 2.0, chi_square / 2.0)
}

/// Computes the regularised upper incomplete gamma function: by the series below the mode, by Lentz's continued
/// fraction above it (Press et al., "Numerical Recipes", section 6.2).
fn upper_gamma(a: f64, x: f64) -> f64 {
    const ENOUGH: f64 = 1e-16;
    let factor = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * ENOUGH {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (1.0 - factor * sum).max(0.0);
    }
    let tiny = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / tiny(b);
    let mut fraction = d;
    for n in 1..100_000u32 {
        let n = f64::from(n);
        let step = -n * (n - a);
        b += 2.0;
        d = 1.0 / tiny(step * d + b);
        c = tiny(b + step / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < ENOUGH * 4.0 {
            break;
        }
    }
    (factor * fraction).min(1.0)
}

/// Returns P(D > `distance`) for the Kolmogorov-Smirnov distance of `n` values, by the limiting distribution with M.
/// Stephens's correction for finite n (Journal of the Royal Statistical Society B 32, 1970).
pub(super) fn kolmogorov_tail(distance: f64, n: f64) -> f64 {
    let root = n.sqrt();
    let x = (root + 0.12 + 0.11 / root) * distance;
    // Below this distance the probability is 1 to 15 digits, but the series converges slowly.
    if x < 0.18 {
        return 1.0;
    }
    let term = |j: i32| {
        let j = f64::from(j);
        libm::exp(-2.0 * j * j * x * x)
    };
    let sum: f64 = (1..=40)
        .map(|j| if j % 2 == 1 { term(j) } else { -term(j) })
        .sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

/// Returns P(A2 > `a2`) for many values, accurate to about 2e-6: G. Marsaglia and J. Marsaglia, "Evaluating the
/// Anderson-Darling distribution", Journal of Statistical Software 9 (2004).
pub(super) fn anderson_darling_tail(a2: f64) -> f64 {
    let horner =
        |coefficients: &[f64], x: f64| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
    if a2 <= 0.0 {
        return 1.0;
    }
    let below = if a2 < 2.0 {
        const NEAR: [f64; 6] = [
            2.00012, 0.247105, -0.0649821, 0.0347962, -0.011672, 0.00168691,
        ];
        libm::exp(-1.2337141 / a2) / a2.sqrt() * horner(&NEAR, a2)
    } else {
        const FAR: [f64; 6] = [1.0776, -2.30695, 0.43424, -0.082433, 0.008056, -0.0003146];
        // The published fit is valid up to 32, where the tail is below 1e-13.
        libm::exp(-libm::exp(horner(&FAR, a2.min(32.0))))
    };
    (1.0 - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64, slack: f64) {
        assert!((value - wanted).abs() < slack, "{value}, not {wanted}");
    }

    #[test]
    fn tails_are_those_of_the_tables() {
        // Chi-square: upper 5 % and 0.1 % points for 1, 10 and 100 degrees of freedom.
        near(chi_square_tail(3.841458821, 1), 0.05, 1e-9);
        near(chi_square_tail(18.307038053, 10), 0.05, 1e-9);
        near(chi_square_tail(149.449252779, 100), 0.001, 1e-9);
        near(chi_square_tail(5.0, 10), 0.891178018914, 1e-9);
        assert_eq!(chi_square_tail(0.0, 3), 1.0);
        // Kolmogorov: 1.358 and 1.949 are the 5 % and 0.1 % points.
        near(kolmogorov_tail(1.3581 / 1e4, 1e8), 0.05, 1e-4);
        near(kolmogorov_tail(1.9495 / 1e4, 1e8), 0.001, 1e-5);
        assert_eq!(kolmogorov_tail(0.0, 100.0), 1.0);
        // Anderson-Darling, all parameters known: 2.492367 and 3.878125 are the 5 % and 1 % points.
        near(anderson_darling_tail(2.492367), 0.05, 1e-5);
        near(anderson_darling_tail(3.878125), 0.01, 1e-5);
        near(anderson_darling_tail(0.775), 0.5, 1e-3);
        assert!(anderson_darling_tail(1e6) < 1e-9);
    }
}
