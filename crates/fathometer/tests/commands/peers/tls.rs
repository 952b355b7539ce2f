//! TLS sessions checked with OpenSSL and Wireshark, and the end of a connection.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_http::h2;
use fathometer_model::Instant;
use fathometer_tls::{ClientOptions, ClientSettings, Session, Verification};

use super::support::{PAGE, Server, SiteFolder};
use crate::support::programs::{FATHOMETER, run, run_well, tool};

/// Runs `openssl s_client`; returns its output after a request and its response.
fn s_client(server: &Server, arguments: &[&str]) -> String {
    let mut child = Command::new("timeout")
        .args(["240", "openssl", "s_client", "-connect"])
        .arg(server.address.to_string())
        .args([
            "-servername",
            "localhost",
            "-verify_return_error",
            "-CAfile",
        ])
        .arg(server.root())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let request = format!("GET /{PAGE} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    // Fails if the handshake failed; the output then shows the failure.
    let _ = stdin.write_all(request.as_bytes());
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    drop(stdin);
    let _ = child.wait();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn sessions_are_resumed_where_they_may_be() {
    if tool("openssl").is_none() {
        return;
    }
    let site = SiteFolder::new();
    for (tickets, resumes) in [("stateless", true), ("stateful", true), ("off", false)] {
        let server = Server::secure(site.path(), &["--tickets", tickets, "--threads", "1"]);
        for version in ["-tls1_2", "-tls1_3"] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("session");
            let file = file.to_str().unwrap();
            let first = s_client(&server, &[version, "-ign_eof", "-sess_out", file]);
            assert!(first.contains("HTTP/1.1 200 OK"), "{first}");
            assert!(first.contains("New, TLSv1."), "{first}");
            if !std::path::Path::new(file).exists() {
                assert!(!resumes, "{tickets} {version}: no session\n{first}");
                continue;
            }
            let second = s_client(&server, &[version, "-ign_eof", "-sess_in", file]);
            assert!(second.contains("HTTP/1.1 200 OK"), "{second}");
            let resumed = second.contains("Reused, TLSv1.");
            assert_eq!(resumed, resumes, "{tickets} {version}\n{second}");
        }
    }
}

#[test]
fn early_data_are_answered() {
    if tool("openssl").is_none() {
        return;
    }
    let site = SiteFolder::new();
    let mut server = Server::secure(site.path(), &["--early-data", "--threads", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let request = format!("GET /{PAGE} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    fs::write(name("early"), request).unwrap();
    let first = s_client(
        &server,
        &["-tls1_3", "-ign_eof", "-sess_out", &name("session")],
    );
    assert!(first.contains("HTTP/1.1 200 OK"), "{first}");
    let arguments = [
        "-tls1_3",
        "-ign_eof",
        "-sess_in",
        &name("session"),
        "-early_data",
        &name("early"),
    ];
    let second = s_client(&server, &arguments);
    assert!(second.contains("Early data was accepted"), "{second}");
    assert!(second.contains("HTTP/1.1 200 OK"), "{second}");
    // A ticket can be used once.
    let third = s_client(&server, &arguments);
    assert!(!third.contains("Early data was accepted"), "{third}");
    assert!(server.stop().unwrap().success());
}

/// Our own client, which checks details that other programs do not report.
struct Client {
    stream: TcpStream,
    session: Session,
    plain: Vec<u8>,
}

impl Client {
    fn new(server: &Server, protocol: &[u8]) -> Client {
        let mut options = ClientOptions::new(Verification::Off, Duration::ZERO);
        options.alpn = vec![protocol.to_vec()];
        let settings = ClientSettings::new(options).unwrap();
        let stream = TcpStream::connect(server.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(240)))
            .unwrap();
        let mut client = Client {
            stream,
            session: Session::client(&settings, "localhost", Instant::ZERO).unwrap(),
            plain: Vec::new(),
        };
        client.flush();
        while !client.session.is_established() {
            assert!(
                client.receive(),
                "the connection ended during the handshake"
            );
        }
        client
    }

    fn flush(&mut self) {
        while self.session.wants_transmit() {
            let bytes = self.session.transmit();
            self.stream.write_all(bytes).unwrap();
            let sent = bytes.len();
            self.session.transmitted(sent);
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.session.write(bytes), bytes.len());
        self.flush();
    }

    /// Handles the received bytes; returns false at the end.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let length = self.stream.read(&mut bytes).unwrap();
        if length == 0 {
            return false;
        }
        self.session
            .receive(&bytes[..length], Instant::ZERO)
            .unwrap();
        loop {
            match self.session.read(&mut bytes) {
                0 => break,
                length => self.plain.extend_from_slice(&bytes[..length]),
            }
        }
        self.flush();
        true
    }
}

#[test]
fn connections_end_with_close_notify() {
    let site = SiteFolder::new();
    let mut server = Server::secure(site.path(), &["--threads", "1"]);
    let mut http1 = Client::new(&server, b"http/1.1");
    http1.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(http1.receive());
    let mut http2 = Client::new(&server, b"h2");
    let mut begin = h2::PREFACE.to_vec();
    h2::frame::write::settings(&mut begin, std::iter::empty());
    h2::frame::write::settings_acknowledged(&mut begin);
    http2.send(&begin);
    // Waits for the server's SETTINGS, and for its acknowledgement of our SETTINGS.
    while http2.plain.len() < 2 * 9 || !http2.plain.ends_with(&[0, 0, 0, 4, 1, 0, 0, 0, 0]) {
        assert!(http2.receive());
    }
    let before = http2.plain.len();
    assert!(server.stop().unwrap().success());
    for client in [&mut http1, &mut http2] {
        while client.receive() {}
        assert!(client.session.is_closed_by_peer(), "no close_notify");
    }
    // The last frame is a GOAWAY without an error, possibly after an earlier GOAWAY.
    let last = &http2.plain[before..];
    assert_eq!(last[3], 7, "{last:?}");
    assert!(last.ends_with(&[0; 4]), "{last:?}");
}

#[test]
fn each_name_has_its_certificate_and_its_kind_of_key() {
    let (Some(openssl), Some(curl)) = (tool("openssl"), tool("curl")) else {
        return;
    };
    let site = SiteFolder::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut arguments = Vec::new();
    for (name, key) in [("first.test", "ec"), ("second.test", "rsa:2048")] {
        let subject = format!("/CN={name}");
        let names = format!("subjectAltName=DNS:{name}");
        let (key_file, chain) = (file(&format!("{name}.key")), file(&format!("{name}.pem")));
        let mut command = Command::new(&openssl);
        command.args(["req", "-x509", "-newkey", key, "-nodes", "-days", "1"]);
        if key == "ec" {
            command.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
        }
        command.args(["-subj", &subject, "-addext", &names]);
        run_well(command.args(["-keyout", &key_file, "-out", &chain]));
        arguments.extend(["--certificate".to_owned(), chain]);
        arguments.extend(["--key".to_owned(), key_file]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Server::origin(site.path(), &arguments);
    let port = server.address.port();
    // The client trusts only the certificate of that name, and would refuse any other certificate.
    for name in ["first.test", "second.test"] {
        for version in ["1.2", "1.3"] {
            let mut command = Command::new(&curl);
            command
                .args(["--silent", "--show-error", "--tls-max", version])
                .args(["--cacert", &file(&format!("{name}.pem"))])
                .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
                .arg(format!("https://{name}:{port}/microscape.html"));
            assert_eq!(run_well(&command), site.read("microscape.html"));
        }
    }
    let mut stranger = Command::new(&curl);
    stranger
        .args(["--silent", "--cacert", &file("second.test.pem")])
        .args(["--resolve", &format!("third.test:{port}:127.0.0.1")])
        .arg(format!("https://third.test:{port}/"));
    assert!(
        !run(&stranger).status.success(),
        "an unknown name must get the first certificate, which the client refuses"
    );
    let lone = [
        "--certificate",
        &file("first.test.pem"),
        "--key",
        "a",
        "--key",
        "b",
    ];
    let mut command = Command::new(FATHOMETER);
    command.arg("serve").arg(folder.path()).args(lone);
    let said = String::from_utf8_lossy(&run(&command).stderr).into_owned();
    assert!(said.contains("1 certificates and 2 keys"), "{said}");
}

#[test]
fn unusable_certificates_and_keys_are_reported_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let Some(openssl) = tool("openssl") else {
        return;
    };
    for key in ["key", "other"] {
        run_well(Command::new(&openssl).args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=test",
            "-days",
            "1",
            "-keyout",
            &name(key),
            "-out",
            &name(&format!("{key}.pem")),
        ]));
    }
    fs::write(name("empty"), "nothing\n").unwrap();
    fs::write(name("plan"), "/page\n").unwrap();
    for (arguments, expected) in [
        (
            vec!["--certificate", &name("key.pem"), "--key", &name("other")],
            "other",
        ),
        (
            vec!["--certificate", &name("empty"), "--key", &name("key")],
            "empty",
        ),
        (
            vec!["--certificate", &name("none"), "--key", &name("key")],
            "failed to read",
        ),
        (
            vec!["--certificate", &name("key.pem"), "--key", &name("empty")],
            "empty",
        ),
        (vec!["--tls", "--client-ca", &name("empty")], "empty"),
        (vec!["--tickets", "off"], "add --tls"),
        (
            vec!["--tls", "--early-data", "--tickets", "stateless"],
            "stateful",
        ),
        (vec!["--tls", "--protocols", "h4"], "h1, h2 or h3"),
        (vec!["--push", &name("plan")], "line 1"),
        (vec!["--h2-window", "0"], "0 is not in"),
    ] {
        let mut command = Command::new(FATHOMETER);
        command.arg("serve").arg(folder.path()).args(&arguments);
        let output = run(command.args(["--listen", "127.0.0.1:0"]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // A consistent set of options is accepted.
    let arguments = ["--certificate", &name("key.pem"), "--key", &name("key")];
    let mut server = Server::origin(folder.path(), &arguments);
    assert!(server.stop().unwrap().success());
}

/// tshark decrypts a capture with the key log and finds the requests in it.
#[test]
fn wireshark_reads_along_by_the_key_log() {
    let (Some(tshark), Some(dumpcap), Some(curl)) = (tool("tshark"), tool("dumpcap"), tool("curl"))
    else {
        return;
    };
    let site = SiteFolder::new();
    for versions in ["1.2", "1.3"] {
        // The kernel delivers captured packets after an unknown delay. Packets not delivered when the capture
        // ends are missing.
        let mut read = String::new();
        for pause in [300, 2_000, 10_000] {
            let tools = [&tshark, &dumpcap, &curl].map(PathBuf::as_path);
            let Some(found) = read_along(tools, &site, versions, Duration::from_millis(pause))
            else {
                return;
            };
            read = found;
            if read.contains(PAGE) && read.contains("200") {
                break;
            }
        }
        assert!(read.contains(PAGE), "{versions}: {read}");
        assert!(read.contains("200"), "{versions}: {read}");
    }
}

/// Captures one retrieval, until `pause` after its end. Returns the HTTP/2 paths and statuses that tshark finds;
/// `None`, with a message, if capturing is not possible.
fn read_along(
    [tshark, dumpcap, curl]: [&Path; 3],
    site: &SiteFolder,
    versions: &str,
    pause: Duration,
) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (keys, capture) = (name("keys"), name("pcap"));
    let arguments = ["--key-log", &keys, "--tls-versions", versions];
    let server = Server::secure(site.path(), &arguments);
    let port = server.address.port();
    let mut capturing = Command::new(dumpcap)
        .args(["-i", "lo", "-f", &format!("tcp port {port}")])
        .args(["-w", &capture, "-a", "duration:300"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = capturing.stderr.take().unwrap();
    while !said.contains("File:") {
        let mut byte = [0];
        if stderr.read(&mut byte).unwrap() == 0 {
            let _ = capturing.wait();
            eprintln!("SKIPPED: nothing can be captured on lo here: {said}");
            return None;
        }
        said.push(byte[0] as char);
    }
    let mut fetch = Command::new(curl);
    fetch
        .args(["--silent", "--noproxy", "*", "--output", "/dev/null"])
        .arg("--cacert")
        .arg(server.root())
        .arg(server.url(PAGE));
    run_well(&fetch);
    std::thread::sleep(pause);
    // dumpcap writes packets in batches; SIGINT makes it write the last batch.
    let pid = rustix::process::Pid::from_child(&capturing);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    capturing.wait().unwrap();
    let mut decode = Command::new(tshark);
    decode
        .args(["-r", &capture, "-o", &format!("tls.keylog_file:{keys}")])
        .args(["-d", &format!("tcp.port=={port},tls")])
        .args(["-Y", "http2", "-T", "fields"])
        .args(["-e", "http2.headers.path", "-e", "http2.headers.status"]);
    Some(String::from_utf8(run_well(&decode)).unwrap())
}
