//! Sides from runs of studies and of bottleneck searches: the samples are replicates.

use std::collections::BTreeMap;

use super::blocks::SideMachine;
use super::{Better, Metric, Scale, Side};
use crate::machines::machines;
use crate::resolution::resolution;
use crate::run::{CellState, MeasuringMachine, Run};

/// The metrics of a replicate that are compared: name, unit, and better direction.
pub(crate) const METRICS: [(&str, &str, Better); 12] = [
    ("elapsed_s", "s", Better::Lower),
    ("packets", "count", Better::Lower),
    ("ip_bytes", "B", Better::Lower),
    ("exchanges_per_s", "/s", Better::Higher),
    ("response_mean_ms", "ms", Better::Lower),
    ("response_p50_ms", "ms", Better::Lower),
    ("response_p98_ms", "ms", Better::Lower),
    ("response_p99_ms", "ms", Better::Lower),
    ("error_pct", "%", Better::Lower),
    ("cpu_us_per_exchange", "µs", Better::Lower),
    // "%" without more text is the unit of shares, whose limits are percentage points.
    ("cpu_total_pct", "% of the quota", Better::Neither),
    // The metric of a capacity study. An empty unit would mark it as a share.
    ("capacity", "/s or users", Better::Higher),
];

/// Creates a side from a run. The name of a metric contains its cell: the block, then the levels that vary in the run.
pub fn of_run(name: &str, run: &Run) -> Side {
    let mut metrics = Vec::new();
    let (mut without, mut left_out) = (BTreeMap::new(), BTreeMap::new());
    for cell in &run.cells {
        let cell_name = run.name(cell);
        match cell.state() {
            CellState::Valid => {}
            CellState::PartlyValid => {
                let (all, valid) = (cell.replicates.len(), cell.valid().count());
                left_out.insert(
                    format!("{cell_name}, {} of {all} replicates", all - valid),
                    format!("INVALID: {}", cell.reasons().join("; ")),
                );
            }
            CellState::Invalid => {
                let reasons = match cell.replicates.is_empty() {
                    true => "it was not measured".to_owned(),
                    false => cell.reasons().join("; "),
                };
                without.insert(cell_name, reasons);
                continue;
            }
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
        invalid: invalid(run, &without),
        settings,
        facts,
        metrics,
        without,
        left_out,
        machines: info.machines.iter().map(side_machine).collect(),
    }
}

/// The reasons why a whole run is INVALID: it has no valid replicate. In other runs, an INVALID cell has no samples and
/// is listed with its reasons.
fn invalid(run: &Run, without: &BTreeMap<String, String>) -> Vec<String> {
    if run.cells.iter().any(|cell| cell.valid().next().is_some()) {
        return Vec::new();
    }
    let mut reasons: Vec<String> = Vec::new();
    for reason in without.values() {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    match reasons.is_empty() {
        true => vec!["the run has no replicates".to_owned()],
        false => vec![format!("no valid replicate: {}", reasons.join("; "))],
    }
}

fn side_machine(machine: &MeasuringMachine) -> SideMachine {
    SideMachine {
        rank: machine.share.rank,
        kernel: machine.share.boot_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use fathometer_model::{CellKey, PathCertificate, ReplicateRecord, Validity};

    use super::super::{Comparison, Design};
    use super::*;
    use crate::run::{Cell, RunInfo};

    /// A run with one cell for each list, and one replicate for each item. `Some` is the reason why the replicate is
    /// INVALID.
    fn run(cells: &[&[Option<&str>]]) -> Run {
        let info: RunInfo = serde_json::from_value(serde_json::json!({
            "format": RunInfo::FORMAT, "study": "small", "title": "", "mode": "quick",
            "command": [], "version": "0.0.0", "machine": {}, "seed": 1, "started": 0.0
        }))
        .unwrap();
        let cell = |(place, replicates): (usize, &&[Option<&str>])| {
            let levels = [("path".to_owned(), format!("path{place}"))];
            let key = CellKey(levels.into());
            let record = |(n, reason): (usize, &Option<&str>)| ReplicateRecord {
                block: "main".to_owned(),
                cell: key.clone(),
                replicate: n as u32,
                seed: 1,
                order: n as u32,
                started: 0.0,
                metrics: [("packets".to_owned(), 100.0)].into(),
                path: PathCertificate::default(),
                validity: Validity {
                    reasons: reason.iter().map(|&reason| reason.to_owned()).collect(),
                },
                folder: format!("cells/main/path=path{place}/r{n}"),
            };
            Cell {
                block: "main".to_owned(),
                replicates: replicates.iter().enumerate().map(record).collect(),
                key,
            }
        };
        Run {
            folder: PathBuf::new(),
            info,
            cells: cells.iter().enumerate().map(cell).collect(),
            plots: Vec::new(),
            warnings: Vec::new(),
            repeated: 0,
            has_sweeps: false,
        }
    }

    #[test]
    fn a_run_without_a_valid_replicate_is_invalid() {
        let late = Some("late");
        let valid = of_run("before", &run(&[&[None, None], &[None]]));
        assert_eq!(valid.invalid, Vec::<String>::new());
        let invalid = of_run("after", &run(&[&[late, late], &[Some("lost")]]));
        assert_eq!(invalid.invalid, ["no valid replicate: late; lost"]);
        let comparison = Comparison::of(&valid, &invalid, Design::Separate, 0.03);
        assert_eq!(
            comparison.invalid,
            ["after: no valid replicate: late; lost"]
        );
        assert_eq!(of_run("", &run(&[])).invalid, ["the run has no replicates"]);
    }

    #[test]
    fn invalid_replicates_beside_valid_ones_are_listed() {
        let side = of_run("a", &run(&[&[None, Some("late"), None], &[Some("lost")]]));
        assert_eq!(side.invalid, Vec::<String>::new());
        assert_eq!(side.metrics[0].samples, [100.0; 2]);
        let comparison = Comparison::of(&side, &side, Design::Separate, 0.03);
        let missing = comparison.missing.iter();
        let missing: BTreeSet<(&str, &str)> = missing.map(|it| (&*it.what, &*it.reason)).collect();
        let expected = [
            ("path0, 1 of 3 replicates", "INVALID: late"),
            ("path1", "no valid replicate: lost"),
        ];
        assert_eq!(missing, expected.into());
    }

    #[test]
    fn studies_record_every_metric_that_is_compared() {
        let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs/published");
        let runs = [
            "2026-11-27-2-core-vm-nielsen97",
            "2026-11-28-2-core-vm-barford98-cpu",
        ];
        let recorded: BTreeSet<String> = runs
            .iter()
            .flat_map(|run| Run::records(&published.join(run)).unwrap())
            .flat_map(|record| record.metrics.into_keys())
            .collect();
        // No run of a capacity study is published.
        let compared = METRICS.iter().filter(|(name, ..)| *name != "capacity");
        for (metric, ..) in compared {
            assert!(recorded.contains(*metric), "{metric}");
        }
    }
}
