//! `fathometer report`: a run shown again, from its files alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::claims::Verdict;
use fathometer_analysis::digest::Digest;
use fathometer_analysis::report::write_digest;
use fathometer_analysis::run::{Run, RunInfo};
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_analysis::{summary, terminal};

use super::Failure;
use crate::data;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The run's folder
    run: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What a run's figures amount to.
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    /// No claim that was tested is reversed, and no figure misses its bar.
    pub all_met: bool,
}

/// Writes `report.html` and `summary.json` anew and prints the tables.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    publish(&arguments.run, arguments.json)?;
    eprintln!("report: {}", arguments.run.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}

/// Writes what a run amounts to beside its files and prints it.
pub fn publish(folder: &Path, json: bool) -> Result<Judged, Failure> {
    let info = info(folder)?;
    let Some(study) = study_data(&info.study)? else {
        print_cells(&Run::load(folder)?, json);
        return Ok(Judged { all_met: true });
    };
    let digest = Digest::of(folder, &study)?;
    // The tables are shown even where there is no room for their files.
    let written = write_digest(&digest);
    if json {
        println!("{:#}", summary::json(&digest));
    } else {
        print!("{}", terminal::render(&digest));
    }
    written?;
    Ok(Judged {
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

/// The tables and claims of a paper; `None` for a study of the user's own.
fn study_data(name: &str) -> Result<Option<StudyData>, Failure> {
    let file = |file: &str| data::embedded(&format!("papers/{name}/{file}"));
    let (Some(tables), Some(claims), Some(figures)) = (
        file("tables.toml"),
        file("claims.toml"),
        file("figures.csv"),
    ) else {
        return Ok(None);
    };
    let sources = StudySources {
        tables,
        claims,
        figures,
    };
    Ok(Some(StudyData::parse(sources)?))
}

/// A study without tables of its own: every cell in a line.
fn print_cells(run: &Run, json: bool) {
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
                    "packets": mean(cell, "packets"), "reasons": cell.reasons(),
                })
            })
            .collect();
        println!("{:#}", serde_json::Value::Array(cells));
        return;
    }
    println!("{:>3} {:>10} {:>9}  cell", "n", "elapsed s", "packets");
    for cell in &run.cells {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        println!(
            "{:>3} {:>10} {:>9}  {} {}",
            cell.valid().count(),
            number(mean(cell, "elapsed_s"), 3),
            number(mean(cell, "packets"), 1),
            cell.block,
            cell.key
        );
        for reason in cell.reasons() {
            println!("    INVALID: {reason}");
        }
    }
}
