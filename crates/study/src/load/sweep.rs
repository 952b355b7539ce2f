//! Sweep studies: a replicate applies several numbers of users to one server, in short slices one after another.
//!
//! The speed of a virtual machine varies over periods of seconds to minutes. A round of a sweep has one slice of each
//! number of users, in random order, so that each period affects all numbers of users. A figure of the replicate is the
//! pseudo-median over its rounds, on which a few disturbed rounds have little effect.
//!
//! Slices are separate load tests. The connections of a slice are closed before the next slice begins. A slice that
//! overloads the server may be followed by a pause, so that the server's mean load stays low. Slices of batches measure
//! the CPU time of an exchange that runs concurrently with many others, at a low mean rate. All exchanges of a batch
//! begin at the same instant. If the study's rate is low enough, the server is idle before the next batch.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_analysis::run::Mode;
use fathometer_analysis::statistics::pseudo_median;
use fathometer_load::{Limit, Options, Users};
use fathometer_model::{Instant, Seed, Validity};
use fathometer_path::Profile;
use fathometer_sys::Error;
use fathometer_sys::probe::Samples;
use fathometer_workload::arrivals::{Arrivals, Profile as RateProfile};
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
use crate::spec::{Batches, Cell, Key, SliceLoad, Study, Sweep};
use fathometer_lab::trial::{ServerAccess, window_of};

/// The experiment of sweep studies.
pub static SWEEP: SweepExperiment = SweepExperiment;

/// The file of a replicate's slices.
const SLICES: &str = "slices.ndjson";

/// The maximum time between the windows of two slices. In this time, connections are closed and the next slice is
/// prepared.
const BETWEEN: Duration = Duration::from_millis(50);

/// The time without load before and after the batches of a slice. The host's CPU time is read at the end of each of
/// these two pauses. So the difference contains the CPU time of the batches, but not of the neighbouring slices.
const AROUND_BATCHES: Duration = Duration::from_millis(150);

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

    fn keys(&self) -> &'static [Key] {
        &[Key::Load, Key::Sweep]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        let (Some(_), Some(sweep)) = (&study.load, &study.sweep) else {
            return Err(
                "a study with kind = \"sweep\" needs a table [sweep] with the numbers of users, and a table [load] with the \
                 length of a slice"
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
        let slices = sweep.slices().map(|slice| match (slice, &sweep.batches) {
            (SliceLoad::Batch(size), Some(batches)) => {
                let (count, interval) = batches.of_slice(size, duration);
                interval * count + 2 * AROUND_BATCHES + BETWEEN
            }
            _ => warm_up + duration + BETWEEN,
        });
        let round = slices.sum::<Duration>() + sweep.pauses_of_a_round();
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

/// The replicates of a sweep study, and the workloads of all its cells.
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
    #[serde(flatten)]
    load: SliceLoad,
    /// The start and the end of the slice's window, in seconds since the start of the replicate.
    from_s: f64,
    to_s: f64,
    /// The reasons why the slice is not used; empty if it is used.
    invalid: Vec<String>,
    /// The figures of the slice, by the names of the metrics of load studies.
    figures: BTreeMap<String, f64>,
}

impl Slice {
    /// Creates a slice from the figures of its clients.
    fn of(
        load: SliceLoad,
        result: &LoadResult,
        replicate: &Replicate<'_>,
        (from, to): (Instant, Instant),
    ) -> Slice {
        let mut validity = result.validity.clone();
        metrics::judge(result, &replicate.levels.load, &mut validity);
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        Slice {
            load,
            from_s: seconds(from),
            to_s: seconds(to),
            invalid: validity.reasons,
            figures: metrics::of_clients(result),
        }
    }

    fn put(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }

    /// Returns the suffix for the names of the slice's metrics.
    fn ending(&self) -> String {
        match self.load {
            SliceLoad::Users(users) => format!("{users}_users"),
            SliceLoad::Batch(size) => format!("batches_of_{size}"),
        }
    }

    /// Adds the CPU time of the host for each exchange of the batches. A slice without this time is not used.
    fn put_time_of_batches(
        &mut self,
        before: Result<Duration, Error>,
        after: Result<Duration, Error>,
        exchanges: u64,
    ) {
        match (before, after) {
            (Ok(_), Ok(_)) if exchanges == 0 => {
                self.invalid.push("no exchange was completed".to_owned());
            }
            (Ok(before), Ok(after)) => {
                let time = after.saturating_sub(before).as_secs_f64();
                self.put("cpu_us_per_exchange", 1e6 * time / exchanges as f64);
            }
            (Err(error), _) | (_, Err(error)) => self.invalid.push(error.to_string()),
        }
    }

    /// Adds the CPU time of the host to a slice of users, from the readings within the window. A slice with fewer than
    /// two readings is not used.
    fn read_processor(&mut self, samples: &Samples, quota: f64) {
        if matches!(self.load, SliceLoad::Batch(_)) {
            return;
        }
        let at = |seconds: f64| Instant::ZERO + Duration::from_secs_f64(seconds);
        let busy = samples
            .within(at(self.from_s), at(self.to_s))
            .and_then(|step| {
                let cpu = step.change.groups.first()?.as_ref()?.cpu.as_ref()?;
                step.share(cpu.total)
            });
        let Some(busy) = busy else {
            let reason = "the probes have fewer than two readings in the window of the slice";
            return self.invalid.push(reason.to_owned());
        };
        let figures = &mut self.figures;
        figures.insert("cpu_total_pct".to_owned(), 100.0 * busy / quota);
        if let Some(rate) = figures.get("exchanges_per_s").filter(|rate| **rate > 0.0) {
            figures.insert("cpu_us_per_exchange".to_owned(), 1e6 * busy / rate);
        }
    }
}

/// Applies all slices and returns them in order.
fn applied(
    replicate: &Replicate<'_>,
    sweep: &Sweep,
    access: &ServerAccess,
) -> Result<Vec<Slice>, ReplicateError> {
    let shared = replicate.shared;
    let seeds = replicate.seed.stream("sweep");
    let mut slices = Vec::new();
    for round in 0..sweep.rounds.of(shared.mode) {
        let order = seeds.stream("order").child(u64::from(round));
        let mut loads: Vec<(u64, SliceLoad)> = sweep
            .slices()
            .map(|load| match load {
                SliceLoad::Users(users) => (order.draw(u64::from(users)), load),
                SliceLoad::Batch(size) => {
                    let draws = order.stream("batches");
                    (draws.draw(u64::from(size.get())), load)
                }
            })
            .collect();
        loads.sort_unstable();
        for (_, load) in loads {
            if (shared.interrupted)() {
                return Err(ReplicateError::Interrupted);
            }
            let seed = seeds.child(slices.len() as u64);
            let slice = match (load, &sweep.batches) {
                (SliceLoad::Batch(size), Some(batches)) => {
                    of_batches(replicate, batches, size, seed, access)?
                }
                (SliceLoad::Users(users), _) => of_users(replicate, sweep, users, seed, access)?,
                (SliceLoad::Batch(_), None) => continue,
            };
            slices.push(slice);
        }
    }
    Ok(slices)
}

/// Applies a slice of a closed loop, and then pauses.
fn of_users(
    replicate: &Replicate<'_>,
    sweep: &Sweep,
    users: u32,
    seed: Seed,
    access: &ServerAccess,
) -> Result<Slice, ReplicateError> {
    let shared = replicate.shared;
    let mut options = Options {
        users: Users::Closed {
            users,
            start_interval: replicate.levels.warm_up / 4 / users,
            steps: Vec::new(),
        },
        seed,
        ..replicate.options()?
    };
    access.apply_to(&mut options);
    let began = replicate.clock.now();
    let result = fathometer_load::run(options, replicate.clock, shared.interrupted, &mut |_| {})?;
    let window = window_of(&result, replicate.clock);
    let mut slice = Slice::of(SliceLoad::Users(users), &result, replicate, window);
    // By Little's Law (1961), the number of users without pauses is throughput times latency, unless exchanges take
    // longer than the slice.
    let seen = slice.figures.get("littles_load_factor").copied();
    if let Some(seen) = seen.filter(|_| !replicate.levels.has_pauses()) {
        slice.put("users_seen_pct", 100.0 * seen / f64::from(users));
    }
    if let Some(pause) = sweep.pause_after(users) {
        let ended = replicate.clock.now();
        rest(pause, shared.interrupted);
        let cycle = replicate.clock.now().since(began);
        let share = ended.since(began).as_secs_f64() / cycle.as_secs_f64();
        slice.put("duty_cycle_pct", 100.0 * share);
    }
    Ok(slice)
}

/// Applies a slice of batches, with the time without load before and after them.
fn of_batches(
    replicate: &Replicate<'_>,
    batches: &Batches,
    size: NonZeroU32,
    seed: Seed,
    access: &ServerAccess,
) -> Result<Slice, ReplicateError> {
    let shared = replicate.shared;
    let base = replicate.options()?;
    let Limit::Time(length) = base.limit else {
        unreachable!("the slices of a sweep have a length");
    };
    let (count, interval) = batches.of_slice(size, length);
    let rate = RateProfile::constant(batches.per_s)?;
    let mut options = Options {
        users: Users::Open {
            arrivals: Arrivals::constant(rate).in_batches(size),
            // The number of connections is sufficient for a batch that begins before the previous batch is complete.
            connections: 2 * size.get(),
        },
        limit: Limit::Exchanges(u64::from(count) * u64::from(size.get())),
        warm_up: Duration::ZERO,
        seed,
        ..base
    };
    access.apply_to(&mut options);
    rest(AROUND_BATCHES, shared.interrupted);
    let before = access.host_cpu();
    let from = replicate.clock.now();
    let result = fathometer_load::run(options, replicate.clock, shared.interrupted, &mut |_| {})?;
    let to = replicate.clock.now();
    rest(AROUND_BATCHES, shared.interrupted);
    let after = access.host_cpu();
    let mut slice = Slice::of(SliceLoad::Batch(size), &result, replicate, (from, to));
    // The rate is the number of exchanges divided by the time until the next batch would begin.
    let completed = result.measured.ended.completed;
    slice.put(
        "exchanges_per_s",
        completed as f64 / (interval * count).as_secs_f64(),
    );
    slice.put_time_of_batches(before, after, completed);
    Ok(slice)
}

/// Returns the pseudo-medians over the slices of each load, as in `exchanges_per_s_of_8_users` and
/// `cpu_us_per_exchange_of_batches_of_64`. The replicate is invalid if less than half of the slices of a load are
/// valid.
fn centres(slices: &[Slice], validity: &mut Validity) -> BTreeMap<String, f64> {
    let mut by_load: BTreeMap<String, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        by_load.entry(slice.ending()).or_default().push(slice);
    }
    let mut metrics = BTreeMap::new();
    for (ending, slices) in by_load {
        let used = slices.iter().filter(|slice| slice.invalid.is_empty());
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, value) in used.clone().flat_map(|slice| &slice.figures) {
            values.entry(name).or_default().push(*value);
        }
        for (name, values) in values {
            let name = format!("{name}_of_{ending}");
            metrics.extend(pseudo_median(&values).map(|centre| (name, centre)));
        }
        let used = used.count();
        if 2 * used < slices.len() {
            let reasons = slices.iter().flat_map(|slice| &slice.invalid);
            let first = reasons.clone().next().map_or("", String::as_str);
            validity.invalidate(format!(
                "only {used} of {} slices of {} are valid; at least half must be valid; the first reason: {first}",
                slices.len(),
                ending.replace('_', " ")
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
            load: SliceLoad::Users(users),
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
        // The pairwise means of 10, 12 and 90 are 10, 11, 12, 50, 51 and 90, so the pseudo-median is 31.
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
            [
                "only 1 of 3 slices of 64 users are valid; at least half must be valid; the first reason: the generator was late"
            ]
        );
    }

    #[test]
    fn batches_have_the_processor_time_between_two_readings() {
        let ms = |count| Ok(Duration::from_millis(count));
        let lacking = || {
            Err(Error::BadAnswer {
                what: "CPU time of a control group",
            })
        };
        let of = |before, after, exchanges| {
            let mut slice = slice(1, 10.0, &[]);
            slice.load = SliceLoad::Batch(NonZeroU32::new(20).unwrap());
            slice.put_time_of_batches(before, after, exchanges);
            // A long replicate may have no probe readings near these batches.
            slice.read_processor(&Samples::default(), 1.0);
            (
                slice.figures.get("cpu_us_per_exchange").copied(),
                slice.invalid.len(),
            )
        };
        assert_eq!(of(ms(500), ms(520), 40), (Some(500.0), 0));
        assert_eq!(of(ms(500), ms(520), 0), (None, 1));
        assert_eq!(of(lacking(), ms(520), 40), (None, 1));
        assert_eq!(of(ms(500), lacking(), 40), (None, 1));
    }
}
