//! Alternative services (RFC 7838): a page starts over HTTP/2 and switches to HTTP/3 when the server advertises HTTP/3.
//! The next visit starts with HTTP/3. When a service fails, all files still arrive.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    Options, PageDriver, PageList, Policy, Retrieval, Service, ValidatorCache, Visit,
};
use fathometer_http::h3;
use fathometer_load::client::{self, ClientSockets};
use fathometer_load::http3_client::ClientSettings as QuicSettings;
use fathometer_model::{Failure, Outcome, ServiceEvent};
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, ClientSettings, Verification};

use super::support::{PATIENCE, Process, Trust, content, unix_time};
use crate::support::programs::{FATHOMETER, tool};

/// Number of files in the list.
const FILES: usize = 400;
const SIZE: usize = 300;

/// The set-up of a test, without its servers.
struct Ground {
    clock: Clock,
    trust: Trust,
    sockets: ClientSockets,
}

impl Ground {
    fn new() -> Ground {
        let clock = Clock::start();
        let trust = Trust::new(clock);
        let site = trust.file("site");
        fs::create_dir(&site).unwrap();
        for number in 0..FILES {
            fs::write(site.join(number.to_string()), content(SIZE, number as u8)).unwrap();
        }
        // A recently modified file has another entity tag at first.
        age(&site);
        let options = ClientOptions {
            alpn: vec![b"h2".to_vec()],
            ..ClientOptions::new(
                Verification::Roots(trust.authority.roots()),
                unix_time(clock),
            )
        };
        let tls = ClientSettings::new(options).unwrap();
        let transport = TransportSettings::default();
        let config = h3::client::Config::default();
        let quic = QuicSettings::new(&tls, transport, Sockets::default(), config).unwrap();
        let sockets = ClientSockets {
            tls: Some(tls),
            quic: Some(Arc::new(quic)),
            ..ClientSockets::default()
        };
        Ground {
            clock,
            trust,
            sockets,
        }
    }

    /// Starts `fathometer serve` at `address` with the files of the set-up.
    fn serve(&self, address: SocketAddr, arguments: &[&str]) -> Process {
        let mut command = Command::new(FATHOMETER);
        command
            .arg("serve")
            .arg(self.trust.file("site"))
            .args(["--listen", &address.to_string(), "--threads", "1"])
            .arg("--certificate")
            .arg(self.trust.file("chain.pem"))
            .arg("--key")
            .arg(self.trust.file("key.pem"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = Process::spawn(&mut command);
        assert!(server.first_line().contains("serving"));
        server
    }

    /// Retrieves all files, one stream at a time.
    fn visit(&self, server: SocketAddr, visit: Visit, cache: ValidatorCache) -> Retrieval {
        let policy: Policy = "h3-alt-svc-streams1".parse().unwrap();
        let list = PageList {
            folder: "/".to_owned(),
            files: (0..FILES).map(|number| format!("/{number}")).collect(),
        };
        let options = Options {
            host: host(server),
            list: Some(Arc::new(list)),
            service_timeout: Duration::from_millis(300),
            ..Options::default()
        };
        let start = self.clock.now();
        let mut driver = PageDriver::new(policy, options, visit, "/".to_owned(), cache, start);
        let deadline = start + PATIENCE;
        let statistics = client::drive(
            &mut driver,
            server,
            &self.sockets,
            self.clock,
            deadline,
            &|| false,
        );
        assert!(!statistics.unwrap().timed_out);
        let retrieval = driver.finish(self.clock.now());
        assert_eq!(retrieval.failures, []);
        assert_eq!(retrieval.files.len(), FILES);
        retrieval
    }

    /// Same as `visit`, with a service already in the cache.
    fn visit_knowing(&self, server: SocketAddr, service: u16) -> Retrieval {
        let mut cache = ValidatorCache::new();
        let known = Service {
            port: service,
            until: self.clock.now() + Duration::from_secs(3600),
            broken_until: None,
        };
        cache.insert_service(host(server), known);
        self.visit(server, Visit::First, cache)
    }
}

fn host(server: SocketAddr) -> String {
    format!("localhost:{}", server.port())
}

/// Returns a loopback address that is free for TCP and UDP, and the socket that reserves the UDP port.
fn free() -> (SocketAddr, UdpSocket) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        if let Ok(socket) = UdpSocket::bind(address) {
            return (address, socket);
        }
    }
}

/// Returns the protocol of each connection that negotiated a protocol.
fn spoken(retrieval: &Retrieval) -> Vec<&str> {
    let connections = retrieval.connections.iter();
    connections
        .filter_map(|connection| connection.protocol.as_deref())
        .collect()
}

/// Returns the protocol of each complete exchange, in order.
fn carried(retrieval: &Retrieval) -> Vec<&str> {
    let whole = retrieval
        .exchanges
        .iter()
        .filter(|exchange| exchange.outcome == Outcome::Complete);
    whole
        .map(|exchange| {
            let connection = &retrieval.connections[exchange.connection as usize];
            connection.protocol.as_deref().unwrap()
        })
        .collect()
}

fn news(retrieval: &Retrieval) -> Vec<ServiceEvent> {
    retrieval.services.iter().map(|one| one.news).collect()
}

/// Checks two visits to a server that advertises HTTP/3 on its own port.
fn check_two_visits(ground: &Ground, address: SocketAddr) {
    let first = ground.visit(address, Visit::First, ValidatorCache::new());
    assert_eq!(news(&first), [ServiceEvent::Found]);
    let found = &first.services[0];
    assert_eq!(
        (found.port, &found.host),
        (Some(address.port()), &host(address))
    );
    assert!(found.max_age_s.is_some_and(|seconds| seconds >= 3600));
    // The first response announces the service. The client uses the service once its connection is established.
    let before = first.exchanges[0].first_byte.unwrap();
    assert!(found.at >= before && found.at <= first.exchanges[0].last_byte.unwrap());
    assert_eq!(spoken(&first), ["h2", "h3"]);
    let by = carried(&first);
    let turn = by.iter().position(|&protocol| protocol == "h3").unwrap();
    assert!(turn > 0 && by[..turn].iter().all(|&protocol| protocol == "h2"));
    assert!(
        by[turn..].iter().all(|&protocol| protocol == "h3"),
        "{turn}"
    );
    let ready = first.connections[1].established.unwrap();
    assert!(first.connections[1].opened >= found.at);
    assert!(first.exchanges[turn].sent.unwrap() >= ready);

    let second = ground.visit(address, Visit::Revalidate, first.cache);
    assert_eq!(news(&second), [ServiceEvent::Known]);
    assert_eq!(spoken(&second), ["h3"]);
    assert!(second.connections[0].tls.as_ref().unwrap().resumed);
    let status = second.exchanges.iter().map(|exchange| exchange.status);
    assert!(status.clone().all(|status| status == Some(304)));
    assert_eq!(status.count(), FILES);
}

#[test]
fn a_first_visit_switches_to_http3_and_the_next_starts_with_it() {
    let ground = Ground::new();
    let (address, reserved) = free();
    drop(reserved);
    let _server = ground.serve(address, &["--http3"]);
    check_two_visits(&ground, address);
}

#[test]
fn caddy_is_found_the_same_way() {
    let Some(caddy) = tool("caddy") else { return };
    let ground = Ground::new();
    let (address, reserved) = free();
    drop(reserved);
    let configuration = format!(
        "{{\n  admin off\n  auto_https disable_redirects\n  skip_install_trust\n}}\n\
         https://localhost:{} {{\n  bind 127.0.0.1\n  tls {} {}\n  root * {}\n  file_server\n}}\n",
        address.port(),
        ground.trust.file("chain.pem").display(),
        ground.trust.file("key.pem").display(),
        ground.trust.file("site").display()
    );
    fs::write(ground.trust.file("Caddyfile"), configuration).unwrap();
    let mut command = Command::new(caddy);
    command
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(ground.trust.file("Caddyfile"))
        .env("XDG_DATA_HOME", ground.trust.folder.path())
        .env("XDG_CONFIG_HOME", ground.trust.folder.path())
        .stderr(Stdio::null());
    let _server = Process::spawn(&mut command);
    // Caddy listens on UDP before TCP.
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "caddy does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    check_two_visits(&ground, address);
}

#[test]
fn an_unavailable_alternative_service_loses_no_file() {
    let ground = Ground::new();
    let (address, _) = free();
    // No process listens on this port.
    let nowhere = free().0.port();
    let announced = format!("h3=\":{nowhere}\"; ma=60");
    let _server = ground.serve(address, &["--alt-svc", &announced]);
    let first = ground.visit(address, Visit::First, ValidatorCache::new());
    assert_eq!(news(&first), [ServiceEvent::Found, ServiceEvent::Failed]);
    let failed = &first.services[1];
    assert_eq!((failed.connection, failed.port), (Some(1), Some(nowhere)));
    assert_eq!(failed.failure, Some(Failure::Refused));
    assert_eq!(spoken(&first), ["h2"]);
    assert!(
        first
            .cache
            .service(&host(address))
            .unwrap()
            .broken_until
            .is_some()
    );
    // The client does not try the failed service again for a while, although every response advertises this service.
    let second = ground.visit(address, Visit::Revalidate, first.cache);
    assert_eq!((news(&second), spoken(&second)), (vec![], vec!["h2"]));
    assert_eq!(second.connections.len(), 1);
}

#[test]
fn a_known_service_that_does_not_answer_is_abandoned() {
    let ground = Ground::new();
    let (address, _) = free();
    let _server = ground.serve(address, &[]);
    let (silent, socket) = free();
    let (gone, reserved) = free();
    drop(reserved);
    for (port, failure) in [
        (silent.port(), Failure::TimedOut),
        (gone.port(), Failure::Refused),
    ] {
        let visit = ground.visit_knowing(address, port);
        assert_eq!(news(&visit), [ServiceEvent::Known, ServiceEvent::Failed]);
        assert_eq!(visit.services[1].failure, Some(failure));
        assert_eq!(spoken(&visit), ["h2"]);
        // The request sent to the failed service is recorded, and was retried.
        assert_eq!(visit.exchanges[0].outcome, Outcome::Retried(failure));
        assert_eq!(
            (visit.exchanges[0].connection, visit.exchanges.len()),
            (0, FILES + 1)
        );
        assert_eq!(carried(&visit), vec!["h2"; FILES]);
    }
    drop(socket);
}

#[test]
fn a_withdrawn_alternative_service_is_no_longer_used() {
    let ground = Ground::new();
    let (address, reserved) = free();
    drop(reserved);
    let _server = ground.serve(address, &["--http3", "--alt-svc", "clear"]);
    let visit = ground.visit_knowing(address, address.port());
    assert_eq!(news(&visit), [ServiceEvent::Known, ServiceEvent::Cleared]);
    assert_eq!(visit.cache.service(&host(address)), None);
    assert_eq!(spoken(&visit), ["h3", "h2"]);
    let by = carried(&visit);
    assert_eq!((by[0], by.last()), ("h3", Some(&"h2")));
    let turn = by.iter().position(|&protocol| protocol == "h2").unwrap();
    assert!(by[turn..].iter().all(|&protocol| protocol == "h2"));
}

/// Sets the modification time of all files in a folder to a distant past.
fn age(folder: &Path) {
    let modified = std::time::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for entry in fs::read_dir(folder).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path());
        file.unwrap().set_modified(modified).unwrap();
    }
}
