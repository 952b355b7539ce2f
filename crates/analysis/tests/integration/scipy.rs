//! The bootstrap compared with SciPy's, if SciPy is installed. Set `FATHOMETER_REQUIRE_SCIPY` to fail rather
//! than skip without it.

#![expect(clippy::disallowed_types, reason = "SciPy runs in a process")]

use std::process::Command;

use fathometer_analysis::statistics::{Bootstrap, IntervalMethod, Sides};
use fathometer_model::Seed;

const SCRIPT: &str = r"
import json, sys
import numpy as np
from scipy.stats import bootstrap, norm, t

samples = json.loads(sys.argv[1])
mean = lambda a, axis=-1: np.mean(a, axis=axis)
ratio = lambda a, b, axis=-1: np.mean(a, axis=axis) / np.mean(b, axis=axis)
difference = lambda a, b, axis=-1: np.mean(a, axis=axis) - np.mean(b, axis=axis)
answers = []
for left, right in samples:
    left, right = np.array(left), np.array(right)
    n = min(len(left), len(right))
    cases = [((left,), mean, False, len(left))]
    for paired in ([False, True] if len(left) == len(right) else [False]):
        cases.append(((left, right), ratio, paired, n))
        cases.append(((left, right), difference, paired, n))
    for data, statistic, paired, n in cases:
        for method in ['percentile', 'BCa']:
            result = bootstrap(data, statistic, paired=paired, method=method, vectorized=True,
                               n_resamples=100000, batch=10000, rng=np.random.default_rng(7))
            interval = result.confidence_interval
            answers.append([interval.low, interval.high])
            if method == 'percentile':
                tail = norm.cdf(np.sqrt(n / (n - 1)) * t.ppf(0.025, n - 1))
                answers.append(list(np.quantile(result.bootstrap_distribution, [tail, 1 - tail])))
print(json.dumps(answers))
";

/// Samples without ties, so that the resampled statistics take many values and their quantiles are smooth.
fn samples() -> Vec<(Vec<f64>, Vec<f64>)> {
    let draws = Seed(11).stream("scipy");
    let sample = |first: u64, n: u64, scale: f64| -> Vec<f64> {
        (first..first + n)
            .map(|i| scale * (1.0 + draws.uniform(i) + draws.uniform(i + 1000).powi(3)))
            .collect()
    };
    vec![
        (sample(0, 10, 3.0), sample(20, 10, 2.0)),
        (sample(40, 14, 1.0), sample(60, 9, 5.0)),
        (sample(80, 25, 40.0), sample(120, 25, 30.0)),
    ]
}

#[test]
fn intervals_are_scipys() {
    let samples = samples();
    let argument = serde_json::to_string(&samples).unwrap();
    let output = Command::new("python3")
        .args(["-c", SCRIPT, &argument])
        .output();
    let answer = match output {
        Ok(output) if output.status.success() => output.stdout,
        other => {
            let why = other.map_or_else(
                |error| error.to_string(),
                |output| String::from_utf8_lossy(&output.stderr).into_owned(),
            );
            let why = why.lines().last().unwrap_or_default().to_owned();
            assert!(
                std::env::var_os("FATHOMETER_REQUIRE_SCIPY").is_none(),
                "no SciPy to compare with: {why}"
            );
            eprintln!("SKIPPED: no SciPy to compare with ({why}): pip install scipy");
            return;
        }
    };
    let mut answers: std::vec::IntoIter<[f64; 2]> = serde_json::from_slice::<Vec<_>>(&answer)
        .unwrap()
        .into_iter();
    for (left, right) in &samples {
        let pairings: &[Sides] = match left.len() == right.len() {
            true => &[Sides::Independent, Sides::Paired],
            false => &[Sides::Independent],
        };
        let methods = [
            IntervalMethod::Percentile,
            IntervalMethod::ExpandedPercentile,
            IntervalMethod::Bca,
        ];
        let mut check = |what: &str, estimate: &dyn Fn(&Bootstrap) -> _| {
            for method in methods {
                let bootstrap = Bootstrap {
                    resamples: 100_000,
                    method,
                    ..Bootstrap::new(Seed(3))
                };
                let ours: fathometer_analysis::statistics::Estimate =
                    Option::unwrap(estimate(&bootstrap));
                let ours = ours.interval.unwrap();
                let [low, high] = answers.next().expect("SciPy answers every case");
                // Quantiles of 100 000 resamples have noise, most in the tails of the expanded interval.
                let slack = 0.03 * (high - low);
                assert!(
                    (ours.low - low).abs() < slack && (ours.high - high).abs() < slack,
                    "{what}, n = {}, {method:?}: {ours:?}, SciPy [{low}, {high}]",
                    left.len(),
                );
            }
        };
        check("mean", &|bootstrap| bootstrap.mean(left));
        for sides in pairings {
            check("ratio", &|bootstrap| bootstrap.ratio(left, right, *sides));
            check("difference", &|bootstrap| {
                bootstrap.difference(left, right, *sides)
            });
        }
    }
    assert!(answers.next().is_none());
}
