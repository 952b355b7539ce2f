//! Parses the command line, runs the command, maps errors to exit codes.

use std::process::ExitCode;

use clap::Parser;
use fathometer::command::{Arguments, code_of, run};
use fathometer::print;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let code = run(arguments).unwrap_or_else(|error| {
        print::to_stderr(format_args!("fathometer: {error}\n"));
        code_of(&error)
    });
    print::finish(code)
}
