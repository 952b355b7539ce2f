//! Compares laws and random values with SciPy, if it is installed.

use fathometer_model::Seed;
use fathometer_workload::distribution::Law;

use super::LAWS;
use crate::python::python;

/// A script that prints, for each law, its mean, its quantiles and probabilities at given points, and random values
/// computed from the formulas.
const SCRIPT: &str = r"
import math, sys
from scipy import stats

LN10 = math.log(10)
LAWS = [
    stats.uniform(-1, 4),
    stats.expon(scale=7),
    stats.pareto(1.4, scale=1),
    stats.pareto(1.245, scale=2),
    stats.truncpareto(0.63, 1e6 / 75, scale=75),
    stats.truncpareto(1, 1e6 / 75, scale=75),
    stats.lognorm(1.339, scale=math.exp(7.881)),
    stats.lognorm(0.8 * LN10, scale=10 ** 1.5),
    stats.invgauss(3.86 / 6.08, scale=6.08),
    stats.invgauss(0.01 / 500, scale=500),
    stats.weibull_min(0.382, scale=1.46),
    stats.weibull_min(2, scale=3),
]
MASK = 2 ** 64 - 1
GOLDEN = 0x9e3779b97f4a7c15

def mix(z):
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb & MASK
    return z ^ (z >> 31)

def uniform(seed, counter):
    draw = mix((mix(seed) + (counter + 1) * GOLDEN) & MASK)
    return ((draw >> 12) + 0.5) / 2 ** 52

PROBABILITIES = [1e-9, 1e-3, 0.05, 0.3, 0.5, 0.8, 0.99, 0.9999]
for law in LAWS:
    quantiles = [law.ppf(p) for p in PROBABILITIES]
    probabilities = [law.cdf(1.5 * x) for x in quantiles]
    draws = [law.ppf(uniform(42, n)) for n in range(20)]
    print(*map(repr, map(float, [law.mean(), *quantiles, *probabilities, *draws])))
";

const PROBABILITIES: [f64; 8] = [1e-9, 1e-3, 0.05, 0.3, 0.5, 0.8, 0.99, 0.9999];

#[test]
fn laws_are_scipys() {
    let Some(answer) = python("scipy", SCRIPT, &[]) else {
        return;
    };
    let mut lines = answer.lines();
    // SciPy has no law with a cap.
    let shared = LAWS
        .into_iter()
        .filter(|law| !matches!(law, Law::CappedExponential { .. }));
    for law in shared {
        let mut theirs = lines
            .next()
            .expect("SciPy answers for every law")
            .split_whitespace()
            .map(|number| number.parse::<f64>().expect("SciPy prints numbers"));
        let mut same = |ours: f64, what: &str| {
            let theirs = theirs.next().expect("one number for each requested value");
            let near = (ours - theirs).abs() <= 1e-9 * theirs.abs();
            assert!(near, "{law}, {what}: {ours} here, {theirs} in SciPy");
        };
        same(law.mean().expect("these have means"), "mean");
        let quantiles = PROBABILITIES.map(|p| law.quantile(p));
        for x in quantiles {
            same(x, "quantile");
        }
        for x in quantiles {
            same(law.cdf(1.5 * x), "probability");
        }
        // Values of the inverse Gaussian are a transformation of two numbers, and not the inverse of the distribution
        // function.
        if !matches!(law, Law::InverseGaussian { .. }) {
            for n in 0..20 {
                same(law.sample(Seed(42), n), "draw");
            }
        }
    }
}
