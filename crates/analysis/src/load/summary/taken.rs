//! Builds a summary from a result.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::Failure;

use super::super::protocols::{DatagramsSummary, FramesSummary, HandshakesSummary};
use super::super::server::SuspicionSummary;
use super::super::{
    ByteCounts, Connections, Counts, Distribution, LoadResult, LoopKind, Numbers, Window, findings,
    rates, signals,
};
use super::{
    ByteCountsSummary, ConnectionsSummary, CountsSummary, FORMAT, GeneratorSummary,
    IntervalSummary, LoopSummary, NumbersSummary, Phase, PhasesSummary, RatesSummary,
    SequenceSummary, SetupSummary, Summary, TargetSummary, ThreadSummary, UserTimeSummary,
    ValiditySummary, WindowSummary,
};

impl Summary {
    /// The summary of a result, without verdicts; [`Summary::with_slos`] adds them.
    pub fn of(result: &LoadResult) -> Summary {
        Summary {
            format: FORMAT,
            validity: ValiditySummary {
                valid: result.validity.is_valid(),
                reasons: result.validity.reasons.clone(),
            },
            findings: findings::of(result),
            setup: setup(result),
            measured: window(&result.measured),
            warm_up: result.warm_up.as_ref().map(window),
            drain: result.drain.as_ref().map(window),
            user_time: result.user_time.map(|time| UserTimeSummary {
                users: time.users,
                busy: time.busy,
                paused: time.paused,
                slots: time.slots,
                tolerance_share: time.tolerance,
            }),
            generator: generator(result),
            server: result.server.clone(),
            suspected: signals::suspicions(result)
                .into_iter()
                .map(SuspicionSummary::from)
                .collect(),
            timeline: timeline(result),
            targets: result
                .targets
                .iter()
                .map(|target| TargetSummary {
                    target: target.target.clone(),
                    completed: target.completed,
                    failed: target.failed,
                })
                .collect(),
            skipped: result.skipped.clone(),
            sequence: result.sequence.map(|sequence| SequenceSummary {
                pages: sequence.pages,
                requested: sequence.requested,
                times: sequence.times(),
            }),
            ranks: result.ranks.clone(),
            slos: Vec::new(),
        }
    }
}

impl Phase {
    /// The figures of a distribution; `None` when it is empty.
    pub fn of(times: &Distribution) -> Option<Phase> {
        let at = |quantile| times.quantile(quantile).map(millis);
        Some(Phase {
            count: times.count(),
            min_ms: millis(times.min()?),
            max_ms: millis(times.max()?),
            mean_ms: millis(times.mean()?),
            sd_ms: millis(times.standard_deviation()?),
            within_sd_share: times.within_one_deviation()?,
            p50_ms: at(0.50)?,
            p75_ms: at(0.75)?,
            p90_ms: at(0.90)?,
            p95_ms: at(0.95)?,
            p98_ms: at(0.98)?,
            p99_ms: at(0.99)?,
            p99_9_ms: at(0.999)?,
            p99_99_ms: at(0.9999)?,
        })
    }
}

impl NumbersSummary {
    /// The figures of a distribution; `None` when it is empty.
    pub fn of(numbers: &Numbers) -> Option<NumbersSummary> {
        Some(NumbersSummary {
            count: numbers.count(),
            min: numbers.min()?,
            max: numbers.max()?,
            mean: numbers.mean()?,
            p50: numbers.quantile(0.50)?,
            p90: numbers.quantile(0.90)?,
            p99: numbers.quantile(0.99)?,
        })
    }
}

fn setup(result: &LoadResult) -> SetupSummary {
    let setup = &result.setup;
    SetupSummary {
        url: setup.url.clone(),
        workload: setup.workload.clone(),
        policy: setup.policy.clone(),
        kind: match &setup.kind {
            LoopKind::Closed { users } => LoopSummary::Closed { users: *users },
            LoopKind::Open {
                arrivals,
                rate,
                connections,
                batch,
            } => LoopSummary::Open {
                arrivals: arrivals.clone(),
                arrivals_per_s: *rate,
                connections: *connections,
                batch: *batch,
            },
        },
        threads: setup.threads,
        warm_up_s: setup.warm_up.as_secs_f64(),
        duration_s: setup.duration.map(|time| time.as_secs_f64()),
        exchanges: setup.exchanges,
        timeout_s: setup.timeout.as_secs_f64(),
        wake_up_coalescing_ms: millis(setup.wake_up_coalescing),
        seed: setup.seed.0,
        defaults: setup.defaults.iter().cloned().collect(),
        command: setup.command.clone(),
        version: setup.version.clone(),
        machine: setup.machine.clone(),
        started_s: setup.started,
    }
}

fn window(window: &Window) -> WindowSummary {
    let latency = &window.latency;
    let connected = window.ended.connected as f64 / window.duration.as_secs_f64();
    WindowSummary {
        duration_s: window.duration.as_secs_f64(),
        counts: counts(&window.counts),
        bytes: bytes(&window.bytes),
        rates: RatesSummary {
            offered_per_s: rates::offered(window),
            achieved_per_s: rates::achieved(window),
            throughput_bytes_per_s: rates::throughput(window),
            goodput_bytes_per_s: rates::goodput(window),
            connected_per_s: connected.is_finite().then_some(connected),
            errors_share: rates::error_share(window),
        },
        littles_load_factor: rates::load_factor(window),
        littles_load_factor_of_pages: rates::page_load_factor(window),
        connections: connections(window),
        tls: HandshakesSummary::of(&window.handshakes),
        http2: FramesSummary::of(&window.frames),
        quic: DatagramsSummary::of(&window.datagrams),
        phases: PhasesSummary {
            corrected: Phase::of(&latency.corrected),
            uncorrected: Phase::of(&latency.uncorrected),
            queue: Phase::of(&latency.queue),
            send_lag: Phase::of(&latency.send_lag),
            connect: Phase::of(&latency.connect),
            tls: Phase::of(&latency.tls),
            first_byte: Phase::of(&latency.first_byte),
            transfer: Phase::of(&latency.transfer),
            page: Phase::of(&latency.page),
            failed: Phase::of(&latency.failed),
        },
    }
}

fn connections(window: &Window) -> ConnectionsSummary {
    let connections: &Connections = &window.connections;
    ConnectionsSummary {
        established: window.ended.connected,
        ended: connections.ended(),
        closed_by_client: connections.closed_by_client,
        closed_by_server: connections.closed_by_server,
        failed: connections.failed,
        open_s: connections.open.as_secs_f64(),
        idle_s: connections.idle.as_secs_f64(),
        idle_share: connections.idle_share(),
        mean_open: rates::mean_open(window),
        life: Phase::of(&connections.life),
        exchanges: NumbersSummary::of(&connections.exchanges),
    }
}

fn counts(counts: &Counts) -> CountsSummary {
    CountsSummary {
        planned: counts.planned,
        sent: counts.sent,
        completed: counts.completed,
        failed: counts.failed(),
        unfinished: counts.unfinished,
        status_errors: counts.status_errors(),
        statuses: counts
            .statuses
            .iter()
            .map(|(status, count)| (status.to_string(), *count))
            .collect(),
        failures: by_reason(&counts.failures),
        wrong_size: counts.wrong_size,
        retried: counts.retried,
        connects: counts.connects,
        connected: counts.connected,
        connect_failures: by_reason(&counts.connect_failures),
        pages: counts.pages,
        pages_failed: counts.pages_failed,
        sessions: counts.sessions,
    }
}

fn by_reason(failed: &BTreeMap<Failure, u64>) -> BTreeMap<String, u64> {
    failed
        .iter()
        .map(|(failure, count)| (failure.name().to_owned(), *count))
        .collect()
}

fn bytes(bytes: &ByteCounts) -> ByteCountsSummary {
    ByteCountsSummary {
        request_heads_bytes: bytes.request_heads.0,
        request_fields_bytes: bytes.request_fields.0,
        request_savings_share: bytes.savings().map(|(requests, _)| requests),
        request_bodies_bytes: bytes.request_bodies.0,
        response_heads_bytes: bytes.response_heads.0,
        response_fields_bytes: bytes.response_fields.0,
        response_savings_share: bytes.savings().map(|(_, responses)| responses),
        response_bodies_bytes: bytes.response_bodies.0,
        content_bytes: bytes.content.0,
        failed_responses_bytes: bytes.failed_responses.0,
    }
}

fn generator(result: &LoadResult) -> GeneratorSummary {
    let generator = &result.generator;
    let busy = generator.workers.iter().map(|worker| worker.busy);
    let turns = generator.workers.iter().map(|worker| worker.longest_turn);
    GeneratorSummary {
        cpu_user_s: generator.cpu_user.as_secs_f64(),
        cpu_system_s: generator.cpu_system.as_secs_f64(),
        cpu_per_exchange_us: rates::cpu_per_exchange(result)
            .map(|(user, system)| (user + system).as_secs_f64() * 1e6),
        busy_wait_s: generator.busy_waited().as_secs_f64(),
        busiest_thread_share: busy.max_by(f64::total_cmp),
        longest_turn_ms: turns.max().map(millis),
        threads: generator
            .workers
            .iter()
            .map(|worker| ThreadSummary {
                busy_share: worker.busy,
                longest_turn_ms: millis(worker.longest_turn),
                rested_share: worker.rested,
                rest_latency_ratio: worker.rest_latency_ratio,
                busy_wait_s: worker.busy_waited.as_secs_f64(),
                wake_up_latency_ms: worker.wake_up_latency.map(millis),
            })
            .collect(),
        peak_memory_bytes: generator.peak_memory.0,
        descriptors: generator.descriptors.0,
        descriptors_limit: generator.descriptors.1,
        ports_exhausted: generator.ports_exhausted,
        steal_share: generator.steal,
    }
}

fn timeline(result: &LoadResult) -> Vec<IntervalSummary> {
    let intervals = result.timeline.iter();
    intervals
        .map(|interval| {
            let [p50_ms, p90_ms, p99_ms, max_ms] = interval.latency.map(|time| time.map(millis));
            IntervalSummary {
                start_s: interval.start.as_secs_f64(),
                length_s: interval.length.as_secs_f64(),
                planned: interval.planned,
                completed: interval.completed,
                errors: interval.errors,
                received_bytes: interval.received.0,
                connections: interval.connections,
                p50_ms,
                p90_ms,
                p99_ms,
                max_ms,
                send_lag_p99_ms: interval.send_lag_p99.map(millis),
            }
        })
        .collect()
}

/// Times are whole nanoseconds, so six decimals of a millisecond are exact.
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
