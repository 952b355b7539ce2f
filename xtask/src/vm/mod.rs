//! `cargo xtask vm`: a kernel with control groups of version 2 alone, and what this program does there.
//!
//! Nearly every machine has version 2 alone, and a machine that has version 1 or both cannot show how the
//! program behaves there. So Debian's cloud kernel is started in `qemu-system-x86_64` without hardware
//! acceleration, with the program and a few others on a disk, and a script runs in it that tries every limit:
//! in the topmost group, in a session as systemd makes one, in a user's delegated scope and in a container. Limits
//! are read from outside of the program while it measures. No figure that it measures there means anything.

mod checks;
mod image;
mod machine;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use self::checks::Checks;
use self::image::Image;

/// Try the limits of hosts on a kernel that has control groups of version 2 alone.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program to try [default: target/debug/fathometer, which is built first].
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// End after so many seconds, whatever has been tried by then.
    #[arg(long, value_name = "S", default_value_t = 1500)]
    seconds: u64,
    /// Try only doctor, one trial with every limit and what is left behind, in each place.
    #[arg(long)]
    brief: bool,
    /// Run these commands (a bash script) as root in the guest instead, and print its console.
    #[arg(long, value_name = "SCRIPT")]
    script: Option<PathBuf>,
}

const CHECKS: &str = include_str!("guest/checks.sh");

/// Builds the guest, runs the checks and prints a table of them.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    image::requirements()?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => image::build_program(root)?,
    };
    let image = Image::build(root, &binary)?;
    let time = Duration::from_secs(arguments.seconds);
    if let Some(script) = &arguments.script {
        let script = std::fs::read_to_string(script)
            .map_err(|error| format!("cannot read {}: {error}", script.display()))?;
        machine::run(&image, &script, time, &mut |line| println!("{line}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut checks = Checks::default();
    let brief = if arguments.brief { "yes" } else { "no" };
    let script = format!("brief={brief}\n{CHECKS}");
    let ended = machine::run(&image, &script, time, &mut |line| checks.line(line));
    checks.print();
    ended?;
    Ok(match checks.failed() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
