//! Laws and draws compared with SciPy, if it is installed (`FATHOMETER_PYTHON`, else `python3`). Set `FATHOMETER_REQUIRE_SCIPY` to fail instead of
//! skipping when it is not.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "SciPy runs in a process"
)]

use std::io::Write;
use std::process::{Command, Stdio};

use fathometer_model::Seed;
use fathometer_workload::distribution::Law;

use super::LAWS;

/// Prints, for each law: its mean, its quantiles and probabilities at given points, and draws computed from
/// the formulas alone.
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
    let Some(answer) = python(SCRIPT) else { return };
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
            let theirs = theirs.next().expect("a number for everything asked");
            let near = (ours - theirs).abs() <= 1e-9 * theirs.abs();
            assert!(near, "{law}: {what}: {ours}, SciPy {theirs}");
        };
        same(law.mean().expect("these have means"), "mean");
        let quantiles = PROBABILITIES.map(|p| law.quantile(p));
        for x in quantiles {
            same(x, "quantile");
        }
        for x in quantiles {
            same(law.cdf(1.5 * x), "probability");
        }
        // Draws of the inverse Gaussian are a transformation of two numbers, and not the inverse of the
        // distribution.
        if !matches!(law, Law::InverseGaussian { .. }) {
            for n in 0..20 {
                same(law.sample(Seed(42), n), "draw");
            }
        }
    }
}

/// The output of Python; `None`, with a message on standard error, if it has no SciPy.
fn python(script: &str) -> Option<String> {
    let run = || {
        let mut child =
            Command::new(std::env::var_os("FATHOMETER_PYTHON").unwrap_or("python3".into()))
                .arg("-")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin.write_all(script.as_bytes())?;
        drop(stdin);
        child.wait_with_output()
    };
    let why = match run() {
        Ok(output) if output.status.success() => {
            return Some(String::from_utf8(output.stdout).expect("Python prints UTF-8"));
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let why = why.lines().last().unwrap_or_default();
    assert!(
        std::env::var_os("FATHOMETER_REQUIRE_SCIPY").is_none(),
        "no SciPy to compare with: {why}"
    );
    eprintln!("SKIPPED: no SciPy to compare with ({why}): pip install scipy");
    None
}
