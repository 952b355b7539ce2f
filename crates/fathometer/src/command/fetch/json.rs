//! The result of a retrieval as JSON.

use fathometer_http::driver::{BundleAnswer, Missing, Policy, Retrieval};
use fathometer_load::client::LoopStatistics;
use fathometer_model::Instant;

use super::{FetchArguments, start_of};

pub(super) fn print_json(
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
