//! The differences between the machines of a merged run.

use fathometer_model::digits::significant;

use super::WIDTH;
use crate::digest::Digest;
use crate::machine_differences::MachineDifference;
use crate::text::{Align, Grid, hanging};

/// The largest number of machines that have their own columns.
const COLUMNS: usize = 6;

/// One row for each metric, and the missing parts; empty for a run of one machine.
pub(super) fn lines(digest: &Digest<'_>) -> String {
    let info = &digest.run.info;
    if info.machines.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    if !digest.machine_differences.is_empty() {
        text.push_str(
            "Machines: ratio of each machine to the mean of all machines, over the cells that all machines measured\n",
        );
        text.push_str(&table(&digest.machine_differences));
        text.push('\n');
    }
    let missing = info.missing_ranks();
    if !missing.is_empty() {
        let ranks: Vec<String> = missing.iter().map(u32::to_string).collect();
        let line = format!(
            "the parts of {} of {} machines (rank {})",
            missing.len(),
            missing.len() + info.machines.len(),
            ranks.join(", ")
        );
        text.push_str(&hanging("Missing: ", &line, WIDTH));
    }
    text
}

fn table(differences: &[MachineDifference]) -> String {
    let ranks: Vec<u32> = differences
        .iter()
        .flat_map(|row| row.ratios.keys().copied())
        .take(COLUMNS)
        .collect();
    let ranks: Vec<u32> = match differences[0].ratios.len() > COLUMNS {
        true => Vec::new(),
        false => ranks[..differences[0].ratios.len()].to_vec(),
    };
    let mut aligns = vec![Align::Left];
    aligns.resize(4 + ranks.len(), Align::Right);
    let mut grid = Grid::new(aligns, vec![]);
    let mut head = vec![String::new()];
    head.extend(ranks.iter().map(|rank| format!("rank {rank}")));
    head.extend(["range %", "most in a cell %", "replicates vary by %"].map(str::to_owned));
    grid.line(head);
    for row in differences {
        let mut line = vec![row.metric.clone()];
        let ratio = |rank| row.ratios.get(rank);
        line.extend(ranks.iter().map(|rank| {
            ratio(rank).map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.3}"))
        }));
        line.push(significant(row.range_pct()));
        line.push(significant(row.largest_pct));
        line.push(
            row.within_pct
                .map_or_else(|| "unknown".to_owned(), significant),
        );
        grid.line(line);
    }
    grid.render()
}
