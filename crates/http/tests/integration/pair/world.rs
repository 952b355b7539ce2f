//! A client driver and an origin's connections, connected in virtual time.
//!
//! The network has a delay in each direction. Towards the client it delivers segments of one size, one after another at
//! a fixed interval. TCP is not simulated; tests that need TCP resets imitate them.

use std::collections::{BTreeMap, BinaryHeap};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    Action, ConnectionId, Options, PageDriver, Policy, Protocol, Retrieval, ValidatorCache, Visit,
};
use fathometer_http::h1::server::{self, ServerConfig};
use fathometer_http::h2;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{ContentCoding, Failure, File, FileId, Instant, Page, Site};
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The parameters of the network.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// The one-way delay.
    pub delay: Duration,
    /// Bytes that the client reads at a time.
    pub segment: usize,
    /// The interval between two segments.
    pub distance: Duration,
    /// Whether a reset destroys bytes that were sent before it and that the client has not read. TCP loses such
    /// bytes in the server's send buffer and in the client's receive buffer.
    pub resets_overtake: bool,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            delay: Duration::from_millis(45),
            segment: 1460,
            distance: Duration::from_millis(1),
            resets_overtake: false,
        }
    }
}

/// The parameters of one retrieval.
pub struct Setting {
    pub policy: Policy,
    pub options: Options,
    pub visit: Visit,
    pub server: ServerConfig,
    /// The server's configuration for policies of HTTP/2.
    pub http2: h2::server::ServerConfig,
    pub network: Network,
}

impl Setting {
    pub fn new(policy: &str, visit: Visit) -> Setting {
        Setting {
            policy: policy.parse().unwrap(),
            options: Options::default(),
            visit,
            server: ServerConfig::default(),
            http2: h2::server::ServerConfig::default(),
            network: Network::default(),
        }
    }
}

/// A retrieval, and observations of its connections.
pub struct Outcome {
    pub retrieval: Retrieval,
    /// The sizes of the client's writes.
    pub writes: Vec<usize>,
    /// All text that the client wrote, connection by connection.
    pub requests: Vec<String>,
    /// The largest number of connections open at a time.
    pub most_open: usize,
    /// The number of connections whose sending side the client closed before it closed the connection.
    pub half_closed: usize,
}

enum Happening {
    Connected,
    ToServer(Vec<u8>),
    ServerSeesEnd,
    ToClient(Vec<u8>),
    ClientSeesEnd,
    ClientSeesReset,
}

/// Ordered by time, then by creation. The earliest is the greatest, because `BinaryHeap` returns the greatest
/// first.
struct Event {
    key: (Instant, u64),
    conn: u32,
    happening: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.key == other.key
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        other.key.cmp(&self.key)
    }
}

/// The server's end of a connection.
enum Server {
    Http1(Box<server::Connection>),
    Http2(Box<h2::server::Connection>),
}

/// Calls the same method on either kind of server.
macro_rules! either {
    ($server:expr, $inner:ident => $call:expr) => {
        match $server {
            Server::Http1($inner) => $call,
            Server::Http2($inner) => $call,
        }
    };
}

struct Side {
    server: Server,
    /// `false` once the server has closed both sides.
    server_open: bool,
    client_open: bool,
    established: bool,
    /// The time at which the last bytes in transit to the client arrive.
    arrives: Instant,
}

pub struct World {
    setting: Setting,
    origin: Arc<Origin>,
    driver: PageDriver,
    now: Instant,
    decided: u64,
    events: BinaryHeap<Event>,
    sides: BTreeMap<u32, Side>,
    writes: Vec<usize>,
    requests: BTreeMap<u32, Vec<u8>>,
    most_open: usize,
    half_closed: usize,
}

/// Retrieves `/index.html`.
pub fn retrieve(origin: &Arc<Origin>, setting: Setting, cache: ValidatorCache) -> Outcome {
    let start = Instant::from_nanos(1_000_000);
    let driver = PageDriver::new(
        setting.policy,
        setting.options.clone(),
        setting.visit,
        "/index.html".to_owned(),
        cache,
        start,
    );
    let mut world = World {
        setting,
        origin: Arc::clone(origin),
        driver,
        now: start,
        decided: 0,
        events: BinaryHeap::new(),
        sides: BTreeMap::new(),
        writes: Vec::new(),
        requests: BTreeMap::new(),
        most_open: 0,
        half_closed: 0,
    };
    world.run();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome {
        writes: world.writes,
        requests: world.requests.into_values().map(text).collect(),
        most_open: world.most_open,
        half_closed: world.half_closed,
        retrieval: world.driver.finish(world.now),
    }
}

impl World {
    fn run(&mut self) {
        for _ in 0..1_000_000 {
            self.serve_client();
            if self.driver.is_finished() {
                return;
            }
            let due = self.events.peek().map(|event| event.key.0);
            let timers = self.sides.values().filter(|side| side.server_open);
            let timers =
                timers.filter_map(|side| either!(&side.server, server => server.poll_timeout()));
            let timer = timers.chain(self.driver.poll_timeout()).min();
            let next = [due, timer].into_iter().flatten().min();
            let next = next.expect("no event or timer is left");
            assert!(next >= self.now || timer == Some(next));
            self.now = self.now.max(next);
            if due == Some(next) {
                let event = self.events.pop().unwrap();
                self.happen(event);
            } else {
                self.driver.handle_timeout(self.now);
                let conns: Vec<u32> = self.sides.keys().copied().collect();
                for conn in conns {
                    let side = self.sides.get_mut(&conn).unwrap();
                    if side.server_open {
                        either!(&mut side.server, server => server.handle_timeout(self.now));
                        self.serve(conn);
                    }
                }
            }
        }
        panic!("the retrieval does not end");
    }

    fn later(&mut self, at: Instant, conn: u32, happening: Happening) {
        self.decided += 1;
        self.events.push(Event {
            key: (at, self.decided),
            conn,
            happening,
        });
    }

    fn server(&self, accepted: Instant) -> Server {
        let origin = Arc::clone(&self.origin);
        match self.setting.policy.protocol {
            Protocol::Http1(_) => {
                let config = Arc::new(self.setting.server.clone());
                Server::Http1(Box::new(server::Connection::new(origin, config, accepted)))
            }
            Protocol::Http2 => {
                let config = Arc::new(self.setting.http2.clone());
                let server = h2::server::Connection::new(origin, config, accepted);
                Server::Http2(Box::new(server))
            }
            Protocol::Http3 => panic!("QUIC is not simulated"),
        }
    }

    /// Does the work of a driver's host after every input.
    fn serve_client(&mut self) {
        while let Some(action) = self.driver.poll_action() {
            let delay = self.setting.network.delay;
            match action {
                Action::Connect(conn) => {
                    let server = self.server(self.now + delay);
                    let side = Side {
                        server,
                        server_open: true,
                        client_open: true,
                        established: false,
                        arrives: self.now,
                    };
                    assert!(self.sides.insert(conn.0, side).is_none());
                    self.later(self.now + delay * 2, conn.0, Happening::Connected);
                }
                Action::ShutdownWrite(conn) => {
                    self.half_closed += 1;
                    self.later(self.now + delay, conn.0, Happening::ServerSeesEnd);
                }
                Action::Close(conn) | Action::Abort(conn) => {
                    self.sides.get_mut(&conn.0).unwrap().client_open = false;
                    self.later(self.now + delay, conn.0, Happening::ServerSeesEnd);
                }
            }
        }
        let open = self.sides.iter().filter(|(_, side)| side.client_open);
        let open: Vec<u32> = open.map(|(&conn, _)| conn).collect();
        self.most_open = self.most_open.max(open.len());
        for conn in open {
            let id = ConnectionId(conn);
            loop {
                let bytes = self.driver.transmit(id).to_vec();
                if bytes.is_empty() {
                    break;
                }
                assert!(self.sides[&conn].established);
                self.driver.transmitted(id, bytes.len(), self.now);
                self.writes.push(bytes.len());
                self.requests.entry(conn).or_default().extend(&bytes);
                let at = self.now + self.setting.network.delay;
                self.later(at, conn, Happening::ToServer(bytes));
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let Event {
            conn, happening, ..
        } = event;
        let delay = self.setting.network.delay;
        let now = self.now;
        let id = ConnectionId(conn);
        let side = self.sides.get_mut(&conn).unwrap();
        let client_open = side.client_open;
        match happening {
            Happening::Connected if client_open => {
                side.established = true;
                self.driver.handle_connected(id, now);
            }
            Happening::ToClient(bytes) if client_open => {
                self.driver.handle_data(id, &bytes, now);
            }
            Happening::ClientSeesEnd if client_open => self.driver.handle_eof(id, now),
            Happening::ClientSeesReset if client_open => {
                self.driver.handle_failure(id, Failure::Reset, now);
                self.forget_deliveries(conn);
            }
            // Bytes for a closed socket are answered by a reset.
            Happening::ToServer(_) if !side.server_open => {
                let mut at = now + delay;
                if !self.setting.network.resets_overtake {
                    at = at.max(side.arrives);
                }
                self.later(at, conn, Happening::ClientSeesReset);
            }
            Happening::ToServer(bytes) => {
                either!(&mut side.server, server => server.handle_data(&bytes, now));
                self.serve(conn);
            }
            Happening::ServerSeesEnd if side.server_open => {
                either!(&mut side.server, server => server.handle_eof(now));
                self.serve(conn);
            }
            _ => {}
        }
    }

    fn forget_deliveries(&mut self, conn: u32) {
        self.events.retain(|event| event.conn != conn);
    }

    /// Does the work of a server connection's host after every input.
    fn serve(&mut self, conn: u32) {
        let network = self.setting.network;
        let now = self.now;
        let mut deliveries = Vec::new();
        let side = self.sides.get_mut(&conn).unwrap();
        loop {
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = either!(&side.server, server => server.transmit(&mut slices));
            let bytes: Vec<u8> = slices[..filled]
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            if bytes.is_empty() {
                break;
            }
            either!(&mut side.server, server => server.transmitted(bytes.len(), now));
            for segment in bytes.chunks(network.segment) {
                side.arrives = side.arrives.max(now + network.delay) + network.distance;
                deliveries.push((side.arrives, Happening::ToClient(segment.to_vec())));
            }
        }
        if let Some(action) = either!(&mut side.server, server => server.poll_action()) {
            let at = side.arrives.max(now + network.delay);
            match action {
                server::Action::ShutdownWrite => deliveries.push((at, Happening::ClientSeesEnd)),
                server::Action::Close => {
                    side.server_open = false;
                    deliveries.push((at, Happening::ClientSeesEnd));
                }
                server::Action::Abort => {
                    side.server_open = false;
                    deliveries.push((at, Happening::ClientSeesReset));
                }
                server::Action::Upgrade => panic!("no upgrade was requested"),
            }
        }
        for (at, happening) in deliveries {
            self.later(at, conn, happening);
        }
    }
}

/// The number of images in the page of [`site`].
pub const IMAGES: usize = 42;

/// Returns a page like the paper's: 42 KB of HTML, also deflated, with 42 GIFs of 70 bytes to 40 KB.
pub fn site() -> Site {
    let image = |n: usize| {
        let size = match n {
            0..19 => 70 + 45 * n,
            19..32 => 1000 + 170 * (n - 19),
            32..41 => 3200 + 400 * (n - 32),
            _ => 40_960,
        };
        let mut body = b"GIF89a".to_vec();
        body.extend_from_slice(&(n as u16 + 1).to_le_bytes());
        body.extend_from_slice(&20u16.to_le_bytes());
        body.extend((0..size - body.len()).map(|byte| (byte * 7 + n) as u8));
        file(&format!("/img{n:02}.gif"), "image/gif", body)
    };
    let mut html = String::from("<html><head><title>page</title></head><body>\n");
    for n in 0..IMAGES {
        html.push_str(&format!(
            "<p><a href=\"/p{n}.html\"><img src=\"img{n:02}.gif\"></a>"
        ));
        while html.len() < (n + 1) * 1000 {
            html.push_str(&format!("some words {} of text, ", html.len() * 37 % 1009));
        }
    }
    html.push_str(
        "<img src=\"img00.gif\"><img src=\"http://elsewhere.test/x.gif\"></body></html>\n",
    );
    let mut index = file("/index.html", "text/html", html.into_bytes());
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut deflate, &index.body.bytes()).unwrap();
    let deflated = deflate.finish().unwrap().into();
    index.encoded.push((ContentCoding::Deflate, deflated));
    let mut files = vec![index];
    files.extend((0..IMAGES).map(image));
    Site {
        name: "page".to_owned(),
        pages: vec![Page {
            base: FileId(0),
            embedded: (1..files.len() as u32).map(FileId).collect(),
            named_by: Vec::new(),
        }],
        files,
    }
}

fn file(path: &str, content_type: &str, body: Vec<u8>) -> File {
    File {
        path: path.to_owned(),
        content_type: content_type.to_owned().into(),
        body: body.into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    }
}

pub fn origin(site: Site) -> Arc<Origin> {
    origin_with(site, "", "")
}

/// Creates an origin that pushes and sends hints according to these plans.
pub fn origin_with(site: Site, push: &str, early_hints: &str) -> Arc<Origin> {
    let config = OriginConfig {
        wall_clock: Duration::from_secs(900_000_000),
        push: push.parse().unwrap(),
        early_hints: early_hints.parse().unwrap(),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).unwrap())
}
