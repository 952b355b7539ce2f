//! The loads of sweep studies as cells.
//!
//! A replicate of a sweep study applies several numbers of users in turn. Its record has the figures of each under names that end
//! in it, as in `exchanges_per_s_of_8_users`. Here they become records of cells with the factor `clients`, as a load study has
//! them.

use std::collections::{BTreeMap, BTreeSet};

use fathometer_model::{CellKey, ReplicateRecord};

/// The factor whose levels are numbers of users.
pub const USERS: &str = "clients";

type CellOf<'a> = (&'a str, &'a CellKey);

/// The records with a record for each load of a sweep, and whether there are sweeps.
pub(crate) fn by_load(records: Vec<ReplicateRecord>) -> (Vec<ReplicateRecord>, bool) {
    // All numbers of users of a cell: a replicate that failed has none.
    let mut loads: BTreeMap<CellOf<'_>, BTreeSet<u32>> = BTreeMap::new();
    for record in &records {
        let users = record.metrics.keys().filter_map(|name| of_users(name));
        let users = users.map(|(_, users)| users);
        let cell = (record.block.as_str(), &record.cell);
        loads.entry(cell).or_default().extend(users);
    }
    let has_sweeps = loads.values().any(|users| !users.is_empty());
    if !has_sweeps {
        return (records, false);
    }
    let each = records.iter().flat_map(|record| {
        let users = &loads[&(record.block.as_str(), &record.cell)];
        match users.is_empty() {
            true => vec![record.clone()],
            false => users.iter().map(|&users| load(record, users)).collect(),
        }
    });
    (each.collect(), true)
}

/// What a replicate says of one number of users.
fn load(record: &ReplicateRecord, users: u32) -> ReplicateRecord {
    let metrics = record.metrics.iter().filter_map(|(name, value)| {
        let name = match of_users(name) {
            Some((name, others)) if others == users => name,
            Some(_) => return None,
            None => name,
        };
        Some((name.to_owned(), *value))
    });
    let mut cell = record.cell.clone();
    cell.0.insert(USERS.to_owned(), users.to_string());
    ReplicateRecord {
        cell,
        metrics: metrics.collect(),
        ..record.clone()
    }
}

/// `exchanges_per_s` and 8 of `exchanges_per_s_of_8_users`.
fn of_users(name: &str) -> Option<(&str, u32)> {
    let (name, users) = name.strip_suffix("_users")?.rsplit_once("_of_")?;
    Some((name, users.parse().ok()?))
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
                    ("pages_of_users", 7.0),
                ],
            ),
            // It failed.
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
                (1, "1", None),
                (1, "48", None)
            ]
        );
        assert_eq!(records[1].metrics["users_seen_pct"], 59.0);
        assert!(!records[0].metrics.contains_key("users_seen_pct"));
        assert!(
            records[..2]
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
