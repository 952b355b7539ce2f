//! Servers that keep requests waiting for a stream: over HTTP/2 by SETTINGS_MAX_CONCURRENT_STREAMS, over HTTP/3 by not
//! extending MAX_STREAMS. No request may wait longer than the timeout, and the wait counts as a delay by the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::h2::StreamId;
use fathometer_http::h2::error::ErrorCode;
use fathometer_http::h2::frame::write;
use fathometer_http::h2::settings::id;
use fathometer_http::h3;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_load::{Limit, Options, Users};
use fathometer_model::{Body, Bytes, Failure, File, Instant, Seed, Site};
use fathometer_origin::http3::{Service, ServiceOptions};
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{ClientOptions, ServerOptions, Verification};
use fathometer_workload::arrivals::{Arrivals, Profile};
use fathometer_workload::plan::{Plan, Target};

use super::frames_server::{FramesServer, Move, Opening, answer};
use super::{MILLI, adds_up, carry_out, single};
use crate::support::quiet::{below, in_a_quiet_moment};

const TIMEOUT: Duration = Duration::from_millis(400);

fn no_stream() -> Opening {
    Opening {
        settings: Some(vec![(id::MAX_CONCURRENT_STREAMS, 0)]),
        ..Opening::default()
    }
}

/// Starts a server that allows no stream. A client need not wait for the settings (RFC 9113 section 3.4), so a request
/// may be sent before the client has read them. The server refuses such a request.
fn refusing() -> FramesServer {
    FramesServer::start(no_stream(), |_| Move::Reset(ErrorCode::REFUSED_STREAM))
}

fn options(server: &FramesServer, policy: &str) -> Options {
    Options {
        policy: policy.parse().unwrap(),
        timeout: TIMEOUT,
        ..Options::new(server.address, "localhost", single())
    }
}

fn open_loop(rate: f64, connections: u32) -> Users {
    Users::Open {
        arrivals: Arrivals::constant(Profile::constant(rate).unwrap()),
        connections,
    }
}

fn timed_out(count: u64) -> BTreeMap<Failure, u64> {
    BTreeMap::from([(Failure::TimedOut, count)])
}

/// Asserts that `count` requests to a server that is [`refusing`] failed, and that every request that was not refused
/// waited for a stream until it timed out. Only a request that reached the server can be refused. A refused request was
/// not processed, so it is retried (RFC 9113 section 8.7), once.
fn assert_refused_or_timed_out(result: &LoadResult, server: &FramesServer, count: u64) {
    let counts = &result.measured.counts;
    let of = |failure| counts.failures.get(&failure).copied().unwrap_or(0);
    let (refused, timed_out) = (of(Failure::StreamReset), of(Failure::TimedOut));
    assert_eq!(refused + timed_out, count, "{counts:?}");
    assert!(refused <= server.asked() - counts.retried, "{counts:?}");
    let failed = &result.measured.latency.failed;
    let first_late = (refused as f64 + 0.5) / failed.count() as f64;
    let waited = failed.quantile(first_late).unwrap();
    assert!(waited >= TIMEOUT - 2 * MILLI, "{waited:?}");
}

#[test]
fn a_count_ends_where_the_server_allows_no_stream() {
    for policy in ["h2c", "h2c-streams4"] {
        let server = refusing();
        let mut options = options(&server, policy);
        options.users = Users::closed(2);
        options.limit = Limit::Exchanges(6);
        let result = carry_out(options);
        adds_up(&result);
        let counts = &result.measured.counts;
        assert_eq!((counts.planned, counts.completed), (6, 0), "{policy}");
        assert_refused_or_timed_out(&result, &server, 6);
    }
}

/// Starts a server that sends four responses, and then allows no stream.
fn four_and_no_more() -> FramesServer {
    FramesServer::start(Opening::default(), |asked| {
        let stream = StreamId::new(1 + 2 * asked.before as u32);
        let mut out = Vec::new();
        if asked.before == 3 {
            write::settings(&mut out, [(id::MAX_CONCURRENT_STREAMS, 0)].into_iter());
        }
        match asked.before {
            0..4 => answer(&mut out, stream, 100, true),
            _ => write::reset(&mut out, stream, ErrorCode::REFUSED_STREAM),
        }
        Move::Bytes(out)
    })
}

#[test]
fn a_user_that_waits_for_a_stream_is_not_idle() {
    for policy in ["h2c", "h2c-streams4"] {
        // On a busy machine the four responses may come too late, or the waits may be longer.
        in_a_quiet_moment(100 * MILLI, || {
            let server = four_and_no_more();
            let mut options = options(&server, policy);
            options.users = Users::closed(1);
            options.limit = Limit::Time(1500 * MILLI);
            options.drain = 5000 * MILLI;
            let result = carry_out(options);
            adds_up(&result);
            let counts = &result.measured.counts;
            assert_eq!(counts.failures, timed_out(counts.failed()), "{policy}");
            // Each request waits 0.4 s of the 1.5 s; with several streams, three may wait at the same time.
            match counts.completed == 4 && (3..=12).contains(&counts.failed()) {
                true => Ok(()),
                false => Err(format!("{policy}: {counts:?}")),
            }
        });
    }
}

#[test]
fn arrivals_that_no_stream_is_free_for_time_out_from_their_instants() {
    let server = refusing();
    let mut options = options(&server, "h2c");
    options.users = open_loop(100.0, 1);
    options.limit = Limit::Time(500 * MILLI);
    options.drain = 5000 * MILLI;
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.planned, counts.unfinished), (50, 0), "{counts:?}");
    assert_refused_or_timed_out(&result, &server, 50);

    // A limit on the number of exchanges also ends the run.
    let mut options = self::options(&server, "h2c");
    options.users = open_loop(100.0, 2);
    options.limit = Limit::Exchanges(20);
    let result = carry_out(options);
    adds_up(&result);
    assert_refused_or_timed_out(&result, &server, 20);
}

/// Starts a server that never answers the first request and answers the second late. From the third request on, it
/// allows no stream and refuses the open streams.
fn refusing_what_is_open() -> FramesServer {
    FramesServer::start(Opening::default(), |asked| match asked.before {
        0 => Move::Silence,
        1 => {
            std::thread::sleep(250 * MILLI);
            Move::Answer(100)
        }
        _ => {
            let mut out = Vec::new();
            write::settings(&mut out, [(id::MAX_CONCURRENT_STREAMS, 0)].into_iter());
            for stream in [1, 5] {
                write::reset(&mut out, StreamId::new(stream), ErrorCode::REFUSED_STREAM);
            }
            Move::Bytes(out)
        }
    })
}

#[test]
fn of_several_that_wait_each_times_out_from_its_own_instant() {
    in_a_quiet_moment(100 * MILLI, || {
        let server = refusing_what_is_open();
        let mut options = options(&server, "h2c-streams2");
        options.users = Users::closed(1);
        options.limit = Limit::Exchanges(3);
        let result = carry_out(options);
        let failures = &result.measured.counts.failures;
        if *failures != timed_out(2) {
            return Err(format!("{failures:?}"));
        }
        // The first request was planned 250 ms before the last. If it had waited until the last failed, its latency
        // would be 650 ms.
        let longest = result.measured.latency.failed.max().unwrap();
        below("the longest wait", longest, TIMEOUT + 200 * MILLI)
    });
}

#[test]
fn the_wait_for_a_stream_is_the_servers_and_no_send_lag() {
    let mut later = Vec::new();
    write::settings(&mut later, [(id::MAX_CONCURRENT_STREAMS, 100)].into_iter());
    let opening = Opening {
        later: Some((600 * MILLI, later)),
        ..no_stream()
    };
    let server = FramesServer::start(opening, |_| Move::Answer(100));
    let mut options = options(&server, "h2c");
    options.timeout = Duration::from_secs(30);
    options.users = open_loop(100.0, 1);
    options.limit = Limit::Time(1000 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!(counts.completed, 100, "{counts:?}");
    let latency = &result.measured.latency;
    assert!(latency.queue.max().unwrap() > 400 * MILLI);
    // The send lag is far less than the wait, even on a busy machine.
    let lag = latency.send_lag.quantile(0.5).unwrap();
    assert!(lag < 100 * MILLI, "{lag:?}");
}

/// Starts an HTTP/3 server that allows `streams` simultaneous streams on a connection. Returns the server and the
/// options of a load.
fn quic_server(streams: u64, clock: Clock) -> (Service, Options) {
    let now = clock.realtime_of(Instant::ZERO);
    let lifetime = Lifetime::around(now, Duration::from_secs(24 * 3600));
    let authority = Authority::new(lifetime).unwrap();
    let identity = authority.issue(&Issue::new(["localhost"])).unwrap();
    let (chain, key) = (identity.chain_pem(), identity.key_pem());
    let identity =
        fathometer_tls::Identity::from_pem(chain.as_bytes(), "chain", key.as_bytes(), "key")
            .unwrap();
    let settings = ServiceOptions {
        addresses: vec!["127.0.0.1:0".parse().unwrap()],
        tls: fathometer_tls::ServerSettings::new(ServerOptions::new(identity, now)).unwrap(),
        transport: TransportSettings {
            bidirectional_streams: streams,
            ..TransportSettings::default()
        },
        sockets: Sockets::default(),
        validates_addresses: false,
        pinned: false,
        most_open: 100,
        log: None,
        seed: Seed(1),
    };
    let site = Site {
        name: "test".to_owned(),
        files: vec![File {
            path: "/x".to_owned(),
            content_type: "application/octet-stream".into(),
            body: Body::from(vec![b'x'; 100]),
            encoded: Vec::new(),
            last_modified: 1_000_000_000,
        }],
        pages: Vec::new(),
    };
    let origin = Origin::new(Arc::new(site), OriginConfig::default()).unwrap();
    let config = Arc::new(h3::server::ServerConfig::default());
    let service =
        Service::start(&settings, vec![Arc::new(origin)], &config, clock, || None).unwrap();
    let roots = Verification::Roots(authority.roots());
    let tls = fathometer_tls::ClientSettings::new(ClientOptions::new(roots, now)).unwrap();
    let plan = Arc::new(Plan::single(Target::get("/x", Some(Bytes(100)))));
    let options = Options {
        policy: "h3".parse().unwrap(),
        tls: Some(tls),
        timeout: TIMEOUT,
        ..Options::new(service.addresses()[0], "localhost", plan)
    };
    (service, options)
}

#[test]
fn requests_over_http3_time_out_where_no_stream_is_extended() {
    let clock = Clock::start();
    for (users, policy) in [
        (Users::closed(2), "h3"),
        (Users::closed(2), "h3-streams4"),
        (open_loop(50.0, 2), "h3"),
    ] {
        let (service, mut options) = quic_server(0, clock);
        options.users = users;
        options.policy = policy.parse().unwrap();
        options.limit = Limit::Exchanges(6);
        let result = fathometer_load::run(options, clock, &|| false, &mut |_| {}).unwrap();
        adds_up(&result);
        let counts = &result.measured.counts;
        assert_eq!((counts.planned, counts.sent), (6, 0), "{policy} {counts:?}");
        assert_eq!(counts.failures, timed_out(6), "{policy}");
        service.stop();
        service.join().unwrap();
    }
    // The same server answers if it allows one stream at a time.
    let (service, mut options) = quic_server(1, clock);
    options.users = Users::closed(2);
    options.policy = "h3-streams4".parse().unwrap();
    options.timeout = Duration::from_secs(60);
    options.limit = Limit::Exchanges(60);
    let result = fathometer_load::run(options, clock, &|| false, &mut |_| {}).unwrap();
    adds_up(&result);
    assert_eq!(result.measured.counts.completed, 60);
    service.stop();
    service.join().unwrap();
}
