//! `fathometer fetch`: one page from any server, by a connection policy.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fathometer_http::driver::{
    Flush, Options, PageDriver, Policy, Priorities, Protocol, Retrieval, Revalidation,
    ValidatorCache, Version, Visit,
};
use fathometer_model::{Bytes, ContentCoding, Instant, Outcome};
use fathometer_sys::{Clock, Interrupt, SocketOptions};
use fathometer_tls::ClientSettings;

use super::Failure;
use super::load::security::SecurityArguments;
use crate::client::{self, ClientSockets, alpn_name};
use crate::key_log::KeyLogFile;
use crate::url::Url;

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// The page: http://host[:port]/path or https://host[:port]/path
    url: String,
    /// How connections are used: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipeline,
    /// h1.1-pipeline-ranges, h2, h2c, h2xN, h2-sharded, h2-push; by default h1.1 for http and h2 for
    /// https
    #[arg(long)]
    policy: Option<Policy>,
    /// What requests say of their urgency: none, browser, round-robin
    #[arg(long, default_value = "none")]
    priority: Priorities,
    #[command(flatten)]
    security: SecurityArguments,
    /// `revalidate` fetches the page twice and reports the second visit
    #[arg(long, value_enum, default_value = "first")]
    visit: VisitChoice,
    /// How HTTP/1.0 and 1.1 revalidate
    #[arg(long, value_enum, default_value = "etag")]
    revalidation: RevalidationChoice,
    /// When buffered requests of a pipeline leave: explicit, buffer, `timer-<n>ms`
    #[arg(long, default_value = "explicit")]
    flush: Flush,
    /// Octets of that buffer
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    buffer: u64,
    /// Accept deflated and gzipped pages
    #[arg(long)]
    compressed: bool,
    /// Leave Nagle's algorithm on
    #[arg(long)]
    nagle: bool,
    /// Acknowledge every segment at once (TCP_QUICKACK)
    #[arg(long)]
    quickack: bool,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Print every exchange and connection as JSON
    #[arg(long)]
    json: bool,
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

/// Fetches the page and prints what it took. Exit code 1 when files could not be had.
pub fn run(arguments: &FetchArguments) -> Result<ExitCode, Failure> {
    let url = Url::parse(&arguments.url)?;
    let policy = policy_for(arguments, &url)?;
    let server = url.resolve()?;
    let interrupt = Interrupt::install()?;
    let mut flush = arguments.flush;
    flush.buffer = Bytes(arguments.buffer);
    let options = Options {
        host: url.authority.clone(),
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
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(!arguments.nagle),
            ..SocketOptions::default()
        },
        quick_ack: arguments.quickack.then_some(true),
        tls: match policy.tls {
            true => Some(tls_settings(arguments, policy, clock)?),
            false => None,
        },
        ..ClientSockets::default()
    };
    let visit = |visit: Visit, cache: ValidatorCache| -> Result<Retrieval, Failure> {
        let start = clock.now();
        let mut driver = PageDriver::new(
            policy,
            options.clone(),
            visit,
            url.target.clone(),
            cache,
            start,
        );
        let deadline = start + Duration::from_secs(arguments.timeout);
        let statistics = client::drive(&mut driver, server, &sockets, clock, deadline, &|| {
            interrupt.is_raised()
        })?;
        if let Some(failure) = statistics.tls_failure {
            eprintln!("TLS failed: {failure}");
        }
        Ok(driver.finish(clock.now()))
    };
    let mut retrieval = visit(Visit::First, ValidatorCache::default())?;
    if arguments.visit == VisitChoice::Revalidate {
        retrieval = visit(Visit::Revalidate, retrieval.cache)?;
    }
    if arguments.json {
        print_json(arguments, policy, &retrieval);
    } else {
        print_table(arguments, policy, &retrieval);
    }
    for (target, failure) in &retrieval.failures {
        eprintln!("{target} could not be had: {failure:?}");
    }
    let complete = retrieval.failures.is_empty() && retrieval.milestones.page_complete.is_some();
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// The policy that was asked for, or what is usual for the scheme. Over TLS or not is what the URL says.
fn policy_for(arguments: &FetchArguments, url: &Url) -> Result<Policy, Failure> {
    let usual = match url.secure {
        true => Protocol::Http2,
        false => Protocol::Http1(Version::Http11),
    };
    let mut policy = arguments.policy.unwrap_or(Policy::plain(usual));
    if policy.protocol == Protocol::Http3 {
        return Err(format!("pages cannot be fetched by {policy}: it is HTTP/3").into());
    }
    if !policy.protocol.multiplexes() {
        policy.tls |= url.secure;
    }
    match (url.secure, policy.tls) {
        (true, false) => Err(format!(
            "{policy} is without TLS, and the URL says https: write http, or --policy h2"
        )
        .into()),
        (false, true) => Err(format!(
            "{policy} is over TLS, and the URL says http: write https, or a policy without TLS"
        )
        .into()),
        (false, false) if arguments.security.are_given() => {
            Err("options of TLS need an https URL".into())
        }
        _ => Ok(policy),
    }
}

fn tls_settings(
    arguments: &FetchArguments,
    policy: Policy,
    clock: Clock,
) -> Result<Arc<ClientSettings>, Failure> {
    let mut options = arguments.security.options(clock)?;
    options.alpn = vec![alpn_name(policy.protocol).as_bytes().to_vec()];
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
    let protocol = connection.protocol.as_deref().unwrap_or("nothing by ALPN");
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

/// What compression made of the heads, where there was any.
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

fn print_json(arguments: &FetchArguments, policy: Policy, retrieval: &Retrieval) {
    let start = start_of(retrieval);
    let since = |instant: Option<Instant>| Some(instant?.since(start?).as_secs_f64());
    let milestones = &retrieval.milestones;
    let value = serde_json::json!({
        "url": arguments.url,
        "policy": policy.to_string(),
        "complete": retrieval.failures.is_empty() && milestones.page_complete.is_some(),
        "elapsed_s": since(milestones.page_complete),
        "html_s": since(milestones.base_complete),
        "critical_s": since(milestones.critical_complete),
        "sizes_known_s": since(milestones.sizes_known),
        "pushes": retrieval.counters.pushes_promised,
        "pushes_used": retrieval.counters.pushes_used,
        "requests_retried": retrieval.counters.requests_retried,
        "exchanges": retrieval.exchanges,
        "connections": retrieval.connections,
        "failures": retrieval.failures.iter()
            .map(|(target, failure)| serde_json::json!({ "target": target, "failure": failure }))
            .collect::<Vec<_>>(),
    });
    println!("{value:#}");
}

fn print_table(arguments: &FetchArguments, policy: Policy, retrieval: &Retrieval) {
    let start = start_of(retrieval);
    let shown = |instant: Option<Instant>| match (start, instant) {
        (Some(start), Some(instant)) => {
            format!("{:.1} ms", instant.since(start).as_secs_f64() * 1e3)
        }
        _ => "not reached".to_owned(),
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
    println!("  page complete     {}", shown(milestones.page_complete));
    println!(
        "  critical complete {}",
        shown(milestones.critical_complete)
    );
    println!("  HTML complete     {}", shown(milestones.base_complete));
    println!("  image sizes known {}", shown(milestones.sizes_known));
    println!(
        "  exchanges         {} ({} x 200, {} x 206, {} x 304), {} asked again",
        complete.clone().count(),
        count(200),
        count(206),
        count(304),
        retrieval.counters.requests_retried
    );
    println!("  connections       {}", retrieval.connections.len());
    print_protection(retrieval);
    print_heads(retrieval);
    println!("  sent, received    {sent}, {received}");
}
