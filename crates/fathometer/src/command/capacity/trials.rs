//! Trials on sockets: the load engine as the driver of a search.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_capacity::search::Ending;
use fathometer_capacity::series::{LEVELS, SLOT};
use fathometer_capacity::{Promise, Search, Series, TrialPlan, TrialSoFar};
use fathometer_load::{Limit, Options, Recorder, RecorderError, Users};
use fathometer_model::{ExchangeRow, Outcome as ExchangeOutcome, Seed, TestPhase};
use fathometer_sys::Clock;
use fathometer_sys::stderr::say;
use fathometer_workload::arrivals::{Arrivals, Profile};

use super::super::Failure;
use super::super::load::{ArrivalsChoice, TrialSetup};

/// Rows of an interval reach the recorder after the interval's report, by less than this.
const MARGIN: Duration = Duration::from_millis(200);
/// Intervals between two looks at a trial.
const LOOK: u32 = 5;
/// Exchanges of a test whether the server is idle.
const IDLE_EXCHANGES: u64 = 4;
/// How long a server may need after an overload until single requests are as fast as at the start.
const RECOVERY: Duration = Duration::from_secs(60);
/// How long it may need until any succeeds, besides a timeout.
const SILENCE: Duration = Duration::from_secs(5);
/// The time between two such tests while none succeeds.
const PAUSE: Duration = Duration::from_millis(50);

/// What a load is a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Requests per second of an open loop.
    Rate {
        /// The arrival process.
        arrivals: ArrivalsChoice,
        /// The most connections.
        connections: u32,
    },
    /// Closed-loop users without pauses.
    Users,
    /// Users with the pauses and sessions of the workload.
    UserEquivalents,
}

impl Demand {
    /// The options of a load test with such users; their number is set for each trial.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Demand::Rate { .. } => &["--rate", "1"],
            Demand::Users => &["-c", "1"],
            Demand::UserEquivalents => &["--ue", "1"],
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match self {
            Demand::Rate {
                arrivals,
                connections,
            } => {
                let process = match arrivals {
                    ArrivalsChoice::Poisson => "Poisson",
                    _ => "constant",
                };
                format!("open loop, {process} arrivals, at most {connections} connections")
            }
            Demand::Users => "closed loop, users without pauses".to_owned(),
            Demand::UserEquivalents => {
                "closed loop, users with the pauses of the workload".to_owned()
            }
        }
    }

    /// The users of a trial.
    fn users(self, load: f64, warm_up: Duration, seed: Seed) -> Result<Users, Failure> {
        Ok(match self {
            Demand::Rate {
                arrivals,
                connections,
            } => {
                let profile = Profile::constant(load)?;
                Users::Open {
                    arrivals: match arrivals {
                        ArrivalsChoice::Poisson => Arrivals::poisson(profile, seed),
                        _ => Arrivals::constant(profile),
                    },
                    connections,
                }
            }
            Demand::Users => Users::closed(load as u32),
            Demand::UserEquivalents => Users::Closed {
                users: load as u32,
                // All of them are there before the measured window.
                start_interval: warm_up / (load as u32).max(1),
                steps: Vec::new(),
            },
        })
    }
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is complete.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// It did not begin: the server answers no request.
    Silent,
}

/// Applies trials to a server.
pub struct Trials<'a> {
    setup: TrialSetup,
    demand: Demand,
    promises: Arc<[Promise]>,
    seed: Seed,
    clock: Clock,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    /// The latency of a single request to the idle server.
    idle: Option<Duration>,
    count: u64,
}

impl<'a> Trials<'a> {
    /// Measures the latency of single requests to the idle server.
    pub fn new(
        setup: TrialSetup,
        demand: Demand,
        promises: Vec<Promise>,
        seed: Seed,
        clock: Clock,
        interrupted: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Trials<'a>, Failure> {
        let mut trials = Trials {
            setup,
            demand,
            promises: promises.into(),
            seed: seed.stream("capacity"),
            clock,
            interrupted,
            idle: None,
            count: 0,
        };
        trials.idle = trials.single_latency()?;
        if trials.idle.is_none() && !interrupted() {
            return Err(
                "no request of the first test succeeded: check the URL with `fathometer fetch`"
                    .into(),
            );
        }
        Ok(trials)
    }

    /// Runs a trial and hands it to the search.
    pub fn apply(&mut self, plan: &TrialPlan, search: &mut Search) -> Result<Applied, Failure> {
        if !self.wait_until_idle()? {
            return Ok(Applied::Silent);
        }
        self.count += 1;
        let warm_up = Duration::from_secs_f64(plan.warm_up);
        let seen = Arc::new(Mutex::new(Seen::new(&self.promises)));
        let options = self.setup.options();
        let timeout = options.timeout;
        let users = self
            .demand
            .users(plan.load, warm_up, self.seed.child(self.count))?;
        let options = Options {
            users,
            warm_up,
            limit: Limit::Time(Duration::from_secs_f64(plan.longest)),
            // Exchanges that do not end within the longest limit are bad anyway.
            drain: Duration::from_secs_f64(self.longest_limit(timeout)),
            interval: Duration::from_secs_f64(SLOT),
            recorder: Some(Box::new(SeenRecorder(Arc::clone(&seen)))),
            ..options
        };
        let stop = AtomicBool::new(false);
        let mut planned: Vec<u32> = Vec::new();
        let mut intervals = 0u32;
        let interrupted = self.interrupted;
        let result = fathometer_load::run(
            options,
            self.clock,
            &|| stop.load(Ordering::Relaxed) || interrupted(),
            &mut |live| {
                let Some(at) = live.last.start.checked_sub(warm_up) else {
                    return;
                };
                let slot = (at.as_secs_f64() / SLOT).round() as usize;
                if planned.len() <= slot {
                    planned.resize(slot + 1, 0);
                }
                planned[slot] += live.last.planned as u32;
                intervals += 1;
                if intervals.is_multiple_of(LOOK) && !stop.load(Ordering::Relaxed) {
                    let seconds = (live.elapsed.saturating_sub(warm_up)).saturating_sub(MARGIN);
                    let so_far = lock(&seen).so_far(&planned, seconds.as_secs_f64(), timeout);
                    if search.look(&so_far) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            },
        )?;
        if interrupted() {
            return Ok(Applied::Interrupted);
        }
        let seconds = result.measured.duration.as_secs_f64();
        let so_far = lock(&seen).so_far(&planned, seconds, timeout);
        search.end(&so_far, &ending(&result));
        Ok(Applied::Complete)
    }

    fn longest_limit(&self, timeout: Duration) -> f64 {
        let limits = self.promises.iter().map(|promise| promise.limit);
        limits
            .map(|limit| limit.unwrap_or(timeout.as_secs_f64()))
            .fold(0.1, f64::max)
    }

    /// Sends single requests until their latency is about that of the idle server: what an overload left in its queues
    /// must not count in the next trial. The connections of the last trial are closed. Returns false if the server
    /// answers no request.
    fn wait_until_idle(&self) -> Result<bool, Failure> {
        let Some(idle) = self.idle else {
            return Ok(true);
        };
        let limit = (3 * idle).max(idle + Duration::from_millis(5));
        let started = self.clock.now();
        let silence = SILENCE + self.setup.options().timeout;
        let mut answered = false;
        loop {
            let latency = self.single_latency()?;
            if latency.is_some_and(|latency| latency <= limit) || (self.interrupted)() {
                return Ok(true);
            }
            answered |= latency.is_some();
            let waited = self.clock.now().since(started);
            if !answered && waited >= silence {
                return Ok(false);
            }
            if waited >= RECOVERY {
                break;
            }
            if latency.is_none() {
                thread::sleep(PAUSE);
            }
        }
        say(format_args!(
            "single requests still take more than {limit:.1?} after {RECOVERY:?} ({idle:.1?} at the start): the server \
             may not have recovered"
        ));
        Ok(true)
    }

    /// The median latency of a few requests, one after another; `None` if none succeeded.
    fn single_latency(&self) -> Result<Option<Duration>, Failure> {
        let options = Options {
            users: Users::closed(1),
            limit: Limit::Exchanges(IDLE_EXCHANGES),
            warm_up: Duration::ZERO,
            threads: 1,
            ..self.setup.options()
        };
        let result = fathometer_load::run(options, self.clock, self.interrupted, &mut |_| {})?;
        let counts = &result.measured.counts;
        Ok((counts.completed > counts.status_errors())
            .then(|| result.measured.latency.uncorrected.quantile(0.5))
            .flatten())
    }
}

fn ending(result: &LoadResult) -> Ending {
    let window = &result.measured;
    let milliseconds = |quantile| {
        window
            .latency
            .corrected
            .quantile(quantile)
            .map(|time| 1e3 * time.as_secs_f64())
    };
    Ending {
        achieved: Some(window.ended.completed as f64 / window.duration.as_secs_f64().max(1e-9)),
        latency_ms: milliseconds(0.5)
            .zip(milliseconds(0.99))
            .map(|(p50, p99)| [p50, p99]),
        invalid: result.validity.reasons.clone(),
        is_noise: fathometer_load::is_noise(&result.validity),
    }
}

/// The exchanges of a trial that ended.
struct Seen {
    promises: Arc<[Promise]>,
    series: Vec<Series>,
}

impl Seen {
    fn new(promises: &Arc<[Promise]>) -> Seen {
        Seen {
            promises: Arc::clone(promises),
            series: vec![Series::default(); promises.len()],
        }
    }

    fn record(&mut self, row: &ExchangeRow) {
        // A retried exchange has another row, with the same planned instant.
        if row.phase != TestPhase::Measured || matches!(row.outcome, ExchangeOutcome::Retried(_)) {
            return;
        }
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let at = seconds(row.measured_from, row.planned);
        let latency = seconds(row.planned, row.last_byte);
        let failed = !matches!(row.outcome, ExchangeOutcome::Complete) || row.status >= 400;
        for (promise, series) in self.promises.iter().zip(&mut self.series) {
            series.record(promise, at, latency, failed);
        }
    }

    /// The trial so far. Exchanges that were planned and did not end count as bad: a slot is read only when they have
    /// lasted longer than the limit.
    fn so_far(&self, planned: &[u32], seconds: f64, timeout: Duration) -> TrialSoFar {
        let mut so_far = TrialSoFar::new(0, timeout.as_secs_f64());
        so_far.seconds = seconds;
        for (promise, series) in self.promises.iter().zip(&self.series) {
            let mut series = series.clone();
            if series.slots.len() < planned.len() {
                series.slots.resize(planned.len(), Default::default());
            }
            let recorded: Vec<u32> = series.slots.iter().map(|slot| slot.planned).collect();
            let levels = if promise.limit.is_some() { LEVELS } else { 1 };
            for (slot, missing) in series.slots.iter_mut().zip(missing(planned, &recorded)) {
                slot.planned += missing;
                slot.over[..levels]
                    .iter_mut()
                    .for_each(|over| *over += missing);
                slot.seconds += f64::from(missing) * promise.limit.unwrap_or_default();
            }
            so_far.series.push(series);
        }
        so_far
    }
}

/// The exchanges of each slot that were planned and have not ended.
///
/// The engine may count an exchange in the slot before or after that of its planned instant. So a deficit of a slot
/// that later slots make up for is none.
fn missing(planned: &[u32], ended: &[u32]) -> Vec<u32> {
    let mut deficit = 0;
    let mut deficits: Vec<i64> = (0..planned.len().max(ended.len()))
        .map(|slot| {
            let of = |counts: &[u32]| i64::from(counts.get(slot).copied().unwrap_or(0));
            deficit += of(planned) - of(ended);
            deficit.max(0)
        })
        .collect();
    for slot in (1..deficits.len()).rev() {
        deficits[slot - 1] = deficits[slot - 1].min(deficits[slot]);
    }
    let mut before = 0;
    deficits
        .into_iter()
        .map(|deficit| {
            let new = deficit - before;
            before = deficit;
            new as u32
        })
        .collect()
}

struct SeenRecorder(Arc<Mutex<Seen>>);

impl Recorder for SeenRecorder {
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError> {
        let mut seen = lock(&self.0);
        rows.iter().for_each(|row| seen.record(row));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), RecorderError> {
        Ok(())
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn what_another_slot_counts_is_not_missing() {
        assert_eq!(missing(&[5, 5, 5], &[4, 6, 5]), [0, 0, 0]);
        assert_eq!(missing(&[5, 5, 5], &[6, 4, 5]), [0, 0, 0]);
        assert_eq!(missing(&[5, 5, 5], &[4, 6, 3]), [0, 0, 2]);
        assert_eq!(missing(&[5, 5, 5], &[4, 5, 0]), [1, 0, 5]);
        assert_eq!(missing(&[2], &[2, 1]), [0, 0]);
        assert_eq!(missing(&[], &[]), [0; 0]);
    }
}
