//! Measures the CPU time of TLS per exchange with the write pattern of HTTP/2. One write contains 16 requests of 40
//! bytes. The 16 answers have 1 KB of content and a header section of 30 bytes each.
//!
//! `cargo bench -p fathometer-tls` compares this crate's sessions with rustls's two interfaces, and with sessions that
//! send every answer in a separate record. All variants use the same cipher suite. A round takes about 1 ms. The
//! shortest of many rounds is reported. It was not interrupted, so its duration equals its CPU time.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures time"
)]

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use fathometer_model::Instant;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::rustls::client::UnbufferedClientConnection;
use fathometer_tls::rustls::pki_types::ServerName;
use fathometer_tls::rustls::server::UnbufferedServerConnection;
use fathometer_tls::rustls::unbuffered::{ConnectionState, EncodeError, EncryptError};
use fathometer_tls::rustls::{ClientConnection, ConnectionCommon, ServerConnection};
use fathometer_tls::{
    CipherSuite, ClientOptions, ClientSettings, ServerOptions, ServerSettings, Session,
    Verification,
};

const NOW: Instant = Instant::ZERO;
const REQUESTS: usize = 16;
const REQUEST: usize = 40;
const HEAD: usize = 30;
const BODY: usize = 1024;
const TURNS: usize = 50;
const ROUNDS: usize = 1000;

fn main() {
    // A smoke test (`--test`) is short.
    let short = std::env::args().any(|argument| argument == "--test");
    let (turns, rounds) = if short { (TURNS, 1) } else { (TURNS, ROUNDS) };
    println!("ns of CPU time per exchange (client, server); 16 exchanges per turn");
    for suite in [
        CipherSuite::Aes256Gcm,
        CipherSuite::Aes128Gcm,
        CipherSuite::ChaCha20Poly1305,
    ] {
        let settings = settings(suite);
        println!("{suite}");
        let rows: [(&str, Make<'_>); 4] = [
            ("session", &|| Box::new(Sessions::new(&settings, false))),
            ("session, a record each", &|| {
                Box::new(Sessions::new(&settings, true))
            }),
            ("rustls, buffered", &|| Box::new(Buffered::new(&settings))),
            ("rustls, unbuffered", &|| {
                Box::new(Unbuffered::new(&settings))
            }),
        ];
        for (name, make) in rows {
            let mut sides = make();
            let mut best = [f64::MAX; 2];
            for _ in 0..rounds {
                let spent = round(&mut *sides, turns);
                for (best, spent) in best.iter_mut().zip(spent) {
                    *best = best.min(spent.as_nanos() as f64 / (turns * REQUESTS) as f64);
                }
            }
            println!("  {name:24} {:7.0} {:7.0}", best[0], best[1]);
        }
    }
}

/// Creates both sides of an established connection.
type Make<'m> = &'m dyn Fn() -> Box<dyn Sides>;

type Settings = (Arc<ClientSettings>, Arc<ServerSettings>);

fn settings(suite: CipherSuite) -> Settings {
    let time = Duration::from_secs(1_790_000_000);
    let authority = Authority::new(Lifetime::around(time, Duration::from_secs(86_400))).unwrap();
    let identity = authority.issue(&Issue::new(["bench.test"])).unwrap();
    let mut client = ClientOptions::new(Verification::Roots(authority.roots()), time);
    client.cipher_suites = vec![suite];
    let server = ServerOptions::new(identity, time);
    (
        ClientSettings::new(client).unwrap(),
        ServerSettings::new(server).unwrap(),
    )
}

/// Both sides of a connection. Each side reads the bytes that the other side wrote. A read returns the number of bytes.
trait Sides {
    fn client_writes(&mut self, requests: &[u8]);
    fn server_reads(&mut self) -> usize;
    fn server_writes(&mut self, head: &[u8], body: &[u8]);
    fn client_reads(&mut self) -> usize;
}

/// Runs `turns` turns of exchanges; returns the CPU time of each side.
fn round(sides: &mut dyn Sides, turns: usize) -> [Duration; 2] {
    let (requests, head, body) = ([b'r'; REQUESTS * REQUEST], [b'h'; HEAD], [b'b'; BODY]);
    let mut spent = [Duration::ZERO; 2];
    for _ in 0..turns {
        let from = Clock::now();
        sides.client_writes(&requests);
        let written = Clock::now();
        assert_eq!(sides.server_reads(), requests.len());
        for _ in 0..REQUESTS {
            sides.server_writes(&head, &body);
        }
        let answered = Clock::now();
        assert_eq!(sides.client_reads(), REQUESTS * (HEAD + BODY));
        let read = Clock::now();
        spent[0] += written - from + (read - answered);
        spent[1] += answered - written;
    }
    spent
}

/// A simulated transport: the written bytes that have not been read.
type Wire = Vec<u8>;

struct Sessions {
    client: Session,
    server: Session,
    up: Wire,
    down: Wire,
    record_each: bool,
}

impl Sessions {
    fn new((client, server): &Settings, record_each: bool) -> Sessions {
        let mut sessions = Sessions {
            client: Session::client(client, "bench.test", NOW).unwrap(),
            server: Session::server(server, NOW).unwrap(),
            up: Wire::new(),
            down: Wire::new(),
            record_each,
        };
        while sessions.client.wants_transmit() || sessions.server.wants_transmit() {
            leave(&mut sessions.client, &mut sessions.up);
            arrive(&mut sessions.server, &mut sessions.up);
            leave(&mut sessions.server, &mut sessions.down);
            arrive(&mut sessions.client, &mut sessions.down);
        }
        sessions
    }
}

fn leave(session: &mut Session, wire: &mut Wire) {
    let bytes = session.transmit();
    wire.extend_from_slice(bytes);
    let bytes = bytes.len();
    session.transmitted(bytes);
}

fn arrive(session: &mut Session, wire: &mut Wire) -> usize {
    let mut input = &mut wire[..];
    let mut read = 0;
    while let Some(plain) = session.open(&mut input, NOW).unwrap() {
        read += std::hint::black_box(plain).len();
    }
    wire.clear();
    read
}

impl Sides for Sessions {
    fn client_writes(&mut self, requests: &[u8]) {
        self.client.write(requests);
        leave(&mut self.client, &mut self.up);
    }

    fn server_reads(&mut self) -> usize {
        arrive(&mut self.server, &mut self.up)
    }

    fn server_writes(&mut self, head: &[u8], body: &[u8]) {
        self.server.write(head);
        self.server.write(body);
        if self.record_each {
            leave(&mut self.server, &mut self.down);
        }
    }

    fn client_reads(&mut self) -> usize {
        leave(&mut self.server, &mut self.down);
        arrive(&mut self.client, &mut self.down)
    }
}

struct Buffered {
    client: ClientConnection,
    server: ServerConnection,
    up: Wire,
    down: Wire,
    /// The writes of one turn, joined, because rustls seals a record for each write.
    turn: Vec<u8>,
    plain: Vec<u8>,
}

impl Buffered {
    fn new((client, server): &Settings) -> Buffered {
        let name = ServerName::try_from("bench.test").unwrap();
        let mut sides = Buffered {
            client: ClientConnection::new(client.quic_config(&[]).unwrap(), name).unwrap(),
            server: ServerConnection::new(server.quic_config(&[]).unwrap()).unwrap(),
            up: Wire::new(),
            down: Wire::new(),
            turn: Vec::new(),
            plain: vec![0; 64 * 1024],
        };
        sides.client.set_buffer_limit(None);
        sides.server.set_buffer_limit(None);
        while sides.client.wants_write() || sides.server.wants_write() {
            while sides.client.wants_write() {
                sides.client.write_tls(&mut sides.up).unwrap();
            }
            take_in(&mut sides.server, &mut sides.up, &mut sides.plain);
            while sides.server.wants_write() {
                sides.server.write_tls(&mut sides.down).unwrap();
            }
            take_in(&mut sides.client, &mut sides.down, &mut sides.plain);
        }
        sides
    }
}

fn take_in<D>(connection: &mut ConnectionCommon<D>, wire: &mut Wire, plain: &mut [u8]) -> usize {
    let mut rest = &wire[..];
    let mut read = 0;
    while !rest.is_empty() {
        connection.read_tls(&mut rest).unwrap();
        let state = connection.process_new_packets().unwrap();
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let length = connection.reader().read(plain).unwrap();
            std::hint::black_box(&plain[..length]);
            left -= length;
            read += length;
        }
    }
    wire.clear();
    read
}

impl Sides for Buffered {
    fn client_writes(&mut self, requests: &[u8]) {
        self.client.writer().write_all(requests).unwrap();
        while self.client.wants_write() {
            self.client.write_tls(&mut self.up).unwrap();
        }
    }

    fn server_reads(&mut self) -> usize {
        take_in(&mut self.server, &mut self.up, &mut self.plain)
    }

    fn server_writes(&mut self, head: &[u8], body: &[u8]) {
        self.turn.extend_from_slice(head);
        self.turn.extend_from_slice(body);
        if self.turn.len() < REQUESTS * (HEAD + BODY) {
            return;
        }
        self.server.writer().write_all(&self.turn).unwrap();
        self.turn.clear();
        while self.server.wants_write() {
            self.server.write_tls(&mut self.down).unwrap();
        }
    }

    fn client_reads(&mut self) -> usize {
        take_in(&mut self.client, &mut self.down, &mut self.plain)
    }
}

struct Unbuffered {
    client: UnbufferedClientConnection,
    server: UnbufferedServerConnection,
    up: Wire,
    down: Wire,
    turn: Vec<u8>,
}

/// Reads the bytes on a wire, and writes replies and the given content. Returns the number of bytes read. It is a
/// macro, because rustls's client and server connections have methods of the same names but no common trait.
macro_rules! pass {
    ($connection:expr, $wire:expr, $out:expr, $content:expr) => {{
        let (mut taken, mut read, mut content): (usize, usize, &[u8]) = (0, 0, $content);
        loop {
            let status = $connection.process_tls_records(&mut $wire[taken..]);
            let mut discard = status.discard;
            match status.state.unwrap() {
                ConnectionState::EncodeTlsData(mut data) => {
                    let start = $out.len();
                    while let Err(EncodeError::InsufficientSize(needed)) =
                        data.encode(&mut $out[start..])
                    {
                        $out.resize(start + needed.required_size, 0);
                    }
                }
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.unwrap();
                        discard += record.discard;
                        read += std::hint::black_box(record.payload).len();
                    }
                }
                ConnectionState::WriteTraffic(mut traffic) if !content.is_empty() => {
                    let start = $out.len();
                    $out.resize(start + content.len() + 1024, 0);
                    match traffic.encrypt(content, &mut $out[start..]) {
                        Ok(written) => $out.truncate(start + written),
                        Err(EncryptError::InsufficientSize(_)) => unreachable!("there is room"),
                        Err(error) => panic!("{error}"),
                    }
                    content = &[];
                }
                _ => break,
            }
            taken += discard;
        }
        $wire.clear();
        read
    }};
}

impl Unbuffered {
    fn new((client, server): &Settings) -> Unbuffered {
        let name = ServerName::try_from("bench.test").unwrap();
        let client = client.quic_config(&[]).unwrap();
        let mut sides = Unbuffered {
            client: UnbufferedClientConnection::new(client, name).unwrap(),
            server: UnbufferedServerConnection::new(server.quic_config(&[]).unwrap()).unwrap(),
            up: Wire::new(),
            down: Wire::new(),
            turn: Vec::new(),
        };
        for _ in 0..3 {
            let _: usize = pass!(sides.client, sides.down, sides.up, &[]);
            let _: usize = pass!(sides.server, sides.up, sides.down, &[]);
        }
        sides
    }
}

impl Sides for Unbuffered {
    fn client_writes(&mut self, requests: &[u8]) {
        pass!(self.client, self.down, self.up, requests);
    }

    fn server_reads(&mut self) -> usize {
        pass!(self.server, self.up, self.down, &[])
    }

    fn server_writes(&mut self, head: &[u8], body: &[u8]) {
        self.turn.extend_from_slice(head);
        self.turn.extend_from_slice(body);
        if self.turn.len() < REQUESTS * (HEAD + BODY) {
            return;
        }
        pass!(self.server, self.up, self.down, &self.turn);
        self.turn.clear();
    }

    fn client_reads(&mut self) -> usize {
        pass!(self.client, self.down, self.up, &[])
    }
}
