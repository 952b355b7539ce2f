//! Tests of third-party clients with a server of this crate.

use fathometer_tls::{Alert, EarlyData, Resumption, ServerSettings, Tickets, TlsFailure, Version};

use super::host::{Host, listen};
use super::tools::{Credentials, NAME, Running, tool};

/// A run of `openssl s_client` that sends one line. The server answers the line and closes the connection.
struct SClient<'a> {
    version: Version,
    more: &'a [&'a str],
}

impl SClient<'_> {
    fn run(&self, settings: &std::sync::Arc<ServerSettings>) -> Option<(Host, String)> {
        let openssl = tool("openssl")?;
        let (listener, port) = listen();
        let root = Credentials::get().file("root.pem");
        let to = format!("127.0.0.1:{port}");
        let version = match self.version {
            Version::Tls12 => "-tls1_2",
            Version::Tls13 => "-tls1_3",
        };
        let arguments = [
            &[
                "s_client",
                "-connect",
                &to,
                "-servername",
                NAME,
                "-CAfile",
                &root,
                version,
            ][..],
            &["-verify_return_error", "-alpn", "h2,http/1.1", "-ign_eof"],
            self.more,
        ]
        .concat();
        let mut client = Running::start(&openssl, &arguments);
        client.say(b"ping\n");
        let mut host = Host::accept(&listener, settings);
        host.until_read(b"ping\n");
        host.session.write(b"pong\n");
        host.session.close();
        host.flush();
        let (_, printed) = client.end();
        assert!(printed.contains("pong"), "{printed}");
        Some((host, printed))
    }
}

#[test]
fn openssl_agrees_and_resumes() {
    for (version, tickets, resumed) in [
        (
            Version::Tls13,
            Tickets::Stateless { count: 2 },
            Resumption::Psk,
        ),
        (
            Version::Tls13,
            Tickets::Stateful {
                count: 1,
                capacity: 9,
            },
            Resumption::Psk,
        ),
        (
            Version::Tls12,
            Tickets::Stateless { count: 2 },
            Resumption::Ticket,
        ),
        (
            Version::Tls12,
            Tickets::Stateful {
                count: 1,
                capacity: 9,
            },
            Resumption::SessionId,
        ),
    ] {
        let mut options = Credentials::get().server_options();
        options.alpn = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        options.tickets = tickets;
        let settings = ServerSettings::new(options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("session.pem");
        let session = session.to_str().unwrap();
        let runs = [
            (&["-sess_out", session][..], Resumption::Full),
            (&["-sess_in", session], resumed),
        ];
        for (more, expected) in runs {
            let Some((host, printed)) = (SClient { version, more }).run(&settings) else {
                return;
            };
            let handshake = host.session.handshake().unwrap();
            assert_eq!(
                handshake.resumption, expected,
                "{version} {tickets:?}: {printed}"
            );
            assert_eq!(handshake.version, version);
            assert_eq!(handshake.server_name.as_deref(), Some(NAME));
            assert_eq!(host.session.alpn(), Some(&b"http/1.1"[..]));
            assert!(printed.contains("Verify return code: 0 (ok)"), "{printed}");
            let suite = handshake.cipher_suite.name();
            // For TLS 1.2 suites, OpenSSL prints its own names.
            assert!(
                version == Version::Tls12 || printed.contains(suite),
                "{printed}"
            );
            // OpenSSL prints the number of bytes until the end of the handshake.
            if expected == Resumption::Full {
                let counted = format!(
                    "SSL handshake has read {} bytes and written {} bytes",
                    handshake.sent.0, handshake.received.0
                );
                assert!(printed.contains(&counted), "{counted}: {printed}");
            }
        }
    }
}

#[test]
fn openssl_sends_early_data_once() {
    let mut options = Credentials::get().server_options();
    options.tickets = Tickets::Stateful {
        count: 1,
        capacity: 9,
    };
    options.early_data = Some(16_384);
    let settings = ServerSettings::new(options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (session, early) = (path("session.pem"), path("early"));
    std::fs::write(&early, "early bird\n").unwrap();
    let resuming = ["-sess_in", &session, "-early_data", &early];
    for (more, expected) in [
        (&["-sess_out", &session][..], EarlyData::NotTried),
        (&resuming, EarlyData::Accepted),
        // The ticket can be used only once.
        (&resuming, EarlyData::Rejected),
    ] {
        let version = Version::Tls13;
        let Some((host, printed)) = (SClient { version, more }).run(&settings) else {
            return;
        };
        let handshake = host.session.handshake().unwrap();
        assert_eq!(handshake.early_data, expected, "{printed}");
        let accepted = expected == EarlyData::Accepted;
        assert_eq!(host.early, if accepted { 11 } else { 0 });
        assert_eq!(
            printed.contains("Early data was accepted"),
            accepted,
            "{printed}"
        );
        assert_eq!(handshake.round_trips, u8::from(!accepted));
    }
}

#[test]
fn openssl_asks_for_another_group_and_new_keys() {
    let mut options = Credentials::get().server_options();
    options.groups = vec![fathometer_tls::Group::P384];
    let settings = ServerSettings::new(options).unwrap();
    let Some(openssl) = tool("openssl") else {
        return;
    };
    let (listener, port) = listen();
    let to = format!("127.0.0.1:{port}");
    let arguments = [
        "s_client",
        "-connect",
        &to,
        "-tls1_3",
        "-groups",
        "X25519:P-384",
    ];
    let mut client = Running::start(&openssl, &arguments);
    let mut host = Host::accept(&listener, &settings);
    host.until_established();
    let handshake = host.session.handshake().unwrap().clone();
    assert!(handshake.hello_retry);
    assert_eq!(handshake.round_trips, 2);
    // The command `K` requests a key update from both sides, and `k` only updates the client's own key.
    for command in [&b"K\n"[..], b"k\n", b"K\n"] {
        let before = host.session.received().handshake;
        client.say(command);
        // The client treats all bytes of one read as one line, so the test waits between two commands.
        host.until(|host| host.session.received().handshake > before);
        client.say(b"ping\n");
        host.until_read(b"ping\n");
        host.session.write(b"pong\n");
        host.flush();
    }
    host.session.write(b"last\n");
    host.session.close();
    host.flush();
    let (_, printed) = client.end();
    assert_eq!(printed.matches("pong").count(), 3, "{printed}");
    assert!(printed.contains("last"), "{printed}");
    let updates = host.session.sent().handshake - handshake.sent;
    assert!(updates.0 > 2 * 27, "{updates:?}");
}

/// Answers one HTTP/1.1 request.
fn answer(host: &mut Host) -> Vec<u8> {
    let request = host.until_read(b"\r\n\r\n");
    host.session
        .write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
    host.close();
    request
}

#[test]
fn curl_trusts_only_the_root() {
    let Some(curl) = tool("curl") else { return };
    let credentials = Credentials::get();
    let settings = ServerSettings::new(credentials.server_options()).unwrap();
    let root = credentials.file("root.pem");
    for (version, limit) in [("--tlsv1.2", "1.2"), ("--tlsv1.3", "1.3")] {
        let (listener, port) = listen();
        let resolve = format!("{NAME}:{port}:127.0.0.1");
        let url = format!("https://{NAME}:{port}/file");
        let common = [
            "-sS",
            version,
            "--tls-max",
            limit,
            "--http1.1",
            "--noproxy",
            "*",
        ];
        let good = [
            &common[..],
            &["--cacert", &root, "--resolve", &resolve, &url],
        ]
        .concat();
        let client = Running::start(&curl, &good);
        let mut host = Host::accept(&listener, &settings);
        let request = answer(&mut host);
        let (success, printed) = client.end();
        assert!(success && printed == "hello\n", "{printed}");
        assert!(request.starts_with(b"GET /file HTTP/1.1\r\n"));
        assert_eq!(host.session.handshake().unwrap().version.name(), limit);

        let strange = [&common[..], &["--resolve", &resolve, &url]].concat();
        let client = Running::start(&curl, &strange);
        let mut host = Host::accept(&listener, &settings);
        host.until(|_| false);
        let (success, printed) = client.end();
        assert!(!success, "{printed}");
        assert_eq!(host.failure, Some(TlsFailure::Alert(Alert(48))));

        // curl trusts the root, but the certificate does not match the name. curl then closes without an alert.
        let other = format!("https://other.test:{port}/");
        let resolve = format!("other.test:{port}:127.0.0.1");
        let other = [
            &common[..],
            &["--cacert", &root, "--resolve", &resolve, &other],
        ]
        .concat();
        let client = Running::start(&curl, &other);
        let mut host = Host::accept(&listener, &settings);
        host.until(|_| false);
        let (success, printed) = client.end();
        assert!(!success && printed.contains("other.test"), "{printed}");
        assert_eq!(host.read, b"");
    }
}

#[test]
fn gnutls_agrees_and_resumes() {
    let Some(gnutls) = tool("gnutls-cli") else {
        return;
    };
    let credentials = Credentials::get();
    let settings = ServerSettings::new(credentials.server_options()).unwrap();
    let root = credentials.file("root.pem");
    for (priority, version, resumed) in [
        (
            "NORMAL:-VERS-ALL:+VERS-TLS1.3",
            Version::Tls13,
            Resumption::Psk,
        ),
        (
            "NORMAL:-VERS-ALL:+VERS-TLS1.2",
            Version::Tls12,
            Resumption::Ticket,
        ),
    ] {
        let (listener, port) = listen();
        let (port, file) = (port.to_string(), format!("--x509cafile={root}"));
        let hostname = format!("--verify-hostname={NAME}");
        let sni = format!("--sni-hostname={NAME}");
        let priority = format!("--priority={priority}");
        // The client connects twice, and resumes the session on the second connection.
        let arguments = [
            "--resume",
            "--waitresumption",
            &file,
            &hostname,
            &sni,
            &priority,
            "-p",
            &port,
            "127.0.0.1",
        ];
        let mut client = Running::start(&gnutls, &arguments);
        for expected in [Resumption::Full, resumed] {
            let mut host = Host::accept(&listener, &settings);
            host.until_established();
            let handshake = host.session.handshake().unwrap();
            assert_eq!(handshake.version, version);
            assert_eq!(handshake.resumption, expected);
            if expected == Resumption::Full {
                host.until(|host| host.session.is_closed_by_peer());
                host.session.close();
                host.flush();
            } else {
                client.say(b"ping\n");
                host.until_read(b"ping\n");
                host.session.write(b"pong\n");
                host.session.close();
                host.flush();
            }
        }
        let (_, printed) = client.end();
        assert!(printed.contains("pong"), "{printed}");
        assert!(printed.contains("This is a resumed session"), "{printed}");
    }
}
