//! `fathometer bottleneck`: finds the resource that limits a server, by varying each resource.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use fathometer_analysis::bottleneck::{Outcome, Resource};
use fathometer_http::driver::Policy;
use fathometer_model::{Bytes, Rate, Seed};
use fathometer_path::Profile;
use fathometer_sys::{Interrupt, machine, privilege};
use fathometer_workload::plan::{Choice, Sessions};

use super::Failure;
use super::arguments::{some_bytes, some_time, time};
use fathometer_lab::data;
use fathometer_lab::era::Era;
use fathometer_lab::leftovers;
use fathometer_load::workload::SEED;
use fathometer_study::bottleneck::record::{self, Found, Record};
use fathometer_study::bottleneck::run::{self, Repetitions, Request};
use fathometer_study::bottleneck::self_test::{self, Became, Tried};
use fathometer_study::bottleneck::server::Server;
use fathometer_study::bottleneck::setup::{Demand, HostLimits, Load, Setup};
use fathometer_study::bottleneck::site::SiteOnDisk;
use fathometer_study::bottleneck::slow_server::{self, Faults};
use fathometer_sys::stderr::say;

/// Arguments of `bottleneck`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BottleneckArguments {
    /// The server: a name (see `fathometer list`), or the path of its server.toml; for your own server, give its
    /// command line after --
    #[arg(default_value = "embedded", conflicts_with = "command")]
    server: String,
    /// The site to serve and to request: a folder, or a workload (see `fathometer list`)
    #[arg(long, value_name = "DIR|WORKLOAD", default_value = "webstone")]
    site: String,
    /// Connection policy: h1.0, h1.1, h1.1-pipeline, h1.1-early-close, h1.1xN …
    #[arg(long, default_value = "h1.1")]
    policy: Policy,
    /// Number of closed-loop users without pauses [default: 32]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["ue", "rate"])]
    connections: Option<u32>,
    /// Number of users with the pauses and sessions of the workload (SURGE's user equivalents), instead of -c
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(conflicts_with = "rate")]
    ue: Option<u32>,
    /// Open loop: send R requests (pages, sessions) per second, whether or not the server keeps up
    #[arg(long, value_name = "R", value_parser = positive)]
    rate: Option<f64>,
    /// Network path to the server: a name (see `fathometer list`) or a TOML file
    #[arg(long, value_name = "PROFILE", default_value = "campus")]
    path: String,
    /// TCP profile of both hosts: 1997 or today
    #[arg(long, default_value = "today")]
    era: String,
    /// The clients' receive window, as in 8K [default: set by the kernel]
    #[arg(long, value_name = "BYTES", value_parser = window)]
    window: Option<u32>,
    /// CPU limit of the server's host, in cores, or none for all processors
    #[arg(long, value_name = "Q", default_value = "0.25", value_parser = cpu)]
    cpu: Limit<f64>,
    /// Number of processors of the server's host [default: all]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    cores: Option<u16>,
    /// Memory limit of the server's host, including its page cache, as in 64M [default: no limit]
    #[arg(long, value_name = "M", value_parser = some_bytes)]
    memory: Option<u64>,
    /// Limit of disk reads per second: operations as in 200ops, or bytes as in 4MB/s; may be given twice
    /// [default: no limit]
    #[arg(long, value_name = "LIMIT", value_parser = disk)]
    disk: Vec<Disk>,
    /// Listen backlog: connections that may wait to be accepted [default: set by the server]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    backlog: Option<u32>,
    /// Number of connections that the server handles at a time [default: set by the server]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Start each trial with a cold cache [default: a warm cache, up to the memory limit]
    #[arg(long)]
    cold: bool,
    /// Length of the measured window of each trial
    #[arg(short = 'd', long, value_name = "T", default_value = "3s", value_parser = some_time)]
    duration: Duration,
    /// Length of the warm-up before each measured window
    #[arg(long, value_name = "T", default_value = "500ms", value_parser = time)]
    warmup: Duration,
    /// Timeout of an exchange
    #[arg(long, value_name = "T", default_value = "10s", value_parser = some_time)]
    timeout: Duration,
    /// Replicates of each trial [default: 5]; intervals need at least two. With --self-test, the maximum number of
    /// replicates [default: 10]: trials stop at the first planned look (after 3, 5, 7, 10 … replicates) at which the
    /// verdict is settled
    #[arg(long, value_name = "N")]
    #[arg(value_parser = value_parser!(u32).range(2..=1000))]
    replicates: Option<u32>,
    /// Factor by which each limit is varied
    #[arg(long, value_name = "FACTOR", default_value = "1.25", value_parser = step)]
    step: f64,
    /// Vary only this resource; may be given several times: cpu, one-core, memory, disk-operations, disk-bytes,
    /// link-rate, round-trip, backlog, workers, load
    #[arg(long, value_name = "RESOURCE")]
    only: Vec<Resource>,
    /// Seed of all random choices
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
    /// Write all observations to this folder, which must not exist yet
    #[arg(short = 'o', long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Evaluate the observations in a folder of --output again, without measuring
    #[arg(long, value_name = "FOLDER")]
    judge: Option<PathBuf>,
    /// Test the method on set-ups with a known limit, and print which resource the method names
    #[arg(long, conflicts_with_all = ["judge", "command"])]
    self_test: bool,
    /// Run only this set-up of the self-test; may be given several times
    #[arg(long, value_name = "NAME", requires = "self_test")]
    plant: Vec<String>,
    /// Show no progress
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Serve --site with a fault until this process is killed
    #[arg(long, value_name = "FAULT", hide = true, requires = "at")]
    serve_slowly: Option<Faults>,
    /// Address to listen on, for --serve-slowly
    #[arg(long, value_name = "ADDRESS", hide = true)]
    at: Option<SocketAddr>,
    /// Your own server: a command line that stays in the foreground. Placeholders: {address}, {port}, {root},
    /// {runtime} (a folder for the server's own use) and {connections} (the value of --workers)
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Default number of replicates of each trial of a search.
const REPLICATES: u32 = 5;

/// Default maximum number of replicates of each trial of the self-test.
const MOST_REPLICATES: u32 = 10;

const EXAMPLES: &str = "Examples:
  fathometer bottleneck                                    the embedded origin on a quarter of a core
  fathometer bottleneck nginx --site surge --ue 300 --policy h1.1 --memory 32M
  fathometer bottleneck httpd-prefork --workers 8 --cpu 0.5 --path wan
  fathometer bottleneck --site ./htdocs -c 16 -- python3 -m http.server -b {address} -d {root} {port}
  fathometer bottleneck --self-test                        test whether the planted limits are found
Exit codes: 0 a resource was named, 1 failed or interrupted, 2 usage, 3 measured but INVALID,
4 undecided, or (--self-test) a wrong resource was named.";

/// An optional limit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit<T> {
    Of(T),
    None,
}

impl<T> Limit<T> {
    fn value(self) -> Option<T> {
        match self {
            Limit::Of(value) => Some(value),
            Limit::None => None,
        }
    }
}

/// A limit of disk reads, in operations or bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Operations(u64),
    Bytes(u64),
}

/// Runs the trials and prints the verdict.
pub fn run(arguments: &BottleneckArguments) -> Result<ExitCode, Failure> {
    if let (Some(faults), Some(address)) = (&arguments.serve_slowly, arguments.at) {
        slow_server::serve(*faults, address, Path::new(&arguments.site))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &arguments.judge {
        return publish(&record::read(folder)?, arguments.json);
    }
    // Must run first: the kernel does not move a process with several threads into a namespace.
    privilege::acquire()?;
    let interrupt = Interrupt::install()?;
    machine::raise_open_files();
    // Removes the control groups and folders of killed runs.
    leftovers::remove();
    let interrupted = || interrupt.is_raised();
    if arguments.self_test {
        let options = self_test::Options {
            only: arguments.plant.clone(),
            most_replicates: arguments.replicates.unwrap_or(MOST_REPLICATES),
            seed: Seed(arguments.seed),
            folder: arguments.output.clone(),
            quiet: arguments.quiet,
        };
        let Some(tried) = self_test::run(&options, &interrupted)? else {
            say(format_args!("interrupted"));
            return Ok(ExitCode::from(1));
        };
        match arguments.json {
            true => println!("{}", self_test::json(&tried)?),
            false => print!("{}", self_test::text(&tried)),
        }
        return Ok(code_of_self_test(&tried));
    }
    let request = Request {
        setup: setup(arguments)?,
        resources: match arguments.only.as_slice() {
            [] => run::resources(),
            only => only.to_vec(),
        },
        step: arguments.step,
        repetitions: Repetitions::Fixed(arguments.replicates.unwrap_or(REPLICATES)),
        seed: Seed(arguments.seed),
        quiet: arguments.quiet,
    };
    for note in &request.setup.site.notes {
        say(format_args!("{}: {note}", request.setup.site.name));
    }
    let mut record = Record::begin(&request, arguments.output.as_deref())?;
    if !arguments.json {
        println!("{}", record.description());
    }
    let findings = run::explore(&request, &interrupted, &mut |seen| record.keep(seen))?;
    let found = record.end(findings)?;
    let code = publish(&found, arguments.json)?;
    if interrupted() {
        say(format_args!(
            "interrupted: the verdict is based on the completed trials"
        ));
        return Ok(ExitCode::from(1));
    }
    Ok(code)
}

/// Prints the verdict and returns the exit code of its outcome.
fn publish(found: &Found, json: bool) -> Result<ExitCode, Failure> {
    match json {
        true => println!("{}", found.json()?),
        false => print!("{}", found.text()),
    }
    Ok(match found.verdict.outcome {
        Outcome::Limited { .. } | Outcome::Together { .. } => ExitCode::SUCCESS,
        Outcome::Undecided { .. } => ExitCode::from(4),
        Outcome::Invalid { .. } => ExitCode::from(3),
    })
}

/// Returns the exit code of a self-test: 4 if a verdict was wrong, else 3 if a set-up could not be measured, else 0.
fn code_of_self_test(tried: &[Tried]) -> ExitCode {
    let any = |became| tried.iter().any(|one| one.outcome == became);
    match (any(Became::Wrong), any(Became::Invalid)) {
        (true, _) => ExitCode::from(4),
        (false, true) => ExitCode::from(3),
        (false, false) => ExitCode::SUCCESS,
    }
}

fn setup(arguments: &BottleneckArguments) -> Result<Setup, Failure> {
    let server = match arguments.command.as_slice() {
        [] => Server::named(&arguments.server)?,
        line => Server::command(line)?,
    };
    let mut host = HostLimits {
        cpu: arguments.cpu.value(),
        cores: arguments.cores.map(usize::from),
        memory: arguments.memory.map(Bytes),
        backlog: arguments.backlog,
        workers: arguments.workers,
        ..HostLimits::default()
    };
    for limit in &arguments.disk {
        match *limit {
            Disk::Operations(limit) => host.disk_operations = Some(limit),
            Disk::Bytes(limit) => host.disk_bytes = Some(limit),
        }
    }
    let profile = data::load("paths", "path profile", &arguments.path)?;
    let setup = Setup {
        server: Arc::new(server),
        site: Arc::new(SiteOnDisk::of(&arguments.site, Seed(arguments.seed))?),
        profile: Profile::from_toml(&profile, &arguments.path)?,
        era: Arc::new(Era::load(&arguments.era)?),
        window: arguments.window,
        host,
        load: Load {
            demand: match (arguments.rate, arguments.ue) {
                (Some(rate), _) => Demand::Rate(rate),
                (None, Some(users)) => Demand::Pausing(users),
                (None, None) => Demand::Busy(arguments.connections.unwrap_or(32)),
            },
            policy: arguments.policy,
        },
        warm: !arguments.cold,
        warm_up: arguments.warmup,
        duration: arguments.duration,
        timeout: arguments.timeout,
    };
    let plan = &setup.site.plan;
    if matches!(setup.load.demand, Demand::Pausing(_))
        && plan.sessions == Sessions::ENDLESS
        && !matches!(plan.choice, Choice::Scripts(_))
    {
        return Err(format!(
            "{} has no pauses and no sessions, which --ue needs: use -c instead",
            setup.site.name
        )
        .into());
    }
    setup.server.can(&setup.throttle())?;
    Ok(setup)
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().unwrap_or(0.0);
    if number <= 0.0 {
        return Err("write a number above 0".to_owned());
    }
    let rate = Rate::try_from(number).map_err(|error| error.to_string())?;
    Ok(rate.per_second())
}

fn step(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(step) if step > 1.0 && step <= 10.0 => Ok(step),
        _ => Err("write a factor above 1 and up to 10, as in 1.25".to_owned()),
    }
}

fn cpu(text: &str) -> Result<Limit<f64>, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => match text.parse::<f64>() {
            Ok(cores) if (0.1..=1024.0).contains(&cores) => Ok(Limit::Of(cores)),
            _ => Err("write none, or a number of cores of at least 0.1".to_owned()),
        },
    }
}

fn window(text: &str) -> Result<u32, String> {
    let bytes = some_bytes(text)?;
    u32::try_from(bytes).map_err(|_| format!("{text} is too large: write a window below 4 GiB"))
}

fn disk(text: &str) -> Result<Disk, String> {
    if let Some(number) = text.strip_suffix("ops") {
        return match number.trim().parse() {
            Ok(limit) if limit > 0 => Ok(Disk::Operations(limit)),
            _ => Err("write a number of operations per second above 0, as in 200ops".to_owned()),
        };
    }
    match text.strip_suffix("/s") {
        Some(amount) => some_bytes(amount).map(Disk::Bytes),
        None => Err(
            "write operations per second as in 200ops, or bytes per second as in 4MB/s".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_units() {
        assert_eq!(disk("200ops"), Ok(Disk::Operations(200)));
        assert_eq!(disk("4MB/s"), Ok(Disk::Bytes(4_000_000)));
        assert_eq!(cpu("none"), Ok(Limit::None));
        assert_eq!(cpu("0.5"), Ok(Limit::Of(0.5)));
        assert_eq!(window("8K"), Ok(8192));
        assert!(window("0").is_err() && window("4G").is_err());
        for wrong in ["0ops", "ops", "200", "4MB"] {
            assert!(disk(wrong).is_err(), "{wrong}");
        }
        assert!(cpu("0.01").is_err());
        assert!(step("1").is_err() && step("1.5") == Ok(1.5));
    }
}
