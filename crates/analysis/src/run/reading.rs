//! Reads the files of a run.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

use fathometer_model::{CellKey, ReplicateRecord};
use serde::Deserialize;

use super::{Cell, RunInfo};
use crate::Error;

/// Whether a relative path can be joined to a folder without leaving it.
pub(crate) fn stays_inside(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Reads a text file. If the file ends inside a character, the incomplete character is left out.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(Error::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

pub(crate) fn malformed(path: &Path, line: usize, message: &impl ToString) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        line,
        message: message.to_string(),
    }
}

pub(super) fn run_info(path: &Path, text: &str) -> Result<RunInfo, Error> {
    /// The only member that all formats of the file have.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    let form: Form = serde_json::from_str(text).map_err(|e| malformed(path, e.line(), &e))?;
    if form.format > RunInfo::FORMAT {
        return Err(Error::Format {
            path: path.to_owned(),
            found: form.format,
            known: RunInfo::FORMAT,
        });
    }
    serde_json::from_str(text).map_err(|e| malformed(path, e.line(), &e))
}

pub(super) fn replicates(
    path: &Path,
    text: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<ReplicateRecord>, Error> {
    let mut records = Vec::new();
    let is_whole = text.ends_with('\n');
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if index + 1 == count && !is_whole => warnings.push(format!(
                "line {count} of replicates.ndjson is cut short, as when a run is killed: left out"
            )),
            Err(error) => return Err(malformed(path, index + 1, &error)),
        }
    }
    Ok(records)
}

/// Returns the number of replicates with an earlier, invalid record, and adds a warning for every repeated replicate.
/// `records` are the records of the file: a replicate of a sweep is one record with all its loads.
pub(super) fn repeated(records: &[ReplicateRecord], warnings: &mut Vec<String>) -> usize {
    let mut last: BTreeMap<(&str, &CellKey, u32), bool> = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    let mut times = 0;
    for record in records {
        let id = (record.block.as_str(), &record.cell, record.replicate);
        match last.insert(id, record.validity.is_valid()) {
            None => {}
            Some(false) => {
                repeated.insert(id);
                times += 1;
            }
            Some(true) => warnings.push(format!(
                "replicate {} of {} {} is recorded twice: the later record counts",
                record.replicate, record.block, record.cell
            )),
        }
    }
    if times > 0 {
        warnings.push(format!(
            "INVALID replicates were repeated {times} times in total; the last attempt counts"
        ));
    }
    repeated.len()
}

/// Groups records by cell. Of several records of a replicate, the last one counts.
pub(super) fn cells(records: Vec<ReplicateRecord>) -> Vec<Cell> {
    let mut cells: BTreeMap<(String, CellKey), BTreeMap<u32, ReplicateRecord>> = BTreeMap::new();
    for record in records {
        let id = (record.block.clone(), record.cell.clone());
        cells
            .entry(id)
            .or_default()
            .insert(record.replicate, record);
    }
    let mut cells: Vec<Cell> = cells
        .into_iter()
        .map(|((block, key), replicates)| Cell {
            block,
            key,
            replicates: replicates.into_values().collect(),
        })
        .collect();
    cells.sort_by(|a, b| {
        a.block
            .cmp(&b.block)
            .then_with(|| by_levels(&a.key, &b.key))
    });
    cells
}

/// Orders two cells by their levels: 2 clients before 10 clients, and numbers before words.
fn by_levels(a: &CellKey, b: &CellKey) -> Ordering {
    let place = |level: &str| level.parse().unwrap_or(f64::INFINITY);
    let pairs = a.0.iter().zip(&b.0);
    let first = pairs
        .map(|((a_factor, a), (b_factor, b))| {
            a_factor
                .cmp(b_factor)
                .then_with(|| place(a).total_cmp(&place(b)))
                .then_with(|| a.cmp(b))
        })
        .find(|order| order.is_ne());
    first.unwrap_or_else(|| a.0.len().cmp(&b.0.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_their_order_and_before_words() {
        let key = |clients: &str| CellKey([("clients".to_owned(), clients.to_owned())].into());
        let mut keys = ["none", "10", "1.5", "2", "64M", "-1"].map(key);
        keys.sort_by(by_levels);
        let levels = keys.each_ref().map(|key| key.level("clients").unwrap());
        assert_eq!(levels, ["-1", "1.5", "2", "10", "64M", "none"]);
        let other = CellKey([("cpu".to_owned(), "9".to_owned())].into());
        assert_eq!(by_levels(&keys[0], &other), Ordering::Less);
        assert_eq!(by_levels(&CellKey::default(), &other), Ordering::Less);
    }

    #[test]
    fn a_repeated_replicate_of_a_sweep_is_counted_once() {
        let record = |replicate: u32, reasons: &[&str]| ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey::default(),
            replicate,
            seed: 1,
            order: 0,
            started: 0.0,
            metrics: [1, 8, 64]
                .map(|users| (format!("exchanges_per_s_of_{users}_users"), 9.0))
                .into(),
            path: fathometer_model::PathCertificate::default(),
            validity: fathometer_model::Validity {
                reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            },
            folder: format!("cells/main/r{replicate}"),
        };
        let records = [
            record(0, &["late"]),
            record(1, &[]),
            record(0, &["late"]),
            record(0, &[]),
        ];
        let mut warnings = Vec::new();
        assert_eq!(repeated(&records, &mut warnings), 1);
        let expected = "INVALID replicates were repeated 2 times in total; the last attempt counts";
        assert_eq!(warnings, [expected]);
    }
}
