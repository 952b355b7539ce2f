//! Clients that abuse the content negotiation of `fathometer serve`: they leave during the compression, never read,
//! or send fields of tens of kilobytes. Other clients are served meanwhile, and the memory stays bounded. The unit
//! tests of the cache check its exact bounds.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::support::Server;
use crate::support::programs::{run_well, tool};

const FILES: u32 = 25;
/// Bytes of each file; compression halves a file.
const LENGTH: usize = 200_000;
/// Number of clients of each kind.
const CLIENTS: u32 = 100;
/// Largest permitted growth of the server's memory, in kilobytes: less than the compressed content of all clients
/// that never read, and more than the active encoders need.
const MOST_GROWTH: u64 = 8 * 1024;

/// Returns random digits, different for each file.
fn content(file: u32) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32 ^ file;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        b"0123456789abcdef"[(state >> 9 & 15) as usize]
    })
    .take(LENGTH)
    .collect()
}

/// Opens a connection and sends a request.
fn asked(server: &Server, path: &str, fields: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads the server's resident memory in kilobytes.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

fn hash_of(file: &Path) -> String {
    let script = "openssl dgst -sha256 -binary \"$1\" | openssl base64 -A";
    let printed = run_well(Command::new("sh").args(["-c", script, "sh"]).arg(file));
    format!(":{}:", String::from_utf8(printed).unwrap().trim())
}

/// Reads a response until the connection ends; returns its head and its content.
fn answer(mut stream: TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    (head, bytes.split_off(end + 4))
}

#[test]
fn clients_that_leave_or_never_read_do_not_exhaust_the_server() {
    if ["openssl", "zstd"].iter().any(|name| tool(name).is_none()) {
        return;
    }
    let site = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        fs::write(site.path().join(format!("{file}.txt")), content(file)).unwrap();
    }
    let hash = hash_of(&site.path().join("0.txt"));
    let mut server = Server::origin(
        site.path(),
        &[
            "--threads",
            "1",
            "--compress",
            "zstd:1",
            "--compress-memory",
            "1M",
            "--dictionary",
            "/0.txt,match=/*",
        ],
    );
    let zstd = "Accept-Encoding: zstd\r\n".to_owned();
    let dcz = format!("Accept-Encoding: dcz\r\nAvailable-Dictionary: {hash}\r\n");
    let fields = [&zstd, &dcz];
    // Files above 64 kB are compressed only after two seconds without a change.
    let is_coded = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let last = format!("{zstd}Connection: close\r\n");
        answer(asked(&server, "/0.txt", &last))
            .0
            .contains("Content-Encoding: zstd")
    });
    assert!(is_coded);
    let before = resident(&server);
    let path = |n: u32| format!("/{}.txt", n % FILES);
    let ask = |n: u32| asked(&server, &path(n), fields[(n % 2) as usize]);
    let mut never_read = Vec::new();
    for n in 0..CLIENTS {
        drop(ask(n));
        never_read.push(ask(n));
    }
    // Fields of tens of kilobytes, and names of dictionaries that do not exist.
    let long = "x;q=0.1, ".repeat(7000);
    for n in 0..CLIENTS {
        let fields = match n % 3 {
            0 => format!("Accept-Encoding: {long}\r\n"),
            1 => format!("Accept-Encoding: dcz\r\nAvailable-Dictionary: :{n:A>43}=:\r\n"),
            _ => format!("Accept-Encoding: dcz\r\nAvailable-Dictionary: {long}\r\n"),
        };
        let (head, _) = answer(asked(
            &server,
            &path(n),
            &format!("{fields}Connection: close\r\n"),
        ));
        let status = if n % 3 == 1 { " 200 " } else { " 431 " };
        assert!(head.contains(status), "{head}");
        assert!(!head.contains("dcz"), "{head}");
    }
    let growth = resident(&server).saturating_sub(before);
    assert!(
        growth < MOST_GROWTH,
        "memory grew from {before} kB by {growth} kB"
    );
    // After the other clients have left, a client gets compressed content again.
    drop(never_read);
    let last = format!("{zstd}Connection: close\r\n");
    let (head, coded) = answer(asked(&server, "/7.txt", &last));
    assert!(head.contains("Content-Encoding: zstd"), "{head}");
    let file = site.path().join("coded");
    fs::write(&file, coded).unwrap();
    assert!(run_well(Command::new("zstd").args(["-d", "-c"]).arg(&file)) == content(7));
    assert!(server.stop().unwrap().success());
}
