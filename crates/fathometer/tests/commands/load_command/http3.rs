//! HTTP/3 against a third-party server and against our own. Our counts must equal the server's log, and the program
//! must report a server that disappears or that never existed.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_analysis::load::Summary;

use super::protocols::{Place, SIZE, Server, logged};
use super::support::{Ended, load, valid_if_possible};
use crate::support::closed_port::ClosedPort;
use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, tool};
use crate::support::quiet::in_a_quiet_moment;
use crate::support::waiting::wait_until;

/// Starts a server that listens on TCP and UDP, in either order.
fn started(command: &mut Command, address: SocketAddr) -> Server {
    let server = Server::start(command, address);
    let port = format!(":{:04X}", address.port());
    wait_until("the server listens on UDP", || {
        // The second column is the local address.
        let sockets = fs::read_to_string("/proc/net/udp").unwrap();
        let mut local = sockets
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        local.any(|local| local.ends_with(&port))
    });
    server
}

fn ours(place: &Place, arguments: &[&str]) -> Server {
    let address = free_address();
    let mut command = Command::new(FATHOMETER);
    command
        .args(["serve", &place.name("site"), "--threads", "1", "--http3"])
        .args(["--listen", &address.to_string()])
        .args(["--log", &place.name("log")])
        .args(["--certificate", &place.name("chain.pem")])
        .args(["--key", &place.name("key.pem")])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    started(&mut command, address)
}

fn caddy(place: &Place) -> Option<Server> {
    let program = tool("caddy")?;
    let address = free_address();
    let configuration = format!(
        "{{\n  admin off\n  auto_https disable_redirects\n  skip_install_trust\n}}\n\
         https://127.0.0.1:{} {{\n  bind 127.0.0.1\n  tls {} {}\n  root * {}\n  file_server\n  \
         log {{\n    output file {}\n    format json\n  }}\n}}\n",
        address.port(),
        place.name("chain.pem"),
        place.name("key.pem"),
        place.name("site"),
        place.name("log"),
    );
    fs::write(place.path("Caddyfile"), configuration).unwrap();
    let mut command = Command::new(program);
    command
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(place.path("Caddyfile"))
        .env("XDG_DATA_HOME", place.path("data"))
        .env("XDG_CONFIG_HOME", place.path("data"))
        .stderr(Stdio::null());
    Some(started(&mut command, address))
}

/// Loads a server over HTTP/3.
fn ask(place: &Place, server: &Server, arguments: &[&str]) -> Ended {
    let trust = place.name("trusted.pem");
    let mut all = vec!["--policy", "h3", "--cacert", &trust];
    all.extend_from_slice(arguments);
    valid_if_possible(|| load(&server.url("https"), &all))
}

/// Checks the figures of 2000 exchanges over four connections.
fn check(summary: &Summary) {
    let (counts, bytes) = (&summary.measured.counts, &summary.measured.bytes);
    assert_eq!(
        (counts.planned, counts.completed, counts.failed),
        (2000, 2000, 0)
    );
    assert_eq!(bytes.content_bytes, 2000 * SIZE as u64);
    assert!(
        bytes.response_bodies_bytes > bytes.content_bytes,
        "DATA frames have heads"
    );
    assert!(bytes.request_fields_bytes > 2000 * 60);
    assert!(bytes.request_heads_bytes < bytes.request_fields_bytes);
    assert!(bytes.response_heads_bytes < bytes.response_fields_bytes);
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!(tls.full + tls.resumed, 4);
    let agreed: Vec<&String> = tls.agreed.keys().collect();
    assert!(
        agreed.len() == 1
            && agreed[0].starts_with("QUIC, TLS 1.3, TLS_")
            && agreed[0].ends_with(", h3"),
        "{agreed:?}"
    );
    assert!(tls.sent_bytes >= 4 * 1200 && tls.cpu_s > 0.0);
    let quic = summary.measured.quic.as_ref().unwrap();
    assert_eq!(quic.most_streams, 8);
    assert!(quic.received_bytes > bytes.content_bytes && quic.sent > 100);
    assert_eq!(summary.measured.http2, None);
    let phases = &summary.measured.phases;
    assert_eq!(phases.connect.as_ref().unwrap().count, 4);
    assert_eq!(phases.corrected.as_ref().unwrap().count, 2000);
}

const BOUNDED: [&str; 7] = ["-n", "2000", "-c", "4", "-m", "8", "--json"];

#[test]
fn our_origin_logs_what_was_counted() {
    let place = Place::new();
    let server = ours(&place, &[]);
    let mut runs = 0;
    let summary = {
        let trust = place.name("trusted.pem");
        let all = [&["--policy", "h3", "--cacert", &trust], &BOUNDED[..]].concat();
        let ended = valid_if_possible(|| {
            runs += 1;
            load(&server.url("https"), &all)
        });
        ended.ended_with(0)
    };
    check(&summary);
    // After the first requests, QPACK's dynamic table contains the fields, so a request head needs only a few bytes.
    assert!(summary.measured.bytes.request_heads_bytes < 2000 * 30);
    let log = place.path("log");
    wait_until("the log is written", || {
        logged(&log, "GET /1k.html HTTP/3") == 2000 * runs
    });
}

#[test]
fn caddy_sees_what_was_counted() {
    let place = Place::new();
    let Some(server) = caddy(&place) else { return };
    let summary = ask(&place, &server, &BOUNDED).ended_with(0);
    check(&summary);
    let log = place.path("log");
    wait_until("the log is written", || {
        let seen = logged(&log, "\"proto\":\"HTTP/3.0\"");
        seen >= 2000 && seen.is_multiple_of(2000)
    });
}

#[test]
fn an_open_loop_keeps_its_rate_and_its_instants() {
    let place = Place::new();
    let server = ours(&place, &[]);
    let arguments = ["--rate", "400", "-d", "2s", "-c", "8", "--json"];
    in_a_quiet_moment(Duration::from_millis(100), || {
        let summary = ask(&place, &server, &arguments).ended_with(0);
        let counts = &summary.measured.counts;
        assert_eq!((counts.planned, counts.completed), (800, 800));
        let phases = &summary.measured.phases;
        assert_eq!(phases.send_lag.as_ref().unwrap().count, 800);
        // The figures of QUIC cover the measured window alone. On a busy machine several responses may share a
        // datagram, and delayed responses may arrive after the window.
        let quic = summary.measured.quic.as_ref().unwrap();
        assert!(quic.received_bytes > 0, "{quic:?}");
        match quic.received_bytes > 800 * SIZE as u64 {
            true => Ok(()),
            false => Err(format!("{quic:?}")),
        }
    });
}

#[test]
fn connections_live_as_long_as_they_are_to() {
    let place = Place::new();
    let server = ours(&place, &[]);
    let limit = ["--max-requests-per-connection", "10"];
    let bounded = ["-n", "200", "-c", "4", "-m", "1", "--json"];
    let summary = ask(&place, &server, &[&limit[..], &bounded].concat()).ended_with(0);
    let connections = &summary.measured.connections;
    assert_eq!(summary.measured.counts.completed, 200);
    // Twenty connections, and one more for each user whose number of requests is not a multiple of ten.
    assert!(
        (20..=24).contains(&connections.established),
        "{connections:?}"
    );
    assert_eq!(connections.failed, 0);
    assert!(connections.closed_by_client >= 16, "{connections:?}");
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!(tls.full + tls.resumed, connections.established);
}

/// Options of a load with twenty connections, and one more for each user whose number of requests is not a multiple of
/// ten.
const SHORT_LIVED: [&str; 9] = [
    "--max-requests-per-connection",
    "10",
    "-n",
    "200",
    "-c",
    "4",
    "-m",
    "1",
    "--json",
];

/// Loads a server over HTTP/3 once: the checked figures do not depend on the load of the machine.
fn ask_once(place: &Place, server: &Server, arguments: &[&str]) -> Summary {
    let trust = place.name("trusted.pem");
    let all = [&["--policy", "h3", "--cacert", &trust], arguments].concat();
    load(&server.url("https"), &all).ended_with(0)
}

/// Checks the handshakes when tickets are issued and accepted: only the first handshakes are full, at most one
/// per user.
fn check_resumed(summary: &Summary) {
    let tls = summary.measured.tls.as_ref().unwrap();
    let established = summary.measured.connections.established;
    assert_eq!(summary.measured.counts.completed, 200);
    assert_eq!(tls.full + tls.resumed, established);
    assert!((1..=4).contains(&tls.full), "{tls:?}");
    // Certificates are sent in full handshakes only.
    let one = tls.certificates_bytes / tls.full;
    assert!(
        one > 200 && one * tls.full == tls.certificates_bytes,
        "{tls:?}"
    );
}

#[test]
fn sessions_of_our_origin_are_resumed_with_early_data_where_that_is_allowed() {
    let place = Place::new();
    let server = ours(&place, &[]);
    let summary = ask_once(&place, &server, &SHORT_LIVED);
    check_resumed(&summary);
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!((tls.early_data, tls.early_data_refused), (0, 0));

    let none = [&["--no-resume"][..], &SHORT_LIVED].concat();
    let summary = ask_once(&place, &server, &none);
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!(
        (tls.full, tls.resumed),
        (summary.measured.connections.established, 0)
    );

    // This server accepts no early data: its tickets state that, so the client sends none.
    let early = [&["--early-data"][..], &SHORT_LIVED].concat();
    let summary = ask_once(&place, &server, &early);
    check_resumed(&summary);
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!((tls.early_data, tls.early_data_refused), (0, 0));
    drop(server);

    let server = ours(&place, &["--early-data"]);
    let summary = ask_once(&place, &server, &early);
    check_resumed(&summary);
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!((tls.early_data, tls.early_data_refused), (tls.resumed, 0));
    let phases = &summary.measured.phases;
    assert_eq!(phases.send_lag.as_ref().unwrap().count, 200);

    // A POST request is not sent as early data, because a replay could execute it twice.
    let post = [
        &["--method", "POST", "--body", "x", "--early-data"][..],
        &SHORT_LIVED,
    ]
    .concat();
    let trust = place.name("trusted.pem");
    let post = [&["--policy", "h3", "--cacert", &trust], &*post].concat();
    // The server permits no POST: no exchange succeeds.
    let summary = load(&server.url("https"), &post).ended_with(1);
    assert_eq!(summary.measured.counts.planned, 200);
}

#[test]
fn sessions_of_caddy_are_resumed() {
    let place = Place::new();
    let Some(server) = caddy(&place) else { return };
    let summary = ask_once(&place, &server, &SHORT_LIVED);
    check_resumed(&summary);
}

#[test]
fn offloads_gather_datagrams_and_nothing_else_changes() {
    let place = Place::new();
    // A file that needs many datagrams.
    fs::write(place.path("site/1k.html"), vec![b'0'; 300_000]).unwrap();
    for offload in ["off", "send", "receive", "on"] {
        let server = ours(&place, &["--udp-offload", offload]);
        let arguments = ["-n", "40", "-c", "2", "--json", "--udp-offload", offload];
        let summary = ask_once(&place, &server, &arguments);
        let bytes = &summary.measured.bytes;
        assert_eq!(bytes.content_bytes, 40 * 300_000);
        let quic = summary.measured.quic.as_ref().unwrap();
        // The client itself sends acknowledgements, which are seldom batched.
        assert!(quic.send_calls <= quic.sent && quic.send_calls > 0);
        let gathered = quic.receive_buffers < quic.received;
        // On loopback, datagrams sent together are received together if the receiver enables GRO.
        assert_eq!(gathered, offload == "on", "{offload}: {quic:?}");
        println!(
            "{offload}: {} datagrams received into {} buffers, {} sent by {} calls",
            quic.received, quic.receive_buffers, quic.sent, quic.send_calls
        );
    }
}

#[test]
fn a_server_that_exits_is_a_finding() {
    // A busy machine needs more time to detect that the server runs, and to refuse a connection after its end.
    let refused = |summary: &Summary| {
        let failures = &summary.measured.counts.connect_failures;
        failures.get("refused").copied() > Some(10)
    };
    let summary = ["3s", "15s", "75s"]
        .into_iter()
        .find_map(|time| Some(left_by_its_server(time)).filter(refused))
        .expect("a client is refused while the test lasts");
    let counts = &summary.measured.counts;
    assert!(counts.completed > 10 && counts.failed > 0, "{counts:?}");
    // The kernel reports the closed port to connected clients and to new ones.
    for failure in counts.failures.keys().chain(counts.connect_failures.keys()) {
        let known = ["reset", "refused", "timed-out", "closed-early"];
        assert!(known.contains(&&**failure), "{counts:?}");
    }
    assert_eq!(
        counts.planned,
        counts.completed + counts.failed + counts.unfinished
    );
}

/// Runs a load of length `time`, and kills the server as soon as it has answered some requests. Returns the result.
fn left_by_its_server(time: &str) -> Summary {
    let place = Place::new();
    let mut server = ours(&place, &[]);
    let trust = place.name("trusted.pem");
    let mut child = Command::new(FATHOMETER)
        .args(["load", "--quiet", &server.url("https"), "--policy", "h3"])
        .args(["--cacert", &trust, "-c", "4", "-d", time, "--json"])
        .args([
            "--warmup",
            "0s",
            "--timeout",
            "1s",
            "--connect-timeout",
            "1s",
            "--drain",
            "2s",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the test has started", || {
        fs::read_to_string(place.path("log")).is_ok_and(|log| log.lines().count() > 10)
    });
    server.kill();
    let output = {
        wait_until("the test ends", || child.try_wait().unwrap().is_some());
        child.wait_with_output().unwrap()
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn requests_that_a_stopping_server_did_not_process_are_retried_on_another_connection() {
    let place = Place::new();
    // This server closes each connection after 50 requests.
    let server = ours(&place, &["--max-requests", "50"]);
    let arguments = ["-n", "2000", "-c", "4", "-m", "4", "--json"];
    let summary = ask(&place, &server, &arguments).ended_with(0);
    let counts = &summary.measured.counts;
    assert_eq!((counts.completed, counts.failed), (2000, 0), "{counts:?}");
    let connections = &summary.measured.connections;
    assert!(connections.established >= 36, "{connections:?}");
    assert!(connections.closed_by_server >= 32 && connections.failed == 0);
}

#[test]
fn a_missing_listener_and_a_listener_without_quic_are_reported() {
    let place = Place::new();
    let closed_port = ClosedPort::new();
    let url = format!("https://{}/", closed_port.address);
    let patient = ["--connect-timeout", "10m"];
    let arguments = ["--policy", "h3", "--insecure", "-n", "1"];
    // The program must not wait for its time limit; otherwise the test would time out here.
    let ended = load(&url, &[&arguments[..], &patient].concat());
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("no process listens there"),
        "{}",
        ended.err
    );
    let server = ours(&place, &[]);
    for (arguments, words) in [
        (&["--insecure", "--tls-version", "1.2"][..], "TLS 1.3"),
        (&[], "trust its certificate authority with --cacert"),
    ] {
        let all = [&["--policy", "h3", "-n", "1"], arguments].concat();
        let ended = load(&server.url("https"), &all);
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    let ended = load(&server.url("http"), &["--policy", "h3", "-n", "1"]);
    assert!(ended.err.contains("https"), "{}", ended.err);
}
