//! The effect of an era's settings on the packets on the wire.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use fathometer_sys::era::SettingOutcome;
use fathometer_sys::netlink::RouteMetrics;
use fathometer_sys::socket::{self, SocketOptions};
use fathometer_sys::{TcpCounters, TcpSettings, tcp_info};

use crate::lab;
use crate::pair::{CLIENT6, FIN, Outcome, Pair, SERVER4, SERVER6, SYN, Wire};
use crate::quiet::in_a_quiet_moment;

const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;

/// Six segments of 1460 bytes.
const WINDOW: u32 = 8760;

fn settings_of_1997() -> TcpSettings {
    let sysctl = [
        ("tcp_congestion_control", "reno"),
        ("tcp_timestamps", "0"),
        ("tcp_sack", "0"),
        ("tcp_window_scaling", "0"),
        ("tcp_ecn", "0"),
        ("tcp_fastopen", "0"),
        ("tcp_frto", "0"),
        ("tcp_early_retrans", "0"),
        ("tcp_recovery", "0"),
        ("tcp_moderate_rcvbuf", "0"),
        ("tcp_no_metrics_save", "1"),
        ("tcp_autocorking", "0"),
        ("tcp_syn_linear_timeouts", "0"),
        ("tcp_rto_min_us", "1000000"),
        ("tcp_rmem", "4096 17520 17520"),
    ];
    TcpSettings {
        sysctl: sysctl
            .iter()
            .map(|(name, value)| (format!("net.ipv4.{name}"), (*value).to_owned()))
            .collect(),
        route: RouteMetrics {
            initial_window_segments: Some(1),
            ..RouteMetrics::default()
        },
        socket: SocketOptions {
            quick_ack: Some(false),
            ..SocketOptions::default()
        },
        burst_segments: Some(1),
    }
}

/// Sends 100 bytes from the client, and reads the response of `length` bytes to its end.
fn fetch(pair: &Pair, settings: &TcpSettings, length: usize) {
    let options = &settings.socket;
    let address = SocketAddr::new(SERVER4, 80);
    let listener = pair.server.run(|| socket::listen(address, 8, options));
    let listener = listener.unwrap().unwrap();
    listener.set_nonblocking(false).unwrap();
    let quick = options.quick_ack;
    let server = pair.server.spawn("server", move || {
        let (mut stream, _) = listener.accept().unwrap();
        if quick == Some(false) {
            assert!(!socket::quick_ack(&stream).unwrap(), "inherited");
        }
        stream.read_exact(&mut [0; 100]).unwrap();
        stream.write_all(&vec![1; length]).unwrap();
    });
    let server = server.unwrap();
    let client = pair.client.run(|| socket::connect(address, None, options));
    let mut client = client.unwrap().unwrap();
    while client.peer_addr().is_err() {
        std::thread::yield_now();
    }
    client.set_nonblocking(false).unwrap();
    client.write_all(&[2; 100]).unwrap();
    let mut total = 0;
    let mut buffer = [0; 8192];
    loop {
        if let Some(quick) = quick {
            socket::set_quick_ack(&client, quick).unwrap();
        }
        match client.read(&mut buffer).unwrap() {
            0 => break,
            length => total += length,
        }
    }
    assert_eq!(total, length);
    server.join().unwrap();
}

fn syns(outcome: &Outcome) -> Vec<&crate::pair::Seen> {
    outcome.packets.iter().filter(|p| p.has(SYN)).collect()
}

#[test]
fn the_syn_of_1997_offers_a_segment_size_and_nothing_else() {
    if !lab() {
        return;
    }
    let settings = settings_of_1997();
    let pair = Pair::new(Wire::default(), &settings);
    fetch(&pair, &settings, 1000);
    let outcome = pair.stop();
    for syn in syns(&outcome) {
        assert_eq!(syn.options, [(MSS, 1460u16.to_be_bytes().to_vec())]);
        assert_eq!(u32::from(syn.window), WINDOW);
    }
    assert_eq!(syns(&outcome).len(), 2);

    let today = TcpSettings::default();
    let pair = Pair::new(Wire::default(), &today);
    fetch(&pair, &today, 1000);
    let outcome = pair.stop();
    for syn in syns(&outcome) {
        for kind in [MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS] {
            assert!(syn.option(kind).is_some(), "{syn}");
        }
    }
}

#[test]
fn the_windows_and_acknowledgements_of_1997_hold_through_a_transfer() {
    if !lab() {
        return;
    }
    // A segment that is delayed beyond its sender's retransmission time-out is retransmitted.
    in_a_quiet_moment(Duration::from_millis(20), transfer_of_1997);
}

fn transfer_of_1997() -> Result<(), String> {
    let settings = settings_of_1997();
    let wire = Wire {
        delay: Duration::from_millis(20),
        // The spacing of packets on a 10 Mbit/s Ethernet, so that the reader keeps up.
        spacing: Duration::from_micros(1200),
        ..Wire::default()
    };
    let pair = Pair::new(wire, &settings);
    fetch(&pair, &settings, 41 * 1460);
    let losses = pair
        .client
        .run(TcpCounters::read)
        .unwrap()
        .unwrap()
        .losses();
    let outcome = pair.stop();
    let data = |p: &&crate::pair::Seen| !p.from_client && p.payload > 0;
    let sent = || outcome.packets.iter().filter(data);
    let places: BTreeSet<u32> = sent().map(|p| p.sequence).collect();
    assert_eq!(places.len(), 41, "whole segments");
    let widest = outcome.packets.iter().map(|p| u32::from(p.window)).max();
    assert_eq!(widest, Some(WINDOW));
    let segments = sent().count();
    if segments > 41 || !losses.is_empty() {
        return Err(format!("{segments} segments were sent, losses: {losses:?}"));
    }
    // The initial window: only one segment is sent before the first acknowledgement arrives.
    let first = outcome.packets.iter().find(data).unwrap().sequence;
    let before = outcome
        .packets
        .iter()
        .take_while(|p| !p.from_client || p.has(SYN) || p.acknowledged <= first)
        .filter(data)
        .count();
    assert_eq!(before, 1);
    // Every second segment is acknowledged. A fast reader causes more acknowledgements, a slow reader fewer.
    let pure =
        |p: &&crate::pair::Seen| p.from_client && p.payload == 0 && !p.has(SYN) && !p.has(FIN);
    let acknowledgements = outcome.packets.iter().filter(pure).count();
    match (12..=27).contains(&acknowledgements) {
        true => Ok(()),
        false => Err(format!(
            "{acknowledgements} acknowledgements of {segments} segments"
        )),
    }
}

#[test]
fn a_connection_of_1997_reports_the_options_it_lacks() {
    if !lab() {
        return;
    }
    let settings = settings_of_1997();
    let pair = Pair::new(Wire::default(), &settings);
    let address = SocketAddr::new(SERVER6, 80);
    let source = SocketAddr::new(CLIENT6, 0);
    let listener = pair
        .server
        .run(|| socket::listen(address, 8, &settings.socket))
        .unwrap()
        .unwrap();
    listener.set_nonblocking(false).unwrap();
    let client = pair
        .client
        .run(|| socket::connect(address, Some(source), &settings.socket))
        .unwrap()
        .unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), CLIENT6);
    drop(client);
    let info = tcp_info(&server).unwrap();
    assert!(!info.options.timestamps && !info.options.selective_acknowledgements);
    assert_eq!(info.options.window_scales, None);
    assert_eq!(info.congestion_window_segments, 1);
    assert_eq!(
        info.advertised_mss, 1440,
        "IPv6 headers are 20 bytes longer"
    );
    pair.stop();
}

#[test]
fn every_setting_is_accounted_for() {
    if !lab() {
        return;
    }
    let mut settings = settings_of_1997();
    for (name, value) in [
        ("net.ipv4.tcp_of_tomorrow", "1"),
        ("net.ipv4.tcp_reordering", "many"),
    ] {
        settings.sysctl.insert(name.to_owned(), value.to_owned());
    }
    settings.route.congestion_control = Some("nonesuch".to_owned());
    settings.route.window_bytes = Some(WINDOW);
    let pair = Pair::new(Wire::default(), &settings);
    for applied in &pair.applied {
        let impossible: Vec<&str> = applied.impossible().map(|s| s.name.as_str()).collect();
        let peer = if std::ptr::eq(applied, &pair.applied[0]) {
            ["10.0.0.2", "fd00::2"]
        } else {
            ["10.0.0.1", "fd00::1"]
        };
        assert_eq!(
            impossible,
            [
                "net.ipv4.tcp_of_tomorrow",
                "net.ipv4.tcp_reordering",
                &format!("route to {}: congctl", peer[0]),
                &format!("route to {}: congctl", peer[1]),
            ],
            "{applied:?}"
        );
        // Three settings for each of two routes: initcwnd, window and congctl.
        assert_eq!(applied.0.len(), settings.sysctl.len() + 1 + 6);
        let sack = applied.0.iter().find(|s| s.name == "net.ipv4.tcp_sack");
        assert_eq!(
            sack.unwrap().outcome,
            SettingOutcome::Applied("1".to_owned())
        );
    }
    // Settings that already had the value are distinguished from settings that were changed.
    let again = pair.client.run(|| settings.apply(2, &[])).unwrap().unwrap();
    let sack = again.0.iter().find(|s| s.name == "net.ipv4.tcp_sack");
    assert_eq!(sack.unwrap().outcome, SettingOutcome::Unchanged);
    pair.stop();
}
