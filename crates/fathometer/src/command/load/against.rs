//! `load URL --against BASELINE`: two servers, measured in interleaved slices.

use std::process::ExitCode;
use std::time::Duration;

use fathometer_analysis::compare::screen;
use fathometer_load::interleaved::{Server, Test};
use fathometer_load::server_probes::{ProbeError, Target, process_name, processes_of};
use fathometer_model::Seed;
use fathometer_sys::{Clock, Interrupt};

use super::super::compare::{Limits, exit_code};
use super::output::Format;
use super::{LoadArguments, Ready};
use crate::command::{Failure, usage};

/// Default length of the test.
const TIME: Duration = Duration::from_secs(40);

/// Measures both servers and prints the comparison.
pub fn run(arguments: &LoadArguments, baseline: &str) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let clock = Clock::start();
    let sides = [
        Ready::of(arguments, baseline, clock)?,
        Ready::of(arguments, &arguments.url, clock)?,
    ];
    let [before, after] = &sides;
    let programs = programs(&arguments.probe)?;
    let interrupt = Interrupt::install()?;
    let test = Test {
        servers: [
            Server {
                name: baseline,
                plan: &before.planned.plan,
                options: &|| before.options(arguments),
            },
            Server {
                name: &arguments.url,
                plan: &after.planned.plan,
                options: &|| after.options(arguments),
            },
        ],
        programs: &programs,
        length: arguments.duration.unwrap_or(TIME),
        slice: arguments.slice,
        seed: Seed(arguments.seed),
    };
    let Some(rounds) = test.measure(clock, &|| interrupt.is_raised())? else {
        eprintln!("interrupted");
        return Ok(ExitCode::from(1));
    };
    if let Some(left_out) = rounds.left_out() {
        eprintln!("{left_out}");
    }
    let Limits { gate, equal } = &arguments.limits;
    let mut comparison = test.compare(rounds, equal / 100.0);
    if let Some(gate) = gate {
        comparison.gate = gate.judge(&comparison);
    }
    let is_json = arguments.json || arguments.format == Format::Json;
    match is_json {
        true => print!("{}", comparison.to_json()),
        false => print!("{}", screen::render(&comparison)),
    }
    Ok(exit_code(&comparison))
}

/// Rejects options that cannot be combined with `--against`.
fn check(arguments: &LoadArguments) -> Result<(), Failure> {
    if arguments.requests.is_some() || arguments.rate.is_some() || !arguments.save.is_empty() {
        return Err(usage(
            "--against takes -c, -d, --policy, --workload and --probe: a closed loop of a given duration, \
             without --save",
        ));
    }
    if !matches!(arguments.format, Format::Screen | Format::Json) || arguments.report.is_some() {
        return Err(usage("--against prints a screen or JSON, and no --report"));
    }
    Ok(())
}

/// The first processes of the servers whose CPU time is compared.
fn programs(targets: &[Target]) -> Result<Vec<u32>, ProbeError> {
    let programs: Vec<u32> = processes_of(targets)?.into_iter().flatten().collect();
    // Reports a process that does not exist.
    programs
        .iter()
        .try_for_each(|pid| process_name(*pid).map(drop))?;
    Ok(programs)
}
