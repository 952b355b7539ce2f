//! `fathometer serve`: runs the origin server on a real address.

mod dictionaries;
mod http3;
mod negotiation;
mod packages;
mod protocols;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fathometer_http::h1::server::ServerConfig;
use fathometer_http::origin::dynamic::Dynamic;
use fathometer_http::origin::negotiation::Negotiation;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_sys::{Clock, HangUps, Interrupt, machine, sched};
use fathometer_workload::microscape::Variant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::dictionaries::Contents;
use self::http3::Http3;
use self::negotiation::NegotiationArguments;
use self::packages::PackageArguments;
use self::protocols::ProtocolArguments;
use super::Failure;
use super::arguments::{some_time, time};
use fathometer_lab::server::definition::{Definition, Embedded};
use fathometer_lab::server::{self, Demands};
use fathometer_load::workload::SEED;
use fathometer_origin::folder::{Bounds, FolderStore};
use fathometer_origin::{
    ConnectionLimit, LogFile, LogFormat, OriginSockets, OriginStatistics, Service, ServiceError,
    ServiceOptions,
};
use fathometer_sys::stderr::say;

/// Memory for caching small files of a folder, shared by all event loops.
const CACHE: Bytes = Bytes(256 * 1024 * 1024);
/// Open descriptors of large files, shared by all event loops.
const DESCRIPTORS: usize = 2048;
/// Descriptors that are neither connections nor files of the folder: standard streams, polls, listeners, the
/// log.
const OTHER_DESCRIPTORS: usize = 8;
/// Further descriptors of each event loop, besides its connections, files and listening sockets.
const LOOP_DESCRIPTORS: usize = 5;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Folder to serve; files are looked up on each request
    #[arg(required_unless_present = "site", conflicts_with = "site")]
    folder: Option<PathBuf>,
    /// Workload whose site is served from memory, instead of a folder: microscape
    #[arg(long)]
    site: Option<String>,
    /// Seed of that site's content
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Address and port to listen on; may be given several times; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: Vec<SocketAddr>,
    /// Number of event-loop threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Pin each event loop to its own processor
    #[arg(long)]
    pin: bool,
    /// Write an access log to a file, or to standard output (-), one line per response; SIGHUP reopens the
    /// file, as logrotate expects
    #[arg(long, value_name = "FILE|-")]
    log: Option<PathBuf>,
    /// Format of the access log: common; combined, which adds Referer and User-Agent; or tls, which adds the
    /// TLS version, the cipher suite and how the session started
    #[arg(long, default_value = "common", value_name = "FORMAT")]
    log_format: LogFormat,
    /// On SIGINT or SIGTERM, longest time to wait for responses in flight (500ms, 10s, 2m)
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = time)]
    drain: Duration,
    /// Server persona to imitate: embedded, embedded-jigsaw or embedded-apache
    #[arg(long = "as", default_value = "embedded", value_name = "SERVER")]
    persona: String,
    /// Close a connection after N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: Option<u32>,
    /// Close a connection that is idle for this time after a response [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    keep_alive: Option<Duration>,
    /// Close both directions of a connection at once, instead of the sending direction first (lingering close)
    #[arg(long)]
    careless_close: bool,
    /// Leave Nagle's algorithm enabled (do not set TCP_NODELAY)
    #[arg(long)]
    nagle: bool,
    /// Listen backlog: connections that may wait to be accepted, up to the kernel's limit [default: 4096]
    #[arg(long, value_name = "N")]
    backlog: Option<u32>,
    /// Serve at most N connections at a time, over all event loops and protocols. Further connections wait in the
    /// backlog, or are refused over HTTP/3; to accept them, the server closes connections on which it has waited 2 s
    /// for the client
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
    /// Serve at most N connections at a time, over all event loops and protocols; reset further connections, or
    /// refuse them over HTTP/3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    shed_above: Option<u32>,
    /// Generate the content at PATH for each request, in parts and without a Content-Length, as a dynamic page:
    /// PATH[,parts=N][,size=BYTES][,every=TIME][,first=TIME][,type=TYPE], as in
    /// /feed.txt,parts=10,size=1k,every=200ms. Without size (bytes per part), the content is the file at PATH,
    /// split into parts of equal size. May be given several times
    #[arg(long, value_name = "PATH,…")]
    dynamic: Vec<Dynamic>,
    #[command(flatten)]
    negotiation: NegotiationArguments,
    #[command(flatten)]
    packages: PackageArguments,
    #[command(flatten)]
    protocols: ProtocolArguments,
}

/// Serves until SIGINT or SIGTERM, then completes the responses in flight. A second signal ends the program at once.
/// SIGHUP has the same effect, but if the log is a file, SIGHUP reopens that file instead.
pub fn run(arguments: &ServeArguments) -> Result<ExitCode, Failure> {
    let definition = Definition::load(&arguments.persona)?;
    let Some(embedded) = &definition.embedded else {
        return Err(format!(
            "{} is a separate program, not a persona of this origin: see `fathometer list`",
            definition.name
        )
        .into());
    };
    let demands = Demands {
        max_requests: arguments.max_requests,
        careless_close: arguments.careless_close,
        nodelay: !arguments.nagle,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let threads = match arguments.threads {
        Some(threads) => usize::from(threads),
        None => sched::processors()?.len(),
    };
    let interrupt = Interrupt::install()?;
    let clock = Clock::start();
    let addresses = arguments.protocols.addresses(&arguments.listen)?;
    let sockets = arguments.protocols.sockets(addresses.len());
    let share = Share::of(machine::raise_open_files(), threads, sockets);
    arguments
        .negotiation
        .check(arguments.protocols.is_tls(), &addresses)?;
    let (what, origins, negotiation) = origins(
        arguments,
        (&definition.name, embedded),
        share,
        &addresses,
        clock,
    )?;
    let log = match &arguments.log {
        None => None,
        Some(path) => {
            let log = LogFile::open(path, arguments.log_format)
                .map_err(|error| format!("failed to open the log {}: {error}", path.display()))?;
            Some(Arc::new(log))
        }
    };
    let rotation = Rotation::of(log.as_ref())?;
    let mut config = ServerConfig {
        request_text: log.is_some(),
        ..server::embedded_config(embedded, demands)
    };
    if let Some(time) = arguments.keep_alive {
        config.limits.keep_alive = time;
    }
    let served = arguments.protocols.setup(&config, &addresses, clock)?;
    let asked = arguments.max_connections.map(|most| most as usize);
    let most_open = share.connections.min(asked.unwrap_or(usize::MAX));
    let shed_above = arguments.shed_above.map(|most| most as usize);
    // Without these options, the loops share no counter.
    let limit = (asked.is_some() || shed_above.is_some())
        .then(|| Arc::new(ConnectionLimit::new(most_open, shed_above)));
    let options = ServiceOptions {
        addresses,
        sockets: OriginSockets {
            nodelay: demands.nodelay,
            quick_ack: None,
            backlog: arguments.backlog,
        },
        pinned: arguments.pin,
        most_open,
        limit,
        log,
    };
    let service = Service::start(&options, origins.clone(), &served.protocols, clock)
        .map_err(start_failure)?;
    let http3 = match &served.protocols.tls {
        Some(tls) if served.http3 => {
            let offload = arguments.protocols.udp_offload;
            Http3::start(&options, origins, tls, &config, offload, clock)?
        }
        _ => Http3::none(),
    };
    for address in service.addresses() {
        let line = format_args!("serving {what} on {}://{address}/", served.scheme);
        if let Err(error) = writeln!(std::io::stdout(), "{line}") {
            say(format_args!(
                "failed to write to standard output: {error}; {line}"
            ));
        }
    }
    for line in &served.notes {
        say(format_args!("{line}"));
    }
    say(format_args!(
        "{threads} event loops, at most {most_open} connections; stop with Ctrl-C or SIGTERM"
    ));
    wait(interrupt, rotation.as_ref(), || {
        service.has_ended() || http3.has_ended()
    })?;
    service.drain(arguments.drain);
    http3.drain(arguments.drain);
    // Waits for both services before reporting a failure of either, so that no failure is lost.
    let over_tcp = service.join().map_err(|error| error.to_string());
    let over_quic = http3.join().map_err(|error| error.to_string());
    let mut statistics = OriginStatistics::default();
    if let Ok(over_tcp) = &over_tcp {
        report(over_tcp);
        statistics = statistics.and(*over_tcp);
    }
    if let Ok(Some(over_quic)) = &over_quic {
        http3::report(over_quic);
        statistics = statistics.and(*over_quic);
    }
    arguments.packages.report(&statistics);
    negotiation::report(&negotiation);
    match failures(over_tcp.err(), over_quic.err()) {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => Err(failure.into()),
    }
}

/// Returns the message about event loops that failed, if any.
fn failures(over_tcp: Option<String>, over_quic: Option<String>) -> Option<String> {
    let all: Vec<String> = over_tcp.into_iter().chain(over_quic).collect();
    (!all.is_empty()).then(|| {
        format!(
            "the server stopped, because an event loop failed: {}; restart the server",
            all.join("; ")
        )
    })
}

/// The division of the process's file descriptors.
#[derive(Debug, Clone, Copy)]
struct Share {
    threads: usize,
    /// For connections, in total.
    connections: usize,
    /// For files of a folder, per event loop.
    files: usize,
}

impl Share {
    /// Divides the descriptors. `sockets` is the number that each event loop needs to receive on its addresses.
    fn of(descriptors: u64, threads: usize, sockets: usize) -> Share {
        let all = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let others = OTHER_DESCRIPTORS + (LOOP_DESCRIPTORS + sockets) * threads;
        let rest = all.saturating_sub(others);
        let files = DESCRIPTORS.min(rest / 4) / threads;
        Share {
            threads,
            // A file is opened before another file is closed to make room.
            connections: rest.saturating_sub((files + 4) * threads).max(threads),
            files,
        }
    }
}

/// Returns a description of the served content, an origin for each event loop, and the negotiation settings.
fn origins(
    arguments: &ServeArguments,
    (name, embedded): (&str, &Embedded),
    share: Share,
    addresses: &[SocketAddr],
    clock: Clock,
) -> Result<(String, Vec<Arc<Origin>>, Negotiation), Failure> {
    let persona = embedded.persona(name)?;
    let persona = arguments.protocols.extended(persona, addresses);
    let (push, early_hints) = arguments.protocols.plans()?;
    let has_limits = arguments.keep_alive.is_some() || arguments.max_requests.is_some();
    let site = match &arguments.site {
        None => None,
        Some(name) => {
            let seed = Seed(arguments.seed);
            Some(super::site::workload(name, seed, Variant::LowerCase)?)
        }
    };
    let contents = match (&site, &arguments.folder) {
        (Some(site), _) => Contents::Site(site),
        (None, Some(folder)) => Contents::Folder(folder),
        (None, None) => return Err("give a folder or --site".into()),
    };
    let negotiation = arguments.negotiation.negotiation(contents)?;
    let config = OriginConfig {
        // If limits were set, announce them to the clients.
        persona: match has_limits {
            true => persona.announcing_keep_alive(),
            false => persona,
        },
        wall_clock: clock.realtime_of(Instant::ZERO),
        discard: None,
        push,
        early_hints,
        packages: arguments.packages.packages()?,
        dynamic: arguments.dynamic.clone(),
        negotiation: negotiation.clone(),
    };
    let (what, origins) = match (site, &arguments.folder) {
        (Some(site), _) => {
            let bytes: Bytes = site.files.iter().map(|file| file.body.len()).sum();
            let what = format!("{} files of {bytes}", site.files.len());
            if let Some(said) = packages::memory_of(&config.packages, bytes) {
                say(format_args!("{said}"));
            }
            let origin = Arc::new(Origin::new(Arc::new(site), config)?);
            (what, vec![origin; share.threads])
        }
        (None, Some(folder)) => {
            let bounds = Bounds {
                bytes: CACHE.0 / share.threads as u64,
                descriptors: share.files,
            };
            let packages = arguments.packages.folder()?;
            let origins = (0..share.threads)
                .map(|_| {
                    let mut store = FolderStore::open(folder, bounds)
                        .map_err(|error| folder_failure(folder, &error))?;
                    if arguments.negotiation.has_later_codings() {
                        store = store.with_later_codings();
                    }
                    if let Some(packages) = &packages {
                        store = store
                            .with_packages(packages)
                            .map_err(|error| folder_failure(packages.path(), &error))?;
                    }
                    let origin = Origin::of_store(Box::new(store), config.clone())?;
                    origin.prepare(clock.now());
                    Ok(Arc::new(origin))
                })
                .collect::<Result<Vec<_>, Failure>>()?;
            if folder.read_dir().is_ok_and(|mut all| all.next().is_none()) {
                say(format_args!("{} is empty", folder.display()));
            }
            (folder.display().to_string(), origins)
        }
        (None, None) => return Err("give a folder or --site".into()),
    };
    Ok((what, origins, negotiation))
}

/// A log file, and the signal that reopens it.
struct Rotation {
    log: Arc<LogFile>,
    hang_ups: HangUps,
}

impl Rotation {
    /// Installs the handler of SIGHUP; `None` without a log file, because SIGHUP then ends the program.
    fn of(log: Option<&Arc<LogFile>>) -> Result<Option<Rotation>, Failure> {
        let Some(log) = log.filter(|log| log.path().is_some()) else {
            return Ok(None);
        };
        Ok(Some(Rotation {
            log: Arc::clone(log),
            hang_ups: HangUps::install()?,
        }))
    }

    fn look(&self) {
        if self.hang_ups.take()
            && let Err(error) = self.log.reopen()
        {
            let path = self.log.path().unwrap_or(Path::new("-")).display();
            say(format_args!(
                "failed to reopen the log {path}: {error}; lines are still written to the old file"
            ));
        }
    }
}

/// Waits until a signal requests the end, or an event loop exits.
fn wait(
    interrupt: Interrupt,
    rotation: Option<&Rotation>,
    has_ended: impl Fn() -> bool,
) -> Result<(), Failure> {
    let now_and_then = Timespec {
        tv_sec: 0,
        tv_nsec: 200_000_000,
    };
    let hang_ups = rotation.map(|rotation| rotation.hang_ups);
    while !interrupt.is_raised() && !has_ended() {
        let mut fds = vec![PollFd::new(&interrupt, PollFlags::IN)];
        fds.extend(
            hang_ups
                .iter()
                .map(|hang_ups| PollFd::new(hang_ups, PollFlags::IN)),
        );
        match poll(&mut fds, Some(&now_and_then)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(rotation) = rotation {
            rotation.look();
        }
    }
    Ok(())
}

fn report(statistics: &OriginStatistics) {
    say(format_args!(
        "{} responses with {} of content over {} connections",
        statistics.responses,
        Bytes(statistics.content),
        statistics.connections
    ));
    if statistics.http2 > 0 {
        say(format_args!(
            "{} connections were HTTP/2; {} responses were pushed",
            statistics.http2, statistics.pushed
        ));
    }
    if statistics.handshakes + statistics.handshakes_failed > 0 {
        say(format_args!(
            "{} handshakes, {} of them resumed a session, {} brought early data; {} more failed",
            statistics.handshakes,
            statistics.resumed,
            statistics.early,
            statistics.handshakes_failed
        ));
    }
    if statistics.reset_at_end > 0 {
        say(format_args!(
            "{} connections did not close in time and were reset",
            statistics.reset_at_end
        ));
    }
    if statistics.yielded + statistics.stalled > 0 {
        say(format_args!(
            "{} connections of the slowest clients were closed to make room; {} were closed because their clients \
             acknowledged too little",
            statistics.yielded, statistics.stalled
        ));
    }
    if statistics.pauses > 0 {
        say(format_args!(
            "new connections had to wait {} times for descriptors",
            statistics.pauses
        ));
    }
    if statistics.log_lines_lost > 0 {
        say(format_args!(
            "{} lines of the access log could not be written",
            statistics.log_lines_lost
        ));
    }
}

fn folder_failure(folder: &Path, error: &std::io::Error) -> Failure {
    format!("failed to serve {}: {error}", folder.display()).into()
}

fn start_failure(error: ServiceError) -> Failure {
    match error {
        ServiceError::Listen { address, error } => format!(
            "failed to listen on {address}: {error}: stop the process that listens there, or choose another address \
             with --listen"
        )
        .into(),
        ServiceError::System(error) => format!("failed to start: {error}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_all_event_loops_are_reported() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(failures(None, None), None);
        for (over_tcp, over_quic) in [(text("one"), None), (None, text("one"))] {
            assert!(failures(over_tcp, over_quic).unwrap().contains(": one;"));
        }
        let both = failures(text("one"), text("two")).unwrap();
        assert!(both.contains(": one; two;"), "{both}");
    }

    #[test]
    fn descriptors_are_divided_and_never_reserved_twice() {
        for descriptors in [0, 20, 64, 256, 1024, 20_000, 1_000_000] {
            for (threads, sockets) in [(1, 1), (2, 1), (16, 1), (2, 60)] {
                let share = Share::of(descriptors, threads, sockets);
                let promised = OTHER_DESCRIPTORS
                    + threads * (LOOP_DESCRIPTORS + sockets + share.files)
                    + share.connections;
                assert!(share.connections >= threads);
                assert!(
                    promised as u64 <= descriptors || share.connections == threads,
                    "{descriptors} {threads} {sockets}: {share:?}"
                );
            }
        }
    }
}
