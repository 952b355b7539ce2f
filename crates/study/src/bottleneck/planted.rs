//! Planted bottlenecks: set-ups with a known limit, with which the method is tested.
//!
//! In each set-up, one resource is much too small, or the server's handler has a fault; all other resources are sufficient.

use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::bottleneck::Resource;
use fathometer_http::driver::Policy;
use fathometer_model::{Bytes, Seed};
use fathometer_path::Profile;

use super::error::SearchError;
use super::server::Server;
use super::setup::{Demand, HostLimits, Load, Setup};
use super::site::SiteOnDisk;
use fathometer_lab::era::Era;

/// A set-up with a planted bottleneck.
pub struct PlantedBottleneck {
    /// The name on the command line.
    pub name: &'static str,
    /// A description of the planted bottleneck.
    pub built_in: &'static str,
    /// The resource that limits the set-up.
    pub limit: Resource,
    /// The factor by which limits are varied.
    pub step: f64,
    make: fn(Base) -> Result<Setup, SearchError>,
}

/// The settings that most planted bottlenecks have in common.
struct Base {
    setup: Setup,
    seed: Seed,
}

/// A path that does not limit the throughput: 200 Mbit/s, and a round-trip time of 1 ms.
const PATH: &str = r#"
name = "planted"
source = "A definition: it does not limit the throughput, unless a planted bottleneck changes it."
mtu = 1500
[both]
rate = "200Mbit/s"
propagation = "0.5ms"
framing = "ethernet"
queue = { packets = 1000 }
"#;

/// The factor by which most planted bottlenecks vary limits. It is larger than the default, because their trials are
/// short and have few replicates.
const STEP: f64 = 1.5;

/// The lengths of the warm-up and of the measured window of a trial. The window has a few hundred exchanges.
const QUICK: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(700)];
/// The lengths of the warm-up and of the measured window for set-ups with few exchanges, or with caches that must be
/// filled.
const SLOW: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1000)];

/// All planted bottlenecks.
pub const PLANTED: [PlantedBottleneck; 13] = [
    PlantedBottleneck {
        name: "cpu-quota",
        built_in: "15 % of a core for a CPU-bound server",
        limit: Resource::Cpu,
        step: STEP,
        make: |base| {
            // With less work per request, the CPU time per request would vary by a third.
            base.with_server("work=150000")?.with(|setup| {
                setup.host.cpu = Some(0.15);
                setup.load.demand = Demand::Busy(32);
            })
        },
    },
    PlantedBottleneck {
        name: "one-processor",
        built_in: "one processor for a CPU-bound server with many threads",
        limit: Resource::Cpu,
        step: STEP,
        make: |base| {
            base.with_server("work=500000")?.with(|setup| {
                setup.host.cpu = None;
                setup.host.cores = Some(1);
                setup.load.demand = Demand::Busy(16);
            })
        },
    },
    PlantedBottleneck {
        name: "one-thread",
        built_in: "two processors for a CPU-bound server with one thread",
        limit: Resource::OneCore,
        step: STEP,
        make: |base| {
            base.with_server("serial=500000")?.with(|setup| {
                setup.host.cpu = None;
                setup.load.demand = Demand::Busy(16);
            })
        },
    },
    PlantedBottleneck {
        name: "memory",
        built_in: "memory for half of the files, on a slow disk",
        limit: Resource::Memory,
        step: STEP,
        make: |base| {
            base.with_files(176, 68 << 10)?.with(|setup| {
                setup.host.memory = Some(Bytes(10 << 20));
                setup.host.disk_bytes = Some(3_000_000);
                setup.warm = true;
                [setup.warm_up, setup.duration] = SLOW;
            })
        },
    },
    PlantedBottleneck {
        name: "disk-operations",
        built_in: "60 disk reads per second, of files that are not in memory",
        limit: Resource::DiskOperations,
        step: STEP,
        make: |base| {
            base.with_files(800, 68 << 10)?.with(|setup| {
                setup.host.disk_operations = Some(60);
                setup.warm = false;
                [setup.warm_up, setup.duration] = SLOW;
            })
        },
    },
    PlantedBottleneck {
        name: "disk-bytes",
        built_in: "3 MB per second from the disk, of files that are not in memory",
        limit: Resource::DiskBytes,
        step: STEP,
        make: |base| {
            base.with_files(800, 68 << 10)?.with(|setup| {
                setup.host.disk_bytes = Some(3_000_000);
                setup.warm = false;
                [setup.warm_up, setup.duration] = SLOW;
            })
        },
    },
    PlantedBottleneck {
        name: "link-rate",
        built_in: "a link of 10 Mbit/s",
        limit: Resource::LinkRate,
        step: STEP,
        make: |base| {
            base.with_files(20, 20_000)?.with(|setup| {
                for direction in [&mut setup.profile.up, &mut setup.profile.down] {
                    direction.rate = fathometer_model::Bandwidth::bits_per_second(10_000_000);
                }
            })
        },
    },
    PlantedBottleneck {
        name: "window",
        built_in: "a receive window of 8 kB, with a round-trip time of 60 ms and files of 64 kB",
        limit: Resource::RoundTrip,
        step: STEP,
        make: |base| {
            // The site has only a few files, because the warm-up requests each of them over this slow path.
            base.with_files(4, 64_000)?.with(|setup| {
                setup.window = Some(8 << 10);
                [setup.warm_up, setup.duration] = SLOW;
                for direction in [&mut setup.profile.up, &mut setup.profile.down] {
                    direction.propagation = Duration::from_millis(30);
                }
            })
        },
    },
    PlantedBottleneck {
        name: "backlog",
        built_in: "a backlog of one connection, for a server that accepts every 10 ms",
        limit: Resource::Backlog,
        step: STEP,
        make: |base| {
            base.with_server("accept=10ms")?.with(|setup| {
                setup.host.backlog = Some(1);
                setup.load.policy = "h1.0".parse().expect("a policy");
                setup.load.demand = Demand::Busy(32);
            })
        },
    },
    PlantedBottleneck {
        name: "workers",
        built_in: "4 connections at a time, and 10 ms for each request",
        limit: Resource::Workers,
        step: STEP,
        make: |base| {
            base.with_server("sleep=10ms,connections={connections}")?
                .with(|setup| {
                    setup.host.workers = Some(4);
                    setup.load.policy = "h1.0".parse().expect("a policy");
                    setup.load.demand = Demand::Busy(24);
                })
        },
    },
    PlantedBottleneck {
        name: "lock",
        built_in: "a lock in the handler, held for 4 ms",
        limit: Resource::ServerItself,
        step: STEP,
        make: |base| base.with_server("lock=4ms")?.with(|_| {}),
    },
    PlantedBottleneck {
        name: "sleep",
        built_in: "a sleep of 40 ms in the handler",
        limit: Resource::ServerItself,
        step: STEP,
        make: |base| base.with_server("sleep=40ms")?.with(|_| {}),
    },
    PlantedBottleneck {
        name: "rate",
        built_in: "300 requests per second, far below the server's capacity",
        limit: Resource::Load,
        step: STEP,
        make: |base| base.with(|setup| setup.load.demand = Demand::Rate(300.0)),
    },
];

impl PlantedBottleneck {
    /// Builds the set-up.
    pub fn setup(&self, seed: Seed) -> Result<Setup, SearchError> {
        (self.make)(Base::new(seed)?)
    }
}

impl Base {
    fn new(seed: Seed) -> Result<Base, SearchError> {
        let setup = Setup {
            server: Arc::new(Server::named("embedded")?),
            site: Arc::new(SiteOnDisk::alike(20, 1_000, seed)?),
            profile: Profile::from_toml(PATH, "the path of the planted bottlenecks")?,
            era: Arc::new(Era::load("today")?),
            window: None,
            host: HostLimits {
                cpu: Some(0.5),
                ..HostLimits::default()
            },
            load: Load {
                demand: Demand::Busy(12),
                policy: "h1.1".parse::<Policy>()?,
            },
            warm: true,
            warm_up: QUICK[0],
            duration: QUICK[1],
            timeout: Duration::from_secs(5),
        };
        Ok(Base { setup, seed })
    }

    fn with_files(mut self, count: u32, bytes: u64) -> Result<Base, SearchError> {
        self.setup.site = Arc::new(SiteOnDisk::alike(count, bytes, self.seed)?);
        Ok(self)
    }

    fn with_server(mut self, faults: &str) -> Result<Base, SearchError> {
        self.setup.server = Arc::new(Server::slow(faults)?);
        Ok(self)
    }

    fn with(mut self, change: impl FnOnce(&mut Setup)) -> Result<Setup, SearchError> {
        change(&mut self.setup);
        Ok(self.setup)
    }
}
