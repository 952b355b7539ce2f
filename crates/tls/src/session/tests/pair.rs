//! Tests of a client with a server: the negotiated parameters and the counts.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fathometer_model::{Bytes, Instant};

use crate::certificate::{Authority, Issue, KeyKind, Lifetime};
use crate::*;

pub(super) const NOW: Instant = Instant::from_nanos(5_000_000_000);
pub(super) const TODAY: Duration = Duration::from_secs(1_790_000_000);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new(Lifetime::around(TODAY, 30 * DAY)).unwrap())
}

pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new(Verification::Roots(authority().roots()), TODAY)
}

pub(super) fn server_options() -> ServerOptions {
    let identity = authority().issue(&Issue::new(["origin.test"])).unwrap();
    ServerOptions::new(identity, TODAY)
}

/// Two sessions connected by a transport without delay.
pub(super) struct Pair {
    pub client: Session,
    pub server: Session,
    /// The number of bytes transferred from the client and from the server.
    pub carried: [u64; 2],
    /// The data that the client and the server read.
    pub read: [Vec<u8>; 2],
    /// The early data that the server read.
    pub early: Vec<u8>,
}

impl Pair {
    pub fn new(client: &Arc<ClientSettings>, server: &Arc<ServerSettings>) -> Pair {
        Pair::of(client, server, "origin.test")
    }

    /// Creates a pair. The client requests the server name `name`.
    pub fn of(client: &Arc<ClientSettings>, server: &Arc<ServerSettings>, name: &str) -> Pair {
        Pair {
            client: Session::client(client, name, NOW).unwrap(),
            server: Session::server(server, NOW).unwrap(),
            carried: [0; 2],
            read: [Vec::new(), Vec::new()],
            early: Vec::new(),
        }
    }

    pub fn with(client: ClientOptions, server: ServerOptions) -> Pair {
        let client = ClientSettings::new(client).unwrap();
        let server = ServerSettings::new(server).unwrap();
        Pair::new(&client, &server)
    }

    /// Transfers the client's bytes to the server. Returns the result of the server.
    pub fn up(&mut self) -> Result<(), TlsFailure> {
        let mut bytes = self.client.transmit().to_vec();
        self.client.transmitted(bytes.len());
        self.carried[0] += bytes.len() as u64;
        let mut input = &mut bytes[..];
        while let Some(plain) = self.server.open(&mut input, NOW)? {
            let plain = plain.to_vec();
            if self.server.is_early() {
                self.early.extend_from_slice(&plain);
            }
            self.read[1].extend_from_slice(&plain);
        }
        Ok(())
    }

    /// Transfers the server's bytes to the client.
    pub fn down(&mut self) -> Result<(), TlsFailure> {
        let mut bytes = self.server.transmit().to_vec();
        self.server.transmitted(bytes.len());
        self.carried[1] += bytes.len() as u64;
        let mut input = &mut bytes[..];
        while let Some(plain) = self.client.open(&mut input, NOW)? {
            self.read[0].extend_from_slice(plain);
        }
        Ok(())
    }

    /// Transfers bytes in both directions until neither side has bytes to send.
    pub fn settle(&mut self) -> Result<(), TlsFailure> {
        while self.client.wants_transmit() || self.server.wants_transmit() {
            self.up()?;
            self.down()?;
        }
        Ok(())
    }

    pub fn client_handshake(&self) -> &Handshake {
        self.client.handshake().expect("the client is established")
    }

    pub fn server_handshake(&self) -> &Handshake {
        self.server.handshake().expect("the server is established")
    }

    /// Checks that both sides counted exactly the transferred bytes.
    pub fn check_bytes(&self) {
        let ways = [(&self.client, &self.server), (&self.server, &self.client)];
        for ((from, to), carried) in ways.into_iter().zip(self.carried) {
            assert_eq!(from.sent().total(), Bytes(carried));
            assert_eq!(to.received(), from.sent());
        }
    }
}

fn settled(client: ClientOptions, server: ServerOptions) -> Pair {
    let mut pair = Pair::with(client, server);
    pair.client.write(b"ping");
    pair.settle().unwrap();
    pair.server.write(b"pong");
    pair.settle().unwrap();
    assert_eq!(pair.read, [b"pong".to_vec(), b"ping".to_vec()]);
    pair.check_bytes();
    pair
}

#[test]
fn a_full_handshake_of_each_suite_agrees_on_it() {
    for suite in CipherSuite::ALL {
        if suite.name().contains("RSA") {
            continue;
        }
        let mut client = client_options();
        client.cipher_suites = vec![suite];
        client.versions = vec![suite.version()];
        let pair = settled(client, server_options());
        for handshake in [pair.client_handshake(), pair.server_handshake()] {
            assert_eq!(handshake.cipher_suite, suite);
            assert_eq!(handshake.version, suite.version());
            assert_eq!(handshake.group, Some(Group::X25519));
            assert_eq!(handshake.signature_scheme, Some("ecdsa_secp256r1_sha256"));
            assert_eq!(handshake.resumption, Resumption::Full);
            assert_eq!(handshake.early_data, EarlyData::NotTried);
            assert_eq!(handshake.server_name.as_deref(), Some("origin.test"));
            assert!(!handshake.hello_retry);
        }
        let expected = if suite.version() == Version::Tls13 {
            1
        } else {
            2
        };
        assert_eq!(pair.client_handshake().round_trips, expected);
        assert_eq!(pair.server_handshake().round_trips, 1);
    }
}

#[test]
fn groups_and_keys_are_factors() {
    for group in Group::ALL {
        let mut server = server_options();
        server.groups = vec![group];
        let pair = settled(client_options(), server);
        assert_eq!(pair.client_handshake().group, Some(group));
        // The client sends a key share only for X25519. For any other group, the server requests another key share.
        let asked = group != Group::X25519;
        for handshake in [pair.client_handshake(), pair.server_handshake()] {
            assert_eq!(handshake.hello_retry, asked);
            assert_eq!(handshake.round_trips, 1 + u8::from(asked));
        }
    }
    for (key, scheme) in [
        (KeyKind::P256, "ecdsa_secp256r1_sha256"),
        (KeyKind::P384, "ecdsa_secp384r1_sha384"),
        (KeyKind::Ed25519, "ed25519"),
    ] {
        let request = Issue {
            key,
            intermediates: 2,
            padding: 3000,
            ..Issue::new(["origin.test"])
        };
        let identity = authority().issue(&request).unwrap();
        let bytes = identity.chain_size();
        let pair = settled(client_options(), ServerOptions::new(identity, TODAY));
        for handshake in [pair.client_handshake(), pair.server_handshake()] {
            assert_eq!(handshake.signature_scheme, Some(scheme));
            assert_eq!(handshake.certificates, bytes);
        }
        assert!(pair.client_handshake().received > bytes);
    }
}

#[test]
fn protocols_are_agreed_on_in_the_servers_order() {
    let names = |names: &[&str]| -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    };
    for (offered, accepted, agreed) in [
        (&["http/1.1", "h2"][..], &["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], &["h2", "http/1.1"], Some("http/1.1")),
        (&[], &["h2"], None),
        (&["h2"], &[], None),
    ] {
        let (mut client, mut server) = (client_options(), server_options());
        client.alpn = names(offered);
        server.alpn = names(accepted);
        let pair = settled(client, server);
        let agreed = agreed.map(str::as_bytes);
        assert_eq!(pair.client.alpn(), agreed);
        assert_eq!(pair.server.alpn(), agreed);
    }
}

#[test]
fn an_address_is_verified_and_never_sent_as_a_name() {
    let identity = authority()
        .issue(&Issue::new(["127.0.0.1", "::1"]))
        .unwrap();
    let server = ServerSettings::new(ServerOptions::new(identity, TODAY)).unwrap();
    let client = ClientSettings::new(client_options()).unwrap();
    for address in ["127.0.0.1", "[::1]"] {
        let mut pair = Pair::new(&client, &server);
        pair.client = Session::client(&client, address, NOW).unwrap();
        pair.settle().unwrap();
        assert_eq!(pair.server_handshake().server_name, None);
    }
}

#[test]
fn clients_show_certificates_when_asked() {
    let identity = authority().issue(&Issue::new(["client.test"])).unwrap();
    for versions in [vec![Version::Tls13], vec![Version::Tls12]] {
        let mut client = client_options();
        client.versions = versions;
        client.identity = Some(identity.clone());
        let mut server = server_options();
        server.client_certificates = ClientCertificates::Required(authority().roots());
        settled(client.clone(), server.clone());
        client.identity = None;
        server.client_certificates = ClientCertificates::Optional(authority().roots());
        settled(client, server);
    }
}

#[test]
fn servers_send_the_certificate_of_the_requested_name() {
    let issue = |name: &str, padding| {
        let request = Issue {
            padding,
            ..Issue::new([name])
        };
        authority().issue(&request).unwrap()
    };
    let mut server = server_options();
    server.further = vec![issue("second.test", 700), issue("*.third.test", 1500)];
    let bytes: Vec<Bytes> = std::iter::once(&server.identity)
        .chain(&server.further)
        .map(Identity::chain_size)
        .collect();
    let server = ServerSettings::new(server).unwrap();
    for versions in [vec![Version::Tls13], vec![Version::Tls12]] {
        let mut client = client_options();
        client.versions = versions;
        client.resumption = None;
        let client = ClientSettings::new(client).unwrap();
        for (name, place) in [("origin.test", 0), ("second.test", 1), ("a.third.test", 2)] {
            let mut pair = Pair::of(&client, &server, name);
            pair.settle().unwrap();
            let (here, there) = (pair.client.handshake(), pair.server.handshake());
            assert_eq!(here.unwrap().certificates, bytes[place], "{name}");
            assert_eq!(there.unwrap().certificates, bytes[place], "{name}");
        }
        let mut pair = Pair::of(&client, &server, "fourth.test");
        pair.settle().unwrap_err();
        let failure = pair.client.failure();
        assert!(matches!(failure, Some(TlsFailure::NameMismatch(_))));
    }
}

#[test]
fn writes_of_one_turn_are_one_record() {
    let mut pair = settled(client_options(), server_options());
    let before = *pair.client.sent();
    for _ in 0..16 {
        assert_eq!(pair.client.write(&[b'r'; 60]), 60);
    }
    let sent = pair.client.transmit().len();
    let after = *pair.client.sent();
    assert_eq!(after.application_records, before.application_records + 1);
    assert_eq!(after.content, before.content + Bytes(16 * 60));
    // The record adds a header, a content type and an authentication tag.
    assert_eq!(sent, 16 * 60 + 5 + 1 + 16);
    pair.settle().unwrap();
    assert_eq!(pair.read[1].len(), 4 + 16 * 60);
}

#[test]
fn records_have_the_requested_size() {
    for (size, versions, overhead) in [
        (16_384, Version::Tls13, 22),
        (1300, Version::Tls13, 22),
        (1300, Version::Tls12, 29),
        (32, Version::Tls12, 29),
    ] {
        let (mut client, server) = (client_options(), server_options());
        client.record_size = size;
        client.versions = vec![versions];
        let mut pair = settled(client, server);
        let before = *pair.client.sent();
        let content = vec![b'c'; 50_000];
        assert_eq!(pair.client.write(&content), content.len());
        pair.settle().unwrap();
        let after = *pair.client.sent();
        let records = content.len().div_ceil(size) as u64;
        assert_eq!(
            after.application_records - before.application_records,
            records
        );
        let added = after.application - before.application - Bytes(content.len() as u64);
        assert_eq!(added, Bytes(records * overhead));
        assert_eq!(pair.read[1][4..], content);
    }
    for size in [31, 16_385] {
        let mut client = client_options();
        client.record_size = size;
        let error = ClientSettings::new(client).unwrap_err();
        assert_eq!(error, SettingsError::RecordSize(size));
    }
}

#[test]
fn the_first_records_fit_into_segments_and_again_after_a_pause() {
    let first = FirstRecords {
        size: 1000,
        bytes: 3500,
        pause: Some(Duration::from_secs(1)),
    };
    for (version, overhead) in [(Version::Tls13, 22), (Version::Tls12, 29)] {
        let mut server = server_options();
        server.versions = vec![version];
        server.first_records = Some(first);
        let mut pair = settled(client_options(), server.clone());
        let content = vec![b'c'; 30_000];
        let mut records_at = |seconds: u64| {
            pair.server
                .note_time(Instant::ZERO + Duration::from_secs(seconds));
            let before = *pair.server.sent();
            assert_eq!(pair.server.write(&content), content.len());
            let mut sent = pair.server.transmit();
            let mut lengths = Vec::new();
            while let Some(&[_, _, _, high, low]) = sent.first_chunk() {
                let length = 5 + usize::from(high) * 256 + usize::from(low);
                lengths.push(length - overhead);
                sent = &sent[length..];
            }
            let bytes = pair.server.transmit().len() as u64;
            let after = *pair.server.sent();
            let records = after.application_records - before.application_records;
            assert_eq!(records, lengths.len() as u64);
            assert_eq!(after.application - before.application, Bytes(bytes));
            pair.settle().unwrap();
            lengths
        };
        // The four bytes that were sent to settle the connection count as first bytes.
        let slow = [1000, 1000, 1000, 1000, 16_384, 9616];
        assert_eq!(records_at(10), slow);
        assert_eq!(records_at(10), [16_384, 13_616]);
        assert_eq!(records_at(11), slow);
        assert_eq!(records_at(11), [16_384, 13_616]);
        server.first_records = None;
        let mut pair = settled(client_options(), server);
        pair.server.write(&content);
        assert_eq!(pair.server.transmit().len(), 30_000 + 2 * overhead);
    }
    let mut server = server_options();
    server.first_records = Some(FirstRecords { size: 20, ..first });
    let error = ServerSettings::new(server).unwrap_err();
    assert_eq!(error, SettingsError::RecordSize(20));
}

#[test]
fn what_waits_to_be_sent_is_bounded() {
    let mut pair = settled(client_options(), server_options());
    let content = vec![b'c'; 200_000];
    let mut written = 0;
    while written < content.len() {
        let taken = pair.server.write(&content[written..]);
        assert!(pair.server.transmit().len() < 66 * 1024);
        // The transport accepts few bytes at a time.
        if taken == 0 {
            let mut part = pair.server.transmit()[..10_000].to_vec();
            pair.server.transmitted(part.len());
            let mut input = &mut part[..];
            while let Some(plain) = pair.client.open(&mut input, NOW).unwrap() {
                pair.read[0].extend_from_slice(plain);
            }
        }
        written += taken;
    }
    pair.settle().unwrap();
    assert_eq!(pair.read[0][4..], content);
    assert_eq!(pair.server.write(&[]), 0);
}

#[test]
fn secrets_are_logged_in_lines_that_wireshark_reads() {
    #[derive(Debug, Default)]
    struct Sink(Mutex<Vec<String>>);
    impl KeyLogSink for Sink {
        fn line(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }
    for (version, labels) in [
        (
            Version::Tls13,
            &[
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                "CLIENT_TRAFFIC_SECRET_0",
                "SERVER_TRAFFIC_SECRET_0",
                "EXPORTER_SECRET",
            ][..],
        ),
        (Version::Tls12, &["CLIENT_RANDOM"]),
    ] {
        let sinks = [Arc::new(Sink::default()), Arc::new(Sink::default())];
        let (mut client, mut server) = (client_options(), server_options());
        client.versions = vec![version];
        client.key_log = Some(sinks[0].clone());
        server.key_log = Some(sinks[1].clone());
        settled(client, server);
        let mut lines = sinks.map(|sink| sink.0.lock().unwrap().clone());
        lines.iter_mut().for_each(|lines| lines.sort());
        assert_eq!(lines[0], lines[1], "both sides log the same secrets");
        for line in &lines[0] {
            let parts: Vec<&str> = line.split(' ').collect();
            let [label, random, secret] = parts[..] else {
                panic!("{line}");
            };
            assert!(labels.contains(&label), "{line}");
            assert_eq!(random.len(), 64);
            assert_eq!(secret.len(), 96);
            assert!(line.is_ascii() && !line.contains('\n'));
        }
        assert_eq!(lines[0].len(), labels.len());
    }
}

#[test]
fn keys_are_renewed_before_they_are_used_up() {
    let mut pair = settled(client_options(), server_options());
    pair.limit_keys(4);
    for turn in 0..20_u8 {
        pair.client.write(&[turn]);
        pair.server.write(&[turn]);
        pair.settle().unwrap();
    }
    let expected: Vec<u8> = (0..20).collect();
    assert_eq!(pair.read[0][4..], expected);
    assert_eq!(pair.read[1][4..], expected);
    pair.check_bytes();
    // Each of these records is a key update: header, message, content type and authentication tag.
    let updates = pair.client.sent().handshake - pair.client_handshake().sent;
    assert!(
        updates.0 >= 5 * 27 && updates.0.is_multiple_of(27),
        "{updates:?}"
    );
}

#[test]
fn a_used_up_key_of_tls_1_2_ends_the_connection_in_order() {
    let mut client = client_options();
    client.versions = vec![Version::Tls12];
    let mut pair = settled(client, server_options());
    pair.limit_keys(6);
    for _ in 0..10 {
        pair.client.write(b"x");
        pair.settle().unwrap();
    }
    assert!(pair.server.is_closed_by_peer());
    assert!(pair.read[1].len() < 10);
    assert_eq!(pair.client.write(b"x"), 0);
}

impl Pair {
    /// Limits the number of records that a key may seal.
    fn limit_keys(&mut self, records: u64) {
        for session in [&mut self.client, &mut self.server] {
            session.limit_keys(records);
        }
    }
}
