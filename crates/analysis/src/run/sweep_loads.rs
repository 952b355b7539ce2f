//! The loads of sweep studies as cells.
//!
//! A replicate of a sweep study applies one number of users after the other. Its record has the figures of all loads:
//! the name of a metric ends in the number of users, as in `exchanges_per_s_of_8_users`. This module splits the record
//! into one record for each cell, with the factor `clients`, as in a load study. Batches, as in
//! `exchanges_per_s_of_batches_of_64`, have the level `batch-64` of this factor.

use std::collections::{BTreeMap, BTreeSet};

use fathometer_model::{CellKey, ReplicateRecord};

/// The factor whose levels are numbers of users.
pub const USERS: &str = "clients";

/// The start of the levels of batches.
pub const BATCH: &str = "batch-";

type CellOf<'a> = (&'a str, &'a CellKey);

/// A load of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    Users(u32),
    Batches(u32),
}

impl Load {
    /// The level of the factor [`USERS`].
    fn level(self) -> String {
        match self {
            Load::Users(users) => users.to_string(),
            Load::Batches(size) => format!("{BATCH}{size}"),
        }
    }
}

/// Splits records into one record for each load of a sweep, and returns whether there are sweeps.
pub(crate) fn by_load(records: Vec<ReplicateRecord>) -> (Vec<ReplicateRecord>, bool) {
    // The numbers of users are collected over the whole cell, because a failed replicate has no figures.
    let mut loads: BTreeMap<CellOf<'_>, BTreeSet<Load>> = BTreeMap::new();
    for record in &records {
        let of_record = record.metrics.keys().filter_map(|name| of_load(name));
        let of_record = of_record.map(|(_, load)| load);
        let cell = (record.block.as_str(), &record.cell);
        loads.entry(cell).or_default().extend(of_record);
    }
    let has_sweeps = loads.values().any(|loads| !loads.is_empty());
    if !has_sweeps {
        return (records, false);
    }
    let each = records.iter().flat_map(|record| {
        let loads = &loads[&(record.block.as_str(), &record.cell)];
        match loads.is_empty() {
            true => vec![record.clone()],
            false => loads.iter().map(|&load| record_of(record, load)).collect(),
        }
    });
    (each.collect(), true)
}

/// The record of one load of a replicate.
fn record_of(record: &ReplicateRecord, load: Load) -> ReplicateRecord {
    let metrics = record.metrics.iter().filter_map(|(name, value)| {
        let name = match of_load(name) {
            Some((name, other)) if other == load => name,
            Some(_) => return None,
            None => name,
        };
        Some((name.to_owned(), *value))
    });
    let mut cell = record.cell.clone();
    cell.0.insert(USERS.to_owned(), load.level());
    ReplicateRecord {
        cell,
        metrics: metrics.collect(),
        ..record.clone()
    }
}

/// Splits the name of a metric into metric and load: `exchanges_per_s_of_8_users` is `exchanges_per_s` with 8 users.
fn of_load(name: &str) -> Option<(&str, Load)> {
    if let Some((name, size)) = name.rsplit_once("_of_batches_of_") {
        return Some((name, Load::Batches(size.parse().ok()?)));
    }
    let (name, users) = name.strip_suffix("_users")?.rsplit_once("_of_")?;
    Some((name, Load::Users(users.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use fathometer_model::{PathCertificate, Validity};

    use super::*;

    fn record(replicate: u32, metrics: &[(&str, f64)]) -> ReplicateRecord {
        let named = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey([("server".to_owned(), "nginx".to_owned())].into()),
            replicate,
            seed: 1,
            order: replicate,
            started: 0.0,
            metrics: named.collect(),
            path: PathCertificate::default(),
            validity: Validity::default(),
            folder: format!("cells/main/server=nginx/r{replicate}"),
        }
    }

    #[test]
    fn a_replicate_of_a_sweep_has_a_record_for_each_load() {
        let (records, has_sweeps) = by_load(vec![
            record(
                0,
                &[
                    ("exchanges_per_s_of_1_users", 95.0),
                    ("exchanges_per_s_of_48_users", 211.0),
                    ("users_seen_pct_of_48_users", 59.0),
                    ("cpu_us_per_exchange_of_batches_of_64", 120.0),
                    ("pages_of_users", 7.0),
                ],
            ),
            // A failed replicate.
            record(1, &[]),
        ]);
        assert!(has_sweeps);
        let found: Vec<(u32, &str, Option<f64>)> = records
            .iter()
            .map(|record| {
                let rate = record.metrics.get("exchanges_per_s").copied();
                (record.replicate, record.cell.level(USERS).unwrap(), rate)
            })
            .collect();
        assert_eq!(
            found,
            [
                (0, "1", Some(95.0)),
                (0, "48", Some(211.0)),
                (0, "batch-64", None),
                (1, "1", None),
                (1, "48", None),
                (1, "batch-64", None)
            ]
        );
        assert_eq!(records[2].metrics["cpu_us_per_exchange"], 120.0);
        assert_eq!(records[1].metrics["users_seen_pct"], 59.0);
        assert!(!records[0].metrics.contains_key("users_seen_pct"));
        assert!(
            records[..3]
                .iter()
                .all(|record| record.metrics["pages_of_users"] == 7.0)
        );
    }

    #[test]
    fn other_records_stay_as_they_are() {
        let records = vec![record(0, &[("exchanges_per_s", 95.0)])];
        assert_eq!(by_load(records.clone()), (records, false));
    }
}
