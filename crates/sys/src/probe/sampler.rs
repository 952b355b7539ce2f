//! Takes readings at a constant period on a separate thread, with bounded memory and bounded CPU time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::{Bytes, Instant};

use super::aside::Aside;
use super::network::{NetworkProbe, Windows};
use super::process_tree::{Detail, ProcessTree, proportional};
use super::samples::{Cost, Names, Sample, Samples};
use super::system::SystemProbe;
use crate::cgroup::UsageProbe;
use crate::clock::{Clock, thread_cpu_time};
use crate::error::{Doing, Result};
use crate::namespace::Namespace;
use crate::priority;

/// The time that a reading waits for figures behind a lock: congestion windows and proportional memory.
const PATIENCE: Duration = Duration::from_millis(10);
/// The minimum pause after a reading, as a multiple of the reading's CPU time: the thread uses at most a tenth of a
/// processor.
const REST: u32 = 9;

/// The sources to read, and the periods of reading.
#[derive(Debug)]
pub struct Plan {
    /// The time between two readings of the cheap sources: the machine, namespaces and groups.
    pub period: Duration,
    /// The expensive sources (process trees and socket tables) are read in every *n*th reading, and in the first and the
    /// last reading.
    pub dear_every: u64,
    /// The largest number of readings to keep, at least 4. At this number, every second reading is discarded and the period
    /// doubles. Counters then only lose time resolution.
    pub keep: usize,
    /// Whether to read the figures of the machine.
    pub system: bool,
    /// Programs by name, each with its process number.
    pub trees: Vec<(String, u32)>,
    /// The details to read of each process.
    pub detail: Detail,
    /// Hosts by name, each with its namespace.
    pub networks: Vec<(String, Namespace)>,
    /// Whether to read the socket tables of the hosts.
    pub tables: bool,
    /// The server's port, to record the congestion windows ([`Network::windows`](super::Network::windows)) of established
    /// connections with this local port, in each of the hosts. They are read in *every* reading, which takes 0.5 ms per
    /// host and about 2 µs per connection. [`Sampler`] describes when they are late.
    pub windows: Option<u16>,
    /// Groups by name, each with the probe of its usage.
    pub groups: Vec<(String, UsageProbe)>,
}

/// The default: reads the machine ten times per second, and keeps up to 4096 readings.
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            period: Duration::from_millis(100),
            dear_every: 10,
            keep: 4096,
            system: true,
            trees: Vec::new(),
            detail: Detail::default(),
            networks: Vec::new(),
            tables: false,
            windows: None,
            groups: Vec::new(),
        }
    }
}

/// A thread that takes readings until it is stopped.
///
/// Its cost is bounded:
///
/// - Its thread uses at most a tenth of a processor. If a reading takes more CPU time than a tenth of the period, for
///   example with hundreds of processes, fewer readings are taken ([`Samples::missed`]).
/// - A reading never blocks. Congestion windows and proportional memory need the lock on the socket or on the memory map,
///   so separate threads read them. If an answer has not arrived after 10 ms, a later reading contains it
///   ([`Cost::late`]). Until then, readings contain the last known values: the windows then cover fewer instants, and the
///   proportional memory is older.
/// - Proportional memory takes the most time. It is read so rarely that it uses at most a tenth of a processor for each
///   tree. Readings in between contain the last known value.
#[derive(Debug)]
pub struct Sampler {
    stop: SyncSender<()>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Takes the first reading and starts the thread. Instants are counted by `clock`.
    ///
    /// Fails if any source in the plan cannot be read in the first reading.
    pub fn start(clock: Clock, plan: Plan) -> Result<Sampler> {
        let mut reader = Reader::open(clock, plan)?;
        let (stop, stopped) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                reader.run(&stopped);
                reader.samples
            })
            .doing("start a thread")?;
        Ok(Sampler { stop, thread })
    }

    /// Takes the last reading and returns all readings.
    pub fn stop(self) -> Samples {
        // A thread that has already exited has panicked; the panic is propagated below.
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(samples) => samples,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Reader {
    clock: Clock,
    system: Option<SystemProbe>,
    /// Process numbers, each with the reader of proportional memory, if the plan includes it.
    trees: Vec<(u32, Option<Proportional>)>,
    detail: Detail,
    /// Namespaces, each with the reader of congestion windows, if the plan includes it.
    networks: Vec<(NetworkProbe, Option<Aside<Result<Windows>>>)>,
    tables: bool,
    /// The last known windows of each network; `None` if not in the plan or not available.
    windows: Vec<Option<Windows>>,
    groups: Vec<UsageProbe>,
    dear_every: u64,
    keep: usize,
    samples: Samples,
}

impl Reader {
    /// Takes the first reading. A source that cannot be read is an error.
    fn open(clock: Clock, plan: Plan) -> Result<Reader> {
        let mut names = Names::default();
        let mut networks = Vec::new();
        for (name, namespace) in plan.networks {
            names.networks.push(name);
            let windows = plan.windows.map(|port| {
                // Uses a separate netlink socket, because a socket that waits for an answer cannot be used.
                let mut probe = NetworkProbe::open(&namespace)?;
                let mut windows = Windows::default();
                Aside::start(move || probe.windows(port, &mut windows).map(|()| windows.clone()))
            });
            networks.push((NetworkProbe::open(&namespace)?, windows.transpose()?));
        }
        let mut trees = Vec::new();
        for (name, pid) in plan.trees {
            names.trees.push(name);
            ProcessTree::read(pid, Detail::default())?;
            let memory = plan.detail.proportional.then(|| Proportional::of(pid));
            trees.push((pid, memory.transpose()?));
        }
        let mut groups = Vec::new();
        for (name, group) in plan.groups {
            names.groups.push(name);
            group.cpu()?;
            groups.push(group);
        }
        let mut reader = Reader {
            clock,
            system: plan.system.then(SystemProbe::open).transpose()?,
            trees,
            detail: Detail {
                proportional: false,
                ..plan.detail
            },
            windows: vec![plan.windows.map(|_| Windows::default()); networks.len()],
            networks,
            tables: plan.tables,
            groups,
            dear_every: plan.dear_every.max(1),
            keep: plan.keep.max(4),
            samples: Samples {
                period: plan.period.max(Duration::from_millis(1)),
                names,
                readings: Vec::new(),
                missed: 0,
                cost: Cost::default(),
                failures: Vec::new(),
            },
        };
        reader.take(true);
        Ok(reader)
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        // Without the privilege, readings are taken when the thread gets CPU time. Its CPU time is
        // bounded, so other threads are hardly delayed.
        let _ = priority::raise_priority();
        let cpu_at_start = thread_cpu_time();
        let first = self.samples.readings[0].at;
        let mut due = first + self.samples.period;
        for number in 1.. {
            let wait = due.since(self.clock.now());
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                // Also stops if the sampler was dropped without `stop`.
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let before = thread_cpu_time();
            self.take(number % self.dear_every == 0);
            self.thin();
            due += self.samples.period;
            let rested = self.clock.now() + thread_cpu_time().saturating_sub(before) * REST;
            while due <= rested {
                due += self.samples.period;
                self.samples.missed += 1;
            }
        }
        self.take(true);
        let own = thread_cpu_time().saturating_sub(cpu_at_start);
        let windows = self.networks.iter().filter_map(|(_, aside)| aside.as_ref());
        let windows: Duration = windows.map(Aside::spent).sum();
        let memory = self.trees.iter().filter_map(|(_, memory)| memory.as_ref());
        let memory: Duration = memory.map(|memory| memory.aside.spent()).sum();
        self.samples.cost.cpu = own + windows + memory;
    }

    fn take(&mut self, dear: bool) {
        let failures = &mut self.samples.failures;
        let cost = &mut self.samples.cost;
        let at = self.clock.now();
        for aside in self
            .networks
            .iter_mut()
            .filter_map(|(_, aside)| aside.as_mut())
        {
            aside.request();
        }
        for memory in self
            .trees
            .iter_mut()
            .filter_map(|(_, memory)| memory.as_mut())
        {
            if dear {
                memory.request(at);
            }
        }
        let networks = self.networks.iter_mut().zip(&self.samples.names.networks);
        let mut networks: Vec<_> = networks
            .map(|((probe, _), name)| {
                let mut network = probe.read();
                if dear && self.tables {
                    network.table = noted(probe.table(), "sockets of", name, failures);
                }
                network
            })
            .collect();
        let groups = self.groups.iter().zip(&self.samples.names.groups);
        let groups = groups
            .map(|(probe, name)| noted(probe.cpu(), "group", name, failures).map(|_| probe.read()))
            .collect();
        let system = self.system.as_mut().map(SystemProbe::read);
        let trees = self.trees.iter().zip(&self.samples.names.trees);
        let mut trees: Vec<_> = trees
            .map(|((pid, _), name)| {
                let read = dear.then(|| ProcessTree::read(*pid, self.detail))?;
                noted(read, "program", name, failures)
            })
            .collect();
        // Read last, to give the answers time to arrive. All answers share the waiting time.
        let until = self.clock.now() + PATIENCE;
        let left = || until.since(self.clock.now());
        let answers = self.networks.iter_mut().zip(&mut self.windows);
        for (place, ((_, aside), known)) in answers.enumerate() {
            let Some(aside) = aside else { continue };
            if let Some(found) = aside.answer(left()) {
                let name = &self.samples.names.networks[place];
                *known = noted(found, "connections of", name, failures);
            }
            cost.late += u64::from(aside.is_outstanding());
            networks[place].windows.clone_from(known);
        }
        for ((_, memory), tree) in self.trees.iter_mut().zip(&mut trees) {
            let (Some(memory), Some(tree)) = (memory, tree) else {
                continue;
            };
            cost.late += u64::from(!memory.look(left(), self.clock.now()));
            tree.proportional = memory.known;
        }
        let took = self.clock.now().since(at);
        cost.readings += 1;
        cost.longest = cost.longest.max(took);
        self.samples.readings.push(Sample {
            at,
            took,
            system,
            trees,
            networks: networks.into_iter().map(Some).collect(),
            groups,
        });
    }

    /// Discards every second reading if there are too many.
    fn thin(&mut self) {
        if self.samples.readings.len() < self.keep {
            return;
        }
        let mut number = 0;
        self.samples.readings.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.samples.period *= 2;
    }
}

/// Reads a tree's proportional memory, less often than other figures.
#[derive(Debug)]
struct Proportional {
    aside: Aside<Option<Bytes>>,
    /// The last known value.
    known: Option<Bytes>,
    /// The CPU time of all readings so far.
    spent: Duration,
    /// The earliest time of the next reading.
    rested: Instant,
}

impl Proportional {
    fn of(pid: u32) -> Result<Proportional> {
        Ok(Proportional {
            aside: Aside::start(move || proportional(pid))?,
            known: None,
            spent: Duration::ZERO,
            rested: Instant::ZERO,
        })
    }

    fn request(&mut self, now: Instant) {
        if now >= self.rested {
            self.aside.request();
        }
    }

    /// Takes an answer that arrives within `patience`. Returns whether no answer is outstanding.
    fn look(&mut self, patience: Duration, now: Instant) -> bool {
        if let Some(found) = self.aside.answer(patience) {
            self.known = found;
            let spent = self.aside.spent();
            self.rested = now + spent.saturating_sub(self.spent) * REST;
            self.spent = spent;
        }
        !self.aside.is_outstanding()
    }
}

/// Returns the value. On failure returns `None` and records the reason, once for each subject.
fn noted<T>(result: Result<T>, what: &str, name: &str, failures: &mut Vec<String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let subject = format!("{what} {name}: ");
            if !failures.iter().any(|failure| failure.starts_with(&subject)) {
                failures.push(format!("{subject}{error}"));
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::super::samples::Step;
    use super::super::withheld::Withheld;
    use super::*;

    fn plan(period: u64) -> Plan {
        Plan {
            period: Duration::from_millis(period),
            ..Plan::default()
        }
    }

    #[test]
    fn readings_come_in_order_and_their_steps_make_up_the_whole() {
        let clock = Clock::start();
        let start = clock.now();
        let sampler = Sampler::start(clock, plan(5)).unwrap();
        let started = clock.now();
        std::thread::sleep(Duration::from_millis(60));
        let asked = clock.now();
        let samples = sampler.stop();
        let readings = &samples.readings;
        assert!(readings.len() >= 2);
        assert!(readings.is_sorted_by(|a, b| a.at < b.at));
        assert!(start <= readings[0].at && readings[0].at <= started);
        assert!(asked <= readings.last().unwrap().at);
        let whole = samples.whole().unwrap();
        let switches = |step: &Step| {
            step.change
                .system
                .as_ref()
                .unwrap()
                .context_switches
                .unwrap()
        };
        assert_eq!(
            samples.steps().map(|s| switches(&s)).sum::<u64>(),
            switches(&whole)
        );
        assert!(switches(&whole) > 0);
        assert!(whole.per_second(switches(&whole)).unwrap() > 0.0);
        assert!(samples.cost.cpu > Duration::ZERO);
        let busy = samples.cost.cpu.as_secs_f64() / whole.length().as_secs_f64();
        println!("{:.1} % of a processor", 100.0 * busy);
        assert_eq!(samples.cost.readings, readings.len() as u64);
        assert!(samples.failures.is_empty());
        // The step contains the whole window.
        let step = samples.between(started, asked).unwrap();
        assert!(step.from <= started && step.to >= asked);
        assert_eq!(samples.between(start, asked + Duration::from_secs(9)), None);
    }

    #[test]
    fn memory_is_bounded_and_nothing_counted_is_lost() {
        let clock = Clock::start();
        let keep = 8;
        let sampler = Sampler::start(clock, Plan { keep, ..plan(1) }).unwrap();
        std::thread::sleep(Duration::from_millis(80));
        let samples = sampler.stop();
        // On a machine that gave the thread too little time, fewer readings were taken.
        let taken = samples.cost.readings;
        assert!(samples.readings.len() <= keep, "{taken} taken");
        assert!(taken <= keep as u64 || samples.period > Duration::from_millis(1));
        let switches = |sample: &Sample| sample.system.as_ref().unwrap().context_switches.unwrap();
        let (first, last) = (&samples.readings[0], samples.readings.last().unwrap());
        let whole = samples.whole().unwrap().change.system.unwrap();
        assert_eq!(
            whole.context_switches,
            Some(switches(last) - switches(first))
        );
    }

    #[test]
    fn readings_do_not_wait_for_a_locked_socket() {
        let page = match Withheld::page() {
            Ok(page) => page,
            Err(error) => return eprintln!("SKIPPED, userfaultfd is not available here: {error}"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let plan = Plan {
            system: false,
            networks: vec![("here".to_owned(), Namespace::current().unwrap())],
            windows: Some(address.port()),
            ..plan(5)
        };
        let mut reader = Reader::open(Clock::start(), plan).unwrap();
        let windows = |reader: &Reader| {
            let last = reader.samples.readings.last().unwrap();
            last.networks[0].as_ref().unwrap().windows.clone()
        };
        let (released, held) = sync_channel::<()>(0);
        std::thread::scope(|scope| {
            // The page that the kernel copies into the socket is missing, so the kernel holds the lock while
            // it waits.
            let sending = scope.spawn(|| server.write(page.bytes()));
            page.wait_for_access().unwrap();
            // A reading that waited for the lock would block forever.
            let page = &page;
            scope.spawn(move || {
                if held.recv_timeout(Duration::from_secs(60)).is_err() {
                    page.give();
                }
            });
            let late = reader.samples.cost.late;
            // The first query may be answered before the lock is taken.
            for _ in 0..4 {
                reader.take(true);
            }
            assert!(!sending.is_finished(), "the readings waited");
            assert!(reader.samples.cost.late >= late + 3);
            let known = windows(&reader);
            reader.take(true);
            assert_eq!(windows(&reader), known, "the last known value is used");
            page.give();
            assert!(sending.join().unwrap().unwrap() > 0);
            released.send(()).unwrap();
        });
        // The outstanding query has an answer now.
        let readings = |windows: Option<Windows>| windows.map_or(0, |windows| windows.readings);
        let before = readings(windows(&reader));
        while readings(windows(&reader)) < before + 2 {
            reader.take(true);
        }
        let windows = windows(&reader).unwrap();
        assert_eq!(windows.established, windows.readings);
    }

    #[test]
    fn proportional_memory_is_read_at_a_separate_interval() {
        let plan = Plan {
            trees: vec![("ourselves".to_owned(), std::process::id())],
            detail: Detail {
                switches: false,
                proportional: true,
            },
            ..plan(5)
        };
        let mut reader = Reader::open(Clock::start(), plan).unwrap();
        let memory = |reader: &Reader| {
            let last = reader.samples.readings.last().unwrap();
            last.trees[0].unwrap().proportional
        };
        while memory(&reader).is_none() {
            reader.take(true);
        }
        let found = memory(&reader);
        assert!(found > Some(Bytes(0)));
        let paced = reader.trees[0].1.as_mut().unwrap();
        paced.rested = reader.clock.now() + Duration::from_secs(3600);
        let spent = paced.spent;
        reader.take(true);
        assert_eq!(memory(&reader), found, "not read again");
        assert_eq!(reader.trees[0].1.as_ref().unwrap().spent, spent);
    }

    #[test]
    fn only_the_first_and_the_last_reading_have_expensive_values() {
        let clock = Clock::start();
        let plan = Plan {
            trees: vec![("ourselves".to_owned(), std::process::id())],
            networks: vec![("here".to_owned(), Namespace::current().unwrap())],
            tables: true,
            dear_every: u64::MAX,
            ..plan(5)
        };
        let sampler = Sampler::start(clock, plan).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let samples = sampler.stop();
        let (first, last) = (&samples.readings[0], samples.readings.last().unwrap());
        for reading in [first, last] {
            assert!(reading.trees[0].unwrap().processes >= 1);
            assert!(
                reading.networks[0]
                    .as_ref()
                    .unwrap()
                    .tcp
                    .segments_in
                    .is_some()
            );
        }
        for reading in &samples.readings[1..samples.readings.len() - 1] {
            assert_eq!(reading.trees, [None]);
        }
        let whole = samples.whole().unwrap().change;
        assert!(whole.trees[0].unwrap().cpu > Duration::ZERO);
        assert_eq!(samples.names.trees, ["ourselves"]);
    }

    #[test]
    fn a_program_that_ends_is_noted_and_one_that_is_not_there_refused() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let of = |pid| Plan {
            trees: vec![("sleeper".to_owned(), pid)],
            dear_every: 1,
            ..plan(2)
        };
        let sampler = Sampler::start(Clock::start(), of(child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let samples = sampler.stop();
        assert_eq!(samples.readings.last().unwrap().trees, [None]);
        assert_eq!(samples.failures.len(), 1, "{:?}", samples.failures);
        assert!(samples.failures[0].starts_with("program sleeper: "));
        assert!(Sampler::start(Clock::start(), of(child.id())).is_err());
    }
}
