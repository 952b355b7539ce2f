//! Waits of a server for the windows of our client, and the limits that the client announces.

use fathometer_http::client::RequestId;
use fathometer_model::Bytes;
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;

use super::support::{
    Ask, Running, Trust, Visit, client_settings_of, origin, service_options, site, visit,
};

const LONG: usize = 400_000;

/// Number of visits; at least one must have neither losses nor probes.
const ATTEMPTS: usize = 5;

fn retrieved(stream: u64, connection: u64) -> Visit {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = site(&[("/long", LONG), ("/short", 1_000)]);
    let server = Running::start(&service_options(&trust), vec![origin(files)], clock);
    let transport = TransportSettings {
        stream_window: Bytes(stream),
        connection_window: Some(Bytes(connection)),
        ..TransportSettings::client()
    };
    let settings = client_settings_of(&trust.client(false, None), transport, Sockets::default());
    let asks = [Ask::get("/long"), Ask::get("/short")];
    let visit = visit(&settings, server.address(), &asks, clock, None);
    assert!(visit.answers.iter().all(|answer| answer.is_whole));
    visit
}

/// Repeats a visit until the client has sent exactly the limits that it has recorded, and checks each visit.
///
/// QUIC repeats a limit if its packet is declared lost, or if the acknowledgement takes longer than a probe timeout
/// (RFC 9002). A busy machine causes both.
fn assert_announced(stream: u64, connection: u64, check: impl Fn(&Visit)) {
    let mut counts = Vec::new();
    for _ in 0..ATTEMPTS {
        let visit = retrieved(stream, connection);
        check(&visit);
        let ours = visit.announced.0 + visit.announced.1;
        let frames = visit.statistics.credit_frames;
        assert!(ours <= frames, "{ours} {frames}");
        if ours == frames {
            return;
        }
        counts.push((ours, frames, visit.statistics.packets_lost));
    }
    panic!("limits recorded, limits sent, packets lost: {counts:?}");
}

#[test]
fn a_server_waits_at_each_end_of_a_streams_window() {
    assert_announced(16_384, 1 << 20, |visit| {
        let of_long = visit
            .waits
            .iter()
            .filter(|w| w.request == Some(RequestId(0)));
        // After each wait, the limit grows by at least an eighth of a window and at most a window.
        let count = of_long.count();
        assert!((3..=8 * LONG / 16_384 + 1).contains(&count), "{count}");
        assert!(
            visit
                .waits
                .iter()
                .all(|wait| wait.request == Some(RequestId(0)))
        );
        assert!(visit.announced.0 > 0);
    });
}

#[test]
fn a_server_waits_for_the_window_of_the_connection() {
    assert_announced(1 << 20, 20_000, |visit| {
        assert!(visit.waits.len() >= 3, "{:?}", visit.waits);
        assert!(visit.waits.iter().all(|wait| wait.request.is_none()));
        assert!(visit.announced.1 > 0);
    });
}

#[test]
fn a_large_window_stops_no_server() {
    assert_announced(6 << 20, 15 << 20, |visit| {
        assert_eq!((visit.waits.len(), visit.announced), (0, (0, 0)));
    });
}
