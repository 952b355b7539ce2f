//! Records of a connection, read by third-party programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use serde_json::Value;

use super::support::{
    Ask, Keys, NAME, Process, Running, Trust, client_settings, client_settings_of, origin,
    run_well, script, service_options, site, visit,
};
use crate::support::programs::tool;

#[test]
fn a_qlog_is_read_by_python() {
    let Some(python) = tool("python3") else {
        return;
    };
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/large", 500_000)]));
    let server = Running::start(&service_options(&trust), vec![files], clock);
    let path = trust.file("client.sqlog");
    let log = fs::File::create(&path).unwrap();
    let settings = client_settings(&trust.client(false, None));
    let asks = [Ask::get("/large")];
    let visit = visit(
        &settings,
        server.address(),
        &asks,
        clock,
        Some(Box::new(log)),
    );
    let mut command = Command::new(python);
    command.arg(script("check_qlog.py")).arg(&path);
    let found: Value = serde_json::from_str(&run_well(&command)).unwrap();
    assert_eq!(found["title"], NAME);
    assert_eq!(found["in_order"], true);
    // The members that the published structure requires (draft-ietf-quic-qlog-main-schema).
    match &found["faults"] {
        Value::Null => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
            assert!(
                !required,
                "this test needs Python with jsonschema (Debian: python3-jsonschema)"
            );
        }
        faults => assert_eq!(faults, &serde_json::json!([]), "{found}"),
    }
    let received = found["events"]["transport:packet_received"]
        .as_u64()
        .or(found["events"]["quic:packet_received"].as_u64());
    // A datagram contains at least one packet.
    assert!(
        received.unwrap() >= visit.statistics.received.datagrams,
        "{found}"
    );
}

#[test]
fn tshark_decodes_frames_as_we_count_them() {
    let Some(tshark) = tool("tshark") else { return };
    // If a busy machine delays an acknowledgement by some tens of milliseconds, QUIC retransmits, and tshark
    // counts the data twice. Hence several attempts.
    let mut differences = Vec::new();
    for _ in 0..5 {
        match count_frames(&tshark) {
            Ok(()) => return,
            Err(difference) => differences.push(difference),
        }
    }
    panic!("{differences:#?}");
}

/// Captures a visit; returns an error where tshark's counts differ from ours.
fn count_frames(tshark: &Path) -> Result<(), String> {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let keys = Arc::new(Keys::default());
    let files = origin(site(&[("/a", 100), ("/b", 120)]));
    // On loopback, datagrams sent in one call arrive as one datagram, of which tshark decodes only the
    // beginning.
    let sockets = Sockets {
        segmentation: false,
        ..Sockets::default()
    };
    let mut options = service_options(&trust);
    options.sockets = sockets;
    let server = Running::start(&options, vec![files], clock);
    let port = server.address().port();
    let capture = trust.file("capture.pcapng");
    let mut listener = Process::spawn(
        Command::new(tshark)
            .args(["-i", "lo", "-q", "-f", &format!("udp port {port}"), "-w"])
            .arg(&capture)
            .stderr(Stdio::piped()),
    );
    let mut said = BufReader::new(listener.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Capturing on") {
        line.clear();
        if said.read_line(&mut line).unwrap() == 0 {
            eprintln!("SKIPPED: tshark may not capture here");
            return Ok(());
        }
    }
    // tshark reports the start a moment before it captures: a probe datagram shows that capturing has started.
    let probe = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = clock.now();
    while fs::metadata(&capture).map_or(0, |file| file.len()) < 500 {
        probe.send_to(b"?", server.address()).unwrap();
        assert!(clock.now().since(begun) < super::support::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let tls = trust.client(false, Some(Arc::clone(&keys) as _));
    // tshark follows a connection by its connection IDs, so they must not be empty.
    let transport = TransportSettings {
        identifier_length: 8,
        ..TransportSettings::client()
    };
    let settings = client_settings_of(&tls, transport, sockets);
    // Four requests fit in one packet: tshark 4.0 omits a frame that continues in the next packet.
    let asks: Vec<Ask> = (0..4)
        .map(|n| Ask::get(if n % 2 == 0 { "/a" } else { "/b" }))
        .collect();
    let visit = visit(&settings, server.address(), &asks, clock, None);
    assert!(visit.answers.iter().all(|answer| answer.is_whole));
    // A probe is sent after the responses. Once the capture contains the probe, it also contains all earlier datagrams.
    let size = || fs::metadata(&capture).unwrap().len();
    let (before, begun) = (size(), clock.now());
    while size() < before + 500 && clock.now().since(begun) < super::support::PATIENCE {
        probe.send_to(&[b'?'; 100], server.address()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // tshark writes its last block on SIGINT.
    let pid = rustix::process::Pid::from_child(&listener.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    listener.0.wait().unwrap();
    fs::write(trust.file("keys"), keys.text()).unwrap();
    let fields = |filter: &str, names: &[&str]| {
        let mut command = Command::new(tshark);
        command
            .args(["-n", "-r"])
            .arg(&capture)
            .args([
                "-o",
                &format!("tls.keylog_file:{}", trust.file("keys").display()),
            ])
            .args([
                "-d",
                &format!("udp.port=={port},quic"),
                "-Y",
                filter,
                "-T",
                "fields",
            ]);
        for name in names {
            command.args(["-e", name]);
        }
        run_well(&command)
    };
    let local = visit.local.port();
    let numbers = |text: &str| -> Vec<u64> {
        text.split([',', '\n', '\t'])
            .filter_map(|one| {
                let one = one.trim();
                match one.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None => one.parse().ok(),
                }
            })
            .collect()
    };
    let frames = |side: &str| {
        let filter = format!("http3 && udp.{side} == {local}");
        let types = numbers(&fields(&filter, &["http3.frame_type"]));
        let lengths = numbers(&fields(&filter, &["http3.frame_length"]));
        (types, lengths)
    };
    let (asked, _) = frames("srcport");
    let (answered, lengths) = frames("dstport");
    // HEADERS have type 1, DATA type 0.
    let sum_of = |wanted: u64| -> u64 {
        let frames = answered.iter().zip(&lengths);
        let lengths = frames.filter(|&(&kind, _)| kind == wanted);
        lengths.map(|(_, &length)| length).sum()
    };
    let headers = |types: &[u64]| types.iter().filter(|&&one| one == 1).count();
    let received = || visit.answers.iter().map(|answer| answer.received);
    let content: u64 = received().map(|received| received.content.0).sum();
    let heads: u64 = received().map(|received| received.head.0).sum();
    assert_eq!(content, 2 * 220);
    let head_lengths = sum_of(1);
    // Our counts include the frame headers of two or three bytes; tshark's do not.
    let frames = asks.len() as u64;
    let heads_agree = (head_lengths + 2 * frames..=head_lengths + 3 * frames).contains(&heads);
    let counts = (headers(&asked), headers(&answered), sum_of(0));
    match counts == (asks.len(), asks.len(), content) && heads_agree {
        true => Ok(()),
        false => Err(format!(
            "{counts:?} of {} asked, {content} bytes; heads of {heads} and {head_lengths}: \
             {asked:?} {answered:?} {lengths:?}",
            asks.len()
        )),
    }
}
