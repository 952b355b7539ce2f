//! Runs the client's protocol state machine with one socket and one loop.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fathometer_http::h1::client::Version;
use fathometer_http::h2::client::{
    Config, Connection, Content, Event, Received, RequestId, RequestLine,
};
use fathometer_http::h2::frame::FrameType;
use fathometer_model::{Bytes, CloseReason};

/// Time after which a run counts as stalled.
const LONG: Duration = Duration::from_secs(240);

/// A request.
pub struct Ask {
    pub method: &'static str,
    pub target: String,
    pub content: Option<Vec<u8>>,
}

impl Ask {
    pub fn get(target: &str) -> Ask {
        Ask {
            method: "GET",
            target: target.to_owned(),
            content: None,
        }
    }
}

/// The response to a request.
#[derive(Default)]
pub struct Answer {
    pub status: u16,
    pub content: Vec<u8>,
    pub received: Received,
}

/// A connection to a server.
pub struct Host {
    pub machine: Connection,
    stream: TcpStream,
    start: Instant,
    /// The sum of all responses so far.
    sum: Received,
    /// Bytes of request heads, as the machine reported when it queued them.
    asked: u64,
    /// Bytes read from the socket.
    read: u64,
    answers: BTreeMap<RequestId, Answer>,
    ended: usize,
    /// Requests that the server did not process.
    left: usize,
    closed: bool,
}

impl Host {
    pub fn connect(address: SocketAddr, config: Config) -> Host {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        Host {
            machine: Connection::new(config),
            stream,
            start: Instant::now(),
            sum: Received::default(),
            asked: 0,
            read: 0,
            answers: BTreeMap::new(),
            ended: 0,
            left: 0,
            closed: false,
        }
    }

    /// Sends all requests, as fast as the limits allow; returns the responses in the order of the requests.
    pub fn run(&mut self, asks: Vec<Ask>) -> Vec<Answer> {
        let count = asks.len();
        self.ended = 0;
        self.work(asks, |host| host.ended == count);
        assert_eq!(self.left, 0);
        std::mem::take(&mut self.answers).into_values().collect()
    }

    /// Same as [`Host::run`], with a server that may close the connection; returns the numbers of answered and of
    /// unanswered requests.
    pub fn run_to_the_end(&mut self, asks: Vec<Ask>) -> (usize, usize) {
        let rest = self.work(asks, |host| host.closed);
        (self.ended, self.left + rest)
    }

    /// Runs the loop until `is_done`; returns the number of requests that were not sent.
    fn work(&mut self, asks: Vec<Ask>, is_done: impl Fn(&Host) -> bool) -> usize {
        let mut asks = asks.into_iter();
        let mut buffer = vec![0; 64 * 1024];
        let until = Instant::now() + LONG;
        // Sends the machine's reaction to the last bytes before the loop ends.
        while !is_done(self) || (!self.closed && !self.machine.transmit().is_empty()) {
            while self.machine.can_request()
                && let Some(ask) = asks.next()
            {
                self.ask(&ask);
            }
            self.machine.flush();
            let moved = self.write() | self.read(&mut buffer);
            if !moved {
                assert!(Instant::now() < until, "{} ended", self.ended);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        asks.len()
    }

    fn ask(&mut self, ask: &Ask) {
        let line = RequestLine {
            method: ask.method,
            target: &ask.target,
            host: "localhost",
            version: Version::Http11,
        };
        let mut request = self.machine.request(line).unwrap();
        request
            .field("accept", "*/*")
            .field("user-agent", "fathometer");
        let queued = match &ask.content {
            None => request.send().unwrap(),
            Some(content) => {
                let length = Content::Sized(content.len() as u64);
                let queued = request.send_with(length, false).unwrap();
                for piece in content.chunks(50_000) {
                    self.machine.send_content(queued.request, piece).unwrap();
                }
                queued
            }
        };
        self.asked += queued.head.0;
    }

    fn now(&self) -> fathometer_model::Instant {
        fathometer_model::Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn write(&mut self) -> bool {
        let bytes = self.machine.transmit();
        if bytes.is_empty() {
            return false;
        }
        match self.stream.write(bytes) {
            Ok(written) => {
                let now = self.now();
                self.machine.transmitted(written, now);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let now = self.now();
        match self.stream.read(buffer) {
            Ok(0) => {
                self.machine.handle_eof(now);
                self.pump(&[]);
                true
            }
            Ok(length) => {
                self.read += length as u64;
                self.pump(&buffer[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // A server that closes before it has read the last acknowledgements sends a reset. The machine
            // handles it like any other end of the connection: requests without a response have failed.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.machine.handle_eof(now);
                self.pump(&[]);
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn pump(&mut self, mut input: &[u8]) {
        let now = self.now();
        while let Some(event) = self.machine.poll(&mut input, now) {
            match event {
                Event::Begin { request } => {
                    let before = self.answers.insert(request, Answer::default());
                    assert!(before.is_none());
                }
                Event::Head { request } => {
                    let status = self.machine.head().status();
                    self.answers.get_mut(&request).unwrap().status = status;
                }
                Event::Content { request, bytes } => {
                    let answer = self.answers.get_mut(&request).unwrap();
                    answer.content.extend_from_slice(bytes);
                }
                Event::End {
                    request, received, ..
                } => {
                    self.ended += 1;
                    self.answers.get_mut(&request).unwrap().received = received;
                    self.sum.head += received.head;
                    self.sum.body += received.body;
                    self.sum.content += received.content;
                }
                Event::Unanswered { sent: false, .. } => self.left += 1,
                Event::Closed { .. } => self.closed = true,
                Event::Settings | Event::GoAway { .. } | Event::Interim { .. } => {}
                Event::Promised {
                    accepted: false, ..
                } => {}
                other => panic!("{other:?}: {:?}", self.machine.error()),
            }
        }
    }

    /// Asserts that the counts of the exchanges add up to the counts of the connection, and that these add up to the
    /// bytes read.
    pub fn check_counts(&mut self, answers: &[Answer]) {
        for answer in answers {
            let Received {
                fields, content, ..
            } = answer.received;
            assert_eq!(content, Bytes(answer.content.len() as u64));
            assert!(fields > Bytes(10), "a status at least");
        }
        let received = self.machine.received();
        assert_eq!(received.total(), Bytes(self.read));
        assert_eq!(received.bytes(FrameType::DATA), self.sum.body);
        let continued = received.bytes(FrameType::CONTINUATION);
        assert_eq!(
            received.bytes(FrameType::HEADERS) + continued,
            self.sum.head
        );
        let sent = self.machine.sent();
        assert_eq!(sent.bytes(FrameType::HEADERS), Bytes(self.asked));
        let acknowledged = sent.frames(FrameType::SETTINGS) >= 2;
        assert!(acknowledged, "the server's settings were acknowledged");
    }

    /// Sends the GOAWAY, if the server still reads.
    pub fn finish(mut self) {
        self.machine.finish();
        self.pump(&[]);
        assert_eq!(self.machine.close_reason(), Some(CloseReason::Finished));
        let close = self.machine.transmit();
        assert!(close.len() >= 17, "a GOAWAY");
        // A failure is ignored, because the server may have closed the connection.
        let _ = self.stream.write(close);
    }
}
