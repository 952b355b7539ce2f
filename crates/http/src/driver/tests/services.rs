//! Alternative services announced in hand-written HTTP/2 frames.

use fathometer_model::ServiceEvent;

use super::*;
use crate::h2::StreamId;
use crate::h2::frame::write;

/// Creates a driver that uses HTTP/2 and has requested the page. The server's settings have arrived.
fn asked(cache: ValidatorCache) -> Script {
    let options = Options {
        host: "www.example.test".to_owned(),
        ..Options::default()
    };
    let mut script = Script::revisit("h3-alt-svc", options, Visit::First, cache);
    assert_eq!(script.actions(), "connect 0");
    let conn = ConnectionId(0);
    assert_eq!(script.driver.protocol_of(conn), Protocol::Http2);
    script.driver.handle_connected(conn, script.now);
    let mut bytes = Vec::new();
    write::settings(&mut bytes, std::iter::empty());
    script.driver.handle_data(conn, &bytes, script.now);
    while !script.driver.transmit(conn).is_empty() {
        let length = script.driver.transmit(conn).len();
        script.driver.transmitted(conn, length, script.now);
    }
    script
}

fn say(script: &mut Script, stream: u32, origin: &str, value: &str) {
    let mut bytes = Vec::new();
    write::alt_svc(&mut bytes, StreamId::new(stream), origin, value);
    script
        .driver
        .handle_data(ConnectionId(0), &bytes, script.now);
}

fn news(script: &Script) -> Vec<(ServiceEvent, Option<u16>, Option<u64>)> {
    let services = script.driver.services.iter();
    services
        .map(|one| (one.news, one.port, one.max_age_s))
        .collect()
}

const VALUE: &str = "h3=\":8443\"; ma=60";

#[test]
fn a_service_announced_in_a_frame_is_connected_to() {
    for (stream, origin) in [
        (0, "https://www.example.test"),
        (0, "https://WWW.example.test:443"),
        (1, ""),
    ] {
        let mut script = asked(ValidatorCache::new());
        say(&mut script, stream, origin, VALUE);
        assert_eq!(script.actions(), "connect 1", "{origin}");
        let conn = ConnectionId(1);
        assert_eq!(script.driver.protocol_of(conn), Protocol::Http3);
        assert_eq!(script.driver.port_of(conn), Some(8443));
        assert_eq!(news(&script), [(ServiceEvent::Found, Some(8443), Some(60))]);
        // Another frame withdraws the announcement.
        say(&mut script, 0, "https://www.example.test", "clear");
        assert_eq!(news(&script)[1].0, ServiceEvent::Cleared);
    }
}

#[test]
fn alternatives_for_other_origins_or_without_an_origin_are_ignored() {
    for (stream, origin, value) in [
        (0, "https://other.example.test", VALUE),
        (0, "https://www.example.test:8443", VALUE),
        (0, "http://www.example.test", VALUE),
        (0, "www.example.test", VALUE),
        (0, "null", VALUE),
        (0, "", VALUE),
        (1, "https://www.example.test", VALUE),
        (3, "", VALUE),
        (1, "", "h3=8443"),
        (1, "", "h2=\":8443\""),
        (1, "", "h3=\"elsewhere.test:8443\""),
        (1, "", "h3=\":8443\"; ma=0"),
    ] {
        let mut script = asked(ValidatorCache::new());
        say(&mut script, stream, origin, value);
        assert_eq!(script.actions(), "", "{stream} {origin} {value}");
        assert_eq!(news(&script), [], "{stream} {origin} {value}");
    }
}

#[test]
fn a_misdirected_bundle_is_requested_from_the_origin() {
    use crate::client::{Event, Head, Received};
    use crate::driver::item::Ask;
    use crate::field_block::FieldBlock;

    let options = Options {
        host: "www.example.test".to_owned(),
        ..Options::default()
    };
    let mut cache = ValidatorCache::new();
    let service = Service {
        port: 8443,
        until: Instant::ZERO + Duration::from_secs(60),
        broken_until: None,
    };
    cache.insert_service(options.host.clone(), service);
    let mut script = Script::revisit("h3-alt-svc-package", options, Visit::First, cache);
    assert_eq!(script.actions(), "connect 0");
    let (conn, now) = (ConnectionId(0), script.now);
    script.driver.handle_connected(conn, now);
    let request = script.driver.take_request(conn).unwrap().request;
    let (fields, received) = (FieldBlock::default(), Received::default());
    let head = Some(Head::new(421, &fields));
    script
        .driver
        .handle_hosted(conn, Event::Begin { request }, None, now);
    script
        .driver
        .handle_hosted(conn, Event::Head { request }, head, now);
    let end = Event::End {
        request,
        received,
        persists: true,
    };
    script.driver.handle_hosted(conn, end, None, now);
    assert_eq!(script.actions(), "connect 1");
    let ask = script.driver.exchanges.last().unwrap().job.ask;
    assert!(matches!(ask, Ask::Bundle { .. }), "{ask:?}");
}
