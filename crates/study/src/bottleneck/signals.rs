//! Extracts the signals of a trial for the verdict from the measurements of the probes, the path and the clients.
//!
//! The module `host_signals` extracts the host's signals. Figures that were not measured are absent.

use std::time::Duration;

use fathometer_analysis::bottleneck::{Change, Observation, Signals};
use fathometer_analysis::load::{Distribution, Window};
use fathometer_model::{Failure, Validity};

use super::setup::{Demand, Setup};
use crate::host_signals::{self, KnownLimits, share};
use fathometer_lab::trial::Measured;

/// The share of busy time above which the generator is the bottleneck.
const GENERATOR_BUSY: f64 = 0.85;

/// The share of idle CPU time from which a machine has spare capacity.
const SPARE: f64 = 0.05;
/// The share of its CPU quota from which a host was not starved.
const USED_UP: f64 = 0.9;
/// The share of time waiting for a processor or a disk above which a host competes with other programs.
const WAITED: f64 = 0.25;

/// The share of busy time above which a disk delays its users.
const DISK_BUSY: f64 = 0.5;

/// Returns the observation of a trial.
pub fn observation(
    setup: &Setup,
    change: Option<Change>,
    replicate: u32,
    measured: &Measured,
) -> Observation {
    let window = &measured.result.measured;
    let seconds = window.duration.as_secs_f64();
    let ended = &window.ended;
    let good = ended.completed.saturating_sub(ended.status_errors);
    let attempts = ended.completed + ended.failed;
    let mut validity = measured.validity.clone();
    let signals = signals(setup, measured, &mut validity);
    Observation {
        change,
        replicate,
        throughput_per_s: good as f64 / seconds,
        goodput_bytes_per_s: ended.useful.as_f64() / seconds,
        latency_mean: window.latency.corrected.mean().unwrap_or_default(),
        latency_p98: window.latency.corrected.quantile(0.98).unwrap_or_default(),
        errors: share(attempts - good.min(attempts), attempts).unwrap_or(0.0),
        signals,
        validity,
    }
}

fn signals(setup: &Setup, measured: &Measured, validity: &mut Validity) -> Signals {
    let mut signals = of_clients(setup, measured);
    match measured.samples.between(measured.from, measured.to) {
        Some(step) => {
            let limits = known_limits(setup);
            host_signals::of_probes(&mut signals, &limits, &measured.samples, &step);
        }
        None => validity.invalidate("the probes do not cover the measured window"),
    }
    of_path(&mut signals, setup, measured);
    let reasons = [
        starved(measured, &signals),
        starved_of_disk(setup, measured, &signals),
    ];
    for reason in reasons.into_iter().flatten() {
        validity.invalidate(reason);
    }
    if let Some(busy) = signals.generator_busy.filter(|busy| *busy > GENERATOR_BUSY) {
        validity.invalidate(format!(
            "the generator was busy {:.0} % of the time (limit {:.0} %)",
            100.0 * busy,
            100.0 * GENERATOR_BUSY
        ));
    }
    signals
}

fn known_limits(setup: &Setup) -> KnownLimits {
    let host = &setup.host;
    KnownLimits {
        cores: setup.capacity(),
        has_quota: host.cpu.is_some(),
        memory: host.memory,
        disk: setup.disk().ok(),
        disk_operations: host.disk_operations,
        disk_bytes: host.disk_bytes,
        backlog: host.backlog,
        workers: host.workers,
    }
}

/// Returns the reason why the host did not get its CPU quota: it waited for processors although its quota was not used
/// up, and the machine had no spare capacity. Returns `None` if the host got its quota.
fn starved(measured: &Measured, signals: &Signals) -> Option<String> {
    let step = measured.samples.between(measured.from, measured.to)?;
    let spare = step.change.system.as_ref()?.spare()?;
    let used = signals.cpu_of_quota?;
    let throttled = signals.throttled_periods.unwrap_or(0.0);
    let waited = signals.cpu_pressure? - throttled;
    (spare < SPARE && used < USED_UP && waited > WAITED).then(|| {
        format!(
            "the machine had no CPU time left for the host: the machine was idle for {:.0} % (limit {:.0} %) while \
             the host got {:.0} % of its quota and waited; other programs, the generator or the path used the \
             remaining CPU time",
            100.0 * spare,
            100.0 * SPARE,
            100.0 * used
        )
    })
}

/// Returns the reason why the host could not use its disk limit: it waited for a disk that was busy with other
/// programs. Returns `None` if the host could use the limit, or if this is unknown.
fn starved_of_disk(setup: &Setup, measured: &Measured, signals: &Signals) -> Option<String> {
    let step = measured.samples.between(measured.from, measured.to)?;
    let own = step.change.groups.first()?.as_ref()?.disk?;
    let name = setup.disk().ok()?.name()?;
    let all = step.change.system.as_ref()?.disks.get(&name)?;
    let others = (all.reads + all.writes).saturating_sub(own.reads + own.writes);
    let of_limit = |used: Option<f64>, limit: Option<f64>| Some(used? / limit?);
    let used = [
        of_limit(
            signals.disk_read_bytes_per_s,
            signals.disk_bytes_limit_per_s,
        ),
        of_limit(signals.disk_reads_per_s, signals.disk_reads_limit_per_s),
    ];
    let used = used.into_iter().flatten().reduce(f64::max)?;
    let (busy, waited) = (signals.disk_busy?, signals.io_pressure?);
    (others > own.reads && busy > DISK_BUSY && used < USED_UP && waited > WAITED).then(|| {
        format!(
            "other programs of this machine used the disk: the disk was busy for {:.0} % (limit {:.0} %) while the \
             host got {:.0} % of its quota and waited",
            100.0 * busy,
            100.0 * DISK_BUSY,
            100.0 * used
        )
    })
}

/// Returns the signals of the clients and the generator.
fn of_clients(setup: &Setup, measured: &Measured) -> Signals {
    let window = &measured.result.measured;
    let counts = &window.counts;
    let latency = &window.latency;
    let seconds = window.duration.as_secs_f64();
    let exchanges = latency.corrected.count();
    let each = |sum: Duration| (exchanges > 0).then(|| sum.div_f64(exchanges as f64));
    let failures =
        |kinds: &[Failure]| -> u64 { kinds.iter().filter_map(|k| counts.failures.get(k)).sum() };
    let attempts = counts.completed + counts.failed();
    let workers = &measured.result.generator.workers;
    Signals {
        refused: share(failures(&[Failure::Refused, Failure::Reset]), attempts),
        timed_out: share(failures(&[Failure::TimedOut]), attempts),
        queue: each(latency.queue.sum().saturating_sub(latency.connect.sum())),
        connect: each(latency.connect.sum()),
        first_byte: latency.first_byte.mean(),
        transfer: latency.transfer.mean(),
        send_lag_p99: latency.send_lag.quantile(0.99),
        generator_busy: workers.iter().map(|worker| worker.busy).reduce(f64::max),
        concurrency: Some(match setup.load.demand {
            // A user who is still connecting when the window ends counts as waiting, but has no latency yet.
            Demand::Busy(users) => f64::from(users),
            Demand::Pausing(_) | Demand::Rate(_) => latency.corrected.sum().as_secs_f64() / seconds,
        }),
        users: match setup.load.demand {
            Demand::Busy(users) | Demand::Pausing(users) => Some(f64::from(users)),
            Demand::Rate(_) => None,
        },
        offered_per_s: match setup.load.demand {
            Demand::Rate(_) => Some(counts.planned as f64 / seconds),
            _ => None,
        },
        achieved_per_s: Some(window.ended.completed as f64 / seconds),
        rate_of_window: rate_of_window(setup, window, &latency.transfer),
        ..Signals::default()
    }
}

/// Returns the transfer rate of responses after their first byte, relative to one receive window per round trip. The
/// first window arrives together with the first byte.
fn rate_of_window(setup: &Setup, window: &Window, transfer: &Distribution) -> Option<f64> {
    let size = f64::from(setup.window?);
    let each = window.bytes.response_bodies.as_f64() / window.counts.completed as f64;
    let round_trip = setup.profile.round_trip().as_secs_f64();
    let time = transfer.mean()?.as_secs_f64();
    let share = (each - size) / time * round_trip / size;
    (each > 2.0 * size && share.is_finite()).then_some(share.min(1.0))
}

/// Adds the signals of the path.
fn of_path(signals: &mut Signals, setup: &Setup, measured: &Measured) {
    let result = &measured.result;
    let window = result.measured.duration;
    host_signals::of_path(signals, &setup.profile, measured.packets.as_ref(), window);
    if measured.packets.is_none() {
        return;
    }
    let drops = [&measured.certificate.up, &measured.certificate.down]
        .iter()
        .filter_map(|direction| direction.drops.get("queue-full"))
        .sum::<u64>();
    // The path counts drops from the start of the trial, which includes the warm-up.
    let whole = result.setup.warm_up + window;
    signals.queue_drops_per_s = Some(drops as f64 / whole.as_secs_f64());
}
