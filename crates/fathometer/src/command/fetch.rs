//! `fathometer fetch`: retrieves one page, or a list of files, from any server with a connection policy.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fathometer_http::driver::{
    BundleAnswer, Flush, MOST_FILES, Options, PageDriver, PageList, Policy, Priorities, Protocol,
    Retrieval, Revalidation, ValidatorCache, Visit,
};
use fathometer_http::h3;
use fathometer_model::{Bytes, ContentCoding, Delivery, Instant, Outcome, Seed, ServiceEvent};
use fathometer_quic::TransportSettings;
use fathometer_sys::{Clock, Interrupt, SocketOptions};
use fathometer_tls::ClientSettings;

use super::Failure;
use super::arguments::whole_seconds;
use super::load::security::SecurityArguments;
use fathometer_files::key_log::KeyLogFile;
use fathometer_load::client::{self, ClientSockets, LoopStatistics};
use fathometer_load::http3_client::ClientSettings as QuicSettings;
use fathometer_load::url::Url;
use fathometer_quic_sockets::{Sockets as QuicSockets, UdpOffload};

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// The page: http://host[:port]/path or https://host[:port]/path
    url: String,
    /// Connection policy: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipeline, h1.1-pipeline-ranges, h2,
    /// h2c, h2xN, h2-sharded, h2-push, h3, h3-alt-svc (h2 until the server announces h3 by Alt-Svc); the
    /// default is h1.1 for http and h2 for https. To request all files in one response, append -package,
    /// -package-v1, -package-delta, -tar, -tar-whole or -zip; package alone is h1.1-package
    #[arg(long)]
    policy: Option<Policy>,
    /// Fetch the files that FILE lists, one target (/path) per line, instead of a page. The URL is that of
    /// their folder; a package of the files is requested with it
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Priorities that requests state: none, browser, round-robin
    #[arg(long, default_value = "none")]
    priority: Priorities,
    /// `revalidate` fetches the page twice and reports the second visit
    #[arg(long, value_enum, default_value = "first")]
    visit: VisitChoice,
    /// Validators that HTTP/1.0 and 1.1 use to revalidate
    #[arg(long, value_enum, default_value = "etag")]
    revalidation: RevalidationChoice,
    /// When the buffered requests of a pipeline are sent: explicit, buffer, `timer-<n>ms`
    #[arg(long, default_value = "explicit")]
    flush: Flush,
    /// Size of the pipeline's buffer in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    buffer: u64,
    /// Accept the content codings deflate and gzip
    #[arg(long)]
    compressed: bool,
    /// Leave Nagle's algorithm enabled (do not set TCP_NODELAY)
    #[arg(long)]
    nagle: bool,
    /// Acknowledge every segment at once (TCP_QUICKACK)
    #[arg(long)]
    quickack: bool,
    /// UDP offloads that HTTP/3 uses: on (both), send (GSO), receive (GRO) or off
    #[arg(long, value_name = "WHICH", default_value_t = UdpOffload::On)]
    udp_offload: UdpOffload,
    /// Time limit of each visit, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = whole_seconds)]
    timeout: Duration,
    /// Print every exchange and connection as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    security: SecurityArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VisitChoice {
    First,
    Revalidate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RevalidationChoice {
    Etag,
    Date,
    Head,
}

/// Number of refused targets that the screen lists.
const LISTED: usize = 20;

/// Fetches the page and prints the measurements. Exit code 1 if files are missing: not received, answered with
/// a status other than success, or left out because the page has too many.
pub fn run(arguments: &FetchArguments) -> Result<ExitCode, Failure> {
    let url = Url::parse(&arguments.url)?;
    let policy = policy_for(arguments, &url)?;
    let server = url.resolve()?;
    let interrupt = Interrupt::install()?;
    let mut flush = arguments.flush;
    flush.buffer = Bytes(arguments.buffer);
    let list = match &arguments.list {
        Some(file) => Some(Arc::new(read_list(file, &url)?)),
        None => None,
    };
    let options = Options {
        host: url.authority.clone(),
        list,
        flush,
        revalidation: match arguments.revalidation {
            RevalidationChoice::Etag => Revalidation::EntityTag,
            RevalidationChoice::Date => Revalidation::Date,
            RevalidationChoice::Head => Revalidation::Head,
        },
        accept_encoding: if arguments.compressed {
            vec![ContentCoding::Deflate, ContentCoding::Gzip]
        } else {
            vec![]
        },
        priorities: arguments.priority,
        ..Options::default()
    };
    let clock = Clock::start();
    let tls = match policy.tls {
        true => Some(tls_settings(arguments, policy, clock)?),
        false => None,
    };
    let quic = tls
        .as_ref()
        .filter(|_| policy.protocol.is_over_quic())
        .map(|tls| quic_settings(tls, &options, arguments.udp_offload))
        .transpose()?;
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(!arguments.nagle),
            ..SocketOptions::default()
        },
        quick_ack: arguments.quickack.then_some(true),
        tls,
        quic,
        // The identifiers of QUIC connections must not repeat.
        seed: Seed(clock.realtime_of(clock.now()).as_nanos() as u64),
    };
    let visit = |visit: Visit, cache: ValidatorCache| -> Result<_, Failure> {
        let start = clock.now();
        let mut driver = PageDriver::new(
            policy,
            options.clone(),
            visit,
            url.target.clone(),
            cache,
            start,
        );
        let deadline = start + arguments.timeout;
        let statistics = client::drive(&mut driver, server, &sockets, clock, deadline, &|| {
            interrupt.is_raised()
        })?;
        if let Some(failure) = &statistics.tls_failure {
            eprintln!("TLS failed: {failure}");
        }
        Ok((driver.finish(clock.now()), statistics))
    };
    let (mut retrieval, mut statistics) = visit(Visit::First, ValidatorCache::default())?;
    let mut is_cached = true;
    if arguments.visit == VisitChoice::Revalidate {
        // What the first visit lacks is fetched whole by the second, which is no revalidation.
        is_cached = Missing::of(&retrieval, options.list.as_deref()).complete;
        if !is_cached {
            for (target, failure) in &retrieval.failures {
                eprintln!(
                    "first visit: failed to fetch {target}: {}",
                    failure.in_words()
                );
            }
            eprintln!("the first visit is not complete: the second would also fetch files");
        }
        (retrieval, statistics) = visit(Visit::Revalidate, retrieval.cache)?;
    }
    let missing = Missing::of(&retrieval, options.list.as_deref());
    if arguments.json {
        print_json(arguments, policy, &retrieval, &missing, &statistics);
    } else {
        print_table(arguments, policy, &retrieval, &missing, &statistics);
    }
    for (target, failure) in &retrieval.failures {
        eprintln!("failed to fetch {target}: {}", failure.in_words());
    }
    missing.warn();
    Ok(if missing.complete && is_cached {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// What a retrieval lacks.
struct Missing<'r> {
    /// Files for which the server sent a status other than success: target and status.
    refused: Vec<(&'r str, u16)>,
    /// The status of the page itself, if it is one of these.
    page_status: Option<u16>,
    /// References that were not followed because there were too many.
    left_out: u32,
    /// Whether nothing is missing.
    complete: bool,
}

impl<'r> Missing<'r> {
    fn of(retrieval: &'r Retrieval, list: Option<&PageList>) -> Missing<'r> {
        // The target of a bundle request is not a file, unless the list names it too.
        let is_file = |target: &str| {
            list.is_none_or(|list| target != list.folder || list.files.iter().any(|f| f == target))
        };
        let exchanges = retrieval.exchanges.iter().enumerate();
        let complete = exchanges.filter(|(_, exchange)| {
            exchange.outcome == Outcome::Complete && is_file(&exchange.target)
        });
        // The last response decides: a file may be requested again, in parts, or after a HEAD.
        let last: HashMap<&str, (usize, Option<u16>)> = complete
            .map(|(place, exchange)| (exchange.target.as_str(), (place, exchange.status)))
            .collect();
        let mut refused: Vec<(usize, &str, u16)> = last
            .into_iter()
            .filter_map(|(target, (place, status))| {
                let status = status.filter(|status| !is_success(*status))?;
                Some((place, target, status))
            })
            .collect();
        refused.sort_unstable();
        let base = retrieval.exchanges.first();
        let base = base.filter(|base| base.named_by.is_none());
        let page_status = base.and_then(|base| {
            let found = refused.iter().find(|(_, target, _)| *target == base.target);
            found.map(|(_, _, status)| *status)
        });
        let left_out = retrieval.counters.references_left_out;
        Missing {
            page_status,
            left_out,
            complete: retrieval.failures.is_empty()
                && refused.is_empty()
                && left_out == 0
                && retrieval.milestones.page_complete.is_some(),
            refused: refused
                .into_iter()
                .map(|(_, target, status)| (target, status))
                .collect(),
        }
    }

    fn warn(&self) {
        for (target, status) in self.refused.iter().take(LISTED) {
            let advice = match status {
                300..=399 => "; redirections are not followed, fetch the other URL",
                _ => "",
            };
            eprintln!("{target}: the server answered {status}{advice}");
        }
        if let Some(more @ 1..) = self.refused.len().checked_sub(LISTED) {
            eprintln!("and {more} more (--json lists them all)");
        }
        if self.left_out > 0 {
            eprintln!(
                "{} references were not followed: at most {MOST_FILES} files of one page are fetched",
                self.left_out
            );
        }
    }
}

/// Whether the status means that the file was received or is current.
fn is_success(status: u16) -> bool {
    matches!(status, 200..=299 | 304)
}

/// The requested policy, or the default of the scheme. The URL decides whether TLS is used.
fn policy_for(arguments: &FetchArguments, url: &Url) -> Result<Policy, Failure> {
    let usual = Policy::plain(Protocol::usual(url.secure));
    let mut policy = arguments.policy.unwrap_or(usual);
    if policy.protocol.has_optional_tls() {
        policy.tls |= url.secure;
    }
    match (url.secure, policy.tls) {
        (true, false) => Err(format!(
            "{policy} is without TLS, and the URL is https: write http, or --policy h2"
        )
        .into()),
        (false, true) => Err(format!(
            "{policy} is over TLS, and the URL is http: write https, or a policy without TLS"
        )
        .into()),
        (false, false) if arguments.security.are_given() => {
            Err("TLS options need an https URL".into())
        }
        _ => Ok(policy),
    }
}

/// Reads a list file: one target per line; blank lines and comments (`#`) are ignored.
fn read_list(file: &Path, folder: &Url) -> Result<PageList, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("failed to read {}: {error}", file.display()))?;
    let lines = text.lines().map(str::trim);
    let targets = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut files = Vec::new();
    for target in targets {
        if !target.starts_with('/') || target.contains(|c: char| !c.is_ascii_graphic()) {
            return Err(format!(
                "{}: {target:?} is not a request target: write /path, percent-encoded",
                file.display()
            )
            .into());
        }
        files.push(target.to_owned());
    }
    match files.is_empty() {
        true => Err(format!("{} names no file", file.display()).into()),
        false => Ok(PageList {
            folder: folder.target.clone(),
            files,
        }),
    }
}

fn quic_settings(
    tls: &Arc<ClientSettings>,
    options: &Options,
    offload: UdpOffload,
) -> Result<Arc<QuicSettings>, Failure> {
    let config = h3::client::Config {
        limits: options.limits,
        timeouts: options.timeouts,
        ..h3::client::Config::default()
    };
    let transport = TransportSettings::default();
    let sockets = QuicSockets::default().offloaded(offload);
    let settings = QuicSettings::new(tls, transport, sockets, config);
    Ok(Arc::new(settings.map_err(|error| error.to_string())?))
}

fn tls_settings(
    arguments: &FetchArguments,
    policy: Policy,
    clock: Clock,
) -> Result<Arc<ClientSettings>, Failure> {
    let mut options = arguments.security.options(clock)?;
    options.alpn = vec![policy.first_protocol().alpn().as_bytes().to_vec()];
    if options.key_log.is_none()
        && let Some(log) = KeyLogFile::of_environment()
    {
        let log = log.map_err(|error| format!("failed to write SSLKEYLOGFILE: {error}"))?;
        options.key_log = Some(log);
    }
    Ok(ClientSettings::new(options).map_err(|error| error.to_string())?)
}

fn print_protection(retrieval: &Retrieval) {
    let Some((connection, tls)) = retrieval
        .connections
        .iter()
        .find_map(|connection| Some((connection, connection.tls.as_ref()?)))
    else {
        return;
    };
    let protocol = connection
        .protocol
        .as_deref()
        .unwrap_or("no protocol by ALPN");
    println!(
        "  protection        {protocol}, TLS {}, {}{}",
        tls.version,
        tls.cipher_suite,
        if tls.resumed { ", resumed" } else { "" }
    );
    println!(
        "  handshake         {:.1} ms, {} sent, {} received",
        tls.finished.since(tls.begun).as_secs_f64() * 1e3,
        tls.sent,
        tls.received
    );
}

/// Prints which alternative services were announced, what became of them, and the exchanges over each protocol.
fn print_services(retrieval: &Retrieval) {
    let Some(start) = start_of(retrieval).filter(|_| !retrieval.services.is_empty()) else {
        return;
    };
    for service in &retrieval.services {
        let port = service.port.map(|port| format!(" on port {port}"));
        let what = match service.news {
            ServiceEvent::Known => "known from before",
            ServiceEvent::Found => "told of",
            ServiceEvent::Cleared => "taken back",
            ServiceEvent::Failed => "given up",
        };
        let failure = service
            .failure
            .map(|failure| format!(": {}", failure.name()));
        println!(
            "  HTTP/3            {what}{} after {:.1} ms{}",
            port.unwrap_or_default(),
            service.at.since(start).as_secs_f64() * 1e3,
            failure.unwrap_or_default()
        );
    }
    let over = |protocol: &str| {
        let connections = &retrieval.connections;
        let exchanges = retrieval.exchanges.iter().filter(|exchange| {
            let connection = connections.get(exchange.connection as usize);
            connection.and_then(|one| one.protocol.as_deref()) == Some(protocol)
        });
        exchanges.count()
    };
    println!(
        "  exchanges         {} over h2, {} over h3",
        over("h2"),
        over("h3")
    );
}

/// Prints how far field compression reduced the heads, if it was used.
fn print_heads(retrieval: &Retrieval) {
    let compressed = retrieval.exchanges.iter();
    let compressed = compressed.filter(|exchange| exchange.response_fields.is_some());
    let sums = compressed.fold([Bytes(0); 4], |[a, b, c, d], exchange| {
        [
            a + exchange.request_head,
            b + exchange.request_fields.unwrap_or(Bytes(0)),
            c + exchange.response_head,
            d + exchange.response_fields.unwrap_or(Bytes(0)),
        ]
    });
    let saved = |wire: Bytes, plain: Bytes| 100.0 * (1.0 - wire.as_f64() / plain.as_f64());
    let [up, plain_up, down, plain_down] = sums;
    if plain_up.0 > 0 && plain_down.0 > 0 {
        println!(
            "  request heads     {up} of {plain_up} before compression, {:.0} % saved",
            saved(up, plain_up)
        );
        println!(
            "  response heads    {down} of {plain_down}, {:.0} % saved",
            saved(down, plain_down)
        );
    }
}

fn start_of(retrieval: &Retrieval) -> Option<Instant> {
    retrieval
        .connections
        .first()
        .map(|connection| connection.opened)
}

fn print_json(
    arguments: &FetchArguments,
    policy: Policy,
    retrieval: &Retrieval,
    missing: &Missing<'_>,
    statistics: &LoopStatistics,
) {
    let start = start_of(retrieval);
    let since = |instant: Option<Instant>| Some(instant?.since(start?).as_secs_f64());
    let milestones = &retrieval.milestones;
    let value = serde_json::json!({
        "url": arguments.url,
        "policy": policy.to_string(),
        "complete": missing.complete,
        "elapsed_s": since(milestones.page_complete.filter(|_| missing.complete)),
        "html_s": since(milestones.base_complete.filter(|_| missing.page_status.is_none())),
        "critical_s": since(milestones.critical_complete),
        "sizes_known_s": since(milestones.sizes_known),
        "pushes": retrieval.counters.pushes_promised,
        "pushes_used": retrieval.counters.pushes_used,
        "requests_retried": retrieval.counters.requests_retried,
        "client_cpu_s": statistics.cpu_time.as_secs_f64(),
        "bundle": retrieval.bundle.as_ref().map(bundle_json),
        "bundled_unused": retrieval.counters.bundled_unused,
        "bundle_missed": retrieval.counters.bundle_missed,
        "files": retrieval.files,
        "exchanges": retrieval.exchanges,
        "connections": retrieval.connections,
        "services": retrieval.services,
        "udp": udp_json(statistics),
        "failures": retrieval.failures.iter()
            .map(|(target, failure)| serde_json::json!({ "target": target, "failure": failure }))
            .collect::<Vec<_>>(),
        "refused": missing.refused.iter()
            .map(|(target, status)| serde_json::json!({ "target": target, "status": status }))
            .collect::<Vec<_>>(),
        "references_left_out": missing.left_out,
    });
    println!("{value:#}");
}

/// Counts of datagrams and of QUIC's timers; `null` without QUIC.
fn udp_json(statistics: &LoopStatistics) -> Option<serde_json::Value> {
    let datagrams = &statistics.datagrams;
    (datagrams.send_calls > 0).then(|| {
        serde_json::json!({
            "sent": datagrams.sent,
            "send_calls": datagrams.send_calls,
            "received": datagrams.received,
            "receive_calls": datagrams.receive_calls,
            "receive_buffers": datagrams.receive_buffers,
            "timer_waits": statistics.transport_waits,
            "timer_lag_s": statistics.transport_lag.as_secs_f64(),
        })
    })
}

fn bundle_json(answer: &BundleAnswer) -> serde_json::Value {
    match answer {
        BundleAnswer::Whole { files } => serde_json::json!({ "answer": "whole", "files": files }),
        BundleAnswer::Current => serde_json::json!({ "answer": "current" }),
        BundleAnswer::Refused => serde_json::json!({ "answer": "refused" }),
        BundleAnswer::Broken { failure, reason } => {
            serde_json::json!({ "answer": "broken", "failure": failure, "reason": reason })
        }
    }
}

/// Prints the result of requesting all files at once, and when the files became usable.
fn print_files(retrieval: &Retrieval) {
    let counters = &retrieval.counters;
    if let Some(answer) = &retrieval.bundle {
        let answer = match answer {
            BundleAnswer::Whole { files } => format!(
                "{files} files in one response, {} of them not needed, {} missing",
                counters.bundled_unused, counters.bundle_missed
            ),
            BundleAnswer::Current => "current".to_owned(),
            BundleAnswer::Refused => "none: the server sent an ordinary response".to_owned(),
            BundleAnswer::Broken { failure, reason } => format!(
                "broken ({}): {reason}{}{} files requested one by one",
                failure.name(),
                if reason.is_empty() { "" } else { "; " },
                counters.bundle_missed
            ),
        };
        println!("  bundle            {answer}");
    }
    let count = |by: Delivery| retrieval.files.iter().filter(|file| file.by == by).count();
    let ways = [
        (Delivery::Bundled, "bundled"),
        (Delivery::Singly, "singly"),
        (Delivery::Pushed, "pushed"),
        (Delivery::Current, "current"),
        (Delivery::Cached, "cached"),
    ];
    let ways = ways.map(|(by, name)| (count(by), name));
    let ways = ways.iter().filter(|(count, _)| *count > 0);
    let ways: Vec<String> = ways
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let ways = match ways.is_empty() {
        true => "none".to_owned(),
        false => ways.join(", "),
    };
    println!("  files             {ways}");
    let files = &retrieval.files;
    if let (Some(start), Some(last)) = (start_of(retrieval), files.len().checked_sub(1)) {
        let at = |place: usize| files[place].usable.since(start).as_secs_f64() * 1e3;
        println!(
            "  usable            first {:.1} ms, half {:.1} ms, all {:.1} ms",
            at(0),
            at(last / 2),
            at(last)
        );
    }
}

fn print_table(
    arguments: &FetchArguments,
    policy: Policy,
    retrieval: &Retrieval,
    missing: &Missing<'_>,
    statistics: &LoopStatistics,
) {
    let start = start_of(retrieval);
    let shown = |instant: Option<Instant>| match (start, instant) {
        (Some(start), Some(instant)) => {
            format!("{:.1} ms", instant.since(start).as_secs_f64() * 1e3)
        }
        _ => "not reached".to_owned(),
    };
    let not_reached = match (missing.page_status, missing.refused.len(), missing.left_out) {
        (Some(status), _, _) => Some(format!("not reached: the server answered {status}")),
        (None, 0, 0) => None,
        (None, 0, left_out) => Some(format!("not reached: {left_out} references left out")),
        (None, 1, _) => Some("not reached: 1 file refused by the server".to_owned()),
        (None, files, _) => Some(format!("not reached: {files} files refused by the server")),
    };
    let complete = retrieval
        .exchanges
        .iter()
        .filter(|exchange| exchange.outcome == Outcome::Complete);
    let count = |status: u16| {
        complete
            .clone()
            .filter(|e| e.status == Some(status))
            .count()
    };
    let sent: Bytes = retrieval.connections.iter().map(|c| c.sent).sum();
    let received: Bytes = retrieval.connections.iter().map(|c| c.received).sum();
    let milestones = &retrieval.milestones;
    println!("{} by {policy}", arguments.url);
    let page_complete = not_reached.unwrap_or_else(|| shown(milestones.page_complete));
    println!("  page complete     {page_complete}");
    if arguments.list.is_none() && missing.page_status.is_none() {
        println!(
            "  critical complete {}",
            shown(milestones.critical_complete)
        );
        println!("  HTML complete     {}", shown(milestones.base_complete));
        println!("  image sizes known {}", shown(milestones.sizes_known));
    }
    print_files(retrieval);
    println!(
        "  exchanges         {} ({} x 200, {} x 206, {} x 304), {} retried",
        complete.clone().count(),
        count(200),
        count(206),
        count(304),
        retrieval.counters.requests_retried
    );
    println!("  connections       {}", retrieval.connections.len());
    print_protection(retrieval);
    print_services(retrieval);
    print_heads(retrieval);
    println!("  sent, received    {sent}, {received}");
    println!(
        "  processor time    {:.2} ms",
        statistics.cpu_time.as_secs_f64() * 1e3
    );
}
