//! `fathometer fetch`: retrieves one page, or a list of files, from any server with a connection policy.

mod json;
mod screen;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fathometer_http::driver::{
    Flush, MOST_FILES, Missing, Options, PageDriver, PageList, Policy, Priorities, Protocol,
    Retrieval, Revalidation, ValidatorCache, Visit,
};
use fathometer_http::h3;
use fathometer_model::{Bytes, ContentCoding, Instant, Seed};
use fathometer_quic::TransportSettings;
use fathometer_sys::{Clock, Interrupt, SocketOptions};
use fathometer_tls::ClientSettings;

use super::arguments::whole_seconds;
use super::load::security::SecurityArguments;
use super::{Failure, usage};
use fathometer_files::key_log::KeyLogFile;
use fathometer_load::client::{self, ClientSockets};
use fathometer_load::http3_client::ClientSettings as QuicSettings;
use fathometer_load::url::Url;
use fathometer_quic_sockets::{Sockets as QuicSockets, UdpOffload};

/// Number of refused targets that the screen lists.
const LISTED: usize = 20;

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// The page: http://host[:port]/path or https://host[:port]/path
    url: String,
    /// Connection policy: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipeline, h1.1-pipeline-ranges, h2, h2c,
    /// h2xN, h2-sharded, h2-push, h3, h3-alt-svc (h2 until the server announces h3 by Alt-Svc) [default: h1.1 for
    /// http, h2 for https]. To request all files in one response, append -package, -package-v1, -package-delta, -tar,
    /// -tar-whole or -zip; package alone means h1.1-package
    #[arg(long)]
    policy: Option<Policy>,
    /// Fetch the files listed in FILE, one request target (/path) per line, instead of a page. The URL is the folder of
    /// these files; a package of the files is requested at this URL
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Priorities to send with requests: none, browser, round-robin
    #[arg(long, default_value = "none")]
    priority: Priorities,
    /// Visit to report; revalidate fetches the page twice and reports the second visit
    #[arg(long, value_enum, default_value = "first")]
    visit: VisitChoice,
    /// Validators that HTTP/1.0 and 1.1 use to revalidate
    #[arg(long, value_enum, default_value = "etag")]
    revalidation: RevalidationChoice,
    /// When to send the buffered requests of a pipeline: explicit (after the first request, and when no further
    /// request is possible), buffer (when the buffer is full), `timer-<n>ms` (after at most n ms)
    #[arg(long, default_value = "explicit")]
    flush: Flush,
    /// Size of the pipeline's request buffer, in bytes
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

/// Fetches the page and prints the measurements. Exit code 1 if files are missing: not received, answered with a
/// status other than success, or left out because the page has too many files.
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
        // The second visit fetches the missing files of the first visit in full, which is not a revalidation.
        is_cached = Missing::of(&retrieval, options.list.as_deref()).complete;
        if !is_cached {
            for (target, failure) in &retrieval.failures {
                eprintln!(
                    "first visit: failed to fetch {target}: {}",
                    failure.in_words()
                );
            }
            eprintln!("the first visit is incomplete: the second visit fetches missing files");
        }
        (retrieval, statistics) = visit(Visit::Revalidate, retrieval.cache)?;
    }
    let missing = Missing::of(&retrieval, options.list.as_deref());
    if arguments.json {
        json::print_json(arguments, policy, &retrieval, &missing, &statistics);
    } else {
        screen::print_table(arguments, policy, &retrieval, &missing, &statistics);
    }
    for (target, failure) in &retrieval.failures {
        eprintln!("failed to fetch {target}: {}", failure.in_words());
    }
    warn(&missing);
    Ok(if missing.complete && is_cached {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Prints the missing files of a retrieval.
fn warn(missing: &Missing<'_>) {
    for (target, status) in missing.refused.iter().take(LISTED) {
        let advice = match status {
            300..=399 => "; redirections are not followed: fetch the URL in its Location field",
            _ => "",
        };
        eprintln!("{target}: the server answered {status}{advice}");
    }
    if let Some(more @ 1..) = missing.refused.len().checked_sub(LISTED) {
        eprintln!("and {more} more (--json lists them all)");
    }
    if missing.left_out > 0 {
        eprintln!(
            "{} references were not followed: at most {MOST_FILES} files of one page are fetched",
            missing.left_out
        );
    }
}

/// Returns the requested policy, or the default of the scheme. Rejects a policy that does not fit the URL's scheme.
fn policy_for(arguments: &FetchArguments, url: &Url) -> Result<Policy, Failure> {
    let usual = Policy::plain(Protocol::usual(url.secure));
    let mut policy = arguments.policy.unwrap_or(usual);
    if policy.protocol.has_optional_tls() {
        policy.tls |= url.secure;
    }
    match (url.secure, policy.tls) {
        (true, false) => Err(usage(format!(
            "{policy} does not use TLS, but the URL is https: write http, or --policy h2"
        ))),
        (false, true) => Err(usage(format!(
            "{policy} uses TLS, but the URL is http: write https, or a policy without TLS"
        ))),
        (false, false) if arguments.security.are_given() => {
            Err(usage("TLS options need an https URL"))
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
        true => Err(format!("{} lists no file: write one /path per line", file.display()).into()),
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

/// Returns the time at which the first connection was opened: the zero point of all times in the output.
fn start_of(retrieval: &Retrieval) -> Option<Instant> {
    retrieval
        .connections
        .first()
        .map(|connection| connection.opened)
}
