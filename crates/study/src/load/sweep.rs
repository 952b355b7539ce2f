//! Sweep studies: a replicate applies several numbers of users to one server, in turn and in short slices.
//!
//! The speed of a virtual machine changes in bursts that last for seconds to minutes. In a sweep each number of users has its part
//! of the same minutes: a round has one slice of each, in random order. A figure of the replicate is the pseudo-median over its
//! rounds, which a burst in a few of them hardly moves.
//!
//! Slices are separate load tests. The connections of one are closed before the next begins. The server may have a pause after
//! slices that overload it, so that its mean load stays low.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_analysis::run::Mode;
use fathometer_analysis::statistics::pseudo_median;
use fathometer_load::{Options, Users};
use fathometer_model::{Instant, Validity};
use fathometer_path::Profile;
use fathometer_sys::probe::Samples;
use serde::Serialize;

use super::replicate::Replicate;
use super::site::Sites;
use super::{ability, factors, levels, memory, metrics, others};
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared,
};
use crate::factor::AnyFactor;
use crate::run_folder::write_lines;
use crate::schedule::rest;
use crate::spec::{Cell, Study, Sweep};
use fathometer_lab::trial::{ServerAccess, window_of};

/// The experiment of sweep studies.
pub static SWEEP: SweepExperiment = SweepExperiment;

/// The file of a replicate's slices.
const SLICES: &str = "slices.ndjson";

/// A slice takes up to this time longer than its window: its connections are closed, and the next one is set up.
const BETWEEN: Duration = Duration::from_millis(50);

/// A replicate is a sweep over numbers of users.
pub struct SweepExperiment;

impl Experiment for SweepExperiment {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn meaning(&self) -> &'static str {
        "a replicate applies several numbers of users to one server, in turn and in short slices"
    }

    fn factors(&self) -> Vec<&'static dyn AnyFactor> {
        factors::of_searches()
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (SLICES, "the figures of every slice, one per line, in order"),
            ("probes.ndjson", "every reading of the probes, one per line"),
        ]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        let (Some(_), Some(sweep)) = (&study.load, &study.sweep) else {
            return Err(
                "a study with kind = \"sweep\" has a table [sweep], which has the numbers of users, and a table [load], which \
                 says how long a slice is"
                    .to_owned(),
            );
        };
        sweep.check()
    }

    fn needs<'a>(&self, study: &'a Study, _: &'a Servers) -> Needs<'a> {
        ability::needs(study)
    }

    fn window(&self, study: &Study, cell: &Cell, mode: Mode, path: &Profile) -> Option<Duration> {
        let sweep = study.sweep.as_ref()?;
        let (warm_up, duration) = levels::lengths(&study.load_of(&cell.block)?, mode, path);
        let slices = sweep.users.len() as u32;
        let round = (warm_up + duration + BETWEEN) * slices + sweep.pauses_of_a_round();
        Some(round * sweep.rounds.of(mode))
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let (sites, notes) = Sites::write(preparation)?;
        Ok(Prepared {
            replicates: Box::new(Sweeps { sites }),
            notes,
        })
    }
}

/// The replicates of a sweep study, with the workloads of all its cells.
struct Sweeps {
    sites: Sites,
}

impl Replicates for Sweeps {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let sweep = shared.study.sweep.as_ref();
        let sweep = sweep.expect("a sweep study has its numbers of users");
        let replicate = Replicate::start(shared, setup, &self.sites)?;
        let levels = &replicate.levels;
        let trial = replicate.trial()?;
        let series = trial.run_series(&shared.building, shared.interrupted, |access| {
            applied(&replicate, sweep, access)
        })?;
        let mut slices = series.value?;
        let mut validity = series.validity;
        for slice in &mut slices {
            slice.read_processor(&series.samples, levels.quota());
        }
        write_lines(&setup.folder.join(SLICES), &slices)?;
        let probes = setup.folder.join("probes.ndjson");
        write_lines(&probes, &series.samples.readings)?;
        let mut metrics = centres(&slices, &mut validity);
        metrics.extend(levels.quota_times(&series.limits));
        if let Some(whole) = series.samples.whole() {
            if levels.limits.memory.is_some()
                && let Some(reason) = memory::taken_by_others(&series.samples, &whole)
            {
                validity.invalidate(reason);
            }
            if let Some((busy, limit)) = others::busy_pct(&whole).zip(levels.others_limit)
                && let Some(reason) = others::reason(busy, limit)
            {
                validity.invalidate(reason);
            }
        }
        Ok(Finished {
            figures: replicate.figures(metrics, series.certificate, validity),
            applied: series.applied,
        })
    }
}

/// One load test of a sweep.
#[derive(Debug, Clone, Serialize)]
struct Slice {
    users: u32,
    /// Its window, in seconds since the start of the replicate.
    from_s: f64,
    to_s: f64,
    /// Why it is not used; empty: it is.
    invalid: Vec<String>,
    /// Its figures by the names of the metrics of load studies.
    figures: BTreeMap<String, f64>,
}

impl Slice {
    fn of(users: u32, result: &LoadResult, replicate: &Replicate<'_>) -> Slice {
        let mut validity = result.validity.clone();
        metrics::judge(result, &replicate.levels.load, &mut validity);
        let mut figures = metrics::of_clients(result);
        // Users who do not think are always in an exchange: throughput times latency is their number (Little 1961), unless
        // exchanges take longer than the slice.
        let seen = figures.get("littles_load_factor").copied();
        if let Some(seen) = seen.filter(|_| !replicate.levels.has_pauses()) {
            figures.insert("users_seen_pct".to_owned(), 100.0 * seen / f64::from(users));
        }
        let (from, to) = window_of(result, replicate.clock);
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        Slice {
            users,
            from_s: seconds(from),
            to_s: seconds(to),
            invalid: validity.reasons,
            figures,
        }
    }

    /// Adds the processor time of the host, from the readings within the window. A slice without two of them is not used.
    fn read_processor(&mut self, samples: &Samples, quota: f64) {
        let at = |seconds: f64| Instant::ZERO + Duration::from_secs_f64(seconds);
        let busy = samples
            .within(at(self.from_s), at(self.to_s))
            .and_then(|step| {
                let cpu = step.change.groups.first()?.as_ref()?.cpu.as_ref()?;
                step.share(cpu.total)
            });
        let Some(busy) = busy else {
            let reason = "the probes have no two readings in its window";
            return self.invalid.push(reason.to_owned());
        };
        let figures = &mut self.figures;
        figures.insert("cpu_total_pct".to_owned(), 100.0 * busy / quota);
        if let Some(rate) = figures.get("exchanges_per_s").filter(|rate| **rate > 0.0) {
            figures.insert("cpu_us_per_exchange".to_owned(), 1e6 * busy / rate);
        }
    }
}

/// All slices, in order.
fn applied(
    replicate: &Replicate<'_>,
    sweep: &Sweep,
    access: &ServerAccess,
) -> Result<Vec<Slice>, ReplicateError> {
    let (shared, levels) = (replicate.shared, &replicate.levels);
    let seeds = replicate.seed.stream("sweep");
    let mut slices = Vec::new();
    for round in 0..sweep.rounds.of(shared.mode) {
        let order = seeds.stream("order").child(u64::from(round));
        let mut users: Vec<(u64, u32)> = sweep
            .users
            .iter()
            .map(|&users| (order.draw(u64::from(users)), users))
            .collect();
        users.sort_unstable();
        for (_, users) in users {
            if (shared.interrupted)() {
                return Err(ReplicateError::Interrupted);
            }
            let mut options = Options {
                users: Users::Closed {
                    users,
                    start_interval: levels.warm_up / 4 / users,
                    steps: Vec::new(),
                },
                seed: seeds.child(slices.len() as u64),
                ..replicate.options()?
            };
            access.apply_to(&mut options);
            let began = replicate.clock.now();
            let result =
                fathometer_load::run(options, replicate.clock, shared.interrupted, &mut |_| {})?;
            let mut slice = Slice::of(users, &result, replicate);
            if let Some(pause) = sweep.pause_after(users) {
                let ended = replicate.clock.now();
                rest(pause, shared.interrupted);
                let cycle = replicate.clock.now().since(began);
                let share = ended.since(began).as_secs_f64() / cycle.as_secs_f64();
                let figures = &mut slice.figures;
                figures.insert("duty_cycle_pct".to_owned(), 100.0 * share);
            }
            slices.push(slice);
        }
    }
    Ok(slices)
}

/// The pseudo-medians over the slices of each number of users, as in `exchanges_per_s_of_8_users`. With fewer than half of
/// its slices a number of users makes the replicate invalid.
fn centres(slices: &[Slice], validity: &mut Validity) -> BTreeMap<String, f64> {
    let mut by_users: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        by_users.entry(slice.users).or_default().push(slice);
    }
    let mut metrics = BTreeMap::new();
    for (users, slices) in by_users {
        let used = slices.iter().filter(|slice| slice.invalid.is_empty());
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, value) in used.clone().flat_map(|slice| &slice.figures) {
            values.entry(name).or_default().push(*value);
        }
        for (name, values) in values {
            let name = format!("{name}_of_{users}_users");
            metrics.extend(pseudo_median(&values).map(|centre| (name, centre)));
        }
        let used = used.count();
        if 2 * used < slices.len() {
            let reasons = slices.iter().flat_map(|slice| &slice.invalid);
            let first = reasons.clone().next().map_or("", String::as_str);
            validity.invalidate(format!(
                "of {} slices of {users} users {used} are valid (limit: half of them): {first}",
                slices.len()
            ));
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(users: u32, rate: f64, invalid: &[&str]) -> Slice {
        Slice {
            users,
            from_s: 0.0,
            to_s: 1.0,
            invalid: invalid.iter().map(|&reason| reason.to_owned()).collect(),
            figures: [("exchanges_per_s".to_owned(), rate)].into(),
        }
    }

    #[test]
    fn a_figure_is_the_pseudo_median_over_the_valid_slices() {
        let mut validity = Validity::default();
        let slices = [
            slice(1, 10.0, &[]),
            slice(8, 80.0, &[]),
            slice(1, 12.0, &[]),
            slice(8, 20.0, &["the generator was late"]),
            slice(1, 90.0, &[]),
            slice(8, 82.0, &[]),
        ];
        let found = centres(&slices, &mut validity);
        // Of 10, 11, 12, 50, 51 and 90.
        assert_eq!(found["exchanges_per_s_of_1_users"], 31.0);
        assert_eq!(found["exchanges_per_s_of_8_users"], 81.0);
        assert!(validity.is_valid());
    }

    #[test]
    fn too_few_valid_slices_make_the_replicate_invalid() {
        let mut validity = Validity::default();
        let late = ["the generator was late"];
        let slices = [
            slice(64, 1.0, &late),
            slice(64, 2.0, &[]),
            slice(64, 3.0, &late),
        ];
        centres(&slices, &mut validity);
        assert_eq!(
            validity.reasons,
            ["of 3 slices of 64 users 1 are valid (limit: half of them): the generator was late"]
        );
    }
}
