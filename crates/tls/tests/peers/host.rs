//! A session on a socket with blocking reads and writes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_tls::{ServerSettings, Session, TlsFailure};

const NOW: Instant = Instant::ZERO;

/// A time-out longer than any step of these tests.
const PATIENCE: Duration = Duration::from_secs(240);

/// A session and its transport.
pub struct Host {
    pub session: Session,
    stream: TcpStream,
    /// Data that was received and that the test has not taken yet.
    pub read: Vec<u8>,
    /// The number of bytes received as early data.
    pub early: usize,
    pub failure: Option<TlsFailure>,
}

impl Host {
    pub fn new(session: Session, stream: TcpStream) -> Host {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Host {
            session,
            stream,
            read: Vec::new(),
            early: 0,
            failure: None,
        }
    }

    /// Accepts the next connection, with a server session.
    pub fn accept(listener: &TcpListener, settings: &Arc<ServerSettings>) -> Host {
        listener.set_nonblocking(true).unwrap();
        let until = std::time::Instant::now() + PATIENCE;
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    assert!(std::time::Instant::now() < until, "no client connects");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        stream.set_nonblocking(false).unwrap();
        Host::new(Session::server(settings, NOW).unwrap(), stream)
    }

    /// Sends all pending bytes.
    pub fn flush(&mut self) {
        while self.session.wants_transmit() {
            let bytes = self.session.transmit();
            let length = bytes.len();
            // A peer that failed may already have closed the connection.
            if self.stream.write_all(bytes).is_err() {
                return;
            }
            self.session.transmitted(length);
        }
    }

    /// Sends and reads until `done` returns true. Returns false if the transport ended or the session failed first.
    pub fn until(&mut self, mut done: impl FnMut(&Host) -> bool) -> bool {
        let mut buffer = [0; 20_000];
        loop {
            self.flush();
            if done(self) {
                return true;
            }
            let length = match self.stream.read(&mut buffer) {
                Ok(length) => length,
                // A reset also counts as an end.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
                Err(error) => panic!("failed to read from the socket: {error}"),
            };
            if length == 0 {
                self.failure = self.session.handle_eof().err();
                return false;
            }
            if let Err(failure) = self.take_in(&mut buffer[..length]) {
                self.flush();
                self.failure = Some(failure);
                return false;
            }
        }
    }

    fn take_in(&mut self, mut input: &mut [u8]) -> Result<(), TlsFailure> {
        while let Some(plain) = self.session.open(&mut input, NOW)? {
            self.read.extend_from_slice(plain);
            let length = plain.len();
            if self.session.is_early() {
                self.early += length;
            }
        }
        Ok(())
    }

    pub fn until_established(&mut self) {
        let established = self.until(|host| host.session.is_established());
        assert!(established, "{:?}", self.failure);
    }

    /// Reads until this text has arrived. Returns all data read so far.
    pub fn until_read(&mut self, text: &[u8]) -> Vec<u8> {
        let came = self.until(|host| host.read.windows(text.len()).any(|window| window == text));
        assert!(
            came,
            "{:?} after {:?}",
            self.failure,
            String::from_utf8_lossy(&self.read)
        );
        std::mem::take(&mut self.read)
    }

    /// Sends `close_notify`, and waits for the peer's `close_notify` or the end of the transport.
    pub fn close(&mut self) {
        self.session.close();
        self.until(|host| host.session.is_closed_by_peer());
    }
}

/// Opens a listener on a free port; returns the listener and the port.
pub fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Connects as soon as the port is open.
pub fn connect(port: u16) -> TcpStream {
    for _ in 0..1000 {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("no process listens on port {port}");
}
