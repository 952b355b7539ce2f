//! Two endpoints in virtual time: the cost of a handshake, the data on streams, the close of connections, and the
//! effect of every setting.

#[path = "pair/half_open.rs"]
mod half_open;
mod pair;

use std::io::{self, IoSlice, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathometer_model::{Bytes, Failure, Seed};
use fathometer_quic::{
    AckFrequency, CloseKind, Closer, Congestion, EarlyData, Event, Handshake, StreamError,
    TransportSettings, stream,
};
use pair::{NAME, Pair, Plan, Tls};

fn handshake(pair: &mut Pair) -> Handshake {
    pair.client.connection().handshake().unwrap().clone()
}

#[test]
fn a_handshake_takes_one_round_trip_and_reports_its_cost() {
    let mut pair = Pair::new(Plan::new());
    pair.establish();
    let client = handshake(&mut pair);
    assert_eq!(client.round_trips, 1);
    assert_eq!(client.took, Duration::from_millis(100));
    assert_eq!(client.protocol.as_deref(), Some(&b"h3"[..]));
    assert_eq!(client.early_data, EarlyData::None);
    assert!(client.certificates > Bytes(300), "{client:?}");
    assert!(!client.resumed);
    let sent = pair.client.lengths[0];
    assert_eq!(
        (client.sent.datagrams, client.sent.bytes.0),
        (1, sent as u64)
    );
    assert!(client.received.bytes > client.certificates);
    let server = pair.server.connection().handshake().unwrap();
    assert_eq!(server.server_name.as_deref(), Some(NAME));
    assert_eq!(server.took, Duration::from_millis(100));
    assert_eq!(server.round_trips, 1);
    assert_eq!(server.certificates, Bytes(0));
    assert!(!server.resumed);
    assert!(
        client
            .cipher_suite
            .is_some_and(|suite| suite.starts_with("TLS_"))
    );
    assert_eq!(client.cipher_suite, server.cipher_suite);
}

#[test]
fn certificates_beyond_three_times_the_clients_bytes_cost_a_round_trip() {
    // RFC 9000 section 8.1: until the client's address is validated, the server sends at most three times the bytes
    // received.
    let mut plan = Plan::new();
    plan.tls = Tls::new(false, 5_000);
    let mut pair = Pair::new(plan);
    pair.establish();
    let client = handshake(&mut pair);
    assert_eq!(client.round_trips, 2);
    assert_eq!(client.took, Duration::from_millis(200));
    assert!(client.certificates > Bytes(5_000));
}

#[test]
fn validating_addresses_costs_a_round_trip() {
    let mut plan = Plan::new();
    plan.validates_addresses = true;
    let mut pair = Pair::new(plan);
    pair.establish();
    assert_eq!(handshake(&mut pair).round_trips, 2);
    let counts = pair.server.endpoint.counts();
    assert_eq!((counts.retried, counts.accepted), (1, 1));
}

#[test]
fn streams_carry_what_was_written_in_both_directions() {
    for (segments, client) in [
        (1, TransportSettings::default()),
        (10, TransportSettings::client()),
    ] {
        let mut plan = Plan::new();
        plan.segments = segments;
        plan.client = client;
        let mut pair = Pair::new(plan);
        pair.establish();
        let first = pair.client.connection().open(true).unwrap();
        let second = pair.client.connection().open(false).unwrap();
        assert_eq!((first, second), (0, 2));
        assert!(stream::is_bidirectional(first) && !stream::is_bidirectional(second));
        let asked = pair.client.connection().write(
            first,
            &[IoSlice::new(b"GET "), IoSlice::new(b""), IoSlice::new(b"/")],
        );
        assert_eq!(asked, Ok(5));
        pair.client.connection().finish(first).unwrap();
        pair.client.write(second, b"alone");
        pair.run_until(|pair| pair.server.read.get(&first).is_some_and(|read| read.1));
        assert_eq!(pair.server.read[&first].0, b"GET /");
        let answer: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let mut written = 0;
        pair.run_until(|pair| {
            while written < answer.len() {
                let rest = [IoSlice::new(&answer[written..])];
                match pair.server.connection().write(first, &rest) {
                    Ok(taken) => written += taken,
                    Err(StreamError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
                if written == answer.len() {
                    pair.server.connection().finish(first).unwrap();
                }
            }
            pair.client.read.get(&first).is_some_and(|read| read.1)
        });
        assert_eq!(pair.client.read[&first].0, answer);
        assert_eq!(pair.server.read[&second].0, b"alone");
        pair.run_until(|pair| pair.server.has(|e| *e == Event::Finished { stream: first }));
        let statistics = pair.client.connection().statistics();
        let sent = pair.server.lengths.iter().sum::<usize>() as u64;
        assert_eq!(
            statistics.received.datagrams,
            pair.server.lengths.len() as u64
        );
        assert_eq!(statistics.received.bytes, Bytes(sent));
        assert_eq!(statistics.packets_lost, 0);
        assert_eq!(statistics.min_rtt, Duration::from_millis(100));
    }
}

#[test]
fn losses_are_repaired_and_counted() {
    let mut pair = Pair::new(Plan::new());
    pair.establish();
    let begun = pair.server.lengths.len();
    pair.lost.1 = vec![begun + 3, begun + 11, begun + 12];
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"?");
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    let answer = vec![7; 60_000];
    assert_eq!(pair.server.write(stream, &answer), answer.len());
    pair.server.connection().finish(stream).unwrap();
    pair.run_until(|pair| pair.client.read.get(&stream).is_some_and(|read| read.1));
    assert_eq!(pair.client.read[&stream].0, answer);
    let statistics = pair.server.connection().statistics();
    let lost = statistics.packets_lost + statistics.mtu_probes.1;
    assert_eq!(lost, 3, "{statistics:?}");
    assert!(statistics.congestion_events >= 1);
}

#[test]
fn the_initial_window_is_what_was_set() {
    for congestion in [Congestion::Cubic, Congestion::NewReno] {
        for datagrams in [1, 2, 10, 32] {
            let mut plan = Plan::new();
            plan.server = TransportSettings {
                congestion,
                initial_window: datagrams,
                // MTU probes would use a part of the window.
                mtu_discovery: None,
                ..TransportSettings::default()
            };
            let mut pair = Pair::new(plan);
            pair.establish();
            // After this time the whole handshake is acknowledged.
            pair.run_for(Duration::from_secs(1));
            let stream = pair.client.connection().open(true).unwrap();
            pair.client.write(stream, b"?");
            pair.run_until(|pair| pair.server.read.contains_key(&stream));
            let window = pair.server.connection().statistics().congestion_window.0;
            assert!(window > u64::from(datagrams) * 1200, "{window}");
            let begun = pair.server.lengths.len();
            pair.server.write(stream, &vec![0; 60_000]);
            pair.settle();
            let burst = pair.server.lengths[begun..].iter().sum::<usize>() as u64;
            // Pacing may delay a part of the burst, but never sends more. With a window of one datagram, handshake data
            // that is still in the window delays the burst.
            assert!(burst <= window, "{burst} of {window}");
            assert!(burst + 1200 > window.min(12_000), "{burst} of {window}");
        }
    }
}

#[test]
fn larger_datagrams_are_found_where_they_are_looked_for() {
    for (most, found) in [(None, 1200), (Some(1452), 1452)] {
        let mut plan = Plan::new();
        plan.server.mtu_discovery = most;
        let mut pair = Pair::new(plan);
        pair.establish();
        pair.run_for(Duration::from_secs(5));
        let statistics = pair.server.connection().statistics();
        assert_eq!(statistics.datagram_size, found);
        assert_eq!(statistics.mtu_probes.0 > 0, most.is_some());
    }
}

#[test]
fn flow_control_holds_a_writer_and_lets_it_go_on() {
    let mut plan = Plan::new();
    plan.client.stream_window = Bytes(10_000);
    plan.server.bidirectional_streams = 1;
    let mut pair = Pair::new(plan);
    pair.establish();
    let stream = pair.client.connection().open(true).unwrap();
    assert_eq!(
        pair.client.connection().open(true),
        None,
        "the server allows one stream"
    );
    pair.client.write(stream, b"?");
    pair.client.connection().finish(stream).unwrap();
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    let bytes = vec![1; 20_000];
    assert_eq!(pair.server.write(stream, &bytes), 10_000);
    let more = [IoSlice::new(&bytes[10_000..])];
    let blocked = pair.server.connection().write(stream, &more);
    assert_eq!(blocked, Err(StreamError::Blocked));
    pair.run_until(|pair| {
        pair.server
            .has(|event| *event == Event::Writable { stream })
    });
    let taken = pair.server.write(stream, &bytes[10_000..]);
    assert!(taken > 0);
    pair.server.connection().reset(stream, 0x10c);
    pair.run_until(|pair| !pair.client.resets.is_empty());
    assert_eq!(pair.client.resets, [(stream, 0x10c)]);
    let again = Event::StreamsAvailable {
        bidirectional: true,
    };
    pair.run_until(|pair| pair.client.has(|event| *event == again));
    assert_eq!(pair.client.connection().open(true), Some(4));
    assert!(pair.server.connection().statistics().blocked_frames > 0);
}

#[test]
fn a_stopped_stream_is_reset_and_accepts_no_more_data() {
    let mut pair = Pair::new(Plan::new());
    pair.establish();
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"?");
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    pair.server.write(stream, b"!");
    pair.client.connection().stop(stream, 0x10c);
    pair.run_until(|pair| {
        pair.server
            .has(|event| matches!(event, Event::Stopped { .. }))
    });
    assert!(pair.server.has(|event| *event
        == Event::Stopped {
            stream,
            code: 0x10c
        }));
    let refused = pair
        .server
        .connection()
        .write(stream, &[IoSlice::new(b"x")]);
    assert_eq!(refused, Err(StreamError::Closed));
    assert_eq!(pair.server.connection().sending_streams(), 1);
    // The peer acknowledges the reset.
    pair.run_until(|pair| pair.server.connection().sending_streams() == 0);
    let unknown = pair.server.connection().write(400, &[IoSlice::new(b"x")]);
    assert_eq!(unknown, Err(StreamError::Closed));
    // A stream that only the other side can write.
    assert_eq!(pair.server.connection().finish(2), Err(StreamError::Closed));
}

#[test]
fn a_close_is_reported_with_side_code_and_reason() {
    let mut pair = Pair::new(Plan::new());
    pair.establish();
    let (key, now) = (pair.client.key.unwrap(), pair.now);
    pair.client.endpoint.close(key, 0x100, "done", now);
    pair.run_until(|pair| pair.client.key.is_none() && pair.server.key.is_none());
    let closed = |end: &pair::End| {
        end.events
            .iter()
            .find_map(|event| match event {
                Event::Closed(closed) => Some(closed.clone()),
                _ => None,
            })
            .unwrap()
    };
    let (here, there) = (closed(&pair.client), closed(&pair.server));
    assert_eq!((here.by, here.failure), (Closer::Us, None));
    assert_eq!(
        (there.by, there.kind),
        (Closer::Peer, CloseKind::Application)
    );
    assert_eq!((there.code, there.reason.as_str()), (0x100, "done"));
    assert_eq!(there.failure, Some(Failure::ClosedEarly));
    for end in [&pair.client, &pair.server] {
        assert_eq!(end.events.last(), Some(&Event::Drained));
        assert_eq!(end.endpoint.connections(), 0);
        let ends = end
            .events
            .iter()
            .filter(|e| matches!(e, Event::Closed(_)))
            .count();
        assert_eq!(ends, 1);
    }
}

#[test]
fn silence_ends_a_connection_and_keep_alive_prevents_it() {
    for keep_alive in [None, Some(Duration::from_secs(3))] {
        let mut plan = Plan::new();
        plan.client.max_idle = Some(Duration::from_secs(10));
        plan.client.keep_alive = keep_alive;
        let mut pair = Pair::new(plan);
        pair.establish();
        pair.run_for(Duration::from_secs(60));
        let timed_out = pair.client.has(|event| {
            matches!(event, Event::Closed(closed)
                if closed.by == Closer::Silence && closed.failure == Some(Failure::TimedOut))
        });
        assert_eq!(timed_out, keep_alive.is_none());
    }
}

#[test]
fn a_server_that_is_full_or_stopping_refuses_connections() {
    for most_connections in [0, 1] {
        let mut plan = Plan::new();
        plan.most_connections = most_connections;
        let mut pair = Pair::new(plan);
        if most_connections > 0 {
            pair.server.endpoint.stop_accepting();
        }
        pair.run_until(|pair| pair.client.has(|event| matches!(event, Event::Closed(_))));
        assert!(
            pair.client
                .has(|event| matches!(event, Event::Closed(closed)
            if closed.failure == Some(Failure::Refused) && closed.by == Closer::Peer))
        );
        assert_eq!(pair.server.endpoint.counts().refused, 1);
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_a_failure_of_tls() {
    let mut plan = Plan::new();
    plan.tls.client = Tls::new(false, 0).client;
    let mut pair = Pair::new(plan);
    pair.run_until(|pair| {
        pair.client.has(|event| matches!(event, Event::Closed(_)))
            && pair.server.has(|event| matches!(event, Event::Closed(_)))
    });
    for (end, by) in [(&pair.client, Closer::Us), (&pair.server, Closer::Peer)] {
        assert!(end.has(|event| matches!(event, Event::Closed(closed)
            if closed.failure == Some(Failure::TlsFailed) && closed.by == by
                && closed.code & !0xff == 0x100)));
    }
}

/// Establishes a connection, so that the client receives tickets.
fn visit(tls: &Tls) {
    let mut plan = Plan::new();
    plan.tls = tls.clone();
    let mut pair = Pair::new(plan);
    pair.establish();
    pair.run_for(Duration::from_secs(1));
}

#[test]
fn early_data_saves_a_round_trip_and_a_resumption_the_certificates() {
    let tls = Tls::new(true, 0);
    visit(&tls);
    let mut plan = Plan::new();
    plan.tls = tls;
    let mut pair = Pair::new(plan);
    assert!(pair.client.connection().can_send_early());
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"early");
    let asked = pair.now;
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    assert_eq!(pair.now.since(asked), Duration::from_millis(50));
    assert_eq!(pair.server.read[&stream].0, b"early");
    pair.server.write(stream, b"answer");
    pair.run_until(|pair| pair.client.read.contains_key(&stream));
    assert_eq!(pair.now.since(asked), Duration::from_millis(100));
    pair.establish();
    let client = handshake(&mut pair);
    assert_eq!(client.early_data, EarlyData::Accepted);
    // A resumed client has the server's certificates only from the earlier session.
    assert!(client.resumed);
    assert_eq!(client.certificates, Bytes(0));
    assert!(pair.server.connection().handshake().unwrap().resumed);
    assert!(client.received.bytes.0 < 1_500, "{client:?}");
}

#[test]
fn rejected_early_data_is_reported_and_its_streams_start_again() {
    let tls = Tls::new(true, 0);
    visit(&tls);
    let mut plan = Plan::new();
    let mut forgetful = (*tls.server).clone();
    forgetful.max_early_data_size = 0;
    plan.tls = Tls {
        client: tls.client,
        server: Arc::new(forgetful),
    };
    let mut pair = Pair::new(plan);
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"early");
    pair.establish();
    let client = handshake(&mut pair);
    assert_eq!(client.early_data, EarlyData::Rejected);
    assert!(client.resumed, "the session is resumed");
    assert!(pair.server.read.is_empty());
    assert_eq!(pair.client.connection().open(true), Some(stream));
    pair.client.write(stream, b"again");
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    assert_eq!(pair.server.read[&stream].0, b"again");
}

#[test]
fn the_same_seed_gives_the_same_events() {
    // The lengths of newly created certificates differ occasionally, so both runs share one.
    let tls = Tls::new(false, 0);
    let course = |seed| {
        let mut plan = Plan::new();
        plan.tls = tls.clone();
        plan.seed = Seed(seed);
        let mut pair = Pair::new(plan);
        pair.establish();
        let stream = pair.client.connection().open(true).unwrap();
        pair.client.write(stream, &[3; 50_000]);
        pair.run_for(Duration::from_secs(5));
        let events = format!("{:?}", (&pair.client.events, &pair.server.events));
        (pair.client.lengths.clone(), events)
    };
    assert_eq!(course(5), course(5));
}

#[test]
fn fewer_acknowledgements_are_sent_if_fewer_are_requested() {
    let acks = |asked| {
        let mut plan = Plan::new();
        plan.server.ack_frequency = asked;
        let mut pair = Pair::new(plan);
        pair.establish();
        let stream = pair.client.connection().open(true).unwrap();
        pair.client.write(stream, b"?");
        pair.run_until(|pair| pair.server.read.contains_key(&stream));
        pair.server.write(stream, &[0; 60_000]);
        pair.server.connection().finish(stream).unwrap();
        pair.run_until(|pair| pair.client.read.get(&stream).is_some_and(|read| read.1));
        pair.client.connection().statistics().acks.0
    };
    let few = AckFrequency {
        packets: 20,
        delay: Some(Duration::from_millis(100)),
        reordering: 3,
    };
    let (usual, asked) = (acks(None), acks(Some(few)));
    assert!(
        asked < usual,
        "{asked} ACK frames with a requested frequency, {usual} without"
    );
}

#[test]
fn marks_of_congestion_slow_the_sender_as_losses_do() {
    let mut pair = Pair::new(Plan::new());
    pair.establish();
    let before = pair.server.connection().statistics().congestion_events;
    pair.marks = true;
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"?");
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    pair.server.write(stream, &[0; 30_000]);
    pair.server.connection().finish(stream).unwrap();
    pair.run_until(|pair| pair.client.read.get(&stream).is_some_and(|read| read.1));
    pair.run_for(Duration::from_secs(1));
    let statistics = pair.server.connection().statistics();
    assert!(statistics.congestion_events > before, "{statistics:?}");
    assert_eq!(statistics.packets_lost, 0);
}

/// A writer whose bytes a test can inspect.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_qlog_is_a_sequence_of_json_texts_on_the_runs_own_time() {
    let log = Shared::default();
    let mut plan = Plan::new();
    plan.qlog = Some(Box::new(log.clone()));
    let mut pair = Pair::new(plan);
    pair.establish();
    pair.run_for(Duration::from_secs(1));
    drop(pair);
    let log = log.0.lock().unwrap();
    // RFC 7464: each text is between a record separator and a line feed.
    let texts: Vec<&[u8]> = log.split(|&byte| byte == 0x1e).collect();
    assert_eq!(texts[0], b"");
    assert!(texts.len() > 10);
    let texts: Vec<&str> = texts[1..]
        .iter()
        .map(|text| std::str::from_utf8(text).unwrap())
        .collect();
    assert!(
        texts
            .iter()
            .all(|text| text.starts_with('{') && text.ends_with("}\n"))
    );
    assert!(texts[0].contains("\"qlog_version\"") && texts[0].contains(NAME));
    let received = texts
        .iter()
        .find(|text| text.contains("packet_received"))
        .unwrap();
    // The first response arrives after one round trip, and the log starts at our origin.
    assert!(received.contains("\"time\":100.0"), "{received}");
}

/// Writes to a stream of the server until `total` bytes are written or the stream takes no more; returns the bytes
/// written.
fn write_on(pair: &mut Pair, stream: u64, total: usize) -> usize {
    let bytes = vec![7; 64 * 1024];
    let mut written = 0;
    while written < total {
        let rest = [IoSlice::new(&bytes[..bytes.len().min(total - written)])];
        match pair.server.connection().write(stream, &rest) {
            Ok(taken) => written += taken,
            Err(_) => break,
        }
    }
    written
}

fn asked(plan: Plan) -> (Pair, u64) {
    let mut pair = Pair::new(plan);
    pair.establish();
    let stream = pair.client.connection().open(true).unwrap();
    pair.client.write(stream, b"?");
    pair.run_until(|pair| pair.server.read.contains_key(&stream));
    (pair, stream)
}

#[test]
fn a_client_that_acknowledges_nothing_holds_little_memory() {
    let mut plan = Plan::new();
    plan.client.stream_window = Bytes(1 << 30);
    let waiting = plan.waiting;
    let (mut pair, stream) = asked(plan);
    let sent = pair.client.lengths.len();
    pair.lost.0 = (sent..sent + 10_000).collect();
    pair.run_for(Duration::from_millis(500));
    let before = pair.server.connection().acknowledged();
    let mut written = 0;
    let end = pair.now + Duration::from_secs(20);
    while pair.now < end {
        written += write_on(&mut pair, stream, 1 << 30);
        pair.run_for(Duration::from_millis(500));
    }
    assert_eq!(written as u64, waiting.each.0);
    assert_eq!(pair.server.connection().acknowledged(), before);
}

#[test]
fn a_client_that_acknowledges_gets_as_much_as_without_a_bound() {
    let took = |each: u64| {
        let mut plan = Plan::new();
        plan.client.stream_window = Bytes(1 << 30);
        plan.waiting.each = Bytes(each);
        let (mut pair, stream) = asked(plan);
        let begun = pair.now;
        let (total, mut written) = (20 << 20, 0);
        pair.run_until(|pair| {
            if written < total {
                written += write_on(pair, stream, total - written);
                if written == total {
                    pair.server.connection().finish(stream).unwrap();
                }
            }
            pair.client.read.get(&stream).is_some_and(|read| read.1)
        });
        assert_eq!(pair.client.read[&stream].0.len(), total);
        let acknowledged = pair.server.connection().acknowledged().0;
        assert!(acknowledged > 16 << 20, "{acknowledged}");
        pair.now.since(begun)
    };
    let (bounded, unbounded) = (took(64 << 10), took(4 << 20));
    assert!(
        bounded <= unbounded,
        "took {bounded:?} with a small limit, {unbounded:?} with a large limit"
    );
}

#[test]
fn an_unvalidated_client_gets_at_most_three_times_the_bytes_that_it_sent() {
    for padding in (0..6_000).step_by(250) {
        let plan = || Plan {
            tls: Tls::new(false, padding),
            ..Plan::new()
        };
        // The client sends one datagram, and nothing more.
        let mut pair = Pair::new(plan());
        pair.lost.0 = (1..1_000).collect();
        pair.run_for(Duration::from_secs(60));
        let (sent, received) = (
            pair.server.lengths.iter().sum::<usize>(),
            pair.client.lengths[0],
        );
        assert!(
            received <= sent && sent <= 3 * received,
            "padding {padding}: {sent} B sent, {received} B received"
        );
        // A client that responds waits at most one round trip longer.
        let mut pair = Pair::new(plan());
        pair.establish();
        assert!(handshake(&mut pair).took <= Duration::from_millis(200));
    }
}
