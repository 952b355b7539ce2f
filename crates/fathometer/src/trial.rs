//! A trial: one load on one server whose host has limits, over an emulated path, with probes.
//!
//! The server's host is a namespace and a control group: its programs, and the process that receives
//! its packets, share one budget. The generator is outside of it. Probes read the group, the server's
//! processes and its namespace. Studies of loads and the search for a bottleneck are made of trials.
//!
//! A trial may have two loads at the same time ([`Beside`]): each on a server of its own, both servers in
//! the one host with the one budget, over the one path. Each load has its own generator and its own
//! result; what the host and the path were seen to do is of both together.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::driver::{Policy, Protocol};
use fathometer_model::{Instant, PathCertificate, Seed, Validity};
use fathometer_path::Profile;
use fathometer_sys::Clock;
use fathometer_sys::cgroup::{AppliedLimit, CpuLimit, DiskLimit, Group, Limits};
use fathometer_sys::era::{AppliedSettings, TcpSettings};
use fathometer_sys::priority;
use fathometer_sys::probe::{Detail, Plan as ProbePlan, Sampler, Samples};
use fathometer_tls::{ClientOptions, ClientSettings, SettingsError, Verification};

use crate::era::Era;
use crate::lab::{Host, Lab, Side};
use crate::load::security::without_port;
use crate::load::{self, LoadError, Options};
use crate::server::definition::Definition;
use crate::server::limited::{self, Limited, Service, Throttle};
use crate::server::{Access, Credentials, Door, Installed, ServerError};
use crate::site_cache::SiteCache;
use crate::site_folder::{self, SiteFolderError};
use crate::wire::{self, Carried, PacketCounts, WireOptions};

/// The period of the probes. A window of three seconds is met to within a thirtieth.
const PROBE_PERIOD: Duration = Duration::from_millis(100);

/// The name of what is probed.
const SERVER: &str = "server";

/// The name of the other server, where there are two.
const OTHER: &str = "beside";

/// Two loads are at the same time when one begins at most this part of its measured window after the other.
const APART: f64 = 0.05;

/// What is tried, and on what.
pub struct Trial<'a> {
    /// The server.
    pub definition: &'a Definition,
    /// The server's program, where it is one.
    pub installed: Option<&'a Installed>,
    /// The site on disk.
    pub folder: &'a Path,
    /// The path between the hosts.
    pub profile: &'a Profile,
    /// The TCP of both hosts.
    pub era: &'a Era,
    /// The initial congestion window of both hosts, in segments, if not the era's.
    pub initial_window: Option<u32>,
    /// What the server's host may use.
    pub limits: Limits,
    /// What limits the server's connections.
    pub throttle: Throttle,
    /// How late the path may be; `None`: the usual for the path.
    pub wire_limits: Option<wire::Limits>,
    /// Where the path's chance decisions come from.
    pub seed: Seed,
    /// The clock that every instant is of.
    pub clock: Clock,
    /// A load that comes first and is not measured, so that the host has in memory what fits;
    /// `None`: nothing of the site is in memory when the measured load begins.
    pub warm_cache: Option<Options>,
    /// The load. Where the server is, is filled in.
    pub load: Options,
    /// What else is asked of the host at the same time.
    pub beside: Option<Beside<'a>>,
}

/// Another load on another server of the same host.
pub struct Beside<'a> {
    /// The server.
    pub definition: &'a Definition,
    /// The server's program, where it is one.
    pub installed: Option<&'a Installed>,
    /// The load, with the same time before its measured window and the same window as the first.
    pub load: Options,
}

/// What a trial gave.
pub struct Measured {
    /// What the clients saw.
    pub result: LoadResult,
    /// What the clients of the load beside saw.
    pub beside: Option<LoadResult>,
    /// What the probes saw.
    pub samples: Samples,
    /// When the measured window began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// The path's certificate, of the whole trial.
    pub certificate: PathCertificate,
    /// Whether all this is to be believed: the path's reasons against it, and the generator's.
    pub validity: Validity,
    /// What became of the era's settings at the client and at the server.
    pub applied: [AppliedSettings; 2],
    /// The host's limits as they read back.
    pub limits: Vec<AppliedLimit>,
    /// The packets that the path delivered, of the measured window.
    pub packets: Option<PacketCounts>,
}

/// Why a trial could not be made at all. A bad measurement is not an error.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The laboratory.
    #[error("failed to build the laboratory: {0}")]
    Lab(#[from] fathometer_sys::Error),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The site's folder.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The load engine.
    #[error("failed to make the load: {0}")]
    Load(#[from] LoadError),
    /// The user wants to end.
    #[error("interrupted")]
    Interrupted,
}

impl Trial<'_> {
    /// Builds the laboratory, makes the load and takes everything down again.
    ///
    /// `building` is held while the laboratory is built: the kernel makes namespaces and devices
    /// without letting anybody else run on that processor, so one at a time.
    pub fn run(
        self,
        building: &Mutex<()>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Measured, TrialError> {
        let clock = self.clock;
        let warm_up = self.load.warm_up;
        // What this program, or a server before, has left of the files in memory is nobody's budget.
        site_folder::forget(self.folder)?;
        // Where memory or the disk runs out, the host's limits are what decides what is read again.
        let _nobody_else = (self.limits.memory.is_some() || self.limits.disk.is_some())
            .then(|| SiteCache::follow(self.folder))
            .transpose()?;
        let (mut group, lab) = host(&self.limits, || self.laboratory(building))?;
        let applied = [lab.client.applied.clone(), lab.server.applied.clone()];
        // Whatever the server asks for, its host's queue is no longer than this.
        let mut limits = match self.throttle.backlog {
            Some(connections) => lab.server.namespace.set_listen_backlog(connections)?,
            None => Vec::new(),
        };
        let credentials = self.credentials().map_err(ServerError::from)?;
        let serve = |definition: &Definition,
                     installed: Option<&Installed>,
                     load: &Options,
                     door|
         -> Result<Station, TrialError> {
            let policy = load.policy;
            let credentials = credentials.as_ref().filter(|_| policy.tls);
            let service = Service {
                definition,
                installed,
                root: self.folder,
                throttle: self.throttle,
                access: credentials.map_or(Access::Clear, Access::Tls),
                http3: (policy.protocol == Protocol::Http3).then_some(load.udp_offload),
                door,
            };
            let tls = credentials.map(|credentials| self.client_settings(credentials, policy));
            Ok(Station {
                server: limited::start_service(&service, &lab.server, &group)?,
                name: definition.name.clone(),
                port: service.access.port_at(door),
                tls: tls.transpose().map_err(ServerError::from)?,
            })
        };
        let first = serve(self.definition, self.installed, &self.load, Door::Usual)?;
        let second = match &self.beside {
            None => None,
            Some(beside) => {
                let load = &beside.load;
                let (definition, installed) = (beside.definition, beside.installed);
                Some(serve(definition, installed, load, Door::Beside)?)
            }
        };
        let stations: Vec<&Station> = [Some(&first), second.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let load = &|mut options: Options, station: &Station| {
            options.address = SocketAddr::new(Side::Server.ipv4().into(), station.port);
            options.tls.clone_from(&station.tls);
            lab.client.namespace.run(move || {
                // The loops inherit it: what other programs do is not to be the generator's limit.
                let _ = priority::put_before_others();
                load::run(options, clock, interrupted, &mut |_| {})
            })
        };
        if let Some(warming) = self.warm_cache {
            load(warming, &first)??;
        }
        let alive = || match stations.iter().find_map(|s| s.server.ended(&s.name)) {
            Some(_) if interrupted() => Err(TrialError::Interrupted),
            Some(error) => Err(TrialError::Server(error)),
            None => Ok(()),
        };
        alive()?;
        group.change(&self.limits)?;
        let sampler = Sampler::start(clock, probes(&lab, &group, &stations));
        alive()?;
        let sampler = sampler?;
        let other = second.as_ref().zip(self.beside);
        let (result, beside) = thread::scope(|scope| {
            let other =
                other.map(|(station, beside)| scope.spawn(move || load(beside.load, station)));
            let result = load(self.load, &first);
            let joined = other.map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (result, joined)
        });
        let (result, beside) = (result?, beside.transpose()?);
        let samples = sampler.stop();
        // What it was killed for stands in the group's accounts, but what clients saw of a server
        // that is gone is no measurement of one that is there.
        alive()?;
        for station in &stations {
            limits.extend(group.verify_process(station.server.pid())?);
        }
        drop(stations);
        for station in [Some(first), second].into_iter().flatten() {
            station.server.stop()?;
        }
        limits.extend(group.verify()?);
        let Carried {
            certificate,
            mut validity,
            packets,
        } = lab.end();
        if interrupted() {
            return Err(TrialError::Interrupted);
        }
        let (result, beside) = (result?, beside.transpose()?);
        for reason in &result.validity.reasons {
            validity.invalidate(reason.clone());
        }
        if let Some(beside) = &beside {
            for reason in &beside.validity.reasons {
                validity.invalidate(format!("the load beside: {reason}"));
            }
            let apart = (beside.setup.started - result.setup.started).abs();
            let limit = APART * result.measured.duration.as_secs_f64();
            if apart > limit {
                validity.invalidate(format!(
                    "the two loads began {:.0} ms after each other (limit {:.0} ms)",
                    1e3 * apart,
                    1e3 * limit
                ));
            }
        }
        for limit in limits.iter().filter(|limit| !limit.holds) {
            validity.invalidate(format!(
                "the host's limit {} is {} and should be {}",
                limit.what, limit.got, limit.wanted
            ));
        }
        let origin = clock.realtime_of(Instant::ZERO).as_secs_f64();
        let began = Duration::from_secs_f64((result.setup.started - origin).max(0.0));
        let from = Instant::ZERO + began + warm_up;
        let to = from + result.measured.duration;
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

    /// A certificate for the host, where a load's policy has TLS.
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

    /// Clients that trust the server and resume no session: every connection costs a whole handshake.
    fn client_settings(
        &self,
        credentials: &Credentials,
        policy: Policy,
    ) -> Result<Arc<ClientSettings>, SettingsError> {
        let trust = Verification::Roots(credentials.roots());
        let mut options = ClientOptions::new(trust, self.clock.realtime_of(Instant::ZERO));
        options.alpn = vec![match policy.protocol {
            Protocol::Http1(_) => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
            Protocol::Http3 => b"h3".to_vec(),
        }];
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

/// The path of a trial.
fn wire_options(seed: Seed) -> WireOptions {
    let mut options = WireOptions::new(seed);
    options.server_receives = true;
    options.count_packets = true;
    // Packets come by the ten thousand: waiting awake for each would take a processor.
    options.spin = Duration::ZERO;
    options
}

/// The server's host: its control group, with the limits that hold while it starts, and the laboratory,
/// whose packets for it are received in the group.
fn host(
    limits: &Limits,
    laboratory: impl FnOnce() -> Result<Lab, TrialError>,
) -> Result<(Group, Lab), TrialError> {
    let group = Group::create("server", &while_starting(limits))?;
    // What other programs of this machine do is not to be the host's limit. Where this cannot be
    // had the host waits for them, which its pressure tells.
    let _ = group.put_before_others();
    let lab = laboratory()?;
    if let Some(receiver) = lab.server_receiver() {
        group.add_process(receiver)?;
    }
    Ok((group, lab))
}

/// Builds the host of a trial without particular limits, sends it a datagram and takes it down again. Says
/// what was seen.
///
/// Needs the right to make namespaces.
pub fn rehearse() -> Result<String, TrialError> {
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
        "received {received} bytes, its processor time accounted: {used:.1?}"
    ))
}

/// Any path will do.
const REHEARSED: &str = "name = \"rehearsal\"\nsource = \"none\"\n[both]\npropagation = \"1ms\"";

/// A host's limits while its server starts and its cache is warmed: a tenth of a core would take its
/// time for either. Memory is as little as it will be, for it decides what is in the cache.
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

/// A server at work, and how its clients reach it.
struct Station {
    server: Limited,
    name: String,
    port: u16,
    tls: Option<Arc<ClientSettings>>,
}

/// Congestion windows are those of the first server's connections.
fn probes(lab: &Lab, group: &Group, stations: &[&Station]) -> ProbePlan {
    // A process that waits for the disk may hold what is asked about it: its memory map, or the socket
    // that it writes a file to. Where the disk is slow on purpose the answers would come too seldom to
    // say much.
    let answers_at_once = group.limits().disk.is_none();
    ProbePlan {
        period: PROBE_PERIOD,
        dear_every: 1,
        trees: [SERVER, OTHER]
            .into_iter()
            .zip(stations)
            .map(|(name, station)| (name.to_owned(), station.server.pid()))
            .collect(),
        detail: Detail {
            switches: true,
            proportional: answers_at_once,
        },
        networks: vec![(SERVER.to_owned(), lab.server.namespace.clone())],
        tables: true,
        windows: stations.first().filter(|_| answers_at_once).map(|s| s.port),
        // Without the right to make control groups there is nothing to read.
        groups: group
            .cpu_usage()
            .map(|_| (SERVER.to_owned(), group.usage_probe()))
            .into_iter()
            .collect(),
        ..ProbePlan::default()
    }
}
