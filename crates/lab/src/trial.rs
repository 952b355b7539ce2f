//! A trial: one load on one server over an emulated path. The server's host has limits and probes.
//!
//! The server's host is a namespace and a control group: its programs, and the process that receives its packets, share
//! one budget. The generator is outside the host. Probes read the control group, the server's processes and the
//! namespace. Load studies and the search for a bottleneck consist of trials.
//!
//! A trial may have two loads at the same time ([`Beside`]). Each load has its own server, generator and result. Both
//! servers share one host, one budget and one path, so the figures of the host and the path include both loads.
//!
//! [`Trial::run_series`] applies a series of loads to one server, as a capacity search does.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::driver::Policy;
use fathometer_model::{Instant, PathCertificate, Seed, Validity};
use fathometer_path::Profile;
use fathometer_sys::Clock;
use fathometer_sys::cgroup::{AppliedLimit, CpuLimit, DiskLimit, Group, Limits, UsageProbe};
use fathometer_sys::era::{AppliedSettings, TcpSettings};
use fathometer_sys::priority;
use fathometer_sys::probe::{Detail, Plan as ProbePlan, Sampler, Samples};
use fathometer_tls::{ClientOptions, ClientSettings, SettingsError, Verification};

use crate::era::Era;
use crate::hosts::{Host, Lab, Side};
use crate::server::definition::Definition;
use crate::server::limited::{self, Limited, Service, Throttle};
use crate::server::{Access, Credentials, Installed, ServerError, ServerSlot};
use crate::wire::{self, Carried, PacketCounts, WireOptions};
use fathometer_files::site_cache::SiteCache;
use fathometer_files::site_folder::{self, SiteFolderError};
use fathometer_load::without_port;
use fathometer_load::{LoadError, Options};

/// The period of the probes. It determines the accuracy of the measured window's ends: 1/30 of a window of 3 s.
const PROBE_PERIOD: Duration = Duration::from_millis(100);

/// The name of the probed server.
const SERVER: &str = "server";

/// The name of the second server, if there is one.
const OTHER: &str = "beside";

/// The maximum difference between the starts of two simultaneous loads, as a fraction of the measured window.
const APART: f64 = 0.05;

/// The parameters of a trial.
pub struct Trial<'a> {
    /// The server.
    pub definition: &'a Definition,
    /// The installed program of the server; `None` for a built-in server.
    pub installed: Option<&'a Installed>,
    /// The site on disk.
    pub folder: &'a Path,
    /// The path between the hosts.
    pub profile: &'a Profile,
    /// The TCP profile of both hosts.
    pub era: &'a Era,
    /// The initial congestion window of both hosts, in segments; `None` for the era's value.
    pub initial_window: Option<u32>,
    /// The limits of the server's host.
    pub limits: Limits,
    /// The limits of the server's connections.
    pub throttle: Throttle,
    /// The limits of the path's lateness. `None` means the default limits of the path.
    pub wire_limits: Option<wire::Limits>,
    /// The seed of the path's random decisions.
    pub seed: Seed,
    /// The clock of all instants.
    pub clock: Clock,
    /// A load that runs first and is not measured, so that the page cache contains as much of the site as fits. With
    /// `None`, the measured load starts with a cold cache.
    pub warm_cache: Option<Options>,
    /// The load. The trial sets the address of the server.
    pub load: Options,
    /// A second load on the same host at the same time.
    pub beside: Option<Beside<'a>>,
}

/// A second load, on another server of the same host.
pub struct Beside<'a> {
    /// The server.
    pub definition: &'a Definition,
    /// The installed program of the server; `None` for a built-in server.
    pub installed: Option<&'a Installed>,
    /// The load. It has the same warm-up and the same measured window as the first load.
    pub load: Options,
}

/// The result of a trial.
pub struct Measured {
    /// The figures of the clients.
    pub result: LoadResult,
    /// The figures of the clients of the second load.
    pub beside: Option<LoadResult>,
    /// The readings of the probes.
    pub samples: Samples,
    /// The start of the measured window.
    pub from: Instant,
    /// The end of the measured window.
    pub to: Instant,
    /// The path's certificate, for the whole trial.
    pub certificate: PathCertificate,
    /// The validity, with reasons that concern the path or the generator.
    pub validity: Validity,
    /// The settings of the era that were applied at the client and at the server.
    pub applied: [AppliedSettings; 2],
    /// The host's limits, as read back from the kernel.
    pub limits: Vec<AppliedLimit>,
    /// The packets that the path delivered in the measured window.
    pub packets: Option<PacketCounts>,
}

/// The way in which clients reach the server of a trial.
#[derive(Debug, Clone)]
pub struct ServerAccess {
    address: SocketAddr,
    tls: Option<Arc<ClientSettings>>,
    host: UsageProbe,
}

impl ServerAccess {
    /// Sets the server as the target of a load.
    pub fn apply_to(&self, options: &mut Options) {
        options.address = self.address;
        options.tls.clone_from(&self.tls);
    }

    /// Reads the CPU time that the server's host has used since its creation. For short loads, the readings of a long
    /// [`Series`] are too far apart.
    ///
    /// # Errors
    /// When no control group accounts for the host.
    pub fn host_cpu(&self) -> Result<Duration, fathometer_sys::Error> {
        Ok(self.host.cpu()?.total)
    }
}

/// The result of a series of loads.
pub struct Series<T> {
    /// The value that the series returned.
    pub value: T,
    /// The readings of the probes, from before the first load until after the last load.
    pub samples: Samples,
    /// The path's certificate, for the whole series.
    pub certificate: PathCertificate,
    /// The validity, with reasons that concern the path or the host's limits.
    pub validity: Validity,
    /// The packets that the path delivered over the whole series. A longer series has longer time bins.
    pub packets: Option<PacketCounts>,
    /// The settings of the era that were applied at the client and at the server.
    pub applied: [AppliedSettings; 2],
    /// The host's limits, as read back from the kernel.
    pub limits: Vec<AppliedLimit>,
}

/// The reason why a trial could not run. An invalid measurement is not an error.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The laboratory could not be built.
    #[error("failed to build the laboratory: {0}")]
    Lab(#[from] fathometer_sys::Error),
    /// The server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The site's folder could not be read.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The load engine failed.
    #[error("failed to apply the load: {0}")]
    Load(#[from] LoadError),
    /// The user interrupted the trial.
    #[error("interrupted")]
    Interrupted,
}

impl<'a> Trial<'a> {
    /// Builds the laboratory, runs the load and removes the laboratory.
    ///
    /// The lock `building` is locked while the laboratory is built, so that only one laboratory is built at a time.
    /// While the kernel creates namespaces and devices, no other thread runs on that processor.
    pub fn run(
        self,
        building: &Mutex<()>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Measured, TrialError> {
        let clock = self.clock;
        let ((result, beside), observed) =
            self.carry_out(building, interrupted, |bench, load, beside| {
                let other = bench.second.zip(beside);
                let (result, beside) = thread::scope(|scope| {
                    let other = other.map(|(server, beside)| {
                        scope.spawn(move || bench.apply(beside.load, server))
                    });
                    let result = bench.apply(load, bench.first);
                    let joined = other.map(|thread| {
                        thread
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    });
                    (result, joined)
                });
                Ok((result?, beside.transpose()?))
            })?;
        let Observed {
            samples,
            certificate,
            mut validity,
            packets,
            applied,
            limits,
        } = observed;
        let (result, beside) = (result?, beside.transpose()?);
        for reason in &result.validity.reasons {
            validity.invalidate(reason.clone());
        }
        if let Some(beside) = &beside {
            judge_beside(&result, beside, &mut validity);
        }
        limits_hold(&limits, &mut validity);
        let (from, to) = window_of(&result, clock);
        Ok(Measured {
            from,
            to,
            packets: packets.map(|packets| packets.between(from, to)),
            result,
            beside,
            samples,
            certificate,
            validity,
            applied,
            limits,
        })
    }

    /// Builds the laboratory, runs a series of loads on the first server from the client's host, and removes the
    /// laboratory.
    ///
    /// The trial's own load is not applied. Its policy, host name and UDP offload determine how the server is started
    /// and reached. All loads of the series must use the same policy, host name and UDP offload.
    ///
    /// # Errors
    /// When the laboratory cannot be built, the server fails before the series ends, or the user interrupts the series.
    pub fn run_series<T: Send>(
        self,
        building: &Mutex<()>,
        interrupted: &(dyn Fn() -> bool + Sync),
        series: impl FnOnce(&ServerAccess) -> T + Send,
    ) -> Result<Series<T>, TrialError> {
        let (value, observed) = self.carry_out(building, interrupted, |bench, _, _| {
            let access = bench.first.access();
            let run = move || {
                // The event loops inherit this priority. Otherwise other programs could limit the generator.
                let _ = priority::raise_priority();
                series(&access)
            };
            Ok(bench.lab.client.namespace.run(run)?)
        })?;
        let mut validity = observed.validity;
        limits_hold(&observed.limits, &mut validity);
        Ok(Series {
            value,
            samples: observed.samples,
            certificate: observed.certificate,
            validity,
            packets: observed.packets,
            applied: observed.applied,
            limits: observed.limits,
        })
    }

    /// Builds the laboratory, starts the servers, warms the cache and sets the limits. Then `drive` applies loads while
    /// the probes read. Finally removes the laboratory.
    fn carry_out<T>(
        self,
        building: &Mutex<()>,
        interrupted: &(dyn Fn() -> bool + Sync),
        drive: impl FnOnce(&Bench<'_>, Options, Option<Beside<'a>>) -> Result<T, TrialError>,
    ) -> Result<(T, Observed), TrialError> {
        let clock = self.clock;
        // Evict pages that this program, or an earlier server, left in the page cache: the kernel would not charge them
        // to the host.
        site_folder::forget(self.folder)?;
        // With a limit of memory or disk, only the host's limits may determine which pages are evicted and read again.
        let _nobody_else = (self.limits.memory.is_some() || self.limits.disk.is_some())
            .then(|| SiteCache::follow(self.folder))
            .transpose()?;
        let (mut group, lab) = host(&self.limits, || self.laboratory(building))?;
        let applied = [lab.client.applied.clone(), lab.server.applied.clone()];
        // Limits the backlog of the host, independent of the backlog that the server requests.
        let mut limits = match self.throttle.backlog {
            Some(connections) => lab.server.namespace.set_listen_backlog(connections)?,
            None => Vec::new(),
        };
        let credentials = self.credentials().map_err(ServerError::from)?;
        let serve = |definition: &Definition,
                     installed: Option<&Installed>,
                     load: &Options,
                     slot|
         -> Result<RunningServer, TrialError> {
            let policy = load.policy;
            let credentials = credentials.as_ref().filter(|_| policy.tls);
            let service = Service {
                definition,
                installed,
                root: self.folder,
                throttle: self.throttle,
                access: credentials.map_or(Access::Clear, Access::Tls),
                http3: (policy.protocol.is_over_quic()).then_some(load.udp_offload),
                slot,
            };
            let tls = credentials.map(|credentials| self.client_settings(credentials, policy));
            Ok(RunningServer {
                process: limited::start_service(&service, &lab.server, &group)?,
                name: definition.name.clone(),
                port: service.access.port_at(slot),
                tls: tls.transpose().map_err(ServerError::from)?,
                host: group.usage_probe(),
            })
        };
        let first = serve(
            self.definition,
            self.installed,
            &self.load,
            ServerSlot::First,
        )?;
        let second = match &self.beside {
            None => None,
            Some(beside) => {
                let load = &beside.load;
                let (definition, installed) = (beside.definition, beside.installed);
                Some(serve(definition, installed, load, ServerSlot::Second)?)
            }
        };
        let servers: Vec<&RunningServer> = [Some(&first), second.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let bench = Bench {
            lab: &lab,
            first: &first,
            second: second.as_ref(),
            clock,
            interrupted,
        };
        if let Some(warming) = self.warm_cache {
            bench.apply(warming, &first)??;
        }
        let alive = || match servers.iter().find_map(|s| s.process.ended(&s.name)) {
            Some(_) if interrupted() => Err(TrialError::Interrupted),
            Some(error) => Err(TrialError::Server(error)),
            None => Ok(()),
        };
        alive()?;
        group.change(&self.limits)?;
        let sampler = Sampler::start(clock, probes(&lab, &group, &servers));
        alive()?;
        let sampler = sampler?;
        let value = drive(&bench, self.load, self.beside)?;
        let samples = sampler.stop();
        // The control group's accounting shows why a server was killed. But the clients' figures after the server's
        // exit are not a valid measurement.
        alive()?;
        for server in &servers {
            limits.extend(group.verify_process(server.process.pid())?);
        }
        drop(servers);
        for server in [Some(first), second].into_iter().flatten() {
            server.process.stop()?;
        }
        limits.extend(group.verify()?);
        let Carried {
            certificate,
            validity,
            packets,
        } = lab.end();
        if interrupted() {
            return Err(TrialError::Interrupted);
        }
        let observed = Observed {
            samples,
            certificate,
            validity,
            packets,
            applied,
            limits,
        };
        Ok((value, observed))
    }

    /// Generates a certificate for the host, if a load's policy uses TLS.
    fn credentials(&self) -> Result<Option<Credentials>, SettingsError> {
        let beside = self.beside.as_ref().is_some_and(|b| b.load.policy.tls);
        if !self.load.policy.tls && !beside {
            return Ok(None);
        }
        let names = [
            without_port(&self.load.host).to_owned(),
            Side::Server.ipv4().to_string(),
        ];
        let now = self.clock.realtime_of(Instant::ZERO);
        Credentials::make(&names, now).map(Some)
    }

    /// Returns the TLS settings of clients that trust the server and do not resume sessions: every connection has a
    /// full handshake.
    fn client_settings(
        &self,
        credentials: &Credentials,
        policy: Policy,
    ) -> Result<Arc<ClientSettings>, SettingsError> {
        let trust = Verification::Roots(credentials.roots());
        let mut options = ClientOptions::new(trust, self.clock.realtime_of(Instant::ZERO));
        options.alpn = vec![policy.protocol.alpn().as_bytes().to_vec()];
        options.resumption = None;
        ClientSettings::new(options)
    }

    fn laboratory(&self, building: &Mutex<()>) -> Result<Lab, TrialError> {
        let mut options = wire_options(self.seed);
        options.clock = self.clock;
        options.limits = self.wire_limits;
        options.client_acks = self.era.client_delayed_ack;
        let _building = building.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Lab::start(self.profile, &options, |side| {
            self.era.settings(side, self.initial_window)
        })?)
    }
}

/// Returns the measured window of a load test, as instants of `clock`.
pub fn window_of(result: &LoadResult, clock: Clock) -> (Instant, Instant) {
    let origin = clock.realtime_of(Instant::ZERO).as_secs_f64();
    let began = Duration::from_secs_f64((result.setup.started - origin).max(0.0));
    let from = Instant::ZERO + began + result.setup.warm_up;
    (from, from + result.measured.duration)
}

/// Invalidates a trial if its second load is invalid or did not run at the same time.
fn judge_beside(result: &LoadResult, beside: &LoadResult, validity: &mut Validity) {
    for reason in &beside.validity.reasons {
        validity.invalidate(format!("the second load: {reason}"));
    }
    let apart = (beside.setup.started - result.setup.started).abs();
    let limit = APART * result.measured.duration.as_secs_f64();
    if apart > limit {
        validity.invalidate(format!(
            "the two loads started {:.0} ms apart (limit {:.0} ms)",
            1e3 * apart,
            1e3 * limit
        ));
    }
}

/// Invalidates a trial if the kernel reports other limits of the host than the trial set.
fn limits_hold(limits: &[AppliedLimit], validity: &mut Validity) {
    for limit in limits.iter().filter(|limit| !limit.holds) {
        validity.invalidate(format!(
            "the host's limit {} was set to {2}, but the kernel reports {1}",
            limit.what, limit.got, limit.wanted
        ));
    }
}

/// Returns the options of a trial's path.
fn wire_options(seed: Seed) -> WireOptions {
    let mut options = WireOptions::new(seed);
    options.server_receives = true;
    options.count_packets = true;
    // A trial has tens of thousands of packets. Busy-waiting for each packet would use a whole processor.
    options.spin = Duration::ZERO;
    options
}

/// Creates the server's host. Its control group has the limits that apply while the server starts, and contains the
/// process that receives the host's packets.
fn host(
    limits: &Limits,
    laboratory: impl FnOnce() -> Result<Lab, TrialError>,
) -> Result<(Group, Lab), TrialError> {
    let group = Group::create("server", &while_starting(limits))?;
    // Raise the priority, so that other programs of this machine do not limit the host. If this fails, the host may
    // wait for other programs; the pressure figures of the host then show the wait.
    let _ = group.raise_priority();
    let lab = laboratory()?;
    if let Some(receiver) = lab.server_receiver() {
        group.add_process(receiver)?;
    }
    Ok((group, lab))
}

/// Builds the host of a trial without limits, sends a datagram to the host, and removes the host. Returns a description
/// of the result.
///
/// Requires the right to create namespaces.
pub fn test_limits() -> Result<String, TrialError> {
    let system = |doing: &str| {
        let doing = doing.to_owned();
        move |source| fathometer_sys::Error::System { doing, source }
    };
    let limits = Limits::default();
    let (mut group, lab) = host(&limits, || {
        let profile =
            Profile::from_toml(REHEARSED, "rehearsal").expect("the text above is a profile");
        let settings = |_| TcpSettings::default();
        Ok(Lab::start(&profile, &wire_options(Seed(1)), settings)?)
    })?;
    let bound = |host: &Host| -> Result<UdpSocket, TrialError> {
        let bind = || UdpSocket::bind((host.side.ipv4(), 9));
        let socket = host.namespace.run(bind)?;
        Ok(socket.map_err(system("make a socket in a host"))?)
    };
    let (client, server) = (bound(&lab.client)?, bound(&lab.server)?);
    let mut text = [0; 16];
    let received = server
        .set_read_timeout(Some(Duration::from_secs(10)))
        .and_then(|()| client.send_to(b"rehearsal", (Side::Server.ipv4(), 9)))
        .and_then(|_| server.recv(&mut text))
        .map_err(system("receive a datagram in a host"))?;
    group.change(&limits)?;
    let used = group.cpu_usage().map_err(TrialError::Lab)?.total;
    drop(lab.end());
    Ok(format!(
        "received {received} bytes, and accounted for its CPU time: {used:.1?}"
    ))
}

/// The path of [`test_limits`]. Its properties do not affect the test.
const REHEARSED: &str = "name = \"rehearsal\"\nsource = \"none\"\n[both]\npropagation = \"1ms\"";

/// Returns a host's limits while its server starts and its cache is warmed: a CPU quota of a whole core, and almost no
/// disk limits. Both steps would take long with a tenth of a core. The memory limit is already the final limit, because
/// it determines which pages remain in the cache.
fn while_starting(limits: &Limits) -> Limits {
    let plenty = |rate: Option<u64>| rate.map(|_| 1 << 30);
    Limits {
        cpu: limits.cpu.map(|_| CpuLimit::cores(1.0)),
        disk: limits.disk.as_ref().map(|disk| DiskLimit {
            device: disk.device,
            read_bytes_per_s: plenty(disk.read_bytes_per_s),
            write_bytes_per_s: plenty(disk.write_bytes_per_s),
            read_ops_per_s: plenty(disk.read_ops_per_s),
            write_ops_per_s: plenty(disk.write_ops_per_s),
        }),
        ..limits.clone()
    }
}

/// A running server, and the way in which its clients connect to it.
struct RunningServer {
    process: Limited,
    name: String,
    port: u16,
    tls: Option<Arc<ClientSettings>>,
    host: UsageProbe,
}

impl RunningServer {
    fn access(&self) -> ServerAccess {
        ServerAccess {
            address: SocketAddr::new(Side::Server.ipv4().into(), self.port),
            tls: self.tls.clone(),
            host: self.host.clone(),
        }
    }
}

/// A laboratory with running servers, to which loads are applied.
struct Bench<'a> {
    lab: &'a Lab,
    first: &'a RunningServer,
    second: Option<&'a RunningServer>,
    clock: Clock,
    interrupted: &'a (dyn Fn() -> bool + Sync),
}

impl Bench<'_> {
    /// Applies a load to a server, from the client's host.
    fn apply(
        &self,
        mut options: Options,
        server: &RunningServer,
    ) -> Result<Result<LoadResult, LoadError>, TrialError> {
        server.access().apply_to(&mut options);
        let (clock, interrupted) = (self.clock, self.interrupted);
        Ok(self.lab.client.namespace.run(move || {
            // The event loops inherit this priority. Otherwise other programs could limit the generator.
            let _ = priority::raise_priority();
            fathometer_load::run(options, clock, interrupted, &mut |_| {})
        })?)
    }
}

/// The observations of the host and the path during the loads.
struct Observed {
    samples: Samples,
    certificate: PathCertificate,
    validity: Validity,
    packets: Option<PacketCounts>,
    applied: [AppliedSettings; 2],
    limits: Vec<AppliedLimit>,
}

/// Returns the plan of the probes. Congestion windows are those of the first server's connections.
fn probes(lab: &Lab, group: &Group, servers: &[&RunningServer]) -> ProbePlan {
    // With a disk limit, queries of a process may be too slow to be useful: a process that waits for the disk may hold
    // the lock of its memory map or of a socket to which it writes a file.
    let answers_at_once = group.limits().disk.is_none();
    ProbePlan {
        period: PROBE_PERIOD,
        dear_every: 1,
        trees: [SERVER, OTHER]
            .into_iter()
            .zip(servers)
            .map(|(name, server)| (name.to_owned(), server.process.pid()))
            .collect(),
        detail: Detail {
            switches: true,
            proportional: answers_at_once,
        },
        networks: vec![(SERVER.to_owned(), lab.server.namespace.clone())],
        tables: true,
        windows: servers.first().filter(|_| answers_at_once).map(|s| s.port),
        // Without the right to create control groups, there is no control group to read.
        groups: group
            .cpu_usage()
            .map(|_| (SERVER.to_owned(), group.usage_probe()))
            .into_iter()
            .collect(),
        ..ProbePlan::default()
    }
}
