//! HTTP/2 in cleartext against servers that follow the protocol, and against servers that do not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::h2::error::ErrorCode;
use fathometer_http::h2::settings::id;
use fathometer_load::{Limit, LoadError, Options, Users, run};
use fathometer_model::{Bytes, Failure, Seed};
use fathometer_sys::Clock;
use fathometer_workload::arrivals::{Arrivals, Profile};
use fathometer_workload::plan::{Plan, Target};

use super::frames_server::{FramesServer, Move, Opening};
use super::{MILLI, adds_up, carry_out, single};
use crate::support::quiet::{below, in_a_quiet_moment, near};

/// Time limit of each step of these tests.
const LONG: Duration = Duration::from_secs(60);

fn options(server: &FramesServer, policy: &str) -> Options {
    Options {
        policy: policy.parse().unwrap(),
        ..Options::new(server.address, "localhost", single())
    }
}

#[test]
fn a_user_keeps_its_streams_full_and_counts_are_exact() {
    let opening = Opening {
        gathers: 5 * MILLI,
        ..Opening::default()
    };
    let server = FramesServer::start(opening, |_| Move::Answer(100));
    let mut options = options(&server, "h2c-streams8");
    options.users = Users::closed(3);
    options.threads = 2;
    options.limit = Limit::Exchanges(600);
    let result = carry_out(options);
    adds_up(&result);
    let measured = &result.measured;
    assert_eq!(measured.counts.completed, 600);
    assert_eq!((server.asked(), server.accepted()), (600, 3));
    assert_eq!(server.most_streams(), 8);
    let frames = &measured.frames;
    assert_eq!(frames.most_streams, 8);
    let (sent, received) = (&frames.sent["headers"], &frames.received["headers"]);
    assert_eq!((sent.frames, received.frames), (600, 600));
    assert_eq!(sent.bytes, measured.bytes.request_heads);
    assert_eq!(received.bytes, measured.bytes.response_heads);
    // One HEADERS frame with one byte of payload, which encodes `:status: 200`.
    assert_eq!(measured.bytes.response_heads, Bytes(600 * 10));
    assert_eq!(measured.bytes.response_fields, Bytes(600 * 10));
    assert_eq!(measured.bytes.response_bodies, Bytes(600 * 109));
    assert_eq!(measured.bytes.content, Bytes(600 * 100));
    assert!(measured.bytes.request_heads < measured.bytes.request_fields);
    // The client's SETTINGS, and its acknowledgement of the server's SETTINGS.
    assert_eq!(frames.sent["settings"].frames, 2 * 3);
    assert_eq!(measured.handshakes.count(), 0);
}

#[test]
fn the_servers_limit_of_streams_is_kept() {
    let opening = Opening {
        settings: Some(vec![(id::MAX_CONCURRENT_STREAMS, 3)]),
        gathers: 5 * MILLI,
        ..Opening::default()
    };
    let server = FramesServer::start(opening, |asked| match asked.number {
        // The client sends these requests before it has read the limit.
        0..100 => Move::Reset(ErrorCode::REFUSED_STREAM),
        _ => Move::Answer(100),
    });
    let mut options = options(&server, "h2c-streams100");
    options.users = Users::closed(1);
    options.limit = Limit::Exchanges(200);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.completed, counts.failed()), (200, 0), "{counts:?}");
    assert_eq!(counts.retried, server.asked() - 200);
    assert_eq!(result.measured.frames.allowed_streams, Some(3));
}

#[test]
fn an_open_loop_shares_connections_by_streams() {
    let server = FramesServer::start(Opening::default(), |_| {
        std::thread::sleep(MILLI);
        Move::Answer(100)
    });
    let mut options = options(&server, "h2c");
    options.users = Users::Open {
        arrivals: Arrivals::poisson(Profile::constant(500.0).unwrap(), Seed(3)),
        connections: 2,
    };
    options.limit = Limit::Time(600 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert!(counts.completed > 200 && counts.failed() == 0, "{counts:?}");
    assert!(server.accepted() <= 2, "{}", server.accepted());
    assert_eq!(server.asked(), counts.completed);
}

#[test]
fn a_stall_shows_in_the_corrected_latency_over_streams_too() {
    in_a_quiet_moment(42 * MILLI, stalled_once);
}

fn stalled_once() -> Result<(), String> {
    let stall = 1400 * MILLI;
    let server = FramesServer::start(Opening::default(), move |asked| {
        if asked.number == 200 {
            std::thread::sleep(stall);
        }
        Move::Answer(100)
    });
    let (rate, seconds) = (200.0, 4.0);
    let mut options = options(&server, "h2c-streams4");
    options.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(rate).unwrap()),
        connections: 1,
    };
    options.limit = Limit::Time(Duration::from_secs_f64(seconds));
    let result = carry_out(options);
    adds_up(&result);
    let latency = &result.measured.latency;
    assert_eq!(latency.corrected.count(), 800);
    for quantile in [0.75, 0.8, 0.85, 0.9, 0.95, 0.99] {
        // A request that is planned at time t after the start of the stall waits 1.4 s - t.
        let wanted = 1.4 - (1.0 - quantile) * seconds;
        let found = latency.corrected.quantile(quantile).unwrap().as_secs_f64();
        let what = format!("corrected {quantile}");
        near(&what, found, wanted, 0.03 * 1.4 / wanted)?;
    }
    // Only 4 of the 800 requests were in flight during the stall; the others waited for a stream.
    let uncorrected = latency.uncorrected.quantile(0.99).unwrap();
    below("uncorrected", uncorrected, 140 * MILLI)?;
    match latency.queue.max().unwrap() > 1300 * MILLI {
        true => Ok(()),
        false => Err(format!("queue: {:?}", latency.queue.max())),
    }
}

/// Runs 20 exchanges. Returns the failures by reason, the number of completed exchanges and the number of
/// retries.
fn outcome(
    opening: Opening,
    timeout: Duration,
    behaviour: impl Fn(super::frames_server::Asked) -> Move + Send + Sync + 'static,
) -> (BTreeMap<Failure, u64>, u64, u64) {
    let server = FramesServer::start(opening, behaviour);
    let mut options = options(&server, "h2c-streams4");
    options.users = Users::closed(1);
    options.timeout = timeout;
    options.limit = Limit::Exchanges(20);
    let result = carry_out(options);
    adds_up(&result);
    let counts = result.measured.counts;
    (counts.failures, counts.completed, counts.retried)
}

#[test]
fn protocol_faults_of_servers_are_classified() {
    let all = |failure| (BTreeMap::from([(failure, 20)]), 0);
    let cases: Vec<(&str, Opening, Move, _)> = vec![
        (
            "resets every stream",
            Opening::default(),
            Move::Reset(ErrorCode::INTERNAL_ERROR),
            all(Failure::StreamReset),
        ),
        (
            "refuses every stream",
            Opening::default(),
            Move::Reset(ErrorCode::REFUSED_STREAM),
            all(Failure::StreamReset),
        ),
        (
            "goes away before the first request",
            Opening::default(),
            Move::GoAway(100, ErrorCode::NO_ERROR),
            all(Failure::GoneAway),
        ),
        (
            "never answers",
            Opening::default(),
            Move::Silence,
            all(Failure::TimedOut),
        ),
        (
            "never sends its settings",
            Opening {
                settings: None,
                ..Opening::default()
            },
            Move::Silence,
            all(Failure::TimedOut),
        ),
        (
            "stops within a response",
            Opening::default(),
            Move::Part(10),
            all(Failure::TimedOut),
        ),
        (
            "speaks nonsense",
            Opening::default(),
            Move::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            all(Failure::BadResponse),
        ),
    ];
    for (what, opening, behaviour, (failures, completed)) in cases {
        // A case without timeouts gets all the time that a busy machine may need.
        let timeout = match failures.contains_key(&Failure::TimedOut) {
            true => 300 * MILLI,
            false => LONG,
        };
        let found = outcome(opening, timeout, move |_| behaviour.clone());
        assert_eq!((found.0, found.1), (failures, completed), "{what}");
    }
}

#[test]
fn a_server_that_shuts_down_in_order_fails_no_exchange() {
    // On every connection the server sends GOAWAY with the third request, and answers all three.
    let (failures, completed, _) = outcome(Opening::default(), LONG, |asked| match asked.before {
        0..2 => Move::Answer(100),
        _ => Move::GoAway(0, ErrorCode::NO_ERROR),
    });
    assert_eq!((failures, completed), (BTreeMap::new(), 20));
}

#[test]
fn a_stream_that_times_out_leaves_the_others_alone() {
    let server = FramesServer::start(Opening::default(), |asked| match asked.number {
        5 => Move::Silence,
        _ => {
            std::thread::sleep(2 * MILLI);
            Move::Answer(100)
        }
    });
    let mut options = options(&server, "h2c-streams4");
    options.users = Users::closed(1);
    // The timeout is longer than any delay of the other streams on a busy machine.
    options.timeout = 3000 * MILLI;
    options.limit = Limit::Exchanges(300);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!(counts.failures, BTreeMap::from([(Failure::TimedOut, 1)]));
    assert_eq!(counts.completed, 299);
    assert_eq!(server.accepted(), 1);
    assert_eq!(result.measured.frames.sent["rst-stream"].frames, 1);
}

#[test]
fn content_waits_for_the_servers_window() {
    // A window of 0: the content cannot be sent, and the exchange times out.
    let opening = Opening {
        settings: Some(vec![(id::INITIAL_WINDOW_SIZE, 0)]),
        ..Opening::default()
    };
    let server = FramesServer::start(opening, |_| Move::Silence);
    let plan = Plan::single(Target {
        method: "POST".into(),
        content: Some(vec![b'x'; 100_000].into()),
        ..Target::get("/x", None)
    });
    let mut options = Options {
        policy: "h2c".parse().unwrap(),
        ..Options::new(server.address, "localhost", Arc::new(plan))
    };
    options.users = Users::closed(2);
    options.timeout = 200 * MILLI;
    options.limit = Limit::Exchanges(6);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!(counts.failures, BTreeMap::from([(Failure::TimedOut, 6)]));
}

#[test]
fn policies_that_the_engine_does_not_support_are_refused() {
    let server = FramesServer::start(Opening::default(), |_| Move::Answer(1));
    for (policy, words) in [
        ("h3", "no settings for TLS"),
        ("h2", "no settings for TLS"),
        ("h1.1-tls", "no settings for TLS"),
        ("h2c-push", "push"),
        ("h1.1-pipeline-ranges", "ranges"),
    ] {
        let options = options(&server, policy);
        let error = run(options, Clock::start(), &|| false, &mut |_| {}).unwrap_err();
        assert!(matches!(error, LoadError::Policy { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(policy) && message.contains(words),
            "{message}"
        );
    }
    let mut open = options(&server, "h2c-sharded");
    open.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(10.0).unwrap()),
        connections: 2,
    };
    let error = run(open, Clock::start(), &|| false, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("h2c-sharded"), "{error}");
    assert_eq!(server.accepted(), 0);
}
