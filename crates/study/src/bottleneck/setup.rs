//! The set-up under test and its variations. A set-up is a server on a host with limits, a path and a load.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::bottleneck::{Change, Resource};
use fathometer_http::driver::Policy;
use fathometer_model::{Bandwidth, Bytes, Seed};
use fathometer_path::{DirectionProfile, Profile};
use fathometer_sys::cgroup::{BlockDevice, CpuLimit, DiskLimit, Limits};
use fathometer_sys::{Clock, SocketOptions};
use fathometer_workload::arrivals::{self, Arrivals};
use fathometer_workload::plan::{Choice, PageId, Plan, Sessions};

use super::server::Server;
use super::site::SiteOnDisk;
use fathometer_lab::era::Era;
use fathometer_lab::hosts::Side;
use fathometer_lab::server::{PORT, Throttle};
use fathometer_lab::trial::Trial;
use fathometer_lab::wire;
use fathometer_load::{Limit, Options, Users};

/// The set-up under test. A variation is a copy with one limit changed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The server.
    pub server: Arc<Server>,
    /// The site to serve and request.
    pub site: Arc<SiteOnDisk>,
    /// The path.
    pub profile: Profile,
    /// The TCP profile of both hosts.
    pub era: Arc<Era>,
    /// The clients' receive window in bytes; `None` if the kernel sets it.
    pub window: Option<u32>,
    /// The limits of the server's host.
    pub host: HostLimits,
    /// The load.
    pub load: Load,
    /// Whether every page is requested once before the trial, so that the page cache contains as much of the site as
    /// fits.
    pub warm: bool,
    /// The length of the warm-up before the measured window.
    pub warm_up: Duration,
    /// The length of the measured window.
    pub duration: Duration,
    /// The timeout of an exchange.
    pub timeout: Duration,
}

/// The limits of a host. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLimits {
    /// The CPU quota, in cores.
    pub cpu: Option<f64>,
    /// The number of processors.
    pub cores: Option<usize>,
    /// The memory, including the page cache.
    pub memory: Option<Bytes>,
    /// The read operations of the disk, per second.
    pub disk_operations: Option<u64>,
    /// The bytes read from the disk, per second.
    pub disk_bytes: Option<u64>,
    /// The listen backlog: the maximum number of connections that wait in the kernel for `accept`.
    pub backlog: Option<u32>,
    /// The number of connections served at a time.
    pub workers: Option<u32>,
}

/// A load and its connection policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The number of users, or the rate.
    pub demand: Demand,
    /// The connection policy.
    pub policy: Policy,
}

/// The demand of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// A number of closed-loop users without pauses.
    Busy(u32),
    /// This number of closed-loop users, with the pauses of the workload.
    Pausing(u32),
    /// Poisson arrivals at this rate, in sessions per second.
    Rate(f64),
}

/// The maximum number of connections of an open loop.
const CONNECTIONS: u32 = 512;

/// The longest wait for exchanges in flight at the end of the measured window.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// The smallest quota that the kernel accepts over periods of 10 ms, in cores.
const LEAST_CPU: f64 = 0.1;

impl Setup {
    /// Returns the processors of this machine that the host could use.
    fn machine_cores() -> Vec<usize> {
        fathometer_sys::sched::processors().unwrap_or_else(|_| vec![0])
    }

    /// Returns the CPU time that the host may use, in cores.
    pub fn capacity(&self) -> f64 {
        let machine = Setup::machine_cores().len();
        let cores = self.host.cores.unwrap_or(machine).min(machine) as f64;
        self.host.cpu.map_or(cores, |quota| quota.min(cores))
    }

    /// Returns this set-up with a resource multiplied or divided by about `step` (above 1). The [`Change`] has the
    /// exact factor. An error is the reason why the resource cannot be varied.
    pub fn varied(
        &self,
        resource: Resource,
        step: f64,
        how: How,
    ) -> Result<(Setup, Change), String> {
        let mut setup = self.clone();
        let factor = match how {
            How::Relieved => step,
            How::Squeezed => 1.0 / step,
        };
        let applied = match resource {
            Resource::Cpu => setup.vary_cpu(factor)?,
            Resource::OneCore => setup.slow_core(factor)?,
            Resource::Memory => {
                let limit = setup.host.memory.as_mut().ok_or("not limited")?;
                scaled(&mut limit.0, factor)?
            }
            Resource::DiskOperations => {
                let limit = setup.host.disk_operations.as_mut().ok_or("not limited")?;
                scaled(limit, factor)?
            }
            Resource::DiskBytes => {
                let limit = setup.host.disk_bytes.as_mut().ok_or("not limited")?;
                scaled(limit, factor)?
            }
            Resource::LinkRate => {
                let both = [&mut setup.profile.up, &mut setup.profile.down];
                vary_rates(both, factor).ok_or("the path has no rate limit")?
            }
            Resource::RoundTrip => setup.vary_round_trip(1.0 / factor)?,
            Resource::Backlog => {
                let limit = setup
                    .host
                    .backlog
                    .as_mut()
                    .ok_or("not set: the server determines the backlog")?;
                whole(limit, factor)?
            }
            Resource::Workers => {
                let limit = setup.host.workers.as_mut().ok_or("not limited")?;
                whole(limit, factor)?
            }
            Resource::Load => match &mut setup.load.demand {
                Demand::Busy(users) | Demand::Pausing(users) => whole(users, factor)?,
                Demand::Rate(rate) => {
                    *rate *= factor;
                    factor
                }
            },
            Resource::ServerItself | Resource::Generator | Resource::Path => {
                return Err("cannot be varied".to_owned());
            }
        };
        setup.server.can(&setup.throttle())?;
        let factor = applied;
        Ok((setup, Change { resource, factor }))
    }

    fn vary_cpu(&mut self, factor: f64) -> Result<f64, String> {
        let machine = Setup::machine_cores().len();
        let before = self.capacity();
        let wanted = before * factor;
        if wanted > machine as f64 {
            return Err(format!("this machine has only {machine} processors"));
        }
        if wanted < LEAST_CPU {
            return Err(format!(
                "{wanted:.2} of a core is below the minimum quota of the kernel"
            ));
        }
        let whole = wanted.ceil() as usize;
        if self.host.cores.is_some_and(|cores| cores < whole) {
            self.host.cores = Some(whole);
        }
        self.host.cpu = Some(wanted);
        Ok(self.capacity() / before)
    }

    /// Slows down a single core: limits the host to less than one core.
    fn slow_core(&mut self, factor: f64) -> Result<f64, String> {
        if factor > 1.0 {
            return Err("a core cannot be made faster".to_owned());
        }
        if self.capacity() < 1.0 {
            return Err("the host has less than one core".to_owned());
        }
        self.host.cpu = Some(factor);
        Ok(factor)
    }

    fn vary_round_trip(&mut self, factor: f64) -> Result<f64, String> {
        let before = self.profile.round_trip();
        if before.is_zero() {
            return Err("the path has no round-trip time".to_owned());
        }
        for direction in [&mut self.profile.up, &mut self.profile.down] {
            direction.propagation = direction.propagation.mul_f64(factor);
        }
        Ok(self.profile.round_trip().as_secs_f64() / before.as_secs_f64())
    }

    /// Returns the block device of the site's folder; an error if the disk cannot be limited.
    pub fn disk(&self) -> Result<BlockDevice, fathometer_sys::Error> {
        BlockDevice::of_path(&self.site.folder)
    }

    /// Builds the trial of this set-up.
    pub fn trial(&self, seed: Seed, clock: Clock) -> Result<Trial<'_>, fathometer_sys::Error> {
        Ok(Trial {
            definition: self.server.definition(),
            installed: self.server.installed(),
            folder: &self.site.folder,
            profile: &self.profile,
            era: &self.era,
            initial_window: None,
            limits: self.limits()?,
            throttle: self.throttle(),
            wire_limits: Some(self.wire_limits()),
            seed,
            clock,
            warm_cache: self.warm.then(|| self.every_page_once(seed)),
            load: self.options(seed),
            beside: None,
        })
    }

    /// Returns the limits of the path's lateness. They are loose, because the result is a rate over the whole window.
    /// If 1 % of the packets are late by some milliseconds, the rate does not change.
    fn wire_limits(&self) -> wire::Limits {
        let round_trip = self.profile.round_trip();
        wire::Limits {
            p99: (round_trip / 20).max(Duration::from_millis(2)),
            maximum: (round_trip / 2).max(Duration::from_millis(50)),
        }
    }

    /// The connection limits requested from the server.
    pub fn throttle(&self) -> Throttle {
        Throttle {
            backlog: self.host.backlog,
            connections: self.host.workers,
            ..Throttle::default()
        }
    }

    fn limits(&self) -> Result<Limits, fathometer_sys::Error> {
        let host = &self.host;
        let disk = match (host.disk_operations, host.disk_bytes) {
            (None, None) => None,
            (read_ops_per_s, read_bytes_per_s) => Some(DiskLimit {
                device: self.disk()?,
                read_bytes_per_s,
                write_bytes_per_s: None,
                read_ops_per_s,
                write_ops_per_s: None,
            }),
        };
        let machine = Setup::machine_cores();
        Ok(Limits {
            cpu: host.cpu.map(CpuLimit::cores),
            memory: host.memory,
            disk,
            // Uses the last processors, because interrupts and other work prefer the first processors.
            cores: host
                .cores
                .map(|count| machine[machine.len().saturating_sub(count)..].to_vec()),
            ..Limits::default()
        })
    }

    fn every_page_once(&self, seed: Seed) -> Options {
        let mut plan = Plan::clone(&self.site.plan);
        let pages = plan.pages.len() as u32;
        let files = (0..pages).map(|page| plan.pages.get(PageId(page)).members.len() as u64);
        let files = files.sum();
        plan.choice = Choice::Sequence((0..pages).map(PageId).collect());
        plan.sessions = Sessions::ENDLESS;
        plan.recorded = None;
        Options {
            plan: Arc::new(plan),
            users: Users::closed(2),
            warm_up: Duration::ZERO,
            limit: Limit::Exchanges(files),
            ..self.options(seed)
        }
    }

    fn options(&self, seed: Seed) -> Options {
        let mut plan = Plan::clone(&self.site.plan);
        if let Demand::Busy(_) = self.load.demand {
            plan.sessions = Sessions::ENDLESS;
        }
        let users = match self.load.demand {
            Demand::Busy(users) | Demand::Pausing(users) => Users::Closed {
                users,
                // Starting all users at once would cause a burst of connections that could take longer than the
                // warm-up.
                start_interval: self.warm_up / 4 / users.max(1),
                steps: Vec::new(),
            },
            Demand::Rate(rate) => Users::Open {
                arrivals: Arrivals::poisson(
                    arrivals::Profile::constant(rate).expect("the rate was checked"),
                    seed.stream("arrivals"),
                ),
                connections: CONNECTIONS,
            },
        };
        let address = (Side::Server.ipv4(), PORT).into();
        let era = self.era.settings(Side::Client, None).socket;
        Options {
            users,
            policy: self.load.policy,
            timeout: self.timeout,
            connect_timeout: self.timeout,
            warm_up: self.warm_up,
            limit: Limit::Time(self.duration),
            // A request that has no response at the end of the drain is counted, with its waiting time until then.
            drain: self.timeout.min(self.duration / 3).min(LONGEST_DRAIN),
            // The limit is as loose as the path's limits: such a lag does not change a rate over the whole window.
            send_lag: self.duration / 50,
            seed,
            sockets: SocketOptions {
                no_delay: Some(true),
                receive_buffer_bytes: self.window.or(era.receive_buffer_bytes),
                ..era
            },
            ..Options::new(address, "server", Arc::new(plan))
        }
    }

    /// The site's folder.
    pub fn folder(&self) -> &PathBuf {
        &self.site.folder
    }
}

/// Whether a variation relieves or tightens a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// More of a resource, or a shorter delay.
    Relieved,
    /// Less of a resource, or a longer delay.
    Squeezed,
}

/// Multiplies a large number by a factor and rounds it. Returns the applied factor.
fn scaled(value: &mut u64, factor: f64) -> Result<f64, String> {
    let before = *value as f64;
    *value = (before * factor).round() as u64;
    match *value as f64 / before {
        applied if applied > 0.0 && applied != 1.0 => Ok(applied),
        _ => Err(format!("{before} is too small for a step")),
    }
}

/// Multiplies a small number by a factor, but changes it by at least one. Returns the applied factor.
fn whole(value: &mut u32, factor: f64) -> Result<f64, String> {
    let before = *value;
    let wanted = (f64::from(before) * factor).round() as u32;
    *value = match factor > 1.0 {
        true => wanted.max(before + 1),
        false => wanted.min(before.saturating_sub(1)),
    };
    match *value {
        0 => Err(format!("{before} is too small for a step down")),
        after => Ok(f64::from(after) / f64::from(before)),
    }
}

/// Multiplies the rates of both directions. Returns `None` if neither direction has a rate.
fn vary_rates(directions: [&mut DirectionProfile; 2], factor: f64) -> Option<f64> {
    let mut applied = None;
    for direction in directions {
        if let Some(rate) = direction.rate {
            let before = rate.as_bits_per_second() as f64;
            let varied = Bandwidth::bits_per_second((before * factor).round() as u64)?;
            direction.rate = Some(varied);
            applied = Some(varied.as_bits_per_second() as f64 / before);
        }
    }
    applied
}
