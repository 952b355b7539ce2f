//! Checks the sessions' counts against tshark. With the key log, tshark must find the same number of bytes of the
//! handshake, of alerts and of data in a capture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use fathometer_model::{Bytes, Instant};
use fathometer_tls::{
    ClientCertificates, ClientOptions, ClientSettings, EarlyData, Group, KeyLogSink, Resumption,
    ServerOptions, ServerSettings, Session, Tickets, Traffic, Version,
};

use super::tools::{Credentials, NAME, tool};

const NOW: Instant = Instant::ZERO;

#[derive(Debug, Default)]
struct Secrets(Mutex<String>);

impl KeyLogSink for Secrets {
    fn line(&self, line: &str) {
        let mut text = self.0.lock().unwrap();
        text.push_str(line);
        text.push('\n');
    }
}

/// A connection in memory, and all transferred bytes in sending order.
struct Taped {
    sessions: [Session; 2],
    tape: Vec<(usize, Vec<u8>)>,
}

impl Taped {
    fn new(client: &Arc<ClientSettings>, server: &Arc<ServerSettings>) -> Taped {
        Taped {
            sessions: [
                Session::client(client, NAME, NOW).unwrap(),
                Session::server(server, NOW).unwrap(),
            ],
            tape: Vec::new(),
        }
    }

    fn carry(&mut self, from: usize) {
        let bytes = self.sessions[from].transmit().to_vec();
        self.sessions[from].transmitted(bytes.len());
        self.sessions[1 - from].receive(&bytes, NOW).unwrap();
        self.tape.push((from, bytes));
    }

    fn settle(&mut self) {
        while self.sessions.iter().any(Session::wants_transmit) {
            self.carry(0);
            self.carry(1);
        }
    }

    /// Sends data in both directions, then closes both directions.
    fn converse(mut self, early: &[u8]) -> Taped {
        assert_eq!(self.sessions[0].early_write(early), early.len());
        self.settle();
        for size in [1, 700, 20_000] {
            self.sessions[0].write(&vec![b'q'; size]);
            self.sessions[1].write(&vec![b'a'; 2 * size]);
            self.settle();
        }
        self.sessions[0].close();
        self.sessions[1].close();
        self.settle();
        self
    }
}

/// The compared counts: bytes of the handshake, of alerts and of data, and the number of records.
type Counts = [u64; 4];

fn counted(traffic: &Traffic) -> Counts {
    let Traffic {
        handshake: Bytes(handshake),
        alerts: Bytes(alerts),
        application: Bytes(application),
        records,
        ..
    } = *traffic;
    [handshake, alerts, application, records]
}

#[test]
fn tshark_counts_what_sessions_count() {
    let Some(tshark) = tool("tshark") else { return };
    let credentials = Credentials::get();
    type Change = fn(&mut ClientOptions, &mut ServerOptions);
    let cases: [(&str, Change); 6] = [
        ("TLS 1.3", |_, _| {}),
        ("TLS 1.2", |client, _| {
            client.versions = vec![Version::Tls12];
        }),
        ("TLS 1.2, sessions kept", |client, server| {
            client.versions = vec![Version::Tls12];
            server.tickets = Tickets::Stateful {
                count: 3,
                capacity: 9,
            };
        }),
        ("another group, client certificates", |client, server| {
            server.groups = vec![Group::P384];
            client.identity = Some(Credentials::get().identity.clone());
            server.client_certificates =
                ClientCertificates::Required(Credentials::get().authority.roots());
        }),
        ("small records", |client, server| {
            client.record_size = 500;
            server.record_size = 1300;
        }),
        ("early data", |client, server| {
            client.early_data = true;
            server.tickets = Tickets::Stateful {
                count: 3,
                capacity: 9,
            };
            server.early_data = Some(8000);
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, change) in cases {
        let secrets = Arc::new(Secrets::default());
        let (mut client, mut server) = (credentials.client_options(), credentials.server_options());
        change(&mut client, &mut server);
        client.key_log = Some(secrets.clone());
        let early: &[u8] = if client.early_data {
            &[b'e'; 3000]
        } else {
            b""
        };
        let client = ClientSettings::new(client).unwrap();
        let server = ServerSettings::new(server).unwrap();
        let first = Taped::new(&client, &server).converse(b"");
        let second = Taped::new(&client, &server).converse(early);
        let handshake = second.sessions[0].handshake().unwrap();
        assert_ne!(handshake.resumption, Resumption::Full, "{name}");
        let accepted = handshake.early_data == EarlyData::Accepted;
        assert_eq!(accepted, !early.is_empty(), "{name}");
        let keys = folder.path().join("keys");
        std::fs::write(&keys, &*secrets.0.lock().unwrap()).unwrap();
        let capture = folder.path().join("capture.pcap");
        std::fs::write(&capture, pcap(&[first.tape, second.tape])).unwrap();
        let found = decoded(&tshark, &capture, &keys);
        for (connection, sessions) in [first.sessions, second.sessions].iter().enumerate() {
            for (from, session) in sessions.iter().enumerate() {
                let of_tshark = found.get(&(connection, from)).copied().unwrap_or_default();
                let place = format!("{name}, connection {connection}, side {from}");
                assert_eq!(counted(session.sent()), of_tshark, "{place}");
                assert_eq!(session.sent(), sessions[1 - from].received(), "{place}");
            }
        }
    }
}

/// Runs tshark; returns the counts of the decrypted records by connection and sender.
fn decoded(tshark: &Path, capture: &Path, keys: &Path) -> BTreeMap<(usize, usize), Counts> {
    let output = Command::new("timeout")
        .args([
            "60",
            tshark.to_str().unwrap(),
            "-r",
            capture.to_str().unwrap(),
        ])
        .args(["-o", &format!("tls.keylog_file:{}", keys.display())])
        .args(["-Y", "tls.record.length", "-T", "fields"])
        .args(["-e", "tcp.stream", "-e", "tcp.srcport"])
        .args(["-e", "tls.record.content_type", "-e", "tls.record.length"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut found: BTreeMap<(usize, usize), Counts> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [stream, port, kind, length] = fields[..] else {
            panic!("{line:?}");
        };
        let from = usize::from(port == "443");
        let counts = found.entry((stream.parse().unwrap(), from)).or_default();
        let bytes = 5 + length.parse::<u64>().unwrap();
        match kind {
            "20" | "22" => counts[0] += bytes,
            "21" => counts[1] += bytes,
            "23" => counts[2] += bytes,
            _ => panic!("not decrypted: {line:?}"),
        }
        counts[3] += 1;
    }
    found
}

/// Builds a capture of these connections. Each record is a separate packet, so that tshark prints each record's type on
/// a separate line.
fn pcap(connections: &[Vec<(usize, Vec<u8>)>]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, RAW_IP] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    let mut packets = 0;
    for (connection, tape) in connections.iter().enumerate() {
        let ports = [50_000 + connection as u16, 443];
        let mut next = [1_u32, 1];
        let mut packet = |from: usize, flags: u8, next: [u32; 2], payload: &[u8]| {
            let bytes = segment([ports[from], ports[1 - from]], flags, next, payload);
            packets += 1;
            for word in [
                1_790_000_000,
                packets,
                bytes.len() as u32,
                bytes.len() as u32,
            ] {
                file.extend_from_slice(&u32::to_le_bytes(word));
            }
            file.extend_from_slice(&bytes);
        };
        packet(0, 0x02, [0, 0], b"");
        packet(1, 0x12, [0, 1], b"");
        packet(0, 0x10, [1, 1], b"");
        for (from, bytes) in tape {
            let mut rest = &bytes[..];
            while let Some(&[_, _, _, high, low]) = rest.first_chunk::<5>() {
                let length = 5 + usize::from(u16::from_be_bytes([high, low]));
                let (record, later) = rest.split_at(length);
                packet(*from, 0x18, [next[*from], next[1 - from]], record);
                next[*from] += length as u32;
                rest = later;
            }
            assert!(rest.is_empty(), "the transport takes whole records");
        }
    }
    file
}

/// Builds an IPv4 packet with a TCP segment. The checksums are omitted, because tshark does not verify them.
fn segment(ports: [u16; 2], flags: u8, [seq, ack]: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let length = (40 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    let client = ports[1] == 443;
    let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]];
    packet.extend_from_slice(&addresses[usize::from(!client)]);
    packet.extend_from_slice(&addresses[usize::from(client)]);
    for port in ports {
        packet.extend_from_slice(&port.to_be_bytes());
    }
    for number in [seq, ack] {
        packet.extend_from_slice(&number.to_be_bytes());
    }
    packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend_from_slice(payload);
    packet
}
