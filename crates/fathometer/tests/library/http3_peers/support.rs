//! A server of ours, a client of ours in a minimal loop, certificates, and third-party programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fathometer_http::client::{Event as HttpEvent, Received, RequestId, WindowWait};
use fathometer_http::h1::client::Content;
use fathometer_http::h3;
use fathometer_http::h3::client::{RequestLine, Version};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_load::http3_client::{ClientSettings, Event, Http3Client};
use fathometer_model::{Body, Bytes, CloseReason, Failure, File, Instant, Seed, Site};
use fathometer_origin::http3::{Service, ServiceOptions};
use fathometer_quic::{Closed, Handshake, QlogWriter, Statistics, TransportSettings};
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use fathometer_sys::poller::Poller;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{ClientOptions, KeyLogSink, ServerOptions, Tickets, Verification};

use crate::support::programs::{self, tool};

pub const NAME: &str = "origin.test";
/// Time limit of each step of these tests.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Returns the time for checking certificates: the system's wall clock.
pub fn unix_time(clock: Clock) -> Duration {
    clock.realtime_of(Instant::ZERO)
}

/// A certificate authority for one test, and a server certificate issued by it.
pub struct Trust {
    pub authority: Authority,
    pub clock: Clock,
    pub folder: tempfile::TempDir,
    chain: String,
    key: String,
}

impl Trust {
    pub fn new(clock: Clock) -> Trust {
        let lifetime = Lifetime::around(unix_time(clock), Duration::from_secs(24 * 3600));
        let authority = Authority::new(lifetime).unwrap();
        let identity = authority
            .issue(&Issue::new([NAME, "localhost", "127.0.0.1"]))
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let trust = Trust {
            chain: identity.chain_pem(),
            key: identity.key_pem(),
            authority,
            clock,
            folder,
        };
        fs::write(trust.file("ca.pem"), trust.authority.pem()).unwrap();
        fs::write(trust.file("chain.pem"), &trust.chain).unwrap();
        fs::write(trust.file("key.pem"), &trust.key).unwrap();
        trust
    }

    /// Returns the path of `ca.pem`, `chain.pem`, `key.pem` or of a file that a test adds.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn server(
        &self,
        key_log: Option<Arc<dyn KeyLogSink>>,
    ) -> Arc<fathometer_tls::ServerSettings> {
        let (chain, key) = (self.chain.as_bytes(), self.key.as_bytes());
        let identity = fathometer_tls::Identity::from_pem(chain, "chain", key, "key").unwrap();
        let options = ServerOptions {
            tickets: Tickets::Stateful {
                count: 2,
                capacity: 100,
            },
            early_data: Some(16 * 1024),
            key_log,
            ..ServerOptions::new(identity, unix_time(self.clock))
        };
        fathometer_tls::ServerSettings::new(options).unwrap()
    }

    pub fn client(
        &self,
        early_data: bool,
        key_log: Option<Arc<dyn KeyLogSink>>,
    ) -> Arc<fathometer_tls::ClientSettings> {
        let roots = Verification::Roots(self.authority.roots());
        let options = ClientOptions {
            early_data,
            key_log,
            ..ClientOptions::new(roots, unix_time(self.clock))
        };
        fathometer_tls::ClientSettings::new(options).unwrap()
    }
}

/// A key log in memory.
#[derive(Debug, Default)]
pub struct Keys(Mutex<String>);

impl Keys {
    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl KeyLogSink for Keys {
    fn line(&self, line: &str) {
        let mut text = self.0.lock().unwrap();
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns content whose bytes depend on their position.
pub fn content(length: usize, salt: u8) -> Vec<u8> {
    (0..length)
        .map(|n| (n as u32).wrapping_mul(2_654_435_761).rotate_right(13) as u8 ^ salt)
        .collect()
}

/// Returns a site with files of these lengths in bytes.
pub fn site(files: &[(&str, usize)]) -> Site {
    let files = files.iter().enumerate().map(|(n, &(path, length))| File {
        path: path.to_owned(),
        content_type: if path.ends_with(".html") {
            "text/html".into()
        } else {
            "application/octet-stream".into()
        },
        body: Body::from(content(length, n as u8)),
        encoded: Vec::new(),
        last_modified: 1_000_000_000,
    });
    Site {
        name: "test".to_owned(),
        files: files.collect(),
        pages: Vec::new(),
    }
}

pub fn origin(site: Site) -> Arc<Origin> {
    let config = OriginConfig {
        wall_clock: Duration::from_secs(1_700_000_000),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).unwrap())
}

/// Returns the options of our server.
pub fn service_options(trust: &Trust) -> ServiceOptions {
    ServiceOptions {
        addresses: vec!["127.0.0.1:0".parse().unwrap()],
        tls: trust.server(None),
        transport: TransportSettings::default(),
        sockets: Sockets::default(),
        validates_addresses: false,
        pinned: false,
        most_open: 100,
        log: None,
        seed: Seed(1),
    }
}

/// A server of ours that runs until dropped.
pub struct Running(Option<Service>);

impl Running {
    pub fn start(options: &ServiceOptions, origins: Vec<Arc<Origin>>, clock: Clock) -> Running {
        Running::with(options, origins, h3::server::ServerConfig::default(), clock)
    }

    pub fn with(
        options: &ServiceOptions,
        origins: Vec<Arc<Origin>>,
        config: h3::server::ServerConfig,
        clock: Clock,
    ) -> Running {
        let config = Arc::new(config);
        Running(Some(
            Service::start(options, origins, &config, clock, || None).unwrap(),
        ))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.as_ref().unwrap().addresses()[0]
    }

    pub fn service(&self) -> &Service {
        self.0.as_ref().unwrap()
    }

    /// Stops the server gracefully; returns its statistics.
    pub fn end(mut self) -> fathometer_origin::OriginStatistics {
        let service = self.0.take().unwrap();
        service.drain(PATIENCE);
        service.join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(service) = self.0.take() {
            service.stop();
            let _ = service.join();
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub method: &'static str,
    pub target: String,
    pub content: Vec<u8>,
}

impl Ask {
    pub fn get(target: &str) -> Ask {
        Ask {
            method: "GET",
            target: target.to_owned(),
            content: Vec::new(),
        }
    }
}

/// The result of an exchange.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub content: Vec<u8>,
    pub received: Received,
    pub failure: Option<Failure>,
    pub is_whole: bool,
}

/// The result of a connection.
#[derive(Debug)]
pub struct Visit {
    pub answers: Vec<Answer>,
    /// Bytes of each request's head on the wire.
    pub heads: Vec<Bytes>,
    pub handshake: Option<Handshake>,
    pub closed: Option<Closed>,
    pub reason: Option<CloseReason>,
    pub statistics: Statistics,
    /// The waits of the server for a window of the client.
    pub waits: Vec<WindowWait>,
    /// Numbers of announced limits that the client recorded: for streams, and for the connection.
    pub announced: (u64, u64),
    pub local: SocketAddr,
    /// Time from the start of the connection to the last response.
    pub took: Duration,
}

pub fn client_settings(tls: &Arc<fathometer_tls::ClientSettings>) -> Arc<ClientSettings> {
    client_settings_of(tls, TransportSettings::client(), Sockets::default())
}

pub fn client_settings_of(
    tls: &Arc<fathometer_tls::ClientSettings>,
    transport: TransportSettings,
    sockets: Sockets,
) -> Arc<ClientSettings> {
    let config = h3::client::Config::default();
    Arc::new(ClientSettings::new(tls, transport, sockets, config).unwrap())
}

/// Sends all requests over one connection, as many at once as the server allows, and waits for all responses.
pub fn visit(
    settings: &Arc<ClientSettings>,
    server: SocketAddr,
    asks: &[Ask],
    clock: Clock,
    qlog: Option<QlogWriter>,
) -> Visit {
    let begun = clock.now();
    let mut client =
        Http3Client::connect(settings, server, None, NAME, Seed(7), qlog, begun).unwrap();
    client.record_window_waits(begun);
    let mut poller = Poller::new(4).unwrap();
    poller.add(&client, 0).unwrap();
    let mut buffer = settings.receive_buffer();
    let mut visit = Visit {
        answers: vec![Answer::default(); asks.len()],
        heads: Vec::new(),
        handshake: None,
        closed: None,
        reason: None,
        statistics: Statistics::default(),
        waits: Vec::new(),
        announced: (0, 0),
        local: client.local_address(),
        took: Duration::ZERO,
    };
    let mut asked = 0;
    let mut is_done = false;
    loop {
        let now = clock.now();
        assert!(now.since(begun) < PATIENCE, "{visit:?}");
        take_events(&mut client, &mut visit, now);
        while asked < asks.len() && client.http().can_request() {
            let queued = ask(&mut client, &asks[asked]);
            visit.heads.push(queued);
            asked += 1;
        }
        visit.waits.extend(client.take_window_waits());
        client.flush(now);
        if visit.closed.is_some() {
            break;
        }
        let ended = visit
            .answers
            .iter()
            .filter(|one| one.is_whole || one.failure.is_some());
        if ended.count() == asks.len() && !is_done {
            is_done = true;
            visit.took = now.since(begun);
            visit.statistics = client.statistics();
            visit.announced = client.announced_limits();
            client.close(now);
            continue;
        }
        let due = client.poll_timeout();
        let wait = due.map_or(PATIENCE, |due| due.since(clock.now()));
        for place in 0..poller.wait(Some(wait)).unwrap() {
            let ready = poller.ready(place);
            client.handle_ready(ready.readable, ready.writable);
        }
        let now = clock.now();
        while client.receive(&mut buffer, now) {}
        if client.poll_timeout().is_some_and(|due| due <= now) {
            client.handle_timeout(now);
        }
    }
    visit.handshake = client.handshake().cloned();
    visit
}

fn ask(client: &mut Http3Client, ask: &Ask) -> Bytes {
    let line = RequestLine {
        method: ask.method,
        target: &ask.target,
        host: NAME,
        version: Version::Http11,
    };
    let http = client.http();
    let mut request = http.request(line).unwrap();
    request.field("user-agent", "fathometer");
    let content = match ask.content.len() {
        0 => Content::None,
        length => Content::Sized(length as u64),
    };
    let queued = request.send_with(content, false).unwrap();
    if !ask.content.is_empty() {
        http.send_content(queued.request, &ask.content).unwrap();
    }
    queued.head
}

fn take_events(client: &mut Http3Client, visit: &mut Visit, now: Instant) {
    let place = |request: RequestId| request.0 as usize;
    loop {
        let mut head = None;
        match client.poll_event(now) {
            None => return,
            Some(Event::Established(handshake)) => visit.handshake = Some(handshake.clone()),
            Some(Event::Closed(closed)) => visit.closed = Some(closed.clone()),
            Some(Event::Http(event)) => match event {
                HttpEvent::Head { request } => head = Some(place(request)),
                HttpEvent::Content { request, bytes } => {
                    visit.answers[place(request)]
                        .content
                        .extend_from_slice(bytes);
                }
                HttpEvent::End {
                    request, received, ..
                } => {
                    let answer = &mut visit.answers[place(request)];
                    answer.received = received;
                    answer.is_whole = true;
                }
                HttpEvent::Failed {
                    request, failure, ..
                }
                | HttpEvent::Unanswered {
                    request, failure, ..
                } => visit.answers[place(request)].failure = Some(failure),
                HttpEvent::Closed { reason } => visit.reason = Some(reason),
                _ => {}
            },
        }
        if let Some(n) = head {
            visit.answers[n].status = client.http().head().status();
        }
    }
}

fn skip(why: &str) {
    let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(!required, "{why}, and it is required");
    eprintln!("SKIPPED: {why}");
}

/// Returns a Python with aioquic, in a virtual environment next to the build. Creates the environment if it is missing.
pub fn aioquic() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aioquic");
        let python = folder.join("bin/python");
        let works = || {
            let mut import = Command::new(&python);
            import.args(["-c", "import aioquic.h3.connection"]);
            import.output().is_ok_and(|output| output.status.success())
        };
        if works() {
            return Some(python.clone());
        }
        let system = tool("python3")?;
        let make = Command::new(system)
            .args(["-m", "venv"])
            .arg(&folder)
            .output();
        let install = Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "aioquic>=1.2,<2"])
            .output();
        if works() {
            return Some(python.clone());
        }
        eprintln!("{make:?}\n{install:?}");
        None
    });
    if found.is_none() {
        skip("aioquic cannot be installed from PyPI");
    }
    found.clone()
}

/// Returns the path of a script in this folder.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/library/http3_peers")
        .join(name)
}

/// Runs a program to its end; it must succeed. Returns its standard output.
pub fn run_well(command: &Command) -> String {
    String::from_utf8_lossy(&programs::run_well(command)).into_owned()
}

/// A process that is killed when dropped.
pub struct Process(pub Child);

impl Process {
    pub fn spawn(command: &mut Command) -> Process {
        // In its own process group, so that its children are killed with it.
        Process(
            command
                .stdin(Stdio::null())
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }

    /// Reads the first line that the process prints.
    pub fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let pid = Pid::from_child(&self.0);
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns the SHA-256 of `bytes`, as sha256sum prints it.
pub fn sha256(bytes: &[u8]) -> String {
    use std::io::Write;
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("coreutils' sha256sum runs");
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}
