//! Other people's servers, by their definitions: each starts in a host of a lab, serves the site
//! rightly, keeps to the limits it is asked for, and is gone at the end.
//!
//! Needs the right to make network namespaces and TUN devices; without, it says so and passes,
//! unless `FATHOMETER_REQUIRE_LAB=1`. A server that is not installed is likewise no failure, unless
//! `FATHOMETER_REQUIRE_TOOLS=1`.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer::lab::{Host, Lab};
use fathometer::server::definition::Definition;
use fathometer::server::{self, Content, Demands, PORT};
use fathometer::site_folder;
use fathometer::wire::WireOptions;
use fathometer_model::Seed;
use fathometer_path::Profile;
use fathometer_sys::{Clock, Namespace, TcpSettings, Tun};
use fathometer_workload::microscape;

#[test]
fn httpd_serves_in_a_host() {
    // Its limit is on the requests that follow the first of a connection.
    serves_in_a_host("httpd", "deflate", 6);
}

#[test]
fn nginx_serves_in_a_host() {
    serves_in_a_host("nginx", "gzip", 5);
}

/// `answered` is how many requests of a connection it answers when asked for a limit of 5.
fn serves_in_a_host(name: &str, coding: &str, answered: usize) {
    let definition = Definition::load(name).unwrap();
    let program = definition.program.as_ref().unwrap();
    let installed = server::find(program);
    if let Some(reason) = impossible(installed.is_none(), &program.package) {
        eprintln!("SKIPPED: {name}: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let site = Arc::new(microscape::site(Seed(1997), microscape::Variant::LowerCase));
    site_folder::write(&site, folder.path()).unwrap();
    let text = "name = \"wire\"\nsource = \"made for this test\"\n[both]\npropagation = \"1ms\"\n";
    let profile = Profile::from_toml(text, "wire.toml").unwrap();
    let lab = Lab::start(&profile, &WireOptions::new(Seed(1)), |_| {
        TcpSettings::default()
    })
    .unwrap();
    assert!(definition.can("limit", "5"));
    let demands = Demands {
        max_requests: Some(5),
        careless_close: false,
        nodelay: true,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let content = Content {
        site: &site,
        folder: folder.path(),
    };
    let running = server::start(
        &definition,
        installed.as_ref(),
        &lab.server,
        content,
        demands,
        Clock::start(),
    )
    .unwrap();

    // Some of ten requests on one connection, and each answer is the file.
    let paths: Vec<&str> = site.files.iter().map(|file| file.path.as_str()).collect();
    let requests: String = (0..10)
        .map(|n| format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", paths[n % 3]))
        .collect();
    let answers = answers(&lab, &requests);
    assert_eq!(answers.len(), answered, "{name}");
    for (n, answer) in answers.iter().enumerate() {
        let file = &site.files[n % 3];
        assert!(answer.head.starts_with("HTTP/1.1 200 "), "{}", answer.head);
        assert!(
            answer.content == *file.body.bytes(),
            "{name}: {}",
            file.path
        );
        let kind = answer.field("content-type").unwrap();
        assert!(kind.starts_with(&*file.content_type), "{}", answer.head);
        let last = answer.field("connection") == Some("close");
        assert_eq!(last, n + 1 == answered, "{name}: {}", answer.head);
    }

    // What is compressed in advance is sent to who takes it.
    assert!(definition.can("coding", coding));
    let page = &site.files[0];
    let coded = self::answers(
        &lab,
        &format!(
            "GET {} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n",
            page.path
        ),
    );
    assert_eq!(coded[0].field("content-encoding"), Some(coding), "{name}");
    assert!(
        page.encoded
            .iter()
            .any(|(_, body)| *body.bytes() == coded[0].content)
    );

    let report = running.stop().unwrap();
    assert!(report.program_cpu.is_some_and(|cpu| cpu > Duration::ZERO));
    let address = address(&lab.server);
    let connected = lab.server.namespace.run(|| TcpStream::connect(address));
    assert!(connected.unwrap().is_err(), "{name} is still there");
    lab.stop();
}

struct Answer {
    head: String,
    content: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

fn address(host: &Host) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(host.side.ipv4()), PORT)
}

/// Sends requests over the path and reads whatever is answered until the server closes.
fn answers(lab: &Lab, requests: &str) -> Vec<Answer> {
    let address = address(&lab.server);
    let connected = lab.client.namespace.run(|| TcpStream::connect(address));
    let mut stream = connected.unwrap().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    let mut rest = octets.as_slice();
    let mut answers = Vec::new();
    while let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        let mut answer = Answer {
            head,
            content: Vec::new(),
        };
        let length: usize = answer.field("content-length").unwrap().parse().unwrap();
        answer.content = rest[end + 4..end + 4 + length].to_vec();
        rest = &rest[end + 4 + length..];
        answers.push(answer);
    }
    assert!(rest.is_empty(), "{rest:?}");
    answers
}

/// Why this machine cannot run the test.
fn impossible(missing: bool, package: &str) -> Option<String> {
    let required = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    if missing {
        assert!(
            !required("FATHOMETER_REQUIRE_TOOLS"),
            "{package} is required"
        );
        return Some(format!("{package} is not installed"));
    }
    let made =
        Namespace::new().and_then(|namespace| namespace.run(|| Tun::create("try0", 1500, 8)));
    if Path::new("/dev/net/tun").exists() && matches!(made, Ok(Ok(_))) {
        return None;
    }
    assert!(!required("FATHOMETER_REQUIRE_LAB"), "a lab is required");
    Some("this machine allows no network namespaces or TUN devices".to_owned())
}
