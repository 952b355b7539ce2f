//! Checks that every failed negotiation has its own failure variant.

use std::time::Duration;

use fathometer_model::Failure;

use super::pair::{NOW, Pair, TODAY, authority, client_options, server_options};
use crate::certificate::{Authority, Issue, Lifetime};
use crate::*;

/// Transfers bytes in both directions until none are left. Returns the failures of the client and of the server.
fn failures_of(mut pair: Pair) -> [Option<TlsFailure>; 2] {
    for _ in 0..10 {
        let _ = pair.up();
        let _ = pair.down();
    }
    assert!(!pair.client.wants_transmit() && !pair.server.wants_transmit());
    [&pair.client, &pair.server].map(|side| side.failure().cloned())
}

fn with_identity(issue: &Issue) -> ServerOptions {
    ServerOptions::new(authority().issue(issue).unwrap(), TODAY)
}

fn alert(number: u8) -> Option<TlsFailure> {
    Some(TlsFailure::Alert(Alert(number)))
}

#[test]
fn certificates_are_refused_for_what_is_wrong_with_them() {
    let day = Duration::from_secs(86_400);
    let lifetime = |from: Duration, to: Duration| Issue {
        lifetime: Some(Lifetime {
            not_before: from,
            not_after: to,
        }),
        ..Issue::new(["origin.test"])
    };
    let untrusted = Authority::new(Lifetime::around(TODAY, day)).unwrap();
    let untrusted_identity = untrusted.issue(&Issue::new(["origin.test"])).unwrap();
    type Expected = fn(&TlsFailure) -> bool;
    let cases: [(ServerOptions, Expected, u8); 5] = [
        (
            ServerOptions::new(untrusted_identity, TODAY),
            |failure| *failure == TlsFailure::NotTrusted,
            48,
        ),
        (
            with_identity(&Issue::new(["other.test", "third.test"])),
            |failure| matches!(failure, TlsFailure::NameMismatch(text) if text.contains("other.test")),
            42,
        ),
        (
            with_identity(&Issue::new(["127.0.0.1"])),
            |failure| matches!(failure, TlsFailure::NameMismatch(_)),
            42,
        ),
        (
            with_identity(&lifetime(TODAY - 2 * day, TODAY - day)),
            |failure| matches!(failure, TlsFailure::Expired(_)),
            45,
        ),
        (
            with_identity(&lifetime(TODAY + day, TODAY + 2 * day)),
            |failure| matches!(failure, TlsFailure::Expired(_)),
            45,
        ),
    ];
    for (server, expected, number) in cases {
        for version in Version::ALL {
            let mut client = client_options();
            client.versions = vec![version];
            let [client, server_failure] = failures_of(Pair::with(client, server.clone()));
            let failure = client.expect("the client refuses the certificate");
            assert!(expected(&failure), "{failure}");
            assert_eq!(failure.failure(), Failure::TlsFailed);
            assert_eq!(server_failure, alert(number), "{version}");
        }
        // A client that does not verify certificates accepts all these certificates.
        let mut client = client_options();
        client.verification = Verification::Off;
        let mut pair = Pair::with(client, server);
        pair.settle().unwrap();
        assert!(pair.client.is_established() && pair.server.is_established());
    }
}

#[test]
fn certificates_expire() {
    let client = ClientSettings::new(client_options()).unwrap();
    let server = ServerSettings::new(server_options()).unwrap();
    Pair::new(&client, &server).settle().unwrap();
    let later = NOW + Duration::from_secs(40 * 86_400);
    let mut client = Session::client(&client, "origin.test", later).unwrap();
    let mut server = Session::server(&server, later).unwrap();
    server.receive(client.transmit(), later).unwrap();
    let failure = client.receive(server.transmit(), later).unwrap_err();
    assert!(matches!(failure, TlsFailure::Expired(_)), "{failure}");
}

#[test]
fn both_sides_report_that_they_have_no_protocol_in_common() {
    type Change = fn(&mut ClientOptions, &mut ServerOptions);
    let cases: [(Change, [Option<TlsFailure>; 2]); 4] = [
        (
            |client, server| {
                client.versions = vec![Version::Tls12];
                server.versions = vec![Version::Tls13];
            },
            [
                alert(70),
                Some(TlsFailure::NoCommonVersion(
                    "tls12 not offered or enabled".into(),
                )),
            ],
        ),
        (
            |client, server| {
                client.cipher_suites = vec![CipherSuite::Aes128Gcm];
                client.versions = vec![Version::Tls13];
                server.cipher_suites = vec![CipherSuite::ChaCha20Poly1305];
            },
            [
                alert(40),
                Some(TlsFailure::NoCommonCipher(
                    "no cipher suites in common".into(),
                )),
            ],
        ),
        (
            |client, server| {
                client.groups = vec![Group::X25519];
                server.groups = vec![Group::P384];
            },
            [
                alert(40),
                Some(TlsFailure::NoCommonCipher("no kx groups in common".into())),
            ],
        ),
        (
            |client, server| {
                client.alpn = vec![b"h2".to_vec()];
                server.alpn = vec![b"http/1.1".to_vec()];
            },
            [alert(120), Some(TlsFailure::NoCommonProtocol)],
        ),
    ];
    for (change, expected) in cases {
        let (mut client, mut server) = (client_options(), server_options());
        change(&mut client, &mut server);
        assert_eq!(failures_of(Pair::with(client, server)), expected);
    }
}

#[test]
fn clients_without_a_certificate_are_refused_if_one_is_required() {
    for version in Version::ALL {
        let mut client = client_options();
        client.versions = vec![version];
        let mut server = server_options();
        server.client_certificates = ClientCertificates::Required(authority().roots());
        let [client_failure, failure] = failures_of(Pair::with(client, server));
        assert_eq!(failure, Some(TlsFailure::NoCertificate));
        assert_eq!(client_failure, alert(116));
    }
}

#[test]
fn a_changed_byte_is_a_bad_record() {
    for version in Version::ALL {
        let mut client = client_options();
        client.versions = vec![version];
        let mut pair = Pair::with(client, server_options());
        pair.settle().unwrap();
        pair.client.write(b"GET /");
        let mut bytes = pair.client.transmit().to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let failure = pair.server.receive(&bytes, NOW).unwrap_err();
        assert_eq!(failure, TlsFailure::BadRecord);
        // After a failure, every call returns the same failure.
        assert_eq!(pair.server.receive(b"", NOW), Err(TlsFailure::BadRecord));
        assert_eq!(pair.server.write(b"x"), 0);
        pair.client.transmitted(last + 1);
        assert_eq!(pair.down(), Err(TlsFailure::Alert(Alert(20))));
        assert!(!pair.client.wants_transmit(), "an alert is not answered");
    }
}

#[test]
fn input_other_than_tls_is_recognised_by_its_first_bytes() {
    let server = ServerSettings::new(server_options()).unwrap();
    let client = ClientSettings::new(client_options()).unwrap();
    for input in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x80\x2e\x01\x00\x02",
        b"\x17\x03\x03\xff\xff",
    ] {
        let mut server = Session::server(&server, NOW).unwrap();
        let failure = server.receive(input, NOW).unwrap_err();
        assert!(matches!(failure, TlsFailure::NotTls(_)), "{failure}");
        assert!(server.wants_transmit(), "an alert is sent");
        let mut client = Session::client(&client, "origin.test", NOW).unwrap();
        let failure = client
            .receive(b"HTTP/1.1 400 Bad Request\r\n", NOW)
            .unwrap_err();
        assert!(matches!(failure, TlsFailure::NotTls(_)), "{failure}");
    }
}

#[test]
fn an_end_without_close_notify_is_a_truncation() {
    let mut pair = Pair::with(client_options(), server_options());
    assert_eq!(pair.server.handle_eof(), Err(TlsFailure::Truncated));
    let mut pair = Pair::with(client_options(), server_options());
    pair.settle().unwrap();
    pair.server.write(b"all of it");
    pair.server.close();
    pair.server.close();
    assert_eq!(pair.server.write(b"more"), 0);
    pair.settle().unwrap();
    assert_eq!(pair.read[0], b"all of it");
    assert!(pair.client.is_closed_by_peer());
    assert_eq!(pair.client.handle_eof(), Ok(()));
    // The direction to the server is still open.
    assert_eq!(pair.client.write(b"late"), 4);
    pair.settle().unwrap();
    assert_eq!(pair.read[1], b"late");
    let failure = pair.server.handle_eof().unwrap_err();
    assert_eq!(failure, TlsFailure::Truncated);
    assert_eq!(failure.failure(), Failure::Truncated);
    pair.check_bytes();
}

#[test]
fn an_invalid_server_name_is_a_local_failure() {
    let client = ClientSettings::new(client_options()).unwrap();
    let failure = Session::client(&client, "no name", NOW).unwrap_err();
    assert_eq!(failure, TlsFailure::BadName("no name".to_owned()));
    assert_eq!(failure.failure(), Failure::LocalAbort);
}

#[test]
fn a_key_has_to_fit_its_certificate() {
    let [one, two] = [1, 2].map(|_| authority().issue(&Issue::new(["origin.test"])).unwrap());
    let (chain, key) = (one.chain_pem(), two.key_pem());
    let identity = Identity::from_pem(chain.as_bytes(), "c", key.as_bytes(), "k").unwrap();
    let error = ServerSettings::new(ServerOptions::new(identity, TODAY)).unwrap_err();
    assert!(matches!(error, SettingsError::Contradiction(_)), "{error}");
    let mut options = client_options();
    options.versions = vec![Version::Tls12];
    options.cipher_suites = vec![CipherSuite::Aes128Gcm];
    assert!(ClientSettings::new(options).is_err());
}

#[test]
fn unsealed_data_is_never_sent() {
    for version in Version::ALL {
        let mut client = client_options();
        client.versions = vec![version];
        let mut pair = Pair::with(client.clone(), server_options());
        pair.settle().unwrap();
        pair.client.write(b"secret");
        // The server fails before the client has sent its data.
        pair.server.inject(21, &[2, 80]);
        assert_eq!(pair.down(), Err(TlsFailure::Alert(Alert(80))));
        assert_eq!(pair.client.transmit(), b"");
        assert!(!pair.client.wants_transmit());

        let mut pair = Pair::with(client, server_options());
        pair.settle().unwrap();
        pair.client.write(b"sent");
        let sealed = pair.client.transmit().to_vec();
        pair.client.write(b"secret");
        assert!(pair.client.handle_eof().is_err());
        assert_eq!(pair.client.transmit(), sealed);
    }
}
