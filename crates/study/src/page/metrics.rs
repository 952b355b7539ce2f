//! Extracts the metrics of a retrieval in a page study, and checks their validity.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fathometer_http::driver::{BundleAnswer, Policy, Retrieval};
use fathometer_model::{
    Bytes, CloseReason, ConnectionRecord, ExchangeRecord, Instant, Outcome, PathCertificate,
    ServiceEvent, TlsRecord, Validity,
};
use fathometer_packets::{Accounting, Class, Direction, Integrity, ServicePeriod};
use fathometer_sys::Clock;

use super::accounts::{Reading, Used, accumulated, zero_at};
use super::capture::STALL;
use super::factors::TlsLevel;
use super::site::PageSite;
use crate::experiment::ReplicateError;
use crate::spec::Limits;
use fathometer_lab::hosts::Side;
use fathometer_lab::server::ServerReport;
use fathometer_lab::wire::RING_FULL;
use fathometer_load::client::LoopStatistics;

/// The maximum number of CPU readings that become metrics for drawing the paper's figures. The replicate's folder
/// contains all readings.
const MOST_READINGS: usize = 20;

/// Checks that the hosts received every packet. The hosts of a page study have no limits. So a full ring means that
/// this machine was late, not that a host was busy.
pub(super) fn judge_rings(certificate: &PathCertificate, validity: &mut Validity) {
    for (host, direction) in [("server", &certificate.up), ("client", &certificate.down)] {
        if let Some(lost) = direction.drops.get(RING_FULL) {
            validity.invalidate(format!(
                "the {host}'s host dropped {lost} packets that it did not read in time (limit 0)"
            ));
        }
    }
}

/// Checks the validity of a replicate. The path is checked elsewhere.
pub(super) fn judge(
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
        let why = statistics.tls_failure.as_ref();
        let why = why.map_or_else(String::new, |words| format!(": {words}"));
        validity.invalidate(format!(
            "{} files failed, the first {target}: {}{why}",
            retrieval.failures.len(),
            failure.in_words()
        ));
    }
    let refused = retrieval
        .exchanges
        .iter()
        .find(|exchange| exchange.status.is_some_and(|status| status >= 400));
    if let Some(exchange) = refused {
        validity.invalidate(format!(
            "{} was answered with status {}",
            exchange.target,
            exchange.status.unwrap_or_default()
        ));
    }
    let limit = limits.map_or(Duration::from_millis(50), |limits| {
        Duration::from_micros(limits.lateness_max_us)
    });
    if statistics.busy_max > limit {
        validity.invalidate(format!(
            "the client was busy for {:.1?} without a break (limit {limit:.1?})",
            statistics.busy_max
        ));
    }
    if accounting.integrity != Integrity::Whole {
        validity.invalidate(format!(
            "the capture is not complete: {}",
            accounting.integrity
        ));
    }
}

/// Invalidates the replicate if its policy requests a bundle, but the bundle was broken or not sent.
pub(super) fn judge_bundle(policy: Policy, retrieval: &Retrieval, validity: &mut Validity) {
    let Some(bundle) = policy.bundle else { return };
    match &retrieval.bundle {
        Some(BundleAnswer::Whole { .. } | BundleAnswer::Current) => {}
        Some(BundleAnswer::Broken { reason, .. }) => {
            validity.invalidate(format!("the {bundle} was broken: {reason}"));
        }
        Some(BundleAnswer::Refused) | None => {
            validity.invalidate(format!("the server sent no {bundle}"));
        }
    }
}

/// Invalidates the replicate if its level requires resumed sessions or early data, but some connections lack them.
pub(super) fn judge_resumption(
    level: TlsLevel,
    connections: &[ConnectionRecord],
    validity: &mut Validity,
) {
    let secured: Vec<&TlsRecord> = connections.iter().filter_map(|c| c.tls.as_ref()).collect();
    let full = secured.iter().filter(|tls| !tls.resumed).count();
    if level.resumes && full > 0 {
        validity.invalidate(format!(
            "{full} of {} connections did not resume a TLS session (limit 0)",
            secured.len()
        ));
    }
    let with = |answer: bool| {
        let answers = secured.iter().filter(|tls| tls.early_data == Some(answer));
        answers.count()
    };
    let (accepted, refused) = (with(true), with(false));
    if level.early_data && refused > 0 {
        validity.invalidate(format!(
            "the server refused the early data of {refused} of {} connections (limit 0)",
            secured.len()
        ));
    } else if level.early_data && accepted == 0 && !secured.is_empty() {
        validity.invalidate("no connection sent early data".to_owned());
    }
}

/// Returns the period in which the server was active, from the path's capture.
pub(super) fn service_period(
    capture: &Path,
    retrieval: &Retrieval,
    clock: Clock,
) -> Result<Option<ServicePeriod>, ReplicateError> {
    let mut connections = retrieval.connections.iter();
    let Some(ready) = connections.find_map(|connection| connection.established) else {
        return Ok(None);
    };
    let last_byte = retrieval.exchanges.iter().filter_map(|e| e.last_byte).max();
    // The time stamps of captures are wall-clock times.
    let stamp = |at: Instant| clock.realtime_of(at).as_nanos() as u64;
    let times = stamp(ready)..=last_byte.map_or(u64::MAX, stamp);
    fathometer_packets::service_period_of_file(capture, times).map_err(|error| {
        ReplicateError::Capture {
            path: capture.display().to_string(),
            error,
        }
    })
}

/// Adds response times as defined by Fujinoki et al. At the client, from the first completed read to the last completed
/// read. At the server, from the arrival of the first request to the last packet of the last file.
pub(super) fn add_responses(
    metrics: &mut BTreeMap<String, f64>,
    retrieval: &Retrieval,
    period: Option<ServicePeriod>,
) {
    let exchanges = &retrieval.exchanges;
    let first = exchanges.iter().filter_map(|e| e.first_byte).min();
    let last = exchanges.iter().filter_map(|e| e.last_byte).max();
    if let (Some(first), Some(last)) = (first, last) {
        let time = last.since(first).as_secs_f64();
        metrics.insert("client_response_s".to_owned(), time);
    }
    if let Some(period) = period {
        let time = period.length_ns() as f64 / 1e9;
        metrics.insert("server_response_s".to_owned(), time);
    }
}

/// Adds the metrics of the server's disk reads.
pub(super) fn add_storage(
    metrics: &mut BTreeMap<String, f64>,
    report: &ServerReport,
    fetched: Option<Bytes>,
) {
    if let Some(origin) = &report.origin {
        metrics.insert("disk_opens".to_owned(), origin.disk_opens as f64);
        metrics.insert("disk_reads".to_owned(), origin.disk_reads as f64);
    }
    if let Some(fetched) = fetched {
        metrics.insert("disk_fetched_bytes".to_owned(), fetched.as_f64());
    }
}

/// Adds the times from the first connection attempt to the instants at which files were usable.
pub(super) fn add_usable(metrics: &mut BTreeMap<String, f64>, retrieval: &Retrieval) {
    let Some(start) = retrieval.connections.first().map(|c| c.opened) else {
        return;
    };
    let mut times: Vec<Instant> = retrieval.files.iter().map(|file| file.usable).collect();
    times.sort_unstable();
    let places = [
        ("usable_1_s", 1),
        ("usable_10_s", 10),
        ("usable_50_s", 50),
        ("usable_all_s", times.len()),
    ];
    for (name, place) in places {
        let usable = place.checked_sub(1).and_then(|place| times.get(place));
        if let Some(usable) = usable {
            let time = usable.since(start).as_secs_f64();
            metrics.insert(name.to_owned(), time);
        }
    }
}

/// Adds the metrics of a host's CPU time.
pub(super) fn add_processor(
    metrics: &mut BTreeMap<String, f64>,
    side: Side,
    used: Used,
    readings: &[Reading],
) {
    let host = side.name();
    let mut put = |name: &str, value: f64| {
        metrics.insert(format!("{host}_{name}"), value);
    };
    put("cpu_s", used.total().as_secs_f64());
    put("cpu_program_s", used.program.as_secs_f64());
    put("cpu_network_s", used.network.as_secs_f64());
    put("cpu_accumulated_pct", accumulated(readings, side));
    put("cpu_zero_at", zero_at(readings, side) as f64);
    for (n, reading) in readings.iter().take(MOST_READINGS).enumerate() {
        put(&format!("cpu_reading_{}_pct", n + 1), reading.of(side));
    }
}

/// Adds the metrics of a retrieval to the metrics of its packets.
pub(super) fn add(
    metrics: &mut BTreeMap<String, f64>,
    retrieval: &Retrieval,
    served: Option<u64>,
    report: &ServerReport,
    page: &PageSite,
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
        ("first_byte_s", since(start, milestones.base_first_byte)),
        ("critical_s", since(start, milestones.critical_complete)),
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
        let mean = |bytes: fn(&ExchangeRecord) -> Bytes| {
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
        .find(|e| e.target == page.base && e.status == Some(200))
    {
        put("html_bytes_coded", base.response_body.as_f64());
    }
    if let Some(base) = page
        .first
        .site
        .files
        .iter()
        .find(|file| file.path == page.base)
    {
        put("html_bytes", base.body.len().as_f64());
    }
    put(
        "requests_retried",
        f64::from(retrieval.counters.requests_retried),
    );
    put("flushes", f64::from(retrieval.counters.flushes()));
    put("flushes_timer", f64::from(retrieval.counters.flushes_timer));
    // The number of responses that the server passed to its kernel, but that the client did not receive completely.
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
    let bytes = &retrieval.bytes;
    for (name, value) in [
        ("first_byte_received_bytes", bytes.base_first_byte),
        ("html_received_bytes", bytes.base_complete),
        ("critical_received_bytes", bytes.critical_complete),
        ("page_received_bytes", bytes.page_complete),
    ] {
        if let Some(value) = value {
            put(name, value.as_f64());
        }
    }
    put("preloads", f64::from(retrieval.counters.preloads));
    put("pushes", f64::from(retrieval.counters.pushes_promised));
    put("pushes_used", f64::from(retrieval.counters.pushes_used));
    put("pushes_unused", f64::from(retrieval.counters.pushes_unused));
    put(
        "pushes_refused",
        f64::from(retrieval.counters.pushes_refused),
    );
    add_headers(&mut put, &retrieval.exchanges);
    add_handshakes(&mut put, retrieval);
    add_services(&mut put, retrieval);
    if let Some(cpu) = report.program_cpu {
        put("server_cpu_s", cpu.as_secs_f64());
    }
}

/// Adds the bytes of the header sections of all exchanges, on the wire and before compression. Without compression, the
/// two numbers are equal.
fn add_headers(put: &mut impl FnMut(&str, f64), exchanges: &[ExchangeRecord]) {
    let sum = |bytes: &dyn Fn(&ExchangeRecord) -> Bytes| -> f64 {
        exchanges.iter().map(|e| bytes(e).as_f64()).sum()
    };
    let up = sum(&|e| e.request_head);
    let down = sum(&|e| e.response_head);
    let plain_up = sum(&|e| e.request_fields.unwrap_or(e.request_head));
    let plain_down = sum(&|e| e.response_fields.unwrap_or(e.response_head));
    put("header_bytes_up", up);
    put("header_bytes_down", down);
    put("header_bytes", up + down);
    put("header_plain_bytes_up", plain_up);
    put("header_plain_bytes_down", plain_down);
    put("header_plain_bytes", plain_up + plain_down);
    if plain_up > 0.0 {
        let kept = (up + down) / (plain_up + plain_down);
        put("header_saved_pct", 100.0 * (1.0 - kept));
    }
    // Repeated fields are compressed only from the second request of a page.
    let later = || exchanges.iter().skip(1).filter(|e| !e.pushed);
    let (wire, plain) = later().fold((0.0, 0.0), |(wire, plain), e| {
        let fields = e.request_fields.unwrap_or(e.request_head);
        (wire + e.request_head.as_f64(), plain + fields.as_f64())
    });
    if plain > 0.0 {
        put("header_saved_repeated_pct", 100.0 * (1.0 - wire / plain));
    }
}

/// Adds the cost of the handshakes before the first request: round trips, bytes and time.
fn add_handshakes(put: &mut impl FnMut(&str, f64), retrieval: &Retrieval) {
    let connections = &retrieval.connections;
    put("connections_opened", connections.len() as f64);
    let ready = |c: &ConnectionRecord| c.established.map(|at| at.since(c.opened));
    if let Some(ready) = connections.first().and_then(ready) {
        put("ready_s", ready.as_secs_f64());
    }
    let protected: Vec<_> = connections.iter().filter_map(|c| c.tls.as_ref()).collect();
    let sum = |bytes: fn(&TlsRecord) -> Bytes| -> f64 {
        protected.iter().map(|tls| bytes(tls).as_f64()).sum()
    };
    put("handshake_bytes_up", sum(|tls| tls.sent));
    put("handshake_bytes_down", sum(|tls| tls.received));
    put("handshake_bytes", sum(|tls| tls.sent + tls.received));
    if let Some(first) = protected.first() {
        put("tls_s", first.finished.since(first.begun).as_secs_f64());
        put("tls_round_trips", f64::from(first.round_trips));
        let resumed = protected.iter().filter(|tls| tls.resumed).count();
        put("tls_resumed", resumed as f64);
        let early = protected.iter().filter(|tls| tls.early_data == Some(true));
        put("tls_early_data", early.count() as f64);
    }
}

/// Adds the metrics of alternative services if the policy uses them: the number of exchanges over HTTP/3, and the time
/// from the first connection to the announcement.
fn add_services(put: &mut impl FnMut(&str, f64), retrieval: &Retrieval) {
    let connections = &retrieval.connections;
    let Some(start) = connections.first().map(|connection| connection.opened) else {
        return;
    };
    let count = |news: ServiceEvent| {
        let services = retrieval.services.iter();
        services.filter(|service| service.news == news).count() as f64
    };
    let mut services = retrieval.services.iter();
    let Some(first) = services.find(|service| service.news != ServiceEvent::Failed) else {
        return;
    };
    let over_http3 = retrieval.exchanges.iter().filter(|exchange| {
        let connection = connections.get(exchange.connection as usize);
        connection.and_then(|one| one.protocol.as_deref()) == Some("h3")
    });
    put("exchanges_h3", over_http3.count() as f64);
    put("service_known_s", first.at.since(start).as_secs_f64());
    put("services_found", count(ServiceEvent::Found));
    put("services_failed", count(ServiceEvent::Failed));
}

/// Adds the UDP datagrams, the system calls that sent and received them, and the mean lag of QUIC's timers at the
/// client. These metrics are absent without QUIC.
pub(super) fn add_datagrams(
    metrics: &mut BTreeMap<String, f64>,
    statistics: &LoopStatistics,
    report: &ServerReport,
) {
    let server = report.origin.map(|origin| origin.datagrams);
    let sides = [
        ("client", statistics.datagrams),
        ("server", server.unwrap_or_default()),
    ];
    for (side, datagrams) in sides {
        if datagrams.send_calls == 0 {
            continue;
        }
        let mut put = |name: &str, value: u64| {
            metrics.insert(format!("{side}_udp_{name}"), value as f64);
        };
        put("sent", datagrams.sent);
        put("send_calls", datagrams.send_calls);
        put("received", datagrams.received);
        put("receive_buffers", datagrams.receive_buffers);
    }
    if statistics.transport_waits > 0 {
        let lag = statistics.transport_lag.as_secs_f64() / statistics.transport_waits as f64;
        metrics.insert("client_quic_timer_lag_us".to_owned(), lag * 1e6);
    }
}

/// Counts idle gaps, before the page was complete, that a delayed acknowledgement ended. In the capture, the client's
/// acknowledgement appears immediately, but the server's acknowledgement appears one round trip later.
pub(super) fn stalls(
    accounting: &Accounting,
    retrieval: &Retrieval,
    clock: Clock,
    round_trip: Duration,
) -> usize {
    let Some(complete) = retrieval.milestones.page_complete else {
        return 0;
    };
    // The time stamps of captures are wall-clock times.
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

#[cfg(test)]
mod tests {
    use super::super::factors::TLS;
    use super::*;

    #[test]
    fn a_packet_that_a_host_did_not_receive_in_time_makes_a_page_invalid() {
        let mut certificate = PathCertificate::default();
        let mut validity = Validity::default();
        certificate.up.drops.insert("queue-full".to_owned(), 9);
        judge_rings(&certificate, &mut validity);
        assert!(validity.is_valid());
        certificate.down.drops.insert(RING_FULL.to_owned(), 3);
        judge_rings(&certificate, &mut validity);
        assert_eq!(
            validity.reasons,
            ["the client's host dropped 3 packets that it did not read in time (limit 0)"]
        );
    }

    /// Returns a connection that did or did not resume a session, with the answer to its early data.
    fn connection(resumed: bool, early_data: Option<bool>) -> ConnectionRecord {
        ConnectionRecord {
            connection: 0,
            opened: Instant::ZERO,
            established: None,
            closed: None,
            exchanges: 0,
            sent: Bytes(0),
            received: Bytes(0),
            close: CloseReason::Finished,
            host: None,
            protocol: None,
            tls: Some(TlsRecord {
                begun: Instant::ZERO,
                finished: Instant::ZERO,
                version: "1.3".to_owned(),
                cipher_suite: String::new(),
                resumed,
                early_data,
                round_trips: 1,
                sent: Bytes(0),
                received: Bytes(0),
                certificates: Bytes(0),
            }),
            window_waits: Vec::new(),
        }
    }

    #[test]
    fn a_page_that_resumes_no_session_or_sends_no_early_data_is_invalid_if_it_should() {
        let reasons = |level: &str, connections: &[ConnectionRecord]| {
            let mut validity = Validity::default();
            judge_resumption(TLS.parse(level).unwrap(), connections, &mut validity);
            validity.reasons
        };
        let full = connection(false, None);
        let resumed = connection(true, None);
        let early = connection(true, Some(true));
        let refused = connection(true, Some(false));
        let none: [&str; 0] = [];
        assert_eq!(reasons("1.3", std::slice::from_ref(&full)), none);
        assert_eq!(
            reasons("1.2-resumed", &[resumed.clone(), resumed.clone()]),
            none
        );
        assert_eq!(
            reasons("1.3-resumed", &[resumed.clone(), full]),
            ["1 of 2 connections did not resume a TLS session (limit 0)"]
        );
        assert_eq!(reasons("1.3-early", std::slice::from_ref(&early)), none);
        assert_eq!(
            reasons("1.3-early", &[early, refused]),
            ["the server refused the early data of 1 of 2 connections (limit 0)"]
        );
        assert_eq!(
            reasons("1.3-early", &[resumed]),
            ["no connection sent early data"]
        );
    }
}
