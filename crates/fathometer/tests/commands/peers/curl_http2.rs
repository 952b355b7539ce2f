//! curl over HTTP/2 and TLS.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fathometer_http::h1::server::ServerConfig;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_lab::server::{self, Access, Credentials};
use fathometer_model::{Instant, Seed};
use fathometer_origin::{OriginLoop, OriginSockets};
use fathometer_sys::Clock;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_workload::microscape;
use rustix::process::{Pid, Signal, kill_process};

use super::support::{IMAGES, PAGE, Response, Server, SiteFolder};
use crate::support::programs::{FATHOMETER, run, run_well, tool};
use crate::support::serving;

fn curl(program: &PathBuf, server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["--silent", "--show-error", "--noproxy", "*"]);
    if server.url("").starts_with("https") {
        command.arg("--cacert").arg(server.root());
    }
    command.args(arguments);
    command
}

/// Fetches files; returns the HTTP version of each transfer and the number of its new connections.
fn versions(
    program: &PathBuf,
    site: &SiteFolder,
    server: &Server,
    files: &[&str],
    arguments: &[&str],
) -> Vec<(String, u32)> {
    let fetched = tempfile::tempdir().unwrap();
    let mut command = curl(program, server, arguments);
    command.args(["--write-out", "%{http_version} %{num_connects}\n"]);
    for (n, file) in files.iter().enumerate() {
        let name = fetched.path().join(n.to_string());
        command.arg("--output").arg(name).arg(server.url(file));
    }
    let said = String::from_utf8(run_well(&command)).unwrap();
    for (n, file) in files.iter().enumerate() {
        let got = fs::read(fetched.path().join(n.to_string())).unwrap();
        assert!(got == site.read(file), "{arguments:?} {file}");
    }
    said.lines()
        .map(|line| {
            let (version, connections) = line.split_once(' ').unwrap();
            (version.to_owned(), connections.parse().unwrap())
        })
        .collect()
}

/// curl closes the connection, and the server's last bytes cannot be sent.
#[test]
fn a_connection_that_curl_has_closed_does_not_delay_the_end() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let mut child = Command::new(FATHOMETER)
        .arg("serve")
        .arg(site.path())
        .args(["--listen", "127.0.0.1:0", "--tls", "--drain", "5s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe stays open, because the server exits when it cannot write to stdout.
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let url = format!("https://{}/{PAGE}", serving::address(&mut output));
    let fetch = ["--silent", "--insecure", "--http2", &url];
    let fetched = run_well(Command::new(program).args(fetch));
    assert!(fetched == site.read(PAGE));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 connections were HTTP/2"), "{said}");
    assert!(!said.contains("did not close in time"), "{said}");
}

#[test]
fn curl_gets_the_version_that_it_asks_for() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let images = site.images();
    let files: Vec<&str> = [PAGE]
        .into_iter()
        .chain(images.iter().map(String::as_str))
        .collect();
    let clear = Server::origin(site.path(), &[]);
    let secure = Server::secure(site.path(), &[]);
    let old = ["--tlsv1.2", "--tls-max", "1.2"];
    for (server, arguments, version) in [
        (&clear, &[][..], "1.1"),
        (&secure, &[], "2"),
        (&secure, &["--http1.1"], "1.1"),
        (&secure, &["--http1.0"], "1.0"),
        (&secure, &["--no-alpn"], "1.1"),
        (&secure, &[old[0], old[1], old[2]], "2"),
        (&secure, &[old[0], old[1], old[2], "--http1.1"], "1.1"),
        (&secure, &["--tlsv1.3"], "2"),
    ] {
        let got = versions(&program, &site, server, &files, arguments);
        assert_eq!(got.len(), IMAGES + 1);
        let version = if version == "1.0" { "1.1" } else { version };
        assert!(
            got.iter().all(|(got, _)| got == version),
            "{arguments:?}: {got:?}"
        );
        let connections: u32 = got.iter().map(|(_, connections)| connections).sum();
        let expected = if arguments == ["--http1.0"] { 43 } else { 1 };
        assert_eq!(connections, expected, "{arguments:?}");
    }
    // curl 7.88 fails at the second file of such a connection, with any server.
    for file in files {
        let got = versions(
            &program,
            &site,
            &clear,
            &[file],
            &["--http2-prior-knowledge"],
        );
        assert_eq!(got, [("2".to_owned(), 1)]);
    }
}

/// HTTP/2 by Upgrade. curl 7.88 accepts at most 32 KiB together with the 101 response.
#[test]
fn curl_upgrades_to_http2() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    let files = ["images/img00.gif", PAGE, "images/img39.gif"];
    let got = versions(&program, &site, &server, &files, &["--http2"]);
    let expected = [("2", 1), ("2", 0), ("2", 0)];
    let expected = expected.map(|(version, connections)| (version.to_owned(), connections));
    assert_eq!(got, expected);
    let old = Server::origin(site.path(), &["--protocols", "h1"]);
    let got = versions(&program, &site, &old, &files, &["--http2"]);
    assert!(got.iter().all(|(version, _)| version == "1.1"), "{got:?}");
}

#[test]
fn a_server_of_one_version_supports_no_other() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    for (protocols, asked, version) in [
        ("h1", "--http2", Some("1.1")),
        ("h2", "--http2", Some("2")),
        ("h2", "--http1.1", None),
        ("h1", "--http1.1", Some("1.1")),
    ] {
        let server = Server::secure(site.path(), &["--protocols", protocols]);
        match version {
            Some(version) => {
                let got = versions(&program, &site, &server, &[PAGE], &[asked]);
                assert_eq!(got[0].0, version, "{protocols} {asked}");
            }
            None => {
                let mut command = curl(&program, &server, &[asked]);
                let output = run(command.arg(server.url(PAGE)));
                assert!(!output.status.success(), "{protocols} {asked}");
            }
        }
    }
    let old = Server::secure(site.path(), &["--tls-versions", "1.2"]);
    let refused = run(curl(&program, &old, &["--tlsv1.3"]).arg(old.url(PAGE)));
    assert!(!refused.status.success());
    let got = versions(&program, &site, &old, &[PAGE], &[]);
    assert_eq!(got[0].0, "2");
}

#[test]
fn curl_gets_heads_ranges_and_validation_over_http2() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let server = Server::secure(site.path(), &[]);
    let body = site.read(PAGE);
    let get = |arguments: &[&str]| {
        let mut command = curl(&program, &server, arguments);
        Response::parse(&run_well(command.arg("--include").arg(server.url(PAGE))))
    };
    let head = get(&["--head"]);
    assert!(head.heads[0].starts_with("HTTP/2 200"), "{}", head.heads[0]);
    assert_eq!(head.field("content-length"), Some("43008"));
    assert_eq!(head.field("connection"), None);
    for (range, from, to) in [("0-0", 0, 1), ("10-99", 10, 100), ("-5", 43_003, 43_008)] {
        let part = get(&["--range", range]);
        assert_eq!(part.status(), 206, "{range}");
        assert!(part.content == body[from..to], "{range}");
    }
    let parts = get(&["--range", "0-9,100-119"]);
    let kind = parts.field("content-type").unwrap();
    assert!(kind.starts_with("multipart/byteranges"), "{kind}");
    assert_eq!(get(&["--range", "43008-"]).status(), 416);
    let tag = format!("If-None-Match: {}", head.field("etag").unwrap());
    let same = get(&["--header", &tag]);
    assert_eq!((same.status(), same.content.len()), (304, 0));
    let coded = get(&["--header", "Accept-Encoding: deflate"]);
    assert_eq!(coded.field("content-encoding"), Some("deflate"));
}

/// Files on disk, not in memory: over TLS and HTTP/2 they pass through buffers.
#[test]
fn large_files_arrive_whole_over_every_transport() {
    let Some(program) = tool("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..12_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(folder.path().join("big"), &bytes).unwrap();
    let clear = Server::origin(folder.path(), &[]);
    let secure = Server::secure(folder.path(), &[]);
    for (server, version) in [
        (&clear, "--http2-prior-knowledge"),
        (&secure, "--http1.1"),
        (&secure, "--http2"),
    ] {
        let mut command = curl(&program, server, &[version]);
        let got = run_well(command.arg(server.url("big")));
        assert!(got == bytes, "{version}: {} bytes", got.len());
        let mut command = curl(&program, server, &[version, "--range", "70000-11999999"]);
        let got = run_well(command.arg(server.url("big")));
        assert!(got == bytes[70_000..], "{version}: {} bytes", got.len());
        // Four transfers in parallel, on one connection if the version allows that. In cleartext curl 7.88
        // cannot.
        if version == "--http2-prior-knowledge" {
            continue;
        }
        let mut command = curl(&program, server, &[version, "--parallel"]);
        let all = tempfile::tempdir().unwrap();
        for n in 0..4 {
            let name = all.path().join(n.to_string());
            command.arg("--output").arg(name).arg(server.url("big"));
        }
        run_well(&command);
        for n in 0..4 {
            assert!(fs::read(all.path().join(n.to_string())).unwrap() == bytes);
        }
    }
}

#[test]
fn curl_uploads_over_http2() {
    let Some(program) = tool("curl") else { return };
    let clock = Clock::start();
    let site = microscape::site(Seed(1997), microscape::Variant::LowerCase);
    let config = OriginConfig {
        discard: Some("/sink".to_owned()),
        wall_clock: clock.realtime_of(Instant::ZERO),
        ..OriginConfig::default()
    };
    let origin = Arc::new(Origin::new(Arc::new(site), config).unwrap());
    let names = ["127.0.0.1".to_owned()];
    let credentials = Credentials::make(&names, clock.realtime_of(clock.now())).unwrap();
    let access = Access::Tls(&credentials);
    let config = ServerConfig {
        events: true,
        ..ServerConfig::default()
    };
    let protocols = server::protocols(config, access, clock).unwrap();
    let sockets = OriginSockets {
        nodelay: true,
        quick_ack: None,
        backlog: None,
    };
    let address = ["127.0.0.1:0".parse().unwrap()];
    let origin = OriginLoop::bind(&address, origin, protocols, sockets, clock).unwrap();
    let address = origin.addresses().unwrap()[0];
    let handle = origin.handle();
    let thread = std::thread::spawn(move || origin.run());
    let folder = tempfile::tempdir().unwrap();
    let (root, upload) = (folder.path().join("root"), folder.path().join("upload"));
    fs::write(&root, credentials.root_pem()).unwrap();
    fs::write(&upload, vec![b'x'; 3_000_000]).unwrap();
    for (version, more) in [
        ("--http2", "Expect:"),
        ("--http2", "Expect: 100-continue"),
        ("--http1.1", "Expect: 100-continue"),
        ("--http1.1", "Transfer-Encoding: chunked"),
    ] {
        let response = run_well(
            Command::new(&program)
                .args(["--silent", "--show-error", "--noproxy", "*", "--include"])
                .args([version, "--header", more, "--cacert"])
                .arg(&root)
                .arg("--data-binary")
                .arg(format!("@{}", upload.display()))
                .arg(format!("https://{address}/sink")),
        );
        let response = Response::parse(&response);
        assert_eq!(response.status(), 204, "{version} {more}");
    }
    handle.stop();
    let statistics = thread.join().unwrap().unwrap();
    assert_eq!((statistics.responses, statistics.http2), (4, 2));
    assert_eq!(
        (statistics.handshakes, statistics.handshakes_failed),
        (4, 0)
    );
}

#[test]
fn curl_sees_early_hints() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        plan.path(),
        format!("/{PAGE} /images/img00.gif /style.css\n"),
    )
    .unwrap();
    let arguments = ["--early-hints", plan.path().to_str().unwrap()];
    let clear = Server::origin(site.path(), &arguments);
    let secure = Server::secure(site.path(), &arguments);
    for (server, version, name) in [
        (&clear, "--http1.1", "HTTP/1.1"),
        (&clear, "--http2-prior-knowledge", "HTTP/2"),
        (&secure, "--http2", "HTTP/2"),
    ] {
        let fetch = |file: &str| {
            let mut command = curl(&program, server, &[version, "--include"]);
            Response::parse(&run_well(command.arg(server.url(file))))
        };
        let page = fetch(PAGE);
        assert_eq!(page.heads.len(), 2, "{version}: {:?}", page.heads);
        assert!(page.heads[0].starts_with(&format!("{name} 103")));
        let link = page.heads[0].split_once(": ").unwrap().1;
        let expected =
            "</images/img00.gif>; rel=preload; as=image, </style.css>; rel=preload; as=style";
        assert_eq!(link.trim_end(), expected);
        assert!(page.content == site.read(PAGE));
        assert_eq!(fetch("images/img00.gif").heads.len(), 1);
    }
    // HTTP/1.0 has no interim responses.
    let mut old = curl(&program, &clear, &["--http1.0", "--include"]);
    let old = Response::parse(&run_well(old.arg(clear.url(PAGE))));
    assert_eq!(old.heads.len(), 1);
}

#[test]
fn clients_are_asked_who_they_are() {
    let Some(program) = tool("curl") else { return };
    let site = SiteFolder::new();
    let clock = Clock::start();
    let month = std::time::Duration::from_secs(30 * 24 * 3600);
    let lifetime = Lifetime::around(clock.realtime_of(clock.now()), month);
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::new(lifetime).unwrap();
    fs::write(name("ca"), authority.pem()).unwrap();
    for (who, authority) in [
        ("friend", &authority),
        ("stranger", &Authority::new(lifetime).unwrap()),
    ] {
        let identity = authority.issue(&Issue::new(["client.test"])).unwrap();
        fs::write(name(who), identity.chain_pem()).unwrap();
        fs::write(name(&format!("{who}-key")), identity.key_pem()).unwrap();
    }
    for versions in ["1.2", "1.3"] {
        let arguments = ["--client-ca", &name("ca"), "--tls-versions", versions];
        let server = Server::secure(site.path(), &arguments);
        let ask = |who: Option<&str>| {
            let mut command = curl(&program, &server, &["--output", "/dev/null"]);
            if let Some(who) = who {
                command.args(["--cert", &name(who), "--key", &name(&format!("{who}-key"))]);
            }
            run(command.arg(server.url(PAGE))).status.success()
        };
        assert!(ask(Some("friend")), "{versions}");
        assert!(!ask(Some("stranger")), "{versions}");
        assert!(!ask(None), "{versions}");
    }
}
