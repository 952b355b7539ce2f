//! The heads of requests, byte for byte, and the secrets in them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::support::{fathometer, load};
use crate::support::programs::FATHOMETER;

/// A server that answers every request with an empty response, and records the heads.
struct Heads {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Heads {
    fn start() -> Heads {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            // This thread ends with the test process.
            for stream in listener.incoming() {
                let (Ok(mut stream), kept) = (stream, Arc::clone(&kept)) else {
                    continue;
                };
                std::thread::spawn(move || {
                    let mut text = Vec::new();
                    let mut bytes = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut bytes) {
                        text.extend_from_slice(&bytes[..length]);
                        if text.ends_with(b"\r\n\r\n") {
                            let head = String::from_utf8(std::mem::take(&mut text)).unwrap();
                            kept.lock().unwrap().push(head);
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                            if stream.write_all(answer).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
        Heads { address, heads }
    }

    fn url(&self) -> String {
        format!("http://{}/x", self.address)
    }

    /// Returns the values of one field in each head.
    fn values(&self, name: &str) -> Vec<Vec<String>> {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        let of = |head: &String| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
                .collect()
        };
        heads.iter().map(of).collect()
    }
}

#[test]
fn a_given_host_replaces_that_of_the_url() {
    let server = Heads::start();
    let one = ["-n", "1", "-c", "1"];
    let ended = load(
        &server.url(),
        &[&one[..], &["-H", "host: other.example:81"]].concat(),
    );
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    assert_eq!(server.values("host"), [["other.example:81"]]);
    load(&server.url(), &one);
    assert_eq!(server.values("host"), [[server.address.to_string()]]);
    let two = ["-H", "Host: a", "-H", "Host: b"];
    let ended = load(&server.url(), &[&one[..], &two].concat());
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    // A field given by the user, even twice, replaces the program's own field.
    let agents = ["-H", "A: 1", "-H", "User-Agent: x", "-H", "User-Agent: y"];
    load(&server.url(), &[&one[..], &agents].concat());
    let heads = server.heads.lock().unwrap().clone();
    assert_eq!(heads.len(), 1);
    assert!(
        heads[0].contains("\r\nA: 1\r\n") && !heads[0].contains("fathometer"),
        "{heads:?}"
    );
}

#[test]
fn a_method_with_content_sends_a_length_of_zero_without_content() {
    let server = Heads::start();
    for (method, wanted) in [
        ("POST", &["0"][..]),
        ("PUT", &["0"]),
        ("PATCH", &["0"]),
        ("GET", &[]),
        ("DELETE", &[]),
    ] {
        let ended = load(&server.url(), &["-n", "2", "-c", "1", "-X", method]);
        assert!(matches!(ended.code, Some(0 | 3)), "{method}: {}", ended.err);
        assert_eq!(
            server.values("content-length"),
            [wanted, wanted],
            "{method}"
        );
    }
}

#[test]
fn secrets_are_sent_and_neither_shown_nor_saved() {
    let server = Heads::start();
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "it.json",
        "it.csv",
        "it.txt",
        "it.prom",
        "it.hlog",
        "it.timeline.csv",
        "it.parquet",
    ];
    for format in ["screen", "json", "csv", "prometheus"] {
        let mut command = Command::new(FATHOMETER);
        command
            .args([
                "load",
                &server.url(),
                "-n",
                "4",
                "-c",
                "1",
                "--format",
                format,
            ])
            .arg("--details")
            .args(["-H", "Authorization: Bearer s3cret", "-HCookie: id=s3cret"])
            .args([
                "--header=Proxy-Authorization: Basic s3cret",
                "-H",
                "Accept: text/x-told",
            ])
            .current_dir(folder.path());
        for name in names {
            command.args(["--save", name]);
        }
        let ended = fathometer(&command);
        assert!(matches!(ended.code, Some(0 | 3)), "{format}: {}", ended.err);
        assert!(!ended.out.contains("s3cret"), "{format}: {}", ended.out);
        assert!(!ended.err.contains("s3cret"), "{format}: {}", ended.err);
        assert_eq!(server.values("authorization"), vec![["Bearer s3cret"]; 4]);
    }
    for name in names {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("s3cret"), "{name}: {text}");
    }
    let saved = fs::read_to_string(folder.path().join("it.json")).unwrap();
    assert!(saved.contains("Authorization: [redacted]") && saved.contains("Accept: text/x-told"));
    let ended = load("http://me:s3cret@localhost/", &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(
        ended.err.contains("credentials") && !ended.err.contains("s3cret"),
        "{}",
        ended.err
    );
}
