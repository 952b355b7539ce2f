//! Parses the command line, runs the command, maps errors to exit codes.

use std::process::ExitCode;

use clap::Parser;
use fathometer::command::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match fathometer::command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fathometer: {error}");
            ExitCode::from(1)
        }
    }
}
