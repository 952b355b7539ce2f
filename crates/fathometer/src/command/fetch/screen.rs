//! The result of a retrieval as text.

use fathometer_http::driver::{BundleAnswer, Missing, Policy, Retrieval};
use fathometer_load::client::LoopStatistics;
use fathometer_model::{Bytes, Delivery, Instant, Outcome, ServiceEvent};

use super::{FetchArguments, start_of};

pub(super) fn print_table(
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
        "  CPU time          {:.2} ms",
        statistics.cpu_time.as_secs_f64() * 1e3
    );
}

/// Prints the answer to a request for all files, and the times at which the files became usable.
fn print_files(retrieval: &Retrieval) {
    let counters = &retrieval.counters;
    if let Some(answer) = &retrieval.bundle {
        let answer = match answer {
            BundleAnswer::Whole { files } => format!(
                "{files} files in one response, {} not needed, {} missing",
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

/// Prints the announced alternative services, their outcomes, and the number of exchanges over each protocol.
fn print_services(retrieval: &Retrieval) {
    let Some(start) = start_of(retrieval).filter(|_| !retrieval.services.is_empty()) else {
        return;
    };
    for service in &retrieval.services {
        let port = service.port.map(|port| format!(" on port {port}"));
        let what = match service.news {
            ServiceEvent::Known => "known from before",
            ServiceEvent::Found => "announced",
            ServiceEvent::Cleared => "withdrawn",
            ServiceEvent::Failed => "abandoned",
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

/// Prints the bytes of header sections before and after HPACK or QPACK, if one of them was used.
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
            "  request headers   {up} of {plain_up} before compression, {:.0} % saved",
            saved(up, plain_up)
        );
        println!(
            "  response headers  {down} of {plain_down}, {:.0} % saved",
            saved(down, plain_down)
        );
    }
}
