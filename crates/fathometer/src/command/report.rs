//! `fathometer report`: shows the results of a run from its files alone.

mod captured;
mod sources;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::claims::Verdict;
use fathometer_analysis::digest::Digest;
use fathometer_analysis::report::write_digest_with;
use fathometer_analysis::run::{Run, RunInfo};
use fathometer_analysis::study::StudyData;
use fathometer_analysis::tables::Column;
use fathometer_analysis::{gave_out_first, retrieval_trace, summary, terminal};

use super::Failure;
use fathometer_files::whole_file;
use fathometer_study::files::StudyFiles;
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
    /// Check that report.html and the records it was made from have not changed since; write nothing
    #[arg(long, conflicts_with = "json")]
    verify: bool,
}

/// The evaluation of a run.
#[derive(Debug)]
pub struct Judged {
    /// No tested claim is reversed, and no figure misses its threshold.
    pub all_met: bool,
    /// The path of `report.html`, or why it, or a file beside it, was not written.
    pub page: Result<PathBuf, fathometer_analysis::Error>,
}

/// Writes `report.html` and `summary.json` again and prints the tables. If the run's folder is not writable,
/// the printed output is still complete. With `--verify`, compares the report with its sources instead.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    if arguments.verify {
        let files = sources::verify(&arguments.run)?;
        print(&format!(
            "report.html is unchanged, and so are the {files} files it was made from\n"
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

/// Writes the evaluation of a run beside its files and prints it.
pub fn publish(folder: &Path, json: bool) -> Result<Judged, Failure> {
    let info = info(folder)?;
    let files = StudyFiles::of_run(folder, &info)?;
    let judged = files.map(|files| files.data()).transpose()?.flatten();
    let has_paper = judged.is_some();
    let study = match judged {
        Some(study) => study,
        None => {
            let run = Run::load(folder)?;
            StudyData::without_paper(&run, columns(&run))
        }
    };
    let digest = Digest::of(folder, &study)?;
    // The tables are printed even if their files cannot be written, for example on a full disk.
    let page = write_digest_with(&digest, &captured::of_replicate, &|path, text| match path
        .file_name()
    {
        Some(name) if name == "report.html" => {
            let page = sources::with_sources(folder, text)?;
            whole_file::write(path, page.as_bytes())
        }
        _ => whole_file::write(path, text.as_bytes()),
    });
    print(&match (has_paper, json) {
        (true, true) => format!("{:#}\n", summary::json(&digest)),
        (true, false) => terminal::render(&digest),
        (false, true) => cells(&digest.run, json),
        (false, false) => {
            let machines = terminal::machines(&digest);
            cells(&digest.run, json) + &machines + &terminal::equal_cells(&digest)
        }
    })?;
    Ok(Judged {
        page,
        all_met: digest
            .claims
            .iter()
            .flat_map(|claim| &claim.eras)
            .all(|era| era.verdict != Verdict::Reversed)
            && digest
                .closeness
                .iter()
                .all(|line| line.within() == line.measured()),
    })
}

/// What the cells of a run measure, which decides the columns of their list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    Pages,
    Loads,
    Capacities,
}

impl Measured {
    fn of(run: &Run) -> Measured {
        let has = |metric: &str| {
            let mut replicates = run.replicates();
            replicates.any(|replicate| replicate.metrics.contains_key(metric))
        };
        match (has("capacity_trials"), has("exchanges_per_s")) {
            (true, _) => Measured::Capacities,
            (false, true) => Measured::Loads,
            (false, false) => Measured::Pages,
        }
    }
}

/// Columns of the list of all cells, for a study without tables: packets and seconds of page retrievals,
/// throughput and response times of loads, ends and trials of capacity searches.
fn columns(run: &Run) -> Vec<Column> {
    const OF_CAPACITIES: [(&str, &str); 5] = [
        ("capacity", "capacity"),
        ("works", "capacity_works"),
        ("fails", "capacity_fails"),
        ("trials", "capacity_trials"),
        ("search s", "capacity_search_s"),
    ];
    const OF_LOADS: [(&str, &str); 5] = [
        ("exch/s", "exchanges_per_s"),
        ("mean ms", "response_mean_ms"),
        ("p50 ms", "response_p50_ms"),
        ("errors/s", "errors_per_s"),
        ("CPU %", "cpu_total_pct"),
    ];
    let columns = match Measured::of(run) {
        Measured::Capacities => OF_CAPACITIES,
        Measured::Loads => OF_LOADS,
        Measured::Pages => return Vec::new(),
    };
    columns
        .map(|(label, metric)| Column {
            label: label.to_owned(),
            metric: metric.to_owned(),
            plus: None,
            published: None,
            published_times: None,
            percent_of: None,
            decimals: None,
            brief: false,
        })
        .into()
}

fn info(folder: &Path) -> Result<RunInfo, Failure> {
    let path = folder.join("run.json");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!(
            "failed to read {}: {error}: give the folder of a run, as in runs/20261121-194500-nielsen97-quick",
            path.display()
        )
    })?;
    serde_json::from_str(&text)
        .map_err(|error| format!("failed to read {}: {error}", path.display()).into())
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

/// Lists all cells of a study without tables of its own, one per line, with the reasons for invalid cells.
fn cells(run: &Run, json: bool) -> String {
    let mean = |cell: &fathometer_analysis::run::Cell, metric: &str| {
        let values = cell.values(metric);
        (!values.is_empty())
            .then(|| values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64)
    };
    if json {
        let cells: Vec<_> = run
            .cells
            .iter()
            .map(|cell| {
                serde_json::json!({
                    "block": cell.block, "cell": cell.key, "state": cell.state(),
                    "n": cell.valid().count(), "elapsed_s": mean(cell, "elapsed_s"),
                    "packets": mean(cell, "packets"), "capacity": mean(cell, "capacity"),
                    "exchanges_per_s": mean(cell, "exchanges_per_s"),
                    "response_mean_ms": mean(cell, "response_mean_ms"),
                    "gave_out": gave_out_first::of_cell(cell),
                    "reasons": cell.reasons(),
                })
            })
            .collect();
        return format!("{:#}\n", serde_json::Value::Array(cells));
    }
    let columns = match Measured::of(run) {
        Measured::Pages => [("elapsed s", "elapsed_s", 3), ("packets", "packets", 1)],
        Measured::Loads => [
            ("exch/s", "exchanges_per_s", 1),
            ("mean ms", "response_mean_ms", 3),
        ],
        Measured::Capacities => [
            ("works at", "capacity_works", 1),
            ("fails at", "capacity_fails", 1),
        ],
    };
    let [(first, ..), (second, ..)] = columns;
    let mut text = format!("{:>3} {first:>10} {second:>9}  cell\n", "n");
    for cell in &run.cells {
        let [first, second] = columns.map(|(_, metric, digits)| {
            mean(cell, metric).map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        });
        text.push_str(&format!(
            "{:>3} {first:>10} {second:>9}  {} {}\n",
            cell.valid().count(),
            cell.block,
            cell.key
        ));
        if let Some(found) = gave_out_first::of_cell(cell) {
            text.push_str(&format!("    gave out first: {found}\n"));
        }
        for reason in cell.reasons() {
            text.push_str(&format!("    INVALID: {reason}\n"));
        }
    }
    text + &terminal::left_out(run)
}
