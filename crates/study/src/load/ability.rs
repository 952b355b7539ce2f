//! Finds the cells that cannot run: the load engine does not support their policy, or this machine cannot set the
//! limits of their host.

use std::collections::BTreeMap;

use fathometer_sys::cgroup;

use super::factors::{self, Reads};
use crate::experiment::Needs;
use crate::spec::{Cell, Study};

/// Returns the test for cells that cannot run. Tries once to set all limits, to find those that this machine cannot
/// set.
pub(super) fn needs(study: &Study) -> Needs<'_> {
    let lacking = lacking();
    Box::new(move |cell| unsupported_policy(cell).or_else(|| obstacle(study, cell, &lacking)))
}

/// Returns the reason why the load engine does not support a policy of the cell; `None` if it supports all policies of
/// the cell.
fn unsupported_policy(cell: &Cell) -> Option<String> {
    let policies = [
        Some(cell.level("policy")),
        cell.beside().map(|(policy, _)| policy),
    ];
    policies.into_iter().flatten().find_map(|policy| {
        let why = policy.parse().ok().and_then(fathometer_load::cannot)?;
        Some(format!("policy {policy}: {why}"))
    })
}

/// The unavailable limits by name, each with the reason.
type Lacking = BTreeMap<String, String>;

/// Returns the limits that this machine cannot set.
fn lacking() -> Lacking {
    cgroup::available()
        .into_iter()
        .filter_map(|ability| Some((ability.name, ability.state.err()?)))
        .collect()
}

/// Returns the reason why this machine cannot set the limits of a cell's host; `None` if it can.
fn obstacle(study: &Study, cell: &Cell, lacking: &Lacking) -> Option<String> {
    let (limit, reason) = missing(study, cell, lacking)?;
    Some(format!("this machine cannot set a {limit}; {reason}"))
}

/// Returns the first limit that a cell requires and that cannot be set, with the reason.
fn missing<'a>(study: &Study, cell: &Cell, lacking: &'a Lacking) -> Option<(&'a str, &'a str)> {
    let quota = study
        .load_of(&cell.block)
        .map_or(0.0, |load| load.cpu_quota.value());
    // The levels were checked before the cells were selected.
    let memory = factors::MEMORY.of(cell).ok().flatten();
    let disk = factors::DISK.of(cell).ok().flatten();
    let asked = [
        (quota > 0.0).then_some("cpu limit"),
        memory.map(|_| "memory limit"),
        disk.map(|reads| match reads {
            Reads::Operations(_) => "disk operations limit",
            Reads::Bytes(_) => "disk bytes limit",
        }),
    ];
    asked
        .into_iter()
        .flatten()
        .find_map(|limit| lacking.get_key_value(limit))
        .map(|(limit, reason)| (limit.as_str(), reason.as_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fathometer_analysis::run::Mode;

    use super::*;

    const STUDY: &str = r#"
        name = "small"
        title = "A small study"
        kind = "load"
        workload = "almeida-a"
        defaults = { policy = "h1.1", coding = "identity", visit = "first", path = "lan", era = "today", server = "embedded", memory = "none", disk = "none" }
        replicates = { quick = { lan = 1 } }
        side_by_side = {}
        limits = {}
        client = { host = "www", fields = [], first_range = 0 }
        [load]
        duration_s = { quick = 1, full = 1 }
        warm_up_s = { quick = 1, full = 1 }
        timeout_s = 1
        cpu_quota = 0
        shed_at = 1
        generator_busy_pct = 85
        send_lag_p99_us = 1000
        [[block]]
        name = "free"
        purpose = "memory and disk"
        factors = { memory = ["none", "16M"], disk = ["none", "40ops", "4MBps"] }
        [[block]]
        name = "slow"
        purpose = "a processor"
        factors = { policy = ["h1.0"] }
        load = { cpu_quota = 0.1 }
    "#;

    fn left(lacking: &[&str]) -> Vec<String> {
        let study = Study::parse(STUDY).unwrap();
        let lacking = lacking
            .iter()
            .map(|limit| ((*limit).to_owned(), "no right".to_owned()))
            .collect();
        let cells = study.cells(Mode::Quick).unwrap();
        cells
            .iter()
            .filter(|cell| missing(&study, cell, &lacking).is_none())
            .map(|cell| {
                format!(
                    "{} {} {}",
                    cell.block,
                    cell.level("memory"),
                    cell.level("disk")
                )
            })
            .collect()
    }

    #[test]
    fn cells_with_limits_that_cannot_be_set_are_left_out() {
        assert_eq!(left(&[]).len(), 7);
        assert_eq!(left(&["cpu limit"]).len(), 6);
        assert_eq!(
            left(&["memory limit", "cpu limit"]),
            ["free none none", "free none 40ops", "free none 4MBps"]
        );
        assert_eq!(
            left(&["cpu limit", "memory limit", "disk operations limit"]),
            ["free none none", "free none 4MBps"]
        );
        assert_eq!(
            left(&["cpu limit", "memory limit", "disk bytes limit"]),
            ["free none none", "free none 40ops"]
        );
        assert_eq!(left(&["processor choice", "cpu account"]).len(), 7);
    }

    #[test]
    fn every_limit_that_a_cell_needs_is_an_ability_of_the_machine() {
        let abilities = cgroup::available();
        let lacking: Lacking = abilities
            .into_iter()
            .map(|ability| (ability.name, "no right".to_owned()))
            .collect();
        let study = Study::parse(STUDY).unwrap();
        let cells = study.cells(Mode::Quick).unwrap();
        let limits: BTreeSet<&str> = cells
            .iter()
            .filter_map(|cell| Some(missing(&study, cell, &lacking)?.0))
            .collect();
        assert_eq!(
            limits.into_iter().collect::<Vec<_>>(),
            [
                "cpu limit",
                "disk bytes limit",
                "disk operations limit",
                "memory limit"
            ]
        );
    }
}
