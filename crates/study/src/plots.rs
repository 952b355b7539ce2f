//! The time-sequence plots that a study requests.

use std::collections::BTreeMap;
use std::path::Path;

use fathometer_analysis::run::Plot;
use fathometer_model::ReplicateRecord;

use super::spec::{KEY_FACTORS, Study, folder_of};
use crate::run_folder::{RunFolder, WriteError};

/// The maximum number of connections in a graph. Only the first connections of the capture are drawn.
const DRAWN: usize = 64;

/// Draws the study's time-sequence plots, each from the first valid replicate of its cell.
pub(super) fn draw(
    study: &Study,
    folder: &RunFolder,
    records: &[ReplicateRecord],
) -> Result<Vec<Plot>, WriteError> {
    let valid = valid_by_cell(records);
    let mut plots = Vec::new();
    for (n, plot) in study.plots.iter().enumerate() {
        let is_drawn = |replicates: &&Vec<&ReplicateRecord>| {
            let mut records = replicates.iter();
            records.any(|record| is_of(record, &plot.cell, &study.defaults))
        };
        let Some(replicates) = valid.values().find(is_drawn) else {
            continue;
        };
        let Some((svg, left_out)) = draw_cell(folder.path(), replicates, &plot.title) else {
            continue;
        };
        folder.subfolder("plots")?;
        let file = format!("plots/time-sequence-{}.svg", n + 1);
        folder.write(&file, svg.as_bytes())?;
        plots.push(Plot {
            title: plot.title.clone(),
            caption: format!("{}{left_out}", plot.caption),
            file,
        });
    }
    Ok(plots)
}

/// Whether a record belongs to the cell of a plot. The cell has the block and the levels that the plot names, and the
/// default levels of the other key factors. A level may contain any character, so levels are compared, not folders.
fn is_of(
    record: &ReplicateRecord,
    cell: &BTreeMap<String, String>,
    defaults: &BTreeMap<String, String>,
) -> bool {
    let block = cell.get("block").map_or("main", String::as_str);
    let named = cell.iter().filter(|(factor, _)| *factor != "block");
    let default = defaults.iter().filter(|(factor, _)| {
        !cell.contains_key(*factor) && KEY_FACTORS.contains(&factor.as_str())
    });
    let mut levels = named.chain(default);
    record.block == block
        && levels.all(|(factor, level)| record.cell.level(factor) == Some(level.as_str()))
}

/// Returns the valid records of each cell, indexed by the cell's folder, in the order of their replicates.
fn valid_by_cell(records: &[ReplicateRecord]) -> BTreeMap<String, Vec<&ReplicateRecord>> {
    let mut cells: BTreeMap<String, Vec<&ReplicateRecord>> = BTreeMap::new();
    for record in records {
        if record.validity.is_valid() {
            let cell = folder_of(&record.block, &record.cell);
            cells.entry(cell).or_default().push(record);
        }
    }
    for records in cells.values_mut() {
        records.sort_by_key(|record| record.replicate);
    }
    cells
}

/// Draws the time sequence of the first of these replicates whose capture can be drawn. Also returns a sentence about
/// the connections that are not drawn.
fn draw_cell(run: &Path, replicates: &[&ReplicateRecord], title: &str) -> Option<(String, String)> {
    replicates.iter().find_map(|replicate| {
        let capture = run.join(&replicate.folder).join("capture.pcapng");
        let file = std::fs::File::open(capture).ok()?;
        let options = fathometer_packets::Options {
            time_sequences: DRAWN,
            ..fathometer_packets::Options::default()
        };
        let (accounting, sequences) =
            fathometer_packets::account_with_sequences(file, &options).ok()?;
        let svg = fathometer_packets::plot::time_sequences(&sequences, title)?;
        let left_out = match accounting.connections.len() {
            all if all > sequences.len() => {
                format!(" The first {} of {all} connections.", sequences.len())
            }
            _ => String::new(),
        };
        Some((svg, left_out))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathometer_model::{CellKey, PathCertificate, Validity};

    use super::*;

    fn record(replicate: u32, folder: &str, reasons: &[&str]) -> ReplicateRecord {
        let levels = BTreeMap::from([("path".to_owned(), "lan".to_owned())]);
        ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey(levels),
            replicate,
            seed: 1,
            order: 0,
            started: 0.0,
            metrics: BTreeMap::new(),
            path: PathCertificate::default(),
            validity: Validity {
                reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            },
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn a_plot_is_of_the_cell_with_its_levels_whatever_characters_they_have() {
        let levels = |levels: &[(&str, &str)]| -> BTreeMap<String, String> {
            let levels = levels.iter();
            levels
                .map(|(f, l)| ((*f).to_owned(), (*l).to_owned()))
                .collect()
        };
        let mut own = record(0, "r0", &[]);
        own.cell = CellKey(levels(&[
            ("server", "../mine,v2/server.toml"),
            ("path", "lan"),
        ]));
        let of = |cell: &[(&str, &str)]| is_of(&own, &levels(cell), &levels(&[("path", "lan")]));
        assert!(of(&[("server", "../mine,v2/server.toml")]));
        assert!(of(&[("block", "main"), ("path", "lan")]));
        assert!(!of(&[("block", "other"), ("path", "lan")]));
        assert!(!of(&[("path", "wan")]) && !of(&[("server", "httpd")]));
    }

    #[test]
    fn invalid_attempts_are_not_drawn_and_replicates_are_in_order() {
        let records = [
            record(10, "r10", &[]),
            record(0, "r0", &["late"]),
            record(2, "r2", &[]),
            record(0, "r0-again1", &[]),
        ];
        let valid = valid_by_cell(&records);
        let folders: Vec<&str> = valid["main/path=lan"]
            .iter()
            .map(|record| record.folder.as_str())
            .collect();
        assert_eq!(folders, ["r0-again1", "r2", "r10"]);
    }
}
