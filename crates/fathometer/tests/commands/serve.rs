//! `fathometer serve` as a program: its effects on clients, its operator and its log.
//!
//! Servers are children on loopback, at ports that the kernel chooses, and end with their test.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::serving;
use crate::support::waiting::wait_until;

/// A server that is killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
        command.arg("serve").arg(folder).args(arguments);
        Server::spawn(command)
    }

    /// Starts a server with a limit on descriptors.
    fn limited(folder: &Path, descriptors: u32, arguments: &[&str]) -> Server {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -n \"$1\"; shift; exec \"$@\"", "sh"])
            .arg(descriptors.to_string())
            .args([env!("CARGO_BIN_EXE_fathometer"), "serve"])
            .arg(folder)
            .args(arguments);
        Server::spawn(command)
    }

    fn spawn(mut command: Command) -> Server {
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = serving::address(&mut stdout);
        let stderr = child.stderr.take();
        Server {
            child,
            address,
            stdout,
            stderr,
        }
    }

    fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    fn get(&self, path: &str) -> Response {
        self.connect().get(path)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the server's exit; returns the exit status and stderr.
    fn wait(&mut self) -> (ExitStatus, String) {
        let until = Instant::now() + Duration::from_secs(240);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the server does not exit");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        (status, said)
    }

    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        let (status, said) = self.wait();
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }

    /// Reads the server's resident memory, in bytes.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kibibytes: u64 = line
            .and_then(|line| line.split_whitespace().nth(1))
            .and_then(|number| number.parse().ok())
            .unwrap();
        kibibytes * 1024
    }

    /// Reads the server's CPU time, in ticks.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a server.
struct Client {
    stream: BufReader<TcpStream>,
}

/// A response that was read completely.
struct Response {
    status: u16,
    head: String,
    content: Vec<u8>,
}

impl Client {
    fn new(stream: TcpStream) -> Client {
        stream
            .set_read_timeout(Some(Duration::from_secs(240)))
            .unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }

    fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self, path: &str, fields: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    }

    fn get(&mut self, path: &str) -> Response {
        self.ask(path, "");
        self.response()
    }

    fn head(&mut self) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.stream.read_line(&mut head).unwrap() > 0, "{head:?}");
        }
        Response {
            status: head[9..12].parse().unwrap(),
            head,
            content: Vec::new(),
        }
    }

    fn response(&mut self) -> Response {
        let mut response = self.head();
        if !matches!(response.status, 204 | 304) {
            let length = response.field("content-length").unwrap().parse().unwrap();
            response.content = vec![0; length];
            self.stream.read_exact(&mut response.content).unwrap();
        }
        response
    }

    /// Reads until the connection ends; a reset counts as an end too.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut piece = [0; 65_536];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return rest,
                Ok(length) => rest.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Response {
    fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// Returns bytes that depend on their position.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64)
        .flat_map(|n| {
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes()
                .into_iter()
                .take(1)
        })
        .collect()
}

#[test]
fn changes_of_the_folder_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.get("/a%20b.txt").status, 404);
    let file = folder.path().join("a b.txt");
    fs::write(&file, "first").unwrap();
    let mut client = server.connect();
    let first = client.get("/a%20b.txt");
    assert_eq!((first.status, &first.content[..]), (200, &b"first"[..]));
    assert_eq!(first.field("content-type"), Some("text/plain"));
    let tag = first.field("etag").unwrap().to_owned();
    client.ask("/a%20b.txt", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!(client.response().status, 304);
    fs::write(&file, "second").unwrap();
    let until = Instant::now() + Duration::from_secs(240);
    while client.get("/a%20b.txt").content != b"second" {
        assert!(Instant::now() < until, "the change is not detected");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(&file).unwrap();
    while client.get("/a%20b.txt").status != 404 {
        assert!(Instant::now() < until, "the removal is not detected");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/index.html"), "index").unwrap();
    let moved = client.get("/sub");
    assert_eq!(
        (moved.status, moved.field("location")),
        (301, Some("/sub/"))
    );
    assert_eq!(client.get("/sub/").content, b"index");
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    assert_eq!(client.get("/out").status, 404);
    server.end();
}

#[test]
fn large_files_arrive_as_they_are_whole_and_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let content = bytes(5_000_011);
    fs::write(folder.path().join("big"), &content).unwrap();
    fs::write(folder.path().join("small"), "small").unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = server.connect();
    // Pipelined, so that heads, files and data from memory alternate.
    for _ in 0..3 {
        client.ask("/big", "");
        client.ask("/small", "");
        client.ask("/big", "Range: bytes=4999000-\r\n");
        client.ask("/big", "Range: bytes=0-9,1000000-1000099,-1\r\n");
        client.send("HEAD /big HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for _ in 0..3 {
        assert!(client.response().content == content);
        assert_eq!(client.response().content, b"small");
        let part = client.response();
        assert_eq!(part.status, 206);
        assert!(part.content == content[4_999_000..]);
        let parts = client.response();
        assert_eq!(parts.status, 206);
        for range in [0..10, 1_000_000..1_000_100, 5_000_010..5_000_011] {
            let wanted = [b"\r\n\r\n", &content[range], b"\r\n--"].concat();
            assert!(parts.content.windows(wanted.len()).any(|at| at == wanted));
        }
        assert_eq!(client.head().field("content-length"), Some("5000011"));
    }
    drop(client);
    server.end();
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big");
    // More bytes than any socket buffer has room for.
    let length = 64 << 20;
    fs::File::create(&file).unwrap().set_len(length).unwrap();
    let log = folder.path().join("log");
    let server = Server::start(
        folder.path(),
        &["--log", log.to_str().unwrap(), "--threads", "1"],
    );
    let mut client = server.connect();
    client.ask("/big", "");
    client.ask("/big", "");
    let head = client.head();
    assert_eq!(head.field("content-length"), Some("67108864"));
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(100)
        .unwrap();
    let rest = client.rest();
    assert!(
        (rest.len() as u64) < length,
        "the response was sent completely"
    );
    assert!(rest.iter().all(|&byte| byte == 0), "another head follows");
    assert_eq!(server.get("/big").content.len(), 100);
    server.end();
    // The log contains the truncated response, with the number of bytes sent.
    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    let sent: u64 = lines[0].rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(sent < length && sent >= rest.len() as u64, "{log}");
    assert!(lines[1].ends_with(" 200 100"), "{log}");
}

#[test]
fn a_download_in_flight_is_completed_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let length = 64 << 20;
    let file = fs::File::create(folder.path().join("big")).unwrap();
    file.set_len(length).unwrap();
    fs::write(folder.path().join("small"), "small").unwrap();
    // With one loop, the shutdown starts for all connections at the same time.
    let arguments = ["--drain", "10m", "--threads", "1"];
    let mut server = Server::start(folder.path(), &arguments);
    let mut idle = server.connect();
    idle.get("/small");
    let mut begun = server.connect();
    begun.send("GET /small HTTP/1.1\r\nHost:");
    // The earlier request was sent before this exchange, so the server has certainly accepted and read that
    // connection.
    let mut slow = server.connect();
    slow.ask("/big", "");
    let head = slow.head();
    assert_eq!(head.field("connection"), None);
    server.signal(Signal::TERM);
    assert!(idle.rest().is_empty());
    begun.send(" h\r\n\r\n");
    let last = begun.response();
    assert_eq!(
        (last.status, last.field("connection")),
        (200, Some("close"))
    );
    assert!(begun.rest().is_empty());
    assert!(TcpStream::connect(server.address).is_err());
    assert_eq!(slow.rest().len() as u64, length);
    let (status, said) = server.wait();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("3 responses"), "{said}");
    assert!(!said.contains("reset"), "{said}");
}

#[test]
fn a_client_that_does_not_read_delays_shutdown_only_until_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("big")).unwrap();
    file.set_len(64 << 20).unwrap();
    let mut server = Server::start(folder.path(), &["--drain", "100ms"]);
    let mut slow = server.connect();
    slow.ask("/big", "");
    slow.head();
    server.signal(Signal::INT);
    let (status, said) = server.wait();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(
        said.contains("1 connections did not close in time"),
        "{said}"
    );
    assert!(slow.rest().len() < 64 << 20);
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("big")).unwrap();
    file.set_len(64 << 20).unwrap();
    let mut server = Server::start(folder.path(), &["--drain", "1h"]);
    let mut slow = server.connect();
    slow.ask("/big", "");
    slow.head();
    let idle = server.connect();
    server.signal(Signal::TERM);
    // The server has handled the first signal once it has closed the idle connection.
    assert!(Client::new(idle.stream.into_inner()).rest().is_empty());
    assert!(server.child.try_wait().unwrap().is_none());
    // Signals within the grace period count as one.
    std::thread::sleep(fathometer_sys::signal::GRACE + Duration::from_millis(50));
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(143));
}

#[test]
fn the_log_has_a_line_for_every_response_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..10 {
        fs::write(folder.path().join(format!("f{n}")), bytes(n * 20_000)).unwrap();
    }
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap();
    let arguments = ["--log", path, "--log-format", "combined", "--threads", "2"];
    let server = Server::start(folder.path(), &arguments);
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut expect = |line: String| *expected.entry(line).or_default() += 1;
    for connection in 0..8 {
        let mut client = server.connect();
        for n in 0..10 {
            let number = (connection * n) % 10;
            client.ask(&format!("/f{number}?q={n}"), "User-Agent: test\r\n");
            expect(format!(
                "\"GET /f{number}?q={n} HTTP/1.1\" 200 {} \"-\" \"test\"",
                number * 20_000
            ));
        }
        for _ in 0..10 {
            assert_eq!(client.response().status, 200);
        }
        client.ask("/none", "Referer: \"x\\\r\n");
        assert_eq!(client.response().status, 404);
        expect("\"GET /none HTTP/1.1\" 404 14 \"\\x22x\\x5C\" \"-\"".to_owned());
        client.send("HEAD /f1 HTTP/1.1\r\nHost: h\r\n\r\n");
        client.head();
        expect("\"HEAD /f1 HTTP/1.1\" 200 0 \"-\" \"-\"".to_owned());
        client.ask("/f1", "Range: bytes=5-9\r\n");
        client.response();
        expect("\"GET /f1 HTTP/1.1\" 206 5 \"-\" \"-\"".to_owned());
        client.send("GET /\"\x07 HTTP/1.1\r\n\r\n");
        assert_eq!(client.response().status, 400);
        expect("\"GET /\\x22\\x07 HTTP/1.1\" 400 16 \"-\" \"-\"".to_owned());
    }
    let said = server.end();
    assert!(said.contains("112 responses"), "{said}");
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in fs::read_to_string(log.path()).unwrap().lines() {
        let (start, rest) = line.split_once("] ").unwrap();
        assert!(start.starts_with("127.0.0.1 - - ["), "{line}");
        *found.entry(rest.to_owned()).or_default() += 1;
    }
    assert_eq!(found, expected);
}

#[test]
fn the_log_may_go_to_standard_output_and_is_written_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let mut server = Server::start(folder.path(), &["--log", "-"]);
    server.get("/a");
    // The line is written without further requests.
    let mut line = String::new();
    server.stdout.read_line(&mut line).unwrap();
    assert!(line.ends_with("\"GET /a HTTP/1.1\" 200 1\n"), "{line}");
    server.end();
}

#[test]
fn a_log_and_a_stderr_that_cannot_be_written_lose_no_response() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for stderr in [Stdio::from(full.unwrap()), Stdio::from(closed)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fathometer"))
            .arg("serve")
            .arg(folder.path())
            .args(["--log", "/dev/full", "--threads", "1"])
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = serving::address(&mut stdout);
        let mut server = Server {
            child,
            address,
            stdout,
            stderr: None,
        };
        let mut client = server.connect();
        // More lines than a buffer has room for, so that writing them fails while responses are being sent.
        for _ in 0..25 {
            for _ in 0..100 {
                client.ask("/a", "");
            }
            for _ in 0..100 {
                assert_eq!(client.response().content, b"a");
            }
        }
        assert_eq!(server.get("/a").status, 200);
        server.signal(Signal::TERM);
        assert_eq!(server.wait().0.code(), Some(0));
    }
}

#[test]
fn a_renamed_log_is_reopened_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let (log, moved) = (logs.join("log"), logs.join("log.1"));
    let mut server = Server::start(folder.path(), &["--log", log.to_str().unwrap()]);
    let has = |log: &Path, path: &str| {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines()
            .any(|line| line.contains(&format!("GET {path} ")))
    };
    assert_eq!(server.get("/a?1").status, 200);
    wait_until("the line is written", || has(&log, "/a?1"));
    fs::rename(&log, &moved).unwrap();
    // Until the signal, the server keeps writing to the renamed file.
    assert_eq!(server.get("/a?2").status, 200);
    wait_until("the line is written", || has(&moved, "/a?2"));
    assert!(!log.exists());
    server.signal(Signal::HUP);
    wait_until("the log is reopened", || log.exists());
    assert_eq!(server.get("/a?3").status, 200);
    wait_until("the line is written", || has(&log, "/a?3"));
    // If the log cannot be opened, the server still writes to the old file.
    let gone = folder.path().join("gone");
    fs::rename(&logs, &gone).unwrap();
    server.signal(Signal::HUP);
    let mut said = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("failed to reopen the log") {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "no message on stderr"
        );
    }
    assert_eq!(server.get("/a?4").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    let lines = |name: &str| fs::read_to_string(gone.join(name)).unwrap().lines().count();
    assert_eq!((lines("log.1"), lines("log")), (2, 2));
    assert!(has(&gone.join("log"), "/a?4"));
}

#[test]
fn a_server_without_a_file_for_its_log_ends_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["--log", "-"]] {
        let mut server = Server::start(folder.path(), arguments);
        server.signal(Signal::HUP);
        assert_eq!(server.wait().0.code(), Some(0));
    }
}

#[test]
fn more_connections_than_descriptors_wait_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..40 {
        fs::write(folder.path().join(format!("big{n}")), vec![7; 70_000]).unwrap();
    }
    let server = Server::limited(folder.path(), 64, &["--threads", "1"]);
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("/big{}", n % 40), "Connection: close\r\n");
    }
    let before = server.ticks();
    // Each client gets a response after the earlier connections have closed.
    for client in clients {
        let mut client = client;
        let response = client.response();
        assert_eq!(response.status, 200);
        assert_eq!(response.content.len(), 70_000);
        assert!(client.rest().is_empty());
    }
    // Waiting took less than two seconds of CPU time.
    assert!(server.ticks() - before < 200);
    let said = server.end();
    assert!(said.contains("new connections wait"), "{said}");
    assert!(said.contains("200 responses"), "{said}");
}

#[test]
fn memory_is_freed_after_a_burst_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "hello").unwrap();
    let server = Server::start(folder.path(), &["--threads", "1"]);
    server.get("/a");
    let before = server.memory();
    // Incomplete heads, nearly as large as the server stores.
    let head = format!(
        "GET /a HTTP/1.1\r\nHost: h\r\nX: {}\r\n",
        "x".repeat(15_000)
    );
    let mut crowd: Vec<Client> = (0..900)
        .map(|_| {
            let mut client = server.connect();
            client.send(&head);
            client
        })
        .collect();
    let kept = wait_for(|| Some(server.memory()).filter(|now| now - before > 10_000_000));
    // The connections close in another order than they were opened.
    let mut place = 0;
    while !crowd.is_empty() {
        place = (place + 389) % crowd.len();
        crowd.swap_remove(place);
    }
    wait_for(|| (server.memory() < before + (kept - before) / 2).then_some(()));
    assert_eq!(server.get("/a").content, b"hello");
}

/// Polls until `ask` returns a value, for up to a minute.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("a minute has passed");
}

#[test]
fn slow_uploads_do_not_block_other_clients() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "hello").unwrap();
    let server = Server::limited(folder.path(), 64, &["--threads", "1"]);
    let begun = std::time::Instant::now();
    let mut slow: Vec<Client> = (0..100)
        .map(|n| {
            let mut client = server.connect();
            let path = if n % 2 == 0 { "a" } else { "nowhere" };
            client.send(&format!(
                "POST /{path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"
            ));
            client
        })
        .collect();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                for client in &mut slow {
                    // Fails if the server has closed the connection.
                    let _ = client.stream.get_mut().write_all(b"x");
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        for _ in 0..5 {
            assert_eq!(server.get("/a").content, b"hello");
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // The server must close connections to make room: the content of each slow request would take days.
    assert!(begun.elapsed() < Duration::from_secs(60));
    let said = server.end();
    assert!(said.contains("closed to make room"), "{said}");
}

#[test]
fn ten_thousand_idle_connections_are_cheap() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    // Both ends of each connection are on this machine; the limit of this process applies to the client's ends.
    let (_, most) = fathometer_sys::machine::open_files();
    let count = usize::try_from(most).unwrap_or(usize::MAX).min(10_500) - 500;
    fathometer_sys::machine::raise_open_files();
    let server = Server::start(folder.path(), &["--threads", "1"]);
    server.get("/a");
    let before = server.memory();
    let mut clients: Vec<Client> = Vec::with_capacity(count);
    for _ in 0..count {
        let stream = TcpStream::connect(server.address).unwrap();
        clients.push(Client {
            stream: BufReader::with_capacity(512, stream),
        });
    }
    for client in &mut clients {
        assert_eq!(client.get("/a").content, b"a");
    }
    let each = (server.memory() - before) / count as u64;
    eprintln!("{each} bytes of the server's memory for each of {count} idle connections");
    assert!(each < 6 * 1024, "{each} bytes a connection");
    let ticks = server.ticks();
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.ticks() - ticks < 50, "idle connections use CPU time");
    for client in clients.iter_mut().step_by(97) {
        assert_eq!(client.get("/a").content, b"a");
    }
    server.end();
}

#[test]
fn a_port_is_not_shared_with_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--threads", "2"]);
    for threads in ["1", "2"] {
        let output = Command::new(env!("CARGO_BIN_EXE_fathometer"))
            .arg("serve")
            .arg(folder.path())
            .args([
                "--threads",
                threads,
                "--listen",
                &server.address.to_string(),
            ])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("already in use"), "{said}");
    }
    server.end();
}

#[test]
fn an_idle_connection_is_closed_after_its_time_and_clients_are_told_of_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let server = Server::start(
        folder.path(),
        &["--keep-alive", "1500ms", "--max-requests", "3"],
    );
    let asks = "Connection: keep-alive\r\n";
    let mut client = server.connect();
    client.ask("/a", asks);
    let response = client.response();
    assert_eq!(response.field("connection"), Some("Keep-Alive"));
    assert_eq!(response.field("keep-alive"), Some("timeout=1, max=2"));
    // A client that does not request keep-alive gets no keep-alive fields, and its connection stays open equally long.
    // The time is measured from before the request, because a delayed client may read the response late.
    let asked = Instant::now();
    let second = client.get("/a");
    assert_eq!(
        (second.field("connection"), second.field("keep-alive")),
        (None, None)
    );
    assert_eq!(client.rest(), b"");
    assert!(asked.elapsed() >= Duration::from_millis(1400));
    let mut client = server.connect();
    for left in [2, 1] {
        client.ask("/a", asks);
        let expected = format!("timeout=1, max={left}");
        assert_eq!(client.response().field("keep-alive"), Some(&*expected));
    }
    client.ask("/a", asks);
    let last = client.response();
    assert_eq!(
        (last.field("connection"), last.field("keep-alive")),
        (Some("close"), None)
    );
    assert_eq!(client.rest(), b"");
    server.end();
}
