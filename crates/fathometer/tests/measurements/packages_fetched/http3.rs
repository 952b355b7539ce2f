//! Packages over HTTP/3: the whole package arrives on one stream of one QUIC connection, without other traffic on the
//! path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::client::{Event as HttpEvent, RequestLine};
use fathometer_http::driver::{
    BundleAnswer, Options, PageDriver, PageList, Retrieval, ValidatorCache, Version, Visit,
};
use fathometer_http::h3;
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Content, Credentials, Storage};
use fathometer_lab::wire::{Carried, WireOptions};
use fathometer_load::client::{self, ClientSockets};
use fathometer_load::http3_client::{ClientSettings as QuicSettings, Event, Http3Client};
use fathometer_model::{Bytes, Delivery, Instant, Seed, Site};
use fathometer_origin::http3::{Service, ServiceOptions};
use fathometer_package as package;
use fathometer_path::Profile;
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use fathometer_sys::era::TcpSettings;
use fathometer_sys::poller::Poller;
use fathometer_tls::{ClientOptions, ClientSettings, ServerOptions, ServerSettings, Verification};

use super::{FILES, SIZE, site};
use crate::ground;

const PORT: u16 = 443;

/// Two hosts, a path, and our origin over HTTP/3.
struct Ground {
    lab: Lab,
    service: Service,
    settings: Arc<QuicSettings>,
    clock: Clock,
}

impl Ground {
    fn new(path: &str, site: &Arc<Site>, capture: &Path) -> Ground {
        let text = fathometer_lab::data::load("paths", "path", path).unwrap();
        let profile = Profile::from_toml(&text, path).unwrap();
        let options = WireOptions {
            capture: Some(capture.to_owned()),
            ..WireOptions::new(Seed(8))
        };
        let clock = options.clock;
        let lab = Lab::start(&profile, &options, |_| TcpSettings::default()).unwrap();
        let host = Options::default().host;
        let wall_clock = clock.realtime_of(Instant::ZERO);
        let credentials = Credentials::make(&[host], wall_clock).unwrap();
        let packages = Packages {
            making: Making::OnTheFly,
            ..Packages::default()
        };
        let content = Content {
            site,
            folder: Path::new(""),
            push: &Plan::default(),
            early_hints: &Plan::default(),
            packages: &packages,
            storage: Storage::Memory,
        };
        let definition = Definition::load("embedded").unwrap();
        let embedded = definition.embedded.as_ref().unwrap();
        let origin = server::origin_of("embedded", embedded, content, clock).unwrap();
        let tls = ServerOptions::new(credentials.identity().clone(), wall_clock);
        let options = ServiceOptions {
            addresses: vec![address()],
            tls: ServerSettings::new(tls).unwrap(),
            transport: TransportSettings::default(),
            sockets: Sockets::default(),
            validates_addresses: false,
            pinned: false,
            most_open: 10,
            log: None,
            seed: Seed(9),
        };
        let config = Arc::new(h3::server::ServerConfig::default());
        let service = lab
            .server
            .namespace
            .run(|| Service::start(&options, vec![origin], &config, clock, || None))
            .unwrap()
            .unwrap();
        let tls = ClientOptions::new(Verification::Roots(credentials.roots()), wall_clock);
        let tls = ClientSettings::new(tls).unwrap();
        let config = h3::client::Config::default();
        let transport = TransportSettings::default();
        let settings = QuicSettings::new(&tls, transport, Sockets::default(), config).unwrap();
        Ground {
            lab,
            service,
            settings: Arc::new(settings),
            clock,
        }
    }

    /// Retrieves the files of the list by a policy.
    fn retrieve(&self, policy: &str) -> Retrieval {
        let clock = self.clock;
        let list = PageList {
            folder: "/set/".to_owned(),
            files: (0..FILES)
                .map(|place| format!("/set/{place}.bin"))
                .collect(),
        };
        let options = Options {
            list: Some(Arc::new(list)),
            ..Options::default()
        };
        let sockets = ClientSockets {
            quic: Some(Arc::clone(&self.settings)),
            seed: Seed(10),
            ..ClientSockets::default()
        };
        let policy = policy.parse().unwrap();
        let retrieved = self.lab.client.namespace.run(|| {
            let (start, cache) = (clock.now(), ValidatorCache::new());
            let base = String::new();
            let mut driver = PageDriver::new(policy, options, Visit::First, base, cache, start);
            let deadline = start + Duration::from_secs(120);
            let driven =
                client::drive(&mut driver, address(), &sockets, clock, deadline, &|| false);
            assert!(!driven.unwrap().timed_out);
            driver.finish(clock.now())
        });
        retrieved.unwrap()
    }

    /// Sends one request; returns the content of the response from the HTTP/3 client.
    fn ask(&self, target: &str, accept: &str) -> Vec<u8> {
        let asked = self.lab.client.namespace.run(|| {
            let (clock, begun) = (self.clock, self.clock.now());
            let host = Options::default().host;
            let seed = Seed(11);
            let mut client =
                Http3Client::connect(&self.settings, address(), None, &host, seed, None, begun)
                    .unwrap();
            let line = RequestLine {
                method: "GET",
                target,
                host: &host,
                version: Version::Http11,
            };
            let mut request = client.http().request(line).unwrap();
            request.field("accept", accept);
            request.send().unwrap();
            let mut poller = Poller::new(4).unwrap();
            poller.add(&client, 0).unwrap();
            let mut buffer = self.settings.receive_buffer();
            let (mut content, mut is_whole) = (Vec::new(), false);
            while !is_whole {
                client.flush(clock.now());
                let due = client.poll_timeout().map(|due| due.since(clock.now()));
                let wait = due.unwrap_or(Duration::from_secs(1));
                for place in 0..poller.wait(Some(wait)).unwrap() {
                    let ready = poller.ready(place);
                    client.handle_ready(ready.readable, ready.writable);
                }
                let now = clock.now();
                assert!(now.since(begun) < Duration::from_secs(120));
                client.handle_timeout(now);
                while client.receive(&mut buffer, now) {}
                while let Some(event) = client.poll_event(now) {
                    match event {
                        Event::Http(HttpEvent::Content { bytes, .. }) => {
                            content.extend_from_slice(bytes);
                        }
                        Event::Http(HttpEvent::End { .. }) => is_whole = true,
                        Event::Closed(closed) => panic!("{closed:?}"),
                        _ => {}
                    }
                }
            }
            client.close(clock.now());
            client.flush(clock.now());
            content
        });
        asked.unwrap()
    }

    /// Stops the server and the path; returns the path's counts.
    fn end(self) -> Carried {
        self.lab
            .settle(Duration::from_millis(500), Duration::from_secs(20));
        self.service.stop();
        self.service.join().unwrap();
        self.lab.end()
    }
}

fn address() -> SocketAddr {
    SocketAddr::new(Side::Server.ipv4().into(), PORT)
}

#[test]
fn over_http3_and_a_modem_the_first_file_is_usable_long_before_the_last() {
    let name = "over_http3_and_a_modem_the_first_file_is_usable_long_before_the_last";
    let Some(_guard) = ground(name) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    let ground = Ground::new("ppp", &site(&[]), &capture);
    let retrieval = ground.retrieve("h3-package");
    let certificate = ground.end().certificate;
    assert_eq!(retrieval.failures, []);
    let whole = BundleAnswer::Whole {
        files: FILES as u64,
    };
    assert_eq!(retrieval.bundle, Some(whole));
    assert_eq!(retrieval.exchanges.len(), 1);
    let [connection] = retrieval.connections.as_slice() else {
        panic!("{:?}", retrieval.connections);
    };
    assert_eq!(connection.protocol.as_deref(), Some("h3"));
    let files = &retrieval.files;
    assert_eq!(files.len(), FILES);
    let bytes = Bytes(SIZE as u64);
    assert!(
        files
            .iter()
            .all(|file| file.by == Delivery::Bundled && file.bytes == bytes)
    );
    // Time that the line needs for one file; all files have the same size.
    let one = Duration::from_secs_f64(SIZE as f64 * 8.0 / 28_800.0);
    let sent = retrieval.exchanges[0].sent.unwrap();
    for (place, file) in files.iter().enumerate() {
        assert!(
            file.usable.since(sent) >= one * (place as u32 + 1),
            "{place}"
        );
    }
    let last = files[FILES - 1].usable;
    println!(
        "the first file at {:.2} s, the last at {:.2} s",
        files[0].usable.since(sent).as_secs_f64(),
        last.since(sent).as_secs_f64()
    );
    // A lost datagram delays only the files after it.
    assert!(last.since(files[0].usable) > one * 2);
    assert!(files[0].read.0 * 2 < connection.received.0);
    let Some([up, down, others, bytes_up, bytes_down]) = tshark(&capture) else {
        let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS");
        assert!(
            required.is_none_or(|value| value != "1"),
            "tshark is required"
        );
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    // All packets are QUIC.
    assert_eq!(others, 0);
    assert_eq!(up, certificate.up.packets_out);
    assert_eq!(down, certificate.down.packets_out);
    // The record lacks only data that were sent after the end of the connection.
    assert!(bytes_up >= connection.sent.0 && bytes_down >= connection.received.0);
    assert!(connection.received.0 > (FILES * SIZE) as u64);
}

#[test]
fn over_http3_a_package_has_the_files_byte_for_byte() {
    let Some(_guard) = ground("over_http3_a_package_has_the_files_byte_for_byte") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let site = site(&[]);
    let ground = Ground::new("lan", &site, &folder.path().join("capture.pcapng"));
    for version in [package::Version::One, package::Version::Two] {
        let content = ground.ask("/set/", version.content_type());
        let files = unpack(&content).unwrap();
        assert_eq!(files.len(), FILES);
        for file in &site.files {
            let name = file.path.trim_start_matches('/');
            let body = file.body.bytes();
            let arrived = files.get(name).map(Vec::as_slice);
            assert_eq!(arrived, Some(&*body), "{version:?} {name}");
        }
    }
    ground.end();
}

/// Decodes the files of a package. For version 2, the decoder verifies the checksum of each file.
fn unpack(mut bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, package::DecodeError> {
    let mut decoder = package::Decoder::new(package::Limits::default());
    let (mut files, mut content) = (BTreeMap::new(), Vec::new());
    while let Some(event) = decoder.poll(&mut bytes)? {
        match event {
            package::Event::Data { content: part, .. } => content.extend_from_slice(part),
            package::Event::End { .. } => {
                files.insert(decoder.entry().name.clone(), std::mem::take(&mut content));
            }
            package::Event::Header | package::Event::Start { .. } | package::Event::Finished => {}
        }
    }
    decoder.end_of_input()?;
    Ok(files)
}

/// Returns tshark's counts at the client: UDP packets with the server's port up and down, other packets, and bytes of
/// UDP payload up and down.
fn tshark(capture: &Path) -> Option<[u64; 5]> {
    Command::new("tshark").arg("--version").output().ok()?;
    let filter = r#"frame.interface_name == "client.tx" || frame.interface_name == "client.rx""#;
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(capture)
        .args(["-Y", filter, "-T", "fields"])
        .args([
            "-e",
            "frame.interface_name",
            "-e",
            "udp.port",
            "-e",
            "udp.length",
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut counted = [0; 5];
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut fields = line.split('\t');
        let down = usize::from(fields.next() == Some("client.rx"));
        let ports = fields.next().unwrap_or_default();
        if !ports.split(',').any(|port| port == PORT.to_string()) {
            counted[2] += 1;
            continue;
        }
        counted[down] += 1;
        // The length includes the UDP header.
        let length: u64 = fields.next().and_then(|text| text.parse().ok()).unwrap();
        counted[3 + down] += length - 8;
    }
    Some(counted)
}
