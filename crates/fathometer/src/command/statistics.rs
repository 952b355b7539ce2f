//! `fathometer statistics`: the coverage of this program's intervals, and the error rates of its designs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use fathometer_analysis::ledger::FALSE_DISCOVERIES;
use fathometer_analysis::real_cells::real_cells;
use fathometer_analysis::statistics::designs::DesignTables;
use fathometer_analysis::statistics::machine_coverage::MachineCoverage;
use fathometer_analysis::statistics::simulation::CoverageTable;
use fathometer_model::Seed;

use super::Failure;

/// Arguments of `statistics`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("table").required(true))]
pub struct StatisticsArguments {
    /// Print how often 95 % intervals contain the true value, by simulation
    #[arg(long, group = "table")]
    coverage: bool,
    /// Simulate stopping rules (planned looks, fixed numbers of replicates): print their power, their error rates, and
    /// the number of false verdicts in a ledger in which every claim is false
    #[arg(long, group = "table")]
    stopping: bool,
    /// Print how often 95 % intervals of ratios that several machines measured contain the true ratio, by simulation
    #[arg(long, group = "table")]
    machines: bool,
    /// Number of samples for each figure, or of trials of each design
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1908)]
    seed: u64,
    /// Folder of runs; their cells with at least 8 replicates are resampled. Omitted if the folder does not exist
    #[arg(long, default_value = "runs/published", value_name = "FOLDER")]
    runs: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub fn run(arguments: &StatisticsArguments) -> Result<ExitCode, Failure> {
    let seed = Seed(arguments.seed);
    if arguments.stopping {
        let tables = DesignTables::simulate(seed, arguments.trials, FALSE_DISCOVERIES);
        match arguments.json {
            true => println!("{}", serde_json::to_string_pretty(&tables)?),
            false => print!("{}", tables.markdown()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.machines {
        let table = MachineCoverage::simulate(seed, arguments.trials);
        match arguments.json {
            true => println!("{}", serde_json::to_string_pretty(&table)?),
            false => print!("{}", table.markdown()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let table = CoverageTable::simulate(seed, arguments.trials, &real_cells(&arguments.runs)?);
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&table)?),
        false => print!("{}", table.markdown()),
    }
    Ok(ExitCode::SUCCESS)
}
