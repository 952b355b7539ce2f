//! Limits of the figures that a rank may report.
//!
//! A peer with the right secret, or a file in the format of a spool, may contain any numbers. They are checked once, on
//! receipt. Each count of a rank, over its whole share, must be at most 2^60 divided by the number of ranks. So no sum
//! over all ranks of a test, or over the fields of a part, overflows. For 4096 ranks, the limit of a count of bytes is
//! 281 TB for each rank.

mod windows;

use std::time::Duration;

use fathometer_analysis::load::{Generator, LoadResult, Setup};
use fathometer_load::timeline::Part;

use crate::record::{RankRecord, TestFacts};

/// The maximum of any count, summed over all ranks of a test.
const MOST: u64 = 1 << 60;

/// The longest accepted duration: ten years, which is longer than any test.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Maximum number of threads of a rank.
const THREADS: u32 = 1 << 16;

/// The maximum length of a host name in bytes (RFC 1035 section 2.3.4).
const HOST: usize = 255;

/// The maximum number of characters of another rank's reason that are printed.
const REASON: usize = 500;

/// A figure that is impossible in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid {0} from this rank: the value is impossible; check that all ranks run the same build and that no other \
     program has the secret"
)]
pub struct ImpossibleFigure(pub &'static str);

/// Whether a host name is valid and printable.
pub(crate) fn is_host(name: &str) -> bool {
    name.len() <= HOST && !name.chars().any(char::is_control)
}

/// Converts a reason from another rank into printable text.
pub(crate) fn printable(reason: &str) -> String {
    let shown = reason.chars().filter(|character| !character.is_control());
    shown.take(REASON).collect()
}

impl TestFacts {
    /// Whether these values are possible in a test.
    pub(crate) fn are_possible(&self) -> bool {
        let times = [Some(self.warm_up), self.measured, Some(self.interval)];
        !self.interval.is_zero() && times.into_iter().flatten().all(|time| time <= LONGEST)
    }

    /// Returns the limits of one rank.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            most: MOST / u64::from(self.ranks.max(1)),
        }
    }
}

/// Sums over the intervals of a rank.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals([u64; 6]);

/// The limits of one rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    most: u64,
}

type Checked = Result<(), ImpossibleFigure>;

impl Limits {
    /// Checks the figures of an interval, and adds them to the sums of the earlier intervals.
    pub(crate) fn part(&self, part: &Part, totals: &mut Totals) -> Checked {
        let Part {
            interval: _,
            planned,
            completed,
            errors,
            received,
            connections,
            latency,
            send_lag,
            so_far,
        } = part;
        let own = [
            *planned,
            *completed,
            *errors,
            received.0,
            latency.count(),
            send_lag.count(),
        ];
        let mut sums = totals.0;
        for (sum, own) in sums.iter_mut().zip(own) {
            *sum = sum.saturating_add(own);
        }
        self.counts("figures of an interval", sums)?;
        self.counts("connections", [*connections])?;
        self.of_counts(so_far)?;
        *totals = Totals(sums);
        Ok(())
    }

    /// Checks the result of a rank. Its counts cover the whole share.
    pub(crate) fn record(&self, record: &RankRecord) -> Checked {
        let RankRecord {
            rank: _,
            host,
            result,
            clock,
            start_late,
            traffic,
        } = record;
        if !is_host(host) {
            return Err(ImpossibleFigure("host name"));
        }
        let after = clock.after.map(|after| after.uncertainty);
        time("start", *start_late)?;
        for uncertainty in [Some(clock.before.uncertainty), after, Some(clock.drift)] {
            time("clock", uncertainty.unwrap_or_default())?;
        }
        self.counts("control traffic", [traffic.0, traffic.1, clock.round_trips])?;
        self.result(result)
    }

    fn result(&self, result: &LoadResult) -> Checked {
        let LoadResult {
            setup,
            measured,
            warm_up,
            drain,
            timeline,
            targets,
            skipped,
            sequence,
            user_time,
            generator,
            ranks,
            server: _,
            validity: _,
        } = result;
        // Only the merge fills the timeline and the table of ranks.
        if !timeline.is_empty() || !ranks.is_empty() {
            return Err(ImpossibleFigure("timeline or table of ranks"));
        }
        of_setup(setup)?;
        for window in [Some(measured), warm_up.as_ref(), drain.as_ref()] {
            window.map_or(Ok(()), |window| self.window(window))?;
        }
        self.sum(
            "targets",
            targets.iter().flat_map(|t| [t.completed, t.failed]),
        )?;
        self.sum("skipped entries", skipped.values().copied())?;
        if let Some(used) = sequence {
            self.counts("sequence", [used.pages, used.requested])?;
        }
        if let Some(users) = user_time {
            let own = [users.users, users.busy, users.paused, users.tolerance];
            self.floats("time of users", own)?;
        }
        self.generator(generator)
    }

    fn generator(&self, generator: &Generator) -> Checked {
        let Generator {
            cpu_user,
            cpu_system,
            workers,
            peak_memory,
            // The limit of descriptors may be infinite.
            descriptors: _,
            ports_exhausted,
            steal,
            repeated,
        } = generator;
        self.total_time("CPU time", *cpu_user)?;
        self.total_time("CPU time", *cpu_system)?;
        if workers.len() > THREADS as usize {
            return Err(ImpossibleFigure("number of threads"));
        }
        for worker in workers {
            self.floats("threads", [worker.busy, worker.rested])?;
            let latency = worker.wake_up_latency.unwrap_or_default();
            for own in [worker.longest_turn, worker.busy_waited, latency] {
                time("threads", own)?;
            }
        }
        self.floats("stolen time", [*steal])?;
        self.counts("memory or ports", [peak_memory.0, *ports_exhausted])?;
        // The sum over all ranks is stored in 32 bits.
        self.counts("repeated windows", [u64::from(*repeated) << 32])
    }

    fn counts<const N: usize>(&self, what: &'static str, counts: [u64; N]) -> Checked {
        match counts.iter().all(|count| *count <= self.most) {
            true => Ok(()),
            false => Err(ImpossibleFigure(what)),
        }
    }

    /// Checks counts of which another function computes a sum.
    fn sum(&self, what: &'static str, counts: impl IntoIterator<Item = u64>) -> Checked {
        let add = |sum: u64, count: u64| sum.saturating_add(count);
        self.counts(what, [counts.into_iter().fold(0, add)])
    }

    /// Checks a time that is summed over connections, users or threads.
    fn total_time(&self, what: &'static str, time: Duration) -> Checked {
        self.counts(what, [time.as_secs()])
    }

    fn floats<const N: usize>(&self, what: &'static str, floats: [f64; N]) -> Checked {
        let is_possible = |float: &f64| float.is_finite() && float.abs() <= self.most as f64;
        match floats.iter().all(is_possible) {
            true => Ok(()),
            false => Err(ImpossibleFigure(what)),
        }
    }
}

fn of_setup(setup: &Setup) -> Checked {
    let times = [
        setup.warm_up,
        setup.duration.unwrap_or_default(),
        setup.timeout,
        setup.wake_up_coalescing,
    ];
    times
        .into_iter()
        .try_for_each(|own| time("settings", own))?;
    let longest = LONGEST.as_secs_f64();
    if !(0.0..=1000.0 * longest).contains(&setup.started) {
        return Err(ImpossibleFigure("settings"));
    }
    match setup.threads <= THREADS {
        true => Ok(()),
        false => Err(ImpossibleFigure("number of threads")),
    }
}

fn time(what: &'static str, time: Duration) -> Checked {
    match time <= LONGEST {
        true => Ok(()),
        false => Err(ImpossibleFigure(what)),
    }
}
