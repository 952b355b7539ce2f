//! Intervals compared with SciPy's, if it is installed.

use fathometer_analysis::statistics::{Inference, Intervals, Resolution, Sides};
use fathometer_model::Seed;

use crate::python::python;

const SCRIPT: &str = r"
import json, sys
import numpy as np
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

samples = json.loads(sys.argv[1])
answers = []
for left, right in samples:
    left, right = np.array(left), np.array(right)
    for level in [0.9, 0.95, 0.999]:
        results = [(ttest_1samp(left, 0.0), False)]
        for test in [ttest_ind, ttest_rel] if len(left) == len(right) else [ttest_ind]:
            settings = {'equal_var': False} if test is ttest_ind else {}
            results.append((test(np.log(left), np.log(right), **settings), True))
            results.append((test(left, right, **settings), False))
        for result, is_of_logarithms in results:
            interval = result.confidence_interval(level)
            ends = [interval.low, interval.high]
            answers.append(list(np.exp(ends)) if is_of_logarithms else ends)
print(json.dumps([[float(end) for end in ends] for ends in answers]))
";

/// Returns pairs of samples of positive values, with equal and with different sizes.
fn samples() -> Vec<(Vec<f64>, Vec<f64>)> {
    let draws = Seed(11).stream("scipy");
    let sample = |first: u64, n: u64, scale: f64| -> Vec<f64> {
        (first..first + n)
            .map(|i| scale * (1.0 + draws.uniform(i) + draws.uniform(i + 1000).powi(3)))
            .collect()
    };
    vec![
        (sample(0, 2, 3.0), sample(20, 2, 2.0)),
        (sample(0, 10, 3.0), sample(20, 10, 2.0)),
        (sample(40, 14, 1.0), sample(60, 9, 5.0)),
        (sample(80, 25, 40.0), sample(120, 25, 30.0)),
    ]
}

#[test]
fn intervals_are_scipys() {
    let samples = samples();
    let argument = serde_json::to_string(&samples).unwrap();
    let Some(answer) = python("scipy", SCRIPT, &[&argument]) else {
        return;
    };
    let mut answers: std::vec::IntoIter<[f64; 2]> =
        serde_json::from_str::<Vec<_>>(&answer).unwrap().into_iter();
    for (left, right) in &samples {
        let pairings: &[Sides] = match left.len() == right.len() {
            true => &[Sides::Independent, Sides::Paired],
            false => &[Sides::Independent],
        };
        for level in [0.9, 0.95, 0.999] {
            let all = Intervals { level };
            let exact = Resolution::default();
            let mut check = |what: &str, inference: Option<Inference>| {
                let ours = inference.unwrap().estimate.interval.unwrap();
                let [low, high] = answers.next().expect("SciPy answers every case");
                let slack = 1e-6 * (high - low);
                assert!(
                    (ours.low - low).abs() < slack && (ours.high - high).abs() < slack,
                    "{what}, n = {} and {}, level {level}: {ours:?}, SciPy [{low}, {high}]",
                    left.len(),
                    right.len(),
                );
            };
            check("mean", all.mean(left, exact));
            for sides in pairings {
                check("ratio", all.ratio(left, right, *sides, exact));
                check("difference", all.difference(left, right, *sides, exact));
            }
        }
    }
    assert!(answers.next().is_none());
}
