//! `fathometer cluster slurm -- study`: runs a study as a Slurm job array and merges the runs of its tasks.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fathometer_cluster::slurm::array::{ArrayScript, files_of};
use fathometer_cluster::slurm::files;
use fathometer_slurm::follow::{self, Output};
use fathometer_slurm::{JobError, folder, programs};
use fathometer_sys::Interrupt;

use super::OwnStreams;
use super::slurm::SlurmArguments;
use crate::command::{Failure, merge, usage};

/// Whether the command of a job is a study.
pub(super) fn is_study(command: &[OsString]) -> bool {
    command.first().is_some_and(|word| word == "study")
}

/// Options of `study` that the array sets itself, or that have no meaning for the share of one rank.
const RESERVED: [&str; 5] = ["--output", "--rank", "--ranks", "--resume", "--new"];

/// Returns the first reserved option in a command.
pub(super) fn reserved_option(command: &[OsString]) -> Option<String> {
    command.iter().find_map(|word| {
        let word = word.to_string_lossy();
        let name = word.split('=').next().unwrap_or_default();
        RESERVED.contains(&name).then(|| name.to_owned())
    })
}

/// Whether a command has an option.
pub(super) fn has_option(command: &[OsString], option: &str) -> bool {
    command.iter().any(|word| word == option)
}

/// Prints the script, or submits it, follows the tasks and merges their runs.
pub(super) fn run(arguments: &SlurmArguments) -> Result<ExitCode, Failure> {
    let given = arguments.ranks.or(arguments.nodes);
    let ranks = given.unwrap_or(NonZeroU32::MIN);
    if let Some(nodes) = arguments.nodes.filter(|&nodes| nodes != ranks) {
        return Err(usage(format!(
            "{nodes} nodes for {ranks} ranks: each rank of a study is a task on its own node; give only --ranks"
        )));
    }
    if arguments.secret_file.is_some() {
        return Err(usage(
            "--secret-file has no effect on a study: its ranks do not communicate; omit it",
        ));
    }
    if let Some(name) = reserved_option(&arguments.command) {
        return Err(usage(format!(
            "{name} of a study cannot be set here: the job sets the rank and the run folder of each task (see --folder)"
        )));
    }
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.into_os_string(),
    };
    let command: Vec<OsString> = std::iter::once(program)
        .chain(arguments.command.iter().cloned())
        .collect();
    let folder = folder::choose(arguments.folder.as_deref())?;
    let script = ArrayScript {
        folder: &folder,
        ranks,
        cpus: arguments.cpus,
        partition: arguments.partition.as_ref(),
        time_limit: arguments.time.as_ref(),
        options: &arguments.options,
        command: &command,
    }
    .to_bytes();
    if arguments.print {
        crate::print::bytes_to_stdout(&script);
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::install()?;
    // These files are created in advance, because an NFS client may cache the absence of a file for up to a minute.
    let followed = (0..ranks.get()).flat_map(|rank| {
        let [errors, code, _] = files_of(rank);
        [errors, code]
    });
    folder::make(&folder, &script, followed)?;
    let job = programs::submit(&folder.join(files::SCRIPT)).inspect_err(|_| {
        // The folder contains only the files created above.
        let _ = std::fs::remove_dir_all(&folder);
    })?;
    eprintln!(
        "fathometer: job {job} submitted: an array of {ranks} tasks; its files are in {}",
        folder.display()
    );
    let errors = folder.join(&files_of(0)[0]);
    let output = Output::messages(std::iter::once(errors));
    let all_ended = || {
        let codes = codes(&folder, ranks)?;
        Ok(codes.iter().all(Option::is_some).then_some(0))
    };
    let (ending, cancelled) =
        follow::follow_by(&job, output, interrupt, &all_ended, &mut OwnStreams)?;
    let codes = codes(&folder, ranks)?;
    eprintln!("fathometer: job {job}: {}", summary(&codes));
    let failed = cancelled || ending.exit_code(cancelled) != 0 || codes.iter().any(is_failure);
    merged(&folder, &codes, arguments, failed)
}

/// Reads the exit code of each rank; `None` for a rank without a recorded exit code.
fn codes(folder: &Path, ranks: NonZeroU32) -> Result<Vec<Option<u8>>, JobError> {
    (0..ranks.get())
        .map(|rank| folder::code_in(&folder.join(&files_of(rank)[1])))
        .collect()
}

/// Whether a rank failed, was killed or recorded no exit code. An INVALID share (3) or a share whose claims are not met
/// (4) is not a failure: only the merged run is judged.
fn is_failure(code: &Option<u8>) -> bool {
    !matches!(code, Some(0 | 3 | 4))
}

fn summary(codes: &[Option<u8>]) -> String {
    let failed: Vec<String> = codes
        .iter()
        .enumerate()
        .filter(|(_, code)| is_failure(code))
        .map(|(rank, code)| match code {
            Some(code) => format!("rank {rank} exited with code {code} (see rank-{rank}.err)"),
            None => format!("rank {rank} left no exit code"),
        })
        .collect();
    match failed.is_empty() {
        true => format!("all {} tasks have measured their shares", codes.len()),
        false => failed.join("; "),
    }
}

/// Merges the available runs. The exit code is that of the merged run, or 1 if a rank failed.
fn merged(
    folder: &Path,
    codes: &[Option<u8>],
    arguments: &SlurmArguments,
    failed: bool,
) -> Result<ExitCode, Failure> {
    let runs: Vec<PathBuf> = (0..codes.len() as u32)
        .map(|rank| folder.join(&files_of(rank)[2]))
        .filter(|run| run.join("run.json").is_file())
        .collect();
    if runs.is_empty() {
        // If no rank wrote a run, as after a usage error on all ranks, the exit code is the largest of the ranks.
        let code = codes.iter().flatten().copied().max().unwrap_or(1);
        return Ok(ExitCode::from(match code {
            0 | 126.. => 1,
            code => code,
        }));
    }
    let has = |option: &str| has_option(&arguments.command, option);
    let code = merge::studies(&runs, &folder.join("run"), has("--json"), has("--strict"))?;
    Ok(match failed {
        true => ExitCode::from(1),
        false => code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_fails_by_its_code_and_not_by_its_verdicts() {
        assert!(
            [Some(0), Some(3), Some(4)]
                .iter()
                .all(|code| !is_failure(code))
        );
        assert!([None, Some(1), Some(2), Some(137)].iter().all(is_failure));
        let text = summary(&[Some(0), Some(1), None]);
        assert!(
            text.contains("rank 1 exited with code 1") && text.contains("rank 2 left no exit code"),
            "{text}"
        );
    }
}
