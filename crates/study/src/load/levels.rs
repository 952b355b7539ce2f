//! The meaning of the levels of a load study's factors.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::Policy;
use fathometer_model::quantity::{RoundTrips, TimeSpan};
use fathometer_model::{Bytes, Seed};
use fathometer_sys::SocketOptions;
use fathometer_sys::cgroup::{BlockDevice, CpuLimit, DiskLimit, Limits as GroupLimits};
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{Choice, PageId, Plan, Sessions};

use super::super::replicate::{ReplicateError, Setup, Shared, one_of, parsed};
use super::super::spec::{ByMode, Cell, Load, Study};
use super::LoadSite;
use fathometer_lab::hosts::Side;
use fathometer_lab::server::PORT;
use fathometer_lab::server::limited::Throttle;
use fathometer_lab::trial::Beside;
use fathometer_load::{Limit, Options, Users};
use fathometer_quic_sockets::UdpOffload;

/// OFF times and session lengths of SURGE's users (Barford and Crovella 1998).
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

/// One page, then a pause longer than any test, with the connection kept open.
const IDLE_SESSIONS: Sessions = Sessions {
    pages: None,
    off: Some(Law::Fixed(86_400.0)),
};

/// The shortest period of CPU quota, in seconds: the kernel accepts no shorter one.
const SHORTEST_QUOTA: f64 = 0.001;

/// The smallest and the largest CPU quota of a host, in cores.
const LEAST_QUOTA: f64 = 0.001;
const MOST_QUOTA: f64 = 4096.0;

/// The largest number of users of a load. Each user has a connection, and a machine has about 60,000 ports.
const MOST_USERS: u32 = 1_000_000;

/// The parsed levels of a cell.
pub(super) struct Levels<'a> {
    pub(super) site: &'a LoadSite,
    /// The number of users, and the factor that sets it (`clients` or `ues`).
    pub(super) users: u32,
    pub(super) users_factor: &'static str,
    sessions: Sessions,
    pub(super) limits: GroupLimits,
    pub(super) throttle: Throttle,
    pub(super) initial_window: Option<u32>,
    /// Whether clients connect by QUIC: the kernel's socket tables do not show such connections.
    pub(super) is_quic: bool,
    /// Whether the cache of the host is warm before the load starts, as far as the site fits.
    pub(super) warm: bool,
    pub(super) load: Load,
    duration: Duration,
    warm_up: Duration,
    /// The client closes a connection after this number of requests.
    requests: Option<u32>,
    /// The UDP offloads of HTTP/3 on both sides.
    udp_offload: UdpOffload,
    /// Wake-up coalescing of the clients; zero is off.
    rest: Duration,
}

impl<'a> Levels<'a> {
    pub(super) fn of(shared: &Shared<'a>, setup: &Setup<'_>) -> Result<Levels<'a>, ReplicateError> {
        let cell = setup.cell;
        let load = shared
            .study
            .load_of(&cell.block)
            .expect("a load study says how its load is measured");
        let site = shared
            .sites
            .get(cell.level("workload"))
            .expect("the workloads of all cells were made");
        let users_factor = match cell.levels.contains_key("ues") {
            true => "ues",
            false => "clients",
        };
        let round_trip = setup.profile.round_trip();
        let at_least = |time: Duration, round_trips: ByMode<RoundTrips>| {
            let count = round_trips.of(shared.mode).value();
            time.max(round_trip.mul_f64(count))
        };
        let throttle = Throttle {
            backlog: number(cell, "backlog", "system")?,
            connections: number(cell, "workers", "none")?,
            shed_above: one_of(cell, "shed", &[("off", None), ("on", Some(load.shed_at))])?,
            keep_alive: number::<TimeSpan>(cell, "keep_alive_s", "server")?.map(Duration::from),
            keep_alive_requests: number(cell, "keep_alive_requests", "server")?,
        };
        Ok(Levels {
            site,
            users: users(cell, users_factor)?,
            users_factor,
            sessions: one_of(
                cell,
                "loop",
                &[
                    ("webstone", Sessions::ENDLESS),
                    ("surge", SURGE_SESSIONS),
                    ("idle", IDLE_SESSIONS),
                ],
            )?,
            limits: GroupLimits {
                cpu: cpu(cell, &load)?,
                memory: memory(cell)?,
                disk: disk(cell, &site.folder)?,
                ..GroupLimits::default()
            },
            throttle,
            initial_window: number(cell, "initcwnd", "default")?,
            is_quic: parsed::<Policy>(cell, "policy")?.protocol.is_over_quic(),
            requests: number(cell, "requests", "none")?,
            udp_offload: udp_offload(cell)?,
            rest: rest(cell)?,
            warm: match cell.level("cache") {
                "" => true,
                _ => one_of(cell, "cache", &[("warm", true), ("cold", false)])?,
            },
            duration: at_least(load.duration_s.of(shared.mode).into(), load.round_trips),
            warm_up: at_least(
                load.warm_up_s.of(shared.mode).into(),
                load.warm_up_round_trips,
            ),
            load,
        })
    }

    /// The CPU quota of the host, in cores; 1 without a limit.
    pub(super) fn quota(&self) -> f64 {
        self.limits.cpu.map_or(1.0, |cpu| cpu.quota)
    }

    /// Requests every page once, so that the server is past its start and its host's memory holds as much of
    /// the site as fits. Without a limit of memory or disk, a third of the files is enough: the other files are
    /// read from a disk that delays no request, and the whole site may take half a minute over a slow path.
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
            users: Users::closed(2),
            warm_up: Duration::ZERO,
            limit: Limit::Exchanges(exchanges),
            ..self.options(setup, study, seed)?
        })
    }

    /// The load that runs at the same time: the same number of users as the measured load, with its own policy
    /// and server.
    pub(super) fn beside<'s>(
        &self,
        setup: &Setup<'s>,
        study: &Study,
        seed: Seed,
    ) -> Result<Option<Beside<'s>>, ReplicateError> {
        let level = setup.cell.level("beside");
        let asked = setup.cell.beside().zip(setup.beside);
        let Some(((policy, _), (definition, installed))) = asked else {
            return match level {
                "" | "none" => Ok(None),
                _ => {
                    let known = "it can be none, or a policy and a server as in h2@nghttpd";
                    Err(unknown("beside", level, known))
                }
            };
        };
        let policy: Policy = policy
            .parse()
            .map_err(|error| unknown("beside", level, &format!("{error}")))?;
        Ok(Some(Beside {
            definition,
            installed,
            load: Options {
                policy,
                ..self.options(setup, study, seed.stream("beside"))?
            },
        }))
    }

    /// The measured load.
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
        let base = Options::new(address, study.client.host.clone(), Arc::new(plan));
        Ok(Options {
            users: Users::Closed {
                users: self.users,
                // Starting all users at once would cause a burst of connections that might outlast the warm-up.
                start_interval: self.warm_up / 4 / self.users.max(1),
                steps: Vec::new(),
            },
            policy: parsed(setup.cell, "policy")?,
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

/// Parses a number; `None` for the level `none`, and if the study has no such factor.
fn number<T>(cell: &Cell, factor: &'static str, none: &str) -> Result<Option<T>, ReplicateError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    match cell.level(factor) {
        "" => Ok(None),
        level if level == none => Ok(None),
        _ => parsed(cell, factor).map(Some),
    }
}

/// The number of users.
fn users(cell: &Cell, factor: &'static str) -> Result<u32, ReplicateError> {
    match parsed(cell, factor)? {
        users @ 1..=MOST_USERS => Ok(users),
        users => Err(ReplicateError::Level {
            factor,
            level: users.to_string(),
            reason: format!("it can be from 1 to {MOST_USERS}"),
        }),
    }
}

/// The UDP offloads; all of them if the study has no such factor.
fn udp_offload(cell: &Cell) -> Result<UdpOffload, ReplicateError> {
    let known = UdpOffload::ALL.map(|offload| (offload.name(), offload));
    match cell.level("udp_offload") {
        "" => Ok(UdpOffload::default()),
        _ => one_of(cell, "udp_offload", &known),
    }
}

/// The level of the factor `rest_ms`, wake-up coalescing: `off`, or its longest delay in milliseconds. The
/// default is off, because coalescing changes what is measured.
fn rest(cell: &Cell) -> Result<Duration, ReplicateError> {
    let Some(milliseconds) = number::<f64>(cell, "rest_ms", "off")? else {
        return Ok(Duration::ZERO);
    };
    match Duration::try_from_secs_f64(milliseconds / 1e3) {
        Ok(longest) if !longest.is_zero() => Ok(longest),
        _ => {
            let known = "it can be off, or the longest delay in milliseconds as in 1";
            Err(unknown("rest_ms", cell.level("rest_ms"), known))
        }
    }
}

/// The CPU limit: the block's quota, of which the factor `cpu` takes a percentage. `None` if the block has no
/// quota.
fn cpu(cell: &Cell, load: &Load) -> Result<Option<CpuLimit>, ReplicateError> {
    let share: f64 = parsed(cell, "cpu")?;
    let quota = load.cpu_quota.value() * share / 100.0;
    match quota {
        0.0 => Ok(None),
        quota if (LEAST_QUOTA..=MOST_QUOTA).contains(&quota) => Ok(Some(quota_of(quota))),
        _ => Err(ReplicateError::Level {
            factor: "cpu",
            level: cell.level("cpu").to_owned(),
            reason: format!(
                "it makes {quota} cores of the study's cpu_quota, which can be from {LEAST_QUOTA} to {MOST_QUOTA}"
            ),
        }),
    }
}

/// A quota with the shortest period that the kernel accepts, so that the host behaves like one with a slow
/// processor instead of stopping and starting.
fn quota_of(quota: f64) -> CpuLimit {
    let usual = CpuLimit::cores(quota);
    let shortest = Duration::from_secs_f64(SHORTEST_QUOTA / quota);
    // Rounded up to milliseconds, so that the quota within a period is never below the minimum.
    let shortest = Duration::from_millis(shortest.as_secs_f64().mul_add(1e3, -1e-6).ceil() as u64);
    CpuLimit {
        period: usual.period.max(shortest),
        ..usual
    }
}

/// The level of the factor `memory`: `none`, or mebibytes as in `16M`.
fn memory(cell: &Cell) -> Result<Option<Bytes>, ReplicateError> {
    let level = cell.level("memory");
    if level == "none" {
        return Ok(None);
    }
    level
        .strip_suffix('M')
        .and_then(|number| number.parse::<u64>().ok())
        .map(|mega| Some(Bytes(mega << 20)))
        .ok_or_else(|| {
            unknown(
                "memory",
                level,
                "it can be none, or a number of mebibytes as in 16M",
            )
        })
}

/// The level of the factor `disk`: `none`, reads per second as in `200ops`, or a rate as in `4MBps`.
fn disk(cell: &Cell, folder: &Path) -> Result<Option<DiskLimit>, ReplicateError> {
    let level = cell.level("disk");
    if matches!(level, "" | "none") {
        return Ok(None);
    }
    let number = |suffix: &str| level.strip_suffix(suffix)?.parse::<u64>().ok();
    let (operations, bytes) = (number("ops"), number("MBps").map(|mega| mega * 1_000_000));
    if operations.or(bytes).is_none() {
        let known = "it can be none, operations a second as in 200ops, or a rate as in 4MBps";
        return Err(unknown("disk", level, known));
    }
    Ok(Some(DiskLimit {
        device: BlockDevice::of_path(folder)?,
        read_bytes_per_s: bytes,
        write_bytes_per_s: None,
        read_ops_per_s: operations,
        write_ops_per_s: None,
    }))
}

fn unknown(factor: &'static str, level: &str, reason: &str) -> ReplicateError {
    ReplicateError::Level {
        factor,
        level: level.to_owned(),
        reason: reason.to_owned(),
    }
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
    fn absurd_levels_are_refused_and_do_not_panic() {
        for level in ["nan", "inf", "-1", "1e300"] {
            let keep_alive =
                number::<TimeSpan>(&cell("keep_alive_s", level), "keep_alive_s", "server");
            let error = keep_alive.expect_err(level).to_string();
            assert!(error.contains("keep_alive_s"), "{error}");
        }
        for level in ["0", "4000000000"] {
            assert!(users(&cell("ues", level), "ues").is_err(), "{level}");
        }
        assert_eq!(users(&cell("ues", "30"), "ues").unwrap(), 30);
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
    }

    #[test]
    fn levels_of_memory_and_disk_have_units() {
        assert_eq!(memory(&cell("memory", "none")).unwrap(), None);
        assert_eq!(
            memory(&cell("memory", "16M")).unwrap(),
            Some(Bytes(16 << 20))
        );
        assert!(memory(&cell("memory", "16")).is_err());
        let disk = |level| disk(&cell("disk", level), Path::new("."));
        assert!(disk("none").unwrap().is_none());
        let error = disk("200").unwrap_err().to_string();
        assert!(error.contains("200ops"), "{error}");
    }

    #[test]
    fn a_factor_that_a_study_does_not_have_is_no_demand() {
        let other = cell("cpu", "100");
        assert_eq!(number::<u32>(&other, "initcwnd", "default").unwrap(), None);
        let given = cell("initcwnd", "10");
        assert_eq!(
            number::<u32>(&given, "initcwnd", "default").unwrap(),
            Some(10)
        );
        assert!(number::<u32>(&cell("initcwnd", "many"), "initcwnd", "default").is_err());
        assert_eq!(udp_offload(&other).unwrap(), UdpOffload::On);
    }

    #[test]
    fn wake_ups_are_delayed_only_where_a_study_has_the_factor() {
        assert_eq!(rest(&cell("cpu", "100")).unwrap(), Duration::ZERO);
        assert_eq!(rest(&cell("rest_ms", "off")).unwrap(), Duration::ZERO);
        let level = rest(&cell("rest_ms", "0.5")).unwrap();
        assert_eq!(level, Duration::from_micros(500));
        for wrong in ["0", "-1", "NaN", "inf", "1e300"] {
            let error = rest(&cell("rest_ms", wrong)).unwrap_err().to_string();
            assert!(error.contains("off, or the longest"), "{error}");
        }
        assert!(rest(&cell("rest_ms", "on")).is_err());
    }

    #[test]
    fn offloads_of_udp_have_names() {
        let level = |level| udp_offload(&cell("udp_offload", level));
        for offload in UdpOffload::ALL {
            assert_eq!(level(offload.name()).unwrap(), offload);
        }
        let error = level("gso").unwrap_err().to_string();
        assert!(error.contains("on or send or receive or off"), "{error}");
    }
}
