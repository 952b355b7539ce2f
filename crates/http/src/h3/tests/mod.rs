//! Tests of the client and server state machines, connected to each other.

mod pair;

use std::io::IoSlice;
use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure};

use self::pair::{BIG, DOWN, Pair, content};
use super::client::{self, Content, Qpack, RequestId, RequestLine, Version};
use super::server::{self, ServerConfig};
use super::{ErrorCode, Priority, Settings};
use crate::origin::packages::turn_tests;
use crate::qpack::EncoderPolicy;

#[test]
fn only_client_initiated_bidirectional_streams_carry_requests() {
    assert_eq!(super::request_of(12), Some(RequestId(3)));
    assert_eq!(super::stream_of(RequestId(3)), 12);
    for stream in [1, 2, 3, 13, u64::MAX] {
        assert_eq!(super::request_of(stream), None, "{stream}");
    }
}

#[test]
fn a_package_is_composed_over_several_turns() {
    let (origin, files) = turn_tests::short_files();
    let mut pair = Pair::of(origin);
    pair.get("/d/", &[("accept", turn_tests::ACCEPT)]);
    let mut turns = 0;
    loop {
        pair.run();
        let next = pair.server.poll_timeout();
        let Some(next) = next.filter(|&next| next < pair.now + Duration::from_micros(1)) else {
            break;
        };
        assert!(
            next > pair.now,
            "the time-out is not after the current time"
        );
        pair.now = next;
        pair.server.handle_timeout(next);
        turns += 1;
    }
    assert!(turns > 10, "{turns}");
    let exchange = &pair.exchanges[&RequestId(0)];
    assert_eq!(exchange.status, Some(200));
    assert_eq!(turn_tests::contents(&exchange.content), files);
    let length = exchange.content.len().to_string();
    assert!(
        exchange
            .fields
            .contains(&("content-length".to_owned(), length))
    );
}

#[test]
fn requests_are_answered_and_both_sides_count_the_same() {
    let mut pair = Pair::plain();
    let targets = ["/", "/a", "/big", "/empty", "/missing", "/", "/a"];
    let queued: Vec<_> = targets
        .iter()
        .map(|target| pair.get(target, &[("Accept", "*/*"), ("user-agent", "test")]))
        .collect();
    pair.run();
    assert_eq!(pair.other, ["Settings"]);
    let settings = Settings {
        max_field_section_size: Some(16 * 1024),
        qpack_max_table_capacity: 4096,
        qpack_blocked_streams: 16,
    };
    assert_eq!(pair.client.peer_settings(), Some(settings));
    for (place, target) in targets.iter().enumerate() {
        let exchange = &pair.exchanges[&RequestId(place as u32)];
        let (status, length) = match *target {
            "/" => (200, 500),
            "/a" => (200, 1),
            "/big" => (200, BIG),
            "/empty" => (200, 0),
            _ => (404, exchange.content.len()),
        };
        assert_eq!(
            (exchange.status, exchange.content.len()),
            (Some(status), length)
        );
        if status == 200 {
            assert_eq!(exchange.content, content(length));
        }
        let received = exchange.received.unwrap();
        let stream = 4 * place as u64;
        let served = pair.served.iter().find(|served| served.stream == stream);
        let served = served.unwrap();
        assert_eq!(served.exchange.head, received.head);
        assert_eq!(served.head_fields, received.fields);
        assert_eq!(served.body_frames, received.body);
        assert_eq!(served.exchange.body, received.content);
        assert_eq!(served.exchange.request_head, queued[place].head);
        assert_eq!(served.request_fields, queued[place].fields);
        assert!(received.head.0 < received.fields.0 && received.head.0 > 10);
        let fields = exchange.fields.iter();
        let bytes: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(
            received.fields,
            Bytes(bytes as u64 + 10),
            "the size includes :status"
        );
    }
    // The names and values of the pseudo-header fields and of two more fields.
    let text = ":methodGET:schemehttps:authorityorigin.example:path/accept*/*user-agenttest";
    assert_eq!(queued[0].fields, Bytes(text.len() as u64));
    // Repeated fields need fewer bytes after they have been inserted into the dynamic table and acknowledged.
    let before = queued[0].head;
    pair.get("/", &[("Accept", "*/*"), ("user-agent", "test")]);
    pair.run();
    let again = pair.get("/", &[("Accept", "*/*"), ("user-agent", "test")]);
    assert!(again.head < before, "{:?} of {before:?}", again.head);
    pair.run();
    let request = again.request;
    assert_eq!(pair.exchanges[&request].status, Some(200));
    assert_eq!((pair.client.outstanding(), pair.server.requests()), (0, 9));
    assert!(pair.server.is_idle());
    pair.client.finish();
    pair.run();
    assert_eq!(pair.closed, Some(CloseReason::Finished));
    assert_eq!(pair.close, Some(ErrorCode::NO_ERROR));
    assert_eq!(
        pair.server.close_reason(),
        Some(server::CloseReason::ClientClosed)
    );
}

#[test]
fn any_transfer_size_gives_the_same_exchanges() {
    let mut logs = Vec::new();
    for at_once in [1, 7, 1000, usize::MAX] {
        let mut pair = Pair::plain();
        pair.at_once = at_once;
        for target in ["/", "/a", "/missing"] {
            pair.get(target, &[]);
        }
        pair.run();
        logs.push(pair.exchanges);
    }
    assert!(logs.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn conditions_ranges_and_heads_without_content() {
    let mut pair = Pair::plain();
    pair.get("/", &[]);
    pair.run();
    let fields = &pair.exchanges[&RequestId(0)].fields;
    let etag = fields.iter().find(|(name, _)| name == "etag").unwrap();
    let etag = etag.1.clone();
    pair.get("/", &[("if-none-match", &etag)]);
    pair.get("/big", &[("range", "bytes=10-19")]);
    pair.ask("HEAD", "/big", &[]);
    pair.get("/big", &[("range", "bytes=0-1,5-6")]);
    pair.run();
    let exchange = |number| &pair.exchanges[&RequestId(number)];
    assert_eq!(
        (exchange(1).status, exchange(1).content.len()),
        (Some(304), 0)
    );
    assert_eq!(exchange(2).status, Some(206));
    assert_eq!(exchange(2).content, content(20)[10..]);
    assert_eq!(
        (exchange(3).status, exchange(3).content.len()),
        (Some(200), 0)
    );
    let length = exchange(3)
        .fields
        .iter()
        .find(|(name, _)| name == "content-length");
    assert_eq!(length.unwrap().1, BIG.to_string());
    assert_eq!(exchange(4).status, Some(206));
    assert!(exchange(4).received.unwrap().content.0 > 4);
    assert!(exchange(1).received.is_some() && exchange(3).received.is_some());
}

fn upload(pair: &mut Pair, target: &str, content: Content, expect: bool) -> RequestId {
    let line = RequestLine {
        method: "POST",
        target,
        host: "origin.example",
        version: Version::Http11,
    };
    let request = pair.client.request(line).unwrap();
    request.send_with(content, expect).unwrap().request
}

#[test]
fn request_content_waits_for_100_continue() {
    let mut pair = Pair::plain();
    let sized = upload(&mut pair, "/discard", Content::Sized(1000), false);
    let chunked = upload(&mut pair, "/discard", Content::Chunked, false);
    let asked = upload(&mut pair, "/discard", Content::Sized(3), true);
    let refused = upload(&mut pair, "/", Content::Sized(3), true);
    assert!(
        pair.client.send_content(asked, b"abc").is_err(),
        "100 (Continue) has not arrived yet"
    );
    pair.run();
    assert_eq!(pair.exchanges[&asked].interims, [100]);
    assert!(
        pair.other
            .contains(&format!("SendContent {{ request: {asked:?} }}"))
    );
    assert_eq!(pair.exchanges[&refused].status, Some(405));
    assert!(pair.exchanges[&refused].received.is_some());
    pair.client.send_content(sized, &[7; 600]).unwrap();
    pair.run();
    assert!(pair.client.send_content(sized, &[7; 401]).is_err());
    pair.client.send_content(sized, &[7; 400]).unwrap();
    assert!(pair.client.send_content(sized, b"").is_err());
    pair.client.send_content(chunked, b"some").unwrap();
    pair.client.finish_content(chunked).unwrap();
    pair.client.send_content(asked, b"abc").unwrap();
    pair.run();
    for request in [sized, chunked, asked] {
        assert_eq!(pair.exchanges[&request].status, Some(204), "{request:?}");
        assert!(pair.exchanges[&request].received.is_some());
    }
    let served = pair.served.iter().find(|served| served.stream == 0);
    assert_eq!(served.unwrap().exchange.request_body, Bytes(1000));
}

#[test]
fn urgent_responses_are_first_and_incremental_ones_take_turns() {
    let mut pair = Pair::plain();
    pair.at_once = 5000;
    pair.run();
    // All requests arrive before the first response is sent.
    for priority in ["u=5", "u=5", "u=2", "u=3, i", "u=3, i", ""] {
        match priority {
            "" => pair.get("/big", &[]),
            _ => pair.get("/big", &[("priority", priority)]),
        };
    }
    let update = Priority {
        urgency: 0,
        incremental: false,
    };
    pair.client.reprioritize(RequestId(5), update);
    pair.up();
    pair.run();
    // Stream 20, whose priority was updated, is first; then 8; 12 and 16 alternate; 0 is complete before 4.
    let order = &pair.order;
    assert_eq!(order[..2], [20, 8]);
    let turns = order.iter().filter(|&&stream| stream == 12).count();
    assert!(turns > 5, "{order:?}");
    assert_eq!(order[order.len() - 2..], [0, 4]);
    assert!(pair.exchanges.values().all(|e| e.content.len() == BIG));
    assert_eq!(pair.server.priority(3).urgency, 0);
}

#[test]
fn a_cancelled_request_does_not_affect_others() {
    let mut pair = Pair::plain();
    pair.at_once = 5000;
    for _ in 0..3 {
        pair.get("/big", &[("priority", "i")]);
    }
    let before = pair.get("/", &[]).request;
    pair.client.cancel(before, Failure::LocalAbort, pair.now);
    pair.up();
    pair.server.handle_opened(3, pair.now);
    pair.own[1] += 4;
    // A part of each response is sent. Then one response is cancelled.
    for _ in 0..6 {
        let mut slices = [IoSlice::new(&[]); 2];
        let offer = pair.server.transmit(&mut slices, 100).unwrap();
        let stream = offer.stream;
        let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        pair.server.transmitted(stream, bytes.len(), pair.now);
        pair.pipes.insert(stream | DOWN, (bytes, false));
        pair.deliver_down(stream);
    }
    pair.client
        .cancel(RequestId(1), Failure::TimedOut, pair.now);
    pair.act();
    pair.run();
    assert_eq!(
        pair.exchanges[&before].failure,
        Some((Failure::LocalAbort, false))
    );
    let cancelled = &pair.exchanges[&RequestId(1)];
    assert_eq!(cancelled.failure, Some((Failure::TimedOut, true)));
    for number in [0, 2] {
        assert_eq!(pair.exchanges[&RequestId(number)].content, content(BIG));
    }
    let reset: Vec<_> = pair.served.iter().filter(|s| s.reset.is_some()).collect();
    assert_eq!(reset.len(), 1);
    assert_eq!(reset[0].stream, 4);
    assert!(reset[0].exchange.body.0 > 0 && reset[0].exchange.body.0 < BIG as u64);
    assert!(pair.server.is_idle() && pair.client.close_reason().is_none());
}

#[test]
fn a_shutdown_answers_requests_that_have_arrived() {
    let mut pair = Pair::plain();
    pair.get("/big", &[]);
    pair.up();
    pair.server.announce_end();
    // The next request is in flight when the server sends its final GOAWAY.
    pair.held.insert(4);
    pair.held.insert(3);
    pair.get("/a", &[]);
    pair.up();
    pair.server.end(pair.now);
    pair.run();
    assert!(pair.closed.is_none(), "no GOAWAY has arrived yet");
    pair.release(4);
    pair.release(3);
    pair.run();
    assert_eq!(pair.exchanges[&RequestId(0)].content, content(BIG));
    let rejected = pair.exchanges[&RequestId(1)].failure;
    assert_eq!(rejected.map(|(_, sent)| sent), Some(false));
    assert_eq!(pair.closed, Some(CloseReason::ServerAsked));
    assert_eq!(
        pair.server.close_reason(),
        Some(server::CloseReason::ServerEnds)
    );
}

#[test]
fn a_limit_on_requests_makes_the_client_leave() {
    let config = ServerConfig {
        max_requests_per_connection: Some(2),
        ..ServerConfig::default()
    };
    let mut pair = Pair::new(client::Config::default(), &config);
    pair.get("/", &[]);
    pair.get("/", &[]);
    pair.get("/", &[]);
    pair.run();
    let whole = |number| pair.exchanges[&RequestId(number)].received.is_some();
    assert!(whole(0) && whole(1));
    assert!(!pair.client.accepts_requests());
    assert_eq!(
        pair.server.close_reason(),
        Some(server::CloseReason::RequestLimit)
    );
}

/// The configuration of encoders that refer to entries before these are acknowledged.
fn risky() -> Qpack {
    Qpack {
        encoder: EncoderPolicy {
            may_block: true,
            ..EncoderPolicy::default()
        },
        ..Qpack::default()
    }
}

#[test]
fn streams_wait_for_the_qpack_table_and_continue() {
    let config = client::Config {
        qpack: risky(),
        ..client::Config::default()
    };
    let server = ServerConfig {
        qpack: risky(),
        ..ServerConfig::default()
    };
    let mut pair = Pair::new(config, &server);
    pair.run();
    // The encoder streams of both sides are delayed.
    pair.held.extend([6, 7]);
    for _ in 0..3 {
        pair.get("/", &[("x-custom", "value")]);
    }
    let body = upload(&mut pair, "/discard", Content::Sized(4), false);
    pair.client.send_content(body, b"body").unwrap();
    pair.run();
    assert_eq!(
        pair.server.requests(),
        0,
        "the requests wait for the QPACK table"
    );
    assert!(!pair.server.wants_data(0));
    pair.release(6);
    pair.run();
    assert_eq!(pair.server.requests(), 4);
    assert!(
        pair.exchanges.is_empty(),
        "the responses wait for the QPACK table"
    );
    pair.release(7);
    pair.run();
    for number in 0..3 {
        assert_eq!(pair.exchanges[&RequestId(number)].content, content(500));
    }
    assert_eq!(pair.exchanges[&body].status, Some(204));
    assert!(pair.server.wants_data(0));
    // A stream that waits for the QPACK table can be cancelled.
    pair.held.insert(6);
    let late = pair.get("/", &[("x-custom", "other")]).request;
    pair.run();
    pair.client.cancel(late, Failure::LocalAbort, pair.now);
    pair.run();
    pair.release(6);
    pair.run();
    let last = pair.get("/", &[("x-custom", "other")]).request;
    pair.run();
    assert_eq!(pair.exchanges[&last].status, Some(200));
    assert!(pair.server.is_idle());
}

#[test]
fn without_a_dynamic_table_fields_are_sent_in_full() {
    let config = client::Config {
        qpack: Qpack::STATIC,
        ..client::Config::default()
    };
    let mut pair = Pair::new(config, &ServerConfig::default());
    let first = pair.get("/", &[("x-custom", "value")]);
    pair.run();
    let second = pair.get("/", &[("x-custom", "value")]);
    pair.run();
    assert_eq!(first.head, second.head);
    assert_eq!(
        pair.exchanges[&RequestId(0)].received,
        pair.exchanges[&RequestId(1)].received
    );
}

#[test]
fn a_prepared_request_equals_the_written_one() {
    let mut pair = Pair::plain();
    let written = pair.get("/a", &[("x-custom", "value")]);
    let fields = [("X-Custom".to_owned(), "value".to_owned())];
    let prepared = client::PreparedRequest::new("GET", "origin.example", &fields, None).unwrap();
    let queued = pair.client.request_prepared(&prepared, "/a").unwrap();
    assert_eq!((queued.head, queued.fields), (written.head, written.fields));
    assert!(pair.client.request_prepared(&prepared, "a b").is_err());
    pair.run();
    assert_eq!(pair.exchanges[&queued.request].content, content(1));
    for (name, value) in [
        ("connection", "close"),
        ("Content-Length", "1"),
        ("a b", "c"),
    ] {
        let fields = [(name.to_owned(), value.to_owned())];
        assert!(client::PreparedRequest::new("GET", "h", &fields, None).is_err());
    }
}
