//! A server on a host with limits, a path and a load: what is judged, and what is varied of it.

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
use crate::era::Era;
use crate::lab::Side;
use crate::load::{Limit, Options, Users};
use crate::server::{PORT, Throttle};
use crate::trial::Trial;
use crate::wire;

/// What is judged. A change of one limit is a copy with that limit changed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The server.
    pub server: Arc<Server>,
    /// What is asked for.
    pub site: Arc<SiteOnDisk>,
    /// The path.
    pub profile: Profile,
    /// The TCP of both hosts.
    pub era: Arc<Era>,
    /// The clients' receive window in octets; `None` leaves it to the kernel.
    pub window: Option<u32>,
    /// What the server's host may use.
    pub host: HostLimits,
    /// Who asks.
    pub load: Load,
    /// Whether every page is asked for once before, so that the host has in memory what fits.
    pub warm: bool,
    /// Time before the measured window.
    pub warm_up: Duration,
    /// The measured window.
    pub duration: Duration,
    /// How long an exchange may take.
    pub timeout: Duration,
}

/// What a host may use. `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLimits {
    /// Processor time, in cores.
    pub cpu: Option<f64>,
    /// Processors.
    pub cores: Option<usize>,
    /// Memory, page cache counted in.
    pub memory: Option<Bytes>,
    /// Read operations of the disk, a second.
    pub disk_operations: Option<u64>,
    /// Octets read from the disk, a second.
    pub disk_bytes: Option<u64>,
    /// Connections that may wait to be accepted.
    pub backlog: Option<u32>,
    /// Connections that are served at a time.
    pub workers: Option<u32>,
}

/// Who asks, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// How many, or how often.
    pub demand: Demand,
    /// How connections are used.
    pub policy: Policy,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// So many users that ask without a pause.
    Busy(u32),
    /// So many users that pause as the workload says.
    Pausing(u32),
    /// So many sessions a second, at independent instants.
    Rate(f64),
}

/// The most connections of an open loop.
const CONNECTIONS: u32 = 512;

/// How long exchanges that are under way when the measured window ends are waited for, at most.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// The least that the kernel takes as a quota over periods of 10 ms, in cores.
const LEAST_CPU: f64 = 0.1;

impl Setup {
    /// The processors of this machine that the host could have.
    fn machine_cores() -> Vec<usize> {
        fathometer_sys::sched::processors().unwrap_or_else(|_| vec![0])
    }

    /// Processor time that the host may use, in cores.
    pub fn capacity(&self) -> f64 {
        let machine = Setup::machine_cores().len();
        let cores = self.host.cores.unwrap_or(machine).min(machine) as f64;
        self.host.cpu.map_or(cores, |quota| quota.min(cores))
    }

    /// This set-up with a resource multiplied by about `step` (above 1), or divided by it; what was
    /// done exactly is in the [`Change`]. An error says why it cannot be.
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
                vary_rates(both, factor).ok_or("the path has no rate")?
            }
            Resource::RoundTrip => setup.vary_round_trip(1.0 / factor)?,
            Resource::Backlog => {
                let limit = setup
                    .host
                    .backlog
                    .as_mut()
                    .ok_or("the server's own choice")?;
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
            return Err(format!("this machine has {machine} processors and no more"));
        }
        if wanted < LEAST_CPU {
            return Err(format!(
                "{wanted:.2} of a core is less than the kernel can give"
            ));
        }
        let whole = wanted.ceil() as usize;
        if self.host.cores.is_some_and(|cores| cores < whole) {
            self.host.cores = Some(whole);
        }
        self.host.cpu = Some(wanted);
        Ok(self.capacity() / before)
    }

    /// Makes one core slower than it is, by giving the host less than one.
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
            return Err("the path has none".to_owned());
        }
        for direction in [&mut self.profile.up, &mut self.profile.down] {
            direction.propagation = direction.propagation.mul_f64(factor);
        }
        Ok(self.profile.round_trip().as_secs_f64() / before.as_secs_f64())
    }

    /// Why the disk cannot be limited, when it cannot.
    pub fn disk(&self) -> Result<BlockDevice, fathometer_sys::Error> {
        BlockDevice::of_path(&self.site.folder)
    }

    /// The trial of this set-up.
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

    /// How late the path may be. What is measured is a rate over the whole window, which a packet in a
    /// hundred that is some milliseconds late does not move.
    fn wire_limits(&self) -> wire::Limits {
        let round_trip = self.profile.round_trip();
        wire::Limits {
            p99: (round_trip / 20).max(Duration::from_millis(2)),
            maximum: (round_trip / 2).max(Duration::from_millis(50)),
        }
    }

    /// What is asked of the server about its connections.
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
            // The last ones: interrupts and what else goes on favour the first.
            cores: host
                .cores
                .map(|count| machine[machine.len().saturating_sub(count)..].to_vec()),
            ..Limits::default()
        })
    }

    fn every_page_once(&self, seed: Seed) -> Options {
        let mut plan = Plan::clone(&self.site.plan);
        let pages = plan.pages.len() as u32;
        plan.choice = Choice::Sequence((0..pages).map(PageId).collect());
        plan.sessions = Sessions::ENDLESS;
        plan.recorded = None;
        Options {
            plan: Arc::new(plan),
            users: Users::closed(2),
            warm_up: Duration::ZERO,
            limit: Limit::Exchanges(u64::from(pages)),
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
                // All at once would be one burst of connections that the warm-up may not outlive.
                start_interval: self.warm_up / 4 / users.max(1),
                steps: Vec::new(),
            },
            Demand::Rate(rate) => Users::Open {
                arrivals: Arrivals::poisson(
                    arrivals::Profile::constant(rate).expect("the rate was looked at"),
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
            // Who waits longer than that counts with what he waited.
            drain: self.timeout.min(self.duration / 3).min(LONGEST_DRAIN),
            // As with the path: a rate over the whole window is not moved by this.
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

    /// The folder of the site.
    pub fn folder(&self) -> &PathBuf {
        &self.site.folder
    }
}

/// Whether a change gives or takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// More of what helps, less of what hinders.
    Relieved,
    /// The other way.
    Squeezed,
}

/// Multiplies a large number; the factor that was applied.
fn scaled(value: &mut u64, factor: f64) -> Result<f64, String> {
    let before = *value as f64;
    *value = (before * factor).round() as u64;
    match *value as f64 / before {
        applied if applied > 0.0 && applied != 1.0 => Ok(applied),
        _ => Err(format!("{before} is too little for a step")),
    }
}

/// Multiplies a small number, by one at least; the factor that was applied.
fn whole(value: &mut u32, factor: f64) -> Result<f64, String> {
    let before = *value;
    let wanted = (f64::from(before) * factor).round() as u32;
    *value = match factor > 1.0 {
        true => wanted.max(before + 1),
        false => wanted.min(before.saturating_sub(1)),
    };
    match *value {
        0 => Err(format!("{before} is too little for a step down")),
        after => Ok(f64::from(after) / f64::from(before)),
    }
}

/// Multiplies the rates that there are; `None` when there is none.
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
