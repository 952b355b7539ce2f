//! A series of results of `load --save`: closed loops on one server, with its probes.

use std::collections::BTreeMap;

use fathometer_analysis::load::Summary;
use fathometer_analysis::load::summary::LoopSummary;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::series::{Load, Reading, Series};

/// The series of these results, each with its name. The server has these `cores`, or else the whole machine.
///
/// # Errors
/// When no result has all that a model needs, or when they are of different servers.
pub fn series(
    name: &str,
    results: &[(String, Summary)],
    cores: Option<f64>,
) -> Result<Series, PredictError> {
    let mut notes = Vec::new();
    let mut by_users: BTreeMap<u32, Vec<Reading>> = BTreeMap::new();
    let mut machine = Vec::new();
    let mut target: Option<(&str, &str, &str)> = None;
    for (file, summary) in results {
        let setup = &summary.setup;
        let this = (
            setup.url.as_str(),
            setup.workload.as_str(),
            setup.policy.as_str(),
        );
        if *target.get_or_insert(this) != this {
            return Err(PredictError::Unusable(format!(
                "{file} has another URL, workload or policy than the results before it: give one folder for each"
            )));
        }
        match reading(summary) {
            Ok((users, reading, processors)) => {
                by_users.entry(users).or_default().push(reading);
                machine.push(processors);
            }
            Err(reason) => notes.push(format!("{file} is not used: {reason}")),
        }
    }
    let Some(&processors) = machine.first() else {
        return Err(PredictError::Unusable(format!(
            "{name} has no usable result: {}",
            notes.join("; ")
        )));
    };
    if cores.is_none() {
        notes.push(format!(
            "the server is assumed to have the whole machine, {processors} cores; a generator on the same machine takes \
             its part. --cores sets what the server may use: 1 for a server of one thread"
        ));
    }
    Ok(Series {
        name: name.to_owned(),
        loads: by_users
            .into_iter()
            .map(|(users, readings)| Load { users, readings })
            .collect(),
        cores: cores.unwrap_or(processors),
        quota_period: None,
        link: None,
        round_trip: None,
        notes,
    })
}

/// The number of users, the figures, and the machine's processors; or what is missing.
fn reading(summary: &Summary) -> Result<(u32, Reading, f64), String> {
    if let Some(reason) = summary.validity.reasons.first() {
        return Err(format!("it is INVALID: {reason}"));
    }
    let LoopSummary::Closed { users } = summary.setup.kind else {
        return Err("it has an open loop; predictions take closed loops (load -c N)".to_owned());
    };
    let Some(server) = &summary.server else {
        return Err("the server was not probed; add --probe PID".to_owned());
    };
    let cpu: f64 = server.programs.iter().map(|program| program.cpu_s).sum();
    let rates = &summary.measured.rates;
    let (Some(rate), Some(phase)) = (rates.achieved_per_s, &summary.measured.phases.corrected)
    else {
        return Err("no exchange was completed".to_owned());
    };
    if rates.errors_share.unwrap_or(0.0) > 0.01 {
        return Err("more than 1 % of its exchanges failed".to_owned());
    }
    let busy = cpu / server.watched_s;
    let Some(processors) = server.machine.processors.filter(|_| busy > 0.0) else {
        return Err("the server's processor time was not read".to_owned());
    };
    let percentiles = [
        (50, phase.p50_ms),
        (90, phase.p90_ms),
        (95, phase.p95_ms),
        (98, phase.p98_ms),
        (99, phase.p99_ms),
    ];
    Ok((
        users,
        Reading {
            throughput: PerSecond(rate),
            response: Seconds::from_ms(phase.mean_ms),
            percentiles: percentiles
                .into_iter()
                .map(|(percent, ms)| (percent, Seconds::from_ms(ms)))
                .collect(),
            busy,
            wire_bytes: None,
        },
        processors as f64,
    ))
}
