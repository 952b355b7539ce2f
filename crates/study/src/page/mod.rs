//! Page studies: a replicate builds a laboratory, retrieves a page or sets of files, counts the packets, and
//! removes the laboratory.
//!
//! `factors` declares what a page study can vary, and `levels` is the meaning of a cell's levels. `site` has the
//! files to retrieve, `path` the path, `serving` the server, and `storage` prepares the server's page cache.
//! `accounts` measures the hosts' CPU time, and `metrics` extracts the metrics.

mod accounts;
mod factors;
mod levels;
mod metrics;
mod path;
mod place;
mod quic;
mod serving;
mod site;
mod storage;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fathometer_http::driver::{Options, PageDriver, Policy, Retrieval, ValidatorCache, Visit};
use fathometer_model::{Instant, ReplicateRecord, Validity};
use fathometer_packets::{Accounting, Integrity};
use fathometer_sys::era::{AppliedSettings, TcpSettings};
use fathometer_sys::machine::CpuTimes;
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, SocketOptions};
use fathometer_tls::{ClientOptions, ClientSettings, Verification};

use self::accounts::{Accounts, Part, Reading};
use self::levels::Levels;
use self::place::Place;
use self::serving::Serving;
use self::site::PageSite;
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared, wire_limits,
};
use crate::factor::AnyFactor;
use crate::run_folder::{WriteError, write_lines};
use crate::spec::{Captures, Cell, Study};
use fathometer_files::key_log::KeyLogFile;
use fathometer_lab::hosts::{Host, Lab, Side};
use fathometer_lab::server::{Access, Credentials};
use fathometer_lab::tap_file::TapFile;
use fathometer_lab::wire::WireOptions;
use fathometer_load::client::{self, ClientSockets, LoopStatistics};

/// A gap on a connection that a delayed acknowledgement ends counts as a stall from this length on. Linux
/// delays by at least 40 ms, BSD by up to 200 ms.
const STALL: Duration = Duration::from_millis(35);

/// Number of sessions that a client keeps for resumption: one per host of a page is enough.
const SESSIONS: usize = 64;

/// Factors that set the server's QUIC over HTTP/3, each with the levels that leave it unchanged.
const QUIC_FACTORS: [(&str, [&str; 2]); 3] = [
    ("congestion", ["", "era"]),
    ("iw", ["", "era"]),
    ("udp_offload", ["", "on"]),
];

/// Time limit of the first retrieval within the server's host.
const BEFOREHAND: Duration = Duration::from_secs(20);

/// The experiment of page studies.
pub static PAGE: PageExperiment = PageExperiment;

/// A replicate is one retrieval of a page, or of sets of files.
pub struct PageExperiment;

impl Experiment for PageExperiment {
    fn name(&self) -> &'static str {
        "page"
    }

    fn meaning(&self) -> &'static str {
        "a replicate is one retrieval of a page, with every packet counted"
    }

    fn factors(&self) -> &'static [&'static dyn AnyFactor] {
        factors::FACTORS
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                TAPS,
                "the packets at both ends of the path, if the study keeps captures",
            ),
            (
                CAPTURE,
                "those at the client's end alone, for other programs",
            ),
            ("exchanges.ndjson", "the exchanges, one per line"),
            ("connections.ndjson", "the connections, one per line"),
            (
                "services.ndjson",
                "policy h3-alt-svc: the events of alternative services",
            ),
            (
                "files.ndjson",
                "workloads of sets: when each file was usable",
            ),
            (
                "processors.ndjson",
                "with `accounts`: the CPU time of both hosts every 100 ms",
            ),
            (
                "keys.log",
                "policies with TLS: the secrets, with which Wireshark decrypts the captures",
            ),
        ]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        let of_block = study.blocks.iter().find(|block| block.load.is_some());
        match (&study.load, of_block) {
            (None, None) => Ok(()),
            _ => {
                Err("it has a table [load], which only a study with kind = \"load\" has".to_owned())
            }
        }
    }

    fn needs<'a>(&self, _: &'a Study, servers: &'a Servers) -> Needs<'a> {
        Box::new(|cell| unsupported_http3(cell, servers))
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let mut servers = preparation.servers.values();
        let on_disk = servers.any(|(_, installed)| installed.is_some());
        let pages = site::load(preparation, on_disk)?;
        Ok(Prepared {
            replicates: Box::new(Retrievals { pages }),
            notes: Vec::new(),
        })
    }
}

/// Why the cell's server does not support HTTP/3, if its policy uses it.
///
/// Over HTTP/3 a page is served by our own origin or by a program that supports HTTP/3. A program has its own
/// QUIC implementation, which cannot be configured here.
fn unsupported_http3(cell: &Cell, servers: &Servers) -> Option<String> {
    let policy = cell.level("policy").parse::<Policy>().ok()?;
    if !policy.protocol.is_over_quic() {
        return None;
    }
    let (definition, _) = servers.get(cell.level("server"))?;
    if definition.program.is_none() {
        let imitates = matches!(
            definition.name.as_str(),
            "embedded-jigsaw" | "embedded-apache"
        );
        return imitates.then(|| format!("{} imitates a server without HTTP/3", definition.name));
    }
    QUIC_FACTORS
        .into_iter()
        .find(|(factor, usual)| !usual.contains(&cell.level(factor)))
        .map(|(factor, _)| {
            let (name, level) = (&definition.name, cell.level(factor));
            format!("{name} has a QUIC of its own, which cannot be given {factor}={level}")
        })
}

/// The replicates of a page study, with the files of all its cells.
struct Retrievals {
    pages: BTreeMap<String, PageSite>,
}

impl Replicates for Retrievals {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let page = self
            .pages
            .get(setup.cell.level("workload"))
            .expect("the pages of all cells were made");
        run(shared, setup, page)
    }
}

fn run(
    shared: &Shared<'_>,
    setup: &Setup<'_>,
    page: &PageSite,
) -> Result<Finished, ReplicateError> {
    let cell = setup.cell;
    let levels = Levels::of(setup, shared, page)?;
    let profile = path::profile(cell, setup.profile)?;
    let limits = shared.study.limits.get(cell.level("path"));
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: the path's random events depend only on the path and the repetition, so that the
    // compared policies meet the same losses.
    let seed = shared
        .seed
        .stream(cell.level("path"))
        .child(u64::from(setup.replicate));
    let capture = setup.folder.join(TAPS);
    let mut options = WireOptions::new(seed);
    options.clock = clock;
    options.capture = Some(capture.clone());
    options.comment = format!("{} replicate {}", cell.key, setup.replicate);
    options.snap_length = shared.study.snap_length;
    let accounts = shared.study.accounts.then(Accounts::default);
    options.server_receives = accounts.is_some();
    options.client_receives = accounts.is_some();
    options.limits = limits.map(wire_limits);
    // With immediate acknowledgements there are none to delay.
    options.client_acks = match levels.quick_ack {
        Some(true) => None,
        _ => setup.era.client_delayed_ack,
    };
    // Busy-waiting makes a path punctual if it has a processor to itself. Beside other cells, or the processes
    // that receive packets for the hosts, it delays them.
    let neighbours = shared.study.side_by_side.get(cell.level("path"));
    if accounts.is_some() || neighbours.is_some_and(|&width| width > 1) {
        options.spin = Duration::ZERO;
    }
    let building = shared
        .building
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // Several replicates may have waited for this lock when the user interrupted the run.
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    let lab = Lab::start(&profile, &options, |side| settings(setup, &levels, side))?;
    let applied = [lab.client.applied.clone(), lab.server.applied.clone()];
    let credentials = credentials(&levels, clock)?;
    let access = credentials.as_ref().map_or(Access::Clear, Access::Tls);
    let place = Place {
        setup,
        levels: &levels,
        host: &lab.server,
        access,
        seed,
        clock,
    };
    let mut sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(levels.demands.nodelay),
            ..setup.era.settings(Side::Client, None).socket
        },
        quick_ack: levels.quick_ack.or(setup.era.client_quick_ack),
        tls: client_tls(&levels, access, setup.folder, clock)?,
        quic: None,
        seed,
    };
    if let Some(tls) = &sockets.tls
        && levels.policy.protocol.is_over_quic()
    {
        sockets.quic = Some(quic::client(&levels, tls)?);
    }
    let returns = levels.visit == Visit::Revalidate;
    let mut serving = Serving::start(
        &place,
        match returns {
            true => &levels.page.first,
            false => levels.site,
        },
    )?;
    let mut cache = ValidatorCache::default();
    if returns || (levels.policy.tls && levels.tls.resumes) {
        let filled = retrieve_beforehand(setup, &levels, &lab.server, &sockets, access, clock)?;
        if returns {
            cache = filled;
        }
        // Restart the server: the measured visit must not include its work for the first visit, and files may
        // have changed since.
        if levels.page.is_sets() {
            serving.stop()?;
            serving = Serving::start(&place, levels.site)?;
        }
    }
    let mut unforgotten = Validity::default();
    if levels.page.is_sets() {
        let files = storage::files(levels.site, &levels.sets, serving.packages_in())?;
        match levels.cold {
            true => storage::chill(&files, &mut unforgotten)?,
            false => storage::warm(&files)?,
        }
    }
    drop(building);
    if let Some(accounts) = &accounts {
        for thread in serving.threads() {
            accounts.open(Side::Server, Part::Program, thread);
        }
        let receivers = [
            (Side::Client, lab.client_receiver()),
            (Side::Server, lab.server_receiver()),
        ];
        for (side, receiver) in receivers {
            if let Some(process) = receiver {
                accounts.open(side, Part::Network, ThreadClock::of_process(process));
            }
        }
    }
    let responses_before = serving.responses();
    let fetched_before = serving.storage_read();
    let cpu_before = CpuTimes::read();
    let deadline =
        clock.now() + Duration::from_secs(limits.map_or(300, |limits| limits.deadline_s));
    let retrieving = Retrieving {
        host: &lab.client,
        levels: &levels,
        sockets: &sockets,
        port: access.port(),
        clock,
        deadline,
    };
    let round_trip = profile.round_trip();
    // The last acknowledgement may still be delayed: 40 ms by the kernel, or one tick.
    let ack_wait = options
        .client_acks
        .map_or(Duration::from_millis(60), |clock| clock.tick);
    let settle = || {
        // Packets of an interrupted retrieval need not be awaited.
        if !(shared.interrupted)() {
            lab.settle(
                round_trip + ack_wait + Duration::from_millis(20),
                Duration::from_secs(15) + round_trip * 4,
            );
        }
    };
    let (retrieval, statistics, readings) = std::thread::scope(|scope| {
        let sampling = accounts
            .as_ref()
            .map(|accounts| scope.spawn(move || accounts.sample(clock)));
        // Dropped on a panic of the retrieval too: the scope waits for the sampling thread, which waits for
        // this.
        let ending = accounts.as_ref().map(Ending);
        let retrieved = retrieving.run(&cache, accounts.as_ref(), shared.interrupted);
        settle();
        drop(ending);
        let readings: Vec<Reading> = match sampling.map(std::thread::ScopedJoinHandle::join) {
            None => Vec::new(),
            Some(Ok(readings)) => readings,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        };
        retrieved.map(|(retrieval, statistics)| (retrieval, statistics, readings))
    })?;
    let cpu_after = CpuTimes::read();
    let served = match (responses_before, serving.responses()) {
        (Some(before), Some(after)) => Some(after - before),
        _ => None,
    };
    let fetched = match (fetched_before, serving.storage_read()) {
        (Some(before), Some(after)) => Some(after - before),
        _ => None,
    };
    let used = accounts.as_ref().map(|accounts| {
        let known = !serving.threads().is_empty();
        [
            (Side::Client, Some(accounts.used(Side::Client))),
            (Side::Server, known.then(|| accounts.used(Side::Server))),
        ]
    });
    let report = serving.stop()?;
    let (certificate, mut validity) = lab.stop();
    metrics::judge_rings(&certificate, &mut validity);
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    // Write these before reading the capture: on a full disk the capture is truncated, and a write error here
    // names the real cause.
    write_lines(&setup.folder.join("exchanges.ndjson"), &retrieval.exchanges)?;
    write_lines(
        &setup.folder.join("connections.ndjson"),
        &retrieval.connections,
    )?;
    if levels.policy.alt_svc {
        write_lines(&setup.folder.join("services.ndjson"), &retrieval.services)?;
    }
    if !retrieval.files.is_empty() && levels.page.is_sets() {
        write_lines(&setup.folder.join("files.ndjson"), &retrieval.files)?;
    }
    if accounts.is_some() {
        write_lines(&setup.folder.join("processors.ndjson"), &readings)?;
    }
    let keeps = shared.study.captures == Captures::All || setup.replicate == 0;
    let client = setup.folder.join(CAPTURE);
    let accounting = account(&capture, keeps.then_some(client.as_path()))?;
    let period = metrics::service_period(&capture, &retrieval, clock)?;
    // Keep a damaged capture for inspection.
    if !keeps && accounting.integrity == Integrity::Whole {
        std::fs::remove_file(&capture).map_err(|error| WriteError {
            path: capture.clone(),
            error,
        })?;
    }
    validity.reasons.extend(unforgotten.reasons);
    metrics::judge(&retrieval, &statistics, &accounting, limits, &mut validity);
    metrics::judge_bundle(levels.policy, &retrieval, &mut validity);
    judge_settings(&levels, &applied, &mut validity);
    let mut metrics = accounting.metrics();
    metrics::add(&mut metrics, &retrieval, served, &report, levels.page);
    metrics::add_responses(&mut metrics, &retrieval, period);
    metrics::add_storage(&mut metrics, &report, fetched);
    metrics::add_datagrams(&mut metrics, &statistics, &report);
    if levels.page.is_sets() {
        metrics::add_usable(&mut metrics, &retrieval);
    }
    for (side, used) in used.into_iter().flatten() {
        if let Some(used) = used {
            metrics::add_processor(&mut metrics, side, used, &readings);
        }
    }
    metrics.insert(
        "stalls".to_owned(),
        metrics::stalls(&accounting, &retrieval, clock, round_trip) as f64,
    );
    metrics.insert(
        "client_busy_max_ms".to_owned(),
        statistics.busy_max.as_secs_f64() * 1e3,
    );
    if let (Some(before), Some(after)) = (cpu_before, cpu_after) {
        metrics.insert(
            "steal_pct".to_owned(),
            100.0 * after.since(before).steal_share(),
        );
    }
    Ok(Finished {
        record: ReplicateRecord {
            block: cell.block.clone(),
            cell: cell.key.clone(),
            replicate: setup.replicate,
            seed: seed.0,
            order: setup.order,
            started,
            metrics,
            path: certificate,
            validity,
            folder: setup.folder_name.clone(),
        },
        applied,
    })
}

/// Stops the CPU sampling when dropped.
struct Ending<'a>(&'a Accounts);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The TCP settings of a host: the era's, with the changes of the cell.
fn settings(setup: &Setup<'_>, levels: &Levels<'_>, side: Side) -> TcpSettings {
    let mut settings = setup.era.settings(side, levels.initial_window);
    if let Some(algorithm) = &levels.congestion {
        settings.route.congestion_control = Some(algorithm.clone());
    }
    settings
}

/// Invalidates a cell about congestion control if the kernel did not accept the algorithm.
fn judge_settings(levels: &Levels<'_>, applied: &[AppliedSettings; 2], validity: &mut Validity) {
    let Some(wanted) = &levels.congestion else {
        return;
    };
    let refused = applied
        .iter()
        .flat_map(AppliedSettings::impossible)
        .find(|setting| setting.wanted == *wanted);
    if let Some(setting) = refused {
        validity.invalidate(setting.to_string());
    }
}

/// The server's certificate and key, if the policy uses TLS. They cover the study's host and the host names
/// over which a policy distributes its files.
fn credentials(levels: &Levels<'_>, clock: Clock) -> Result<Option<Credentials>, ReplicateError> {
    if !levels.policy.tls {
        return Ok(None);
    }
    let names = levels.options.host_names(&levels.policy);
    let wall_clock = clock.realtime_of(Instant::ZERO);
    let credentials = Credentials::make(&names, wall_clock)?;
    Ok(Some(match levels.tls.early_data {
        true => credentials.with_early_data(),
        false => credentials,
    }))
}

/// The client's TLS settings. The client trusts only the certificate authority of this server.
fn client_tls(
    levels: &Levels<'_>,
    access: Access<'_>,
    folder: &Path,
    clock: Clock,
) -> Result<Option<Arc<ClientSettings>>, ReplicateError> {
    let Some(credentials) = access.credentials() else {
        return Ok(None);
    };
    // Beside the capture, so that Wireshark can decrypt it.
    let path = folder.join("keys.log");
    let key_log = KeyLogFile::open(&path).map_err(|error| WriteError { path, error })?;
    let trusted = Verification::Roots(credentials.roots());
    let mut options = ClientOptions::new(trusted, clock.realtime_of(Instant::ZERO));
    options.versions = vec![levels.tls.version];
    options.alpn = vec![levels.policy.first_protocol().alpn().as_bytes().to_vec()];
    options.resumption = levels.tls.resumes.then_some(SESSIONS);
    options.early_data = levels.tls.early_data;
    options.key_log = Some(key_log);
    Ok(Some(ClientSettings::new(options)?))
}

/// Fills a cache and a session store by a first retrieval inside the server's host, without the path.
fn retrieve_beforehand(
    setup: &Setup<'_>,
    levels: &Levels<'_>,
    host: &Host,
    sockets: &ClientSockets,
    access: Access<'_>,
    clock: Clock,
) -> Result<ValidatorCache, ReplicateError> {
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(true),
            ..SocketOptions::default()
        },
        quick_ack: None,
        ..sockets.clone()
    };
    let retrieving = Retrieving {
        host,
        levels: &levels.plain(),
        sockets: &sockets,
        port: access.port(),
        clock,
        deadline: clock.now() + BEFOREHAND,
    };
    let (retrieval, statistics) = retrieving.run(&ValidatorCache::default(), None, &|| false)?;
    if !retrieval.failures.is_empty() || retrieval.milestones.page_complete.is_none() {
        let count = retrieval.failures.len();
        let tls = statistics.tls_failure.map(|failure| format!(": {failure}"));
        return Err(ReplicateError::Beforehand {
            server: setup.definition.name.clone(),
            reason: format!("{count} files failed{}", tls.unwrap_or_default()),
        });
    }
    Ok(retrieval.cache)
}

/// The parameters of a retrieval.
struct Retrieving<'a> {
    host: &'a Host,
    levels: &'a Levels<'a>,
    sockets: &'a ClientSockets,
    port: u16,
    clock: Clock,
    deadline: Instant,
}

impl Retrieving<'_> {
    /// Retrieves the page, or one set after another, each over new connections.
    fn run(
        &self,
        cache: &ValidatorCache,
        accounts: Option<&Accounts>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Retrieval, LoopStatistics), ReplicateError> {
        let server = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), self.port);
        let (levels, clock) = (self.levels, self.clock);
        let lists: Vec<_> = match levels.sets.as_slice() {
            [] => vec![None],
            sets => sets.iter().cloned().map(Some).collect(),
        };
        let visits: Vec<(Options, ValidatorCache)> = lists
            .into_iter()
            .map(|list| {
                let options = Options {
                    list,
                    ..levels.options.clone()
                };
                (options, cache.clone())
            })
            .collect();
        let driven = self.host.namespace.run(|| {
            if let Some(accounts) = accounts {
                accounts.open(Side::Client, Part::Program, ThreadClock::current());
            }
            let mut all: Option<(Retrieval, LoopStatistics)> = None;
            for (options, cache) in visits {
                let mut driver = PageDriver::new(
                    levels.policy,
                    options,
                    levels.visit,
                    levels.page.base.clone(),
                    cache,
                    clock.now(),
                );
                let statistics = client::drive(
                    &mut driver,
                    server,
                    self.sockets,
                    clock,
                    self.deadline,
                    &|| interrupted(),
                )?;
                let ended = statistics.timed_out || interrupted();
                let retrieval = driver.finish(clock.now());
                all = Some(match all {
                    None => (retrieval, statistics),
                    Some((before, so_far)) => {
                        (followed_by(before, retrieval), so_far.and(statistics))
                    }
                });
                if ended {
                    break;
                }
            }
            if let Some(accounts) = accounts {
                accounts.close_current();
            }
            Ok::<_, client::ClientError>(all)
        })?;
        Ok(driven?.expect("there is one visit at least"))
    }
}

/// Merges two consecutive retrievals. Figures that exist only for a page are those of the first.
fn followed_by(mut first: Retrieval, second: Retrieval) -> Retrieval {
    let connections = first.connections.len() as u32;
    let exchanges = first.exchanges.len() as u32;
    first
        .exchanges
        .extend(second.exchanges.into_iter().map(|mut exchange| {
            exchange.exchange += exchanges;
            exchange.connection += connections;
            exchange
        }));
    first
        .connections
        .extend(second.connections.into_iter().map(|mut connection| {
            connection.connection += connections;
            connection
        }));
    first.files.extend(second.files);
    first.failures.extend(second.failures);
    first
        .services
        .extend(second.services.into_iter().map(|mut service| {
            service.connection = service.connection.map(|number| number + connections);
            service
        }));
    first.milestones.page_complete = second.milestones.page_complete;
    first.bytes.received += second.bytes.received;
    first.counters.requests_retried += second.counters.requests_retried;
    first
}

/// The capture with the packets of all taps, for the accounting.
const TAPS: &str = "taps.pcapng";
/// The capture of the client's tap alone, for other programs: they would count a packet that passes two taps
/// twice.
const CAPTURE: &str = "capture.pcapng";

/// Accounts for the packets of all taps, and writes those of the client's tap to `client` if given.
fn account(taps: &Path, client: Option<&Path>) -> Result<Accounting, ReplicateError> {
    let options = fathometer_packets::Options {
        idle_threshold: STALL,
        ..fathometer_packets::Options::default()
    };
    let written = |error| {
        let path = client.unwrap_or(taps).to_owned();
        WriteError { path, error }
    };
    let failed = |error| ReplicateError::Capture {
        path: taps.display().to_string(),
        error,
    };
    let file = File::open(taps)
        .map_err(|source| failed(fathometer_packets::CaptureError::Io { offset: 0, source }))?;
    let begin = |client| TapFile::create(client, options.taps.clone());
    let mut extracted = client.map(begin).transpose().map_err(written)?;
    let each = |record: &fathometer_packets::capture::Record<'_>| {
        if let Some(file) = &mut extracted {
            file.packet(record);
        }
    };
    let (accounting, _) = fathometer_packets::account_each(file, &options, each).map_err(failed)?;
    if let Some(file) = extracted {
        file.finish().map_err(written)?;
    }
    Ok(accounting)
}
