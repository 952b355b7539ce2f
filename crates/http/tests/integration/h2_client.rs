//! The HTTP/2 machines of client and server, connected to each other. Retrievals in segments of any size give
//! the same result, all content is the origin's, and both sides report the same counts.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::h1::client::Version;
use fathometer_http::h2::client::{
    Config, Connection, Content, Event, Push, RequestId, RequestLine, Scheme, Start,
};
use fathometer_http::h2::flow::{CONNECTION_WINDOW, MAX_WINDOW, UpdateAt};
use fathometer_http::h2::frame::FrameType;
use fathometer_http::h2::server::{self, ReceiveWindows, Served, ServerConfig};
use fathometer_http::h2::settings::Settings;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{Bytes, CloseReason, File, Instant, Site};
use proptest::prelude::*;

/// The sizes of the files, in bytes.
const SIZES: [usize; 8] = [0, 1, 300, 1000, 5000, 16_384, 40_000, 200_000];

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 7 + size) as u8).collect()
}

fn origin(push: &str) -> Arc<Origin> {
    let files = SIZES.map(|size| File {
        path: format!("/{size}"),
        content_type: "application/octet-stream".into(),
        body: content(size).into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    });
    let site = Site {
        name: "sizes".to_owned(),
        files: files.into(),
        pages: Vec::new(),
    };
    let config = OriginConfig {
        wall_clock: Duration::from_secs(900_000_000),
        discard: Some("/form".to_owned()),
        push: push.parse().expect("a valid push plan"),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).expect("a valid site"))
}

/// The parameters of one retrieval.
#[derive(Debug, Clone)]
struct Setting {
    /// Requested files, as indices into [`SIZES`]. A larger index is a request with content for the server to
    /// read.
    asks: Vec<usize>,
    client: Config,
    server: ServerConfig,
    /// The sizes of segments in bytes: from the client, and from the server.
    segments: (usize, usize),
    push: &'static str,
}

/// The result of a retrieval.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Status and content of every response, by request.
    answers: BTreeMap<RequestId, (u16, Vec<u8>)>,
    /// Requests in the order in which they ended, including pushed requests.
    promised: Vec<String>,
}

struct World {
    client: Connection,
    server: server::Connection,
    origin: Arc<Origin>,
    now: Instant,
    segments: (usize, usize),
    to_ask: std::vec::IntoIter<usize>,
    outcome: Outcome,
    ended: usize,
    /// The counts of each side for its exchanges.
    counted: Counted,
    served: Vec<Served>,
    content: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counted {
    request_head: u64,
    request_fields: u64,
    head: u64,
    fields: u64,
    body: u64,
    content: u64,
}

impl World {
    fn new(setting: &Setting) -> World {
        let now = Instant::from_nanos(1_000_000_000);
        let origin = origin(setting.push);
        let config = Arc::new(ServerConfig {
            events: true,
            ..setting.server.clone()
        });
        World {
            client: Connection::new(setting.client),
            server: server::Connection::new(Arc::clone(&origin), config, now),
            origin,
            now,
            segments: setting.segments,
            to_ask: setting.asks.clone().into_iter(),
            outcome: Outcome::default(),
            ended: 0,
            counted: Counted::default(),
            served: Vec::new(),
            content: content(70_000),
        }
    }

    /// Runs until no more bytes move.
    fn run(&mut self) {
        for _ in 0..1_000_000 {
            self.ask();
            let moved = self.client_to_server() | self.server_to_client();
            while let Some(served) = self.server.poll_event() {
                self.served.push(served);
            }
            if !moved && self.client.outstanding() == 0 && self.to_ask.len() == 0 {
                return;
            }
            assert!(
                moved,
                "deadlock: both sides wait for each other after {} responses",
                self.ended
            );
        }
        panic!("the retrieval does not end");
    }

    fn ask(&mut self) {
        while self.client.can_request()
            && let Some(place) = self.to_ask.next()
        {
            let size = SIZES.get(place);
            let target = size.map_or("/form".to_owned(), |size| format!("/{size}"));
            let line = RequestLine {
                method: if size.is_some() { "GET" } else { "POST" },
                target: &target,
                host: "example.org",
                version: Version::Http11,
            };
            let mut request = self.client.request(line).unwrap();
            request.field("accept", "*/*");
            let queued = match size {
                Some(_) => request.send().unwrap(),
                None => {
                    let length = Content::Sized(self.content.len() as u64);
                    let queued = request.send_with(length, false).unwrap();
                    for piece in self.content.chunks(30_000) {
                        self.client.send_content(queued.request, piece).unwrap();
                    }
                    queued
                }
            };
            self.counted.request_head += queued.head.0;
            self.counted.request_fields += queued.fields.0;
        }
        self.client.flush();
    }

    fn client_to_server(&mut self) -> bool {
        if !self.server.wants_data() {
            return false;
        }
        let bytes = self.client.transmit();
        let segment = bytes[..bytes.len().min(self.segments.0)].to_vec();
        self.client.transmitted(segment.len(), self.now);
        if !segment.is_empty() {
            self.server.handle_data(&segment, self.now);
        }
        !segment.is_empty()
    }

    fn server_to_client(&mut self) -> bool {
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = self.server.transmit(&mut slices);
        let bytes = slices[..filled].iter().flat_map(|slice| slice.iter());
        let segment: Vec<u8> = bytes.copied().take(self.segments.1).collect();
        if segment.is_empty() {
            return false;
        }
        self.server.transmitted(segment.len(), self.now);
        self.read(&segment);
        true
    }

    fn read(&mut self, segment: &[u8]) {
        let mut input = segment;
        while let Some(event) = self.client.poll(&mut input, self.now) {
            match event {
                Event::Head { request } => {
                    let status = self.client.head().status();
                    let before = self.outcome.answers.insert(request, (status, Vec::new()));
                    assert_eq!(before, None);
                }
                Event::Content { request, bytes } => {
                    let answer = self.outcome.answers.get_mut(&request).unwrap();
                    answer.1.extend_from_slice(bytes);
                }
                Event::End {
                    request, received, ..
                } => {
                    self.ended += 1;
                    let answer = &self.outcome.answers[&request];
                    assert_eq!(received.content, Bytes(answer.1.len() as u64));
                    self.counted.head += received.head.0;
                    self.counted.fields += received.fields.0;
                    self.counted.body += received.body.0;
                    self.counted.content += received.content.0;
                }
                Event::Promised {
                    request, accepted, ..
                } => {
                    let promise = self.client.promise().unwrap();
                    let promised = format!("{} {} {accepted}", request.0, promise.target);
                    self.outcome.promised.push(promised);
                }
                Event::Begin { .. } | Event::Settings | Event::Interim { .. } => {}
                other => panic!("{other:?}, error {:?}", self.client.error()),
            }
        }
        assert!(input.is_empty());
    }
}

/// Retrieves everything, and checks the invariants of every setting.
fn retrieve(setting: &Setting) -> Outcome {
    let mut world = World::new(setting);
    world.run();
    assert_eq!(world.ended, world.outcome.answers.len());
    for (place, &ask) in setting.asks.iter().enumerate() {
        let (status, body) = &world.outcome.answers[&RequestId(place as u32)];
        match SIZES.get(ask) {
            Some(&size) => assert!(*status == 200 && *body == content(size)),
            None => assert_eq!((*status, body.len()), (204, 0)),
        }
    }
    let mut served = Counted::default();
    // Refused pushes are not among the client's exchanges.
    let wanted = |served: &&Served| !served.pushed || setting.client.push == Push::Accepted;
    for exchange in world.served.iter().filter(wanted) {
        if !exchange.pushed {
            served.request_head += exchange.exchange.request_head.0;
            served.request_fields += exchange.request_fields.0;
        }
        served.head += exchange.exchange.head.0;
        served.fields += exchange.head_fields.0;
        served.body += exchange.body_frames.0;
        served.content += exchange.exchange.body.0;
    }
    assert_eq!(world.counted, served, "both sides report the same counts");
    if setting.client.push != Push::Refused {
        let traffic = world.client.received();
        assert_eq!(traffic.bytes(FrameType::DATA), Bytes(world.counted.body));
        let heads = traffic.bytes(FrameType::HEADERS) + traffic.bytes(FrameType::CONTINUATION);
        assert_eq!(heads, Bytes(world.counted.head));
    }
    let sent = world.client.sent();
    assert_eq!(
        sent.bytes(FrameType::HEADERS),
        Bytes(world.counted.request_head)
    );
    let uploads = setting.asks.iter().filter(|&&ask| ask >= SIZES.len());
    let content = 70_000 * uploads.count() as u64;
    let frames = 9 * sent.frames(FrameType::DATA);
    assert_eq!(sent.bytes(FrameType::DATA), Bytes(content + frames));
    // The client has nothing more to request.
    world.client.finish();
    let closed = world.client.poll(&mut &[][..], world.now);
    let reason = CloseReason::Finished;
    assert_eq!(closed, Some(Event::Closed { reason }));
    while world.client_to_server() {}
    assert_eq!(
        world.server.close_reason(),
        Some(server::CloseReason::ClientRequested)
    );
    drop(world.origin);
    world.outcome
}

fn client(stream_window: u32, connection_window: u32, update_at: UpdateAt) -> Config {
    Config {
        scheme: Scheme::Http,
        settings: Settings {
            initial_window_size: stream_window,
            ..Config::default().settings
        },
        connection_window,
        update_at,
        ..Config::default()
    }
}

#[test]
fn every_file_arrives_whatever_the_windows_are() {
    for (stream, connection, update_at) in [
        (65_535, 65_535, UpdateAt::Percent(50)),
        (1, 65_535, UpdateAt::Once),
        (1000, 65_535, UpdateAt::Percent(100)),
        (100_000, 70_000, UpdateAt::Bytes(10_000)),
        (MAX_WINDOW, MAX_WINDOW, UpdateAt::Percent(50)),
    ] {
        // With a window of one byte a large file would need very many frames.
        let asks = if stream == 1 {
            vec![0, 1, 2, 3, 2]
        } else {
            (0..16).map(|n| n % 9).collect()
        };
        retrieve(&Setting {
            asks,
            client: client(stream, connection, update_at),
            server: ServerConfig::default(),
            segments: (1460, 1460),
            push: "",
        });
    }
}

#[test]
fn pushed_files_arrive_with_the_page_or_not_at_all() {
    for (push, expected) in [
        (
            Push::Accepted,
            vec!["2147483649 /300 true", "2147483650 /5000 true"],
        ),
        (
            Push::Refused,
            vec!["2147483649 /300 false", "2147483650 /5000 false"],
        ),
        (Push::Disabled, vec![]),
    ] {
        let outcome = retrieve(&Setting {
            asks: vec![3],
            client: Config {
                push,
                ..client(65_535, 65_535, UpdateAt::Percent(50))
            },
            server: ServerConfig::default(),
            segments: (4000, 4000),
            push: "/1000 /300 /5000",
        });
        assert_eq!(outcome.promised, expected);
        let answers = if push == Push::Accepted { 3 } else { 1 };
        assert_eq!(outcome.answers.len(), answers);
        for (request, (status, body)) in &outcome.answers {
            let size = [300, 5000].get(request.0.wrapping_sub(0x8000_0001) as usize);
            assert_eq!((*status, body), (200, &content(*size.unwrap_or(&1000))));
        }
    }
}

#[test]
fn a_server_that_shuts_down_answers_accepted_requests() {
    let setting = Setting {
        asks: vec![3; 4],
        client: client(65_535, 65_535, UpdateAt::Percent(50)),
        server: ServerConfig::default(),
        segments: (4000, 4000),
        push: "",
    };
    let mut world = World::new(&setting);
    world.ask();
    while world.client_to_server() {}
    world.server.announce_end();
    let mut log = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = world.server.transmit(&mut slices);
        let bytes: Vec<u8> = slices[..filled].iter().flat_map(|it| it.to_vec()).collect();
        world.server.transmitted(bytes.len(), world.now);
        let mut input = &bytes[..];
        while let Some(event) = world.client.poll(&mut input, world.now) {
            log.push(format!("{event:?}"));
        }
        if bytes.is_empty() && !world.client_to_server() {
            break;
        }
    }
    let ends = log.iter().filter(|line| line.starts_with("End")).count();
    assert_eq!(ends, 4, "{log:#?}");
    assert_eq!(world.client.close_reason(), Some(CloseReason::ServerAsked));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// For any segments, the same requests give the same responses, and all counts agree.
    #[test]
    fn segments_of_any_size_make_no_difference(
        asks in prop::collection::vec(0usize..10, 1..12),
        from_client in 1usize..3000,
        from_server in 1usize..3000,
        streams in 1u32..8,
        window in 500u32..100_000,
        percent in 1u8..=100,
        await_settings in any::<bool>(),
        server_window in prop::sample::select(vec![100u32, 1000, 30_000, 65_535, 100_000]),
        table in prop::sample::select(vec![0u32, 60, 4096, 20_000]),
    ) {
        let mut client = client(window, 65_535, UpdateAt::Percent(percent));
        client.streams = streams;
        // Content that is sent before the server's window is known may overrun a window smaller than the
        // default.
        client.start = match await_settings || server_window < CONNECTION_WINDOW {
            true => Start::AwaitSettings,
            false => Start::AtOnce,
        };
        client.settings.header_table_size = table;
        client.encoder_table = table;
        let mut setting = Setting {
            asks,
            client,
            server: ServerConfig {
                receive: ReceiveWindows {
                    stream: server_window,
                    connection: 65_535,
                    update: UpdateAt::Percent(50),
                },
                decoder_table: table,
                encoder_table: table,
                ..ServerConfig::default()
            },
            segments: (from_client, from_server),
            push: "",
        };
        let cut = retrieve(&setting);
        setting.segments = (usize::MAX, usize::MAX);
        prop_assert_eq!(cut, retrieve(&setting));
    }
}
