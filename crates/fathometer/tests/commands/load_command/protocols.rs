//! HTTP/2 and TLS against third-party servers and against our own. Our counts must equal the server's log, and the
//! program must report protocols that are not available.

#![expect(
    clippy::disallowed_methods,
    reason = "the generated certificates need the current time"
)]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathometer_analysis::load::Summary;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use tempfile::TempDir;

use super::support::{Ended, load};
use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, tool};
use crate::support::waiting::wait_until;

pub const SIZE: usize = 1024;

/// A folder with a file, a certificate for localhost, its key, and the authority to trust. Other users may read the
/// folder, because servers drop their privileges.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(path.join("site")).unwrap();
        fs::write(path.join("site/1k.html"), vec![b'0'; SIZE]).unwrap();
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        let day = Duration::from_secs(86_400);
        let authority = Authority::new(Lifetime::around(now, day)).unwrap();
        let identity = authority
            .issue(&Issue::new(["localhost", "127.0.0.1"]))
            .unwrap();
        fs::write(path.join("trusted.pem"), authority.pem()).unwrap();
        fs::write(path.join("chain.pem"), identity.chain_pem()).unwrap();
        fs::write(path.join("key.pem"), identity.key_pem()).unwrap();
        Place { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A server that ends with its test.
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub fn start(command: &mut Command, address: SocketAddr) -> Server {
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut server = Server { child, address };
        wait_until("the server listens", || {
            assert_eq!(server.child.try_wait().unwrap(), None, "it ended");
            TcpStream::connect(address).is_ok()
        });
        server
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/1k.html", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts nghttpd, over TLS or in cleartext; its log has one line for each request.
fn nghttpd(place: &Place, tls: bool) -> Option<Server> {
    let program = tool("nghttpd")?;
    let address = free_address();
    let log = fs::File::create(place.path("log")).unwrap();
    let mut command = Command::new(program);
    command
        .args([
            "--verbose",
            "--htdocs",
            &place.name("site"),
            "--address",
            "127.0.0.1",
        ])
        .stdout(log)
        .stderr(Stdio::null());
    match tls {
        true => command.args([
            &address.port().to_string(),
            &place.name("key.pem"),
            &place.name("chain.pem"),
        ]),
        false => command.args(["--no-tls", &address.port().to_string()]),
    };
    Some(Server::start(&mut command, address))
}

fn nginx(place: &Place, tls: bool) -> Option<Server> {
    let program = tool("nginx")?;
    let address = free_address();
    let own = place.name("own");
    fs::create_dir(&own).unwrap();
    let listen = match tls {
        true => format!(
            "listen {address} ssl http2; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {}; ssl_certificate_key {};",
            place.name("chain.pem"),
            place.name("key.pem")
        ),
        false => format!("listen {address} http2;"),
    };
    let configuration = format!(
        "daemon off; master_process off; pid {own}/pid; error_log {own}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log {log}; keepalive_requests 1000000; types {{ text/html html; }}\n\
         client_body_temp_path {own}/a; proxy_temp_path {own}/b; fastcgi_temp_path {own}/c;\n\
         uwsgi_temp_path {own}/d; scgi_temp_path {own}/e;\n\
         server {{ {listen} root {site}; }} }}\n",
        log = place.name("log"),
        site = place.name("site")
    );
    fs::write(place.path("nginx.conf"), configuration).unwrap();
    let mut command = Command::new(program);
    command
        .args(["-c", &place.name("nginx.conf"), "-p", &own])
        .args(["-e", &format!("{own}/start.log")]);
    Some(Server::start(&mut command, address))
}

fn h2o(place: &Place, tls: bool) -> Option<Server> {
    let program = tool("h2o")?;
    let address = free_address();
    let ssl = match tls {
        true => format!(
            "  ssl:\n    certificate-file: {}\n    key-file: {}\n",
            place.name("chain.pem"),
            place.name("key.pem")
        ),
        false => String::new(),
    };
    let configuration = format!(
        "listen:\n  host: 127.0.0.1\n  port: {}\n{ssl}\
         access-log: {}\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: {}\n\
         num-threads: 1\nuser: root\n",
        address.port(),
        place.name("log"),
        place.name("site"),
    );
    fs::write(place.path("h2o.conf"), configuration).unwrap();
    let mut command = Command::new(program);
    command
        .args(["-c", &place.name("h2o.conf")])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Some(Server::start(&mut command, address))
}

/// Starts our own server; over TLS it also accepts early data.
fn ours(place: &Place, tls: bool) -> Option<Server> {
    let address = free_address();
    let mut command = Command::new(FATHOMETER);
    command
        .args(["serve", &place.name("site"), "--threads", "1"])
        .args([
            "--listen",
            &address.to_string(),
            "--log",
            &place.name("log"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if tls {
        command
            .args(["--certificate", &place.name("chain.pem")])
            .args(["--key", &place.name("key.pem"), "--early-data"]);
    }
    Some(Server::start(&mut command, address))
}

/// Waits until the log has [`ASKED`] lines with these words, and a moment for further lines. Returns the number of
/// lines.
pub fn logged(log: &Path, words: &str) -> u64 {
    let count = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().filter(|line| line.contains(words)).count() as u64
    };
    // A server may buffer its log.
    wait_until("the log is written", || count() >= ASKED);
    std::thread::sleep(Duration::from_millis(200));
    count()
}

const ASKED: u64 = 2000;

fn fetch(url: &str, arguments: &[&str]) -> Summary {
    let count = ASKED.to_string();
    let mut all = vec!["-n", &count, "-c", "4", "-m", "8", "--json"];
    all.extend_from_slice(arguments);
    let ended = load(url, &all);
    let summary = ended.ended_with(0);
    let counts = &summary.measured.counts;
    assert_eq!((counts.planned, counts.completed), (ASKED, ASKED), "{url}");
    assert_eq!(counts.statuses["200"], ASKED);
    assert_eq!(counts.connected, 4);
    assert_eq!(summary.measured.bytes.content_bytes, ASKED * SIZE as u64);
    let http2 = summary.measured.http2.as_ref().unwrap();
    assert_eq!(http2.received["headers"].frames, ASKED);
    assert_eq!(http2.sent["headers"].frames, ASKED);
    assert_eq!(http2.most_streams, 8);
    // Most fields of a head repeat the fields of the previous head.
    let savings = summary.measured.bytes.response_savings_share.unwrap();
    assert!(savings > 0.3, "{savings}");
    summary
}

fn over_tls_and_in_the_clear(start: fn(&Place, bool) -> Option<Server>, words: &str) {
    let place = Place::new();
    let trusted = place.name("trusted.pem");
    let Some(server) = start(&place, true) else {
        return;
    };
    let summary = fetch(&server.url("https"), &["--cacert", &trusted]);
    assert_eq!(summary.setup.policy, "h2-streams8");
    let tls = summary.measured.tls.as_ref().unwrap();
    assert_eq!((tls.full + tls.resumed, tls.early_data), (4, 0));
    assert!(
        tls.agreed.keys().all(|agreed| agreed.ends_with(", h2")),
        "{tls:?}"
    );
    assert_eq!(summary.measured.phases.tls.unwrap().count, 4);
    assert_eq!(logged(&place.path("log"), words), ASKED);
    drop(server);

    let place = Place::new();
    let server = start(&place, false).unwrap();
    let summary = fetch(&server.url("http"), &["--policy", "h2c"]);
    assert_eq!(summary.measured.tls, None);
    assert_eq!(logged(&place.path("log"), words), ASKED);
}

#[test]
fn nghttpd_saw_what_was_counted() {
    over_tls_and_in_the_clear(nghttpd, ":path: /1k.html");
}

#[test]
fn nginx_saw_what_was_counted() {
    over_tls_and_in_the_clear(nginx, "\"GET /1k.html HTTP/2.0\" 200");
}

#[test]
fn h2o_saw_what_was_counted() {
    over_tls_and_in_the_clear(h2o, "\"GET /1k.html HTTP/2\" 200");
}

#[test]
fn our_origin_saw_what_was_counted() {
    over_tls_and_in_the_clear(ours, "\"GET /1k.html HTTP/2");
}

#[test]
fn early_data_saves_its_round_trip_where_the_server_takes_it() {
    for (start, takes) in [
        (ours as fn(&Place, bool) -> Option<Server>, true),
        (nginx, false),
    ] {
        let place = Place::new();
        let Some(server) = start(&place, true) else {
            continue;
        };
        let mut arguments = vec!["-n", "30", "-c", "1", "--json", "--early-data", "-k"];
        arguments.extend(["--policy", "h2-early-close"]);
        let summary = load(&server.url("https"), &arguments).ended_with(0);
        assert_eq!(summary.measured.counts.completed, 30);
        assert_eq!(summary.measured.counts.statuses["200"], 30);
        let tls = summary.measured.tls.unwrap();
        // If a server answers at once, a client may close the connection before the next tickets arrive.
        assert_eq!(tls.full + tls.resumed, 30);
        assert!(tls.resumed >= 15, "{} resumed", tls.resumed);
        let taken = if takes { tls.resumed } else { 0 };
        assert_eq!((tls.early_data, tls.early_data_refused), (taken, 0));
    }
}

#[test]
fn sessions_are_resumed_unless_resumption_is_off() {
    let place = Place::new();
    let Some(server) = nginx(&place, true) else {
        return;
    };
    let trusted = place.name("trusted.pem");
    for (policy, version, resumes) in [
        ("h1.0-tls", "1.3", true),
        ("h1.0-tls", "1.2", true),
        ("h2-early-close", "1.3", true),
        ("h1.1x6-tls", "1.3", false),
    ] {
        let mut arguments = vec!["-n", "40", "-c", "1", "--json", "--policy", policy];
        arguments.extend(["--cacert", &trusted, "--tls-version", version]);
        if policy == "h1.1x6-tls" {
            arguments.extend(["--max-requests-per-connection", "1", "--no-resume"]);
        }
        let summary = load(&server.url("https"), &arguments).ended_with(0);
        assert_eq!(summary.measured.counts.completed, 40, "{policy}");
        let tls = summary.measured.tls.unwrap();
        assert_eq!(tls.full + tls.resumed, 40);
        assert_eq!(
            tls.resumed,
            if resumes { 39 } else { 0 },
            "{policy} {version}"
        );
        let version = format!("TLS{version}");
        for agreed in tls.agreed.keys() {
            let agreed = agreed.replace(['v', ' '], "");
            assert!(agreed.starts_with(&version), "{agreed}");
        }
    }
}

/// Checks the exit code and the words of the message.
fn assert_refused(what: &str, ended: &Ended, words: &[&str]) {
    assert!(
        matches!(ended.code, Some(1 | 2)),
        "{what}: {:?} {}",
        ended.code,
        ended.err
    );
    for word in words {
        assert!(
            ended.err.contains(word),
            "{what}: {word:?} is not in: {}",
            ended.err
        );
    }
    assert_eq!(ended.out, "", "{what}");
}

#[test]
fn what_cannot_be_agreed_on_is_told_before_the_test() {
    let place = Place::new();
    let (Some(h1), Some(h2)) = (tool("nginx"), nghttpd(&place, true)) else {
        return;
    };
    drop(h1);
    let trusted = place.name("trusted.pem");
    let secure = h2.url("https");
    let refused = |arguments: &[&str], words: &[&str]| {
        let what = format!("{arguments:?}");
        assert_refused(&what, &load(&secure, arguments), words);
    };
    refused(&[], &["issuer is not trusted", "--cacert", "--insecure"]);
    refused(
        &["--cacert", &trusted, "--policy", "h2c"],
        &["h2c", "https", "--policy h2"],
    );
    refused(
        &["--cacert", &trusted, "--policy", "h3"],
        &["HTTP/3", "UDP", "no process listens there"],
    );
    refused(&["--cacert", &place.name("missing")], &["missing"]);
    refused(&["--cert", &trusted], &["--key"]);
    refused(&["--early-data", "--no-resume"], &["--no-resume"]);
    let plain = format!("http://{}/", h2.address);
    assert_refused(
        "TLS",
        &load(&plain, &["--policy", "h2c"]),
        &["does not support HTTP/2 without TLS"],
    );
    assert_refused("h2", &load(&plain, &["--policy", "h2"]), &["https", "h2c"]);
    assert_refused("options", &load(&plain, &["--insecure"]), &["https"]);
    let elsewhere = format!("https://localhost:{}/1k.html", h2.address.port());
    let ended = load(&elsewhere, &["--cacert", &trusted, "-n", "10", "--json"]);
    assert_eq!(ended.ended_with(0).measured.counts.completed, 10);
    let logged = place.path("keys");
    let keys = logged.display().to_string();
    let ended = load(
        &secure,
        &["-k", "-n", "10", "-c", "2", "--key-log", &keys, "--json"],
    );
    let summary = ended.ended_with(0);
    assert_eq!(summary.setup.policy, "h2");
    let text = fs::read_to_string(&logged).unwrap();
    let secrets = text
        .lines()
        .filter(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 "));
    // Three connections: one that negotiates the protocol, and two for the load.
    assert_eq!(secrets.count(), 3, "{text}");
}
