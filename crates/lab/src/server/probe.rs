//! Checks whether a server answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use fathometer_http::h2;
use fathometer_http::h2::frame::FrameType;
use fathometer_model::Instant;
use fathometer_sys::socket;
use fathometer_tls::{ClientOptions, ClientSettings, Session, Verification};

use super::Access;
use super::definition::{Generation, Program};

/// The timeout of a connection attempt, and of the wait for a response.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The size of the read buffer, in bytes.
const READ: usize = 4096;

/// The check that a server must pass before it counts as started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready<'a> {
    /// The path of the request that the server must answer.
    path: &'a str,
    /// Whether the server must answer a request of HTTP/1.1. Otherwise the first HTTP/2 frame is sufficient.
    http1: bool,
    tls: bool,
}

impl<'a> Ready<'a> {
    /// The check of a program.
    pub fn of(program: &'a Program, access: Access<'_>) -> Ready<'a> {
        let tls = access.is_tls();
        Ready {
            path: &program.ready,
            http1: program.versions(tls).contains(&Generation::HTTP1),
            tls,
        }
    }

    /// The check of the embedded origin.
    pub fn ours(access: Access<'_>) -> Ready<'static> {
        Ready {
            path: "/",
            http1: true,
            tls: access.is_tls(),
        }
    }

    /// Sends a request. Returns whether a response arrives that is not a server error. A proxy returns a server error
    /// while its origin does not listen yet.
    pub fn is_reached(self, address: SocketAddr) -> bool {
        TcpStream::connect_timeout(&address, ANSWER_WITHIN).is_ok_and(|stream| self.answers(stream))
    }

    fn answers(self, stream: TcpStream) -> bool {
        // Reset the connection, so that no connection in TIME_WAIT is counted later.
        let _ = socket::set_linger(&stream, Some(Duration::ZERO));
        let _ = stream.set_read_timeout(Some(ANSWER_WITHIN));
        let asked = match self.tls {
            false => self.asks(stream),
            true => Secured::new(stream, self.http1).and_then(|stream| self.asks(stream)),
        };
        asked.unwrap_or(false)
    }

    fn asks(self, mut stream: impl Read + Write) -> io::Result<bool> {
        if !self.http1 {
            return begins_http2(stream);
        }
        let request = format!(
            "HEAD {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: fathometer\r\n\r\n",
            self.path
        );
        stream.write_all(request.as_bytes())?;
        let mut status = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut status)?;
        Ok(status.starts_with(b"HTTP/1.") && matches!(status[9], b'1'..=b'4'))
    }
}

/// Whether the server's first frame is SETTINGS.
fn begins_http2(mut stream: impl Read + Write) -> io::Result<bool> {
    let mut begin = h2::PREFACE.to_vec();
    h2::frame::write::settings(&mut begin, std::iter::empty());
    stream.write_all(&begin)?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    Ok(header[3] == FrameType::SETTINGS.0 && header[4..] == [0; 5])
}

/// A TLS connection that does not verify the certificate.
struct Secured {
    stream: TcpStream,
    session: Session,
}

impl Secured {
    fn new(stream: TcpStream, http1: bool) -> io::Result<Secured> {
        let mut options = ClientOptions::new(Verification::Off, Duration::ZERO);
        let protocol = if http1 { &b"http/1.1"[..] } else { b"h2" };
        options.alpn = vec![protocol.to_vec()];
        let settings = ClientSettings::new(options).map_err(io::Error::other)?;
        let session =
            Session::client(&settings, "localhost", Instant::ZERO).map_err(io::Error::other)?;
        Ok(Secured { stream, session })
    }

    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_transmit() {
            let bytes = self.session.transmit();
            self.stream.write_all(bytes)?;
            let sent = bytes.len();
            self.session.transmitted(sent);
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; READ];
        match self.stream.read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                let received = self.session.receive(&bytes[..length], Instant::ZERO);
                self.send()?;
                received.map(drop).map_err(io::Error::other)
            }
        }
    }
}

impl Read for Secured {
    fn read(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.read(plain) {
                0 => self.receive()?,
                length => return Ok(length),
            }
        }
    }
}

impl Write for Secured {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.send()?;
        while !self.session.is_established() {
            self.receive()?;
        }
        let taken = self.session.write(plain);
        self.send()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answered_by(http1: bool, response: &'static [u8]) -> (bool, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let taken = stream.read(&mut request).unwrap();
            stream.write_all(response).unwrap();
            request[..taken].to_vec()
        });
        let ready = Ready {
            path: "/there",
            http1,
            tls: false,
        };
        let is_ready = ready.is_reached(address);
        (is_ready, server.join().unwrap())
    }

    #[test]
    fn any_response_but_5xx_shows_that_a_server_is_ready() {
        for (response, expected) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], true),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", true),
            (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", false),
            (b"SSH-2.0-OpenSSH_9.2\r\n", false),
            (b"HTTP/1.1 2", false),
        ] {
            let (ready, request) = answered_by(true, response);
            assert_eq!(ready, expected, "{response:?}");
            assert!(request.starts_with(b"HEAD /there HTTP/1.1\r\n"));
        }
    }

    #[test]
    fn a_server_of_http2_alone_is_ready_when_it_sends_its_settings() {
        let (ready, request) = answered_by(false, b"\0\0\0\x04\0\0\0\0\0");
        assert!(ready);
        assert!(request.starts_with(h2::PREFACE));
        assert!(!answered_by(false, b"HTTP/1.1 400 Bad Request\r\n\r\n").0);
    }
}
