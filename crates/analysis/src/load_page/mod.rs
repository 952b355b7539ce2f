//! The page of a load test: one HTML file without scripts, and without requests to the outside.
//!
//! The answer comes first, as on the screen. Then follow the test over time, the distribution of the latency, the
//! outcomes by status and URL, the connections, and the costs of the generator and the server. Everything is computed
//! from the [`LoadResult`].

mod charts;

use maud::{Markup, html};

use crate::load::{LoadResult, Summary, Verdict, bound, findings, screen};
use crate::page;

/// The content security policy: the page loads nothing, because styles and drawings are inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Number of URLs that are shown; the others are in the files.
const TARGETS: usize = 50;

/// Returns the whole page. `slos` are the verdicts on the SLOs, if there are any.
pub fn render(result: &LoadResult, slos: &[Verdict]) -> String {
    let summary = Summary::of(result);
    let sections: Vec<(&str, &str, Markup)> = [
        ("time", "Over time", charts::over_time(&summary)),
        ("latency", "Latency", latency(result, &summary)),
        ("outcomes", "Outcomes", outcomes(&summary)),
        ("connections", "Connections", connections(&summary)),
        ("cost", "What it cost", cost(result, &summary)),
        ("all", "All figures", everything(result, slos)),
    ]
    .into_iter()
    .filter(|(_, _, body)| !body.0.is_empty())
    .collect();
    let body = html! {
        a.skip href="#main" { "Skip to the results" }
        (header(result, &summary, slos))
        nav aria-label="Contents" {
            ol {
                @for (id, title, _) in &sections { li { a href={ "#" (id) } { (title) } } }
            }
        }
        main id="main" {
            @for (id, title, body) in &sections {
                section id=(id) { h2 { (title) } (body) }
            }
        }
        footer {
            "Made by fathometer " (summary.setup.version) ". "
            code { "fathometer load --json" } " has the same figures for programs."
        }
    };
    let title = format!("Load test of {}", summary.setup.url);
    page::page(&title, POLICY, &body).into_string()
}

fn header(result: &LoadResult, summary: &Summary, slos: &[Verdict]) -> Markup {
    let rates = &summary.measured.rates;
    let latency = summary.measured.phases.corrected;
    let counts = &summary.measured.counts;
    let errors = counts.failed + counts.status_errors + counts.unfinished;
    let valid = summary.validity.valid;
    html! {
        header {
            p.kicker { "Load test" }
            h1 { (summary.setup.url) }
            @if valid {
                p.answer { span.badge.holds { "valid" } " The bound was " (bound::of(result)) "." }
            } @else {
                p.answer.invalid {
                    span.badge.reversed { "INVALID" } " "
                    (summary.validity.reasons.join("; ")) "."
                }
            }
            div.tiles {
                (tile(&figure(rates.achieved_per_s, "/s"), "exchanges completed"))
                @if let Some(phase) = latency {
                    (tile(&figure(Some(phase.p50_ms), " ms"), "p50 of the latency"))
                    (tile(&figure(Some(phase.p99_ms), " ms"), "p99"))
                    (tile(&figure(Some(phase.p99_9_ms), " ms"), "p99.9"))
                }
                (tile(&errors.to_string(), &format!("errors of {} exchanges", counts.planned)))
            }
            @for verdict in slos {
                @let (class, word) = match (verdict.met, valid) {
                    (true, _) => ("holds", "kept"),
                    (false, true) => ("reversed", "broken"),
                    (false, false) => ("undecided", "inconclusive"),
                };
                p { span.badge.(class) { (word) } " " code { (verdict.slo) } " " (verdict.measured_text()) }
            }
            @for finding in findings::of(result) { p.partly { (finding) } }
            dl.facts {
                dt { "workload" } dd { (summary.setup.workload) }
                dt { "policy" } dd { (summary.setup.policy) }
                dt { "command" } dd { code { (summary.setup.command.join(" ")) } }
            }
        }
    }
}

fn tile(value: &str, meaning: &str) -> Markup {
    html! { div.tile { b { (value) } small { (meaning) } } }
}

/// A value with three significant digits and a unit; a dash if it was not measured.
fn figure(value: Option<f64>, unit: &str) -> String {
    use fathometer_model::digits::{grouped, significant};
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{}{unit}", grouped(value.round() as i64)),
        Some(value) => format!("{}{unit}", significant(value)),
    }
}

fn latency(result: &LoadResult, summary: &Summary) -> Markup {
    let phases = &summary.measured.phases;
    let rows = [
        ("corrected: from the planned instant", phases.corrected),
        (
            "uncorrected: from the request's first byte",
            phases.uncorrected,
        ),
        ("queue: waiting for a connection", phases.queue),
        ("send lag: the generator's delay", phases.send_lag),
        ("connect", phases.connect),
        ("TLS", phases.tls),
        ("first byte", phases.first_byte),
        ("transfer", phases.transfer),
        ("page", phases.page),
        ("failed", phases.failed),
    ];
    html! {
        (charts::distribution(&result.measured.latency.corrected))
        div.table {
            table.cells {
                thead { tr {
                    th { "milliseconds" }
                    @for head in ["min", "p50", "p90", "p99", "p99.9", "max", "mean", "count"] {
                        th.number { (head) }
                    }
                } }
                tbody {
                    @for (name, phase) in rows {
                        @if let Some(phase) = phase {
                            tr {
                                th { (name) }
                                @for value in [
                                    phase.min_ms, phase.p50_ms, phase.p90_ms, phase.p99_ms, phase.p99_9_ms,
                                    phase.max_ms, phase.mean_ms,
                                ] {
                                    td.number { (figure(Some(value), "")) }
                                }
                                td.number { (phase.count) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn outcomes(summary: &Summary) -> Markup {
    let counts = &summary.measured.counts;
    let statuses = counts
        .statuses
        .iter()
        .map(|(status, n)| (format!("status {status}"), *n));
    let failures = counts
        .failures
        .iter()
        .map(|(failure, n)| (failure.clone(), *n));
    let mut all: Vec<(String, u64)> = statuses.chain(failures).collect();
    all.push(("unfinished".to_owned(), counts.unfinished));
    all.retain(|(_, number)| *number > 0);
    let mut targets: Vec<_> = summary.targets.iter().collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.completed + target.failed));
    html! {
        (charts::bars("Exchanges by status and failure", &all))
        @if !targets.is_empty() {
            div.table {
                table.cells {
                    caption { "By URL" }
                    thead { tr { th { "URL" } th.number { "completed" } th.number { "failed" } } }
                    tbody {
                        @for target in targets.iter().take(TARGETS) {
                            tr {
                                th { (target.target) }
                                td.number { (target.completed) }
                                td.number { (target.failed) }
                            }
                        }
                    }
                }
            }
            @if targets.len() > TARGETS {
                p.remark { "The first " (TARGETS) " of " (targets.len()) " URLs; all are in " code { "--json" } "." }
            }
        } @else {
            p.remark { "Exchanges by URL are counted with " code { "--targets" } "." }
        }
    }
}

fn connections(summary: &Summary) -> Markup {
    let connections = &summary.measured.connections;
    let idle = connections.idle_share.map(|share| 100.0 * share);
    html! {
        dl.facts {
            dt { "established" } dd { (connections.established) }
            dt { "open on average" } dd { (figure(connections.mean_open, "")) }
            dt { "idle" } dd { (figure(idle, " % of the open time")) }
            dt { "closed by the client" } dd { (connections.closed_by_client) }
            dt { "closed by the server" } dd { (connections.closed_by_server) }
            dt { "failed" } dd { (connections.failed) }
        }
        (charts::connections(summary))
    }
}

fn cost(result: &LoadResult, summary: &Summary) -> Markup {
    let generator = &summary.generator;
    let busiest = generator.busiest_thread_share.map(|share| 100.0 * share);
    let lag = summary.measured.phases.send_lag.map(|phase| phase.p99_ms);
    let server = screen::server(result);
    html! {
        h3 { "The generator" }
        dl.facts {
            dt { "CPU time per exchange" } dd { (figure(generator.cpu_per_exchange_us, " µs")) }
            dt { "busiest thread" } dd { (figure(busiest, " %")) }
            dt { "send lag, p99" } dd { (figure(lag, " ms")) }
            dt { "memory" } dd { (figure(Some(generator.peak_memory_bytes as f64 / 1e6), " MB")) }
            dt { "CPU time stolen by the hypervisor" } dd { (figure(Some(100.0 * generator.steal_share), " %")) }
        }
        h3 { "The server" }
        @if server.is_empty() {
            p.remark { "Not measured: " code { "--probe PID" } " measures a server on this machine." }
        } @else {
            pre { (server.trim()) }
        }
    }
}

fn everything(result: &LoadResult, slos: &[Verdict]) -> Markup {
    html! { pre { (screen::details(result, slos)) } }
}
