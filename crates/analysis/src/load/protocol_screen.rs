//! The part of the final screen about TLS, HTTP/2 and HTTP/3.

use fathometer_model::Bytes;

use super::lines::line;
use super::quantity::{bytes, count, counted, percent, time};
use super::{Handshakes, Window};

/// The lines of the screen; empty if neither TLS, HTTP/2 nor QUIC was used.
pub(super) fn lines(window: &Window) -> String {
    let mut text = String::new();
    if window.handshakes.count() > 0 {
        text.push_str(&line("TLS", &handshakes(&window.handshakes)));
    }
    if !window.frames.is_empty() {
        text.push_str(&line("HTTP/2", &frames(window)));
    }
    if !window.datagrams.is_empty() {
        text.push_str(&line("HTTP/3", &datagrams(window)));
    }
    text
}

fn handshakes(handshakes: &Handshakes) -> String {
    let all = handshakes.count();
    let kinds = [
        (handshakes.full, "full"),
        (handshakes.resumed, "resumed"),
        (handshakes.early, "with early data"),
        (handshakes.early_refused, "with early data refused"),
    ];
    let kinds: Vec<String> = kinds
        .into_iter()
        .filter(|&(times, _)| times > 0)
        .map(|(times, kind)| format!("{} {kind}", count(times)))
        .collect();
    let mut agreed: Vec<(&String, u64)> = handshakes.agreed.iter().map(|(a, n)| (a, *n)).collect();
    agreed.sort_by_key(|&(_, times)| std::cmp::Reverse(times));
    let agreed: Vec<String> = match agreed.as_slice() {
        [(only, _)] => vec![(*only).clone()],
        several => several
            .iter()
            .map(|(agreed, times)| format!("{agreed}: {}", count(*times)))
            .collect(),
    };
    format!(
        "{} ({}); {}; {} sent, {} received and {} of CPU each",
        counted(all, "handshake"),
        kinds.join(", "),
        agreed.join("; "),
        bytes(handshakes.sent.as_f64() / all as f64),
        bytes(handshakes.received.as_f64() / all as f64),
        time(handshakes.cpu.div_f64(all as f64)),
    )
}

fn frames(window: &Window) -> String {
    let frames = &window.frames;
    let (sent, received) = frames.count();
    let mut facts: Vec<String> = compression(window).into_iter().collect();
    let allowed = match frames.allowed_streams {
        Some(allowed) => format!(", {} allowed", count(allowed)),
        None => String::new(),
    };
    facts.push(format!(
        "at most {} at a time on a connection{allowed}",
        counted(frames.most_streams, "stream")
    ));
    facts.push(format!(
        "{} frames sent, {} received",
        count(sent),
        count(received)
    ));
    facts.join("; ")
}

fn datagrams(window: &Window) -> String {
    let datagrams = &window.datagrams;
    let mut facts: Vec<String> = compression(window).into_iter().collect();
    facts.push(format!(
        "at most {} at a time on a connection",
        counted(datagrams.most_streams, "stream")
    ));
    facts.push(format!(
        "{} sent ({} on average), {} received ({})",
        counted(datagrams.sent, "datagram"),
        mean(datagrams.sent_bytes, datagrams.sent),
        count(datagrams.received),
        mean(datagrams.received_bytes, datagrams.received),
    ));
    facts.push(format!(
        "{} declared lost",
        counted(datagrams.lost, "packet")
    ));
    facts.join("; ")
}

fn mean(sum: Bytes, times: u64) -> String {
    bytes(sum.as_f64() / times.max(1) as f64)
}

/// The savings from header compression.
fn compression(window: &Window) -> Option<String> {
    let (requests, responses) = window.bytes.savings()?;
    Some(format!(
        "headers {} and {} smaller by compression (from {} B of requests, {} B of responses)",
        percent(requests),
        percent(responses),
        count(window.bytes.request_fields.0),
        count(window.bytes.response_fields.0),
    ))
}
