//! Servers over TLS and HTTP/2: each supports the protocols that its definition names.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use fathometer_lab::server::definition::{Definition, Generation};
use fathometer_lab::server::limited::{self, Service};
use fathometer_lab::server::{Access, Credentials, ServerSlot, Throttle};
use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, ClientSettings, Session, Verification};

use super::support::{self, Files, PATIENCE};

#[test]
fn embedded_speaks_over_tls() {
    speaks_over_tls("embedded");
}

#[test]
fn httpd_speaks_over_tls() {
    speaks_over_tls("httpd");
}

#[test]
fn httpd_prefork_speaks_over_tls() {
    speaks_over_tls("httpd-prefork");
}

#[test]
fn httpd_worker_speaks_over_tls() {
    speaks_over_tls("httpd-worker");
}

#[test]
fn nginx_speaks_over_tls() {
    speaks_over_tls("nginx");
}

#[test]
fn lighttpd_speaks_over_tls() {
    speaks_over_tls("lighttpd");
}

#[test]
fn caddy_speaks_over_tls() {
    speaks_over_tls("caddy");
}

#[test]
fn h2o_speaks_over_tls() {
    speaks_over_tls("h2o");
}

#[test]
fn haproxy_speaks_over_tls() {
    speaks_over_tls("haproxy");
}

#[test]
fn nghttpd_speaks_over_tls() {
    speaks_over_tls("nghttpd");
}

#[test]
fn nghttpx_speaks_over_tls() {
    speaks_over_tls("nghttpx");
}

#[test]
fn nghttpx_before_nghttpd_speaks_over_tls() {
    speaks_over_tls("nghttpx-nghttpd");
}

/// The server only has to start.
#[test]
fn nghttpd_is_measured_without_tls() {
    let definition = Definition::load("nghttpd").unwrap();
    let Some(installed) = support::installed(&definition) else {
        return;
    };
    let (files, lab, group) = (Files::new(), support::lab(), support::group());
    let server = limited::start(
        &definition,
        installed.as_ref(),
        &lab.server,
        &group,
        files.folder(),
        Throttle::default(),
    );
    server.unwrap().stop().unwrap();
    lab.stop();
}

/// Checks that the server starts, which requires a response over TLS, that it presents the generated certificate, and
/// that it negotiates each version that its definition names.
fn speaks_over_tls(name: &str) {
    let definition = Definition::load(name).unwrap();
    let Some(installed) = support::installed(&definition) else {
        return;
    };
    let (files, lab, group) = (Files::new(), support::lab(), support::group());
    let clock = Clock::start();
    let unix_time = clock.realtime_of(Instant::ZERO);
    let address = IpAddr::V4(lab.server.side.ipv4());
    let names = ["www26.w3.org".to_owned(), address.to_string()];
    let credentials = Credentials::make(&names, unix_time).unwrap();
    let access = Access::Tls(&credentials);
    // Uses the second port, as a server does that runs next to another server.
    let service = Service {
        definition: &definition,
        installed: installed.as_ref(),
        root: files.folder(),
        throttle: Throttle::default(),
        access,
        http3: None,
        slot: ServerSlot::Second,
    };
    let server = limited::start_service(&service, &lab.server, &group).unwrap();
    let there = SocketAddr::new(address, access.port_at(service.slot));
    let spoken = match &definition.program {
        Some(program) => program.versions(true),
        None => &[Generation::HTTP1, Generation::HTTP2],
    };
    for (version, protocol) in [(Generation::HTTP1, "http/1.1"), (Generation::HTTP2, "h2")] {
        let mut options = ClientOptions::new(Verification::Roots(credentials.roots()), unix_time);
        options.alpn = vec![protocol.as_bytes().to_vec()];
        let settings = ClientSettings::new(options).unwrap();
        let session = Session::client(&settings, "www26.w3.org", clock.now()).unwrap();
        let stream = lab
            .client
            .namespace
            .run(|| TcpStream::connect_timeout(&there, PATIENCE))
            .unwrap()
            .unwrap();
        let agreed = agreed(stream, session, clock);
        let expected = spoken.contains(&version).then(|| protocol.to_owned());
        if expected.is_some() {
            assert_eq!(agreed, expected, "{name}");
        } else {
            assert_ne!(agreed.as_deref(), Some(protocol), "{name}");
        }
    }
    server.stop().unwrap();
    lab.stop();
}

/// Returns the protocol that a handshake negotiates; `None` if the handshake fails, or negotiates no protocol.
fn agreed(mut stream: TcpStream, mut session: Session, clock: Clock) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while !session.is_established() {
        let flight = session.transmit().to_vec();
        stream.write_all(&flight).unwrap();
        session.transmitted(flight.len());
        let mut bytes = [0; 16 * 1024];
        let length = stream.read(&mut bytes).unwrap_or(0);
        if length == 0 || session.receive(&bytes[..length], clock.now()).is_err() {
            return None;
        }
    }
    let protocol = session.alpn()?;
    Some(String::from_utf8_lossy(protocol).into_owned())
}
