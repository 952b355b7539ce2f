//! `fathometer capacity`: the highest load at which a server keeps its promises.

mod calibration;
mod gate;
mod output;
mod real;
mod seen;
mod trials;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Args, value_parser};
use fathometer_analysis::load::Slo;
use fathometer_capacity::self_test::{self, Searched};
use fathometer_capacity::series::SLOT;
use fathometer_capacity::simulated::KINDS;
use fathometer_capacity::{Answer, Goal, Outcome, Promise, Search, TrialPlan, TrialRecord};
use fathometer_files::whole_file;
use fathometer_model::{Bytes, Seed};
use fathometer_sys::stderr::say;
use fathometer_sys::{Clock, Interrupt};

use self::calibration::{Calibration, Requests};
use self::gate::Gate;
use self::output::Found;
use self::trials::{Applied, Demand, Trials};
use super::arguments::{some_time, time};
use super::load::{ArrivalsChoice, LoadArguments, TrialSetup};
use super::{Failure, usage};

/// Arguments of `capacity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CapacityArguments {
    /// The server: http[s]://host[:port]/path
    #[arg(required_unless_present = "self_test")]
    url: Option<String>,
    /// Promises whose capacities are searched, as in 'p99<100ms,errors<0.1%'; may be given several times. An exchange
    /// that fails, or whose status is 400 or above, breaks every promise
    #[arg(long, value_name = "LIST", required_unless_present = "self_test")]
    slo: Vec<Slo>,
    /// Search the highest number of closed-loop users without pauses, instead of the highest rate
    #[arg(long, conflicts_with = "ue")]
    users: bool,
    /// Search the highest number of users with the pauses and sessions of the workload
    #[arg(long)]
    ue: bool,
    /// Arrival process of an open loop: constant or poisson
    #[arg(long, value_enum, value_name = "PROCESS", default_value = "constant")]
    arrivals: ArrivalsChoice,
    /// The most connections of an open loop [default: 512, and up to 8192 where exchanges wait for a free one]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Relative width of the interval between the load that works and the one that fails
    #[arg(long, value_name = "WIDTH", default_value = "2%", value_parser = percent)]
    width: f64,
    /// Probability with which the interval contains the capacity, at least
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = percent)]
    confidence: f64,
    /// Load of the first trial, in requests per second or users [default: 100 requests per second, 4 users]
    #[arg(long, value_name = "LOAD", value_parser = positive)]
    start: Option<f64>,
    /// The largest load to try [default: 1000000 requests per second, 10000 users]
    #[arg(long, value_name = "LOAD", value_parser = positive)]
    most: Option<f64>,
    /// Length of the warm-up before each measured window; a longer one is detected and left out
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    warmup: Duration,
    /// Shortest trial that may decide that a load works (RFC 9971: final trial duration); half of it may decide that
    /// one fails
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    final_trial: Duration,
    /// Longest trial
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = some_time)]
    longest_trial: Duration,
    /// No trial begins after this time; the bounds found so far are then inconclusive
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = some_time)]
    budget: Duration,
    /// Do not measure the generator's own limit first: the rate up to which it is on time against an origin of this
    /// program, with the same requests. Loads above that limit are not tried
    #[arg(long)]
    no_calibration: bool,
    /// Timeout of an exchange [default: ten times the largest latency limit, at least 1s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    timeout: Option<Duration>,
    /// Seed of the workload and of all random choices
    #[arg(long, default_value_t = fathometer_load::workload::SEED)]
    seed: u64,
    /// Check the capacity of every promise: 'capacity>=1200/s' or 'capacity>=300users'; exit code 4 if one is lower
    #[arg(long, value_name = "GATE")]
    gate: Option<Gate>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page with the curve through all trials: one HTML file, without scripts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Show no progress
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Search on simulated servers whose capacity is known, in virtual time, and print how often the interval
    /// contains it
    #[arg(long, conflicts_with_all = ["url", "slo"])]
    self_test: bool,
    /// With --self-test: search on servers on real sockets of loopback instead, four searches at a time, for 10 to 25
    /// minutes; the machine should have nothing else to do
    #[arg(long, requires = "self_test")]
    real: bool,
    /// Number of searches of the self-test [default: 200, with --real 48]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    searches: Option<u64>,
    /// Options of `fathometer load` for the requests: --policy, --workload, --header, --insecure, --threads …
    #[arg(last = true, value_name = "LOAD OPTIONS")]
    load: Vec<String>,
}

/// Connections of an open loop: at first, and at most.
const CONNECTIONS: (u32, u32) = (512, 8192);

/// Searches of the self-test in virtual time.
const SEARCHES: u64 = 200;

/// Why a search ends whose server is gone.
const SILENT: &str = "the server stopped answering";

const EXAMPLES: &str = "Examples:
  fathometer capacity http://127.0.0.1:8080/ --slo 'p99<100ms,errors<0.1%'
  fathometer capacity http://127.0.0.1:8080/ --slo 'p99<50ms' --gate 'capacity>=1200/s'
  fathometer capacity http://127.0.0.1:8080/ --slo 'p95<1s' --ue -- --workload surge
  fathometer capacity https://127.0.0.1:8443/ --slo 'p99<20ms' -- --policy h2 --insecure
  fathometer capacity --self-test                     do the intervals contain capacities that are known?
  fathometer capacity --self-test --real              the same on sockets

Exit codes: 0 each promise has its interval, 1 failed, 2 usage error, 3 inconclusive or INVALID (interrupted, out of
time, or beyond what this generator can send), 4 a gate failed, or (--self-test) too few intervals contain the capacity.";

/// Runs the search and prints the capacities.
pub fn run(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    match (arguments.self_test, arguments.real) {
        (true, false) => return run_self_test(arguments),
        (true, true) => return run_on_sockets(arguments),
        (false, _) => {}
    }
    let mut promises = Vec::new();
    for slo in &arguments.slo {
        promises.extend(Promise::of(slo).map_err(|error| usage(error.to_string()))?);
    }
    let demand = match (arguments.users, arguments.ue) {
        (true, _) => Demand::Users,
        (_, true) => Demand::UserEquivalents,
        _ if arguments.arrivals == ArrivalsChoice::Recorded => {
            return Err(usage(
                "a capacity search chooses the rate: --arrivals must be constant or poisson",
            ));
        }
        _ => Demand::Rate {
            arrivals: arguments.arrivals,
            connections: arguments.connections.unwrap_or(CONNECTIONS.0),
            most_connections: arguments.connections.unwrap_or(CONNECTIONS.1),
        },
    };
    let goal = goal(arguments, demand);
    if let Some(gate) = &arguments.gate
        && gate.is_users() != goal.whole
    {
        return Err(usage(
            "the unit of --gate is /s for a rate and users for --users and --ue",
        ));
    }
    let url = arguments.url.as_deref().unwrap_or_default();
    let timeout = arguments.timeout.unwrap_or_else(|| timeout(&promises));
    let clock = Clock::start();
    let load = LoadArguments::for_trials(
        url,
        demand.options(),
        arguments.seed,
        timeout,
        &arguments.load,
    )?;
    let setup = TrialSetup::of(load, clock)?;
    let interrupt = Interrupt::install()?;
    let mut search = Search::new(goal, promises.clone());
    let interrupted = || interrupt.is_raised();
    let mut trials = Trials::new(
        setup,
        demand,
        &promises,
        Seed(arguments.seed),
        clock,
        &interrupted,
    );
    let response = trials.first_test()?;
    let calibration = calibrate(
        arguments,
        &trials,
        (&promises, response),
        clock,
        &interrupted,
    )?;
    if let Some(found) = &calibration {
        match demand {
            Demand::Rate { .. } => search.limit_generator(found.limit_per_s, found.reason()),
            _ => trials.limit_rate(found.limit_per_s, found.reason()),
        }
    }
    let started = clock.now();
    let elapsed = || clock.now().since(started).as_secs_f64();
    let mut is_silent = false;
    while let Some(plan) = search.next_trial(elapsed()) {
        if !arguments.quiet {
            say(format_args!("{}", progress(&plan, elapsed(), goal.whole)));
        }
        match trials.apply(&plan, &mut search)? {
            Applied::Complete => {}
            Applied::Interrupted => search.stop("the search was interrupted".to_owned()),
            Applied::Silent => {
                is_silent = true;
                search.stop(SILENT.to_owned());
            }
        }
    }
    let outcome = search.outcome(elapsed());
    if is_silent && !outcome.trials.iter().any(TrialRecord::has_answers) {
        return Err(format!("{SILENT}: check the URL with `fathometer fetch`").into());
    }
    let found = Found {
        url,
        demand,
        goal,
        outcome: &outcome,
        calibration: calibration.as_ref(),
    };
    if let Some(file) = &arguments.report {
        let page = output::page(&found);
        whole_file::write(file, page.as_bytes())?;
    }
    match arguments.json {
        true => println!("{}", output::json(&found)?),
        false => print!("{}", output::text(&found)),
    }
    if interrupted() {
        say(format_args!(
            "interrupted: the bounds are those of the trials that were complete"
        ));
    }
    Ok(code(&outcome, arguments.gate.as_ref()))
}

/// Measures the generator's own limit and prints it; `None`: not measured, or not known.
fn calibrate(
    arguments: &CapacityArguments,
    trials: &Trials<'_>,
    (promises, response): (&[Promise], Bytes),
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Calibration>, Failure> {
    if arguments.no_calibration || interrupted() {
        return Ok(None);
    }
    let setup = trials.setup();
    if !setup.has_only_gets() {
        say(format_args!("not calibrated: only requests of GET are"));
        return Ok(None);
    }
    let requests = Requests {
        url: arguments.url.as_deref().unwrap_or_default(),
        options: &arguments.load,
        connections: arguments.connections.unwrap_or(CONNECTIONS.0),
        promises,
        seed: arguments.seed,
    };
    let found = calibration::measure(&requests, setup, response, clock, interrupted)?;
    match &found {
        _ if arguments.quiet => {}
        Some(found) => say(format_args!("{}", output::generator(found))),
        None => say(format_args!(
            "the generator's limit is not known: it was late at every rate, so this machine may be too busy"
        )),
    }
    Ok(found)
}

fn goal(arguments: &CapacityArguments, demand: Demand) -> Goal {
    let whole = !matches!(demand, Demand::Rate { .. });
    let (start, most) = if whole { (4.0, 10_000.0) } else { (100.0, 1e6) };
    let defaults = Goal::default();
    Goal {
        width: arguments.width,
        confidence: arguments.confidence,
        start: arguments.start.unwrap_or(start),
        most: arguments.most.unwrap_or(most),
        whole,
        // Slots begin with the measured window.
        warm_up: (arguments.warmup.as_secs_f64() / SLOT).ceil() * SLOT,
        final_trial: arguments.final_trial.as_secs_f64(),
        longest_trial: arguments.longest_trial.as_secs_f64(),
        budget: arguments.budget.as_secs_f64(),
        ..defaults
    }
}

fn timeout(promises: &[Promise]) -> Duration {
    let limits = promises.iter().filter_map(|promise| promise.limit);
    Duration::from_secs_f64((10.0 * limits.fold(0.0, f64::max)).clamp(1.0, 300.0))
}

fn progress(plan: &TrialPlan, elapsed: f64, whole: bool) -> String {
    use fathometer_capacity::Purpose;
    let purpose = match plan.purpose {
        Purpose::Bracket => "looking for a load that fails",
        Purpose::Locate => "locating the capacity",
        Purpose::Works => "does it work?",
        Purpose::Fails => "does it fail?",
        Purpose::Recovery => "does it work again after the overload?",
    };
    format!(
        "{elapsed:6.1} s  {}: {purpose}",
        output::load(plan.load, whole)
    )
}

/// 3 if an answer is missing; else that of the gate.
fn code(outcome: &Outcome, gate: Option<&Gate>) -> ExitCode {
    let answers = || outcome.promises.iter().map(|promise| &promise.answer);
    let verdicts: Vec<Option<bool>> = answers()
        .map(|answer| match gate {
            Some(gate) => gate.is_kept(answer),
            None => matches!(answer, Answer::Interval { .. }).then_some(true),
        })
        .collect();
    if verdicts.contains(&Some(false)) {
        return ExitCode::from(4);
    }
    match verdicts.contains(&None) {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    }
}

/// Runs the searches of the self-test on two threads: each is a function of its seed and number.
fn run_self_test(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    let kinds = KINDS.len() as u64;
    let goal = Goal {
        width: arguments.width,
        confidence: arguments.confidence,
        ..Goal::default()
    };
    let seed = Seed(arguments.seed);
    let quiet = arguments.quiet;
    let every = 2u64;
    let searches = arguments.searches.unwrap_or(SEARCHES);
    let run = move |first: u64| -> Vec<(u64, Searched)> {
        let numbers = (first..searches).step_by(every as usize);
        numbers
            .map(|number| {
                let kind = KINDS[(number % kinds) as usize];
                let searched = Searched::with_ramp(kind, goal, seed, number / kinds);
                if !quiet {
                    say(format_args!(
                        "{number}: {} {:.0} s",
                        kind.name(),
                        searched.seconds
                    ));
                }
                (number, searched)
            })
            .collect()
    };
    let mut all: Vec<(u64, Searched)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..every)
            .map(|first| scope.spawn(move || run(first)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(searched) => searched,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    all.sort_by_key(|(number, _)| *number);
    let all: Vec<Searched> = all.into_iter().map(|(_, searched)| searched).collect();
    show_self_test(arguments, &all)
}

/// Runs the searches of the self-test on sockets.
fn run_on_sockets(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    let clock = Clock::start();
    let interrupt = Interrupt::install()?;
    let options = real::Options {
        searches: arguments.searches.unwrap_or(real::SEARCHES),
        width: arguments.width,
        confidence: arguments.confidence,
        seed: Seed(arguments.seed),
        is_quiet: arguments.quiet,
    };
    let all = real::run(options, clock, &|| interrupt.is_raised())?;
    if interrupt.is_raised() {
        say(format_args!(
            "interrupted: {} searches were complete",
            all.len()
        ));
    }
    show_self_test(arguments, &all)
}

/// Prints the table of a self-test: exit code 4 if the intervals do not keep their confidence.
fn show_self_test(arguments: &CapacityArguments, all: &[Searched]) -> Result<ExitCode, Failure> {
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&self_test::rows(all))?),
        false => print!("{}", self_test::text(all)),
    }
    Ok(match self_test::covers(all, arguments.confidence) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(4),
    })
}

/// `2%` or `0.02`, above 0 and below 1.
fn percent(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("write a share above 0 % and below 100 %, as in 2%".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (1e-3..=1e7).contains(&load) => Ok(load),
        _ => Err("write a load from 0.001 to 10000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!(percent("2%"), Ok(0.02));
        assert_eq!(percent("0.5"), Ok(0.5));
        for wrong in ["0%", "100%", "2", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
