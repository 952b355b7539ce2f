//! The standard normal distribution.

/// Returns P(Z <= z).
pub fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the z with P(Z <= z) = `p`, to about 16 digits; infinite at 0 and 1.
///
/// M. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37 (1988).
pub fn quantile(p: f64) -> f64 {
    let centred = p - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.180625 - centred * centred;
        return centred * polynomial(&CENTRE_ABOVE, r) / polynomial(&CENTRE_BELOW, r);
    }
    let tail = if centred < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return f64::INFINITY.copysign(centred);
    }
    let r = (-libm::log(tail)).sqrt();
    let size = if r <= 5.0 {
        polynomial(&NEAR_ABOVE, r - 1.6) / polynomial(&NEAR_BELOW, r - 1.6)
    } else {
        polynomial(&FAR_ABOVE, r - 5.0) / polynomial(&FAR_BELOW, r - 5.0)
    };
    size.copysign(centred)
}

/// Computes exp(`exponent`) P(Z > z) for z >= 0, without an intermediate overflow.
pub(super) fn scaled_tail(exponent: f64, z: f64) -> f64 {
    if z < 5.0 {
        return libm::exp(exponent) * cdf(-z);
    }
    // Laplace's continued fraction for the ratio of the tail to the density.
    let mut denominator = z;
    for level in (1..=40).rev() {
        denominator = z + f64::from(level) / denominator;
    }
    let density = libm::exp(exponent - 0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
    density / denominator
}

/// Evaluates a polynomial by Horner's rule; the constant term comes first.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_854,
];
const NEAR_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    7.745_450_142_783_414e-4,
];
const NEAR_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_ABOVE: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BELOW: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_probabilities_are_each_others_inverse() {
        for p in [1e-300, 1e-20, 1e-9, 0.01, 0.075, 0.3, 0.5] {
            let z = quantile(p);
            assert!((cdf(z) / p - 1.0).abs() < 1e-12, "{p}: {z}");
            if p >= 1e-9 {
                assert!((quantile(1.0 - p) + z).abs() < 1e-6, "{p}");
            }
        }
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
        // Values from standard tables.
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-15);
    }

    #[test]
    fn the_scaled_tail_continues_smoothly_where_the_formula_changes() {
        let below = scaled_tail(3.0, 5.0 - 1e-12);
        assert!((scaled_tail(3.0, 5.0) / below - 1.0).abs() < 1e-9);
        assert!(scaled_tail(900.0, 42.0).is_finite());
    }
}
