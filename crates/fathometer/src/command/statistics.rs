//! `fathometer statistics`: what the intervals of this program cover.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::real_cells::real_cells;
use fathometer_analysis::statistics::simulation::CoverageTable;
use fathometer_model::Seed;

use super::Failure;

/// Arguments of `statistics`.
#[derive(Debug, Args)]
pub struct StatisticsArguments {
    /// Print how often 95 % intervals contain the true value, by simulation
    #[arg(long, required = true)]
    coverage: bool,
    /// Samples for each figure
    #[arg(long, default_value_t = 2_000)]
    trials: u32,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1908)]
    seed: u64,
    /// Folder of runs whose cells with at least 8 replicates are resampled; left out if it does not exist
    #[arg(long, default_value = "runs/published", value_name = "FOLDER")]
    runs: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub fn run(arguments: &StatisticsArguments) -> Result<ExitCode, Failure> {
    let table = CoverageTable::simulate(
        Seed(arguments.seed),
        arguments.trials,
        &real_cells(&arguments.runs)?,
    );
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&table)?),
        false => print!("{}", table.markdown()),
    }
    Ok(ExitCode::SUCCESS)
}
