//! The resources that were exhausted first in the cells of a capacity study.

use super::WIDTH;
use crate::gave_out_first;
use crate::run::Run;
use crate::text::hanging;

/// One line for each cell with a result, with the most frequent resource of its replicates; empty for other studies.
pub(super) fn section(run: &Run) -> String {
    let each = run.cells.iter().filter_map(|cell| {
        let found = gave_out_first::of_cell(cell)?;
        let name = format!("  {}, {}: ", cell.block, run.name(cell));
        Some(hanging(&name, &found.to_string(), WIDTH))
    });
    let lines: String = each.collect();
    match lines.is_empty() {
        true => lines,
        false => {
            format!("\nResource that was exhausted first, with the number of replicates\n{lines}")
        }
    }
}
