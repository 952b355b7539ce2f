//! Converts the levels of a load study's factors into settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::run::Mode;
use fathometer_http::driver::Policy;
use fathometer_model::Seed;
use fathometer_model::quantity::{Percent, RoundTrips};
use fathometer_path::Profile;
use fathometer_sys::SocketOptions;
use fathometer_sys::cgroup::{
    AppliedLimit, BlockDevice, CpuLimit, DiskLimit, Limits as GroupLimits,
};
use fathometer_sys::sched::processors;
use fathometer_workload::plan::{Choice, PageId, Plan, Sessions};

use super::factors::{self, Reads};
use super::site::LoadSite;
use crate::common;
use crate::experiment::{ReplicateError, Setup, Shared};
use crate::factor::LevelError;
use crate::host_signals::KnownLimits;
use crate::spec::{ByMode, Cell, Load, Study};
use fathometer_lab::hosts::Side;
use fathometer_lab::server::PORT;
use fathometer_lab::server::limited::Throttle;
use fathometer_lab::trial::Beside;
use fathometer_load::{Limit, Options, Users};
use fathometer_quic_sockets::UdpOffload;

/// The minimum quota within a period, in seconds of CPU time. The kernel accepts no smaller quota.
const SHORTEST_QUOTA: f64 = 0.001;

/// The minimum and the maximum CPU quota of a host, in cores.
const LEAST_QUOTA: f64 = 0.001;
const MOST_QUOTA: f64 = 4096.0;

/// The parsed levels of a cell.
pub(super) struct Levels<'a> {
    pub(super) site: &'a LoadSite,
    /// The factor that sets the number of users (`clients` or `ues`), and the number of users. `None` in a capacity
    /// study, because the search sets the number.
    pub(super) users: Option<(&'static str, u32)>,
    policy: Policy,
    sessions: Sessions,
    pub(super) limits: GroupLimits,
    /// The limit of the CPU time that other programs may use.
    pub(super) others_limit: Option<Percent>,
    pub(super) throttle: Throttle,
    pub(super) initial_window: Option<u32>,
    /// Whether clients use QUIC. QUIC connections are not in the kernel's socket tables.
    pub(super) is_quic: bool,
    /// Whether the page cache of the host contains as much of the site as fits before the load starts.
    pub(super) warm: bool,
    pub(super) load: Load,
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    /// The client closes a connection after this number of requests.
    requests: Option<u32>,
    /// The UDP offloads of HTTP/3 on both sides.
    udp_offload: UdpOffload,
    /// The longest delay of wake-up coalescing at the clients; zero means off.
    rest: Duration,
}

impl<'a> Levels<'a> {
    pub(super) fn of(
        shared: &Shared<'_>,
        setup: &Setup<'_>,
        site: &'a LoadSite,
    ) -> Result<Levels<'a>, ReplicateError> {
        let cell = setup.cell;
        let load = shared
            .study
            .load_of(&cell.block)
            .expect("a load study has a table [load]");
        let users = [&factors::UES, &factors::CLIENTS]
            .into_iter()
            .find(|factor| cell.levels.contains_key(factor.name()))
            .map(|factor| factor.of(cell).map(|count| (factor.name(), count)))
            .transpose()?;
        let (warm_up, duration) = lengths(&load, shared.mode, setup.profile);
        let throttle = Throttle {
            backlog: factors::BACKLOG.of(cell)?,
            connections: factors::WORKERS.of(cell)?,
            shed_above: factors::SHED.of(cell)?.then_some(load.shed_at),
            keep_alive: factors::KEEP_ALIVE_S.of(cell)?,
            keep_alive_requests: factors::KEEP_ALIVE_REQUESTS.of(cell)?,
        };
        let policy = common::POLICY.of(cell)?;
        Ok(Levels {
            site,
            users,
            policy,
            sessions: factors::LOOP.of(cell)?,
            limits: GroupLimits {
                cpu: cpu(cell, &load)?,
                memory: factors::MEMORY.of(cell)?,
                disk: disk(cell, &site.folder)?,
                // The kernel has no disk counters for a folder in memory or on several disks.
                counts_disk: BlockDevice::of_path(&site.folder).ok(),
                ..GroupLimits::default()
            },
            others_limit: load.others_busy_pct.map(|limit| limit.of(shared.mode)),
            throttle,
            initial_window: factors::INITIAL_WINDOW.of(cell)?,
            is_quic: policy.protocol.is_over_quic(),
            requests: factors::REQUESTS.of(cell)?,
            udp_offload: common::UDP_OFFLOAD.of(cell)?,
            rest: factors::REST_MS.of(cell)?,
            warm: factors::CACHE.of(cell)?,
            duration,
            warm_up,
            load,
        })
    }

    /// Whether users pause between pages.
    pub(super) fn has_pauses(&self) -> bool {
        self.sessions.off.is_some()
    }

    /// Returns the CPU quota of the host in cores; 1 without a limit.
    pub(super) fn quota(&self) -> f64 {
        self.limits.cpu.map_or(1.0, |cpu| cpu.quota)
    }

    /// Returns the period and the burst of the host's CPU quota, as read back from the kernel; empty without a quota.
    pub(super) fn quota_times(&self, applied: &[AppliedLimit]) -> BTreeMap<String, f64> {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let times = self.limits.cpu.map(|cpu| {
            let burst = CpuLimit::burst_of(applied);
            [("cpu_period_ms", cpu.period), ("cpu_burst_ms", burst)]
                .map(|(name, time)| (name.to_owned(), milliseconds(time)))
        });
        times.into_iter().flatten().collect()
    }

    /// Returns the limits of the host, with which its signals are compared.
    pub(super) fn known_limits(&self) -> KnownLimits {
        // If the number of processors is unknown, one processor is assumed.
        let machine = processors().map_or(1.0, |all| all.len() as f64);
        let disk = self.limits.disk.as_ref();
        KnownLimits {
            cores: self
                .limits
                .cpu
                .map_or(machine, |cpu| cpu.quota.min(machine)),
            has_quota: self.limits.cpu.is_some(),
            memory: self.limits.memory,
            disk: self.limits.counts_disk,
            disk_operations: disk.and_then(|disk| disk.read_ops_per_s),
            disk_bytes: disk.and_then(|disk| disk.read_bytes_per_s),
            backlog: self.throttle.backlog,
            workers: self.throttle.connections,
        }
    }

    /// Requests every page once, so that the server's start-up is complete and its host's page cache contains as much
    /// of the site as fits. Without a limit of memory or disk, stops after a third of the files: the disk is then fast
    /// enough for the other files, and requesting the whole site over a slow path may take half a minute.
    pub(super) fn every_page_once(
        &self,
        setup: &Setup<'_>,
        study: &Study,
        seed: Seed,
    ) -> Result<Options, ReplicateError> {
        let mut plan = Plan::clone(&self.site.plan);
        let pages = plan.pages.len() as u32;
        let files = (0..pages).map(|page| plan.pages.get(PageId(page)).members.len() as u64);
        let files: u64 = files.sum();
        let exchanges = match self.limits.memory.is_some() || self.limits.disk.is_some() {
            true => files,
            false => files.div_ceil(3).max(u64::from(pages)),
        };
        plan.choice = Choice::Sequence((0..pages).map(PageId).collect());
        plan.sessions = Sessions::ENDLESS;
        Ok(Options {
            plan: Arc::new(plan),
            // With few users, this would take most of a minute: with the TCP of 1997, an exchange may wait for a
            // delayed acknowledgement.
            users: Users::closed(8),
            warm_up: Duration::ZERO,
            limit: Limit::Exchanges(exchanges),
            ..self.options(setup, study, seed)?
        })
    }

    /// Returns the second load. It has the same number of users as the measured load, but its own policy and server.
    pub(super) fn beside<'s>(
        &self,
        setup: &Setup<'s>,
        study: &Study,
        seed: Seed,
    ) -> Result<Option<Beside<'s>>, ReplicateError> {
        let requested = factors::BESIDE.of(setup.cell)?.zip(setup.beside);
        let Some((policy, (definition, installed))) = requested else {
            return Ok(None);
        };
        Ok(Some(Beside {
            definition,
            installed,
            load: Options {
                policy,
                ..self.options(setup, study, seed.stream("beside"))?
            },
        }))
    }

    /// Returns the options of the measured load.
    pub(super) fn options(
        &self,
        setup: &Setup<'_>,
        study: &Study,
        seed: Seed,
    ) -> Result<Options, ReplicateError> {
        let mut plan = Plan::clone(&self.site.plan);
        plan.sessions = self.sessions;
        let address = SocketAddr::new(Side::Server.ipv4().into(), PORT);
        let timeout = Duration::from(self.load.timeout_s);
        let users = self.users.map_or(1, |(_, count)| count);
        let base = Options::new(address, study.client.host.clone(), Arc::new(plan));
        Ok(Options {
            users: Users::Closed {
                users,
                // Starting all users at once would cause a burst of connections that could take longer than the
                // warm-up.
                start_interval: self.warm_up / 4 / users.max(1),
                steps: Vec::new(),
            },
            policy: self.policy,
            udp_offload: self.udp_offload,
            coalescing: self.rest,
            max_requests: self.requests,
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
            send_lag: self.load.send_lag_p99_us.into(),
            sockets: SocketOptions {
                no_delay: Some(true),
                ..setup.era.settings(Side::Client, None).socket
            },
            ..base
        })
    }
}

/// Returns the lengths of the warm-up and of the measured window. Each is the longer of the study's time and the
/// study's number of the path's round trips.
pub(super) fn lengths(load: &Load, mode: Mode, path: &Profile) -> (Duration, Duration) {
    let at_least = |time: Duration, round_trips: ByMode<RoundTrips>| {
        time.max(path.round_trip().mul_f64(round_trips.of(mode).value()))
    };
    (
        at_least(load.warm_up_s.of(mode).into(), load.warm_up_round_trips),
        at_least(load.duration_s.of(mode).into(), load.round_trips),
    )
}

/// Returns the CPU limit: the percentage of the factor `cpu`, applied to the block's quota. Returns `None` if the block
/// has no quota.
fn cpu(cell: &Cell, load: &Load) -> Result<Option<CpuLimit>, LevelError> {
    let quota = load.cpu_quota.value() * factors::CPU.of(cell)? / 100.0;
    match quota {
        0.0 => Ok(None),
        quota if (LEAST_QUOTA..=MOST_QUOTA).contains(&quota) => Ok(Some(quota_of(quota))),
        _ => Err(LevelError::new(
            "cpu",
            cell.level("cpu"),
            format!(
                "it sets a quota of {quota} cores, but the quota can be from {LEAST_QUOTA} to {MOST_QUOTA} cores"
            ),
        )),
    }
}

/// Returns a quota with the shortest possible period, so that the host behaves like a host with a slow processor,
/// without noticeable pauses.
fn quota_of(quota: f64) -> CpuLimit {
    let usual = CpuLimit::cores(quota);
    let shortest = Duration::from_secs_f64(SHORTEST_QUOTA / quota);
    // The period is rounded up to milliseconds, so that the quota within a period is never below the minimum.
    let shortest = Duration::from_millis(shortest.as_secs_f64().mul_add(1e3, -1e-6).ceil() as u64);
    CpuLimit::over(quota, usual.period.max(shortest))
}

/// Returns the limit of reads from the disk of `folder`.
fn disk(cell: &Cell, folder: &Path) -> Result<Option<DiskLimit>, ReplicateError> {
    let Some(reads) = factors::DISK.of(cell)? else {
        return Ok(None);
    };
    let (operations, bytes) = match reads {
        Reads::Operations(count) => (Some(count), None),
        Reads::Bytes(bytes) => (None, Some(bytes)),
    };
    Ok(Some(DiskLimit {
        device: BlockDevice::of_path(folder)?,
        read_bytes_per_s: bytes,
        write_bytes_per_s: None,
        read_ops_per_s: operations,
        write_ops_per_s: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_quota_has_a_period_that_the_kernel_takes() {
        let period = |quota| quota_of(quota).period.as_millis();
        assert_eq!(period(0.5), 10);
        assert_eq!(period(0.1), 10);
        assert_eq!(period(0.04), 25);
        assert_eq!(period(0.03), 34);
        assert_eq!(period(0.02), 50);
    }

    fn cell(factor: &str, level: &str) -> Cell {
        Cell {
            block: "main".to_owned(),
            key: fathometer_model::CellKey::default(),
            levels: [(factor.to_owned(), level.to_owned())].into(),
            replicates: 1,
        }
    }

    #[test]
    fn a_share_of_the_quota_that_no_kernel_accepts_is_refused() {
        let load: Load = toml::from_str(
            "duration_s = { quick = 1, full = 1 }\nwarm_up_s = { quick = 1, full = 1 }\ntimeout_s = 1\n\
             cpu_quota = 0.5\nshed_at = 1\ngenerator_busy_pct = 85\nsend_lag_p99_us = 1000",
        )
        .unwrap();
        for level in ["nan", "-50", "inf", "1e-300", "1e12"] {
            assert!(cpu(&cell("cpu", level), &load).is_err(), "{level}");
        }
        assert!(cpu(&cell("cpu", "100"), &load).unwrap().is_some());
        assert!(cpu(&cell("cpu", "0"), &load).unwrap().is_none());
        // Without the factor, the host has the whole quota.
        assert!(cpu(&cell("ues", "1"), &load).unwrap().is_some());
    }
}
