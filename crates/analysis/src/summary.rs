//! The results of a run as JSON.

use serde_json::{Value, json};

use crate::digest::Digest;
use crate::gave_out_first;
use crate::run::Cell;

/// The format version of the summary. It changes when the meaning of a member changes or a member is removed.
pub const FORMAT: u32 = 1;

/// Returns the summary as JSON.
///
/// Members: `format`, `study`, `run` (as in `run.json`, without the path profiles), `validity`, `interval` (the method
/// of the intervals), `machines` (of a merged run), `gave_out` (of a capacity study: the resource that was exhausted
/// first in each cell), `tables` and `curves` (only measured ones), `closeness`, `claims`, `equal_cells` (the A/A tests
/// of a run with equal cells), `warnings`. Names of metrics carry their units.
pub fn json(digest: &Digest<'_>) -> Value {
    let info = &digest.run.info;
    let tables: Vec<_> = digest.tables.iter().filter(|t| t.is_measured()).collect();
    let curves: Vec<_> = digest.measured_curves().collect();
    let mut summary = json!({
        "format": FORMAT,
        "study": info.study,
        "run": {
            "title": info.title,
            "mode": info.mode,
            "command": info.command,
            "version": info.version,
            "machine": info.machine,
            "seed": info.seed,
            "started": info.started,
            "finished": info.finished,
            "eras": info.eras,
            "servers": info.servers,
            "notes": info.notes,
            "left_out": info.left_out,
        },
        "validity": digest.validity,
        "interval": {
            "level": digest.intervals.level,
            "method": "student-t",
        },
        "tables": tables,
        "curves": curves,
        "closeness": digest.closeness,
        "claims": digest.claims,
        "warnings": digest.run.warnings,
    });
    if let Some(equal) = &digest.equal_cells {
        summary["equal_cells"] = json!(equal);
    }
    let judged: Vec<Value> = digest.run.cells.iter().filter_map(gave_out).collect();
    if !judged.is_empty() {
        summary["gave_out"] = judged.into();
    }
    if !info.machines.is_empty() {
        summary["machines"] = json!({
            "parts": info.machines,
            "missing_ranks": info.missing_ranks(),
            "differences": digest.machine_differences,
        });
    }
    summary
}

/// The resource that was exhausted first in most replicates of a cell; `None` if no replicate has a result.
fn gave_out(cell: &Cell) -> Option<Value> {
    let found = gave_out_first::of_cell(cell)?;
    Some(json!({
        "block": cell.block,
        "cell": cell.key,
        "resource": found.resource,
        "replicates": found.replicates,
        "of": found.of,
    }))
}
