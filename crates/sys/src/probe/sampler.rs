//! Readings at a steady period, on a thread of their own, in bounded memory.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::network::{NetworkProbe, Windows};
use super::process_tree::{Detail, ProcessTree};
use super::samples::{Cost, Names, Sample, Samples};
use super::system::SystemProbe;
use crate::cgroup::UsageProbe;
use crate::clock::Clock;
use crate::error::{Doing, Result};
use crate::namespace::Namespace;

/// What is read and how often.
#[derive(Debug)]
pub struct Plan {
    /// The time between two readings of what is cheap: the machine, namespaces and groups.
    pub period: Duration,
    /// What is dear, process trees and tables of sockets, is read in every *n*th reading, and in
    /// the first and the last.
    pub dear_every: u64,
    /// The most readings that are kept. When there are more, every second one is forgotten and the
    /// period doubles: counters lose nothing by that but resolution in time. At least 4.
    pub keep: usize,
    /// Whether the machine is read.
    pub system: bool,
    /// Programs by name, each with its process number.
    pub trees: Vec<(String, u32)>,
    /// What is read of each process.
    pub detail: Detail,
    /// Hosts by name, each with its namespace.
    pub networks: Vec<(String, Namespace)>,
    /// Whether their sockets are looked at one by one.
    pub tables: bool,
    /// The server's port, when the congestion windows of its connections are wanted
    /// ([`Network::windows`](super::Network::windows)): those of the established connections with
    /// this local port, in each of the hosts. They are looked at in *every* reading, for half a millisecond
    /// a host, and some 2 µs more a connection.
    pub windows: Option<u16>,
    /// Groups by name, each with what reads its accounts.
    pub groups: Vec<(String, UsageProbe)>,
}

/// The machine, ten times a second, for up to 4096 readings.
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
#[derive(Debug)]
pub struct Sampler {
    stop: SyncSender<()>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Takes the first reading and starts the thread. Times are `clock`'s.
    ///
    /// Fails when something of the plan cannot be read even once.
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

    /// Takes the last reading and returns all of them.
    pub fn stop(self) -> Samples {
        // A thread that has ended otherwise has panicked, which comes out below.
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
    trees: Vec<u32>,
    detail: Detail,
    /// Each with the windows found so far.
    networks: Vec<(NetworkProbe, Windows)>,
    tables: bool,
    windows: Option<u16>,
    groups: Vec<UsageProbe>,
    dear_every: u64,
    keep: usize,
    samples: Samples,
}

impl Reader {
    /// Takes the first reading, in which what cannot be read is an error.
    fn open(clock: Clock, plan: Plan) -> Result<Reader> {
        let mut names = Names::default();
        let mut networks = Vec::new();
        for (name, namespace) in plan.networks {
            names.networks.push(name);
            networks.push((NetworkProbe::open(&namespace)?, Windows::default()));
        }
        let mut trees = Vec::new();
        for (name, pid) in plan.trees {
            names.trees.push(name);
            ProcessTree::read(pid, Detail::default())?;
            trees.push(pid);
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
            detail: plan.detail,
            networks,
            tables: plan.tables,
            windows: plan.windows,
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
        let cpu_at_start = thread_time();
        let first = self.samples.readings[0].at;
        let mut due = first + self.samples.period;
        for number in 1.. {
            let wait = due.since(self.clock.now());
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                // Also when whoever started this has gone without a word.
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.take(number % self.dear_every == 0);
            self.thin();
            due += self.samples.period;
            let now = self.clock.now();
            while due <= now {
                due += self.samples.period;
                self.samples.missed += 1;
            }
        }
        self.take(true);
        self.samples.cost.cpu = thread_time().saturating_sub(cpu_at_start);
    }

    fn take(&mut self, dear: bool) {
        let failures = &mut self.samples.failures;
        let at = self.clock.now();
        let networks = self.networks.iter_mut().zip(&self.samples.names.networks);
        let networks = networks
            .map(|((probe, windows), name)| {
                let mut network = probe.read();
                if let Some(port) = self.windows {
                    let found = probe.windows(port, windows).map(|()| windows.clone());
                    network.windows = noted(found, "connections of", name, failures);
                }
                if dear && self.tables {
                    network.table = noted(probe.table(), "sockets of", name, failures);
                }
                Some(network)
            })
            .collect();
        let groups = self.groups.iter().zip(&self.samples.names.groups);
        let groups = groups
            .map(|(probe, name)| noted(probe.cpu(), "group", name, failures).map(|_| probe.read()))
            .collect();
        let system = self.system.as_mut().map(SystemProbe::read);
        let trees = self.trees.iter().zip(&self.samples.names.trees);
        let trees = trees
            .map(|(&pid, name)| {
                let read = dear.then(|| ProcessTree::read(pid, self.detail))?;
                noted(read, "program", name, failures)
            })
            .collect();
        let took = self.clock.now().since(at);
        let cost = &mut self.samples.cost;
        cost.readings += 1;
        cost.longest = cost.longest.max(took);
        self.samples.readings.push(Sample {
            at,
            took,
            system,
            trees,
            networks,
            groups,
        });
    }

    /// Forgets every second reading when there are too many.
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

/// The value, or a note of why there is none, once for each subject.
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

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::super::samples::Step;
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
        assert_eq!(samples.cost.readings, readings.len() as u64);
        assert!(samples.failures.is_empty());
        // A window is met from outside.
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
        // On a machine that gave the thread too little time there were not that many.
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
    fn what_is_dear_is_in_the_first_and_the_last_reading() {
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
