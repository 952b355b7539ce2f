//! Generates a SURGE workload of a given size and prints its report: `surge_scale [FILES] [REQUESTS] [SEED] [SET]
//! [SETTING]`. The default is 1 000 000 files and 10 000 000 requests of the set `barford98` with the locality setting
//! `original`.
//!
//! The name of each stage is printed on standard error when the stage begins. To measure the stages, pipe standard
//! error through a program that adds time stamps. `/usr/bin/time -v` measures the total time and memory.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example program may print"
)]

use std::process::ExitCode;

use fathometer_model::Seed;
use fathometer_workload::surge::{self, Locality, LocalitySetting, Parameters, Stage};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        arguments.next().map_or(default, |text| {
            text.parse().expect("arguments are whole numbers")
        })
    };
    let (files, requests, seed) = (number(1_000_000), number(10_000_000), number(1998));
    let files = u32::try_from(files).expect("there are fewer than 2^32 files");
    let parameters = match arguments.next().as_deref() {
        None | Some("barford98") => Parameters::barford98(files, requests),
        Some("sigmetrics98") => Parameters::sigmetrics98(files, requests),
        Some(other) => {
            eprintln!("unknown set {other}: use barford98 or sigmetrics98");
            return ExitCode::from(2);
        }
    };
    let mut parameters = parameters;
    match arguments.next().as_deref() {
        None | Some("original") => (),
        Some("law") => parameters.locality = Locality::of(LocalitySetting::Law),
        Some(other) => {
            eprintln!("unknown setting {other}: use original or law");
            return ExitCode::from(2);
        }
    }
    let mut last = None;
    let made = surge::plan(&parameters, Seed(seed), &mut |stage: Stage, _| {
        if last.replace(stage) != Some(stage) {
            eprintln!("{}", stage.name());
        }
    });
    match made {
        Ok(surge) => {
            println!("{:#?}", surge.summary);
            print!("{}", surge.report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("failed to generate the workload: {error}");
            ExitCode::FAILURE
        }
    }
}
