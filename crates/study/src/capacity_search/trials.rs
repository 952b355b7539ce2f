//! Runs the trials of a search on sockets, with the load engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathometer_analysis::bottleneck::{GaveOut, Signals, gave_out};
use fathometer_analysis::load::{LoadResult, signals_of};
use fathometer_capacity::search::Ending;
use fathometer_capacity::series::SLOT;
use fathometer_capacity::{Answer, Outcome, Search, SloLimit, TrialPlan, TrialSoFar};
use fathometer_load::{Limit, Live, LoadError, Options, Users, most_by_open_files};
use fathometer_model::{Bytes, Seed};
use fathometer_sys::Clock;
use fathometer_workload::arrivals::RateError;

use super::CONNECTIONS;
use super::demand::Demand;
use super::seen::{Seen, SeenRecorder, lock};

/// The longest time after an interval's report until the recorder has received all rows of the interval.
const MARGIN: Duration = Duration::from_millis(200);
/// The number of intervals between two evaluations of a trial.
const LOOK: u32 = 5;
/// The largest send lag of a valid trial, as a fraction of the shortest latency limit, and the absolute maximum.
const SEND_LAG: f64 = 0.05;
const LONGEST_SEND_LAG: Duration = Duration::from_millis(5);

/// The factor by which the number of connections grows after a trial with too few connections.
const MORE_CONNECTIONS: u32 = 4;

/// The server to which trials are applied, and the access to this server.
pub trait Subject {
    /// The reason why a trial cannot run.
    type Error: From<LoadError> + From<RateError>;

    /// Returns the engine's options. Each trial sets the users, the warm-up, the length, the interval and the recorder,
    /// and raises the limit of the send lag.
    ///
    /// # Errors
    /// If the options are not available.
    fn options(&self) -> Result<Options, Self::Error>;

    /// Applies the load of a trial until `stop` returns true, or until the trial has its full length. Other
    /// measurements during the trial are added to the result.
    ///
    /// # Errors
    /// If the trial cannot run.
    fn apply(
        &mut self,
        options: Options,
        clock: Clock,
        stop: &(dyn Fn() -> bool + Sync),
        live: &mut dyn FnMut(&Live),
    ) -> Result<LoadResult, Self::Error>;
}

/// The end of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// The trial is complete.
    Complete,
    /// The user interrupted the trial.
    Interrupted,
    /// The trial did not begin, because the server does not answer.
    Silent,
}

/// Applies trials to a server.
pub struct Trials<'a, S> {
    pub(super) subject: S,
    demand: Demand,
    slos: Arc<[SloLimit]>,
    seed: Seed,
    pub(super) clock: Clock,
    pub(super) interrupted: &'a (dyn Fn() -> bool + Sync),
    /// The latency of a single request to the idle server.
    pub(super) idle: Option<Duration>,
    /// The rate above which a trial is INVALID, and the reason.
    rate_limit: Option<(f64, String)>,
    /// The maximum number of users or connections within the limit of open files.
    most_by_open_files: Option<u32>,
    /// The probes' signals of each valid trial of the search.
    probed: Vec<Probed>,
    count: u64,
}

/// The probes' signals of a trial.
#[derive(Debug, Clone)]
struct Probed {
    load: f64,
    measured_s: f64,
    signals: Signals,
    /// The share of completed exchanges with a status of 400 or above.
    refused: f64,
}

impl<'a, S: Subject> Trials<'a, S> {
    /// Prepares the trials of a server. [`Trials::first_test`] then sends the first requests.
    pub fn new(
        subject: S,
        demand: Demand,
        slos: &[SloLimit],
        seed: Seed,
        clock: Clock,
        interrupted: &'a (dyn Fn() -> bool + Sync),
    ) -> Trials<'a, S> {
        Trials {
            subject,
            demand,
            slos: slos.into(),
            seed: seed.stream("capacity"),
            clock,
            interrupted,
            idle: None,
            rate_limit: None,
            most_by_open_files: None,
            probed: Vec::new(),
            count: 0,
        }
    }

    /// Makes a trial INVALID, for this reason, if it completes more exchanges per second than `rate`. Required for
    /// loads that are not rates.
    pub fn limit_rate(&mut self, rate: f64, reason: String) {
        self.rate_limit = Some((rate, reason));
    }

    /// Limits the connections of an open loop, or the users of a search, according to the limit of open files.
    ///
    /// # Errors
    /// If the options are not available.
    pub fn limit_to_open_files(&mut self, search: &mut Search) -> Result<(), S::Error> {
        let users = self.demand.users(1.0, Duration::ZERO, self.seed)?;
        let options = Options {
            users,
            ..self.subject.options()?
        };
        let most = most_by_open_files(&options).max(1);
        self.most_by_open_files = Some(most);
        match &mut self.demand {
            Demand::Rate {
                connections,
                most_connections,
                ..
            } if connections != most_connections => {
                *connections = most.min(*connections);
                *most_connections = most.min(*most_connections);
            }
            // A number of connections that the user has set is not changed. A trial fails if the limit of open files is
            // too low for it.
            Demand::Rate { .. } => {}
            Demand::Users | Demand::UserEquivalents => search.set_generator_limit(
                most.into(),
                format!(
                    "the limit of open files allows at most {most} users; raise it (`ulimit -n`), or search from another \
                     machine"
                ),
            ),
        }
        Ok(())
    }

    /// Returns the number of connections for the calibration of the generator.
    pub fn calibration_connections(&self) -> u32 {
        match self.demand {
            Demand::Rate { connections, .. } => connections,
            _ => CONNECTIONS
                .0
                .min(self.most_by_open_files.unwrap_or(u32::MAX)),
        }
    }

    /// Measures the latency of single requests to the idle server. Returns the mean size of the responses' content;
    /// `None` if no request succeeded.
    ///
    /// # Errors
    /// If the requests cannot be sent.
    pub fn first_test(&mut self) -> Result<Option<Bytes>, S::Error> {
        let found = self.single_requests()?.answer;
        self.idle = found.map(|(latency, _)| latency);
        Ok(found.map(|(_, size)| size))
    }

    /// The server to which the trials are applied.
    pub fn subject(&self) -> &S {
        &self.subject
    }

    /// Returns the resource that was exhausted first between the two ends of each SLO's interval; `None` without an
    /// interval or without probes. If several trials have the same load, the longest trial is used.
    pub fn gave_out(&self, outcome: &Outcome) -> Vec<Option<GaveOut>> {
        let at = |load: f64| {
            let same = self.probed.iter().filter(|probed| probed.load == load);
            same.max_by(|a, b| a.measured_s.total_cmp(&b.measured_s))
        };
        let each = outcome.slos.iter().map(|slo| match slo.answer {
            Answer::Interval { works, fails } => {
                let (works, fails) = (at(works)?, at(fails)?);
                Some(gave_out(&works.signals, &fails.signals, fails.refused))
            }
            _ => None,
        });
        each.collect()
    }

    /// Runs a trial and passes the result to the search.
    pub(super) fn apply(
        &mut self,
        plan: &TrialPlan,
        search: &mut Search,
    ) -> Result<Applied, S::Error> {
        if !self.wait_until_idle()? {
            return Ok(Applied::Silent);
        }
        let (so_far, ending, result) =
            self.run(plan.load, plan.warm_up, plan.longest, &mut |so_far| {
                search.look(so_far)
            })?;
        if (self.interrupted)() {
            return Ok(Applied::Interrupted);
        }
        if ending.invalid.is_empty()
            && let Some(signals) = signals_of(&result)
        {
            let counts = &result.measured.counts;
            self.probed.push(Probed {
                load: plan.load,
                measured_s: so_far.seconds,
                signals,
                refused: counts.status_errors() as f64 / counts.completed.max(1) as f64,
            });
        }
        search.end(&so_far, &ending);
        Ok(Applied::Complete)
    }

    /// Applies a load for `warm_up` seconds, and then until `stop` returns true, but for at most `longest` seconds.
    ///
    /// # Errors
    /// If the load cannot be applied.
    pub fn measure(
        &mut self,
        load: f64,
        warm_up: f64,
        longest: f64,
        stop: &mut dyn FnMut(&TrialSoFar) -> bool,
    ) -> Result<(TrialSoFar, Ending), S::Error> {
        let (so_far, ending, _) = self.run(load, warm_up, longest, stop)?;
        Ok((so_far, ending))
    }

    fn run(
        &mut self,
        load: f64,
        warm_up: f64,
        longest: f64,
        stop: &mut dyn FnMut(&TrialSoFar) -> bool,
    ) -> Result<(TrialSoFar, Ending, LoadResult), S::Error> {
        self.count += 1;
        let warm_up = Duration::from_secs_f64(warm_up);
        let seen = Arc::new(Mutex::new(Seen::new(&self.slos)));
        let options = self.subject.options()?;
        let timeout = options.timeout;
        let send_lag = options.send_lag.max(self.send_lag());
        let users = self
            .demand
            .users(load, warm_up, self.seed.child(self.count))?;
        let options = Options {
            users,
            warm_up,
            limit: Limit::Time(Duration::from_secs_f64(longest)),
            // Every exchange that is not finished within the longest limit is bad.
            drain: Duration::from_secs_f64(self.longest_limit(timeout)),
            interval: Duration::from_secs_f64(SLOT),
            send_lag,
            recorder: Some(Box::new(SeenRecorder(Arc::clone(&seen)))),
            ..options
        };
        let is_over = AtomicBool::new(false);
        let mut planned: Vec<u32> = Vec::new();
        let mut intervals = 0u32;
        let interrupted = self.interrupted;
        let result = self.subject.apply(
            options,
            self.clock,
            &|| is_over.load(Ordering::Relaxed) || interrupted(),
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
                if intervals.is_multiple_of(LOOK) && !is_over.load(Ordering::Relaxed) {
                    let seconds = (live.elapsed.saturating_sub(warm_up)).saturating_sub(MARGIN);
                    let so_far = lock(&seen).so_far(&planned, seconds.as_secs_f64(), timeout);
                    if stop(&so_far) {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            },
        )?;
        let seconds = result.measured.duration.as_secs_f64();
        let so_far = lock(&seen).so_far(&planned, seconds, timeout);
        let mut ending = ending(&result);
        if lock(&seen).is_short_of_connections() {
            self.add_connections(&mut ending);
        }
        if let Some((most, reason)) = &self.rate_limit
            && ending.achieved.is_some_and(|achieved| achieved > *most)
        {
            ending.invalid.push(reason.clone());
            ending.is_noise = false;
        }
        Ok((so_far, ending, result))
    }

    /// Makes a trial with too few connections INVALID, and increases the number of connections of the next trial.
    fn add_connections(&mut self, ending: &mut Ending) {
        let Demand::Rate {
            connections,
            most_connections,
            ..
        } = &mut self.demand
        else {
            return;
        };
        let had = *connections;
        *connections = had
            .saturating_mul(MORE_CONNECTIONS)
            .min(*most_connections)
            .max(had);
        let is_last = *connections == had;
        // A trial with too few connections may be repeated as often as a trial with noise.
        ending.is_noise = !is_last && (ending.is_noise || ending.invalid.is_empty());
        ending.invalid.push(match is_last {
            true => {
                let advice = match self.most_by_open_files.is_some_and(|most| most <= had) {
                    true => {
                        "the limit of open files allows no more; raise it (`ulimit -n`), or search from another machine"
                    }
                    false => "use more (-c, or connections in [capacity])",
                };
                format!(
                    "{had} connections were too few: an SLO was violated only because exchanges waited for a free \
                     connection; {advice}"
                )
            }
            false => format!("{had} connections were too few; the next trial has {connections}"),
        });
    }

    /// Returns the number of exchanges per second that this number of closed-loop users completes.
    ///
    /// # Errors
    /// If the load cannot be applied.
    pub fn throughput(&self, users: u32, warm_up: f64, seconds: f64) -> Result<f64, S::Error> {
        let options = Options {
            users: Users::closed(users),
            warm_up: Duration::from_secs_f64(warm_up),
            limit: Limit::Time(Duration::from_secs_f64(seconds)),
            ..self.subject.options()?
        };
        let result = fathometer_load::run(options, self.clock, self.interrupted, &mut |_| {})?;
        Ok(ending(&result).achieved.unwrap_or_default())
    }

    /// Returns the largest send lag of a valid trial. Latency counts from the planned instant, so it includes the send
    /// lag: a lag cannot make the server appear faster.
    fn send_lag(&self) -> Duration {
        let limits = self.slos.iter().filter_map(|slo| slo.limit);
        let shortest = limits.fold(f64::INFINITY, f64::min);
        Duration::from_secs_f64((SEND_LAG * shortest).min(LONGEST_SEND_LAG.as_secs_f64()))
    }

    fn longest_limit(&self, timeout: Duration) -> f64 {
        let limits = self.slos.iter().map(|slo| slo.limit);
        limits
            .map(|limit| limit.unwrap_or(timeout.as_secs_f64()))
            .fold(0.1, f64::max)
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
