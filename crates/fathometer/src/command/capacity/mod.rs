//! `fathometer capacity`: the highest load at which a server meets its SLOs.

mod arguments;
mod calibration;
mod self_test;
mod server;

use std::process::ExitCode;
use std::time::Duration;

use fathometer_capacity::gate::Gate;
use fathometer_capacity::{Answer, Goal, Outcome, Search, SloLimit, TrialPlan, TrialRecord};
use fathometer_files::whole_file;
use fathometer_model::{Bytes, Seed};
use fathometer_study::capacity_search::output::{self, Found};
use fathometer_study::capacity_search::{
    self, ArrivalProcess, CONNECTIONS, Calibration, Demand, Ended, SILENT, Step, Trials, timeout,
};
use fathometer_sys::stderr::say;
use fathometer_sys::{Clock, Interrupt};

pub use self::arguments::CapacityArguments;
use self::arguments::goal;
use self::calibration::Requests;
use self::server::Server;
use super::load::{ArrivalsChoice, LoadArguments, TrialSetup};
use super::{Failure, usage};

/// The error if no request of the first test succeeds; the search does not start.
const NO_ANSWER: &str =
    "no request of the first test succeeded: check the URL with `fathometer fetch`";

/// Runs the search and prints the capacities.
pub fn run(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    match (arguments.self_test, arguments.real) {
        (true, false) => return self_test::run(arguments),
        (true, true) => return self_test::run_on_sockets(arguments),
        (false, _) => {}
    }
    let mut slos = Vec::new();
    for slo in &arguments.slo {
        slos.extend(SloLimit::of(slo).map_err(|error| usage(error.to_string()))?);
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
            arrivals: match arguments.arrivals {
                ArrivalsChoice::Poisson => ArrivalProcess::Poisson,
                _ => ArrivalProcess::Constant,
            },
            connections: arguments.connections.unwrap_or(CONNECTIONS.0),
            most_connections: arguments.connections.unwrap_or(CONNECTIONS.1),
        },
    };
    let timeout = arguments.timeout.unwrap_or_else(|| timeout(&slos));
    let goal = goal(arguments, demand, timeout);
    longest_trial_is_possible(&goal, &slos)?;
    if let Some(gate) = &arguments.gate
        && gate.is_users() != goal.whole
    {
        return Err(usage(
            "the unit of --gate is /s for a rate and users for --users and --ue",
        ));
    }
    let url = arguments.url.as_deref().unwrap_or_default();
    let clock = Clock::start();
    let load = LoadArguments::for_trials(
        url,
        server::options(demand),
        arguments.seed,
        timeout,
        &arguments.load,
    )?;
    let server = Server {
        setup: TrialSetup::of(load, clock)?,
        targets: arguments.probe.clone(),
    };
    let interrupt = Interrupt::install()?;
    let mut search = Search::new(goal, slos.clone());
    let interrupted = || interrupt.is_raised();
    let mut trials = Trials::new(
        server,
        demand,
        &slos,
        Seed(arguments.seed),
        clock,
        &interrupted,
    );
    let response = match trials.first_test()? {
        None if !interrupted() => return Err(NO_ANSWER.into()),
        response => response.unwrap_or(Bytes(0)),
    };
    trials.limit_to_open_files(&mut search)?;
    let calibration = calibrate(arguments, &trials, (&slos, response), clock, &interrupted)?;
    if let Some(found) = &calibration {
        match demand {
            Demand::Rate { .. } => search.set_generator_limit(found.limit_per_s, found.reason()),
            _ => trials.limit_rate(found.limit_per_s, found.reason()),
        }
    }
    let Ended { outcome, is_silent } =
        capacity_search::run(&mut search, &mut trials, &mut |step| {
            if let Step::Begins { plan, at_s } = step
                && !arguments.quiet
            {
                say(format_args!("{}", progress(plan, *at_s, goal.whole)));
            }
            Ok(())
        })?;
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
    match arguments.json {
        true => println!("{}", output::json(&found)?),
        false => print!("{}", output::text(&found)),
    }
    if interrupted() {
        say(format_args!(
            "interrupted: the bounds are based on the completed trials"
        ));
    }
    // Written after the result is printed, so a failure to write does not lose the result.
    if let Some(file) = &arguments.report {
        let page = output::page(&found);
        whole_file::write(file, page.as_bytes())?;
    }
    Ok(code(&outcome, arguments.gate.as_ref()))
}

/// Checks that the longest trial can show that a load works. The last exchanges of a trial have no outcome yet, so the
/// trial must be longer than --final-trial.
fn longest_trial_is_possible(goal: &Goal, slos: &[SloLimit]) -> Result<(), Failure> {
    let wait = goal.longest_wait(slos);
    let least = goal.final_trial + wait;
    // Floating-point sums of seconds are not exact.
    if goal.longest_trial + 1e-9 >= least {
        return Ok(());
    }
    let seconds = Duration::from_secs_f64;
    Err(usage(format!(
        "--longest-trial {:?} is too short to show that a load works: such a trial lasts at least {:?}, which is \
         --final-trial ({:?}) plus the time until the outcome of an exchange is known ({:?}: the largest latency limit, \
         or --timeout for errors). Set --longest-trial to {:?} or more, or shorten --final-trial or --timeout",
        seconds(goal.longest_trial),
        seconds(least),
        seconds(goal.final_trial),
        seconds(wait),
        seconds(least)
    )))
}

/// Measures the generator's own limit and prints it; `None` if it was not measured or could not be determined.
fn calibrate(
    arguments: &CapacityArguments,
    trials: &Trials<'_, Server>,
    (slos, response): (&[SloLimit], Bytes),
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Calibration>, Failure> {
    if arguments.no_calibration || interrupted() {
        return Ok(None);
    }
    let setup = &trials.subject().setup;
    if !setup.has_only_gets() {
        say(format_args!(
            "not calibrated: calibration supports only GET requests"
        ));
        return Ok(None);
    }
    let requests = Requests {
        url: arguments.url.as_deref().unwrap_or_default(),
        options: &arguments.load,
        connections: trials.calibration_connections(),
        slos,
        seed: arguments.seed,
    };
    let found = calibration::measure(&requests, setup, response, clock, interrupted)?;
    match &found {
        _ if arguments.quiet => {}
        Some(found) => say(format_args!("{}", output::generator(found))),
        None => say(format_args!(
            "the generator's limit is unknown: the generator was late at every rate; this machine may be too busy"
        )),
    }
    Ok(found)
}

fn progress(plan: &TrialPlan, elapsed: f64, whole: bool) -> String {
    use fathometer_capacity::Purpose;
    let purpose = match plan.purpose {
        Purpose::Bracket => "searching for a load that fails",
        Purpose::Locate => "locating the capacity",
        Purpose::Works => "testing whether this load works",
        Purpose::Fails => "testing whether this load fails",
        Purpose::Recovery => "testing whether the server recovers from the overload",
    };
    format!(
        "{elapsed:6.1} s  {}: {purpose}",
        output::load(plan.load, whole)
    )
}

/// Returns the exit code: 4 if the gate fails for an SLO, else 3 if an SLO has no verdict, else 0.
fn code(outcome: &Outcome, gate: Option<&Gate>) -> ExitCode {
    let answers = || outcome.slos.iter().map(|slo| &slo.answer);
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
