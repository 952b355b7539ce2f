//! Our client with our server, on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::{Bytes, CloseReason, Failure, Seed};
use fathometer_quic::{Closer, Congestion, EarlyData, TransportSettings};
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;

use super::support::{
    Ask, Running, Trust, client_settings, client_settings_of, content, origin, service_options,
    site, visit,
};
use crate::support::closed_port::ClosedPort;

const SMALL: usize = 1_000;
const LARGE: usize = 3_000_000;

#[test]
fn files_small_and_large_arrive_whole_whatever_the_offloads() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let tls = trust.client(false, None);
    for (segmentation, coalescing) in [(true, true), (false, false)] {
        let sockets = Sockets {
            segmentation,
            coalescing,
            ..Sockets::default()
        };
        let mut options = service_options(&trust);
        options.sockets = sockets;
        let files = site(&[("/small", SMALL), ("/large", LARGE), ("/empty", 0)]);
        let server = Running::start(&options, vec![origin(files)], clock);
        let settings = client_settings_of(&tls, TransportSettings::client(), sockets);
        let mut asks: Vec<Ask> = (0..120).map(|_| Ask::get("/small")).collect();
        asks.insert(3, Ask::get("/large"));
        asks.insert(50, Ask::get("/empty"));
        asks.insert(60, Ask::get("/nowhere"));
        let visit = visit(&settings, server.address(), &asks, clock, None);
        for (ask, answer) in asks.iter().zip(&visit.answers) {
            let (status, expected) = match ask.target.as_str() {
                "/small" => (200, content(SMALL, 0)),
                "/large" => (200, content(LARGE, 1)),
                "/empty" => (200, Vec::new()),
                _ => (404, answer.content.clone()),
            };
            assert!(answer.is_whole && answer.failure.is_none(), "{ask:?}");
            assert_eq!(answer.status, status);
            assert!(answer.content == expected, "{ask:?}");
            assert_eq!(answer.received.content, Bytes(expected.len() as u64));
            // Frames add a small overhead.
            assert!(answer.received.body.0 <= answer.received.content.0 + 9 * 300);
        }
        let handshake = visit.handshake.unwrap();
        assert_eq!(handshake.round_trips, 1);
        assert_eq!(handshake.protocol.as_deref(), Some(&b"h3"[..]));
        assert_eq!(visit.closed.unwrap().by, Closer::Us);
        assert!(visit.statistics.received.bytes.0 > LARGE as u64);
        let statistics = server.end();
        assert_eq!(statistics.connections, 1);
        assert_eq!(statistics.responses, asks.len() as u64);
    }
}

#[test]
fn several_loops_share_a_port_and_each_connection_stays_with_one() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/small", SMALL), ("/large", 200_000)]));
    let server = Running::start(&service_options(&trust), vec![files; 3], clock);
    let settings = client_settings(&trust.client(false, None));
    let asks = vec![Ask::get("/small"), Ask::get("/large")];
    let address = server.address();
    let visits: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| visit(&settings, address, &asks, clock, None)))
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for visit in &visits {
        let failures: Vec<_> = visit.answers.iter().map(|answer| answer.failure).collect();
        assert_eq!(failures, [None; 2], "{:?}", visit.closed);
    }
    let statistics = server.end();
    assert_eq!((statistics.connections, statistics.responses), (12, 24));
}

#[test]
fn content_that_is_sent_is_received_and_methods_are_minded() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let server = Running::start(
        &service_options(&trust),
        vec![origin(site(&[("/a", 10)]))],
        clock,
    );
    let settings = client_settings(&trust.client(false, None));
    let asks = vec![
        Ask {
            method: "HEAD",
            ..Ask::get("/a")
        },
        Ask {
            method: "POST",
            content: content(300_000, 9),
            ..Ask::get("/a")
        },
        Ask::get("/a"),
    ];
    let visit = visit(&settings, server.address(), &asks, clock, None);
    assert_eq!(
        (visit.answers[0].status, visit.answers[0].content.len()),
        (200, 0)
    );
    // A file accepts no request content, and the connection stays open.
    assert_eq!(visit.answers[1].status, 405);
    assert_eq!(
        (visit.answers[2].status, visit.answers[2].content.len()),
        (200, 10)
    );
}

#[test]
fn tickets_allow_early_data_and_a_server_that_forgot_them_gets_the_data_again() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let tls = trust.client(true, None);
    let settings = client_settings(&tls);
    let asks = vec![Ask::get("/a"), Ask::get("/a")];
    let options = service_options(&trust);
    let files = origin(site(&[("/a", 5_000)]));
    let server = Running::start(&options, vec![files.clone()], clock);
    let first = visit(&settings, server.address(), &asks, clock, None);
    assert_eq!(first.handshake.unwrap().early_data, EarlyData::None);
    let second = visit(&settings, server.address(), &asks, clock, None);
    assert_eq!(second.handshake.unwrap().early_data, EarlyData::Accepted);
    server.end();
    // Another server with the same name cannot decrypt the ticket.
    let mut options = options;
    options.tls = trust.server(None);
    let server = Running::start(&options, vec![files], clock);
    let third = visit(&settings, server.address(), &asks, clock, None);
    assert_eq!(third.handshake.unwrap().early_data, EarlyData::Rejected);
    for visit in [&first.answers, &second.answers, &third.answers] {
        assert!(
            visit
                .iter()
                .all(|answer| answer.content == content(5_000, 0))
        );
    }
}

#[test]
fn a_server_that_stops_completes_exchanges_in_flight_and_closes_in_order() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/large", LARGE)]));
    let server = Running::start(&service_options(&trust), vec![files], clock);
    let settings = client_settings(&trust.client(false, None));
    let address = server.address();
    let (visit, statistics) = std::thread::scope(|scope| {
        let asks: Vec<Ask> = (0..20).map(|_| Ask::get("/large")).collect();
        let client = scope.spawn(move || visit(&settings, address, &asks, clock, None));
        while server.service().responses() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let statistics = server.end();
        (client.join().unwrap(), statistics)
    });
    let whole = visit
        .answers
        .iter()
        .filter(|answer| answer.is_whole)
        .count() as u64;
    assert!(whole >= 1);
    // The client reports the requests without a response, so that they can be sent to another server.
    for answer in visit.answers.iter().filter(|answer| !answer.is_whole) {
        assert!(
            matches!(
                answer.failure,
                Some(Failure::GoneAway | Failure::ClosedEarly)
            ),
            "{:?}",
            answer.failure
        );
    }
    assert_eq!(statistics.responses, whole);
    assert_eq!(statistics.reset_at_end, 0);
}

#[test]
fn a_client_is_refused_at_once_where_no_process_listens() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let closed_port = ClosedPort::new();
    let settings = client_settings(&trust.client(false, None));
    let visit = visit(
        &settings,
        closed_port.address,
        &[Ask::get("/")],
        clock,
        None,
    );
    assert_eq!(visit.answers[0].failure, Some(Failure::Refused));
    assert_eq!(visit.closed.unwrap().failure, Some(Failure::Refused));
    assert_eq!(visit.reason, Some(CloseReason::Failed(Failure::Refused)));
    assert!(visit.handshake.is_none());
}

#[test]
fn a_certificate_of_another_authority_is_not_trusted() {
    let clock = Clock::start();
    let (trust, stranger) = (Trust::new(clock), Trust::new(clock));
    let server = Running::start(
        &service_options(&stranger),
        vec![origin(site(&[("/a", 1)]))],
        clock,
    );
    let settings = client_settings(&trust.client(false, None));
    let visit = visit(&settings, server.address(), &[Ask::get("/a")], clock, None);
    assert_eq!(visit.answers[0].failure, Some(Failure::TlsFailed));
}

#[test]
fn every_congestion_controller_and_validation_of_addresses_work_on_a_socket() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let tls = trust.client(false, None);
    for congestion in Congestion::ALL {
        let mut options = service_options(&trust);
        options.transport.congestion = congestion;
        options.validates_addresses = true;
        let server = Running::start(&options, vec![origin(site(&[("/large", LARGE)]))], clock);
        let settings = client_settings(&tls);
        let visit = visit(
            &settings,
            server.address(),
            &[Ask::get("/large")],
            clock,
            None,
        );
        assert!(
            visit.answers[0].content == content(LARGE, 0),
            "{}",
            congestion.name()
        );
        assert_eq!(visit.handshake.unwrap().round_trips, 2);
    }
}

/// A path between one client and a server, until dropped. The path loses one in `one_of` datagrams, and delays every
/// seventh datagram until after the next datagram.
struct LossyPath {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl LossyPath {
    fn new(server: SocketAddr, one_of: u64) -> LossyPath {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(server).unwrap();
        for socket in [&near, &far] {
            let turn = Duration::from_millis(1);
            socket.set_read_timeout(Some(turn)).unwrap();
        }
        let address = near.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let lost = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&lost));
        let thread = std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 65_536];
            let mut late: [Option<Vec<u8>>; 2] = [None, None];
            let (draws, mut drawn) = (Seed(4).stream("loss"), 0);
            while !stopped.load(Ordering::Acquire) {
                for (direction, from) in [&near, &far].into_iter().enumerate() {
                    while let Ok((length, peer)) = from.recv_from(&mut buffer) {
                        if direction == 0 {
                            client = Some(peer);
                        }
                        let send = |bytes: &[u8]| match direction {
                            0 => drop(far.send(bytes)),
                            _ => drop(client.map(|client| near.send_to(bytes, client))),
                        };
                        drawn += 1;
                        if draws.draw(drawn) % one_of == 0 {
                            counted.fetch_add(1, Ordering::AcqRel);
                            continue;
                        }
                        if drawn % 7 == 0 && late[direction].is_none() {
                            late[direction] = Some(buffer[..length].to_vec());
                            continue;
                        }
                        send(&buffer[..length]);
                        if let Some(bytes) = late[direction].take() {
                            send(&bytes);
                        }
                    }
                }
            }
        });
        LossyPath {
            address,
            stop,
            lost,
            thread: Some(thread),
        }
    }
}

impl Drop for LossyPath {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn what_a_path_loses_or_brings_late_is_repaired() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/large", LARGE), ("/small", SMALL)]));
    let server = Running::start(&service_options(&trust), vec![files], clock);
    let path = LossyPath::new(server.address(), 25);
    let settings = client_settings(&trust.client(false, None));
    let mut asks: Vec<Ask> = (0..50).map(|_| Ask::get("/small")).collect();
    asks.insert(10, Ask::get("/large"));
    let visit = visit(&settings, path.address, &asks, clock, None);
    for (ask, answer) in asks.iter().zip(&visit.answers) {
        let expected = match ask.target.as_str() {
            "/large" => content(LARGE, 0),
            _ => content(SMALL, 1),
        };
        assert!(answer.content == expected, "{ask:?}");
    }
    assert!(path.lost.load(Ordering::Acquire) > 10);
    assert_eq!(server.end().responses, asks.len() as u64);
}
