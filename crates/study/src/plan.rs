//! Plans a run without measuring: its cells, its replicates, and the duration of their windows.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::civil;
use fathometer_analysis::run::Mode;
use serde::Serialize;

use crate::kinds;
use crate::materials::Selection;
use crate::run::{Design, Request, RunError};
use crate::share;
use crate::spec::Cell;

/// The plan of a run, without its execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunPlan {
    /// The version of this format.
    pub format: u32,
    /// The study.
    pub study: String,
    /// The mode of the run.
    pub mode: Mode,
    /// The blocks whose cells would run, in the order of the study's file.
    pub blocks: Vec<BlockPlan>,
    /// The number of cells that this machine cannot run, for each reason.
    pub left_out: BTreeMap<String, usize>,
}

/// The part of a plan for one block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockPlan {
    /// The name of the block.
    pub block: String,
    /// The number of cells.
    pub cells: usize,
    /// The number of replicates of these cells on this machine.
    pub replicates: u32,
    /// The total length of all warm-ups and measured windows, in seconds. `None` if a replicate has no fixed length.
    pub windows_s: Option<f64>,
}

/// Returns the plan of the run that a request describes.
///
/// # Errors
/// When the study is invalid, or a path, era, server or workload that it names is not available.
pub fn plan(request: &Request) -> Result<RunPlan, RunError> {
    let study = &request.study;
    let experiment = kinds::of(study)?;
    let Design { cells, share, .. } = Design::of(request)?;
    let Selection {
        materials,
        cells,
        left_out,
    } = Selection::of(study, experiment, &request.files.catalog(), cells)?;
    let length = |cell: &Cell| {
        let (profile, _) = materials.profiles.get(cell.level("path"))?;
        experiment.window(study, cell, request.mode, profile)
    };
    let of_block = |name: &String| {
        let cells: Vec<Cell> = cells
            .iter()
            .filter(|cell| cell.block == *name)
            .cloned()
            .collect();
        let of_cell = |cell: &Cell| {
            let replicates = share::planned(share.as_ref(), std::slice::from_ref(cell));
            Some(length(cell)? * replicates)
        };
        let windows: Option<Duration> = cells.iter().map(of_cell).sum();
        (!cells.is_empty()).then(|| BlockPlan {
            block: name.clone(),
            cells: cells.len(),
            replicates: share::planned(share.as_ref(), &cells),
            windows_s: windows.map(|windows| windows.as_secs_f64()),
        })
    };
    let mut reasons = BTreeMap::new();
    for cell in left_out {
        *reasons.entry(cell.reason).or_default() += 1;
    }
    Ok(RunPlan {
        format: 1,
        study: study.name.clone(),
        mode: request.mode,
        blocks: study
            .blocks
            .iter()
            .filter_map(|block| of_block(&block.name))
            .collect(),
        left_out: reasons,
    })
}

impl RunPlan {
    /// Returns the sum of all blocks.
    pub fn total(&self) -> BlockPlan {
        let windows = self.blocks.iter().map(|block| block.windows_s);
        BlockPlan {
            block: "all".to_owned(),
            cells: self.blocks.iter().map(|block| block.cells).sum(),
            replicates: self.blocks.iter().map(|block| block.replicates).sum(),
            windows_s: windows.sum(),
        }
    }

    /// Returns the plan as text.
    pub fn text(&self) -> String {
        let total = self.total();
        let rows: Vec<&BlockPlan> = self.blocks.iter().chain([&total]).collect();
        let width = rows.iter().map(|row| row.block.len()).max().unwrap_or(0);
        let mut text = format!(
            "{}, {} mode\n{:width$}  {:>5}  {:>10}  {:>20}\n",
            self.study,
            self.mode.name(),
            "block",
            "cells",
            "replicates",
            "warm-up and windows"
        );
        for row in rows {
            let windows = match row.windows_s {
                Some(seconds) => civil::duration(seconds),
                None => "-".to_owned(),
            };
            text += &format!(
                "{:width$}  {:>5}  {:>10}  {windows:>20}\n",
                row.block, row.cells, row.replicates
            );
        }
        text += match total.windows_s {
            Some(_) => {
                "Building the hosts, starting the servers, warming their caches and repeating INVALID replicates takes \
                 longer: a run shows the remaining time.\n"
            }
            None => {
                "A replicate has no fixed length: a run shows the number of remaining replicates.\n"
            }
        };
        for (reason, count) in &self.left_out {
            let cells = if *count == 1 { "cell" } else { "cells" };
            text += &format!("left out: {count} {cells}: {reason}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, windows_s: Option<f64>) -> BlockPlan {
        BlockPlan {
            block: name.to_owned(),
            cells: 2,
            replicates: 10,
            windows_s,
        }
    }

    fn of(blocks: Vec<BlockPlan>) -> RunPlan {
        RunPlan {
            format: 1,
            study: "small".to_owned(),
            mode: Mode::Quick,
            blocks,
            left_out: [("nginx is not installed".to_owned(), 1)].into(),
        }
    }

    #[test]
    fn the_text_has_each_block_their_sum_and_what_is_left_out() {
        let text = of(vec![
            block("main", Some(100.0)),
            block("a-a", Some(3_600.0)),
        ])
        .text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[2], ["main", "2", "10", "1", "min", "40", "s"]);
        assert_eq!(lines[4], ["all", "4", "20", "1", "h", "1", "min"]);
        assert!(text.ends_with("left out: 1 cell: nginx is not installed\n"));
    }

    #[test]
    fn a_sum_with_an_unknown_length_is_unknown() {
        let plan = of(vec![block("main", Some(100.0)), block("search", None)]);
        assert_eq!(plan.total().windows_s, None);
        assert!(plan.text().contains("no fixed length"));
    }
}
