//! `fathometer load`: a load test that is as easy as wrk and reports whether its measurement is valid.

mod against;
mod output;
mod plan;
mod probes;
mod quic;
mod rate;
pub mod security;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use fathometer_analysis::load::{LoadResult, Slo, Verdict};
use fathometer_http::driver::Policy;
use fathometer_model::{Seed, Validity};
use fathometer_sys::{Clock, Interrupt, Machine, SocketOptions, sched};

use self::output::Format;
use self::probes::{Probes, Target};
use self::security::SecurityArguments;
use super::arguments::{factor, some_time, time};
use super::compare::Limits;
use super::{Failure, usage};
use crate::load_view::{self, Kind, LoadView, Outline, Reading};
use fathometer_load::secrets;
use fathometer_load::url::{self, Url};
use fathometer_load::workload::SEED;
use fathometer_load::{Limit, Live, Options, Phase, Users, Windows};
use fathometer_quic_sockets::UdpOffload;

/// Default number of users of a closed loop, and of connections of an open loop.
const USERS: u32 = 50;
const TIME: Duration = Duration::from_secs(10);
/// The longest busy-wait before a planned instant.
const SPIN: Duration = Duration::from_micros(50);
/// The largest flow-control window of HTTP/2.
const MOST_WINDOW: i64 = (1 << 31) - 1;

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArguments {
    /// The server: http[s]://host[:port]/path; with --workload the path is ignored
    url: String,
    /// Closed-loop users, which wait for their responses; in an open loop the maximum of connections [default:
    /// 50]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Users with the pauses and sessions of the workload (SURGE's user equivalents)
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["connections", "rate"])]
    ue: Option<u32>,
    /// Change the number of users in steps: 10@0s,50@30s
    #[arg(long, value_name = "STEPS", conflicts_with = "rate")]
    steps: Option<String>,
    /// Length of the measured window [default: 10s]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = some_time)]
    duration: Option<Duration>,
    /// Stop after N measured requests, instead of after a duration
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "duration")]
    requests: Option<u64>,
    /// Open loop: requests (pages, sessions) per second, whether or not the server keeps up: a rate (1000), a
    /// ramp (100..1000) or steps (100x30s,200x30s)
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Arrival process of an open loop [default: constant; recorded for a workload with recorded times, unless
    /// --rate or -c is given]
    #[arg(long, value_enum, value_name = "PROCESS")]
    arrivals: Option<ArrivalsChoice>,
    /// Replay speed factor for recorded times: 2 is twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    speed: f64,
    /// Connection policy: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipelineN, h1.1-early-close, h2,
    /// h2c, h2xN, h2-sharded, h3 [default: h1.1; over TLS h2 if the server supports it]
    #[arg(long)]
    policy: Option<Policy>,
    /// Requests in flight per connection: concurrent streams of HTTP/2 and HTTP/3, pipeline depth of HTTP/1.1
    #[arg(short = 'm', long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    max_streams: Option<u16>,
    /// Flow-control window of each HTTP/2 or HTTP/3 stream, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Windows::default().stream)]
    #[arg(value_parser = value_parser!(u32).range(0..=MOST_WINDOW))]
    h2_window: u32,
    /// Flow-control window of each HTTP/2 or HTTP/3 connection, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Windows::default().connection)]
    #[arg(value_parser = value_parser!(u32).range(65_535..=MOST_WINDOW))]
    h2_connection_window: u32,
    /// UDP offloads that HTTP/3 uses: on (both), send (GSO), receive (GRO) or off
    #[arg(long, value_name = "WHICH", default_value_t = UdpOffload::On)]
    udp_offload: UdpOffload,
    /// The workload to request: webstone, almeida-a, specweb96, today …, or webstone:FILE, wsesslog:FILE,
    /// log:FILE, har:FILE (see `fathometer list`). Files may be compressed with gzip or zstd; log:- reads
    /// standard input
    #[arg(long, value_name = "W")]
    workload: Option<String>,
    /// Seed of the workload and of all random choices; use the same seed for the server's site
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Request header field, as in 'Accept: text/html'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Request method
    #[arg(short = 'X', long, default_value = "GET", conflicts_with = "workload")]
    method: String,
    /// Request body, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT", conflicts_with = "workload")]
    body: Option<String>,
    /// Timeout of an exchange
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "30s")]
    timeout: Duration,
    /// Timeout of a connection attempt
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    connect_timeout: Duration,
    /// Length of the warm-up before the measured window; it is excluded from the results
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s")]
    warmup: Duration,
    /// Longest time to wait at the end for requests in flight
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    drain: Duration,
    /// Connect to this host:port instead of the URL's host
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Number of event-loop threads [default: one for every two processors]
    #[arg(short = 't', long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    threads: Option<usize>,
    /// Pin each thread to its own processor
    #[arg(long)]
    pin: bool,
    /// Longest busy-wait before a planned instant (0s: off). It is never longer than the measured wake-up
    /// latency, and there is none while threads of this machine wait for a processor
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "50us")]
    spin: Duration,
    /// Longest time to delay a wake-up of a closed loop so that several responses are read at once (wake-up
    /// coalescing; 0s: off). It changes what is measured: percentiles change, and the mean latency may grow by
    /// up to 4 %
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", conflicts_with = "rate")]
    rest: Duration,
    /// Close each connection after N requests
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    max_requests_per_connection: Option<u32>,
    /// Close connections that are idle for this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    keep_alive: Option<Duration>,
    /// Reset connections instead of closing them, so that no port stays in TIME_WAIT
    #[arg(long)]
    reset: bool,
    /// Leave Nagle's algorithm enabled (do not set TCP_NODELAY)
    #[arg(long)]
    nagle: bool,
    /// Monitor a server on this machine by its process ID, or the machine alone with "here"; may be given
    /// several times
    #[arg(long, value_name = "PID|here")]
    probe: Vec<Target>,
    /// Count requests by target
    #[arg(long)]
    targets: bool,
    /// SLOs to check, as in 'p98<100ms,errors<0.1%'; exit code 4 if one is violated
    #[arg(long, value_name = "LIST")]
    slo: Option<Slo>,
    /// Compare with this server: slices of both loads are interleaved (ABBA), so that the machine's drift falls out.
    /// The default duration is then 40s; several --probe may name both servers. With the same URL it tests for false
    /// alarms
    #[arg(long, value_name = "BASELINE_URL")]
    against: Option<String>,
    #[command(flatten)]
    limits: Limits,
    /// Output format
    #[arg(long, value_enum, default_value = "screen")]
    format: Format,
    /// Show all figures, the bytes, the errors with their meanings, the generator's cost and every default
    #[arg(long)]
    details: bool,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Also write the result to a file; its name's ending selects the format: .json, .csv, .hlog
    /// (HdrHistogram), .prom, .txt, .html, or .parquet (one row per exchange); may be given several times
    #[arg(long, value_name = "FILE")]
    save: Vec<PathBuf>,
    /// Also write a page with charts of the test: one HTML file, without scripts
    #[arg(long, value_name = "FILE.html", value_parser = page)]
    report: Option<PathBuf>,
    /// Repeat the measured window up to N times if only noise of this machine (late wake-ups, a hypervisor that
    /// takes the processors) made it INVALID [default: 2; with --requests 0]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(..=100))]
    repeats: Option<u32>,
    /// Show no progress
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    security: SecurityArguments,
}

const EXAMPLES: &str = "Examples:
  fathometer load http://127.0.0.1:8080/                        50 users for 10 s
  fathometer load http://127.0.0.1:8080/ -c 64 -d 30s --slo 'p98<100ms,errors<0.1%'
  fathometer load http://127.0.0.1:8080/ --rate 2000 --arrivals poisson
  fathometer load http://127.0.0.1:8080/ --workload webstone -c 40 --policy h1.0 --format webstone
  fathometer load http://127.0.0.1:8080/ --workload surge --ue 200 -d 10m
  fathometer load http://127.0.0.1:8080/ -c 200 --probe $(pgrep -o nginx)
  fathometer load https://127.0.0.1:8443/ -c 16 -m 16 --insecure    HTTP/2, 16 streams on each of 16

Exit codes: 0 success, 1 failed, interrupted, or no exchange succeeded, 2 usage error,
3 measured but INVALID (SLOs are then inconclusive), 4 an SLO is violated, or the server
stopped answering before the end.";

/// Default number of repeats of a window that noise made INVALID.
const REPEATS: u32 = 2;

/// The arrival process of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsChoice {
    /// At constant intervals
    Constant,
    /// At random, independently of each other
    Poisson,
    /// At the times recorded in the workload
    Recorded,
}

/// Runs the test and prints the result.
pub fn run(arguments: &LoadArguments) -> Result<ExitCode, Failure> {
    if let Some(baseline) = &arguments.against {
        return against::run(arguments, baseline);
    }
    if arguments.limits.gate.is_some() {
        return Err(usage(
            "--gate needs --against: it limits changes; --slo limits values",
        ));
    }
    let clock = Clock::start();
    let ready = Ready::of(arguments, &arguments.url, clock)?;
    let Ready { planned, met, .. } = &ready;
    // There is nothing to save before this line, and a signal ends the program at once.
    let interrupt = Interrupt::install()?;
    let files: Vec<PathBuf> = arguments
        .save
        .iter()
        .chain(&arguments.report)
        .cloned()
        .collect();
    let saved = output::Saved::begin(&files, &planned.plan)?;
    let options = || Options {
        recorder: saved.recorder(),
        ..ready.options(arguments)
    };
    let title = title(arguments, met.policy, planned);
    let probes = Probes::start(&arguments.probe, clock)?;
    // `--requests N` sends exactly N requests: no window is repeated.
    let most = arguments.requests.map_or(REPEATS, |_| 0);
    let most = arguments.repeats.unwrap_or(most);
    let (mut result, repeated) = repeated(most, &|| interrupt.is_raised(), || {
        let options = options();
        let outline = outline(title.clone(), &options);
        let mut view = LoadView::new(Kind::detect(arguments.quiet), outline);
        let result = fathometer_load::run(options, clock, &|| interrupt.is_raised(), &mut |live| {
            show(&mut view, live);
        });
        view.finish();
        result.map(|result| (result.validity.clone(), result))
    })?;
    result.generator.repeated = repeated;
    result.skipped.clone_from(&planned.skipped);
    result.server = probes.map(|probes| probes.stop(&result));
    describe(&mut result, arguments, met.policy, planned);
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
    // If one file cannot be written, the others and the screen are still written.
    let failures = saved.write(&result, &promises, arguments.details);
    print!("{}", format.render(&result, &promises, arguments.details)?);
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

/// A test of one URL that is ready to run: the server supports the policy, and the workload is read.
struct Ready {
    url: Url,
    address: SocketAddr,
    planned: plan::Planned,
    met: security::Met,
    fields: Vec<(String, String)>,
    host_field: Option<String>,
}

impl Ready {
    fn of(arguments: &LoadArguments, url: &str, clock: Clock) -> Result<Ready, Failure> {
        let url = Url::parse(url)?;
        let address = match &arguments.connect_to {
            Some(place) => url::resolve(place, url.default_port())?,
            None => url.resolve()?,
        };
        let planned = plan::of(arguments, &url)?;
        for note in &planned.notes {
            eprintln!("{}: {note}", planned.plan.name);
        }
        let met = security::meet(
            (arguments.policy, arguments.max_streams),
            &arguments.security,
            &url,
            address,
            arguments.connect_timeout,
            clock,
        )?;
        let (fields, host_field) = fields(&arguments.headers)?;
        Ok(Ready {
            url,
            address,
            planned,
            met,
            fields,
            host_field,
        })
    }

    /// The engine's options, without a recorder.
    fn options(&self, arguments: &LoadArguments) -> Options {
        let planned = &self.planned;
        Options {
            users: planned.users.clone(),
            policy: self.met.policy,
            tls: self.met.tls.clone(),
            windows: Windows {
                stream: arguments.h2_window,
                connection: arguments.h2_connection_window,
            },
            udp_offload: arguments.udp_offload,
            fields: self.fields.clone(),
            host_field: self.host_field.clone(),
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
            coalescing: arguments.rest,
            seed: Seed(arguments.seed),
            max_requests: arguments.max_requests_per_connection,
            keep_alive: arguments.keep_alive,
            sockets: SocketOptions {
                no_delay: Some(!arguments.nagle),
                ..SocketOptions::default()
            },
            reset_on_close: arguments.reset,
            count_targets: arguments.targets,
            ..Options::new(
                self.address,
                self.url.authority.clone(),
                Arc::clone(&planned.plan),
            )
        }
    }
}

/// Measures a window, and repeats it at most `most` times while only noise of this machine made it INVALID. An
/// interrupt stops the repeats. Returns the last window and the number of repeats.
fn repeated<T, E>(
    most: u32,
    interrupted: &dyn Fn() -> bool,
    mut measure: impl FnMut() -> Result<(Validity, T), E>,
) -> Result<(T, u32), E> {
    let mut repeated = 0;
    loop {
        let (validity, result) = measure()?;
        if repeated == most || interrupted() || !fathometer_load::is_noise(&validity) {
            return Ok((result, repeated));
        }
        repeated += 1;
        eprintln!(
            "INVALID because of noise of this machine ({}): repeating the window, repeat {repeated} of at most \
             {most}",
            validity.reasons.join("; ")
        );
    }
}

/// Whether less was measured than requested.
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

/// Describes what the figures of an interrupted test cover.
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
    format!(
        "interrupted: the figures cover {had} of {asked}; requests in flight count as unfinished"
    )
}

fn exit_code(result: &LoadResult, promises: &[Verdict]) -> ExitCode {
    let counts = &result.measured.counts;
    let has_gone_silent = result.measured.ended.silent_from.is_some();
    if !result.validity.is_valid() {
        ExitCode::from(3)
    } else if has_gone_silent || promises.iter().any(|promise| !promise.kept) {
        ExitCode::from(4)
    } else if counts.completed == 0 && counts.planned > 0 {
        // No exchange succeeded: the measurement is valid, but the test failed.
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

/// The fields of every request, and the value of the Host field if one was given.
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
                "{header:?} is not a request field: write 'Name: value'"
            )));
        };
        let name = name.trim();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(usage(format!(
                "{:?} is not a request field: {name:?} is not a valid field name",
                secrets::redact_field(header)
            )));
        }
        if value
            .trim()
            .contains(|c: char| c.is_ascii_control() && c != '\t')
        {
            return Err(usage(format!(
                "{:?} is not a request field: its value contains a control character",
                secrets::redact_field(header)
            )));
        }
        if name.eq_ignore_ascii_case("host") {
            // A request has exactly one Host field (RFC 9112 section 3.2): this one replaces the URL's host.
            if host.replace(value.trim().to_owned()).is_some() {
                return Err(usage("two Host fields were given; a request has only one"));
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

/// Half of the processors: a server under test on this machine needs the other half.
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

/// The name of a page.
fn page(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".html") {
        true => Ok(PathBuf::from(text)),
        false => Err("expected a name that ends in .html".to_owned()),
    }
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

/// Adds the facts about the test that the engine does not have.
fn describe(
    result: &mut LoadResult,
    arguments: &LoadArguments,
    policy: Policy,
    planned: &plan::Planned,
) {
    let setup = &mut result.setup;
    setup.url.clone_from(&arguments.url);
    setup.command = fathometer_load::secrets::command_line();
    setup.version = env!("CARGO_PKG_VERSION").to_owned();
    setup.machine = Machine::read().facts();
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
            format!("{SPIN:?} at most, no longer than the wake-up latency"),
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
    if policy.protocol.is_over_quic() {
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
    tell(arguments.seed != SEED, "seed", SEED.to_string());
    setup.defaults = defaults;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many windows are measured when window n has reason n; the last reason repeats.
    fn windows(most: u32, reasons: &[&str], interrupted: bool) -> (u32, u32) {
        let mut measured = 0;
        let measure = || {
            let reason = reasons.get(measured as usize).or(reasons.last());
            let mut validity = Validity::default();
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                validity.invalidate((*reason).to_owned());
            }
            measured += 1;
            Ok::<_, Failure>((validity, measured))
        };
        let (last, repeated) = repeated(most, &|| interrupted, measure).unwrap();
        assert_eq!(last, repeated + 1);
        (last, measured)
    }

    #[test]
    fn a_window_is_repeated_for_noise_alone_and_so_often_at_most() {
        let late = "the generator was late";
        assert_eq!(windows(2, &[""], false), (1, 1));
        assert_eq!(windows(2, &[late, ""], false), (2, 2));
        assert_eq!(windows(2, &[late], false), (3, 3));
        assert_eq!(windows(0, &[late], false), (1, 1));
        assert_eq!(windows(2, &["no port was free"], false), (1, 1));
        assert_eq!(windows(2, &[late], true), (1, 1));
    }
}
