//! `fathometer fetch`: one page from any server, by a connection policy.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fathometer_http::driver::{
    Flush, Options, PageDriver, Policy, Retrieval, Revalidation, ValidatorCache, Visit,
};
use fathometer_model::{Bytes, ContentCoding, Instant, Outcome};
use fathometer_sys::{Clock, Interrupt, SocketOptions};

use super::Failure;
use crate::client::{self, ClientSockets};
use crate::url::Url;

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// The page: http://host[:port]/path
    url: String,
    /// How connections are used: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipeline,
    /// h1.1-pipeline-ranges
    #[arg(long, default_value = "h1.1")]
    policy: Policy,
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
        ..Options::default()
    };
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(!arguments.nagle),
            ..SocketOptions::default()
        },
        quick_ack: arguments.quickack.then_some(true),
    };
    let clock = Clock::start();
    let visit = |visit: Visit, cache: ValidatorCache| -> Result<Retrieval, Failure> {
        let start = clock.now();
        let mut driver = PageDriver::new(
            arguments.policy,
            options.clone(),
            visit,
            url.target.clone(),
            cache,
            start,
        );
        let deadline = start + Duration::from_secs(arguments.timeout);
        client::drive(&mut driver, server, &sockets, clock, deadline, &|| {
            interrupt.is_raised()
        })?;
        Ok(driver.finish(clock.now()))
    };
    let mut retrieval = visit(Visit::First, ValidatorCache::default())?;
    if arguments.visit == VisitChoice::Revalidate {
        retrieval = visit(Visit::Revalidate, retrieval.cache)?;
    }
    if arguments.json {
        print_json(arguments, &retrieval);
    } else {
        print_table(arguments, &retrieval);
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

fn start_of(retrieval: &Retrieval) -> Option<Instant> {
    retrieval
        .connections
        .first()
        .map(|connection| connection.opened)
}

fn print_json(arguments: &FetchArguments, retrieval: &Retrieval) {
    let start = start_of(retrieval);
    let since = |instant: Option<Instant>| Some(instant?.since(start?).as_secs_f64());
    let milestones = &retrieval.milestones;
    let value = serde_json::json!({
        "url": arguments.url,
        "policy": arguments.policy.to_string(),
        "complete": retrieval.failures.is_empty() && milestones.page_complete.is_some(),
        "elapsed_s": since(milestones.page_complete),
        "html_s": since(milestones.base_complete),
        "sizes_known_s": since(milestones.sizes_known),
        "requests_retried": retrieval.counters.requests_retried,
        "exchanges": retrieval.exchanges,
        "connections": retrieval.connections,
        "failures": retrieval.failures.iter()
            .map(|(target, failure)| serde_json::json!({ "target": target, "failure": failure }))
            .collect::<Vec<_>>(),
    });
    println!("{value:#}");
}

fn print_table(arguments: &FetchArguments, retrieval: &Retrieval) {
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
    println!("{} by {}", arguments.url, arguments.policy);
    println!("  page complete     {}", shown(milestones.page_complete));
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
    println!("  sent, received    {sent}, {received}");
}
