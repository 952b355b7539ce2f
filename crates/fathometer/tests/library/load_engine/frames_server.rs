//! An HTTP/2 server in cleartext with a behaviour set by the test, correct or not.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fathometer_http::h2::error::ErrorCode;
use fathometer_http::h2::frame::{FrameType, HEADER_LENGTH, Header, flags, write};
use fathometer_http::h2::{PREFACE, StreamId};

/// The reaction to a request.
#[derive(Debug, Clone)]
pub enum Move {
    /// A response with this number of bytes of content.
    Answer(usize),
    /// A response head and this number of bytes of content, without the end of the stream.
    Part(usize),
    /// No response.
    Silence,
    /// RST_STREAM.
    Reset(ErrorCode),
    /// GOAWAY. Its last stream is this number of requests before the current request. With 0, the current request gets
    /// a response. Then the connection is closed.
    GoAway(u32, ErrorCode),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// A request as the server received it.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Number of earlier requests on its connection.
    pub before: u64,
    /// Number of earlier requests in all.
    pub number: u64,
}

type Behaviour = dyn Fn(Asked) -> Move + Send + Sync;

pub struct FramesServer {
    pub address: SocketAddr,
    asked: Arc<AtomicU64>,
    accepted: Arc<AtomicU64>,
    most_streams: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// The start of a connection on the server's side.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The SETTINGS of the server; `None`: the server never sends SETTINGS.
    pub settings: Option<Vec<(u16, u32)>>,
    /// Time without input after which the server handles all requests received so far.
    pub gathers: Duration,
    /// The delay after the server's SETTINGS, and the unrequested bytes that the server then sends.
    pub later: Option<(Duration, Vec<u8>)>,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            settings: Some(Vec::new()),
            gathers: Duration::ZERO,
            later: None,
        }
    }
}

impl FramesServer {
    pub fn start(
        opening: Opening,
        behaviour: impl Fn(Asked) -> Move + Send + Sync + 'static,
    ) -> FramesServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = FramesServer {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            accepted: Arc::default(),
            most_streams: Arc::default(),
            stop: Arc::default(),
        };
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        let (asked, accepted) = (Arc::clone(&server.asked), Arc::clone(&server.accepted));
        let (most, stop) = (Arc::clone(&server.most_streams), Arc::clone(&server.stop));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                accepted.fetch_add(1, Ordering::SeqCst);
                let (asked, most) = (Arc::clone(&asked), Arc::clone(&most));
                let (behaviour, opening) = (Arc::clone(&behaviour), opening.clone());
                thread::spawn(move || {
                    let connection = Connection {
                        stream,
                        asked: &asked,
                        most_streams: &most,
                        streams: Vec::new(),
                        before: 0,
                    };
                    // This thread ends when the client closes the connection.
                    let _ = connection.serve(&opening, &*behaviour);
                });
            }
        });
        server
    }

    /// Number of requests received.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Peak number of simultaneous streams on a connection.
    pub fn most_streams(&self) -> u64 {
        self.most_streams.load(Ordering::SeqCst)
    }
}

impl Drop for FramesServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Unblocks the accept of the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

struct Connection<'s> {
    stream: TcpStream,
    asked: &'s AtomicU64,
    most_streams: &'s AtomicU64,
    /// Requests that wait for a reaction.
    streams: Vec<StreamId>,
    before: u64,
}

impl Connection<'_> {
    fn serve(mut self, opening: &Opening, behaviour: &Behaviour) -> io::Result<()> {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface)?;
        assert_eq!(preface, PREFACE[..]);
        let mut out = Vec::new();
        if let Some(entries) = &opening.settings {
            write::settings(&mut out, entries.iter().copied());
        }
        self.stream.write_all(&out)?;
        if let Some((after, bytes)) = opening.later.clone() {
            let mut stream = self.stream.try_clone()?;
            thread::spawn(move || {
                thread::sleep(after);
                // The client may have closed the connection.
                let _ = stream.write_all(&bytes);
            });
        }
        loop {
            let header = self.header()?;
            let mut payload = vec![0; header.length as usize];
            self.stream.read_exact(&mut payload)?;
            match header.kind {
                FrameType::SETTINGS if !header.has(flags::ACK) && opening.settings.is_some() => {
                    let mut out = Vec::new();
                    write::settings_acknowledged(&mut out);
                    self.stream.write_all(&out)?;
                }
                FrameType::HEADERS => {
                    self.streams.push(header.stream);
                    let waiting = self.streams.len() as u64;
                    self.most_streams.fetch_max(waiting, Ordering::SeqCst);
                    if opening.gathers.is_zero() && !self.deal(behaviour)? {
                        return Ok(());
                    }
                }
                FrameType::GOAWAY => return Ok(()),
                _ => {}
            }
            if !opening.gathers.is_zero()
                && !self.streams.is_empty()
                && self.is_quiet(opening)?
                && !self.deal(behaviour)?
            {
                return Ok(());
            }
        }
    }

    fn header(&mut self) -> io::Result<Header> {
        let mut bytes = [0; HEADER_LENGTH];
        self.stream.read_exact(&mut bytes)?;
        Ok(Header::parse(&bytes))
    }

    /// Whether no input arrives for the gathering time.
    fn is_quiet(&mut self, opening: &Opening) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(opening.gathers))?;
        let quiet = self.stream.peek(&mut [0]).is_err();
        self.stream.set_read_timeout(None)?;
        Ok(quiet)
    }

    /// Closes the connection without a reset. Closing with unread bytes would send a reset, and the client might lose
    /// the last data.
    fn hang_up(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        self.stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        while matches!(self.stream.read(&mut [0; 4096]), Ok(1..)) {}
        Ok(())
    }

    /// Handles the waiting requests. Returns false if the connection is closed.
    fn deal(&mut self, behaviour: &Behaviour) -> io::Result<bool> {
        let mut out = Vec::new();
        for stream in std::mem::take(&mut self.streams) {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            let asked = Asked {
                before: self.before,
                number,
            };
            self.before += 1;
            match behaviour(asked) {
                Move::Answer(bytes) => answer(&mut out, stream, bytes, true),
                Move::Part(bytes) => answer(&mut out, stream, bytes, false),
                Move::Silence => {}
                Move::Reset(code) => write::reset(&mut out, stream, code),
                Move::GoAway(back, code) => {
                    let last = StreamId::new(stream.number().saturating_sub(2 * back));
                    write::go_away(&mut out, last, code, b"that is all");
                    if back == 0 {
                        answer(&mut out, stream, 10, true);
                    }
                    self.stream.write_all(&out)?;
                    self.hang_up()?;
                    return Ok(false);
                }
                Move::Bytes(bytes) => out.extend_from_slice(&bytes),
            }
        }
        self.stream.write_all(&out)?;
        Ok(true)
    }
}

/// Writes a response, complete or truncated.
pub fn answer(out: &mut Vec<u8>, stream: StreamId, bytes: usize, whole: bool) {
    let carrier = write::Carrier::Headers {
        end_stream: false,
        dependency: None,
    };
    // `:status: 200` by its index in the static table (RFC 7541 appendix A).
    write::header_block(out, stream, carrier, 16_384, |block| block.push(0x88));
    write::data_header(out, stream, bytes as u32, whole);
    out.extend(std::iter::repeat_n(b'x', bytes));
}
