//! A series from results of `load --save`: closed loops on one server, and open loops with batches, with probes of the server.
//! Without probes, a series has closed loops without CPU time.

use std::collections::BTreeMap;

use fathometer_analysis::load::Summary;
use fathometer_analysis::load::summary::{LoopSummary, Phase, PhasesSummary};
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::series::{Admission, Load, MOST_ERRORS, Reading, Series, before, is_connection_each};

/// Creates the series of these results; each result has a name. The server has `cores` cores; `None` for the whole
/// machine.
///
/// # Errors
/// When no result has all figures that a model needs, or when the results are of different servers.
pub fn series(
    name: &str,
    results: &[(String, Summary)],
    cores: Option<f64>,
) -> Result<Series, PredictError> {
    let mut notes = Vec::new();
    let mut by_users: BTreeMap<u32, Vec<Reading>> = BTreeMap::new();
    let mut by_size = by_users.clone();
    let mut failing = by_users.clone();
    let mut machine = Vec::new();
    let mut target: Option<(&str, &str, &str)> = None;
    let is_probed = results.iter().any(|(_, summary)| summary.server.is_some());
    for (file, summary) in results {
        let setup = &summary.setup;
        let this = (
            setup.url.as_str(),
            setup.workload.as_str(),
            setup.policy.as_str(),
        );
        if *target.get_or_insert(this) != this {
            return Err(PredictError::Unusable(format!(
                "{file} and the previous results differ in URL, workload or policy: use a separate folder for each"
            )));
        }
        match reading(summary, is_probed) {
            Ok((Offered::Batches(size), reading, _)) if reading.errors <= MOST_ERRORS => {
                by_size.entry(size).or_default().push(reading);
            }
            Ok((Offered::Batches(_), reading, _)) => notes.push(format!(
                "{file} is not fitted: {:.1} % of its exchanges failed",
                100.0 * reading.errors
            )),
            Ok((Offered::Users(users), reading, processors)) => {
                let fails = reading.errors > MOST_ERRORS;
                if fails {
                    notes.push(format!(
                        "{file} is not fitted: {:.1} % of its exchanges failed",
                        100.0 * reading.errors
                    ));
                }
                let loads = if fails { &mut failing } else { &mut by_users };
                loads.entry(users).or_default().push(reading);
                machine.extend((!fails).then_some(processors));
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
    if cores.is_none() && is_probed {
        notes.push(format!(
            "the server is assumed to have the whole machine, {processors} cores; a generator on the same machine also uses \
             them. --cores sets the number of cores of the server: 1 for a server with one thread"
        ));
    }
    Ok(Series {
        name: name.to_owned(),
        loads: loads(by_users),
        batches: loads(by_size),
        has_processor_time: is_probed,
        cores: cores.unwrap_or(processors),
        quota: None,
        link: None,
        round_trip: None,
        further_trips: Vec::new(),
        server: None,
        admission: admission(results),
        failing: loads(failing),
        page_cache: Err(
            "results of load --save do not record the memory and the page cache of the server; predict a study's run instead"
                .to_owned(),
        ),
        notes,
    })
}

/// Returns the readings by number of users.
fn loads(readings: BTreeMap<u32, Vec<Reading>>) -> Vec<Load> {
    let each = readings.into_iter();
    each.map(|(users, readings)| Load {
        users,
        readings,
        has_all_latencies: true,
    })
    .collect()
}

/// Returns the round trips and the time-out of the results' clients. The results do not show the number of workers.
fn admission(results: &[(String, Summary)]) -> Admission {
    let connects = results
        .iter()
        .filter_map(|(_, summary)| summary.measured.phases.connect.as_ref());
    let trip = connects.map(|phase| phase.min_ms).fold(f64::NAN, f64::min);
    let first = results.first().map(|(_, summary)| &summary.setup);
    let is_each = first.is_some_and(|setup| is_connection_each(&setup.policy));
    Admission {
        timeout: first
            .map(|setup| Seconds(setup.timeout_s))
            .filter(|timeout| timeout.0 > 0.0),
        before: match trip.is_finite() {
            true => before(Seconds::from_ms(trip), is_each),
            false => Seconds(0.0),
        },
        connects: is_each,
        ..Admission::default()
    }
}

/// The load of a result.
enum Offered {
    /// A closed loop with this number of users.
    Users(u32),
    /// An open loop with batches of this size.
    Batches(u32),
}

/// Returns the load, the figures, and the number of the machine's processors; the error names the missing figure. If
/// `is_probed` is false, no result has a probe, and the CPU time is 0.
fn reading(summary: &Summary, is_probed: bool) -> Result<(Offered, Reading, f64), String> {
    if let Some(reason) = summary.validity.reasons.first() {
        return Err(format!("it is INVALID: {reason}"));
    }
    let offered = match summary.setup.kind {
        LoopSummary::Closed { users } => Offered::Users(users),
        LoopSummary::Open {
            batch: Some(size), ..
        } => Offered::Batches(size.get()),
        LoopSummary::Open { .. } => {
            return Err(
                "it has an open loop without batches; predictions need closed loops (load -c N), or open loops with --batch N"
                    .to_owned(),
            );
        }
    };
    let (busy, processors) = match (&summary.server, &offered) {
        (Some(server), _) => {
            let cpu: f64 = server.programs.iter().map(|program| program.cpu_s).sum();
            let busy = cpu / server.watched_s;
            let processors = server.machine.processors.filter(|_| busy > 0.0);
            let processors =
                processors.ok_or_else(|| "the server's CPU time was not read".to_owned())?;
            (busy, processors as f64)
        }
        // Without any probe, throughput and latency of closed loops can still be predicted.
        (None, Offered::Users(_)) if !is_probed => (0.0, 1.0),
        (None, _) => return Err("the server was not probed; add --probe PID".to_owned()),
    };
    let rates = &summary.measured.rates;
    let (Some(rate), Some(phase)) = (rates.achieved_per_s, &summary.measured.phases.corrected)
    else {
        return Err("no exchange was completed".to_owned());
    };
    let errors = rates.errors_share.unwrap_or(0.0);
    // Percentiles include failed exchanges.
    let percentiles = [
        (50, phase.p50_ms),
        (90, phase.p90_ms),
        (95, phase.p95_ms),
        (98, phase.p98_ms),
        (99, phase.p99_ms),
    ];
    Ok((
        offered,
        Reading {
            throughput: PerSecond(rate),
            response: Seconds::from_ms(completed_mean_ms(&summary.measured.phases, phase)),
            percentiles: percentiles
                .into_iter()
                .filter(|_| errors <= MOST_ERRORS)
                .map(|(percent, ms)| (percent, Seconds::from_ms(ms)))
                .collect(),
            busy,
            errors,
            disk: None,
            wire_bytes: None,
        },
        processors,
    ))
}

/// Returns the mean latency of completed exchanges. `all` also includes failed exchanges, with the time that their
/// clients waited.
fn completed_mean_ms(phases: &PhasesSummary, all: &Phase) -> f64 {
    let sum = |phase: &Phase| phase.count as f64 * phase.mean_ms;
    match &phases.failed {
        Some(failed) if failed.count < all.count => {
            (sum(all) - sum(failed)) / (all.count - failed.count) as f64
        }
        _ => all.mean_ms,
    }
}
