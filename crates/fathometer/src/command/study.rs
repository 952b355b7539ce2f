//! `fathometer study`: reruns a paper's experiments, or a study of the user's own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_analysis::run::Mode;
use fathometer_model::{Instant, Seed, calendar};
use fathometer_sys::{Clock, Interrupt, privilege};

use super::arguments::some_time;
use super::{Failure, report, usage};
use fathometer_load::workload::SEED;
use fathometer_ranks::study_share::study_place;
use fathometer_study::files::StudyFiles;
use fathometer_study::plan;
use fathometer_study::run::{self, Request, RunError};
use fathometer_study::spec::Published;
use fathometer_study::starter;
use fathometer_study::stopping::Rule;
use fathometer_sys::stderr::say;

/// Arguments of `study`.
#[derive(Debug, Args)]
pub struct StudyArguments {
    /// The study: a name, as in nielsen97 (see `fathometer list`), a TOML file, or a folder with study.toml;
    /// tables.toml, claims.toml, figures.csv, paths/, eras/ and servers/ beside that file are used
    #[arg(required_unless_present = "new")]
    study: Option<String>,
    /// Write a new study to this folder, which must not exist: a commented study that runs without changes
    #[arg(long, value_name = "NAME", exclusive = true)]
    new: Option<PathBuf>,
    /// Run each cell once or twice, in a few minutes [default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run as many replicates as the paper
    #[arg(long)]
    full: bool,
    /// Repeat the published run: the cells and replicates that the study's [published] table states
    #[arg(long, conflicts_with_all = ["quick", "full", "replicates", "precision", "budget"])]
    published: bool,
    /// TCP profile: 1997, today or both
    #[arg(long, value_name = "ERA", default_value = "both")]
    era: String,
    /// Run only cells with this level, as in --only path=wan; may be given several times
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = level)]
    only: Vec<(String, String)>,
    /// Add replicates where a verdict is undecided, or where an interval in a table extends to either side by more
    /// than this share of the figure, as in 5%. All looks together have the error rate of one 95 % interval
    #[arg(long, value_name = "SHARE", value_parser = share)]
    precision: Option<f64>,
    /// Add replicates where a verdict is undecided, while another round of replicates fits into this time
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    budget: Option<Duration>,
    /// Number of replicates of each cell, instead of the study's own; intervals need at least two. With --precision
    /// or --budget: the maximum number [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    replicates: Option<u32>,
    /// Rank of this machine, from 0, if several machines share the study [default: from a Slurm array or a Kubernetes
    /// Indexed Job, if --ranks or the scheduler sets the number of ranks]
    #[arg(long, value_name = "I")]
    rank: Option<u32>,
    /// Number of machines that share the study: each measures every N-th replicate of all cells. Merge their runs
    /// with fathometer merge. 1: measure the whole study here, even in a Slurm array
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// Seed of all random choices
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Folder of the run, which must not exist yet [default: `runs/<time>-<study>-<mode>`]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Resume the interrupted run in the folder of --output; study, mode, seed, build of the program and input
    /// files must be the same
    #[arg(long, requires = "output")]
    resume: bool,
    /// Print the plan without measuring: the blocks, their cells and replicates, and the time of their windows
    #[arg(long, conflicts_with_all = ["precision", "budget", "resume", "output", "strict"])]
    plan: bool,
    /// Print the summary, or the plan, as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
    /// Exit with 4 if a tested claim is reversed, or a figure misses its threshold
    #[arg(long)]
    strict: bool,
}

/// Default of the maximum number of replicates of a cell.
const MOST_REPLICATES: u32 = 30;

/// Parses a share: `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("write a share between 0 and 100 %, as in 5%".to_owned()),
    }
}

fn level(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(factor, level)| (factor.to_owned(), level.to_owned()))
        .ok_or_else(|| "write FACTOR=LEVEL, as in path=wan".to_owned())
}

/// Runs the study and prints the results.
pub fn run(arguments: &StudyArguments) -> Result<ExitCode, Failure> {
    if let Some(folder) = &arguments.new {
        starter::write(folder)?;
        say(format_args!(
            "wrote {0}; run it with: fathometer study {0}",
            folder.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &arguments.study else {
        return Err(usage("name a study, or write a new one with --new NAME"));
    };
    let place = study_place(arguments.rank, arguments.ranks, &|name| {
        std::env::var(name).ok()
    })
    .map_err(|error| usage(error.to_string()))?;
    let files = StudyFiles::of(name)?;
    let study = files.study()?;
    let published = match &study.published {
        Some(published) if arguments.published => Some(published.clone()),
        None if arguments.published => {
            return Err(usage(format!(
                "no run of {} is published: its study.toml has no [published]; give --quick or --full",
                study.name
            )));
        }
        _ => None,
    };
    let mode = match &published {
        Some(_) => Mode::Published,
        None if arguments.full => Mode::Full,
        None => Mode::Quick,
    };
    let mut only = arguments.only.clone();
    only.extend(published.iter().flat_map(Published::only));
    match arguments.era.as_str() {
        "both" => {}
        era => only.push(("era".to_owned(), era.to_owned())),
    }
    let rule = (arguments.precision.is_some() || arguments.budget.is_some()).then(|| Rule {
        precision: arguments.precision,
        budget: arguments.budget,
        most: arguments.replicates.unwrap_or(MOST_REPLICATES),
    });
    if let Some(place) = place {
        say(format_args!(
            "rank {} of {} machines ({}): this run measures a share of the study",
            place.share.rank(),
            place.share.ranks(),
            place.source
        ));
    }
    let folder = arguments.output.clone().unwrap_or_else(|| {
        let rank = place.map_or(String::new(), |place| {
            format!("-rank-{}", place.share.rank())
        });
        default_folder(&study.name, mode, &rank)
    });
    let request = Request {
        study,
        files,
        mode,
        only,
        replicates: match rule {
            Some(_) => None,
            None => arguments
                .replicates
                .or(published.and_then(|published| published.replicates)),
        },
        stopping: rule,
        seed: Seed(arguments.seed),
        folder: folder.clone(),
        command: fathometer_load::secrets::command_line(),
        build: crate::build_facts::facts(),
        quiet: arguments.quiet,
        share: place.map(|place| place.share),
        resume: arguments.resume,
    };
    if arguments.plan {
        let plan = plan::plan(&request)?;
        match arguments.json {
            true => println!("{}", serde_json::to_string_pretty(&plan)?),
            false => print!("{}", plan.text()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    run::check(&request)?;
    // Must run before any thread starts: the kernel does not move a process with several threads into a namespace.
    privilege::acquire()?;
    let interrupt = Interrupt::install()?;
    fathometer_sys::machine::raise_open_files();
    let outcome =
        run::execute(&request, &|| interrupt.is_raised()).map_err(|error| -> Failure {
            // If the folder existed before, it belongs to another run.
            let ours = !matches!(error, RunError::Folder(_) | RunError::Mismatch(_));
            if ours && has_a_record(&folder) {
                format!(
                    "{error}\nthe replicates measured so far are kept: fathometer report {}",
                    folder.display()
                )
                .into()
            } else {
                error.into()
            }
        })?;
    let judged = report::publish(&folder, arguments.json)?;
    // The folder is the result of a study, so a failure to write the page is an error.
    let page = judged.page?;
    if outcome.interrupted {
        say(format_args!(
            "interrupted: {} replicates are complete; see {}",
            outcome.replicates,
            page.display()
        ));
        return Ok(ExitCode::from(1));
    }
    say(format_args!("report: {}", page.display()));
    if request.study.sweep.is_some() {
        say(format_args!(
            "to predict other loads: fathometer predict {}",
            folder.display()
        ));
    }
    if outcome.cells_without_figures > 0 {
        say(format_args!(
            "INVALID: {} cells have no valid replicate; the reasons are in the report",
            outcome.cells_without_figures
        ));
        return Ok(ExitCode::from(3));
    }
    if arguments.strict && !judged.all_met {
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether at least one replicate is recorded.
fn has_a_record(folder: &Path) -> bool {
    std::fs::read(folder.join("replicates.ndjson")).is_ok_and(|text| text.contains(&b'\n'))
}

/// Returns a folder name such as `runs/20261121-194500-nielsen97-quick`, with the start time in UTC. The folder of a
/// share ends in its rank.
fn default_folder(study: &str, mode: Mode, rank: &str) -> PathBuf {
    let now = Clock::start().realtime_of(Instant::ZERO).as_secs();
    let (year, month, day) = calendar::date(now / 86_400);
    let second = now % 86_400;
    let mode = mode.name();
    PathBuf::from(format!(
        "runs/{year:04}{month:02}{day:02}-{:02}{:02}{:02}-{study}-{mode}{rank}",
        second / 3600,
        second / 60 % 60,
        second % 60
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_lab::data;

    #[test]
    fn every_embedded_study_reads_and_names_what_exists() {
        for name in data::names("papers") {
            let files = StudyFiles::of(name).unwrap();
            assert!(files.data().unwrap().is_some());
            let study = files.study().unwrap();
            for cell in study.cells(Mode::Quick).unwrap() {
                assert!(data::load("paths", "path", cell.level("path")).is_ok());
                assert!(data::load("eras", "era", cell.level("era")).is_ok());
                assert!(
                    data::embedded(&format!("servers/{}/server.toml", cell.level("server")))
                        .is_some()
                );
            }
        }
    }
}
