//! The control connections of a rank, on sockets. Each side runs them on a separate thread.
//!
//! The thread of the load test sends messages to this thread: that the event loops are ready, the figures of each
//! interval, and the result.

mod rank_member;
mod rank_zero;
#[cfg(test)]
mod tests;
mod transfer;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_analysis::load::{Interval, LoadResult};
use fathometer_load::timeline::{ClosedInterval, Part};
use fathometer_load::{Ensemble, LIVE_QUANTILES};
use fathometer_model::Instant;
use fathometer_sys::Clock;
use ring::rand::{SecureRandom, SystemRandom};

use crate::clock_offset::ClockRecord;
use crate::merge::Merged;
use crate::message::Hello;
use crate::record::{RankRecord, TestFacts};
use crate::secret::{NONCE, Secret};
use crate::spool::{SpoolHeader, SpoolWriter};
use crate::whole::{Whole, encode_part, encode_record};

/// The period at which the threads check for messages of the load test.
const TURN: Duration = Duration::from_millis(10);

/// The time limit for the second comparison of the clocks, and for the acceptance of a member's result by rank 0.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for reporting a failure to the other ranks.
const FAILURE: Duration = Duration::from_secs(2);

/// The time for which rank 0 waits for the other ranks after its own share of a timed test, in addition to the drain.
const GRACE: Duration = Duration::from_secs(20);

/// The reason why a test on several machines has no result on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Rank 0 cannot listen.
    #[error(
        "rank 0 cannot listen on {address}: {source}: check that the rendezvous is an address of this machine, or set \
         --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: fathometer_sys::Error,
    },
    /// The system returned no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The control connections cannot be encrypted.
    #[error("failed to prepare TLS for the control connections: {0}")]
    Tls(#[from] fathometer_tls::SettingsError),
    /// A thread could not be started.
    #[error("failed to start a thread: {0}")]
    Thread(io::Error),
    /// Rank 0 is lost, or did not accept the result.
    #[error("{0}")]
    Lost(String),
    /// The spool cannot be written.
    #[error("failed to write the spool {path}: {source}: choose another folder with --spool")]
    Spool {
        /// The file of the spool.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No rank has a result.
    #[error("{0}")]
    Merge(#[from] crate::merge::MergeError),
}

/// The options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The first message of this rank.
    pub hello: Hello,
    /// The secret of all ranks.
    pub secret: Secret,
    /// The facts that are equal on all ranks.
    pub facts: TestFacts,
    /// The maximum time to wait for all ranks.
    pub rendezvous: Duration,
    /// The time without a message after which a rank is lost.
    pub silence: Duration,
    /// The maximum time to wait for exchanges in flight at the end.
    pub drain: Duration,
    /// The folder for the records of this rank; `None` writes no records.
    pub spool: Option<PathBuf>,
}

/// The progress of the whole test, which only rank 0 has.
#[derive(Debug, Clone)]
pub struct WholeLive {
    /// The last interval.
    pub last: Interval,
    /// The counts of the interval's window so far.
    pub so_far: fathometer_analysis::load::Counts,
    /// Corrected latency since the start, at [`LIVE_QUANTILES`].
    pub corrected: [Option<Duration>; LIVE_QUANTILES.len()],
}

impl WholeLive {
    fn of(closed: ClosedInterval, whole: &Whole) -> WholeLive {
        WholeLive {
            last: closed.interval,
            so_far: closed.so_far,
            corrected: LIVE_QUANTILES.map(|quantile| whole.corrected().quantile(quantile)),
        }
    }
}

/// A message from the load test to the connection thread.
#[derive(Debug)]
enum Command {
    Ready,
    Interval(Vec<u8>),
    /// Member: compares the clocks again.
    Compare,
    /// The result. Rank 0 then waits for the other ranks, at most until this instant.
    Ended(Vec<u8>, Option<Instant>),
    Failed(String),
    /// Rank 0: ends the test early.
    Stop(String),
}

/// A message from the connection thread to the load test.
#[derive(Debug)]
enum Event {
    Start(Instant, u64),
    Compared(ClockRecord, (u64, u64)),
    Live(Box<WholeLive>),
    /// Rank 0: a rank was lost.
    LostRank(u32, String),
    Done,
    Lost(String),
}

/// A function that returns whether the user has interrupted the test.
pub type Interrupted = Box<dyn Fn() -> bool + Send>;

/// One rank of a running test.
pub struct Session {
    options: SessionOptions,
    clock: Clock,
    interrupted: Interrupted,
    commands: Sender<Command>,
    events: Receiver<Event>,
    /// A flag that is set when this rank's load must end early.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Whole>>>,
    spool: Option<(PathBuf, SpoolWriter<File>)>,
    spool_failure: Option<(PathBuf, io::Error)>,
    start_late: Duration,
    has_sent_stop: bool,
    /// The last comparison of the clocks, and the control traffic at that time.
    compared: Option<(ClockRecord, (u64, u64))>,
    lost: Option<String>,
}

/// Returns random bytes for a connection.
fn nonce() -> Result<[u8; NONCE], SessionError> {
    let mut nonce = [0; NONCE];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| SessionError::Random)?;
    Ok(nonce)
}

impl Session {
    /// Starts rank 0, which listens for all other ranks at `address`. `interrupted` returns whether the user has
    /// interrupted the test.
    ///
    /// # Errors
    /// If rank 0 cannot listen.
    pub fn listen(
        options: SessionOptions,
        address: SocketAddr,
        clock: Clock,
        interrupted: Interrupted,
    ) -> Result<Session, SessionError> {
        let started = rank_zero::start(&options, address, clock)?;
        Ok(Session::of(options, started, clock, interrupted))
    }

    /// Starts another rank, which connects to rank 0 at `place` (`host:port`) and retries until rank 0 listens.
    /// `resolve` returns the addresses of `place`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn join(
        options: SessionOptions,
        place: String,
        resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
        clock: Clock,
        interrupted: Interrupted,
    ) -> Result<Session, SessionError> {
        let started = rank_member::start(&options, place, resolve, clock)?;
        Ok(Session::of(options, started, clock, interrupted))
    }

    fn of(
        options: SessionOptions,
        (commands, events, stop, thread): Started,
        clock: Clock,
        interrupted: Interrupted,
    ) -> Session {
        Session {
            options,
            clock,
            interrupted,
            commands,
            events,
            stop,
            thread: Some(thread),
            spool: None,
            spool_failure: None,
            start_late: Duration::ZERO,
            has_sent_stop: false,
            compared: None,
            lost: None,
        }
    }

    /// Whether this is rank 0.
    pub fn is_rank_zero(&self) -> bool {
        self.options.hello.rank == 0
    }

    /// Returns a flag that is set when this rank's load must end early: rank 0 ends the test, or is lost.
    pub fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// At rank 0, returns the progress of the whole test since the last call. Passes notices to `notice`.
    pub fn progress(&mut self, notice: &mut dyn FnMut(&str)) -> Vec<WholeLive> {
        self.ask_to_stop();
        let mut lives = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Live(live) => lives.push(*live),
                other => self.note(other, notice),
            }
        }
        lives
    }

    /// At rank 0, ends the test on every rank if the user has interrupted the test.
    fn ask_to_stop(&mut self) {
        if (self.interrupted)() && !self.has_sent_stop {
            self.has_sent_stop = true;
            let _ = self
                .commands
                .send(Command::Stop("it was interrupted".to_owned()));
        }
    }

    fn note(&mut self, event: Event, notice: &mut dyn FnMut(&str)) {
        match event {
            Event::LostRank(rank, why) => {
                notice(&format!("rank {rank} was lost: {why}"));
                if let Some((path, spool)) = &mut self.spool
                    && let Err(error) = spool.lost(rank, &why)
                {
                    self.spool_failure = Some((path.clone(), error));
                    self.spool = None;
                }
            }
            Event::Compared(record, traffic) => self.compared = Some((record, traffic)),
            Event::Lost(why) => self.lost = Some(why),
            Event::Start(..) | Event::Live(_) | Event::Done => {}
        }
    }

    /// Waits for the next event and returns it. Returns an error at `deadline`.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<Event, String> {
        loop {
            self.ask_to_stop();
            match self.events.recv_timeout(TURN) {
                Ok(Event::Lost(why)) => return Err(why),
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the control connection was closed".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if deadline.is_none() && !self.is_rank_zero() && (self.interrupted)() {
                return Err("interrupted before the test started".to_owned());
            }
            if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                return Err("rank 0 did not answer in time".to_owned());
            }
        }
    }

    /// Returns the path of a rank's spool in a folder.
    pub fn spool_file(folder: &Path, rank: u32) -> PathBuf {
        folder.join(format!("rank-{rank:04}.spool"))
    }

    fn start_test(&mut self) -> Result<Instant, String> {
        let _ = self.commands.send(Command::Ready);
        loop {
            if let Event::Start(at, test) = self.wait(None)? {
                self.start_late = self.clock.now().since(at);
                self.begin_spool(test);
                return Ok(at);
            }
        }
    }

    fn begin_spool(&mut self, test: u64) {
        let Some(folder) = &self.options.spool else {
            return;
        };
        let rank = self.options.hello.rank;
        let path = Session::spool_file(folder, rank);
        let header = SpoolHeader {
            test,
            rank,
            facts: self.options.facts,
        };
        let begun = File::create_new(&path).and_then(|file| SpoolWriter::begin(file, &header));
        match begun {
            Ok(spool) => self.spool = Some((path, spool)),
            Err(error) => self.spool_failure = Some((path, error)),
        }
    }

    fn report(&mut self, part: &Part) {
        let bytes = encode_part(part);
        if let Some((path, spool)) = &mut self.spool
            && let Err(error) = spool.interval(&bytes)
        {
            self.spool_failure = Some((path.clone(), error));
            self.spool = None;
        }
        let _ = self.commands.send(Command::Interval(bytes));
    }

    /// Reports to the other ranks that the load of this rank failed.
    pub fn failed(self, why: &str) {
        let _ = self.commands.send(Command::Failed(why.to_owned()));
        // If the thread is still connecting to rank 0, it is stopped when the process exits.
        let end = self.clock.now() + FAILURE;
        while self.clock.now() < end
            && self
                .thread
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
        {
            std::thread::sleep(TURN);
        }
    }

    fn join_thread(&mut self) -> Option<Whole> {
        match self.thread.take()?.join() {
            Ok(whole) => whole,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Finishes this rank's share with its result. Rank 0 waits until all other ranks have finished or are lost, and
    /// returns the result of the whole test. Another rank sends its result to rank 0.
    ///
    /// # Errors
    /// If rank 0 did not accept the result, or if the spool could not be written.
    pub fn finish(
        mut self,
        mut result: LoadResult,
        notice: &mut dyn FnMut(&str),
        live: &mut dyn FnMut(&WholeLive),
    ) -> Result<Option<Merged>, SessionError> {
        result.timeline = Vec::new();
        let (clock, traffic, lost) = match self.is_rank_zero() {
            true => (ClockRecord::SAME, (0, 0), None),
            false => self.compare_clocks(),
        };
        let record = encode_record(&RankRecord {
            rank: self.options.hello.rank,
            host: self.options.hello.host.clone(),
            result,
            clock,
            start_late: self.start_late,
            traffic,
        });
        if let Some((path, spool)) = &mut self.spool
            && let Err(error) = spool.ended(&record)
        {
            self.spool_failure = Some((path.clone(), error));
        }
        let ending = match (self.is_rank_zero(), lost) {
            (true, _) => self.gather(record, notice, live),
            (false, Some(why)) => Err(SessionError::Lost(why)),
            (false, None) => self.hand_over(record),
        };
        let ending = ending.map_err(|error| match (&self.spool, error) {
            (Some((path, _)), SessionError::Lost(why)) => SessionError::Lost(format!(
                "{why}; the figures of this rank are in {}: merge them with `fathometer merge`",
                path.display()
            )),
            (_, error) => error,
        })?;
        match self.spool_failure.take() {
            Some((path, source)) if !self.is_rank_zero() => {
                Err(SessionError::Spool { path, source })
            }
            Some((path, source)) => {
                notice(&SessionError::Spool { path, source }.to_string());
                Ok(ending)
            }
            None => Ok(ending),
        }
    }

    /// Compares the clocks again. If rank 0 does not answer, the record contains only the comparison before the test.
    fn compare_clocks(&mut self) -> (ClockRecord, (u64, u64), Option<String>) {
        let _ = self.commands.send(Command::Compare);
        let deadline = self.clock.now() + RESULT_TIMEOUT;
        let mut lost = self.lost.take();
        while lost.is_none() {
            match self.wait(Some(deadline)) {
                Ok(Event::Compared(record, traffic)) => {
                    self.compared = Some((record, traffic));
                    if record.after.is_some() {
                        break;
                    }
                }
                Ok(_) => {}
                Err(why) => lost = Some(why),
            }
        }
        let (record, traffic) = self.compared.unwrap_or((ClockRecord::SAME, (0, 0)));
        (record, traffic, lost)
    }

    fn hand_over(&mut self, record: Vec<u8>) -> Result<Option<Merged>, SessionError> {
        let _ = self.commands.send(Command::Ended(record, None));
        let deadline = self.clock.now() + RESULT_TIMEOUT;
        loop {
            match self.wait(Some(deadline)) {
                Ok(Event::Done) => {
                    self.join_thread();
                    return Ok(None);
                }
                Ok(_) => {}
                Err(why) => return Err(SessionError::Lost(why)),
            }
        }
    }

    /// Waits for the results of all ranks.
    fn gather(
        &mut self,
        record: Vec<u8>,
        notice: &mut dyn FnMut(&str),
        live: &mut dyn FnMut(&WholeLive),
    ) -> Result<Option<Merged>, SessionError> {
        // If the test ends after a number of exchanges, rank 0 waits without limit, because each exchange has its own
        // time limit.
        let until = self
            .options
            .facts
            .measured
            .map(|_| self.clock.now() + self.options.drain + GRACE);
        let _ = self.commands.send(Command::Ended(record, until));
        loop {
            match self.wait(None) {
                Ok(Event::Done) => break,
                Ok(Event::Live(closed)) => live(&closed),
                Ok(other) => self.note(other, notice),
                Err(why) => return Err(SessionError::Lost(why)),
            }
        }
        let whole = self.join_thread();
        let whole =
            whole.ok_or_else(|| SessionError::Lost("the test has no figures".to_owned()))?;
        Ok(Some(whole.finish()?))
    }
}

/// Makes a session usable by the load engine.
pub struct SharedSession(pub Arc<std::sync::Mutex<Session>>);

impl SharedSession {
    fn lock(&self) -> std::sync::MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(|lock| lock.into_inner())
    }
}

impl Ensemble for SharedSession {
    fn start(&mut self) -> Result<Instant, String> {
        self.lock().start_test()
    }

    fn interval(&mut self, part: &Part) {
        self.lock().report(part);
    }
}

type Started = (
    Sender<Command>,
    Receiver<Event>,
    Arc<AtomicBool>,
    JoinHandle<Option<Whole>>,
);

/// Starts the thread of a connection.
fn spawn(
    name: &str,
    serve: impl FnOnce(&Receiver<Command>, &Sender<Event>, &AtomicBool) -> Option<Whole>
    + Send
    + 'static,
) -> Result<Started, SessionError> {
    let (commands, taken) = channel();
    let (sender, events) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || serve(&taken, &sender, &stops))
        .map_err(SessionError::Thread)?;
    Ok((commands, events, stop, thread))
}

fn set(stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
}
