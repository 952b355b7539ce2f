//! Our client with third-party servers.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_model::Failure;
use fathometer_sys::Clock;

use super::support::{
    Ask, NAME, PATIENCE, Process, Trust, Visit, aioquic, client_settings, content, script, sha256,
    visit,
};
use crate::support::ports::free_address;
use crate::support::programs::tool;

const SMALL: usize = 1_000;
const LARGE: usize = 2_000_000;

/// Writes the files that the tests request.
fn write_site(trust: &Trust) -> std::path::PathBuf {
    let folder = trust.file("site");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("small"), content(SMALL, 1)).unwrap();
    fs::write(folder.join("large"), content(LARGE, 2)).unwrap();
    folder
}

fn start_aioquic(trust: &Trust, arguments: &[&str]) -> Option<(Process, SocketAddr)> {
    let python = aioquic()?;
    let folder = write_site(trust);
    let mut process = Process::spawn(
        Command::new(python)
            .arg(script("aioquic_server.py"))
            .arg(folder)
            .arg(trust.file("chain.pem"))
            .arg(trust.file("key.pem"))
            .args(arguments)
            .stdout(Stdio::piped()),
    );
    let port: u16 = process
        .first_line()
        .parse()
        .expect("the server prints its port");
    Some((process, ([127, 0, 0, 1], port).into()))
}

fn asks() -> Vec<Ask> {
    let mut asks: Vec<Ask> = (0..40).map(|_| Ask::get("/small")).collect();
    asks.insert(7, Ask::get("/large"));
    asks.insert(20, Ask::get("/nowhere"));
    asks
}

fn check(asks: &[Ask], visit: &Visit) {
    for (ask, answer) in asks.iter().zip(&visit.answers) {
        assert!(answer.is_whole, "{ask:?}: {:?}", answer.failure);
        match ask.target.as_str() {
            "/small" => assert!(answer.status == 200 && answer.content == content(SMALL, 1)),
            "/large" => assert!(answer.status == 200 && answer.content == content(LARGE, 2)),
            _ => assert_eq!(answer.status, 404),
        }
    }
}

#[test]
fn aioquic_serves_us_with_and_without_retry() {
    for (arguments, round_trips) in [(&[][..], 1), (&["--retry"][..], 2)] {
        let clock = Clock::start();
        let trust = Trust::new(clock);
        let Some((_server, address)) = start_aioquic(&trust, arguments) else {
            return;
        };
        let settings = client_settings(&trust.client(false, None));
        let asks = asks();
        let visit = visit(&settings, address, &asks, clock, None);
        check(&asks, &visit);
        let handshake = visit.handshake.unwrap();
        assert_eq!(handshake.round_trips, round_trips);
        assert!(handshake.certificates.0 > 200);
    }
}

#[test]
fn aioquic_takes_what_we_send_and_what_it_breaks_off_is_classified() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let Some((_server, address)) = start_aioquic(&trust, &[]) else {
        return;
    };
    let settings = client_settings(&trust.client(false, None));
    let sent = content(300_000, 5);
    let asks = [
        Ask {
            method: "POST",
            content: sent.clone(),
            ..Ask::get("/")
        },
        Ask::get("/reset"),
        Ask::get("/small"),
    ];
    let visited = visit(&settings, address, &asks, clock, None);
    assert_eq!(visited.answers[0].content, sha256(&sent).into_bytes());
    assert!(matches!(
        visited.answers[1].failure,
        Some(Failure::StreamReset | Failure::Reset)
    ));
    assert!(visited.answers[2].is_whole, "the connection goes on");

    let closed = visit(&settings, address, &[Ask::get("/close")], clock, None);
    assert!(closed.answers[0].failure.is_some());
    let end = closed.closed.unwrap();
    assert_eq!((end.by, end.code), (fathometer_quic::Closer::Peer, 0x102));
    assert_eq!(end.reason, "asked to");
}

#[test]
fn aioquic_resumes_our_sessions_with_early_data() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let Some((_server, address)) = start_aioquic(&trust, &[]) else {
        return;
    };
    let settings = client_settings(&trust.client(true, None));
    let asks = [Ask::get("/small")];
    check(&asks, &visit(&settings, address, &asks, clock, None));
    let again = visit(&settings, address, &asks, clock, None);
    check(&asks, &again);
    let handshake = again.handshake.unwrap();
    assert_eq!(handshake.early_data, fathometer_quic::EarlyData::Accepted);
    assert!(handshake.resumed && handshake.certificates.0 == 0);
}

#[test]
fn caddy_serves_us() {
    let Some(caddy) = tool("caddy") else { return };
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let folder = write_site(&trust);
    // Caddy uses the port for TCP as well.
    let address = free_address();
    let configuration = format!(
        "{{\n  admin off\n  auto_https disable_redirects\n  skip_install_trust\n}}\n\
         https://{NAME}:{} {{\n  bind 127.0.0.1\n  tls {} {}\n  root * {}\n  file_server\n}}\n",
        address.port(),
        trust.file("chain.pem").display(),
        trust.file("key.pem").display(),
        folder.display()
    );
    fs::write(trust.file("Caddyfile"), configuration).unwrap();
    let _server = Process::spawn(
        Command::new(caddy)
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(trust.file("Caddyfile"))
            .env("XDG_DATA_HOME", trust.folder.path())
            .env("XDG_CONFIG_HOME", trust.folder.path())
            .stderr(Stdio::null()),
    );
    // Caddy listens on UDP before TCP.
    let begun = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "caddy does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let settings = client_settings(&trust.client(false, None));
    let asks = asks();
    let first = visit(&settings, address, &asks, clock, None);
    check(&asks, &first);
    let handshake = first.handshake.unwrap();
    assert_eq!(handshake.protocol.as_deref(), Some(&b"h3"[..]));
    assert!(!handshake.resumed && handshake.certificates.0 > 200);
    let again = visit(&settings, address, &asks, clock, None);
    check(&asks, &again);
    let handshake = again.handshake.unwrap();
    assert!(handshake.resumed && handshake.certificates.0 == 0);
}
