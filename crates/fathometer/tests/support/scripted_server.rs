//! A server with a behaviour set by the test, correct or not, that records its requests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as the server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The connection, numbered from 0 in the order of acceptance.
    pub connection: u64,
    /// Number of earlier requests on this connection.
    pub before: u64,
    /// Number of earlier requests in all.
    pub number: u64,
    pub method: String,
    pub path: String,
}

/// The reaction to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A complete response with this number of bytes of content.
    Whole(usize),
    /// A response without content, with this status.
    Status(u16),
    /// These bytes; the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, then the connection is closed.
    Last(Vec<u8>),
    /// No response, ever.
    Silence,
    /// The connection is closed without a byte.
    End,
    /// The connection is reset.
    Reset,
}

type Behaviour = dyn Fn(&Seen) -> Answer + Send + Sync;

pub struct Server {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<Seen>>>,
    accepted: Arc<AtomicU64>,
    ends: Arc<Ends>,
    stop: Arc<AtomicBool>,
}

/// Numbers of connections that clients ended, by kind.
#[derive(Debug, Default)]
struct Ends {
    closed: AtomicU64,
    reset: AtomicU64,
}

impl Server {
    /// Starts a server with one thread for each connection.
    pub fn start(behaviour: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            log: Arc::default(),
            accepted: Arc::default(),
            ends: Arc::default(),
            stop: Arc::default(),
        };
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        let (log, accepted, stop) = (
            Arc::clone(&server.log),
            Arc::clone(&server.accepted),
            Arc::clone(&server.stop),
        );
        let ends = Arc::clone(&server.ends);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else {
                    continue;
                };
                let connection = accepted.fetch_add(1, Ordering::SeqCst);
                let (log, behaviour) = (Arc::clone(&log), Arc::clone(&behaviour));
                let (stop, ends) = (Arc::clone(&stop), Arc::clone(&ends));
                thread::spawn(move || serve(stream, connection, &log, &*behaviour, &ends, &stop));
            }
        });
        server
    }

    /// Returns all requests, in the order in which they were parsed.
    pub fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    /// Returns the number of connections that clients closed, and the number that clients reset.
    pub fn ended_by_client(&self) -> (u64, u64) {
        let ends = &self.ends;
        (
            ends.closed.load(Ordering::SeqCst),
            ends.reset.load(Ordering::SeqCst),
        )
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Unblocks the accept of the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    mut stream: TcpStream,
    connection: u64,
    log: &Mutex<Vec<Seen>>,
    behaviour: &Behaviour,
    tally: &Ends,
    stop: &AtomicBool,
) {
    stream.set_nodelay(true).unwrap();
    let mut input = Vec::new();
    let mut before = 0;
    let mut buffer = [0; 4096];
    loop {
        let mut output = Vec::new();
        let mut ends = false;
        while let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(input.drain(..end + 4).collect()).unwrap();
            let length = content_length(&head);
            while input.len() < length {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => input.extend_from_slice(&buffer[..read]),
                }
            }
            input.drain(..length);
            let mut words = head.split(' ');
            let seen = {
                let mut log = log.lock().unwrap();
                let seen = Seen {
                    connection,
                    before,
                    number: log.len() as u64,
                    method: words.next().unwrap().to_owned(),
                    path: words.next().unwrap().to_owned(),
                };
                log.push(seen.clone());
                seen
            };
            before += 1;
            match behaviour(&seen) {
                Answer::Whole(length) => {
                    let keeps = head.contains("HTTP/1.1") || head.contains("Keep-Alive");
                    let connection = if keeps { "keep-alive" } else { "close" };
                    ends = !keeps;
                    write!(
                        output,
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\
                         Connection: {connection}\r\n\r\n"
                    )
                    .unwrap();
                    if seen.method != "HEAD" {
                        output.resize(output.len() + length, b'x');
                    }
                }
                Answer::Status(status) => {
                    write!(output, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
                Answer::Bytes(bytes) => output.extend(bytes),
                Answer::Last(bytes) => {
                    output.extend(bytes);
                    ends = true;
                }
                Answer::Silence => {
                    while !stop.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(20));
                    }
                    return;
                }
                Answer::End => ends = true,
                Answer::Reset => {
                    fathometer_sys::socket::set_linger(&stream, Some(Duration::ZERO)).unwrap();
                    return;
                }
            }
            if ends {
                break;
            }
        }
        if stream.write_all(&output).is_err() {
            return;
        }
        if ends {
            // Waits until the client closes the connection, because closing with unread bytes would send a reset.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            while matches!(stream.read(&mut buffer), Ok(1..)) {}
            return;
        }
        let end = match stream.read(&mut buffer) {
            Ok(0) => &tally.closed,
            Err(_) => &tally.reset,
            Ok(read) => {
                input.extend_from_slice(&buffer[..read]);
                continue;
            }
        };
        end.fetch_add(1, Ordering::SeqCst);
        return;
    }
}

fn content_length(head: &str) -> usize {
    let lengths = head
        .lines()
        .filter_map(|line| line.strip_prefix("Content-Length: "));
    lengths.map(|length| length.parse::<usize>().unwrap()).sum()
}
