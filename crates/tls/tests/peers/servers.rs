//! Tests of OpenSSL's server with a client of this crate.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use fathometer_model::Instant;
use fathometer_tls::{ClientSettings, EarlyData, Group, Resumption, Session, TlsFailure, Version};

use super::host::{Host, connect, listen};
use super::tools::{Credentials, NAME, Running, tool};

/// Starts `openssl s_server` on a free port, for `connections` connections. The server reverses every line.
fn s_server(connections: u32, more: &[&str]) -> Option<(Running, u16)> {
    let openssl = tool("openssl")?;
    let credentials = Credentials::get();
    let (chain, key) = (credentials.file("chain.pem"), credentials.file("key.pem"));
    let intermediates = credentials.file("intermediates.pem");
    // The port is free again, because the listener was dropped.
    let port = listen().1;
    let (accept, connections) = (format!("127.0.0.1:{port}"), connections.to_string());
    let arguments = [
        &["s_server", "-accept", &accept, "-naccept", &connections][..],
        &["-cert", &chain, "-cert_chain", &intermediates, "-key", &key],
        more,
    ]
    .concat();
    let mut server = Running::start(&openssl, &arguments);
    // The server prints a line when it listens. A test connection would count as one of the connections.
    let mut lines = BufReader::new(server.stdout());
    let mut line = String::new();
    while line.trim_end() != "ACCEPT" {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "s_server exited");
    }
    // The server's later output must also be read; otherwise, the server would block.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Some((server, port))
}

fn client(settings: &Arc<ClientSettings>, port: u16) -> Host {
    let session = Session::client(settings, NAME, Instant::ZERO).unwrap();
    Host::new(session, connect(port))
}

#[test]
fn openssl_is_trusted_and_resumes() {
    for (version, more, resumed) in [
        (Version::Tls13, &[][..], Resumption::Psk),
        (Version::Tls12, &[], Resumption::Ticket),
        (Version::Tls12, &["-no_ticket"], Resumption::SessionId),
        (Version::Tls13, &["-groups", "P-256"], Resumption::Psk),
    ] {
        let more = [&["-rev", "-alpn", "h2"], more].concat();
        let Some((_server, port)) = s_server(2, &more) else {
            return;
        };
        let mut options = Credentials::get().client_options();
        options.versions = vec![version];
        options.alpn = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let settings = ClientSettings::new(options).unwrap();
        for expected in [Resumption::Full, resumed] {
            let mut host = client(&settings, port);
            host.until_established();
            host.session.write(b"fathom\n");
            host.until_read(b"mohtaf\n");
            let handshake = host.session.handshake().unwrap();
            assert_eq!(handshake.version, version);
            assert_eq!(handshake.resumption, expected, "{more:?}");
            assert_eq!(host.session.alpn(), Some(&b"h2"[..]));
            let other_group = more.contains(&"-groups");
            if expected == Resumption::Full {
                assert_eq!(
                    handshake.certificates,
                    Credentials::get().identity.chain_size()
                );
                assert_eq!(handshake.hello_retry, other_group);
            }
            if other_group {
                assert_eq!(handshake.group, Some(Group::P256));
            }
            host.close();
        }
    }
}

#[test]
fn openssl_takes_early_data() {
    // Without `-rev`, the server prints the received data and sends only its standard input.
    let more = ["-early_data", "-max_early_data", "4096", "-tls1_3"];
    let Some((mut server, port)) = s_server(2, &more) else {
        return;
    };
    let mut options = Credentials::get().client_options();
    options.early_data = true;
    let settings = ClientSettings::new(options).unwrap();
    let mut first = client(&settings, port);
    first.until_established();
    // The server sends its standard input. The tickets arrive before this line.
    server.say(b"tickets came before this\n");
    first.until_read(b"before this\n");
    assert_eq!(
        first.session.handshake().unwrap().early_data,
        EarlyData::NotTried
    );
    first.close();
    drop(first);
    let mut second = client(&settings, port);
    assert!(second.session.may_send_early());
    assert_eq!(second.session.early_write(b"early bird\n"), 11);
    assert!(second.session.early_write(&[b'x'; 5000]) <= 4096 - 11);
    second.until_established();
    let handshake = second.session.handshake().unwrap();
    assert_eq!(handshake.early_data, EarlyData::Accepted);
    assert_eq!(handshake.round_trips, 0);
    second.close();
}

#[test]
fn a_server_with_another_identity_is_refused() {
    let Some((_server, port)) = s_server(1, &["-rev"]) else {
        return;
    };
    let settings = ClientSettings::new(Credentials::get().client_options()).unwrap();
    let session = Session::client(&settings, "other.test", Instant::ZERO).unwrap();
    let mut host = Host::new(session, connect(port));
    host.until(|_| false);
    assert!(
        matches!(host.failure, Some(TlsFailure::NameMismatch(_))),
        "{:?}",
        host.failure
    );
}
