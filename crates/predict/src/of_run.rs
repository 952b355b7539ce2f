//! The series of a run of a load study or a sweep study. The cells of a series differ only in the number of clients.

use std::collections::BTreeMap;

use fathometer_analysis::run::{BATCH, Cell, Run, USERS};
use fathometer_model::{Bandwidth, Bytes, CellKey, ReplicateRecord};
use fathometer_path::{Direction, Profile};
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::page_cache::{self, DiskUse, PageCache};
use crate::scenario::Memory;
use crate::series::{
    Admission, Load, MOST_ERRORS, QuotaTimes, Reading, Series, before, is_connection_each,
};
use crate::slow_start;

/// The minimum share of a load's users, in percent, that its finished exchanges must account for by Little's law. With a
/// smaller share, the slices were too short for many exchanges.
const LEAST_SEEN_PCT: f64 = 90.0;

/// A cell of a run and its load.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The number of users, or the size of a batch.
    users: u32,
    is_batch: bool,
    cell: &'a Cell,
}

impl<'a> Place<'a> {
    /// Returns the load of a cell; `None` if the cell has neither a number of users nor a batch size.
    fn of(cell: &'a Cell) -> Option<Place<'a>> {
        let level = cell.key.level(USERS)?;
        let size = level.strip_prefix(BATCH);
        let users = size.unwrap_or(level).parse().ok()?;
        let is_batch = size.is_some();
        Some(Place {
            users,
            is_batch,
            cell,
        })
    }

    /// Whether the slices of a sweep were long enough for the exchanges; true if the run has no figure for this.
    fn has_all_latencies(&self) -> bool {
        let seen = self.mean("users_seen_pct");
        seen.is_nan() || seen >= LEAST_SEEN_PCT
    }

    /// Returns the mean of a metric over the replicates.
    fn mean(&self, metric: &str) -> f64 {
        let values = self.cell.values(metric);
        values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64
    }
}

/// The period and the burst of the quota in runs without these fields. Until 27 November 2026, all hosts had these
/// values.
const UNRECORDED: QuotaTimes = QuotaTimes {
    period: Seconds(0.01),
    burst: Seconds(0.0),
};

/// Runs that start from this time (28 November 2026, in seconds since the Unix epoch) record the times of a quota. A
/// replicate without these times was on a host without a quota. Some earlier runs did not record these times.
const RECORDS_QUOTAS: f64 = 1_795_824_000.0;

/// The headers of IPv4 and of TCP with its timestamps, in bytes.
const HEADERS: u32 = 52;

/// The read rate from which a note says that a cell reads from disk, in kB/s.
const DISK_KB_PER_S: f64 = 1000.0;

/// Returns the series of a run. `levels` selects cells by factor; `block` selects the block.
///
/// # Errors
/// When the run has no load with a number of users and with probes of the processor.
pub fn series(run: &Run, levels: &BTreeMap<String, String>) -> Result<Vec<Series>, PredictError> {
    let is_selected = |cell: &&Cell| {
        levels.iter().all(|(factor, level)| match factor.as_str() {
            "block" => cell.block == *level,
            _ => cell.key.level(factor) == Some(level),
        })
    };
    let mut by_name: BTreeMap<String, Vec<Place<'_>>> = BTreeMap::new();
    for cell in run.cells.iter().filter(is_selected) {
        if let Some(place) = Place::of(cell) {
            let mut rest = cell.key.clone();
            rest.0.remove(USERS);
            let name = format!("block={} {rest}", cell.block);
            by_name.entry(name).or_default().push(place);
        }
    }
    if by_name.is_empty() {
        return Err(PredictError::Unusable(format!(
            "{} has no such cell with the factor {USERS} or with a sweep: predictions take a run of a load study (as \
             almeida96) or of a sweep study, or a folder of results of load --save",
            run.folder.display()
        )));
    }
    let constant = constant_levels(by_name.keys());
    let mut all = Vec::new();
    for (name, cells) in &by_name {
        let words = name.split(' ').filter(|word| !constant.contains(word));
        let short = words.collect::<Vec<_>>().join(" ");
        let short = match (short.is_empty(), levels.is_empty()) {
            (false, _) => short,
            // A single series has the levels that selected it.
            (true, false) => {
                let selected = levels.iter();
                let selected = selected.map(|(factor, level)| format!("{factor}={level}"));
                selected.collect::<Vec<_>>().join(" ")
            }
            (true, true) => run.info.study.clone(),
        };
        all.extend(of_cells(run, short, cells));
    }
    match all.is_empty() {
        true => Err(PredictError::Unusable(format!(
            "{} has no valid cell with the CPU time of the server's host (cpu_us_per_exchange), throughput and \
             latency",
            run.folder.display()
        ))),
        false => Ok(all),
    }
}

/// Returns the words that all names have in common.
fn constant_levels<'a>(mut names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let first: Vec<&str> = names
        .next()
        .map(|name| name.split(' ').collect())
        .unwrap_or_default();
    names.fold(first, |shared, name| {
        let words: Vec<&str> = name.split(' ').collect();
        shared
            .into_iter()
            .filter(|word| words.contains(word))
            .collect()
    })
}

/// Returns the series of these cells; `None` if no cell has the figures.
fn of_cells(run: &Run, name: String, places: &[Place<'_>]) -> Option<Series> {
    let mut notes = Vec::new();
    let mut loads = Vec::new();
    let mut batches = Vec::new();
    let mut failing = Vec::new();
    let mut quotas = Vec::new();
    for place in places.iter().filter(|place| place.is_batch) {
        let readings: Vec<Reading> = place.cell.valid().filter_map(reading).collect();
        let size = place.users;
        if place.mean("error_pct") > 100.0 * MOST_ERRORS || readings.is_empty() {
            notes.push(format!(
                "batches of {size} exchanges are not fitted: {}",
                match readings.is_empty() {
                    true => "no valid replicate has all figures".to_owned(),
                    false => format!("{:.1} % of them failed", place.mean("error_pct")),
                }
            ));
            continue;
        }
        batches.push(Load {
            users: size,
            readings,
            has_all_latencies: false,
        });
    }
    batches.sort_by_key(|batch| batch.users);
    let places: Vec<Place<'_>> = places
        .iter()
        .filter(|place| !place.is_batch)
        .copied()
        .collect();
    for place in &places {
        let users = place.users;
        let readings: Vec<Reading> = place.cell.valid().filter_map(reading).collect();
        let load = Load {
            users,
            readings,
            has_all_latencies: place.has_all_latencies(),
        };
        if !load.has_all_latencies {
            notes.push(format!(
                "the latencies of {users} users are not used: by Little's law, the exchanges that ended in the slices account \
                 for {:.0} % of the users; the exchanges of the other users are longer than a slice",
                place.mean("users_seen_pct")
            ));
        }
        if place.mean("error_pct") > 100.0 * MOST_ERRORS {
            notes.push(format!(
                "{users} users are not fitted: {:.1} % of their exchanges failed",
                place.mean("error_pct")
            ));
            failing.extend((!load.readings.is_empty()).then_some(load));
            continue;
        }
        let has_disk = load.readings.iter().all(|reading| reading.disk.is_some());
        if !has_disk && place.mean("disk_read_kB_per_s") > DISK_KB_PER_S {
            notes.push(format!(
                "with {users} users, the server reads {:.0} kB/s from disk, which the model does not include",
                place.mean("disk_read_kB_per_s")
            ));
        }
        if load.readings.is_empty() {
            notes.push(format!(
                "{users} users are not used: no valid replicate has all figures"
            ));
            continue;
        }
        quotas.extend(place.cell.valid().filter_map(quota));
        loads.push(load);
    }
    loads.sort_by_key(|load| load.users);
    failing.sort_by_key(|load| load.users);
    let cell = places.first()?.cell;
    let page_cache = page_cache(&places);
    // The first cell may have no valid replicate.
    let has_times = |place: &&Place<'_>| !place.cell.values("cpu_period_ms").is_empty();
    let timed = places.iter().find(has_times).or(places.first())?;
    let quota = quota_times(run.info.started, timed.cell);
    let cores = match quota {
        Some(_) => quotas.iter().sum::<f64>() / quotas.len() as f64,
        // Without a quota, the recorded percentages are relative to one core.
        None => {
            let cores = machine_cores(run);
            notes.push(match cores {
                Some(cores) => format!(
                    "the host has no CPU quota: its server is assumed to have all {cores} cores of the machine, which the \
                     generator and the path also use"
                ),
                None => "the number of cores of the machine is not recorded: one core is assumed for the host, which has no \
                         CPU quota"
                    .to_owned(),
            });
            cores.unwrap_or(1.0)
        }
    };
    let profile = profile(run, cell);
    let trip = profile.as_ref().and_then(round_trip);
    (!loads.is_empty() && !quotas.is_empty()).then(|| Series {
        name,
        loads,
        batches,
        has_processor_time: true,
        cores,
        quota,
        link: profile.as_ref().and_then(link),
        round_trip: trip,
        further_trips: further_trips(cell, profile.as_ref()).unwrap_or_default(),
        server: cell.key.level("server").map(str::to_owned),
        admission: admission(cell, trip),
        failing,
        page_cache,
        notes,
    })
}

/// Returns the limits of the server from the cell's levels. Runs do not record the limits of the server's definition.
fn admission(cell: &Cell, trip: Option<Seconds>) -> Admission {
    let number = |factor: &str| cell.key.level(factor).and_then(|level| level.parse().ok());
    let is_each = cell.key.level("policy").is_some_and(is_connection_each);
    Admission {
        workers: number("workers"),
        backlog: number("backlog"),
        // Runs do not record the time-out of the clients.
        timeout: None,
        before: trip.map_or(Seconds(0.0), |trip| before(trip, is_each)),
        connects: is_each,
        keeps_connections: !is_each,
    }
}

/// Returns the page cache of the server's host in these cells; the error names the missing figure.
fn page_cache(places: &[Place<'_>]) -> Result<PageCache, String> {
    let cell = places.first().ok_or("there is no cell")?.cell;
    let level = |factor: &str| cell.key.level(factor);
    let workload = level("workload")
        .ok_or("the run has no factor `workload`, so the popularity of its files is unknown")?;
    let files = page_cache::files(workload).ok_or_else(|| {
        format!("the popularity of the files of the workload {workload} is unknown")
    })?;
    let records: Vec<&ReplicateRecord> =
        places.iter().flat_map(|place| place.cell.valid()).collect();
    let mean = |metric: &str| {
        let values: Option<Vec<f64>> = records
            .iter()
            .map(|record| record.metrics.get(metric).copied())
            .collect();
        let values = values.filter(|values| !values.is_empty());
        let values = values.ok_or(format!("the run did not record {metric}"))?;
        Ok::<f64, String>(values.iter().sum::<f64>() / values.len() as f64)
    };
    let kilobytes = |value: f64| Bytes((1e3 * value.max(0.0)).round() as u64);
    let cache = mean("page_cache_kB")?;
    // Includes the kernel's memory, if the run recorded it.
    let other = match mean("memory_host_kB") {
        Ok(all) => all - cache,
        Err(_) => mean("memory_anonymous_kB")?,
    };
    Ok(PageCache {
        files,
        limit: level("memory")
            .and_then(|level| level.parse::<Memory>().ok())
            .map(|memory| memory.0),
        cache: kilobytes(cache),
        other: kilobytes(other),
        read_time: read_limit(&cell.key).map(|per_s| Seconds(1.0 / per_s)),
    })
}

/// Returns the figures of a replicate; `None` if a figure is missing.
fn reading(record: &ReplicateRecord) -> Option<Reading> {
    let metric = |name: &str| {
        let value = record.metrics.get(name).copied();
        value.filter(|value| *value > 0.0)
    };
    let throughput = metric("exchanges_per_s")?;
    let errors = metric("error_pct").unwrap_or(0.0) / 100.0;
    let percentiles = [50, 90, 95, 98, 99].into_iter().filter_map(|percent| {
        let of = |time: &str| metric(&format!("{time}_p{percent}_ms"));
        // Without failures, all exchanges are completed exchanges, so their latencies are equal.
        let all = || of("latency").filter(|_| errors == 0.0);
        let time = of("response").or_else(all)?;
        Some((percent, Seconds::from_ms(time)))
    });
    Some(Reading {
        throughput: PerSecond(throughput),
        response: Seconds::from_ms(metric("response_mean_ms")?),
        percentiles: percentiles.collect(),
        busy: metric("cpu_us_per_exchange")? * 1e-6 * throughput,
        errors,
        disk: disk_use(record, throughput),
        wire_bytes: metric("wire_bytes_per_exchange"),
    })
}

/// Returns the disk use of an exchange, by the utilisation law; `None` if it was not measured. The utilisation of a
/// disk with a limit of reads per second is the share of the limit that is used. For other disks it is the share of
/// time in which a process waits for the disk. On a kernel without pressure figures, it is the time of the reads.
fn disk_use(record: &ReplicateRecord, throughput: f64) -> Option<DiskUse> {
    let metric = |name: &str| record.metrics.get(name).copied();
    let Some(reads_per_s) = metric("disk_reads_per_s") else {
        // Older runs always have the bytes, but the number of reads only with a disk limit.
        let bytes = metric("disk_read_kB_per_s")?;
        return (bytes == 0.0).then(DiskUse::default);
    };
    let busy = match (read_limit(&record.cell), metric("psi_io_pct")) {
        _ if reads_per_s == 0.0 => 0.0,
        (Some(limit), _) => reads_per_s / limit,
        (None, Some(percent)) => percent / 100.0,
        (None, None) => reads_per_s * metric("disk_read_ms")? / 1e3,
    };
    Some(DiskUse {
        reads: reads_per_s / throughput,
        time: Seconds(busy / throughput),
    })
}

/// Returns the limit of the disk in reads per second, as in `200ops`.
fn read_limit(cell: &CellKey) -> Option<f64> {
    let limit: f64 = cell.level("disk")?.strip_suffix("ops")?.parse().ok()?;
    (limit > 0.0).then_some(limit)
}

/// Returns the number of cores of the run's machine; `None` if it is not recorded, or if the run is merged from
/// machines that differ.
fn machine_cores(run: &Run) -> Option<f64> {
    let cores: f64 = run.info.machine.get("cores")?.parse().ok()?;
    (cores >= 1.0).then_some(cores)
}

/// Returns the host's quota in cores: its CPU time in cores, divided by its CPU time as a share of the quota.
fn quota(record: &ReplicateRecord) -> Option<f64> {
    let percent = *record.metrics.get("cpu_total_pct")?;
    let quota = reading(record)?.busy / (percent / 100.0);
    (quota.is_finite() && quota > 0.0).then_some(quota)
}

/// Returns the period and the burst of the quota of the cell's host; `None` if the host has no quota. `started` is the
/// start of the run.
fn quota_times(started: f64, cell: &Cell) -> Option<QuotaTimes> {
    let first = |metric: &str| {
        let value = cell.values(metric).first().map(|(_, value)| *value);
        value.map(|milliseconds| Seconds(milliseconds / 1e3))
    };
    let recorded = first("cpu_period_ms").zip(first("cpu_burst_ms"));
    match recorded {
        Some((period, burst)) => Some(QuotaTimes { period, burst }),
        None => (started < RECORDS_QUOTAS).then_some(UNRECORDED),
    }
}

/// Returns the profile of the cell's path.
fn profile(run: &Run, cell: &Cell) -> Option<Profile> {
    let path = cell.key.level("path")?;
    let info = run.info.paths.iter().find(|info| info.name == path)?;
    Profile::from_toml(&info.profile, path).ok()
}

/// Returns the rate of the slower direction of the path.
fn link(profile: &Profile) -> Option<Bandwidth> {
    let rates = [Direction::Up, Direction::Down].map(|direction| profile.direction(direction).rate);
    rates.into_iter().flatten().min()
}

/// Returns the further round trips of the workload's responses. `None` if they are unknown: with persistent connections
/// or the TCP of 1997 the windows start at a different size, and with a content coding the responses have a different
/// size.
fn further_trips(cell: &Cell, profile: Option<&Profile>) -> Option<Vec<f64>> {
    let level = |factor: &str| cell.key.level(factor);
    let is_plain = level("policy").is_some_and(is_connection_each)
        && level("era").is_none_or(|era| era == "today")
        && level("coding").is_none_or(|coding| coding == "identity")
        && level("initcwnd").is_none_or(|window| window == "default");
    let files = page_cache::requested(level("workload")?).filter(|_| is_plain)?;
    let segment = profile?.mtu.checked_sub(HEADERS)?;
    Some(slow_start::further_trips(&files, Bytes(segment.into())))
}

/// Returns the propagation delay of both directions together; `None` if it is 0.
fn round_trip(profile: &Profile) -> Option<Seconds> {
    let trip = profile.round_trip();
    (!trip.is_zero()).then_some(Seconds(trip.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use fathometer_model::{PathCertificate, Validity};

    use super::*;

    fn record(disk: &str, metrics: &[(&str, f64)]) -> ReplicateRecord {
        let named = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey([("disk".to_owned(), disk.to_owned())].into()),
            replicate: 0,
            seed: 1,
            order: 0,
            started: 0.0,
            metrics: named.collect(),
            path: PathCertificate::default(),
            validity: Validity::default(),
            folder: "r0".to_owned(),
        }
    }

    #[test]
    fn the_latency_of_all_exchanges_is_that_of_completed_ones_when_none_failed() {
        let tail = |more: &[(&str, f64)]| {
            let usual = [
                ("exchanges_per_s", 100.0),
                ("response_mean_ms", 10.0),
                ("cpu_us_per_exchange", 200.0),
                ("latency_p99_ms", 40.0),
            ];
            let found = reading(&record("none", &[&usual[..], more].concat())).unwrap();
            found.percentiles.get(&99).map(|time| time.0)
        };
        assert_eq!(tail(&[("error_pct", 0.0)]), Some(0.04));
        assert_eq!(tail(&[("error_pct", 2.0)]), None);
        let recorded = [("error_pct", 2.0), ("response_p99_ms", 30.0)];
        assert_eq!(tail(&recorded), Some(0.03));
    }

    fn of(disk: &str, metrics: &[(&str, f64)]) -> Option<(f64, f64)> {
        let used = disk_use(&record(disk, metrics), 50.0)?;
        Some((used.reads, used.time.0))
    }

    #[test]
    fn the_time_of_a_disk_is_that_of_its_limit_else_of_waits_else_of_its_reads() {
        let all = [
            ("disk_reads_per_s", 100.0),
            ("psi_io_pct", 25.0),
            ("disk_read_ms", 2.0),
        ];
        assert_eq!(of("200ops", &all), Some((2.0, 0.01)));
        assert_eq!(of("none", &all), Some((2.0, 0.005)));
        assert_eq!(of("none", &[all[0], all[2]]), Some((2.0, 0.004)));
        assert_eq!(of("none", &all[..1]), None, "the time is not known");
    }

    #[test]
    fn a_run_without_a_count_of_reads_shows_only_that_nothing_was_read() {
        assert_eq!(of("none", &[("disk_read_kB_per_s", 0.0)]), Some((0.0, 0.0)));
        assert_eq!(of("none", &[("disk_read_kB_per_s", 3.0)]), None);
        assert_eq!(of("none", &[("psi_io_pct", 3.0)]), None);
        assert_eq!(of("none", &[("disk_reads_per_s", 0.0)]), Some((0.0, 0.0)));
    }

    #[test]
    fn a_host_without_the_times_of_a_quota_has_none_since_runs_record_them() {
        let of = |started: f64, metrics: &[(&str, f64)]| {
            let cell = Cell {
                block: "main".to_owned(),
                key: CellKey([(USERS.to_owned(), "4".to_owned())].into()),
                replicates: vec![record("none", metrics)],
            };
            quota_times(started, &cell)
        };
        let recorded = [("cpu_period_ms", 20.0), ("cpu_burst_ms", 4.0)];
        let times = Some(QuotaTimes {
            period: Seconds(0.02),
            burst: Seconds(0.004),
        });
        assert_eq!(of(RECORDS_QUOTAS, &recorded), times);
        assert_eq!(of(RECORDS_QUOTAS - 1.0, &recorded), times);
        assert_eq!(of(RECORDS_QUOTAS, &[]), None);
        assert_eq!(of(RECORDS_QUOTAS - 1.0, &[]), Some(UNRECORDED));
    }

    #[test]
    fn slices_that_are_shorter_than_their_exchanges_have_no_latencies() {
        for (seen, has_all) in [(59.0, false), (97.0, true)] {
            let metrics = [("exchanges_per_s", 211.0), ("users_seen_pct", seen)];
            let cell = Cell {
                block: "main".to_owned(),
                key: CellKey([(USERS.to_owned(), "48".to_owned())].into()),
                replicates: vec![record("none", &metrics)],
            };
            let place = Place::of(&cell).unwrap();
            assert_eq!((place.users, place.mean("exchanges_per_s")), (48, 211.0));
            assert_eq!(place.has_all_latencies(), has_all);
        }
    }
}
