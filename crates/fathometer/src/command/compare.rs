//! `fathometer compare`: compares two saved results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_analysis::compare::power::{self, PowerTable};
use fathometer_analysis::compare::{
    Comparison, Design, Gate, Outcome, Side, of_load, of_loads, of_run, screen,
};
use fathometer_analysis::load::Summary;
use fathometer_analysis::run::Run;
use fathometer_model::Seed;
use fathometer_study::compare_self_test as self_test;
use fathometer_sys::Clock;

use super::arguments::some_time;
use super::saved::{summaries, summary};
use super::{Failure, usage};

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArguments {
    /// The baseline: a result of load --save FILE.json, a folder with several such results, or the folder of a run
    #[arg(required_unless_present = "self_test")]
    before: Option<PathBuf>,
    /// The new result, of the same kind
    #[arg(required_unless_present = "self_test")]
    after: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Compare even if policy, workload, users or rate differ
    #[arg(long)]
    allow_different: bool,
    /// Print the comparison as JSON; the schema is docs/compare.schema.json
    #[arg(long)]
    json: bool,
    /// Print how often a comparison finds changes of 0, 1, 2, 5 and 10 %, by simulation from the noise of recorded
    /// runs
    #[arg(long, conflicts_with_all = ["before", "after", "gate", "allow_different"])]
    self_test: bool,
    /// With --self-test: measure instead of simulating, with load --against on two servers of this program whose CPU
    /// time per exchange differs by 0, 1, 2 and 5 %
    #[arg(long, requires = "self_test")]
    real: bool,
    /// Folder of runs; cells with at least 8 replicates provide the noise for --self-test
    #[arg(
        long,
        default_value = "runs/published",
        value_name = "FOLDER",
        requires = "self_test"
    )]
    runs: PathBuf,
    /// Number of simulated comparisons for each figure of --self-test
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2_000,
        requires = "self_test"
    )]
    trials: u32,
    /// Seed of --self-test
    #[arg(long, default_value_t = 1908, requires = "self_test")]
    seed: u64,
    /// Number of tests of each planted change with --real; twice as many without a change
    #[arg(long, value_name = "N", default_value_t = 5, requires = "self_test")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    tests: u32,
    /// Length of each test with --real
    #[arg(long, value_name = "T", default_value = "45s", value_parser = some_time, requires = "self_test")]
    length: Duration,
    /// Show no progress
    #[arg(short = 'q', long, requires = "self_test")]
    quiet: bool,
}

/// The gate and the equivalence margin of a comparison.
#[derive(Debug, Args)]
pub struct Limits {
    /// Limits on changes, as in 'p99<+5%,errors<=+0'; exit code 4 if a limit is violated, 3 if one is undecided
    #[arg(long, value_name = "LIMITS")]
    pub gate: Option<Gate>,
    /// Equivalence margin, in percent: two values are equal if the whole interval of their change is within this margin
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = margin)]
    pub equal: f64,
}

const EXAMPLES: &str = "Examples:
  fathometer compare before.json after.json
  fathometer compare before.json after.json --gate 'p99<+5%,rate>-2%,errors<=+0'
  fathometer compare runs-of-monday/ runs-of-tuesday/      several results per side: intervals include drift
  fathometer compare --self-test                           false alarms and power, by simulation
  fathometer compare --self-test --real                    test whether a change of 1 % is found on this machine
Exit codes: 0 done, 1 failed, 2 usage, or not comparable, 3 a result is INVALID, or a limit is undecided, 4 a limit is
violated.";

/// Compares and prints.
pub fn run(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let (Some(before), Some(after)) = (&arguments.before, &arguments.after) else {
        return test_itself(arguments);
    };
    let (before, after) = (side(before)?, side(after)?);
    let margin = arguments.limits.equal / 100.0;
    let mut comparison = Comparison::of(&before, &after, Design::Separate, margin);
    if !comparison.is_comparable() && !arguments.allow_different {
        let differences: Vec<String> = comparison
            .differences
            .iter()
            .filter(|difference| difference.incomparable)
            .map(|difference| {
                let of = |value: &Option<String>| value.clone().unwrap_or("none".to_owned());
                let (before, after) = (of(&difference.before), of(&difference.after));
                format!("{} differs ({before} and {after})", difference.what)
            })
            .collect();
        return Err(usage(format!(
            "cannot compare: {}; --allow-different compares them anyway",
            differences.join(", ")
        )));
    }
    // An INVALID run has no metrics; its reasons are printed instead.
    if comparison.changes.is_empty() && comparison.invalid.is_empty() {
        return Err(usage(
            "cannot compare: the results have no metric in common",
        ));
    }
    if let Some(gate) = &arguments.limits.gate {
        comparison.gate = gate.judge(&comparison);
    }
    let text = match arguments.json {
        true => comparison.to_json(),
        false => screen::render(&comparison),
    };
    print!("{text}");
    Ok(exit_code(&comparison))
}

/// Simulates comparisons and prints how often they find a change; exit code 1 if the runs provide no noise.
fn simulate(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let noise = power::noise_of(&arguments.runs)?;
    let table = PowerTable::simulate(Seed(arguments.seed), arguments.trials, &noise);
    if table.rows.is_empty() {
        let folder = arguments.runs.display();
        return Err(format!(
            "{folder} has no cell of a load study with at least 8 replicates: name another folder with --runs"
        )
        .into());
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&table)?),
        false => print!("{}", table.markdown()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the table of the self-test; exit code 3 if the machine was too noisy.
fn test_itself(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    if !arguments.real {
        return simulate(arguments);
    }
    let options = self_test::Options {
        tests: arguments.tests,
        length: arguments.length,
        is_quiet: arguments.quiet,
    };
    let table = self_test::run(&options, Clock::start())?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&table)?),
        false => print!("{}", table.text()),
    }
    Ok(match table.is_valid() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// Returns the exit code: 4 if a limit is violated, else 3 if a result is INVALID or a limit is undecided, else 0.
pub fn exit_code(comparison: &Comparison) -> ExitCode {
    let has = |outcome: Outcome| comparison.gate.iter().any(|it| it.outcome == outcome);
    ExitCode::from(match () {
        () if has(Outcome::Broken) => 4,
        () if has(Outcome::Undecided) || !comparison.invalid.is_empty() => 3,
        () => 0,
    })
}

/// Reads a result of any kind.
fn side(path: &Path) -> Result<Side, Failure> {
    let name = path.display().to_string();
    if !path.is_dir() {
        return Ok(of_load(&name, &summary(path)?));
    }
    if path.join("run.json").exists() {
        return Ok(of_run(&name, &Run::load(path)?));
    }
    let results = summaries(path)?;
    if results.is_empty() {
        return Err(usage(format!(
            "{name} is neither a run nor a folder with .json results of load --save: name a result"
        )));
    }
    let results: Vec<Summary> = results.into_iter().map(|(_, summary)| summary).collect();
    Ok(of_loads(&name, &results))
}

/// Parses a margin in percent.
fn margin(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent),
        _ => Err("expected a percentage above 0 and below 100".to_owned()),
    }
}
