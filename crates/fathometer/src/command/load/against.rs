//! `load URL --against BASELINE`: compares two servers in interleaved slices.

use std::process::ExitCode;
use std::time::Duration;

use fathometer_analysis::compare::screen;
use fathometer_load::Users;
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
    check_users(&before.planned.users)?;
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

/// Rejects options that have no effect on slices or on a comparison.
fn check(arguments: &LoadArguments) -> Result<(), Failure> {
    const CLOSED: &str = "a comparison uses a closed loop; set its users with -c";
    const COMPARISON: &str = "a comparison is printed as text or JSON";
    let format = arguments.format;
    for (is_given, name, why) in [
        (
            arguments.requests.is_some(),
            "--requests",
            "a comparison has a duration; set it with -d",
        ),
        (arguments.rate.is_some(), "--rate", CLOSED),
        (arguments.arrivals.is_some(), "--arrivals", CLOSED),
        (arguments.speed != 1.0, "--speed", CLOSED),
        (
            arguments.ue.is_some(),
            "--ue",
            "a slice is shorter than the pauses of user equivalents; use -c",
        ),
        (
            arguments.steps.is_some(),
            "--steps",
            "all slices have the same number of users; set it with -c",
        ),
        (
            !arguments.warmup.is_zero(),
            "--warmup",
            "each slice has its own warm-up",
        ),
        (
            arguments.slo.is_some(),
            "--slo",
            "--gate limits the changes instead",
        ),
        (
            arguments.repeats.is_some(),
            "--repeats",
            "rounds that are INVALID are left out instead",
        ),
        (!arguments.save.is_empty(), "--save", COMPARISON),
        (arguments.report.is_some(), "--report", COMPARISON),
        (
            arguments.targets,
            "--targets",
            "a comparison does not count the requests of each target",
        ),
        (
            arguments.pin,
            "--pin",
            "the threads are always pinned, in each round to other processors",
        ),
        (arguments.details, "--details", COMPARISON),
        (
            !matches!(format, Format::Screen | Format::Json),
            "--format",
            COMPARISON,
        ),
    ] {
        if is_given {
            return Err(usage(format!(
                "{name} cannot be combined with --against: {why}"
            )));
        }
    }
    Ok(())
}

/// Rejects a recording that would be replayed at its recorded times: each slice would replay only the start of the
/// recording.
fn check_users(users: &Users) -> Result<(), Failure> {
    match users {
        Users::Closed { .. } => Ok(()),
        Users::Open { .. } => Err(usage(
            "--against does not replay a workload at its recorded times: set the users of a closed loop with -c",
        )),
    }
}

/// Returns the process IDs of the servers whose CPU time is compared.
fn programs(targets: &[Target]) -> Result<Vec<u32>, ProbeError> {
    let programs: Vec<u32> = processes_of(targets)?.into_iter().flatten().collect();
    // Reports a process that does not exist.
    programs
        .iter()
        .try_for_each(|pid| process_name(*pid).map(drop))?;
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct CommandLine {
        #[command(flatten)]
        arguments: LoadArguments,
    }

    fn checked(options: &[&str]) -> Result<(), String> {
        let line = ["http://a/", "--against", "http://b/"];
        let line = line.iter().chain(options);
        let arguments = CommandLine::parse_from(line).arguments;
        check(&arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn options_without_effect_are_rejected_by_name() {
        for options in [
            &["--requests", "5"][..],
            &["--rate", "5"],
            &["--arrivals", "recorded"],
            &["--speed", "2"],
            &["--ue", "5"],
            &["--steps", "5@0s,9@1s"],
            &["--warmup", "1s"],
            &["--slo", "p99<1s"],
            &["--repeats", "1"],
            &["--save", "a.json"],
            &["--report", "a.html"],
            &["--targets"],
            &["--pin"],
            &["--details"],
            &["--format", "csv"],
        ] {
            let error = checked(options).unwrap_err();
            assert!(error.starts_with(options[0]), "{error}");
        }
        let all = "-c 4 -d 4s --slice 40ms --probe here --gate p99<+5% --equal 2 --json --workload webstone --seed 3";
        let all: Vec<&str> = all.split(' ').collect();
        assert_eq!(checked(&all), Ok(()));
    }
}
