//! `cargo xtask vm`: tests this program on a kernel that has only control groups v2.
//!
//! Nearly every machine has only v2, and a machine with v1 or both cannot show how the program behaves with v2 only.
//! Therefore this command starts Debian's cloud kernel in `qemu-system-x86_64` without hardware acceleration, with this
//! program and a few other programs on a disk. A script in the guest tests every limit: in the root group, in a session
//! created by systemd, in a user's delegated scope and in a container. The script reads the limits from outside the
//! program while the program measures. The figures measured in the guest are meaningless.

mod checks;
mod image;
mod machine;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use self::checks::Checks;
use self::image::Image;

/// Test the limits of hosts on a kernel that has only control groups v2.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Program to test [default: target/debug/fathometer, which is built first].
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// Stop the guest after S seconds, even if checks remain.
    #[arg(long, value_name = "S", default_value_t = 1500)]
    seconds: u64,
    /// In each environment, run only doctor, one trial with every limit, and the check for leftovers.
    #[arg(long)]
    brief: bool,
    /// Instead of the checks, run these commands (a bash script) as root in the guest, and print its console.
    #[arg(long, value_name = "SCRIPT")]
    script: Option<PathBuf>,
}

const CHECKS: &str = include_str!("guest/checks.sh");

/// Builds the guest, runs the checks and prints their results as a table.
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
