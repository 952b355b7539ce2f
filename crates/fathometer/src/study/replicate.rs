//! One replicate: a laboratory is built, a page is retrieved, the packets are counted, and the
//! laboratory is taken down.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathometer_analysis::packets::{self, Accounting, Class, Direction, Integrity};
use fathometer_http::driver::{
    Flush, Options, PageDriver, Policy, Retrieval, Revalidation, ValidatorCache, Visit,
};
use fathometer_model::{
    Bytes, CloseReason, ContentCoding, Instant, Outcome, ReplicateRecord, Seed, Site, Validity,
};
use fathometer_path::Profile;
use fathometer_sys::era::AppliedSettings;
use fathometer_sys::machine::CpuTimes;
use fathometer_sys::{Clock, SocketOptions};

use super::load::LoadSite;
use super::spec::{Cell, Kind, Limits, Study};
use crate::client::{self, ClientSockets, LoopStatistics};
use crate::era::Era;
use crate::lab::{Host, Lab, Side};
use crate::load::LoadError;
use crate::run_folder::{WriteError, write_lines};
use crate::server::definition::Definition;
use crate::server::{self, Content, Demands, Installed, PORT, ServerError, ServerReport};
use crate::site_folder::SiteFolderError;
use crate::trial::TrialError;
use crate::wire::{self, WireOptions};

/// The page that studies retrieve, by its workload.
pub const PAGE: &str = "/microscape.html";

/// A gap on a connection that a delayed acknowledgement ends is a stall from here on: Linux delays
/// by 40 ms at least, BSD by up to 200 ms.
const STALL: Duration = Duration::from_millis(35);

/// Everything that the replicates of a run share.
pub struct Shared<'a> {
    /// The study.
    pub study: &'a Study,
    /// What is served.
    pub site: Arc<Site>,
    /// The same on disk, for programs.
    pub site_folder: &'a Path,
    /// The workloads of a load study by name.
    pub sites: &'a BTreeMap<String, LoadSite>,
    /// How much of the study is run: `quick` or `full`.
    pub mode: &'a str,
    /// The seed of the run.
    pub seed: Seed,
    /// Whether the user wants to end.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
    /// Held while a laboratory is built: the kernel makes namespaces and devices without letting
    /// anybody else run on that processor, so one at a time.
    pub building: Mutex<()>,
}

/// What one replicate is run with.
pub struct Setup<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Which repetition.
    pub replicate: u32,
    /// Place in the order of execution.
    pub order: u32,
    /// The path.
    pub profile: &'a Profile,
    /// The TCP of both hosts.
    pub era: &'a Era,
    /// The server.
    pub definition: &'a Definition,
    /// The server's program, where it is one.
    pub installed: Option<&'a Installed>,
    /// Its folder, made already.
    pub folder: &'a Path,
    /// The same relative to the run's folder.
    pub folder_name: String,
}

/// What a replicate gave.
pub struct Finished {
    /// Its line in the run.
    pub record: ReplicateRecord,
    /// What became of the era's settings at the client and at the server.
    pub applied: [AppliedSettings; 2],
}

/// Why a replicate could not be made at all. A bad measurement is not an error: it is recorded,
/// with the reason why it is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ReplicateError {
    /// The laboratory.
    #[error("failed to build the laboratory: {0}")]
    Lab(#[from] fathometer_sys::Error),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client.
    #[error(transparent)]
    Client(#[from] client::ClientError),
    /// The site's folder.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The load engine.
    #[error("failed to make the load: {0}")]
    Load(#[from] LoadError),
    /// A file of the run.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The capture.
    #[error("failed to account for {path}: {error}")]
    Capture {
        /// The capture file.
        path: String,
        /// What is wrong with it.
        error: packets::CaptureError,
    },
    /// A level that no part of the program knows.
    #[error("the study asks for {factor}={level}: {reason}")]
    Level {
        /// The factor.
        factor: &'static str,
        /// Its level.
        level: String,
        /// What would be understood.
        reason: String,
    },
    /// The cache could not be filled for a revisit.
    #[error("failed to fill the cache from {server}: {reason}")]
    Warming {
        /// The server.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// The user wants to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<TrialError> for ReplicateError {
    fn from(error: TrialError) -> ReplicateError {
        match error {
            TrialError::Lab(error) => error.into(),
            TrialError::Server(error) => error.into(),
            TrialError::Site(error) => error.into(),
            TrialError::Load(error) => error.into(),
            TrialError::Interrupted => ReplicateError::Interrupted,
        }
    }
}

/// Makes one replicate.
pub fn run(shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
    match shared.study.kind {
        Kind::Page => retrieve_page(shared, setup),
        Kind::Load => super::load::run(shared, setup),
    }
}

fn retrieve_page(shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
    let cell = setup.cell;
    let levels = Levels::of(setup, shared)?;
    let limits = shared.study.limits.get(cell.level("path"));
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: the path's decisions depend on the path and the repetition alone, so
    // that the policies compared meet the same losses.
    let seed = shared
        .seed
        .stream(cell.level("path"))
        .child(u64::from(setup.replicate));
    let capture = setup.folder.join("capture.pcapng");
    let mut options = WireOptions::new(seed);
    options.clock = clock;
    options.capture = Some(capture.clone());
    options.comment = format!("{} replicate {}", cell.key, setup.replicate);
    options.limits = limits.map(wire_limits);
    // A cell that asks for acknowledgements at once has none that could be delayed.
    options.client_acks = match levels.quick_ack {
        Some(true) => None,
        _ => setup.era.client_delayed_ack,
    };
    // Spinning makes a path punctual while it has a processor to itself; beside others it makes them
    // late.
    let neighbours = shared.study.side_by_side.get(cell.level("path"));
    if neighbours.is_some_and(|&width| width > 1) {
        options.spin = Duration::ZERO;
    }
    let building = shared
        .building
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // Many may have waited here when the user wanted to end.
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    let lab = Lab::start(setup.profile, &options, |side| {
        setup.era.settings(side, levels.initial_window)
    })?;
    let applied = [lab.client.applied.clone(), lab.server.applied.clone()];
    let content = Content {
        site: &shared.site,
        folder: shared.site_folder,
    };
    let running = server::start(
        setup.definition,
        setup.installed,
        &lab.server,
        content,
        levels.demands,
        clock,
    )?;
    let cache = match levels.visit {
        Visit::First => ValidatorCache::default(),
        Visit::Revalidate => warm_cache(setup, &levels, &lab.server, clock)?,
    };
    drop(building);
    let responses_before = running.responses();
    let cpu_before = CpuTimes::read();
    let deadline =
        clock.now() + Duration::from_secs(limits.map_or(300, |limits| limits.deadline_s));
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(levels.demands.nodelay),
            ..setup.era.settings(Side::Client, None).socket
        },
        quick_ack: levels.quick_ack.or(setup.era.client_quick_ack),
    };
    let (retrieval, loop_statistics) = retrieve(
        &lab.client,
        &levels,
        levels.visit,
        cache,
        &sockets,
        clock,
        deadline,
        shared.interrupted,
    )?;
    let round_trip = setup.profile.round_trip();
    // The last acknowledgement may still wait for its time: the kernel's 40 ms, or a tick.
    let ack_wait = options
        .client_acks
        .map_or(Duration::from_millis(60), |clock| clock.tick);
    // Of a page that was broken off, nothing is worth waiting for.
    if !(shared.interrupted)() {
        lab.settle(
            round_trip + ack_wait + Duration::from_millis(20),
            Duration::from_secs(15) + round_trip * 4,
        );
    }
    let cpu_after = CpuTimes::read();
    let served = match (responses_before, running.responses()) {
        (Some(before), Some(after)) => Some(after - before),
        _ => None,
    };
    let report = running.stop()?;
    let (certificate, mut validity) = lab.stop();
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    // Before the capture is looked at: on a full disk that is torn, and what is wrong is not the
    // capture.
    write_lines(&setup.folder.join("exchanges.ndjson"), &retrieval.exchanges)?;
    write_lines(
        &setup.folder.join("connections.ndjson"),
        &retrieval.connections,
    )?;
    let accounting = account(&capture)?;
    judge(
        &retrieval,
        &loop_statistics,
        &accounting,
        limits,
        &mut validity,
    );
    let mut metrics = accounting.metrics();
    add_metrics(&mut metrics, &retrieval, served, &report, &shared.site);
    metrics.insert(
        "stalls".to_owned(),
        stalls(&accounting, &retrieval, clock, round_trip) as f64,
    );
    metrics.insert(
        "client_busy_max_ms".to_owned(),
        loop_statistics.busy_max.as_secs_f64() * 1e3,
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

/// A cell's levels, understood.
struct Levels {
    policy: Policy,
    options: Options,
    visit: Visit,
    demands: Demands,
    initial_window: Option<u32>,
    quick_ack: Option<bool>,
}

impl Levels {
    fn of(setup: &Setup<'_>, shared: &Shared<'_>) -> Result<Levels, ReplicateError> {
        let cell = setup.cell;
        let quick_ack = setup.era.server_quick_ack;
        let policy: Policy = parsed(cell, "policy")?;
        let mut flush: Flush = parsed(cell, "flush")?;
        flush.buffer = Bytes(parsed(cell, "buffer")?);
        let visit = one_of(
            cell,
            "visit",
            &[("first", Visit::First), ("revalidate", Visit::Revalidate)],
        )?;
        let old = policy.to_string().starts_with("h1.0");
        let head = one_of(cell, "method", &[("head", true), ("conditional", false)])?;
        let client = &shared.study.client;
        let options = Options {
            host: client.host.clone(),
            flush,
            // HTTP/1.0 knows dates alone; only the paper's HTTP/1.0 client has no cache.
            revalidation: match (old, head) {
                (true, true) => Revalidation::Head,
                (true, false) => Revalidation::Date,
                (false, _) => Revalidation::EntityTag,
            },
            accept_encoding: one_of(
                cell,
                "coding",
                &[
                    ("identity", vec![]),
                    ("deflate", vec![ContentCoding::Deflate]),
                ],
            )?,
            headers: client
                .fields
                .iter()
                .map(|[name, value]| (name.clone(), value.clone()))
                .collect(),
            first_range: Bytes(client.first_range),
            ..Options::default()
        };
        let limit = cell.level("limit");
        // Of this time's machines nobody has to be slowed down.
        let period_pace = one_of(cell, "pace", &[("period", true), ("none", false)])?
            && cell.level("era") != "today";
        let (service_time, connection_time) = match &setup.definition.embedded {
            Some(embedded) if period_pace => embedded.pace(cell.level("path")),
            _ => Default::default(),
        };
        let iw = cell.level("iw");
        Ok(Levels {
            policy,
            options,
            visit,
            demands: Demands {
                max_requests: if limit == "none" {
                    None
                } else {
                    Some(parsed(cell, "limit")?)
                },
                careless_close: one_of(cell, "close", &[("half", false), ("full", true)])?,
                nodelay: one_of(cell, "nodelay", &[("on", true), ("off", false)])?,
                quick_ack,
                service_time,
                connection_time,
            },
            initial_window: if iw == "era" {
                None
            } else {
                Some(parsed(cell, "iw")?)
            },
            quick_ack: one_of(cell, "quickack", &[("on", Some(true)), ("off", None)])?,
        })
    }
}

pub(super) fn parsed<T>(cell: &Cell, factor: &'static str) -> Result<T, ReplicateError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let level = cell.level(factor);
    level
        .parse()
        .map_err(|error: T::Err| ReplicateError::Level {
            factor,
            level: level.to_owned(),
            reason: error.to_string(),
        })
}

pub(super) fn one_of<T: Clone>(
    cell: &Cell,
    factor: &'static str,
    known: &[(&str, T)],
) -> Result<T, ReplicateError> {
    let level = cell.level(factor);
    known
        .iter()
        .find(|(name, _)| *name == level)
        .map(|(_, value)| value.clone())
        .ok_or_else(|| ReplicateError::Level {
            factor,
            level: level.to_owned(),
            reason: format!(
                "it can be {}",
                known
                    .iter()
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
        })
}

pub(super) fn wire_limits(limits: &Limits) -> wire::Limits {
    wire::Limits {
        p99: Duration::from_micros(limits.lateness_p99_us),
        maximum: Duration::from_micros(limits.lateness_max_us),
    }
}

/// Fills a cache by a first retrieval inside the server's host, which the path does not see.
fn warm_cache(
    setup: &Setup<'_>,
    levels: &Levels,
    host: &Host,
    clock: Clock,
) -> Result<ValidatorCache, ReplicateError> {
    let plain = Levels {
        policy: Policy {
            pipeline: None,
            ranges: false,
            connections: 1,
            ..levels.policy
        },
        options: levels.options.clone(),
        visit: Visit::First,
        demands: levels.demands,
        initial_window: None,
        quick_ack: None,
    };
    let deadline = clock.now() + Duration::from_secs(20);
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(true),
            ..SocketOptions::default()
        },
        quick_ack: None,
    };
    let (retrieval, _) = retrieve(
        host,
        &plain,
        Visit::First,
        ValidatorCache::default(),
        &sockets,
        clock,
        deadline,
        &|| false,
    )?;
    if !retrieval.failures.is_empty() || retrieval.milestones.page_complete.is_none() {
        return Err(ReplicateError::Warming {
            server: setup.definition.name.clone(),
            reason: format!("{} files could not be had", retrieval.failures.len()),
        });
    }
    Ok(retrieval.cache)
}

#[allow(clippy::too_many_arguments)] // One call each from two places; a struct would only rename them.
fn retrieve(
    host: &Host,
    levels: &Levels,
    visit: Visit,
    cache: ValidatorCache,
    sockets: &ClientSockets,
    clock: Clock,
    deadline: Instant,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<(Retrieval, LoopStatistics), ReplicateError> {
    let server = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), PORT);
    let driven = host.namespace.run(|| {
        let mut driver = PageDriver::new(
            levels.policy,
            levels.options.clone(),
            visit,
            PAGE.to_owned(),
            cache,
            clock.now(),
        );
        let statistics = client::drive(&mut driver, server, sockets, clock, deadline, &|| {
            interrupted()
        })?;
        Ok::<_, client::ClientError>((driver.finish(clock.now()), statistics))
    })?;
    Ok(driven?)
}

fn account(capture: &Path) -> Result<Accounting, ReplicateError> {
    let options = packets::Options {
        idle_threshold: STALL,
        ..packets::Options::default()
    };
    packets::account_file(capture, &options).map_err(|error| ReplicateError::Capture {
        path: capture.display().to_string(),
        error,
    })
}

/// What speaks against a replicate besides the path.
fn judge(
    retrieval: &Retrieval,
    statistics: &LoopStatistics,
    accounting: &Accounting,
    limits: Option<&Limits>,
    validity: &mut Validity,
) {
    if statistics.timed_out {
        validity.invalidate(format!(
            "the page was not complete within {} s",
            limits.map_or(300, |limits| limits.deadline_s)
        ));
    }
    if let Some((target, failure)) = retrieval.failures.first() {
        validity.invalidate(format!(
            "{} files could not be had, the first {target}: {failure:?}",
            retrieval.failures.len()
        ));
    }
    let refused = retrieval
        .exchanges
        .iter()
        .find(|exchange| exchange.status.is_some_and(|status| status >= 400));
    if let Some(exchange) = refused {
        validity.invalidate(format!(
            "{} was answered with {}",
            exchange.target,
            exchange.status.unwrap_or_default()
        ));
    }
    let limit = limits.map_or(Duration::from_millis(50), |limits| {
        Duration::from_micros(limits.lateness_max_us)
    });
    if statistics.busy_max > limit {
        validity.invalidate(format!(
            "the client was busy for {:.1?} at a stretch (limit {limit:.1?})",
            statistics.busy_max
        ));
    }
    if accounting.integrity != Integrity::Whole {
        validity.invalidate(format!(
            "the capture is not whole: {}",
            accounting.integrity
        ));
    }
}

fn add_metrics(
    metrics: &mut BTreeMap<String, f64>,
    retrieval: &Retrieval,
    served: Option<u64>,
    report: &ServerReport,
    site: &Site,
) {
    let mut put = |name: &str, value: f64| {
        metrics.insert(name.to_owned(), value);
    };
    let milestones = &retrieval.milestones;
    let start = retrieval
        .connections
        .first()
        .map(|connection| connection.opened);
    let since = |from: Option<Instant>, to: Option<Instant>| -> Option<f64> {
        Some(to?.since(from?).as_secs_f64())
    };
    let times = [
        ("elapsed_s", since(start, milestones.page_complete)),
        ("html_s", since(start, milestones.base_complete)),
        ("sizes_known_s", since(start, milestones.sizes_known)),
        (
            "second_batch_s",
            since(milestones.base_first_byte, milestones.second_batch_sent),
        ),
    ];
    for (name, value) in times {
        if let Some(value) = value {
            put(name, value);
        }
    }
    let exchanges = &retrieval.exchanges;
    let complete: Vec<_> = exchanges
        .iter()
        .filter(|exchange| exchange.outcome == Outcome::Complete)
        .collect();
    put("exchanges", complete.len() as f64);
    put(
        "not_modified",
        complete.iter().filter(|e| e.status == Some(304)).count() as f64,
    );
    if !complete.is_empty() {
        let mean = |bytes: fn(&fathometer_model::ExchangeRecord) -> Bytes| {
            complete.iter().map(|e| bytes(e).as_f64()).sum::<f64>() / complete.len() as f64
        };
        put(
            "request_mean_bytes",
            mean(|e| e.request_head + e.request_body),
        );
        put("response_head_mean_bytes", mean(|e| e.response_head));
    }
    if let Some(base) = complete
        .iter()
        .find(|e| e.target == PAGE && e.status == Some(200))
    {
        put("html_bytes_coded", base.response_body.as_f64());
    }
    if let Some(base) = site.files.iter().find(|file| file.path == PAGE) {
        put("html_bytes", base.body.len().as_f64());
    }
    put(
        "requests_retried",
        f64::from(retrieval.counters.requests_retried),
    );
    put("flushes", f64::from(retrieval.counters.flushes()));
    put("flushes_timer", f64::from(retrieval.counters.flushes_timer));
    // What the server gave to its kernel and the client never had whole.
    if let Some(served) = served {
        put(
            "responses_lost",
            served.saturating_sub(complete.len() as u64) as f64,
        );
    }
    let failed = retrieval
        .connections
        .iter()
        .filter(|connection| matches!(connection.close, CloseReason::Failed(_)))
        .count();
    put("connections_failed", failed as f64);
    if let Some(cpu) = report.program_cpu {
        put("server_cpu_s", cpu.as_secs_f64());
    }
}

/// Gaps before the page was complete that a delayed acknowledgement ended: the client's own shows at
/// once, the server's a round trip later.
fn stalls(
    accounting: &Accounting,
    retrieval: &Retrieval,
    clock: Clock,
    round_trip: Duration,
) -> usize {
    let Some(complete) = retrieval.milestones.page_complete else {
        return 0;
    };
    // A capture tells wall-clock time.
    let complete = clock.realtime_of(complete);
    accounting
        .idle_gaps
        .iter()
        .filter(|gap| gap.ended_by.class == Class::PureAck && !gap.ended_by.retransmission)
        .filter(|gap| {
            let shortest = match gap.ended_by.direction {
                Direction::Up => STALL,
                Direction::Down => STALL + round_trip,
            };
            let length = Duration::from_nanos(gap.duration_ns);
            let end = Duration::from_nanos(gap.start.as_nanos()) + length;
            length >= shortest && end <= complete
        })
        .count()
}
