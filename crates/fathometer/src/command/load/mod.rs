//! `fathometer load`: a load test, as easy as wrk, that tells the truth about what it measured.

mod output;
mod plan;
mod probes;
mod quic;
mod rate;
pub mod security;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use fathometer_analysis::load::{LoadResult, Slo, Verdict};
use fathometer_http::driver::{Policy, Protocol};
use fathometer_model::Seed;
use fathometer_sys::{Clock, Interrupt, Machine, SocketOptions, sched};

use self::output::Format;
use self::probes::{Probes, Target};
use self::security::SecurityArguments;
use super::arguments::{factor, some_time, time};
use super::{Failure, usage};
use crate::load::{self, Limit, Live, Options, Phase, Users, Windows};
use crate::load_view::{self, Kind, LoadView, Outline, Reading};
use crate::quic::UdpOffload;
use crate::secrets;
use crate::study::run::machine_facts;
use crate::url::{self, Url};
use crate::workload::SEED;

/// Users of a closed loop, and connections of an open one, when nobody says how many.
const USERS: u32 = 50;
const TIME: Duration = Duration::from_secs(10);
/// The longest busy-wait before a planned instant.
const SPIN: Duration = Duration::from_micros(50);
/// The largest window of HTTP/2.
const MOST_WINDOW: i64 = (1 << 31) - 1;

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArguments {
    /// The server: http[s]://host[:port]/path; with --workload its path is not used
    url: String,
    /// Users that wait for their answers; in an open loop the most connections [default: 50]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Users with pauses and sessions, as the workload has them (SURGE's user equivalents)
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["connections", "rate"])]
    ue: Option<u32>,
    /// Change the number of users in steps: 10@0s,50@30s
    #[arg(long, value_name = "STEPS", conflicts_with = "rate")]
    steps: Option<String>,
    /// How long to measure [default: 10s]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = some_time)]
    duration: Option<Duration>,
    /// Measure exactly so many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "duration")]
    requests: Option<u64>,
    /// An open loop: so many requests (pages, sessions) a second, whatever the server does: 1000,
    /// 100..1000, 100x30s,200x30s
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// How the requests of an open loop follow each other
    #[arg(long, value_enum, value_name = "PROCESS")]
    arrivals: Option<ArrivalsChoice>,
    /// Replay recorded times so many times as fast
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    speed: f64,
    /// How connections are used: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipelineN,
    /// h1.1-early-close, h2, h2c, h2xN, h2-sharded, h3 [default: h1.1; over TLS h2 where the server
    /// speaks it]
    #[arg(long)]
    policy: Option<Policy>,
    /// Keep so many requests under way on each connection: streams of HTTP/2 and HTTP/3, a pipeline of
    /// HTTP/1.1
    #[arg(short = 'm', long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    max_streams: Option<u16>,
    /// Octets that a server may send on a stream of HTTP/2 or HTTP/3 before it is told to go on
    #[arg(long, value_name = "OCTETS", default_value_t = Windows::default().stream)]
    #[arg(value_parser = value_parser!(u32).range(0..=MOST_WINDOW))]
    h2_window: u32,
    /// The same of all streams of a connection together
    #[arg(long, value_name = "OCTETS", default_value_t = Windows::default().connection)]
    #[arg(value_parser = value_parser!(u32).range(65_535..=MOST_WINDOW))]
    h2_connection_window: u32,
    /// The offloads of UDP that HTTP/3 uses: on (both), send (GSO), receive (GRO) or off
    #[arg(long, value_name = "WHICH", default_value_t = UdpOffload::On)]
    udp_offload: UdpOffload,
    #[command(flatten)]
    security: SecurityArguments,
    /// What is asked for: webstone, almeida-a, specweb96, today …, or webstone:FILE, wsesslog:FILE,
    /// log:FILE, har:FILE (`fathometer list` has them all). Files may be packed by gzip or zstd; log:- reads
    /// standard input
    #[arg(long, value_name = "W")]
    workload: Option<String>,
    /// Seed of the workload and of everything else random; the server's site needs the same
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// A request field, as in 'Accept: text/html'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// The request method
    #[arg(short = 'X', long, default_value = "GET", conflicts_with = "workload")]
    method: String,
    /// The request content, or @FILE
    #[arg(long, value_name = "TEXT", conflicts_with = "workload")]
    body: Option<String>,
    /// How long an exchange may take
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "30s")]
    timeout: Duration,
    /// How long connecting may take
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    connect_timeout: Duration,
    /// Time before the measurement in which nothing counts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s")]
    warmup: Duration,
    /// How long to wait at the end for what is under way
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    drain: Duration,
    /// Connect to this host:port, whatever the URL's host is
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Event loops, a thread each [default: one for every two processors]
    #[arg(short = 't', long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    threads: Option<usize>,
    /// Keep each thread on a processor of its own
    #[arg(long)]
    pin: bool,
    /// Longest busy-wait before a planned instant. The generator busy-waits no longer than it takes to wake up, as
    /// measured, and not at all while threads of this machine wait for a processor; 0s: never
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "50us")]
    spin: Duration,
    /// Longest time to delay a wake-up of a closed loop so that several responses are read at once (wake-up
    /// coalescing). It changes what is measured: percentiles move, and the mean latency may grow by up to
    /// 4 %. 0s: off
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", conflicts_with = "rate")]
    rest: Duration,
    /// Close each connection after so many requests
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    max_requests_per_connection: Option<u32>,
    /// Close a connection that was idle for so long [default: keep it for ever]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    keep_alive: Option<Duration>,
    /// Reset connections instead of closing them, so that no port stays in TIME_WAIT
    #[arg(long)]
    reset: bool,
    /// Leave Nagle's algorithm on
    #[arg(long)]
    nagle: bool,
    /// Watch the server's machine too, when it is this one: the number of the server's process, or
    /// here for the machine alone; may be given several times
    #[arg(long, value_name = "PID|here")]
    probe: Vec<Target>,
    /// Count requests by target
    #[arg(long)]
    targets: bool,
    /// Promises to judge, as in 'p98<100ms,errors<0.1%'; exit code 4 when one is broken
    #[arg(long, value_name = "PROMISES")]
    slo: Option<Slo>,
    /// What to print
    #[arg(long, value_enum, default_value = "screen")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write a file as well, in the form that its name ends in: .json, .csv, .hlog (HdrHistogram),
    /// .prom, .txt, or .parquet (a row for every exchange); may be given several times
    #[arg(long, value_name = "FILE")]
    save: Vec<PathBuf>,
    /// Repeat the measured window up to N times where noise of this machine alone (late wake-ups, a hypervisor that
    /// takes the processors) made it INVALID [default: 2; with --requests 0]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(..=100))]
    repeats: Option<u32>,
    /// Show no progress
    #[arg(short = 'q', long)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  fathometer load http://127.0.0.1:8080/                        50 users for 10 s
  fathometer load http://127.0.0.1:8080/ -c 64 -d 30s --slo 'p98<100ms,errors<0.1%'
  fathometer load http://127.0.0.1:8080/ --rate 2000 --arrivals poisson
  fathometer load http://127.0.0.1:8080/ --workload webstone -c 40 --policy h1.0 --format webstone
  fathometer load http://127.0.0.1:8080/ --workload surge --ue 200 -d 10m
  fathometer load http://127.0.0.1:8080/ -c 200 --probe $(pgrep -o nginx)
  fathometer load https://127.0.0.1:8443/ -c 16 -m 16 --insecure    HTTP/2, 16 streams on each of 16
Exit codes: 0 done, 1 failed or interrupted, or no exchange succeeded, 2 usage, 3 measured but INVALID (an SLO is
inconclusive then), 4 an SLO was broken, or the server stopped answering before the end.";

/// How often a window is repeated that noise made INVALID, when nobody says.
const REPEATS: u32 = 2;

/// How the requests of an open loop follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsChoice {
    /// Evenly
    Constant,
    /// Independently of each other
    Poisson,
    /// As the workload has recorded them
    Recorded,
}

/// Runs the test and prints what came of it.
pub fn run(arguments: &LoadArguments) -> Result<ExitCode, Failure> {
    let url = Url::parse(&arguments.url)?;
    let address = match &arguments.connect_to {
        Some(place) => url::resolve(place, url.default_port())?,
        None => url.resolve()?,
    };
    let planned = plan::of(arguments, &url)?;
    for note in &planned.notes {
        eprintln!("{}: {note}", planned.plan.name);
    }
    let clock = Clock::start();
    let met = security::meet(
        (arguments.policy, arguments.max_streams),
        &arguments.security,
        &url,
        address,
        arguments.connect_timeout,
        clock,
    )?;
    // Until here there is nothing to keep, and a signal ends the program at once.
    let interrupt = Interrupt::install()?;
    let saved = output::Saved::begin(&arguments.save, &planned.plan)?;
    let (fields, host_field) = fields(&arguments.headers)?;
    let options = || Options {
        users: planned.users.clone(),
        policy: met.policy,
        tls: met.tls.clone(),
        windows: Windows {
            stream: arguments.h2_window,
            connection: arguments.h2_connection_window,
        },
        udp_offload: arguments.udp_offload,
        fields: fields.clone(),
        host_field: host_field.clone(),
        timeout: arguments.timeout,
        connect_timeout: arguments.connect_timeout,
        warm_up: arguments.warmup,
        limit: match arguments.requests {
            Some(count) => Limit::Exchanges(count),
            None => Limit::Time(arguments.duration.unwrap_or(planned.length.unwrap_or(TIME))),
        },
        drain: arguments.drain,
        threads: arguments.threads.unwrap_or_else(threads),
        pin: arguments.pin,
        spin: arguments.spin,
        rest: arguments.rest,
        seed: Seed(arguments.seed),
        max_requests: arguments.max_requests_per_connection,
        keep_alive: arguments.keep_alive,
        sockets: SocketOptions {
            no_delay: Some(!arguments.nagle),
            ..SocketOptions::default()
        },
        reset_on_close: arguments.reset,
        count_targets: arguments.targets,
        recorder: saved.recorder(),
        ..Options::new(address, url.authority.clone(), Arc::clone(&planned.plan))
    };
    let title = title(arguments, met.policy, &planned);
    let probes = Probes::start(&arguments.probe, clock)?;
    // Exactly so many requests are not followed by others.
    let most = arguments.requests.map_or(REPEATS, |_| 0);
    let most = arguments.repeats.unwrap_or(most);
    let mut repeated = 0;
    let mut result = loop {
        let options = options();
        let outline = outline(title.clone(), &options);
        let mut view = LoadView::new(Kind::detect(arguments.quiet), outline);
        let result = load::run(options, clock, &|| interrupt.is_raised(), &mut |live| {
            show(&mut view, live);
        });
        view.finish();
        let result = result?;
        if repeated == most || interrupt.is_raised() || !load::is_noise(&result.validity) {
            break result;
        }
        repeated += 1;
        eprintln!(
            "INVALID by noise of this machine ({}): repeated, {repeated} of {most} times at most",
            result.validity.reasons.join("; ")
        );
    };
    result.generator.repeated = repeated;
    result.skipped.clone_from(&planned.skipped);
    result.server = probes.map(|probes| probes.stop(&result));
    describe(&mut result, arguments, met.policy, &planned);
    let promises = arguments
        .slo
        .as_ref()
        .map(|slo| slo.judge(&result))
        .unwrap_or_default();
    let format = if arguments.json {
        Format::Json
    } else {
        arguments.format
    };
    // A file that cannot be written prevents neither the others nor the screen.
    let failures = saved.write(&result, &promises);
    print!("{}", format.render(&result, &promises)?);
    for failure in &failures {
        eprintln!("fathometer: {failure}");
    }
    if !failures.is_empty() {
        return Ok(ExitCode::from(1));
    }
    if interrupt.is_raised() && is_cut_short(&result) {
        eprintln!("{}", cut_short(&result));
        return Ok(ExitCode::from(1));
    }
    Ok(exit_code(&result, &promises))
}

/// Whether less was measured than was asked for.
fn is_cut_short(result: &LoadResult) -> bool {
    let measured = &result.measured;
    let by_time = result
        .setup
        .duration
        .is_some_and(|asked| measured.duration < asked);
    let by_count = result
        .setup
        .exchanges
        .is_some_and(|asked| measured.counts.planned < asked);
    by_time || by_count
}

/// What the figures of a test that was interrupted are about.
fn cut_short(result: &LoadResult) -> String {
    let measured = &result.measured;
    let (had, asked) = match (result.setup.duration, result.setup.exchanges) {
        (_, Some(count)) => (
            measured.counts.planned.to_string(),
            format!("{count} exchanges"),
        ),
        (time, None) => {
            let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
            (
                seconds(measured.duration),
                seconds(time.unwrap_or_default()),
            )
        }
    };
    format!("interrupted: the figures are about {had} of {asked}; what was under way is unfinished")
}

fn exit_code(result: &LoadResult, promises: &[Verdict]) -> ExitCode {
    let counts = &result.measured.counts;
    let has_gone_silent = result.measured.ended.silent_from.is_some();
    if !result.validity.is_valid() {
        ExitCode::from(3)
    } else if has_gone_silent || promises.iter().any(|promise| !promise.kept) {
        ExitCode::from(4)
    } else if counts.completed == 0 && counts.planned > 0 {
        // Everything failed or was never answered: measured rightly, and not what anybody hoped for.
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

/// The fields of every request, and what the Host field says where one was given.
#[expect(
    clippy::type_complexity,
    reason = "both come out of the same arguments"
)]
fn fields(headers: &[String]) -> Result<(Vec<(String, String)>, Option<String>), Failure> {
    let mut host = None;
    let mut fields = Vec::new();
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(usage(format!(
                "{header:?} is no request field: write 'Name: value'"
            )));
        };
        let name = name.trim();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(usage(format!(
                "{:?} is no request field: {name:?} is no name of one",
                secrets::redact_field(header)
            )));
        }
        if value
            .trim()
            .contains(|c: char| c.is_ascii_control() && c != '\t')
        {
            return Err(usage(format!(
                "{:?} is no request field: its value has a control character",
                secrets::redact_field(header)
            )));
        }
        if name.eq_ignore_ascii_case("host") {
            // A message has one (RFC 9112 section 3.2): it says what the URL's host would have said.
            if host.replace(value.trim().to_owned()).is_some() {
                return Err(usage("two Host fields were given, and a request has one"));
            }
            continue;
        }
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    let is_agent = |(name, _): &(String, String)| name.eq_ignore_ascii_case("user-agent");
    if !fields.iter().any(is_agent) {
        let agent = concat!("fathometer/", env!("CARGO_PKG_VERSION"));
        fields.insert(0, ("User-Agent".to_owned(), agent.to_owned()));
    }
    Ok((fields, host))
}

/// Half of the processors: the server under test, when it is on this machine, needs some too.
fn threads() -> usize {
    sched::processors().map_or(1, |processors| processors.len().div_ceil(2))
}

fn title(arguments: &LoadArguments, policy: Policy, planned: &plan::Planned) -> String {
    let who = match &planned.users {
        Users::Closed { users, .. } => format!("{users} users"),
        Users::Open { arrivals, .. } => arrivals.to_string(),
    };
    let what = match &arguments.workload {
        Some(workload) => format!(" {workload}"),
        None => String::new(),
    };
    format!("{}{what} · {policy} · {who}", arguments.url)
}

fn outline(title: String, options: &Options) -> Outline {
    let (total, exchanges) = match options.limit {
        Limit::Time(time) => (Some(options.warm_up + time), None),
        Limit::Exchanges(count) => (None, Some(count)),
    };
    Outline {
        title,
        total,
        exchanges,
        open_loop: matches!(options.users, Users::Open { .. }),
    }
}

fn show(view: &mut LoadView, live: &Live) {
    view.update(&Reading {
        elapsed: live.elapsed,
        phase: match live.phase {
            Phase::WarmUp => load_view::Phase::WarmUp,
            Phase::Measured => load_view::Phase::Steady,
            Phase::Drain => load_view::Phase::Drain,
        },
        last: &live.last,
        so_far: &live.so_far,
        warnings: &[],
    });
}

/// What the engine does not know of the test.
fn describe(
    result: &mut LoadResult,
    arguments: &LoadArguments,
    policy: Policy,
    planned: &plan::Planned,
) {
    let setup = &mut result.setup;
    setup.url.clone_from(&arguments.url);
    setup.command = crate::secrets::command_line();
    setup.version = env!("CARGO_PKG_VERSION").to_owned();
    setup.machine = machine_facts(&Machine::read());
    let mut defaults = Vec::new();
    let mut tell = |asked: bool, name: &str, value: String| {
        if !asked {
            defaults.push((name.to_owned(), value));
        }
    };
    if let Users::Closed { users, .. } = &planned.users {
        let asked = arguments.connections.or(arguments.ue).is_some();
        tell(asked, "users", users.to_string());
        let is_on = !arguments.rest.is_zero();
        tell(is_on, "wake-up coalescing", "off".to_owned());
    } else if let Users::Open { connections, .. } = &planned.users {
        tell(
            arguments.connections.is_some(),
            "connections",
            connections.to_string(),
        );
        tell(
            arguments.spin != SPIN,
            "busy-wait",
            format!("{SPIN:?} at most, no longer than a wake-up takes"),
        );
        tell(
            arguments.arrivals.is_some(),
            "arrivals",
            "constant".to_owned(),
        );
    }
    let is_default = |given: Duration, default: Duration| given != default;
    tell(
        arguments.duration.is_some() || arguments.requests.is_some(),
        "duration",
        setup
            .duration
            .map_or(String::new(), |time| format!("{} s", time.as_secs_f64())),
    );
    tell(
        arguments.threads.is_some(),
        "threads",
        setup.threads.to_string(),
    );
    tell(
        is_default(arguments.timeout, Duration::from_secs(30)),
        "timeout",
        "30 s".to_owned(),
    );
    tell(!arguments.warmup.is_zero(), "warm-up", "none".to_owned());
    tell(arguments.policy.is_some(), "policy", policy.to_string());
    if policy.protocol.multiplexes() {
        let windows = Windows::default();
        for (name, given, default) in [
            ("window of a stream", arguments.h2_window, windows.stream),
            (
                "window of a connection",
                arguments.h2_connection_window,
                windows.connection,
            ),
        ] {
            tell(given != default, name, format!("{default} B"));
        }
    }
    if policy.protocol == Protocol::Http3 {
        let given = arguments.udp_offload;
        tell(
            given != UdpOffload::On,
            "UDP offload",
            UdpOffload::On.to_string(),
        );
    }
    if policy.tls {
        for (name, value) in arguments.security.defaults() {
            tell(false, name, value);
        }
    }
    tell(
        arguments.keep_alive.is_some(),
        "idle connections",
        "kept".to_owned(),
    );
    tell(arguments.nagle, "Nagle's algorithm", "off".to_owned());
    tell(
        arguments.reset,
        "end of connections",
        "closed, not reset".to_owned(),
    );
    tell(arguments.seed != 1, "seed", "1".to_owned());
    setup.defaults = defaults;
}
