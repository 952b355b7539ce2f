//! Starts the loops, collects their reports, and merges their results.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use fathometer_analysis::load::{
    Generator, LoadResult, LoopKind, Setup, TargetCount, UserTime, Window,
};
use fathometer_model::{ExchangeRow, Instant};
use fathometer_sys::machine::{Contention, CpuTimes, processors_online, raise_open_files};
use fathometer_sys::usage::peak_memory;
use fathometer_sys::{Clock, Machine, priority, sched};
use fathometer_workload::plan::Choice;

use super::health::{Circumstances, examine};
use super::recorder::{self, RecorderError, Rows};
use super::sessions::{OpenLoop, Population, SessionSource};
use super::shared::{Shared, largest_page};
use super::spin::{PERIOD, Spare, WakeUps};
use super::tally::{Edges, Tally};
use super::timeline::{Part, Sink, Spares, Timeline};
use super::timers::NEVER;
use super::waiting::Spin;
use super::worker::{Outcomes, Worker};
use super::{
    Ensemble, LIVE_QUANTILES, Limit, Live, LoadError, MOST_INTERVALS, Options, Phase, Share, Users,
};

/// The time between two checks of `interrupted`.
const ASK: Duration = PERIOD;

/// The time from the moment when all threads are ready to the start of the test.
const START: Duration = Duration::from_millis(2);

/// Histograms initially have memory for latencies up to this value; they grow for longer latencies.
const LONGEST: Duration = Duration::from_secs(34);

/// File descriptors other than connections: standard streams, the loops' own descriptors, and files.
const SPARE_DESCRIPTORS: u64 = 32;

/// Runs a load test to its end, or until `interrupted` returns true. The result of an interrupted test covers the time
/// until the interruption.
///
/// `live` is called from this thread, once for every interval. The calling thread starts the threads of the loops, so
/// they run in its network namespace.
pub fn run(
    mut options: Options,
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
    live: &mut dyn FnMut(&Live),
) -> Result<LoadResult, LoadError> {
    if options.interval < Duration::from_millis(10) {
        return Err(LoadError::Interval);
    }
    let recorder = options.recorder.take();
    let mut ensemble = options.ensemble.take();
    let shared = Shared::new(&options)?;
    let (connections, most_loops) = needs(&options);
    if most_loops == 0 {
        return Err(LoadError::NoUsers);
    }
    let loops = options.threads.clamp(1, most_loops as usize);
    let needed = connections + 2 * loops as u64 + SPARE_DESCRIPTORS;
    let limit = raise_open_files();
    if needed > limit {
        return Err(LoadError::Descriptors { needed, limit });
    }
    let processors = match options.pin {
        Some(first) => {
            let mut processors = sched::processors()?;
            let first = first % processors.len().max(1);
            processors.rotate_left(first);
            processors
        }
        None => Vec::new(),
    };
    let before = CpuTimes::read();
    let (rows, waiting_rows) = recorder::channel();
    let (parts, received) = mpsc::channel();
    let test = Test {
        options: &options,
        crew: SharedInputs {
            shared: &shared,
            users: &options.users,
            share: options.share,
            clock,
            loops,
            processors,
            interval: options.interval,
            drain: options.drain,
            spin: options.spin,
            longest_delay: options.coalescing,
            before_others: options.before_others && matches!(options.users, Users::Open { .. }),
            count_targets: options.count_targets,
            // Longer latencies only occur for failures, and for exchanges that waited for a connection.
            spares: Spares::new(loops, options.timeout.min(LONGEST)),
        },
    };
    let ended = thread::scope(|scope| -> Result<Ending, LoadError> {
        let records = recorder.is_some();
        let recording =
            recorder.map(|recorder| scope.spawn(move || recorder::serve(recorder, &waiting_rows)));
        let rows = records.then_some(rows);
        let started = test.start(scope, &parts, rows.as_ref(), ensemble.as_deref_mut());
        // The loops have clones of these senders. The originals are dropped, so that the channels close when the loops
        // finish.
        drop((parts, rows));
        let (edges, handles) = started?;
        let mut pass_on = |part: &Part| {
            if let Some(ensemble) = &mut ensemble {
                ensemble.interval(part);
            }
        };
        let timeline = test.listen(&received, edges, interrupted, live, &mut pass_on);
        let mut outcomes = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(outcome) => outcomes.push(outcome?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let recorded: Option<Result<(), RecorderError>> =
            recording.map(|thread| match thread.join() {
                Ok(recorded) => recorded,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        recorded.transpose().map_err(LoadError::Recorder)?;
        Ok(Ending {
            edges,
            outcomes,
            timeline,
        })
    })?;
    let steal = match (before, CpuTimes::read()) {
        (Some(before), Some(after)) => after.since(before).steal_share(),
        _ => 0.0,
    };
    let mut pass_on = |part: &Part| {
        if let Some(ensemble) = &mut ensemble {
            ensemble.interval(part);
        }
    };
    Ok(test.result(ended, steal, limit, &mut pass_on))
}

/// Returns the maximum number of connections, and the maximum number of loops with work.
fn needs(options: &Options) -> (u64, u32) {
    match &options.users {
        Users::Open { connections, .. } => {
            let connections = options.share.of((*connections).into());
            (connections, connections as u32)
        }
        Users::Closed { users, steps, .. } => {
            let most = steps.iter().map(|&(_, users)| users).fold(*users, u32::max);
            let most = options.share.of(most.into()) as u32;
            (u64::from(most) * connections_of_a_user(options), most)
        }
    }
}

/// Returns the maximum number of connections of a closed-loop user.
fn connections_of_a_user(options: &Options) -> u64 {
    // A user's connections are limited by the members of its largest page, unless it fills pipelines.
    let policy = options.policy;
    let members = largest_page(&options.plan).min(256) as u16;
    let each = match policy.pipeline.or(policy.streams) {
        Some(_) => policy.connections,
        None => policy.connections.min(members),
    };
    u64::from(each.max(1)) * u64::from(policy.hosts.clamp(1, members.max(1)))
}

/// Returns the largest number of closed-loop users, or of open-loop connections, that the limit of open files allows.
/// The soft limit is first raised to the hard limit.
pub fn most_by_open_files(options: &Options) -> u32 {
    let others = 2 * options.threads as u64 + SPARE_DESCRIPTORS;
    let connections = raise_open_files().saturating_sub(others);
    let each = match options.users {
        Users::Open { .. } => 1,
        Users::Closed { .. } => connections_of_a_user(options),
    };
    u32::try_from(connections / each).unwrap_or(u32::MAX)
}

/// Returns the number of intervals that a test is expected to have.
fn intervals(options: &Options) -> usize {
    match options.limit {
        Limit::Exchanges(_) => MOST_INTERVALS,
        Limit::Time(length) => {
            let all = options
                .warm_up
                .saturating_add(length)
                .saturating_add(options.drain);
            let whole = all.as_nanos() / options.interval.as_nanos().max(1);
            usize::try_from(whole).map_or(MOST_INTERVALS, |whole| whole.saturating_add(2))
        }
    }
}

/// A test that is ready to run.
struct Test<'a> {
    options: &'a Options,
    crew: SharedInputs<'a>,
}

/// The state that all threads share.
struct SharedInputs<'a> {
    shared: &'a Shared,
    users: &'a Users,
    share: Share,
    clock: Clock,
    loops: usize,
    processors: Vec<usize>,
    interval: Duration,
    drain: Duration,
    spin: Duration,
    longest_delay: Duration,
    before_others: bool,
    count_targets: bool,
    spares: Arc<Spares>,
}

/// The final state, after all loops have finished.
struct Ending {
    edges: Edges,
    outcomes: Vec<Outcomes>,
    timeline: Timeline,
}

/// A thread's interface to the start of the test: it reports that it is ready, and receives the edges of the windows.
struct Starts {
    ready: mpsc::Sender<()>,
    edges: Receiver<Edges>,
}

impl Starts {
    fn wait(self) -> Result<Edges, RecvError> {
        // Fails if another thread could not be started; the receiver is then closed.
        let _ = self.ready.send(());
        drop(self.ready);
        self.edges.recv()
    }
}

type Handle<'s> = ScopedJoinHandle<'s, Result<Outcomes, LoadError>>;

impl SharedInputs<'_> {
    /// Returns whether busy-waiting is allowed and useful, because requests are planned for instants that a sleeping
    /// thread could miss.
    fn may_be_late(&self) -> bool {
        let plan = &self.shared.plan;
        let pauses = plan.sessions.off.is_some() || matches!(plan.choice, Choice::Scripts(_));
        !self.spin.is_zero() && (pauses || matches!(self.users, Users::Open { .. }))
    }

    /// Runs one thread, and stops the test if it fails.
    fn serve(
        &self,
        number: usize,
        starts: Starts,
        parts: mpsc::Sender<Part>,
        rows: Option<SyncSender<Vec<ExchangeRow>>>,
    ) -> Result<Outcomes, LoadError> {
        let outcome = self.serve_to_the_end(number, starts, parts, rows);
        if outcome.is_err() {
            self.shared.stop();
        }
        outcome
    }

    fn serve_to_the_end(
        &self,
        number: usize,
        starts: Starts,
        parts: mpsc::Sender<Part>,
        rows: Option<SyncSender<Vec<ExchangeRow>>>,
    ) -> Result<Outcomes, LoadError> {
        if let Some(&processor) = self.processors.get(number % self.processors.len().max(1)) {
            sched::pin(processor)?;
        }
        let targets = match self.count_targets {
            true => self.shared.plan.targets.len(),
            false => 0,
        };
        if self.before_others {
            // Without the privilege the loop runs at normal priority, and the send lag includes the effect.
            let _ = priority::raise_priority();
        }
        let rows = rows.map(|to| Rows::new(to, self.clock));
        let parts = (parts, Arc::clone(&self.spares));
        let spin = Spin {
            longest: self.spin,
            wake_ups: match self.may_be_late() {
                true => Some(WakeUps::measure(self.clock)?),
                false => None,
            },
        };
        let mut tally = Tally::new(self.interval, parts, rows, targets);
        let Ok(edges) = starts.wait() else {
            return Err(LoadError::NoUsers);
        };
        tally.begin(edges);
        let (first, stride) = self.share.of_loop(number, self.loops);
        let source = match self.users {
            Users::Closed {
                users,
                start_interval,
                steps,
            } => {
                let (first, stride) = (first as u32, stride as u32);
                SessionSource::Users(Population::new(
                    *users,
                    *start_interval,
                    steps,
                    first,
                    stride,
                ))
            }
            Users::Open {
                arrivals,
                connections,
            } => {
                let all = self.share.of((*connections).into()) as u32;
                let loops = self.loops as u32;
                let most = all / loops + u32::from((number as u32) < all % loops);
                let open = OpenLoop::new(
                    arrivals,
                    (first, stride),
                    edges.start,
                    (most, self.shared.depth()),
                    self.shared.limits.timeout,
                );
                SessionSource::Arrivals(Box::new(open))
            }
        };
        let worker = Worker::new(
            self.shared,
            self.clock,
            tally,
            source,
            self.drain,
            spin,
            self.longest_delay,
        )?;
        worker.run()
    }
}

impl Test<'_> {
    /// Starts the threads, then the test.
    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        parts: &mpsc::Sender<Part>,
        rows: Option<&SyncSender<Vec<ExchangeRow>>>,
        ensemble: Option<&mut (dyn Ensemble + 'static)>,
    ) -> Result<(Edges, Vec<Handle<'s>>), LoadError> {
        let crew = &self.crew;
        let mut starts = Vec::new();
        let mut handles = Vec::new();
        let (ready, readies) = mpsc::channel();
        for number in 0..self.crew.loops {
            let (start, edges) = mpsc::sync_channel(1);
            let (parts, rows, ready) = (parts.clone(), rows.cloned(), ready.clone());
            let waits = Starts { ready, edges };
            // If a thread cannot be started, `starts` is dropped, which ends the earlier threads.
            let handle = thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn_scoped(scope, move || crew.serve(number, waits, parts, rows))
                .map_err(LoadError::Thread)?;
            starts.push(start);
            handles.push(handle);
        }
        drop(ready);
        // A thread that has failed sends nothing; its result contains the error.
        readies.iter().take(self.crew.loops).for_each(drop);
        let start = match ensemble {
            // If the test does not start, `starts` is dropped, which ends the threads.
            Some(ensemble) => ensemble.start().map_err(LoadError::Ensemble)?,
            None => self.crew.clock.now() + START,
        };
        let measured = start + self.options.warm_up;
        let end = match self.options.limit {
            Limit::Time(length) => measured + length,
            Limit::Exchanges(_) => NEVER,
        };
        let edges = Edges {
            start,
            measured,
            end,
        };
        for start in starts {
            // If a thread has already finished, its result contains the reason.
            let _ = start.send(edges);
        }
        Ok((edges, handles))
    }

    /// Receives the intervals of the loops until all loops have finished.
    fn listen(
        &self,
        parts: &Receiver<Part>,
        edges: Edges,
        interrupted: &(dyn Fn() -> bool + Sync),
        live: &mut dyn FnMut(&Live),
        pass_on: Sink<'_>,
    ) -> Timeline {
        let expected = intervals(self.options);
        let (loops, interval) = (self.crew.loops, self.options.interval);
        let spares = Arc::clone(&self.crew.spares);
        let mut timeline = Timeline::new(loops, interval, MOST_INTERVALS, expected, spares);
        let mut spare = Spare::new(processors_online(), loops);
        loop {
            let now = self.crew.clock.now();
            if self.crew.may_be_late() && spare.is_due(now) {
                let has_spare = spare.read(now, Contention::read());
                self.crew.shared.set_spare(has_spare);
            }
            match parts.recv_timeout(ASK) {
                Ok(part) => {
                    if let Some(reported) = timeline.add_and_pass_on(part, pass_on) {
                        let last = reported.interval;
                        let elapsed = last.start + last.length;
                        let at = edges.start + elapsed;
                        live(&Live {
                            elapsed,
                            phase: match () {
                                () if at <= edges.measured => Phase::WarmUp,
                                () if at <= edges.end => Phase::Measured,
                                () => Phase::Drain,
                            },
                            last,
                            so_far: reported.so_far,
                            corrected: LIVE_QUANTILES.map(|q| timeline.corrected.quantile(q)),
                        });
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return timeline,
            }
            if interrupted() {
                self.crew.shared.stop();
            }
        }
    }

    fn result(
        &self,
        ending: Ending,
        steal: f64,
        descriptors: u64,
        pass_on: Sink<'_>,
    ) -> LoadResult {
        let Ending {
            edges,
            outcomes,
            timeline,
        } = ending;
        let finished = outcomes
            .iter()
            .map(|o| o.finished)
            .max()
            .unwrap_or(edges.start);
        let last_end = outcomes.iter().map(|o| o.tallied.last_end).max();
        let last_answer = outcomes.iter().map(|o| o.tallied.last_answer).max();
        // With a limit on exchanges, the window ends with the last exchange. A timed window ends early if
        // the test is interrupted or there are no more arrivals.
        let end = match self.options.limit {
            Limit::Exchanges(_) => last_end.unwrap_or(finished).max(edges.measured),
            Limit::Time(_) => edges.end.min(finished),
        };
        let measured = end.since(edges.measured);
        let mut generator = Generator {
            peak_memory: peak_memory(),
            steal,
            ..Generator::default()
        };
        let mut windows = <[Window; 3]>::default();
        let mut targets = vec![(0, 0); outcomes.first().map_or(0, |o| o.tallied.targets.len())];
        let mut recorder_wait = Duration::ZERO;
        let mut connections = 0;
        for mut outcome in outcomes {
            // A loop without further exchanges waits until the other loops have finished.
            outcome.activity.wakes(outcome.finished, end, false);
            let tally = outcome.tallied;
            generator.cpu_user += outcome.processor.user;
            generator.cpu_system += outcome.processor.system;
            generator.ports_exhausted += tally.ports_exhausted;
            connections += tally.most_connections;
            generator.workers.push(outcome.activity.health(
                measured,
                outcome.rest_latency_ratio,
                outcome.wake_up_latency,
            ));
            recorder_wait += tally.recorder_wait;
            for (sum, target) in targets.iter_mut().zip(&tally.targets) {
                *sum = (sum.0 + target.0, sum.1 + target.1);
            }
            for (window, tally) in windows.iter_mut().zip(tally.windows) {
                tally.add_to(window);
            }
        }
        generator.descriptors = (connections + 2 * self.crew.loops as u64, descriptors);
        let [mut warm_up, mut window, mut drain] = windows;
        warm_up.duration = edges.measured.min(finished).since(edges.start);
        window.duration = measured;
        window.ended.silent_from = silent_from(
            &window,
            last_answer.unwrap_or(Instant::ZERO).since(edges.measured),
            last_end
                .unwrap_or(Instant::ZERO)
                .min(end)
                .since(edges.measured),
        );
        drain.duration = finished.since(edges.end);
        let machine = Machine::read();
        let setup = self.setup(edges, &machine);
        let user_time = self.user_time(&window, &warm_up);
        let circumstances = Circumstances {
            user_time,
            kind: &setup.kind,
            lag: self.options.send_lag,
            clock_source: &machine.clock_source,
            recorder_wait,
            // The sizes of a recorded plan are from the time of the recording.
            sizes_are_known: self.options.plan.recorded.is_none(),
        };
        let ended = [&warm_up, &window, &drain].map(|w| w.counts.pages + w.counts.pages_failed);
        let sequence = self.crew.shared.sequence_use(ended.iter().sum());
        let validity = examine(&window, &generator, &circumstances);
        LoadResult {
            validity,
            setup,
            measured: window,
            warm_up: (!self.options.warm_up.is_zero()).then_some(warm_up),
            drain: (!drain.duration.is_zero()).then_some(drain),
            timeline: timeline.finish_and_pass_on(finished.since(edges.start), pass_on),
            targets: self.targets(&targets),
            sequence,
            skipped: std::collections::BTreeMap::new(),
            user_time,
            generator,
            ranks: Vec::new(),
            server: None,
        }
    }

    /// Returns the time of users in each state, if the number of users is constant.
    fn user_time(&self, window: &Window, warm_up: &Window) -> Option<UserTime> {
        let Users::Closed { users, steps, .. } = &self.options.users else {
            return None;
        };
        let policy = &self.options.policy;
        let slots = match self.crew.shared.fills {
            true => u32::from(policy.connections.max(1)) * u32::from(self.crew.shared.depth()),
            false => 1,
        };
        // Pauses are counted until the planned end of the window.
        let pauses_are_known = window.paused.is_zero()
            || matches!(self.options.limit, Limit::Time(length) if window.duration == length);
        (steps.is_empty() && pauses_are_known)
            .then(|| {
                let users = self.options.share.of((*users).into()) as u32;
                UserTime::of(window, warm_up, users, slots)
            })
            .flatten()
    }

    fn targets(&self, counts: &[(u64, u64)]) -> Vec<TargetCount> {
        let targets = self.crew.shared.plan.targets.iter().zip(counts);
        targets
            .map(|(target, &(completed, failed))| TargetCount {
                target: format!("{} {}", target.method, target.path),
                completed,
                failed,
            })
            .collect()
    }

    fn setup(&self, edges: Edges, machine: &Machine) -> Setup {
        let options = self.options;
        let path = match &*options.plan.targets {
            [only] => &*only.path,
            _ => "/",
        };
        let (duration, exchanges) = match options.limit {
            Limit::Time(length) => (Some(length), None),
            Limit::Exchanges(most) => (None, Some(most)),
        };
        let kind = match &options.users {
            Users::Closed { users, .. } => LoopKind::Closed { users: *users },
            Users::Open {
                arrivals,
                connections,
            } => {
                let length = duration.unwrap_or(Duration::from_secs(1));
                let expected = arrivals.expected(options.warm_up, options.warm_up + length);
                LoopKind::Open {
                    arrivals: arrivals.to_string(),
                    rate: expected / length.as_secs_f64().max(1e-9),
                    connections: *connections,
                    batch: arrivals.batch(),
                }
            }
        };
        let started = self.crew.clock.realtime_of(edges.start);
        Setup {
            url: match options.policy.tls {
                true => format!("https://{}{path}", options.host),
                false => format!("http://{}{path}", options.host),
            },
            workload: options.plan.name.clone(),
            policy: options.policy.to_string(),
            kind,
            threads: self.crew.loops as u32,
            warm_up: options.warm_up,
            duration,
            exchanges,
            timeout: options.timeout,
            wake_up_coalescing: match options.users {
                Users::Closed { .. } => options.coalescing,
                Users::Open { .. } => Duration::ZERO,
            },
            seed: options.seed,
            defaults: Vec::new(),
            command: crate::secrets::command_line(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine.facts(),
            started: started.as_secs_f64(),
        }
    }
}

/// The minimum time without a complete response after which a server is reported as silent.
const SILENCE: Duration = Duration::from_secs(1);

/// Returns the end of the last complete response of a window, if the server was silent afterwards: every later exchange
/// failed, and the silence was longer than any exchange. All instants are relative to the start of the window.
fn silent_from(window: &Window, last_answer: Duration, last_end: Duration) -> Option<Duration> {
    if window.counts.completed == 0 || last_answer.is_zero() {
        return None;
    }
    let latency = &window.latency;
    let longest = [&latency.first_byte, &latency.transfer].map(|times| times.max());
    let longest: Duration = longest.into_iter().flatten().sum();
    let silence = last_end.saturating_sub(last_answer);
    (silence >= SILENCE && silence > longest).then_some(last_answer)
}
