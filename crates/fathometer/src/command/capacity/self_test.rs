//! `fathometer capacity --self-test`: searches on servers whose capacity is known.

use std::process::ExitCode;
use std::thread;

use fathometer_capacity::Goal;
use fathometer_capacity::self_test::{self, SearchResult};
use fathometer_capacity::simulated::KINDS;
use fathometer_model::Seed;
use fathometer_study::capacity_search::socket_self_test;
use fathometer_sys::stderr::say;
use fathometer_sys::{Clock, Interrupt};

use super::super::Failure;
use super::arguments::CapacityArguments;

/// Default number of searches of the self-test in virtual time.
const SEARCHES: u64 = 200;

/// Runs the searches of the self-test on two threads. The result of a search depends only on its seed and number.
pub(super) fn run(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
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
    let search = move |first: u64| -> Vec<(u64, SearchResult)> {
        let numbers = (first..searches).step_by(every as usize);
        numbers
            .map(|number| {
                let kind = KINDS[(number % kinds) as usize];
                let searched = SearchResult::with_ramp(kind, goal, seed, number / kinds);
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
    let mut all: Vec<(u64, SearchResult)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..every)
            .map(|first| scope.spawn(move || search(first)))
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
    let all: Vec<SearchResult> = all.into_iter().map(|(_, searched)| searched).collect();
    show_self_test(arguments, &all)
}

/// Runs the searches of the self-test on real sockets.
pub(super) fn run_on_sockets(arguments: &CapacityArguments) -> Result<ExitCode, Failure> {
    let clock = Clock::start();
    let interrupt = Interrupt::install()?;
    let options = socket_self_test::Options {
        searches: arguments.searches.unwrap_or(socket_self_test::SEARCHES),
        width: arguments.width,
        confidence: arguments.confidence,
        seed: Seed(arguments.seed),
        is_quiet: arguments.quiet,
    };
    let all = socket_self_test::run(options, clock, &|| interrupt.is_raised())?;
    if interrupt.is_raised() {
        say(format_args!(
            "interrupted: {} searches were complete",
            all.len()
        ));
    }
    show_self_test(arguments, &all)
}

/// Prints the table of a self-test. Returns exit code 4 if too few intervals contain the capacity.
fn show_self_test(
    arguments: &CapacityArguments,
    all: &[SearchResult],
) -> Result<ExitCode, Failure> {
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&self_test::rows(all))?),
        false => print!("{}", self_test::text(all)),
    }
    Ok(match self_test::covers(all, arguments.confidence) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(4),
    })
}
