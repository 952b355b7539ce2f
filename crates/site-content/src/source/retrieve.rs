//! Retrieves one file by HTTP/1.1 into memory, on a separate connection, within limits on bytes and time.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use fathometer_content::Coding;
use fathometer_http::h1::client::{Config, Connection, Event, PreparedRequest, Version};
use fathometer_load::url::Url;
use fathometer_load::without_port;
use fathometer_model::{Bytes, Instant};
use fathometer_sys::Clock;
use fathometer_tls::{ClientSettings, Session};

/// The number of bytes to read in one call.
const READ: usize = 64 * 1024;

/// Limits of one retrieval.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of bytes of content.
    pub bytes: u64,
    /// The time from the start to the last byte.
    pub time: Duration,
}

/// A file received from a server.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The content of the file, without content coding.
    pub content: Vec<u8>,
    /// The media type, in lower case and without parameters; empty if the response has none.
    pub media_type: String,
}

/// Fetches the file. Only a response with status 200 is a file; redirections are not followed.
///
/// # Errors
///
/// The reason why there is no content, as a text for the user.
pub fn retrieve(
    url: &Url,
    tls: Option<&Arc<ClientSettings>>,
    limits: Limits,
    clock: Clock,
) -> Result<Fetched, String> {
    let deadline = clock.now() + limits.time;
    let address = url.resolve().map_err(|error| error.to_string())?;
    let stream = TcpStream::connect_timeout(&address, limits.time)
        .map_err(|error| format!("cannot connect to {address}: {error}"))?;
    let session = match tls.filter(|_| url.secure) {
        Some(settings) => {
            let name = without_port(&url.authority);
            let session = Session::client(settings, name, clock.now());
            Some(session.map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let mut transport = Transport {
        stream,
        session,
        clock,
        deadline,
    };
    exchange(url, &mut transport, limits, clock)
}

fn exchange(
    url: &Url,
    transport: &mut Transport,
    limits: Limits,
    clock: Clock,
) -> Result<Fetched, String> {
    let mut config = Config::default();
    // One additional byte shows whether the content exceeds the limit.
    config.limits.body = Bytes(limits.bytes + 1);
    let mut connection = Connection::new(config);
    let fields = [
        ("User-Agent".to_owned(), "fathometer".to_owned()),
        ("Accept".to_owned(), "*/*".to_owned()),
        ("Connection".to_owned(), "close".to_owned()),
    ];
    let request = PreparedRequest::new("GET", &url.authority, Version::Http11, &fields, None)
        .map_err(|error| error.to_string())?;
    connection
        .request_prepared(&request, &url.target)
        .map_err(|error| error.to_string())?;
    connection.flush();
    let request = connection.transmit();
    transport
        .write(request)
        .map_err(|error| error.to_string())?;
    connection.transmitted(request.len(), clock.now());
    let mut content = Vec::new();
    let mut media_type = String::new();
    let mut coding = None;
    let mut buffer = vec![0; READ];
    loop {
        let length = transport
            .read(&mut buffer)
            .map_err(|error| error.to_string())?;
        let mut input = &buffer[..length];
        let mut is_eof = length == 0;
        loop {
            let Some(event) = connection.poll(&mut input, clock.now()) else {
                if !std::mem::take(&mut is_eof) {
                    break;
                }
                connection.handle_eof(clock.now());
                continue;
            };
            match event {
                Event::Head { .. } => {
                    let head = connection.head();
                    refuse(head.status(), head.field("location"))?;
                    media_type = essence(head.field("content-type"));
                    coding = head.field("content-encoding").map(<[u8]>::to_vec);
                }
                Event::Content { bytes, .. } => {
                    content.extend_from_slice(bytes);
                    if content.len() as u64 > limits.bytes {
                        return Err(too_long(limits));
                    }
                }
                Event::End { .. } => {
                    return Ok(Fetched {
                        content: decoded(content, coding.as_deref(), limits)?,
                        media_type,
                    });
                }
                Event::Failed { failure, .. } | Event::Unanswered { failure, .. } => {
                    return Err(match failure {
                        fathometer_model::Failure::TooLarge => too_long(limits),
                        failure => failure.in_words().to_string(),
                    });
                }
                _ => {}
            }
        }
        if length == 0 {
            return Err("the server sent no response".to_owned());
        }
    }
}

fn too_long(limits: Limits) -> String {
    let bytes = limits.bytes;
    format!("it is longer than {bytes} bytes (--max-file, --max-fetch)")
}

/// Returns an error for each status except 200.
fn refuse(status: u16, location: Option<&[u8]>) -> Result<(), String> {
    match (status, location) {
        (200, _) => Ok(()),
        (300..400, Some(location)) => Err(format!(
            "its status is {status}; the file is at {:?}",
            String::from_utf8_lossy(location)
        )),
        _ => Err(format!("its status is {status}")),
    }
}

fn essence(content_type: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(content_type.unwrap_or_default());
    let essence = text.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Removes a content coding that was not requested. Some servers store only coded files.
fn decoded(content: Vec<u8>, coding: Option<&[u8]>, limits: Limits) -> Result<Vec<u8>, String> {
    let coding = String::from_utf8_lossy(coding.unwrap_or_default());
    let limit = usize::try_from(limits.bytes).unwrap_or(usize::MAX - 1);
    // The level is not used for decoding.
    let coding = match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(content),
        "gzip" | "x-gzip" => Coding::Gzip(6),
        "br" => Coding::Brotli(5),
        "zstd" => Coding::Zstd(3),
        other => return Err(format!("it has the unrequested coding {other:?}")),
    };
    coding
        .decode(&content, limit)
        .map_err(|error| error.to_string())
}

/// A blocking socket, with optional TLS.
struct Transport {
    stream: TcpStream,
    session: Option<Session>,
    clock: Clock,
    deadline: Instant,
}

impl Transport {
    /// Sets the time limit of the next system call to the remaining time.
    fn limit(&self) -> io::Result<()> {
        let left = self.deadline.since(self.clock.now());
        if left.is_zero() {
            let why = "it takes longer than permitted (--timeout)";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }

    fn write(&mut self, plain: &[u8]) -> io::Result<()> {
        if self.session.is_none() {
            self.limit()?;
            return self.stream.write_all(plain).map_err(in_time);
        }
        self.send()?;
        while self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_established())
        {
            if self.receive()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if let Some(session) = &mut self.session {
            session.write(plain);
        }
        self.send()
    }

    /// Reads plaintext; 0 bytes indicate the end.
    fn read(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(session) = &mut self.session else {
                self.limit()?;
                return self.stream.read(plain).map_err(in_time);
            };
            match session.read(plain) {
                0 if session.is_closed_by_peer() => return Ok(0),
                0 => {
                    if self.receive()? == 0 {
                        // Without close_notify, a response whose end is the end of the connection may be truncated.
                        return match &mut self.session {
                            Some(session) => session.handle_eof().map(|()| 0),
                            None => Ok(0),
                        }
                        .map_err(io::Error::other);
                    }
                }
                length => return Ok(length),
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.session.as_ref().is_some_and(Session::wants_transmit) {
            self.limit()?;
            if let Some(session) = &mut self.session {
                let bytes = session.transmit();
                self.stream.write_all(bytes).map_err(in_time)?;
                let sent = bytes.len();
                session.transmitted(sent);
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.limit()?;
        let mut bytes = [0; 16 * 1024];
        let length = self.stream.read(&mut bytes).map_err(in_time)?;
        if let (Some(session), 1..) = (&mut self.session, length) {
            let received = session.receive(&bytes[..length], self.clock.now());
            self.send()?;
            received.map_err(io::Error::other)?;
        }
        Ok(length)
    }
}

/// Converts an expired time limit of the socket to a separate error.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let why = "it takes longer than permitted (--timeout)";
            io::Error::new(io::ErrorKind::TimedOut, why)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 100,
        time: Duration::from_secs(60),
    };

    #[test]
    fn an_unrequested_coding_is_removed_within_the_limit() {
        let bomb = Coding::Gzip(9).encode(&[0; 101]).unwrap();
        let small = Coding::Brotli(5).encode(b"text").unwrap();
        assert_eq!(decoded(small, Some(b" BR"), LIMITS).unwrap(), b"text");
        assert!(decoded(bomb, Some(b"gzip"), LIMITS).is_err());
        assert!(decoded(vec![1], Some(b"gzip"), LIMITS).is_err());
        assert!(decoded(vec![1], Some(b"lzma"), LIMITS).is_err());
        assert_eq!(decoded(vec![1], None, LIMITS).unwrap(), [1]);
    }

    #[test]
    fn a_redirection_is_reported_with_its_place() {
        assert!(refuse(200, None).is_ok());
        assert!(refuse(301, Some(b"/there")).unwrap_err().contains("/there"));
        assert!(refuse(304, None).is_err() && refuse(206, None).is_err());
    }
}
