//! `cargo xtask bench predict`: predictions for seven servers, with the ordinary commands `fathometer study` and
//! `fathometer predict`. The studies measure light loads, and loads up to and past the knee. The model is fitted to
//! at most five loads: two numbers of users, and bursts whose mean load, with the pause after a burst, is at most
//! 60 % of the highest throughput. It predicts the loads above 60 %. All servers are judged together.
//!
//! If a run has bursts and batches, the same loads are predicted again with batches of exchanges instead of bursts. The
//! rate of batches is at most 60 % without a pause. Both predictions are judged, and both must meet the targets.
//!
//! A last study has the servers of almeida96, two of which were used to choose the model. The benchmark takes about
//! two and a half hours; nothing else may run on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use super::trace::{Scratch, build};

/// A study of `cargo xtask bench predict`.
struct Bench {
    /// The study's name in its runs.
    name: &'static str,
    study: &'static str,
    /// The options of `predict` that describe the servers of this study.
    more: &'static [&'static str],
    /// The numbers of users of the bursts, whose CPU time is fitted together with two light loads. Empty: all
    /// light loads are fitted.
    bursts: &'static [u32],
    /// Whether [`BARS`] apply: no server of the study was used to choose the model.
    is_judged: bool,
}

const STUDIES: [Bench; 4] = [
    Bench {
        name: "predict",
        study: "xtask/src/bench/predict/study.toml",
        more: &[],
        bursts: &[16, 32, 64],
        is_judged: true,
    },
    Bench {
        name: "predict-python",
        study: "xtask/src/bench/predict/python.toml",
        // Python computes in one thread at a time, and `socketserver.TCPServer.request_queue_size` is 5.
        more: &["--workers", "1", "--backlog", "5", "--timeout", "10s"],
        bursts: &[16, 24],
        is_judged: true,
    },
    Bench {
        name: "predict-workers",
        study: "xtask/src/bench/predict/workers.toml",
        more: &["--timeout", "500ms"],
        bursts: &[],
        is_judged: true,
    },
    Bench {
        name: "predict-almeida96",
        study: "xtask/src/bench/predict/almeida96.toml",
        more: &[],
        bursts: &[16, 32, 64],
        is_judged: false,
    },
];
const FIT_UP_TO: f64 = 0.6;

/// The maximum number of loads that are fitted, bursts and batches included.
const MOST_FITTED: usize = 5;

/// The maximum number of batch sizes that are fitted: the difference between two sizes shows the cost of further
/// exchanges.
const SIZES: usize = 2;

/// The limits on the errors of one figure, over all measured loads that were not fitted.
struct Bar {
    what: &'static str,
    key: &'static str,
    /// The largest median error.
    median: f64,
    /// The largest error of a single load.
    largest: f64,
    /// The least share of measured means within their 90 % prediction interval.
    within: f64,
}

const BARS: [Bar; 3] = [
    Bar {
        what: "throughput",
        key: "throughput_compared",
        median: 0.03,
        largest: 0.06,
        within: 0.0,
    },
    Bar {
        what: "mean latency",
        key: "mean_compared",
        median: 0.09,
        largest: f64::INFINITY,
        within: 0.0,
    },
    Bar {
        what: "p99",
        key: "tail_compared",
        median: f64::INFINITY,
        largest: f64::INFINITY,
        within: 0.9,
    },
];

/// Errors of one figure.
#[derive(Debug, PartialEq)]
struct Errors {
    median: f64,
    largest: f64,
    within: f64,
    count: usize,
}

/// Outputs of `fathometer predict`, and whether any fitted batch or burst is not a light load.
#[derive(Default)]
struct Predicted {
    outputs: Vec<Value>,
    has_overload: bool,
}

impl Predicted {
    fn append(&mut self, mut other: Predicted) {
        self.outputs.append(&mut other.outputs);
        self.has_overload |= other.has_overload;
    }
}

/// The predictions of all series of a run.
#[derive(Default)]
struct Predictions {
    /// The predictions with bursts, or with the only kind of load that the series has.
    judged: Predicted,
    /// The predictions with batches instead of bursts, for the series that have both.
    with_batches: Predicted,
}

/// Measures, unless `runs` are given; predicts, prints the results, and fails when a target is missed.
pub(crate) fn run(root: &Path, runs: &[PathBuf]) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let mut all = Predictions::default();
    let mut add = |bench: &Bench, predicted: Predictions| {
        if bench.is_judged {
            all.judged.append(predicted.judged);
            all.with_batches.append(predicted.with_batches);
        }
    };
    if runs.is_empty() {
        for bench in &STUDIES {
            let scratch = Scratch::new()?;
            let folder = scratch.path().join("run");
            measure(root, &ours, bench, &folder)?;
            add(bench, predictions(&ours, bench, &folder)?);
        }
    }
    for folder in runs {
        let bench = study_of(folder)?;
        add(bench, predictions(&ours, bench, folder)?);
    }
    let mut all_met = true;
    if !all.with_batches.outputs.is_empty() {
        println!("Servers that were not used to choose the model, batches instead of bursts:");
        all_met &= judge(&all.with_batches);
        println!();
    }
    println!("All servers that were not used to choose the model:");
    all_met &= judge(&all.judged);
    Ok(match all_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns the study of an existing run.
fn study_of(folder: &Path) -> Result<&'static Bench, String> {
    let path = folder.join("run.json");
    let failed = |reason: String| format!("{}: {reason}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let info: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let found = STUDIES.iter().find(|bench| info["study"] == bench.name);
    found.ok_or_else(|| {
        failed(format!(
            "{} is not a study of this benchmark",
            info["study"]
        ))
    })
}

/// Runs a study.
fn measure(root: &Path, ours: &Path, bench: &Bench, folder: &Path) -> Result<(), String> {
    // Exit code 3: cells without a valid replicate are not used. A series with too few cells fails below.
    let measured = Command::new(ours)
        .args(["study", bench.study, "--quick", "--output"])
        .arg(folder)
        .current_dir(root)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("failed to run fathometer study: {error}"))?;
    match measured.code() {
        Some(0 | 3) => Ok(()),
        _ => Err(format!("fathometer study failed: {measured}")),
    }
}

/// Predicts the loads of a run, and prints the errors of this run.
fn predictions(ours: &Path, bench: &Bench, folder: &Path) -> Result<Predictions, String> {
    let predictor = Predictor {
        ours,
        folder,
        more: bench.more,
        bursts: bench.bursts,
    };
    let predicted = match bench.bursts.is_empty() {
        true => {
            let options = [format!("--fit-up-to={}%", 100.0 * FIT_UP_TO)];
            predictor.show(&options)?;
            Predictions {
                judged: Predicted {
                    outputs: vec![predictor.json(&options)?],
                    has_overload: false,
                },
                with_batches: Predicted::default(),
            }
        }
        false => predictor.each_series()?,
    };
    if !predicted.with_batches.outputs.is_empty() {
        println!("{}, batches instead of bursts:", bench.name);
        judge(&predicted.with_batches);
        println!();
    }
    println!("{}:", bench.name);
    judge(&predicted.judged);
    println!();
    Ok(predicted)
}

/// Runs `fathometer predict` on a run.
struct Predictor<'a> {
    ours: &'a Path,
    folder: &'a Path,
    more: &'a [&'a str],
    bursts: &'a [u32],
}

impl Predictor<'_> {
    fn text(&self, options: &[String], format: &[&str]) -> Result<String, String> {
        let output = Command::new(self.ours)
            .arg("predict")
            .arg(self.folder)
            .args(options)
            .args(self.more)
            .args(format)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("failed to run fathometer predict: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn show(&self, options: &[String]) -> Result<(), String> {
        for format in [&["--markdown"][..], &[]] {
            println!("{}", self.text(options, format)?);
        }
        Ok(())
    }

    fn json(&self, options: &[String]) -> Result<Value, String> {
        let text = self.text(options, &["--json"])?;
        serde_json::from_str(&text)
            .map_err(|error| format!("the output of fathometer predict is not JSON: {error}"))
    }

    /// Predicts each series from its own light loads, with bursts, with batches, or first with bursts and then with
    /// batches.
    fn each_series(&self) -> Result<Predictions, String> {
        // Fits all loads, because only the measured figures of this output are used.
        let all = self.json(&["--fit-up-to=100%".to_owned()])?;
        let unpredicted = all["unpredicted"].as_array().into_iter().flatten();
        let names: Vec<String> = all["predictions"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(unpredicted)
            .filter_map(|series| Some(series["series"].as_str()?.to_owned()))
            .collect();
        let mut predicted = Predictions::default();
        for name in names {
            let rates = self.means(&name, "exchanges_per_s", OF_USERS)?;
            let batches = self.means(&name, "exchanges_per_s", OF_BATCHES)?;
            let has_bursts = self.bursts.iter().all(|users| rates.contains_key(users));
            if has_bursts {
                let duty_cycles = self.means(&name, "duty_cycle_pct", OF_USERS)?;
                let options = [
                    format!("--fit={}", list(&light(&rates, self.bursts, 2))),
                    format!("--bursts={}", list(self.bursts)),
                ];
                let shares = mean_loads(&rates, &duty_cycles, self.bursts);
                let found = self.series(&name, &options, &shares)?;
                predicted.judged.append(found);
            }
            if !batches.is_empty() {
                let sizes: Vec<u32> = batches.keys().rev().take(SIZES).rev().copied().collect();
                let most = MOST_FITTED - sizes.len();
                let options = [
                    format!("--fit={}", list(&light(&rates, &[], most))),
                    format!("--batches={}", list(&sizes)),
                ];
                let highest = highest(&rates);
                let share = |size: &u32| Some((*size, batches.get(size)? / highest));
                let shares: Vec<(u32, f64)> = sizes.iter().filter_map(share).collect();
                let found = self.series(&name, &options, &shares)?;
                match has_bursts {
                    true => predicted.with_batches.append(found),
                    false => predicted.judged.append(found),
                }
            }
            if !has_bursts && batches.is_empty() {
                return Err(format!(
                    "{name} lacks some of the bursts, and has no batches"
                ));
            }
        }
        Ok(predicted)
    }

    /// Predicts a series with these options; `shares` has the mean loads of its bursts or batches, relative to the
    /// highest throughput.
    fn series(
        &self,
        name: &str,
        options: &[String],
        shares: &[(u32, f64)],
    ) -> Result<Predicted, String> {
        let texts: Vec<String> = shares
            .iter()
            .map(|(size, share)| format!("{size}: {:.0} %", 100.0 * share))
            .collect();
        println!(
            "mean load of the batches or bursts with the pauses after them, relative to the highest throughput: {}\n",
            texts.join(", ")
        );
        // A run of one series is named after its study.
        let levels = name.split(' ').filter(|level| level.contains('='));
        let levels = levels.map(|level| format!("--where={level}"));
        let options: Vec<String> = levels.chain(options.iter().cloned()).collect();
        self.show(&options)?;
        Ok(Predicted {
            outputs: vec![self.json(&options)?],
            has_overload: shares.iter().any(|(_, share)| *share > FIT_UP_TO),
        })
    }

    /// Returns the means of a metric of a series over the valid replicates, by number of users or size of batches.
    fn means(
        &self,
        series: &str,
        metric: &str,
        (middle, end): (&str, &str),
    ) -> Result<BTreeMap<u32, f64>, String> {
        let run = std::fs::read_to_string(self.folder.join("replicates.ndjson"))
            .map_err(|error| format!("failed to read the run: {error}"))?;
        let levels: Vec<(&str, &str)> = series
            .split(' ')
            .filter_map(|level| level.split_once('='))
            .collect();
        let mut found: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for line in run.lines() {
            let record: Value =
                serde_json::from_str(line).map_err(|error| format!("the run: {error}"))?;
            let is_valid = record["validity"]["reasons"] == serde_json::json!([]);
            let is_of_series = levels
                .iter()
                .all(|(factor, level)| record["cell"][factor] == *level);
            if !is_of_series || !is_valid {
                continue;
            }
            for (name, value) in record["metrics"].as_object().into_iter().flatten() {
                let load = name
                    .strip_prefix(metric)
                    .and_then(|rest| rest.strip_prefix(middle)?.strip_suffix(end))
                    .and_then(|load| load.parse().ok());
                if let (Some(load), Some(value)) = (load, value.as_f64()) {
                    found.entry(load).or_default().push(value);
                }
            }
        }
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        Ok(found
            .into_iter()
            .map(|(load, values)| (load, mean(values)))
            .collect())
    }
}

/// The text before and after the number of users in the name of a sweep's metric, and the text before the size of
/// batches.
const OF_USERS: (&str, &str) = ("_of_", "_users");
const OF_BATCHES: (&str, &str) = ("_of_batches_of_", "");

fn highest(rates: &BTreeMap<u32, f64>) -> f64 {
    rates.values().copied().fold(0.0, f64::max)
}

/// Returns the light loads that are fitted: `most` of the loads up to [`FIT_UP_TO`] of the highest throughput: the
/// lightest load, the heaviest load, and loads at equal steps between both.
fn light(rates: &BTreeMap<u32, f64>, bursts: &[u32], most: usize) -> Vec<u32> {
    let highest = highest(rates);
    let is_light =
        |(users, rate): &(&u32, &f64)| **rate <= FIT_UP_TO * highest && !bursts.contains(users);
    let users: Vec<u32> = rates
        .iter()
        .filter(is_light)
        .map(|(users, _)| *users)
        .collect();
    let steps = most.saturating_sub(1).max(1) as f64;
    let last = users.len().saturating_sub(1) as f64;
    let mut chosen: Vec<u32> = (0..most)
        .filter_map(|step| users.get((last * step as f64 / steps).round() as usize))
        .copied()
        .collect();
    chosen.dedup();
    chosen
}

/// Returns the mean load of each burst over its slices and the pauses after them, as a share of the highest throughput.
/// Without a pause it is the mean load of the slices.
fn mean_loads(
    rates: &BTreeMap<u32, f64>,
    duty_cycles_pct: &BTreeMap<u32, f64>,
    bursts: &[u32],
) -> Vec<(u32, f64)> {
    let highest = highest(rates);
    let share = |users: &u32| {
        let duty_cycle = duty_cycles_pct.get(users).map_or(1.0, |pct| pct / 100.0);
        Some((*users, rates.get(users)? * duty_cycle / highest))
    };
    bursts.iter().filter_map(share).collect()
}

fn list(users: &[u32]) -> String {
    let texts: Vec<String> = users.iter().map(u32::to_string).collect();
    texts.join(",")
}

/// Whether the predictions meet the targets.
fn judge(predicted: &Predicted) -> bool {
    let outputs = &predicted.outputs;
    let mut all_met = outputs
        .iter()
        .all(|output| output["unpredicted"].as_array().is_some_and(Vec::is_empty));
    if predicted.has_overload {
        println!(
            "batches or bursts whose mean load is above {}: MISSED",
            percent(FIT_UP_TO)
        );
        all_met = false;
    }
    for bar in BARS {
        let Some(found) = errors(outputs, bar.key) else {
            println!(
                "{}: no load to judge, because all loads were fitted: MISSED",
                bar.what
            );
            all_met = false;
            continue;
        };
        let met = found.median <= bar.median
            && found.largest <= bar.largest
            && found.within >= bar.within;
        all_met &= met;
        println!(
            "{} of {} loads: median error {:.1} % (target {}), largest {:.1} % (target {}), within the interval {:.0} % (target {}): {}",
            bar.what,
            found.count,
            100.0 * found.median,
            percent(bar.median),
            100.0 * found.largest,
            percent(bar.largest),
            100.0 * found.within,
            percent(bar.within),
            if met { "met" } else { "MISSED" }
        );
    }
    all_met
}

fn percent(share: f64) -> String {
    match share.is_finite() && share > 0.0 {
        true => format!("{:.0} %", 100.0 * share),
        false => "none".to_owned(),
    }
}

/// Returns the errors of a figure over the measured loads above [`FIT_UP_TO`] of the highest throughput that were not
/// fitted; `None` if there are no such loads.
fn errors(outputs: &[Value], key: &str) -> Option<Errors> {
    let predictions = outputs
        .iter()
        .filter_map(|output| output["predictions"].as_array())
        .flatten();
    let mut compared: Vec<(f64, bool)> = Vec::new();
    for prediction in predictions {
        let rows = prediction["rows"].as_array()?;
        let measured = |row: &Value| row["throughput_compared"]["measured"].as_f64();
        let highest = rows.iter().filter_map(measured).fold(0.0, f64::max);
        let judged = rows.iter().filter(|row| {
            row["fitted"] == false
                && row["burst"] == false
                && measured(row).is_some_and(|rate| rate > FIT_UP_TO * highest)
        });
        compared.extend(judged.filter_map(|row| {
            let compared = row.get(key)?;
            Some((
                compared["error_share"].as_f64()?.abs(),
                compared["within"].as_bool()?,
            ))
        }));
    }
    let mut sizes: Vec<f64> = compared.iter().map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    let count = sizes.len();
    let within = compared.iter().filter(|(_, within)| *within).count();
    Some(Errors {
        median: *sizes.get(count / 2)?,
        largest: *sizes.last()?,
        within: within as f64 / count as f64,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_heavy_loads_of_which_nothing_was_fitted() {
        let row = |fitted: bool, burst: bool, error: f64, within: bool| {
            serde_json::json!({
                "fitted": fitted,
                "burst": burst,
                "throughput_compared": {"measured": 1.0, "error_share": error, "within": within},
            })
        };
        let light = serde_json::json!({
            "fitted": false,
            "burst": false,
            "throughput_compared": {"measured": 0.5, "error_share": 0.7, "within": true},
        });
        let outputs = [
            serde_json::json!({"predictions": [
                {"rows": [light, row(true, false, 0.9, false), row(false, false, -0.3, false), row(false, false, 0.1, true)]},
            ]}),
            serde_json::json!({"predictions": [
                {"rows": [row(false, false, 0.2, true), row(false, true, 0.8, true), {"fitted": false, "burst": false}]},
            ]}),
        ];
        let found = errors(&outputs, "throughput_compared").unwrap();
        assert_eq!((found.median, found.largest, found.count), (0.2, 0.3, 3));
        assert!((found.within - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(errors(&outputs, "tail_compared"), None);
    }

    #[test]
    fn the_pauses_after_bursts_lower_their_mean_load() {
        let rates = [(1, 10.0), (16, 90.0), (64, 100.0)].into();
        let found = mean_loads(&rates, &[(64, 55.0)].into(), &[16, 64]);
        assert_eq!(found, [(16, 0.9), (64, 0.55)]);
    }

    #[test]
    fn the_lightest_and_the_heaviest_light_load_are_fitted() {
        let of = |users: &[u32], most: usize| {
            let rates = users
                .iter()
                .map(|users| (*users, 100.0 * f64::from(*users).min(20.0)));
            light(&rates.collect(), &[16, 64], most)
        };
        let many = [1, 2, 4, 8, 10, 12, 14, 16, 64];
        assert_eq!(of(&many, 2), [1, 12]);
        assert_eq!(of(&many, 3), [1, 8, 12]);
        assert_eq!(of(&many, 9), [1, 2, 4, 8, 10, 12]);
        assert_eq!(of(&[1, 24], 3), [1]);
        assert_eq!(of(&[24, 64], 3), [0; 0]);
    }
}
