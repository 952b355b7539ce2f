//! Tests of sending: frames and writes, order, cancellation, pushes, early hints, repeated requests.

use std::time::Duration;

use proptest::prelude::*;

use fathometer_model::Bytes;

use super::tests::{Got, Host, data, origin, raw, reset, window};
use super::*;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::frame::FrameType;
use crate::h2::settings::id;
use crate::origin::OriginConfig;
use crate::origin::dynamic::Dynamic;

fn framed(change: impl FnOnce(&mut Framing)) -> Host {
    let mut config = ServerConfig::default();
    change(&mut config.framing);
    Host::new(config)
}

/// Enlarges all windows.
fn open(host: &mut Host) {
    let mut settings = Vec::new();
    let entries = [(id::INITIAL_WINDOW_SIZE, 1 << 24)];
    write::settings(&mut settings, entries.into_iter());
    settings.extend(window(0, 1 << 24));
    host.send(&settings).take();
    host.writes.clear();
}

/// Sends requests for the same file, each with a `priority` field.
fn ask(host: &mut Host, path: &str, priorities: &[(u32, &str)]) {
    let mut requests = Vec::new();
    for (stream, priority) in priorities {
        requests.extend(host.get_with(*stream, path, &[("priority", priority)]));
    }
    host.send(&requests);
}

fn lengths(host: &Host) -> Vec<usize> {
    let frames = host.got.iter().filter_map(|got| match got {
        Got::Data(_, content, _) => Some(content.len()),
        _ => None,
    });
    frames.collect()
}

#[test]
fn a_small_response_is_in_one_slice() {
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/b");
    host.push(&request);
    let mut slices = [IoSlice::new(&[]); 8];
    assert_eq!(host.connection.transmit(&mut slices), 1);
    let mut host = framed(|framing| framing.copied = 100);
    let request = host.get(1, "/b");
    host.push(&request);
    let mut slices = [IoSlice::new(&[]); 8];
    assert_eq!(host.connection.transmit(&mut slices), 2);
    assert_eq!(slices[1].len(), 1000);
}

#[test]
fn frame_lengths_follow_the_setting_and_the_client() {
    let mut host = framed(|framing| framing.data = 400);
    let request = host.get(1, "/b");
    host.send(&request);
    assert_eq!(lengths(&host), [400, 400, 200]);
    let mut host = framed(|framing| framing.data = 1 << 20);
    open(&mut host);
    let request = host.get(1, "/long");
    host.send(&request);
    assert_eq!(lengths(&host)[0], 16_384);
    let mut settings = Vec::new();
    write::settings(&mut settings, [(id::MAX_FRAME_SIZE, 90_000)].into_iter());
    host.send(&settings).take();
    let request = host.get(3, "/long");
    host.connection.handle_data(&request, host.now);
    let mut slices = [IoSlice::new(&[]); 8];
    assert_eq!(host.connection.transmit(&mut slices), 2);
    assert_eq!(slices[1].len(), 90_000);
}

#[test]
fn writes_end_as_configured() {
    for (writes, count) in [
        (Writes::Everything, 1),
        (Writes::EachTurn, 3 + 1),
        (Writes::EachFrame, 4 + 2),
    ] {
        let mut host = framed(|framing| {
            framing.writes = writes;
            framing.data = 400;
        });
        let requests = [host.get(1, "/b"), host.get(3, "/a")].concat();
        host.send(&requests);
        assert_eq!(host.writes.len(), count, "{writes:?}");
        assert_eq!(host.content(1).len() + host.content(3).len(), 1004);
    }
}

#[test]
fn heads_are_sent_with_their_content_or_at_once() {
    for (heads, streams) in [
        (Heads::WithContent, [1, 1, 3, 3]),
        (Heads::AtOnce, [1, 3, 1, 3]),
    ] {
        let mut host = framed(|framing| framing.heads = heads);
        let requests = [host.get(1, "/a"), host.get(3, "/b")].concat();
        host.send(&requests);
        let order: Vec<u32> = host
            .got
            .iter()
            .map(|got| match got {
                Got::Head(stream, ..) | Got::Data(stream, ..) => *stream,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, streams, "{heads:?}");
    }
}

#[test]
fn urgent_responses_are_first_and_incremental_ones_take_turns() {
    let mut host = framed(|framing| framing.data = 500);
    ask(
        &mut host,
        "/b",
        &[(1, "u=5"), (3, ""), (5, "u=1"), (7, "i"), (9, "i")],
    );
    assert_eq!(host.order(), [5, 5, 3, 3, 7, 9, 7, 9, 1, 1]);
    assert_eq!(host.served.len(), 5);
}

#[test]
fn a_priority_may_precede_its_request_and_change_later() {
    let mut host = framed(|framing| {
        framing.data = 500;
        framing.ahead = Bytes(1);
    });
    host.send(raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=0"));
    // A PRIORITY_UPDATE overrides the `priority` field of the request.
    let mut requests = host.get(1, "/b");
    requests.extend(host.get_with(3, "/b", &[("priority", "u=7")]));
    requests.extend(host.get(5, "/b"));
    host.push(&requests);
    host.push(raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=2"));
    host.write(usize::MAX);
    assert_eq!(host.order(), [3, 3, 5, 5, 1, 1]);
}

#[test]
fn dependencies_are_used_without_rfc_9218_priorities() {
    let mut host = framed(|framing| framing.data = 500);
    host.send(raw(FrameType::PRIORITY, 0, 1, &[0, 0, 0, 3, 15]));
    host.send(raw(FrameType::PRIORITY, 0, 3, &[0, 0, 0, 0, 15]));
    host.send(raw(FrameType::PRIORITY, 0, 1, &[0, 0, 0, 3, 15]));
    let requests = [host.get(1, "/b"), host.get(3, "/b")].concat();
    host.send(&requests);
    assert_eq!(host.order(), [3, 3, 1, 1]);
    host.take();
    ask(&mut host, "/b", &[(5, "u=0")]);
    host.send(raw(FrameType::PRIORITY, 0, 7, &[0, 0, 0, 9, 15]));
    let requests = [host.get(7, "/b"), host.get(9, "/b")].concat();
    host.take();
    host.send(&requests);
    assert_eq!(host.order(), [7, 7, 9, 9]);
}

#[test]
fn queued_output_is_bounded_and_yields_to_urgent_responses() {
    let mut host = framed(|framing| framing.ahead = Bytes(20_000));
    open(&mut host);
    let request = host.get(1, "/long");
    host.push(&request);
    let mut slices = [IoSlice::new(&[]); 64];
    let filled = host.connection.transmit(&mut slices);
    let offered: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
    assert!((20_000..40_000).contains(&offered), "{offered}");
    let request = host.get_with(3, "/a", &[("priority", "u=0")]);
    host.send(&request);
    let order = host.order();
    let place = order.iter().position(|&stream| stream == 3).unwrap();
    assert_eq!(
        place, 2,
        "the urgent response must follow the two frames that were already queued: {order:?}"
    );
    assert_eq!(host.content(1).len(), 100_000);
}

#[test]
fn a_cancelled_response_stops_and_is_reported() {
    let mut host = framed(|framing| framing.ahead = Bytes(20_000));
    open(&mut host);
    let request = host.get(1, "/long");
    host.push(&request).push(reset(1, ErrorCode::CANCEL));
    host.write(usize::MAX);
    let [served] = host.served[..] else {
        panic!("{:?}", host.served);
    };
    assert_eq!(served.reset, Some(ErrorCode::CANCEL));
    assert_eq!(served.exchange.body.0, host.content(1).len() as u64);
    assert!(served.exchange.body.0 < 100_000);
    assert!(host.connection.is_idle());
    let requests = [host.get(3, "/b"), reset(3, ErrorCode::CANCEL)].concat();
    host.take();
    host.send(&requests);
    assert_eq!(host.take(), [], "no part of the response is in frames");
    assert_eq!(host.served.len(), 1);
}

#[test]
fn repeated_requests_get_the_same_response() {
    let answers = |remembered| {
        let config = ServerConfig {
            remembered,
            ..ServerConfig::default()
        };
        let mut host = Host::new(config);
        let asks = [
            ("/a", &[][..]),
            ("/b", &[("range", "bytes=1-3")]),
            ("/a", &[]),
            ("/b", &[("range", "bytes=1-3")]),
            ("/none", &[]),
            ("/a", &[("priority", "u=6")]),
            ("/b", &[]),
        ];
        let mut stream = 1;
        for round in 0..5 {
            let mut requests = Vec::new();
            for (path, more) in asks {
                requests.extend(host.get_with(stream, path, more));
                stream += 2;
            }
            host.send(&requests);
            match round {
                // First the date changes, then the client's HPACK table, then the server's HPACK table.
                1 => host.now += Duration::from_secs(2),
                2 => {
                    let request = host.get_with(stream, "/empty", &[("new", "field")]);
                    stream += 2;
                    host.send(&request);
                }
                3 => {
                    let mut settings = Vec::new();
                    write::settings(&mut settings, [(id::HEADER_TABLE_SIZE, 0)].into_iter());
                    host.send(&settings);
                }
                _ => {}
            }
        }
        (host.take(), host.served)
    };
    let (frames, served) = answers(64);
    assert_eq!((frames, served), answers(0));
    assert_eq!(answers(1), answers(0), "also with few entries in the cache");
}

fn with_plans() -> OriginConfig {
    OriginConfig {
        push: "/index.html /a /b /none".parse().unwrap(),
        early_hints: "/index.html /a".parse().unwrap(),
        ..origin()
    }
}

fn pushing(config: ServerConfig, settings: &[(u16, u32)]) -> Host {
    let mut host = Host::fresh(config, with_plans());
    host.greet(settings);
    host
}

#[test]
fn companions_are_promised_before_the_page_and_sent_after_it() {
    let config = ServerConfig {
        early_hints: false,
        ..ServerConfig::default()
    };
    let mut host = pushing(config, &[]);
    let request = host.get_with(1, "/index.html", &[("user-agent", "x")]);
    host.send(&request);
    let Got::Push(1, 2, fields) = &host.got[0] else {
        panic!("{:?}", host.got);
    };
    let wanted = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "example.org"),
        (":path", "/a"),
    ];
    assert_eq!(
        *fields,
        wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert!(matches!(host.got[1], Got::Push(1, 4, _)));
    let statuses = [1, 2, 4].map(|stream| (stream, "200".to_owned()));
    assert_eq!(host.statuses(), statuses);
    assert_eq!(host.order(), [1, 2, 4]);
    assert_eq!(host.content(4).len(), 1000);
    let pushed: Vec<bool> = host.served.iter().map(|served| served.pushed).collect();
    assert_eq!(pushed, [false, true, true]);
    assert!(host.served[1].exchange.request_head > Bytes(0));
    assert!(host.connection.is_idle());
    // Each file is pushed only once per connection.
    host.take();
    let request = host.get(3, "/index.html");
    host.send(&request);
    assert_eq!(host.take().len(), 2);
}

#[test]
fn a_page_is_sent_before_its_pushes() {
    let dependency = raw(FrameType::PRIORITY, 0, 1, &[0, 0, 0, 0, 0]);
    for (field, before) in [
        ("u=3", &[][..]),
        ("u=3, i", &[]),
        ("u=6, i", &[]),
        ("", &dependency),
    ] {
        for (heads, work) in [
            (Heads::AtOnce, 0),
            (Heads::WithContent, 0),
            (Heads::WithContent, 10),
        ] {
            let mut config = ServerConfig {
                service_time: Duration::from_millis(work),
                early_hints: false,
                ..ServerConfig::default()
            };
            config.framing.heads = heads;
            config.framing.data = 3;
            let mut host = pushing(config, &[]);
            host.push(before);
            let more = [("priority", field)];
            let request =
                host.get_with(1, "/index.html", if field.is_empty() { &[] } else { &more });
            host.send(&request).wait(Duration::from_secs(1));
            let mut order = host.order();
            assert_eq!(order.len(), 2 + 2 + 334);
            order.dedup();
            let apart = before.is_empty() || work > 0;
            let all = if apart {
                &[1, 2, 4][..]
            } else {
                &[1, 2, 4, 2, 4]
            };
            assert_eq!(order, all, "{field:?} {heads:?}");
            let heads = host.statuses();
            let heads: Vec<u32> = heads.iter().map(|&(stream, _)| stream).collect();
            assert_eq!(heads, [1, 2, 4]);
        }
    }
}

#[test]
fn clients_limit_or_disable_push_by_settings() {
    for (settings, count) in [
        (&[(id::ENABLE_PUSH, 0)][..], 0),
        (&[(id::MAX_CONCURRENT_STREAMS, 1)], 1),
        (&[(id::MAX_CONCURRENT_STREAMS, 0)], 0),
        (&[], 2),
    ] {
        let mut host = pushing(ServerConfig::default(), settings);
        let request = host.get(1, "/index.html");
        host.send(&request);
        let promises = host.got.iter().filter(|got| matches!(got, Got::Push(..)));
        assert_eq!(promises.count(), count, "{settings:?}");
    }
    let config = ServerConfig {
        push: false,
        ..ServerConfig::default()
    };
    let mut host = pushing(config, &[]);
    let requests = [host.get(1, "/index.html"), host.get(3, "/a")].concat();
    host.send(&requests);
    assert!(!host.got.iter().any(|got| matches!(got, Got::Push(..))));
}

#[test]
fn a_push_can_be_cancelled() {
    let mut host = pushing(ServerConfig::default(), &[(id::INITIAL_WINDOW_SIZE, 1)]);
    let request = host.get(1, "/index.html");
    host.send(&request);
    host.send(
        [
            reset(2, ErrorCode::CANCEL),
            reset(4, ErrorCode::REFUSED_STREAM),
        ]
        .concat(),
    );
    host.take();
    host.send([window(2, 100), window(4, 100), window(1, 100)].concat());
    assert_eq!(host.take(), [Got::Data(1, b"html>".to_vec(), true)]);
    assert_eq!(
        host.served
            .iter()
            .filter(|served| served.reset.is_some())
            .count(),
        2
    );
    let mut host = pushing(ServerConfig::default(), &[(id::INITIAL_WINDOW_SIZE, 1)]);
    let request = host.get(1, "/index.html");
    host.send(&request).take();
    host.send(data(2, b"x", false))
        .assert_reset(2, ErrorCode::STREAM_CLOSED);
    let fields = host.headers(4, &[("a", "b")], true);
    host.send(&fields).assert_refused(Fault::BadStreamNumber);
}

#[test]
fn early_hints_precede_the_response_even_during_its_work() {
    let config = ServerConfig {
        push: false,
        service_time: Duration::from_millis(30),
        connection_time: Duration::from_millis(5),
        ..ServerConfig::default()
    };
    let mut host = pushing(config, &[]);
    let requests = [host.get(1, "/index.html"), host.get(3, "/a")].concat();
    host.send(&requests);
    let Got::Head(1, fields, false) = &host.take()[0] else {
        panic!("no 103 (Early Hints) response");
    };
    assert_eq!(fields[0], (":status".to_owned(), "103".to_owned()));
    assert!(
        fields[1].0 == "link" && fields[1].1.contains("</a>"),
        "{fields:?}"
    );
    // Requests are processed one after another: 30 ms each, plus 5 ms for the first request of the connection.
    let first = host.connection.poll_timeout().unwrap();
    host.wait(Duration::from_millis(36));
    assert_eq!(host.statuses(), [(1, "200".to_owned())], "{first:?}");
    host.wait(Duration::from_millis(30));
    assert_eq!(host.statuses().len(), 2);
    let hinted = host.served[0];
    assert!(hinted.exchange.head > host.served[1].exchange.head);
    let off = ServerConfig {
        early_hints: false,
        ..ServerConfig::default()
    };
    let mut host = pushing(off, &[]);
    let request = host.get(1, "/index.html");
    host.send(&request);
    assert_eq!(host.statuses()[0], (1, "200".to_owned()));
}

#[test]
fn a_generated_response_ends_although_the_window_is_used_up() {
    let dynamic = Dynamic {
        path: "/empty".to_owned(),
        content_type: None,
        parts: 1,
        part: None,
        first: Duration::from_millis(100),
        every: Duration::ZERO,
    };
    let origin = OriginConfig {
        dynamic: vec![dynamic],
        ..origin()
    };
    let mut host = Host::fresh(ServerConfig::default(), origin);
    host.greet(&[(id::INITIAL_WINDOW_SIZE, 1 << 20)]);
    let requests = [host.get(1, "/empty"), host.get(3, "/long")].concat();
    host.send(&requests);
    assert_eq!(host.statuses().len(), 2);
    host.take();
    host.wait(Duration::from_millis(100));
    assert_eq!(host.take(), [Got::Data(1, Vec::new(), true)]);
    assert!(
        host.connection.is_sending(),
        "the window still blocks the other"
    );
}

#[test]
fn the_first_request_that_is_processed_takes_the_connection_time() {
    let config = ServerConfig {
        service_time: Duration::from_millis(30),
        connection_time: Duration::from_millis(5),
        ..ServerConfig::default()
    };
    let mut host = Host::fresh(config, origin());
    host.greet(&[]);
    let requests = [host.post(1, &[("content-length", "5")]), host.get(3, "/a")].concat();
    host.send(&requests);
    let ready = host.now + Duration::from_millis(35);
    assert_eq!(host.connection.poll_timeout(), Some(ready));
    host.send(data(1, b"12345", true));
    host.wait(Duration::from_millis(35));
    assert_eq!(host.statuses(), [(3, "200".to_owned())]);
    host.wait(Duration::from_millis(30));
    assert_eq!(host.statuses()[1..], [(1, "204".to_owned())]);
}

/// Generates a frame that a client may send, valid or invalid.
fn utterances() -> impl Strategy<Value = Vec<u8>> {
    let utterance = (0..14_u8, 0..6_u32, any::<u8>());
    prop::collection::vec(utterance, 0..14).prop_map(|utterances| {
        let mut host = Host::fresh(ServerConfig::default(), with_plans());
        let mut out = PREFACE.to_vec();
        write::settings(&mut out, [(id::INITIAL_WINDOW_SIZE, 70_000)].into_iter());
        write::settings_acknowledged(&mut out);
        let mut next = 1;
        for (kind, old, value) in utterances {
            let stream = 2 * old + 1;
            let mut advance = || {
                next += 2;
                next - 2
            };
            out.extend(match kind {
                0 => host.get(advance(), "/a"),
                1 => host.get_with(advance(), "/long", &[("priority", "i")]),
                2 => host.get(advance(), "/index.html"),
                3 => host.get_with(advance(), "/b", &[("priority", "u=1")]),
                4 => host.post(advance(), &[("content-length", "5")]),
                5 => host.post(advance(), &[]),
                6 => data(stream, b"12345", value & 1 == 1),
                7 => raw(FrameType::DATA, 9, stream, &[value % 8, 1, 2, 3, 4, 5]),
                8 => reset(stream, ErrorCode::CANCEL),
                9 => window(if value & 1 == 1 { stream } else { 0 }, u32::from(value)),
                10 => raw(FrameType::PING, value & 1, 0, &[value; 8]),
                11 => raw(FrameType::PRIORITY, 0, stream, &[0, 0, 0, value % 8, value]),
                12 => host.headers(stream, &[("trailer", "x")], value & 1 == 1),
                _ => raw(FrameType(value), value, stream, &[value; 5]),
            });
        }
        out
    })
}

/// Runs a connection with bytes that arrive in `pieces`. Returns the final output, the served exchanges and the close
/// reason.
fn serve<'p>(
    pieces: impl Iterator<Item = &'p [u8]>,
) -> (Vec<u8>, Vec<Served>, Option<CloseReason>) {
    let mut config = ServerConfig::default();
    // Otherwise, the number of frames queued before the remaining input arrives would depend on the split.
    config.framing.ahead = Bytes(0);
    let mut host = Host::fresh(config, with_plans());
    for piece in pieces {
        host.push(piece);
    }
    host.write(7000);
    host.eof();
    host.wait(Duration::from_secs(100));
    assert!(host.connection.is_finished());
    (
        host.writes.concat(),
        host.served,
        host.connection.close_reason(),
    )
}

proptest! {
    #[test]
    fn any_split_gives_the_same_output(
        bytes in utterances(),
        cuts in prop::collection::vec(1..90_usize, 1..20),
    ) {
        let whole = serve(std::iter::once(&bytes[..]));
        let mut rest = &bytes[..];
        let mut cuts = cuts.iter().cycle();
        let pieces = std::iter::from_fn(move || {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next()?));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        let cut = serve(pieces);
        prop_assert_eq!(whole.0, cut.0);
        prop_assert_eq!(whole.1, cut.1);
        prop_assert_eq!(whole.2, cut.2);
    }
}
