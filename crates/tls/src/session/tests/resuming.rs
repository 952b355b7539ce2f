//! Tests of resumed sessions and early data.

use std::sync::Arc;

use fathometer_model::Bytes;

use super::pair::{NOW, Pair, client_options, server_options};
use crate::*;

const STATEFUL: Tickets = Tickets::Stateful {
    count: 2,
    capacity: 100,
};

/// Connects, and completes the handshake and the transfer of tickets.
fn connect(client: &Arc<ClientSettings>, server: &Arc<ServerSettings>) -> Pair {
    let mut pair = Pair::new(client, server);
    pair.settle().unwrap();
    pair.check_bytes();
    pair
}

#[test]
fn a_second_connection_resumes_by_the_tickets_of_the_server() {
    for (version, tickets, expected) in [
        (
            Version::Tls13,
            Tickets::Stateless { count: 2 },
            Resumption::Psk,
        ),
        (Version::Tls13, STATEFUL, Resumption::Psk),
        (Version::Tls13, Tickets::Off, Resumption::Full),
        (
            Version::Tls13,
            Tickets::Stateless { count: 0 },
            Resumption::Full,
        ),
        (
            Version::Tls12,
            Tickets::Stateless { count: 2 },
            Resumption::Ticket,
        ),
        (Version::Tls12, STATEFUL, Resumption::SessionId),
        (Version::Tls12, Tickets::Off, Resumption::Full),
    ] {
        let (mut client, mut server) = (client_options(), server_options());
        client.versions = vec![version];
        server.tickets = tickets;
        let client = ClientSettings::new(client).unwrap();
        let server = ServerSettings::new(server).unwrap();
        let first = connect(&client, &server);
        assert_eq!(first.client_handshake().resumption, Resumption::Full);
        let second = connect(&client, &server);
        for handshake in [second.client_handshake(), second.server_handshake()] {
            assert_eq!(handshake.resumption, expected, "{version} {tickets:?}");
            let full = expected == Resumption::Full;
            assert_eq!(handshake.certificates > Bytes(0), full);
            assert_eq!(handshake.signature_scheme.is_some(), full);
        }
        if expected != Resumption::Full {
            assert_eq!(second.client_handshake().round_trips, 1);
            let (before, after) = (first.client_handshake(), second.client_handshake());
            assert!(after.received < before.received);
        }
    }
}

#[test]
fn tickets_are_counted_apart_from_the_handshake() {
    for count in [0, 1, 4] {
        let mut server = server_options();
        server.tickets = Tickets::Stateless { count };
        let mut pair = Pair::with(client_options(), server);
        pair.settle().unwrap();
        let (client, server) = (pair.client_handshake(), pair.server_handshake());
        assert_eq!(client.received, server.sent);
        assert_eq!(client.sent, server.received);
        let tickets = pair.client.received().handshake - client.received;
        assert_eq!(tickets > Bytes(0), count > 0, "{tickets:?}");
    }
}

#[test]
fn a_client_without_a_store_never_resumes() {
    let mut client = client_options();
    client.resumption = None;
    let client = ClientSettings::new(client).unwrap();
    let server = ServerSettings::new(server_options()).unwrap();
    for _ in 0..2 {
        let pair = connect(&client, &server);
        assert_eq!(pair.client_handshake().resumption, Resumption::Full);
    }
}

/// Creates settings for early data, and makes a first connection that receives tickets.
fn with_tickets(limit: Option<u32>) -> (Arc<ClientSettings>, Arc<ServerSettings>) {
    let (mut client, mut server) = (client_options(), server_options());
    client.early_data = true;
    client.alpn = vec![b"h2".to_vec()];
    server.alpn = client.alpn.clone();
    server.tickets = STATEFUL;
    server.early_data = limit;
    let client = ClientSettings::new(client).unwrap();
    let server = ServerSettings::new(server).unwrap();
    let mut first = Pair::new(&client, &server);
    assert!(!first.client.may_send_early(), "no session is stored yet");
    assert_eq!(first.client.early_write(b"GET /"), 0);
    first.settle().unwrap();
    assert_eq!(first.client_handshake().early_data, EarlyData::NotTried);
    (client, server)
}

#[test]
fn early_data_is_answered_before_the_handshake_is_over() {
    let (client, server) = with_tickets(Some(16_384));
    let mut pair = Pair::new(&client, &server);
    assert!(pair.client.may_send_early());
    assert_eq!(pair.client.early_write(b"GET /a"), 6);
    assert_eq!(pair.client.early_write(b"GET /b"), 6);
    pair.up().unwrap();
    assert_eq!(pair.early, b"GET /aGET /b");
    assert!(!pair.server.is_established() && pair.server.may_write());
    assert_eq!(
        pair.server.alpn(),
        Some(&b"h2"[..]),
        "ALPN is available before the handshake is complete"
    );
    for part in [b"20", b"0 "] {
        assert_eq!(pair.server.write(part), 2);
    }
    assert!(pair.server.wants_transmit());
    pair.down().unwrap();
    assert_eq!(
        pair.read[0], b"200 ",
        "the answer arrives before the handshake is complete"
    );
    assert_eq!(pair.server.sent().application_records, 1);
    pair.client.write(b"GET /c");
    pair.settle().unwrap();
    assert_eq!(pair.read[1], b"GET /aGET /bGET /c");
    assert_eq!(
        pair.early, b"GET /aGET /b",
        "the last request is not early data"
    );
    for handshake in [pair.client_handshake(), pair.server_handshake()] {
        assert_eq!(handshake.early_data, EarlyData::Accepted);
        assert_eq!(handshake.round_trips, 0);
        assert_eq!(handshake.resumption, Resumption::Psk);
    }
    assert_eq!(
        pair.client_handshake().sent,
        pair.server_handshake().received
    );
    assert_eq!(pair.client.sent().content, Bytes(18));
    pair.check_bytes();
}

#[test]
fn early_data_beyond_the_limit_is_not_taken() {
    let (client, server) = with_tickets(Some(100));
    let mut pair = Pair::new(&client, &server);
    assert_eq!(pair.client.early_write(&[b'e'; 60]), 60);
    assert_eq!(pair.client.early_write(&[b'e'; 60]), 40);
    assert_eq!(pair.client.early_write(&[b'e'; 60]), 0);
    pair.settle().unwrap();
    assert_eq!(pair.early.len(), 100);
    pair.check_bytes();
}

/// The server issues tickets for early data and then loses all stored sessions.
#[test]
fn early_data_that_is_refused_is_written_again() {
    for bytes in [6, 26, 4000] {
        let (client, _) = with_tickets(Some(16_384));
        let mut options = server_options();
        options.tickets = STATEFUL;
        options.early_data = Some(16_384);
        let server = ServerSettings::new(options).unwrap();
        let mut pair = Pair::new(&client, &server);
        let content = vec![b'e'; bytes];
        assert_eq!(pair.client.early_write(&content[..4]), 4);
        for part in content[4..].chunks(400) {
            assert_eq!(pair.client.early_write(part), part.len());
        }
        let early = pair.client.sent().application;
        pair.settle().unwrap();
        assert_eq!(pair.read[1], b"");
        for handshake in [pair.client_handshake(), pair.server_handshake()] {
            assert_eq!(handshake.early_data, EarlyData::Rejected);
            assert_eq!(handshake.resumption, Resumption::Full);
            assert_eq!(handshake.round_trips, 1);
        }
        assert_eq!(
            pair.server.received().application,
            early,
            "rejected early data is also counted"
        );
        assert_eq!(
            pair.client_handshake().sent,
            pair.server_handshake().received
        );
        pair.client.write(&content);
        pair.settle().unwrap();
        assert_eq!(pair.read[1], content);
        assert_eq!(pair.early, b"");
    }
}

#[test]
fn a_ticket_brings_early_data_once() {
    let (client, server) = with_tickets(Some(1000));
    let mut first = Pair::new(&client, &server);
    first.client.early_write(b"once");
    let replayed = first.client.transmit().to_vec();
    first.settle().unwrap();
    assert_eq!(first.early, b"once");
    // An attacker replays the recorded early data to the server.
    let mut second = Session::server(&server, NOW).unwrap();
    let mut input = replayed;
    let mut input = &mut input[..];
    assert_eq!(second.open(&mut input, NOW), Ok(None));
    assert!(!second.is_established());
    assert_eq!(second.received().content, Bytes(0));
}

#[test]
fn early_data_needs_a_server_that_keeps_sessions() {
    let mut server = server_options();
    server.early_data = Some(1000);
    let error = ServerSettings::new(server).unwrap_err();
    assert_eq!(error, SettingsError::EarlyDataNeedsState);
}
