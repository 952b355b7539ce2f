//! `fathometer report`: shows the results of a run from its files alone.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::retrieval_trace;
use fathometer_analysis::run::Run;

use super::Failure;
use fathometer_files::whole_file;
use fathometer_study::evaluation::{self, Evaluation};
use fathometer_sys::stderr::say;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The run's folder
    run: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Also write the page retrievals as a Chrome trace, for Perfetto: the first valid replicate of each cell
    #[arg(long, value_name = "FILE.json", conflicts_with = "verify")]
    trace: Option<PathBuf>,
    /// Also write the page retrievals as an HTTP archive: the first valid replicate of each cell
    #[arg(long, value_name = "FILE.har", conflicts_with = "verify")]
    har: Option<PathBuf>,
    /// Check that report.html and its source files have not changed since the report was written; write nothing
    #[arg(long, conflicts_with = "json")]
    verify: bool,
}

/// Writes `report.html` and `summary.json` again and prints the tables. If the run's folder is not writable,
/// the printed output is still complete. With `--verify`, compares the report with its sources instead.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    if arguments.verify {
        let verified = evaluation::verify(&arguments.run)?;
        let (files, not_kept) = (verified.unchanged, verified.not_kept);
        let not_checked = match not_kept {
            0 => String::new(),
            _ => format!(
                "; {not_kept} files of its waterfalls are not in this folder and were not checked"
            ),
        };
        print(&format!(
            "report.html and its {files} source files are unchanged{not_checked}\n"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    match publish(&arguments.run, arguments.json)?.page {
        Ok(page) => say(format_args!("report: {}", page.display())),
        Err(error) => say(format_args!(
            "report.html was not written: {error}; the output above is complete"
        )),
    }
    if arguments.trace.is_some() || arguments.har.is_some() {
        let run = Run::load(&arguments.run)?;
        if let Some(path) = &arguments.trace {
            export(path, &retrieval_trace::chrome_trace(&run)?)?;
        }
        if let Some(path) = &arguments.har {
            export(path, &retrieval_trace::http_archive(&run)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes an export.
fn export(path: &Path, text: &str) -> Result<(), Failure> {
    whole_file::write(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    say(format_args!("written: {}", path.display()));
    Ok(())
}

/// Writes the evaluation of a run to the run's folder and prints it.
pub fn publish(folder: &Path, json: bool) -> Result<Evaluation, Failure> {
    let evaluation = evaluation::evaluate(folder, json)?;
    print(&evaluation.text)?;
    Ok(evaluation)
}

/// Writes to stdout. It is not an error if the reader closes the pipe early, as `head` does.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}; the run's folder is complete").into())
        }
        _ => Ok(()),
    }
}
