//! `fathometer predict`: predicts loads that were not measured, with a model fitted to measured loads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_analysis::bottleneck::Outcome as BottleneckOutcome;
use fathometer_analysis::run::Run;
use fathometer_lab::server::Capability;
use fathometer_lab::server::definition::Definition;
use fathometer_model::Seed;
use fathometer_predict::elasticities::MeasuredElasticities;
use fathometer_predict::prediction::Options;
use fathometer_predict::predictions::Predictions;
use fathometer_predict::scenario::Scenario;
use fathometer_predict::series::{Selection, Series};
use fathometer_predict::{Seconds, markdown, of_loads, of_run, screen};
use fathometer_study::bottleneck::record;
use fathometer_sys::stderr::say;

use super::arguments::some_time;
use super::saved::summaries;
use super::{Failure, usage};

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct PredictArguments {
    /// The folder of a load study's run, or a folder of results of load --save
    run: PathBuf,
    /// Select cells of a run by a level, as in server=nginx or block=main; repeatable
    #[arg(long = "where", value_name = "FACTOR=LEVEL", value_parser = level)]
    levels: Vec<(String, String)>,
    /// Change of the system to predict: users, cpu, memory, link, workers or backlog, as a factor (2x) or a value
    /// (64). A comma combines changes; a repeated option compares scenarios
    #[arg(long, value_name = "cpu=2x,users=3x,link=100Mbit/s,workers=64")]
    what_if: Vec<Scenario>,
    /// Numbers of users to predict [default: the measured numbers, and twice the largest]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: Vec<u32>,
    /// Fit only loads with at most this share of the highest measured throughput, to test the model on the other loads
    #[arg(long, default_value = "100%", value_name = "PERCENT", value_parser = percent)]
    fit_up_to: f64,
    /// Fit only loads with these numbers of users, among those that --fit-up-to includes [default: all]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    fit: Vec<u32>,
    /// Numbers of users that were measured in short bursts. Only the CPU time per exchange of these loads is fitted,
    /// because light loads hardly show the change of this time with concurrency
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    bursts: Vec<u32>,
    /// Batch sizes of a sweep to fit; batches also show the CPU time per exchange at high concurrency [default: all
    /// that --fit-up-to includes; none with --fit]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batches: Vec<u32>,
    /// Number of cores that the server of load --save could use: 1 for a single thread, or the limit of taskset or a
    /// container [default: all cores of the machine]
    #[arg(long, value_name = "N", value_parser = cores)]
    cores: Option<f64>,
    /// Number of exchanges that the server processes at a time: the threads or processes of its pool, or its limit on
    /// connections if each exchange has its own connection [default: the run's factor workers, or the server's
    /// definition; else no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: Option<u32>,
    /// Listen backlog: connections that may wait for a worker [default: the run's factor backlog, or the server's
    /// definition; else 4096]
    #[arg(long, value_name = "N")]
    backlog: Option<u32>,
    /// Timeout of a client whose connection is refused because the backlog is full [default: the timeout recorded by
    /// load --save; runs of studies record none, so clients do not time out]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    timeout: Option<Duration>,
    /// Folder of fathometer bottleneck --output for the same server: predict its elasticities, and print the predicted
    /// and the measured values
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["what_if", "markdown"])]
    bottleneck: Option<PathBuf>,
    /// Number of bootstrap samples for the prediction intervals
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..))]
    draws: u32,
    /// Number of exchanges in each simulation of the percentiles
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    exchanges: u32,
    /// Seed of the bootstrap and the simulations
    #[arg(long, default_value_t = 1980)]
    seed: u64,
    /// Print as JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print predictions beside measurements, as the table of docs/predict.md
    #[arg(long)]
    markdown: bool,
}

const HELP: &str = "Examples:
  fathometer predict RUN --where server=nginx                 loads beyond the measured ones
  fathometer predict RUN --what-if cpu=2x --what-if cpu=2x,users=3x
  fathometer predict light --workers 32 --backlog 128 --what-if workers=2x
  fathometer predict RUN --fit-up-to 60%                      test the model on the measured heavier loads
  fathometer predict RUN --fit 1,2,4 --bursts 32,64           light loads, and the CPU time of short bursts
  fathometer predict RUN --fit 1,2,4 --batches 64,256         the same with batches at a light load
  fathometer predict RUN --bottleneck FOLDER                  elasticities beside those of fathometer bottleneck
  fathometer load URL -c 1 --probe PID --save light/1.json    then -c 2, -c 4, and: fathometer predict light
Exit codes: 0 done, 1 failed, 2 usage, 3 no queueing network fits at least one series.";

/// Predicts and prints.
pub fn run(arguments: &PredictArguments) -> Result<ExitCode, Failure> {
    let mut all = series(arguments)?;
    for series in &mut all {
        admit(series, arguments);
    }
    let options = Options {
        fit: Selection {
            up_to: arguments.fit_up_to,
            users: arguments.fit.clone(),
            bursts: arguments.bursts.clone(),
            batches: arguments.batches.clone(),
        },
        users: arguments.users.clone(),
        draws: arguments.draws,
        exchanges: arguments.exchanges,
        seed: Seed(arguments.seed),
    };
    let scenarios = match arguments.what_if.is_empty() {
        true => vec![Scenario::default()],
        false => arguments.what_if.clone(),
    };
    let measured = arguments.bottleneck.as_deref().map(measured_elasticities);
    let measured = measured.transpose()?;
    let mut output = Predictions::of(&all, &scenarios, &options)?;
    if let Some(measured) = &measured {
        output.add_elasticities(&all, measured, &options)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&output)?);
    } else if arguments.markdown {
        print!("{}", markdown::table(&output.predictions));
    } else {
        let mut texts: Vec<String> = output.predictions.iter().map(screen::render).collect();
        texts.extend(output.scalability.iter().map(screen::scalability));
        texts.extend(output.elasticities.iter().map(screen::elasticities));
        let unpredicted = all.iter().filter(|series| output.lacks(series));
        texts.extend(unpredicted.map(screen::measured));
        print!("{}", texts.join("\n"));
    }
    for left in &output.unpredicted {
        say(format_args!("{}: {}", left.series, left.reason));
    }
    Ok(match output.unpredicted.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// Reads the elasticities that a run of `fathometer bottleneck` measured.
fn measured_elasticities(folder: &Path) -> Result<MeasuredElasticities, Failure> {
    let found = record::read(folder)?;
    let Some(users) = found.facts.users else {
        return Err(usage(format!(
            "{} has no number of users: measure with fathometer bottleneck -c N of this version, without --ue or --rate",
            folder.display()
        )));
    };
    if let BottleneckOutcome::Invalid { reasons } = &found.verdict.outcome {
        return Err(format!(
            "the measurement in {} is INVALID, so its elasticities cannot be used: {}; repeat fathometer bottleneck",
            folder.display(),
            reasons.join("; ")
        )
        .into());
    }
    let parts = ["server", "site", "load", "path", "cpu"];
    let setup = found.facts.setup.iter();
    let setup: Vec<&str> = setup
        .filter(|(name, _)| parts.contains(&name.as_str()))
        .map(|(_, value)| value.as_str())
        .collect();
    let ranking = found.verdict.ranking.into_iter();
    let elasticities: Vec<_> = ranking.filter_map(|ranked| ranked.elasticity).collect();
    if elasticities.is_empty() {
        return Err(format!(
            "{} has no elasticity: no limit has a valid trial in the same replicate as a valid trial of the unchanged \
             load; repeat fathometer bottleneck",
            folder.display()
        )
        .into());
    }
    Ok(MeasuredElasticities {
        setup: setup.join("; "),
        users,
        cores: found.facts.cpu,
        elasticities,
    })
}

/// Adds the limits of the server's workers and backlog. The command line takes precedence, then the levels of a run's
/// cells, then the server's definition.
fn admit(series: &mut Series, arguments: &PredictArguments) {
    let definition = series.server.as_deref().map(Definition::load);
    let admission = &mut series.admission;
    // A missing definition, as for a run from another machine, sets no limit.
    if let Some(Ok(definition)) = definition
        && let Some(program) = &definition.program
    {
        let default = |capability: &Option<Capability>| {
            let number = capability.as_ref().and_then(|known| known.default);
            number.and_then(|number| u32::try_from(number).ok())
        };
        let capabilities = &program.capabilities;
        admission.workers = admission.workers.or(default(&capabilities.connections));
        admission.backlog = admission.backlog.or(default(&capabilities.backlog));
    }
    if arguments.workers.is_some() {
        // `--workers` counts exchanges, whether or not their connections stay open.
        admission.workers = arguments.workers;
        admission.keeps_connections = false;
    }
    admission.backlog = arguments.backlog.or(admission.backlog);
    let timeout = arguments.timeout.map(|time| Seconds(time.as_secs_f64()));
    admission.timeout = timeout.or(admission.timeout);
}

/// Reads the series of the folder.
fn series(arguments: &PredictArguments) -> Result<Vec<Series>, Failure> {
    let folder = &arguments.run;
    let name = folder.display().to_string();
    if folder.join("run.json").exists() {
        if arguments.cores.is_some() {
            return Err(usage(
                "--cores is for results of load --save; for a study's run, the cores are known from its host's quota or the machine",
            ));
        }
        let levels: BTreeMap<String, String> = arguments.levels.iter().cloned().collect();
        return Ok(of_run::series(&Run::load(folder)?, &levels)?);
    }
    if !arguments.levels.is_empty() {
        return Err(usage(
            "--where selects cells of a study's run, but this folder is not a run",
        ));
    }
    let results = summaries(folder)?;
    if results.is_empty() {
        return Err(usage(format!(
            "{name} is neither a run nor a folder with .json results of load --save: measure a few light loads with \
             load -c N --probe PID --save FILE.json"
        )));
    }
    Ok(vec![of_loads::series(&name, &results, arguments.cores)?])
}

fn level(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((factor, level)) => Ok((factor.to_owned(), level.to_owned())),
        None => Err("write a factor and a level, as in server=nginx".to_owned()),
    }
}

/// Parses a number of cores.
fn cores(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cores) if cores > 0.0 && cores <= 4096.0 => Ok(cores),
        _ => Err("expected a number of cores above 0, at most 4096".to_owned()),
    }
}

/// Parses a share above 0, given in percent.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage above 0, at most 100".to_owned()),
    }
}
