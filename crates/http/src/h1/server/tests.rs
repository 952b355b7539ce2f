use std::time::Duration;

use fathometer_model::{File, FileId, Page, Site};
use proptest::prelude::*;

use super::*;
use crate::origin::persona::Persona;
use crate::origin::{Method, OriginConfig};

/// A server connection and its output.
pub(super) struct Host {
    pub connection: Connection,
    pub now: Instant,
    /// The bytes of each write.
    pub writes: Vec<Vec<u8>>,
    pub actions: Vec<Action>,
    pub served: Vec<Served>,
}

impl Host {
    pub fn new(config: ServerConfig) -> Host {
        Host::with_persona(config, Persona::minimal())
    }

    pub fn with_persona(mut config: ServerConfig, persona: Persona) -> Host {
        config.events = true;
        let config = Arc::new(config);
        let origin = OriginConfig {
            persona,
            wall_clock: Duration::from_secs(784_111_777),
            discard: Some("/discard".to_owned()),
            ..OriginConfig::default()
        };
        let origin = Arc::new(Origin::new(site(), origin).unwrap());
        Host {
            connection: Connection::new(origin, config, Instant::ZERO),
            now: Instant::ZERO,
            writes: Vec::new(),
            actions: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Passes input without reading the output.
    pub fn push(&mut self, data: impl AsRef<[u8]>) -> &mut Host {
        self.connection.handle_data(data.as_ref(), self.now);
        self
    }

    /// Writes all that may be written, at most `most` bytes at a time.
    pub fn write(&mut self, most: usize) -> &mut Host {
        loop {
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = self.connection.transmit(&mut slices);
            if filled == 0 {
                break;
            }
            let mut bytes: Vec<u8> = slices[..filled]
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            bytes.truncate(most);
            self.connection.transmitted(bytes.len(), self.now);
            self.writes.push(bytes);
        }
        self.actions.extend(self.connection.poll_action());
        while let Some(served) = self.connection.poll_event() {
            self.served.push(served);
        }
        self
    }

    pub fn send(&mut self, data: impl AsRef<[u8]>) -> &mut Host {
        self.push(data).write(usize::MAX)
    }

    pub fn eof(&mut self) -> &mut Host {
        self.connection.handle_eof(self.now);
        self.write(usize::MAX)
    }

    /// Advances to the next time-out; returns how long that took.
    pub fn wait(&mut self) -> Duration {
        let at = self.connection.poll_timeout().expect("a time-out");
        let waited = at.since(self.now);
        self.now = self.now.max(at);
        self.connection.handle_timeout(self.now);
        self.write(usize::MAX);
        waited
    }

    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.writes.concat()).into_owned()
    }

    /// The status codes of all responses.
    pub fn statuses(&self) -> Vec<u16> {
        self.served.iter().map(|served| served.status).collect()
    }
}

fn site() -> Arc<Site> {
    let file = |path: &str, length: usize| File {
        path: path.to_owned(),
        content_type: "image/gif".into(),
        body: b"0123456789".repeat(length.div_ceil(10))[..length].into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    // The lengths have as many digits as the lengths of the Microscape page's files.
    let mut files = vec![file("/", 43_008), file("/a", 10), file("/big", 300_000)];
    let lengths = [(19, 500), (21, 2000), (2, 30_000)];
    for (count, length) in lengths {
        for n in 0..count {
            files.push(file(&format!("/{length}-{n}"), length));
        }
    }
    Arc::new(Site {
        name: "test".to_owned(),
        files,
        pages: vec![Page {
            base: FileId(0),
            embedded: Vec::new(),
            named_by: Vec::new(),
        }],
    })
}

pub(super) const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &str = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

pub(super) fn buffered(coalesce: Coalesce, buffer: u64) -> ServerConfig {
    ServerConfig {
        coalesce,
        output_buffer: Bytes(buffer),
        ..ServerConfig::default()
    }
}

#[test]
fn a_request_is_answered_and_the_connection_kept() {
    let mut host = Host::new(ServerConfig::default());
    host.send(GET);
    assert_eq!(
        host.output(),
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: image/gif\r\n\
         Content-Length: 10\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         ETag: \"5df9a4bb9a07b9d3\"\r\nAccept-Ranges: bytes\r\n\r\n0123456789"
            .replace("5df9a4bb9a07b9d3", &etag(&host))
    );
    assert!(host.actions.is_empty() && host.connection.wants_data());
    let served = host.served[0];
    assert_eq!(served.request_head, Bytes(GET.len() as u64));
    assert_eq!((served.body, served.file), (Bytes(10), Some(FileId(1))));
    assert_eq!(served.head.0 + served.body.0, host.output().len() as u64);
}

fn etag(host: &Host) -> String {
    let output = host.output();
    let tag = output.split("ETag: \"").nth(1).unwrap();
    tag[..16].to_owned()
}

#[test]
fn versions_and_connection_fields() {
    let table = [
        ("1.0", "", None, true),
        (
            "1.0",
            "Connection: Keep-Alive\r\n",
            Some("Keep-Alive"),
            false,
        ),
        ("1.0", "Connection: close\r\n", None, true),
        ("1.1", "", None, false),
        ("1.1", "Connection: close\r\n", Some("close"), true),
    ];
    for (version, field, expected, closes) in table {
        let mut host = Host::new(ServerConfig::default());
        host.send(format!("GET /a HTTP/{version}\r\nHost: h\r\n{field}\r\n"));
        let output = host.output();
        let connection = output
            .split("\r\n")
            .find_map(|line| line.strip_prefix("Connection: "));
        assert_eq!(connection, expected, "{version} {field}");
        assert_eq!(host.actions.contains(&Action::ShutdownWrite), closes);
    }
    let off = ServerConfig {
        keep_alive: false,
        ..ServerConfig::default()
    };
    let mut host = Host::new(off);
    host.send(GET);
    assert!(host.output().contains("Connection: close\r\n"));
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::KeepAliveOff)
    );
}

#[test]
fn pipelined_requests_are_answered_in_order_and_none_after_the_last() {
    let mut host = Host::new(ServerConfig::default());
    host.send(format!(
        "GET /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /none HTTP/1.1\r\nHost: h\r\n\r\n\r\n\
         GET /big HTTP/1.1\r\nHost: h\r\n\r\n{LAST}{GET}{GET}"
    ));
    assert_eq!(host.statuses(), [200, 404, 200, 200]);
    let files: Vec<_> = host.served.iter().map(|served| served.file).collect();
    assert_eq!(
        files,
        [Some(FileId(1)), None, Some(FileId(2)), Some(FileId(1))]
    );
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientRequested)
    );
    host.send(GET);
    assert_eq!(host.statuses().len(), 4);
}

#[test]
fn head_has_no_content() {
    let mut host = Host::new(ServerConfig::default());
    host.send("HEAD /big HTTP/1.1\r\nHost: h\r\n\r\n");
    let output = host.output();
    assert!(output.contains("Content-Length: 300000\r\n"));
    assert!(output.ends_with("\r\n\r\n"));
    assert_eq!(host.served[0].body, Bytes(0));
}

#[test]
fn head_that_is_refused_has_no_content() {
    let table = [
        ("HEAD / HTTP/1.1\r\n\r\n", 400),
        ("HEAD /\r\nHost: h\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\nHost: h\r\n\r\n", 400),
        ("HEAD /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
            413,
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789",
            413,
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx",
            400,
        ),
        ("HEAD /aaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: h\r\n\r\n", 414),
        ("HEAD / HTTP/1.1\r\nHost: h\r\nExpect: wonders\r\n\r\n", 417),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nA: b\r\nA: b\r\nA: b\r\n\r\n",
            431,
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            501,
        ),
        ("HEAD / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        // The end of the head never arrives.
        ("HEAD / HT", 408),
        ("HEAD", 408),
        (
            "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n",
            408,
        ),
    ];
    let limits = Limits {
        target: Bytes(12),
        fields: 3,
        body: Bytes(8),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    for (request, status) in table {
        for method in ["HEAD", "GET"] {
            let mut host = Host::new(config.clone());
            host.send(request.replacen("HEAD", method, 1));
            if host.writes.is_empty() {
                host.wait();
            }
            let output = host.output();
            let answer = format!("HTTP/1.1 {status} ");
            assert!(output.starts_with(&answer), "{request}: {output}");
            let content = output.split_once("\r\n\r\n").map(|(_, content)| content);
            let is_empty = content == Some("");
            assert_eq!(is_empty, method == "HEAD", "{request}: {output}");
            let served = host.served[0];
            let expected = Method::from_token(method.as_bytes());
            assert_eq!(
                (served.method, served.status),
                (expected, status),
                "{request}"
            );
            assert_eq!(served.body.0 == 0, is_empty, "{request}");
        }
    }
}

#[test]
fn request_content_is_read_whatever_its_framing() {
    let mut host = Host::new(ServerConfig::default());
    host.send(format!(
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
         PUT /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nA: b\r\n\r\n\
         POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
         GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nGET{GET}"
    ));
    assert_eq!(host.statuses(), [204, 204, 405, 200, 200]);
    let bodies: Vec<u64> = host
        .served
        .iter()
        .map(|served| served.request_body.0)
        .collect();
    assert_eq!(bodies, [5, 6, 3, 3, 0]);
    assert!(
        !host
            .output()
            .starts_with("HTTP/1.1 204 No Content\r\nContent-Length")
    );
}

#[test]
fn expectations_are_answered_before_the_content_is_read() {
    let expect = |target: &str, length: usize| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    // 100 (Continue) is never held, because the client waits for it.
    let mut host = Host::new(buffered(Coalesce::UntilInputDrained, 100_000));
    host.send(expect("/discard", 5));
    assert_eq!(host.output(), "HTTP/1.1 100 Continue\r\n\r\n");
    host.send("hello");
    assert_eq!(host.statuses(), [204]);
    assert_eq!(host.served[0].head.0, host.output().len() as u64);

    let mut host = Host::new(ServerConfig::default());
    host.send(expect("/discard", 0));
    assert!(!host.output().contains("100 Continue"));

    let mut host = Host::new(ServerConfig::default());
    host.send(expect("/a", 5));
    assert_eq!(host.statuses(), [405]);
    assert!(host.output().contains("Connection: close"));
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ContentUnwanted)
    );

    let mut host = Host::new(ServerConfig::default());
    host.send(expect("/discard", 5).replace("100-Continue", "200-ok"));
    assert_eq!(host.statuses(), [417]);

    let mut host = Host::new(ServerConfig::default());
    host.send(expect("/discard", 5).replace("1.1", "1.0") + "hello");
    assert!(host.output().starts_with("HTTP/1.1 204"));
}

#[test]
fn each_limit_has_its_status() {
    let limits = Limits {
        head: Bytes(500),
        target: Bytes(100),
        fields: 5,
        body: Bytes(10),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let host_line = "Host: h\r\n";
    let long = |length| "x".repeat(length);
    let table = [
        (
            format!("GET /{} HTTP/1.1\r\n{host_line}\r\n", long(99)),
            404,
        ),
        (
            format!("GET /{} HTTP/1.1\r\n{host_line}\r\n", long(100)),
            414,
        ),
        (format!("GET /{}", long(200)), 414),
        (
            format!("GET /{} HTTP/1.1\r\n{host_line}\r\n", long(2000)),
            414,
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host_line}A: {}\r\n\r\n", long(500)),
            431,
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host_line}A: {}", long(500)),
            431,
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host_line}{}\r\n", "A: b\r\n".repeat(4)),
            200,
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host_line}{}\r\n", "A: b\r\n".repeat(5)),
            431,
        ),
        (
            format!("GET /a HTTP/1.1\r\n{}\r\n", "If-Match: *\r\n".repeat(5)),
            431,
        ),
        (
            format!("POST /discard HTTP/1.1\r\n{host_line}Content-Length: 10\r\n\r\n0123456789"),
            204,
        ),
        (
            format!("POST /discard HTTP/1.1\r\n{host_line}Content-Length: 11\r\n\r\n"),
            413,
        ),
        (
            format!(
                "POST /discard HTTP/1.1\r\n{host_line}Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789a"
            ),
            413,
        ),
        (format!("GET /a HTTP/2.0\r\n{host_line}\r\n"), 505),
        (format!("BREW /a HTTP/1.1\r\n{host_line}\r\n"), 501),
        ("\x16\x03\x01".to_owned(), 400),
    ];
    for (input, status) in table {
        let mut host = Host::new(config.clone());
        host.send(&input);
        assert_eq!(host.statuses(), [status], "{input:?}");
        let refused = !matches!(status, 200 | 204 | 404 | 501);
        assert_eq!(!host.actions.is_empty(), refused, "{input:?}");
    }
}

#[test]
fn http_1_0_clients_get_keep_alive_parameters() {
    let config = ServerConfig {
        max_requests_per_connection: Some(3),
        ..ServerConfig::default()
    };
    let mut host = Host::with_persona(config, Persona::verbose());
    for _ in 0..3 {
        host.send("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    }
    let output = host.output();
    assert!(output.contains("Connection: Keep-Alive\r\nKeep-Alive: timeout=60, max=2\r\n"));
    assert!(output.contains("Connection: Keep-Alive\r\nKeep-Alive: timeout=60, max=1\r\n"));
    assert_eq!(output.matches("Keep-Alive: timeout").count(), 2);
    assert_eq!(output.matches("Connection: close").count(), 1);
}

#[test]
fn http_1_1_clients_get_keep_alive_parameters_if_the_persona_sends_them() {
    let sent = |persona: Persona, field: &str| {
        let mut config = ServerConfig {
            max_requests_per_connection: Some(2),
            ..ServerConfig::default()
        };
        config.limits.keep_alive = Duration::from_secs(5);
        let mut host = Host::with_persona(config, persona);
        for _ in 0..2 {
            host.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
        }
        let output = host.output();
        assert_eq!(output.matches("Connection: close").count(), 1);
        output.contains("Connection: Keep-Alive\r\nKeep-Alive: timeout=5, max=1\r\n")
    };
    let asks = "Connection: keep-alive\r\n";
    let announcing = Persona::verbose().announcing_keep_alive();
    assert!(sent(announcing.clone(), asks));
    assert!(!sent(announcing, ""));
    assert!(!sent(Persona::minimal(), asks));
    let persona = Persona::minimal().announcing_keep_alive();
    assert_eq!(persona.clone().announcing_keep_alive(), persona);
}

/// Pieces of request streams, valid and invalid.
const PIECES: [&str; 14] = [
    GET,
    LAST,
    "HEAD /big HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /500-1 HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9,300-399\r\n\r\n",
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nGET / HTTP/1",
    "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "POST /discard HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "\r\n",
    "GET /a HTTP/1.1\r\nHost: h\n\r\n",
    "GET /a HTTP/1.1\r\n Host: h\r\n\r\n",
    "GET /a HTTP/1.1\r\n\r\n",
    "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

proptest! {
    #[test]
    fn any_split_of_the_input_gives_the_same_output(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..8),
        cuts in prop::collection::vec(0usize..600, 0..12),
        coalesce in prop::sample::select(&[
            Coalesce::EachResponse,
            Coalesce::UntilInputWouldBlock,
            Coalesce::UntilInputDrained,
        ][..]),
        most in 1usize..5000,
        backlog in 0u64..2000,
    ) {
        let limits = Limits {
            head: Bytes(150),
            target: Bytes(30),
            backlog: Bytes(backlog),
            ..Limits::default()
        };
        let config = ServerConfig { limits, ..buffered(coalesce, 700) };
        let input = pieces.concat().into_bytes();
        let mut whole = Host::new(config.clone());
        whole.send(&input).eof();

        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
        cuts.sort_unstable();
        cuts.push(input.len());
        let mut split = Host::new(config);
        let mut start = 0;
        for cut in cuts {
            split.push(&input[start..cut]).write(most);
            start = cut;
        }
        split.eof();

        prop_assert_eq!(split.output(), whole.output());
        prop_assert_eq!(split.statuses(), whole.statuses());
        prop_assert_eq!(split.connection.close_reason(), whole.connection.close_reason());
        prop_assert!(split.connection.is_finished() && whole.connection.is_finished());
        // Bytes are conserved: every byte sent belongs to a recorded response.
        let recorded: u64 = split.served.iter().map(|served| served.head.0 + served.body.0).sum();
        prop_assert_eq!(recorded, split.output().len() as u64);
    }

    #[test]
    fn any_bytes_end_in_a_close(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut host = Host::new(ServerConfig::default());
        host.send(&bytes).eof();
        prop_assert!(host.connection.is_finished());
        prop_assert!(host.connection.close_reason().is_some());
    }
}
