//! `fathometer capacity`: the highest load at which a server keeps its promises.

mod arguments;
mod calibration;
mod demand;
mod gate;
mod idle;
mod output;
mod real;
mod seen;
mod self_test;
mod trials;

use std::process::ExitCode;

use fathometer_capacity::{Answer, Outcome, Promise, Search, TrialPlan, TrialRecord};
use fathometer_files::whole_file;
use fathometer_model::{Bytes, Seed};
use fathometer_sys::stderr::say;
use fathometer_sys::{Clock, Interrupt};

pub use self::arguments::CapacityArguments;
use self::arguments::{goal, timeout};
use self::calibration::{Calibration, Requests};
use self::demand::Demand;
use self::gate::Gate;
use self::output::Found;
use self::trials::{Applied, Trials};
use super::load::{ArrivalsChoice, LoadArguments, TrialSetup};
use super::{Failure, usage};

/// Connections of an open loop: at first, and at most.
const CONNECTIONS: (u32, u32) = (512, 8192);

/// Why a search ends whose server is gone.
const SILENT: &str = "the server stopped answering";

/// Runs the search and prints the capacities.
pub fn run(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    match (arguments.self_test, arguments.real) {
        (true, false) => return self_test::run(arguments),
        (true, true) => return self_test::run_on_sockets(arguments),
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
    trials.probe(&arguments.probe);
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
        gave_out: &trials.gave_out(&outcome),
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
