//! Tests of connections that start with an upgrade, of shutdown, and of exchange events.

use super::tests::{Got, Host, data, origin, raw, reset, site, window};
use super::*;
use crate::exchange::CloseManner;
use crate::h1::server::Upgrade;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::frame::FrameType;

#[test]
fn shutdown_is_announced_and_requests_in_flight_are_answered() {
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/a");
    host.send(&request).take();
    host.connection.announce_end();
    host.write(usize::MAX);
    let greatest = StreamId::MAX.number();
    let announced = [
        Got::GoAway(greatest, ErrorCode::NO_ERROR),
        Got::Ping(false, *b"leaving."),
    ];
    assert_eq!(host.take(), announced);
    // A request that was sent before the client received GOAWAY is answered.
    let request = host.post(3, &[]);
    host.send(&request);
    host.send(raw(FrameType::PING, 1, 0, b"leaving."));
    assert_eq!(host.take(), [Got::GoAway(3, ErrorCode::NO_ERROR)]);
    assert_eq!(host.connection.close_reason(), None);
    // A later request is ignored. Its fields are still decoded, and its content counts against the connection's window.
    let request = host.post(5, &[("new", "field")]);
    host.send(
        [
            request,
            data(5, b"x", true),
            window(5, 1),
            reset(5, ErrorCode::CANCEL),
        ]
        .concat(),
    );
    assert_eq!(host.take(), []);
    host.connection.end(host.now);
    host.send(data(3, b"content", true));
    assert_eq!(host.statuses(), [(3, "204".to_owned())]);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ServerEnds)
    );
    assert_eq!(host.actions, [Action::ShutdownWrite]);
    host.eof();
    assert_eq!(host.actions, [Action::ShutdownWrite, Action::Close]);
    assert!(host.connection.is_finished());
    let mut idle = Host::new(ServerConfig::default());
    idle.connection.end(idle.now);
    idle.write(usize::MAX);
    assert_eq!(idle.take(), [Got::GoAway(0, ErrorCode::NO_ERROR)]);
    assert_eq!(idle.actions, [Action::ShutdownWrite]);
}

#[test]
fn a_connection_ends_at_its_limit_of_requests() {
    let config = ServerConfig {
        max_requests_per_connection: Some(2),
        close: CloseManner::Full,
        ..ServerConfig::default()
    };
    let mut host = Host::new(config);
    let requests = [host.get(1, "/a"), host.get(3, "/b"), host.get(5, "/a")].concat();
    host.send(&requests);
    assert_eq!(host.statuses().len(), 2);
    assert!(host.got.contains(&Got::GoAway(3, ErrorCode::NO_ERROR)));
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::RequestLimit)
    );
    assert_eq!(host.actions, [Action::Close]);
}

#[test]
fn each_way_a_client_leaves_has_its_close_reason() {
    let mut host = Host::new(ServerConfig::default());
    host.eof();
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientFinished)
    );
    assert_eq!(host.actions, [Action::Close]);
    let mut host = Host::new(ServerConfig::default());
    let requests = [host.get(1, "/a"), host.post(3, &[])].concat();
    host.push(&requests);
    host.eof();
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientTruncated)
    );
    assert_eq!(
        host.statuses(),
        [(1, "200".to_owned())],
        "a complete request is answered"
    );
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/a");
    host.send(&request[..20]).eof();
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientTruncated)
    );
    for (code, reason) in [
        (ErrorCode::NO_ERROR, CloseReason::ClientRequested),
        (
            ErrorCode::PROTOCOL_ERROR,
            CloseReason::ClientFailed(ErrorCode::PROTOCOL_ERROR),
        ),
    ] {
        let mut host = Host::new(ServerConfig::default());
        let mut out = host.get(1, "/a");
        write::go_away(&mut out, StreamId::CONNECTION, code, b"");
        host.send(&out);
        assert_eq!(host.statuses(), [(1, "200".to_owned())]);
        assert_eq!(host.connection.close_reason(), Some(reason));
    }
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/long");
    host.send(&request).eof();
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientTruncated)
    );
    host.connection.handle_failure();
    assert!(host.connection.is_finished());
}

#[test]
fn interrupted_responses_are_reported_to_the_byte() {
    let mut config = ServerConfig::default();
    config.framing.data = 400;
    let mut host = Host::new(config);
    let request = host.get_with(1, "/b", &[("priority", "i")]);
    let other = host.get_with(3, "/b", &[("priority", "i")]);
    host.push([request, other].concat());
    let mut slices = [IoSlice::new(&[]); 64];
    let filled = host.connection.transmit(&mut slices);
    let bytes: Vec<u8> = slices[..filled]
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    // The transport takes all output except two parts: 100 bytes of the second last frame, and the last frame.
    let rest = 209 + 100;
    host.connection.transmitted(bytes.len() - rest, host.now);
    host.connection.handle_failure();
    let bodies: Vec<u64> = std::iter::from_fn(|| {
        let (served, _) = host.connection.cut_short(host.now)?;
        Some(served.exchange.body.0)
    })
    .collect();
    assert_eq!(bodies, [900, 800]);
}

#[test]
fn events_have_the_text_of_their_requests() {
    let config = ServerConfig {
        request_text: true,
        events: true,
        ..ServerConfig::default()
    };
    let origin = Arc::new(Origin::new(site(), origin()).unwrap());
    let mut host = Host::of(Connection::new(origin, Arc::new(config), Instant::ZERO));
    host.greet(&[]);
    let agent = [("user-agent", "me"), ("referer", "/r"), ("priority", "u=7")];
    let requests = [host.get_with(1, "/a", &agent), host.get(3, "/b")].concat();
    host.push(&requests);
    let mut slices = [IoSlice::new(&[]); 64];
    let filled = host.connection.transmit(&mut slices);
    let count = slices[..filled].iter().map(|slice| slice.len()).sum();
    host.connection.transmitted(count, host.now);
    let (served, text) = host.connection.poll_event_with_text().unwrap();
    assert_eq!(
        (served.stream.number(), text.line),
        (3, &b"GET /b HTTP/2.0"[..])
    );
    let (_, text) = host.connection.poll_event_with_text().unwrap();
    assert_eq!(text.line, b"GET /a HTTP/2.0");
    assert_eq!((text.referer, text.user_agent), (&b"/r"[..], &b"me"[..]));
}

#[test]
fn a_request_of_http1_becomes_the_first_stream() {
    let upgrade = Upgrade {
        head: b"GET http://h/a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings, X\r\n\
                Upgrade: h2c\r\nHTTP2-Settings: AAQAAAAC\r\nX: 1\r\nAccept: */*\r\n\r\n"
            .to_vec(),
        settings: vec![0, 4, 0, 0, 0, 2],
        rest: Vec::new(),
    };
    let config = ServerConfig {
        events: true,
        ..ServerConfig::default()
    };
    let origin = Arc::new(Origin::new(site(), origin()).unwrap());
    let connection = Connection::from_upgrade(origin, Arc::new(config), &upgrade, Instant::ZERO);
    let mut host = Host::of(connection);
    let mut slices = [IoSlice::new(&[]); 4];
    assert_eq!(host.connection.transmit(&mut slices), 1);
    assert!(slices[0].starts_with(Upgrade::RESPONSE));
    host.connection
        .transmitted(Upgrade::RESPONSE.len(), host.now);
    host.write(usize::MAX);
    assert!(matches!(host.got[0], Got::Settings(_)));
    assert_eq!(host.statuses(), [(1, "200".to_owned())]);
    assert_eq!(
        host.content(1),
        b"aa",
        "SETTINGS_INITIAL_WINDOW_SIZE limits the content"
    );
    let mut out = PREFACE.to_vec();
    write::settings(&mut out, std::iter::empty());
    write::settings_acknowledged(&mut out);
    host.send(out).send(window(1, 2));
    assert_eq!(host.content(1), b"aaaa");
    let request = host.get(1, "/a");
    host.send(&request).assert_refused(Fault::ClosedStream);
    let bad = Upgrade {
        settings: vec![0, 2, 0, 0, 0, 9],
        ..upgrade
    };
    let origin = Arc::new(Origin::new(site(), super::tests::origin()).unwrap());
    let config = Arc::new(ServerConfig::default());
    let connection = Connection::from_upgrade(origin, config, &bad, Instant::ZERO);
    assert_eq!(
        connection.close_reason(),
        Some(CloseReason::Refused(Fault::BadSetting))
    );
}
