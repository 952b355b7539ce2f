//! Probes a server under load on this machine.

mod targets;

use std::path::PathBuf;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_analysis::load::server::{
    GroupProbes, MachineProbes, NetworkProbes, ProbeCost, ProgramProbes, ServerProbes,
};
use fathometer_model::{Bytes, Instant};
use fathometer_sys::cgroup::{LimitingGroups, Usage, limits_of_process};
use fathometer_sys::probe::{
    Detail, NetworkProbe, Plan, ProcessTree, Sample, Sampler, Samples, SocketTable, Step, System,
    descendants,
};
use fathometer_sys::{Clock, Namespace};

pub use self::targets::{Target, process_name, processes_of};

/// The reason why a server cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No process has this ID.
    #[error(
        "there is no process {0} on this machine: give the ID of the server's first process, as from `pgrep -o nginx`, \
         or --probe here for the machine alone"
    )]
    NoProcess(u32),
    /// The control group has no processes.
    #[error(
        "no process of this machine is in a control group {0}: see `systemctl status {0}`, or give the ID of the \
         server's first process"
    )]
    EmptyUnit(String),
    /// A system call that the probes need failed.
    #[error("{0}")]
    System(#[from] fathometer_sys::Error),
}

/// The time between two readings for a server with few processes.
const PERIOD: Duration = Duration::from_millis(100);
/// The largest share of the period that a reading may take is 1/50, by the estimate at the start.
const READINGS_OF_WORK: u32 = 50;
/// The maximum period. A longer period would place readings far from the ends of a window of a few seconds.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);
/// The display name for the network namespace of this process.
const HERE: &str = "this network namespace";
/// The time added to the period for each process of the server, so that reading all processes uses about 1 % of one
/// processor.
const PERIOD_A_PROCESS: Duration = Duration::from_millis(20);

/// Running probes.
pub struct Probes {
    sampler: Sampler,
    clock: Clock,
    /// For each network namespace, whether the generator runs in it.
    own: Vec<bool>,
    /// The control groups that limit the programs, each listed once.
    groups: Vec<LimitingGroups>,
    failures: Vec<String>,
}

impl Probes {
    /// Takes the first reading. Returns `None` if there are no targets.
    ///
    /// # Errors
    /// If a target has no process, or the system refuses the readings.
    pub fn start(targets: &[Target], clock: Clock) -> Result<Option<Probes>, ProbeError> {
        if targets.is_empty() {
            return Ok(None);
        }
        let mut plan = Plan {
            dear_every: 1,
            detail: Detail {
                switches: true,
                proportional: true,
            },
            tables: true,
            ..Plan::default()
        };
        let mut failures = Vec::new();
        let mut met: Vec<PathBuf> = Vec::new();
        let here = std::fs::read_link("/proc/self/ns/net").ok();
        let mut own = Vec::new();
        let mut processes = 0;
        let mut groups: Vec<LimitingGroups> = Vec::new();
        for process in processes_of(targets)? {
            let (name, found) = match process {
                None => (HERE.to_owned(), Namespace::current()),
                Some(pid) => {
                    let name = process_name(pid)?;
                    processes += descendants(pid).len() as u32;
                    plan.trees.push((name.clone(), pid));
                    let limits = limits_of_process(pid);
                    groups
                        .extend(limits.filter(|new| groups.iter().all(|old| old.name != new.name)));
                    (format!("namespace of {name}"), Namespace::of_process(pid))
                }
            };
            let link = match process {
                None => PathBuf::from("/proc/self/ns/net"),
                Some(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
            };
            // A namespace that several targets share is counted once.
            match (found, std::fs::read_link(&link)) {
                (Ok(_), Ok(place)) if met.contains(&place) => {}
                (Ok(namespace), Ok(place)) => {
                    let is_own = here.as_ref() == Some(&place);
                    own.push(is_own);
                    let name = if is_own { HERE.to_owned() } else { name };
                    plan.networks.push((name, namespace));
                    met.push(place);
                }
                (Err(error), _) => failures.push(format!("{name}: {error}")),
                (_, Err(error)) => failures.push(format!("{name}: {error}")),
            }
        }
        let named = groups
            .iter()
            .map(|group| (group.name.clone(), group.probe.clone()));
        plan.groups = named.collect();
        let table = Probes::cost_of_a_table(clock)?;
        plan.period = PERIOD
            .max(PERIOD_A_PROCESS * processes)
            .max(table * READINGS_OF_WORK)
            .min(LONGEST_PERIOD);
        Ok(Some(Probes {
            sampler: Sampler::start(clock, plan)?,
            clock,
            own,
            groups,
            failures,
        }))
    }

    /// Measures the time needed to list the sockets of this machine. The kernel iterates over the sockets of all
    /// processes.
    fn cost_of_a_table(clock: Clock) -> Result<Duration, ProbeError> {
        let mut probe = NetworkProbe::open_here()?;
        let before = clock.now();
        // If listing is not permitted, it takes no time, and the readings report why the table is missing.
        let _ = probe.table();
        Ok(clock.now().since(before))
    }

    /// Takes the last reading, and returns the observations in the measured window of `result`.
    pub fn stop(self, result: &LoadResult) -> ServerProbes {
        let samples = self.sampler.stop();
        let origin = self.clock.realtime_of(Instant::ZERO).as_secs_f64();
        let began = Duration::from_secs_f64((result.setup.started - origin).max(0.0));
        let from = Instant::ZERO + began + result.setup.warm_up;
        let to = from + result.measured.duration;
        let mut failures = self.failures;
        failures.extend(samples.failures.iter().cloned());
        let step = samples.between(from, to);
        if step.is_none() {
            failures.push("the readings do not cover the measured window".to_owned());
        }
        let cost = cost(&samples);
        let Some(step) = step else {
            return ServerProbes {
                cost,
                failures,
                ..ServerProbes::default()
            };
        };
        let programs = step.change.trees.iter().zip(&samples.names.trees);
        let networks = samples.names.networks.iter().zip(self.own);
        ServerProbes {
            watched_s: step.length().as_secs_f64(),
            programs: programs
                .filter_map(|(tree, name)| Some(program(name, tree.as_ref()?, &step)))
                .collect(),
            machine: step
                .change
                .system
                .as_ref()
                .map(|system| machine(system, &step))
                .unwrap_or_default(),
            networks: networks
                .enumerate()
                .map(|(place, (name, own))| network(place, name, own, &samples, &step))
                .collect(),
            groups: self
                .groups
                .iter()
                .zip(&step.change.groups)
                .map(|(limits, usage)| group(limits, usage.as_ref(), &step))
                .collect(),
            cost,
            failures,
        }
    }
}

fn cost(samples: &Samples) -> ProbeCost {
    let whole = match samples.readings.as_slice() {
        [first, .., last] => last.at.since(first.at),
        _ => Duration::ZERO,
    };
    ProbeCost {
        period_s: samples.period.as_secs_f64(),
        readings: samples.cost.readings,
        cpu_s: samples.cost.cpu.as_secs_f64(),
        longest_s: samples.cost.longest.as_secs_f64(),
        from_first_to_last_s: whole.as_secs_f64(),
    }
}

fn bytes(bytes: Option<Bytes>) -> Option<u64> {
    bytes.map(|bytes| bytes.0)
}

fn program(name: &str, tree: &ProcessTree, step: &Step) -> ProgramProbes {
    let busiest = tree.busiest.iter().flatten().map(|thread| thread.cpu).max();
    ProgramProbes {
        name: name.to_owned(),
        processes: tree.processes,
        threads: tree.threads,
        cpu_s: tree.cpu.as_secs_f64(),
        cpu_user_s: split(tree, tree.user),
        cpu_system_s: split(tree, tree.system),
        busiest_thread_share: busiest.and_then(|cpu| step.share(cpu)),
        resident_bytes: tree.resident.0,
        proportional_bytes: bytes(tree.proportional),
        major_faults: tree.major_faults,
        minor_faults: tree.minor_faults,
        voluntary_switches: tree.voluntary_switches,
        involuntary_switches: tree.involuntary_switches,
        read_bytes: bytes(tree.read),
        written_bytes: bytes(tree.written),
        descriptors: tree.descriptors,
    }
}

/// Returns a share of the exact CPU time, divided in the ratio of the kernel's tick counts.
fn split(tree: &ProcessTree, part: Duration) -> f64 {
    let ticks = (tree.user + tree.system).as_secs_f64();
    match ticks > 0.0 {
        true => tree.cpu.as_secs_f64() * part.as_secs_f64() / ticks,
        false => 0.0,
    }
}

fn group(limits: &LimitingGroups, usage: Option<&Usage>, step: &Step) -> GroupProbes {
    let cpu = usage.and_then(|usage| usage.cpu);
    let throttled = cpu.and_then(|cpu| cpu.throttled_periods.zip(cpu.periods));
    let share = |(throttled, periods): (u64, u64)| throttled as f64 / periods as f64;
    let waited = usage.and_then(|usage| usage.pressure.cpu_some);
    GroupProbes {
        name: limits.name.clone(),
        cpu_quota_cores: limits.cpu,
        cpu_s: cpu.map(|cpu| cpu.total.as_secs_f64()),
        throttled_share: throttled
            .map(share)
            .filter(|share| limits.cpu.is_some() && share.is_finite()),
        memory_limit_bytes: bytes(limits.memory),
        memory_bytes: usage.and_then(|usage| bytes(usage.memory.current)),
        refaults: usage.and_then(|usage| usage.memory.refaults),
        cpu_pressure_share: waited.and_then(|waited| step.share(waited)),
    }
}

fn machine(system: &System, step: &Step) -> MachineProbes {
    let times = system.processors.as_ref();
    let of = |part: fn(&fathometer_sys::probe::ProcessorTimes) -> Duration| {
        times.and_then(|times| times.share(part(times)))
    };
    let held_up = |time: Option<Duration>| time.and_then(|time| step.share(time));
    let disks = |figure: fn(&fathometer_sys::probe::Disk) -> u64| {
        (!system.disks.is_empty()).then(|| system.disks.values().map(figure).sum())
    };
    let busiest = system.disks.values().map(|disk| disk.busy).max();
    let processors = system.each_processor.len() as u64;
    MachineProbes {
        processors: (processors > 0).then_some(processors),
        user_share: of(|times| times.user + times.nice),
        system_share: of(|times| times.system),
        irq_share: of(|times| times.irq),
        softirq_share: of(|times| times.softirq),
        idle_share: of(|times| times.idle),
        iowait_share: of(|times| times.iowait),
        steal_share: times.and_then(|times| times.share(times.steal?)),
        page_cache_bytes: bytes(system.page_cache),
        available_bytes: bytes(system.available),
        paged_in_bytes: bytes(system.paging.paged_in),
        paged_out_bytes: bytes(system.paging.paged_out),
        major_faults: system.paging.major_faults,
        refaults: system.paging.file_refaults,
        disk_reads: disks(|disk| disk.reads),
        disk_read_bytes: disks(|disk| disk.read.0),
        disk_writes: disks(|disk| disk.writes),
        disk_written_bytes: disks(|disk| disk.written.0),
        disk_busy_share: busiest.and_then(|busy| step.share(busy)),
        context_switches: system.context_switches,
        interrupts: system.interrupts,
        cpu_pressure_share: held_up(system.pressure.cpu_some),
        memory_pressure_share: held_up(system.pressure.memory_some),
        io_pressure_share: held_up(system.pressure.io_some),
    }
}

fn network(place: usize, name: &str, own: bool, samples: &Samples, step: &Step) -> NetworkProbes {
    let tcp = step.change.networks.get(place).and_then(Option::as_ref);
    let tcp = tcp.map(|network| network.tcp).unwrap_or_default();
    let mean = |figure: fn(&SocketTable) -> u64| {
        let of = |sample: &Sample| {
            let table = sample.networks.get(place)?.as_ref()?.table.as_ref()?;
            Some(figure(table) as f64)
        };
        samples.mean_of(step.from, step.to, of)
    };
    type State = (&'static str, fn(&SocketTable) -> u64);
    let states: [State; 9] = [
        ("established", |table| table.established),
        ("syn-sent", |table| table.syn_sent),
        ("syn-received", |table| table.syn_received),
        ("fin-wait-1", |table| table.fin_wait_1),
        ("fin-wait-2", |table| table.fin_wait_2),
        ("time-wait", |table| table.time_wait),
        ("close-wait", |table| table.close_wait),
        ("last-ack", |table| table.last_ack),
        ("closing", |table| table.closing),
    ];
    NetworkProbes {
        name: name.to_owned(),
        has_generator: own,
        segments_in: tcp.segments_in,
        segments_out: tcp.segments_out,
        retransmitted: tcp.retransmitted,
        listen_overflows: tcp.listen_overflows,
        listen_drops: tcp.listen_drops,
        states: states
            .into_iter()
            .filter_map(|(state, figure)| Some((state.to_owned(), mean(figure)?)))
            .collect(),
        to_be_accepted: mean(|table| table.to_be_accepted),
    }
}
