//! The measured window in Prometheus' text exposition format 0.0.4, for a textfile collector or a push
//! gateway.
//!
//! Counters and histograms cover one test. The next test starts again at zero. So each test needs its own label (the
//! collector's job or grouping key). The settings of the test are in
//! `fathometer_load_info`.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::{Distribution, Handshakes, LoadResult, Window, phases, rates};

/// Upper bounds of the histograms' buckets, in seconds: 1, 2.5 and 5 in every decade from 10 µs to
/// 100 s.
const BOUNDS: [&str; 22] = [
    "0.00001", "0.000025", "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005",
    "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "25", "50", "100",
];

/// The result in the text exposition format.
pub fn render(result: &LoadResult) -> String {
    let (setup, window) = (&result.setup, &result.measured);
    let (counts, bytes) = (&window.counts, &window.bytes);
    let mut out = Exposition::default();

    out.family("info", "gauge", "The URL, workload and policy of the test.");
    out.sample(
        "info",
        &[
            ("url", &setup.url),
            ("workload", &setup.workload),
            ("policy", &setup.policy),
            ("seed", &setup.seed.to_string()),
            ("version", &setup.version),
        ],
        1,
    );
    out.gauge(
        "valid",
        "Whether the result is valid: 1, or 0 if it is INVALID.",
        u8::from(result.validity.is_valid()),
    );
    out.gauge(
        "start_time_seconds",
        "Start of the test since the Unix epoch.",
        setup.started,
    );
    out.gauge(
        "measured_seconds",
        "Length of the measured window.",
        window.duration.as_secs_f64(),
    );

    out.counter("planned", "Planned exchanges.", counts.planned);
    out.counter(
        "sent",
        "Exchanges whose request was handed to the transport.",
        counts.sent,
    );
    out.family(
        "responses_total",
        "counter",
        "Complete responses, by status code.",
    );
    for (status, count) in &counts.statuses {
        out.sample("responses_total", &[("code", &status.to_string())], count);
    }
    out.family(
        "failures_total",
        "counter",
        "Exchanges that failed, by reason.",
    );
    for (failure, count) in &counts.failures {
        let reason = failure.name();
        out.sample("failures_total", &[("reason", reason)], count);
    }
    out.counter(
        "unfinished",
        "Exchanges neither completed nor failed at the end of the drain.",
        counts.unfinished,
    );
    out.counter(
        "wrong_size",
        "Responses whose content length differs from the plan.",
        counts.wrong_size,
    );
    out.counter(
        "retried",
        "Requests retried because their connection closed before a response.",
        counts.retried,
    );
    out.counter("connects", "Connections attempted.", counts.connects);
    out.family(
        "connect_failures_total",
        "counter",
        "Connections that could not be established, by reason.",
    );
    for (failure, count) in &counts.connect_failures {
        let reason = failure.name();
        out.sample("connect_failures_total", &[("reason", reason)], count);
    }
    let connections = &window.connections;
    out.family(
        "connections_ended_total",
        "counter",
        "Closed connections, by the side that closed them.",
    );
    for (by, count) in [
        ("client", connections.closed_by_client),
        ("server", connections.closed_by_server),
        ("failure", connections.failed),
    ] {
        out.sample("connections_ended_total", &[("by", by)], count);
    }
    out.family(
        "connection_seconds_total",
        "counter",
        "Total open time of connections: busy with a request in flight, idle without.",
    );
    let busy = connections.open.saturating_sub(connections.idle);
    for (state, time) in [("busy", busy), ("idle", connections.idle)] {
        let labels = [("state", state)];
        out.sample("connection_seconds_total", &labels, time.as_secs_f64());
    }
    out.family(
        "bytes_total",
        "counter",
        "Bytes above TCP. Bytes of incomplete responses are only in the part failed.",
    );
    for (direction, part, bytes) in [
        ("request", "head", bytes.request_heads),
        ("request", "body", bytes.request_bodies),
        ("response", "head", bytes.response_heads),
        ("response", "body", bytes.response_bodies),
        ("response", "failed", bytes.failed_responses),
    ] {
        let labels = [("direction", direction), ("part", part)];
        out.sample("bytes_total", &labels, bytes.0);
    }

    tls(&mut out, &window.handshakes);
    fields(&mut out, window);
    http2(&mut out, window);
    quic(&mut out, window);

    out.rate(
        "offered_per_second",
        "Planned exchanges per second.",
        rates::offered(window),
    );
    out.rate(
        "achieved_per_second",
        "Completed exchanges per second.",
        rates::achieved(window),
    );
    out.rate(
        "goodput_bytes_per_second",
        "Content bytes per second of complete responses with a status below 400, without transfer coding.",
        rates::goodput(window),
    );
    out.rate(
        "littles_load_factor",
        "Sum of corrected response times over the measured time.",
        rates::load_factor(window),
    );

    out.family(
        "phase_seconds",
        "histogram",
        "Duration of each phase of an exchange, to 3 significant digits.",
    );
    for (phase, times) in phases::of(&window.latency) {
        if !times.is_empty() {
            out.histogram("phase_seconds", phase, times);
        }
    }

    let generator = &result.generator;
    out.family(
        "generator_cpu_seconds_total",
        "counter",
        "CPU time of the generator.",
    );
    for (mode, time) in [
        ("user", generator.cpu_user),
        ("system", generator.cpu_system),
    ] {
        out.sample(
            "generator_cpu_seconds_total",
            &[("mode", mode)],
            time.as_secs_f64(),
        );
    }
    out.family(
        "generator_busy_wait_seconds_total",
        "counter",
        "CPU time of the generator spent busy-waiting before planned instants.",
    );
    out.sample(
        "generator_busy_wait_seconds_total",
        &[],
        generator.busy_waited().as_secs_f64(),
    );
    out.family(
        "generator_thread_busy_ratio",
        "gauge",
        "Share of the window in which a thread was not waiting.",
    );
    for (thread, worker) in generator.workers.iter().enumerate() {
        out.sample(
            "generator_thread_busy_ratio",
            &[("thread", &thread.to_string())],
            worker.busy,
        );
    }
    out.gauge(
        "generator_peak_memory_bytes",
        "Peak memory of the generator.",
        generator.peak_memory.0,
    );
    out.text
}

/// Metrics of TLS; none if TLS was not used.
fn tls(out: &mut Exposition, handshakes: &Handshakes) {
    if handshakes.count() == 0 {
        return;
    }
    out.family(
        "tls_handshakes_total",
        "counter",
        "Completed TLS handshakes, full or resumed.",
    );
    for (kind, count) in [("full", handshakes.full), ("resumed", handshakes.resumed)] {
        out.sample("tls_handshakes_total", &[("kind", kind)], count);
    }
    out.family(
        "tls_early_data_total",
        "counter",
        "TLS handshakes with early data, taken or refused by the server.",
    );
    for (outcome, count) in [
        ("taken", handshakes.early),
        ("refused", handshakes.early_refused),
    ] {
        out.sample("tls_early_data_total", &[("outcome", outcome)], count);
    }
    out.family(
        "tls_handshake_bytes_total",
        "counter",
        "Bytes of TLS records, or of datagrams with QUIC, until TLS was established.",
    );
    for (direction, bytes) in [("sent", handshakes.sent), ("received", handshakes.received)] {
        let labels = [("direction", direction)];
        out.sample("tls_handshake_bytes_total", &labels, bytes.0);
    }
    out.family(
        "tls_handshake_cpu_seconds_total",
        "counter",
        "CPU time of the generator within TLS handshakes.",
    );
    let seconds = handshakes.cpu.as_secs_f64();
    out.sample("tls_handshake_cpu_seconds_total", &[], seconds);
    out.family(
        "tls_agreed_total",
        "counter",
        "TLS handshakes by negotiated parameters.",
    );
    for (agreed, count) in &handshakes.agreed {
        out.sample("tls_agreed_total", &[("agreed", agreed)], count);
    }
}

/// Metrics of field compression; none if fields were not compressed.
fn fields(out: &mut Exposition, window: &Window) {
    if window.frames.is_empty() && window.datagrams.is_empty() {
        return;
    }
    out.family(
        "header_field_bytes_total",
        "counter",
        "Bytes of header fields before compression.",
    );
    for (direction, bytes) in [
        ("request", window.bytes.request_fields),
        ("response", window.bytes.response_fields),
    ] {
        let labels = [("direction", direction)];
        out.sample("header_field_bytes_total", &labels, bytes.0);
    }
}

/// Metrics of QUIC; none if HTTP/3 was not used.
fn quic(out: &mut Exposition, window: &Window) {
    let datagrams = &window.datagrams;
    if datagrams.is_empty() {
        return;
    }
    out.family("datagrams_total", "counter", "QUIC datagrams.");
    out.sample("datagrams_total", &[("direction", "sent")], datagrams.sent);
    out.sample(
        "datagrams_total",
        &[("direction", "received")],
        datagrams.received,
    );
    out.family(
        "datagrams_lost_total",
        "counter",
        "QUIC packets declared lost, and datagrams that this machine's kernel dropped.",
    );
    for (by, lost) in [
        ("path", datagrams.lost),
        ("overflow", datagrams.overflowed),
        ("unsent", datagrams.unsent),
    ] {
        out.sample("datagrams_lost_total", &[("by", by)], lost);
    }
}

/// Metrics of HTTP/2 frames; none if HTTP/2 was not used.
fn http2(out: &mut Exposition, window: &Window) {
    let frames = &window.frames;
    if frames.is_empty() {
        return;
    }
    let ways = [("sent", &frames.sent), ("received", &frames.received)];
    out.family("frames_total", "counter", "HTTP/2 frames, by type.");
    for (direction, kinds) in ways {
        for (kind, count) in kinds {
            let labels = [("direction", direction), ("type", kind)];
            out.sample("frames_total", &labels, count.frames);
        }
    }
    out.family(
        "frame_bytes_total",
        "counter",
        "Bytes of HTTP/2 frames including their headers, by type.",
    );
    for (direction, kinds) in ways {
        for (kind, count) in kinds {
            let labels = [("direction", direction), ("type", kind)];
            out.sample("frame_bytes_total", &labels, count.bytes.0);
        }
    }
    out.gauge(
        "most_streams",
        "Largest number of concurrently open streams on one connection.",
        frames.most_streams,
    );
}

#[derive(Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP fathometer_load_{name} {help}");
        let _ = writeln!(self.text, "# TYPE fathometer_load_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "fathometer_load_{name}{labels} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn rate(&mut self, name: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.gauge(name, help, value);
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        self.sample(&name, &[], value);
    }

    fn histogram(&mut self, name: &str, phase: &str, times: &Distribution) {
        let bucket = format!("{name}_bucket");
        for bound in BOUNDS {
            let seconds: f64 = bound.parse().expect("bounds are numbers");
            let time = Duration::from_secs_f64(seconds);
            let count = match times.max() {
                // The maximum is exact, but the histogram is not.
                Some(max) if max <= time => times.count(),
                _ => times.count_up_to(time),
            };
            self.sample(&bucket, &[("phase", phase), ("le", bound)], count);
        }
        self.sample(&bucket, &[("phase", phase), ("le", "+Inf")], times.count());
        let of_phase = [("phase", phase)];
        let sum = times.sum().as_secs_f64();
        self.sample(&format!("{name}_sum"), &of_phase, sum);
        self.sample(&format!("{name}_count"), &of_phase, times.count());
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
