//! Sides from runs of studies and of bottleneck searches: the samples are replicates.

use std::collections::BTreeMap;

use super::blocks::SideMachine;
use super::{Better, Metric, Scale, Side};
use crate::machines::machines;
use crate::resolution::resolution;
use crate::run::{CellState, MeasuringMachine, Run};

/// The metrics of a replicate that are compared: name, unit, and the better direction.
pub(crate) const METRICS: [(&str, &str, Better); 12] = [
    ("elapsed_s", "s", Better::Lower),
    ("packets", "", Better::Lower),
    ("bytes", "B", Better::Lower),
    ("exchanges_per_s", "/s", Better::Higher),
    ("response_mean_ms", "ms", Better::Lower),
    ("response_p50_ms", "ms", Better::Lower),
    ("response_p90_ms", "ms", Better::Lower),
    ("response_p99_ms", "ms", Better::Lower),
    ("error_pct", "%", Better::Lower),
    ("cpu_us_per_exchange", "µs", Better::Lower),
    ("cpu_total_pct", "%", Better::Neither),
    // Metrics of a capacity study: a rate per second, or a number of users.
    ("capacity", "", Better::Higher),
];

/// A side from a run's folder. The name of a metric contains its cell: the block, then the levels that vary in
/// the run.
pub fn of_run(name: &str, run: &Run) -> Side {
    let mut metrics = Vec::new();
    let mut without = BTreeMap::new();
    for cell in &run.cells {
        let cell_name = run.name(cell);
        if cell.state() == CellState::Invalid {
            let reasons = match cell.replicates.is_empty() {
                true => "it was not measured".to_owned(),
                false => cell.reasons().join("; "),
            };
            without.insert(cell_name, reasons);
            continue;
        }
        for (metric, unit, better) in METRICS {
            let (replicates, samples): (Vec<u32>, Vec<f64>) =
                cell.values(metric).into_iter().unzip();
            if samples.is_empty() {
                continue;
            }
            metrics.push(Metric {
                name: format!("{cell_name}: {metric}"),
                unit,
                better,
                scale: match metric {
                    "error_pct" => Scale::Difference,
                    _ => Scale::Ratio,
                },
                samples,
                machines: machines(&run.info, &replicates),
                is_series: false,
                resolution: match metric {
                    "error_pct" => resolution(metric).absolute,
                    _ => 0.0,
                },
                instrument: resolution(metric),
                no_interval: "fewer than two valid replicates",
            });
        }
    }
    let info = &run.info;
    let settings = BTreeMap::from([
        ("kind".to_owned(), "run".to_owned()),
        ("study".to_owned(), info.study.clone()),
    ]);
    let mut facts = BTreeMap::from([
        ("version".to_owned(), info.version.clone()),
        ("seed".to_owned(), info.seed.to_string()),
        ("command".to_owned(), info.command.join(" ")),
    ]);
    if let Some(build) = &info.build {
        let commit = build.commit.clone().unwrap_or_default();
        facts.insert("build".to_owned(), format!("{} {commit}", build.sha256));
    }
    for (fact, value) in &info.machine {
        facts.insert(format!("machine {fact}"), value.clone());
    }
    if !info.machines.is_empty() {
        facts.insert("machines".to_owned(), info.machines.len().to_string());
    }
    for machine in &info.machines {
        let rank = machine.share.rank;
        let own = machine
            .facts
            .iter()
            .filter(|(fact, _)| !info.machine.contains_key(*fact));
        facts.extend(own.map(|(fact, value)| (format!("machine {rank} {fact}"), value.clone())));
    }
    for server in &info.servers {
        facts.insert(format!("server {}", server.name), server.version.clone());
    }
    for (file, hash) in &info.study_files {
        facts.insert(format!("study file {file}"), hash.clone());
    }
    Side {
        name: name.to_owned(),
        // An INVALID cell has no samples; it is listed with its reasons.
        invalid: Vec::new(),
        settings,
        facts,
        metrics,
        without,
        machines: info.machines.iter().map(side_machine).collect(),
    }
}

fn side_machine(machine: &MeasuringMachine) -> SideMachine {
    SideMachine {
        rank: machine.share.rank,
        kernel: machine.share.boot_id.clone(),
    }
}
