//! `fathometer fetch` against `fathometer serve`: in cleartext, over TLS and over QUIC, with each file by
//! itself and with all files in packages and archives.
//!
//! The server is a child on loopback, at a port that the kernel chooses, and ends with its test.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::support::serving;

const FATHOMETER: &str = env!("CARGO_BIN_EXE_fathometer");

struct Server {
    child: Child,
    port: u16,
    // The pipe stays open, so that the server can print further lines.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Server {
        let mut child = Command::new(FATHOMETER)
            .arg("serve")
            .arg(folder)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let port = serving::address(&mut stdout).port();
        Server {
            child,
            port,
            _stdout: stdout,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file with an old modification time. A recently modified file first has a weak tag and later a strong one,
/// so a revalidation would fetch it again.
fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
    file.set_modified(modified).unwrap();
}

/// Writes a page of four files to a folder.
fn page(folder: &Path) {
    let html = "<link rel=stylesheet href=a.css><img src=b.gif><img src=c.gif>";
    write(&folder.join("index.html"), html);
    write(&folder.join("a.css"), "p { }".repeat(100));
    for name in ["b.gif", "c.gif"] {
        let image = [&b"GIF89a\x14\x00\x0a\x00"[..], &[7; 5000]].concat();
        write(&folder.join(name), image);
    }
}

fn fetch(arguments: &[&str]) -> Output {
    let output = Command::new(FATHOMETER)
        .arg("fetch")
        .args(arguments)
        .env_remove("SSLKEYLOGFILE")
        .output();
    output.unwrap()
}

fn fetched(arguments: &[&str]) -> Value {
    let output = fetch(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["complete"], true, "{arguments:?}");
    value
}

/// Returns how each file arrived (`bundled`, `singly` and so on) and its target, in order.
fn ways(value: &Value) -> Vec<(&str, &str)> {
    let files = value["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            (
                file["target"].as_str().unwrap(),
                file["by"].as_str().unwrap(),
            )
        })
        .collect()
}

const TARGETS: [&str; 4] = ["/index.html", "/a.css", "/b.gif", "/c.gif"];

fn all(way: &str) -> Vec<(&str, &str)> {
    TARGETS.map(|target| (target, way)).to_vec()
}

fn sorted<'v>(mut ways: Vec<(&'v str, &'v str)>) -> Vec<(&'v str, &'v str)> {
    ways.sort_by_key(|(target, _)| TARGETS.iter().position(|known| known == target));
    ways
}

/// Starts a server that answers every request of one connection with this response. Returns its port.
fn answering(response: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let _ = stream.write_all(response.as_bytes());
        }
    });
    port
}

#[test]
fn a_page_that_is_not_there_is_not_complete() {
    let error =
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let moved =
        "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    for (status, response) in [(404, missing), (500, error), (302, moved)] {
        let url = format!("http://127.0.0.1:{}/page.html", answering(response));
        let output = fetch(&[&url]);
        let (shown, said) = (output.stdout, output.stderr);
        let (shown, said) = (
            String::from_utf8_lossy(&shown),
            String::from_utf8_lossy(&said),
        );
        let line = format!("page complete     not reached: the server answered {status}");
        assert!(shown.contains(&line), "{shown}");
        assert!(
            said.contains(&format!("/page.html: the server answered {status}")),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
        let output = fetch(&[&url, "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&value["complete"], &value["elapsed_s"]),
            (&Value::Bool(false), &Value::Null)
        );
        assert_eq!(value["refused"][0]["status"], status);
    }
}

#[test]
fn a_page_without_some_of_its_files_is_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    fs::remove_file(folder.path().join("b.gif")).unwrap();
    let many: String = (0..5_000).map(|n| format!("<img src=c.gif?{n}>")).collect();
    write(&folder.path().join("many.html"), many);
    let server = Server::start(folder.path(), &[]);
    let incomplete = |arguments: &[&str]| {
        let output = fetch(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["complete"], false, "{arguments:?}");
        value
    };
    for policy in ["h1.1", "h2c"] {
        let url = format!("http://127.0.0.1:{}/index.html", server.port);
        let value = incomplete(&[&url, "--policy", policy]);
        let refused = serde_json::json!([{ "target": "/b.gif", "status": 404 }]);
        assert_eq!(value["refused"], refused, "{policy}");
    }
    let url = format!("http://127.0.0.1:{}/many.html", server.port);
    let value = incomplete(&[&url, "--policy", "h2c"]);
    let files = value["files"].as_array().unwrap().len() as u64;
    let left_out = value["references_left_out"].as_u64().unwrap();
    assert!(left_out > 0);
    assert_eq!(files + left_out, 5_001);
}

#[test]
fn pages_come_in_the_clear_over_tls_and_over_quic() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let roots = roots.path().to_str().unwrap();
    let clear = Server::start(folder.path(), &[]);
    let secure = Server::start(
        folder.path(),
        &["--tls", "--ca-out", roots, "--protocols", "h1,h2,h3"],
    );
    let plain = format!("http://127.0.0.1:{}/index.html", clear.port);
    for policy in ["h1.0", "h1.1x4", "h1.1-pipeline", "h2c"] {
        let value = fetched(&[&plain, "--policy", policy]);
        assert_eq!(sorted(ways(&value)), all("singly"), "{policy}");
        assert!(value["client_cpu_s"].as_f64().unwrap() > 0.0);
    }
    let url = format!("https://localhost:{}/index.html", secure.port);
    for (policy, spoken) in [
        ("h2", "h2"),
        ("h1.1", "http/1.1"),
        ("h1.1-pipeline-tls", "http/1.1"),
        ("h3", "h3"),
    ] {
        let arguments = [&url[..], "--policy", policy, "--cacert", roots];
        let value = fetched(&arguments);
        assert_eq!(sorted(ways(&value)), all("singly"), "{policy}");
        let connection = &value["connections"][0];
        assert_eq!(connection["protocol"], spoken, "{policy}");
        assert_eq!(connection["tls"]["resumed"], false, "{policy}");
        let again = fetched(&[&arguments[..], &["--visit", "revalidate"]].concat());
        assert_eq!(sorted(ways(&again)), all("current"), "{policy}");
        assert_eq!(again["connections"][0]["tls"]["resumed"], true, "{policy}");
        let shown = fetch(&arguments);
        let shown = String::from_utf8(shown.stdout).unwrap();
        for line in ["page complete", "4 singly", "TLS 1.3", "CPU time"] {
            assert!(shown.contains(line), "{policy}: {shown}");
        }
    }
    let default = fetched(&[&url, "--cacert", roots]);
    assert_eq!(default["policy"], "h2");
    // The server's certificate is not trusted.
    for policy in ["h2", "h3"] {
        let output = fetch(&[&url, "--policy", policy]);
        assert_eq!(output.status.code(), Some(1), "{policy}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("TLS failed"), "{policy}: {said}");
        // Over TCP no request was sent yet, and a client does not retry a server that it does not trust.
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let once = shown.contains("connections       1\n") && said.contains("failed to fetch");
        assert!(once || policy == "h3", "{policy}: {shown}{said}");
    }
}

#[test]
fn a_revisit_over_quic_sends_its_requests_as_early_data_if_the_server_accepts_it() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let roots = roots.path().to_str().unwrap();
    let spoken = ["--tls", "--ca-out", roots, "--http3"];
    for (arguments, taken) in [
        (&["--early-data"][..], Value::Bool(true)),
        (&[], Value::Null),
    ] {
        let server = Server::start(folder.path(), &[&spoken[..], arguments].concat());
        let url = format!("https://localhost:{}/index.html", server.port);
        let arguments = [&url[..], "--policy", "h3", "--cacert", roots];
        let again = ["--early-data", "--visit", "revalidate"];
        let value = fetched(&[&arguments[..], &again].concat());
        assert_eq!(sorted(ways(&value)), all("current"));
        let tls = &value["connections"][0]["tls"];
        assert_eq!(
            (&tls["resumed"], &tls["early_data"]),
            (&Value::Bool(true), &taken)
        );
        assert!(tls["cipher_suite"].as_str().unwrap().starts_with("TLS_"));
    }
}

#[test]
fn alternative_services_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let roots = roots.path().to_str().unwrap();
    let server = Server::start(folder.path(), &["--tls", "--ca-out", roots, "--http3"]);
    let url = format!("https://localhost:{}/index.html", server.port);
    let arguments = [&url[..], "--policy", "h3-alt-svc", "--cacert", roots];
    let value = fetched(&arguments);
    assert_eq!(value["connections"][0]["protocol"], "h2");
    assert_eq!(value["services"][0]["news"], "found");
    assert_eq!(value["services"][0]["port"], server.port);
    let again = ["--visit", "revalidate"];
    let value = fetched(&[&arguments[..], &again].concat());
    assert_eq!(value["connections"].as_array().unwrap().len(), 1);
    assert_eq!(value["connections"][0]["protocol"], "h3");
    assert_eq!(value["services"][0]["news"], "known");
    assert!(value["udp"]["send_calls"].as_u64().unwrap() > 0);
    let shown = fetch(&[&arguments[..], &again].concat());
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in ["known from before on port", "0 over h2, 4 over h3"] {
        assert!(shown.contains(line), "{shown}");
    }
    // With a server that advertises no service, the client stays with its protocol.
    let plain = Server::start(folder.path(), &["--tls", "--ca-out", roots]);
    let url = format!("https://localhost:{}/index.html", plain.port);
    let value = fetched(&[&url, "--policy", "h3-alt-svc", "--cacert", roots]);
    assert_eq!(value["services"].as_array().unwrap().len(), 0);
    assert_eq!(value["connections"][0]["protocol"], "h2");
}

#[test]
fn a_page_is_retrieved_as_a_package_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let roots = roots.path().to_str().unwrap();
    let packages = ["--packages", "on-the-fly"];
    let clear = Server::start(folder.path(), &packages);
    let secure = Server::start(
        folder.path(),
        &[
            &packages[..],
            &["--tls", "--ca-out", roots, "--protocols", "h1,h2,h3"],
        ]
        .concat(),
    );
    let plain = format!("http://127.0.0.1:{}/", clear.port);
    let protected = format!("https://localhost:{}/", secure.port);
    for (carrier, url) in [
        ("h1.0", &plain),
        ("h1.1", &plain),
        ("h2c", &plain),
        ("h1.1", &protected),
        ("h2", &protected),
        ("h3", &protected),
    ] {
        for bundle in [
            "package",
            "package-v1",
            "package-delta",
            "tar",
            "tar-whole",
            "zip",
        ] {
            let policy = format!("{carrier}-{bundle}");
            let mut arguments = vec![&url[..], "--policy", &policy];
            if url == &protected {
                arguments.extend(["--cacert", roots]);
            }
            let value = fetched(&arguments);
            assert_eq!(value["bundle"]["answer"], "whole", "{policy}");
            assert_eq!(value["exchanges"].as_array().unwrap().len(), 1, "{policy}");
            let files = ways(&value);
            assert_eq!(files.len(), 4, "{policy}");
            assert!(files.iter().all(|(_, way)| *way == "bundled"), "{policy}");
            assert_eq!(files[0].0, "/", "{policy}");
            arguments.extend(["--visit", "revalidate"]);
            let again = fetched(&arguments);
            let files = ways(&again);
            assert!(
                files.iter().all(|(_, way)| *way == "current"),
                "{policy}: {files:?}"
            );
            assert_eq!(files.len(), 4, "{policy}");
        }
    }
    let output = fetch(&[&plain, "--policy", "package"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("4 files in one response"), "{shown}");
    assert!(shown.contains("usable            first "), "{shown}");
}

#[test]
fn a_list_of_files_is_fetched_by_any_policy() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("set")).unwrap();
    let mut list = String::from("# ten files\n\n");
    for n in 0..10 {
        write(&folder.path().join(format!("set/{n}.bin")), vec![n; 2000]);
        list.push_str(&format!("/set/{n}.bin\n"));
    }
    let names = tempfile::NamedTempFile::new().unwrap();
    fs::write(names.path(), list).unwrap();
    let names = names.path().to_str().unwrap();
    let server = Server::start(
        folder.path(),
        &["--packages", "on-the-fly", "--package-folders"],
    );
    let url = format!("http://127.0.0.1:{}/set/", server.port);
    for (policy, exchanges, way) in [
        ("h1.0x4", 10, "singly"),
        ("h1.1-pipeline", 10, "singly"),
        ("h2c", 10, "singly"),
        ("package", 1, "bundled"),
        ("h2c-tar", 1, "bundled"),
        ("h1.0-zip", 1, "bundled"),
    ] {
        let value = fetched(&[&url, "--list", names, "--policy", policy]);
        let files = ways(&value);
        assert_eq!(files.len(), 10, "{policy}");
        assert!(
            files.iter().all(|(_, by)| *by == way),
            "{policy}: {files:?}"
        );
        let asked = value["exchanges"].as_array().unwrap();
        assert_eq!(asked.len(), exchanges, "{policy}");
    }
    let bad = tempfile::NamedTempFile::new().unwrap();
    fs::write(bad.path(), "set/1.bin\n").unwrap();
    let output = fetch(&[&url, "--list", bad.path().to_str().unwrap()]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is not a request target"), "{said}");
}

#[test]
fn a_file_of_unknown_size_comes_with_the_package() {
    let folder = tempfile::tempdir().unwrap();
    page(folder.path());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let roots = roots.path().to_str().unwrap();
    let arguments = [
        "--packages",
        "on-the-fly",
        "--dynamic",
        "/b.gif,parts=3,size=4k,every=20ms,type=image/gif",
        "--dynamic",
        "/c.gif,parts=3,every=20ms",
    ];
    let clear = Server::start(folder.path(), &arguments);
    let tls = ["--tls", "--ca-out", roots, "--protocols", "h1,h2,h3"];
    let secure = Server::start(folder.path(), &[&arguments[..], &tls].concat());
    let plain = format!("http://127.0.0.1:{}/", clear.port);
    let protected = format!("https://localhost:{}/", secure.port);
    for (carrier, url) in [
        ("h1.0", &plain),
        ("h1.1", &plain),
        ("h2c", &plain),
        ("h2", &protected),
        ("h3", &protected),
    ] {
        for bundled in [true, false] {
            let policy = match bundled {
                true => format!("{carrier}-package"),
                false => carrier.to_owned(),
            };
            let mut arguments = vec![&url[..], "--policy", &policy];
            if url == &protected {
                arguments.extend(["--cacert", roots]);
            }
            let value = fetched(&arguments);
            let files = ways(&value);
            let way = if bundled { "bundled" } else { "singly" };
            assert_eq!(files.len(), 4, "{policy}");
            assert!(
                files.iter().all(|file| file.1 == way),
                "{policy}: {files:?}"
            );
            let bytes = |target: &str| {
                let files = value["files"].as_array().unwrap();
                let file = files.iter().find(|file| file["target"] == target);
                file.unwrap()["bytes"].as_u64()
            };
            assert_eq!(bytes("/b.gif"), Some(3 * 4096), "{policy}");
            assert_eq!(bytes("/c.gif"), Some(5010), "{policy}");
            if bundled {
                assert_eq!(value["exchanges"].as_array().unwrap().len(), 1, "{policy}");
                let behind = files[2..].iter().map(|file| file.0);
                assert!(behind.eq(["/b.gif", "/c.gif"]), "{policy}: {files:?}");
            }
        }
    }
}

/// The server sends without end, faster than the client reads.
#[test]
fn a_server_that_sends_without_a_pause_does_not_outlive_the_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        let chunks = b"1\r\nx\r\n".repeat(200_000);
        // Sends until the client closes the connection.
        while stream.write_all(&chunks).is_ok() {}
    });
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", FATHOMETER, "fetch", "--timeout", "1"])
        .args(["--policy", "h1.1", &url])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    sender.join().unwrap();
}
