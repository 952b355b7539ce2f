//! One replicate of a load study: a laboratory with a server whose host has limits, a load on it, and
//! probes of what that costs.
//!
//! The server's host is a namespace and a control group: its programs, and the thread that receives
//! its packets, share one budget of processor time. The generator is outside of it. Probes read the
//! group, the server's processes and its namespace over the measured window.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_model::{Bytes, Instant, ReplicateRecord, Seed, Validity};
use fathometer_sys::cgroup::{CpuLimit, Limits as GroupLimits};
use fathometer_sys::probe::Samples;
use fathometer_sys::{Clock, SocketOptions};
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{Choice, PageId, Plan, Sessions};

use super::replicate::{Finished, ReplicateError, Setup, Shared, one_of, parsed, wire_limits};
use super::spec::{Cell, Load, Study};
use crate::lab::Side;
use crate::load::{Limit, Options, Users};
use crate::run_folder::WriteError;
use crate::server::PORT;
use crate::server::limited::Throttle;
use crate::trial::{Measured, Trial};

/// A workload of a load study, with its files on disk.
pub struct LoadSite {
    /// What is asked for.
    pub plan: Arc<Plan>,
    /// Where its files are.
    pub folder: PathBuf,
}

/// A cell's levels, understood.
struct Levels<'a> {
    site: &'a LoadSite,
    users: u32,
    sessions: Sessions,
    limits: GroupLimits,
    throttle: Throttle,
    load: Load,
    duration: Duration,
    warm_up: Duration,
}

/// Makes one replicate.
pub fn run(shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
    let levels = Levels::of(shared, setup)?;
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: what users ask for depends on the workload and the repetition alone.
    let seed = shared
        .seed
        .stream(setup.cell.level("workload"))
        .child(u64::from(setup.replicate));
    let measured = Trial {
        definition: setup.definition,
        installed: setup.installed,
        folder: &levels.site.folder,
        profile: setup.profile,
        era: setup.era,
        initial_window: None,
        limits: levels.limits.clone(),
        throttle: levels.throttle,
        wire_limits: shared
            .study
            .limits
            .get(setup.cell.level("path"))
            .map(wire_limits),
        seed,
        clock,
        warm_cache: Some(levels.every_page_once(setup, shared.study, seed)?),
        load: levels.options(setup, shared.study, seed)?,
    }
    .run(&shared.building, shared.interrupted)?;
    let Measured {
        result,
        samples,
        mut validity,
        ..
    } = measured;
    let summary = fathometer_analysis::load::Summary::of(&result);
    let path = setup.folder.join("load.json");
    std::fs::write(&path, summary.to_json()).map_err(|error| WriteError { path, error })?;
    let mut metrics = load_metrics(&result, levels.users);
    host_metrics(
        &mut metrics,
        &samples,
        measured.from,
        measured.to,
        levels.quota(),
        &mut validity,
    );
    judge(&result, &levels.load, &mut validity);
    Ok(Finished {
        record: ReplicateRecord {
            block: setup.cell.block.clone(),
            cell: setup.cell.key.clone(),
            replicate: setup.replicate,
            seed: seed.0,
            order: setup.order,
            started,
            metrics,
            path: measured.certificate,
            validity,
            folder: setup.folder_name.clone(),
        },
        applied: measured.applied,
    })
}

impl<'a> Levels<'a> {
    fn of(shared: &Shared<'a>, setup: &Setup<'_>) -> Result<Levels<'a>, ReplicateError> {
        let cell = setup.cell;
        let load = shared
            .study
            .load_of(&cell.block)
            .expect("a load study says how its load is measured");
        let workload = cell.level("workload");
        let site = shared
            .sites
            .get(workload)
            .expect("the workloads of all cells were made");
        let sessions = one_of(
            cell,
            "loop",
            &[("webstone", Sessions::ENDLESS), ("surge", SURGE_SESSIONS)],
        )?;
        let share: f64 = parsed(cell, "cpu")?;
        let number = |factor: &'static str, none: &str| -> Result<Option<u32>, ReplicateError> {
            match cell.level(factor) {
                level if level == none => Ok(None),
                _ => parsed(cell, factor).map(Some),
            }
        };
        Ok(Levels {
            site,
            users: parsed(cell, "clients")?,
            sessions,
            limits: GroupLimits {
                cpu: Some(CpuLimit::cores(load.cpu_quota * share / 100.0)),
                memory: memory(cell)?,
                ..GroupLimits::default()
            },
            throttle: Throttle {
                backlog: number("backlog", "system")?,
                connections: number("workers", "none")?,
                shed_above: one_of(cell, "shed", &[("off", None), ("on", Some(load.shed_at))])?,
                ..Throttle::default()
            },
            duration: Duration::from_secs_f64(load.duration_s.of(shared.mode)),
            warm_up: Duration::from_secs_f64(load.warm_up_s.of(shared.mode)),
            load,
        })
    }

    /// The host's processor time, in cores.
    fn quota(&self) -> f64 {
        self.limits.cpu.map_or(1.0, |cpu| cpu.quota)
    }

    /// Asks for every page once: a server that has just begun is not what is measured, and its host
    /// is to have in memory what fits.
    fn every_page_once(
        &self,
        setup: &Setup<'_>,
        study: &Study,
        seed: Seed,
    ) -> Result<Options, ReplicateError> {
        let mut plan = Plan::clone(&self.site.plan);
        let pages = plan.pages.len() as u32;
        plan.choice = Choice::Sequence((0..pages).map(PageId).collect());
        plan.sessions = Sessions::ENDLESS;
        Ok(Options {
            plan: Arc::new(plan),
            users: Users::closed(2),
            warm_up: Duration::ZERO,
            limit: Limit::Exchanges(u64::from(pages)),
            ..self.options(setup, study, seed)?
        })
    }

    fn options(
        &self,
        setup: &Setup<'_>,
        study: &Study,
        seed: Seed,
    ) -> Result<Options, ReplicateError> {
        let mut plan = Plan::clone(&self.site.plan);
        plan.sessions = self.sessions;
        let address = SocketAddr::new(Side::Server.ipv4().into(), PORT);
        let timeout = Duration::from_secs_f64(self.load.timeout_s);
        Ok(Options {
            users: Users::Closed {
                users: self.users,
                // All at once would be one burst of connections that the warm-up may not outlive.
                start_interval: self.warm_up / 4 / self.users.max(1),
                steps: Vec::new(),
            },
            policy: parsed(setup.cell, "policy")?,
            fields: study
                .client
                .fields
                .iter()
                .map(|[name, value]| (name.clone(), value.clone()))
                .collect(),
            timeout,
            connect_timeout: timeout,
            warm_up: self.warm_up,
            limit: Limit::Time(self.duration),
            drain: timeout.min(Duration::from_secs(2)),
            seed,
            sockets: SocketOptions {
                no_delay: Some(true),
                ..setup.era.settings(Side::Client, None).socket
            },
            ..Options::new(address, study.client.host.clone(), Arc::new(plan))
        })
    }
}

/// How SURGE's users pause, and how many pages they ask for in a row (Barford and Crovella 1998).
const SURGE_SESSIONS: Sessions = Sessions {
    pages: Some(Law::InverseGaussian {
        mean: 3.86,
        lambda: 6.08,
    }),
    off: Some(Law::Pareto {
        scale: 1.0,
        shape: 1.4,
    }),
};

/// The level of the factor `memory`: `none`, or megabytes as in `16M`.
fn memory(cell: &Cell) -> Result<Option<Bytes>, ReplicateError> {
    let level = cell.level("memory");
    if level == "none" {
        return Ok(None);
    }
    level
        .strip_suffix('M')
        .and_then(|number| number.parse::<u64>().ok())
        .map(|mega| Some(Bytes(mega << 20)))
        .ok_or_else(|| ReplicateError::Level {
            factor: "memory",
            level: level.to_owned(),
            reason: "it can be none, or a number of mebibytes as in 16M".to_owned(),
        })
}

/// What the clients saw. Rates are of what ended within the measured window; response times of
/// successes, connecting included, as WebStone has them.
fn load_metrics(result: &LoadResult, users: u32) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() {
            metrics.insert(name.to_owned(), value);
        }
    };
    let window = &result.measured;
    let seconds = window.duration.as_secs_f64();
    let ended = &window.ended;
    let attempts = ended.completed + ended.failed;
    let errors = ended.failed + ended.status_errors;
    put("clients", f64::from(users));
    put(
        "throughput_kB_per_s",
        ended.received.as_f64() / 1e3 / seconds,
    );
    put("connections_per_s", ended.connected as f64 / seconds);
    put("exchanges_per_s", ended.completed as f64 / seconds);
    put("errors_per_s", errors as f64 / seconds);
    put("error_pct", 100.0 * errors as f64 / attempts as f64);
    let latency = &window.latency;
    let successes = latency.corrected.count() - latency.failed.count();
    let spent = latency.corrected.sum().saturating_sub(latency.failed.sum());
    put(
        "response_mean_ms",
        spent.as_secs_f64() * 1e3 / successes as f64,
    );
    for (name, quantile) in [("response_p50_ms", 0.5), ("response_p98_ms", 0.98)] {
        if let Some(time) = latency.corrected.quantile(quantile) {
            put(name, time.as_secs_f64() * 1e3);
        }
    }
    put(
        "littles_load_factor",
        latency.corrected.sum().as_secs_f64() / seconds,
    );
    let workers = &result.generator.workers;
    let busiest = workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    put("generator_busy_pct", 100.0 * busiest);
    if let Some(lag) = latency.send_lag.quantile(0.99) {
        put("generator_send_lag_p99_us", lag.as_secs_f64() * 1e6);
    }
    metrics
}

/// What it cost the server's host, over the measured window. What the kernel does not tell is
/// absent.
fn host_metrics(
    metrics: &mut BTreeMap<String, f64>,
    samples: &Samples,
    from: Instant,
    to: Instant,
    quota: f64,
    validity: &mut Validity,
) {
    let Some(step) = samples.between(from, to) else {
        validity.invalidate("the probes do not cover the measured window".to_owned());
        return;
    };
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let percent = |time: Duration| step.share(time).map(|share| 100.0 * share / quota);
    let group = step.change.groups.first().and_then(Option::as_ref);
    let tree = step.change.trees.first().and_then(Option::as_ref);
    let network = step.change.networks.first().and_then(Option::as_ref);
    let host = group.and_then(|group| group.cpu.as_ref());
    put("cpu_total_pct", host.and_then(|cpu| percent(cpu.total)));
    if let Some(tree) = tree {
        put("cpu_server_process_pct", percent(tree.cpu));
        // Ticks of 10 ms tell the two parts of an exactly known sum apart.
        let ticks = (tree.user + tree.system).as_secs_f64();
        let part = |time: Duration| Some(percent(tree.cpu)? * time.as_secs_f64() / ticks);
        put("cpu_server_user_pct", part(tree.user));
        put("cpu_server_system_pct", part(tree.system));
        // What the host used and its programs did not, is the receiving of packets.
        let receiving = host.map(|cpu| cpu.total.saturating_sub(tree.cpu));
        put("cpu_interrupt_pct", receiving.and_then(percent));
        let switches = tree.voluntary_switches.zip(tree.involuntary_switches);
        put(
            "context_switches_per_s",
            switches.and_then(|(own, forced)| step.per_second(own + forced)),
        );
        put("memory_rss_kB", Some(tree.resident.as_f64() / 1e3));
        put(
            "memory_pss_kB",
            tree.proportional.map(|bytes| bytes.as_f64() / 1e3),
        );
        let per_second = |bytes: Bytes| step.per_second(bytes.0).map(|rate| rate / 1e3);
        put("disk_read_kB_per_s", tree.read.and_then(per_second));
        put("major_faults_per_s", step.per_second(tree.major_faults));
    }
    if let Some(group) = group {
        put(
            "page_cache_kB",
            group.memory.page_cache.map(|bytes| bytes.as_f64() / 1e3),
        );
        let reads = group
            .disk
            .as_ref()
            .and_then(|disk| step.per_second(disk.reads));
        put("disk_reads_per_s", reads);
    }
    if let Some(network) = network {
        let tcp = &network.tcp;
        put(
            "listen_overflows_per_s",
            tcp.listen_overflows.and_then(|n| step.per_second(n)),
        );
        // A device hands its packets over one by one: each is an interrupt.
        put(
            "interrupts_per_s",
            tcp.segments_in.and_then(|n| step.per_second(n)),
        );
        let packets = tcp.segments_in.zip(tcp.segments_out);
        put(
            "packets_per_s",
            packets.and_then(|(in_, out)| step.per_second(in_ + out)),
        );
    }
}

/// Whether the generator was what limited.
fn judge(result: &LoadResult, load: &Load, validity: &mut Validity) {
    for (n, worker) in result.generator.workers.iter().enumerate() {
        let busy = 100.0 * worker.busy;
        if busy > load.generator_busy_pct {
            validity.invalidate(format!(
                "the generator's thread {n} was busy for {busy:.0} % of the time (limit {} %)",
                load.generator_busy_pct
            ));
        }
    }
    if let Some(lag) = result.measured.latency.send_lag.quantile(0.99) {
        let micros = lag.as_secs_f64() * 1e6;
        if micros > load.send_lag_p99_us {
            validity.invalidate(format!(
                "the generator's send lag was {micros:.0} µs in the 99th percentile (limit {} µs)",
                load.send_lag_p99_us
            ));
        }
    }
}
